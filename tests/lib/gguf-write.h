/* SPDX-License-Identifier: Apache-2.0 */
/* A small GGUF writer for tests: models of random weights, and headers that are wrong on purpose. Knows nothing of the engine.
 * Calls add up their failures: only gw_end reports. One thread. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include "aq/base.h"

/** Write a small random model to path: an architecture by the name that gguf-model.c lists ("llama", "qwen35", …); its matrices stored
 * as type "F32", "Q4_K", … (gguf-write.c lists them), "mix" (the eight up to Q6_K, one after the other) or "rest" (the others
 * likewise). "+scale" behind the architecture adds factors that cancel out: the results have the same bits. Byte-level BPE vocabulary of GW_VOCAB tokens and a ChatML template. The same arguments give the same bytes. 0, or
 * -AQ_E_* (INVAL, NOMEM, IO). */
int gw_model(const char *arch, const char *type, uint64_t seed, const char *path);
#define GW_VOCAB 272u

typedef struct gw_type {
    const char *name;
    uint32_t id, block_vals, block_bytes, d_at;
    float spread;
} gw_type;
/** All types; the first n_mix of them make a "mix". */
const gw_type *gw_types(uint32_t *ret_n, uint32_t *ret_n_mix);
const gw_type *gw_type_find(const char *name); /* NULL if unknown */

typedef struct gw {
    aq_bytes kv, info, data;
    uint64_t n_kv, n_tensor, rng;
    uint32_t version, align;
    int rc;
} gw;
void gw_begin(gw *, uint64_t seed);
/** The file's bytes, appended to ret; gw is empty afterwards. */
int gw_end(gw *, aq_bytes *ret) AQ_MUST;
int gw_save(const aq_bytes *, const char *path) AQ_MUST;

void gw_u32(gw *, const char *key, uint32_t);
void gw_u16(gw *, const char *key, uint16_t);
void gw_f32(gw *, const char *key, float);
void gw_bool(gw *, const char *key, bool);
void gw_str(gw *, const char *key, const char *);
void gw_strs(gw *, const char *key, const char *const *, uint32_t n);
void gw_i32s(gw *, const char *key, const int32_t *, uint32_t n);
/** A tensor of random values of this standard deviation around mean (mean: F32 only); ne ends with 0, at most 4. */
void gw_tensor(gw *, const char *name, const gw_type *, float std, float mean, const uint64_t *ne);
/** Only the entry of a tensor, at this offset, with no data behind it. */
void gw_entry(gw *, const char *name, uint32_t type_id, const uint64_t *ne, uint64_t off);
void gw_vocab(gw *); /* tokenizer.* */

#endif
