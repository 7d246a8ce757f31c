/* SPDX-License-Identifier: Apache-2.0 */
/* glm4moe: attention with rope NEOX over part of each head, biases of q, k and v, in some models norms of q and k; the first layers
 * dense, then a sigmoid router with a bias for choosing, renormalised and scaled, and a shared expert. One draft layer. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0)
        return rc;
    hp.exp_gate = AQ_GATE_SIGMOID;
    hp.exp_renorm = 0; /* files say that it is so */
    for (uint32_t i = 0; i < hp.n_all; i++) {
        static const char norm[] = "post_attention_norm.weight";
        uint32_t flags = AQ_FILL_BIAS;
        if (aq_has_layer(m, i, "attn_q_norm.weight"))
            flags |= AQ_FILL_QK_NORM;
        rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, flags, err);
        if (rc >= 0)
            rc = i < hp.n_dense ? aq_fill_dense(m, &hp, i, norm, err)
                                : aq_fill_moe(m, &hp, i, norm, err);
        if (rc < 0 || (i >= m->info.n_layer && (rc = aq_fill_draft(m, &hp, i, err)) < 0))
            return rc;
    }
    return 0;
}

const aq_arch aq_arch_glm4moe = {"glm4moe", fill};
