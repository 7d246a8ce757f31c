/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: a request runs only with a seq and with pages for its prompt and its longest answer,
 * so that no chat is ever stopped for want of memory half way. Requests wait in order; the first
 * that does not fit holds the others (nobody starves). Parked chats give way first, the one not
 * used for longest before the others.
 *
 * Pages are counted here as every stage counts them, by the same rules as in state/: KEEP gives
 * back what lies behind, FORK shares full pages and copies a last one that is not full, and a
 * shared page that is not full is copied before it is written. The number of pages is the smallest
 * stage's. */
#include "sched-priv.h"

uint32_t aq_page_need(uint32_t n_tok)
{
    return n_tok / AQ_PAGE_TOK + (n_tok % AQ_PAGE_TOK != 0);
}

static void page_drop(aq_engine *e, uint32_t page)
{
    if (--e->set.page_ref[page] == 0)
        e->pages_used--;
}

void aq_pages_cut(aq_engine *e, aq_sseq *s, uint32_t n_keep_tok)
{
    uint32_t keep = aq_page_need(n_keep_tok);

    while (s->n_page > keep)
        page_drop(e, s->page[--s->n_page]);
}

static uint32_t page_new(aq_engine *e)
{
    for (uint32_t i = 0; i < e->set.n_page; i++)
        if (!e->set.page_ref[i]) {
            e->set.page_ref[i] = 1;
            e->pages_used++;
            return i;
        }
    return UINT32_MAX; /* the caller has counted: does not happen */
}

static uint32_t last_shared(const aq_engine *e, const aq_sseq *s, uint32_t n_tok)
{
    return n_tok % AQ_PAGE_TOK && e->set.page_ref[s->page[n_tok / AQ_PAGE_TOK]] > 1;
}

/* Pages that seq has to itself behind its first n_tok tokens. */
static uint32_t tail_own(const aq_engine *e, const aq_sseq *s, uint32_t n_tok)
{
    uint32_t n = 0;

    for (uint32_t i = aq_page_need(n_tok); i < s->n_page; i++)
        n += e->set.page_ref[s->page[i]] == 1;
    return n;
}

static int pages_room(aq_sseq *s, uint32_t n)
{
    uint32_t *p = realloc(s->page, (n ? n : 1) * sizeof *p);
    if (!p)
        return -AQ_E_NOMEM;
    s->page = p;
    return 0;
}

int aq_pages_take(aq_engine *e, aq_sseq *s, uint32_t n_tok)
{
    uint32_t n = aq_page_need(n_tok);

    if (pages_room(s, n) < 0)
        return -AQ_E_NOMEM;
    for (s->n_page = 0; s->n_page < n; s->n_page++)
        s->page[s->n_page] = page_new(e);
    return 0;
}

static void queue_remove(aq_engine *e, aq_req *r)
{
    *(r->q_prev ? &r->q_prev->q_next : &e->q_first) = r->q_next;
    *(r->q_next ? &r->q_next->q_prev : &e->q_last) = r->q_prev;
    r->q_prev = r->q_next = NULL;
    e->n_queued--;
}

static void run_append(aq_engine *e, aq_req *r)
{
    r->q_prev = e->r_last;
    r->q_next = NULL;
    *(e->r_last ? &e->r_last->q_next : &e->r_first) = r;
    e->r_last = r;
}

static void set_seq(aq_engine *e, aq_req *r, uint32_t seq, int waiting)
{
    pthread_mutex_lock(&e->hub->mu);
    r->seq = seq;
    r->abortable = true;
    e->hub->n_waiting += (uint32_t)waiting;
    pthread_mutex_unlock(&e->hub->mu);
    atomic_store(&r->st_queued, 0);
}

void aq_req_end(aq_engine *e, aq_req *r, int32_t rc, const aq_err *err)
{
    if (r->state == AQ_REQ_QUEUED) {
        queue_remove(e, r);
        run_append(e, r);
        set_seq(e, r, AQ_SEQ_NONE, -1);
    } else if (r->state == AQ_REQ_RUN) {
        uint32_t id = r->seq;
        aq_sseq *s = &e->seq[id];
        e->n_run--;
        set_seq(e, r, AQ_SEQ_NONE, 0);
        s->log = r->log;
        r->log = (aq_toks){0};
        s->req = NULL;
        s->state = AQ_SEQ_DRAIN;
        r->state = AQ_REQ_END;
        if (!s->n_wnd)
            aq_seq_settle(e, id);
    }
    r->state = AQ_REQ_END;
    aq_req_finish(r, rc, err);
}

uint32_t aq_seq_unused(const aq_engine *e)
{
    for (uint32_t i = 0; i < e->set.max_seq; i++)
        if (e->seq[i].state == AQ_SEQ_FREE)
            return i;
    return AQ_SEQ_NONE;
}

/* The stages' part of a new seq. On failure nothing was added. */
static int seq_ops(aq_engine *e, uint32_t id, const aq_match *m, bool take)
{
    uint32_t was = e->n_op;
    int rc = 0;

    if (!take) {
        rc = aq_engine_op(e, AQ_OP_KEEP, id, 0, 0); /* makes it; empties whatever was left there */
        if (rc >= 0 && m->n_tok)
            rc = aq_engine_op(e, AQ_OP_FORK, id, m->seq, m->n_tok);
    } else if (m->snap == UINT32_MAX) {
        rc = aq_engine_op(e, AQ_OP_KEEP, id, 0, m->n_tok);
    }
    if (rc >= 0 && m->snap != UINT32_MAX)
        rc = aq_engine_op(e, AQ_OP_RESTORE, id, 0, m->snap);
    if (rc < 0)
        e->n_op = was;
    return rc;
}

/* Give r a seq; everything was counted. */
static int start(aq_engine *e, aq_req *r, uint32_t id, const aq_match *m, bool take, uint32_t total)
{
    aq_sseq *s = &e->seq[id];

    if (pages_room(s, AQ_MAX(total, s->n_page)) < 0 || seq_ops(e, id, m, take) < 0)
        return aq_fail(NULL, AQ_E_NOMEM, "pages");
    if (take) {
        aq_pages_cut(e, s, m->n_tok);
        if (last_shared(e, s, m->n_tok)) {
            page_drop(e, s->page[m->n_tok / AQ_PAGE_TOK]);
            s->page[m->n_tok / AQ_PAGE_TOK] = page_new(e);
        }
        aq_snap_drop_from(e, id, m->n_tok);
        aq_toks_clear(&s->log);
    } else {
        for (s->n_page = 0; s->n_page < m->n_tok / AQ_PAGE_TOK; s->n_page++) {
            s->page[s->n_page] = e->seq[m->seq].page[s->n_page];
            e->set.page_ref[s->page[s->n_page]]++;
        }
        s->n_snapped = 0;
    }
    while (s->n_page < total)
        s->page[s->n_page++] = page_new(e);
    if (m->n_tok)
        e->seq[m->seq].used = ++e->turn;
    if (m->snap != UINT32_MAX)
        e->set.snap[m->snap].used = e->turn;
    s->state = AQ_SEQ_LIVE;
    s->lost = s->bad = s->over = s->secret = false;
    s->n_spec = 0;
    s->req = r;
    s->n_sub = s->n_done = m->n_tok;
    s->n_wnd = 0;
    s->n_snapped = AQ_MIN(s->n_snapped, m->n_tok);
    s->used = ++e->turn;

    queue_remove(e, r);
    run_append(e, r);
    r->state = AQ_REQ_RUN;
    e->n_run++;
    set_seq(e, r, id, -1);
    atomic_store(&r->st_read, AQ_MIN(m->n_tok, r->n_prompt));
    if (!r->t_run_us) { /* not again after a replay */
        r->t_run_us = aq_now_us();
        r->usage.queue_us = r->t_run_us - r->t_submit_us;
        r->usage.cached_tok = m->n_tok;
    }
    return 0;
}

/* True when r runs (or has ended), false when it must wait. */
static bool admit(aq_engine *e, aq_req *r)
{
    uint32_t n_tok = r->n_prompt + r->max_tok, total = aq_page_need(n_tok);
    aq_err err = {0};

    if (total > e->set.n_page) {
        aq_fail(&err, AQ_E_LIMIT,
                "the chat needs room for %u tokens with its answer, the smallest part of the "
                "model's state holds %u: "
                "ask for a shorter answer or shorten the chat",
                n_tok, e->set.n_page * AQ_PAGE_TOK);
        aq_req_end(e, r, -AQ_E_LIMIT, &err);
        return true;
    }
    aq_match m = aq_prefix_find(e, &r->log);
    if (m.wait)
        return false;
    if (e->park && aq_park_fetch(e, &r->log, m.n_tok))
        m = aq_prefix_find(e, &r->log);
    else if (e->park && m.n_tok && e->seq[m.seq].state == AQ_SEQ_FREE)
        m = aq_prefix_find(e, &r->log); /* it went for a fetch that failed */
    for (;;) {
        const aq_sseq *from = m.n_tok ? &e->seq[m.seq] : NULL;
        bool parked = from && from->state == AQ_SEQ_PARKED;
        uint32_t id = aq_seq_unused(e);
        bool take = parked && (from->log.n - m.n_tok < AQ_TAKE_TAIL_TOK || id == AQ_SEQ_NONE);
        uint32_t spare = e->set.n_page - e->pages_used;
        uint32_t more = total - m.n_tok / AQ_PAGE_TOK;
        if (parked && !take && more > spare)
            take = true; /* what lies behind the common part gives way too */
        if (take) {
            id = m.seq;
            more = total - aq_page_need(m.n_tok) + last_shared(e, from, m.n_tok);
            spare += tail_own(e, from, m.n_tok);
        }
        if (id != AQ_SEQ_NONE && more <= spare) {
            if (start(e, r, id, &m, take, total) < 0) {
                aq_fail(&err, AQ_E_NOMEM, "no memory to start a chat of %u tokens", n_tok);
                aq_req_end(e, r, -AQ_E_NOMEM, &err);
            }
            return true;
        }
        if (aq_prefix_evict(e, m.n_tok ? m.seq : AQ_SEQ_NONE))
            continue;
        if (!parked)
            return false; /* running chats hold the rest */
        aq_park_save(e, m.seq);
        aq_seq_drop(e, m.seq);
        m = (aq_match){AQ_SEQ_NONE, 0, UINT32_MAX, false};
    }
}

void aq_admit(aq_engine *e)
{
    while (e->q_first && e->n_run < e->n_parallel) {
        aq_req *r = e->q_first;
        if (atomic_load(&r->cancel))
            aq_req_end(e, r, AQ_DONE_CANCELLED, NULL);
        else if (!admit(e, r))
            return;
    }
}
