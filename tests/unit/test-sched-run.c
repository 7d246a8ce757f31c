/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler end to end on the toy backend: whatever is batched, chunked and passed through
 * stages, each chat gets what it would get alone. */
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

static void prompt(int32_t *tok, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)(((seed * 2654435761u ^ i * 2246822519u) >> 7) % VOCAB);
}

static bool same(const aq_model *m, const chat *c, const int32_t *tok, uint32_t n, uint32_t n_gen)
{
    int32_t *want = malloc(n_gen * sizeof *want);

    toy_answer(m, tok, n, n_gen, want);
    bool is = c->n_tok == n_gen && !memcmp(want, c->tok, n_gen * sizeof *want);
    if (!is)
        for (uint32_t i = 0; i < n_gen; i++)
            if (i >= c->n_tok || c->tok[i] != want[i]) {
                printf("# token %u of %u (%u came): %d, wanted %d\n", i, n_gen, c->n_tok,
                       i < c->n_tok ? c->tok[i] : -1, want[i]);
                break;
            }
    free(want);
    return is;
}

static void one_chat(void)
{
    aq_model *m = toy_model(3, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 1024});
    int32_t tok[100];
    chat c = {0};

    prompt(tok, 100, 1);
    chat_start_tok(&c, e, tok, 100, 40);
    ok(c.rc == 0 && chat_wait(&c), "one chat ends");
    ok(same(m, &c, tok, 100, 40), "its tokens are the model's");
    ok(c.n_usage == 1 && c.n_done == 1 && c.reason == AQ_DONE_LENGTH,
       "USAGE once, then DONE with LENGTH");
    ok(c.usage.prompt_tok == 100 && c.usage.gen_tok == 40 && c.usage.cached_tok == 0,
       "usage counts 100 read, 40 made, 0 known");
    aq_engine_stats st;
    aq_engine_get_stats(e, &st);
    ok(st.rows_read == 100 && st.rows_gen == 40 && st.n_window == 40,
       "one window for the prompt, one for each further token");
    aq_req_state rs;
    aq_req_get_state(c.req, &rs);
    ok(rs.prompt_tok == 100 && rs.read_tok == 100 && rs.gen_tok == 40 && rs.queued == 0,
       "state says so too");
    chat_end(&c);
    aq_engine_free(e);
    toy_model_free(m);
}

static void many(const char *name, bool recurrent, uint32_t chunk, uint32_t n_parallel,
                 uint32_t stages)
{
    enum { N = 9 };
    aq_model *m = toy_model(4, VOCAB, recurrent);
    aq_stage *st[4] = {0};
    aq_err err = {0};
    bool made = true;
    aq_state_cfg sc = {.n_page = 64, .max_seq = 16, .n_snap = 12, .max_rows = 600};

    for (uint32_t i = 0; i < stages; i++) {
        made &= aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, i * 4 / stages,
                                  (i + 1) * 4 / stages, NULL, &st[i], &err) >= 0;
        if (made && i)
            st[i] = thread_stage(st[i], 2);
    }
    aq_engine *e = made ? engine(m, &(aq_engine_cfg){.n_ctx = 1024,
                                                     .chunk_tok = chunk,
                                                     .n_parallel = n_parallel,
                                                     .stage = stages ? st : NULL,
                                                     .n_stage = stages})
                        : NULL;
    int32_t tok[N][600];
    chat c[N] = {0};
    bool all = e != NULL;

    for (uint32_t i = 0; all && i < N; i++) {
        prompt(tok[i], 20 + i * 70, i + 1);
        chat_start_tok(&c[i], e, tok[i], 20 + i * 70, 30 + i);
    }
    for (uint32_t i = 0; all && i < N; i++)
        all = chat_wait(&c[i]) && same(m, &c[i], tok[i], 20 + i * 70, 30 + i);
    ok(all, "%s: nine chats get what each would get alone", name);
    if (n_parallel > 1 && stages <= 1)
        ok(atomic_load(&toy.max_part) > 1, "%s: several of them in one window (%u at most)", name,
           atomic_load(&toy.max_part));
    if (n_parallel == 1)
        ok(atomic_load(&toy.max_part) == 1, "%s: one at a time", name);
    if (stages > 1)
        ok(thread_stage_most(st[1]) >= 1, "%s: the second stage had %u windows at once", name,
           thread_stage_most(st[1]));
    for (uint32_t i = 0; i < N; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

/* While one chat's long prompt is read in small chunks, another one's answer goes on: a token with
 * every chunk. */
static void fair(void)
{
    aq_model *m = toy_model(2, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 4096, .chunk_tok = 8, .n_parallel = 3});
    int32_t tok[1600];
    chat a = {0}, b = {0}, c = {0};

    prompt(tok, 1600, 5);
    atomic_store(&toy.gate, 1);
    chat_start_tok(&b, e, tok + 7, 5, 2000);
    wait_until(atomic_load(&toy.at_gate) == 1);
    chat_start_tok(&a, e, tok, 1600, 1);     /* 200 chunks of 8 alone */
    chat_start_tok(&c, e, tok + 100, 80, 1); /* 10 alone; it must not wait for a's 200 */
    /* c is to be through before the gate closes again; however late this thread is told, a is not by then */
    atomic_store(&toy.gate_from, atomic_load(&toy.n_forward) + 100);
    atomic_store(&toy.gate, 0);
    aq_req_state sa, sb, sc;
    ok(chat_wait(&c), "a short prompt behind a long one is read");
    aq_req_get_state(a.req, &sa);
    aq_req_get_state(b.req, &sb);
    atomic_store(&toy.gate_from, 0);
    ok(sa.read_tok < 1600, "before the long one (%u of 1600 then)", sa.read_tok);
    ok(chat_wait(&a), "the long one too");
    aq_req_get_state(b.req, &sb);
    aq_req_get_state(c.req, &sc);
    ok(sb.gen_tok >= 200, "and the answer beside them went on for each of the 210 chunks (%u)",
       sb.gen_tok);
    aq_req_cancel(b.req);
    chat_wait(&b);
    chat_end(&a);
    chat_end(&b);
    chat_end(&c);
    aq_engine_free(e);
    toy_model_free(m);
}

/* Two chats over two stages: while the second stage has one chat's window, the first computes the
 * other's. */
static void overlap(void)
{
    aq_model *m = toy_model(4, VOCAB, false);
    aq_state_cfg sc = {.n_page = 64, .max_seq = 16, .max_rows = 600};
    aq_stage *st[2];
    aq_err err;
    bool made = aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 0, 2, NULL,
                                  &st[0], &err) >= 0 &&
                aq_stage_local_on(&toy_backend, NULL, m, NULL, &(aq_place){0}, &sc, 2, 4, NULL,
                                  &st[1], &err) >= 0;
    st[1] = thread_stage(st[1], 2);
    aq_engine *e =
        made ? engine(m, &(aq_engine_cfg){.n_ctx = 1024, .stage = st, .n_stage = 2}) : NULL;
    int32_t tok[2][30];
    chat c[2] = {0};

    thread_stage_hold_after(st[1], 200); /* neither can be at its end then */
    for (uint32_t i = 0; i < 2; i++) {
        prompt(tok[i], 30, i + 1);
        chat_start_tok(&c[i], e, tok[i], 30, 900);
    }
    ok(wait_until(thread_stage_held(st[1]) == 2),
       "two chats decode in two windows, both under way at once");
    thread_stage_hold(st[1], false);
    for (uint32_t i = 0; i < 2; i++)
        ok(chat_wait(&c[i]) && same(m, &c[i], tok[i], 30, 900), "chat %u is right", i);
    for (uint32_t i = 0; i < 2; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

/* A ring that nobody reads stops its own chat only, and reading it lets it go on. */
static void full_ring(void)
{
    enum { LONG = 6000 };
    aq_model *m = toy_model(2, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 8192});
    int32_t tok[20];
    chat a = {0}, b = {0};
    aq_req_state s0, s1;

    prompt(tok, 20, 3);
    chat_start_tok(&a, e, tok, 20, LONG);
    ok(wait_until((aq_req_get_state(a.req, &s0), s0.gen_tok > 1000)),
       "a chat that nobody reads runs at first");
    chat_start_tok(&b, e, tok, 20, LONG);
    ok(chat_wait(&b) && same(m, &b, tok, 20, LONG), "another one that is read comes to its end");
    aq_req_get_state(a.req, &s0);
    ok(s0.gen_tok < LONG, "the unread one stands at %u of %u", s0.gen_tok, LONG);
    aq_req_get_state(a.req, &s1);
    ok(chat_wait(&a) && same(m, &a, tok, 20, LONG), "reading it lets it go on, nothing lost");
    ok(a.n_done == 1 && a.n_usage == 1, "and DONE comes last");
    chat_end(&a);
    chat_end(&b);
    aq_engine_free(e);
    toy_model_free(m);
}

static void sampled_alone_and_together(void)
{
    aq_model *m = toy_model(2, VOCAB, false);
    aq_engine *e = engine(m, &(aq_engine_cfg){.n_ctx = 1024, .n_parallel = 4});
    int32_t tok[25];
    chat c[5] = {0};
    aq_req_in in = {
        .tok = tok,
        .n_tok = 25,
        .max_tok = 60,
        .n_logprobs = 3,
        .sampling = {.temp = 1.0f, .top_k = 40, .top_p = 0.95f, .seed = 42, .ignore_eog = true}};

    prompt(tok, 25, 3);
    chat_start(&c[0], e, &in);
    chat_wait(&c[0]);
    for (uint32_t i = 1; i < 5; i++) {
        in.sampling.seed = i == 4 ? 43 : 42;
        chat_start(&c[i], e, &in);
    }
    bool all = true;
    for (uint32_t i = 1; i < 5; i++)
        all &= chat_wait(&c[i]);
    for (uint32_t i = 1; i < 4; i++)
        all &= c[i].n_tok == 60 && !memcmp(c[i].tok, c[0].tok, 60 * sizeof *tok);
    ok(all, "one seed gives one answer, alone and beside others");
    ok(memcmp(c[4].tok, c[0].tok, 60 * sizeof *tok) != 0, "another seed gives another");
    ok(c[0].n_top == 4 && c[0].top[0].tok == c[0].tok[59] &&
           c[0].top[1].logprob >= c[0].top[2].logprob,
       "log-probabilities come with it");
    for (uint32_t i = 0; i < 5; i++)
        chat_end(&c[i]);
    aq_engine_free(e);
    toy_model_free(m);
}

int main(void)
{
    one_chat();
    many("plain", false, 0, 4, 0);
    many("one at a time", false, 64, 1, 0);
    many("chunks of 7", false, 7, 5, 0);
    many("recurrent", true, 33, 4, 0);
    many("two stages", false, 16, 4, 2);
    many("four stages, recurrent", true, 16, 4, 4);
    fair();
    overlap();
    full_ring();
    sampled_alone_and_together();
    return tap_done();
}
