/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of /v1/responses. Nothing is stored: the whole input comes each time.
 *
 * Tools that clients run are functions here, whatever they are called there: of type custom (free text; one argument, input) and in a
 * namespace. Tools that OpenAI's servers run are left out. A worker's thread. */
#include "api-priv.h"

char *aq_tool_in(const char *space, const char *name)
{
    if (!space || !*space)
        return g_strdup(name);
    return g_strconcat(space, g_str_has_suffix(space, "_") ? "" : "__", name, NULL);
}

/* ---- input ----------------------------------------------------------------------------------- */

/* A text, or parts whose text counts, as parts. */
static int put_texts(aq_jw *parts, const aq_json *c, uint32_t no, aq_fault *f)
{
    if (!c || c->kind == AQ_JSON_NULL)
        return 0;
    if (c->kind == AQ_JSON_STR) {
        aq_put_part(parts, c->str, c->n);
        return 0;
    }
    if (c->kind != AQ_JSON_ARR)
        return aq_fault_field(f, "input", "item %u has a content that is neither text nor parts",
                              no);
    for (const aq_json *p = c->n ? c->item : NULL; p; p = p->next) {
        const char *type = aq_json_str(p, "type");
        const aq_json *t = aq_json_get(p, type && !strcmp(type, "refusal") ? "refusal" : "text");
        bool known = type && (!strcmp(type, "input_text") || !strcmp(type, "output_text") ||
                              !strcmp(type, "text") || !strcmp(type, "refusal") ||
                              !strcmp(type, "summary_text") || !strcmp(type, "reasoning_text"));
        if (!known || !t || t->kind != AQ_JSON_STR)
            return aq_fault_field(f, "input",
                                  "item %u has a part of type \"%.40s\"; only text is read: leave "
                                  "the others out",
                                  no, type ? type : "(none)");
        aq_put_part(parts, t->str, t->n);
    }
    return 0;
}

static int put_message(aq_mb *m, const aq_json *e, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw parts = {0};
    const char *role = aq_json_str(e, "role");
    const aq_json *c = aq_json_get(e, "content");
    int rc;

    if (!role)
        return aq_fault_field(f, "input", "item %u has no role", no);
    if (!strcmp(role, "user")) {
        if ((rc = put_texts(&parts, c, no, f)) >= 0)
            aq_mb_user(m, &parts);
        return rc;
    }
    bool assistant = !strcmp(role, "assistant");
    if (!assistant && strcmp(role, "system") != 0 && strcmp(role, "developer") != 0)
        return aq_fault_field(
            f, "input",
            "item %u has the role \"%.40s\"; user, assistant, system and developer are known", no,
            role);
    if ((rc = put_texts(&parts, c, no, f)) < 0) /* checked; added one by one below */
        return rc;
    if (c && c->kind == AQ_JSON_STR) {
        if (assistant)
            aq_mb_text(m, c->str, c->n);
        else
            aq_mb_system(m, c->str, c->n);
    }
    for (const aq_json *p = c && c->kind == AQ_JSON_ARR && c->n ? c->item : NULL; p; p = p->next) {
        const aq_json *t = aq_json_get(p, "text");
        t = t ? t : aq_json_get(p, "refusal");
        if (t && assistant)
            aq_mb_text(m, t->str, t->n);
        else if (t)
            aq_mb_system(m, t->str, t->n);
    }
    return 0;
}

static int put_reasoning(aq_mb *m, const aq_json *e, aq_fault *f)
{
    const aq_json *c = aq_json_get(e, "content");
    int rc = aq_field_kind(e, "content", AQ_JSON_ARR, "an item of type reasoning", "input", f);

    rc = rc < 0 ? rc
                : aq_field_kind(e, "summary", AQ_JSON_ARR, "an item of type reasoning", "input", f);
    if (rc < 0)
        return rc;
    if (!c || c->kind != AQ_JSON_ARR || !c->n)
        c = aq_json_get(e, "summary");
    for (const aq_json *p = c && c->kind == AQ_JSON_ARR && c->n ? c->item : NULL; p; p = p->next) {
        const aq_json *t = aq_json_get(p, "text");
        if (t && t->kind == AQ_JSON_STR)
            aq_mb_think(m, t->str, t->n);
    }
    return 0;
}

/* A call of a tool, or what it gave. */
static int put_tool_item(aq_mb *m, const aq_json *e, const char *type, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const char *id = NULL, *own = aq_json_str(e, "name"), *space = NULL;
    bool custom = !strncmp(type, "custom_", 7);
    int rc = aq_field_str(e, "call_id", &id, f);

    rc = rc < 0 ? rc : aq_field_str(e, "namespace", &space, f);
    g_autofree char *name = own ? aq_tool_in(space, own) : NULL;

    if (rc < 0)
        return rc;
    if (g_str_has_suffix(type, "_output")) {
        rc = put_texts(&w, aq_json_get(e, "output"), no, f);
        if (rc >= 0 && id)
            aq_mb_tool(m, id, &w);
        else if (rc >= 0) /* of no call: what a client tells by itself */
            aq_mb_user(m, &w);
        return rc;
    }
    if (!id)
        return aq_fault_field(f, "input", "item %u has no call_id", no);
    const aq_json *args = aq_json_get(e, custom ? "input" : "arguments");
    if (!name || !args || args->kind != AQ_JSON_STR)
        return aq_fault_field(f, "input", "item %u has no name, or no %s", no,
                              custom ? "input" : "arguments");
    if (custom) {
        aq_jw_s(&w, "{\"input\":");
        aq_jw_qn(&w, args->str, args->n);
        aq_jw_s(&w, "}");
        aq_mb_call(m, id, name, (const char *)w.b.p, w.b.n);
        return w.rc < 0 ? aq_fault_err(f, w.rc, NULL) : 0;
    }
    aq_mb_call(m, id, name, args->str, args->n);
    return 0;
}

static int put_input(aq_ask *a, aq_mb *m, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, "input");
    const char *instructions = NULL;
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw parts = {0};
    uint32_t no = 0;
    int rc = aq_field_str(a->body, "instructions", &instructions, f);

    if (rc < 0)
        return rc;
    if (instructions && *instructions)
        aq_mb_system(m, instructions, strlen(instructions));
    if (v && v->kind == AQ_JSON_STR) {
        aq_put_part(&parts, v->str, v->n);
        aq_mb_user(m, &parts);
        return 0;
    }
    if (!v || v->kind != AQ_JSON_ARR || !v->n)
        return aq_fault_field(f, "input", "'input' must be a text or an array of items");
    for (const aq_json *e = v->item; e && rc >= 0; e = e->next) {
        const char *type = NULL;
        no++;
        if (e->kind != AQ_JSON_OBJ)
            rc = aq_fault_field(f, "input", "item %u is no object", no);
        else if ((rc = aq_field_str(e, "type", &type, f)) < 0)
            break;
        else if (!type || !strcmp(type, "message"))
            rc = put_message(m, e, no, f);
        else if (!strcmp(type, "reasoning"))
            rc = put_reasoning(m, e, f);
        else if (!strcmp(type, "function_call") || !strcmp(type, "function_call_output") ||
                 !strcmp(type, "custom_tool_call") || !strcmp(type, "custom_tool_call_output"))
            rc = put_tool_item(m, e, type, no, f);
        else if (!strcmp(type, "item_reference"))
            rc = aq_fault_field(f, "input",
                                "item %u refers to one that would have to be stored: send it whole",
                                no);
        /* else of a tool that OpenAI's servers run */
    }
    return rc < 0 ? rc : 0;
}

/* ---- tools ----------------------------------------------------------------------------------- */

/* space: the namespace that they stand in, or NULL. */
static int put_tools(aq_ask *a, const aq_json *list, const char *space, aq_jw *out, bool *named,
                     aq_fault *f)
{
    for (const aq_json *t = list->n ? list->item : NULL; t; t = t->next) {
        const char *type = aq_json_str(t, "type"), *own = NULL;
        const aq_json *schema = aq_json_get(t, "parameters"), *inner = aq_json_get(t, "tools");
        bool custom = type && !strcmp(type, "custom");
        int rc;
        if (!type)
            return aq_fault_field(f, "tools", "'tools' has one that is no object with a type");
        if (!strcmp(type, "namespace") && !space) {
            if ((rc = aq_ask_tool_name(t, &own, f)) < 0 ||
                (rc = aq_field_kind(t, "tools", AQ_JSON_ARR, "a namespace", "tools", f)) < 0 ||
                (inner && inner->n && (rc = put_tools(a, inner, own, out, named, f)) < 0))
                return rc;
            continue;
        }
        if (strcmp(type, "function") != 0 && !custom)
            continue; /* one that OpenAI's servers run */
        if ((rc = aq_ask_tool_name(t, &own, f)) < 0 ||
            (rc = aq_field_kind(t, "description", AQ_JSON_STR, own, "tools", f)) < 0 ||
            (rc = aq_field_kind(t, "parameters", AQ_JSON_OBJ, own, "tools", f)) < 0)
            return rc;
        if (!aq_ask_allows(a, own))
            continue;
        g_autofree char *name = aq_tool_in(space, own);
        if (strlen(name) > AQ_API_TOOL_BYTES)
            return aq_fault_field(f, "tools", "'tools' has %.60s in a namespace, %u bytes at most",
                                  own, AQ_API_TOOL_BYTES);
        if (a->tool_name && !*named && !strcmp(a->tool_name, own)) {
            char *full = aq_ask_alloc(a, strlen(name) + 1, f);
            if (!full)
                return -AQ_E_NOMEM;
            a->tool_name = memcpy(full, name, strlen(name) + 1);
            *named = true;
        }
        if (!custom) {
            aq_put_tool(out, name, aq_json_str(t, "description"),
                        schema && schema->kind == AQ_JSON_OBJ ? schema : NULL);
            continue;
        }
        aq_jw_s(out, out->b.n ? "," : "");
        aq_jw_s(out, "{\"type\":\"function\",\"function\":{\"name\":");
        aq_jw_q(out, name);
        aq_jw_s(out, ",\"description\":");
        aq_jw_q(out, aq_json_str(t, "description") ? aq_json_str(t, "description") : "");
        aq_jw_s(out, ",\"parameters\":{\"type\":\"object\",\"properties\":{\"input\":{\"type\":"
                     "\"string\"}},\"required\":[\"input\"]}}}");
    }
    return 0;
}

static int choice_of(aq_ask *a, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, "tool_choice");
    const char *s = v && v->kind == AQ_JSON_STR ? v->str : NULL, *type = aq_json_str(v, "type");

    if (!v || v->kind == AQ_JSON_NULL || (s && !strcmp(s, "auto")))
        return 0;
    if (s && !strcmp(s, "none")) {
        a->tool_choice = AQ_TOOLS_NONE;
    } else if (s && !strcmp(s, "required")) {
        a->tool_choice = AQ_TOOLS_REQUIRED;
    } else if (type && (!strcmp(type, "function") || !strcmp(type, "custom"))) {
        a->tool_choice = AQ_TOOLS_NAMED;
        if (!(a->tool_name = aq_json_str(v, "name")))
            return aq_fault_field(f, "tool_choice", "'tool_choice' names no function");
    } else if (type && !strcmp(type, "allowed_tools")) {
        return aq_ask_allow(a, v, f);
    } else if (!type) {
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' can be auto, none, required or a function");
    } /* a tool that OpenAI's servers run: auto */
    return 0;
}

static int tools(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw list = {0};
    bool parallel = true, named = false;
    int rc = aq_field_of(a->body, "tools", AQ_JSON_ARR, &a->tools_in, f);

    rc = rc < 0 ? rc : aq_field_bool(a->body, "parallel_tool_calls", &parallel, f);
    rc = rc < 0 ? rc : choice_of(a, f);
    if (rc >= 0 && a->tools_in)
        rc = put_tools(a, a->tools_in, NULL, &list, &named, f);
    if (rc < 0)
        return rc;
    a->one_call = !parallel;
    return aq_ask_tools_end(a, &list, named, f);
}

static int format(aq_ask *a, aq_fault *f)
{
    const aq_json *text = NULL, *v = NULL, *schema = NULL;
    int rc = aq_field_of(a->body, "text", AQ_JSON_OBJ, &text, f);

    rc = rc < 1 ? rc : aq_field_of(text, "format", AQ_JSON_OBJ, &v, f);
    if (rc < 1)
        return rc;
    const char *type = aq_json_str(v, "type");
    if (aq_ask_plain(a, type))
        return 0;
    rc = aq_field_of(v, "schema", AQ_JSON_OBJ, &schema, f);
    if (!type || strcmp(type, "json_schema") != 0 || rc < 1)
        return aq_fault_field(
            f, "text.format",
            "'text.format' can be text, json_object, or json_schema with its schema");
    return aq_ask_schema(a, schema, f);
}

static int refuse_stored(const aq_ask *a, aq_fault *f)
{
    static const char *const keys[] = {"previous_response_id", "conversation", "prompt"};
    bool background = false;

    for (size_t i = 0; i < AQ_LEN(keys); i++) {
        const aq_json *v = aq_json_get(a->body, keys[i]);
        if (v && v->kind != AQ_JSON_NULL)
            return aq_fault_field(
                f, keys[i], "'%s' is not supported: nothing is stored here, send the whole input",
                keys[i]);
    }
    int rc = aq_field_bool(a->body, "background", &background, f);
    return rc >= 0 && background
               ? aq_fault_field(f, "background",
                                "'background' is not supported: nothing is stored here")
               : rc;
}

int aq_responses_parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    __attribute__((cleanup(aq_mb_clear_p))) aq_mb m = {.replay = a->replay};
    const aq_json *think = NULL;
    int rc = aq_ask_begin(a, body, n, f);

    rc = rc < 0 ? rc : refuse_stored(a, f);
    rc = rc < 0 ? rc
                : aq_ask_sampling(a, f); /* "stream" first: it decides how an overflow is told */
    rc = rc < 0 ? rc : put_input(a, &m, f);
    rc = rc < 0 ? rc : aq_mb_end(&m, a, f);
    rc = rc < 0 ? rc : aq_ask_max(a, "max_output_tokens", f);
    rc = rc < 0 ? rc : aq_field_of(a->body, "reasoning", AQ_JSON_OBJ, &think, f);
    rc = rc < 0 ? rc : aq_field_kind(think, "effort", AQ_JSON_STR, "'reasoning'", "reasoning", f);
    rc = rc < 0 ? rc : aq_field_kind(think, "summary", AQ_JSON_STR, "'reasoning'", "reasoning", f);
    rc = rc < 0 ? rc : aq_ask_effort(a, aq_json_str(think, "effort"), f);
    rc = rc < 0 ? rc : tools(a, f);
    return rc < 0 ? rc : format(a, f);
}
