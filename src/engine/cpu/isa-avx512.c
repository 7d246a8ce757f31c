/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx512": AVX-512 F, BW, DQ, VL and VNNI; tiles of 16 rows. What gains nothing from
 * longer vectors is that of isa-avx2.c. Compiled with its own flags; only after CPUID has said so.
 * Any thread. */
#define AQ_V 16
#include <math.h>

#include "isa-amx-priv.h"
#include "isa-avx2-priv.h"
#include "tiles-vnni.h"

/* ---- float weights ---- */

INLINE __m512 weight(int layout, const uint8_t *tile, size_t c)
{
    if (layout == AQ_L_F32)
        return _mm512_loadu_ps(tile + c * LANES * 4);
    if (layout == AQ_L_F16)
        return V_LOAD_F16(tile + c * LANES * 2);
    return _mm512_castsi512_ps(_mm512_slli_epi32(W_TO_32(tile + c * LANES * 2), 16));
}

/* Column c goes to chain c mod 4. */
INLINE void tile_float_n(const int layout, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                         const int n, float (*y)[AQ_LANES_MAX])
{
    __m512 sum[4][4];
    EACH (i, n)
        EACH (j, 4)
            sum[i][j] = _mm512_setzero_ps();
    uint32_t c = 0;
    for (; c + 4 <= k; c += 4)
        EACH (j, 4) {
            __m512 w = weight(layout, tile, c + (uint32_t)j);
            EACH (i, n)
                sum[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(row[i].x[c + (uint32_t)j]), w, sum[i][j]);
        }
    EACH (j, 3)
        if (c + (uint32_t)j < k) {
            __m512 w = weight(layout, tile, c + (uint32_t)j);
            EACH (i, n)
                sum[i][j] =
                    _mm512_fmadd_ps(_mm512_set1_ps(row[i].x[c + (uint32_t)j]), w, sum[i][j]);
        }
    EACH (i, n)
        _mm512_storeu_ps(y[i], _mm512_add_ps(_mm512_add_ps(sum[i][0], sum[i][1]),
                                             _mm512_add_ps(sum[i][2], sum[i][3])));
}

#define FLOAT_TILE(name, layout)                                                        \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        for (; n >= 4; n -= 4, row += 4, y += 4)                                        \
            tile_float_n(layout, tile, k, row, 4, y);                                   \
        for (; n; n--, row++, y++)                                                      \
            tile_float_n(layout, tile, k, row, 1, y);                                   \
    }
FLOAT_TILE(tile_f32, AQ_L_F32)
FLOAT_TILE(tile_f16, AQ_L_F16)
FLOAT_TILE(tile_bf16, AQ_L_BF16)

/* ---- rows ---- */

/* As exp8 of isa-avx2.c. */
INLINE __m512 exp16(__m512 x)
{
    const float c[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, .5f, 1, 1};
    const __m512 zero = _mm512_setzero_ps();
    __mmask16 under = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87), _CMP_LT_OQ),
              over = _mm512_cmp_ps_mask(x, _mm512_set1_ps(88), _CMP_GT_OQ);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(c[0]);
    EACH (i, 7)
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c[i + 1]));
    p = _mm512_scalef_ps(p, n);
    p = _mm512_mask_mov_ps(p, under, zero);
    return _mm512_mask_mov_ps(p, over, _mm512_set1_ps(INFINITY));
}

static void swiglu(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
        __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
        __m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), g));
        g = _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1), e)), u);
        _mm512_mask_storeu_ps(y + i, m, g);
    }
}

static float exps(float *s, uint32_t n, float max)
{
    __m512 sum = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
        __m512 e = exp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, s + i), _mm512_set1_ps(max)));
        _mm512_mask_storeu_ps(s + i, m, e);
        sum = _mm512_mask_add_ps(sum, m, sum, e);
    }
    return _mm512_reduce_add_ps(sum);
}

/* ---- attention ---- */

/* Pairs of vectors to one of the sums of half as many lanes each, until a lane holds the sum of a
 * vector. */
INLINE __m512 sums16(const __m512 *v)
{
    __m512 a[8], b[4], c[2];
    EACH (i, 8)
        a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xee));
    EACH (i, 4)
        b[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(a[2 * i], a[2 * i + 1], 0xdd));
    EACH (i, 2)
        c[i] = _mm512_add_ps(_mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0x44),
                             _mm512_shuffle_ps(b[2 * i], b[2 * i + 1], 0xee));
    __m512 e =
        _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xdd));
    /* 128-bit lane i, place j hold the sum of v[4 j + i] */
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), e);
}

INLINE __m512 cols(const bool all, __mmask16 m, const float *p)
{
    return all ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
}

/* 16 columns from c on, all or those in m: each entry meets n = 1 or 2 queries. */
INLINE void score_cols(const bool all, __mmask16 m, const float *const *q, const int n,
                       const float *const *row, uint32_t c, __m512 *a)
{
    __m512 x = cols(all, m, q[0] + c), z = n == 2 ? cols(all, m, q[1] + c) : x;
#pragma GCC unroll 16
    for (uint32_t j = 0; j < (n == 1 ? 16u : 8u); j++) {
        __m512 e = cols(all, m, row[j] + c);
        a[j] = _mm512_fmadd_ps(x, e, a[j]);
        if (n == 2)
            a[j + 8] = _mm512_fmadd_ps(z, e, a[j + 8]);
    }
}

/* Scores of n = 1 or 2 queries, 16 / n entries at a time. A sum's order is the same in both. */
INLINE void scores_n(const float *const *q, const int n, const float *k, uint32_t n_tok, uint32_t d,
                     float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    const __mmask16 tail = (__mmask16)((1u << d % 16) - 1);
    const uint32_t step = n == 1 ? 16 : 8;
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n_tok; t += step) { /* the last ones again for none */
        const float *row[16];
        __m512 a[16];
#pragma GCC unroll 16
        for (uint32_t j = 0; j < 16; j++) {
            row[j] = k + (size_t)AQ_MIN(t + j % step, n_tok - 1) * d;
            a[j] = _mm512_setzero_ps();
        }
        uint32_t c = 0;
        for (; c + 16 <= d; c += 16)
            score_cols(true, 0, q, n, row, c, a);
        if (tail)
            score_cols(false, tail, q, n, row, c, a);
        __m512 out = _mm512_mul_ps(sums16(a), _mm512_set1_ps(scale));
        const uint32_t left = AQ_MIN(n_tok - t, step);
        const __mmask16 there = (__mmask16)((1u << left) - 1);
        if (n == 1) {
            _mm512_mask_storeu_ps(s[0] + t, there, out);
        } else {
            _mm256_mask_storeu_ps(s[0] + t, (__mmask8)there, _mm512_castps512_ps256(out));
            _mm256_mask_storeu_ps(s[1] + t, (__mmask8)there, _mm512_extractf32x8_ps(out, 1));
        }
        most = _mm512_max_ps(out, most); /* the last one again changes no maximum */
    }
    if (n == 1) {
        top[0] = _mm512_reduce_max_ps(most);
    } else {
        top[0] = _mm512_mask_reduce_max_ps(0xff, most);
        top[1] = _mm512_mask_reduce_max_ps(0xff00, most);
    }
}

static void scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                   float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    for (; m >= 2; m -= 2, q += 2, s += 2, top += 2)
        scores_n(q, 2, k, n_tok, d, scale, s, top);
    if (m)
        scores_n(q, 1, k, n_tok, d, scale, s, top);
}

/* 64 columns of d, or those that are left, for up to four heads; each lane is one chain over the entries. */
INLINE void mix_cols(const bool all, const float (*p)[AQ_ATTN_TOK], const int m, const float *v,
                     uint32_t n_tok, uint32_t d, const float *c, float *const *o, uint32_t i)
{
    __mmask16 mask[4];
    __m512 a[4][4];
    EACH (j, 4) {
        int32_t left = (int32_t)d - (int32_t)i - 16 * j;
        mask[j] = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
    }
    EACH (h, m)
        EACH (j, 4)
            a[h][j] = _mm512_mul_ps(_mm512_set1_ps(c[h]), cols(all, mask[j], o[h] + i + 16 * j));
    for (uint32_t t = 0; t < n_tok; t++)
        EACH (j, 4) {
            __m512 x = cols(all, mask[j], v + (size_t)t * d + i + 16 * j);
            EACH (h, m)
                a[h][j] = _mm512_fmadd_ps(_mm512_set1_ps(p[h][t]), x, a[h][j]);
        }
    EACH (h, m)
        EACH (j, 4)
            _mm512_mask_storeu_ps(o[h] + i + 16 * j, all ? 0xffff : mask[j], a[h][j]);
}

INLINE void mix_n(const float (*p)[AQ_ATTN_TOK], const int m, const float *v, uint32_t n_tok,
                  uint32_t d, const float *c, float *const *o)
{
    uint32_t i = 0;
    for (; i + 64 <= d; i += 64)
        mix_cols(true, p, m, v, n_tok, d, c, o, i);
    if (i < d)
        mix_cols(false, p, m, v, n_tok, d, c, o, i);
}

static void mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                uint32_t d, const float *c, float *const *o)
{
    for (; m >= 4; m -= 4, p += 4, c += 4, o += 4)
        mix_n(p, 4, v, n_tok, d, c, o);
    for (; m; m--, p++, c++, o++)
        mix_n(p, 1, v, n_tok, d, c, o);
}

#define KERNELS                                                                                    \
    .lanes = LANES, .rows = ROWS_MAX,                                                              \
    .tile = {[AQ_L_F32] = tile_f32,       [AQ_L_F16] = tile_f16,       [AQ_L_BF16] = tile_bf16,    \
             [AQ_L_Q8_0] = tile_q8_0,     [AQ_L_Q4_0] = tile_q4_0,     [AQ_L_Q4_1] = tile_q4_1,    \
             [AQ_L_Q4_K] = tile_q4_k,     [AQ_L_Q5_K] = tile_q5_k,     [AQ_L_Q6_K] = tile_q6_k,    \
             [AQ_L_IQ4_NL] = tile_iq4_nl, [AQ_L_IQ4_XS] = tile_iq4_xs, [AQ_L_MXFP4] = tile_mxfp4}, \
    .quant = aq_avx2_quant, .quant_256 = aq_avx2_quant_256, .norm = aq_avx2_norm,                  \
    .swiglu = swiglu, .to_f16 = aq_avx2_to_f16, .from_f16 = aq_avx2_from_f16,                      \
    .from_q8 = aq_avx2_from_q8, .scores = scores, .exps = exps, .mix = mix,                        \
    .delta = aq_avx2_delta, .oai = aq_avx2_oai

const aq_isa aq_isa_avx512 = {.name = "avx512", KERNELS};
/* Few rows are computed as by the path above. */
const aq_isa aq_isa_amx = {.name = "amx",
                           KERNELS,
                           .many = {[AQ_L_Q8_0] = aq_amx_q8_0,
                                    [AQ_L_Q4_0] = aq_amx_q4_0,
                                    [AQ_L_Q4_1] = aq_amx_q4_1,
                                    [AQ_L_Q4_K] = aq_amx_q4_k,
                                    [AQ_L_Q5_K] = aq_amx_q5_k,
                                    [AQ_L_Q6_K] = aq_amx_q6_k,
                                    [AQ_L_IQ4_NL] = aq_amx_iq4_nl,
                                    [AQ_L_IQ4_XS] = aq_amx_iq4_xs,
                                    [AQ_L_MXFP4] = aq_amx_mxfp4}};
