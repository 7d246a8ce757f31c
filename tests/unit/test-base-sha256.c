/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against the examples of FIPS 180-4, in pieces of any size; hex, compare, wipe. */
#include "torture.h"

static bool digest_is(const void *p, size_t n, size_t piece, const char *want)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();
    uint8_t sum[32];
    char hex[65];

    for (size_t i = 0; i < n; i += piece)
        if (aq_sha256_add(h, (const uint8_t *)p + i, AQ_MIN(piece, n - i)) < 0)
            return false;
    if (aq_sha256_end(h, sum) < 0)
        return false;
    aq_hex(sum, sizeof sum, hex);
    return strcmp(hex, want) == 0;
}

static int use(void *user)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();
    uint8_t sum[32];

    if (!h)
        return -AQ_E_NOMEM;
    int rc = aq_sha256_add(h, "abc", 3);
    return rc < 0 ? rc : aq_sha256_end(h, sum);
}

int main(void)
{
    static char million[1000000];
    static const char *const million_sum =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char hex[9];
    uint8_t key[16], zero[16] = {0};

    ok(digest_is("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
       "nothing");
    ok(digest_is("abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
       "abc");
    memset(million, 'a', sizeof million);
    ok(digest_is(million, sizeof million, sizeof million, million_sum), "a million a");
    ok(digest_is(million, sizeof million, 977, million_sum), "in pieces of 977");

    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();
    uint8_t sum[32] = {0};
    ok(aq_sha256_end(h, sum) == 0 && sum[0] == 0xE3, "ended");
    ok(aq_sha256_add(h, "x", 1) == -AQ_E_INVAL && aq_sha256_end(h, sum) == -AQ_E_INVAL &&
           sum[0] == 0xE3,
       "nothing may follow the end");
    aq_sha256_free(NULL);

    aq_hex((const uint8_t *)"\x00\x9f\xA5\xff", 4, hex);
    ok(strcmp(hex, "009fa5ff") == 0, "hex");
    ok(aq_mem_equal_ct("abcd", "abcd", 4) && !aq_mem_equal_ct("abcd", "abce", 4) &&
           !aq_mem_equal_ct("bbcd", "abcd", 4) && aq_mem_equal_ct("a", "b", 0),
       "compare");
    memset(key, 0x77, sizeof key);
    aq_mem_wipe(key, sizeof key);
    ok(memcmp(key, zero, sizeof key) == 0, "wipe");
    torture("sha256", use, NULL);
    return tap_done();
}
