/* SPDX-License-Identifier: Apache-2.0 */
/* gpt-oss writes messages, each with a header; the prompt has opened the first one.
 *
 *   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
 *   <|start|>assistant to=functions.N<|channel|>commentary json<|message|>{…}<|call|>
 *   <|channel|>commentary to=functions.N <|constrain|>json<|message|>{…}<|call|>
 *
 * analysis is thinking, a recipient makes a call, everything else is content. Nothing else but headers stands between messages;
 * text there is content too. `key` holds the header, parts split by blanks. */
#include "toolparse-priv.h"

enum { H_HEAD, H_TEXT, H_THINK, H_ARGS, H_GAP };

static uint32_t marks(const aq_toolparse *p, const char **m)
{
    m[0] = "<|start|>";
    m[1] = "<|end|>";
    m[2] = "<|return|>";
    m[3] = "<|call|>";
    m[4] = "<|message|>";
    m[5] = "<|channel|>";
    m[6] = "<|constrain|>";
    return p->sub == H_HEAD || p->sub == H_GAP ? 7 : 4;
}

/* The recipient functions.N in the header becomes the name; where N ends is a blank or the header's end. */
static bool recipient(aq_toolparse *p)
{
    static const char to[] = "to=functions.";
    const char *at = p->key.n ? memmem(p->key.p, p->key.n, to, sizeof to - 1) : NULL;

    p->name.n = 0;
    if (!at || !p->calls_on)
        return false;
    for (at += sizeof to - 1; at < (const char *)p->key.p + p->key.n && !aq_tp_space((uint8_t)*at);
         at++)
        aq_tp_byte(p, &p->name, (uint8_t)*at);
    return p->name.n > 0;
}

static void body(aq_toolparse *p)
{
    bool analysis = p->key.n && memmem(p->key.p, p->key.n, "\001analysis", 9);

    p->think_on = false;
    p->thinking = false;
    if (recipient(p)) {
        p->n_open++;
        p->open_rest = p->push_left;
        p->js = (aq_jscan){0};
        p->sub = H_ARGS;
        p->raw.n = 0;
        aq_tp_start(p);
        if (!p->started)
            p->sub = H_TEXT;
        p->st = &aq_tp_harmony;
    } else {
        p->sub = analysis ? H_THINK : H_TEXT;
        p->thinking = analysis;
    }
    p->key.n = 0;
}

static void message_end(aq_toolparse *p)
{
    if (p->sub == H_ARGS && p->started) /* the object was not whole */
        aq_tp_break(p);
    if (p->sub == H_HEAD && p->key.n)
        p->key.n = 0; /* a header without a message says nothing */
    p->thinking = false;
    p->sub = H_GAP;
}

static void mark(aq_toolparse *p, uint32_t i)
{
    switch (i) {
    case 0:
        message_end(p);
        p->sub = H_HEAD;
        p->key.n = 0;
        return;
    case 1:
    case 2:
    case 3:
        message_end(p);
        return;
    case 4:
        body(p);
        return;
    case 5:
        p->sub = H_HEAD;
        aq_tp_put(p, &p->key, " \001", 2);
        return;
    default:
        aq_tp_byte(p, &p->key, ' ');
    }
}

/* What was taken for a header is none. */
static void plain(aq_toolparse *p)
{
    aq_bytes k = p->key;

    p->key = (aq_bytes){0};
    p->sub = H_TEXT;
    for (size_t i = 0; i < k.n; i++)
        if (k.p[i] != 1)
            aq_tp_emit(p, AQ_EV_TEXT, (const char *)k.p + i, 1);
    aq_bytes_clear(&k);
}

static void byte(aq_toolparse *p, uint8_t b)
{
    switch (p->sub) {
    case H_HEAD:
        aq_tp_byte(p, &p->key, b);
        if (p->key.n > 512)
            plain(p);
        return;
    case H_TEXT:
        aq_tp_emit(p, AQ_EV_TEXT, (const char *)&b, 1);
        return;
    case H_THINK:
        aq_tp_emit(p, AQ_EV_REASONING, (const char *)&b, 1);
        return;
    case H_ARGS:
        if (!p->started) {
            if (!aq_tp_space(b)) {
                p->sub = H_TEXT;
                aq_tp_emit(p, AQ_EV_TEXT, (const char *)&b, 1);
            }
            return;
        }
        if (!p->js.depth && b != '{' && !aq_tp_space(b)) {
            aq_tp_break(p);
            byte(p, b);
            return;
        }
        switch (aq_jscan_push(&p->js, b)) {
        case AQ_JSCAN_BAD:
            aq_tp_break(p);
            byte(p, b);
            return;
        case AQ_JSCAN_DONE:
            aq_tp_args(p, (const char *)&b, 1);
            aq_tp_done(p);
            return;
        default:
            if (p->js.depth)
                aq_tp_args(p, (const char *)&b, 1);
            return;
        }
    default:
        if (aq_tp_space(b))
            return;
        p->sub = H_TEXT;
        aq_tp_emit(p, AQ_EV_TEXT, (const char *)&b, 1);
    }
}

static void eof(aq_toolparse *p)
{
    if (p->sub == H_HEAD && p->think_on && p->key.n && !memchr(p->key.p, 1, p->key.n))
        plain(p); /* an answer without any header */
    message_end(p);
}

const aq_tp_state aq_tp_harmony = {marks, mark, byte, eof};
