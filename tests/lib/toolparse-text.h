/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the parser of calls as one text, for tests and fuzzers: T"…" content, R"…" thinking, C name, A"…" arguments; neighbours
 * of one kind are joined, so that the text does not depend on where the pieces were cut. `#` at the end: a call was left unfinished. */
#ifndef AQ_TESTS_TOOLPARSE_TEXT_H
#define AQ_TESTS_TOOLPARSE_TEXT_H

#include <stdio.h>

#include "toolparse-priv.h"

typedef struct tp_text {
    aq_bytes b;
    uint32_t kind, call, n_start;
} tp_text;

static inline int tp_take(tp_text *t, const aq_toolparse *p)
{
    static const char letter[] = "?TRCA";
    int rc = 0;

    for (uint32_t i = 0; i < p->n_ev && rc >= 0; i++) {
        const aq_tp_ev *e = &p->ev[i];
        if (e->kind == AQ_EV_CALL_START)
            t->n_start++;
        if (e->kind != t->kind || e->call != t->call || e->kind == AQ_EV_CALL_START) {
            if (t->kind)
                rc = aq_bytes_puts(&t->b, "\"");
            if (rc >= 0)
                rc = aq_bytes_putf(&t->b, "%c\"", letter[e->kind]);
        }
        t->kind = e->kind;
        t->call = e->call;
        if (rc >= 0 && e->n)
            rc = aq_bytes_put(&t->b, p->buf.p + e->off, e->n);
    }
    return rc;
}

static inline int tp_end(tp_text *t, const aq_toolparse *p)
{
    int rc = t->kind ? aq_bytes_puts(&t->b, "\"") : 0;

    return rc >= 0 && p->broken ? aq_bytes_puts(&t->b, "#") : rc;
}

#endif
