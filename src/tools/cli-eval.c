/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model to drive it by hand. One thread. */
#include <math.h>

#include "cli-eval.h"

int cli_kv_type(const char *name, uint32_t *ret)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"f32", AQ_KV_F32}, {"f16", AQ_KV_F16}, {"q8_0", AQ_KV_Q8_0}};
    for (size_t i = 0; i < AQ_LEN(types); i++)
        if (!strcmp(types[i].name, name)) {
            *ret = types[i].type;
            return CLI_OK;
        }
    return cli_error(CLI_CANNOT, "--kv", "'%s' is none of f32, f16, q8_0", name);
}

int cli_eval_open(cli_eval *e, const char *path, const char *backend, const char *kv,
                  uint32_t n_threads, uint32_t n_ctx, uint32_t max_rows)
{
    aq_err err = {0};
    uint32_t type = AQ_KV_F16;
    *e = (cli_eval){0};
    e->backend = backend ? backend : "cpu";
    e->kv = kv ? kv : !strcmp(e->backend, "reference") ? "f32" : "f16";
    if (cli_kv_type(e->kv, &type) != CLI_OK)
        return CLI_CANNOT;
    int rc = cli_rt(n_threads, &e->rt, &err);
    if (rc >= 0)
        rc = aq_model_open(e->rt, path, 0, &e->model, &e->src, &err);
    if (rc >= 0) {
        e->info = aq_model_get_info(e->model);
        if (n_ctx > e->info->n_ctx_train)
            rc = aq_fail(&err, AQ_E_LIMIT,
                         "%u tokens do not fit: the model's context holds %u; ask for fewer", n_ctx,
                         e->info->n_ctx_train);
    }
    if (rc >= 0) {
        aq_place place = {.backend = backend};
        rc = aq_eval_new(e->rt, e->model, &e->src, &place, type, n_ctx, max_rows, NULL, &e->eval,
                         &err);
    }
    if (rc >= 0)
        return CLI_OK;
    cli_eval_close(e);
    return cli_fail(path, rc, &err);
}

void cli_eval_close(cli_eval *e)
{
    aq_eval_free(e->eval);
    aq_wsrc_close(&e->src);
    aq_model_free(e->model);
    aq_rt_free(e->rt);
    *e = (cli_eval){0};
}

int cli_eval_tokens(const cli_eval *e, const char *path, const aq_toks *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->id[i] < 0 || (uint32_t)t->id[i] >= e->info->n_vocab)
            return cli_error(CLI_FAILED, path, "token %u is %d, but the model's vocabulary has %u",
                             i, t->id[i], e->info->n_vocab);
    return t->n > 0 ? CLI_OK : cli_error(CLI_FAILED, path, "it holds no tokens");
}

uint32_t cli_argmax(const float *v, uint32_t n, float *ret_gap)
{
    uint32_t best = 0;
    float second = -INFINITY;
    for (uint32_t i = 1; i < n; i++) {
        if (v[i] > v[best]) {
            second = v[best];
            best = i;
        } else if (v[i] > second)
            second = v[i];
    }
    if (ret_gap)
        *ret_gap = v[best] - second;
    return best;
}
