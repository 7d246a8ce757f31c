/* SPDX-License-Identifier: Apache-2.0 */
/* The path "neon": Advanced SIMD of 64-bit Arm with dot products of bytes (Armv8.2 DotProd). Compiled
 * with its own flags; only after the system has said that the CPU has them. Any thread.
 *
 * Weights become signed bytes in registers; one instruction multiplies the four columns of four weight
 * rows with a quad of the input row and adds them up in 32 bits. Tiles have 8 rows: two vectors. */
#include <arm_neon.h>
#include <math.h>

#include "cpu-priv.h"
#include "quant-priv.h"

#if defined(__clang__)
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif
#define LANES 8u
#define INLINE static inline __attribute__((always_inline))

typedef struct f8 {
    float32x4_t v[2];
} f8; /* a float per weight row */

INLINE float32x4_t f16x4(const void *p)
{
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

INLINE f8 f8_f16(const uint8_t *p)
{
    return (f8){{f16x4(p), f16x4(p + 8)}};
}

/* acc += sum × quad `lane` of q; the lane is a constant once loops are unrolled. */
INLINE int32x4_t dot(int32x4_t sum, int8x16_t w, int8x16_t q, int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, w, q, 0);
    case 1:
        return vdotq_laneq_s32(sum, w, q, 1);
    case 2:
        return vdotq_laneq_s32(sum, w, q, 2);
    default:
        return vdotq_laneq_s32(sum, w, q, 3);
    }
}

/* ---- quantised weights ---- */

static const int8_t mxfp4_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

INLINE bool of_256(int layout)
{
    return layout == AQ_L_Q4_K || layout == AQ_L_Q5_K || layout == AQ_L_Q6_K ||
           layout == AQ_L_IQ4_XS;
}

/* Bytes of a row's block, by layout. */
INLINE uint32_t block_bytes(int layout)
{
    switch (layout) {
    case AQ_L_Q8_0:
        return 34;
    case AQ_L_Q4_1:
        return 20;
    case AQ_L_MXFP4:
        return 17;
    case AQ_L_Q4_K:
        return 144;
    case AQ_L_Q5_K:
        return 176;
    case AQ_L_Q6_K:
        return 210;
    case AQ_L_IQ4_XS:
        return 136;
    default:
        return 18;
    }
}

INLINE uint8x16_t shift(uint8x16_t v, int left)
{
    return vshlq_u8(v, vdupq_n_s8((int8_t)left));
}

/* Quad i of sub-block j of a block at t, four weight rows from 4 v on. */
INLINE int8x16_t quad_of(const int layout, const uint8_t *t, uint32_t j, int i, int v)
{
    const uint8x16_t low = vdupq_n_u8(15);
    const size_t at = 32 * (size_t)i + 16 * (size_t)v, at4 = 32 * (size_t)(i % 4) + 16 * (size_t)v;
    uint8x16_t w;
    switch (layout) {
    case AQ_L_Q8_0:
        return vreinterpretq_s8_u8(vld1q_u8(t + 16 + at));
    case AQ_L_Q4_K:
    case AQ_L_Q5_K:
        w = vld1q_u8(t + (layout == AQ_L_Q5_K ? 384 : 128) + 256 * (j / 2) + at);
        w = vandq_u8(shift(w, -4 * (int)(j % 2)), low);
        if (layout == AQ_L_Q5_K) {
            uint8x16_t bit = shift(vld1q_u8(t + 128 + at), -(int)j);
            w = vorrq_u8(w, vandq_u8(vshlq_n_u8(bit, 4), vdupq_n_u8(16)));
        }
        return vreinterpretq_s8_u8(w);
    case AQ_L_Q6_K: {
        uint8x16_t lo = vld1q_u8(t + 144 + j / 4 * 512 + j % 2 * 256 + at),
                   hi = vld1q_u8(t + 1168 + j / 4 * 256 + at);
        w = vandq_u8(shift(lo, -4 * (int)(j % 4 / 2)), low);
        w = vorrq_u8(w, vandq_u8(shift(hi, 4 - 2 * (int)(j % 4)), vdupq_n_u8(0x30)));
        return vsubq_s8(vreinterpretq_s8_u8(w), vdupq_n_s8(32));
    }
    case AQ_L_IQ4_XS:
        w = vld1q_u8(t + 64 + 128 * j + at4);
        break;
    default:
        w = vld1q_u8(t + (layout == AQ_L_Q4_1 ? 32 : layout == AQ_L_MXFP4 ? 8 : 16) + at4);
    }
    w = i < 4 ? vandq_u8(w, low) : vshrq_n_u8(w, 4);
    if (layout == AQ_L_Q4_0)
        return vsubq_s8(vreinterpretq_s8_u8(w), vdupq_n_s8(8));
    if (layout == AQ_L_Q4_1)
        return vreinterpretq_s8_u8(w);
    return vqtbl1q_s8(vld1q_s8(layout == AQ_L_MXFP4 ? mxfp4_value : aq_iq4_value), w);
}

/* 2^(e - 128) */
INLINE f8 half_e8m0(const uint8_t *e)
{
    uint16x8_t all = vmovl_u8(vld1_u8(e));
    f8 o;
    EACH (v, 2) {
        uint32x4_t x = v ? vmovl_high_u16(all) : vmovl_u16(vget_low_u16(all)), one = vdupq_n_u32(1);
        uint32x4_t big = vshlq_n_u32(vsubq_u32(x, one), 23),
                   small = vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(x));
        o.v[v] = vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(x, one), big, small));
    }
    return o;
}

typedef struct i8 {
    int32x4_t v[2];
} i8; /* an integer per weight row */

INLINE i8 i8_of(int16x8_t v)
{
    return (i8){{vmovl_s16(vget_low_s16(v)), vmovl_high_s16(v)}};
}

/* 8 bytes, one per weight row, from a K block's 12 rows of them: scale or min of sub-block j. */
INLINE i8 k_scale(const uint8_t *s, uint32_t j, bool min)
{
    uint8x8_t a, b;
    if (j < 4) {
        a = vand_u8(vld1_u8(s + 8 * (j + (min ? 4 : 0))), vdup_n_u8(63));
    } else {
        a = vld1_u8(s + 8 * (j + 4));
        b = vld1_u8(s + 8 * (min ? j : j - 4));
        a = min ? vshr_n_u8(a, 4) : vand_u8(a, vdup_n_u8(15));
        a = vorr_u8(a, vshl_n_u8(vshr_n_u8(b, 6), 4));
    }
    return i8_of(vreinterpretq_s16_u16(vmovl_u8(a)));
}

/* Scale of sub-block j of a block of 256, of Q6_K that of its half. */
INLINE i8 scale_256(const int layout, const uint8_t *t, uint32_t j, uint32_t half)
{
    if (layout == AQ_L_Q6_K)
        return i8_of(vmovl_s8(vld1_s8((const int8_t *)t + 16 + (2 * j + half) * LANES)));
    if (layout != AQ_L_IQ4_XS)
        return k_scale(t + 32, j, false);
    uint16_t h[8];
    memcpy(h, t + 16, sizeof h);
    uint16x8_t high = vshlq_u16(vld1q_u16(h), vdupq_n_s16((int16_t)(-2 * (int)j))),
               low = vmovl_u8(vld1_u8(t + 32 + j / 2 * 8));
    low = vandq_u16(vshlq_u16(low, vdupq_n_s16((int16_t)(-4 * (int)(j % 2)))), vdupq_n_u16(15));
    low = vorrq_u16(low, vshlq_n_u16(vandq_u16(high, vdupq_n_u16(3)), 4));
    return i8_of(vsubq_s16(vreinterpretq_s16_u16(low), vdupq_n_s16(32)));
}

INLINE float32x4_t add_block(float32x4_t acc, int32x4_t sum, float32x4_t dw, float da)
{
    return vfmaq_n_f32(acc, vmulq_f32(vcvtq_f32_s32(sum), dw), da);
}

/* Quads [i0, i0 + 4) of 32 columns, whose 16 input bytes stand at `at`. */
INLINE void sum_16(const int layout, const uint8_t *t, uint32_t j, const int i0,
                   const aq_row_in *row, size_t at, const int n, int32x4_t (*sum)[2])
{
    int8x16_t q[4];
    EACH (i, n)
        q[i] = vld1q_s8(row[i].q + at);
    EACH (c, 4)
        EACH (v, 2) {
            int8x16_t w = quad_of(layout, t, j, i0 + c, v);
            EACH (i, n)
                sum[i][v] = dot(sum[i][v], w, q[i], c);
        }
}

INLINE void zero(int32x4_t (*sum)[2], const int n)
{
    EACH (i, n)
        EACH (v, 2)
            sum[i][v] = vdupq_n_s32(0);
}

/* Blocks of 32. */
INLINE void tile_32(const int layout, const uint8_t *t, uint32_t k, const aq_row_in *row,
                    const int n, f8 *acc)
{
    for (uint32_t b = 0; b < k / 32; b++, t += block_bytes(layout) * LANES) {
        int32x4_t sum[4][2];
        zero(sum, n);
        sum_16(layout, t, 0, 0, row, 32 * (size_t)b, n, sum);
        sum_16(layout, t, 0, 4, row, 32 * (size_t)b + 16, n, sum);
        const f8 d = layout == AQ_L_MXFP4 ? half_e8m0(t) : f8_f16(t);
        EACH (i, n)
            EACH (v, 2)
                acc[i].v[v] = add_block(acc[i].v[v], sum[i][v], d.v[v], row[i].d[b]);
        if (layout != AQ_L_Q4_1)
            continue;
        const f8 m = f8_f16(t + 16);
        EACH (i, n)
            EACH (v, 2)
                acc[i].v[v] = vfmaq_n_f32(acc[i].v[v], m.v[v], row[i].s[b]);
    }
}

/* Blocks of 256: exact sums with the sub-blocks' integer scales and mins, then one float step. */
INLINE void tile_256(const int layout, const uint8_t *t, uint32_t k, const aq_row_in *row,
                     const int n, f8 *acc)
{
    const bool has_min = layout == AQ_L_Q4_K || layout == AQ_L_Q5_K;
    for (uint32_t b = 0; b < k / 256; b++, t += block_bytes(layout) * LANES) {
        int32x4_t all[4][2], mins[4][2];
        zero(all, n);
        zero(mins, n);
        for (uint32_t j = 0; j < 8; j++) {
            const size_t at = 256 * (size_t)b + 32 * j;
            int32x4_t sum[4][2];
            i8 by;
            zero(sum, n);
            sum_16(layout, t, j, 0, row, at, n, sum);
            if (layout == AQ_L_Q6_K) {
                by = scale_256(layout, t, j, 0);
                EACH (i, n)
                    EACH (v, 2)
                        all[i][v] = vmlaq_s32(all[i][v], sum[i][v], by.v[v]);
                zero(sum, n);
            }
            sum_16(layout, t, j, 4, row, at + 16, n, sum);
            by = scale_256(layout, t, j, 1);
            EACH (i, n)
                EACH (v, 2)
                    all[i][v] = vmlaq_s32(all[i][v], sum[i][v], by.v[v]);
            if (!has_min)
                continue;
            by = k_scale(t + 32, j, true);
            EACH (i, n)
                EACH (v, 2)
                    mins[i][v] = vmlaq_n_s32(mins[i][v], by.v[v], row[i].sum32[at / 32]);
        }
        const f8 d = f8_f16(t);
        EACH (i, n)
            EACH (v, 2)
                acc[i].v[v] = vfmaq_f32(acc[i].v[v], vcvtq_f32_s32(all[i][v]),
                                        vmulq_n_f32(d.v[v], row[i].d[b]));
        if (!has_min)
            continue;
        const f8 m = f8_f16(t + 16);
        EACH (i, n)
            EACH (v, 2)
                acc[i].v[v] = vfmsq_f32(acc[i].v[v], vcvtq_f32_s32(mins[i][v]),
                                        vmulq_n_f32(m.v[v], row[i].d[b]));
    }
}

INLINE void tile_n(const int layout, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                   const int n, float (*y)[AQ_LANES_MAX])
{
    f8 acc[4];
    EACH (i, n)
        acc[i].v[0] = acc[i].v[1] = vdupq_n_f32(0);
    if (of_256(layout))
        tile_256(layout, tile, k, row, n, acc);
    else
        tile_32(layout, tile, k, row, n, acc);
    EACH (i, n)
        EACH (v, 2)
            vst1q_f32(y[i] + 4 * v, acc[i].v[v]);
}

/* One function per number of rows, so that the sums of each stay in registers. */
#define TILE_FN(name, layout)                                                           \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        for (; n >= 4; n -= 4, row += 4, y += 4)                                        \
            tile_n(layout, tile, k, row, 4, y);                                         \
        for (; n >= 2; n -= 2, row += 2, y += 2)                                        \
            tile_n(layout, tile, k, row, 2, y);                                         \
        if (n)                                                                          \
            tile_n(layout, tile, k, row, 1, y);                                         \
    }
TILE_FN(tile_q8_0, AQ_L_Q8_0)
TILE_FN(tile_q4_0, AQ_L_Q4_0)
TILE_FN(tile_q4_1, AQ_L_Q4_1)
TILE_FN(tile_q4_k, AQ_L_Q4_K)
TILE_FN(tile_q5_k, AQ_L_Q5_K)
TILE_FN(tile_q6_k, AQ_L_Q6_K)
TILE_FN(tile_iq4_nl, AQ_L_IQ4_NL)
TILE_FN(tile_iq4_xs, AQ_L_IQ4_XS)
TILE_FN(tile_mxfp4, AQ_L_MXFP4)

/* ---- float weights ---- */

INLINE float32x4_t weight(const int layout, const uint8_t *tile, size_t at)
{
    if (layout == AQ_L_F32)
        return vld1q_f32((const float *)(const void *)tile + at);
    if (layout == AQ_L_F16)
        return f16x4(tile + 2 * at);
    uint16_t h[4];
    memcpy(h, tile + 2 * at, sizeof h);
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(h), 16));
}

/* Column c goes to chain c mod 4. */
INLINE void tile_float_n(const int layout, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                         const int n, float (*y)[AQ_LANES_MAX])
{
    f8 sum[2][4];
    EACH (i, n)
        EACH (c, 4)
            sum[i][c].v[0] = sum[i][c].v[1] = vdupq_n_f32(0);
    for (uint32_t at = 0; at < k; at += 4)
        EACH (c, 4) {
            if (at + (uint32_t)c >= k)
                break;
            EACH (v, 2) {
                float32x4_t w = weight(layout, tile, (at + (size_t)c) * LANES + 4 * (size_t)v);
                EACH (i, n)
                    sum[i][c].v[v] = vfmaq_n_f32(sum[i][c].v[v], w, row[i].x[at + (uint32_t)c]);
            }
        }
    EACH (i, n)
        EACH (v, 2)
            vst1q_f32(y[i] + 4 * v, vaddq_f32(vaddq_f32(sum[i][0].v[v], sum[i][1].v[v]),
                                              vaddq_f32(sum[i][2].v[v], sum[i][3].v[v])));
}

#define FLOAT_TILE(name, layout)                                                        \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        for (; n >= 2; n -= 2, row += 2, y += 2)                                        \
            tile_float_n(layout, tile, k, row, 2, y);                                   \
        if (n)                                                                          \
            tile_float_n(layout, tile, k, row, 1, y);                                   \
    }
FLOAT_TILE(tile_f32, AQ_L_F32)
FLOAT_TILE(tile_f16, AQ_L_F16)
FLOAT_TILE(tile_bf16, AQ_L_BF16)

/* ---- rows ---- */

INLINE float block_scale(uint32x4_t top, float *ret_inv)
{
    uint32_t bits = vmaxvq_u32(top);
    float max;
    memcpy(&max, &bits, 4);
    *ret_inv = max >= 0x1p-100f ? 127 / max : 0;
    return max / 127;
}

INLINE uint32x4_t most_bits(uint32x4_t top, float32x4_t v) /* as bits: see the path "c" */
{
    return vmaxq_u32(top, vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x7fffffff)));
}

/* 16 values; returns their sum. */
INLINE int32_t round_16(const float *x, float inv, int8_t *q)
{
    int16x8_t h[2];
    EACH (i, 2)
        h[i] = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i), inv))),
                            vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i + 4), inv))));
    int8x16_t v = vmaxq_s8(vcombine_s8(vqmovn_s16(h[0]), vqmovn_s16(h[1])), vdupq_n_s8(-127));
    vst1q_s8(q, v);
    return vaddlvq_s8(v);
}

static void quant(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 32; b++, x += 32) {
        uint32x4_t top = vdupq_n_u32(0);
        EACH (i, 8)
            top = most_bits(top, vld1q_f32(x + 4 * i));
        float inv;
        o->d[b] = block_scale(top, &inv);
        int32_t sum = round_16(x, inv, o->q + 32 * b);
        sum += round_16(x + 16, inv, o->q + 32 * b + 16);
        o->s[b] = o->d[b] * (float)sum;
        o->n32[b] = -128 * sum;
    }
}

static void quant_256(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 256; b++, x += 256) {
        uint32x4_t top = vdupq_n_u32(0);
        for (uint32_t c = 0; c < 256; c += 4)
            top = most_bits(top, vld1q_f32(x + c));
        float inv;
        o->d[b] = block_scale(top, &inv);
        for (uint32_t i = 0; i < 16; i++)
            o->sum16[16 * b + i] =
                (int16_t)round_16(x + 16 * i, inv, o->q + 256 * (size_t)b + 16 * i);
        for (uint32_t i = 8 * b; i < 8 * b + 8; i++)
            o->sum32[i] = (int16_t)(o->sum16[2 * i] + o->sum16[2 * i + 1]);
    }
}

static void norm(const float *x, const float *w, uint32_t dim, float eps, float *y)
{
    float32x4_t a[4];
    EACH (j, 4)
        a[j] = vdupq_n_f32(0);
    uint32_t i = 0;
    for (; i + 16 <= dim; i += 16)
        EACH (j, 4) {
            float32x4_t v = vld1q_f32(x + i + 4 * j);
            a[j] = vfmaq_f32(a[j], v, v);
        }
    float sum = vaddvq_f32(vaddq_f32(vaddq_f32(a[0], a[1]), vaddq_f32(a[2], a[3])));
    for (; i < dim; i++)
        sum += x[i] * x[i];
    float inv = 1 / sqrtf(sum / (float)dim + eps);
    for (i = 0; i + 4 <= dim; i += 4)
        vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), inv), vld1q_f32(w + i)));
    for (; i < dim; i++)
        y[i] = x[i] * inv * w[i];
}

/* As exp8 of isa-avx2.c. */
INLINE float32x4_t exp4(float32x4_t x)
{
    const float c[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, .5f, 1, 1};
    uint32x4_t under = vcltq_f32(x, vdupq_n_f32(-87)), over = vcgtq_f32(x, vdupq_n_f32(88));
    float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 1.44269504f));
    float32x4_t r = vfmsq_n_f32(x, n, 0.693359375f);
    r = vfmsq_n_f32(r, n, -2.12194440e-4f);
    float32x4_t p = vdupq_n_f32(c[0]);
    EACH (i, 7)
        p = vfmaq_f32(vdupq_n_f32(c[i + 1]), p, r);
    int32x4_t e = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    p = vmulq_f32(p, vreinterpretq_f32_s32(e));
    p = vbslq_f32(under, vdupq_n_f32(0), p);
    return vbslq_f32(over, vdupq_n_f32(INFINITY), p);
}

INLINE float32x4_t swiglu4(float32x4_t g, float32x4_t u)
{
    float32x4_t e = exp4(vnegq_f32(g));
    return vmulq_f32(vdivq_f32(g, vaddq_f32(vdupq_n_f32(1), e)), u);
}

INLINE float32x4_t oai4(float32x4_t g, float32x4_t u)
{
    const float32x4_t one = vdupq_n_f32(1), most = vdupq_n_f32(7);
    g = vminq_f32(g, most);
    u = vmaxq_f32(vminq_f32(u, most), vdupq_n_f32(-7));
    float32x4_t e = exp4(vmulq_n_f32(g, -1.702f));
    return vmulq_f32(vdivq_f32(g, vaddq_f32(one, e)), vaddq_f32(u, one));
}

#define GLU(name, of)                                                        \
    static void name(const float *gate, const float *up, size_t n, float *y) \
    {                                                                        \
        size_t i = 0;                                                        \
        for (; i + 4 <= n; i += 4)                                           \
            vst1q_f32(y + i, of(vld1q_f32(gate + i), vld1q_f32(up + i)));    \
        if (i < n) {                                                         \
            float g[4] = {0}, u[4] = {0};                                    \
            memcpy(g, gate + i, (n - i) * 4);                                \
            memcpy(u, up + i, (n - i) * 4);                                  \
            vst1q_f32(g, of(vld1q_f32(g), vld1q_f32(u)));                    \
            memcpy(y + i, g, (n - i) * 4);                                   \
        }                                                                    \
    }
GLU(swiglu, swiglu4)
GLU(oai, oai4)

static void to_f16(const float *x, size_t n, uint16_t *y)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(y + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++)
        y[i] = aq_f32_to_f16(x[i]);
}

static void from_f16(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, f16x4(x + i));
    for (; i < n; i++)
        y[i] = aq_f16_to_f32(x[i]);
}

/* ---- attention ---- */

/* Four entries at once; the last ones again for none. */
static void scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                   float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    for (uint32_t i = 0; i < m; i++) {
        top[i] = -INFINITY;
        for (uint32_t t = 0; t < n_tok; t += 4) {
            const float *row[4];
            float32x4_t a[4];
            float out[4];
            EACH (j, 4) {
                row[j] = k + (size_t)AQ_MIN(t + (uint32_t)j, n_tok - 1) * d;
                a[j] = vdupq_n_f32(0);
            }
            uint32_t c = 0;
            for (; c + 4 <= d; c += 4) {
                float32x4_t x = vld1q_f32(q[i] + c);
                EACH (j, 4)
                    a[j] = vfmaq_f32(a[j], x, vld1q_f32(row[j] + c));
            }
            vst1q_f32(out, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])));
            for (uint32_t j = 0; j < 4 && t + j < n_tok; j++) {
                for (uint32_t r = c; r < d; r++)
                    out[j] += q[i][r] * row[j][r];
                s[i][t + j] = out[j] * scale;
                top[i] = s[i][t + j] > top[i] ? s[i][t + j] : top[i];
            }
        }
    }
}

static float exps(float *s, uint32_t n, float max)
{
    float32x4_t sum = vdupq_n_f32(0), m = vdupq_n_f32(max);
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t e = exp4(vsubq_f32(vld1q_f32(s + i), m));
        vst1q_f32(s + i, e);
        sum = vaddq_f32(sum, e);
    }
    float total = vaddvq_f32(sum);
    if (i < n) {
        float e[4] = {0};
        memcpy(e, s + i, (n - i) * 4);
        vst1q_f32(e, exp4(vsubq_f32(vld1q_f32(e), m)));
        memcpy(s + i, e, (n - i) * 4);
        for (uint32_t j = 0; j < n - i; j++)
            total += e[j];
    }
    return total;
}

/* d in pieces of 16 for up to two heads, each lane one chain over the entries. */
INLINE void mix_n(const float (*p)[AQ_ATTN_TOK], const int m, const float *v, uint32_t n_tok,
                  uint32_t d, const float *c, float *const *o)
{
    uint32_t i = 0;
    for (; i + 16 <= d; i += 16) {
        float32x4_t a[2][4];
        EACH (h, m)
            EACH (j, 4)
                a[h][j] = vmulq_n_f32(vld1q_f32(o[h] + i + 4 * j), c[h]);
        for (uint32_t t = 0; t < n_tok; t++)
            EACH (j, 4) {
                float32x4_t x = vld1q_f32(v + (size_t)t * d + i + 4 * (size_t)j);
                EACH (h, m)
                    a[h][j] = vfmaq_n_f32(a[h][j], x, p[h][t]);
            }
        EACH (h, m)
            EACH (j, 4)
                vst1q_f32(o[h] + i + 4 * j, a[h][j]);
    }
    for (; i < d; i++)
        EACH (h, m) {
            float a = c[h] * o[h][i];
            for (uint32_t t = 0; t < n_tok; t++)
                a = fmaf(p[h][t], v[(size_t)t * d + i], a);
            o[h][i] = a;
        }
}

static void mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                uint32_t d, const float *c, float *const *o)
{
    for (; m >= 2; m -= 2, p += 2, c += 2, o += 2)
        mix_n(p, 2, v, n_tok, d, c, o);
    if (m)
        mix_n(p, 1, v, n_tok, d, c, o);
}

/* ---- delta net ---- */

static void delta(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                  const float *s_in, float *s_out, float *o)
{
    for (uint32_t j = 0; j < d; j++, s_in += d, s_out += d) {
        float32x4_t a[2] = {vdupq_n_f32(0), vdupq_n_f32(0)}, b[2] = {a[0], a[0]};
        uint32_t i = 0;
        for (; i + 8 <= d; i += 8)
            EACH (h, 2) {
                float32x4_t s = vmulq_n_f32(vld1q_f32(s_in + i + 4 * h), e);
                a[h] = vfmaq_f32(a[h], s, vld1q_f32(k + i + 4 * h));
                vst1q_f32(s_out + i + 4 * h, s);
            }
        float kv = vaddvq_f32(vaddq_f32(a[0], a[1]));
        for (; i < d; i++) {
            s_out[i] = s_in[i] * e;
            kv += s_out[i] * k[i];
        }
        float r = beta * (v[j] - kv);
        for (i = 0; i + 8 <= d; i += 8)
            EACH (h, 2) {
                float32x4_t s =
                    vfmaq_n_f32(vld1q_f32(s_out + i + 4 * h), vld1q_f32(k + i + 4 * h), r);
                b[h] = vfmaq_f32(b[h], s, vld1q_f32(q + i + 4 * h));
                vst1q_f32(s_out + i + 4 * h, s);
            }
        float out = vaddvq_f32(vaddq_f32(b[0], b[1]));
        for (; i < d; i++) {
            s_out[i] += k[i] * r;
            out += s_out[i] * q[i];
        }
        o[j] = out;
    }
}

const aq_isa aq_isa_neon = {
    .name = "neon",
    .lanes = LANES,
    .rows = 4,
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
    .quant = quant,
    .quant_256 = quant_256,
    .norm = norm,
    .swiglu = swiglu,
    .to_f16 = to_f16,
    .from_f16 = from_f16,
    .scores = scores,
    .exps = exps,
    .mix = mix,
    .delta = delta,
    .oai = oai,
};
