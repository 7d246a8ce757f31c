/* SPDX-License-Identifier: Apache-2.0 */
/* What a model writes, taken apart while it comes: content, thinking, calls. Forward only: what was said is never taken back, and
 * however the text is cut into pieces, the events joined are the same, since every byte is looked at by itself.
 *
 *   toolparse.c          bytes against the markers of the present state; content and thinking; events
 *   toolparse-json.c     Hermes, Llama, Mistral, DeepSeek: calls that hold JSON, whose bytes pass as they are
 *   toolparse-xml.c      function tags, GLM, invoke tags: values become JSON by the tool's schema
 *   toolparse-gemma.c    Gemma's own notation
 *   toolparse-harmony.c  channels
 *
 * A state is a set of markers, what happens at one, and what happens to a byte that begins none. Held back is only what may still
 * become a marker, white space that a call or the end of thinking would swallow, and a call until its name is known. A call that
 * goes wrong before that is content after all; one that goes wrong later is left unfinished (`broken`), what follows is content.
 *
 * One thread at a time. */
#ifndef AQ_TEXT_TOOLPARSE_PRIV_H
#define AQ_TEXT_TOOLPARSE_PRIV_H

#include "chat-priv.h"

#define AQ_TP_HELD_MAX (1u << 20) /* bytes of a call's head or of one value */
#define AQ_TP_MARKS_MAX 8u
#define AQ_JSCAN_DEPTH_MAX 128u

typedef struct aq_tp_ev {
    uint32_t kind, call; /* AQ_EV_TEXT, REASONING, CALL_START, CALL_ARGS */
    size_t off, n;       /* in buf */
} aq_tp_ev;

/* ---- one JSON value, byte by byte ---- */

typedef struct aq_jscan {
    uint8_t st, aux;
    uint8_t depth;
    uint8_t stack[AQ_JSCAN_DEPTH_MAX]; /* '{' or '[' */
} aq_jscan;
enum {
    AQ_JSCAN_MORE,
    AQ_JSCAN_DONE,   /* this byte was the last of it */
    AQ_JSCAN_BEFORE, /* it ended before this byte (numbers only) */
    AQ_JSCAN_BAD
};
/** Zero it to begin. UTF-8 is not checked. */
int aq_jscan_push(aq_jscan *, uint8_t b);

/* ---- parser ---- */

typedef struct aq_toolparse aq_toolparse;
typedef struct aq_tp_state {
    uint32_t (*marks)(const aq_toolparse *, const char **ret);
    void (*on_mark)(aq_toolparse *, uint32_t i);
    void (*on_byte)(aq_toolparse *, uint8_t b);
    void (*on_end)(aq_toolparse *); /* the answer ends here; NULL = a call is unfinished */
} aq_tp_state;

enum { AQ_TP_STR, AQ_TP_JSON, AQ_TP_ANY }; /* what a parameter's schema wants */

struct aq_toolparse {
    aq_chat_caps caps;
    aq_arena *arena;
    const aq_json *tools; /* array or NULL */
    const aq_tp_state *st;
    bool calls_on;     /* calls are looked for */
    bool think_on;     /* thinking may begin: nothing was said yet */
    bool said;         /* content or a call came */
    bool fresh;        /* white space is dropped until something else comes */
    uint8_t sub;       /* of the state */
    int rc;            /* sticky: 0 or -AQ_E_NOMEM */
    aq_bytes pend;     /* may become a marker */
    aq_bytes pend_ctl; /* for each of its bytes: 1 = of a control token, which is never shown */
    aq_bytes ws;       /* white space that waits for what follows */
    aq_bytes raw;      /* a call whose name is not known yet, as it was written */
    aq_bytes name, key, val;
    bool in_raw, started, comma; /* comma: a parameter was written */
    const aq_json *tool;         /* parameters of the call under way, or NULL */
    uint8_t want;                /* AQ_TP_* of the value under way */
    bool nl;                     /* a line break at the end of a value, which its tag may swallow */
    bool lead;                   /* the first line break of a value was not seen yet */
    aq_jscan js;
    uint8_t stack[AQ_JSCAN_DEPTH_MAX]; /* gemma */
    uint8_t depth;
    /* what others ask */
    uint32_t n_started, n_done;
    bool broken;
    uint32_t n_bad; /* calls that were none, or were broken off */
    bool thinking;
    uint32_t n_open;  /* markers seen that a call begins with */
    size_t open_rest; /* bytes of the last push behind the last of these */
    size_t push_left;
    /* events of the last push or finish */
    aq_bytes buf;
    aq_tp_ev *ev;
    uint32_t n_ev, cap_ev;
};

/** tools_json may be NULL; it was checked before. think: AQ_THINK_*. NOMEM; FORMAT for bad JSON. */
int aq_toolparse_new(const aq_chat_caps *, const char *tools_json, bool calls_on, uint8_t think,
                     aq_toolparse **ret, aq_err *) AQ_MUST;
void aq_toolparse_free(aq_toolparse *);
AQ_CLEANUP_FUNC(aq_toolparse *, aq_toolparse_free)
/** The bytes of one or more tokens; control: of one control token. Events are in ev until the next push. NOMEM. */
int aq_toolparse_push(aq_toolparse *, const char *p, size_t n, bool control) AQ_MUST;
/** The answer has ended: what was held back comes out. */
int aq_toolparse_finish(aq_toolparse *) AQ_MUST;

/* ---- for the states ---- */

void aq_tp_emit(aq_toolparse *, uint32_t kind, const char *p, size_t n);
void aq_tp_put(aq_toolparse *, aq_bytes *, const char *p, size_t n);
static inline void aq_tp_byte(aq_toolparse *p, aq_bytes *b, uint8_t c)
{
    aq_tp_put(p, b, (const char *)&c, 1);
}
void aq_tp_args(aq_toolparse *, const char *s, size_t n); /* CALL_ARGS of the call under way */
void aq_tp_escaped(aq_toolparse *, uint8_t b); /* a byte of a JSON string, as CALL_ARGS */
void aq_tp_content(aq_toolparse *);            /* back to content */
void aq_tp_begin(aq_toolparse *, const aq_tp_state *, const char *mark); /* a call begins */
void aq_tp_break(aq_toolparse *); /* the call under way is broken off */
void aq_tp_fail(aq_toolparse *); /* it is none, or it is broken; the byte at hand was kept in raw */
void aq_tp_fail_at(aq_toolparse *, uint8_t b); /* … it was not: it is content */
void aq_tp_start(aq_toolparse *);              /* name is known: CALL_START */
void aq_tp_done(aq_toolparse *);               /* the arguments are whole */
bool aq_tp_known(const aq_toolparse *);        /* name is one of the tools */
void aq_tp_trim(aq_bytes *);
uint8_t aq_tp_want(const aq_toolparse *, const char *key, size_t n);
void aq_tp_value(aq_toolparse *); /* val, which is not AQ_TP_STR, as CALL_ARGS */
static inline bool aq_tp_space(uint8_t b)
{
    return b == ' ' || b == '\n' || b == '\t' || b == '\r';
}

/* entries: states that a call begins in */
extern const aq_tp_state aq_tp_hermes, aq_tp_llama, aq_tp_mistral, aq_tp_deepseek, aq_tp_function,
    aq_tp_function_name, aq_tp_glm, aq_tp_invoke, aq_tp_gemma, aq_tp_harmony;

#endif
