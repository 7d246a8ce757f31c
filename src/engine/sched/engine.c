/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: its life, and the turn of its step thread.
 *
 *   wait (only when nothing is left to do)
 *   ─▶ take, under the hub's lock: new requests, completions, another set of stages
 *   ─▶ tend: cancels, rings that have room again
 *   ─▶ admit ─▶ make windows ─▶ submit what stages have room for
 *   ─▶ compute one window of each local stage ─▶ again
 *
 * The thread never waits for the network: remote stages complete from their own threads into the
 * hub. It sleeps on a condition variable without a timeout, so that an idle engine takes no CPU at
 * all. */
#include <stdio.h>

#include "rt-priv.h"
#include "sched-priv.h"

/* ---- hub ---- */

void aq_hub_unref(aq_hub *h)
{
    if (!h || atomic_fetch_sub(&h->ref, 1) != 1)
        return;
    pthread_mutex_destroy(&h->mu);
    pthread_cond_destroy(&h->work);
    pthread_cond_destroy(&h->swap);
    aq_tok_order_free(h->order);
    free(h);
}

void aq_hub_kick(aq_hub *h)
{
    pthread_mutex_lock(&h->mu);
    h->kick = true;
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->mu);
}

/* ---- the step thread ---- */

int aq_engine_op(aq_engine *e, uint16_t kind, uint32_t seq, uint32_t from, uint64_t arg)
{
    if (e->n_op >= AQ_OPS_MAX)
        return -AQ_E_LIMIT;
    if (e->n_op == e->cap_op) {
        uint32_t cap = AQ_MAX(64u, e->cap_op * 2);
        aq_op *p = realloc(e->op, cap * sizeof *p);
        if (!p)
            return -AQ_E_NOMEM;
        e->op = p;
        e->cap_op = cap;
    }
    e->op[e->n_op++] = (aq_op){.kind = kind, .seq = seq, .from = from, .arg = arg};
    return 0;
}

/* What the other threads left. Returns false when the engine is to end. */
static bool take(aq_engine *e, bool wait)
{
    aq_hub *h = e->hub;

    pthread_mutex_lock(&h->mu);
    while (wait && !h->kick && !h->stop)
        pthread_cond_wait(&h->work, &h->mu);
    h->kick = false;
    atomic_store(&h->hurry, false);
    aq_req *r = h->new_first;
    aq_wnd *w = h->done_first;
    h->new_first = h->new_last = NULL;
    h->done_first = h->done_last = NULL;
    bool stop = h->stop, swap = h->next != NULL;
    pthread_mutex_unlock(&h->mu);

    for (aq_req *next; r; r = next) {
        next = r->next;
        r->next = NULL;
        r->state = AQ_REQ_QUEUED;
        r->q_prev = e->q_last;
        *(e->q_last ? &e->q_last->q_next : &e->q_first) = r;
        e->q_last = r;
        e->n_queued++;
    }
    for (aq_wnd *next; w; w = next) {
        next = w->done_next;
        if (swap || e->paused)
            aq_wnd_free(w); /* of stages that are gone: what it held is read again */
        else
            aq_pipe_done(e, w);
    }
    if (swap)
        aq_epoch_begin(e);
    return !stop;
}

/* Cancelled ones end, and those whose ring has room again go on. */
static void tend(aq_engine *e)
{
    for (aq_req *r = e->q_first, *next; r; r = next) {
        next = r->q_next;
        if (atomic_load(&r->cancel))
            aq_req_end(e, r, AQ_DONE_CANCELLED, NULL);
    }
    for (aq_req *r = e->r_first, *next; r; r = next) {
        next = r->q_next;
        if (r->state == AQ_REQ_RUN && atomic_load(&r->cancel))
            aq_req_end(e, r, AQ_DONE_CANCELLED, NULL); /* moves it to AQ_REQ_END */
        bool flushed = !atomic_load(&r->stuck) || aq_req_flush(r);
        if (r->state == AQ_REQ_END && (flushed || atomic_load(&r->gone))) {
            *(r->q_prev ? &r->q_prev->q_next : &e->r_first) = r->q_next;
            *(r->q_next ? &r->q_next->q_prev : &e->r_last) = r->q_prev;
            aq_req_unref(r);
        }
    }
}

static void publish(aq_engine *e)
{
    uint32_t parked = 0, i = 0;

    for (uint32_t s = 0; s < e->set.max_seq; s++)
        parked += e->seq[s].state == AQ_SEQ_PARKED;
    for (aq_req *r = e->q_first; r; r = r->q_next)
        atomic_store_explicit(&r->st_queued, ++i, memory_order_relaxed);
    atomic_store(&e->st_running, e->n_run);
    atomic_store(&e->st_queued, e->n_queued);
    atomic_store(&e->st_parked, parked);
    atomic_store(&e->st_pages, e->pages_used);
    atomic_store(&e->st_paused, e->paused);
    uint32_t n_disk;
    uint64_t bytes;
    aq_park_stats(e, &n_disk, &bytes);
    atomic_store(&e->st_disk, n_disk);
    atomic_store(&e->st_disk_bytes, bytes);
}

static void *step_thread(void *arg)
{
    aq_engine *e = arg;
    aq_hub *h = e->hub;
    bool busy = false;

    while (take(e, !busy)) {
        busy = false;
        tend(e);
        if (atomic_exchange(&e->forget, false))
            aq_park_forget(e);
        if (!e->paused) {
            aq_admit(e);
            aq_wnd *w;
            while (aq_pipe_room(e) && (w = aq_batch_next(e)))
                aq_pipe_start(e, w);
            aq_pipe_push(e);
        }
        publish(e);
        if (e->paused)
            continue;
        for (uint32_t i = 0; i < h->n_stage && !atomic_load(&h->hurry); i++) {
            int64_t t0_us = aq_now_us();
            if (h->stage[i]->vt->work && h->stage[i]->vt->work(h->stage[i], NULL) > 0) {
                busy = true;
                atomic_fetch_add(&e->st_here_us, (uint64_t)(aq_now_us() - t0_us));
            }
        }
    }
    /* the end: nobody writes rings after this */
    aq_req *last[2] = {e->q_first, e->r_first};
    for (int k = 0; k < 2; k++)
        for (aq_req *r = last[k], *next; r; r = next) {
            next = r->q_next;
            aq_req_finish(r, AQ_DONE_CANCELLED, NULL);
            atomic_store(&r->orphan, 1);
            pthread_mutex_lock(
                &r->wake_mu); /* what is left in `out` has no other way to make itself known */
            if (r->wake && atomic_load(&r->stuck))
                r->wake(r->user);
            pthread_mutex_unlock(&r->wake_mu);
            aq_req_unref(r);
        }
    e->q_first = e->q_last = e->r_first = e->r_last = NULL;
    if (atomic_exchange(&e->forget, false))
        aq_park_forget(e);
    aq_park_save_all(e);
    return NULL;
}

/* ---- life ---- */

static uint32_t pages_for(const aq_model_info *in, const aq_engine_cfg *cfg, uint32_t n_ctx,
                          uint32_t n_parallel)
{
    uint64_t tok_bytes = aq_model_kv_bytes_tok(in, cfg->kv_type);
    uint64_t one = (n_ctx + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK, want = one * n_parallel;
    uint64_t free_bytes = aq_mem_free_bytes(), weights = in->ends_bytes + in->stage_bytes;

    for (uint32_t i = 0; i < in->n_layer; i++)
        weights += in->layer_bytes[i];
    free_bytes = free_bytes > weights ? free_bytes - weights : 0;
    /* a quarter stays with the system; one full chat must fit in any case, or loading says NOMEM
     * with its numbers */
    uint64_t fit = tok_bytes ? free_bytes / 4 * 3 / (tok_bytes * AQ_PAGE_TOK) : want;
    return cfg->n_page ? cfg->n_page : (uint32_t)AQ_MAX(one, AQ_MIN(want, fit));
}

/* Parked chats beside the running ones: of an ordinary model they cost nothing but pages, of a
 * recurrent one a state each. */
static aq_state_cfg state_cfg(const aq_engine *e, const aq_model_info *in, const aq_engine_cfg *cfg,
                              uint32_t n_page)
{
    uint32_t seqs = in->recurrent ? e->n_parallel + 4 : AQ_MIN(e->n_parallel * 8, AQ_SEQS_MAX);

    return (aq_state_cfg){.kv_type = cfg->kv_type,
                          .n_page = n_page,
                          .max_seq = AQ_MIN(seqs, AQ_SEQS_MAX),
                          .n_snap = in->recurrent ? e->n_parallel * 2 + 6 : 0,
                          .max_rows = AQ_MIN(e->chunk_tok + e->n_parallel, AQ_ROWS_MAX)};
}

static int load_stages(aq_engine *e, const aq_wsrc *src, const aq_engine_cfg *cfg, aq_swap_set *set,
                       aq_stage **ret_own, aq_err *err)
{
    const aq_model_info *in = &e->model->info;

    if (cfg->stage)
        return aq_swap_set_make(e, cfg->stage, cfg->n_stage, set, err);
    aq_state_cfg sc = state_cfg(e, in, cfg, pages_for(in, cfg, e->n_ctx, e->n_parallel));
    aq_place place = cfg->place;
    place.flags &= ~(uint32_t)AQ_PLACE_ENDS;
    int rc = aq_stage_local_on(e->be, e->rt, e->model, src, &place, &sc, 0, in->n_layer,
                               cfg->progress, ret_own, err);
    if (rc < 0)
        return rc;
    uint64_t wb;
    aq_stage_local_bytes(*ret_own, &wb, &e->state_bytes);
    e->weight_bytes += wb;
    return aq_swap_set_make(e, ret_own, 1, set, err);
}

static void describe(aq_engine *e)
{
    const char *path = e->rt ? aq_rt_cpu_path(e->rt) : "none";
    uint32_t n = e->rt ? aq_rt_threads(e->rt) : 1;

    if (!strcmp(e->be->name, "cpu"))
        snprintf(e->device, sizeof e->device, "CPU (%s, %u thread%s)", path, n, n == 1 ? "" : "s");
    else if (!strcmp(e->be->name, "reference"))
        snprintf(e->device, sizeof e->device, "CPU (reference, 1 thread)");
    else
        snprintf(e->device, sizeof e->device, "%s", e->be->name);
}

static void engine_clear(aq_engine *e)
{
    aq_hub *h = e->hub;

    for (uint32_t s = 0; s < AQ_SEQS_MAX; s++) {
        aq_toks_clear(&e->seq[s].log);
        free(e->seq[s].page);
    }
    aq_swap_set_clear(&e->set);
    free(e->op);
    free(e->logits);
    aq_draft_clear(e);
    aq_park_close(e);
    if (e->ends)
        e->be->drop(e->ends);
    aq_hub_unref(h);
    free(e);
}

int aq_engine_new_on(const aq_backend *be, aq_rt *rt, const aq_model *m, const aq_wsrc *src,
                     const aq_engine_cfg *cfg, aq_engine **ret, aq_err *err)
{
    const aq_model_info *in = &m->info;
    uint32_t ctx_max = in->n_ctx_train ? AQ_MIN(in->n_ctx_train, AQ_CTX_MAX) : AQ_CTX_MAX;

    if (cfg->n_ctx > ctx_max)
        return aq_fail(err, AQ_E_LIMIT,
                       "a context of %u tokens was asked for, this model was made for %u",
                       cfg->n_ctx, ctx_max);
    if (cfg->n_parallel > AQ_PARALLEL_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u chats at once were asked for, at most %u are possible",
                       cfg->n_parallel, AQ_PARALLEL_MAX);
    if (cfg->chunk_tok > AQ_ROWS_MAX / 2)
        return aq_fail(err, AQ_E_LIMIT,
                       "prompt chunks of %u tokens were asked for, at most %u are possible",
                       cfg->chunk_tok, AQ_ROWS_MAX / 2);
    if (cfg->n_draft > AQ_DRAFT_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "%u tokens drafted ahead were asked for, at most %u are possible",
                       cfg->n_draft, AQ_DRAFT_MAX);
    if (cfg->n_draft && (!in->n_draft || !be->draft || !be->draft_len))
        return aq_fail(err, AQ_E_UNSUPPORTED, "drafts were asked for, but %s has no draft layers%s",
                       in->n_draft ? "the backend" : "this model",
                       in->n_draft ? "" : " (or none that this version knows); leave drafts off");
    if (cfg->n_stage > AQ_STAGES_MAX || (cfg->stage && !cfg->n_stage))
        return aq_fail(err, AQ_E_INVAL, "%u stages were given, 1 to %u are possible", cfg->n_stage,
                       AQ_STAGES_MAX);
    uint32_t n_ctx = cfg->n_ctx ? cfg->n_ctx : AQ_MIN(8192u, ctx_max);
    uint64_t weights_bytes = in->ends_bytes + (cfg->stage ? 0 : in->stage_bytes);
    for (uint32_t i = 0; i < in->n_layer && !cfg->stage; i++)
        weights_bytes += in->layer_bytes[i];
    int rc =
        aq_mem_check(weights_bytes, cfg->stage ? 0 : aq_mem_state_bytes(in, cfg->kv_type, n_ctx),
                     aq_mem_free_bytes(), err);
    if (rc < 0)
        return rc;
    aq_engine *e = calloc(1, sizeof *e);
    aq_hub *h = calloc(1, sizeof *h);
    if (!e || !h) {
        free(e);
        free(h);
        return aq_fail(err, AQ_E_NOMEM, "no memory for an engine");
    }
    atomic_init(&h->ref, 1);
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->work, NULL);
    pthread_cond_init(&h->swap, NULL);
    h->row_f32 = in->row_f32;
    e->hub = h;
    e->rt = rt;
    e->model = m;
    e->be = be;
    e->recurrent = in->recurrent;
    e->n_ctx = n_ctx;
    e->n_parallel = cfg->n_parallel ? cfg->n_parallel : 4;
    e->chunk_tok = cfg->chunk_tok ? cfg->chunk_tok : 512;
    e->kv_type = cfg->kv_type;
    e->n_draft = cfg->n_draft;
    e->n_vocab = in->n_vocab;
    e->row_f32 = in->row_f32;
    describe(e);

    if (cfg->progress)
        atomic_store(&cfg->progress->total, weights_bytes);
    aq_place ends = {.backend = cfg->place.backend, .flags = AQ_PLACE_ENDS};
    aq_stage *own = NULL;
    aq_swap_set set = {0};
    rc = be->load(rt, m, src, &ends, 0, 0, cfg->progress, &e->ends, err);
    if (rc >= 0) {
        e->weight_bytes = be->bytes(e->ends, NULL);
        rc = load_stages(e, src, cfg, &set, &own, err);
    }
    if (rc >= 0)
        rc = aq_park_open(e, cfg, src, err);
    if (rc >= 0) {
        h->next = &set;
        aq_epoch_begin(e);
        int en = pthread_create(&e->thread, NULL, step_thread, e);
        if (en)
            rc = aq_fail(err, AQ_E_NOMEM,
                         "the engine's thread cannot be started: no memory for it, or too many "
                         "threads run already; close other programs");
    }
    aq_swap_set_clear(&set);
    if (rc < 0) {
        if (own)
            own->vt->close(own); /* stages that were given stay the caller's when this fails */
        engine_clear(e);
        return rc;
    }
    *ret = e;
    return 0;
}

int aq_engine_new(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_engine_cfg *cfg,
                  aq_engine **ret, aq_err *err)
{
    const aq_backend *be;
    int rc = aq_backend_find(cfg->place.backend, &be, err);

    return rc < 0 ? rc : aq_engine_new_on(be, rt, m, src, cfg, ret, err);
}

void aq_engine_free(aq_engine *e)
{
    if (!e)
        return;
    aq_hub *h = e->hub;
    pthread_mutex_lock(&h->mu);
    h->stop = true;
    atomic_store(&h->hurry, true); /* before the stages are told: no window slips in between */
    for (uint32_t i = 0; i < h->n_stage; i++)
        aq_stage_local_stop(h->stage[i]);
    pthread_cond_signal(&h->work);
    pthread_cond_broadcast(&h->swap);
    pthread_mutex_unlock(&h->mu);
    pthread_join(e->thread, NULL);

    pthread_mutex_lock(&h->mu);
    h->dead = true; /* requests touch no stage from here on */
    pthread_mutex_unlock(&h->mu);
    for (uint32_t i = 0; i < h->n_stage; i++)
        h->stage[i]->vt->close(h->stage[i]);
    aq_pipe_drop_all(e);
    engine_clear(e);
}

void aq_engine_get_info(const aq_engine *e, aq_engine_info *ret)
{
    *ret = (aq_engine_info){.backend = e->be->name,
                            .device = e->device,
                            .n_ctx = e->n_ctx,
                            .n_parallel = e->n_parallel,
                            .n_page = atomic_load(&e->st_n_page),
                            .epoch = atomic_load(&e->st_epoch),
                            .kv_type = e->kv_type,
                            .n_draft = e->n_draft,
                            .weight_bytes = e->weight_bytes,
                            .state_bytes = e->state_bytes};
}

void aq_engine_forget(aq_engine *e)
{
    atomic_store(&e->forget, true);
    aq_hub_kick(e->hub);
}

void aq_engine_get_stats(const aq_engine *e, aq_engine_stats *ret)
{
    *ret = (aq_engine_stats){.n_running = atomic_load(&e->st_running),
                             .n_queued = atomic_load(&e->st_queued),
                             .n_parked = atomic_load(&e->st_parked),
                             .pages_used = atomic_load(&e->st_pages),
                             .paused = atomic_load(&e->st_paused),
                             .n_window = atomic_load(&e->st_window),
                             .rows_read = atomic_load(&e->st_read),
                             .n_disk = atomic_load(&e->st_disk),
                             .disk_bytes = atomic_load(&e->st_disk_bytes),
                             .rows_gen = atomic_load(&e->st_gen),
                             .here_us = atomic_load(&e->st_here_us)};
}
