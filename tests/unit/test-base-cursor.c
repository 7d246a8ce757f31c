/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor: little-endian values from any offset, and nothing touched when too little is left. */
#include "aq/base.h"
#include "tap.h"

/* 0x01, 0x0302, 0x07060504, 0x0F..08, 1.5f, -2.25 */
static const uint8_t data[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,
                               0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x00, 0x00, 0xC0,
                               0x3F, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xC0};

static void test_values(void)
{
    aq_cur c = {.p = data, .n = sizeof data};
    uint8_t a;
    uint16_t b;
    uint32_t d;
    uint64_t e;
    float f;
    double g;

    ok(aq_cur_get_u8(&c, &a) == 0 && a == 0x01, "u8");
    ok(aq_cur_get_u16(&c, &b) == 0 && b == 0x0302, "u16");
    ok(aq_cur_get_u32(&c, &d) == 0 && d == 0x07060504, "u32");
    ok(aq_cur_get_u64(&c, &e) == 0 && e == 0x0F0E0D0C0B0A0908ull, "u64");
    ok(aq_cur_get_f32(&c, &f) == 0 && f == 1.5f, "f32");
    ok(aq_cur_get_f64(&c, &g) == 0 && g == -2.25, "f64");
    ok(aq_cur_left(&c) == 0, "all consumed");
}

/* For each reader: with one byte too few, it fails and changes nothing; with enough it succeeds. */
static void test_short(void)
{
    static const size_t sizes[] = {1, 2, 4, 8, 4, 8, 5, 5};

    for (int k = 0; k < (int)AQ_LEN(sizes); k++) {
        for (int missing = 0; missing < 2; missing++) {
            uint8_t block[16], before[16], out[16];
            aq_cur c = {.p = block, .n = 3 + sizes[k] - (size_t)missing, .off = 3};
            const uint8_t *p = NULL;
            int rc = 1;

            memset(block, 0x5A, sizeof block);
            memset(out, 0xEE, sizeof out);
            memcpy(before, out, sizeof out);
            switch (k) {
            case 0:
                rc = aq_cur_get_u8(&c, out);
                break;
            case 1:
                rc = aq_cur_get_u16(&c, (uint16_t *)(void *)out);
                break;
            case 2:
                rc = aq_cur_get_u32(&c, (uint32_t *)(void *)out);
                break;
            case 3:
                rc = aq_cur_get_u64(&c, (uint64_t *)(void *)out);
                break;
            case 4:
                rc = aq_cur_get_f32(&c, (float *)(void *)out);
                break;
            case 5:
                rc = aq_cur_get_f64(&c, (double *)(void *)out);
                break;
            case 6:
                rc = aq_cur_get_bytes(&c, sizes[k], &p);
                break;
            default:
                rc = aq_cur_skip(&c, sizes[k]);
            }
            if (missing)
                ok(rc == -AQ_E_FORMAT && c.off == 3 && !p && memcmp(out, before, sizeof out) == 0,
                   "reader %d: one byte too few", k);
            else
                ok(rc == 0 && c.off == c.n && (k != 6 || p == block + 3) &&
                       (k > 5 || out[0] == 0x5A),
                   "reader %d: just enough", k);
        }
    }
}

static void test_absurd(void)
{
    aq_cur c = {.p = data, .n = sizeof data, .off = 2};
    const uint8_t *p = NULL;

    ok(aq_cur_skip(&c, UINT64_MAX) == -AQ_E_FORMAT &&
           aq_cur_skip(&c, UINT64_MAX - 1) == -AQ_E_FORMAT && c.off == 2,
       "a skip that would overflow");
    ok(aq_cur_get_bytes(&c, SIZE_MAX, &p) == -AQ_E_FORMAT && !p && c.off == 2,
       "bytes that would overflow");
    ok(aq_cur_get_bytes(&c, 0, &p) == 0 && p == data + 2 && c.off == 2, "no bytes");
}

int main(void)
{
    test_values();
    test_short();
    test_absurd();
    return tap_done();
}
