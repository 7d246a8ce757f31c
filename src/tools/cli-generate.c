/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli generate: the greedy continuation of a list of tokens, without a stop at end-of-text tokens. With --draft N the model's
 * draft head guesses up to N tokens ahead and one window checks them: the output is the same. */
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

/* ---- drafts ---- */

typedef struct drafter {
    cli_eval *ev;
    uint32_t k, n; /* guesses at most; tokens read */
    float *logits; /* [k + 1][n_vocab] */
    float *hidden; /* [k + 1][n_embd] of the last window's rows */
    float *own;    /* [k + 2][n_embd] the draft head's */
    float *feed;   /* [k + 2][n_embd] hidden rows before the tokens in tok */
    int32_t tok[AQ_DRAFT_MAX + 2];
    uint32_t n_feed; /* tokens from position n on that the draft head has yet to see */
    uint32_t n_guess, n_right;
} drafter;

static uint32_t best(const drafter *d, uint32_t row, gen *ret)
{
    uint32_t n_vocab = d->ev->info->n_vocab;
    const float *l = d->logits + (size_t)row * n_vocab;
    gen g;
    g.id = cli_argmax(l, n_vocab, &g.gap);
    g.logit = l[g.id];
    *ret = g;
    return g.id;
}

/* Guesses behind tok[n_feed - 1]; the draft head's entries from pos on are dropped again, since they stand on guesses. */
static int guess(drafter *d, uint32_t pos, uint32_t k, int32_t *ret, aq_err *err)
{
    size_t embd = d->ev->info->n_embd;
    int rc = aq_eval_draft(d->ev->eval, d->tok, d->feed, d->n_feed, pos, d->logits, d->own, err);
    const float *l = d->logits + (size_t)(d->n_feed - 1) * d->ev->info->n_vocab;
    float *h = d->own + (d->n_feed - 1) * embd;
    for (uint32_t i = 0; rc >= 0 && i < k; i++) {
        ret[i] = (int32_t)cli_argmax(l, d->ev->info->n_vocab, NULL);
        if (i + 1 < k)
            rc = aq_eval_draft(d->ev->eval, &ret[i], h, 1, pos + d->n_feed + i, d->logits, d->own,
                               err);
        l = d->logits;
        h = d->own;
    }
    return rc;
}

/* The token tok[n_feed - 1] at position n - 1 + n_feed is known but not read: read it with guesses behind it. */
static int step(drafter *d, uint32_t k, gen *ret, uint32_t *ret_n, aq_err *err)
{
    size_t embd = d->ev->info->n_embd;
    int32_t win[AQ_DRAFT_MAX + 1];
    uint32_t at = d->n - (d->n_feed - 1), n_ok = 0;
    int rc = k ? guess(d, at, k, win + 1, err) : 0;
    if (rc >= 0)
        rc = aq_eval_keep(d->ev->eval, d->n, err);
    win[0] = d->tok[d->n_feed - 1];
    if (rc >= 0)
        rc = aq_eval_rows(d->ev->eval, win, 1 + k, false, d->logits, d->hidden, err);
    if (rc < 0)
        return rc;
    best(d, 0, &ret[0]);
    while (n_ok < k && ret[n_ok].id == (uint32_t)win[1 + n_ok]) {
        n_ok++;
        best(d, n_ok, &ret[n_ok]);
    }
    d->n_guess += k;
    d->n_right += n_ok;
    /* the draft head sees again from the token that it has dropped, its true hidden row before it */
    memmove(d->feed, d->feed + (d->n_feed - 1) * embd, embd * sizeof(float));
    memcpy(d->feed + embd, d->hidden, (n_ok + 1) * embd * sizeof(float));
    memcpy(d->tok, win, (1 + n_ok) * sizeof *win);
    d->tok[1 + n_ok] = (int32_t)ret[n_ok].id;
    d->n_feed = n_ok + 2;
    d->n += 1 + n_ok;
    *ret_n = 1 + n_ok;
    return aq_eval_keep(d->ev->eval, d->n, err);
}

static int run_draft(cli_eval *ev, const aq_toks *tok, uint32_t n_gen, drafter *d, gen *ret)
{
    size_t embd = ev->info->n_embd, V = ev->info->n_vocab;
    aq_err err = {0};
    AQ_AUTOFREE float *h = malloc(((size_t)tok->n + 1) * embd * sizeof *h),
                      *l = malloc(AQ_MIN(CLI_CHUNK, tok->n) * V * sizeof *l);
    if (!h || !l)
        return cli_error(CLI_FAILED, "generate", "out of memory");
    int rc = 0;
    for (uint32_t i = 0, n; rc >= 0 && i < tok->n; i += n) {
        n = AQ_MIN(CLI_CHUNK, tok->n - i);
        rc = aq_eval_rows(ev->eval, tok->id + i, n, false, l, h + i * embd, &err);
        if (rc >= 0 && i + n == tok->n)
            memcpy(d->logits, l + (n - 1) * V, V * sizeof *l);
    }
    for (uint32_t p = 1, n; rc >= 0 && p < tok->n; p += n) {
        n = AQ_MIN(CLI_CHUNK, tok->n - p);
        rc = aq_eval_draft(ev->eval, tok->id + p, h + (p - 1) * embd, n, p, l, NULL, &err);
    }
    d->n = tok->n;
    d->n_feed = 1;
    d->tok[0] = (int32_t)best(d, 0, &ret[0]);
    memcpy(d->feed, h + (tok->n - 1) * embd, embd * sizeof *h);
    for (uint32_t g = 1, n = 0; rc >= 0 && g < n_gen; g += n) {
        gen got[AQ_DRAFT_MAX + 1];
        rc = step(d, AQ_MIN(d->k, n_gen - g - 1), got, &n, &err);
        for (uint32_t i = 0; rc >= 0 && i < n && g + i < n_gen; i++)
            ret[g + i] = got[i];
    }
    return rc < 0 ? cli_fail("generate", rc, &err) : CLI_OK;
}

static int with_drafts(cli_eval *ev, const char *model, const aq_toks *tok, uint32_t n_gen,
                       uint32_t k, gen *g, drafter *d)
{
    size_t embd = ev->info->n_embd, V = ev->info->n_vocab;
    if (!ev->info->n_draft)
        return cli_error(CLI_FAILED, model, "this model has no draft head");
    *d = (drafter){.ev = ev, .k = k};
    d->logits = malloc((k + 2) * V * sizeof(float));
    d->hidden = malloc((k + 1) * embd * sizeof(float));
    d->own = malloc((k + 2) * embd * sizeof(float));
    d->feed = malloc((k + 2) * embd * sizeof(float));
    int rc = d->logits && d->hidden && d->own && d->feed
                 ? run_draft(ev, tok, n_gen, d, g)
                 : cli_error(CLI_FAILED, "generate", "out of memory");
    free(d->logits);
    free(d->hidden);
    free(d->own);
    free(d->feed);
    return rc;
}

static void print(const gen *g, uint32_t n, bool json, const drafter *d)
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
    printf("]");
    if (d->k)
        printf(",\"drafts\":%u,\"drafts_right\":%u", d->n_guess, d->n_right);
    printf("}\n");
}

int cli_generate(int argc, char **argv)
{
    const char *pos[1], *tokens = NULL, *backend = NULL, *kv = NULL;
    uint32_t threads = 0, n_gen = 0, draft = 0;
    drafter d = {0};
    bool json = false;
    int n_pos;
    cli_opt opts[] = {{"--tokens", 's', &tokens},   {"-n", 'u', &n_gen},
                      {"--backend", 's', &backend}, {"--kv", 's', &kv},
                      {"--threads", 'u', &threads}, {"--draft", 'u', &draft},
                      {"--json", 'b', &json},       {0}};
    int rc = cli_parse(argc, argv, opts, pos, 1, &n_pos);
    if (rc != CLI_OK)
        return rc;
    if (n_pos != 1 || !tokens || n_gen == 0)
        return cli_error(CLI_CANNOT, "generate", "needs MODEL, --tokens FILE and -n of at least 1");
    if (draft > AQ_DRAFT_MAX)
        return cli_error(CLI_CANNOT, "--draft", "%u is over the limit of %u tokens", draft,
                         AQ_DRAFT_MAX);
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
                           AQ_MIN(CLI_CHUNK, AQ_MAX(tok.n, 2 + AQ_DRAFT_MAX)));
    if (rc == CLI_OK)
        rc = cli_eval_tokens(&ev, tokens, &tok);
    if (rc == CLI_OK) {
        logits = malloc(ev.info->n_vocab * sizeof(*logits));
        g = calloc(n_gen, sizeof(*g));
        rc = logits && g && draft ? with_drafts(&ev, pos[0], &tok, n_gen, draft, g, &d)
             : logits && g        ? run(&ev, &tok, n_gen, logits, g)
                                  : cli_error(CLI_FAILED, "generate", "out of memory");
    }
    if (rc == CLI_OK)
        print(g, n_gen, json, &d);
    cli_eval_close(&ev);
    aq_toks_clear(&tok);
    free(logits);
    free(g);
    return rc;
}
