/* SPDX-License-Identifier: Apache-2.0 */
/* gemma4: as gemma3, with scores not scaled, v divided by its RMS, heads of another width on sliding layers, factors of rope on full
 * ones, tail layers that read the KV of earlier ones, a factor for each layer's output. Some have per-layer embeddings; some a dense
 * and a sparse branch side by side, without v (v = k) on full layers. */
#include <math.h>

#include "arch-priv.h"

static int fill_ple(aq_model *m, const aq_hp *hp, aq_err *err)
{
    uint64_t E = hp->n_embd, P, all;
    int rc;
    if ((rc = aq_arch_u32(m, "embedding_length_per_layer_input", &m->n_ple, err)) < 0 || !m->n_ple)
        return rc;
    P = m->n_ple;
    all = P * m->info.n_layer;
    if (P > AQ_EMBD_MAX || all > UINT32_MAX)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.embedding_length_per_layer_input' is %u; the file is damaged",
                       m->gguf->shard[0].file, m->info.arch, m->n_ple);
    if ((rc = aq_bind(m, "per_layer_token_embd.weight", true, all, m->info.n_vocab, 1,
                      &m->w_ple_embd, err)) < 0 ||
        (rc = aq_bind(m, "per_layer_model_proj.weight", true, E, all, 1, &m->w_ple_proj, err)) <
            0 ||
        (rc = aq_bind(m, "per_layer_proj_norm.weight", true, P, 1, 1, &m->w_ple_norm, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp->n_all; i++)
        if ((rc = aq_bind_layer(m, i, AQ_W_PLE_GATE, "inp_gate.weight", true, E, P, 1, err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_PLE_PROJ, "proj.weight", true, P, E, 1, err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_PLE_NORM, "post_norm.weight", true, E, 1, 1, err)) < 0)
            return rc;
    return 0;
}

/** The sparse branch beside the dense one. */
static int fill_both(aq_model *m, const aq_hp *hp, uint32_t i, aq_err *err)
{
    uint64_t E = hp->n_embd;
    int rc;
    if ((rc = aq_fill_moe(m, hp, i, NULL, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_ROUTER_NORM, "ffn_gate_inp.scale", true, E, 1, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_NORM, "pre_ffw_norm_2.weight", true, E, 1, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_DENSE_POST_NORM, "post_ffw_norm_1.weight", true, E, 1, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_EXP_POST_NORM, "post_ffw_norm_2.weight", true, E, 1, 1,
                            err)) < 0)
        return rc;
    m->layer[i].ffn = AQ_FFN_BOTH;
    return 0;
}

/** What sliding layers have instead of the full ones' values. */
static int get_slide(const aq_model *m, const aq_hp *hp, aq_hp *ret, aq_err *err)
{
    int rc;
    *ret = *hp;
    ret->scale = (aq_rope_scale){.factor = 1, .mag = 1};
    ret->rope_base = 10000;
    if ((rc = aq_arch_need_u32(m, "attention.key_length_swa", 1, AQ_HEAD_DIM_MAX, &ret->d_k, err)) <
            0 ||
        (rc = aq_arch_need_u32(m, "attention.value_length_swa", 1, AQ_HEAD_DIM_MAX, &ret->d_v,
                               err)) < 0 ||
        (rc = aq_arch_f32(m, "rope.freq_base_swa", &ret->rope_base, err)) < 0)
        return rc;
    ret->n_rot = ret->d_k;
    if ((rc = aq_arch_u32(m, "rope.dimension_count_swa", &ret->n_rot, err)) < 0)
        return rc;
    if (!ret->n_rot || ret->n_rot % 2 || ret->n_rot > ret->d_k || !(ret->rope_base > 0) ||
        !ret->window)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: the keys of %s's sliding layers are out of range; the file is damaged "
                       "or was converted wrongly",
                       m->gguf->shard[0].file, m->info.arch);
    return 0;
}

/** The last layer of this kind that keeps its own KV; n_own when there is none. */
static uint32_t kv_of(const uint32_t *slides, uint32_t n_own, uint32_t kind)
{
    for (uint32_t i = n_own; i-- > 0;)
        if (slides[i] == kind)
            return i;
    return n_own;
}

static int fill(aq_model *m, aq_err *err)
{
    aq_hp full, slide;
    uint32_t slides[AQ_LAYERS_MAX], n_shared = 0, n_exp = 0;
    int rc;
    m->logit_cap = 30; /* where the file does not say */
    if ((rc = aq_fill_start(m, &full, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < full.n_all; i++)
        slides[i] = (i + 1) % 6 != 0;
    m->embd_scale = sqrtf((float)full.n_embd);
    full.act = AQ_ACT_GELU;
    full.score_scale = 1;
    if ((rc = aq_arch_u32s(m, &full, "attention.sliding_window_pattern", slides, err)) < 0 ||
        (rc = aq_arch_u32(m, "attention.shared_kv_layers", &n_shared, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_count", &n_exp, err)) < 0 ||
        (n_exp && (rc = aq_fill_moe_keys(m, &full, err)) < 0) ||
        (rc = get_slide(m, &full, &slide, err)) < 0 || (rc = fill_ple(m, &full, err)) < 0)
        return rc;
    uint32_t n_own = full.n_all - AQ_MIN(n_shared, full.n_all);
    for (uint32_t i = 0; i < full.n_all; i++) {
        const aq_hp *hp = slides[i] ? &slide : &full;
        uint64_t E = hp->n_embd;
        uint32_t flags = AQ_FILL_QK_NORM | AQ_FILL_WINDOW | AQ_FILL_V_IS_K;
        if (i >= n_own) {
            uint32_t of = kv_of(slides, n_own, slides[i]);
            if (of == n_own || hp->n_kv[of] != hp->n_kv[i])
                return aq_fail(err, AQ_E_FORMAT,
                               "%s: layer %u has no KV of its own and no layer to read it from; "
                               "the file was converted wrongly",
                               m->gguf->shard[0].file, i);
            flags |= AQ_FILL_NO_KV;
            aq_share_kv(m, i, i - of);
        }
        if ((rc = aq_fill_attn(m, hp, i, AQ_ROPE_NEOX, flags, err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_POST_NORM, "post_attention_norm.weight", true, E, 1, 1,
                                err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_FFN_POST_NORM, "post_ffw_norm.weight", true, E, 1, 1,
                                err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_OUT_SCALE, "layer_output_scale.weight", false, 1, 1, 1,
                                err)) < 0 ||
            (rc = aq_fill_dense(m, hp, i, "ffn_norm.weight", err)) < 0 ||
            (n_exp && aq_has_layer(m, i, "ffn_gate_inp.weight") &&
             (rc = fill_both(m, hp, i, err)) < 0))
            return rc;
        m->layer[i].window = slides[i] ? hp->window : 0;
        m->layer[i].v_norm = 1;
    }
    return 0;
}

const aq_arch aq_arch_gemma4 = {"gemma4", fill};
