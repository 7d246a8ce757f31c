/* SPDX-License-Identifier: Apache-2.0 */
/* Models that open: descriptors, figures, weights by position, parts, cards; files that change meanwhile; no memory. */
#include "gguf-priv.h"
#include "gguf-write.h"
#include "tap.h"
#include "torture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[200], path[256];

static aq_model *must_open(const char *p, aq_wsrc *w)
{
    aq_model *m = NULL;
    aq_err err = {0};
    if (aq_model_open(NULL, p, 0, &m, w, &err) < 0)
        printf("# %s\n", err.text);
    return m;
}

static void every_kind(void)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35"}, *const types[] = {
                                                                            "F32",  "F16",  "BF16",
                                                                            "Q8_0", "Q4_1", "Q4_K",
                                                                            "Q5_K", "Q6_K", "NVFP4",
                                                                            "Q1_0", "mix"};
    for (size_t a = 0; a < AQ_LEN(archs); a++) {
        for (size_t t = 0; t < AQ_LEN(types); t++) {
            AQ_AUTO(aq_model_free)
            aq_model *m = gw_model(archs[a], types[t], t, path) < 0 ? NULL : must_open(path, NULL);
            const aq_model_info *in = m ? aq_model_get_info(m) : NULL;
            uint64_t by_layer = in ? in->ends_bytes : 0, by_type = 0;
            for (uint32_t i = 0; in && i < in->n_layer; i++)
                by_layer += in->layer_bytes[i];
            for (uint32_t i = 0; in && i < in->n_type; i++)
                by_type += in->type[i].bytes;
            ok(in && !strcmp(in->arch, archs[a]) && in->n_vocab == GW_VOCAB &&
                   by_layer == by_type && by_type < in->file_bytes && in->cut_ok[0] &&
                   in->cut_ok[in->n_layer],
               "%s in %s: %llu bytes by layer, %llu by type", archs[a], types[t],
               (unsigned long long)by_layer, (unsigned long long)by_type);
        }
    }
}

static bool all_bound(const aq_layer *l, const uint32_t *w, size_t n)
{
    size_t bound = 0;
    for (size_t i = 0; i < n; i++)
        if (l->w[w[i]] < 0)
            return false;
    for (uint32_t i = 0; i < AQ_W_N; i++)
        bound += l->w[i] >= 0;
    return bound == n;
}

static void descriptors(void)
{
    static const uint32_t llama[] = {AQ_W_ATTN_NORM, AQ_W_Q,      AQ_W_K,
                                     AQ_W_V,         AQ_W_O,      AQ_W_FFN_NORM,
                                     AQ_W_FFN_GATE,  AQ_W_FFN_UP, AQ_W_FFN_DOWN};
    static const uint32_t moe[] = {AQ_W_ATTN_NORM, AQ_W_Q,        AQ_W_K,      AQ_W_V,
                                   AQ_W_O,         AQ_W_Q_NORM,   AQ_W_K_NORM, AQ_W_FFN_NORM,
                                   AQ_W_ROUTER,    AQ_W_EXP_GATE, AQ_W_EXP_UP, AQ_W_EXP_DOWN};
    static const uint32_t delta[] = {AQ_W_ATTN_NORM, AQ_W_QKV,     AQ_W_GATE_Z,   AQ_W_ALPHA,
                                     AQ_W_BETA,      AQ_W_CONV,    AQ_W_DT_BIAS,  AQ_W_A,
                                     AQ_W_SSM_NORM,  AQ_W_SSM_OUT, AQ_W_FFN_NORM, AQ_W_FFN_GATE,
                                     AQ_W_FFN_UP,    AQ_W_FFN_DOWN};
    static const uint32_t gated[] = {AQ_W_ATTN_NORM, AQ_W_Q,      AQ_W_K,       AQ_W_V,
                                     AQ_W_O,         AQ_W_Q_NORM, AQ_W_K_NORM,  AQ_W_FFN_NORM,
                                     AQ_W_FFN_GATE,  AQ_W_FFN_UP, AQ_W_FFN_DOWN};
    static const uint32_t draft[] = {AQ_W_ATTN_NORM, AQ_W_Q,      AQ_W_K,           AQ_W_V,
                                     AQ_W_O,         AQ_W_Q_NORM, AQ_W_K_NORM,      AQ_W_FFN_NORM,
                                     AQ_W_FFN_GATE,  AQ_W_FFN_UP, AQ_W_FFN_DOWN,    AQ_W_EH_PROJ,
                                     AQ_W_E_NORM,    AQ_W_H_NORM, AQ_W_SH_HEAD_NORM};
    gw_model("llama", "F16", 1, path);
    aq_model *m = must_open(path, NULL);
    const aq_layer *l = &m->layer[1];
    ok(l->mixer == AQ_MIX_ATTN && l->ffn == AQ_FFN_DENSE && l->rope == AQ_ROPE_NORM && !l->gated &&
           all_bound(l, llama, AQ_LEN(llama)),
       "llama: a layer");
    ok(l->n_head == 4 && l->n_kv == 2 && l->d_k == 32 && l->d_v == 32 && l->n_rot == 32 &&
           l->rope_base == 10000 && l->score_scale * l->score_scale * 32 > 0.999f && l->n_ff == 96,
       "llama: its sizes");
    ok(m->w_out == m->w_embd && m->w_rope_freqs >= 0 && m->eps == 1e-6f && !m->info.recurrent &&
           m->info.kv_f16_bytes_tok == 3 * 2 * 64 * 2,
       "llama: tied head, rope factors, KV bytes");
    aq_model_free(m);

    gw_model("qwen3moe", "F16", 1, path);
    m = must_open(path, NULL);
    l = &m->layer[2];
    ok(l->mixer == AQ_MIX_ATTN && l->ffn == AQ_FFN_MOE && l->rope == AQ_ROPE_NEOX &&
           all_bound(l, moe, AQ_LEN(moe)),
       "qwen3moe: a layer");
    ok(l->n_exp == 8 && l->n_used == 2 && l->n_ff_exp == 32 && l->exp_gate == AQ_GATE_SOFTMAX &&
           l->exp_renorm && l->exp_scale == 1 && m->info.n_expert == 8,
       "qwen3moe: its experts");
    ok(m->w_out >= 0 && m->w_out != m->w_embd && m->w_rope_freqs < 0,
       "qwen3moe: a head of its own");
    aq_model_free(m);

    gw_model("qwen35", "F16", 1, path);
    m = must_open(path, NULL);
    const aq_model_info *in = &m->info;
    ok(in->n_layer == 4 && in->n_draft == 1 && in->recurrent,
       "qwen35: four layers and one for drafts");
    ok(m->layer[0].mixer == AQ_MIX_DELTA && m->layer[1].mixer == AQ_MIX_DELTA &&
           m->layer[2].mixer == AQ_MIX_ATTN && m->layer[3].mixer == AQ_MIX_DELTA &&
           m->layer[4].mixer == AQ_MIX_ATTN,
       "qwen35: every third is attention, the draft layer too");
    l = &m->layer[0];
    ok(all_bound(l, delta, AQ_LEN(delta)) && l->n_kh == 2 && l->n_vh == 4 && l->d_state == 32 &&
           l->conv_k == 4,
       "qwen35: a delta layer");
    l = &m->layer[2];
    ok(all_bound(l, gated, AQ_LEN(gated)) && l->gated && l->n_rot == 32 && l->d_k == 64,
       "qwen35: gated attention");
    ok(all_bound(&m->layer[4], draft, AQ_LEN(draft)), "qwen35: the draft layer");
    ok(in->recur_bytes_seq == 3 * 4 * (4 * 32 * 32 + 3 * 256) &&
           in->kv_f16_bytes_tok == 2 * 2 * 128,
       "qwen35: %llu bytes of state, %llu of KV a token", (unsigned long long)in->recur_bytes_seq,
       (unsigned long long)in->kv_f16_bytes_tok);
    aq_model_free(m);
}

static void look_ups(void)
{
    gw w;
    aq_bytes b = {0};
    aq_gguf *g = NULL;
    aq_err err = {0};
    uint32_t u = 77, us[3] = {7, 7, 7}, kind;
    uint64_t n;
    float f = 7;
    bool yes = false;
    aq_str s;
    aq_cur c;
    gw_begin(&w, 1);
    gw_u32(&w, "u", 4000000000u);
    gw_u16(&w, "u16", 65535);
    gw_f32(&w, "f", 1.5f);
    gw_bool(&w, "b", true);
    gw_str(&w, "s", "text");
    gw_i32s(&w, "a", (int32_t[]){1, 2, 3}, 3);
    gw_i32s(&w, "minus", (int32_t[]){1, -2, 3}, 3);
    ok(gw_end(&w, &b) == 0 && gw_save(&b, path) == 0 && aq_gguf_open(path, &g, &err) == 0,
       "a file of keys opens");
    ok(aq_gguf_u32(g, "u", &u, &err) == 1 && u == 4000000000u &&
           aq_gguf_u32(g, "u16", &u, &err) == 1 && u == 65535,
       "whole numbers of two widths");
    ok(aq_gguf_u32(g, "none", &u, &err) == 0 && u == 65535 &&
           aq_gguf_u32(g, "f", &u, &err) == -AQ_E_FORMAT && u == 65535 && strstr(err.text, "'f'"),
       "absent; of another kind: %s", err.text);
    ok(aq_gguf_f32(g, "f", &f, &err) == 1 && f == 1.5f && aq_gguf_f32(g, "u16", &f, &err) == 1 &&
           f == 65535 && aq_gguf_f32(g, "s", &f, &err) == -AQ_E_FORMAT && f == 65535,
       "numbers");
    ok(aq_gguf_bool(g, "b", &yes, &err) == 1 && yes &&
           aq_gguf_bool(g, "u", &yes, &err) == -AQ_E_FORMAT,
       "yes and no");
    ok(aq_gguf_str(g, "s", &s, &err) == 1 && s.n == 4 && !memcmp(s.p, "text", 4) &&
           aq_gguf_str(g, "a", &s, &err) == -AQ_E_FORMAT,
       "texts");
    ok(aq_gguf_u32s(g, "a", us, 3, &err) == 1 && us[2] == 3 &&
           aq_gguf_u32s(g, "u16", us, 3, &err) == 1 && us[0] == 65535 && us[2] == 65535,
       "one for all or an array");
    ok(aq_gguf_u32s(g, "a", us, 2, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "3 elements, 2 are needed"),
       "an array of another length: %s", err.text);
    ok(aq_gguf_u32s(g, "minus", us, 3, &err) == -AQ_E_FORMAT && us[0] == 65535,
       "a negative number among them leaves the result alone");
    ok(aq_gguf_arr(g, "a", &kind, &n, &c, &err) == 1 && kind == AQ_KV_I32 && n == 3 &&
           aq_cur_left(&c) == 12,
       "an array by view");
    aq_gguf_free(g);
    aq_bytes_clear(&b);
}

/* ---- text: what of it is in the file ---- */

static aq_model *text_model(gw *w, uint32_t flags, aq_err *err)
{
    aq_bytes b = {0};
    aq_model *m = NULL;
    if (gw_end(w, &b) < 0 || gw_save(&b, path) < 0)
        abort();
    aq_bytes_clear(&b);
    *err = (aq_err){0};
    if (aq_model_open(NULL, path, flags, &m, NULL, err) < 0)
        printf("# %s\n", err->text);
    return m;
}

static void text(void)
{
    aq_err err = {0};
    aq_toks t = {0};
    uint32_t n = 0;
    gw w;
    gw_model("llama", "F16", 1, path);
    aq_model *m = must_open(path, NULL);
    ok(!m->info.tok_refused && !m->info.tmpl_refused && m->info.tmpl_src &&
           !strcmp(m->info.tok_model, "gpt2") && !strcmp(m->info.tok_pre, "qwen2"),
       "a model's vocabulary and template are usable");
    ok(aq_tokenize(m, "the\xff", 4, false, &t, &err) == 0 && t.n >= 2 &&
           !strncmp(aq_token_piece(m, t.id[0], &n), "the", n) && n > 1,
       "text becomes tokens by its merges %s", err.text);
    ok(aq_token_is_eog(m, GW_VOCAB - 3) && !aq_token_is_eog(m, 5), "the end of a turn is known");
    aq_toks_clear(&t);
    aq_model_free(m);

    gw_begin(&w, 1);
    gw_str(&w, "tokenizer.ggml.model", "rwkv");
    gw_str(&w, "tokenizer.chat_template", "{% for %}");
    m = text_model(&w, AQ_OPEN_VOCAB, &err);
    ok(m && m->info.tok_refused && strstr(m->info.tok_refused, "rwkv") && m->info.tmpl_refused,
       "a tokenizer and a template that cannot be used: %s; %s", m->info.tok_refused,
       m->info.tmpl_refused);
    ok(aq_tokenize(m, "a", 1, false, &t, &err) == -AQ_E_UNSUPPORTED && strstr(err.text, "rwkv"),
       "and whoever wants it is told: %s", err.text);
    aq_model_free(m);

    gw_begin(&w, 1);
    m = text_model(&w, AQ_OPEN_VOCAB, &err);
    ok(m && m->info.tok_refused && !m->info.tmpl_src && !m->info.tmpl_refused,
       "no tokenizer at all: %s", m->info.tok_refused);
    aq_model_free(m);

    gw_begin(&w, 1);
    gw_str(&w, "tokenizer.chat_template", "ab\001cd{{");
    *(uint8_t *)((uint8_t *)memmem(w.kv.p, w.kv.n, "ab\001cd", 5) + 2) = 0;
    m = text_model(&w, AQ_OPEN_VOCAB, &err);
    ok(m && m->info.tmpl_src && !strcmp(m->info.tmpl_src, "ab") && !m->info.tmpl_refused,
       "a NUL ends a template");
    aq_model_free(m);
}

/** The model at path with a key spelled otherwise, so that it has none. */
static aq_model *without(const char *key)
{
    uint8_t head[8192];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t n = pread(fd, head, sizeof head, 0);
    uint8_t *at = n < 0 ? NULL : memmem(head, (size_t)n, key, strlen(key));
    if (!at || pwrite(fd, "X", 1, at - head) != 1)
        abort();
    close(fd);
    return must_open(path, NULL);
}

/* What other programs take where a file does not say, and so whoever wrote the file. */
static void defaults(void)
{
    gw_model("gemma4", "F16", 1, path);
    aq_model *m = must_open(path, NULL);
    ok(m && m->logit_cap == 15 && m->layer[0].window && m->layer[0].rope_base == 5000,
       "gemma4: as the file says");
    aq_model_free(m);
    m = without("final_logit_softcapping");
    ok(m && m->logit_cap == 30, "gemma4: logits are capped at 30");
    aq_model_free(m);
    m = without("rope.freq_base_swa");
    ok(m && m->layer[0].rope_base == 10000, "gemma4: sliding layers turn by a base of 10000");
    aq_model_free(m);
    gw_model("glm4moe", "F16", 1, path);
    m = must_open(path, NULL);
    ok(m && m->layer[1].exp_renorm, "glm4moe: as the file says");
    aq_model_free(m);
    m = without("expert_weights_norm");
    ok(m && !m->layer[1].exp_renorm, "glm4moe: weights of experts are not renormalised");
    aq_model_free(m);
}

/* An embedding shorter than the vocabulary: ids that no weights stand for. */
static void short_embedding(void)
{
    aq_err err = {0};
    gw w;
    gw_begin(&w, 1);
    gw_str(&w, "general.architecture", "llama");
    gw_u32(&w, "llama.block_count", 1);
    gw_u32(&w, "llama.embedding_length", 4);
    gw_u32(&w, "llama.context_length", 8);
    gw_u32(&w, "llama.feed_forward_length", 4);
    gw_u32(&w, "llama.attention.head_count", 2);
    gw_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gw_vocab(&w);
    static const char *const mats[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                       "ffn_gate", "ffn_up", "ffn_down"};
    const gw_type *f32 = gw_type_find("F32");
    char name[64];
    gw_tensor(&w, "token_embd.weight", f32, 1, 0, (uint64_t[]){4, GW_VOCAB - 1, 0});
    gw_tensor(&w, "output_norm.weight", f32, 1, 0, (uint64_t[]){4, 0});
    gw_tensor(&w, "blk.0.attn_norm.weight", f32, 1, 0, (uint64_t[]){4, 0});
    gw_tensor(&w, "blk.0.ffn_norm.weight", f32, 1, 0, (uint64_t[]){4, 0});
    for (size_t i = 0; i < AQ_LEN(mats); i++) {
        snprintf(name, sizeof name, "blk.0.%s.weight", mats[i]);
        gw_tensor(&w, name, f32, 1, 0, (uint64_t[]){4, 4, 0});
    }
    aq_model *m = text_model(&w, 0, &err);
    ok(m && m->info.tok_refused && strstr(m->info.tok_refused, "272 tokens") &&
           strstr(m->info.tok_refused, "only 271"),
       "more tokens than embeddings: %s", m && m->info.tok_refused ? m->info.tok_refused : "-");
    aq_model_free(m);
}

/* ---- weights by position ---- */

static void weights(void)
{
    aq_wsrc w = {0};
    aq_err err = {0};
    gw_model("qwen3moe", "Q8_0", 5, path);
    aq_model *m = must_open(path, &w);
    int fd = open(path, O_RDWR | O_CLOEXEC), bad = 0;
    uint8_t *a = malloc(1 << 20), *b = malloc(1 << 20);
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        const aq_tensor *t = &m->tensor[i];
        bad += w.read(w.self, i, 0, a, t->bytes, &err) != 0 ||
               pread(fd, b, t->bytes, (off_t)t->off) != (ssize_t)t->bytes ||
               memcmp(a, b, t->bytes) != 0;
        bad +=
            w.read(w.self, i, t->bytes - 3, a, 3, &err) != 0 || memcmp(a, b + t->bytes - 3, 3) != 0;
    }
    ok(!bad, "all %u tensors read as they lie in the file", m->n_tensor);
    ok(w.read(w.self, 0, 1, a, m->tensor[0].bytes, &err) == -AQ_E_INVAL &&
           w.read(w.self, 0, UINT64_MAX, a, 2, &err) == -AQ_E_INVAL &&
           w.read(w.self, m->n_tensor, 0, a, 1, &err) == -AQ_E_INVAL &&
           w.read(w.self, 0, m->tensor[0].bytes, a, 0, &err) == 0,
       "bytes that a tensor does not have are refused: %s", err.text);
    aq_failpoint_set("wsrc-read", 2, 1);
    ok(w.read(w.self, 0, 0, a, 16, &err) == 0 && w.read(w.self, 0, 0, a, 16, &err) == -AQ_E_IO &&
           strstr(err.text, path),
       "a failing disk: %s", err.text);
    uint32_t last = 0;
    for (uint32_t i = 0; i < m->n_tensor; i++)
        if (m->tensor[i].off > m->tensor[last].off)
            last = i;
    unlink(path);
    ok(w.read(w.self, last, 0, a, m->tensor[last].bytes, &err) == 0,
       "a file removed meanwhile is still read");
    struct stat st;
    const struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}};
    bad = fstat(fd, &st) || pwrite(fd, "x", 1, (off_t)m->tensor[last].off) != 1 ||
          futimens(fd, later); /* the clock of files may be too coarse for a test */
    ok(!bad && w.read(w.self, last, 0, a, 1, &err) == -AQ_E_IO &&
           strstr(err.text, "test.gguf was written to while it was being loaded"),
       "one that is written to is an error: %s", err.text);
    const struct timespec before[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
    bad = futimens(fd, before);
    ok(!bad && w.read(w.self, last, 0, a, 1, &err) == 0, "its time as it was: read again");
    bad = ftruncate(fd, (off_t)(m->tensor[last].off + 1));
    ok(!bad && w.read(w.self, last, 0, a, 1, &err) == -AQ_E_IO &&
           strstr(err.text, "cut short while it was being loaded") &&
           w.read(w.self, last, 0, a, m->tensor[last].bytes, &err) == -AQ_E_IO &&
           strstr(err.text, "cut short while it was being loaded") && strstr(err.text, "test.gguf"),
       "one cut short is an error: %s", err.text);
    aq_model_free(m); /* before its weights: either order will do */
    aq_wsrc_close(&w);
    aq_wsrc_close(&w);
    aq_wsrc_close(NULL);
    ok(!w.read && !w.self, "closing twice does nothing");
    close(fd);
    free(a);
    free(b);
    aq_failpoint_set("gguf-read", 1, 1);
    gw_model("llama", "F16", 1, path);
    ok(aq_model_open(NULL, path, 0, &m, NULL, &err) == -AQ_E_IO && strstr(err.text, "cannot read"),
       "a disk that fails while opening: %s", err.text);
    aq_failpoint_set("gguf-read", 0, 0);
}

/* ---- parts ---- */

static void shard_name(char out[256], uint32_t no, uint32_t count)
{
    snprintf(out, 256, "%s/m-%05u-of-%05u.gguf", folder, no + 1, count);
}

/** The model at path once more, in parts: the keys in the first, every count-th tensor in each (the first has none when `bare`). */
static void split(uint32_t count, bool bare, uint32_t claim_count, uint32_t claim_total)
{
    aq_gguf *g = NULL;
    if (aq_gguf_open(path, &g, NULL) < 0)
        abort();
    const aq_shard *s = &g->shard[0];
    size_t kv_end = 24;
    for (uint32_t i = 0; i < s->n_kv; i++)
        kv_end = AQ_MAX(kv_end, s->kv[i].off + s->kv[i].bytes);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (uint32_t no = 0; no < count; no++) {
        gw w;
        aq_bytes b = {0};
        char name[256];
        gw_begin(&w, 1);
        if (!no && aq_bytes_put(&w.kv, s->head + 24, kv_end - 24) < 0)
            abort();
        w.n_kv = no ? 0 : s->n_kv;
        gw_u16(&w, "split.no", (uint16_t)no);
        gw_u16(&w, "split.count", (uint16_t)claim_count);
        gw_i32s(&w, "filler", (int32_t[]){1}, no ? 1 : 0);
        gw_u32(&w, "split.tensors.count", claim_total ? claim_total : g->n_tensor);
        for (uint32_t i = 0; i < g->n_tensor; i++) {
            const aq_tensor *t = &g->tensor[i];
            if ((bare ? 1 + i % (count - 1) : i % count) != no)
                continue;
            char tn[128];
            uint64_t ne[5] = {0};
            memcpy(ne, t->ne, t->n_dims * sizeof ne[0]);
            snprintf(tn, sizeof tn, "%.*s", (int)t->name.n, t->name.p);
            while (w.data.n % 32)
                if (aq_bytes_put(&w.data, "", 1) < 0)
                    abort();
            gw_entry(&w, tn, t->type->id, ne, w.data.n);
            if (aq_bytes_reserve(&w.data, t->bytes) < 0 ||
                pread(fd, w.data.p + w.data.n, t->bytes, (off_t)t->off) != (ssize_t)t->bytes)
                abort();
            w.data.n += t->bytes;
        }
        shard_name(name, no, count);
        if (gw_end(&w, &b) < 0 || gw_save(&b, name) < 0)
            abort();
        aq_bytes_clear(&b);
    }
    close(fd);
    aq_gguf_free(g);
}

static void parts(void)
{
    aq_wsrc w1 = {0}, w2 = {0};
    aq_err err = {0};
    aq_model *m = NULL;
    char name[256], other[256];
    uint8_t *a = malloc(1 << 20), *b = malloc(1 << 20);
    gw_model("qwen35", "F16", 9, path);
    aq_model *whole = must_open(path, &w1);
    for (int bare = 0; bare < 2; bare++) {
        split(3, bare, 3, 0);
        for (uint32_t no = 0; no < 3; no++) {
            int bad = 0;
            shard_name(name, no, 3);
            m = must_open(name, &w2);
            for (uint32_t i = 0; m && i < m->n_tensor; i++) {
                const aq_tensor *t = &m->tensor[i];
                int32_t j = aq_gguf_tensor(whole->gguf, t->name.p, t->name.n);
                bad += j < 0 || w1.read(w1.self, (uint32_t)j, 0, a, t->bytes, &err) ||
                       w2.read(w2.self, i, 0, b, t->bytes, &err) || memcmp(a, b, t->bytes);
            }
            ok(m && m->n_tensor == whole->n_tensor && m->info.n_shard == 3 && !bad,
               "three parts%s, opened by part %u: the same tensors",
               bare ? ", the first without tensors" : "", no + 1);
            aq_model_free(m);
            aq_wsrc_close(&w2);
        }
    }
    m = NULL;
    aq_model_free(whole);
    aq_wsrc_close(&w1);
    free(a);
    free(b);

    shard_name(name, 1, 3);
    snprintf(other, sizeof other, "%s/other.gguf", folder);
    rename(name, other);
    shard_name(name, 0, 3);
    ok(aq_model_open(NULL, name, 0, &m, NULL, &err) == -AQ_E_IO &&
           strstr(err.text, "part 2 of 3 is missing") && strstr(err.text, "m-00002-of-00003.gguf"),
       "a part is missing: %s", err.text);
    ok(aq_model_open(NULL, other, 0, &m, NULL, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "-00002-of-00003.gguf"),
       "a part under another name: %s", err.text);
    shard_name(name, 1, 3);
    rename(other, name);
    char third[256];
    shard_name(third, 2, 3);
    rename(third, name);
    shard_name(name, 0, 3);
    ok(aq_model_open(NULL, name, 0, &m, NULL, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "part 3 of 3, its name and the other parts say 2 of 3"),
       "parts under each other's names: %s", err.text);
    split(3, false, 3, 5);
    ok(aq_model_open(NULL, name, 0, &m, NULL, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "5 were announced"),
       "another number of tensors: %s", err.text);
    split(3, false, 60000, 0);
    ok(aq_model_open(NULL, name, 0, &m, NULL, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "part 1 of 60000"),
       "sixty thousand parts: %s", err.text);
    split(3, false, 3, 0);
    shard_name(other, 1, 3);
    shard_name(name, 2, 3);
    ok(truncate(other, 1000) == 0 && aq_model_open(NULL, name, 0, &m, NULL, &err) == -AQ_E_FORMAT &&
           strstr(err.text, "part 2 of 3") && strstr(err.text, "truncated"),
       "a part cut short: %s", err.text);
    for (uint32_t no = 0; no < 3; no++) {
        shard_name(name, no, 3);
        unlink(name);
    }
}

/** Other forms of names, which programs and people give: %u is the number, counted from `base`. */
static void namings(void)
{
    static const struct {
        const char *form;
        uint32_t count, base;
    } t[] = {{"%s/m.gguf-%05u-of-00003", 3, 1}, {"%s/m.gguf.part%uof3", 3, 1}, {"%s/7b-3x%u", 3, 0},
             {"%s/m-%u-of-12.gguf", 12, 1},     {"%s/1-m-%02u.bin", 12, 0},    {"%s/%u", 11, 1},
             {"%s/m-%05u-of-00003.gguf", 3, 0}};
    aq_err err = {0};
    gw_model("qwen35", "F16", 9, path);
    for (size_t k = 0; k < AQ_LEN(t); k++) {
        char name[256], to[12][256];
        uint32_t count = t[k].count, n_good = 0;
        split(count, false, count, 0);
        for (uint32_t i = count; i-- > 0;) { /* from the last: 00001 may become 00000 */
            shard_name(name, i, count);
            snprintf(to[i], sizeof to[i], "%s/tmp%u", folder, i);
            rename(name, to[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            memcpy(name, to[i], sizeof name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(to[i], sizeof to[i], t[k].form, folder, i + t[k].base);
#pragma GCC diagnostic pop
            rename(name, to[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            aq_model *m = NULL;
            n_good +=
                aq_model_open(NULL, to[i], 0, &m, NULL, &err) == 0 && m->info.n_shard == count;
            aq_model_free(m);
        }
        ok(n_good == count, "%u parts named like %s: opened by %u of them %s", count,
           strrchr(to[0], '/') + 1, n_good, n_good == count ? "" : err.text);
        for (uint32_t i = 0; i < count; i++)
            unlink(to[i]);
    }
}

static void part_refused(uint32_t no, int code, const char *has, const char *what)
{
    aq_model *m = NULL;
    aq_err err = {0};
    char name[256];
    shard_name(name, no, 3);
    ok(aq_model_open(NULL, name, 0, &m, NULL, &err) == -code && !m && strstr(err.text, has),
       "%s: %s", what, err.text);
    aq_model_free(m);
}

/** Sets whose parts name each other wrongly. Nothing goes round: each part is opened once, by its number. */
static void rings(void)
{
    char n[3][256], other[256];
    gw_model("qwen35", "F16", 9, path);
    for (uint32_t i = 0; i < 3; i++)
        shard_name(n[i], i, 3);
    snprintf(other, sizeof other, "%s/other", folder);

    split(3, false, 3, 0);
    rename(n[0], other);
    rename(n[1], n[0]);
    rename(n[2], n[1]);
    rename(other, n[2]);
    part_refused(0, AQ_E_FORMAT, "says that it is part 2 of 3", "names turned in a ring");
    part_refused(1, AQ_E_FORMAT, "says that it is part 3 of 3", "from its second part");
    part_refused(2, AQ_E_FORMAT, "says that it is part 1 of 3", "from its third part");

    split(3, false, 3, 0);
    unlink(n[2]);
    ok(link(n[1], n[2]) == 0, "a part twice");
    part_refused(0, AQ_E_FORMAT, "part 2 of 3, its name and the other parts say 3 of 3", "by link");
    unlink(n[2]);
    ok(symlink(n[0], n[2]) == 0, "the first part as the third");
    part_refused(0, AQ_E_FORMAT, "part 1 of 3, its name and the other parts say 3 of 3",
                 "by symbolic link");
    unlink(n[2]);
    unlink(n[1]);
    ok(symlink(n[1], n[2]) == 0 && symlink(n[2], n[1]) == 0, "links in a circle");
    part_refused(0, AQ_E_IO, "part 2 of 3 is missing or unreadable", "parts in a circle");
    part_refused(1, AQ_E_IO, "m-00002-of-00003.gguf", "the circle itself");
    unlink(n[1]);
    unlink(n[2]);

    split(3, false, 4, 0);
    part_refused(0, AQ_E_IO, "part 4 of 4 is missing", "all say that there is one more");
    split(3, false, 2, 0);
    part_refused(0, AQ_E_FORMAT, "were announced", "or one less");
    part_refused(2, AQ_E_FORMAT, "part 3 of 2, which cannot be", "which the last cannot be");
    split(3, false, 2, 0);
    rename(n[1], other);
    split(3, false, 3, 0);
    rename(other, n[1]);
    part_refused(0, AQ_E_FORMAT,
                 "says that it is part 2 of 2, its name and the other parts say 2 of 3",
                 "one of them counts otherwise");
    split(3, false, 3, 0);
    gw_model("llama", "F16", 9, path);
    rename(n[1], other);
    split(3, false, 3, 0);
    rename(other, n[1]);
    part_refused(0, AQ_E_FORMAT, "parts", "a part of another model");
    for (uint32_t i = 0; i < 3; i++)
        unlink(n[i]);
}

/* ---- cards ---- */

static void cards(void)
{
    aq_bytes card = {0}, again = {0};
    aq_err err = {0};
    gw_model("qwen35", "Q4_1", 2, path);
    aq_model *m = must_open(path, NULL), *c = NULL, *none = NULL;
    int rc = aq_model_card(m, &card, &err);
    ok(rc == 0 && card.n > 0 && card.n < m->info.file_bytes &&
           aq_model_from_card(NULL, card.p, card.n, &c, &err) == 0,
       "a card of %zu bytes makes a model %s", card.n, err.text);
    ok(c && c->n_tensor == m->n_tensor && c->info.n_param == m->info.n_param &&
           c->info.file_bytes == m->info.file_bytes && c->info.ends_bytes == m->info.ends_bytes &&
           !memcmp(c->layer, m->layer, 5 * sizeof *m->layer),
       "the same descriptors");
    ok(c && aq_model_card(c, &again, &err) == 0 && again.n == card.n &&
           !memcmp(again.p, card.p, card.n),
       "its own card is the same");
    int bad = 0;
    for (size_t n = 0; n < card.n; n += n < 64 ? 1 : 31)
        bad += aq_model_from_card(NULL, card.p, n, &none, &err) != -AQ_E_FORMAT || none;
    ok(!bad, "a card cut short anywhere is refused (%d were not)", bad);
    ok(aq_bytes_put(&again, "x", 1) == 0 &&
           aq_model_from_card(NULL, again.p, again.n, &none, &err) == -AQ_E_FORMAT,
       "and one with more behind: %s", err.text);
    again.n--;
    again.p[12 + 7] = 0x7f; /* file_bytes of the first part */
    ok(aq_model_from_card(NULL, again.p, again.n, &none, &err) == -AQ_E_LIMIT,
       "a card of a part of eight exabytes: %s", err.text);
    again.p[4] = 2;
    ok(aq_model_from_card(NULL, again.p, again.n, &none, &err) == -AQ_E_UNSUPPORTED,
       "a card of another version: %s", err.text);
    ok(aq_model_from_card(NULL, path, AQ_CARD_MAX_BYTES + 1, &none, &err) == -AQ_E_LIMIT,
       "a card too large: %s", err.text);
    aq_model_free(c);
    aq_model_free(m);
    aq_bytes_clear(&card);
    aq_bytes_clear(&again);

    gw w; /* a header above the limit of a card */
    aq_bytes b = {0};
    gw_begin(&w, 1);
    gw_str(&w, "general.architecture", "llama");
    char *text = calloc(1, AQ_CARD_MAX_BYTES + 1);
    memset(text, 'x', AQ_CARD_MAX_BYTES);
    gw_str(&w, "long", text);
    free(text);
    m = NULL;
    ok(gw_end(&w, &b) == 0 && gw_save(&b, path) == 0 &&
           aq_model_open(NULL, path, AQ_OPEN_VOCAB, &m, NULL, &err) == 0,
       "a header of more than 8 MiB opens");
    ok(m && aq_model_card(m, &card, &err) == -AQ_E_LIMIT && !card.n, "but makes no card: %s",
       err.text);
    aq_model_free(m);
    aq_bytes_clear(&b);
}

static int open_and_card(void *user)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL, *c = NULL;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes card = {0};
    aq_wsrc w = {0};
    uint8_t b[16];
    int rc = aq_model_open(NULL, user, 0, &m, &w, NULL);
    if (rc >= 0)
        rc = w.read(w.self, 0, 0, b, sizeof b, NULL);
    aq_wsrc_close(&w);
    if (rc >= 0)
        rc = aq_model_card(m, &card, NULL);
    return rc < 0 ? rc : aq_model_from_card(NULL, card.p, card.n, &c, NULL);
}

int main(void)
{
    char name[256];
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.150s/aq-test-open-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/test.gguf", folder);
    every_kind();
    descriptors();
    look_ups();
    text();
    defaults();
    short_embedding();
    weights();
    parts();
    namings();
    rings();
    cards();
    gw_model("qwen35", "Q8_0", 2, path);
    torture("open, read, card", open_and_card, path);
    split(2, false, 2, 0);
    shard_name(name, 1, 2);
    torture("open two parts", open_and_card, name);
    unlink(name);
    shard_name(name, 0, 2);
    unlink(name);
    unlink(path);
    rmdir(folder);
    return tap_done();
}
