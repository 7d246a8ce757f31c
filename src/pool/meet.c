/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing for programs: this PC calls another one, or listens until one calls. Wraps the listener and
 * the driver of pairing.c.
 *
 * Threads: callbacks come from a link's thread. A call that ends before there were digits (a scanner,
 * a stranger that hung up) does not end the waiting. */
#include "pair-priv.h"

#include <pthread.h>
#include <stdio.h>

struct aq_meet {
    aq_net *net;
    aq_listener *listener;
    aq_meet_cfg cfg;
    pthread_mutex_t lock;
    aq_pairing *pairing; /* under lock, as all below */
    bool shown, over;    /* digits are on the screen; the pairing ended without */
    aq_reach out, in;
};

static void digits_cb(void *user, aq_pairing *p, const char digits[7], const char *name)
{
    aq_meet *m = user;

    pthread_mutex_lock(&m->lock);
    m->shown = true;
    m->pairing = p; /* a call answers before aq_pairing_dial returned */
    pthread_mutex_unlock(&m->lock);
    m->cfg.digits_cb(m->cfg.user, digits, name);
}

static void done_cb(void *user, aq_pairing *p, const aq_err *err, const aq_id *id)
{
    aq_meet *m = user;
    char addr[AQ_ADDR_MAX + 1];
    aq_err no = {0};

    pthread_mutex_lock(&m->lock);
    bool waits = m->cfg.wait && !m->shown && err->code;
    m->over = true;
    aq_pairing_reach(p, &m->out, &m->in);
    pthread_mutex_unlock(&m->lock);
    if (waits) {
        aq_log(AQ_LOG_WARN, "pool", "pairing_failed text=%s", err->text);
        return;
    }
    /* It answered there: next time it need not be said. */
    aq_pairing_addr(p, addr);
    if (!err->code && !m->cfg.wait && aq_trust_set_addr(aq_net_trust(m->net), id, addr, &no) < 0)
        aq_log(AQ_LOG_WARN, "pool", "address=not_kept text=%s", no.text);
    m->cfg.done_cb(m->cfg.user, err, id);
}

static int accept_cb(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    aq_meet *m = user;
    aq_pairing_cb cb = {m, digits_cb, done_cb};
    aq_pairing *old = NULL;

    if (aq_link_purpose(link) != AQ_FOR_PAIR)
        return aq_fail(err, AQ_E_BUSY, "this PC is being paired");
    pthread_mutex_lock(&m->lock);
    bool busy = m->shown || (m->pairing && !m->over);
    if (!busy) {
        old = m->pairing;
        m->pairing = NULL;
        m->over = false;
    }
    pthread_mutex_unlock(&m->lock);
    if (busy)
        return aq_fail(err, AQ_E_BUSY, "this PC is being paired with another one");
    aq_pairing_free(old); /* its link is closed: nothing to wait for */
    aq_pairing *p = NULL;
    int rc = aq_pairing_accept(m->net, link, ret_cb, &cb, &p, err);
    pthread_mutex_lock(&m->lock);
    m->pairing = p; /* callbacks begin after this returned */
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static int begin_dial(aq_meet *m, const struct sockaddr_storage *addr, uint32_t n, aq_err *err)
{
    aq_pairing_cb cb = {m, digits_cb, done_cb};
    aq_pairing *p = NULL;

    int rc = aq_pairing_dial(m->net, addr, n, &cb, &p, err);
    pthread_mutex_lock(&m->lock);
    m->pairing = rc < 0 ? NULL : p;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

int aq_meet_new(const aq_meet_cfg *cfg, aq_meet **ret, aq_err *err)
{
    AQ_AUTO(aq_meet_free) aq_meet *m = calloc(1, sizeof *m);
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    uint32_t n = 0;
    int rc;

    if (!m)
        return aq_fail(err, AQ_E_NOMEM, "no memory for pairing");
    m->cfg = *cfg;
    pthread_mutex_init(&m->lock, NULL);
    if (cfg->n_addr > AQ_ADDRS_MAX || (!cfg->n_addr && !cfg->wait))
        return aq_fail(err, AQ_E_INVAL, "%u addresses were given, 1 to %u are possible",
                       cfg->n_addr, AQ_ADDRS_MAX);
    for (; n < cfg->n_addr; n++)
        if ((rc = aq_addr_parse(cfg->addr[n], cfg->wait ? cfg->port : AQ_POOL_PORT, &addr[n],
                                err)) < 0)
            return rc;
    if ((rc = aq_net_new(cfg->trust, cfg->app, AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16, &m->net,
                         err)) < 0)
        return rc;
    if (cfg->wait) {
        aq_net_set_open(m->net, true, false);
        rc = n ? aq_listener_new(m->net, addr, n, accept_cb, m, &m->listener, err)
               : aq_listener_new_own(m->net, cfg->port, accept_cb, m, &m->listener, err);
    } else {
        rc = begin_dial(m, addr, n, err);
    }
    if (rc < 0)
        return rc;
    *ret = AQ_STEAL(m);
    return AQ_OK;
}

void aq_meet_free(aq_meet *m)
{
    if (!m)
        return;
    aq_listener_free(m->listener);
    aq_pairing_free(m->pairing);
    aq_net_free(m->net);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

uint16_t aq_meet_port(const aq_meet *m)
{
    return m->listener ? aq_listener_port(m->listener) : 0;
}

void aq_meet_reach(aq_meet *m, aq_reach *ret_out, aq_reach *ret_in)
{
    pthread_mutex_lock(&m->lock);
    *ret_out = m->out;
    *ret_in = m->in;
    pthread_mutex_unlock(&m->lock);
}

void aq_meet_answer(aq_meet *m, bool match)
{
    pthread_mutex_lock(&m->lock);
    aq_pairing *p = m->shown ? m->pairing : NULL;
    pthread_mutex_unlock(&m->lock);
    if (p)
        aq_pairing_answer(p, match);
}
