/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's helpers and its expressions: recursive descent with Jinja's precedences. Nesting is bounded, so the stack is. Which
 * child of a node holds what is said at the function that makes it. */
#include "jinja-parse.h"

#include <stdio.h>

static jx_node *unary(parser *p, bool filters);

/* ---- helpers ---- */

const jx_tok *aq_jp_cur(const parser *p)
{
    return &p->tok[p->at];
}

void aq_jp_next(parser *p)
{
    if (p->tok[p->at].kind != T_EOF)
        p->at++;
}

static const char *shown(const jx_tok *t, char buf[48])
{
    switch (t->kind) {
    case T_EOF:
        return "the end of the template";
    case T_DATA:
        return "text";
    case T_VAR_BEGIN:
        return "'{{'";
    case T_VAR_END:
        return "'}}'";
    case T_BLOCK_BEGIN:
        return "'{%'";
    case T_BLOCK_END:
        return "'%}'";
    case T_NAME:
        snprintf(buf, 48, "'%.40s'", t->p);
        return buf;
    case T_STR:
        return "a string";
    case T_INT:
    case T_FLOAT:
        return "a number";
    default:
        break;
    }
    static const char *const two[] = {"'**'", "'//'", "'=='", "'!='", "'<='", "'>='"};
    if (t->op >= TO_POW)
        return two[t->op - TO_POW];
    snprintf(buf, 48, "'%c'", t->op);
    return buf;
}

void *aq_jp_fail(parser *p, int code, const char *what)
{
    char buf[48];

    if (!p->rc)
        p->rc = code == AQ_E_FORMAT
                    ? aq_fail(p->err, code, "template line %u: %s, got %s", aq_jp_cur(p)->line,
                              what, shown(aq_jp_cur(p), buf))
                    : aq_fail(p->err, code, "template line %u: %s", aq_jp_cur(p)->line, what);
    return NULL;
}

void *aq_jp_alloc(parser *p, size_t n)
{
    void *m = aq_arena_alloc(p->tmpl->arena, n);

    return m ? m
             : aq_jp_fail(p, aq_jx_no_mem(p->tmpl->arena, n, AQ_TMPL_PARSE_BYTES_MAX),
                          "there is not enough memory for the template");
}

jx_node *aq_jp_node(parser *p, int kind)
{
    jx_node *n = aq_jp_alloc(p, sizeof *n);

    if (n) {
        n->kind = (uint8_t)kind;
        n->line = aq_jp_cur(p)->line;
        n->val = JX_NONE;
    }
    return n;
}

bool aq_jp_deeper(parser *p)
{
    if (p->rc)
        return false;
    if (++p->depth > AQ_TMPL_NODE_DEPTH_MAX) {
        aq_jp_fail(p, AQ_E_LIMIT, "the template is nested too deeply");
        return false;
    }
    return true;
}

bool aq_jp_is_op(const parser *p, int op)
{
    return aq_jp_cur(p)->kind == T_OP && aq_jp_cur(p)->op == op;
}

bool aq_jp_is_name(const parser *p, const char *name)
{
    return aq_jp_cur(p)->kind == T_NAME && !strcmp(aq_jp_cur(p)->p, name);
}

bool aq_jp_take_op(parser *p, int op)
{
    bool hit = aq_jp_is_op(p, op);

    if (hit)
        aq_jp_next(p);
    return hit;
}

bool aq_jp_take_name(parser *p, const char *name)
{
    bool hit = aq_jp_is_name(p, name);

    if (hit)
        aq_jp_next(p);
    return hit;
}

void aq_jp_need_op(parser *p, char op)
{
    char what[] = "expected 'x'";

    what[10] = op;
    if (!p->rc && !aq_jp_take_op(p, op))
        aq_jp_fail(p, AQ_E_FORMAT, what);
}

const char *aq_jp_need_name(parser *p)
{
    const char *s = aq_jp_cur(p)->p;

    if (p->rc || aq_jp_cur(p)->kind != T_NAME)
        return aq_jp_fail(p, AQ_E_FORMAT, "expected a name");
    aq_jp_next(p);
    return s;
}

/* Append to one of a node's child arrays, which double at powers of two. */
void aq_jp_add(parser *p, jx_node ***list, uint32_t *n, jx_node *child)
{
    if (p->rc || !child)
        return;
    if (!(*n & (*n - 1))) {
        jx_node **m = aq_jp_alloc(p, (*n ? *n * 2 : 1) * sizeof *m);
        if (!m)
            return;
        if (*n)
            memcpy(m, *list, *n * sizeof *m);
        *list = m;
    }
    (*list)[(*n)++] = child;
}

void aq_jp_add_kw(parser *p, jx_node *n, const char *name, jx_node *val)
{
    uint32_t k = n->n_kw;

    aq_jp_add(p, &n->kw, &n->n_kw, val);
    if (n->n_kw == k)
        return;
    if (!(k & (k - 1))) {
        const char **m = aq_jp_alloc(p, (k ? k * 2 : 1) * sizeof *m);
        if (!m)
            return;
        if (k)
            memcpy(m, n->kw_name, k * sizeof *m);
        n->kw_name = m;
    }
    n->kw_name[k] = name;
}

uint32_t aq_jp_sym(parser *p, const char *name)
{
    uint32_t s = name ? aq_jx_sym(p->tmpl, name) : 0;

    if (s == UINT32_MAX)
        aq_jp_fail(p,
                   p->tmpl->n_sym == AQ_TMPL_SYMS_MAX
                       ? AQ_E_LIMIT
                       : aq_jx_no_mem(p->tmpl->arena, 4096, AQ_TMPL_PARSE_BYTES_MAX),
                   "the template has too many variables, or there is not enough memory for it");
    return s;
}

/* ---- expressions ---- */

static jx_node *str_const(parser *p)
{
    jx_node *n = aq_jp_node(p, N_CONST);
    size_t len = 0;
    char *s;
    uint32_t k = p->at;

    for (; p->tok[k].kind == T_STR; k++)
        len += p->tok[k].n;
    jx_str *v = aq_jp_alloc(p, sizeof *v);
    if (!n || !v || !(s = aq_jp_alloc(p, len + 1)))
        return NULL;
    v->p = s;
    v->n = (uint32_t)len;
    for (; aq_jp_cur(p)->kind == T_STR; aq_jp_next(p)) {
        memcpy(s, aq_jp_cur(p)->p, aq_jp_cur(p)->n);
        s += aq_jp_cur(p)->n;
    }
    n->val = (jv){.kind = V_STR, .s = v};
    return n;
}

/* N_NAME, N_CONST, N_LIST item, N_DICT item = key, value, … */
static jx_node *primary(parser *p)
{
    const jx_tok *t = aq_jp_cur(p);
    jx_node *n;

    if (t->kind == T_NAME) {
        static const char *const word[] = {"true", "True", "false", "False", "none", "None"};
        for (uint32_t i = 0; i < 6; i++)
            if (!strcmp(t->p, word[i])) {
                if ((n = aq_jp_node(p, N_CONST)))
                    n->val = i < 4 ? aq_jx_bool(i < 2) : JX_NONE;
                aq_jp_next(p);
                return n;
            }
        if ((n = aq_jp_node(p, N_NAME))) {
            n->name = t->p;
            n->sym = aq_jp_sym(p, t->p);
            p->uses |= !strcmp(t->p, "varargs")  ? JX_USES_VARARGS
                       : !strcmp(t->p, "kwargs") ? JX_USES_KWARGS
                       : !strcmp(t->p, "caller") ? JX_USES_CALLER
                                                 : 0;
        }
        aq_jp_next(p);
        return n;
    }
    if (t->kind == T_STR)
        return str_const(p);
    if (t->kind == T_INT || t->kind == T_FLOAT) {
        if ((n = aq_jp_node(p, N_CONST)))
            n->val = t->kind == T_INT ? aq_jx_int(t->i) : aq_jx_float(t->f);
        aq_jp_next(p);
        return n;
    }
    if (aq_jp_take_op(p, '(')) {
        n = aq_jp_tuple(p, true);
        aq_jp_need_op(p, ')');
        return n;
    }
    bool dict = aq_jp_is_op(p, '{');
    if (!dict && !aq_jp_is_op(p, '['))
        return aq_jp_fail(p, AQ_E_FORMAT, "expected an expression");
    if (!(n = aq_jp_node(p, dict ? N_DICT : N_LIST)))
        return NULL;
    aq_jp_next(p);
    while (!p->rc && !aq_jp_is_op(p, dict ? '}' : ']')) {
        if (n->n)
            aq_jp_need_op(p, ',');
        if (aq_jp_is_op(p, dict ? '}' : ']'))
            break;
        aq_jp_add(p, &n->item, &n->n, aq_jp_expr(p));
        if (dict) {
            aq_jp_need_op(p, ':');
            aq_jp_add(p, &n->item, &n->n, aq_jp_expr(p));
        }
    }
    aq_jp_need_op(p, dict ? '}' : ']');
    return n;
}

/* The arguments of a call, filter or test: item positional, kw named, c and d a list and a dict of more. */
static void args(parser *p, jx_node *n)
{
    aq_jp_need_op(p, '(');
    for (bool first = true; !p->rc && !aq_jp_is_op(p, ')'); first = false) {
        if (!first)
            aq_jp_need_op(p, ',');
        if (aq_jp_is_op(p, ')'))
            break;
        bool twice = aq_jp_is_op(p, TO_POW);
        if (twice || aq_jp_is_op(p, '*')) {
            if (n->d || (n->c && !twice)) {
                aq_jp_fail(p, AQ_E_FORMAT, "expected no second * or **");
                return;
            }
            aq_jp_next(p);
            *(twice ? &n->d : &n->c) = aq_jp_expr(p);
            continue;
        }
        const jx_tok *t = &p->tok[p->at + 1];
        if (aq_jp_cur(p)->kind == T_NAME && t->kind == T_OP && t->op == '=') {
            const char *name = aq_jp_cur(p)->p;
            aq_jp_next(p);
            aq_jp_next(p);
            aq_jp_add_kw(p, n, name, aq_jp_expr(p));
        } else if (n->n_kw || n->c || n->d) {
            aq_jp_fail(p, AQ_E_FORMAT, "expected a named argument after another");
        } else {
            aq_jp_add(p, &n->item, &n->n, aq_jp_expr(p));
        }
    }
    aq_jp_need_op(p, ')');
}

/* N_CALL a = callee. */
static jx_node *call(parser *p, jx_node *callee)
{
    jx_node *n = aq_jp_node(p, N_CALL);

    if (n) {
        n->a = callee;
        args(p, n);
    }
    return n;
}

/* What stands in []: an expression, or N_SLICE a, b, c = from, to, step (NULL = absent). */
static jx_node *subscript(parser *p)
{
    jx_node *from = aq_jp_is_op(p, ':') ? NULL : aq_jp_expr(p), *n;

    if (!aq_jp_is_op(p, ':'))
        return from;
    if (!(n = aq_jp_node(p, N_SLICE)))
        return NULL;
    aq_jp_next(p);
    n->a = from;
    if (!aq_jp_is_op(p, ':') && !aq_jp_is_op(p, ']'))
        n->b = aq_jp_expr(p);
    if (aq_jp_take_op(p, ':') && !aq_jp_is_op(p, ']'))
        n->c = aq_jp_expr(p);
    return n;
}

/* N_ATTR a, name; N_ITEM a, b = key or N_SLICE. */
static jx_node *postfix(parser *p, jx_node *left)
{
    while (!p->rc) {
        jx_node *n;
        if (aq_jp_is_op(p, '.')) {
            aq_jp_next(p);
            if (aq_jp_cur(p)->kind == T_INT) {
                if (!(n = aq_jp_node(p, N_ITEM)))
                    return NULL;
                n->a = left;
                n->b = primary(p);
            } else {
                if (!(n = aq_jp_node(p, N_ATTR)))
                    return NULL;
                n->a = left;
                n->name = aq_jp_need_name(p);
            }
        } else if (aq_jp_is_op(p, '[')) {
            if (!(n = aq_jp_node(p, N_ITEM)))
                return NULL;
            aq_jp_next(p);
            n->a = left;
            n->b = subscript(p);
            aq_jp_need_op(p, ']');
        } else if (aq_jp_is_op(p, '(')) {
            n = call(p, left);
        } else {
            break;
        }
        left = n;
    }
    return left;
}

/* N_FILTER a = value (NULL: the text of a block); p stands behind the bar. */
jx_node *aq_jp_filter(parser *p, jx_node *value)
{
    jx_node *n = aq_jp_node(p, N_FILTER);

    if (n && (n->name = aq_jp_need_name(p))) {
        n->a = value;
        n->func = aq_jx_filter(n->name);
        if (aq_jp_is_op(p, '('))
            args(p, n);
    }
    return n;
}

/* N_TEST a = value; p stands behind `is`. */
static jx_node *test(parser *p, jx_node *value)
{
    bool negated = aq_jp_take_name(p, "not");
    jx_node *n = aq_jp_node(p, N_TEST);

    if (!n || !(n->name = aq_jp_need_name(p)))
        return NULL;
    n->a = value;
    n->func = aq_jx_test(n->name);
    const jx_tok *t = aq_jp_cur(p);
    if (aq_jp_is_op(p, '(')) {
        args(p, n);
    } else if (t->kind == T_STR || t->kind == T_INT || t->kind == T_FLOAT || aq_jp_is_op(p, '[') ||
               aq_jp_is_op(p, '{') ||
               (t->kind == T_NAME && !aq_jp_is_name(p, "else") && !aq_jp_is_name(p, "or") &&
                !aq_jp_is_name(p, "and"))) {
        if (aq_jp_is_name(p, "is"))
            return aq_jp_fail(p, AQ_E_FORMAT, "tests cannot be chained with is");
        aq_jp_add(p, &n->item, &n->n, postfix(p, primary(p)));
    }
    if (negated) {
        jx_node *m = aq_jp_node(p, N_NOT);
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

    if (!aq_jp_deeper(p))
        return NULL;
    if (aq_jp_is_op(p, '-') || aq_jp_is_op(p, '+')) {
        if ((n = aq_jp_node(p, aq_jp_is_op(p, '-') ? N_NEG : N_POS))) {
            aq_jp_next(p);
            n->a = unary(p, false);
        }
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (filters && !p->rc) {
        if (aq_jp_take_op(p, '|'))
            n = aq_jp_filter(p, n);
        else if (aq_jp_take_name(p, "is"))
            n = test(p, n);
        else if (aq_jp_is_op(p, '('))
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
} binary_ops[] = {
    {TO_POW, OP_POW, 0}, {'*', OP_MUL, 1}, {'/', OP_DIV, 1}, {TO_FLOORDIV, OP_FLOORDIV, 1},
    {'%', OP_MOD, 1},    {'+', OP_ADD, 3}, {'-', OP_SUB, 3}};

static jx_node *binary(parser *p, int level)
{
    jx_node *left = level ? binary(p, level - 1) : unary(p, true), *n;

    if (level == 2) {
        if (!aq_jp_is_op(p, '~') || !(n = aq_jp_node(p, N_CONCAT)))
            return left;
        aq_jp_add(p, &n->item, &n->n, left);
        while (!p->rc && aq_jp_take_op(p, '~'))
            aq_jp_add(p, &n->item, &n->n, binary(p, 1));
        return n;
    }
    while (!p->rc) {
        uint8_t op = 0;
        for (size_t i = 0; i < AQ_LEN(binary_ops); i++)
            if (binary_ops[i].level == level && aq_jp_is_op(p, binary_ops[i].tok))
                op = binary_ops[i].op;
        if (!op || !(n = aq_jp_node(p, N_BIN)))
            break;
        aq_jp_next(p);
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
    } tab[] = {{TO_EQ, OP_EQ}, {TO_NE, OP_NE}, {'<', OP_LT},
               {TO_LE, OP_LE}, {'>', OP_GT},   {TO_GE, OP_GE}};
    jx_node *left = binary(p, 3), *n = NULL;
    uint8_t ops[16];

    while (!p->rc) {
        uint8_t op = 0;
        for (size_t i = 0; i < AQ_LEN(tab); i++)
            if (aq_jp_is_op(p, tab[i].tok))
                op = tab[i].op;
        const jx_tok *t = &p->tok[p->at + (aq_jp_cur(p)->kind != T_EOF)];
        if (aq_jp_is_name(p, "in"))
            op = OP_IN;
        else if (aq_jp_is_name(p, "not") && t->kind == T_NAME && !strcmp(t->p, "in"))
            op = OP_NOTIN;
        if (!op)
            break;
        if (op == OP_NOTIN)
            aq_jp_next(p);
        if (!n && (n = aq_jp_node(p, N_COMPARE)))
            n->a = left;
        if (!n)
            return NULL;
        if (n->n == AQ_LEN(ops))
            return aq_jp_fail(p, AQ_E_LIMIT, "more than 16 comparisons in a row");
        aq_jp_next(p);
        ops[n->n] = op;
        aq_jp_add(p, &n->item, &n->n, binary(p, 3));
    }
    if (!n)
        return left;
    uint8_t *m = aq_jp_alloc(p, n->n + 1);
    if (m)
        n->ops = memcpy(m, ops, n->n);
    return n;
}

static jx_node *not_(parser *p)
{
    if (!aq_jp_is_name(p, "not"))
        return compare(p);
    jx_node *n = aq_jp_deeper(p) ? aq_jp_node(p, N_NOT) : NULL;
    if (n) {
        aq_jp_next(p);
        n->a = not_(p);
        p->depth--;
    }
    return n;
}

/* N_AND, N_OR a, b. */
jx_node *aq_jp_logic(parser *p, int kind)
{
    jx_node *left = kind == N_OR ? aq_jp_logic(p, N_AND) : not_(p), *n;

    while (!p->rc && aq_jp_is_name(p, kind == N_OR ? "or" : "and") && (n = aq_jp_node(p, kind))) {
        aq_jp_next(p);
        n->a = left;
        n->b = kind == N_OR ? aq_jp_logic(p, N_AND) : not_(p);
        left = n;
    }
    return left;
}

/* N_COND a = test, b = then, c = else or NULL. */
jx_node *aq_jp_expr(parser *p)
{
    jx_node *left, *n;

    if (!aq_jp_deeper(p))
        return NULL;
    left = aq_jp_logic(p, N_OR);
    while (!p->rc && aq_jp_is_name(p, "if") && (n = aq_jp_node(p, N_COND))) {
        aq_jp_next(p);
        n->b = left;
        n->a = aq_jp_logic(p, N_OR);
        if (aq_jp_take_name(p, "else"))
            n->c = aq_jp_expr(p);
        left = n;
    }
    p->depth--;
    return left;
}

/* One expression, or N_TUPLE item when there are commas; parens: () is the empty tuple. */
jx_node *aq_jp_tuple(parser *p, bool parens)
{
    jx_node *first = NULL, *n = NULL;

    for (uint32_t i = 0; !p->rc; i++) {
        uint8_t k = aq_jp_cur(p)->kind;
        if (k == T_VAR_END || k == T_BLOCK_END || aq_jp_is_op(p, ')'))
            break;
        jx_node *e = aq_jp_expr(p);
        if (!i)
            first = e;
        if (aq_jp_is_op(p, ',') && !n && (n = aq_jp_node(p, N_TUPLE)))
            aq_jp_add(p, &n->item, &n->n, first);
        if (n && i)
            aq_jp_add(p, &n->item, &n->n, e);
        if (!aq_jp_take_op(p, ','))
            break;
    }
    if (!n && !first && !p->rc)
        return parens ? aq_jp_node(p, N_TUPLE)
                      : aq_jp_fail(p, AQ_E_FORMAT, "expected an expression");
    return n ? n : first;
}
