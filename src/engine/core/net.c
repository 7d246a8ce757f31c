/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: tensors of a layer range and of the ends into memory of the backend, matrices in its own layout, vectors as f32.
 * Thread: load any one, the rest the stage's. */
#include <inttypes.h>

#include "forward-priv.h"

#define SLICE_BYTES ((size_t)4 << 20) /* between two looks at cancel */

int aq_mat_read(const aq_mat_src *s, uint64_t off, void *dst, size_t n, aq_err *err)
{
    uint8_t *p = dst;
    while (n > 0) {
        size_t k = AQ_MIN(n, SLICE_BYTES);
        if (s->progress && atomic_load_explicit(&s->progress->cancel, memory_order_relaxed))
            return aq_fail(err, AQ_E_CANCELLED, "loading was stopped");
        int rc = s->src->read(s->src->self, s->tensor, off, p, k, err);
        if (rc < 0)
            return rc;
        if (s->progress)
            atomic_fetch_add_explicit(&s->progress->done, k, memory_order_relaxed);
        p += k;
        off += k;
        n -= k;
    }
    return 0;
}

static bool is_vector(int role)
{
    switch (role) {
    case AQ_W_ATTN_NORM:
    case AQ_W_O_BIAS:
    case AQ_W_Q_BIAS:
    case AQ_W_K_BIAS:
    case AQ_W_V_BIAS:
    case AQ_W_Q_NORM:
    case AQ_W_K_NORM:
    case AQ_W_SINKS:
    case AQ_W_POST_NORM:
    case AQ_W_Q_A_NORM:
    case AQ_W_KV_A_NORM:
    case AQ_W_CONV:
    case AQ_W_DT_BIAS:
    case AQ_W_A:
    case AQ_W_SSM_NORM:
    case AQ_W_FFN_NORM:
    case AQ_W_FFN_POST_NORM:
    case AQ_W_ROUTER_BIAS:
    case AQ_W_ROUTER_NORM:
    case AQ_W_SELECT_BIAS:
    case AQ_W_EXP_SCALE:
    case AQ_W_EXP_NORM:
    case AQ_W_EXP_POST_NORM:
    case AQ_W_DENSE_POST_NORM:
    case AQ_W_EXP_GATE_BIAS:
    case AQ_W_EXP_UP_BIAS:
    case AQ_W_EXP_DOWN_BIAS:
    case AQ_W_PLE_NORM:
    case AQ_W_OUT_SCALE:
    case AQ_W_E_NORM:
    case AQ_W_H_NORM:
    case AQ_W_SH_HEAD_NORM:
    case AQ_W_HC_ATTN_NORM:
    case AQ_W_HC_FFN_NORM:
    case AQ_W_IDX_Q_NORM:
    case AQ_W_IDX_K_NORM:
    case AQ_W_NG_KEY_NORM:
    case AQ_W_NG_QUERY_NORM:
    case AQ_W_NG_CONV_NORM:
    case AQ_W_NG_CONV:
        return true;
    default:
        return false;
    }
}

static bool is_mixer(int role)
{
    return role >= AQ_W_Q && role <= AQ_W_SSM_OUT;
}

static bool is_expert(int role)
{
    return role == AQ_W_EXP_GATE || role == AQ_W_EXP_UP || role == AQ_W_EXP_DOWN;
}

/* What an expert host holds: the experts' biases as well, whole. */
static bool is_hosted(int role)
{
    return is_expert(role) || role == AQ_W_EXP_GATE_BIAS || role == AQ_W_EXP_UP_BIAS ||
           role == AQ_W_EXP_DOWN_BIAS;
}

/* Experts of this place: [e0, e1) within the model's n. */
static void expert_range(const aq_place *place, uint64_t n, uint32_t *e0, uint32_t *e1)
{
    *e0 = place->e0;
    *e1 = place->e1;
    if (place->e0 == 0 && place->e1 == 0)
        *e1 = (uint32_t)n;
}

static uint64_t mats_of(const aq_tensor *t)
{
    return AQ_MAX(t->ne[2], 1) * AQ_MAX(t->ne[3], 1);
}

static uint64_t layer_load_bytes(const aq_model *m, const aq_place *place, const aq_layer *l)
{
    uint64_t sum = 0;
    for (int r = 0; r < AQ_W_N; r++) {
        if (l->w[r] < 0 || ((place->flags & AQ_PLACE_EXPERTS) && !is_hosted(r)))
            continue;
        uint32_t e0 = 0, e1;
        uint64_t n = mats_of(&m->tensor[l->w[r]]);
        e1 = (uint32_t)n;
        if (is_expert(r))
            expert_range(place, n, &e0, &e1);
        sum += aq_role_bytes(m, l, (uint32_t)r) / n * (e1 - e0);
    }
    return sum;
}

uint64_t aq_net_load_bytes(const aq_model *m, const aq_place *place, uint32_t l0, uint32_t l1)
{
    uint64_t sum = 0;
    for (uint32_t l = l0; l < l1; l++)
        sum += layer_load_bytes(m, place, &m->layer[l]);
    if (!(place->flags & AQ_PLACE_EXPERTS) && m->w_rope_freqs >= 0)
        sum += m->tensor[m->w_rope_freqs].bytes;
    if (!(place->flags & AQ_PLACE_EXPERTS) && m->w_ple_embd >= 0 && l1 > l0) {
        sum += m->tensor[m->w_ple_embd].bytes + m->tensor[m->w_ple_proj].bytes +
               m->tensor[m->w_ple_norm].bytes;
        if (!(place->flags & AQ_PLACE_ENDS))
            sum += m->tensor[m->w_embd].bytes;
    }
    if (!(place->flags & AQ_PLACE_ENDS))
        return sum;
    if (m->info.n_draft > 0)
        sum += layer_load_bytes(m, place, &m->layer[m->info.n_layer]);
    const int32_t ends[] = {m->w_embd, m->w_out_norm, m->w_hc_norm, m->w_hc_down, m->w_hc_up};
    for (size_t i = 0; i < AQ_LEN(ends); i++)
        sum += ends[i] >= 0 ? m->tensor[ends[i]].bytes : 0;
    if (m->w_out != m->w_embd)
        sum += m->tensor[m->w_out].bytes;
    return sum;
}

typedef struct loader {
    aq_net *net;
    const aq_wsrc *src;
    const aq_place *place;
    aq_progress *progress;
} loader;

/* rows 0 = the whole tensor, else values [row0, row0 + rows). */
static int load_vector(loader *ld, int32_t tensor, uint32_t row0, uint32_t rows, float **ret,
                       uint32_t *ret_n, aq_err *err)
{
    const aq_tensor *t = &ld->net->model->tensor[tensor];
    uint64_t n = t->ne[0] * AQ_MAX(t->ne[1], 1) * mats_of(t), off = 0, bytes = t->bytes;
    if (!t->type->dequant)
        return aq_fail(err, AQ_E_UNSUPPORTED, "%.*s: storage type %s is not supported",
                       (int)t->name.n, t->name.p, t->type->name);
    if (n == 0 || n > UINT32_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%.*s: %" PRIu64 " values are out of range", (int)t->name.n,
                       t->name.p, n);
    if (rows && t->type->block_vals != 1)
        return aq_fail(err, AQ_E_UNSUPPORTED, "%.*s: part of a vector stored as %s", (int)t->name.n,
                       t->name.p, t->type->name);
    if (rows) {
        n = rows;
        off = (uint64_t)row0 * t->type->block_bytes;
        bytes = (uint64_t)rows * t->type->block_bytes;
    }
    AQ_AUTOFREE void *raw = malloc(bytes);
    AQ_AUTOFREE float *v = malloc(n * sizeof(*v));
    if (!raw || !v)
        return aq_fail(err, AQ_E_NOMEM, "%.*s: out of memory", (int)t->name.n, t->name.p);
    aq_mat_src s = {.src = ld->src, .t = t, .tensor = (uint32_t)tensor, .progress = ld->progress};
    int rc = aq_mat_read(&s, off, raw, bytes, err);
    if (rc < 0)
        return rc;
    t->type->dequant(raw, v, n);
    ld->net->bytes += n * sizeof(*v);
    *ret = AQ_STEAL(v);
    if (ret_n)
        *ret_n = (uint32_t)n;
    return 0;
}

static int put_matrix(loader *ld, const aq_mat_src *s, aq_mat *ret, aq_err *err)
{
    aq_mat m = {
        .type = s->t->type, .rows = s->rows, .cols = s->cols, .e0 = s->e0, .n_mat = s->n_mat};
    int rc = ld->net->blocks->mat_load(ld->net->ctx, s, &m, err);
    if (rc < 0)
        return aq_err_prefix(err, rc, "%.*s", (int)s->t->name.n, s->t->name.p);
    ld->net->bytes += m.bytes;
    *ret = m;
    return 0;
}

/* Matrices of a tensor: those of the experts that are held here, or all n of them, one behind the other. */
enum { EXPERTS, ONE };
static int load_matrix(loader *ld, int32_t tensor, uint32_t n_mat, uint32_t row0, uint32_t part,
                       aq_mat *ret, aq_err *err)
{
    const aq_tensor *t = &ld->net->model->tensor[tensor];
    uint64_t n = n_mat == EXPERTS ? mats_of(t) : n_mat;
    uint64_t rows = AQ_MAX(t->ne[1], 1) * mats_of(t) / n;
    uint32_t e0 = 0, e1 = n_mat;
    if (n_mat == EXPERTS)
        expert_range(ld->place, n, &e0, &e1);
    if (t->ne[0] > UINT32_MAX || rows > UINT32_MAX || e0 >= e1 || e1 > n ||
        (n_mat == ONE && mats_of(t) != 1))
        return aq_fail(err, AQ_E_INVAL, "%.*s: experts [%u, %u) of %" PRIu64 " cannot be held here",
                       (int)t->name.n, t->name.p, e0, e1, n);
    aq_mat_src s = {.src = ld->src,
                    .t = t,
                    .tensor = (uint32_t)tensor,
                    .rows = part ? part : (uint32_t)rows,
                    .row0 = row0,
                    .t_rows = (uint32_t)rows,
                    .cols = (uint32_t)t->ne[0],
                    .e0 = e0,
                    .n_mat = e1 - e0,
                    .progress = ld->progress};
    return put_matrix(ld, &s, ret, err);
}

/* ---- the keys' half of a tensor kv_b ---- */

static int read_memory(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *err)
{
    memcpy(dst, (const uint8_t *)self + off, n);
    return 0;
}

/* One head, in [d_nope][n_lora] as stored, out [n_lora][d_nope]. */
static void transpose_keys(const aq_layer *d, const aq_type *type, const uint8_t *in, float *f,
                           uint8_t *out)
{
    const uint32_t size = aq_keys_type(type)->block_bytes;
    if (aq_keys_type(type) != type) {
        type->dequant(in, f, (size_t)d->d_nope * d->n_lora);
        in = (const uint8_t *)f;
    }
    for (size_t i = 0; i < d->d_nope; i++)
        for (size_t r = 0; r < d->n_lora; r++)
            memcpy(out + (r * d->d_nope + i) * size, in + (i * d->n_lora + r) * size, size);
}

/* The absorbed form multiplies queries by the transpose of what the file holds. Exact: no value is rounded anew. */
static int load_keys(loader *ld, const aq_layer *d, aq_mat *ret, aq_err *err)
{
    const int32_t tensor = d->w[AQ_W_K_B];
    const aq_tensor *t = &ld->net->model->tensor[tensor];
    aq_tensor as = *t;
    as.type = aq_keys_type(t->type);
    size_t vals = (size_t)d->d_nope * d->n_lora, row = t->bytes / t->ne[1], one = d->d_nope * row;
    AQ_AUTOFREE uint8_t *raw = malloc(one), *all = malloc(d->n_head * vals * as.type->block_bytes);
    AQ_AUTOFREE float *f = malloc(vals * sizeof *f);
    if (!raw || !all || !f)
        return aq_fail(err, AQ_E_NOMEM, "%.*s: out of memory", (int)t->name.n, t->name.p);
    aq_mat_src s = {.src = ld->src, .t = t, .tensor = (uint32_t)tensor};
    for (uint32_t h = 0; h < d->n_head; h++) {
        int rc = aq_mat_read(&s, h * (size_t)(d->d_nope + d->d_val) * row, raw, one, err);
        if (rc < 0)
            return rc;
        transpose_keys(d, t->type, raw, f, all + h * vals * as.type->block_bytes);
    }
    const aq_wsrc memory = {.self = all, .read = read_memory};
    s = (aq_mat_src){.src = &memory,
                     .t = &as,
                     .tensor = (uint32_t)tensor,
                     .rows = d->n_lora,
                     .t_rows = d->n_lora,
                     .cols = d->d_nope,
                     .n_mat = d->n_head,
                     .progress = ld->progress};
    return put_matrix(ld, &s, ret, err);
}

static int load_role(loader *ld, const aq_layer *d, int r, aq_net_layer *nl, aq_err *err)
{
    if (is_vector(r))
        return load_vector(ld, d->w[r], d->row0[r], d->rows[r], &nl->v[r], &nl->n_v[r], err);
    if (d->kv_b && r == AQ_W_K_B)
        return load_keys(ld, d, &nl->m[r], err);
    if (d->kv_b && r == AQ_W_V_B)
        return load_matrix(ld, d->w[r], d->n_head, d->d_nope, d->d_val, &nl->m[r], err);
    uint32_t n_mat = is_expert(r) ? EXPERTS : r == AQ_W_K_B || r == AQ_W_V_B ? d->n_head : ONE;
    return load_matrix(ld, d->w[r], n_mat, d->row0[r], d->rows[r], &nl->m[r], err);
}

/* Factors of a role's results, one of each matrix; of a kv_b one for all. */
static int load_factors(loader *ld, const aq_layer *d, int r, aq_net_layer *nl, aq_err *err)
{
    uint32_t n = 0, n_mat = nl->m[r].e0 + nl->m[r].n_mat;
    AQ_AUTOFREE float *f = NULL;
    int rc = load_vector(ld, d->fac[r], 0, 0, &f, &n, err);
    if (rc < 0)
        return rc;
    if (n == 1 && n_mat > 1) {
        float *all = realloc(f, n_mat * sizeof *f);
        if (!all)
            return aq_fail(err, AQ_E_NOMEM, "weights: out of memory");
        f = all;
        for (uint32_t i = 1; i < n_mat; i++)
            f[i] = f[0];
    }
    nl->m[r].fac = f + nl->m[r].e0;
    nl->fac[r] = AQ_STEAL(f);
    return 0;
}

static int load_layer(loader *ld, uint32_t l, aq_net_layer *nl, aq_err *err)
{
    const aq_layer *d = &ld->net->model->layer[l];
    nl->d = d;
    if (d->mixer < AQ_MIX_ATTN || d->mixer > AQ_MIX_DELTA || d->ffn < AQ_FFN_DENSE ||
        d->ffn > AQ_FFN_BOTH)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "layer %u is of a kind that this backend does not compute", l);
    if (d->kv_back > l - ld->net->l0 && !(ld->place->flags & AQ_PLACE_EXPERTS))
        return aq_fail(err, AQ_E_INVAL,
                       "layer %u reads what layer %u keeps, so they cannot be parted", l,
                       l - d->kv_back);
    for (int r = 0; r < AQ_W_N; r++) {
        if (d->w[r] < 0 || ((ld->place->flags & AQ_PLACE_EXPERTS) && !is_hosted(r)))
            continue;
        int rc = load_role(ld, d, r, nl, err);
        /* near ties of routers are upset by what a mixer's rounded inputs do to the residual stream */
        nl->m[r].fine = ld->net->model->info.n_expert > 0 && is_mixer(r);
        if (rc >= 0 && d->fac[r] >= 0)
            rc = load_factors(ld, d, r, nl, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int load_ends(loader *ld, aq_err *err)
{
    aq_net *net = ld->net;
    const aq_model *m = net->model;
    int rc = net->embd.data ? 0 : load_matrix(ld, m->w_embd, ONE, 0, 0, &net->embd, err);
    if (rc < 0)
        return rc;
    if (m->w_hc_norm < 0)
        rc = load_vector(ld, m->w_out_norm, 0, 0, &net->out_norm, NULL, err);
    else if ((rc = load_vector(ld, m->w_hc_norm, 0, 0, &net->hc_norm, NULL, err)) >= 0 &&
             (rc = load_matrix(ld, m->w_hc_down, ONE, 0, 0, &net->hc_down, err)) >= 0)
        rc = load_matrix(ld, m->w_hc_up, ONE, 0, 0, &net->hc_up, err);
    if (rc < 0)
        return rc;
    net->tied = m->w_out == m->w_embd;
    if (net->tied)
        net->out = net->embd;
    else if ((rc = load_matrix(ld, m->w_out, ONE, 0, 0, &net->out, err)) < 0)
        return rc;
    if (m->w_out_fac >= 0 && !net->tied) {
        if ((rc = load_vector(ld, m->w_out_fac, 0, 0, &net->out_fac, NULL, err)) < 0)
            return rc;
        net->out.fac = net->out_fac;
    }
    if (m->info.n_draft == 0)
        return 0;
    net->draft = calloc(1, sizeof(*net->draft));
    if (!net->draft)
        return aq_fail(err, AQ_E_NOMEM, "draft layer: out of memory");
    return load_layer(ld, m->info.n_layer, net->draft, err);
}

/* Per-layer embeddings: their inputs are made where the layers are, from the token and its embedding. */
static int load_ple(loader *ld, aq_err *err)
{
    aq_net *net = ld->net;
    const aq_model *m = net->model;
    int rc;
    if ((rc = load_matrix(ld, m->w_embd, ONE, 0, 0, &net->embd, err)) < 0 ||
        (rc = load_matrix(ld, m->w_ple_embd, ONE, 0, 0, &net->ple_embd, err)) < 0 ||
        (rc = load_matrix(ld, m->w_ple_proj, ONE, 0, 0, &net->ple_proj, err)) < 0 ||
        (rc = load_vector(ld, m->w_ple_norm, 0, 0, &net->ple_norm, NULL, err)) < 0)
        return rc;
    return 0;
}

static int new_ones(aq_net *net, aq_err *err)
{
    uint32_t n = net->model->info.n_embd;
    for (uint32_t l = 0; l < net->model->info.n_layer; l++)
        n = AQ_MAX(n, net->model->layer[l].d_v);
    net->ones = malloc(n * sizeof(*net->ones));
    if (!net->ones)
        return aq_fail(err, AQ_E_NOMEM, "weights: out of memory");
    for (uint32_t i = 0; i < n; i++)
        net->ones[i] = 1;
    return 0;
}

AQ_CLEANUP_FUNC(void *, aq_net_drop)

int aq_net_load(const aq_blocks *blocks, aq_rt *rt, const aq_model *m, const aq_wsrc *src,
                const aq_place *place, uint32_t l0, uint32_t l1, aq_progress *progress,
                void **ret_w, aq_err *err)
{
    if (l0 > l1 || l1 > m->info.n_layer || (l0 == l1 && !(place->flags & AQ_PLACE_ENDS)))
        return aq_fail(err, AQ_E_INVAL, "layers [%u, %u) of %u cannot be loaded", l0, l1,
                       m->info.n_layer);
    if (m->w_out < 0)
        return aq_fail(err, AQ_E_INVAL, "the model was opened for its vocabulary only");
    aq_net *net = calloc(1, sizeof(*net));
    AQ_AUTO(aq_net_drop) void *guard = net;
    if (!net)
        return aq_fail(err, AQ_E_NOMEM, "weights: out of memory");
    *net =
        (aq_net){.rt = rt, .model = m, .blocks = blocks, .l0 = l0, .l1 = l1, .flags = place->flags};
    net->layer = calloc(l1 - l0 + 1, sizeof(*net->layer));
    if (!net->layer)
        return aq_fail(err, AQ_E_NOMEM, "weights: out of memory");
    int rc = blocks->open(rt, m, &net->ctx, err);
    if (rc < 0)
        return rc;
    loader ld = {.net = net, .src = src, .place = place, .progress = progress};
    if (m->w_rope_freqs >= 0 && !(place->flags & AQ_PLACE_EXPERTS)) {
        rc = load_vector(&ld, m->w_rope_freqs, 0, 0, &net->rope_freqs, &net->n_rope_freqs, err);
        if (rc < 0)
            return rc;
    }
    if ((rc = new_ones(net, err)) < 0)
        return rc;
    if (m->w_ple_embd >= 0 && l1 > l0 && !(place->flags & AQ_PLACE_EXPERTS) &&
        (rc = load_ple(&ld, err)) < 0)
        return rc;
    if (m->w_ngram >= 0) {
        const aq_tensor *t = &m->tensor[m->w_ngram];
        net->src = *src;
        net->ngram_row =
            malloc((size_t)(m->ngram.dim / t->type->block_vals) * t->type->block_bytes);
        if (!net->ngram_row)
            return aq_fail(err, AQ_E_NOMEM, "weights: out of memory");
    }
    for (uint32_t l = l0; l < l1; l++)
        if ((rc = load_layer(&ld, l, &net->layer[l - l0], err)) < 0)
            return rc;
    if ((place->flags & AQ_PLACE_ENDS) && (rc = load_ends(&ld, err)) < 0)
        return rc;
    *ret_w = AQ_STEAL(guard);
    return 0;
}

static void drop_layer(aq_net *net, aq_net_layer *l)
{
    for (int r = 0; r < AQ_W_N; r++) {
        if (l->m[r].data)
            net->blocks->mat_drop(net->ctx, &l->m[r]);
        free(l->v[r]);
        free(l->fac[r]);
    }
}

void aq_net_drop(void *w)
{
    aq_net *net = w;
    if (!net)
        return;
    if (net->layer)
        for (uint32_t l = 0; l < net->l1 - net->l0; l++)
            drop_layer(net, &net->layer[l]);
    if (net->draft)
        drop_layer(net, net->draft);
    if (net->embd.data)
        net->blocks->mat_drop(net->ctx, &net->embd);
    if (net->out.data && !net->tied)
        net->blocks->mat_drop(net->ctx, &net->out);
    if (net->ple_embd.data)
        net->blocks->mat_drop(net->ctx, &net->ple_embd);
    if (net->ple_proj.data)
        net->blocks->mat_drop(net->ctx, &net->ple_proj);
    if (net->hc_down.data)
        net->blocks->mat_drop(net->ctx, &net->hc_down);
    if (net->hc_up.data)
        net->blocks->mat_drop(net->ctx, &net->hc_up);
    free(net->hc_norm);
    free(net->ngram_row);
    free(net->ple_norm);
    free(net->ones);
    free(net->out_norm);
    free(net->rope_freqs);
    free(net->out_fac);
    free(net->layer);
    free(net->draft);
    if (net->ctx)
        net->blocks->close(net->ctx);
    free(net);
}

int aq_net_sync(void *w, aq_err *err)
{
    return 0; /* every block is done when it returns */
}
