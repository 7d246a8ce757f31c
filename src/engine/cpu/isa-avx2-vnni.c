/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx2" on CPUs with AVX-VNNI: dot products of bytes in one instruction; the rest is that
 * of isa-avx2.c. Compiled with its own flags; only after CPUID has said so. Any thread. */
#define AQ_V 8
#include "isa-avx2-priv.h"
#include "tiles-vnni.h"

const aq_isa aq_isa_avx2_vnni = {
    .name = "avx2",
    .lanes = LANES,
    .rows = ROWS_MAX,
    .tile = {[AQ_L_F32] = aq_avx2_tile_f32,
             [AQ_L_F16] = aq_avx2_tile_f16,
             [AQ_L_BF16] = aq_avx2_tile_bf16,
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
    .quant_256 = aq_avx2_quant_256,
    .norm = aq_avx2_norm,
    .swiglu = aq_avx2_swiglu,
    .to_f16 = aq_avx2_to_f16,
    .from_f16 = aq_avx2_from_f16,
    .scores = aq_avx2_scores,
    .exps = aq_avx2_exps,
    .mix = aq_avx2_mix,
    .scores_kv = {[AQ_KV_F16] = aq_avx2_scores_f16, [AQ_KV_Q8_0] = aq_avx2_scores_q8},
    .mix_kv = {[AQ_KV_F16] = aq_avx2_mix_f16, [AQ_KV_Q8_0] = aq_avx2_mix_q8},
    .from_q8 = aq_avx2_from_q8,
    .delta = aq_avx2_delta,
    .oai = aq_avx2_oai,
};
