/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to nodes: recursive descent with Jinja's grammar and precedences. Nesting is bounded, so the stack is.
 * Which child of a node holds what is said at the functions that make it. */
#include "jinja-priv.h"

#include <stdio.h>

typedef struct parser {
    aq_tmpl *tmpl;
    const jx_tok *tok; /* ends with T_EOF */
    uint32_t at, depth, loops;
    aq_err *err;
    int rc; /* sticky */
} parser;

static jx_node *expr(parser *p);
static jx_node *tuple(parser *p, bool parens);
static jx_node *unary(parser *p, bool filters);
static jx_node *body(parser *p, const char *const *ends, const char *opener, uint32_t line);

/* ---- helpers ---- */

static const jx_tok *cur(const parser *p)
{
    return &p->tok[p->at];
}

static void next(parser *p)
{
    if (p->tok[p->at].kind != T_EOF)
        p->at++;
}

static const char *shown(const jx_tok *t, char buf[48])
{
    switch (t->kind) {
    case T_EOF: return "the end of the template";
    case T_DATA: return "text";
    case T_VAR_BEGIN: return "'{{'";
    case T_VAR_END: return "'}}'";
    case T_BLOCK_BEGIN: return "'{%'";
    case T_BLOCK_END: return "'%}'";
    case T_NAME: snprintf(buf, 48, "'%.40s'", t->p); return buf;
    case T_STR: return "a string";
    case T_INT:
    case T_FLOAT: return "a number";
    default: break;
    }
    static const char *const two[] = {"'**'", "'//'", "'=='", "'!='", "'<='", "'>='"};
    if (t->op >= TO_POW)
        return two[t->op - TO_POW];
    snprintf(buf, 48, "'%c'", t->op);
    return buf;
}

static void *fail(parser *p, int code, const char *what)
{
    char buf[48];

    if (!p->rc)
        p->rc = code == AQ_E_FORMAT
                    ? aq_fail(p->err, code, "template line %u: %s, got %s", cur(p)->line, what, shown(cur(p), buf))
                    : aq_fail(p->err, code, "template line %u: %s", cur(p)->line, what);
    return NULL;
}

static void *alloc(parser *p, size_t n)
{
    void *m = aq_arena_alloc(p->tmpl->arena, n);

    return m ? m : fail(p, AQ_E_LIMIT, "the template needs more memory than is allowed");
}

static jx_node *node(parser *p, int kind)
{
    jx_node *n = alloc(p, sizeof *n);

    if (n) {
        n->kind = (uint8_t)kind;
        n->line = cur(p)->line;
        n->val = JX_NONE;
    }
    return n;
}

static bool deeper(parser *p)
{
    if (p->rc)
        return false;
    if (++p->depth > AQ_TMPL_NODE_DEPTH_MAX) {
        fail(p, AQ_E_LIMIT, "the template is nested too deeply");
        return false;
    }
    return true;
}

static bool is_op(const parser *p, int op)
{
    return cur(p)->kind == T_OP && cur(p)->op == op;
}

static bool is_name(const parser *p, const char *name)
{
    return cur(p)->kind == T_NAME && !strcmp(cur(p)->p, name);
}

static bool take_op(parser *p, int op)
{
    bool hit = is_op(p, op);

    if (hit)
        next(p);
    return hit;
}

static bool take_name(parser *p, const char *name)
{
    bool hit = is_name(p, name);

    if (hit)
        next(p);
    return hit;
}

static void need_op(parser *p, char op)
{
    char what[] = "expected 'x'";

    what[10] = op;
    if (!p->rc && !take_op(p, op))
        fail(p, AQ_E_FORMAT, what);
}

static const char *need_name(parser *p)
{
    const char *s = cur(p)->p;

    if (p->rc || cur(p)->kind != T_NAME)
        return fail(p, AQ_E_FORMAT, "expected a name");
    next(p);
    return s;
}

static void need_end(parser *p)
{
    if (!p->rc && cur(p)->kind != T_BLOCK_END)
        fail(p, AQ_E_FORMAT, "expected the end of the statement");
    else
        next(p);
}

/* Append to one of a node's child arrays, which double at powers of two. */
static void add(parser *p, jx_node ***list, uint32_t *n, jx_node *child)
{
    if (p->rc || !child)
        return;
    if (!(*n & (*n - 1))) {
        jx_node **m = alloc(p, (*n ? *n * 2 : 1) * sizeof *m);
        if (!m)
            return;
        if (*n)
            memcpy(m, *list, *n * sizeof *m);
        *list = m;
    }
    (*list)[(*n)++] = child;
}

static void add_kw(parser *p, jx_node *n, const char *name, jx_node *val)
{
    uint32_t k = n->n_kw;

    add(p, &n->kw, &n->n_kw, val);
    if (n->n_kw == k)
        return;
    if (!(k & (k - 1))) {
        const char **m = alloc(p, (k ? k * 2 : 1) * sizeof *m);
        if (!m)
            return;
        if (k)
            memcpy(m, n->kw_name, k * sizeof *m);
        n->kw_name = m;
    }
    n->kw_name[k] = name;
}

static uint32_t sym(parser *p, const char *name)
{
    uint32_t s = name ? aq_jx_sym(p->tmpl, name) : 0;

    if (s == UINT32_MAX)
        fail(p, AQ_E_LIMIT, "the template has too many variables or needs too much memory");
    return s;
}

/* ---- expressions ---- */

static jx_node *str_const(parser *p)
{
    jx_node *n = node(p, N_CONST);
    size_t len = 0;
    char *s;
    uint32_t k = p->at;

    for (; p->tok[k].kind == T_STR; k++)
        len += p->tok[k].n;
    jx_str *v = alloc(p, sizeof *v);
    if (!n || !v || !(s = alloc(p, len + 1)))
        return NULL;
    v->p = s;
    v->n = (uint32_t)len;
    for (; cur(p)->kind == T_STR; next(p)) {
        memcpy(s, cur(p)->p, cur(p)->n);
        s += cur(p)->n;
    }
    n->val = (jv){.kind = V_STR, .s = v};
    return n;
}

/* N_NAME, N_CONST, N_LIST item, N_DICT item = key, value, … */
static jx_node *primary(parser *p)
{
    const jx_tok *t = cur(p);
    jx_node *n;

    if (t->kind == T_NAME) {
        static const char *const word[] = {"true", "True", "false", "False", "none", "None"};
        for (uint32_t i = 0; i < 6; i++)
            if (!strcmp(t->p, word[i])) {
                if ((n = node(p, N_CONST)))
                    n->val = i < 4 ? aq_jx_bool(i < 2) : JX_NONE;
                next(p);
                return n;
            }
        if ((n = node(p, N_NAME))) {
            n->name = t->p;
            n->sym = sym(p, t->p);
        }
        next(p);
        return n;
    }
    if (t->kind == T_STR)
        return str_const(p);
    if (t->kind == T_INT || t->kind == T_FLOAT) {
        if ((n = node(p, N_CONST)))
            n->val = t->kind == T_INT ? aq_jx_int(t->i) : aq_jx_float(t->f);
        next(p);
        return n;
    }
    if (take_op(p, '(')) {
        n = tuple(p, true);
        need_op(p, ')');
        return n;
    }
    bool dict = is_op(p, '{');
    if (!dict && !is_op(p, '['))
        return fail(p, AQ_E_FORMAT, "expected an expression");
    if (!(n = node(p, dict ? N_DICT : N_LIST)))
        return NULL;
    next(p);
    while (!p->rc && !is_op(p, dict ? '}' : ']')) {
        if (n->n)
            need_op(p, ',');
        if (is_op(p, dict ? '}' : ']'))
            break;
        add(p, &n->item, &n->n, expr(p));
        if (dict) {
            need_op(p, ':');
            add(p, &n->item, &n->n, expr(p));
        }
    }
    need_op(p, dict ? '}' : ']');
    return n;
}

/* The arguments of a call, filter or test: item positional, kw named. */
static void args(parser *p, jx_node *n)
{
    need_op(p, '(');
    for (bool first = true; !p->rc && !is_op(p, ')'); first = false) {
        if (!first)
            need_op(p, ',');
        if (is_op(p, ')'))
            break;
        if (is_op(p, '*') || is_op(p, TO_POW)) {
            fail(p, AQ_E_UNSUPPORTED, "arguments with * or ** are not supported");
            return;
        }
        const jx_tok *t = &p->tok[p->at + 1];
        if (cur(p)->kind == T_NAME && t->kind == T_OP && t->op == '=') {
            const char *name = cur(p)->p;
            next(p);
            next(p);
            add_kw(p, n, name, expr(p));
        } else if (n->n_kw) {
            fail(p, AQ_E_FORMAT, "expected a named argument after another");
        } else {
            add(p, &n->item, &n->n, expr(p));
        }
    }
    need_op(p, ')');
}

/* N_CALL a = callee. */
static jx_node *call(parser *p, jx_node *callee)
{
    jx_node *n = node(p, N_CALL);

    if (n) {
        n->a = callee;
        args(p, n);
    }
    return n;
}

/* What stands in []: an expression, or N_SLICE a, b, c = from, to, step (NULL = absent). */
static jx_node *subscript(parser *p)
{
    jx_node *from = is_op(p, ':') ? NULL : expr(p), *n;

    if (!is_op(p, ':'))
        return from;
    if (!(n = node(p, N_SLICE)))
        return NULL;
    next(p);
    n->a = from;
    if (!is_op(p, ':') && !is_op(p, ']'))
        n->b = expr(p);
    if (take_op(p, ':') && !is_op(p, ']'))
        n->c = expr(p);
    return n;
}

/* N_ATTR a, name; N_ITEM a, b = key or N_SLICE. */
static jx_node *postfix(parser *p, jx_node *left)
{
    while (!p->rc) {
        jx_node *n;
        if (is_op(p, '.')) {
            next(p);
            if (cur(p)->kind == T_INT) {
                if (!(n = node(p, N_ITEM)))
                    return NULL;
                n->a = left;
                n->b = primary(p);
            } else {
                if (!(n = node(p, N_ATTR)))
                    return NULL;
                n->a = left;
                n->name = need_name(p);
            }
        } else if (is_op(p, '[')) {
            if (!(n = node(p, N_ITEM)))
                return NULL;
            next(p);
            n->a = left;
            n->b = subscript(p);
            need_op(p, ']');
        } else if (is_op(p, '(')) {
            n = call(p, left);
        } else {
            break;
        }
        left = n;
    }
    return left;
}

/* N_FILTER a = value (NULL: the text of a block); p stands behind the bar. */
static jx_node *filter(parser *p, jx_node *value)
{
    jx_node *n = node(p, N_FILTER);

    if (n && (n->name = need_name(p))) {
        n->a = value;
        n->func = aq_jx_filter(n->name);
        if (is_op(p, '('))
            args(p, n);
    }
    return n;
}

/* N_TEST a = value; p stands behind `is`. */
static jx_node *test(parser *p, jx_node *value)
{
    bool negated = take_name(p, "not");
    jx_node *n = node(p, N_TEST);

    if (!n || !(n->name = need_name(p)))
        return NULL;
    n->a = value;
    n->func = aq_jx_test(n->name);
    const jx_tok *t = cur(p);
    if (is_op(p, '(')) {
        args(p, n);
    } else if (t->kind == T_STR || t->kind == T_INT || t->kind == T_FLOAT || is_op(p, '[') || is_op(p, '{') ||
               (t->kind == T_NAME && !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and"))) {
        if (is_name(p, "is"))
            return fail(p, AQ_E_FORMAT, "tests cannot be chained with is");
        add(p, &n->item, &n->n, postfix(p, primary(p)));
    }
    if (negated) {
        jx_node *m = node(p, N_NOT);
        if (m)
            m->a = n;
        return m;
    }
    return n;
}

/* N_NEG, N_POS a. */
static jx_node *unary(parser *p, bool filters)
{
    jx_node *n = NULL;

    if (!deeper(p))
        return NULL;
    if (is_op(p, '-') || is_op(p, '+')) {
        if ((n = node(p, is_op(p, '-') ? N_NEG : N_POS))) {
            next(p);
            n->a = unary(p, false);
        }
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (filters && !p->rc) {
        if (take_op(p, '|'))
            n = filter(p, n);
        else if (take_name(p, "is"))
            n = test(p, n);
        else if (is_op(p, '('))
            n = call(p, n);
        else
            break;
    }
    p->depth--;
    return n;
}

/* N_BIN op, a, b: left to right on the levels of the table, tightest first; ~ lies between as N_CONCAT item. */
static const struct {
    uint8_t tok, op, level;
} binary_ops[] = {{TO_POW, OP_POW, 0}, {'*', OP_MUL, 1}, {'/', OP_DIV, 1}, {TO_FLOORDIV, OP_FLOORDIV, 1}, {'%', OP_MOD, 1},
                  {'+', OP_ADD, 3},    {'-', OP_SUB, 3}};

static jx_node *binary(parser *p, int level)
{
    jx_node *left = level ? binary(p, level - 1) : unary(p, true), *n;

    if (level == 2) {
        if (!is_op(p, '~') || !(n = node(p, N_CONCAT)))
            return left;
        add(p, &n->item, &n->n, left);
        while (!p->rc && take_op(p, '~'))
            add(p, &n->item, &n->n, binary(p, 1));
        return n;
    }
    while (!p->rc) {
        uint8_t op = 0;
        for (size_t i = 0; i < AQ_LEN(binary_ops); i++)
            if (binary_ops[i].level == level && is_op(p, binary_ops[i].tok))
                op = binary_ops[i].op;
        if (!op || !(n = node(p, N_BIN)))
            break;
        next(p);
        n->op = op;
        n->a = left;
        n->b = level ? binary(p, level - 1) : unary(p, true);
        left = n;
    }
    return left;
}

/* N_COMPARE a, item = operands, ops. */
static jx_node *compare(parser *p)
{
    static const struct {
        uint8_t tok, op;
    } tab[] = {{TO_EQ, OP_EQ}, {TO_NE, OP_NE}, {'<', OP_LT}, {TO_LE, OP_LE}, {'>', OP_GT}, {TO_GE, OP_GE}};
    jx_node *left = binary(p, 3), *n = NULL;
    uint8_t ops[16];

    while (!p->rc) {
        uint8_t op = 0;
        for (size_t i = 0; i < AQ_LEN(tab); i++)
            if (is_op(p, tab[i].tok))
                op = tab[i].op;
        const jx_tok *t = &p->tok[p->at + (cur(p)->kind != T_EOF)];
        if (is_name(p, "in"))
            op = OP_IN;
        else if (is_name(p, "not") && t->kind == T_NAME && !strcmp(t->p, "in"))
            op = OP_NOTIN;
        if (!op)
            break;
        if (op == OP_NOTIN)
            next(p);
        if (!n && (n = node(p, N_COMPARE)))
            n->a = left;
        if (!n)
            return NULL;
        if (n->n == AQ_LEN(ops))
            return fail(p, AQ_E_LIMIT, "more than 16 comparisons in a row");
        next(p);
        ops[n->n] = op;
        add(p, &n->item, &n->n, binary(p, 3));
    }
    if (!n)
        return left;
    uint8_t *m = alloc(p, n->n + 1);
    if (m)
        n->ops = memcpy(m, ops, n->n);
    return n;
}

static jx_node *not_(parser *p)
{
    if (!is_name(p, "not"))
        return compare(p);
    jx_node *n = deeper(p) ? node(p, N_NOT) : NULL;
    if (n) {
        next(p);
        n->a = not_(p);
        p->depth--;
    }
    return n;
}

/* N_AND, N_OR a, b. */
static jx_node *logic(parser *p, int kind)
{
    jx_node *left = kind == N_OR ? logic(p, N_AND) : not_(p), *n;

    while (!p->rc && is_name(p, kind == N_OR ? "or" : "and") && (n = node(p, kind))) {
        next(p);
        n->a = left;
        n->b = kind == N_OR ? logic(p, N_AND) : not_(p);
        left = n;
    }
    return left;
}

/* N_COND a = test, b = then, c = else or NULL. */
static jx_node *expr(parser *p)
{
    jx_node *left, *n;

    if (!deeper(p))
        return NULL;
    left = logic(p, N_OR);
    while (!p->rc && is_name(p, "if") && (n = node(p, N_COND))) {
        next(p);
        n->b = left;
        n->a = logic(p, N_OR);
        if (take_name(p, "else"))
            n->c = expr(p);
        left = n;
    }
    p->depth--;
    return left;
}

/* One expression, or N_TUPLE item when there are commas; parens: () is the empty tuple. */
static jx_node *tuple(parser *p, bool parens)
{
    jx_node *first = NULL, *n = NULL;

    for (uint32_t i = 0; !p->rc; i++) {
        uint8_t k = cur(p)->kind;
        if (k == T_VAR_END || k == T_BLOCK_END || is_op(p, ')'))
            break;
        jx_node *e = expr(p);
        if (!i)
            first = e;
        if (is_op(p, ',') && !n && (n = node(p, N_TUPLE)))
            add(p, &n->item, &n->n, first);
        if (n && i)
            add(p, &n->item, &n->n, e);
        if (!take_op(p, ','))
            break;
    }
    if (!n && !first && !p->rc)
        return parens ? node(p, N_TUPLE) : fail(p, AQ_E_FORMAT, "expected an expression");
    return n ? n : first;
}

/* ---- statements ---- */

/* N_NAME, N_NSREF sym, name (set only), or N_TUPLE item of names. */
static jx_node *target(parser *p, bool with_ns)
{
    jx_node *first = NULL, *n = NULL;

    for (uint32_t i = 0; !p->rc; i++) {
        if (i && (is_name(p, "in") || is_op(p, '=') || cur(p)->kind == T_BLOCK_END))
            break;
        jx_node *e;
        if (take_op(p, '(')) {
            e = deeper(p) ? target(p, with_ns) : NULL;
            p->depth--;
            need_op(p, ')');
        } else {
            const char *name = need_name(p);
            if (!name || !(e = node(p, N_NAME)))
                return NULL;
            e->name = name;
            e->sym = sym(p, name);
            if (with_ns && take_op(p, '.')) {
                e->kind = N_NSREF;
                e->name = need_name(p);
            }
        }
        if (!i)
            first = e;
        if (is_op(p, ',') && !n && (n = node(p, N_TUPLE)))
            add(p, &n->item, &n->n, first);
        if (n && i)
            add(p, &n->item, &n->n, e);
        if (!take_op(p, ','))
            break;
    }
    return n ? n : first;
}

/* N_IF a = test, b = then, c = else or the next N_IF. */
static jx_node *if_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    jx_node *n = node(p, N_IF), *tail = n;

    while (!p->rc && tail) {
        tail->a = tuple(p, false);
        need_end(p);
        tail->b = body(p, ends, "if", line);
        if (take_name(p, "elif")) {
            tail = tail->c = node(p, N_IF);
            continue;
        }
        if (take_name(p, "else")) {
            need_end(p);
            tail->c = body(p, last, "if", line);
        }
        next(p);
        break;
    }
    return n;
}

/* N_FOR a = target, b = what, c = condition or NULL, d = else or NULL, item[0] = body, flag = recursive. */
static jx_node *for_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    jx_node *n = node(p, N_FOR);

    if (!n)
        return NULL;
    n->a = target(p, false);
    if (!p->rc && !take_name(p, "in"))
        return fail(p, AQ_E_FORMAT, "expected 'in'");
    /* the condition is not part of the expression here */
    uint32_t depth = p->depth;
    n->b = logic(p, N_OR);
    if (is_op(p, ',')) {
        jx_node *t = node(p, N_TUPLE);
        if (t)
            add(p, &t->item, &t->n, n->b);
        while (t && !p->rc && take_op(p, ','))
            if (cur(p)->kind != T_BLOCK_END && !is_name(p, "if"))
                add(p, &t->item, &t->n, logic(p, N_OR));
        n->b = t;
    }
    p->depth = depth;
    if (take_name(p, "if"))
        n->c = expr(p);
    n->flag = take_name(p, "recursive");
    need_end(p);
    p->loops++;
    add(p, &n->item, &n->n, body(p, ends, "for", line));
    p->loops--;
    if (take_name(p, "else")) {
        need_end(p);
        n->d = body(p, last, "for", line);
    }
    next(p);
    return n;
}

/* N_SET a = target, b = value; N_SETBLOCK a = target, b = body, c = filters or NULL. */
static jx_node *set_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endset", NULL};
    jx_node *n = node(p, N_SET);

    if (!n)
        return NULL;
    n->a = target(p, true);
    if (take_op(p, '=')) {
        n->b = tuple(p, false);
        return n;
    }
    n->kind = N_SETBLOCK;
    while (!p->rc && take_op(p, '|'))
        n->c = filter(p, n->c);
    need_end(p);
    n->b = body(p, ends, "set", line);
    next(p);
    return n;
}

/* The parameters of N_MACRO and N_CALLBLOCK: item = N_NAME, kw = defaults of the last ones. */
static void params(parser *p, jx_node *n)
{
    need_op(p, '(');
    while (!p->rc && !is_op(p, ')')) {
        if (n->n)
            need_op(p, ',');
        if (is_op(p, ')'))
            break;
        jx_node *m = node(p, N_NAME);
        const char *name = need_name(p);
        if (!m || !name)
            return;
        m->name = name;
        m->sym = sym(p, name);
        add(p, &n->item, &n->n, m);
        if (take_op(p, '='))
            add_kw(p, n, name, expr(p));
        else if (n->n_kw)
            fail(p, AQ_E_FORMAT, "expected a default after a parameter that has one");
    }
    need_op(p, ')');
}

/* N_MACRO sym, parameters, b = body; N_CALLBLOCK the same and a = the call. */
static jx_node *macro_(parser *p, bool is_call, uint32_t line)
{
    static const char *const ends[2][2] = {{"endmacro", NULL}, {"endcall", NULL}};
    jx_node *n = node(p, is_call ? N_CALLBLOCK : N_MACRO);
    uint32_t loops = p->loops;

    if (!n)
        return NULL;
    if (!is_call) {
        n->name = need_name(p);
        n->sym = sym(p, n->name);
        params(p, n);
    } else {
        if (is_op(p, '('))
            params(p, n);
        n->a = expr(p);
        if (!p->rc && n->a->kind != N_CALL)
            return fail(p, AQ_E_FORMAT, "expected a call");
    }
    need_end(p);
    p->loops = 0;
    n->b = body(p, ends[is_call], is_call ? "call" : "macro", line);
    p->loops = loops;
    next(p);
    return n;
}

/* N_WITH item = name, value, …, b = body. */
static jx_node *with_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endwith", NULL};
    jx_node *n = node(p, N_WITH);

    while (n && !p->rc && cur(p)->kind != T_BLOCK_END) {
        if (n->n)
            need_op(p, ',');
        add(p, &n->item, &n->n, target(p, false));
        need_op(p, '=');
        add(p, &n->item, &n->n, expr(p));
    }
    need_end(p);
    if (n)
        n->b = body(p, ends, "with", line);
    next(p);
    return n;
}

static jx_node *statement(parser *p)
{
    static const char *const gen[] = {"endgeneration", NULL}, *const flt[] = {"endfilter", NULL};
    const char *word = need_name(p);
    uint32_t line = cur(p)->line;
    jx_node *n;

    if (!word)
        return NULL;
    if (!strcmp(word, "if"))
        n = if_(p, line);
    else if (!strcmp(word, "for"))
        n = for_(p, line);
    else if (!strcmp(word, "set"))
        n = set_(p, line);
    else if (!strcmp(word, "macro") || !strcmp(word, "call"))
        n = macro_(p, word[0] == 'c', line);
    else if (!strcmp(word, "with"))
        n = with_(p, line);
    else if (!strcmp(word, "break") || !strcmp(word, "continue")) {
        n = node(p, word[0] == 'b' ? N_BREAK : N_CONTINUE);
        if (!p->loops)
            return fail(p, AQ_E_FORMAT, "expected a loop around break or continue");
    } else if (!strcmp(word, "generation")) { /* training only: its content counts, it does nothing */
        if ((n = node(p, N_WITH))) {
            need_end(p);
            n->b = body(p, gen, word, line);
            next(p);
        }
    } else if (!strcmp(word, "filter")) {
        if ((n = node(p, N_FILTERBLOCK))) {
            n->c = filter(p, NULL);
            while (!p->rc && take_op(p, '|'))
                n->c = filter(p, n->c);
            need_end(p);
            n->b = body(p, flt, word, line);
            next(p);
        }
    } else {
        static const char *const no[] = {"include", "import", "from", "extends", "block", "do", "autoescape", "trans"};
        char what[80];
        for (size_t i = 0; i < AQ_LEN(no); i++)
            if (!strcmp(word, no[i])) {
                snprintf(what, sizeof what, "the statement '%s' is not supported", word);
                return fail(p, AQ_E_UNSUPPORTED, what);
            }
        p->at--;
        return fail(p, AQ_E_FORMAT, "expected a statement");
    }
    return n;
}

/* N_BLOCK item: statements up to `{% END`, one of ends, at which the parser then stands (NULL: to the end of the template). */
static jx_node *body(parser *p, const char *const *ends, const char *opener, uint32_t line)
{
    jx_node *n = deeper(p) ? node(p, N_BLOCK) : NULL, *m;

    while (n && !p->rc) {
        const jx_tok *t = cur(p);
        if (t->kind == T_EOF) {
            if (ends && !p->rc)
                p->rc = aq_fail(p->err, AQ_E_FORMAT, "template line %u: '%s' has no end", line, opener);
            break;
        }
        if (t->kind == T_DATA) {
            jx_str *s = alloc(p, sizeof *s);
            if (!s || !(m = node(p, N_DATA)))
                return NULL;
            s->p = t->p;
            s->n = t->n;
            m->val = (jv){.kind = V_STR, .s = s};
            add(p, &n->item, &n->n, m);
            next(p);
        } else if (t->kind == T_VAR_BEGIN) {
            next(p);
            if (!(m = node(p, N_OUTPUT)))
                return NULL;
            m->a = tuple(p, false);
            if (!p->rc && cur(p)->kind != T_VAR_END)
                return fail(p, AQ_E_FORMAT, "expected '}}'");
            next(p);
            add(p, &n->item, &n->n, m);
        } else {
            next(p);
            for (const char *const *e = ends; e && *e; e++)
                if (is_name(p, *e)) {
                    p->depth--;
                    return n;
                }
            add(p, &n->item, &n->n, statement(p));
            need_end(p);
        }
    }
    p->depth--;
    return p->rc ? NULL : n;
}

int aq_jx_parse(aq_tmpl *t, const jx_tok *tok, uint32_t n, aq_err *err)
{
    parser p = {.tmpl = t, .tok = tok, .err = err};

    (void)n;
    t->root = body(&p, NULL, "", 0);
    return p.rc;
}

uint32_t aq_jx_sym(aq_tmpl *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_sym; i++)
        if (!strcmp(t->sym[i], name))
            return i;
    if (t->n_sym == AQ_TMPL_SYMS_MAX)
        return UINT32_MAX;
    if (t->n_sym == t->cap_sym) {
        uint32_t cap = t->cap_sym ? t->cap_sym * 2 : 64;
        const char **m = aq_arena_alloc(t->arena, cap * sizeof *m);
        if (!m)
            return UINT32_MAX;
        if (t->n_sym)
            memcpy(m, t->sym, t->n_sym * sizeof *m);
        t->sym = m;
        t->cap_sym = cap;
    }
    if (!(t->sym[t->n_sym] = aq_arena_strndup(t->arena, name, strlen(name))))
        return UINT32_MAX;
    return t->n_sym++;
}
