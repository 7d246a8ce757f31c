/* SPDX-License-Identifier: Apache-2.0 */
/* Sampler: the next token from a row of logits. A pure function of (settings, logits, tokens so
 * far, position): the random number is made from seed and position, so that a chat gives the same
 * tokens alone, in a batch and when it is replayed. One thread per object. */
#ifndef AQ_SAMPLER_PRIV_H
#define AQ_SAMPLER_PRIV_H

#include "aq/engine.h"

#define AQ_LOGPROBS_MAX 64u

typedef struct aq_sampler aq_sampler;
/** Copies what it needs; the penalties' and biases' scratch is allocated here. seed 0 is taken as
 * it is: the caller draws. Errors: INVAL names the setting and its range; LIMIT (too many biases);
 * NOMEM. */
int aq_sampler_new(const aq_sampling *, uint32_t n_vocab, aq_sampler **ret, aq_err *) AQ_MUST;
void aq_sampler_free(aq_sampler *);
AQ_CLEANUP_FUNC(aq_sampler *, aq_sampler_free)

/** Order of the steps: biases, penalties over the last penalty_last_n tokens of tok[0..n_tok),
 * temperature, top-k, top-p and min-p (each on what the one before left, min-p relative to the
 * best), draw. Greedy is the best logit, the lowest id among equals. logits [n_vocab] is changed in
 * place. NaN counts as never. n_tok is also the position that the random number is made for. */
int32_t aq_sampler_pick(aq_sampler *, float *logits, const int32_t *tok, uint32_t n_tok);

/** The two halves of it, for a caller that refuses some tokens (sets their logits to -infinity) and
 * draws again: biases and penalties once, then as many draws, numbered from 0, as it likes. Refusing
 * one token after another until one fits gives each that fits the chance it has among those. */
void aq_sampler_adjust(aq_sampler *, float *logits, const int32_t *tok, uint32_t n_tok);
int32_t aq_sampler_draw(aq_sampler *, const float *logits, uint32_t n_tok, uint32_t draw);

/** All n logits are numbers: damaged weights make NaN or infinity, and no answer may be drawn from
 * those. FORMAT. */
int aq_logits_check(const float *logits, uint32_t n, aq_err *) AQ_MUST;

/** ln softmax of the raw logits [n_vocab] for tok (ret[0]) and for the n best, best first: ret[n +
 * 1]; returns entries written. */
uint32_t aq_sampler_logprobs(const float *logits, uint32_t n_vocab, int32_t tok, uint32_t n,
                             aq_logprob *ret);

/** A number in [0, 1) from seed and position alone. */
double aq_sampler_uniform(uint64_t seed, uint64_t pos);

#endif
