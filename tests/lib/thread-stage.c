/* SPDX-License-Identifier: Apache-2.0 */
#include "thread-stage.h"

#include <pthread.h>

typedef struct tstage {
    aq_stage stage, *inner;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool hold, stop;
    uint32_t after, n_run; /* windows until it holds, 0 = never; computed ones */
    int dead;              /* code of every completion */
    uint32_t fail_n;
    int fail_code;
    uint32_t n, most;
    struct {
        uint64_t id;
        uint32_t epoch, n_rows;
    } q[64];
    uint32_t head;
} tstage;

static void inner_done(void *user, aq_stage *inner, const aq_done *d)
{
    tstage *t = user;
    aq_done copy = *d;

    (void)inner;
    pthread_mutex_lock(&t->mu);
    uint32_t rows = t->q[t->head].n_rows;
    t->head = (t->head + 1) % 64;
    t->n--;
    if (t->dead || (t->fail_n && rows)) {
        int code = t->dead ? t->dead : t->fail_code;
        copy.x = NULL;
        copy.n_back = 0;
        copy.rc = aq_fail(&copy.err, code, "the test made it fail");
        if (!t->dead)
            t->fail_n--;
    }
    pthread_mutex_unlock(&t->mu);
    aq_stage_done(&t->stage, &copy);
}

static void *run(void *arg)
{
    tstage *t = arg;

    for (;;) {
        pthread_mutex_lock(&t->mu);
        while (!t->stop && (t->n == 0 || (t->hold && !t->dead)))
            pthread_cond_wait(&t->cv, &t->mu);
        bool stop = t->stop;
        t->hold = t->hold || ++t->n_run == t->after;
        pthread_mutex_unlock(&t->mu);
        if (stop)
            return NULL;
        t->inner->vt->work(t->inner, NULL);
    }
}

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    tstage *t = st->self;
    int rc = 0;

    pthread_mutex_lock(&t->mu);
    if (t->n >= st->n_inflight)
        rc = aq_fail(err, AQ_E_BUSY, "%u windows under way", t->n);
    if (rc >= 0)
        rc = t->inner->vt->submit(t->inner, w, err);
    if (rc >= 0) {
        uint32_t at = (t->head + t->n++) % 64;
        t->q[at].id = w->id;
        t->q[at].epoch = w->epoch;
        t->q[at].n_rows = w->n_rows;
        t->most = AQ_MAX(t->most, t->n);
        pthread_cond_signal(&t->cv);
    }
    pthread_mutex_unlock(&t->mu);
    return rc;
}

static void cancel(aq_stage *st, uint32_t seq)
{
    tstage *t = st->self;
    t->inner->vt->cancel(t->inner, seq);
}

static void close_stage(aq_stage *st)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->stop = true;
    pthread_cond_signal(&t->cv);
    pthread_mutex_unlock(&t->mu);
    pthread_join(t->thread, NULL);
    t->inner->vt->close(t->inner);
    pthread_mutex_destroy(&t->mu);
    pthread_cond_destroy(&t->cv);
    free(t);
}

static const aq_stage_vt vt = {submit, NULL, cancel, close_stage};

aq_stage *thread_stage(aq_stage *inner, uint32_t n_inflight)
{
    tstage *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->stage = *inner;
    t->stage.vt = &vt;
    t->stage.self = t;
    t->stage.n_inflight = AQ_MIN(n_inflight, inner->n_inflight);
    t->inner = inner;
    inner->done_cb = inner_done;
    inner->done_user = t;
    pthread_mutex_init(&t->mu, NULL);
    pthread_cond_init(&t->cv, NULL);
    if (pthread_create(&t->thread, NULL, run, t)) {
        free(t);
        return NULL;
    }
    return &t->stage;
}

void thread_stage_hold(aq_stage *st, bool hold)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->hold = hold;
    pthread_cond_signal(&t->cv);
    pthread_mutex_unlock(&t->mu);
}

void thread_stage_hold_after(aq_stage *st, uint32_t n)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->after = t->n_run + n;
    pthread_mutex_unlock(&t->mu);
}

uint32_t thread_stage_held(aq_stage *st)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    uint32_t n = t->hold ? t->n : 0;
    pthread_mutex_unlock(&t->mu);
    return n;
}

uint32_t thread_stage_waiting(aq_stage *st)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    uint32_t n = t->n;
    pthread_mutex_unlock(&t->mu);
    return n;
}

uint32_t thread_stage_most(aq_stage *st)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    uint32_t n = t->most;
    pthread_mutex_unlock(&t->mu);
    return n;
}

void thread_stage_kill(aq_stage *st, int code)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->dead = code;
    pthread_cond_signal(&t->cv);
    pthread_mutex_unlock(&t->mu);
}

void thread_stage_fail(aq_stage *st, uint32_t n, int code)
{
    tstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->fail_n = n;
    t->fail_code = code;
    pthread_mutex_unlock(&t->mu);
}
