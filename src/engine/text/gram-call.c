/* SPDX-License-Identifier: Apache-2.0 */
/* Whole answers as grammars: calls of given tools in the form of the model's family, a value of a schema, or either; with the
 * thinking that may come first. What each family's call looks like stands in toolparse-*.c. */
#include "gram-priv.h"

#define DSML       \
    "\xEF\xBD\x9C" \
    "DSML\xEF\xBD\x9C"
#define DS(w) "<\xEF\xBD\x9Ctool\xE2\x96\x81" w "\xEF\xBD\x9C>"
#define US "\xE2\x96\x81"

typedef struct calls {
    aq_gram *g;
    const aq_gram_want *w;
    aq_err *err;
    bool lenient; /* the model calls as it likes: its order is kept */
} calls;

static const aq_json *params_of(const aq_json *tool)
{
    const aq_json *p = aq_json_get(aq_json_get(tool, "function"), "parameters");

    return p && p->kind == AQ_JSON_OBJ && p->n ? p : NULL;
}

/* Whether a schema tells what the value is; one that does not stands for any. */
static bool tells(const aq_json *s)
{
    static const char *const keys[] = {"type",  "properties", "anyOf",
                                       "oneOf", "allOf",      "enum",
                                       "const", "$ref",       "additionalProperties"};

    for (size_t i = 0; i < AQ_LEN(keys); i++)
        if (aq_json_get(s, keys[i]))
            return true;
    return false;
}

/* Whether a value that is no object is of this type. */
static bool no_object(const aq_json *type)
{
    if (type && type->kind == AQ_JSON_ARR)
        type = type->n == 1 ? type->item : NULL;
    return type && type->kind == AQ_JSON_STR && strcmp(type->str, "object") != 0;
}

/* The arguments as one JSON object. */
static int object(const calls *c, const aq_json *tool, int note, uint32_t next, uint32_t *ret)
{
    const aq_json *p = params_of(tool), *s = aq_schema_resolve(p, p);

    if (!p || (s && !tells(s))) {
        if (note != AQ_NOTE_JSON)
            *ret = aq_g_litz(c->g, "{}", next);
        else
            *ret = aq_g_any(c->g, true, next);
        return 0;
    }
    if (s && no_object(aq_json_get(s, "type")))
        return aq_fail(c->err, AQ_E_INVAL, "schema: the parameters must be of the type object");
    return aq_schema_put(c->g, p, p, note | (c->lenient ? AQ_NOTE_LENIENT : 0), next, ret, c->err);
}

/* ---- arguments in tags ---- */

typedef struct tags {
    const char *key, *mid, *end;     /* key NAME mid VALUE end */
    const char *text_mid, *json_mid; /* instead of mid, by kind; or NULL */
} tags;

static int one_tag(const calls *c, const tags *t, const aq_json *root, const aq_json *prop,
                   uint32_t next, uint32_t *ret)
{
    uint32_t n, raw;
    int rc;

    if ((rc = aq_schema_raw_text(c->g, root, prop, t->end, next, &raw, c->err)) < 0)
        return rc;
    n = raw;
    if (raw == AQ_G_NONE && (rc = aq_schema_put(c->g, root, prop, AQ_NOTE_JSON,
                                                aq_g_litz(c->g, t->end, next), &n, c->err)) < 0)
        return rc;
    const char *mid = raw != AQ_G_NONE && t->text_mid   ? t->text_mid
                      : raw == AQ_G_NONE && t->json_mid ? t->json_mid
                                                        : t->mid;
    *ret = aq_g_litz(c->g, t->key, aq_g_lit(c->g, prop->key, prop->key_n, aq_g_litz(c->g, mid, n)));
    return 0;
}

/* All of them in the schema's order, then next; white space before each. */
static int all_tags(const calls *c, const tags *t, const aq_json *tool, uint32_t next,
                    uint32_t *ret)
{
    const aq_json *root = params_of(tool), *s = aq_schema_resolve(root, root), *list[1024],
                  *props = aq_json_get(s, "properties"), *req = aq_json_get(s, "required");
    uint32_t n = 0, at;
    int rc;

    for (const aq_json *p = props && props->kind == AQ_JSON_OBJ && props->n ? props->item : NULL; p;
         p = p->next) {
        if (n == AQ_LEN(list))
            return aq_fail(c->err, AQ_E_LIMIT, "schema: more than 1024 properties");
        list[n++] = p;
    }
    if (c->lenient && !n && params_of(tool))
        return aq_fail(c->err, AQ_E_UNSUPPORTED, "schema: parameters without properties");
    if (c->lenient && n) { /* any of them, again and again */
        uint32_t loop = aq_g_add(c->g, AQ_G_FORK, next, 0), any = AQ_G_NONE;
        while (n-- > 0) {
            if ((rc = one_tag(c, t, root, list[n], loop, &at)) < 0)
                return rc;
            any = aq_g_fork(c->g, any, aq_g_ws(c->g, at));
        }
        if (c->g->rc < 0)
            return aq_gram_check(c->g, c->err);
        c->g->node[loop].b = any;
        *ret = loop;
        return 0;
    }
    while (n-- > 0) {
        bool must = false;
        for (const aq_json *r = req && req->kind == AQ_JSON_ARR && req->n ? req->item : NULL; r;
             r = r->next)
            must |= r->kind == AQ_JSON_STR && !strcmp(r->str, list[n]->key);
        if ((rc = one_tag(c, t, root, list[n], next, &at)) < 0)
            return rc;
        at = aq_g_ws(c->g, at);
        next = must ? at : aq_g_fork(c->g, at, next);
    }
    *ret = next;
    return 0;
}

/* ---- one call, from behind its marker ---- */

static uint32_t name_then(const calls *c, const aq_json *tool, uint32_t next)
{
    const aq_json *name = aq_json_get(aq_json_get(tool, "function"), "name");

    return aq_g_lit(c->g, name->str, name->n, next);
}

/* Mistral's ids are nine letters and digits. */
static uint32_t short_id(aq_gram *g, uint32_t next)
{
    aq_gset s = {0};

    aq_gset_put(&s, '0', '9');
    aq_gset_put(&s, 'A', 'Z');
    aq_gset_put(&s, 'a', 'z');
    for (int i = 0; i < 9; i++)
        next = aq_g_set(g, &s, next);
    return next;
}

/* {"name": "N", "arguments": {…}} */
static int json_call(const calls *c, const aq_json *tool, const char *args, uint32_t next,
                     uint32_t *ret)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes q = {0};
    const aq_json *name = aq_json_get(aq_json_get(tool, "function"), "name");
    aq_gram *g = c->g;
    uint32_t n = aq_g_ws(g, aq_g_add(g, AQ_G_BYTE, '}', next));

    if (c->w->caps->calls == AQ_CALLS_MISTRAL) { /* , "id": "abcdefgh1" */
        uint32_t id = aq_g_add(g, AQ_G_BYTE, '"', short_id(g, aq_g_add(g, AQ_G_BYTE, '"', n)));
        id = aq_g_ws(g, aq_g_litz(g, "\"id\":", aq_g_ws(g, id)));
        n = aq_g_fork(g, n, aq_g_add(g, AQ_G_BYTE, ',', id));
    }
    int rc = object(c, tool, AQ_NOTE_JSON, n, &n);

    if (rc < 0)
        return rc;
    if (aq_json_quote(&q, name->str, name->n) < 0)
        return aq_fail(c->err, AQ_E_NOMEM, "no memory for a tool");
    n = aq_g_add(g, AQ_G_BYTE, ',', aq_g_ws(g, aq_g_litz(g, args, aq_g_ws(g, n))));
    n = aq_g_ws(g, aq_g_lit(g, (const char *)q.p, q.n, n));
    *ret = aq_g_add(g, AQ_G_BYTE, '{', aq_g_ws(g, aq_g_litz(g, "\"name\":", n)));
    return 0;
}

static int call(const calls *c, const aq_json *tool, uint32_t next, uint32_t *ret)
{
    aq_gram *g = c->g;
    const aq_chat_caps *caps = c->w->caps;
    bool dsml = caps->invoke_pre && caps->invoke_pre[0];
    uint32_t n;
    int rc = 0;

    switch (caps->calls) {
    case AQ_CALLS_HERMES:
        n = aq_g_ws(g, aq_g_mark(g, "</tool_call>", next));
        rc = json_call(c, tool, "\"arguments\":", n, &n);
        *ret = aq_g_ws(g, n);
        return rc;
    case AQ_CALLS_LLAMA:
        rc = json_call(c, tool, "\"parameters\":", next, &n);
        *ret = aq_g_ws(g, n);
        return rc;
    case AQ_CALLS_FUNCTION: {
        static const tags t = {"<parameter=", ">\n", "\n</parameter>", NULL, NULL};
        n = aq_g_ws(g, aq_g_mark(g, "</tool_call>", next));
        n = aq_g_ws(g, aq_g_litz(g, "</function>", n));
        if ((rc = all_tags(c, &t, tool, n, &n)) < 0)
            return rc;
        n = name_then(c, tool, aq_g_add(g, AQ_G_BYTE, '>', n));
        *ret = aq_g_ws(g, aq_g_litz(g, "<function=", n));
        return 0;
    }
    case AQ_CALLS_GLM: {
        static const tags t = {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>", NULL, NULL};
        n = aq_g_ws(g, aq_g_mark(g, "</tool_call>", next));
        if ((rc = all_tags(c, &t, tool, n, &n)) < 0)
            return rc;
        *ret = name_then(c, tool, n);
        return 0;
    }
    case AQ_CALLS_INVOKE: {
        static const tags d = {"<" DSML "parameter name=\"", "\">", "</" DSML "parameter>",
                               "\" string=\"true\">", "\" string=\"false\">"},
                          p = {"<parameter name=\"", "\">", "</parameter>", NULL, NULL};
        n = aq_g_ws(g, aq_g_litz(g, dsml ? "</" DSML "invoke>" : "</invoke>", next));
        if ((rc = all_tags(c, dsml ? &d : &p, tool, n, &n)) < 0)
            return rc;
        n = name_then(c, tool, aq_g_litz(g, "\">", n));
        *ret = aq_g_ws(g, aq_g_litz(g, dsml ? "<" DSML "invoke name=\"" : "<invoke name=\"", n));
        return 0;
    }
    case AQ_CALLS_MISTRAL:
        if (!caps->args_mark)
            return json_call(c, tool, "\"arguments\":", next, ret);
        rc = object(c, tool, AQ_NOTE_JSON, next, &n);
        n = aq_g_mark(g, "[ARGS]", n);
        if (caps->id_mark)
            n = aq_g_fork(g, n, aq_g_mark(g, "[CALL_ID]", short_id(g, n)));
        *ret = name_then(c, tool, n);
        return rc;
    case AQ_CALLS_GEMMA:
        n = aq_g_mark(g, "<tool_call|>", next);
        rc = object(c, tool, AQ_NOTE_GEMMA, n, &n);
        *ret = aq_g_litz(g, "call:", name_then(c, tool, n));
        return rc;
    case AQ_CALLS_DEEPSEEK:
        n = aq_g_mark(g, DS("call" US "end"), next);
        if (caps->fenced)
            n = aq_g_litz(g, "\n```", n);
        if ((rc = object(c, tool, AQ_NOTE_JSON, n, &n)) < 0)
            return rc;
        if (caps->fenced)
            n = aq_g_litz(
                g, "function",
                aq_g_mark(g, DS("sep"), name_then(c, tool, aq_g_litz(g, "\n```json\n", n))));
        else
            n = name_then(c, tool, aq_g_mark(g, DS("sep"), n));
        *ret = aq_g_mark(g, DS("call" US "begin"), n);
        return 0;
    default: /* harmony: the arguments behind the header */
        return object(c, tool, AQ_NOTE_JSON, next, ret);
    }
}

/* One of the tools. */
static int any_call(const calls *c, uint32_t next, uint32_t *ret)
{
    uint32_t all = AQ_G_NONE, n;

    for (const aq_json *t = c->w->tools->n ? c->w->tools->item : NULL; t; t = t->next) {
        const char *name = aq_json_str(aq_json_get(t, "function"), "name");
        if (c->w->only && strcmp(c->w->only, name))
            continue;
        int rc = call(c, t, next, &n);
        if (rc < 0)
            return aq_err_prefix(c->err, rc, "tool %.60s", name);
        if (c->w->caps->calls == AQ_CALLS_HARMONY && (c->w->must_call || c->w->schema)) {
            n = aq_g_mark(c->g, "<|constrain|>",
                          aq_g_litz(c->g, "json", aq_g_mark(c->g, "<|message|>", n)));
            n = name_then(c, t, aq_g_add(c->g, AQ_G_BYTE, ' ', n));
            n = aq_g_mark(c->g, "<|channel|>", aq_g_litz(c->g, "commentary to=functions.", n));
        }
        all = aq_g_fork(c->g, all, n);
    }
    if (all == AQ_G_NONE && c->g->rc >= 0)
        return c->w->only
                   ? aq_fail(c->err, AQ_E_INVAL,
                             "tool_choice names %.60s, which is none of the tools", c->w->only)
                   : aq_fail(c->err, AQ_E_INVAL, "a call is demanded, but there are no tools");
    *ret = all;
    return 0;
}

/* What a list of calls begins, goes on and ends with. */
static int call_list(const calls *c, bool eager, uint32_t *ret)
{
    static const char *const open[AQ_CALLS_N] = {
        [AQ_CALLS_HERMES] = "<tool_call>",   [AQ_CALLS_FUNCTION] = "<tool_call>",
        [AQ_CALLS_GLM] = "<tool_call>",      [AQ_CALLS_DEEPSEEK] = DS("calls" US "begin"),
        [AQ_CALLS_MISTRAL] = "[TOOL_CALLS]", [AQ_CALLS_GEMMA] = "<|tool_call>"};
    aq_gram *g = c->g;
    const aq_chat_caps *caps = c->w->caps;
    uint8_t f = caps->calls;
    bool dsml = caps->invoke_pre && caps->invoke_pre[0], one = c->w->one_call;
    uint32_t end = g->end, after, first = AQ_G_NONE;
    const char *mark = open[f];
    int rc;

    if (f == AQ_CALLS_DEEPSEEK)
        end = aq_g_ws(g, aq_g_mark(g, DS("calls" US "end"), end));
    else if (f == AQ_CALLS_INVOKE)
        end = aq_g_ws(g, dsml ? aq_g_fork(g, aq_g_litz(g, "</" DSML "function_calls>", end),
                                          aq_g_litz(g, "</" DSML "tool_calls>", end))
                              : aq_g_litz(g, "</minimax:tool_call>", end));
    else if (f == AQ_CALLS_MISTRAL && !caps->args_mark)
        end = aq_g_ws(g, aq_g_add(g, AQ_G_BYTE, ']', end));
    bool more = !one && f != AQ_CALLS_HARMONY && f != AQ_CALLS_LLAMA &&
                (eager || f == AQ_CALLS_DEEPSEEK || f == AQ_CALLS_INVOKE ||
                 (f == AQ_CALLS_MISTRAL && !caps->args_mark));
    after = more ? aq_g_add(g, AQ_G_FORK, end, 0) : end;
    if ((rc = any_call(c, after, &first)) < 0)
        return rc;
    if (more && g->rc >= 0) {
        uint32_t again = first;
        if (f == AQ_CALLS_MISTRAL && !caps->args_mark)
            again = aq_g_add(g, AQ_G_BYTE, ',', aq_g_ws(g, first));
        else if (f != AQ_CALLS_DEEPSEEK && f != AQ_CALLS_INVOKE)
            again = aq_g_ws(g, aq_g_mark(g, mark, first));
        else
            again = aq_g_ws(g, first);
        if (g->rc >= 0)
            g->node[after].b = again;
    }
    if (f == AQ_CALLS_MISTRAL && !caps->args_mark)
        first = aq_g_ws(g, aq_g_add(g, AQ_G_BYTE, '[', first));
    if (eager && f == AQ_CALLS_INVOKE)
        first = dsml ? aq_g_litz(g, "<" DSML "function_calls>", first)
                     : aq_g_litz(g, "<minimax:tool_call>", first);
    else if (eager && mark)
        first = aq_g_mark(g, mark, first);
    *ret = first;
    return 0;
}

/* White space that models write before an answer. */
static uint32_t lead(aq_gram *g, uint32_t n)
{
    uint32_t line = aq_g_add(g, AQ_G_BYTE, '\n', n);

    return aq_g_fork(g, n,
                     aq_g_fork(g, aq_g_add(g, AQ_G_BYTE, ' ', n),
                               aq_g_fork(g, line, aq_g_add(g, AQ_G_BYTE, '\n', line))));
}

int aq_gram_answer(const aq_vocab *v, const aq_gram_want *w, aq_gram **ret, aq_err *err)
{
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    uint32_t n = AQ_G_NONE, list = AQ_G_NONE;
    int rc = aq_gram_new(v, &g, err);

    if (rc < 0)
        return rc;
    calls c = {g, w, err, false};
    bool harmony = w->caps->calls == AQ_CALLS_HARMONY;
    if (w->schema && !w->must_call) {
        if ((rc = aq_schema_put(g, w->schema, w->schema, AQ_NOTE_JSON, g->end, &n, err)) < 0)
            return rc;
        if (harmony)
            n = aq_g_mark(g, "<|channel|>", aq_g_litz(g, "final", aq_g_mark(g, "<|message|>", n)));
    }
    bool tools = w->tools && w->tools->n;
    if ((w->must_call || (w->schema && tools)) && w->tools && (rc = call_list(&c, true, &list)) < 0)
        return rc;
    n = aq_g_fork(g, n, list);
    if (harmony) { /* thinking is a message of its own before */
        g->again = aq_g_mark(g, "<|start|>", aq_g_litz(g, "assistant", n));
        n = aq_g_fork(g, n,
                      aq_g_mark(g, "<|channel|>",
                                aq_g_litz(g, "analysis", aq_g_mark(g, "<|message|>", g->end))));
        g->start = n;
    } else {
        g->again = n = lead(g, n);
        if (w->may_think && w->caps->think_open) {
            const char *open = w->caps->think_open;
            bool gemma = !strncmp(open, "<|channel>", 10);
            n = aq_g_fork(g, n,
                          gemma ? aq_g_mark(g, "<|channel>", aq_g_litz(g, open + 10, g->end))
                                : aq_g_mark(g, open, g->end));
        }
        g->start = n;
    }
    if (g->start == AQ_G_NONE && g->rc >= 0)
        return aq_fail(err, AQ_E_INVAL, "a call is demanded, but there are no tools");
    if ((rc = aq_gram_check(g, err)) < 0)
        return rc;
    if ((rc = aq_gram_ends(g, g->again)) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the form of an answer");
    if (!rc)
        return aq_fail(err, AQ_E_INVAL,
                       w->schema && !w->must_call
                           ? "schema: no value of it comes to an end, for a part requires itself"
                           : "tools: no call comes to an end, for a part of the schema requires "
                             "itself");
    *ret = AQ_STEAL(g);
    return 0;
}

int aq_gram_call(const aq_vocab *v, const aq_gram_want *w, aq_gram **ret, aq_err *err)
{
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    int rc;

    *ret = NULL;
    if (!w->tools || !w->tools->n)
        return 0;
    if ((rc = aq_gram_new(v, &g, err)) < 0)
        return rc;
    if ((rc = call_list(&(calls){g, w, err, true}, false, &g->start)) < 0 ||
        (rc = aq_gram_check(g, err)) < 0)
        return rc;
    g->again = g->start;
    *ret = AQ_STEAL(g);
    return 0;
}
