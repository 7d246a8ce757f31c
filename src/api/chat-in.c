/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of /v1/chat/completions. A worker's thread. */
#include <stdio.h>

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

/* What is looked at here; the engine sees to the rest. */
static int check_message(const aq_json *m, uint32_t no, aq_fault *f)
{
    const aq_json *calls = aq_json_get(m, "tool_calls");
    char where[32];

    snprintf(where, sizeof where, "message %u", no);
    int rc = aq_field_kind(m, "reasoning_content", AQ_JSON_STR, where, "messages", f);
    rc = rc < 0 ? rc : aq_field_kind(m, "tool_call_id", AQ_JSON_STR, where, "messages", f);
    for (const aq_json *c = calls && calls->kind == AQ_JSON_ARR && calls->n ? calls->item : NULL;
         c && rc >= 0; c = c->next)
        rc = aq_field_kind(c, "id", AQ_JSON_STR, where, "messages", f);
    return rc;
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
    uint32_t no = 0;
    for (m = v->item; m; m = m->next)
        if ((rc = check_message(m, ++no, f)) < 0)
            return rc;
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
    const aq_json *v = NULL, *js = NULL, *schema = NULL;
    int rc = aq_field_of(a->body, "response_format", AQ_JSON_OBJ, &v, f);

    if (rc < 1)
        return rc;
    const char *type = aq_json_str(v, "type");
    if (aq_ask_plain(a, type))
        return 0;
    if (!type || strcmp(type, "json_schema") != 0)
        return aq_fault_field(f, "response_format",
                              "'response_format' can be of type text, json_object or json_schema");
    rc = aq_field_of(v, "json_schema", AQ_JSON_OBJ, &js, f);
    rc = rc < 1 ? rc : aq_field_of(js, "schema", AQ_JSON_OBJ, &schema, f);
    if (rc < 1)
        return aq_fault_field(f, "response_format", "'response_format' has no json_schema.schema");
    return aq_ask_schema(a, schema, f);
}

int aq_chat_parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
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
