/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the first start. Main thread. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

#define AQ_TYPE_WELCOME (aq_welcome_get_type())
G_DECLARE_FINAL_TYPE(AqWelcome, aq_welcome, AQ, WELCOME, AdwDialog)

/** What the app is and what it found on this PC. Signals: "guide" (the guide is to answer; it closes first); a model is opened by the
 * action app.open. has_guide: whether there is a guide model to chat with. */
AqWelcome *aq_welcome_new(gboolean has_guide);
/** Whether it has not been shown yet; from then on it has. settings may be NULL: not shown, since it could not be kept. */
gboolean aq_welcome_due(GSettings *settings);

G_END_DECLS
