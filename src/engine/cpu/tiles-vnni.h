/* SPDX-License-Identifier: Apache-2.0 */
/* Tile kernels of quantised weights by VNNI (unsigned weights × signed inputs, four products summed
 * into 32 bits at once), for vectors of AQ_V = 16 or 8 lanes. Included by one file per instruction
 * set, which is compiled with that set's flags. Sums of integers are exact; weights that are signed
 * are shifted up by 128 (32 for Q6_K), and each sum starts at minus that times the sum of the
 * inputs (n32, n16). Per block of columns and input row there is one float step:
 * acc += (sum × weight scale) × input scale. */
#include "vec-priv.h"

/* One function per number of rows, so that the sums of each stay in registers; the bits of a row
 * are the same in each. */
#define TILE_FN(name)                                                                   \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        while (ROWS_MAX == 8 && n >= 8) {                                               \
            name##_n(tile, k, row, ROWS_MAX, y);                                        \
            n -= 8;                                                                     \
            row += 8;                                                                   \
            y += 8;                                                                     \
        }                                                                               \
        if (n >= 4) {                                                                   \
            name##_n(tile, k, row, 4, y);                                               \
            n -= 4;                                                                     \
            row += 4;                                                                   \
            y += 4;                                                                     \
        }                                                                               \
        if (n >= 2) {                                                                   \
            name##_n(tile, k, row, 2, y);                                               \
            n -= 2;                                                                     \
            row += 2;                                                                   \
            y += 2;                                                                     \
        }                                                                               \
        if (n)                                                                          \
            name##_n(tile, k, row, 1, y);                                               \
    }

/* Few rows wait for memory, whose own prefetcher keeps too little under way. */
#define AHEAD 2816u
INLINE void fetch(const uint8_t *p, uint32_t bytes, const int n)
{
    if (n <= 2)
        for (uint32_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)p + AHEAD + i, _MM_HINT_T0);
}

INLINE vi quad(const int8_t *q) /* 4 input bytes to all lanes */
{
    int32_t v;
    memcpy(&v, q, 4);
    return V_SET32(v);
}

INLINE void tile_q8_0_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    const vi up = V_SET8((char)0x80);
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 32; b++, tile += 34 * LANES) {
        vi sum[ROWS_MAX];
        fetch(tile, 34 * LANES, n);
        EACH (i, n)
            sum[i] = V_SET32(row[i].n32[b]);
        EACH (j, 8) {
            vi w = V_XOR(V_LOAD(tile + 2 * LANES + QUAD * (uint32_t)j), up);
            EACH (i, n)
                sum[i] = V_DOT(sum[i], w, quad(row[i].q + 32 * b + 4 * j));
        }
        vf d = V_LOAD_F16(tile);
        EACH (i, n)
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
}
TILE_FN(tile_q8_0)

/* Q4_1, and Q4_0, whose values are 8 less: its min is -8 d. */
INLINE void tile_4_n(const bool min, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                     const int n, float (*y)[AQ_LANES_MAX])
{
    const vi low = V_SET8(15);
    const uint32_t quads = min ? 4 * LANES : 2 * LANES;
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 32; b++, tile += quads + 4 * QUAD) {
        vi sum[ROWS_MAX];
        fetch(tile, quads + 4 * QUAD, n);
        EACH (i, n)
            sum[i] = V_SET32(0);
        EACH (j, 4) {
            vi w = V_LOAD(tile + quads + QUAD * (uint32_t)j), lo = V_AND(w, low),
               hi = V_AND(V_SRL(w, 4), low);
            EACH (i, n)
                sum[i] = V_DOT(sum[i], lo, quad(row[i].q + 32 * b + 4 * j));
            EACH (i, n)
                sum[i] = V_DOT(sum[i], hi, quad(row[i].q + 32 * b + 4 * j + 16));
        }
        vf d = V_LOAD_F16(tile), m = min ? V_LOAD_F16(tile + 2 * LANES) : V_MUL_PS(d, V_SET_PS(-8));
        EACH (i, n) {
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
            acc[i] = V_FMA_PS(m, V_SET_PS(row[i].s[b]), acc[i]);
        }
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
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

/* Sums of 32 columns at `at`; the table holds value + 128. */
INLINE void values_32(const uint8_t *quads, vi table, const aq_row_in *row, size_t at, const int n,
                      vi *sum)
{
    const vi low = V_SET8(15);
    EACH (i, n)
        sum[i] = V_SET32(row[i].n32[at / 32]);
    EACH (j, 4) {
        vi w = V_LOAD(quads + QUAD * (uint32_t)j), lo = V_SHUFFLE8(table, V_AND(w, low)),
           hi = V_SHUFFLE8(table, V_AND(V_SRL(w, 4), low));
        EACH (i, n)
            sum[i] = V_DOT(sum[i], lo, quad(row[i].q + at + 4 * j));
        EACH (i, n)
            sum[i] = V_DOT(sum[i], hi, quad(row[i].q + at + 4 * j + 16));
    }
}

INLINE vi table_of(const int8_t *value)
{
    return V_XOR(V_TABLE(value), V_SET8((char)0x80));
}

/* One scale per 32 columns: a half, or a power of two. */
INLINE void tile_values_n(const bool e8m0, const int8_t *value, const uint8_t *tile, uint32_t k,
                          const aq_row_in *row, const int n, float (*y)[AQ_LANES_MAX])
{
    const vi table = table_of(value);
    const uint32_t quads = e8m0 ? LANES : 2 * LANES;
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 32; b++, tile += quads + 4 * QUAD) {
        vi sum[ROWS_MAX];
        fetch(tile, quads + 4 * QUAD, n);
        values_32(tile + quads, table, row, 32 * (size_t)b, n, sum);
        vf d;
        if (e8m0)
            d = half_e8m0(tile);
        else
            d = V_LOAD_F16(tile);
        EACH (i, n)
            acc[i] = add_block(acc[i], sum[i], d, row[i].d[b]);
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
}

INLINE void tile_iq4_nl_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                          float (*y)[AQ_LANES_MAX])
{
    tile_values_n(false, aq_iq4_value, tile, k, row, n, y);
}
TILE_FN(tile_iq4_nl)

INLINE void tile_mxfp4_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                         float (*y)[AQ_LANES_MAX])
{
    static const int8_t value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    tile_values_n(true, value, tile, k, row, n, y);
}
TILE_FN(tile_mxfp4)

/* ---- blocks of 256 ---- */

#if AQ_V == 16
#define SCALAR aq_isa_c16
#else
#define SCALAR aq_isa_c
#endif
#define SCALAR_TILE(name, layout)                                                       \
    static void name(const uint8_t *tile, uint32_t k, const aq_row_in *row, uint32_t n, \
                     float(*y)[AQ_LANES_MAX])                                           \
    {                                                                                   \
        SCALAR.tile[layout](tile, k, row, n, y);                                        \
    }
SCALAR_TILE(tile_q4_k, AQ_L_Q4_K)
SCALAR_TILE(tile_q5_k, AQ_L_Q5_K)
SCALAR_TILE(tile_q6_k, AQ_L_Q6_K)
SCALAR_TILE(tile_iq4_xs, AQ_L_IQ4_XS)
