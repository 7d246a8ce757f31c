/* SPDX-License-Identifier: Apache-2.0 */
/* What the arch-*.c share: hyperparameters that most architectures have, and the descriptors that follow from them. */
#ifndef AQ_ARCH_PRIV_H
#define AQ_ARCH_PRIV_H

#include "gguf-priv.h"

#define AQ_EMBD_MAX (1u << 20)
#define AQ_HEADS_MAX 4096u
#define AQ_HEAD_DIM_MAX 4096u
#define AQ_FF_MAX (1u << 24)
#define AQ_EXPERTS_MAX 65536u

typedef struct aq_hp {
    uint32_t n_all; /* layers with the draft layers */
    uint32_t n_embd, n_ff, n_head, d_k, d_v, n_rot;
    uint32_t n_exp, n_used, n_ff_exp, n_ff_sh;
    uint32_t n_kv[AQ_LAYERS_MAX];
    float rope_base;
} aq_hp;

/* `<arch>.<name>`: 1 found, 0 absent (ret untouched) */
int aq_arch_u32(const aq_model *, const char *name, uint32_t *ret, aq_err *) AQ_MUST;
int aq_arch_f32(const aq_model *, const char *name, float *ret, aq_err *) AQ_MUST;
/** The same, but absent is FORMAT, and the value must be within [lo, hi]. */
int aq_arch_need_u32(const aq_model *, const char *name, uint32_t lo, uint32_t hi, uint32_t *ret,
                     aq_err *) AQ_MUST;

/** Layer counts, widths, heads, rope and norm; makes m->layer (all tensors absent), binds embedding, final norm and head. */
int aq_fill_start(aq_model *, aq_hp *ret, aq_err *) AQ_MUST;
enum { AQ_FILL_QK_NORM = 1, AQ_FILL_GATED = 2 };
int aq_fill_attn(aq_model *, const aq_hp *, uint32_t layer, uint8_t rope, uint32_t flags,
                 aq_err *) AQ_MUST;
/** norm: the name of the norm before the ffn. */
int aq_fill_dense(aq_model *, const aq_hp *, uint32_t layer, const char *norm, aq_err *) AQ_MUST;
int aq_fill_moe(aq_model *, const aq_hp *, uint32_t layer, const char *norm, aq_err *) AQ_MUST;
/** expert_count and what belongs to it, into hp. */
int aq_fill_moe_keys(const aq_model *, aq_hp *, aq_err *) AQ_MUST;
/** `blk.LAYER.NAME` into the layer's role w. */
int aq_bind_layer(aq_model *, uint32_t layer, uint32_t w, const char *name, bool required,
                  uint64_t ne0, uint64_t ne1, uint64_t ne2, aq_err *) AQ_MUST;

extern const aq_arch aq_arch_llama, aq_arch_qwen3moe, aq_arch_qwen35;

#endif
