/* SPDX-License-Identifier: Apache-2.0 */
/* The top-k router, shared by all backends: which experts a row takes is decided once, in one way. Any thread. */
#include <math.h>

#include "forward-priv.h"

/* Score of one expert before renormalising: its share of the softmax over all, or its sigmoid. */
static double score(const aq_layer *d, float logit, float top, double sum)
{
    return d->exp_gate == AQ_GATE_SIGMOID ? 1.0 / (1.0 + exp(-(double)logit))
                                          : exp((double)logit - top) / sum;
}

static void route_row(const aq_layer *d, const float *logits, int32_t *expert, float *w)
{
    uint32_t n = d->n_exp, k = d->n_used, have = 0;
    /* both gates rise with the logit, so the best logits are the best scores; insertion keeps the lower id first among equals */
    for (uint32_t e = 0; e < n; e++) {
        uint32_t at = have;
        while (at > 0 && logits[e] > logits[expert[at - 1]])
            at--;
        if (at >= k)
            continue;
        have = AQ_MIN(have + 1, k);
        for (uint32_t j = have - 1; j > at; j--)
            expert[j] = expert[j - 1];
        expert[at] = (int32_t)e;
    }
    float top = logits[expert[0]];
    double sum = 0, chosen = 0;
    for (uint32_t e = 0; e < n; e++)
        sum += exp((double)logits[e] - top);
    for (uint32_t j = 0; j < k; j++)
        chosen += score(d, logits[expert[j]], top, sum);
    for (uint32_t j = 0; j < k; j++) {
        double s = score(d, logits[expert[j]], top, sum);
        w[j] = (float)((d->exp_renorm ? s / chosen : s) * d->exp_scale);
    }
}

void aq_route(const aq_layer *d, const float *logits, uint32_t n, int32_t *expert, float *w)
{
    for (uint32_t r = 0; r < n; r++)
        route_row(d, logits + (size_t)r * d->n_exp, expert + (size_t)r * d->n_used,
                  w + (size_t)r * d->n_used);
}
