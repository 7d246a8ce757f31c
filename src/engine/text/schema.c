/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schema to grammar: what comes out is valid, but not all that is valid can come out.
 *
 * Properties stand in the schema's order (in any with LENIENT). An object with properties has no others unless additionalProperties says so; without
 * properties it is any object. oneOf counts as anyOf. Strings match pattern, or the date, time, date-time, uuid and ipv4 formats
 * (others say nothing); numbers have up to 16 digits a side. Upper bounds of repetition over 2,000 count as none. What else a
 * schema demands is refused by name and place: nothing is left out in silence but annotations. */
#include <float.h>
#include <math.h>

#include "gram-priv.h"

#define RULES_MAX 512u

typedef struct rule {
    const aq_json *s;
    uint32_t start, level; /* level: how many objects and arrays it stands in while it is made */
    bool open;
} rule;

typedef struct maker {
    aq_gram *g;
    const aq_json *root;
    int note;
    bool lenient; /* properties in any order, and others besides where the schema allows them */
    aq_err *err;
    rule rule[RULES_MAX];
    uint32_t n_rule, depth, level;
    char path[256];
    size_t n_path;
} maker;

static int put(maker *m, const aq_json *s, uint32_t next, uint32_t *ret);

static int refuse(maker *m, int code, const char *key, const char *what)
{
    return aq_fail(m->err, code, "schema: %s%s%s: %s", m->n_path ? m->path : "at the root",
                   key[0] ? " " : "", key, what);
}

/* One step down; what is cut of a long path is not missed. */
static size_t step(maker *m, const char *name)
{
    size_t was = m->n_path, n = strlen(name);

    if (m->n_path + n + 2 < sizeof m->path) {
        m->path[m->n_path++] = '/';
        memcpy(m->path + m->n_path, name, n + 1);
        m->n_path += n;
    }
    return was;
}

static void back(maker *m, size_t was)
{
    m->n_path = was;
    m->path[was] = 0;
}

static bool is(const aq_json *j, const char *text)
{
    return j && j->kind == AQ_JSON_STR && !strcmp(j->str, text);
}

/* ---- references ---- */

static const aq_json *pointer(const aq_json *root, const char *p)
{
    const aq_json *at = root;

    if (p[0] != '#')
        return NULL;
    for (p++; at && *p;) {
        char name[256];
        size_t n = 0;
        if (*p++ != '/')
            return NULL;
        while (*p && *p != '/' && n < sizeof name - 1) {
            if (p[0] == '~' && (p[1] == '0' || p[1] == '1')) {
                name[n++] = p[1] == '0' ? '~' : '/';
                p += 2;
            } else {
                name[n++] = *p++;
            }
        }
        name[n] = 0;
        if (at->kind == AQ_JSON_ARR) {
            char *end;
            unsigned long i = strtoul(name, &end, 10);
            const aq_json *c = at->n && *name && !*end ? at->item : NULL;
            while (c && i--)
                c = c->next;
            at = c;
        } else {
            at = aq_json_get(at, name);
        }
    }
    return at;
}

const aq_json *aq_schema_resolve(const aq_json *root, const aq_json *s)
{
    for (int i = 0; i < 32 && s && s->kind == AQ_JSON_OBJ; i++) {
        const char *ref = aq_json_str(s, "$ref");
        const aq_json *all = aq_json_get(s, "allOf");
        if (ref)
            s = pointer(root, ref);
        else if (all && all->kind == AQ_JSON_ARR && all->n == 1)
            s = all->item;
        else
            break;
    }
    return s;
}

/* A schema as a part of its own, once. */
static int called(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    rule *r = NULL;

    for (uint32_t i = 0; i < m->n_rule && !r; i++)
        if (m->rule[i].s == s)
            r = &m->rule[i];
    if (r && r->open && r->level == m->level)
        return refuse(m, AQ_E_INVAL, "$ref", "it refers to itself with nothing in between");
    if (!r) {
        if (m->n_rule == RULES_MAX)
            return refuse(m, AQ_E_LIMIT, "$ref", "more than 512 schemas are referred to");
        uint32_t at = m->n_rule++, start, body;
        m->rule[at] = (rule){s, start = aq_g_add(m->g, AQ_G_FORK, 0, 0), m->level, true};
        int rc = put(m, s, m->g->end, &body);
        if (rc < 0)
            return rc;
        if (m->g->rc >= 0 && body != AQ_G_NONE)
            m->g->node[start] = (aq_gnode){AQ_G_FORK, body, body};
        r = &m->rule[at];
        r->open = false;
    }
    *ret = aq_g_add(m->g, AQ_G_CALL, r->start, next);
    return 0;
}

/* ---- literals ---- */

static int literal(maker *m, const aq_json *v, uint32_t next, uint32_t *ret)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};

    if (m->note == AQ_NOTE_GEMMA && v->kind == AQ_JSON_STR) {
        *ret = aq_g_mark(m->g, "<|\"|>",
                         aq_g_lit(m->g, v->str, v->n, aq_g_mark(m->g, "<|\"|>", next)));
        return 0;
    }
    if (m->note == AQ_NOTE_GEMMA && (v->kind == AQ_JSON_OBJ || v->kind == AQ_JSON_ARR))
        return refuse(m, AQ_E_UNSUPPORTED, "enum", "only texts and numbers in this model's calls");
    if (aq_json_put(&b, v) < 0)
        return refuse(m, AQ_E_NOMEM, "enum", "no memory");
    *ret = aq_g_lit(m->g, (const char *)b.p, b.n, next);
    return 0;
}

static int literals(maker *m, const aq_json *list, uint32_t next, uint32_t *ret)
{
    uint32_t n = AQ_G_NONE, one = AQ_G_NONE;
    int rc;

    if (list->kind != AQ_JSON_ARR || !list->n)
        return refuse(m, AQ_E_INVAL, "enum", "it must be a list that is not empty");
    for (const aq_json *c = list->item; c; c = c->next) {
        if ((rc = literal(m, c, next, &one)) < 0)
            return rc;
        n = aq_g_fork(m->g, n, one);
    }
    *ret = n;
    return 0;
}

/* ---- texts ---- */

static const char *format_of(const aq_json *s)
{
    static const char *const list[][2] = {
#define D "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
#define T                                                                                          \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
        {"date", "^" D "$"},
        {"time", "^" T "$"},
        {"date-time", "^" D "T" T "$"},
        {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
        {"ipv4", "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]"
                 "[0-9]|[1-9]?[0-9])$"},
    };
    const char *f = aq_json_str(s, "format");

    for (size_t i = 0; f && i < AQ_LEN(list); i++)
        if (!strcmp(f, list[i][0]))
            return list[i][1];
    return NULL;
}

/* A count; false: refused. */
static int count(maker *m, const aq_json *s, const char *key, uint64_t dflt, uint64_t *ret)
{
    const aq_json *v = aq_json_get(s, key);

    *ret = dflt;
    if (!v)
        return 0;
    int64_t n = aq_json_int(s, key, -1);
    if (n < 0)
        return refuse(m, AQ_E_INVAL, key, "it must be a whole number, 0 or more");
    *ret = (uint64_t)n;
    return 0;
}

static int text(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    const aq_json *pattern = aq_json_get(s, "pattern");
    const char *format = format_of(s);
    uint64_t min, max;
    uint32_t n;
    int rc;

    if ((rc = count(m, s, "minLength", 0, &min)) < 0 ||
        (rc = count(m, s, "maxLength", UINT64_MAX, &max)) < 0)
        return rc;
    if (min > AQ_GRAM_REPEAT_MAX)
        return refuse(m, AQ_E_UNSUPPORTED, "minLength", "more than 2000 is not supported");
    if (max < min)
        return refuse(m, AQ_E_INVAL, "maxLength", "it is smaller than minLength");
    if (pattern && pattern->kind != AQ_JSON_STR)
        return refuse(m, AQ_E_INVAL, "pattern", "it must be a text");
    if (m->note == AQ_NOTE_GEMMA) {
        *ret = aq_g_mark(m->g, "<|\"|>", aq_g_until(m->g, "<|\"|>", next));
        return 0;
    }
    if (!pattern && !format) {
        *ret = aq_g_jstring(m->g, min, max, next);
        return 0;
    }
    if (aq_json_get(s, "minLength") || aq_json_get(s, "maxLength"))
        return refuse(m, AQ_E_UNSUPPORTED, pattern ? "pattern" : "format",
                      "together with minLength or maxLength it is not supported: write the length "
                      "into the pattern");
    n = aq_g_add(m->g, AQ_G_BYTE, '"', next);
    if ((rc = aq_g_regex(m->g, pattern ? pattern->str : format,
                         pattern ? pattern->n : strlen(format), true, n, &n, m->err)) < 0)
        return aq_err_prefix(m->err, rc, "schema: %s", m->n_path ? m->path : "at the root");
    *ret = aq_g_add(m->g, AQ_G_BYTE, '"', n);
    return 0;
}

int aq_schema_raw_text(aq_gram *g, const aq_json *root, const aq_json *s, const char *end,
                       uint32_t next, uint32_t *ret, aq_err *err)
{
    const aq_json *t, *list;
    uint32_t close = aq_g_litz(g, end, next), n = AQ_G_NONE;

    *ret = AQ_G_NONE;
    s = aq_schema_resolve(root, s);
    list = aq_json_get(s, "enum");
    t = aq_json_get(s, "type");
    if (list && list->kind == AQ_JSON_ARR && list->n) {
        for (const aq_json *c = list->item; c; c = c->next) {
            if (c->kind != AQ_JSON_STR)
                return 0;
            n = aq_g_fork(g, n, aq_g_lit(g, c->str, c->n, close));
        }
        *ret = n;
        return 0;
    }
    if (is(t, "string")) {
        const aq_json *pattern = aq_json_get(s, "pattern"), *c = aq_json_get(s, "const");
        const char *format = format_of(s);
        if (c && c->kind == AQ_JSON_STR)
            *ret = aq_g_lit(g, c->str, c->n, close);
        else if ((pattern && pattern->kind == AQ_JSON_STR) || format)
            return aq_g_regex(g, format ? format : pattern->str,
                              format ? strlen(format) : pattern->n, false, close, ret, err);
        else
            *ret = aq_g_until(g, end[0] == '\n' ? end + 1 : end, next);
        return 0;
    }
    if (!t && !aq_json_get(s, "anyOf") && !aq_json_get(s, "oneOf") &&
        !aq_json_get(s, "properties") && !aq_json_get(s, "const"))
        *ret = aq_g_until(g, end[0] == '\n' ? end + 1 : end, next);
    return 0;
}

/* ---- numbers ---- */

static int bound(maker *m, const aq_json *s, const char *key, const char *open_key, bool lower,
                 double *ret, bool *ret_open, bool *ret_any)
{
    const aq_json *v[2] = {aq_json_get(s, key), aq_json_get(s, open_key)};

    for (int i = 0; i < 2; i++) {
        if (!v[i])
            continue;
        if (v[i]->kind != AQ_JSON_INT && v[i]->kind != AQ_JSON_NUM)
            return refuse(m, AQ_E_INVAL, i ? open_key : key, "it must be a number");
        double d = v[i]->kind == AQ_JSON_INT ? (double)v[i]->i : v[i]->num;
        if (!*ret_any || (lower ? d >= *ret : d <= *ret)) {
            *ret_open = i == 1;
            *ret = d;
        }
        *ret_any = true;
    }
    return 0;
}

static int number(maker *m, const aq_json *s, bool whole, uint32_t next, uint32_t *ret)
{
    static const double most = 1e15;
    double lo = -most, hi = most;
    bool lo_open = false, hi_open = false, has_lo = false, has_hi = false;
    int rc;

    if (aq_json_get(s, "multipleOf") && !(whole && aq_json_num(s, "multipleOf", 0) == 1))
        return refuse(m, AQ_E_UNSUPPORTED, "multipleOf", "it is not supported");
    if ((rc = bound(m, s, "minimum", "exclusiveMinimum", true, &lo, &lo_open, &has_lo)) < 0 ||
        (rc = bound(m, s, "maximum", "exclusiveMaximum", false, &hi, &hi_open, &has_hi)) < 0)
        return rc;
    if (!has_lo && !has_hi) {
        *ret = aq_g_number(m->g, whole, next);
        return 0;
    }
    lo = AQ_MAX(lo, -most);
    hi = AQ_MIN(hi, most);
    int64_t a = (int64_t)ceil(lo), b = (int64_t)floor(hi);
    uint32_t n = aq_g_int_range(m->g, a + (lo_open && (double)a == lo),
                                b - (hi_open && (double)b == hi), next);
    if (!whole) {
        /* a fraction that is not 0 stands strictly between two whole numbers */
        uint32_t f =
            aq_g_digits(m->g, 0, 5, aq_g_range(m->g, '1', '9', aq_g_digits(m->g, 0, 5, next)));
        f = aq_g_add(m->g, AQ_G_BYTE, '.', f);
        if (b - 1 >= AQ_MAX(a, 0))
            n = aq_g_fork(m->g, n, aq_g_int_range(m->g, AQ_MAX(a, 0), b - 1, f));
        if (a + 1 <= AQ_MIN(b, 0)) {
            uint32_t neg = aq_g_int_range(m->g, AQ_MAX(-b, 0), -a - 1, f);
            n = aq_g_fork(m->g, n, aq_g_add(m->g, AQ_G_BYTE, '-', neg));
        }
    }
    if (n == AQ_G_NONE && m->g->rc >= 0)
        return refuse(m, AQ_E_UNSUPPORTED, "minimum and maximum",
                      whole ? "no whole number lies between them"
                            : "bounds without a whole number between them are not supported");
    *ret = n;
    return 0;
}

/* ---- arrays ---- */

/* White space where the notation has any. */
static uint32_t gap(maker *m, uint32_t next)
{
    return m->note == AQ_NOTE_JSON ? aq_g_ws(m->g, next) : next;
}

static int item(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    static const aq_json any = {.kind = AQ_JSON_TRUE};
    size_t was = step(m, "items");

    m->level++;
    int rc = called(m, s ? s : &any, next, ret);
    m->level--;
    back(m, was);
    return rc;
}

static int array(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    const aq_json *items = aq_json_get(s, "items"), *first = aq_json_get(s, "prefixItems"),
                  *list[256];
    uint32_t n_first = 0, at;
    uint64_t min, max;
    int rc;

    if (items && items->kind == AQ_JSON_ARR && !first) { /* as before 2020 */
        first = items;
        items = NULL;
    }
    if (aq_json_bool(s, "uniqueItems", false))
        return refuse(m, AQ_E_UNSUPPORTED, "uniqueItems", "it is not supported");
    if (first && first->kind == AQ_JSON_ARR) {
        if (first->n > AQ_LEN(list))
            return refuse(m, AQ_E_LIMIT, "prefixItems", "more than 256");
        for (const aq_json *c = first->n ? first->item : NULL; c; c = c->next)
            list[n_first++] = c;
    }
    bool closed = items && items->kind == AQ_JSON_FALSE;
    if ((rc = count(m, s, "minItems", 0, &min)) < 0 ||
        (rc = count(m, s, "maxItems", closed ? n_first : UINT64_MAX, &max)) < 0)
        return rc;
    if (min > AQ_GRAM_REPEAT_MAX)
        return refuse(m, AQ_E_UNSUPPORTED, "minItems", "more than 2000 is not supported");
    if (max > AQ_GRAM_REPEAT_MAX)
        max = UINT64_MAX;
    if (closed)
        max = AQ_MIN(max, n_first);
    if (max < min)
        return refuse(m, AQ_E_INVAL, "maxItems", "it is smaller than minItems");
    uint32_t close = aq_g_add(m->g, AQ_G_BYTE, ']', next), end = gap(m, close), n = end;
    uint64_t k = max;
    if (max == UINT64_MAX) { /* from item k on they repeat */
        k = AQ_MAX(AQ_MAX(min, n_first), 1u);
        n = aq_g_add(m->g, AQ_G_FORK, end, 0);
        if ((rc = item(m, items, n, &at)) < 0)
            return rc;
        at = aq_g_add(m->g, AQ_G_BYTE, ',', gap(m, at));
        if (m->g->rc < 0)
            return aq_gram_check(m->g, m->err);
        m->g->node[n].b = at;
    }
    while (k > 0) { /* n: what may follow item k - 1 */
        k--;
        if ((rc = item(m, k < n_first ? list[k] : items, n, &n)) < 0)
            return rc;
        if (k) {
            n = aq_g_add(m->g, AQ_G_BYTE, ',', gap(m, n));
            n = k >= min ? aq_g_fork(m->g, end, n) : n;
        }
    }
    if (!max)
        n = close;
    else
        n = min ? gap(m, n) : aq_g_fork(m->g, close, gap(m, n));
    *ret = aq_g_add(m->g, AQ_G_BYTE, '[', n);
    return 0;
}

/* ---- objects ---- */

static bool required(const aq_json *s, const aq_json *p)
{
    const aq_json *r = aq_json_get(s, "required");

    for (const aq_json *c = r && r->kind == AQ_JSON_ARR && r->n ? r->item : NULL; c; c = c->next)
        if (c->kind == AQ_JSON_STR && c->n == p->key_n && !memcmp(c->str, p->key, c->n))
            return true;
    return false;
}

/* "name": before a value. */
static uint32_t key(maker *m, const char *name, size_t n, uint32_t value)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};

    if (m->note == AQ_NOTE_GEMMA)
        return aq_g_lit(m->g, name, n, aq_g_add(m->g, AQ_G_BYTE, ':', value));
    if (aq_json_quote(&b, name, n) < 0 || aq_bytes_puts(&b, ":") < 0) {
        m->g->rc = -AQ_E_NOMEM;
        return AQ_G_NONE;
    }
    return aq_g_lit(m->g, (const char *)b.p, b.n, aq_g_ws(m->g, value));
}

/* A quoted name that none of the properties has: it begins with none of their first bytes, or is one that goes on
 * differently. Names with escapes are left out. */
static uint32_t other_key(maker *m, const aq_json *props, size_t at, const char *pre,
                          uint32_t value)
{
    aq_gset any = {0};
    bool ends = false, taken[256] = {false};
    uint32_t r = AQ_G_NONE, close = aq_g_litz(m->g, "\":", aq_g_ws(m->g, value));

    for (const aq_json *p = props->n ? props->item : NULL; p; p = p->next) {
        if (p->key_n < at || memcmp(p->key, pre, at))
            continue;
        if (p->key_n == at)
            ends = true;
        else
            taken[(uint8_t)p->key[at]] = true;
    }
    aq_gset_put(&any, 0x20, 0x7f);
    any.bit[0] &= ~(1ull << '"');
    any.bit[1] &= ~(1ull << ('\\' - 64));
    uint32_t loop = aq_g_add(m->g, AQ_G_FORK, close, 0), more = aq_g_jchar(m->g, loop);
    if (m->g->rc < 0)
        return AQ_G_NONE;
    m->g->node[loop].b = more;
    bool high = false;
    for (int b = 0; b < 256; b++) {
        if (!taken[b])
            continue;
        any.bit[b >> 6] &= ~(1ull << (b & 63));
        if (b >= 0x80) {
            high = true;
        } else if (at + 1 < 64 && b != '"' && b != '\\' && b >= 0x20) {
            char next[65];
            memcpy(next, pre, at);
            next[at] = (char)b;
            r = aq_g_fork(
                m->g, r,
                aq_g_add(m->g, AQ_G_BYTE, (uint32_t)b, other_key(m, props, at + 1, next, value)));
        }
    }
    r = aq_g_fork(m->g, r, aq_g_set(m->g, &any, loop));
    if (!high)
        r = aq_g_fork(m->g, r, aq_g_chars(m->g, 0x80, 0x10FFFF, loop));
    return ends || !at ? r : aq_g_fork(m->g, r, close);
}

#define TRACKED_MAX 5u /* properties of which it is known which ones came */

/* The properties in any order. Of few of them each comes once and none that is required is missing; of many the model has to see to
 * that itself, as it would have to without a schema. Others may come too when `more` is set. */
static int any_order(maker *m, const aq_json *s, const aq_json *props, const aq_json *const *list,
                     uint32_t n, bool more, uint32_t next, uint32_t *ret)
{
    const aq_json *add = aq_json_get(s, "additionalProperties");
    aq_gram *g = m->g;
    uint32_t n_set = n <= TRACKED_MAX ? 1u << n : 1, then[1u << TRACKED_MAX], must = 0, first = 0;
    uint32_t close = aq_g_add(g, AQ_G_BYTE, '}', next), end = aq_g_ws(g, close);
    uint32_t other = more ? aq_g_add(g, AQ_G_BYTE, '"', other_key(m, props, 0, "", g->end)) : 0;
    int rc = 0;

    for (uint32_t k = 0; k < n_set; k++)
        then[k] = aq_g_add(g, AQ_G_FORK, 0, 0);
    for (uint32_t i = 0; i < n && n <= TRACKED_MAX; i++)
        must |= (uint32_t)required(s, list[i]) << i;
    for (uint32_t k = 0; k < n_set && g->rc >= 0; k++) {
        uint32_t pairs = AQ_G_NONE, value = AQ_G_NONE;
        m->level++;
        for (uint32_t i = 0; i < n && rc >= 0; i++) {
            if (n_set > 1 && k >> i & 1)
                continue;
            size_t was = step(m, "properties");
            step(m, list[i]->key);
            rc = called(m, list[i], then[n_set > 1 ? k | 1u << i : 0], &value);
            back(m, was);
            if (rc >= 0)
                pairs = aq_g_fork(g, pairs, key(m, list[i]->key, list[i]->key_n, value));
        }
        if (more && rc >= 0) {
            size_t was = step(m, "additionalProperties");
            if (add && add->kind == AQ_JSON_OBJ && add->n)
                rc = called(m, add, then[k], &value);
            else
                value = aq_g_any(g, false, then[k]);
            back(m, was);
            if (rc >= 0)
                pairs = aq_g_fork(g, pairs, aq_g_add(g, AQ_G_CALL, other, value));
        }
        m->level--;
        if (rc < 0)
            return rc;
        uint32_t may = (k & must) == must ? end : AQ_G_NONE;
        uint32_t on = pairs == AQ_G_NONE ? pairs : aq_g_add(g, AQ_G_BYTE, ',', aq_g_ws(g, pairs));
        if (!k)
            first = aq_g_fork(g, must ? AQ_G_NONE : close,
                              pairs == AQ_G_NONE ? pairs : aq_g_ws(g, pairs));
        if (g->rc >= 0)
            g->node[then[k]] =
                (aq_gnode){AQ_G_FORK, may == AQ_G_NONE ? on : may, on == AQ_G_NONE ? may : on};
    }
    if (g->rc < 0)
        return aq_gram_check(g, m->err);
    *ret = aq_g_add(g, AQ_G_BYTE, '{', first);
    return 0;
}

static int object(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    const aq_json *props = aq_json_get(s, "properties"),
                  *add = aq_json_get(s, "additionalProperties"), *req = aq_json_get(s, "required"),
                  *list[1024];
    static const aq_json no_props = {.kind = AQ_JSON_OBJ};
    bool json = m->note == AQ_NOTE_JSON;
    bool more = add ? add->kind != AQ_JSON_FALSE : !props || (m->lenient && json);
    uint32_t n = 0, n_req = 0, at;
    int rc;

    if (props && props->kind != AQ_JSON_OBJ)
        return refuse(m, AQ_E_INVAL, "properties", "it must be an object");
    if (!props)
        props = &no_props;
    if (props->n > AQ_LEN(list))
        return refuse(m, AQ_E_LIMIT, "properties", "more than 1024");
    for (const aq_json *c = props->n ? props->item : NULL; c; c = c->next) {
        list[n++] = c;
        n_req += required(s, c);
    }
    if (req && req->kind == AQ_JSON_ARR)
        for (const aq_json *c = req->n ? req->item : NULL; c; c = c->next)
            if (c->kind != AQ_JSON_STR || !aq_json_get(props, c->str))
                return refuse(m, AQ_E_UNSUPPORTED, "required",
                              "it names a property that properties do not describe");
    if (aq_json_int(s, "minProperties", 0) > n_req)
        return refuse(m, AQ_E_UNSUPPORTED, "minProperties", "more than are required");
    if (aq_json_get(s, "maxProperties") && (more || aq_json_int(s, "maxProperties", 0) < n))
        return refuse(m, AQ_E_UNSUPPORTED, "maxProperties", "fewer than there are properties");
    if (m->lenient && json && (n || more))
        return any_order(m, s, props, list, n, more, next, ret);
    uint32_t close = aq_g_add(m->g, AQ_G_BYTE, '}', next),
             end = json ? aq_g_ws(m->g, close) : close;
    /* first: nothing was written yet; then: behind a property */
    uint32_t then = end, first = end;
    if (more && !json)
        return refuse(m, AQ_E_UNSUPPORTED, "additionalProperties", "not in this model's calls");
    if (more) {
        uint32_t loop = aq_g_add(m->g, AQ_G_FORK, end, 0), value;
        size_t was = step(m, "additionalProperties");
        m->level++;
        rc = add && add->kind == AQ_JSON_OBJ && add->n ? called(m, add, loop, &value)
                                                       : (value = aq_g_any(m->g, false, loop), 0);
        m->level--;
        back(m, was);
        if (rc < 0)
            return rc;
        uint32_t pair = aq_g_add(m->g, AQ_G_BYTE, '"', other_key(m, props, 0, "", value));
        if (m->g->rc < 0)
            return aq_gram_check(m->g, m->err);
        m->g->node[loop].b = aq_g_add(m->g, AQ_G_BYTE, ',', aq_g_ws(m->g, pair));
        then = loop;
        first = aq_g_fork(m->g, end, pair);
    }
    for (uint32_t i = n; i-- > 0;) {
        uint32_t value;
        size_t was = step(m, "properties");
        step(m, list[i]->key);
        m->level++;
        rc = put(m, list[i], then, &value);
        m->level--;
        back(m, was);
        if (rc < 0)
            return rc;
        at = key(m, list[i]->key, list[i]->key_n, value);
        uint32_t comma = aq_g_add(m->g, AQ_G_BYTE, ',', json ? aq_g_ws(m->g, at) : at);
        bool must = required(s, list[i]);
        then = must ? comma : aq_g_fork(m->g, comma, then);
        first = must ? at : aq_g_fork(m->g, at, first);
    }
    if (json && first != end)
        first = n_req ? aq_g_ws(m->g, first) : aq_g_fork(m->g, close, aq_g_ws(m->g, first));
    *ret = aq_g_add(m->g, AQ_G_BYTE, '{', first);
    return 0;
}

/* ---- any schema ---- */

static int of_type(maker *m, const aq_json *s, const char *type, uint32_t next, uint32_t *ret)
{
    if (!strcmp(type, "string"))
        return text(m, s, next, ret);
    if (!strcmp(type, "integer") || !strcmp(type, "number"))
        return number(m, s, type[0] == 'i', next, ret);
    if (!strcmp(type, "object"))
        return object(m, s, next, ret);
    if (!strcmp(type, "array"))
        return array(m, s, next, ret);
    if (!strcmp(type, "null"))
        *ret = aq_g_litz(m->g, "null", next);
    else if (!strcmp(type, "boolean"))
        *ret = aq_g_fork(m->g, aq_g_litz(m->g, "true", next), aq_g_litz(m->g, "false", next));
    else
        return refuse(m, AQ_E_INVAL, "type", "it is none of JSON's types");
    return 0;
}

static int one_of(maker *m, const aq_json *list, const char *name, uint32_t next, uint32_t *ret)
{
    uint32_t n = AQ_G_NONE, one;
    int rc;

    if (list->kind != AQ_JSON_ARR || !list->n)
        return refuse(m, AQ_E_INVAL, name, "it must be a list that is not empty");
    for (const aq_json *c = list->item; c; c = c->next) {
        size_t was = step(m, name);
        rc = put(m, c, next, &one);
        back(m, was);
        if (rc < 0)
            return rc;
        n = aq_g_fork(m->g, n, one);
    }
    *ret = n;
    return 0;
}

static const char *type_of(const aq_json *s)
{
    static const char *const by[][2] = {{"properties", "object"},
                                        {"required", "object"},
                                        {"additionalProperties", "object"},
                                        {"items", "array"},
                                        {"prefixItems", "array"},
                                        {"minItems", "array"},
                                        {"maxItems", "array"},
                                        {"pattern", "string"},
                                        {"minLength", "string"},
                                        {"maxLength", "string"},
                                        {"format", "string"},
                                        {"minimum", "number"},
                                        {"maximum", "number"},
                                        {"exclusiveMinimum", "number"},
                                        {"exclusiveMaximum", "number"},
                                        {"multipleOf", "number"}};

    for (size_t i = 0; i < AQ_LEN(by); i++)
        if (aq_json_get(s, by[i][0]))
            return by[i][1];
    return NULL;
}

static int check_keys(maker *m, const aq_json *s)
{
    static const char *const no[] = {"not",
                                     "if",
                                     "then",
                                     "else",
                                     "dependentRequired",
                                     "dependentSchemas",
                                     "dependencies",
                                     "patternProperties",
                                     "propertyNames",
                                     "contains",
                                     "minContains",
                                     "maxContains",
                                     "unevaluatedItems",
                                     "$dynamicRef",
                                     "$recursiveRef"};
    static const char *const also[] = {"type",      "properties",
                                       "required",  "items",
                                       "enum",      "const",
                                       "anyOf",     "oneOf",
                                       "pattern",   "minimum",
                                       "maximum",   "minLength",
                                       "maxLength", "additionalProperties"};

    for (size_t i = 0; i < AQ_LEN(no); i++)
        if (aq_json_get(s, no[i]))
            return refuse(m, AQ_E_UNSUPPORTED, no[i], "it is not supported");
    for (size_t i = 0; i < AQ_LEN(also); i++)
        if (aq_json_get(s, also[i]) && (aq_json_get(s, "$ref") || aq_json_get(s, "allOf")))
            return refuse(m, AQ_E_UNSUPPORTED, aq_json_get(s, "$ref") ? "$ref" : "allOf",
                          "it is not supported besides other demands");
    bool list = aq_json_get(s, "anyOf") || aq_json_get(s, "oneOf");
    if (list && (aq_json_get(s, "properties") || aq_json_get(s, "items") ||
                 aq_json_get(s, "pattern") || (aq_json_get(s, "anyOf") && aq_json_get(s, "oneOf"))))
        return refuse(m, AQ_E_UNSUPPORTED, aq_json_get(s, "anyOf") ? "anyOf" : "oneOf",
                      "it is not supported besides other demands");
    return 0;
}

static int put_inner(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    const aq_json *t, *list;
    const char *ref;
    uint32_t n = AQ_G_NONE, one;
    int rc;

    if (s->kind == AQ_JSON_TRUE || (s->kind == AQ_JSON_OBJ && !s->n)) {
        if (m->note != AQ_NOTE_JSON)
            return refuse(m, AQ_E_UNSUPPORTED, "", "any value, in this model's calls");
        *ret = aq_g_any(m->g, false, next);
        return 0;
    }
    if (s->kind != AQ_JSON_OBJ)
        return refuse(m, AQ_E_INVAL, "",
                      s->kind == AQ_JSON_FALSE ? "false: nothing is valid" : "it is no schema");
    if ((rc = check_keys(m, s)) < 0)
        return rc;
    if (aq_json_get(s, "$ref") && !aq_json_str(s, "$ref"))
        return refuse(m, AQ_E_INVAL, "$ref", "it must be a text");
    if ((ref = aq_json_str(s, "$ref"))) {
        const aq_json *to = pointer(m->root, ref);
        if (!to)
            return refuse(m, AQ_E_INVAL, "$ref", "it refers to nothing in this schema");
        return called(m, to, next, ret);
    }
    if ((list = aq_json_get(s, "allOf"))) {
        if (list->kind != AQ_JSON_ARR || list->n != 1)
            return refuse(m, AQ_E_UNSUPPORTED, "allOf", "only one schema in it is supported");
        return put(m, list->item, next, ret);
    }
    if ((list = aq_json_get(s, "const")))
        return literal(m, list, next, ret);
    if ((list = aq_json_get(s, "enum")))
        return literals(m, list, next, ret);
    if ((list = aq_json_get(s, "anyOf")))
        return one_of(m, list, "anyOf", next, ret);
    if ((list = aq_json_get(s, "oneOf")))
        return one_of(m, list, "oneOf", next, ret);
    if (!(t = aq_json_get(s, "type"))) {
        const char *by = type_of(s);
        if (by)
            return of_type(m, s, by, next, ret);
        if (m->note != AQ_NOTE_JSON)
            return refuse(m, AQ_E_UNSUPPORTED, "", "any value, in this model's calls");
        *ret = aq_g_any(m->g, false, next);
        return 0;
    }
    if (t->kind == AQ_JSON_STR) {
        if ((rc = of_type(m, s, t->str, next, ret)) < 0 || !aq_json_bool(s, "nullable", false))
            return rc;
        *ret = aq_g_fork(m->g, *ret, aq_g_litz(m->g, "null", next));
        return 0;
    }
    if (t->kind != AQ_JSON_ARR || !t->n)
        return refuse(m, AQ_E_INVAL, "type", "it must be a text or a list of texts");
    for (const aq_json *c = t->item; c; c = c->next) {
        if (c->kind != AQ_JSON_STR)
            return refuse(m, AQ_E_INVAL, "type", "it must be a text or a list of texts");
        if ((rc = of_type(m, s, c->str, next, &one)) < 0)
            return rc;
        n = aq_g_fork(m->g, n, one);
    }
    *ret = n;
    return 0;
}

static int put(maker *m, const aq_json *s, uint32_t next, uint32_t *ret)
{
    if (++m->depth > AQ_SCHEMA_DEPTH_MAX)
        return refuse(m, AQ_E_LIMIT, "", "nested deeper than 64");
    int rc = put_inner(m, s, next, ret);
    m->depth--;
    if (rc >= 0 && m->g->rc < 0)
        return aq_gram_check(m->g, m->err);
    return rc;
}

int aq_schema_put(aq_gram *g, const aq_json *root, const aq_json *schema, int notation,
                  uint32_t next, uint32_t *ret, aq_err *err)
{
    AQ_AUTOFREE maker *m = calloc(1, sizeof *m);

    if (!m)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a schema");
    m->g = g;
    m->root = root;
    m->note = notation & ~AQ_NOTE_LENIENT;
    m->lenient = notation & AQ_NOTE_LENIENT;
    m->err = err;
    return put(m, schema, next, ret);
}
