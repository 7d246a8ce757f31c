/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: one thread's rules first, then a writer and a reader over hundreds of turns with a
 * wake per emptiness. */
#include "torture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#define CAP 4096u
#define RECORD_MAX (CAP / 2 - 8)

static void test_rules(void)
{
    static uint8_t big[RECORD_MAX + 1];
    aq_ring *r = aq_ring_new(1);
    const void *p = NULL;
    uint32_t n = 99;

    ok(aq_ring_free_bytes(r) == CAP, "the smallest ring");
    ok(aq_ring_pop(r, &p, &n) == 0 && !p && n == 99, "an empty ring gives nothing");
    ok(aq_ring_push(r, "head", 4, "body", 4) == 1, "the first record says: was empty");
    ok(aq_ring_push(r, NULL, 0, NULL, 0) == 0, "the second one does not");
    ok(aq_ring_pop(r, &p, &n) == 1 && n == 8 && memcmp(p, "headbody", 8) == 0 &&
           (uintptr_t)p % 8 == 0,
       "both parts joined");
    ok(aq_ring_push(r, "x", 1, NULL, 0) == 0, "a record in the reader's hands still counts");
    ok(memcmp(p, "headbody", 8) == 0, "and stays valid");
    ok(aq_ring_pop(r, &p, &n) == 1 && n == 0 && aq_ring_pop(r, &p, &n) == 1 && n == 1 &&
           *(const char *)p == 'x',
       "in order");
    ok(aq_ring_pop(r, &p, &n) == 0 && aq_ring_free_bytes(r) == CAP,
       "all given back at the pop that finds nothing");
    ok(aq_ring_push(r, "y", 1, NULL, 0) == 1, "empty again");
    ok(aq_ring_pop(r, &p, &n) == 1 && aq_ring_pop(r, &p, &n) == 0, "taken again");

    ok(aq_ring_push(r, big, RECORD_MAX + 1, NULL, 0) == -AQ_E_LIMIT &&
           aq_ring_push(r, big, UINT32_MAX, big, UINT32_MAX) == -AQ_E_LIMIT,
       "a record of more than half the ring can never fit");
    /* From any place in the ring, an empty ring takes the largest record. */
    bool always = true;
    for (int i = 0; i < 700; i++) {
        always = always && aq_ring_push(r, big, RECORD_MAX, NULL, 0) == 1 &&
                 aq_ring_pop(r, &p, &n) == 1 && n == RECORD_MAX && aq_ring_pop(r, &p, &n) == 0;
        always = always && aq_ring_push(r, big, (uint32_t)i % 50, NULL, 0) == 1 &&
                 aq_ring_pop(r, &p, &n) == 1 && aq_ring_pop(r, &p, &n) == 0;
    }
    ok(always, "an empty ring always takes the largest record");
    aq_ring_free(r);
    aq_ring_free(NULL);

    r = aq_ring_new(UINT32_MAX);
    ok(r && aq_ring_free_bytes(r) == 16u << 20, "the largest ring");
    aq_ring_free(r);
    r = aq_ring_new(5000);
    ok(r && aq_ring_free_bytes(r) == 8192, "rounded up to a power of two");
    aq_ring_free(r);
}

static void test_full(void)
{
    aq_ring *r = aq_ring_new(CAP);
    const void *p;
    uint32_t n, taken = 0, got = 0;
    bool order = true;

    while (aq_ring_push(r, &taken, sizeof taken, "0123456789", 10) >= 0)
        taken++;
    ok(taken == CAP / 24 && aq_ring_push(r, "", 1, NULL, 0) >= 0 &&
           aq_ring_push(r, "0123456789", 10, NULL, 0) == -AQ_E_BUSY,
       "full after %u records", taken);
    uint32_t before = aq_ring_free_bytes(r);
    ok(aq_ring_push(r, "0123456789", 10, NULL, 0) == -AQ_E_BUSY && aq_ring_free_bytes(r) == before,
       "a full ring writes nothing");
    while (aq_ring_pop(r, &p, &n) == 1 && n == 14) {
        uint32_t v;

        memcpy(&v, p, sizeof v);
        order = order && v == got++;
    }
    ok(order && got == taken, "what was in it comes out in order");
    aq_ring_free(r);
}

/* ---- two threads ---- */

#define RECORDS 60000u

struct pair {
    aq_ring *ring;
    sem_t wake;
    uint32_t n_busy, n_wake; /* writer's */
    uint32_t n_read, n_bad;  /* reader's */
    bool lost;               /* reader's: waited in vain */
};

static uint32_t mix(uint32_t v)
{
    v ^= v >> 16;
    v *= 0x7FEB352Du;
    v ^= v >> 15;
    v *= 0x846CA68Bu;
    return v ^ v >> 16;
}

/* Record i: its head is {i, size, checksum}, its body `size` bytes made from i. */
static uint32_t body_size(uint32_t i)
{
    uint32_t m = mix(i);

    return m % 16 == 0 ? m / 16 % (RECORD_MAX - 12 + 1) : m / 16 % 100;
}

static uint32_t checksum(const uint8_t *p, uint32_t n)
{
    uint32_t sum = 2166136261u;

    for (uint32_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 16777619u;
    return sum;
}

static void *writer(void *user)
{
    struct pair *t = user;
    uint8_t body[RECORD_MAX];

    for (uint32_t i = 0; i < RECORDS; i++) {
        uint32_t head[3] = {i, body_size(i), 0};
        int rc;

        for (uint32_t k = 0; k < head[1]; k++)
            body[k] = (uint8_t)(i * 7 + k * 13);
        head[2] = checksum(body, head[1]);
        while ((rc = aq_ring_push(t->ring, head, sizeof head, body, head[1])) == -AQ_E_BUSY) {
            t->n_busy++;
            sched_yield();
        }
        if (rc == 1) {
            t->n_wake++;
            sem_post(&t->wake);
        }
    }
    return NULL;
}

static void *reader(void *user)
{
    struct pair *t = user;
    const void *p;
    uint32_t n;

    while (t->n_read < RECORDS) {
        if (aq_ring_pop(t->ring, &p, &n) == 0) {
            struct timespec until; /* only ends a hang; a lost wake would last for ever */

            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 20;
            if (sem_timedwait(&t->wake, &until) < 0) {
                t->lost = true;
                return NULL;
            }
            continue;
        }
        uint32_t head[3];
        memcpy(head, p, sizeof head);
        if (head[0] != t->n_read || n != sizeof head + head[1] || head[1] != body_size(head[0]) ||
            (uintptr_t)p % 8 != 0 || checksum((const uint8_t *)p + sizeof head, head[1]) != head[2])
            t->n_bad++;
        t->n_read++;
    }
    return NULL;
}

static void test_threads(void)
{
    struct pair t = {.ring = aq_ring_new(CAP)};
    pthread_t w, r;

    sem_init(&t.wake, 0, 0);
    pthread_create(&r, NULL, reader, &t);
    pthread_create(&w, NULL, writer, &t);
    pthread_join(r, NULL);
    if (t.lost) { /* the writer may wait for room that never comes: drain for it */
        const void *p;
        uint32_t n;

        while (pthread_tryjoin_np(w, NULL) != 0)
            aq_ring_pop(t.ring, &p, &n);
    } else {
        pthread_join(w, NULL);
    }
    printf("# %u times full, %u wakes\n", t.n_busy, t.n_wake);
    ok(!t.lost, "no wake is lost");
    ok(t.n_read == RECORDS && t.n_bad == 0, "%u records arrive whole and in order (%u did not)",
       RECORDS, t.n_bad);
    ok(t.n_wake > 0, "the reader was woken");
    sem_destroy(&t.wake);
    aq_ring_free(t.ring);
}

static int use(void *user)
{
    AQ_AUTO(aq_ring_free) aq_ring *r = aq_ring_new(CAP);

    if (!r)
        return -AQ_E_NOMEM;
    return aq_ring_push(r, "x", 1, NULL, 0);
}

int main(void)
{
    test_rules();
    test_full();
    test_threads();
    torture("ring", use, NULL);
    return tap_done();
}
