/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece tokens with scores: the characters of a stretch joined pair by pair, the pair with the highest score first, of
 * equal ones the leftmost; what is no token in the end is spelled in byte tokens. n log n in the stretch's bytes: candidates
 * lie in a heap, and none is longer than the longest token. Scratch belongs to one call; the vocabulary is const.
 *
 * Such vocabularies write a space as U+2581. Tokens are kept with spaces; a U+2581 in a text is taken for a space, as by the
 * tokenizers that the vocabularies come from. Bytes that are not UTF-8 are kept: the first byte says how many belong together. */
#include "vocab-priv.h"

struct aq_spm_sym {
    uint32_t at, n, prev, next; /* n == 0: joined to the one before; END: none */
};
struct aq_spm_cand {
    uint64_t key; /* by score, then by place: the smallest is joined first */
    uint32_t n;   /* bytes of both together; another number: joined otherwise since */
};
#define END UINT32_MAX
#define SPACE "\xE2\x96\x81"

void aq_spm_clear(aq_spm *b)
{
    free(b->sym);
    free(b->heap);
    free(b->text);
    free(b->raw);
    *b = (aq_spm){0};
}

static int heap_put(aq_spm *b, struct aq_spm_cand c)
{
    if (b->n_heap == b->cap_heap) {
        size_t cap = b->cap_heap ? b->cap_heap * 2 : 64;
        struct aq_spm_cand *p = realloc(b->heap, cap * sizeof *p);
        if (!p)
            return -AQ_E_NOMEM;
        b->heap = p;
        b->cap_heap = cap;
    }
    size_t i = b->n_heap++;
    for (; i && b->heap[(i - 1) / 2].key > c.key; i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = c;
    return 0;
}

static struct aq_spm_cand heap_pop(aq_spm *b)
{
    struct aq_spm_cand top = b->heap[0], c = b->heap[--b->n_heap];
    size_t i = 0, n = b->n_heap;

    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && b->heap[k + 1].key < b->heap[k].key)
            k++;
        if (b->heap[k].key >= c.key)
            break;
        b->heap[i] = b->heap[k];
    }
    b->heap[i] = c;
    return top;
}

/* Orders scores from high to low. */
static uint32_t score_key(float score)
{
    uint32_t u;

    score += 0.0f; /* -0 is 0 */
    memcpy(&u, &score, sizeof u);
    return u >> 31 ? u : ~(u | 0x80000000u);
}

static int offer(const aq_vocab *v, aq_spm *b, uint32_t i)
{
    uint32_t next = i == END ? END : b->sym[i].next;

    if (next == END)
        return 0;
    uint32_t n = b->sym[i].n + b->sym[next].n;
    if (n > v->piece_max)
        return 0;
    int32_t id = aq_vocab_find(v, b->text + b->sym[i].at, n);
    return id < 0 ? 0
                  : heap_put(b, (struct aq_spm_cand){
                                    (uint64_t)score_key(v->score ? v->score[id] : 0) << 32 | i, n});
}

/* Bytes that belong to the first one, by its upper half. */
static size_t char_len(uint8_t c)
{
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Room for a stretch of n bytes and the space before it. */
static int reserve(aq_spm *b, size_t n)
{
    size_t cap = 3 * (n + 1); /* each may be a space, which has three bytes as U+2581 */

    if (cap <= b->cap)
        return 0;
    char *raw = malloc(cap), *text = malloc(cap);
    /* A byte is a character at most, but a space that a broken one before it bites into falls into two more. */
    struct aq_spm_sym *sym = malloc(2 * (n + 1) * sizeof *sym);
    if (!raw || !text || !sym) {
        free(raw);
        free(text);
        free(sym);
        return -AQ_E_NOMEM;
    }
    free(b->raw);
    free(b->text);
    free(b->sym);
    b->raw = raw;
    b->text = text;
    b->sym = sym;
    b->cap = cap;
    return 0;
}

/* The stretch with U+2581 for spaces, cut into characters; their bytes with spaces again go to b->text. */
static uint32_t cut(const aq_vocab *v, aq_spm *b, const char *s, size_t n)
{
    size_t n_raw = 0, at = 0;
    uint32_t n_sym = 0;

    if (v->space_prefix) {
        memcpy(b->raw, SPACE, 3);
        n_raw = 3;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ') {
            memcpy(b->raw + n_raw, SPACE, 3);
            n_raw += 3;
        } else {
            b->raw[n_raw++] = s[i];
        }
    }
    for (size_t i = 0, len; i < n_raw; i += len, n_sym++) {
        len = AQ_MIN(char_len((uint8_t)b->raw[i]), n_raw - i);
        bool space = len == 3 && !memcmp(b->raw + i, SPACE, 3);
        size_t k = space ? 1 : len;
        memcpy(b->text + at, space ? " " : b->raw + i, k);
        b->sym[n_sym] = (struct aq_spm_sym){(uint32_t)at, (uint32_t)k, n_sym - 1, n_sym + 1};
        at += k;
    }
    b->sym[n_sym - 1].next = END;
    return n_sym;
}

int aq_vocab_put_bytes(const aq_vocab *v, const char *s, size_t n, aq_toks *out)
{
    int rc;

    if (n == 1 && *s == ' ') {
        s = SPACE;
        n = 3;
    }
    for (size_t i = 0; i < n; i++)
        if (v->byte_tok[(uint8_t)s[i]] < 0) /* not all of it can be spelled */
            return v->unk >= 0 ? aq_toks_put(out, v->unk) : 0;
    for (size_t i = 0; i < n; i++)
        if ((rc = aq_toks_put(out, v->byte_tok[(uint8_t)s[i]])) < 0)
            return rc;
    return 0;
}

int aq_spm_encode(const aq_vocab *v, aq_spm *b, const char *s, size_t n, aq_toks *out)
{
    int rc;

    if (!n)
        return 0;
    if ((rc = reserve(b, n)) < 0)
        return rc;
    uint32_t n_sym = cut(v, b, s, n);
    b->n_heap = 0;
    for (uint32_t i = 0; i + 1 < n_sym; i++)
        if ((rc = offer(v, b, i)) < 0)
            return rc;
    while (b->n_heap) {
        struct aq_spm_cand c = heap_pop(b);
        uint32_t i = (uint32_t)c.key;
        struct aq_spm_sym *l = &b->sym[i];
        if (!l->n || l->next == END || l->n + b->sym[l->next].n != c.n)
            continue;
        b->sym[l->next].n = 0;
        l->n = c.n;
        l->next = b->sym[l->next].next;
        if (l->next != END)
            b->sym[l->next].prev = i;
        if ((rc = offer(v, b, l->prev)) < 0 || (rc = offer(v, b, i)) < 0)
            return rc;
    }
    for (uint32_t i = 0; i != END; i = b->sym[i].next) {
        const char *p = b->text + b->sym[i].at;
        int32_t id = aq_vocab_find(v, p, b->sym[i].n);
        rc = id >= 0 ? aq_toks_put(out, id) : aq_vocab_put_bytes(v, p, b->sym[i].n, out);
        if (rc < 0)
            return rc;
    }
    return 0;
}
