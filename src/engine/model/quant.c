/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types of GGUF: names and sizes of all of them, exact decoding of those that this version computes with. These decoders
 * are what every kernel is tested against: the order of float operations is part of the format's meaning. Pure functions.
 *
 *   Q8_0  d f16, 32 × i8                                y = q·d
 *   Q4_1  d f16, m f16, 16 bytes of nibbles             y = q·d + m; byte i: value i low, value i + 16 high
 *   Q4_K  d f16, dmin f16, 12 bytes of 8 × (6-bit scale, 6-bit min), 128 bytes of nibbles
 *         32 bytes hold sub-blocks 2g (low) and 2g + 1 (high)           y = (d·scale)·q − dmin·min
 *   Q5_K  d f16, dmin f16, 12 bytes as in Q4_K, qh 32, 128 bytes of nibbles: bit j of qh[i] is bit 4 of q i of sub-block j
 *   Q6_K  ql 128, qh 64, 16 × i8 scales, d f16          y = (d·scale)·(q − 32)
 * Layouts: ggml src/ggml-common.h (MIT). */
#include "model-priv.h"

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

static float get_f16(const uint8_t *p)
{
    return aq_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static void dequant_f32(const void *src, float *dst, size_t n)
{
    memcpy(dst, src, n * 4);
}

static void dequant_f16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = get_f16(p + 2 * i);
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
        float d = get_f16(p);
        for (int i = 0; i < 32; i++)
            *dst++ = (float)(int8_t)p[2 + i] * d;
    }
}

static void dequant_q4_1(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 32; b++, p += 20, dst += 32) {
        float d = get_f16(p), m = get_f16(p + 2);
        for (int i = 0; i < 16; i++) {
            dst[i] = (float)(p[4 + i] & 15) * d + m;
            dst[i + 16] = (float)(p[4 + i] >> 4) * d + m;
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

static void dequant_q4_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 144) {
        float d = get_f16(p), dmin = get_f16(p + 2);
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

static void dequant_q5_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 176) {
        float d = get_f16(p), dmin = get_f16(p + 2);
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

static void dequant_q6_k(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t b = 0; b < n / 256; b++, p += 210) {
        float d = get_f16(p + 208);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, quarter = i / 32 % 4, l = i % 32;
            int lo = p[half * 64 + quarter % 2 * 32 + l] >> quarter / 2 * 4 & 15;
            int hi = p[128 + half * 32 + l] >> quarter * 2 & 3;
            *dst++ = d * (float)(int8_t)p[192 + i / 16] * (float)((lo | hi << 4) - 32);
        }
    }
}

static const aq_type types[] = {
    {AQ_T_F32, "F32", 1, 4, dequant_f32},
    {AQ_T_F16, "F16", 1, 2, dequant_f16},
    {AQ_T_BF16, "BF16", 1, 2, dequant_bf16},
    {AQ_T_Q8_0, "Q8_0", 32, 34, dequant_q8_0},
    {AQ_T_Q4_1, "Q4_1", 32, 20, dequant_q4_1},
    {AQ_T_Q4_K, "Q4_K", 256, 144, dequant_q4_k},
    {AQ_T_Q5_K, "Q5_K", 256, 176, dequant_q5_k},
    {AQ_T_Q6_K, "Q6_K", 256, 210, dequant_q6_k},
    /* known by name and size, so that a message can say what it is */
    {2, "Q4_0", 32, 18, NULL},
    {6, "Q5_0", 32, 22, NULL},
    {7, "Q5_1", 32, 24, NULL},
    {9, "Q8_1", 32, 36, NULL},
    {10, "Q2_K", 256, 84, NULL},
    {11, "Q3_K", 256, 110, NULL},
    {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL},
    {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL},
    {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, NULL},
    {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},
    {23, "IQ4_XS", 256, 136, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", 256, 56, NULL},
    {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},
    {39, "MXFP4", 32, 17, NULL},
    {40, "NVFP4", 64, 36, NULL},
    {41, "Q1_0", 128, 18, NULL},
    {42, "Q2_0", 64, 18, NULL},
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
