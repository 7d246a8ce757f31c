/* SPDX-License-Identifier: Apache-2.0 */
/* A PC that serves layers: listener and worker put together; and two identities of one PC for a
 * check over loopback. */
#include "split-priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct aq_node {
    aq_accept_fn pair; /* takes callers that want to be paired; NULL = nobody does */
    void *pair_user;
    aq_net *net;
    aq_worker *worker;
    aq_listener *listener;
};

static int accept_cb(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    aq_node *n = user;

    if (n->pair && aq_link_purpose(link) == AQ_FOR_PAIR)
        return n->pair(n->pair_user, link, ret_cb, err);
    return aq_worker_accept(n->worker, link, ret_cb, err);
}

int aq_node_new(const aq_node_cfg *cfg, aq_node **ret, aq_err *err)
{
    return aq_node_new_pairing(cfg, false, NULL, NULL, ret, err);
}

int aq_node_new_pairing(const aq_node_cfg *cfg, bool open, aq_accept_fn pair, void *user,
                        aq_node **ret, aq_err *err)
{
    AQ_AUTO(aq_node_free) aq_node *n = calloc(1, sizeof *n);
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    int rc;

    if (!n)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a node");
    n->pair = pair;
    n->pair_user = user;
    if (cfg->n_bind > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "there are %u addresses to listen on, 1 to %u are possible",
                       cfg->n_bind, AQ_ADDRS_MAX);
    for (uint32_t i = 0; i < cfg->n_bind; i++)
        if ((rc = aq_addr_parse(cfg->bind[i], cfg->port, &addr[i], err)) < 0)
            return rc;
    if ((rc = aq_net_new(cfg->trust, cfg->app, AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16, &n->net,
                         err)) < 0)
        return rc;
    aq_net_set_open(n->net, open, cfg->join);
    aq_worker_cfg wc = {.rt = cfg->rt,
                        .trust = cfg->trust,
                        .backend = cfg->backend,
                        .dir = cfg->dir,
                        .n_dir = cfg->n_dir};
    if ((rc = aq_worker_new(&wc, &n->worker, err)) < 0)
        return rc;
    rc = cfg->n_bind ? aq_listener_new(n->net, addr, cfg->n_bind, accept_cb, n, &n->listener, err)
                     : aq_listener_new_own(n->net, cfg->port, accept_cb, n, &n->listener, err);
    if (rc < 0)
        return rc;
    *ret = AQ_STEAL(n);
    return 0;
}

void aq_node_free(aq_node *n)
{
    if (!n)
        return;
    aq_listener_free(n->listener);
    aq_worker_free(n->worker);
    aq_net_free(n->net);
    free(n);
}

aq_net *aq_node_net(const aq_node *n)
{
    return n->net;
}

uint16_t aq_node_port(const aq_node *n)
{
    return aq_listener_port(n->listener);
}

void aq_node_get_state(aq_node *n, aq_node_state *ret)
{
    aq_worker_count c;

    aq_worker_get_count(n->worker, &c);
    *ret = (aq_node_state){.loaded = c.loaded,
                           .l0 = c.l0,
                           .l1 = c.l1,
                           .n_load = c.n_load,
                           .n_window = c.n_window,
                           .n_fault = c.n_fault};
    memcpy(ret->who, c.who, sizeof ret->who);
    memcpy(ret->fault, c.fault, sizeof ret->fault);
}

typedef struct joining {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool roster, closed;
    aq_err why;
} joining;

static int join_frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *payload,
                         aq_err *err)
{
    joining *j = user;

    (void)link;
    (void)payload;
    (void)err;
    pthread_mutex_lock(&j->lock);
    j->roster |= h->type == AQ_T_ROSTER;
    pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->lock);
    return 0;
}

static void join_closed_cb(void *user, aq_link *link, const aq_err *why)
{
    joining *j = user;

    (void)link;
    pthread_mutex_lock(&j->lock);
    j->closed = true;
    j->why = *why;
    pthread_cond_signal(&j->cond);
    pthread_mutex_unlock(&j->lock);
}

int aq_node_join(aq_node *n, const char *addr, const uint8_t secret[AQ_SECRET_BYTES], aq_err *err)
{
    joining j = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct sockaddr_storage a;
    aq_dial d = {.addr = &a, .n_addr = 1, .purpose = AQ_FOR_JOIN, .join_secret = secret};
    aq_link_cb cb = {&j, NULL, join_frame_cb, NULL, join_closed_cb};
    struct timespec end;
    aq_link *l;
    int rc = aq_addr_parse(addr, AQ_POOL_PORT, &a, err);

    if (rc < 0 || (rc = aq_link_dial(n->net, &d, &cb, &l, err)) < 0)
        return rc;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += AQ_LINK_AUTH_US / 1000000 + 1;
    pthread_mutex_lock(&j.lock);
    /* the other side's roster comes right after the proofs: then all members are known */
    while (!j.roster && !j.closed &&
           pthread_cond_clockwait(&j.cond, &j.lock, CLOCK_MONOTONIC, &end) != ETIMEDOUT)
        ;
    aq_err why = j.why;
    pthread_mutex_unlock(&j.lock);
    aq_link_free(l);
    pthread_mutex_destroy(&j.lock);
    pthread_cond_destroy(&j.cond);
    aq_trust *trust = aq_net_trust(n->net);
    if (aq_trust_roster(trust, NULL)) {
        aq_log(AQ_LOG_INFO, "pool", "joined at=%s", addr);
        return 0;
    }
    if (!why.code)
        aq_fail(&why, AQ_E_TIMEOUT, "%s did not let this PC join in time", addr);
    if (err)
        *err = why;
    return -why.code;
}

int aq_check_twins(const char *dir, aq_trust **ret_here, aq_trust **ret_there, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *here = NULL, *there = NULL;
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes roster = {0};
    aq_member m = {.perms = AQ_PERM_DEFAULT};
    char path[4096];
    aq_cred c;
    int rc;

    if (snprintf(path, sizeof path, "%s/here", dir) >= (int)sizeof path)
        return aq_fail(err, AQ_E_LIMIT, "the path %.60s… is too long", dir);
    if ((rc = aq_trust_open(path, "this PC", NULL, &here, err)) < 0 ||
        (rc = aq_trust_create(here, err)) < 0)
        return rc;
    snprintf(path, sizeof path, "%s/there", dir);
    if ((rc = aq_trust_open(path, "the worker of this PC", NULL, &there, err)) < 0)
        return rc;
    m.id = *aq_trust_id(there);
    aq_trust_name(there, m.name);
    if ((rc = aq_trust_add(here, &m, err)) < 0 || (rc = aq_trust_share(here, &roster, err)) < 0)
        return rc;
    aq_trust_cred(here, &c);
    rc = aq_trust_adopt(there, c.pool, c.epoch, c.secret, (const char *)roster.p, roster.n, err);
    aq_mem_wipe(&c, sizeof c);
    if (rc < 0)
        return rc;
    *ret_here = AQ_STEAL(here);
    *ret_there = AQ_STEAL(there);
    return 0;
}
