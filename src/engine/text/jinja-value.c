/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the template language: making, comparing, iterating. Everything lives in the arena of one rendering. */
#include "unicode.h"
#include "jinja-priv.h"

#include <math.h>
#include <stdio.h>

void aq_jx_fail(jx *x, int code, const char *fmt, ...)
{
    char text[sizeof x->err.text];
    va_list ap;

    if (x->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (code == AQ_E_INVAL)
        x->rc = aq_fail(&x->err, code, "%s", text); /* raise_exception: the template's own words */
    else
        x->rc = aq_fail(&x->err, code, "template line %u: %s", x->line, text);
}

void *aq_jx_alloc(jx *x, size_t n)
{
    void *m = x->rc ? NULL : aq_arena_alloc(x->arena, n);

    if (!m && aq_jx_no_mem(x->arena, n, x->mem_max) == AQ_E_NOMEM)
        aq_jx_fail(x, AQ_E_NOMEM, "out of memory");
    else if (!m)
        aq_jx_fail(x, AQ_E_LIMIT, "rendering needs more than the %zu MiB of memory it may have",
                   x->mem_max >> 20);
    return m;
}

void aq_jx_work(jx *x, size_t bytes)
{
    x->steps += bytes / 64;
    if (x->steps > x->steps_max)
        aq_jx_fail(x, AQ_E_LIMIT,
                   "rendering takes more than %llu steps; does the template loop for ever?",
                   (unsigned long long)x->steps_max);
}

jv aq_jx_str(jx *x, const char *p, size_t n)
{
    jx_str *s = aq_jx_alloc(x, sizeof *s);

    if (!s)
        return JX_UNDEF;
    s->p = p;
    s->n = (uint32_t)n;
    return (jv){.kind = V_STR, .s = s};
}

jv aq_jx_strz(jx *x, const char *p)
{
    return aq_jx_str(x, p, strlen(p));
}

jv aq_jx_sub(jx *x, const jx_str *s, uint32_t a, uint32_t b)
{
    jv v = aq_jx_str(x, s->p + a, b > a ? b - a : 0);
    uint32_t lo = 0, hi = s->n_span, k;

    if (v.kind != V_STR || b <= a || !s->n_span)
        return v;
    while (lo < hi) { /* the first span that ends behind a */
        uint32_t mid = (lo + hi) / 2;
        if (s->span[mid].end > a)
            hi = mid;
        else
            lo = mid + 1;
    }
    for (k = lo; k < s->n_span && s->span[k].start < b;)
        k++;
    if (k == lo)
        return v;
    jx_span *sp = aq_jx_alloc(x, (k - lo) * sizeof *sp);
    if (!sp)
        return JX_UNDEF;
    for (uint32_t i = lo; i < k; i++)
        sp[i - lo] = aq_jx_cut(x, s, &s->span[i], a, b);
    v.s->span = sp;
    v.s->n_span = k - lo;
    return v;
}

jv aq_jx_list(jx *x, int kind, uint32_t cap)
{
    jx_list *l = aq_jx_alloc(x, sizeof *l);

    if (!l || (cap && !(l->item = aq_jx_alloc(x, cap * sizeof *l->item))))
        return JX_UNDEF;
    l->cap = cap;
    return (jv){.kind = (uint8_t)kind, .l = l};
}

void aq_jx_push(jx *x, jv list, jv item)
{
    if (x->rc || (list.kind != V_LIST && list.kind != V_TUPLE))
        return;
    jx_list *l = list.l;
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        jv *m = aq_jx_alloc(x, cap * sizeof *m);
        if (!m)
            return;
        if (l->n)
            memcpy(m, l->item, l->n * sizeof *m);
        l->item = m;
        l->cap = cap;
    }
    l->item[l->n++] = item;
}

/* ---- dictionaries: small ones are searched, larger ones hashed; order of insertion kept ---- */

jv aq_jx_dict(jx *x)
{
    jx_dict *d = aq_jx_alloc(x, sizeof *d);

    return d ? (jv){.kind = V_DICT, .d = d} : JX_UNDEF;
}

static uint32_t hash(jv k)
{
    uint64_t h = 14695981039346656037u;

    if (k.kind == V_STR)
        for (uint32_t i = 0; i < k.s->n; i++)
            h = (h ^ (uint8_t)k.s->p[i]) * 1099511628211u;
    else if (aq_jx_is_num(k))
        h = (uint64_t)(int64_t)fmod(aq_jx_num(k), 1e15) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h ^ h >> 32);
}

static bool same_key(jx *x, jv a, jv b)
{
    if (a.kind == V_STR || b.kind == V_STR)
        return a.kind == b.kind && a.s->n == b.s->n && !memcmp(a.s->p, b.s->p, a.s->n);
    return aq_jx_equal(x, a, b);
}

static uint32_t find(jx *x, const jx_dict *d, jv key)
{
    if (!d->slot) {
        for (uint32_t i = 0; i < d->n; i++)
            if (same_key(x, d->pair[i].key, key))
                return i;
        return UINT32_MAX;
    }
    for (uint32_t i = hash(key) & d->mask, k; (k = d->slot[i]); i = (i + 1) & d->mask)
        if (same_key(x, d->pair[k - 1].key, key))
            return k - 1;
    return UINT32_MAX;
}

static void enslot(jx_dict *d, uint32_t k)
{
    uint32_t i = hash(d->pair[k].key) & d->mask;

    while (d->slot[i])
        i = (i + 1) & d->mask;
    d->slot[i] = k + 1;
}

void aq_jx_put(jx *x, jv dict, jv key, jv val)
{
    if (x->rc || (dict.kind != V_DICT && dict.kind != V_NS))
        return;
    jx_dict *d = dict.d;
    if (key.kind >= V_LIST && key.kind != V_TUPLE) {
        aq_jx_fail(x, AQ_E_FORMAT, "a %s cannot be a key", aq_jx_kind(key));
        return;
    }
    uint32_t k = find(x, d, key);
    if (k != UINT32_MAX) {
        d->pair[k].val = val;
        return;
    }
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? d->cap * 2 : 8;
        jx_pair *m = aq_jx_alloc(x, cap * sizeof *m);
        uint32_t *slot = cap > 8 ? aq_jx_alloc(x, 2 * cap * sizeof *slot) : NULL;
        if (!m || (cap > 8 && !slot))
            return;
        if (d->n)
            memcpy(m, d->pair, d->n * sizeof *m);
        d->pair = m;
        d->cap = cap;
        d->slot = slot;
        d->mask = 2 * cap - 1;
        for (uint32_t i = 0; slot && i < d->n; i++)
            enslot(d, i);
    }
    d->pair[d->n++] = (jx_pair){key, val};
    if (d->slot)
        enslot(d, d->n - 1);
}

const jv *aq_jx_find(jx *x, const jx_dict *d, jv key)
{
    uint32_t k = find(x, d, key);

    if (k == UINT32_MAX)
        return NULL;
    if (key.kind == V_STR && d->pair[k].key.kind == V_STR &&
        !aq_jx_same(x, key.s, d->pair[k].key.s))
        return NULL;
    return &d->pair[k].val;
}

const jv *aq_jx_findz(jx *x, const jx_dict *d, const char *key)
{
    jx_str s = {.p = key, .n = (uint32_t)strlen(key)};

    return aq_jx_find(x, d, (jv){.kind = V_STR, .s = &s});
}

/* ---- looking at values ---- */

const char *aq_jx_kind(jv v)
{
    static const char *const name[] = {
        [V_UNDEF] = "undefined value",
        [V_NONE] = "NoneType",
        [V_BOOL] = "bool",
        [V_INT] = "int",
        [V_BIG] = "int",
        [V_FLOAT] = "float",
        [V_STR] = "str",
        [V_LIST] = "list",
        [V_TUPLE] = "tuple",
        [V_DICT] = "dict",
        [V_NS] = "namespace",
        [V_FUNC] = "function",
        [V_MACRO] = "macro",
        [V_METHOD] = "method",
        [V_LOOP] = "loop",
        [V_CYCLER] = "cycler",
        [V_JOINER] = "joiner",
        [V_UNSET] = "undefined value",
    };
    return name[v.kind];
}

bool aq_jx_true(jv v)
{
    switch (v.kind) {
    case V_UNDEF:
    case V_UNSET:
    case V_NONE:
        return false;
    case V_BOOL:
    case V_INT:
        return v.i != 0;
    case V_FLOAT:
        return v.f != 0;
    case V_STR:
        return v.s->n != 0;
    case V_LIST:
        return v.aux || v.l->n != 0;
    case V_TUPLE:
        return v.l->n != 0;
    case V_DICT:
        return v.d->n != 0;
    default:
        return true;
    }
}

bool aq_jx_is_num(jv v)
{
    return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT;
}

double aq_jx_num(jv v)
{
    return v.kind == V_FLOAT ? v.f : (double)v.i;
}

bool aq_jx_is(jv v, const char *text)
{
    return v.kind == V_STR && v.s->n == strlen(text) && !memcmp(v.s->p, text, v.s->n);
}

bool aq_jx_equal(jx *x, jv a, jv b)
{
    bool eq = true;

    if (aq_jx_is_num(a) && aq_jx_is_num(b))
        return a.kind == V_FLOAT || b.kind == V_FLOAT ? aq_jx_num(a) == aq_jx_num(b) : a.i == b.i;
    if (a.kind != b.kind || x->rc)
        return false;
    switch (a.kind) {
    case V_UNDEF:
    case V_NONE:
        return true;
    case V_BIG:
    case V_STR:
        aq_jx_work(x, a.s->n);
        eq = a.s->n == b.s->n && !memcmp(a.s->p, b.s->p, a.s->n);
        return eq && aq_jx_same(x, a.s, b.s);
    case V_LIST:
    case V_TUPLE:
        if (a.l->n != b.l->n || !aq_jx_enter(x))
            return false;
        for (uint32_t i = 0; eq && i < a.l->n; i++)
            eq = aq_jx_equal(x, a.l->item[i], b.l->item[i]);
        aq_jx_leave(x);
        return eq;
    case V_DICT:
        if (a.d->n != b.d->n || !aq_jx_enter(x))
            return false;
        for (uint32_t i = 0; eq && i < a.d->n; i++) {
            const jv *o = aq_jx_find(x, b.d, a.d->pair[i].key);
            eq = o && aq_jx_equal(x, a.d->pair[i].val, *o);
        }
        aq_jx_leave(x);
        return eq;
    default:
        return a.d == b.d;
    }
}

int aq_jx_order(jx *x, jv a, jv b)
{
    if (x->rc)
        return 0;
    if (aq_jx_is_num(a) && aq_jx_is_num(b)) {
        if (a.kind != V_FLOAT && b.kind != V_FLOAT)
            return a.i < b.i ? -1 : a.i > b.i;
        double p = aq_jx_num(a), q = aq_jx_num(b);
        return p < q ? -1 : p > q;
    }
    if (a.kind == V_STR && b.kind == V_STR) {
        int c =
            memcmp(a.s->p, b.s->p, AQ_MIN(a.s->n, b.s->n)); /* UTF-8 sorts as its code points do */
        aq_jx_work(x, AQ_MIN(a.s->n, b.s->n));
        return c ? (c < 0 ? -1 : 1) : a.s->n < b.s->n ? -1 : a.s->n > b.s->n;
    }
    if (a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE) && aq_jx_enter(x)) {
        int c = 0;
        for (uint32_t i = 0; !c && i < a.l->n && i < b.l->n; i++)
            if (!aq_jx_equal(x, a.l->item[i], b.l->item[i]))
                c = aq_jx_order(x, a.l->item[i], b.l->item[i]);
        aq_jx_leave(x);
        return c ? c : a.l->n < b.l->n ? -1 : a.l->n > b.l->n;
    }
    aq_jx_fail(x, AQ_E_FORMAT, "%s and %s have no order", aq_jx_kind(a), aq_jx_kind(b));
    return 0;
}

int64_t aq_jx_strpos(const jx_str *s, const jx_str *needle, uint32_t from)
{
    if (needle->n > s->n || from > s->n)
        return -1;
    const char *p =
        needle->n ? memmem(s->p + from, s->n - from, needle->p, needle->n) : s->p + from;
    return p ? p - s->p : -1;
}

bool aq_jx_contains(jx *x, jv in, jv what)
{
    switch (in.kind) {
    case V_UNDEF:
        return false;
    case V_STR:
        if (what.kind == V_UNDEF)
            break;
        if (what.kind != V_STR)
            break;
        aq_jx_work(x, in.s->n);
        return aq_jx_strpos(in.s, what.s, 0) >= 0;
    case V_LIST:
    case V_TUPLE:
        aq_jx_work(x, in.l->n * 16);
        in = aq_jx_iter(x, in);
        for (uint32_t i = 0; !x->rc && i < in.l->n; i++)
            if (aq_jx_equal(x, in.l->item[i], what))
                return true;
        return false;
    case V_DICT:
        return aq_jx_find(x, in.d, what) != NULL;
    default:
        break;
    }
    aq_jx_fail(x, AQ_E_FORMAT, "cannot look for a %s in a %s", aq_jx_kind(what), aq_jx_kind(in));
    return false;
}

int64_t aq_jx_chars(const char *p, uint32_t n)
{
    int64_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        k += ((uint8_t)p[i] & 0xC0) != 0x80;
    return k;
}

int64_t aq_jx_len(jx *x, jv v)
{
    switch (v.kind) {
    case V_UNDEF:
        return 0;
    case V_STR:
        aq_jx_work(x, v.s->n);
        return aq_jx_chars(v.s->p, v.s->n);
    case V_LIST:
    case V_TUPLE:
        return v.l->n;
    case V_DICT:
        return v.d->n;
    case V_LOOP:
        return v.loop->list->n;
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "a %s has no length", aq_jx_kind(v));
        return 0;
    }
}

jv aq_jx_iter(jx *x, jv v)
{
    jv out;

    switch (v.kind) {
    case V_LIST:
        if (!v.aux)
            return v;
        out = aq_jx_list(x, V_LIST, 0);
        if (x->rc)
            return JX_UNDEF;
        *out.l = (jx_list){.item = v.l->item, .n = v.l->n, .cap = v.l->n};
        v.l->n = 0;
        return out;
    case V_TUPLE:
        return v;
    case V_UNDEF:
        return aq_jx_list(x, V_LIST, 0);
    case V_DICT:
        out = aq_jx_list(x, V_LIST, v.d->n);
        for (uint32_t i = 0; i < v.d->n; i++)
            aq_jx_push(x, out, v.d->pair[i].key);
        return out;
    case V_STR:
        out = aq_jx_list(x, V_LIST, (uint32_t)aq_jx_chars(v.s->p, v.s->n));
        for (uint32_t i = 0; !x->rc && i < v.s->n;) {
            uint32_t cp, len = aq_uni_next(v.s->p + i, v.s->n - i, &cp, NULL);
            aq_jx_push(x, out, aq_jx_sub(x, v.s, i, i + len));
            i += len;
        }
        return out;
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "a %s cannot be looped over", aq_jx_kind(v));
        return JX_UNDEF;
    }
}
