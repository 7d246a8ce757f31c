/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every path that this CPU has: against the scalar twin (path "c") and against sums
 * in double, on fresh random data. The seed is printed; the first argument sets it. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "cpu-priv.h"
#include "forward-priv.h"
#include "model-priv.h"
#include "tap.h"

static uint64_t rng;
static uint32_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 16);
}

static float rnd_normal(void)
{
    float s = 0;
    for (int i = 0; i < 12; i++)
        s += (float)(rnd() & 0xffff) / 65536;
    return s - 6;
}

static void *get(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory\n");
        _Exit(2);
    }
    memset(p, 0, (n + 63) / 64 * 64);
    return p;
}

static const struct {
    const char *name;
    uint32_t type, vals, bytes, f16_at[2]; /* where scales stand, 999 = none */
} kinds[AQ_L_N] = {
    [AQ_L_F32] = {"F32", AQ_T_F32, 1, 4, {999, 999}},
    [AQ_L_F16] = {"F16", AQ_T_F16, 1, 2, {0, 999}},
    [AQ_L_BF16] = {"BF16", AQ_T_BF16, 1, 2, {999, 999}},
    [AQ_L_Q8_0] = {"Q8_0", AQ_T_Q8_0, 32, 34, {0, 999}},
    [AQ_L_Q4_0] = {"Q4_0", AQ_T_Q4_0, 32, 18, {0, 999}},
    [AQ_L_Q4_1] = {"Q4_1", AQ_T_Q4_1, 32, 20, {0, 2}},
    [AQ_L_Q4_K] = {"Q4_K", AQ_T_Q4_K, 256, 144, {0, 2}},
    [AQ_L_Q5_K] = {"Q5_K", AQ_T_Q5_K, 256, 176, {0, 2}},
    [AQ_L_Q6_K] = {"Q6_K", AQ_T_Q6_K, 256, 210, {208, 999}},
    [AQ_L_IQ4_NL] = {"IQ4_NL", AQ_T_IQ4_NL, 32, 18, {0, 999}},
    [AQ_L_IQ4_XS] = {"IQ4_XS", AQ_T_IQ4_XS, 256, 136, {0, 999}},
    [AQ_L_MXFP4] = {"MXFP4", AQ_T_MXFP4, 32, 17, {999, 999}},
};

/* One row as stored: random bits, random scales of a sane size. */
static void random_row(int l, uint32_t k, uint8_t *row)
{
    for (uint32_t b = 0; b < k / kinds[l].vals; b++, row += kinds[l].bytes) {
        for (uint32_t i = 0; i < kinds[l].bytes; i++)
            row[i] = (uint8_t)rnd();
        for (int i = 0; i < 2; i++)
            if (kinds[l].f16_at[i] != 999) {
                uint16_t h = aq_f32_to_f16(rnd_normal() * 0.01f);
                memcpy(row + kinds[l].f16_at[i], &h, 2);
            }
        float f = rnd_normal();
        if (l == AQ_L_F32)
            memcpy(row, &f, 4);
        if (l == AQ_L_BF16)
            memcpy(row, (uint8_t *)&f + 2, 2);
        if (l == AQ_L_MXFP4)
            row[0] = (uint8_t)(120 + rnd() % 8); /* an exponent */
    }
}

/* n rows of k values in the form of a layout, from one q to the next `wide` bytes. */
typedef struct rows {
    float *x;
    aq_row_q to;
    int form;
    uint32_t k, wide, block; /* columns of a scale */
    aq_row_in in[AQ_MANY_ROWS];
} rows;

static void rows_quant(const aq_isa *isa, rows *r, uint32_t i)
{
    const uint32_t k = r->k;
    aq_row_q o = {r->to.q + i * r->wide,      r->to.d + i * (k / r->block),
                  r->to.s + i * (k / 32),     r->to.n32 + i * (k / 32),
                  r->to.sum16 + i * (k / 16), r->to.sum32 + i * (k / 32)};
    if (r->form == AQ_IN_32)
        isa->quant(r->x + i * k, k, &o);
    if (r->form == AQ_IN_256)
        isa->quant_256(r->x + i * k, k, &o);
    /* only what the form has */
    r->in[i] = (aq_row_in){.x = r->x + i * k};
    if (r->form == AQ_IN_32)
        r->in[i] = (aq_row_in){.q = o.q, .d = o.d, .s = o.s, .n32 = o.n32};
    if (r->form == AQ_IN_256)
        r->in[i] = (aq_row_in){.q = o.q, .d = o.d, .sum16 = o.sum16, .sum32 = o.sum32};
}

static void rows_new(const aq_isa *isa, int l, uint32_t k, uint32_t n_rows, uint32_t wide, rows *r)
{
    size_t n = ((size_t)wide + 1) * n_rows;
    *r = (rows){.x = get(n * 4),
                .to = {get(n), get(n), get(n), get(n), get(n), get(n)},
                .form = aq_layout_in(l),
                .k = k,
                .wide = wide,
                .block = aq_layout_in(l) == AQ_IN_256 ? 256 : 32};
    for (uint32_t i = 0; i < n_rows; i++) {
        float size = expf(rnd_normal());
        for (uint32_t c = 0; c < k; c++)
            r->x[i * k + c] = rnd_normal() * size;
        rows_quant(isa, r, i);
    }
}

static void rows_free(rows *r)
{
    void *all[] = {r->x, r->to.q, r->to.d, r->to.s, r->to.n32, r->to.sum16, r->to.sum32};
    for (size_t i = 0; i < AQ_LEN(all); i++)
        free(all[i]);
}

static const aq_isa *twin_of(const aq_isa *isa)
{
    return isa->lanes == 16 ? &aq_isa_c16 : &aq_isa_c;
}

static void test_tile(const aq_isa *isa, int l, uint32_t k)
{
    const uint32_t lanes = isa->lanes, rows_max = isa->rows;
    size_t n_row = (size_t)k / kinds[l].vals * kinds[l].bytes;
    uint8_t *stored = get(n_row * lanes), *tile = get(aq_tile_bytes(l, lanes, k));
    float *w = get(k * 4 * lanes), *back = get(k * 4 * lanes);
    for (uint32_t r = 0; r < lanes; r++) {
        random_row(l, k, stored + r * n_row);
        aq_tile_put(l, lanes, k, r, stored + r * n_row, tile);
        aq_type_get(kinds[l].type)->dequant(stored + r * n_row, w + r * k, k);
    }
    for (uint32_t r = 0; r < lanes; r++)
        aq_tile_get(l, lanes, k, r, tile, back + r, lanes);
    bool same = aq_tile_bytes(l, lanes, k) == n_row * lanes;
    for (uint32_t i = 0; i < k * lanes; i++)
        same = same && !memcmp(&back[i], &w[i % lanes * k + i / lanes], 4);
    ok(same, "%s %s k=%u: a tile gives back what was put in", isa->name, kinds[l].name, k);

    rows in;
    rows_new(isa, l, k, AQ_TILE_ROWS, k, &in);
    float y[AQ_TILE_ROWS][AQ_LANES_MAX], twin[AQ_TILE_ROWS][AQ_LANES_MAX],
        one[AQ_TILE_ROWS][AQ_LANES_MAX];
    memset(y, 0, sizeof y);
    memset(one, 0, sizeof one);
    isa->tile[l](tile, k, in.in, rows_max, y);
    for (uint32_t i = 0; i < rows_max; i += 4) /* the twin takes 4 */
        twin_of(isa)->tile[l](tile, k, in.in + i, 4, twin + i);
    /* errors relative to the sum of magnitudes: 4e-7 per level of a sum in f32 */
    const double tol = 2e-6;
    double worst = 0, worst_twin = 0;
    for (uint32_t i = 0; i < rows_max; i++)
        for (uint32_t r = 0; r < lanes; r++) {
            double sum = 0, mag = 1e-30;
            for (uint32_t c = 0; c < k; c++) {
                double x = aq_layout_is_float(l) ? in.in[i].x[c]
                                                 : (double)in.in[i].d[c / in.block] * in.in[i].q[c];
                sum += x * w[r * k + c];
                mag += fabs(x * w[r * k + c]);
            }
            worst = fmax(worst, fabs(y[i][r] - sum) / mag);
            worst_twin = fmax(worst_twin, fabs((double)y[i][r] - twin[i][r]) / mag);
        }
    ok(worst < tol, "%s %s k=%u: %.1e from the sum in double (below %.0e)", isa->name,
       kinds[l].name, k, worst, tol);
    ok(worst_twin < tol, "%s %s k=%u: %.1e from the scalar twin (below %.0e)", isa->name,
       kinds[l].name, k, worst_twin, tol);

    bool bits = true;
    for (uint32_t n = 1; n <= rows_max; n++)
        for (uint32_t r0 = 0; r0 + n <= rows_max; r0++) {
            isa->tile[l](tile, k, in.in + r0, n, one);
            bits = bits && !memcmp(one, y[r0], n * sizeof *one);
        }
    ok(bits, "%s %s k=%u: the same bits for 1 to %u rows together", isa->name, kinds[l].name, k,
       rows_max);
    rows_free(&in);
    free(stored);
    free(tile);
    free(w);
    free(back);
}

/* Many rows at once: the bits of one at a time, for every number of rows; the same of two tiles. */
static void test_many(const aq_isa *isa, int l, uint32_t k)
{
    const uint32_t lanes = isa->lanes, n_all = AQ_MANY_ROWS, wide = k + 64;
    size_t n_row = (size_t)k / kinds[l].vals * kinds[l].bytes, n_tile = aq_tile_bytes(l, lanes, k);
    uint8_t *stored = get(n_row), *tile = get(2 * n_tile);
    for (uint32_t r = 0; r < 2 * lanes; r++) {
        random_row(l, k, stored);
        aq_tile_put(l, lanes, k, r % lanes, stored, tile + r / lanes * n_tile);
    }
    rows all;
    rows_new(isa, l, k, n_all, wide, &all);
    const uint32_t n_block = k / all.block;
    float(*d_of)[AQ_MANY_ROWS] = get(n_block * sizeof *d_of),
    (*s_of)[AQ_MANY_ROWS] = get(n_block * sizeof *s_of);
    static float want[2][AQ_MANY_ROWS][AQ_LANES_MAX], got[AQ_MANY_ROWS][AQ_LANES_MAX];
    for (uint32_t i = 0; i < n_all; i++) {
        for (uint32_t t = 0; t < 2; t++)
            isa->tile[l](tile + t * n_tile, k, &all.in[i], 1, want[t] + i);
        for (uint32_t b = 0; b < n_block; b++) {
            d_of[b][i] = all.in[i].d[b];
            s_of[b][i] = all.form == AQ_IN_32 ? all.in[i].s[b] : NAN;
        }
    }
    aq_rows_in in = {.row = all.in,
                     .q = all.to.q,
                     .wide = wide,
                     .d = (const void *)d_of,
                     .s = all.form == AQ_IN_32 ? (const void *)s_of : NULL};
    bool bits = true, pair = true;
    for (uint32_t n = 1; n <= n_all; n++) {
        memset(got, 0, sizeof got);
        isa->many[l](tile, k, &in, n, got);
        for (uint32_t i = 0; i < n; i++)
            bits = bits && !memcmp(got[i], want[0][i], lanes * sizeof(float));
        if (!isa->pair[l])
            continue;
        memset(got, 0, sizeof got);
        isa->pair[l](tile, k, &in, n, got);
        for (uint32_t i = 0; i < 2 * n; i++)
            pair = pair &&
                   !memcmp(got[i / 2] + i % 2 * lanes, want[i % 2][i / 2], lanes * sizeof(float));
    }
    ok(bits, "%s %s k=%u: the same bits for 1 to %u rows at once", isa->name, kinds[l].name, k,
       n_all);
    if (isa->pair[l])
        ok(pair, "%s %s k=%u: and two tiles at once", isa->name, kinds[l].name, k);
    rows_free(&all);
    void *rest[] = {stored, tile, d_of, s_of};
    for (size_t i = 0; i < AQ_LEN(rest); i++)
        free(rest[i]);
}

/* Row 0 of 256 columns alone through `many`, where there is one, has the bits of want. */
static bool same_many(const aq_isa *isa, int l, const uint8_t *tile, const rows *r,
                      const float *want)
{
    static float d[8][AQ_MANY_ROWS], s[8][AQ_MANY_ROWS], got[AQ_MANY_ROWS][AQ_LANES_MAX];
    if (!isa->many[l])
        return true;
    for (uint32_t b = 0; b < r->k / r->block; b++) {
        d[b][0] = r->in[0].d[b];
        s[b][0] = r->form == AQ_IN_32 ? r->in[0].s[b] : NAN;
    }
    aq_rows_in in = {.row = r->in, .q = r->to.q, .wide = r->wide, .d = d, .s = s};
    isa->many[l](tile, r->k, &in, 1, got);
    if (memcmp(got[0], want, isa->lanes * sizeof *want))
        return false;
    if (isa->pair[l]) /* the tile twice */
        isa->pair[l](tile, r->k, &in, 1, got);
    return !isa->pair[l] || (!memcmp(got[0], want, isa->lanes * sizeof *want) &&
                             !memcmp(got[0] + isa->lanes, want, isa->lanes * sizeof *want));
}

/* The largest weights and inputs: the 16-bit sums inside the kernels must hold them. */
static void test_extremes(const aq_isa *isa, int l)
{
    const uint32_t k = 256, lanes = isa->lanes;
    size_t n_row = (size_t)k / kinds[l].vals * kinds[l].bytes;
    const size_t n_tile = aq_tile_bytes(l, lanes, k);
    uint8_t *stored = get(n_row), *tile = get(2 * n_tile);
    float *w = get(k * 4);
    rows in;
    rows_new(isa, l, k, 16, k, &in); /* as many as `many` may read */
    double worst = 0;
    bool same = true;
    for (int bits = 0; bits < 4; bits++) { /* all bits, none, 0x80 (int8: -128), 0x7f */
        memset(stored, (const uint8_t[]){0xff, 0, 0x80, 0x7f}[bits], n_row);
        uint16_t h = aq_f32_to_f16(1);
        for (uint32_t b = 0; b < k / kinds[l].vals; b++)
            for (int i = 0; i < 2; i++)
                if (kinds[l].f16_at[i] != 999)
                    memcpy(stored + b * kinds[l].bytes + kinds[l].f16_at[i], &h, 2);
        for (uint32_t b = 0; l == AQ_L_MXFP4 && b < k / 32; b++)
            stored[b * kinds[l].bytes] = 127;
        for (uint32_t r = 0; r < 2 * lanes; r++)
            aq_tile_put(l, lanes, k, r % lanes, stored, tile + r / lanes * n_tile);
        aq_type_get(kinds[l].type)->dequant(stored, w, k);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (uint32_t c = 0; c < k; c++)
                in.x[c] = (float)sign;
            rows_quant(isa, &in, 0);
            float y[1][AQ_LANES_MAX];
            isa->tile[l](tile, k, in.in, 1, y);
            double sum = 0, mag = 1e-30;
            for (uint32_t c = 0; c < k; c++) {
                sum += (double)in.in[0].d[c / in.block] * in.in[0].q[c] * w[c];
                mag += fabs((double)w[c]);
            }
            for (uint32_t r = 0; r < lanes; r++)
                worst = fmax(worst, fabs(y[0][r] - sum) / mag);
            same = same && same_many(isa, l, tile, &in, y[0]);
        }
    }
    ok(worst < 1e-6, "%s %s: extreme weights and inputs, %.1e (below 1e-06)", isa->name,
       kinds[l].name, worst);
    ok(same, "%s %s: the same bits at the extremes, many rows at once", isa->name, kinds[l].name);
    rows_free(&in);
    free(stored);
    free(tile);
    free(w);
}

/* Types without kernels: rows lie in a tile as stored, come back as their type says, and become
 * Q8_0 within half a step of it. */
static void test_stored(uint32_t lanes)
{
    const uint32_t k = 768;
    uint32_t n_type = 0;
    for (uint32_t id = 0; id < 64; id++) {
        int l = aq_layout_of(id);
        if (l < AQ_L_STORED)
            continue;
        const aq_type *t = aq_type_get(id);
        size_t n_row = (size_t)k / t->block_vals * t->block_bytes;
        uint8_t *stored = get(n_row * lanes), *tile = get(aq_tile_bytes(l, lanes, k)),
                *q8 = get(aq_tile_bytes(AQ_L_Q8_0, lanes, k));
        float *w = get(k * 4), *back = get(k * 4 * lanes), *rounded = get(k * 4);
        for (uint32_t i = 0; i < n_row * lanes; i++)
            stored[i] = (uint8_t)(rnd() & 0x3f); /* halves of a sane size wherever they stand */
        for (uint32_t r = 0; r < lanes; r++)
            aq_tile_put(l, lanes, k, r, stored + r * n_row, tile);
        for (uint32_t r = 0; r < lanes; r++) {
            aq_tile_get(l, lanes, k, r, tile, back + r, lanes);
            aq_tile_to_q8_0(l, lanes, k, r, tile, q8);
        }
        bool same = aq_tile_bytes(l, lanes, k) == n_row * lanes && !aq_layout_is_float(l);
        double worst = 0;
        for (uint32_t r = 0; r < lanes; r++) {
            t->dequant(stored + r * n_row, w, k);
            aq_tile_get(AQ_L_Q8_0, lanes, k, r, q8, rounded, 1);
            for (uint32_t c = 0; c < k; c++)
                same = same && !memcmp(&back[c * lanes + r], &w[c], 4);
            for (uint32_t b = 0; b < k / 32; b++) {
                double most = 1e-30;
                for (uint32_t c = 32 * b; c < 32 * b + 32; c++)
                    most = fmax(most, fabs((double)w[c]));
                double half = most / 254 + 3e-8; /* d is a half, of steps of 6e-8 when small */
                for (uint32_t c = 32 * b; c < 32 * b + 32; c++)
                    worst = fmax(worst, fabs((double)w[c] - rounded[c]) / half);
            }
        }
        ok(same, "%s, %u lanes: a tile of rows as stored gives back what was put in", t->name,
           lanes);
        ok(worst < 1.01, "%s, %u lanes: as Q8_0 within %.3f half steps (below 1.01)", t->name,
           lanes, worst);
        n_type++;
        free(stored);
        free(tile);
        free(q8);
        free(w);
        free(back);
        free(rounded);
    }
    ok(n_type == 28 - AQ_L_N, "%u types lie as stored", n_type);
}

/* Both 8-bit forms: of blocks of `block` columns. */
static void test_quant(const aq_isa *isa, uint32_t block)
{
    enum { K = 2560 };
    float x[K], d[K / 32] = {0}, s[K / 32] = {0}, d2[K / 32] = {0}, s2[K / 32] = {0};
    int8_t q[K], q2[K];
    int16_t s16[K / 16] = {0}, t16[K / 16] = {0}, s32[K / 32] = {0}, t32[K / 32] = {0};
    int32_t n32[K / 32] = {0}, m32[K / 32] = {0};
    const bool small = block == 32;
    void (*quant)(const float *, uint32_t, const aq_row_q *) = small ? isa->quant : isa->quant_256;
    const aq_row_q o = {
        q, d, small ? s : NULL, small ? n32 : NULL, small ? NULL : s16, small ? NULL : s32};
    const aq_row_q o2 = {
        q2, d2, small ? s2 : NULL, small ? m32 : NULL, small ? NULL : t16, small ? NULL : t32};
    const uint32_t n_block = K / block;
    for (uint32_t c = 0; c < K; c++)
        x[c] = rnd_normal() * expf((float)(c / block % 10) - 5);
    memset(x + 2 * block, 0, block * sizeof *x);
    for (uint32_t c = 3 * block; c < 4 * block; c++)
        x[c] = 1e-41f;
    quant(x, K, &o);
    (small ? aq_isa_c.quant : aq_isa_c.quant_256)(x, K, &o2);
    bool near = true, sums = true;
    for (uint32_t c = 0; c < K; c++)
        near = near &&
               fabsf(x[c] - d[c / block] * (float)q[c]) <= 0.5001f * d[c / block] + 1e-38f &&
               abs(q[c]) <= 127;
    for (uint32_t b = 0; b < K / 32; b++) {
        int sum[2] = {0};
        for (uint32_t c = 0; c < 32; c++)
            sum[c / 16] += q[32 * b + c];
        int all = sum[0] + sum[1];
        sums = sums && (small ? s[b] == d[b] * (float)all && n32[b] == -128 * all
                              : s16[2 * b] == sum[0] && s16[2 * b + 1] == sum[1] && s32[b] == all);
    }
    ok(near, "%s quant by %u: each value within half a step", isa->name, block);
    ok(sums, "%s quant by %u: the sums are those of the bytes", isa->name, block);
    ok(!memcmp(q, q2, K) && !memcmp(d, d2, n_block * sizeof *d) && !memcmp(s, s2, sizeof s) &&
           !memcmp(s16, t16, sizeof s16) && !memcmp(s32, t32, sizeof s32) &&
           !memcmp(n32, m32, sizeof n32),
       "%s quant by %u: as the scalar twin", isa->name, block);
    x[5] = NAN;
    x[block + 8] = INFINITY;
    quant(x, K, &o);
    bool low = true;
    for (int c = 0; c < K; c++)
        low = low && abs(q[c]) <= 127;
    ok(isnan(d[0]) && isinf(d[1]) && low,
       "%s quant by %u: NaN and infinity stay visible in the scale", isa->name, block);
}

static double rel(const float *a, const float *b, size_t n)
{
    double worst = 0, mag = 1e-30;
    for (size_t i = 0; i < n; i++)
        mag = fmax(mag, fabs((double)b[i]));
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)a[i] - b[i]) / mag);
    return worst;
}

static void test_rows(const aq_isa *isa)
{
    enum { N = 333 };
    float x[N], w[N], a[N], b[N];
    uint16_t ha[N], hb[N];
    const uint32_t dims[] = {1, 7, 64, 80, N};
    for (size_t t = 0; t < AQ_LEN(dims); t++) {
        uint32_t n = dims[t];
        for (uint32_t i = 0; i < n; i++) {
            x[i] = rnd_normal() * 5;
            w[i] = rnd_normal();
        }
        isa->norm(x, w, n, 1e-5f, a);
        aq_isa_c.norm(x, w, n, 1e-5f, b);
        double e = rel(a, b, n);
        ok(e < 2e-6, "%s norm n=%u: %.1e (below 2e-06)", isa->name, n, e);
        isa->swiglu(x, w, n, a);
        aq_isa_c.swiglu(x, w, n, b);
        e = rel(a, b, n);
        ok(e < 1e-6, "%s swiglu n=%u: %.1e (below 1e-06)", isa->name, n, e);
        bool bits = true; /* a value's bits do not depend on its place */
        for (uint32_t i = 0; i < n; i++) {
            isa->swiglu(x + i, w + i, 1, b);
            bits = bits && !memcmp(b, a + i, 4);
        }
        ok(bits, "%s swiglu n=%u: the same bits one by one", isa->name, n);
        isa->oai(x, w, n, a);
        aq_isa_c.oai(x, w, n, b);
        e = rel(a, b, n);
        ok(e < 1e-6, "%s oai n=%u: %.1e (below 1e-06)", isa->name, n, e);
        isa->to_f16(x, n, ha);
        aq_isa_c.to_f16(x, n, hb);
        ok(!memcmp(ha, hb, n * 2), "%s to_f16 n=%u", isa->name, n);
        memcpy(a, x, n * 4);
        memcpy(b, x, n * 4);
        float sa = isa->exps(a, n, 9), sb = aq_isa_c.exps(b, n, 9);
        e = fmax(rel(a, b, n), fabs(sa / sb - 1));
        ok(e < 2e-6, "%s exps n=%u: %.1e (below 2e-06)", isa->name, n, e);
    }
    float g[6] = {200, -200, 90, -90, INFINITY, -1e30f}, u[6] = {1, 1, 1, 1, 1, 1};
    isa->swiglu(g, u, 6, g);
    ok(g[0] == 200 && fabsf(g[1]) < 1e-30f && g[2] == 90 && fabsf(g[3]) < 1e-30f && isinf(g[4]) &&
           fabsf(g[5]) < 1e-30f,
       "%s swiglu: saturates", isa->name);
}

enum { QUERIES = 7 };

static void test_attention(const aq_isa *isa, uint32_t d, uint32_t n_tok)
{
    float *q[QUERIES], *o[QUERIES], *o2[QUERIES], c[QUERIES], top[QUERIES], top2[QUERIES];
    float(*s)[AQ_ATTN_TOK] = get(sizeof *s * QUERIES),
    (*s2)[AQ_ATTN_TOK] = get(sizeof *s * QUERIES);
    float *kv = get((size_t)n_tok * d * 4);
    for (uint32_t h = 0; h < QUERIES; h++) {
        q[h] = get(d * 4);
        o[h] = get(d * 4);
        o2[h] = get(d * 4);
        c[h] = rnd_normal();
        for (uint32_t i = 0; i < d; i++) {
            q[h][i] = rnd_normal();
            o[h][i] = o2[h][i] = rnd_normal();
        }
    }
    for (uint32_t i = 0; i < n_tok * d; i++)
        kv[i] = rnd_normal();
    isa->scores((const float *const *)q, QUERIES, kv, n_tok, d, 0.125f, s, top);
    aq_isa_c.scores((const float *const *)q, QUERIES, kv, n_tok, d, 0.125f, s2, top2);
    double e = 0;
    bool tops = true, bits = true;
    for (uint32_t h = 0; h < QUERIES; h++) {
        float most = -INFINITY, alone[1][AQ_ATTN_TOK];
        for (uint32_t t = 0; t < n_tok; t++) { /* relative to the sum of magnitudes */
            double mag = 1e-30;
            for (uint32_t i = 0; i < d; i++)
                mag += 0.125 * fabs((double)q[h][i] * kv[(size_t)t * d + i]);
            e = fmax(e, fabs((double)s[h][t] - s2[h][t]) / mag);
            most = fmaxf(most, s[h][t]);
        }
        tops = tops && most == top[h];
        isa->scores((const float *const *)q + h, 1, kv, n_tok, d, 0.125f, alone, &most);
        bits = bits && !memcmp(alone[0], s[h], n_tok * 4) && most == top[h];
    }
    ok(e < 2e-6 && tops, "%s scores d=%u tok=%u: %.1e (below 2e-06), the largest told", isa->name,
       d, n_tok, e);
    float *one[QUERIES];
    for (uint32_t h = 0; h < QUERIES; h++) {
        one[h] = get(d * 4);
        memcpy(one[h], o[h], d * 4);
        isa->mix((const float(*)[AQ_ATTN_TOK])s2 + h, 1, kv, n_tok, d, c + h, one + h);
    }
    isa->mix((const float(*)[AQ_ATTN_TOK])s2, QUERIES, kv, n_tok, d, c, o);
    aq_isa_c.mix((const float(*)[AQ_ATTN_TOK])s2, QUERIES, kv, n_tok, d, c, o2);
    e = 0;
    for (uint32_t h = 0; h < QUERIES; h++) {
        e = fmax(e, rel(o[h], o2[h], d));
        bits = bits && !memcmp(one[h], o[h], d * 4);
    }
    ok(e < 4e-6, "%s mix d=%u tok=%u: %.1e (below 4e-06)", isa->name, d, n_tok, e);
    ok(bits, "%s attention d=%u tok=%u: a query's bits do not depend on the others", isa->name, d,
       n_tok);
    for (uint32_t h = 0; h < QUERIES; h++) {
        free(q[h]);
        free(o[h]);
        free(o2[h]);
        free(one[h]);
    }
    free(s);
    free(s2);
    free(kv);
}

/* Entries as they lie in a page: the bits of the same made floats, for any number of queries. */
static void test_entries(const aq_isa *isa, uint32_t type, uint32_t d, uint32_t n_tok)
{
    enum { M = 8 };
    const bool q8 = type == AQ_KV_Q8_0;
    const size_t step = q8 ? (d + 31) / 32 * 34 : d * 2;
    const float *q[M];
    float *o[M], *o2[M], c[M], top[M], top2[M];
    float(*s)[AQ_ATTN_TOK] = get(sizeof *s * M), (*s2)[AQ_ATTN_TOK] = get(sizeof *s * M);
    float *x = get(M * d * 4), *y = get(2 * M * d * 4), *kv = get((size_t)n_tok * d * 4);
    uint8_t *lie = get(n_tok * step);
    const aq_entries in = {.p = lie, .step = step, .ahead = lie, .ahead_step = step};
    bool bits = true;

    for (uint32_t i = 0; i < M * d; i++)
        x[i] = rnd_normal();
    for (uint32_t t = 0; t < n_tok; t++) {
        float *e = kv + (size_t)t * d;
        uint8_t *to = lie + t * step;
        for (uint32_t i = 0; i < d; i++)
            e[i] = rnd_normal();
        if (q8) {
            aq_kv_q8_put(e, d, to);
            aq_kv_q8_get(to, d, e);
            if (isa->from_q8) {
                isa->from_q8(to, d, y);
                bits = bits && !memcmp(y, e, d * 4);
            }
        } else {
            isa->to_f16(e, d, (uint16_t *)(void *)to);
            isa->from_f16((const uint16_t *)(const void *)to, d, e);
        }
    }
    ok(bits, "%s entries of type %u, d=%u tok=%u: as they are made floats by the scalar form",
       isa->name, type, d, n_tok);
    for (uint32_t m = 1; m <= M && isa->scores_kv[type]; m++) {
        for (uint32_t h = 0; h < m; h++) {
            q[h] = x + h * d;
            o[h] = y + h * d;
            o2[h] = y + (M + h) * d;
            c[h] = rnd_normal();
            for (uint32_t i = 0; i < d; i++)
                o[h][i] = o2[h][i] = rnd_normal();
        }
        isa->scores(q, m, kv, n_tok, d, 0.125f, s, top);
        isa->scores_kv[type](q, m, &in, n_tok, d, 0.125f, s2, top2);
        for (uint32_t h = 0; h < m; h++)
            bits = bits && !memcmp(s[h], s2[h], n_tok * 4);
        bits = bits && !memcmp(top, top2, m * 4);
        isa->mix((const void *)s, m, kv, n_tok, d, c, o);
        isa->mix_kv[type]((const void *)s, m, &in, n_tok, d, c, o2);
        for (uint32_t h = 0; h < m; h++)
            bits = bits && !memcmp(o[h], o2[h], d * 4);
    }
    ok(bits, "%s entries of type %u, d=%u tok=%u: the bits of floats for 1 to %d queries",
       isa->name, type, d, n_tok, M);
    void *all[] = {s, s2, x, y, kv, lie};
    for (size_t i = 0; i < AQ_LEN(all); i++)
        free(all[i]);
}

static void test_delta(const aq_isa *isa, uint32_t d)
{
    float *q = get(d * 4), *k = get(d * 4), *v = get(d * 4), *o = get(d * 4), *o2 = get(d * 4);
    float *in = get((size_t)d * d * 4), *a = get((size_t)d * d * 4), *b = get((size_t)d * d * 4);
    for (uint32_t i = 0; i < d; i++) {
        q[i] = rnd_normal() / sqrtf((float)d);
        k[i] = rnd_normal() / sqrtf((float)d);
        v[i] = rnd_normal();
    }
    for (uint32_t i = 0; i < d * d; i++)
        in[i] = rnd_normal();
    isa->delta(d, 0.9f, 0.7f, q, k, v, in, a, o);
    aq_isa_c.delta(d, 0.9f, 0.7f, q, k, v, in, b, o2);
    double e = fmax(rel(a, b, (size_t)d * d), rel(o, o2, d));
    ok(e < 4e-6, "%s delta d=%u: %.1e (below 4e-06)", isa->name, d, e);
    memcpy(b, in, (size_t)d * d * 4);
    isa->delta(d, 0.9f, 0.7f, q, k, v, b, b, o2);
    ok(!memcmp(a, b, (size_t)d * d * 4) && !memcmp(o, o2, d * 4), "%s delta d=%u: in place",
       isa->name, d);
    free(q);
    free(k);
    free(v);
    free(o);
    free(o2);
    free(in);
    free(a);
    free(b);
}

static void test_from_f16(const aq_isa *isa)
{
    enum { N = 75 };
    uint16_t h[N];
    float a[N], b[N];
    for (int i = 0; i < N; i++)
        h[i] = (uint16_t)(rnd() & 0xbbff); /* finite */
    isa->from_f16(h, N, a);
    aq_isa_c.from_f16(h, N, b);
    ok(!memcmp(a, b, sizeof a), "%s from_f16", isa->name);
}

int main(int argc, char **argv)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    rng =
        argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)t.tv_sec * 1000003 + (uint64_t)t.tv_nsec;
    rng |= 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    static const char *const all[] = {"c", "c16", "avx2", "avx2-plain", "avx512", "amx", "neon"};
    for (size_t p = 0; p < AQ_LEN(all); p++) {
        const aq_isa *isa = aq_isa_find(all[p]);
        if (!isa) {
            tap_skip(all[p], "this CPU does not have the path");
            continue;
        }
        for (int l = 0; l < AQ_L_N; l++) {
            const uint32_t ks[] = {kinds[l].vals, 3 * kinds[l].vals, 1024};
            for (size_t i = 0; i < AQ_LEN(ks); i++)
                test_tile(isa, l, ks[i]);
            for (size_t i = 0; isa->many[l] && i < AQ_LEN(ks); i++)
                test_many(isa, l, ks[i]);
            if (!aq_layout_is_float(l))
                test_extremes(isa, l);
        }
        test_quant(isa, 32);
        test_quant(isa, 256);
        test_rows(isa);
        test_from_f16(isa);
        test_delta(isa, 128);
        test_delta(isa, 20);
        test_attention(isa, 64, 64);
        test_attention(isa, 128, 37);
        test_attention(isa, 80, 5);
        test_attention(isa, 20, 1);
        test_attention(isa, 576, 16);
        for (uint32_t type = 0; type < AQ_KV_TYPES; type++) {
            if (!isa->scores_kv[type] && (type != AQ_KV_Q8_0 || !isa->from_q8))
                continue;
            test_entries(isa, type, 64, 64);
            test_entries(isa, type, 128, 37);
            test_entries(isa, type, 80, 5);
            test_entries(isa, type, 20, 1);
            test_entries(isa, type, 13, 9);
            test_entries(isa, type, 576, 16);
        }
    }
    test_stored(8);
    test_stored(16);
    ok(aq_layout_of(AQ_T_Q4_K) == AQ_L_Q4_K && aq_layout_of(AQ_T_Q5_0) == AQ_L_STORED + AQ_T_Q5_0 &&
           aq_layout_of(9) == -1,
       "types without kernels are told apart");
    return tap_done();
}
