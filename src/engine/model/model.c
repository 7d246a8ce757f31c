/* SPDX-License-Identifier: Apache-2.0 */
/* Open a model: header, architecture, descriptors, and the figures that others plan with. One thread opens; the result is immutable. */
#include <inttypes.h>
#include <stdio.h>

#include "arch-priv.h"
#include "model-text-priv.h"

static const char *file_of(const aq_model *m)
{
    return m->gguf->shard[0].file;
}

/** A string key as a NUL-terminated copy (cut at a NUL inside); dflt when absent. */
static int copy_str(aq_model *m, const char *key, const char *dflt, const char **ret, aq_err *err)
{
    aq_str s;
    int rc = aq_gguf_str(m->gguf, key, &s, err);
    if (rc < 0)
        return rc;
    if (!rc) {
        *ret = dflt;
        return 0;
    }
    char *p = aq_arena_strndup(m->arena, s.p, s.n);
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for '%s'", file_of(m), key);
    *ret = p;
    return 0;
}

/** Append to a list in a message, as far as it fits. */
static void list_add(char *buf, size_t cap, const char *name)
{
    size_t n = strlen(buf);
    snprintf(buf + n, cap - n, "%s%s", n ? ", " : "", name);
}

static int find_arch(const aq_model *m, const aq_arch **ret, aq_err *err)
{
    char known[160] = "";
    for (const aq_arch *const *a = aq_archs; *a; a++) {
        if (!strcmp((*a)->name, m->info.arch)) {
            *ret = *a;
            return 0;
        }
        list_add(known, sizeof known, (*a)->name);
    }
    char show[AQ_SHOW_BYTES];
    aq_str name = {m->info.arch, (uint32_t)strlen(m->info.arch)};
    return aq_fail(err, AQ_E_UNSUPPORTED,
                   "%s is of architecture '%s', which this version does not run; it runs %s",
                   file_of(m), aq_str_show(name, show), known);
}

static int check_types(const aq_model *m, aq_err *err)
{
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        const aq_tensor *t = &m->tensor[i];
        if (t->type->dequant)
            continue;
        char known[320] = "", show[AQ_SHOW_BYTES];
        for (uint32_t id = 0; id < 64; id++) {
            const aq_type *k = aq_type_get(id);
            if (k && k->dequant)
                list_add(known, sizeof known, k->name);
        }
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s: tensor '%s' is stored as %s, which this version does not compute with; "
                       "it reads %s: choose another quantisation of the model",
                       m->gguf->shard[t->shard].file, aq_str_show(t->name, show), t->type->name,
                       known);
    }
    return 0;
}

/** How some file's activations were to be rounded for 4-bit products: nothing is rounded that way here. */
static bool input_scale(aq_str name)
{
    static const char end[] = ".input_scale";
    uint32_t n = sizeof end - 1;
    return name.n > n && !memcmp(name.p + name.n - n, end, n);
}

/** Beside attn_kv_b some files have its halves once more. */
static bool said_twice(const aq_model *m, aq_str name)
{
    static const char *const half[] = {"attn_k_b.weight", "attn_v_b.weight"};
    for (uint32_t i = 0; i < m->info.n_layer + m->info.n_draft; i++)
        for (size_t j = 0; j < AQ_LEN(half) && m->layer[i].kv_b; j++) {
            char full[40];
            int n = snprintf(full, sizeof full, "blk.%u.%s", i, half[j]);
            if (name.n == (uint32_t)n && !memcmp(name.p, full, name.n))
                return true;
        }
    return false;
}

/** A tensor `blk.N.…` of a layer that is not computed. */
static bool left_out(const aq_model *m, aq_str name)
{
    for (uint32_t i = 0; i < m->n_left_out; i++) {
        char pre[24];
        uint32_t n = (uint32_t)snprintf(pre, sizeof pre, "blk.%u.", m->info.n_layer + i);
        if (name.n > n && !memcmp(name.p, pre, n))
            return true;
    }
    return false;
}

/** A tensor that no descriptor names would be silently left out of the computation: the model is then another than it says. */
static int check_all_bound(const aq_model *m, aq_err *err)
{
    AQ_AUTOFREE uint8_t *used = calloc(m->n_tensor, 1);
    if (!used)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for %u tensors", file_of(m), m->n_tensor);
    const int32_t ends[] = {m->w_embd,     m->w_out_norm, m->w_out,      m->w_rope_freqs,
                            m->w_ple_embd, m->w_ple_proj, m->w_ple_norm, m->w_hc_norm,
                            m->w_hc_down,  m->w_hc_up,    m->w_ngram,    m->w_out_fac};
    for (size_t i = 0; i < AQ_LEN(ends); i++)
        if (ends[i] >= 0)
            used[ends[i]] = 1;
    for (uint32_t i = 0; i < m->info.n_layer + m->info.n_draft; i++)
        for (uint32_t w = 0; w < AQ_W_N; w++) {
            if (m->layer[i].w[w] >= 0)
                used[m->layer[i].w[w]] = 1;
            if (m->layer[i].fac[w] >= 0)
                used[m->layer[i].fac[w]] = 1;
        }
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        char show[AQ_SHOW_BYTES];
        if (!used[i] && !left_out(m, m->tensor[i].name) && !input_scale(m->tensor[i].name) &&
            !said_twice(m, m->tensor[i].name))
            return aq_fail(err, AQ_E_UNSUPPORTED,
                           "%s: tensor '%s' has no place in a %s model as this version knows it, "
                           "so the answers would be wrong without it",
                           m->gguf->shard[m->tensor[i].shard].file,
                           aq_str_show(m->tensor[i].name, show), m->info.arch);
    }
    return 0;
}

uint64_t aq_role_bytes(const aq_model *m, const aq_layer *l, uint32_t role)
{
    const aq_tensor *t = &m->tensor[l->w[role]];
    uint64_t whole = t->ne[1] > 1 ? t->ne[1] : t->ne[0];
    if (l->kv_b && role == AQ_W_K_B)
        return (uint64_t)l->n_head * l->d_nope * l->n_lora * aq_keys_type(t->type)->block_bytes;
    if (l->kv_b && role == AQ_W_V_B)
        return t->bytes / whole * l->n_head * l->d_val;
    return l->rows[role] ? t->bytes / whole * l->rows[role] : t->bytes;
}

static uint64_t layer_weights(const aq_model *m, uint32_t i)
{
    uint64_t n = 0;
    for (uint32_t w = 0; w < AQ_W_N; w++)
        if (m->layer[i].w[w] >= 0)
            n += aq_role_bytes(m, &m->layer[i], w);
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = ((const aq_type_use *)a)->bytes, y = ((const aq_type_use *)b)->bytes;
    return (x < y) - (x > y);
}

static int sum_types(aq_model *m, aq_err *err)
{
    aq_model_info *in = &m->info;
    aq_type_use *use = aq_arena_alloc(m->arena, 64 * sizeof *use);
    if (!use)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for its figures", file_of(m));
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        const aq_tensor *t = &m->tensor[i];
        uint32_t k = 0;
        while (k < in->n_type && use[k].name != t->type->name)
            k++;
        if (k == in->n_type) /* there are fewer than 64 types */
            use[in->n_type++].name = t->type->name;
        use[k].n_tensor++;
        use[k].bytes += t->bytes;
        in->n_param += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
    qsort(use, in->n_type, sizeof *use, by_bytes);
    in->type = use;
    in->file_bytes = m->gguf->file_bytes;
    in->n_shard = m->gguf->n_shard;
    return 0;
}

static int sum_layers(aq_model *m, aq_err *err)
{
    aq_model_info *in = &m->info;
    uint8_t *cut = aq_arena_alloc(m->arena, in->n_layer + 1);
    uint64_t *bytes = aq_arena_alloc(m->arena, in->n_layer * sizeof *bytes);
    if (!cut || !bytes)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for %u layers", file_of(m), in->n_layer);
    /* as they are loaded: what both need counts twice */
    const int32_t ends[] = {m->w_embd,      m->w_out_norm, m->w_out == m->w_embd ? -1 : m->w_out,
                            m->w_hc_norm,   m->w_hc_down,  m->w_hc_up,
                            m->w_rope_freqs};
    const int32_t all[] = {m->w_rope_freqs, m->w_ple_embd, m->w_ple_proj, m->w_ple_norm,
                           m->w_ple_embd >= 0 ? m->w_embd : -1};
    for (size_t i = 0; i < AQ_LEN(ends); i++)
        in->ends_bytes += ends[i] >= 0 ? m->tensor[ends[i]].bytes : 0;
    for (size_t i = 0; i < AQ_LEN(all); i++)
        in->stage_bytes += all[i] >= 0 ? m->tensor[all[i]].bytes : 0;
    for (uint32_t i = 0; i < in->n_layer + in->n_draft; i++) {
        const aq_layer *l = &m->layer[i];
        if (i < in->n_layer) {
            cut[i] = l->cut_ok;
            bytes[i] = layer_weights(m, i);
        } else {
            in->ends_bytes += layer_weights(m, i);
        }
        if (l->mixer == AQ_MIX_DELTA) {
            uint64_t ch = 2 * (uint64_t)l->n_kh * l->d_state + (uint64_t)l->n_vh * l->d_state;
            in->recurrent = true;
            in->recur_bytes_seq +=
                4 * ((uint64_t)l->n_vh * l->d_state * l->d_state + (l->conv_k - 1) * ch);
        } else if (l->mixer == AQ_MIX_LATENT) {
            in->kv_f16_bytes_tok += 2 * (uint64_t)l->d_k;
            in->kv_q8_bytes_tok += aq_kv_row_bytes(AQ_KV_Q8_0, l->d_k);
        } else if (!l->kv_back) {
            in->kv_f16_bytes_tok += 2 * (uint64_t)l->n_kv * (l->d_k + l->d_v);
            in->kv_q8_bytes_tok += (uint64_t)l->n_kv * (aq_kv_row_bytes(AQ_KV_Q8_0, l->d_k) +
                                                        aq_kv_row_bytes(AQ_KV_Q8_0, l->d_v));
        }
        if (l->n_idx) { /* a raw key in f16, and a block's share of its key in f32 */
            uint64_t idx = 2 * (uint64_t)l->d_idx + 4 * (uint64_t)l->d_idx / l->idx_block;
            in->kv_f16_bytes_tok += idx;
            in->kv_q8_bytes_tok += idx;
        }
        if (l->ng_back) {
            in->recurrent = true;
            in->recur_bytes_seq +=
                4 * ((uint64_t)l->ng_back * m->n_stream * in->n_embd + m->ngram.size - 1);
        }
    }
    cut[0] = cut[in->n_layer] = 1;
    in->cut_ok = cut;
    in->layer_bytes = bytes;
    return 0;
}

/** Descriptors and figures of a model that can be computed. */
static int fill(aq_model *m, aq_err *err)
{
    const aq_arch *arch = NULL;
    int rc = find_arch(m, &arch, err);
    if (rc < 0)
        return rc;
    if (!m->n_tensor)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s holds a vocabulary but no weights; choose a file with the whole model",
                       file_of(m));
    if ((rc = check_types(m, err)) < 0 || (rc = arch->fill(m, err)) < 0 ||
        (rc = check_all_bound(m, err)) < 0)
        return rc;
    return sum_layers(m, err);
}

/** Everything behind the parsed header; takes over *g in any case. */
static int build(aq_gguf *g, uint32_t flags, aq_model **ret, aq_err *err)
{
    AQ_AUTO(aq_gguf_free) aq_gguf *gguf = g;
    AQ_AUTO(aq_model_free) aq_model *m = calloc(1, sizeof *m);
    if (!m || !(m->arena = aq_arena_new(0)))
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory to open it", gguf->shard[0].file);
    m->gguf = AQ_STEAL(gguf);
    m->tensor = m->gguf->tensor;
    m->n_tensor = m->gguf->n_tensor;
    m->w_embd = m->w_out_norm = m->w_out = m->w_out_fac = m->w_rope_freqs = -1;
    m->w_ple_embd = m->w_ple_proj = m->w_ple_norm = -1;
    m->w_hc_norm = m->w_hc_down = m->w_hc_up = m->w_ngram = -1;
    int rc;
    if ((rc = copy_str(m, "general.architecture", "", &m->info.arch, err)) < 0 ||
        (rc = copy_str(m, "general.name", "", &m->info.name, err)) < 0 ||
        (rc = sum_types(m, err)) < 0)
        return rc;
    bool vocab_only = flags & AQ_OPEN_VOCAB;
    if (!vocab_only && !*m->info.arch)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s has no key 'general.architecture', so nobody can tell how to run it; "
                       "the file is incomplete or was converted wrongly",
                       file_of(m));
    if ((!vocab_only && (rc = fill(m, err)) < 0) || (rc = aq_model_bind_text(m, err)) < 0)
        return rc;
    *ret = AQ_STEAL(m);
    return 0;
}

int aq_model_open(aq_rt *rt, const char *path, uint32_t flags, aq_model **ret, aq_wsrc *ret_src,
                  aq_err *err)
{
    aq_gguf *g;
    aq_model *m;
    int rc = aq_gguf_open(path, &g, err);
    if (rc < 0 || (rc = build(g, flags, &m, err)) < 0)
        return rc;
    if (ret_src && (rc = aq_wsrc_files(m->gguf, ret_src, err)) < 0) {
        aq_model_free(m);
        return rc;
    }
    for (uint32_t i = 0; i < m->gguf->n_shard; i++)
        aq_fd_close_p(&m->gguf->shard[i].fd);
    *ret = m;
    return 0;
}

void aq_model_free(aq_model *m)
{
    if (!m)
        return;
    aq_model_free_text(m);
    aq_arena_free(m->arena);
    aq_gguf_free(m->gguf);
    free(m);
}

const aq_model_info *aq_model_get_info(const aq_model *m)
{
    return &m->info;
}

uint64_t aq_model_kv_bytes_tok(const aq_model_info *in, uint32_t kv_type)
{
    return kv_type == AQ_KV_Q8_0  ? in->kv_q8_bytes_tok
           : kv_type == AQ_KV_F32 ? 2 * in->kv_f16_bytes_tok
                                  : in->kv_f16_bytes_tok;
}

/* ---- card: what a PC without the file needs -----------------------------------------------------------------------------
 *
 *   "AQMC"  u32 version = 1  u32 n_shard  n_shard × { u64 file_bytes  u64 head_bytes }  the headers, one behind the other
 *
 * A header is the shard's own bytes up to the end of its tensor table, so that a card is checked by the parser that checks files. */

#define CARD_MAGIC 0x434d5141u
#define CARD_VERSION 1u

static int put_u32(aq_bytes *b, uint32_t v)
{
    uint8_t le[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    return aq_bytes_put(b, le, 4);
}

static int put_u64(aq_bytes *b, uint64_t v)
{
    int rc = put_u32(b, (uint32_t)v);
    return rc < 0 ? rc : put_u32(b, (uint32_t)(v >> 32));
}

int aq_model_card(const aq_model *m, aq_bytes *ret, aq_err *err)
{
    const aq_gguf *g = m->gguf;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint64_t total = 12;
    for (uint32_t i = 0; i < g->n_shard; i++)
        total += 16 + g->shard[i].head_bytes;
    if (total > AQ_CARD_MAX_BYTES)
        return aq_fail(err, AQ_E_LIMIT,
                       "the header of %s takes %" PRIu64
                       " bytes, at most %u can be handed to another PC",
                       file_of(m), total, AQ_CARD_MAX_BYTES);
    int rc = put_u32(&b, CARD_MAGIC);
    rc = rc < 0 ? rc : put_u32(&b, CARD_VERSION);
    rc = rc < 0 ? rc : put_u32(&b, g->n_shard);
    for (uint32_t i = 0; i < g->n_shard && rc >= 0; i++) {
        rc = put_u64(&b, g->shard[i].file_bytes);
        rc = rc < 0 ? rc : put_u64(&b, g->shard[i].head_bytes);
    }
    for (uint32_t i = 0; i < g->n_shard && rc >= 0; i++)
        rc = aq_bytes_put(&b, g->shard[i].head, g->shard[i].head_bytes);
    if (rc >= 0)
        rc = aq_bytes_put(ret, b.p, b.n); /* whole or not at all */
    if (rc < 0)
        return aq_fail(err, -rc, "no memory for the card of %s", file_of(m));
    return 0;
}

int aq_model_from_card(aq_rt *rt, const void *card, size_t n, aq_model **ret, aq_err *err)
{
    aq_cur c = {card, n, 0};
    uint32_t magic, version, n_shard;
    if (n > AQ_CARD_MAX_BYTES)
        return aq_fail(err, AQ_E_LIMIT, "a model card of %zu bytes came, the limit is %u", n,
                       AQ_CARD_MAX_BYTES);
    if (aq_cur_get_u32(&c, &magic) < 0 || magic != CARD_MAGIC || aq_cur_get_u32(&c, &version) < 0)
        return aq_fail(err, AQ_E_FORMAT, "this is no model card");
    if (version != CARD_VERSION)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "the model card is of version %u, this program reads version %u; use the "
                       "same version on both PCs",
                       version, CARD_VERSION);
    if (aq_cur_get_u32(&c, &n_shard) < 0 || !n_shard || n_shard > AQ_GGUF_SHARDS_MAX)
        return aq_fail(
            err, AQ_E_FORMAT,
            "the model card is damaged: its number of parts is missing or not within 1 to %u",
            AQ_GGUF_SHARDS_MAX);
    AQ_AUTOFREE aq_head_view *v = calloc(n_shard, sizeof *v);
    if (!v)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read a model card");
    int short_rc = 0;
    for (uint32_t i = 0; i < n_shard && !short_rc; i++) {
        uint64_t head;
        if (aq_cur_get_u64(&c, &v[i].file_bytes) < 0 || aq_cur_get_u64(&c, &head) < 0)
            short_rc = -1;
        else if (head > n || head > v[i].file_bytes)
            return aq_fail(err, AQ_E_FORMAT,
                           "the model card is damaged: part %u claims a header of %" PRIu64
                           " bytes",
                           i + 1, head);
        else
            v[i].n = (size_t)head;
    }
    for (uint32_t i = 0; i < n_shard && !short_rc; i++)
        short_rc = aq_cur_get_bytes(&c, v[i].n, &v[i].head);
    if (short_rc || aq_cur_left(&c))
        return aq_fail(
            err, AQ_E_FORMAT,
            "the model card is damaged: it has %zu bytes, which is %s than its parts need", n,
            short_rc ? "less" : "more");
    aq_gguf *g;
    int rc = aq_gguf_from_heads(v, n_shard, &g, err);
    return rc < 0 ? rc : build(g, 0, ret, err);
}
