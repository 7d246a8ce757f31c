/* SPDX-License-Identifier: Apache-2.0 */
/* llama: attention with rope NORM (the converter has permuted the rows of q and k for it), dense SwiGLU. Llama 3's long-context
 * factors come as the tensor rope_freqs. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    uint32_t n_exp = 0;
    int rc = aq_fill_start(m, &hp, err);
    if (rc < 0 || (rc = aq_arch_u32(m, "expert_count", &n_exp, err)) < 0)
        return rc;
    if (n_exp)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s is a llama model with %u experts, which this version does not run",
                       m->gguf->shard[0].file, n_exp);
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NORM, 0, err)) < 0 ||
            (rc = aq_fill_dense(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_llama = {"llama", fill};
