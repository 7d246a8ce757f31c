/* SPDX-License-Identifier: Apache-2.0 */
#include "scripted-stage.h"

#include <pthread.h>

#define MOST 8u

typedef struct sstage {
    aq_stage stage;
    script s;
    uint32_t row_f32;
    pthread_mutex_t mu;
    struct {
        uint64_t id;
        uint32_t epoch, n_back;
        float *x;
    } q[MOST];
    uint32_t head, n, credit;
} sstage;

/* Complete what may be: outside the lock, since the engine may submit from inside. */
static void pump(sstage *t)
{
    for (;;) {
        pthread_mutex_lock(&t->mu);
        if (!t->n || (t->s.by_hand && !t->credit)) {
            pthread_mutex_unlock(&t->mu);
            return;
        }
        aq_done d = {.id = t->q[t->head].id,
                     .epoch = t->q[t->head].epoch,
                     .n_back = t->q[t->head].n_back,
                     .x = t->q[t->head].x};
        float *x = t->q[t->head].x;
        t->head = (t->head + 1) % MOST;
        t->n--;
        t->credit -= t->s.by_hand;
        pthread_mutex_unlock(&t->mu);
        aq_stage_done(&t->stage, &d);
        free(x);
    }
}

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    sstage *t = st->self;
    uint32_t k = 0;
    float *x = calloc((size_t)w->n_back + 1, t->row_f32 * sizeof *x);

    if (!x)
        return aq_fail(err, AQ_E_NOMEM, "script");
    for (uint32_t i = 0; i < w->n_rows; i++) {
        if (!(w->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS)))
            continue;
        uint32_t at = w->row[i].pos + 1 - t->s.n_prompt;
        t->s.row(x + (size_t)k++ * t->row_f32, at < t->s.n_tok ? t->s.tok[at] : t->s.after);
    }
    pthread_mutex_lock(&t->mu);
    bool full = t->n == MOST;
    if (!full) {
        uint32_t at = (t->head + t->n++) % MOST;
        t->q[at].id = w->id;
        t->q[at].epoch = w->epoch;
        t->q[at].n_back = w->n_back;
        t->q[at].x = x;
    }
    pthread_mutex_unlock(&t->mu);
    if (full) {
        free(x);
        return aq_fail(err, AQ_E_BUSY, "script");
    }
    pump(t);
    return 0;
}

static void close_stage(aq_stage *st)
{
    sstage *t = st->self;

    for (; t->n; t->n--, t->head = (t->head + 1) % MOST)
        free(t->q[t->head].x);
    pthread_mutex_destroy(&t->mu);
    free(t);
}

static const aq_stage_vt vt = {submit, NULL, NULL, close_stage};

aq_stage *scripted_stage(const aq_model *m, const script *s)
{
    const aq_model_info *in = aq_model_get_info(m);
    sstage *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->s = *s;
    t->row_f32 = in->row_f32;
    pthread_mutex_init(&t->mu, NULL);
    t->stage = (aq_stage){.vt = &vt,
                          .self = t,
                          .l0 = 0,
                          .l1 = in->n_layer,
                          .n_page = s->n_page ? s->n_page : 1024,
                          .n_snap = 16,
                          .max_rows = 4096,
                          .n_inflight = MOST,
                          .max_seq = s->max_seq ? s->max_seq : 64};
    return &t->stage;
}

void scripted_release(aq_stage *st, uint32_t n)
{
    sstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    t->credit += n;
    pthread_mutex_unlock(&t->mu);
    pump(t);
}

uint32_t scripted_waiting(aq_stage *st)
{
    sstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    uint32_t n = t->n;
    pthread_mutex_unlock(&t->mu);
    return n;
}
