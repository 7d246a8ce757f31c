/* SPDX-License-Identifier: Apache-2.0 */
/* qwen3moe: attention with rope NEOX and a norm on each head of q and k; softmax router over all experts, the chosen weights
 * renormalised; no shared expert. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc = aq_fill_start(m, &hp, err);
    if (rc < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_QK_NORM, err)) < 0 ||
            (rc = aq_fill_moe(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_qwen3moe = {"qwen3moe", fill};
