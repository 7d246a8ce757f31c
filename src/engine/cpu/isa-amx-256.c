/* SPDX-License-Identifier: Apache-2.0 */
/* The path "amx", many input rows: types with blocks of 256 columns. A weight times its sub-block's integer
 * scale fits 16 bits, so a weight tile's block becomes two planes of bytes, `low` unsigned, once for all
 * rows: weight × scale = low + 8 high for Q4_K and Q5_K (63 = 8 × 7 + 7, and 7 × 31 is a byte) and
 * low + 256 high for Q6_K and IQ4_XS, where high is signed. The tile registers then sum a plane over the
 * whole block, with 64 columns at a time, and floats come in once per 256 columns. Integers are exact and
 * the float step is that of tiles-vnni.h, so that a row has the same bits in both. Compiled with AVX-512
 * flags; only after CPUID has said so and the system has granted the tile registers. Any thread. */
#define AQ_V 16
#include "isa-amx-priv.h"
#include "vec-priv.h"

#define BLOCK 256u
#define SUBS 8u   /* sub-blocks of 32 columns */
#define GROUP 32u /* input rows that meet the weights in the tile registers together */

/* tmm0, 1: low and high sums of 16 rows; 2, 3: of 16 more; 4, 5: these rows; 6, 7: low and high weights. */
static const aq_tile_config config = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

/* A block of a weight tile, [quad][weight row 16][4]. */
typedef struct weights {
    vi low[BLOCK / 4], high[BLOCK / 4];
    vf d, dmin;
    vi min[SUBS / 2]; /* of two sub-blocks side by side */
} weights;

/* Its scales, or what they are multiplied by: [sub-block, or 16 columns][weight row]. */
typedef struct scales {
    _Alignas(64) uint8_t a[2 * SUBS][16];
    uint8_t b[2 * SUBS][16], c[2 * SUBS][16];
} scales;

/* ---- weights to bytes ---- */

/* How `spread` lays out a byte per weight row: bytes of a lane where mask has bits, else zeros. */
INLINE vi spread_to(uint32_t mask)
{
    static const uint8_t row[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vi all = V_MUL32(B_TO_32(B_LOAD(row)), V_SET32(0x01010101));
    return V_OR(V_AND(all, V_SET32((int)mask)), V_SET32((int)(~mask & 0x80808080u)));
}
#define EVEN 0x00ff00ffu
#define ODD 0xff00ff00u
#define ALL 0xffffffffu

INLINE vi spread(const uint8_t *row, vi to)
{
    return V_SHUFFLE8(V_TABLE(row), to);
}

/* Two vectors of 16-bit products, of even and of odd bytes, to one of low and one of high bytes. */
INLINE void split(vi even, vi odd, vi *low, vi *high)
{
    static const int8_t other[16] = {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14};
    const vi swap = V_TABLE(other);
    *low = _mm512_mask_shuffle_epi8(even, 0xaaaaaaaaaaaaaaaaull, odd, swap);
    *high = _mm512_mask_shuffle_epi8(odd, 0x5555555555555555ull, even, swap);
}

INLINE void store(uint8_t *p, vi v)
{
    _mm512_store_si512((void *)p, v);
}

INLINE vi shift_bytes(vi v, const int by, const int mask)
{
    return V_AND(V_SRL(v, by), V_SET8((char)mask));
}

/* a, b: scale mod 8, scale / 8; c: min. */
INLINE void scales_k(const uint8_t *tile, scales *s, weights *o)
{
    const vi first = V_LOAD(tile + 4 * LANES), second = V_LOAD(tile + 8 * LANES),
             third = V_LOAD(tile + 12 * LANES);
    const vi scale[2] = {shift_bytes(first, 0, 63),
                         V_OR(shift_bytes(third, 0, 15), shift_bytes(first, 2, 0x30))},
             min[2] = {shift_bytes(second, 0, 63),
                       V_OR(shift_bytes(third, 4, 15), shift_bytes(second, 2, 0x30))};
    EACH (i, 2) {
        store(s->a[4 * i], shift_bytes(scale[i], 0, 7));
        store(s->b[4 * i], shift_bytes(scale[i], 3, 7));
        store(s->c[4 * i], min[i]);
    }
    EACH (i, 4)
        o->min[i] = V_OR(B_TO_32(B_LOAD(s->c[2 * i])), V_SLL(B_TO_32(B_LOAD(s->c[2 * i + 1])), 16));
    o->dmin = V_LOAD_F16(tile + 2 * LANES);
}

/* The weight less 32 takes the scale's sign: a: |scale|; w - 32 = (w ^ 0) - 32, 32 - w = (w ^ 63) - 31, so
 * b: 0 or 63, c: -32 or -31. */
INLINE void scales_q6_k(const uint8_t *tile, scales *s)
{
    EACH (i, 4) {
        const vi v = V_LOAD(tile + (2 + 4 * i) * LANES),
                 minus = _mm512_movm_epi8(_mm512_movepi8_mask(v));
        store(s->a[4 * i], _mm512_abs_epi8(v));
        store(s->b[4 * i], V_AND(minus, V_SET8(63)));
        store(s->c[4 * i], _mm512_sub_epi8(V_SET8(-32), minus));
    }
}

/* a: |scale|, b: scale */
INLINE void scales_iq4_xs(const uint8_t *tile, scales *s)
{
    for (uint32_t j = 0; j < SUBS; j++) {
        const vi scale = iq4_xs_scale(tile, j);
        _mm_store_si128((void *)s->a[j], _mm512_cvtepi32_epi8(_mm512_abs_epi32(scale)));
        _mm_store_si128((void *)s->b[j], _mm512_cvtepi32_epi8(scale));
    }
}

INLINE void unpack_k(const bool five, const uint8_t *tile, uint32_t j, const scales *s, weights *o)
{
    const vi low = V_SET8(15), bit4 = V_SET8(16), to = spread_to(EVEN);
    const uint8_t *quads = tile + (five ? 48 : 16) * LANES + 8 * QUAD * (j / 2);
    const vi a = spread(s->a[j], to), b = spread(s->b[j], to);
    const vi down = V_SET32((int)(j % 2 * 4)), turn = V_SET32(4 - (int)j);
    EACH (i, 8) {
        const uint32_t at = QUAD * (uint32_t)i;
        vi w = V_AND(_mm512_srlv_epi32(V_LOAD(quads + at), down), low);
        if (five) /* bit j to bit 4 */
            w = V_OR_AND(w, _mm512_rolv_epi32(V_LOAD(tile + 16 * LANES + at), turn), bit4);
        o->low[8 * j + (uint32_t)i] = V_MUL16(w, a); /* no product leaves its byte */
        o->high[8 * j + (uint32_t)i] = V_MUL16(w, b);
    }
}

INLINE void unpack_q6_k(const uint8_t *tile, uint32_t j, const scales *s, weights *o)
{
    const vi low = V_SET8(15), high = V_SET8(0x30);
    const vi even = spread_to(EVEN), odd = spread_to(ODD), all = spread_to(ALL);
    const uint8_t *lo = tile + (18 + j / 4 * 64 + j % 2 * 32) * LANES,
                  *hi = tile + (146 + j / 4 * 32) * LANES;
    const vi down = V_SET32((int)(j % 4 / 2 * 4)), turn = V_SET32(4 - 2 * (int)(j % 4));
    EACH (h, 2) {
        const uint32_t part = 2 * j + (uint32_t)h;
        const vi a = spread(s->a[part], even), a_odd = spread(s->a[part], odd),
                 b = spread(s->b[part], all), c = spread(s->c[part], all);
        EACH (t, 4) {
            const uint32_t i = (uint32_t)(4 * h + t);
            const vi two = _mm512_rolv_epi32(V_LOAD(hi + QUAD * i), turn); /* to bits 4 and 5 */
            vi w = _mm512_srlv_epi32(V_LOAD(lo + QUAD * i), down);
            w = _mm512_ternarylogic_epi32(w, low, b, 0x6a);    /* (w & low) ^ b */
            w = _mm512_ternarylogic_epi32(w, two, high, 0x78); /* w ^ (two & high) */
            w = _mm512_add_epi8(w, c);
            split(_mm512_maddubs_epi16(a, w), _mm512_maddubs_epi16(a_odd, w), &o->low[8 * j + i],
                  &o->high[8 * j + i]);
        }
    }
}

INLINE void unpack_iq4_xs(const uint8_t *tile, uint32_t j, const scales *s, weights *o)
{
    const vi low = V_SET8(15), table = V_TABLE(aq_iq4_value);
    const vi a = spread(s->a[j], spread_to(EVEN)), a_odd = spread(s->a[j], spread_to(ODD));
    const __mmask64 minus = _mm512_movepi8_mask(spread(s->b[j], spread_to(ALL)));
    EACH (i, 8) {
        const uint32_t at = 8 * j + (uint32_t)i;
        vi w = V_LOAD(tile + (8 + 16 * j) * LANES + QUAD * (uint32_t)(i % 4));
        w = V_SHUFFLE8(table, V_AND(i < 4 ? w : V_SRL(w, 4), low));
        w = _mm512_mask_sub_epi8(w, minus, V_SET32(0), w);
        split(_mm512_maddubs_epi16(a, w), _mm512_maddubs_epi16(a_odd, w), &o->low[at],
              &o->high[at]);
    }
}

INLINE bool has_min(const int layout)
{
    return layout == AQ_L_Q4_K || layout == AQ_L_Q5_K;
}

INLINE void unpack(const int layout, const uint8_t *tile, weights *o)
{
    scales s;
    o->d = V_LOAD_F16(tile);
    o->dmin = o->d; /* of types with mins: */
    if (has_min(layout))
        scales_k(tile, &s, o);
    else if (layout == AQ_L_Q6_K)
        scales_q6_k(tile, &s);
    else
        scales_iq4_xs(tile, &s);
    for (uint32_t j = 0; j < SUBS; j++)
        if (has_min(layout))
            unpack_k(layout == AQ_L_Q5_K, tile, j, &s, o);
        else if (layout == AQ_L_Q6_K)
            unpack_q6_k(tile, j, &s, o);
        else
            unpack_iq4_xs(tile, j, &s, o);
}

/* ---- products ---- */

/* A block of 32 or (not two) 16 rows at q into the tile registers. */
INLINE void dot_256(const int layout, const bool two, const int8_t *q, size_t wide,
                    const weights *w)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
#pragma GCC unroll 1
    for (uint32_t i = 0; i < BLOCK / 4; i += 16, q += 64) {
        TILE_LOAD(6, w->low + i, 64);
        TILE_LOAD(4, q, wide);
        TILE_DOT_U(0, 4, 6);
        TILE_LOAD(7, w->high + i, 64);
        if (has_min(layout))
            TILE_DOT_U(1, 4, 7);
        else
            TILE_DOT(1, 4, 7);
        if (!two)
            continue;
        TILE_LOAD(5, q + 16 * wide, wide);
        TILE_DOT_U(2, 5, 6);
        if (has_min(layout))
            TILE_DOT_U(3, 5, 7);
        else
            TILE_DOT(3, 5, 7);
    }
}

/* Some rows that meet a block, from their sums on. */
typedef struct group {
    _Alignas(64) aq_tile_sums sum[2][2]; /* [16 rows][low, high] */
    float less[GROUP][16];               /* M of cpu-priv.h */
} group;

INLINE void store_sums(const bool two, group *g)
{
    TILE_STORE(0, g->sum[0][0]);
    TILE_STORE(1, g->sum[0][1]);
    if (two) {
        TILE_STORE(2, g->sum[1][0]);
        TILE_STORE(3, g->sum[1][1]);
    }
}

INLINE void mins(const aq_row_in *row, uint32_t n, const weights *w, uint32_t b, group *g)
{
    const vi m0 = w->min[0], m1 = w->min[1], m2 = w->min[2], m3 = w->min[3];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *sums = row[i].sum32 + SUBS * b;
        vi less = V_DOT16(V_SET32(0), m0, pair(sums));
        less = V_DOT16(less, m1, pair(sums + 2));
        less = V_DOT16(less, m2, pair(sums + 4));
        less = V_DOT16(less, m3, pair(sums + 6));
        _mm512_store_ps(g->less[i], V_CVT_PS(less));
    }
}

/* The float step of n rows; d: of the block. */
INLINE void float_step(const int layout, const group *g, vf d_of, vf dmin, const float *d,
                       uint32_t n, float (*y)[AQ_LANES_MAX])
{
    for (uint32_t h = 0; 16 * h < n; h++, d += 16, y += 16)
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 16; i++) {
            const vi all =
                V_ADD32(V_LOAD(g->sum[h][0][i]),
                        _mm512_slli_epi32(V_LOAD(g->sum[h][1][i]), has_min(layout) ? 3 : 8));
            vf acc = add_256(_mm512_loadu_ps(y[i]), all, d_of, d[i]);
            if (has_min(layout))
                acc = V_FNMA_PS(_mm512_load_ps(g->less[16 * h + i]), V_MUL_PS(dmin, V_SET_PS(d[i])),
                                acc);
            _mm512_storeu_ps(y[i], acc);
        }
}

/* While the tile registers are busy with a group, the floats of the one before are summed and the next
 * block is unpacked. */
INLINE void many(const int layout, const uint32_t tile_block, const uint8_t *tile, uint32_t k,
                 const aq_rows_in *in, uint32_t n, float (*y)[AQ_LANES_MAX])
{
    const size_t wide = in->wide;
    const uint32_t rows = (n + 15) / 16 * 16;
    uint32_t last = 0, n_last = 0, b_last = 0; /* the group whose floats are still to come */
    weights w;
    group g;
    vf d, dmin;
    TILE_BEGIN(config);
    for (uint32_t r = 0; r < rows; r++)
        _mm512_storeu_ps(y[r], V_ZERO_PS());
    unpack(layout, tile, &w);
    d = w.d;
    dmin = w.dmin;
    for (uint32_t b = 0; b < k / BLOCK; b++)
        for (uint32_t r = 0; r < rows; r += GROUP) {
            const int8_t *q = in->q + r * wide + (size_t)b * BLOCK;
            const uint32_t n_row = AQ_MIN(rows - r, GROUP);
            if (n_row > 16)
                dot_256(layout, true, q, wide, &w);
            else
                dot_256(layout, false, q, wide, &w);
            float_step(layout, &g, d, dmin, in->d[b_last] + last, n_last, y + last);
            if (has_min(layout))
                mins(in->row + r, n_row, &w, b, &g);
            d = w.d;
            dmin = w.dmin;
            if (r + GROUP >= rows && (b + 1) * BLOCK < k)
                unpack(layout, tile + (size_t)(b + 1) * tile_block * LANES, &w);
            if (n_row > 16)
                store_sums(true, &g);
            else
                store_sums(false, &g);
            last = r;
            n_last = n_row;
            b_last = b;
        }
    float_step(layout, &g, d, dmin, in->d[b_last] + last, n_last, y + last);
    TILE_END();
}

#define MANY(name, layout, tile_block)                                           \
    void name(const uint8_t *tile, uint32_t k, const aq_rows_in *in, uint32_t n, \
              float(*y)[AQ_LANES_MAX])                                           \
    {                                                                            \
        many(layout, tile_block, tile, k, in, n, y);                             \
    }
MANY(aq_amx_q4_k, AQ_L_Q4_K, 144)
MANY(aq_amx_q5_k, AQ_L_Q5_K, 176)
MANY(aq_amx_q6_k, AQ_L_Q6_K, 210)
MANY(aq_amx_iq4_xs, AQ_L_IQ4_XS, 136)
