/* SPDX-License-Identifier: Apache-2.0 */
/* deepseek2 (V2, V3, Kimi-K2, GLM-4.7-Flash): latent attention with rope NORM, in files that hold k_b and v_b for the absorbed form, or
 * (older ones, without key_length_mla) both in one kv_b; the first layers dense, then softmax or sigmoid routers, with groups in some
 * models, and shared experts. */
#include <math.h>

#include "arch-priv.h"

#define VOCAB_FLASH \
    154880u /* GLM-4.7-Flash, which files without expert_gating_func mean by 47 or 48 layers */

/** YaRN: the scores carry the whole factor, and rope none where the file says yarn_log_multiplier. */
static int get_scales(const aq_model *m, aq_hp *hp, uint32_t d_head, aq_err *err)
{
    float log_mul = 0, f = hp->scale.factor;
    int rc = aq_arch_f32(m, "rope.scaling.yarn_log_multiplier", &log_mul, err);
    if (rc < 0)
        return rc;
    double grow = 1;
    if (hp->scale.yarn && f > 1) {
        grow = log_mul != 0 ? 1 + log_mul * log(f) : 1 + 0.1 * log(f);
        if (log_mul != 0)
            hp->scale.mag /= 1 + 0.1f * logf(f);
    }
    hp->score_scale = (float)(grow * grow / sqrt(d_head));
    return 0;
}

/** The halves that turn a latent row into keys and values of each head. */
static int bind_halves(aq_model *m, uint32_t i, bool kv_b, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t H = l->n_head, R = l->n_lora, both = (uint64_t)l->d_nope + l->d_val;
    static const char name[] = "attn_kv_b.weight";
    int rc;
    l->kv_b = kv_b;
    if (kv_b)
        rc = aq_bind_layer(m, i, AQ_W_K_B, name, true, R, H * both, 1, err);
    else
        rc = aq_bind_layer(m, i, AQ_W_K_B, "attn_k_b.weight", true, l->d_nope, R, H, err);
    if (rc < 0)
        return rc;
    return kv_b ? aq_bind_layer(m, i, AQ_W_V_B, name, true, R, H * both, 1, err)
                : aq_bind_layer(m, i, AQ_W_V_B, "attn_v_b.weight", true, R, l->d_val, H, err);
}

static int fill_latent(aq_model *m, const aq_hp *hp, uint32_t i, uint32_t rq, uint32_t d_head,
                       uint32_t d_val, bool kv_b, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint64_t E = hp->n_embd, H = hp->n_head, R = hp->d_v, rot = hp->n_rot;
    l->mixer = AQ_MIX_LATENT;
    l->n_head = hp->n_head;
    l->n_kv = 1;
    l->d_k = l->d_v = (uint32_t)(R + rot);
    l->n_lora = (uint32_t)R;
    l->d_nope = d_head - hp->n_rot;
    l->d_val = d_val;
    l->rope = AQ_ROPE_NORM;
    l->n_rot = hp->n_rot;
    l->rope_base = hp->rope_base;
    l->scale = hp->scale;
    l->score_scale = hp->score_scale;
    int rc;
    if (rq && ((rc = aq_bind_layer(m, i, AQ_W_Q_A, "attn_q_a.weight", true, E, rq, 1, err)) < 0 ||
               (rc = aq_bind_layer(m, i, AQ_W_Q_A_NORM, "attn_q_a_norm.weight", true, rq, 1, 1,
                                   err)) < 0))
        return rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_ATTN_NORM, "attn_norm.weight", true, E, 1, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_Q, rq ? "attn_q_b.weight" : "attn_q.weight", true,
                            rq ? rq : E, H * d_head, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_KV_A, "attn_kv_a_mqa.weight", true, E, R + rot, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_KV_A_NORM, "attn_kv_a_norm.weight", true, R, 1, 1, err)) <
            0 ||
        (rc = bind_halves(m, i, kv_b, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_O, "attn_output.weight", true, H * d_val, E, 1, err)) < 0)
        return rc;
    return 0;
}

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    uint32_t rq = 0, lora, d_head = 0, d_val;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0 ||
        (rc = aq_arch_u32(m, "attention.key_length_mla", &d_head, err)) < 0)
        return rc;
    bool kv_b = !d_head; /* keys of older files mean a head, those of newer ones the latent entry */
    if ((rc = aq_arch_need_u32(m, "attention.kv_lora_rank", 1, AQ_HEAD_DIM_MAX, &lora, err)) < 0 ||
        (rc = aq_arch_need_u32(m, kv_b ? "attention.key_length" : "attention.key_length_mla",
                               hp.n_rot + 1, AQ_HEAD_DIM_MAX, &d_head, err)) < 0 ||
        (rc = aq_arch_need_u32(m, kv_b ? "attention.value_length" : "attention.value_length_mla", 1,
                               AQ_HEAD_DIM_MAX, &d_val, err)) < 0 ||
        (rc = aq_arch_u32(m, "attention.q_lora_rank", &rq, err)) < 0 ||
        (rc = get_scales(m, &hp, d_head, err)) < 0)
        return rc;
    hp.d_v = lora;
    hp.exp_renorm = 0;
    bool flash = (hp.n_all == 47 || hp.n_all == 48) && m->info.n_vocab == VOCAB_FLASH;
    hp.exp_gate = flash ? AQ_GATE_SIGMOID : AQ_GATE_SOFTMAX;
    m->info.n_head_kv = 1;
    for (uint32_t i = 0; i < hp.n_all; i++) {
        static const char norm[] = "ffn_norm.weight";
        if ((rc = fill_latent(m, &hp, i, rq, d_head, d_val, kv_b, err)) < 0 ||
            (rc = i < hp.n_dense ? aq_fill_dense(m, &hp, i, norm, err)
                                 : aq_fill_moe(m, &hp, i, norm, err)) < 0)
            return rc;
        if (i >= m->info.n_layer && (rc = aq_fill_draft(m, &hp, i, err)) < 0)
            return rc;
    }
    return 0;
}

const aq_arch aq_arch_deepseek2 = {"deepseek2", fill};
