/* SPDX-License-Identifier: Apache-2.0 */
/* The router against a plain sort in double, ties, and both gates. The seed is printed; the first argument sets it. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "forward-priv.h"
#include "tap.h"

static uint64_t rng;
static uint32_t rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 24);
}

/* Rank of e: how many are better, or equal with a lower id. */
static uint32_t rank_of(const float *l, uint32_t n, uint32_t e)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        k += l[i] > l[e] || (l[i] == l[e] && i < e);
    return k;
}

static bool right(const aq_layer *d, const float *l, const int32_t *expert, const float *w)
{
    double all = 0, chosen = 0;
    for (uint32_t i = 0; i < d->n_exp; i++)
        all += exp(l[i]);
    for (uint32_t j = 0; j < d->n_used; j++)
        chosen +=
            d->exp_gate == AQ_GATE_SIGMOID ? 1 / (1 + exp(-l[expert[j]])) : exp(l[expert[j]]) / all;
    for (uint32_t j = 0; j < d->n_used; j++) {
        double s =
            d->exp_gate == AQ_GATE_SIGMOID ? 1 / (1 + exp(-l[expert[j]])) : exp(l[expert[j]]) / all;
        s = (d->exp_renorm ? s / chosen : s) * d->exp_scale;
        if (rank_of(l, d->n_exp, (uint32_t)expert[j]) != j || fabs(w[j] - s) > 1e-6 * s)
            return false;
    }
    return true;
}

/* The best not yet taken of n, ties to the lower. */
static uint32_t best_of(const double *v, const bool *out, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!out[i] && (best == n || v[i] > v[best]))
            best = i;
    return best;
}

/* Bias, groups and each gate, by plain repeated search. */
static bool right_biased(const aq_layer *d, const float *l, const float *bias,
                         const int32_t *expert, const float *w)
{
    double all = 0, keys[64], s[64], group[8], sum = 0;
    bool out[64] = {0}, out_group[8] = {0};
    uint32_t size = d->n_exp / d->n_group;
    for (uint32_t e = 0; e < d->n_exp; e++)
        all += exp(l[e]);
    for (uint32_t e = 0; e < d->n_exp; e++) {
        s[e] = d->exp_gate == AQ_GATE_SIGMOID ? 1 / (1 + exp(-l[e])) : exp(l[e]) / all;
        keys[e] = (d->exp_gate == AQ_GATE_CHOSEN ? l[e] : s[e]) + (bias ? bias[e] : 0);
    }
    for (uint32_t g = 0; g < d->n_group; g++) {
        bool taken[64] = {0};
        uint32_t first = best_of(keys + g * size, taken, size);
        taken[first] = true;
        group[g] = keys[g * size + first] + keys[g * size + best_of(keys + g * size, taken, size)];
    }
    for (uint32_t e = 0; e < d->n_exp; e++)
        out[e] = true;
    for (uint32_t j = 0; j < d->n_group_used; j++) {
        uint32_t g = best_of(group, out_group, d->n_group);
        out_group[g] = true;
        memset(out + g * size, 0, size * sizeof *out);
    }
    for (uint32_t j = 0; j < d->n_used; j++) {
        uint32_t e = best_of(keys, out, d->n_exp);
        if (expert[j] != (int32_t)e)
            return false;
        out[e] = true;
        sum += s[e];
    }
    for (uint32_t j = 0; j < d->n_used; j++)
        if (fabs(w[j] - s[expert[j]] / sum * d->exp_scale) > 1e-6)
            return false;
    return true;
}

static void biased(void)
{
    for (uint8_t gate = AQ_GATE_SOFTMAX; gate <= AQ_GATE_CHOSEN; gate++) {
        aq_layer d = {.n_exp = 64,
                      .n_used = 6,
                      .exp_gate = gate,
                      .exp_renorm = 1,
                      .exp_scale = 1.5f,
                      .n_group = 8,
                      .n_group_used = 3};
        bool good = true;
        for (uint32_t t = 0; good && t < 300; t++) {
            float l[64], bias[64], w[6];
            int32_t expert[6];
            for (uint32_t i = 0; i < 64; i++) {
                l[i] = (float)(rnd() % 400000) / 100000 - 2;
                bias[i] = (float)(rnd() % 100000) / 200000;
            }
            aq_route(&d, l, bias, 1, expert, w);
            good = right_biased(&d, l, bias, expert, w);
            aq_route(&d, l, NULL, 1, expert, w); /* groups by sums of scores, not of logits */
            good = good && right_biased(&d, l, NULL, expert, w);
        }
        ok(good, "3 of 8 groups, with a bias for choosing and without, gate %u", gate);
    }
}

int main(int argc, char **argv)
{
    rng = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    for (uint32_t c = 0; c < 8; c++) {
        aq_layer d = {.n_exp = c & 1 ? 128 : 6,
                      .n_used = c & 1 ? 8 : 6,
                      .exp_gate = c & 2 ? AQ_GATE_SIGMOID : AQ_GATE_SOFTMAX,
                      .exp_renorm = c & 4,
                      .exp_scale = c & 2 ? 2.5f : 1};
        bool good = true;
        for (uint32_t t = 0; t < 500; t++) {
            float l[3 * 128], w[3 * 8];
            int32_t expert[3 * 8];
            for (uint32_t i = 0; i < 3 * d.n_exp; i++) /* coarse values: many ties */
                l[i] = (float)(rnd() % (t % 2 ? 40 : 40000)) / (t % 2 ? 5 : 5000) - 4;
            aq_route(&d, l, NULL, 3, expert, w);
            for (uint32_t r = 0; r < 3; r++)
                good = good && right(&d, l + r * d.n_exp, expert + r * d.n_used, w + r * d.n_used);
        }
        ok(good, "%u of %u, %s%s", d.n_used, d.n_exp, c & 2 ? "sigmoid" : "softmax",
           c & 4 ? ", renormalised" : "");
    }
    biased();
    aq_layer d = {
        .n_exp = 4, .n_used = 2, .exp_gate = AQ_GATE_SOFTMAX, .exp_renorm = 1, .exp_scale = 1};
    float w[2];
    int32_t e[2];
    aq_route(&d, (float[]){1, 3, 3, 3}, NULL, 1, e, w);
    ok(e[0] == 1 && e[1] == 2 && w[0] == 0.5f && w[1] == 0.5f, "ties go to the lower id");
    aq_route(&d, (float[]){3e38f, -3e38f, 1, 2e38f}, NULL, 1, e, w);
    ok(e[0] == 0 && e[1] == 3 && w[0] == 1 && w[1] == 0, "huge logits stay finite");
    return tap_done();
}
