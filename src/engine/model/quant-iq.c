/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types whose values stand in a table: rows of a grid (IQ1, IQ2, IQ3), 16 levels (IQ4), 4-bit floats (MXFP4, NVFP4).
 * See quant.c. Pure functions. A grid row gives 8 (IQ1, IQ2) or 4 (IQ3) values; "7 signs" are those of 8 values, the last one
 * making the number of minuses even.
 *
 *   IQ2_XXS  d f16, 8 × (4 × 8-bit row, 4 × 7 signs and 4-bit scale in a word)        y = (d·(scale + ½)·¼)·grid·sign
 *   IQ2_XS   d f16, 32 × (9-bit row, 7 signs), 8 bytes of 16 4-bit scales             likewise
 *   IQ2_S    d f16, 32 × 8-bit row, 32 bytes of signs, 8 bytes of 32 × 2 high bits, 8 bytes of scales     likewise
 *   IQ3_XXS  d f16, 64 × 8-bit row, 8 × word as in IQ2_XXS                            y = (d·(scale + ½)·½)·grid·sign
 *   IQ3_S    d f16, 64 × 8-bit row, 8 bytes of 64 high bits, 32 bytes of signs, 4 bytes of 8 4-bit scales  y = (d·(1 + 2·scale))·grid·sign
 *   IQ1_S    d f16, 32 × 8-bit row, 8 × (4 × 3 high bits, 3-bit scale, bit 15: delta < 0)      y = (d·(2·scale + 1))·(grid ± ⅛)
 *   IQ1_M    32 × 8-bit row, 16 bytes of 32 × (3 high bits, delta < 0), 4 × (4 × 3-bit scale, 4 bits of d)  likewise
 *   IQ4_NL   d f16, nibbles as in Q4_0                                                y = d·level
 *   IQ4_XS   d f16, 8 × 2 high bits and 8 × 4 low bits of scales, 8 × nibbles as in Q4_0       y = (d·(scale − 32))·level
 *   MXFP4    exponent e of 2^(e − 127), nibbles as in Q4_0                            y = e2m1·2^(e − 127)
 *   NVFP4    4 × unsigned e4m3, 4 × 8 bytes of nibbles: value i low, i + 8 high       y = e2m1·e4m3
 * Layouts: ggml src/ggml-common.h (MIT). */
#include "quant-priv.h"

/** n values of a grid row times f, signs by bits. */
static float *put_row(float *dst, int n, int bits, uint32_t row, const uint8_t *value,
                      uint32_t signs, float f)
{
    uint32_t mask = (1u << bits) - 1;
    for (int i = 0; i < n; i++) {
        float v = f * (float)value[row >> bits * i & mask];
        *dst++ = signs >> i & 1 ? -v : v;
    }
    return dst;
}

static uint32_t with_eighth(uint32_t seven)
{
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

static int nibble(const uint8_t *p, int i)
{
    return p[i / 2] >> i % 2 * 4 & 15;
}

void aq_dequant_iq2_xxs(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 66) {
        float d = aq_le_f16(p);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = p + 2 + 8 * g;
            uint32_t word = aq_le32(q + 4);
            float f = d * (0.5f + (float)(word >> 28)) * 0.25f;
            for (int i = 0; i < 4; i++)
                dst = put_row(dst, 8, 2, aq_iq2_xxs_grid[q[i]], aq_iq2_value,
                              with_eighth(word >> 7 * i & 127), f);
        }
    }
}

void aq_dequant_iq2_xs(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 74) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 32; i++) {
            uint32_t q = aq_le16(p + 2 + 2 * i);
            float f = d * (0.5f + (float)nibble(p + 66, i / 2)) * 0.25f;
            dst = put_row(dst, 8, 2, aq_iq2_xs_grid[q & 511], aq_iq2_value, with_eighth(q >> 9), f);
        }
    }
}

void aq_dequant_iq2_s(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 82) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 32; i++) {
            uint32_t q = p[2 + i] | (uint32_t)(p[66 + i / 4] >> i % 4 * 2 & 3) << 8;
            float f = d * (0.5f + (float)nibble(p + 74, i / 2)) * 0.25f;
            dst = put_row(dst, 8, 2, aq_iq2_s_grid[q], aq_iq2_value, p[34 + i], f);
        }
    }
}

void aq_dequant_iq3_xxs(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 98) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 64; i++) {
            uint32_t word = aq_le32(p + 66 + i / 8 * 4),
                     signs = with_eighth(word >> i / 2 % 4 * 7 & 127);
            float f = d * (0.5f + (float)(word >> 28)) * 0.5f;
            dst = put_row(dst, 4, 3, aq_iq3_xxs_grid[p[2 + i]], aq_iq3_xxs_value,
                          signs >> i % 2 * 4, f);
        }
    }
}

void aq_dequant_iq3_s(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 110) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 64; i++) {
            uint32_t q = p[2 + i] | (uint32_t)(p[66 + i / 8] >> i % 8 & 1) << 8;
            float f = d * (float)(1 + 2 * nibble(p + 106, i / 8));
            dst =
                put_row(dst, 4, 3, aq_iq3_s_grid[q], aq_iq3_s_value, p[74 + i / 2] >> i % 2 * 4, f);
        }
    }
}

/** 8 values of a row of -1, 0 and 1. */
static float *put_row1(float *dst, uint32_t row, float delta, float f)
{
    for (int i = 0; i < 8; i++)
        *dst++ = f * ((float)((int)(row >> 2 * i & 3) - 1) + delta);
    return dst;
}

void aq_dequant_iq1_s(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 50) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 32; i++) {
            uint32_t h = aq_le16(p + 34 + i / 4 * 2), q = p[2 + i] | (h >> i % 4 * 3 & 7) << 8;
            float f = d * (float)(2 * (h >> 12 & 7) + 1);
            dst = put_row1(dst, aq_iq1_grid[q], h >> 15 ? -0.125f : 0.125f, f);
        }
    }
}

void aq_dequant_iq1_m(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 56) {
        uint32_t half = 0; /* d: the upper four bits of each word of scales */
        for (int i = 0; i < 4; i++)
            half |= aq_le16(p + 48 + 2 * i) >> 12 << 4 * i;
        float d = aq_f16_to_f32((uint16_t)half);
        for (int i = 0; i < 32; i++) {
            uint32_t h = (uint32_t)nibble(p + 32, i), q = p[i] | (h & 7) << 8;
            uint32_t scale = aq_le16(p + 48 + i / 8 * 2) >> i / 2 % 4 * 3 & 7;
            float f = d * (float)(2 * scale + 1);
            dst = put_row1(dst, aq_iq1_grid[q], h & 8 ? -0.125f : 0.125f, f);
        }
    }
}

/** n values by level: byte i holds value i low and value i + n / 2 high. */
static float *put_levels(float *dst, const uint8_t *q, int n, const int8_t *level, float f)
{
    for (int i = 0; i < n / 2; i++) {
        dst[i] = f * (float)level[q[i] & 15];
        dst[i + n / 2] = f * (float)level[q[i] >> 4];
    }
    return dst + n;
}

void aq_dequant_iq4_nl(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 18)
        dst = put_levels(dst, p + 2, 32, aq_iq4_value, aq_le_f16(p));
}

void aq_dequant_iq4_xs(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 136) {
        float d = aq_le_f16(p);
        for (int j = 0; j < 8; j++) {
            int scale = nibble(p + 4, j) | (int)(aq_le16(p + 2) >> 2 * j & 3) << 4;
            dst = put_levels(dst, p + 8 + 16 * j, 32, aq_iq4_value, d * (float)(scale - 32));
        }
    }
}

static const int8_t e2m1_twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void aq_dequant_mxfp4(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 17) {
        uint32_t bits = p[0] < 2 ? 0x200000u << p[0] : (p[0] - 1u) << 23; /* 2^(e - 128) */
        float half;
        memcpy(&half, &bits, 4);
        dst = put_levels(dst, p + 1, 32, e2m1_twice, half);
    }
}

/** Half of an unsigned e4m3; its NaN stands for 0; bit 7 means nothing. */
static float e4m3_half(uint8_t e)
{
    int exp = e >> 3 & 15, man = e & 7;
    if (e == 127)
        return 0;
    float f = (float)(exp ? man + 8 : man) * 0x1p-10f; /* units of 2^-9, halved */
    return exp ? f * (float)(1 << (exp - 1)) : f;
}

void aq_dequant_nvfp4(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 64; b++, p += 36)
        for (int j = 0; j < 4; j++)
            dst = put_levels(dst, p + 4 + 8 * j, 16, e2m1_twice, e4m3_half(p[j]));
}
