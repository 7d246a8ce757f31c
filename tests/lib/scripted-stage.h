/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted stage: all layers of a model that answers a written token list at a written pace;
 * everything above it is the real thing. Which row makes the head give a token is the model's
 * business: toy_force for the toy, one-hot rows for a model whose head is the identity. */
#ifndef SCRIPTED_STAGE_H
#define SCRIPTED_STAGE_H

#include "aq/engine.h"

typedef struct script {
    uint32_t n_prompt; /* tok[0] answers the row at position n_prompt - 1, whatever the seq */
    const int32_t *tok;
    uint32_t n_tok;
    int32_t after; /* given when the list is at its end */
    void (*row)(float *x, int32_t tok);
    uint32_t n_page, max_seq; /* 0: plenty */
    bool by_hand;             /* windows complete only when the test releases them */
} script;
/** script is copied but for tok. NULL when out of memory. */
aq_stage *scripted_stage(const aq_model *, const script *);
void scripted_release(aq_stage *, uint32_t n); /* so many windows more */
uint32_t scripted_waiting(aq_stage *);

#endif
