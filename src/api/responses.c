/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/responses: OpenAI's other chat. Nothing is stored: the whole input comes each time.
 *
 *   stream   event: response.created, response.in_progress, then for each item output_item.added, its parts and deltas, their
 *            ".done" twins, output_item.done; at last response.completed, .incomplete or .failed. Each has a sequence_number;
 *            an item keeps its id and its output_index
 *   sign of life   response.in_progress again: clients that count decoded events do not count comments
 *
 * Tools that clients run are functions here, whatever they are called there: of type custom (free text; one argument, input) and in a
 * namespace; calls of them go back in their own form. Tools that OpenAI's servers run are left out. parse: a worker. All else:
 * the server's thread. */
#include <stdio.h>

#include "api-priv.h"

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

static void put_reasoning(aq_mb *m, const aq_json *e)
{
    const aq_json *c = aq_json_get(e, "content");

    if (!c || c->kind != AQ_JSON_ARR || !c->n)
        c = aq_json_get(e, "summary");
    for (const aq_json *p = c && c->kind == AQ_JSON_ARR && c->n ? c->item : NULL; p; p = p->next) {
        const aq_json *t = aq_json_get(p, "text");
        if (t && t->kind == AQ_JSON_STR)
            aq_mb_think(m, t->str, t->n);
    }
}

/* A call of a tool, or what it gave. */
static int put_tool_item(aq_mb *m, const aq_json *e, const char *type, uint32_t no, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const char *id = NULL, *name = aq_json_str(e, "name");
    bool custom = !strncmp(type, "custom_", 7);
    int rc = aq_field_str(e, "call_id", &id, f);

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
            put_reasoning(m, e);
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

static int put_tools(const aq_ask *a, const aq_json *list, aq_jw *out, uint32_t depth, bool *named,
                     aq_fault *f)
{
    for (const aq_json *t = list->n ? list->item : NULL; t; t = t->next) {
        const char *type = aq_json_str(t, "type"), *name = aq_json_str(t, "name");
        const aq_json *schema = aq_json_get(t, "parameters"), *inner = aq_json_get(t, "tools");
        bool custom = type && !strcmp(type, "custom");
        if (t->kind != AQ_JSON_OBJ)
            return aq_fault_field(f, "tools", "'tools' has one that is no object");
        if (type && !strcmp(type, "namespace") && inner && inner->kind == AQ_JSON_ARR && !depth) {
            int rc = put_tools(a, inner, out, 1, named, f);
            if (rc < 0)
                return rc;
            continue;
        }
        if (!type || (strcmp(type, "function") != 0 && !custom))
            continue; /* one that OpenAI's servers run */
        if (!name || !*name)
            return aq_fault_field(f, "tools", "'tools' has one without a name");
        *named = *named || (a->tool_name && !strcmp(a->tool_name, name));
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

/* The tool of this name as the client has it; *ret_space: its namespace or NULL. */
static const aq_json *tool_named(const aq_json *list, const char *name, size_t n,
                                 const char **ret_space)
{
    for (const aq_json *t = list && list->kind == AQ_JSON_ARR && list->n ? list->item : NULL; t;
         t = t->next) {
        const char *own = aq_json_str(t, "name"), *type = aq_json_str(t, "type");
        if (type && !strcmp(type, "namespace")) {
            const aq_json *hit = tool_named(aq_json_get(t, "tools"), name, n, ret_space);
            if (hit) {
                *ret_space = own;
                return hit;
            }
        } else if (own && strlen(own) == n && !memcmp(own, name, n)) {
            return t;
        }
    }
    return NULL;
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
    } else if (s || v->kind != AQ_JSON_OBJ) {
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' can be auto, none, required or a function");
    } /* a tool that OpenAI's servers run, or a list of allowed ones: auto */
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
        rc = put_tools(a, a->tools_in, &list, 0, &named, f);
    if (rc < 0)
        return rc;
    a->one_call = !parallel;
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

static int format(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const aq_json *text = NULL, *v = NULL, *schema = NULL;
    int rc = aq_field_of(a->body, "text", AQ_JSON_OBJ, &text, f);

    rc = rc < 1 ? rc : aq_field_of(text, "format", AQ_JSON_OBJ, &v, f);
    if (rc < 1)
        return rc;
    const char *type = aq_json_str(v, "type");
    if (type && !strcmp(type, "text"))
        return 0;
    if (type && !strcmp(type, "json_object")) {
        a->schema_json = "{\"type\":\"object\"}";
        return 0;
    }
    rc = aq_field_of(v, "schema", AQ_JSON_OBJ, &schema, f);
    if (!type || strcmp(type, "json_schema") != 0 || rc < 1)
        return aq_fault_field(
            f, "text.format",
            "'text.format' can be text, json_object, or json_schema with its schema");
    aq_jw_v(&w, schema);
    if (!(a->schema_json = aq_ask_keep(a, &w, f)))
        return -AQ_E_NOMEM;
    return 0;
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

static int parse(aq_ask *a, const char *body, size_t n, aq_fault *f)
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
    rc = rc < 0 ? rc : aq_ask_effort(a, aq_json_str(think, "effort"), f);
    rc = rc < 0 ? rc : tools(a, f);
    return rc < 0 ? rc : format(a, f);
}

/* ---- the answer's objects -------------------------------------------------------------------- */

static void put_usage(const aq_job *j, aq_jw *w)
{
    aq_usage u;
    uint32_t think;

    aq_job_usage(j, &u, &think);
    aq_jw_f(w,
            "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
            "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
            "\"total_tokens\":%u}",
            u.prompt_tok, u.cached_tok, u.gen_tok, think, u.prompt_tok + u.gen_tok);
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

static bool is_custom(const aq_job *j, const char **ret_space)
{
    const aq_call *k = &j->choice[0].call[j->st.call];
    const aq_json *t = tool_named(j->ask.tools_in, (const char *)k->name.p, k->name.n, ret_space);
    const char *type = aq_json_str(t, "type");

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
        aq_jw_qn(w, (const char *)k->name.p, k->name.n);
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
    const aq_call *k = &j->choice[0].call[j->st.call];
    ev_part(j, "function_call_arguments.done", w);
    aq_jw_s(w, ",\"name\":");
    aq_jw_qn(w, (const char *)k->name.p, k->name.n);
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
    .parse = parse,
    .begin = begin,
    .event = event,
    .choice_end = choice_end,
    .end = end,
    .fail = fail,
    .alive = alive,
    .whole = whole,
};
