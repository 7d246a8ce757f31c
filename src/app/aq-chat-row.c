/* SPDX-License-Identifier: Apache-2.0 */
/* A chat in the sidebar: its title, whether an answer is under way, a button that deletes it. */
#include "aq-chat-row.h"

#include <glib/gi18n.h>

struct _AqChatRow {
    GtkListBoxRow parent;
    GtkWidget *title, *busy, *delete;
    AqChat *chat;
};

G_DEFINE_FINAL_TYPE(AqChatRow, aq_chat_row, GTK_TYPE_LIST_BOX_ROW)

static guint signal_delete;

static void on_title(AqChatRow *self)
{
    const char *title = aq_chat_get_title(self->chat);
    g_autofree char *what = g_strdup_printf(_("Delete “%s”"), title);
    gtk_label_set_text(GTK_LABEL(self->title), title);
    gtk_widget_set_tooltip_text(GTK_WIDGET(self), title);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL, title, -1);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->delete), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   what, -1);
}

static void on_busy(AqChatRow *self)
{
    gtk_widget_set_visible(self->busy, aq_chat_get_busy(self->chat));
}

static void on_delete(AqChatRow *self)
{
    g_signal_emit(self, signal_delete, 0);
}

AqChat *aq_chat_row_get_chat(AqChatRow *self)
{
    return self->chat;
}

static void aq_chat_row_dispose(GObject *object)
{
    AqChatRow *self = AQ_CHAT_ROW(object);
    g_clear_object(&self->chat);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_CHAT_ROW);
    G_OBJECT_CLASS(aq_chat_row_parent_class)->dispose(object);
}

static void aq_chat_row_class_init(AqChatRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_chat_row_dispose;
    signal_delete = g_signal_new("delete", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                 NULL, NULL, G_TYPE_NONE, 0);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-chat-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, title);
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, busy);
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, delete);
    gtk_widget_class_bind_template_callback(widget_class, on_delete);
}

static void aq_chat_row_init(AqChatRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqChatRow *aq_chat_row_new(AqChat *chat)
{
    AqChatRow *self = g_object_new(AQ_TYPE_CHAT_ROW, NULL);
    self->chat = g_object_ref(chat);
    g_signal_connect_object(chat, "notify::title", G_CALLBACK(on_title), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::busy", G_CALLBACK(on_busy), self, G_CONNECT_SWAPPED);
    on_title(self);
    on_busy(self);
    return self;
}
