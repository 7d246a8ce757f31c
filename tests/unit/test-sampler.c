/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler: what each setting lets through, what it prefers, and that chance is a function of
 * seed and position alone. */
#include <math.h>

#include "sampler-priv.h"
#include "tap.h"

#define N 8u

/* Draw many positions; count[tok]. The logits are given anew each time, tok[] is the history. */
static void draw(const aq_sampling *s, const float *logits, const int32_t *hist, uint32_t n_hist,
                 uint32_t times, uint32_t count[N])
{
    AQ_AUTO(aq_sampler_free) aq_sampler *p = NULL;
    aq_err err = {0};
    static int32_t tok[100000];

    memset(count, 0, N * sizeof *count);
    if (aq_sampler_new(s, N, &p, &err) < 0) {
        printf("# %s\n", err.text);
        return;
    }
    for (uint32_t i = 0; i < times; i++) {
        float l[N];
        memcpy(l, logits, sizeof l);
        if (n_hist)
            memcpy(tok + i, hist, n_hist * sizeof *tok); /* the last n_hist of n_hist + i tokens */
        int32_t t = aq_sampler_pick(p, l, tok, n_hist + i);
        if (t >= 0 && t < (int32_t)N)
            count[t]++;
        tok[i] = 7; /* a token that the tests leave out */
    }
}

static bool near(uint32_t count, uint32_t times, double want)
{
    double got = (double)count / times, sd = sqrt(want * (1 - want) / times);

    return fabs(got - want) <= 5 * sd + 1e-9;
}

static void spread(void)
{
    const float l[N] = {0.0f, 1.0f, 2.0f, -1.0f, 3.0f, 0.5f, -2.0f, -INFINITY};
    enum { TIMES = 50000 };
    uint32_t c[N];
    double p[N], sum = 0;
    bool good = true;

    for (uint32_t i = 0; i < N; i++)
        sum += p[i] = exp(l[i]);
    draw(&(aq_sampling){.temp = 1, .seed = 5}, l, NULL, 0, TIMES, c);
    for (uint32_t i = 0; i < N; i++)
        good &= near(c[i], TIMES, p[i] / sum);
    ok(good, "temperature 1 draws by softmax");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_k = 7, .top_p = 1}, l, NULL, 0, TIMES, c);
    for (uint32_t i = 0; i < N; i++)
        good &= near(c[i], TIMES, p[i] / sum);
    ok(good, "so does the sorted way when it leaves nothing out");
    draw(&(aq_sampling){.temp = 0.5f, .seed = 6}, l, NULL, 0, TIMES, c);
    sum = 0;
    for (uint32_t i = 0; i < N; i++)
        sum += p[i] = exp(l[i] * 2);
    for (uint32_t i = 0; i < N; i++)
        good &= near(c[i], TIMES, p[i] / sum);
    ok(good, "temperature 0.5 sharpens");

    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_k = 2}, l, NULL, 0, TIMES, c);
    ok(c[4] + c[2] == TIMES && near(c[4], TIMES, 1 / (1 + exp(-1))),
       "top-k 2 leaves the best two, in their proportion");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_k = 1}, l, NULL, 0, 1000, c);
    ok(c[4] == 1000, "top-k 1 is greedy");
    /* softmax of l: 4 has .602, 2 .222, 1 .082, 5 .049, 0 .030, … */
    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_p = 0.59f}, l, NULL, 0, 1000, c);
    ok(c[4] == 1000, "top-p 0.59 is covered by the best alone");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_p = 0.85f}, l, NULL, 0, TIMES, c);
    ok(c[4] && c[2] && c[1] && c[4] + c[2] + c[1] == TIMES, "top-p 0.85 needs three");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .top_k = 3, .top_p = 0.8f}, l, NULL, 0, TIMES, c);
    ok(c[4] && c[2] && c[4] + c[2] == TIMES, "top-p counts on what top-k left");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .min_p = 0.13f}, l, NULL, 0, TIMES, c);
    ok(c[4] && c[2] && c[1] && c[4] + c[2] + c[1] == TIMES,
       "min-p 0.13 of the best leaves three (0.135)");
    draw(&(aq_sampling){.temp = 1, .seed = 5, .min_p = 0.14f, .top_k = 5}, l, NULL, 0, TIMES, c);
    ok(c[4] && c[2] && c[4] + c[2] == TIMES, "min-p 0.14 beside top-k leaves two");
}

static void greedy(void)
{
    const float tie[N] = {1, 5, 5, 0, 5, 0, 0, 0}, nan_[N] = {NAN, 1, NAN, 2, 0, 0, 0, 0},
                all_nan[N] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    uint32_t c[N];

    draw(&(aq_sampling){0}, tie, NULL, 0, 10, c);
    ok(c[1] == 10, "greedy takes the lowest id among equals");
    draw(&(aq_sampling){.temp = 1, .top_k = 1, .seed = 1}, tie, NULL, 0, 10, c);
    ok(c[1] == 10, "and so does top-k 1");
    draw(&(aq_sampling){0}, nan_, NULL, 0, 10, c);
    ok(c[3] == 10, "what is not a number is never taken");
    draw(&(aq_sampling){.temp = 1, .seed = 3}, nan_, NULL, 0, 1000, c);
    ok(c[0] + c[2] == 0, "nor drawn");
    draw(&(aq_sampling){.temp = 1, .seed = 3}, all_nan, NULL, 0, 10, c);
    ok(c[0] == 10, "a row of nothing else still gives a token");
}

static void penalties(void)
{
    const float l[N] = {2.0f, 1.9f, -1.0f, 0, 0, 0, 0, -9};
    const int32_t hist[6] = {0, 0, 0, 2, 3, 3};
    uint32_t c[N];

    draw(&(aq_sampling){.repeat_penalty = 1.2f}, l, hist, 6, 5, c);
    ok(c[1] == 5, "repeat penalty: 2.0 / 1.2 falls behind 1.9");
    draw(&(aq_sampling){.repeat_penalty = 1.2f, .penalty_last_n = 3}, l, hist, 6, 5, c);
    ok(c[0] == 5, "what lies further back is forgiven");
    draw(&(aq_sampling){.frequency_penalty = 0.04f}, l, hist, 6, 5, c);
    ok(c[1] == 5, "frequency: three times 0.04 is enough");
    draw(&(aq_sampling){.presence_penalty = 0.09f}, l, hist, 6, 5, c);
    ok(c[0] == 5, "presence: 0.09 once is not");
    draw(&(aq_sampling){.presence_penalty = 0.11f}, l, hist, 6, 5, c);
    ok(c[1] == 5, "0.11 is");
    draw(&(aq_sampling){.presence_penalty = -4.2f}, l, hist, 6, 5, c);
    ok(c[0] == 5, "a negative one prefers what was said");
    const float low[N] = {-1.0f, -1.1f, -9, -9, -9, -9, -9, -9};
    draw(&(aq_sampling){.repeat_penalty = 1.2f}, low, hist, 6, 5, c);
    ok(c[1] == 5, "repeat penalty pushes negative logits down, too");
    const aq_bias up = {.tok = 5, .bias = 3}, down = {.tok = 0, .bias = -100};
    draw(&(aq_sampling){.bias = &up, .n_bias = 1}, l, NULL, 0, 5, c);
    ok(c[5] == 5, "a bias lifts a token");
    draw(&(aq_sampling){.bias = &down, .n_bias = 1}, l, NULL, 0, 5, c);
    ok(c[1] == 5, "or bans it");
}

static void chance(void)
{
    bool differs = false;
    double sum = 0, sum2 = 0;

    for (uint64_t i = 0; i < 10000; i++) {
        double u = aq_sampler_uniform(7, i);
        if (!(u >= 0 && u < 1))
            differs = true;
        sum += u;
        sum2 += u * u;
    }
    ok(!differs, "numbers lie in [0, 1)");
    ok(fabs(sum / 10000 - 0.5) < 0.015 && fabs(sum2 / 10000 - 1.0 / 3) < 0.015,
       "mean %.3f and mean square %.3f are those of chance", sum / 10000, sum2 / 10000);
    uint32_t same = 0;
    for (uint64_t i = 0; i < 1000; i++)
        same += (aq_sampler_uniform(7, i) < 0.5) == (aq_sampler_uniform(8, i) < 0.5);
    ok(same > 420 && same < 580, "neighbouring seeds are strangers (%u of 1000 on the same side)",
       same);
    ok(aq_sampler_uniform(7, 5) == aq_sampler_uniform(7, 5), "and a number can be made again");
}

static void logprobs(void)
{
    const float l[N] = {0, 1, 2, 3, -1, 3, 0, -INFINITY};
    aq_logprob p[AQ_LOGPROBS_MAX + 1];
    double lse = 0;

    for (uint32_t i = 0; i < N; i++)
        lse += exp(l[i]);
    lse = log(lse);
    uint32_t n = aq_sampler_logprobs(l, N, 1, 3, p);
    ok(n == 4 && p[0].tok == 1 && fabs(p[0].logprob - (1 - lse)) < 1e-6, "the chosen token first");
    ok(p[1].tok == 3 && p[2].tok == 5 && p[3].tok == 2 && fabs(p[3].logprob - (2 - lse)) < 1e-6,
       "then the best, the lower id first among equals");
    ok(aq_sampler_logprobs(l, N, 7, 0, p) == 1 && p[0].tok == 7 && isinf(p[0].logprob),
       "none of the best when none are asked for");
    ok(aq_sampler_logprobs(l, N, 0, 64, p) <= 9, "never more than there are");
}

int main(void)
{
    spread();
    greedy();
    penalties();
    chance();
    logprobs();
    return tap_done();
}
