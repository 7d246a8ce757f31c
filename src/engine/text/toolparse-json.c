/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that hold JSON. The bytes of the arguments pass as they are, while they are JSON.
 *
 *   Hermes    <tool_call> {"name": N, "arguments": {…}} </tool_call>
 *   Llama     {"name": N, "parameters": {…}}, several behind each other or parted by semicolons; maybe after <|python_tag|>
 *   Mistral   [TOOL_CALLS] [{"name": N, "arguments": {…}}, …]     [TOOL_CALLS]N[ARGS]{…}     …N[CALL_ID]I[ARGS]{…}
 *   DeepSeek  <｜tool▁call▁begin｜>function<｜tool▁sep｜>N ```json {…} ```<｜tool▁call▁end｜>     …begin｜>N<｜tool▁sep｜>{…}<… */
#include "toolparse-priv.h"

/* ---- one JSON value ---- */

enum {
    J_VALUE, /* white space or a value */
    J_FIRST, /* behind [ : a value or ] */
    J_KEY0,  /* behind { : a key or } */
    J_KEY,
    J_COLON,
    J_NEXT, /* behind a value: a comma or the end */
    J_STR,
    J_ESC,
    J_HEX,  /* aux: digits left */
    J_KSTR, /* in a key */
    J_KESC,
    J_KHEX,
    J_LIT, /* aux: which word and where in it */
    J_NEG, /* numbers */
    J_ZERO,
    J_INT,
    J_DOT,
    J_FRAC,
    J_E,
    J_ESIGN,
    J_EXP,
};

static const char *const lits[] = {"true", "false", "null"};

/* A value has ended. */
static int value_end(aq_jscan *s)
{
    s->st = J_NEXT;
    return s->depth ? AQ_JSCAN_MORE : AQ_JSCAN_DONE;
}

static int value_start(aq_jscan *s, uint8_t b)
{
    if (b == '{' || b == '[') {
        if (s->depth == AQ_JSCAN_DEPTH_MAX)
            return AQ_JSCAN_BAD;
        s->stack[s->depth++] = b;
        s->st = b == '{' ? J_KEY0 : J_FIRST;
    } else if (b == '"') {
        s->st = J_STR;
    } else if (b == '-') {
        s->st = J_NEG;
    } else if (b == '0') {
        s->st = J_ZERO;
    } else if (b >= '1' && b <= '9') {
        s->st = J_INT;
    } else if (b == 't' || b == 'f' || b == 'n') {
        s->st = J_LIT;
        s->aux = (uint8_t)((b == 't' ? 0 : b == 'f' ? 1 : 2) << 4 | 1);
    } else {
        return AQ_JSCAN_BAD;
    }
    return AQ_JSCAN_MORE;
}

static int close_with(aq_jscan *s, uint8_t b)
{
    if (!s->depth || s->stack[s->depth - 1] != (b == '}' ? '{' : '['))
        return AQ_JSCAN_BAD;
    s->depth--;
    return value_end(s);
}

static int in_string(aq_jscan *s, uint8_t b)
{
    bool key = s->st >= J_KSTR;
    uint8_t base = key ? J_KSTR : J_STR;

    switch (s->st - base) {
    case 0:
        if (b == '\\')
            s->st = base + 1;
        else if (b < 0x20)
            return AQ_JSCAN_BAD;
        else if (b == '"' && key)
            s->st = J_COLON;
        else if (b == '"')
            return value_end(s);
        return AQ_JSCAN_MORE;
    case 1:
        if (!strchr("\"\\/bfnrtu", b) || !b)
            return AQ_JSCAN_BAD;
        s->st = base + (b == 'u' ? 2 : 0);
        s->aux = 4;
        return AQ_JSCAN_MORE;
    default:
        if (!((b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'f')))
            return AQ_JSCAN_BAD;
        if (!--s->aux)
            s->st = base;
        return AQ_JSCAN_MORE;
    }
}

static int in_number(aq_jscan *s, uint8_t b)
{
    bool digit = b >= '0' && b <= '9';

    switch (s->st) {
    case J_NEG:
        s->st = b == '0' ? J_ZERO : J_INT;
        return digit ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    case J_DOT:
        s->st = J_FRAC;
        return digit ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    case J_E:
        s->st = digit ? J_EXP : J_ESIGN;
        return digit || b == '+' || b == '-' ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    case J_ESIGN:
        s->st = J_EXP;
        return digit ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    default:
        break;
    }
    if (digit && s->st != J_ZERO)
        return AQ_JSCAN_MORE;
    if (digit)
        return AQ_JSCAN_BAD;
    if (b == '.' && (s->st == J_ZERO || s->st == J_INT)) {
        s->st = J_DOT;
        return AQ_JSCAN_MORE;
    }
    if ((b | 32) == 'e' && s->st != J_EXP) {
        s->st = J_E;
        return AQ_JSCAN_MORE;
    }
    if (!s->depth)
        return AQ_JSCAN_BEFORE;
    s->st = J_NEXT;
    return aq_jscan_push(s, b);
}

int aq_jscan_push(aq_jscan *s, uint8_t b)
{
    if (s->st >= J_NEG)
        return in_number(s, b);
    if (s->st >= J_STR && s->st <= J_KHEX)
        return in_string(s, b);
    if (s->st == J_LIT) {
        const char *w = lits[s->aux >> 4];
        if (b != (uint8_t)w[s->aux & 15])
            return AQ_JSCAN_BAD;
        s->aux++;
        return w[s->aux & 15] ? AQ_JSCAN_MORE : value_end(s);
    }
    if (aq_tp_space(b))
        return AQ_JSCAN_MORE;
    switch (s->st) {
    case J_VALUE:
        return value_start(s, b);
    case J_FIRST:
        return b == ']' ? close_with(s, b) : value_start(s, b);
    case J_KEY0:
    case J_KEY:
        if (b == '}' && s->st == J_KEY0)
            return close_with(s, b);
        s->st = J_KSTR;
        return b == '"' ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    case J_COLON:
        s->st = J_VALUE;
        return b == ':' ? AQ_JSCAN_MORE : AQ_JSCAN_BAD;
    default:
        if (b == ',' && s->depth) {
            s->st = s->stack[s->depth - 1] == '{' ? J_KEY : J_VALUE;
            return AQ_JSCAN_MORE;
        }
        return b == '}' || b == ']' ? close_with(s, b) : AQ_JSCAN_BAD;
    }
}

/* ---- the object of a call ---- */

enum { O_OPEN, O_KEY0, O_KEY, O_INKEY, O_COLON, O_VALUE, O_NAME, O_ARGS, O_SKIP, O_NEXT, O_AFTER };

static bool is(const aq_bytes *b, const char *s)
{
    return b->n == strlen(s) && !memcmp(b->p, s, b->n);
}

/* The name is complete; arguments that came before it wait in val. */
static void named(aq_toolparse *p)
{
    if (p->caps.calls == AQ_CALLS_LLAMA && !aq_tp_known(p)) {
        aq_tp_fail(p);
        return;
    }
    aq_tp_start(p);
}

static void object_end(aq_toolparse *p)
{
    if (p->in_raw) { /* no name came before arguments, or no arguments came */
        if (p->name.n)
            named(p);
        if (!p->started) {
            if (p->in_raw)
                aq_tp_fail(p);
            return;
        }
        aq_tp_args(p, p->lead ? (const char *)p->val.p : "{}", p->lead ? p->val.n : 2);
        aq_tp_done(p);
    }
    p->sub = O_AFTER;
    if (p->caps.calls == AQ_CALLS_LLAMA)
        aq_tp_content(p);
}

static void value_byte(aq_toolparse *p, uint8_t b)
{
    int r = aq_jscan_push(&p->js, b);

    if (r == AQ_JSCAN_BAD) {
        aq_tp_fail_at(p, b);
        return;
    }
    if (r != AQ_JSCAN_BEFORE && p->sub == O_ARGS) {
        if (p->started)
            aq_tp_args(p, (const char *)&b, 1);
        else
            aq_tp_byte(p, &p->val, b);
    }
    if (r == AQ_JSCAN_MORE)
        return;
    if (p->sub == O_ARGS && p->started)
        aq_tp_done(p); /* whatever becomes of the object around them */
    p->sub = O_NEXT;
    if (r == AQ_JSCAN_BEFORE)
        p->st->on_byte(p, b);
}

static void value_first(aq_toolparse *p, uint8_t b)
{
    bool args = is(&p->key, "arguments") || is(&p->key, "parameters");

    p->js = (aq_jscan){0};
    if (is(&p->key, "name") && !p->name.n) {
        p->sub = O_NAME;
        if (b != '"')
            aq_tp_fail_at(p, b);
    } else if (args && !p->lead) {
        p->lead = true;
        p->sub = O_ARGS;
        if (b != '{') {
            aq_tp_fail_at(p, b);
            return;
        }
        if (p->name.n)
            named(p);
        if (p->started || p->in_raw)
            value_byte(p, b);
    } else if (p->caps.calls == AQ_CALLS_LLAMA && !is(&p->key, "type") && !p->name.n) {
        aq_tp_fail_at(p, b);
    } else {
        p->sub = O_SKIP;
        value_byte(p, b);
    }
}

static void object_byte(aq_toolparse *p, uint8_t b)
{
    if (p->sub == O_INKEY || p->sub == O_NAME) {
        aq_bytes *to = p->sub == O_NAME ? &p->name : &p->key;
        if (b == '"' && (to->n || p->sub == O_INKEY))
            p->sub = p->sub == O_NAME ? O_NEXT : O_COLON;
        else if (b == '"' || b == '\\' || b < 0x20 || to->n > 256)
            aq_tp_fail_at(p, b);
        else
            aq_tp_byte(p, to, b);
        return;
    }
    if (p->sub == O_ARGS || p->sub == O_SKIP) {
        value_byte(p, b);
        return;
    }
    if (aq_tp_space(b))
        return;
    switch (p->sub) {
    case O_OPEN:
        p->sub = O_KEY0;
        p->lead = false;
        if (b != '{')
            aq_tp_fail_at(p, b);
        return;
    case O_KEY0:
    case O_KEY:
        if (b != '"') {
            aq_tp_fail_at(p, b);
            return;
        }
        p->key.n = 0;
        p->sub = O_INKEY;
        return;
    case O_COLON:
        p->sub = O_VALUE;
        if (b != ':')
            aq_tp_fail_at(p, b);
        return;
    case O_VALUE:
        value_first(p, b);
        return;
    case O_NEXT:
        if (b == '}')
            object_end(p);
        else if (b == ',')
            p->sub = O_KEY;
        else
            aq_tp_fail_at(p, b);
        return;
    default: /* the call is whole: its end tag was left out */
        aq_tp_content(p);
        p->st->on_byte(p, b);
    }
}

/* Between calls nothing is unfinished. */
static void object_eof(aq_toolparse *p)
{
    if (p->sub != O_AFTER)
        aq_tp_fail(p);
}

static uint32_t hermes_marks(const aq_toolparse *p, const char **m)
{
    m[0] = "</tool_call>";
    m[1] = "<tool_call>";
    return p->sub == O_AFTER || (p->sub == O_NEXT && !p->in_raw) ? 2 : 0;
}

static void hermes_mark(aq_toolparse *p, uint32_t i)
{
    aq_tp_content(p);
    if (i == 1)
        aq_tp_begin(p, &aq_tp_hermes, "<tool_call>");
}

const aq_tp_state aq_tp_hermes = {hermes_marks, hermes_mark, object_byte, object_eof};
const aq_tp_state aq_tp_llama = {NULL, NULL, object_byte, object_eof};

/* ---- Mistral ---- */

/* Arguments behind a name of their own. */
static void args_byte(aq_toolparse *p, uint8_t b)
{
    if (!p->js.depth && aq_tp_space(b))
        return;
    if (!p->js.depth && b != '{') {
        aq_tp_fail_at(p, b);
        return;
    }
    if (!p->js.depth)
        aq_tp_start(p);
    if (!p->started)
        return;
    int r = aq_jscan_push(&p->js, b);
    if (r == AQ_JSCAN_BAD) {
        aq_tp_fail_at(p, b);
        return;
    }
    aq_tp_args(p, (const char *)&b, 1);
    if (r == AQ_JSCAN_DONE) {
        aq_tp_done(p);
        aq_tp_content(p);
    }
}

static const aq_tp_state mistral_args = {NULL, NULL, args_byte, NULL};

static void list_byte(aq_toolparse *p, uint8_t b)
{
    if (p->sub != O_AFTER) {
        object_byte(p, b);
        return;
    }
    if (b == ',') {
        const aq_tp_state *st = p->st;
        aq_tp_begin(p, st, "");
    } else if (b == ']') {
        aq_tp_content(p);
    } else if (!aq_tp_space(b)) {
        aq_tp_content(p);
        p->st->on_byte(p, b);
    }
}

static const aq_tp_state mistral_list = {NULL, NULL, list_byte, object_eof};

static uint32_t mistral_marks(const aq_toolparse *p, const char **m)
{
    (void)p;
    m[0] = "[ARGS]";
    m[1] = "[CALL_ID]";
    return 2;
}

static void mistral_mark(aq_toolparse *p, uint32_t i)
{
    if (i == 1) {
        p->sub = 1; /* an id follows, which is not ours */
        return;
    }
    aq_tp_trim(&p->name);
    p->st = &mistral_args;
    p->sub = 0;
}

static void mistral_byte(aq_toolparse *p, uint8_t b)
{
    if (!p->sub && !p->name.n && b == '[') {
        p->st = &mistral_list;
        p->sub = O_OPEN;
    } else if (b == '{' && !p->sub) {
        mistral_mark(p, 0);
        p->st->on_byte(p, b);
    } else if (!p->sub && p->name.n < 300) {
        if (p->name.n || !aq_tp_space(b))
            aq_tp_byte(p, &p->name, b);
    } else if (!p->sub) {
        aq_tp_fail_at(p, b);
    }
}

const aq_tp_state aq_tp_mistral = {mistral_marks, mistral_mark, mistral_byte, NULL};

/* ---- DeepSeek ---- */

enum { D_HEAD, D_NAME, D_ARGS, D_AFTER };

static uint32_t deepseek_marks(const aq_toolparse *p, const char **m)
{
    m[0] = p->sub == D_HEAD ? "<\xEF\xBD\x9Ctool\xE2\x96\x81sep\xEF\xBD\x9C>"
                            : "<\xEF\xBD\x9Ctool\xE2\x96\x81"
                              "call\xE2\x96\x81"
                              "end\xEF\xBD\x9C>";
    return p->sub == D_HEAD || p->sub == D_AFTER;
}

static void deepseek_mark(aq_toolparse *p, uint32_t i)
{
    (void)i;
    if (p->sub == D_AFTER) {
        aq_tp_content(p);
        return;
    }
    aq_tp_trim(&p->name);
    p->sub = is(&p->name, "function") ? D_NAME : D_ARGS;
    if (p->sub == D_NAME)
        p->name.n = 0;
}

static void deepseek_byte(aq_toolparse *p, uint8_t b)
{
    switch (p->sub) {
    case D_HEAD:
        if (p->name.n < 300)
            aq_tp_byte(p, &p->name, b);
        else
            aq_tp_fail_at(p, b);
        return;
    case D_NAME:
        if (b == '\n' || b == '{') {
            aq_tp_trim(&p->name);
            p->sub = D_ARGS;
            if (b == '{')
                deepseek_byte(p, b);
        } else if (p->name.n < 300) {
            aq_tp_byte(p, &p->name, b);
        } else {
            aq_tp_fail_at(p, b);
        }
        return;
    case D_ARGS:
        if (!p->js.depth && b != '{') {
            if (!aq_tp_space(b) && !strchr("`json", b)) /* ```json */
                aq_tp_fail_at(p, b);
            return;
        }
        if (!p->js.depth)
            aq_tp_start(p);
        if (!p->started)
            return;
        int r = aq_jscan_push(&p->js, b);
        if (r == AQ_JSCAN_BAD) {
            aq_tp_fail_at(p, b);
            return;
        }
        aq_tp_args(p, (const char *)&b, 1);
        if (r == AQ_JSCAN_DONE) {
            aq_tp_done(p);
            p->sub = D_AFTER;
        }
        return;
    default:
        if (aq_tp_space(b) || b == '`')
            return;
        aq_tp_content(p);
        p->st->on_byte(p, b);
    }
}

static void deepseek_eof(aq_toolparse *p)
{
    if (p->sub != D_AFTER)
        aq_tp_fail(p);
}

const aq_tp_state aq_tp_deepseek = {deepseek_marks, deepseek_mark, deepseek_byte, deepseek_eof};
