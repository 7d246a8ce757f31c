/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a vocabulary, shared by vocab.c, bpe.c, spm.c, encode.c and split.c. */
#ifndef AQ_TEXT_VOCAB_PRIV_H
#define AQ_TEXT_VOCAB_PRIV_H

#include "text-priv.h"

/** Length in bytes of the first piece of s[0..n), n >= 1, valid UTF-8; 1..n. */
typedef size_t (*aq_split_fn)(const char *s, size_t n);
/* As a first pass: the length of the piece that s begins with, 0 when it begins with none. */

typedef struct aq_splitter {
    const char *pre;
    aq_split_fn fn;
    aq_split_fn
        first;       /* NULL, or a pass before fn: pieces of their own; fn sees what lies between */
    bool whole_word; /* a piece that is a token as a whole is taken so, before merging */
} aq_splitter;
const aq_splitter *aq_splitter_find(const char *pre);
const aq_splitter *aq_splitter_list(size_t *ret_n);
extern const aq_splitter aq_splitter_lines;              /* of AQ_VOCAB_BPE_CHARS */
size_t aq_split_deepseek_coder(const char *s, size_t n); /* split-deepseek.c */
size_t aq_split_deepseek_llm(const char *s, size_t n);

/** How tokens are spelled and found. */
enum {
    AQ_VOCAB_BPE_BYTES, /* "gpt2": merges over bytes */
    AQ_VOCAB_BPE_CHARS, /* "gemma4": merges over characters, byte tokens for what is no token */
    AQ_VOCAB_SPM        /* "llama": scores over characters, byte tokens too */
};

typedef struct aq_merge {
    uint32_t left, right, to;
} aq_merge;

struct aq_vocab {
    uint32_t n_tok, n_merge, n_special;
    int kind;                 /* AQ_VOCAB_BPE_BYTES, … */
    bool space_prefix;        /* SPM: a space goes before each stretch of text */
    uint32_t piece_max;       /* bytes of the longest token */
    const aq_splitter *split; /* NULL with SPM */
    float *score;             /* [n_tok], SPM only */
    char *blob;               /* raw bytes of all tokens */
    uint32_t *off;            /* [n_tok + 1] into blob */
    uint8_t *type;            /* [n_tok] */
    uint8_t *eog;             /* [n_tok] */
    uint32_t *tok_slot; /* open addressing over the pieces that text is made of: id + 1, 0 = free */
    uint32_t tok_mask;
    aq_merge *merge;      /* [n_merge], index = rank */
    uint32_t *merge_slot; /* open addressing over (left, right): rank + 1, 0 = free */
    uint32_t merge_mask;
    int32_t byte_tok[256]; /* token of a single byte, -1 = none */
    uint32_t *special;     /* [n_special] ids that may be recognised in text, ascending by bytes */
    uint32_t special_at[257]; /* where those with a first byte begin in special */
    int32_t bos, eos, eot, eom, unk, pad;
    bool add_bos;
};

static inline const char *aq_vocab_bytes(const aq_vocab *v, uint32_t id, uint32_t *ret_n)
{
    *ret_n = v->off[id + 1] - v->off[id];
    return v->blob + v->off[id];
}
int32_t aq_vocab_find(const aq_vocab *, const char *s,
                      size_t n); /* a token with these bytes that text is made of, or -1 */
/** Rank of merging two tokens, UINT32_MAX when they do not merge. */
uint32_t aq_vocab_rank(const aq_vocab *, uint32_t left, uint32_t right);

/** Scratch of one encode call. */
typedef struct aq_bpe {
    struct aq_sym *sym;
    uint64_t *heap;
    size_t n_heap, cap_heap, cap_sym;
} aq_bpe;
void aq_bpe_clear(aq_bpe *);
static inline void aq_bpe_clear_p(aq_bpe *b)
{
    aq_bpe_clear(b);
}
/** Append the tokens of one piece. -AQ_E_NOMEM. */
int aq_bpe_word(const aq_vocab *, aq_bpe *, const char *s, size_t n, aq_toks *out) AQ_MUST;

/** Scratch of one encode call. */
typedef struct aq_spm {
    struct aq_spm_sym *sym;
    struct aq_spm_cand *heap;
    char *raw, *text;
    size_t n_heap, cap_heap, cap;
} aq_spm;
void aq_spm_clear(aq_spm *);
static inline void aq_spm_clear_p(aq_spm *b)
{
    aq_spm_clear(b);
}
/** Append the tokens of a stretch without special tokens. -AQ_E_NOMEM. */
int aq_spm_encode(const aq_vocab *, aq_spm *, const char *s, size_t n, aq_toks *out) AQ_MUST;
/** Append a character (one space stands for U+2581) in byte tokens, or the unknown token. -AQ_E_NOMEM. */
int aq_vocab_put_bytes(const aq_vocab *, const char *s, size_t n, aq_toks *out) AQ_MUST;

#endif
