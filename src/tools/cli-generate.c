/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli generate: the greedy continuation of a list of tokens, without a stop at end-of-text tokens. */
#include <stdio.h>

#include "cli-eval.h"

typedef struct gen {
    uint32_t id;
    float logit, gap;
} gen;

static int run(cli_eval *ev, const aq_toks *tok, uint32_t n_gen, float *logits, gen *ret)
{
    aq_err err = {0};
    int rc = 0;
    for (uint32_t i = 0, n; rc >= 0 && i < tok->n; i += n) {
        n = AQ_MIN(CLI_CHUNK, tok->n - i);
        rc = aq_eval_rows(ev->eval, tok->id + i, n, true, logits, NULL, &err);
    }
    for (uint32_t g = 0; rc >= 0 && g < n_gen; g++) {
        ret[g].id = cli_argmax(logits, ev->info->n_vocab, &ret[g].gap);
        ret[g].logit = logits[ret[g].id];
        int32_t id = (int32_t)ret[g].id;
        if (g + 1 < n_gen)
            rc = aq_eval_rows(ev->eval, &id, 1, true, logits, NULL, &err);
    }
    return rc < 0 ? cli_fail("generate", rc, &err) : CLI_OK;
}

static void print(const gen *g, uint32_t n, bool json)
{
    if (!json) {
        for (uint32_t i = 0; i < n; i++)
            printf("%u %.9g %.9g\n", g[i].id, g[i].logit, g[i].gap);
        return;
    }
    printf("{\"ids\":[");
    for (uint32_t i = 0; i < n; i++)
        printf("%s%u", i ? "," : "", g[i].id);
    printf("],\"logits\":[");
    for (uint32_t i = 0; i < n; i++)
        printf("%s%.9g", i ? "," : "", g[i].logit);
    printf("],\"gaps\":[");
    for (uint32_t i = 0; i < n; i++)
        printf("%s%.9g", i ? "," : "", g[i].gap);
    printf("]}\n");
}

int cli_generate(int argc, char **argv)
{
    const char *pos[1], *tokens = NULL, *backend = NULL, *kv = NULL;
    uint32_t threads = 0, n_gen = 0;
    bool json = false;
    int n_pos;
    cli_opt opts[] = {{"--tokens", 's', &tokens},
                      {"-n", 'u', &n_gen},
                      {"--backend", 's', &backend},
                      {"--kv", 's', &kv},
                      {"--threads", 'u', &threads},
                      {"--json", 'b', &json},
                      {0}};
    int rc = cli_parse(argc, argv, opts, pos, 1, &n_pos);
    if (rc != CLI_OK)
        return rc;
    if (n_pos != 1 || !tokens || n_gen == 0)
        return cli_error(CLI_CANNOT, "generate", "needs MODEL, --tokens FILE and -n of at least 1");
    aq_err err = {0};
    aq_toks tok = {0};
    int e = cli_read_tokens(tokens, &tok, &err);
    if (e < 0)
        return cli_fail(tokens, e, &err);
    uint64_t n_ctx = (uint64_t)tok.n + n_gen;
    cli_eval ev = {0};
    float *logits = NULL;
    gen *g = NULL;
    if (n_ctx > AQ_CTX_MAX)
        rc = cli_error(CLI_FAILED, "generate", "%u tokens and %u more are over the limit of %u",
                       tok.n, n_gen, AQ_CTX_MAX);
    else
        rc = cli_eval_open(&ev, pos[0], backend, kv, threads, (uint32_t)n_ctx,
                           AQ_MIN(CLI_CHUNK, AQ_MAX(tok.n, 1)));
    if (rc == CLI_OK)
        rc = cli_eval_tokens(&ev, tokens, &tok);
    if (rc == CLI_OK) {
        logits = malloc(ev.info->n_vocab * sizeof(*logits));
        g = calloc(n_gen, sizeof(*g));
        rc = logits && g ? run(&ev, &tok, n_gen, logits, g)
                         : cli_error(CLI_FAILED, "generate", "out of memory");
    }
    if (rc == CLI_OK)
        print(g, n_gen, json);
    cli_eval_close(&ev);
    aq_toks_clear(&tok);
    free(logits);
    free(g);
    return rc;
}
