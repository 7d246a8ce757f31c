/* SPDX-License-Identifier: Apache-2.0 */
/* The walk: one window through layers by their descriptors, calling a backend's blocks. The state of a stage (aq_state) lies here too:
 * a store for the layers, one for the draft layer, and scratch for one window. Thread: the stage's.
 *
 *   x ─┬─ norm ─ mixer (attention | delta net) ─ + ─┬─ norm ─ ffn (dense | router, experts) ─ + ─ x
 *      └───────────────────────────────────────────┘└──────────────────────────────────────────┘ */
#include <math.h>

#include "walk-priv.h"

/* ---- scratch --------------------------------------------------------------------------------------------------------- */

static int new_scratch(aq_state *s, aq_err *err)
{
    const aq_net *net = s->net;
    size_t row = 0, rot = 2, rows = s->cfg.max_rows, embd = net->model->info.n_embd,
           wide = net->model->info.row_f32;
    uint32_t n_layer = net->l1 - net->l0;
    size_t ple = (size_t)net->model->n_ple * net->model->info.n_layer;
    for (uint32_t l = 0; l < n_layer + (net->draft != NULL); l++) {
        const aq_layer *d = l < n_layer ? net->layer[l].d : net->draft->d;
        row = AQ_MAX(row, d->mixer == AQ_MIX_ATTN     ? aq_attn_f32(d)
                          : d->mixer == AQ_MIX_LATENT ? aq_latent_f32(&net->layer[l])
                                                      : aq_delta_f32(d));
        row = AQ_MAX(row, aq_ffn_f32(d, embd));
        if (net->model->n_stream > 1 && l < n_layer)
            row = AQ_MAX(row, aq_streams_f32(net->model, net->layer[l].m[AQ_W_HC_ATTN_DOWN].rows));
        if (d->ng_back)
            row = AQ_MAX(row, aq_ngram_f32(net->model));
        rot = AQ_MAX(rot, d->n_rot);
    }
    row = AQ_MAX(row, 2 * embd); /* the draft layer's input */
    row = AQ_MAX(row, ple + (size_t)net->model->n_ple);
    s->buf_f32 = row * rows + 16 * PAD;
    if (s->buf_f32 > SIZE_MAX / 8)
        return aq_fail(err, AQ_E_LIMIT, "windows of %zu rows are too large for this model", rows);
    s->x = aligned_alloc(64, (wide * rows + PAD) / PAD * PAD * sizeof(float));
    s->h = aligned_alloc(64, (embd * rows + PAD) / PAD * PAD * sizeof(float));
    s->cs = aligned_alloc(64, (rot * rows + PAD) / PAD * PAD * sizeof(float));
    s->buf = aligned_alloc(64, (s->buf_f32 + PAD) / PAD * PAD * sizeof(float));
    s->ple = ple ? aligned_alloc(64, (ple * rows + PAD) / PAD * PAD * sizeof(float)) : NULL;
    s->inject = calloc(rows * net->model->n_stream, sizeof(float));
    s->draft_row = calloc(rows, sizeof(*s->draft_row));
    if (!s->x || !s->h || !s->cs || !s->buf || !s->draft_row || !s->inject || (ple && !s->ple))
        return aq_fail(err, AQ_E_NOMEM, "scratch for windows of %zu rows: out of memory", rows);
    s->bytes =
        ((embd + wide + net->model->n_stream) * rows + rot * rows + ple * rows + s->buf_f32) *
        sizeof(float);
    return 0;
}

AQ_CLEANUP_FUNC(void *, aq_net_drop_state)

int aq_net_state(void *w, const aq_state_cfg *cfg, void **ret_s, aq_err *err)
{
    aq_net *net = w;
    uint32_t n_layer = net->l1 - net->l0;
    if (net->flags & AQ_PLACE_EXPERTS)
        return aq_fail(err, AQ_E_INVAL, "an expert host keeps no state of chats");
    aq_state *s = calloc(1, sizeof(*s));
    AQ_AUTO(aq_net_drop_state) void *guard = s;
    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "state: out of memory");
    s->net = net;
    s->cfg = *cfg;
    int rc = 0;
    if (n_layer > 0)
        rc = aq_store_new(net, net->layer, n_layer, cfg, &s->main, err);
    if (rc == 0 && net->draft)
        rc = aq_store_new(net, net->draft, 1, cfg, &s->draft, err);
    if (rc == 0)
        rc = new_scratch(s, err);
    if (rc == 0 && net->blocks->reserve)
        rc = net->blocks->reserve(net->ctx, cfg->max_rows, err);
    if (rc < 0)
        return rc;
    *ret_s = AQ_STEAL(guard);
    return 0;
}

void aq_net_drop_state(void *state)
{
    aq_state *s = state;
    if (!s)
        return;
    aq_store_free(s->main);
    aq_store_free(s->draft);
    free(s->x);
    free(s->h);
    free(s->cs);
    free(s->buf);
    free(s->ple);
    free(s->inject);
    free(s->draft_row);
    free(s);
}

uint64_t aq_net_bytes(const void *w, const void *state)
{
    const aq_net *net = w;
    const aq_state *s = state;
    return (net ? net->bytes : 0) +
           (s ? s->bytes + (s->main ? s->main->bytes : 0) + (s->draft ? s->draft->bytes : 0) : 0);
}

/* ---- operations ----------------------------------------------------------------------------------------------------------- */

/* The draft layer's entry i belongs to position i + 1 (it needs the hidden row of the position before), and it may lag behind the
 * chat or run ahead of it: its lengths are cut to what is there. */
static aq_op draft_op(const aq_state *s, const aq_op *op)
{
    aq_op o = *op;
    uint32_t len, n;
    aq_seqmap_pages(s->draft->map, op->kind == AQ_OP_FORK ? op->from : op->seq, &len);
    if (op->kind == AQ_OP_KEEP || op->kind == AQ_OP_FORK)
        o.arg = op->arg > 0 ? AQ_MIN(op->arg - 1, len) : 0;
    if (op->kind == AQ_OP_RESTORE && aq_seqmap_snap(s->draft->map, op->arg, &n) && n > len)
        o = (aq_op){.kind = AQ_OP_KEEP, .seq = op->seq, .arg = len};
    return o;
}

int aq_net_apply(void *state, const aq_op *op, uint32_t n, aq_err *err)
{
    aq_state *s = state;
    for (uint32_t i = 0; i < n; i++) {
        int rc = s->main ? aq_seqmap_apply(s->main->map, &op[i], 1, err) : 0;
        if (rc < 0)
            return rc;
        if (!s->draft)
            continue;
        aq_op o = draft_op(s, &op[i]);
        rc = aq_seqmap_apply(s->draft->map, &o, 1, err);
        if (rc < 0 && s->main &&
            op[i].kind == AQ_OP_FORK) { /* out of memory: nothing of the op is done */
            aq_op undo = {.kind = AQ_OP_FREE, .seq = op[i].seq};
            (void)!aq_seqmap_apply(s->main->map, &undo, 1, NULL);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- layers ----------------------------------------------------------------------------------------------------------------- */

/* Per-layer embeddings: x += norm(PROJ (gelu(GATE x) ⊙ the row's input for this layer)). */
static void add_ple(walk *w, const aq_net_layer *nl, uint32_t layer, float *x)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    uint32_t p = w->net->model->n_ple, embd = w->net->model->info.n_embd;
    float *g = aq_walk_take(w->s, p, w->n), *in = aq_walk_take(w->s, p, w->n);
    for (uint32_t r = 0; r < w->n; r++)
        memcpy(in + (size_t)r * p,
               w->s->ple + ((size_t)r * w->net->model->info.n_layer + layer) * p,
               p * sizeof(float));
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_PLE_GATE], g}, 1, x, w->n);
    b->glu(ctx, AQ_ACT_GELU, g, in, (size_t)w->n * p, g);
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_PLE_PROJ], w->s->h}, 1, g, w->n);
    b->norm(ctx, w->s->h, nl->v[AQ_W_PLE_NORM], w->n, embd, w->net->model->eps, w->s->h);
    aq_walk_join(w, x, w->s->h, 1, w->n, embd);
}

/* A block's output h joins the residual stream. */
static void join(walk *w, const float *norm, float *x)
{
    const aq_model *m = w->net->model;
    uint32_t embd = m->info.n_embd;
    float *h = w->s->h;
    if (norm)
        w->net->blocks->norm(w->net->ctx, h, norm, w->n, embd, m->eps, h);
    aq_walk_join(w, x, h, m->res_scale, w->n, embd);
}

static void mix_streams(walk *w, const aq_net_layer *nl, uint32_t first, const float *x)
{
    aq_state *s = w->s;
    size_t wide = w->net->model->info.row_f32;
    aq_mix_w mix = {nl->v[first], &nl->m[first + 1], &nl->m[first + 2], &nl->m[first + 3]};
    s->taken = 0;
    float *xn = aq_walk_take(s, wide, w->n), *gate = aq_walk_take(s, wide, w->n),
          *lo = aq_walk_take(s, mix.down->rows, w->n);
    aq_streams_mix(w->net, &mix, x, w->n, xn, gate, lo, s->h, s->inject);
    s->taken = 0;
}

static void run_mixer(walk *w, const aq_net_layer *nl, uint32_t l)
{
    float *h = w->s->h;
    if (nl->d->mixer == AQ_MIX_ATTN)
        aq_mix_attn(w, nl, l, h, h);
    else if (nl->d->mixer == AQ_MIX_LATENT)
        aq_mix_latent(w, nl, l, h, h);
    else
        aq_mix_delta(w, nl, l, h, h);
}

/* A layer between streams: x [n][row_f32]. */
static int walk_streams(walk *w, const aq_net_layer *nl, uint32_t l, uint32_t layer, float *x,
                        aq_err *err)
{
    aq_state *s = w->s;
    s->taken = 0;
    int rc = nl->d->ng_back ? aq_ngram_add(w, nl, l, x, err) : 0;
    if (rc < 0)
        return rc;
    mix_streams(w, nl, AQ_W_HC_ATTN_NORM, x);
    run_mixer(w, nl, l);
    aq_streams_join(w->net, x, s->h, s->inject, w->n);
    mix_streams(w, nl, AQ_W_HC_FFN_NORM, x);
    rc = aq_ffn(w, nl, layer, x, s->h, s->h, err);
    if (rc >= 0)
        aq_streams_join(w->net, x, s->h, s->inject, w->n);
    return rc;
}

/* h is the block's output and, before, its normed input: blocks read all of their input before they write. */
static int walk_layer(walk *w, const aq_net_layer *nl, uint32_t l, uint32_t layer, float *x,
                      aq_err *err)
{
    aq_state *s = w->s;
    const aq_blocks *b = w->net->blocks;
    uint32_t embd = w->net->model->info.n_embd;
    float eps = w->net->model->eps;
    if (w->net->model->n_stream > 1)
        return walk_streams(w, nl, l, layer, x, err);
    b->norm(w->net->ctx, x, nl->v[AQ_W_ATTN_NORM], w->n, embd, eps, s->h);
    s->taken = 0;
    run_mixer(w, nl, l);
    join(w, nl->v[AQ_W_POST_NORM], x);
    b->norm(w->net->ctx, x, nl->v[AQ_W_FFN_NORM], w->n, embd, eps, s->h);
    s->taken = 0;
    int rc = aq_ffn(w, nl, layer, x, s->h, s->h, err);
    if (rc < 0)
        return rc;
    join(w, nl->v[AQ_W_FFN_POST_NORM], x);
    s->taken = 0;
    if (nl->m[AQ_W_PLE_GATE].data)
        add_ple(w, nl, layer, x);
    if (nl->v[AQ_W_OUT_SCALE])
        aq_walk_scale(x, nl->v[AQ_W_OUT_SCALE][0], (size_t)w->n * embd);
    return 0;
}

static int ple_inputs(const aq_net *, aq_state *, const aq_window *, aq_err *);

static int stopped(const atomic_uint *stop, uint32_t layer, aq_err *err)
{
    if (stop && atomic_load_explicit(stop, memory_order_relaxed))
        return aq_fail(err, AQ_E_CANCELLED, "the window was stopped before layer %u", layer);
    return 0;
}

static uint32_t n_wanted(const aq_window *win)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < win->n_rows; i++)
        n += (win->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS)) != 0;
    return n;
}

int aq_net_forward(void *w, void *state, const aq_window *win, const aq_expert_host *const *hosts,
                   uint32_t n_hosts, float *x_out, const atomic_uint *stop, aq_err *err)
{
    aq_net *net = w;
    aq_state *s = state;
    uint32_t wide = net->model->info.row_f32;
    if (!s->main)
        return aq_fail(err, AQ_E_INVAL, "there are no layers here to send a window through");
    if (n_wanted(win) != win->n_back)
        return aq_fail(err, AQ_E_INVAL, "window: %u rows are wanted back, but it says %u",
                       n_wanted(win), win->n_back);
    int rc = aq_store_begin(s->main, win, err);
    if (rc < 0)
        return rc;
    walk wk = {.net = net,
               .s = s,
               .store = s->main,
               .row = win->row,
               .n = win->n_rows,
               .hosts = hosts,
               .n_hosts = hosts ? n_hosts : 0};
    s->cs_for = NULL;
    if (win->n_rows > 0 && net->ple_proj.data)
        rc = ple_inputs(net, s, win, err);
    if (win->n_rows > 0)
        memcpy(s->x, win->x, (size_t)win->n_rows * wide * sizeof(float));
    for (uint32_t l = net->l0; rc == 0 && win->n_rows > 0 && l < net->l1; l++) {
        rc = stopped(stop, l, err);
        if (rc == 0)
            rc = walk_layer(&wk, &net->layer[l - net->l0], l - net->l0, l, s->x, err);
    }
    if (rc < 0) {
        aq_store_undo(s->main, win);
        return rc;
    }
    for (uint32_t i = 0, o = 0; i < win->n_rows; i++)
        if (win->row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS))
            memcpy(x_out + (size_t)o++ * wide, s->x + (size_t)i * wide, wide * sizeof(float));
    return 0;
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------------- */

static int check_ends(const aq_net *net, aq_err *err)
{
    if (!net->out.data)
        return aq_fail(err, AQ_E_INVAL, "embedding and head are not held here");
    return 0;
}

static int embed_row(const aq_net *net, const aq_mat *embd, uint32_t i, int32_t tok, float *x,
                     aq_err *err)
{
    if (tok < 0 || (uint32_t)tok >= net->model->info.n_vocab || (uint32_t)tok >= embd->rows)
        return aq_fail(err, AQ_E_INVAL, "row %u: token %d is not one of the vocabulary's %u", i,
                       tok, net->model->info.n_vocab);
    net->blocks->mat_row(net->ctx, embd, (uint32_t)tok, x);
    aq_walk_scale(x, net->model->embd_scale, net->model->info.n_embd);
    return 0;
}

int aq_net_embed(void *w, const aq_row *row, uint32_t n, float *x, aq_err *err)
{
    aq_net *net = w;
    size_t wide = net->model->info.row_f32, embd = net->model->info.n_embd;
    int rc = check_ends(net, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++, x += wide) {
        rc = embed_row(net, &net->embd, i, row[i].tok, x, err);
        for (size_t c = 1; rc == 0 && c < net->model->n_stream; c++)
            memcpy(x + c * embd, x, embd * sizeof(float));
    }
    return rc;
}

static void finish_logits(const aq_model *m, float *logits, size_t n)
{
    aq_walk_scale(logits, m->logit_scale, n);
    for (size_t i = 0; m->logit_cap != 0 && i < n; i++)
        logits[i] = (float)(m->logit_cap * tanh((double)logits[i] / m->logit_cap));
}

/* With streams their last mix is the final norm. */
static int mix_head(const aq_net *net, const float *x, uint32_t n, float *h, aq_err *err)
{
    size_t wide = (size_t)n * net->model->info.row_f32;
    aq_mix_w mix = {net->hc_norm, &net->hc_down, &net->hc_up, NULL};
    AQ_AUTOFREE float *tmp = malloc((2 * wide + (size_t)n * net->hc_down.rows) * sizeof(float));
    if (!tmp)
        return aq_fail(err, AQ_E_NOMEM, "head for %u rows: out of memory", n);
    aq_streams_mix(net, &mix, x, n, tmp, tmp + wide, tmp + 2 * wide, h, NULL);
    return 0;
}

int aq_net_head(void *w, const float *x, uint32_t n, float *logits, float *hidden, aq_err *err)
{
    aq_net *net = w;
    uint32_t embd = net->model->info.n_embd;
    int rc = check_ends(net, err);
    if (rc == 0 && net->blocks->reserve)
        rc = net->blocks->reserve(net->ctx, n, err);
    if (rc < 0 || n == 0)
        return rc;
    AQ_AUTOFREE float *own = hidden ? NULL : malloc((size_t)n * embd * sizeof(float));
    float *h = hidden ? hidden : own;
    if (!h)
        return aq_fail(err, AQ_E_NOMEM, "head for %u rows: out of memory", n);
    if (!net->hc_norm)
        net->blocks->norm(net->ctx, x, net->out_norm, n, embd, net->model->eps, h);
    else if ((rc = mix_head(net, x, n, h, err)) < 0)
        return rc;
    if (logits) {
        net->blocks->matmul(net->ctx, &(aq_mul){&net->out, logits}, 1, h, n);
        finish_logits(net->model, logits, (size_t)n * net->out.rows);
    }
    return 0;
}

/* ---- per-layer embeddings ----------------------------------------------------------------------------------------------------- */

/* Inputs of all layers [n][n_layer][n_ple]: (norm(PROJ e / √n_embd) + table row × √n_ple) / √2, e being the token's embedding. */
static int ple_inputs(const aq_net *net, aq_state *s, const aq_window *win, aq_err *err)
{
    const aq_model *m = net->model;
    uint32_t embd = m->info.n_embd, all = m->n_ple * m->info.n_layer, n = win->n_rows;
    float by_proj = 1 / sqrtf((float)embd), by_row = sqrtf((float)m->n_ple);
    s->taken = 0;
    float *row = aq_walk_take(s, all, 1);
    for (uint32_t r = 0; r < n; r++) {
        int rc = embed_row(net, &net->embd, r, win->row[r].tok, s->h + (size_t)r * embd, err);
        if (rc < 0)
            return rc;
        if ((uint32_t)win->row[r].tok >= net->ple_embd.rows)
            return aq_fail(err, AQ_E_INVAL, "row %u: token %d has no per-layer embedding", r,
                           win->row[r].tok);
    }
    net->blocks->matmul(net->ctx, &(aq_mul){&net->ple_proj, s->ple}, 1, s->h, n);
    aq_walk_scale(s->ple, by_proj, (size_t)n * all);
    net->blocks->norm(net->ctx, s->ple, net->ple_norm, n * m->info.n_layer, m->n_ple, m->eps,
                      s->ple);
    for (uint32_t r = 0; r < n; r++) {
        net->blocks->mat_row(net->ctx, &net->ple_embd, (uint32_t)win->row[r].tok, row);
        for (uint32_t i = 0; i < all; i++) {
            float *y = &s->ple[(size_t)r * all + i];
            *y = (*y + row[i] * by_row) * (float)M_SQRT1_2;
        }
    }
    return 0;
}

/* ---- draft ------------------------------------------------------------------------------------------------------------------- */

static int draft_input(walk *wk, const aq_window *win, float *x, aq_err *err)
{
    aq_net *net = wk->net;
    const aq_blocks *b = net->blocks;
    uint32_t embd = net->model->info.n_embd;
    const aq_mat *own = &net->draft->m[AQ_W_DRAFT_EMBD];
    float *both = aq_walk_take(wk->s, 2 * (size_t)embd, wk->n);
    for (uint32_t i = 0; i < wk->n; i++) {
        float *e = both + 2 * (size_t)i * embd;
        int rc = embed_row(net, own->data ? own : &net->embd, i, win->row[i].tok, e, err);
        if (rc < 0)
            return rc;
        b->norm(net->ctx, e, net->draft->v[AQ_W_E_NORM], 1, embd, net->model->eps, e);
        b->norm(net->ctx, win->x + (size_t)i * embd, net->draft->v[AQ_W_H_NORM], 1, embd,
                net->model->eps, e + embd);
    }
    b->matmul(net->ctx, &(aq_mul){&net->draft->m[AQ_W_EH_PROJ], x}, 1, both, wk->n);
    return 0;
}

static void draft_output(walk *wk, const aq_window *win, const float *x, float *logits,
                         float *hidden)
{
    aq_net *net = wk->net;
    uint32_t embd = net->model->info.n_embd, n = 0;
    float *h = wk->s->h;
    for (uint32_t i = 0; i < wk->n; i++)
        if (win->row[i].flags & AQ_ROW_LOGITS)
            net->blocks->norm(net->ctx, x + (size_t)i * embd, net->draft->v[AQ_W_SH_HEAD_NORM], 1,
                              embd, net->model->eps, h + (size_t)n++ * embd);
    const aq_mat *own = &net->draft->m[AQ_W_DRAFT_HEAD], *head = own->data ? own : &net->out;
    if (n > 0 && logits) {
        net->blocks->matmul(net->ctx, &(aq_mul){head, logits}, 1, h, n);
        finish_logits(net->model, logits, (size_t)n * head->rows);
    }
    if (hidden)
        memcpy(hidden, h, (size_t)n * embd * sizeof(float));
}

int aq_net_draft(void *w, void *state, const aq_window *win, float *logits, float *hidden,
                 const atomic_uint *stop, aq_err *err)
{
    aq_net *net = w;
    aq_state *s = state;
    if (!s->draft)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "this model has no draft layers, or they are not held here");
    if (win->n_rows > s->cfg.max_rows)
        return aq_fail(err, AQ_E_INVAL, "window of %u rows: this stage takes %u", win->n_rows,
                       s->cfg.max_rows);
    for (uint32_t i = 0; i < win->n_rows; i++) {
        if (win->row[i].pos == 0)
            return aq_fail(err, AQ_E_INVAL, "row %u: the draft layer begins at position 1", i);
        s->draft_row[i] = win->row[i];
        s->draft_row[i].pos--;
    }
    aq_window shifted = *win;
    shifted.row = s->draft_row;
    int rc = aq_store_begin(s->draft, &shifted, err);
    if (rc < 0)
        return rc;
    walk wk = {.net = net, .s = s, .store = s->draft, .row = win->row, .n = win->n_rows};
    s->cs_for = NULL;
    s->taken = 0;
    rc = stopped(stop, net->model->info.n_layer, err);
    if (rc == 0)
        rc = draft_input(&wk, win, s->x, err);
    if (rc == 0)
        rc = walk_layer(&wk, net->draft, 0, net->model->info.n_layer, s->x, err);
    if (rc < 0) {
        aq_store_undo(s->draft, &shifted);
        return rc;
    }
    draft_output(&wk, win, s->x, logits, hidden);
    return 0;
}

uint32_t aq_net_draft_len(const void *state, uint32_t seq)
{
    const aq_state *s = state;
    uint32_t len = 0;
    if (s->draft)
        aq_seqmap_pages(s->draft->map, seq, &len);
    return len;
}

/* ---- parked chats ---- */

int aq_net_state_io(void *state, bool load, uint32_t seq, uint32_t n_tok, const uint64_t *snap,
                    const uint32_t *snap_tok, uint32_t n_snap, aq_state_io_fn io, void *user,
                    aq_err *err)
{
    aq_state *s = state;
    aq_op empty = {.kind = AQ_OP_KEEP, .seq = seq};
    if (!s->main)
        return aq_fail(err, AQ_E_INVAL, "there are no layers here");
    int rc = load ? aq_seqmap_apply(s->main->map, &empty, 1, err) : 0;
    if (rc == 0 && load)
        rc = aq_seqmap_fill(s->main->map, seq, n_tok, err);
    for (uint32_t i = 0; rc == 0 && load && i < n_snap; i++)
        rc = aq_seqmap_snap_set(s->main->map, snap[i], snap_tok[i], err);
    if (rc == 0)
        rc = aq_store_io(s->main, seq, n_tok, snap, n_snap, io, user, err);
    if (rc < 0 && load)
        (void)!aq_seqmap_apply(s->main->map, &empty, 1, NULL);
    return rc;
}
