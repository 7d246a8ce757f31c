/* SPDX-License-Identifier: Apache-2.0 */
/* qwen4exp: the blocks of qwen35moe between n_stream residual streams instead of norms (core/streams.c), delta nets gated by σ(z),
 * full attention over the best blocks of entries by an indexer (core/index.c), and on some layers embeddings by hashes of the last
 * tokens (core/ngram.c). Draft layers, where a file has some, are left out: answers do not depend on them. */
#include <stdio.h>

#include "arch-priv.h"

#define STREAMS_MAX 16u
#define NG_CONV_MAX 16u
#define BLOCK_MAX 64u /* entries that attention takes at once */

/** The norm vectors are written flat or as [streams][n_embd]. */
static int bind_wide(aq_model *m, const char *name, uint64_t n, int32_t *ret, aq_err *err)
{
    int rc = aq_bind(m, name, true, 0, 0, 1, ret, err);
    if (rc < 0)
        return rc;
    const aq_tensor *t = &m->tensor[*ret];
    if (t->ne[0] > n || t->ne[0] * t->ne[1] != n)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: tensor '%s' has %llu × %llu values, the model's keys ask for %llu; the "
                       "file was converted wrongly",
                       m->gguf->shard[t->shard].file, name, (unsigned long long)t->ne[0],
                       (unsigned long long)t->ne[1], (unsigned long long)n);
    return 0;
}

static int bind_wide_layer(aq_model *m, uint32_t i, uint32_t w, const char *name, aq_err *err)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s.weight", i, name);
    return bind_wide(m, full, m->info.row_f32, &m->layer[i].w[w], err);
}

static int get_streams(aq_model *m, uint32_t *ret_rank, aq_err *err)
{
    uint64_t E = m->info.n_embd, W;
    int rc;
    if ((rc = aq_arch_need_u32(m, "hyper_connection.count", 1, STREAMS_MAX, &m->n_stream, err)) <
            0 ||
        (rc = aq_arch_need_u32(m, "hyper_connection.low_rank", 1, AQ_EMBD_MAX, ret_rank, err)) < 0)
        return rc;
    W = m->n_stream * E;
    m->info.row_f32 = (uint32_t)W;
    if ((rc = bind_wide(m, "output_hc_norm.weight", W, &m->w_hc_norm, err)) < 0 ||
        (rc = aq_bind(m, "output_hc_down.weight", true, W, *ret_rank, 1, &m->w_hc_down, err)) < 0 ||
        (rc = aq_bind(m, "output_hc_up.weight", true, *ret_rank, W, 1, &m->w_hc_up, err)) < 0)
        return rc;
    return 0;
}

/** The mixes before both blocks of a layer. */
static int fill_streams(aq_model *m, uint32_t i, uint32_t rank, aq_err *err)
{
    uint64_t W = m->info.row_f32, N = m->n_stream;
    int rc;
    if ((rc = bind_wide_layer(m, i, AQ_W_HC_ATTN_NORM, "hc_attn_norm", err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_ATTN_DOWN, "hc_attn_down.weight", true, W, rank, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_ATTN_UP, "hc_attn_up.weight", true, rank, W, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_ATTN_INJECT, "hc_attn_inject.weight", true, W, N, 1,
                            err)) < 0 ||
        (rc = bind_wide_layer(m, i, AQ_W_HC_FFN_NORM, "hc_ffn_norm", err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_FFN_DOWN, "hc_ffn_down.weight", true, W, rank, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_FFN_UP, "hc_ffn_up.weight", true, rank, W, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_HC_FFN_INJECT, "hc_ffn_inject.weight", true, W, N, 1, err)) <
            0)
        return rc;
    return 0;
}

/** Attention over blocks of `block` entries; 0 = over all. */
static int fill_index(aq_model *m, const aq_hp *hp, uint32_t i, uint32_t block, aq_err *err)
{
    aq_layer *l = &m->layer[i];
    uint32_t top, heads, d;
    int rc;
    if ((rc = aq_arch_need_u32(m, "attention.indexer.head_count", 1, AQ_HEADS_MAX, &heads, err)) <
            0 ||
        (rc = aq_arch_need_u32(m, "attention.indexer.key_length", hp->n_rot, AQ_HEAD_DIM_MAX, &d,
                               err)) < 0 ||
        (rc = aq_arch_need_u32(m, "attention.indexer.top_k", 1, AQ_CTX_MAX, &top, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_IDX_Q, "indexer.q_proj.weight", true, hp->n_embd,
                            (uint64_t)heads * d, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_IDX_K, "indexer.k_proj.weight", true, hp->n_embd, d, 1,
                            err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_IDX_Q_NORM, "indexer.q_norm.weight", true, d, 1, 1, err)) <
            0 ||
        (rc = aq_bind_layer(m, i, AQ_W_IDX_K_NORM, "indexer.k_norm.weight", true, d, 1, 1, err)) <
            0)
        return rc;
    if (!block)
        return 0;
    if (BLOCK_MAX % block || top % block)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s: layer %u sees the best %u entries in blocks of %u, and this version "
                       "needs blocks that divide %u and the number of entries",
                       m->gguf->shard[0].file, i, top, block, BLOCK_MAX);
    l->n_idx = heads;
    l->d_idx = d;
    l->idx_block = block;
    l->idx_top = top / block;
    return 0;
}

static int get_u64s(const aq_model *m, const char *name, uint64_t *ret, uint32_t n, aq_err *err)
{
    char key[128];
    uint32_t kind = 0;
    uint64_t have = 0;
    aq_cur c;
    snprintf(key, sizeof key, "%s.ple.%s", m->info.arch, name);
    int rc = aq_gguf_arr(m->gguf, key, &kind, &have, &c, err);
    if (rc < 0)
        return rc;
    bool wide = kind == AQ_KV_U64 || kind == AQ_KV_I64,
         half = kind == AQ_KV_U32 || kind == AQ_KV_I32;
    for (uint32_t i = 0; rc && have >= n && i < n; i++) {
        uint32_t v = 0;
        if (wide ? aq_cur_get_u64(&c, &ret[i]) < 0 : !half || aq_cur_get_u32(&c, &v) < 0)
            have = 0;
        else if (half)
            ret[i] = v;
    }
    if (!rc || have < n)
        return aq_fail(
            err, AQ_E_FORMAT,
            "%s: '%s' is missing or is no array of %u whole numbers; the file is damaged "
            "or was converted wrongly",
            m->gguf->shard[0].file, key, n);
    return 0;
}

static int fill_ngram_layer(aq_model *m, uint32_t i, aq_err *err)
{
    uint64_t E = m->info.n_embd, W = m->info.row_f32;
    int rc;
    if ((rc = aq_bind_layer(m, i, AQ_W_NG_KEY, "ple_key.weight", true, E, W, 1, err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_NG_VALUE, "ple_value.weight", true, E, E, 1, err)) < 0 ||
        (rc = bind_wide_layer(m, i, AQ_W_NG_KEY_NORM, "ple_norm_key", err)) < 0 ||
        (rc = bind_wide_layer(m, i, AQ_W_NG_QUERY_NORM, "ple_norm_query", err)) < 0 ||
        (rc = bind_wide_layer(m, i, AQ_W_NG_CONV_NORM, "ple_norm_conv", err)) < 0 ||
        (rc = aq_bind_layer(m, i, AQ_W_NG_CONV, "ple_conv1d.weight", true, m->ngram.conv_k, W, 1,
                            err)) < 0)
        return rc;
    m->layer[i].ng_back = (m->ngram.conv_k - 1) * m->ngram.size;
    return 0;
}

static int fill_ngram(aq_model *m, const aq_hp *hp, aq_err *err)
{
    aq_ngram *g = &m->ngram;
    uint32_t kind;
    uint64_t n_layer = 0, layer[AQ_LAYERS_MAX];
    aq_cur c;
    int rc = aq_gguf_arr(m->gguf, "qwen4exp.ple.layers", &kind, &n_layer, &c, err);
    if (rc <= 0 || !n_layer)
        return rc;
    if (n_layer > m->info.n_layer)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: 'qwen4exp.ple.layers' names %llu layers of %u; the file is damaged",
                       m->gguf->shard[0].file, (unsigned long long)n_layer, m->info.n_layer);
    if ((rc = get_u64s(m, "layers", layer, (uint32_t)n_layer, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ple.ngram_size", 2, AQ_NGRAM_MAX, &g->size, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ple.heads_per_ngram", 1, AQ_NG_HEADS_MAX / (g->size - 1),
                               &g->per_gram, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ple.conv_kernel", 2, NG_CONV_MAX, &g->conv_k, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "ple.eos_token_id", 0, m->info.n_vocab - 1, &g->eos, err)) < 0 ||
        (rc = aq_arch_need_u32(m, "embedding_length_per_layer_input", 1, hp->n_embd, &g->dim,
                               err)) < 0)
        return rc;
    g->n_head = (g->size - 1) * g->per_gram;
    if ((rc = get_u64s(m, "layer_multipliers", g->mult, g->size, err)) < 0 ||
        (rc = get_u64s(m, "head_offsets", g->off, g->n_head, err)) < 0 ||
        (rc = get_u64s(m, "head_vocab_sizes", g->vocab, g->n_head, err)) < 0 ||
        (rc = aq_bind(m, "per_layer_token_embd.weight", true, g->dim, 0, 1, &m->w_ngram, err)) < 0)
        return rc;
    const aq_tensor *t = &m->tensor[m->w_ngram];
    bool bad = g->n_head * g->dim != hp->n_embd || g->dim % t->type->block_vals;
    for (uint32_t h = 0; h < g->n_head; h++)
        bad |= !g->vocab[h] || g->vocab[h] > t->ne[1] || g->off[h] > t->ne[1] - g->vocab[h];
    if (bad)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: the n-gram embeddings of %u heads × %u values do not fit the width %u "
                       "or their table of %llu rows; the file was converted wrongly",
                       m->gguf->shard[0].file, g->n_head, g->dim, hp->n_embd,
                       (unsigned long long)t->ne[1]);
    for (uint64_t i = 0; i < n_layer; i++) {
        if (layer[i] >= m->info.n_layer)
            return aq_fail(err, AQ_E_FORMAT,
                           "%s: 'qwen4exp.ple.layers' names layer %llu of %u; the file is damaged",
                           m->gguf->shard[0].file, (unsigned long long)layer[i], m->info.n_layer);
        if ((rc = fill_ngram_layer(m, (uint32_t)layer[i], err)) < 0)
            return rc;
    }
    return 0;
}

static int fill(aq_model *m, aq_err *err)
{
    aq_hp hp;
    aq_hp_delta d;
    uint32_t recurrent[AQ_LAYERS_MAX], block[AQ_LAYERS_MAX] = {0}, rank = 0;
    int rc;
    if ((rc = aq_fill_start(m, &hp, err)) < 0 || (rc = aq_get_delta(m, &d, err)) < 0 ||
        (rc = aq_get_recurrent(m, &hp, recurrent, err)) < 0 ||
        (rc = aq_get_sections(m, &hp, err)) < 0 || (rc = aq_fill_moe_keys(m, &hp, err)) < 0 ||
        (rc = get_streams(m, &rank, err)) < 0 ||
        (rc = aq_arch_u32s(m, &hp, "attention.compress_ratios", block, err)) < 0)
        return rc;
    m->n_left_out = m->info.n_draft;
    m->info.n_draft = 0;
    for (uint32_t i = 0; i < m->info.n_layer; i++) {
        if (recurrent[i]) {
            rc = aq_fill_delta(m, &hp, &d, i, false, err);
            m->layer[i].z_sigmoid = 1;
        } else {
            rc = aq_fill_attn(m, &hp, i, AQ_ROPE_NEOX,
                              AQ_FILL_QK_NORM | AQ_FILL_GATED | AQ_FILL_NO_NORM, err);
            if (rc >= 0)
                rc = fill_index(m, &hp, i, block[i], err);
        }
        if (rc < 0 || (rc = aq_fill_moe(m, &hp, i, NULL, err)) < 0 ||
            (rc = fill_streams(m, i, rank, err)) < 0)
            return rc;
    }
    return fill_ngram(m, &hp, err);
}

const aq_arch aq_arch_qwen4exp = {"qwen4exp", fill};
