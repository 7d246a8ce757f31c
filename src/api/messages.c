/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/messages and its count_tokens: Anthropic's chat.
 *
 *   stream   event: message_start, then for each block content_block_start, content_block_delta…, content_block_stop (one closes
 *            before the next opens), then message_delta with stop_reason and usage, message_stop
 *   sign of life   event: ping
 *
 * Markers of caches and ids are not part of the prompt, nor is a billing line, whose hash changes with each request. parse: a
 * worker. All else: the server's thread. */
#include <stdio.h>

#include "api-priv.h"

#define BILLING "x-anthropic-billing-header"

static int bad_block(aq_fault *f, uint32_t no, const aq_json *block)
{
    const char *type = aq_json_str(block, "type");

    return aq_fault_field(f, "messages",
                          "message %u has a block of type \"%.40s\"; text, thinking, tool_use and "
                          "tool_result are read: leave the others out",
                          no, type ? type : "(none)");
}

static const aq_json *text_of(const aq_json *block)
{
    const aq_json *t = aq_json_get(block, "text");

    return t && t->kind == AQ_JSON_STR ? t : NULL;
}

/* A string, or blocks of type text, as parts. Absent: none. */
static int put_texts(aq_jw *parts, const aq_json *c, uint32_t no, aq_fault *f)
{
    if (!c || c->kind == AQ_JSON_NULL)
        return 0;
    if (c->kind == AQ_JSON_STR) {
        aq_put_part(parts, c->str, c->n);
        return 0;
    }
    if (c->kind != AQ_JSON_ARR)
        return aq_fault_field(f, "messages",
                              "message %u has a content that is neither text nor blocks", no);
    for (const aq_json *b = c->n ? c->item : NULL; b; b = b->next) {
        const char *type = aq_json_str(b, "type");
        const aq_json *t = text_of(b);
        if (!type || strcmp(type, "text") != 0 || !t)
            return bad_block(f, no, b);
        aq_put_part(parts, t->str, t->n);
    }
    return 0;
}

static int put_system(aq_mb *m, const aq_json *c, aq_fault *f)
{
    if (!c || c->kind == AQ_JSON_NULL)
        return 0;
    if (c->kind == AQ_JSON_STR) {
        aq_mb_system(m, c->str, c->n);
        return 0;
    }
    if (c->kind != AQ_JSON_ARR)
        return aq_fault_field(f, "system", "'system' must be a text or blocks of type text");
    for (const aq_json *b = c->n ? c->item : NULL; b; b = b->next) {
        const aq_json *t = text_of(b);
        if (!t)
            return aq_fault_field(f, "system", "'system' must be a text or blocks of type text");
        if (strncmp(t->str, BILLING, strlen(BILLING)) != 0)
            aq_mb_system(m, t->str, t->n);
    }
    return 0;
}

static int put_result(aq_mb *m, const aq_json *b, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw parts = {0};
    const char *id = aq_json_str(b, "tool_use_id");

    if (!id)
        return aq_fault_field(f, "messages", "message %u has a tool_result without a tool_use_id",
                              no);
    if (aq_json_bool(b, "is_error", false))
        aq_put_part(&parts, "Error:", 6);
    int rc = put_texts(&parts, aq_json_get(b, "content"), no, f);
    if (rc >= 0)
        aq_mb_tool(m, id, &parts);
    return rc;
}

static int put_user(aq_mb *m, const aq_json *c, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw parts = {0};
    int rc = 0;

    if (!c || c->kind != AQ_JSON_ARR) {
        if (!c || c->kind != AQ_JSON_STR)
            return aq_fault_field(f, "messages",
                                  "message %u has a content that is neither text nor blocks", no);
        aq_put_part(&parts, c->str, c->n);
        aq_mb_user(m, &parts);
        return 0;
    }
    for (const aq_json *b = c->n ? c->item : NULL; b && rc >= 0; b = b->next) {
        const char *type = aq_json_str(b, "type");
        const aq_json *t = text_of(b);
        if (type && !strcmp(type, "text") && t) {
            aq_put_part(&parts, t->str, t->n);
        } else if (type && !strcmp(type, "tool_result")) {
            if (parts.b.n)
                aq_mb_user(m, &parts);
            parts.b.n = 0;
            rc = put_result(m, b, no, f);
        } else {
            rc = bad_block(f, no, b);
        }
    }
    if (rc >= 0 && parts.b.n)
        aq_mb_user(m, &parts);
    return rc;
}

static int put_use(aq_mb *m, const aq_json *b, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw args = {0};
    const aq_json *input = aq_json_get(b, "input");
    const char *id = aq_json_str(b, "id"), *name = aq_json_str(b, "name");

    if (!id || !name || !input || input->kind != AQ_JSON_OBJ)
        return aq_fault_field(f, "messages", "message %u has a tool_use without id, name or input",
                              no);
    aq_jw_v(&args, input);
    aq_mb_call(m, id, name, (const char *)args.b.p, args.b.n);
    return args.rc < 0 ? aq_fault_err(f, args.rc, NULL) : 0;
}

static int put_assistant(aq_mb *m, const aq_json *c, uint32_t no, aq_fault *f)
{
    int rc = 0;

    if (c && c->kind == AQ_JSON_STR) {
        aq_mb_text(m, c->str, c->n);
        return 0;
    }
    if (!c || c->kind != AQ_JSON_ARR)
        return aq_fault_field(f, "messages",
                              "message %u has a content that is neither text nor blocks", no);
    for (const aq_json *b = c->n ? c->item : NULL; b && rc >= 0; b = b->next) {
        const char *type = aq_json_str(b, "type");
        const aq_json *t = text_of(b), *think = aq_json_get(b, "thinking");
        if (type && !strcmp(type, "text") && t)
            aq_mb_text(m, t->str, t->n);
        else if (type && !strcmp(type, "thinking") && think && think->kind == AQ_JSON_STR)
            aq_mb_think(m, think->str, think->n);
        else if (type && !strcmp(type, "tool_use"))
            rc = put_use(m, b, no, f);
        else if (!type || strcmp(type, "redacted_thinking") != 0)
            rc = bad_block(f, no, b);
    }
    return rc;
}

static int put_messages(aq_ask *a, aq_mb *m, aq_fault *f)
{
    const aq_json *v = NULL;
    uint32_t no = 0;
    int rc = put_system(m, aq_json_get(a->body, "system"), f);

    rc = rc < 0 ? rc : aq_field_of(a->body, "messages", AQ_JSON_ARR, &v, f);
    if (rc < 0)
        return rc;
    if (!v || !v->n)
        return aq_fault_field(f, "messages",
                              "'messages' must be an array with at least one message");
    for (const aq_json *e = v->item; e && rc >= 0; e = e->next) {
        const char *role = aq_json_str(e, "role");
        const aq_json *c = aq_json_get(e, "content");
        no++;
        if (role && !strcmp(role, "user"))
            rc = put_user(m, c, no, f);
        else if (role && !strcmp(role, "assistant"))
            rc = put_assistant(m, c, no, f);
        else if (role && !strcmp(role, "system"))
            rc = put_system(m, c, f);
        else
            rc = aq_fault_field(f, "messages",
                                "message %u needs the role user, assistant or system", no);
    }
    return rc;
}

static int choice_of(aq_ask *a, aq_fault *f)
{
    const aq_json *v = NULL;
    int rc = aq_field_of(a->body, "tool_choice", AQ_JSON_OBJ, &v, f);

    if (rc < 1)
        return rc;
    const char *type = aq_json_str(v, "type");
    a->one_call = aq_json_bool(v, "disable_parallel_tool_use", false);
    a->tool_choice = AQ_TOOLS_AUTO;
    if (type && !strcmp(type, "none"))
        a->tool_choice = AQ_TOOLS_NONE;
    else if (type && !strcmp(type, "any"))
        a->tool_choice = AQ_TOOLS_REQUIRED;
    else if (type && !strcmp(type, "tool")) {
        a->tool_choice = AQ_TOOLS_NAMED;
        if (!(a->tool_name = aq_json_str(v, "name")))
            return aq_fault_field(f, "tool_choice", "'tool_choice' names no tool");
    } else if (!type || strcmp(type, "auto") != 0) {
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' can be of type auto, any, tool or none");
    }
    return 0;
}

static int tools(aq_ask *a, aq_fault *f)
{
    const aq_json *v = NULL;
    int rc = aq_field_of(a->body, "tools", AQ_JSON_ARR, &v, f);
    bool named = false;
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw list = {0};

    rc = rc < 0 ? rc : choice_of(a, f);
    if (rc < 0)
        return rc;
    for (const aq_json *t = v && v->n ? v->item : NULL; t; t = t->next) {
        const char *name = aq_json_str(t, "name"), *type = aq_json_str(t, "type");
        const aq_json *schema = aq_json_get(t, "input_schema");
        if (type && strcmp(type, "custom") != 0 && !schema)
            continue; /* one that Anthropic's servers run */
        if (!name || !schema || schema->kind != AQ_JSON_OBJ)
            return aq_fault_field(f, "tools", "'tools' has one without name or input_schema");
        named = named || (a->tool_name && !strcmp(name, a->tool_name));
        aq_put_tool(&list, name, aq_json_str(t, "description"), schema);
    }
    if (!list.b.n) {
        if (a->tool_choice >= AQ_TOOLS_REQUIRED)
            return aq_fault_field(f, "tool_choice",
                                  "'tool_choice' asks for a call, and there are no tools");
        a->tool_choice = AQ_TOOLS_AUTO;
        return 0;
    }
    if (a->tool_choice == AQ_TOOLS_NAMED && !named)
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' names '%.80s', which 'tools' does not have",
                              a->tool_name);
    aq_jw_s(&a->tools, "[");
    aq_jw_n(&a->tools, list.b.p, list.b.n);
    aq_jw_n(&a->tools, "]", 2); /* with its NUL */
    rc = AQ_MIN(a->tools.rc, list.rc);
    return rc < 0 ? aq_fault_err(f, rc, NULL) : 0;
}

int aq_anthropic_prompt(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_mb_clear_p))) aq_mb m = {.replay = a->replay};
    const aq_json *think = NULL;
    int rc = put_messages(a, &m, f);

    rc = rc < 0 ? rc : aq_mb_end(&m, a, f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "thinking", AQ_JSON_OBJ, &think, f);
    const char *type = aq_json_str(think, "type");
    bool off = type && !strcmp(type, "disabled");
    rc = rc < 0 ? rc : aq_ask_vars(a, off ? "enable_thinking" : NULL, "false", f);
    return rc < 0 ? rc : tools(a, f);
}

static int parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    const aq_json *out = NULL, *format = NULL, *schema = NULL;
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    int rc = aq_ask_begin(a, body, n, f);

    rc = rc < 0 ? rc : aq_anthropic_prompt(a, f);
    rc = rc < 0 ? rc : aq_ask_sampling(a, f);
    rc = rc < 0 ? rc : aq_ask_stop(a, "stop_sequences", f);
    rc = rc < 0 ? rc : aq_ask_max(a, "max_tokens", f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "output_config", AQ_JSON_OBJ, &out, f);
    rc = rc < 1 ? rc : aq_field_of(out, "format", AQ_JSON_OBJ, &format, f);
    rc = rc < 1 ? rc : aq_field_of(format, "schema", AQ_JSON_OBJ, &schema, f);
    if (rc < 1)
        return rc;
    aq_jw_v(&w, schema);
    if (!(a->schema_json = aq_ask_keep(a, &w, f)))
        return -AQ_E_NOMEM;
    return 0;
}

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

static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;

    aq_job_usage(j, &u, NULL);
    aq_jw_f(w,
            "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
            "\"cache_read_input_tokens\":%u,\"output_tokens\":%u}",
            u.prompt_tok - AQ_MIN(u.cached_tok, u.prompt_tok), u.cached_tok, u.gen_tok);
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
    .parse = parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .whole = whole,
};
