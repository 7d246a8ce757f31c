/* SPDX-License-Identifier: Apache-2.0 */
/* A chat: its messages, its title, the answer under way. Main thread. */
#pragma once

#include "aq-engine-host.h"
#include "aq-message.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHAT (aq_chat_get_type())
G_DECLARE_FINAL_TYPE(AqChat, aq_chat, AQ, CHAT, GObject)

/* Properties: "title" (string), "busy" (an answer is under way), "empty" (no message yet). */
AqChat *aq_chat_new(AqEngineHost *host);
const char *aq_chat_get_title(AqChat *self);
gboolean aq_chat_get_busy(AqChat *self);
gboolean aq_chat_get_empty(AqChat *self);
GListModel *aq_chat_get_messages(AqChat *self); /* of AqMessage; borrowed */
AqEngineHost *aq_chat_get_host(AqChat *self);
/** A question, and the answer to it. FALSE when that is not possible now: no model, an answer under way, nothing but white space. */
gboolean aq_chat_send(AqChat *self, const char *text);
/** Another answer to the last question, in the place of the one that is there. */
gboolean aq_chat_ask_again(AqChat *self);
void aq_chat_stop(AqChat *self);
void aq_chat_set_temperature(AqChat *self, double temperature);
/** The messages up to n as the engine takes them, `[{"role":…,"content":…},…]`; answers that failed are left out. Free it. */
char *aq_chat_to_json(AqChat *self, guint n);

G_END_DECLS
