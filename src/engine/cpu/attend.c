/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pages. A piece of work is one row and one KV head with all query heads that read
 * it. Entries are taken in blocks of AQ_ATTN_TOK that begin at multiples of it, whatever the
 * window, with a running maximum: the order of a row's sums depends on its position alone. Thread:
 * the stage's, and the pool's. */
#include <math.h>

#include "product-priv.h"

typedef struct attn_job {
    const aq_cpu *c;
    const aq_layer *d;
    const aq_kv *kv;
    const aq_run *run;
    uint32_t n_run;
    const float *q, *sinks;
    const uint32_t *sel; /* sparse attention: what each row sees */
    uint32_t *ret_sel;   /* choosing it */
    float *out;
} attn_job;
_Static_assert(AQ_SEEN_TOK == AQ_ATTN_TOK, "ranges of entries are blocks of attention");

static void one_head(const attn_job *j, const aq_run *run, uint32_t kv_head, aq_seen seen,
                     const float *q, const float *sink, float *o)
{
    const aq_isa *isa = j->c->isa;
    const aq_kv *kv = j->kv;
    bool f16 = kv->type == AQ_KV_F16;
    float max = sink ? *sink : -INFINITY, sum = sink ? 1 : 0, s[AQ_ATTN_TOK];
    memset(o, 0, kv->d_v * sizeof *o);
    for (uint32_t t, n; (n = aq_seen_next(&seen, &t)) > 0;) {
        uint32_t page = run->page[t / AQ_PAGE_TOK], at = t % AQ_PAGE_TOK;
        isa->scores(q, aq_kv_k(kv, page, kv_head, at), f16, n, kv->d_k, j->d->score_scale, s);
        float top = max;
        for (uint32_t i = 0; i < n; i++)
            top = s[i] > top ? s[i] : top;
        float keep = top > max ? expf(max - top) : 1;
        max = top;
        sum = sum * keep + isa->exps(s, n, max);
        isa->mix(s, aq_kv_v(kv, page, kv_head, at), f16, n, kv->d_v, keep, o);
    }
    for (uint32_t i = 0; i < kv->d_v; i++)
        o[i] /= sum;
}

/* q8_0: entries become floats a few at a time, for up to HEADS heads at once. */
#define HEADS 8u
#define BUF_F32 8192u /* the longest entry: a latent one of 4096 and as much that is roped */

static uint32_t fetch(const uint8_t *p, uint32_t row_bytes, uint32_t n_tok, uint32_t d, float *buf)
{
    uint32_t n = AQ_MIN(AQ_MAX(BUF_F32 / d, 1u), n_tok);
    for (uint32_t t = 0; t < n; t++)
        aq_kv_q8_get(p + (size_t)t * row_bytes, d, buf + (size_t)t * d);
    return n;
}

static void heads_q8(const attn_job *j, const aq_run *run, uint32_t kv_head, aq_seen seen,
                     uint32_t n_head, const float *q, const float *sinks, float *o)
{
    const aq_isa *isa = j->c->isa;
    const aq_kv *kv = j->kv;
    float max[HEADS], sum[HEADS], keep[HEADS], s[HEADS][AQ_ATTN_TOK], buf[BUF_F32];
    uint32_t dk = kv->d_k, dv = kv->d_v;
    for (uint32_t h = 0; h < n_head; h++) {
        max[h] = sinks ? sinks[h] : -INFINITY;
        sum[h] = sinks ? 1 : 0;
    }
    memset(o, 0, n_head * dv * sizeof *o);
    for (uint32_t t, n; (n = aq_seen_next(&seen, &t)) > 0;) {
        uint32_t page = run->page[t / AQ_PAGE_TOK], at = t % AQ_PAGE_TOK;
        for (uint32_t i = 0, m; i < n; i += m) {
            m = fetch(aq_kv_k(kv, page, kv_head, at + i), kv->k_bytes, n - i, dk, buf);
            for (uint32_t h = 0; h < n_head; h++)
                isa->scores(q + h * dk, buf, false, m, dk, j->d->score_scale, s[h] + i);
        }
        for (uint32_t h = 0; h < n_head; h++) {
            float top = max[h];
            for (uint32_t i = 0; i < n; i++)
                top = s[h][i] > top ? s[h][i] : top;
            keep[h] = top > max[h] ? expf(max[h] - top) : 1;
            max[h] = top;
            sum[h] = sum[h] * keep[h] + isa->exps(s[h], n, top);
        }
        for (uint32_t i = 0, m; i < n; i += m) {
            m = fetch(aq_kv_v(kv, page, kv_head, at + i), kv->v_bytes, n - i, dv, buf);
            for (uint32_t h = 0; h < n_head; h++)
                isa->mix(s[h] + i, buf, false, m, dv, i ? 1 : keep[h], o + h * dv);
        }
    }
    for (uint32_t h = 0; h < n_head; h++)
        for (uint32_t i = 0; i < dv; i++)
            o[h * dv + i] /= sum[h];
}

static void attn_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t row = piece / d->n_kv, kv_head = piece % d->n_kv, group = d->n_head / d->n_kv, r = 0;
    while (row >= j->run[r].n) /* rows of the runs, counted through */
        row -= j->run[r++].n;
    const aq_run *run = &j->run[r];
    uint32_t end = run->kv0 + row + 1, first = d->window && end > d->window ? end - d->window : 0;
    size_t at = ((size_t)run->row0 + row) * d->n_head;
    aq_seen seen = aq_seen_begin(
        d, j->sel ? j->sel + ((size_t)run->row0 + row) * aq_sel_u32(d) : NULL, first, end);
    uint32_t h1 = (kv_head + 1) * group, h = kv_head * group;
    for (; j->kv->type == AQ_KV_Q8_0 && h < h1; h += HEADS)
        heads_q8(j, run, kv_head, seen, AQ_MIN(HEADS, h1 - h), j->q + (at + h) * d->d_k,
                 j->sinks ? j->sinks + h : NULL, j->out + (at + h) * d->d_v);
    for (; h < h1; h++)
        one_head(j, run, kv_head, seen, j->q + (at + h) * d->d_k, j->sinks ? j->sinks + h : NULL,
                 j->out + (at + h) * d->d_v);
}

void aq_cpu_attend(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run, uint32_t n_run,
                   const float *q, const float *sinks, const uint32_t *sel, float *out)
{
    const aq_cpu *c = ctx;
    attn_job j = {.c = c,
                  .d = d,
                  .kv = kv,
                  .run = run,
                  .n_run = n_run,
                  .q = q,
                  .sinks = sinks,
                  .sel = sel,
                  .out = out};
    uint32_t rows = 0;
    uint64_t entries = 0; /* at most; a window sees fewer */
    for (uint32_t r = 0; r < n_run; r++) {
        rows += run[r].n;
        entries += (uint64_t)run[r].n * (run[r].kv0 + run[r].n);
    }
    aq_cpu_share(c, attn_piece, &j, rows * d->n_kv, entries * d->n_head * (d->d_k + d->d_v));
}

/* ---- the indexer's choice ---- */

static void dots(void *ctx, const float *q, const float *k, uint32_t n, uint32_t d, float *ret)
{
    const aq_cpu *c = ctx;
    c->isa->scores(q, k, false, n, d, 1, ret);
}

static void choose_piece(void *ctx, uint32_t row, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t r = 0;
    while (row >= j->run[r].n)
        row -= j->run[r++].n;
    size_t at = (size_t)j->run[r].row0 + row;
    aq_choose_row(d, j->kv, j->run[r].page, (j->run[r].kv0 + row + 1) / d->idx_block,
                  j->q + at * d->n_idx * d->d_idx, dots, (void *)j->c,
                  j->ret_sel + at * aq_sel_u32(d));
}

void aq_cpu_choose(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run, uint32_t n_run,
                   const float *q, uint32_t *sel)
{
    const aq_cpu *c = ctx;
    attn_job j = {.c = c, .d = d, .kv = kv, .run = run, .n_run = n_run, .q = q, .ret_sel = sel};
    uint32_t rows = 0;
    uint64_t blocks = 0;
    for (uint32_t r = 0; r < n_run; r++) {
        rows += run[r].n;
        blocks += (uint64_t)run[r].n * ((run[r].kv0 + run[r].n) / d->idx_block);
    }
    aq_cpu_share(c, choose_piece, &j, rows, blocks * d->n_idx * d->d_idx);
}
