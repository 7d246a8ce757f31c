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
    uint32_t n_embd, n_head, d_k, d_v, n_rot;
    uint32_t n_exp, n_used, n_ff_exp, n_ff_sh,
        n_dense;     /* the first n_dense layers have no experts */
    uint32_t window; /* attention.sliding_window, 0 = absent */
    uint32_t n_kv[AQ_LAYERS_MAX], n_ff[AQ_LAYERS_MAX];
    uint8_t exp_gate, exp_renorm, act; /* what the arch sets where the file is silent */
    float rope_base, score_scale;      /* attention.scale, 0 = absent */
    uint32_t sect[4];                  /* rope.dimension_sections, by aq_get_sections */
    aq_rope_scale scale;
} aq_hp;

/* `<arch>.<name>`: 1 found, 0 absent (ret untouched) */
int aq_arch_u32(const aq_model *, const char *name, uint32_t *ret, aq_err *) AQ_MUST;
int aq_arch_f32(const aq_model *, const char *name, float *ret, aq_err *) AQ_MUST;
/** The same, but absent is FORMAT, and the value must be within [lo, hi]. */
int aq_arch_need_u32(const aq_model *, const char *name, uint32_t lo, uint32_t hi, uint32_t *ret,
                     aq_err *) AQ_MUST;

/** `<arch>.<name>`, one value for all layers or one each: ret [n_all]; 1 found, 0 absent. */
int aq_arch_u32s(const aq_model *, const aq_hp *, const char *name, uint32_t *ret,
                 aq_err *) AQ_MUST;
/** UNSUPPORTED when the file has this key with a value other than `harmless`. */
int aq_arch_refuse(const aq_model *, const char *name, float harmless, aq_err *) AQ_MUST;

/** Layer counts, widths, heads, rope and norm; makes m->layer (all tensors absent), binds embedding, final norm and head. */
int aq_fill_start(aq_model *, aq_hp *ret, aq_err *) AQ_MUST;
enum {
    AQ_FILL_QK_NORM = 1, /* norms of q and k, over each head */
    AQ_FILL_QK_ROW = 2,  /* or over the whole row */
    AQ_FILL_GATED = 4,
    AQ_FILL_BIAS = 8,      /* q, k and v must have biases (others may) */
    AQ_FILL_WINDOW = 16,   /* the arch sets the layer's window */
    AQ_FILL_V_IS_K = 32,   /* v may be absent */
    AQ_FILL_NO_KV = 64,    /* k and v are another layer's */
    AQ_FILL_NO_NORM = 128, /* no attn_norm */
};
/** Attention with its norm attn_norm; q, k, v in tensors of their own or in one attn_qkv. */
int aq_fill_attn(aq_model *, const aq_hp *, uint32_t layer, uint8_t rope, uint32_t flags,
                 aq_err *) AQ_MUST;
/** norm: the name of the norm before the ffn. */
int aq_fill_dense(aq_model *, const aq_hp *, uint32_t layer, const char *norm, aq_err *) AQ_MUST;
/** Router, experts (gate and up apart or in one tensor), what belongs to them and the shared expert. norm NULL = none. */
int aq_fill_moe(aq_model *, const aq_hp *, uint32_t layer, const char *norm, aq_err *) AQ_MUST;
/** expert_count and what belongs to it, into hp. */
int aq_fill_moe_keys(aq_model *, aq_hp *, aq_err *) AQ_MUST;
/* Gated delta net: keys ssm.*, and a layer of it. */
typedef struct aq_hp_delta {
    uint32_t d, n_kh, n_vh, conv_k;
} aq_hp_delta;
int aq_get_delta(const aq_model *, aq_hp_delta *ret, aq_err *) AQ_MUST;
/** norm: the layer has attn_norm. */
int aq_fill_delta(aq_model *, const aq_hp *, const aq_hp_delta *, uint32_t layer, bool norm,
                  aq_err *) AQ_MUST;
/** Which layers are recurrent, ret [n_all]: an array of yes and no, else all but every full_attention_interval-th. */
int aq_get_recurrent(const aq_model *, const aq_hp *, uint32_t *ret, aq_err *) AQ_MUST;
/** Sections of an interleaved rope into hp. */
int aq_get_sections(const aq_model *, aq_hp *, aq_err *) AQ_MUST;
/** What a draft (MTP) layer has beside its blocks. */
int aq_fill_draft(aq_model *, const aq_hp *, uint32_t layer, aq_err *) AQ_MUST;
/** `blk.LAYER.NAME` into the layer's role w. */
int aq_bind_layer(aq_model *, uint32_t layer, uint32_t w, const char *name, bool required,
                  uint64_t ne0, uint64_t ne1, uint64_t ne2, aq_err *) AQ_MUST;
bool aq_has_layer(const aq_model *, uint32_t layer, const char *name);
/** The layer reads the KV of the layer `back` before it: they cannot be parted. */
void aq_share_kv(aq_model *, uint32_t layer, uint32_t back);

extern const aq_arch aq_arch_llama, aq_arch_qwen2, aq_arch_qwen3, aq_arch_qwen3moe, aq_arch_olmoe,
    aq_arch_granitemoe, aq_arch_qwen35, aq_arch_qwen35moe, aq_arch_qwen3next, aq_arch_glm4moe,
    aq_arch_gpt_oss, aq_arch_gemma3, aq_arch_gemma4, aq_arch_deepseek2, aq_arch_minimax_m2,
    aq_arch_qwen4exp;

#endif
