/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a link: it connects, pumps, keeps the heartbeat, and tells the end; and what all
 * links of this PC share. The machine that it drives is link.c's. */
#include "dial-priv.h"
#include "link-obj-priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what all links share -------------------------------------------------------------------- */

int aq_net_new(aq_trust *trust, const char *app, uint64_t feat, aq_net **ret, aq_err *err)
{
    AQ_AUTO(aq_net_free) aq_net *n = calloc(1, sizeof *n);
    int rc;

    if (!n)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool");
    n->trust = trust;
    n->feat = feat;
    snprintf(n->app, sizeof n->app, "%s", app);
    if ((rc = aq_random(n->boot, sizeof n->boot, err)) < 0 ||
        (rc = aq_tls_ctx_new(aq_trust_identity(trust), &n->tls, err)) < 0)
        return rc;
    *ret = AQ_STEAL(n);
    return AQ_OK;
}

void aq_net_free(aq_net *n)
{
    if (!n)
        return;
    aq_tls_ctx_free(n->tls);
    free(n);
}

void aq_net_set_open(aq_net *n, bool pair, bool join)
{
    atomic_store(&n->pair_open, pair);
    atomic_store(&n->join_open, join);
}

void aq_net_set_port(aq_net *n, uint16_t port)
{
    atomic_store(&n->port, port);
}

aq_trust *aq_net_trust(const aq_net *n)
{
    return n->trust;
}

/* ---- the link's thread ----------------------------------------------------------------------- */

static bool dial_stopped(void *user)
{
    return aq_link_stopped(user);
}

/* Call all addresses side by side; the first that answers is the link's socket. */
static int connect_any(aq_link *l, aq_err *err)
{
    aq_dial_to to = {l->addr, l->n_addr, l->deadline_us, l->wake_fd, dial_stopped, l};
    uint32_t won = 0;
    int rc = aq_dial_any(&to, &l->fd, &won, NULL, err);

    if (rc < 0)
        return rc;
    struct sockaddr_storage first = l->addr[0];
    l->addr[0] = l->addr[won];
    l->addr[won] = first;
    rc = aq_socket_setup(l->fd, err);
    return rc < 0 ? rc : aq_tls_new(l->net->tls, true, aq_link_accept_cert, l, &l->tls, err);
}

/* Heartbeat, silence and deadlines; *ret_ms until the next of them. */
static int timers(aq_link *l, int *ret_ms, aq_err *err)
{
    int64_t now = aq_now_us(), next = l->deadline_us;
    bool beats =
        l->hs_done && aq_wire_max((aq_lstate)atomic_load(&l->state), l->role, AQ_T_PING) >= 0;

    if (now >= l->deadline_us)
        return l->hs_done
                   ? aq_fail(err, AQ_E_TIMEOUT, "nobody compared the digits in time")
                   : aq_fail(err, AQ_E_TIMEOUT, "the other PC did not introduce itself in time");
    if (beats) {
        char text[48];
        if (now - l->heard_us >= AQ_LINK_GONE_US)
            return aq_fail(err, AQ_E_GONE, "%s does not answer any more", l->hs.peer.name);
        if (now >= l->beat_us) {
            int n = snprintf(text, sizeof text, "t=%lld\n", (long long)now);
            /* A full queue is no reason to end: the other side's silence is. */
            (void)!aq_link_send(l, AQ_T_PING, 0, text, (size_t)n, NULL, NULL);
            l->beat_us = now + AQ_LINK_BEAT_US;
        }
        next = AQ_MIN(l->beat_us, l->heard_us + AQ_LINK_GONE_US);
    }
    int64_t ms = (next - now) / 1000 + 1;
    *ret_ms = (int)AQ_MAX(1, AQ_MIN(ms, 500));
    return AQ_OK;
}

static int serve(aq_link *l, aq_err *err)
{
    int rc;

    if (l->fd < 0 && (rc = connect_any(l, err)) < 0)
        return rc;
    while (!aq_link_stopped(l)) {
        int ms = 500;
        uint64_t n;

        if (l->hs_done && !l->open_told) {
            l->open_told = true;
            if (l->cb.open_cb)
                l->cb.open_cb(l->cb.user, l);
        }
        /* Read before looking at the clock: after a suspension the socket knows more. */
        rc = aq_link_pump(l, err);
        if (rc < 0)
            return rc;
        if (rc == 1)
            continue;
        if (l->open_told && l->cb.turn_cb && (rc = l->cb.turn_cb(l->cb.user, l, err)) < 0)
            return rc;
        /* What the callbacks queued goes out now. */
        if ((rc = aq_link_send_queued(l, err)) < 0 || (rc = timers(l, &ms, err)) < 0)
            return rc;
        struct pollfd p[2] = {{.fd = l->fd, .events = aq_link_wants_in(l) ? POLLIN : 0},
                              {.fd = l->wake_fd, .events = POLLIN}};
        if (aq_link_wants_out(l))
            p[0].events |= POLLOUT;
        pthread_mutex_unlock(&l->io);
        int got = poll(p, 2, ms), en = errno;
        pthread_mutex_lock(&l->io);
        if (got < 0 && en != EINTR)
            return aq_fail_errno(err, en, "waiting for a connection");
        (void)!read(l->wake_fd, &n, sizeof n);
    }
    (void)!aq_link_send_queued(l, NULL); /* the BYE */
    l->told = true;
    return AQ_OK;
}

/* Who answered first is not who is meant: an address that another PC has by now, or another program. The other
 * addresses are called, within the same time. */
static bool try_next(aq_link *l, int rc)
{
    if (l->role != AQ_DIALER || !l->has_to || l->hs_done || l->fd < 0 || l->n_addr < 2 ||
        (rc != -AQ_E_MISMATCH && rc != -AQ_E_AUTH && rc != -AQ_E_PROTO && rc != -AQ_E_GONE) ||
        aq_link_stopped(l) || aq_now_us() >= l->deadline_us)
        return false;
    l->n_addr--;
    memmove(&l->addr[0], &l->addr[1], l->n_addr * sizeof l->addr[0]);
    aq_link_reset(l);
    return true;
}

/* A secret was given or taken: once the other side has hung up, and so has it too, it is called again. */
static bool rekeyed(aq_link *l)
{
    uint8_t rest[256];
    ssize_t n = 1;

    if (!l->rekeyed || l->role != AQ_DIALER || l->fd < 0 || l->n_rekey++ || aq_link_stopped(l) ||
        aq_link_send_queued(l, NULL) < 0)
        return false;
    shutdown(l->fd, SHUT_WR);
    while (n > 0 && aq_now_us() < l->deadline_us && !aq_link_stopped(l)) {
        struct pollfd p = {.fd = l->fd, .events = POLLIN};
        if (poll(&p, 1, 100) > 0)
            n = recv(l->fd, rest, sizeof rest, MSG_DONTWAIT);
    }
    if (aq_link_stopped(l))
        return false;
    aq_link_reset(l);
    return true;
}

static int serve_once(aq_link *l, aq_err *err)
{
    int rc = serve(l, err);

    if (rc >= 0 || !rekeyed(l))
        return rc;
    *err = (aq_err){0};
    return serve(l, err);
}

/* Serve, by the first address that leads to who is meant. Of several that do not, the first says why. */
static int serve_any(aq_link *l, aq_err *err)
{
    int first = serve_once(l, err), rc = first;
    aq_err next = {0};

    if (first >= 0 || !try_next(l, first))
        return first;
    do {
        next = (aq_err){0};
        rc = serve_once(l, &next);
    } while (rc < 0 && try_next(l, rc));
    if (rc < 0 && !l->hs_done)
        return first;
    *err = next;
    return rc;
}

static void *link_main(void *user)
{
    aq_link *l = user;
    aq_err err = {0};
    char addr[AQ_ADDR_MAX + 1];
    pthread_mutex_lock(&l->io);
    int rc = serve_any(l, &err);
    /* A certificate is let in only while pairing is open; TLS cannot say more than no. */
    if (rc == -AQ_E_AUTH && !l->told && !l->hs_done && l->role == AQ_DIALER &&
        (l->purpose == AQ_FOR_PAIR || l->purpose == AQ_FOR_JOIN))
        rc = aq_fail(&err, AQ_E_BUSY, "the other PC is not ready to pair: open its Pool page");
    pthread_mutex_lock(&l->lock);
    l->accepting = false;
    pthread_mutex_unlock(&l->lock);
    aq_link_refuse(l, &err);
    aq_link_addr(l, addr);
    if (rc < 0)
        aq_log(AQ_LOG_INFO, "pool", "link_closed peer=%s purpose=%s code=%s text=%s", addr,
               aq_purpose_name(l->purpose), aq_status_name(rc), err.text);
    shutdown(l->fd, SHUT_RDWR);
    pthread_mutex_unlock(&l->io);
    if (l->cb.closed_cb)
        l->cb.closed_cb(l->cb.user, l, &err);
    return NULL;
}

int aq_link_start(aq_link *l, const aq_link_cb *cb, aq_err *err)
{
    l->cb = *cb;
    /* Under lock: a callback may tell somebody who frees the link before this has returned. */
    pthread_mutex_lock(&l->lock);
    int rc = pthread_create(&l->thread, NULL, link_main, l);
    l->started = rc == 0;
    pthread_mutex_unlock(&l->lock);
    return rc == 0 ? AQ_OK : aq_fail_errno(err, rc, "no thread for a connection");
}

int aq_link_dial(aq_net *net, const aq_dial *d, const aq_link_cb *cb, aq_link **ret, aq_err *err)
{
    aq_prefix6 on_link[AQ_PREFIX6_MAX];
    uint32_t n_prefix = aq_addr_on_link(on_link, AQ_PREFIX6_MAX);
    aq_link *l = NULL;
    int rc = -AQ_E_AUTH;

    if (d->n_addr == 0 || d->n_addr > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "there is no address to connect to");
    for (uint32_t i = 0; i < d->n_addr && rc < 0; i++)
        rc = aq_addr_check((const struct sockaddr *)&d->addr[i], on_link, n_prefix, err);
    if (rc < 0) /* none of them; else those that are not are passed over */
        return rc;
    if ((rc = aq_link_create(net, AQ_DIALER, &l, err)) < 0)
        return rc;
    memcpy(l->addr, d->addr, d->n_addr * sizeof l->addr[0]);
    l->n_addr = d->n_addr;
    aq_link_set_dial(l, d);
    if ((rc = aq_link_start(l, cb, err)) < 0) {
        aq_link_destroy(l);
        return rc;
    }
    *ret = l;
    return AQ_OK;
}

void aq_link_close(aq_link *l, const char *reason)
{
    char text[80];
    int n = snprintf(text, sizeof text, "reason=%.60s\n", reason);

    (void)!aq_link_send(l, AQ_T_BYE, 0, text, (size_t)n, NULL, NULL);
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    aq_link_wake(l);
}

void aq_link_free(aq_link *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    bool started = l->started;
    pthread_mutex_unlock(&l->lock);
    if (started) {
        aq_link_close(l, "leave");
        pthread_join(l->thread, NULL);
    }
    aq_link_destroy(l);
}

/* ---- getters --------------------------------------------------------------------------------- */

const aq_hello *aq_link_peer(const aq_link *l)
{
    return &l->hs.peer;
}

aq_role aq_link_role(const aq_link *l)
{
    return l->role;
}

aq_purpose aq_link_purpose(const aq_link *l)
{
    return l->purpose;
}

aq_lstate aq_link_state(const aq_link *l)
{
    return (aq_lstate)atomic_load(&l->state);
}

int64_t aq_link_rtt_us(const aq_link *l)
{
    return atomic_load(&l->rtt_us);
}

void aq_link_addr(const aq_link *l, char ret[AQ_ADDR_MAX + 1])
{
    aq_addr_text((const struct sockaddr *)&l->addr[0], true, ret);
}

void aq_link_get_count(const aq_link *l, aq_link_count *ret)
{
    ret->rx_bytes = atomic_load(&l->rx_bytes);
    ret->tx_bytes = atomic_load(&l->tx_bytes);
    ret->rx_frames = atomic_load(&l->rx_frames);
    ret->tx_frames = atomic_load(&l->tx_frames);
    ret->tx_sends = atomic_load(&l->tx_sends);
}

const uint8_t *aq_link_cert_hash(const aq_link *l)
{
    return aq_tls_peer_cert_hash(l->tls);
}

const uint8_t *aq_link_exporter(const aq_link *l)
{
    return l->exporter;
}
