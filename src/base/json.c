/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON (RFC 8259) into an arena. Iterative: the open arrays and objects stand on a stack of
 * AQ_JSON_DEPTH_MAX. A parsed tree refers to its arena only, never to the source text. One thread
 * at a time per arena; a finished tree may be read by any thread.
 *
 *   value  = ws ( null | false | true | number | string | array | object ) ws
 *   array  = [ value, value, ... ]          object = { string : value, string : value, ... }
 *
 * An object of more than SMALL members gets a sorted table of its members, which finds duplicates
 * without comparing all pairs and serves aq_json_get. It hangs on the object's `raw`, which only
 * numbers use otherwise. Sorting, not hashing: keys come from outside and could be chosen to
 * collide. */
#include "base-priv.h"

#include <errno.h>
#include <locale.h>
#include <math.h>

#define SMALL 16

struct frame {
    aq_json *box, *last; /* open array or object, its last item so far */
};

struct parser {
    aq_arena *arena;
    const char *text;
    size_t n, off;
    aq_err *err;
    locale_t c_locale; /* numbers use a point whatever the user's language */
    struct frame stack[AQ_JSON_DEPTH_MAX];
    int depth;
};

static int bad(struct parser *p, size_t off, const char *what)
{
    return aq_fail(p->err, AQ_E_FORMAT, "The JSON text is not valid at byte %zu: %s", off, what);
}

static void *take(struct parser *p, size_t n)
{
    void *m = aq_arena_alloc(p->arena, n);

    if (!m && !aq_arena_fits(p->arena, n))
        aq_fail(p->err, AQ_E_LIMIT,
                "The JSON text needs more memory than its limit allows, at byte %zu", p->off);
    else if (!m)
        aq_fail(p->err, AQ_E_NOMEM, "There is not enough memory for the JSON text, at byte %zu",
                p->off);
    return m;
}

static int peek(const struct parser *p)
{
    return p->off < p->n ? (uint8_t)p->text[p->off] : -1;
}

static void skip_ws(struct parser *p)
{
    while (p->off < p->n) {
        char c = p->text[p->off];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        p->off++;
    }
}

/* ---- strings ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Four hex digits at `at`: value, or -1. */
static int32_t hex4(const struct parser *p, size_t at)
{
    int32_t v = 0;

    if (p->n - at < 4)
        return -1;
    for (size_t i = at; i < at + 4; i++) {
        int d = hex_digit(p->text[i]);

        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* The escape whose backslash is at p->off: steps over it and gives its code point. */
static int parse_escape(struct parser *p, uint32_t *ret)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t at = p->off;
    char c = p->text[at + 1]; /* there: the closing quote was found further on */

    if (c != 'u') {
        const char *f = c ? strchr(from, c) : NULL;

        if (!f)
            return bad(p, at, "unknown escape in a string");
        *ret = (uint8_t)to[f - from];
        p->off += 2;
        return AQ_OK;
    }
    int32_t cp = hex4(p, at + 2);
    if (cp < 0)
        return bad(p, at, "\\u needs four hexadecimal digits");
    p->off += 6;
    if (cp >= 0xDC00 && cp <= 0xDFFF)
        return bad(p, at, "second half of a surrogate pair without the first");
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        int32_t low = -1;

        if (p->n - p->off >= 6 && p->text[p->off] == '\\' && p->text[p->off + 1] == 'u')
            low = hex4(p, p->off + 2);
        if (low < 0xDC00 || low > 0xDFFF)
            return bad(p, at, "first half of a surrogate pair without the second");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        p->off += 6;
    }
    *ret = (uint32_t)cp;
    return AQ_OK;
}

/* The string whose opening quote is at p->off. */
static int parse_string(struct parser *p, const char **ret, uint32_t *ret_n)
{
    size_t start = p->off, end = start + 1;

    while (end < p->n && p->text[end] != '"')
        end += p->text[end] == '\\' ? 2 : 1;
    if (end >= p->n)
        return bad(p, start, "a string has no end");
    /* Decoded text is never longer than its source; the NUL takes the place of the opening
     * quote. */
    char *out = take(p, end - start);
    if (!out)
        return -p->err->code;

    size_t n = 0;
    p->off = start + 1;
    while (p->off < end) {
        uint8_t c = (uint8_t)p->text[p->off];
        uint32_t cp;

        if (c == '\\') {
            int rc = parse_escape(p, &cp);

            if (rc < 0)
                return rc;
            n += aq_utf8_put(cp, out + n);
        } else if (c < 0x20) {
            return bad(p, p->off, "a control character in a string must be escaped");
        } else if (c < 0x80) {
            out[n++] = (char)c;
            p->off++;
        } else {
            bool broken;
            uint32_t len = aq_utf8_next(p->text + p->off, end - p->off, &cp, &broken);

            if (broken)
                return bad(p, p->off, "a string is not UTF-8");
            memcpy(out + n, p->text + p->off, len);
            n += len;
            p->off += len;
        }
    }
    p->off = end + 1;
    out[n] = 0;
    *ret = out;
    *ret_n = (uint32_t)n;
    return AQ_OK;
}

/* ---- numbers ---- */

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Steps over digits; false when there is none. */
static bool skip_digits(struct parser *p)
{
    if (!is_digit(peek(p)))
        return false;
    while (is_digit(peek(p)))
        p->off++;
    return true;
}

/* Digits with an optional minus as int64; false on overflow. */
static bool to_int64(const char *s, int64_t *ret)
{
    bool neg = *s == '-';
    int64_t v = 0;

    for (s += neg; *s; s++) {
        int d = neg ? '0' - *s : *s - '0'; /* downwards: INT64_MIN has no positive twin */

        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *ret = v;
    return true;
}

static int parse_number(struct parser *p, aq_json *v)
{
    size_t start = p->off;
    bool whole = true;

    if (peek(p) == '-')
        p->off++;
    if (peek(p) == '0')
        p->off++; /* a digit after it is refused as a missing comma */
    else if (!skip_digits(p))
        return bad(p, p->off, "a value is expected");
    if (peek(p) == '.') {
        whole = false;
        p->off++;
        if (!skip_digits(p))
            return bad(p, p->off, "a digit must follow the decimal point");
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        whole = false;
        p->off++;
        if (peek(p) == '+' || peek(p) == '-')
            p->off++;
        if (!skip_digits(p))
            return bad(p, p->off, "the exponent has no digit");
    }
    size_t n = p->off - start;
    char *raw = take(p, n + 1);
    if (!raw)
        return -p->err->code;
    memcpy(raw, p->text + start, n);
    v->raw = raw;
    v->raw_n = (uint32_t)n;
    if (whole && to_int64(raw, &v->i)) {
        v->kind = AQ_JSON_INT;
        return AQ_OK;
    }
    v->kind = AQ_JSON_NUM;
    v->num = strtod_l(raw, NULL, p->c_locale);
    if (!isfinite(v->num))
        return bad(p, start, "the number is too large");
    return AQ_OK;
}

/* ---- members of an object ---- */

static int cmp_key(const char *a, size_t a_n, const char *b, size_t b_n)
{
    return a_n != b_n ? (a_n < b_n ? -1 : 1) : memcmp(a, b, a_n);
}

static int cmp_member(const aq_json *a, const aq_json *b)
{
    return cmp_key(a->key, a->key_n, b->key, b->key_n);
}

static void sift(const aq_json **t, size_t i, size_t n)
{
    for (size_t kid; (kid = 2 * i + 1) < n; i = kid) {
        if (kid + 1 < n && cmp_member(t[kid], t[kid + 1]) < 0)
            kid++;
        if (cmp_member(t[i], t[kid]) >= 0)
            return;
        const aq_json *x = t[i];
        t[i] = t[kid];
        t[kid] = x;
    }
}

/* Heap sort: in place and never quadratic. */
static void sort_members(const aq_json **t, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(t, i, n);
    for (size_t i = n; i-- > 1;) {
        const aq_json *x = t[0];

        t[0] = t[i];
        t[i] = x;
        sift(t, 0, i);
    }
}

static int duplicate(struct parser *p, const char *key)
{
    return aq_fail(
        p->err, AQ_E_FORMAT,
        "The JSON text is not valid: the object that ends at byte %zu has the key \"%.100s\" twice",
        p->off, key);
}

/* Refuse duplicate keys of a finished object and give a large one its table. */
static int close_object(struct parser *p, aq_json *obj)
{
    if (obj->n <= SMALL) {
        for (const aq_json *a = obj->item; a; a = a->next)
            for (const aq_json *b = a->next; b; b = b->next)
                if (cmp_member(a, b) == 0)
                    return duplicate(p, a->key);
        return AQ_OK;
    }
    const aq_json **t = take(p, obj->n * sizeof *t);
    if (!t)
        return -p->err->code;
    size_t i = 0;
    for (const aq_json *m = obj->item; m; m = m->next)
        t[i++] = m;
    sort_members(t, i);
    for (size_t k = 1; k < i; k++)
        if (cmp_member(t[k - 1], t[k]) == 0)
            return duplicate(p, t[k]->key);
    obj->raw = (const char *)t;
    return AQ_OK;
}

/* ---- values ---- */

static int parse_word(struct parser *p, aq_json *v, const char *word, uint8_t kind)
{
    size_t n = strlen(word);

    if (p->n - p->off < n || memcmp(p->text + p->off, word, n) != 0)
        return bad(p, p->off, "a value is expected");
    p->off += n;
    v->kind = kind;
    return AQ_OK;
}

static int open_box(struct parser *p, aq_json *v, uint8_t kind)
{
    if (p->depth == AQ_JSON_DEPTH_MAX)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "The JSON text is nested deeper than %d levels, at byte %zu",
                       AQ_JSON_DEPTH_MAX, p->off);
    v->kind = kind;
    p->stack[p->depth++] = (struct frame){.box = v};
    p->off++;
    return AQ_OK;
}

/* The value at p->off: a scalar whole, of an array or object only its opening. */
static int parse_start(struct parser *p, aq_json *v)
{
    skip_ws(p);
    switch (peek(p)) {
    case '{':
        return open_box(p, v, AQ_JSON_OBJ);
    case '[':
        return open_box(p, v, AQ_JSON_ARR);
    case '"':
        v->kind = AQ_JSON_STR;
        return parse_string(p, &v->str, &v->n);
    case 'n':
        return parse_word(p, v, "null", AQ_JSON_NULL);
    case 'f':
        return parse_word(p, v, "false", AQ_JSON_FALSE);
    case 't':
        return parse_word(p, v, "true", AQ_JSON_TRUE);
    default:
        return parse_number(p, v);
    }
}

/* A new item at the end of the innermost box, its key read when that is an object. */
static int add_item(struct parser *p, aq_json **ret)
{
    struct frame *f = &p->stack[p->depth - 1];
    aq_json *v = take(p, sizeof *v);

    if (!v)
        return -p->err->code;
    if (f->box->kind == AQ_JSON_OBJ) {
        skip_ws(p);
        if (peek(p) != '"')
            return bad(p, p->off, "a key in quotes is expected");
        int rc = parse_string(p, &v->key, &v->key_n);
        if (rc < 0)
            return rc;
        skip_ws(p);
        if (peek(p) != ':')
            return bad(p, p->off, "a colon is expected");
        p->off++;
    }
    if (f->last)
        f->last->next = v;
    else
        f->box->item = v;
    f->last = v;
    f->box->n++;
    *ret = v;
    return AQ_OK;
}

/* After an opening or a value: close what closes here. 1 and the next item to parse, or 0 when the
 * text's value is done. */
static int step(struct parser *p, aq_json **ret)
{
    while (p->depth > 0) {
        aq_json *box = p->stack[p->depth - 1].box;
        bool opened = box->n == 0;
        int rc;

        skip_ws(p);
        if (peek(p) == (box->kind == AQ_JSON_OBJ ? '}' : ']')) {
            p->off++;
            p->depth--;
            if (box->kind == AQ_JSON_OBJ && (rc = close_object(p, box)) < 0)
                return rc;
            continue;
        }
        if (!opened && peek(p) != ',')
            return bad(p, p->off, "a comma or the end of the array or object is expected");
        if (!opened)
            p->off++;
        rc = add_item(p, ret);
        return rc < 0 ? rc : 1;
    }
    return 0;
}

static int parse_text(struct parser *p, aq_json **ret)
{
    aq_json *root = take(p, sizeof *root), *v = root;
    int rc;

    if (!root)
        return -p->err->code;
    do {
        rc = parse_start(p, v);
        if (rc < 0)
            return rc;
        /* A box that was just opened has no item yet: step reads its first one or closes it. */
        rc = step(p, &v);
    } while (rc > 0);
    if (rc < 0)
        return rc;
    skip_ws(p);
    if (p->off < p->n)
        return bad(p, p->off, "nothing may follow the value");
    *ret = root;
    return AQ_OK;
}

int aq_json_parse(aq_arena *arena, const char *text, size_t n, const aq_json **ret, aq_err *err)
{
    aq_err own;
    struct parser p = {.arena = arena, .text = text, .n = n, .err = err ? err : &own};
    aq_json *root = NULL;

    if (n > AQ_BYTES_MAX)
        return aq_fail(err, AQ_E_LIMIT, "The JSON text has %zu bytes, more than the limit of %llu",
                       n, AQ_BYTES_MAX);
    p.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (p.c_locale == (locale_t)0)
        return aq_fail_errno(err, errno, "The C locale could not be had to read JSON numbers");
    int rc = parse_text(&p, &root);
    freelocale(p.c_locale);
    if (rc == AQ_OK)
        *ret = root;
    return rc;
}

/* ---- reading a tree ---- */

const aq_json *aq_json_get(const aq_json *obj, const char *key)
{
    if (!obj || obj->kind != AQ_JSON_OBJ)
        return NULL;
    size_t key_n = strlen(key);
    if (!obj->raw) {
        for (const aq_json *m = obj->item; m; m = m->next)
            if (cmp_key(m->key, m->key_n, key, key_n) == 0)
                return m;
        return NULL;
    }
    const aq_json *const *t = (const aq_json *const *)(const void *)obj->raw;
    for (size_t lo = 0, hi = obj->n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        int c = cmp_key(t[mid]->key, t[mid]->key_n, key, key_n);

        if (c == 0)
            return t[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

const char *aq_json_str(const aq_json *obj, const char *key)
{
    const aq_json *v = aq_json_get(obj, key);

    return v && v->kind == AQ_JSON_STR ? v->str : NULL;
}

double aq_json_num(const aq_json *obj, const char *key, double dflt)
{
    const aq_json *v = aq_json_get(obj, key);

    if (v && v->kind == AQ_JSON_INT)
        return (double)v->i;
    return v && v->kind == AQ_JSON_NUM ? v->num : dflt;
}

/* 100.0 and 1e2 count as integers too: JSON knows one kind of number. */
int64_t aq_json_int(const aq_json *obj, const char *key, int64_t dflt)
{
    const aq_json *v = aq_json_get(obj, key);
    const double exact = 9007199254740992.0; /* 2^53: every integer up to here is a double */

    if (v && v->kind == AQ_JSON_INT)
        return v->i;
    if (v && v->kind == AQ_JSON_NUM && v->num >= -exact && v->num <= exact &&
        v->num == (double)(int64_t)v->num)
        return (int64_t)v->num;
    return dflt;
}

bool aq_json_bool(const aq_json *obj, const char *key, bool dflt)
{
    const aq_json *v = aq_json_get(obj, key);

    if (!v || (v->kind != AQ_JSON_TRUE && v->kind != AQ_JSON_FALSE))
        return dflt;
    return v->kind == AQ_JSON_TRUE;
}

/* ---- writing ---- */

/* One character that cannot stand as it is. */
static int put_escaped(aq_bytes *b, uint32_t cp, bool broken)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";

    if (broken)
        return aq_bytes_puts(b, "\xEF\xBF\xBD");
    const char *f = cp ? strchr(from, (int)cp) : NULL;
    return f ? aq_bytes_putf(b, "\\%c", to[f - from]) : aq_bytes_putf(b, "\\u%04x", cp);
}

static int quote(aq_bytes *b, const char *text, size_t n)
{
    size_t run = 0; /* start of the bytes not yet copied */
    int rc = aq_bytes_puts(b, "\"");

    for (size_t i = 0; rc == AQ_OK && i < n;) {
        uint32_t cp;
        bool broken;
        uint32_t len = aq_utf8_next(text + i, n - i, &cp, &broken);

        if (broken || cp < 0x20 || cp == '"' || cp == '\\') {
            rc = aq_bytes_put(b, text + run, i - run);
            if (rc == AQ_OK)
                rc = put_escaped(b, cp, broken);
            run = i + len;
        }
        i += len;
    }
    if (rc == AQ_OK && run < n)
        rc = aq_bytes_put(b, text + run, n - run);
    return rc == AQ_OK ? aq_bytes_puts(b, "\"") : rc;
}

int aq_json_quote(aq_bytes *b, const char *text, size_t n)
{
    size_t before = b->n;
    int rc = quote(b, text, n);

    if (rc < 0)
        b->n = before;
    return rc;
}

/* As deep as the parser let it be: AQ_JSON_DEPTH_MAX. */
static int put_json(aq_bytes *out, const aq_json *j)
{
    int rc;

    switch (j->kind) {
    case AQ_JSON_NULL:
        return aq_bytes_puts(out, "null");
    case AQ_JSON_FALSE:
        return aq_bytes_puts(out, "false");
    case AQ_JSON_TRUE:
        return aq_bytes_puts(out, "true");
    case AQ_JSON_INT:
    case AQ_JSON_NUM:
        return aq_bytes_put(out, j->raw, j->raw_n);
    case AQ_JSON_STR:
        return aq_json_quote(out, j->str, j->n);
    default:
        break;
    }
    if ((rc = aq_bytes_puts(out, j->kind == AQ_JSON_ARR ? "[" : "{")) < 0)
        return rc;
    for (const aq_json *c = j->n ? j->item : NULL; c && rc >= 0; c = c->next) {
        if (c != j->item)
            rc = aq_bytes_puts(out, ",");
        if (rc >= 0 && j->kind == AQ_JSON_OBJ && (rc = aq_json_quote(out, c->key, c->key_n)) >= 0)
            rc = aq_bytes_puts(out, ":");
        if (rc >= 0)
            rc = put_json(out, c);
    }
    return rc < 0 ? rc : aq_bytes_puts(out, j->kind == AQ_JSON_ARR ? "]" : "}");
}

int aq_json_put(aq_bytes *b, const aq_json *j)
{
    size_t before = b->n;
    int rc = put_json(b, j);

    if (rc < 0)
        b->n = before;
    return rc;
}
