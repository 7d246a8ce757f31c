/* SPDX-License-Identifier: Apache-2.0 */
#include "paced-stage.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#define INFLIGHT 4u

typedef struct slot {
    uint64_t id;
    uint32_t epoch, n_rows, n_back;
    float *x; /* [n_back][row_f32] */
    size_t cap;
} slot;

typedef struct paced {
    aq_stage stage;
    pace pace;
    uint32_t row_f32;
    pthread_mutex_t mu;   /* guards what follows */
    slot q[INFLIGHT + 1]; /* one is being worked on */
    uint32_t head, n;
} paced;

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    paced *t = st->self;
    size_t row = t->row_f32, need = (size_t)w->n_back * row;
    int rc = 0;

    pthread_mutex_lock(&t->mu);
    slot *s = &t->q[(t->head + t->n) % AQ_LEN(t->q)];
    if (t->n == INFLIGHT) {
        rc = aq_fail(err, AQ_E_BUSY, "%u windows are under way", INFLIGHT);
    } else {
        if (need > s->cap) {
            free(s->x);
            s->x = malloc(need * sizeof *s->x);
            s->cap = s->x ? need : 0;
        }
        if (need && !s->x) {
            rc = aq_fail(err, AQ_E_NOMEM, "no memory for %u rows", w->n_back);
        } else {
            uint32_t k = 0;
            s->id = w->id;
            s->epoch = w->epoch;
            s->n_rows = w->n_rows;
            s->n_back = w->n_back;
            for (uint32_t i = 0; i < w->n_rows && k < w->n_back; i++)
                if (w->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS))
                    memcpy(s->x + row * k++, w->x + row * i, row * sizeof *s->x);
            t->n++;
        }
    }
    pthread_mutex_unlock(&t->mu);
    return rc;
}

static int work(aq_stage *st, aq_err *err)
{
    paced *t = st->self;
    struct timespec end;

    (void)err;
    pthread_mutex_lock(&t->mu);
    bool any = t->n;
    slot s = t->q[t->head];
    pthread_mutex_unlock(&t->mu);
    if (!any)
        return 0;
    double us = (t->pace.window_us + t->pace.row_us * s.n_rows) * (st->l1 - st->l0);
    if (us > 0 && s.n_rows) {
        prctl(PR_SET_TIMERSLACK, 1ul);
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_nsec += (long)(us * 1e3);
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL))
            ;
    }
    aq_done d = {
        .id = s.id, .epoch = s.epoch, .n_back = s.n_back, .x = s.n_back ? s.x : NULL, .rc = 0};
    pthread_mutex_lock(&t->mu);
    t->head = (t->head + 1) % AQ_LEN(t->q);
    t->n--;
    pthread_mutex_unlock(&t->mu);
    aq_stage_done(st, &d);
    return 1;
}

static void cancel(aq_stage *st, uint32_t seq)
{
    (void)st;
    (void)seq;
}

static void close_stage(aq_stage *st)
{
    paced *t = st->self;

    for (uint32_t i = 0; i < AQ_LEN(t->q); i++)
        free(t->q[i].x);
    pthread_mutex_destroy(&t->mu);
    free(t);
}

static const aq_stage_vt vt = {submit, work, cancel, close_stage};

aq_stage *paced_stage(const aq_model *m, const aq_state_cfg *sc, uint32_t l0, uint32_t l1, pace p)
{
    paced *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->pace = p;
    t->row_f32 = aq_model_get_info(m)->row_f32;
    pthread_mutex_init(&t->mu, NULL);
    t->stage = (aq_stage){.vt = &vt,
                          .self = t,
                          .l0 = l0,
                          .l1 = l1,
                          .n_page = sc->n_page,
                          .n_snap = sc->n_snap,
                          .max_rows = sc->max_rows,
                          .max_seq = sc->max_seq,
                          .n_inflight = INFLIGHT};
    return &t->stage;
}
