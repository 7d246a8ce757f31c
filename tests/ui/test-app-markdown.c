/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown as blocks: what is shown, what is limited, and that text which streams in ends as text which is there at once. */
#include <locale.h>
#include <pango/pango.h>
#include <string.h>

#include "aq-markdown.h"

/* A block as one line: kind, depths, mark, text. */
static void describe(GString *s, const AqMdBlock *b)
{
    static const char *const kinds[] = {"text", "code", "table", "rule"};
    g_string_append(s, kinds[b->kind]);
    if (b->heading)
        g_string_append_printf(s, " h%u", b->heading);
    if (b->quote)
        g_string_append_printf(s, " q%u", b->quote);
    if (b->list)
        g_string_append_printf(s, " l%u", b->list);
    if (b->marker[0])
        g_string_append_printf(s, " %s", b->marker);
    if (b->lang)
        g_string_append_printf(s, " %s", b->lang);
    if (b->open)
        g_string_append(s, " open");
    if (b->goes_on)
        g_string_append(s, " on");
    if (b->text)
        g_string_append_printf(s, " [%s]", b->text);
    for (guint i = 0; b->cells && i < b->cells->len; i++)
        g_string_append_printf(s, "%s%s", i % b->n_col ? "|" : " / ", (char *)b->cells->pdata[i]);
    g_string_append_c(s, '\n');
}

/* All that every list of blocks must have. */
static void check(GPtrArray *blocks)
{
    for (guint i = 0; i < blocks->len; i++) {
        const AqMdBlock *b = blocks->pdata[i];
        g_autoptr(GError) error = NULL;
        g_assert_cmpuint(b->quote, <=, AQ_MD_DEPTH_MAX);
        g_assert_cmpuint(b->list, <=, AQ_MD_DEPTH_MAX);
        if (b->kind == AQ_MD_TEXT) {
            pango_parse_markup(b->text, -1, 0, NULL, NULL, NULL, &error);
            /* Pango knows no links: those are the label's. */
            if (error && !strstr(b->text, "<a href=\""))
                g_assert_no_error(error);
            g_assert_cmpuint(strlen(b->text), <, 12 * AQ_MD_TEXT_BYTES);
        }
        if (b->kind == AQ_MD_CODE) {
            guint lines = 0;
            g_assert_true(g_utf8_validate(b->text, -1, NULL));
            for (const char *c = b->text; *c; c++)
                lines += *c == '\n' && c[1];
            g_assert_cmpuint(lines, <, AQ_MD_CODE_LINES);
        }
        if (b->kind == AQ_MD_TABLE) {
            g_assert_cmpuint(b->n_col, <=, AQ_MD_COLS_MAX);
            g_assert_cmpuint(b->cells->len, <=, AQ_MD_CELLS_MAX);
        }
    }
}

static char *parse(const char *text)
{
    GString *s = g_string_new(NULL);
    g_autoptr(GPtrArray) blocks = aq_md_parse(text, strlen(text), NULL, FALSE);
    check(blocks);
    for (guint i = 0; i < blocks->len; i++)
        describe(s, blocks->pdata[i]);
    return g_string_free(s, FALSE);
}

static void test_blocks(void)
{
    static const char *const cases[][2] = {
        {"Hello", "text [Hello]\n"},
        {"# T\ntext\n\nmore", "text h1 [T]\ntext [text]\ntext [more]\n"},
        {"a **b** *c* ~~d~~ `e<`", "text [a <b>b</b> <i>c</i> <s>d</s> <tt>e&lt;</tt>]\n"},
        {"x <b>no</b> & &amp; &#65; &nope; &lt;i>",
         "text [x &lt;b&gt;no&lt;/b&gt; &amp; &amp; A &amp;nope; &lt;i&gt;]\n"},
        {"- a\n- b\n  1. c\n  2. d\n\n     e\n- [x] f",
         "text l1 • [a]\ntext l1 • [b]\ntext l2 1. [c]\ntext l2 2. [d]\ntext l2 [e]\ntext l1 ☑ "
         "[f]\n"},
        {"7. x\n8. y", "text l1 7. [x]\ntext l1 8. [y]\n"},
        {"-\n- b", "text l1 • []\ntext l1 • [b]\n"},
        {"> a\n> > b\n\nc", "text q1 [a]\ntext q2 [b]\ntext [c]\n"},
        {"```c\nint <x>;\n```\nafter", "code c [int <x>;\n]\ntext [after]\n"},
        {"    indented\n", "text [indented]\n"},
        {"---", "rule\n"},
        {"|a|b|\n|-|:-:|\n|1|**2**|\n|3|", "table / a|b / 1|<b>2</b> / 3|\n"},
        {"line one\nline two", "text [line one\nline two]\n"},
        {"[t](https://e.org/?a=1&b=\"2\")",
         "text [<a href=\"https://e.org/?a=1&amp;b=&quot;2&quot;\">t</a>]\n"},
        {"[t](javascript:alert(1)) [u](file:///etc/passwd) [v](data:text/html,x)",
         "text [t (javascript:alert(1)) u (file:///etc/passwd) v (data:text/html,x)]\n"},
        {"see https://e.org now", "text [see <a href=\"https://e.org\">https://e.org</a> now]\n"},
        {"![alt](https://e.org/i.png)", "text [<a href=\"https://e.org/i.png\">alt</a>]\n"},
        {"$x^2<y$ and $$z$$", "text [<tt>$x^2&lt;y$</tt> and <tt>$$z$$</tt>]\n"},
        {"$$\nx^2 < y\n$$\n\nafter", "code LaTeX [x^2 < y]\ntext [after]\n"},
        {"$$x$$ z", "text [<tt>$$x$$</tt> z]\n"},
        {"$$x$$ $$y$$", "text [<tt>$$x$$</tt> <tt>$$y$$</tt>]\n"},
        {"a\x01\x1b[31mb\xe2\x80\xae"
         "c",
         "text [a[31mbc]\n"},
        {"<script>alert(1)</script>", "text [&lt;script&gt;alert(1)&lt;/script&gt;]\n"},
        {"", ""},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *got = parse(cases[i][0]);
        g_assert_cmpstr(got, ==, cases[i][1]);
    }
}

static void test_open(void)
{
    static const struct {
        const char *text;
        gboolean open;
    } cases[] = {
        {"```c\nx", TRUE}, {"```c\nx\n```", FALSE}, {"~~~~\n```\n", TRUE}, {"a\n\n", FALSE}};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
        for (int running = 0; running < 2; running++) {
            const char *t = cases[i].text;
            g_autoptr(GPtrArray) blocks = aq_md_parse(t, strlen(t), NULL, running);
            const AqMdBlock *last = blocks->pdata[blocks->len - 1];
            g_assert_cmpint(last->open, ==, running && cases[i].open);
        }
}

/* All blocks of a text, part by part. */
static char *parts(const char *text, gsize n)
{
    GString *s = g_string_new(NULL);
    g_autofree char *fence = NULL;
    for (gsize from = 0; from < n;) {
        gsize end = aq_md_part_end(text, n, from, fence);
        g_assert_cmpuint(end, >, from);
        g_assert_cmpuint(end, <=, n);
        g_assert_cmpuint(end - from, <=, 3 * AQ_MD_PART_BYTES);
        g_autoptr(GPtrArray) blocks = aq_md_parse(text + from, end - from, fence, FALSE);
        check(blocks);
        for (guint i = 0; i < blocks->len; i++)
            describe(s, blocks->pdata[i]);
        char *next = aq_md_part_fence(text, from, end, fence);
        g_free(fence);
        fence = next;
        from = end;
    }
    return g_string_free(s, FALSE);
}

/* However the text grew, what is decided stays decided. */
static void test_grow(void)
{
    static const char *const pieces[] = {"Some words of a paragraph. ",
                                         "\n\nNext paragraph ",
                                         "\n- item",
                                         "\n> quote ",
                                         "\n```c\nint x;\n\nint y;\n",
                                         "\n```\n",
                                         "\n\n# Head\n\n",
                                         "| a | b |\n|---|---|\n| 1 | 2 |\n"};
    g_autoptr(GRand) rand = g_rand_new_with_seed(3);
    g_autoptr(GString) s = g_string_new(NULL);
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(gsize));
    g_autofree char *fence = NULL;
    gsize from = 0, end;
    while (s->len < 200000) {
        g_string_append(s, pieces[g_rand_int_range(rand, 0, G_N_ELEMENTS(pieces))]);
        while ((end = aq_md_part_end(s->str, s->len, from, fence)) < s->len) {
            char *next = aq_md_part_fence(s->str, from, end, fence);
            g_free(fence);
            fence = next;
            g_array_append_val(ends, end);
            from = end;
        }
    }
    g_assert_cmpuint(ends->len, >, 6);
    g_clear_pointer(&fence, g_free);
    from = 0;
    for (guint i = 0; i < ends->len; i++) {
        end = aq_md_part_end(s->str, s->len, from, fence);
        g_assert_cmpuint(end, ==, g_array_index(ends, gsize, i));
        char *next = aq_md_part_fence(s->str, from, end, fence);
        g_free(fence);
        fence = next;
        from = end;
    }
    g_autofree char *all = parts(s->str, s->len);
    g_assert_nonnull(strstr(all, "code c [int x;\n\nint y;\n"));
}

/* A long text ends a block with a sentence, else with a word, else anywhere; and where it did, it does when the text is longer. */
static void test_split(void)
{
    static const struct {
        const char *what, *end;
    } cases[] = {{"Some **words** of a sentence. ", ". "}, {"only words ", " "}, {"€", "€"}};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) s = g_string_new(NULL), text = g_string_new(NULL);
        while (s->len < 3 * AQ_MD_TEXT_BYTES)
            g_string_append(s, cases[i].what);
        g_autoptr(GPtrArray) all = aq_md_parse(s->str, s->len, NULL, FALSE);
        check(all);
        g_assert_cmpuint(all->len, >=, 3);
        for (guint k = 0; k < all->len; k++) {
            g_autofree char *shown = aq_md_unmark(((AqMdBlock *)all->pdata[k])->text);
            g_string_append(text, shown);
            if (k + 1 < all->len)
                g_assert_true(g_str_has_suffix(shown, cases[i].end));
        }
        g_string_truncate(text, text->len - 1); /* a paragraph loses the space at its end */
        g_assert_true(i == 2 || strncmp(text->str, "Some words", 10) == 0 ||
                      g_str_has_prefix(s->str, text->str));
        for (gsize n = AQ_MD_TEXT_BYTES - 700; n < s->len; n += 97) {
            if (((guchar)s->str[n] & 0xc0) == 0x80)
                continue;
            g_autoptr(GPtrArray) part = aq_md_parse(s->str, n, NULL, TRUE);
            for (guint k = 0; k + 1 < part->len; k++)
                g_assert_true(aq_md_block_equal(part->pdata[k], all->pdata[k]));
        }
    }
}

/* Long code goes on in other blocks, which have all of it; those that are full stay as they are while it grows. */
static void test_code(void)
{
    enum { LINES = 2 * AQ_MD_CODE_LINES + 50 };
    g_autoptr(GString) s = g_string_new("before\n\n- ```c\n"), code = g_string_new(NULL),
                       got = g_string_new(NULL);
    for (int i = 0; i < LINES; i++) {
        g_string_append_printf(s, "  x = %d;\n", i);
        g_string_append_printf(code, "x = %d;\n", i);
    }
    g_autoptr(GPtrArray) all = aq_md_parse(s->str, s->len, NULL, TRUE);
    check(all);
    g_assert_cmpuint(all->len, ==, 4);
    for (guint i = 1; i < all->len; i++) {
        const AqMdBlock *b = all->pdata[i];
        g_assert_cmpint(b->kind, ==, AQ_MD_CODE);
        g_assert_cmpstr(b->lang, ==, "c");
        g_assert_cmpint(b->goes_on, ==, i > 1);
        g_assert_cmpint(b->marker[0] != 0, ==, i == 1);
        g_string_append(got, b->text);
    }
    g_assert_cmpstr(got->str, ==, code->str);
    for (gsize n = 100; n < s->len; n += 131) {
        g_autoptr(GPtrArray) part = aq_md_parse(s->str, n, NULL, TRUE);
        for (guint k = 0; k + 1 < part->len; k++)
            g_assert_true(aq_md_block_equal(part->pdata[k], all->pdata[k]));
    }
    /* As many lines as fit, and a fence that a part before began. */
    g_autofree char *full = parse("```\na\n```\n");
    g_assert_cmpstr(full, ==, "code [a\n]\n");
    g_autoptr(GPtrArray) rest = aq_md_parse("y\n```\n", 6, "```c\n", FALSE);
    g_assert_true(((AqMdBlock *)rest->pdata[0])->goes_on);
}

static void repeat(GString *s, const char *what, gsize n)
{
    g_string_truncate(s, 0);
    for (gsize i = 0; i < n; i++)
        g_string_append(s, what);
}

static void test_hostile(void)
{
    g_autoptr(GString) s = g_string_new(NULL);
    static const struct {
        const char *what;
        gsize n;
    } cases[] = {
        {"x", 1000000},       {"€", 330000},          {"> ", 10000},           {">", 10000},
        {"- ", 10000},        {"*a ", 30000},         {"**", 30000},           {"[", 30000},
        {"![](", 10000},      {"`", 50000},           {"|a", 10000},           {"```\n", 5000},
        {"# \n", 20000},      {"- a\n", 50000},       {"<b>&amp;", 20000},     {"$", 50000},
        {"[a](b) ", 20000},   {"\xe2\x80\xae", 9000}, {"\x01", 5000},          {"1. ", 5000},
        {"\\", 30000},        {"&#0;", 9000},         {"[x](http://a ", 9000}, {"_a", 30000},
        {"| a | b |\n", 9000}};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        repeat(s, cases[i].what, cases[i].n);
        g_autofree char *all = parts(s->str, s->len);
        g_assert_nonnull(all);
    }
    /* Ten thousand columns, and as many rows. */
    repeat(s, "|c", 10000);
    g_string_append(s, "|\n");
    for (int i = 0; i < 10000; i++)
        g_string_append(s, "|-");
    g_string_append(s, "|\n|1|2|\n");
    g_autofree char *wide = parts(s->str, s->len);
    g_string_assign(s, "|a|b|\n|-|-|\n");
    for (int i = 0; i < 1500; i++)
        g_string_append(s, "|1|2|\n");
    g_autofree char *tall = parts(s->str, s->len);
    g_assert_nonnull(strstr(tall, "code [a | b\n1 | 2\n"));
    /* An unclosed fence of a megabyte stays code in all its parts. */
    g_string_assign(s, "```py\n");
    while (s->len < 1000000)
        g_string_append(s, "x = 1\n\nNext line\n");
    g_autofree char *fenced = parts(s->str, s->len);
    g_assert_null(strstr(fenced, "text"));
    g_assert_nonnull(strstr(fenced, "code py"));
    /* Every byte alone, and in a word. */
    for (int c = 1; c < 256; c++) {
        const char word[] = {'a', (char)c, 'b', (char)c, (char)c, 'c', 0};
        g_autofree char *got = parse(word);
        g_autofree char *alone = parse(word + 4);
        g_assert_nonnull(got);
        g_assert_nonnull(alone);
    }
}

static void test_plain(void)
{
    const char *text = "**no** <b>\n\n# none";
    g_autoptr(GPtrArray) blocks = aq_md_plain(text, strlen(text));
    g_assert_cmpuint(blocks->len, ==, 2);
    g_assert_cmpstr(((AqMdBlock *)blocks->pdata[0])->text, ==, "**no** &lt;b&gt;");
    g_assert_cmpstr(((AqMdBlock *)blocks->pdata[1])->text, ==, "# none");
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/markdown/blocks", test_blocks);
    g_test_add_func("/markdown/open", test_open);
    g_test_add_func("/markdown/grow", test_grow);
    g_test_add_func("/markdown/split", test_split);
    g_test_add_func("/markdown/code", test_code);
    g_test_add_func("/markdown/hostile", test_hostile);
    g_test_add_func("/markdown/plain", test_plain);
    return g_test_run();
}
