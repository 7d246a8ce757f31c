/* SPDX-License-Identifier: Apache-2.0 */
/* The inner part of a gated delta-net block: see forward-priv.h. Thread: the stage's. */
#include <math.h>

#include "forward-priv.h"

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

void aq_delta_run(const aq_blocks *blocks, void *ctx, const aq_net_layer *nl, uint32_t n,
                  const float *qkv, const float *decay, const float *beta, const float *tail_in,
                  float *tail_out, const float *s_in, float *s_out, float eps, float *tmp, float *o)
{
    const aq_layer *d = nl->d;
    uint32_t c = aq_delta_width(d), n_tail = d->conv_k - 1, kd = d->n_kh * d->d_state;
    const float *w = nl->v[AQ_W_CONV]; /* [C][conv_k] */
    for (uint32_t t = 0; t < n; t++) {
        float *y = tmp + (size_t)t * c;
        for (uint32_t i = 0; i < c; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < d->conv_k; j++)
                sum += (double)w[(size_t)i * d->conv_k + j] *
                       hist_row(tail_in, qkv, n_tail, c, t + j)[i];
            y[i] = (float)(sum / (1.0 + exp(-sum)));
        }
        l2_heads(y, d->n_kh, d->d_state, eps, (float)(1.0 / sqrt((double)d->d_state)));
        l2_heads(y + kd, d->n_kh, d->d_state, eps, 1.0f);
    }
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
