/* SPDX-License-Identifier: Apache-2.0 */
/* The path "avx2", all but products: rounding of input rows, norms, activations, attention, delta net. Paths
 * above it take from here what they have nothing better for. Compiled with AVX2's flags; only after CPUID
 * has said so. Any thread. Contracts: aq_isa. */
#include <immintrin.h>
#include <math.h>

#include "each-priv.h"
#include "isa-avx2-priv.h"
#include "load-avx2.h"
#include "quant-priv.h"

INLINE float hsum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

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
        _mm256_storeu_ps(y + i, load_f16(x + i));
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
