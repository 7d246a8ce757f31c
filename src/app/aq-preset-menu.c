/* SPDX-License-Identifier: Apache-2.0 */
/* A button with the presets to choose from. */
#include "aq-preset-menu.h"

#include <glib/gi18n.h>

#define HEIGHT_MAX 320

struct _AqPresetMenu {
    AdwBin parent;
    GtkWidget *button, *popover, *list;
    AqPresets *presets;
};

G_DEFINE_FINAL_TYPE(AqPresetMenu, aq_preset_menu, ADW_TYPE_BIN)

static guint signal_chosen, signal_problem;

static void problem(AqPresetMenu *self, const char *text)
{
    g_signal_emit(self, signal_problem, 0, text);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* What a name is asked for. */
typedef struct {
    AqPresetMenu *menu;
    AqPreset *preset; /* that gets it, or NULL: the settings do */
    AqChatSettings settings;
} Naming;

static void naming_free(gpointer data, GClosure *closure)
{
    Naming *n = data;
    g_object_unref(n->menu);
    g_clear_object(&n->preset);
    aq_chat_settings_clear(&n->settings);
    g_free(n);
}

static void named(AdwAlertDialog *dialog, const char *response, Naming *n)
{
    GtkWidget *entry = adw_alert_dialog_get_extra_child(dialog);
    const char *name = gtk_editable_get_text(GTK_EDITABLE(entry)), *why = NULL;
    if (!g_str_equal(response, "save") || !n->menu->presets)
        return;
    if (!(n->preset ? aq_presets_rename(n->menu->presets, n->preset, name, &why)
                    : aq_presets_save(n->menu->presets, name, &n->settings, &why)) &&
        why)
        problem(n->menu, why);
}

static void ask_name(AqPresetMenu *self, AqPreset *preset, const AqChatSettings *settings)
{
    AdwDialog *dialog =
        adw_alert_dialog_new(preset ? _("Rename Preset") : _("Save as Preset"),
                             preset ? NULL : _("System prompt, sampling and thinking are kept."));
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(dialog);
    GtkWidget *entry = gtk_entry_new();
    Naming *n = g_new0(Naming, 1);
    n->menu = g_object_ref(self);
    g_set_object(&n->preset, preset);
    if (settings) {
        n->settings = *settings;
        n->settings.system = g_strdup(settings->system);
    }
    gtk_editable_set_text(GTK_EDITABLE(entry), preset ? aq_preset_get_name(preset) : "");
    gtk_entry_set_activates_default(GTK_ENTRY(entry), TRUE);
    gtk_entry_set_max_length(GTK_ENTRY(entry), AQ_PRESET_NAME_CHARS);
    gtk_accessible_update_property(GTK_ACCESSIBLE(entry), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Name of the Preset"), -1);
    adw_alert_dialog_set_extra_child(alert, entry);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "save",
                                   preset ? _("_Rename") : _("_Save"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "save", ADW_RESPONSE_SUGGESTED);
    adw_alert_dialog_set_default_response(alert, "save");
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_signal_connect_data(alert, "response", G_CALLBACK(named), n, naming_free, 0);
    adw_dialog_set_focus(dialog, entry);
    adw_dialog_present(dialog, GTK_WIDGET(self));
}

void aq_preset_menu_save(AqPresetMenu *self, const AqChatSettings *settings)
{
    g_return_if_fail(AQ_IS_PRESET_MENU(self));
    ask_name(self, NULL, settings);
}

/* ---- the list ------------------------------------------------------------------------------- */

static AqPreset *preset_of(GtkWidget *button)
{
    return g_object_get_data(G_OBJECT(button), "preset");
}

static void on_choose(AqPresetMenu *self, GtkWidget *button)
{
    g_autoptr(AqPreset) preset = g_object_ref(preset_of(button));
    gtk_popover_popdown(GTK_POPOVER(self->popover));
    g_signal_emit(self, signal_chosen, 0, preset);
}

static void on_rename(AqPresetMenu *self, GtkWidget *button)
{
    g_autoptr(AqPreset) preset = g_object_ref(preset_of(button));
    gtk_popover_popdown(GTK_POPOVER(self->popover));
    ask_name(self, preset, NULL);
}

static void delete_answered(AdwAlertDialog *dialog, const char *response, AqPresetMenu *self)
{
    AqPreset *preset = g_object_get_data(G_OBJECT(dialog), "preset");
    if (g_str_equal(response, "delete") && self->presets)
        aq_presets_remove(self->presets, preset);
}

static void on_delete(AqPresetMenu *self, GtkWidget *button)
{
    AqPreset *preset = preset_of(button);
    AdwDialog *dialog = adw_alert_dialog_new(NULL, NULL);
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(dialog);
    adw_alert_dialog_format_heading(alert, _("Delete “%s”?"), aq_preset_get_name(preset));
    adw_alert_dialog_set_body(alert, _("Chats that it was applied to stay as they are."));
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "delete", _("_Delete"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "delete", ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_object_set_data_full(G_OBJECT(dialog), "preset", g_object_ref(preset), g_object_unref);
    g_signal_connect_object(alert, "response", G_CALLBACK(delete_answered), self, 0);
    gtk_popover_popdown(GTK_POPOVER(self->popover));
    adw_dialog_present(dialog, GTK_WIDGET(self));
}

static GtkWidget *icon_button(AqPresetMenu *self, AqPreset *preset, const char *icon,
                              const char *name, GCallback cb)
{
    GtkWidget *button = gtk_button_new_from_icon_name(icon);
    gtk_widget_add_css_class(button, "flat");
    gtk_widget_set_tooltip_text(button, name);
    gtk_accessible_update_property(GTK_ACCESSIBLE(button), GTK_ACCESSIBLE_PROPERTY_LABEL, name, -1);
    g_object_set_data(G_OBJECT(button), "preset", preset);
    g_signal_connect_object(button, "clicked", cb, self, G_CONNECT_SWAPPED);
    return button;
}

static GtkWidget *create_row(gpointer item, gpointer user)
{
    AqPresetMenu *self = user;
    AqPreset *preset = item;
    GtkWidget *row = gtk_list_box_row_new(), *box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 0);
    GtkWidget *choose = gtk_button_new_with_label(aq_preset_get_name(preset));
    GtkWidget *label = gtk_button_get_child(GTK_BUTTON(choose));
    gtk_widget_set_halign(label, GTK_ALIGN_START);
    gtk_label_set_ellipsize(GTK_LABEL(label), PANGO_ELLIPSIZE_END);
    gtk_label_set_max_width_chars(GTK_LABEL(label), 24);
    gtk_widget_set_hexpand(choose, TRUE);
    gtk_widget_add_css_class(choose, "flat");
    gtk_widget_add_css_class(choose, "menu-item");
    g_object_set_data(G_OBJECT(choose), "preset", preset);
    g_signal_connect_object(choose, "clicked", G_CALLBACK(on_choose), self, G_CONNECT_SWAPPED);
    gtk_box_append(GTK_BOX(box), choose);
    if (aq_preset_is_own(preset)) {
        const char *name = aq_preset_get_name(preset);
        g_autofree char *rename = g_strdup_printf(_("Rename “%s”"), name);
        g_autofree char *remove = g_strdup_printf(_("Delete “%s”"), name);
        gtk_box_append(GTK_BOX(box), icon_button(self, preset, "document-edit-symbolic", rename,
                                                 G_CALLBACK(on_rename)));
        gtk_box_append(GTK_BOX(box), icon_button(self, preset, "user-trash-symbolic", remove,
                                                 G_CALLBACK(on_delete)));
    }
    gtk_list_box_row_set_child(GTK_LIST_BOX_ROW(row), box);
    gtk_list_box_row_set_activatable(GTK_LIST_BOX_ROW(row), FALSE);
    gtk_widget_set_focusable(row, FALSE);
    gtk_accessible_update_property(GTK_ACCESSIBLE(row), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   aq_preset_get_name(preset), -1);
    /* The buttons' presets live as long as the row. */
    g_object_set_data_full(G_OBJECT(row), "preset", g_object_ref(preset), g_object_unref);
    return row;
}

void aq_preset_menu_set_presets(AqPresetMenu *self, AqPresets *presets)
{
    g_return_if_fail(AQ_IS_PRESET_MENU(self) && !self->presets);
    self->presets = g_object_ref(presets);
    gtk_list_box_bind_model(GTK_LIST_BOX(self->list), aq_presets_get_list(presets), create_row,
                            self, NULL);
    g_signal_connect_object(presets, "said", G_CALLBACK(problem), self, G_CONNECT_SWAPPED);
}

static void aq_preset_menu_dispose(GObject *object)
{
    AqPresetMenu *self = AQ_PRESET_MENU(object);
    g_clear_object(&self->presets);
    G_OBJECT_CLASS(aq_preset_menu_parent_class)->dispose(object);
}

static void aq_preset_menu_class_init(AqPresetMenuClass *klass)
{
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_preset_menu_dispose;
    signal_chosen = g_signal_new("chosen", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                 G_TYPE_NONE, 1, AQ_TYPE_PRESET);
    signal_problem = g_signal_new("problem", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                  G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void aq_preset_menu_init(AqPresetMenu *self)
{
    GtkWidget *scrolled = gtk_scrolled_window_new();
    self->button = gtk_menu_button_new();
    self->popover = gtk_popover_new();
    self->list = gtk_list_box_new();
    gtk_list_box_set_selection_mode(GTK_LIST_BOX(self->list), GTK_SELECTION_NONE);
    gtk_widget_add_css_class(self->list, "messages");
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->list), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   _("Presets"), -1);
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_NEVER,
                                   GTK_POLICY_AUTOMATIC);
    gtk_scrolled_window_set_propagate_natural_height(GTK_SCROLLED_WINDOW(scrolled), TRUE);
    gtk_scrolled_window_set_max_content_height(GTK_SCROLLED_WINDOW(scrolled), HEIGHT_MAX);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), self->list);
    gtk_popover_set_child(GTK_POPOVER(self->popover), scrolled);
    gtk_menu_button_set_label(GTK_MENU_BUTTON(self->button), _("Presets"));
    gtk_menu_button_set_popover(GTK_MENU_BUTTON(self->button), self->popover);
    adw_bin_set_child(ADW_BIN(self), self->button);
}
