/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of nodes. One rendering, one thread; errors are sticky in the context. What the children of a node are is said in
 * jinja-parse.c. Scopes: loops, macros and `with` open one; a variable set in a scope does not leave it. */
#include "jinja-priv.h"

bool aq_jx_enter(jx *x)
{
    if (x->rc)
        return false;
    x->steps++;
    aq_jx_work(x, 0);
    if (x->rc)
        return false;
    if (x->depth >= AQ_TMPL_DEPTH_MAX) {
        aq_jx_fail(x, AQ_E_LIMIT,
                   "rendering nests more than %u deep; does the template call itself for ever?",
                   AQ_TMPL_DEPTH_MAX);
        return false;
    }
    x->depth++;
    return true;
}

/* ---- variables ---- */

static jx_scope *scope_new(jx *x, jx_scope *up)
{
    jx_scope *s = aq_jx_alloc(x, sizeof *s);

    if (s)
        s->up = up;
    return s;
}

void aq_jx_set(jx *x, uint32_t sym, jv val)
{
    jx_scope *s = x->scope;

    if (x->rc)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->var[i].sym == sym) {
            s->var[i].val = val;
            return;
        }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 4;
        jx_var *m = aq_jx_alloc(x, cap * sizeof *m);
        if (!m)
            return;
        if (s->n)
            memcpy(m, s->var, s->n * sizeof *m);
        s->var = m;
        s->cap = cap;
    }
    s->var[s->n++] = (jx_var){sym, val};
}

static jv lookup(jx *x, const jx_node *n)
{
    for (const jx_scope *s = x->scope; s; s = s->up)
        for (uint32_t i = 0; i < s->n; i++)
            if (s->var[i].sym == n->sym)
                return s->var[i].val;
    const jx_func *g = aq_jx_global(n->name);
    if (g)
        return (jv){.kind = V_FUNC, .func = g};
    return (jv){.kind = V_UNDEF, .aux = V_UNSET, .node = n};
}

/* Assign to N_NAME, N_NSREF or N_TUPLE of them. */
static void assign(jx *x, const jx_node *t, jv val)
{
    if (x->rc)
        return;
    if (t->kind == N_NAME) {
        aq_jx_set(x, t->sym, val);
    } else if (t->kind == N_NSREF) {
        jv ns = lookup(x, t);
        if (ns.kind != V_NS)
            aq_jx_fail(x, AQ_E_FORMAT, "cannot set '%.60s' on what is no namespace", t->name);
        else
            aq_jx_put(x, ns, aq_jx_strz(x, t->name), val);
    } else {
        if (val.kind == V_UNDEF)
            aq_jx_undefined(x, val);
        jv l = aq_jx_iter(x, val);
        if (x->rc)
            return;
        if (l.l->n != t->n) {
            aq_jx_fail(x, AQ_E_FORMAT, "%u values cannot be given to %u names", l.l->n, t->n);
            return;
        }
        for (uint32_t i = 0; i < t->n; i++)
            assign(x, t->item[i], l.l->item[i]);
    }
}

/* ---- calls ---- */

/* `*list` behind the positional arguments. */
static void add_list(jx *x, jv more, jx_args *a)
{
    jv l = aq_jx_iter(x, more);
    jv *pos = x->rc ? NULL : aq_jx_alloc(x, ((size_t)a->n_pos + l.l->n + 1) * sizeof *pos);
    if (!pos)
        return;
    if (a->n_pos)
        memcpy(pos, a->pos, a->n_pos * sizeof *pos);
    if (l.l->n)
        memcpy(pos + a->n_pos, l.l->item, l.l->n * sizeof *pos);
    a->pos = pos;
    a->n_pos += l.l->n;
}

/* `**dict` behind the named ones. */
static void add_dict(jx *x, jv more, jx_args *a)
{
    if (more.kind != V_DICT) {
        aq_jx_fail(x, AQ_E_FORMAT, "behind ** there is a %s, no dict", aq_jx_kind(more));
        return;
    }
    size_t n = (size_t)a->n_kw + more.d->n + 1;
    const char **name = aq_jx_alloc(x, n * sizeof *name);
    jv *kw = aq_jx_alloc(x, n * sizeof *kw), *keys = aq_jx_alloc(x, n * sizeof *keys);
    for (uint32_t i = 0; !x->rc && i < a->n_kw; i++) {
        name[i] = a->kw_name[i];
        kw[i] = a->kw[i];
        keys[i] = aq_jx_strz(x, name[i]);
    }
    for (uint32_t i = 0; !x->rc && i < more.d->n; i++) {
        jv key = more.d->pair[i].key;
        char *p = key.kind == V_STR ? aq_jx_alloc(x, (size_t)key.s->n + 1) : NULL;
        if (p)
            memcpy(p, key.s->p, key.s->n);
        else
            aq_jx_fail(x, AQ_E_FORMAT, "the keys behind ** have to be strings");
        for (uint32_t k = 0; p && k < a->n_kw; k++)
            if (!strcmp(name[k], p))
                aq_jx_fail(x, AQ_E_FORMAT, "the argument '%.60s' is given twice", p);
        if (x->rc)
            return;
        name[a->n_kw + i] = p;
        kw[a->n_kw + i] = more.d->pair[i].val;
        keys[a->n_kw + i] = key;
    }
    if (x->rc)
        return;
    a->kw_name = name;
    a->kw = kw;
    a->kw_key = keys;
    a->n_kw += more.d->n;
}

/* Evaluate positional and named arguments of a call, filter or test. */
static bool eval_args(jx *x, const jx_node *n, jx_args *ret)
{
    jv *pos = n->n ? aq_jx_alloc(x, n->n * sizeof *pos) : NULL,
       *kw = n->n_kw ? aq_jx_alloc(x, n->n_kw * sizeof *kw) : NULL;

    if (x->rc)
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        pos[i] = aq_jx_eval(x, n->item[i]);
    for (uint32_t i = 0; i < n->n_kw; i++)
        kw[i] = aq_jx_eval(x, n->kw[i]);
    *ret = (jx_args){.pos = pos, .n_pos = n->n, .n_kw = n->n_kw, .kw_name = n->kw_name, .kw = kw};
    if (!x->rc && n->c)
        add_list(x, aq_jx_eval(x, n->c), ret);
    if (!x->rc && n->d)
        add_dict(x, aq_jx_eval(x, n->d), ret);
    return !x->rc;
}

jv aq_jx_call_func(jx *x, const jx_func *f, jv self, const jx_args *a)
{
    jv arg[JX_ARGS_MAX];
    uint32_t n = 0;

    if (x->rc)
        return JX_UNDEF;
    if (f->params[0] == '*')
        return f->fn(x, self, NULL, a);
    for (uint32_t i = 0; i < JX_ARGS_MAX; i++)
        arg[i] = (jv){.kind = V_UNSET};
    for (const char *p = f->params; *p; n++) { /* "name name" */
        size_t len = strcspn(p, " ");
        if (n < a->n_pos)
            arg[n] = a->pos[n];
        for (uint32_t k = 0; k < a->n_kw; k++)
            if (strlen(a->kw_name[k]) == len && !memcmp(a->kw_name[k], p, len))
                arg[n] = a->kw[k];
        p += len + (p[len] == ' ');
    }
    if (a->n_pos > n) {
        aq_jx_fail(x, AQ_E_FORMAT, "%s takes at most %u arguments", f->name, n);
        return JX_UNDEF;
    }
    for (uint32_t k = 0; k < a->n_kw; k++) {
        size_t len = strlen(a->kw_name[k]);
        bool known = false;
        for (const char *p = f->params; *p && !known;
             p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' '))
            known = strcspn(p, " ") == len && !memcmp(p, a->kw_name[k], len);
        if (!known) {
            aq_jx_fail(x, AQ_E_FORMAT, "%s has no argument '%.60s'", f->name, a->kw_name[k]);
            return JX_UNDEF;
        }
    }
    return f->fn(x, self, arg, a);
}

static void bind_macro(jx *x, const jx_node *n, const jx_args *a)
{
    uint32_t first_default = n->n - n->n_kw;

    for (uint32_t i = 0; !x->rc && i < n->n; i++) {
        jv v = {.kind = V_UNSET};
        if (i < a->n_pos)
            v = a->pos[i];
        for (uint32_t k = 0; v.kind == V_UNSET && k < a->n_kw; k++)
            if (!strcmp(a->kw_name[k], n->item[i]->name))
                v = a->kw[k];
        if (v.kind == V_UNSET)
            v = i >= first_default ? aq_jx_eval(x, n->kw[i - first_default])
                                   : (jv){.kind = V_UNDEF, .aux = V_UNSET, .node = n->item[i]};
        aq_jx_set(x, n->item[i]->sym, v);
    }
    jv more = aq_jx_list(x, V_TUPLE, 0), named = aq_jx_dict(x);
    for (uint32_t i = n->n; i < a->n_pos; i++)
        aq_jx_push(x, more, a->pos[i]);
    for (uint32_t k = 0; !x->rc && k < a->n_kw; k++) {
        bool is_param = false;
        for (uint32_t i = a->n_pos; i < n->n; i++)
            is_param |= !strcmp(a->kw_name[k], n->item[i]->name);
        if (!is_param && n->flag & JX_USES_CALLER && !strcmp(a->kw_name[k], "caller"))
            aq_jx_set(x, x->sym_caller, a->kw[k]);
        else if (!is_param && n->flag & JX_USES_KWARGS)
            aq_jx_put(x, named, aq_jx_kw_key(x, a, k), a->kw[k]);
        else if (!is_param)
            aq_jx_fail(x, AQ_E_FORMAT, "the macro '%.60s' has no argument '%.60s'",
                       n->name ? n->name : "caller", a->kw_name[k]);
    }
    if (a->n_pos > n->n && !(n->flag & JX_USES_VARARGS))
        aq_jx_fail(x, AQ_E_FORMAT, "the macro '%.60s' takes at most %u arguments",
                   n->name ? n->name : "caller", n->n);
    aq_jx_set(x, x->sym_varargs, more);
    aq_jx_set(x, x->sym_kwargs, named);
}

static jv call_macro(jx *x, const jx_macro *m, const jx_args *a)
{
    jx_scope *saved = x->scope;
    jx_buf *out = aq_jx_alloc(x, sizeof *out);
    uint32_t line = x->line;

    if (!out || !(x->scope = scope_new(x, m->scope))) {
        x->scope = saved;
        return JX_UNDEF;
    }
    bind_macro(x, m->node, a);
    aq_jx_exec(x, m->node->b, out);
    x->scope = saved;
    x->jump = 0;
    x->line = x->rc ? x->line : line;
    return aq_jx_take(x, out);
}

static void run_loop(jx *x, const jx_node *n, jv what, uint32_t depth, jx_buf *out);

jv aq_jx_call(jx *x, jv callee, const jx_args *a)
{
    if (!aq_jx_enter(x))
        return JX_UNDEF;
    jv v = JX_UNDEF;
    switch (callee.kind) {
    case V_FUNC:
        v = aq_jx_call_func(x, callee.func, JX_NONE, a);
        break;
    case V_METHOD:
        v = aq_jx_call_func(x, callee.method->func, callee.method->self, a);
        break;
    case V_MACRO:
        v = call_macro(x, callee.macro, a);
        break;
    case V_LOOP: {
        jx_buf *out = aq_jx_alloc(x, sizeof *out);
        if (!callee.loop->node->flag)
            aq_jx_fail(x, AQ_E_FORMAT, "the loop is not recursive");
        else if (a->n_pos != 1)
            aq_jx_fail(x, AQ_E_FORMAT, "loop() takes one argument");
        if (x->rc || !out)
            break;
        jx_scope *saved = x->scope;
        x->scope = callee.loop->scope;
        run_loop(x, callee.loop->node, a->pos[0], callee.loop->depth + 1, out);
        x->scope = saved;
        v = aq_jx_take(x, out);
        break;
    }
    case V_JOINER:
        v = callee.turn->at ? callee.turn->of : aq_jx_strz(x, "");
        callee.turn->at = 1;
        break;
    case V_UNDEF:
        aq_jx_undefined(x, callee);
        break;
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "a %s cannot be called", aq_jx_kind(callee));
        break;
    }
    aq_jx_leave(x);
    return v;
}

/* ---- expressions ---- */

static jv eval_filter(jx *x, const jx_node *n)
{
    jx_args a;
    jv v = n->a ? aq_jx_eval(x, n->a) : x->block;

    if (!x->rc && !n->func)
        aq_jx_no_filter(x, n->kind == N_FILTER ? "filter" : "test", n->name);
    if (!eval_args(x, n, &a))
        return JX_UNDEF;
    a.self = v;
    return aq_jx_call_func(x, n->func, v, &a);
}

static jv eval_item(jx *x, const jx_node *n)
{
    jv obj = aq_jx_eval(x, n->a);
    const jx_node *k = n->b;

    if (k->kind != N_SLICE)
        return aq_jx_item(x, obj, aq_jx_eval(x, k), n);
    jv unset = {.kind = V_UNSET}, from = k->a ? aq_jx_eval(x, k->a) : unset,
       to = k->b ? aq_jx_eval(x, k->b) : unset, step = k->c ? aq_jx_eval(x, k->c) : unset;
    if (x->rc)
        return JX_UNDEF;
    return obj.kind == V_UNDEF ? aq_jx_undefined(x, obj) : aq_jx_slice(x, obj, from, to, step);
}

static jv eval_list(jx *x, const jx_node *n)
{
    jv out;

    if (n->kind == N_DICT) {
        out = aq_jx_dict(x);
        for (uint32_t i = 0; !x->rc && i < n->n; i += 2) {
            jv k = aq_jx_eval(x, n->item[i]);
            aq_jx_put(x, out, k, aq_jx_eval(x, n->item[i + 1]));
        }
        return out;
    }
    if (n->kind == N_CONCAT) {
        out = aq_jx_text(x, aq_jx_eval(x, n->item[0]));
        for (uint32_t i = 1; !x->rc && i < n->n; i++) {
            jv t = aq_jx_text(x, aq_jx_eval(x, n->item[i]));
            if (!x->rc)
                out = aq_jx_concat(x, out, t);
        }
        return out;
    }
    out = aq_jx_list(x, n->kind == N_LIST ? V_LIST : V_TUPLE, n->n);
    for (uint32_t i = 0; !x->rc && i < n->n; i++)
        aq_jx_push(x, out, aq_jx_eval(x, n->item[i]));
    return out;
}

static jv eval_compare(jx *x, const jx_node *n)
{
    jv left = aq_jx_eval(x, n->a);
    bool yes = true;

    for (uint32_t i = 0; yes && !x->rc && i < n->n; i++) {
        jv right = aq_jx_eval(x, n->item[i]);
        yes = !x->rc && aq_jx_compare(x, n->ops[i], left, right);
        left = right;
    }
    return aq_jx_bool(yes);
}

static jv eval_sign(jx *x, const jx_node *n)
{
    jv v = aq_jx_eval(x, n->a);

    if (x->rc)
        return JX_UNDEF;
    if (v.kind == V_UNDEF)
        return aq_jx_undefined(x, v);
    if (!aq_jx_is_num(v)) {
        aq_jx_fail(x, AQ_E_FORMAT, "a %s has no sign", aq_jx_kind(v));
        return JX_UNDEF;
    }
    if (n->kind == N_POS)
        return v.kind == V_BOOL ? aq_jx_int(v.i) : v;
    return v.kind == V_FLOAT ? aq_jx_float(-v.f)
                             : aq_jx_binary(x, OP_SUB, aq_jx_int(0), aq_jx_int(v.i));
}

static jv eval_call(jx *x, const jx_node *n)
{
    jv f = aq_jx_eval(x, n->a);
    jx_args a;

    if (!eval_args(x, n, &a))
        return JX_UNDEF;
    x->line = n->line;
    return aq_jx_call(x, f, &a);
}

jv aq_jx_eval(jx *x, const jx_node *n)
{
    jv v = JX_UNDEF;

    if (!aq_jx_enter(x))
        return v;
    x->line = n->line;
    switch (n->kind) {
    case N_CONST:
        v = n->val;
        break;
    case N_NAME:
        v = lookup(x, n);
        break;
    case N_ATTR:
        v = aq_jx_eval(x, n->a);
        v = aq_jx_attr(x, v, n->name, n);
        break;
    case N_ITEM:
        v = eval_item(x, n);
        break;
    case N_CALL:
        v = eval_call(x, n);
        break;
    case N_FILTER:
    case N_TEST:
        v = eval_filter(x, n);
        break;
    case N_NOT:
        v = aq_jx_bool(!aq_jx_true(aq_jx_eval(x, n->a)));
        break;
    case N_NEG:
    case N_POS:
        v = eval_sign(x, n);
        break;
    case N_AND:
        v = aq_jx_eval(x, n->a);
        v = aq_jx_true(v) ? aq_jx_eval(x, n->b) : v;
        break;
    case N_OR:
        v = aq_jx_eval(x, n->a);
        v = aq_jx_true(v) ? v : aq_jx_eval(x, n->b);
        break;
    case N_BIN: {
        jv a = aq_jx_eval(x, n->a), b = aq_jx_eval(x, n->b);
        x->line = n->line;
        v = aq_jx_binary(x, n->op, a, b);
        break;
    }
    case N_COMPARE:
        v = eval_compare(x, n);
        break;
    case N_COND:
        if (aq_jx_true(aq_jx_eval(x, n->a)))
            v = aq_jx_eval(x, n->b);
        else if (n->c)
            v = aq_jx_eval(x, n->c);
        break;
    case N_LIST:
    case N_TUPLE:
    case N_DICT:
    case N_CONCAT:
        v = eval_list(x, n);
        break;
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "no expression");
        break;
    }
    aq_jx_leave(x);
    return x->rc ? JX_UNDEF : v;
}

/* ---- statements ---- */

static void run_loop(jx *x, const jx_node *n, jv what, uint32_t depth, jx_buf *out)
{
    jx_scope *saved = x->scope, *s;
    bool whole = false; /* a body was run to its end */
    jv items = aq_jx_iter(x, what);

    if (x->rc || !(s = scope_new(x, saved)))
        return;
    if (n->c) { /* those that meet the condition */
        jv some = aq_jx_list(x, V_LIST, 0);
        x->scope = s;
        for (uint32_t i = 0; !x->rc && i < items.l->n; i++) {
            s->n = 0;
            assign(x, n->a, items.l->item[i]);
            if (aq_jx_true(aq_jx_eval(x, n->c)))
                aq_jx_push(x, some, items.l->item[i]);
        }
        x->scope = saved;
        items = some;
    }
    jx_loop *loop = aq_jx_alloc(x, sizeof *loop);
    if (!loop || x->rc)
        return;
    *loop = (jx_loop){
        .list = items.l, .depth = depth, .node = n, .scope = saved, .changed = {.kind = V_UNSET}};
    for (uint32_t count = items.l->n; !x->rc && loop->at < count; loop->at++) {
        if (!aq_jx_enter(x))
            break;
        s->n = 0;
        x->scope = s;
        aq_jx_set(x, x->sym_loop, (jv){.kind = V_LOOP, .loop = loop});
        assign(x, n->a, items.l->item[loop->at]);
        aq_jx_exec(x, n->item[0], out);
        x->scope = saved;
        aq_jx_leave(x);
        whole |= !x->jump;
        if (x->jump == N_BREAK) {
            x->jump = 0;
            break;
        }
        x->jump = 0;
    }
    if (!whole && n->d) /* as Jinja has it: also when each body was left early */
        aq_jx_exec(x, n->d, out);
}

static jv make_macro(jx *x, const jx_node *n)
{
    jx_macro *m = aq_jx_alloc(x, sizeof *m);

    if (!m)
        return JX_UNDEF;
    *m = (jx_macro){n, x->scope};
    return (jv){.kind = V_MACRO, .macro = m};
}

static void call_block(jx *x, const jx_node *n, jx_buf *out)
{
    const jx_node *c = n->a;
    jv f = aq_jx_eval(x, c->a);
    jx_args a;

    if (!eval_args(x, c, &a))
        return;
    jv *kw = aq_jx_alloc(x, (a.n_kw + 1) * sizeof *kw);
    const char **name = aq_jx_alloc(x, (a.n_kw + 1) * sizeof *name);
    if (!kw || !name)
        return;
    for (uint32_t i = 0; i < a.n_kw; i++) {
        kw[i] = a.kw[i];
        name[i] = a.kw_name[i];
    }
    name[a.n_kw] = "caller";
    kw[a.n_kw++] = make_macro(x, n);
    a.kw = kw;
    a.kw_name = name;
    aq_jx_print(x, out, aq_jx_call(x, f, &a));
}

/* The text that a block makes, through its filters. */
static jv block_text(jx *x, const jx_node *body, const jx_node *filters)
{
    jx_buf *b = aq_jx_alloc(x, sizeof *b);

    if (!b)
        return JX_UNDEF;
    aq_jx_exec(x, body, b);
    jv v = aq_jx_take(x, b), saved = x->block;
    if (filters) {
        x->block = v;
        v = aq_jx_eval(x, filters);
        x->block = saved;
    }
    return v;
}

static void with_block(jx *x, const jx_node *n, jx_buf *out)
{
    jx_scope *saved = x->scope, *s = scope_new(x, saved);

    for (uint32_t i = 0; s && !x->rc && i < n->n; i += 2) { /* values are seen from outside */
        jv v = aq_jx_eval(x, n->item[i + 1]);
        x->scope = s;
        assign(x, n->item[i], v);
        x->scope = saved;
    }
    if (!s)
        return;
    x->scope = s;
    aq_jx_exec(x, n->b, out);
    x->scope = saved;
}

void aq_jx_exec(jx *x, const jx_node *n, jx_buf *out)
{
    if (!aq_jx_enter(x))
        return;
    x->line = n->line;
    switch (n->kind) {
    case N_BLOCK:
        for (uint32_t i = 0; !x->rc && !x->jump && i < n->n; i++)
            aq_jx_exec(x, n->item[i], out);
        break;
    case N_DATA:
        aq_jx_putstr(x, out, n->val.s);
        break;
    case N_OUTPUT:
        aq_jx_print(x, out, aq_jx_eval(x, n->a));
        break;
    case N_IF:
        while (n && n->kind == N_IF && !x->rc) {
            const jx_node *hit = aq_jx_true(aq_jx_eval(x, n->a)) ? n->b : n->c;
            if (hit && (hit == n->b || hit->kind != N_IF)) {
                aq_jx_exec(x, hit, out);
                break;
            }
            n = hit;
        }
        break;
    case N_FOR: {
        jv what = aq_jx_eval(x, n->b);
        run_loop(x, n, what, 1, out);
        break;
    }
    case N_SET: {
        jv v = aq_jx_eval(x, n->b);
        assign(x, n->a, v);
        break;
    }
    case N_SETBLOCK: {
        jv v = block_text(x, n->b, n->c);
        assign(x, n->a, v);
        break;
    }
    case N_MACRO: {
        jv m = make_macro(x, n);
        aq_jx_set(x, n->sym, m);
        break;
    }
    case N_CALLBLOCK:
        call_block(x, n, out);
        break;
    case N_FILTERBLOCK: {
        jv v = block_text(x, n->b, n->c);
        aq_jx_print(x, out, v);
        break;
    }
    case N_WITH:
        with_block(x, n, out);
        break;
    case N_BREAK:
    case N_CONTINUE:
        x->jump = n->kind;
        break;
    default:
        aq_jx_fail(x, AQ_E_FORMAT, "no statement");
        break;
    }
    aq_jx_leave(x);
}
