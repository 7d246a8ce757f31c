/* SPDX-License-Identifier: Apache-2.0 */
/* Spell checking where dictionaries are there, or are not: whether words are marked, what the field's menu says, that nothing is complained
 * of, and that the setting is left alone. Each case is a process of its own, since languages and folders are looked for once. */
#include <adwaita.h>
#include <glib/gstdio.h>
#include <gtksourceview/gtksource.h>

#include "aq-spelling.h"

static char *folder; /* what stands in for /usr/share */

/* All that a menu says. */
static void say_menu(GString *s, GMenuModel *menu)
{
    for (int i = 0; i < g_menu_model_get_n_items(menu); i++) {
        g_autofree char *label = NULL;
        if (g_menu_model_get_item_attribute(menu, i, G_MENU_ATTRIBUTE_LABEL, "s", &label))
            g_string_append_printf(s, "[%s]", label);
        const char *links[] = {G_MENU_LINK_SECTION, G_MENU_LINK_SUBMENU};
        for (gsize k = 0; k < G_N_ELEMENTS(links); k++) {
            g_autoptr(GMenuModel) below = g_menu_model_get_item_link(menu, i, links[k]);
            if (below)
                say_menu(s, below);
        }
    }
}

static gboolean is_marked(GtkTextBuffer *buffer)
{
    GtkTextIter at;
    gtk_text_buffer_get_iter_at_offset(buffer, &at, 6); /* in rivver */
    g_autoptr(GSList) tags = gtk_text_iter_get_tags(&at);
    return tags != NULL;
}

static void wait_for_mark(GtkTextBuffer *buffer)
{
    while (!is_marked(buffer))
        g_main_context_iteration(NULL, TRUE);
}

/* In a process of its own: prints what came of it. */
static void tell(void)
{
    g_autoptr(GSettings) settings = g_settings_new("io.github.aquiferpool.Aquifer");
    g_autoptr(GtkSourceBuffer) buffer = gtk_source_buffer_new(NULL);
    GtkWidget *window = gtk_window_new(), *view = gtk_source_view_new_with_buffer(buffer);
    gtk_window_set_child(GTK_WINDOW(window), view);
    gboolean marks = aq_spelling_attach(GTK_TEXT_VIEW(view), settings);
    g_autoptr(GtkSourceBuffer) second = gtk_source_buffer_new(NULL); /* of another chat */
    GtkWidget *other = g_object_ref_sink(gtk_source_view_new_with_buffer(second));
    g_assert_cmpint(aq_spelling_attach(GTK_TEXT_VIEW(other), settings), ==, marks);
    gtk_text_buffer_set_text(GTK_TEXT_BUFFER(buffer), "the rivver rises", -1);
    if (marks)
        wait_for_mark(GTK_TEXT_BUFFER(buffer));
    while (g_main_context_iteration(NULL, FALSE))
        ;
    gboolean marked = is_marked(GTK_TEXT_BUFFER(buffer));
    g_autoptr(GString) menu = g_string_new(NULL);
    GMenuModel *model = gtk_text_view_get_extra_menu(GTK_TEXT_VIEW(view));
    if (model)
        say_menu(menu, model);
    gboolean kept = g_settings_get_user_value(settings, "check-spelling") != NULL;
    gboolean can = gtk_widget_activate_action(view, "spelling.enabled", NULL);
    if (can && !marks)
        wait_for_mark(GTK_TEXT_BUFFER(buffer)); /* what can be turned on does what it says */
    g_print("marks %d %d setting %d can %d menu %s\n", marks, marked, kept, can, menu->str);
    gtk_window_destroy(GTK_WINDOW(window));
    g_object_unref(other);
}

static void write_dictionary(const char *language)
{
    g_autofree char *dir = g_build_filename(folder, "hunspell", NULL);
    g_autofree char *aff = g_strdup_printf("%s/%s.aff", dir, language);
    g_autofree char *dic = g_strdup_printf("%s/%s.dic", dir, language);
    g_assert_cmpint(g_mkdir_with_parents(dir, 0700), ==, 0);
    g_assert_true(g_file_set_contents(aff, "SET UTF-8\n", -1, NULL));
    g_assert_true(g_file_set_contents(dic, "3\nthe\nriver\nrises\n", -1, NULL));
}

static void run(const char *dictionary, const char *language, const char *told)
{
    g_autofree char *dir = g_build_filename(folder, "hunspell", NULL);
    if (g_test_subprocess()) {
        tell();
        return;
    }
    if (g_file_test(dir, G_FILE_TEST_IS_DIR)) {
        g_autoptr(GDir) old = g_dir_open(dir, 0, NULL);
        for (const char *name; (name = g_dir_read_name(old));) {
            g_autofree char *path = g_build_filename(dir, name, NULL);
            g_unlink(path);
        }
    }
    if (dictionary)
        write_dictionary(dictionary);
    g_setenv("LANGUAGE", language, TRUE);
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stdout(told);
    g_test_trap_assert_stderr("");
}

static void test_own(void)
{
    run("en_US", "en_US", "*marks 1 1 setting 0 can 1 menu *Check Spelling*");
}

static void test_none(void)
{
    run(NULL, "de_DE",
        "*marks 0 0 setting 0 can 0 menu [Check Spelling (no dictionary is installed)]\n*");
}

static void test_other(void)
{
    run("en_US", "de_DE", "*marks 0 0 setting 0 can 1 menu *Check Spelling*");
}

int main(int argc, char **argv)
{
    folder = g_build_filename(g_get_home_dir(), "share", NULL); /* headless.sh makes a home */
    g_setenv("XDG_DATA_DIRS", folder, TRUE);
    g_setenv("LC_ALL", "C.UTF-8", TRUE);
    g_test_init(&argc, &argv, NULL);
    gtk_source_init();
    adw_init();
    g_test_add_func("/app/spelling/own", test_own);
    g_test_add_func("/app/spelling/none", test_none);
    g_test_add_func("/app/spelling/other", test_other);
    int status = g_test_run();
    g_free(folder);
    return status;
}
