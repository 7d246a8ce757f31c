/* SPDX-License-Identifier: Apache-2.0 */
/* From logits to events: one token is sampled, becomes text, and may end the answer.
 *
 * Every token is one TEXT event; its bytes are whatever became certain with it. Held back are bytes
 * of an incomplete character (the detokenizer does that) and the longest end of the text that a
 * stop string begins with. What was let go can hold no part of a stop string, so only the held text
 * is searched. */
#include "sched-priv.h"

#define PIECE_MAX 8192u /* bytes of one event */

/* True with the place of the first stop string in r->held; else *ret_at bytes can go. */
static bool find_stop(const aq_req *r, size_t *ret_at)
{
    const char *p = (const char *)r->held.p;
    size_t n = r->held.n;

    *ret_at = n;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->n_stop; k++) {
            size_t m = r->stop_n[k];
            if (m <= n - i && !memcmp(p + i, r->stop[k], m)) {
                *ret_at = i;
                return true;
            }
            if (m > n - i && *ret_at == n && !memcmp(p + i, r->stop[k], n - i))
                *ret_at = i; /* a beginning: what follows decides */
        }
    return false;
}

/* Send the first n held bytes; the event of this token at least, even when it is empty. */
static int send(aq_req *r, size_t n, int32_t tok, const aq_logprob *top, uint32_t n_top)
{
    size_t at = 0;
    int rc;

    do {
        size_t k = n - at;
        if (k > PIECE_MAX)
            for (k = PIECE_MAX; k > PIECE_MAX - 4 && (r->held.p[at + k] & 0xC0) == 0x80;)
                k--;
        bool last = at + k == n;
        rc = aq_req_emit(r, AQ_EV_TEXT, last ? tok : -1, k ? (const char *)r->held.p + at : "",
                         (uint32_t)k, last ? top : NULL, last ? n_top : 0);
        at += k;
    } while (rc >= 0 && at < n);
    if (rc >= 0 && n) {
        memmove(r->held.p, r->held.p + n, r->held.n - n);
        r->held.n -= n;
    }
    return rc;
}

static bool fail(aq_engine *e, aq_req *r, int rc)
{
    aq_err err;

    aq_fail(&err, -rc, "no memory for the answer's text"); /* NOMEM, or LIMIT of one buffer */
    aq_req_end(e, r, rc, &err);
    return true;
}

/* The answer ends: nothing is held back any more. */
static bool end(aq_engine *e, aq_req *r, int32_t reason, int32_t tok, const aq_logprob *top,
                uint32_t n_top)
{
    size_t at;
    int rc = e->model->vocab ? aq_detok_flush(&r->detok, &r->held) : 0;

    if (rc < 0)
        return fail(e, r, rc);
    if (find_stop(r, &at))
        reason = AQ_DONE_STOP;
    else
        at = r->held.n;
    if ((at || tok >= 0) && (rc = send(r, at, tok, top, n_top)) < 0)
        return fail(e, r, rc);
    aq_req_end(e, r, reason, NULL);
    return true;
}

bool aq_gen_token(aq_engine *e, aq_req *r, float *logits)
{
    aq_logprob top[AQ_LOGPROBS_MAX + 1];
    uint32_t n_top = 0;
    size_t at;
    int rc;

    aq_err err = {0};
    if ((rc = aq_logits_check(logits, e->n_vocab, &err)) < 0) {
        aq_req_end(e, r, rc, &err);
        return true;
    }
    /* a copy of the raw row would be needed to tell its log-probabilities afterwards: take the best
     * now, the chosen one's below */
    float *raw = NULL;
    if (r->n_logprobs) {
        raw = malloc(e->n_vocab * sizeof *raw);
        if (!raw)
            return fail(e, r, -AQ_E_NOMEM);
        memcpy(raw, logits, e->n_vocab * sizeof *raw);
    }
    int32_t tok = aq_sampler_pick(r->sampler, logits, r->log.id, r->log.n);
    if (raw)
        n_top = aq_sampler_logprobs(raw, e->n_vocab, tok, r->n_logprobs, top);
    free(raw);

    r->t_last_us = aq_now_us();
    if (!r->t_first_us) {
        r->t_first_us = r->t_last_us;
        r->usage.prompt_us = r->t_first_us - r->t_run_us;
    }
    if ((rc = aq_toks_put(&r->log, tok)) < 0)
        return fail(e, r, rc);
    r->n_gen++;
    atomic_store(&r->st_gen, r->n_gen);
    atomic_fetch_add_explicit(&e->st_gen, 1, memory_order_relaxed);
    if (!r->ignore_eog && aq_token_is_eog(e->model, tok))
        return end(e, r, AQ_DONE_STOP, -1, NULL, 0);
    if (e->model->vocab && !aq_vocab_type(e->model->vocab, tok)) {
        rc = aq_fail(&err, AQ_E_FORMAT,
                     "the model chose token %d, for which its vocabulary has no text: the file was "
                     "converted wrongly",
                     tok);
        aq_req_end(e, r, rc, &err);
        return true;
    }
    if (e->model->vocab &&
        (rc = aq_detok_push(&r->detok, e->model->vocab, tok, false, &r->held)) < 0)
        return fail(e, r, rc);
    if (find_stop(r, &at)) {
        r->held.n = at;
        r->detok = (aq_detok){0};
        return end(e, r, AQ_DONE_STOP, tok, top, n_top);
    }
    if (r->n_gen >= r->max_tok)
        return end(e, r, AQ_DONE_LENGTH, tok, top, n_top);
    if ((rc = send(r, at, tok, top, n_top)) < 0)
        return fail(e, r, rc);
    return false;
}
