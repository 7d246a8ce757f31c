/* SPDX-License-Identifier: Apache-2.0 */
/* gpt-oss: attention with rope NEOX, biases and a sink for each head; even layers slide. The router is biased, and its softmax runs
 * over the chosen experts; experts have biases, a clamped gate and a clamped up + 1. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0)
        return rc;
    if (!hp.window)
        return aq_fail(
            err, AQ_E_FORMAT,
            "%s has no key 'gpt-oss.attention.sliding_window', which every gpt-oss model "
            "needs; the file is damaged or was converted wrongly",
            m->gguf->shard[0].file);
    hp.exp_gate = AQ_GATE_CHOSEN;
    hp.act = AQ_ACT_OAI;
    for (uint32_t i = 0; i < hp.n_all; i++) {
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_BIAS | AQ_FILL_WINDOW, err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_SINKS, "attn_sinks.weight", true, hp.n_head, 1, 1,
                                err)) < 0 ||
            (rc = aq_fill_moe(m, &hp, i, "post_attention_norm.weight", err)) < 0)
            return rc;
        m->layer[i].window = i % 2 ? 0 : hp.window;
    }
    return 0;
}

const aq_arch aq_arch_gpt_oss = {"gpt-oss", fill};
