/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the cpu backend: its context, and products of matrices in tiles with rows (product.c),
 * attention (attend.c). */
#ifndef AQ_PRODUCT_PRIV_H
#define AQ_PRODUCT_PRIV_H

#include "cpu-priv.h"
#include "forward-priv.h"
#include "rt-priv.h"

#define AQ_ATTN_QUERIES 64u          /* of a piece of attention */
#define AQ_ATTN_SPANS_F32 (4u << 20) /* floats of spans that wait to be folded */
#define AQ_CPU_ROWS_MAX 512u         /* rows prepared at once; longer windows go through in parts */

/** Rows of one form (AQ_IN_*), [n][wide]; what the form does not have is NULL. */
typedef struct aq_acts {
    aq_row_q to;   /* of row 0 */
    aq_row_in *in; /* [n] */
    uint32_t n, wide;
    int form;
} aq_acts;
int aq_acts_new(int form, uint32_t n, uint32_t wide, aq_acts *ret, aq_err *) AQ_MUST;
void aq_acts_clear(aq_acts *);

typedef struct aq_slab {
    struct aq_slab *next;
    uint8_t *p;
    size_t n, used;
} aq_slab;

typedef struct aq_cpu {
    const aq_rt *rt;
    const aq_isa *isa;
    uint32_t wide, wide_exp, n_used; /* longest input row; widest expert; experts per row */
    uint32_t cap;                    /* rows that scratch is made for */
    uint32_t forms;              /* bits 1 << AQ_IN_*: forms of input rows that the model needs */
    aq_acts acts[AQ_IN_N];       /* of these forms: [cap] inputs */
    aq_acts acts_exp[AQ_IN_N];   /* [cap × n_used] inputs of the down products */
    float *mid;                  /* [2][cap × n_used][wide_exp] gate, up */
    uint32_t *order, *order_row; /* [cap × n_used] slots by expert, and their rows */
    uint32_t *first, *active; /* [n_exp + 1] of experts: start in order; [n_exp] those with rows */
    uint32_t n_exp;
    uint8_t *side; /* [threads][2][side_bytes] rows side by side, for a path's `many`; else NULL */
    size_t side_bytes;
    float *panel;   /* [threads][wide][lanes] with f32_acts or AQ_L_STORED, else NULL */
    float *entries; /* [threads][AQ_ATTN_TOK][wide_kv] of attention */
    float *sums;    /* [threads][AQ_ATTN_QUERIES][wide_kv] */
    float *spans;   /* [AQ_ATTN_SPANS_F32]; pages that nobody writes are never taken */
    uint32_t wide_kv;
    aq_slab *slab;
} aq_cpu;

/* Multiplications below which a job is not worth waking others for: some microseconds of one core. */
#define AQ_CPU_SHARE_MIN 65536u
/** aq_pool_run, or all pieces here when the whole job is `work` multiplications and that is little. */
static inline void aq_cpu_share(const aq_cpu *c, aq_pool_fn fn, void *ctx, uint32_t n,
                                uint64_t work)
{
    if (work >= AQ_CPU_SHARE_MIN)
        aq_pool_run(c->rt->pool, fn, ctx, n);
    else
        for (uint32_t i = 0; i < n; i++)
            fn(ctx, i, 0);
}

/* Rows shorter than this meet their weights as f32: so few values average little of the rounding
 * away, and there are few of them. No K or IQ type has shorter rows. */
#define AQ_CPU_ROUND_MIN 256u
/** AQ_IN_*: the form of input rows of k values for this layout. */
static inline int aq_cpu_form(const aq_rt *rt, int layout, uint32_t k)
{
    return rt->f32_acts || k < AQ_CPU_ROUND_MIN ? AQ_IN_F32 : aq_layout_in(layout);
}

/** Room for AQ_MANY_ROWS rows side by side. */
size_t aq_side_bytes(uint32_t wide);
int aq_cpu_reserve(void *ctx, uint32_t max_rows, aq_err *) AQ_MUST;
void aq_cpu_matmul(void *ctx, const aq_mul *, uint32_t n_mul, const float *x, uint32_t n);
void aq_cpu_experts(void *ctx, const aq_experts *, const aq_expert_job *);
void aq_cpu_attend(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                   const float *q, const float *sinks, const uint32_t *sel, float *out);
void aq_cpu_choose(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                   const float *q, uint32_t *sel);

/** act(gate, up): by the path's kernels; GELU, which rounds to halves on its way, by the scalar form. */
static inline void aq_cpu_glu(const aq_isa *isa, int act, const float *gate, const float *up,
                              size_t n, float *y)
{
    if (act == AQ_ACT_SILU)
        isa->swiglu(gate, up, n, y);
    else if (act == AQ_ACT_OAI)
        isa->oai(gate, up, n, y);
    else
        aq_scalar_glu(NULL, act, gate, up, n, y);
}

/** Bytes of one of the matrices of m as tiles. */
static inline size_t aq_mat_tiles_bytes(const aq_mat *m, uint32_t lanes)
{
    return (m->rows + lanes - 1) / lanes * aq_tile_bytes(aq_layout_of(m->type->id), lanes, m->cols);
}

#endif
