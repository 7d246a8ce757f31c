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
    return l >= AQ_L_STORED || layouts[l].block_vals == 1;
}

size_t aq_tile_bytes(int l, uint32_t k)
{
    return stored_row_bytes(type_of(l), k) * AQ_TILE;
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

void aq_tile_put(int l, uint32_t k, uint32_t r, const uint8_t *src, uint8_t *tile)
{
    if (l >= AQ_L_STORED) {
        size_t n = stored_row_bytes(type_of(l), k);
        memcpy(tile + r * n, src, n);
        return;
    }
    const layout *lay = &layouts[l];
    for (uint32_t b = 0; b < k / lay->block_vals; b++, src += lay->block_bytes)
        for (const part *p = lay->part; p->n; p++)
            for (uint32_t i = 0; i < p->n; i++, tile += p->size * AQ_TILE)
                copy(tile + r * p->size, src + p->at + i * p->size, p->size);
}

void aq_tile_get(int l, uint32_t k, uint32_t r, const uint8_t *tile, float *y, size_t step)
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
            for (uint32_t i = 0; i < p->n; i++, tile += p->size * AQ_TILE)
                copy(block + p->at + i * p->size, tile + r * p->size, p->size);
        type->dequant(block, val, lay->block_vals);
        for (uint32_t i = 0; i < lay->block_vals; i++, y += step)
            *y = val[i];
    }
}
