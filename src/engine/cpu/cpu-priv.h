/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's paths: one table of kernels per instruction set (isa-*.c, each compiled with its own
 * flags), chosen at run time.
 *
 * Matrices lie in tiles of `lanes` rows, 8 or 16, as many as a vector of the path has 32-bit lanes.
 * Within a tile the rows are interleaved, so that one vector holds the same 4 columns (a quad) of
 * all rows, a broadcast quad of the input row meets it, and each lane ends as one output: no sums
 * across lanes. Rows are padded with zeros to whole tiles. A tile has as many bytes as its rows
 * had (L = lanes):
 *
 *   F32 F16 BF16  [col][row L]
 *   Q8_0          per 32 columns   [d L] f16   [quad 8][row L][4] int8
 *   Q4_0 IQ4_NL   per 32 columns   [d L] f16   [quad 4][row L][4]: low nibble column 4 quad + i,
 *                                  high nibble that + 16
 *   Q4_1          as Q4_0, with [m L] f16 after d
 *   MXFP4         as Q4_0, with [e L] bytes for d
 *   Q4_K          per 256 columns  [d L] f16   [dmin L] f16   [byte 12][row L] 6-bit scales, mins
 *                                  [group 4][quad 8][row L][4]: low nibble column
 *                                  64 group + 4 quad + i, high nibble that + 32
 *   Q5_K          as Q4_K, with [quad 8][row L][4] before the groups: bit j is bit 4 of sub-block
 *                 j's column 4 quad + i
 *   Q6_K          per 256 columns  [d L] f16   [16][row L] int8 scales
 *                                  [half 2][quad 16][row L][4] low 4 bits
 *                                  [half 2][quad 8][row L][4] high 2 bits
 *   IQ4_XS        per 256 columns  [d L] f16   [row L] 16 bits: 2 high bits of each scale
 *                                  [byte 4][row L] low nibbles of scales
 *                                  [sub-block 8][quad 4][row L][4] nibbles as in Q4_0
 *   all others    [row L] as stored: products decode a tile to Q8_0 before they use it
 *
 * An input row has one of three forms, which its layout chooses (aq_layout_in): floats; 8 bits with a
 * scale per 32 columns, for types whose blocks have 32; 8 bits with a scale per 256 columns, for those
 * whose blocks have 256. Their kernels sum a block of 256 columns exactly, in 32 bits: with the integer
 * scales of its sub-blocks, I = Σ_j scale_j Σ w q, and for Q4_K and Q5_K M = Σ_j min_j Σ q. Then comes
 * the one float step of the block:
 *
 *   acc = acc + I × (d × the row's d)   and with mins   acc = acc - M × (dmin × the row's d)
 *
 * in this order and with one rounding each where a path has fused multiplications. No sum can overflow,
 * whatever a file says: |q| <= 127, and
 *
 *   Q4_K    I  63 × 15 × 127 × 256 = 30.7e6    M  63 × 127 × 256 = 2.0e6
 *   Q5_K    I  63 × 31 × 127 × 256 = 63.5e6    M  the same
 *   Q6_K    I  128 × 32 × 127 × 256 = 133e6; with w from 0 to 63, before 32 Σ scale Σ q is taken off,
 *              128 × 63 × 127 × 256 = 262e6
 *   IQ4_XS  I  32 × 127 × 127 × 256 = 132e6
 *
 * Row-invariance: a tile kernel computes each input row by itself; its float sums run over the
 * column blocks in ascending order, in a number of chains that the path and the type fix. How many
 * rows are computed together changes no bit of any of them. */
#ifndef AQ_CPU_PRIV_H
#define AQ_CPU_PRIV_H

#include "aq/engine.h"

#define AQ_LANES_MAX 16u /* weight rows of a tile */
#define AQ_TILE_ROWS 8u  /* input rows that a tile kernel takes at most */
#define AQ_MANY_ROWS 64u /* and those that an aq_many_fn takes, a multiple of 16 */
#define AQ_MANY_MIN 8u   /* from here on it pays */
#define AQ_KV_TYPES 3u   /* AQ_KV_F16 … */
#define AQ_ATTN_TOK 64u  /* KV entries between two looks at the running maximum */

/* The layouts that kernels know, in the order of their tables. */
enum {
    AQ_L_F32,
    AQ_L_F16,
    AQ_L_BF16,
    AQ_L_Q8_0,
    AQ_L_Q4_0,
    AQ_L_Q4_1,
    AQ_L_Q4_K,
    AQ_L_Q5_K,
    AQ_L_Q6_K,
    AQ_L_IQ4_NL,
    AQ_L_IQ4_XS,
    AQ_L_MXFP4,
    AQ_L_N
};
#define AQ_L_STORED 1024 /* + storage type: rows that lie as stored, for types without kernels */

/* The forms of an input row. */
enum {
    AQ_IN_F32,
    AQ_IN_32,  /* 8 bits, a scale per 32 columns: aq_isa.quant */
    AQ_IN_256, /* 8 bits, a scale per 256 columns: aq_isa.quant_256 */
    AQ_IN_N
};

/** One input row in the form that the layout takes; what other forms have is not there. */
typedef struct aq_row_in {
    const float *x;       /* [k] AQ_IN_F32 */
    const int8_t *q;      /* [k] x ≈ d q with |q| <= 127 */
    const float *d;       /* [k / 32] or [k / 256] scales */
    const float *s;       /* AQ_IN_32: [k / 32] d times the sum of q */
    const int32_t *n32;   /* AQ_IN_32: [k / 32] minus 128 times the sum of q */
    const int16_t *sum16; /* AQ_IN_256: [k / 16] sums of q over 16 columns */
    const int16_t *sum32; /* AQ_IN_256: [k / 32] and over 32 */
} aq_row_in;

/** y[i][0 … lanes-1] = the rows of a tile · row i, for n <= the path's `rows`. k is a multiple of the
 * type's block. */
typedef void (*aq_tile_fn)(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                           float (*y)[AQ_LANES_MAX]);

/** Up to AQ_MANY_ROWS rows of one 8-bit form, side by side. All of it is there for a multiple of 16 rows:
 * what follows the last may be read, and is nothing. */
typedef struct aq_rows_in {
    const aq_row_in *row; /* one by one */
    const int8_t *q;      /* [row][wide] */
    size_t wide;
    const float (*d)[AQ_MANY_ROWS]; /* [k / 32 or k / 256][row] as in aq_row_in */
    const float (*s)[AQ_MANY_ROWS]; /* AQ_IN_32: [k / 32][row] */
} aq_rows_in;

/** The same bits as a tile kernel's, for n <= AQ_MANY_ROWS; y has room for a multiple of 16 rows. */
typedef void (*aq_many_fn)(const uint8_t *tile, uint32_t k, const aq_rows_in *, uint32_t n,
                           float (*y)[AQ_LANES_MAX]);

/** Where a path writes a row's 8-bit form; fields and lengths as in aq_row_in. */
typedef struct aq_row_q {
    int8_t *q;
    float *d, *s;
    int32_t *n32;
    int16_t *sum16, *sum32;
} aq_row_q;

/** KV entries of one head as they lie in a page. */
typedef struct aq_entries {
    const uint8_t *p;
    size_t step;          /* bytes from one to the next */
    const uint8_t *ahead; /* what will be read next: asked of memory meanwhile, ahead_step bytes */
    size_t ahead_step;    /* for each entry; NULL = nothing */
} aq_entries;

/** Kernels of one instruction set. Bits may differ between paths; within a path a row's bits depend
 * on that row alone. */
typedef struct aq_isa {
    const char *name;
    uint32_t lanes, rows; /* weight rows of a tile; input rows that a tile kernel takes at most */
    aq_tile_fn tile[AQ_L_N];
    aq_many_fn many[AQ_L_N]; /* NULL where a path has nothing better than tile */
    /* many for a tile and the one behind it: y[i] has the lanes of both. NULL = one by one */
    aq_many_fn pair[AQ_L_N];
    /** Round x [k] to 8 bits per block of 32 (k a multiple of 32), or of 256 (k a multiple of that). A
     * block of zeros gets d = 0. Both have the same bits on all paths. */
    void (*quant)(const float *x, uint32_t k, const aq_row_q *);
    void (*quant_256)(const float *x, uint32_t k, const aq_row_q *);
    void (*norm)(const float *x, const float *w, uint32_t dim, float eps,
                 float *y); /* one row; x == y allowed */
    void (*swiglu)(const float *gate, const float *up, size_t n, float *y); /* y may be gate */
    void (*to_f16)(const float *x, size_t n, uint16_t *y); /* round to nearest even */
    void (*from_f16)(const uint16_t *x, size_t n, float *y);
    /** Scores of m query heads: s[i][t] = scale × (q[i] · k_t) for t < n_tok, and the largest of each
     * in top; k [n_tok][d]. */
    void (*scores)(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                   float scale, float (*s)[AQ_ATTN_TOK], float *top);
    /** s[t] = exp(s[t] - max); returns their sum. */
    float (*exps)(float *s, uint32_t n, float max);
    /** o[i] [d] = c[i] × o[i] + Σ p[i][t] v_t; v [n_tok][d]. */
    void (*mix)(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                uint32_t d, const float *c, float *const *o);
    /** scores and mix on entries as they lie in a page, by AQ_KV_*: the same bits, for few heads
     * faster. NULL = not on this path. */
    void (*scores_kv[AQ_KV_TYPES])(const float *const *q, uint32_t m, const aq_entries *,
                                   uint32_t n_tok, uint32_t d, float scale, float (*s)[AQ_ATTN_TOK],
                                   float *top);
    void (*mix_kv[AQ_KV_TYPES])(const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *,
                                uint32_t n_tok, uint32_t d, const float *c, float *const *o);
    void (*from_q8)(const uint8_t *p, uint32_t d, float *y); /* aq_kv_q8_get, or NULL */
    /** One step of one head of a delta net of d × d, both sums in f32: for each value column j,
     * S_j ← e S_j; r = beta (v_j - S_j · k); S_j ← S_j + r k; o_j = S_j · q. s_in may be s_out. */
    void (*delta)(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                  const float *s_in, float *s_out, float *o);
    /** act(gate, up) of gpt-oss: gate and up clamped, gate × sigmoid(1.702 gate) × (up + 1). */
    void (*oai)(const float *gate, const float *up, size_t n, float *y);
} aq_isa;
/** The table of a path, NULL when this build or this CPU does not have it. name NULL = the best. */
const aq_isa *aq_isa_find(const char *name);
extern const aq_isa aq_isa_c, aq_isa_avx2, aq_isa_avx2_vnni, aq_isa_avx512, aq_isa_amx, aq_isa_neon;
/* "c" with tiles of 16 rows and a plain form of `many`: the twin of such paths, for tests. */
extern const aq_isa aq_isa_c16;

/* ---- pack.c ---- */

/** AQ_L_* of a storage type, AQ_L_STORED + type when no kernel knows it, -1 when it cannot be decoded. */
int aq_layout_of(uint32_t type_id);
/** The products take input rows as floats. */
bool aq_layout_is_float(int layout);
/** AQ_IN_*: the form of input rows that the layout's kernels take; of layouts without any, that of Q8_0,
 * which their tiles become. */
int aq_layout_in(int layout);
/** Bytes of one tile of k columns; k is a multiple of the type's block. */
size_t aq_tile_bytes(int layout, uint32_t lanes, uint32_t k);
/** Put row r (below lanes) as stored into a zeroed tile. */
void aq_tile_put(int layout, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *src,
                 uint8_t *tile);
/** The values of row r of a tile, exactly as its type says: y[0], y[step], … */
void aq_tile_get(int layout, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *tile, float *y,
                 size_t step);
/** Row r of a tile of rows as stored, rounded to 8 bits per 32 columns, into a tile of Q8_0. */
void aq_tile_to_q8_0(int layout, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *tile,
                     uint8_t *to);

#endif
