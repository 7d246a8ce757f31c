/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with, as JSON: there and back, and JSON that is damaged or meant to harm. */
#include <locale.h>
#include <string.h>

#include "aq-chat-settings.h"

static void test_round(void)
{
    AqChatSettings s, r;
    aq_chat_settings_init(&s, 0.7);
    g_assert_null(aq_chat_settings_to_json(&s, 0.7));
    s.system = g_strdup("Be \"brief\".\nÜ");
    s.temperature = 0;
    s.top_p = 0.5;
    s.top_k = 0;
    s.max_tok = 12;
    s.n_ctx = 4096;
    s.no_thinking = TRUE;
    g_autofree char *json = aq_chat_settings_to_json(&s, 0.7);
    g_assert_nonnull(json);
    aq_chat_settings_from_json(&r, json, 0.7);
    g_assert_cmpstr(r.system, ==, s.system);
    g_assert_cmpfloat(r.temperature, ==, 0);
    g_assert_cmpfloat(r.top_p, ==, 0.5);
    g_assert_cmpfloat(r.min_p, ==, 0.05);
    g_assert_cmpuint(r.top_k, ==, 0);
    g_assert_cmpuint(r.max_tok, ==, 12);
    g_assert_cmpuint(r.n_ctx, ==, 4096);
    g_assert_true(r.no_thinking);
    aq_chat_settings_clear(&s);
    aq_chat_settings_clear(&r);
}

static void test_bad(void)
{
    g_autoptr(GString) deep = g_string_new(NULL);
    for (int i = 0; i < 200000; i++)
        g_string_append_c(deep, '[');
    g_autoptr(GString) inner = g_string_new("{\"x\":");
    g_string_append(inner, deep->str);
    const char *const cases[] = {NULL,
                                 "",
                                 "{",
                                 "[]",
                                 "null",
                                 "{\"temperature\":\"hot\"}",
                                 "{\"temperature\":3}",
                                 "{\"temperature\":-1}",
                                 "{\"temperature\":1e999}",
                                 "{\"top_k\":-5}",
                                 "{\"top_k\":[1]}",
                                 "{\"max_tok\":99999999999999999999}",
                                 "{\"system\":{\"a\":1}}",
                                 "{\"no_thinking\":\"yes\"}",
                                 "{\"unknown\":1}",
                                 deep->str,
                                 inner->str};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        AqChatSettings s;
        aq_chat_settings_from_json(&s, cases[i], 0.7);
        g_assert_null(s.system);
        g_assert_cmpfloat(s.temperature, ==, 0.7);
        g_assert_cmpuint(s.top_k, ==, 40);
        g_assert_cmpuint(s.max_tok, ==, 0);
        g_assert_false(s.no_thinking);
    }
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/chat-settings/round", test_round);
    g_test_add_func("/chat-settings/bad", test_bad);
    return g_test_run();
}
