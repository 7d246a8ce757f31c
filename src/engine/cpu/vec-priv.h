/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of AQ_V = 16 or 8 lanes under one set of names, and what the kernels of several files do with
 * them. Included by files that are compiled with their instruction set's flags. */
#include <immintrin.h>

#include "each-priv.h"
#include "quant-priv.h"

#if AQ_V == 16
#define ROWS_MAX 8
typedef __m512i vi;
typedef __m512 vf;
#define V_LOAD(p) _mm512_loadu_si512(p)
#define V_STORE_PS(p, v) _mm512_storeu_ps(p, v)
#define V_SET8(x) _mm512_set1_epi8(x)
#define V_SET32(x) _mm512_set1_epi32(x)
#define V_SET_PS(x) _mm512_set1_ps(x)
#define V_ZERO_PS() _mm512_setzero_ps()
#define V_AND(a, b) _mm512_and_si512(a, b)
#define V_OR(a, b) _mm512_or_si512(a, b)
#define V_XOR(a, b) _mm512_xor_si512(a, b)
#define V_OR_AND(a, b, m) _mm512_ternarylogic_epi32(a, b, m, 0xf8) /* a | (b & m) */
#define V_SRL(a, n) _mm512_srlv_epi32(a, V_SET32(n))
#define V_SLL(a, n) _mm512_sllv_epi32(a, V_SET32(n))
#define V_ADD32(a, b) _mm512_add_epi32(a, b)
#define V_SUB32(a, b) _mm512_sub_epi32(a, b)
#define V_MUL32(a, b) _mm512_mullo_epi32(a, b)
#define V_MUL16(a, b) _mm512_mullo_epi16(a, b)
#define V_SHUFFLE8(t, i) _mm512_shuffle_epi8(t, i)
#define V_DOT(sum, w, q) _mm512_dpbusd_epi32(sum, w, q)
#define V_DOT16(sum, a, b) _mm512_dpwssd_epi32(sum, a, b)
#define V_CVT_PS(a) _mm512_cvtepi32_ps(a)
#define V_MUL_PS(a, b) _mm512_mul_ps(a, b)
#define V_FMA_PS(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_FNMA_PS(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define V_LOAD_F16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define V_TABLE(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(p)))
typedef __m128i vb; /* a byte per lane */
#define B_LOAD(p) _mm_loadu_si128((const void *)(p))
#define B_TO_32(b) _mm512_cvtepu8_epi32(b)
#define B_TO_32_SIGNED(b) _mm512_cvtepi8_epi32(b)
#define W_TO_32(p) _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p)))
INLINE vf half_e8m0(const uint8_t *e) /* 2^(e - 128) */
{
    vi v = B_TO_32(B_LOAD(e)), one = V_SET32(1);
    vi big = _mm512_slli_epi32(V_SUB32(v, one), 23),
       small = _mm512_sllv_epi32(V_SET32(0x200000), v);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(small, _mm512_cmpgt_epi32_mask(v, one), big));
}
#else
#define ROWS_MAX 4
typedef __m256i vi;
typedef __m256 vf;
#define V_LOAD(p) _mm256_loadu_si256((const void *)(p))
#define V_STORE_PS(p, v) _mm256_storeu_ps(p, v)
#define V_SET8(x) _mm256_set1_epi8(x)
#define V_SET32(x) _mm256_set1_epi32(x)
#define V_SET_PS(x) _mm256_set1_ps(x)
#define V_ZERO_PS() _mm256_setzero_ps()
#define V_AND(a, b) _mm256_and_si256(a, b)
#define V_OR(a, b) _mm256_or_si256(a, b)
#define V_XOR(a, b) _mm256_xor_si256(a, b)
#define V_OR_AND(a, b, m) V_OR(a, V_AND(b, m))
#define V_SRL(a, n) _mm256_srlv_epi32(a, V_SET32(n))
#define V_SLL(a, n) _mm256_sllv_epi32(a, V_SET32(n))
#define V_ADD32(a, b) _mm256_add_epi32(a, b)
#define V_SUB32(a, b) _mm256_sub_epi32(a, b)
#define V_MUL32(a, b) _mm256_mullo_epi32(a, b)
#define V_MUL16(a, b) _mm256_mullo_epi16(a, b)
#define V_SHUFFLE8(t, i) _mm256_shuffle_epi8(t, i)
#define V_DOT(sum, w, q) _mm256_dpbusd_avx_epi32(sum, w, q)
#define V_DOT16(sum, a, b) _mm256_dpwssd_avx_epi32(sum, a, b)
#define V_CVT_PS(a) _mm256_cvtepi32_ps(a)
#define V_MUL_PS(a, b) _mm256_mul_ps(a, b)
#define V_FMA_PS(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_FNMA_PS(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define V_LOAD_F16(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define V_TABLE(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p)))
typedef __m128i vb;                   /* a byte per lane, in the low half */
#define B_LOAD(p) _mm_loadl_epi64((const void *)(p))
#define B_TO_32(b) _mm256_cvtepu8_epi32(b)
#define B_TO_32_SIGNED(b) _mm256_cvtepi8_epi32(b)
#define W_TO_32(p) _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p)))
INLINE vf half_e8m0(const uint8_t *e) /* 2^(e - 128) */
{
    vi v = B_TO_32(B_LOAD(e)), one = V_SET32(1);
    vi big = _mm256_slli_epi32(V_SUB32(v, one), 23),
       small = _mm256_sllv_epi32(V_SET32(0x200000), v);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, big, _mm256_cmpgt_epi32(v, one)));
}
#endif
#define LANES ((uint32_t)AQ_V)
#define QUAD (4 * LANES) /* bytes */

/* ---- shared steps ---- */

INLINE vf add_block(vf acc, vi sum, vf dw, float da)
{
    return V_FMA_PS(V_MUL_PS(V_CVT_PS(sum), dw), V_SET_PS(da), acc);
}

/* The same for blocks of 256 columns, whose sums have the scales of sub-blocks in them; and their mins. */
INLINE vf add_256(vf acc, vi sum, vf dw, float da)
{
    return V_FMA_PS(V_CVT_PS(sum), V_MUL_PS(dw, V_SET_PS(da)), acc);
}

INLINE vf take_256(vf acc, vi sum, vf dmin, float da)
{
    return V_FNMA_PS(V_CVT_PS(sum), V_MUL_PS(dmin, V_SET_PS(da)), acc);
}

INLINE vi pair(const int16_t *s) /* 2 sums to all lanes */
{
    int32_t v;
    memcpy(&v, s, 4);
    return V_SET32(v);
}

/* Scales of two sub-blocks side by side, times `by`. */
INLINE vi scale_pair(const vi *s, int by)
{
    return V_MUL16(V_OR(V_AND(s[0], V_SET32(0xffff)), V_SLL(s[1], 16)),
                   V_SET32((int)((uint32_t)by << 16 | ((uint32_t)by & 0xffff))));
}

/* Scale and min of sub-block j, from the 12 bytes per row. */
INLINE void k4_scale(const uint8_t *s, uint32_t j, vi *scale, vi *min)
{
    const vi six = V_SET32(63), four = V_SET32(15);
    if (j < 4) {
        *scale = V_AND(B_TO_32(B_LOAD(s + LANES * j)), six);
        *min = V_AND(B_TO_32(B_LOAD(s + LANES * (j + 4))), six);
    } else {
        vi a = B_TO_32(B_LOAD(s + LANES * (j + 4))), b = B_TO_32(B_LOAD(s + LANES * (j - 4))),
           c = B_TO_32(B_LOAD(s + LANES * j));
        *scale = V_OR(V_AND(a, four), V_SLL(V_SRL(b, 6), 4));
        *min = V_OR(V_SRL(a, 4), V_SLL(V_SRL(c, 6), 4));
    }
}

/* Scale of sub-block j of IQ4_XS: 4 low bits and 2 high ones, less 32. */
INLINE vi iq4_xs_scale(const uint8_t *tile, uint32_t j)
{
    vi low = B_TO_32(B_LOAD(tile + (4 + j / 2) * LANES)), high = W_TO_32(tile + 2 * LANES);
    low = V_AND(V_SRL(low, (int)(j % 2 * 4)), V_SET32(15));
    high = V_AND(V_SRL(high, (int)(2 * j)), V_SET32(3));
    return V_SUB32(V_OR(low, V_SLL(high, 4)), V_SET32(32));
}
