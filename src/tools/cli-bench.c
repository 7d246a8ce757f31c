/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli bench: what reading a prompt and decoding cost, each behind `depth` tokens (none: an empty context), with random tokens
 * (the same token over and over would find its experts in the cache). One warm-up of each does not count. One thread besides the
 * pool. */
#include <stdio.h>
#include <sys/resource.h>

#include "cli-eval.h"

typedef struct bench {
    cli_eval ev;
    uint32_t n_prompt, n_gen, n_repeat, depth;
    int32_t *tok;
    float *logits;
    uint64_t rng;
} bench;
typedef struct rates {
    double prompt, gen;
} rates;

static int32_t random_token(bench *b)
{
    uint64_t x = b->rng += 0x9E3779B97F4A7C15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return (int32_t)((x >> 32) * b->ev.info->n_vocab >> 32);
}

static int read_random(bench *b, uint32_t n_tok, aq_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < n_tok; i++)
        b->tok[i] = random_token(b);
    for (uint32_t i = 0, n; rc >= 0 && i < n_tok; i += n) {
        n = AQ_MIN(CLI_CHUNK, n_tok - i);
        rc = aq_eval_rows(b->ev.eval, b->tok + i, n, true, i + n == n_tok ? b->logits : NULL, NULL,
                          err);
    }
    return rc;
}

static int once(bench *b, rates *ret, aq_err *err)
{
    int rc = aq_eval_keep(b->ev.eval, b->depth, err);
    int64_t t0 = aq_now_us();
    if (rc >= 0)
        rc = read_random(b, b->n_prompt, err);
    int64_t t1 = aq_now_us();
    if (rc >= 0)
        rc = aq_eval_keep(b->ev.eval, b->depth, err);
    int64_t t2 = aq_now_us();
    for (uint32_t i = 0; rc >= 0 && i < b->n_gen; i++) {
        int32_t tok = random_token(b);
        rc = aq_eval_rows(b->ev.eval, &tok, 1, true, b->logits, NULL, err);
    }
    int64_t t3 = aq_now_us();
    ret->prompt = b->n_prompt * 1e6 / (double)AQ_MAX(t1 - t0, 1);
    ret->gen = b->n_gen * 1e6 / (double)AQ_MAX(t3 - t2, 1);
    return rc;
}

static void print(const bench *b, const rates *r, bool json)
{
    struct rusage ru = {0};
    getrusage(RUSAGE_SELF, &ru);
    if (!json) {
        for (uint32_t i = 0; i < b->n_repeat; i++)
            printf("prompt %.2f tok/s, decode %.2f tok/s\n", r[i].prompt, r[i].gen);
        printf("%s, %s, %u threads, KV %s, peak memory %ld MB\n", b->ev.backend,
               aq_rt_cpu_path(b->ev.rt), aq_rt_threads(b->ev.rt), b->ev.kv, ru.ru_maxrss >> 10);
        return;
    }
    printf("{\"prompt\":%u,\"gen\":%u,\"depth\":%u,\"backend\":\"%s\",\"cpu_path\":\"%s\","
           "\"threads\":%u,\"kv_"
           "type\":\"%s\",\"runs\":[",
           b->n_prompt, b->n_gen, b->depth, b->ev.backend, aq_rt_cpu_path(b->ev.rt),
           aq_rt_threads(b->ev.rt), b->ev.kv);
    for (uint32_t i = 0; i < b->n_repeat; i++)
        printf("%s{\"prompt_tok_s\":%.3f,\"gen_tok_s\":%.3f}", i ? "," : "", r[i].prompt, r[i].gen);
    printf("],\"weight_bytes\":%llu,\"peak_rss_bytes\":%llu}\n",
           (unsigned long long)aq_eval_weight_bytes(b->ev.eval),
           (unsigned long long)ru.ru_maxrss << 10);
}

static int run(bench *b, bool json)
{
    aq_err err = {0};
    AQ_AUTOFREE rates *r = calloc(b->n_repeat + 1, sizeof(*r));
    b->tok = calloc(AQ_MAX(b->n_prompt, b->depth) + 1, sizeof(*b->tok));
    b->logits = malloc(b->ev.info->n_vocab * sizeof(float));
    if (!r || !b->tok || !b->logits)
        return cli_error(CLI_FAILED, "bench", "out of memory");
    int deep = read_random(b, b->depth, &err);
    if (deep < 0)
        return cli_fail("bench", deep, &err);
    for (uint32_t i = 0; i <= b->n_repeat; i++) { /* the first is the warm-up and is written over */
        int rc = once(b, &r[i > 0 ? i - 1 : 0], &err);
        if (rc < 0)
            return cli_fail("bench", rc, &err);
    }
    print(b, r, json);
    return CLI_OK;
}

int cli_bench(int argc, char **argv)
{
    const char *pos[1], *backend = NULL, *kv = "f16";
    uint32_t threads = 0;
    bool json = false;
    int n_pos;
    bench b = {.n_prompt = 512, .n_gen = 64, .n_repeat = 3, .rng = 1};
    cli_opt opts[] = {{"--prompt", 'u', &b.n_prompt},
                      {"--gen", 'u', &b.n_gen},
                      {"--repeat", 'u', &b.n_repeat},
                      {"--depth", 'u', &b.depth},
                      {"--threads", 'u', &threads},
                      {"--backend", 's', &backend},
                      {"--kv", 's', &kv},
                      {"--json", 'b', &json},
                      {0}};
    int rc = cli_parse(argc, argv, opts, pos, 1, &n_pos);
    if (rc != CLI_OK)
        return rc;
    if (n_pos != 1 || b.n_prompt == 0 || b.n_gen == 0 || b.n_repeat == 0 || b.n_repeat > 10000 ||
        b.depth > AQ_CTX_MAX || AQ_MAX(b.n_prompt, b.n_gen) > AQ_CTX_MAX - b.depth)
        return cli_error(CLI_CANNOT, "bench",
                         "needs MODEL; --prompt and --gen are 1 to %u, --depth and the larger of "
                         "them together too, --repeat 1 to 10000",
                         AQ_CTX_MAX);
    rc = cli_eval_open(&b.ev, pos[0], backend, kv, threads, b.depth + AQ_MAX(b.n_prompt, b.n_gen),
                       AQ_MIN(CLI_CHUNK, AQ_MAX(b.n_prompt, b.depth)));
    if (rc == CLI_OK)
        rc = run(&b, json);
    cli_eval_close(&b.ev);
    free(b.tok);
    free(b.logits);
    return rc;
}
