/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx2": AVX2, FMA and F16C. Compiled with its own flags; nothing outside this file may
 * call into it unless CPUID has said so, and it defines no inline function that another file could
 * pick up. Any thread.
 *
 * An integer tile kernel, per 32 columns and input row: quads of unsigned weights × signed input bytes
 * (maddubs: sums of 2 in 16 bits), added up, then sums of 4 in 32 bits, one lane per weight row. For
 * types with blocks of 32 that is followed by a float step per lane. For those with blocks of 256 the
 * multiplication that makes 32 bits of 16 brings in the sub-block's scale, and the float step comes
 * once per block. 16 bits hold what they must:
 *   4-bit weights  15 × 127 × 2 × 8 quads = 30,480      5-bit  31 × 127 × 2 × 4 quads = 31,496
 *   6-bit          63 × 127 × 2 × 2 quads = 32,004      8-bit  128 × 127 × 2 = 32,512 */
#include <immintrin.h>

#include "each-priv.h"
#include "isa-avx2-priv.h"
#include "load-avx2.h"
#include "quant-priv.h"

#define LANES 8u

/* One function per number of rows, so that the sums of each stay in registers. */
#define TILE_FN(name)                                                                   \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        switch (n) {                                                                    \
        case 1:                                                                         \
            name##_n(tile, k, row, 1, y);                                               \
            break;                                                                      \
        case 2:                                                                         \
            name##_n(tile, k, row, 2, y);                                               \
            break;                                                                      \
        case 3:                                                                         \
            name##_n(tile, k, row, 3, y);                                               \
            break;                                                                      \
        default:                                                                        \
            name##_n(tile, k, row, 4, y);                                               \
        }                                                                               \
    }

/* ---- float weights ---- */

INLINE __m256 weight(int layout, const uint8_t *tile, size_t c)
{
    if (layout == AQ_L_F32)
        return _mm256_loadu_ps((const float *)(const void *)tile + c * LANES);
    if (layout == AQ_L_F16)
        return load_f16(tile + c * LANES * 2);
    __m256i h = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(tile + c * LANES * 2)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(h, 16));
}

/* Column c goes to chain c mod 4; two rows at a time fill the registers. */
INLINE void tile_float_n(int layout, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                         const int n, float (*y)[AQ_LANES_MAX])
{
    __m256 sum[2][4];
    EACH (i, n)
        EACH (j, 4)
            sum[i][j] = _mm256_setzero_ps();
    uint32_t c = 0;
    for (; c + 4 <= k; c += 4)
        EACH (j, 4) {
            __m256 w = weight(layout, tile, c + j);
            EACH (i, n)
                sum[i][j] = _mm256_fmadd_ps(_mm256_set1_ps(row[i].x[c + j]), w, sum[i][j]);
        }
    EACH (j, 3)
        if (c + j < k) {
            __m256 w = weight(layout, tile, c + j);
            EACH (i, n)
                sum[i][j] = _mm256_fmadd_ps(_mm256_set1_ps(row[i].x[c + j]), w, sum[i][j]);
        }
    EACH (i, n)
        _mm256_storeu_ps(y[i], _mm256_add_ps(_mm256_add_ps(sum[i][0], sum[i][1]),
                                             _mm256_add_ps(sum[i][2], sum[i][3])));
}

#define FLOAT_TILE(name, layout)                                                 \
    void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
              float(*y)[AQ_LANES_MAX])                                           \
    {                                                                            \
        for (; n >= 2; n -= 2, row += 2, y += 2)                                 \
            tile_float_n(layout, tile, k, row, 2, y);                            \
        if (n)                                                                   \
            tile_float_n(layout, tile, k, row, 1, y);                            \
    }
FLOAT_TILE(aq_avx2_tile_f32, AQ_L_F32)
FLOAT_TILE(aq_avx2_tile_f16, AQ_L_F16)
FLOAT_TILE(aq_avx2_tile_bf16, AQ_L_BF16)

/* ---- quantised weights ---- */

/* Few rows wait for memory: its own prefetcher keeps too little under way, above all for types that
 * are read in several streams. What lies beyond the last tile is asked for in vain. */
#define AHEAD 2816u
INLINE void fetch(const uint8_t *p, uint32_t bytes, const int n)
{
    if (n <= 2)
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T0);
}

/* acc += isum × (dw × da) */
INLINE __m256 add_block(__m256 acc, __m256i isum, __m256 dw, float da)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum), _mm256_mul_ps(dw, _mm256_set1_ps(da)), acc);
}

INLINE void tile_q8_0_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    const __m256i one = _mm256_set1_epi16(1);
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 32; b++, tile += 34 * LANES) {
        __m256i sum[4];
        fetch(tile, 34 * LANES, n);
        EACH (i, n)
            sum[i] = _mm256_setzero_si256();
        EACH (j, 8) {
            __m256i w = load(tile + 16 + 32 * j), mag = _mm256_abs_epi8(w);
            EACH (i, n) {
                __m256i p =
                    _mm256_maddubs_epi16(mag, _mm256_sign_epi8(quad(row[i].q + 32 * b + 4 * j), w));
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(p, one));
            }
        }
        __m256 d = load_f16(tile);
        EACH (i, n)
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}
TILE_FN(tile_q8_0)

/* Q4_1, and Q4_0, whose values are 8 less: its min is -8 d. */
INLINE void tile_4_n(const bool min, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                     const int n, float (*y)[AQ_LANES_MAX])
{
    const __m256i one = _mm256_set1_epi16(1), low = _mm256_set1_epi8(15);
    const uint32_t quads = min ? 4 * LANES : 2 * LANES;
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 32; b++, tile += quads + 16 * LANES) {
        __m256i sum[4];
        fetch(tile, 20 * LANES, n);
        EACH (i, n)
            sum[i] = _mm256_setzero_si256();
        EACH (j, 4) {
            __m256i w = load(tile + quads + 32 * j);
            __m256i lo = _mm256_and_si256(w, low),
                    hi = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
            EACH (i, n) {
                const int8_t *q = row[i].q + 32 * b + 4 * j;
                sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(lo, quad(q)));
                sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(hi, quad(q + 16)));
            }
        }
        __m256 d = load_f16(tile),
               m = min ? load_f16(tile + 16) : _mm256_mul_ps(d, _mm256_set1_ps(-8));
        EACH (i, n) {
            acc[i] = add_block(acc[i], _mm256_madd_epi16(sum[i], one), d, row[i].d[b]);
            acc[i] = _mm256_fmadd_ps(m, _mm256_set1_ps(row[i].s[b]), acc[i]);
        }
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}

INLINE void tile_q4_0_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    tile_4_n(false, tile, k, row, n, y);
}
TILE_FN(tile_q4_0)

INLINE void tile_q4_1_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    tile_4_n(true, tile, k, row, n, y);
}
TILE_FN(tile_q4_1)

/* ---- 4 bits that stand for a value of a table ---- */

/* sum += `by`, in both halves of a lane, × sums of 32 columns: magnitudes × inputs that take the weights'
 * signs. */
INLINE void values_32(const uint8_t *quads, __m256i table, __m256i by, const aq_row_in *row,
                      size_t at, const int n, __m256i *sum)
{
    const __m256i low = _mm256_set1_epi8(15);
    EACH (j, 4) {
        __m256i w = load(quads + 32 * j), v[2], mag[2];
        v[0] = _mm256_shuffle_epi8(table, _mm256_and_si256(w, low));
        v[1] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(w, 4), low));
        EACH (h, 2)
            mag[h] = _mm256_abs_epi8(v[h]);
        EACH (i, n)
            EACH (h, 2) {
                __m256i q = quad(row[i].q + at + 4 * j + 16 * h);
                __m256i p = _mm256_maddubs_epi16(mag[h], _mm256_sign_epi8(q, v[h]));
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(p, by));
            }
    }
}

INLINE __m256i table_of(const int8_t *value)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)value));
}

INLINE void tile_iq4_nl_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                          float (*y)[AQ_LANES_MAX])
{
    const __m256i table = table_of(aq_iq4_value), one = _mm256_set1_epi16(1);
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 32; b++, tile += 18 * LANES) {
        __m256i sum[4];
        fetch(tile, 18 * LANES, n);
        EACH (i, n)
            sum[i] = _mm256_setzero_si256();
        values_32(tile + 2 * LANES, table, one, row, 32 * (size_t)b, n, sum);
        __m256 d = load_f16(tile);
        EACH (i, n)
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}
TILE_FN(tile_iq4_nl)

INLINE void tile_mxfp4_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                         float (*y)[AQ_LANES_MAX])
{
    static const int8_t value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const __m256i table = table_of(value), one = _mm256_set1_epi16(1);
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 32; b++, tile += 17 * LANES) {
        __m256i sum[4];
        fetch(tile, 17 * LANES, n);
        EACH (i, n)
            sum[i] = _mm256_setzero_si256();
        values_32(tile + LANES, table, one, row, 32 * (size_t)b, n, sum);
        __m256 d = aq_avx2_half_e8m0(tile);
        EACH (i, n)
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}
TILE_FN(tile_mxfp4)

/* ---- blocks of 256 ---- */

INLINE uint64_t word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* A byte of a and one of b per weight row to the halves of its lane. */
INLINE __m256i pairs(uint64_t a, uint64_t b)
{
    return _mm256_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_cvtsi64_si128((int64_t)a), _mm_cvtsi64_si128((int64_t)b)));
}

INLINE __m256i pairs_signed(const uint8_t *a, const uint8_t *b)
{
    return _mm256_cvtepi8_epi16(
        _mm_unpacklo_epi8(_mm_loadl_epi64((const void *)a), _mm_loadl_epi64((const void *)b)));
}

INLINE __m256i pair_of_sums(const int16_t *sum) /* two sums to all lanes */
{
    return quad((const int8_t *)sum);
}

/* acc += sum × (dw × da), once per 256 columns. */
INLINE __m256 add_256(__m256 acc, __m256i sum, __m256 dw, float da)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(dw, _mm256_set1_ps(da)), acc);
}

/* Scales of sub-blocks 2 g and 2 g + 1, 8 rows in a word, from the 12 bytes of each. */
INLINE void k_scales(const uint8_t *s, uint32_t g, uint64_t *ret)
{
    const uint64_t six = 0x3f3f3f3f3f3f3f3full, four = 0x0f0f0f0f0f0f0f0full,
                   two = 0x3030303030303030ull;
    EACH (h, 2) {
        uint32_t j = 2 * g + (uint32_t)h;
        ret[h] = g < 2 ? word(s + 8 * j) & six
                       : (word(s + 8 * (j + 4)) & four) | (word(s + 8 * (j - 4)) >> 2 & two);
    }
}

INLINE void k_mins(const uint8_t *s, uint32_t g, uint64_t *ret)
{
    const uint64_t six = 0x3f3f3f3f3f3f3f3full, four = 0x0f0f0f0f0f0f0f0full,
                   two = 0x3030303030303030ull;
    EACH (h, 2) {
        uint32_t j = 2 * g + (uint32_t)h;
        ret[h] = g < 2 ? word(s + 8 * (j + 4)) & six
                       : (word(s + 8 * (j + 4)) >> 4 & four) | (word(s + 8 * j) >> 2 & two);
    }
}

/* Q4_K, and Q5_K, which has 8 quads of high bits before the nibbles. */
INLINE void tile_k_n(const bool five, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                     const int n, float (*y)[AQ_LANES_MAX])
{
    const __m256i low = _mm256_set1_epi8(15), bit4 = _mm256_set1_epi8(16);
    const uint32_t nibbles = five ? 384 : 128;
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 256; b++, tile += nibbles + 1024) {
        __m256i all[4];
        EACH (i, n)
            all[i] = _mm256_setzero_si256();
        for (uint32_t g = 0; g < 4; g++) {
            fetch(tile + (five ? 352 : 288) * g, five ? 352 : 288, n);
            uint64_t sc[2];
            k_scales(tile + 32, g, sc);
            const __m256i by[2] = {pairs(sc[0], sc[0]), pairs(sc[1], sc[1])};
            const __m128i sh = _mm_cvtsi32_si128((int)(2 * g));
            __m256i sum[2][4];
            EACH (i, n)
                sum[0][i] = sum[1][i] = _mm256_setzero_si256();
            EACH (j, 8) {
                __m256i w = load(tile + nibbles + 256 * g + 32 * j);
                __m256i lo = _mm256_and_si256(w, low),
                        hi = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
                if (five) {
                    __m256i h =
                        _mm256_srl_epi16(load(tile + 128 + 32 * j),
                                         sh); /* this group's are bits 0 and 1 of each byte */
                    lo = _mm256_or_si256(lo, _mm256_and_si256(_mm256_slli_epi16(h, 4), bit4));
                    hi = _mm256_or_si256(hi, _mm256_and_si256(_mm256_slli_epi16(h, 3), bit4));
                }
                EACH (i, n) {
                    const int8_t *q = row[i].q + 256 * b + 64 * g + 4 * j;
                    sum[0][i] = _mm256_add_epi16(sum[0][i], _mm256_maddubs_epi16(lo, quad(q)));
                    sum[1][i] = _mm256_add_epi16(sum[1][i], _mm256_maddubs_epi16(hi, quad(q + 32)));
                }
                if (j == 7 || (five && j == 3)) /* five bits fill 16 after 4 quads */
                    EACH (i, n)
                        EACH (h, 2) {
                            all[i] = _mm256_add_epi32(all[i], _mm256_madd_epi16(sum[h][i], by[h]));
                            sum[h][i] = _mm256_setzero_si256();
                        }
            }
        }
        const __m256 d = load_f16(tile), dmin = load_f16(tile + 16);
        EACH (i, n) {
            acc[i] = add_256(acc[i], all[i], d, row[i].d[b]);
            all[i] = _mm256_setzero_si256();
        }
        EACH (g, 4) {
            uint64_t mn[2];
            k_mins(tile + 32, (uint32_t)g, mn);
            const __m256i by = pairs(mn[0], mn[1]);
            EACH (i, n) {
                __m256i s = pair_of_sums(row[i].sum32 + 8 * b + 2 * g);
                all[i] = _mm256_add_epi32(all[i], _mm256_madd_epi16(by, s));
            }
        }
        EACH (i, n)
            acc[i] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(all[i]),
                                      _mm256_mul_ps(dmin, _mm256_set1_ps(row[i].d[b])), acc[i]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}

INLINE void tile_q4_k_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    tile_k_n(false, tile, k, row, n, y);
}
TILE_FN(tile_q4_k)

INLINE void tile_q5_k_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    tile_k_n(true, tile, k, row, n, y);
}
TILE_FN(tile_q5_k)

/* Σ scale × (w - 32) × q is Σ scale × w q, less 32 × Σ scale × Σ q. */
INLINE void tile_q6_k_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    const __m256i low = _mm256_set1_epi8(15), high = _mm256_set1_epi8(0x30);
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 256; b++, tile += 210 * LANES) {
        const uint8_t *scales = tile + 16;
        __m256i all[4], off[4];
        EACH (i, n)
            all[i] = off[i] = _mm256_setzero_si256();
        for (uint32_t j = 0; j < 8; j++) {
            const uint8_t *lo = tile + 144 + j / 4 * 512 + j % 2 * 256,
                          *hi = tile + 1168 + j / 4 * 256;
            const __m128i sh_lo = _mm_cvtsi32_si128((int)(j % 4 / 2 * 4));
            const int up = 4 - 2 * (int)(j % 4); /* brings this part's 2 bits to bits 4 and 5 */
            const __m128i sh_up = _mm_cvtsi32_si128(AQ_MAX(up, 0)),
                          sh_down = _mm_cvtsi32_si128(AQ_MAX(-up, 0));
            fetch(tile + 210 * j, 210, n);
            const __m256i both = pairs_signed(scales + 16 * j, scales + 16 * j + 8);
            EACH (i, n) {
                __m256i s = pair_of_sums(row[i].sum16 + 16 * b + 2 * j);
                off[i] = _mm256_add_epi32(off[i], _mm256_madd_epi16(both, s));
            }
            EACH (half, 2) {
                const uint8_t *sc = scales + 16 * j + 8 * (uint32_t)half;
                const __m256i by = pairs_signed(sc, sc);
                EACH (two, 2) {
                    __m256i w[2];
                    EACH (t, 2) {
                        int at = 32 * (4 * half + 2 * two + t);
                        __m256i l = _mm256_and_si256(_mm256_srl_epi16(load(lo + at), sh_lo), low);
                        __m256i h = _mm256_and_si256(
                            _mm256_srl_epi16(_mm256_sll_epi16(load(hi + at), sh_up), sh_down),
                            high);
                        w[t] = _mm256_or_si256(l, h);
                    }
                    EACH (i, n) {
                        const int8_t *q =
                            row[i].q + 256 * b + 32 * j + 16 * (uint32_t)half + 8 * (uint32_t)two;
                        __m256i p = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], quad(q)),
                                                     _mm256_maddubs_epi16(w[1], quad(q + 4)));
                        all[i] = _mm256_add_epi32(all[i], _mm256_madd_epi16(p, by));
                    }
                }
            }
        }
        const __m256 d = load_f16(tile);
        EACH (i, n)
            acc[i] = add_256(acc[i], _mm256_sub_epi32(all[i], _mm256_slli_epi32(off[i], 5)), d,
                             row[i].d[b]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}
TILE_FN(tile_q6_k)

INLINE void tile_iq4_xs_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                          float (*y)[AQ_LANES_MAX])
{
    const __m256i table = table_of(aq_iq4_value);
    __m256 acc[4];
    EACH (i, n)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < k / 256; b++, tile += 136 * LANES) {
        __m256i sum[4];
        EACH (i, n)
            sum[i] = _mm256_setzero_si256();
        for (uint32_t j = 0; j < 8; j++) {
            fetch(tile + 136 * j, 17 * LANES, n);
            values_32(tile + 64 + 128 * j, table, aq_avx2_iq4_xs_scale(tile, j), row,
                      256 * (size_t)b + 32 * j, n, sum);
        }
        const __m256 d = load_f16(tile);
        EACH (i, n)
            acc[i] = add_256(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        _mm256_storeu_ps(y[i], acc[i]);
}
TILE_FN(tile_iq4_xs)

const aq_isa aq_isa_avx2 = {
    .name = "avx2",
    .lanes = LANES,
    .rows = 4,
    .tile = {[AQ_L_F32] = aq_avx2_tile_f32,
             [AQ_L_F16] = aq_avx2_tile_f16,
             [AQ_L_BF16] = aq_avx2_tile_bf16,
             [AQ_L_Q8_0] = tile_q8_0,
             [AQ_L_Q4_0] = tile_q4_0,
             [AQ_L_Q4_1] = tile_q4_1,
             [AQ_L_Q4_K] = tile_q4_k,
             [AQ_L_Q5_K] = tile_q5_k,
             [AQ_L_Q6_K] = tile_q6_k,
             [AQ_L_IQ4_NL] = tile_iq4_nl,
             [AQ_L_IQ4_XS] = tile_iq4_xs,
             [AQ_L_MXFP4] = tile_mxfp4},
    .many = {[AQ_L_Q8_0] = aq_avx2_many_q8_0,
             [AQ_L_Q4_0] = aq_avx2_many_q4_0,
             [AQ_L_Q4_1] = aq_avx2_many_q4_1,
             [AQ_L_Q4_K] = aq_avx2_many_q4_k,
             [AQ_L_Q5_K] = aq_avx2_many_q5_k,
             [AQ_L_Q6_K] = aq_avx2_many_q6_k,
             [AQ_L_IQ4_NL] = aq_avx2_many_iq4_nl,
             [AQ_L_IQ4_XS] = aq_avx2_many_iq4_xs,
             [AQ_L_MXFP4] = aq_avx2_many_mxfp4},
    .pair = {[AQ_L_Q8_0] = aq_avx2_pair_q8_0,
             [AQ_L_Q4_0] = aq_avx2_pair_q4_0,
             [AQ_L_Q4_1] = aq_avx2_pair_q4_1,
             [AQ_L_Q4_K] = aq_avx2_pair_q4_k,
             [AQ_L_Q5_K] = aq_avx2_pair_q5_k,
             [AQ_L_Q6_K] = aq_avx2_pair_q6_k,
             [AQ_L_IQ4_NL] = aq_avx2_pair_iq4_nl,
             [AQ_L_IQ4_XS] = aq_avx2_pair_iq4_xs,
             [AQ_L_MXFP4] = aq_avx2_pair_mxfp4},
    .quant = aq_avx2_quant,
    .quant_256 = aq_avx2_quant_256,
    .norm = aq_avx2_norm,
    .swiglu = aq_avx2_swiglu,
    .to_f16 = aq_avx2_to_f16,
    .from_f16 = aq_avx2_from_f16,
    .scores = aq_avx2_scores,
    .exps = aq_avx2_exps,
    .mix = aq_avx2_mix,
    .scores_kv = {[AQ_KV_F16] = aq_avx2_scores_f16, [AQ_KV_Q8_0] = aq_avx2_scores_q8},
    .mix_kv = {[AQ_KV_F16] = aq_avx2_mix_f16, [AQ_KV_Q8_0] = aq_avx2_mix_q8},
    .from_q8 = aq_avx2_from_q8,
    .delta = aq_avx2_delta,
    .oai = aq_avx2_oai,
};
