/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's core: bytes against markers, content and thinking, events. See toolparse-priv.h. */
#include "toolparse-priv.h"

/* ---- events ---- */

void aq_tp_put(aq_toolparse *p, aq_bytes *b, const char *s, size_t n)
{
    if (p->rc < 0 || !n)
        return;
    if (aq_bytes_put(b, s, n) < 0)
        p->rc = -AQ_E_NOMEM;
}

void aq_tp_emit(aq_toolparse *p, uint32_t kind, const char *s, size_t n)
{
    aq_tp_ev *e = p->n_ev ? &p->ev[p->n_ev - 1] : NULL;
    uint32_t call = kind >= AQ_EV_CALL_START ? p->n_started - 1 : 0;

    if (p->rc < 0 || (!n && kind != AQ_EV_CALL_START))
        return;
    if (!e || e->kind != kind || e->call != call || kind == AQ_EV_CALL_START) {
        if (p->n_ev == p->cap_ev) {
            uint32_t cap = p->cap_ev ? 2 * p->cap_ev : 8;
            aq_tp_ev *m = realloc(p->ev, cap * sizeof *m);
            if (!m) {
                p->rc = -AQ_E_NOMEM;
                return;
            }
            p->ev = m;
            p->cap_ev = cap;
        }
        e = &p->ev[p->n_ev++];
        *e = (aq_tp_ev){kind, call, p->buf.n, 0};
    }
    aq_tp_put(p, &p->buf, s, n);
    if (p->rc >= 0)
        e->n += n;
}

void aq_tp_args(aq_toolparse *p, const char *s, size_t n)
{
    aq_tp_emit(p, AQ_EV_CALL_ARGS, s, n);
}

void aq_tp_escaped(aq_toolparse *p, uint8_t b)
{
    static const char hex[] = "0123456789abcdef";
    char s[6] = {'\\', 0, '0', '0', 0, 0};

    if (b >= 0x20 && b != '"' && b != '\\') {
        aq_tp_args(p, (const char *)&b, 1);
        return;
    }
    s[1] = b == '\n' ? 'n' : b == '\t' ? 't' : b == '\r' ? 'r' : b < 0x20 ? 'u' : (char)b;
    s[4] = hex[b >> 4];
    s[5] = hex[b & 15];
    aq_tp_args(p, s, s[1] == 'u' ? 6 : 2);
}

void aq_tp_trim(aq_bytes *b)
{
    size_t from = 0;

    while (b->n && aq_tp_space(b->p[b->n - 1]))
        b->n--;
    while (from < b->n && aq_tp_space(b->p[from]))
        from++;
    if (from) {
        memmove(b->p, b->p + from, b->n - from);
        b->n -= from;
    }
}

/* ---- calls: what all families share ---- */

static const aq_json *find_tool(const aq_toolparse *p)
{
    const aq_json *t = p->tools && p->tools->n ? p->tools->item : NULL;

    for (; t; t = t->next) {
        const aq_json *name = aq_json_get(aq_json_get(t, "function"), "name");
        if (name && name->kind == AQ_JSON_STR && name->n == p->name.n &&
            !memcmp(name->str, p->name.p, name->n))
            return t;
    }
    return NULL;
}

bool aq_tp_known(const aq_toolparse *p)
{
    return p->name.n && find_tool(p);
}

void aq_tp_begin(aq_toolparse *p, const aq_tp_state *st, const char *mark)
{
    p->st = st;
    p->sub = 0;
    p->started = p->comma = false;
    p->tool = NULL;
    p->name.n = p->key.n = p->val.n = 0;
    p->in_raw = true;
    p->raw.n = 0;
    aq_tp_put(p, &p->raw, (const char *)p->ws.p, p->ws.n);
    aq_tp_put(p, &p->raw, mark, strlen(mark));
    p->ws.n = 0;
    p->js = (aq_jscan){0};
    if (mark[0]) {
        p->n_open++;
        p->open_rest = p->push_left;
    }
}

void aq_tp_start(aq_toolparse *p)
{
    const aq_json *t;

    if (!p->name.n || p->name.n > 256) {
        aq_tp_fail(p);
        return;
    }
    t = find_tool(p);
    p->tool = aq_json_get(aq_json_get(t, "function"), "parameters");
    p->started = true;
    p->in_raw = false;
    p->raw.n = 0;
    p->n_started++;
    p->think_on = false;
    p->said = true;
    aq_tp_emit(p, AQ_EV_CALL_START, (const char *)p->name.p, p->name.n);
}

void aq_tp_done(aq_toolparse *p)
{
    p->n_done++;
    p->started = false;
}

void aq_tp_break(aq_toolparse *p)
{
    p->broken = true;
    p->started = false;
    p->n_bad++;
}

void aq_tp_fail(aq_toolparse *p)
{
    bool was = p->in_raw;

    p->in_raw = false;
    if (p->started) {
        aq_tp_break(p);
    } else if (was) {
        p->n_bad += p->caps.calls != AQ_CALLS_LLAMA; /* there any JSON might have been one */
        aq_tp_emit(p, AQ_EV_TEXT, (const char *)p->raw.p, p->raw.n);
        p->think_on = false;
        p->said = true;
    }
    p->raw.n = 0;
    p->started = false;
    aq_tp_content(p);
    p->fresh = false;
}

void aq_tp_fail_at(aq_toolparse *p, uint8_t b)
{
    bool kept = p->in_raw;

    aq_tp_fail(p);
    if (!kept)
        p->st->on_byte(p, b);
}

/* ---- values by schema ---- */

static uint8_t want_of(const aq_json *s, uint32_t depth)
{
    const aq_json *t = aq_json_get(s, "type"), *any;
    uint8_t all = AQ_TP_ANY;
    bool first = true;

    if (!s || depth > 8)
        return AQ_TP_ANY;
    if (t && t->kind == AQ_JSON_STR)
        return strcmp(t->str, "string") ? AQ_TP_JSON : AQ_TP_STR;
    if (t && t->kind == AQ_JSON_ARR) {
        for (const aq_json *c = t->n ? t->item : NULL; c; c = c->next, first = false) {
            uint8_t w =
                c->kind == AQ_JSON_STR && !strcmp(c->str, "string") ? AQ_TP_STR : AQ_TP_JSON;
            all = first || all == w ? w : AQ_TP_ANY;
            if (all == AQ_TP_ANY)
                break;
        }
        return all;
    }
    if (!(any = aq_json_get(s, "anyOf")))
        any = aq_json_get(s, "oneOf");
    if (any && any->kind == AQ_JSON_ARR) {
        for (const aq_json *c = any->n ? any->item : NULL; c; c = c->next, first = false) {
            uint8_t w = want_of(c, depth + 1);
            all = first || all == w ? w : AQ_TP_ANY;
            if (all == AQ_TP_ANY)
                break;
        }
        return all;
    }
    if ((any = aq_json_get(s, "enum")) && any->kind == AQ_JSON_ARR && any->n) {
        for (const aq_json *c = any->item; c; c = c->next)
            if (c->kind != AQ_JSON_STR)
                return AQ_TP_ANY;
        return AQ_TP_STR;
    }
    return AQ_TP_ANY;
}

uint8_t aq_tp_want(const aq_toolparse *p, const char *key, size_t n)
{
    const aq_json *props = aq_json_get(p->tool, "properties");

    for (const aq_json *c = props && props->kind == AQ_JSON_OBJ && props->n ? props->item : NULL; c;
         c = c->next)
        if (c->key_n == n && !memcmp(c->key, key, n))
            return want_of(c, 0);
    return AQ_TP_ANY;
}

void aq_tp_value(aq_toolparse *p)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes t = {0};
    const aq_json *v;

    if (!a) {
        p->rc = -AQ_E_NOMEM;
        return;
    }
    aq_tp_put(p, &t, (const char *)p->val.p, p->val.n);
    aq_tp_trim(&t);
    if (p->rc < 0)
        return;
    for (size_t i = 0; i < AQ_LEN(words); i++) /* as Python writes them */
        if (t.n == strlen(words[i][0]) && !memcmp(t.p, words[i][0], t.n)) {
            aq_tp_args(p, words[i][1], strlen(words[i][1]));
            return;
        }
    if (t.n && aq_json_parse(a, (const char *)t.p, t.n, &v, NULL) >= 0 &&
        (v->kind != AQ_JSON_STR || p->want == AQ_TP_JSON)) {
        aq_tp_args(p, (const char *)t.p, t.n);
        return;
    }
    aq_tp_args(p, "\"", 1);
    for (size_t i = 0; i < p->val.n; i++)
        aq_tp_escaped(p, p->val.p[i]);
    aq_tp_args(p, "\"", 1);
}

/* ---- content and thinking ---- */

static uint32_t content_marks(const aq_toolparse *p, const char **m)
{
    static const char deepseek[] = "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                                   "call\xE2\x96\x81"
                                   "begin\xEF\xBD\x9C>";
    static const char calls[] = "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                                "calls\xE2\x96\x81"
                                "begin\xEF\xBD\x9C>",
                      end[] = "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                              "calls\xE2\x96\x81"
                              "end\xEF\xBD\x9C>";
    uint32_t n = 0;

    /* the think marker is always first, also where it counts no more (it is text then) */
    m[n++] = p->caps.think_open && p->think_on ? p->caps.think_open : "\xff";
    if (!p->calls_on)
        return n;
    switch (p->caps.calls) {
    case AQ_CALLS_FUNCTION:
        m[n++] = "<tool_call>";
        m[n++] = "<function=";
        break;
    case AQ_CALLS_HERMES:
    case AQ_CALLS_GLM:
        m[n++] = "<tool_call>";
        break;
    case AQ_CALLS_DEEPSEEK:
        m[n++] = deepseek;
        m[n++] = calls;
        m[n++] = end;
        break;
    case AQ_CALLS_INVOKE:
        if (p->caps.invoke_pre[0]) {
            m[n++] = "<\xEF\xBD\x9C"
                     "DSML\xEF\xBD\x9C"
                     "function_calls>";
            m[n++] = "<\xEF\xBD\x9C"
                     "DSML\xEF\xBD\x9C"
                     "tool_calls>";
        } else {
            m[n++] = "<minimax:tool_call>";
            m[n++] = "<function_calls>";
        }
        break;
    case AQ_CALLS_LLAMA:
        m[n++] = "<|python_tag|>";
        break;
    case AQ_CALLS_MISTRAL:
        m[n++] = "[TOOL_CALLS]";
        break;
    case AQ_CALLS_GEMMA:
        m[n++] = "<|tool_call>";
        break;
    default:
        break;
    }
    return n;
}

static void think_begin(aq_toolparse *);
static void content_byte(aq_toolparse *, uint8_t b);

static void content_mark(aq_toolparse *p, uint32_t i)
{
    static const aq_tp_state *const entry[AQ_CALLS_N] = {
        [AQ_CALLS_HERMES] = &aq_tp_hermes,   [AQ_CALLS_FUNCTION] = &aq_tp_function,
        [AQ_CALLS_GLM] = &aq_tp_glm,         [AQ_CALLS_DEEPSEEK] = &aq_tp_deepseek,
        [AQ_CALLS_INVOKE] = &aq_tp_invoke,   [AQ_CALLS_LLAMA] = &aq_tp_llama,
        [AQ_CALLS_MISTRAL] = &aq_tp_mistral, [AQ_CALLS_GEMMA] = &aq_tp_gemma,
        [AQ_CALLS_HARMONY] = &aq_tp_harmony};
    const char *m[AQ_TP_MARKS_MAX];

    content_marks(p, m);
    if (i == 0 && (!p->caps.think_open || !p->think_on)) {
        content_byte(p, 0xff); /* the marker that stands for none */
    } else if (i == 0) {
        p->ws.n = 0;
        think_begin(p);
    } else if (p->caps.calls == AQ_CALLS_DEEPSEEK && i > 1) {
        p->fresh = true; /* the list's own begin and end say nothing */
        if (i == 2) {
            p->n_open++;
            p->open_rest = p->push_left;
        }
    } else if (p->caps.calls == AQ_CALLS_FUNCTION && i == 2) {
        aq_tp_begin(p, &aq_tp_function_name, m[i]);
    } else {
        aq_tp_begin(p, entry[p->caps.calls], m[i]);
    }
}

static void content_byte(aq_toolparse *p, uint8_t b)
{
    if (aq_tp_space(b)) {
        if (!p->fresh)
            aq_tp_byte(p, &p->ws, b);
        return;
    }
    if (p->calls_on && p->caps.calls == AQ_CALLS_LLAMA && p->tools &&
        ((b == '{' && !p->said) || (p->n_done && p->fresh && (b == '{' || b == ';')))) {
        if (b == ';')
            return;
        aq_tp_begin(p, &aq_tp_llama, "");
        aq_tp_byte(p, &p->raw, b);
        p->st->on_byte(p, b);
        return;
    }
    if (p->n_done && p->fresh && b == ';')
        return; /* between calls */
    aq_tp_emit(p, AQ_EV_TEXT, (const char *)p->ws.p, p->ws.n);
    p->ws.n = 0;
    p->fresh = p->think_on = false;
    p->said = true;
    aq_tp_emit(p, AQ_EV_TEXT, (const char *)&b, 1);
}

static void content_end(aq_toolparse *p)
{
    aq_tp_emit(p, AQ_EV_TEXT, (const char *)p->ws.p, p->ws.n);
    p->ws.n = 0;
}

static const aq_tp_state content = {content_marks, content_mark, content_byte, content_end};

void aq_tp_content(aq_toolparse *p)
{
    p->st = &content;
    p->fresh = true;
    p->thinking = false;
}

static uint32_t think_marks(const aq_toolparse *p, const char **m)
{
    m[0] = p->caps.think_close;
    return 1;
}

static void think_mark(aq_toolparse *p, uint32_t i)
{
    (void)i;
    p->ws.n = 0; /* white space before the end is no part of it */
    aq_tp_content(p);
}

static void think_byte(aq_toolparse *p, uint8_t b)
{
    if (aq_tp_space(b)) {
        if (!p->fresh)
            aq_tp_byte(p, &p->ws, b);
        return;
    }
    aq_tp_emit(p, AQ_EV_REASONING, (const char *)p->ws.p, p->ws.n);
    p->ws.n = 0;
    p->fresh = false;
    aq_tp_emit(p, AQ_EV_REASONING, (const char *)&b, 1);
}

static void think_end(aq_toolparse *p)
{
    p->ws.n = 0;
}

static const aq_tp_state think = {think_marks, think_mark, think_byte, think_end};

static void think_begin(aq_toolparse *p)
{
    p->st = &think;
    p->fresh = p->thinking = true;
}

/* ---- bytes against markers ---- */

static void take(aq_toolparse *p, size_t n)
{
    memmove(p->pend.p, p->pend.p + n, p->pend.n - n);
    memmove(p->pend_ctl.p, p->pend_ctl.p + n, p->pend.n - n);
    p->pend.n -= n;
    p->pend_ctl.n -= n;
}

/* Work off what is pending; with `all` nothing waits any more. */
static void drain(aq_toolparse *p, bool all)
{
    while (p->pend.n && p->rc >= 0) {
        const char *m[AQ_TP_MARKS_MAX];
        uint32_t n = p->st->marks ? p->st->marks(p, m) : 0, hit = UINT32_MAX;
        bool partial = false;
        for (uint32_t i = 0; i < n && hit == UINT32_MAX; i++) {
            size_t k = strlen(m[i]);
            if (k <= p->pend.n && !memcmp(p->pend.p, m[i], k))
                hit = i;
            else if (k > p->pend.n && !memcmp(p->pend.p, m[i], p->pend.n))
                partial = true;
        }
        if (hit != UINT32_MAX) {
            if (p->in_raw)
                aq_tp_put(p, &p->raw, m[hit], strlen(m[hit]));
            take(p, strlen(m[hit]));
            p->st->on_mark(p, hit);
            continue;
        }
        if (partial && !all)
            return;
        uint8_t b = p->pend.p[0], ctl = p->pend_ctl.p[0];
        take(p, 1);
        if (ctl)
            continue;
        if (p->in_raw) {
            aq_tp_byte(p, &p->raw, b);
            if (p->raw.n > AQ_TP_HELD_MAX) {
                aq_tp_fail(p);
                continue;
            }
        }
        p->st->on_byte(p, b);
    }
}

/* A control token can be a marker here, alone or with what is pending. */
static bool may_mark(const aq_toolparse *p, const char *s, size_t n)
{
    const char *m[AQ_TP_MARKS_MAX];
    uint32_t n_m = p->st->marks ? p->st->marks(p, m) : 0;

    for (uint32_t i = 0; i < n_m; i++) {
        size_t k = strlen(m[i]);
        if (!memcmp(m[i], s, AQ_MIN(k, n)))
            return true;
        if (p->pend.n && p->pend.n < k && !memcmp(m[i], p->pend.p, p->pend.n) &&
            !memcmp(m[i] + p->pend.n, s, AQ_MIN(k - p->pend.n, n)))
            return true;
    }
    return false;
}

int aq_toolparse_push(aq_toolparse *p, const char *s, size_t n, bool control)
{
    static const char zero = 0, one = 1;

    p->n_ev = 0;
    p->buf.n = 0;
    p->open_rest = 0;
    if (control && !may_mark(p, s, n))
        return p->rc;
    for (size_t i = 0; i < n && p->rc >= 0; i++) {
        p->push_left = n - i - 1;
        aq_tp_put(p, &p->pend, s + i, 1);
        aq_tp_put(p, &p->pend_ctl, control ? &one : &zero, 1);
        drain(p, false);
    }
    return p->rc;
}

int aq_toolparse_finish(aq_toolparse *p)
{
    p->n_ev = 0;
    p->buf.n = 0;
    drain(p, true);
    if (p->st->on_end) {
        p->st->on_end(p);
    } else {
        aq_tp_fail(p);
        content_end(p);
    }
    return p->rc;
}

int aq_toolparse_new(const aq_chat_caps *caps, const char *tools_json, bool calls_on,
                     uint8_t think_at, aq_toolparse **ret, aq_err *err)
{
    AQ_AUTO(aq_toolparse_free) aq_toolparse *p = calloc(1, sizeof *p);
    int rc;

    if (!p || !(p->arena = aq_arena_new(0)))
        return aq_fail(err, AQ_E_NOMEM, "no memory to read an answer");
    p->caps = *caps;
    p->calls_on = calls_on;
    if (tools_json &&
        (rc = aq_json_parse(p->arena, tools_json, strlen(tools_json), &p->tools, err)) < 0)
        return rc;
    if (p->tools && p->tools->kind != AQ_JSON_ARR)
        p->tools = NULL;
    aq_tp_content(p);
    p->think_on = think_at == AQ_THINK_UNKNOWN;
    p->fresh = think_at == AQ_THINK_CLOSED;
    if (caps->calls == AQ_CALLS_HARMONY)
        p->st = &aq_tp_harmony;
    else if (think_at == AQ_THINK_OPEN && caps->think_close)
        think_begin(p);
    *ret = AQ_STEAL(p);
    return 0;
}

void aq_toolparse_free(aq_toolparse *p)
{
    if (!p)
        return;
    aq_arena_free(p->arena);
    aq_bytes_clear(&p->pend);
    aq_bytes_clear(&p->pend_ctl);
    aq_bytes_clear(&p->ws);
    aq_bytes_clear(&p->raw);
    aq_bytes_clear(&p->name);
    aq_bytes_clear(&p->key);
    aq_bytes_clear(&p->val);
    aq_bytes_clear(&p->buf);
    free(p->ev);
    free(p);
}
