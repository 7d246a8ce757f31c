/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/chat/completions: OpenAI's chat.
 *
 *   stream   data: {"id":…,"object":"chat.completion.chunk",…,"choices":[{"index":0,"delta":{…},"finish_reason":null}]}
 *            first each choice's role, then its text; reasoning apart, in reasoning_content; then its finish_reason;
 *            with stream_options.include_usage one chunk without choices and with usage; then data: [DONE]
 *   sign of life   a comment line with no empty line after it, which some clients would take for an event
 *
 * chat-in.c reads its bodies. The server's thread. */
#include "api-priv.h"

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
    .parse = aq_chat_parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .whole = whole,
};
