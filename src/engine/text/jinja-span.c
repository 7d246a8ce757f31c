/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a user's strings went. Each span of a string names the string of the variables that it comes from (its leaf; equal
 * strings are one) and says which of the leaf's ends it holds:
 *
 *     leaf    "  see  </think> this "
 *              ^FIRST             ^LAST    its first and last byte
 *                ^IN_FIRST       ^IN_LAST  its first and last character that is no white space
 *
 * At the end of a rendering the leaves that came through whole are told apart from those that the template took to pieces, and from
 * words that it knows: those that it compared with its own, where another outcome would have given another text. */
#include "unicode.h"
#include "jinja-priv.h"

static uint64_t hash(const char *p, uint32_t n)
{
    uint64_t h = 14695981039346656037u;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static bool grow(jx *x)
{
    jx_leaves *t = &x->leaves;
    uint32_t cap = t->cap ? t->cap * 2 : 32;
    jx_leaf *leaf = aq_jx_alloc(x, cap * sizeof *leaf);
    uint32_t *slot = aq_jx_alloc(x, 2 * (size_t)cap * sizeof *slot);
    if (!leaf || !slot)
        return false;
    if (t->n)
        memcpy(leaf, t->leaf, t->n * sizeof *leaf);
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t k = (uint32_t)hash(leaf[i].p, leaf[i].n) & (2 * cap - 1);
        while (slot[k])
            k = (k + 1) & (2 * cap - 1);
        slot[k] = i + 1;
    }
    t->leaf = leaf;
    t->slot = slot;
    t->cap = cap;
    return true;
}

uint32_t aq_jx_leaf(jx *x, const char *p, uint32_t n)
{
    jx_leaves *t = &x->leaves;
    if (t->n == t->cap && !grow(x))
        return JX_NO_LEAF;
    uint32_t mask = 2 * t->cap - 1, k = (uint32_t)hash(p, n) & mask;
    aq_jx_work(x, n);
    for (; t->slot[k]; k = (k + 1) & mask) {
        const jx_leaf *l = &t->leaf[t->slot[k] - 1];
        if (l->n == n && !memcmp(l->p, p, n))
            return t->slot[k] - 1;
    }
    t->leaf[t->n] = (jx_leaf){p, n, 0};
    t->slot[k] = t->n + 1;
    return t->n++;
}

/** Bytes of white space at the front of a text, or at its back. */
static uint32_t blank_front(const char *p, uint32_t n)
{
    uint32_t cp, i = 0, k;
    while (i < n && (k = aq_uni_next(p + i, n - i, &cp, NULL), aq_uni_pyspace(cp)))
        i += k;
    return i;
}

static uint32_t blank_back(const char *p, uint32_t n)
{
    uint32_t cp, e = n, k;
    for (; e; e = k) {
        for (k = e - 1; k && ((uint8_t)p[k] & 0xC0) == 0x80;)
            k--;
        aq_uni_next(p + k, e - k, &cp, NULL);
        if (!aq_uni_pyspace(cp))
            break;
    }
    return n - e;
}

uint8_t aq_jx_ends(jx *x, const char *p, uint32_t n)
{
    uint32_t blank = blank_front(p, n);
    aq_jx_work(x, blank);
    return JX_FIRST | JX_LAST | (blank < n ? JX_IN_FIRST | JX_IN_LAST : 0);
}

jx_span aq_jx_cut(jx *x, const jx_str *s, const jx_span *sp, uint32_t a, uint32_t b)
{
    jx_span r = *sp;
    uint32_t lost;
    r.start = AQ_MAX(sp->start, a);
    r.end = AQ_MIN(sp->end, b);
    if ((lost = r.start - sp->start)) {
        uint32_t blank = r.ends & JX_IN_FIRST ? blank_front(s->p + sp->start, lost) : 0;
        r.ends &= (uint8_t)~(JX_FIRST | (blank < lost ? JX_IN_FIRST : 0));
        aq_jx_work(x, blank);
    }
    if ((lost = sp->end - r.end)) {
        uint32_t blank = r.ends & JX_IN_LAST ? blank_back(s->p + r.end, lost) : 0;
        r.ends &= (uint8_t)~(JX_LAST | (blank < lost ? JX_IN_LAST : 0));
        aq_jx_work(x, blank);
    }
    if (r.ends != sp->ends && r.ends & (JX_IN_FIRST | JX_IN_LAST)) {
        uint32_t blank = blank_front(s->p + r.start, r.end - r.start);
        if (blank == r.end - r.start)
            r.ends &= (uint8_t)~(JX_IN_FIRST | JX_IN_LAST);
        aq_jx_work(x, blank);
    }
    r.start -= a;
    r.end -= a;
    return r;
}

/** A template's word matched a part of a leaf: note it, or say that this time it does not match. */
static bool matched(jx *x, const jx_span *sp)
{
    if (!sp->ends || sp->leaf == JX_NO_LEAF)
        return true;
    x->leaves.leaf[sp->leaf].known = 1;
    return sp->leaf + 1 != x->leaves.deny;
}

bool aq_jx_same(jx *x, const jx_str *a, const jx_str *b)
{
    const jx_str *s = a->n_span ? a : b;
    bool same = true;
    if (!a->n_span == !b->n_span) /* two of the user's, or none */
        return true;
    for (uint32_t i = 0; i < s->n_span; i++)
        same &= matched(x, &s->span[i]);
    aq_jx_work(x, s->n_span);
    return same;
}

bool aq_jx_affix(jx *x, const jx_str *s, const jx_str *word, bool end)
{
    const jx_span *sp = s->n_span && end ? &s->span[s->n_span - 1] : s->span;
    if (!s->n_span || word->n_span || !word->n || (end ? sp->end < s->n : sp->start))
        return true;
    return !(sp->ends & (end ? JX_LAST | JX_IN_LAST : JX_FIRST | JX_IN_FIRST)) || matched(x, sp);
}

/* ---- after a rendering ---- */

/* What becomes of a leaf's marks: as it is, or the part between its white space. */
typedef struct follow {
    bool bad[2];
    uint32_t open[2]; /* start + 1 */
} follow;

/** White space at an end of a piece, also as JSON and Python write it. */
static bool escaped_blank(const char *p)
{
    return p[0] == '\\' && (p[1] == 'n' || p[1] == 't' || p[1] == 'r');
}

/** The part of a piece in the output that its leaf's text without the white space around became. */
static void trim(const jx_leaf *l, const jx_span *sp, const char *text, uint32_t *start,
                 uint32_t *end)
{
    uint32_t a = blank_front(l->p, l->n), n = l->n - a - blank_back(l->p + a, l->n - a);
    const char *same = memmem(text + *start, *end - *start, l->p + a, n);
    if (same) { /* unchanged */
        *start = (uint32_t)(same - text);
        *end = *start + n;
        return;
    }
    for (uint32_t was = *end + 1; sp->ends & JX_IN_FIRST && *end - *start < was;) {
        was = *end - *start;
        *start += blank_front(text + *start, was);
        if (a && *end - *start >= 2 && escaped_blank(text + *start))
            *start += 2;
    }
    for (uint32_t was = *end + 1; sp->ends & JX_IN_LAST && *end - *start < was;) {
        was = *end - *start;
        *end -= blank_back(text + *start, was);
        if (a + n < l->n && *end - *start >= 2 && escaped_blank(text + *end - 2))
            *end -= 2;
    }
}

/** One piece of leaf l in the output: true and a stretch in *ret when the leaf's end was reached. */
static bool piece(follow *f, const jx_leaf *l, int how, const jx_span *sp, const char *text,
                  aq_span *ret)
{
    const uint8_t first = how ? JX_IN_FIRST : JX_FIRST, last = how ? JX_IN_LAST : JX_LAST;
    /* what was taken off: white space at an end */
    f->bad[0] |= (sp->ends & (JX_FIRST | JX_IN_FIRST)) == JX_IN_FIRST ||
                 (sp->ends & (JX_LAST | JX_IN_LAST)) == JX_IN_LAST;
    uint32_t start = sp->start, end = sp->end;
    bool ends = false;
    if (how && sp->ends & (first | last))
        trim(l, sp, text, &start, &end);
    if (sp->ends & first) {
        f->bad[how] |= f->open[how] != 0;
        f->open[how] = start + 1;
    }
    if (sp->ends & last) {
        f->bad[how] |= !f->open[how];
        *ret = (aq_span){f->open[how] - 1, end};
        f->open[how] = 0;
        ends = true;
    }
    return ends;
}

static int by_start(const void *a, const void *b)
{
    const aq_span *p = a, *q = b;
    return p->start < q->start ? -1 : p->start > q->start;
}

uint32_t aq_jx_whole(jx *x, const jx_buf *out, aq_span *ret)
{
    follow *f = aq_jx_alloc(x, (x->leaves.n + 1) * sizeof *f);
    uint32_t n = 0;
    aq_span got;
    if (!f)
        return 0;
    for (uint32_t i = 0; i < out->n_span; i++)
        for (int how = 0; how < 2 && out->span[i].leaf != JX_NO_LEAF; how++)
            piece(&f[out->span[i].leaf], &x->leaves.leaf[out->span[i].leaf], how, &out->span[i],
                  out->p, &got);
    for (uint32_t i = 0; i < x->leaves.n; i++)
        for (int how = 0; how < 2; how++) {
            f[i].bad[how] |= f[i].open[how] || x->leaves.leaf[i].known;
            f[i].open[how] = 0;
        }
    for (uint32_t i = 0; i < out->n_span; i++) {
        const jx_span *sp = &out->span[i];
        int how = sp->leaf != JX_NO_LEAF && f[sp->leaf].bad[0];
        if (sp->leaf != JX_NO_LEAF && !f[sp->leaf].bad[how] &&
            piece(&f[sp->leaf], &x->leaves.leaf[sp->leaf], how, sp, out->p, &got))
            ret[n++] = got;
    }
    qsort(ret, n, sizeof *ret, by_start);
    return n;
}
