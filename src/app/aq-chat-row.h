/* SPDX-License-Identifier: Apache-2.0 */
/* A chat in the sidebar. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHAT_ROW (aq_chat_row_get_type())
G_DECLARE_FINAL_TYPE(AqChatRow, aq_chat_row, AQ, CHAT_ROW, GtkListBoxRow)

/* Signals "delete", "move" and "export": what the user wants done with the chat. Actions row.rename, row.delete, row.move, row.export. */
AqChatRow *aq_chat_row_new(AqChat *chat);
AqChat *aq_chat_row_get_chat(AqChatRow *self);

G_END_DECLS
