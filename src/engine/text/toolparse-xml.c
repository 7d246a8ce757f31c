/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in tags, whose values become JSON by the tool's schema: texts as they come, others at their end.
 *
 *   function  <tool_call> <function=N> <parameter=K>\nV\n</parameter> … </function> </tool_call>     <tool_call> may be missing
 *   GLM       <tool_call>N <arg_key>K</arg_key> <arg_value>V</arg_value> … </tool_call>
 *   invoke    <P:function_calls> <Pinvoke name="N"> <Pparameter name="K" string="true">V</Pparameter> … </Pinvoke> </P:…>
 *             P is DeepSeek's ｜DSML｜, or nothing in MiniMax's form (minimax:tool_call around it) */
#include "toolparse-priv.h"

enum { X_OPEN, X_NAME, X_BODY, X_KEY, X_MID, X_VALUE, X_AFTER };

/* ---- values ---- */

static void value_begin(aq_toolparse *p)
{
    aq_tp_args(p, p->comma ? "," : "", p->comma);
    p->comma = true;
    aq_tp_args(p, "\"", 1);
    for (size_t i = 0; i < p->key.n; i++)
        aq_tp_escaped(p, p->key.p[i]);
    aq_tp_args(p, "\":", 2);
    if (p->want == AQ_TP_STR)
        aq_tp_args(p, "\"", 1);
    p->val.n = 0;
    p->lead = true;
    p->nl = false;
    p->sub = X_VALUE;
}

static void value_put(aq_toolparse *p, uint8_t b)
{
    if (p->want == AQ_TP_STR) {
        aq_tp_escaped(p, b);
        return;
    }
    aq_tp_byte(p, &p->val, b);
    if (p->val.n > AQ_TP_HELD_MAX)
        aq_tp_fail(p);
}

/* With `lines` a line break right behind the opening tag and one right before the closing tag are the notation's. */
static void value_byte(aq_toolparse *p, uint8_t b, bool lines)
{
    if (lines && p->lead && b == '\n') {
        p->lead = false;
        return;
    }
    p->lead = false;
    if (p->nl) {
        p->nl = false;
        value_put(p, '\n');
    }
    if (lines && b == '\n')
        p->nl = true;
    else if (p->started)
        value_put(p, b);
}

static void value_close(aq_toolparse *p)
{
    if (p->want == AQ_TP_STR)
        aq_tp_args(p, "\"", 1);
    else
        aq_tp_value(p);
    p->sub = X_BODY;
}

static void open_args(aq_toolparse *p)
{
    aq_tp_trim(&p->name);
    aq_tp_start(p);
    if (p->started) {
        aq_tp_args(p, "{", 1);
        p->sub = X_BODY;
    }
}

static void close_args(aq_toolparse *p)
{
    aq_tp_args(p, "}", 1);
    aq_tp_done(p);
    p->sub = X_AFTER;
}

static void head_byte(aq_toolparse *p, aq_bytes *to, uint8_t b)
{
    if (to->n < 300)
        aq_tp_byte(p, to, b);
    else
        aq_tp_fail_at(p, b);
}

static void eof(aq_toolparse *p)
{
    if (p->sub != X_AFTER)
        aq_tp_fail(p);
}

/* Between tags: white space only. */
static void gap(aq_toolparse *p, uint8_t b)
{
    if (aq_tp_space(b))
        return;
    if (p->sub == X_AFTER) {
        aq_tp_content(p);
        p->st->on_byte(p, b);
    } else {
        aq_tp_fail_at(p, b);
    }
}

/* ---- function tags ---- */

static uint32_t function_marks(const aq_toolparse *p, const char **m)
{
    switch (p->sub) {
    case X_OPEN:
        m[0] = "<function=";
        return 1;
    case X_BODY:
        m[0] = "<parameter=";
        m[1] = "</function>";
        return 2;
    case X_VALUE:
        m[0] = "</parameter>";
        return 1;
    case X_AFTER:
        m[0] = "</tool_call>";
        m[1] = "<tool_call>";
        m[2] = "<function=";
        return 3;
    default:
        return 0;
    }
}

static void function_mark(aq_toolparse *p, uint32_t i)
{
    switch (p->sub) {
    case X_OPEN:
        p->sub = X_NAME;
        return;
    case X_BODY:
        if (i == 1) {
            close_args(p);
            return;
        }
        p->key.n = 0;
        p->sub = X_KEY;
        return;
    case X_VALUE:
        value_close(p);
        return;
    default:
        aq_tp_content(p);
        if (i == 1)
            aq_tp_begin(p, &aq_tp_function, "<tool_call>");
        else if (i == 2)
            aq_tp_begin(p, &aq_tp_function_name, "<function=");
    }
}

static void function_byte(aq_toolparse *p, uint8_t b)
{
    switch (p->sub) {
    case X_NAME:
        if (b == '>')
            open_args(p);
        else
            head_byte(p, &p->name, b);
        return;
    case X_KEY:
        if (b != '>') {
            head_byte(p, &p->key, b);
            return;
        }
        aq_tp_trim(&p->key);
        p->want = aq_tp_want(p, (const char *)p->key.p, p->key.n);
        value_begin(p);
        return;
    case X_VALUE:
        value_byte(p, b, true);
        return;
    default:
        gap(p, b);
    }
}

const aq_tp_state aq_tp_function = {function_marks, function_mark, function_byte, eof};

/* The same, entered behind "<function=". */
static uint32_t name_marks(const aq_toolparse *p, const char **m)
{
    (void)p;
    (void)m;
    return 0;
}

static void name_byte(aq_toolparse *p, uint8_t b)
{
    p->st = &aq_tp_function;
    p->sub = X_NAME;
    function_byte(p, b);
}

const aq_tp_state aq_tp_function_name = {name_marks, NULL, name_byte, NULL};

/* ---- GLM ---- */

static uint32_t glm_marks(const aq_toolparse *p, const char **m)
{
    switch (p->sub) {
    case X_OPEN: /* the name */
    case X_BODY:
        m[0] = "<arg_key>";
        m[1] = "</tool_call>";
        return 2;
    case X_KEY:
        m[0] = "</arg_key>";
        return 1;
    case X_MID:
        m[0] = "<arg_value>";
        return 1;
    case X_VALUE:
        m[0] = "</arg_value>";
        return 1;
    default:
        m[0] = "<tool_call>";
        return 1;
    }
}

static void glm_mark(aq_toolparse *p, uint32_t i)
{
    switch (p->sub) {
    case X_OPEN:
        open_args(p);
        if (!p->started)
            return;
        __attribute__((fallthrough));
    case X_BODY:
        if (i == 1) {
            close_args(p);
            return;
        }
        p->key.n = 0;
        p->sub = X_KEY;
        return;
    case X_KEY:
        aq_tp_trim(&p->key);
        p->sub = X_MID;
        return;
    case X_MID:
        p->want = aq_tp_want(p, (const char *)p->key.p, p->key.n);
        value_begin(p);
        return;
    case X_VALUE:
        value_close(p);
        return;
    default:
        aq_tp_content(p);
        aq_tp_begin(p, &aq_tp_glm, "<tool_call>");
    }
}

static void glm_byte(aq_toolparse *p, uint8_t b)
{
    switch (p->sub) {
    case X_OPEN:
        head_byte(p, &p->name, b);
        return;
    case X_KEY:
        head_byte(p, &p->key, b);
        return;
    case X_VALUE:
        value_byte(p, b, false);
        return;
    default:
        gap(p, b);
    }
}

const aq_tp_state aq_tp_glm = {glm_marks, glm_mark, glm_byte, eof};

/* ---- invoke tags ---- */

#define DSML       \
    "\xEF\xBD\x9C" \
    "DSML\xEF\xBD\x9C"

static uint32_t invoke_marks(const aq_toolparse *p, const char **m)
{
    bool dsml = p->caps.invoke_pre[0];

    switch (p->sub) {
    case X_OPEN:
    case X_AFTER:
        m[0] = dsml ? "<" DSML "invoke name=\"" : "<invoke name=\"";
        m[1] = dsml ? "</" DSML "function_calls>" : "</minimax:tool_call>";
        m[2] = dsml ? "</" DSML "tool_calls>" : "</function_calls>";
        return 3;
    case X_BODY:
        m[0] = dsml ? "<" DSML "parameter name=\"" : "<parameter name=\"";
        m[1] = dsml ? "</" DSML "invoke>" : "</invoke>";
        return 2;
    case X_VALUE:
        m[0] = dsml ? "</" DSML "parameter>" : "</parameter>";
        return 1;
    default:
        return 0;
    }
}

static void invoke_mark(aq_toolparse *p, uint32_t i)
{
    switch (p->sub) {
    case X_AFTER:
        if (i == 0)
            aq_tp_begin(p, &aq_tp_invoke, "");
        __attribute__((fallthrough));
    case X_OPEN:
        if (i) {
            if (p->in_raw)
                aq_tp_fail(p); /* a list without calls */
            else
                aq_tp_content(p);
            return;
        }
        p->sub = X_NAME;
        p->nl = false;
        return;
    case X_BODY:
        if (i == 1) {
            close_args(p);
            return;
        }
        p->key.n = p->val.n = 0;
        p->nl = false;
        p->sub = X_KEY;
        return;
    default:
        value_close(p);
    }
}

/* Behind name=" up to >; nl: the quote was closed; val: what follows it. */
static void tag_byte(aq_toolparse *p, aq_bytes *to, uint8_t b)
{
    if (!p->nl && b == '"')
        p->nl = true;
    else if (!p->nl)
        head_byte(p, to, b);
    else if (b != '>')
        head_byte(p, &p->val, b);
    else if (p->sub == X_NAME)
        open_args(p);
    else {
        bool yes = p->val.n && memmem(p->val.p, p->val.n, "string=\"true\"", 13),
             no = p->val.n && memmem(p->val.p, p->val.n, "string=\"false\"", 14);
        p->want = yes  ? AQ_TP_STR
                  : no ? AQ_TP_JSON
                       : aq_tp_want(p, (const char *)p->key.p, p->key.n);
        value_begin(p);
    }
}

static void invoke_byte(aq_toolparse *p, uint8_t b)
{
    switch (p->sub) {
    case X_NAME:
        tag_byte(p, &p->name, b);
        return;
    case X_KEY:
        tag_byte(p, &p->key, b);
        return;
    case X_VALUE:
        value_byte(p, b, false);
        return;
    default:
        gap(p, b);
    }
}

const aq_tp_state aq_tp_invoke = {invoke_marks, invoke_mark, invoke_byte, eof};
