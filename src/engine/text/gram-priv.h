/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer must look like, byte by byte.
 *
 *   JSON schema --schema.c--> grammar of nodes --gram.c--> states, made as they are needed and kept
 *   names and schemas of tools --gram-call.c--> the same, in the model family's form of a call
 *   state + vocabulary in byte order --gram.c--> which tokens may come next
 *   guide.c     one request: when the grammar holds, and when not (thinking, free text before a call)
 *
 * A grammar is a graph: a node takes a byte, a byte of a set, or one control token, or is a fork, a call of another part of the
 * graph, or the return from it. It is built from its end: every builder takes the node that follows and returns the first one.
 * A state is the set of (node, stack of returns) that the bytes so far may have led to. */
#ifndef AQ_TEXT_GRAM_PRIV_H
#define AQ_TEXT_GRAM_PRIV_H

#include "chat-priv.h"

#define AQ_GRAM_NODES_MAX 400000u
#define AQ_GRAM_STATES_MAX 32768u /* of one machine */
#define AQ_GRAM_STATES_KEEP 4096u /* more are forgotten between two tokens */
#define AQ_GRAM_ITEMS_MAX 20000u  /* of one state */
#define AQ_GRAM_REPEAT_MAX 2000u  /* larger upper bounds count as none */
#define AQ_SCHEMA_DEPTH_MAX 64u

typedef struct aq_gnode {
    uint8_t kind;
    uint32_t a, b;
} aq_gnode;
enum {
    AQ_G_BYTE,  /* a: the byte, b: next */
    AQ_G_SET,   /* a: index of the set, b: next */
    AQ_G_TOK,   /* a: control token, b: next */
    AQ_G_FORK,  /* a, b */
    AQ_G_CALL,  /* a: where to, b: where to go on afterwards */
    AQ_G_RETURN /* at the bottom of the stack: the end */
};
#define AQ_G_NONE UINT32_MAX

typedef struct aq_gset {
    uint64_t bit[4];
} aq_gset;

typedef struct aq_gram {
    const aq_vocab *vocab; /* for control tokens; may be NULL */
    aq_gnode *node;
    uint32_t n_node, cap_node;
    aq_gset *set;
    uint32_t n_set, cap_set;
    uint32_t end;   /* a RETURN */
    uint32_t start; /* where an answer begins */
    uint32_t again; /* where it goes on when thinking has ended */
    int rc;         /* sticky: NOMEM, LIMIT */
    /* shared parts, AQ_G_NONE until they are needed */
    uint32_t ws, jchar, any, any_object;
} aq_gram;

int aq_gram_new(const aq_vocab *, aq_gram **ret, aq_err *) AQ_MUST;
void aq_gram_free(aq_gram *);
AQ_CLEANUP_FUNC(aq_gram *, aq_gram_free)
/** NOMEM or LIMIT in words when something failed while it was built. */
int aq_gram_check(const aq_gram *, aq_err *) AQ_MUST;
/** 1 = some text leads from this node to the end; 0 = none does, as in a form that holds itself; NOMEM. */
int aq_gram_ends(const aq_gram *, uint32_t node) AQ_MUST;

/* gram-build.c: AQ_G_NONE in, or after a failure, gives AQ_G_NONE */
uint32_t aq_g_add(aq_gram *, uint8_t kind, uint32_t a, uint32_t b);
uint32_t aq_g_fork(aq_gram *, uint32_t a, uint32_t b); /* either may be NONE: the other one */
uint32_t aq_g_lit(aq_gram *, const char *s, size_t n, uint32_t next);
uint32_t aq_g_litz(aq_gram *, const char *s, uint32_t next);
/** A marker: the control token of that text where the vocabulary has one, else its bytes. */
uint32_t aq_g_mark(aq_gram *, const char *s, uint32_t next);
uint32_t aq_g_set(aq_gram *, const aq_gset *, uint32_t next);
uint32_t aq_g_range(aq_gram *, uint8_t lo, uint8_t hi, uint32_t next);
/** A character of [lo, hi] in UTF-8; surrogates are left out. */
uint32_t aq_g_chars(aq_gram *, uint32_t lo, uint32_t hi, uint32_t next);
uint32_t aq_g_ws(aq_gram *, uint32_t next);    /* nothing, a blank, or a line break with blanks */
uint32_t aq_g_jchar(aq_gram *, uint32_t next); /* a character or an escape of a JSON string */
uint32_t aq_g_jstring(aq_gram *, uint64_t min, uint64_t max, uint32_t next); /* in characters */
uint32_t aq_g_digits(aq_gram *, uint32_t min, uint32_t max, uint32_t next);
uint32_t aq_g_number(aq_gram *, bool whole, uint32_t next);
uint32_t aq_g_int_range(aq_gram *, int64_t lo, int64_t hi, uint32_t next);
/** Any text without `end`, which begins with a byte that it has only there; then `end`. */
uint32_t aq_g_until(aq_gram *, const char *end, uint32_t next);
uint32_t aq_g_any(aq_gram *, bool object, uint32_t next); /* any JSON value (or object) */
static inline void aq_gset_put(aq_gset *s, uint8_t lo, uint8_t hi)
{
    for (uint32_t b = lo; b <= hi; b++)
        s->bit[b >> 6] |= 1ull << (b & 63);
}

/* gram-regex.c: texts that a pattern (ECMA-262, the regular part) matches somewhere. json: as they stand in a JSON string.
 * UNSUPPORTED, INVAL. */
int aq_g_regex(aq_gram *, const char *pattern, size_t n, bool json, uint32_t next, uint32_t *ret,
               aq_err *) AQ_MUST;

/* schema.c */
enum { AQ_NOTE_JSON, AQ_NOTE_GEMMA, AQ_NOTE_LENIENT = 16 };
/** LENIENT (added to one of the others): properties in any order, and others where the schema does not forbid them; what is
 * demanded of their number is held for up to five. A value of this schema (root: what its references are looked up in) before `next`. Errors: UNSUPPORTED and INVAL name the
 * place and the keyword; LIMIT, NOMEM. */
int aq_schema_put(aq_gram *, const aq_json *root, const aq_json *schema, int notation,
                  uint32_t next, uint32_t *ret, aq_err *) AQ_MUST;
/** Through $ref and allOf of one. NULL: it leads nowhere. */
const aq_json *aq_schema_resolve(const aq_json *root, const aq_json *schema);
/** A text value that stands raw between tags. *ret NONE: this schema is no text. */
int aq_schema_raw_text(aq_gram *, const aq_json *root, const aq_json *schema, const char *end,
                       uint32_t next, uint32_t *ret, aq_err *) AQ_MUST;

/* gram-call.c */
typedef struct aq_gram_want {
    const aq_chat_caps *caps;
    const aq_json *tools, *schema; /* either may be NULL */
    const char *only;              /* NULL, or the one tool that must be called */
    bool must_call;                /* a call is demanded: no content */
    bool one_call;
    bool may_think; /* the answer may begin with thinking */
} aq_gram_want;
/** The form of a whole answer: of the schema, of calls, or of either. Errors name tool and place. */
int aq_gram_answer(const aq_vocab *, const aq_gram_want *, aq_gram **ret, aq_err *) AQ_MUST;
/** The form of a call from behind the marker that it begins with. *ret NULL: this family has none. */
int aq_gram_call(const aq_vocab *, const aq_gram_want *, aq_gram **ret, aq_err *) AQ_MUST;

/* ---- gram.c: running ---- */

/** A vocabulary's tokens of text in byte order. */
typedef struct aq_tok_order {
    const aq_vocab *vocab;
    uint32_t n;
    uint32_t *id;   /* [n] */
    uint16_t *same; /* [n] bytes in common with the one before */
    uint32_t longest;
} aq_tok_order;
int aq_tok_order_new(const aq_vocab *, aq_tok_order **ret, aq_err *) AQ_MUST;
void aq_tok_order_free(aq_tok_order *);
AQ_CLEANUP_FUNC(aq_tok_order *, aq_tok_order_free)

typedef struct aq_gmach aq_gmach; /* borrows the grammar */
int aq_gmach_new(const aq_gram *, aq_gmach **ret, aq_err *) AQ_MUST;
void aq_gmach_free(aq_gmach *);
AQ_CLEANUP_FUNC(aq_gmach *, aq_gmach_free)
#define AQ_GS_DEAD 0u
/** The state at a node. AQ_GS_DEAD with -rc on failure in *ret_rc. */
uint32_t aq_gmach_at(aq_gmach *, uint32_t node, int *ret_rc);
uint32_t aq_gmach_byte(aq_gmach *, uint32_t state, uint8_t b, int *ret_rc);
uint32_t aq_gmach_token(aq_gmach *, const aq_vocab *, uint32_t state, int32_t tok, int *ret_rc);
bool aq_gmach_may_end(const aq_gmach *, uint32_t state);
bool aq_gmach_must_end(const aq_gmach *, uint32_t state); /* nothing can follow */
/** ok[i] = 1 for every token of text or control token that may come next; ok has [n_vocab]. */
int aq_gmach_mask(aq_gmach *, const aq_tok_order *, uint32_t state, uint8_t *ok,
                  uint32_t n_vocab) AQ_MUST;
/** Forget states but this one, whose number may change, when there are many. */
int aq_gmach_trim(aq_gmach *, uint32_t *state) AQ_MUST;

/* ---- guide.c: one request ---- */

struct aq_toolparse;
typedef struct aq_guide aq_guide;
/** Owns the grammar from here on, also on failure. lazy: it holds from the markers of calls on. think: AQ_THINK_*. */
int aq_guide_new(const aq_vocab *, const aq_tok_order *, aq_gram *, bool lazy, uint8_t think,
                 aq_guide **ret, aq_err *) AQ_MUST;
void aq_guide_free(aq_guide *);
AQ_CLEANUP_FUNC(aq_guide *, aq_guide_free)
/** Anything may be refused now. */
bool aq_guide_on(const aq_guide *);
/** 1, 0, or -NOMEM, -LIMIT. */
int aq_guide_allows(aq_guide *, int32_t tok);
/** Set what may not come to -infinity. -UNSUPPORTED: nothing is left. */
int aq_guide_mask(aq_guide *, float *logits, uint32_t n_vocab) AQ_MUST;
/** The token was chosen, and parsed (parser NULL: there is none). 1: the answer is complete. */
int aq_guide_took(aq_guide *, int32_t tok, const struct aq_toolparse *) AQ_MUST;

#endif
