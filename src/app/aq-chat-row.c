/* SPDX-License-Identifier: Apache-2.0 */
/* A chat in the sidebar: its title, whether an answer is under way, a menu of what can be done with it (also by F2, Delete, the Menu key
 * and a right click). */
#include "aq-chat-row.h"

#include <adwaita.h>
#include <glib/gi18n.h>

#include "aq-busy.h"
#include "aq-menu.h"

struct _AqChatRow {
    GtkListBoxRow parent;
    GtkWidget *title, *busy, *unread, *menu;
    AqChat *chat;
};

G_DEFINE_FINAL_TYPE(AqChatRow, aq_chat_row, GTK_TYPE_LIST_BOX_ROW)

static guint signal_delete, signal_export, signal_move;

static void on_title(AqChatRow *self)
{
    const char *title = aq_chat_get_title(self->chat);
    g_autofree char *what = g_strdup_printf(_("Menu of “%s”"), title);
    gtk_label_set_text(GTK_LABEL(self->title), title);
    gtk_widget_set_tooltip_text(GTK_WIDGET(self), title);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL, title, -1);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->menu), GTK_ACCESSIBLE_PROPERTY_LABEL, what,
                                   -1);
}

/* An answer under way turns; one that ended while nobody looked leaves a dot. */
static void on_busy(AqChatRow *self)
{
    gboolean busy = aq_chat_get_busy(self->chat);
    gboolean unread = !busy && aq_chat_get_unread(self->chat);
    gtk_widget_set_visible(self->busy, busy);
    gtk_widget_set_visible(self->unread, unread);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION,
                                   busy     ? _("An answer is being written")
                                   : unread ? _("A new answer")
                                            : "",
                                   -1);
}

static GdkContentProvider *on_drag(GtkDragSource *source, double x, double y, AqChatRow *self)
{
    return gdk_content_provider_new_typed(AQ_TYPE_CHAT, self->chat);
}

static void on_drag_begin(GtkDragSource *source, GdkDrag *drag, AqChatRow *self)
{
    g_autoptr(GdkPaintable) picture = gtk_widget_paintable_new(GTK_WIDGET(self));
    gtk_drag_source_set_icon(source, picture, 0, 0);
}

/* ---- menu ----------------------------------------------------------------------------------- */

static const AqMenuItem menu_items[] = {
    {N_("_Rename…"), "row.rename"},
    {N_("_Move to Folder…"), "row.move"},
    {N_("_Export…"), "row.export"},
    {N_("_Delete"), "row.delete"},
};

static void delete_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    g_signal_emit(widget, signal_delete, 0);
}

static void export_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    g_signal_emit(widget, signal_export, 0);
}

static void move_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    g_signal_emit(widget, signal_move, 0);
}

static void rename_done(AdwAlertDialog *dialog, const char *response, AqChat *chat)
{
    GtkWidget *entry = adw_alert_dialog_get_extra_child(dialog);
    if (g_str_equal(response, "rename"))
        aq_chat_set_title(chat, gtk_editable_get_text(GTK_EDITABLE(entry)));
}

static void rename_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqChatRow *self = AQ_CHAT_ROW(widget);
    AdwDialog *dialog = adw_alert_dialog_new(_("Rename Chat"), NULL);
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(dialog);
    GtkWidget *entry = gtk_entry_new();
    gtk_editable_set_text(GTK_EDITABLE(entry), aq_chat_get_title(self->chat));
    gtk_entry_set_activates_default(GTK_ENTRY(entry), TRUE);
    gtk_accessible_update_property(GTK_ACCESSIBLE(entry), GTK_ACCESSIBLE_PROPERTY_LABEL, _("Title"),
                                   -1);
    adw_alert_dialog_set_extra_child(alert, entry);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "rename", _("_Rename"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "rename", ADW_RESPONSE_SUGGESTED);
    adw_alert_dialog_set_default_response(alert, "rename");
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_signal_connect_object(alert, "response", G_CALLBACK(rename_done), self->chat, 0);
    adw_dialog_set_focus(dialog, entry);
    adw_dialog_present(dialog, widget);
}

static void menu_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    gtk_menu_button_popup(GTK_MENU_BUTTON(AQ_CHAT_ROW(widget)->menu));
}

static void on_right_click(AqChatRow *self)
{
    gtk_menu_button_popup(GTK_MENU_BUTTON(self->menu));
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
    signal_export = g_signal_new("export", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                 NULL, NULL, G_TYPE_NONE, 0);
    signal_move = g_signal_new("move", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                               NULL, G_TYPE_NONE, 0);
    g_type_ensure(AQ_TYPE_BUSY);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-chat-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, title);
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, busy);
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, unread);
    gtk_widget_class_bind_template_child(widget_class, AqChatRow, menu);
    gtk_widget_class_install_action(widget_class, "row.rename", NULL, rename_action);
    gtk_widget_class_install_action(widget_class, "row.delete", NULL, delete_action);
    gtk_widget_class_install_action(widget_class, "row.move", NULL, move_action);
    gtk_widget_class_install_action(widget_class, "row.export", NULL, export_action);
    gtk_widget_class_install_action(widget_class, "row.menu", NULL, menu_action);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_F2, 0, "row.rename", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_Delete, 0, "row.delete", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_Menu, 0, "row.menu", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_F10, GDK_SHIFT_MASK, "row.menu",
                                        NULL);
}

static void aq_chat_row_init(AqChatRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    aq_menu_set(GTK_MENU_BUTTON(self->menu), menu_items, G_N_ELEMENTS(menu_items));
    GtkGesture *click = gtk_gesture_click_new();
    gtk_gesture_single_set_button(GTK_GESTURE_SINGLE(click), GDK_BUTTON_SECONDARY);
    g_signal_connect_swapped(click, "pressed", G_CALLBACK(on_right_click), self);
    gtk_widget_add_controller(GTK_WIDGET(self), GTK_EVENT_CONTROLLER(click));
    GtkDragSource *drag = gtk_drag_source_new();
    gtk_drag_source_set_actions(drag, GDK_ACTION_MOVE);
    g_signal_connect(drag, "prepare", G_CALLBACK(on_drag), self);
    g_signal_connect(drag, "drag-begin", G_CALLBACK(on_drag_begin), self);
    gtk_widget_add_controller(GTK_WIDGET(self), GTK_EVENT_CONTROLLER(drag));
}

AqChatRow *aq_chat_row_new(AqChat *chat)
{
    AqChatRow *self = g_object_new(AQ_TYPE_CHAT_ROW, NULL);
    self->chat = g_object_ref(chat);
    g_signal_connect_object(chat, "notify::title", G_CALLBACK(on_title), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::busy", G_CALLBACK(on_busy), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::unread", G_CALLBACK(on_busy), self, G_CONNECT_SWAPPED);
    on_title(self);
    on_busy(self);
    return self;
}
