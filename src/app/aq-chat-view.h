/* SPDX-License-Identifier: Apache-2.0 */
/* The widget of one chat. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHAT_VIEW (aq_chat_view_get_type())
G_DECLARE_FINAL_TYPE(AqChatView, aq_chat_view, AQ, CHAT_VIEW, AdwBin)

/** One chat: messages and the field to write in. Actions chat.send, chat.stop. */
AqChatView *aq_chat_view_new(AqChat *chat);
AqChat *aq_chat_view_get_chat(AqChatView *self);
void aq_chat_view_focus_entry(AqChatView *self);
/** Scroll to a message, once it is there. */
void aq_chat_view_show_message(AqChatView *self, gint64 message);

/** Search in this chat for a text (NULL: for what was looked for last), beginning at a message (0: at the newest place). */
void aq_chat_view_find(AqChatView *self, const char *text, gint64 message);

G_END_DECLS
