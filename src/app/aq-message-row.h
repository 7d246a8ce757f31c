/* SPDX-License-Identifier: Apache-2.0 */
/* The widget of one message. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-message.h"

G_BEGIN_DECLS

#define AQ_TYPE_MESSAGE_ROW (aq_message_row_get_type())
G_DECLARE_FINAL_TYPE(AqMessageRow, aq_message_row, AQ, MESSAGE_ROW, GtkListBoxRow)

/** The widget of one message. Its buttons use the actions chat.ask-again and app.new-chat. */
AqMessageRow *aq_message_row_new(AqMessage *message);
/** Only the last answer of a chat can be asked again. */
void aq_message_row_set_last(AqMessageRow *self, gboolean last);

G_END_DECLS
