/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the path "amx": those of types with blocks of 32 columns (isa-amx.c) and of 256
 * (isa-amx-256.c), and what both need. Only after CPUID has said so and the system has granted the tile
 * registers. Contract: aq_many_fn. */
#ifndef AQ_ISA_AMX_PRIV_H
#define AQ_ISA_AMX_PRIV_H

#include "cpu-priv.h"

#define AQ_AMX(name)                                                                    \
    void aq_amx_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *, uint32_t n, \
                       float(*y)[AQ_LANES_MAX])
AQ_AMX(q8_0);
AQ_AMX(q4_0);
AQ_AMX(q4_1);
AQ_AMX(q4_k);
AQ_AMX(q5_k);
AQ_AMX(q6_k);
AQ_AMX(iq4_nl);
AQ_AMX(iq4_xs);
AQ_AMX(mxfp4);

/* Written as instructions: the compilers' own forms do not say which memory they read. */
#define TILE_LOAD(t, p, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(p), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(t, p) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"((size_t)64) : "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %tmm" #t)
/* Signed input rows × signed and × unsigned weights. */
#define TILE_DOT(c, a, b) __asm__ volatile("tdpbssd %tmm" #b ", %tmm" #a ", %tmm" #c)
#define TILE_DOT_U(c, a, b) __asm__ volatile("tdpbsud %tmm" #b ", %tmm" #a ", %tmm" #c)
#define TILE_BEGIN(config) __asm__ volatile("ldtilecfg %0" ::"m"(config))
#define TILE_END() __asm__ volatile("tilerelease")

/* 64 bytes that say how large each tile register is. */
typedef struct aq_tile_config {
    uint8_t palette, start_row, rest[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} aq_tile_config;
_Static_assert(sizeof(aq_tile_config) == 64, "as the instruction reads it");

typedef int32_t aq_tile_sums[16][16]; /* [input row][weight row] */

#endif
