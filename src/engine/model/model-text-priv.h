/* SPDX-License-Identifier: Apache-2.0 */
/* A model's vocabulary and chat template, out of its key-values. */
#ifndef AQ_MODEL_TEXT_PRIV_H
#define AQ_MODEL_TEXT_PRIV_H

#include "model-priv.h"

/** Fill vocab and tmpl, or say in info.tok_refused and info.tmpl_refused why not. Fails only for want of memory and for damaged keys. */
int aq_model_bind_text(aq_model *, aq_err *) AQ_MUST;
void aq_model_free_text(aq_model *);

#endif
