/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: every code point there and back, and every short sequence against the ranges of Unicode
 * table 3-7. */
#include "aq/base.h"
#include "tap.h"

static bool in(uint8_t v, uint8_t lo, uint8_t hi)
{
    return v >= lo && v <= hi;
}

/* Length of the well-formed sequence at the start of four bytes, or 0: table 3-7, row by row. */
static uint32_t well_formed(const uint8_t *b)
{
    bool c2 = in(b[2], 0x80, 0xBF), c3 = in(b[3], 0x80, 0xBF);

    if (b[0] <= 0x7F)
        return 1;
    if (in(b[0], 0xC2, 0xDF))
        return in(b[1], 0x80, 0xBF) ? 2 : 0;
    if (b[0] == 0xE0)
        return in(b[1], 0xA0, 0xBF) && c2 ? 3 : 0;
    if (in(b[0], 0xE1, 0xEC) || in(b[0], 0xEE, 0xEF))
        return in(b[1], 0x80, 0xBF) && c2 ? 3 : 0;
    if (b[0] == 0xED)
        return in(b[1], 0x80, 0x9F) && c2 ? 3 : 0;
    if (b[0] == 0xF0)
        return in(b[1], 0x90, 0xBF) && c2 && c3 ? 4 : 0;
    if (in(b[0], 0xF1, 0xF3))
        return in(b[1], 0x80, 0xBF) && c2 && c3 ? 4 : 0;
    if (b[0] == 0xF4)
        return in(b[1], 0x80, 0x8F) && c2 && c3 ? 4 : 0;
    return 0;
}

static void test_round_trip(void)
{
    bool good = true;

    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char s[4];
        uint32_t back = 1;
        bool bad = true;

        if (cp >= 0xD800 && cp <= 0xDFFF)
            continue;
        uint32_t n = aq_utf8_put(cp, s);
        good = good && aq_utf8_next(s, n, &back, &bad) == n && back == cp && !bad;
    }
    ok(good, "every code point there and back");
    char s[4];
    ok(aq_utf8_put(0xD800, s) == 3 && memcmp(s, "\xEF\xBF\xBD", 3) == 0 &&
           aq_utf8_put(0x110000, s) == 3,
       "what is no code point becomes U+FFFD");
    ok(aq_utf8_put(0x20AC, s) == 3 && memcmp(s, "\xE2\x82\xAC", 3) == 0 &&
           aq_utf8_put(0x1F600, s) == 4 && memcmp(s, "\xF0\x9F\x98\x80", 4) == 0,
       "known bytes");
}

static void test_sequences(void)
{
    static const uint8_t thirds[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
    bool agree = true;

    for (int b0 = 0; b0 < 256; b0++)
        for (int b1 = 0; b1 < 256; b1++)
            for (size_t i = 0; i < AQ_LEN(thirds) * AQ_LEN(thirds); i++) {
                uint8_t b[4] = {(uint8_t)b0, (uint8_t)b1, thirds[i % AQ_LEN(thirds)],
                                thirds[i / AQ_LEN(thirds)]};
                uint32_t want = well_formed(b), cp = 0;
                bool bad;
                uint32_t got = aq_utf8_next((const char *)b, 4, &cp, &bad);

                agree = agree && (want ? got == want && !bad : got == 1 && bad && cp == 0xFFFD);
            }
    ok(agree, "every sequence agrees with the table");
}

static void test_short(void)
{
    uint32_t cp = 5;
    bool bad = true;

    ok(aq_utf8_next("", 0, &cp, &bad) == 0 && cp == 5, "nothing left, nothing taken");
    ok(aq_utf8_next("\xF0\x9F\x98\x80", 3, &cp, &bad) == 1 && bad && cp == 0xFFFD,
       "a character cut off by the end");
    ok(aq_utf8_next("\xE2\x82\xAC", 3, &cp, NULL) == 3 && cp == 0x20AC, "the flag may be left out");
}

int main(void)
{
    test_round_trip();
    test_sequences();
    test_short();
    return tap_done();
}
