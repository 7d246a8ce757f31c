/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabulary: making, look-ups, freeing. Immutable afterwards; any thread.
 *
 * Byte-level BPE files spell each byte of a token as one printable character (the GPT-2 alphabet: the bytes 21-7E, A1-AC, AE-FF
 * stand for themselves, the other 68 follow from U+0100 on). The other kinds write a space as U+2581 and single bytes as
 * <0xXX>. Tokens are kept as raw bytes here. */
#include "unicode.h"
#include "vocab-priv.h"

#include <math.h>

int aq_toks_put(aq_toks *t, int32_t id)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        int32_t *p = cap > t->cap ? realloc(t->id, cap * sizeof *p) : NULL;
        if (!p)
            return -AQ_E_NOMEM;
        t->id = p;
        t->cap = cap;
    }
    t->id[t->n++] = id;
    return 0;
}

void aq_toks_clear(aq_toks *t)
{
    free(t->id);
    *t = (aq_toks){0};
}

static uint32_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001B3u;
    return (uint32_t)(h ^ h >> 29 ^ h >> 47);
}

static uint32_t hash_pair(uint32_t l, uint32_t r)
{
    uint64_t h = ((uint64_t)l << 32 | r) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32 ^ h >> 20);
}

/* Slots for n entries at most half full. */
static uint32_t *slots(uint32_t n, uint32_t *ret_mask)
{
    uint32_t size = 16;

    while (size < n * 2)
        size *= 2;
    *ret_mask = size - 1;
    return calloc(size, sizeof(uint32_t));
}

int32_t aq_vocab_find(const aq_vocab *v, const char *s, size_t n)
{
    for (uint32_t i = hash_bytes(s, n) & v->tok_mask, id; (id = v->tok_slot[i]);
         i = (i + 1) & v->tok_mask) {
        uint32_t len;
        const char *p = aq_vocab_bytes(v, id - 1, &len);
        if (len == n && !memcmp(p, s, n))
            return (int32_t)(id - 1);
    }
    return -1;
}

uint32_t aq_vocab_rank(const aq_vocab *v, uint32_t left, uint32_t right)
{
    for (uint32_t i = hash_pair(left, right) & v->merge_mask, r; (r = v->merge_slot[i]);
         i = (i + 1) & v->merge_mask)
        if (v->merge[r - 1].left == left && v->merge[r - 1].right == right)
            return r - 1;
    return UINT32_MAX;
}

/* The byte that a character of the GPT-2 alphabet stands for, or -1. */
static int alphabet_byte(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) || (cp >= 0xAE && cp <= 0xFF))
        return (int)cp;
    if (cp < 0x100 || cp >= 0x100 + 68)
        return -1;
    cp -= 0x100; /* the cp-th of 00-20, 7F-A0, AD */
    return cp <= 0x20 ? (int)cp : cp <= 0x20 + 0x22 ? (int)(cp - 0x21 + 0x7F) : 0xAD;
}

/* Write the raw bytes of a byte-level spelling to out (room for n); false when a character is not of the alphabet. */
static bool spelled_bytes(const char *s, size_t n, char *out, size_t *ret_n)
{
    size_t k = 0;

    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad;
        i += aq_uni_next(s + i, n - i, &cp, &bad);
        int b = bad ? -1 : alphabet_byte(cp);
        if (b < 0)
            return false;
        out[k++] = (char)b;
    }
    *ret_n = k;
    return true;
}

/* The same for the kinds made of characters: U+2581 is a space. */
static bool spaced_bytes(const char *s, size_t n, char *out, size_t *ret_n)
{
    size_t k = 0;

    for (size_t i = 0; i < n;) {
        bool space = n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3);
        out[k++] = space ? ' ' : s[i];
        i += space ? 3 : 1;
    }
    *ret_n = k;
    return true;
}

static bool raw_bytes(const aq_vocab *v, const char *s, size_t n, char *out, size_t *ret_n)
{
    return v->kind == AQ_VOCAB_BPE_BYTES ? spelled_bytes(s, n, out, ret_n)
                                         : spaced_bytes(s, n, out, ret_n);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte that "<0xXX>" stands for, or -1. */
static int byte_of(const aq_vstr *s)
{
    if (s->n != 6 || memcmp(s->p, "<0x", 3) || s->p[5] != '>')
        return -1;
    int hi = hex_digit(s->p[3]), lo = hex_digit(s->p[4]);
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

static bool in_text(int type)
{
    return type == AQ_TOK_CONTROL || type == AQ_TOK_USER_DEFINED || type == AQ_TOK_UNKNOWN;
}

static int take_tokens(aq_vocab *v, const aq_vocab_in *in, aq_err *err)
{
    size_t total = 0;

    for (uint32_t i = 0; i < in->n_tok; i++) {
        if (in->tok[i].n > AQ_VOCAB_PIECE_BYTES_MAX)
            return aq_fail(err, AQ_E_LIMIT,
                           "vocabulary: token %u has %u bytes, more than the %u allowed", i,
                           in->tok[i].n, AQ_VOCAB_PIECE_BYTES_MAX);
        total += in->tok[i].n;
    }
    if (total > AQ_BYTES_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "vocabulary: its tokens have %zu bytes, more than the %llu allowed", total,
                       AQ_BYTES_MAX);
    v->n_tok = in->n_tok;
    v->blob = malloc(total + 1);
    v->off = malloc((in->n_tok + 1) * sizeof *v->off);
    v->type = malloc(in->n_tok + 1);
    v->eog = calloc(in->n_tok + 1, 1);
    v->tok_slot = slots(in->n_tok, &v->tok_mask);
    if (!v->blob || !v->off || !v->type || !v->eog || !v->tok_slot)
        return aq_fail(err, AQ_E_NOMEM, "vocabulary: out of memory for %u tokens", in->n_tok);
    size_t at = 0;
    for (uint32_t i = 0; i < in->n_tok; i++) {
        int type = in->type ? in->type[i] : AQ_TOK_NORMAL;
        size_t n = 0;
        if (type < AQ_TOK_NORMAL || type > AQ_TOK_BYTE)
            return aq_fail(err, AQ_E_FORMAT, "vocabulary: token %u has type %d; 1 to 6 are known",
                           i, type);
        v->off[i] = (uint32_t)at;
        v->type[i] = (uint8_t)type;
        bool plain = type == AQ_TOK_NORMAL || type == AQ_TOK_BYTE;
        int byte = -1;
        if (type == AQ_TOK_BYTE && v->kind != AQ_VOCAB_BPE_BYTES) {
            if ((byte = byte_of(&in->tok[i])) < 0)
                return aq_fail(err, AQ_E_FORMAT,
                               "vocabulary: token %u is of the byte type, but not spelled <0xXX>",
                               i);
            v->blob[at] = (char)byte;
            n = 1;
            if (v->byte_tok[byte] < 0)
                v->byte_tok[byte] = (int32_t)i;
        } else if (!plain || !raw_bytes(v, in->tok[i].p, in->tok[i].n, v->blob + at, &n)) {
            if (in->tok[i].n)
                memcpy(v->blob + at, in->tok[i].p, in->tok[i].n);
            n = in->tok[i].n;
        }
        v->off[i + 1] = (uint32_t)(at + n);
        bool found =
            plain ? byte < 0 : type == AQ_TOK_USER_DEFINED && v->kind != AQ_VOCAB_BPE_BYTES;
        v->piece_max = AQ_MAX(v->piece_max, (uint32_t)n);
        if (found && n && aq_vocab_find(v, v->blob + at, n) < 0) {
            uint32_t k = hash_bytes(v->blob + at, n) & v->tok_mask;
            while (v->tok_slot[k])
                k = (k + 1) & v->tok_mask;
            v->tok_slot[k] = i + 1;
        }
        v->n_special += in_text(type) && n;
        at += n;
    }
    for (uint32_t b = 0; b < 256 && v->kind == AQ_VOCAB_BPE_BYTES; b++) {
        char c = (char)b;
        v->byte_tok[b] = aq_vocab_find(v, &c, 1);
    }
    return 0;
}

static int take_scores(aq_vocab *v, const aq_vocab_in *in, aq_err *err)
{
    if (v->kind != AQ_VOCAB_SPM)
        return 0;
    if (!in->score)
        return aq_fail(err, AQ_E_FORMAT,
                       "vocabulary: tokenizer \"llama\" needs tokenizer.ggml.scores");
    for (uint32_t i = 0; i < in->n_tok; i++)
        if (isnan(in->score[i]))
            return aq_fail(err, AQ_E_FORMAT, "vocabulary: the score of token %u is no number", i);
    if (!(v->score = malloc(in->n_tok * sizeof *v->score)))
        return aq_fail(err, AQ_E_NOMEM, "vocabulary: out of memory for %u scores", in->n_tok);
    memcpy(v->score, in->score, in->n_tok * sizeof *v->score);
    return 0;
}

static int take_merges(aq_vocab *v, const aq_vocab_in *in, aq_err *err)
{
    if (v->kind == AQ_VOCAB_SPM) /* scores take their place */
        return 0;
    v->n_merge = in->n_merge;
    v->merge = malloc((in->n_merge + 1) * sizeof *v->merge);
    v->merge_slot = slots(in->n_merge, &v->merge_mask);
    AQ_AUTOFREE char *buf = malloc(2 * AQ_VOCAB_PIECE_BYTES_MAX);
    if (!v->merge || !v->merge_slot || !buf)
        return aq_fail(err, AQ_E_NOMEM, "vocabulary: out of memory for %u merges", in->n_merge);
    for (uint32_t i = 0; i < in->n_merge; i++) {
        const aq_vstr *m = &in->merge[i];
        const char *sp = m->n > 2 ? memchr(m->p + 1, ' ', m->n - 2) : NULL;
        size_t nl, nr;
        if (!sp || m->n > AQ_VOCAB_PIECE_BYTES_MAX)
            return aq_fail(err, AQ_E_FORMAT,
                           "vocabulary: merge %u is not two tokens with a space between", i);
        if (!raw_bytes(v, m->p, (size_t)(sp - m->p), buf, &nl) ||
            !raw_bytes(v, sp + 1, m->n - (size_t)(sp - m->p) - 1, buf + nl, &nr))
            return aq_fail(err, AQ_E_FORMAT,
                           "vocabulary: merge %u has characters that stand for no byte", i);
        int32_t l = aq_vocab_find(v, buf, nl), r = aq_vocab_find(v, buf + nl, nr),
                to = aq_vocab_find(v, buf, nl + nr);
        if (l < 0 || r < 0 || to < 0)
            return aq_fail(err, AQ_E_FORMAT,
                           "vocabulary: merge %u names a token that the vocabulary does not have",
                           i);
        v->merge[i] = (aq_merge){(uint32_t)l, (uint32_t)r, (uint32_t)to};
        if (aq_vocab_rank(v, (uint32_t)l, (uint32_t)r) != UINT32_MAX)
            continue; /* said before: the earlier rank counts */
        uint32_t k = hash_pair((uint32_t)l, (uint32_t)r) & v->merge_mask;
        while (v->merge_slot[k])
            k = (k + 1) & v->merge_mask;
        v->merge_slot[k] = i + 1;
    }
    return 0;
}

static int by_bytes(const void *a, const void *b, void *user)
{
    const aq_vocab *v = user;
    uint32_t na, nb, ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
    const char *pa = aq_vocab_bytes(v, ia, &na), *pb = aq_vocab_bytes(v, ib, &nb);
    int c = memcmp(pa, pb, AQ_MIN(na, nb));

    return c ? c : na != nb ? (na < nb ? -1 : 1) : (ia < ib ? -1 : ia > ib);
}

static int take_special(aq_vocab *v, aq_err *err)
{
    uint32_t k = 0, len;

    if (!(v->special = malloc((v->n_special + 1) * sizeof *v->special)))
        return aq_fail(err, AQ_E_NOMEM, "vocabulary: out of memory for %u special tokens",
                       v->n_special);
    for (uint32_t i = 0; i < v->n_tok; i++)
        if (in_text(v->type[i]) && v->off[i + 1] > v->off[i])
            v->special[k++] = i;
    qsort_r(v->special, v->n_special, sizeof *v->special, by_bytes, v);
    k = 0;
    for (uint32_t b = 0; b <= 256; b++) {
        while (k < v->n_special && (uint8_t)*aq_vocab_bytes(v, v->special[k], &len) < b)
            k++;
        v->special_at[b] = k;
    }
    return 0;
}

static int take_ids(aq_vocab *v, const aq_vocab_in *in, aq_err *err)
{
    /* What model families end a turn with; only where the file calls it a control token, for `</s>` is an ordinary piece of some. */
    static const char *const ends[] = {
        "<|im_end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<end_of_turn>",
        "<turn|>",
        "<|return|>",
        "<|call|>",
        "<|observation|>",
        "<|user|>",
        "<|eot|>",
        "<|eom|>",
        "<EOT>",
        "<｜end▁of▁sentence｜>",
        "[e~[",
        "<|tool_response>", /* Gemma 4 waits for what a call gives */
    };
    const struct {
        const char *name;
        int32_t id, *to;
    } id[] = {{"bos", in->bos, &v->bos}, {"eos", in->eos, &v->eos}, {"eot", in->eot, &v->eot},
              {"eom", in->eom, &v->eom}, {"unk", in->unk, &v->unk}, {"pad", in->pad, &v->pad}};

    for (size_t i = 0; i < AQ_LEN(id); i++) {
        if (id[i].id < -1 || id[i].id >= (int64_t)v->n_tok)
            return aq_fail(err, AQ_E_FORMAT,
                           "vocabulary: the %s token is %d, but there are %u tokens", id[i].name,
                           id[i].id, v->n_tok);
        *id[i].to = id[i].id;
        if (id[i].id >= 0 && i >= 1 && i <= 3)
            v->eog[id[i].id] = 1;
    }
    v->add_bos = in->add_bos;
    for (size_t i = 0; i < AQ_LEN(ends); i++) {
        int32_t t = aq_vocab_find_special(v, ends[i], strlen(ends[i]));
        if (t >= 0 && v->type[t] == AQ_TOK_CONTROL)
            v->eog[t] = 1;
    }
    return 0;
}

/* AQ_VOCAB_*, or -1. Files of the newer kinds may leave the splitter out, for they have one only. */
static int kind_of(const char *model, const char *pre)
{
    if (!model)
        return -1;
    if (!strcmp(model, "gpt2"))
        return aq_splitter_find(pre) ? AQ_VOCAB_BPE_BYTES : -1;
    if (!strcmp(model, "gemma4"))
        return !pre || !strcmp(pre, "gemma4") ? AQ_VOCAB_BPE_CHARS : -1;
    return !strcmp(model, "llama") ? AQ_VOCAB_SPM : -1; /* which splits nothing, whatever `pre` */
}

bool aq_vocab_adds_bos(const char *model, const char *pre)
{
    const aq_splitter *s = aq_splitter_find(pre);
    return strcmp(model, "gpt2") != 0 ||
           (s && (!strcmp(s->pre, "tekken") || !strcmp(s->pre, "llama-bpe")));
}

bool aq_vocab_known(const char *model, const char *pre)
{
    return kind_of(model, pre) >= 0;
}

const char *aq_vocab_known_list(void)
{
    return "gpt2 with gpt-2, smollm, refact, starcoder, qwen2, qwen35, llama-bpe, glm4, gpt-4o, "
           "minimax-m2, tekken, kimi-k2 or deepseek-v3 (and names that mean the same), llama, "
           "gemma4";
}

int aq_vocab_new(const aq_vocab_in *in, aq_vocab **ret, aq_err *err)
{
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    int rc;

    if (!aq_vocab_known(in->model, in->pre))
        return aq_fail(
            err, AQ_E_UNSUPPORTED,
            "vocabulary: tokenizer \"%.40s\" with splitter \"%.40s\" is not known; known are %s",
            in->model ? in->model : "(none)", in->pre ? in->pre : "(none)", aq_vocab_known_list());
    if (!in->n_tok || in->n_tok > AQ_VOCAB_TOK_MAX || in->n_merge > AQ_VOCAB_MERGE_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "vocabulary: %u tokens and %u merges; 1 to %u and up to %u are allowed",
                       in->n_tok, in->n_merge, AQ_VOCAB_TOK_MAX, AQ_VOCAB_MERGE_MAX);
    if (!(v = calloc(1, sizeof *v)))
        return aq_fail(err, AQ_E_NOMEM, "vocabulary: out of memory");
    v->kind = kind_of(in->model, in->pre);
    v->space_prefix = v->kind == AQ_VOCAB_SPM && in->add_space_prefix;
    if (v->kind != AQ_VOCAB_SPM)
        v->split = v->kind == AQ_VOCAB_BPE_CHARS ? &aq_splitter_lines : aq_splitter_find(in->pre);
    for (uint32_t b = 0; b < 256; b++)
        v->byte_tok[b] = -1;
    if ((rc = take_tokens(v, in, err)) < 0 || (rc = take_scores(v, in, err)) < 0 ||
        (rc = take_merges(v, in, err)) < 0 || (rc = take_special(v, err)) < 0 ||
        (rc = take_ids(v, in, err)) < 0)
        return rc;
    *ret = AQ_STEAL(v);
    return 0;
}

void aq_vocab_free(aq_vocab *v)
{
    if (!v)
        return;
    free(v->blob);
    free(v->score);
    free(v->off);
    free(v->type);
    free(v->eog);
    free(v->tok_slot);
    free(v->merge);
    free(v->merge_slot);
    free(v->special);
    free(v);
}

static bool valid(const aq_vocab *v, int32_t id)
{
    return id >= 0 && (uint32_t)id < v->n_tok;
}

uint32_t aq_vocab_n(const aq_vocab *v)
{
    return v->n_tok;
}

const char *aq_vocab_piece(const aq_vocab *v, int32_t id, uint32_t *ret_n)
{
    *ret_n = 0;
    return valid(v, id) && v->off[id + 1] > v->off[id] ? aq_vocab_bytes(v, (uint32_t)id, ret_n)
                                                       : NULL;
}

int aq_vocab_type(const aq_vocab *v, int32_t id)
{
    return valid(v, id) ? v->type[id] : 0;
}

bool aq_vocab_is_control(const aq_vocab *v, int32_t id)
{
    int t = aq_vocab_type(v, id);
    return t == AQ_TOK_CONTROL || t == AQ_TOK_UNKNOWN || t == AQ_TOK_UNUSED;
}

bool aq_vocab_is_eog(const aq_vocab *v, int32_t id)
{
    return valid(v, id) && v->eog[id];
}

int32_t aq_vocab_bos(const aq_vocab *v)
{
    return v->bos;
}

int32_t aq_vocab_eos(const aq_vocab *v)
{
    return v->eos;
}

bool aq_vocab_add_bos(const aq_vocab *v)
{
    return v->add_bos;
}

int32_t aq_vocab_find_special(const aq_vocab *v, const char *text, size_t n)
{
    uint32_t first = n ? (uint8_t)text[0] : 0;

    for (uint32_t i = v->special_at[first]; n && i < v->special_at[first + 1]; i++) {
        uint32_t len;
        const char *p = aq_vocab_bytes(v, v->special[i], &len);
        if (len == n && !memcmp(p, text, n))
            return (int32_t)v->special[i];
    }
    return -1;
}
