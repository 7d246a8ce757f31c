/* SPDX-License-Identifier: Apache-2.0 */
/* A stage computed in this process: a backend's weights and state behind a queue of copied windows.
 *
 *   submit: check, copy into a free slot                          (the owner's thread)
 *   work:   oldest slot -> operations -> forward -> aq_stage_done (the owner's thread)
 *   cancel: mark the slots that hold rows of this seq; the one being computed stops at its
 *           next layer                                            (any thread)
 *
 * The owner's thread is the engine's step thread, or a worker's loop.
 *
 * Operations of a window are applied whatever becomes of its rows. */
#include <pthread.h>

#include "stage-priv.h"

#define LOCAL_INFLIGHT 4u

typedef struct slot {
    aq_window win; /* op, row and x point into this slot's own memory */
    bool cancelled;
} slot;

typedef struct local {
    aq_stage stage;
    const aq_backend *be;
    void *w, *s;
    aq_state_cfg cfg;
    uint32_t row_f32;
    const aq_expert_host *const *host;
    uint32_t n_host;
    float *out; /* [out_rows][row_f32] */
    uint32_t out_rows;
    pthread_mutex_t mu; /* guards what follows */
    slot slot[LOCAL_INFLIGHT];
    uint32_t head, n; /* slot[head .. head + n) are under way, oldest first */
    atomic_uint stop; /* for the oldest, while it is computed */
} local;

void aq_stage_done(aq_stage *st, const aq_done *d)
{
    if (st->done_cb)
        st->done_cb(st->done_user, st, d);
}

static void slot_clear(slot *s)
{
    free((void *)s->win.op);
    free((void *)s->win.row);
    free((void *)s->win.x);
    *s = (slot){0};
}

/* A window comes from outside (a peer): everything that is used as a size or an index is checked
 * here; what depends on the state (seqs, positions, pages) is the backend's to check. */
static int check_window(const local *l, const aq_window *w, aq_err *err)
{
    const aq_stage *st = &l->stage;
    uint32_t back = 0;

    if (w->n_rows > st->max_rows || w->n_ops > AQ_OPS_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "window of %u rows and %u operations, this stage takes %u and %u", w->n_rows,
                       w->n_ops, st->max_rows, AQ_OPS_MAX);
    if ((w->n_rows && (!w->row || !w->x)) || (w->n_ops && !w->op))
        return aq_fail(err, AQ_E_INVAL, "window of %u rows without its rows", w->n_rows);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        if (w->row[i].seq >= st->max_seq)
            return aq_fail(err, AQ_E_INVAL, "row %u names seq %u, this stage has %u", i,
                           w->row[i].seq, st->max_seq);
        back += (w->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS)) != 0;
    }
    if (back != w->n_back)
        return aq_fail(err, AQ_E_INVAL, "window says %u rows come back, its rows say %u", w->n_back,
                       back);
    return 0;
}

static int dup_to(const void *src, size_t n, const void **ret)
{
    if (!n)
        return 0;
    void *p = malloc(n);
    if (!p)
        return -1;
    memcpy(p, src, n);
    *ret = p;
    return 0;
}

static int local_submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    local *l = st->self;
    int rc = check_window(l, w, err);
    if (rc < 0)
        return rc;

    pthread_mutex_lock(&l->mu);
    uint32_t at = (l->head + l->n) % LOCAL_INFLIGHT;
    bool full = l->n >= st->n_inflight;
    pthread_mutex_unlock(&l->mu);
    if (full)
        return aq_fail(err, AQ_E_BUSY, "%u windows are under way, this stage takes %u",
                       st->n_inflight, st->n_inflight);

    slot s = {.win =
                  *w}; /* the slot itself is touched under the lock only: cancel looks at slots */
    const void *op = NULL, *row = NULL, *x = NULL;
    bool ok = dup_to(w->op, w->n_ops * sizeof *w->op, &op) == 0 &&
              dup_to(w->row, w->n_rows * sizeof *w->row, &row) == 0 &&
              dup_to(w->x, (size_t)w->n_rows * l->row_f32 * sizeof *w->x, &x) == 0;
    s.win.op = op;
    s.win.row = row;
    s.win.x = x;
    if (!ok) {
        slot_clear(&s);
        return aq_fail(err, AQ_E_NOMEM, "no memory for a window of %u rows", w->n_rows);
    }
    pthread_mutex_lock(&l->mu);
    l->slot[at] = s;
    l->n++;
    pthread_mutex_unlock(&l->mu);
    return 0;
}

static int compute(local *l, const slot *s, bool cancelled, aq_err *err)
{
    const aq_window *w = &s->win;

    if (!l->s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the state of layers %u to %u", l->stage.l0,
                       l->stage.l1);
    int rc = w->n_ops ? l->be->apply(l->s, w->op, w->n_ops, err) : 0;

    if (rc < 0 || !w->n_rows)
        return rc;
    if (cancelled)
        return aq_fail(err, AQ_E_CANCELLED, "stopped before it was computed");
    if (w->n_back > l->out_rows) {
        float *p = realloc(l->out, (size_t)w->n_back * l->row_f32 * sizeof *p);
        if (!p)
            return aq_fail(err, AQ_E_NOMEM, "no memory for %u rows", w->n_back);
        l->out = p;
        l->out_rows = w->n_back;
    }
    rc = l->be->forward(l->w, l->s, w, l->host, l->n_host, l->out, &l->stop, err);
    if (rc >= 0 && l->be->sync)
        rc = l->be->sync(l->w, err);
    return rc;
}

static int local_work(aq_stage *st, aq_err *err)
{
    local *l = st->self;

    (void)err; /* a window's failure is its completion's */
    pthread_mutex_lock(&l->mu);
    slot *s = &l->slot[l->head];
    bool any = l->n > 0, cancelled = any && s->cancelled;
    if (any && !cancelled)
        atomic_store(&l->stop, 0);
    pthread_mutex_unlock(&l->mu);
    if (!any)
        return 0;

    int64_t t0 = aq_now_us();
    aq_done d = {.id = s->win.id, .epoch = s->win.epoch};
    d.rc = compute(l, s, cancelled, &d.err);
    aq_hop hop = {.self_us = (uint32_t)AQ_MIN(aq_now_us() - t0, (int64_t)UINT32_MAX)};
    if (d.rc >= 0) {
        d.rc = 0;
        d.n_back = s->win.n_back;
        d.x = d.n_back ? l->out : NULL;
        d.n_hop = 1;
        d.hop = &hop;
    }
    /* the slot is free before the owner hears of it: a submit from the callback must find room */
    pthread_mutex_lock(&l->mu);
    slot_clear(s);
    l->head = (l->head + 1) % LOCAL_INFLIGHT;
    l->n--;
    pthread_mutex_unlock(&l->mu);
    aq_stage_done(st, &d);
    return 1;
}

static void mark(local *l, uint32_t seq, bool all)
{
    pthread_mutex_lock(&l->mu);
    for (uint32_t i = 0; i < l->n; i++) {
        slot *s = &l->slot[(l->head + i) % LOCAL_INFLIGHT];
        bool named = all && s->win.n_rows;
        for (uint32_t k = 0; !named && k < s->win.n_rows; k++)
            named = s->win.row[k].seq == seq;
        if (!named)
            continue;
        s->cancelled = true;
        if (i == 0)
            atomic_store(&l->stop, 1);
    }
    pthread_mutex_unlock(&l->mu);
}

static void local_cancel(aq_stage *st, uint32_t seq)
{
    mark(st->self, seq, false);
}

static void local_close(aq_stage *st)
{
    local *l = st ? st->self : NULL;

    if (!l)
        return;
    for (uint32_t i = 0; i < LOCAL_INFLIGHT; i++)
        slot_clear(&l->slot[i]);
    if (l->s)
        l->be->drop_state(l->s);
    if (l->w)
        l->be->drop(l->w);
    free(l->out);
    pthread_mutex_destroy(&l->mu);
    free(l);
}

static const aq_stage_vt local_vt = {local_submit, local_work, local_cancel, local_close};

int aq_stage_local_on(const aq_backend *be, aq_rt *rt, const aq_model *m, const aq_wsrc *src,
                      const aq_place *place, const aq_state_cfg *cfg, uint32_t l0, uint32_t l1,
                      aq_progress *prog, aq_stage **ret, aq_err *err)
{
    const aq_model_info *in = aq_model_get_info(m);

    if (l0 >= l1 || l1 > in->n_layer)
        return aq_fail(err, AQ_E_INVAL, "layers %u to %u asked for, the model has %u", l0, l1,
                       in->n_layer);
    if (!in->cut_ok[l0] || !in->cut_ok[l1])
        return aq_fail(err, AQ_E_INVAL, "this model cannot be parted before layer %u",
                       in->cut_ok[l0] ? l1 : l0);
    if (!cfg->max_seq || cfg->max_seq > AQ_SEQS_MAX || !cfg->n_page || !cfg->max_rows ||
        cfg->max_rows > AQ_ROWS_MAX)
        return aq_fail(err, AQ_E_INVAL,
                       "a stage of %u seqs, %u pages and windows of %u rows cannot be made",
                       cfg->max_seq, cfg->n_page, cfg->max_rows);
    local *l = calloc(1, sizeof *l);
    if (!l)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a stage");
    l->be = be;
    l->cfg = *cfg;
    l->row_f32 = in->row_f32;
    pthread_mutex_init(&l->mu, NULL);
    l->stage = (aq_stage){.vt = &local_vt,
                          .self = l,
                          .l0 = l0,
                          .l1 = l1,
                          .n_page = cfg->n_page,
                          .n_snap = cfg->n_snap,
                          .max_rows = cfg->max_rows,
                          .max_seq = cfg->max_seq,
                          .n_inflight = LOCAL_INFLIGHT};
    int rc = be->load(rt, m, src, place, l0, l1, prog, &l->w, err);
    if (rc >= 0)
        rc = be->state(l->w, cfg, &l->s, err);
    if (rc < 0) {
        local_close(&l->stage);
        return rc;
    }
    *ret = &l->stage;
    return 0;
}

int aq_stage_local(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                   const aq_state_cfg *cfg, uint32_t l0, uint32_t l1, aq_progress *prog,
                   aq_stage **ret, aq_err *err)
{
    const aq_backend *be;
    int rc = aq_backend_find(place->backend, &be, err);

    return rc < 0 ? rc : aq_stage_local_on(be, rt, m, src, place, cfg, l0, l1, prog, ret, err);
}

int aq_stage_local_hosts(aq_stage *st, const aq_expert_host *const *host, uint32_t n, aq_err *err)
{
    local *l = st->self;

    if (st->vt != &local_vt)
        return aq_fail(err, AQ_E_INVAL,
                       "the experts of a stage in another process cannot be moved from here");
    pthread_mutex_lock(&l->mu);
    uint32_t busy = l->n;
    pthread_mutex_unlock(&l->mu);
    if (busy)
        return aq_fail(err, AQ_E_BUSY,
                       "%u windows are under way; experts move only between windows", busy);
    l->host = n ? host : NULL;
    l->n_host = n;
    return 0;
}

int aq_stage_local_reset(aq_stage *st, aq_err *err)
{
    local *l = st->self;

    if (st->vt != &local_vt)
        return aq_fail(err, AQ_E_INVAL, "a stage in another process cannot be emptied from here");
    pthread_mutex_lock(&l->mu);
    for (; l->n; l->n--) {
        slot_clear(&l->slot[l->head]);
        l->head = (l->head + 1) % LOCAL_INFLIGHT;
    }
    pthread_mutex_unlock(&l->mu);
    /* made anew rather than emptied: two of them may not fit */
    if (l->s)
        l->be->drop_state(l->s);
    l->s = NULL;
    return l->be->state(l->w, &l->cfg, &l->s, err);
}

void aq_stage_local_stop(aq_stage *st)
{
    if (st->vt == &local_vt)
        mark(st->self, 0, true);
}

void aq_stage_local_bytes(const aq_stage *st, uint64_t *ret_weights, uint64_t *ret_state)
{
    const local *l = st->vt == &local_vt ? st->self : NULL;

    *ret_weights = l ? l->be->bytes(l->w, NULL) : 0;
    *ret_state = l ? l->be->bytes(NULL, l->s) : 0;
}

bool aq_stage_is_local(const aq_stage *st)
{
    return st->vt == &local_vt;
}

static int at_rest(aq_stage *st, aq_err *err)
{
    local *l = st->self;

    if (st->vt != &local_vt)
        return aq_fail(err, AQ_E_INVAL, "this stage is in another process");
    pthread_mutex_lock(&l->mu);
    uint32_t busy = l->n;
    pthread_mutex_unlock(&l->mu);
    if (busy || !l->s)
        return aq_fail(err, AQ_E_INVAL, "%u windows are under way", busy);
    return 0;
}

int aq_stage_local_apply(aq_stage *st, const aq_op *op, uint32_t n, aq_err *err)
{
    local *l = st->self;
    int rc = at_rest(st, err);

    return rc < 0 || !n ? rc : l->be->apply(l->s, op, n, err);
}

int aq_stage_local_io(aq_stage *st, bool load, uint32_t seq, uint32_t n_tok, const uint64_t *snap,
                      const uint32_t *snap_tok, uint32_t n_snap, aq_state_io_fn io, void *user,
                      aq_err *err)
{
    local *l = st->self;
    int rc = at_rest(st, err);

    if (rc >= 0 && !l->be->state_io)
        rc =
            aq_fail(err, AQ_E_UNSUPPORTED, "the backend %s keeps its state to itself", l->be->name);
    return rc < 0 ? rc
                  : l->be->state_io(l->s, load, seq, n_tok, snap, snap_tok, n_snap, io, user, err);
}
