/* SPDX-License-Identifier: Apache-2.0 */
/* The walk: one window through layers by their descriptors, calling a backend's blocks. The state of a stage (aq_state) lies here too:
 * a store for the layers, one for the draft layer, and scratch for one window. Thread: the stage's.
 *
 *   x ─┬─ norm ─ mixer (attention | delta net) ─ + ─┬─ norm ─ ffn (dense | router, experts) ─ + ─ x
 *      └───────────────────────────────────────────┘└──────────────────────────────────────────┘ */
#include <math.h>

#include "store-priv.h"

#define PAD 16u /* floats between scratch buffers, so that each begins on a cache line */

typedef struct aq_state {
    aq_net *net;
    aq_state_cfg cfg;
    aq_store *main, *draft; /* NULL where there are no such layers */
    float *x, *h,
        *cs; /* [max_rows] rows of: residual stream, normed or block output, cos and sin of the rope */
    float *buf; /* the rest, taken anew by each block */
    size_t buf_f32, taken;
    float cs_base; /* what cs was made for */
    uint32_t cs_rot;
    aq_row *draft_row; /* [max_rows] */
    uint64_t bytes;
} aq_state;

/* ---- scratch --------------------------------------------------------------------------------------------------------- */

static size_t attn_f32(const aq_layer *d)
{
    size_t q = (size_t)d->n_head * d->d_k, kv = (size_t)d->n_kv * (d->d_k + d->d_v),
           o = (size_t)d->n_head * d->d_v;
    return (d->gated ? 4 : 1) * q + kv + o;
}

static size_t delta_f32(const aq_layer *d)
{
    return 2 * (size_t)aq_delta_width(d) + 2 * (size_t)d->n_vh * d->d_state + 2 * (size_t)d->n_vh;
}

static size_t ffn_f32(const aq_layer *d, size_t n_embd)
{
    if (d->ffn == AQ_FFN_DENSE)
        return 2 * (size_t)d->n_ff;
    return d->n_exp + (2 + n_embd) * (size_t)d->n_used + 2 * (size_t)d->n_ff_sh + n_embd + 1;
}

static float *take(aq_state *s, size_t per_row, uint32_t n)
{
    float *p = s->buf + s->taken;
    s->taken += (per_row * n + PAD - 1) / PAD * PAD;
    return p; /* within buf by the sums above: a block takes at most 16 buffers */
}

static int new_scratch(aq_state *s, aq_err *err)
{
    const aq_net *net = s->net;
    size_t row = 0, rot = 2, rows = s->cfg.max_rows, embd = net->model->info.n_embd;
    uint32_t n_layer = net->l1 - net->l0;
    for (uint32_t l = 0; l < n_layer + (net->draft != NULL); l++) {
        const aq_layer *d = l < n_layer ? net->layer[l].d : net->draft->d;
        row = AQ_MAX(row, d->mixer == AQ_MIX_ATTN ? attn_f32(d) : delta_f32(d));
        row = AQ_MAX(row, ffn_f32(d, embd));
        rot = AQ_MAX(rot, d->mixer == AQ_MIX_ATTN ? d->n_rot : 0);
    }
    row = AQ_MAX(row, 2 * embd); /* the draft layer's input */
    s->buf_f32 = row * rows + 16 * PAD;
    if (s->buf_f32 > SIZE_MAX / 8)
        return aq_fail(err, AQ_E_LIMIT, "windows of %zu rows are too large for this model", rows);
    s->x = aligned_alloc(64, (embd * rows + PAD) / PAD * PAD * sizeof(float));
    s->h = aligned_alloc(64, (embd * rows + PAD) / PAD * PAD * sizeof(float));
    s->cs = aligned_alloc(64, (rot * rows + PAD) / PAD * PAD * sizeof(float));
    s->buf = aligned_alloc(64, (s->buf_f32 + PAD) / PAD * PAD * sizeof(float));
    s->draft_row = calloc(rows, sizeof(*s->draft_row));
    if (!s->x || !s->h || !s->cs || !s->buf || !s->draft_row)
        return aq_fail(err, AQ_E_NOMEM, "scratch for windows of %zu rows: out of memory", rows);
    s->bytes = (2 * embd * rows + rot * rows + s->buf_f32) * sizeof(float);
    return 0;
}

AQ_CLEANUP_FUNC(void *, aq_net_drop_state)

int aq_net_state(void *w, const aq_state_cfg *cfg, void **ret_s, aq_err *err)
{
    aq_net *net = w;
    uint32_t n_layer = net->l1 - net->l0;
    if (net->flags & AQ_PLACE_EXPERTS)
        return aq_fail(err, AQ_E_INVAL, "an expert host keeps no state of chats");
    if (net->model->info.row_f32 != net->model->info.n_embd)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "rows of %u values for embeddings of %u are not supported by this backend",
                       net->model->info.row_f32, net->model->info.n_embd);
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

/* ---- blocks ----------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    aq_net *net;
    aq_state *s;
    aq_store *store;
    const aq_row *row;
    uint32_t n;
    const aq_expert_host *const *hosts;
    uint32_t n_hosts;
} walk;

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void add_bias(float *y, const float *bias, uint32_t n, uint32_t dim)
{
    for (uint32_t r = 0; bias && r < n; r++)
        add(y + (size_t)r * dim, bias, dim);
}

static float sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp(-(double)x)));
}

/* cos and sin of position × base^(-2i / n_rot) / factor, once for all layers that turn alike. */
static void rope_table(walk *w, const aq_layer *d)
{
    aq_state *s = w->s;
    uint32_t half = d->n_rot / 2;
    if (s->cs_rot == d->n_rot && s->cs_base == d->rope_base)
        return;
    for (uint32_t i = 0; i < half; i++) {
        double freq = pow(d->rope_base, -2.0 * i / d->n_rot);
        if (w->net->rope_freqs && i < w->net->n_rope_freqs)
            freq /= w->net->rope_freqs[i];
        for (uint32_t r = 0; r < w->n; r++) {
            double a = w->row[r].pos * freq;
            s->cs[((size_t)r * half + i) * 2] = (float)cos(a);
            s->cs[((size_t)r * half + i) * 2 + 1] = (float)sin(a);
        }
    }
    s->cs_rot = d->n_rot;
    s->cs_base = d->rope_base;
}

/* Rows [n_head][q d | gate d] into rows of q and of gates. */
static void part_gates(const float *qg, uint32_t n_heads, uint32_t d, float *q, float *gate)
{
    for (uint32_t h = 0; h < n_heads; h++) {
        memcpy(q + (size_t)h * d, qg + 2 * (size_t)h * d, d * sizeof(float));
        memcpy(gate + (size_t)h * d, qg + (2 * (size_t)h + 1) * d, d * sizeof(float));
    }
}

static void mix_attn(walk *w, const aq_net_layer *nl, uint32_t l, const float *h, float *y)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    float eps = w->net->model->eps;
    uint32_t n = w->n, nq = d->n_head * d->d_k;
    float *q = take(w->s, (d->gated ? 2 : 1) * (size_t)nq, n), *gate = NULL;
    float *k = take(w->s, (size_t)d->n_kv * d->d_k, n),
          *v = take(w->s, (size_t)d->n_kv * d->d_v, n);
    float *o = take(w->s, (size_t)d->n_head * d->d_v, n);
    aq_mul mul[] = {{&nl->m[AQ_W_Q], q}, {&nl->m[AQ_W_K], k}, {&nl->m[AQ_W_V], v}};
    b->matmul(ctx, mul, AQ_LEN(mul), h, n);
    add_bias(q, nl->v[AQ_W_Q_BIAS], n, nl->m[AQ_W_Q].rows);
    add_bias(k, nl->v[AQ_W_K_BIAS], n, d->n_kv * d->d_k);
    add_bias(v, nl->v[AQ_W_V_BIAS], n, d->n_kv * d->d_v);
    if (d->gated) {
        float *qg = q;
        q = take(w->s, nq, n);
        gate = take(w->s, nq, n);
        part_gates(qg, n * d->n_head, d->d_k, q, gate);
    }
    if (nl->v[AQ_W_Q_NORM])
        b->norm(ctx, q, nl->v[AQ_W_Q_NORM], n * d->n_head, d->d_k, eps, q);
    if (nl->v[AQ_W_K_NORM])
        b->norm(ctx, k, nl->v[AQ_W_K_NORM], n * d->n_kv, d->d_k, eps, k);
    if (d->rope != AQ_ROPE_NONE) {
        rope_table(w, d);
        b->rope(ctx, q, n, d->n_head, d->d_k, d->n_rot, d->rope, w->s->cs);
        b->rope(ctx, k, n, d->n_kv, d->d_k, d->n_rot, d->rope, w->s->cs);
    }
    b->kv_put(ctx, &w->store->kv[l], w->store->run, w->store->n_run, k, v);
    b->attend(ctx, d, &w->store->kv[l], w->store->run, w->store->n_run, q, o);
    for (size_t i = 0; gate && i < (size_t)n * nq; i++)
        o[i] *= sigmoid(gate[i]);
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_O], y}, 1, o, n);
}

/* The rows' decay and beta, from their projections, in place. */
static void delta_gates(const aq_net_layer *nl, uint32_t n, float *decay, float *beta)
{
    uint32_t nv = nl->d->n_vh;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t h = 0; h < nv; h++) {
            float *g = &decay[(size_t)r * nv + h], *e = &beta[(size_t)r * nv + h];
            double a = (double)*g + nl->v[AQ_W_DT_BIAS][h];
            *g = (float)(nl->v[AQ_W_A][h] * (a > 20 ? a : log1p(exp(a))));
            *e = sigmoid(*e);
        }
}

static void mix_delta(walk *w, const aq_net_layer *nl, uint32_t l, const float *h, float *y)
{
    const aq_blocks *b = w->net->blocks;
    void *ctx = w->net->ctx;
    const aq_layer *d = nl->d;
    const aq_store *st = w->store;
    float eps = w->net->model->eps;
    uint32_t n = w->n, c = aq_delta_width(d), nv = d->n_vh, inner = nv * d->d_state;
    size_t n_tail = (size_t)(d->conv_k - 1) * c;
    float *qkv = take(w->s, c, n), *z = take(w->s, inner, n), *decay = take(w->s, nv, n),
          *beta = take(w->s, nv, n);
    float *tmp = take(w->s, c, n), *o = take(w->s, inner, n);
    aq_mul mul[] = {{&nl->m[AQ_W_QKV], qkv},
                    {&nl->m[AQ_W_GATE_Z], z},
                    {&nl->m[AQ_W_ALPHA], decay},
                    {&nl->m[AQ_W_BETA], beta}};
    b->matmul(ctx, mul, AQ_LEN(mul), h, n);
    delta_gates(nl, n, decay, beta);
    for (uint32_t r = 0; r < st->n_run; r++) {
        const aq_run *run = &st->run[r];
        const float *in = aq_store_before(st, run->seq, l), *rq = qkv + (size_t)run->row0 * c;
        const float *rd = decay + (size_t)run->row0 * nv, *rb = beta + (size_t)run->row0 * nv;
        float *out = aq_store_live(st, run->seq, l);
        if (run->n <= AQ_REWIND_ROWS) {
            float *hist = aq_store_hist(st, run->seq, l), *hd = hist + (size_t)AQ_REWIND_ROWS * c;
            memcpy(hist, rq, (size_t)run->n * c * sizeof(float));
            memcpy(hd, rd, (size_t)run->n * nv * sizeof(float));
            memcpy(hd + (size_t)AQ_REWIND_ROWS * nv, rb, (size_t)run->n * nv * sizeof(float));
        }
        aq_delta_run(b, ctx, nl, run->n, rq, rd, rb, in, out, in + n_tail, out + n_tail, eps,
                     tmp + (size_t)run->row0 * c, o + (size_t)run->row0 * inner);
    }
    b->norm(ctx, o, nl->v[AQ_W_SSM_NORM], n * nv, d->d_state, eps, o);
    b->swiglu(ctx, z, o, (size_t)n * inner, o); /* o ⊙ silu(z) */
    b->matmul(ctx, &(aq_mul){&nl->m[AQ_W_SSM_OUT], y}, 1, o, n);
}

static void dense(walk *w, const aq_net_layer *nl, int gate, int up, int down, const float *h,
                  float *y)
{
    const aq_blocks *b = w->net->blocks;
    uint32_t n = w->n, ff = nl->m[gate].rows;
    float *g = take(w->s, ff, n), *u = take(w->s, ff, n);
    aq_mul mul[] = {{&nl->m[gate], g}, {&nl->m[up], u}};
    b->matmul(w->net->ctx, mul, AQ_LEN(mul), h, n);
    b->swiglu(w->net->ctx, g, u, (size_t)n * ff, g);
    b->matmul(w->net->ctx, &(aq_mul){&nl->m[down], y}, 1, g, n);
}

static int moe(walk *w, const aq_net_layer *nl, uint32_t layer, const float *h, float *y,
               aq_err *err)
{
    const aq_blocks *b = w->net->blocks;
    const aq_layer *d = nl->d;
    uint32_t n = w->n, k = d->n_used, embd = w->net->model->info.n_embd;
    float *logits = take(w->s, d->n_exp, n), *weight = take(w->s, k, n),
          *parts = take(w->s, (size_t)k * embd, n);
    int32_t *expert = (int32_t *)take(w->s, k, n);
    b->matmul(w->net->ctx, &(aq_mul){&nl->m[AQ_W_ROUTER], logits}, 1, h, n);
    aq_route(d, logits, n, expert, weight);
    int rc = aq_experts_run(w->net, layer, w->hosts, w->n_hosts, n, h, expert, weight, parts, err);
    if (rc < 0)
        return rc;
    if (d->n_ff_sh == 0) {
        aq_parts_add(parts, NULL, n, k, embd, y);
        return 0;
    }
    float *sh = take(w->s, embd, n), *sg = take(w->s, 1, n);
    dense(w, nl, AQ_W_SH_GATE, AQ_W_SH_UP, AQ_W_SH_DOWN, h, sh);
    if (nl->m[AQ_W_SH_ROUTER].data) {
        b->matmul(w->net->ctx, &(aq_mul){&nl->m[AQ_W_SH_ROUTER], sg}, 1, h, n);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t i = 0; i < embd; i++)
                sh[(size_t)r * embd + i] *= sigmoid(sg[r]);
    }
    aq_parts_add(parts, NULL, n, k, embd, y);
    add(y, sh, (size_t)n * embd);
    return 0;
}

/* y is the block's output and, before, its normed input: blocks read all of their input before they write. */
static int walk_layer(walk *w, const aq_net_layer *nl, uint32_t l, uint32_t layer, float *x,
                      aq_err *err)
{
    aq_state *s = w->s;
    const aq_blocks *b = w->net->blocks;
    uint32_t embd = w->net->model->info.n_embd;
    size_t all = (size_t)w->n * embd;
    float eps = w->net->model->eps;
    b->norm(w->net->ctx, x, nl->v[AQ_W_ATTN_NORM], w->n, embd, eps, s->h);
    s->taken = 0;
    if (nl->d->mixer == AQ_MIX_ATTN)
        mix_attn(w, nl, l, s->h, s->h);
    else
        mix_delta(w, nl, l, s->h, s->h);
    add(x, s->h, all);
    b->norm(w->net->ctx, x, nl->v[AQ_W_FFN_NORM], w->n, embd, eps, s->h);
    s->taken = 0;
    if (nl->d->ffn == AQ_FFN_DENSE)
        dense(w, nl, AQ_W_FFN_GATE, AQ_W_FFN_UP, AQ_W_FFN_DOWN, s->h, s->h);
    else {
        int rc = moe(w, nl, layer, s->h, s->h, err);
        if (rc < 0)
            return rc;
    }
    add(x, s->h, all);
    return 0;
}

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
    uint32_t embd = net->model->info.n_embd;
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
    s->cs_rot = 0;
    if (win->n_rows > 0)
        memcpy(s->x, win->x, (size_t)win->n_rows * embd * sizeof(float));
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
            memcpy(x_out + (size_t)o++ * embd, s->x + (size_t)i * embd, embd * sizeof(float));
    return 0;
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------------- */

static int check_ends(const aq_net *net, aq_err *err)
{
    if (!net->embd.data)
        return aq_fail(err, AQ_E_INVAL, "embedding and head are not held here");
    return 0;
}

static int embed_row(const aq_net *net, uint32_t i, int32_t tok, float *x, aq_err *err)
{
    if (tok < 0 || (uint32_t)tok >= net->model->info.n_vocab || (uint32_t)tok >= net->embd.rows)
        return aq_fail(err, AQ_E_INVAL, "row %u: token %d is not one of the vocabulary's %u", i,
                       tok, net->model->info.n_vocab);
    net->blocks->mat_row(net->ctx, &net->embd, (uint32_t)tok, x);
    return 0;
}

int aq_net_embed(void *w, const aq_row *row, uint32_t n, float *x, aq_err *err)
{
    aq_net *net = w;
    int rc = check_ends(net, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = embed_row(net, i, row[i].tok, x + (size_t)i * net->model->info.n_embd, err);
    return rc;
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
    net->blocks->norm(net->ctx, x, net->out_norm, n, embd, net->model->eps, h);
    if (logits)
        net->blocks->matmul(net->ctx, &(aq_mul){&net->out, logits}, 1, h, n);
    return 0;
}

/* ---- draft ------------------------------------------------------------------------------------------------------------------- */

static int draft_input(walk *wk, const aq_window *win, float *x, aq_err *err)
{
    aq_net *net = wk->net;
    const aq_blocks *b = net->blocks;
    uint32_t embd = net->model->info.n_embd;
    float *both = take(wk->s, 2 * (size_t)embd, wk->n);
    for (uint32_t i = 0; i < wk->n; i++) {
        float *e = both + 2 * (size_t)i * embd;
        int rc = embed_row(net, i, win->row[i].tok, e, err);
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
    if (n > 0 && logits)
        net->blocks->matmul(net->ctx, &(aq_mul){&net->out, logits}, 1, h, n);
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
    s->cs_rot = 0;
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
