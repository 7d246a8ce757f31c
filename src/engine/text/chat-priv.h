/* SPDX-License-Identifier: Apache-2.0 */
/* Chats between clients' JSON and a model's template, and back.
 *
 *   chat-probe.c   what a template can do, found by rendering small chats with it
 *   messages.c     OpenAI's messages made into what this template takes
 *   prompt.c       messages, tools and variables rendered and tokenized: the prompt of a request
 *   toolparse.c    what the model writes, taken apart into content, thinking and calls (toolparse-priv.h)
 *
 * Caps are immutable once made; any thread. */
#ifndef AQ_TEXT_CHAT_PRIV_H
#define AQ_TEXT_CHAT_PRIV_H

#include "text-priv.h"

/** How a model family writes calls. */
enum {
    AQ_CALLS_HERMES, /* <tool_call>{"name": …, "arguments": …}</tool_call>; taught to those that know none */
    AQ_CALLS_FUNCTION, /* <tool_call><function=N><parameter=K>V</parameter></function></tool_call> */
    AQ_CALLS_GLM,      /* <tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call> */
    AQ_CALLS_HARMONY, /* channels: … to=functions.N<|channel|>commentary json<|message|>{…}<|call|> */
    AQ_CALLS_DEEPSEEK, /* <｜tool▁call▁begin｜>[function<｜tool▁sep｜>]N … {…}<｜tool▁call▁end｜> */
    AQ_CALLS_INVOKE, /* <invoke name="N"><parameter name="K">V</parameter></invoke>: DSML, MiniMax */
    AQ_CALLS_LLAMA,  /* {"name": …, "parameters": …} as the whole answer, or after <|python_tag|> */
    AQ_CALLS_MISTRAL, /* [TOOL_CALLS][{"name": …, "arguments": …}] or [TOOL_CALLS]N[ARGS]{…} */
    AQ_CALLS_GEMMA,   /* <|tool_call>call:N{k:<|"|>v<|"|>}<tool_call|> */
    AQ_CALLS_N
};
extern const char *const aq_calls_name[AQ_CALLS_N];

typedef struct aq_chat_caps {
    uint8_t calls;   /* AQ_CALLS_* */
    bool has_tools;  /* the template shows tools and calls; else they are told in the system text */
    bool args_text;  /* it wants arguments as JSON text, not as an object */
    bool args_both;  /* it takes an object too, and prints text as it is */
    bool need_desc;  /* it cannot render a tool without a description */
    bool one_call;   /* it takes one call a message */
    bool short_id;   /* Mistral: ids of calls are nine letters and digits */
    bool system;     /* it takes a system message */
    bool two_system; /* … a second one behind the first */
    bool late_system;                     /* … one between other messages */
    bool fenced;                          /* DeepSeek: arguments stand in ```json */
    bool args_mark;                       /* Mistral: [ARGS] between name and arguments */
    bool id_mark;                         /* Mistral: [CALL_ID] and an id before that */
    bool repeats;                         /* it takes two messages of the user in a row */
    const char *invoke_pre;               /* INVOKE: what stands before "invoke" and "parameter" */
    const char *think_open, *think_close; /* around thinking; NULL = none known */
} aq_chat_caps;

/** Render small chats with the template; what cannot be rendered is a no. src: its text or NULL; v may be NULL. Errors: NOMEM. */
int aq_chat_probe(const aq_tmpl *, const char *src, const aq_vocab *v, aq_chat_caps *ret,
                  aq_err *) AQ_MUST;

/** A message of the assistant that is to be found again in what is rendered: its last call's arguments are AQ_CUT_MARK instead. */
#define AQ_CUT_MARK "aq-cut-7Q2xw0"
typedef struct aq_msg_cut {
    uint32_t no; /* which, counted from 1 */
    size_t
        off; /* out: where its object begins in `out`; 0 = it has no calls, or is not one message any more */
    char id[64]; /* out: its last call's id as the template gets it; "" = none, or a longer one */
} aq_msg_cut;

/** Append a chat's messages (an array) as templates of these caps take them; tools (an array or NULL) are told in the system text
 * where the template knows none. The cut may be NULL. INVAL and UNSUPPORTED name the message, counted from 1; NOMEM, LIMIT. On
 * failure out holds a part. */
int aq_messages_put(aq_bytes *out, const aq_json *messages, const aq_json *tools,
                    const aq_chat_caps *, aq_msg_cut *, aq_err *) AQ_MUST;
/** Check an array of tools and append it, in the template's form. INVAL names the tool, counted from 1. */
int aq_tools_put(aq_bytes *out, const aq_json *tools, const aq_chat_caps *, aq_err *) AQ_MUST;

/** Where the prompt leaves the model: thinking was opened (or closed, or neither) by the template. */
enum { AQ_THINK_UNKNOWN, AQ_THINK_OPEN, AQ_THINK_CLOSED };
typedef struct aq_prompt {
    aq_bytes text; /* empty when a turn was put in */
    aq_toks toks;
    uint8_t key[32]; /* of what it was made of */
    uint8_t think;   /* AQ_THINK_* */
} aq_prompt;
void aq_prompt_clear(aq_prompt *);
static inline void aq_prompt_clear_p(aq_prompt *p)
{
    aq_prompt_clear(p);
}
struct aq_model;
/** The prompt of a request with messages. Errors as aq_submit. */
int aq_prompt_make(const aq_model *, const aq_req_in *, aq_prompt *ret, aq_err *) AQ_MUST;

#endif
