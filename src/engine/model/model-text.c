/* SPDX-License-Identifier: Apache-2.0 */
/* Between a model file and the text room: reads tokenizer.* keys into a vocabulary and a template, and implements the text part
 * of engine.h. What cannot be used is refused in words (`tok_refused`, `tmpl_refused`) and the model still opens.
 * Everything is immutable after loading; any thread. */
#include "model-text-priv.h"
#include "chat-priv.h"

#include <limits.h>

/* Without a template, or with one that cannot be read: ChatML where the vocabulary has its tokens, else names before texts. */
static const char chatml[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
static const char plain[] =
    "{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}";

/* Array of strings as views into the header; *ret NULL when absent. */
static int strings(const aq_gguf *g, const char *key, aq_vstr **ret, uint32_t *ret_n, uint32_t max,
                   aq_err *err)
{
    AQ_AUTOFREE aq_vstr *s = NULL;
    uint32_t kind;
    uint64_t n;
    aq_cur c;
    int rc = aq_gguf_arr(g, key, &kind, &n, &c, err);

    if (rc <= 0)
        return rc;
    if (kind != AQ_KV_STR || n > max)
        return aq_fail(err, kind != AQ_KV_STR ? AQ_E_FORMAT : AQ_E_LIMIT,
                       "%s: an array of at most %u strings is wanted", key, max);
    if (!(s = malloc((n + 1) * sizeof *s)))
        return aq_fail(err, AQ_E_NOMEM, "%s: out of memory for %llu strings", key,
                       (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t len;
        const uint8_t *p;
        if (aq_cur_get_u64(&c, &len) < 0 || len > UINT32_MAX || aq_cur_get_bytes(&c, len, &p) < 0)
            return aq_fail(err, AQ_E_FORMAT, "%s: string %llu does not fit into the file", key,
                           (unsigned long long)i);
        s[i] = (aq_vstr){(const char *)p, (uint32_t)len};
    }
    *ret = AQ_STEAL(s);
    *ret_n = (uint32_t)n;
    return 1;
}

/* Array of one 4-byte number per token, as bytes of `out` made by the caller's kind; *ret NULL when absent. */
static int numbers(const aq_gguf *g, const char *key, bool as_float, uint32_t n_tok, void **ret,
                   aq_err *err)
{
    uint32_t kind;
    uint64_t n;
    aq_cur c;
    int rc = aq_gguf_arr(g, key, &kind, &n, &c, err);

    if (rc <= 0)
        return rc;
    if (n != n_tok || (as_float ? kind != AQ_KV_FLOAT : kind != AQ_KV_I32 && kind != AQ_KV_U32))
        return aq_fail(err, AQ_E_FORMAT, "%s: %u %s are wanted, one a token; there are %llu", key,
                       n_tok, as_float ? "floats" : "integers", (unsigned long long)n);
    AQ_AUTOFREE uint8_t *m = malloc((n + 1) * (as_float ? sizeof(float) : 1));
    if (!m)
        return aq_fail(err, AQ_E_NOMEM, "%s: out of memory", key);
    for (uint32_t i = 0; i < n_tok; i++) {
        uint32_t u;
        float f;
        if ((rc = as_float ? aq_cur_get_f32(&c, &f) : aq_cur_get_u32(&c, &u)) < 0)
            return aq_fail(err, AQ_E_FORMAT, "%s: it does not fit into the file", key);
        if (as_float)
            ((float *)m)[i] = f;
        else
            m[i] = u > 255 ? 255 : (uint8_t)u;
    }
    *ret = AQ_STEAL(m);
    return 1;
}

/* Key → copy, NULL when absent. */
static int text_of(const aq_gguf *g, const char *key, char **ret, uint32_t *ret_n, aq_err *err)
{
    aq_str s;
    int rc = aq_gguf_str(g, key, &s, err);

    if (rc <= 0)
        return rc;
    if (!(*ret = strndup(s.p, s.n)))
        return aq_fail(err, AQ_E_NOMEM, "%s: out of memory", key);
    if (ret_n)
        *ret_n = (uint32_t)strlen(*ret); /* a NUL inside ends it */
    return 1;
}

/* A token id; -1 when absent, or when it is what converters write for "none". */
static int id_of(const aq_gguf *g, const char *key, int32_t *ret, aq_err *err)
{
    uint32_t u;
    int rc = aq_gguf_u32(g, key, &u, err);

    *ret = rc <= 0 || u == UINT32_MAX ? -1 : u > INT32_MAX ? INT32_MAX : (int32_t)u;
    return rc < 0 ? rc : 0;
}

static int load_vocab(aq_model *m, const char *model, const char *pre, aq_err *err)
{
    AQ_AUTOFREE aq_vstr *tok = NULL, *merge = NULL;
    AQ_AUTOFREE void *type = NULL, *score = NULL;
    aq_vocab_in in = {.model = model, .pre = pre};
    const aq_gguf *g = m->gguf;
    int rc;

    if (!model)
        return aq_fail(err, AQ_E_UNSUPPORTED, "the file has no tokenizer");
    if (!aq_vocab_known(model,
                        pre)) /* before anything is read, so that the refusal names what matters */
        return aq_vocab_new(&in, &m->vocab, err);
    /* What these kinds mean when the file does not say. */
    in.add_bos = aq_vocab_adds_bos(model, pre);
    in.add_space_prefix = !strcmp(model, "llama");
    if ((rc = strings(g, "tokenizer.ggml.tokens", &tok, &in.n_tok, AQ_VOCAB_TOK_MAX, err)) < 0 ||
        (rc = strings(g, "tokenizer.ggml.merges", &merge, &in.n_merge, AQ_VOCAB_MERGE_MAX, err)) <
            0 ||
        (rc = numbers(g, "tokenizer.ggml.token_type", false, in.n_tok, &type, err)) < 0 ||
        (rc = numbers(g, "tokenizer.ggml.scores", true, in.n_tok, &score, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.bos_token_id", &in.bos, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.eos_token_id", &in.eos, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.eot_token_id", &in.eot, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.eom_token_id", &in.eom, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.unknown_token_id", &in.unk, err)) < 0 ||
        (rc = id_of(g, "tokenizer.ggml.padding_token_id", &in.pad, err)) < 0 ||
        (rc = aq_gguf_bool(g, "tokenizer.ggml.add_bos_token", &in.add_bos, err)) < 0 ||
        (rc = aq_gguf_bool(g, "tokenizer.ggml.add_space_prefix", &in.add_space_prefix, err)) < 0)
        return rc;
    if (m->info.n_vocab && in.n_tok > m->info.n_vocab) /* such ids would have no embedding */
        return aq_fail(err, AQ_E_FORMAT,
                       "the vocabulary has %u tokens, the model's embedding only %u", in.n_tok,
                       m->info.n_vocab);
    in.tok = tok;
    in.merge = merge;
    in.type = type;
    in.score = score;
    return aq_vocab_new(&in, &m->vocab, err);
}

int aq_model_bind_text(aq_model *m, aq_err *err)
{
    aq_err why = {0};
    char *model = NULL, *pre = NULL, *src = NULL;
    uint32_t n_src = 0;
    int rc, rc_model = text_of(m->gguf, "tokenizer.ggml.model", &model, NULL, err);

    m->info.tok_model = model ? model : strdup("");
    if (rc_model < 0 || (rc = text_of(m->gguf, "tokenizer.ggml.pre", &pre, NULL, err)) < 0)
        return rc_model < 0 ? rc_model : rc;
    m->info.tok_pre = pre ? pre : strdup("");
    if (!m->info.tok_model || !m->info.tok_pre)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    if ((rc = text_of(m->gguf, "tokenizer.chat_template", &src, &n_src, err)) < 0)
        return rc;
    m->info.tmpl_src = src;
    if ((rc = load_vocab(m, model, pre, &why)) < 0) {
        if (rc == -AQ_E_NOMEM || !(m->info.tok_refused = strdup(why.text)))
            return aq_fail(err, AQ_E_NOMEM, "%s", why.text[0] ? why.text : "out of memory");
    }
    if (src && (rc = aq_tmpl_new(src, n_src, &m->tmpl, &why)) < 0) {
        if (rc == -AQ_E_NOMEM || !(m->info.tmpl_refused = strdup(why.text)))
            return aq_fail(err, AQ_E_NOMEM, "%s", why.text[0] ? why.text : "out of memory");
    }
    if (!m->tmpl) { /* the stated fallback */
        bool has = m->vocab && aq_vocab_find_special(m->vocab, "<|im_start|>", 12) >= 0 &&
                   aq_vocab_find_special(m->vocab, "<|im_end|>", 10) >= 0;
        if ((rc = aq_tmpl_new(has ? chatml : plain, strlen(has ? chatml : plain), &m->tmpl, err)) <
            0)
            return rc;
        src = NULL;
    }
    if (!(m->chat = malloc(sizeof *m->chat)))
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    return aq_chat_probe(m->tmpl, src, m->vocab, m->chat, err);
}

void aq_model_free_text(aq_model *m)
{
    aq_vocab_free(m->vocab);
    aq_tmpl_free(m->tmpl);
    free((char *)(uintptr_t)m->info.tok_model);
    free((char *)(uintptr_t)m->info.tok_pre);
    free((char *)(uintptr_t)m->info.tok_refused);
    free((char *)(uintptr_t)m->info.tmpl_src);
    free((char *)(uintptr_t)m->info.tmpl_refused);
    free(m->chat);
    m->vocab = NULL;
    m->tmpl = NULL;
    m->chat = NULL;
    m->info.tok_model = m->info.tok_pre = m->info.tok_refused = m->info.tmpl_src =
        m->info.tmpl_refused = NULL;
}

/* ---- engine.h ---- */

static int need_vocab(const aq_model *m, aq_err *err)
{
    return m->vocab ? 0
                    : aq_fail(err, AQ_E_UNSUPPORTED, "tokenizer: %s",
                              m->info.tok_refused ? m->info.tok_refused : "the model has none");
}

int aq_tokenize(const aq_model *m, const char *text, size_t n, bool special, aq_toks *ret,
                aq_err *err)
{
    int rc = need_vocab(m, err);

    return rc < 0 ? rc : aq_vocab_encode(m->vocab, text, n, special, ret, err);
}

const char *aq_token_piece(const aq_model *m, int32_t id, uint32_t *ret_n)
{
    const char *p = m->vocab ? aq_vocab_piece(m->vocab, id, ret_n) : NULL;

    if (!p)
        *ret_n = 0;
    return p ? p : m->vocab && aq_vocab_type(m->vocab, id) ? "" : NULL;
}

bool aq_token_is_eog(const aq_model *m, int32_t id)
{
    return m->vocab && aq_vocab_is_eog(m->vocab, id);
}

/* A template and variables from text; t is the one to use, own the one to free. */
typedef struct job {
    aq_arena *arena;
    aq_tmpl *own;
    const aq_tmpl *t;
    const aq_json *vars;
} job;

static void job_clear_p(job *j)
{
    aq_tmpl_free(j->own);
    aq_arena_free(j->arena);
}

static int prepare(const aq_model *m, const char *tmpl, size_t n_tmpl, const char *vars_json,
                   size_t n_vars, job *j, aq_err *err)
{
    int rc;

    if (n_vars > AQ_PROMPT_MAX_BYTES)
        return aq_fail(err, AQ_E_LIMIT,
                       "template: variables of %zu bytes are more than the %u allowed", n_vars,
                       AQ_PROMPT_MAX_BYTES);
    if (!tmpl && (!m || !m->tmpl))
        return aq_fail(err, AQ_E_INVAL,
                       "template: there is neither a model's nor another one; name one");
    if (!(j->arena = aq_arena_new(0)))
        return aq_fail(err, AQ_E_NOMEM, "template: out of memory");
    if (tmpl && (rc = aq_tmpl_new(tmpl, n_tmpl, &j->own, err)) < 0)
        return rc;
    j->t = tmpl ? j->own : m->tmpl;
    if ((rc = aq_json_parse(j->arena, vars_json, n_vars, &j->vars, err)) < 0)
        return aq_err_prefix(err, rc, "template variables");
    return 0;
}

int aq_render(const aq_model *m, const char *tmpl, size_t n_tmpl, const char *vars_json,
              size_t n_vars, aq_rendered *ret, aq_err *err)
{
    __attribute__((cleanup(job_clear_p))) job j = {0};
    int rc = prepare(m, tmpl, n_tmpl, vars_json, n_vars, &j, err);

    return rc < 0 ? rc : aq_tmpl_render_whole(j.t, j.vars, ret, err);
}

int aq_render_tokens(const aq_model *m, const char *tmpl, size_t n_tmpl, const char *vars_json,
                     size_t n_vars, aq_toks *ret, aq_err *err)
{
    __attribute__((cleanup(job_clear_p))) job j = {0};
    int rc = need_vocab(m, err);

    if (rc < 0 || (rc = prepare(m, tmpl, n_tmpl, vars_json, n_vars, &j, err)) < 0)
        return rc;
    return aq_chat_encode(m->vocab, j.t, j.vars, ret, err);
}

int aq_chat_prompt(const aq_model *m, const aq_req_in *in, aq_bytes *ret_text, aq_toks *ret_toks,
                   aq_err *err)
{
    AQ_AUTO(aq_prompt_clear) aq_prompt p = {0};
    aq_req_in req = *in;

    if (ret_text) /* the template's words */
        req.turn = NULL;
    int rc = aq_prompt_make(m, &req, &p, err);
    if (rc < 0)
        return rc;
    if (ret_text) {
        *ret_text = p.text;
        p.text = (aq_bytes){0};
    }
    if (ret_toks) {
        *ret_toks = p.toks;
        p.toks = (aq_toks){0};
    }
    return 0;
}
