/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in OpenAI's shape, written from those of other dialects. A worker's thread. */
#include "api-priv.h"

void aq_put_part(aq_jw *parts, const char *text, size_t n)
{
    aq_jw_s(parts, parts->b.n ? ",{\"type\":\"text\",\"text\":" : "{\"type\":\"text\",\"text\":");
    aq_jw_qn(parts, text, n);
    aq_jw_s(parts, "}");
}

void aq_put_tool(aq_jw *tools, const char *name, const char *description, const aq_json *schema)
{
    aq_jw_s(tools, tools->b.n ? "," : "");
    aq_jw_s(tools, "{\"type\":\"function\",\"function\":{\"name\":");
    aq_jw_q(tools, name);
    if (description) {
        aq_jw_s(tools, ",\"description\":");
        aq_jw_q(tools, description);
    }
    aq_jw_s(tools, ",\"parameters\":");
    if (schema)
        aq_jw_v(tools, schema);
    else
        aq_jw_s(tools, "{\"type\":\"object\",\"properties\":{}}");
    aq_jw_s(tools, "}}");
}

static void begin(aq_mb *b, const char *role)
{
    aq_jw_s(&b->w, b->w.b.n ? ",{\"role\":\"" : "{\"role\":\"");
    aq_jw_s(&b->w, role);
    aq_jw_s(&b->w, "\"");
}

static void put(aq_jw *w, const aq_jw *from)
{
    w->rc = w->rc < 0 ? w->rc : from->rc;
    aq_jw_n(w, from->b.p, from->b.n);
}

static void put_content(aq_mb *b, const aq_jw *parts)
{
    aq_jw_s(&b->w, ",\"content\":[");
    put(&b->w, parts);
    aq_jw_s(&b->w, "]");
}

/* The assistant's message is whole. */
static void flush(aq_mb *b)
{
    if (!b->open)
        return;
    begin(b, "assistant");
    if (b->text.b.n)
        put_content(b, &b->text);
    else
        aq_jw_s(&b->w, ",\"content\":null");
    if (b->think.b.n) {
        aq_jw_s(&b->w, ",\"reasoning_content\":");
        aq_jw_qn(&b->w, (const char *)b->think.b.p, b->think.b.n);
    }
    if (b->calls.b.n) {
        aq_jw_s(&b->w, ",\"tool_calls\":[");
        put(&b->w, &b->calls);
        aq_jw_s(&b->w, "]");
    }
    aq_jw_s(&b->w, "}");
    b->w.rc = AQ_MIN(b->w.rc, AQ_MIN(b->think.rc, b->calls.rc));
    b->text.b.n = b->think.b.n = b->calls.b.n = 0;
    b->open = false;
}

void aq_mb_system(aq_mb *b, const char *text, size_t n)
{
    if (!b->w.b.n && !b->open) {
        aq_put_part(&b->lead, text, n);
        return;
    }
    flush(b);
    begin(b, "system");
    aq_jw_s(&b->w, ",\"content\":");
    aq_jw_qn(&b->w, text, n);
    aq_jw_s(&b->w, "}");
}

void aq_mb_user(aq_mb *b, const aq_jw *parts)
{
    flush(b);
    begin(b, "user");
    put_content(b, parts);
    aq_jw_s(&b->w, "}");
}

void aq_mb_tool(aq_mb *b, const char *call_id, const aq_jw *parts)
{
    flush(b);
    begin(b, "tool");
    aq_jw_s(&b->w, ",\"tool_call_id\":");
    aq_jw_q(&b->w, call_id);
    put_content(b, parts);
    aq_jw_s(&b->w, "}");
}

void aq_mb_text(aq_mb *b, const char *text, size_t n)
{
    if (b->calls.b.n) /* what is said after a call is another message */
        flush(b);
    b->open = true;
    if (n)
        aq_put_part(&b->text, text, n);
}

void aq_mb_think(aq_mb *b, const char *text, size_t n)
{
    if (b->calls.b.n || b->text.b.n)
        flush(b);
    b->open = true;
    aq_jw_n(&b->think, text, n);
}

void aq_put_call(aq_jw *w, aq_replay *replay, const char *id, const char *name, const char *args,
                 size_t n_args)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = replay && id ? aq_arena_new(0) : NULL;
    const aq_json *v = NULL;
    size_t n = n_args;
    char *sampled = a && aq_json_parse(a, args, n_args, &v, NULL) >= 0
                        ? aq_replay_find(replay, id, v, &n)
                        : NULL;

    aq_jw_s(w, "{\"id\":");
    aq_jw_q(w, id ? id : "");
    aq_jw_s(w, ",\"type\":\"function\",\"function\":{\"name\":");
    aq_jw_q(w, name);
    aq_jw_s(w, ",\"arguments\":");
    aq_jw_qn(w, sampled ? sampled : args, n);
    aq_jw_s(w, "}}");
    free(sampled);
}

void aq_mb_call(aq_mb *b, const char *id, const char *name, const char *args, size_t n_args)
{
    b->open = true;
    if (b->calls.b.n)
        aq_jw_s(&b->calls, ",");
    aq_put_call(&b->calls, b->replay, id, name, args, n_args);
}

void aq_mb_clear(aq_mb *b)
{
    aq_jw_clear(&b->w);
    aq_jw_clear(&b->lead);
    aq_jw_clear(&b->text);
    aq_jw_clear(&b->think);
    aq_jw_clear(&b->calls);
    *b = (aq_mb){0};
}

int aq_mb_end(aq_mb *b, aq_ask *a, aq_fault *f)
{
    aq_jw *w = &a->messages;

    flush(b);
    aq_jw_s(w, "[");
    if (b->lead.b.n) {
        aq_jw_s(w, "{\"role\":\"system\",\"content\":[");
        put(w, &b->lead);
        aq_jw_s(w, b->w.b.n ? "]}," : "]}");
    }
    put(w, &b->w);
    aq_jw_n(w, "]", 2); /* with its NUL */
    aq_mb_clear(b);
    return w->rc < 0 ? aq_fault_err(f, w->rc, NULL) : 0;
}
