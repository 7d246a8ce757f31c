/* SPDX-License-Identifier: Apache-2.0 */
/* Guessing ahead: the same tokens and the same last log-probabilities with drafts as without, greedy
 * and sampled, alone, together, over two stages, and in a chat's next turn. The draft head of a
 * random model is hardly ever right, so this backend tells it the answer now and then. */
#include <stdio.h>
#include <unistd.h>

#include "chat.h"
#include "gguf-write.h"
#include "sched-priv.h"
#include "tap.h"
#include "thread-stage.h"

#define PROMPT 30u
#define GEN 48u
#define LINE (PROMPT + GEN)

static const aq_backend *inner;
static aq_backend cheat;
/* What the draft head is told: answers of prompts, by their first token. */
static struct {
    int32_t tok[LINE];
    uint32_t n;
} told[4];
static atomic_bool armed; /* the next draft step waits for a victim and cancels it */
static _Atomic(aq_req *) victim;
static uint32_t right_of_8; /* how often it is told the truth */

static int cheat_draft(void *w, void *s, const aq_window *win, float *logits, float *hidden,
                       const atomic_uint *stop, aq_err *err)
{
    if (atomic_exchange(&armed, false)) {
        while (!atomic_load(&victim))
            sched_yield();
        aq_req_cancel(atomic_exchange(&victim, NULL));
    }
    int rc = inner->draft(w, s, win, logits, hidden, stop, err);
    for (uint32_t i = 0, at = 0; rc == 0 && i < win->n_rows; i++) {
        const aq_row *r = &win->row[i];
        if (!(r->flags & AQ_ROW_LOGITS))
            continue;
        float *l = logits + at++ * GW_VOCAB;
        for (uint32_t k = 0; k < AQ_LEN(told); k++)
            if (r->pos + 1 < told[k].n && told[k].tok[r->pos] == r->tok &&
                (r->pos * 2654435761u >> 16) % 8 < right_of_8) {
                for (uint32_t v = 0; v < GW_VOCAB; v++)
                    l[v] = (int32_t)v == told[k].tok[r->pos + 1] ? 2 : 1;
                break;
            }
    }
    return rc;
}

typedef struct rig {
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
} rig;

static bool open_model(rig *r, const char *arch)
{
    char path[] = "/tmp/aq-draft-XXXXXX";
    aq_err err = {0};
    int fd = mkstemp(path), rc = fd < 0 ? -1 : gw_model(arch, "Q8_0", 11, path);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        rc = aq_rt_new(&(aq_rt_cfg){.n_threads = 2}, &r->rt, &err);
    if (rc == 0)
        rc = aq_model_open(r->rt, path, 0, &r->m, &r->src, &err);
    unlink(path);
    if (rc < 0)
        printf("# %s: %s\n", arch, err.text);
    return rc == 0;
}

static void close_model(rig *r)
{
    aq_wsrc_close(&r->src);
    aq_model_free(r->m);
    aq_rt_free(r->rt);
}

static aq_engine *engine(const rig *r, uint32_t n_draft, uint32_t kv, bool two_stages)
{
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_stage *st[2] = {0};
    aq_engine_cfg cfg = {
        .n_ctx = 512, .n_parallel = 3, .chunk_tok = 16, .kv_type = kv, .n_draft = n_draft};
    uint32_t n = r->m->info.n_layer;
    aq_state_cfg sc = {.kv_type = kv, .n_page = 12, .max_seq = 7, .n_snap = 12, .max_rows = 40};

    for (uint32_t i = 0; two_stages && i < 2; i++)
        if (aq_stage_local_on(&cheat, r->rt, r->m, &r->src, &(aq_place){0}, &sc, i ? n / 2 : 0,
                              i ? n : n / 2, NULL, &st[i], &err) < 0)
            printf("# %s\n", err.text);
    if (two_stages) {
        st[1] = thread_stage(st[1], 2);
        cfg.stage = st;
        cfg.n_stage = 2;
    }
    if (aq_engine_new_on(&cheat, r->rt, r->m, &r->src, &cfg, &e, &err) < 0)
        printf("# %s\n", err.text);
    return e;
}

static void prompt(int32_t *tok, uint32_t line)
{
    for (uint32_t i = 0; i < PROMPT; i++)
        tok[i] = (int32_t)(((i + 1) * 2654435761u ^ (line + 3) * 40503u) >> 7) % (int32_t)GW_VOCAB;
}

static void start(chat *c, aq_engine *e, const int32_t *tok, uint32_t n, bool sampled,
                  uint32_t n_gen)
{
    aq_req_in in = {.tok = tok, .n_tok = n, .max_tok = n_gen, .n_logprobs = 3};
    in.sampling.ignore_eog = true;
    if (sampled) {
        in.sampling.temp = 0.9f;
        in.sampling.top_p = 0.95f;
        in.sampling.repeat_penalty = 1.1f;
        in.sampling.seed = 77;
    }
    chat_start(c, e, &in);
}

typedef struct answer {
    int32_t tok[GEN];
    aq_logprob top[4];
} answer;

/* Three chats at once, then a second turn of the first. */
static bool talk(aq_engine *e, bool sampled, answer ret[4], aq_usage *sum)
{
    bool good = true;
    chat c[4] = {0};
    int32_t tok[3][LINE + 8];

    for (uint32_t i = 0; i < 3; i++) {
        prompt(tok[i], i);
        start(&c[i], e, tok[i], PROMPT, sampled, GEN);
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 3) {
            memcpy(tok[0] + PROMPT, ret[0].tok, sizeof ret[0].tok);
            for (uint32_t k = 0; k < 8; k++)
                tok[0][LINE + k] = (int32_t)(k * 31 % GW_VOCAB);
            start(&c[3], e, tok[0], LINE + 8, sampled, GEN);
        }
        good = good && chat_wait(&c[i]) && c[i].n_tok == GEN && c[i].n_top == 4;
        if (good) {
            memcpy(ret[i].tok, c[i].tok, sizeof ret[i].tok);
            memcpy(ret[i].top, c[i].top, sizeof ret[i].top);
            sum->draft_tok += c[i].usage.draft_tok;
            sum->draft_ok_tok += c[i].usage.draft_ok_tok;
        } else {
            printf("# chat %u: %u tokens, %u errors %s\n", i, c[i].n_tok, c[i].n_error,
                   c[i].err.text);
        }
    }
    for (uint32_t i = 0; i < 4; i++)
        chat_end(&c[i]);
    return good;
}

static void tell(const answer *a)
{
    for (uint32_t i = 0; i < 3; i++) {
        prompt(told[i].tok, i);
        memcpy(told[i].tok + PROMPT, a[i].tok, sizeof a[i].tok);
        told[i].n = LINE;
    }
}

static void model(const char *arch, uint32_t kv)
{
    static const struct {
        uint32_t n_draft, right;
        bool stages;
    } ways[] = {{1, 6, false}, {3, 6, false}, {7, 7, false},
                {3, 5, true},  {2, 0, false}, {4, 8, true}};
    rig r = {0};
    if (!ok(open_model(&r, arch), "%s opens", arch))
        return;
    for (uint32_t sampled = 0; sampled < 2; sampled++) {
        answer want[4], got[4];
        aq_usage none = {0};
        aq_engine *e = engine(&r, 0, kv, false);
        bool good = e && talk(e, sampled, want, &none);
        aq_engine_free(e);
        if (!ok(good && none.draft_tok == 0, "%s, %s: without drafts", arch,
                sampled ? "sampled" : "greedy"))
            break;
        tell(want);
        for (size_t i = 0; i < AQ_LEN(ways); i++) {
            aq_usage sum = {0};
            memset(got, 0, sizeof got);
            right_of_8 = ways[i].right;
            e = engine(&r, ways[i].n_draft, kv, ways[i].stages);
            good = e && talk(e, sampled, got, &sum);
            aq_engine_free(e);
            ok(good && !memcmp(got, want, sizeof want),
               "%s, %s, up to %u guesses, right %u of 8 times%s: the same tokens and "
               "log-probabilities",
               arch, sampled ? "sampled" : "greedy", ways[i].n_draft, ways[i].right,
               ways[i].stages ? ", two stages" : "");
            bool counts = ways[i].right ? sum.draft_ok_tok > GEN : sum.draft_tok > 0;
            ok(counts && sum.draft_ok_tok <= sum.draft_tok, "%u of %u guesses were right",
               sum.draft_ok_tok, sum.draft_tok);
        }
        /* case 5 of the API: what a cancelled step leaves behind is no part of the next answer */
        AQ_AUTO(aq_engine_free) aq_engine *again = engine(&r, 3, kv, false);
        aq_usage sum = {0};
        chat c = {0};
        int32_t tok[PROMPT];
        prompt(tok, 1);
        atomic_store(&armed, true);
        start(&c, again, tok, PROMPT, sampled, GEN);
        atomic_store(&victim, c.req);
        chat_wait(&c);
        ok(!atomic_load(&armed) && c.n_tok < GEN, "%s: cancelled within a draft step, %u tokens",
           arch, c.n_tok);
        chat_end(&c);
        memset(got, 0, sizeof got);
        ok(talk(again, sampled, got, &sum) && !memcmp(got, want, sizeof want),
           "case 5: %s: the next answers are right", arch);
    }
    memset(told, 0, sizeof told);
    close_model(&r);
}

static void refusals(void)
{
    rig r = {0};
    aq_engine *e = NULL;
    aq_err err = {0};
    aq_engine_cfg cfg = {.n_ctx = 256, .n_draft = 2};
    if (!ok(open_model(&r, "llama"), "llama opens"))
        return;
    ok(aq_engine_new(r.rt, r.m, &r.src, &cfg, &e, &err) == -AQ_E_UNSUPPORTED &&
           strstr(err.text, "no draft layers"),
       "drafts of a model without: %s", err.text);
    cfg.n_draft = AQ_DRAFT_MAX + 1;
    ok(aq_engine_new(r.rt, r.m, &r.src, &cfg, &e, &err) == -AQ_E_LIMIT, "too many: %s", err.text);
    close_model(&r);
}

int main(void)
{
    aq_err err = {0};
    if (!ok(aq_backend_find("cpu", &inner, &err) == 0, "the cpu backend"))
        return tap_done();
    cheat = *inner;
    cheat.draft = cheat_draft;
    model("qwen35", AQ_KV_F16);
    if (!getenv("AQ_SANITIZE"))            /* the same way again */
        model("qwen35-drafts", AQ_KV_F16); /* several draft layers in the file */
    model("qwen35moe", AQ_KV_Q8_0);
    model("glm4moe", AQ_KV_F32);
    refusals();
    return tap_done();
}
