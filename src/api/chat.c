/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/chat/completions: OpenAI's chat.
 *
 *   stream   data: {"id":…,"object":"chat.completion.chunk",…,"choices":[{"index":0,"delta":{…},"finish_reason":null}]}
 *            first each choice's role, then its text; reasoning apart, in reasoning_content; then its finish_reason;
 *            with stream_options.include_usage one chunk without choices and with usage; then data: [DONE]
 *   sign of life   a comment line with no empty line after it, which some clients would take for an event
 *
 * parse: a worker. All else: the server's thread. */
#include "api-priv.h"

static bool is_system(const aq_json *m)
{
    const char *role = aq_json_str(m, "role");

    return role && (!strcmp(role, "system") || !strcmp(role, "developer"));
}

/* The leading system messages as one: templates take one at the beginning. */
static void put_leading(aq_jw *w, const aq_json *m, uint32_t n)
{
    aq_jw_s(w, "{\"role\":\"system\",\"content\":[");
    bool first = true;
    for (uint32_t i = 0; i < n; i++, m = m->next) {
        const aq_json *c = aq_json_get(m, "content");
        if (c && c->kind == AQ_JSON_STR) {
            aq_jw_s(w, first ? "{\"type\":\"text\",\"text\":" : ",{\"type\":\"text\",\"text\":");
            aq_jw_v(w, c);
            aq_jw_s(w, "}");
            first = false;
        }
        for (const aq_json *p = c && c->kind == AQ_JSON_ARR && c->n ? c->item : NULL; p;
             p = p->next) {
            aq_jw_s(w, first ? "" : ",");
            aq_jw_v(w, p);
            first = false;
        }
    }
    aq_jw_s(w, "]}");
}

/* A call of the history, if it is one that can be written anew. */
static bool put_call(aq_ask *a, const aq_json *c)
{
    const aq_json *fn = aq_json_get(c, "function"), *args = aq_json_get(fn, "arguments");
    const char *id = aq_json_str(c, "id"), *name = aq_json_str(fn, "name");

    if (!id || !name || !args || args->kind != AQ_JSON_STR || !args->n)
        return false;
    aq_put_call(&a->messages, a->replay, id, name, args->str, args->n);
    return true;
}

/* As it came, but for the arguments of calls, which are spelled as they were sampled. */
static void put_message(aq_ask *a, const aq_json *m)
{
    const aq_json *calls = aq_json_get(m, "tool_calls");
    aq_jw *w = &a->messages;

    if (m->kind != AQ_JSON_OBJ || !calls || calls->kind != AQ_JSON_ARR || !a->replay) {
        aq_jw_v(w, m);
        return;
    }
    aq_jw_s(w, "{");
    for (const aq_json *e = m->n ? m->item : NULL; e; e = e->next) {
        aq_jw_qn(w, e->key, e->key_n);
        aq_jw_s(w, ":");
        if (e == calls) {
            aq_jw_s(w, "[");
            for (const aq_json *c = calls->n ? calls->item : NULL; c; c = c->next) {
                if (!put_call(a, c))
                    aq_jw_v(w, c);
                aq_jw_s(w, c->next ? "," : "");
            }
            aq_jw_s(w, "]");
        } else {
            aq_jw_v(w, e);
        }
        aq_jw_s(w, e->next ? "," : "");
    }
    aq_jw_s(w, "}");
}

int aq_chat_messages(aq_ask *a, aq_fault *f)
{
    const aq_json *v = NULL, *m;
    uint32_t lead = 0;
    int rc = aq_field_of(a->body, "messages", AQ_JSON_ARR, &v, f);

    if (rc < 0)
        return rc;
    if (!rc || !v->n)
        return aq_fault_field(f, "messages",
                              "'messages' must be an array with at least one message");
    for (m = v->item; m && is_system(m); m = m->next) {
        const aq_json *c = aq_json_get(m, "content");
        if (!c || (c->kind != AQ_JSON_STR && c->kind != AQ_JSON_ARR))
            break; /* the engine says what is wrong */
        lead++;
    }
    aq_jw_s(&a->messages, "[");
    m = v->item;
    if (lead > 1) {
        put_leading(&a->messages, m, lead);
        for (uint32_t i = 0; i < lead; i++)
            m = m->next;
        if (m)
            aq_jw_s(&a->messages, ",");
    }
    for (; m; m = m->next) {
        put_message(a, m);
        if (m->next)
            aq_jw_s(&a->messages, ",");
    }
    aq_jw_n(&a->messages, "]", 2); /* with its NUL */
    return a->messages.rc < 0 ? aq_fault_err(f, a->messages.rc, NULL) : 0;
}

/* "response_format": text, any JSON object, or the schema of the answer. */
static int response_format(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const aq_json *v = NULL, *js = NULL, *schema = NULL;
    int rc = aq_field_of(a->body, "response_format", AQ_JSON_OBJ, &v, f);

    if (rc < 1)
        return rc;
    const char *type = aq_json_str(v, "type");
    if (type && !strcmp(type, "text"))
        return 0;
    if (type && !strcmp(type, "json_object")) {
        a->schema_json = "{\"type\":\"object\"}";
        return 0;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return aq_fault_field(f, "response_format",
                              "'response_format' can be of type text, json_object or json_schema");
    rc = aq_field_of(v, "json_schema", AQ_JSON_OBJ, &js, f);
    rc = rc < 1 ? rc : aq_field_of(js, "schema", AQ_JSON_OBJ, &schema, f);
    if (rc < 1)
        return aq_fault_field(f, "response_format", "'response_format' has no json_schema.schema");
    aq_jw_v(&w, schema);
    if (!(a->schema_json = aq_ask_keep(a, &w, f)))
        return -AQ_E_NOMEM;
    return 0;
}

static int parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    const aq_json *opt = NULL;
    const char *effort = NULL;
    int64_t i = 0;
    int rc = aq_ask_begin(a, body, n, f);

    rc = rc < 0 ? rc : aq_chat_messages(a, f);
    rc = rc < 0 ? rc : aq_ask_sampling(a, f);
    rc = rc < 0 ? rc : aq_ask_stop(a, "stop", f);
    rc = rc < 0 ? rc : aq_ask_max(a, "max_tokens", f);
    rc = rc < 0 ? rc : aq_ask_max(a, "max_completion_tokens", f);
    rc = rc < 0 ? rc : aq_field_int(a->body, "n", 1, AQ_API_N_MAX, &i, f);
    if (rc == 1)
        a->n = (uint32_t)i;
    rc = rc < 0 ? rc : aq_field_bool(a->body, "logprobs", &a->logprobs, f);
    rc = rc < 0 ? rc : aq_field_int(a->body, "top_logprobs", 0, AQ_API_TOP_MAX, &i, f);
    if (rc == 1) {
        if (!a->logprobs && i)
            return aq_fault_field(f, "top_logprobs", "'top_logprobs' needs 'logprobs' to be true");
        a->n_top = (uint32_t)i;
    }
    rc = rc < 0 ? rc : aq_field_of(a->body, "stream_options", AQ_JSON_OBJ, &opt, f);
    if (rc == 1)
        rc = aq_field_bool(opt, "include_usage", &a->usage, f);
    rc = rc < 0 ? rc : response_format(a, f);
    rc = rc < 0 ? rc : aq_field_str(a->body, "reasoning_effort", &effort, f);
    rc = rc < 0 ? rc : aq_ask_effort(a, effort, f);
    return rc < 0 ? rc : aq_ask_tools(a, f);
}

static const char *finish(int32_t reason)
{
    return reason == AQ_DONE_LENGTH ? "length" : reason == AQ_DONE_CALLS ? "tool_calls" : "stop";
}

/* ---- streamed -------------------------------------------------------------------------------- */

static void head(const aq_job *j, aq_jw *w)
{
    aq_jw_s(w, "data: {\"id\":\"chatcmpl-");
    aq_jw_s(w, j->id);
    aq_jw_f(w, "\",\"object\":\"chat.completion.chunk\",\"created\":%lld,\"model\":",
            (long long)j->created_s);
    aq_jw_q(w, j->name);
    aq_jw_s(w, ",\"choices\":[");
}

static void chunk(const aq_job *j, const aq_choice *c, aq_jw *w)
{
    head(j, w);
    aq_jw_f(w, "{\"index\":%u,\"delta\":", (unsigned)(c - j->choice));
}

static void begin(aq_job *j, aq_jw *w)
{
    for (uint32_t i = 0; i < j->n; i++) {
        chunk(j, &j->choice[i], w);
        aq_jw_s(w, "{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}]");
        aq_jw_s(w, j->ask.usage ? ",\"usage\":null}\n\n" : "}\n\n");
    }
}

/* A call begins with its index, id and name; after that only pieces of its arguments come. */
static void call_event(aq_job *j, aq_choice *c, const aq_event *ev, aq_jw *w)
{
    if (ev->kind == AQ_EV_CALL_ARGS && !ev->n_bytes)
        return;
    chunk(j, c, w);
    aq_jw_f(w, "{\"tool_calls\":[{\"index\":%u,", ev->call);
    if (ev->kind == AQ_EV_CALL_START) {
        aq_jw_s(w, "\"id\":");
        aq_jw_q(w, ev->call_id);
        aq_jw_s(w, ",\"type\":\"function\",\"function\":{\"name\":");
        aq_jw_qn(w, ev->bytes, ev->n_bytes);
        aq_jw_s(w, ",\"arguments\":\"\"}");
    } else {
        aq_jw_s(w, "\"function\":{\"arguments\":");
        aq_jw_qn(w, ev->bytes, ev->n_bytes);
        aq_jw_s(w, "}");
    }
    aq_jw_s(w, "}]},\"finish_reason\":null}]");
    aq_jw_s(w, j->ask.usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void event(aq_job *j, aq_choice *c, const aq_event *ev, aq_jw *w)
{
    bool lp = j->ask.logprobs && ev->n_top;

    if (ev->kind == AQ_EV_CALL_START || ev->kind == AQ_EV_CALL_ARGS) {
        call_event(j, c, ev, w);
        return;
    }
    if (!ev->n_bytes && !lp)
        return;
    chunk(j, c, w);
    aq_jw_s(w, ev->kind == AQ_EV_TEXT ? "{\"content\":" : "{\"reasoning_content\":");
    aq_jw_qn(w, ev->bytes, ev->n_bytes);
    aq_jw_s(w, "}");
    if (lp) {
        aq_jw_s(w, ",\"logprobs\":{\"content\":[");
        aq_put_logprob(w, aq_job_model(j), ev, j->ask.n_top);
        aq_jw_s(w, "],\"refusal\":null}");
    }
    aq_jw_s(w, ",\"finish_reason\":null}]");
    aq_jw_s(w, j->ask.usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;
    uint32_t think;

    aq_job_usage(j, &u, &think);
    aq_jw_f(w,
            "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
            "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
            "\"completion_tokens_details\":{\"reasoning_tokens\":%u}},\"timings\":",
            u.prompt_tok, u.gen_tok, u.prompt_tok + u.gen_tok, u.cached_tok, think);
    aq_put_timings(w, &u);
}

static void choice_end(aq_job *j, aq_choice *c, aq_jw *w)
{
    chunk(j, c, w);
    aq_jw_f(w, "{},\"finish_reason\":\"%s\"}]", finish(c->reason));
    if (j->ask.usage) {
        aq_jw_s(w, ",\"usage\":null");
    } else if (j->n_done == j->n) { /* the last one */
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
        head(j, w);
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

/* ---- whole ----------------------------------------------------------------------------------- */

static void put_choice(const aq_job *j, const aq_choice *c, aq_jw *w)
{
    aq_jw_f(w, "{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":",
            (unsigned)(c - j->choice));
    if (c->n_call && !c->text.n)
        aq_jw_s(w, "null");
    else
        aq_jw_qn(w, (const char *)c->text.p, c->text.n);
    aq_jw_s(w, ",\"refusal\":null");
    for (uint32_t i = 0; i < c->n_call; i++) {
        const aq_call *k = &c->call[i];
        aq_jw_s(w, i ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":");
        aq_jw_q(w, k->id);
        aq_jw_s(w, ",\"type\":\"function\",\"function\":{\"name\":");
        aq_jw_qn(w, (const char *)k->name.p, k->name.n);
        aq_jw_s(w, ",\"arguments\":");
        aq_jw_qn(w, (const char *)k->args.p, k->args.n);
        aq_jw_s(w, i + 1 < c->n_call ? "}}" : "}}]");
    }
    if (c->reasoning.n) {
        aq_jw_s(w, ",\"reasoning_content\":");
        aq_jw_qn(w, (const char *)c->reasoning.p, c->reasoning.n);
    }
    aq_jw_s(w, "},\"logprobs\":");
    if (j->ask.logprobs) {
        aq_jw_s(w, "{\"content\":[");
        aq_jw_n(w, c->logprobs.b.p, c->logprobs.b.n);
        aq_jw_s(w, "],\"refusal\":null}");
    } else {
        aq_jw_s(w, "null");
    }
    aq_jw_f(w, ",\"finish_reason\":\"%s\"}", finish(c->reason));
}

static void whole(aq_job *j, aq_jw *w)
{
    aq_jw_s(w, "{\"id\":\"chatcmpl-");
    aq_jw_s(w, j->id);
    aq_jw_f(w, "\",\"object\":\"chat.completion\",\"created\":%lld,\"model\":",
            (long long)j->created_s);
    aq_jw_q(w, j->name);
    aq_jw_s(w, ",\"choices\":[");
    for (uint32_t i = 0; i < j->n; i++) {
        aq_jw_s(w, i ? "," : "");
        put_choice(j, &j->choice[i], w);
    }
    aq_jw_s(w, "],");
    put_usage(j, w);
    aq_jw_s(w, "}");
}

const aq_dialect aq_dialect_chat = {
    .path = "/v1/chat/completions",
    .keepalive = ": still here\n",
    .parse = parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .whole = whole,
};
