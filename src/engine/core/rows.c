/* SPDX-License-Identifier: Apache-2.0 */
/* Small operations of the walk, and how its loops over rows are shared by the backend's threads: a window of a prompt has
 * hundreds of rows, and what one thread did alone all others would wait for. Thread: the stage's. */
#include <math.h>

#include "walk-priv.h"

#define PIECE_OPS 16384u /* some microseconds */

typedef struct rows_job {
    aq_rows_fn fn;
    void *arg;
    uint32_t n, per;
} rows_job;

static void rows_piece(void *arg, uint32_t i, uint32_t worker)
{
    const rows_job *j = arg;
    j->fn(j->arg, i * j->per, AQ_MIN((i + 1) * j->per, j->n));
}

void aq_rows_share(const aq_blocks *b, void *ctx, aq_rows_fn fn, void *arg, uint32_t n, size_t ops)
{
    rows_job j = {fn, arg, n, (uint32_t)AQ_MAX(PIECE_OPS / AQ_MAX(ops, 1u), 1u)};
    if (b->share && n > j.per)
        b->share(ctx, rows_piece, &j, (n + j.per - 1) / j.per);
    else
        fn(arg, 0, n);
}

float aq_walk_sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp(-(double)x)));
}

void aq_walk_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

void aq_walk_add_bias(float *y, const float *bias, uint32_t n, uint32_t dim)
{
    for (uint32_t r = 0; bias && r < n; r++)
        aq_walk_add(y + (size_t)r * dim, bias, dim);
}

void aq_walk_scale(float *x, float by, size_t n)
{
    for (size_t i = 0; by != 1 && i < n; i++)
        x[i] *= by;
}

typedef struct pair_job {
    float *x, *y;
    const float *gate;
    float by;
    size_t dim;
} pair_job;

static void gate_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const pair_job *j = arg;
    for (size_t i = r0 * j->dim; i < r1 * j->dim; i++)
        j->x[i] *= aq_walk_sigmoid(j->gate[i]);
}

void aq_walk_gate(walk *w, float *x, const float *gate, uint32_t n, uint32_t dim)
{
    pair_job j = {.x = x, .gate = gate, .dim = dim};
    aq_rows_share(w->net->blocks, w->net->ctx, gate_rows, &j, n, 16 * (size_t)dim);
}

static void join_rows(void *arg, uint32_t r0, uint32_t r1)
{
    const pair_job *j = arg;
    size_t at = r0 * j->dim, n = (r1 - r0) * j->dim;
    aq_walk_scale(j->y + at, j->by, n);
    aq_walk_add(j->x + at, j->y + at, n);
}

void aq_walk_join(walk *w, float *x, float *y, float by, uint32_t n, uint32_t dim)
{
    pair_job j = {.x = x, .y = y, .by = by, .dim = dim};
    aq_rows_share(w->net->blocks, w->net->ctx, join_rows, &j, n, dim);
}
