/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's paths: one table of kernels per instruction set (isa-*.c, each compiled with its own
 * flags), chosen at run time.
 *
 * Matrices lie in tiles of 8 rows. Within a tile the 8 rows are interleaved, so that one vector
 * holds the same 4 columns (a quad) of all 8 rows, a broadcast quad of the input row meets it, and
 * each lane ends as one output: no sums across lanes. Rows are padded with zeros to a multiple of
 * 8. A tile has as many bytes as its 8 rows had:
 *
 *   F32 F16 BF16  [col][row 8]
 *   Q8_0          per 32 columns   [d 8] f16   [quad 8][row 8][4] int8
 *   Q4_1          per 32 columns   [d 8] f16   [m 8] f16   [quad 4][row 8][4]: low nibble column
 *                                  4 quad + i, high nibble that + 16
 *   Q4_K          per 256 columns  [d 8] f16   [dmin 8] f16   [byte 12][row 8] 6-bit scales, mins
 *                                  [group 4][quad 8][row 8][4]: low nibble column
 *                                  64 group + 4 quad + i, high nibble that + 32
 *   Q5_K          as Q4_K, with [quad 8][row 8][4] before the groups: bit j is bit 4 of sub-block
 *                 j's column 4 quad + i
 *   Q6_K          per 256 columns  [d 8] f16   [16][row 8] int8 scales
 *                                  [half 2][quad 16][row 8][4] low 4 bits
 *                                  [half 2][quad 8][row 8][4] high 2 bits
 *   all others    [row 8] as stored: products decode a tile to F32 before they use it
 *
 * Row-invariance: a tile kernel computes each input row by itself; its float sums run over the
 * column blocks in ascending order, in a number of chains that the path and the type fix. How many
 * rows are computed together changes no bit of any of them. */
#ifndef AQ_CPU_PRIV_H
#define AQ_CPU_PRIV_H

#include "aq/engine.h"

#define AQ_TILE 8u      /* weight rows of a tile */
#define AQ_TILE_ROWS 4u /* input rows that a tile kernel takes at most */
#define AQ_ATTN_TOK 64u /* KV entries between two looks at the running maximum */

/* The layouts that kernels know, in the order of their tables. */
enum {
    AQ_L_F32,
    AQ_L_F16,
    AQ_L_BF16,
    AQ_L_Q8_0,
    AQ_L_Q4_1,
    AQ_L_Q4_K,
    AQ_L_Q5_K,
    AQ_L_Q6_K,
    AQ_L_N
};
#define AQ_L_STORED 1024 /* + storage type: rows that lie as stored, for types without kernels */

/** One input row. F32, F16 and BF16 layouts read x, the quantised ones the rest (aq_isa.quant). */
typedef struct aq_row_in {
    const float *x;     /* [k] */
    const int8_t *q;    /* [k], x ≈ d q with |q| <= 127, d per 32 columns */
    const float *d, *s; /* [k / 32] scale; d times the sum of q */
    const int16_t *s16; /* [k / 16] 16 times the sum of q over 16 columns */
} aq_row_in;

/** y[i][0 … 7] = 8 rows of a tile · row i, for n <= AQ_TILE_ROWS rows. k is a multiple of the type's
 * block. */
typedef void (*aq_tile_fn)(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                           float (*y)[AQ_TILE]);

/** Kernels of one instruction set. Bits may differ between paths; within a path a row's bits depend
 * on that row alone. */
typedef struct aq_isa {
    const char *name;
    aq_tile_fn tile[AQ_L_N];
    /** Round x [k] (k a multiple of 32) to 8 bits per block of 32. A block of zeros gets d = 0. */
    void (*quant)(const float *x, uint32_t k, int8_t *q, float *d, float *s, int16_t *s16);
    void (*norm)(const float *x, const float *w, uint32_t dim, float eps,
                 float *y); /* one row; x == y allowed */
    void (*swiglu)(const float *gate, const float *up, size_t n, float *y); /* y may be gate */
    void (*to_f16)(const float *x, size_t n, uint16_t *y); /* round to nearest even */
    /** Scores of one query head: s[t] = scale × (q · k_t) for t < n_tok; k [n_tok][d], f16 or f32. */
    void (*scores)(const float *q, const void *k, bool f16, uint32_t n_tok, uint32_t d, float scale,
                   float *s);
    /** s[t] = exp(s[t] - max); returns their sum. */
    float (*exps)(float *s, uint32_t n, float max);
    /** o [d] = c × o + Σ p[t] v_t; v [n_tok][d], f16 or f32. */
    void (*mix)(const float *p, const void *v, bool f16, uint32_t n_tok, uint32_t d, float c,
                float *o);
} aq_isa;
/** The table of a path, NULL when this build or this CPU does not have it. name NULL = the best. */
const aq_isa *aq_isa_find(const char *name);
extern const aq_isa aq_isa_c, aq_isa_avx2;

/* ---- pack.c ---- */

/** AQ_L_* of a storage type, AQ_L_STORED + type when no kernel knows it, -1 when it cannot be decoded. */
int aq_layout_of(uint32_t type_id);
/** The products take input rows as floats. */
bool aq_layout_is_float(int layout);
/** Bytes of one tile of k columns; k is a multiple of the type's block. */
size_t aq_tile_bytes(int layout, uint32_t k);
/** Put row r (0 … 7) as stored into a zeroed tile. */
void aq_tile_put(int layout, uint32_t k, uint32_t r, const uint8_t *src, uint8_t *tile);
/** The values of row r of a tile, exactly as its type says: y[0], y[step], … */
void aq_tile_get(int layout, uint32_t k, uint32_t r, const uint8_t *tile, float *y, size_t step);

#endif
