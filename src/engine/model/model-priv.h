/* SPDX-License-Identifier: Apache-2.0 */
/* The model inside the engine: GGUF key-values, the tensor table, and the per-layer descriptor table that backends interpret.
 * Everything is immutable after aq_model_open and may be read from any thread. A new architecture is one file arch-NAME.c whose fill
 * function writes the descriptors. */
#ifndef AQ_MODEL_PRIV_H
#define AQ_MODEL_PRIV_H

#include "aq/engine.h"

/* ---- storage types (ggml's numbers) ---- */
enum {
    AQ_T_F32 = 0,
    AQ_T_F16 = 1,
    AQ_T_Q4_0 = 2,
    AQ_T_Q4_1 = 3,
    AQ_T_Q5_0 = 6,
    AQ_T_Q5_1 = 7,
    AQ_T_Q8_0 = 8,
    AQ_T_Q2_K = 10,
    AQ_T_Q3_K = 11,
    AQ_T_Q4_K = 12,
    AQ_T_Q5_K = 13,
    AQ_T_Q6_K = 14,
    AQ_T_IQ2_XXS = 16,
    AQ_T_IQ2_XS = 17,
    AQ_T_IQ3_XXS = 18,
    AQ_T_IQ1_S = 19,
    AQ_T_IQ4_NL = 20,
    AQ_T_IQ3_S = 21,
    AQ_T_IQ2_S = 22,
    AQ_T_IQ4_XS = 23,
    AQ_T_IQ1_M = 29,
    AQ_T_BF16 = 30,
    AQ_T_TQ1_0 = 34,
    AQ_T_TQ2_0 = 35,
    AQ_T_MXFP4 = 39,
    AQ_T_NVFP4 = 40,
    AQ_T_Q1_0 = 41,
    AQ_T_Q2_0 = 42,
};
typedef struct aq_type {
    uint32_t id;
    const char *name;
    uint32_t block_vals, block_bytes;
    /* exact: bit for bit what the format says; n_vals a multiple of block_vals. NULL = the type is known by name only (UNSUPPORTED) */
    void (*dequant)(const void *src, float *dst, size_t n_vals);
} aq_type;
const aq_type *aq_type_get(uint32_t id); /* NULL = never heard of */
float aq_f16_to_f32(uint16_t);
uint16_t aq_f32_to_f16(float); /* round to nearest even */

/* ---- GGUF ---- */
typedef struct aq_str {
    const char *p; /* not NUL-terminated, borrowed from the header */
    uint32_t n;
} aq_str;
typedef struct aq_tensor {
    aq_str name;
    const aq_type *type;
    uint32_t n_dims, shard;
    uint64_t ne
        [4]; /* ne[0] fastest: a matrix of `ne[1]` rows of `ne[0]` values; experts: ne[2] such matrices */
    uint64_t off, bytes; /* from the start of the shard's file */
} aq_tensor;
typedef struct aq_gguf aq_gguf;
enum {
    AQ_KV_U8,
    AQ_KV_I8,
    AQ_KV_U16,
    AQ_KV_I16,
    AQ_KV_U32,
    AQ_KV_I32,
    AQ_KV_FLOAT,
    AQ_KV_BOOL,
    AQ_KV_STR,
    AQ_KV_ARR,
    AQ_KV_U64,
    AQ_KV_I64,
    AQ_KV_DOUBLE
};
/* Look-ups: 1 found and of that kind (integers convert when they fit), 0 absent, -AQ_E_FORMAT another kind or out of range. */
int aq_gguf_u32(const aq_gguf *, const char *key, uint32_t *ret, aq_err *) AQ_MUST;
int aq_gguf_f32(const aq_gguf *, const char *key, float *ret, aq_err *) AQ_MUST;
int aq_gguf_bool(const aq_gguf *, const char *key, bool *ret, aq_err *) AQ_MUST;
int aq_gguf_str(const aq_gguf *, const char *key, aq_str *ret, aq_err *) AQ_MUST;
/** Scalar or array of exactly n: ret[n]. */
int aq_gguf_u32s(const aq_gguf *, const char *key, uint32_t *ret, uint32_t n, aq_err *) AQ_MUST;
/** Arrays by view: element count, and the elements one by one through a cursor. */
int aq_gguf_arr(const aq_gguf *, const char *key, uint32_t *ret_kind, uint64_t *ret_n, aq_cur *ret,
                aq_err *) AQ_MUST;

/* ---- descriptors ---- */
enum { AQ_MIX_ATTN = 1, AQ_MIX_LATENT, AQ_MIX_DELTA };
enum { AQ_FFN_DENSE = 1, AQ_FFN_MOE, AQ_FFN_BOTH }; /* BOTH: dense and experts side by side */
enum {
    AQ_ROPE_NONE,
    AQ_ROPE_NORM,
    AQ_ROPE_NEOX
}; /* NORM pairs (2i, 2i+1), NEOX pairs (i, i + n_rot/2) */
enum {
    AQ_GATE_SOFTMAX = 1,
    AQ_GATE_SIGMOID,
    AQ_GATE_CHOSEN, /* softmax over the chosen only */
};
/* What becomes of gate and up: silu(g) u, gelu(g) u (by tanh), and gpt-oss's: g at most 7, u within ±7, g σ(1.702 g) (u + 1) */
enum { AQ_ACT_SILU, AQ_ACT_GELU, AQ_ACT_OAI };

/* Tensors of a layer by role; value = index in the tensor table, -1 = absent. */
enum {
    AQ_W_ATTN_NORM,
    AQ_W_Q,
    AQ_W_K,
    AQ_W_V,
    AQ_W_O,
    AQ_W_O_BIAS,
    AQ_W_Q_BIAS,
    AQ_W_K_BIAS,
    AQ_W_V_BIAS,
    AQ_W_Q_NORM,
    AQ_W_K_NORM,
    AQ_W_SINKS,     /* [n_head] one more score of each head, without a value */
    AQ_W_POST_NORM, /* of the mixer's output */
    AQ_W_Q_A,       /* latent: h → Q_A → norm → Q, or h → Q */
    AQ_W_Q_A_NORM,
    AQ_W_KV_A,
    AQ_W_KV_A_NORM,
    AQ_W_K_B, /* a stack, one matrix a head */
    AQ_W_V_B,
    AQ_W_QKV,
    AQ_W_GATE_Z,
    AQ_W_ALPHA,
    AQ_W_BETA,
    AQ_W_BA, /* or both in one: per k head [beta of its v heads | alpha of them] */
    AQ_W_CONV,
    AQ_W_DT_BIAS,
    AQ_W_A,
    AQ_W_SSM_NORM,
    AQ_W_SSM_OUT,
    AQ_W_FFN_NORM,
    AQ_W_FFN_GATE,
    AQ_W_FFN_UP,
    AQ_W_FFN_DOWN,
    AQ_W_FFN_POST_NORM, /* of the ffn's output */
    AQ_W_ROUTER,
    AQ_W_ROUTER_BIAS,
    AQ_W_ROUTER_NORM, /* BOTH: the router reads its own norm of x */
    AQ_W_SELECT_BIAS, /* added to the scores for choosing only */
    AQ_W_EXP_SCALE,   /* [n_exp] factor of an expert's weight */
    AQ_W_EXP_NORM,    /* BOTH: the experts' own norm of x, and norms of both outputs */
    AQ_W_EXP_POST_NORM,
    AQ_W_DENSE_POST_NORM,
    AQ_W_EXP_GATE_BIAS, /* [n_exp][…] */
    AQ_W_EXP_UP_BIAS,
    AQ_W_EXP_DOWN_BIAS,
    AQ_W_EXP_GATE,
    AQ_W_EXP_UP,
    AQ_W_EXP_DOWN,
    AQ_W_SH_GATE,
    AQ_W_SH_UP,
    AQ_W_SH_DOWN,
    AQ_W_SH_ROUTER,
    AQ_W_PLE_GATE, /* per-layer embedding: x += norm(PROJ (gelu(GATE x) ⊙ input of this layer)) */
    AQ_W_PLE_PROJ,
    AQ_W_PLE_NORM,
    AQ_W_OUT_SCALE, /* [1] factor of the residual stream after the layer */
    AQ_W_EH_PROJ,
    AQ_W_E_NORM,
    AQ_W_H_NORM,
    AQ_W_SH_HEAD_NORM,
    AQ_W_DRAFT_EMBD, /* the draft layer's own embedding and head, where it has them */
    AQ_W_DRAFT_HEAD,
    /* streams: the mix before a block, NORM [streams × n_embd], DOWN, UP, and INJECT for what follows it */
    AQ_W_HC_ATTN_NORM,
    AQ_W_HC_ATTN_DOWN,
    AQ_W_HC_ATTN_UP,
    AQ_W_HC_ATTN_INJECT,
    AQ_W_HC_FFN_NORM,
    AQ_W_HC_FFN_DOWN,
    AQ_W_HC_FFN_UP,
    AQ_W_HC_FFN_INJECT,
    AQ_W_IDX_Q, /* the indexer of sparse attention */
    AQ_W_IDX_K,
    AQ_W_IDX_Q_NORM,
    AQ_W_IDX_K_NORM,
    AQ_W_NG_KEY, /* n-gram embeddings */
    AQ_W_NG_VALUE,
    AQ_W_NG_KEY_NORM, /* the norms [streams × n_embd], the convolution [streams × n_embd][ng_conv] */
    AQ_W_NG_QUERY_NORM,
    AQ_W_NG_CONV_NORM,
    AQ_W_NG_CONV,
    AQ_W_N
};
/* How rope turns for positions beyond what was trained. All 4 bytes wide: compared as bytes. */
typedef struct aq_rope_scale {
    float factor;   /* frequencies are divided by it; with yarn only the slow ones, by ramp */
    uint32_t yarn;  /* ramp from slow to fast turns over `orig` positions */
    uint32_t freqs; /* the model's rope_freqs divide as well */
    float orig, fast, slow;
    float mag; /* factor of cos and sin */
} aq_rope_scale;
#define AQ_GROUPS_MAX 64u /* groups of experts */
#define AQ_NGRAM_MAX 8u   /* tokens of an n-gram */
#define AQ_NG_HEADS_MAX 64u
/* Embeddings by hashes of the last tokens. For n = 2 … size, per_gram heads each: the tokens × mult, joined by XOR, modulo the
 * head's vocab, plus its off, name a row of the model's table. A token eos ends the window backwards: from there on all count as eos. */
typedef struct aq_ngram {
    uint32_t size, per_gram, n_head, dim, conv_k, eos;
    uint64_t mult[AQ_NGRAM_MAX], vocab[AQ_NG_HEADS_MAX], off[AQ_NG_HEADS_MAX];
} aq_ngram;
typedef struct aq_layer {
    uint8_t mixer, ffn, cut_ok; /* cut_ok: layers may be parted before this one */
    int32_t w[AQ_W_N];
    uint32_t row0[AQ_W_N], rows[AQ_W_N]; /* rows of the tensor that are this role's; rows 0 = all */
    int32_t
        fac[AQ_W_N]; /* factor of a matrix's results, one a matrix (NVFP4's second scale); -1 = 1 */
    /* attention */
    uint32_t n_head, n_kv, d_k, d_v;
    uint8_t rope, gated;    /* gated: AQ_W_Q emits per head [q | gate], output × σ(gate) */
    uint32_t n_rot, window; /* window 0 = full */
    float rope_base, score_scale;
    /* Interleaved sections, for positions of time, height and width; of text all three are equal. A pair that none of the three has takes the
     * fourth, which for text is 0: it does not turn. All 0 = no sections. */
    uint32_t sect[4];
    aq_rope_scale scale;
    uint8_t v_norm; /* v is divided by its RMS */
    uint32_t
        kv_back; /* reads the KV of the layer that many before; 0 = its own. No W_K then; no W_V: v = k before its norm */
    /* latent attention: n_kv 1, d_k = d_v = n_lora + n_rot, the entry is [latent | roped]; heads of q are [d_nope | n_rot] */
    uint32_t n_lora, d_nope, d_val;
    uint8_t
        kv_b; /* W_K_B and W_V_B are one tensor: of each head d_nope rows, of which keys take the transpose, then d_val */
    /* gated delta net: d × d state per v head; v head h uses k head h mod n_kh, or grouped h / (n_vh / n_kh) */
    uint32_t n_kh, n_vh, d_state, conv_k;
    uint8_t kh_grouped, z_sigmoid; /* z_sigmoid: the output is gated by σ(z), not silu(z) */
    /* sparse attention: entries are seen in whole blocks of idx_block, the idx_top best of them by Σ_heads relu(q · block's key), and
     * those behind the last whole block; a block's key is the rope, at its first position, of the norm of its raw keys' mean; n_idx 0 = all are seen */
    uint32_t n_idx, d_idx, idx_block, idx_top;
    /* n-gram embeddings before the mixer; their convolution looks back ng_back rows, size apart; 0 = none */
    uint32_t ng_back;
    /* ffn */
    uint32_t n_ff, n_exp, n_used, n_ff_exp, n_ff_sh;
    uint8_t act;                  /* AQ_ACT_* */
    uint8_t exp_gate, exp_renorm; /* AQ_GATE_*; weights of the chosen sum to 1 */
    float exp_scale;
    uint32_t n_group,
        n_group_used; /* experts are chosen from the best groups only, by their two best; 0 = no groups */
} aq_layer;

struct aq_model {
    aq_model_info info;
    aq_arena *arena; /* everything below that is not the gguf's */
    aq_gguf *gguf;
    const aq_tensor *tensor; /* [n_tensor] */
    uint32_t n_tensor;
    aq_layer *layer; /* [info.n_layer + info.n_draft], the draft layers last */
    int32_t w_embd, w_out_norm,
        w_out,            /* w_out == w_embd when tied; -1 when opened for the vocabulary only */
        w_out_fac;        /* factor of the head's results, or -1 */
    int32_t w_rope_freqs; /* divisors of the rope frequencies, or -1 */
    int32_t w_ple_embd, w_ple_proj, w_ple_norm; /* per-layer embeddings, or -1 */
    uint32_t n_ple;                             /* values of one layer's */
    /* Residual streams side by side in a row (row_f32 = n_stream × n_embd); 1 = a plain residual. The last mix takes the place of
     * the final norm. */
    uint32_t n_stream;
    int32_t w_hc_norm, w_hc_down, w_hc_up;
    int32_t w_ngram; /* table of n-gram embeddings, read by the row, never loaded; or -1 */
    aq_ngram ngram;
    uint32_t
        n_left_out; /* layers behind the last that are not computed: drafts of a kind that is not known */
    float eps;                   /* of every RMS norm */
    float embd_scale, res_scale; /* factors of embeddings, of each block's output */
    float logit_scale,
        logit_cap;             /* logits × scale, then cap × tanh(logits / cap) if cap is not 0 */
    struct aq_vocab *vocab;    /* NULL when refused */
    struct aq_tmpl *tmpl;      /* the model's, or the stated fallback */
    struct aq_chat_caps *chat; /* what tmpl can do */
};

typedef struct aq_arch {
    const char *name;
    int (*fill)(
        aq_model *,
        aq_err *); /* hyperparameters → descriptors; binds tensors and checks their shapes */
} aq_arch;
extern const aq_arch *const aq_archs[]; /* NULL-terminated */

/* What arch-*.c use: bind a tensor by name and demand its shape (0 = any): FORMAT names tensor, shape found and shape wanted. */
int aq_bind(const aq_model *, const char *name, bool required, uint64_t ne0, uint64_t ne1,
            uint64_t ne2, int32_t *ret, aq_err *) AQ_MUST;

/** Bytes of n values of KV. */
static inline uint32_t aq_kv_row_bytes(uint32_t kv_type, uint32_t n)
{
    return kv_type == AQ_KV_F32 ? 4 * n : kv_type == AQ_KV_F16 ? 2 * n : (n + 31) / 32 * 34;
}

/** How the keys' half of a tensor kv_b is held: transposed, so blocks that run along its rows cannot stay. */
static inline const aq_type *aq_keys_type(const aq_type *stored)
{
    return stored->block_vals == 1 ? stored : aq_type_get(AQ_T_F32);
}

/** Bytes that are loaded for a layer's role (not -1): the tensor or its part, as stored but for the keys of a kv_b. */
uint64_t aq_role_bytes(const aq_model *, const aq_layer *, uint32_t role);

#endif
