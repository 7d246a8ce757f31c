/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the cpu backend over contexts of several spans: near the scalar form, and the same bits
 * whether rows come together or one by one, whether spans are pieces of their own, and on how many threads. */
#include <math.h>
#include <stdio.h>

#include "tap.h"

#include "cpu-priv.h"
#include "net-rig.h"

enum { N_KV = 2, GROUP = 3, HEADS = N_KV * GROUP, TOK = 1400, ROWS = 40, PAGES = 6 };
static const char *const paths[] = {"c", "avx2", "avx2-plain", "avx512", "amx", "neon"};
static const char *const kv_name[] = {"f16", "f32", "q8_0"};
static const uint32_t page[PAGES] = {3, 0, 5, 1, 4, 2};

typedef struct data {
    aq_layer d;
    aq_kv kv;
    float *q, *sinks;
} data;

static float rnd(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(int32_t)(*rng >> 32) * 0x1p-31f;
}

static void make(data *t, uint32_t type, uint32_t d, uint32_t window)
{
    uint64_t rng = 1 + type;
    uint32_t bytes = aq_kv_row_bytes(type, d);
    AQ_AUTOFREE float *k = malloc((size_t)TOK * N_KV * d * sizeof *k),
                      *v = malloc((size_t)TOK * N_KV * d * sizeof *v);
    t->d = (aq_layer){.mixer = AQ_MIX_ATTN,
                      .n_head = HEADS,
                      .n_kv = N_KV,
                      .d_k = d,
                      .d_v = d,
                      .window = window,
                      .score_scale = 0.7f};
    t->kv = (aq_kv){.type = type,
                    .n_kv = N_KV,
                    .d_k = d,
                    .d_v = d,
                    .k_bytes = bytes,
                    .v_bytes = bytes,
                    .v_off = (size_t)N_KV * AQ_PAGE_TOK * bytes,
                    .page_bytes = (size_t)2 * N_KV * AQ_PAGE_TOK * bytes};
    t->kv.base = aligned_alloc(64, PAGES * t->kv.page_bytes);
    t->q = malloc((size_t)ROWS * HEADS * d * sizeof *t->q);
    t->sinks = malloc(HEADS * sizeof *t->sinks);
    if (!k || !v || !t->kv.base || !t->q || !t->sinks)
        _Exit(2);
    for (size_t i = 0; i < (size_t)TOK * N_KV * d; i++) {
        k[i] = 2 * rnd(&rng);
        v[i] = rnd(&rng);
    }
    for (size_t i = 0; i < (size_t)ROWS * HEADS * d; i++)
        t->q[i] = 2 * rnd(&rng);
    for (int i = 0; i < HEADS; i++)
        t->sinks[i] = 5 * rnd(&rng);
    aq_run run = {.n = TOK, .page = page};
    aq_scalar_kv_put(NULL, &t->kv, &run, 1, k, v);
}

static void clear(data *t)
{
    free(t->kv.base);
    free(t->q);
    free(t->sinks);
}

/* All rows, `each` a call, or (each 0) as two seqs' runs of one call. */
static void attend(const rig *r, const data *t, const float *sinks, uint32_t each, float *out)
{
    const aq_net *net = r->w;
    const uint32_t kv0 = TOK - ROWS, half = ROWS / 2;
    if (!each) {
        aq_run two[2] = {{.n = half, .kv0 = kv0, .page = page},
                         {.row0 = half, .n = ROWS - half, .kv0 = kv0 + half, .page = page}};
        net->blocks->attend(net->ctx, &t->d, &t->kv, two, 2, t->q, sinks, NULL, out);
    }
    for (uint32_t at = 0; each && at < ROWS; at += each) {
        aq_run run = {.row0 = at, .n = AQ_MIN(each, ROWS - at), .kv0 = kv0 + at, .page = page};
        net->blocks->attend(net->ctx, &t->d, &t->kv, &run, 1, t->q, sinks, NULL, out);
    }
}

static void test(const char *path, uint32_t type, uint32_t window, bool sink)
{
    static const struct {
        uint32_t threads, each;
    } ways[] = {{1, ROWS}, {2, 1}, {3, 1}, {1, 1}, {3, 2}, {3, 5}, {2, 0}};
    AQ_AUTOFREE float *scalar = NULL, *want = NULL, *got = NULL;
    data t = {0};
    size_t n = 0;
    bool same = true, opened = true;
    double e = 0, top = 0;

    for (size_t i = 0; i < AQ_LEN(ways) && opened; i++) {
        rig r;
        opened = rig_open_path(&r, "llama", "Q8_0", "cpu", ways[i].threads, path, NULL) == 0;
        if (opened && !i) {
            uint32_t d = ((const aq_net *)r.w)->model->layer[0].d_k;
            make(&t, type, d, window);
            n = (size_t)ROWS * HEADS * d;
            scalar = calloc(n, sizeof *scalar);
            want = calloc(n, sizeof *want);
            got = calloc(n, sizeof *got);
            aq_run run = {.n = ROWS, .kv0 = TOK - ROWS, .page = page};
            aq_scalar_attend(NULL, &t.d, &t.kv, &run, 1, t.q, sink ? t.sinks : NULL, NULL, scalar);
        }
        if (opened) {
            attend(&r, &t, sink ? t.sinks : NULL, ways[i].each, i ? got : want);
            bool bits = !i || !memcmp(got, want, n * sizeof *got);
            if (!bits)
                printf("# differs: %u threads, %u rows at once\n", ways[i].threads, ways[i].each);
            same = same && bits;
            rig_close(&r);
        }
    }
    for (size_t i = 0; i < n; i++) {
        e = fmax(e, fabs((double)want[i] - scalar[i]));
        top = fmax(top, fabs((double)scalar[i]));
    }
    ok(opened && top > 0 && e < 2e-5 * top, "%s KV %s window %u%s: %.1e from the scalar form", path,
       kv_name[type], window, sink ? ", sinks" : "", e / top);
    ok(opened && same, "%s KV %s window %u%s: the same bits in %zu ways", path, kv_name[type],
       window, sink ? ", sinks" : "", AQ_LEN(ways));
    clear(&t);
}

int main(void)
{
    bool less = getenv("AQ_SANITIZE") != NULL; /* every way of cutting once */
    for (size_t p = 0; p < AQ_LEN(paths); p++) {
        if (!aq_isa_find(paths[p])) {
            tap_skip(paths[p], "this CPU does not have the path");
            continue;
        }
        for (uint32_t type = 0; type < AQ_KV_TYPES; type++) {
            if (less && (type == AQ_KV_F32 || paths[p][0] == 'c'))
                continue;
            test(paths[p], type, 0, false);
            if (less)
                continue;
            test(paths[p], type, 0, true);
            test(paths[p], type, 530, true);
            test(paths[p], type, 880, false);
        }
    }
    return tap_done();
}
