/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's statements. Which child of a node holds what is said at the function that makes it. */
#include "jinja-parse.h"

#include <stdio.h>

static jx_node *body(parser *p, const char *const *ends, const char *opener, uint32_t line);

static void need_end(parser *p)
{
    if (!p->rc && aq_jp_cur(p)->kind != T_BLOCK_END)
        aq_jp_fail(p, AQ_E_FORMAT, "expected the end of the statement");
    else
        aq_jp_next(p);
}

/* ---- statements ---- */

/* N_NAME, N_NSREF sym, name (set only), or N_TUPLE item of names. */
static jx_node *target(parser *p, bool with_ns)
{
    jx_node *first = NULL, *n = NULL;

    for (uint32_t i = 0; !p->rc; i++) {
        if (i &&
            (aq_jp_is_name(p, "in") || aq_jp_is_op(p, '=') || aq_jp_cur(p)->kind == T_BLOCK_END))
            break;
        jx_node *e;
        if (aq_jp_take_op(p, '(')) {
            e = aq_jp_deeper(p) ? target(p, with_ns) : NULL;
            p->depth--;
            aq_jp_need_op(p, ')');
        } else {
            const char *name = aq_jp_need_name(p);
            if (!name || !(e = aq_jp_node(p, N_NAME)))
                return NULL;
            e->name = name;
            e->sym = aq_jp_sym(p, name);
            if (with_ns && aq_jp_take_op(p, '.')) {
                e->kind = N_NSREF;
                e->name = aq_jp_need_name(p);
            }
        }
        if (!i)
            first = e;
        if (aq_jp_is_op(p, ',') && !n && (n = aq_jp_node(p, N_TUPLE)))
            aq_jp_add(p, &n->item, &n->n, first);
        if (n && i)
            aq_jp_add(p, &n->item, &n->n, e);
        if (!aq_jp_take_op(p, ','))
            break;
    }
    return n ? n : first;
}

/* N_IF a = test, b = then, c = else or the next N_IF. */
static jx_node *if_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    jx_node *n = aq_jp_node(p, N_IF), *tail = n;

    while (!p->rc && tail) {
        tail->a = aq_jp_tuple(p, false);
        need_end(p);
        tail->b = body(p, ends, "if", line);
        if (aq_jp_take_name(p, "elif")) {
            tail = tail->c = aq_jp_node(p, N_IF);
            continue;
        }
        if (aq_jp_take_name(p, "else")) {
            need_end(p);
            tail->c = body(p, last, "if", line);
        }
        aq_jp_next(p);
        break;
    }
    return n;
}

/* N_FOR a = target, b = what, c = condition or NULL, d = else or NULL, item[0] = body, flag = recursive. */
static jx_node *for_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    jx_node *n = aq_jp_node(p, N_FOR);

    if (!n)
        return NULL;
    n->a = target(p, false);
    if (!p->rc && !aq_jp_take_name(p, "in"))
        return aq_jp_fail(p, AQ_E_FORMAT, "expected 'in'");
    /* the condition is not part of the expression here */
    uint32_t depth = p->depth;
    n->b = aq_jp_logic(p, N_OR);
    if (aq_jp_is_op(p, ',')) {
        jx_node *t = aq_jp_node(p, N_TUPLE);
        if (t)
            aq_jp_add(p, &t->item, &t->n, n->b);
        while (t && !p->rc && aq_jp_take_op(p, ','))
            if (aq_jp_cur(p)->kind != T_BLOCK_END && !aq_jp_is_name(p, "if"))
                aq_jp_add(p, &t->item, &t->n, aq_jp_logic(p, N_OR));
        n->b = t;
    }
    p->depth = depth;
    if (aq_jp_take_name(p, "if"))
        n->c = aq_jp_expr(p);
    n->flag = aq_jp_take_name(p, "recursive");
    need_end(p);
    p->loops++;
    aq_jp_add(p, &n->item, &n->n, body(p, ends, "for", line));
    p->loops--;
    if (aq_jp_take_name(p, "else")) {
        need_end(p);
        n->d = body(p, last, "for", line);
    }
    aq_jp_next(p);
    return n;
}

/* N_SET a = target, b = value; N_SETBLOCK a = target, b = body, c = filters or NULL. */
static jx_node *set_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endset", NULL};
    jx_node *n = aq_jp_node(p, N_SET);

    if (!n)
        return NULL;
    n->a = target(p, true);
    if (aq_jp_take_op(p, '=')) {
        n->b = aq_jp_tuple(p, false);
        return n;
    }
    n->kind = N_SETBLOCK;
    while (!p->rc && aq_jp_take_op(p, '|'))
        n->c = aq_jp_filter(p, n->c);
    need_end(p);
    n->b = body(p, ends, "set", line);
    aq_jp_next(p);
    return n;
}

/* The parameters of N_MACRO and N_CALLBLOCK: item = N_NAME, kw = defaults of the last ones. */
static void params(parser *p, jx_node *n)
{
    aq_jp_need_op(p, '(');
    while (!p->rc && !aq_jp_is_op(p, ')')) {
        if (n->n)
            aq_jp_need_op(p, ',');
        if (aq_jp_is_op(p, ')'))
            break;
        jx_node *m = aq_jp_node(p, N_NAME);
        const char *name = aq_jp_need_name(p);
        if (!m || !name)
            return;
        m->name = name;
        m->sym = aq_jp_sym(p, name);
        for (uint32_t i = 0; i < n->n; i++)
            if (n->item[i]->sym == m->sym)
                aq_jp_fail(p, AQ_E_FORMAT, "expected each parameter once");
        aq_jp_add(p, &n->item, &n->n, m);
        if (aq_jp_take_op(p, '='))
            aq_jp_add_kw(p, n, name, aq_jp_expr(p));
        else if (n->n_kw)
            aq_jp_fail(p, AQ_E_FORMAT, "expected a default after a parameter that has one");
    }
    aq_jp_need_op(p, ')');
}

/* N_MACRO sym, parameters, b = body; N_CALLBLOCK the same and a = the call. */
static jx_node *macro_(parser *p, bool is_call, uint32_t line)
{
    static const char *const ends[2][2] = {{"endmacro", NULL}, {"endcall", NULL}};
    jx_node *n = aq_jp_node(p, is_call ? N_CALLBLOCK : N_MACRO);
    uint32_t loops = p->loops;
    uint8_t uses = p->uses;

    if (!n)
        return NULL;
    if (!is_call) {
        n->name = aq_jp_need_name(p);
        n->sym = aq_jp_sym(p, n->name);
        params(p, n);
    } else {
        if (aq_jp_is_op(p, '('))
            params(p, n);
        n->a = aq_jp_expr(p);
        if (!p->rc && n->a->kind != N_CALL)
            return aq_jp_fail(p, AQ_E_FORMAT, "expected a call");
    }
    need_end(p);
    p->loops = 0;
    p->uses = 0;
    n->b = body(p, ends[is_call], is_call ? "call" : "macro", line);
    n->flag = p->uses;
    p->uses |= uses;
    p->loops = loops;
    aq_jp_next(p);
    return n;
}

/* N_WITH item = name, value, …, b = body. */
static jx_node *with_(parser *p, uint32_t line)
{
    static const char *const ends[] = {"endwith", NULL};
    jx_node *n = aq_jp_node(p, N_WITH);

    while (n && !p->rc && aq_jp_cur(p)->kind != T_BLOCK_END) {
        if (n->n)
            aq_jp_need_op(p, ',');
        aq_jp_add(p, &n->item, &n->n, target(p, false));
        aq_jp_need_op(p, '=');
        aq_jp_add(p, &n->item, &n->n, aq_jp_expr(p));
    }
    need_end(p);
    if (n)
        n->b = body(p, ends, "with", line);
    aq_jp_next(p);
    return n;
}

static jx_node *statement(parser *p)
{
    static const char *const gen[] = {"endgeneration", NULL}, *const flt[] = {"endfilter", NULL};
    const char *word = aq_jp_need_name(p);
    uint32_t line = aq_jp_cur(p)->line;
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
        n = aq_jp_node(p, word[0] == 'b' ? N_BREAK : N_CONTINUE);
        if (!p->loops)
            return aq_jp_fail(p, AQ_E_FORMAT, "expected a loop around break or continue");
    } else if (!strcmp(word,
                       "generation")) { /* training only: its content counts, it does nothing */
        if ((n = aq_jp_node(p, N_WITH))) {
            need_end(p);
            n->b = body(p, gen, word, line);
            aq_jp_next(p);
        }
    } else if (!strcmp(word, "filter")) {
        if ((n = aq_jp_node(p, N_FILTERBLOCK))) {
            n->c = aq_jp_filter(p, NULL);
            while (!p->rc && aq_jp_take_op(p, '|'))
                n->c = aq_jp_filter(p, n->c);
            need_end(p);
            n->b = body(p, flt, word, line);
            aq_jp_next(p);
        }
    } else {
        static const char *const no[] = {"include", "import", "from",       "extends",
                                         "block",   "do",     "autoescape", "trans"};
        char what[80];
        for (size_t i = 0; i < AQ_LEN(no); i++)
            if (!strcmp(word, no[i])) {
                snprintf(what, sizeof what, "the statement '%s' is not supported", word);
                return aq_jp_fail(p, AQ_E_UNSUPPORTED, what);
            }
        p->at--;
        return aq_jp_fail(p, AQ_E_FORMAT, "expected a statement");
    }
    return n;
}

/* N_BLOCK item: statements up to `{% END`, one of ends, at which the parser then stands (NULL: to the end of the template). */
static jx_node *body(parser *p, const char *const *ends, const char *opener, uint32_t line)
{
    jx_node *n = aq_jp_deeper(p) ? aq_jp_node(p, N_BLOCK) : NULL, *m;

    while (n && !p->rc) {
        const jx_tok *t = aq_jp_cur(p);
        if (t->kind == T_EOF) {
            if (ends && !p->rc)
                p->rc =
                    aq_fail(p->err, AQ_E_FORMAT, "template line %u: '%s' has no end", line, opener);
            break;
        }
        if (t->kind == T_DATA) {
            jx_str *s = aq_jp_alloc(p, sizeof *s);
            if (!s || !(m = aq_jp_node(p, N_DATA)))
                return NULL;
            s->p = t->p;
            s->n = t->n;
            m->val = (jv){.kind = V_STR, .s = s};
            aq_jp_add(p, &n->item, &n->n, m);
            aq_jp_next(p);
        } else if (t->kind == T_VAR_BEGIN) {
            aq_jp_next(p);
            if (!(m = aq_jp_node(p, N_OUTPUT)))
                return NULL;
            m->a = aq_jp_tuple(p, false);
            if (!p->rc && aq_jp_cur(p)->kind != T_VAR_END)
                return aq_jp_fail(p, AQ_E_FORMAT, "expected '}}'");
            aq_jp_next(p);
            aq_jp_add(p, &n->item, &n->n, m);
        } else {
            aq_jp_next(p);
            for (const char *const *e = ends; e && *e; e++)
                if (aq_jp_is_name(p, *e)) {
                    p->depth--;
                    return n;
                }
            aq_jp_add(p, &n->item, &n->n, statement(p));
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
