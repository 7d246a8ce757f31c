/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: records from one writer thread to one reader thread, lock-free.
 *
 *   record:  | n (4) | 0 (4) | payload, n bytes | zero to seven bytes up to a multiple of 8 |
 *   filler:  | FILLER (4) | 0 (4) | ... up to the end of the data |
 *
 * `head` and `tail` only grow; the place in data is the value modulo cap. A record never wraps:
 * where it would, a filler takes the rest and the record starts at the front. A record takes at
 * most half the ring, else an empty ring could have no room for filler and record together and the
 * writer would wait for ever.
 *
 * The reader gives a record's bytes back at its next pop, since the caller reads them in place
 * until then. Writer: store head, then load tail; reader: store tail, then load head; all four
 * sequentially consistent. So when the reader found nothing, the writer of the next record sees
 * that the ring was empty and wakes it: no wake is lost. */
#include "aq/base.h"

#define CAP_MIN (4u << 10)
#define CAP_MAX (16u << 20)
#define RECORD_HEAD 8u
#define FILLER UINT32_MAX
#define LINE 64 /* bytes of a cache line: writer's and reader's words are kept apart */

struct aq_ring {
    uint64_t cap; /* power of two */
    uint8_t gap0[LINE - 8];
    _Atomic uint64_t head; /* bytes ever written; only the writer stores it */
    uint8_t gap1[LINE - 8];
    _Atomic uint64_t tail; /* bytes ever given back; only the reader stores it */
    uint64_t next;         /* reader's own: where its next record starts */
    uint8_t gap2[LINE - 16];
    uint8_t data[];
};

aq_ring *aq_ring_new(uint32_t cap_bytes)
{
    uint64_t cap = CAP_MIN;

    while (cap < cap_bytes && cap < CAP_MAX)
        cap *= 2;
    aq_ring *r = calloc(1, sizeof *r + cap);
    if (r)
        r->cap = cap;
    return r;
}

void aq_ring_free(aq_ring *r)
{
    free(r);
}

static void put_head(aq_ring *r, uint64_t at, uint32_t n)
{
    uint32_t words[2] = {n, 0};

    memcpy(r->data + (at & (r->cap - 1)), words, sizeof words);
}

int aq_ring_push(aq_ring *r, const void *head, uint32_t n_head, const void *body, uint32_t n_body)
{
    uint64_t n = (uint64_t)n_head + n_body;
    uint64_t need = RECORD_HEAD + ((n + 7) & ~7ull);

    if (need > r->cap / 2)
        return -AQ_E_LIMIT;
    uint64_t old = atomic_load_explicit(&r->head, memory_order_relaxed), at = old;
    uint64_t to_end = r->cap - (at & (r->cap - 1));
    uint64_t filler = to_end < need ? to_end : 0;
    if (at + filler + need - atomic_load_explicit(&r->tail, memory_order_acquire) > r->cap)
        return -AQ_E_BUSY;

    if (filler > 0) { /* a multiple of 8, so its head fits */
        put_head(r, at, FILLER);
        at += filler;
    }
    put_head(r, at, (uint32_t)n);
    uint8_t *p = r->data + (at & (r->cap - 1)) + RECORD_HEAD;
    if (n_head > 0)
        memcpy(p, head, n_head);
    if (n_body > 0)
        memcpy(p + n_head, body, n_body);
    atomic_store(&r->head, at + need);
    return atomic_load(&r->tail) == old;
}

int aq_ring_pop(aq_ring *r, const void **ret, uint32_t *ret_n)
{
    if (atomic_load_explicit(&r->tail, memory_order_relaxed) != r->next)
        atomic_store(&r->tail, r->next);
    if (atomic_load(&r->head) == r->next)
        return 0;

    uint64_t at = r->next, mask = r->cap - 1;
    uint32_t n;
    memcpy(&n, r->data + (at & mask), sizeof n);
    if (n == FILLER) { /* its record was published with it */
        at += r->cap - (at & mask);
        memcpy(&n, r->data + (at & mask), sizeof n);
    }
    *ret = r->data + (at & mask) + RECORD_HEAD;
    *ret_n = n;
    r->next = at + RECORD_HEAD + (((uint64_t)n + 7) & ~7ull);
    return 1;
}

uint32_t aq_ring_free_bytes(const aq_ring *r)
{
    /* tail first: a head older than the tail would make the difference negative. */
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t used = atomic_load_explicit(&r->head, memory_order_acquire) - tail;

    return used > r->cap ? 0 : (uint32_t)(r->cap - used);
}
