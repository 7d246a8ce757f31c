/* SPDX-License-Identifier: Apache-2.0 */
/* From stored rows to tiles and back; the tiles are drawn in cpu-priv.h. Any thread. */
#include "cpu-priv.h"
#include "model-priv.h"

#define BLOCK_BYTES_MAX 210u
#define BLOCK_VALS_MAX 256u

/* A block of each type as stored, in the order in which its tile keeps it: `n_head` fields of one
 * or two bytes that stand per row, then quads of 4 bytes. at: where in the block they come from. */
typedef struct part {
    uint8_t at, n, size; /* n units of `size` bytes each, one unit per row side by side */
} part;
typedef struct layout {
    uint32_t type, block_vals, block_bytes;
    part part[4]; /* ended by n = 0 */
} layout;
static const layout layouts[AQ_L_N] = {
    [AQ_L_F32] = {AQ_T_F32, 1, 4, {{0, 1, 4}}},
    [AQ_L_F16] = {AQ_T_F16, 1, 2, {{0, 1, 2}}},
    [AQ_L_BF16] = {AQ_T_BF16, 1, 2, {{0, 1, 2}}},
    [AQ_L_Q8_0] = {AQ_T_Q8_0, 32, 34, {{0, 1, 2}, {2, 8, 4}}},
    [AQ_L_Q4_0] = {AQ_T_Q4_0, 32, 18, {{0, 1, 2}, {2, 4, 4}}},
    [AQ_L_IQ4_NL] = {AQ_T_IQ4_NL, 32, 18, {{0, 1, 2}, {2, 4, 4}}},
    [AQ_L_IQ4_XS] = {AQ_T_IQ4_XS, 256, 136, {{0, 2, 2}, {4, 4, 1}, {8, 32, 4}}},
    [AQ_L_MXFP4] = {AQ_T_MXFP4, 32, 17, {{0, 1, 1}, {1, 4, 4}}},
    [AQ_L_Q4_1] = {AQ_T_Q4_1, 32, 20, {{0, 2, 2}, {4, 4, 4}}},
    [AQ_L_Q4_K] = {AQ_T_Q4_K, 256, 144, {{0, 2, 2}, {4, 12, 1}, {16, 32, 4}}},
    [AQ_L_Q5_K] = {AQ_T_Q5_K, 256, 176, {{0, 2, 2}, {4, 12, 1}, {16, 40, 4}}},
    [AQ_L_Q6_K] = {AQ_T_Q6_K,
                   256,
                   210,
                   {{208, 1, 2},
                    {192, 16, 1},
                    {0, 48, 4}}}, /* stored: low bits, high bits, scales, d */
};

int aq_layout_of(uint32_t type_id)
{
    for (int i = 0; i < AQ_L_N; i++)
        if (layouts[i].type == type_id)
            return i;
    const aq_type *t = aq_type_get(type_id);
    return t && t->dequant && t->block_vals <= BLOCK_VALS_MAX ? AQ_L_STORED + (int)type_id : -1;
}

static const aq_type *type_of(int l)
{
    return aq_type_get(l < AQ_L_STORED ? layouts[l].type : (uint32_t)(l - AQ_L_STORED));
}

static size_t stored_row_bytes(const aq_type *t, uint32_t k)
{
    return (size_t)(k / t->block_vals) * t->block_bytes;
}

bool aq_layout_is_float(int l)
{
    return l < AQ_L_STORED && layouts[l].block_vals == 1;
}

int aq_layout_in(int l)
{
    if (l >= AQ_L_STORED)
        return AQ_IN_32;
    uint32_t n = layouts[l].block_vals;
    return n == 1 ? AQ_IN_F32 : n == 32 ? AQ_IN_32 : AQ_IN_256;
}

size_t aq_tile_bytes(int l, uint32_t lanes, uint32_t k)
{
    return stored_row_bytes(type_of(l), k) * lanes;
}

static void copy(uint8_t *dst, const uint8_t *src, uint32_t size)
{
    if (size == 4)
        memcpy(dst, src, 4);
    else if (size == 2)
        memcpy(dst, src, 2);
    else
        *dst = *src;
}

void aq_tile_put(int l, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *src, uint8_t *tile)
{
    if (l >= AQ_L_STORED) {
        size_t n = stored_row_bytes(type_of(l), k);
        memcpy(tile + r * n, src, n);
        return;
    }
    const layout *lay = &layouts[l];
    for (uint32_t b = 0; b < k / lay->block_vals; b++, src += lay->block_bytes)
        for (const part *p = lay->part; p->n; p++)
            for (uint32_t i = 0; i < p->n; i++, tile += p->size * lanes)
                copy(tile + r * p->size, src + p->at + i * p->size, p->size);
}

void aq_tile_get(int l, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *tile, float *y,
                 size_t step)
{
    const aq_type *type = type_of(l);
    uint8_t block[BLOCK_BYTES_MAX];
    float val[BLOCK_VALS_MAX];
    if (l >= AQ_L_STORED) {
        tile += r * stored_row_bytes(type, k);
        for (uint32_t b = 0; b < k / type->block_vals; b++, tile += type->block_bytes) {
            type->dequant(tile, val, type->block_vals);
            for (uint32_t i = 0; i < type->block_vals; i++, y += step)
                *y = val[i];
        }
        return;
    }
    const layout *lay = &layouts[l];
    for (uint32_t b = 0; b < k / lay->block_vals; b++) {
        for (const part *p = lay->part; p->n; p++)
            for (uint32_t i = 0; i < p->n; i++, tile += p->size * lanes)
                copy(block + p->at + i * p->size, tile + r * p->size, p->size);
        type->dequant(block, val, lay->block_vals);
        for (uint32_t i = 0; i < lay->block_vals; i++, y += step)
            *y = val[i];
    }
}

/* Where a block keeps the one half that all its values are small multiples of; -1 = it has none. */
static int own_scale_at(uint32_t type)
{
    switch (type) {
    case AQ_T_Q5_0:
    case AQ_T_Q1_0:
    case AQ_T_Q2_0:
        return 0;
    case AQ_T_TQ1_0:
        return 52;
    case AQ_T_TQ2_0:
        return 64;
    default:
        return -1;
    }
}

/* Divide 32 values by d and round, by what adding 1.5 × 2^23 leaves in the low bits. */
static void divide_32(const float *x, uint16_t d, int8_t *q)
{
    float f = aq_f16_to_f32(d), by = f != 0 ? 1 / f : 0;
    for (uint32_t i = 0; i < 32; i++) {
        float v = x[i] * by + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &v, 4);
        q[i] = (int8_t)(bits - 0x4b400000);
    }
}

/* 32 values to d and 8 bits each: d is the half that largest / 127 rounds up to, so that none is
 * cut. */
static uint16_t round_32(const float *x, int8_t *q)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < 32; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float max;
    memcpy(&max, &most, 4);
    if (!(max <= 127 * 65504.0f)) { /* infinity or NaN: they stay visible */
        memset(q, 1, 32);
        return 0x7e00;
    }
    uint16_t d = aq_f32_to_f16(max / 127);
    if (aq_f16_to_f32(d) * 127 < max)
        d++;
    divide_32(x, d, q);
    return d;
}

void aq_tile_to_q8_0(int l, uint32_t lanes, uint32_t k, uint32_t r, const uint8_t *tile,
                     uint8_t *to)
{
    const aq_type *type = type_of(l);
    const int own = own_scale_at(type->id);
    tile += r * stored_row_bytes(type, k);
    for (uint32_t b = 0; b < k / type->block_vals; b++, tile += type->block_bytes) {
        float val[BLOCK_VALS_MAX];
        type->dequant(tile, val, type->block_vals);
        for (uint32_t at = 0; at < type->block_vals; at += 32, to += 34 * lanes) {
            int8_t q[32];
            uint16_t d;
            if (own >= 0) {
                memcpy(&d, tile + own, 2);
                divide_32(val + at, d, q);
            } else {
                d = round_32(val + at, q);
            }
            memcpy(to + 2 * r, &d, 2);
            for (uint32_t j = 0; j < 8; j++)
                memcpy(to + 2 * lanes + 4 * (lanes * j + r), q + 4 * j, 4);
        }
    }
}
