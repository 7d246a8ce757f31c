/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that many architectures have in the same form: attention, dense and routed ffn, what a draft layer adds. */
#include <math.h>
#include <stdio.h>

#include "arch-priv.h"

static const char *file_of(const aq_model *m)
{
    return m->gguf->shard[0].file;
}

/** Rows [row0, row0 + rows) of a tensor of `all` rows into role w; a vector (ne0 0): values of ne0 = all. */
static int bind_part(aq_model *m, uint32_t layer, uint32_t w, const char *name, uint64_t ne0,
                     uint64_t all, uint64_t ne2, uint64_t row0, uint64_t rows, aq_err *err)
{
    aq_layer *l = &m->layer[layer];
    l->row0[w] = (uint32_t)row0;
    l->rows[w] = (uint32_t)rows;
    return ne0 ? aq_bind_layer(m, layer, w, name, true, ne0, all, ne2, err)
               : aq_bind_layer(m, layer, w, name, true, all, 1, 1, err);
}

/* ---- attention ---- */

/** q, k, v in one tensor, and their biases if there are some. */
static int bind_fused_qkv(aq_model *m, uint32_t i, uint64_t E, uint64_t nq, uint64_t nk,
                          uint64_t nv, bool bias, aq_err *err)
{
    const uint32_t w[] = {AQ_W_Q, AQ_W_K, AQ_W_V}, b[] = {AQ_W_Q_BIAS, AQ_W_K_BIAS, AQ_W_V_BIAS};
    const uint64_t n[] = {nq, nk, nv};
    uint64_t at = 0, all = nq + nk + nv;
    int rc;
    bias = bias || aq_has_layer(m, i, "attn_qkv.bias");
    for (int j = 0; j < 3; at += n[j++]) {
        rc = bind_part(m, i, w[j], "attn_qkv.weight", E, all, 1, at, n[j], err);
        if (rc >= 0 && bias)
            rc = bind_part(m, i, b[j], "attn_qkv.bias", 0, all, 1, at, n[j], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int bind_qkv(aq_model *m, uint32_t i, uint64_t E, uint64_t nq, uint64_t nk, uint64_t nv,
                    uint32_t flags, aq_err *err)
{
    bool kv = !(flags & AQ_FILL_NO_KV), bias = flags & AQ_FILL_BIAS;
    int rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_Q, "attn_q.weight", true, E, nq, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_Q_BIAS, "attn_q.bias", bias, nq, 1, 1, err)) < 0)
        return rc;
    if (kv && ((rc = aq_bind_layer(m, i, AQ_W_K, "attn_k.weight", true, E, nk, 1, err)) < 0 ||
               (rc = aq_bind_layer(m, i, AQ_W_K_BIAS, "attn_k.bias", bias, nk, 1, 1, err)) < 0 ||
               (rc = aq_bind_layer(m, i, AQ_W_V, "attn_v.weight", !(flags & AQ_FILL_V_IS_K), E, nv,
                                   1, err)) < 0 ||
               (rc = aq_bind_layer(m, i, AQ_W_V_BIAS, "attn_v.bias", bias, nv, 1, 1, err)) < 0))
        return rc;
    return 0;
}

int aq_fill_attn(aq_model *m, const aq_hp *hp, uint32_t i, uint8_t rope, uint32_t flags,
                 aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, nq = (uint64_t)hp->n_head * hp->d_k,
             nk = (uint64_t)hp->n_kv[i] * hp->d_k, nv = (uint64_t)hp->n_kv[i] * hp->d_v;
    bool gated = flags & AQ_FILL_GATED, kv = !(flags & AQ_FILL_NO_KV), row = flags & AQ_FILL_QK_ROW;
    l->mixer = AQ_MIX_ATTN;
    l->n_head = hp->n_head;
    l->n_kv = hp->n_kv[i];
    l->d_k = hp->d_k;
    l->d_v = hp->d_v;
    l->rope = rope;
    l->gated = gated;
    l->n_rot = hp->n_rot;
    l->rope_base = hp->rope_base;
    memcpy(l->sect, hp->sect, sizeof l->sect);
    l->scale = hp->scale;
    l->score_scale = hp->score_scale != 0 ? hp->score_scale : 1.0f / sqrtf((float)hp->d_k);
    if ((gated || (flags & AQ_FILL_V_IS_K)) && hp->d_k != hp->d_v)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s: this kind of attention with keys of %u and values of %u is not done "
                       "by this version",
                       file_of(m), hp->d_k, hp->d_v);
    if (hp->window && hp->window < m->info.n_ctx_train && !(flags & AQ_FILL_WINDOW))
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s: '%s.attention.sliding_window' is %u, and this version does not slide "
                       "the attention of %s models",
                       file_of(m), m->info.arch, hp->window, m->info.arch);
    int rc;
    if ((!(flags & AQ_FILL_NO_NORM) &&
         (rc = aq_bind_layer(m, i, AQ_W_ATTN_NORM, "attn_norm.weight", true, E, 1, 1, err)) < 0) ||
        (rc = aq_bind_layer(m, i, AQ_W_O, "attn_output.weight", true,
                            (uint64_t)hp->n_head * hp->d_v, E, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_O_BIAS, "attn_output.bias", false, E, 1, 1, err)) < 0)
        return rc;
    if (kv && !aq_has_layer(m, i, "attn_q.weight") && aq_has_layer(m, i, "attn_qkv.weight"))
        rc = bind_fused_qkv(m, i, E, gated ? 2 * nq : nq, nk, nv, flags & AQ_FILL_BIAS, err);
    else
        rc = bind_qkv(m, i, E, gated ? 2 * nq : nq, nk, nv, flags, err);
    if (rc < 0 || !(flags & (AQ_FILL_QK_NORM | AQ_FILL_QK_ROW)))
        return rc < 0 ? rc : 0;
    if ((rc = aq_bind_layer(m, i, AQ_W_Q_NORM, "attn_q_norm.weight", true, row ? nq : hp->d_k, 1, 1,
                            err)) < 0 ||
        (kv && (rc = aq_bind_layer(m, i, AQ_W_K_NORM, "attn_k_norm.weight", true,
                                   row ? nk : hp->d_k, 1, 1, err)) < 0))
        return rc;
    return 0;
}

/* ---- ffn ---- */

int aq_fill_dense(aq_model *m, const aq_hp *hp, uint32_t i, const char *norm, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, F = hp->n_ff[i];
    int rc;
    if (!F || F > AQ_FF_MAX)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.feed_forward_length' is %u for layer %u, possible is 1 to %u; the "
                       "file is damaged or was converted wrongly",
                       file_of(m), m->info.arch, hp->n_ff[i], i, AQ_FF_MAX);
    l->ffn = AQ_FFN_DENSE;
    l->act = hp->act;
    l->n_ff = hp->n_ff[i];
    if ((rc = aq_bind_layer(m, i, AQ_W_FFN_NORM, norm, true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_GATE, "ffn_gate.weight", true, E, F, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_UP, "ffn_up.weight", true, E, F, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_FFN_DOWN, "ffn_down.weight", true, F, E, 1, err)) < 0)
        return rc;
    return 0;
}

int aq_fill_moe_keys(aq_model *m, aq_hp *hp, aq_err *err)
{
    uint32_t n_shared = 0;
    int rc;
    hp->n_ff_exp = hp->n_ff[0]; /* where experts have no width of their own */
    if ((rc = aq_arch_need_u32(m, "expert_count", 1, AQ_EXPERTS_MAX, &hp->n_exp, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "expert_used_count", 1, hp->n_exp, &hp->n_used, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_feed_forward_length", &hp->n_ff_exp, err)) < 0 ||
        (rc = aq_arch_u32(m, "leading_dense_block_count", &hp->n_dense, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_shared_count", &n_shared, err)) < 0)
        return rc;
    if (!hp->n_ff_exp || hp->n_ff_exp > AQ_FF_MAX || (uint64_t)n_shared * hp->n_ff_exp > AQ_FF_MAX)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.expert_feed_forward_length' is %u or '.expert_shared_count' %u, "
                       "which is out of range; the file is damaged or was converted wrongly",
                       file_of(m), m->info.arch, hp->n_ff_exp, n_shared);
    hp->n_ff_sh = n_shared * hp->n_ff_exp;
    if ((rc = aq_arch_u32(m, "expert_shared_feed_forward_length", &hp->n_ff_sh, err)) < 0)
        return rc;
    m->info.n_expert = hp->n_exp;
    m->info.n_expert_used = hp->n_used;
    return 0;
}

/** How experts are chosen and weighted. */
static int fill_router(aq_model *m, const aq_hp *hp, aq_layer *l, aq_err *err)
{
    uint32_t gate = hp->exp_gate, n_group = 0, n_used = 0;
    bool renorm = hp->exp_renorm;
    char key[128];
    int rc;
    l->n_exp = hp->n_exp;
    l->n_used = hp->n_used;
    l->exp_scale = 1;
    snprintf(key, sizeof key, "%s.expert_weights_norm", m->info.arch);
    if ((rc = aq_arch_u32(m, "expert_gating_func", &gate, err)) < 0 ||
        (rc = aq_gguf_bool(m->gguf, key, &renorm, err)) < 0 ||
        (rc = aq_arch_f32(m, "expert_weights_scale", &l->exp_scale, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_group_count", &n_group, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_group_used_count", &n_used, err)) < 0)
        return rc;
    if (gate == 0) /* converters write 0 for "as the architecture has it" */
        gate = hp->exp_gate;
    if (gate > AQ_GATE_CHOSEN)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s: '%s.expert_gating_func' is %u, which this version does not know",
                       file_of(m), m->info.arch, gate);
    if (n_group > 1 && (n_group > AQ_GROUPS_MAX || hp->n_exp % n_group || !n_used ||
                        n_used > n_group || hp->n_exp / n_group * n_used < hp->n_used))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: %u of %u experts cannot be chosen from %u of %u groups; the file is "
                       "damaged or was converted wrongly",
                       file_of(m), hp->n_used, hp->n_exp, n_used, n_group);
    if (n_group > 1) {
        l->n_group = n_group;
        l->n_group_used = n_used;
    }
    if (l->exp_scale == 0) /* converters write 0 for "no scale" */
        l->exp_scale = 1;
    l->exp_gate = (uint8_t)gate;
    l->exp_renorm = renorm;
    return 0;
}

static int bind_experts(aq_model *m, uint32_t i, uint64_t E, uint64_t F, uint64_t N, aq_err *err)
{
    int rc;
    if (aq_has_layer(m, i, "ffn_gate_up_exps.weight")) {
        static const char name[] = "ffn_gate_up_exps.weight";
        if ((rc = bind_part(m, i, AQ_W_EXP_GATE, name, E, 2 * F, N, 0, F, err)) < 0 ||
            (rc = bind_part(m, i, AQ_W_EXP_UP, name, E, 2 * F, N, F, F, err)) < 0)
            return rc;
    } else if ((rc = aq_bind_layer(m, i, AQ_W_EXP_GATE, "ffn_gate_exps.weight", true, E, F, N,
                                   err)) < 0 ||
               (rc = aq_bind_layer(m, i, AQ_W_EXP_UP, "ffn_up_exps.weight", true, E, F, N, err)) <
                   0) {
        return rc;
    }
    if ((rc = aq_bind_layer(m, i, AQ_W_EXP_DOWN, "ffn_down_exps.weight", true, F, E, N, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_GATE_BIAS, "ffn_gate_exps.bias", false, F, N, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_UP_BIAS, "ffn_up_exps.bias", false, F, N, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_DOWN_BIAS, "ffn_down_exps.bias", false, E, N, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_SCALE, "ffn_down_exps.scale", false, N, 1, 1, err)) < 0)
        return rc;
    return 0;
}

int aq_fill_moe(aq_model *m, const aq_hp *hp, uint32_t i, const char *norm, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, N = hp->n_exp, S = hp->n_ff_sh;
    int rc;
    l->ffn = AQ_FFN_MOE;
    l->act = hp->act;
    l->n_ff_exp = hp->n_ff_exp;
    l->n_ff_sh = hp->n_ff_sh;
    if ((rc = fill_router(m, hp, l, err)) < 0)
        return rc;
    if (norm && (rc = aq_bind_layer(m, i, AQ_W_FFN_NORM, norm, true, E, 1, 1, err)) < 0)
        return rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_ROUTER, "ffn_gate_inp.weight", true, E, N, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_ROUTER_BIAS, "ffn_gate_inp.bias", false, N, 1, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_SELECT_BIAS, "exp_probs_b.bias", false, N, 1, 1, err)) < 0 ||
        (rc = bind_experts(m, i, E, hp->n_ff_exp, N, err)) < 0)
        return rc;
    if (S &&
        ((rc = aq_bind_layer(m, i, AQ_W_SH_GATE, "ffn_gate_shexp.weight", true, E, S, 1, err)) <
             0 ||
         (rc = aq_bind_layer(m, i, AQ_W_SH_UP, "ffn_up_shexp.weight", true, E, S, 1, err)) < 0 ||
         (rc = aq_bind_layer(m, i, AQ_W_SH_DOWN, "ffn_down_shexp.weight", true, S, E, 1, err)) <
             0 ||
         (rc = aq_bind_layer(m, i, AQ_W_SH_ROUTER, "ffn_gate_inp_shexp.weight", false, E, 1, 1,
                             err)) < 0))
        return rc;
    return 0;
}

/* ---- draft ---- */

int aq_fill_draft(aq_model *m, const aq_hp *hp, uint32_t i, aq_err *err)
{
    uint64_t E = hp->n_embd, V = m->info.n_vocab;
    int rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_EH_PROJ, "nextn.eh_proj.weight", true, 2 * E, E, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_E_NORM, "nextn.enorm.weight", true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_H_NORM, "nextn.hnorm.weight", true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_SH_HEAD_NORM, "nextn.shared_head_norm.weight", true, E, 1, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_DRAFT_EMBD, "nextn.embed_tokens.weight", false, E, V, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_DRAFT_HEAD, "nextn.shared_head_head.weight", false, E, V, 1,
                            err)) < 0)
        return rc;
    return 0;
}
