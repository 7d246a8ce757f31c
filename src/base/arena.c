/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: chunks from calloc, each handed out front to back, all freed at once. One thread at a
 * time.
 *
 *   arena -> chunk (newest, may be half full) -> chunk -> ... -> NULL
 *
 * A request larger than a quarter of the chunk size gets a chunk of its own behind the newest one,
 * so that at most a quarter of any chunk is wasted. */
#include "base-priv.h"

#define CHUNK_FIRST 4096u
#define CHUNK_MAX (1u << 20)

struct chunk {
    struct chunk *next;
    size_t n, cap;
    _Alignas(16) uint8_t data[];
};

struct aq_arena {
    struct chunk *head;
    size_t used, limit; /* bytes, sizes rounded up to 16 */
    size_t chunk_size;  /* of the next ordinary chunk */
};

aq_arena *aq_arena_new(size_t limit_bytes)
{
    aq_arena *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->limit = limit_bytes == 0 ? AQ_BYTES_MAX : AQ_MIN(limit_bytes, AQ_BYTES_MAX);
    a->chunk_size = CHUNK_FIRST;
    return a;
}

void aq_arena_free(aq_arena *a)
{
    if (!a)
        return;
    for (struct chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(a);
}

/* n rounded up to 16, at least 16; n must be <= AQ_BYTES_MAX. */
static size_t rounded(size_t n)
{
    return n == 0 ? 16 : (n + 15) & ~(size_t)15;
}

bool aq_arena_fits(const aq_arena *a, size_t n)
{
    return n <= a->limit && rounded(n) <= a->limit - a->used;
}

static struct chunk *chunk_new(size_t cap)
{
    struct chunk *c = calloc(1, sizeof *c + cap);

    if (c)
        c->cap = cap;
    return c;
}

void *aq_arena_alloc(aq_arena *a, size_t n)
{
    if (!aq_arena_fits(a, n))
        return NULL;
    n = rounded(n);

    struct chunk *c = a->head;
    if (!c || c->cap - c->n < n) {
        bool own = n > a->chunk_size / 4;

        c = chunk_new(own ? n : AQ_MIN(a->chunk_size, a->limit - a->used));
        if (!c)
            return NULL;
        if (own && a->head) {
            c->next = a->head->next;
            a->head->next = c;
        } else {
            c->next = a->head;
            a->head = c;
        }
        if (!own)
            a->chunk_size = AQ_MIN(a->chunk_size * 2, CHUNK_MAX);
    }
    void *p = c->data + c->n;
    c->n += n;
    a->used += n;
    return p;
}

char *aq_arena_strndup(aq_arena *a, const char *s, size_t n)
{
    if (n >= AQ_BYTES_MAX)
        return NULL;
    char *p = aq_arena_alloc(a, n + 1);
    if (p && n > 0)
        memcpy(p, s, n);
    return p;
}

size_t aq_arena_used(const aq_arena *a)
{
    return a->used;
}
