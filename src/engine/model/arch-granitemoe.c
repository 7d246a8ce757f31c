/* SPDX-License-Identifier: Apache-2.0 */
/* granitemoe: attention with rope NORM, a scale of its own for scores, embeddings, block outputs and logits; softmax router,
 * renormalised; some have a shared expert. */
#include "arch-priv.h"

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    float div = 0;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0 ||
        (rc = aq_arch_f32(m, "logit_scale", &div, err)) < 0)
        return rc;
    if (!(div > 0))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.logit_scale' is missing or %g; the file is damaged or was "
                       "converted wrongly",
                       m->gguf->shard[0].file, m->info.arch, div);
    m->logit_scale = 1 / div;
    for (uint32_t i = 0; i < hp.n_all; i++)
        if ((rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NORM, 0, err)) < 0 ||
            (rc = aq_fill_moe(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
    return 0;
}

const aq_arch aq_arch_granitemoe = {"granitemoe", fill};
