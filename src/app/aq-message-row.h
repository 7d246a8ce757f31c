/* SPDX-License-Identifier: Apache-2.0 */
/* The widget of one message. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_MESSAGE_ROW (aq_message_row_get_type())
G_DECLARE_FINAL_TYPE(AqMessageRow, aq_message_row, AQ, MESSAGE_ROW, GtkListBoxRow)

/** The widget of a message in a chat. Actions message.copy, edit, again, continue, delete, previous, next. */
AqMessageRow *aq_message_row_new(AqChat *chat, AqMessage *message);
AqMessage *aq_message_row_get_message(AqMessageRow *self);
/** The last one can be asked again and continued at a glance. */
void aq_message_row_set_last(AqMessageRow *self, gboolean last);

G_END_DECLS
