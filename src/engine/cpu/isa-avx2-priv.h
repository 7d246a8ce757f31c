/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the path "avx2" that paths above it use too. Only after CPUID has said so. Contracts:
 * aq_isa. */
#ifndef AQ_ISA_AVX2_PRIV_H
#define AQ_ISA_AVX2_PRIV_H

#include "cpu-priv.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* 2^(e - 128) */
static inline __attribute__((always_inline)) __m256 aq_avx2_half_e8m0(const uint8_t *e)
{
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)e)), one = _mm256_set1_epi32(1);
    __m256i big = _mm256_slli_epi32(_mm256_sub_epi32(v, one), 23),
            small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), v);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, big, _mm256_cmpgt_epi32(v, one)));
}

/* Scale of sub-block j of a tile of IQ4_XS, in both halves of a lane: 4 low bits and 2 high ones, less
 * 32. */
static inline __attribute__((always_inline)) __m256i aq_avx2_iq4_xs_scale(const uint8_t *tile,
                                                                          uint32_t j)
{
    __m128i low = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(tile + 32 + j / 2 * 8))),
            high = _mm_loadu_si128((const void *)(tile + 16));
    low =
        _mm_and_si128(_mm_srl_epi16(low, _mm_cvtsi32_si128((int)(j % 2 * 4))), _mm_set1_epi16(15));
    high = _mm_and_si128(_mm_srl_epi16(high, _mm_cvtsi32_si128((int)(2 * j))), _mm_set1_epi16(3));
    low = _mm_sub_epi16(_mm_or_si128(low, _mm_slli_epi16(high, 4)), _mm_set1_epi16(32));
    __m256i v = _mm256_cvtepu16_epi32(low);
    return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
}
#endif

void aq_avx2_tile_f32(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_LANES_MAX]);
void aq_avx2_tile_f16(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_LANES_MAX]);
void aq_avx2_tile_bf16(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                       float (*y)[AQ_LANES_MAX]);
#define AQ_AVX2_MANY(name)                                                                    \
    void aq_avx2_many_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *, uint32_t n, \
                             float(*y)[AQ_LANES_MAX]);                                        \
    void aq_avx2_pair_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *, uint32_t n, \
                             float(*y)[AQ_LANES_MAX])
AQ_AVX2_MANY(q4_0);
AQ_AVX2_MANY(q4_1);
AQ_AVX2_MANY(q4_k);
AQ_AVX2_MANY(q5_k);
AQ_AVX2_MANY(q6_k);
AQ_AVX2_MANY(q8_0);
AQ_AVX2_MANY(iq4_nl);
AQ_AVX2_MANY(iq4_xs);
AQ_AVX2_MANY(mxfp4);
void aq_avx2_quant(const float *x, uint32_t k, const aq_row_q *o);
void aq_avx2_quant_256(const float *x, uint32_t k, const aq_row_q *o);
void aq_avx2_norm(const float *x, const float *w, uint32_t dim, float eps, float *y);
void aq_avx2_swiglu(const float *gate, const float *up, size_t n, float *y);
void aq_avx2_to_f16(const float *x, size_t n, uint16_t *y);
void aq_avx2_from_f16(const uint16_t *x, size_t n, float *y);
void aq_avx2_scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                    float scale, float (*s)[AQ_ATTN_TOK], float *top);
float aq_avx2_exps(float *s, uint32_t n, float max);
void aq_avx2_mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                 uint32_t d, const float *c, float *const *o);
void aq_avx2_from_q8(const uint8_t *p, uint32_t d, float *y);
void aq_avx2_scores_f16(const float *const *q, uint32_t m, const aq_entries *, uint32_t n_tok,
                        uint32_t d, float scale, float (*s)[AQ_ATTN_TOK], float *top);
void aq_avx2_scores_q8(const float *const *q, uint32_t m, const aq_entries *, uint32_t n_tok,
                       uint32_t d, float scale, float (*s)[AQ_ATTN_TOK], float *top);
void aq_avx2_mix_f16(const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *, uint32_t n_tok,
                     uint32_t d, const float *c, float *const *o);
void aq_avx2_mix_q8(const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *, uint32_t n_tok,
                    uint32_t d, const float *c, float *const *o);
void aq_avx2_delta(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                   const float *s_in, float *s_out, float *o);
void aq_avx2_oai(const float *gate, const float *up, size_t n, float *y);

#endif
