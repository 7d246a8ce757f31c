/* SPDX-License-Identifier: Apache-2.0 */
/* Tile kernels of quantised weights by VNNI (unsigned weights × signed inputs, four products summed
 * into 32 bits at once), for vectors of AQ_V = 16 or 8 lanes. Included by one file per instruction
 * set, which is compiled with that set's flags. Sums of integers are exact; weights that are signed
 * are shifted up by 128 (32 for Q6_K), and that times the sum of the inputs is taken off: at the start
 * of a sum (n32), or with a sub-block's scale (sum16, sum32). Per block of columns and input row there
 * is one float step, after 32 columns acc += (sum × weight scale) × input scale; that after 256 is
 * written in cpu-priv.h. */
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

/* Add 32 columns at `at` to the sums; the table holds value + 128. */
INLINE void values_32(const uint8_t *quads, vi table, const aq_row_in *row, size_t at, const int n,
                      vi *sum)
{
    const vi low = V_SET8(15);
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
        EACH (i, n)
            sum[i] = V_SET32(row[i].n32[b]);
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

/* ---- blocks of 256 columns: sums with integer scales, one float step for all of them ---- */

/* Q4_K, and Q5_K, which has 8 quads of high bits before the nibbles. */
INLINE void tile_k_n(const bool five, const uint8_t *tile, uint32_t k, const aq_row_in *row,
                     const int n, float (*y)[AQ_LANES_MAX])
{
    const vi low = V_SET8(15), bit4 = V_SET8(16);
    const uint32_t nibbles = (five ? 48 : 16) * LANES;
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 256; b++, tile += nibbles + 128 * LANES) {
        vi all[ROWS_MAX], mins[4]; /* mins of two sub-blocks side by side */
        EACH (i, n)
            all[i] = V_SET32(0);
        for (uint32_t g = 0; g < 4; g++) {
            const uint8_t *quads = tile + nibbles + 8 * QUAD * g;
            const size_t at = 256 * (size_t)b + 64 * g;
            fetch(tile + (nibbles / 4 + 32 * LANES) * g, nibbles / 4 + 32 * LANES, n);
            EACH (h, 2) {
                vi sum[ROWS_MAX], scale, min;
                EACH (i, n)
                    sum[i] = V_SET32(0);
                EACH (j, 8) {
                    vi w = V_LOAD(quads + QUAD * (uint32_t)j);
                    w = V_AND(h ? V_SRL(w, 4) : w, low);
                    if (five) {
                        vi bits = V_LOAD(tile + 16 * LANES + QUAD * (uint32_t)j);
                        bits = V_SLL(V_SRL(bits, (int)(2 * g) + h), 4);
                        w = V_OR_AND(w, bits, bit4);
                    }
                    EACH (i, n)
                        sum[i] = V_DOT(sum[i], w, quad(row[i].q + at + 32 * h + 4 * j));
                }
                k4_scale(tile + 4 * LANES, 2 * g + (uint32_t)h, &scale, &min);
                mins[g] = h ? V_OR(mins[g], V_SLL(min, 16)) : min;
                EACH (i, n)
                    all[i] = V_ADD32(all[i], V_MUL32(sum[i], scale));
            }
        }
        const vf d = V_LOAD_F16(tile), dmin = V_LOAD_F16(tile + 2 * LANES);
        EACH (i, n) {
            vi less = V_SET32(0);
            EACH (g, 4)
                less = V_DOT16(less, mins[g], pair(row[i].sum32 + 8 * b + 2 * g));
            acc[i] = add_256(acc[i], all[i], d, row[i].d[b]);
            acc[i] = take_256(acc[i], less, dmin, row[i].d[b]);
        }
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
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

/* Weights are taken as 0 to 63: 32 × scale × the sum of the inputs comes off. */
INLINE void tile_q6_k_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                        float (*y)[AQ_LANES_MAX])
{
    const vi low = V_SET8(15), high = V_SET8(0x30);
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 256; b++, tile += 210 * LANES) {
        vi all[ROWS_MAX];
        EACH (i, n)
            all[i] = V_SET32(0);
        for (uint32_t j = 0; j < 8; j++) {
            const uint8_t *lo = tile + (18 + j / 4 * 64 + j % 2 * 32) * LANES,
                          *hi = tile + (146 + j / 4 * 32) * LANES;
            const int down = (int)(j % 4 / 2 * 4), part = (int)(j % 4);
            const size_t at = 16 * (size_t)b + 2 * j;
            vi scale[2];
            fetch(tile + 27 * LANES * j, 27 * LANES, n);
            EACH (half, 2) {
                vi sum[ROWS_MAX];
                EACH (i, n)
                    sum[i] = V_SET32(0);
                EACH (t, 4) {
                    uint32_t quad_at = QUAD * (uint32_t)(4 * half + t);
                    vi w = V_AND(V_SRL(V_LOAD(lo + quad_at), down), low), h = V_LOAD(hi + quad_at);
                    /* this part's 2 bits to bits 4 and 5 */
                    h = part < 2 ? V_SLL(h, 4 - 2 * part) : V_SRL(h, 2 * part - 4);
                    w = V_OR_AND(w, h, high);
                    EACH (i, n)
                        sum[i] = V_DOT(sum[i], w,
                                       quad(row[i].q + 16 * (at + (size_t)half) + 4 * (size_t)t));
                }
                scale[half] = B_TO_32_SIGNED(B_LOAD(tile + (2 + 2 * j + (uint32_t)half) * LANES));
                EACH (i, n)
                    all[i] = V_ADD32(all[i], V_MUL32(sum[i], scale[half]));
            }
            const vi off = scale_pair(scale, -32);
            EACH (i, n)
                all[i] = V_DOT16(all[i], off, pair(row[i].sum16 + at));
        }
        const vf d = V_LOAD_F16(tile);
        EACH (i, n)
            acc[i] = add_256(acc[i], all[i], d, row[i].d[b]);
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
}
TILE_FN(tile_q6_k)

/* Values are taken as 1 to 241: 128 × scale × the sum of the inputs comes off. */
INLINE void tile_iq4_xs_n(const uint8_t *tile, uint32_t k, const aq_row_in *row, const int n,
                          float (*y)[AQ_LANES_MAX])
{
    const vi table = table_of(aq_iq4_value);
    vf acc[ROWS_MAX];
    EACH (i, n)
        acc[i] = V_ZERO_PS();
    for (uint32_t b = 0; b < k / 256; b++, tile += 136 * LANES) {
        vi all[ROWS_MAX];
        EACH (i, n)
            all[i] = V_SET32(0);
        for (uint32_t g = 0; g < 4; g++) {
            vi scale[2];
            fetch(tile + 34 * LANES * g, 34 * LANES, n);
            EACH (h, 2) {
                const uint32_t j = 2 * g + (uint32_t)h;
                vi sum[ROWS_MAX];
                EACH (i, n)
                    sum[i] = V_SET32(0);
                values_32(tile + (8 + 16 * j) * LANES, table, row, 256 * (size_t)b + 32 * j, n,
                          sum);
                scale[h] = iq4_xs_scale(tile, j);
                EACH (i, n)
                    all[i] = V_ADD32(all[i], V_MUL32(sum[i], scale[h]));
            }
            const vi off = scale_pair(scale, -128);
            EACH (i, n)
                all[i] = V_DOT16(all[i], off, pair(row[i].sum32 + 8 * b + 2 * g));
        }
        const vf d = V_LOAD_F16(tile);
        EACH (i, n)
            acc[i] = add_256(acc[i], all[i], d, row[i].d[b]);
    }
    EACH (i, n)
        V_STORE_PS(y[i], acc[i]);
}
TILE_FN(tile_iq4_xs)
