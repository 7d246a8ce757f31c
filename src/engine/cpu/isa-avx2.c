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
#include <math.h>

#include "isa-avx2-priv.h"
#include "quant-priv.h"

/* A loop that is always unrolled: arrays that it indexes can stay in registers. */
#if defined(__clang__)
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif
#define LANES 8u
#define INLINE static inline __attribute__((always_inline))

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

INLINE float hsum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
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

/* ---- rows ---- */

INLINE __m256i most_bits(__m256i m, __m256 v) /* as bits: see the path "c" */
{
    return _mm256_max_epi32(
        m, _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)));
}

/* d of a block whose magnitudes' bits are m, and what values are multiplied by. */
INLINE float block_scale(__m256i m, float *ret_inv)
{
    __m128i m4 = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0x4e));
    m4 = _mm_max_epi32(m4, _mm_shuffle_epi32(m4, 0xb1));
    float max = _mm_cvtss_f32(_mm_castsi128_ps(m4));
    *ret_inv = max >= 0x1p-100f ? 127 / max : 0;
    return max / 127;
}

/* 32 values; returns their sums: 16 in each half. */
INLINE __m256i round_32(const float *x, float inv, int8_t *q)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7),
                  lowest = _mm256_set1_epi8(-127);
    __m256i n[4];
    EACH (i, 4)
        n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inv)));
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    bytes = _mm256_max_epi8(_mm256_permutevar8x32_epi32(bytes, order),
                            lowest); /* NaN became the lowest: keep |q| <= 127 */
    _mm256_storeu_si256((void *)q, bytes);
    __m256i sums =
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
    return _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
}

void aq_avx2_quant(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 32; b++, x += 32) {
        __m256i m = _mm256_setzero_si256();
        EACH (i, 4)
            m = most_bits(m, _mm256_loadu_ps(x + 8 * i));
        float inv;
        o->d[b] = block_scale(m, &inv);
        __m256i sums = round_32(x, inv, o->q + 32 * b);
        int32_t sum = _mm256_extract_epi32(sums, 0) + _mm256_extract_epi32(sums, 4);
        o->s[b] = o->d[b] * (float)sum;
        o->n32[b] = -128 * sum;
    }
}

void aq_avx2_quant_256(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 256; b++, x += 256) {
        __m256i m[4];
        EACH (j, 4)
            m[j] = _mm256_setzero_si256();
        for (uint32_t c = 0; c < 256; c += 32)
            EACH (j, 4)
                m[j] = most_bits(m[j], _mm256_loadu_ps(x + c + 8 * j));
        m[0] = _mm256_max_epi32(_mm256_max_epi32(m[0], m[1]), _mm256_max_epi32(m[2], m[3]));
        float inv;
        o->d[b] = block_scale(m[0], &inv);
        for (uint32_t j = 8 * b; j < 8 * b + 8; j++) {
            __m256i sums = round_32(x + 32 * (j % 8), inv, o->q + 32 * (size_t)j);
            int32_t s0 = _mm256_extract_epi32(sums, 0), s1 = _mm256_extract_epi32(sums, 4);
            o->sum16[2 * j] = (int16_t)s0;
            o->sum16[2 * j + 1] = (int16_t)s1;
            o->sum32[j] = (int16_t)(s0 + s1);
        }
    }
}

void aq_avx2_norm(const float *x, const float *w, uint32_t dim, float eps, float *y)
{
    __m256 a[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    uint32_t i = 0;
    for (; i + 16 <= dim; i += 16)
        EACH (j, 2) {
            __m256 v = _mm256_loadu_ps(x + i + 8 * j);
            a[j] = _mm256_fmadd_ps(v, v, a[j]);
        }
    float sum = hsum(_mm256_add_ps(a[0], a[1]));
    for (; i < dim; i++)
        sum += x[i] * x[i];
    float inv = 1 / sqrtf(sum / (float)dim + eps);
    for (i = 0; i + 8 <= dim; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(inv)),
                                       _mm256_loadu_ps(w + i)));
    for (; i < dim; i++)
        y[i] = x[i] * inv * w[i];
}

/* e^x to about 1e-7 relative: 2^n e^r with r in ± ln 2 / 2, Taylor's terms up to r^7. Below -87 it
 * is 0, above 88 infinity. */
INLINE __m256 exp8(__m256 x)
{
    const float c[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, .5f, 1, 1};
    __m256 under = _mm256_cmp_ps(x, _mm256_set1_ps(-87), _CMP_LT_OQ),
           over = _mm256_cmp_ps(x, _mm256_set1_ps(88), _CMP_GT_OQ);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f),
                                x); /* ln 2 in two parts, the first exact times n */
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(c[0]);
    EACH (i, 7)
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(c[i + 1]));
    __m256i e =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(e));
    p = _mm256_andnot_ps(under, p);
    return _mm256_blendv_ps(p, _mm256_set1_ps(INFINITY), over);
}

INLINE __m256 swiglu8(__m256 g, __m256 u)
{
    const __m256 one = _mm256_set1_ps(1);
    __m256 e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), g));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), u);
}

void aq_avx2_swiglu(const float *gate, const float *up, size_t n, float *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, swiglu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n) {
        float g[8] = {0}, u[8] = {0};
        memcpy(g, gate + i, (n - i) * 4);
        memcpy(u, up + i, (n - i) * 4);
        _mm256_storeu_ps(g, swiglu8(_mm256_loadu_ps(g), _mm256_loadu_ps(u)));
        memcpy(y + i, g, (n - i) * 4);
    }
}

void aq_avx2_to_f16(const float *x, size_t n, uint16_t *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        y[i] = (uint16_t)_cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

/* ---- attention ---- */

void aq_avx2_from_f16(const uint16_t *x, size_t n, float *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, load_f16((const uint8_t *)(x + i)));
    for (; i < n; i++)
        y[i] = _cvtsh_ss(x[i]);
}

/* Entries as they lie in a page, or floats. */

/* The scale of a block of q8_0 to all lanes. */
INLINE __m256 q8_scale(const uint8_t *block)
{
    int16_t d;
    memcpy(&d, block, 2);
    return _mm256_cvtph_ps(_mm_set1_epi16(d));
}

/* Values c … c + 7 of an entry; c is a multiple of 8, d the scale of its block of q8_0. */
INLINE __m256 entry8(const int type, const uint8_t *row, uint32_t c, __m256 d)
{
    if (type == AQ_KV_F32)
        return _mm256_loadu_ps((const float *)(const void *)row + c);
    if (type == AQ_KV_F16)
        return load_f16(row + 2 * (size_t)c);
    const __m128i q = _mm_loadl_epi64((const void *)(row + c / 32 * 34 + 2 + c % 32));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)));
}

/* Values c … c + 8 n - 1, n <= 4, all of one block. */
INLINE void entry(const int type, const uint8_t *row, uint32_t c, const int n, __m256 *x)
{
    const __m256 d = type == AQ_KV_Q8_0 ? q8_scale(row + c / 32 * 34) : _mm256_setzero_ps();
    EACH (i, n)
        x[i] = entry8(type, row, c + 8 * (uint32_t)i, d);
}

INLINE float entry1(const int type, const uint8_t *row, uint32_t c)
{
    uint16_t h;
    if (type == AQ_KV_F32)
        return ((const float *)(const void *)row)[c];
    memcpy(&h, type == AQ_KV_F16 ? row + 2 * (size_t)c : row + c / 32 * 34, 2);
    return type == AQ_KV_F16 ? _cvtsh_ss(h)
                             : _cvtsh_ss(h) * (float)(int8_t)row[c / 32 * 34 + 2 + c % 32];
}

void aq_avx2_from_q8(const uint8_t *p, uint32_t d, float *y)
{
    uint32_t i = 0;
    for (__m256 x[4]; i + 32 <= d; i += 32) {
        entry(AQ_KV_Q8_0, p, i, 4, x);
        EACH (j, 4)
            _mm256_storeu_ps(y + i + 8 * j, x[j]);
    }
    for (; i < d; i++)
        y[i] = entry1(AQ_KV_Q8_0, p, i);
}

/* Pairs of vectors to one vector of twice the sums of half as many lanes, until each lane holds the
 * sum of one vector: ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7)). */
INLINE __m256 sums8(const __m256 *v)
{
    __m256 a[4], b[2];
    EACH (i, 4)
        a[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[2 * i], v[2 * i + 1], 0x20),
                             _mm256_permute2f128_ps(v[2 * i], v[2 * i + 1], 0x31));
    EACH (i, 2)
        b[i] = _mm256_add_ps(_mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0x44),
                             _mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0xee));
    __m256 c =
        _mm256_add_ps(_mm256_shuffle_ps(b[0], b[1], 0x88), _mm256_shuffle_ps(b[0], b[1], 0xdd));
    /* lanes stand for v[0 2 4 6 1 3 5 7] */
    return _mm256_permutevar8x32_ps(c, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* 8 w columns from c on, of one block: n entries meet m queries. */
INLINE void score_cols(const int type, const float *const *q, const int m, const int n,
                       const uint8_t *const *row, uint32_t c, const int w, __m256 *a)
{
    __m256 d[8];
    EACH (j, n)
        d[j] = type == AQ_KV_Q8_0 ? q8_scale(row[j] + c / 32 * 34) : _mm256_setzero_ps();
    EACH (i, w) {
        __m256 y[8];
        EACH (h, m)
            y[h] = _mm256_loadu_ps(q[h] + c + 8 * i);
        EACH (j, n) {
            __m256 x = entry8(type, row[j], c + 8 * (uint32_t)i, d[j]);
            EACH (h, m)
                a[h * n + j] = _mm256_fmadd_ps(y[h], x, a[h * n + j]);
        }
    }
}

/* n = 8 / m scores of each query, in the lanes of v, to their places. */
INLINE void put_scores(__m256 v, const int m, const int n, float (*s)[AQ_ATTN_TOK], uint32_t t)
{
    const __m128 half[2] = {_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)};
    if (n == 8)
        _mm256_storeu_ps(s[0] + t, v);
    EACH (h, m) {
        if (n == 4)
            _mm_storeu_ps(s[h] + t, half[h & 1]);
        if (n == 2)
            _mm_storel_pi((void *)(s[h] + t),
                          h & 1 ? _mm_movehl_ps(half[h / 2], half[h / 2]) : half[h / 2]);
    }
    if (n == 1) {
        float one[8];
        _mm256_storeu_ps(one, v);
        EACH (h, 8)
            s[h][t] = one[h];
    }
}

/* 8 / m entries at once for m <= 8 heads; the last ones again for none, behind the others. */
INLINE void scores_n(const int type, const float *const *q, const int m, const aq_entries *k,
                     bool asks, uint32_t n_tok, uint32_t d, float scale, float (*s)[AQ_ATTN_TOK],
                     float *top)
{
    const int n = 8 / m;
    float most[8];
    __m256 vmost = _mm256_set1_ps(-INFINITY);
    for (uint32_t t = 0; t < n_tok; t += (uint32_t)n) {
        const uint8_t *row[8];
        __m256 a[8];
        EACH (j, n)
            row[j] = k->p + (size_t)AQ_MIN(t + (uint32_t)j, n_tok - 1) * k->step;
        for (size_t i = 0; asks && i < n * k->ahead_step; i += 64)
            _mm_prefetch((const char *)k->ahead + t * k->ahead_step + i, _MM_HINT_T0);
        EACH (j, 8)
            a[j] = _mm256_setzero_ps();
        uint32_t c = 0;
        for (; c + 32 <= d; c += 32)
            score_cols(type, q, m, n, row, c, 4, a);
        for (; c + 8 <= d; c += 8)
            score_cols(type, q, m, n, row, c, 1, a);
        __m256 v = sums8(a);
        if (c < d) {
            float out[8];
            _mm256_storeu_ps(out, v);
            for (int i = 0; i < m * n; i++)
                for (uint32_t r = c; r < d; r++)
                    out[i] += q[i / n][r] * entry1(type, row[i % n], r);
            v = _mm256_loadu_ps(out);
        }
        v = _mm256_mul_ps(v, _mm256_set1_ps(scale));
        put_scores(v, m, n, s, t);
        vmost = _mm256_max_ps(v, vmost); /* what is no number is passed over */
    }
    _mm256_storeu_ps(most, vmost);
    for (int h = 0; h < m; h++) {
        top[h] = most[h * n];
        for (int j = 1; j < n; j++)
            top[h] = most[h * n + j] > top[h] ? most[h * n + j] : top[h];
    }
}

INLINE void scores_of(const int type, const float *const *q, uint32_t m, const aq_entries *k,
                      uint32_t n_tok, uint32_t d, float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    for (uint32_t i = 0, n; i < m; i += n) {
        bool asks = k->ahead && i == 0;
        n = m - i >= 8 && type != AQ_KV_F32 ? 8 : AQ_MIN(m - i, 4u); /* 8 share the unpacking */
        if (n == 8)
            scores_n(type, q + i, 8, k, asks, n_tok, d, scale, s + i, top + i);
        else if (n == 4)
            scores_n(type, q + i, 4, k, asks, n_tok, d, scale, s + i, top + i);
        else if (n == 3)
            scores_n(type, q + i, 3, k, asks, n_tok, d, scale, s + i, top + i);
        else if (n == 2)
            scores_n(type, q + i, 2, k, asks, n_tok, d, scale, s + i, top + i);
        else
            scores_n(type, q + i, 1, k, asks, n_tok, d, scale, s + i, top + i);
    }
}

void aq_avx2_scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                    float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    const aq_entries e = {.p = (const uint8_t *)k, .step = d * sizeof *k};
    scores_of(AQ_KV_F32, q, m, &e, n_tok, d, scale, s, top);
}

void aq_avx2_scores_f16(const float *const *q, uint32_t m, const aq_entries *k, uint32_t n_tok,
                        uint32_t d, float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    scores_of(AQ_KV_F16, q, m, k, n_tok, d, scale, s, top);
}

void aq_avx2_scores_q8(const float *const *q, uint32_t m, const aq_entries *k, uint32_t n_tok,
                       uint32_t d, float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    scores_of(AQ_KV_Q8_0, q, m, k, n_tok, d, scale, s, top);
}

float aq_avx2_exps(float *s, uint32_t n, float max)
{
    __m256 sum = _mm256_setzero_ps(), m = _mm256_set1_ps(max);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 e = exp8(_mm256_sub_ps(_mm256_loadu_ps(s + i), m));
        _mm256_storeu_ps(s + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    float total = hsum(sum);
    if (i < n) {
        float e[8] = {0};
        memcpy(e, s + i, (n - i) * 4);
        _mm256_storeu_ps(e, exp8(_mm256_sub_ps(_mm256_loadu_ps(e), m)));
        memcpy(s + i, e, (n - i) * 4);
        for (uint32_t j = 0; j < n - i; j++)
            total += e[j];
    }
    return total;
}

/* 8 w columns from i on for m heads, each lane one chain over the entries; w is 8, 4 or less, and i a
 * multiple of 8 w. */
INLINE void mix_cols(const int type, const float (*p)[AQ_ATTN_TOK], const int m, const int w,
                     const aq_entries *e, bool asks, uint32_t n_tok, const float *c,
                     float *const *o, uint32_t i)
{
    __m256 a[4][8];
    EACH (h, m)
        EACH (j, w)
            a[h][j] = _mm256_mul_ps(_mm256_set1_ps(c[h]), _mm256_loadu_ps(o[h] + i + 8 * j));
    const uint8_t *v = e->p;
    /* what comes next, one piece after the other, of which each pass over the columns asks for its part */
    const size_t part = type == AQ_KV_F16 ? 16 * (size_t)w : 34 * (size_t)w / 4;
    const uint8_t *ahead = asks ? e->ahead + i / 8 / w * n_tok * part : NULL;
    for (uint32_t t = 0; t < n_tok; t++, v += e->step) {
        __m256 x[8];
        if (asks) {
            _mm_prefetch((const char *)ahead, _MM_HINT_T0);
            if (w == 8)
                _mm_prefetch((const char *)ahead + 64, _MM_HINT_T0);
            ahead += part;
        }
        if (w == 8) {
            entry(type, v, i, 4, x);
            entry(type, v, i + 32, 4, x + 4);
        } else {
            entry(type, v, i, w, x);
        }
        EACH (h, m) {
            __m256 y = _mm256_set1_ps(p[h][t]);
            EACH (j, w)
                a[h][j] = _mm256_fmadd_ps(y, x[j], a[h][j]);
        }
    }
    EACH (h, m)
        EACH (j, w)
            _mm256_storeu_ps(o[h] + i + 8 * j, a[h][j]);
}

/* w: vectors at a time, 8 sums or more under way. */
INLINE void mix_n(const int type, const float (*p)[AQ_ATTN_TOK], const int m, const int w,
                  const aq_entries *v, bool asks, uint32_t n_tok, uint32_t d, const float *c,
                  float *const *o)
{
    uint32_t i = 0;
    for (; i + 8 * (uint32_t)w <= d; i += 8 * (uint32_t)w)
        mix_cols(type, p, m, w, v, asks, n_tok, c, o, i);
    for (; i + 8 <= d; i += 8)
        mix_cols(type, p, m, 1, v, false, n_tok, c, o, i);
    for (; i < d; i++)
        for (int h = 0; h < m; h++) {
            float a = c[h] * o[h][i];
            for (uint32_t t = 0; t < n_tok; t++)
                a += p[h][t] * entry1(type, v->p + t * v->step, i);
            o[h][i] = a;
        }
}

INLINE void mix_of(const int type, const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *v,
                   uint32_t n_tok, uint32_t d, const float *c, float *const *o)
{
    for (uint32_t i = 0, n; i < m; i += n) {
        bool asks = v->ahead && i == 0;
        n = AQ_MIN(m - i, 4u);
        if (n == 4)
            mix_n(type, p + i, 4, 2, v, asks, n_tok, d, c + i, o + i);
        else if (n == 3)
            mix_n(type, p + i, 3, 4, v, asks, n_tok, d, c + i, o + i);
        else if (n == 2)
            mix_n(type, p + i, 2, 4, v, asks, n_tok, d, c + i, o + i);
        else
            mix_n(type, p + i, 1, 8, v, asks, n_tok, d, c + i, o + i);
    }
}

void aq_avx2_mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                 uint32_t d, const float *c, float *const *o)
{
    const aq_entries e = {.p = (const uint8_t *)v, .step = d * sizeof *v};
    mix_of(AQ_KV_F32, p, m, &e, n_tok, d, c, o);
}

void aq_avx2_mix_f16(const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *v, uint32_t n_tok,
                     uint32_t d, const float *c, float *const *o)
{
    mix_of(AQ_KV_F16, p, m, v, n_tok, d, c, o);
}

void aq_avx2_mix_q8(const float (*p)[AQ_ATTN_TOK], uint32_t m, const aq_entries *v, uint32_t n_tok,
                    uint32_t d, const float *c, float *const *o)
{
    mix_of(AQ_KV_Q8_0, p, m, v, n_tok, d, c, o);
}

/* ---- delta net, gpt-oss ---- */

void aq_avx2_delta(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                   const float *s_in, float *s_out, float *o)
{
    const __m256 scale = _mm256_set1_ps(e);
    for (uint32_t j = 0; j < d; j++, s_in += d, s_out += d) {
        __m256 a[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, b[2] = {a[0], a[0]};
        uint32_t i = 0;
        for (; i + 16 <= d; i += 16)
            EACH (h, 2) {
                __m256 s = _mm256_mul_ps(_mm256_loadu_ps(s_in + i + 8 * h), scale);
                a[h] = _mm256_fmadd_ps(s, _mm256_loadu_ps(k + i + 8 * h), a[h]);
                _mm256_storeu_ps(s_out + i + 8 * h, s);
            }
        float kv = hsum(_mm256_add_ps(a[0], a[1])), out;
        for (; i < d; i++) {
            s_out[i] = s_in[i] * e;
            kv += s_out[i] * k[i];
        }
        float r = beta * (v[j] - kv);
        for (i = 0; i + 16 <= d; i += 16)
            EACH (h, 2) {
                __m256 s = _mm256_fmadd_ps(_mm256_loadu_ps(k + i + 8 * h), _mm256_set1_ps(r),
                                           _mm256_loadu_ps(s_out + i + 8 * h));
                b[h] = _mm256_fmadd_ps(s, _mm256_loadu_ps(q + i + 8 * h), b[h]);
                _mm256_storeu_ps(s_out + i + 8 * h, s);
            }
        out = hsum(_mm256_add_ps(b[0], b[1]));
        for (; i < d; i++) {
            s_out[i] += k[i] * r;
            out += s_out[i] * q[i];
        }
        o[j] = out;
    }
}

INLINE __m256 oai8(__m256 g, __m256 u)
{
    const __m256 one = _mm256_set1_ps(1), most = _mm256_set1_ps(7);
    g = _mm256_min_ps(g, most);
    u = _mm256_max_ps(_mm256_min_ps(u, most), _mm256_set1_ps(-7));
    __m256 e = exp8(_mm256_mul_ps(g, _mm256_set1_ps(-1.702f)));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), _mm256_add_ps(u, one));
}

void aq_avx2_oai(const float *gate, const float *up, size_t n, float *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, oai8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n) {
        float g[8] = {0}, u[8] = {0};
        memcpy(g, gate + i, (n - i) * 4);
        memcpy(u, up + i, (n - i) * 4);
        _mm256_storeu_ps(g, oai8(_mm256_loadu_ps(g), _mm256_loadu_ps(u)));
        memcpy(y + i, g, (n - i) * 4);
    }
}

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
