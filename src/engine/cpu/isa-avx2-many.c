/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx2", many input rows at once. 256 columns of a weight tile become unsigned bytes in memory
 * once for all rows; then four rows at a time meet them, with as few addresses and registers as that
 * takes. Sums of integers are exact and the float steps are those of isa-avx2.c in their order, so that
 * a row has the same bits in both. Compiled with AVX2's flags; only after CPUID has said so. Any thread.
 *
 * Sums of byte pairs are kept in 16 bits as long as they fit (isa-avx2.c), which those of 8-bit weights
 * do not; the multiplication of 16-bit pairs that widens them brings in a sub-block's scale. */
#include "unpack-avx2.h"

/* Here and now: else compilers start all products of a sum first and spill them. */
#define PIN(v) __asm__("" : "+x"(v))

/* ---- products ---- */

/* n_row rows × n quads of weights of n_tile tiles, in 16 bits. */
INLINE void sums(const int n_tile, const int n_row, const __m256i *const *w, const int8_t *q,
                 size_t wide, const int n, __m256i (*sum)[4])
{
    EACH (t, n) {
        __m256i v[2];
        EACH (u, n_tile)
            v[u] = w[u][t];
        EACH (i, n_row) {
            const __m256i x = quad(q + (size_t)i * wide + 4 * t);
            EACH (u, n_tile) {
                __m256i p = _mm256_maddubs_epi16(v[u], x);
                sum[u][i] = t ? _mm256_add_epi16(sum[u][i], p) : p;
                PIN(sum[u][i]);
            }
        }
    }
}

INLINE void add_parts(const int n_tile, const int n_row, __m256i (*part)[4], const __m256i *by,
                      __m256i (*all)[4])
{
    EACH (u, n_tile)
        EACH (i, n_row)
            all[u][i] = _mm256_add_epi32(all[u][i], _mm256_madd_epi16(part[u][i], by[u]));
}

/* Two quads whose products 16 bits hold, times `by`, added to all. */
INLINE void add_two(const int n_tile, const int n_row, const __m256i *const *w, const int8_t *q,
                    size_t wide, const __m256i *const *by, __m256i (*all)[4])
{
    __m256i v[2][2];
    EACH (u, n_tile)
        EACH (t, 2)
            v[u][t] = w[u][t];
    EACH (i, n_row) {
        const int8_t *at = q + (size_t)i * wide;
        const __m256i x0 = quad(at), x1 = quad(at + 4);
        EACH (u, n_tile) {
            __m256i p = _mm256_add_epi16(_mm256_maddubs_epi16(v[u][0], x0),
                                         _mm256_maddubs_epi16(v[u][1], x1));
            all[u][i] = _mm256_add_epi32(all[u][i], _mm256_madd_epi16(p, *by[u]));
            PIN(all[u][i]);
        }
    }
}

/* n quads of signed weights, times `by`, added to all: 16 bits hold the products of one, magnitudes × inputs
 * that take the weights' signs. */
INLINE void add_signed(const int n_tile, const int n_row, const __m256i *const *w,
                       const __m256i *const *size, const int8_t *q, size_t wide, const int n,
                       const __m256i *by, __m256i (*all)[4])
{
    EACH (t, n) {
        __m256i mag[2];
        EACH (u, n_tile)
            mag[u] = size[u][t];
        EACH (i, n_row) {
            const __m256i x = quad(q + (size_t)i * wide + 4 * t);
            EACH (u, n_tile) {
                __m256i p = _mm256_xor_si256(x, w[u][t]);
                p = _mm256_madd_epi16(_mm256_maddubs_epi16(mag[u], p), by[u]);
                all[u][i] = _mm256_add_epi32(all[u][i], p);
                PIN(all[u][i]);
            }
        }
    }
}

/* Rows from one on. */
typedef struct rows {
    const int8_t *q;
    size_t wide;
    const aq_row_in *row;
    const float *d, *s; /* of the first block; from block to block AQ_MANY_ROWS */
} rows;

/* ---- blocks of 32 ---- */

/* Sub-block j of a block of 256. */
INLINE void dot_32(const int layout, const int n_tile, const int n_row, const weights *w,
                   const rows *r, uint32_t j, const int32_t *const *n32, __m256i (*sum)[4])
{
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i *quads[2], *size[2], *more[2], by[2] = {one, one};
    const int8_t *q = r->q + 32 * j;
    EACH (u, n_tile) {
        quads[u] = w[u].quad + 8 * j;
        more[u] = quads[u] + 4;
        size[u] = w[u].size + 8 * j;
    }
    if (layout == AQ_L_Q8_0 || layout == AQ_L_IQ4_NL) {
        EACH (u, n_tile)
            EACH (i, n_row)
                sum[u][i] = w[u].base[j];
        add_signed(n_tile, n_row, quads, size, q, r->wide, 8, by, sum);
    } else if (layout == AQ_L_MXFP4) { /* 16 bits hold four quads; -16 Σ q */
        __m256i part[2][4];
        sums(n_tile, n_row, quads, q, r->wide, 4, part);
        EACH (i, n_row) {
            const __m256i from = _mm256_srai_epi32(_mm256_set1_epi32(n32[i][j]), 3);
            EACH (u, n_tile)
                sum[u][i] = _mm256_add_epi32(from, _mm256_madd_epi16(part[u][i], one));
        }
        sums(n_tile, n_row, more, q + 16, r->wide, 4, part);
        EACH (i, n_row)
            EACH (u, n_tile)
                sum[u][i] = _mm256_add_epi32(sum[u][i], _mm256_madd_epi16(part[u][i], one));
    } else {
        __m256i part[2][4];
        sums(n_tile, n_row, quads, q, r->wide, 8, part);
        EACH (i, n_row)
            EACH (u, n_tile)
                sum[u][i] = _mm256_madd_epi16(part[u][i], one);
    }
}

INLINE void float_step(const int layout, const int n_tile, const int n_row, const weights *w,
                       const rows *r, uint32_t j, __m256i (*sum)[4], float (*y)[AQ_LANES_MAX])
{
    EACH (i, n_row) {
        const __m256 by = _mm256_set1_ps(r->d[j * AQ_MANY_ROWS + (uint32_t)i]);
        EACH (u, n_tile) {
            __m256 acc = _mm256_loadu_ps(y[i] + LANES * (uint32_t)u);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[u][i]), _mm256_mul_ps(w[u].scale[j], by),
                                  acc);
            if (layout == AQ_L_Q4_0 || layout == AQ_L_Q4_1)
                acc = _mm256_fmadd_ps(w[u].min[j],
                                      _mm256_set1_ps(r->s[j * AQ_MANY_ROWS + (uint32_t)i]), acc);
            _mm256_storeu_ps(y[i] + LANES * (uint32_t)u, acc);
        }
    }
}

/* ---- blocks of 256 ---- */

/* Sub-block j, times its scales. */
INLINE void add_sub(const int layout, const int n_tile, const int n_row, const weights *w,
                    const rows *r, uint32_t j, __m256i (*all)[4])
{
    const int8_t *q = r->q + 32 * j;
    const __m256i *quads[2], *size[2], *more[2], *of[2];
    __m256i by[2], part[2][4];
    EACH (u, n_tile) {
        quads[u] = w[u].quad + 8 * j;
        more[u] = quads[u] + 4;
        size[u] = w[u].size + 8 * j;
        by[u] = w[u].by[j];
    }
    if (layout == AQ_L_IQ4_XS) {
        add_signed(n_tile, n_row, quads, size, q, r->wide, 8, by, all);
    } else if (layout == AQ_L_Q6_K) {
        EACH (h, 4) {
            EACH (u, n_tile) {
                more[u] = quads[u] + 2 * h;
                of[u] = &w[u].by[2 * j + (uint32_t)h / 2];
            }
            add_two(n_tile, n_row, more, q + 8 * h, r->wide, of, all);
        }
    } else {
        /* 16 bits hold 8 quads of 4 bits, 4 of 5 */
        sums(n_tile, n_row, quads, q, r->wide, layout == AQ_L_Q5_K ? 4 : 8, part);
        add_parts(n_tile, n_row, part, by, all);
        if (layout == AQ_L_Q5_K) {
            sums(n_tile, n_row, more, q + 16, r->wide, 4, part);
            add_parts(n_tile, n_row, part, by, all);
        }
    }
}

/* n pairs of mins or scales × pairs of a row's sums. */
INLINE void dot_pairs(const int n_tile, const weights *w, const int16_t *sum, const int n,
                      __m256i *ret)
{
    EACH (g, n) {
        __m256i s = quad((const int8_t *)(sum + 2 * g));
        EACH (u, n_tile) {
            __m256i p = _mm256_madd_epi16(w[u].pair[g], s);
            ret[u] = g ? _mm256_add_epi32(ret[u], p) : p;
        }
    }
}

INLINE void float_step_256(const int layout, const int n_tile, const int n_row, const weights *w,
                           size_t b, const rows *r, __m256i (*all)[4], float (*y)[AQ_LANES_MAX])
{
    const bool six = layout == AQ_L_Q6_K, min = layout == AQ_L_Q4_K || layout == AQ_L_Q5_K;
    EACH (i, n_row) {
        const __m256 by = _mm256_set1_ps(r->d[i]);
        __m256i off[2];
        if (six || min)
            dot_pairs(n_tile, w, six ? r->row[i].sum16 + 16 * b : r->row[i].sum32 + 8 * b,
                      six ? 8 : 4, off);
        EACH (u, n_tile) {
            __m256 acc = _mm256_loadu_ps(y[i] + LANES * (uint32_t)u);
            __m256i sum = all[u][i];
            if (six)
                sum = _mm256_sub_epi32(sum, _mm256_slli_epi32(off[u], 5));
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(w[u].d, by), acc);
            if (min)
                acc =
                    _mm256_fnmadd_ps(_mm256_cvtepi32_ps(off[u]), _mm256_mul_ps(w[u].dmin, by), acc);
            _mm256_storeu_ps(y[i] + LANES * (uint32_t)u, acc);
        }
    }
}

/* ---- all rows ---- */

INLINE bool of_256(int layout)
{
    return layout == AQ_L_Q4_K || layout == AQ_L_Q5_K || layout == AQ_L_Q6_K ||
           layout == AQ_L_IQ4_XS;
}

/* Weights that come next, asked of memory while rows are multiplied: a line of each tile at a time. */
typedef struct ahead {
    const uint8_t *p;
    size_t step, at, end; /* from tile to tile; of the bytes of a block */
} ahead;

INLINE void ask(const int n_tile, ahead *a)
{
    if (a->at < a->end) {
        EACH (u, n_tile)
            _mm_prefetch((const char *)a->p + (size_t)u * a->step + a->at, _MM_HINT_T0);
        a->at += 64;
    }
}

/* n_row rows from r on, block b. */
INLINE void rows_block(const int layout, const int n_tile, const int n_row, const weights *w,
                       const rows *r, const int8_t *next, uint32_t b, uint32_t n_sub, ahead *a,
                       float (*y)[AQ_LANES_MAX])
{
    const int32_t *n32[4];
    __m256i mem[2][4], (*all)[4] = mem;
    if (layout == AQ_L_Q4_K || layout == AQ_L_Q5_K) /* registers are for the 16-bit sums */
        __asm__("" : "+r"(all) : : "memory");
    if (of_256(layout))
        EACH (u, n_tile)
            EACH (i, n_row)
                all[u][i] = layout == AQ_L_IQ4_XS ? w[u].base[0] : _mm256_setzero_si256();
    if (layout == AQ_L_MXFP4)
        EACH (i, n_row)
            n32[i] = r->row[i].n32 + b * SUBS;
    for (uint32_t j = 0; j < n_sub; j++) {
        _mm_prefetch((const char *)next + j / 2 * r->wide + j % 2 * 128, _MM_HINT_T0);
        _mm_prefetch((const char *)next + j / 2 * r->wide + j % 2 * 128 + 64, _MM_HINT_T0);
        ask(n_tile, a);
        if (of_256(layout)) {
            add_sub(layout, n_tile, n_row, w, r, j, all);
        } else {
            __m256i sum[2][4];
            dot_32(layout, n_tile, n_row, w, r, j, n32, sum);
            float_step(layout, n_tile, n_row, w, r, j, sum, y);
        }
    }
    if (of_256(layout))
        float_step_256(layout, n_tile, n_row, w, b, r, all, y);
}

INLINE size_t block_bytes(int layout)
{
    switch (layout) {
    case AQ_L_Q4_0:
    case AQ_L_IQ4_NL:
        return SUBS * 18 * LANES;
    case AQ_L_Q4_1:
        return SUBS * 20 * LANES;
    case AQ_L_Q8_0:
        return SUBS * 34 * LANES;
    case AQ_L_IQ4_XS:
        return 136 * LANES;
    case AQ_L_Q4_K:
        return 144 * LANES;
    case AQ_L_Q5_K:
        return 176 * LANES;
    case AQ_L_Q6_K:
        return 210 * LANES;
    default:
        return SUBS * 17 * LANES;
    }
}

INLINE void many(const int layout, const int n_tile, const uint8_t *tile, uint32_t k,
                 const aq_rows_in *in, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    const size_t tile_bytes = block_bytes(layout) / SUBS * (k / 32);
    weights w[2];
    for (uint32_t i = 0; i < n; i++)
        EACH (u, n_tile)
            _mm256_storeu_ps(y[i] + LANES * (uint32_t)u, _mm256_setzero_ps());
    for (uint32_t b = 0; b * BLOCK < k; b++) {
        const uint32_t n_sub = AQ_MIN((k - b * BLOCK) / 32, SUBS);
        EACH (u, n_tile)
            unpack(layout, tile + (size_t)u * tile_bytes, b, n_sub, &w[u]);
        const bool last = (b + 1) * BLOCK >= k;
        ahead a = {.p = last ? tile + (size_t)n_tile * tile_bytes
                             : tile + (b + 1) * block_bytes(layout),
                   .step = tile_bytes,
                   .end = block_bytes(layout)};
        for (uint32_t r = 0; r < n; r += 4) {
            const uint32_t of = of_256(layout) ? b : b * SUBS;
            const rows rs = {.q = in->q + r * in->wide + (size_t)b * BLOCK,
                             .wide = in->wide,
                             .row = in->row + r,
                             .d = in->d[of] + r,
                             .s = of_256(layout) ? NULL : in->s[of] + r};
            const int8_t *next = r + 4 < n ? rs.q + 4 * rs.wide : rs.q;
            if (n - r >= 4)
                rows_block(layout, n_tile, 4, w, &rs, next, b, n_sub, &a, y + r);
            else if (n - r == 3)
                rows_block(layout, n_tile, 3, w, &rs, next, b, n_sub, &a, y + r);
            else if (n - r == 2)
                rows_block(layout, n_tile, 2, w, &rs, next, b, n_sub, &a, y + r);
            else
                rows_block(layout, n_tile, 1, w, &rs, next, b, n_sub, &a, y + r);
        }
    }
}

#define MANY(name, layout)                                                                      \
    void aq_avx2_many_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
                             float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                           \
        many(layout, 1, tile, k, in, n, y);                                                     \
    }                                                                                           \
    void aq_avx2_pair_##name(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
                             float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                           \
        many(layout, 2, tile, k, in, n, y);                                                     \
    }
MANY(q8_0, AQ_L_Q8_0)
MANY(q4_0, AQ_L_Q4_0)
MANY(q4_1, AQ_L_Q4_1)
MANY(q4_k, AQ_L_Q4_K)
MANY(q5_k, AQ_L_Q5_K)
MANY(q6_k, AQ_L_Q6_K)
MANY(iq4_nl, AQ_L_IQ4_NL)
MANY(iq4_xs, AQ_L_IQ4_XS)
MANY(mxfp4, AQ_L_MXFP4)
