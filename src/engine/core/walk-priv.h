/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the walk share: the state of one stage, one window under way, and the blocks that forward.c strings together.
 * Thread: the stage's. */
#ifndef AQ_WALK_PRIV_H
#define AQ_WALK_PRIV_H

#include "store-priv.h"

#define PAD 16u /* floats between scratch buffers, so that each begins on a cache line */

typedef struct aq_state {
    aq_net *net;
    aq_state_cfg cfg;
    aq_store *main, *draft; /* NULL where there are no such layers */
    float *x, *h,
        *cs; /* [max_rows] rows of: residual stream, normed or block output, cos and sin of the rope */
    float *inject; /* [max_rows][n_stream] weights of the block under way */
    float *ple;    /* [max_rows][n_layer][n_ple], NULL without per-layer embeddings */
    float *buf;    /* the rest, taken anew by each block */
    size_t buf_f32, taken;
    const aq_layer *cs_for; /* a layer that cs was made for in this window, or NULL */
    aq_row *draft_row;      /* [max_rows] */
    uint64_t bytes;
} aq_state;

typedef struct walk {
    aq_net *net;
    aq_state *s;
    aq_store *store;
    const aq_row *row;
    uint32_t n;
    const aq_expert_host *const *hosts;
    uint32_t n_hosts;
} walk;

/** Scratch of n rows of per_row floats, until s->taken is set back. A block takes at most 16, of the sums below in all. */
static inline float *aq_walk_take(aq_state *s, size_t per_row, uint32_t n)
{
    float *p = s->buf + s->taken;
    s->taken += (per_row * n + PAD - 1) / PAD * PAD;
    return p;
}
size_t aq_attn_f32(const aq_layer *);
size_t aq_latent_f32(const aq_net_layer *);
size_t aq_delta_f32(const aq_layer *);
size_t aq_ffn_f32(const aq_layer *, size_t n_embd);
size_t aq_index_f32(const aq_layer *);
size_t aq_ngram_f32(const aq_model *);
size_t aq_streams_f32(const aq_model *, size_t rank);

/* Mixers: h [n][n_embd] the normed input, y the output; y may be h. l counts from the stage's first layer. */
void aq_mix_attn(walk *, const aq_net_layer *, uint32_t l, const float *h, float *y);
void aq_mix_latent(walk *, const aq_net_layer *, uint32_t l, const float *h, float *y);
void aq_mix_delta(walk *, const aq_net_layer *, uint32_t l, const float *h, float *y);
/** The ffn: x the residual stream, h its norm, y the output; y may be h. */
int aq_ffn(walk *, const aq_net_layer *, uint32_t layer, const float *x, const float *h, float *y,
           aq_err *) AQ_MUST;

/** The rows' cos and sin for a layer's rope into s->cs; and those of one position into cs [n_rot]. */
void aq_rope_table(walk *, const aq_layer *);
void aq_rope_at(const aq_net *, const aq_layer *, uint32_t pos, float *cs);

/* ---- streams (streams.c), n-gram embeddings (ngram.c), indexer (index.c) ---- */

typedef struct aq_mix_w {
    const float *norm;
    const aq_mat *down, *up, *inject;
} aq_mix_w;
/** y = RMS norm of each of the n rows' streams ⊙ w [row_f32]; y may be x. */
void aq_streams_norm(const aq_net *, const float *x, const float *w, uint32_t n, float *y);
/** mix [n][n_embd] of x [n][row_f32]; inject [n][n_stream] = weights for aq_streams_join, or NULL. Scratch: xn and gate
 * [n][row_f32], lo [n][rank]. */
void aq_streams_mix(const aq_net *, const aq_mix_w *, const float *x, uint32_t n, float *xn,
                    float *gate, float *lo, float *mix, float *inject);
/** Each stream of x gets y [n][n_embd] times its weight. */
void aq_streams_join(const aq_net *, float *x, const float *y, const float *inject, uint32_t n);

/** Adds the layer's n-gram embeddings to x [n][row_f32]. IO: the table could not be read. */
int aq_ngram_add(walk *, const aq_net_layer *, uint32_t l, float *x, aq_err *) AQ_MUST;
/** out = state `in` after n more rows [n][row_f32] and their tokens + 1 (as bits); out may be in. */
void aq_ngram_keep(const aq_model *, uint32_t back, uint32_t n, const float *rows,
                   const float *toks, const float *in, float *out);
/** Keys of the rows into the pages, then what each row sees; NULL = all. h as for the mixers; lives as long as the block's scratch. */
const uint32_t *aq_index(walk *, const aq_net_layer *, uint32_t l, const float *h);

float aq_walk_sigmoid(float);
/** x [n][dim] *= sigmoid(gate), shared. */
void aq_walk_gate(walk *, float *x, const float *gate, uint32_t n, uint32_t dim);
/** x [n][dim] += y × by, shared; y is spent. */
void aq_walk_join(walk *, float *x, float *y, float by, uint32_t n, uint32_t dim);
void aq_walk_add(float *x, const float *y, size_t n);
void aq_walk_add_bias(float *y, const float *bias, uint32_t n, uint32_t dim); /* NULL: nothing */
void aq_walk_scale(float *x, float by, size_t n);                             /* 1: nothing */

#endif
