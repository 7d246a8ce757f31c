/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of the window, made from inside: the same on X11, Wayland and with no screen to look at. */
#pragma once

#include "aq-window.h"

G_BEGIN_DECLS

/** Show a page, wait until it has what it shows (for "chat": an answer to the question asked), write the PNG and close the window.
 * *ret_status becomes 1 and a sentence is printed when that cannot be. */
void aq_shot_start(AqWindow *window, AqEngineHost *host, const char *page, const char *file,
                   const char *ask, gboolean kept, int *ret_status);

G_END_DECLS
