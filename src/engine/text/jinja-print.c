/* SPDX-License-Identifier: Apache-2.0 */
/* Values to text as Python prints them, and as JSON; the spans of what a user wrote follow the bytes. */
#include "unicode.h"
#include "jinja-priv.h"

#include <math.h>
#include <stdio.h>

/* ---- buffers with spans ---- */

static bool room(jx *x, jx_buf *b, size_t n)
{
    if (x->rc)
        return false;
    aq_jx_work(x, n);
    if (n <= b->cap - b->n)
        return true;
    size_t cap = AQ_MAX((size_t)b->n + n, (size_t)b->cap * 2);
    cap = AQ_MAX(cap, 64u);
    if (cap > UINT32_MAX / 2) {
        aq_jx_fail(x, AQ_E_LIMIT, "a text grows past 2 GiB");
        return false;
    }
    char *p = aq_jx_alloc(x, cap);
    if (!p)
        return false;
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = (uint32_t)cap;
    return true;
}

void aq_jx_raw(jx *x, jx_buf *b, const char *p, size_t n)
{
    if (n && room(x, b, n)) {
        memcpy(b->p + b->n, p, n);
        b->n += (uint32_t)n;
    }
}

void aq_jx_span(jx *x, jx_buf *b, jx_span sp)
{
    if (sp.start >= sp.end || x->rc)
        return;
    if (b->n_span == b->cap_span) {
        uint32_t cap = b->cap_span ? b->cap_span * 2 : 8;
        jx_span *s = aq_jx_alloc(x, cap * sizeof *s);
        if (!s)
            return;
        if (b->n_span)
            memcpy(s, b->span, b->n_span * sizeof *s);
        b->span = s;
        b->cap_span = cap;
    }
    b->span[b->n_span++] = sp;
}

void aq_jx_putstr(jx *x, jx_buf *b, const jx_str *s)
{
    uint32_t base = b->n;

    aq_jx_raw(x, b, s->p, s->n);
    for (uint32_t i = 0; !x->rc && i < s->n_span; i++) {
        jx_span sp = s->span[i];
        sp.start += base;
        sp.end += base;
        aq_jx_span(x, b, sp);
    }
}

jv aq_jx_take(jx *x, jx_buf *b)
{
    jv v = aq_jx_str(x, b->p ? b->p : "", b->n);

    if (v.kind == V_STR) {
        v.s->span = b->span;
        v.s->n_span = b->n_span;
        v.s->buf = b;
    }
    return v;
}

void aq_jx_walk(jx *x, jx_walk *w, jx_buf *b, uint32_t i)
{
    while (w->at < w->s->n_span) {
        const jx_span *s = &w->s->span[w->at];
        if (!w->open && s->start > i)
            break;
        if (!w->open) {
            w->open = true;
            w->start = b->n;
        }
        if (s->end > i)
            break;
        aq_jx_span(x, b, (jx_span){w->start, b->n, s->leaf, s->ends});
        w->open = false;
        w->at++;
    }
}

/* ---- numbers ---- */

void aq_jx_float_text(double f, char out[40])
{
    char digits[40], *e;
    int prec = 1;

    if (isnan(f) || isinf(f)) {
        snprintf(out, 40, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    do /* the fewest digits that read back as the same number */
        snprintf(digits, sizeof digits, "%.*e", prec - 1, f);
    while (prec++ < 17 && strtod(digits, NULL) != f);
    e = strchr(digits, 'e');
    int exp = (int)strtol(e + 1, NULL, 10), n = 0;
    char d[24];
    for (char *p = digits; p < e; p++)
        if (*p >= '0' && *p <= '9' && n < 20)
            d[n++] = *p;
    while (n > 1 && d[n - 1] == '0')
        n--;
    char *o = out;
    if (digits[0] == '-')
        *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = d[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, d + 1, (size_t)n - 1);
            o += n - 1;
        }
        snprintf(o, 12, "e%c%02d", exp < 0 ? '-' : '+', abs(exp) % 1000);
        return;
    }
    if (exp < 0) {
        *o++ = '0';
        *o++ = '.';
        for (int i = -1; i > exp; i--)
            *o++ = '0';
    }
    for (int i = 0; i < n || i <= exp; i++) {
        *o++ = i < n ? d[i] : '0';
        if (i == exp && exp >= 0)
            *o++ = '.';
    }
    if (exp >= n - 1)
        *o++ = '0';
    *o = 0;
}

static void number(jx *x, jx_buf *b, jv v)
{
    char buf[40];

    if (v.kind == V_BIG) {
        aq_jx_raw(x, b, v.s->p, v.s->n);
        return;
    }
    if (v.kind == V_INT)
        snprintf(buf, sizeof buf, "%lld", (long long)v.i);
    else
        aq_jx_float_text(v.f, buf);
    aq_jx_raw(x, b, buf, strlen(buf));
}

/* ---- str() and repr() ---- */

static void puts_(jx *x, jx_buf *b, const char *s)
{
    aq_jx_raw(x, b, s, strlen(s));
}

static void repr_str(jx *x, jx_buf *b, const jx_str *s)
{
    jx_walk w = {.s = s};
    char q = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';

    aq_jx_raw(x, b, &q, 1);
    for (uint32_t i = 0; !x->rc && i < s->n;) {
        uint32_t cp, len = aq_uni_next(s->p + i, s->n - i, &cp, NULL);
        char buf[16];
        aq_jx_walk(x, &w, b, i);
        if (cp == '\\' || cp == (uint8_t)q)
            snprintf(buf, sizeof buf, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(buf, sizeof buf, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (aq_uni_class(cp) & AQ_CL_PRINT)
            buf[0] = 0;
        else
            snprintf(buf, sizeof buf,
                     cp < 0x100     ? "\\x%02x"
                     : cp < 0x10000 ? "\\u%04x"
                                    : "\\U%08x",
                     cp);
        if (buf[0])
            puts_(x, b, buf);
        else
            aq_jx_raw(x, b, s->p + i, len);
        i += len;
    }
    aq_jx_walk(x, &w, b, s->n);
    aq_jx_raw(x, b, &q, 1);
}

void aq_jx_repr(jx *x, jx_buf *b, jv v)
{
    if (!aq_jx_enter(x))
        return;
    switch (v.kind) {
    case V_UNDEF:
    case V_UNSET:
        puts_(x, b, "Undefined");
        break;
    case V_NONE:
        puts_(x, b, "None");
        break;
    case V_BOOL:
        puts_(x, b, v.i ? "True" : "False");
        break;
    case V_INT:
    case V_BIG:
    case V_FLOAT:
        number(x, b, v);
        break;
    case V_STR:
        repr_str(x, b, v.s);
        break;
    case V_LIST:
    case V_TUPLE:
        puts_(x, b, v.kind == V_LIST ? "[" : "(");
        for (uint32_t i = 0; !x->rc && i < v.l->n; i++) {
            if (i)
                puts_(x, b, ", ");
            aq_jx_repr(x, b, v.l->item[i]);
        }
        puts_(x, b, v.kind == V_LIST ? "]" : v.l->n == 1 ? ",)" : ")");
        break;
    case V_DICT:
    case V_NS:
        puts_(x, b, v.kind == V_DICT ? "{" : "<Namespace {");
        for (uint32_t i = 0; !x->rc && i < v.d->n; i++) {
            if (i)
                puts_(x, b, ", ");
            aq_jx_repr(x, b, v.d->pair[i].key);
            puts_(x, b, ": ");
            aq_jx_repr(x, b, v.d->pair[i].val);
        }
        puts_(x, b, v.kind == V_DICT ? "}" : "}>");
        break;
    default:
        puts_(x, b, "<");
        puts_(x, b, aq_jx_kind(v));
        puts_(x, b, ">");
        break;
    }
    aq_jx_leave(x);
}

void aq_jx_print(jx *x, jx_buf *b, jv v)
{
    if (v.kind == V_STR)
        aq_jx_putstr(x, b, v.s);
    else if (v.kind != V_UNDEF && v.kind != V_UNSET)
        aq_jx_repr(x, b, v);
}

jv aq_jx_text(jx *x, jv v)
{
    if (v.kind == V_STR)
        return v;
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    if (!b)
        return JX_UNDEF;
    aq_jx_print(x, b, v);
    return aq_jx_take(x, b);
}

/* ---- JSON, as json.dumps writes it ---- */

static void json_str(jx *x, jx_buf *b, const jx_str *s, bool ascii)
{
    jx_walk w = {.s = s};

    puts_(x, b, "\"");
    for (uint32_t i = 0; !x->rc && i < s->n;) {
        uint32_t cp, len = aq_uni_next(s->p + i, s->n - i, &cp, NULL);
        static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
        const char *hit = cp && cp < 0x80 ? strchr(from, (char)cp) : NULL;
        char buf[16] = "";
        aq_jx_walk(x, &w, b, i);
        if (hit)
            snprintf(buf, sizeof buf, "\\%c", to[hit - from]);
        else if (cp < 0x20 || (ascii && cp >= 0x7F && cp < 0x10000))
            snprintf(buf, sizeof buf, "\\u%04x", cp);
        else if (ascii && cp >= 0x10000)
            snprintf(buf, sizeof buf, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                     0xDC00 + ((cp - 0x10000) & 0x3FF));
        if (buf[0])
            puts_(x, b, buf);
        else
            aq_jx_raw(x, b, s->p + i, len);
        i += len;
    }
    aq_jx_walk(x, &w, b, s->n);
    puts_(x, b, "\"");
}

static void newline(jx *x, jx_buf *b, const jx_json *o, uint32_t level)
{
    if (o->indent < 0 && !o->indent_str)
        return;
    puts_(x, b, "\n");
    for (uint32_t i = 0; !x->rc && i < level; i++) {
        if (o->indent_str)
            aq_jx_putstr(x, b, o->indent_str);
        for (int k = 0; k < o->indent; k++)
            puts_(x, b, " ");
    }
}

static void json_key(jx *x, jx_buf *b, jv k, const jx_json *o)
{
    if (k.kind == V_STR) {
        json_str(x, b, k.s, o->ascii);
        return;
    }
    if (k.kind == V_TUPLE) {
        aq_jx_fail(x, AQ_E_FORMAT, "tojson: a tuple cannot be a key");
        return;
    }
    puts_(x, b, "\"");
    aq_jx_tojson(x, b, k, o, 0);
    puts_(x, b, "\"");
}

void aq_jx_tojson(jx *x, jx_buf *b, jv v, const jx_json *o, uint32_t level)
{
    if (!aq_jx_enter(x))
        return;
    switch (v.kind) {
    case V_NONE:
        puts_(x, b, "null");
        break;
    case V_BOOL:
        puts_(x, b, v.i ? "true" : "false");
        break;
    case V_FLOAT:
        if (isnan(v.f) || isinf(v.f)) {
            puts_(x, b, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
            break;
        } /* fall through */
    case V_INT:
    case V_BIG:
        number(x, b, v);
        break;
    case V_STR:
        json_str(x, b, v.s, o->ascii);
        break;
    case V_LIST:
    case V_TUPLE:
        puts_(x, b, "[");
        for (uint32_t i = 0; !x->rc && i < v.l->n; i++) {
            if (i)
                aq_jx_putstr(x, b, o->sep_item);
            newline(x, b, o, level + 1);
            aq_jx_tojson(x, b, v.l->item[i], o, level + 1);
        }
        if (v.l->n)
            newline(x, b, o, level);
        puts_(x, b, "]");
        break;
    case V_DICT: {
        jx_pair *pair = v.d->pair;
        if (o->sort && v.d->n > 1) { /* insertion sort: keys of one object */
            if (!(pair = aq_jx_alloc(x, v.d->n * sizeof *pair)))
                break;
            for (uint32_t i = 0; !x->rc && i < v.d->n; i++) {
                uint32_t k = i;
                for (; k && aq_jx_order(x, v.d->pair[i].key, pair[k - 1].key) < 0; k--)
                    pair[k] = pair[k - 1];
                pair[k] = v.d->pair[i];
                aq_jx_work(x, (i - k) * 32);
            }
        }
        puts_(x, b, "{");
        for (uint32_t i = 0; !x->rc && i < v.d->n; i++) {
            if (i)
                aq_jx_putstr(x, b, o->sep_item);
            newline(x, b, o, level + 1);
            json_key(x, b, pair[i].key, o);
            aq_jx_putstr(x, b, o->sep_key);
            aq_jx_tojson(x, b, pair[i].val, o, level + 1);
        }
        if (v.d->n)
            newline(x, b, o, level);
        puts_(x, b, "}");
        break;
    }
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "tojson: a %s is no JSON", aq_jx_kind(v));
        break;
    }
    aq_jx_leave(x);
}
