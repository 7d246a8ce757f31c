/* SPDX-License-Identifier: Apache-2.0 */
/* minimax-m2: attention with rope NEOX over part of each head and norms over the whole rows of q and k; sigmoid router with a bias for
 * choosing, renormalised. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0)
        return rc;
    hp.exp_gate = AQ_GATE_SIGMOID;
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_QK_ROW, err)) < 0 ||
            (rc = aq_fill_moe(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_minimax_m2 = {"minimax-m2", fill};
