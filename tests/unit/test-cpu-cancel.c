/* SPDX-License-Identifier: Apache-2.0 */
/* Chats on the CPU's threads are stopped at random moments, window after window: those that go on say
 * what they say alone, none waits for ever, and (under TSan) nothing is touched twice at once.
 *
 * usage: test-cpu-cancel FOLDER [WINDOWS [SEED]]      FOLDER: the models of tests/golden; WINDOWS: of each (1000) */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat.h"
#include "tap.h"

#define PROMPTS 6u
#define PROMPT_TOK 90u
#define GEN_TOK 40u
#define AT_ONCE 4u

typedef struct said {
    int32_t tok[PROMPT_TOK], answer[GEN_TOK];
    uint32_t n;
} said;

static uint32_t next(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*rng >> 33);
}

static bool alone(aq_engine *e, uint32_t vocab, uint64_t *rng, said *s)
{
    chat c = {0};

    s->n = 20 + next(rng) % (PROMPT_TOK - 20);
    for (uint32_t i = 0; i < PROMPT_TOK; i++)
        s->tok[i] = (int32_t)(next(rng) % vocab);
    chat_start_tok(&c, e, s->tok, s->n, GEN_TOK);
    bool good = chat_wait(&c) && c.n_tok == GEN_TOK;
    if (good)
        memcpy(s->answer, c.tok, sizeof s->answer);
    chat_end(&c);
    return good;
}

/* Four chats at once, each left alone, stopped after some tokens, or stopped at any moment. */
static bool storm(aq_engine *e, const said *all, uint64_t *rng, uint32_t *whole, uint32_t *stopped)
{
    chat c[AT_ONCE] = {0};
    const said *s[AT_ONCE];
    bool good = true;

    for (uint32_t i = 0; i < AT_ONCE; i++) {
        s[i] = &all[next(rng) % PROMPTS];
        chat_start_tok(&c[i], e, s[i]->tok, s[i]->n, GEN_TOK);
        good = good && c[i].rc >= 0;
    }
    for (uint32_t i = 0; good && i < AT_ONCE; i++) {
        uint32_t how = next(rng) % 3;
        if (how == 1)
            chat_wait_tok(&c[i], next(rng) % (GEN_TOK / 4));
        for (uint32_t k = how == 2 ? next(rng) % 3000 : 0; k > 0; k--)
            sched_yield();
        if (how)
            aq_req_cancel(c[i].req);
    }
    for (uint32_t i = 0; good && i < AT_ONCE; i++) {
        good = chat_wait(&c[i]) && !c[i].n_error && c[i].n_tok <= GEN_TOK &&
               (!c[i].n_tok || !memcmp(c[i].tok, s[i]->answer, c[i].n_tok * sizeof *c[i].tok)) &&
               (c[i].reason == AQ_DONE_CANCELLED || c[i].n_tok == GEN_TOK);
        *whole += c[i].reason == AQ_DONE_LENGTH;
        *stopped += c[i].reason == AQ_DONE_CANCELLED;
    }
    for (uint32_t i = 0; i < AT_ONCE; i++)
        chat_end(&c[i]);
    return good;
}

static void run(const char *folder, const char *name, uint64_t windows, uint64_t seed)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    __attribute__((cleanup(aq_wsrc_close))) aq_wsrc src = {0};
    AQ_AUTO(aq_engine_free) aq_engine *e = NULL;
    aq_engine_cfg cfg = {.n_ctx = 512, .n_parallel = AT_ONCE, .chunk_tok = 32};
    said all[PROMPTS];
    aq_engine_stats st;
    aq_err err = {0};
    char path[4096];
    uint64_t rng = seed;
    uint32_t whole = 0, stopped = 0;

    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    if (aq_rt_new(&(aq_rt_cfg){.n_threads = 2}, &rt, &err) < 0 ||
        aq_model_open(rt, path, 0, &m, &src, &err) < 0 ||
        aq_engine_new(rt, m, &src, &cfg, &e, &err) < 0) {
        ok(false, "%s: %s", name, err.text);
        return;
    }
    bool good = true;
    for (uint32_t i = 0; i < PROMPTS; i++)
        good = good && alone(e, aq_model_get_info(m)->n_vocab, &rng, &all[i]);
    ok(good, "%s: %u chats alone", name, PROMPTS);
    aq_engine_get_stats(e, &st);
    for (uint64_t first = st.n_window; good && st.n_window - first < windows;) {
        good = storm(e, all, &rng, &whole, &stopped);
        aq_engine_get_stats(e, &st);
    }
    ok(good && whole && stopped, "%s: %llu windows, %u chats whole and %u stopped, seed %llu", name,
       (unsigned long long)st.n_window, whole, stopped, (unsigned long long)seed);
}

int main(int argc, char **argv)
{
    static const char *const name[] = {"qwen3moe", "qwen35"};
    uint64_t windows = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);

    if (argc < 2)
        return 2;
    for (size_t i = 0; i < AQ_LEN(name); i++)
        run(argv[1], name[i], windows, seed);
    return tap_done();
}
