/* SPDX-License-Identifier: Apache-2.0 */
/* A stage on another PC, as the coordinator's engine sees it.
 *
 *   submit (step thread): window ─▶ one WINDOW frame ─▶ the link's queue           never blocks
 *   ROWS   (link thread): completes the oldest window with aq_stage_done
 *   end of the link:      every window under way ends with GONE (or PROTO), and gone_cb is told
 *
 * The wire counts windows from 1 within the epoch of CONFIG; the engine's own ids and epochs wait here
 * in a ring. Frame, row and ring memory is kept, so that nothing is allocated in the steady state.
 *
 * Lock order: remote.lock, then the link's. No completion is delivered under the lock. */
#include "split-priv.h"

#include <pthread.h>
#include <time.h>

#define INFLIGHT_MAX 16u
#define ASK_US 500000ll /* between questions how far loading is */

typedef enum phase { DIALING, LOADING, READY, FAILED } phase;

typedef struct under_way {
    uint64_t id, seq;
    uint32_t epoch, n_rows;
    int64_t sent_us;
} under_way;

typedef struct remote {
    aq_stage stage;
    aq_remote_cfg cfg;
    aq_id to;
    aq_link *link;
    aq_wire_fmt fmt;
    aq_bytes frame;       /* step thread */
    aq_wire_rows rows;    /* link thread */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t cond;
    phase phase;
    bool closing;
    aq_err why; /* FAILED */
    char name[AQ_NAME_MAX + 1];
    uint64_t config_seq, seq_out, done_bytes, total_bytes;
    under_way q[INFLIGHT_MAX];
    uint32_t head, n;
    aq_remote_times times;
} remote;

/* ---- the link's thread ----------------------------------------------------------------------- */

static int put_config(const remote *t, aq_bytes *b)
{
    static const char *const kv[] = {
        [AQ_KV_F16] = "f16", [AQ_KV_F32] = "f32", [AQ_KV_Q8_0] = "q8_0"};
    const aq_remote_cfg *c = &t->cfg;

    if (c->state.kv_type >= AQ_LEN(kv))
        return -AQ_E_INVAL;
    int rc = aq_kv_put_u64(b, "epoch", c->epoch);
    rc = rc < 0 ? rc : aq_kv_put_hex(b, "model", c->model, sizeof c->model);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "l0", c->l0);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "l1", c->l1);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "row_f32", c->row_f32);
    rc = rc < 0 ? rc : aq_kv_put_text(b, "rows", aq_rows_name(c->rows));
    rc = rc < 0 ? rc : aq_kv_put_text(b, "kv", kv[c->state.kv_type]);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "n_page", c->state.n_page);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "max_seq", c->state.max_seq);
    rc = rc < 0 ? rc : aq_kv_put_u64(b, "n_snap", c->state.n_snap);
    return rc < 0 ? rc : aq_kv_put_u64(b, "max_rows", c->state.max_rows);
}

static void fail(remote *t, const aq_err *why)
{
    if (t->phase == FAILED)
        return;
    t->phase = FAILED;
    t->why = *why;
    if (!t->why.code)
        aq_fail(&t->why, AQ_E_GONE, "the connection was closed");
    pthread_cond_broadcast(&t->cond);
}

static void open_cb(void *user, aq_link *link)
{
    remote *t = user;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_err err = {0};
    int rc = put_config(t, &b);

    pthread_mutex_lock(&t->lock);
    memcpy(t->name, aq_link_peer(link)->name, sizeof t->name);
    if (rc < 0)
        rc = aq_fail(&err, -rc, "what %s is asked to do cannot be written down", t->name);
    else
        rc = aq_link_send(link, AQ_T_CONFIG, 0, b.p, b.n, &t->config_seq, &err);
    if (rc < 0)
        fail(t, &err);
    else if (t->phase == DIALING)
        t->phase = LOADING;
    pthread_mutex_unlock(&t->lock);
}

static int got_ready(remote *t, const uint8_t *p, size_t n, aq_err *err)
{
    aq_stage *st = &t->stage;
    uint32_t epoch = 0;
    aq_kv kv;
    int rc = aq_kv_parse(p, n, &kv, err);

    if (rc < 0 || (rc = aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &epoch, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "n_page", true, t->cfg.state.n_page, &st->n_page, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "max_seq", true, AQ_SEQS_MAX, &st->max_seq, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "n_snap", true, UINT32_MAX, &st->n_snap, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "max_rows", true, t->cfg.state.max_rows, &st->max_rows, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "n_inflight", true, UINT32_MAX, &st->n_inflight, err)) < 0)
        return rc;
    if (epoch != t->cfg.epoch || !st->n_inflight || !st->n_page || !st->max_rows || !st->max_seq)
        return aq_fail(err, AQ_E_PROTO, "%s is ready for something else than it was asked for",
                       t->name);
    st->n_inflight = AQ_MIN(st->n_inflight, INFLIGHT_MAX);
    t->phase = READY;
    pthread_cond_broadcast(&t->cond);
    return 0;
}

static int got_rows(remote *t, const aq_hdr *h, const uint8_t *p, aq_err *err)
{
    int64_t now = aq_now_us();
    int rc = aq_wire_get_rows(p, h->length, &t->fmt, &t->rows, err);

    if (rc < 0)
        return rc;
    aq_done d = t->rows.d;
    pthread_mutex_lock(&t->lock);
    under_way u = t->q[t->head];
    if (!t->n || u.seq != h->seq) {
        pthread_mutex_unlock(&t->lock);
        return aq_fail(err, AQ_E_PROTO, "%s answered window %llu, which is not the next", t->name,
                       (unsigned long long)h->seq);
    }
    t->head = (t->head + 1) % INFLIGHT_MAX;
    t->n--;
    uint64_t self = 0, all = (uint64_t)AQ_MAX(now - u.sent_us, 0);
    for (uint32_t i = 0; i < d.n_hop; i++)
        self += d.hop[i].self_us;
    self = AQ_MIN(self, all);
    t->times.n_window++;
    t->times.n_row += u.n_rows;
    t->times.worker_us += self;
    t->times.net_us += all - self;
    pthread_mutex_unlock(&t->lock);
    aq_hop hop = {.stage = t->cfg.l0,
                  .self_us = (uint32_t)AQ_MIN(self, (uint64_t)UINT32_MAX),
                  .net_us = (uint32_t)AQ_MIN(all - self, (uint64_t)UINT32_MAX)};
    d.id = u.id;
    d.epoch = u.epoch;
    d.hop = &hop;
    d.n_hop = 1;
    if (d.rc < 0)
        aq_err_prefix(&d.err, d.rc, "%s", t->name);
    aq_stage_done(&t->stage, &d);
    return 0;
}

static int got_stats(remote *t, const uint8_t *p, size_t n, aq_err *err)
{
    aq_kv kv;
    int rc = aq_kv_parse(p, n, &kv, err);

    rc = rc < 0 ? rc : aq_kv_u64(&kv, "done", false, UINT64_MAX, &t->done_bytes, err);
    rc = rc < 0 ? rc : aq_kv_u64(&kv, "total", false, UINT64_MAX, &t->total_bytes, err);
    return rc < 0 ? rc : 0;
}

static int frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *p, aq_err *err)
{
    remote *t = user;
    int rc = 0;

    if (h->type == AQ_T_ROWS)
        return got_rows(t, h, p, err);
    pthread_mutex_lock(&t->lock);
    switch (h->type) {
    case AQ_T_READY:
        rc = got_ready(t, p, h->length, err);
        break;
    case AQ_T_BUSY:
    case AQ_T_ERROR: { /* with `re`: the answer to CONFIG, else the link would have ended */
        aq_err why = {0};
        (void)!aq_told(h->type, p, h->length, t->name, &why);
        fail(t, &why);
        break;
    }
    case AQ_T_STATS:
        rc = got_stats(t, p, h->length, err);
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&t->lock);
    (void)link;
    return rc;
}

/* The engine pauses for GONE, TIMEOUT and PROTO; whatever ends a link otherwise is GONE to it. */
static aq_err as_gone(const aq_err *why)
{
    aq_err e = *why;

    if (e.code != AQ_E_PROTO && e.code != AQ_E_TIMEOUT)
        e.code = AQ_E_GONE;
    return e;
}

static void closed_cb(void *user, aq_link *link, const aq_err *why)
{
    remote *t = user;

    (void)link;
    pthread_mutex_lock(&t->lock);
    bool was_ready = t->phase == READY;
    fail(t, why);
    aq_err e = as_gone(&t->why), as_it_is = t->why;
    bool closing = t->closing;
    while (t->n) {
        aq_done d = {.id = t->q[t->head].id, .epoch = t->q[t->head].epoch, .rc = -e.code, .err = e};
        t->head = (t->head + 1) % INFLIGHT_MAX;
        t->n--;
        pthread_mutex_unlock(&t->lock);
        aq_stage_done(&t->stage, &d);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    if (was_ready && !closing && t->cfg.gone_cb)
        t->cfg.gone_cb(t->cfg.user, &t->stage, &as_it_is);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    /* A window whose rows failed before it came here may be empty. The wire has no such thing, and
     * the order of completions must stay: dropping a snapshot that never was changes nothing. */
    static const aq_op nothing = {.kind = AQ_OP_FREE, .seq = AQ_SEQ_NONE, .arg = UINT64_MAX};
    remote *t = st->self;
    aq_window win = *w;
    uint64_t seq;
    int rc;

    if (!win.n_ops && !win.n_rows) {
        win.op = &nothing;
        win.n_ops = 1;
    }
    win.epoch = t->cfg.epoch;
    pthread_mutex_lock(&t->lock);
    bool full = t->n >= st->n_inflight, ready = t->phase == READY;
    aq_err why = t->why;
    seq = t->seq_out + 1;
    pthread_mutex_unlock(&t->lock);
    if (!ready) {
        why = as_gone(&why);
        if (err)
            *err = why;
        return -why.code;
    }
    if (full)
        return aq_fail(err, AQ_E_BUSY, "%u windows are under way on %s", st->n_inflight, t->name);
    t->frame.n = 0;
    if ((rc = aq_wire_put_window(&t->frame, seq, &win, &t->fmt, NULL, 0, err)) < 0)
        return rc;
    pthread_mutex_lock(&t->lock);
    if (t->phase != READY) {
        why = as_gone(&t->why);
        if (err)
            *err = why;
        rc = -why.code;
    } else {
        t->q[(t->head + t->n++) % INFLIGHT_MAX] = (under_way){.id = w->id,
                                                              .seq = seq,
                                                              .epoch = w->epoch,
                                                              .n_rows = w->n_rows,
                                                              .sent_us = aq_now_us()};
        if ((rc = aq_link_send_data(t->link, &t->frame, err)) < 0)
            t->n--;
        else
            t->seq_out = seq;
    }
    pthread_mutex_unlock(&t->lock);
    return rc == -AQ_E_INVAL ? aq_fail(err, AQ_E_GONE, "%s does not take windows now", t->name)
                             : rc;
}

static void cancel(aq_stage *st, uint32_t seq)
{
    remote *t = st->self;
    char text[96];

    pthread_mutex_lock(&t->lock);
    if (t->phase == READY && t->n) {
        int n = snprintf(text, sizeof text, "epoch=%u\nwin=%llu\nseq=%u\n", t->cfg.epoch,
                         (unsigned long long)t->seq_out, seq);
        (void)!aq_link_send(t->link, AQ_T_CANCEL, 0, text, (size_t)n, NULL, NULL);
    }
    pthread_mutex_unlock(&t->lock);
}

static void close_stage(aq_stage *st)
{
    remote *t = st ? st->self : NULL;

    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_mutex_unlock(&t->lock);
    aq_link_free(t->link);
    aq_bytes_clear(&t->frame);
    aq_wire_rows_clear(&t->rows);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->cond);
    free(t);
}

static const aq_stage_vt vt = {submit, NULL, cancel, close_stage};

int aq_remote_dial(const aq_remote_cfg *cfg, aq_stage **ret, aq_err *err)
{
    remote *t = calloc(1, sizeof *t);
    pthread_condattr_t attr;

    if (!t)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a stage");
    t->cfg = *cfg;
    if (cfg->to)
        t->to = *cfg->to;
    t->cfg.to = cfg->to ? &t->to : NULL;
    t->fmt =
        (aq_wire_fmt){.row_f32 = cfg->row_f32, .max_rows = cfg->state.max_rows, .type = cfg->rows};
    t->stage = (aq_stage){.vt = &vt, .self = t, .l0 = cfg->l0, .l1 = cfg->l1};
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->cond, &attr);
    pthread_condattr_destroy(&attr);
    aq_dial d = {.addr = cfg->addr, .n_addr = cfg->n_addr, .purpose = AQ_FOR_STEP, .to = t->cfg.to};
    aq_link_cb cb = {t, open_cb, frame_cb, NULL, closed_cb};
    /* The lock keeps the link's thread from using t->link before it is there. */
    pthread_mutex_lock(&t->lock);
    int rc = aq_link_dial(cfg->net, &d, &cb, &t->link, err);
    pthread_mutex_unlock(&t->lock);
    if (rc < 0) {
        close_stage(&t->stage);
        return rc;
    }
    t->cfg.addr = NULL; /* the caller's */
    *ret = &t->stage;
    return 0;
}

int aq_remote_wait(aq_stage *st, aq_progress *prog, aq_err *err)
{
    remote *t = st->self;
    int64_t asked_us = aq_now_us();
    int rc = 0;

    pthread_mutex_lock(&t->lock);
    while (t->phase == DIALING || t->phase == LOADING) {
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_nsec += 100000000;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&t->cond, &t->lock, &end);
        if (prog && atomic_load(&prog->cancel)) {
            rc = aq_fail(err, AQ_E_CANCELLED, "stopped while %s was loading",
                         t->name[0] ? t->name : "the other PC");
            break;
        }
        if (t->phase != LOADING)
            continue;
        if (aq_now_us() - asked_us >= ASK_US) {
            asked_us = aq_now_us();
            (void)!aq_link_send(t->link, AQ_T_STATS, 0, "", 0, NULL, NULL);
        }
        if (prog && t->total_bytes) {
            atomic_store(&prog->total, t->total_bytes);
            atomic_store(&prog->done, t->done_bytes);
        }
    }
    if (rc == 0 && t->phase == FAILED) {
        rc = -t->why.code;
        if (err)
            *err = t->why;
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void aq_remote_get_times(aq_stage *st, aq_remote_times *ret)
{
    remote *t = st->self;

    pthread_mutex_lock(&t->lock);
    *ret = t->times;
    pthread_mutex_unlock(&t->lock);
}

void aq_remote_name(aq_stage *st, char ret[AQ_NAME_MAX + 1])
{
    remote *t = st->self;

    pthread_mutex_lock(&t->lock);
    memcpy(ret, t->name, AQ_NAME_MAX + 1);
    pthread_mutex_unlock(&t->lock);
}

void aq_remote_addr(aq_stage *st, char ret[AQ_ADDR_MAX + 1])
{
    aq_link_addr(((remote *)st->self)->link, ret);
}

void aq_remote_get_count(aq_stage *st, aq_link_count *ret)
{
    aq_link_get_count(((remote *)st->self)->link, ret);
}
