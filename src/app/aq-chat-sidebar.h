/* SPDX-License-Identifier: Apache-2.0 */
/* All chats by date, and the search in all of them. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chats.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHAT_SIDEBAR (aq_chat_sidebar_get_type())
G_DECLARE_FINAL_TYPE(AqChatSidebar, aq_chat_sidebar, AQ, CHAT_SIDEBAR, AdwBin)

/* Signals: "selected" (AqChat *), "activated" (AqChat *, gint64 message: to go to, 0 = none), "delete" and "export" (AqChat *). */
void aq_chat_sidebar_set_chats(AqChatSidebar *self, AqChats *chats);
AqChat *aq_chat_sidebar_get_selected(AqChatSidebar *self); /* or NULL; borrowed */
void aq_chat_sidebar_select(AqChatSidebar *self, AqChat *chat);
void aq_chat_sidebar_search(AqChatSidebar *self);

/** The folder that is shown, or NULL: all chats. Borrowed. */
const char *aq_chat_sidebar_get_folder(AqChatSidebar *self);
/** What is searched for in all chats. */
const char *aq_chat_sidebar_get_search(AqChatSidebar *self);

G_END_DECLS
