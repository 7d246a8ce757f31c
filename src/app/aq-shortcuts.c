/* SPDX-License-Identifier: Apache-2.0 */
/* The app's keyboard shortcuts. GTK's own shortcuts window is deprecated since 4.18 and libadwaita's comes with 1.8, so this is a plain
 * dialog of rows. */
#include "aq-shortcuts.h"

#include <glib/gi18n.h>

typedef struct {
    const char *action; /* NULL: handled by a widget, listed only */
    const char *accel;
    const char *title;
} Shortcut;

static const Shortcut chat_keys[] = {
    {NULL, "Return", N_("Send the message")},
    {NULL, "<Shift>Return", N_("New line")},
    {NULL, "Escape", N_("Stop the answer")},
    {"app.new-chat", "<Control>n", N_("New chat")},
    {"win.find", "<Control>f", N_("Search this chat")},
    {NULL, "<Control>g", N_("Next place")},
    {NULL, "<Shift><Control>g", N_("Previous place")},
    {"win.search-all", "<Shift><Control>f", N_("Search all chats")},
    {"win.next-chat", "<Control>Page_Down", N_("Next chat")},
    {"win.previous-chat", "<Control>Page_Up", N_("Previous chat")},
    {"win.export-chat", "<Shift><Control>e", N_("Export the chat")},
    {"win.import", "<Shift><Control>o", N_("Import chats")},
    {NULL, "<Control>e", N_("Edit the last question")},
    {NULL, "<Control>r", N_("Ask again")},
    {NULL, "<Shift><Control>c", N_("Copy the last answer")},
    {NULL, "<Shift>F10", N_("Menu of the message that has the focus")},
    {NULL, "<Control>comma", N_("Chat settings")},
    {NULL, "<Control>z", N_("Bring back the chat that was deleted, in the list of chats")},
    {NULL, "F2", N_("Rename the chat that has the focus in the list")},
    {NULL, "Delete", N_("Delete it")},
    {NULL, "Menu", N_("Its menu")},
};
static const Shortcut window_keys[] = {
    {"app.open", "<Control>o", N_("Open a model")},
    {"win.show-page::chat", "<Control>1", N_("Chat")},
    {"win.show-page::models", "<Control>2", N_("Models")},
    {"win.show-page::pool", "<Control>3", N_("Pool")},
    {"win.show-page::api", "<Control>4", N_("API")},
    {"win.toggle-sidebar", "F9", N_("Show or hide the chats")},
    {"app.shortcuts", "<Control>question", N_("Keyboard shortcuts")},
    {"app.quit", "<Control>q", N_("Quit")},
};

static void install(GtkApplication *app, const Shortcut *keys, gsize n)
{
    for (gsize i = 0; i < n; i++)
        if (keys[i].action)
            gtk_application_set_accels_for_action(app, keys[i].action,
                                                  (const char *[]){keys[i].accel, NULL});
}

void aq_shortcuts_install(GtkApplication *app)
{
    install(app, chat_keys, G_N_ELEMENTS(chat_keys));
    install(app, window_keys, G_N_ELEMENTS(window_keys));
}

static void add_group(AdwPreferencesPage *page, const char *title, const Shortcut *keys, gsize n)
{
    GtkWidget *group = adw_preferences_group_new();
    adw_preferences_group_set_title(ADW_PREFERENCES_GROUP(group), title);
    for (gsize i = 0; i < n; i++) {
        guint key;
        GdkModifierType mods;
        gtk_accelerator_parse(keys[i].accel, &key, &mods);
        g_autofree char *label = gtk_accelerator_get_label(key, mods);
        GtkWidget *row = adw_action_row_new(), *cap = gtk_label_new(label);
        adw_preferences_row_set_title(ADW_PREFERENCES_ROW(row), gettext(keys[i].title));
        gtk_widget_add_css_class(cap, "dimmed");
        adw_action_row_add_suffix(ADW_ACTION_ROW(row), cap);
        adw_preferences_group_add(ADW_PREFERENCES_GROUP(group), row);
    }
    adw_preferences_page_add(page, ADW_PREFERENCES_GROUP(group));
}

void aq_shortcuts_present(GtkWidget *parent)
{
    AdwDialog *dialog = adw_dialog_new();
    GtkWidget *view = adw_toolbar_view_new(), *page = adw_preferences_page_new();
    adw_toolbar_view_add_top_bar(ADW_TOOLBAR_VIEW(view), adw_header_bar_new());
    adw_toolbar_view_set_content(ADW_TOOLBAR_VIEW(view), page);
    add_group(ADW_PREFERENCES_PAGE(page), _("Chat"), chat_keys, G_N_ELEMENTS(chat_keys));
    add_group(ADW_PREFERENCES_PAGE(page), _("Window"), window_keys, G_N_ELEMENTS(window_keys));
    adw_dialog_set_title(dialog, _("Keyboard Shortcuts"));
    adw_dialog_set_content_width(dialog, 420);
    adw_dialog_set_content_height(dialog, 560);
    adw_dialog_set_child(dialog, view);
    adw_dialog_present(dialog, parent);
}
