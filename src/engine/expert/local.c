/* SPDX-License-Identifier: Apache-2.0 */
/* Experts held in this process, as a host: the interface that VRAM, files and other PCs have too. A job is computed in begin.
 * Thread: the stage's. */
#include "forward-priv.h"

typedef struct local {
    aq_net *net;
    uint32_t n_word; /* 64-bit words of a layer's set */
    uint64_t *set;   /* [l1 - l0][n_word] */
    uint64_t ticket;
} local;

static const uint64_t *resident(void *self, uint32_t layer)
{
    const local *h = self;
    if (layer < h->net->l0 || layer >= h->net->l1 ||
        !h->net->layer[layer - h->net->l0].m[AQ_W_EXP_GATE].data)
        return NULL;
    return h->set + (size_t)(layer - h->net->l0) * h->n_word;
}

static int begin(void *self, const aq_expert_job *job, uint64_t *ret_ticket, aq_err *err)
{
    local *h = self;
    aq_net *net = h->net;
    uint32_t embd = net->model->info.n_embd;
    if (!resident(h, job->layer))
        return aq_fail(err, AQ_E_INVAL, "layer %u has no experts here", job->layer);
    const aq_net_layer *nl = &net->layer[job->layer - net->l0];
    const aq_mat *m = &nl->m[AQ_W_EXP_GATE];
    if (!job->k || job->k > nl->d->n_used) /* backends have room for as many */
        return aq_fail(err, AQ_E_INVAL, "%u experts a row in layer %u: 1 to %u are possible",
                       job->k, job->layer, nl->d->n_used);
    for (size_t i = 0; i < (size_t)job->n_rows * job->k; i++)
        if (job->expert[i] >= 0 &&
            ((uint32_t)job->expert[i] < m->e0 || (uint32_t)job->expert[i] - m->e0 >= m->n_mat))
            return aq_fail(err, AQ_E_INVAL, "expert %d of layer %u is not here", job->expert[i],
                           job->layer);
    int rc = net->blocks->reserve ? net->blocks->reserve(net->ctx, job->n_rows, err) : 0;
    if (rc < 0)
        return rc;
    aq_expert_job own = *job;
    AQ_AUTOFREE float *parts = NULL;
    if (!job->parts) {
        own.parts = 1;
        own.y = parts = malloc((size_t)job->n_rows * job->k * embd * sizeof(float) + 1);
        if (!parts)
            return aq_fail(err, AQ_E_NOMEM, "experts of %u rows: out of memory", job->n_rows);
    }
    aq_experts ex = aq_net_layer_experts(nl);
    net->blocks->experts(net->ctx, &ex, &own);
    if (!job->parts)
        aq_parts_add(parts, job->expert, job->n_rows, job->k, embd, job->y);
    *ret_ticket = ++h->ticket;
    return 0;
}

static int end(void *self, uint64_t ticket, int64_t deadline_us, aq_err *err)
{
    const local *h = self;
    if (ticket == 0 || ticket > h->ticket)
        return aq_fail(err, AQ_E_INVAL, "there is no expert job %llu", (unsigned long long)ticket);
    return 0;
}

static void close_host(void *self)
{
    local *h = self;
    if (!h)
        return;
    free(h->set);
    free(h);
}

int aq_net_host(void *w, aq_expert_host *ret, aq_err *err)
{
    aq_net *net = w;
    uint32_t n_layer = net->l1 - net->l0, n_exp = 0;
    for (uint32_t l = 0; l < n_layer; l++)
        if (net->layer[l].m[AQ_W_EXP_GATE].data)
            n_exp = AQ_MAX(n_exp, net->layer[l].d->n_exp);
    if (n_exp == 0)
        return aq_fail(err, AQ_E_UNSUPPORTED, "these layers have no experts");
    local *h = calloc(1, sizeof(*h));
    uint32_t n_word = (n_exp + 63) / 64;
    uint64_t *set = calloc((size_t)n_layer * n_word, sizeof(*set));
    if (!h || !set) {
        free(h);
        free(set);
        return aq_fail(err, AQ_E_NOMEM, "expert host: out of memory");
    }
    for (uint32_t l = 0; l < n_layer; l++) {
        const aq_mat *m = &net->layer[l].m[AQ_W_EXP_GATE];
        for (uint32_t e = 0; m->data && e < m->n_mat; e++)
            set[(size_t)l * n_word + (m->e0 + e) / 64] |= 1ull << ((m->e0 + e) % 64);
    }
    *h = (local){.net = net, .n_word = n_word, .set = set};
    *ret = (aq_expert_host){.self = h,
                            .name = net->blocks->name,
                            .resident = resident,
                            .begin = begin,
                            .end = end,
                            .close = close_host};
    return 0;
}

/* A backend's host together with the weights that it borrows. */
typedef struct owned {
    const aq_backend *be;
    void *w;
    aq_expert_host in;
} owned;

static const uint64_t *owned_resident(void *self, uint32_t layer)
{
    owned *o = self;
    return o->in.resident(o->in.self, layer);
}

static int owned_begin(void *self, const aq_expert_job *job, uint64_t *ret_ticket, aq_err *err)
{
    owned *o = self;
    return o->in.begin(o->in.self, job, ret_ticket, err);
}

static int owned_end(void *self, uint64_t ticket, int64_t deadline_us, aq_err *err)
{
    owned *o = self;
    return o->in.end(o->in.self, ticket, deadline_us, err);
}

static int owned_turn(void *self, const aq_swap *swap, uint32_t n, aq_err *err)
{
    owned *o = self;
    return o->in.turn(o->in.self, swap, n, err);
}

static void owned_close(void *self)
{
    owned *o = self;
    if (o->in.close)
        o->in.close(o->in.self);
    o->be->drop(o->w);
    free(o);
}

int aq_expert_host_local(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                         uint32_t l0, uint32_t l1, aq_progress *progress, aq_expert_host *ret,
                         aq_err *err)
{
    const aq_backend *be;
    int rc = aq_backend_find(place->backend, &be, err);
    if (rc < 0)
        return rc;
    owned *o = calloc(1, sizeof(*o));
    if (!o)
        return aq_fail(err, AQ_E_NOMEM, "expert host: out of memory");
    o->be = be;
    aq_place p = *place;
    p.flags = AQ_PLACE_EXPERTS;
    if (progress)
        atomic_store_explicit(&progress->total, aq_net_load_bytes(m, &p, l0, l1),
                              memory_order_relaxed);
    rc = be->load(rt, m, src, &p, l0, l1, progress, &o->w, err);
    if (rc == 0)
        rc = be->host(o->w, &o->in, err);
    if (rc < 0) {
        be->drop(o->w);
        free(o);
        return rc;
    }
    *ret = (aq_expert_host){.self = o,
                            .name = o->in.name,
                            .resident = owned_resident,
                            .begin = owned_begin,
                            .end = owned_end,
                            .turn = o->in.turn ? owned_turn : NULL,
                            .close = owned_close};
    return 0;
}
