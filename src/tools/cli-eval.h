/* SPDX-License-Identifier: Apache-2.0 */
/* A model and its eval, as logits, generate and bench open them. */
#ifndef AQ_CLI_EVAL_H
#define AQ_CLI_EVAL_H

#include "cli.h"

#define CLI_CHUNK 512u

typedef struct cli_eval {
    aq_rt *rt;
    aq_model *model;
    aq_wsrc src;
    aq_eval *eval;
    const aq_model_info *info;
    const char *backend, *kv; /* names of what is used */
} cli_eval;
/** kv NULL = f32 in the reference backend, else f16. Prints the error and returns an exit code other than CLI_OK. */
int cli_eval_open(cli_eval *, const char *path, const char *backend, const char *kv,
                  uint32_t n_threads, uint32_t n_ctx, uint32_t max_rows);
void cli_eval_close(cli_eval *);
/** "f32", "f16" or "q8_0". Prints the error and returns CLI_CANNOT. */
int cli_kv_type(const char *name, uint32_t *ret);
/** Tokens of a file, checked against the vocabulary. Exit code as above. */
int cli_eval_tokens(const cli_eval *, const char *path, const aq_toks *);
uint32_t cli_argmax(const float *v, uint32_t n,
                    float *ret_gap); /* the lower id among equals; best minus second best */

#endif
