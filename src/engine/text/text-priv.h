/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's text room: vocabulary (text <-> tokens), streaming detokenizer, chat template.
 *
 * Knows nothing of GGUF: whoever reads a model fills `aq_vocab_in`. A vocabulary and a template are immutable once made and
 * may be used from any thread; a detokenizer belongs to one request. Text is bytes; what is not UTF-8 gets one U+FFFD a byte. */
#ifndef AQ_TEXT_PRIV_H
#define AQ_TEXT_PRIV_H

#include "aq/engine.h"

#define AQ_TEXT_BYTES_MAX (64u << 20)        /* one text to be tokenized */
#define AQ_VOCAB_TOK_MAX (1u << 21)          /* tokens of a vocabulary */
#define AQ_VOCAB_MERGE_MAX (1u << 22)        /* merges of a vocabulary */
#define AQ_VOCAB_PIECE_BYTES_MAX 65536u      /* one token's text */
#define AQ_TMPL_BYTES_MAX (1u << 20)         /* template source */
#define AQ_TMPL_PARSE_BYTES_MAX (256u << 20) /* what a parsed template may take */
#define AQ_TMPL_NODE_DEPTH_MAX 200u          /* nesting of the source */
#define AQ_TMPL_SYMS_MAX 4096u               /* different variable names in the source */
#define AQ_TMPL_DEPTH_MAX \
    1500u /* nesting of evaluation: macro calls, loops, values; a rendering needs up to 1 MiB of stack */
#define AQ_TMPL_STEPS_MAX \
    20000000u /* evaluated nodes, loop turns, compared or copied blocks of 64 bytes */
#define AQ_TMPL_MEM_BYTES_MAX (512u << 20) /* everything one rendering allocates */
#define AQ_TMPL_RANGE_MAX 100000u          /* items of one range() */

/* ---- vocabulary ---------------------------------------------------------------------------------------------------- */

typedef struct aq_vstr {
    const char *p; /* need not end in NUL */
    uint32_t n;
} aq_vstr;

/** ggml's token types. */
enum {
    AQ_TOK_NORMAL = 1,
    AQ_TOK_UNKNOWN,
    AQ_TOK_CONTROL,
    AQ_TOK_USER_DEFINED,
    AQ_TOK_UNUSED,
    AQ_TOK_BYTE
};

/** What a vocabulary is made from; borrowed during aq_vocab_new. Ids are -1 when absent. */
typedef struct aq_vocab_in {
    const char *model, *pre; /* tokenizer.ggml.model and .pre; pre may be NULL */
    uint32_t n_tok;
    const aq_vstr *tok;  /* [n_tok] */
    const uint8_t *type; /* [n_tok] AQ_TOK_*; NULL: all NORMAL */
    const float *score;  /* [n_tok]; NULL where model is not "llama" */
    uint32_t n_merge;
    const aq_vstr *merge; /* [n_merge] "left right" */
    int32_t bos, eos, eot, eom, unk, pad;
    bool add_bos, add_space_prefix;
} aq_vocab_in;

static inline void aq_toks_clear_p(aq_toks *t)
{
    aq_toks_clear(t);
}

typedef struct aq_vocab aq_vocab;
/** Copies what it needs. Errors: UNSUPPORTED (model or splitter not known: names it and lists what is), FORMAT (a merge that
 * names no token, an id out of range, no scores, …: says which), LIMIT, NOMEM. */
int aq_vocab_new(const aq_vocab_in *, aq_vocab **ret, aq_err *) AQ_MUST;
void aq_vocab_free(aq_vocab *);
AQ_CLEANUP_FUNC(aq_vocab *, aq_vocab_free)

/** Whether prompts of such a vocabulary begin with BOS when the file does not say. */
bool aq_vocab_adds_bos(const char *model, const char *pre);
/** True when aq_vocab_new would know this pair. */
bool aq_vocab_known(const char *model, const char *pre);
/** The known pairs for messages: "gpt2/qwen2, …". */
const char *aq_vocab_known_list(void);

/** Append the tokens of text to out. No BOS or EOS is added. USER_DEFINED tokens in the text are always recognised, CONTROL and
 * UNKNOWN ones only with `special`; UNUSED never. On failure out is as before. Errors: LIMIT, NOMEM. */
int aq_vocab_encode(const aq_vocab *, const char *text, size_t n, bool special, aq_toks *out,
                    aq_err *) AQ_MUST;
/** As above for a rendered prompt: control tokens are recognised only where they touch no user span; what lies between two of
 * them is tokenized in one piece, so that the marks change nothing in an honest conversation. Spans ascending. */
int aq_vocab_encode_marked(const aq_vocab *, const char *text, size_t n, const aq_span *span,
                           size_t n_span, aq_toks *out, aq_err *) AQ_MUST;

uint32_t aq_vocab_n(const aq_vocab *);
/** Raw bytes of a token (control tokens too); NULL and 0 for an id out of range or an empty token. Not NUL-terminated. */
const char *aq_vocab_piece(const aq_vocab *, int32_t id, uint32_t *ret_n);
int aq_vocab_type(const aq_vocab *, int32_t id); /* AQ_TOK_*, 0 when out of range */
/** A token that shows nothing to the user: CONTROL, UNKNOWN, UNUSED. */
bool aq_vocab_is_control(const aq_vocab *, int32_t id);
/** Ends an answer: eos, eot, eom and the control tokens that model families end a turn with. */
bool aq_vocab_is_eog(const aq_vocab *, int32_t id);
int32_t aq_vocab_bos(const aq_vocab *);
int32_t aq_vocab_eos(const aq_vocab *);
bool aq_vocab_add_bos(const aq_vocab *);
/** The CONTROL, UNKNOWN or USER_DEFINED token spelled exactly so, or -1. */
int32_t aq_vocab_find_special(const aq_vocab *, const char *text, size_t n);

/* ---- streaming detokenizer ------------------------------------------------------------------------------------------- */

/** Holds back at most 3 bytes of a character that is not complete. Zero it to begin; set at_start where the tokens are a text
 * from its beginning, so that the space which the vocabulary puts before a first word is taken off again. */
typedef struct aq_detok {
    uint8_t held[4];
    uint32_t n_held;
    bool at_start;
} aq_detok;
/** Append to out the complete UTF-8 that this token's bytes make; bytes that fit nowhere become U+FFFD, one each. Control
 * tokens add nothing unless `show_control`. An unknown id is -AQ_E_INVAL. */
int aq_detok_push(aq_detok *, const aq_vocab *, int32_t id, bool show_control,
                  aq_bytes *out) AQ_MUST;
/** End of the answer: what was held back comes out as U+FFFD. */
int aq_detok_flush(aq_detok *, aq_bytes *out) AQ_MUST;

/* ---- chat template ---------------------------------------------------------------------------------------------------- */

typedef struct aq_tmpl aq_tmpl;
/** Parse a Jinja template (the subset that chat templates use; trim_blocks and lstrip_blocks on). Errors: FORMAT with line and
 * what; UNSUPPORTED names a construct outside the subset; LIMIT, NOMEM. */
int aq_tmpl_new(const char *src, size_t n, aq_tmpl **ret, aq_err *) AQ_MUST;
void aq_tmpl_free(aq_tmpl *);
AQ_CLEANUP_FUNC(aq_tmpl *, aq_tmpl_free)

static inline void aq_rendered_clear_p(aq_rendered *r)
{
    aq_rendered_clear(r);
}

/** Render with the members of the object `vars` as variables. Followed through every operation and reported as spans of the
 * output, ascending, none empty, one for each string: what the user wrote, that is strings of messages, tools, documents and
 * model_identity, names inside arguments and properties, and any other string or key that could spell a control token but the
 * variables named *_token. Errors: INVAL with the message of raise_exception; FORMAT with line and what else went wrong; LIMIT
 * (steps, depth, memory); NOMEM. Any thread. */
int aq_tmpl_render(const aq_tmpl *, const aq_json *vars, aq_rendered *ret, aq_err *) AQ_MUST;
/** The same with ret->whole, for which it may render many times. */
int aq_tmpl_render_whole(const aq_tmpl *, const aq_json *vars, aq_rendered *ret, aq_err *) AQ_MUST;
/** Render and tokenize: control tokens from the template only. Appends to out; on failure out is as before. */
int aq_chat_encode(const aq_vocab *, const aq_tmpl *, const aq_json *vars, aq_toks *out,
                   aq_err *) AQ_MUST;

#endif
