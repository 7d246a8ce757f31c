/* SPDX-License-Identifier: Apache-2.0 */
/* WINDOW and ROWS: bytes on the wire, there and back, every torn length, limits, and the rounding of
 * f16 and bf16 against an independent rule. */
#include "tap.h"
#include "torture.h"
#include "wire-priv.h"

#include <math.h>
#include <stdio.h>

static const aq_wire_fmt fmt4 = {.row_f32 = 4, .max_rows = 8, .type = AQ_ROWS_F32};

static float bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, 4);
    return x;
}

/* The nearest f16 by search among its neighbours in double: ties to even. Finite x only. */
static uint16_t f16_rule(float x)
{
    double a = fabs((double)x);
    uint32_t lo = 0, hi = 0x7c00; /* 0x7c00 stands for 65536 in the search */

    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if ((double)aq_rows_f16_to_f32((uint16_t)mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    double vl = (double)aq_rows_f16_to_f32((uint16_t)lo),
           vh = hi == 0x7c00 ? 65536.0 : (double)aq_rows_f16_to_f32((uint16_t)hi);
    uint32_t h = a - vl < vh - a ? lo : a - vl > vh - a ? hi : lo & 1 ? hi : lo;
    return (uint16_t)(h | (signbit(x) ? 0x8000u : 0u));
}

static void test_f16(void)
{
    unsigned bad = 0;
    uint64_t seed = 88172645463325252ull;

    /* Values of f16 by their definition. */
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double want =
            h >> 10 ? ldexp(1024 + (h & 1023), (int)(h >> 10) - 25) : ldexp(h & 1023, -24);
        bad += (double)aq_rows_f16_to_f32((uint16_t)h) != want ||
               (double)aq_rows_f16_to_f32((uint16_t)(h | 0x8000)) != -want;
        bad += aq_f16_from_f32((float)want) != h;
    }
    ok(bad == 0 && signbit(aq_rows_f16_to_f32(0x8000)),
       "every finite f16 is its value, and comes back");
    ok(isinf(aq_rows_f16_to_f32(0x7c00)) && isnan(aq_rows_f16_to_f32(0x7e01)) &&
           aq_f16_from_f32(-INFINITY) == 0xfc00 && isnan(aq_rows_f16_to_f32(aq_f16_from_f32(NAN))),
       "infinity and NaN");
    bad = 0;
    for (uint32_t h = 0; h < 0x7bff; h++) { /* halfway between neighbours, and just beside */
        float a = aq_rows_f16_to_f32((uint16_t)h), b = aq_rows_f16_to_f32((uint16_t)(h + 1)),
              m = (a + b) / 2;
        bad += aq_f16_from_f32(m) != ((h & 1) ? h + 1 : h) ||
               aq_f16_from_f32(nextafterf(m, 0)) != h ||
               aq_f16_from_f32(nextafterf(m, 1e9f)) != h + 1;
    }
    ok(bad == 0, "halfway goes to even, beside it to the nearer");
    bad = 0;
    for (int i = 0; i < 200000; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        float x = bits((uint32_t)seed % 0x48000000u | (uint32_t)(seed >> 32 & 1) << 31);
        uint16_t want =
            fabsf(x) >= 65536 ? (uint16_t)(0x7c00 | (signbit(x) ? 0x8000 : 0)) : f16_rule(x);
        bad += aq_f16_from_f32(x) != want;
    }
    ok(bad == 0, "200,000 others");
}

static void test_pack(void)
{
    static const struct {
        uint32_t type;
        float x;
        bool fits;
    } cases[] = {
        {AQ_ROWS_F16, 65504, true},         {AQ_ROWS_F16, 65519.996f, true},
        {AQ_ROWS_F16, 65520, false},        {AQ_ROWS_F16, -65520, false},
        {AQ_ROWS_F16, 1e30f, false},        {AQ_ROWS_F16, INFINITY, true},
        {AQ_ROWS_F16, -INFINITY, true},     {AQ_ROWS_F16, NAN, true},
        {AQ_ROWS_BF16, 3.38e38f, true},     {AQ_ROWS_BF16, 3.4028235e38f, false},
        {AQ_ROWS_BF16, -INFINITY, true},    {AQ_ROWS_BF16, NAN, true},
        {AQ_ROWS_F32, 3.4028235e38f, true}, {AQ_ROWS_F32, NAN, true},
    };
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        float x[3] = {1, cases[i].x, 2}, y[3];
        uint8_t b[12];
        size_t n = aq_rows_pack(cases[i].type, x, 3, b);

        ok(n == (cases[i].fits ? 3u : 1u), "%s: %g %s", aq_rows_name(cases[i].type),
           (double)cases[i].x, cases[i].fits ? "fits" : "does not fit");
        if (n == 3) {
            aq_rows_unpack(cases[i].type, b, 3, y);
            ok(y[0] == 1 && y[2] == 2 &&
                   (isnan(x[1])   ? isnan(y[1])
                    : isinf(x[1]) ? y[1] == x[1]
                                  : isfinite(y[1])),
               "and stays what it is");
        }
    }
    unsigned bad = 0;
    for (uint32_t h = 0; h < 0x7f80;
         h++) { /* bf16: its value, halfway to even, beside it the nearer */
        float a = bits(h << 16), m = bits(h << 16 | 0x8000), below = bits(h << 16 | 0x7fff),
              above = bits(h << 16 | 0x8001);
        float x[4] = {a, m, below, above};
        uint8_t b[8];
        size_t n = aq_rows_pack(AQ_ROWS_BF16, x, 4, b);
        uint32_t want[4] = {h, (h & 1) ? h + 1 : h, h, h + 1};
        if (h == 0x7f7f) {
            bad += n != 1;
            continue;
        }
        bad += n != 4;
        for (int k = 0; k < 4; k++)
            bad += (uint32_t)(b[2 * k] | b[2 * k + 1] << 8) != want[k];
    }
    ok(bad == 0, "every finite bf16 and the three values beside it");
    for (int t = 0; t < AQ_ROWS_N; t++)
        ok(aq_rows_type(aq_rows_name((uint32_t)t)) == t, "%s by its name",
           aq_rows_name((uint32_t)t));
    ok(aq_rows_type("f64") == -1 && aq_rows_type("") == -1, "no such type");
}

static const aq_op ops[2] = {{.kind = AQ_OP_KEEP, .seq = 3, .arg = 0x1122334455667788},
                             {.kind = AQ_OP_FORK, .seq = 4, .from = 3, .arg = 1}};
static const aq_row rows[3] = {
    {3, 100, 7, 0}, {3, 101, -1, AQ_ROW_BACK}, {4, 0, 9, AQ_ROW_LOGITS | AQ_ROW_DRAFT}};
static const float values[12] = {1, 2, 3, 4, -1, -2, -3, -4, 0.5f, 0.25f, 0.125f, 0};
static const aq_hop hops[1] = {{1, 1000, 20}};

static aq_window sample(void)
{
    return (aq_window){.epoch = 9, .n_ops = 2, .n_rows = 3, .op = ops, .row = rows, .x = values};
}

static void test_window(void)
{
    aq_window w = sample();

    for (uint32_t type = 0; type < AQ_ROWS_N; type++) {
        __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
        aq_wire_fmt f = {4, 8, type};
        aq_wire_win got = {0};
        aq_hdr h = {0};
        aq_err err = {0};

        ok(aq_wire_put_window(&b, 5, &w, &f, hops, 1, &err) == 0, "%s: written",
           aq_rows_name(type));
        size_t want = 24 + 24 + 12 + 2 * 24 + 3 * 16 + 12 * aq_rows_elem_bytes(type);
        aq_cur c = {.p = b.p, .n = b.n};
        ok(b.n == want &&
               aq_wire_get_hdr(&c, AQ_LS_READY, AQ_DIALER, aq_wire_data_max(&f), &h, &err) == 1 &&
               h.type == AQ_T_WINDOW && h.seq == 5 && h.length == want - 24,
           "as long as the page says");
        ok(aq_wire_get_window(b.p + 24, b.n - 24, &f, &got, &err) == 0, "and read: %s", err.text);
        ok(got.w.epoch == 9 && got.w.n_ops == 2 && got.w.n_rows == 3 && got.w.n_back == 2 &&
               got.n_hop == 1 && got.w.op[0].kind == AQ_OP_KEEP && got.w.op[0].seq == 3 &&
               got.w.op[0].arg == ops[0].arg && got.w.op[1].from == 3 &&
               memcmp(got.w.row, rows, sizeof rows) == 0 &&
               memcmp(got.w.x, values, sizeof values) == 0 &&
               memcmp(got.hop, hops, sizeof hops) == 0,
           "all of it");
        unsigned bad = 0;
        for (size_t n = 0; n < b.n - 24; n++) {
            uint8_t *copy = malloc(n ? n : 1); /* of exactly that size, for a sanitizer */
            if (copy)
                memcpy(copy, b.p + 24, n);
            bad += !copy || aq_wire_get_window(copy, n, &f, &got, &err) != -AQ_E_FORMAT;
            free(copy);
        }
        ok(bad == 0 && aq_bytes_put(&b, "x", 1) == 0 &&
               aq_wire_get_window(b.p + 24, b.n - 24, &f, &got, &err) == -AQ_E_FORMAT,
           "no shorter, no longer");
        aq_wire_win_clear(&got);
    }
}

/* Change a 16- or 32-bit field of a good payload and see the code. */
static void test_window_faults(void)
{
    static const struct {
        size_t off;
        uint32_t width, value;
        int rc;
        const char *what;
    } cases[] = {
        {0, 2, 20, -AQ_E_FORMAT, "a head that is too short"},
        {0, 2, 26, -AQ_E_FORMAT, "a head that is not a multiple of 4"},
        {0, 2, 1028, -AQ_E_FORMAT, "a head that is too long"},
        {0, 2, 28, -AQ_E_FORMAT, "a longer head than there is"},
        {2, 1, 1, -AQ_E_MISMATCH, "another row type"},
        {2, 1, 9, -AQ_E_MISMATCH, "an unknown row type"},
        {8, 4, 4097, -AQ_E_LIMIT, "too many operations"},
        {8, 4, 0xffffffff, -AQ_E_LIMIT, "far too many operations"},
        {12, 4, 9, -AQ_E_LIMIT, "more rows than agreed"},
        {12, 4, 0xffffffff, -AQ_E_LIMIT, "far more rows"},
        {16, 4, 5, -AQ_E_MISMATCH, "another row size"},
        {20, 2, 65, -AQ_E_LIMIT, "too many hops"},
        {24 + 12, 2, 0, -AQ_E_FORMAT, "operation 0"},
        {24 + 12, 2, 6, -AQ_E_FORMAT, "operation 6"},
        {24 + 12 + 48 + 4, 4, AQ_CTX_MAX, -AQ_E_FORMAT, "a position too far"},
        {24 + 12 + 48, 4, AQ_SEQ_NONE, -AQ_E_FORMAT, "a row of no seq"},
        {24 + 12 + 48 + 12, 4, 8, -AQ_E_FORMAT, "an unknown row flag"},
        {24 + 12 + 48 + 16 + 4, 4, 102, -AQ_E_FORMAT, "a position left out"},
        {24 + 12 + 48 + 16 + 4, 4, 100, -AQ_E_FORMAT, "a position twice"},
    };
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_win got = {0};
    aq_window w = sample();
    aq_err err = {0};

    if (!ok(aq_wire_put_window(&b, 5, &w, &fmt4, hops, 1, &err) == 0, "a good window"))
        return;
    uint8_t *p = b.p + 24;
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        uint8_t old[4];
        memcpy(old, p + cases[i].off, 4);
        for (uint32_t k = 0; k < cases[i].width; k++)
            p[cases[i].off + k] = (uint8_t)(cases[i].value >> 8 * k);
        err = (aq_err){0};
        ok(aq_wire_get_window(p, b.n - 24, &fmt4, &got, &err) == cases[i].rc &&
               err.code == -cases[i].rc && err.text[0],
           "%s", cases[i].what);
        memcpy(p + cases[i].off, old, 4);
    }
    ok(aq_wire_get_window(p, b.n - 24, &fmt4, &got, &err) == 0, "unchanged it is good again");

    /* A later minor's longer head. */
    uint8_t longer[512];
    memcpy(longer, p, 24);
    memset(longer + 24, 0xee, 8);
    memcpy(longer + 32, p + 24, b.n - 48);
    longer[0] = 32;
    ok(b.n - 24 + 8 <= sizeof longer &&
           aq_wire_get_window(longer, b.n - 24 + 8, &fmt4, &got, &err) == 0 && got.w.x[0] == 1 &&
           got.w.x[11] == 0 && got.w.row[2].tok == 9,
       "a longer head is stepped over");
    aq_wire_win_clear(&got);
}

static void test_put_limits(void)
{
    static aq_op many[AQ_OPS_MAX + 1];
    static aq_hop far[AQ_WIRE_HOPS_MAX + 1];
    static aq_row nine[9];
    static float x[36];
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_win got = {0};
    aq_err err = {0};
    aq_window w = {.n_ops = AQ_OPS_MAX, .op = many};

    for (size_t i = 0; i < AQ_LEN(many); i++)
        many[i].kind = AQ_OP_FREE;
    for (uint32_t i = 0; i < 9; i++)
        nine[i].pos = i;
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, far, AQ_WIRE_HOPS_MAX, &err) == 0 &&
           aq_wire_get_window(b.p + 24, b.n - 24, &fmt4, &got, &err) == 0 &&
           got.w.n_ops == AQ_OPS_MAX && got.n_hop == AQ_WIRE_HOPS_MAX && !got.w.x,
       "as many operations and hops as there may be, no rows");
    size_t n = b.n;
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, far, AQ_WIRE_HOPS_MAX + 1, &err) == -AQ_E_LIMIT,
       "a hop more");
    w.n_ops++;
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, far, 0, &err) == -AQ_E_LIMIT, "an operation more");
    w = (aq_window){.n_rows = 8, .row = nine, .x = x};
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, NULL, 0, &err) == 0 && b.n > n, "the agreed rows");
    n = b.n;
    w.n_rows = 9;
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, NULL, 0, &err) == -AQ_E_LIMIT, "a row more");
    w = (aq_window){0};
    ok(aq_wire_put_window(&b, 1, &w, &fmt4, NULL, 0, &err) == -AQ_E_INVAL, "nothing");
    w = (aq_window){.n_rows = 3, .row = nine, .x = x};
    aq_wire_fmt f16 = {4, 8, AQ_ROWS_F16};
    x[9] = 70000;
    ok(aq_wire_put_window(&b, 1, &w, &f16, NULL, 0, &err) == -AQ_E_LIMIT &&
           strstr(err.text, "value 1 of row 2") && strstr(err.text, "70000"),
       "an overflow says where: %s", err.text);
    ok(b.n == n, "and nothing was added by any of these");
    aq_wire_fmt zero = {0, 8, 0}, wide = {AQ_WIRE_ROW_F32_MAX + 1, 8, 0},
                tall = {4, AQ_ROWS_MAX + 1, 0}, odd = {4, 8, 3};
    ok(aq_wire_put_window(&b, 1, &w, &zero, NULL, 0, &err) == -AQ_E_INVAL &&
           aq_wire_put_window(&b, 1, &w, &wide, NULL, 0, &err) == -AQ_E_INVAL &&
           aq_wire_put_window(&b, 1, &w, &tall, NULL, 0, &err) == -AQ_E_INVAL &&
           aq_wire_put_window(&b, 1, &w, &odd, NULL, 0, &err) == -AQ_E_INVAL,
       "formats outside the limits");
    aq_wire_fmt most = {AQ_WIRE_ROW_F32_MAX, AQ_ROWS_MAX, AQ_ROWS_F32};
    ok(aq_wire_data_max(&most) == AQ_WIRE_DATA_MAX, "no format makes frames longer than the limit");
    aq_wire_win_clear(&got);
}

static void test_rows(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_rows got = {0};
    aq_err err = {0};
    aq_done d = {.epoch = 9, .n_hop = 1, .n_back = 2, .x = values, .hop = hops};

    ok(aq_wire_put_rows(&b, 5, &d, &fmt4, &err) == 0 && b.n == 24 + 24 + 12 + 2 * 16 &&
           aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == 0 && got.d.epoch == 9 &&
           got.d.rc == 0 && got.d.n_back == 2 && memcmp(got.d.x, values, 32) == 0 &&
           got.d.n_hop == 1 && got.d.hop[0].self_us == 1000,
       "rows there and back");
    unsigned bad = 0;
    for (size_t n = 0; n < b.n - 24; n++)
        bad += aq_wire_get_rows(b.p + 24, n, &fmt4, &got, &err) != -AQ_E_FORMAT;
    ok(bad == 0, "no shorter");
    b.p[24 + 8] = AQ_E_GONE;
    ok(aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == -AQ_E_FORMAT,
       "rows with a status");
    b.n = 0;
    d.rc = -AQ_E_DEVICE;
    aq_fail(&d.err, AQ_E_DEVICE, "the disk of Laptop failed");
    ok(aq_wire_put_rows(&b, 6, &d, &fmt4, &err) == 0 &&
           aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == 0 &&
           got.d.rc == -AQ_E_DEVICE && got.d.err.code == AQ_E_DEVICE && !got.d.x &&
           got.d.n_back == 0 && strcmp(got.d.err.text, "the disk of Laptop failed") == 0 &&
           got.d.n_hop == 1,
       "a failure there and back");
    b.p[24 + 8] = 0;
    ok(aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == -AQ_E_FORMAT,
       "a text without a status");
    b.p[24 + 8] = AQ_E_DEVICE;
    b.p[b.n - 1] = '\n';
    ok(aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == 0 &&
           !strchr(got.d.err.text, '\n'),
       "a foreign text is cleaned");
    b.p[24 + 20] = 0xf4, b.p[24 + 21] = 1; /* 500 */
    ok(aq_wire_get_rows(b.p + 24, b.n - 24, &fmt4, &got, &err) == -AQ_E_LIMIT,
       "a text of 500 bytes");
    aq_wire_rows_clear(&got);
}

/* In the steady state neither side allocates: the same buffers serve a hundred windows. */
static int steady(void *user)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_win got = {0};
    aq_window w = sample();
    aq_err err = {0};
    int rc = aq_wire_put_window(&b, 1, &w, &fmt4, hops, 1, &err);

    if (rc == 0)
        rc = aq_wire_get_window(b.p + 24, b.n - 24, &fmt4, &got, &err);
    void *p = got.buf, *q = b.p;
    for (int i = 0; rc == 0 && i < 100; i++) {
        b.n = 0;
        if ((rc = aq_wire_put_window(&b, 1, &w, &fmt4, hops, 1, &err)) == 0)
            rc = aq_wire_get_window(b.p + 24, b.n - 24, &fmt4, &got, &err);
        if (rc == 0 && (got.buf != p || b.p != q))
            rc = -AQ_E_INVAL;
    }
    aq_wire_win_clear(&got);
    return rc;
}

int main(void)
{
    test_f16();
    test_pack();
    test_window();
    test_window_faults();
    test_put_limits();
    test_rows();
    torture("a hundred windows", steady, NULL);
    return tap_done();
}
