/* SPDX-License-Identifier: Apache-2.0 */
/* The listener: one thread accepts, and takes every caller through TLS and HELLO until it has proved
 * itself. Nothing here blocks: all sockets are polled, each link is a machine. Callers that have
 * proved nothing are few (AQ_LINK_UNAUTH_MAX), counted by address, and have 5 s. */
#include "link-priv.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BUCKETS 64u
#define ACCEPTS_MAX 64u /* taken in one round, so that links are served in between */
#define PREFIX_US 10000000ll
#define OWN_US 1000000ll /* addresses of this PC come and go: a cable, a Wi-Fi, DHCP */

typedef struct slot {
    aq_link *link; /* NULL = free */
    uint64_t bucket;
} slot;
typedef struct tries {
    uint64_t bucket;
    int64_t since_us;
    uint32_t n;
    bool logged;
} tries;

struct aq_listener {
    aq_net *net;
    aq_accept_fn accept;
    void *user;
    bool own; /* follows the addresses of this PC */
    struct sockaddr_storage at[AQ_OWN_MAX];
    int fd[AQ_OWN_MAX]; /* of at; of the thread once it runs, as n_fd */
    uint32_t n_fd;
    uint16_t port;
    int wake_fd;
    pthread_t thread;
    bool started;
    atomic_bool stop;
    slot slot[AQ_LINK_UNAUTH_MAX]; /* of the thread, as all below */
    tries tries[BUCKETS];
    aq_prefix6 prefix[AQ_PREFIX6_MAX];
    uint32_t n_prefix;
    int64_t prefix_us;
    int64_t own_us;
    uint32_t n_deaf;  /* addresses that cannot be listened on, as told last */
    int64_t pause_us; /* no accept before this: the process is out of descriptors */
    _Atomic uint64_t accepted, refused_addr, refused_rate, refused_full, failed, opened;
    _Atomic uint32_t n_unauth;
};

static void count(_Atomic uint64_t *c)
{
    atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

/* The counter of this neighbour; the oldest is given up for a new one. */
static tries *tries_of(aq_listener *s, uint64_t bucket, int64_t now)
{
    tries *oldest = &s->tries[0];

    for (uint32_t i = 0; i < BUCKETS; i++) {
        tries *t = &s->tries[i];
        if (t->n > 0 && t->bucket == bucket) {
            if (now - t->since_us >= AQ_LINK_TRIES_US)
                *t = (tries){.bucket = bucket, .since_us = now};
            return t;
        }
        if (t->n == 0 || (oldest->n > 0 && t->since_us < oldest->since_us))
            oldest = t;
    }
    *oldest = (tries){.bucket = bucket, .since_us = now};
    return oldest;
}

/* A refusal is logged once in a neighbour's ten seconds. */
static void log_once(tries *t, const struct sockaddr *from, const char *why)
{
    char addr[AQ_ADDR_MAX + 1];

    if (t->logged)
        return;
    t->logged = true;
    aq_addr_text(from, false, addr);
    aq_log(AQ_LOG_WARN, "pool", "refused peer=%s why=%s", addr, why);
}

/* NULL, or why this caller is closed at once. */
static slot *admit(aq_listener *s, const struct sockaddr *from, uint64_t bucket)
{
    int64_t now = aq_now_us();
    uint32_t same = 0;
    slot *unused = NULL;

    if (now - s->prefix_us >= PREFIX_US || s->prefix_us == 0) {
        s->n_prefix = aq_addr_on_link(s->prefix, AQ_PREFIX6_MAX);
        s->prefix_us = now;
    }
    tries *t = tries_of(s, bucket, now);
    t->n += t->n < UINT32_MAX;
    if (aq_addr_check(from, s->prefix, s->n_prefix, NULL) < 0) {
        count(&s->refused_addr);
        log_once(t, from, "not_of_this_network");
        return NULL;
    }
    if (t->n > AQ_LINK_TRIES_MAX) {
        count(&s->refused_rate);
        log_once(t, from, "too_many_tries");
        return NULL;
    }
    for (uint32_t i = 0; i < AQ_LINK_UNAUTH_MAX; i++) {
        if (!s->slot[i].link)
            unused = &s->slot[i];
        else
            same += s->slot[i].bucket == bucket;
    }
    if (!unused || same >= AQ_LINK_UNAUTH_ADDR_MAX) {
        count(&s->refused_full);
        log_once(t, from, "too_many_at_once");
        return NULL;
    }
    return unused;
}

static void take_callers(aq_listener *s, int fd)
{
    for (uint32_t i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage from = {0};
        socklen_t n = sizeof from;
        AQ_AUTOFD int c = accept4(fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        aq_err err = {0};

        if (c < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (c < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                s->pause_us = aq_now_us() + 500000; /* the socket stays readable: do not spin */
            return;
        }
        count(&s->accepted);
        const struct sockaddr *a = (const struct sockaddr *)&from;
        uint64_t bucket = aq_addr_bucket(a);
        slot *sl = admit(s, a, bucket);
        if (!sl)
            continue;
        if (aq_link_over(s->net, &c, a, NULL, &sl->link, &err) < 0) {
            sl->link = NULL;
            count(&s->failed);
            aq_log(AQ_LOG_WARN, "pool", "accept_failed text=%s", err.text);
            continue;
        }
        sl->bucket = bucket;
        atomic_fetch_add(&s->n_unauth, 1);
    }
}

static void release(aq_listener *s, slot *sl)
{
    sl->link = NULL;
    atomic_fetch_sub(&s->n_unauth, 1);
}

static void refuse(aq_listener *s, slot *sl, const aq_err *why)
{
    struct sockaddr_storage from;
    socklen_t n = sizeof from;

    count(&s->failed);
    if (getpeername(aq_link_fd(sl->link), (struct sockaddr *)&from, &n) == 0)
        log_once(tries_of(s, sl->bucket, aq_now_us()), (struct sockaddr *)&from, why->text);
    aq_link_refuse(sl->link, why);
    aq_link_free(sl->link);
    release(s, sl);
}

static void serve_slot(aq_listener *s, slot *sl)
{
    aq_link_cb cb = {0};
    aq_err err = {0};
    int rc = aq_link_pump(sl->link, &err);

    if (rc == 0 && aq_now_us() >= aq_link_deadline_us(sl->link))
        rc = aq_fail(&err, AQ_E_TIMEOUT, "the other PC did not introduce itself in time");
    if (rc == 0)
        return;
    bool proved = rc == 1 && aq_link_purpose(sl->link) != AQ_FOR_PAIR; /* soon it is not ours */
    if (rc == 1 && (rc = s->accept(s->user, sl->link, &cb, &err)) == AQ_OK &&
        (rc = aq_link_start(sl->link, &cb, &err)) < 0) {
        /* The caller has taken it over: it must hear of its end. */
        aq_link_refuse(sl->link, &err);
        if (cb.closed_cb)
            cb.closed_cb(cb.user, sl->link, &err);
        count(&s->failed);
        release(s, sl);
        return;
    }
    if (rc < 0) {
        refuse(s, sl, &err);
        return;
    }
    count(&s->opened);
    /* who knows the secret may come back as often as it dies */
    if (proved)
        tries_of(s, sl->bucket, aq_now_us())->n = 0;
    release(s, sl);
}

static void follow(aq_listener *s);

static void *listener_main(void *user)
{
    aq_listener *s = user;

    while (!atomic_load(&s->stop)) {
        struct pollfd p[1 + AQ_OWN_MAX + AQ_LINK_UNAUTH_MAX];
        uint32_t n = 0, at[AQ_LINK_UNAUTH_MAX], n_at = 0;
        int64_t now = aq_now_us(), next = now + 500000;

        if (s->own && now - s->own_us >= OWN_US) {
            s->own_us = now;
            follow(s);
        }
        p[n++] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
        for (uint32_t i = 0; i < s->n_fd; i++)
            p[n++] = (struct pollfd){.fd = s->fd[i], .events = now >= s->pause_us ? POLLIN : 0};
        for (uint32_t i = 0; i < AQ_LINK_UNAUTH_MAX; i++) {
            const aq_link *l = s->slot[i].link;
            if (!l)
                continue;
            at[n_at++] = i;
            p[n++] =
                (struct pollfd){.fd = aq_link_fd(l), .events = aq_link_wants_in(l) ? POLLIN : 0};
            if (aq_link_wants_out(l))
                p[n - 1].events |= POLLOUT;
            next = AQ_MIN(next, aq_link_deadline_us(l));
        }
        int64_t ms = (next - now) / 1000 + 1;
        if (poll(p, n, (int)AQ_MAX(1, AQ_MIN(ms, 500))) < 0 && errno != EINTR)
            aq_log(AQ_LOG_ERROR, "pool", "poll errno=%d", errno);
        /* Links first, so that those who are here already are not kept by newcomers. */
        for (uint32_t i = 0; i < n_at; i++)
            if (p[1 + s->n_fd + i].revents ||
                aq_now_us() >= aq_link_deadline_us(s->slot[at[i]].link))
                serve_slot(s, &s->slot[at[i]]);
        for (uint32_t i = 0; i < s->n_fd; i++)
            if (p[1 + i].revents)
                take_callers(s, s->fd[i]);
    }
    return NULL;
}

/* An IPv6 address is not to be had for the first second or two of its card, while the kernel asks
 * whether another PC has it: at the start of a PC, or when the cable comes. */
static int bind_soon(int fd, const struct sockaddr_in6 *a)
{
    struct ifaddrs *list;
    bool own = false;
    int one = 1;

    if (getifaddrs(&list) < 0)
        return -1;
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        const struct sockaddr_in6 *b = (const void *)i->ifa_addr;
        own |= b && b->sin6_family == AF_INET6 && b->sin6_scope_id == a->sin6_scope_id &&
               IN6_ARE_ADDR_EQUAL(&b->sin6_addr, &a->sin6_addr);
    }
    freeifaddrs(list);
    errno = EADDRNOTAVAIL;
    if (!own || setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof one) < 0)
        return -1;
    return bind(fd, (const struct sockaddr *)a, sizeof *a);
}

static int listen_on(aq_listener *s, const struct sockaddr_storage *addr, aq_err *err)
{
    struct sockaddr_storage a = *addr;
    struct sockaddr_in *a4 = (struct sockaddr_in *)(void *)&a;
    struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)(void *)&a;
    char text[AQ_ADDR_MAX + 1];
    int one = 1;
    uint16_t *port = a.ss_family == AF_INET ? &a4->sin_port : &a6->sin6_port;
    AQ_AUTOFD int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (*port == 0)
        *port = htons(s->port); /* as the first address got it */
    aq_addr_text((struct sockaddr *)&a, true, text);
    if (fd < 0)
        return aq_fail_errno(err, errno, "listening on %s", text);
    (void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a.ss_family == AF_INET6)
        (void)!setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    int rc = bind(fd, (struct sockaddr *)&a, aq_addr_len((struct sockaddr *)&a));
    if (rc < 0 && errno == EADDRNOTAVAIL && a.ss_family == AF_INET6)
        rc = bind_soon(fd, a6);
    if (rc < 0 || listen(fd, SOMAXCONN) < 0) {
        if (errno == EADDRINUSE)
            return aq_fail(err, AQ_E_IO,
                           "%s is in use by another program: close it, or choose another port",
                           text);
        return aq_fail_errno(err, errno, "listening on %s", text);
    }
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return aq_fail_errno(err, errno, "listening on %s", text);
    if (s->port == 0)
        s->port = ntohs(*port);
    s->at[s->n_fd] = a;
    s->fd[s->n_fd++] = fd;
    fd = -1;
    return AQ_OK;
}

static bool among(const struct sockaddr_storage *a, const struct sockaddr_storage *list, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && !aq_addr_same((const void *)a, (const void *)&list[i]))
        i++;
    return i < n;
}

/* Stop where this PC is not any more, and listen where it is now. */
static void follow(aq_listener *s)
{
    struct sockaddr_storage a[AQ_OWN_MAX];
    uint32_t n = aq_addr_own(s->port, a), n_deaf = 0, kept = 0;
    aq_err err = {0};

    if (!n)
        return; /* not even loopback: the kernel could not be asked */
    for (uint32_t i = 0; i < s->n_fd; i++) {
        if (among(&s->at[i], a, n)) {
            s->at[kept] = s->at[i];
            s->fd[kept++] = s->fd[i];
        } else {
            close(s->fd[i]);
        }
    }
    s->n_fd = kept;
    for (uint32_t i = 0; i < n; i++)
        if (!among(&a[i], s->at, s->n_fd) && s->n_fd < AQ_OWN_MAX)
            n_deaf += listen_on(s, &a[i], &err) < 0;
    if (n_deaf > s->n_deaf) /* it is tried again each time, and told once */
        aq_log(AQ_LOG_WARN, "pool", "not_listening addresses=%u text=%s", n_deaf, err.text);
    s->n_deaf = n_deaf;
}

static int create(aq_net *net, bool own, const struct sockaddr_storage *addr, uint32_t n_addr,
                  aq_accept_fn accept, void *user, aq_listener **ret, aq_err *err)
{
    AQ_AUTO(aq_listener_free) aq_listener *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool");
    s->net = net;
    s->accept = accept;
    s->user = user;
    s->own = own;
    s->own_us = aq_now_us();
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return aq_fail_errno(err, errno, "listening");
    s->n_prefix = aq_addr_on_link(s->prefix, AQ_PREFIX6_MAX);
    for (uint32_t i = 0; i < n_addr; i++)
        if ((rc = aq_addr_check((const struct sockaddr *)&addr[i], s->prefix, s->n_prefix, err)) <
            0)
            return rc;
    for (uint32_t i = 0; i < n_addr; i++)
        if ((rc = listen_on(s, &addr[i], err)) < 0)
            return rc;
    aq_net_set_port(net, s->port);
    if ((rc = pthread_create(&s->thread, NULL, listener_main, s)) != 0)
        return aq_fail_errno(err, rc, "no thread to listen");
    s->started = true;
    *ret = AQ_STEAL(s);
    return AQ_OK;
}

int aq_listener_new(aq_net *net, const struct sockaddr_storage *addr, uint32_t n_addr,
                    aq_accept_fn accept, void *user, aq_listener **ret, aq_err *err)
{
    if (n_addr == 0 || n_addr > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "there are %u addresses to listen on, 1 to %u are possible",
                       n_addr, AQ_ADDRS_MAX);
    return create(net, false, addr, n_addr, accept, user, ret, err);
}

int aq_listener_new_own(aq_net *net, uint16_t port, aq_accept_fn accept, void *user,
                        aq_listener **ret, aq_err *err)
{
    struct sockaddr_storage addr[AQ_OWN_MAX];
    uint32_t n = aq_addr_own(port, addr);

    return n ? create(net, true, addr, n, accept, user, ret, err)
             : aq_fail(err, AQ_E_IO, "this PC is on no network");
}

void aq_listener_free(aq_listener *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    if (s->started) {
        atomic_store(&s->stop, true);
        (void)!write(s->wake_fd, &one, sizeof one);
        pthread_join(s->thread, NULL);
        aq_net_set_port(s->net, 0);
    }
    for (uint32_t i = 0; i < AQ_LINK_UNAUTH_MAX; i++)
        if (s->slot[i].link)
            aq_link_free(s->slot[i].link);
    for (uint32_t i = 0; i < s->n_fd; i++)
        close(s->fd[i]);
    aq_fd_close_p(&s->wake_fd);
    free(s);
}

uint16_t aq_listener_port(const aq_listener *s)
{
    return s->port;
}

void aq_listener_get_count(const aq_listener *s, aq_listener_count *ret)
{
    ret->accepted = atomic_load(&s->accepted);
    ret->refused_addr = atomic_load(&s->refused_addr);
    ret->refused_rate = atomic_load(&s->refused_rate);
    ret->refused_full = atomic_load(&s->refused_full);
    ret->failed = atomic_load(&s->failed);
    ret->opened = atomic_load(&s->opened);
    ret->n_unauth = atomic_load(&s->n_unauth);
}
