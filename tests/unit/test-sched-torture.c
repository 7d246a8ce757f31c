/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of an engine's life may fail: the chats end with NOMEM or are right, nothing hangs
 * and nothing is left behind. */
#include <sched.h>

#include "chat.h"
#include "sched-priv.h"
#include "tap.h"
#include "thread-stage.h"
#include "torture.h"
#include "toy-backend.h"

#define VOCAB 50u

typedef struct job {
    const aq_model *m;
    int32_t tok[2][300], want[2][20];
    uint32_t n[2], n_parallel;
} job;

/* 0 = right, -NOMEM = told so, else wrong. */
static int chats(const job *j, aq_engine *e)
{
    chat c[2] = {0};
    int rc = 0;

    for (uint32_t i = 0; i < 2; i++)
        chat_start_tok(&c[i], e, j->tok[i], j->n[i], 20);
    for (uint32_t i = 0; i < 2; i++) {
        int one = c[i].rc;
        if (one >= 0 && !chat_wait(&c[i]))
            one = -AQ_E_TIMEOUT;
        else if (one >= 0 && c[i].n_error)
            one = c[i].reason;
        else if (one >= 0 && (c[i].n_tok != 20 || memcmp(c[i].tok, j->want[i], sizeof j->want[i])))
            one = -AQ_E_MISMATCH;
        if (c[i].oom)
            one = -AQ_E_NOMEM; /* the test's own gathering failed */
        if (one < 0 && rc != -AQ_E_MISMATCH)
            rc = one;
    }
    for (uint32_t i = 0; i < 2; i++)
        chat_end(&c[i]);
    return rc;
}

static int run(void *user)
{
    const job *j = user;
    aq_stage *st = NULL;
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_state_cfg sc = {.n_page = 8, .max_seq = 4, .n_snap = 4, .max_rows = 100};
    aq_engine_cfg cfg = {.n_ctx = 1024, .n_parallel = j->n_parallel, .chunk_tok = 64};
    int rc = aq_engine_new_on(&toy_backend, NULL, j->m, NULL, &cfg, &e, &err);

    if (rc >= 0)
        rc = chats(j, e);
    if (rc >= 0)
        rc = aq_stage_local_on(&toy_backend, NULL, j->m, NULL, &(aq_place){0}, &sc, 0, 3, NULL, &st,
                               &err);
    if (rc >= 0 && (rc = aq_engine_set_stages(e, &st, 1, &err)) < 0)
        st->vt->close(st);
    if (rc >= 0)
        rc = chats(j, e);
    aq_engine_free(e);
    if (rc == 0 && torture_wait == 0)
        rc = -AQ_E_NOMEM; /* it was got over: as good as told */
    return rc;
}

int main(void)
{
    /* two chats at once, in both kinds of model; then one after the other: the second one waits for
     * the first one's end, whatever that is */
    for (int round = 0; round < 3; round++) {
        bool recurrent = round == 1;
        job j = {
            .m = toy_model(3, VOCAB, recurrent), .n = {270, 90}, .n_parallel = round == 2 ? 1 : 2};
        for (uint32_t i = 0; i < 2; i++) {
            for (uint32_t k = 0; k < 300; k++)
                j.tok[i][k] = (int32_t)((i * 11 + k * 7) % VOCAB);
            toy_answer(j.m, j.tok[i], j.n[i], 20, j.want[i]);
        }
        toy_reset();
        torture(recurrent ? "recurrent" : round ? "one at a time" : "plain", run, &j);
        toy_model_free((aq_model *)j.m);
    }
    return tap_done();
}
