/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of chats in the sidebar: All Chats, then each folder with a menu. Also by F2 and Delete, and by dropping a chat on one. */
#include "aq-folder-list.h"

#include <glib/gi18n.h>

#include "aq-menu.h"

struct _AqFolderList {
    AdwBin parent;
    GtkWidget *list;
    AqChats *chats;
    char *chosen; /* or NULL */
    gboolean filling;
};

G_DEFINE_FINAL_TYPE(AqFolderList, aq_folder_list, ADW_TYPE_BIN)

static guint signal_changed;

/* ---- dialogs -------------------------------------------------------------------------------- */

/* A dialog that asks for one name; response "done". */
static AdwAlertDialog *ask_name(const char *heading, const char *text, const char *done)
{
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(adw_alert_dialog_new(heading, NULL));
    GtkWidget *entry = gtk_entry_new();
    gtk_editable_set_text(GTK_EDITABLE(entry), text);
    gtk_entry_set_activates_default(GTK_ENTRY(entry), TRUE);
    gtk_accessible_update_property(GTK_ACCESSIBLE(entry), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Name of the folder"), -1);
    adw_alert_dialog_set_extra_child(alert, entry);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "done", done, NULL);
    adw_alert_dialog_set_response_appearance(alert, "done", ADW_RESPONSE_SUGGESTED);
    adw_alert_dialog_set_default_response(alert, "done");
    adw_alert_dialog_set_close_response(alert, "cancel");
    adw_dialog_set_focus(ADW_DIALOG(alert), entry);
    return alert;
}

static const char *name_of(AdwAlertDialog *alert)
{
    return gtk_editable_get_text(GTK_EDITABLE(adw_alert_dialog_get_extra_child(alert)));
}

static void new_answered(AdwAlertDialog *alert, const char *response, AqChats *chats)
{
    if (g_str_equal(response, "done"))
        aq_chats_add_folder(chats, name_of(alert));
}

void aq_folder_ask_new(GtkWidget *parent, AqChats *chats)
{
    AdwAlertDialog *alert = ask_name(_("New Folder"), "", _("_Create"));
    g_signal_connect_object(alert, "response", G_CALLBACK(new_answered), chats, 0);
    adw_dialog_present(ADW_DIALOG(alert), parent);
}

typedef struct {
    AqChats *chats;
    AqChat *chat;
    GtkWidget *choice, *name;
} Move;

static void move_free(gpointer data)
{
    Move *move = data;
    g_object_unref(move->chats);
    g_object_unref(move->chat);
    g_free(move);
}

static void move_answered(AdwAlertDialog *alert, const char *response, Move *move)
{
    const char *name = gtk_editable_get_text(GTK_EDITABLE(move->name));
    GListModel *folders = aq_chats_get_folders(move->chats);
    guint at = adw_combo_row_get_selected(ADW_COMBO_ROW(move->choice));
    if (!g_str_equal(response, "done"))
        return;
    g_autofree char *typed = g_strstrip(g_strdup(name));
    if (*typed) {
        aq_chats_add_folder(move->chats, typed);
        aq_chat_set_folder(move->chat, typed);
    } else if (at == 0 || at > g_list_model_get_n_items(folders)) {
        aq_chat_set_folder(move->chat, NULL);
    } else {
        aq_chat_set_folder(move->chat,
                           gtk_string_list_get_string(GTK_STRING_LIST(folders), at - 1));
    }
}

void aq_folder_ask_move(GtkWidget *parent, AqChats *chats, AqChat *chat)
{
    AdwAlertDialog *alert =
        ADW_ALERT_DIALOG(adw_alert_dialog_new(_("Move to Folder"), aq_chat_get_title(chat)));
    GListModel *folders = aq_chats_get_folders(chats);
    guint n = g_list_model_get_n_items(folders), chosen = 0;
    g_autoptr(GtkStringList) names = gtk_string_list_new((const char *const[]){_("None"), NULL});
    for (guint i = 0; i < n; i++) {
        const char *name = gtk_string_list_get_string(GTK_STRING_LIST(folders), i);
        gtk_string_list_append(names, name);
        if (g_strcmp0(name, aq_chat_get_folder(chat)) == 0)
            chosen = i + 1;
    }
    Move *move = g_new0(Move, 1);
    GtkWidget *group = adw_preferences_group_new();
    move->chats = g_object_ref(chats);
    move->chat = g_object_ref(chat);
    move->choice = adw_combo_row_new();
    move->name = adw_entry_row_new();
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(move->choice), _("Folder"));
    adw_combo_row_set_model(ADW_COMBO_ROW(move->choice), G_LIST_MODEL(names));
    adw_combo_row_set_selected(ADW_COMBO_ROW(move->choice), chosen);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(move->name), _("Or a new folder"));
    adw_entry_row_set_activates_default(ADW_ENTRY_ROW(move->name), TRUE);
    adw_preferences_group_add(ADW_PREFERENCES_GROUP(group), move->choice);
    adw_preferences_group_add(ADW_PREFERENCES_GROUP(group), move->name);
    adw_alert_dialog_set_extra_child(alert, group);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "done", _("_Move"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "done", ADW_RESPONSE_SUGGESTED);
    adw_alert_dialog_set_default_response(alert, "done");
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_object_set_data_full(G_OBJECT(alert), "move", move, move_free);
    g_signal_connect(alert, "response", G_CALLBACK(move_answered), move);
    adw_dialog_present(ADW_DIALOG(alert), parent);
}

/* ---- one folder ----------------------------------------------------------------------------- */

/* Its row, which has the actions of its menu. */
#define AQ_TYPE_FOLDER_ROW (aq_folder_row_get_type())
G_DECLARE_FINAL_TYPE(AqFolderRow, aq_folder_row, AQ, FOLDER_ROW, GtkListBoxRow)

struct _AqFolderRow {
    GtkListBoxRow parent;
    char *name; /* NULL: all chats */
    AqFolderList *folders;
};

G_DEFINE_FINAL_TYPE(AqFolderRow, aq_folder_row, GTK_TYPE_LIST_BOX_ROW)

static void rename_answered(AdwAlertDialog *alert, const char *response, AqFolderList *self)
{
    const char *name = g_object_get_data(G_OBJECT(alert), "folder");
    if (!g_str_equal(response, "done") || !self->chats)
        return;
    gboolean chosen = g_strcmp0(name, self->chosen) == 0;
    if (chosen)
        g_clear_pointer(&self->chosen, g_free);
    aq_chats_rename_folder(self->chats, name, name_of(alert));
    if (chosen)
        g_signal_emit(self, signal_changed, 0);
}

static void rename_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqFolderList *self = AQ_FOLDER_ROW(widget)->folders;
    const char *name = AQ_FOLDER_ROW(widget)->name;
    if (!name)
        return;
    AdwAlertDialog *alert = ask_name(_("Rename Folder"), name, _("_Rename"));
    g_object_set_data_full(G_OBJECT(alert), "folder", g_strdup(name), g_free);
    g_signal_connect_object(alert, "response", G_CALLBACK(rename_answered), self, 0);
    adw_dialog_present(ADW_DIALOG(alert), GTK_WIDGET(self));
}

static void delete_answered(AdwAlertDialog *alert, const char *response, AqFolderList *self)
{
    if (g_str_equal(response, "done") && self->chats)
        aq_chats_drop_folder(self->chats, g_object_get_data(G_OBJECT(alert), "folder"));
}

static void delete_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqFolderList *self = AQ_FOLDER_ROW(widget)->folders;
    const char *name = AQ_FOLDER_ROW(widget)->name;
    if (!name)
        return;
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(
        adw_alert_dialog_new(_("Delete Folder?"), _("The chats in it are kept, in no folder.")));
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "done", _("_Delete"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "done", ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_object_set_data_full(G_OBJECT(alert), "folder", g_strdup(name), g_free);
    g_signal_connect_object(alert, "response", G_CALLBACK(delete_answered), self, 0);
    adw_dialog_present(ADW_DIALOG(alert), GTK_WIDGET(self));
}

static const AqMenuItem menu_items[] = {
    {N_("_Rename…"), "folder.rename"},
    {N_("_Delete…"), "folder.delete"},
};

static gboolean on_drop(GtkDropTarget *target, const GValue *value, double x, double y,
                        AqFolderRow *row)
{
    aq_chat_set_folder(g_value_get_object(value), row->name);
    return TRUE;
}

static void aq_folder_row_finalize(GObject *object)
{
    g_free(AQ_FOLDER_ROW(object)->name);
    G_OBJECT_CLASS(aq_folder_row_parent_class)->finalize(object);
}

static void aq_folder_row_class_init(AqFolderRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = aq_folder_row_finalize;
    gtk_widget_class_install_action(widget_class, "folder.rename", NULL, rename_action);
    gtk_widget_class_install_action(widget_class, "folder.delete", NULL, delete_action);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_F2, 0, "folder.rename", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_Delete, 0, "folder.delete", NULL);
}

static void aq_folder_row_init(AqFolderRow *self)
{
}

/* name NULL: all chats. */
static GtkWidget *row_new(AqFolderList *self, const char *name)
{
    AqFolderRow *row = g_object_new(AQ_TYPE_FOLDER_ROW, NULL);
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 6);
    row->name = g_strdup(name);
    row->folders = self;
    gtk_widget_add_css_class(GTK_WIDGET(row), "folder");
    const char *shown = name ? name : _("All Chats");
    GtkWidget *label = gtk_label_new(shown);
    gtk_label_set_xalign(GTK_LABEL(label), 0);
    gtk_label_set_ellipsize(GTK_LABEL(label), PANGO_ELLIPSIZE_END);
    gtk_widget_set_hexpand(label, TRUE);
    GtkWidget *icon = gtk_image_new_from_icon_name(name ? "folder-symbolic" : "aq-chat-symbolic");
    gtk_accessible_update_state(GTK_ACCESSIBLE(icon), GTK_ACCESSIBLE_STATE_HIDDEN, TRUE, -1);
    gtk_box_append(GTK_BOX(box), icon);
    gtk_box_append(GTK_BOX(box), label);
    if (name) {
        GtkWidget *menu = gtk_menu_button_new();
        g_autofree char *what = g_strdup_printf(_("Menu of the folder “%s”"), name);
        gtk_menu_button_set_icon_name(GTK_MENU_BUTTON(menu), "view-more-symbolic");
        gtk_widget_add_css_class(menu, "flat");
        gtk_widget_add_css_class(menu, "circular");
        gtk_widget_add_css_class(menu, "row-button");
        gtk_widget_set_tooltip_text(menu, _("Folder Menu"));
        gtk_accessible_update_property(GTK_ACCESSIBLE(menu), GTK_ACCESSIBLE_PROPERTY_LABEL, what,
                                       -1);
        aq_menu_set(GTK_MENU_BUTTON(menu), menu_items, G_N_ELEMENTS(menu_items));
        gtk_box_append(GTK_BOX(box), menu);
    }
    gtk_list_box_row_set_child(GTK_LIST_BOX_ROW(row), box);
    gtk_accessible_update_property(GTK_ACCESSIBLE(row), GTK_ACCESSIBLE_PROPERTY_LABEL, shown, -1);
    GtkDropTarget *drop = gtk_drop_target_new(AQ_TYPE_CHAT, GDK_ACTION_MOVE);
    g_signal_connect(drop, "drop", G_CALLBACK(on_drop), row);
    gtk_widget_add_controller(GTK_WIDGET(row), GTK_EVENT_CONTROLLER(drop));
    return GTK_WIDGET(row);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void fill(AqFolderList *self)
{
    GListModel *folders = aq_chats_get_folders(self->chats);
    guint n = g_list_model_get_n_items(folders);
    GtkListBox *list = GTK_LIST_BOX(self->list);
    int chosen = 0;
    self->filling = TRUE;
    gtk_list_box_remove_all(list);
    gtk_list_box_append(list, row_new(self, NULL));
    for (guint i = 0; i < n; i++) {
        const char *name = gtk_string_list_get_string(GTK_STRING_LIST(folders), i);
        gtk_list_box_append(list, row_new(self, name));
        if (g_strcmp0(name, self->chosen) == 0)
            chosen = (int)i + 1;
    }
    gtk_list_box_select_row(list, gtk_list_box_get_row_at_index(list, chosen));
    gtk_widget_set_visible(GTK_WIDGET(self), n > 0);
    self->filling = FALSE;
    if (chosen == 0 && self->chosen) {
        g_clear_pointer(&self->chosen, g_free);
        g_signal_emit(self, signal_changed, 0);
    }
}

static void on_selected(AqFolderList *self, GtkListBoxRow *row)
{
    if (self->filling || !row || !g_set_str(&self->chosen, AQ_FOLDER_ROW(row)->name))
        return;
    g_signal_emit(self, signal_changed, 0);
}

const char *aq_folder_list_get_chosen(AqFolderList *self)
{
    return self->chosen;
}

void aq_folder_list_set_chats(AqFolderList *self, AqChats *chats)
{
    g_return_if_fail(AQ_IS_FOLDER_LIST(self) && !self->chats);
    self->chats = g_object_ref(chats);
    g_signal_connect_object(aq_chats_get_folders(chats), "items-changed", G_CALLBACK(fill), self,
                            G_CONNECT_SWAPPED);
    fill(self);
}

static void aq_folder_list_dispose(GObject *object)
{
    AqFolderList *self = AQ_FOLDER_LIST(object);
    g_clear_object(&self->chats);
    g_clear_pointer(&self->chosen, g_free);
    G_OBJECT_CLASS(aq_folder_list_parent_class)->dispose(object);
}

static void aq_folder_list_class_init(AqFolderListClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = aq_folder_list_dispose;
    signal_changed = g_signal_new("changed", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 0);
}

static void aq_folder_list_init(AqFolderList *self)
{
    self->list = gtk_list_box_new();
    gtk_widget_add_css_class(self->list, "navigation-sidebar");
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->list), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Folders"), -1);
    g_signal_connect_swapped(self->list, "row-selected", G_CALLBACK(on_selected), self);
    adw_bin_set_child(ADW_BIN(self), self->list);
    gtk_widget_set_visible(GTK_WIDGET(self), FALSE);
}
