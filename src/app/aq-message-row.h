/* SPDX-License-Identifier: Apache-2.0 */
/* The widget of one message. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-chat.h"
#include "aq-find.h"

G_BEGIN_DECLS

#define AQ_TYPE_MESSAGE_ROW (aq_message_row_get_type())
G_DECLARE_FINAL_TYPE(AqMessageRow, aq_message_row, AQ, MESSAGE_ROW, GtkListBoxRow)

/** The widget of a message in a chat. Actions message.copy, edit, again, continue, delete, previous, next. */
AqMessageRow *aq_message_row_new(AqChat *chat, AqMessage *message);
AqMessage *aq_message_row_get_message(AqMessageRow *self);
/** The last one can be asked again and continued at a glance. */
void aq_message_row_set_last(AqMessageRow *self, gboolean last);

/** Mark what is looked for; NULL: nothing. */
void aq_message_row_set_find(AqMessageRow *self, AqFind *find);
/** Go to a place of the message's text, or of its thinking, which is unfolded; place NULL: none. As aq_markdown_view_go_to. */
GtkWidget *aq_message_row_go_to(AqMessageRow *self, gboolean thinking, const AqFindPlace *place,
                                graphene_rect_t *ret);

G_END_DECLS
