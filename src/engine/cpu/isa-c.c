/* SPDX-License-Identifier: Apache-2.0 */
/* The path "c": plain C for any CPU, and the twin that every other path is tested against. Any
 * thread. */
#include <math.h>

#include "cpu-priv.h"
#include "quant-priv.h"

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

#define LANES_FN(name)                                                                       \
    static void name##_8(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n,  \
                         float(*y)[AQ_LANES_MAX])                                            \
    {                                                                                        \
        name(8, tile, k, row, n, y);                                                         \
    }                                                                                        \
    static void name##_16(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                          float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                        \
        name(16, tile, k, row, n, y);                                                        \
    }

/* Any number of rows: the first input copy is read where they lie side by side. */
#define MANY_FN(name)                                                                          \
    static void name##_many(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
                            float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                          \
        for (uint32_t i = 0; i < n; i++) {                                                     \
            aq_row_in row = in->row[i];                                                        \
            row.q = in->q + i * in->wide;                                                      \
            name##_16(tile, k, &row, 1, y + i);                                                \
        }                                                                                      \
    }

/* Float weights: four chains of sums per output, column c in chain c mod 4. */
#define FLOAT_TILE(name, bytes, val)                                                   \
    static inline void name(const uint32_t lanes, const uint8_t *tile, uint32_t k,     \
                            const aq_row_in *row, uint32_t n, float(*y)[AQ_LANES_MAX]) \
    {                                                                                  \
        for (uint32_t i = 0; i < n; i++) {                                             \
            float sum[4][AQ_LANES_MAX] = {0};                                          \
            const uint8_t *t = tile;                                                   \
            for (uint32_t c = 0; c < k; c++)                                           \
                for (uint32_t r = 0; r < lanes; r++, t += (bytes))                     \
                    sum[c % 4][r] += row[i].x[c] * val(t);                             \
            for (uint32_t r = 0; r < lanes; r++)                                       \
                y[i][r] = (sum[0][r] + sum[1][r]) + (sum[2][r] + sum[3][r]);           \
        }                                                                              \
    }                                                                                  \
    LANES_FN(name)
FLOAT_TILE(tile_f32, 4, val_f32)
FLOAT_TILE(tile_f16, 2, f16)
FLOAT_TILE(tile_bf16, 2, val_bf16)

/* Integer kernels: 32 columns of a tile's rows side by side, then plain dot products. */
typedef int8_t block[AQ_LANES_MAX][32];

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

/* n quads of bits (byte >> shift & mask) of each row from `src` to columns col0 … */
static void spread(const uint32_t lanes, const uint8_t *src, uint32_t n, uint32_t shift,
                   uint8_t mask, uint32_t col0, block w)
{
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t r = 0; r < lanes; r++)
            for (uint32_t c = 0; c < 4; c++)
                w[r][col0 + 4 * j + c] = (int8_t)(src[4 * lanes * j + 4 * r + c] >> shift & mask);
}

#define LANES_FN_MANY(name) LANES_FN(name) MANY_FN(name)

static inline void tile_q8_0(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    block w;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 34 * lanes) {
        spread(lanes, tile + 2 * lanes, 8, 0, 0xff, 0, w);
        for (uint32_t r = 0; r < lanes; r++) {
            float d = f16(tile + 2 * r);
            for (uint32_t i = 0; i < n; i++)
                y[i][r] += (float)dot32(w[r], row[i].q + 32 * b) * (d * row[i].d[b]);
        }
    }
}
LANES_FN_MANY(tile_q8_0)

static inline void tile_q4_1(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    block w;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 20 * lanes) {
        spread(lanes, tile + 4 * lanes, 4, 0, 15, 0, w);
        spread(lanes, tile + 4 * lanes, 4, 4, 15, 16, w);
        for (uint32_t r = 0; r < lanes; r++) {
            float d = f16(tile + 2 * r), m = f16(tile + 2 * lanes + 2 * r);
            for (uint32_t i = 0; i < n; i++) {
                y[i][r] += (float)dot32(w[r], row[i].q + 32 * b) * (d * row[i].d[b]);
                y[i][r] += m * row[i].s[b];
            }
        }
    }
}
LANES_FN_MANY(tile_q4_1)

/* Scale and min of sub-block j, from the 12 bytes that stand `lanes` apart. */
static void k4_scale(const uint8_t *s, uint32_t lanes, uint32_t j, uint8_t *ret_scale,
                     uint8_t *ret_min)
{
    if (j < 4) {
        *ret_scale = s[j * lanes] & 63;
        *ret_min = s[(j + 4) * lanes] & 63;
    } else {
        *ret_scale = (uint8_t)((s[(j + 4) * lanes] & 15) | (s[(j - 4) * lanes] >> 6) << 4);
        *ret_min = (uint8_t)((s[(j + 4) * lanes] >> 4) | (s[j * lanes] >> 6) << 4);
    }
}

/* Sums of a block of 256 columns, and the float step that ends it. There is one copy of it, for any number
 * of rows: where a CPU has fused multiplications, compilers fuse in one copy and not in another. */
typedef int32_t sums[AQ_TILE_ROWS][AQ_LANES_MAX]; /* [input row][weight row] */

static __attribute__((noinline)) void add_block(uint32_t lanes, const uint8_t *d_of, uint32_t b,
                                                const aq_row_in *row, uint32_t n, const sums sum,
                                                float sign, float (*y)[AQ_LANES_MAX])
{
    for (uint32_t r = 0; r < lanes; r++) {
        float d = sign * f16(d_of + 2 * r);
        for (uint32_t i = 0; i < n; i++)
            y[i][r] += (float)sum[i][r] * (d * row[i].d[b]);
    }
}

/* Q4_K, and Q5_K, which has 8 quads of high bits before the nibbles. */
static inline void tile_k(const bool five, const uint32_t lanes, const uint8_t *tile, uint32_t k,
                          const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    const uint32_t nibbles = (five ? 48 : 16) * lanes;
    block w, high;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 256; b++, tile += nibbles + 128 * lanes) {
        sums sum = {{0}}, mins = {{0}};
        for (uint32_t j = 0; j < 8; j++) {
            spread(lanes, tile + nibbles + j / 2 * 32 * lanes, 8, j % 2 * 4, 15, 0, w);
            if (five)
                spread(lanes, tile + 16 * lanes, 8, j, 1, 0, high);
            for (uint32_t r = 0; r < lanes; r++) {
                uint8_t scale, min;
                k4_scale(tile + 4 * lanes + r, lanes, j, &scale, &min);
                for (uint32_t c = 0; five && c < 32; c++)
                    w[r][c] = (int8_t)(w[r][c] | high[r][c] << 4);
                for (uint32_t i = 0; i < n; i++) {
                    sum[i][r] += scale * dot32(w[r], row[i].q + 256 * b + 32 * j);
                    mins[i][r] += min * row[i].sum32[8 * b + j];
                }
            }
        }
        add_block(lanes, tile, b, row, n, sum, 1, y);
        add_block(lanes, tile + 2 * lanes, b, row, n, mins, -1, y);
    }
}

static inline void tile_q4_k(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    tile_k(false, lanes, tile, k, row, n, y);
}
LANES_FN_MANY(tile_q4_k)

static inline void tile_q5_k(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    tile_k(true, lanes, tile, k, row, n, y);
}
LANES_FN_MANY(tile_q5_k)

static inline void tile_q6_k(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    block w, high;
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 256; b++, tile += 210 * lanes) {
        sums sum = {{0}};
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t part = j % 4;
            spread(lanes, tile + 18 * lanes + j / 4 * 64 * lanes + part % 2 * 32 * lanes, 8,
                   part / 2 * 4, 15, 0, w);
            spread(lanes, tile + 146 * lanes + j / 4 * 32 * lanes, 8, 2 * part, 3, 0, high);
            for (uint32_t r = 0; r < lanes; r++) {
                const int8_t *scale = (const int8_t *)tile + 2 * lanes + 2 * j * lanes + r;
                for (uint32_t c = 0; c < 32; c++)
                    w[r][c] = (int8_t)((w[r][c] | high[r][c] << 4) - 32);
                for (uint32_t i = 0; i < n; i++) {
                    const int8_t *q = row[i].q + 256 * b + 32 * j;
                    sum[i][r] +=
                        scale[0] * dot16(w[r], q) + scale[lanes] * dot16(w[r] + 16, q + 16);
                }
            }
        }
        add_block(lanes, tile, b, row, n, sum, 1, y);
    }
}
LANES_FN_MANY(tile_q6_k)

/* Types whose 4 bits stand for a value of a table: 32 columns share d. */
static int32_t nibbles_dot(const uint32_t lanes, const uint8_t *quads, const int8_t *value,
                           uint32_t r, const int8_t *q)
{
    int32_t sum = 0;
    for (uint32_t c = 0; c < 16; c++) {
        uint8_t b = quads[4 * lanes * (c / 4) + 4 * r + c % 4];
        sum += value[b & 15] * q[c] + value[b >> 4] * q[c + 16];
    }
    return sum;
}

static const int8_t q4_0_value[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

static inline void tile_values(const uint32_t lanes, const int8_t *value, const uint8_t *tile,
                               uint32_t k, const aq_row_in *row, uint32_t n,
                               float (*y)[AQ_LANES_MAX])
{
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 18 * lanes)
        for (uint32_t r = 0; r < lanes; r++)
            for (uint32_t i = 0; i < n; i++)
                y[i][r] +=
                    (float)nibbles_dot(lanes, tile + 2 * lanes, value, r, row[i].q + 32 * b) *
                    (f16(tile + 2 * r) * row[i].d[b]);
}

static inline void tile_q4_0(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                             const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    tile_values(lanes, q4_0_value, tile, k, row, n, y);
}
LANES_FN_MANY(tile_q4_0)

static inline void tile_iq4_nl(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                               const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    tile_values(lanes, aq_iq4_value, tile, k, row, n, y);
}
LANES_FN_MANY(tile_iq4_nl)

static inline void tile_iq4_xs(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                               const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 256; b++, tile += 136 * lanes) {
        sums sum = {{0}};
        for (uint32_t j = 0; j < 8; j++)
            for (uint32_t r = 0; r < lanes; r++) {
                uint32_t high = aq_le16(tile + 2 * lanes + 2 * r),
                         low = tile[4 * lanes + j / 2 * lanes + r] >> j % 2 * 4 & 15;
                int32_t scale = (int32_t)(low | (high >> 2 * j & 3) << 4) - 32;
                for (uint32_t i = 0; i < n; i++)
                    sum[i][r] += scale * nibbles_dot(lanes, tile + 8 * lanes + 16 * j * lanes,
                                                     aq_iq4_value, r, row[i].q + 256 * b + 32 * j);
            }
        add_block(lanes, tile, b, row, n, sum, 1, y);
    }
}
LANES_FN_MANY(tile_iq4_xs)

static const int8_t mxfp4_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline void tile_mxfp4(const uint32_t lanes, const uint8_t *tile, uint32_t k,
                              const aq_row_in *row, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    memset(y, 0, n * sizeof *y);
    for (uint32_t b = 0; b < k / 32; b++, tile += 17 * lanes)
        for (uint32_t r = 0; r < lanes; r++) {
            uint32_t bits = tile[r] < 2 ? 0x200000u << tile[r] : (tile[r] - 1u) << 23;
            float half;
            memcpy(&half, &bits, 4);
            for (uint32_t i = 0; i < n; i++)
                y[i][r] +=
                    (float)nibbles_dot(lanes, tile + lanes, mxfp4_value, r, row[i].q + 32 * b) *
                    (half * row[i].d[b]);
        }
}
LANES_FN_MANY(tile_mxfp4)

/* d of a block, and what values are multiplied by. The largest magnitude is found among the bit patterns,
 * where infinity and NaN are larger than every number: they end up in d and so in the result, instead
 * of being rounded away. */
static float block_scale(const float *x, uint32_t n, float *ret_inv)
{
    uint32_t bits = 0;
    for (uint32_t c = 0; c < n; c++) {
        uint32_t v;
        memcpy(&v, &x[c], 4);
        bits = AQ_MAX(bits, v & 0x7fffffff);
    }
    float max;
    memcpy(&max, &bits, 4);
    *ret_inv = max >= 0x1p-100f ? 127 / max : 0; /* less would overflow 127 / max, and is nothing */
    return max / 127;
}

/* n values; returns their sum. */
static int32_t round_values(const float *x, uint32_t n, float inv, int8_t *q)
{
    int32_t sum = 0;
    for (uint32_t c = 0; c < n; c++) {
        float v = rintf(x[c] * inv);
        q[c] = (int8_t)(v > 127 ? 127 : v >= -127 ? v : -127);
        sum += q[c];
    }
    return sum;
}

static void quant(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 32; b++, x += 32) {
        float inv;
        o->d[b] = block_scale(x, 32, &inv);
        int32_t sum = round_values(x, 32, inv, o->q + 32 * b);
        o->s[b] = o->d[b] * (float)sum;
        o->n32[b] = -128 * sum;
    }
}

static void quant_256(const float *x, uint32_t k, const aq_row_q *o)
{
    for (uint32_t b = 0; b < k / 256; b++) {
        float inv;
        o->d[b] = block_scale(x + 256 * (size_t)b, 256, &inv);
        for (uint32_t i = 16 * b; i < 16 * b + 16; i++)
            o->sum16[i] = (int16_t)round_values(x + 16 * (size_t)i, 16, inv, o->q + 16 * (size_t)i);
        for (uint32_t i = 8 * b; i < 8 * b + 8; i++)
            o->sum32[i] = (int16_t)(o->sum16[2 * i] + o->sum16[2 * i + 1]);
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

static void from_f16(const uint16_t *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = aq_f16_to_f32(x[i]);
}

static void scores(const float *const *q, uint32_t m, const float *k, uint32_t n_tok, uint32_t d,
                   float scale, float (*s)[AQ_ATTN_TOK], float *top)
{
    for (uint32_t i = 0; i < m; i++) {
        top[i] = -INFINITY;
        for (uint32_t t = 0; t < n_tok; t++) {
            float sum = 0;
            for (uint32_t c = 0; c < d; c++)
                sum += q[i][c] * k[(size_t)t * d + c];
            s[i][t] = scale * sum;
            top[i] = s[i][t] > top[i] ? s[i][t] : top[i];
        }
    }
}

static float exps(float *s, uint32_t n, float max)
{
    float sum = 0;
    for (uint32_t t = 0; t < n; t++)
        sum += s[t] = expf(s[t] - max);
    return sum;
}

static void mix(const float (*p)[AQ_ATTN_TOK], uint32_t m, const float *v, uint32_t n_tok,
                uint32_t d, const float *c, float *const *o)
{
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t j = 0; j < d; j++)
            o[i][j] *= c[i];
        for (uint32_t t = 0; t < n_tok; t++)
            for (uint32_t j = 0; j < d; j++)
                o[i][j] += p[i][t] * v[(size_t)t * d + j];
    }
}

static void delta(uint32_t d, float e, float beta, const float *q, const float *k, const float *v,
                  const float *s_in, float *s_out, float *o)
{
    for (uint32_t j = 0; j < d; j++, s_in += d, s_out += d) {
        double kv = 0, out = 0;
        for (uint32_t i = 0; i < d; i++) {
            s_out[i] = s_in[i] * e;
            kv += (double)s_out[i] * k[i];
        }
        float r = (float)(beta * (v[j] - kv));
        for (uint32_t i = 0; i < d; i++) {
            s_out[i] += k[i] * r;
            out += (double)s_out[i] * q[i];
        }
        o[j] = (float)out;
    }
}

static void oai(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float g = AQ_MIN(gate[i], 7.0f), u = AQ_MAX(AQ_MIN(up[i], 7.0f), -7.0f);
        y[i] = g / (1 + expf(-1.702f * g)) * (u + 1);
    }
}

#define TABLE(n, ...)                          \
    {.name = "c",                              \
     .lanes = n,                               \
     .rows = 4,                                \
     .tile = {[AQ_L_F32] = tile_f32_##n,       \
              [AQ_L_F16] = tile_f16_##n,       \
              [AQ_L_BF16] = tile_bf16_##n,     \
              [AQ_L_Q8_0] = tile_q8_0_##n,     \
              [AQ_L_Q4_0] = tile_q4_0_##n,     \
              [AQ_L_Q4_1] = tile_q4_1_##n,     \
              [AQ_L_Q4_K] = tile_q4_k_##n,     \
              [AQ_L_Q5_K] = tile_q5_k_##n,     \
              [AQ_L_Q6_K] = tile_q6_k_##n,     \
              [AQ_L_IQ4_NL] = tile_iq4_nl_##n, \
              [AQ_L_IQ4_XS] = tile_iq4_xs_##n, \
              [AQ_L_MXFP4] = tile_mxfp4_##n},  \
     .quant = quant,                           \
     .quant_256 = quant_256,                   \
     .norm = norm,                             \
     .swiglu = swiglu,                         \
     .to_f16 = to_f16,                         \
     .from_f16 = from_f16,                     \
     .scores = scores,                         \
     .exps = exps,                             \
     .mix = mix,                               \
     .delta = delta,                           \
     .oai = oai,                               \
     __VA_ARGS__}
const aq_isa aq_isa_c = TABLE(8), aq_isa_c16 = TABLE(16, .many = {[AQ_L_Q8_0] = tile_q8_0_many,
                                                                  [AQ_L_Q4_0] = tile_q4_0_many,
                                                                  [AQ_L_Q4_1] = tile_q4_1_many,
                                                                  [AQ_L_Q4_K] = tile_q4_k_many,
                                                                  [AQ_L_Q5_K] = tile_q5_k_many,
                                                                  [AQ_L_Q6_K] = tile_q6_k_many,
                                                                  [AQ_L_IQ4_NL] = tile_iq4_nl_many,
                                                                  [AQ_L_IQ4_XS] = tile_iq4_xs_many,
                                                                  [AQ_L_MXFP4] = tile_mxfp4_many});
