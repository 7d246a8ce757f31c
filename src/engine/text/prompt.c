/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt of a request: its messages, tools and variables as the template's variables, rendered and tokenized. Any thread.
 *
 * A turn: an earlier answer of this chat whose tokens are known stands in the prompt as they were, with all before it. What comes
 * behind it is rendered with a mark in the answer's message, and begins at the first token behind the mark that ends a turn. */
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

/* What a request is made of, parsed. */
typedef struct parts {
    const aq_json *messages, *tools, *vars; /* tools, vars: or NULL */
} parts;

static int put_all(aq_bytes *b, const aq_model *m, const parts *in, aq_msg_cut *cut, aq_err *err)
{
    const aq_json *messages = in->messages, *tools = in->tools, *vars = in->vars;
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
        if ((rc = aq_messages_put(b, messages, tools, c, cut, err)) < 0)
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

static int key_of(const aq_bytes *b, size_t n, uint8_t ret[32], aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();

    if (!h || aq_sha256_add(h, b->p, n) < 0 || aq_sha256_end(h, ret) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a chat");
    return 0;
}

static int render(const aq_model *m, aq_arena *a, const aq_bytes *vars, aq_rendered *ret,
                  aq_err *err)
{
    const aq_json *all;
    int rc = aq_json_parse(a, (const char *)vars->p, vars->n, &all, err);

    return rc < 0 ? aq_err_prefix(err, rc, "template variables")
                  : aq_tmpl_render(m->tmpl, all, ret, err);
}

/* ---- a turn ---- */

#define SHORT_ID 9u /* Mistral's ids */

/* The rendered text [from, to) as tokens; span: the first that ends behind `from`. */
static int encode(const aq_model *m, const aq_rendered *r, size_t from, size_t to, uint32_t span,
                  aq_toks *ret, aq_err *err)
{
    uint32_t n = 0;
    AQ_AUTOFREE aq_span *s = malloc((r->n_user - span + 1) * sizeof *s);

    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a chat");
    for (; span < r->n_user && r->user[span].start < to; span++)
        s[n++] = (aq_span){(uint32_t)(AQ_MAX(r->user[span].start, from) - from),
                           (uint32_t)(AQ_MIN(r->user[span].end, to) - from)};
    return aq_vocab_encode_marked(m->vocab, (const char *)r->text.p + from, to - from, s, n, ret,
                                  err);
}

/* Which of the tokens behind the mark is the first that is not the turn's: the one that ends it, or else the one behind its own last
 * marker. UINT32_MAX: none can be told. */
static uint32_t end_of_turn(const aq_vocab *v, const aq_toks *t, int32_t last)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (aq_vocab_is_eog(v, t->id[i]))
            return i;
    for (uint32_t i = 0; aq_vocab_is_control(v, last) && i < t->n; i++)
        if (t->id[i] == last)
            return i + 1;
    return UINT32_MAX;
}

/* 1 = ret holds the prompt; 0 = this rendering cannot be cut behind the turn. */
static int splice(const aq_model *m, const aq_turn *t, const aq_msg_cut *cut, const aq_rendered *r,
                  aq_toks *ret, aq_err *err)
{
    static const char mark[] = AQ_CUT_MARK;
    const size_t n_mark = sizeof mark - 1, n_id = strlen(cut->id);
    AQ_AUTO(aq_toks_clear) aq_toks head = {0}, rest = {0};
    const char *p = (const char *)r->text.p,
               *at = r->text.n ? memmem(p, r->text.n, mark, n_mark) : NULL;
    size_t from = at ? (size_t)(at - p) + n_mark : 0, to = r->text.n;
    uint32_t span = 0, next;
    int rc;

    if (!at || memmem(p + from, to - from, mark, n_mark))
        return 0; /* not rendered, or not only there */
    while (span < r->n_user && r->user[span].end <= from)
        span++;
    /* the next text of the chat is another message's: the turn ends before it. Some templates write the call's id behind it, or the
     * last of its letters */
    for (next = span; next < r->n_user; next++) {
        const aq_span *s = &r->user[next];
        size_t n = s->end - s->start;
        if (s->start >= from && (n < AQ_MIN(n_id, SHORT_ID) || n > n_id ||
                                 memcmp(p + s->start, cut->id + n_id - n, n) != 0))
            break;
    }
    if (next < r->n_user)
        to = r->user[next].start;
    if ((rc = encode(m, r, from, to, span, &head, err)) < 0)
        return rc;
    uint32_t i = end_of_turn(m->vocab, &head, t->tok[t->n_tok - 1]);
    if (i == UINT32_MAX)
        return 0;
    if ((rc = encode(m, r, from, r->text.n, span, &rest, err)) < 0)
        return rc;
    if (rest.n <= i || (i && rest.id[i - 1] != head.id[i - 1]))
        return 0;
    for (uint32_t k = 0; k < t->n_tok && rc >= 0; k++)
        rc = aq_toks_put(ret, t->tok[k]);
    for (; i < rest.n && rc >= 0; i++)
        rc = aq_toks_put(ret, rest.id[i]);
    return rc < 0 ? aq_fail(err, -rc, "no memory for a prompt of %u tokens", t->n_tok + rest.n) : 1;
}

static uint8_t thinks(const aq_model *m, const aq_rendered *r)
{
    return ends(r, m->chat->think_open)    ? AQ_THINK_OPEN
           : ends(r, m->chat->think_close) ? AQ_THINK_CLOSED
                                           : AQ_THINK_UNKNOWN;
}

/* 1 = the prompt goes on from the turn; 0 = the turn is not of this chat, or the template cannot be cut there. */
static int go_on(const aq_model *m, const parts *in, const aq_turn *t, aq_arena *a, aq_prompt *ret,
                 aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    aq_msg_cut cut = {.no = t->msg + 1};
    uint8_t key[32];
    int rc = t->n_tok ? put_all(&b, m, in, &cut, err) : 0;

    if (rc < 0 || !cut.off)
        return rc;
    /* without the comma before it */
    if ((rc = key_of(&b, cut.off - 1, key, err)) < 0 || memcmp(key, t->key, sizeof key) != 0)
        return rc;
    if ((rc = render(m, a, &b, &r, err)) == -AQ_E_NOMEM)
        return rc;
    if (rc < 0) /* a template that does not like the mark */
        return 0;
    ret->think = thinks(m, &r);
    return splice(m, t, &cut, &r, &ret->toks, err);
}

int aq_prompt_make(const aq_model *m, const aq_req_in *in, aq_prompt *ret, aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    AQ_AUTO(aq_prompt_clear) aq_prompt p = {0};
    parts all = {0};
    int rc;

    if (!a)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read messages");
    if ((rc = parse(a, "messages", in->messages_json, AQ_JSON_ARR, &all.messages, err)) < 0 ||
        (in->tools_json &&
         (rc = parse(a, "tools", in->tools_json, AQ_JSON_ARR, &all.tools, err)) < 0) ||
        (in->vars_json &&
         (rc = parse(a, "chat_template_kwargs", in->vars_json, AQ_JSON_OBJ, &all.vars, err)) < 0))
        return rc;
    if (!all.messages->n)
        return aq_fail(err, AQ_E_INVAL, "messages must be a JSON array that is not empty");
    if (all.tools && !all.tools->n)
        all.tools = NULL;
    if (!m->vocab)
        return aq_fail(err, AQ_E_UNSUPPORTED, "this model cannot read text: %s",
                       m->info.tok_refused ? m->info.tok_refused : "it has no vocabulary");
    if ((rc = put_all(&b, m, &all, NULL, err)) < 0 ||
        (rc = key_of(&b, b.n - 2, p.key, err)) < 0) /* all but "]}" */
        return rc;
    rc = in->turn ? go_on(m, &all, in->turn, a, &p, err) : 0;
    if (!rc) {
        if ((rc = render(m, a, &b, &r, err)) < 0 ||
            (rc = aq_vocab_encode_marked(m->vocab, (const char *)r.text.p, r.text.n, r.user,
                                         r.n_user, &p.toks, err)) < 0)
            return rc;
        p.think = thinks(m, &r);
        p.text = r.text;
        r.text = (aq_bytes){0};
    }
    if (rc < 0)
        return rc;
    *ret = p;
    p = (aq_prompt){0};
    return 0;
}
