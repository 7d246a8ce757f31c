/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and lists as text. */
#include <locale.h>

#include "aq-format.h"

#define assert_takes(call, expected)           \
    G_STMT_START                               \
    {                                          \
        g_autofree char *got_ = (call);        \
        g_assert_cmpstr(got_, ==, (expected)); \
    }                                          \
    G_STMT_END

static void test_usage(void)
{
    aq_usage u = {.gen_tok = 101, .first_us = 1250000, .gen_us = 4000000};
    assert_takes(aq_format_usage(&u), "25.0 tok/s · first token after 1.2 s · 101 tokens");
    u.first_us = 4300;
    assert_takes(aq_format_usage(&u), "25.0 tok/s · first token after 4 ms · 101 tokens");
    u.first_us = 10;
    assert_takes(aq_format_usage(&u), "25.0 tok/s · first token after 1 ms · 101 tokens");
    u.prompt_tok = 120;
    u.cached_tok = 20;
    u.prompt_us = 500000;
    assert_takes(aq_format_usage(&u),
                 "25.0 tok/s · first token after 1 ms · read at 200 tok/s · 101 tokens");
    /* One token has no rate, none has no first. */
    aq_usage one = {.gen_tok = 1, .first_us = 20000};
    assert_takes(aq_format_usage(&one), "first token after 20 ms · 1 token");
    aq_usage none = {0};
    assert_takes(aq_format_usage(&none), "0 tokens");
}

static void test_title(void)
{
    assert_takes(aq_format_title("Hello"), "Hello");
    assert_takes(aq_format_title("  two\n\n lines\t here "), "two lines here");
    assert_takes(aq_format_title(" \n\t"), NULL);
    assert_takes(aq_format_title(""), NULL);
    assert_takes(aq_format_title("bad \xff byte"), "bad \xef\xbf\xbd byte");
    g_autofree char *cut =
        aq_format_title("äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü");
    g_assert_true(g_utf8_validate(cut, -1, NULL));
    g_assert_cmpint(g_utf8_strlen(cut, -1), ==, 49);
    g_assert_true(g_str_has_suffix(cut, "ü…"));
}

static void test_model(void)
{
    const aq_type_use types[] = {{"Q4_K", 10, 900}, {"Q6_K", 2, 90}, {"F32", 5, 10}};
    aq_model_info info = {.arch = "llama",
                          .name = "",
                          .n_ctx_train = 8192,
                          .file_bytes = 98362432,
                          .n_type = 3,
                          .type = types};
    assert_takes(aq_format_types(&info), "Q4_K, Q6_K, F32");
    g_autofree char *line = aq_format_model_line(&info);
    g_assert_true(g_str_has_prefix(line, "llama · 98.4"));
    g_assert_true(g_str_has_suffix(line, "MB · Q4_K · context 8192 tokens"));
    info.n_type = 0;
    g_autofree char *none = aq_format_model_line(&info);
    g_assert_nonnull(strstr(none, " · – · "));
}

static void test_numbers(void)
{
    assert_takes(aq_format_params(9900000), "9.9 million parameters");
    assert_takes(aq_format_params(134515008), "135 million parameters");
    assert_takes(aq_format_params(30532122624), "30.5 billion parameters");
    assert_takes(aq_format_tokens(1), "1 token");
    assert_takes(aq_format_tokens(2), "2 tokens");
    assert_takes(aq_format_file("/a/b.c/model.Q4_1.gguf"), "model.Q4_1");
    assert_takes(aq_format_file("plain"), "plain");
    assert_takes(aq_format_file("/a/.gguf"), "");
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/format/usage", test_usage);
    g_test_add_func("/format/title", test_title);
    g_test_add_func("/format/model", test_model);
    g_test_add_func("/format/numbers", test_numbers);
    return g_test_run();
}
