/* SPDX-License-Identifier: Apache-2.0 */
/* Sampler. Candidates lie in a max-heap (better logit first, lower id among equals) that is only
 * popped as far as top-k or top-p ask, so that a vocabulary of 150,000 is never sorted. Sums are
 * doubles in one fixed order. */
#include <float.h>
#include <math.h>

#include "sampler-priv.h"

typedef struct cand {
    float logit;
    int32_t tok;
} cand;

struct aq_sampler {
    aq_sampling s; /* pointers in it are not used after new */
    uint32_t n_vocab;
    aq_bias *bias;   /* [s.n_bias] */
    uint32_t *count; /* [n_vocab] all zero between calls; NULL = no penalties */
    cand *heap;      /* [n_vocab] NULL = greedy */
    cand *out;       /* [n_vocab] popped, best first */
};

static int check(const aq_sampling *s, uint32_t n_vocab, aq_err *err)
{
    /* written so that NaN fails too */
    if (!(s->temp >= 0 && s->temp <= 100))
        return aq_fail(err, AQ_E_INVAL, "temperature is %g, it must lie in 0 to 100", s->temp);
    if (s->top_k < 0)
        return aq_fail(err, AQ_E_INVAL, "top_k is %d, it must be 0 (off) or more", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return aq_fail(err, AQ_E_INVAL, "top_p is %g, it must lie in 0 to 1", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return aq_fail(err, AQ_E_INVAL, "min_p is %g, it must lie in 0 to 1", s->min_p);
    if (!(s->repeat_penalty >= 0 && s->repeat_penalty <= 10))
        return aq_fail(err, AQ_E_INVAL, "repeat_penalty is %g, it must lie in 0 to 10",
                       s->repeat_penalty);
    if (!(fabsf(s->frequency_penalty) <= 10) || !(fabsf(s->presence_penalty) <= 10))
        return aq_fail(
            err, AQ_E_INVAL,
            "frequency_penalty and presence_penalty are %g and %g, they must lie in -10 to 10",
            s->frequency_penalty, s->presence_penalty);
    if (s->n_bias > AQ_BIAS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u logit biases, at most %u are allowed", s->n_bias,
                       AQ_BIAS_MAX);
    for (uint32_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].tok < 0 || (uint32_t)s->bias[i].tok >= n_vocab)
            return aq_fail(err, AQ_E_INVAL,
                           "logit bias for token %d, but the model's tokens are 0 to %u",
                           s->bias[i].tok, n_vocab - 1);
        if (!(fabsf(s->bias[i].bias) <= 1000))
            return aq_fail(err, AQ_E_INVAL, "logit bias %g for token %d must lie in -1000 to 1000",
                           s->bias[i].bias, s->bias[i].tok);
    }
    return 0;
}

int aq_sampler_new(const aq_sampling *s, uint32_t n_vocab, aq_sampler **ret, aq_err *err)
{
    int rc = check(s, n_vocab, err);
    if (rc < 0)
        return rc;
    AQ_AUTO(aq_sampler_free) aq_sampler *p = calloc(1, sizeof *p);
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a sampler");
    p->s = *s;
    p->n_vocab = n_vocab;
    if (p->s.repeat_penalty == 0)
        p->s.repeat_penalty = 1;
    if (p->s.top_p == 0)
        p->s.top_p = 1; /* a zeroed struct means: off */
    if (p->s.penalty_last_n == 0)
        p->s.penalty_last_n = 64;
    bool ok = true;
    if (s->n_bias) {
        p->bias = malloc(s->n_bias * sizeof *p->bias);
        ok = p->bias != NULL;
        if (ok)
            memcpy(p->bias, s->bias, s->n_bias * sizeof *p->bias);
    }
    if (ok &&
        (p->s.repeat_penalty != 1 || p->s.frequency_penalty != 0 || p->s.presence_penalty != 0))
        ok = (p->count = calloc(n_vocab, sizeof *p->count)) != NULL;
    if (ok && p->s.temp > 0) {
        p->heap = malloc(n_vocab * sizeof *p->heap);
        p->out = malloc(n_vocab * sizeof *p->out);
        ok = p->heap && p->out;
    }
    if (!ok)
        return aq_fail(err, AQ_E_NOMEM, "no memory to sample from %u tokens", n_vocab);
    *ret = AQ_STEAL(p);
    return 0;
}

void aq_sampler_free(aq_sampler *p)
{
    if (!p)
        return;
    free(p->bias);
    free(p->count);
    free(p->heap);
    free(p->out);
    free(p);
}

double aq_sampler_uniform(uint64_t seed, uint64_t pos)
{
    /* SplitMix64 as a counter: two rounds of its mixer, the first over the seed so that near seeds
     * differ everywhere. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
     * generators", OOPSLA 2014. */
    uint64_t z = seed;
    for (int round = 0; round < 2; round++) {
        z += 0x9e3779b97f4a7c15ull * (round ? pos + 1 : 1);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

static inline bool better(cand a, cand b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.tok < b.tok);
}

static void sift(cand *h, uint32_t n, uint32_t i)
{
    cand c = h[i];
    for (uint32_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && better(h[k + 1], h[k]))
            k++;
        if (!better(h[k], c))
            break;
        h[i] = h[k];
    }
    h[i] = c;
}

static void heapify(cand *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        sift(h, n, i);
}

static cand pop(cand *h, uint32_t *n)
{
    cand c = h[0];
    h[0] = h[--*n];
    if (*n)
        sift(h, *n, 0);
    return c;
}

static void penalise(aq_sampler *p, float *logits, const int32_t *tok, uint32_t n_tok)
{
    uint32_t from = n_tok > p->s.penalty_last_n ? n_tok - p->s.penalty_last_n : 0;

    for (uint32_t i = from; i < n_tok; i++)
        if ((uint32_t)tok[i] < p->n_vocab)
            p->count[tok[i]]++;
    for (uint32_t i = from; i < n_tok; i++) {
        uint32_t t = (uint32_t)tok[i], n;
        if (t >= p->n_vocab || (n = p->count[t]) == 0)
            continue; /* done already */
        float x = logits[t];
        x = x > 0 ? x / p->s.repeat_penalty : x * p->s.repeat_penalty;
        logits[t] = x - (float)n * p->s.frequency_penalty - p->s.presence_penalty;
        p->count[t] = 0;
    }
}

static int32_t best(const float *logits, uint32_t n)
{
    uint32_t b = 0;
    float v = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > v) {
            v = logits[i];
            b = i;
        }
    return (int32_t)b;
}

int aq_logits_check(const float *logits, uint32_t n, aq_err *err)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) /* no early end: this becomes vector code */
        bad += !(fabsf(logits[i]) <= FLT_MAX);
    if (!bad)
        return 0;
    return aq_fail(err, AQ_E_FORMAT,
                   "%u of %u of the model's results are not numbers: its weights are damaged, or "
                   "too large for this device; download or copy the file again",
                   bad, n);
}

int32_t aq_sampler_pick(aq_sampler *p, float *logits, const int32_t *tok, uint32_t n_tok)
{
    aq_sampler_adjust(p, logits, tok, n_tok);
    return aq_sampler_draw(p, logits, n_tok, 0);
}

void aq_sampler_adjust(aq_sampler *p, float *logits, const int32_t *tok, uint32_t n_tok)
{
    for (uint32_t i = 0; i < p->s.n_bias; i++)
        logits[p->bias[i].tok] += p->bias[i].bias;
    if (p->count)
        penalise(p, logits, tok, n_tok);
}

int32_t aq_sampler_draw(aq_sampler *p, const float *logits, uint32_t n_tok, uint32_t draw)
{
    const aq_sampling *s = &p->s;

    int32_t top = best(logits, p->n_vocab);
    if (s->temp <= 0)
        return top;

    double max = logits[top], inv = 1.0 / s->temp,
           u = aq_sampler_uniform(s->seed + draw * 0xd1342543de82ef95ull, n_tok);
    if (!isfinite(max))
        return top;
    bool lazy = s->top_k > 0 || s->top_p < 1;
    uint32_t n = 0;
    double total = 0;
    for (uint32_t i = 0; i < p->n_vocab; i++) {
        double w = exp((logits[i] - max) * inv);
        if (!(w > 0) || (!lazy && w < s->min_p))
            continue; /* NaN, -inf, or too small for a double */
        p->heap[n++] = (cand){logits[i], (int32_t)i};
        total += w;
    }
    const cand *from = p->heap;
    if (lazy) {
        uint32_t left = n, m = 0;
        heapify(p->heap, n);
        if (s->top_k > 0) {
            total = 0;
            while (left && m < (uint32_t)s->top_k) {
                p->out[m] = pop(p->heap, &left);
                total += exp((p->out[m++].logit - max) * inv);
            }
        }
        double sum = 0;
        uint32_t k = 0;
        for (;; k++) { /* p->out[k..m) is popped already */
            if (k == m) {
                if (s->top_k > 0 || !left)
                    break;
                p->out[m++] = pop(p->heap, &left);
            }
            double w = exp((p->out[k].logit - max) * inv);
            if (k > 0 && (w < s->min_p || sum >= s->top_p * total))
                break;
            sum += w;
        }
        from = p->out;
        n = k;
        total = sum;
    }
    double at = u * total, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += exp((from[i].logit - max) * inv);
        if (at < sum)
            return from[i].tok;
    }
    return n ? from[n - 1].tok : top;
}

uint32_t aq_sampler_logprobs(const float *logits, uint32_t n_vocab, int32_t tok, uint32_t n,
                             aq_logprob *ret)
{
    cand heap[AQ_LOGPROBS_MAX]; /* the n best so far, best first */
    uint32_t m = 0;
    double max = logits[best(logits, n_vocab)], sum = 0;

    n = AQ_MIN(n, AQ_LOGPROBS_MAX);
    for (uint32_t i = 0; i < n_vocab; i++) {
        double w = exp(logits[i] - max);
        if (!(w >= 0))
            continue;
        sum += w;
        cand c = {logits[i], (int32_t)i};
        if (m == n && (n == 0 || !better(c, heap[m - 1])))
            continue;
        uint32_t k = m < n ? m++ : m - 1; /* insertion: n is small */
        for (; k > 0 && better(c, heap[k - 1]); k--)
            heap[k] = heap[k - 1];
        heap[k] = c;
    }
    double lse = max + log(sum);
    ret[0] = (aq_logprob){tok, (uint32_t)tok < n_vocab ? (float)(logits[tok] - lse) : -INFINITY};
    for (uint32_t i = 0; i < m; i++)
        ret[i + 1] = (aq_logprob){heap[i].tok, (float)(heap[i].logit - lse)};
    return m + 1;
}
