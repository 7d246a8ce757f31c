/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a chat decodes behind much context beside a short one, of one model in one process, in turns. What stands before them is
 * not read token by token: their KV pages are filled with random entries, which cost as much to read as any. One thread besides the
 * pool.
 *
 * usage: depth-bench MODEL f16|q8_0|f32 THREADS NEAR DEEP GEN ROUNDS       (THREADS 0: all)
 *
 * One JSON object: tokens a second of each round, and the bytes that a token reads at least, half way through GEN. */
#include <stdio.h>

#include "backend-priv.h"
#include "forward-priv.h"

enum { NEAR, DEEP };

typedef struct bench {
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    const aq_model_info *in;
    void *w, *s;
    uint32_t kv, depth[2], n_gen;
    float *x, *y, *logits;
    uint64_t rng;
} bench;

static uint32_t next(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*rng >> 33);
}

/* Entries between -1 and 1. */
static int fill(void *user, void *p, size_t n, aq_err *err)
{
    bench *b = user;
    uint16_t *h = p;

    if (b->kv == AQ_KV_F32) {
        float *f = p;
        for (size_t i = 0; i < n / 4; i++)
            f[i] = (float)(int32_t)(next(&b->rng) << 1) * 0x1p-31f;
    } else if (b->kv == AQ_KV_F16) {
        for (size_t i = 0; i < n / 2; i++)
            h[i] = (uint16_t)((next(&b->rng) & 0x8bff) | 0x3000);
    } else {
        for (size_t at = 0; at + 34 <= n; at += 34) {
            uint8_t *block = (uint8_t *)p + at;
            block[0] = 0;
            block[1] = 0x20; /* 1/128 */
            for (int i = 2; i < 34; i++)
                block[i] = (uint8_t)(next(&b->rng) % 255 - 127);
        }
    }
    return 0;
}

static int open_bench(bench *b, const char *path, uint32_t n_threads, aq_err *err)
{
    const aq_backend *be = &aq_backend_cpu;
    aq_place place = {.flags = AQ_PLACE_ENDS};
    uint32_t n_page = 0;
    int rc = aq_rt_new(&(aq_rt_cfg){.n_threads = n_threads}, &b->rt, err);

    rc = rc < 0 ? rc : aq_model_open(b->rt, path, 0, &b->m, &b->src, err);
    if (rc < 0)
        return rc;
    b->in = aq_model_get_info(b->m);
    for (int i = 0; i < 2; i++)
        n_page += (b->depth[i] + b->n_gen + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK;
    if (b->in->recurrent)
        return aq_fail(err, AQ_E_UNSUPPORTED, "a recurrent state cannot be made up");
    b->x = malloc(b->in->row_f32 * sizeof(float));
    b->y = malloc(b->in->row_f32 * sizeof(float));
    b->logits = malloc(b->in->n_vocab * sizeof(float));
    if (!b->x || !b->y || !b->logits)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    aq_state_cfg cfg = {.kv_type = b->kv, .n_page = n_page, .max_seq = 2, .max_rows = 1};
    rc = be->load(b->rt, b->m, &b->src, &place, 0, b->in->n_layer, NULL, &b->w, err);
    rc = rc < 0 ? rc : be->state(b->w, &cfg, &b->s, err);
    for (uint32_t i = 0; rc >= 0 && i < 2; i++) {
        rc = be->apply(b->s, &(aq_op){.kind = AQ_OP_KEEP, .seq = i}, 1, err);
        if (rc >= 0)
            rc = be->state_io(b->s, true, i, b->depth[i], NULL, NULL, 0, fill, b, err);
    }
    return rc;
}

/* GEN tokens of one chat, each with logits; what they add is forgotten again. */
static int decode(bench *b, uint32_t seq, double *ret_tok_s, aq_err *err)
{
    const aq_backend *be = &aq_backend_cpu;
    int rc = 0;
    int64_t t0 = aq_now_us();

    for (uint32_t i = 0; rc >= 0 && i < b->n_gen; i++) {
        aq_row row = {.seq = seq,
                      .pos = b->depth[seq] + i,
                      .tok = (int32_t)(next(&b->rng) % b->in->n_vocab),
                      .flags = AQ_ROW_LOGITS};
        aq_window win = {.n_rows = 1, .n_back = 1, .row = &row, .x = b->x};
        rc = be->embed(b->w, &row, 1, b->x, err);
        rc = rc < 0 ? rc : be->forward(b->w, b->s, &win, NULL, 0, b->y, NULL, err);
        rc = rc < 0 ? rc : be->head(b->w, b->y, 1, b->logits, NULL, err);
        rc = rc < 0 ? rc : be->sync(b->w, err);
    }
    *ret_tok_s = b->n_gen * 1e6 / (double)AQ_MAX(aq_now_us() - t0, 1);
    return rc < 0 ? rc
                  : be->apply(b->s, &(aq_op){.kind = AQ_OP_KEEP, .seq = seq, .arg = b->depth[seq]},
                              1, err);
}

static bool has(aq_str s, const char *part)
{
    return memmem(s.p, s.n, part, strlen(part)) != NULL;
}

/* Of a stack of experts those that a token uses; the embedding only where it is the head as well. */
static uint64_t weight_bytes(const bench *b)
{
    uint64_t sum = 0;
    bool head = false;

    for (uint32_t i = 0; i < b->m->n_tensor; i++)
        head = head || (b->m->tensor[i].name.n == 13 && has(b->m->tensor[i].name, "output.weight"));
    for (uint32_t i = 0; i < b->m->n_tensor; i++) {
        const aq_tensor *t = &b->m->tensor[i];
        if (has(t->name, "token_embd.weight") && (head || t->name.n != 17))
            continue;
        sum += has(t->name, "_exps.") && b->in->n_expert
                   ? t->bytes * b->in->n_expert_used / b->in->n_expert
                   : t->bytes;
    }
    return sum;
}

static uint64_t kv_bytes(const bench *b, uint32_t n_tok)
{
    uint64_t sum = 0;

    for (uint32_t l = 0; l < b->in->n_layer; l++) {
        const aq_layer *d = &b->m->layer[l];
        uint64_t n = d->window && d->window < n_tok ? d->window : n_tok;
        bool latent = d->mixer == AQ_MIX_LATENT; /* K is V */
        sum += n * d->n_kv *
               (aq_kv_row_bytes(b->kv, d->d_k) + (latent ? 0 : aq_kv_row_bytes(b->kv, d->d_v)));
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const kv[] = {
        [AQ_KV_F16] = "f16", [AQ_KV_F32] = "f32", [AQ_KV_Q8_0] = "q8_0"};
    bench b = {.kv = UINT32_MAX, .rng = 1};
    aq_err err = {0};
    double rate[2];
    int rc;

    if (argc != 8) {
        fprintf(stderr, "usage: depth-bench MODEL f16|q8_0|f32 THREADS NEAR DEEP GEN ROUNDS\n");
        return 2;
    }
    for (uint32_t i = 0; i < AQ_LEN(kv); i++)
        if (!strcmp(argv[2], kv[i]))
            b.kv = i;
    b.depth[NEAR] = (uint32_t)strtoul(argv[4], NULL, 10);
    b.depth[DEEP] = (uint32_t)strtoul(argv[5], NULL, 10);
    b.n_gen = (uint32_t)strtoul(argv[6], NULL, 10);
    uint32_t rounds = (uint32_t)strtoul(argv[7], NULL, 10);
    if (b.kv == UINT32_MAX || !b.n_gen || !b.depth[NEAR] || b.depth[DEEP] > AQ_CTX_MAX - b.n_gen)
        return 2;
    rc = open_bench(&b, argv[1], (uint32_t)strtoul(argv[3], NULL, 10), &err);
    for (uint32_t i = 0; rc >= 0 && i < 2; i++) /* warm-up */
        rc = decode(&b, i, rate, &err);
    if (rc >= 0)
        printf("{\"cpu_path\":\"%s\",\"threads\":%u,\"rounds\":[", aq_rt_cpu_path(b.rt),
               aq_rt_threads(b.rt));
    for (uint32_t r = 0; rc >= 0 && r < rounds; r++) {
        for (uint32_t i = 0; rc >= 0 && i < 2; i++) { /* who begins changes */
            uint32_t who = (i + r) % 2;
            rc = decode(&b, who, &rate[who], &err);
        }
        printf("%s[%.3f,%.3f]", r ? "," : "", rate[NEAR], rate[DEEP]);
        fflush(stdout);
    }
    if (rc < 0) {
        fprintf(stderr, "depth-bench: %s\n", err.text);
        return 1;
    }
    printf("],\"weight_bytes\":%llu,\"kv_bytes\":[%llu,%llu]}\n",
           (unsigned long long)weight_bytes(&b),
           (unsigned long long)kv_bytes(&b, b.depth[NEAR] + b.n_gen / 2),
           (unsigned long long)kv_bytes(&b, b.depth[DEEP] + b.n_gen / 2));
    aq_backend_cpu.drop_state(b.s);
    aq_backend_cpu.drop(b.w);
    aq_wsrc_close(&b.src);
    aq_model_free(b.m);
    aq_rt_free(b.rt);
    free(b.x);
    free(b.y);
    free(b.logits);
    return 0;
}
