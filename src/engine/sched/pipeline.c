/* SPDX-License-Identifier: Apache-2.0 */
/* Windows on their way: embed ▶ stage 0 ▶ stage 1 … ▶ head.
 *
 *   to[i]   waits to be submitted to stage i          (step thread)
 *   out[i]  under way there, oldest first             (hub->mu: completions come from any thread)
 *   done    came back, waits for the step thread      (hub->mu)
 *
 * Stages work in order, so windows never overtake each other, and operations reach every stage in
 * the order they were made. A window that failed, or whose chats all ended, goes on with its
 * operations and without its rows. A stage that is lost pauses the engine. */
#include "sched-priv.h"

void aq_wnd_free(aq_wnd *w)
{
    if (!w)
        return;
    free(w->op);
    free(w->row);
    free(w->part);
    free(w->x);
    free(w->done_x);
    free(w);
}

static bool stage_lost(int rc)
{
    return rc == -AQ_E_GONE || rc == -AQ_E_TIMEOUT || rc == -AQ_E_PROTO;
}

/* ---- completions: any thread ---- */

void aq_pipe_done_cb(void *user, aq_stage *st, const aq_done *d)
{
    aq_hub *h = user;
    float *x = NULL;
    int rc = d->rc;

    if (rc == 0 && d->n_back > 0 && d->n_back <= AQ_ROWS_MAX && d->x) {
        size_t n = (size_t)d->n_back * h->row_f32 * sizeof *x;
        if ((x = malloc(n)))
            memcpy(x, d->x, n);
        else
            rc = -AQ_E_NOMEM;
    }
    pthread_mutex_lock(&h->mu);
    aq_wnd *w = NULL, *prev = NULL;
    uint32_t i = 0;
    while (i < h->n_stage && h->stage[i] != st)
        i++;
    if (i < h->n_stage && d->epoch == h->epoch)
        for (w = h->out_first[i]; w && w->id != d->id; w = w->next)
            prev = w;
    if (w) {
        *(prev ? &prev->next : &h->out_first[i]) = w->next;
        if (h->out_last[i] == w)
            h->out_last[i] = prev;
        h->n_out[i]--;
        w->next = w->done_next = NULL;
        w->done_rc = rc;
        w->done_err = d->err;
        w->done_x = x;
        w->done_back = d->n_back;
        for (uint32_t k = 0; !st->vt->work && k < d->n_hop; k++) {
            w->worker_us += d->hop[k].self_us;
            w->net_us += d->hop[k].net_us;
        }
        if (prev) /* it would overtake */
            w->done_rc = aq_fail(&w->done_err, AQ_E_PROTO,
                                 "stage %u completed window %llu before an older one", i,
                                 (unsigned long long)w->id);
        else if (rc == -AQ_E_NOMEM && d->rc == 0)
            aq_fail(&w->done_err, AQ_E_NOMEM, "no memory for %u rows of stage %u", d->n_back, i);
        x = NULL;
        *(h->done_last ? &h->done_last->done_next : &h->done_first) = w;
        h->done_last = w;
        h->kick = true;
        pthread_cond_signal(&h->work);
    }
    pthread_mutex_unlock(&h->mu);
    free(x); /* a late one: of an old epoch, or of a window that was given up */
}

/* ---- step thread ---- */

bool aq_pipe_room(const aq_engine *e)
{
    aq_hub *h = e->hub;
    /* own layers take one at a time: a second window would only keep chats from sharing the first
     */
    uint32_t most = h->stage[0]->vt->work ? 1 : h->stage[0]->n_inflight;

    if (e->to_first[0] || e->n_flight >= e->set.depth)
        return false;
    pthread_mutex_lock(&h->mu);
    bool room = h->n_out[0] < most;
    pthread_mutex_unlock(&h->mu);
    return room;
}

static void to_stage(aq_engine *e, aq_wnd *w, uint32_t i)
{
    w->stage = i;
    w->next = NULL;
    *(e->to_last[i] ? &e->to_last[i]->next : &e->to_first[i]) = w;
    e->to_last[i] = w;
}

static void strip(aq_wnd *w)
{
    w->n_rows = 0;
    free(w->x);
    w->x = NULL;
}

static bool anyone_left(const aq_engine *e, const aq_wnd *w)
{
    for (uint32_t i = 0; i < w->n_part; i++)
        if (e->seq[w->part[i].seq].state == AQ_SEQ_LIVE && !e->seq[w->part[i].seq].lost)
            return true;
    return false;
}

int aq_logits_room(aq_engine *e, uint32_t n)
{
    if (n <= e->logits_rows)
        return 0;
    float *p = realloc(e->logits, (size_t)n * e->n_vocab * sizeof *p);
    if (!p)
        return -AQ_E_NOMEM;
    e->logits = p;
    e->logits_rows = n;
    return 0;
}

/* Logits of the rows that ask for them, into e->logits. */
static int head(aq_engine *e, aq_wnd *w)
{
    AQ_AUTOFREE float *some = NULL;
    const float *x = w->x;

    if (aq_logits_room(e, w->n_logits) < 0)
        return aq_fail(&w->err, AQ_E_NOMEM, "no memory for the logits of %u chats", w->n_logits);
    if (w->n_back > w->n_logits) { /* the rest came for the draft layers */
        size_t row = e->row_f32 * sizeof *some, at = 0;
        if (!(x = some = malloc(w->n_logits * row)))
            return aq_fail(&w->err, AQ_E_NOMEM, "no memory for %u rows", w->n_logits);
        for (uint32_t i = 0, back = 0; i < w->n_rows; i++) {
            if (w->row[i].flags & AQ_ROW_LOGITS)
                memcpy(some + e->row_f32 * at++, w->x + (size_t)e->row_f32 * back, row);
            back += (w->row[i].flags & (AQ_ROW_LOGITS | AQ_ROW_DRAFT)) != 0;
        }
    }
    int rc = e->be->head(e->ends, x, w->n_logits, e->logits, NULL, &w->err);
    return rc >= 0 && e->be->sync ? e->be->sync(e->ends, &w->err) : rc;
}

/* The tokens of a chat from its rows' logits: as long as a guess was the token that is sampled, the
 * next row holds as well. guess [n_draft]: the rows behind the first. */
static void sample_chat(aq_engine *e, aq_req *r, const aq_part *p, const aq_row *guess,
                        float *logits)
{
    aq_sseq *s = &e->seq[p->seq];
    uint32_t n_ok = 0, all = s->n_done;

    s->n_done = s->n_sub = all - p->n_draft;
    s->over = p->n_draft > 0;
    for (;; n_ok++) {
        bool ended = aq_gen_token(e, r, logits + (size_t)n_ok * e->n_vocab);
        if (ended || n_ok == p->n_draft || r->log.id[r->log.n - 1] != guess[n_ok].tok) {
            aq_draft_count(r, AQ_MIN(n_ok + 1, p->n_draft), n_ok);
            if (!ended)
                s->over = s->n_done < all;
            return;
        }
        s->n_done = ++s->n_sub;
    }
}

/* A token for each chat, or several. */
static void sample(aq_engine *e, aq_wnd *w)
{
    w->rc = head(e, w);
    uint32_t at = 0, row = 0;
    for (uint32_t i = 0; i < w->n_part; row += w->part[i++].n_rows) {
        const aq_part *p = &w->part[i];
        aq_sseq *s = &e->seq[p->seq];
        if (!p->logits)
            continue;
        size_t first = (size_t)at * e->n_vocab; /* there are no logits where w->rc < 0 */
        at += 1 + p->n_draft;
        aq_req *r = s->state == AQ_SEQ_LIVE && !s->lost ? s->req : NULL;
        if (r && w->rc < 0 && !atomic_load(&r->cancel)) {
            s->bad = true;
            aq_req_end(e, r, w->rc, &w->err);
        } else if (r && !atomic_load(&r->cancel)) {
            sample_chat(e, r, p, w->row + row + p->n_rows - p->n_draft, e->logits + first);
        } else if (p->n_draft && !s->lost) { /* unchecked: as if they had not been sent */
            s->n_done -= p->n_draft;
            s->n_sub = s->n_done;
            s->over = true;
        }
    }
}

/* A running chat whose rows some stage did not take: back to what all of them have, a few times. */
static void take_back(aq_engine *e, uint32_t id, const aq_wnd *w, bool counts)
{
    aq_req *r = e->seq[id].req;

    if (counts && ++r->n_retry > AQ_RETRY_MAX)
        aq_req_end(e, r, w->rc < 0 ? w->rc : -AQ_E_DEVICE, w->rc < 0 ? &w->err : NULL);
    else if (aq_seq_recover(e, id) < 0)
        aq_req_end(e, r, -AQ_E_NOMEM, NULL);
}

/* Seqs that a failed window's operations name: nobody knows which of them were applied. */
static void distrust_ops(aq_engine *e, const aq_wnd *w)
{
    for (uint32_t i = 0; i < w->n_ops; i++) {
        aq_sseq *s = w->op[i].seq < AQ_SEQS_MAX ? &e->seq[w->op[i].seq] : NULL;
        if (!s || s->state == AQ_SEQ_FREE)
            continue;
        s->lost = s->bad = true;
        aq_snap_drop_from(e, w->op[i].seq, 0);
        if (s->state == AQ_SEQ_PARKED)
            aq_seq_drop(e, w->op[i].seq);
        else if (s->state == AQ_SEQ_LIVE && s->n_wnd == 0)
            take_back(e, w->op[i].seq, w, true);
    }
}

static void finish(aq_engine *e, aq_wnd *w)
{
    /* rows of a chat that ended or is being taken back: others in the window may fail for it */
    bool dead = false, stopped = false;

    if (w->n_rows)
        aq_log(AQ_LOG_DEBUG, "engine",
               "window=%llu rows=%u chats=%u ms=%.3f worker_ms=%.3f net_ms=%.3f rc=%d",
               (unsigned long long)w->id, w->n_rows, w->n_part,
               (double)(aq_now_us() - w->start_us) / 1e3, (double)w->worker_us / 1e3,
               (double)w->net_us / 1e3, w->rc);
    e->n_flight--;
    for (uint32_t i = 0; i < w->n_part; i++) {
        const aq_sseq *s = &e->seq[w->part[i].seq];
        dead |= s->state != AQ_SEQ_LIVE || s->lost;
        stopped |= s->state != AQ_SEQ_LIVE || atomic_load(&s->req->cancel);
    }
    bool again = w->rc == -AQ_E_CANCELLED || (w->rc == -AQ_E_INVAL && dead);
    bool stripped = w->n_part && !w->n_rows;
    for (uint32_t i = 0; i < w->n_part; i++) {
        const aq_part *p = &w->part[i];
        aq_sseq *s = &e->seq[p->seq];
        s->n_wnd--;
        if (w->rc >= 0 && !stripped) {
            if (s->lost)
                continue;
            s->n_done += p->n_rows;
            if (s->state == AQ_SEQ_LIVE) {
                aq_usage *u = &s->req->usage;
                *(s->req->n_gen ? &u->gen_worker_us : &u->prompt_worker_us) += w->worker_us;
                *(s->req->n_gen ? &u->gen_net_us : &u->prompt_net_us) += w->net_us;
                s->req->n_retry = 0;
                atomic_store(&s->req->st_read, AQ_MIN(s->n_done, s->req->n_prompt));
            }
            continue;
        }
        s->lost = true;
        s->bad |= w->rc < 0 && !again;
        if (s->state != AQ_SEQ_LIVE || atomic_load(&s->req->cancel))
            continue;
        if (!again)
            aq_req_end(e, s->req, w->rc, &w->err);
    }
    if (w->rc >= 0 && !stripped && w->n_logits)
        sample(e, w);
    if (w->rc >= 0 && !stripped && e->draft && w->n_back)
        aq_draft_window(e, w);
    if (w->rc < 0 && (!again || w->ops_bad))
        distrust_ops(e, w);
    for (uint32_t i = 0; i < w->n_part; i++) {
        uint32_t id = w->part[i].seq;
        aq_sseq *s = &e->seq[id];
        if (s->n_wnd)
            continue;
        if (s->state == AQ_SEQ_DRAIN)
            aq_seq_settle(e, id);
        else if (s->state == AQ_SEQ_LIVE && s->lost)
            take_back(e, id, w, !stopped); /* a neighbour that was stopped is no failure */
    }
    aq_wnd_free(w);
}

void aq_pipe_start(aq_engine *e, aq_wnd *w)
{
    aq_hub *h = e->hub;

    w->id = ++e->wnd_id;
    w->start_us = aq_now_us();
    e->n_flight++;
    aq_draft_ops(e, w->op, w->n_ops);
    atomic_fetch_add(&e->st_window, 1);
    pthread_mutex_lock(&h->mu);
    for (uint32_t i = 0; i < w->n_part; i++) {
        aq_sseq *s = &e->seq[w->part[i].seq];
        bool cheap = true;
        for (uint32_t k = 0; k < w->n_part; k++)
            cheap &= k == i || w->part[k].n_rows <= AQ_REWIND_ROWS;
        s->req->abortable = cheap && (s->n_wnd == 0 || s->req->abortable);
        s->n_wnd++;
        s->n_last = w->part[i].n_rows;
        s->n_sub += s->n_last;
    }
    pthread_mutex_unlock(&h->mu);
    if (w->n_rows) {
        w->x = malloc((size_t)w->n_rows * e->row_f32 * sizeof *w->x);
        if (!w->x)
            w->rc = aq_fail(&w->err, AQ_E_NOMEM, "no memory for a window of %u rows", w->n_rows);
        else
            w->rc = e->be->embed(e->ends, w->row, w->n_rows, w->x, &w->err);
        if (w->rc >= 0 && e->be->sync)
            w->rc = e->be->sync(e->ends, &w->err);
        if (w->rc < 0)
            strip(w);
    }
    to_stage(e, w, 0);
}

/* One window to stage i: 1 gone there, 0 the stage is full, negative: the stage is lost. */
static int submit(aq_engine *e, aq_wnd *w, uint32_t i, aq_err *err)
{
    aq_hub *h = e->hub;
    aq_stage *st = h->stage[i];
    bool last = i + 1 == h->n_stage;

    if (w->n_rows && !anyone_left(e, w))
        strip(w);
    for (uint32_t k = 0; k < w->n_rows; k++)
        w->row[k].flags = last && !(w->row[k].flags & AQ_ROW_DRAFT)
                              ? w->row[k].flags & ~(uint32_t)AQ_ROW_BACK
                              : w->row[k].flags | AQ_ROW_BACK;
    for (;;) {
        aq_window win = {.id = w->id,
                         .epoch = h->epoch,
                         .n_ops = w->n_ops,
                         .n_rows = w->n_rows,
                         .op = w->op,
                         .row = w->row,
                         .x = w->x};
        win.n_back = !w->n_rows ? 0 : last ? w->n_back : w->n_rows;
        /* in the list first: the completion may come before submit returns */
        pthread_mutex_lock(&h->mu);
        uint32_t n_out = h->n_out[i]++;
        aq_wnd *before = h->out_last[i];
        w->next = NULL;
        *(before ? &before->next : &h->out_first[i]) = w;
        h->out_last[i] = w;
        pthread_mutex_unlock(&h->mu);
        int rc = st->vt->submit(st, &win, err);
        if (rc >= 0)
            return 1;
        pthread_mutex_lock(
            &h->mu); /* still the last: only this thread submits, and it was not taken */
        before = NULL;
        for (aq_wnd *p = h->out_first[i]; p && p != w; p = p->next)
            before = p;
        *(before ? &before->next : &h->out_first[i]) = NULL;
        h->out_last[i] = before;
        h->n_out[i]--;
        pthread_mutex_unlock(&h->mu);
        if (rc == -AQ_E_BUSY && n_out)
            return 0;
        if (rc == -AQ_E_BUSY || stage_lost(rc) || !w->n_rows)
            return rc; /* BUSY with nothing under way: no completion would ever wake us */
        w->rc = rc;
        if (err)
            w->err = *err;
        strip(w); /* once more, with its operations alone */
    }
}

void aq_pipe_push(aq_engine *e)
{
    for (uint32_t i = 0; i < e->set.n_stage && !e->paused; i++)
        while (e->to_first[i]) {
            aq_err err = {0};
            aq_wnd *w = e->to_first[i], *next = w->next;
            int rc = submit(e, w, i, &err);
            if (rc == 0) {
                w->next = next;
                break;
            }
            if (rc < 0) {
                w->next = next;
                aq_epoch_pause(e, i, &err);
                return;
            }
            e->to_first[i] = next;
            if (!next)
                e->to_last[i] = NULL;
        }
}

void aq_pipe_done(aq_engine *e, aq_wnd *w)
{
    uint32_t i = w->stage, want = !w->n_rows ? 0 : i + 1 == e->set.n_stage ? w->n_back : w->n_rows;
    int rc = w->done_rc;

    if (rc >= 0 && w->done_back != want)
        rc = aq_fail(&w->done_err, AQ_E_PROTO, "stage %u sent %u rows back, %u were asked for", i,
                     w->done_back, want);
    else if (rc >= 0 && want && !w->done_x)
        rc = aq_fail(&w->done_err, AQ_E_PROTO, "stage %u sent %u rows back without their values", i,
                     want);
    if (stage_lost(rc)) {
        aq_err why = w->done_err;
        e->n_flight--;
        aq_wnd_free(w);
        aq_epoch_pause(e, i, &why);
        return;
    }
    if (rc < 0) {
        if (w->rc >= 0) {
            w->rc = rc;
            w->err = w->done_err;
        }
        w->ops_bad |= !w->n_rows;
        strip(w);
    } else if (w->n_rows && want) {
        free(w->x);
        w->x = w->done_x;
        w->done_x = NULL;
    }
    free(w->done_x);
    w->done_x = NULL;
    if (i + 1 < e->set.n_stage)
        to_stage(e, w, i + 1);
    else
        finish(e, w);
}

void aq_pipe_drop_all(aq_engine *e)
{
    aq_hub *h = e->hub;
    aq_wnd *w, *next;

    pthread_mutex_lock(&h->mu);
    for (uint32_t i = 0; i < AQ_STAGES_MAX; i++) {
        for (w = h->out_first[i]; w; w = next) {
            next = w->next;
            aq_wnd_free(w);
        }
        h->out_first[i] = h->out_last[i] = NULL;
        h->n_out[i] = 0;
    }
    for (w = h->done_first; w; w = next) {
        next = w->done_next;
        aq_wnd_free(w);
    }
    h->done_first = h->done_last = NULL;
    pthread_mutex_unlock(&h->mu);
    for (uint32_t i = 0; i < AQ_STAGES_MAX; i++) {
        for (w = e->to_first[i]; w; w = next) {
            next = w->next;
            aq_wnd_free(w);
        }
        e->to_first[i] = e->to_last[i] = NULL;
    }
    for (uint32_t s = 0; s < AQ_SEQS_MAX; s++)
        e->seq[s].n_wnd = 0;
    e->n_flight = 0;
}
