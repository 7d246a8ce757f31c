/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix reuse: what is known is not read again, what differs is, and the tokens are the same
 * either way. Pages: who waits, who is refused, who gives way. */
#include <sched.h>

#include "chat.h"
#include "sched-priv.h"
#include "tap.h"
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

/* One request from start to end: right tokens, and how many of its prompt were known. -1 = wrong.
 */
static int run(const aq_model *m, aq_engine *e, const int32_t *tok, uint32_t n, uint32_t n_gen,
               int32_t *ret)
{
    chat c = {0};
    int32_t *want = malloc(n_gen * sizeof *want);

    toy_answer(m, tok, n, n_gen, want);
    chat_start_tok(&c, e, tok, n, n_gen);
    bool good = chat_wait(&c) && c.n_tok == n_gen && !memcmp(c.tok, want, n_gen * sizeof *want);
    int known = good ? (int)c.usage.cached_tok : -1;
    if (c.n_error || c.rc < 0)
        printf("# %s\n", c.err.text);
    if (ret)
        memcpy(ret, want, n_gen * sizeof *want);
    free(want);
    chat_end(&c);
    return known;
}

static void turns(bool recurrent)
{
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 8192, .n_parallel = 2, .chunk_tok = 100});
    int32_t tok[4000];
    aq_engine_stats st;

    fill(tok, 0, 300, 1);
    ok(run(m, e, tok, 300, 20, tok + 300) == 0, "%s: a first chat knows nothing", name);
    aq_engine_get_stats(e, &st);
    ok(wait_until((aq_engine_get_stats(e, &st), st.n_parked == 1)), "%s: it is parked when it ends",
       name);
    /* the last token sampled was never read */
    fill(tok, 320, 400, 2);
    ok(run(m, e, tok, 400, 20, NULL) == 319, "%s: its next turn knows prompt and answer (319)",
       name);
    aq_engine_get_stats(e, &st);
    ok(st.rows_read == 300 + 81, "%s: and reads only the 81 tokens that are new (%llu in all)",
       name, (unsigned long long)st.rows_read);
    /* from the middle of the answer: an ordinary model keeps all that is common, a recurrent one
     * has the state after the prompt */
    fill(tok, 310, 380, 3);
    int known = run(m, e, tok, 380, 5, NULL);
    ok(known == (recurrent ? 300 : 310), "%s: another answer from its middle on knows %d", name,
       known);
    /* the same prompt again: one row at least is computed */
    known = run(m, e, tok, 380, 5, NULL);
    ok(recurrent ? known == 300 : known == 379, "%s: the same prompt again knows %d", name, known);
    fill(tok, 0, 10, 9);
    ok(run(m, e, tok, 380, 5, NULL) == 0, "%s: another beginning knows nothing", name);
    aq_engine_free(e);

    /* snapshots along a long prompt */
    e = engine(m, &(aq_engine_cfg){.n_ctx = 8192, .n_parallel = 2, .chunk_tok = 100});
    fill(tok, 0, 3500, 4);
    run(m, e, tok, 3500, 3, NULL);
    fill(tok, 3000, 3500, 5);
    known = run(m, e, tok, 3500, 3, NULL);
    ok(recurrent ? known > 2000 && known <= 3000 : known == 3000,
       "%s: a long prompt cut at 3000 knows %d", name, known);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Chats with the same beginning and different ends: the pages of the beginning are shared, nobody
 * disturbs another. */
static void shared(bool recurrent)
{
    enum { N = 4, COMMON = 1024 + 37, END = 200 };
    const char *name = recurrent ? "recurrent" : "plain";
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_engine *e =
        engine(m, &(aq_engine_cfg){.n_ctx = 2048, .n_parallel = N, .n_page = 20, .chunk_tok = 128});
    int32_t tok[N][COMMON + END], want[N][100];
    chat c[N] = {0};
    bool all = true;
    aq_engine_stats st;

    for (uint32_t i = 0; i < N; i++) {
        fill(tok[i], 0, COMMON, 1);
        fill(tok[i], COMMON, COMMON + END, i + 2);
    }
    ok(run(m, e, tok[0], COMMON, 5, NULL) == 0, "%s: the common beginning is read once", name);
    for (uint32_t i = 0; i < N; i++)
        toy_answer(m, tok[i], COMMON + END, 100, want[i]);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&c[0], e, tok[0], COMMON + END, 100);
    wait_until(atomic_load(&toy.at_gate) == 1);
    for (uint32_t i = 1; i < N; i++)
        chat_start_tok(&c[i], e, tok[i], COMMON + END, 100);
    atomic_store(&toy.gate_from,
                 atomic_load(&toy.n_forward) +
                     1); /* the others come in with the next window, which then stands */
    atomic_store(&toy.gate, 0);
    all = wait_until((aq_engine_get_stats(e, &st), st.n_running == N));
    ok(all, "%s: four chats of 6 pages run at once in 20 pages, since they share four (%u used)",
       name, st.pages_used);
    atomic_store(&toy.gate_from, 0);
    for (uint32_t i = 0; i < N; i++) {
        all &= chat_wait(&c[i]) && c[i].n_tok == 100 && !memcmp(c[i].tok, want[i], sizeof want[i]);
    }
    ok(all, "%s: all four are right", name);
    for (uint32_t i = 0; i < N; i++)
        all &= c[i].usage.cached_tok >= 1024;
    ok(all, "%s: all four knew the beginning", name);
    /* each of them goes on */
    for (uint32_t i = 0; i < N; i++)
        all &= run(m, e, tok[i], COMMON + END, 50, NULL) > 0;
    ok(all, "%s: and all can go on", name);
    for (uint32_t i = 0; i < N; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

static void waiting(void)
{
    aq_model *m = toy_model(2, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 2048, .n_parallel = 4, .n_page = 8});
    int32_t tok[2000];
    chat a = {0}, b = {0}, c = {0};
    aq_req_state sb, sc;
    aq_engine_stats st;

    fill(tok, 0, 2000, 1);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&a, e, tok, 1000, 200); /* 5 pages */
    wait_until(atomic_load(&toy.at_gate) == 1);
    chat_start_tok(&b, e, tok + 100, 900, 100); /* 4: does not fit beside a */
    chat_start_tok(&c, e, tok + 200, 10, 5);    /* 1: would fit, but waits its turn */
    atomic_store(&toy.gate_from, atomic_load(&toy.n_forward) + 1);
    atomic_store(&toy.gate, 0);
    ok(wait_until((aq_engine_get_stats(e, &st), st.n_running == 1 && st.n_queued == 2)),
       "a chat for which pages are missing waits");
    aq_req_get_state(b.req, &sb);
    aq_req_get_state(c.req, &sc);
    ok(sb.queued == 1 && sc.queued == 2,
       "its place in the queue is known, the one behind it waits too");
    atomic_store(&toy.gate_from, 0);
    ok(chat_wait(&a) && chat_wait(&b) && chat_wait(&c), "all come to their end");
    ok(b.n_tok == 100 && b.usage.queue_us >= 0 && b.n_done == 1, "the one that waited in full");

    chat_end(&a);
    chat_end(&b);
    chat_end(&c);

    /* parked chats give way */
    bool parked = wait_until((aq_engine_get_stats(e, &st), st.n_running == 0 && st.n_parked >= 1));
    ok(parked, "chats that ended hold pages (%u of 8)", st.pages_used);
    ok(run(m, e, tok + 500, 1400, 600, NULL) == 0, "a chat that needs all 8 pages gets them");

    /* refusals */
    chat d = {0};
    chat_start_tok(&d, e, tok, 2000, 48);
    ok(d.rc == 0, "2000 of 2048 tokens are taken");
    chat_wait(&d);
    chat_end(&d);
    int32_t *big = calloc(5000, sizeof *big);
    chat_start_tok(&d, e, big, 5000, 10);
    ok(d.rc == -AQ_E_LIMIT && strstr(d.err.text, "5000") && strstr(d.err.text, "2048"),
       "too long a chat is LIMIT with both numbers: %s", d.err.text);
    chat_end(&d);
    chat_start_tok(&d, e, big, 2048, 10);
    ok(d.rc == -AQ_E_LIMIT, "so is one that leaves no room for an answer");
    chat_end(&d);
    aq_engine_free(e);

    e = engine(m, &(aq_engine_cfg){.n_ctx = 2048, .n_parallel = 1, .n_page = 4});
    chat_start_tok(&d, e, big, 1000, 500);
    ok(d.rc == 0 && chat_wait(&d) && d.n_error == 1 && d.reason == -AQ_E_LIMIT &&
           strstr(d.err.text, "1500") && strstr(d.err.text, "1024"),
       "one that fits the context but not the pages too: %s", d.err.text);
    chat_end(&d);
    int32_t odd[2] = {5, (int32_t)VOCAB};
    chat_start_tok(&d, e, odd, 2, 5);
    ok(d.rc == -AQ_E_INVAL && strstr(d.err.text, "300"),
       "a token that the model does not have is INVAL: %s", d.err.text);
    chat_end(&d);
    free(big);

    /* the queue is bounded: one runs, AQ_QUEUE_MAX wait */
    static chat q[AQ_QUEUE_MAX + 2];
    uint32_t taken = 0, busy = 0;
    atomic_store(&toy.gate, 1);
    chat_start_tok(&q[0], e, tok, 5, 2);
    wait_until(atomic_load(&toy.at_gate) == 1);
    for (uint32_t i = 1; i < AQ_QUEUE_MAX + 2; i++) {
        chat_start_tok(&q[i], e, tok, 5, 2);
        taken += q[i].rc == 0;
        busy += q[i].rc == -AQ_E_BUSY;
    }
    ok(taken == AQ_QUEUE_MAX && busy == 1, "%u wait, the next is BUSY: %s", taken,
       q[AQ_QUEUE_MAX + 1].err.text);
    atomic_store(&toy.gate, 0);
    bool all = true;
    for (uint32_t i = 0; i < AQ_QUEUE_MAX + 1; i++)
        all &= chat_wait(&q[i]) && q[i].n_tok == 2;
    ok(all, "all that were taken are answered");
    for (uint32_t i = 0; i < AQ_QUEUE_MAX + 2; i++)
        chat_end(&q[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Many chats of many lengths through few pages and few seqs: the engine's count of pages is never
 * more generous than the stage's. */
static void crowd(bool recurrent)
{
    enum { N = 200 };
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_engine *e =
        engine(m, &(aq_engine_cfg){.n_ctx = 1024, .n_parallel = 3, .n_page = 9, .chunk_tok = 50});
    static int32_t tok[N][700];
    static int32_t want[N][40];
    uint32_t n[N], good = 0, known = 0;
    chat c[N] = {0};
    uint64_t rng = 12345;

    for (uint32_t i = 0; i < N; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        n[i] = 1 + (uint32_t)(rng >> 33) % 700;
        uint32_t like = i ? (uint32_t)(rng >> 13) % i : 0,
                 same = i ? (uint32_t)(rng >> 40) % n[i] : 0;
        fill(tok[i], 0, 700, i + 1);
        memcpy(tok[i], tok[like], AQ_MIN(same, n[i]) * sizeof tok[0][0]);
        toy_answer(m, tok[i], n[i], 40, want[i]);
        chat_start_tok(&c[i], e, tok[i], n[i], 40);
    }
    for (uint32_t i = 0; i < N; i++) {
        bool ended = chat_wait(&c[i]);
        good += ended && c[i].n_tok == 40 && !memcmp(c[i].tok, want[i], sizeof want[i]);
        known += c[i].usage.cached_tok > 0;
        if (c[i].n_error)
            printf("# %u: %s\n", i, c[i].err.text);
        chat_end(&c[i]);
    }
    ok(good == N, "%s: 200 chats through 9 pages: %u right", recurrent ? "recurrent" : "plain",
       good);
    ok(known >= (recurrent ? 1 : 50), "%s: %u of them knew something",
       recurrent ? "recurrent" : "plain", known);
    aq_engine_free(e);
    toy_model_free(m);
}

int main(void)
{
    turns(false);
    turns(true);
    shared(false);
    shared(true);
    waiting();
    crowd(false);
    crowd(true);
    return tap_done();
}
