/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair merging of one piece: symbols in a linked list, candidate merges in a heap ordered by rank, then by position.
 * n log n in the piece's bytes. Bytes without a token of their own are left out before merging, as the tokenizers do that
 * the vocabularies come from. Scratch belongs to one call; the vocabulary is const. */
#include "unicode.h"
#include "vocab-priv.h"

struct aq_sym {
    uint32_t id, prev, next; /* next == END: last; id == DEAD: merged away */
};
#define END UINT32_MAX
#define DEAD UINT32_MAX

void aq_bpe_clear(aq_bpe *b)
{
    free(b->sym);
    free(b->heap);
    *b = (aq_bpe){0};
}

static int heap_put(aq_bpe *b, uint64_t key)
{
    if (b->n_heap == b->cap_heap) {
        size_t cap = b->cap_heap ? b->cap_heap * 2 : 64;
        uint64_t *p = realloc(b->heap, cap * sizeof *p);
        if (!p)
            return -AQ_E_NOMEM;
        b->heap = p;
        b->cap_heap = cap;
    }
    size_t i = b->n_heap++;
    for (; i && b->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = key;
    return 0;
}

static uint64_t heap_pop(aq_bpe *b)
{
    uint64_t top = b->heap[0], key = b->heap[--b->n_heap];
    size_t i = 0, n = b->n_heap;

    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && b->heap[k + 1] < b->heap[k])
            k++;
        if (b->heap[k] >= key)
            break;
        b->heap[i] = b->heap[k];
    }
    b->heap[i] = key;
    return top;
}

/* Offer the merge of sym[i] with its successor. */
static int offer(const aq_vocab *v, aq_bpe *b, uint32_t i)
{
    uint32_t next = b->sym[i].next;

    if (next == END)
        return 0;
    uint32_t rank = aq_vocab_rank(v, b->sym[i].id, b->sym[next].id);
    return rank == UINT32_MAX ? 0 : heap_put(b, (uint64_t)rank << 32 | i);
}

static void put_sym(aq_bpe *b, uint32_t *n_sym, int32_t id)
{
    if (id < 0)
        return;
    b->sym[*n_sym] = (struct aq_sym){(uint32_t)id, *n_sym - 1, *n_sym + 1};
    ++*n_sym;
}

/* The symbols of a piece made of characters: U+2581 is a space, and what is no token is spelled in byte tokens. */
static int chars(const aq_vocab *v, aq_bpe *b, const char *s, size_t n, uint32_t *n_sym)
{
    AQ_AUTO(aq_toks_clear) aq_toks bytes = {0};

    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = aq_uni_next(s + i, n - i, &cp, NULL);
        bool space = cp == 0x2581;
        int32_t id = aq_vocab_find(v, space ? " " : s + i, space ? 1 : len);
        if (id >= 0) {
            put_sym(b, n_sym, id);
            continue;
        }
        bytes.n = 0;
        int rc = aq_vocab_put_bytes(v, s + i, len, &bytes);
        if (rc < 0)
            return rc;
        for (uint32_t k = 0; k < bytes.n; k++)
            put_sym(b, n_sym, bytes.id[k]);
    }
    return 0;
}

int aq_bpe_word(const aq_vocab *v, aq_bpe *b, const char *s, size_t n, aq_toks *out)
{
    uint32_t n_sym = 0;
    int rc;

    bool lines = v->kind == AQ_VOCAB_BPE_CHARS && s[0] == '\n';
    if (v->split->whole_word || lines) {
        int32_t id = aq_vocab_find(v, s, n);
        if (id >= 0)
            return aq_toks_put(out, id);
    }
    /* A space that is no token takes three byte tokens. */
    size_t need = v->kind == AQ_VOCAB_BPE_CHARS && aq_vocab_find(v, " ", 1) < 0 ? n * 3 : n;
    if (need > b->cap_sym) {
        size_t cap = AQ_MAX(need, b->cap_sym * 2);
        struct aq_sym *p = realloc(b->sym, cap * sizeof *p);
        if (!p)
            return -AQ_E_NOMEM;
        b->sym = p;
        b->cap_sym = cap;
    }
    if (v->kind == AQ_VOCAB_BPE_CHARS) {
        if ((rc = chars(v, b, s, n, &n_sym)) < 0)
            return rc;
    } else {
        for (size_t i = 0; i < n; i++)
            put_sym(b, &n_sym, v->byte_tok[(uint8_t)s[i]]);
    }
    if (!n_sym)
        return 0;
    b->sym[n_sym - 1].next = END;
    b->n_heap = 0;
    for (uint32_t i = 0; i + 1 < n_sym; i++)
        if ((rc = offer(v, b, i)) < 0)
            return rc;
    while (b->n_heap) {
        uint64_t key = heap_pop(b);
        const aq_merge *m = &v->merge[key >> 32];
        uint32_t i = (uint32_t)key, next;
        struct aq_sym *l = &b->sym[i];
        /* The entry is stale when either side has been merged since. */
        if (l->id != m->left || (next = l->next) == END || b->sym[next].id != m->right)
            continue;
        l->id = m->to;
        l->next = b->sym[next].next;
        b->sym[next].id = DEAD;
        if (l->next != END)
            b->sym[l->next].prev = i;
        if ((rc = offer(v, b, i)) < 0 || (l->prev != END && (rc = offer(v, b, l->prev)) < 0))
            return rc;
    }
    for (uint32_t i = 0; i != END; i = b->sym[i].next)
        if ((rc = aq_toks_put(out, (int32_t)b->sym[i].id)) < 0)
            return rc;
    return 0;
}
