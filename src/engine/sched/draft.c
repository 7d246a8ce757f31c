/* SPDX-License-Identifier: Apache-2.0 */
/* Guessing ahead by the model's draft layers, which lie with the ends (embedding and head).
 *
 * Their entry for position p is made of token p and the hidden row of position p - 1, so all rows of
 * a chat come back from the last stage while drafts are on. The operations of each window go to the
 * draft layers' state as well; it may lag a few positions behind (after a fork, at the end of an
 * answer): those are fed with the next hidden row that there is, which makes guesses worse and no
 * answer wrong. A guess is made from the newest token, further ones from the guess and the draft
 * layers' own hidden row; those entries are cut before the next feed.
 *
 * Guesses travel as rows behind the newest token. A token is sampled from each row's logits in turn,
 * by the same rule and with the same random number as without drafts; the next row counts only when
 * its guess is that token, so answers do not depend on any of this. */
#include "sched-priv.h"

#define GAP_MAX 16u   /* positions that may lack their hidden row */
#define RATE_MIN 0.2f /* fewer guesses right than this: pause */
#define PAUSE_TOK 32u

void aq_draft_clear(aq_engine *e)
{
    if (e->draft)
        e->be->drop_state(e->draft);
    free(e->hidden);
    free(e->draft_x);
    free(e->draft_row);
    e->draft = NULL;
    e->hidden = e->draft_x = NULL;
    e->draft_row = NULL;
    e->hidden_rows = 0;
}

void aq_draft_reset(aq_engine *e)
{
    aq_err err = {0};

    aq_draft_clear(e);
    if (!e->n_draft)
        return;
    uint32_t rows = e->set.max_rows + GAP_MAX * AQ_MIN(e->n_parallel, AQ_PARALLEL_MAX);
    aq_state_cfg cfg = {.kv_type = e->kv_type,
                        /* as the stages count, and the guesses of each chat */
                        .n_page = e->set.n_page + e->set.max_seq,
                        .max_seq = e->set.max_seq,
                        .n_snap = e->set.n_snap,
                        .max_rows = AQ_MIN(rows, AQ_ROWS_MAX)};
    int rc = e->be->state(e->ends, &cfg, &e->draft, &err);
    e->draft_rows = cfg.max_rows;
    e->draft_x =
        rc < 0 ? NULL : malloc((size_t)cfg.max_rows * e->model->info.n_embd * sizeof(float));
    e->draft_row = rc < 0 ? NULL : malloc(cfg.max_rows * sizeof *e->draft_row);
    if (rc >= 0 && e->draft_x && e->draft_row)
        return;
    aq_log(AQ_LOG_WARN, "engine", "drafts off: %s", rc < 0 ? err.text : "out of memory");
    aq_draft_clear(e);
}

void aq_draft_ops(aq_engine *e, const aq_op *op, uint32_t n)
{
    for (uint32_t i = 0; e->draft && i < n; i++)
        if (e->be->apply(e->draft, &op[i], 1, NULL) < 0 && op[i].seq != AQ_SEQ_NONE) {
            /* this chat goes on without: its gap never closes */
            aq_op empty = {.kind = AQ_OP_KEEP, .seq = op[i].seq};
            (void)!e->be->apply(e->draft, &empty, 1, NULL);
        }
}

void aq_draft_count(aq_req *r, uint32_t n, uint32_t n_ok)
{
    if (!n)
        return;
    r->usage.draft_tok += n;
    r->usage.draft_ok_tok += n_ok;
    r->draft_rate = 0.9f * r->draft_rate + 0.1f * (float)n_ok / (float)n;
    if (r->draft_rate < RATE_MIN) {
        r->draft_pause = r->n_gen + PAUSE_TOK;
        r->draft_rate = 0.5f;
    }
}

/* Guesses wanted for a chat, now. */
static uint32_t wanted(const aq_engine *e, const aq_sseq *s)
{
    const aq_req *r = s->req;
    uint32_t room = r->n_prompt + r->max_tok;

    if (!r->n_gen || r->n_gen < r->draft_pause || aq_req_todo(e, r) != 1)
        return 0;
    return AQ_MIN(e->n_draft, room > r->log.n ? room - r->log.n : 0);
}

static int hidden_rows(aq_engine *e, const aq_wnd *w, aq_err *err)
{
    if (w->n_back > e->hidden_rows) {
        float *p = realloc(e->hidden, (size_t)w->n_back * e->model->info.n_embd * sizeof *p);
        if (!p)
            return aq_fail(err, AQ_E_NOMEM, "no memory for %u hidden rows", w->n_back);
        e->hidden = p;
        e->hidden_rows = w->n_back;
    }
    return e->be->head(e->ends, w->x, w->n_back, NULL, e->hidden, err);
}

/* Rows of one chat for the draft layers, from the hidden rows h of positions [p0, p0 + n): those up
 * to its newest token. Returns how many were put at row `at`. */
static uint32_t put_rows(aq_engine *e, uint32_t seq, uint32_t p0, const float *h, uint32_t at,
                         bool ask)
{
    const aq_sseq *s = &e->seq[seq];
    size_t embd = e->model->info.n_embd;
    uint32_t len = e->be->draft_len(e->draft, seq), n = 0;

    if (len > p0) { /* guesses of before */
        aq_op cut = {.kind = AQ_OP_KEEP, .seq = seq, .arg = p0 + 1u};
        if (e->be->apply(e->draft, &cut, 1, NULL) < 0)
            return 0;
        len = p0;
    }
    if (p0 - len > GAP_MAX || s->n_done - len > e->draft_rows - at)
        return 0;
    for (uint32_t pos = len + 1; pos <= s->n_done; pos++, n++) {
        bool last = pos == s->n_done;
        e->draft_row[at + n] = (aq_row){.seq = seq,
                                        .pos = pos,
                                        .tok = s->req->log.id[pos],
                                        .flags = AQ_ROW_DRAFT | (ask && last ? AQ_ROW_LOGITS : 0)};
        memcpy(e->draft_x + (at + n) * embd, h + (pos > p0 ? pos - 1 - p0 : 0) * embd,
               embd * sizeof(float));
    }
    return n;
}

static int32_t best(const float *logits, uint32_t n)
{
    uint32_t b = 0;
    for (uint32_t i = 1; i < n; i++)
        b = logits[i] > logits[b] ? i : b;
    return (int32_t)b;
}

typedef struct guess {
    aq_sseq *s;
    uint32_t seq, n; /* n: wanted */
} guess;

/* One round: n_rows rows, of which those of the chats g [n_g] ask for logits, in order; each chat
 * gets a guess, and e->hidden the n_g rows that the next round continues from. */
static int round_of(aq_engine *e, uint32_t n_rows, guess *g, uint32_t n_g, aq_err *err)
{
    aq_window win = {.n_rows = n_rows, .n_back = n_g, .row = e->draft_row, .x = e->draft_x};
    if (aq_logits_room(e, n_g) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the logits of %u drafts", n_g);
    int rc = e->be->draft(e->ends, e->draft, &win, n_g ? e->logits : NULL, n_g ? e->hidden : NULL,
                          NULL, err);
    if (rc >= 0 && e->be->sync)
        rc = e->be->sync(e->ends, err);
    for (uint32_t i = 0; rc >= 0 && i < n_g; i++)
        g[i].s->spec[g[i].s->n_spec++] = best(e->logits + (size_t)i * e->n_vocab, e->n_vocab);
    return rc;
}

/* Further guesses, each from the one before. */
static int go_on(aq_engine *e, guess *g, uint32_t n_g, aq_err *err)
{
    size_t embd = e->model->info.n_embd;
    int rc = 0;

    for (uint32_t n = n_g; rc >= 0; n_g = n) {
        n = 0;
        for (uint32_t i = 0; i < n_g; i++) {
            aq_sseq *s = g[i].s;
            if (s->n_spec >= g[i].n)
                continue;
            e->draft_row[n] = (aq_row){.seq = g[i].seq,
                                       .pos = s->n_done + s->n_spec,
                                       .tok = s->spec[s->n_spec - 1],
                                       .flags = AQ_ROW_DRAFT | AQ_ROW_LOGITS};
            memcpy(e->draft_x + n * embd, e->hidden + i * embd, embd * sizeof(float));
            g[n++] = g[i];
        }
        if (!n)
            return 0;
        rc = round_of(e, n, g, n, err);
    }
    return rc;
}

void aq_draft_window(aq_engine *e, const aq_wnd *w)
{
    guess g[AQ_PARALLEL_MAX];
    uint32_t n_g = 0, n_rows = 0, row = 0;
    size_t embd = e->model->info.n_embd, h = 0;
    aq_err err = {0};
    int rc = hidden_rows(e, w, &err);

    for (uint32_t i = 0; rc >= 0 && i < w->n_part;
         h += w->part[i].n_rows, row += w->part[i++].n_rows) {
        uint32_t id = w->part[i].seq;
        aq_sseq *s = &e->seq[id];
        if (s->state != AQ_SEQ_LIVE || s->lost || s->n_done <= w->row[row].pos ||
            s->n_done >= s->req->log.n)
            continue;
        uint32_t ask = n_g < AQ_PARALLEL_MAX ? wanted(e, s) : 0;
        uint32_t n = put_rows(e, id, w->row[row].pos, e->hidden + h * embd, n_rows, ask);
        s->n_spec = 0;
        s->spec_at = s->req->log.n;
        n_rows += n;
        if (n && ask)
            g[n_g++] = (guess){s, id, ask};
    }
    if (rc >= 0 && n_rows)
        rc = round_of(e, n_rows, g, n_g, &err);
    if (rc >= 0)
        rc = go_on(e, g, n_g, &err);
    for (uint32_t i = 0; rc < 0 && i < n_g; i++)
        g[i].s->n_spec = 0;
    if (rc < 0)
        aq_log(AQ_LOG_WARN, "engine", "window=%llu without drafts: %s", (unsigned long long)w->id,
               err.text);
}
