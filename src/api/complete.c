/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/completions: a text goes on, without a chat's template. The prompt is one text, one list of tokens, or several of either;
 * control tokens written in a text are taken as such, since whoever sends a raw prompt writes the template by hand.
 *
 * parse: a worker. All else: the server's thread. */
#include "api-priv.h"

static int put_tok(const aq_json *v, aq_prompt_in *ret, aq_ask *a, aq_fault *f)
{
    if (!v->n)
        return aq_fault_field(f, "prompt", "'prompt' has a list without tokens");
    if (!(ret->tok = aq_ask_alloc(a, v->n * sizeof *ret->tok, f)))
        return -AQ_E_NOMEM;
    for (const aq_json *e = v->item; e; e = e->next) {
        if (e->kind != AQ_JSON_INT || e->i < 0 || e->i > INT32_MAX)
            return aq_fault_field(f, "prompt", "'prompt' has a token that is no id");
        ret->tok[ret->n_tok++] = (int32_t)e->i;
    }
    return 0;
}

static int put_one(const aq_json *v, aq_prompt_in *ret, aq_ask *a, aq_fault *f)
{
    if (v->kind == AQ_JSON_ARR)
        return put_tok(v, ret, a, f);
    if (v->kind != AQ_JSON_STR)
        return aq_fault_field(f, "prompt",
                              "'prompt' must be a text, a list of tokens, or an array of these");
    ret->text = v->str;
    ret->n_text = v->n;
    return 0;
}

static int prompts(aq_ask *a, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, "prompt");
    int rc = 0;

    if (!v || v->kind == AQ_JSON_NULL)
        return aq_fault_field(f, "prompt", "'prompt' is missing");
    bool many = v->kind == AQ_JSON_ARR && v->n && v->item->kind != AQ_JSON_INT;
    uint32_t n = many ? v->n : 1;
    if (n > AQ_API_N_MAX)
        return aq_fault_field(f, "prompt", "'prompt' has %u texts, at most %u are allowed", n,
                              AQ_API_N_MAX);
    if (!(a->prompt = aq_ask_alloc(a, n * sizeof *a->prompt, f)))
        return -AQ_E_NOMEM;
    if (!many) {
        a->n_prompt = 1;
        return put_one(v, &a->prompt[0], a, f);
    }
    for (const aq_json *e = v->item; e && rc >= 0; e = e->next)
        rc = put_one(e, &a->prompt[a->n_prompt++], a, f);
    return rc;
}

static int parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    const aq_json *opt = NULL, *lp;
    const char *suffix = NULL;
    int64_t i = 0;
    int rc = aq_ask_begin(a, body, n, f);

    rc = rc < 0 ? rc : prompts(a, f);
    rc = rc < 0 ? rc : aq_ask_sampling(a, f);
    rc = rc < 0 ? rc : aq_ask_stop(a, "stop", f);
    if (rc >= 0)
        a->max_tok = 16; /* OpenAI's */
    rc = rc < 0 ? rc : aq_ask_max(a, "max_tokens", f);
    rc = rc < 0 ? rc : aq_field_int(a->body, "n", 1, AQ_API_N_MAX, &i, f);
    if (rc == 1)
        a->n = (uint32_t)i;
    if (rc >= 0 && a->n * a->n_prompt > AQ_API_N_MAX)
        return aq_fault_field(f, "n",
                              "%u texts with %u answers each are too many: %u in all are allowed",
                              a->n_prompt, a->n, AQ_API_N_MAX);
    lp = rc < 0 ? NULL : aq_json_get(a->body, "logprobs");
    if (lp && lp->kind == AQ_JSON_TRUE) {
        a->logprobs = true;
    } else if (lp && lp->kind != AQ_JSON_FALSE) {
        rc = aq_field_int(a->body, "logprobs", 0, AQ_API_TOP_MAX, &i, f);
        a->logprobs = rc == 1;
        a->n_top = rc == 1 ? (uint32_t)i : 0;
    }
    rc = rc < 0 ? rc : aq_field_bool(a->body, "echo", &a->echo, f);
    rc = rc < 0 ? rc : aq_field_str(a->body, "suffix", &suffix, f);
    if (rc == 1 && *suffix)
        return aq_fault_field(
            f, "suffix",
            "'suffix' is not supported: filling in the middle of a text needs a model made for it");
    if (rc >= 0 && a->echo && a->logprobs)
        return aq_fault_field(f, "echo", "'echo' and 'logprobs' do not go together");
    rc = rc < 0 ? rc : aq_field_of(a->body, "stream_options", AQ_JSON_OBJ, &opt, f);
    if (rc == 1)
        rc = aq_field_bool(opt, "include_usage", &a->usage, f);
    return rc < 0 ? rc : 0;
}

static const char *finish(int32_t reason)
{
    return reason == AQ_DONE_LENGTH ? "length" : "stop";
}

static void head(const aq_job *j, aq_jw *w, bool stream)
{
    aq_jw_s(w, stream ? "data: {\"id\":\"cmpl-" : "{\"id\":\"cmpl-");
    aq_jw_s(w, j->id);
    aq_jw_f(w, "\",\"object\":\"text_completion\",\"created\":%lld,\"model\":",
            (long long)j->created_s);
    aq_jw_q(w, j->name);
    aq_jw_s(w, ",\"choices\":[");
}

static void put_echo(const aq_job *j, const aq_choice *c, aq_jw *w)
{
    const aq_prompt_in *p = &j->ask.prompt[(uint32_t)(c - j->choice) / j->ask.n];

    if (p->text) {
        aq_jw_n(w, p->text, p->n_text);
        return;
    }
    for (uint32_t i = 0; i < p->n_tok; i++) {
        uint32_t n = 0;
        const char *s = aq_token_piece(aq_job_model(j), p->tok[i], &n);
        aq_jw_n(w, s, s ? n : 0);
    }
}

static void put_text(const aq_job *j, const aq_choice *c, aq_jw *w, const char *s, size_t n,
                     bool echo)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw t = {0};

    if (!echo) {
        aq_jw_qn(w, s, n);
        return;
    }
    put_echo(j, c, &t);
    aq_jw_n(&t, s, n);
    w->rc = w->rc < 0 ? w->rc : t.rc;
    aq_jw_qn(w, (const char *)t.b.p, t.b.n);
}

static void begin(aq_job *j, aq_jw *w)
{
    for (uint32_t i = 0; j->ask.echo && i < j->n; i++) {
        head(j, w, true);
        aq_jw_f(w, "{\"index\":%u,\"text\":", i);
        put_text(j, &j->choice[i], w, "", 0, true);
        aq_jw_s(w, ",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    }
}

static void event(aq_job *j, aq_choice *c, const aq_event *ev, aq_jw *w)
{
    bool lp = j->ask.logprobs && ev->n_top;

    if (ev->kind != AQ_EV_TEXT || (!ev->n_bytes && !lp))
        return;
    head(j, w, true);
    aq_jw_f(w, "{\"index\":%u,\"text\":", (unsigned)(c - j->choice));
    aq_jw_qn(w, ev->bytes, ev->n_bytes);
    aq_jw_s(w, ",\"logprobs\":");
    if (lp) {
        aq_jw_s(w, "{\"content\":[");
        aq_put_logprob(w, aq_job_model(j), ev, j->ask.n_top);
        aq_jw_s(w, "]}");
    } else {
        aq_jw_s(w, "null");
    }
    aq_jw_s(w, ",\"finish_reason\":null}]}\n\n");
}

static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;

    aq_job_usage(j, &u, NULL);
    aq_jw_f(w,
            "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%u}},\"timings\":",
            u.prompt_tok, u.gen_tok, u.prompt_tok + u.gen_tok, u.cached_tok);
    aq_put_timings(w, &u);
}

static void choice_end(aq_job *j, aq_choice *c, aq_jw *w)
{
    head(j, w, true);
    aq_jw_f(w, "{\"index\":%u,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"%s\"}]",
            (unsigned)(c - j->choice), finish(c->reason));
    if (!j->ask.usage && j->n_done == j->n) { /* the last one */
        aq_usage u;
        aq_job_usage(j, &u, NULL);
        aq_jw_s(w, ",\"timings\":");
        aq_put_timings(w, &u);
    }
    aq_jw_s(w, "}\n\n");
}

static void end(aq_job *j, aq_jw *w)
{
    if (j->ask.usage) {
        head(j, w, true);
        aq_jw_s(w, "],");
        put_usage(j, w);
        aq_jw_s(w, "}\n\n");
    }
    aq_jw_s(w, "data: [DONE]\n\n");
}

static void fail(aq_job *j, const aq_fault *f, aq_jw *w)
{
    (void)j;
    aq_jw_s(w, "data: ");
    aq_fault_put(w, f, false);
    aq_jw_s(w, "\n\n");
}

static void whole(aq_job *j, aq_jw *w)
{
    head(j, w, false);
    for (uint32_t i = 0; i < j->n; i++) {
        const aq_choice *c = &j->choice[i];
        aq_jw_f(w, "%s{\"index\":%u,\"text\":", i ? "," : "", i);
        put_text(j, c, w, (const char *)c->text.p, c->text.n, j->ask.echo);
        aq_jw_s(w, ",\"logprobs\":");
        if (j->ask.logprobs) {
            aq_jw_s(w, "{\"content\":[");
            aq_jw_n(w, c->logprobs.b.p, c->logprobs.b.n);
            aq_jw_s(w, "]}");
        } else {
            aq_jw_s(w, "null");
        }
        aq_jw_f(w, ",\"finish_reason\":\"%s\"}", finish(c->reason));
    }
    aq_jw_s(w, "],");
    put_usage(j, w);
    aq_jw_s(w, "}");
}

const aq_dialect aq_dialect_complete = {
    .path = "/v1/completions",
    .keepalive = ": still here\n",
    .parse = parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .whole = whole,
};
