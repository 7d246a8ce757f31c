/* SPDX-License-Identifier: Apache-2.0 */
/* llama: attention with rope NORM (the converter has permuted the rows of q and k for it), dense SwiGLU, or with experts a softmax
 * router, renormalised (Mixtral). Llama 3's long-context factors come as the tensor rope_freqs. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    uint32_t n_exp = 0;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 ||
        (rc = aq_arch_u32(m, "expert_count", &n_exp, err)) < 0 ||
        (n_exp && (rc = aq_fill_moe_keys(m, &hp, err)) < 0) ||
        (rc = aq_arch_refuse(m, "logit_scale", 1, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp.n_all; i++) {
        static const char norm[] = "ffn_norm.weight";
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NORM, 0, err)) < 0 ||
            (rc = n_exp ? aq_fill_moe(m, &hp, i, norm, err) : aq_fill_dense(m, &hp, i, norm, err)) <
                0)
            return rc;
    }
    return 0;
}

const aq_arch aq_arch_llama = {"llama", fill};
