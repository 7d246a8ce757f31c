/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the path "avx2" that paths above it use too. Only after CPUID has said so. Contracts:
 * aq_isa. */
#ifndef AQ_ISA_AVX2_PRIV_H
#define AQ_ISA_AVX2_PRIV_H

#include "cpu-priv.h"

void aq_avx2_tile_f32(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_LANES_MAX]);
void aq_avx2_tile_f16(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_LANES_MAX]);
void aq_avx2_tile_bf16(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                       float (*y)[AQ_LANES_MAX]);
void aq_avx2_quant(const float *x, uint32_t k, const aq_row_q *o);
void aq_avx2_norm(const float *x, const float *w, uint32_t dim, float eps, float *y);
void aq_avx2_swiglu(const float *gate, const float *up, size_t n, float *y);
void aq_avx2_to_f16(const float *x, size_t n, uint16_t *y);
void aq_avx2_from_f16(const uint16_t *x, size_t n, float *y);
void aq_avx2_scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                    float scale, float (*s)[AQ_ATTN_TOK], float *top);
float aq_avx2_exps(float *s, uint32_t n, float max);
void aq_avx2_mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                 uint32_t d, const float *c, float *const *o);
void aq_avx2_delta(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                   const float *s_in, float *s_out, float *o);
void aq_avx2_oai(const float *gate, const float *up, size_t n, float *y);

#endif
