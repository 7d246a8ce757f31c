/* SPDX-License-Identifier: Apache-2.0 */
/* Control payloads: what is taken, what is refused, limits one below, at and one above. */
#include "tap.h"
#include "wire-priv.h"

static int parse(const char *s, size_t n, aq_kv *kv)
{
    aq_err err = {0};
    int rc = aq_kv_parse(s, n, kv, &err);

    return rc < 0 && (err.code != -rc || !err.text[0]) ? 99 : rc;
}

static void test_good(void)
{
    static const char text[] = "a=1\nb_2=x=y\nempty=\nname=J\xc3\xbcrgen's PC\nlater=anything\n";
    aq_kv kv;
    uint64_t x = 0;
    uint32_t n = 9;
    char s[32];

    ok(parse(text, sizeof text - 1, &kv) == 0 && kv.n_line == 5, "five lines");
    ok(aq_kv_u64(&kv, "a", true, 1, &x, NULL) == 1 && x == 1, "a number");
    ok(aq_kv_text(&kv, "b_2", true, s, sizeof s, NULL) == 1 && strcmp(s, "x=y") == 0,
       "a value with =");
    ok(aq_kv_get(&kv, "empty", &n) && n == 0, "an empty value");
    ok(aq_kv_text(&kv, "name", true, s, sizeof s, NULL) == 1 &&
           strcmp(s, "J\xc3\xbcrgen's PC") == 0,
       "UTF-8");
    ok(aq_kv_text(&kv, "name", true, s, 13, NULL) == 1, "a text that just fits");
    ok(aq_kv_text(&kv, "name", true, s, 12, NULL) == -AQ_E_LIMIT, "a text one byte too long");
    x = 77;
    ok(aq_kv_u64(&kv, "nothere", false, 1, &x, NULL) == 0 && x == 77,
       "an absent key leaves the default");
    ok(aq_kv_u64(&kv, "nothere", true, 1, &x, NULL) == -AQ_E_FORMAT,
       "an absent key that is needed");
    ok(!aq_kv_get(&kv, "nam", &n) && !aq_kv_get(&kv, "names", &n), "no prefix of a key is the key");
    ok(parse("", 0, &kv) == 0 && kv.n_line == 0, "no payload");
}

static void test_bad(void)
{
    static const struct {
        const char *s;
        size_t n;
        const char *what;
    } cases[] = {
        {"a=1", 3, "no end of line"},
        {"a\n", 2, "no ="},
        {"=1\n", 3, "no key"},
        {"A=1\n", 4, "a capital"},
        {"1a=1\n", 5, "a digit first"},
        {"_a=1\n", 5, "an underscore first"},
        {"\n", 1, "an empty line"},
        {"a=1\n\nb=2\n", 9, "an empty line between"},
        {"a=1\na=1\n", 8, "a key twice"},
        {"a=\0\n", 4, "a NUL"},
        {"a=\r\n", 4, "a CR"},
        {"a=\t\n", 4, "a tab"},
        {"a=\x7f\n", 4, "a DEL"},
        {"a=\xff\n", 4, "a byte that is not UTF-8"},
        {"a=\xc3\n", 4, "half a letter"},
        {"a b=1\n", 6, "a space in a key"},
        {"a =1\n", 5, "a space before ="},
    };
    aq_kv kv;

    for (size_t i = 0; i < AQ_LEN(cases); i++)
        ok(parse(cases[i].s, cases[i].n, &kv) == -AQ_E_FORMAT, "%s", cases[i].what);
}

static void test_limits(void)
{
    static char text[AQ_WIRE_CTL_MAX + 16];
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_kv kv;

    for (int d = -1; d <= 1; d++) {
        size_t n = (size_t)((int)AQ_WIRE_KEY_MAX + d);
        memset(text, 'k', n);
        memcpy(text + n, "=1\n", 3);
        ok(parse(text, n + 3, &kv) == (d > 0 ? -AQ_E_LIMIT : 0), "a key of %zu bytes", n);

        n = (size_t)((int)AQ_WIRE_VALUE_MAX + d);
        memcpy(text, "key=", 4);
        memset(text + 4, 'v', n);
        text[4 + n] = '\n';
        ok(parse(text, n + 5, &kv) == (d > 0 ? -AQ_E_LIMIT : 0), "a value of %zu bytes", n);

        b.n = 0;
        int rc = 0;
        for (int i = 0; i < (int)AQ_WIRE_LINES_MAX + d; i++)
            rc |= aq_bytes_putf(&b, "k%d=\n", i);
        ok(rc == 0 && parse((char *)b.p, b.n, &kv) == (d > 0 ? -AQ_E_LIMIT : 0), "%d lines",
           (int)AQ_WIRE_LINES_MAX + d);

        n = (size_t)((int)AQ_WIRE_CTL_MAX + d);
        memcpy(text, "roster=", 7);
        memset(text + 7, 'r', n - 8);
        text[n - 1] = '\n';
        ok(parse(text, n, &kv) == (d > 0 ? -AQ_E_LIMIT : 0), "a payload of %zu bytes, one roster",
           n);
    }
}

static void test_values(void)
{
    static const struct {
        const char *s;
        uint64_t max, want;
        int rc;
    } nums[] = {
        {"0", 0, 0, 1},
        {"7", 7, 7, 1},
        {"8", 7, 0, -AQ_E_LIMIT},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX, 1},
        {"18446744073709551616", UINT64_MAX, 0, -AQ_E_FORMAT},
        {"99999999999999999999", UINT64_MAX, 0, -AQ_E_FORMAT},
        {"100000000000000000000", UINT64_MAX, 0, -AQ_E_FORMAT},
        {"", 9, 0, -AQ_E_FORMAT},
        {"00", 9, 0, -AQ_E_FORMAT},
        {"01", 9, 0, -AQ_E_FORMAT},
        {"-1", 9, 0, -AQ_E_FORMAT},
        {"+1", 9, 0, -AQ_E_FORMAT},
        {" 1", 9, 0, -AQ_E_FORMAT},
        {"1 ", 9, 0, -AQ_E_FORMAT},
        {"0x1", 9, 0, -AQ_E_FORMAT},
    };
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_kv kv;

    for (size_t i = 0; i < AQ_LEN(nums); i++) {
        uint64_t x = 0;
        b.n = 0;
        ok(aq_bytes_putf(&b, "n=%s\n", nums[i].s) == 0 && parse((char *)b.p, b.n, &kv) == 0 &&
               aq_kv_u64(&kv, "n", true, nums[i].max, &x, NULL) == nums[i].rc && x == nums[i].want,
           "the number '%s', at most %llu", nums[i].s, (unsigned long long)nums[i].max);
    }
    static const struct {
        const char *s;
        bool good;
    } hexes[] = {{"00ff", true},  {"00f", false},  {"00ff0", false},
                 {"00fg", false}, {"00FF", false}, {"", false}};
    for (size_t i = 0; i < AQ_LEN(hexes); i++) {
        uint8_t h[2] = {9, 9};
        b.n = 0;
        ok(aq_bytes_putf(&b, "h=%s\n", hexes[i].s) == 0 && parse((char *)b.p, b.n, &kv) == 0 &&
               aq_kv_hex(&kv, "h", true, h, 2, NULL) == (hexes[i].good ? 1 : -AQ_E_FORMAT) &&
               h[0] == (hexes[i].good ? 0 : 9) && h[1] == (hexes[i].good ? 0xff : 9),
           "the digits '%s'", hexes[i].s);
    }
}

static void test_put(void)
{
    static char big[3000];
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    const uint8_t id[3] = {0xab, 0, 0x10};
    uint64_t bits = 0;
    uint32_t n = 0;
    aq_kv kv;

    memset(big, 'x', sizeof big - 1);
    memcpy(big + AQ_WIRE_VALUE_MAX - 1, "\xc3\xbc", 2); /* would be cut in its middle */
    ok(aq_kv_put_text(&b, "t", "two\nlines\x01\xff=") == 0 &&
           aq_kv_put_u64(&b, "n", UINT64_MAX) == 0 && aq_kv_put_hex(&b, "h", id, 3) == 0 &&
           aq_kv_put_bits(&b, "f", 0x8000000000000001) == 0 && aq_kv_put_text(&b, "big", big) == 0,
       "written");
    static const char want[] =
        "t=two lines ?=\nn=18446744073709551615\nh=ab0010\nf=8000000000000001\n";
    ok(b.n > sizeof want && memcmp(b.p, want, sizeof want - 1) == 0, "what was written");
    ok(parse((char *)b.p, b.n, &kv) == 0 && kv.n_line == 5, "and it is read");
    ok(aq_kv_bits(&kv, "f", true, &bits, NULL) == 1 && bits == 0x8000000000000001, "bits");
    ok(aq_kv_get(&kv, "big", &n) && n == AQ_WIRE_VALUE_MAX - 1,
       "a long text is cut at a letter's edge");
}

int main(void)
{
    test_good();
    test_bad();
    test_limits();
    test_values();
    test_put();
    return tap_done();
}
