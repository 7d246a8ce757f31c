/* SPDX-License-Identifier: Apache-2.0 */
/* Several residual streams in place of one. A row is [n_stream][n_embd]; before a block they are mixed to one, and the block's output
 * is added to each by a weight of the row's own. Thread: the stage's.
 *
 *   xn = RMS norm of each stream ⊙ NORM     gate = σ(UP silu(DOWN xn / n_stream))
 *   mix = mean over streams of xn ⊙ gate    weight of stream c = 2 σ((INJECT xn)_c / n_stream) */
#include <math.h>

#include "walk-priv.h"

void aq_streams_norm(const aq_net *net, const float *x, const float *w, uint32_t n, float *y)
{
    uint32_t wide = net->model->info.row_f32, s = net->model->n_stream;
    net->blocks->norm(net->ctx, x, net->ones, n * s, wide / s, net->model->eps, y);
    for (uint32_t r = 0; r < n; r++, y += wide)
        for (uint32_t i = 0; i < wide; i++)
            y[i] *= w[i];
}

size_t aq_streams_f32(const aq_model *m, size_t rank)
{
    return 2 * (size_t)m->info.row_f32 + rank;
}

void aq_streams_mix(const aq_net *net, const aq_mix_w *w, const float *x, uint32_t n, float *xn,
                    float *gate, float *lo, float *mix, float *inject)
{
    const aq_blocks *b = net->blocks;
    uint32_t s = net->model->n_stream, embd = net->model->info.n_embd, rank = w->down->rows;
    size_t wide = net->model->info.row_f32;
    aq_mul mul[2] = {{w->down, lo}, {w->inject, inject}};
    aq_streams_norm(net, x, w->norm, n, xn);
    b->matmul(net->ctx, mul, inject ? 2 : 1, xn, n);
    for (size_t i = 0; i < (size_t)n * rank; i++)
        lo[i] = lo[i] / (float)s * aq_walk_sigmoid(lo[i] / (float)s);
    b->matmul(net->ctx, &(aq_mul){w->up, gate}, 1, lo, n);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < embd; i++) {
            float sum = 0;
            for (uint32_t c = 0; c < s; c++) {
                size_t at = r * wide + (size_t)c * embd + i;
                sum += xn[at] * aq_walk_sigmoid(gate[at]);
            }
            mix[(size_t)r * embd + i] = sum / (float)s;
        }
    for (size_t i = 0; inject && i < (size_t)n * s; i++)
        inject[i] = 2 * aq_walk_sigmoid(inject[i] / (float)s);
}

void aq_streams_join(const aq_net *net, float *x, const float *y, const float *inject, uint32_t n)
{
    uint32_t s = net->model->n_stream, embd = net->model->info.n_embd;
    for (size_t i = 0; i < (size_t)n * s; i++, x += embd)
        for (uint32_t k = 0; k < embd; k++)
            x[k] += y[i / s * embd + k] * inject[i];
}
