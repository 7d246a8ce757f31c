/* SPDX-License-Identifier: Apache-2.0 */
/* Reading tests/text for the text tests: the small vocabulary and files of JSON lines. Knows nothing of GGUF. One thread. */
#ifndef TEXT_DATA_H
#define TEXT_DATA_H

#include <stdio.h>

#include "text-priv.h"

/** A whole file in memory, NUL-terminated; exits when it cannot be read. */
__attribute__((unused)) static char *data_read(const char *dir, const char *name, size_t *ret_n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    char *p = malloc(4u << 20);
    size_t n = f && p ? fread(p, 1, (4u << 20) - 1, f) : 0;
    if (!f || !n) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    p[n] = 0;
    *ret_n = n;
    return p;
}

__attribute__((unused)) static const aq_json *data_parse(aq_arena *a, const char *text, size_t n)
{
    const aq_json *j = NULL;
    aq_err err = {0};
    if (aq_json_parse(a, text, n, &j, &err) < 0) {
        printf("Bail out! the data is no JSON: %s\n", err.text);
        exit(1);
    }
    return j;
}

/** A file like vocab.json as input for aq_vocab_new; everything lives in the arena. */
__attribute__((unused)) static aq_vocab_in data_vocab_of(aq_arena *a, const char *dir,
                                                         const char *name, const char *pre)
{
    size_t n;
    char *text = data_read(dir, name, &n);
    const aq_json *j = data_parse(a, text, n), *tok = aq_json_get(j, "tokens"),
                  *type = aq_json_get(j, "types"), *merge = aq_json_get(j, "merges"),
                  *score = aq_json_get(j, "scores");
    aq_vocab_in in = {.model = "gpt2",
                      .pre = pre,
                      .n_tok = tok->n,
                      .n_merge = merge->n,
                      .bos = -1,
                      .eos = -1,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .pad = -1};
    aq_vstr *t = aq_arena_alloc(a, tok->n * sizeof *t),
            *m = aq_arena_alloc(a, merge->n * sizeof *m);
    uint8_t *k = aq_arena_alloc(a, tok->n);
    uint32_t i = 0;

    free(text);
    for (const aq_json *c = tok->item; c; c = c->next)
        t[i++] = (aq_vstr){c->str, c->n};
    i = 0;
    for (const aq_json *c = type->item; c; c = c->next)
        k[i++] = (uint8_t)c->i;
    i = 0;
    for (const aq_json *c = merge->item; c; c = c->next)
        m[i++] = (aq_vstr){c->str, c->n};
    if (score) {
        float *f = aq_arena_alloc(a, score->n * sizeof *f);
        i = 0;
        for (const aq_json *c = score->item; c; c = c->next)
            f[i++] = c->kind == AQ_JSON_INT ? (float)c->i : (float)c->num;
        in.score = f;
    }
    in.tok = t;
    in.type = k;
    in.merge = m;
    return in;
}

__attribute__((unused)) static aq_vocab_in data_vocab(aq_arena *a, const char *dir, const char *pre)
{
    return data_vocab_of(a, dir, "vocab.json", pre);
}

__attribute__((unused)) static bool data_same_ids(const aq_toks *t, const aq_json *ids)
{
    uint32_t i = 0;
    if (t->n != ids->n)
        return false;
    for (const aq_json *c = ids->n ? ids->item : NULL; c; c = c->next)
        if (t->id[i++] != c->i)
            return false;
    return true;
}

#endif
