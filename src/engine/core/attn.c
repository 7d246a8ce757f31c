/* SPDX-License-Identifier: Apache-2.0 */
/* The attention blocks of the walk: grouped queries over KV, and latent attention (MLA) in its absorbed form, where all heads read
 * one shared entry of a token. Thread: the stage's. */
#include <math.h>

#include "walk-priv.h"

/* ---- rope ---- */

/* The pair i at which a turn of 2π takes orig / turns positions. */
static double turns_at(const aq_layer *d, double turns)
{
    return d->n_rot * log(d->scale.orig / (turns * 2 * M_PI)) / (2 * log(d->rope_base));
}

/* Frequency of pair i. YaRN: pairs that turn often stay, slow ones are stretched, between them a ramp. */
static double frequency(const aq_net *net, const aq_layer *d, uint32_t i)
{
    double f = pow(d->rope_base, -2.0 * i / d->n_rot), slow = f / d->scale.factor;
    if (d->scale.freqs && net->rope_freqs && i < net->n_rope_freqs)
        return slow / net->rope_freqs[i];
    if (!d->scale.yarn)
        return slow;
    double lo = floor(turns_at(d, d->scale.fast)), hi = ceil(turns_at(d, d->scale.slow));
    lo = AQ_MAX(lo, 0);
    hi = AQ_MIN(hi, d->n_rot - 1.0);
    double at = (i - lo) / AQ_MAX(0.001, hi - lo), keep = 1 - AQ_MIN(1, AQ_MAX(0, at));
    return slow * (1 - keep) + f * keep;
}

/* A pair of an interleaved rope that belongs to no position of text. */
static bool stands_still(const aq_layer *d, uint32_t i)
{
    uint32_t all = d->sect[0] + d->sect[1] + d->sect[2] + d->sect[3];
    return all && i % all >= 3 * d->sect[i % all % 3];
}

static bool turn_alike(const aq_layer *a, const aq_layer *b)
{
    return a->n_rot == b->n_rot && a->rope_base == b->rope_base &&
           memcmp(a->sect, b->sect, sizeof a->sect) == 0 &&
           memcmp(&a->scale, &b->scale, sizeof(a->scale)) == 0;
}

void aq_rope_at(const aq_net *net, const aq_layer *d, uint32_t pos, float *cs)
{
    for (uint32_t i = 0; i < d->n_rot / 2; i++) {
        double a = stands_still(d, i) ? 0 : pos * frequency(net, d, i);
        cs[2 * i] = (float)(cos(a) * d->scale.mag);
        cs[2 * i + 1] = (float)(sin(a) * d->scale.mag);
    }
}

/* cos and sin of position × frequency, once for all layers in a row that turn alike. */
void aq_rope_table(walk *w, const aq_layer *d)
{
    aq_state *s = w->s;
    uint32_t half = d->n_rot / 2;
    if (s->cs_for && turn_alike(s->cs_for, d))
        return;
    for (uint32_t i = 0; i < half; i++) {
        double freq = stands_still(d, i) ? 0 : frequency(w->net, d, i);
        for (uint32_t r = 0; r < w->n; r++) {
            double a = w->row[r].pos * freq;
            s->cs[((size_t)r * half + i) * 2] = (float)(cos(a) * d->scale.mag);
            s->cs[((size_t)r * half + i) * 2 + 1] = (float)(sin(a) * d->scale.mag);
        }
    }
    s->cs_for = d;
}

/* ---- attention ---- */

size_t aq_attn_f32(const aq_layer *d)
{
    size_t q = (size_t)d->n_head * d->d_k, kv = (size_t)d->n_kv * (d->d_k + d->d_v),
           o = (size_t)d->n_head * d->d_v;
    return (d->gated ? 4 : 1) * q + kv + o + aq_index_f32(d);
}

/* Rows [n_head][q d | gate d] into rows of q and of gates. */
static void part_gates(const float *qg, uint32_t n_heads, uint32_t d, float *q, float *gate)
{
    for (uint32_t h = 0; h < n_heads; h++) {
        memcpy(q + (size_t)h * d, qg + 2 * (size_t)h * d, d * sizeof(float));
        memcpy(gate + (size_t)h * d, qg + (2 * (size_t)h + 1) * d, d * sizeof(float));
    }
}

/* The norm of q or k: over each head, or over the whole row where its weight is as long as that. */
static void norm_heads(walk *w, const aq_net_layer *nl, int role, uint32_t n_head, uint32_t d,
                       float *x)
{
    const float *weight = nl->v[role];
    bool row = nl->n_v[role] != d;
    if (weight)
        w->net->blocks->norm(w->net->ctx, x, weight, row ? w->n : w->n * n_head,
                             row ? n_head * d : d, w->net->model->eps, x);
}

/* k and v of the rows, into the pages. */
static void put_kv(walk *w, const aq_net_layer *nl, uint32_t l, float *k, float *v)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    uint32_t n = w->n;
    aq_walk_add_bias(k, nl->v[AQ_W_K_BIAS], n, d->n_kv * d->d_k);
    if (nl->m[AQ_W_V].data)
        aq_walk_add_bias(v, nl->v[AQ_W_V_BIAS], n, d->n_kv * d->d_v);
    else
        memcpy(v, k, (size_t)n * d->n_kv * d->d_v * sizeof(float));
    norm_heads(w, nl, AQ_W_K_NORM, d->n_kv, d->d_k, k);
    if (d->v_norm)
        b->norm(ctx, v, w->net->ones, n * d->n_kv, d->d_v, w->net->model->eps, v);
    if (d->rope != AQ_ROPE_NONE)
        b->rope(ctx, k, n, d->n_kv, d->d_k, d->n_rot, d->rope, w->s->cs);
    b->kv_put(ctx, &w->store->kv[l], w->store->run, w->store->n_run, k, v);
}

void aq_mix_attn(walk *w, const aq_net_layer *nl, uint32_t l, const float *h, float *y)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    uint32_t n = w->n, nq = d->n_head * d->d_k, n_mul = 1;
    float *q = aq_walk_take(w->s, (d->gated ? 2 : 1) * (size_t)nq, n), *gate = NULL;
    float *k = aq_walk_take(w->s, (size_t)d->n_kv * d->d_k, n),
          *v = aq_walk_take(w->s, (size_t)d->n_kv * d->d_v, n);
    float *o = aq_walk_take(w->s, (size_t)d->n_head * d->d_v, n);
    aq_mul mul[3] = {{&nl->m[AQ_W_Q], q}};
    if (nl->m[AQ_W_K].data)
        mul[n_mul++] = (aq_mul){&nl->m[AQ_W_K], k};
    if (nl->m[AQ_W_V].data)
        mul[n_mul++] = (aq_mul){&nl->m[AQ_W_V], v};
    const uint32_t *sel = aq_index(w, nl, l, h);
    b->matmul(ctx, mul, n_mul, h, n);
    aq_walk_add_bias(q, nl->v[AQ_W_Q_BIAS], n, nl->m[AQ_W_Q].rows);
    if (d->gated) {
        float *qg = q;
        q = aq_walk_take(w->s, nq, n);
        gate = aq_walk_take(w->s, nq, n);
        part_gates(qg, n * d->n_head, d->d_k, q, gate);
    }
    norm_heads(w, nl, AQ_W_Q_NORM, d->n_head, d->d_k, q);
    if (d->rope != AQ_ROPE_NONE) {
        aq_rope_table(w, d);
        b->rope(ctx, q, n, d->n_head, d->d_k, d->n_rot, d->rope, w->s->cs);
    }
    if (!d->kv_back)
        put_kv(w, nl, l, k, v);
    b->attend(ctx, d, &w->store->kv[l], w->store->run, w->store->n_run, q, nl->v[AQ_W_SINKS], sel,
              o);
    if (gate)
        aq_walk_gate(w, o, gate, n, nq);
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_O], y}, 1, o, n);
    aq_walk_add_bias(y, nl->v[AQ_W_O_BIAS], n, w->net->model->info.n_embd);
}

/* ---- latent attention ---- */

size_t aq_latent_f32(const aq_net_layer *nl)
{
    const aq_layer *d = nl->d;
    size_t entry = d->n_lora + d->n_rot, head = d->d_nope + d->n_rot, H = d->n_head;
    return nl->m[AQ_W_Q_A].rows + H * head + entry + 2 * H * entry + H * d->d_val +
           2 * (size_t)AQ_MAX(AQ_MAX(d->d_nope, d->n_lora), d->d_val);
}

/* out [n][H][out_stride] (the first rows of each) = per head its matrix of m × in [n][H][in_stride] (the first cols). */
static void per_head(walk *w, const aq_mat *m, const float *in, size_t in_stride, float *out,
                     size_t out_stride, float *a, float *b)
{
    uint32_t H = m->n_mat;
    for (uint32_t h = 0; h < H; h++) {
        for (uint32_t r = 0; r < w->n; r++)
            memcpy(a + (size_t)r * m->cols, in + ((size_t)r * H + h) * in_stride,
                   m->cols * sizeof(float));
        w->net->blocks->matmul(w->net->ctx, &(aq_mul){m, b, h}, 1, a, w->n);
        for (uint32_t r = 0; r < w->n; r++)
            memcpy(out + ((size_t)r * H + h) * out_stride, b + (size_t)r * m->rows,
                   m->rows * sizeof(float));
    }
}

void aq_mix_latent(walk *w, const aq_net_layer *nl, uint32_t l, const float *h, float *y)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    const aq_kv *kv = &w->store->kv[l];
    uint32_t n = w->n, H = d->n_head, rq = nl->m[AQ_W_Q_A].rows;
    uint32_t entry = d->n_lora + d->n_rot, head = d->d_nope + d->n_rot;
    size_t widest = AQ_MAX(AQ_MAX(d->d_nope, d->n_lora), d->d_val);
    float eps = w->net->model->eps;
    float *qa = aq_walk_take(w->s, rq, n), *q = aq_walk_take(w->s, (size_t)H * head, n),
          *k = aq_walk_take(w->s, entry, n), *qe = aq_walk_take(w->s, (size_t)H * entry, n),
          *o = aq_walk_take(w->s, (size_t)H * entry, n),
          *ov = aq_walk_take(w->s, (size_t)H * d->d_val, n), *t = aq_walk_take(w->s, widest, n),
          *u = aq_walk_take(w->s, widest, n);
    aq_mul mul[] = {{&nl->m[AQ_W_KV_A], k}, {&nl->m[rq ? AQ_W_Q_A : AQ_W_Q], rq ? qa : q}};
    b->matmul(ctx, mul, AQ_LEN(mul), h, n);
    if (rq) {
        b->norm(ctx, qa, nl->v[AQ_W_Q_A_NORM], n, rq, eps, qa);
        b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_Q], q}, 1, qa, n);
    }
    for (uint32_t r = 0; r < n; r++)
        b->norm(ctx, k + (size_t)r * entry, nl->v[AQ_W_KV_A_NORM], 1, d->n_lora, eps,
                k + (size_t)r * entry);
    aq_rope_table(w, d); /* the roped values are the last of an entry and of a head */
    b->rope(ctx, k + d->n_lora, n, 1, entry, d->n_rot, d->rope, w->s->cs);
    b->rope(ctx, q + d->d_nope, n, H, head, d->n_rot, d->rope, w->s->cs);
    b->kv_put(ctx, kv, w->store->run, w->store->n_run, k, NULL);
    per_head(w, &nl->m[AQ_W_K_B], q, head, qe, entry, t, u);
    for (size_t i = 0; i < (size_t)n * H; i++)
        memcpy(qe + i * entry + d->n_lora, q + i * head + d->d_nope, d->n_rot * sizeof(float));
    b->attend(ctx, d, kv, w->store->run, w->store->n_run, qe, NULL, NULL, o);
    per_head(w, &nl->m[AQ_W_V_B], o, entry, ov, d->d_val, t, u);
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_O], y}, 1, ov, n);
}
