/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/responses: OpenAI's other chat.
 *
 *   stream   event: response.created, response.in_progress, then for each item output_item.added, its parts and deltas, their
 *            ".done" twins, output_item.done; at last response.completed, .incomplete or .failed. Each has a sequence_number;
 *            an item keeps its id and its output_index
 *   sign of life   response.in_progress again: clients that count decoded events do not count comments
 *
 * Calls of tools that came as custom ones or in a namespace go back in their own form. responses-in.c reads its bodies. The
 * server's thread. */
#include "api-priv.h"

/* ---- the answer's objects -------------------------------------------------------------------- */

/* The usage, and timings behind it. */
static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;
    uint32_t think;

    aq_job_usage(j, &u, &think);
    aq_jw_f(w,
            "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
            "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
            "\"total_tokens\":%u},\"timings\":",
            u.prompt_tok, u.cached_tok, u.gen_tok, think, u.prompt_tok + u.gen_tok);
    aq_put_timings(w, &u);
}

static void put_or(aq_jw *w, const aq_json *body, const char *key, const char *dflt)
{
    const aq_json *v = aq_json_get(body, key);

    aq_jw_f(w, ",\"%s\":", key);
    if (v && v->kind != AQ_JSON_NULL)
        aq_jw_v(w, v);
    else
        aq_jw_s(w, dflt);
}

/* status: in_progress, completed, incomplete, failed. */
static void put_response(const aq_job *j, const char *status, const aq_fault *f, aq_jw *w)
{
    const aq_json *b = j->ask.body;
    bool over = status[0] != 'i' || status[2] == 'c'; /* completed, failed, incomplete */

    aq_jw_s(w, "{\"id\":\"resp_");
    aq_jw_s(w, j->id);
    aq_jw_f(w,
            "\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"background\":false,"
            "\"error\":",
            (long long)j->created_s, status);
    if (f) {
        aq_jw_s(w, "{\"code\":");
        aq_jw_q(w, f->code ? f->code : f->http == 400 ? "invalid_prompt" : "server_error");
        aq_jw_s(w, ",\"message\":");
        aq_jw_q(w, f->text);
        aq_jw_s(w, "}");
    } else {
        aq_jw_s(w, "null");
    }
    aq_jw_s(w, ",\"incomplete_details\":");
    aq_jw_s(w, strcmp(status, "incomplete") != 0 ? "null" : "{\"reason\":\"max_output_tokens\"}");
    aq_jw_s(w, ",\"model\":");
    aq_jw_q(w, j->name);
    aq_jw_s(w, ",\"output\":[");
    if (over)
        aq_jw_n(w, j->st.items.b.p, j->st.items.b.n);
    aq_jw_s(w, "],\"previous_response_id\":null,\"store\":false,\"truncation\":\"disabled\","
               "\"user\":null");
    put_or(w, b, "instructions", "null");
    put_or(w, b, "max_output_tokens", "null");
    put_or(w, b, "metadata", "{}");
    put_or(w, b, "parallel_tool_calls", "true");
    put_or(w, b, "reasoning", "{\"effort\":null,\"summary\":null}");
    put_or(w, b, "text", "{\"format\":{\"type\":\"text\"}}");
    put_or(w, b, "tool_choice", "\"auto\"");
    put_or(w, b, "tools", "[]");
    aq_jw_s(w, ",\"temperature\":");
    aq_jw_num(w, j->ask.sampling.temp);
    aq_jw_s(w, ",\"top_p\":");
    aq_jw_num(w, j->ask.sampling.top_p);
    aq_jw_s(w, ",\"usage\":");
    if (over && !f)
        put_usage(j, w);
    else
        aq_jw_s(w, "null");
    aq_jw_s(w, "}");
    w->rc = AQ_MIN(w->rc, AQ_MIN(j->st.items.rc, 0));
}

/* An item's text or arguments, so far. */
typedef struct span {
    const char *p;
    size_t n;
} span;

static span of_item(const aq_job *j)
{
    const aq_choice *c = &j->choice[0];
    const aq_bytes *b = j->st.kind == AQ_EV_TEXT        ? &c->text
                        : j->st.kind == AQ_EV_REASONING ? &c->reasoning
                                                        : &c->call[j->st.call].args;
    size_t at = j->st.kind == AQ_EV_TEXT        ? j->st.text_at
                : j->st.kind == AQ_EV_REASONING ? j->st.think_at
                                                : 0;
    return b->n > at ? (span){(const char *)b->p + at, b->n - at} : (span){"", 0};
}

/* The tool that the model calls so, as the client has it; *ret_space: its namespace or NULL. */
static const aq_json *tool_named(const aq_json *list, const char *space, const char *name, size_t n,
                                 const char **ret_space)
{
    for (const aq_json *t = list && list->kind == AQ_JSON_ARR && list->n ? list->item : NULL; t;
         t = t->next) {
        const char *own = aq_json_str(t, "name"), *type = aq_json_str(t, "type");
        if (type && !strcmp(type, "namespace") && own && !space) {
            const aq_json *hit = tool_named(aq_json_get(t, "tools"), own, name, n, ret_space);
            if (hit) {
                *ret_space = own;
                return hit;
            }
            continue;
        }
        g_autofree char *full = own ? aq_tool_in(space, own) : NULL;
        if (full && strlen(full) == n && !memcmp(full, name, n))
            return t;
    }
    return NULL;
}

static const char *prefix_of(uint32_t kind)
{
    return kind == AQ_EV_TEXT ? "msg" : kind == AQ_EV_REASONING ? "rs" : "fc";
}

static void put_id(const aq_job *j, aq_jw *w)
{
    aq_jw_s(w, prefix_of(j->st.kind));
    aq_jw_s(w, "_");
    aq_jw_s(w, j->id);
    aq_jw_f(w, "_%u", j->st.n_item - 1);
}

static const aq_json *tool_of(const aq_job *j, const char **ret_space)
{
    const aq_call *k = &j->choice[0].call[j->st.call];

    return tool_named(j->ask.tools_in, NULL, (const char *)k->name.p, k->name.n, ret_space);
}

/* The name that the client knows the tool by. */
static void put_name(const aq_job *j, aq_jw *w)
{
    const aq_call *k = &j->choice[0].call[j->st.call];
    const char *space = NULL, *own = aq_json_str(tool_of(j, &space), "name");

    if (own)
        aq_jw_q(w, own);
    else
        aq_jw_qn(w, (const char *)k->name.p, k->name.n);
}

static bool is_custom(const aq_job *j, const char **ret_space)
{
    const char *type = aq_json_str(tool_of(j, ret_space), "type");

    return type && !strcmp(type, "custom");
}

/* The free text of a custom tool: its one argument. */
static void put_custom_input(aq_jw *w, span args)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *v = NULL, *in = NULL;
    aq_err err = {0};

    if (a && aq_json_parse(a, args.p, args.n, &v, &err) >= 0)
        in = aq_json_get(v, "input");
    if (in && in->kind == AQ_JSON_STR)
        aq_jw_qn(w, in->str, in->n);
    else
        aq_jw_qn(w, args.p, args.n);
}

/* The open item, as it begins (whole false) or ends. */
static void put_item(const aq_job *j, bool whole, aq_jw *w)
{
    span t = whole ? of_item(j) : (span){"", 0};
    const char *space = NULL;

    aq_jw_s(w, "{\"id\":\"");
    put_id(j, w);
    if (j->st.kind == AQ_EV_TEXT) {
        aq_jw_s(w, "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
        if (whole) {
            aq_jw_s(w, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
            aq_jw_qn(w, t.p, t.n);
            aq_jw_s(w, "}");
        }
        aq_jw_s(w, "]");
    } else if (j->st.kind == AQ_EV_REASONING) {
        aq_jw_s(
            w, "\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":null,\"content\":[");
        if (whole) {
            aq_jw_s(w, "{\"type\":\"reasoning_text\",\"text\":");
            aq_jw_qn(w, t.p, t.n);
            aq_jw_s(w, "}");
        }
        aq_jw_s(w, "]");
    } else {
        const aq_call *k = &j->choice[0].call[j->st.call];
        bool custom = is_custom(j, &space);
        aq_jw_s(w, custom ? "\",\"type\":\"custom_tool_call\",\"call_id\":"
                          : "\",\"type\":\"function_call\",\"call_id\":");
        aq_jw_q(w, k->id);
        aq_jw_s(w, ",\"name\":");
        put_name(j, w);
        if (space) {
            aq_jw_s(w, ",\"namespace\":");
            aq_jw_q(w, space);
        }
        aq_jw_s(w, custom ? ",\"input\":" : ",\"arguments\":");
        if (custom && whole)
            put_custom_input(w, t);
        else
            aq_jw_qn(w, t.p, t.n);
    }
    aq_jw_f(w, ",\"status\":\"%s\"}", whole ? "completed" : "in_progress");
}

/* ---- streamed -------------------------------------------------------------------------------- */

static void ev_head(aq_job *j, const char *type, aq_jw *w)
{
    aq_jw_f(w, "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%u", type,
            type, j->st.seq++);
}

static void ev_response(aq_job *j, const char *type, const char *status, const aq_fault *f,
                        aq_jw *w)
{
    ev_head(j, type, w);
    aq_jw_s(w, ",\"response\":");
    put_response(j, status, f, w);
    aq_jw_s(w, "}\n\n");
}

static void ev_item(aq_job *j, const char *type, bool whole, aq_jw *w)
{
    ev_head(j, type, w);
    aq_jw_f(w, ",\"output_index\":%u,\"item\":", j->st.n_item - 1);
    put_item(j, whole, w);
    aq_jw_s(w, "}\n\n");
}

/* Head of an event about the open item, up to and with its indices. */
static void ev_part(aq_job *j, const char *type, aq_jw *w)
{
    ev_head(j, type, w);
    aq_jw_s(w, ",\"item_id\":\"");
    put_id(j, w);
    aq_jw_f(w, "\",\"output_index\":%u", j->st.n_item - 1);
    if (j->st.kind != AQ_EV_CALL_START)
        aq_jw_s(w, ",\"content_index\":0");
}

static void put_content_part(const aq_job *j, span t, aq_jw *w)
{
    aq_jw_s(w, ",\"part\":{\"type\":");
    aq_jw_s(w, j->st.kind == AQ_EV_TEXT ? "\"output_text\",\"annotations\":[],\"logprobs\":[]"
                                        : "\"reasoning_text\"");
    aq_jw_s(w, ",\"text\":");
    aq_jw_qn(w, t.p, t.n);
    aq_jw_s(w, "}}\n\n");
}

static void begin(aq_job *j, aq_jw *w)
{
    ev_response(j, "created", "in_progress", NULL, w);
    ev_response(j, "in_progress", "in_progress", NULL, w);
}

static void alive(aq_job *j, aq_jw *w)
{
    ev_response(j, "in_progress", "in_progress", NULL, w);
}

static void close_call(aq_job *j, aq_jw *w)
{
    span t = of_item(j);
    const char *space = NULL;

    if (is_custom(j, &space)) {
        for (int end = 0; end < 2; end++) {
            ev_part(j, end ? "custom_tool_call_input.done" : "custom_tool_call_input.delta", w);
            aq_jw_s(w, end ? ",\"input\":" : ",\"delta\":");
            put_custom_input(w, t);
            aq_jw_s(w, "}\n\n");
        }
        return;
    }
    ev_part(j, "function_call_arguments.done", w);
    aq_jw_s(w, ",\"name\":");
    put_name(j, w);
    aq_jw_s(w, ",\"arguments\":");
    aq_jw_qn(w, t.p, t.n);
    aq_jw_s(w, "}\n\n");
}

/* The open item ends; it is kept for the response at the end. */
static void close_item(aq_job *j, aq_jw *w)
{
    if (!j->st.kind)
        return;
    if (j->st.kind == AQ_EV_CALL_START) {
        close_call(j, w);
    } else {
        span t = of_item(j);
        ev_part(j, j->st.kind == AQ_EV_TEXT ? "output_text.done" : "reasoning_text.done", w);
        aq_jw_s(w, ",\"text\":");
        aq_jw_qn(w, t.p, t.n);
        aq_jw_s(w, j->st.kind == AQ_EV_TEXT ? ",\"logprobs\":[]}\n\n" : "}\n\n");
        ev_part(j, "content_part.done", w);
        put_content_part(j, t, w);
    }
    ev_item(j, "output_item.done", true, w);
    if (j->st.items.b.n)
        aq_jw_s(&j->st.items, ",");
    put_item(j, true, &j->st.items);
    j->st.kind = 0;
}

/* n: bytes of the event that begins it, which are in the choice's text already. */
static void open_item(aq_job *j, uint32_t kind, uint32_t n, aq_jw *w)
{
    const aq_choice *c = &j->choice[0];

    close_item(j, w);
    j->st.kind = kind;
    j->st.n_item++;
    j->st.text_at = c->text.n - (kind == AQ_EV_TEXT ? n : 0);
    j->st.think_at = c->reasoning.n - (kind == AQ_EV_REASONING ? n : 0);
    ev_item(j, "output_item.added", false, w);
    if (kind != AQ_EV_CALL_START) {
        ev_part(j, "content_part.added", w);
        put_content_part(j, (span){"", 0}, w);
    }
}

static void event(aq_job *j, aq_choice *c, const aq_event *ev, aq_jw *w)
{
    const char *space = NULL;

    if (ev->kind == AQ_EV_CALL_START) {
        close_item(j, w);
        j->st.call = c->n_call - 1;
        open_item(j, AQ_EV_CALL_START, 0, w);
        return;
    }
    if (!ev->n_bytes)
        return;
    if (ev->kind == AQ_EV_CALL_ARGS) {
        if (is_custom(j, &space)) /* free text comes out of its JSON at the end */
            return;
        ev_part(j, "function_call_arguments.delta", w);
    } else {
        if (j->st.kind != ev->kind)
            open_item(j, ev->kind, ev->n_bytes, w);
        ev_part(j, ev->kind == AQ_EV_TEXT ? "output_text.delta" : "reasoning_text.delta", w);
        if (ev->kind == AQ_EV_TEXT)
            aq_jw_s(w, ",\"logprobs\":[]");
    }
    aq_jw_s(w, ",\"delta\":");
    aq_jw_qn(w, ev->bytes, ev->n_bytes);
    aq_jw_s(w, "}\n\n");
}

/* An answer without a word has one empty message. */
static void close_all(aq_job *j, aq_jw *w)
{
    if (!j->st.n_item)
        open_item(j, AQ_EV_TEXT, 0, w);
    close_item(j, w);
}

static void choice_end(aq_job *j, aq_choice *c, aq_jw *w)
{
    (void)c;
    close_all(j, w);
}

static void end(aq_job *j, aq_jw *w)
{
    if (j->choice[0].reason == AQ_DONE_LENGTH)
        ev_response(j, "incomplete", "incomplete", NULL, w);
    else
        ev_response(j, "completed", "completed", NULL, w);
}

static void fail(aq_job *j, const aq_fault *f, aq_jw *w)
{
    if (j->st.kind)
        close_item(j, w);
    ev_response(j, "failed", "failed", f, w);
}

/* ---- whole ----------------------------------------------------------------------------------- */

static void one_item(aq_job *j, uint32_t kind, uint32_t call)
{
    j->st.kind = kind;
    j->st.call = call;
    j->st.n_item++;
    if (j->st.items.b.n)
        aq_jw_s(&j->st.items, ",");
    put_item(j, true, &j->st.items);
    j->st.kind = 0;
}

static void whole(aq_job *j, aq_jw *w)
{
    const aq_choice *c = &j->choice[0];

    if (c->reasoning.n)
        one_item(j, AQ_EV_REASONING, 0);
    if (c->text.n || (!c->n_call && !c->reasoning.n))
        one_item(j, AQ_EV_TEXT, 0);
    for (uint32_t i = 0; i < c->n_call; i++)
        one_item(j, AQ_EV_CALL_START, i);
    put_response(j, c->reason == AQ_DONE_LENGTH ? "incomplete" : "completed", NULL, w);
}

const aq_dialect aq_dialect_responses = {
    .path = "/v1/responses",
    .failed_in_stream = true,
    .parse = aq_responses_parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .alive = alive,
    .whole = whole,
};
