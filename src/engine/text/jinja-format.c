/* SPDX-License-Identifier: Apache-2.0 */
/* Values into a text at places that a format names, as Python does it in two ways:
 *
 *   "%-5s|%(key)03d" % values     % [(key)] flags[#0- +] width [.precision] conversion
 *   "{0:>5}|{k[x].y!r}".format()  { [name] [.attribute | [index]]… [!conversion] [: [[fill]align] sign # 0 width , .precision type] }
 *
 * What a user wrote stays marked, in the format as well as in the values. Refused, where Python would do it: groups of digits that are
 * filled with zeros, other bases for integers of more than 64 bits. */
#include "unicode.h"
#include "jinja-priv.h"

#include <math.h>
#include <stdio.h>

#define WIDTH_MAX (1 << 20)   /* characters that a value is filled up to */
#define PRECISION_MAX 400     /* digits behind a point */
#define NUMBER_BYTES_MAX 1200 /* 1e308 with all of them, and marks between thousands */

typedef struct spec {
    jx_str fill; /* one character; n 0 = a blank */
    char
        align; /* '<' '>' '^' '=' (between sign and digits), 0 = as the value's kind has it; 'c': as str.center() */
    char sign; /* '+' or ' ' before positive numbers, 0 */
    bool alt, zero, has_sign;
    int64_t width, prec; /* prec -1 = not given */
    char group;          /* ',' '_' 0 */
    char type;           /* 0 = as the value's kind has it */
} spec;

static jv bad(jx *x, const char *what)
{
    aq_jx_fail(x, AQ_E_FORMAT, "a format of a text: %s", what);
    return JX_UNDEF;
}

/* ---- filling up ---- */

static void put_fill(jx *x, jx_buf *b, const jx_str *fill, int64_t n)
{
    const bool plain = fill->n <= 1 && !fill->n_span;
    char chunk[64];

    memset(chunk, fill->n ? fill->p[0] : ' ', sizeof chunk);
    for (int64_t k; n > 0 && !x->rc; n -= k) {
        k = plain ? AQ_MIN(n, (int64_t)sizeof chunk) : 1;
        if (plain)
            aq_jx_raw(x, b, chunk, (size_t)k);
        else
            aq_jx_putstr(x, b, fill);
    }
}

static void put_padded(jx *x, jx_buf *b, const jx_str *s, const jx_str *fill, char align,
                       int64_t width)
{
    int64_t left = 0, pad;
    if (width > WIDTH_MAX) {
        aq_jx_fail(x, AQ_E_LIMIT, "a text is to be filled up to more than %d characters",
                   WIDTH_MAX);
        return;
    }
    pad = AQ_MAX(width - aq_jx_chars(s->p, s->n), 0);
    if (align == '>')
        left = pad;
    else if (align == '^')
        left = pad / 2;
    else if (align == 'c')
        left = pad / 2 + (pad & width & 1);
    put_fill(x, b, fill, left);
    aq_jx_putstr(x, b, s);
    put_fill(x, b, fill, pad - left);
}

jv aq_jx_pad(jx *x, const jx_str *s, const jx_str *fill, char align, int64_t width)
{
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    if (!b)
        return JX_UNDEF;
    put_padded(x, b, s, fill, align, width);
    return aq_jx_take(x, b);
}

/* ---- texts ---- */

/* repr() in ASCII. */
static jv ascii(jx *x, jv v)
{
    jx_buf *r = aq_jx_alloc(x, sizeof *r), *b = aq_jx_alloc(x, sizeof *b);
    if (!r || !b)
        return JX_UNDEF;
    aq_jx_repr(x, r, v);
    jv s = aq_jx_take(x, r);
    if (x->rc)
        return JX_UNDEF;
    jx_walk w = {.s = s.s};
    for (uint32_t i = 0; !x->rc && i < s.s->n;) {
        uint32_t cp, len = aq_uni_next(s.s->p + i, s.s->n - i, &cp, NULL);
        char buf[16];
        aq_jx_walk(x, &w, b, i);
        if (cp < 0x80)
            aq_jx_raw(x, b, s.s->p + i, len);
        else
            aq_jx_raw(x, b, buf,
                      (size_t)snprintf(buf, sizeof buf,
                                       cp < 0x100     ? "\\x%02x"
                                       : cp < 0x10000 ? "\\u%04x"
                                                      : "\\U%08x",
                                       cp));
        i += len;
    }
    aq_jx_walk(x, &w, b, s.s->n);
    return aq_jx_take(x, b);
}

static jv converted(jx *x, jv v, char how)
{
    jx_buf *b;
    if (how == 's')
        return aq_jx_text(x, v);
    if (how == 'a')
        return ascii(x, v);
    if (!(b = aq_jx_alloc(x, sizeof *b)))
        return JX_UNDEF;
    aq_jx_repr(x, b, v);
    return aq_jx_take(x, b);
}

static void put_text(jx *x, jx_buf *b, jv s, const spec *f, char align)
{
    if (f->prec >= 0 && s.kind == V_STR)
        s = aq_jx_slice(x, s, (jv){.kind = V_UNSET}, aq_jx_int(f->prec), (jv){.kind = V_UNSET});
    if (!x->rc)
        put_padded(x, b, s.s, &f->fill, align, f->width);
}

/* ---- numbers ---- */

/* Sign, prefix and digits; what fills up goes before, between or behind. */
static void put_number(jx *x, jx_buf *b, bool negative, const char *prefix, const char *digits,
                       const spec *f)
{
    char out[NUMBER_BYTES_MAX];
    const char sign[2] = {negative ? '-' : f->sign, 0};
    size_t whole = strspn(digits, f->type == 'x' || f->type == 'X' ? "0123456789abcdefABCDEF"
                                                                   : "0123456789"),
           n = 0, step = f->group == '_' && f->type && strchr("xXob", f->type) ? 4 : 3;
    if (f->group && f->zero && f->width > 0) {
        aq_jx_fail(x, AQ_E_UNSUPPORTED,
                   "a format with groups of digits and zeros before them is not supported");
        return;
    }
    for (size_t i = 0; digits[i] && n + 2 < sizeof out; i++) {
        if (f->group && i && i < whole && (whole - i) % step == 0)
            out[n++] = f->group;
        out[n++] = digits[i];
    }
    out[n] = 0;
    bool between = f->align == '=' || (f->zero && !f->align);
    jx_buf *t = aq_jx_alloc(x, sizeof *t);
    if (!t)
        return;
    aq_jx_raw(x, t, sign, strlen(sign));
    aq_jx_raw(x, t, prefix, strlen(prefix));
    if (between) {
        const jx_str zero = {.p = "0", .n = 1};
        if (f->width > WIDTH_MAX)
            aq_jx_fail(x, AQ_E_LIMIT, "a number is to be filled up to more than %d characters",
                       WIDTH_MAX);
        put_fill(x, t, f->zero && !f->fill.n ? &zero : &f->fill,
                 f->width - (int64_t)(strlen(sign) + strlen(prefix) + n));
    }
    aq_jx_raw(x, t, out, n);
    jv s = aq_jx_take(x, t);
    if (!x->rc)
        put_padded(x, b, s.s, &f->fill, f->align == '<' || f->align == '^' ? f->align : '>',
                   f->width);
}

static void put_int(jx *x, jx_buf *b, jv v, const spec *f, bool percent)
{
    char digits[NUMBER_BYTES_MAX], *d = digits + 80;
    const char *prefix = "";
    char type = f->type ? f->type : 'd';
    bool negative = v.kind == V_BIG ? v.s->n && v.s->p[0] == '-' : v.i < 0;
    uint32_t base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    if (v.kind == V_BIG && (base != 10 || v.s->n + PRECISION_MAX > sizeof digits - 80)) {
        aq_jx_fail(x, AQ_E_UNSUPPORTED, "an integer of more than 64 bits in base %u", base);
        return;
    }
    if (v.kind == V_BIG) {
        memcpy(d, v.s->p + negative, v.s->n - negative);
        d[v.s->n - negative] = 0;
    } else {
        uint64_t u = negative ? 0 - (uint64_t)v.i : (uint64_t)v.i;
        *d = 0;
        do
            *--d = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        while (u /= base);
    }
    if (f->alt && base != 10)
        prefix = type == 'x' ? "0x" : type == 'X' ? "0X" : type == 'o' ? "0o" : "0b";
    if (percent && f->prec > 0) { /* that many digits at least */
        char more[NUMBER_BYTES_MAX];
        size_t have = strlen(d), want = (size_t)AQ_MIN(f->prec, PRECISION_MAX);
        size_t zeros = want > have ? want - have : 0;
        memset(more, '0', zeros);
        memcpy(more + zeros, d, have + 1);
        put_number(x, b, negative, prefix, more, f);
        return;
    }
    put_number(x, b, negative, prefix, d, f);
}

/* The shortest form in `prec` digits that still shows a float: what {:.3} makes. */
static void general(double f, int prec, char *out, size_t cap)
{
    char e[PRECISION_MAX + 16];
    prec = AQ_MAX(prec, 1);
    snprintf(e, sizeof e, "%.*e", prec - 1, f);
    int exp = (int)strtol(strchr(e, 'e') + 1, NULL, 10);
    bool sci = exp < -4 || exp + 1 > prec - 1;
    if (sci)
        snprintf(out, cap, "%.*e", prec - 1, f);
    else
        snprintf(out, cap, "%.*f", prec - 1 - exp, f);
    char *mark = strchr(out, 'e'), *end = mark ? mark : out + strlen(out), *keep = end;
    if (memchr(out, '.', (size_t)(end - out))) {
        while (keep[-1] == '0')
            keep--;
        keep += !sci && keep[-1] == '.' ? 1 : 0;
        keep -= sci && keep[-1] == '.' ? 1 : 0;
        memmove(keep, end, strlen(end) + 1);
    } else if (!sci) {
        memcpy(end, ".0", 3);
    }
}

/* As C prints it: formats that are not in the source could not be checked. */
static void c_float(char type, bool alt, int prec, double v, char *out, size_t cap)
{
    switch (type) {
    case 'e':
        snprintf(out, cap, alt ? "%#.*e" : "%.*e", prec, v);
        break;
    case 'E':
        snprintf(out, cap, alt ? "%#.*E" : "%.*E", prec, v);
        break;
    case 'g':
        snprintf(out, cap, alt ? "%#.*g" : "%.*g", prec, v);
        break;
    case 'G':
        snprintf(out, cap, alt ? "%#.*G" : "%.*G", prec, v);
        break;
    default: /* f, F, % */
        snprintf(out, cap, alt ? "%#.*f" : "%.*f", prec, v);
    }
}

static void put_float(jx *x, jx_buf *b, double v, const spec *f)
{
    char out[NUMBER_BYTES_MAX - 400], type = f->type == 'n' ? 'g' : f->type;
    double size = fabs(v) * (type == '%' ? 100 : 1);
    int prec = f->prec < 0 ? 6 : (int)f->prec;
    spec g = *f;
    if (f->prec > PRECISION_MAX) {
        aq_jx_fail(x, AQ_E_LIMIT, "a number with more than %d digits behind the point",
                   PRECISION_MAX);
        return;
    }
    if (!isfinite(size)) {
        snprintf(out, sizeof out, "%s", isnan(size) ? "nan" : "inf");
        for (char *p = out; *p && strchr("EFG", type) && type; p++)
            *p = (char)(*p - 'a' + 'A');
    } else if (!type && f->prec < 0) {
        aq_jx_float_text(size, out);
    } else if (!type) {
        general(size, prec, out, sizeof out);
    } else {
        c_float(type, f->alt, prec, size, out, sizeof out);
    }
    if (type == '%')
        memcpy(out + strlen(out), "%", 2);
    g.type = 'f';
    put_number(x, b, signbit(v) && !isnan(v), "", out, &g);
}

jv aq_jx_whole_part(jx *x, double f)
{
    char buf[400];
    if (!isfinite(f))
        return (jv){.kind = V_UNSET};
    if (fabs(f) < 9.2e18)
        return aq_jx_int((int64_t)f);
    size_t n = (size_t)snprintf(buf, sizeof buf, "%.0f", f);
    char *p = aq_jx_alloc(x, n + 1);
    jv v = p ? aq_jx_str(x, memcpy(p, buf, n), n) : JX_UNDEF;
    v.kind = x->rc ? V_UNSET : V_BIG;
    return v;
}

static void put_char(jx *x, jx_buf *b, jv v, const spec *f, char align)
{
    char buf[4];
    if (v.kind == V_INT && v.i >= 0 && v.i <= 0x10FFFF && (v.i < 0xD800 || v.i > 0xDFFF)) {
        uint32_t n = aq_utf8_put((uint32_t)v.i, buf);
        char *p = aq_jx_alloc(x, n);
        if (p)
            v = aq_jx_str(x, memcpy(p, buf, n), n);
    }
    if (x->rc || v.kind != V_STR || aq_jx_chars(v.s->p, v.s->n) != 1)
        bad(x, "%c takes a character or its number");
    else
        put_padded(x, b, v.s, &f->fill, align, f->width);
}

/* ---- % ---- */

typedef struct values {
    jv all;      /* what stands behind the sign */
    uint32_t at; /* of a tuple, or whether the one value was taken */
} values;

static jv next_value(jx *x, values *v)
{
    if (v->all.kind == V_TUPLE && v->at < v->all.l->n)
        return v->all.l->item[v->at++];
    if (v->all.kind != V_TUPLE && !v->at++)
        return v->all;
    return bad(x, "there are fewer values than places for them");
}

/* A number in the format, or * for the next value. */
static int64_t width_of(jx *x, const jx_str *s, uint32_t *i, values *v)
{
    int64_t n = 0;
    if (*i < s->n && s->p[*i] == '*') {
        jv w = next_value(x, v);
        ++*i;
        if (!x->rc && w.kind != V_INT)
            bad(x, "* wants an integer");
        return x->rc ? 0 : AQ_MAX(AQ_MIN(w.i, INT32_MAX), -INT32_MAX);
    }
    for (; *i < s->n && s->p[*i] >= '0' && s->p[*i] <= '9'; ++*i)
        n = AQ_MIN(n * 10 + (s->p[*i] - '0'), INT32_MAX);
    return n;
}

static void put_conversion(jx *x, jx_buf *b, jv v, spec *f)
{
    char align = f->align == '<' ? '<' : '>';
    if (strchr("diu", f->type)) {
        f->type = 'd';
        if (v.kind == V_FLOAT)
            v = aq_jx_whole_part(x, v.f);
        if (v.kind == V_INT || v.kind == V_BOOL || v.kind == V_BIG)
            put_int(x, b, v, f, true);
        else
            bad(x, "%d wants a number");
    } else if (strchr("xXo", f->type)) {
        if (v.kind == V_INT || v.kind == V_BOOL || v.kind == V_BIG)
            put_int(x, b, v, f, true);
        else
            bad(x, "%x and %o want an integer");
    } else if (strchr("eEfFgG", f->type)) {
        if (aq_jx_is_num(v))
            put_float(x, b, aq_jx_num(v), f);
        else
            bad(x, "%f, %e and %g want a number");
    } else if (f->type == 'c') {
        put_char(x, b, v, f, align);
    } else {
        put_text(x, b, converted(x, v, f->type), f, align);
    }
}

/* The part behind a %; i stands there and ends behind the conversion. */
static void percent_one(jx *x, jx_buf *b, const jx_str *s, uint32_t *i, values *v)
{
    spec f = {.prec = -1};
    jv of = {.kind = V_UNSET};
    if (*i < s->n && s->p[*i] == '(') {
        uint32_t from = *i + 1, depth = 1;
        for (++*i; *i < s->n && depth; ++*i)
            depth += (s->p[*i] == '(') - (s->p[*i] == ')');
        if (depth || v->all.kind != V_DICT) {
            bad(x, depth ? "a key has no ')'" : "keys want a dict");
            return;
        }
        const jv *hit = aq_jx_find(x, v->all.d, aq_jx_sub(x, s, from, *i - 1));
        if (!x->rc && !hit)
            bad(x, "the dict lacks a key");
        if (x->rc)
            return;
        of = *hit;
        v->at = 1;
    }
    for (; *i < s->n && s->p[*i] && strchr("#0- +", s->p[*i]); ++*i) {
        char c = s->p[*i];
        f.alt |= c == '#';
        f.zero |= c == '0';
        if (c == '-')
            f.align = '<';
        else if (c == '+' || (c == ' ' && !f.sign))
            f.sign = c;
    }
    f.width = width_of(x, s, i, v);
    if (f.width < 0) {
        f.align = '<';
        f.width = -f.width;
    }
    if (*i < s->n && s->p[*i] == '.') {
        ++*i;
        f.prec = width_of(x, s, i, v);
        f.prec = AQ_MAX(f.prec, 0);
    }
    *i += *i < s->n && s->p[*i] && strchr("hlL", s->p[*i]);
    f.type = *i < s->n ? s->p[(*i)++] : 0;
    if (!f.type || !strchr("diuxXoeEfFgGcrsa%", f.type))
        bad(x, f.type ? "the conversion behind a % is not known" : "it ends behind a %");
    else if (f.type == '%')
        aq_jx_raw(x, b, "%", 1);
    else if (of.kind == V_UNSET)
        of = next_value(x, v);
    f.zero &= f.align != '<';
    if (!x->rc && f.type != '%')
        put_conversion(x, b, of, &f);
}

jv aq_jx_percent(jx *x, const jx_str *s, jv all)
{
    values v = {.all = all};
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    for (uint32_t i = 0; b && !x->rc && i < s->n;) {
        const char *hit = memchr(s->p + i, '%', s->n - i);
        uint32_t to = hit ? (uint32_t)(hit - s->p) : s->n;
        jv part = aq_jx_sub(x, s, i, to);
        if (x->rc)
            break;
        aq_jx_putstr(x, b, part.s);
        i = to + 1;
        if (hit)
            percent_one(x, b, s, &i, &v);
    }
    bool left = all.kind == V_TUPLE
                    ? v.at < all.l->n
                    : !v.at && all.kind != V_DICT && all.kind != V_LIST && all.kind != V_UNDEF;
    if (!x->rc && left)
        bad(x, "there are more values than places for them");
    return b && !x->rc ? aq_jx_take(x, b) : JX_UNDEF;
}

/* ---- format() ---- */

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

static bool read_spec(jx *x, const jx_str *s, spec *f)
{
    uint32_t i = 0, cp, len = s->n ? aq_uni_next(s->p, s->n, &cp, NULL) : 0;
    values none = {.all = JX_NONE};
    *f = (spec){.prec = -1};
    if (len && len < s->n && is_align(s->p[len])) {
        jv c = aq_jx_sub(x, s, 0, len);
        if (x->rc)
            return false;
        f->fill = *c.s;
        f->align = s->p[len];
        i = len + 1;
    } else if (s->n && is_align(s->p[0])) {
        f->align = s->p[i++];
    }
    if (i < s->n && s->p[i] && strchr("+- ", s->p[i])) {
        f->has_sign = true;
        f->sign = s->p[i] == '-' ? 0 : s->p[i];
        i++;
    }
    if (i < s->n && s->p[i] == '#' && ++i)
        f->alt = true;
    if (i < s->n && s->p[i] == '0' && ++i)
        f->zero = true;
    if (i < s->n && s->p[i] != '*')
        f->width = width_of(x, s, &i, &none);
    if (i < s->n && (s->p[i] == ',' || s->p[i] == '_'))
        f->group = s->p[i++];
    if (i < s->n && s->p[i] == '.') {
        uint32_t at = ++i;
        if (i < s->n && s->p[i] != '*')
            f->prec = width_of(x, s, &i, &none);
        if (i == at)
            bad(x, "there is no number behind the point");
    }
    if (i < s->n)
        f->type = s->p[i++];
    if (i < s->n)
        bad(x, "what stands behind the ':' is not known");
    return !x->rc;
}

static void put_formatted(jx *x, jx_buf *b, jv v, const jx_str *how)
{
    static const jx_str zero = {.p = "0", .n = 1};
    spec f;
    if (!how->n) {
        aq_jx_print(x, b, v);
        return;
    }
    if (!read_spec(x, how, &f))
        return;
    if (v.kind == V_STR) {
        if ((f.type && f.type != 's') || f.align == '=' || f.has_sign || f.group || f.alt)
            bad(x, "this is not for strings");
        if (f.zero && !f.fill.n)
            f.fill = zero;
        put_text(x, b, v, &f, f.align ? f.align : '<');
        return;
    }
    if (v.kind == V_BOOL)
        v = aq_jx_int(v.i);
    bool integer = v.kind == V_INT || v.kind == V_BIG;
    if (!integer && v.kind != V_FLOAT) {
        aq_jx_fail(x, AQ_E_FORMAT, "a %s takes no format", aq_jx_kind(v));
        return;
    }
    if (f.zero && f.align && !f.fill.n)
        f.fill = zero;
    if (integer && (!f.type || strchr("dbxXon", f.type))) {
        f.type = f.type == 'n' ? 'd' : f.type;
        if (f.prec >= 0)
            bad(x, "an integer has no precision");
        else
            put_int(x, b, v, &f, false);
    } else if (v.kind == V_INT && f.type == 'c') {
        put_char(x, b, v, &f, f.align ? f.align : '<');
    } else if (v.kind != V_BIG && ((!f.type && !integer) || strchr("eEfFgGn%", f.type))) {
        put_float(x, b, aq_jx_num(v), &f);
    } else {
        bad(x, "the type behind the ':' is not for this value");
    }
}

typedef struct fields {
    const jx_args *args;
    uint32_t next; /* of places without a number */
    bool counted, numbered;
} fields;

/* Digits only: an index; -1 = it is a name. */
static int64_t index_of(const char *p, uint32_t n)
{
    int64_t v = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        v = AQ_MIN(v * 10 + (p[i] - '0'), INT32_MAX);
    }
    return n ? v : -1;
}

static jv argument(jx *x, fields *f, const char *p, uint32_t n)
{
    int64_t i = index_of(p, n);
    for (uint32_t k = 0; n && i < 0 && k < f->args->n_kw; k++)
        if (strlen(f->args->kw_name[k]) == n && !memcmp(f->args->kw_name[k], p, n))
            return f->args->kw[k];
    if (n && i < 0) {
        aq_jx_fail(x, AQ_E_FORMAT, "a format of a text: there is no argument '%.*s'",
                   (int)AQ_MIN(n, 60u), p);
        return JX_UNDEF;
    }
    f->counted |= !n;
    f->numbered |= n != 0;
    if (f->counted && f->numbered)
        return bad(x, "places with and without a number");
    if (!n)
        i = f->next++;
    return i < f->args->n_pos ? f->args->pos[i]
                              : bad(x, "there are fewer values than places for them");
}

/* The value of a name like `0.a[b]`, bytes [a, e). */
static jv field_value(jx *x, fields *f, const jx_str *s, uint32_t a, uint32_t e)
{
    uint32_t i = a;
    while (i < e && s->p[i] != '.' && s->p[i] != '[')
        i++;
    jv v = argument(x, f, s->p + a, i - a);
    while (!x->rc && i < e) {
        bool item = s->p[i] == '[';
        uint32_t from = ++i;
        while (i < e && (item ? s->p[i] != ']' : s->p[i] != '.' && s->p[i] != '['))
            i++;
        jv key = aq_jx_sub(x, s, from, i);
        if (x->rc)
            break;
        if (i == from || (item && i == e))
            return bad(x, "a name behind a value is not whole");
        char name[64] = "";
        if (item && index_of(key.s->p, key.s->n) >= 0) {
            v = aq_jx_item(x, v, aq_jx_int(index_of(key.s->p, key.s->n)), NULL);
        } else if (item || key.s->n >= sizeof name) {
            v = aq_jx_item(x, v, key, NULL);
        } else {
            memcpy(name, key.s->p, key.s->n);
            v = aq_jx_attr(x, v, name, NULL);
        }
        i += item;
        if (item && i < e && s->p[i] != '.' && s->p[i] != '[')
            return bad(x, "only '.' and '[' may stand behind ']'");
    }
    return v;
}

static jv expand(jx *x, fields *f, const jx_str *s, int depth);

/* A place from behind its '{'; the offset behind its '}'. */
static uint32_t field(jx *x, jx_buf *b, fields *f, const jx_str *s, uint32_t i, int depth)
{
    uint32_t name = i, from, open = 1;
    char conv = 0;
    while (i < s->n && !strchr("!:}{", s->p[i])) {
        if (s->p[i] == '[')
            while (i < s->n && s->p[i] != ']')
                i++;
        i += i < s->n;
    }
    if (i >= s->n || s->p[i] == '{' || !s->p[i]) {
        bad(x, "a '{' has no '}'");
        return s->n;
    }
    jv v = field_value(x, f, s, name, i);
    if (s->p[i] == '!') {
        conv = i + 1 < s->n ? s->p[i + 1] : 0;
        i += 2;
        if (!conv || !strchr("rsa", conv) || i >= s->n || (s->p[i] != ':' && s->p[i] != '}'))
            bad(x, "behind '!' may stand r, s or a");
    }
    if (x->rc)
        return s->n;
    if (conv)
        v = converted(x, v, conv);
    from = i + (s->p[i] == ':');
    bool nested = false;
    for (i = from; i < s->n && open; i++) {
        open += (s->p[i] == '{') - (uint32_t)(s->p[i] == '}');
        nested |= s->p[i] == '{';
    }
    if (open)
        bad(x, "a '{' has no '}'");
    else if (nested && depth)
        bad(x, "places are nested too deeply");
    jv how = x->rc ? JX_UNDEF : aq_jx_sub(x, s, from, i - 1);
    if (nested && !x->rc)
        how = expand(x, f, how.s, depth + 1);
    if (!x->rc)
        put_formatted(x, b, v, how.s);
    return i;
}

static jv expand(jx *x, fields *f, const jx_str *s, int depth)
{
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    for (uint32_t i = 0, to; b && !x->rc && i < s->n;) {
        for (to = i; to < s->n && s->p[to] != '{' && s->p[to] != '}';)
            to++;
        bool twice = to + 1 < s->n && s->p[to] == s->p[to + 1];
        jv part = aq_jx_sub(x, s, i, to + twice);
        if (x->rc)
            break;
        aq_jx_putstr(x, b, part.s);
        if (to < s->n && !twice && s->p[to] == '}')
            bad(x, "a '}' has no '{'");
        i = to + 1 + twice;
        if (to < s->n && !twice && !x->rc)
            i = field(x, b, f, s, to + 1, depth);
    }
    return b && !x->rc ? aq_jx_take(x, b) : JX_UNDEF;
}

jv aq_jx_format(jx *x, const jx_str *s, const jx_args *a)
{
    fields f = {.args = a};
    return expand(x, &f, s, 0);
}
