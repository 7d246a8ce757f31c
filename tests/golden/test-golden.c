/* SPDX-License-Identifier: Apache-2.0 */
/* Logits, draft rows and greedy continuations of small models against those of another engine: see README.md here.
 * Arguments: the folder (with subfolders models and ref: all models there; skipped where it is absent), the backend, and a path of the
 * CPU (skipped where this CPU does not have it). */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "aq/engine.h"
#include "tap.h"

#define FILE_MAX (4u << 20)

typedef struct olg {
    uint32_t n, n_vocab;
    int32_t *tok;
    float *logits;
    uint8_t *raw;
} olg;

static void *slurp(const char *dir, const char *name, const char *ext, size_t *ret_n)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/ref/%s.%s", dir, name, ext);
    if (access(path, R_OK) < 0)
        snprintf(path, sizeof(path), "%s/%s.%s", dir, name, ext);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    uint8_t *p = calloc(1, FILE_MAX + 1);
    *ret_n = p ? fread(p, 1, FILE_MAX, f) : 0;
    fclose(f);
    return p;
}

static bool olg_read(const char *dir, const char *name, const char *ext, olg *ret)
{
    size_t n = 0;
    uint8_t *p = slurp(dir, name, ext, &n);
    uint32_t head[3] = {0};
    if (p && n >= 12)
        memcpy(head, p, 12);
    if (head[0] != 0x31474C4F || n != 12 + 4 * (size_t)head[1] * (1 + (size_t)head[2])) {
        free(p);
        return false;
    }
    *ret = (olg){.n = head[1],
                 .n_vocab = head[2],
                 .tok = (int32_t *)(p + 12),
                 .logits = (float *)(p + 12 + 4 * (size_t)head[1]),
                 .raw = p};
    return true;
}

/* RMS of the difference over the standard deviation of want; the largest difference. */
static void compare(const float *want, const float *got, size_t n, double *ret_rel, double *ret_max)
{
    double sum = 0, sq = 0, d2 = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];
        sum += want[i];
        sq += (double)want[i] * want[i];
        d2 += d * d;
        top = !(fabs(d) <= top) ? fabs(d) : top; /* a NaN stays */
    }
    *ret_rel = sqrt(d2 / (double)n) / sqrt(sq / (double)n - sum / (double)n * (sum / (double)n));
    *ret_max = top;
}

typedef struct golden {
    const char *dir, *name, *backend;
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    olg want;
    float *got, *hidden;
} golden;

static int eval(const golden *g, uint32_t kv, aq_eval **ret)
{
    aq_err err = {0};
    aq_place place = {.backend = g->backend};
    int rc = aq_eval_new(g->rt, g->m, &g->src, &place, kv, 256, 128, NULL, ret, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc;
}

static void rows(const golden *g, uint32_t kv, uint32_t chunk, double rel_max, double one_max)
{
    AQ_AUTO(aq_eval_free) aq_eval *e = NULL;
    aq_err err = {0};
    double rel = NAN, top = NAN;
    int rc = eval(g, kv, &e);
    for (uint32_t i = 0, n; rc == 0 && i < g->want.n; i += n) {
        n = AQ_MIN(chunk, g->want.n - i);
        rc = aq_eval_rows(e, g->want.tok + i, n, false, g->got + (size_t)i * g->want.n_vocab, NULL,
                          &err);
    }
    if (rc == 0)
        compare(g->want.logits, g->got, (size_t)g->want.n * g->want.n_vocab, &rel, &top);
    ok(rc == 0 && rel <= rel_max && top <= one_max,
       "%s, %s, KV %s, windows of %u: relative RMS %.1e, at most %.1e %s", g->name, g->backend,
       kv == AQ_KV_F32 ? "f32" : "f16", chunk, rel, top, err.text);
}

static void draft(golden *g, uint32_t kv, double rel_max, double one_max)
{
    AQ_AUTO(aq_eval_free) aq_eval *e = NULL;
    aq_err err = {0};
    olg want = {0};
    double rel = NAN, top = NAN;
    if (!ok(olg_read(g->dir, g->name, "mtp", &want), "%s: draft rows", g->name))
        return;
    int rc = eval(g, kv, &e);
    if (rc == 0)
        rc = aq_eval_rows(e, g->want.tok, g->want.n, false, NULL, g->hidden, &err);
    if (rc == 0)
        rc = aq_eval_draft(e, want.tok, g->hidden, want.n, 1, g->got, NULL, &err);
    if (rc == 0)
        compare(want.logits, g->got, (size_t)want.n * want.n_vocab, &rel, &top);
    ok(rc == 0 && rel <= rel_max && top <= one_max,
       "%s, %s, draft head: relative RMS %.1e, at most %.1e %s", g->name, g->backend, rel, top,
       err.text);
    free(want.raw);
}

static void greedy(const golden *g, uint32_t kv)
{
    AQ_AUTO(aq_eval_free) aq_eval *e = NULL;
    aq_err err = {0};
    size_t n = 0;
    char *text = slurp(g->dir, g->name, "greedy", &n), *p = text;
    uint32_t same = 0;
    int rc = eval(g, kv, &e);
    if (rc == 0)
        rc = aq_eval_rows(e, g->want.tok, g->want.n, true, g->got, NULL, &err);
    for (uint32_t i = 0; rc == 0 && p && i < 32; i++) {
        int32_t best = 0;
        for (uint32_t v = 1; v < g->want.n_vocab; v++)
            best = g->got[v] > g->got[best] ? (int32_t)v : best;
        same += strtol(p, NULL, 10) == best;
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
        rc = aq_eval_rows(e, &best, 1, true, g->got, NULL, &err);
    }
    ok(rc == 0 && same == 32, "%s, %s: %u of 32 greedy tokens %s", g->name, g->backend, same,
       err.text);
    free(text);
}

static void model(golden *g)
{
    char path[1024];
    aq_err err = {0};
    snprintf(path, sizeof(path), "%s/models/%s.gguf", g->dir, g->name);
    if (access(path, R_OK) < 0)
        snprintf(path, sizeof(path), "%s/%s.gguf", g->dir, g->name);
    bool exact = strcmp(g->backend, "reference") == 0;
    int rc = aq_model_open(g->rt, path, 0, &g->m, &g->src, &err);
    if (!ok(rc == 0 && olg_read(g->dir, g->name, "logits", &g->want), "%s: opens %s", g->name,
            err.text))
        return;
    g->got = malloc((size_t)g->want.n * g->want.n_vocab * sizeof(float));
    g->hidden = malloc((size_t)g->want.n * aq_model_get_info(g->m)->n_embd * sizeof(float));
    bool gemma = strncmp(g->name, "gemma", 5) == 0, quant = strchr(g->name, '.') && !exact;
    static const uint32_t chunks[] = {1, 7, 128};
    for (size_t i = 0; i < AQ_LEN(chunks); i++) {
        /* no backend rounds activations for weights in F16; of gemma, values of GELU that round apart */
        rows(g, AQ_KV_F32, chunks[i],
             quant   ? 4e-2
             : gemma ? 1e-3
                     : 1e-5,
             quant   ? INFINITY
             : gemma ? 2e-2
                     : 1e-3);
        rows(g, AQ_KV_F16, chunks[i], quant ? 4e-2 : gemma ? 1e-2 : 5e-3, INFINITY);
    }
    if (aq_model_get_info(g->m)->n_draft > 0 && strcmp(g->name, "glm4moe") != 0) /* has no rows */
        draft(g, exact ? AQ_KV_F32 : AQ_KV_F16, exact ? 1e-5 : 5e-3, exact ? 1e-3 : INFINITY);
    if (!quant) /* near ties of rounded activations */
        greedy(g, exact ? AQ_KV_F32 : AQ_KV_F16);
    aq_wsrc_close(&g->src);
    aq_model_free(g->m);
    free(g->want.raw);
    free(g->got);
    free(g->hidden);
}

int main(int argc, char **argv)
{
    static const char *const here[] = {
        "llama",     "qwen3moe",   "qwen35",          "qwen4exp",         "qwen2",
        "qwen3",     "olmoe",      "granitemoe",      "qwen35moe",        "qwen3next",
        "glm4moe",   "gpt-oss",    "gemma3",          "gemma4-moe",       "gemma4-ple",
        "deepseek2", "minimax-m2", "qwen3moe-q.Q4_K", "qwen3moe-q.IQ3_S", "qwen3moe-q.MXFP4"};
    static const char *const beside[] = {"llama",      "qwen3moe",  "qwen35",     "qwen4exp",
                                         "qwen2",      "qwen3",     "olmoe",      "granitemoe",
                                         "qwen35moe",  "glm4moe",   "gpt-oss",    "gemma3",
                                         "gemma4-moe", "deepseek2", "gemma4-ple", "deepseek2-lite"};
    if (argc < 3)
        return 2;
    char models[1024];
    snprintf(models, sizeof(models), "%s/models", argv[1]);
    bool all = access(models, R_OK) == 0;
    const char *const *names = all ? beside : here;
    size_t n_names = all ? AQ_LEN(beside) : AQ_LEN(here);
    if (access(argv[1], R_OK) < 0) {
        tap_skip("golden", "the folder of all models is not there");
        return tap_done();
    }
    const char *path = argc > 3 ? argv[3] : NULL;
    bool there = !path;
    for (const char *const *p = aq_cpu_paths(); *p; p++)
        there = there || strcmp(*p, path) == 0;
    if (!there) {
        tap_skip("golden", "this CPU does not have the path");
        return tap_done();
    }
    for (size_t i = 0; i < n_names; i++) {
        golden g = {.dir = argv[1], .name = names[i], .backend = argv[2]};
        aq_err err = {0};
        if (ok(aq_rt_new(&(aq_rt_cfg){.n_threads = 2, .cpu_path = path}, &g.rt, &err) == 0,
               "runtime %s", err.text))
            model(&g);
        aq_rt_free(g.rt);
    }
    return tap_done();
}
