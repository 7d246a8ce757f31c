/* SPDX-License-Identifier: Apache-2.0 */
/* Presets: saved, renamed, removed, read again; files that are damaged or meant to harm; a disk that is full. */
#include <glib/gstdio.h>
#include <locale.h>
#include <string.h>

#include "aq-presets.h"
#include "aq/base.h"

bool __wrap_aq_failpoint(const char *name);

static gboolean fail_write;

bool __wrap_aq_failpoint(const char *name)
{
    return fail_write && g_str_equal(name, "presets.write");
}

static char *dir, *path;
static char *said;

static void on_said(AqPresets *presets, const char *text)
{
    g_free(said);
    said = g_strdup(text);
}

static AqPresets *open_presets(void)
{
    AqPresets *p = aq_presets_new(path, 0.7);
    g_clear_pointer(&said, g_free);
    g_signal_connect(p, "said", G_CALLBACK(on_said), NULL);
    while (!aq_presets_get_read(p))
        g_main_context_iteration(NULL, TRUE);
    return p;
}

/* Whatever is under way holds a reference. */
static void close_presets(AqPresets *p)
{
    GWeakRef left;
    g_weak_ref_init(&left, p);
    g_object_unref(p);
    for (GObject *o; (o = g_weak_ref_get(&left)); g_thread_yield()) {
        g_object_unref(o);
        g_main_context_iteration(NULL, FALSE);
    }
    g_weak_ref_clear(&left);
}

static AqPreset *named(AqPresets *p, const char *name)
{
    GListModel *list = aq_presets_get_list(p);
    for (guint i = 0; i < g_list_model_get_n_items(list); i++) {
        g_autoptr(AqPreset) one = g_list_model_get_item(list, i);
        if (g_str_equal(aq_preset_get_name(one), name))
            return one; /* the list has it */
    }
    return NULL;
}

static guint n_own(AqPresets *p)
{
    GListModel *list = aq_presets_get_list(p);
    guint n = 0;
    for (guint i = 0; i < g_list_model_get_n_items(list); i++) {
        g_autoptr(AqPreset) one = g_list_model_get_item(list, i);
        n += aq_preset_is_own(one);
    }
    return n;
}

static void remove_all(void)
{
    g_autoptr(GDir) d = g_dir_open(dir, 0, NULL);
    const char *name;
    while (d && (name = g_dir_read_name(d))) {
        g_autofree char *file = g_build_filename(dir, name, NULL);
        g_assert_cmpint(g_remove(file), ==, 0);
    }
}

static void test_round(void)
{
    const char *why = NULL;
    AqPresets *p = open_presets();
    g_assert_null(said);
    g_assert_cmpuint(n_own(p), ==, 0);
    g_assert_cmpuint(g_list_model_get_n_items(aq_presets_get_list(p)), >=, 3);
    AqChatSettings s;
    aq_chat_settings_init(&s, 0.7);
    s.system = (char *)"Be \"brief\".\nÜ";
    s.top_k = 7;
    s.n_ctx = 4096;
    s.no_thinking = TRUE;
    g_assert_true(aq_presets_save(p, "  Brief ", &s, &why));
    s.temperature = 0.1;
    g_assert_true(aq_presets_save(p, "brief", &s, &why)); /* the same name: replaced */
    g_assert_true(aq_presets_save(p, "Other", &s, &why));
    g_assert_false(aq_presets_save(p, " \n", &s, &why));
    g_assert_nonnull(why);
    g_assert_false(aq_presets_save(p, "exact", &s, &why)); /* the program's */
    g_assert_nonnull(strstr(why, "program"));
    g_autofree char *long_name = g_strnfill(AQ_PRESET_NAME_CHARS + 1, 'n');
    g_assert_false(aq_presets_save(p, long_name, &s, &why));
    g_assert_false(aq_presets_rename(p, named(p, "Other"), "BRIEF", &why));
    g_assert_true(aq_presets_rename(p, named(p, "Other"), "other", &why));
    g_assert_true(aq_presets_rename(p, named(p, "other"), "Third", &why));
    g_assert_false(aq_presets_rename(p, named(p, "Exact"), "Mine", &why));
    aq_presets_remove(p, named(p, "Exact"));
    g_assert_nonnull(named(p, "Exact"));
    close_presets(p);

    p = open_presets();
    g_assert_null(said);
    g_assert_cmpuint(n_own(p), ==, 2);
    const AqChatSettings *r = aq_preset_get_settings(named(p, "brief"));
    g_assert_cmpstr(r->system, ==, s.system);
    g_assert_cmpfloat(r->temperature, ==, 0.1);
    g_assert_cmpuint(r->top_k, ==, 7);
    g_assert_cmpuint(r->n_ctx, ==, 0);
    g_assert_true(r->no_thinking);
    aq_presets_remove(p, named(p, "brief"));
    close_presets(p);
    p = open_presets();
    g_assert_cmpuint(n_own(p), ==, 1);
    g_assert_nonnull(named(p, "Third"));
    close_presets(p);
    remove_all();
}

static void test_full(void)
{
    const char *why = NULL;
    AqChatSettings s;
    aq_chat_settings_init(&s, 0.7);
    AqPresets *p = open_presets();
    fail_write = TRUE;
    g_assert_true(aq_presets_save(p, "Kept", &s, &why));
    while (!said)
        g_main_context_iteration(NULL, TRUE);
    g_assert_nonnull(strstr(said, "Presets were not saved: "));
    g_assert_nonnull(named(p, "Kept"));
    fail_write = FALSE;
    g_assert_true(aq_presets_save(p, "More", &s, &why));
    close_presets(p);
    p = open_presets();
    g_assert_cmpuint(n_own(p), ==, 2);
    close_presets(p);
    remove_all();
}

/* Set aside as it was, told, and a new file can be written. */
static void check_damaged(const char *text, gssize n)
{
    const char *why = NULL;
    AqChatSettings s;
    aq_chat_settings_init(&s, 0.7);
    g_assert_true(g_file_set_contents(path, text, n, NULL));
    AqPresets *p = open_presets();
    g_assert_nonnull(said);
    g_assert_nonnull(strstr(said, "presets.json.damaged-"));
    g_assert_cmpuint(n_own(p), ==, 0);
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    g_assert_true(aq_presets_save(p, "New", &s, &why));
    close_presets(p);
    g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
    remove_all();
}

static void test_hostile(void)
{
    g_autoptr(GString) deep = g_string_new("{\"version\":1,\"presets\":");
    for (int i = 0; i < 300000; i++)
        g_string_append_c(deep, '[');
    g_autofree char *large = g_strnfill((4u << 20) + 1, ' ');
    const char *const bad[] = {"",
                               "{",
                               "[]",
                               "nonsense",
                               "{\"version\":1}",
                               "{\"version\":2,\"presets\":[]}",
                               "{\"version\":1,\"presets\":{}}",
                               "{\"version\":1,\"presets\":[\"\xff\"]}",
                               deep->str,
                               large};
    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
        check_damaged(bad[i], -1);
    check_damaged("{\"version\":1,\"presets\":[]}\0x", 28);

    /* Entries that are none are passed over, values out of range too. */
    g_autoptr(GString) many = g_string_new("{\"version\":1,\"presets\":[1,null,[],{},{\"name\":5,"
                                           "\"settings\":{}},{\"name\":\"\",\"settings\":{}},"
                                           "{\"name\":\"Exact\",\"settings\":{}},"
                                           "{\"name\":\"No\",\"settings\":[]}");
    g_string_append(many, ",{\"name\":\"Odd\",\"settings\":{\"temperature\":99,\"top_k\":\"x\","
                          "\"system\":5,\"min_p\":0.25}}");
    for (int i = 0; i < 300; i++)
        g_string_append_printf(many, ",{\"name\":\"n%d\",\"settings\":{}}", i);
    g_string_append(many, "]}");
    g_assert_true(g_file_set_contents(path, many->str, -1, NULL));
    AqPresets *p = open_presets();
    g_assert_null(said);
    g_assert_cmpuint(n_own(p), ==, AQ_PRESETS_MAX);
    const AqChatSettings *s = aq_preset_get_settings(named(p, "Odd"));
    g_assert_cmpfloat(s->temperature, ==, 0.7);
    g_assert_cmpuint(s->top_k, ==, 40);
    g_assert_cmpfloat(s->min_p, ==, 0.25);
    g_assert_null(s->system);
    const char *why = NULL;
    g_assert_false(aq_presets_save(p, "One more", s, &why));
    g_assert_nonnull(why);
    close_presets(p);
    remove_all();
    /* A folder in its place is not touched. */
    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    p = open_presets();
    g_assert_nonnull(said);
    close_presets(p);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    dir = g_dir_make_tmp("aq-presets-XXXXXX", NULL);
    path = g_build_filename(dir, "presets.json", NULL);
    g_test_add_func("/presets/round", test_round);
    g_test_add_func("/presets/full", test_full);
    g_test_add_func("/presets/hostile", test_hostile);
    return g_test_run();
}
