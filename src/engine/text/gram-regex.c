/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of JSON schemas as parts of a grammar: ECMA-262 without what is not regular (look-around, back references, \b) and
 * without flags. A pattern may match anywhere unless ^ and $ say otherwise; both only at the ends of a branch of the whole. */
#include "gram-priv.h"

#define DEPTH_MAX 64u
#define RANGES_MAX 256u

enum { R_EMPTY, R_CLASS, R_CAT, R_ALT, R_REPEAT };
typedef struct rx {
    uint8_t kind;
    bool from_start, to_end; /* of a branch of the whole */
    uint32_t min, max;       /* R_REPEAT; max UINT32_MAX = no end */
    struct rx *a, *b;
    uint32_t (*range)[2]; /* R_CLASS: [n], ascending, apart */
    uint32_t n;
} rx;

typedef struct reader {
    aq_arena *a;
    const char *p;
    size_t n, at;
    uint32_t depth;
    aq_err *err;
    int rc;
} reader;

static rx *fail(reader *r, int code, const char *what)
{
    if (r->rc >= 0)
        r->rc = aq_fail(r->err, code, "pattern: %s at byte %zu", what, r->at);
    return NULL;
}

static rx *node(reader *r, uint8_t kind, rx *a, rx *b)
{
    rx *x = r->rc < 0 ? NULL : aq_arena_alloc(r->a, sizeof *x);

    if (!x)
        return r->rc < 0 ? NULL : fail(r, AQ_E_NOMEM, "no memory");
    x->kind = kind;
    x->a = a;
    x->b = b;
    return x;
}

/* ---- classes ---- */

typedef struct ranges {
    uint32_t r[RANGES_MAX][2], n;
    bool full;
} ranges;

static void put(ranges *s, uint32_t lo, uint32_t hi)
{
    if (s->n == RANGES_MAX) {
        s->full = true;
        return;
    }
    s->r[s->n][0] = lo;
    s->r[s->n++][1] = hi;
}

static int by_start(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

static void normal(ranges *s)
{
    uint32_t n = 0;

    qsort(s->r, s->n, sizeof s->r[0], by_start);
    for (uint32_t i = 0; i < s->n; i++)
        if (n && s->r[i][0] <= s->r[n - 1][1] + 1)
            s->r[n - 1][1] = AQ_MAX(s->r[n - 1][1], s->r[i][1]);
        else
            memcpy(s->r[n++], s->r[i], sizeof s->r[0]);
    s->n = n;
}

static void negate(ranges *s)
{
    ranges t = {.full = s->full};
    uint32_t from = 0;

    normal(s);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->r[i][0] > from)
            put(&t, from, s->r[i][0] - 1);
        from = s->r[i][1] + 1;
    }
    if (from <= 0x10FFFF)
        put(&t, from, 0x10FFFF);
    *s = t;
}

/* \d \w \s and their opposites; false: it is none. */
static bool shorthand(char c, ranges *s)
{
    ranges t = {0};

    switch (c | 32) {
    case 'd':
        put(&t, '0', '9');
        break;
    case 'w':
        put(&t, '0', '9');
        put(&t, 'A', 'Z');
        put(&t, 'a', 'z');
        put(&t, '_', '_');
        break;
    case 's':
        put(&t, '\t', '\r');
        put(&t, ' ', ' ');
        put(&t, 0xA0, 0xA0);
        put(&t, 0x1680, 0x1680);
        put(&t, 0x2000, 0x200A);
        put(&t, 0x2028, 0x2029);
        put(&t, 0x202F, 0x202F);
        put(&t, 0x205F, 0x205F);
        put(&t, 0x3000, 0x3000);
        put(&t, 0xFEFF, 0xFEFF);
        break;
    default:
        return false;
    }
    if (!(c & 32))
        negate(&t);
    for (uint32_t i = 0; i < t.n; i++)
        put(s, t.r[i][0], t.r[i][1]);
    return true;
}

static rx *class_of(reader *r, ranges *s)
{
    rx *x = node(r, R_CLASS, NULL, NULL);

    if (!x)
        return NULL;
    normal(s);
    if (s->full)
        return fail(r, AQ_E_LIMIT, "a class of too many ranges");
    if (!(x->range = aq_arena_alloc(r->a, (s->n + 1) * sizeof *x->range)))
        return fail(r, AQ_E_NOMEM, "no memory");
    memcpy(x->range, s->r, s->n * sizeof *x->range);
    x->n = s->n;
    return x;
}

static uint32_t next_char(reader *r)
{
    uint32_t cp = 0;

    r->at += aq_utf8_next(r->p + r->at, r->n - r->at, &cp, NULL);
    return cp;
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

static bool hex(reader *r, uint32_t n, uint32_t *ret)
{
    uint32_t v = 0;

    for (uint32_t i = 0; i < n; i++) {
        int d = r->at + i < r->n ? hex_of(r->p[r->at + i]) : -1;
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    r->at += n;
    *ret = v;
    return true;
}

/* One character behind a backslash. */
static uint32_t escaped(reader *r)
{
    static const char from[] = "ntrfv0", to[] = "\n\t\r\f\v";
    uint32_t cp, low;
    const char *at;

    if (r->at >= r->n) {
        fail(r, AQ_E_INVAL, "a backslash at the end");
        return 0;
    }
    cp = next_char(r);
    if (cp < 128 && cp && (at = strchr(from, (int)cp)))
        return (uint8_t)to[at - from];
    if (cp == 'x' || cp == 'u') {
        bool braces = cp == 'u' && r->at < r->n && r->p[r->at] == '{';
        uint32_t v = 0;
        bool good;
        if (braces) {
            size_t n = 0;
            while (r->at + 1 + n < r->n && r->p[r->at + 1 + n] != '}' && n < 7)
                n++;
            r->at++;
            good = n && hex(r, (uint32_t)n, &v) && v <= 0x10FFFF;
            r->at++;
        } else {
            good = hex(r, cp == 'x' ? 2 : 4, &v);
            if (good && v >= 0xD800 && v < 0xDC00 && r->at + 2 <= r->n &&
                !memcmp(r->p + r->at, "\\u", 2)) {
                r->at += 2;
                good = hex(r, 4, &low) && low >= 0xDC00 && low < 0xE000;
                v = 0x10000 + ((v - 0xD800) << 10) + (good ? low - 0xDC00 : 0);
            }
        }
        if (!good || r->at > r->n)
            fail(r, AQ_E_INVAL, "a character number that is none");
        return v;
    }
    if ((cp >= '1' && cp <= '9') || cp == 'k' || cp == 'b' || cp == 'B' || cp == 'p' || cp == 'P' ||
        cp == 'c')
        fail(r, AQ_E_UNSUPPORTED, "\\b, \\p, \\c and references to groups are not supported");
    else if (cp < 128 && ((cp | 32) >= 'a' && (cp | 32) <= 'z'))
        fail(r, AQ_E_INVAL, "an unknown escape");
    return cp;
}

static rx *bracket(reader *r)
{
    ranges s = {0};
    bool not = r->at < r->n && r->p[r->at] == '^';

    r->at += not;
    for (;;) {
        uint32_t lo, hi;
        if (r->at >= r->n)
            return fail(r, AQ_E_INVAL, "a class without its end");
        if (r->p[r->at] == ']') {
            r->at++;
            break;
        }
        if (r->p[r->at] == '\\' && r->at + 1 < r->n && shorthand(r->p[r->at + 1], &s)) {
            r->at += 2;
            continue;
        }
        lo = next_char(r);
        if (lo == '\\') {
            bool b = r->at < r->n && r->p[r->at] == 'b';
            r->at += b;
            lo = b ? 8 : escaped(r);
        }
        hi = lo;
        if (r->at + 1 < r->n && r->p[r->at] == '-' && r->p[r->at + 1] != ']') {
            r->at++;
            hi = next_char(r);
            if (hi == '\\')
                hi = escaped(r);
        }
        if (r->rc < 0)
            return NULL;
        if (hi < lo)
            return fail(r, AQ_E_INVAL, "a range that ends before it begins");
        put(&s, lo, hi);
    }
    if (not)
        negate(&s);
    return class_of(r, &s);
}

/* ---- structure ---- */

static rx *alt(reader *r, bool whole);

static rx *atom(reader *r)
{
    ranges s = {0};
    uint32_t cp;

    if (r->p[r->at] == '\\' && r->at + 1 < r->n && shorthand(r->p[r->at + 1], &s)) {
        r->at += 2;
        return class_of(r, &s);
    }
    cp = next_char(r);
    switch (cp) {
    case '(':
        if (r->at < r->n && r->p[r->at] == '?') {
            bool named = r->at + 2 < r->n && r->p[r->at + 1] == '<' && r->p[r->at + 2] != '=' &&
                         r->p[r->at + 2] != '!';
            if (r->at + 1 < r->n && r->p[r->at + 1] == ':')
                r->at += 2;
            else if (named)
                while (r->at < r->n && r->p[r->at++] != '>')
                    ;
            else
                return fail(r, AQ_E_UNSUPPORTED, "look-around is not supported");
        }
        if (++r->depth > DEPTH_MAX)
            return fail(r, AQ_E_LIMIT, "groups nested too deep");
        rx *x = alt(r, false);
        r->depth--;
        if (r->rc >= 0 && (r->at >= r->n || r->p[r->at++] != ')'))
            return fail(r, AQ_E_INVAL, "a group without its end");
        return x;
    case '[':
        return bracket(r);
    case '.':
        put(&s, '\n', '\n');
        put(&s, '\r', '\r');
        put(&s, 0x2028, 0x2029);
        negate(&s);
        return class_of(r, &s);
    case '^':
    case '$':
        return fail(r, AQ_E_UNSUPPORTED, "^ and $ are supported at the ends of the pattern only");
    case '*':
    case '+':
    case '?':
        return fail(r, AQ_E_INVAL, "a repetition of nothing");
    case '\\':
        cp = escaped(r);
        break;
    default:
        break;
    }
    put(&s, cp, cp);
    return class_of(r, &s);
}

static bool number(reader *r, uint32_t *ret)
{
    uint64_t v = 0;
    size_t from = r->at;

    while (r->at < r->n && r->p[r->at] >= '0' && r->p[r->at] <= '9' && r->at - from < 9)
        v = v * 10 + (uint64_t)(r->p[r->at++] - '0');
    *ret = (uint32_t)v;
    return r->at > from;
}

static rx *repeated(reader *r, rx *x)
{
    uint32_t min = 1, max = 1;
    size_t was = r->at;

    switch (r->at < r->n ? r->p[r->at] : 0) {
    case '*':
        min = 0;
        max = UINT32_MAX;
        break;
    case '+':
        max = UINT32_MAX;
        break;
    case '?':
        min = 0;
        break;
    case '{':
        r->at++;
        if (!number(r, &min)) {
            r->at = was;
            return x; /* a brace of its own: the next atom */
        }
        max = min;
        if (r->at < r->n && r->p[r->at] == ',') {
            r->at++;
            if (!number(r, &max))
                max = UINT32_MAX;
        }
        if (r->at >= r->n || r->p[r->at] != '}' || max < min)
            return fail(r, AQ_E_INVAL, "a number of repetitions that is none");
        break;
    default:
        return x;
    }
    r->at++;
    if (r->at < r->n && r->p[r->at] == '?')
        r->at++; /* greedy or not: the same texts */
    if (max != UINT32_MAX && max > AQ_GRAM_REPEAT_MAX)
        max = UINT32_MAX;
    if (min > AQ_GRAM_REPEAT_MAX)
        return fail(r, AQ_E_LIMIT, "more than 2000 repetitions demanded");
    if (!(x = node(r, R_REPEAT, x, NULL)))
        return NULL;
    x->min = min;
    x->max = max;
    return x;
}

static rx *cat(reader *r, bool whole)
{
    rx *x = NULL;
    bool from = false, to = false;

    if (whole && r->at < r->n && r->p[r->at] == '^') {
        from = true;
        r->at++;
    }
    while (r->rc >= 0 && r->at < r->n && r->p[r->at] != '|' && r->p[r->at] != ')') {
        if (whole && r->p[r->at] == '$' && (r->at + 1 == r->n || r->p[r->at + 1] == '|')) {
            to = true;
            r->at++;
            break;
        }
        rx *y = atom(r);
        if (y)
            y = repeated(r, y);
        x = x && y ? node(r, R_CAT, x, y) : y;
    }
    if (r->rc >= 0 && !x)
        x = node(r, R_EMPTY, NULL, NULL);
    if (whole && x && (x = node(r, R_CAT, x, node(r, R_EMPTY, NULL, NULL)))) {
        x->from_start = from;
        x->to_end = to;
    }
    return x;
}

static rx *alt(reader *r, bool whole)
{
    rx *x = cat(r, whole);

    while (r->rc >= 0 && r->at < r->n && r->p[r->at] == '|') {
        r->at++;
        rx *y = cat(r, whole);
        x = node(r, R_ALT, x, y);
    }
    return x;
}

/* ---- to nodes ---- */

/* As these characters stand in a JSON string. */
static uint32_t json_chars(aq_gram *g, uint32_t lo, uint32_t hi, uint32_t next)
{
    static const char from[] = "\b\t\n\f\r\"\\", to[] = "btnfr\"\\";
    static const char digits[] = "0123456789abcdef";
    uint32_t r = AQ_G_NONE, c = lo;

    for (; c <= hi && c <= '\\'; c++) {
        const char *at = c ? strchr(from, (int)c) : NULL;
        char s[7] = {'\\', 'u', '0', '0', digits[c >> 4 & 15], digits[c & 15], 0};
        if (at)
            r = aq_g_fork(g, r, aq_g_lit(g, (char[]){'\\', to[at - from]}, 2, next));
        else if (c < 0x20)
            r = aq_g_fork(g, r, aq_g_litz(g, s, next));
        else {
            uint32_t last = AQ_MIN(hi, c < '"' ? '"' - 1u : '\\' - 1u);
            r = aq_g_fork(g, r, aq_g_range(g, (uint8_t)c, (uint8_t)last, next));
            c = last;
        }
    }
    return c <= hi ? aq_g_fork(g, r, aq_g_chars(g, c, hi, next)) : r;
}

static uint32_t emit(aq_gram *g, const rx *x, bool json, uint32_t next)
{
    uint32_t n = AQ_G_NONE;

    if (g->rc < 0)
        return AQ_G_NONE;
    switch (x->kind) {
    case R_CLASS:
        for (uint32_t i = 0; i < x->n; i++)
            n = aq_g_fork(g, n,
                          json ? json_chars(g, x->range[i][0], x->range[i][1], next)
                               : aq_g_chars(g, x->range[i][0], x->range[i][1], next));
        return n;
    case R_CAT:
        n = emit(g, x->b, json, next);
        return n == AQ_G_NONE ? n : emit(g, x->a, json, n);
    case R_ALT:
        return aq_g_fork(g, emit(g, x->a, json, next), emit(g, x->b, json, next));
    case R_REPEAT:
        n = next;
        if (x->max == UINT32_MAX) {
            n = aq_g_add(g, AQ_G_FORK, next, 0);
            uint32_t body = n == AQ_G_NONE ? n : emit(g, x->a, json, n);
            if (g->rc >= 0 && body != AQ_G_NONE)
                g->node[n].b = body;
            else if (g->rc >= 0)
                g->node[n].b = next;
        }
        for (uint32_t i = x->max == UINT32_MAX ? x->min : x->max; i-- > 0 && g->rc >= 0;) {
            n = emit(g, x->a, json, n);
            if (n == AQ_G_NONE)
                return i >= x->min ? next : n;
            if (i >= x->min)
                n = aq_g_fork(g, next, n);
        }
        return n;
    default:
        return next;
    }
}

/* Any characters, then next. */
static uint32_t anything(aq_gram *g, bool json, uint32_t next)
{
    uint32_t n = aq_g_add(g, AQ_G_FORK, next, 0), body;

    if (n == AQ_G_NONE)
        return n;
    body = json ? aq_g_jchar(g, n) : aq_g_chars(g, 1, 0x10FFFF, n);
    if (g->rc >= 0)
        g->node[n].b = body;
    return n;
}

static uint32_t branches(aq_gram *g, const rx *x, bool json, uint32_t next)
{
    if (x->kind == R_ALT)
        return aq_g_fork(g, branches(g, x->a, json, next), branches(g, x->b, json, next));
    if (!x->to_end)
        next = anything(g, json, next);
    uint32_t n = next == AQ_G_NONE ? next : emit(g, x, json, next);
    return n != AQ_G_NONE && !x->from_start ? anything(g, json, n) : n;
}

int aq_g_regex(aq_gram *g, const char *pattern, size_t n, bool json, uint32_t next, uint32_t *ret,
               aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(16u << 20);
    reader r = {.a = a, .p = pattern, .n = n, .err = err};

    if (!a)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read a pattern");
    rx *x = alt(&r, true);
    if (r.rc >= 0 && r.at < r.n)
        fail(&r, AQ_E_INVAL, "a bracket without its beginning");
    if (r.rc < 0)
        return r.rc;
    uint32_t at = branches(g, x, json, next);
    if (g->rc < 0)
        return aq_gram_check(g, err);
    if (at == AQ_G_NONE)
        return aq_fail(err, AQ_E_INVAL, "pattern: no text matches it");
    *ret = at;
    return 0;
}
