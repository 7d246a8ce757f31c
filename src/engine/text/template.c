/* SPDX-License-Identifier: Apache-2.0 */
/* The chat template from outside: parse once, render with JSON variables, tokenize what comes out. A template is immutable; every
 * rendering has an arena of its own, so any thread may render. Here is also decided which strings of the variables are the user's. */
#include "unicode.h"
#include "jinja-priv.h"

#include <locale.h>

/* Numbers are read and written with points, whatever the user's language is: for this thread, until the end of the block. */
typedef struct points {
    locale_t c, was;
} points;

static points points_begin(void)
{
    points p = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    p.was = p.c ? uselocale(p.c) : (locale_t)0;
    return p;
}

static void points_end(points *p)
{
    if (!p->c)
        return;
    uselocale(p->was);
    freelocale(p->c);
}
#define POINTS __attribute__((cleanup(points_end), unused)) points points_ = points_begin()

int aq_tmpl_new(const char *src, size_t n, aq_tmpl **ret, aq_err *err)
{
    POINTS;
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    jx_tok *tok;
    uint32_t n_tok;
    int rc;

    if (n > AQ_TMPL_BYTES_MAX)
        return aq_fail(err, AQ_E_LIMIT, "template: %zu bytes are more than the %u allowed", n,
                       AQ_TMPL_BYTES_MAX);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad;
        i += aq_uni_next(src + i, n - i, &cp, &bad);
        if (bad || (cp >= 0xD800 && cp < 0xE000) || !cp)
            return aq_fail(err, AQ_E_FORMAT, "template: byte %zu is not UTF-8 text", i - 1);
    }
    if (!(t = calloc(1, sizeof *t)) || !(t->arena = aq_arena_new(AQ_TMPL_PARSE_BYTES_MAX)))
        return aq_fail(err, AQ_E_NOMEM, "template: out of memory");
    if ((rc = aq_jx_lex(t->arena, src, n, &tok, &n_tok, err)) < 0 ||
        (rc = aq_jx_parse(t, tok, n_tok, err)) < 0)
        return rc;
    for (size_t i = 0; i < 4; i++)
        if (aq_jx_sym(t, (const char *const[]){"loop", "caller", "varargs", "kwargs"}[i]) ==
            UINT32_MAX)
            return aq_fail(err,
                           t->n_sym == AQ_TMPL_SYMS_MAX
                               ? AQ_E_LIMIT
                               : aq_jx_no_mem(t->arena, 4096, AQ_TMPL_PARSE_BYTES_MAX),
                           "template: more than %u variables, or not enough memory",
                           AQ_TMPL_SYMS_MAX);
    *ret = AQ_STEAL(t);
    return 0;
}

void aq_tmpl_free(aq_tmpl *t)
{
    if (!t)
        return;
    aq_arena_free(t->arena);
    free(t);
}

/* ---- variables ---- */

/* The index of a name the template knows, UINT32_MAX when it does not mention it. */
static uint32_t sym_of(const aq_tmpl *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_sym; i++)
        if (!strcmp(t->sym[i], name))
            return i;
    return UINT32_MAX;
}

/* True when a text has what control tokens are spelled with. */
static bool suspicious(const char *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strchr("<>[]|", s[i]) && s[i])
            return true;
        if (n - i >= 3 &&
            (!memcmp(s + i, "\xEF\xBD\x9C", 3) || !memcmp(s + i, "\xE2\x96\x81", 3))) /* ｜ ▁ */
            return true;
    }
    return false;
}

enum { MARK_NEVER, MARK_SUSPICIOUS, MARK_ALL };

static jv text(jx *x, const char *p, uint32_t n, int mark)
{
    jv v = aq_jx_str(x, p, n);

    if (x->rc || !n || mark == MARK_NEVER || (mark == MARK_SUSPICIOUS && !suspicious(p, n)))
        return v;
    jx_span *s = aq_jx_alloc(x, sizeof *s);
    if (s) {
        uint32_t leaf = mark == MARK_ALL ? aq_jx_leaf(x, p, n) : JX_NO_LEAF;
        *s = (jx_span){0, n, leaf, aq_jx_ends(x, p, n)};
        v.s->span = s;
        v.s->n_span = 1;
    }
    return v;
}

static bool is(const char *a, const char *b)
{
    return a && !strcmp(a, b);
}

/* JSON to a value. key: the member's name, NULL inside maps of names. names: the keys of this object are the user's words
 * (arguments of a call, properties of a schema). */
static jv value(jx *x, const aq_json *j, int mark, const char *key, bool names)
{
    jv v = JX_NONE;

    if (!aq_jx_enter(x))
        return v;
    switch (j->kind) {
    case AQ_JSON_FALSE:
    case AQ_JSON_TRUE:
        v = aq_jx_bool(j->kind == AQ_JSON_TRUE);
        break;
    case AQ_JSON_INT:
        v = aq_jx_int(j->i);
        break;
    case AQ_JSON_NUM: {
        bool whole = true;
        for (uint32_t i = 0; i < j->raw_n; i++)
            whole &= (j->raw[i] >= '0' && j->raw[i] <= '9') || (!i && j->raw[i] == '-');
        if (whole && j->raw_n) {
            v = aq_jx_str(x, j->raw, j->raw_n);
            v.kind = x->rc ? V_UNDEF : V_BIG;
        } else {
            v = aq_jx_float(j->num);
        }
        break;
    }
    case AQ_JSON_STR:
        v = text(x, j->str, j->n, mark == MARK_ALL && is(key, "role") ? MARK_SUSPICIOUS : mark);
        break;
    case AQ_JSON_ARR:
        v = aq_jx_list(x, V_LIST, j->n);
        for (const aq_json *c = j->item; c && j->n && !x->rc; c = c->next)
            aq_jx_push(x, v, value(x, c, mark, key, false));
        break;
    case AQ_JSON_OBJ:
        v = aq_jx_dict(x);
        for (const aq_json *c = j->n ? j->item : NULL; c && !x->rc; c = c->next) {
            bool is_map = is(c->key, "arguments") || is(c->key, "properties") ||
                          is(c->key, "$defs") || is(c->key, "parameters_by_name");
            bool sub = c->kind == AQ_JSON_OBJ && (names ? is(key, "arguments") : is_map);
            jv k = text(x, c->key, c->key_n,
                        mark != MARK_ALL ? mark
                        : names          ? MARK_ALL
                                         : MARK_SUSPICIOUS);
            aq_jx_put(x, v, k, value(x, c, mark, names ? NULL : c->key, sub));
        }
        break;
    default:
        break;
    }
    aq_jx_leave(x);
    return v;
}

static int mark_of(const char *var)
{
    static const char *const user[] = {"messages", "tools", "documents", "model_identity"};
    size_t n = strlen(var);

    for (size_t i = 0; i < AQ_LEN(user); i++)
        if (!strcmp(var, user[i]))
            return MARK_ALL;
    return n > 6 && !strcmp(var + n - 6, "_token") ? MARK_NEVER : MARK_SUSPICIOUS;
}

/* ---- rendering ---- */

void aq_rendered_clear(aq_rendered *r)
{
    aq_bytes_clear(&r->text);
    free(r->user);
    free(r->whole);
    *r = (aq_rendered){0};
}

/** deny: as jx_leaves.deny. The output stays in x's arena. */
static int run(jx *x, const aq_json *vars, uint32_t deny, jx_buf *out)
{
    const aq_tmpl *t = x->tmpl;
    jx_scope *top;

    x->line = 1;
    x->block = JX_UNDEF;
    x->sym_loop = sym_of(t, "loop");
    x->sym_caller = sym_of(t, "caller");
    x->sym_varargs = sym_of(t, "varargs");
    x->sym_kwargs = sym_of(t, "kwargs");
    x->leaves.deny = deny;
    if (!(top = aq_jx_alloc(x, sizeof *top)))
        return x->rc;
    x->scope = top;
    for (const aq_json *c = vars->n ? vars->item : NULL; c && !x->rc; c = c->next) {
        uint32_t s = sym_of(t, c->key);
        if (s != UINT32_MAX)
            aq_jx_set(x, s, value(x, c, mark_of(c->key), NULL, false));
    }
    aq_jx_exec(x, t->root, out);
    return x->rc;
}

#define KNOWN_MAX 64u /* words of the user's that are looked at again */

/** Words that the template compared with its own without effect count as any other: rendered again as if each matched nothing. */
static int drop_known(jx *x, const aq_json *vars, const jx_buf *out)
{
    for (uint32_t i = 0, n = 0; i < x->leaves.n && n < KNOWN_MAX; i++) {
        jx y = {.tmpl = x->tmpl, .steps_max = x->steps_max, .mem_max = x->mem_max};
        AQ_AUTO(aq_arena_free) aq_arena *arena = NULL;
        jx_buf again = {0};
        if (!x->leaves.leaf[i].known)
            continue;
        if (!(arena = aq_arena_new(x->mem_max)))
            return aq_fail(&x->err, AQ_E_NOMEM, "template: out of memory");
        y.arena = arena;
        n++;
        if (run(&y, vars, i + 1, &again) >= 0 && again.n == out->n &&
            (!out->n || !memcmp(again.p, out->p, out->n)))
            x->leaves.leaf[i].known = 0;
    }
    return 0;
}

static int render(jx *x, const aq_json *vars, bool whole, aq_rendered *ret)
{
    jx_buf out = {0};
    int rc = run(x, vars, 0, &out);

    if (rc < 0 || (whole && (rc = drop_known(x, vars, &out)) < 0))
        return rc;
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    if (aq_bytes_put(&r.text, out.p ? out.p : "", out.n) < 0 ||
        !(r.user = malloc((out.n_span + 1) * sizeof *r.user)) ||
        (whole && !(r.whole = malloc((out.n_span + 1) * sizeof *r.whole))))
        return aq_fail(&x->err, AQ_E_NOMEM, "template: out of memory for a prompt of %u bytes",
                       out.n);
    for (uint32_t i = 0; i < out.n_span; i++)
        r.user[i] = (aq_span){out.span[i].start, out.span[i].end};
    r.n_user = out.n_span;
    r.n_whole = whole ? aq_jx_whole(x, &out, r.whole) : 0;
    if (x->rc)
        return x->rc;
    *ret = r;
    r = (aq_rendered){0};
    return 0;
}

static int render_within(const aq_tmpl *t, const aq_json *vars, uint64_t steps_max, size_t mem_max,
                         bool whole, aq_rendered *ret, aq_err *err)
{
    POINTS;
    AQ_AUTO(aq_arena_free) aq_arena *arena = NULL;
    jx x = {.tmpl = t, .steps_max = steps_max, .mem_max = mem_max};

    if (!vars || vars->kind != AQ_JSON_OBJ)
        return aq_fail(err, AQ_E_INVAL, "template: the variables are no JSON object");
    if (!(arena = aq_arena_new(mem_max)))
        return aq_fail(err, AQ_E_NOMEM, "template: out of memory");
    x.arena = arena;
    int rc = render(&x, vars, whole, ret);
    if (rc < 0 && err)
        *err = x.err;
    return rc;
}

int aq_tmpl_render_within(const aq_tmpl *t, const aq_json *vars, uint64_t steps_max, size_t mem_max,
                          aq_rendered *ret, aq_err *err)
{
    return render_within(t, vars, steps_max, mem_max, false, ret, err);
}

int aq_tmpl_render_whole(const aq_tmpl *t, const aq_json *vars, aq_rendered *ret, aq_err *err)
{
    return render_within(t, vars, AQ_TMPL_STEPS_MAX, AQ_TMPL_MEM_BYTES_MAX, true, ret, err);
}

int aq_tmpl_render(const aq_tmpl *t, const aq_json *vars, aq_rendered *ret, aq_err *err)
{
    return aq_tmpl_render_within(t, vars, AQ_TMPL_STEPS_MAX, AQ_TMPL_MEM_BYTES_MAX, ret, err);
}

int aq_chat_encode(const aq_vocab *v, const aq_tmpl *t, const aq_json *vars, aq_toks *out,
                   aq_err *err)
{
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    int rc = aq_tmpl_render(t, vars, &r, err);

    return rc < 0 ? rc
                  : aq_vocab_encode_marked(v, (const char *)r.text.p, r.text.n, r.user, r.n_user,
                                           out, err);
}
