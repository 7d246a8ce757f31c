/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of a request: its messages, tools and variables as the template's variables, rendered and tokenized. Any thread. */
#include "chat-priv.h"
#include "model-priv.h"

void aq_prompt_clear(aq_prompt *p)
{
    aq_bytes_clear(&p->text);
    aq_toks_clear(&p->toks);
    *p = (aq_prompt){0};
}

static int parse(aq_arena *a, const char *what, const char *text, int kind, const aq_json **ret,
                 aq_err *err)
{
    size_t n = strlen(text);
    const aq_json *j;

    if (n > AQ_PROMPT_MAX_BYTES)
        return aq_fail(err, AQ_E_LIMIT, "%s have %zu bytes, at most %u are allowed", what, n,
                       AQ_PROMPT_MAX_BYTES);
    int rc = aq_json_parse(a, text, n, &j, err);
    if (rc == -AQ_E_FORMAT) {
        if (err)
            err->code = AQ_E_INVAL;
        return aq_err_prefix(err, -AQ_E_INVAL, "%s", what);
    }
    if (rc < 0)
        return rc;
    if (j->kind != kind)
        return aq_fail(err, AQ_E_INVAL, "%s must be a JSON %s", what,
                       kind == AQ_JSON_ARR ? "array" : "object");
    *ret = j;
    return 0;
}

static int put_special(aq_bytes *b, const char *key, const aq_vocab *v, int32_t id)
{
    uint32_t n = 0;
    const char *p = id >= 0 ? aq_vocab_piece(v, id, &n) : NULL;
    int rc = aq_bytes_putf(b, ",\"%s\":", key);

    return rc < 0 ? rc : aq_json_quote(b, p ? p : "", p ? n : 0);
}

/* chat_template_kwargs. */
static int put_vars(aq_bytes *b, const aq_json *vars, aq_err *err)
{
    static const char *const own[] = {"messages",  "tools",     "add_generation_prompt",
                                      "bos_token", "eos_token", "documents"};
    int rc = 0;

    for (const aq_json *c = vars->n ? vars->item : NULL; c && rc >= 0; c = c->next) {
        for (size_t i = 0; i < AQ_LEN(own); i++)
            if (!strcmp(c->key, own[i]))
                return aq_fail(err, AQ_E_INVAL,
                               "the template variable \"%s\" is set by the request itself: leave "
                               "it out of chat_template_kwargs",
                               own[i]);
        if ((rc = aq_bytes_puts(b, ",")) >= 0 && (rc = aq_json_quote(b, c->key, c->key_n)) >= 0 &&
            (rc = aq_bytes_puts(b, ":")) >= 0)
            rc = aq_json_put(b, c);
    }
    return rc;
}

static int put_all(aq_bytes *b, const aq_model *m, const aq_json *messages, const aq_json *tools,
                   const aq_json *vars, aq_err *err)
{
    const aq_chat_caps *c = m->chat;
    int rc = aq_bytes_puts(b, "{\"add_generation_prompt\":true");

    if (rc >= 0)
        rc = put_special(b, "bos_token", m->vocab, aq_vocab_bos(m->vocab));
    if (rc >= 0)
        rc = put_special(b, "eos_token", m->vocab, aq_vocab_eos(m->vocab));
    if (rc >= 0 && vars && (rc = put_vars(b, vars, err)) == -AQ_E_INVAL)
        return rc;
    if (rc >= 0 && tools) {
        AQ_AUTO(aq_bytes_clear) aq_bytes t = {0};
        if ((rc = aq_tools_put(&t, tools, c, err)) < 0)
            return rc;
        if (c->has_tools && (rc = aq_bytes_puts(b, ",\"tools\":")) >= 0)
            rc = aq_bytes_put(b, t.p, t.n);
    }
    if (rc >= 0 && (rc = aq_bytes_puts(b, ",\"messages\":")) >= 0) {
        if ((rc = aq_messages_put(b, messages, tools, c, err)) < 0)
            return rc;
        rc = aq_bytes_puts(b, "}");
    }
    return rc < 0 ? aq_fail(err, -rc, "no memory for a chat of %u messages", messages->n) : 0;
}

/* The last bytes of text, without white space behind them, are w. */
static bool ends(const aq_rendered *r, const char *w)
{
    size_t n = r->text.n, k = w ? strlen(w) : 0;

    while (k && w[k - 1] == '\n')
        k--;
    while (n && strchr(" \n", r->text.p[n - 1]))
        n--;
    return k && n >= k && !memcmp(r->text.p + n - k, w, k) &&
           (!r->n_user || r->user[r->n_user - 1].end <= n - k);
}

int aq_prompt_make(const aq_model *m, const aq_req_in *in, aq_prompt *ret, aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    AQ_AUTO(aq_prompt_clear) aq_prompt p = {0};
    const aq_json *messages, *tools = NULL, *vars = NULL, *all;
    int rc;

    if (!a)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read messages");
    if ((rc = parse(a, "messages", in->messages_json, AQ_JSON_ARR, &messages, err)) < 0 ||
        (in->tools_json &&
         (rc = parse(a, "tools", in->tools_json, AQ_JSON_ARR, &tools, err)) < 0) ||
        (in->vars_json &&
         (rc = parse(a, "chat_template_kwargs", in->vars_json, AQ_JSON_OBJ, &vars, err)) < 0))
        return rc;
    if (!messages->n)
        return aq_fail(err, AQ_E_INVAL, "messages must be a JSON array that is not empty");
    if (!m->vocab)
        return aq_fail(err, AQ_E_UNSUPPORTED, "this model cannot read text: %s",
                       m->info.tok_refused ? m->info.tok_refused : "it has no vocabulary");
    if ((rc = put_all(&b, m, messages, tools && tools->n ? tools : NULL, vars, err)) < 0)
        return rc;
    if ((rc = aq_json_parse(a, (const char *)b.p, b.n, &all, err)) < 0)
        return aq_err_prefix(err, rc, "template variables");
    if ((rc = aq_tmpl_render(m->tmpl, all, &r, err)) < 0 ||
        (rc = aq_vocab_encode_marked(m->vocab, (const char *)r.text.p, r.text.n, r.user, r.n_user,
                                     &p.toks, err)) < 0)
        return rc;
    p.think = ends(&r, m->chat->think_open)    ? AQ_THINK_OPEN
              : ends(&r, m->chat->think_close) ? AQ_THINK_CLOSED
                                               : AQ_THINK_UNKNOWN;
    p.text = r.text;
    r.text = (aq_bytes){0};
    *ret = p;
    p = (aq_prompt){0};
    return 0;
}
