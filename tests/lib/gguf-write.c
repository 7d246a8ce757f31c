/* SPDX-License-Identifier: Apache-2.0 */
/* See gguf-write.h. Quantised matrices are not quantised from values: their bits are drawn, and scales chosen so that the values they
 * stand for have the wanted spread. */
#include "gguf-write.h"

#include <math.h>
#include <stdio.h>

enum { U16 = 2, U32 = 4, I32 = 5, FLOAT = 6, BOOL = 7, STR = 8, ARR = 9 };

/* Where spread is given, a block is random bits but for a half d at byte d_at, and its values have the RMS d · spread. */
static const gw_type types[] = {
    {"F32", 0, 1, 4, 0, 0},
    {"F16", 1, 1, 2, 0, 0},
    {"BF16", 30, 1, 2, 0, 0},
    {"Q8_0", 8, 32, 34, 0, 0},
    {"Q4_1", 3, 32, 20, 0, 0},
    {"Q4_K", 12, 256, 144, 0, 0},
    {"Q5_K", 13, 256, 176, 0, 0},
    {"Q6_K", 14, 256, 210, 0, 0},
#define N_MIX 8u /* the types of a "mix" end here */
    {"Q4_0", 2, 32, 18, 0, 4.6f},
    {"Q5_0", 6, 32, 22, 0, 9.2f},
    {"Q5_1", 7, 32, 24, 0, 0},
    {"Q2_K", 10, 256, 84, 0, 0},
    {"Q3_K", 11, 256, 110, 108, 43},
    {"IQ4_NL", 20, 32, 18, 0, 67.6f},
    {"IQ4_XS", 23, 256, 136, 0, 1250},
    {"MXFP4", 39, 32, 17, 0, 0},
    {"NVFP4", 40, 64, 36, 0, 0},
    {"IQ3_S", 21, 256, 110, 0, 140},
    {"IQ3_XXS", 18, 256, 98, 0, 142},
    {"IQ2_S", 22, 256, 82, 0, 56},
    {"IQ2_XS", 17, 256, 74, 0, 56},
    {"IQ2_XXS", 16, 256, 66, 0, 54},
    {"IQ1_S", 19, 256, 50, 0, 7.2f},
    {"IQ1_M", 29, 256, 56, 0, 0},
    {"TQ1_0", 34, 256, 54, 52, 0.82f},
    {"TQ2_0", 35, 256, 66, 64, 1.22f},
    {"Q1_0", 41, 128, 18, 0, 1},
    {"Q2_0", 42, 64, 18, 0, 1.22f},
};

const gw_type *gw_types(uint32_t *ret_n, uint32_t *ret_n_mix)
{
    *ret_n = AQ_LEN(types);
    *ret_n_mix = N_MIX;
    return types;
}

const gw_type *gw_type_find(const char *name)
{
    for (size_t i = 0; i < AQ_LEN(types); i++)
        if (!strcmp(types[i].name, name))
            return &types[i];
    return NULL;
}

/* ---- bytes ---- */

static void put(gw *w, aq_bytes *b, const void *p, size_t n)
{
    if (w->rc >= 0 && n)
        w->rc = aq_bytes_put(b, p, n);
}

static void put_le(gw *w, aq_bytes *b, uint64_t v, size_t n)
{
    uint8_t le[8];
    for (size_t i = 0; i < n; i++)
        le[i] = (uint8_t)(v >> 8 * i);
    put(w, b, le, n);
}

static void put_f32(gw *w, aq_bytes *b, float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    put_le(w, b, u, 4);
}

/** Cut, not rounded; below 2^-14 in units of 2^-24. */
static uint32_t half_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    return sign | (mag < 0x38800000 ? (uint32_t)(fabsf(f) * 0x1p24f) : (mag >> 13) - (112 << 10));
}

static void put_f16(gw *w, aq_bytes *b, float f)
{
    put_le(w, b, half_of(f), 2);
}

static void put_str(gw *w, aq_bytes *b, const char *s)
{
    put_le(w, b, strlen(s), 8);
    put(w, b, s, strlen(s));
}

static void pad(gw *w, aq_bytes *b, size_t align)
{
    while (w->rc >= 0 && b->n % align)
        put_le(w, b, 0, 1);
}

static uint64_t draw(gw *w)
{
    uint64_t z = w->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/** Even distribution of standard deviation 1. */
static float draw_f32(gw *w)
{
    return ((float)(draw(w) >> 40) * 0x1p-24f - 0.5f) * 3.4641016f;
}

/* ---- file ---- */

void gw_begin(gw *w, uint64_t seed)
{
    *w = (gw){.rng = seed, .version = 3, .align = 32};
}

int gw_end(gw *w, aq_bytes *ret)
{
    aq_bytes b = {0};
    put(w, &b, "GGUF", 4);
    put_le(w, &b, w->version, 4);
    put_le(w, &b, w->n_tensor, 8);
    put_le(w, &b, w->n_kv, 8);
    put(w, &b, w->kv.p, w->kv.n);
    put(w, &b, w->info.p, w->info.n);
    if (w->data.n) {
        pad(w, &b, w->align);
        put(w, &b, w->data.p, w->data.n);
    }
    put(w, ret, b.p, b.n);
    aq_bytes_clear(&b);
    aq_bytes_clear(&w->kv);
    aq_bytes_clear(&w->info);
    aq_bytes_clear(&w->data);
    return w->rc;
}

int gw_save(const aq_bytes *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return -AQ_E_IO;
    bool good = !b->n || fwrite(b->p, 1, b->n, f) == b->n;
    return fclose(f) || !good ? -AQ_E_IO : 0;
}

static void key(gw *w, const char *name, uint32_t kind)
{
    w->n_kv++;
    put_str(w, &w->kv, name);
    put_le(w, &w->kv, kind, 4);
}

void gw_u32(gw *w, const char *name, uint32_t v)
{
    key(w, name, U32);
    put_le(w, &w->kv, v, 4);
}

void gw_u16(gw *w, const char *name, uint16_t v)
{
    key(w, name, U16);
    put_le(w, &w->kv, v, 2);
}

void gw_f32(gw *w, const char *name, float v)
{
    key(w, name, FLOAT);
    put_f32(w, &w->kv, v);
}

void gw_bool(gw *w, const char *name, bool v)
{
    key(w, name, BOOL);
    put_le(w, &w->kv, v, 1);
}

void gw_str(gw *w, const char *name, const char *v)
{
    key(w, name, STR);
    put_str(w, &w->kv, v);
}

void gw_strs(gw *w, const char *name, const char *const *v, uint32_t n)
{
    key(w, name, ARR);
    put_le(w, &w->kv, STR, 4);
    put_le(w, &w->kv, n, 8);
    for (uint32_t i = 0; i < n; i++)
        put_str(w, &w->kv, v[i]);
}

void gw_i32s(gw *w, const char *name, const int32_t *v, uint32_t n)
{
    key(w, name, ARR);
    put_le(w, &w->kv, I32, 4);
    put_le(w, &w->kv, n, 8);
    for (uint32_t i = 0; i < n; i++)
        put_le(w, &w->kv, (uint32_t)v[i], 4);
}

void gw_entry(gw *w, const char *name, uint32_t type_id, const uint64_t *ne, uint64_t off)
{
    uint32_t n_dims = 0;
    while (n_dims < 4 && ne[n_dims])
        n_dims++;
    w->n_tensor++;
    put_str(w, &w->info, name);
    put_le(w, &w->info, n_dims, 4);
    for (uint32_t d = 0; d < n_dims; d++)
        put_le(w, &w->info, ne[d], 8);
    put_le(w, &w->info, type_id, 4);
    put_le(w, &w->info, off, 8);
}

/* ---- weights ---- */

static void put_random(gw *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_le(w, &w->data, draw(w) >> 56, 1);
}

/** One block of type t whose values have about this standard deviation. */
static void put_block(gw *w, const gw_type *t, float std, float mean)
{
    aq_bytes *b = &w->data;
    float d = std * (0.8f + 0.4f * (float)(draw(w) >> 40) * 0x1p-24f), v;
    uint8_t sc[8], mn[8], packed[12];
    uint32_t u;
    if (t->spread > 0) {
        put_random(w, t->d_at);
        put_f16(w, b, d / t->spread);
        put_random(w, t->block_bytes - t->d_at - 2);
        return;
    }
    switch (t->id) {
    case 0:
        put_f32(w, b, mean + std * draw_f32(w));
        break;
    case 1:
        put_f16(w, b, std * draw_f32(w));
        break;
    case 30:
        v = std * draw_f32(w);
        memcpy(&u, &v, 4);
        put_le(w, b, u >> 16, 2);
        break;
    case 8: /* q even over -127 .. 127 */
        put_f16(w, b, d / 73);
        for (int i = 0; i < 32; i++)
            put_le(w, b, (uint64_t)(draw(w) % 255) - 127, 1);
        break;
    case 3: /* q even over 0 .. 15 */
        put_f16(w, b, d / 4.6f);
        put_f16(w, b, -7.5f * d / 4.6f);
        put_random(w, 16);
        break;
    case 7: /* q even over 0 .. 31 */
        put_f16(w, b, d / 9.2f);
        put_f16(w, b, -15.5f * d / 9.2f);
        put_random(w, 20);
        break;
    case 10: /* q even over 0 .. 3, scales and mins over 0 .. 15; dmin makes the mean 0 */
        put_random(w, 80);
        put_f16(w, b, d / 13.8f);
        put_f16(w, b, 1.5f * d / 13.8f);
        break;
    case 29: /* the half lies in the upper four bits of four words */
        u = half_of(d / 7.2f);
        put_random(w, 48);
        for (int j = 0; j < 4; j++)
            put_le(w, b, (draw(w) & 0xfff) | (uint64_t)(u >> 4 * j & 15) << 12, 2);
        break;
    case 39: /* levels 0 .. 6 of RMS 2.93; an exponent of 2 */
        put_le(w, b, (uint64_t)(127 + lrintf(log2f(d / 2.93f))), 1);
        put_random(w, 16);
        break;
    case 40: /* four unsigned e4m3 */
        for (int j = 0; j < 4; j++)
            put_le(w, b, (uint64_t)fmaxf(7 + floorf(log2f(d / 2.93f)), 0) << 3 | (draw(w) & 7), 1);
        put_random(w, 32);
        break;
    case 12: /* dmin · min is about the mean of d · scale · q */
    case 13: /* likewise with one more bit */
        u = t->id == 13 ? 2 : 1;
        put_f16(w, b, d / (40 * 4.6f * (float)u));
        put_f16(w, b, (u == 2 ? 7.75f : 7.5f) * d / (40 * 4.6f));
        for (int j = 0; j < 8; j++) {
            sc[j] = (uint8_t)(17 + draw(w) % 46);
            mn[j] = (uint8_t)(sc[j] + draw(w) % 3 - 1);
        }
        for (int j = 0; j < 4; j++) {
            packed[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
            packed[j + 4] = (uint8_t)(mn[j] | mn[j + 4] >> 4 << 6);
            packed[j + 8] = (uint8_t)((sc[j + 4] & 15) | (mn[j + 4] & 15) << 4);
        }
        put(w, b, packed, 12);
        put_random(w, u == 2 ? 160 : 128);
        break;
    default: /* Q6_K: q even over -32 .. 31 */
        put_random(w, 192);
        for (int j = 0; j < 16; j++)
            put_le(w, b, (uint64_t)(draw(w) & 1 ? 1 : -1) * (40 + draw(w) % 88), 1);
        put_f16(w, b, d / (84 * 18.5f));
    }
}

void gw_tensor(gw *w, const char *name, const gw_type *t, float std, float mean, const uint64_t *ne)
{
    uint64_t n = 1;
    pad(w, &w->data, w->align);
    gw_entry(w, name, t->id, ne, w->data.n);
    for (int d = 0; d < 4 && ne[d]; d++)
        n *= ne[d];
    for (uint64_t i = 0; i < n / t->block_vals; i++)
        put_block(w, t, std, mean);
}

/* ---- vocabulary: 256 bytes, some merges, five special tokens ---- */

static const char *const merges[] = {"t h",      "h e",        "i n",      "e r", "a n", "\u0120 t",
                                     "\u0120 a", "\u0120t he", "\u0120 s", "o n", "r e"};
static const char *const specials[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>",
                                       "</think>"};
static const char chatml[] =
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}";

/** The visible character that stands for a byte in byte-level BPE. */
static void byte_symbol(uint32_t byte, uint32_t *n_moved, char out[5])
{
    bool plain = (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) || byte >= 174;
    uint32_t cp = plain ? byte : 256 + (*n_moved)++;
    out[aq_utf8_put(cp, out)] = 0;
}

void gw_vocab(gw *w)
{
    static char text[256 + AQ_LEN(merges)][16];
    const char *tok[GW_VOCAB];
    int32_t type[GW_VOCAB];
    uint32_t n = 0, n_moved = 0;
    _Static_assert(256 + AQ_LEN(merges) + AQ_LEN(specials) == GW_VOCAB, "GW_VOCAB counts them");
    for (; n < 256; n++)
        byte_symbol(n, &n_moved, text[n]);
    for (size_t i = 0; i < AQ_LEN(merges); i++, n++) {
        size_t left = strcspn(merges[i], " ");
        snprintf(text[n], sizeof text[n], "%.*s%s", (int)left, merges[i], merges[i] + left + 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        tok[i] = text[i];
        type[i] = 1;
    }
    for (size_t i = 0; i < AQ_LEN(specials); i++) {
        tok[n] = specials[i];
        type[n++] = i < 3 ? 3 : 4;
    }
    gw_str(w, "tokenizer.ggml.model", "gpt2");
    gw_str(w, "tokenizer.ggml.pre", "qwen2");
    gw_strs(w, "tokenizer.ggml.tokens", tok, n);
    gw_i32s(w, "tokenizer.ggml.token_type", type, n);
    gw_strs(w, "tokenizer.ggml.merges", merges, AQ_LEN(merges));
    gw_u32(w, "tokenizer.ggml.bos_token_id", GW_VOCAB - 5);
    gw_u32(w, "tokenizer.ggml.eos_token_id", GW_VOCAB - 3);
    gw_u32(w, "tokenizer.ggml.padding_token_id", GW_VOCAB - 5);
    gw_bool(w, "tokenizer.ggml.add_bos_token", false);
    gw_str(w, "tokenizer.chat_template", chatml);
}
