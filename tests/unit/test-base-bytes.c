/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer: content over many appends, limits, and every allocation failing. */
#include "torture.h"

static void test_content(void)
{
    aq_bytes b = {0};
    bool good = true;
    uint8_t block[97];

    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)(i * 31 % 98);

        memset(block, i & 255, sizeof block);
        good = good && aq_bytes_put(&b, block, n) == AQ_OK && b.n <= b.cap;
    }
    size_t at = 0;
    for (int i = 0; i < 3000; i++)
        for (int k = 0; k < i * 31 % 98; k++)
            good = good && b.p[at++] == (uint8_t)i;
    ok(good && at == b.n, "3,000 appends stand one after the other");
    aq_bytes_clear(&b);
    ok(!b.p && b.n == 0 && b.cap == 0, "clear empties");
    aq_bytes_clear(NULL);

    ok(aq_bytes_put(&b, NULL, 0) == AQ_OK && b.n == 0, "nothing appended from nowhere");
    const char *s = aq_bytes_str(&b);
    ok(s && strcmp(s, "") == 0, "an empty buffer is an empty string");
    ok(aq_bytes_puts(&b, "ab") == AQ_OK && aq_bytes_putf(&b, "%d-%s", 42, "cd") == AQ_OK &&
           b.n == 7,
       "putf counts without the NUL");
    s = aq_bytes_str(&b);
    ok(s && strcmp(s, "ab42-cd") == 0 && b.n == 7, "the string view");
    ok(aq_bytes_putf(&b, "%0500d", 1) == AQ_OK && b.n == 507 && b.p[506] == '1' && b.p[7] == '0',
       "putf past the capacity");
    aq_bytes_clear(&b);
}

/* The NUL that vsnprintf writes has its place, whatever the length; the whole capacity may be
 * written. */
static void test_capacity(void)
{
    bool room = true;

    for (int n = 0; n < 300; n++) {
        aq_bytes b = {0};

        room = room && aq_bytes_putf(&b, "%*s", n, "") == AQ_OK && b.n == (size_t)n && b.n < b.cap;
        memset(b.p, 0, b.cap);
        aq_bytes_clear(&b);
    }
    ok(room, "putf of every length up to 300");
}

static void test_limits(void)
{
    uint8_t one[4] = {1, 2, 3, 4};
    /* Only the numbers of this one are looked at. */
    aq_bytes full = {.p = one, .n = AQ_BYTES_MAX - 2, .cap = AQ_BYTES_MAX - 2};
    aq_bytes none = {0};

    ok(aq_bytes_put(&full, one, 3) == -AQ_E_LIMIT && full.n == AQ_BYTES_MAX - 2 && full.p == one,
       "no growth past the limit");
    ok(aq_bytes_putf(&full, "abc") == -AQ_E_LIMIT && full.n == AQ_BYTES_MAX - 2, "putf neither");
    ok(aq_bytes_reserve(&none, SIZE_MAX) == -AQ_E_LIMIT &&
           aq_bytes_reserve(&none, AQ_BYTES_MAX + 1) == -AQ_E_LIMIT && !none.p,
       "absurd sizes are refused before any arithmetic");
}

static int use(void *user)
{
    aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "start");

    for (int i = 0; rc == AQ_OK && i < 100; i++) {
        aq_bytes before = b;

        rc = i % 2 ? aq_bytes_putf(&b, "line %d;", i) : aq_bytes_put(&b, "0123456789", 10);
        if (rc < 0 && (b.p != before.p || b.n != before.n || b.cap != before.cap ||
                       memcmp(b.p, "start", 5) != 0))
            rc = -AQ_E_MISMATCH; /* a failure must leave the buffer as it was */
    }
    if (rc == AQ_OK && !aq_bytes_str(&b))
        rc = -AQ_E_NOMEM;
    aq_bytes_clear(&b);
    return rc;
}

int main(void)
{
    test_content();
    test_capacity();
    test_limits();
    torture("bytes", use, NULL);
    return tap_done();
}
