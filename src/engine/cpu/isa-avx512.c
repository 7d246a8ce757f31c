/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx512": AVX-512 F, BW, DQ, VL and VNNI; tiles of 16 rows. What gains nothing from
 * longer vectors is that of isa-avx2.c. Compiled with its own flags; only after CPUID has said so.
 * Any thread. */
#define AQ_V 16
#include "isa-avx2-priv.h"
#include "tiles-vnni.h"

/* ---- float weights ---- */

INLINE __m512 weight(int layout, const uint8_t *tile, size_t c)
{
    if (layout == AQ_L_F32)
        return _mm512_loadu_ps(tile + c * LANES * 4);
    if (layout == AQ_L_F16)
        return V_LOAD_F16(tile + c * LANES * 2);
    return _mm512_castsi512_ps(_mm512_slli_epi32(W_TO_32(tile + c * LANES * 2), 16));
}

/* Column c goes to chain c mod 4. */
INLINE void tile_float_n(const int layout, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                         const int n, float (*y)[AQ_LANES_MAX])
{
    __m512 sum[4][4];
    EACH (i, n)
        EACH (j, 4)
            sum[i][j] = _mm512_setzero_ps();
    uint32_t c = 0;
    for (; c + 4 <= k; c += 4)
        EACH (j, 4) {
            __m512 w = weight(layout, tile, c + (uint32_t)j);
            EACH (i, n)
                sum[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(row[i].x[c + (uint32_t)j]), w, sum[i][j]);
        }
    EACH (j, 3)
        if (c + (uint32_t)j < k) {
            __m512 w = weight(layout, tile, c + (uint32_t)j);
            EACH (i, n)
                sum[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(row[i].x[c + (uint32_t)j]), w, sum[i][j]);
        }
    EACH (i, n)
        _mm512_storeu_ps(y[i], _mm512_add_ps(_mm512_add_ps(sum[i][0], sum[i][1]),
                                             _mm512_add_ps(sum[i][2], sum[i][3])));
}

#define FLOAT_TILE(name, layout)                                                        \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        for (; n >= 4; n -= 4, row += 4, y += 4)                                        \
            tile_float_n(layout, tile, k, row, 4, y);                                   \
        for (; n; n--, row++, y++)                                                      \
            tile_float_n(layout, tile, k, row, 1, y);                                   \
    }
FLOAT_TILE(tile_f32, AQ_L_F32)
FLOAT_TILE(tile_f16, AQ_L_F16)
FLOAT_TILE(tile_bf16, AQ_L_BF16)

const aq_isa aq_isa_avx512 = {
    .name = "avx512",
    .lanes = LANES,
    .rows = ROWS_MAX,
    .tile = {[AQ_L_F32] = tile_f32,
             [AQ_L_F16] = tile_f16,
             [AQ_L_BF16] = tile_bf16,
             [AQ_L_Q8_0] = tile_q8_0,
             [AQ_L_Q4_0] = tile_q4_0,
             [AQ_L_Q4_1] = tile_q4_1,
             [AQ_L_Q4_K] = tile_q4_k,
             [AQ_L_Q5_K] = tile_q5_k,
             [AQ_L_Q6_K] = tile_q6_k,
             [AQ_L_IQ4_NL] = tile_iq4_nl,
             [AQ_L_IQ4_XS] = tile_iq4_xs,
             [AQ_L_MXFP4] = tile_mxfp4},
    .quant = aq_avx2_quant,
    .norm = aq_avx2_norm,
    .swiglu = aq_avx2_swiglu,
    .to_f16 = aq_avx2_to_f16,
    .scores = aq_avx2_scores,
    .exps = aq_avx2_exps,
    .mix = aq_avx2_mix,
};
