/* SPDX-License-Identifier: Apache-2.0 */
/* The ffn blocks of the walk: dense, routed experts with or without a shared one, and both side by side. Thread: the stage's. */
#include <math.h>

#include "walk-priv.h"

size_t aq_ffn_f32(const aq_layer *d, size_t n_embd)
{
    size_t moe =
        d->n_exp ? d->n_exp + (2 + n_embd) * (size_t)d->n_used + 2 * (size_t)d->n_ff_sh + n_embd + 1
                 : 0;
    return 2 * (size_t)d->n_ff + moe + (d->ffn == AQ_FFN_BOTH ? 2 * n_embd : 0);
}

static void dense(walk *w, const aq_net_layer *nl, int gate, int up, int down, const float *h,
                  float *y)
{
    const aq_blocks *b = w->net->blocks;
    uint32_t n = w->n, ff = nl->m[gate].rows;
    float *g = aq_walk_take(w->s, ff, n), *u = aq_walk_take(w->s, ff, n);
    aq_mul mul[] = {{&nl->m[gate], g}, {&nl->m[up], u}};
    b->matmul(w->net->ctx, mul, AQ_LEN(mul), h, n);
    b->glu(w->net->ctx, nl->d->act, g, u, (size_t)n * ff, g);
    b->matmul(w->net->ctx, &(aq_mul){&nl->m[down], y}, 1, g, n);
}

typedef struct rows_of_moe {
    const aq_layer *d;
    const float *logits, *bias, *by_expert; /* routing */
    int32_t *expert;
    float *weight;
    const float *parts; /* and adding what the experts made */
    size_t embd;
    float *y;
} rows_of_moe;

static void route_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const rows_of_moe *j = arg;
    size_t k = j->d->n_used;
    aq_route(j->d, j->logits + (size_t)r0 * j->d->n_exp, j->bias, r1 - r0, j->expert + r0 * k,
             j->weight + r0 * k);
    for (size_t i = r0 * k; j->by_expert && i < r1 * k; i++)
        j->weight[i] *= j->by_expert[j->expert[i]];
}

static void add_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const rows_of_moe *j = arg;
    aq_parts_add(j->parts + r0 * j->embd * j->d->n_used, NULL, r1 - r0, j->d->n_used,
                 (uint32_t)j->embd, j->y + r0 * j->embd);
}

/* in: what the router reads, times in_scale; h: what the experts read. */
static int moe(walk *w, const aq_net_layer *nl, uint32_t layer, const float *in, float in_scale,
               const float *h, float *y, aq_err *err)
{
    const aq_blocks *b = w->net->blocks;
    const aq_layer *d = nl->d;
    uint32_t n = w->n, k = d->n_used, embd = w->net->model->info.n_embd;
    float *logits = aq_walk_take(w->s, d->n_exp, n), *weight = aq_walk_take(w->s, k, n),
          *parts = aq_walk_take(w->s, (size_t)k * embd, n);
    int32_t *expert = (int32_t *)aq_walk_take(w->s, k, n);
    b->matmul(w->net->ctx, &(aq_mul){&nl->m[AQ_W_ROUTER], logits}, 1, in, n);
    aq_walk_scale(logits, in_scale, (size_t)n * d->n_exp);
    aq_walk_add_bias(logits, nl->v[AQ_W_ROUTER_BIAS], n, d->n_exp);
    rows_of_moe job = {.d = d,
                       .logits = logits,
                       .bias = nl->v[AQ_W_SELECT_BIAS],
                       .by_expert = nl->v[AQ_W_EXP_SCALE],
                       .expert = expert,
                       .weight = weight,
                       .parts = parts,
                       .embd = embd,
                       .y = y};
    aq_rows_share(b, w->net->ctx, route_rows, &job, n, 64 * (size_t)d->n_exp);
    int rc = aq_experts_run(w->net, layer, w->hosts, w->n_hosts, n, h, expert, weight, parts, err);
    if (rc < 0)
        return rc;
    if (d->n_ff_sh == 0) {
        aq_rows_share(b, w->net->ctx, add_rows, &job, n, (size_t)k * embd);
        return 0;
    }
    float *sh = aq_walk_take(w->s, embd, n), *sg = aq_walk_take(w->s, 1, n);
    dense(w, nl, AQ_W_SH_GATE, AQ_W_SH_UP, AQ_W_SH_DOWN, h, sh);
    if (nl->m[AQ_W_SH_ROUTER].data) {
        b->matmul(w->net->ctx, &(aq_mul){&nl->m[AQ_W_SH_ROUTER], sg}, 1, h, n);
        for (uint32_t r = 0; r < n; r++)
            aq_walk_scale(sh + (size_t)r * embd, aq_walk_sigmoid(sg[r]), embd);
    }
    aq_rows_share(b, w->net->ctx, add_rows, &job, n, (size_t)k * embd);
    aq_walk_join(w, y, sh, 1, n, embd);
    return 0;
}

/* Dense and experts, each with norms of its own; the router reads RMS(x) ⊙ ROUTER_NORM / √n_embd. */
static int both(walk *w, const aq_net_layer *nl, uint32_t layer, const float *x, const float *h,
                float *y, aq_err *err)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    uint32_t n = w->n, embd = w->net->model->info.n_embd;
    float eps = w->net->model->eps, scale = 1 / sqrtf((float)embd);
    float *in = aq_walk_take(w->s, embd, n), *e = aq_walk_take(w->s, embd, n);
    dense(w, nl, AQ_W_FFN_GATE, AQ_W_FFN_UP, AQ_W_FFN_DOWN, h, y);
    b->norm(ctx, y, nl->v[AQ_W_DENSE_POST_NORM], n, embd, eps, y);
    b->norm(ctx, x, nl->v[AQ_W_ROUTER_NORM], n, embd, eps, in);
    b->norm(ctx, x, nl->v[AQ_W_EXP_NORM], n, embd, eps, e);
    int rc = moe(w, nl, layer, in, scale, e, e, err);
    if (rc < 0)
        return rc;
    b->norm(ctx, e, nl->v[AQ_W_EXP_POST_NORM], n, embd, eps, e);
    aq_walk_join(w, y, e, 1, n, embd);
    return 0;
}

int aq_ffn(walk *w, const aq_net_layer *nl, uint32_t layer, const float *x, const float *h,
           float *y, aq_err *err)
{
    if (nl->d->ffn == AQ_FFN_BOTH)
        return both(w, nl, layer, x, h, y, err);
    if (nl->d->ffn == AQ_FFN_MOE)
        return moe(w, nl, layer, h, 1, h, y, err);
    dense(w, nl, AQ_W_FFN_GATE, AQ_W_FFN_UP, AQ_W_FFN_DOWN, h, y);
    return 0;
}
