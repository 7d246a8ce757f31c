/* SPDX-License-Identifier: Apache-2.0 */
/* A grammar over one answer, token by token. A demanded form (schema, required call) holds from the beginning, but not while the
 * model thinks; a call of its own choice is held to its form from the marker on that it begins with.
 *
 *   HOLD    what comes must fit the grammar
 *   THINK   thinking: anything but the end of the answer
 *   WAIT    free text until a call begins
 */
#include <math.h>

#include "gram-priv.h"
#include "toolparse-priv.h"

enum { HOLD, THINK, WAIT };

struct aq_guide {
    const aq_vocab *vocab;
    const aq_tok_order *order;
    aq_gram *gram;
    aq_gmach *mach;
    uint8_t *ok; /* scratch of mask */
    uint32_t n_ok, state, n_open;
    uint8_t mode;
    bool lazy;
};

int aq_guide_new(const aq_vocab *v, const aq_tok_order *o, aq_gram *gram, bool lazy, uint8_t think,
                 aq_guide **ret, aq_err *err)
{
    AQ_AUTO(aq_guide_free) aq_guide *g = calloc(1, sizeof *g);
    int rc;

    if (!g) {
        aq_gram_free(gram);
        return aq_fail(err, AQ_E_NOMEM, "no memory to hold an answer to its form");
    }
    *g = (aq_guide){.vocab = v, .order = o, .gram = gram, .lazy = lazy};
    if ((rc = aq_gmach_new(gram, &g->mach, err)) < 0)
        return rc;
    g->mode = lazy ? WAIT : think == AQ_THINK_OPEN ? THINK : HOLD;
    g->state = aq_gmach_at(g->mach, gram->start, &rc);
    if (rc < 0)
        return aq_fail(err, -rc, "the schema is too wide to be followed, or there is no memory");
    *ret = AQ_STEAL(g);
    return 0;
}

void aq_guide_free(aq_guide *g)
{
    if (!g)
        return;
    aq_gmach_free(g->mach);
    aq_gram_free(g->gram);
    free(g->ok);
    free(g);
}

bool aq_guide_on(const aq_guide *g)
{
    return g->mode == HOLD || (g->mode == THINK && !g->lazy);
}

int aq_guide_allows(aq_guide *g, int32_t tok)
{
    int rc = 0;

    if (!aq_guide_on(g))
        return 1;
    if (aq_vocab_is_eog(g->vocab, tok) &&
        !(g->mode == HOLD && aq_gmach_may_end(g->mach, g->state))) {
        /* some markers end an answer as well: where the grammar names one it may come */
        if (g->mode == THINK)
            return 0;
        return aq_gmach_token(g->mach, g->vocab, g->state, tok, &rc) != AQ_GS_DEAD;
    }
    if (aq_vocab_is_eog(g->vocab, tok) || g->mode == THINK)
        return 1;
    uint32_t to = aq_gmach_token(g->mach, g->vocab, g->state, tok, &rc);
    return rc < 0 ? rc : to != AQ_GS_DEAD;
}

int aq_guide_mask(aq_guide *g, float *logits, uint32_t n_vocab)
{
    uint32_t n = aq_vocab_n(g->vocab), left = 0;
    int rc;

    if (g->mode == THINK) {
        for (uint32_t i = 0; i < n_vocab; i++)
            if (aq_vocab_is_eog(g->vocab, (int32_t)i))
                logits[i] = -INFINITY;
        return 0;
    }
    if (g->n_ok < n_vocab) {
        uint8_t *m = realloc(g->ok, n_vocab);
        if (!m)
            return -AQ_E_NOMEM;
        g->ok = m;
        g->n_ok = n_vocab;
    }
    if ((rc = aq_gmach_mask(g->mach, g->order, g->state, g->ok, n_vocab)) < 0)
        return rc;
    bool end = aq_gmach_may_end(g->mach, g->state);
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (!g->ok[i] && !(end && i < n && aq_vocab_is_eog(g->vocab, (int32_t)i)))
            logits[i] = -INFINITY;
        left += logits[i] > -INFINITY;
    }
    return left ? 0 : -AQ_E_UNSUPPORTED;
}

static void hold(aq_guide *g, uint32_t node, int *rc)
{
    g->mode = HOLD;
    g->state = aq_gmach_at(g->mach, node, rc);
}

int aq_guide_took(aq_guide *g, int32_t tok, const aq_toolparse *p)
{
    int rc = 0;

    switch (g->mode) {
    case THINK:
        if (!p || !p->thinking)
            hold(g, g->gram->again, &rc);
        return rc;
    case WAIT:
        if (!p || p->n_open == g->n_open)
            return 0;
        g->n_open = p->n_open;
        hold(g, g->gram->start, &rc);
        /* what the token has behind the marker */
        uint32_t n;
        const char *s = aq_vocab_piece(g->vocab, tok, &n);
        for (size_t i = AQ_MIN(p->open_rest, (size_t)n); i > 0 && s && rc >= 0; i--)
            g->state = aq_gmach_byte(g->mach, g->state, (uint8_t)s[n - i], &rc);
        if (g->state == AQ_GS_DEAD) {
            aq_log(AQ_LOG_WARN, "engine", "a call began in a form of its own and is not guided");
            g->mode = WAIT;
        }
        return rc;
    default:
        break;
    }
    g->state = aq_gmach_token(g->mach, g->vocab, g->state, tok, &rc);
    if (p)
        g->n_open = p->n_open;
    if (rc < 0 || (rc = aq_gmach_trim(g->mach, &g->state)) < 0)
        return rc;
    if (p && p->thinking && !g->lazy) {
        g->mode = THINK;
        return 0;
    }
    if (g->state != AQ_GS_DEAD && !aq_gmach_must_end(g->mach, g->state))
        return 0;
    if (!g->lazy)
        return 1;
    g->mode = WAIT;
    return 0;
}
