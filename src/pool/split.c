/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's driver: an engine whose layers [0, cut) are here and the rest on another PC.
 *
 *            lost                      back: new epoch, every chat's tokens are read again
 *   RUNNING ─────▶ LOST ──────────────────────────────────────────────────────▶ RUNNING
 *                    └─ for alone_after_ms, and all fits ─▶ ALONE ─ back, and idle ─▶ RUNNING
 *
 * When another program of this PC has taken the other PC over, it is asked until it is free again.
 * One thread waits for losses and dials again (at once, then after 0.25 s up to 3 s). The local
 * stage stays loaded all the time: aq_engine_set_stages keeps a stage that is in both sets. */
#include "member-priv.h"
#include "split-priv.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define AGAIN_FIRST_MS 250u
#define AGAIN_MOST_MS 3000u
#define IDLE_LOOK_MS 1000u /* between looks whether an engine that runs alone has nothing to do */

struct aq_split {
    aq_split_cfg cfg;
    aq_net *net;
    aq_remote_cfg rc;
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    aq_id to;
    char backend[32]; /* cfg.engine.place.backend points here */
    uint32_t n_layer;
    aq_engine *engine;
    pthread_t thread;
    bool started;
    void (*ends_cb)(void *user), (*freed_cb)(void *user); /* NULL = none */
    void *ends_user;
    aq_stage *local;      /* the engine's; the same one in every set */
    aq_progress there;    /* what the other PC loads */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t cond;
    bool stop;
    char follow[AQ_VERSION_MAX + 1]; /* the program's version; "" = it stays where it is */
    aq_stage *remote, *gone; /* remote: the engine's, NULL = none; gone: the one that was lost */
    aq_err why;
    aq_split_state state;
};

static void changed(aq_split *s)
{
    if (s->cfg.change_cb)
        s->cfg.change_cb(s->cfg.user);
}

static void gone_cb(void *user, aq_stage *st, const aq_err *why)
{
    aq_split *s = user;

    pthread_mutex_lock(&s->lock);
    s->gone = st;
    s->why = *why;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

/* As many seqs and snapshots as an engine of its own stage makes itself. */
static aq_state_cfg state_cfg(const aq_model_info *in, const aq_engine_cfg *c)
{
    uint32_t ctx_max = in->n_ctx_train ? AQ_MIN(in->n_ctx_train, AQ_CTX_MAX) : AQ_CTX_MAX;
    uint32_t n_ctx = c->n_ctx ? c->n_ctx : AQ_MIN(8192u, ctx_max);
    uint32_t parallel = AQ_MIN(c->n_parallel ? c->n_parallel : 4u, 64u);
    uint32_t chunk = AQ_MIN(c->chunk_tok ? c->chunk_tok : 512u, AQ_ROWS_MAX / 2);
    uint32_t seqs = in->recurrent ? parallel + 4 : parallel * 8;

    return (aq_state_cfg){.kv_type = c->kv_type,
                          .n_page = c->n_page ? c->n_page
                                              : (n_ctx + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK * parallel,
                          .max_seq = AQ_MIN(seqs, AQ_SEQS_MAX),
                          .n_snap = in->recurrent ? parallel * 2 + 6 : 0,
                          .max_rows = chunk + parallel};
}

static int dial(aq_split *s, aq_stage **ret, aq_err *err)
{
    pthread_mutex_lock(&s->lock);
    s->gone = NULL; /* of an older stage, whose address may be used again */
    pthread_mutex_unlock(&s->lock);
    s->rc.epoch++;
    s->rc.addr = s->addr;
    atomic_store(&s->there.done, 0);
    atomic_store(&s->there.total, 0);
    return aq_remote_dial(&s->rc, ret, err);
}

void aq_split_need(const aq_model_info *in, const aq_engine_cfg *c, uint32_t cut,
                   uint64_t *ret_here_bytes, uint64_t *ret_there_bytes)
{
    aq_state_cfg sc = state_cfg(in, c);

    *ret_here_bytes = aq_layers_need_bytes(in, 0, cut, &sc) + in->ends_bytes;
    *ret_there_bytes = aq_layers_need_bytes(in, cut, in->n_layer, &sc);
}

int aq_split_choose(const aq_model_info *in, const aq_engine_cfg *c, uint64_t here_bytes,
                    uint64_t there_bytes, const char *pc, uint32_t *ret_cut, aq_err *err)
{
    aq_state_cfg sc = state_cfg(in, c);

    return aq_cut_choose(in, &sc, here_bytes, there_bytes, pc, ret_cut, err);
}

/* ---- the driver's thread --------------------------------------------------------------------- */

static int reconnect(aq_split *s, bool replaced, aq_err *err)
{
    aq_stage *st = NULL;
    aq_peer_mem there;
    int rc;

    /* CONFIG would take it back from the other program, which would take it back from this one. */
    if (replaced) {
        rc = aq_peer_mem_ask(s->net, s->addr, s->rc.n_addr, s->rc.to, &s->there, &there, err);
        if (rc >= 0 && there.works_for[0])
            rc = aq_fail(err, AQ_E_BUSY, "%s works for another program of this PC now", there.name);
        if (rc < 0)
            return rc;
    }
    if ((rc = dial(s, &st, err)) < 0)
        return rc;
    rc = aq_remote_wait(st, &s->there, err);
    pthread_mutex_lock(&s->lock);
    s->remote = NULL; /* the old one is closed with the set it is in */
    pthread_mutex_unlock(&s->lock);
    if (rc >= 0)
        rc = aq_engine_set_stages(s->engine, (aq_stage *[]){s->local, st}, 2, err);
    if (rc < 0) {
        st->vt->close(st);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    s->remote = st;
    aq_remote_name(st, s->state.pc);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Where it answered, for the next time. Called and left with the lock held. */
static void keep_addr(aq_split *s)
{
    char addr[AQ_ADDR_MAX + 1];
    aq_err no = {0};

    if (!s->follow[0] || !s->remote)
        return;
    aq_remote_addr(s->remote, addr);
    pthread_mutex_unlock(&s->lock);
    (void)!aq_trust_set_addr(s->cfg.trust, &s->to, addr, &no);
    pthread_mutex_lock(&s->lock);
}

/* It has not come back where it was: where else may it be? Called and left with the lock held. */
static void look_for(aq_split *s)
{
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    char version[AQ_VERSION_MAX + 1];
    uint32_t n = 0;

    memcpy(version, s->follow, sizeof version);
    if (!version[0])
        return;
    pthread_mutex_unlock(&s->lock);
    if (aq_where(s->cfg.trust, &s->to, version, &s->there, addr, &n, NULL) >= 0) {
        memcpy(s->addr, addr, n * sizeof addr[0]);
        s->rc.n_addr = n;
    }
    pthread_mutex_lock(&s->lock);
}

static int go_alone(aq_split *s, aq_err *err)
{
    aq_stage *tail = NULL;
    int rc = aq_layers_check_memory(aq_model_get_info(s->cfg.model), s->cfg.cut, s->n_layer, false,
                                    &s->rc.state, err);

    if (rc >= 0)
        rc = aq_stage_local(s->cfg.rt, s->cfg.model, s->cfg.src,
                            &(aq_place){.backend = s->cfg.engine.place.backend}, &s->rc.state,
                            s->cfg.cut, s->n_layer, &s->there, &tail, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&s->lock);
    s->remote = NULL;
    pthread_mutex_unlock(&s->lock);
    rc = aq_engine_set_stages(s->engine, (aq_stage *[]){s->local, tail}, 2, err);
    if (rc < 0)
        tail->vt->close(tail);
    return rc;
}

static bool idle(const aq_split *s)
{
    aq_engine_stats st;

    aq_engine_get_stats(s->engine, &st);
    return !st.n_running && !st.n_queued;
}

/* Under the lock; woken by stop only. */
static void wait_ms(aq_split *s, uint32_t ms)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (!s->stop && pthread_cond_timedwait(&s->cond, &s->lock, &end) == 0)
        ;
}

/* Called and left with the lock held. */
static void set_state(aq_split *s, uint32_t kind, const char *text)
{
    s->state.kind = kind;
    snprintf(s->state.text, sizeof s->state.text, "%s", text);
    aq_log(kind == AQ_SPLIT_RUNNING ? AQ_LOG_INFO : AQ_LOG_WARN, "pool", "split=%s pc=\"%s\" %s",
           kind == AQ_SPLIT_RUNNING ? "running"
           : kind == AQ_SPLIT_LOST  ? "lost"
                                    : "alone",
           s->state.pc, text);
    pthread_mutex_unlock(&s->lock);
    changed(s);
    pthread_mutex_lock(&s->lock);
}

/* The other PC is gone: until it is back, or stop. Called and left with the lock held. */
static void recover(aq_split *s)
{
    int64_t lost_us = aq_now_us();
    bool replaced = s->why.code == AQ_E_BUSY;
    uint32_t ms = 0, n_try = 0;

    s->state.n_loss++;
    set_state(s, AQ_SPLIT_LOST, s->why.text);
    while (!s->stop) {
        aq_err err = {0}, no = {0};
        bool alone = s->state.kind == AQ_SPLIT_ALONE;

        wait_ms(s, ms);
        if (!s->stop && n_try++ % 3 == 1)
            look_for(s);
        if (s->stop)
            return;
        pthread_mutex_unlock(&s->lock);
        if (alone && !idle(s)) {
            pthread_mutex_lock(&s->lock);
            ms = IDLE_LOOK_MS;
            continue;
        }
        int rc = reconnect(s, replaced, &err);
        bool goes_alone = rc < 0 && !alone && s->cfg.alone_after_ms &&
                          aq_now_us() - lost_us >= (int64_t)s->cfg.alone_after_ms * 1000 &&
                          !atomic_load(&s->there.cancel) && go_alone(s, &no) >= 0;
        pthread_mutex_lock(&s->lock);
        if (rc >= 0) {
            set_state(s, AQ_SPLIT_RUNNING, "");
            keep_addr(s);
            return;
        }
        if (!strstr(err.text, s->state.pc))
            aq_err_prefix(&err, rc, "%s", s->state.pc);
        if (goes_alone)
            set_state(s, AQ_SPLIT_ALONE, err.text);
        else if (no.code) { /* why not alone, too */
            char text[sizeof s->state.text];
            snprintf(text, sizeof text, "%.240s; not alone: %.240s", err.text, no.text);
            set_state(s, s->state.kind, text);
        } else if (strcmp(s->state.text, err.text) != 0)
            set_state(s, s->state.kind, err.text);
        ms = ms ? AQ_MIN(ms * 2, AGAIN_MOST_MS) : AGAIN_FIRST_MS;
    }
}

static void *drive(void *arg)
{
    aq_split *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->gone && s->gone == s->remote)
            recover(s);
        else
            pthread_cond_wait(&s->cond, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int choose_cut(aq_split *s, aq_err *err)
{
    aq_peer_mem there;
    uint64_t here = aq_mem_free_bytes();
    int rc = aq_peer_mem_ask(s->net, s->addr, s->rc.n_addr, s->rc.to, s->cfg.engine.progress,
                             &there, err);

    if (rc < 0 || (rc = aq_cut_choose(aq_model_get_info(s->cfg.model), &s->rc.state, here,
                                      there.bytes, there.name, &s->cfg.cut, err)) < 0)
        return rc;
    aq_log(AQ_LOG_INFO, "pool", "cut=%u free_here=%llu free_there=%llu", s->cfg.cut,
           (unsigned long long)here, (unsigned long long)there.bytes);
    return 0;
}

static int setup(aq_split *s, aq_err *err)
{
    const aq_model_info *in = aq_model_get_info(s->cfg.model);
    const aq_split_cfg *c = &s->cfg;
    int rows = aq_rows_type(c->rows ? c->rows : "f32"), rc;

    s->n_layer = in->n_layer;
    if (c->cut && (c->cut >= in->n_layer || !in->cut_ok[c->cut]))
        return aq_fail(err, AQ_E_INVAL,
                       "this model of %u layers cannot be parted before layer %u: each PC gets one "
                       "layer at least",
                       in->n_layer, c->cut);
    if (rows < 0)
        return aq_fail(err, AQ_E_INVAL, "rows travel as f32, f16 or bf16, not as '%s'", c->rows);
    if (!c->n_addr || c->n_addr > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL,
                       "%u addresses of the other PC were given, 1 to %u are "
                       "possible",
                       c->n_addr, AQ_ADDRS_MAX);
    for (uint32_t i = 0; i < c->n_addr; i++)
        if ((rc = aq_addr_parse(c->addr[i], AQ_POOL_PORT, &s->addr[i], err)) < 0)
            return rc;
    s->rc = (aq_remote_cfg){.n_addr = c->n_addr,
                            .to = c->to ? &s->to : NULL,
                            .l1 = in->n_layer,
                            .row_f32 = in->row_f32,
                            .rows = (uint32_t)rows,
                            .state = state_cfg(in, &c->engine),
                            .gone_cb = gone_cb,
                            .user = s};
    if (c->to)
        s->to = *c->to;
    s->state.n_layer = in->n_layer;
    if ((rc = aq_net_new(c->trust, c->app, AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16, &s->net,
                         err)) < 0 ||
        (!c->cut && (rc = choose_cut(s, err)) < 0) ||
        (rc = aq_layers_check_memory(in, 0, c->cut, true, &s->rc.state, err)) < 0 ||
        (rc = aq_prints_get(aq_trust_dir(c->trust), c->model, c->src, s->rc.model, err)) < 0)
        return rc;
    s->rc.l0 = s->state.cut = c->cut;
    s->rc.net = s->net;
    return 0;
}

/* Both PCs load at the same time. */
static int load(aq_split *s, aq_err *err)
{
    aq_stage *st = NULL, *local = NULL;
    aq_engine_cfg ec = s->cfg.engine;
    int rc = dial(s, &st, err);

    if (rc >= 0)
        rc = aq_stage_local(s->cfg.rt, s->cfg.model, s->cfg.src,
                            &(aq_place){.backend = ec.place.backend}, &s->rc.state, 0, s->cfg.cut,
                            ec.progress, &local, err);
    if (rc >= 0)
        rc = aq_remote_wait(st, NULL, err);
    ec.stage = (aq_stage *[]){local, st};
    ec.n_stage = 2;
    if (rc >= 0)
        rc = aq_engine_new(s->cfg.rt, s->cfg.model, s->cfg.src, &ec, &s->engine, err);
    if (rc < 0) {
        if (local)
            local->vt->close(local);
        if (st)
            st->vt->close(st);
        return rc;
    }
    s->local = local;
    pthread_mutex_lock(&s->lock);
    s->remote = st;
    s->state.kind = AQ_SPLIT_RUNNING;
    aq_remote_name(st, s->state.pc);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

int aq_split_open(const aq_split_cfg *cfg, aq_split **ret, aq_err *err)
{
    aq_split *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;

    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a split");
    s->cfg = *cfg;
    if (cfg->engine.place.backend) { /* needed again when the other PC is lost */
        snprintf(s->backend, sizeof s->backend, "%s", cfg->engine.place.backend);
        s->cfg.engine.place.backend = s->backend;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->cond, &attr);
    pthread_condattr_destroy(&attr);
    int rc = setup(s, err);
    rc = rc < 0 ? rc : load(s, err);
    if (rc >= 0) {
        int en = pthread_create(&s->thread, NULL, drive, s);
        if (en)
            rc = aq_fail_errno(err, en, "no thread for a split");
        else
            s->started = true;
    }
    if (rc < 0) {
        aq_split_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void aq_split_follow(aq_split *s, const char *version)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->follow, sizeof s->follow, "%s", version);
    pthread_mutex_unlock(&s->lock);
}

void aq_split_on_free(aq_split *s, void (*ends_cb)(void *), void (*freed_cb)(void *), void *user)
{
    s->ends_cb = ends_cb;
    s->freed_cb = freed_cb;
    s->ends_user = user;
}

void aq_split_print(const aq_split *s, uint8_t ret[32])
{
    memcpy(ret, s->rc.model, sizeof s->rc.model);
}

void aq_split_free(aq_split *s)
{
    if (!s)
        return;
    if (s->ends_cb)
        s->ends_cb(s->ends_user);
    if (s->started) {
        atomic_store(&s->there.cancel, 1);
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_broadcast(&s->cond);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    aq_engine_free(s->engine); /* and both stages */
    aq_net_free(s->net);
    if (s->freed_cb) /* change_cb cannot come any more */
        s->freed_cb(s->ends_user);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->cond);
    free(s);
}

aq_engine *aq_split_engine(const aq_split *s)
{
    return s->engine;
}

void aq_split_get_state(aq_split *s, aq_split_state *ret)
{
    aq_remote_times t = {0};
    aq_link_count n = {0};

    pthread_mutex_lock(&s->lock);
    *ret = s->state;
    if (s->remote) {
        aq_remote_get_times(s->remote, &t);
        aq_remote_get_count(s->remote, &n);
        aq_remote_addr(s->remote, ret->addr);
    }
    pthread_mutex_unlock(&s->lock);
    ret->load_done = atomic_load(&s->there.done);
    ret->load_total = atomic_load(&s->there.total);
    ret->n_window = t.n_window;
    ret->n_row = t.n_row;
    ret->worker_us = t.worker_us;
    ret->net_us = t.net_us;
    ret->tx_bytes = n.tx_bytes;
    ret->rx_bytes = n.rx_bytes;
    ret->tx_frames = n.tx_frames;
    ret->rx_frames = n.rx_frames;
}
