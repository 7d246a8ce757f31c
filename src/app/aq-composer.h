/* SPDX-License-Identifier: Apache-2.0 */
/* Where a question is written: the field, the files attached to it, Send and Stop. */
#pragma once

#include <adwaita.h>

#include "aq-chat.h"

G_BEGIN_DECLS

/* More than that in one go (pasted, dropped) becomes a file: a text view lays out long text for seconds. */
#define AQ_COMPOSER_PASTE_BYTES (16u << 10)
/* And no more than that is written in the field in all. */
#define AQ_COMPOSER_TEXT_BYTES (256u << 10)

#define AQ_TYPE_COMPOSER (aq_composer_get_type())
G_DECLARE_FINAL_TYPE(AqComposer, aq_composer, AQ, COMPOSER, AdwBin)

/* Signals: "changed" (text or files are other ones); "drafted" (they have been quiet for a moment, and were kept). The buttons activate
 * actions "chat.send", "chat.stop" and "chat.settings" of a parent. */

/** Once: whose draft is written here. */
void aq_composer_set_chat(AqComposer *self, AqChat *chat);
/** What is written; free it. */
char *aq_composer_get_text(AqComposer *self);
void aq_composer_clear(AqComposer *self);
void aq_composer_focus(AqComposer *self);
/** Put text where the cursor is, or attach it when it is long. */
void aq_composer_insert(AqComposer *self, const char *text);
/** Read the files (GSList of GFile) and attach them; what is wrong with one is told in the composer. */
void aq_composer_attach(AqComposer *self, GSList *files);
/** Whether there is something to send; *ret_why (may be NULL): why it cannot be, for people, or NULL. */
gboolean aq_composer_can_send(AqComposer *self, const char **ret_why);
void aq_composer_show_busy(AqComposer *self, gboolean busy, const char *send_tooltip);

G_END_DECLS
