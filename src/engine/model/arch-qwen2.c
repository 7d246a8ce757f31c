/* SPDX-License-Identifier: Apache-2.0 */
/* qwen2: attention with rope NEOX and biases of q, k and v; dense SwiGLU. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX, AQ_FILL_BIAS, err)) < 0 ||
            (rc = aq_fill_dense(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_qwen2 = {"qwen2", fill};
