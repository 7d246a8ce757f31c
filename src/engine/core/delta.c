/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta-net block of the walk, and its inner part, which rewind runs too. Thread: the stage's. */
#include <math.h>

#include "walk-priv.h"

/* Row t of the history [tail ; qkv], t counted from the first row of the tail. */
static const float *hist_row(const float *tail, const float *qkv, uint32_t n_tail, uint32_t c,
                             uint32_t t)
{
    return t < n_tail ? tail + (size_t)t * c : qkv + (size_t)(t - n_tail) * c;
}

static void l2_heads(float *x, uint32_t n_head, uint32_t d, float eps, float scale)
{
    for (uint32_t h = 0; h < n_head; h++, x += d) {
        double sum = 0;
        for (uint32_t i = 0; i < d; i++)
            sum += (double)x[i] * x[i];
        double len = sqrt(sum), s = scale / (len > eps ? len : eps);
        for (uint32_t i = 0; i < d; i++)
            x[i] = (float)(x[i] * s);
    }
}

/* The convolution over the history [tail ; qkv] and the norms of q and k, row by row. */
typedef struct conv_job {
    const aq_layer *d;
    const float *w, *tail, *qkv; /* w [C][conv_k] */
    float eps, *y;
} conv_job;

static void conv_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const conv_job *j = arg;
    const aq_layer *d = j->d;
    uint32_t c = aq_delta_width(d), n_tail = d->conv_k - 1;
    for (uint32_t t = r0; t < r1; t++) {
        float *y = j->y + (size_t)t * c;
        for (uint32_t i = 0; i < c; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < d->conv_k; k++)
                sum += (double)j->w[(size_t)i * d->conv_k + k] *
                       hist_row(j->tail, j->qkv, n_tail, c, t + k)[i];
            y[i] = (float)(sum / (1.0 + exp(-sum)));
        }
        l2_heads(y, d->n_kh, d->d_state, j->eps, (float)(1.0 / sqrt((double)d->d_state)));
        l2_heads(y + d->n_kh * d->d_state, d->n_kh, d->d_state, j->eps, 1.0f);
    }
}

void aq_delta_run(const aq_blocks *blocks, void *ctx, const aq_net_layer *nl, uint32_t n,
                  const float *qkv, const float *decay, const float *beta, const float *tail_in,
                  float *tail_out, const float *s_in, float *s_out, float eps, float *tmp, float *o)
{
    const aq_layer *d = nl->d;
    uint32_t c = aq_delta_width(d), n_tail = d->conv_k - 1, kd = d->n_kh * d->d_state;
    conv_job conv = {d, nl->v[AQ_W_CONV], tail_in, qkv, eps, tmp};
    aq_rows_share(blocks, ctx, conv_rows, &conv, n, 32 * (size_t)c);
    /* the last rows of the history become the next tail; upwards, since tail_out may be tail_in */
    for (uint32_t t = 0; t < n_tail; t++) {
        const float *src = hist_row(tail_in, qkv, n_tail, c, n + t);
        if (src != tail_out + (size_t)t * c)
            memmove(tail_out + (size_t)t * c, src, c * sizeof(float));
    }
    aq_delta a = {.d = d,
                  .n = n,
                  .q = tmp,
                  .k = tmp + kd,
                  .v = tmp + 2 * (size_t)kd,
                  .stride = c,
                  .decay = decay,
                  .beta = beta,
                  .s_in = s_in,
                  .s_out = s_out,
                  .o = o};
    if (n > 0)
        blocks->delta(ctx, &a);
    else if (s_out != s_in)
        memcpy(s_out, s_in, (size_t)d->n_vh * d->d_state * d->d_state * sizeof(float));
}

/* ---- the block ---- */

size_t aq_delta_f32(const aq_layer *d)
{
    return 2 * (size_t)aq_delta_width(d) + 2 * (size_t)d->n_vh * d->d_state + 4 * (size_t)d->n_vh;
}

/* The rows' decay and beta, from their projections, in place. */
typedef struct gates_job {
    const aq_net_layer *nl;
    float *decay, *beta;
} gates_job;

static void gates_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const gates_job *j = arg;
    uint32_t nv = j->nl->d->n_vh;
    for (uint32_t r = r0; r < r1; r++)
        for (uint32_t h = 0; h < nv; h++) {
            float *g = &j->decay[(size_t)r * nv + h], *e = &j->beta[(size_t)r * nv + h];
            double a = (double)*g + j->nl->v[AQ_W_DT_BIAS][h];
            *g = (float)(j->nl->v[AQ_W_A][h] * (a > 20 ? a : log1p(exp(a))));
            *e = aq_walk_sigmoid(*e);
        }
}

/* Rows [n_kh][beta | alpha] into rows of both. */
static void part_ba(const aq_layer *d, uint32_t n, const float *ba, float *alpha, float *beta)
{
    uint32_t r = d->n_vh / d->n_kh;
    for (uint32_t i = 0; i < n * d->n_kh; i++) {
        memcpy(beta + (size_t)i * r, ba + 2 * (size_t)i * r, r * sizeof(float));
        memcpy(alpha + (size_t)i * r, ba + (2 * (size_t)i + 1) * r, r * sizeof(float));
    }
}

void aq_mix_delta(walk *w, const aq_net_layer *nl, uint32_t l, const float *h, float *y)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    const aq_store *st = w->store;
    float eps = w->net->model->eps;
    uint32_t n = w->n, c = aq_delta_width(d), nv = d->n_vh, inner = nv * d->d_state;
    size_t n_tail = (size_t)(d->conv_k - 1) * c;
    float *qkv = aq_walk_take(w->s, c, n), *z = aq_walk_take(w->s, inner, n),
          *decay = aq_walk_take(w->s, nv, n), *beta = aq_walk_take(w->s, nv, n);
    float *tmp = aq_walk_take(w->s, c, n), *o = aq_walk_take(w->s, inner, n);
    bool joint = nl->m[AQ_W_BA].data;
    float *ba = aq_walk_take(w->s, joint ? 2 * (size_t)nv : 0, n);
    aq_mul mul[4] = {{&nl->m[AQ_W_QKV], qkv}, {&nl->m[AQ_W_GATE_Z], z}};
    mul[2] = joint ? (aq_mul){&nl->m[AQ_W_BA], ba} : (aq_mul){&nl->m[AQ_W_ALPHA], decay};
    mul[3] = (aq_mul){&nl->m[AQ_W_BETA], beta};
    b->matmul(ctx, mul, joint ? 3 : 4, h, n);
    if (joint)
        part_ba(d, n, ba, decay, beta);
    gates_job gates = {nl, decay, beta};
    aq_rows_share(b, ctx, gates_rows, &gates, n, 64 * (size_t)nv);
    for (uint32_t r = 0; r < st->n_run; r++) {
        const aq_run *run = &st->run[r];
        const float *in = aq_store_before(st, run->seq, l), *rq = qkv + (size_t)run->row0 * c;
        const float *rd = decay + (size_t)run->row0 * nv, *rb = beta + (size_t)run->row0 * nv;
        float *out = aq_store_live(st, run->seq, l);
        if (run->n <= AQ_REWIND_ROWS) {
            float *hist = aq_store_hist(st, run->seq, l), *hd = hist + (size_t)AQ_REWIND_ROWS * c;
            memcpy(hist, rq, (size_t)run->n * c * sizeof(float));
            memcpy(hd, rd, (size_t)run->n * nv * sizeof(float));
            memcpy(hd + (size_t)AQ_REWIND_ROWS * nv, rb, (size_t)run->n * nv * sizeof(float));
        }
        aq_delta_run(b, ctx, nl, run->n, rq, rd, rb, in, out, in + n_tail, out + n_tail, eps,
                     tmp + (size_t)run->row0 * c, o + (size_t)run->row0 * inner);
    }
    b->norm(ctx, o, nl->v[AQ_W_SSM_NORM], n * nv, d->d_state, eps, o);
    if (d->z_sigmoid)
        aq_walk_gate(w, o, z, n, inner);
    else
        b->glu(ctx, AQ_ACT_SILU, z, o, (size_t)n * inner, o); /* o ⊙ silu(z) */
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_SSM_OUT], y}, 1, o, n);
}
