/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping: within a layer, from any thread, at any moment; and that the chats beside it never
 * notice. */
#include <sched.h>

#include "chat.h"
#include "sched-priv.h"
#include "tap.h"
#include "thread-stage.h"
#include "toy-backend.h"

#define VOCAB 300u

static aq_engine *engine(const aq_model *m, const aq_engine_cfg *cfg)
{
    aq_engine *e = NULL;
    aq_err err = {0};

    toy_reset();
    if (aq_engine_new_on(&toy_backend, NULL, m, NULL, cfg, &e, &err) < 0)
        printf("# %s\n", err.text);
    return e;
}

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

static void within_a_layer(bool recurrent)
{
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 4096, .chunk_tok = 512});
    int32_t tok[2000];
    chat c = {0}, d = {0};

    fill(tok, 0, 2000, 1);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&c, e, tok, 2000, 10);
    wait_until(atomic_load(&toy.at_gate) == 1);
    aq_req_cancel(c.req);
    ok(chat_wait(&c) && c.n_done == 1 && c.reason == AQ_DONE_CANCELLED && c.n_tok == 0,
       "%s: DONE with CANCELLED comes while the layer still waits", name);
    ok(atomic_load(&toy.n_cancelled) == 1, "%s: the window was given up in its layer", name);
    atomic_store(&toy.gate, 0);
    chat_start_tok(&d, e, tok, 2000, 10);
    ok(chat_wait(&d) && right(m, &d, tok, 2000, 10), "%s: the same chat again is right", name);
    chat_end(&c);
    chat_end(&d);
    aq_engine_free(e);

    /* in the middle: two chunks are known to be good, the third is given up */
    e = engine(m, &(aq_engine_cfg){.n_ctx = 4096, .chunk_tok = 512});
    aq_req_state s;
    chat_start_tok(&c, e, tok, 1024, 3);
    chat_wait(&c);
    chat_end(&c);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&c, e, tok, 2000, 10);
    wait_until(atomic_load(&toy.at_gate) == 1);
    aq_req_get_state(c.req, &s);
    ok(s.read_tok == 1024, "%s: a longer one goes on where it was (%u)", name, s.read_tok);
    aq_req_cancel(c.req);
    chat_wait(&c);
    atomic_store(&toy.gate, 0);
    chat_start_tok(&d, e, tok, 2000, 10);
    bool good = chat_wait(&d) && right(m, &d, tok, 2000, 10) && d.usage.cached_tok == 1024;
    ok(good, "%s: stopped there and asked again it still knows 1024 (%u)", name,
       d.usage.cached_tok);
    chat_end(&c);
    chat_end(&d);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Chats are stopped and left at random moments, over two stages with threads; those that are not
 * are right. */
static void storm(bool recurrent, uint32_t stages, uint32_t seed)
{
    enum { N = 120 };
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_state_cfg sc = {.n_page = 40, .max_seq = 10, .n_snap = 12, .max_rows = 600};
    aq_stage *st[2];
    aq_err err = {0};
    for (uint32_t i = 0; i < stages; i++) {
        if (aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, i * 4 / stages,
                              (i + 1) * 4 / stages, NULL, &st[i], &err) < 0)
            return;
        if (i)
            st[i] = thread_stage(st[i], 3);
    }
    aq_engine *e = engine(
        m, &(aq_engine_cfg){
               .n_ctx = 2048, .n_parallel = 4, .chunk_tok = 37, .stage = st, .n_stage = stages});
    static int32_t tok[N][900];
    static chat c[N];
    uint32_t good = 0, whole = 0, stopped = 0, wrong = 0, len[N], gen[N];
    uint64_t rng = seed;

    for (uint32_t i = 0; i < N; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t n = 200 + (uint32_t)(rng >> 33) % 700, n_gen = 1 + (uint32_t)(rng >> 20) % 60;
        fill(tok[i], 0, 900, i % 3);
        fill(tok[i], (uint32_t)(rng >> 45) % 900, 900, i + 10);
        chat_start_tok(&c[i], e, tok[i], n, n_gen);
        for (uint32_t k = (uint32_t)(rng >> 50) % 2000; k > 0; k--)
            sched_yield();
        if (rng >> 62 == 1 && c[i / 2].req) {
            aq_req_cancel(c[i / 2].req);
        } else if (rng >> 62 == 2) {
            chat_end(&c[i]); /* the reader just leaves */
        } else if (rng >> 62 == 3 && c[i - i % 3].req) {
            chat_wait_tok(&c[i - i % 3], 3);
            aq_req_cancel(c[i - i % 3].req);
        }
        len[i] = n;
        gen[i] = n_gen;
    }
    for (uint32_t i = 0; i < N; i++) {
        if (!c[i].req)
            continue;
        bool ended = chat_wait(&c[i]) && !c[i].n_error;
        if (c[i].n_error)
            printf("# %u: %s\n", i, c[i].err.text);
        uint32_t n = len[i], n_gen = gen[i];
        int32_t want[64];
        toy_answer(m, tok[i], n, n_gen, want);
        bool fits = ended && c[i].n_tok <= n_gen &&
                    (!c[i].n_tok || !memcmp(want, c[i].tok, c[i].n_tok * sizeof *want));
        good += fits;
        wrong += !fits;
        whole += ended && c[i].reason == AQ_DONE_LENGTH;
        stopped += ended && c[i].reason == AQ_DONE_CANCELLED;
        if (ended && c[i].reason == AQ_DONE_LENGTH && c[i].n_tok != n_gen)
            wrong++;
    }
    ok(!wrong && good, "%s, %u stage(s), seed %u: %u chats right (%u whole, %u stopped), %u wrong",
       recurrent ? "recurrent" : "plain", stages, seed, good, whole, stopped, wrong);
    for (uint32_t i = 0; i < N; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

static void queued_and_closing(void)
{
    aq_model *m = toy_model(2, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 1024, .n_parallel = 1});
    int32_t tok[100];
    chat c[3] = {0};

    fill(tok, 0, 100, 1);
    atomic_store(&toy.gate, 1);
    for (uint32_t i = 0; i < 3; i++)
        chat_start_tok(&c[i], e, tok, 100, 5);
    wait_until(atomic_load(&toy.at_gate) == 1);
    aq_req_cancel(c[0].req); /* frees the step thread too */
    chat_wait(&c[0]);
    wait_until(atomic_load(&toy.at_gate) == 1);
    aq_req_cancel(c[2].req);
    aq_req_cancel(c[1].req);
    ok(chat_wait(&c[2]) && c[2].reason == AQ_DONE_CANCELLED,
       "a chat that waits in the queue can be stopped");
    ok(chat_wait(&c[1]) && c[1].reason == AQ_DONE_CANCELLED, "and the running one");
    chat_end(&c[1]);
    chat_end(&c[2]);
    chat_start_tok(&c[1], e, tok, 100, 5);
    chat_start_tok(&c[2], e, tok, 100, 5);
    wait_until(atomic_load(&toy.at_gate) == 1);
    aq_engine_free(e); /* the gate is still closed: closing stops the layer */
    ok(chat_wait(&c[1]) && c[1].n_done == 1 && c[1].reason == AQ_DONE_CANCELLED,
       "closing the engine ends the running chat with CANCELLED");
    ok(chat_wait(&c[2]) && c[2].n_done == 1 && c[2].reason == AQ_DONE_CANCELLED,
       "and the waiting one");
    aq_req_cancel(c[1].req);
    ok(true, "cancel and free after the engine is gone are harmless");
    for (uint32_t i = 0; i < 3; i++)
        chat_end(&c[i]);

    /* a full ring at the end: DONE must still come */
    toy_reset();
    e = engine(m, &(aq_engine_cfg){.n_ctx = 8192, .n_parallel = 1});
    aq_req_state s = {0};
    chat_start_tok(&c[0], e, tok, 100, 8000);
    wait_until(atomic_load(&c[0].req->stuck));
    aq_req_get_state(c[0].req, &s);
    aq_engine_free(e);
    bool good = chat_wait(&c[0]) && c[0].n_done == 1 && c[0].n_usage == 1 &&
                c[0].n_tok == s.gen_tok && s.gen_tok < 8000;
    ok(good, "a full ring's chat gets all %u tokens, USAGE and DONE", c[0].n_tok);
    chat_end(&c[0]);
    toy_model_free(m);
}

/* Let the window that waits at the gate and k - 1 after it pass; the next one waits there again. */
static void pass(uint32_t k)
{
    uint32_t n = atomic_load(&toy.n_forward) + k;

    atomic_store(&toy.gate_from, n);
    wait_until(atomic_load(&toy.n_forward) == n && atomic_load(&toy.at_gate) == 1);
}

/* A prompt is stopped in a window that it shares with an answer, again and again: at once, and the
 * answer goes on with its one row computed again. */
static void shared_window(bool recurrent)
{
    enum { TIMES = 6 };
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 4096, .chunk_tok = 512});
    int32_t tok[300], other[2000];
    chat a = {0}, b = {0};
    uint32_t told = 0;

    fill(tok, 0, 300, 1);
    fill(other, 0, 2000, 2);
    atomic_store(&toy.gate_from, 1);
    chat_start_tok(&b, e, tok, 300, 200);
    wait_until(atomic_load(&toy.at_gate) == 1);
    pass(20);
    for (uint32_t i = 0; i < TIMES; i++) {
        chat_start_tok(&a, e, other, 2000, 10);
        pass(1);
        bool both = atomic_load(&toy.last_part) == 2;
        uint32_t n = atomic_load(&toy.n_forward);
        aq_req_cancel(a.req);
        told += both && chat_wait(&a) && a.n_done == 1 && a.reason == AQ_DONE_CANCELLED;
        chat_end(&a);
        wait_until(atomic_load(&toy.n_forward) == n + 1 && atomic_load(&toy.at_gate) == 1);
        pass(5);
    }
    atomic_store(&toy.gate_from, 0);
    ok(told == TIMES, "%s: a prompt is stopped %u times within a layer of a shared window", name,
       told);
    ok(chat_wait(&b) && right(m, &b, tok, 300, 200), "%s: the answer beside it is right", name);
    uint32_t rows = atomic_load(&toy.rows), all = 300 + 199 + TIMES * (512 + 1);
    ok(rows == all, "%s: and only one row of it was computed again each time (%u of %u)", name,
       rows, all);
    chat_end(&b);

    /* stopped in the middle of its answer: what was said is known to the next turn */
    atomic_store(&toy.gate_from, atomic_load(&toy.n_forward) + 1);
    chat_start_tok(&a, e, other, 200, 1000);
    wait_until(atomic_load(&toy.at_gate) == 1);
    pass(30);
    aq_req_cancel(a.req);
    chat_wait(&a);
    atomic_store(&toy.gate_from, 0);
    memcpy(other + 200, a.tok, a.n_tok * sizeof *other);
    uint32_t n = 200 + a.n_tok;
    chat_start_tok(&b, e, other, n + 50, 20);
    bool good = chat_wait(&b) && right(m, &b, other, n + 50, 20);
    ok(good && a.n_tok == 30 && b.usage.cached_tok == n - 1,
       "%s: a stopped answer's tokens are known to the next turn (%u of %u)", name,
       b.usage.cached_tok, n);
    chat_end(&a);
    chat_end(&b);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Stages stand at different tokens when a chat is stopped. What the one has too much is given back:
 * the next chat gets every page that the engine counts as free. */
static void apart(void)
{
    aq_model *m = toy_model(4, VOCAB, false);
    aq_state_cfg sc = {.n_page = 8, .max_seq = 10, .max_rows = 600};
    aq_stage *st[2];
    aq_err err = {0};
    bool made = aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 0, 2, NULL,
                                  &st[0], &err) >= 0 &&
                aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 2, 4, NULL,
                                  &st[1], &err) >= 0;
    st[1] = thread_stage(st[1], 2);
    aq_engine *e =
        made ? engine(m,
                      &(aq_engine_cfg){.n_ctx = 2048, .chunk_tok = 256, .stage = st, .n_stage = 2})
             : NULL;
    int32_t tok[1500], other[2048];
    chat a = {0}, b = {0};
    aq_engine_stats s;
    aq_req_state q;

    fill(tok, 0, 1500, 1);
    fill(other, 0, 2048, 2);
    chat_start_tok(&a, e, tok, 256, 1);
    chat_wait(&a);
    chat_end(&a);
    thread_stage_hold(st[1], true);
    chat_start_tok(&a, e, tok, 1500, 100);
    wait_until(thread_stage_waiting(st[1]) == 2); /* the first stage has 512 tokens more */
    aq_req_cancel(a.req);
    ok(chat_wait(&a) && a.reason == AQ_DONE_CANCELLED, "stopped while a stage stands still");
    aq_req_get_state(a.req, &q);
    thread_stage_hold(st[1], false);
    wait_until((aq_engine_get_stats(e, &s), s.n_parked == 1));
    uint32_t room = (8 - s.pages_used) * AQ_PAGE_TOK;
    chat_start_tok(&b, e, other, room - 20, 20);
    ok(chat_wait(&b) && right(m, &b, other, room - 20, 20),
       "the next chat gets all %u tokens that are free beside it", room);
    chat_end(&a);
    chat_end(&b);
    aq_engine_free(e);
    toy_model_free(m);
}

static void failing(void)
{
    aq_model *m = toy_model(4, VOCAB, false);
    aq_state_cfg sc = {.n_page = 40, .max_seq = 10, .max_rows = 600};
    aq_stage *st[2];
    aq_err err = {0};
    bool made = aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 0, 2, NULL,
                                  &st[0], &err) >= 0 &&
                aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 2, 4, NULL,
                                  &st[1], &err) >= 0;
    st[1] = thread_stage(st[1], 2);
    aq_engine *e =
        made
            ? engine(m, &(aq_engine_cfg){.n_ctx = 1024, .n_parallel = 4, .stage = st, .n_stage = 2})
            : NULL;
    int32_t tok[100];
    chat a = {0}, b = {0};

    fill(tok, 0, 100, 1);
    chat_start_tok(&a, e, tok, 100, 500);
    chat_wait_tok(&a, 5);
    thread_stage_fail(st[1], 1, AQ_E_DEVICE);
    bool told = chat_wait(&a) && a.n_error == 1 && a.n_done == 0 && a.reason == -AQ_E_DEVICE;
    ok(told, "a stage's failure ends the chat with ERROR: %s", a.err.text);
    chat_start_tok(&b, e, tok, 100, 500);
    ok(chat_wait(&b) && right(m, &b, tok, 100, 500), "the next chat is right");
    chat_end(&a);
    chat_end(&b);

    /* CANCELLED that nobody asked for: taken back and read again */
    chat_start_tok(&b, e, tok + 1, 99, 500);
    chat_wait_tok(&b, 5);
    thread_stage_fail(st[1], 1, AQ_E_CANCELLED);
    ok(chat_wait(&b) && right(m, &b, tok + 1, 99, 500),
       "a window that was given up for no reason is done again");
    chat_end(&b);

    aq_failpoint_set("toy-head", 3, 1);
    chat_start_tok(&a, e, tok, 50, 20);
    ok(chat_wait(&a) && a.n_error == 1 && a.n_tok == 2,
       "a failing head ends the chat after its two good tokens");
    chat_end(&a);
    aq_failpoint_set("toy-head", 0, 0);
    chat_start_tok(&a, e, tok, 50, 20);
    ok(chat_wait(&a) && right(m, &a, tok, 50, 20), "and the next is right");
    chat_end(&a);
    aq_engine_free(e);
    toy_model_free(m);
}

int main(void)
{
    within_a_layer(false);
    within_a_layer(true);
    queued_and_closing();
    failing();
    apart();
    shared_window(false);
    shared_window(true);
    for (uint32_t seed = 1; seed <= 3; seed++) {
        storm(false, 1, seed);
        storm(false, 2, seed);
        storm(true, 2, seed);
    }
    return tap_done();
}
