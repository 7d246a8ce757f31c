/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown: any text gives blocks within the limits, whose markup is whole, in parts that cover it. */
#include <pango/pango.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aq-find.h"
#include "aq-markdown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

/* Pango knows all tags of it but <a>, which is taken out here. */
static void check_markup(const char *markup)
{
    g_autoptr(GString) s = g_string_new(NULL);
    for (const char *p = markup; *p;) {
        if (g_str_has_prefix(p, "<a href=\"")) {
            const char *end = strchr(p + 9, '"');
            must(end && end[1] == '>');
            g_autofree char *uri = g_strndup(p + 9, (gsize)(end - p - 9));
            must(aq_md_link_allowed(uri) && !strpbrk(uri, "<>"));
            p = end + 2;
        } else if (g_str_has_prefix(p, "</a>")) {
            p += 4;
        } else {
            g_string_append_c(s, *p++);
        }
    }
    /* What a search looks at is what the label shows. */
    g_autofree char *shown = NULL, *text = aq_md_unmark(markup);
    must(pango_parse_markup(s->str, -1, 0, NULL, &shown, NULL, NULL));
    must(strcmp(shown, text) == 0);
}

/* Each place is in a block that there is, and all of a block's are numbered. */
static void check_places(const char *text, size_t n, guint n_block)
{
    g_autofree char *some = g_strndup(text + n / 2, MIN(n - n / 2, 3));
    g_autofree char *valid = g_utf8_make_valid(some, -1);
    g_autoptr(AqFind) find = aq_find_new(valid);
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(AqFindPlace));
    AqFindPlace last = {.block = G_MAXUINT};
    if (!find)
        return;
    aq_find_places(find, text, n, FALSE, AQ_FIND_MAX, places);
    for (guint i = 0; i < places->len; i++) {
        AqFindPlace p = g_array_index(places, AqFindPlace, i);
        must(p.block < n_block && p.nth == (p.block == last.block ? last.nth + 1 : 0));
        last = p;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    /* A message has no NUL and is UTF-8. */
    g_autofree char *raw = g_strndup((const char *)data, n), *text = g_utf8_make_valid(raw, -1);
    g_autofree char *fence = NULL;
    guint n_block = 0;
    n = strlen(text);
    for (size_t from = 0; from < n;) {
        size_t end = aq_md_part_end(text, n, from, fence);
        must(end > from && end <= n);
        for (int running = 0; running < 2; running++) {
            g_autoptr(GPtrArray) blocks = aq_md_parse(text + from, end - from, fence, running);
            n_block += running ? 0 : blocks->len;
            for (guint i = 0; i < blocks->len; i++) {
                const AqMdBlock *b = blocks->pdata[i];
                must(b->quote <= AQ_MD_DEPTH_MAX && b->list <= AQ_MD_DEPTH_MAX);
                must(aq_md_block_equal(b, b));
                if (b->kind == AQ_MD_TEXT)
                    check_markup(b->text);
                if (b->kind == AQ_MD_CODE)
                    must(g_utf8_validate(b->text, -1, NULL));
                for (guint k = 0; b->cells && k < b->cells->len; k++)
                    check_markup(b->cells->pdata[k]);
            }
        }
        char *next = aq_md_part_fence(text, from, end, fence);
        g_free(fence);
        fence = next;
        from = end;
    }
    check_places(text, n, n_block);
    return 0;
}
