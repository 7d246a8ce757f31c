/* SPDX-License-Identifier: Apache-2.0 */
/* Filters and tests: a table of names, parameter names and functions. `self` is the value; arguments that were not given are V_UNSET. */
#include "unicode.h"
#include "jinja-priv.h"

#include <math.h>
#include <stdio.h>

#define ARGS jx *x, jv self, const jv *arg, const jx_args *raw

static bool given(jv v)
{
    return v.kind != V_UNSET;
}

static bool flag(jv v, bool dflt)
{
    return given(v) ? aq_jx_true(v) : dflt;
}

static jv need_text(jx *x, jv v)
{
    return aq_jx_text(x, given(v) ? v : JX_UNDEF);
}

/* ---- strings ---- */

static jv f_upper(ARGS)
{
    jv s = aq_jx_text(x, self);
    return x->rc ? JX_UNDEF : aq_jx_case(x, s.s, 'u');
}

static jv f_lower(ARGS)
{
    jv s = aq_jx_text(x, self);
    return x->rc ? JX_UNDEF : aq_jx_case(x, s.s, 'l');
}

static jv f_title(ARGS)
{
    jv s = aq_jx_text(x, self);
    return x->rc ? JX_UNDEF : aq_jx_case(x, s.s, 'j');
}

static jv f_capitalize(ARGS)
{
    jv s = aq_jx_text(x, self);
    return x->rc ? JX_UNDEF : aq_jx_case(x, s.s, 'c');
}

static jv f_string(ARGS)
{
    return aq_jx_text(x, self);
}

static jv f_trim(ARGS)
{
    jv s = aq_jx_text(x, self),
       c = given(arg[0]) && arg[0].kind != V_NONE ? aq_jx_text(x, arg[0]) : JX_UNDEF;
    return x->rc ? JX_UNDEF : aq_jx_strip(x, s.s, c.kind == V_STR ? c.s : NULL, 3);
}

static jv f_replace(ARGS)
{
    jv s = aq_jx_text(x, self), a = need_text(x, arg[0]), b = need_text(x, arg[1]);
    if (!given(arg[0]) || !given(arg[1]))
        aq_jx_fail(x, AQ_E_FORMAT, "replace wants what is replaced, and by what");
    return x->rc ? JX_UNDEF : aq_jx_replace(x, s.s, a.s, b.s, arg[2].kind == V_INT ? arg[2].i : -1);
}

static jv f_indent(ARGS)
{
    jv s = aq_jx_text(x, self), by = arg[0];
    if (by.kind != V_STR)
        by = aq_jx_repeat(x, aq_jx_strz(x, " "), by.kind == V_INT ? by.i : 4);
    return x->rc ? JX_UNDEF : aq_jx_indent(x, s.s, by.s, flag(arg[1], false), flag(arg[2], false));
}

static jv f_escape(ARGS)
{
    static const char *const pair[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&#34;"}, {"'", "&#39;"}};
    jv s = aq_jx_text(x, self);
    for (size_t i = 0; !x->rc && i < AQ_LEN(pair); i++) {
        jv a = aq_jx_strz(x, pair[i][0]), b = aq_jx_strz(x, pair[i][1]);
        if (!x->rc)
            s = aq_jx_replace(x, s.s, a.s, b.s, -1);
    }
    return s;
}

static jv f_tojson(ARGS)
{
    jx_json o = {.indent = -1};
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    jv item = JX_UNDEF, key = JX_UNDEF;

    o.ascii = flag(arg[0], false);
    o.sort = flag(arg[3], false);
    if (arg[1].kind == V_INT || arg[1].kind == V_BOOL)
        o.indent = (int)AQ_MIN(AQ_MAX(arg[1].i, 0), 64);
    else if (arg[1].kind == V_STR)
        o.indent_str = arg[1].s;
    if ((arg[2].kind == V_LIST || arg[2].kind == V_TUPLE) && arg[2].l->n == 2) {
        item = arg[2].l->item[0];
        key = arg[2].l->item[1];
    }
    if (item.kind != V_STR)
        item = aq_jx_strz(x, o.indent >= 0 || o.indent_str ? "," : ", ");
    if (key.kind != V_STR)
        key = aq_jx_strz(x, ": ");
    if (!b || x->rc)
        return JX_UNDEF;
    o.sep_item = item.s;
    o.sep_key = key.s;
    aq_jx_tojson(x, b, self, &o, 0);
    return aq_jx_take(x, b);
}

static jv f_wordcount(ARGS)
{
    jv s = aq_jx_text(x, self);
    int64_t n = 0;
    bool inside = false;
    for (uint32_t i = 0; !x->rc && i < s.s->n;) {
        uint32_t cp, len = aq_uni_next(s.s->p + i, s.s->n - i, &cp, NULL);
        bool word = cp == '_' || aq_uni_class(cp) & (AQ_CL_LETTER | AQ_CL_NUM);
        n += word && !inside;
        inside = word;
        i += len;
    }
    aq_jx_work(x, x->rc ? 0 : s.s->n);
    return aq_jx_int(n);
}

static jv f_center(ARGS)
{
    jv s = aq_jx_text(x, self);
    int64_t width = given(arg[0]) ? arg[0].i : 80;
    if (given(arg[0]) && arg[0].kind != V_INT)
        aq_jx_fail(x, AQ_E_FORMAT, "center wants a width");
    return x->rc ? JX_UNDEF : aq_jx_pad(x, s.s, &(jx_str){0}, 'c', width);
}

static jv f_truncate(ARGS)
{
    const jv unset = {.kind = V_UNSET};
    jv s = aq_jx_text(x, self), end = given(arg[2]) ? aq_jx_text(x, arg[2]) : aq_jx_strz(x, "...");
    int64_t len = arg[0].kind == V_INT ? arg[0].i : 255,
            leeway = arg[3].kind == V_INT ? arg[3].i : 5;
    if (x->rc)
        return JX_UNDEF;
    if (leeway < 0 || len < aq_jx_len(x, end)) {
        aq_jx_fail(x, AQ_E_FORMAT, "truncate: a length below that of its end, or a leeway below 0");
        return JX_UNDEF;
    }
    if (aq_jx_len(x, s) - leeway <= len)
        return s;
    s = aq_jx_slice(x, s, unset, aq_jx_int(len - aq_jx_len(x, end)), unset);
    if (!x->rc && !flag(arg[1], false)) {
        const void *blank = memrchr(s.s->p, ' ', s.s->n);
        s = blank ? aq_jx_sub(x, s.s, 0, (uint32_t)((const char *)blank - s.s->p)) : s;
    }
    return x->rc ? JX_UNDEF : aq_jx_concat(x, s, end);
}

static jv f_format(ARGS)
{
    jv s = aq_jx_text(x, self), values = aq_jx_list(x, V_TUPLE, raw->n_pos);
    if (raw->n_pos && raw->n_kw)
        aq_jx_fail(x, AQ_E_FORMAT, "format takes values or named ones, not both");
    for (uint32_t i = 0; !x->rc && i < raw->n_pos; i++)
        aq_jx_push(x, values, raw->pos[i]);
    if (raw->n_kw)
        values = aq_jx_dict(x);
    for (uint32_t i = 0; !x->rc && i < raw->n_kw; i++)
        aq_jx_put(x, values, aq_jx_kw_key(x, raw, i), raw->kw[i]);
    return x->rc ? JX_UNDEF : aq_jx_percent(x, s.s, values);
}

/* ---- numbers ---- */

static jv f_int(ARGS)
{
    jv dflt = given(arg[0]) ? arg[0] : aq_jx_int(0);
    int base = arg[1].kind == V_INT && arg[1].i >= 0 && arg[1].i <= 36 && arg[1].i != 1
                   ? (int)arg[1].i
                   : 10;

    if (self.kind == V_INT || self.kind == V_BOOL)
        return aq_jx_int(self.i);
    if (self.kind == V_BIG)
        return self;
    if (self.kind == V_FLOAT)
        return isfinite(self.f) ? aq_jx_whole_part(x, self.f) : dflt;
    if (self.kind != V_STR)
        return dflt;
    jv t = aq_jx_strip(x, self.s, NULL, 3);
    char buf[64], *end;
    if (x->rc || !t.s->n || t.s->n >= sizeof buf)
        return dflt;
    uint32_t n = 0;
    for (uint32_t k = 0; k < t.s->n; k++) /* underscores may stand between digits */
        if (t.s->p[k] != '_' || !k || k + 1 == t.s->n || t.s->p[k - 1] == '_')
            buf[n++] = t.s->p[k];
    buf[n] = 0;
    int64_t i = strtoll(buf, &end, base);
    if (!*end)
        return aq_jx_int(i);
    double f = strtod(buf, &end);
    return *end || !(fabs(f) < 9.2e18) || strpbrk(buf, "xXnN") ? dflt : aq_jx_int((int64_t)f);
}

static jv f_float(ARGS)
{
    jv dflt = given(arg[0]) ? arg[0] : aq_jx_float(0);
    char buf[64], *end;

    if (aq_jx_is_num(self))
        return aq_jx_float(aq_jx_num(self));
    if (self.kind != V_STR)
        return dflt;
    jv t = aq_jx_strip(x, self.s, NULL, 3);
    if (x->rc || !t.s->n || t.s->n >= sizeof buf)
        return dflt;
    memcpy(buf, t.s->p, t.s->n);
    buf[t.s->n] = 0;
    double f = strtod(buf, &end);
    return *end || strpbrk(buf, "xX(") ? dflt : aq_jx_float(f);
}

static jv f_abs(ARGS)
{
    if (!aq_jx_is_num(self)) {
        aq_jx_fail(x, AQ_E_FORMAT, "abs: a %s is no number", aq_jx_kind(self));
        return JX_UNDEF;
    }
    return self.kind == V_FLOAT ? aq_jx_float(fabs(self.f))
                                : aq_jx_int(self.i < 0 && self.i != INT64_MIN ? -self.i : self.i);
}

static jv f_round(ARGS)
{
    int64_t places = arg[0].kind == V_INT ? arg[0].i : 0;
    bool up = aq_jx_is(arg[1], "ceil"), down = aq_jx_is(arg[1], "floor");
    char buf[400];

    if (!aq_jx_is_num(self)) {
        aq_jx_fail(x, AQ_E_FORMAT, "round: a %s is no number", aq_jx_kind(self));
        return JX_UNDEF;
    }
    if (given(arg[1]) && !up && !down && !aq_jx_is(arg[1], "common")) {
        aq_jx_fail(x, AQ_E_FORMAT, "round: the method is common, ceil or floor");
        return JX_UNDEF;
    }
    if (up || down) {
        double p = pow(10, (double)places), f = aq_jx_num(self) * p;
        return aq_jx_float((up ? ceil(f) : floor(f)) / p);
    }
    if (places < 0 && places >= -18) { /* to tens and more, halves to even */
        double p = pow(10, (double)-places), f = nearbyint(aq_jx_num(self) / p) * p;
        return self.kind == V_FLOAT ? aq_jx_float(f) : aq_jx_int((int64_t)f);
    }
    if (self.kind != V_FLOAT)
        return aq_jx_int(self.i);
    if (places < 0 || places > 20 || !isfinite(self.f))
        return self;
    snprintf(buf, sizeof buf, "%.*f", (int)places,
             self.f); /* to even, and exact in decimal, as Python rounds */
    return aq_jx_float(strtod(buf, NULL));
}

/* ---- any value ---- */

static jv f_length(ARGS)
{
    return aq_jx_int(aq_jx_len(x, self));
}

static jv f_default(ARGS)
{
    bool use = self.kind == V_UNDEF || (flag(arg[1], false) && !aq_jx_true(self));
    return !use ? self : given(arg[0]) ? arg[0] : aq_jx_strz(x, "");
}

static jv f_safe(ARGS)
{
    return aq_jx_text(x, self);
}

/* ---- sequences ---- */

/* What Python gives one after another. */
static jv once(jv list)
{
    list.aux = list.kind == V_LIST;
    return list;
}

static jv f_first(ARGS)
{
    if (self.kind == V_LIST && self.aux && self.l->n) { /* the rest stays */
        self.l->n--;
        return *self.l->item++;
    }
    jv l = aq_jx_iter(x, self);
    return x->rc || !l.l->n ? JX_UNDEF : l.l->item[0];
}

static jv f_last(ARGS)
{
    jv l = aq_jx_iter(x, self);
    return x->rc || !l.l->n ? JX_UNDEF : l.l->item[l.l->n - 1];
}

static jv f_list(ARGS)
{
    jv l = aq_jx_iter(x, self), out;
    if (x->rc)
        return JX_UNDEF;
    out = aq_jx_list(x, V_LIST, l.l->n);
    for (uint32_t i = 0; i < l.l->n; i++)
        aq_jx_push(x, out, l.l->item[i]);
    return out;
}

static jv f_reverse(ARGS)
{
    jv unset = {.kind = V_UNSET}, l = self.kind == V_STR ? self : f_list(x, self, arg, raw);
    l = x->rc ? JX_UNDEF : aq_jx_slice(x, l, unset, unset, aq_jx_int(-1));
    return once(l);
}

/* The value that an attribute path like "a.b" or 0 leads to. */
static jv path(jx *x, jv v, jv attr)
{
    if (attr.kind != V_STR)
        return given(attr) && attr.kind != V_NONE ? aq_jx_item(x, v, attr, NULL) : v;
    for (uint32_t from = 0; !x->rc && from <= attr.s->n;) {
        jx_str dot = {.p = ".", .n = 1};
        int64_t to = aq_jx_strpos(attr.s, &dot, from);
        uint32_t end = to < 0 ? attr.s->n : (uint32_t)to;
        jv key = aq_jx_str(x, attr.s->p + from, end - from);
        if (key.kind == V_STR && key.s->n && key.s->n < 10 &&
            strspn(key.s->p, "0123456789") >= key.s->n) {
            int64_t i = 0;
            for (uint32_t k = 0; k < key.s->n; k++)
                i = i * 10 + (key.s->p[k] - '0');
            key = aq_jx_int(i);
        }
        v = aq_jx_item(x, v, key, NULL);
        from = end + 1;
    }
    return v;
}

static jv paths(jx *x, jv seq, jv attr)
{
    jv l = aq_jx_iter(x, seq), out = aq_jx_list(x, V_LIST, 0);
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++)
        aq_jx_push(x, out, path(x, l.l->item[i], attr));
    return out;
}

static jv f_join(ARGS)
{
    jv sep = given(arg[0]) ? aq_jx_text(x, arg[0]) : aq_jx_strz(x, ""), l = paths(x, self, arg[1]);
    return x->rc ? JX_UNDEF : aq_jx_join(x, sep.s, l.l);
}

static jv f_items(ARGS)
{
    jv out = aq_jx_list(x, V_LIST, 0);
    if (self.kind != V_DICT && self.kind != V_UNDEF)
        aq_jx_fail(x, AQ_E_FORMAT, "items: a %s has no items", aq_jx_kind(self));
    for (uint32_t i = 0; self.kind == V_DICT && !x->rc && i < self.d->n; i++) {
        jv pair = aq_jx_list(x, V_TUPLE, 2);
        aq_jx_push(x, pair, self.d->pair[i].key);
        aq_jx_push(x, pair, self.d->pair[i].val);
        aq_jx_push(x, out, pair);
    }
    return out;
}

static jv f_items_once(ARGS)
{
    return once(f_items(x, self, arg, raw));
}

static jv fold(jx *x, jv v, bool cased)
{
    return v.kind == V_STR && !cased ? aq_jx_case(x, v.s, 'l') : v;
}

/* Stable merge sort of items by keys. */
static void merge_sort(jx *x, jv *item, jv *key, jv *t_item, jv *t_key, uint32_t n, bool reverse)
{
    uint32_t m = n / 2, a = 0, b = m;

    if (n < 2 || x->rc)
        return;
    merge_sort(x, item, key, t_item, t_key, m, reverse);
    merge_sort(x, item + m, key + m, t_item, t_key, n - m, reverse);
    for (uint32_t i = 0; i < n; i++) {
        bool right = a == m;
        if (a < m && b < n) {
            int c = aq_jx_order(x, key[b], key[a]);
            right = reverse ? c > 0 : c < 0;
            x->steps++;
        }
        t_item[i] = item[right ? b : a];
        t_key[i] = key[right ? b : a];
        right ? b++ : a++;
    }
    memcpy(item, t_item, n * sizeof *item);
    memcpy(key, t_key, n * sizeof *key);
}

/* What an item is sorted by: a value, or those that several paths `a,b` lead to. dflt V_UNSET = none. */
static jv sort_key(jx *x, jv item, jv attr, jv dflt, bool cased)
{
    const jx_str comma = {.p = ",", .n = 1};
    if (attr.kind != V_STR || aq_jx_strpos(attr.s, &comma, 0) < 0) {
        jv v = path(x, item, attr);
        return fold(x, v.kind == V_UNDEF && given(dflt) ? dflt : v, cased);
    }
    jv paths = aq_jx_split(x, attr.s, &comma, -1, false),
       key = aq_jx_list(x, V_TUPLE, x->rc ? 0 : paths.l->n);
    for (uint32_t i = 0; !x->rc && i < paths.l->n; i++)
        aq_jx_push(x, key, fold(x, path(x, item, paths.l->item[i]), cased));
    return key;
}

static jv sorted(jx *x, jv seq, jv attr, jv dflt, bool reverse, bool cased)
{
    jv out = f_list(x, seq, NULL, NULL);
    uint32_t n = x->rc ? 0 : out.l->n;
    jv *m = aq_jx_alloc(x, (3 * (size_t)n + 1) * sizeof *m);

    for (uint32_t i = 0; m && i < n; i++)
        m[i] = sort_key(x, out.l->item[i], attr, dflt, cased);
    if (m && !x->rc)
        merge_sort(x, out.l->item, m, m + n, m + 2 * (size_t)n, n, reverse);
    return out;
}

static jv f_sort(ARGS)
{
    return sorted(x, self, arg[2], (jv){.kind = V_UNSET}, flag(arg[0], false), flag(arg[1], false));
}

static jv f_dictsort(ARGS)
{
    if (self.kind != V_DICT) {
        aq_jx_fail(x, AQ_E_FORMAT, "dictsort: a %s is no dict", aq_jx_kind(self));
        return JX_UNDEF;
    }
    if (given(arg[1]) && !aq_jx_is(arg[1], "value") && !aq_jx_is(arg[1], "key")) {
        aq_jx_fail(x, AQ_E_FORMAT, "dictsort sorts by key or value");
        return JX_UNDEF;
    }
    return sorted(x, f_items(x, self, arg, raw), aq_jx_int(aq_jx_is(arg[1], "value")),
                  (jv){.kind = V_UNSET}, flag(arg[2], false), flag(arg[0], false));
}

static jv f_unique(ARGS)
{
    jv l = aq_jx_iter(x, self), out = aq_jx_list(x, V_LIST, 0), seen = aq_jx_dict(x);
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        jv k = fold(x, path(x, l.l->item[i], arg[1]), flag(arg[0], false));
        if (x->rc || aq_jx_find(x, seen.d, k))
            continue;
        aq_jx_put(x, seen, k, JX_NONE);
        aq_jx_push(x, out, l.l->item[i]);
    }
    return once(out);
}

static jv extreme(jx *x, jv self, const jv *arg, int sign)
{
    jv l = aq_jx_iter(x, self), best = JX_UNDEF, best_key = JX_UNDEF;
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        jv k = fold(x, path(x, l.l->item[i], arg[1]), flag(arg[0], false));
        if (!i || aq_jx_order(x, k, best_key) * sign > 0) {
            best = l.l->item[i];
            best_key = k;
        }
    }
    return best;
}

static jv f_max(ARGS)
{
    return extreme(x, self, arg, 1);
}

static jv f_min(ARGS)
{
    return extreme(x, self, arg, -1);
}

static jv f_sum(ARGS)
{
    jv l = paths(x, self, arg[0]), sum = given(arg[1]) ? arg[1] : aq_jx_int(0);
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++)
        sum = aq_jx_binary(x, OP_ADD, sum, l.l->item[i]);
    return sum;
}

static jv f_batch(ARGS)
{
    jv l = aq_jx_iter(x, self), out = aq_jx_list(x, V_LIST, 0), row = JX_UNDEF;
    int64_t n = arg[0].kind == V_INT && arg[0].i > 0 ? arg[0].i : 1;
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        if (i % n == 0) {
            row = aq_jx_list(x, V_LIST, 0);
            aq_jx_push(x, out, row);
        }
        aq_jx_push(x, row, l.l->item[i]);
    }
    if (!x->rc && given(arg[1]) && row.kind == V_LIST)
        while (!x->rc && row.l->n < n && n < AQ_TMPL_RANGE_MAX)
            aq_jx_push(x, row, arg[1]);
    return once(out);
}

static jv f_slice(ARGS)
{
    jv l = aq_jx_iter(x, self), out = aq_jx_list(x, V_LIST, 0);
    int64_t n = arg[0].kind == V_INT ? arg[0].i : 0;
    if (!x->rc && (n < 1 || n > AQ_TMPL_RANGE_MAX))
        aq_jx_fail(x, AQ_E_FORMAT, "slice wants the number of slices, 1 to %u", AQ_TMPL_RANGE_MAX);
    for (int64_t i = 0, at = 0; !x->rc && i < n; i++) {
        int64_t more = l.l->n % n, size = l.l->n / n + (i < more);
        jv part = aq_jx_list(x, V_LIST, (uint32_t)size + 1);
        for (int64_t k = 0; !x->rc && k < size; k++)
            aq_jx_push(x, part, l.l->item[at++]);
        if (given(arg[1]) && arg[1].kind != V_NONE && i >= more)
            aq_jx_push(x, part, arg[1]);
        aq_jx_push(x, out, part);
    }
    return once(out);
}

static jv f_groupby(ARGS)
{
    bool cased = flag(arg[2], false);
    jv l = sorted(x, self, arg[0], arg[1], false, cased), out = aq_jx_list(x, V_LIST, 0),
       last = JX_UNDEF, group = JX_UNDEF;
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        jv k = sort_key(x, l.l->item[i], arg[0], arg[1], cased);
        if (!i || !aq_jx_equal(x, k, last)) {
            jv g = aq_jx_list(x, V_TUPLE, 2);
            g.aux = 1;
            group = aq_jx_list(x, V_LIST, 0);
            /* named as the first of its items has it */
            aq_jx_push(x, g, sort_key(x, l.l->item[i], arg[0], arg[1], true));
            aq_jx_push(x, g, group);
            aq_jx_push(x, out, g);
            last = k;
        }
        aq_jx_push(x, group, l.l->item[i]);
    }
    return out;
}

/* ---- map, select and their kin: "*" functions; the first positional arguments name an attribute or a filter or test ---- */

static jv kwarg(const jx_args *a, const char *name)
{
    for (uint32_t i = 0; i < a->n_kw; i++)
        if (!strcmp(a->kw_name[i], name))
            return a->kw[i];
    return (jv){.kind = V_UNSET};
}

/* The filter or test that a string argument names. */
static const jx_func *named(jx *x, jv v, const jx_func *(*find)(const char *), const char *what)
{
    char name[32] = "";

    if (v.kind == V_STR && v.s->n < sizeof name) {
        memcpy(name, v.s->p, v.s->n);
        name[v.s->n] = 0;
    }
    const jx_func *f = find(name);
    if (!f)
        aq_jx_no_filter(x, what, name);
    return f;
}

static jv f_map(ARGS)
{
    jv l = aq_jx_iter(x, self), out = aq_jx_list(x, V_LIST, 0), attr = kwarg(raw, "attribute"),
       dflt = kwarg(raw, "default");
    const jx_func *f = NULL;

    for (uint32_t i = 0; i < raw->n_kw && !raw->n_pos; i++)
        if (strcmp(raw->kw_name[i], "attribute") && strcmp(raw->kw_name[i], "default"))
            aq_jx_fail(x, AQ_E_FORMAT, "map has no argument '%.60s'", raw->kw_name[i]);
    if (!given(attr)) {
        if (!raw->n_pos)
            aq_jx_fail(x, AQ_E_FORMAT, "map: it wants a filter or attribute=");
        else
            f = named(x, raw->pos[0], aq_jx_filter, "filter");
    }
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        jv v;
        if (f) {
            jx_args a = *raw;
            a.pos++;
            a.n_pos--;
            v = aq_jx_call_func(x, f, l.l->item[i], &a);
        } else {
            v = path(x, l.l->item[i], attr);
            if (v.kind == V_UNDEF && given(dflt))
                v = dflt;
        }
        x->steps++;
        aq_jx_push(x, out, v);
    }
    return once(out);
}

static jv pick(jx *x, jv self, const jx_args *raw, bool by_attr, bool keep)
{
    jv l = aq_jx_iter(x, self), out = aq_jx_list(x, V_LIST, 0);
    uint32_t first = by_attr;
    const jx_func *f = NULL;

    if (raw->n_pos < first)
        aq_jx_fail(x, AQ_E_FORMAT, "selectattr and rejectattr want an attribute");
    else if (raw->n_pos > first)
        f = named(x, raw->pos[first], aq_jx_test, "test");
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++) {
        jv v = by_attr ? path(x, l.l->item[i], raw->pos[0]) : l.l->item[i];
        if (f) {
            jx_args a = *raw;
            a.pos += first + 1;
            a.n_pos -= first + 1;
            v = aq_jx_call_func(x, f, v, &a);
        }
        x->steps++;
        if (aq_jx_true(v) == keep)
            aq_jx_push(x, out, l.l->item[i]);
    }
    return once(out);
}

static jv f_select(ARGS)
{
    return pick(x, self, raw, false, true);
}

static jv f_reject(ARGS)
{
    return pick(x, self, raw, false, false);
}

static jv f_selectattr(ARGS)
{
    return pick(x, self, raw, true, true);
}

static jv f_rejectattr(ARGS)
{
    return pick(x, self, raw, true, false);
}

static jv f_attr(ARGS)
{
    char name[64] = "";
    if (arg[0].kind == V_STR && arg[0].s->n < sizeof name)
        memcpy(name, arg[0].s->p, arg[0].s->n);
    return self.kind == V_DICT ? JX_UNDEF : aq_jx_attr(x, self, name, NULL);
}

/* sorted by name */
static const jx_func filters[] = {
    {"abs", "", f_abs},
    {"attr", "name", f_attr},
    {"batch", "linecount fill_with", f_batch},
    {"capitalize", "", f_capitalize},
    {"center", "width", f_center},
    {"count", "", f_length},
    {"d", "default_value boolean", f_default},
    {"default", "default_value boolean", f_default},
    {"dictsort", "case_sensitive by reverse", f_dictsort},
    {"e", "", f_escape},
    {"escape", "", f_escape},
    {"first", "", f_first},
    {"float", "default", f_float},
    {"format", "*", f_format},
    {"groupby", "attribute default case_sensitive", f_groupby},
    {"indent", "width first blank", f_indent},
    {"int", "default base", f_int},
    {"items", "", f_items_once},
    {"join", "d attribute", f_join},
    {"last", "", f_last},
    {"length", "", f_length},
    {"list", "", f_list},
    {"lower", "", f_lower},
    {"map", "*", f_map},
    {"max", "case_sensitive attribute", f_max},
    {"min", "case_sensitive attribute", f_min},
    {"reject", "*", f_reject},
    {"rejectattr", "*", f_rejectattr},
    {"replace", "old new count", f_replace},
    {"reverse", "", f_reverse},
    {"round", "precision method", f_round},
    {"safe", "", f_safe},
    {"select", "*", f_select},
    {"selectattr", "*", f_selectattr},
    {"slice", "slices fill_with", f_slice},
    {"sort", "reverse case_sensitive attribute", f_sort},
    {"string", "", f_string},
    {"sum", "attribute start", f_sum},
    {"title", "", f_title},
    {"tojson", "ensure_ascii indent separators sort_keys", f_tojson},
    {"trim", "chars", f_trim},
    {"truncate", "length killwords end leeway", f_truncate},
    {"unique", "case_sensitive attribute", f_unique},
    {"upper", "", f_upper},
    {"wordcount", "", f_wordcount},
};

void aq_jx_no_filter(jx *x, const char *what, const char *name)
{
    static const char *const web[] = {"filesizeformat", "forceescape", "pprint",   "striptags",
                                      "urlencode",      "urlize",      "wordwrap", "xmlattr"};
    if (!strcmp(name, "random"))
        aq_jx_fail(
            x, AQ_E_UNSUPPORTED,
            "the filter 'random' is left to chance, and a prompt has to be the same each time");
    for (size_t i = 0; i < AQ_LEN(web); i++)
        if (!strcmp(name, web[i]))
            aq_jx_fail(x, AQ_E_UNSUPPORTED, "the filter '%s' is not supported", name);
    aq_jx_fail(x, AQ_E_UNSUPPORTED, "the %s '%.60s' is not known", what, name);
}

const jx_func *aq_jx_filter(const char *name)
{
    for (size_t i = 0; i < AQ_LEN(filters); i++)
        if (!strcmp(filters[i].name, name))
            return &filters[i];
    return NULL;
}
