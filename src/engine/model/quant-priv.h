/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of the storage types (quant-k.c, quant-iq.c) and their tables (quant-table.c, generated). Pure functions, constants. */
#ifndef AQ_QUANT_PRIV_H
#define AQ_QUANT_PRIV_H

#include "model-priv.h"

/* n values, a multiple of the type's block, exactly in the order of float operations that the format means. */
typedef void aq_dequant_fn(const void *src, float *dst, size_t n);
aq_dequant_fn aq_dequant_q2_k, aq_dequant_q3_k, aq_dequant_q4_k, aq_dequant_q5_k, aq_dequant_q6_k;
aq_dequant_fn aq_dequant_tq1_0, aq_dequant_tq2_0;
aq_dequant_fn aq_dequant_iq1_s, aq_dequant_iq1_m, aq_dequant_iq2_xxs, aq_dequant_iq2_xs,
    aq_dequant_iq2_s, aq_dequant_iq3_xxs, aq_dequant_iq3_s, aq_dequant_iq4_nl, aq_dequant_iq4_xs;
aq_dequant_fn aq_dequant_mxfp4, aq_dequant_nvfp4;

extern const int8_t aq_iq4_value[16];
extern const uint8_t aq_iq2_value[3], aq_iq3_xxs_value[8], aq_iq3_s_value[8];
extern const uint16_t aq_iq2_xxs_grid[256], aq_iq2_xs_grid[512], aq_iq2_s_grid[1024],
    aq_iq1_grid[2048], aq_iq3_xxs_grid[256], aq_iq3_s_grid[512];

static inline uint32_t aq_le16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static inline uint32_t aq_le32(const uint8_t *p)
{
    return aq_le16(p) | aq_le16(p + 2) << 16;
}

static inline float aq_le_f16(const uint8_t *p)
{
    return aq_f16_to_f32((uint16_t)aq_le16(p));
}

#endif
