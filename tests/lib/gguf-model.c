/* SPDX-License-Identifier: Apache-2.0 */
/* Random models of every architecture, by a table of what each has: see gguf-write.h. One thread. */
#include <math.h>
#include <stdio.h>

#include "gguf-write.h"

enum {
    TIED = 1 << 0,
    FREQS = 1 << 1,   /* rope_freqs */
    QK_HEAD = 1 << 2, /* norms of q and k over heads */
    QK_ROW = 1 << 3,  /* over rows */
    BIAS = 1 << 4,    /* of q, k, v */
    QKV = 1 << 5,     /* q, k, v in one tensor */
    SINKS = 1 << 6,   /* and a bias of the output */
    HYBRID = 1 << 7,  /* two delta layers, one of gated attention; a norm post_attention_norm */
    JOINT_BA = 1 << 8,
    LATENT = 1 << 9,
    MOE = 1 << 10,
    LEAD = 1 << 11, /* the first layer is dense */
    SHARED = 1 << 12,
    SH_GATE = 1 << 13,
    SELECT = 1 << 14,    /* a bias for choosing */
    EXP_BIAS = 1 << 15,  /* of router and experts */
    GATE_UP = 1 << 16,   /* in one tensor */
    LATE_NORM = 1 << 17, /* the ffn's norm is called post_attention_norm */
    GEMMA = 1 << 18,     /* norms behind the blocks, a window */
    GEMMA4 = 1 << 19,    /* two kinds of layers by turns */
    PLE = 1 << 20, /* per-layer embeddings, the second half of the layers reads KV of the first */
    STREAMS =
        1
        << 21, /* four residual streams, an indexer, n-gram embeddings on layers 1 and 2; no norms */
};
static const struct spec {
    const char *name, *arch;
    uint32_t n_layer, n_draft, has;
} specs[] = {
    {"llama", "llama", 3, 0, TIED | FREQS},
    {"qwen2", "qwen2", 2, 0, BIAS | QKV},
    {"qwen3", "qwen3", 2, 0, QK_HEAD},
    {"qwen3moe", "qwen3moe", 3, 0, QK_HEAD | MOE},
    {"olmoe", "olmoe", 2, 0, QK_ROW | MOE},
    {"granitemoe", "granitemoe", 2, 0, MOE | TIED},
    {"minimax-m2", "minimax-m2", 2, 0, QK_ROW | MOE | SELECT},
    {"qwen35", "qwen35", 4, 1, QK_HEAD | HYBRID},
    {"qwen35-drafts", "qwen35", 4, 3, QK_HEAD | HYBRID},
    {"qwen35moe", "qwen35moe", 3, 1, QK_HEAD | HYBRID | MOE | SHARED | SH_GATE},
    {"qwen3next", "qwen3next", 3, 0, QK_HEAD | HYBRID | JOINT_BA | MOE | SHARED | SH_GATE},
    {"qwen4exp", "qwen4exp", 3, 0, QK_HEAD | HYBRID | MOE | SHARED | SH_GATE | STREAMS},
    {"glm4moe", "glm4moe", 3, 1, BIAS | MOE | LEAD | SHARED | SELECT | LATE_NORM},
    {"gpt-oss", "gpt-oss", 3, 0, BIAS | SINKS | MOE | EXP_BIAS | LATE_NORM},
    {"deepseek2", "deepseek2", 3, 0, LATENT | MOE | LEAD | SHARED | SELECT},
    {"gemma3", "gemma3", 4, 0, QK_HEAD | GEMMA | TIED},
    {"gemma4", "gemma4", 4, 0, QK_HEAD | GEMMA | GEMMA4 | FREQS | MOE | GATE_UP},
    {"gemma4-ple", "gemma4", 4, 0, QK_HEAD | GEMMA | GEMMA4 | FREQS | PLE},
};

#define LORA 32u /* latent attention: ranks, and widths of a head's parts */
#define NOPE 32u
#define ROT 16u
#define P_LE 32u
#define N_STREAM 4u
#define RANK 32u
#define N_GRAM 3u
#define GRAM_VOCAB 61u /* rows of each head */

typedef struct model {
    gw w;
    const struct spec *s;
    const gw_type *type, *types; /* type NULL: mix or rest */
    uint32_t first, n_types, n_mixed;
    uint64_t E, FF, H, KV, HD, NE, FE, D, NK, NV;
} model;

static bool has(const model *m, uint32_t what)
{
    return m->s->has & what;
}

static const char *name_in(char buf[96], const char *prefix, const char *name, const char *suffix)
{
    int n = snprintf(buf, 96, "%s%s%s", prefix, name, suffix);
    return n < 96 ? buf : "too long";
}

static void mkey(model *m, const char *name, uint32_t v)
{
    char b[96];
    gw_u32(&m->w, name_in(b, m->s->arch, ".", name), v);
}

static void mkey_f(model *m, const char *name, float v)
{
    char b[96];
    gw_f32(&m->w, name_in(b, m->s->arch, ".", name), v);
}

static void mat_of(model *m, const gw_type *t, const char *p, const char *name, uint64_t in,
                   uint64_t out, uint64_t lead, float gain)
{
    char b[96];
    gw_tensor(&m->w, name_in(b, p, name, ".weight"), t, gain / sqrtf((float)in), 0,
              (uint64_t[]){in, out, lead, 0});
}

static void mat(model *m, const char *p, const char *name, uint64_t in, uint64_t out, uint64_t lead,
                float gain)
{
    const gw_type *t = m->type;
    while (!t || in % t->block_vals) /* only a mix holds types that do not fit everywhere */
        t = &m->types[m->first + m->n_mixed++ % m->n_types];
    mat_of(m, t, p, name, in, out, lead, gain);
}

static void vec(model *m, const char *p, const char *name, uint64_t n, float std, float mean)
{
    char b[96];
    gw_tensor(&m->w, name_in(b, p, name, ""), &m->types[0], std, mean, (uint64_t[]){n, 0});
}

static void norm(model *m, const char *p, const char *name, uint64_t n)
{
    char b[96];
    vec(m, p, name_in(b, name, ".weight", ""), n, 0.2f, 1);
}

/* ---- blocks ---- */

static void attn(model *m, const char *p, bool gated, uint64_t hd, bool kv, bool v)
{
    uint64_t nq = m->H * hd, nk = m->KV * hd;
    if (has(m, QKV)) {
        mat(m, p, "attn_qkv", m->E, nq + 2 * nk, 0, 1.5f);
        vec(m, p, "attn_qkv.bias", nq + 2 * nk, 0.4f, 0);
    } else {
        mat(m, p, "attn_q", m->E, nq * (gated ? 2 : 1), 0, 1.5f);
        if (kv)
            mat(m, p, "attn_k", m->E, nk, 0, 1.5f);
        if (kv && v)
            mat(m, p, "attn_v", m->E, nk, 0, 1);
    }
    mat(m, p, "attn_output", nq, m->E, 0, gated ? 3 : 1.5f);
    if (has(m, BIAS) && !has(m, QKV)) {
        vec(m, p, "attn_q.bias", nq, 0.5f, 0);
        vec(m, p, "attn_k.bias", nk, 0.5f, 0);
        vec(m, p, "attn_v.bias", nk, 0.2f, 0);
    }
    if (has(m, SINKS)) {
        vec(m, p, "attn_output.bias", m->E, 0.5f, 0);
        vec(m, p, "attn_sinks.weight", m->H, 1, 1);
    }
    if (has(m, QK_HEAD | QK_ROW)) {
        vec(m, p, "attn_q_norm.weight", has(m, QK_ROW) ? nq : hd, 0.3f,
            has(m, GEMMA4) ? 0.6f : 1.5f);
        if (kv)
            vec(m, p, "attn_k_norm.weight", has(m, QK_ROW) ? nk : hd, 0.3f,
                has(m, GEMMA4) ? 0.6f : 1.5f);
    }
}

static void latent(model *m, const char *p)
{
    mat(m, p, "attn_q_a", m->E, LORA, 0, 1);
    norm(m, p, "attn_q_a_norm", LORA);
    mat(m, p, "attn_q_b", LORA, m->H * (NOPE + ROT), 0, 1.5f);
    mat(m, p, "attn_kv_a_mqa", m->E, LORA + ROT, 0, 1.5f);
    norm(m, p, "attn_kv_a_norm", LORA);
    mat(m, p, "attn_k_b", NOPE, LORA, m->H, 1.5f);
    mat(m, p, "attn_v_b", LORA, m->HD, m->H, 1);
    mat(m, p, "attn_output", m->H * m->HD, m->E, 0, 1.5f);
}

static void dense(model *m, const char *p, const char *suffix, uint64_t ff)
{
    char b[96];
    mat(m, p, name_in(b, "ffn_gate", suffix, ""), m->E, ff, 0, 1);
    mat(m, p, name_in(b, "ffn_up", suffix, ""), m->E, ff, 0, 1);
    mat(m, p, name_in(b, "ffn_down", suffix, ""), ff, m->E, 0, 2);
}

static void moe(model *m, const char *p)
{
    mat_of(m, &m->types[0], p, "ffn_gate_inp", m->E, m->NE, 0,
           has(m, GEMMA4) ? 2 * sqrtf((float)m->E) : 2);
    if (has(m, GATE_UP)) {
        mat(m, p, "ffn_gate_up_exps", m->E, 2 * m->FE, m->NE, 1);
    } else {
        mat(m, p, "ffn_gate_exps", m->E, m->FE, m->NE, 1);
        mat(m, p, "ffn_up_exps", m->E, m->FE, m->NE, 1);
    }
    mat(m, p, "ffn_down_exps", m->FE, m->E, m->NE, 2.5f);
    if (has(m, SELECT))
        vec(m, p, "exp_probs_b.bias", m->NE, 0.1f, 0);
    if (has(m, EXP_BIAS)) {
        char b[96];
        vec(m, p, "ffn_gate_inp.bias", m->NE, 0.5f, 0);
        const char *const name[] = {"ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"};
        for (int i = 0; i < 3; i++)
            gw_tensor(&m->w, name_in(b, p, name[i], ""), &m->types[0], 0.5f, 0,
                      (uint64_t[]){i < 2 ? m->FE : m->E, m->NE, 0});
    }
    if (has(m, SHARED))
        dense(m, p, "_shexp", m->FE);
    if (has(m, SH_GATE))
        vec(m, p, "ffn_gate_inp_shexp.weight", m->E, 0.1f, 0);
    if (has(m, GEMMA4)) {
        norm(m, p, "pre_ffw_norm_2", m->E);
        norm(m, p, "post_ffw_norm_1", m->E);
        norm(m, p, "post_ffw_norm_2", m->E);
        vec(m, p, "ffn_gate_inp.scale", m->E, 0.2f, 1);
        vec(m, p, "ffn_down_exps.scale", m->NE, 0.2f, 1);
    }
}

static void delta(model *m, const char *p)
{
    uint64_t nv = m->NV * m->D, ch = 2 * m->NK * m->D + nv;
    char b[96];
    mat(m, p, "attn_qkv", m->E, ch, 0, 1);
    mat(m, p, "attn_gate", m->E, nv, 0, 1);
    if (has(m, JOINT_BA)) {
        mat_of(m, &m->types[0], p, "ssm_ba", m->E, 2 * m->NV, 0, 1);
    } else {
        mat_of(m, &m->types[0], p, "ssm_alpha", m->E, m->NV, 0, 1);
        mat_of(m, &m->types[0], p, "ssm_beta", m->E, m->NV, 0, 1);
    }
    gw_tensor(&m->w, name_in(b, p, "ssm_conv1d", ".weight"), &m->types[0], 0.6f, 0,
              (uint64_t[]){4, ch, 0});
    vec(m, p, "ssm_dt.bias", m->NV, 0.5f, -1);
    vec(m, p, "ssm_a", m->NV, 0.2f, -0.5f);
    vec(m, p, "ssm_norm.weight", m->D, 0.2f, 1);
    mat(m, p, "ssm_out", nv, m->E, 0, 2);
}

static void draft(model *m, const char *p)
{
    mat(m, p, "nextn.eh_proj", 2 * m->E, m->E, 0, 1);
    vec(m, p, "nextn.enorm.weight", m->E, 0.2f, 1);
    vec(m, p, "nextn.hnorm.weight", m->E, 0.2f, 1);
    vec(m, p, "nextn.shared_head_norm.weight", m->E, 0.2f, 1);
}

/* ---- streams ---- */

static void stream_mix(model *m, const char *p, const char *name, bool inject)
{
    char b[96];
    uint64_t W = N_STREAM * m->E;
    norm(m, p, name_in(b, name, "_norm", ""), W);
    mat(m, p, name_in(b, name, "_down", ""), W, RANK, 0, 4);
    mat(m, p, name_in(b, name, "_up", ""), RANK, W, 0, 2);
    if (inject)
        mat_of(m, &m->types[0], p, name_in(b, name, "_inject", ""), W, N_STREAM, 0, 4);
}

static void streams(model *m, const char *p, uint32_t i)
{
    uint64_t W = N_STREAM * m->E;
    char b[96];
    stream_mix(m, p, "hc_attn", true);
    stream_mix(m, p, "hc_ffn", true);
    if (i % 3 == 2) {
        mat(m, p, "indexer.q_proj", m->E, 2 * m->HD, 0, 1);
        mat(m, p, "indexer.k_proj", m->E, m->HD, 0, 1);
        norm(m, p, "indexer.q_norm", m->HD);
        norm(m, p, "indexer.k_norm", m->HD);
    }
    if (i > 0) {
        mat(m, p, "ple_key", m->E, W, 0, 1);
        mat(m, p, "ple_value", m->E, m->E, 0, 1);
        norm(m, p, "ple_norm_key", W);
        norm(m, p, "ple_norm_query", W);
        norm(m, p, "ple_norm_conv", W);
        gw_tensor(&m->w, name_in(b, p, "ple_conv1d", ".weight"), &m->types[0], 0.6f, 0,
                  (uint64_t[]){4, W, 0});
    }
}

static void streams_keys(model *m)
{
    uint32_t n_head = 2 * (N_GRAM - 1);
    int32_t block[3] = {0, 0, 4}, on[2] = {1, 2}, mult[N_GRAM] = {654435761, 40503, 65599},
            off[2 * (N_GRAM - 1)], vocab[2 * (N_GRAM - 1)];
    for (uint32_t h = 0; h < n_head; h++) {
        vocab[h] = (int32_t)(GRAM_VOCAB - h);
        off[h] = (int32_t)(GRAM_VOCAB * h);
    }
    mkey(m, "hyper_connection.count", N_STREAM);
    mkey(m, "hyper_connection.low_rank", RANK);
    mkey(m, "attention.indexer.head_count", 2);
    mkey(m, "attention.indexer.key_length", (uint32_t)m->HD);
    mkey(m, "attention.indexer.top_k", 20);
    mkey(m, "ple.ngram_size", N_GRAM);
    mkey(m, "ple.heads_per_ngram", 2);
    mkey(m, "ple.conv_kernel", 4);
    mkey(m, "ple.eos_token_id", GW_VOCAB - 3);
    mkey(m, "embedding_length_per_layer_input", (uint32_t)m->E / n_head);
    gw_i32s(&m->w, "qwen4exp.attention.compress_ratios", block, 3);
    gw_i32s(&m->w, "qwen4exp.ple.layers", on, 2);
    gw_i32s(&m->w, "qwen4exp.ple.layer_multipliers", mult, N_GRAM);
    gw_i32s(&m->w, "qwen4exp.ple.head_offsets", off, n_head);
    gw_i32s(&m->w, "qwen4exp.ple.head_vocab_sizes", vocab, n_head);
}

static void layer(model *m, uint32_t i, bool is_draft)
{
    char p[16];
    bool full = i % 2, own = !has(m, PLE) || i < m->s->n_layer / 2;
    snprintf(p, sizeof p, "blk.%u.", i);
    if (has(m, STREAMS)) {
        streams(m, p, i);
    } else {
        norm(m, p, "attn_norm", m->E);
        norm(m, p, has(m, HYBRID | LATE_NORM) ? "post_attention_norm" : "ffn_norm", m->E);
    }
    if (has(m, HYBRID) && !is_draft && (i + 1) % 3)
        delta(m, p);
    else if (has(m, LATENT))
        latent(m, p);
    else if (has(m, GEMMA4))
        attn(m, p, false, full ? 2 * m->HD : m->HD, own, !full || has(m, PLE));
    else
        attn(m, p, has(m, HYBRID), m->HD, true, true);
    if (has(m, GEMMA)) {
        norm(m, p, "post_attention_norm", m->E);
        norm(m, p, "post_ffw_norm", m->E);
    }
    if (has(m, GEMMA4))
        vec(m, p, "layer_output_scale.weight", 1, 0.1f, 0.8f);
    if (!m->NE || (has(m, LEAD) && i == 0) || has(m, GEMMA4))
        dense(m, p, "", m->FF);
    if (m->NE && !(has(m, LEAD) && i == 0))
        moe(m, p);
    if (has(m, PLE)) {
        mat(m, p, "inp_gate", m->E, P_LE, 0, 1);
        mat(m, p, "proj", P_LE, m->E, 0, 1);
        norm(m, p, "post_norm", m->E);
    }
    if (is_draft)
        draft(m, p);
}

/* ---- keys ---- */

static void yarn(model *m)
{
    char b[96];
    gw_str(&m->w, name_in(b, m->s->arch, ".", "rope.scaling.type"), "yarn");
    mkey_f(m, "rope.scaling.factor", 4);
    mkey(m, "rope.scaling.original_context_length", 64);
}

static void gemma4_keys(model *m)
{
    char b[96];
    int32_t slides[4];
    for (uint32_t i = 0; i < 4; i++)
        slides[i] = i % 2 == 0;
    gw_i32s(&m->w, name_in(b, m->s->arch, ".", "attention.sliding_window_pattern"), slides, 4);
    mkey(m, "attention.key_length_swa", (uint32_t)m->HD);
    mkey(m, "attention.value_length_swa", (uint32_t)m->HD);
    mkey(m, "attention.shared_kv_layers", has(m, PLE) ? 2 : 0);
    mkey(m, "embedding_length_per_layer_input", has(m, PLE) ? P_LE : 0);
    mkey_f(m, "rope.freq_base_swa", 5000);
    mkey_f(m, "final_logit_softcapping", 15);
}

/** What only some have. */
static void more_keys(model *m)
{
    const char *a = m->s->arch;
    char b[96];
    bool glm = !strcmp(a, "glm4moe"), latent_ = has(m, LATENT);
    if (!strcmp(a, "qwen3") || !strcmp(a, "gpt-oss") || latent_)
        yarn(m);
    if (!strcmp(a, "gpt-oss") || has(m, GEMMA))
        mkey(m, "attention.sliding_window", 40);
    if (!strcmp(a, "gemma3")) {
        mkey(m, "attention.sliding_window_pattern", 2);
        mkey_f(m, "rope.scaling.factor", 8);
    }
    if (!strcmp(a, "granitemoe")) {
        mkey_f(m, "embedding_scale", 3);
        mkey_f(m, "residual_scale", 0.8f);
        mkey_f(m, "attention.scale", 0.1f);
        mkey_f(m, "logit_scale", 2);
    }
    if (has(m, GEMMA4))
        gemma4_keys(m);
    if (glm || latent_) {
        mkey(m, "leading_dense_block_count", 1);
        mkey(m, "expert_shared_count", 1);
        mkey(m, "expert_gating_func", 2);
        gw_bool(&m->w, name_in(b, a, ".", "expert_weights_norm"), true);
        mkey_f(m, "expert_weights_scale", 1.5f);
    } else if (has(m, SHARED)) {
        mkey(m, "expert_shared_feed_forward_length", (uint32_t)m->FE);
    }
    if (latent_) {
        mkey(m, "expert_group_count", 4);
        mkey(m, "expert_group_used_count", 2);
        mkey(m, "attention.kv_lora_rank", LORA);
        mkey(m, "attention.q_lora_rank", LORA);
        mkey(m, "attention.key_length_mla", NOPE + ROT);
        mkey(m, "attention.value_length_mla", (uint32_t)m->HD);
        mkey_f(m, "rope.scaling.yarn_log_multiplier", 0.0707f);
    }
    if (has(m, STREAMS))
        streams_keys(m);
    if (has(m, HYBRID)) {
        mkey(m, "full_attention_interval", 3);
        mkey(m, "ssm.conv_kernel", 4);
        mkey(m, "ssm.state_size", (uint32_t)m->D);
        mkey(m, "ssm.group_count", (uint32_t)m->NK);
        mkey(m, "ssm.time_step_rank", (uint32_t)m->NV);
        mkey(m, "ssm.inner_size", (uint32_t)(m->NV * m->D));
    }
}

static void keys(model *m)
{
    uint32_t n = m->s->n_layer + m->s->n_draft, hd = (uint32_t)m->HD * (has(m, GEMMA4) ? 2 : 1);
    bool part = has(m, HYBRID) || !strcmp(m->s->arch, "glm4moe") || has(m, QK_ROW);
    gw_str(&m->w, "general.architecture", m->s->arch);
    gw_str(&m->w, "general.name", "random");
    mkey(m, "block_count", n);
    mkey(m, "context_length", 1024);
    mkey(m, "embedding_length", (uint32_t)m->E);
    mkey(m, "feed_forward_length", (uint32_t)m->FF);
    mkey(m, "attention.head_count", (uint32_t)m->H);
    mkey(m, "attention.head_count_kv", has(m, LATENT) ? 1 : (uint32_t)m->KV);
    mkey(m, "attention.key_length", has(m, LATENT) ? LORA + ROT : hd);
    mkey(m, "attention.value_length", has(m, LATENT) ? LORA : hd);
    mkey(m, "rope.dimension_count", has(m, LATENT) ? ROT : part ? hd / 2 : hd);
    mkey_f(m, "attention.layer_norm_rms_epsilon", 1e-6f);
    mkey_f(m, "rope.freq_base", 10000);
    if (m->NE) {
        mkey(m, "expert_count", (uint32_t)m->NE);
        mkey(m, "expert_used_count", 2);
        mkey(m, "expert_feed_forward_length", (uint32_t)m->FE);
    }
    if (m->s->n_draft)
        mkey(m, "nextn_predict_layers", m->s->n_draft);
    more_keys(m);
}

/** Factors of results, by powers of two, whose product is 1 on each way through the layer. */
static void factors(model *m, uint32_t i)
{
    char name[64];
    const struct {
        const char *of;
        float by;
        uint64_t n;
    } all[] = {{"attn_v", 2, 1},
               {"attn_output", 0.5f, 1},
               {"ffn_up_exps", 4, m->NE},
               {"ffn_down_exps", 0.25f, m->NE}};
    for (size_t k = 0; k < AQ_LEN(all); k++) {
        snprintf(name, sizeof name, "blk.%u.%s.scale", i, all[k].of);
        if (all[k].n)
            gw_tensor(&m->w, name, &m->types[0], 0, all[k].by, (const uint64_t[4]){all[k].n});
    }
    snprintf(name, sizeof name, "blk.%u.attn_q.input_scale", i);
    gw_tensor(&m->w, name, &m->types[0], 0, 3, (const uint64_t[4]){1});
}

int gw_model(const char *arch, const char *type, uint64_t seed, const char *path)
{
    char name[32];
    snprintf(name, sizeof name, "%s", arch);
    char *plus = strchr(name, '+');
    if (plus)
        *plus = 0;
    bool mix = !strcmp(type, "mix"), rest = !strcmp(type, "rest");
    model m = {.type = gw_type_find(type)};
    uint32_t n_type, n_mix;
    m.types = gw_types(&n_type, &n_mix);
    for (size_t i = 0; i < AQ_LEN(specs); i++)
        if (!strcmp(specs[i].name, name))
            m.s = &specs[i];
    if (!m.s || (!m.type && !mix && !rest))
        return -AQ_E_INVAL;
    m.first = rest ? n_mix : 0;
    m.n_types = rest ? n_type - n_mix : n_mix;
    bool wide = !m.type || m.type->block_vals > 32, hybrid = has(&m, HYBRID), tied = has(&m, TIED);
    gw_begin(&m.w, seed);
    m.E = wide ? 256 : 64; /* every row must be whole blocks */
    m.FF = wide ? 256 : 96;
    m.HD = hybrid ? 64 : 32;
    m.H = wide ? 256 / m.HD : hybrid ? 2 : 4;
    m.KV = m.H / 2;
    m.D = wide ? 64 : 32;
    m.NK = 2;
    m.NV = 4;
    if (has(&m, MOE)) {
        m.NE = wide ? 4 : 8;
        m.FE = wide ? 256 : 32;
    }
    keys(&m);
    gw_vocab(&m.w);
    mat(&m, "", "token_embd", m.E, GW_VOCAB, 0, (tied ? 0.25f : 1) * sqrtf((float)m.E));
    if (has(&m, STREAMS)) {
        uint32_t n_head = 2 * (N_GRAM - 1);
        stream_mix(&m, "", "output_hc", false);
        /* as floats: a head's part of a row may be no whole block */
        mat_of(&m, &m.types[0], "", "per_layer_token_embd", m.E / n_head, n_head * GRAM_VOCAB, 0,
               4);
    } else {
        vec(&m, "", "output_norm.weight", m.E, 0.2f, tied ? 12 / sqrtf((float)m.E) : 1);
    }
    if (has(&m, FREQS))
        vec(&m, "", "rope_freqs.weight", m.HD / (has(&m, GEMMA4) ? 1 : 2), 1, 3);
    if (!tied)
        mat(&m, "", "output", m.E, GW_VOCAB, 0, 3);
    if (has(&m, PLE)) {
        mat(&m, "", "per_layer_token_embd", P_LE * m.s->n_layer, GW_VOCAB, 0, 1);
        mat(&m, "", "per_layer_model_proj", m.E, P_LE * m.s->n_layer, 0, 1);
        norm(&m, "", "per_layer_proj_norm", P_LE);
    }
    for (uint32_t i = 0; i < m.s->n_layer + m.s->n_draft; i++)
        layer(&m, i, i >= m.s->n_layer);
    for (uint32_t i = 0; plus && i < m.s->n_layer; i++)
        factors(&m, i);
    if (plus && !tied)
        gw_tensor(&m.w, "output.scale", &m.types[0], 0, 1, (const uint64_t[4]){1});

    aq_bytes file = {0};
    int rc = gw_end(&m.w, &file);
    if (rc >= 0)
        rc = gw_save(&file, path);
    aq_bytes_clear(&file);
    return rc;
}
