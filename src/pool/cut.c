/* SPDX-License-Identifier: Apache-2.0 */
/* Where a model is parted when nobody says it: by the free memory of both PCs. Caller's thread; the
 * answer of the other PC comes on a link's thread. */
#include "split-priv.h"

#include <pthread.h>
#include <time.h>

#define ASK_US (AQ_LINK_AUTH_US + 2000000ll)

int aq_cut_choose(const aq_model_info *in, const aq_state_cfg *sc, uint64_t here_bytes,
                  uint64_t there_bytes, const char *pc, uint32_t *ret, aq_err *err)
{
    uint32_t half = in->n_layer / 2, n_cut = 0, best = 0;

    /* Not in proportion to what is free: that changes all the time, and with another cut both PCs
     * would read their layers anew. */
    for (uint32_t k = 1; k < in->n_layer; k++) {
        if (!in->cut_ok[k])
            continue;
        n_cut++;
        uint32_t far = k > half ? k - half : half - k,
                 was = best > half ? best - half : half - best;
        if (aq_layers_need_bytes(in, 0, k, sc) + in->ends_bytes <= here_bytes &&
            aq_layers_need_bytes(in, k, in->n_layer, sc) <= there_bytes && (!best || far < was))
            best = k;
    }
    if (!n_cut)
        return aq_fail(err, AQ_E_UNSUPPORTED, "this model cannot be parted anywhere");
    if (!best)
        return aq_fail(
            err, AQ_E_NOMEM,
            "the model needs %.2f GB of memory; this PC has %.2f GB free and %s has %.2f "
            "GB, and it fits nowhere: close programs, or use a smaller model or context",
            (double)(aq_layers_need_bytes(in, 0, in->n_layer, sc) + in->ends_bytes) / 1e9,
            (double)here_bytes / 1e9, pc, (double)there_bytes / 1e9);
    *ret = best;
    return 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

typedef struct asking {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t cond;
    bool has, closed;
    int64_t sent_us;
    aq_peer_mem mem;
    aq_err why;
} asking;

static void open_cb(void *user, aq_link *link)
{
    asking *a = user;
    aq_err err = {0};

    pthread_mutex_lock(&a->lock);
    memcpy(a->mem.name, aq_link_peer(link)->name, sizeof a->mem.name);
    a->sent_us = aq_now_us();
    pthread_mutex_unlock(&a->lock);
    if (aq_link_send(link, AQ_T_STATS, 0, "", 0, NULL, &err) < 0)
        aq_link_close(link, "shutdown");
}

static int frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    asking *a = user;
    uint64_t idle = 0, held = 0;
    char who[AQ_NAME_MAX + 1] = "";
    aq_kv kv;

    (void)link;
    if (h->type != AQ_T_STATS || !(h->flags & AQ_FLAG_REPLY))
        return 0;
    int rc = aq_kv_parse(payload, h->length, &kv, err);
    rc = rc < 0 ? rc : aq_kv_u64(&kv, "mem_free", true, 1ull << 60, &idle, err);
    rc = rc < 0 ? rc : aq_kv_u64(&kv, "mem_held", false, 1ull << 60, &held, err);
    rc = rc < 0 ? rc : aq_kv_text(&kv, "who_name", false, who, sizeof who, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&a->lock);
    a->mem.bytes = idle + held;
    a->mem.rtt_us = aq_now_us() - a->sent_us;
    memcpy(a->mem.works_for, who, sizeof who);
    a->has = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

static void closed_cb(void *user, aq_link *link, const aq_err *why)
{
    asking *a = user;

    (void)link;
    pthread_mutex_lock(&a->lock);
    a->closed = true;
    a->why = *why;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

/* Until it has answered. Under the lock. */
static int await(asking *a, const aq_progress *prog, aq_err *err)
{
    int64_t end_us = aq_now_us() + ASK_US;
    struct timespec t;

    while (!a->has && !a->closed) {
        if (prog && atomic_load(&prog->cancel))
            return aq_fail(err, AQ_E_CANCELLED, "stopped while the other PC was asked");
        if (aq_now_us() > end_us)
            return aq_fail(err, AQ_E_TIMEOUT, "%s does not say how much memory it has",
                           a->mem.name[0] ? a->mem.name : "the other PC");
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_nsec += 100000000;
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&a->cond, &a->lock, &t);
    }
    if (a->has)
        return 0;
    if (!a->why.code)
        return aq_fail(err, AQ_E_GONE, "the connection was closed");
    if (err)
        *err = a->why;
    return -a->why.code;
}

int aq_peer_mem_ask(aq_net *net, const struct sockaddr_storage *addr, uint32_t n_addr,
                    const aq_id *to, const aq_progress *prog, aq_peer_mem *ret, aq_err *err)
{
    asking a = {.lock = PTHREAD_MUTEX_INITIALIZER};
    aq_dial d = {.addr = addr, .n_addr = n_addr, .purpose = AQ_FOR_STATUS, .to = to};
    aq_link_cb cb = {&a, open_cb, frame_cb, NULL, closed_cb};
    pthread_condattr_t attr;
    aq_link *l = NULL;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a.cond, &attr);
    pthread_condattr_destroy(&attr);
    int rc = aq_link_dial(net, &d, &cb, &l, err);
    if (rc >= 0) {
        pthread_mutex_lock(&a.lock);
        rc = await(&a, prog, err);
        pthread_mutex_unlock(&a.lock);
    }
    aq_link_free(l);
    if (rc >= 0)
        *ret = a.mem;
    pthread_cond_destroy(&a.cond);
    pthread_mutex_destroy(&a.lock);
    return rc;
}
