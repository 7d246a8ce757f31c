/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: computes a range of layers for another PC and knows nothing of requests.
 *
 *   link thread     CONFIG ─▶ want          WINDOW ─▶ stage.submit (copies) + queue     CANCEL, STATS at once
 *   compute thread  want ─▶ find, load or empty, READY          queue ─▶ stage.work ─▶ ROWS
 *
 * One coordinator owns the worker: the first whose CONFIG comes. Another PC is answered BUSY with its
 * name; the same PC takes its own old session over (another boot, or a higher epoch), and the old link
 * is told BYE. When the owner's link ends, what it had under way is dropped and the layers stay
 * loaded for the next: the same CONFIG then reads no weights.
 *
 * `gen` numbers owners and configurations; what was begun under another one is not answered.
 * Lock order: worker.lock, then a stage's or a link's own. A link is freed under no lock. */
#include "member-priv.h"
#include "split-priv.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define PEERS_MAX 16u
#define QUEUE_MAX 16u

typedef struct config {
    uint32_t epoch, l0, l1;
    uint8_t model[32];
    aq_state_cfg state;
    aq_wire_fmt fmt;
} config;

typedef struct peer {
    aq_worker *w;
    aq_link *link; /* NULL = free slot */
    bool closed;
    aq_id id;
    uint8_t boot[8];
    char name[AQ_NAME_MAX + 1];
    aq_wire_win win; /* its link's thread */
} peer;

typedef struct job {
    uint64_t seq, gen;
    uint32_t epoch, n_rows;
    int64_t came_us;
    int rc; /* refused: the stage does not have it */
    aq_err err;
} job;

struct aq_worker {
    aq_worker_cfg cfg;
    char backend[32];
    aq_finder *finder;
    pthread_t thread;
    bool started;
    /* compute thread */
    aq_model *model;
    aq_wsrc src;
    config loaded; /* what stage is */
    aq_bytes frame;
    job now;      /* the one in work() */
    aq_err fault; /* of it, when it failed for a reason of this PC */
    aq_progress load;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t cond;
    bool stop, want, ready;
    aq_stage *stage; /* written under the lock by the compute thread, read by it without */
    peer peer[PEERS_MAX];
    peer *owner; /* NULL = nobody */
    config cfg_now;
    uint64_t cfg_seq, gen;
    job q[QUEUE_MAX];
    uint32_t head, n;
    uint64_t n_load, n_config, n_window, n_row, busy_us;
    aq_backoff trouble;
    uint64_t held_bytes; /* what stage takes: given back before others are loaded */
};

/* ---- links ----------------------------------------------------------------------------------- */

/* Under the lock: nobody works for the owner any more; the layers stay. */
static void disown(aq_worker *w)
{
    w->owner = NULL;
    w->gen++;
    w->n = 0;
    w->want = w->ready = false;
    atomic_store(&w->load.cancel, 1);
    if (w->stage)
        aq_stage_local_stop(w->stage);
    pthread_cond_broadcast(&w->cond);
}

/* Free the links that ended. Not under the lock, not on a link's thread. */
static void reap(aq_worker *w)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        peer *p = &w->peer[i];
        pthread_mutex_lock(&w->lock);
        aq_link *l = p->closed ? p->link : NULL;
        if (l)
            p->closed = false; /* ours now; the slot is taken until link is NULL */
        pthread_mutex_unlock(&w->lock);
        if (!l)
            continue;
        aq_link_free(l);
        aq_wire_win_clear(&p->win);
        pthread_mutex_lock(&w->lock);
        p->link = NULL;
        pthread_mutex_unlock(&w->lock);
    }
}

static int parse_config(const uint8_t *p, size_t n, config *ret, aq_err *err)
{
    char kv_name[8], rows[8];
    config c = {0};
    aq_kv kv;
    int rc = aq_kv_parse(p, n, &kv, err);

    if (rc < 0 || (rc = aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &c.epoch, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "model", true, c.model, sizeof c.model, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "l0", true, AQ_LAYERS_MAX, &c.l0, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "l1", true, AQ_LAYERS_MAX, &c.l1, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "row_f32", true, AQ_WIRE_ROW_F32_MAX, &c.fmt.row_f32, err)) < 0 ||
        (rc = aq_kv_text(&kv, "rows", true, rows, sizeof rows, err)) < 0 ||
        (rc = aq_kv_text(&kv, "kv", true, kv_name, sizeof kv_name, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "n_page", true, AQ_CTX_MAX, &c.state.n_page, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "max_seq", true, AQ_SEQS_MAX, &c.state.max_seq, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "n_snap", true, 1u << 20, &c.state.n_snap, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "max_rows", true, AQ_ROWS_MAX, &c.state.max_rows, err)) < 0)
        return rc;
    int type = aq_rows_type(rows);
    if (type < 0)
        return aq_fail(err, AQ_E_UNSUPPORTED, "rows of type %s are unknown here", rows);
    c.fmt.type = (uint32_t)type;
    c.fmt.max_rows = c.state.max_rows;
    if (!strcmp(kv_name, "f16"))
        c.state.kv_type = AQ_KV_F16;
    else if (!strcmp(kv_name, "f32"))
        c.state.kv_type = AQ_KV_F32;
    else if (!strcmp(kv_name, "q8_0"))
        c.state.kv_type = AQ_KV_Q8_0;
    else
        return aq_fail(err, AQ_E_UNSUPPORTED, "a KV cache of type %s is unknown here", kv_name);
    *ret = c;
    return 0;
}

/* Under the lock. */
static int send_busy(aq_worker *w, aq_link *link, uint64_t re, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    const peer *o = w->owner;
    char text[AQ_NAME_MAX + 40];

    snprintf(text, sizeof text, "this PC works for %s", o->name);
    if (aq_kv_put_u64(&b, "re", re) < 0 || aq_kv_put_hex(&b, "who_id", o->id.b, 32) < 0 ||
        aq_kv_put_text(&b, "who_name", o->name) < 0 || aq_kv_put_text(&b, "text", text) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for an answer");
    return aq_link_send(link, AQ_T_BUSY, 0, b.p, b.n, NULL, err);
}

/* re 0: the connection is over with it. */
static int send_error(aq_link *link, uint64_t re, const aq_err *why, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    if (aq_kv_put_u64(&b, "code", (uint64_t)why->code) < 0 ||
        aq_kv_put_text(&b, "text", why->text) < 0 || (re && aq_kv_put_u64(&b, "re", re) < 0))
        return aq_fail(err, AQ_E_NOMEM, "no memory for an answer");
    return aq_link_send(link, AQ_T_ERROR, 0, b.p, b.n, NULL, err);
}

/* Under the lock. */
static int got_config(aq_worker *w, peer *p, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    aq_err why = {0};
    config c;
    peer *o = w->owner;

    if (parse_config(payload, h->length, &c, &why) < 0) {
        if (o == p)
            disown(w);
        return send_error(p->link, h->seq, &why, err);
    }
    if (o && o != p) {
        bool own = aq_id_equal(&o->id, &p->id);
        if (!own || (!memcmp(o->boot, p->boot, sizeof o->boot) && c.epoch <= w->cfg_now.epoch))
            return send_busy(w, p->link, h->seq, err);
        aq_link_close(o->link, "replaced");
    }
    if (o)
        disown(w);
    w->owner = p;
    w->cfg_now = c;
    w->cfg_seq = h->seq;
    w->gen++;
    w->want = true;
    w->n_config++;
    pthread_cond_broadcast(&w->cond);
    return 0;
}

static int got_window(aq_worker *w, peer *p, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    job j = {.seq = h->seq, .came_us = aq_now_us()};

    pthread_mutex_lock(&w->lock);
    bool own = w->owner == p && w->ready;
    aq_wire_fmt fmt = w->cfg_now.fmt;
    j.gen = w->gen;
    pthread_mutex_unlock(&w->lock);
    if (!own)
        return 0; /* it is being replaced */
    int rc = aq_wire_get_window(payload, h->length, &fmt, &p->win, err);
    if (rc < 0)
        return rc;
    p->win.w.id = h->seq;
    j.epoch = p->win.w.epoch;
    j.n_rows = p->win.w.n_rows;
    rc = 0;
    pthread_mutex_lock(&w->lock);
    if (w->gen == j.gen && w->n == QUEUE_MAX) {
        rc = aq_fail(err, AQ_E_PROTO, "%s sent more windows than this PC takes", p->name);
    } else if (w->gen == j.gen) {
        /* A refusal waits for its turn too: ROWS come in the order of the windows. */
        j.rc = w->stage->vt->submit(w->stage, &p->win.w, &j.err);
        w->q[(w->head + w->n++) % QUEUE_MAX] = j;
        pthread_cond_signal(&w->cond);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* Under the lock. */
static int got_cancel(aq_worker *w, const peer *p, const aq_hdr *h, const uint8_t *payload,
                      aq_err *err)
{
    uint32_t epoch = 0, seq = 0;
    aq_kv kv;
    int rc = aq_kv_parse(payload, h->length, &kv, err);

    rc = rc < 0 ? rc : aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &epoch, err);
    rc = rc < 0 ? rc : aq_kv_u32(&kv, "seq", true, UINT32_MAX, &seq, err);
    if (rc < 0)
        return rc;
    if (w->owner == p && w->ready && epoch == w->cfg_now.epoch)
        w->stage->vt->cancel(w->stage, seq);
    return 0;
}

/* Under the lock. */
static int got_stats(aq_worker *w, peer *p, const aq_hdr *h, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    const peer *o = w->owner;
    int rc = aq_kv_put_u64(&b, "re", h->seq);

    if (h->flags & AQ_FLAG_REPLY)
        return 0;
    rc = rc < 0 ? rc
                : aq_kv_put_text(&b, "state",
                                 w->ready   ? "ready"
                                 : w->owner ? "loading"
                                            : "idle");
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "done", atomic_load(&w->load.done));
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "total", atomic_load(&w->load.total));
    if (w->stage) {
        rc = rc < 0 ? rc : aq_kv_put_u64(&b, "l0", w->stage->l0);
        rc = rc < 0 ? rc : aq_kv_put_u64(&b, "l1", w->stage->l1);
    }
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "mem_free", aq_mem_free_bytes());
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "mem_held", w->held_bytes);
    if (w->trouble.n_all)
        rc = rc < 0 ? rc : aq_kv_put_text(&b, "fault", w->trouble.why.text);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "windows", w->n_window);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "rows", w->n_row);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "busy_us", w->busy_us);
    if (o) {
        rc = rc < 0 ? rc : aq_kv_put_hex(&b, "who_id", o->id.b, sizeof o->id.b);
        rc = rc < 0 ? rc : aq_kv_put_text(&b, "who_name", o->name);
    }
    if (rc < 0)
        return aq_fail(err, -rc, "no memory for an answer");
    return aq_link_send(p->link, AQ_T_STATS, AQ_FLAG_REPLY, b.p, b.n, NULL, err);
}

static int frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    peer *p = user;
    aq_worker *w = p->w;
    int rc = 0;

    (void)link;
    if (h->type == AQ_T_WINDOW)
        return got_window(w, p, h, payload, err);
    pthread_mutex_lock(&w->lock);
    if (h->type == AQ_T_CONFIG)
        rc = got_config(w, p, h, payload, err);
    else if (h->type == AQ_T_CANCEL)
        rc = got_cancel(w, p, h, payload, err);
    else if (h->type == AQ_T_STATS)
        rc = got_stats(w, p, h, err);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static void closed_cb(void *user, aq_link *link, const aq_err *why)
{
    peer *p = user;
    aq_worker *w = p->w;

    (void)link;
    pthread_mutex_lock(&w->lock);
    if (w->owner == p) {
        aq_log(AQ_LOG_INFO, "pool", "coordinator_left name=%s code=%s", p->name,
               aq_status_name(why->code));
        disown(w);
    }
    p->closed = true;
    pthread_cond_broadcast(&w->cond); /* the compute thread frees the link */
    pthread_mutex_unlock(&w->lock);
}

int aq_worker_accept(aq_worker *w, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    const aq_hello *who = aq_link_peer(link);
    aq_purpose purpose = aq_link_purpose(link);

    if (purpose != AQ_FOR_STEP && purpose != AQ_FOR_STATUS)
        return aq_fail(err, AQ_E_UNSUPPORTED, "this PC does not serve %s",
                       aq_purpose_name(purpose));
    int perms = aq_trust_perms(w->cfg.trust, &who->id);
    if (purpose == AQ_FOR_STEP && (perms < 0 || !(perms & AQ_PERM_LAYERS)))
        return aq_fail(err, AQ_E_AUTH,
                       "%s may not run layers on this PC: allow it on the Pool page here",
                       who->name);
    reap(w); /* the compute thread may be busy with loading */
    pthread_mutex_lock(&w->lock);
    peer *p = NULL;
    for (uint32_t i = 0; i < PEERS_MAX && !p; i++)
        p = w->peer[i].link ? NULL : &w->peer[i];
    if (p) {
        *p = (peer){.w = w, .link = link, .id = who->id};
        memcpy(p->boot, who->boot, sizeof p->boot);
        memcpy(p->name, who->name, sizeof p->name);
        *ret_cb = (aq_link_cb){p, NULL, frame_cb, NULL, closed_cb};
    }
    pthread_mutex_unlock(&w->lock);
    return p ? 0 : aq_fail(err, AQ_E_BUSY, "this PC has %u connections already", PEERS_MAX);
}

/* ---- compute thread -------------------------------------------------------------------------- */

static void stage_done(void *user, aq_stage *st, const aq_done *d)
{
    aq_worker *w = user;
    aq_done copy = *d;
    aq_err err = {0};
    const job *j = &w->now;

    /* Memory, too: what was asked was found to fit when it was loaded. */
    if (aq_backoff_is_fault(d->rc) ||
        d->rc == -AQ_E_NOMEM) { /* no answer: the other PC asks again later (work) */
        w->fault = d->err;
        w->fault.code = -d->rc;
        return;
    }
    int64_t busy = aq_now_us() - j->came_us;
    aq_hop hop = {.stage = w->loaded.l0, .self_us = (uint32_t)AQ_MIN(busy, (int64_t)UINT32_MAX)};

    (void)st;
    pthread_mutex_lock(&w->lock);
    bool own = w->gen == j->gen;
    aq_wire_fmt fmt = w->cfg_now.fmt;
    pthread_mutex_unlock(&w->lock);
    if (!own)
        return;
    copy.epoch = j->epoch;
    copy.hop = &hop;
    copy.n_hop = 1;
    w->frame.n = 0;
    int rc = aq_wire_put_rows(&w->frame, j->seq, &copy, &fmt, &err);
    if (rc < 0) { /* a value that f16 cannot hold: that is the answer */
        aq_done bad = {
            .id = d->id, .epoch = j->epoch, .rc = rc, .err = err, .hop = &hop, .n_hop = 1};
        w->frame.n = 0;
        rc = aq_wire_put_rows(&w->frame, j->seq, &bad, &fmt, &err);
    }
    pthread_mutex_lock(&w->lock);
    if (w->gen == j->gen) {
        rc = rc < 0 ? rc : aq_link_send_data(w->owner->link, &w->frame, &err);
        if (rc < 0 && rc != -AQ_E_GONE) { /* without this answer nothing goes on there */
            aq_log(AQ_LOG_ERROR, "pool", "no_answer seq=%llu %s", (unsigned long long)j->seq,
                   err.text);
            aq_link_close(w->owner->link, "shutdown");
        }
    }
    pthread_mutex_unlock(&w->lock);
}

static void unload(aq_worker *w)
{
    pthread_mutex_lock(&w->lock);
    aq_stage *st = w->stage;
    w->stage = NULL;
    w->held_bytes = 0;
    pthread_mutex_unlock(&w->lock);
    if (st)
        st->vt->close(st);
    aq_wsrc_close(&w->src);
    aq_model_free(w->model);
    w->model = NULL;
    w->loaded = (config){0};
}

uint64_t aq_layers_need_bytes(const aq_model_info *in, uint32_t l0, uint32_t l1,
                              const aq_state_cfg *sc)
{
    uint64_t need = in->stage_bytes;
    double share = (double)(l1 - l0) / in->n_layer;
    double kv = (double)aq_model_kv_bytes_tok(in, sc->kv_type) * AQ_PAGE_TOK * sc->n_page;
    double recur = (double)in->recur_bytes_seq * (2.0 * sc->max_seq + sc->n_snap);

    for (uint32_t i = l0; i < l1; i++)
        need += in->layer_bytes[i];
    return need + (uint64_t)((kv + recur) * share);
}

int aq_layers_check_memory(const aq_model_info *in, uint32_t l0, uint32_t l1, bool ends,
                           const aq_state_cfg *sc, aq_err *err)
{
    uint64_t need = aq_layers_need_bytes(in, l0, l1, sc) + (ends ? in->ends_bytes : 0);
    uint64_t have = aq_mem_free_bytes();

    if (need <= have)
        return 0;
    return aq_fail(err, AQ_E_NOMEM,
                   "layers %u to %u%s need %.2f GB of memory, %.2f GB are free: give this PC fewer "
                   "layers, or close other programs on it",
                   l0, l1 - 1, ends ? " with embedding and head" : "", (double)need / 1e9,
                   (double)have / 1e9);
}

static int load(aq_worker *w, const config *c, aq_err *err)
{
    aq_stage *st = NULL;
    int rc = aq_finder_open(w->finder, w->cfg.rt, c->model, &w->model, &w->src, err);

    if (rc < 0)
        return rc;
    const aq_model_info *in = aq_model_get_info(w->model);
    if (c->l0 >= c->l1 || c->l1 > in->n_layer)
        return aq_fail(err, AQ_E_INVAL, "layers %u to %u were asked for, the model has %u", c->l0,
                       c->l1, in->n_layer);
    if (c->fmt.row_f32 != in->row_f32)
        return aq_fail(err, AQ_E_MISMATCH, "rows of %u floats were asked for, the model has %u",
                       c->fmt.row_f32, in->row_f32);
    if ((rc = aq_layers_check_memory(in, c->l0, c->l1, false, &c->state, err)) < 0)
        return rc;
    uint64_t total = in->stage_bytes;
    for (uint32_t i = c->l0; i < c->l1; i++)
        total += in->layer_bytes[i];
    atomic_store(&w->load.done, 0);
    atomic_store(&w->load.total, total);
    rc = w->cfg.make
             ? w->cfg.make(w->cfg.user, w->model, &c->state, c->l0, c->l1, &st, err)
             : aq_stage_local(w->cfg.rt, w->model, &w->src, &(aq_place){.backend = w->cfg.backend},
                              &c->state, c->l0, c->l1, &w->load, &st, err);
    if (rc < 0)
        return rc;
    st->done_cb = stage_done;
    st->done_user = w;
    pthread_mutex_lock(&w->lock);
    w->stage = st;
    w->held_bytes = aq_layers_need_bytes(in, c->l0, c->l1, &c->state);
    w->n_load++;
    pthread_mutex_unlock(&w->lock);
    w->loaded = *c;
    return 0;
}

static bool same_layers(const config *a, const config *b)
{
    return a->l0 == b->l0 && a->l1 == b->l1 && !memcmp(a->model, b->model, sizeof a->model) &&
           !memcmp(&a->state, &b->state, sizeof a->state);
}

/* Under the lock. */
static int send_ready(aq_worker *w, const config *c, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    const aq_stage *st = w->stage;
    int rc = aq_kv_put_u64(&b, "epoch", c->epoch);

    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "n_page", st->n_page);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "max_seq", st->max_seq);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "n_snap", st->n_snap);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "max_rows", st->max_rows);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "n_inflight", st->n_inflight);
    rc = rc < 0 ? rc : aq_kv_put_u64(&b, "mem_free", aq_mem_free_bytes());
    if (rc < 0)
        return aq_fail(err, -rc, "no memory for an answer");
    return aq_link_send(w->owner->link, AQ_T_READY, 0, b.p, b.n, NULL, err);
}

/* For tests: loading stands still while this is armed and somebody waits for it. Under the lock. */
static void stand_still(aq_worker *w)
{
    struct timespec end;

    for (uint64_t gen = w->gen; gen == w->gen && aq_failpoint("worker-load-stands");) {
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_nsec += 20000000;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->cond, &w->lock, &end);
    }
}

/* Take what the owner wants; called and left with the lock held. */
static void configure(aq_worker *w)
{
    config c = w->cfg_now;
    uint64_t gen = w->gen, re = w->cfg_seq;
    aq_err err = {0}, sent = {0};
    int rc;

    w->want = false;
    atomic_store(&w->load.cancel, 0);
    stand_still(w);
    int64_t left_us = aq_backoff_left_us(&w->trouble);
    if (left_us)
        aq_fail(&err, w->trouble.why.code, "begins anew in %lld s after an error: %.300s",
                (long long)(left_us + 999999) / 1000000, w->trouble.why.text);
    pthread_mutex_unlock(&w->lock);
    int64_t t0 = aq_now_us();
    if (left_us) {
        rc = -err.code;
    } else if (w->stage && !w->cfg.make && same_layers(&w->loaded, &c)) {
        rc = aq_stage_local_reset(w->stage, &err);
    } else {
        unload(w); /* first: both may not fit */
        rc = load(w, &c, &err);
    }
    if (rc < 0)
        unload(w);
    pthread_mutex_lock(&w->lock);
    if (!left_us && aq_backoff_is_fault(rc))
        aq_backoff_fail(&w->trouble, &err);
    if (w->gen != gen) /* another one came meanwhile, or nobody waits any more */
        return;
    aq_log(rc < 0 ? AQ_LOG_WARN : AQ_LOG_INFO, "pool",
           "layers=%u-%u for=%s epoch=%u loads=%llu ms=%lld %s", c.l0, c.l1 - 1, w->owner->name,
           c.epoch, (unsigned long long)w->n_load, (long long)((aq_now_us() - t0) / 1000),
           rc < 0 ? err.text : "ready");
    if (rc >= 0) {
        w->ready = true; /* before READY is sent: a window may come at once */
        rc = send_ready(w, &c, &sent);
    } else {
        rc = send_error(w->owner->link, re, &err, &sent);
        disown(w);
    }
    if (rc < 0)
        aq_log(AQ_LOG_WARN, "pool", "config_unanswered %s", sent.text);
}

/* A window failed for a reason of this PC: the layers are read anew when the back-off is over, and the
 * other PC, which is told why, asks until then. Called and left with the lock held. */
static void broke(aq_worker *w)
{
    aq_err sent = {0};

    aq_log(AQ_LOG_ERROR, "pool", "fault code=%s %s", aq_status_name(w->fault.code), w->fault.text);
    aq_backoff_fail(&w->trouble, &w->fault);
    if (w->owner && w->gen == w->now.gen) {
        (void)!send_error(w->owner->link, 0, &w->fault, &sent);
        aq_link_close(w->owner->link, "shutdown");
        disown(w);
    }
    pthread_mutex_unlock(&w->lock);
    unload(w);
    pthread_mutex_lock(&w->lock);
}

/* The oldest window; called and left with the lock held. */
static void work(aq_worker *w)
{
    w->now = w->q[w->head];
    w->head = (w->head + 1) % QUEUE_MAX;
    w->n--;
    pthread_mutex_unlock(&w->lock);
    int64_t t0 = aq_now_us();
    w->fault.code = 0;
    if (aq_failpoint("worker-window"))
        w->fault = (aq_err){.code = AQ_E_IO, .text = "the disk cannot be read"};
    else if (aq_failpoint("worker-memory"))
        stage_done(w, w->stage,
                   &(aq_done){.rc = -AQ_E_NOMEM, .err = {.text = "no memory for a window"}});
    else if (w->now.rc < 0)
        stage_done(w, w->stage, &(aq_done){.rc = w->now.rc, .err = w->now.err});
    else
        w->stage->vt->work(w->stage, NULL);
    int64_t us = aq_now_us() - t0;
    pthread_mutex_lock(&w->lock);
    w->n_window++;
    w->n_row += w->now.n_rows;
    w->busy_us += (uint64_t)AQ_MAX(us, 0);
    if (w->fault.code)
        broke(w);
    else
        aq_backoff_right(&w->trouble);
}

static bool any_closed(const aq_worker *w)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (w->peer[i].closed)
            return true;
    return false;
}

static void *compute(void *arg)
{
    aq_worker *w = arg;

    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (any_closed(w)) {
            pthread_mutex_unlock(&w->lock);
            reap(w);
            pthread_mutex_lock(&w->lock);
        } else if (w->want) {
            configure(w);
        } else if (w->n) {
            work(w);
        } else {
            pthread_cond_wait(&w->cond, &w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

int aq_worker_new(const aq_worker_cfg *cfg, aq_worker **ret, aq_err *err)
{
    aq_worker *w = calloc(1, sizeof *w);

    if (!w)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a worker");
    w->cfg = *cfg;
    if (cfg->backend) {
        snprintf(w->backend, sizeof w->backend, "%s", cfg->backend);
        w->cfg.backend = w->backend;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, NULL);
    int rc = aq_finder_new(cfg->dir, cfg->n_dir, aq_trust_dir(cfg->trust), &w->finder, err);
    if (rc >= 0) {
        int en = pthread_create(&w->thread, NULL, compute, w);
        if (en)
            rc = aq_fail_errno(err, en, "no thread to compute with");
        else
            w->started = true;
    }
    if (rc < 0) {
        aq_worker_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void aq_worker_free(aq_worker *w)
{
    if (!w)
        return;
    if (w->started) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        disown(w);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        aq_link_free(w->peer[i].link);
        aq_wire_win_clear(&w->peer[i].win);
    }
    unload(w);
    aq_finder_free(w->finder);
    aq_bytes_clear(&w->frame);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->cond);
    free(w);
}

void aq_worker_get_count(aq_worker *w, aq_worker_count *ret)
{
    pthread_mutex_lock(&w->lock);
    *ret = (aq_worker_count){.n_load = w->n_load,
                             .n_config = w->n_config,
                             .n_window = w->n_window,
                             .n_row = w->n_row,
                             .busy_us = w->busy_us,
                             .loaded = w->stage != NULL,
                             .owned = w->owner != NULL,
                             .n_fault = w->trouble.n_all};
    snprintf(ret->fault, sizeof ret->fault, "%.250s", w->trouble.why.text);
    if (w->stage) {
        ret->l0 = w->stage->l0;
        ret->l1 = w->stage->l1;
    }
    if (w->owner)
        memcpy(ret->who, w->owner->name, sizeof ret->who);
    pthread_mutex_unlock(&w->lock);
}
