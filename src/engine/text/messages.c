/* SPDX-License-Identifier: Apache-2.0 */
/* A chat as OpenAI's clients write it, made into what the model's template takes: each message an object with a role it knows and
 * a content that is one text. So what a template would stumble over is refused here, by the message's number. Any thread.
 *
 *   role        system, user, assistant, tool; developer, which no template knows, becomes system
 *   content     a text; an array of parts {"type":"text","text":…} is joined by newlines; null or absent becomes the empty text
 *               in an assistant's message (one of calls alone has none)
 *   tool_calls  arguments as an object, or as JSON text where the template wants that
 *   reasoning   reasoning_content, also under the name thinking
 *   others      stay as they are, in their order; raw does not
 *
 * What this template cannot render is written so that it can: several system messages at the head as one, later ones as a user's,
 * two messages of the user in a row as one, several calls of one message as several messages, tools, calls and results as text. */
#include <stdio.h>

#include "chat-priv.h"

#define SHORT_ID 9u

typedef struct msg {
    const aq_json *src; /* NULL: made here */
    const char *role, *text, *thinking;
    uint32_t n_text, n_thinking, no;
    const aq_json *calls; /* first of n_calls */
    uint32_t n_calls;
} msg;

typedef struct list {
    aq_arena *a;
    const aq_chat_caps *caps;
    const aq_json *tools;
    aq_msg_cut *cut; /* or NULL */
    msg *m;
    uint32_t n;
} list;

/* Where a message's trouble is told: "message 3" counts from 1. */
static int refuse(aq_err *err, int code, uint32_t no, const char *what)
{
    return aq_fail(err, code, "message %u %s", no, what);
}

static int no_mem(aq_err *err, uint32_t no)
{
    return refuse(err, AQ_E_NOMEM, no, "needs more memory than there is");
}

static int role_of(const aq_json *src, uint32_t no, const char **ret, aq_err *err)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *role = aq_json_str(src, "role");

    if (!role)
        return refuse(err, AQ_E_INVAL, no, "has no \"role\", or one that is no text");
    if (!strcmp(role, "developer"))
        role = "system";
    for (size_t i = 0; i < AQ_LEN(roles); i++)
        if (!strcmp(role, roles[i])) {
            *ret = roles[i];
            return 0;
        }
    return aq_fail(
        err, AQ_E_INVAL,
        "message %u has the role \"%.40s\"; known are system, developer, user, assistant "
        "and tool",
        no, role);
}

/* The texts of an array of parts. */
static int join(const aq_json *parts, uint32_t no, aq_bytes *ret, aq_err *err)
{
    int rc = 0;

    for (const aq_json *p = parts->n ? parts->item : NULL; p && rc >= 0; p = p->next) {
        const char *type = aq_json_str(p, "type");
        const aq_json *text = aq_json_get(p, "text");
        if (!type)
            return refuse(err, AQ_E_INVAL, no, "has a part of content without a \"type\"");
        if (!strncmp(type, "image", 5) || !strncmp(type, "input_image", 11))
            return refuse(err, AQ_E_UNSUPPORTED, no,
                          "holds an image; this program reads text only: leave the image out");
        if (!strncmp(type, "input_audio", 11) || !strncmp(type, "audio", 5))
            return refuse(err, AQ_E_UNSUPPORTED, no,
                          "holds a sound; this program reads text only: leave it out");
        if (strcmp(type, "text"))
            return aq_fail(err, AQ_E_UNSUPPORTED,
                           "message %u has a part of type \"%.40s\"; only parts of type text are "
                           "read: leave the others out",
                           no, type);
        if (!text || text->kind != AQ_JSON_STR)
            return refuse(err, AQ_E_INVAL, no, "has a part of type text without a \"text\"");
        rc = p == parts->item ? 0 : aq_bytes_puts(ret, "\n");
        rc = rc < 0 ? rc : aq_bytes_put(ret, text->str, text->n);
    }
    return rc < 0 ? no_mem(err, no) : 0;
}

static int keep(list *l, msg *m, const aq_bytes *b, aq_err *err)
{
    m->text = aq_arena_strndup(l->a, b->n ? (const char *)b->p : "", b->n);
    m->n_text = (uint32_t)b->n;
    return m->text ? 0 : no_mem(err, m->no);
}

static int content_of(list *l, msg *m, const aq_json *c, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes text = {0};
    int rc;

    m->text = "";
    if (c && c->kind == AQ_JSON_STR) {
        m->text = c->str;
        m->n_text = c->n;
    } else if (c && c->kind == AQ_JSON_ARR) {
        if ((rc = join(c, m->no, &text, err)) < 0)
            return rc;
        return keep(l, m, &text, err);
    } else if (c && c->kind != AQ_JSON_NULL) {
        return refuse(err, AQ_E_INVAL, m->no, "has a \"content\" that is neither text nor parts");
    } else if (strcmp(m->role, "assistant")) {
        return refuse(err, AQ_E_INVAL, m->no, "has no \"content\"");
    }
    return 0;
}

/* ---- calls ---- */

static int bad_call(aq_err *err, uint32_t no, uint32_t k, const char *what)
{
    return aq_fail(err, AQ_E_INVAL, "message %u: tool call %u %s", no, k, what);
}

static int check_calls(list *l, msg *m, const aq_json *calls, aq_err *err)
{
    uint32_t k = 0;

    if (!calls || calls->kind == AQ_JSON_NULL)
        return 0;
    if (calls->kind != AQ_JSON_ARR)
        return refuse(err, AQ_E_INVAL, m->no, "has \"tool_calls\" that are no array");
    if (strcmp(m->role, "assistant") && calls->n)
        return refuse(err, AQ_E_INVAL, m->no, "has tool calls, which only an assistant makes");
    m->n_calls = calls->n;
    m->calls = calls->n ? calls->item : NULL;
    for (const aq_json *c = m->calls; c; c = c->next) {
        const aq_json *f = aq_json_get(c, "function"), *args = aq_json_get(f, "arguments"), *v;
        aq_err why = {0};
        k++;
        if (!aq_json_str(f, "name"))
            return bad_call(err, m->no, k, "has no function with a \"name\"");
        if (!args || args->kind == AQ_JSON_OBJ || args->kind == AQ_JSON_NULL)
            continue;
        if (args->kind != AQ_JSON_STR)
            return bad_call(err, m->no, k, "has arguments that are neither an object nor text");
        if (!args->n)
            continue;
        int rc = aq_json_parse(l->a, args->str, args->n, &v, &why);
        if (rc == -AQ_E_NOMEM)
            return no_mem(err, m->no);
        if (rc < 0)
            return aq_fail(err, AQ_E_INVAL,
                           "message %u: the arguments of tool call %u are no JSON: %.200s", m->no,
                           k, why.text);
        if (v->kind != AQ_JSON_OBJ)
            return bad_call(err, m->no, k, "has arguments that are no JSON object");
    }
    return 0;
}

/* Text that a client sent back stays to the byte where the template prints it as it is: so the prompt goes on as the answer that
 * was sampled did. */
static int put_args(const list *l, aq_bytes *out, const aq_json *args, bool text)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    const aq_json *v = args;
    int rc;

    if (args && args->kind == AQ_JSON_STR) {
        if (text)
            return aq_json_quote(out, args->n ? args->str : "{}", args->n ? args->n : 2);
        if (!args->n || aq_json_parse(l->a, args->str, args->n, &v, NULL) < 0)
            v = NULL;
    }
    if (!v || v->kind != AQ_JSON_OBJ)
        return aq_bytes_puts(out, text ? "\"{}\"" : "{}");
    if (!text)
        return aq_json_put(out, v);
    return (rc = aq_json_put(&b, v)) < 0 ? rc : aq_json_quote(out, (const char *)b.p, b.n);
}

/* An id as this template takes it: `id` itself, or a short one made of it. NULL becomes "". */
static const char *id_of(const list *l, const char *id, char ret[SHORT_ID + 1])
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    uint64_t h = 14695981039346656037u;

    if (!id || !l->caps->short_id || (strlen(id) == SHORT_ID && strspn(id, letters) == SHORT_ID))
        return id ? id : "";
    for (const char *p = id; *p; p++)
        h = (h ^ (uint8_t)*p) * 1099511628211u;
    for (uint32_t i = 0; i < SHORT_ID; i++, h /= 62)
        ret[i] = letters[h % 62];
    ret[SHORT_ID] = 0;
    return ret;
}

/* The last call of the message that is to be found again. */
static bool is_cut(const list *l, const msg *m, const aq_json *call)
{
    return l->cut && m->no == l->cut->no && !call->next;
}

static int put_call(const list *l, aq_bytes *out, const aq_json *call, bool cut)
{
    const aq_json *f = aq_json_get(call, "function"), *name = aq_json_get(f, "name");
    const aq_json *args = aq_json_get(f, "arguments");
    char id[SHORT_ID + 1];
    const char *text = id_of(l, aq_json_str(call, "id"), id);
    bool sent = args && args->kind == AQ_JSON_STR;
    int rc = aq_bytes_puts(out, "{\"id\":");

    if (rc >= 0)
        rc = aq_json_quote(out, text, strlen(text));
    if (rc >= 0)
        rc = aq_bytes_puts(out, ",\"type\":\"function\",\"function\":{\"name\":");
    if (rc >= 0)
        rc = aq_json_quote(out, name->str, name->n);
    if (rc >= 0)
        rc = aq_bytes_puts(out, ",\"arguments\":");
    if (rc >= 0 && cut)
        rc = aq_bytes_puts(out, l->caps->args_text || (l->caps->args_both && sent)
                                    ? "\"{\\\"cut\\\": \\\"" AQ_CUT_MARK "\\\"}\""
                                    : "{\"cut\":\"" AQ_CUT_MARK "\"}");
    else if (rc >= 0)
        rc = put_args(l, out, args, l->caps->args_text || (l->caps->args_both && sent));
    return rc < 0 ? rc : aq_bytes_puts(out, "}}");
}

/* Calls as text, for a template that knows none. */
static int calls_to_text(list *l, msg *m, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    int rc = aq_bytes_put(&b, m->text, m->n_text);

    for (const aq_json *c = m->calls; c && rc >= 0; c = c->next) {
        const aq_json *f = aq_json_get(c, "function"), *name = aq_json_get(f, "name");
        const aq_json *args = aq_json_get(f, "arguments");
        rc = aq_bytes_putf(&b, "%s<tool_call>\n{\"name\": ", b.n ? "\n" : "");
        if (rc >= 0)
            rc = aq_json_quote(&b, name->str, name->n);
        if (rc >= 0)
            rc = aq_bytes_puts(&b, ", \"arguments\": ");
        if (rc >= 0 && is_cut(l, m, c))
            rc = aq_bytes_puts(&b, "{\"cut\": \"" AQ_CUT_MARK "\"}");
        else if (rc >= 0 && args && args->kind == AQ_JSON_STR && args->n)
            rc = aq_bytes_put(&b, args->str, args->n); /* an object's: check_calls saw to it */
        else if (rc >= 0)
            rc = put_args(l, &b, args, false);
        if (rc >= 0)
            rc = aq_bytes_puts(&b, "}\n</tool_call>");
    }
    m->calls = NULL;
    m->n_calls = 0;
    return rc < 0 ? no_mem(err, m->no) : keep(l, m, &b, err);
}

static int result_to_text(list *l, msg *m, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "<tool_response>\n");

    if (rc >= 0)
        rc = aq_bytes_put(&b, m->text, m->n_text);
    if (rc >= 0)
        rc = aq_bytes_puts(&b, "\n</tool_response>");
    m->role = "user";
    m->src = NULL;
    return rc < 0 ? no_mem(err, m->no) : keep(l, m, &b, err);
}

/* ---- the chat as this template takes it ---- */

static int read_message(list *l, const aq_json *j, uint32_t no, aq_err *err)
{
    msg *m = &l->m[l->n];
    const aq_json *think;
    int rc;

    *m = (msg){.src = j, .no = no};
    if (j->kind != AQ_JSON_OBJ)
        return refuse(err, AQ_E_INVAL, no, "is no JSON object");
    if ((rc = role_of(j, no, &m->role, err)) < 0 ||
        (rc = content_of(l, m, aq_json_get(j, "content"), err)) < 0 ||
        (rc = check_calls(l, m, aq_json_get(j, "tool_calls"), err)) < 0)
        return rc;
    if (!(think = aq_json_get(j, "reasoning_content")))
        think = aq_json_get(j, "thinking");
    if (think && think->kind == AQ_JSON_STR && !strcmp(m->role, "assistant")) {
        m->thinking = think->str;
        m->n_thinking = think->n;
    }
    for (const aq_json *c = m->calls; c && l->cut && l->cut->no == no; c = c->next) {
        char id[SHORT_ID + 1];
        const char *text = id_of(l, aq_json_str(c, "id"), id);
        snprintf(l->cut->id, sizeof l->cut->id, "%s", strlen(text) < sizeof l->cut->id ? text : "");
    }
    l->n++;
    return 0;
}

/* Put the text of b behind a's. */
static int merge(list *l, msg *a, const msg *b, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes t = {0};
    int rc = aq_bytes_put(&t, a->text, a->n_text);

    if (rc >= 0 && a->n_text && b->n_text)
        rc = aq_bytes_puts(&t, "\n\n");
    if (rc >= 0)
        rc = aq_bytes_put(&t, b->text, b->n_text);
    return rc < 0 ? no_mem(err, b->no) : keep(l, a, &t, err);
}

static int tell_tools(list *l, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "You can call functions. These are there:\n<tools>\n");
    msg m = {.role = "system", .no = 1};

    for (const aq_json *t = l->tools->n ? l->tools->item : NULL; t && rc >= 0; t = t->next)
        if ((rc = aq_json_put(&b, t)) >= 0)
            rc = aq_bytes_puts(&b, "\n");
    if (rc >= 0)
        rc = aq_bytes_puts(&b, "</tools>\nTo call one, write this and nothing behind it, with its "
                               "name and its arguments:\n<tool_call>\n{\"name\": \"NAME\", "
                               "\"arguments\": {}}\n</tool_call>\nThe result then comes in "
                               "<tool_response>. Call a function only where it helps.");
    if (rc < 0)
        return no_mem(err, 1);
    if ((rc = keep(l, &m, &b, err)) < 0)
        return rc;
    if (l->n && !strcmp(l->m[0].role, "system"))
        return merge(l, &l->m[0], &m, err);
    memmove(l->m + 1, l->m, l->n++ * sizeof *l->m); /* one more was allocated */
    l->m[0] = m;
    return 0;
}

/* Order and roles. */
static int adapt(list *l, aq_err *err)
{
    const aq_chat_caps *c = l->caps;
    int rc = 0;

    for (uint32_t i = 0; i < l->n && rc >= 0 && !c->has_tools; i++)
        if (l->m[i].n_calls)
            rc = calls_to_text(l, &l->m[i], err);
        else if (!strcmp(l->m[i].role, "tool"))
            rc = result_to_text(l, &l->m[i], err);
    if (rc >= 0 && !c->has_tools && l->tools)
        rc = tell_tools(l, err);
    uint32_t n = 0;
    bool head = true;
    for (uint32_t i = 0; i < l->n && rc >= 0; i++) {
        msg m = l->m[i];
        bool sys = !strcmp(m.role, "system"), user = !strcmp(m.role, "user");
        if (sys && (head ? n && !c->two_system : !c->late_system)) {
            if (head) {
                rc = merge(l, &l->m[n - 1], &m, err);
                continue;
            }
            m.role = "user";
            m.src = NULL;
            user = true;
        } else if (sys && !c->system) {
            m.role = "user";
            m.src = NULL;
            user = true;
        }
        head = head && sys;
        if (user && n && !c->repeats && !strcmp(l->m[n - 1].role, "user")) {
            rc = merge(l, &l->m[n - 1], &m, err);
            continue;
        }
        l->m[n++] = m;
    }
    l->n = n;
    return rc;
}

/* ---- out ---- */

static int put_text(aq_bytes *out, const char *key, const char *p, uint32_t n)
{
    int rc = aq_bytes_putf(out, ",\"%s\":", key);

    return rc < 0 ? rc : aq_json_quote(out, p, n);
}

static int put_calls(const list *l, aq_bytes *out, const msg *m, const aq_json *first, uint32_t n)
{
    int rc = aq_bytes_puts(out, ",\"tool_calls\":[");

    for (uint32_t i = 0; i < n && rc >= 0; i++, first = first->next)
        if ((rc = i ? aq_bytes_puts(out, ",") : 0) >= 0)
            rc = put_call(l, out, first, is_cut(l, m, first));
    return rc < 0 ? rc : aq_bytes_puts(out, "]");
}

/* One message, with n of its calls from `first` on. */
static int put_message(const list *l, aq_bytes *out, const msg *m, const aq_json *first, uint32_t n)
{
    static const char *const own[] = {"role",       "content",           "raw",
                                      "tool_calls", "reasoning_content", "thinking"};
    bool said = first == m->calls; /* content and thinking stand with the first call */
    uint32_t n_text = said ? m->n_text : 0;
    int rc = aq_bytes_putf(out, "{\"role\":\"%s\"", m->role);

    /* gpt-oss takes one of the two besides a call, and both as thinking */
    if (n && said && n_text && m->n_thinking && l->caps->calls == AQ_CALLS_HARMONY)
        n_text = 0;
    if (rc >= 0)
        rc = put_text(out, "content", m->text, n_text);
    if (rc >= 0 && m->n_thinking && said) {
        rc = put_text(out, "reasoning_content", m->thinking, m->n_thinking);
        rc = rc < 0 ? rc : put_text(out, "thinking", m->thinking, m->n_thinking);
    }
    for (const aq_json *c = m->src && m->src->n ? m->src->item : NULL; c && rc >= 0; c = c->next) {
        bool skip = c->kind == AQ_JSON_NULL; /* as Transformers does */
        for (size_t i = 0; i < AQ_LEN(own); i++)
            skip |= !strcmp(c->key, own[i]);
        char id[SHORT_ID + 1];
        if (l->caps->short_id && c->kind == AQ_JSON_STR && !strcmp(c->key, "tool_call_id")) {
            const char *text = id_of(l, c->str, id);
            rc = put_text(out, c->key, text, (uint32_t)strlen(text));
            continue;
        }
        if (skip)
            continue;
        if ((rc = aq_bytes_puts(out, ",")) >= 0 &&
            (rc = aq_json_quote(out, c->key, c->key_n)) >= 0 && (rc = aq_bytes_puts(out, ":")) >= 0)
            rc = aq_json_put(out, c);
    }
    if (rc >= 0 && n)
        rc = put_calls(l, out, m, first, n);
    return rc < 0 ? rc : aq_bytes_puts(out, "}");
}

/* Where the result of a call is among the messages behind; NULL when it is not. */
static msg *result_of(list *l, uint32_t i, const aq_json *call)
{
    const char *id = aq_json_str(call, "id");

    for (i++; id && i < l->n && !strcmp(l->m[i].role, "tool"); i++) {
        const char *its = l->m[i].src ? aq_json_str(l->m[i].src, "tool_call_id") : NULL;
        if (its && !strcmp(its, id))
            return &l->m[i];
    }
    return NULL;
}

static int put_one_by_one(list *l, aq_bytes *out, uint32_t i)
{
    const aq_json *c = l->m[i].calls;
    int rc = 0;

    for (uint32_t k = 0; k < l->m[i].n_calls && rc >= 0; k++, c = c->next) {
        msg *res = result_of(l, i, c);
        rc = k ? aq_bytes_puts(out, ",") : 0;
        if (rc >= 0)
            rc = put_message(l, out, &l->m[i], c, 1);
        if (rc >= 0 && res && res->role && (rc = aq_bytes_puts(out, ",")) >= 0) {
            rc = put_message(l, out, res, NULL, 0);
            res->no = 0; /* said already */
        }
    }
    return rc;
}

int aq_messages_put(aq_bytes *out, const aq_json *messages, const aq_json *tools,
                    const aq_chat_caps *caps, aq_msg_cut *cut, aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    list l = {.a = a, .caps = caps, .tools = tools, .cut = cut};
    uint32_t no = 0;
    int rc = aq_bytes_puts(out, "[");

    if (!a || rc < 0 || !(l.m = aq_arena_alloc(a, ((size_t)messages->n + 1) * sizeof *l.m)))
        return aq_fail(err, AQ_E_NOMEM, "no memory for a chat of %u messages", messages->n);
    for (const aq_json *m = messages->n ? messages->item : NULL; m; m = m->next)
        if ((rc = read_message(&l, m, ++no, err)) < 0)
            return rc;
    if ((rc = adapt(&l, err)) < 0)
        return rc;
    for (uint32_t i = 0, k = 0; i < l.n && rc >= 0; i++) {
        if (!l.m[i].no)
            continue;
        bool parted = l.m[i].n_calls > 1 && caps->one_call;
        rc = k++ ? aq_bytes_puts(out, ",") : 0;
        if (cut && l.m[i].no == cut->no && cut->id[0] && !parted)
            cut->off = out->n;
        if (rc >= 0)
            rc = parted ? put_one_by_one(&l, out, i)
                        : put_message(&l, out, &l.m[i], l.m[i].calls, l.m[i].n_calls);
    }
    rc = rc < 0 ? rc : aq_bytes_puts(out, "]");
    return rc < 0 ? aq_fail(err, -rc, "no memory for a chat of %u messages", no) : 0;
}

/* ---- tools ---- */

static int put_tool(aq_bytes *out, const aq_json *t, const aq_json *f, const aq_chat_caps *caps)
{
    int rc;

    if (!caps->need_desc || aq_json_get(f, "description"))
        return aq_json_put(out, t);
    rc = aq_bytes_puts(out, "{\"type\":\"function\",\"function\":{\"description\":\"\"");
    for (const aq_json *c = f->n ? f->item : NULL; c && rc >= 0; c = c->next)
        if ((rc = aq_bytes_puts(out, ",")) >= 0 &&
            (rc = aq_json_quote(out, c->key, c->key_n)) >= 0 && (rc = aq_bytes_puts(out, ":")) >= 0)
            rc = aq_json_put(out, c);
    return rc < 0 ? rc : aq_bytes_puts(out, "}}");
}

int aq_tools_put(aq_bytes *out, const aq_json *tools, const aq_chat_caps *caps, aq_err *err)
{
    uint32_t no = 0;
    int rc = aq_bytes_puts(out, "[");

    for (const aq_json *t = tools->n ? tools->item : NULL; t && rc >= 0; t = t->next) {
        const aq_json *f = aq_json_get(t, "function"), *p = aq_json_get(f, "parameters");
        const char *name = aq_json_str(f, "name"), *type = aq_json_str(t, "type");
        no++;
        if (type && strcmp(type, "function"))
            return aq_fail(err, AQ_E_UNSUPPORTED,
                           "tool %u is of type \"%.40s\"; only functions can be called", no, type);
        if (!name || !name[0])
            return aq_fail(err, AQ_E_INVAL, "tool %u has no function with a \"name\"", no);
        if (p && p->kind != AQ_JSON_OBJ && p->kind != AQ_JSON_NULL)
            return aq_fail(err, AQ_E_INVAL, "tool %u (%.60s) has parameters that are no object", no,
                           name);
        for (const aq_json *o = tools->item; o != t; o = o->next)
            if (!strcmp(aq_json_str(aq_json_get(o, "function"), "name"), name))
                return aq_fail(err, AQ_E_INVAL, "two tools have the name %.60s", name);
        if ((rc = no > 1 ? aq_bytes_puts(out, ",") : 0) >= 0)
            rc = put_tool(out, t, f, caps);
    }
    rc = rc < 0 ? rc : aq_bytes_puts(out, "]");
    return rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for %u tools", tools->n) : 0;
}
