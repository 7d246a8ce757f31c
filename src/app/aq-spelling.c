/* SPDX-License-Identifier: Apache-2.0 */
/* Spell checking of what is written. */
#include "aq-spelling.h"

#include <glib/gi18n.h>
#ifdef AQ_WITH_SPELLING
#include <libspelling.h>
#endif

#ifdef AQ_WITH_SPELLING

/* The entry would do nothing: it is there, off, so that who looks for it learns what is missing. */
static void tell_missing(GtkTextView *view)
{
    g_autoptr(GMenu) menu = g_menu_new();
    g_autoptr(GSimpleActionGroup) group = g_simple_action_group_new();
    g_autoptr(GSimpleAction) off = g_simple_action_new("missing", NULL);
    g_simple_action_set_enabled(off, FALSE);
    g_action_map_add_action(G_ACTION_MAP(group), G_ACTION(off));
    g_menu_append(menu, _("Check Spelling (no dictionary is installed)"), "spelling.missing");
    gtk_widget_insert_action_group(GTK_WIDGET(view), "spelling", G_ACTION_GROUP(group));
    gtk_text_view_set_extra_menu(view, G_MENU_MODEL(menu));
}

gboolean aq_spelling_attach(GtkTextView *view, GSettings *settings)
{
    spelling_init();
    SpellingProvider *provider = spelling_provider_get_default();
    g_autoptr(GListModel) languages = provider ? spelling_provider_list_languages(provider) : NULL;
    if (!languages || !g_list_model_get_n_items(languages)) {
        tell_missing(view);
        return FALSE;
    }
    SpellingChecker *checker = spelling_checker_get_default();
    /* Not the checker's language, for it is one for all fields and may have been changed in one. */
    const char *code = spelling_provider_get_default_code(provider);
    gboolean known = code && spelling_provider_supports_language(provider, code);
    if (!spelling_checker_get_language(checker)) { /* the menu would turn on what has none */
        g_autoptr(SpellingLanguage) first = g_list_model_get_item(languages, 0);
        spelling_checker_set_language(checker, spelling_language_get_code(first));
    }
    g_autoptr(SpellingTextBufferAdapter) adapter = spelling_text_buffer_adapter_new(
        GTK_SOURCE_BUFFER(gtk_text_view_get_buffer(view)), checker);
    gtk_text_view_set_extra_menu(view, spelling_text_buffer_adapter_get_menu_model(adapter));
    gtk_widget_insert_action_group(GTK_WIDGET(view), "spelling", G_ACTION_GROUP(adapter));
    /* A dictionary of another language is for the menu to turn on, in this field. The setting is not bound then, for binding writes it: it
     * would be off when the dictionary comes that was missing. */
    spelling_text_buffer_adapter_set_enabled(adapter, known);
    if (settings && known)
        g_settings_bind(settings, "check-spelling", adapter, "enabled", G_SETTINGS_BIND_DEFAULT);
    return spelling_text_buffer_adapter_get_enabled(adapter);
}

#else

gboolean aq_spelling_attach(GtkTextView *view, GSettings *settings)
{
    return FALSE;
}

#endif
