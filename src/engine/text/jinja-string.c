/* SPDX-License-Identifier: Apache-2.0 */
/* Python's string operations over UTF-8 with spans: positions are characters to the template, bytes in here. */
#include "unicode.h"
#include "jinja-priv.h"

static uint32_t at(const jx_str *s, uint32_t i, uint32_t *ret_cp)
{
    return aq_uni_next(s->p + i, s->n - i, ret_cp, NULL);
}

static uint32_t before(const jx_str *s, uint32_t i)
{
    do
        i--;
    while (i && ((uint8_t)s->p[i] & 0xC0) == 0x80);
    return i;
}

static jx_buf *buffer(jx *x)
{
    return aq_jx_alloc(x, sizeof(jx_buf));
}

static bool in_set(uint32_t cp, const jx_str *set)
{
    uint32_t c;

    if (!set)
        return aq_uni_pyspace(cp);
    for (uint32_t i = 0; i < set->n;) {
        i += at(set, i, &c);
        if (c == cp)
            return true;
    }
    return false;
}

jv aq_jx_strip(jx *x, const jx_str *s, const jx_str *chars, int sides)
{
    uint32_t a = 0, b = s->n, cp, len;

    while ((sides & 1) && a < b && (len = at(s, a, &cp), in_set(cp, chars)))
        a += len;
    while ((sides & 2) && b > a && (len = before(s, b), at(s, len, &cp), in_set(cp, chars)))
        b = len;
    aq_jx_work(x, s->n - (b - a));
    return aq_jx_sub(x, s, a, b);
}

/* A capital sigma at i is the last cased letter of its word; nothing before `from` counts. */
static bool final_sigma(const jx_str *s, uint32_t from, uint32_t i)
{
    uint32_t cp, cl = 0, k = i;

    while (k > from) {
        k = before(s, k);
        at(s, k, &cp);
        cl = aq_uni_class(cp);
        if (!(cl & AQ_CL_IGN))
            break;
        cl = 0;
    }
    if (!(cl & (AQ_CL_UPPER | AQ_CL_LOWER)))
        return false;
    for (k = i + at(s, i, &cp); k < s->n;) {
        k += at(s, k, &cp);
        cl = aq_uni_class(cp);
        if (!(cl & AQ_CL_IGN))
            return !(cl & (AQ_CL_UPPER | AQ_CL_LOWER));
    }
    return true;
}

/* What aq_uni_map does to the character at the start of a word and to one within. */
static int case_map(int how, bool start, uint32_t cl)
{
    if (how == 's')
        return cl & AQ_CL_LOWER ? AQ_UNI_UPPER : AQ_UNI_LOWER;
    if (how == 'u' || (start && how == 'j'))
        return AQ_UNI_UPPER;
    return start && how != 'l' ? AQ_UNI_TITLE : AQ_UNI_LOWER;
}

jv aq_jx_case(jx *x, const jx_str *s, int how)
{
    jx_walk w = {.s = s};
    jx_buf *b = buffer(x);
    uint32_t word =
        0; /* what a sigma may look back to: Jinja's title lowers each word without its first character */
    bool start = true; /* of a word, or of the text */

    for (uint32_t i = 0; b && !x->rc && i < s->n;) {
        uint32_t cp, len = at(s, i, &cp), cl = aq_uni_class(cp), out[3], n, k = 0;
        int map = case_map(how, start, cl);
        char buf[12];
        aq_jx_walk(x, &w, b, i);
        n = aq_uni_map(map, cp, out);
        if (cp == 0x3A3 && map == AQ_UNI_LOWER)
            out[0] = final_sigma(s, word, i) ? 0x3C2 : 0x3C3;
        for (uint32_t j = 0; j < n; j++)
            k += aq_utf8_put(out[j], buf + k);
        aq_jx_raw(x, b, buf, k);
        if (how == 'j' && start)
            word = i + len;
        if (how == 't')
            start = !(cl & (AQ_CL_UPPER | AQ_CL_LOWER));
        else
            start = how == 'j' &&
                    (aq_uni_pyspace(cp) || (cp && cp < 0x80 && strchr("-({[<", (char)cp)));
        i += len;
    }
    if (!b)
        return JX_UNDEF;
    aq_jx_walk(x, &w, b, s->n);
    return aq_jx_take(x, b);
}

/* Copy bytes [i, to) of the walked string. */
static void copy(jx *x, jx_walk *w, jx_buf *b, uint32_t i, uint32_t to)
{
    while (!x->rc && i < to) {
        uint32_t stop = to, edge;
        aq_jx_walk(x, w, b, i);
        if (w->at < w->s->n_span) {
            edge = w->open ? w->s->span[w->at].end : w->s->span[w->at].start;
            stop = edge > i && edge < to ? edge : to;
        }
        aq_jx_raw(x, b, w->s->p + i, stop - i);
        i = stop;
    }
    aq_jx_walk(x, w, b, to);
}

jv aq_jx_replace(jx *x, const jx_str *s, const jx_str *from, const jx_str *to, int64_t max)
{
    jx_walk w = {.s = s};
    jx_buf *b = buffer(x);
    uint32_t i = 0, cp;

    if (!b)
        return JX_UNDEF;
    for (int64_t left = max < 0 ? INT64_MAX : max; !x->rc && left > 0; left--) {
        int64_t hit = from->n ? aq_jx_strpos(s, from, i) : i;
        if (hit < 0)
            break;
        copy(x, &w, b, i, (uint32_t)hit);
        if (w.open)
            aq_jx_raw(x, b, to->p,
                      to->n); /* inside what a user wrote the replacement counts as theirs */
        else
            aq_jx_putstr(x, b, to);
        i = (uint32_t)hit + from->n;
        if (!from->n) { /* an empty needle: before, between and behind all characters */
            if (i >= s->n)
                break;
            uint32_t len = at(s, i, &cp);
            copy(x, &w, b, i, i + len);
            i += len;
        }
    }
    copy(x, &w, b, i, s->n);
    return aq_jx_take(x, b);
}

/* Split at white space. */
static jv split_space(jx *x, const jx_str *s, int64_t max, bool right)
{
    jv out = aq_jx_list(x, V_LIST, 0);
    uint32_t cp, len, i = 0, e = s->n;

    if (right && max >= 0) { /* rare: words from the right, then turned round */
        jv rev = aq_jx_list(x, V_LIST, 0);
        for (;;) {
            uint32_t k;
            while (e && (k = before(s, e), at(s, k, &cp), aq_uni_pyspace(cp)))
                e = k;
            if (!e || x->rc)
                break;
            uint32_t b = e;
            while (max > 0 && b && (k = before(s, b), at(s, k, &cp), !aq_uni_pyspace(cp)))
                b = k;
            if (max-- <= 0)
                b = 0;
            aq_jx_push(x, rev, aq_jx_sub(x, s, b, e));
            e = b;
        }
        for (uint32_t k = x->rc ? 0 : rev.l->n; k; k--)
            aq_jx_push(x, out, rev.l->item[k - 1]);
        return out;
    }
    while (!x->rc) {
        while (i < s->n && (len = at(s, i, &cp), aq_uni_pyspace(cp)))
            i += len;
        if (i >= s->n)
            break;
        uint32_t b = i;
        if (max >= 0 && max-- == 0) {
            aq_jx_push(x, out, aq_jx_sub(x, s, b, s->n));
            break;
        }
        while (i < s->n && (len = at(s, i, &cp), !aq_uni_pyspace(cp)))
            i += len;
        aq_jx_push(x, out, aq_jx_sub(x, s, b, i));
    }
    return out;
}

jv aq_jx_split(jx *x, const jx_str *s, const jx_str *sep, int64_t max, bool right)
{
    jv out = aq_jx_list(x, V_LIST, 0);
    uint32_t i = 0;
    int64_t skip = 0;

    aq_jx_work(x, s->n);
    if (!sep)
        return split_space(x, s, max, right);
    if (!sep->n) {
        aq_jx_fail(x, AQ_E_FORMAT, "split: the separator is empty");
        return JX_UNDEF;
    }
    if (right && max >= 0) { /* leave the first ones together */
        for (int64_t h = 0; (h = aq_jx_strpos(s, sep, (uint32_t)h)) >= 0; h += sep->n)
            skip++;
        skip = AQ_MAX(skip - max, 0);
        max = -1;
    }
    for (uint32_t from = 0; !x->rc;) {
        int64_t h = max == 0 ? -1 : aq_jx_strpos(s, sep, i);
        if (h < 0) {
            aq_jx_push(x, out, aq_jx_sub(x, s, from, s->n));
            return out;
        }
        i = (uint32_t)h + sep->n;
        if (skip-- > 0)
            continue;
        max -= max > 0;
        aq_jx_push(x, out, aq_jx_sub(x, s, from, (uint32_t)h));
        from = i;
    }
    return out;
}

static bool line_end(uint32_t cp)
{
    return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

jv aq_jx_lines(jx *x, const jx_str *s, bool keep_ends)
{
    jv out = aq_jx_list(x, V_LIST, 0);
    uint32_t from = 0, cp;

    aq_jx_work(x, s->n);
    for (uint32_t i = 0; !x->rc && i < s->n;) {
        uint32_t len = at(s, i, &cp);
        if (line_end(cp)) {
            if (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n')
                len = 2;
            aq_jx_push(x, out, aq_jx_sub(x, s, from, keep_ends ? i + len : i));
            from = i + len;
        }
        i += len;
    }
    if (from < s->n)
        aq_jx_push(x, out, aq_jx_sub(x, s, from, s->n));
    return out;
}

jv aq_jx_join(jx *x, const jx_str *sep, const jx_list *l)
{
    jx_buf *b = buffer(x);

    for (uint32_t i = 0; b && !x->rc && i < l->n; i++) {
        if (i)
            aq_jx_putstr(x, b, sep);
        aq_jx_print(x, b, l->item[i]);
    }
    return b ? aq_jx_take(x, b) : JX_UNDEF;
}

jv aq_jx_indent(jx *x, const jx_str *s, const jx_str *by, bool first, bool blank)
{
    jx_walk w = {.s = s};
    jx_buf *b = buffer(x);
    bool start = first,
         any = false; /* start: by is due before the next line if that is not empty */
    uint32_t cp;

    if (!b)
        return JX_UNDEF;
    if (first) {
        aq_jx_putstr(x, b, by);
        start = false;
    }
    for (uint32_t i = 0; !x->rc && i < s->n;) {
        uint32_t len = at(s, i, &cp);
        if (start && (blank || !line_end(cp)))
            aq_jx_raw(x, b, by->p, by->n);
        aq_jx_walk(x, &w, b, i);
        start = false;
        any = true;
        if (line_end(cp)) {
            if (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n')
                len = 2;
            aq_jx_raw(x, b, "\n", 1);
            start = true;
        } else {
            aq_jx_raw(x, b, s->p + i, len);
        }
        i += len;
    }
    if (any && start && blank)
        aq_jx_raw(x, b, by->p, by->n);
    aq_jx_walk(x, &w, b, s->n);
    return aq_jx_take(x, b);
}

jv aq_jx_char(jx *x, const jx_str *s, int64_t i)
{
    uint32_t cp, k;

    aq_jx_work(x, s->n);
    if (i >= 0) {
        for (k = 0; k < s->n && i > 0; i--)
            k += at(s, k, &cp);
        if (k >= s->n)
            return (jv){.kind = V_UNSET};
    } else {
        for (k = s->n; k && i < 0; i++)
            k = before(s, k);
        if (i < 0 || !s->n)
            return (jv){.kind = V_UNSET};
    }
    return aq_jx_sub(x, s, k, k + at(s, k, &cp));
}

/* Python's slice bounds for a length; false when an index is no integer. */
static bool bounds(jx *x, jv from, jv to, jv step, int64_t n, int64_t ret[3])
{
    const jv v[3] = {from, to, step};

    ret[2] = step.kind == V_INT ? step.i : 1;
    for (int k = 0; k < 3; k++)
        if (v[k].kind != V_UNSET && v[k].kind != V_NONE && v[k].kind != V_INT &&
            v[k].kind != V_BOOL) {
            aq_jx_fail(x, AQ_E_FORMAT, "a slice wants integers, not a %s", aq_jx_kind(v[k]));
            return false;
        }
    if (!ret[2]) {
        aq_jx_fail(x, AQ_E_FORMAT, "the step of a slice is 0");
        return false;
    }
    bool back = ret[2] < 0;
    for (int k = 0; k < 2; k++) {
        if (v[k].kind != V_INT && v[k].kind != V_BOOL) {
            ret[k] = (k == 0) != back ? 0 : n;
            if (back)
                ret[k] = k == 0 ? n - 1 : -1;
            continue;
        }
        int64_t i = v[k].i < 0 ? (v[k].i < -n ? -1 : v[k].i + n) : v[k].i;
        ret[k] = i < 0 ? (back ? -1 : 0) : i >= n ? (back ? n - 1 : n) : i;
    }
    if (ret[2] > n + 1 || ret[2] < -n - 1)
        ret[2] = back ? -n - 1 : n + 1;
    return true;
}

jv aq_jx_slice(jx *x, jv v, jv from, jv to, jv step)
{
    int64_t r[3], n;
    jv out;

    if (v.kind == V_UNDEF && !x->rc)
        aq_jx_fail(x, AQ_E_FORMAT, "an undefined value cannot be sliced");
    if (v.kind != V_STR && v.kind != V_LIST && v.kind != V_TUPLE) {
        aq_jx_fail(x, AQ_E_FORMAT, "a %s cannot be sliced", aq_jx_kind(v));
        return JX_UNDEF;
    }
    n = aq_jx_len(x, v);
    if (!bounds(x, from, to, step, n, r))
        return JX_UNDEF;
    if (v.kind != V_STR) {
        out = aq_jx_list(x, v.kind, 0);
        for (int64_t i = r[0]; !x->rc && (r[2] > 0 ? i < r[1] : i > r[1]); i += r[2])
            aq_jx_push(x, out, v.l->item[i]);
        return out;
    }
    const jx_str *s = v.s;
    bool ascii = n == s->n;
    if (r[2] == 1) {
        uint32_t a = 0, b, cp;
        if (r[0] >= r[1])
            return aq_jx_sub(x, s, 0, 0);
        if (ascii)
            return aq_jx_sub(x, s, (uint32_t)r[0], (uint32_t)r[1]);
        for (int64_t i = 0; i < r[0]; i++)
            a += at(s, a, &cp);
        b = a;
        for (int64_t i = r[0]; i < r[1]; i++)
            b += at(s, b, &cp);
        return aq_jx_sub(x, s, a, b);
    }
    /* any other step: character by character, each with its span */
    jx_buf *b = buffer(x);
    uint32_t *off = aq_jx_alloc(x, ((size_t)n + 1) * sizeof *off), k = 0, cp, last = UINT32_MAX;
    if (!b || !off)
        return JX_UNDEF;
    for (int64_t i = 0; i < n; i++, k += at(s, k, &cp))
        off[i] = k;
    off[n] = s->n;
    for (int64_t i = r[0]; !x->rc && (r[2] > 0 ? i < r[1] : i > r[1]); i += r[2]) {
        jv c = aq_jx_sub(x, s, off[i], off[i + 1]);
        uint32_t which = 0;
        if (c.kind != V_STR)
            break;
        while (c.s->n_span && s->span[which].end <= off[i])
            which++;
        if (c.s->n_span && which == last && b->n_span && b->span[b->n_span - 1].end == b->n) {
            aq_jx_raw(x, b, c.s->p, c.s->n);
            b->span[b->n_span - 1].end = b->n;
        } else {
            aq_jx_putstr(x, b, c.s);
        }
        last = c.s->n_span ? which : UINT32_MAX;
    }
    return aq_jx_take(x, b);
}

jv aq_jx_repeat(jx *x, jv v, int64_t n)
{
    if (v.kind == V_STR) {
        jx_buf *b = buffer(x);
        for (int64_t i = 0; b && v.s->n && !x->rc && i < n; i++) {
            aq_jx_putstr(x, b, v.s);
            aq_jx_work(x, 64);
        }
        return b ? aq_jx_take(x, b) : JX_UNDEF;
    }
    jv out = aq_jx_list(x, v.kind, 0);
    for (int64_t i = 0; !x->rc && v.l->n && i < n; i++) {
        aq_jx_work(x, 64);
        for (uint32_t k = 0; !x->rc && k < v.l->n; k++)
            aq_jx_push(x, out, v.l->item[k]);
    }
    return out;
}
