/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types of GGUF: names and sizes of all of them, exact decoding of those that weights come in; here the plain ones, in
 * quant-k.c blocks of 256 with scales of their own, in quant-iq.c those with tables. These decoders are what every kernel is tested
 * against: the order of float operations is part of the format's meaning. Pure functions.
 *
 *   Q8_0  d f16, 32 × i8                                y = q·d
 *   Q4_0  d f16, 16 bytes of nibbles                    y = (q − 8)·d; byte i: value i low, value i + 16 high
 *   Q4_1  d f16, m f16, 16 bytes of nibbles             y = q·d + m
 *   Q5_0  d f16, 32 high bits, nibbles as in Q4_0       y = (q − 16)·d
 *   Q5_1  d f16, m f16, 32 high bits, nibbles           y = q·d + m
 *   Q1_0  d f16, 128 bits                               y = ±d, + where the bit is set
 *   Q2_0  d f16, 64 × 2 bits                            y = (q − 1)·d
 * Layouts: ggml src/ggml-common.h (MIT). */
#include "quant-priv.h"

float aq_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff, bits;
    float f;
    if (exp == 31) {
        bits = sign | 0x7f800000u | man << 13;
    } else if (exp) {
        bits = sign | (exp + 112) << 23 | man << 13;
    } else {
        f = (float)man * 0x1p-24f; /* subnormal or zero: exact */
        return sign ? -f : f;
    }
    memcpy(&f, &bits, 4);
    return f;
}

uint16_t aq_f32_to_f16(float f)
{
    uint32_t b;
    memcpy(&b, &f, 4);
    uint16_t sign = (uint16_t)(b >> 16 & 0x8000);
    b &= 0x7fffffffu;
    if (b > 0x7f800000u)
        return sign | 0x7e00 | (uint16_t)(b >> 13 & 0x3ff);
    if (b >= 0x477ff000u) /* 65520 and above round to infinity */
        return sign | 0x7c00;
    if (b < 0x38800000u) { /* below 2^-14: units of 2^-24; the addition rounds to nearest even */
        float a;
        memcpy(&a, &b, 4);
        a += 0.5f;
        memcpy(&b, &a, 4);
        return sign | (uint16_t)(b - 0x3f000000u);
    }
    b += 0xfff + (b >> 13 & 1);
    return sign | (uint16_t)((b >> 13) - (112 << 10));
}

static void dequant_f32(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * 4);
}

static void dequant_f16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = aq_le_f16(p + 2 * i);
}

static void dequant_bf16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) {
        uint32_t b = (uint32_t)p[2 * i] << 16 | (uint32_t)p[2 * i + 1] << 24;
        memcpy(&dst[i], &b, 4);
    }
}

static void dequant_q8_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 34) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 32; i++)
            *dst++ = (float)(int8_t)p[2 + i] * d;
    }
}

static void dequant_q4_1(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 20, dst += 32) {
        float d = aq_le_f16(p), m = aq_le_f16(p + 2);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)(p[4 + i] & 15) * d + m;
            dst[i + 16] = (float)(p[4 + i] >> 4) * d + m;
        }
    }
}

static void dequant_q4_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 18, dst += 32) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)((p[2 + i] & 15) - 8) * d;
            dst[i + 16] = (float)((p[2 + i] >> 4) - 8) * d;
        }
    }
}

/** Value i of the 32 of Q5_0 and Q5_1: a nibble, and its bit 4 from the word of high bits before the nibbles. */
static int five_bits(const uint8_t *high, int i)
{
    int low = i < 16 ? high[4 + i] & 15 : high[4 + i - 16] >> 4;
    return low | (int)(aq_le32(high) >> i & 1) << 4;
}

static void dequant_q5_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 22) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 32; i++)
            *dst++ = (float)(five_bits(p + 2, i) - 16) * d;
    }
}

static void dequant_q5_1(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 24) {
        float d = aq_le_f16(p), m = aq_le_f16(p + 2);
        for (int i = 0; i < 32; i++)
            *dst++ = (float)five_bits(p + 4, i) * d + m;
    }
}

static void dequant_q1_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 128; b++, p += 18) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 128; i++)
            *dst++ = p[2 + i / 8] >> i % 8 & 1 ? d : -d;
    }
}

static void dequant_q2_0(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 64; b++, p += 18) {
        float d = aq_le_f16(p);
        for (int i = 0; i < 64; i++)
            *dst++ = (float)((p[2 + i / 4] >> i % 4 * 2 & 3) - 1) * d;
    }
}

static const aq_type types[] = {
    {AQ_T_F32, "F32", 1, 4, dequant_f32},
    {AQ_T_F16, "F16", 1, 2, dequant_f16},
    {AQ_T_BF16, "BF16", 1, 2, dequant_bf16},
    {AQ_T_Q8_0, "Q8_0", 32, 34, dequant_q8_0},
    {AQ_T_Q4_0, "Q4_0", 32, 18, dequant_q4_0},
    {AQ_T_Q4_1, "Q4_1", 32, 20, dequant_q4_1},
    {AQ_T_Q5_0, "Q5_0", 32, 22, dequant_q5_0},
    {AQ_T_Q5_1, "Q5_1", 32, 24, dequant_q5_1},
    {AQ_T_Q2_K, "Q2_K", 256, 84, aq_dequant_q2_k},
    {AQ_T_Q3_K, "Q3_K", 256, 110, aq_dequant_q3_k},
    {AQ_T_Q4_K, "Q4_K", 256, 144, aq_dequant_q4_k},
    {AQ_T_Q5_K, "Q5_K", 256, 176, aq_dequant_q5_k},
    {AQ_T_Q6_K, "Q6_K", 256, 210, aq_dequant_q6_k},
    {AQ_T_IQ1_S, "IQ1_S", 256, 50, aq_dequant_iq1_s},
    {AQ_T_IQ1_M, "IQ1_M", 256, 56, aq_dequant_iq1_m},
    {AQ_T_IQ2_XXS, "IQ2_XXS", 256, 66, aq_dequant_iq2_xxs},
    {AQ_T_IQ2_XS, "IQ2_XS", 256, 74, aq_dequant_iq2_xs},
    {AQ_T_IQ2_S, "IQ2_S", 256, 82, aq_dequant_iq2_s},
    {AQ_T_IQ3_XXS, "IQ3_XXS", 256, 98, aq_dequant_iq3_xxs},
    {AQ_T_IQ3_S, "IQ3_S", 256, 110, aq_dequant_iq3_s},
    {AQ_T_IQ4_NL, "IQ4_NL", 32, 18, aq_dequant_iq4_nl},
    {AQ_T_IQ4_XS, "IQ4_XS", 256, 136, aq_dequant_iq4_xs},
    {AQ_T_MXFP4, "MXFP4", 32, 17, aq_dequant_mxfp4},
    {AQ_T_NVFP4, "NVFP4", 64, 36, aq_dequant_nvfp4},
    {AQ_T_TQ1_0, "TQ1_0", 256, 54, aq_dequant_tq1_0},
    {AQ_T_TQ2_0, "TQ2_0", 256, 66, aq_dequant_tq2_0},
    {AQ_T_Q1_0, "Q1_0", 128, 18, dequant_q1_0},
    {AQ_T_Q2_0, "Q2_0", 64, 18, dequant_q2_0},
    /* known by name and size, so that a message can say what it is; no model's weights are stored in them */
    {9, "Q8_1", 32, 36, NULL},
    {15, "Q8_K", 256, 292, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
};

const aq_type *aq_type_get(uint32_t id)
{
    for (size_t i = 0; i < AQ_LEN(types); i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

int aq_dequant_check(const void *data, size_t n,
                     void (*line)(void *, const char *, uint32_t, int64_t, const char *),
                     void *user, aq_err *err)
{
    aq_cur c = {data, n, 0};
    int rc = 0;
    while (aq_cur_left(&c)) {
        size_t at = c.off;
        uint32_t magic, id, vals, bytes, blocks;
        const uint8_t *name_raw, *raw, *want;
        char name[13] = "";
        if (aq_cur_get_u32(&c, &magic) < 0 || magic != 0x31514447u /* "GDQ1" */ ||
            aq_cur_get_bytes(&c, 12, &name_raw) < 0 || aq_cur_get_u32(&c, &id) < 0 ||
            aq_cur_get_u32(&c, &vals) < 0 || aq_cur_get_u32(&c, &bytes) < 0 ||
            aq_cur_get_u32(&c, &blocks) < 0)
            return aq_fail(err, AQ_E_FORMAT,
                           "no GDQ1 record at byte %zu of the dequantisation data", at);
        memcpy(name, name_raw, 12);
        if (vals > 1024 || bytes > 4096 || blocks > 1u << 20 ||
            aq_cur_get_bytes(&c, ((size_t)bytes * blocks + 3) & ~(size_t)3, &raw) < 0 ||
            aq_cur_get_bytes(&c, (size_t)vals * blocks * 4, &want) < 0)
            return aq_fail(err, AQ_E_FORMAT,
                           "the dequantisation data end inside the record %s at byte %zu", name,
                           at);
        const aq_type *t = aq_type_get(id);
        if (!t || !t->dequant) {
            line(user, name, id, -1, "not read by this version");
            continue;
        }
        if (t->block_vals != vals || t->block_bytes != bytes)
            return aq_fail(err, AQ_E_FORMAT,
                           "record %s has blocks of %u values in %u bytes, type %s has %u in %u",
                           name, vals, bytes, t->name, t->block_vals, t->block_bytes);
        size_t total = (size_t)vals * blocks;
        AQ_AUTOFREE float *got = malloc(total * 4 + 4);
        if (!got)
            return aq_fail(err, AQ_E_NOMEM, "no memory for %zu values", total);
        t->dequant(raw, got, total);
        int64_t bad = -1;
        for (size_t i = 0; i < total && bad < 0; i++)
            if (memcmp(&got[i], want + 4 * i, 4))
                bad = (int64_t)i;
        line(user, name, id, bad, NULL);
        if (bad >= 0 && !rc)
            rc = aq_fail(err, AQ_E_MISMATCH, "value %lld of %s differs", (long long)bad, name);
    }
    return rc;
}
