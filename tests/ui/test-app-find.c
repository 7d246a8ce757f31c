/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked for in messages, and where it is. */
#include <locale.h>
#include <string.h>

#include "aq-find.h"
#include "aq-markdown.h"

/* The places as "block.nth …". */
static char *places(const char *what, const char *text, gboolean plain, guint max)
{
    g_autoptr(AqFind) find = aq_find_new(what);
    g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(AqFindPlace));
    GString *s = g_string_new(NULL);
    g_assert_nonnull(find);
    aq_find_places(find, text, strlen(text), plain, max, list);
    for (guint i = 0; i < list->len; i++) {
        AqFindPlace p = g_array_index(list, AqFindPlace, i);
        g_string_append_printf(s, "%s%u.%u", i ? " " : "", p.block, p.nth);
    }
    return g_string_free(s, FALSE);
}

#define assert_places(what, text, plain, expected)                  \
    G_STMT_START                                                    \
    {                                                               \
        g_autofree char *got_ = places((what), (text), (plain), 9); \
        g_assert_cmpstr(got_, ==, (expected));                      \
    }                                                               \
    G_STMT_END

static void test_text(void)
{
    g_assert_null(aq_find_new(""));
    g_assert_null(aq_find_new(" \n\t"));
    g_assert_null(aq_find_new("\xcc\x81")); /* a mark alone */
    assert_places("NILE", "The nile, the Nile.", TRUE, "0.0 0.1");
    assert_places("aa", "aaaaa", TRUE, "0.0 0.1");
    assert_places("cafe", "Café CAFE\xcc\x81 caf", TRUE, "0.0 0.1");
    assert_places("ÉTÉ", "ete", TRUE, "0.0");
    assert_places("a  b",
                  "a\nb a\xc2\xa0\xc2\xa0"
                  "b ab",
                  TRUE, "0.0 0.1");
    assert_places("xyz", "x\xe2\x80\x8byz", TRUE, "0.0");
    assert_places("x", "", TRUE, "");
    g_autofree char *few = places("a", "aaaaaaaaaa", TRUE, 3);
    g_assert_cmpstr(few, ==, "0.0 0.1 0.2");
}

static void test_bytes(void)
{
    g_autoptr(AqFind) find = aq_find_new("ü");
    const char *text = "a\xc3\x9cu\xcc\x88";
    gsize at = 0, n = 0;
    g_assert_true(aq_find_next(find, text, &at, &n));
    g_assert_cmpuint(at, ==, 1);
    g_assert_cmpuint(n, ==, 2);
    at += n;
    g_assert_true(aq_find_next(find, text, &at, &n));
    g_assert_cmpuint(at, ==, 3);
    at += n;
    g_assert_false(aq_find_next(find, text, &at, &n) && at < 4);
}

/* What is seen is what is found: not the marks of Markdown, but the words that they divide. */
static void test_markdown(void)
{
    assert_places("nile is", "The **Nile** is\n\nlong. `nile is`", FALSE, "0.0 1.0");
    assert_places("**", "a **b** c", FALSE, "");
    assert_places("&", "a & b &amp; c", FALSE, "0.0 0.1");
    assert_places("<b>", "a <b> b", FALSE, "0.0");
    assert_places("nile", "| a | Nile |\n|---|---|\n| nile | b |\n\nNile", FALSE, "0.0 0.1 1.0");
    assert_places("x", "- x\n- y\n\n```\nx = x\n```\n", FALSE, "0.0 2.0 2.1");
    /* Parts: the blocks are numbered through. */
    g_autoptr(GString) s = g_string_new(NULL);
    guint n = 0;
    for (; s->len < 3 * AQ_MD_PART_BYTES; n++)
        g_string_append(s, "Some words of a paragraph that goes on.\n\n");
    g_string_append(s, "needle");
    g_autofree char *last = g_strdup_printf("%u.0", n);
    assert_places("needle", s->str, FALSE, last);
}

/* A long text is gone through in parts, each of which is short; the places are those of the whole. */
static void test_parts(void)
{
    g_autoptr(AqFind) find = aq_find_new("needle");
    for (guint plain = 0; plain < 2; plain++) {
        g_autoptr(GString) s = g_string_new(NULL);
        g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(AqFindPlace)),
                          list = g_array_new(FALSE, FALSE, sizeof(AqFindPlace));
        for (guint i = 0; i < 400; i++)
            g_string_append_printf(s, "%s paragraph of words that go on and on and on, %u.%s",
                                   i % 7 ? "A" : "needle", i, i % 5 ? "\n\n" : "\n");
        AqFindAt at = {0};
        gsize before = 0;
        guint n = 1;
        for (; aq_find_part(find, s->str, s->len, plain, 1000, &at, list); n++, before = at.at)
            g_assert_cmpuint(at.at - before, <=, 4 * AQ_MD_PART_BYTES);
        aq_find_at_clear(&at);
        g_assert_cmpuint(n, >, plain ? 10 : 1);
        aq_find_places(find, s->str, s->len, plain, 1000, all);
        g_assert_cmpuint(list->len, ==, (400 + 6) / 7);
        g_assert_cmpmem(list->data, list->len * sizeof(AqFindPlace), all->data,
                        all->len * sizeof(AqFindPlace));
        /* The blocks are those that the text is shown as. */
        g_autoptr(GPtrArray) blocks = aq_md_plain(s->str, s->len);
        for (guint i = 0; plain && i < list->len; i++) {
            const AqMdBlock *b = blocks->pdata[g_array_index(list, AqFindPlace, i).block];
            g_assert_nonnull(strstr(b->text, "needle"));
        }
    }
}

static void test_unmark(void)
{
    g_autofree char *text =
        aq_md_unmark("a &lt;b&gt; &amp;amp; <b>c</b> <a href=\"http://x\">&#39;d&quot;</a> &x");
    g_assert_cmpstr(text, ==, "a <b> &amp; c 'd\" &x");
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/find/text", test_text);
    g_test_add_func("/find/bytes", test_bytes);
    g_test_add_func("/find/markdown", test_markdown);
    g_test_add_func("/find/parts", test_parts);
    g_test_add_func("/find/unmark", test_unmark);
    return g_test_run();
}
