/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that grammars are built of, from their ends: bytes, characters, numbers, JSON. */
#include "gram-priv.h"

int aq_gram_new(const aq_vocab *v, aq_gram **ret, aq_err *err)
{
    aq_gram *g = calloc(1, sizeof *g);

    if (!g)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the form of an answer");
    g->vocab = v;
    g->ws = g->jchar = g->any = g->any_object = AQ_G_NONE;
    g->end = aq_g_add(g, AQ_G_RETURN, 0, 0);
    *ret = g;
    return 0;
}

void aq_gram_free(aq_gram *g)
{
    if (!g)
        return;
    free(g->node);
    free(g->set);
    free(g);
}

int aq_gram_check(const aq_gram *g, aq_err *err)
{
    return g->rc >= 0 ? 0
           : g->rc == -AQ_E_LIMIT
               ? aq_fail(err, AQ_E_LIMIT,
                         "the schema needs more than %u steps: make it smaller, or its lengths and "
                         "numbers of items",
                         AQ_GRAM_NODES_MAX)
               : aq_fail(err, AQ_E_NOMEM, "no memory for the form of an answer");
}

static bool node_ends(const aq_gnode *n, const uint8_t *ends)
{
    switch (n->kind) {
    case AQ_G_RETURN:
        return true;
    case AQ_G_FORK:
        return ends[n->a] || ends[n->b];
    case AQ_G_CALL:
        return ends[n->a] && ends[n->b];
    default:
        return ends[n->b];
    }
}

int aq_gram_ends(const aq_gram *g, uint32_t node)
{
    AQ_AUTOFREE uint8_t *ends = calloc(g->n_node + 1, 1);
    bool more = ends != NULL;

    /* built from the end: one round finds all but what lies behind a loop or a part that was named before it was there */
    while (more) {
        more = false;
        for (uint32_t i = 0; i < g->n_node; i++)
            if (!ends[i] && node_ends(&g->node[i], ends))
                ends[i] = more = true;
    }
    return ends ? node < g->n_node && ends[node] : -AQ_E_NOMEM;
}

uint32_t aq_g_add(aq_gram *g, uint8_t kind, uint32_t a, uint32_t b)
{
    if (g->rc < 0 || a == AQ_G_NONE || b == AQ_G_NONE)
        return AQ_G_NONE;
    if (g->n_node >= AQ_GRAM_NODES_MAX) {
        g->rc = -AQ_E_LIMIT;
        return AQ_G_NONE;
    }
    if (g->n_node == g->cap_node) {
        uint32_t cap = g->cap_node ? 2 * g->cap_node : 256;
        aq_gnode *m = realloc(g->node, cap * sizeof *m);
        if (!m) {
            g->rc = -AQ_E_NOMEM;
            return AQ_G_NONE;
        }
        g->node = m;
        g->cap_node = cap;
    }
    g->node[g->n_node] = (aq_gnode){kind, a, b};
    return g->n_node++;
}

uint32_t aq_g_fork(aq_gram *g, uint32_t a, uint32_t b)
{
    return a == AQ_G_NONE ? b : b == AQ_G_NONE || a == b ? a : aq_g_add(g, AQ_G_FORK, a, b);
}

uint32_t aq_g_lit(aq_gram *g, const char *s, size_t n, uint32_t next)
{
    for (size_t i = n; i-- > 0;)
        next = aq_g_add(g, AQ_G_BYTE, (uint8_t)s[i], next);
    return next;
}

uint32_t aq_g_litz(aq_gram *g, const char *s, uint32_t next)
{
    return aq_g_lit(g, s, strlen(s), next);
}

uint32_t aq_g_mark(aq_gram *g, const char *s, uint32_t next)
{
    int32_t id = g->vocab ? aq_vocab_find_special(g->vocab, s, strlen(s)) : -1;

    return id >= 0 && aq_vocab_is_control(g->vocab, id) ? aq_g_add(g, AQ_G_TOK, (uint32_t)id, next)
                                                        : aq_g_litz(g, s, next);
}

uint32_t aq_g_set(aq_gram *g, const aq_gset *set, uint32_t next)
{
    uint32_t i = 0;

    while (i < g->n_set && memcmp(&g->set[i], set, sizeof *set))
        i++;
    if (i == g->n_set) {
        if (g->n_set == g->cap_set) {
            uint32_t cap = g->cap_set ? 2 * g->cap_set : 32;
            aq_gset *m = realloc(g->set, cap * sizeof *m);
            if (!m) {
                g->rc = -AQ_E_NOMEM;
                return AQ_G_NONE;
            }
            g->set = m;
            g->cap_set = cap;
        }
        g->set[g->n_set++] = *set;
    }
    return aq_g_add(g, AQ_G_SET, i, next);
}

uint32_t aq_g_range(aq_gram *g, uint8_t lo, uint8_t hi, uint32_t next)
{
    aq_gset s = {0};

    if (lo == hi)
        return aq_g_add(g, AQ_G_BYTE, lo, next);
    aq_gset_put(&s, lo, hi);
    return aq_g_set(g, &s, next);
}

/* lo and hi have as many bytes and differ only where each byte takes its whole range, or in the first. */
static uint32_t aligned(aq_gram *g, uint32_t lo, uint32_t hi, uint32_t next)
{
    char a[4], b[4];
    uint32_t n = aq_utf8_put(lo, a);

    aq_utf8_put(hi, b);
    while (n-- > 0)
        next = aq_g_range(g, (uint8_t)a[n], (uint8_t)b[n], next);
    return next;
}

/* Source of the splitting: Russ Cox, "Regular Expression Matching in the Wild", on ranges in UTF-8. */
uint32_t aq_g_chars(aq_gram *g, uint32_t lo, uint32_t hi, uint32_t next)
{
    static const uint32_t top[] = {0x7f, 0x7ff, 0xffff};

    if (lo > hi)
        return AQ_G_NONE;
    if (lo < 0xE000 && hi >= 0xD800) {
        uint32_t a = lo < 0xD800 ? aq_g_chars(g, lo, 0xD7FF, next) : AQ_G_NONE,
                 b = hi >= 0xE000 ? aq_g_chars(g, 0xE000, hi, next) : AQ_G_NONE;
        return aq_g_fork(g, a, b);
    }
    for (size_t i = 0; i < AQ_LEN(top); i++)
        if (lo <= top[i] && top[i] < hi)
            return aq_g_fork(g, aq_g_chars(g, lo, top[i], next),
                             aq_g_chars(g, top[i] + 1, hi, next));
    for (uint32_t i = 1; i < 4 && hi > 0x7f; i++) {
        uint32_t m = (1u << (6 * i)) - 1;
        if ((lo & ~m) == (hi & ~m))
            continue;
        if (lo & m)
            return aq_g_fork(g, aq_g_chars(g, lo, lo | m, next),
                             aq_g_chars(g, (lo | m) + 1, hi, next));
        if ((hi & m) != m)
            return aq_g_fork(g, aq_g_chars(g, lo, (hi & ~m) - 1, next),
                             aq_g_chars(g, hi & ~m, hi, next));
    }
    return aligned(g, lo, hi, next);
}

uint32_t aq_g_ws(aq_gram *g, uint32_t next)
{
    if (g->ws == AQ_G_NONE) {
        uint32_t n = g->end;
        for (int i = 0; i < 20; i++)
            n = aq_g_fork(g, g->end, aq_g_add(g, AQ_G_BYTE, ' ', n));
        n = aq_g_add(g, AQ_G_BYTE, '\n', n);
        n = aq_g_fork(g, n, aq_g_add(g, AQ_G_BYTE, ' ', g->end));
        g->ws = aq_g_fork(g, g->end, n);
    }
    return aq_g_add(g, AQ_G_CALL, g->ws, next);
}

static uint32_t hex(aq_gram *g, const char *from, uint32_t next)
{
    aq_gset s = {0};

    for (; *from; from++)
        aq_gset_put(&s, (uint8_t)*from, (uint8_t)*from);
    return aq_g_set(g, &s, next);
}

static uint32_t escape(aq_gram *g, uint32_t next)
{
    static const char any[] = "0123456789abcdefABCDEF";
    uint32_t h2 = hex(g, any, hex(g, any, next)), h3 = hex(g, any, h2);
    /* \uD800 to \uDBFF, then \uDC00 to \uDFFF */
    uint32_t low = aq_g_litz(g, "\\u", hex(g, "dD", hex(g, "cdefCDEF", h2)));
    uint32_t pair = hex(g, "dD", hex(g, "89abAB", hex(g, any, hex(g, any, low))));
    uint32_t plain =
        aq_g_fork(g, hex(g, "0123456789abcefABCEF", h3), hex(g, "dD", hex(g, "01234567", h2)));
    uint32_t u = aq_g_add(g, AQ_G_BYTE, 'u', aq_g_fork(g, plain, pair));

    return aq_g_add(g, AQ_G_BYTE, '\\', aq_g_fork(g, u, hex(g, "\"\\/bfnrt", next)));
}

uint32_t aq_g_jchar(aq_gram *g, uint32_t next)
{
    if (g->jchar == AQ_G_NONE) {
        aq_gset s = {0};
        aq_gset_put(&s, 0x20, 0x7f);
        s.bit[0] &= ~(1ull << '"');
        s.bit[1] &= ~(1ull << ('\\' - 64));
        g->jchar =
            aq_g_fork(g, aq_g_set(g, &s, g->end),
                      aq_g_fork(g, escape(g, g->end), aq_g_chars(g, 0x80, 0x10FFFF, g->end)));
    }
    return aq_g_add(g, AQ_G_CALL, g->jchar, next);
}

/* A fork whose second way is set later. */
static uint32_t loop_open(aq_gram *g, uint32_t out)
{
    return aq_g_add(g, AQ_G_FORK, out, 0);
}

static void loop_close(aq_gram *g, uint32_t loop, uint32_t body)
{
    if (g->rc >= 0 && loop != AQ_G_NONE && body != AQ_G_NONE)
        g->node[loop].b = body;
}

uint32_t aq_g_jstring(aq_gram *g, uint64_t min, uint64_t max, uint32_t next)
{
    uint32_t quote = aq_g_add(g, AQ_G_BYTE, '"', next), n = quote;

    if (max > AQ_GRAM_REPEAT_MAX) {
        n = loop_open(g, quote);
        loop_close(g, n, aq_g_jchar(g, n));
        max = min;
    }
    for (uint64_t i = max; i-- > 0;) {
        n = aq_g_jchar(g, n);
        if (i >= min)
            n = aq_g_fork(g, quote, n);
    }
    return aq_g_add(g, AQ_G_BYTE, '"', n);
}

uint32_t aq_g_digits(aq_gram *g, uint32_t min, uint32_t max, uint32_t next)
{
    uint32_t n = next;

    for (uint32_t i = max; i-- > 0;) {
        n = aq_g_range(g, '0', '9', n);
        if (i >= min)
            n = aq_g_fork(g, next, n);
    }
    return n;
}

uint32_t aq_g_number(aq_gram *g, bool whole, uint32_t next)
{
    uint32_t tail = next;

    if (!whole) {
        aq_gset e = {0}, sign = {0};
        aq_gset_put(&e, 'e', 'e');
        aq_gset_put(&e, 'E', 'E');
        aq_gset_put(&sign, '+', '+');
        aq_gset_put(&sign, '-', '-');
        uint32_t d = aq_g_range(g, '1', '9', aq_g_digits(g, 0, 1, next)); /* at most 99: a double */
        uint32_t exp = aq_g_set(g, &e, aq_g_fork(g, d, aq_g_set(g, &sign, d)));
        uint32_t after = aq_g_fork(g, next, exp);
        tail = aq_g_fork(g, after, aq_g_add(g, AQ_G_BYTE, '.', aq_g_digits(g, 1, 16, after)));
    }
    uint32_t n = aq_g_fork(g, aq_g_add(g, AQ_G_BYTE, '0', tail),
                           aq_g_range(g, '1', '9', aq_g_digits(g, 0, 15, tail)));
    return aq_g_fork(g, n, aq_g_add(g, AQ_G_BYTE, '-', n));
}

/* Numbers of as many digits as both have, from digit `at` on; tight: what came before is the bound's own beginning. */
static uint32_t between(aq_gram *g, const char *lo, const char *hi, uint32_t at, uint32_t n,
                        bool tight_lo, bool tight_hi, uint32_t next)
{
    if (at == n)
        return next;
    if (!tight_lo && !tight_hi)
        return aq_g_digits(g, n - at, n - at, next);
    char a = tight_lo ? lo[at] : '0', b = tight_hi ? hi[at] : '9';
    if (a == b)
        return aq_g_range(g, (uint8_t)a, (uint8_t)a,
                          between(g, lo, hi, at + 1, n, tight_lo, tight_hi, next));
    uint32_t r = AQ_G_NONE;
    if (tight_lo) {
        r = aq_g_range(g, (uint8_t)a, (uint8_t)a, between(g, lo, hi, at + 1, n, true, false, next));
        a++;
    }
    if (tight_hi) {
        r = aq_g_fork(g, r,
                      aq_g_range(g, (uint8_t)b, (uint8_t)b,
                                 between(g, lo, hi, at + 1, n, false, true, next)));
        b--;
    }
    if (a <= b)
        r = aq_g_fork(g, r,
                      aq_g_range(g, (uint8_t)a, (uint8_t)b,
                                 between(g, lo, hi, at + 1, n, false, false, next)));
    return r;
}

static uint32_t text_of(uint64_t v, char ret[24])
{
    char rev[24];
    uint32_t n = 0;

    do
        rev[n++] = (char)('0' + v % 10);
    while (v /= 10);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = rev[n - 1 - i];
    return n;
}

static uint32_t positive(aq_gram *g, uint64_t lo, uint64_t hi, uint32_t next)
{
    uint32_t r = AQ_G_NONE;
    uint64_t first = 0, last = 9;

    for (uint32_t n = 1; n <= 18; n++, first = last + 1, last = last * 10 + 9) {
        char a[24], b[24];
        if (hi < first || lo > last)
            continue;
        text_of(AQ_MAX(lo, first), a);
        text_of(AQ_MIN(hi, last), b);
        r = aq_g_fork(g, r, between(g, a, b, 0, n, true, true, next));
    }
    return r;
}

uint32_t aq_g_int_range(aq_gram *g, int64_t lo, int64_t hi, uint32_t next)
{
    static const int64_t most = 999999999999999999; /* 18 digits */
    uint32_t r = AQ_G_NONE;

    lo = AQ_MAX(lo, -most);
    hi = AQ_MIN(hi, most);
    if (lo > hi)
        return AQ_G_NONE;
    if (hi >= 0)
        r = positive(g, lo > 0 ? (uint64_t)lo : 0, (uint64_t)hi, next);
    if (lo < 0)
        r = aq_g_fork(g, r,
                      aq_g_add(g, AQ_G_BYTE, '-',
                               positive(g, hi < 0 ? (uint64_t)-hi : 1, (uint64_t)-lo, next)));
    return r;
}

uint32_t aq_g_until(aq_gram *g, const char *end, uint32_t next)
{
    int32_t id = g->vocab ? aq_vocab_find_special(g->vocab, end, strlen(end)) : -1;
    aq_gset any = {{~0ull, ~0ull, ~0ull, ~0ull}};

    if (id >= 0 && aq_vocab_is_control(g->vocab, id)) {
        uint32_t loop = loop_open(g, aq_g_add(g, AQ_G_TOK, (uint32_t)id, next));
        loop_close(g, loop, aq_g_set(g, &any, loop));
        return loop;
    }
    /* state k: k bytes of `end` have come; its first byte is nowhere else in it */
    size_t n = strlen(end);
    uint8_t first = (uint8_t)end[0];
    uint32_t zero = aq_g_add(g, AQ_G_FORK, 0, 0), one = aq_g_add(g, AQ_G_FORK, 0, 0), to = next;
    for (size_t k = n; k-- > 0;) {
        uint32_t at = k == 0 ? zero : k == 1 ? one : aq_g_add(g, AQ_G_FORK, 0, 0);
        aq_gset other = any;
        uint8_t want = (uint8_t)end[k];
        other.bit[want >> 6] &= ~(1ull << (want & 63));
        other.bit[first >> 6] &= ~(1ull << (first & 63));
        uint32_t hit = aq_g_add(g, AQ_G_BYTE, want, k == 0 ? one : to);
        if (k == 0 && n == 1)
            hit = aq_g_add(g, AQ_G_BYTE, want, next);
        uint32_t miss = aq_g_set(g, &other, zero);
        if (k)
            miss = aq_g_fork(g, miss, aq_g_add(g, AQ_G_BYTE, first, one));
        if (g->rc < 0)
            return AQ_G_NONE;
        g->node[at].a = hit;
        g->node[at].b = miss;
        to = at;
    }
    return zero;
}

/* ---- any JSON ---- */

static void any_make(aq_gram *g)
{
    /* placeholders, so that the parts can name each other */
    g->any = aq_g_add(g, AQ_G_FORK, 0, 0);
    g->any_object = aq_g_add(g, AQ_G_FORK, 0, 0);
    if (g->any_object == AQ_G_NONE)
        return;
    uint32_t close = aq_g_ws(g, aq_g_add(g, AQ_G_BYTE, '}', g->end));
    uint32_t more = aq_g_add(g, AQ_G_FORK, close, 0);
    uint32_t pair =
        aq_g_jstring(g, 0, UINT64_MAX,
                     aq_g_add(g, AQ_G_BYTE, ':', aq_g_ws(g, aq_g_add(g, AQ_G_CALL, g->any, more))));
    loop_close(g, more, aq_g_add(g, AQ_G_BYTE, ',', aq_g_ws(g, pair)));
    uint32_t object = aq_g_add(g, AQ_G_BYTE, '{',
                               aq_g_fork(g, aq_g_add(g, AQ_G_BYTE, '}', g->end), aq_g_ws(g, pair)));

    close = aq_g_ws(g, aq_g_add(g, AQ_G_BYTE, ']', g->end));
    more = aq_g_add(g, AQ_G_FORK, close, 0);
    uint32_t item = aq_g_add(g, AQ_G_CALL, g->any, more);
    loop_close(g, more, aq_g_add(g, AQ_G_BYTE, ',', aq_g_ws(g, item)));
    uint32_t array = aq_g_add(g, AQ_G_BYTE, '[',
                              aq_g_fork(g, aq_g_add(g, AQ_G_BYTE, ']', g->end), aq_g_ws(g, item)));

    uint32_t n =
        aq_g_fork(g, aq_g_jstring(g, 0, UINT64_MAX, g->end), aq_g_number(g, false, g->end));
    n = aq_g_fork(g, n, aq_g_litz(g, "true", g->end));
    n = aq_g_fork(g, n, aq_g_litz(g, "false", g->end));
    n = aq_g_fork(g, n, aq_g_litz(g, "null", g->end));
    n = aq_g_fork(g, n, array);
    if (g->rc < 0)
        return;
    g->node[g->any_object] = (aq_gnode){AQ_G_FORK, object, object};
    g->node[g->any] = (aq_gnode){AQ_G_FORK, n, object};
}

uint32_t aq_g_any(aq_gram *g, bool object, uint32_t next)
{
    if (g->any == AQ_G_NONE)
        any_make(g);
    return aq_g_add(g, AQ_G_CALL, object ? g->any_object : g->any, next);
}
