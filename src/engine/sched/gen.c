/* SPDX-License-Identifier: Apache-2.0 */
/* From logits to events: one token is sampled, becomes text, and may end the answer.
 *
 * Every token is one event at least, the last of its events names it; their bytes are whatever
 * became certain with it. Held back are bytes of an incomplete character (the detokenizer does
 * that), what may become a marker of thinking or of a call (the parser), and the longest end of the
 * content that a stop string begins with. What was let go can hold no part of a stop string, so
 * only the held text is searched; thinking and calls are not. */
#include <math.h>

#include "sched-priv.h"

#define PIECE_MAX 8192u /* bytes of one event */

/* True with the place of the first stop string in r->held, and r->stopped_by; else *ret_at bytes can go. */
static bool find_stop(aq_req *r, size_t *ret_at)
{
    const char *p = (const char *)r->held.p;
    size_t n = r->held.n;

    *ret_at = n;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->n_stop; k++) {
            size_t m = r->stop_n[k];
            if (m <= n - i && !memcmp(p + i, r->stop[k], m)) {
                *ret_at = i;
                r->stopped_by = k + 1;
                return true;
            }
            if (m > n - i && *ret_at == n && !memcmp(p + i, r->stop[k], n - i))
                *ret_at = i; /* a beginning: what follows decides */
        }
    return false;
}

/* The token that an event ends with, and its log-probabilities. */
typedef struct last {
    int32_t tok;
    uint32_t n_top;
    const aq_logprob *top;
} last;
static const last none = {-1, 0, NULL};

/* One event, cut where it is long; at least one, even when it is empty. */
static int put(aq_req *r, uint32_t kind, uint32_t call, const char *p, size_t n, last t)
{
    size_t at = 0;
    int rc;

    do {
        size_t k = n - at;
        if (k > PIECE_MAX)
            for (k = PIECE_MAX; k > PIECE_MAX - 4 && (p[at + k] & 0xC0) == 0x80;)
                k--;
        bool end = at + k == n;
        rc = aq_req_emit(r, kind, call, end ? t.tok : -1, k ? p + at : "", (uint32_t)k,
                         end ? t.top : NULL, end ? t.n_top : 0);
        at += k;
    } while (rc >= 0 && at < n);
    return rc;
}

/* Send the first n held bytes. */
static int send(aq_req *r, size_t n, last t)
{
    int rc = put(r, AQ_EV_TEXT, 0, (const char *)r->held.p, n, t);

    if (rc >= 0 && n) {
        memmove(r->held.p, r->held.p + n, r->held.n - n);
        r->held.n -= n;
    }
    return rc;
}

/* What the parser made of the last bytes; 1 = a stop string was found, all before it is sent. */
static int send_events(aq_req *r, last t)
{
    const aq_toolparse *p = r->parse;
    size_t at;
    int rc = 0;

    for (uint32_t i = 0; i < p->n_ev && rc >= 0; i++) {
        const aq_tp_ev *e = &p->ev[i];
        last mine = i + 1 == p->n_ev ? t : none;
        if (e->kind != AQ_EV_TEXT) {
            if (r->held.n) /* no stop string goes over a call or a thought */
                rc = send(r, r->held.n, none);
            if (rc >= 0)
                rc = put(r, e->kind, e->call, (const char *)p->buf.p + e->off, e->n, mine);
            continue;
        }
        if ((rc = aq_bytes_put(&r->held, p->buf.p + e->off, e->n)) < 0)
            break;
        bool stop = find_stop(r, &at);
        if (stop)
            mine = t;
        if (at || mine.tok >= 0 || mine.n_top)
            rc = send(r, at, mine);
        if (stop && rc >= 0) {
            r->held.n = 0;
            return 1;
        }
    }
    if (rc >= 0 && !p->n_ev && t.tok >= 0)
        rc = send(r, 0, t);
    return rc;
}

static bool fail(aq_engine *e, aq_req *r, int rc)
{
    aq_err err;

    aq_fail(&err, -rc, "no memory for the answer's text"); /* NOMEM, or LIMIT of one buffer */
    aq_req_end(e, r, rc, &err);
    return true;
}

static int32_t reason_of(const aq_req *r, int32_t reason)
{
    const aq_toolparse *p = r->parse;

    return p && reason == AQ_DONE_STOP && p->n_done && p->n_done == p->n_started && !p->broken
               ? AQ_DONE_CALLS
               : reason;
}

/* The answer ends: nothing is held back any more. The token was sent already when t names none. */
static bool end(aq_engine *e, aq_req *r, int32_t reason, last t)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes rest = {0};
    size_t at;
    int rc = e->model->vocab ? aq_detok_flush(&r->detok, r->parse ? &rest : &r->held) : 0;

    if (rc >= 0 && r->parse) {
        if (rest.n && (rc = aq_toolparse_push(r->parse, (const char *)rest.p, rest.n, false)) >= 0)
            rc = send_events(r, none);
        uint32_t n_bad = r->parse->n_bad;
        if (rc == 0 && (rc = aq_toolparse_finish(r->parse)) >= 0)
            rc = send_events(r, none);
        if (reason == AQ_DONE_LENGTH) /* what was cut off is not the model's fault */
            r->parse->n_bad = n_bad;
        if (rc == 1)
            reason = AQ_DONE_STOP;
    }
    if (rc < 0)
        return fail(e, r, rc);
    if (find_stop(r, &at))
        reason = AQ_DONE_STOP;
    else
        at = r->held.n;
    if ((at || t.tok >= 0) && (rc = send(r, at, t)) < 0)
        return fail(e, r, rc);
    aq_req_end(e, r, reason_of(r, reason), NULL);
    return true;
}

/* The token's text through the parser. 1 = a stop string. */
static int parse_token(aq_engine *e, aq_req *r, int32_t tok, last t)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    const aq_vocab *v = e->model->vocab;
    uint32_t n = 0;
    int rc;

    if (aq_vocab_is_control(v, tok)) {
        const char *p = aq_vocab_piece(v, tok, &n);
        r->detok.at_start = false;
        rc = aq_toolparse_push(r->parse, p ? p : "", n, true);
    } else if ((rc = aq_detok_push(&r->detok, v, tok, false, &b)) >= 0) {
        rc = aq_toolparse_push(r->parse, b.n ? (const char *)b.p : "", b.n, false);
    }
    return rc < 0 ? rc : send_events(r, t);
}

#define DRAWS 8u /* tokens tried before all of the vocabulary is looked through */

/* The next token: of those that the answer's form allows, when it has one. */
static int pick(aq_engine *e, aq_req *r, float *logits, int32_t *ret, aq_err *err)
{
    int rc = 0;

    aq_sampler_adjust(r->sampler, logits, r->log.id, r->log.n);
    for (uint32_t i = 0; i < DRAWS && r->guide && aq_guide_on(r->guide) && !rc; i++) {
        *ret = aq_sampler_draw(r->sampler, logits, r->log.n, i);
        if ((rc = aq_guide_allows(r->guide, *ret)) == 1)
            return 0;
        logits[*ret] = -INFINITY;
    }
    if (!rc && r->guide && aq_guide_on(r->guide))
        rc = aq_guide_mask(r->guide, logits, e->n_vocab);
    if (rc == -AQ_E_UNSUPPORTED)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "the model's vocabulary has no token that goes on in the demanded form");
    if (rc < 0)
        return aq_fail(err, -rc,
                       "the demanded form of the answer is too wide to be followed, or "
                       "there is no memory for it");
    *ret = aq_sampler_draw(r->sampler, logits, r->log.n, r->guide ? DRAWS : 0);
    return 0;
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
    int32_t tok = -1;
    if ((rc = pick(e, r, logits, &tok, &err)) < 0) {
        free(raw);
        aq_req_end(e, r, rc, &err);
        return true;
    }
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
        return end(e, r, AQ_DONE_STOP, none);
    if (e->model->vocab && !aq_vocab_type(e->model->vocab, tok)) {
        rc = aq_fail(&err, AQ_E_FORMAT,
                     "the model chose token %d, for which its vocabulary has no text: the file was "
                     "converted wrongly",
                     tok);
        aq_req_end(e, r, rc, &err);
        return true;
    }
    last t = {tok, n_top, top};
    if (r->parse) {
        if ((rc = parse_token(e, r, tok, t)) < 0)
            return fail(e, r, rc);
        if (rc == 1) {
            r->detok = (aq_detok){0};
            aq_req_end(e, r, AQ_DONE_STOP, NULL);
            return true;
        }
        if (r->guide && (rc = aq_guide_took(r->guide, tok, r->parse)) != 0)
            return rc < 0 ? fail(e, r, rc) : end(e, r, AQ_DONE_STOP, none);
        if (r->one_call && r->parse->n_done)
            return end(e, r, AQ_DONE_STOP, none);
        return r->n_gen >= r->max_tok ? end(e, r, AQ_DONE_LENGTH, none) : false;
    }
    if (e->model->vocab &&
        (rc = aq_detok_push(&r->detok, e->model->vocab, tok, false, &r->held)) < 0)
        return fail(e, r, rc);
    bool full = false;
    if (r->guide) {
        if ((rc = aq_guide_took(r->guide, tok, NULL)) < 0)
            return fail(e, r, rc);
        full = rc == 1;
    }
    if (find_stop(r, &at)) {
        r->held.n = at;
        r->detok = (aq_detok){0};
        return end(e, r, AQ_DONE_STOP, t);
    }
    if (full || r->n_gen >= r->max_tok)
        return end(e, r, full ? AQ_DONE_STOP : AQ_DONE_LENGTH, t);
    if ((rc = send(r, at, t)) < 0)
        return fail(e, r, rc);
    return false;
}
