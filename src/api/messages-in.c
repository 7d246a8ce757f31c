/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of /v1/messages and its count_tokens. Markers of caches and ids are not part of the prompt, nor is a billing line, whose hash
 * changes with each request. A worker's thread. */
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
        const char *type = aq_json_str(b, "type");
        if (!t || (!type ? aq_json_get(b, "type") != NULL : strcmp(type, "text") != 0))
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
    int rc = aq_field_kind(b, "is_error", AQ_JSON_TRUE, "a tool_result", "messages", f);
    rc = rc < 0 ? rc : put_texts(&parts, aq_json_get(b, "content"), no, f);
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

    if (rc < 1 || (rc = aq_field_kind(v, "disable_parallel_tool_use", AQ_JSON_TRUE, "'tool_choice'",
                                      "tool_choice", f)) < 0)
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
        const char *name = NULL, *type = aq_json_str(t, "type");
        const aq_json *schema = aq_json_get(t, "input_schema");
        if (type && strcmp(type, "custom") != 0 && !schema)
            continue; /* one that Anthropic's servers run */
        if ((rc = aq_ask_tool_name(t, &name, f)) < 0 ||
            (rc = aq_field_kind(t, "type", AQ_JSON_STR, name, "tools", f)) < 0 ||
            (rc = aq_field_kind(t, "description", AQ_JSON_STR, name, "tools", f)) < 0)
            return rc;
        if (!schema || schema->kind != AQ_JSON_OBJ)
            return aq_fault_field(f, "tools", "'tools' has '%.80s' without an input_schema", name);
        named = named || (a->tool_name && !strcmp(name, a->tool_name));
        aq_put_tool(&list, name, aq_json_str(t, "description"), schema);
    }
    return aq_ask_tools_end(a, &list, named, f);
}

int aq_anthropic_prompt(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_mb_clear_p))) aq_mb m = {.replay = a->replay};
    const aq_json *think = NULL, *out = NULL;
    int rc = put_messages(a, &m, f);

    rc = rc < 0 ? rc : aq_mb_end(&m, a, f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "thinking", AQ_JSON_OBJ, &think, f);
    const char *type = aq_json_str(think, "type");
    rc = rc < 0 ? rc : aq_field_kind(think, "type", AQ_JSON_STR, "'thinking'", "thinking", f);
    rc = rc < 0 ? rc
                : aq_field_kind(think, "budget_tokens", AQ_JSON_INT, "'thinking'", "thinking", f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "output_config", AQ_JSON_OBJ, &out, f);
    rc = rc < 0 ? rc
                : aq_field_kind(out, "effort", AQ_JSON_STR, "'output_config'", "output_config", f);
    if (rc >= 0 && type && !strcmp(type, "disabled"))
        rc = aq_ask_vars(a, "enable_thinking", "false", f);
    else if (rc >= 0)
        rc = aq_ask_effort(a, aq_json_str(out, "effort"), f);
    return rc < 0 ? rc : tools(a, f);
}

int aq_anthropic_parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    const aq_json *out = NULL, *format = NULL, *schema = NULL;
    int rc = aq_ask_begin(a, body, n, f);

    rc = rc < 0 ? rc : aq_anthropic_prompt(a, f);
    rc = rc < 0 ? rc : aq_ask_sampling(a, f);
    rc = rc < 0 ? rc : aq_ask_stop(a, "stop_sequences", f);
    rc = rc < 0 ? rc : aq_ask_max(a, "max_tokens", f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "output_config", AQ_JSON_OBJ, &out, f);
    rc = rc < 1 ? rc : aq_field_of(out, "format", AQ_JSON_OBJ, &format, f);
    if (rc == 1) {
        const char *type = aq_json_str(format, "type");
        if (!type || strcmp(type, "json_schema") != 0)
            return aq_fault_field(f, "output_config",
                                  "'output_config' has a format that can be of "
                                  "type json_schema alone");
    }
    rc = rc < 1 ? rc : aq_field_of(format, "schema", AQ_JSON_OBJ, &schema, f);
    return rc < 1 ? rc : aq_ask_schema(a, schema, f);
}
