/* SPDX-License-Identifier: Apache-2.0 */
/* From key-values to per-layer descriptors: the table of architectures and what their files share. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "arch-priv.h"

const aq_arch *const aq_archs[] = {&aq_arch_llama, &aq_arch_qwen3moe, &aq_arch_qwen35, NULL};

#define KEY_BYTES 128
static const char *arch_key(const aq_model *m, const char *name, char buf[KEY_BYTES])
{
    snprintf(buf, KEY_BYTES, "%s.%s", m->info.arch, name);
    return buf;
}

static const char *file_of(const aq_model *m)
{
    return m->gguf->shard[0].file;
}

int aq_arch_u32(const aq_model *m, const char *name, uint32_t *ret, aq_err *err)
{
    char key[KEY_BYTES];
    return aq_gguf_u32(m->gguf, arch_key(m, name, key), ret, err);
}

int aq_arch_f32(const aq_model *m, const char *name, float *ret, aq_err *err)
{
    char key[KEY_BYTES];
    return aq_gguf_f32(m->gguf, arch_key(m, name, key), ret, err);
}

static int in_range(const aq_model *m, const char *name, uint32_t lo, uint32_t hi, uint32_t v,
                    aq_err *err)
{
    if (v < lo || v > hi)
        return aq_fail(
            err, AQ_E_FORMAT,
            "%s: '%s.%s' is %u, possible is %u to %u; the file is damaged or was converted wrongly",
            file_of(m), m->info.arch, name, v, lo, hi);
    return 0;
}

int aq_arch_need_u32(const aq_model *m, const char *name, uint32_t lo, uint32_t hi, uint32_t *ret,
                     aq_err *err)
{
    uint32_t v;
    int rc = aq_arch_u32(m, name, &v, err);
    if (!rc)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s has no key '%s.%s', which every %s model needs; the file is damaged or "
                       "was converted wrongly",
                       file_of(m), m->info.arch, name, m->info.arch);
    if (rc < 0 || (rc = in_range(m, name, lo, hi, v, err)) < 0)
        return rc;
    *ret = v;
    return 0;
}

/** An optional number with a default, held to a range. */
static int opt_u32(const aq_model *m, const char *name, uint32_t dflt, uint32_t lo, uint32_t hi,
                   uint32_t *ret, aq_err *err)
{
    uint32_t v = dflt;
    int rc = aq_arch_u32(m, name, &v, err);
    if (rc < 0 || (rc = in_range(m, name, lo, hi, v, err)) < 0)
        return rc;
    *ret = v;
    return 0;
}

int aq_bind(const aq_model *m, const char *name, bool required, uint64_t ne0, uint64_t ne1,
            uint64_t ne2, int32_t *ret, aq_err *err)
{
    int32_t i = aq_gguf_tensor(m->gguf, name, strlen(name));
    if (i < 0) {
        if (required)
            return aq_fail(err, AQ_E_FORMAT,
                           "%s lacks the tensor '%s', which a %s model of this shape needs; the "
                           "file is incomplete or was converted wrongly",
                           file_of(m), name, m->info.arch);
        *ret = -1;
        return 0;
    }
    const aq_tensor *t = &m->tensor[i];
    uint64_t want[4] = {ne0, ne1, ne2, 1};
    for (int d = 0; d < 4; d++)
        if (want[d] && t->ne[d] != want[d])
            return aq_fail(err, AQ_E_FORMAT,
                           "%s: tensor '%s' has the shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64
                           ", %" PRIu64 "], the model's keys ask for [%" PRIu64 ", %" PRIu64
                           ", %" PRIu64 ", 1]%s; the file was converted wrongly",
                           m->gguf->shard[t->shard].file, name, t->ne[0], t->ne[1], t->ne[2],
                           t->ne[3], ne0, ne1, ne2, ne0 && ne1 && ne2 ? "" : " (0 = any)");
    *ret = i;
    return 1;
}

int aq_bind_layer(aq_model *m, uint32_t layer, uint32_t w, const char *name, bool required,
                  uint64_t ne0, uint64_t ne1, uint64_t ne2, aq_err *err)
{
    char full[KEY_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return aq_bind(m, full, required, ne0, ne1, ne2, &m->layer[layer].w[w], err);
}

/** A scaling of rope that the descriptors cannot say is refused, not ignored. */
static int check_rope_scaling(const aq_model *m, aq_err *err)
{
    char key[KEY_BYTES], show[AQ_SHOW_BYTES];
    aq_str type;
    int rc = aq_gguf_str(m->gguf, arch_key(m, "rope.scaling.type", key), &type, err);
    if (rc <= 0 || (type.n == 4 && !memcmp(type.p, "none", 4)))
        return rc;
    float factor = 1;
    if ((rc = aq_arch_f32(m, "rope.scaling.factor", &factor, err)) < 0 || factor == 1)
        return rc;
    return aq_fail(err, AQ_E_UNSUPPORTED,
                   "%s stretches its context by rope scaling '%s', which this version does not do "
                   "for %s models",
                   file_of(m), aq_str_show(type, show), m->info.arch);
}

int aq_fill_start(aq_model *m, aq_hp *hp, aq_err *err)
{
    aq_model_info *in = &m->info;
    uint32_t n_draft = 0;
    int rc;
    char key[KEY_BYTES];
    memset(hp, 0, sizeof *hp);
    if ((rc = aq_arch_need_u32(m, "block_count", 1, AQ_LAYERS_MAX, &hp->n_all, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "embedding_length", 1, AQ_EMBD_MAX, &hp->n_embd, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "context_length", 1, AQ_CTX_MAX, &in->n_ctx_train, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "attention.head_count", 1, AQ_HEADS_MAX, &hp->n_head, err)) < 0 ||
        (rc = opt_u32(m, "nextn_predict_layers", 0, 0, hp->n_all - 1, &n_draft, err)) < 0 ||
        (rc = opt_u32(m, "feed_forward_length", 0, 0, AQ_FF_MAX, &hp->n_ff, err)) < 0 ||
        (rc = opt_u32(m, "attention.key_length", hp->n_embd / hp->n_head, 1, AQ_HEAD_DIM_MAX,
                      &hp->d_k, err)) < 0 ||
        (rc = opt_u32(m, "attention.value_length", hp->n_embd / hp->n_head, 1, AQ_HEAD_DIM_MAX,
                      &hp->d_v, err)) < 0 ||
        (rc = opt_u32(m, "rope.dimension_count", hp->d_k, 2, hp->d_k, &hp->n_rot, err)) < 0)
        return rc;
    if (hp->n_rot % 2)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.rope.dimension_count' is %u, which is odd; the file is damaged",
                       file_of(m), in->arch, hp->n_rot);
    for (uint32_t i = 0; i < hp->n_all; i++)
        hp->n_kv[i] = hp->n_head;
    if ((rc = aq_gguf_u32s(m->gguf, arch_key(m, "attention.head_count_kv", key), hp->n_kv,
                           hp->n_all, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp->n_all; i++)
        if (!hp->n_kv[i] || hp->n_head % hp->n_kv[i])
            return aq_fail(err, AQ_E_FORMAT,
                           "%s: layer %u has %u key-value heads for %u heads, which cannot be "
                           "shared out; the file is damaged or was converted wrongly",
                           file_of(m), i, hp->n_kv[i], hp->n_head);
    hp->rope_base = 10000;
    m->eps = -1;
    if ((rc = aq_arch_f32(m, "rope.freq_base", &hp->rope_base, err)) < 0 ||
        (rc = aq_arch_f32(m, "attention.layer_norm_rms_epsilon", &m->eps, err)) < 0 ||
        (rc = check_rope_scaling(m, err)) < 0)
        return rc;
    if (!(m->eps >= 0 && m->eps < 1) || !(hp->rope_base > 0))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.attention.layer_norm_rms_epsilon' or '.rope.freq_base' is missing "
                       "or out of range; the file is damaged or was converted wrongly",
                       file_of(m), in->arch);

    in->n_draft = n_draft;
    in->n_layer = hp->n_all - n_draft;
    in->n_embd = in->row_f32 = hp->n_embd;
    in->n_head = hp->n_head;
    in->n_head_kv = hp->n_kv[0];
    m->layer = aq_arena_alloc(m->arena, hp->n_all * sizeof *m->layer);
    if (!m->layer)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for %u layers", file_of(m), hp->n_all);
    for (uint32_t i = 0; i < hp->n_all; i++) {
        m->layer[i].cut_ok = 1;
        for (uint32_t w = 0; w < AQ_W_N; w++)
            m->layer[i].w[w] = -1;
    }
    if ((rc = aq_bind(m, "token_embd.weight", true, hp->n_embd, 0, 1, &m->w_embd, err)) < 0)
        return rc;
    uint64_t n_vocab = m->tensor[m->w_embd].ne[1];
    if (n_vocab > INT32_MAX)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: 'token_embd.weight' has %" PRIu64
                       " rows, more than there can be tokens; the file is damaged",
                       file_of(m), n_vocab);
    in->n_vocab = (uint32_t)n_vocab;
    if ((rc = aq_bind(m, "output_norm.weight", true, hp->n_embd, 1, 1, &m->w_out_norm, err)) < 0 ||
        (rc = aq_bind(m, "output.weight", false, hp->n_embd, n_vocab, 1, &m->w_out, err)) < 0 ||
        (rc = aq_bind(m, "rope_freqs.weight", false, hp->n_rot / 2, 1, 1, &m->w_rope_freqs, err)) <
            0)
        return rc;
    if (m->w_out < 0)
        m->w_out = m->w_embd;
    return 0;
}

int aq_fill_attn(aq_model *m, const aq_hp *hp, uint32_t i, uint8_t rope, uint32_t flags,
                 aq_err *err)
{
    aq_layer *l = &m->layer[i];
    bool qk = flags & AQ_FILL_QK_NORM;
    uint64_t E = hp->n_embd, nq = (uint64_t)hp->n_head * hp->d_k,
             nk = (uint64_t)hp->n_kv[i] * hp->d_k, nv = (uint64_t)hp->n_kv[i] * hp->d_v;
    l->mixer = AQ_MIX_ATTN;
    l->n_head = hp->n_head;
    l->n_kv = hp->n_kv[i];
    l->d_k = hp->d_k;
    l->d_v = hp->d_v;
    l->rope = rope;
    l->gated = (flags & AQ_FILL_GATED) != 0;
    l->n_rot = hp->n_rot;
    l->rope_base = hp->rope_base;
    l->score_scale = 1.0f / sqrtf((float)hp->d_k);
    if (l->gated && hp->d_k != hp->d_v)
        return aq_fail(
            err, AQ_E_UNSUPPORTED,
            "%s: gated attention with keys of %u and values of %u is not done by this version",
            file_of(m), hp->d_k, hp->d_v);
    int rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_ATTN_NORM, "attn_norm.weight", true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_Q, "attn_q.weight", true, E, l->gated ? 2 * nq : nq, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_K, "attn_k.weight", true, E, nk, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_V, "attn_v.weight", true, E, nv, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_O, "attn_output.weight", true,
                            (uint64_t)hp->n_head * hp->d_v, E, 1, err)) < 0)
        return rc;
    if (qk &&
        ((rc = aq_bind_layer(m, i, AQ_W_Q_NORM, "attn_q_norm.weight", true, hp->d_k, 1, 1, err)) <
             0 ||
         (rc = aq_bind_layer(m, i, AQ_W_K_NORM, "attn_k_norm.weight", true, hp->d_k, 1, 1, err)) <
             0))
        return rc;
    return 0;
}

int aq_fill_dense(aq_model *m, const aq_hp *hp, uint32_t i, const char *norm, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    int rc;
    if ((rc = in_range(m, "feed_forward_length", 1, AQ_FF_MAX, hp->n_ff, err)) < 0)
        return rc;
    l->ffn = AQ_FFN_DENSE;
    l->n_ff = hp->n_ff;
    if ((rc = aq_bind_layer(m, i, AQ_W_FFN_NORM, norm, true, hp->n_embd, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_GATE, "ffn_gate.weight", true, hp->n_embd, hp->n_ff, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_UP, "ffn_up.weight", true, hp->n_embd, hp->n_ff, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_DOWN, "ffn_down.weight", true, hp->n_ff, hp->n_embd, 1,
                            err)) < 0)
        return rc;
    return 0;
}

int aq_fill_moe_keys(const aq_model *m, aq_hp *hp, aq_err *err)
{
    int rc;
    if ((rc = aq_arch_need_u32(m, "expert_count", 1, AQ_EXPERTS_MAX, &hp->n_exp, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "expert_used_count", 1, hp->n_exp, &hp->n_used, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "expert_feed_forward_length", 1, AQ_FF_MAX, &hp->n_ff_exp, err)) <
            0)
        return rc;
    return 0;
}

int aq_fill_moe(aq_model *m, const aq_hp *hp, uint32_t i, const char *norm, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, F = hp->n_ff_exp, N = hp->n_exp;
    uint32_t gate = AQ_GATE_SOFTMAX;
    int rc;
    l->ffn = AQ_FFN_MOE;
    l->n_exp = hp->n_exp;
    l->n_used = hp->n_used;
    l->n_ff_exp = hp->n_ff_exp;
    l->exp_renorm = 1;
    l->exp_scale = 1;
    if ((rc = opt_u32(m, "expert_gating_func", AQ_GATE_SOFTMAX, AQ_GATE_SOFTMAX, AQ_GATE_SOFTMAX,
                      &gate, err)) < 0 ||
        (rc = aq_arch_f32(m, "expert_weights_scale", &l->exp_scale, err)) < 0)
        return rc;
    if (l->exp_scale == 0) /* converters write 0 for "no scale" */
        l->exp_scale = 1;
    l->exp_gate = (uint8_t)gate;
    if ((rc = aq_bind_layer(m, i, AQ_W_FFN_NORM, norm, true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_ROUTER, "ffn_gate_inp.weight", true, E, N, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_GATE, "ffn_gate_exps.weight", true, E, F, N, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_UP, "ffn_up_exps.weight", true, E, F, N, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_DOWN, "ffn_down_exps.weight", true, F, E, N, err)) < 0)
        return rc;
    return 0;
}
