/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>

#include "state-priv.h"
#include "text-priv.h"
#include "toy-backend.h"

toy_watch toy;

void toy_reset(void)
{
    atomic_store(&toy.gate, 0);
    atomic_store(&toy.gate_from, 0);
    atomic_store(&toy.at_gate, 0);
    atomic_store(&toy.n_forward, 0);
    atomic_store(&toy.n_cancelled, 0);
    atomic_store(&toy.rows, 0);
    atomic_store(&toy.last_part, 0);
    atomic_store(&toy.max_part, 0);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c15u + (a >> 29));
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static uint64_t embed1(int32_t tok, uint32_t pos)
{
    return mix((uint64_t)(uint32_t)tok + 1, pos);
}

/* layer l at one position: the value it keeps and what it gives on */
static uint64_t layer1(uint32_t l, uint64_t before, uint64_t in)
{
    return mix(mix(before, l + 11), in);
}

static void put_row(float *x, uint64_t h)
{
    x[0] = (float)(h & 0x3fffff);
    x[1] = (float)(h >> 22 & 0x3fffff);
    x[2] = (float)(h >> 44);
    x[3] = 0;
}

static uint64_t get_row(const float *x)
{
    return (uint64_t)x[0] | (uint64_t)x[1] << 22 | (uint64_t)x[2] << 44;
}

void toy_force(float row[TOY_ROW], int32_t tok)
{
    put_row(row, 0);
    row[3] = (float)(tok + 1);
}

static void head1(const float *x, uint32_t n_vocab, float *logits)
{
    uint64_t h = get_row(x);

    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = x[3] > 0 ? (v + 1 == (uint32_t)x[3] ? 30.0f : 0.0f)
                             : (float)(mix(h, v) >> 40) * 0x1p-21f;
}

/* ---- model ---- */

typedef struct toy_model_mem {
    aq_model m;
    uint64_t layer_bytes[64];
    uint8_t cut[65];
} toy_model_mem;

aq_model *toy_model(uint32_t n_layer, uint32_t n_vocab, bool recurrent)
{
    toy_model_mem *t = n_layer <= 64 ? calloc(1, sizeof *t) : NULL;
    if (!t)
        return NULL;
    for (uint32_t i = 0; i < n_layer; i++)
        t->layer_bytes[i] = 100;
    memset(t->cut, 1, sizeof t->cut);
    t->m.info = (aq_model_info){.arch = "toy",
                                .name = "",
                                .n_layer = n_layer,
                                .n_embd = TOY_ROW,
                                .row_f32 = TOY_ROW,
                                .n_vocab = n_vocab,
                                .n_ctx_train = 1u << 20,
                                .recurrent = recurrent,
                                .cut_ok = t->cut,
                                .layer_bytes = t->layer_bytes,
                                .ends_bytes = 100,
                                .tok_model = "",
                                .tok_pre = ""};
    return &t->m;
}

int toy_model_words(aq_model *m, const toy_word *w, uint32_t n, int32_t eos)
{
    uint32_t n_tok = m->info.n_vocab;
    aq_vstr *tok = calloc(n_tok, sizeof *tok);
    uint8_t *type = calloc(n_tok, 1);
    char(*name)[16] = calloc(n_tok, sizeof *name);
    int rc = -AQ_E_NOMEM;

    if (tok && type && name) {
        for (uint32_t i = 0; i < n_tok; i++) {
            type[i] = AQ_TOK_UNUSED;
            tok[i] = (aq_vstr){name[i], (uint32_t)snprintf(name[i], sizeof name[i], "<%u>", i)};
        }
        for (uint32_t i = 0; i < n; i++) {
            type[w[i].id] = w[i].kind;
            tok[w[i].id] = (aq_vstr){w[i].text, (uint32_t)strlen(w[i].text)};
        }
        aq_vocab_in in = {.model = "gpt2",
                          .pre = "gpt-2",
                          .n_tok = n_tok,
                          .tok = tok,
                          .type = type,
                          .bos = -1,
                          .eos = eos,
                          .eot = -1,
                          .eom = -1,
                          .unk = -1,
                          .pad = -1};
        aq_err err = {0};
        rc = aq_vocab_new(&in, &m->vocab, &err);
        if (rc < 0)
            fprintf(stderr, "# toy vocabulary: %s\n", err.text);
    }
    free(tok);
    free(type);
    free(name);
    return rc;
}

void toy_model_free(aq_model *m)
{
    if (m)
        aq_vocab_free(m->vocab);
    free(m);
}

void toy_logits(const aq_model *m, const int32_t *tok, uint32_t n, float *ret)
{
    uint64_t kept[64] = {0}, x = 0;
    float row[TOY_ROW];

    for (uint32_t p = 0; p < n; p++) {
        x = embed1(tok[p], p);
        for (uint32_t l = 0; l < m->info.n_layer; l++)
            x = kept[l] = layer1(l, kept[l], x);
    }
    put_row(row, x);
    head1(row, m->info.n_vocab, ret);
}

void toy_answer(const aq_model *m, const int32_t *tok, uint32_t n, uint32_t n_gen, int32_t *ret)
{
    uint64_t kept[64] = {0};
    uint32_t n_vocab = m->info.n_vocab;
    float *logits = malloc(n_vocab * sizeof *logits), row[TOY_ROW];

    for (uint32_t p = 0; logits && p < n + n_gen - 1; p++) {
        uint64_t x = embed1(p < n ? tok[p] : ret[p - n], p);
        for (uint32_t l = 0; l < m->info.n_layer; l++)
            x = kept[l] = layer1(l, kept[l], x);
        if (p + 1 < n)
            continue;
        put_row(row, x);
        head1(row, n_vocab, logits);
        int32_t best = 0;
        for (uint32_t v = 1; v < n_vocab; v++)
            if (logits[v] > logits[best])
                best = (int32_t)v;
        ret[p + 1 - n] = best;
    }
    free(logits);
}

/* ---- weights and state ---- */

typedef struct weights {
    const aq_model *m;
    uint32_t l0, n;
} weights;

typedef struct state {
    const weights *w;
    aq_state_cfg cfg;
    aq_seqmap *map;
    uint64_t *page; /* [n_page][AQ_PAGE_TOK][n]: value of each layer after this position */
    uint64_t *slot; /* [max_seq + n_snap][n] */
    uint64_t *kept; /* [max_seq][n]: slots before the last window */
    uint64_t *in;   /* [max_seq][AQ_REWIND_ROWS][n]: what its rows brought to each layer */
} state;

static bool recurs(const state *s, uint32_t i)
{
    return s->w->m->info.recurrent && (s->w->l0 + i) % 2;
}

static int toy_load(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                    uint32_t l0, uint32_t l1, aq_progress *p, void **ret, aq_err *err)
{
    (void)rt, (void)src, (void)place, (void)p;
    weights *w = calloc(1, sizeof *w);
    if (!w)
        return aq_fail(err, AQ_E_NOMEM, "toy");
    *w = (weights){m, l0, l1 - l0};
    *ret = w;
    return 0;
}

static void copy_page(void *u, uint32_t dst, uint32_t src, uint32_t n_tok)
{
    state *s = u;
    size_t n = (size_t)AQ_PAGE_TOK * s->w->n;
    memcpy(s->page + dst * n, s->page + src * n, (size_t)n_tok * s->w->n * sizeof *s->page);
}

static void copy_slot(void *u, uint32_t dst, uint32_t src)
{
    state *s = u;
    memcpy(s->slot + (size_t)dst * s->w->n, s->slot + (size_t)src * s->w->n,
           s->w->n * sizeof *s->slot);
}

static void zero_slot(void *u, uint32_t slot)
{
    state *s = u;
    memset(s->slot + (size_t)slot * s->w->n, 0, s->w->n * sizeof *s->slot);
}

static void rewind_slot(void *u, uint32_t dst, uint32_t src, uint32_t n_rows)
{
    state *s = u;
    uint32_t n = s->w->n;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = s->kept[(size_t)src * n + i];
        for (uint32_t k = 0; k < n_rows; k++)
            v = layer1(s->w->l0 + i, v, s->in[((size_t)src * AQ_REWIND_ROWS + k) * n + i]);
        s->slot[(size_t)dst * n + i] = v;
    }
}

static const aq_seqmap_vt map_vt = {copy_page, copy_slot, zero_slot, rewind_slot};

static void toy_drop_state(void *p)
{
    state *s = p;

    if (!s)
        return;
    aq_seqmap_free(s->map);
    free(s->page);
    free(s->slot);
    free(s->kept);
    free(s->in);
    free(s);
}

static int toy_state(void *w, const aq_state_cfg *cfg, void **ret, aq_err *err)
{
    state *s = calloc(1, sizeof *s);
    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "toy");
    s->w = w;
    s->cfg = *cfg;
    size_t n = s->w->n;
    s->page = calloc((size_t)cfg->n_page * AQ_PAGE_TOK * n + 1, sizeof *s->page);
    s->slot = calloc((cfg->max_seq + cfg->n_snap) * n + 1, sizeof *s->slot);
    s->kept = calloc(cfg->max_seq * n + 1, sizeof *s->kept);
    s->in = calloc(cfg->max_seq * AQ_REWIND_ROWS * n + 1, sizeof *s->in);
    int rc = s->page && s->slot && s->kept && s->in
                 ? aq_seqmap_new(cfg, s->w->m->info.recurrent, &map_vt, s, &s->map, err)
                 : aq_fail(err, AQ_E_NOMEM, "toy");
    if (rc < 0)
        toy_drop_state(s);
    else
        *ret = s;
    return rc;
}

static int toy_apply(void *p, const aq_op *op, uint32_t n, aq_err *err)
{
    return aq_seqmap_apply(((state *)p)->map, op, n, err);
}

static bool closed(uint32_t number)
{
    uint32_t from = atomic_load(&toy.gate_from);

    return atomic_load(&toy.gate) || (from && number >= from);
}

static int toy_forward(void *wp, void *sp, const aq_window *win, const aq_expert_host *const *hosts,
                       uint32_t n_hosts, float *x_out, const atomic_uint *stop, aq_err *err)
{
    (void)hosts, (void)n_hosts;
    weights *w = wp;
    state *s = sp;
    uint32_t n = w->n, part = 0;
    int rc = aq_seqmap_grow(s->map, win, err);
    if (rc < 0)
        return rc;
    uint32_t number = atomic_fetch_add(&toy.n_forward, 1) + 1;
    atomic_fetch_add(&toy.rows, win->n_rows);
    for (uint32_t r = 0; r < win->n_rows; r++) {
        uint32_t q = win->row[r].seq;
        if (r && win->row[r - 1].seq == q)
            continue;
        part++;
        memcpy(s->kept + (size_t)q * n, s->slot + (size_t)q * n, n * sizeof *s->slot);
    }
    atomic_store(&toy.last_part, part);
    if (part > atomic_load(&toy.max_part))
        atomic_store(&toy.max_part, part);

    uint64_t *x = malloc((win->n_rows + 1) * sizeof *x);
    if (!x) {
        aq_seqmap_undo(s->map, win);
        return aq_fail(err, AQ_E_NOMEM, "toy");
    }
    for (uint32_t r = 0; r < win->n_rows; r++)
        x[r] = get_row(win->x + (size_t)r * TOY_ROW);
    for (uint32_t i = 0; i < n; i++) {
        if (closed(number)) {
            atomic_fetch_add(&toy.at_gate, 1);
            while (closed(number) && !atomic_load(stop))
                sched_yield();
            atomic_fetch_sub(&toy.at_gate, 1);
        }
        if (atomic_load(stop)) {
            atomic_fetch_add(&toy.n_cancelled, 1);
            for (uint32_t r = 0; r < win->n_rows; r++)
                memcpy(s->slot + (size_t)win->row[r].seq * n, s->kept + (size_t)win->row[r].seq * n,
                       n * sizeof *s->slot);
            aq_seqmap_undo(s->map, win);
            free(x);
            return aq_fail(err, AQ_E_CANCELLED, "stopped");
        }
        for (uint32_t r = 0, k = 0; r < win->n_rows; r++) {
            uint32_t q = win->row[r].seq, pos = win->row[r].pos, len;
            k = r && win->row[r - 1].seq == q ? k + 1 : 0;
            const uint32_t *pg = aq_seqmap_pages(s->map, q, &len);
            uint64_t *v = s->slot + (size_t)q * n + i;
            if (recurs(s, i)) {
                if (k < AQ_REWIND_ROWS)
                    s->in[((size_t)q * AQ_REWIND_ROWS + k) * n + i] = x[r];
                x[r] = *v = layer1(w->l0 + i, *v, x[r]);
            } else {
                uint64_t was = !pos ? 0
                                    : s->page[((size_t)pg[(pos - 1) / AQ_PAGE_TOK] * AQ_PAGE_TOK +
                                               (pos - 1) % AQ_PAGE_TOK) *
                                                  n +
                                              i];
                x[r] = layer1(w->l0 + i, was, x[r]);
                s->page[((size_t)pg[pos / AQ_PAGE_TOK] * AQ_PAGE_TOK + pos % AQ_PAGE_TOK) * n + i] =
                    x[r];
            }
        }
    }
    for (uint32_t r = 0, o = 0; r < win->n_rows; r++)
        if (win->row[r].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS))
            put_row(x_out + (size_t)o++ * TOY_ROW, x[r]);
    free(x);
    return 0;
}

static int toy_embed(void *w, const aq_row *row, uint32_t n, float *x, aq_err *err)
{
    (void)w, (void)err;
    for (uint32_t i = 0; i < n; i++)
        put_row(x + (size_t)i * TOY_ROW, embed1(row[i].tok, row[i].pos));
    return 0;
}

static int toy_head(void *wp, const float *x, uint32_t n, float *logits, float *hidden, aq_err *err)
{
    const weights *w = wp;

    (void)hidden;
    if (aq_failpoint("toy-head"))
        return aq_fail(err, AQ_E_DEVICE, "toy head failed as told");
    for (uint32_t i = 0; i < n; i++)
        head1(x + (size_t)i * TOY_ROW, w->m->info.n_vocab, logits + (size_t)i * w->m->info.n_vocab);
    return 0;
}

static uint64_t toy_bytes(const void *w, const void *s)
{
    return (w ? 1 : 0) + (s ? 2 : 0);
}

const aq_backend toy_backend = {.abi = AQ_BACKEND_ABI,
                                .size = sizeof(aq_backend),
                                .name = "toy",
                                .load = toy_load,
                                .state = toy_state,
                                .apply = toy_apply,
                                .forward = toy_forward,
                                .embed = toy_embed,
                                .head = toy_head,
                                .drop_state = toy_drop_state,
                                .drop = free,
                                .bytes = toy_bytes};
