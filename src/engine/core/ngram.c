/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings by hashes of the last tokens, added to the streams before a layer's mixer. Thread: the stage's.
 *
 *   e = the table's rows for the token's n-grams, side by side      key = norm(KEY e)   query = norm(x)   value = VALUE e
 *   s = key · query / √n_embd of each stream    gate = σ(sign(s) √max(|s|, 1e-6))       g = value × gate
 *   x += g + silu(conv(norm(g)))                a depthwise convolution of ng_conv taps, n-gram size apart
 *
 * State: the last ng_back rows of norm(g), then the last size - 1 tokens, each + 1, so that zeroes mean none. */
#include <math.h>

#include "walk-priv.h"

size_t aq_ngram_f32(const aq_model *m)
{
    return 2 * (size_t)m->info.n_embd + 3 * (size_t)m->info.row_f32;
}

static int32_t load_tok(const float *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The token `back` before row j of a run; eos where the chat has not begun. */
static int32_t token_at(const aq_ngram *g, const aq_row *row, uint32_t j, const float *before,
                        uint32_t back)
{
    if (back <= j)
        return row[j - back].tok;
    uint32_t n = back - j; /* before the run: 1 = the last kept */
    int32_t v = n < g->size ? load_tok(before + (g->size - 1 - n)) : 0;
    return v > 0 ? v - 1 : (int32_t)g->eos;
}

static void hash(const aq_ngram *g, const aq_row *row, uint32_t j, const float *before,
                 uint64_t at[AQ_NG_HEADS_MAX])
{
    uint64_t mixed = (uint64_t)row[j].tok * g->mult[0];
    bool cut = false;
    for (uint32_t n = 1, h = 0; n < g->size; n++) {
        int32_t t = cut ? (int32_t)g->eos : token_at(g, row, j, before, n);
        cut = cut || t == (int32_t)g->eos;
        mixed ^= (uint64_t)t * g->mult[n];
        for (uint32_t k = 0; k < g->per_gram; k++, h++)
            at[h] = mixed % g->vocab[h] + g->off[h];
    }
}

static int gather(walk *w, const aq_run *run, const float *before, float *e, aq_err *err)
{
    const aq_net *net = w->net;
    const aq_ngram *g = &net->model->ngram;
    const aq_tensor *t = &net->model->tensor[net->model->w_ngram];
    size_t bytes = g->dim / t->type->block_vals * t->type->block_bytes;
    /* All rows are asked for before the first is read: the disk then fetches many at a time. */
    for (uint32_t j = 0; net->src.ahead && j < run->n; j++) {
        uint64_t at[AQ_NG_HEADS_MAX];
        hash(g, w->row + run->row0, j, before, at);
        for (uint32_t h = 0; h < g->n_head; h++)
            net->src.ahead(net->src.self, (uint32_t)net->model->w_ngram, at[h] * bytes, bytes);
    }
    for (uint32_t j = 0; j < run->n; j++) {
        uint64_t at[AQ_NG_HEADS_MAX];
        hash(g, w->row + run->row0, j, before, at);
        for (uint32_t h = 0; h < g->n_head; h++, e += g->dim) {
            int rc = net->src.read(net->src.self, (uint32_t)net->model->w_ngram, at[h] * bytes,
                                   net->ngram_row, bytes, err);
            if (rc < 0)
                return aq_err_prefix(err, rc, "n-gram embeddings");
            t->type->dequant(net->ngram_row, e, g->dim);
        }
    }
    return 0;
}

void aq_ngram_keep(const aq_model *m, uint32_t back, uint32_t n, const float *rows,
                   const float *toks, const float *in, float *out)
{
    size_t wide = m->info.row_f32, n_tok = m->ngram.size - 1, at = back * wide;
    /* upwards: out may be in */
    for (uint32_t t = 0; t < back; t++) {
        const float *src = n + t < back ? in + (n + t) * wide : rows + (n + t - back) * wide;
        if (src != out + t * wide)
            memmove(out + t * wide, src, wide * sizeof(float));
    }
    for (size_t t = 0; t < n_tok; t++) {
        float v = n + t < n_tok ? in[at + n + t] : toks[n + t - n_tok];
        memcpy(&out[at + t], &v, sizeof v);
    }
}

/* silu of the convolution at row j of a run: taps reach back into `before`. */
static void convolve(const walk *w, const aq_net_layer *nl, const float *before, const float *norm,
                     uint32_t j, float *x)
{
    const aq_ngram *g = &w->net->model->ngram;
    uint32_t wide = w->net->model->info.row_f32, back = nl->d->ng_back;
    const float *k = nl->v[AQ_W_NG_CONV], *tap[16];
    for (uint32_t i = 0; i < g->conv_k; i++) {
        uint32_t at = j + i * g->size; /* counted from the first kept row */
        tap[i] = at < back ? before + (size_t)at * wide : norm + (size_t)(at - back) * wide;
    }
    for (uint32_t c = 0; c < wide; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < g->conv_k; i++)
            sum += (double)k[(size_t)c * g->conv_k + i] * tap[i][c];
        x[c] += (float)(sum / (1 + exp(-sum)));
    }
}

static float stream_gate(const float *key, const float *query, uint32_t n)
{
    double s = 0;
    for (uint32_t i = 0; i < n; i++)
        s += (double)key[i] * query[i];
    s /= sqrt(n);
    double mag = sqrt(fmax(fabs(s), 1e-6));
    return aq_walk_sigmoid((float)(s > 0 ? mag : s < 0 ? -mag : 0));
}

int aq_ngram_add(walk *w, const aq_net_layer *nl, uint32_t l, float *x, aq_err *err)
{
    const aq_net *net = w->net;
    const aq_model *m = net->model;
    const aq_blocks *b = net->blocks;
    const aq_store *st = w->store;
    uint32_t n = w->n, embd = m->info.n_embd, s = m->n_stream, back = nl->d->ng_back;
    size_t wide = m->info.row_f32;
    float *e = aq_walk_take(w->s, embd, n), *key = aq_walk_take(w->s, wide, n),
          *value = aq_walk_take(w->s, embd, n), *query = aq_walk_take(w->s, wide, n),
          *norm = aq_walk_take(w->s, wide, n);
    for (uint32_t r = 0; r < st->n_run; r++) {
        const aq_run *run = &st->run[r];
        const float *before = aq_store_ngram(st, run->seq, l, false) + back * wide;
        int rc = gather(w, run, before, e + (size_t)run->row0 * embd, err);
        if (rc < 0)
            return rc;
    }
    aq_mul mul[] = {{&nl->m[AQ_W_NG_KEY], key}, {&nl->m[AQ_W_NG_VALUE], value}};
    b->matmul(net->ctx, mul, AQ_LEN(mul), e, n);
    aq_streams_norm(net, key, nl->v[AQ_W_NG_KEY_NORM], n, key);
    aq_streams_norm(net, x, nl->v[AQ_W_NG_QUERY_NORM], n, query);
    for (size_t i = 0; i < (size_t)n * s; i++) {
        float *g = key + i * embd, by = stream_gate(g, query + i * embd, embd);
        for (uint32_t k = 0; k < embd; k++)
            g[k] = value[i / s * embd + k] * by;
    }
    aq_streams_norm(net, key, nl->v[AQ_W_NG_CONV_NORM], n, norm);
    for (uint32_t r = 0; r < st->n_run; r++) {
        const aq_run *run = &st->run[r];
        const float *in = aq_store_ngram(st, run->seq, l, false), *rows = norm + run->row0 * wide;
        float *toks = query; /* what it held has been used */
        for (uint32_t j = 0; j < run->n; j++) {
            int32_t tok = w->row[run->row0 + j].tok + 1;
            memcpy(&toks[j], &tok, sizeof tok);
            convolve(w, nl, in, rows, j, x + (run->row0 + j) * wide);
        }
        if (run->n <= AQ_REWIND_ROWS) {
            float *hist = aq_store_ngram_hist(st, run->seq, l);
            memcpy(hist, rows, run->n * wide * sizeof(float));
            memcpy(hist + AQ_REWIND_ROWS * wide, toks, run->n * sizeof(float));
        }
        aq_ngram_keep(m, back, run->n, rows, toks, in, aq_store_ngram(st, run->seq, l, true));
    }
    aq_walk_add(x, key, n * wide);
    return 0;
}
