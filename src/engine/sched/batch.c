/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes into the next window.
 *
 *   1. every chat that waits for its next token: one row each. With stages that work at the same
 *      time, only the share that keeps all of them busy (two chats over two PCs: two windows).
 *   2. prompts, in what is left of chunk_tok rows: equal shares, then the remainder to whoever can
 *      use it; who begins turns round with each window. So a long prompt holds up neither the
 *      answers (one window at most) nor a short prompt behind it.
 *
 * A chat whose last token is under way has nothing to send; a prompt's chunks follow each other. */
#include "sched-priv.h"

typedef struct pick {
    aq_req *r;
    uint32_t todo, n;
} pick;

static bool ready(const aq_engine *e, const aq_req *r)
{
    return r->state == AQ_REQ_RUN && !atomic_load(&r->cancel) && !atomic_load(&r->stuck) &&
           !e->seq[r->seq].lost && aq_req_todo(e, r) > 0;
}

/* One token after another: all but the newest are known to the stages. */
static bool decoding(const aq_engine *e, const aq_req *r)
{
    return r->n_gen > 0 && aq_req_todo(e, r) <= 1;
}

static uint32_t choose(const aq_engine *e, pick *p)
{
    aq_req *ring[AQ_PARALLEL_MAX];
    uint32_t n = 0, n_dec = 0, n_pick = 0, rows = 0, most = e->set.max_rows;

    for (aq_req *r = e->r_first; r && n < AQ_PARALLEL_MAX; r = r->q_next)
        if (r->state == AQ_REQ_RUN) {
            n_dec += decoding(e, r);
            ring[n++] = r;
        }
    uint32_t share = (n_dec + e->set.depth - 1) / e->set.depth;
    for (uint32_t i = 0; i < n && n_pick < share && rows < most; i++) {
        aq_req *r = ring[(e->cursor + i) % n];
        if (ready(e, r) && decoding(e, r)) {
            const aq_sseq *s = &e->seq[r->seq];
            uint32_t spec = s->spec_at == r->log.n ? AQ_MIN(s->n_spec, most - rows - 1) : 0;
            p[n_pick++] = (pick){r, 1, 1 + spec};
            rows += 1 + spec;
        }
    }
    uint32_t first = n_pick, budget = AQ_MIN(e->chunk_tok, most - rows);
    for (uint32_t i = 0; i < n; i++) {
        aq_req *r = ring[(e->cursor + i) % n];
        if (ready(e, r) && !decoding(e, r))
            p[n_pick++] = (pick){r, aq_req_todo(e, r), 0};
    }
    for (uint32_t left = n_pick - first; budget && left;) {
        uint32_t each = AQ_MAX(1u, budget / left);
        left = 0;
        for (uint32_t i = first; i < n_pick && budget; i++) {
            uint32_t k = AQ_MIN(AQ_MIN(each, budget), p[i].todo - p[i].n);
            p[i].n += k;
            budget -= k;
            left += p[i].n < p[i].todo;
        }
    }
    while (n_pick > first && !p[n_pick - 1].n)
        n_pick--;
    return n_pick;
}

static aq_wnd *wnd_new(uint32_t n_rows, uint32_t n_part)
{
    aq_wnd *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    w->row = malloc((n_rows + 1) * sizeof *w->row);
    w->part = malloc((n_part + 1) * sizeof *w->part);
    if (w->row && w->part)
        return w;
    aq_wnd_free(w);
    return NULL;
}

aq_wnd *aq_batch_next(aq_engine *e)
{
    pick p[AQ_PARALLEL_MAX];
    uint32_t n_pick = choose(e, p), n_rows = 0;

    /* operations wait for rows to travel with, unless they pile up */
    if (!n_pick && e->n_op < 64)
        return NULL;
    for (uint32_t i = 0; i < n_pick; i++)
        n_rows += p[i].n;
    aq_wnd *w = wnd_new(n_rows, n_pick);
    if (!w) {
        aq_err err;
        aq_fail(&err, AQ_E_NOMEM, "no memory for a window of %u rows", n_rows);
        for (uint32_t i = 0; i < n_pick; i++)
            aq_req_end(e, p[i].r, -AQ_E_NOMEM, &err);
        if (n_pick)
            aq_hub_kick(e->hub); /* nothing may be under way that would wake those who wait */
        return NULL;
    }
    e->cursor++;
    for (uint32_t i = 0; i < n_pick; i++) {
        aq_req *r = p[i].r;
        aq_sseq *s = &e->seq[r->seq];
        if (s->over && aq_engine_op(e, AQ_OP_KEEP, r->seq, 0, s->n_done) >= 0)
            s->over = false;
        if (e->recurrent && s->n_sub && !s->over &&
            (s->n_sub == r->n_prompt || s->n_sub - s->n_snapped >= AQ_SNAP_EVERY_TOK))
            aq_snap_take(e, r->seq);
        aq_part *part = &w->part[w->n_part++];
        *part = (aq_part){.seq = r->seq, .n_rows = p[i].n};
        for (uint32_t k = 0; k < p[i].n; k++) {
            uint32_t pos = s->n_sub + k;
            bool guess = pos >= r->log.n, asks = pos + 1 >= r->log.n;
            uint32_t flags = (asks ? AQ_ROW_LOGITS : 0) | (e->draft ? AQ_ROW_DRAFT : 0);
            w->row[w->n_rows++] = (aq_row){.seq = r->seq,
                                           .pos = pos,
                                           .tok = guess ? s->spec[pos - r->log.n] : r->log.id[pos],
                                           .flags = flags};
            part->logits |= asks;
            part->n_draft += guess;
            w->n_logits += asks;
            w->n_back += flags != 0;
        }
        if (r->n_gen == 0)
            atomic_fetch_add_explicit(&e->st_read, p[i].n, memory_order_relaxed);
    }
    w->op = e->op;
    w->n_ops = e->n_op;
    e->op = NULL;
    e->n_op = e->cap_op = 0;
    return w;
}
