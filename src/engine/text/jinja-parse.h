/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's state and what jinja-expr.c (expressions) and jinja-parse.c (statements) share. Errors are sticky. */
#ifndef AQ_TEXT_JINJA_PARSE_H
#define AQ_TEXT_JINJA_PARSE_H

#include "jinja-priv.h"

typedef struct jx_parser {
    aq_tmpl *tmpl;
    const jx_tok *tok; /* ends with T_EOF */
    uint32_t at, depth, loops;
    uint8_t uses; /* JX_USES_*, of the macro under way */
    aq_err *err;
    int rc; /* sticky */
} parser;

const jx_tok *aq_jp_cur(const parser *);
void aq_jp_next(parser *);
void *aq_jp_fail(parser *, int code, const char *what); /* NULL */
void *aq_jp_alloc(parser *, size_t n);
jx_node *aq_jp_node(parser *, int kind);
bool aq_jp_deeper(parser *);
bool aq_jp_is_op(const parser *, int op);
bool aq_jp_is_name(const parser *, const char *name);
bool aq_jp_take_op(parser *, int op);
bool aq_jp_take_name(parser *, const char *name);
void aq_jp_need_op(parser *, char op);
const char *aq_jp_need_name(parser *);
void aq_jp_add(parser *, jx_node ***list, uint32_t *n,
               jx_node *child); /* grows by doubling at powers of two */
void aq_jp_add_kw(parser *, jx_node *, const char *name, jx_node *val);
uint32_t aq_jp_sym(parser *, const char *name);

jx_node *aq_jp_expr(parser *);
jx_node *aq_jp_logic(parser *, int kind); /* N_OR: an expression without `if` */
jx_node *aq_jp_tuple(parser *, bool parens);
jx_node *aq_jp_filter(parser *,
                      jx_node *value); /* behind the bar; value NULL: the text of a block */

#endif
