/* SPDX-License-Identifier: Apache-2.0 */
/* The indexer of sparse attention: which blocks of entries a row sees. Thread: the stage's.
 *
 * Each entry keeps a raw key in its page, and each whole block a key made of its raw ones (forward-priv.h draws a page). Both are made
 * from the seq alone, when the block's last entry comes, so that no window cuts matter. A row at position p scores the
 * (p + 1) / idx_block blocks that are whole, and sees the idx_top best, the lower block among equals, and what lies behind them. */
#include <math.h>

#include "walk-priv.h"

size_t aq_index_f32(const aq_layer *d)
{
    return d->n_idx ? (size_t)d->d_idx * (1 + d->n_idx) + aq_sel_u32(d) + d->n_rot : 0;
}

static float raw_val(const aq_kv *kv, const void *p, uint32_t i)
{
    return kv->idx_f32 ? ((const float *)p)[i] : aq_f16_to_f32(((const uint16_t *)p)[i]);
}

/* The key of the block that ends with entry `last` of a run's seq. */
static void block_key(walk *w, const aq_net_layer *nl, const aq_kv *kv, const aq_run *run,
                      uint32_t last, float *cs)
{
    const aq_layer *d = nl->d;
    uint32_t first = last + 1 - d->idx_block, page = run->page[first / AQ_PAGE_TOK];
    float *key = aq_kv_block(kv, page, first % AQ_PAGE_TOK / d->idx_block);
    for (uint32_t i = 0; i < d->d_idx; i++) {
        float sum = 0;
        for (uint32_t t = first; t <= last; t++)
            sum += raw_val(kv, aq_kv_raw(kv, page, t % AQ_PAGE_TOK), i);
        key[i] = sum / (float)d->idx_block;
    }
    aq_scalar_norm(NULL, key, nl->v[AQ_W_IDX_K_NORM], 1, d->d_idx, w->net->model->eps, key);
    aq_rope_at(w->net, d, first, cs);
    aq_scalar_rope(NULL, key, 1, 1, d->d_idx, d->n_rot, d->rope, cs);
}

static void put_keys(walk *w, const aq_net_layer *nl, const aq_kv *kv, const float *k, float *cs)
{
    const aq_layer *d = nl->d;
    for (uint32_t r = 0; r < w->store->n_run; r++) {
        const aq_run *run = &w->store->run[r];
        for (uint32_t j = 0; j < run->n; j++) {
            uint32_t t = run->kv0 + j;
            void *raw = aq_kv_raw(kv, run->page[t / AQ_PAGE_TOK], t % AQ_PAGE_TOK);
            const float *src = k + (size_t)(run->row0 + j) * d->d_idx;
            if (kv->idx_f32)
                memcpy(raw, src, d->d_idx * sizeof(float));
            else
                for (uint32_t i = 0; i < d->d_idx; i++)
                    ((uint16_t *)raw)[i] = aq_f32_to_f16(src[i]);
            if ((t + 1) % d->idx_block == 0)
                block_key(w, nl, kv, run, t, cs);
        }
    }
}

const uint32_t *aq_index(walk *w, const aq_net_layer *nl, uint32_t l, const float *h)
{
    const aq_layer *d = nl->d;
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_kv *kv = &w->store->kv[l];
    uint32_t n = w->n;
    if (!d->n_idx)
        return NULL;
    float *k = aq_walk_take(w->s, d->d_idx, n),
          *q = aq_walk_take(w->s, (size_t)d->n_idx * d->d_idx, n),
          *cs = aq_walk_take(w->s, d->n_rot, 1);
    uint32_t *sel = (uint32_t *)aq_walk_take(w->s, aq_sel_u32(d), n);
    aq_mul mul[] = {{&nl->m[AQ_W_IDX_Q], q}, {&nl->m[AQ_W_IDX_K], k}};
    b->matmul(ctx, mul, AQ_LEN(mul), h, n);
    b->norm(ctx, q, nl->v[AQ_W_IDX_Q_NORM], n * d->n_idx, d->d_idx, w->net->model->eps, q);
    aq_rope_table(w, d);
    b->rope(ctx, q, n, d->n_idx, d->d_idx, d->n_rot, d->rope, w->s->cs);
    put_keys(w, nl, kv, k, cs);
    b->choose(ctx, d, kv, w->store->run, w->store->n_run, q, sel);
    return sel;
}

/* ---- choosing ---- */

/* Worse: a lower score, or the same and a later block. */
static bool worse(const float *score, const uint32_t *id, uint32_t a, uint32_t b)
{
    return score[a] < score[b] || (score[a] == score[b] && id[a] > id[b]);
}

static void swap(float *score, uint32_t *id, uint32_t a, uint32_t b)
{
    float s = score[a];
    uint32_t i = id[a];
    score[a] = score[b];
    id[a] = id[b];
    score[b] = s;
    id[b] = i;
}

/* score, id [n]: a heap with the worst on top. */
static void sift(float *score, uint32_t *id, uint32_t n, uint32_t i)
{
    for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && worse(score, id, k + 1, k))
            k++;
        if (!worse(score, id, k, i))
            return;
        swap(score, id, k, i);
    }
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void aq_choose_row(const aq_layer *d, const aq_kv *kv, const uint32_t *page, uint32_t n_block,
                   const float *q, aq_dots_fn dots, void *ctx, uint32_t *sel)
{
    uint32_t top = d->idx_top, have = 0, per_page = AQ_PAGE_TOK / d->idx_block, *id = sel + 1;
    float *heap = (float *)(id + top);
    sel[0] = AQ_SEEN_ALL;
    if (n_block <= top)
        return;
    for (uint32_t b0 = 0; b0 < n_block; b0 += per_page) {
        uint32_t n = AQ_MIN(per_page, n_block - b0);
        float sum[AQ_PAGE_TOK], dot[AQ_PAGE_TOK];
        const float *key = aq_kv_block(kv, page[b0 / per_page], 0);
        memset(sum, 0, n * sizeof *sum);
        for (uint32_t h = 0; h < d->n_idx; h++) {
            dots(ctx, q + (size_t)h * d->d_idx, key, n, d->d_idx, dot);
            for (uint32_t i = 0; i < n; i++)
                sum[i] += dot[i] > 0 ? dot[i] : 0;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (have < top) {
                heap[have] = sum[i];
                id[have++] = b0 + i;
                for (uint32_t k = have / 2; have == top && k-- > 0;)
                    sift(heap, id, top, k);
            } else if (sum[i] > heap[0]) { /* a later block never beats an equal one */
                heap[0] = sum[i];
                id[0] = b0 + i;
                sift(heap, id, top, 0);
            }
        }
    }
    qsort(id, top, sizeof *id, by_id);
    sel[0] = top;
}

static void scalar_dots(void *ctx, const float *q, const float *k, uint32_t n, uint32_t d,
                        float *ret)
{
    for (uint32_t t = 0; t < n; t++, k += d) {
        double s = 0;
        for (uint32_t i = 0; i < d; i++)
            s += (double)q[i] * k[i];
        ret[t] = (float)s;
    }
}

void aq_scalar_choose(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run,
                      uint32_t n_run, const float *q, uint32_t *sel)
{
    for (uint32_t r = 0; r < n_run; r++)
        for (uint32_t j = 0; j < run[r].n; j++) {
            size_t row = run[r].row0 + j;
            const float *rq = q + row * d->n_idx * d->d_idx;
            aq_choose_row(d, kv, run[r].page, (run[r].kv0 + j + 1) / d->idx_block, rq, scalar_dots,
                          NULL, sel + row * aq_sel_u32(d));
        }
}
