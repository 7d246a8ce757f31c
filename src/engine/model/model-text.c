/* SPDX-License-Identifier: Apache-2.0 */
/* A model's vocabulary and chat template, out of its key-values. */
#include "gguf-priv.h"
#include "model-text-priv.h"

int aq_model_bind_text(aq_model *m, aq_err *err)
{
    m->info.tok_model = m->info.tok_pre = "";
    m->info.tok_refused = "the tokenizer is not bound yet";
    return 0;
}

void aq_model_free_text(aq_model *m)
{
}
