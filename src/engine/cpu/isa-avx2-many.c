/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx2", many input rows at once. 256 columns of a weight tile become unsigned bytes in memory
 * once for all rows; then four rows at a time meet them, with as few addresses and registers as that
 * takes. Sums of integers are exact and the float steps are those of isa-avx2.c in their order, so that
 * a row has the same bits in both. Compiled with AVX2's flags; only after CPUID has said so. Any thread.
 *
 * Sums of byte pairs are kept in 16 bits as long as they fit (isa-avx2.c), which those of 8-bit weights
 * do not; the multiplication of 16-bit pairs that widens them brings in a sub-block's scale. */
#include <immintrin.h>

#include "each-priv.h"
#include "isa-avx2-priv.h"
#include "quant-priv.h"

#define LANES 8u
#define BLOCK 256u
#define SUBS 8u /* sums of 32 columns in a block */
/* Here and now: else compilers start all products of a sum first and spill them. */
#define PIN(v) __asm__("" : "+x"(v))

typedef struct weights {
    __m256i quad[BLOCK / 4];
    __m256i size[BLOCK / 4];       /* magnitudes, of types whose weights stay signed */
    __m256 scale[SUBS], min[SUBS]; /* of types with blocks of 32 */
    /* of those with blocks of 256: */
    __m256i by[2 * SUBS]; /* a scale in both halves of a lane, per 32 columns; Q6_K: per 16 */
    __m256i pair[SUBS];   /* Q4_K, Q5_K: [4] mins of two sub-blocks; Q6_K: scales of two halves */
    __m256 d, dmin;
} weights;

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE __m256 load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

INLINE __m256i quad(const int8_t *q) /* 4 input bytes to all lanes */
{
    int32_t v;
    memcpy(&v, q, 4);
    return _mm256_set1_epi32(v);
}

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

/* 32 columns of nibbles, through a table. */
INLINE void values_32(const uint8_t *quads, __m256i table, __m256i *ret, __m256i *ret_size)
{
    nibbles_32(quads, ret);
    EACH (i, 8) {
        ret[i] = _mm256_shuffle_epi8(table, ret[i]);
        ret_size[i] = _mm256_abs_epi8(ret[i]);
    }
}

INLINE void unpack_iq4(const bool xs, const uint8_t *tile, uint32_t n_sub, weights *o)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)aq_iq4_value));
    if (xs)
        o->d = load_f16(tile);
    for (uint32_t j = 0; j < n_sub; j++) {
        const uint8_t *t = tile + j * 18 * LANES;
        if (xs)
            o->by[j] = aq_avx2_iq4_xs_scale(tile, j);
        else
            o->scale[j] = load_f16(t);
        values_32(xs ? tile + (8 + 16 * j) * LANES : t + 2 * LANES, table, o->quad + 8 * j,
                  o->size + 8 * j);
    }
}

INLINE void unpack_q8_0(const uint8_t *tile, uint32_t n_sub, weights *o)
{
    for (uint32_t j = 0; j < n_sub; j++, tile += 34 * LANES) {
        o->scale[j] = load_f16(tile);
        EACH (i, 8) {
            o->quad[8 * j + (uint32_t)i] = load(tile + 2 * LANES + 32 * i);
            o->size[8 * j + (uint32_t)i] = _mm256_abs_epi8(o->quad[8 * j + (uint32_t)i]);
        }
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
    for (uint32_t i = 0; i < 32; i++) {
        __m256i w = load(tile + nibbles + 32 * i);
        uint32_t at = i / 8 * 16 + i % 8;
        o->quad[at] = low4(w);
        o->quad[at + 8] = high4(w);
    }
    for (uint32_t i = 0; five && i < 64; i++) {
        __m256i bits = load(tile + 128 + 32 * (i % 8)), bit4 = _mm256_set1_epi8(16);
        bits = _mm256_slli_epi16(_mm256_srl_epi16(bits, _mm_cvtsi32_si128((int)(i / 8))), 4);
        o->quad[i] = _mm256_or_si256(o->quad[i], _mm256_and_si256(bits, bit4));
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

/* ---- products ---- */

/* Four rows × n quads of weights, in 16 bits. */
INLINE void sums(const __m256i *w, const int8_t *q, size_t wide, const int n, __m256i *sum)
{
    EACH (t, n) {
        const __m256i x = w[t];
        EACH (i, 4) {
            __m256i p = _mm256_maddubs_epi16(x, quad(q + (size_t)i * wide + 4 * t));
            sum[i] = t ? _mm256_add_epi16(sum[i], p) : p;
            PIN(sum[i]);
        }
    }
}

/* Four rows × n quads, in 32 bits, times `by` added to all: n as 16 bits can hold. */
INLINE void add_sums(const __m256i *w, const int8_t *q, size_t wide, const int n, __m256i by,
                     __m256i *all)
{
    __m256i part[4];
    sums(w, q, wide, n, part);
    EACH (i, 4) {
        all[i] = _mm256_add_epi32(all[i], _mm256_madd_epi16(part[i], by));
        PIN(all[i]);
    }
}

/* The same of n quads of signed weights: 16 bits hold the products of one, magnitudes × inputs that take
 * the weights' signs. */
INLINE void add_signed(const __m256i *w, const __m256i *size, const int8_t *q, size_t wide,
                       const int n, __m256i by, __m256i *all)
{
    EACH (t, n) {
        const __m256i v = w[t], mag = size[t];
        EACH (i, 4) {
            __m256i x = _mm256_sign_epi8(quad(q + (size_t)i * wide + 4 * t), v);
            x = _mm256_madd_epi16(_mm256_maddubs_epi16(mag, x), by);
            all[i] = _mm256_add_epi32(all[i], x);
            PIN(all[i]);
        }
    }
}

/* ---- blocks of 32 ---- */

INLINE bool is_signed(int layout)
{
    return layout == AQ_L_Q8_0 || layout == AQ_L_IQ4_NL || layout == AQ_L_IQ4_XS;
}

/* Sub-block j (of all: block) of four rows. */
INLINE void dot_32(const int layout, const weights *w, const int8_t *q, size_t wide, uint32_t j,
                   size_t block, const aq_row_in *row, __m256i *sum)
{
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i *quads = w->quad + 8 * j;
    EACH (i, 4) { /* MXFP4: -16 Σ q */
        sum[i] = _mm256_setzero_si256();
        if (layout == AQ_L_MXFP4)
            sum[i] = _mm256_srai_epi32(_mm256_set1_epi32(row[i].n32[block]), 3);
    }
    if (layout == AQ_L_MXFP4) { /* 16 bits hold four quads */
        add_sums(quads, q, wide, 4, one, sum);
        add_sums(quads + 4, q + 16, wide, 4, one, sum);
    } else if (is_signed(layout)) {
        add_signed(quads, w->size + 8 * j, q, wide, 8, one, sum);
    } else {
        add_sums(quads, q, wide, 8, one, sum);
    }
}

INLINE void float_step(const int layout, const weights *w, uint32_t j, const float *d,
                       const float *s, const __m256i *sum, __m256 *acc)
{
    EACH (i, 4) {
        __m256 by = _mm256_mul_ps(w->scale[j], _mm256_set1_ps(d[i]));
        acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]), by, acc[i]);
        if (layout == AQ_L_Q4_0 || layout == AQ_L_Q4_1)
            acc[i] = _mm256_fmadd_ps(w->min[j], _mm256_set1_ps(s[i]), acc[i]);
        PIN(acc[i]);
    }
}

/* ---- blocks of 256 ---- */

/* Sub-block j of four rows, times its scales. */
INLINE void add_sub(const int layout, const weights *w, const int8_t *q, size_t wide, uint32_t j,
                    __m256i *all)
{
    const __m256i *quads = w->quad + 8 * j;
    if (layout == AQ_L_IQ4_XS) {
        add_signed(quads, w->size + 8 * j, q, wide, 8, w->by[j], all);
    } else if (layout == AQ_L_Q4_K) {
        add_sums(quads, q, wide, 8, w->by[j], all);
    } else if (layout == AQ_L_Q5_K) {
        add_sums(quads, q, wide, 4, w->by[j], all);
        add_sums(quads + 4, q + 16, wide, 4, w->by[j], all);
    } else {
        EACH (h, 4)
            add_sums(quads + 2 * h, q + 8 * h, wide, 2, w->by[2 * j + (uint32_t)h / 2], all);
    }
}

/* Pairs of mins or scales × pairs of the rows' sums, n of each. */
INLINE void dot_pairs(const weights *w, const int16_t *const *sum, const int n, __m256i *ret)
{
    EACH (i, 4)
        ret[i] = _mm256_setzero_si256();
    EACH (g, n)
        EACH (i, 4) {
            __m256i s = quad((const int8_t *)(sum[i] + 2 * g));
            ret[i] = _mm256_add_epi32(ret[i], _mm256_madd_epi16(w->pair[g], s));
        }
}

INLINE void float_step_256(const int layout, const weights *w, size_t b, const aq_row_in *row,
                           const float *d, __m256i *all, __m256 *acc)
{
    const bool six = layout == AQ_L_Q6_K, min = layout == AQ_L_Q4_K || layout == AQ_L_Q5_K;
    const int16_t *at[4];
    __m256i off[4];
    EACH (i, 4)
        at[i] = six ? row[i].sum16 + 16 * b : row[i].sum32 + 8 * b;
    if (six || min)
        dot_pairs(w, at, six ? 8 : 4, off);
    EACH (i, 4) {
        const __m256 by = _mm256_set1_ps(d[i]);
        if (six)
            all[i] = _mm256_sub_epi32(all[i], _mm256_slli_epi32(off[i], 5));
        acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all[i]), _mm256_mul_ps(w->d, by), acc[i]);
        if (min)
            acc[i] =
                _mm256_fnmadd_ps(_mm256_cvtepi32_ps(off[i]), _mm256_mul_ps(w->dmin, by), acc[i]);
    }
}

/* ---- all rows ---- */

INLINE void many(const int layout, const uint8_t *tile, uint32_t k, const aq_rows_in *in,
                 uint32_t n, float (*y)[AQ_LANES_MAX])
{
    const bool of_256 =
        layout == AQ_L_Q4_K || layout == AQ_L_Q5_K || layout == AQ_L_Q6_K || layout == AQ_L_IQ4_XS;
    weights w;
    for (uint32_t b = 0; b * BLOCK < k; b++) {
        const uint32_t n_sub = AQ_MIN((k - b * BLOCK) / 32, SUBS);
        unpack(layout, tile, b, n_sub, &w);
        for (uint32_t r = 0; r < n; r += 4) {
            const int8_t *q = in->q + r * in->wide + (size_t)b * BLOCK;
            const int8_t *next = r + 4 < n ? q + 4 * in->wide : q;
            __m256 acc[4];
            __m256i all[4];
            EACH (i, 4) {
                acc[i] = b ? _mm256_loadu_ps(y[r + (uint32_t)i]) : _mm256_setzero_ps();
                all[i] = _mm256_setzero_si256();
            }
            for (uint32_t j = 0; j < n_sub; j++) {
                const size_t block = b * SUBS + j;
                _mm_prefetch((const char *)next + j / 2 * in->wide + j % 2 * 128, _MM_HINT_T0);
                _mm_prefetch((const char *)next + j / 2 * in->wide + j % 2 * 128 + 64, _MM_HINT_T0);
                if (of_256) {
                    add_sub(layout, &w, q + 32 * j, in->wide, j, all);
                    continue;
                }
                dot_32(layout, &w, q + 32 * j, in->wide, j, block, in->row + r, all);
                float_step(layout, &w, j, in->d[block] + r, in->s[block] + r, all, acc);
            }
            if (of_256)
                float_step_256(layout, &w, b, in->row + r, in->d[b] + r, all, acc);
            EACH (i, 4)
                _mm256_storeu_ps(y[r + (uint32_t)i], acc[i]);
        }
    }
}

#define MANY(name, layout)                                                       \
    void name(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
              float(*y)[AQ_LANES_MAX])                                           \
    {                                                                            \
        many(layout, tile, k, in, n, y);                                         \
    }
MANY(aq_avx2_many_q8_0, AQ_L_Q8_0)
MANY(aq_avx2_many_q4_0, AQ_L_Q4_0)
MANY(aq_avx2_many_q4_1, AQ_L_Q4_1)
MANY(aq_avx2_many_q4_k, AQ_L_Q4_K)
MANY(aq_avx2_many_q5_k, AQ_L_Q5_K)
MANY(aq_avx2_many_q6_k, AQ_L_Q6_K)
MANY(aq_avx2_many_iq4_nl, AQ_L_IQ4_NL)
MANY(aq_avx2_many_iq4_xs, AQ_L_IQ4_XS)
MANY(aq_avx2_many_mxfp4, AQ_L_MXFP4)
