/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/messages: Anthropic's chat.
 *
 *   stream   event: message_start, then for each block content_block_start, content_block_delta…, content_block_stop (one closes
 *            before the next opens), then message_delta with stop_reason and usage, message_stop
 *   sign of life   event: ping
 *
 * messages-in.c reads its bodies. The server's thread. */
#include "api-priv.h"

/* "stop_reason":…,"stop_sequence":… */
static void put_reason(const aq_choice *c, aq_jw *w)
{
    bool text = c->reason == AQ_DONE_STOP && c->stopped_by;

    aq_jw_f(w, "\"stop_reason\":\"%s\",\"stop_sequence\":",
            c->reason == AQ_DONE_LENGTH  ? "max_tokens"
            : c->reason == AQ_DONE_CALLS ? "tool_use"
            : text                       ? "stop_sequence"
                                         : "end_turn");
    aq_jw_q(w, text ? c->stopped_by : NULL);
}

/* ---- streamed -------------------------------------------------------------------------------- */

/* "usage":…,"timings":… */
static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;

    aq_job_usage(j, &u, NULL);
    aq_jw_f(w,
            "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
            "\"cache_read_input_tokens\":%u,\"output_tokens\":%u},\"timings\":",
            u.prompt_tok - AQ_MIN(u.cached_tok, u.prompt_tok), u.cached_tok, u.gen_tok);
    aq_put_timings(w, &u);
}

static void put_head(const aq_job *j, aq_jw *w)
{
    aq_jw_s(w, "{\"id\":\"msg_");
    aq_jw_s(w, j->id);
    aq_jw_s(w, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    aq_jw_q(w, j->name);
}

static void begin(aq_job *j, aq_jw *w)
{
    aq_req_state st = {0};

    if (j->n && j->choice[0].req)
        aq_req_get_state(j->choice[0].req, &st);
    aq_jw_s(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    put_head(j, w);
    aq_jw_f(w,
            ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
            "\"input_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
            "\"output_tokens\":0}}}\n\n",
            st.prompt_tok);
}

static void delta(aq_job *j, aq_jw *w, const char *kind, const char *key, const char *p, size_t n)
{
    aq_jw_f(w,
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%u,"
            "\"delta\":{\"type\":\"%s\",\"%s\":",
            j->st.n_item - 1, kind, key);
    aq_jw_qn(w, p, n);
    aq_jw_s(w, "}}\n\n");
}

static void close_block(aq_job *j, aq_jw *w)
{
    if (!j->st.kind)
        return;
    if (j->st.kind ==
        AQ_EV_REASONING) /* it is of this server, and not checked when it comes back */
        delta(j, w, "signature_delta", "signature", "aquifer", 7);
    aq_jw_f(w,
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%u}\n\n",
            j->st.n_item - 1);
    j->st.kind = 0;
}

static void open_block(aq_job *j, uint32_t kind, const aq_event *ev, aq_jw *w)
{
    close_block(j, w);
    j->st.kind = kind;
    aq_jw_f(w,
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%u,"
            "\"content_block\":",
            j->st.n_item++);
    if (kind == AQ_EV_TEXT) {
        aq_jw_s(w, "{\"type\":\"text\",\"text\":\"\"}");
    } else if (kind == AQ_EV_REASONING) {
        aq_jw_s(w, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else {
        aq_jw_s(w, "{\"type\":\"tool_use\",\"id\":");
        aq_jw_q(w, ev->call_id);
        aq_jw_s(w, ",\"name\":");
        aq_jw_qn(w, ev->bytes, ev->n_bytes);
        aq_jw_s(w, ",\"input\":{}}");
    }
    aq_jw_s(w, "}\n\n");
}

static void event(aq_job *j, aq_choice *c, const aq_event *ev, aq_jw *w)
{
    (void)c;
    if (ev->kind == AQ_EV_CALL_START) {
        open_block(j, ev->kind, ev, w);
        return;
    }
    if (!ev->n_bytes)
        return;
    if (ev->kind == AQ_EV_CALL_ARGS) {
        delta(j, w, "input_json_delta", "partial_json", ev->bytes, ev->n_bytes);
        return;
    }
    if (j->st.kind != ev->kind)
        open_block(j, ev->kind, ev, w);
    if (ev->kind == AQ_EV_TEXT)
        delta(j, w, "text_delta", "text", ev->bytes, ev->n_bytes);
    else
        delta(j, w, "thinking_delta", "thinking", ev->bytes, ev->n_bytes);
}

static void choice_end(aq_job *j, aq_choice *c, aq_jw *w)
{
    close_block(j, w);
    aq_jw_s(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    put_reason(c, w);
    aq_jw_s(w, "},");
    put_usage(j, w);
    aq_jw_s(w, "}\n\n");
}

static void end(aq_job *j, aq_jw *w)
{
    (void)j;
    aq_jw_s(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

static void fail(aq_job *j, const aq_fault *f, aq_jw *w)
{
    (void)j;
    aq_jw_s(w, "event: error\ndata: ");
    aq_fault_put(w, f, true);
    aq_jw_s(w, "\n\n");
}

/* ---- whole ----------------------------------------------------------------------------------- */

static void whole(aq_job *j, aq_jw *w)
{
    const aq_choice *c = &j->choice[0];
    bool first = true;

    put_head(j, w);
    aq_jw_s(w, ",\"content\":[");
    if (c->reasoning.n) {
        aq_jw_s(w, "{\"type\":\"thinking\",\"thinking\":");
        aq_jw_qn(w, (const char *)c->reasoning.p, c->reasoning.n);
        aq_jw_s(w, ",\"signature\":\"aquifer\"}");
        first = false;
    }
    if (c->text.n || (first && !c->n_call)) {
        aq_jw_s(w, first ? "{\"type\":\"text\",\"text\":" : ",{\"type\":\"text\",\"text\":");
        aq_jw_qn(w, (const char *)c->text.p, c->text.n);
        aq_jw_s(w, "}");
        first = false;
    }
    for (uint32_t i = 0; i < c->n_call; i++) {
        const aq_call *k = &c->call[i];
        aq_jw_s(w, first ? "{\"type\":\"tool_use\",\"id\":" : ",{\"type\":\"tool_use\",\"id\":");
        first = false;
        aq_jw_q(w, k->id);
        aq_jw_s(w, ",\"name\":");
        aq_jw_qn(w, (const char *)k->name.p, k->name.n);
        aq_jw_s(w, ",\"input\":");
        if (c->reason == AQ_DONE_CALLS && k->args.n) /* else cut off: no JSON */
            aq_jw_n(w, k->args.p, k->args.n);
        else
            aq_jw_s(w, "{}");
        aq_jw_s(w, "}");
    }
    aq_jw_s(w, "],");
    put_reason(c, w);
    aq_jw_s(w, ",");
    put_usage(j, w);
    aq_jw_s(w, "}");
}

const aq_dialect aq_dialect_messages = {
    .path = "/v1/messages",
    .anthropic = true,
    .keepalive = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .parse = aq_anthropic_parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .whole = whole,
};
