/* SPDX-License-Identifier: Apache-2.0 */
/* qwen35: three layers of gated delta net, then one of gated attention (or as attention.recurrent_layers says); dense SwiGLU behind
 * post_attention_norm; qwen35moe: a softmax router, renormalised, and a shared expert behind a gate; qwen3next: the
 * same with beta and alpha in one tensor and neighbouring v heads sharing a k head. The attention's q rows hold per head [q | gate]. Its rope is interleaved over sections, which for text (all
 * position components equal) is NEOX over the first n_rot values. The draft (MTP) layers are last: eh_proj over
 * [norm(embedding) ; norm(hidden)], then an attention layer like the others. */
#include <stdio.h>

#include "arch-priv.h"

#define STATE_MAX 1024u /* values of a delta state's side */
#define CONV_MAX 16u

int aq_get_delta(const aq_model *m, aq_hp_delta *d, aq_err *err)
{
    uint32_t inner;
    int rc;
    if ((rc = aq_arch_need_u32(m, "ssm.state_size", 1, STATE_MAX, &d->d, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ssm.group_count", 1, AQ_HEADS_MAX, &d->n_kh, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ssm.time_step_rank", 1, AQ_HEADS_MAX, &d->n_vh, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ssm.conv_kernel", 2, CONV_MAX, &d->conv_k, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ssm.inner_size", 1, UINT32_MAX, &inner, err)) < 0)
        return rc;
    if (inner != d->n_vh * d->d || d->n_vh % d->n_kh)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.ssm.inner_size' %u must be %u heads of %u, and the heads a "
                       "multiple of %u groups; the file was converted wrongly",
                       m->gguf->shard[0].file, m->info.arch, inner, d->n_vh, d->d, d->n_kh);
    return 0;
}

int aq_fill_delta(aq_model *m, const aq_hp *hp, const aq_hp_delta *d, uint32_t i, bool norm,
                  aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, nv = (uint64_t)d->n_vh * d->d, ch = 2 * (uint64_t)d->n_kh * d->d + nv;
    l->mixer = AQ_MIX_DELTA;
    l->n_kh = d->n_kh;
    l->n_vh = d->n_vh;
    l->d_state = d->d;
    l->conv_k = d->conv_k;
    bool next = !strcmp(m->info.arch, "qwen3next");
    l->kh_grouped = next;
    int rc;
    if (next)
        rc = aq_bind_layer(m, i, AQ_W_BA, "ssm_ba.weight", true, E, 2 * d->n_vh, 1, err);
    else if ((rc = aq_bind_layer(m, i, AQ_W_ALPHA, "ssm_alpha.weight", true, E, d->n_vh, 1, err)) >=
             0)
        rc = aq_bind_layer(m, i, AQ_W_BETA, "ssm_beta.weight", true, E, d->n_vh, 1, err);
    if (rc < 0)
        return rc;
    if ((norm &&
         (rc = aq_bind_layer(m, i, AQ_W_ATTN_NORM, "attn_norm.weight", true, E, 1, 1, err)) < 0) ||
        (rc = aq_bind_layer(m, i, AQ_W_QKV, "attn_qkv.weight", true, E, ch, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_GATE_Z, "attn_gate.weight", true, E, nv, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_CONV, "ssm_conv1d.weight", true, d->conv_k, ch, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_DT_BIAS, "ssm_dt.bias", true, d->n_vh, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_A, "ssm_a", true, d->n_vh, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_SSM_NORM, "ssm_norm.weight", true, d->d, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_SSM_OUT, "ssm_out.weight", true, nv, E, 1, err)) < 0)
        return rc;
    return 0;
}

int aq_get_recurrent(const aq_model *m, const aq_hp *hp, uint32_t *ret, aq_err *err)
{
    uint32_t interval = 4;
    char key[128];
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", m->info.arch);
    int rc = aq_gguf_u32s(m->gguf, key, ret, hp->n_all, err);
    if (rc)
        return rc;
    if ((rc = aq_arch_u32(m, "full_attention_interval", &interval, err)) < 0)
        return rc;
    if (!interval)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.full_attention_interval' is 0; the file is damaged",
                       m->gguf->shard[0].file, m->info.arch);
    for (uint32_t i = 0; i < hp->n_all; i++)
        ret[i] = (i + 1) % interval != 0;
    return 0;
}

int aq_get_sections(const aq_model *m, aq_hp *hp, aq_err *err)
{
    char key[128];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", m->info.arch);
    int rc = aq_gguf_u32s(m->gguf, key, hp->sect, 4, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < 4; i++)
        if (hp->sect[i] > AQ_HEAD_DIM_MAX)
            return aq_fail(err, AQ_E_FORMAT, "%s: '%s' has a section of %u; the file is damaged",
                           m->gguf->shard[0].file, key, hp->sect[i]);
    return 0;
}

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    aq_hp_delta d;
    uint32_t recurrent[AQ_LAYERS_MAX];
    bool moe = strcmp(m->info.arch, "qwen35") != 0;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_get_delta(m, &d, err)) < 0 ||
        (rc = aq_get_recurrent(m, &hp, recurrent, err)) < 0 ||
        (rc = aq_get_sections(m, &hp, err)) < 0 ||
        (moe && (rc = aq_fill_moe_keys(m, &hp, err)) < 0))
        return rc;
    for (uint32_t i = 0; i < hp.n_all; i++) {
        static const char norm[] = "post_attention_norm.weight";
        bool draft = i >= m->info.n_layer;
        if (recurrent[i] && !draft)
            rc = aq_fill_delta(m, &hp, &d, i, true, err);
        else
            rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_QK_NORM | AQ_FILL_GATED, err);
        if (rc >= 0)
            rc = moe ? aq_fill_moe(m, &hp, i, norm, err) : aq_fill_dense(m, &hp, i, norm, err);
        if (rc < 0 || (draft && (rc = aq_fill_draft(m, &hp, i, err)) < 0))
            return rc;
    }
    return 0;
}

const aq_arch aq_arch_qwen35 = {"qwen35", fill};
const aq_arch aq_arch_qwen35moe = {"qwen35moe", fill};
const aq_arch aq_arch_qwen3next = {"qwen3next", fill};
