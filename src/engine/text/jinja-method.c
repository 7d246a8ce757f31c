/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of strings, lists and dicts, and the global functions. The sandbox is immutable: what would change a value is refused. */
#include "unicode.h"
#include "jinja-priv.h"

#include <locale.h>
#include <time.h>

#define ARGS jx *x, jv self, const jv *arg, const jx_args *raw

static bool given(jv v)
{
    return v.kind != V_UNSET && v.kind != V_NONE;
}

/* A string argument; NULL and an error when it is none. */
static const jx_str *str(jx *x, jv v, const char *what)
{
    if (v.kind == V_STR)
        return v.s;
    aq_jx_fail(x, AQ_E_FORMAT, "%s wants a string, not a %s", what,
               v.kind == V_UNSET ? "missing argument" : aq_jx_kind(v));
    return NULL;
}

static int64_t count(jv v)
{
    return v.kind == V_INT ? v.i : -1;
}

/* ---- strings ---- */

static jv strip(jx *x, jv self, jv chars, int sides)
{
    const jx_str *set = given(chars) ? str(x, chars, "strip") : NULL;
    return x->rc ? JX_UNDEF : aq_jx_strip(x, self.s, set, sides);
}

static jv m_strip(ARGS)
{
    return strip(x, self, arg[0], 3);
}

static jv m_lstrip(ARGS)
{
    return strip(x, self, arg[0], 1);
}

static jv m_rstrip(ARGS)
{
    return strip(x, self, arg[0], 2);
}

static jv m_upper(ARGS)
{
    return aq_jx_case(x, self.s, 'u');
}

static jv m_lower(ARGS)
{
    return aq_jx_case(x, self.s, 'l');
}

static jv m_title(ARGS)
{
    return aq_jx_case(x, self.s, 't');
}

static jv m_capitalize(ARGS)
{
    return aq_jx_case(x, self.s, 'c');
}

static jv m_swapcase(ARGS)
{
    return aq_jx_case(x, self.s, 's');
}

static jv split(jx *x, jv self, const jv *arg, bool right)
{
    const jx_str *sep = given(arg[0]) ? str(x, arg[0], "split") : NULL;
    return x->rc ? JX_UNDEF : aq_jx_split(x, self.s, sep, count(arg[1]), right);
}

static jv m_split(ARGS)
{
    return split(x, self, arg, false);
}

static jv m_rsplit(ARGS)
{
    return split(x, self, arg, true);
}

static jv m_splitlines(ARGS)
{
    return aq_jx_lines(x, self.s, arg[0].kind != V_UNSET && aq_jx_true(arg[0]));
}

static jv m_replace(ARGS)
{
    const jx_str *a = str(x, arg[0], "replace"), *b = str(x, arg[1], "replace");
    return x->rc ? JX_UNDEF : aq_jx_replace(x, self.s, a, b, count(arg[2]));
}

static bool affix(jx *x, const jx_str *s, const jx_str *a, bool end)
{
    return a->n <= s->n && !memcmp(end ? s->p + s->n - a->n : s->p, a->p, a->n) &&
           aq_jx_affix(x, s, a, end);
}

/* The part of a string that two arguments after the first name, and the character it begins at. */
static jv within(jx *x, jv self, const jv *arg, int64_t *ret_at)
{
    *ret_at = 0;
    if (!given(arg[1]) && !given(arg[2]))
        return self;
    if (arg[1].kind == V_INT) {
        int64_t n = aq_jx_len(x, self);
        *ret_at = AQ_MIN(AQ_MAX(arg[1].i < 0 ? arg[1].i + n : arg[1].i, 0), n);
    }
    return aq_jx_slice(x, self, arg[1], arg[2], (jv){.kind = V_UNSET});
}

static jv affixes(jx *x, jv self, const jv *arg, bool end)
{
    bool hit = false;
    int64_t at;
    jv what = arg[0];

    self = within(x, self, arg, &at);
    if (x->rc)
        return JX_UNDEF;

    if (what.kind == V_TUPLE) {
        for (uint32_t i = 0; !x->rc && !hit && i < what.l->n; i++) {
            const jx_str *a = str(x, what.l->item[i], "startswith");
            hit = a && affix(x, self.s, a, end);
        }
        return aq_jx_bool(hit);
    }
    const jx_str *a = str(x, what, end ? "endswith" : "startswith");
    return aq_jx_bool(a && affix(x, self.s, a, end));
}

static jv m_startswith(ARGS)
{
    return affixes(x, self, arg, false);
}

static jv m_endswith(ARGS)
{
    return affixes(x, self, arg, true);
}

static jv m_removeprefix(ARGS)
{
    const jx_str *a = str(x, arg[0], "removeprefix");
    return x->rc                        ? JX_UNDEF
           : affix(x, self.s, a, false) ? aq_jx_sub(x, self.s, a->n, self.s->n)
                                        : self;
}

static jv m_removesuffix(ARGS)
{
    const jx_str *a = str(x, arg[0], "removesuffix");
    return x->rc                       ? JX_UNDEF
           : affix(x, self.s, a, true) ? aq_jx_sub(x, self.s, 0, self.s->n - a->n)
                                       : self;
}

static jv m_join(ARGS)
{
    jv l = aq_jx_iter(x, arg[0].kind == V_UNSET ? JX_UNDEF : arg[0]);
    for (uint32_t i = 0; !x->rc && i < l.l->n; i++)
        str(x, l.l->item[i], "join");
    return x->rc ? JX_UNDEF : aq_jx_join(x, self.s, l.l);
}

/* Byte offset of the last hit, or -1. */
static int64_t last_pos(const jx_str *s, const jx_str *needle)
{
    for (int64_t i = (int64_t)s->n - needle->n; i >= 0; i--)
        if (!memcmp(s->p + i, needle->p, needle->n))
            return i;
    return -1;
}

static jv find(jx *x, jv self, const jv *arg, bool right, bool must)
{
    const jx_str *a = str(x, arg[0], "find");
    int64_t at;
    self = within(x, self, arg, &at);
    if (!a || x->rc)
        return JX_UNDEF;
    aq_jx_work(x, right ? (size_t)self.s->n * AQ_MAX(a->n / 64, 1u) : self.s->n);
    int64_t i = x->rc ? -1 : right ? last_pos(self.s, a) : aq_jx_strpos(self.s, a, 0);
    if (i < 0 && must)
        aq_jx_fail(x, AQ_E_FORMAT, "index: the text does not occur");
    return aq_jx_int(i < 0 ? -1 : at + aq_jx_chars(self.s->p, (uint32_t)i));
}

static jv m_find(ARGS)
{
    return find(x, self, arg, false, false);
}

static jv m_rfind(ARGS)
{
    return find(x, self, arg, true, false);
}

static jv m_index(ARGS)
{
    return find(x, self, arg, false, true);
}

static jv m_rindex(ARGS)
{
    return find(x, self, arg, true, true);
}

static jv m_count(ARGS)
{
    const jx_str *a = str(x, arg[0], "count");
    int64_t n = 0, at;
    self = within(x, self, arg, &at);
    if (!a || x->rc)
        return JX_UNDEF;
    aq_jx_work(x, self.s->n);
    if (!a->n)
        return aq_jx_int(aq_jx_chars(self.s->p, self.s->n) + 1);
    for (int64_t i = 0; (i = aq_jx_strpos(self.s, a, (uint32_t)i)) >= 0; i += a->n)
        n++;
    return aq_jx_int(n);
}

static jv partition(jx *x, jv self, jv sep, bool right)
{
    const jx_str *a = str(x, sep, "partition"), *s = self.s;
    jv out = aq_jx_list(x, V_TUPLE, 3);
    if (x->rc)
        return JX_UNDEF;
    int64_t i = right ? last_pos(s, a) : aq_jx_strpos(s, a, 0);
    uint32_t cut = i < 0 ? (right ? 0 : s->n) : (uint32_t)i, end = i < 0 ? cut : cut + a->n;
    aq_jx_push(x, out, aq_jx_sub(x, s, 0, cut));
    aq_jx_push(x, out, aq_jx_sub(x, s, cut, end));
    aq_jx_push(x, out, aq_jx_sub(x, s, end, s->n));
    return out;
}

static jv m_partition(ARGS)
{
    return partition(x, self, arg[0], false);
}

static jv m_rpartition(ARGS)
{
    return partition(x, self, arg[0], true);
}

static jv m_zfill(ARGS)
{
    int64_t want = count(arg[0]), have = aq_jx_len(x, self);
    bool sign = self.s->n && (self.s->p[0] == '-' || self.s->p[0] == '+');
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    jv head = aq_jx_sub(x, self.s, 0, sign), tail = aq_jx_sub(x, self.s, sign, self.s->n);
    if (x->rc || !b)
        return JX_UNDEF;
    aq_jx_putstr(x, b, head.s);
    for (; have < want && !x->rc; have++)
        aq_jx_raw(x, b, "0", 1);
    aq_jx_putstr(x, b, tail.s);
    return aq_jx_take(x, b);
}

static jv pad(jx *x, jv self, const jv *arg, char align)
{
    const jx_str *fill = arg[1].kind == V_UNSET ? &(jx_str){0} : str(x, arg[1], "the character");
    if (!x->rc && (arg[0].kind != V_INT || (fill->n && aq_jx_chars(fill->p, fill->n) != 1)))
        aq_jx_fail(x, AQ_E_FORMAT, "center, ljust and rjust want a width and one character");
    return x->rc ? JX_UNDEF : aq_jx_pad(x, self.s, fill, align, arg[0].i);
}

static jv m_center(ARGS)
{
    return pad(x, self, arg, 'c');
}

static jv m_ljust(ARGS)
{
    return pad(x, self, arg, '<');
}

static jv m_rjust(ARGS)
{
    return pad(x, self, arg, '>');
}

static jv m_format(ARGS)
{
    return aq_jx_format(x, self.s, raw);
}

static jv m_expandtabs(ARGS)
{
    int64_t every = arg[0].kind == V_INT ? AQ_MIN(AQ_MAX(arg[0].i, 0), 1024) : 8, column = 0;
    jx_buf *b = aq_jx_alloc(x, sizeof *b);
    jx_walk w = {.s = self.s};
    for (uint32_t i = 0; b && !x->rc && i < self.s->n; i++) {
        char c = self.s->p[i];
        aq_jx_walk(x, &w, b, i);
        if (c != '\t') {
            aq_jx_raw(x, b, &c, 1);
            column = c == '\n' || c == '\r' ? 0 : column + (((uint8_t)c & 0xC0) != 0x80);
            continue;
        }
        for (int64_t n = every ? every - column % every : 0; n > 0; n--, column++)
            aq_jx_raw(x, b, " ", 1);
    }
    if (!b || x->rc)
        return JX_UNDEF;
    aq_jx_walk(x, &w, b, self.s->n);
    return aq_jx_take(x, b);
}

/* All characters have one of the classes, and there is one. */
static jv all(jv self, uint32_t mask, bool space)
{
    for (uint32_t i = 0; i < self.s->n;) {
        uint32_t cp;
        i += aq_uni_next(self.s->p + i, self.s->n - i, &cp, NULL);
        if (space ? !aq_uni_pyspace(cp) : !(aq_uni_class(cp) & mask))
            return aq_jx_bool(false);
    }
    return aq_jx_bool(self.s->n > 0);
}

static jv m_isalnum(ARGS)
{
    return all(self, AQ_CL_LETTER | AQ_CL_NUM, false);
}

static jv m_isalpha(ARGS)
{
    return all(self, AQ_CL_LETTER, false);
}

static jv m_isdigit(ARGS)
{
    return all(self, AQ_CL_DIGIT, false);
}

static jv m_isnumeric(ARGS)
{
    return all(self, AQ_CL_NUM, false);
}

static jv m_isascii(ARGS)
{
    for (uint32_t i = 0; i < self.s->n; i++)
        if ((uint8_t)self.s->p[i] >= 0x80)
            return aq_jx_bool(false);
    return aq_jx_bool(true);
}

/* Each word begins with a capital letter, and has no other. */
static jv m_istitle(ARGS)
{
    bool inside = false, any = false;
    for (uint32_t i = 0; i < self.s->n;) {
        uint32_t cp, cl;
        i += aq_uni_next(self.s->p + i, self.s->n - i, &cp, NULL);
        cl = aq_uni_class(cp);
        if ((cl & AQ_CL_UPPER && inside) || (cl & AQ_CL_LOWER && !inside))
            return aq_jx_bool(false);
        inside = cl & (AQ_CL_UPPER | AQ_CL_LOWER);
        any |= inside;
    }
    return aq_jx_bool(any);
}

static jv m_isspace(ARGS)
{
    return all(self, 0, true);
}

static jv m_isupper(ARGS)
{
    return aq_jx_call_func(x, aq_jx_test("upper"), self, &(jx_args){0});
}

static jv m_islower(ARGS)
{
    return aq_jx_call_func(x, aq_jx_test("lower"), self, &(jx_args){0});
}

/* ---- dicts and lists ---- */

static jv m_get(ARGS)
{
    const jv *v = aq_jx_find(x, self.d, arg[0]);
    return v ? *v : arg[1].kind != V_UNSET ? arg[1] : JX_NONE;
}

static jv m_keys(ARGS)
{
    return aq_jx_iter(x, self);
}

static jv m_values(ARGS)
{
    jv out = aq_jx_list(x, V_LIST, self.d->n);
    for (uint32_t i = 0; i < self.d->n; i++)
        aq_jx_push(x, out, self.d->pair[i].val);
    return out;
}

static jv m_items(ARGS)
{
    jv v = aq_jx_call_func(x, aq_jx_filter("items"), self, &(jx_args){0});
    v.aux = 0; /* a view: it can be read again */
    return v;
}

static jv m_list_index(ARGS)
{
    for (uint32_t i = 0; !x->rc && i < self.l->n; i++)
        if (aq_jx_equal(x, self.l->item[i], arg[0]))
            return aq_jx_int(i);
    aq_jx_fail(x, AQ_E_FORMAT, "index: the value is not in the list");
    return JX_UNDEF;
}

static jv m_list_count(ARGS)
{
    int64_t n = 0;
    aq_jx_work(x, self.l->n * 16);
    for (uint32_t i = 0; !x->rc && i < self.l->n; i++)
        n += aq_jx_equal(x, self.l->item[i], arg[0]);
    return aq_jx_int(n);
}

/* Nothing changes a value, so it is its own copy. */
static jv m_copy(ARGS)
{
    return self;
}

static const jx_func str_methods[] = {
    {"strip", "chars", m_strip},
    {"lstrip", "chars", m_lstrip},
    {"rstrip", "chars", m_rstrip},
    {"upper", "", m_upper},
    {"lower", "", m_lower},
    {"title", "", m_title},
    {"capitalize", "", m_capitalize},
    {"swapcase", "", m_swapcase},
    {"split", "sep maxsplit", m_split},
    {"rsplit", "sep maxsplit", m_rsplit},
    {"splitlines", "keepends", m_splitlines},
    {"replace", "old new count", m_replace},
    {"startswith", "prefix start end", m_startswith},
    {"endswith", "suffix start end", m_endswith},
    {"removeprefix", "prefix", m_removeprefix},
    {"removesuffix", "suffix", m_removesuffix},
    {"join", "iterable", m_join},
    {"find", "sub start end", m_find},
    {"rfind", "sub start end", m_rfind},
    {"index", "sub start end", m_index},
    {"rindex", "sub start end", m_rindex},
    {"count", "sub start end", m_count},
    {"partition", "sep", m_partition},
    {"rpartition", "sep", m_rpartition},
    {"zfill", "width", m_zfill},
    {"center", "width fillchar", m_center},
    {"ljust", "width fillchar", m_ljust},
    {"rjust", "width fillchar", m_rjust},
    {"format", "*", m_format},
    {"expandtabs", "tabsize", m_expandtabs},
    {"isalnum", "", m_isalnum},
    {"isalpha", "", m_isalpha},
    {"isdigit", "", m_isdigit},
    {"isdecimal", "", m_isdigit},
    {"isnumeric", "", m_isnumeric},
    {"isascii", "", m_isascii},
    {"istitle", "", m_istitle},
    {"isspace", "", m_isspace},
    {"isupper", "", m_isupper},
    {"islower", "", m_islower},
};
static const jx_func dict_methods[] = {{"get", "key default", m_get},
                                       {"keys", "", m_keys},
                                       {"values", "", m_values},
                                       {"items", "", m_items},
                                       {"copy", "", m_copy}};
/* ---- of loops ---- */

static jv m_loop_cycle(ARGS)
{
    if (!raw->n_pos) {
        aq_jx_fail(x, AQ_E_FORMAT, "loop.cycle() takes at least one argument");
        return JX_UNDEF;
    }
    return raw->pos[self.loop->at % raw->n_pos];
}

static jv m_loop_changed(ARGS)
{
    jv now = aq_jx_list(x, V_TUPLE, raw->n_pos);
    for (uint32_t i = 0; !x->rc && i < raw->n_pos; i++)
        aq_jx_push(x, now, raw->pos[i]);
    if (x->rc || (self.loop->changed.kind == V_TUPLE && aq_jx_equal(x, self.loop->changed, now)))
        return aq_jx_bool(false);
    self.loop->changed = now;
    return aq_jx_bool(true);
}

static jv m_cycler_next(ARGS)
{
    jx_turn *t = self.turn;
    jv v = t->of.l->item[t->at];
    t->at = (t->at + 1) % t->of.l->n;
    return v;
}

static jv m_cycler_reset(ARGS)
{
    self.turn->at = 0;
    return JX_NONE;
}

static const jx_func loop_methods[] = {{"cycle", "*", m_loop_cycle},
                                       {"changed", "*", m_loop_changed}};
static const jx_func list_methods[] = {
    {"index", "value", m_list_index}, {"count", "value", m_list_count}, {"copy", "", m_copy}};
static const jx_func cycler_methods[] = {{"next", "", m_cycler_next},
                                         {"reset", "", m_cycler_reset}};

const jx_func *aq_jx_method_of(jv v, const char *name, bool *ret_unsafe)
{
    static const char *const list_no[] = {"append", "clear",   "extend", "insert", "pop",
                                          "remove", "reverse", "sort",   NULL},
                             *const dict_no[] = {"clear",      "pop",    "popitem",
                                                 "setdefault", "update", NULL};
    const char *const *no = v.kind == V_LIST ? list_no : v.kind == V_DICT ? dict_no : NULL;
    const jx_func *t = v.kind == V_STR      ? str_methods
                       : v.kind == V_DICT   ? dict_methods
                       : v.kind == V_LOOP   ? loop_methods
                       : v.kind == V_CYCLER ? cycler_methods
                                            : list_methods;
    size_t n = v.kind == V_STR                         ? AQ_LEN(str_methods)
               : v.kind == V_DICT                      ? AQ_LEN(dict_methods)
               : v.kind == V_LOOP                      ? AQ_LEN(loop_methods)
               : v.kind == V_CYCLER                    ? AQ_LEN(cycler_methods)
               : v.kind == V_LIST || v.kind == V_TUPLE ? AQ_LEN(list_methods)
                                                       : 0;

    *ret_unsafe = false;
    for (; no && *no; no++)
        if (!strcmp(*no, name))
            *ret_unsafe = true;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, name))
            return &t[i];
    return NULL;
}

/* ---- globals ---- */

static jv g_namespace(ARGS)
{
    jv ns = aq_jx_dict(x);
    if (x->rc)
        return JX_UNDEF;
    ns.kind = V_NS;
    for (uint32_t i = 0; i < raw->n_pos; i++) {
        jv of = raw->pos[i];
        for (uint32_t k = 0; of.kind == V_DICT && k < of.d->n; k++)
            aq_jx_put(x, ns, of.d->pair[k].key, of.d->pair[k].val);
        jv pairs = of.kind == V_DICT ? JX_UNDEF : aq_jx_iter(x, of); /* or of pairs */
        for (uint32_t k = 0; !x->rc && of.kind != V_DICT && k < pairs.l->n; k++) {
            jv pair = aq_jx_iter(x, pairs.l->item[k]);
            if (!x->rc && pair.l->n != 2)
                aq_jx_fail(x, AQ_E_FORMAT, "dict and namespace want pairs");
            else if (!x->rc)
                aq_jx_put(x, ns, pair.l->item[0], pair.l->item[1]);
        }
    }
    for (uint32_t i = 0; i < raw->n_kw; i++)
        aq_jx_put(x, ns, aq_jx_kw_key(x, raw, i), raw->kw[i]);
    return ns;
}

static jv g_dict(ARGS)
{
    jv d = g_namespace(x, self, arg, raw);
    if (!x->rc)
        d.kind = V_DICT;
    return d;
}

static jv g_range(ARGS)
{
    int64_t v[3] = {0, 0, 1};
    jv out = aq_jx_list(x, V_LIST, 0);

    if (!raw->n_pos || raw->n_pos > 3)
        aq_jx_fail(x, AQ_E_FORMAT, "range takes 1 to 3 integers");
    for (uint32_t i = 0; !x->rc && i < raw->n_pos; i++) {
        if (raw->pos[i].kind != V_INT && raw->pos[i].kind != V_BOOL)
            aq_jx_fail(x, AQ_E_FORMAT, "range takes integers, not a %s", aq_jx_kind(raw->pos[i]));
        v[raw->n_pos == 1 ? 1 : i] = raw->pos[i].i;
    }
    if (!x->rc && !v[2])
        aq_jx_fail(x, AQ_E_FORMAT, "the step of range is 0");
    for (int64_t i = v[0]; !x->rc && (v[2] > 0 ? i < v[1] : i > v[1]);) {
        if (out.l->n >= AQ_TMPL_RANGE_MAX)
            aq_jx_fail(x, AQ_E_LIMIT, "a range has more than %u items", AQ_TMPL_RANGE_MAX);
        aq_jx_push(x, out, aq_jx_int(i));
        if (__builtin_add_overflow(i, v[2], &i))
            break;
    }
    return out;
}

static jv g_raise(ARGS)
{
    jv s = aq_jx_text(x, arg[0].kind == V_UNSET ? JX_UNDEF : arg[0]);
    if (!x->rc)
        aq_jx_fail(x, AQ_E_INVAL, "%.*s", (int)AQ_MIN(s.s->n, 499u), s.s->p);
    return JX_UNDEF;
}

static jv g_strftime_now(ARGS)
{
    const jx_str *f = str(x, arg[0], "strftime_now");
    char fmt[128], out[512];
    time_t now = (time_t)aq_wall_s();
    struct tm tm;

    if (!f)
        return JX_UNDEF;
    if (f->n >= sizeof fmt || !localtime_r(&now, &tm)) {
        aq_jx_fail(x, AQ_E_LIMIT, "strftime_now: the format has more than %zu bytes",
                   sizeof fmt - 1);
        return JX_UNDEF;
    }
    memcpy(fmt, f->p, f->n);
    fmt[f->n] = 0;
    locale_t c = newlocale(LC_ALL_MASK, "C",
                           (locale_t)0); /* English names whatever the user's language is */
    size_t n = c ? strftime_l(out, sizeof out, fmt, &tm, c) : 0;
    if (c)
        freelocale(c);
    char *copy = aq_jx_alloc(x, n + 1);
    return copy ? aq_jx_str(x, memcpy(copy, out, n), n) : JX_UNDEF;
}

static jv turn(jx *x, int kind, jv of)
{
    jx_turn *t = aq_jx_alloc(x, sizeof *t);
    if (!t)
        return JX_UNDEF;
    t->of = of;
    return (jv){.kind = (uint8_t)kind, .turn = t};
}

static jv g_cycler(ARGS)
{
    jv l = aq_jx_list(x, V_LIST, raw->n_pos);
    if (!raw->n_pos || raw->n_kw)
        aq_jx_fail(x, AQ_E_FORMAT, "cycler takes one value at least");
    for (uint32_t i = 0; !x->rc && i < raw->n_pos; i++)
        aq_jx_push(x, l, raw->pos[i]);
    return x->rc ? JX_UNDEF : turn(x, V_CYCLER, l);
}

static jv g_joiner(ARGS)
{
    return turn(x, V_JOINER, arg[0].kind == V_UNSET ? aq_jx_strz(x, ", ") : arg[0]);
}

static jv g_lipsum(ARGS)
{
    aq_jx_fail(x, AQ_E_UNSUPPORTED,
               "lipsum() makes a text by chance, and a prompt has to be the same each time");
    return JX_UNDEF;
}

static const jx_func globals[] = {
    {"namespace", "*", g_namespace}, {"raise_exception", "message", g_raise},
    {"range", "*", g_range},         {"strftime_now", "format", g_strftime_now},
    {"dict", "*", g_dict},           {"cycler", "*", g_cycler},
    {"joiner", "sep", g_joiner},     {"lipsum", "*", g_lipsum},
};

const jx_func *aq_jx_global(const char *name)
{
    for (size_t i = 0; i < AQ_LEN(globals); i++)
        if (!strcmp(globals[i].name, name))
            return &globals[i];
    return NULL;
}
