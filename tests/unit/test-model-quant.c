/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types: decoding bit for bit against stored blocks, halves both ways over all bit patterns. */
#include "model-priv.h"
#include "tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static int load(const char *path, aq_bytes *ret)
{
    FILE *f = fopen(path, "rb");
    uint8_t buf[4096];
    size_t n;
    if (!f)
        return -errno;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        if (aq_bytes_put(ret, buf, n) < 0)
            abort();
    fclose(f);
    return 0;
}

typedef struct tally {
    int n_ok, n_bad, n_skipped;
    int64_t bad;
    char name[16];
} tally;

static void line(void *user, const char *name, uint32_t type, int64_t bad, const char *why)
{
    tally *t = user;
    t->n_skipped += why != NULL;
    t->n_ok += !why && bad < 0;
    if (!why && bad >= 0) {
        t->n_bad++;
        t->bad = bad;
        snprintf(t->name, sizeof t->name, "%s", name);
    }
}

static void golden(const char *path, const char *what, int n_types, bool may_lack)
{
    aq_bytes b = {0};
    tally t = {0};
    aq_err err = {0};
    if (load(path, &b) < 0) {
        if (may_lack)
            tap_skip(what, "the reference data are not beside the checkout");
        else
            ok(false, "%s: cannot read %s", what, path);
        return;
    }
    int rc = aq_dequant_check(b.p, b.n, line, &t, &err);
    ok(rc == 0 && t.n_ok == n_types && !t.n_bad,
       "%s: %d types to the bit (%d differ, %d not read by this version) %s", what, t.n_ok, t.n_bad,
       t.n_skipped, err.text);

    /* a flipped bit in the last record's last value must be seen, and where */
    if (!may_lack) {
        t = (tally){0};
        b.p[b.n - 4] ^= 1;
        rc = aq_dequant_check(b.p, b.n, line, &t, &err);
        ok(rc == -AQ_E_MISMATCH && t.n_bad == 1 && t.bad == 8 * 64 - 1 && !strcmp(t.name, "q2_0"),
           "a flipped bit is found at value %lld of %s", (long long)t.bad, t.name);
        rc = aq_dequant_check(b.p, b.n - 1, line, &t, &err);
        ok(rc == -AQ_E_FORMAT, "data cut short: %s", err.text);
        b.p[0] = 'X';
        rc = aq_dequant_check(b.p, b.n, line, &t, &err);
        ok(rc == -AQ_E_FORMAT, "another magic: %s", err.text);
    }
    aq_bytes_clear(&b);
}

static float from_bits(uint32_t b)
{
    float f;
    memcpy(&f, &b, 4);
    return f;
}

/** What a half stands for, by its definition. */
static double half_value(uint32_t h)
{
    int exp = h >> 10 & 31, man = h & 0x3ff;
    double v = exp == 31 ? (man ? NAN : INFINITY)
               : exp     ? ldexp(1024 + man, exp - 25)
                         : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static void halves(void)
{
    int bad_value = 0, bad_back = 0, bad_round = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        double want = half_value(h);
        float got = aq_f16_to_f32((uint16_t)h);
        if (isnan(want)) {
            bad_value += !isnan(got);
            bad_back += !isnan(aq_f16_to_f32(aq_f32_to_f16(got)));
            continue;
        }
        bad_value += (double)got != want || (signbit(got) != 0) != (h >> 15);
        bad_back += aq_f32_to_f16(got) != h;
    }
    /* between two neighbours: below the middle down, above up, the middle itself to the even one */
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float mid = (float)((half_value(h) + half_value(h + 1)) / 2);
        bad_round += aq_f32_to_f16(mid) != (h & 1 ? h + 1 : h);
        bad_round += aq_f32_to_f16(nextafterf(mid, 0)) != h;
        bad_round += aq_f32_to_f16(nextafterf(mid, INFINITY)) != h + 1;
        bad_round += aq_f32_to_f16(-mid) != (0x8000 | (h & 1 ? h + 1 : h));
    }
    ok(!bad_value, "every half becomes the float it stands for (%d wrong)", bad_value);
    ok(!bad_back, "and comes back (%d wrong)", bad_back);
    ok(!bad_round, "between halves: to the nearest, ties to even (%d wrong)", bad_round);
    ok(aq_f32_to_f16(65519.996f) == 0x7bff && aq_f32_to_f16(65520.0f) == 0x7c00 &&
           aq_f32_to_f16(-INFINITY) == 0xfc00 && aq_f32_to_f16(1e30f) == 0x7c00,
       "too large for a half is infinity, from 65520 on");
    ok(aq_f32_to_f16(from_bits(1)) == 0 && aq_f32_to_f16(0x1p-25f) == 0 &&
           aq_f32_to_f16(0x1.8p-25f) == 1,
       "too small for a half is zero");
}

static void table(void)
{
    int n = 0, n_exact = 0;
    for (uint32_t id = 0; id < 256; id++) {
        const aq_type *t = aq_type_get(id);
        n += t && t->id == id && t->block_vals && t->block_bytes && *t->name;
        n_exact += t && t->dequant;
    }
    ok(n == 35 && n_exact == 28, "%d types known by name and size, %d decoded", n, n_exact);
    ok(!aq_type_get(4) && !aq_type_get(0xffffffff), "a type never heard of is none");
    float one;
    aq_type_get(AQ_T_BF16)->dequant((const uint8_t[]){0x80, 0xbf}, &one, 1);
    ok(one == -1, "BF16 is the upper half of a float");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    golden(argv[1], "stored blocks", 27, false);
    golden(argv[2], "all reference blocks", 27, true);
    halves();
    table();
    return tap_done();
}
