/* SPDX-License-Identifier: Apache-2.0 */
/* What the backends that compute in host memory share: a walk over the descriptor table that calls a backend's operations.
 *
 *   aq_blocks    the blocks of a backend, a const table: matrices in its own layout, products, attention, experts
 *   aq_net     loaded weights of layers [l0, l1), of the ends and of the draft layer          (forward.c, net.c)
 *   aq_state   KV pages, recurrent store and scratch of one stage                              (forward.c over state/store.c)
 *   aq_route   top-k router                                                                    (route.c)
 *   aq_scalar_*    scalar f32 operations; a table may point at them where it has nothing better    (scalar.c)
 *
 * A backend is its aq_blocks and a load function of one line; AQ_NET_BACKEND fills in the rest.
 *
 * Row-invariance: every operation computes a row from that row, its position and its seq's state alone, with one order of additions
 * whatever n is, so that windows may be cut anywhere and threads may share the rows in any way. The walk itself only groups rows.
 * Threads: the stage's; operations may use the runtime's pool inside. */
#ifndef AQ_FORWARD_PRIV_H
#define AQ_FORWARD_PRIV_H

#include "backend-priv.h"
#include "model-priv.h"
#include "state-priv.h"

/* ---- matrices ------------------------------------------------------------------------------------------------------ */

/** n_mat matrices of `rows` rows of `cols` values: y = W x. Layout of data is the backend's. data NULL = not there. */
typedef struct aq_mat {
    const aq_type *type; /* as stored */
    uint32_t rows, cols;
    bool fine; /* what it makes decides over experts: inputs are rounded to 16 bits at least */
    uint32_t e0, n_mat; /* a stack holds experts [e0, e0 + n_mat); a single matrix: 0, 1 */
    const float *fac;   /* [n_mat] factors of results, NULL = 1 */
    size_t bytes;       /* held by data */
    void *data;
    void *aux; /* the backend's */
} aq_mat;
typedef struct aq_mat_src { /* what mat_load gets: matrices e0 .. e0 + n_mat of one tensor */
    const aq_wsrc *src;
    const aq_tensor *t;
    uint32_t tensor; /* index of t */
    uint32_t rows, cols, e0, n_mat;
    uint32_t row0, t_rows; /* of each matrix: rows [row0, row0 + rows) of the tensor's t_rows */
    aq_progress *progress; /* may be NULL */
} aq_mat_src;
/** Read n bytes at off of the tensor in slices, counting progress and looking at its cancel. IO, CANCELLED. */
int aq_mat_read(const aq_mat_src *, uint64_t off, void *dst, size_t n, aq_err *) AQ_MUST;

/** Where row r of matrix e of the stack lies in the tensor, in rows. */
static inline uint64_t aq_mat_src_row(const aq_mat_src *s, uint32_t e, uint32_t r)
{
    return ((uint64_t)s->e0 + e) * s->t_rows + s->row0 + r;
}

/** One product: y [n][m->rows] = x [n][m->cols] Wᵀ, W being matrix `mat` of m's stack. */
typedef struct aq_mul {
    const aq_mat *m;
    float *y;
    uint32_t mat;
} aq_mul;

/** Experts of a layer. Biases [n_exp][rows of the matrix], by id in the model, or NULL. */
typedef struct aq_experts {
    const aq_mat *gate, *up, *down;
    const float *gate_bias, *up_bias, *down_bias;
    int act; /* AQ_ACT_* */
} aq_experts;

/* ---- KV ------------------------------------------------------------------------------------------------------------ */

/** KV of one layer. A page holds K [n_kv][AQ_PAGE_TOK][d_k], then V [n_kv][AQ_PAGE_TOK][d_v]; values are f32, f16, or
 * blocks of 32 with a scale (q8_0: f16, then 32 int8; a row's last block may be padded).
 * Of a latent layer K is V too (d_v = d_k, v_off = 0). With an indexer there follow raw keys [AQ_PAGE_TOK][d_idx], f32 or f16, and
 * the keys of whole blocks [AQ_PAGE_TOK / idx_block][d_idx] f32. */
typedef struct aq_kv {
    uint32_t type; /* AQ_KV_* */
    uint32_t n_kv, d_k, d_v;
    uint32_t k_bytes, v_bytes; /* of one head's entry */
    size_t page_bytes, v_off, raw_off, block_off;
    uint32_t d_idx;
    uint8_t *base; /* [n_page][page_bytes], 64-byte aligned */
    bool borrowed; /* base is another layer's */
    bool idx_f32;
} aq_kv;
static inline void *aq_kv_k(const aq_kv *kv, uint32_t page, uint32_t head, uint32_t tok)
{
    return kv->base + page * kv->page_bytes + ((size_t)head * AQ_PAGE_TOK + tok) * kv->k_bytes;
}
static inline void *aq_kv_v(const aq_kv *kv, uint32_t page, uint32_t head, uint32_t tok)
{
    return kv->base + page * kv->page_bytes + kv->v_off +
           ((size_t)head * AQ_PAGE_TOK + tok) * kv->v_bytes;
}

static inline void *aq_kv_raw(const aq_kv *kv, uint32_t page, uint32_t tok)
{
    return kv->base + page * kv->page_bytes + kv->raw_off +
           (size_t)tok * kv->d_idx * (kv->idx_f32 ? 4 : 2);
}
static inline float *aq_kv_block(const aq_kv *kv, uint32_t page, uint32_t block) /* in the page */
{
    return (float *)(kv->base + page * kv->page_bytes + kv->block_off) + (size_t)block * kv->d_idx;
}

/* What a row of sparse attention sees: [0] = blocks chosen, then their numbers ascending, then as much scratch. */
#define AQ_SEEN_ALL 0xffffffffu
static inline uint32_t aq_sel_u32(const aq_layer *d)
{
    return 2 * d->idx_top + 1;
}

/** The entries that a row sees, range by range: none crosses a multiple of AQ_SEEN_TOK (nor a page's end), and how they are cut
 * depends on the row's place and choice alone. */
#define AQ_SEEN_TOK 64u
typedef struct aq_seen {
    const uint32_t *id; /* [n] blocks */
    uint32_t n, i, block, at, end;
} aq_seen;
/** Entries [first, end), or with sel the blocks in it and those behind the last whole block before end. */
static inline aq_seen aq_seen_begin(const aq_layer *d, const uint32_t *sel, uint32_t first,
                                    uint32_t end)
{
    if (!sel || sel[0] == AQ_SEEN_ALL)
        return (aq_seen){.at = first, .end = end};
    return (aq_seen){.id = sel + 1,
                     .n = sel[0],
                     .block = d->idx_block,
                     .at = end / d->idx_block * d->idx_block,
                     .end = end};
}
/** Length of the next range, which begins at *ret; 0 = that was all. */
static inline uint32_t aq_seen_next(aq_seen *s, uint32_t *ret)
{
    uint32_t n = 0;
    if (s->i == s->n) {
        *ret = s->at;
        n = AQ_MIN(s->end, (s->at / AQ_SEEN_TOK + 1) * AQ_SEEN_TOK) - s->at;
        s->at += n;
        return n;
    }
    *ret = s->id[s->i] * s->block;
    do
        n += s->block;
    while (++s->i < s->n && s->id[s->i] * s->block == *ret + n && (*ret + n) % AQ_SEEN_TOK);
    return n;
}

/** The rows of one seq in a window: rows [row0, row0 + n), whose KV entries are [kv0, kv0 + n) of the seq. Entry i lies in page
 * page[i / AQ_PAGE_TOK] at i % AQ_PAGE_TOK; row row0 + j sees entries 0 .. kv0 + j (the last `window` of them if that is not 0). */
typedef struct aq_run {
    uint32_t seq, row0, n, kv0;
    const uint32_t *page;
} aq_run;

/* ---- operations ------------------------------------------------------------------------------------------------------ */

/** Inputs and state of one delta-net run: rows of one seq, in order. s_in [n_vh][d][d] is read by the first row and written by none
 * (it stays as the state before the window); s_out receives the state after the last row; it may equal s_in.
 * S of a head is stored by value column: s[j * d + i] belongs to k index i and v index j. */
typedef struct aq_delta {
    const aq_layer *d;
    uint32_t n;
    const float *q, *k,
        *v; /* [n] rows of `stride` floats: heads [n_kh][d], [n_kh][d], [n_vh][d]; q and k L2-normalised, q × 1/√d */
    size_t stride;
    const float *decay; /* [n][n_vh] g; the state is scaled by e^g */
    const float *beta;  /* [n][n_vh] */
    const float *s_in;
    float *s_out;
    float *o; /* [n][n_vh][d] */
} aq_delta;

typedef struct aq_blocks {
    const char *name;
    /* A context per net: pool, scratch, chosen path. */
    int (*open)(aq_rt *, const aq_model *, void **ret_ctx, aq_err *);
    /** Make scratch for windows of up to max_rows rows; called before any operation, again with more. NOMEM. May be NULL. */
    int (*reserve)(void *ctx, uint32_t max_rows, aq_err *);
    void (*close)(void *ctx);
    /* Matrices. mat_load fills data, aux and bytes (the rest is set). NOMEM, IO, CANCELLED, UNSUPPORTED (type named). */
    int (*mat_load)(void *ctx, const aq_mat_src *, aq_mat *, aq_err *);
    void (*mat_drop)(void *ctx, aq_mat *);
    void (*mat_row)(void *ctx, const aq_mat *, uint32_t row,
                    float *y); /* y [cols], dequantised: embeddings */
    /** Several products of the same rows, so that they are prepared (quantised, packed) once. All have the same cols. */
    void (*matmul)(void *ctx, const aq_mul *, uint32_t n_mul, const float *x, uint32_t n);
    /** job->y [n_rows][k][n_embd] = w × down(act(gate x, up x)), each with its bias, for each slot whose expert is ≥ 0 (always within
     * the stacks); other slots stay untouched. job->parts is 1: the walk adds the slots in order. */
    void (*experts)(void *ctx, const aq_experts *, const aq_expert_job *job);
    /** y[i] = x[i] / RMS(x[i]) ⊙ w for n rows of dim; x == y allowed. Heads are rows of dim d. */
    void (*norm)(void *ctx, const float *x, const float *w, uint32_t n, uint32_t dim, float eps,
                 float *y);
    /** Rotate n rows of n_head heads of d values, the first d_rot of each. cs [n][d_rot / 2][2] = cos, sin. kind AQ_ROPE_*. */
    void (*rope)(void *ctx, float *x, uint32_t n, uint32_t n_head, uint32_t d, uint32_t d_rot,
                 int kind, const float *cs);
    /** Write k [n_rows][n_kv][d_k] and, unless NULL, v [n_rows][n_kv][d_v] into the pages of the runs (f16: round to nearest even). */
    void (*kv_put)(void *ctx, const aq_kv *, const aq_run *, uint32_t n_run, const float *k,
                   const float *v);
    /** out [n_rows][n_head][d_v] = softmax(q · K × score_scale) V; head h reads KV head h / (n_head / n_kv). sinks [n_head] or NULL.
     * sel [n_rows][aq_sel_u32]: what each row sees, or NULL: all. */
    void (*attend)(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                   const float *q, const float *sinks, const uint32_t *sel, float *out);
    /** What each row of a layer with an indexer sees: q [n_rows][n_idx][d_idx], sel [n_rows][aq_sel_u32]. */
    void (*choose)(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                   const float *q, uint32_t *sel);
    void (*glu)(void *ctx, int act, const float *gate, const float *up, size_t n,
                float *y);                      /* y = act(gate, up); y may be gate or up */
    void (*delta)(void *ctx, const aq_delta *); /* the step form, row by row, for any n */
    /** fn(arg, 0 … n-1, …) on the backend's threads, in any order. NULL = it has none. */
    void (*share)(void *ctx, void (*fn)(void *arg, uint32_t i, uint32_t worker), void *arg,
                  uint32_t n);
} aq_blocks;

/** Rows [r0, r1) of a loop of the walk. */
typedef void (*aq_rows_fn)(void *arg, uint32_t r0, uint32_t r1);
/** All n rows, shared by the backend's threads when there are enough of them; ops: what a row costs, in additions or so. */
void aq_rows_share(const aq_blocks *, void *ctx, aq_rows_fn, void *arg, uint32_t n, size_t ops);

/* Scalar operations, double accumulators, any host. ctx is not looked at. */
void aq_scalar_norm(void *ctx, const float *x, const float *w, uint32_t n, uint32_t dim, float eps,
                    float *y);
void aq_scalar_rope(void *ctx, float *x, uint32_t n, uint32_t n_head, uint32_t d, uint32_t d_rot,
                    int kind, const float *cs);
/** q8_0 rows of KV: n values in aq_kv_row_bytes(AQ_KV_Q8_0, n). Rounded to nearest, halves away from zero; what is no number stays none. */
void aq_kv_q8_put(const float *x, uint32_t n, uint8_t *ret);
void aq_kv_q8_get(const uint8_t *p, uint32_t n, float *ret);
void aq_scalar_kv_put(void *ctx, const aq_kv *, const aq_run *, uint32_t n_run, const float *k,
                      const float *v);
void aq_scalar_attend(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                      const float *q, const float *sinks, const uint32_t *sel, float *out);
void aq_scalar_choose(void *ctx, const aq_layer *, const aq_kv *, const aq_run *, uint32_t n_run,
                      const float *q, uint32_t *sel);
/** dot [t] = q · k_t for t < n, k [n][d]. */
typedef void (*aq_dots_fn)(void *ctx, const float *q, const float *k, uint32_t n, uint32_t d,
                           float *dot);
/** One row's choice among the first n_block blocks (index.c): q [n_idx][d_idx], sel [aq_sel_u32]. */
void aq_choose_row(const aq_layer *, const aq_kv *, const uint32_t *page, uint32_t n_block,
                   const float *q, aq_dots_fn, void *ctx, uint32_t *sel);
void aq_scalar_glu(void *ctx, int act, const float *gate, const float *up, size_t n, float *y);
void aq_scalar_delta(void *ctx, const aq_delta *);

/** A delta-net block's inner part for rows of one seq: convolution over q|k|v with its history, SiLU, L2 norms, and the recurrence.
 * Used by windows and by rewind, so that both give the same bits. qkv [n][C] before the convolution (C = 2 n_kh d + n_vh d);
 * tail [conv_k - 1][C] are the rows before; s as in aq_delta. *_out may equal *_in. tmp [n][C]; o [n][n_vh][d]. */
struct aq_net_layer;
void aq_delta_run(const aq_blocks *, void *ctx, const struct aq_net_layer *, uint32_t n,
                  const float *qkv, const float *decay, const float *beta, const float *tail_in,
                  float *tail_out, const float *s_in, float *s_out, float eps, float *tmp,
                  float *o);
static inline uint32_t aq_delta_width(const aq_layer *d) /* C */
{
    return (2 * d->n_kh + d->n_vh) * d->d_state;
}

/* ---- router ------------------------------------------------------------------------------------------------------------ */

/** Choose d->n_used experts of each row by its scores: expert, w [n][n_used], best first, ties to the lower id. Scores by
 * d->exp_gate; bias [n_exp] (or NULL) is added for choosing only; with groups, experts outside the best d->n_group_used groups are
 * not chosen. Weights are renormalised over the chosen when d->exp_renorm, times d->exp_scale. logits [n][n_exp]. */
void aq_route(const aq_layer *d, const float *logits, const float *bias, uint32_t n,
              int32_t *expert, float *w);

/* ---- weights ------------------------------------------------------------------------------------------------------------- */

typedef struct aq_net_layer {
    const aq_layer *d;
    aq_mat m[AQ_W_N];     /* matrices by role */
    float *v[AQ_W_N];     /* vectors, convolution by role, f32; NULL = absent */
    uint32_t n_v[AQ_W_N]; /* their values */
    float *fac[AQ_W_N];   /* aq_mat.fac of all matrices of a stack */
} aq_net_layer;
/** What results of matrix `mat` are multiplied by. */
static inline float aq_mat_fac(const aq_mat *m, uint32_t mat)
{
    return m->fac ? m->fac[mat] : 1;
}
static inline aq_experts aq_net_layer_experts(const aq_net_layer *l)
{
    return (aq_experts){.gate = &l->m[AQ_W_EXP_GATE],
                        .up = &l->m[AQ_W_EXP_UP],
                        .down = &l->m[AQ_W_EXP_DOWN],
                        .gate_bias = l->v[AQ_W_EXP_GATE_BIAS],
                        .up_bias = l->v[AQ_W_EXP_UP_BIAS],
                        .down_bias = l->v[AQ_W_EXP_DOWN_BIAS],
                        .act = l->d->act};
}
typedef struct aq_net {
    aq_rt *rt;
    const aq_model *model;
    const aq_blocks *blocks;
    void *ctx;
    uint32_t l0, l1, flags;
    aq_net_layer *layer; /* [l1 - l0], layer l at l - l0 */
    aq_net_layer *draft; /* the draft layer, NULL without */
    bool tied;
    aq_mat embd, out; /* with the ends; out is a copy of embd when tied */
    aq_mat ple_embd,
        ple_proj; /* per-layer embeddings, with the layers; embd is then here as well */
    float *ple_norm;
    float *out_norm, *rope_freqs, *out_fac;
    float *hc_norm; /* the last mix of streams, with the ends */
    aq_mat hc_down, hc_up;
    aq_wsrc src;        /* where rows of the n-gram table come from */
    uint8_t *ngram_row; /* one of them as stored */
    float *ones;        /* [n_embd or the widest head]: the weight of norms without one */
    uint32_t n_rope_freqs;
    uint64_t bytes; /* of all weights held */
} aq_net;

/** Internal to place->flags: of the layers only the routed experts (an expert host). */
#define AQ_PLACE_EXPERTS 0x80000000u
/** Bytes that load will read, for progress->total. */
uint64_t aq_net_load_bytes(const aq_model *, const aq_place *, uint32_t l0, uint32_t l1);
int aq_net_load(const aq_blocks *, aq_rt *, const aq_model *, const aq_wsrc *, const aq_place *,
                uint32_t l0, uint32_t l1, aq_progress *, void **ret_w, aq_err *);

/* The rest of aq_backend; contracts there. */
int aq_net_state(void *w, const aq_state_cfg *, void **ret_s, aq_err *);
int aq_net_apply(void *s, const aq_op *, uint32_t n, aq_err *);
int aq_net_forward(void *w, void *s, const aq_window *, const aq_expert_host *const *hosts,
                   uint32_t n_hosts, float *x_out, const atomic_uint *stop, aq_err *);
int aq_net_embed(void *w, const aq_row *, uint32_t n, float *x, aq_err *);
int aq_net_head(void *w, const float *x, uint32_t n, float *logits, float *hidden, aq_err *);
int aq_net_draft(void *w, void *s, const aq_window *, float *logits, float *hidden,
                 const atomic_uint *stop, aq_err *);
int aq_net_state_io(void *s, bool load, uint32_t seq, uint32_t n_tok, const uint64_t *snap,
                    const uint32_t *snap_tok, uint32_t n_snap, aq_state_io_fn io, void *user,
                    aq_err *err);
uint32_t aq_net_draft_len(const void *s, uint32_t seq);
int aq_net_host(void *w, aq_expert_host *ret, aq_err *);
int aq_net_sync(void *w, aq_err *);
void aq_net_drop_state(void *s);
void aq_net_drop(void *w);
uint64_t aq_net_bytes(const void *w, const void *s);

/* ---- experts (expert/dispatch.c) ---- */

/** parts [n][k][n_embd]: the weighted experts of each row, by the net's own (n_hosts 0) or by the hosts, each slot by the first host
 * that has it resident; a host that is GONE is left out and its slots go to the next. INVAL when nobody holds an expert. */
int aq_experts_run(aq_net *, uint32_t layer, const aq_expert_host *const *hosts, uint32_t n_hosts,
                   uint32_t n, const float *x, const int32_t *expert, const float *w, float *parts,
                   aq_err *) AQ_MUST;
/** y [n][dim] = the k parts of each row, added in slot order. expert may be NULL; slots with expert < 0 are left out. */
void aq_parts_add(const float *parts, const int32_t *expert, uint32_t n, uint32_t k, uint32_t dim,
                  float *y);

/** const aq_backend aq_backend_x = AQ_NET_BACKEND("x", x_load, &x_blocks); x_load calls aq_net_load(&x_blocks, …). */
#define AQ_NET_BACKEND(name_, load_, blocks_) \
    {                                         \
        .abi = AQ_BACKEND_ABI,                \
        .size = sizeof(aq_backend),           \
        .hash = "built-in",                   \
        .name = name_,                        \
        .load = load_,                        \
        .state = aq_net_state,                \
        .apply = aq_net_apply,                \
        .forward = aq_net_forward,            \
        .embed = aq_net_embed,                \
        .head = aq_net_head,                  \
        .draft = aq_net_draft,                \
        .draft_len = aq_net_draft_len,        \
        .state_io = aq_net_state_io,          \
        .host = aq_net_host,                  \
        .sync = aq_net_sync,                  \
        .drop_state = aq_net_drop_state,      \
        .drop = aq_net_drop,                  \
        .bytes = aq_net_bytes,                \
        .blocks = blocks_,                    \
    }

#endif
