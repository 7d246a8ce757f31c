/* SPDX-License-Identifier: Apache-2.0 */
/* The path "amx": that of isa-avx512.c, and for many input rows products by AMX's int8 tiles; here those
 * of types with blocks of 32 columns. Sums of integers are exact and the float steps are those of
 * tiles-vnni.h in their order, so that a row has the same bits in both. Compiled with AVX-512 flags; only
 * after CPUID has said so and the system has granted the tile registers. Any thread.
 *
 * A weight tile's 256 columns are made signed bytes once for all rows: [quad][weight row 16][4], which
 * is just what the instruction wants of its second operand. Its first are 16 input rows as they lie.
 * The result, [input row 16][weight row 16] sums of 32 columns, goes through memory to the float step. */
#define AQ_V 16
#include "isa-amx-priv.h"
#include "vec-priv.h"

#define ROWS 16u /* of a tile register */
#define BLOCK 256u
#define SUBS 8u /* sums of 32 columns in a block */

#define EACH16(i) _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++)

/* tmm0: results; 4: input rows; 6: weights. */
static const aq_tile_config config = {
    1, 0, {0}, {64, 64, 64, 64, 32, 32, 64, 64}, {16, 16, 16, 16, 16, 16, 8, 8}};

/* A block of a weight tile. */
typedef struct weights {
    vi quad[BLOCK / 4];
    vf scale[SUBS];
    vf min[SUBS]; /* times the sum of the inputs; not in all types */
} weights;

/* ---- weights to signed bytes ---- */

INLINE void unpack_q8_0(const uint8_t *tile, uint32_t n_sub, weights *o)
{
    for (uint32_t j = 0; j < n_sub; j++, tile += 34 * LANES) {
        o->scale[j] = V_LOAD_F16(tile);
        EACH (i, 8)
            o->quad[8 * j + (uint32_t)i] = V_LOAD(tile + 2 * LANES + QUAD * (uint32_t)i);
    }
}

/* Nibbles of 32 columns, as they are or through a table. */
INLINE void unpack_nibbles(const uint8_t *quads, const vi *table, vi *ret)
{
    const vi low = V_SET8(15);
    EACH (i, 4) {
        vi w = V_LOAD(quads + QUAD * (uint32_t)i), lo = V_AND(w, low), hi = V_AND(V_SRL(w, 4), low);
        ret[i] = table ? V_SHUFFLE8(*table, lo) : lo;
        ret[i + 4] = table ? V_SHUFFLE8(*table, hi) : hi;
    }
}

INLINE void unpack_4(const bool min, const uint8_t *tile, uint32_t n_sub, weights *o)
{
    const uint32_t quads = min ? 4 * LANES : 2 * LANES;
    for (uint32_t j = 0; j < n_sub; j++, tile += quads + 4 * QUAD) {
        vf d = V_LOAD_F16(tile);
        o->scale[j] = d;
        o->min[j] = min ? V_LOAD_F16(tile + 2 * LANES) : V_MUL_PS(d, V_SET_PS(-8));
        unpack_nibbles(tile + quads, NULL, o->quad + 8 * j);
    }
}

INLINE void unpack_values(const bool e8m0, const int8_t *value, const uint8_t *tile, uint32_t n_sub,
                          weights *o)
{
    const vi table = V_TABLE(value);
    const uint32_t quads = e8m0 ? LANES : 2 * LANES;
    for (uint32_t j = 0; j < n_sub; j++, tile += quads + 4 * QUAD) {
        if (e8m0)
            o->scale[j] = half_e8m0(tile);
        else
            o->scale[j] = V_LOAD_F16(tile);
        unpack_nibbles(tile + quads, &table, o->quad + 8 * j);
    }
}

/* Block b of a tile, of which n_sub × 32 columns are there. */
INLINE void unpack(const int layout, const uint8_t *tile, uint32_t b, uint32_t n_sub, weights *o)
{
    static const int8_t mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    switch (layout) {
    case AQ_L_Q8_0:
        unpack_q8_0(tile + (size_t)b * SUBS * 34 * LANES, n_sub, o);
        break;
    case AQ_L_Q4_0:
        unpack_4(false, tile + (size_t)b * SUBS * 18 * LANES, n_sub, o);
        break;
    case AQ_L_Q4_1:
        unpack_4(true, tile + (size_t)b * SUBS * 20 * LANES, n_sub, o);
        break;
    case AQ_L_IQ4_NL:
        unpack_values(false, aq_iq4_value, tile + (size_t)b * SUBS * 18 * LANES, n_sub, o);
        break;
    default:
        unpack_values(true, mxfp4, tile + (size_t)b * SUBS * 17 * LANES, n_sub, o);
    }
}

/* ---- products ---- */

/* 16 rows at q × the weights of sub-block j. */
INLINE void dot_32(const int8_t *q, size_t wide, const weights *w, uint32_t j, aq_tile_sums *ret)
{
    TILE_ZERO(0);
    TILE_LOAD(4, q + 32 * j, wide);
    TILE_LOAD(6, w->quad + 8 * j, 64);
    TILE_DOT(0, 4, 6);
    TILE_STORE(0, ret[j]);
}

INLINE bool has_min(int layout)
{
    return layout == AQ_L_Q4_0 || layout == AQ_L_Q4_1;
}

/* The float step of sub-block j; d, s: of the 16 rows. */
INLINE void float_step(const int layout, const aq_tile_sums *sum, const weights *w, uint32_t j,
                       const float *d, const float *s, vf *acc)
{
    const vf scale = w->scale[j];
    EACH16(i)
    acc[i] = add_block(acc[i], V_LOAD(sum[j][i]), scale, d[i]);
    if (has_min(layout)) {
        const vf min = w->min[j];
        EACH16(i)
        acc[i] = V_FMA_PS(min, V_SET_PS(s[i]), acc[i]);
    }
}

/* Tiles of the next 16 rows are multiplied while the floats of these are summed. */
INLINE void many(const int layout, const uint8_t *tile, uint32_t k, const aq_rows_in *in,
                 uint32_t n, float (*y)[AQ_LANES_MAX])
{
    const size_t wide = in->wide;
    weights w;
    _Alignas(64) aq_tile_sums sum[2][SUBS];
    TILE_BEGIN(config);
    for (uint32_t b = 0; b * BLOCK < k; b++) {
        const uint32_t n_sub = AQ_MIN((k - b * BLOCK) / 32, SUBS);
        const int8_t *q = in->q + (size_t)b * BLOCK;
        unpack(layout, tile, b, n_sub, &w);
        for (uint32_t j = 0; j < n_sub; j++)
            dot_32(q, wide, &w, j, sum[0]);
        for (uint32_t r = 0; r < n; r += ROWS, q += ROWS * wide) {
            aq_tile_sums *now = sum[r / ROWS % 2], *next = sum[1 - r / ROWS % 2];
            const bool more = r + ROWS < n;
            vf acc[16];
            EACH16(i)
            acc[i] = b ? _mm512_loadu_ps(y[r + (uint32_t)i]) : V_ZERO_PS();
            for (uint32_t j = 0; j < n_sub; j++) {
                if (more)
                    dot_32(q + ROWS * wide, wide, &w, j, next);
                float_step(layout, now, &w, j, in->d[b * SUBS + j] + r, in->s[b * SUBS + j] + r,
                           acc);
            }
            EACH16(i)
            _mm512_storeu_ps(y[r + (uint32_t)i], acc[i]);
        }
    }
    TILE_END();
}

#define MANY(name, layout)                                                       \
    void name(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
              float(*y)[AQ_LANES_MAX])                                           \
    {                                                                            \
        many(layout, tile, k, in, n, y);                                         \
    }
MANY(aq_amx_q8_0, AQ_L_Q8_0)
MANY(aq_amx_q4_0, AQ_L_Q4_0)
MANY(aq_amx_q4_1, AQ_L_Q4_1)
MANY(aq_amx_iq4_nl, AQ_L_IQ4_NL)
MANY(aq_amx_mxfp4, AQ_L_MXFP4)
