/* SPDX-License-Identifier: Apache-2.0 */
/* The path "c": plain C for any CPU, and the twin that every other path is tested against. Any
 * thread. */
#include <math.h>

#include "cpu-priv.h"
#include "model-priv.h"

static float f16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return aq_f16_to_f32(v);
}

static float val_f32(const uint8_t *p)
{
    float v;
    memcpy(&v, p, 4);
    return v;
}

static float val_bf16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    uint32_t u = (uint32_t)h << 16;
    float v;
    memcpy(&v, &u, 4);
    return v;
}

/* Float weights: four chains of sums per output, column c in chain c mod 4. */
#define FLOAT_TILE(name, bytes, val)                                                     \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,  \
                     float(*y)[AQ_TILE])                                                 \
    {                                                                                    \
        float sum[AQ_TILE_ROWS][4][AQ_TILE] = {0}, w[AQ_TILE];                           \
        for (uint32_t c = 0; c < k; c++, tile += AQ_TILE * (bytes)) {                    \
            for (uint32_t r = 0; r < AQ_TILE; r++)                                       \
                w[r] = val(tile + r * (bytes));                                          \
            for (uint32_t i = 0; i < n; i++)                                             \
                for (uint32_t r = 0; r < AQ_TILE; r++)                                   \
                    sum[i][c % 4][r] += row[i].x[c] * w[r];                              \
        }                                                                                \
        for (uint32_t i = 0; i < n; i++)                                                 \
            for (uint32_t r = 0; r < AQ_TILE; r++)                                       \
                y[i][r] = (sum[i][0][r] + sum[i][1][r]) + (sum[i][2][r] + sum[i][3][r]); \
    }
FLOAT_TILE(tile_f32, 4, val_f32)
FLOAT_TILE(tile_f16, 2, f16)
FLOAT_TILE(tile_bf16, 2, val_bf16)

/* Integer kernels: 32 columns of a tile's rows side by side, then plain dot products. */
typedef int8_t block[AQ_TILE][32];

static int32_t dot16(const int8_t *w, const int8_t *q)
{
    int32_t sum = 0;
    for (uint32_t c = 0; c < 16; c++)
        sum += w[c] * q[c];
    return sum;
}

static int32_t dot32(const int8_t *w, const int8_t *q)
{
    return dot16(w, q) + dot16(w + 16, q + 16);
}

/* n quads of bits (byte >> shift & mask) of each row from `src` to columns col0 …; a quad of 8 rows
 * is 32 bytes. */
static void spread(const uint8_t *src, uint32_t n, uint32_t shift, uint8_t mask, uint32_t col0,
                   block w)
{
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t r = 0; r < AQ_TILE; r++)
            for (uint32_t c = 0; c < 4; c++)
                w[r][col0 + 4 * j + c] = (int8_t)(src[32 * j + 4 * r + c] >> shift & mask);
}

static void tile_q8_0(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_TILE])
{
    block w;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 34 * AQ_TILE) {
        spread(tile + 16, 8, 0, 0xff, 0, w);
        for (uint32_t r = 0; r < AQ_TILE; r++) {
            float d = f16(tile + 2 * r);
            for (uint32_t i = 0; i < n; i++)
                y[i][r] += (float)dot32(w[r], row[i].q + 32 * b) * (d * row[i].d[b]);
        }
    }
}

static void tile_q4_1(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_TILE])
{
    block w;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 20 * AQ_TILE) {
        spread(tile + 32, 4, 0, 15, 0, w);
        spread(tile + 32, 4, 4, 15, 16, w);
        for (uint32_t r = 0; r < AQ_TILE; r++) {
            float d = f16(tile + 2 * r), m = f16(tile + 16 + 2 * r);
            for (uint32_t i = 0; i < n; i++) {
                y[i][r] += (float)dot32(w[r], row[i].q + 32 * b) * (d * row[i].d[b]);
                y[i][r] += m * row[i].s[b];
            }
        }
    }
}

/* Scale and min of sub-block j, from the 12 bytes that stand 8 rows apart. */
static void k4_scale(const uint8_t *s, uint32_t j, uint8_t *ret_scale, uint8_t *ret_min)
{
    if (j < 4) {
        *ret_scale = s[j * AQ_TILE] & 63;
        *ret_min = s[(j + 4) * AQ_TILE] & 63;
    } else {
        *ret_scale = (uint8_t)((s[(j + 4) * AQ_TILE] & 15) | (s[(j - 4) * AQ_TILE] >> 6) << 4);
        *ret_min = (uint8_t)((s[(j + 4) * AQ_TILE] >> 4) | (s[j * AQ_TILE] >> 6) << 4);
    }
}

/* Q4_K, and Q5_K, which has 8 quads of high bits before the nibbles. */
static void tile_k(bool five, const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                   float (*y)[AQ_TILE])
{
    const uint32_t nibbles = five ? 384 : 128;
    block w, high;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++) { /* block b is sub-block j of its 256 columns */
        uint32_t j = b % 8;
        spread(tile + nibbles + j / 2 * 256, 8, j % 2 * 4, 15, 0, w);
        if (five)
            spread(tile + 128, 8, j, 1, 0, high);
        for (uint32_t r = 0; r < AQ_TILE; r++) {
            uint8_t scale, min;
            k4_scale(tile + 32 + r, j, &scale, &min);
            float d = f16(tile + 2 * r) * scale, m = f16(tile + 16 + 2 * r) * min;
            for (uint32_t c = 0; five && c < 32; c++)
                w[r][c] = (int8_t)(w[r][c] | high[r][c] << 4);
            for (uint32_t i = 0; i < n; i++) {
                y[i][r] += (float)dot32(w[r], row[i].q + 32 * b) * (d * row[i].d[b]);
                y[i][r] -= m * row[i].s[b];
            }
        }
        tile += j == 7 ? (nibbles + 1024) : 0;
    }
}

static void tile_q4_k(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_TILE])
{
    tile_k(false, tile, k, row, n, y);
}

static void tile_q5_k(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_TILE])
{
    tile_k(true, tile, k, row, n, y);
}

static void tile_q6_k(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,
                      float (*y)[AQ_TILE])
{
    block w, high;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++) {
        uint32_t j = b % 8, part = j % 4;
        spread(tile + 144 + j / 4 * 512 + part % 2 * 256, 8, part / 2 * 4, 15, 0, w);
        spread(tile + 1168 + j / 4 * 256, 8, 2 * part, 3, 0, high);
        for (uint32_t r = 0; r < AQ_TILE; r++) {
            float d = f16(tile + 2 * r);
            const int8_t *scale = (const int8_t *)tile + 16 + 2 * j * AQ_TILE + r;
            for (uint32_t c = 0; c < 32; c++)
                w[r][c] = (int8_t)((w[r][c] | high[r][c] << 4) - 32);
            for (uint32_t i = 0; i < n; i++) {
                const int8_t *q = row[i].q + 32 * b;
                int32_t sum = scale[0] * dot16(w[r], q) + scale[AQ_TILE] * dot16(w[r] + 16, q + 16);
                y[i][r] += (float)sum * (d * row[i].d[b]);
            }
        }
        tile += j == 7 ? 210 * AQ_TILE : 0;
    }
}

/* The largest magnitude is found among the bit patterns, where infinity and NaN are larger than
 * every number: they end up in d and so in the result, instead of being rounded away. */
static void quant(const float *x, uint32_t k, int8_t *q, float *d, float *s, int16_t *s16)
{
    for (uint32_t b = 0; b < k / 32; b++, x += 32, q += 32, s16 += 2) {
        uint32_t bits = 0;
        for (uint32_t c = 0; c < 32; c++) {
            uint32_t v;
            memcpy(&v, &x[c], 4);
            bits = AQ_MAX(bits, v & 0x7fffffff);
        }
        float max;
        memcpy(&max, &bits, 4);
        float inv =
            max >= 0x1p-100f ? 127 / max : 0; /* less would overflow 127 / max, and is nothing */
        int32_t sum[2] = {0};
        for (uint32_t c = 0; c < 32; c++) {
            float v = rintf(x[c] * inv);
            q[c] = (int8_t)(v > 127 ? 127 : v >= -127 ? v : -127);
            sum[c / 16] += q[c];
        }
        d[b] = max / 127;
        s[b] = d[b] * (float)(sum[0] + sum[1]);
        s16[0] = (int16_t)(16 * sum[0]);
        s16[1] = (int16_t)(16 * sum[1]);
    }
}

static void norm(const float *x, const float *w, uint32_t dim, float eps, float *y)
{
    double sum = 0;
    for (uint32_t i = 0; i < dim; i++)
        sum += (double)x[i] * x[i];
    float inv = (float)(1 / sqrt(sum / dim + eps));
    for (uint32_t i = 0; i < dim; i++)
        y[i] = x[i] * inv * w[i];
}

static void swiglu(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

static void to_f16(const float *x, size_t n, uint16_t *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = aq_f32_to_f16(x[i]);
}

static float kv_val(const void *p, bool half, size_t i)
{
    return half ? aq_f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static void scores(const float *q, const void *k, bool half, uint32_t n_tok, uint32_t d,
                   float scale, float *s)
{
    for (uint32_t t = 0; t < n_tok; t++) {
        float sum = 0;
        for (uint32_t i = 0; i < d; i++)
            sum += q[i] * kv_val(k, half, (size_t)t * d + i);
        s[t] = scale * sum;
    }
}

static float exps(float *s, uint32_t n, float max)
{
    float sum = 0;
    for (uint32_t t = 0; t < n; t++)
        sum += s[t] = expf(s[t] - max);
    return sum;
}

static void mix(const float *p, const void *v, bool half, uint32_t n_tok, uint32_t d, float c,
                float *o)
{
    for (uint32_t i = 0; i < d; i++)
        o[i] *= c;
    for (uint32_t t = 0; t < n_tok; t++)
        for (uint32_t i = 0; i < d; i++)
            o[i] += p[t] * kv_val(v, half, (size_t)t * d + i);
}

const aq_isa aq_isa_c = {
    .name = "c",
    .tile = {[AQ_L_F32] = tile_f32,
             [AQ_L_F16] = tile_f16,
             [AQ_L_BF16] = tile_bf16,
             [AQ_L_Q8_0] = tile_q8_0,
             [AQ_L_Q4_1] = tile_q4_1,
             [AQ_L_Q4_K] = tile_q4_k,
             [AQ_L_Q5_K] = tile_q5_k,
             [AQ_L_Q6_K] = tile_q6_k},
    .quant = quant,
    .norm = norm,
    .swiglu = swiglu,
    .to_f16 = to_f16,
    .scores = scores,
    .exps = exps,
    .mix = mix,
};
