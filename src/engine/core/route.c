/* SPDX-License-Identifier: Apache-2.0 */
/* The top-k router, shared by all backends: which experts a row takes is decided once, in one way. Any thread. */
#include <math.h>

#include "forward-priv.h"

#define SUM_MIN 6.103515625e-5 /* sums of weights below this are not renormalised to 1 (2^-14) */

/* Weight of one expert before renormalising: its share of the softmax over all (or, CHOSEN, of what is chosen), or its sigmoid. */
static double score(const aq_layer *d, float logit, float top, double sum)
{
    return d->exp_gate == AQ_GATE_SIGMOID ? 1.0 / (1.0 + exp(-(double)logit))
                                          : exp((double)logit - top) / sum;
}

/* What experts are chosen by. Without bias and groups the logit itself: scores rise with it. (Groups are judged by sums of scores.) */
static float key(const aq_layer *d, const float *logits, const float *bias, float top, double sum,
                 uint32_t e)
{
    bool raw = d->exp_gate == AQ_GATE_CHOSEN || (!bias && !d->n_group);
    return (raw ? logits[e] : (float)score(d, logits[e], top, sum)) + (bias ? bias[e] : 0);
}

/* Insert e before the first of the best `have` (at most k) that has a lower key: the lower id stays first among equals. */
static uint32_t insert(uint32_t e, float v, uint32_t have, uint32_t k, int32_t *id, float *keys)
{
    uint32_t at = have;
    while (at > 0 && v > keys[at - 1])
        at--;
    if (at >= k)
        return have;
    have = AQ_MIN(have + 1, k);
    for (uint32_t j = have - 1; j > at; j--) {
        id[j] = id[j - 1];
        keys[j] = keys[j - 1];
    }
    id[at] = (int32_t)e;
    keys[at] = v;
    return have;
}

/* The groups that experts may be chosen from, best first: a group's key is the sum of its two best. */
static uint32_t choose_groups(const aq_layer *d, const float *logits, const float *bias, float top,
                              double sum, int32_t group[AQ_GROUPS_MAX])
{
    uint32_t size = d->n_exp / d->n_group, have = 0;
    float keys[AQ_GROUPS_MAX];
    for (uint32_t g = 0; g < d->n_group; g++) {
        float best[2] = {-INFINITY, -INFINITY};
        int32_t id[2];
        uint32_t n = 0;
        for (uint32_t i = 0; i < size; i++)
            n = insert(i, key(d, logits, bias, top, sum, g * size + i), n, 2, id, best);
        have = insert(g, n > 1 ? best[0] + best[1] : best[0], have, d->n_group_used, group, keys);
    }
    return have;
}

static bool in_groups(const int32_t *group, uint32_t n, uint32_t g)
{
    for (uint32_t i = 0; i < n; i++)
        if (group[i] == (int32_t)g)
            return true;
    return false;
}

static void route_row(const aq_layer *d, const float *logits, const float *bias, int32_t *expert,
                      float *w)
{
    uint32_t k = d->n_used, have = 0, n_group = 0;
    int32_t group[AQ_GROUPS_MAX];
    float top = -INFINITY;
    double sum = 0, chosen = 0;
    for (uint32_t e = 0; e < d->n_exp; e++)
        top = AQ_MAX(top, logits[e]);
    for (uint32_t e = 0; e < d->n_exp; e++)
        sum += exp((double)logits[e] - top);
    if (d->n_group)
        n_group = choose_groups(d, logits, bias, top, sum, group);
    for (uint32_t e = 0; e < d->n_exp; e++)
        if (!d->n_group || in_groups(group, n_group, e / (d->n_exp / d->n_group)))
            have = insert(e, key(d, logits, bias, top, sum, e), have, k, expert, w);
    if (d->exp_gate == AQ_GATE_CHOSEN) {
        sum = 0;
        for (uint32_t j = 0; j < k; j++)
            sum += exp((double)logits[expert[j]] - top);
    }
    for (uint32_t j = 0; j < k; j++)
        chosen += score(d, logits[expert[j]], top, sum);
    chosen = AQ_MAX(chosen, SUM_MIN);
    for (uint32_t j = 0; j < k; j++) {
        double s = score(d, logits[expert[j]], top, sum);
        w[j] = (float)((d->exp_renorm ? s / chosen : s) * d->exp_scale);
    }
}

void aq_route(const aq_layer *d, const float *logits, const float *bias, uint32_t n,
              int32_t *expert, float *w)
{
    for (uint32_t r = 0; r < n; r++)
        route_row(d, logits + (size_t)r * d->n_exp, bias, expert + (size_t)r * d->n_used,
                  w + (size_t)r * d->n_used);
}
