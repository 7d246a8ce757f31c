/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs: stages change, die and come back in the middle of answers; no token is repeated or lost,
 * what arrives late is dropped. */
#include <sched.h>

#include "chat.h"
#include "sched-priv.h"
#include "tap.h"
#include "thread-stage.h"
#include "toy-backend.h"

#define VOCAB 300u
#define LAYERS 6u

static void fill(int32_t *tok, uint32_t from, uint32_t to, uint32_t seed)
{
    for (uint32_t i = from; i < to; i++)
        tok[i] = (int32_t)(((seed * 2654435761u ^ i * 2246822519u) >> 7) % VOCAB);
}

static bool right(const aq_model *m, const chat *c, const int32_t *tok, uint32_t n, uint32_t n_gen)
{
    int32_t *want = malloc(n_gen * sizeof *want);

    toy_answer(m, tok, n, n_gen, want);
    bool is = c->n_tok == n_gen && !memcmp(want, c->tok, n_gen * sizeof *want);
    free(want);
    return is;
}

/* n stages of equal size; all but the first behind threads. */
static bool make(const aq_model *m, aq_stage **st, uint32_t n, uint32_t n_page)
{
    aq_state_cfg sc = {.n_page = n_page, .max_seq = 8, .n_snap = 8, .max_rows = 600};
    aq_err err = {0};

    for (uint32_t i = 0; i < n; i++) {
        if (aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, i * LAYERS / n,
                              (i + 1) * LAYERS / n, NULL, &st[i], &err) < 0)
            return false;
        if (i && !(st[i] = thread_stage(st[i], 2)))
            return false;
    }
    return true;
}

static void changes(bool recurrent)
{
    enum { N = 5 };
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(LAYERS, VOCAB, recurrent);
    aq_stage *st[LAYERS];
    aq_engine *e = NULL;
    aq_err err = {0};
    static int32_t tok[N][700];
    chat c[N] = {0};
    aq_engine_info info;

    toy_reset();
    if (!make(m, st, 2, 40) ||
        aq_engine_new_on(
            &toy_backend, NULL, m, NULL,
            &(aq_engine_cfg){
                .n_ctx = 2048, .n_parallel = 3, .chunk_tok = 64, .stage = st, .n_stage = 2},
            &e, &err) < 0)
        printf("# %s\n", err.text);
    for (uint32_t i = 0; i < N; i++) {
        fill(tok[i], 0, 700, i + 1);
        chat_start_tok(&c[i], e, tok[i], 300 + i * 100, 400);
    }
    bool all = true;
    for (uint32_t k = 1; k <= 12; k++) {
        chat_wait_tok(&c[k % 3], k * 9);
        uint32_t n = 1 + k % 4;
        all &= make(m, st, n, 40) && aq_engine_set_stages(e, st, n, &err) >= 0;
    }
    aq_engine_get_info(e, &info);
    ok(all && info.epoch == 13, "%s: twelve other sets of one to four stages are taken", name);
    for (uint32_t i = 0; i < N; i++)
        all &= chat_wait(&c[i]) && right(m, &c[i], tok[i], 300 + i * 100, 400);
    ok(all, "%s: five chats beneath them miss and repeat nothing", name);
    for (uint32_t i = 0; i < N; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

static void lost(bool recurrent, int code)
{
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(LAYERS, VOCAB, recurrent);
    aq_stage *st[LAYERS];
    aq_engine *e = NULL;
    aq_err err = {0};
    int32_t tok[2][700];
    chat a = {0}, b = {0}, d = {0};
    aq_engine_stats s;

    toy_reset();
    if (!make(m, st, 2, 40) ||
        aq_engine_new_on(
            &toy_backend, NULL, m, NULL,
            &(aq_engine_cfg){
                .n_ctx = 2048, .n_parallel = 3, .chunk_tok = 64, .stage = st, .n_stage = 2},
            &e, &err) < 0)
        printf("# %s\n", err.text);
    fill(tok[0], 0, 700, 1);
    fill(tok[1], 0, 700, 2);
    chat_start_tok(&a, e, tok[0], 300, 600);
    chat_start_tok(&b, e, tok[1], 700, 600);
    chat_wait_tok(&a, 20);
    thread_stage_kill(st[1], code);
    ok(wait_until((aq_engine_get_stats(e, &s), s.paused)), "%s: %s from a stage pauses the engine",
       name, aq_status_name(code));
    chat_pop_all(&a);
    uint32_t n = a.n_tok;
    ok(!a.n_error && !b.n_error && n < 600, "%s: no chat ends for it (%u tokens so far)", name, n);
    chat_start_tok(&d, e, tok[0] + 5, 200, 50); /* one that comes meanwhile */
    aq_req_cancel(b.req);
    ok(chat_wait(&b) && b.reason == AQ_DONE_CANCELLED, "%s: one can be stopped meanwhile", name);
    ok(make(m, st, 3, 40) && aq_engine_set_stages(e, st, 3, &err) >= 0, "%s: three new stages",
       name);
    ok(chat_wait(&a) && right(m, &a, tok[0], 300, 600),
       "%s: the chat goes on and is right to its end", name);
    ok(chat_wait(&d) && right(m, &d, tok[0] + 5, 200, 50), "%s: so is the one that came meanwhile",
       name);
    ok(a.usage.cached_tok == 0 && a.usage.gen_tok == 600,
       "%s: its usage knows nothing of the replay", name);
    chat_end(&a);
    chat_end(&b);
    chat_end(&d);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Completions of the old epoch that come while the new one has a window of that id under way. */
static void late(void)
{
    aq_model *m = toy_model(LAYERS, VOCAB, false);
    aq_stage *st[2], *next[2];
    aq_engine *e = NULL;
    aq_err err = {0};
    int32_t tok[300];
    chat a = {0};

    toy_reset();
    if (!make(m, st, 2, 40) ||
        aq_engine_new_on(&toy_backend, NULL, m, NULL,
                         &(aq_engine_cfg){.n_ctx = 2048, .stage = st, .n_stage = 2}, &e, &err) < 0)
        printf("# %s\n", err.text);
    fill(tok, 0, 300, 1);
    thread_stage_hold_after(st[1], 40); /* of 8 for the prompt and 500 */
    chat_start_tok(&a, e, tok, 300, 500);
    chat_wait_tok(&a, 10);
    wait_until(thread_stage_held(st[1]) == 1);
    ok(make(m, next, 2, 40), "two more stages");
    thread_stage_hold(next[1], true);
    ok(aq_engine_set_stages(e, next, 2, &err) >= 0, "another set while a window is under way");
    wait_until(thread_stage_waiting(next[1]) == 1);
    float x[TOY_ROW];
    toy_force(x, 7);
    for (uint64_t id = 1; id < 400; id++) {
        aq_stage_done(next[1], &(aq_done){.id = id, .epoch = 1, .n_back = 1, .x = x});
        aq_stage_done(next[1], &(aq_done){.id = id, .epoch = 3, .n_back = 1, .x = x});
        aq_stage_done(next[1], &(aq_done){.id = id + 1000000, .epoch = 2, .n_back = 1, .x = x});
    }
    thread_stage_hold(next[1], false);
    ok(chat_wait(&a) && right(m, &a, tok, 300, 500),
       "completions of another epoch and of unknown windows are dropped");
    chat_end(&a);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Operations that waited for a window when the stages changed mean nothing to the new ones. */
static void leftovers(void)
{
    aq_model *m = toy_model(LAYERS, VOCAB, true);
    aq_stage *st[2];
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_engine_stats s;
    int32_t tok[300];
    chat a = {0};

    toy_reset();
    if (!make(m, st, 1, 40) ||
        aq_engine_new_on(&toy_backend, NULL, m, NULL,
                         &(aq_engine_cfg){.n_ctx = 2048, .stage = st, .n_stage = 1}, &e, &err) < 0)
        printf("# %s\n", err.text);
    fill(tok, 0, 300, 1);
    chat_start_tok(&a, e, tok, 300, 20);
    chat_wait(&a);
    chat_end(&a);
    wait_until((aq_engine_get_stats(e, &s), s.n_parked == 1));
    ok(make(m, st, 2, 40) && aq_engine_set_stages(e, st, 2, &err) >= 0,
       "another set after a chat's end, its last snapshot not yet sent");
    chat_start_tok(&a, e, tok, 300, 20);
    ok(chat_wait(&a) && right(m, &a, tok, 300, 20) && a.usage.cached_tok == 0,
       "the same chat begins anew");
    chat_end(&a);
    aq_engine_free(e);
    toy_model_free(m);
}

/* A local stage that is in the next set too: its weights stay, its seqs are read again. */
static void kept(bool recurrent)
{
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(LAYERS, VOCAB, recurrent);
    aq_state_cfg sc = {.n_page = 40, .max_seq = 8, .n_snap = 8, .max_rows = 600};
    aq_stage *st[2];
    aq_engine *e = NULL;
    aq_err err = {0};
    int32_t tok[2][300];
    chat c[2] = {0};

    toy_reset();
    if (!make(m, st, 2, 40) ||
        aq_engine_new_on(
            &toy_backend, NULL, m, NULL,
            &(aq_engine_cfg){
                .n_ctx = 2048, .n_parallel = 2, .chunk_tok = 64, .stage = st, .n_stage = 2},
            &e, &err) < 0)
        printf("# %s\n", err.text);
    for (uint32_t i = 0; i < 2; i++) {
        fill(tok[i], 0, 300, i + 1);
        chat_start_tok(&c[i], e, tok[i], 300, 500);
    }
    bool all = true;
    for (uint32_t k = 1; k <= 8; k++) {
        chat_wait_tok(&c[k % 2], k * 9);
        if (k % 3 == 0) /* the other one is lost before */
            thread_stage_kill(st[1], AQ_E_GONE);
        aq_stage *next = NULL;
        all &= aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, LAYERS / 2,
                                 LAYERS, NULL, &next, &err) >= 0;
        if (k % 2)
            next = thread_stage(next, 2);
        all &= next && aq_engine_set_stages(e, (aq_stage *[]){st[0], next}, 2, &err) >= 0;
        if (k % 2 == 0) /* behind a thread again, so that it can be lost */
            next = NULL;
        if (!next) {
            all &= aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, LAYERS / 2,
                                     LAYERS, NULL, &next, &err) >= 0;
            next = thread_stage(next, 2);
            all &= next && aq_engine_set_stages(e, (aq_stage *[]){st[0], next}, 2, &err) >= 0;
        }
        st[1] = next;
    }
    ok(all, "%s: the first stage stays while the other one changes and is lost", name);
    for (uint32_t i = 0; i < 2; i++)
        all &= chat_wait(&c[i]) && right(m, &c[i], tok[i], 300, 500);
    ok(all, "%s: both chats miss and repeat nothing", name);
    for (uint32_t i = 0; i < 2; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

static void smaller(void)
{
    aq_model *m = toy_model(LAYERS, VOCAB, false);
    aq_stage *st[LAYERS];
    aq_engine *e = NULL;
    aq_err err = {0};
    int32_t tok[2000];
    chat a = {0}, b = {0};

    toy_reset();
    if (!make(m, st, 1, 40) ||
        aq_engine_new_on(&toy_backend, NULL, m, NULL,
                         &(aq_engine_cfg){.n_ctx = 4096, .stage = st, .n_stage = 1}, &e, &err) < 0)
        printf("# %s\n", err.text);
    fill(tok, 0, 2000, 1);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&a, e, tok, 2000, 100);
    chat_start_tok(&b, e, tok, 100, 100);
    wait_until(atomic_load(&toy.at_gate) == 1);
    ok(make(m, st, 2, 5) && aq_engine_set_stages(e, st, 2, &err) >= 0,
       "a set with less room, while a layer computes");
    atomic_store(&toy.gate, 0);
    bool told = chat_wait(&a) && a.n_error == 1 && a.reason == -AQ_E_LIMIT;
    ok(told, "a chat that fits nowhere any more ends with LIMIT: %s", a.err.text);
    ok(chat_wait(&b) && right(m, &b, tok, 100, 100), "the other one goes on");
    chat_end(&a);
    chat_end(&b);

    /* wrong sets are refused and change nothing */
    aq_engine_info info;
    ok(make(m, st, 3, 5), "three stages");
    aq_stage *swapped[3] = {st[0], st[2], st[1]};
    ok(aq_engine_set_stages(e, swapped, 3, &err) == -AQ_E_INVAL, "in the wrong order: %s",
       err.text);
    ok(aq_engine_set_stages(e, st, 2, &err) == -AQ_E_INVAL, "not to the end: %s", err.text);
    ok(aq_engine_set_stages(e, st, 0, &err) == -AQ_E_INVAL, "none: %s", err.text);
    aq_engine_get_info(e, &info);
    ok(info.epoch == 2, "leave the epoch alone");
    for (uint32_t i = 0; i < 3; i++)
        st[i]->vt->close(st[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

/* A remote stage that says rows come back and sends none. */
static void empty(void)
{
    aq_model *m = toy_model(LAYERS, VOCAB, false);
    aq_stage *st[1];
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_engine_stats now = {0};
    int32_t tok[10];
    chat a = {0};

    if (!make(m, st, 1, 8) || !(st[0] = thread_stage(st[0], 2)) ||
        aq_engine_new_on(&toy_backend, NULL, m, NULL,
                         &(aq_engine_cfg){.n_ctx = 1024, .stage = st, .n_stage = 1}, &e, &err) < 0)
        printf("# %s\n", err.text);
    fill(tok, 0, 10, 1);
    thread_stage_hold(st[0], true);
    chat_start_tok(&a, e, tok, 10, 20);
    wait_until(thread_stage_waiting(st[0]) == 1);
    aq_stage_done(st[0], &(aq_done){.id = 1, .epoch = 1, .n_back = 1});
    ok(wait_until((aq_engine_get_stats(e, &now), now.paused)),
       "rows without their values: the stage counts as lost");
    ok(make(m, st, 1, 8) && aq_engine_set_stages(e, st, 1, &err) >= 0 && chat_wait(&a) &&
           right(m, &a, tok, 10, 20),
       "with another one the chat goes on");
    chat_end(&a);
    aq_engine_free(e);
    toy_model_free(m);
}

int main(void)
{
    changes(false);
    changes(true);
    lost(false, AQ_E_GONE);
    lost(true, AQ_E_GONE);
    lost(false, AQ_E_TIMEOUT);
    late();
    leftovers();
    kept(false);
    kept(true);
    smaller();
    empty();
    return tap_done();
}
