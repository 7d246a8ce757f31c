/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar operations on f32 rows: what `reference` computes with, and what other tables fall back on. Sums run in double, in index order,
 * so that a row's bits depend on nothing but the row. Any thread. */
#include <math.h>

#include "forward-priv.h"

static float silu(float x)
{
    return (float)(x / (1.0 + exp(-(double)x)));
}

void aq_scalar_norm(void *ctx, const float *x, const float *w, uint32_t n, uint32_t dim, float eps,
                    float *y)
{
    for (uint32_t r = 0; r < n; r++, x += dim, y += dim) {
        double sum = 0;
        for (uint32_t i = 0; i < dim; i++)
            sum += (double)x[i] * x[i];
        double scale = 1.0 / sqrt(sum / dim + eps);
        for (uint32_t i = 0; i < dim; i++)
            y[i] = (float)(x[i] * scale * w[i]);
    }
}

void aq_scalar_rope(void *ctx, float *x, uint32_t n, uint32_t n_head, uint32_t d, uint32_t d_rot,
                    int kind, const float *cs)
{
    uint32_t half = d_rot / 2, step = kind == AQ_ROPE_NEOX ? 1 : 2,
             pair = kind == AQ_ROPE_NEOX ? half : 1;
    for (uint32_t r = 0; r < n; r++, cs += 2 * half)
        for (uint32_t h = 0; h < n_head; h++, x += d)
            for (uint32_t i = 0; i < half; i++) {
                float *a = x + (size_t)i * step, *b = a + pair, c = cs[2 * i], s = cs[2 * i + 1];
                double x0 = *a, x1 = *b;
                *a = (float)(x0 * c - x1 * s);
                *b = (float)(x0 * s + x1 * c);
            }
}

void aq_kv_q8_put(const float *x, uint32_t n, uint8_t *ret)
{
    for (uint32_t b = 0; b < n; b += 32, ret += 34) {
        uint32_t k = AQ_MIN(32u, n - b), bits = 0;
        for (uint32_t i = 0; i < k; i++) { /* among bit patterns NaN and infinity are the largest */
            uint32_t v;
            memcpy(&v, &x[b + i], 4);
            bits = AQ_MAX(bits, v & 0x7fffffff);
        }
        float max;
        memcpy(&max, &bits, 4);
        float inv = max >= 0x1p-100f ? 127 / max : 0;
        uint16_t d = aq_f32_to_f16(max / 127);
        memcpy(ret, &d, 2);
        memset(ret + 2, 0, 32);
        for (uint32_t i = 0; i < k; i++) {
            float v = roundf(x[b + i] * inv);
            ((int8_t *)ret)[2 + i] = (int8_t)(v > 127 ? 127 : v >= -127 ? v : -127);
        }
    }
}

void aq_kv_q8_get(const uint8_t *p, uint32_t n, float *ret)
{
    for (; n > 0; p += 34, ret += 32) {
        uint16_t h;
        uint32_t k = AQ_MIN(32u, n);
        memcpy(&h, p, 2);
        float d = aq_f16_to_f32(h);
        const int8_t *q = (const int8_t *)p + 2;
        if (k == 32)
            for (uint32_t i = 0; i < 32; i++)
                ret[i] = d * q[i];
        else
            for (uint32_t i = 0; i < k; i++)
                ret[i] = d * q[i];
        n -= k;
    }
}

static void put_vals(uint32_t type, void *dst, const float *src, uint32_t n)
{
    if (type == AQ_KV_F32) {
        memcpy(dst, src, n * sizeof(float));
        return;
    }
    if (type == AQ_KV_Q8_0) {
        aq_kv_q8_put(src, n, dst);
        return;
    }
    uint16_t *h = dst;
    for (uint32_t i = 0; i < n; i++)
        h[i] = aq_f32_to_f16(src[i]);
}

void aq_scalar_kv_put(void *ctx, const aq_kv *kv, const aq_run *run, uint32_t n_run, const float *k,
                      const float *v)
{
    for (uint32_t r = 0; r < n_run; r++)
        for (uint32_t j = 0; j < run[r].n; j++) {
            uint32_t at = run[r].kv0 + j, page = run[r].page[at / AQ_PAGE_TOK],
                     tok = at % AQ_PAGE_TOK;
            size_t row = (size_t)(run[r].row0 + j) * kv->n_kv;
            for (uint32_t h = 0; h < kv->n_kv; h++) {
                put_vals(kv->type, aq_kv_k(kv, page, h, tok), k + (row + h) * kv->d_k, kv->d_k);
                if (v)
                    put_vals(kv->type, aq_kv_v(kv, page, h, tok), v + (row + h) * kv->d_v, kv->d_v);
            }
        }
}

static float kv_val(const aq_kv *kv, const void *p, uint32_t i)
{
    if (kv->type != AQ_KV_Q8_0)
        return kv->type == AQ_KV_F32 ? ((const float *)p)[i]
                                     : aq_f16_to_f32(((const uint16_t *)p)[i]);
    const uint8_t *b = (const uint8_t *)p + i / 32 * 34;
    uint16_t d;
    memcpy(&d, b, 2);
    return aq_f16_to_f32(d) * ((const int8_t *)b)[2 + i % 32];
}

/* One head of one row: one pass over the entries, what is summed so far shrinks when a larger score comes. */
static void attend_head(const aq_layer *d, const aq_kv *kv, const uint32_t *page, aq_seen all,
                        uint32_t g, const float *q, const float *sink, float *out)
{
    double acc[512];
    for (uint32_t v0 = 0; v0 < kv->d_v; v0 += AQ_LEN(acc)) { /* a slice of the values at a time */
        uint32_t nv = AQ_MIN(kv->d_v - v0, (uint32_t)AQ_LEN(acc));
        double top = sink ? *sink : -INFINITY, sum = sink ? 1 : 0;
        memset(acc, 0, sizeof(acc));
        aq_seen seen = all;
        uint32_t t, n = aq_seen_next(&seen, &t);
        for (; n > 0; t++, n = n > 1 ? n - 1 : aq_seen_next(&seen, &t)) {
            const void *k = aq_kv_k(kv, page[t / AQ_PAGE_TOK], g, t % AQ_PAGE_TOK),
                       *v = aq_kv_v(kv, page[t / AQ_PAGE_TOK], g, t % AQ_PAGE_TOK);
            double s = 0;
            for (uint32_t i = 0; i < kv->d_k; i++)
                s += (double)q[i] * kv_val(kv, k, i);
            s *= d->score_scale;
            if (s > top) {
                double shrink = exp(top - s);
                for (uint32_t i = 0; i < nv; i++)
                    acc[i] *= shrink;
                sum *= shrink;
                top = s;
            }
            double p = exp(s - top);
            sum += p;
            for (uint32_t i = 0; i < nv; i++)
                acc[i] += p * kv_val(kv, v, v0 + i);
        }
        for (uint32_t i = 0; i < nv; i++)
            out[v0 + i] = (float)(acc[i] / sum);
    }
}

void aq_scalar_attend(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run,
                      uint32_t n_run, const float *q, const float *sinks, const uint32_t *sel,
                      float *out)
{
    uint32_t group = d->n_head / kv->n_kv;
    for (uint32_t r = 0; r < n_run; r++)
        for (uint32_t j = 0; j < run[r].n; j++) {
            uint32_t hi = run[r].kv0 + j + 1, lo = d->window && hi > d->window ? hi - d->window : 0;
            size_t row = (size_t)(run[r].row0 + j) * d->n_head;
            aq_seen seen = aq_seen_begin(
                d, sel ? sel + (size_t)(run[r].row0 + j) * aq_sel_u32(d) : NULL, lo, hi);
            for (uint32_t h = 0; h < d->n_head; h++)
                attend_head(d, kv, run[r].page, seen, h / group, q + (row + h) * kv->d_k,
                            sinks ? sinks + h : NULL, out + (row + h) * kv->d_v);
        }
}

/* ggml, and so every published figure of these models, takes GELU from a table over halves: within ±10 its input and output are
 * rounded to f16. Rounding in the same way brings logits from 1e-3 to 2e-4 of it (relative RMS); the rest is values that round apart. */
static float gelu(float x)
{
    if (!(x > -10 && x < 10))
        return x <= -10 ? 0 : x;
    double v = aq_f16_to_f32(aq_f32_to_f16(x));
    double t = 0.79788456080286535588 * v * (1 + 0.044715 * v * v); /* √(2/π) */
    return aq_f16_to_f32(aq_f32_to_f16((float)(0.5 * v * (1 + tanh(t)))));
}

static float oai(float gate, float up)
{
    double g = AQ_MIN(gate, 7.0f), u = AQ_MAX(AQ_MIN(up, 7.0f), -7.0f);
    return (float)(g / (1 + exp(-1.702 * g)) * (u + 1));
}

void aq_scalar_glu(void *ctx, int act, const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = act == AQ_ACT_OAI    ? oai(gate[i], up[i])
               : act == AQ_ACT_GELU ? gelu(gate[i]) * up[i]
                                    : silu(gate[i]) * up[i];
}

/* S ← e^g S; r = β (v − Sᵀk); S ← S + k rᵀ; o = Sᵀq, per head. */
void aq_scalar_delta(void *ctx, const aq_delta *a)
{
    uint32_t ds = a->d->d_state, n_kh = a->d->n_kh, n_vh = a->d->n_vh;
    for (uint32_t t = 0; t < a->n; t++) {
        const float *s_in = t == 0 ? a->s_in : a->s_out;
        for (uint32_t h = 0; h < n_vh; h++) {
            uint32_t kh = a->d->kh_grouped ? h / (n_vh / n_kh) : h % n_kh;
            const float *q = a->q + t * a->stride + (size_t)kh * ds,
                        *k = a->k + t * a->stride + (size_t)kh * ds;
            const float *v = a->v + t * a->stride + (size_t)h * ds;
            float e = (float)exp((double)a->decay[(size_t)t * n_vh + h]),
                  beta = a->beta[(size_t)t * n_vh + h];
            float *o = a->o + ((size_t)t * n_vh + h) * ds;
            for (uint32_t j = 0; j < ds; j++) {
                const float *src = s_in + ((size_t)h * ds + j) * ds;
                float *dst = a->s_out + ((size_t)h * ds + j) * ds;
                double kv = 0, out = 0;
                for (uint32_t i = 0; i < ds; i++) {
                    dst[i] = src[i] * e;
                    kv += (double)dst[i] * k[i];
                }
                float r = (float)(beta * (v[j] - kv));
                for (uint32_t i = 0; i < ds; i++) {
                    dst[i] += k[i] * r;
                    out += (double)dst[i] * q[i];
                }
                o[j] = (float)out;
            }
        }
    }
}
