/* SPDX-License-Identifier: Apache-2.0 */
/* olmoe: attention with rope NEOX and norms over the whole rows of q and k; softmax router, not renormalised. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0)
        return rc;
    hp.exp_renorm = 0;
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_QK_ROW, err)) < 0 ||
            (rc = aq_fill_moe(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_olmoe = {"olmoe", fill};
