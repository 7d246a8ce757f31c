/* SPDX-License-Identifier: Apache-2.0 */
/* 256 columns of a tile of 8 weight rows to bytes, for kernels of many rows: what does not depend on a row of
 * inputs is done here. Included by files that are compiled with AVX2's flags. */
#include <immintrin.h>

#include "each-priv.h"
#include "isa-avx2-priv.h"
#include "load-avx2.h"
#include "quant-priv.h"

#define LANES 8u
#define BLOCK 256u
#define SUBS 8u /* sums of 32 columns in a block */

typedef struct weights {
    __m256i quad[BLOCK / 4];
    /* of types whose weights stay signed, quad being their signs, 0 or -1: */
    __m256i size[BLOCK / 4]; /* magnitudes */
    __m256i base[SUBS];      /* what sums of 32 columns begin with; IQ4_XS: [0], those of all */
    __m256 scale[SUBS], min[SUBS]; /* of types with blocks of 32 */
    /* of those with blocks of 256: */
    __m256i by[2 * SUBS]; /* a scale in both halves of a lane, per 32 columns; Q6_K: per 16 */
    __m256i pair[SUBS];   /* Q4_K, Q5_K: [4] mins of two sub-blocks; Q6_K: scales of two halves */
    __m256 d, dmin;
} weights;

/* ---- weights to bytes ---- */

INLINE __m256i low4(__m256i w)
{
    return _mm256_and_si256(w, _mm256_set1_epi8(15));
}

INLINE __m256i high4(__m256i w)
{
    return low4(_mm256_srli_epi16(w, 4));
}

/* Nibbles of 32 columns. */
INLINE void nibbles_32(const uint8_t *quads, __m256i *ret)
{
    EACH (i, 4) {
        __m256i w = load(quads + 32 * i);
        ret[i] = low4(w);
        ret[i + 4] = high4(w);
    }
}

INLINE void unpack_4(const bool min, const uint8_t *tile, uint32_t n_sub, weights *o)
{
    const uint32_t quads = min ? 4 * LANES : 2 * LANES;
    for (uint32_t j = 0; j < n_sub; j++, tile += quads + 16 * LANES) {
        o->scale[j] = load_f16(tile);
        o->min[j] = min ? load_f16(tile + 16) : _mm256_mul_ps(o->scale[j], _mm256_set1_ps(-8));
        nibbles_32(tile + quads, o->quad + 8 * j);
    }
}

/* value + 16 */
INLINE void unpack_mxfp4(const uint8_t *tile, uint32_t n_sub, weights *o)
{
    static const int8_t value[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)value));
    for (uint32_t j = 0; j < n_sub; j++, tile += 17 * LANES) {
        o->scale[j] = aq_avx2_half_e8m0(tile);
        nibbles_32(tile + LANES, o->quad + 8 * j);
        for (uint32_t i = 8 * j; i < 8 * j + 8; i++)
            o->quad[i] = _mm256_shuffle_epi8(table, o->quad[i]);
    }
}

/* ---- weights that stay signed ---- */

/* 32 columns to signs and magnitudes. An input that meets a negative weight has all its bits turned, which
 * makes it -x - 1: the sums begin with the magnitudes that this takes off once too often. */
INLINE __m256i signs_32(const __m256i *v, __m256i by, __m256i base, __m256i *ret_sign,
                        __m256i *ret_size)
{
    const __m256i zero = _mm256_setzero_si256();
    EACH (i, 8) {
        __m256i sign = _mm256_cmpgt_epi8(zero, v[i]), size = _mm256_abs_epi8(v[i]);
        ret_sign[i] = sign;
        ret_size[i] = size;
        base = _mm256_sub_epi32(base, _mm256_madd_epi16(_mm256_maddubs_epi16(size, sign), by));
    }
    return base;
}

INLINE void unpack_iq4(const bool xs, const uint8_t *tile, uint32_t n_sub, weights *o)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)aq_iq4_value));
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi16(1);
    if (xs) {
        o->d = load_f16(tile);
        o->base[0] = zero;
    }
    for (uint32_t j = 0; j < n_sub; j++) {
        const uint8_t *t = tile + j * 18 * LANES;
        __m256i v[8];
        nibbles_32(xs ? tile + (8 + 16 * j) * LANES : t + 2 * LANES, v);
        EACH (i, 8)
            v[i] = _mm256_shuffle_epi8(table, v[i]);
        if (xs) {
            o->by[j] = aq_avx2_iq4_xs_scale(tile, j);
            o->base[0] = signs_32(v, o->by[j], o->base[0], o->quad + 8 * j, o->size + 8 * j);
        } else {
            o->scale[j] = load_f16(t);
            o->base[j] = signs_32(v, one, zero, o->quad + 8 * j, o->size + 8 * j);
        }
    }
}

INLINE void unpack_q8_0(const uint8_t *tile, uint32_t n_sub, weights *o)
{
    for (uint32_t j = 0; j < n_sub; j++, tile += 34 * LANES) {
        __m256i v[8];
        o->scale[j] = load_f16(tile);
        EACH (i, 8)
            v[i] = load(tile + 2 * LANES + 32 * i);
        o->base[j] = signs_32(v, _mm256_set1_epi16(1), _mm256_setzero_si256(), o->quad + 8 * j,
                              o->size + 8 * j);
    }
}

/* ---- blocks of 256 ---- */

INLINE __m128i row_of(const uint8_t *s, uint32_t i)
{
    return _mm_loadl_epi64((const void *)(s + LANES * i));
}

/* A byte of a and one of b per weight row to the halves of its lane. */
INLINE __m256i pairs(__m128i a, __m128i b)
{
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
}

INLINE __m256i pairs_signed(__m128i a, __m128i b)
{
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b));
}

/* Scale and min of sub-block j, from 12 bytes per weight row. */
INLINE void k_scale(const uint8_t *s, uint32_t j, __m128i *scale, __m128i *min)
{
    const __m128i six = _mm_set1_epi8(63), four = _mm_set1_epi8(15), two = _mm_set1_epi8(0x30);
    if (j < 4) {
        *scale = _mm_and_si128(row_of(s, j), six);
        *min = _mm_and_si128(row_of(s, j + 4), six);
        return;
    }
    __m128i a = row_of(s, j + 4);
    *scale = _mm_or_si128(_mm_and_si128(a, four),
                          _mm_and_si128(_mm_srli_epi16(row_of(s, j - 4), 2), two));
    *min = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), four),
                        _mm_and_si128(_mm_srli_epi16(row_of(s, j), 2), two));
}

INLINE void unpack_k(const bool five, const uint8_t *tile, weights *o)
{
    const uint32_t nibbles = five ? 384 : 128;
    o->d = load_f16(tile);
    o->dmin = load_f16(tile + 16);
    for (uint32_t j = 0; j < SUBS; j += 2) {
        __m128i sc[2], mn[2];
        EACH (h, 2) {
            k_scale(tile + 32, j + (uint32_t)h, &sc[h], &mn[h]);
            o->by[j + (uint32_t)h] = pairs(sc[h], sc[h]);
        }
        o->pair[j / 2] = pairs(mn[0], mn[1]);
    }
    for (uint32_t g = 0; g < 4; g++)
        EACH (i, 8) {
            const uint32_t at = 16 * g + (uint32_t)i;
            __m256i w = load(tile + nibbles + 256 * g + 32 * i);
            __m256i lo = low4(w), hi = high4(w);
            if (five) {
                const __m256i bit4 = _mm256_set1_epi8(16);
                __m256i h =
                    _mm256_srl_epi16(load(tile + 128 + 32 * i), _mm_cvtsi32_si128((int)(2 * g)));
                lo = _mm256_or_si256(lo, _mm256_and_si256(_mm256_slli_epi16(h, 4), bit4));
                hi = _mm256_or_si256(hi, _mm256_and_si256(_mm256_slli_epi16(h, 3), bit4));
            }
            o->quad[at] = lo;
            o->quad[at + 8] = hi;
        }
}

INLINE void unpack_q6_k(const uint8_t *tile, weights *o)
{
    const __m256i high = _mm256_set1_epi8(0x30);
    o->d = load_f16(tile);
    for (uint32_t j = 0; j < SUBS; j++) {
        const __m128i a = row_of(tile + 16, 2 * j), b = row_of(tile + 16, 2 * j + 1);
        o->by[2 * j] = pairs_signed(a, a);
        o->by[2 * j + 1] = pairs_signed(b, b);
        o->pair[j] = pairs_signed(a, b);
        const uint8_t *lo = tile + 144 + j / 4 * 512 + j % 2 * 256, *hi = tile + 1168 + j / 4 * 256;
        const __m128i down = _mm_cvtsi32_si128((int)(j % 4 / 2 * 4));
        const int up = 4 - 2 * (int)(j % 4); /* brings this part's 2 bits to bits 4 and 5 */
        const __m128i sh_up = _mm_cvtsi32_si128(AQ_MAX(up, 0)),
                      sh_down = _mm_cvtsi32_si128(AQ_MAX(-up, 0));
        EACH (i, 8) {
            __m256i l = low4(_mm256_srl_epi16(load(lo + 32 * i), down)),
                    h = _mm256_srl_epi16(_mm256_sll_epi16(load(hi + 32 * i), sh_up), sh_down);
            o->quad[8 * j + (uint32_t)i] = _mm256_or_si256(l, _mm256_and_si256(h, high));
        }
    }
}

/* Block b of a tile, of which n_sub × 32 columns are there. */
INLINE void unpack(const int layout, const uint8_t *tile, size_t b, uint32_t n_sub, weights *o)
{
    switch (layout) {
    case AQ_L_Q4_0:
        unpack_4(false, tile + b * SUBS * 18 * LANES, n_sub, o);
        break;
    case AQ_L_Q4_1:
        unpack_4(true, tile + b * SUBS * 20 * LANES, n_sub, o);
        break;
    case AQ_L_Q8_0:
        unpack_q8_0(tile + b * SUBS * 34 * LANES, n_sub, o);
        break;
    case AQ_L_IQ4_NL:
        unpack_iq4(false, tile + b * SUBS * 18 * LANES, n_sub, o);
        break;
    case AQ_L_IQ4_XS:
        unpack_iq4(true, tile + b * 136 * LANES, n_sub, o);
        break;
    case AQ_L_Q4_K:
        unpack_k(false, tile + b * 144 * LANES, o);
        break;
    case AQ_L_Q5_K:
        unpack_k(true, tile + b * 176 * LANES, o);
        break;
    case AQ_L_Q6_K:
        unpack_q6_k(tile + b * 210 * LANES, o);
        break;
    default:
        unpack_mxfp4(tile + b * SUBS * 17 * LANES, n_sub, o);
    }
}
