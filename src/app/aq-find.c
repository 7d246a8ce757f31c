/* SPDX-License-Identifier: Apache-2.0 */
/* A text to look for in what messages show.
 *
 * Both sides are folded character by character, so that places are bytes of the text as it is: a letter to its small form without accents,
 * white space to a space. Characters that take no room (marks, places to break) are passed over. */
#include "aq-find.h"

#include <string.h>

#include "aq-markdown.h"

#define TEXT_MAX_CHARS 200

struct AqFind {
    gatomicrefcount ref;
    guint n;
    gunichar c[TEXT_MAX_CHARS];
};

/* 0: nothing to be seen. */
static gunichar fold(gunichar c)
{
    gunichar base, mark;
    if (c < 0x80)
        return g_ascii_isspace((gchar)c) ? ' ' : (gunichar)g_ascii_tolower((gchar)c);
    if (c == 0x200b || g_unichar_ismark(c))
        return 0;
    if (g_unichar_isspace(c))
        return ' ';
    c = g_unichar_tolower(c);
    while (g_unichar_decompose(c, &base, &mark) && base && mark && g_unichar_ismark(mark))
        c = base;
    return c;
}

AqFind *aq_find_new(const char *text)
{
    g_autofree char *clean = g_utf8_make_valid(text, -1);
    AqFind *self = g_new0(AqFind, 1);
    g_atomic_ref_count_init(&self->ref);
    for (const char *p = g_strstrip(clean); *p && self->n < TEXT_MAX_CHARS;
         p = g_utf8_next_char(p)) {
        gunichar c = fold(g_utf8_get_char(p));
        if (c && !(c == ' ' && self->n && self->c[self->n - 1] == ' '))
            self->c[self->n++] = c;
    }
    if (self->n)
        return self;
    g_free(self);
    return NULL;
}

AqFind *aq_find_ref(AqFind *self)
{
    g_atomic_ref_count_inc(&self->ref);
    return self;
}

void aq_find_unref(AqFind *self)
{
    if (self && g_atomic_ref_count_dec(&self->ref))
        g_free(self);
}

/* Where the text that begins at p ends if it is the one that is looked for, else NULL. */
static const char *match(const AqFind *self, const char *p)
{
    for (guint i = 0; i < self->n;) {
        if (!*p)
            return NULL;
        gunichar c = fold(g_utf8_get_char(p));
        if (c && c != self->c[i])
            return NULL;
        p = g_utf8_next_char(p);
        if (!c)
            continue;
        i++;
        while (c == ' ' && *p && fold(g_utf8_get_char(p)) == ' ')
            p = g_utf8_next_char(p);
    }
    return p;
}

gboolean aq_find_next(const AqFind *self, const char *text, gsize *at, gsize *ret_n)
{
    for (const char *p = text + *at; *p; p = g_utf8_next_char(p)) {
        if (fold(g_utf8_get_char(p)) != self->c[0])
            continue;
        const char *end = match(self, p);
        if (!end)
            continue;
        *at = (gsize)(p - text);
        *ret_n = (gsize)(end - p);
        return TRUE;
    }
    return FALSE;
}

static void places_in(const AqFind *self, const char *text, guint block, guint max, guint *nth,
                      GArray *ret)
{
    gsize at = 0, n;
    while (ret->len < max && aq_find_next(self, text, &at, &n)) {
        const AqFindPlace place = {.block = block, .nth = (*nth)++};
        g_array_append_val(ret, place);
        at += n;
    }
}

void aq_find_at_clear(AqFindAt *at)
{
    g_free(at->fence);
    *at = (AqFindAt){0};
}

gboolean aq_find_part(const AqFind *self, const char *text, gsize n, gboolean plain, guint max,
                      AqFindAt *at, GArray *ret)
{
    if (at->at >= n || ret->len >= max)
        return FALSE;
    gsize from = at->at;
    gsize end = plain ? aq_md_plain_end(text, n, from) : aq_md_part_end(text, n, from, at->fence);
    g_autoptr(GPtrArray) blocks = plain ? aq_md_plain(text + from, end - from)
                                        : aq_md_parse(text + from, end - from, at->fence, FALSE);
    for (guint i = 0; i < blocks->len; i++) {
        const AqMdBlock *b = blocks->pdata[i];
        guint nth = 0;
        if (b->kind == AQ_MD_CODE) {
            places_in(self, b->text, at->block + i, max, &nth, ret);
        } else if (b->kind == AQ_MD_TEXT) {
            g_autofree char *shown = aq_md_unmark(b->text);
            places_in(self, shown, at->block + i, max, &nth, ret);
        }
        for (guint k = 0; b->cells && k < b->cells->len; k++) {
            g_autofree char *shown = aq_md_unmark(b->cells->pdata[k]);
            places_in(self, shown, at->block + i, max, &nth, ret);
        }
    }
    char *fence = plain || end == n ? NULL : aq_md_part_fence(text, from, end, at->fence);
    g_free(at->fence);
    *at = (AqFindAt){.at = end, .block = at->block + blocks->len, .fence = fence};
    return end < n && ret->len < max;
}

void aq_find_places(const AqFind *self, const char *text, gsize n, gboolean plain, guint max,
                    GArray *ret)
{
    AqFindAt at = {0};
    while (aq_find_part(self, text, n, plain, max, &at, ret)) {
    }
    aq_find_at_clear(&at);
}
