/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes which expert of a window: the net's own, or hosts. Parts come back unsummed and are added in slot order, so that the
 * bits do not depend on who computed what. Thread: the stage's. */
#include "forward-priv.h"

#define HOSTS_MAX 64u
#define END_US 10000000 /* a host that has not answered by then counts as gone */

void aq_parts_add(const float *parts, const int32_t *expert, uint32_t n, uint32_t k, uint32_t dim,
                  float *y)
{
    for (uint32_t r = 0; r < n; r++, y += dim) {
        memset(y, 0, dim * sizeof(float));
        for (uint32_t j = 0; j < k; j++) {
            size_t slot = (size_t)r * k + j;
            for (uint32_t i = 0; (!expert || expert[slot] >= 0) && i < dim; i++)
                y[i] += parts[slot * dim + i];
        }
    }
}

static aq_net_layer *layer_of(aq_net *net, uint32_t layer)
{
    if (layer == net->model->info.n_layer)
        return net->draft;
    return layer >= net->l0 && layer < net->l1 ? &net->layer[layer - net->l0] : NULL;
}

static int nobody(uint32_t layer, int32_t expert, aq_err *err)
{
    return aq_fail(err, AQ_E_GONE, "expert %d of layer %u is held by no one here", expert, layer);
}

static int run_own(aq_net *net, const aq_expert_job *job, aq_err *err)
{
    const aq_net_layer *nl = layer_of(net, job->layer);
    const aq_mat *m = nl ? &nl->m[AQ_W_EXP_GATE] : NULL;
    if (!m || !m->data)
        return aq_fail(err, AQ_E_INVAL, "layer %u has no experts here", job->layer);
    for (size_t i = 0; i < (size_t)job->n_rows * job->k; i++)
        if (job->expert[i] >= 0 &&
            ((uint32_t)job->expert[i] < m->e0 || (uint32_t)job->expert[i] - m->e0 >= m->n_mat))
            return nobody(job->layer, job->expert[i], err);
    aq_experts ex = aq_net_layer_experts(nl);
    net->blocks->experts(net->ctx, &ex, job);
    return 0;
}

static bool holds(const aq_expert_host *h, uint32_t layer, int32_t expert)
{
    const uint64_t *set = h->resident(h->self, layer);
    return set && (set[expert / 64] >> (expert % 64) & 1);
}

/* The slots that are still open, each given to the first living host that holds its expert: ids [n_hosts][n_slot], -1 elsewhere. */
static int deal(const aq_expert_host *const *hosts, uint32_t n_hosts, uint64_t gone,
                const aq_expert_job *job, const uint8_t *done, int32_t *ids, uint32_t *count,
                aq_err *err)
{
    size_t n_slot = (size_t)job->n_rows * job->k;
    memset(ids, 0xff, n_hosts * n_slot * sizeof(*ids));
    memset(count, 0, n_hosts * sizeof(*count));
    for (size_t i = 0; i < n_slot; i++) {
        uint32_t h = 0;
        if (done[i] || job->expert[i] < 0)
            continue;
        while (h < n_hosts && ((gone >> h & 1) || !holds(hosts[h], job->layer, job->expert[i])))
            h++;
        if (h == n_hosts)
            return nobody(job->layer, job->expert[i], err);
        ids[h * n_slot + i] = job->expert[i];
        count[h]++;
    }
    return 0;
}

/* One round: begin everywhere, then end everywhere, even after a failure (a job lives until its end). Marks what is done. */
static int round_trip(const aq_expert_host *const *hosts, uint32_t n_hosts, uint64_t *gone,
                      const aq_expert_job *job, uint8_t *done, const int32_t *ids,
                      const uint32_t *count, aq_err *err)
{
    size_t n_slot = (size_t)job->n_rows * job->k;
    aq_expert_job part[HOSTS_MAX];
    uint64_t ticket[HOSTS_MAX];
    int rc[HOSTS_MAX] = {0}, worst = 0;
    for (uint32_t h = 0; h < n_hosts; h++) {
        part[h] = *job;
        part[h].expert = ids + h * n_slot;
        if (count[h] > 0)
            rc[h] = hosts[h]->begin(hosts[h]->self, &part[h], &ticket[h], worst == 0 ? err : NULL);
    }
    for (uint32_t h = 0; h < n_hosts; h++) {
        if (count[h] == 0)
            continue;
        if (rc[h] >= 0)
            rc[h] = hosts[h]->end(hosts[h]->self, ticket[h], aq_now_us() + END_US,
                                  worst == 0 ? err : NULL);
        if (rc[h] == -AQ_E_GONE || rc[h] == -AQ_E_TIMEOUT)
            *gone |= 1ull << h;
        else if (rc[h] < 0 && worst == 0)
            worst = rc[h];
        for (size_t i = 0; rc[h] >= 0 && i < n_slot; i++)
            done[i] |= ids[h * n_slot + i] >= 0;
    }
    return worst;
}

int aq_experts_run(aq_net *net, uint32_t layer, const aq_expert_host *const *hosts,
                   uint32_t n_hosts, uint32_t n, const float *x, const int32_t *expert,
                   const float *w, float *parts, aq_err *err)
{
    const aq_net_layer *nl = layer_of(net, layer);
    uint32_t k = nl ? nl->d->n_used : 0;
    aq_expert_job job = {.layer = layer,
                         .n_rows = n,
                         .k = k,
                         .parts = 1,
                         .x = x,
                         .expert = expert,
                         .w = w,
                         .y = parts};
    if (n_hosts == 0)
        return run_own(net, &job, err);
    if (n_hosts > HOSTS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u expert hosts: %u are possible", n_hosts, HOSTS_MAX);
    size_t n_slot = (size_t)n * k;
    AQ_AUTOFREE int32_t *ids = malloc(n_hosts * n_slot * sizeof(*ids) + 1);
    AQ_AUTOFREE uint8_t *done = calloc(n_slot + 1, 1);
    uint32_t count[HOSTS_MAX];
    uint64_t gone = 0;
    if (!ids || !done)
        return aq_fail(err, AQ_E_NOMEM, "experts of %u rows: out of memory", n);
    for (;;) {
        int rc = deal(hosts, n_hosts, gone, &job, done, ids, count, err);
        if (rc < 0)
            return rc;
        uint64_t before = gone;
        rc = round_trip(hosts, n_hosts, &gone, &job, done, ids, count, err);
        if (rc < 0 || gone == before)
            return rc;
    }
}
