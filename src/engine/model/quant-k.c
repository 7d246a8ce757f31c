/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types of 256 values with scales per sub-block, and the ternary ones. See quant.c. Pure functions.
 *
 *   Q2_K  16 bytes of scale (low) and min (high), 64 bytes of 2-bit q, d f16, dmin f16       y = (d·scale)·q − dmin·min
 *   Q3_K  hmask 32, 64 bytes of 2-bit q, 12 bytes of 16 6-bit scales, d f16                  y = (d·(scale − 32))·(q − 4·!high)
 *         q of both: byte 32h + i holds values 128h + i, + 32, + 64, + 96; hmask byte i, bit j: value 32j + i
 *   Q4_K  d f16, dmin f16, 12 bytes of 8 × (6-bit scale, 6-bit min), 128 bytes of nibbles
 *         32 bytes hold sub-blocks 2g (low) and 2g + 1 (high)           y = (d·scale)·q − dmin·min
 *   Q5_K  d f16, dmin f16, 12 bytes as in Q4_K, qh 32, 128 bytes of nibbles: bit j of qh[i] is bit 4 of q i of sub-block j
 *   Q6_K  ql 128, qh 64, 16 × i8 scales, d f16          y = (d·scale)·(q − 32)
 *   TQ1_0 48 bytes of 5 and 4 bytes of 4 base-3 digits, d f16     y = (digit − 1)·d
 *         a byte is its digits as a fraction of 256, rounded up: multiplied by 3^n, digit n is what exceeds 8 bits in 3 × it
 *   TQ2_0 64 bytes of 2-bit q as in Q2_K, d f16                   y = (q − 1)·d
 * Layouts: ggml src/ggml-common.h (MIT). */
#include "quant-priv.h"

/** q of the 16 values of sub-block j of 256 whose 2-bit q lie in 64 bytes. */
static void two_bits(const uint8_t *q, int j, int ret[16])
{
    for (int i = 0; i < 16; i++)
        ret[i] = q[j / 8 * 32 + j % 2 * 16 + i] >> j % 8 / 2 * 2 & 3;
}

void aq_dequant_q2_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 84) {
        float d = aq_le_f16(p + 80), dmin = aq_le_f16(p + 82);
        for (int j = 0; j < 16; j++) {
            float ds = d * (float)(p[j] & 15), ms = dmin * (float)(p[j] >> 4);
            int q[16];
            two_bits(p + 16, j, q);
            for (int i = 0; i < 16; i++)
                *dst++ = ds * (float)q[i] - ms;
        }
    }
}

void aq_dequant_q3_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 110) {
        const uint8_t *s = p + 96;
        float d = aq_le_f16(p + 108);
        for (int j = 0; j < 16;
             j++) { /* scale j: four bits in byte j mod 8, two in byte 8 + j mod 4 */
            int low = s[j % 8] >> j / 8 * 4 & 15, high = s[8 + j % 4] >> j / 4 * 2 & 3, q[16];
            float ds = d * (float)((low | high << 4) - 32);
            two_bits(p + 32, j, q);
            for (int i = 0; i < 16; i++)
                *dst++ = ds * (float)(q[i] - (p[j % 2 * 16 + i] >> j / 2 & 1 ? 0 : 4));
        }
    }
}

/** 6-bit scale and min of sub-block j: the first four plain, the upper two bits of the last four in the spare bits of the first eight bytes. */
static void q4_k_scale(const uint8_t *s, int j, uint8_t *ret_scale, uint8_t *ret_min)
{
    if (j < 4) {
        *ret_scale = s[j] & 63;
        *ret_min = s[j + 4] & 63;
    } else {
        *ret_scale = (uint8_t)((s[j + 4] & 15) | s[j - 4] >> 6 << 4);
        *ret_min = (uint8_t)(s[j + 4] >> 4 | s[j] >> 6 << 4);
    }
}

void aq_dequant_q4_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 144) {
        float d = aq_le_f16(p), dmin = aq_le_f16(p + 2);
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = p + 16 + j / 2 * 32;
            uint8_t sc, mn;
            q4_k_scale(p + 4, j, &sc, &mn);
            float ds = d * (float)sc, ms = dmin * (float)mn;
            for (int i = 0; i < 32; i++)
                *dst++ = ds * (float)(j & 1 ? q[i] >> 4 : q[i] & 15) - ms;
        }
    }
}

void aq_dequant_q5_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 176) {
        float d = aq_le_f16(p), dmin = aq_le_f16(p + 2);
        for (int j = 0; j < 8; j++) {
            const uint8_t *qh = p + 16, *q = p + 48 + j / 2 * 32;
            uint8_t sc, mn;
            q4_k_scale(p + 4, j, &sc, &mn);
            float ds = d * (float)sc, ms = dmin * (float)mn;
            for (int i = 0; i < 32; i++) {
                int low = j & 1 ? q[i] >> 4 : q[i] & 15;
                *dst++ = ds * (float)(low | (qh[i] >> j & 1) << 4) - ms;
            }
        }
    }
}

void aq_dequant_q6_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 210) {
        float d = aq_le_f16(p + 208);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, quarter = i / 32 % 4, l = i % 32;
            int lo = p[half * 64 + quarter % 2 * 32 + l] >> quarter / 2 * 4 & 15;
            int hi = p[128 + half * 32 + l] >> quarter * 2 & 3;
            *dst++ = d * (float)(int8_t)p[192 + i / 16] * (float)((lo | hi << 4) - 32);
        }
    }
}

void aq_dequant_tq1_0(const void *src, float *dst, size_t n)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    /* bytes from, their number, digits of each: digit 0 of all of them, then digit 1, … */
    static const uint8_t part[3][3] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 54) {
        float d = aq_le_f16(p + 52);
        for (int t = 0; t < 3; t++)
            for (int k = 0; k < part[t][2]; k++)
                for (int i = 0; i < part[t][1]; i++) {
                    uint8_t rest = (uint8_t)(p[part[t][0] + i] * pow3[k]);
                    *dst++ = (float)((rest * 3 >> 8) - 1) * d;
                }
    }
}

void aq_dequant_tq2_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 66) {
        float d = aq_le_f16(p + 64);
        for (int j = 0; j < 16; j++) {
            int q[16];
            two_bits(p, j, q);
            for (int i = 0; i < 16; i++)
                *dst++ = (float)(q[i] - 1) * d;
        }
    }
}
