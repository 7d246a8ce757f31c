/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs: which stages make up the model, and what happens to the chats when they change.
 *
 * A new set of stages knows no seq. So every running request goes back to the front of the queue,
 * in its order, with the log of its tokens, its sampler and its text untouched; admission gives it
 * a seq and pages as if it were new, and its log is read like a prompt. Its next token is sampled
 * when the last of the log has come through: none is repeated, none is lost. A stage that is lost
 * only drops the windows under way; the chats wait as they are until the next set. */
#include "sched-priv.h"

int aq_swap_set_make(const aq_engine *e, aq_stage *const *stage, uint32_t n, aq_swap_set *ret,
                     aq_err *err)
{
    const aq_model_info *in = &e->model->info;
    aq_swap_set s = {.n_stage = n,
                     .n_page = UINT32_MAX,
                     .n_snap = UINT32_MAX,
                     .max_rows = AQ_ROWS_MAX,
                     .max_seq = AQ_SEQS_MAX};
    uint32_t at = 0;

    if (!n || n > AQ_STAGES_MAX)
        return aq_fail(err, AQ_E_INVAL, "%u stages were given, 1 to %u are possible", n,
                       AQ_STAGES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const aq_stage *st = stage[i];
        if (st->l0 != at || st->l1 <= at || st->l1 > in->n_layer)
            return aq_fail(err, AQ_E_INVAL,
                           "stage %u holds layers %u to %u, but layer %u of %u is next", i, st->l0,
                           st->l1, at, in->n_layer);
        if (!in->cut_ok[at])
            return aq_fail(err, AQ_E_INVAL, "this model cannot be parted before layer %u", at);
        if (!st->n_page || !st->max_rows || !st->max_seq || !st->n_inflight)
            return aq_fail(err, AQ_E_INVAL,
                           "stage %u takes nothing (%u pages, %u rows, %u seqs, %u windows)", i,
                           st->n_page, st->max_rows, st->max_seq, st->n_inflight);
        at = st->l1;
        s.stage[i] = stage[i];
        s.n_page = AQ_MIN(s.n_page, st->n_page);
        s.n_snap = AQ_MIN(s.n_snap, st->n_snap);
        s.max_rows = AQ_MIN(s.max_rows, st->max_rows);
        s.max_seq = AQ_MIN(s.max_seq, st->max_seq);
        s.depth += st->vt->work ? 1 : st->n_inflight;
    }
    if (at != in->n_layer)
        return aq_fail(err, AQ_E_INVAL, "the stages end at layer %u, the model has %u", at,
                       in->n_layer);
    s.n_snap = e->recurrent ? AQ_MIN(s.n_snap, 1u << 16) : 0;
    s.page_ref = calloc(s.n_page, sizeof *s.page_ref);
    s.snap = calloc(s.n_snap + 1u, sizeof *s.snap);
    if (!s.page_ref || !s.snap) {
        aq_swap_set_clear(&s);
        return aq_fail(err, AQ_E_NOMEM, "no memory for the tables of %u pages", s.n_page);
    }
    for (uint32_t i = 0; i < s.n_snap; i++)
        s.snap[i].seq = AQ_SEQ_NONE;
    *ret = s;
    return 0;
}

void aq_swap_set_clear(aq_swap_set *s)
{
    free(s->page_ref);
    free(s->snap);
    s->page_ref = NULL;
    s->snap = NULL;
}

/* Every running request to the front of the queue, in order. */
static void requeue(aq_engine *e)
{
    aq_req *first = NULL, *last = NULL;

    for (aq_req *r = e->r_first, *next; r; r = next) {
        next = r->q_next;
        if (r->state != AQ_REQ_RUN)
            continue;
        *(r->q_prev ? &r->q_prev->q_next : &e->r_first) = r->q_next;
        *(r->q_next ? &r->q_next->q_prev : &e->r_last) = r->q_prev;
        r->q_prev = last;
        r->q_next = NULL;
        *(last ? &last->q_next : &first) = r;
        last = r;
        r->state = AQ_REQ_QUEUED;
        r->n_retry = 0;
        e->n_queued++;
        e->n_run--;
    }
    if (!first)
        return;
    last->q_next = e->q_first;
    *(e->q_first ? &e->q_first->q_prev : &e->q_last) = last;
    e->q_first = first;
}

static bool holds(const aq_swap_set *s, const aq_stage *st)
{
    for (uint32_t i = 0; i < s->n_stage; i++)
        if (s->stage[i] == st)
            return true;
    return false;
}

void aq_epoch_begin(aq_engine *e)
{
    aq_hub *h = e->hub;
    uint32_t n_live = e->n_run;
    aq_err err = {0};

    aq_pipe_drop_all(e);
    requeue(e);
    for (uint32_t i = 0; i < AQ_SEQS_MAX; i++) {
        aq_sseq *s = &e->seq[i];
        aq_toks_clear(&s->log);
        free(s->page);
        *s = (aq_sseq){0};
    }
    e->pages_used = 0;
    e->n_op = 0;
    e->paused = false;
    /* aq_engine_set_stages waits, so its set stands still. Without room for its state again, a
     * stage fails its windows. */
    for (uint32_t i = 0; i < h->next->n_stage; i++)
        if (holds(&e->set, h->next->stage[i]) && aq_stage_local_reset(h->next->stage[i], &err) < 0)
            aq_log(AQ_LOG_WARN, "engine", "stage=%u not emptied: %s", i, err.text);

    pthread_mutex_lock(&h->mu);
    for (aq_req *r = e->q_first; r; r = r->q_next)
        r->seq = AQ_SEQ_NONE;
    h->n_waiting += n_live;
    aq_swap_set old = e->set;
    e->set = *h->next;
    for (uint32_t i = 0; i < e->set.n_stage; i++) {
        h->stage[i] = e->set.stage[i];
        h->stage[i]->done_cb = aq_pipe_done_cb;
        h->stage[i]->done_user = h;
    }
    h->n_stage = e->set.n_stage;
    atomic_store(&e->st_epoch, ++h->epoch);
    *h->next = old;
    h->next->taken = true;
    h->next = NULL;
    pthread_cond_broadcast(&h->swap);
    pthread_mutex_unlock(&h->mu);
    aq_draft_reset(e);
    atomic_store(&e->st_n_page, e->set.n_page);
    aq_log(AQ_LOG_INFO, "engine", "epoch=%u stages=%u pages=%u replayed=%u", h->epoch,
           e->set.n_stage, e->set.n_page, n_live);
}

void aq_epoch_pause(aq_engine *e, uint32_t stage, const aq_err *why)
{
    if (e->paused)
        return;
    e->paused = true;
    aq_pipe_drop_all(e);
    for (uint32_t i = 0; i < e->set.max_seq; i++)
        if (e->seq[i].state == AQ_SEQ_DRAIN)
            aq_seq_settle(e, i);
    aq_log(AQ_LOG_WARN, "engine", "paused stage=%u running=%u why=\"%s\"", stage, e->n_run,
           why ? why->text : "");
}

int aq_engine_set_stages(aq_engine *e, aq_stage *const *stage, uint32_t n, aq_err *err)
{
    aq_hub *h = e->hub;
    aq_swap_set s;
    int rc = aq_swap_set_make(e, stage, n, &s, err);

    if (rc < 0)
        return rc;
    pthread_mutex_lock(&h->mu);
    while (h->next && !h->stop) /* another thread's set is being taken */
        pthread_cond_wait(&h->swap, &h->mu);
    if (!h->stop) {
        h->next = &s;
        h->kick = true;
        atomic_store(&h->hurry, true);
        for (uint32_t i = 0; i < h->n_stage; i++)
            aq_stage_local_stop(h->stage[i]); /* what it computes will be dropped anyway */
        pthread_cond_signal(&h->work);
        while (!s.taken && !h->stop)
            pthread_cond_wait(&h->swap, &h->mu);
        if (!s.taken)
            h->next = NULL;
    }
    bool taken = s.taken;
    pthread_mutex_unlock(&h->mu);
    aq_swap_set_clear(&s);
    if (!taken)
        return aq_fail(err, AQ_E_CANCELLED, "the engine is being closed");
    /* here, not on the step thread: closing may wait for the network */
    for (uint32_t i = 0; i < s.n_stage; i++) {
        bool kept = false;
        for (uint32_t k = 0; k < n; k++)
            kept |= stage[k] == s.stage[i];
        if (!kept)
            s.stage[i]->vt->close(s.stage[i]);
    }
    return 0;
}
