/* SPDX-License-Identifier: Apache-2.0 */
/* gemma3: embeddings × √n_embd; norms before and after each block, norms on each head of q and k, GELU. Five layers slide with a rope
 * base of their own and no scaling, then one is full. */
#include <math.h>

#include "arch-priv.h"

#define LAYERS_27B 62u /* whose scores are scaled by n_embd / n_head instead of the head's width */

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp, slide;
    uint32_t period = 6;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 ||
        (rc = aq_arch_u32(m, "attention.sliding_window_pattern", &period, err)) < 0)
        return rc;
    if (!period)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.attention.sliding_window_pattern' is 0; the file is damaged",
                       m->gguf->shard[0].file, m->info.arch);
    m->embd_scale = sqrtf((float)hp.n_embd);
    hp.act = AQ_ACT_GELU;
    if (hp.score_scale == 0 && hp.n_all == LAYERS_27B)
        hp.score_scale = 1 / sqrtf((float)hp.n_embd / (float)hp.n_head);
    slide = hp;
    slide.rope_base = 10000;
    slide.scale = (aq_rope_scale){.factor = 1, .mag = 1};
    if ((rc = aq_arch_f32(m, "rope.freq_base_swa", &slide.rope_base, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp.n_all; i++) {
        bool full = !hp.window || (i + 1) % period == 0;
        uint64_t E = hp.n_embd;
        if ((rc = aq_fill_attn(m, full ? &hp : &slide, i, AQ_ROPE_NEOX,
                               AQ_FILL_QK_NORM | AQ_FILL_WINDOW, err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_POST_NORM, "post_attention_norm.weight", true, E, 1, 1,
                                err)) < 0 ||
            (rc = aq_bind_layer(m, i, AQ_W_FFN_POST_NORM, "post_ffw_norm.weight", true, E, 1, 1,
                                err)) < 0 ||
            (rc = aq_fill_dense(m, &hp, i, "ffn_norm.weight", err)) < 0)
            return rc;
        m->layer[i].window = full ? 0 : hp.window;
    }
    return 0;
}

const aq_arch aq_arch_gemma3 = {"gemma3", fill};
