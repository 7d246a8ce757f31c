/* SPDX-License-Identifier: Apache-2.0 */
/* Something is under way: turns, or stands still where the desktop asks for no animations. Main thread. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

#define AQ_TYPE_BUSY (aq_busy_get_type())
G_DECLARE_FINAL_TYPE(AqBusy, aq_busy, AQ, BUSY, AdwBin)

G_END_DECLS
