/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: alignment, zeroes, no overlap, its limit, and every allocation failing. */
#include "torture.h"

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void test_blocks(void)
{
    enum { N = 2000 };
    static uint8_t *blocks[N];
    static size_t sizes[N];
    aq_arena *a = aq_arena_new(0);
    uint32_t seed = 7;
    size_t sum = 0;
    bool aligned = true, zero = true, whole = true;

    for (int i = 0; i < N; i++) {
        sizes[i] = next_random(&seed) % (i % 50 == 0 ? 100000 : 200);
        blocks[i] = aq_arena_alloc(a, sizes[i]);
        aligned = aligned && blocks[i] && (uintptr_t)blocks[i] % 16 == 0;
        for (size_t k = 0; k < sizes[i]; k++)
            zero = zero && blocks[i][k] == 0;
        memset(blocks[i], i & 255, sizes[i]);
        sum += sizes[i];
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            whole = whole && blocks[i][k] == (uint8_t)i;
    ok(aligned, "every block is 16-byte aligned");
    ok(zero, "every block is zeroed");
    ok(whole, "no block overlaps another");
    ok(aq_arena_used(a) >= sum && aq_arena_used(a) <= sum + 16 * N,
       "used counts the bytes, rounded up to 16");
    char *s = aq_arena_strndup(a, "abcdef", 3);
    ok(s && strcmp(s, "abc") == 0, "strndup copies and ends");
    s = aq_arena_strndup(a, NULL, 0);
    ok(s && s[0] == 0, "strndup of nothing");
    aq_arena_free(a);
    aq_arena_free(NULL);
}

static void test_limit(void)
{
    aq_arena *a = aq_arena_new(4096);
    int n = 0;

    while (aq_arena_alloc(a, 100))
        n++;
    ok(n == 36 && aq_arena_used(a) == 36 * 112, "the limit holds to the block (%d)", n);
    ok(aq_arena_alloc(a, 4096 - 36 * 112) && !aq_arena_alloc(a, 1) && aq_arena_used(a) == 4096,
       "and can be reached");
    aq_arena_free(a);
    a = aq_arena_new(0);
    ok(!aq_arena_alloc(a, SIZE_MAX) && !aq_arena_alloc(a, SIZE_MAX - 15) &&
           !aq_arena_alloc(a, AQ_BYTES_MAX + 1) && !aq_arena_strndup(a, "", SIZE_MAX) &&
           aq_arena_used(a) == 0,
       "absurd sizes are refused");
    aq_arena_free(a);
}

static int use(void *user)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);

    if (!a)
        return -AQ_E_NOMEM;
    for (int i = 0; i < 300; i++) {
        size_t used = aq_arena_used(a);
        char *p =
            i % 20 == 0 ? aq_arena_alloc(a, 3000) : aq_arena_strndup(a, "a text of some bytes", 20);

        if (!p)
            return aq_arena_used(a) == used ? -AQ_E_NOMEM : -AQ_E_MISMATCH;
    }
    return AQ_OK;
}

int main(void)
{
    test_blocks();
    test_limit();
    torture("arena", use, NULL);
    return tap_done();
}
