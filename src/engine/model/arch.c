/* SPDX-License-Identifier: Apache-2.0 */
/* From key-values to per-layer descriptors: the table of architectures and what their files share. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "arch-priv.h"

const aq_arch *const aq_archs[] = {&aq_arch_llama,
                                   &aq_arch_qwen2,
                                   &aq_arch_qwen3,
                                   &aq_arch_qwen3moe,
                                   &aq_arch_olmoe,
                                   &aq_arch_granitemoe,
                                   &aq_arch_qwen35,
                                   &aq_arch_qwen35moe,
                                   &aq_arch_qwen3next,
                                   &aq_arch_glm4moe,
                                   &aq_arch_gpt_oss,
                                   &aq_arch_gemma3,
                                   &aq_arch_gemma4,
                                   &aq_arch_deepseek2,
                                   &aq_arch_minimax_m2,
                                   &aq_arch_qwen4exp,
                                   NULL};

#define KEY_BYTES 128
static const char *arch_key(const aq_model *m, const char *name, char buf[KEY_BYTES])
{
    snprintf(buf, KEY_BYTES, "%s.%s", m->info.arch, name);
    return buf;
}

static const char *file_of(const aq_model *m)
{
    return m->gguf->shard[0].file;
}

int aq_arch_u32(const aq_model *m, const char *name, uint32_t *ret, aq_err *err)
{
    char key[KEY_BYTES];
    return aq_gguf_u32(m->gguf, arch_key(m, name, key), ret, err);
}

int aq_arch_f32(const aq_model *m, const char *name, float *ret, aq_err *err)
{
    char key[KEY_BYTES];
    return aq_gguf_f32(m->gguf, arch_key(m, name, key), ret, err);
}

static int in_range(const aq_model *m, const char *name, uint32_t lo, uint32_t hi, uint32_t v,
                    aq_err *err)
{
    if (v < lo || v > hi)
        return aq_fail(
            err, AQ_E_FORMAT,
            "%s: '%s.%s' is %u, possible is %u to %u; the file is damaged or was converted wrongly",
            file_of(m), m->info.arch, name, v, lo, hi);
    return 0;
}

int aq_arch_need_u32(const aq_model *m, const char *name, uint32_t lo, uint32_t hi, uint32_t *ret,
                     aq_err *err)
{
    uint32_t v;
    int rc = aq_arch_u32(m, name, &v, err);
    if (!rc)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s has no key '%s.%s', which every %s model needs; the file is damaged or "
                       "was converted wrongly",
                       file_of(m), m->info.arch, name, m->info.arch);
    if (rc < 0 || (rc = in_range(m, name, lo, hi, v, err)) < 0)
        return rc;
    *ret = v;
    return 0;
}

/** An optional number with a default, held to a range. */
static int opt_u32(const aq_model *m, const char *name, uint32_t dflt, uint32_t lo, uint32_t hi,
                   uint32_t *ret, aq_err *err)
{
    uint32_t v = dflt;
    int rc = aq_arch_u32(m, name, &v, err);
    if (rc < 0 || (rc = in_range(m, name, lo, hi, v, err)) < 0)
        return rc;
    *ret = v;
    return 0;
}

int aq_bind(const aq_model *m, const char *name, bool required, uint64_t ne0, uint64_t ne1,
            uint64_t ne2, int32_t *ret, aq_err *err)
{
    int32_t i = aq_gguf_tensor(m->gguf, name, strlen(name));
    if (i < 0) {
        if (required)
            return aq_fail(err, AQ_E_FORMAT,
                           "%s lacks the tensor '%s', which a %s model of this shape needs; the "
                           "file is incomplete or was converted wrongly",
                           file_of(m), name, m->info.arch);
        *ret = -1;
        return 0;
    }
    const aq_tensor *t = &m->tensor[i];
    uint64_t want[4] = {ne0, ne1, ne2, 1};
    for (int d = 0; d < 4; d++)
        if (want[d] && t->ne[d] != want[d])
            return aq_fail(err, AQ_E_FORMAT,
                           "%s: tensor '%s' has the shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64
                           ", %" PRIu64 "], the model's keys ask for [%" PRIu64 ", %" PRIu64
                           ", %" PRIu64 ", 1]%s; the file was converted wrongly",
                           m->gguf->shard[t->shard].file, name, t->ne[0], t->ne[1], t->ne[2],
                           t->ne[3], ne0, ne1, ne2, ne0 && ne1 && ne2 ? "" : " (0 = any)");
    *ret = i;
    return 1;
}

int aq_bind_layer(aq_model *m, uint32_t layer, uint32_t w, const char *name, bool required,
                  uint64_t ne0, uint64_t ne1, uint64_t ne2, aq_err *err)
{
    char full[KEY_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    aq_layer *l = &m->layer[layer];
    int rc = aq_bind(m, full, required, ne0, ne1, ne2, &l->w[w], err);
    size_t n = strlen(full), cut = sizeof ".weight" - 1;
    /* Two tensors called scale are something else: a norm of the router's input, and a factor of experts' weights, which is the same. */
    if (rc <= 0 || w == AQ_W_ROUTER || w == AQ_W_EXP_DOWN || n < cut ||
        strcmp(full + n - cut, ".weight"))
        return rc;
    snprintf(full + n - cut, sizeof full - n + cut, ".scale");
    int got = aq_bind(m, full, false, m->tensor[l->w[w]].ne[2], 1, 1, &l->fac[w], err);
    return got < 0 ? got : rc;
}

bool aq_has_layer(const aq_model *m, uint32_t layer, const char *name)
{
    char full[KEY_BYTES];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return aq_gguf_tensor(m->gguf, full, strlen(full)) >= 0;
}

void aq_share_kv(aq_model *m, uint32_t layer, uint32_t back)
{
    m->layer[layer].kv_back = back;
    for (uint32_t i = 0; i < back; i++)
        m->layer[layer - i].cut_ok = 0;
}

int aq_arch_u32s(const aq_model *m, const aq_hp *hp, const char *name, uint32_t *ret, aq_err *err)
{
    char key[KEY_BYTES];
    return aq_gguf_u32s(m->gguf, arch_key(m, name, key), ret, hp->n_all, err);
}

int aq_arch_refuse(const aq_model *m, const char *name, float harmless, aq_err *err)
{
    float v = harmless;
    int rc = aq_arch_f32(m, name, &v, err);
    if (rc < 0 || v == harmless)
        return rc;
    return aq_fail(err, AQ_E_UNSUPPORTED,
                   "%s: '%s.%s' is %g, and this version does not compute that for %s models",
                   file_of(m), m->info.arch, name, v, m->info.arch);
}

static bool str_is(aq_str s, const char *lit)
{
    return s.n == strlen(lit) && !memcmp(s.p, lit, s.n);
}

/** rope.scaling.*: none, linear or yarn; another kind is refused, not ignored. */
static int get_rope_scale(const aq_model *m, aq_rope_scale *ret, aq_err *err)
{
    char key[KEY_BYTES], show[AQ_SHOW_BYTES];
    aq_str type = {"linear", 6};
    float factor = 1, attn = 1;
    uint32_t orig = m->info.n_ctx_train;
    aq_rope_scale s = {.factor = 1, .mag = 1, .fast = 32, .slow = 1};
    int rc;
    if ((rc = aq_gguf_str(m->gguf, arch_key(m, "rope.scaling.type", key), &type, err)) < 0 ||
        (rc = aq_arch_f32(m, "rope.scaling.factor", &factor, err)) < 0 ||
        (rc = aq_arch_f32(m, "rope.scaling.attn_factor", &attn, err)) < 0 ||
        (rc = opt_u32(m, "rope.scaling.original_context_length", orig, 1, AQ_CTX_MAX, &orig, err)) <
            0 ||
        (rc = aq_arch_f32(m, "rope.scaling.yarn_beta_fast", &s.fast, err)) < 0 ||
        (rc = aq_arch_f32(m, "rope.scaling.yarn_beta_slow", &s.slow, err)) < 0 ||
        (rc = aq_arch_refuse(m, "rope.scaling.yarn_ext_factor", 1, err)) < 0 ||
        (rc = aq_arch_refuse(m, "rope.scaling.yarn_attn_factor", 1, err)) < 0 ||
        (rc = aq_arch_refuse(m, "rope.scale_linear", 1, err)) < 0)
        return rc;
    if (factor == 0) /* converters write 0 for "no scaling" */
        factor = 1;
    if (!(factor > 0) || !(attn > 0) || !(s.fast > 0) || !(s.slow > 0))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: a value of '%s.rope.scaling' is not above 0; the file is damaged",
                       file_of(m), m->info.arch);
    if (str_is(type, "yarn")) {
        s.yarn = factor != 1;
        s.orig = (float)orig;
        s.factor = factor;
        s.mag = factor > 1 ? attn * (1 + 0.1f * logf(factor)) : attn;
    } else if (str_is(type, "linear")) {
        s.factor = factor;
        s.mag = attn;
    } else if (!str_is(type, "none")) {
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s stretches its context by rope scaling '%s', which this version does "
                       "not do for %s models",
                       file_of(m), aq_str_show(type, show), m->info.arch);
    }
    *ret = s;
    return 0;
}

/** Keys that change what is computed, and that no architecture here knows. */
static int refuse_keys(const aq_model *m, aq_err *err)
{
    static const char *const zero[] = {"attn_logit_softcapping", "attention.clamp_kqv",
                                       "attention.max_alibi_bias", "attention.temperature_scale",
                                       "attention.temperature_length"};
    for (size_t i = 0; i < AQ_LEN(zero); i++) {
        int rc = aq_arch_refuse(m, zero[i], 0, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int aq_fill_start(aq_model *m, aq_hp *hp, aq_err *err)
{
    aq_model_info *in = &m->info;
    uint32_t n_draft = 0;
    int rc;
    char key[KEY_BYTES];
    memset(hp, 0, sizeof *hp);
    hp->exp_gate = AQ_GATE_SOFTMAX;
    hp->exp_renorm = 1;
    m->embd_scale = m->res_scale = m->logit_scale = 1;
    m->n_stream = 1;
    if ((rc = aq_arch_need_u32(m, "block_count", 1, AQ_LAYERS_MAX, &hp->n_all, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "embedding_length", 1, AQ_EMBD_MAX, &hp->n_embd, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "context_length", 1, AQ_CTX_MAX, &in->n_ctx_train, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "attention.head_count", 1, AQ_HEADS_MAX, &hp->n_head, err)) < 0 ||
        (rc = opt_u32(m, "nextn_predict_layers", 0, 0, hp->n_all - 1, &n_draft, err)) < 0 ||
        (rc = aq_arch_u32s(m, hp, "feed_forward_length", hp->n_ff, err)) < 0 ||
        (rc = opt_u32(m, "attention.sliding_window", 0, 0, UINT32_MAX, &hp->window, err)) < 0 ||
        (rc = aq_arch_f32(m, "attention.scale", &hp->score_scale, err)) < 0 ||
        (rc = aq_arch_f32(m, "embedding_scale", &m->embd_scale, err)) < 0 ||
        (rc = aq_arch_f32(m, "residual_scale", &m->res_scale, err)) < 0 ||
        (rc = aq_arch_f32(m, "final_logit_softcapping", &m->logit_cap, err)) < 0 ||
        (rc = refuse_keys(m, err)) < 0 ||
        (rc = opt_u32(m, "attention.key_length", hp->n_embd / hp->n_head, 1, AQ_HEAD_DIM_MAX,
                      &hp->d_k, err)) < 0 ||
        (rc = opt_u32(m, "attention.value_length", hp->n_embd / hp->n_head, 1, AQ_HEAD_DIM_MAX,
                      &hp->d_v, err)) < 0 ||
        (rc = opt_u32(m, "rope.dimension_count", hp->d_k, 2, hp->d_k, &hp->n_rot, err)) < 0)
        return rc;
    if (hp->n_rot % 2)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.rope.dimension_count' is %u, which is odd; the file is damaged",
                       file_of(m), in->arch, hp->n_rot);
    for (uint32_t i = 0; i < hp->n_all; i++)
        hp->n_kv[i] = hp->n_head;
    if ((rc = aq_gguf_u32s(m->gguf, arch_key(m, "attention.head_count_kv", key), hp->n_kv,
                           hp->n_all, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < hp->n_all; i++)
        if (!hp->n_kv[i] || hp->n_head % hp->n_kv[i])
            return aq_fail(err, AQ_E_FORMAT,
                           "%s: layer %u has %u key-value heads for %u heads, which cannot be "
                           "shared out; the file is damaged or was converted wrongly",
                           file_of(m), i, hp->n_kv[i], hp->n_head);
    hp->rope_base = 10000;
    m->eps = -1;
    if ((rc = aq_arch_f32(m, "rope.freq_base", &hp->rope_base, err)) < 0 ||
        (rc = aq_arch_f32(m, "attention.layer_norm_rms_epsilon", &m->eps, err)) < 0 ||
        (rc = get_rope_scale(m, &hp->scale, err)) < 0)
        return rc;
    if (!(m->eps >= 0 && m->eps < 1) || !(hp->rope_base > 0))
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s.attention.layer_norm_rms_epsilon' or '.rope.freq_base' is missing "
                       "or out of range; the file is damaged or was converted wrongly",
                       file_of(m), in->arch);

    in->n_draft = n_draft;
    in->n_layer = hp->n_all - n_draft;
    in->n_embd = in->row_f32 = hp->n_embd;
    in->n_head = hp->n_head;
    in->n_head_kv = hp->n_kv[0];
    m->layer = aq_arena_alloc(m->arena, hp->n_all * sizeof *m->layer);
    if (!m->layer)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for %u layers", file_of(m), hp->n_all);
    for (uint32_t i = 0; i < hp->n_all; i++) {
        m->layer[i].cut_ok = 1;
        for (uint32_t w = 0; w < AQ_W_N; w++)
            m->layer[i].w[w] = m->layer[i].fac[w] = -1;
    }
    if ((rc = aq_bind(m, "token_embd.weight", true, hp->n_embd, 0, 1, &m->w_embd, err)) < 0)
        return rc;
    uint64_t n_vocab = m->tensor[m->w_embd].ne[1];
    if (n_vocab > INT32_MAX)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: 'token_embd.weight' has %" PRIu64
                       " rows, more than there can be tokens; the file is damaged",
                       file_of(m), n_vocab);
    in->n_vocab = (uint32_t)n_vocab;
    /* with streams the last mix is the norm */
    bool norm = aq_gguf_tensor(m->gguf, "output_hc_norm.weight", 21) < 0;
    if ((rc = aq_bind(m, "output_norm.weight", norm, hp->n_embd, 1, 1, &m->w_out_norm, err)) < 0 ||
        (rc = aq_bind(m, "output.weight", false, hp->n_embd, n_vocab, 1, &m->w_out, err)) < 0 ||
        (m->w_out >= 0 &&
         (rc = aq_bind(m, "output.scale", false, 1, 1, 1, &m->w_out_fac, err)) < 0) ||
        (rc = aq_bind(m, "rope_freqs.weight", false, hp->n_rot / 2, 1, 1, &m->w_rope_freqs, err)) <
            0)
        return rc;
    if (m->w_out < 0)
        m->w_out = m->w_embd;
    hp->scale.freqs = m->w_rope_freqs >= 0;
    if (hp->scale.freqs && hp->scale.yarn)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s has 'rope_freqs.weight' and rope scaling yarn, which this version does "
                       "not do together",
                       file_of(m));
    return 0;
}
