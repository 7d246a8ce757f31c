/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma's calls, whose notation is nearly JSON and becomes it.
 *
 *   <|tool_call>call:N{k:<|"|>text<|"|>,n:1.5,o:{a:true},l:[<|"|>x<|"|>,null]}<tool_call|>
 *
 * Names stand bare or as texts; texts are not escaped. */
#include "toolparse-priv.h"

enum { G_NAME, G_KEY, G_KTEXT, G_COLON, G_VALUE, G_TEXT, G_WORD, G_NEXT, G_AFTER };
#define QUOTE "<|\"|>"

static uint32_t marks(const aq_toolparse *p, const char **m)
{
    m[0] = p->sub == G_AFTER ? "<tool_call|>" : QUOTE;
    m[1] = "<|tool_call>";
    return p->sub == G_AFTER ? 2 : p->sub != G_NAME;
}

static void key_end(aq_toolparse *p)
{
    aq_tp_args(p, "\"", 1);
    for (size_t i = 0; i < p->key.n; i++)
        aq_tp_escaped(p, p->key.p[i]);
    aq_tp_args(p, "\":", 2);
}

static void mark(aq_toolparse *p, uint32_t i)
{
    switch (p->sub) {
    case G_KEY:
        if (p->key.n) {
            aq_tp_fail(p);
            return;
        }
        p->sub = G_KTEXT;
        return;
    case G_KTEXT:
        key_end(p);
        p->sub = G_COLON;
        return;
    case G_VALUE:
        aq_tp_args(p, "\"", 1);
        p->sub = G_TEXT;
        return;
    case G_TEXT:
        aq_tp_args(p, "\"", 1);
        p->sub = G_NEXT;
        return;
    case G_AFTER:
        aq_tp_content(p);
        if (i == 1)
            aq_tp_begin(p, &aq_tp_gemma, "<|tool_call>");
        return;
    default:
        aq_tp_fail(p);
    }
}

static void open_with(aq_toolparse *p, uint8_t b)
{
    if (p->depth == AQ_JSCAN_DEPTH_MAX) {
        aq_tp_fail_at(p, b);
        return;
    }
    p->stack[p->depth++] = b;
    aq_tp_args(p, (const char *)&b, 1);
    p->sub = b == '{' ? G_KEY : G_VALUE;
    p->comma = false; /* an empty one may end at once */
    p->key.n = p->val.n = 0;
}

/* A bare word: a number, true, false, null; anything else becomes text. */
static void word_end(aq_toolparse *p)
{
    p->want = AQ_TP_ANY;
    aq_tp_value(p);
    p->val.n = 0;
    p->sub = G_NEXT;
}

static void next(aq_toolparse *p, uint8_t b)
{
    if (b == ',') {
        aq_tp_args(p, ",", 1);
        p->sub = p->stack[p->depth - 1] == '{' ? G_KEY : G_VALUE;
        p->comma = true;
        p->key.n = p->val.n = 0;
        return;
    }
    if ((b == '}' || b == ']') && p->stack[p->depth - 1] == (b == '}' ? '{' : '[')) {
        aq_tp_args(p, (const char *)&b, 1);
        p->sub = G_NEXT;
        if (!--p->depth) {
            aq_tp_done(p);
            p->sub = G_AFTER;
        }
        return;
    }
    aq_tp_fail_at(p, b);
}

static void key_byte(aq_toolparse *p, uint8_t b)
{
    if (b == '}' && !p->key.n && !p->comma) {
        next(p, b);
    } else if (b == ':' && p->key.n) {
        aq_tp_trim(&p->key);
        key_end(p);
        p->sub = G_VALUE;
    } else if (p->key.n > 300 || (b == ',' || b == '{' || b == '}' || b == ':')) {
        aq_tp_fail_at(p, b);
    } else if (p->key.n || !aq_tp_space(b)) {
        aq_tp_byte(p, &p->key, b);
    }
}

static void byte(aq_toolparse *p, uint8_t b)
{
    static const char call[] = "call:";

    switch (p->sub) {
    case G_NAME:
        if (b != '{' && p->name.n < 300) {
            aq_tp_byte(p, &p->name, b);
            return;
        }
        aq_tp_trim(&p->name);
        if (b != '{' || p->name.n < sizeof call || memcmp(p->name.p, call, sizeof call - 1)) {
            aq_tp_fail_at(p, b);
            return;
        }
        p->name.n -= sizeof call - 1;
        memmove(p->name.p, p->name.p + sizeof call - 1, p->name.n);
        aq_tp_start(p);
        p->depth = 0;
        if (p->started)
            open_with(p, b);
        return;
    case G_KEY:
        key_byte(p, b);
        return;
    case G_KTEXT:
        aq_tp_byte(p, &p->key, b);
        if (p->key.n > 300)
            aq_tp_fail(p);
        return;
    case G_COLON:
        if (b == ':')
            p->sub = G_VALUE;
        else if (!aq_tp_space(b))
            aq_tp_fail_at(p, b);
        return;
    case G_VALUE:
        if (aq_tp_space(b))
            return;
        if (b == '{' || b == '[')
            open_with(p, b);
        else if (b == ']' && !p->comma && p->stack[p->depth - 1] == '[')
            next(p, b);
        else if (b == ',' || b == '}' || b == ']')
            aq_tp_fail_at(p, b);
        else {
            aq_tp_byte(p, &p->val, b);
            p->sub = G_WORD;
        }
        return;
    case G_WORD:
        if (b == ',' || b == '}' || b == ']') {
            word_end(p);
            next(p, b);
        } else {
            aq_tp_byte(p, &p->val, b);
            if (p->val.n > AQ_TP_HELD_MAX)
                aq_tp_fail(p);
        }
        return;
    case G_TEXT:
        aq_tp_escaped(p, b);
        return;
    case G_NEXT:
        if (!aq_tp_space(b))
            next(p, b);
        return;
    default:
        if (aq_tp_space(b))
            return;
        aq_tp_content(p);
        p->st->on_byte(p, b);
    }
}

static void eof(aq_toolparse *p)
{
    if (p->sub != G_AFTER)
        aq_tp_fail(p);
}

const aq_tp_state aq_tp_gemma = {marks, mark, byte, eof};
