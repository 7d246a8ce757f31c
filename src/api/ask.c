/* SPDX-License-Identifier: Apache-2.0 */
/* What the dialects have in common: a body is parsed into an arena, and its sampling and limits become the engine's. Unknown
 * fields are ignored; a field of another type than it can have is refused by name. A worker's thread. */
#include <math.h>
#include <stdio.h>

#include "api-priv.h"

void aq_ask_clear(aq_ask *a)
{
    aq_jw_clear(&a->messages);
    aq_jw_clear(&a->tools);
    aq_replay_turn_put(a->known);
    aq_arena_free(a->arena);
    *a = (aq_ask){0};
}

void *aq_ask_alloc(aq_ask *a, size_t n, aq_fault *f)
{
    void *p = aq_arena_alloc(a->arena, n ? n : 1);

    if (!p)
        aq_fault_set(f, 503, "unavailable_error", NULL, "there is no memory for this request");
    return p;
}

/* The code unit of an escape \uXXXX at p, or -1. */
static int32_t unit_at(const char *p, const char *end)
{
    int32_t u = 0;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int d = g_ascii_xdigit_value(p[i]);
        if (d < 0)
            return -1;
        u = u << 4 | d;
    }
    return u;
}

/* Programs that cut a text between two units of UTF-16 send half a character, which stays in their chat for good. It becomes U+FFFD:
 * the body, or a mended copy of it in the arena; NULL without memory. */
static const char *whole_characters(aq_arena *arena, const char *body, size_t n)
{
    const char *end = body + n;
    char *copy = NULL;

    for (const char *p = body; (p = memchr(p, '\\', (size_t)(end - p)));) {
        int32_t u = unit_at(p, end);
        if (u >= 0xD800 && u <= 0xDBFF) {
            int32_t low = unit_at(p + 6, end);
            if (low >= 0xDC00 && low <= 0xDFFF) {
                p += 12;
                continue;
            }
        }
        if (u >= 0xD800 && u <= 0xDFFF) {
            if (!copy && !(copy = aq_arena_strndup(arena, body, n)))
                return NULL;
            memcpy(copy + (p - body), "\\ufffd", 6);
        }
        p += u < 0 ? AQ_MIN(2, end - p) : 6;
    }
    return copy ? copy : body;
}

int aq_ask_begin(aq_ask *a, const char *body, size_t n, aq_fault *f)
{
    aq_err err = {0};

    if (!(a->arena = aq_arena_new(AQ_API_ARENA_BYTES)))
        return aq_fault_set(f, 503, "unavailable_error", NULL, "there is no memory for a request");
    if (!(body = whole_characters(a->arena, body, n)))
        return aq_fault_set(f, 503, "unavailable_error", NULL, "there is no memory for a request");
    int rc = aq_json_parse(a->arena, body, n, &a->body, &err);
    if (rc < 0 && rc != -AQ_E_NOMEM)
        return aq_fault_set(f, 400, "invalid_request_error", NULL,
                            "the body is not the JSON of one object: %s", err.text);
    if (rc < 0)
        return aq_fault_err(f, rc, &err);
    if (a->body->kind != AQ_JSON_OBJ)
        return aq_fault_set(f, 400, "invalid_request_error", NULL,
                            "the body must be a JSON object");
    /* what the window's chats are sampled with: a model gives the same kind of answer here and there */
    a->sampling = (aq_sampling){
        .temp = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1};
    a->n = 1;
    a->model = "";
    /* what is told about a request and not used; in an answer it comes back as it was */
    if ((rc = aq_field_kind(a->body, "user", AQ_JSON_STR, "the body", "user", f)) < 0 ||
        (rc = aq_field_kind(a->body, "store", AQ_JSON_TRUE, "the body", "store", f)) < 0 ||
        (rc = aq_field_kind(a->body, "metadata", AQ_JSON_OBJ, "the body", "metadata", f)) < 0)
        return rc;
    rc = aq_field_str(a->body, "model", &a->model, f);
    if (rc == 1 && strlen(a->model) > AQ_API_MODEL_BYTES) /* each chunk of a stream tells it */
        return aq_fault_field(f, "model", "'model' has %zu bytes, at most %u are allowed",
                              strlen(a->model), AQ_API_MODEL_BYTES);
    return rc < 0 ? rc : 0;
}

static int bias_one(aq_bias *ret, double tok, double bias, aq_fault *f)
{
    if (!(tok >= 0 && tok <= INT32_MAX && tok == floor(tok)))
        return aq_fault_field(f, "logit_bias", "'logit_bias' has a key that is no token id");
    if (!(bias >= -100 && bias <= 100))
        return aq_fault_field(f, "logit_bias", "'logit_bias' has a value outside -100 to 100");
    /* -100 bans a token, as clients expect */
    *ret = (aq_bias){.tok = (int32_t)tok, .bias = bias <= -100 ? -1000.0f : (float)bias};
    return 0;
}

/* {"50256": -100}, or [[50256, -100], …] with false for a ban. */
static int read_bias(aq_ask *a, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, "logit_bias");
    uint32_t n = 0;

    if (!v || v->kind == AQ_JSON_NULL ||
        ((v->kind == AQ_JSON_OBJ || v->kind == AQ_JSON_ARR) && !v->n))
        return 0;
    if (v->kind != AQ_JSON_OBJ && v->kind != AQ_JSON_ARR)
        return aq_fault_field(f, "logit_bias", "'logit_bias' must be an object");
    if (v->n > AQ_BIAS_MAX)
        return aq_fault_field(f, "logit_bias", "'logit_bias' has %u tokens, at most %u are allowed",
                              v->n, AQ_BIAS_MAX);
    aq_bias *b = aq_ask_alloc(a, v->n * sizeof *b, f);
    if (!b)
        return -AQ_E_NOMEM;
    for (const aq_json *e = v->item; e; e = e->next, n++) {
        const aq_json *tok = NULL, *val = e;
        char *end = NULL;
        double id = -1;
        if (v->kind == AQ_JSON_OBJ) {
            id = e->key_n && e->key_n < 12 ? (double)g_ascii_strtoll(e->key, &end, 10) : -1;
            if (!end || *end)
                id = -1;
        } else if (e->kind == AQ_JSON_ARR && e->n == 2) {
            tok = e->item;
            val = tok->next;
            id = tok->kind == AQ_JSON_INT ? (double)tok->i : -1;
        }
        double bias = val->kind == AQ_JSON_INT     ? (double)val->i
                      : val->kind == AQ_JSON_NUM   ? val->num
                      : val->kind == AQ_JSON_FALSE ? -100
                                                   : NAN;
        int rc = bias_one(&b[n], id, bias, f);
        if (rc < 0)
            return rc;
    }
    a->sampling.bias = b;
    a->sampling.n_bias = n;
    return 0;
}

int aq_ask_sampling(aq_ask *a, aq_fault *f)
{
    const aq_json *b = a->body;
    aq_sampling *s = &a->sampling;
    int64_t i = 0;
    int rc = aq_field_num(b, "temperature", 0, 2, &s->temp, f);

    rc = rc < 0 ? rc : aq_field_num(b, "top_p", 0, 1, &s->top_p, f);
    if (rc == 1 &&
        s->top_p <= 0) { /* the engine takes 0 for off; clients mean: the best token alone */
        s->top_p = 1;
        s->top_k = 1;
    }
    rc = rc < 0 ? rc : aq_field_int(b, "top_k", -1, INT32_MAX, &i, f);
    if (rc == 1)
        s->top_k = (int32_t)AQ_MAX(i, 0);
    rc = rc < 0 ? rc : aq_field_num(b, "min_p", 0, 1, &s->min_p, f);
    rc = rc < 0 ? rc : aq_field_num(b, "frequency_penalty", -2, 2, &s->frequency_penalty, f);
    rc = rc < 0 ? rc : aq_field_num(b, "presence_penalty", -2, 2, &s->presence_penalty, f);
    rc = rc < 0 ? rc : aq_field_num(b, "repeat_penalty", 0, 10, &s->repeat_penalty, f);
    rc = rc < 0 ? rc : aq_field_int(b, "seed", INT64_MIN, INT64_MAX, &i, f);
    if (rc == 1 && i != -1) /* -1: drawn, as some clients write it */
        s->seed =
            i ? (uint64_t)i : 1ull << 63; /* the engine's 0 means drawn; a client's does not */
    rc = rc < 0 ? rc : aq_field_bool(b, "ignore_eos", &s->ignore_eog, f);
    rc = rc < 0 ? rc : aq_field_bool(b, "stream", &a->stream, f);
    return rc < 0 ? rc : read_bias(a, f);
}

static int stop_one(const char *key, const aq_json *v, const char **ret, aq_fault *f)
{
    if (v->kind != AQ_JSON_STR)
        return aq_fault_field(f, key, "'%s' must be a string or an array of strings", key);
    if (!v->n || v->n > AQ_STOP_BYTES_MAX || strlen(v->str) != v->n)
        return aq_fault_field(f, key,
                              "'%s' has a text of %u bytes; 1 to %u are allowed, without U+0000",
                              key, v->n, AQ_STOP_BYTES_MAX);
    *ret = v->str;
    return 0;
}

int aq_ask_stop(aq_ask *a, const char *key, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, key);
    int rc = 0;

    if (!v || v->kind == AQ_JSON_NULL || (v->kind == AQ_JSON_ARR && !v->n))
        return 0;
    uint32_t n = v->kind == AQ_JSON_ARR ? v->n : 1;
    if (n > AQ_STOP_MAX)
        return aq_fault_field(f, key, "'%s' has %u texts, at most %u are allowed", key, n,
                              AQ_STOP_MAX);
    const char **stop = aq_ask_alloc(a, n * sizeof *stop, f);
    if (!stop)
        return -AQ_E_NOMEM;
    if (v->kind == AQ_JSON_ARR) {
        n = 0;
        for (const aq_json *e = v->item; e && rc >= 0; e = e->next)
            rc = stop_one(key, e, &stop[n++], f);
    } else {
        rc = stop_one(key, v, &stop[0], f);
    }
    if (rc < 0)
        return rc;
    a->sampling.stop = stop;
    a->sampling.n_stop = n;
    return 0;
}

int aq_ask_max(aq_ask *a, const char *key, aq_fault *f)
{
    int64_t i = 0;
    int rc = aq_field_int(a->body, key, -1, INT64_MAX, &i, f);

    if (rc < 1)
        return rc;
    if (!i)
        return aq_fault_field(f, key, "'%s' is 0; it can be 1 or more, or -1 for no limit", key);
    a->max_tok = i < 0 ? 0 : (uint32_t)AQ_MIN(i, (int64_t)AQ_CTX_MAX);
    return 1;
}

const char *aq_ask_keep(aq_ask *a, aq_jw *w, aq_fault *f)
{
    char *p = w->rc < 0 ? NULL : aq_arena_strndup(a->arena, (const char *)w->b.p, w->b.n);

    if (!p)
        aq_fault_set(f, 503, "unavailable_error", NULL, "there is no memory for this request");
    return p;
}

int aq_ask_vars(aq_ask *a, const char *name, const char *value, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    const aq_json *v = NULL;
    int rc = aq_field_of(a->body, "chat_template_kwargs", AQ_JSON_OBJ, &v, f);

    if (rc < 0 || (!rc && !name))
        return rc < 0 ? rc : 0;
    aq_jw_s(&w, "{");
    if (name && !aq_json_get(v, name))
        aq_jw_f(&w, "\"%s\":%.64s", name, value);
    for (const aq_json *e = v && v->n ? v->item : NULL; e; e = e->next) {
        aq_jw_s(&w, w.b.n > 1 ? "," : "");
        aq_jw_qn(&w, e->key, e->key_n);
        aq_jw_s(&w, ":");
        aq_jw_v(&w, e);
    }
    aq_jw_s(&w, "}");
    return (a->vars_json = aq_ask_keep(a, &w, f)) ? 0 : -AQ_E_NOMEM;
}

/* "low", "medium", "high", … of a client, as the JSON of a template's variable; NULL: none of these. */
static const char *effort_json(const char *effort)
{
    static const char *const known[] = {"\"none\"",   "\"minimal\"", "\"low\"",
                                        "\"medium\"", "\"high\"",    "\"xhigh\""};

    for (size_t i = 0; effort && i < AQ_LEN(known); i++)
        if (strlen(known[i]) == strlen(effort) + 2 &&
            !strncmp(known[i] + 1, effort, strlen(effort)))
            return known[i];
    return NULL;
}

int aq_ask_effort(aq_ask *a, const char *effort, aq_fault *f)
{
    const char *value = effort_json(effort);

    return aq_ask_vars(a, value ? "reasoning_effort" : NULL, value, f);
}

/* "tool_choice": none, auto, required, {"type":"function","function":{"name":…}}, or
 * {"type":"allowed_tools","allowed_tools":{"mode":…,"tools":[…]}}. */
static int tool_choice(aq_ask *a, aq_fault *f)
{
    const aq_json *v = aq_json_get(a->body, "tool_choice");
    static const char *const names[] = {"auto", "none", "required"};

    if (!v || v->kind == AQ_JSON_NULL)
        return 0;
    if (v->kind == AQ_JSON_STR) {
        for (uint32_t i = 0; i < AQ_LEN(names); i++)
            if (!strcmp(v->str, names[i])) {
                a->tool_choice = i;
                return 0;
            }
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' can be auto, none, required or a function");
    }
    const aq_json *fn = aq_json_get(v, "function");
    const char *type = aq_json_str(v, "type");
    if (type && !strcmp(type, "allowed_tools"))
        return aq_ask_allow(a, aq_json_get(v, type), f);
    if (!type ? aq_json_get(v, "type") != NULL : strcmp(type, "function") != 0)
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' can be of type function or allowed_tools");
    a->tool_name = aq_json_str(fn ? fn : v, "name");
    a->tool_choice = AQ_TOOLS_NAMED;
    return a->tool_name ? 0 : aq_fault_field(f, "tool_choice", "'tool_choice' names no function");
}

int aq_ask_allow(aq_ask *a, const aq_json *v, aq_fault *f)
{
    const char *mode = aq_json_str(v, "mode");
    const aq_json *list = aq_json_get(v, "tools");
    bool good = mode && (!strcmp(mode, "auto") || !strcmp(mode, "required")) && list &&
                list->kind == AQ_JSON_ARR;

    for (const aq_json *t = good && list->n ? list->item : NULL; t; t = t->next)
        good = good && t->kind == AQ_JSON_OBJ;
    if (!good)
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' of type allowed_tools needs a mode, auto or required, "
                              "and a list of tools");
    a->allowed = list;
    if (!strcmp(mode, "required"))
        a->tool_choice = AQ_TOOLS_REQUIRED;
    return 0;
}

int aq_ask_tool_name(const aq_json *obj, const char **ret, aq_fault *f)
{
    const aq_json *v = aq_json_get(obj, "name");

    if (!v || v->kind != AQ_JSON_STR || !v->n)
        return aq_fault_field(f, "tools", "'tools' has one without a name");
    if (v->n > AQ_API_TOOL_BYTES)
        return aq_fault_field(f, "tools",
                              "'tools' has one with a name of %u bytes, at most %u are allowed",
                              v->n, AQ_API_TOOL_BYTES);
    for (const char *p = v->str; p < v->str + v->n; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        /* white space, quotes, brackets and the like end a name where some models write it; letters of any script do not */
        if (c < 0x80 ? !g_ascii_isalnum((char)c) && (!c || !strchr("_-.:/", (int)c))
                     : !g_unichar_isgraph(c) || g_unichar_isspace(c))
            return aq_fault_field(f, "tools",
                                  "'tools' has '%.80s': a name may have letters, digits and the "
                                  "signs _ - . : /",
                                  v->str);
    }
    *ret = v->str;
    return 0;
}

bool aq_ask_allows(const aq_ask *a, const char *tool)
{
    if (!a->allowed)
        return true;
    for (const aq_json *t = a->allowed->n ? a->allowed->item : NULL; t; t = t->next) {
        const aq_json *fn = aq_json_get(t, "function");
        const char *name = aq_json_str(fn ? fn : t, "name");
        if (name && !strcmp(name, tool))
            return true;
    }
    return false;
}

int aq_ask_tools_end(aq_ask *a, aq_jw *list, bool named, aq_fault *f)
{
    if (!list->b.n) {
        if (a->tool_choice >= AQ_TOOLS_REQUIRED)
            return aq_fault_field(f, "tool_choice",
                                  "'tool_choice' asks for a call, and there are no tools");
        a->tool_choice = AQ_TOOLS_AUTO;
        return list->rc < 0 ? aq_fault_err(f, list->rc, NULL) : 0;
    }
    if (a->tool_choice == AQ_TOOLS_NAMED && !named)
        return aq_fault_field(f, "tool_choice",
                              "'tool_choice' names '%.80s', which 'tools' does not have",
                              a->tool_name);
    aq_jw_s(&a->tools, "[");
    aq_jw_n(&a->tools, list->b.p, list->b.n);
    aq_jw_n(&a->tools, "]", 2); /* with its NUL */
    int rc = AQ_MIN(a->tools.rc, list->rc);
    return rc < 0 ? aq_fault_err(f, rc, NULL) : 0;
}

bool aq_ask_plain(aq_ask *a, const char *type)
{
    if (type && !strcmp(type, "json_object"))
        a->schema_json = "{\"type\":\"object\"}";
    return a->schema_json || (type && !strcmp(type, "text"));
}

int aq_ask_schema(aq_ask *a, const aq_json *schema, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};

    aq_jw_v(&w, schema);
    return (a->schema_json = aq_ask_keep(a, &w, f)) ? 0 : -AQ_E_NOMEM;
}

int aq_ask_tools(aq_ask *a, aq_fault *f)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw list = {0};
    const aq_json *v = NULL;
    bool parallel = true, named = false;
    int rc = aq_field_of(a->body, "tools", AQ_JSON_ARR, &v, f);

    rc = rc < 0 ? rc : aq_field_bool(a->body, "parallel_tool_calls", &parallel, f);
    rc = rc < 0 ? rc : tool_choice(a, f);
    if (rc < 0)
        return rc;
    a->one_call = !parallel;
    for (const aq_json *t = v && v->n ? v->item : NULL; t; t = t->next) {
        const aq_json *fn = aq_json_get(t, "function");
        const char *type = aq_json_str(t, "type"), *name = NULL;
        if (t->kind != AQ_JSON_OBJ || !type || strcmp(type, "function") != 0 || !fn ||
            fn->kind != AQ_JSON_OBJ)
            return aq_fault_field(
                f, "tools",
                "'tools' has one that is not {\"type\":\"function\",\"function\":{\"name\":…}}");
        if ((rc = aq_ask_tool_name(fn, &name, f)) < 0 ||
            (rc = aq_field_kind(fn, "description", AQ_JSON_STR, name, "tools", f)) < 0 ||
            (rc = aq_field_kind(fn, "parameters", AQ_JSON_OBJ, name, "tools", f)) < 0)
            return rc;
        if (!aq_ask_allows(a, name))
            continue;
        named = named || (a->tool_name && !strcmp(a->tool_name, name));
        aq_jw_s(&list, list.b.n ? "," : "");
        aq_jw_v(&list, t);
    }
    return aq_ask_tools_end(a, &list, named, f);
}

void aq_ask_replay(aq_ask *a, uint64_t model)
{
    if (a->replay && a->messages.b.n && a->tools.b.n)
        a->known = aq_replay_turn_find(a->replay, model, (const char *)a->messages.b.p, &a->turn);
}

void aq_ask_in(const aq_ask *a, uint32_t i, aq_req_in *ret)
{
    *ret = (aq_req_in){.sampling = a->sampling,
                       .max_tok = a->max_tok,
                       .tools_json = (const char *)a->tools.b.p,
                       .tool_choice = a->tool_choice,
                       .tool_name = a->tool_name,
                       .one_call = a->one_call,
                       .schema_json = a->schema_json,
                       .vars_json = a->vars_json,
                       .turn = a->known ? &a->turn : NULL};
    if (ret->sampling.seed) /* several answers differ, and each can be had again */
        ret->sampling.seed += i % a->n;
    if (!ret->sampling.seed && a->sampling.seed)
        ret->sampling.seed = 1;
    if (a->logprobs)
        ret->n_logprobs = AQ_MAX(a->n_top, 1u);
    if (!a->n_prompt) {
        ret->messages_json = (const char *)a->messages.b.p; /* ends in NUL: see aq_chat_messages */
        return;
    }
    ret->tok = a->prompt[i / a->n].tok;
    ret->n_tok = a->prompt[i / a->n].n_tok;
}
