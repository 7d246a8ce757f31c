/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of the window, made from inside: the same on X11, Wayland and with no screen to look at. */
#pragma once

#include "aq-window.h"

G_BEGIN_DECLS

/** Show a page, wait until it has what it shows (for "chat": an answer to the question asked), write the PNG and close the window.
 * *ret_status becomes 1 and a sentence is printed when that cannot be. */
void aq_shot_start(AqWindow *window, AqEngineHost *host, const char *page, const char *file,
                   const char *ask, gboolean kept, int *ret_status);

/** How a picture looks: words dark, rtl, large (text of one and a half times its size) with commas between. Before the window is made. */
gboolean aq_shot_look_known(const char *look);
void aq_shot_set_look(const char *look); /* NULL: as it is */

G_END_DECLS
