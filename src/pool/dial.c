/* SPDX-License-Identifier: Apache-2.0 */
/* Calling a PC on all its addresses. A PC with docker, libvirt or a VPN shows addresses that lead
 * nowhere from here, and only calling tells which: some refuse, some stay silent, one answers.
 * No state; the caller's thread. */
#include "dial-priv.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* A wait is never longer, so that a clock moved by a test is noticed. */
#define SLICE_MS 100

typedef struct dialing {
    const aq_dial_to *to;
    uint32_t next; /* first address not called yet */
    int64_t next_us;
    int fd[AQ_ADDRS_MAX];
    int errnum[AQ_ADDRS_MAX]; /* of a failed one that reach does not tell */
    aq_reach reach[AQ_ADDRS_MAX];
} dialing;

static const struct sockaddr *addr_of(const dialing *d, uint32_t i)
{
    return (const struct sockaddr *)&d->to->addr[i];
}

static aq_reach reach_of(int errnum)
{
    switch (errnum) {
    case 0:
        return AQ_REACH_ANSWERS;
    case ECONNREFUSED:
    case ECONNRESET:
        return AQ_REACH_REFUSED;
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case EACCES:
    case EPERM:
        return AQ_REACH_BLOCKED;
    case ETIMEDOUT:
        return AQ_REACH_SILENT;
    default: /* ENETUNREACH, EADDRNOTAVAIL, ENODEV, EINVAL for a link-local address without its
                interface, no memory for a socket … */
        return AQ_REACH_NO_ROUTE;
    }
}

static void settle(dialing *d, uint32_t i, int errnum)
{
    d->reach[i] = reach_of(errnum);
    d->errnum[i] = errnum;
    if (errnum != 0)
        aq_fd_close_p(&d->fd[i]);
}

/* Call the next address that is of this network. */
static void call_next(dialing *d, const aq_prefix6 *prefix, uint32_t n_prefix)
{
    while (d->next < d->to->n) {
        uint32_t i = d->next++;
        const struct sockaddr *a = addr_of(d, i);

        if (aq_addr_check(a, prefix, n_prefix, NULL) < 0) {
            d->reach[i] = AQ_REACH_FOREIGN;
            continue;
        }
        d->next_us = aq_now_us() + AQ_DIAL_STAGGER_US;
        d->fd[i] = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (d->fd[i] < 0) {
            settle(d, i, errno);
            continue;
        }
        if (connect(d->fd[i], a, aq_addr_len(a)) == 0) {
            settle(d, i, 0);
            return;
        }
        if (errno != EINPROGRESS) {
            settle(d, i, errno);
            continue;
        }
        d->reach[i] = AQ_REACH_SILENT; /* so far */
        return;
    }
}

/* What is asked of a socket that poll reported. */
static int result_of(int fd)
{
    int e = 0;
    socklen_t n = sizeof e;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0 ? errno : e;
}

static int fail(const dialing *d, aq_err *err)
{
    char addr[AQ_ADDR_MAX + 1];
    uint32_t best = 0, n = d->to->n;

    for (uint32_t i = 1; i < n; i++)
        if (d->reach[i] > d->reach[best])
            best = i;
    aq_addr_text(addr_of(d, best), true, addr);
    switch (d->reach[best]) {
    case AQ_REACH_REFUSED:
        return aq_fail(err, AQ_E_GONE, "nothing answers at %s: turn the pool on there", addr);
    case AQ_REACH_BLOCKED:
        return aq_fail(err, AQ_E_GONE,
                       "%s cannot be reached: a firewall refuses the port, or the PC is off", addr);
    case AQ_REACH_SILENT:
        return aq_fail(err, AQ_E_TIMEOUT,
                       "no answer from %s: the PC is off or asleep, or a firewall drops what it is "
                       "sent",
                       addr);
    case AQ_REACH_NO_ROUTE:
        return aq_fail_errno(err, d->errnum[best], "this PC has no way to %s", addr);
    case AQ_REACH_FOREIGN:
        return aq_addr_check(addr_of(d, best), NULL, 0, err);
    case AQ_REACH_UNTRIED:
    case AQ_REACH_ANSWERS:
    case AQ_REACH_N:
        break;
    }
    return aq_fail(err, AQ_E_TIMEOUT, "no time to call %s", addr);
}

/* The best address that answers, n when there is none. */
static uint32_t winner(const dialing *d)
{
    uint32_t i = 0;

    while (i < d->to->n && d->reach[i] != AQ_REACH_ANSWERS)
        i++;
    return i;
}

static int dial(dialing *d, uint32_t *ret_won, aq_err *err)
{
    aq_prefix6 prefix[AQ_PREFIX6_MAX];
    const aq_dial_to *to = d->to;
    uint32_t n_prefix = aq_addr_on_link(prefix, AQ_PREFIX6_MAX);
    uint32_t n_before = UINT32_MAX;

    for (;;) {
        struct pollfd p[AQ_ADDRS_MAX + 1];
        int64_t now = aq_now_us();
        uint32_t n_open = 0;

        if (to->stop_cb && to->stop_cb(to->user))
            return aq_fail(err, AQ_E_CANCELLED, "calling was given up");
        if ((*ret_won = winner(d)) < to->n)
            return AQ_OK;
        if (now >= to->deadline_us)
            return fail(d, err);
        for (uint32_t i = 0; i < d->next; i++)
            n_open += d->fd[i] >= 0;
        if (d->next < to->n && (now >= d->next_us || n_open == 0 || n_open < n_before)) {
            call_next(d, prefix, n_prefix);
            if ((*ret_won = winner(d)) < to->n)
                return AQ_OK;
        }
        n_open = 0;
        for (uint32_t i = 0; i < to->n; i++) {
            n_open += d->fd[i] >= 0;
            p[i] = (struct pollfd){.fd = d->fd[i], .events = POLLOUT};
        }
        if (n_open == 0 && d->next == to->n)
            return fail(d, err);
        n_before = n_open;

        int64_t until = d->next < to->n ? AQ_MIN(d->next_us, to->deadline_us) : to->deadline_us;
        int64_t ms = AQ_MAX(0, (until - aq_now_us() + 999) / 1000);
        p[to->n] = (struct pollfd){.fd = to->wake_fd, .events = POLLIN};
        if (poll(p, to->n + 1, (int)AQ_MIN(ms, SLICE_MS)) < 0) {
            if (errno == EINTR)
                continue;
            return aq_fail_errno(err, errno, "waiting for an answer");
        }
        if (p[to->n].revents) {
            uint64_t x;
            (void)!read(to->wake_fd, &x, sizeof x);
        }
        for (uint32_t i = 0; i < to->n; i++)
            if (d->fd[i] >= 0 && p[i].revents)
                settle(d, i, result_of(d->fd[i]));
    }
}

int aq_dial_any(const aq_dial_to *to, int *ret_fd, uint32_t *ret_i, aq_reach *ret_reach,
                aq_err *err)
{
    dialing d = {.to = to};
    uint32_t won = UINT32_MAX;

    if (to->n == 0 || to->n > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "there is no address to call");
    for (uint32_t i = 0; i < AQ_ADDRS_MAX; i++)
        d.fd[i] = -1;
    int rc = dial(&d, &won, err);
    for (uint32_t i = 0; i < to->n; i++) {
        if (rc >= 0 && i == won)
            continue;
        aq_fd_close_p(&d.fd[i]);
    }
    if (ret_reach)
        memcpy(ret_reach, d.reach, to->n * sizeof d.reach[0]);
    if (rc < 0)
        return rc;
    *ret_fd = d.fd[won];
    *ret_i = won;
    return AQ_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    /* aq_addr_parse zeroes what it does not fill. */
    return memcmp(a, b, sizeof *a) == 0;
}

static void add(struct sockaddr_storage ret[AQ_ADDRS_MAX], uint32_t *n, const char *text)
{
    struct sockaddr_storage a;

    if (*n == AQ_ADDRS_MAX || aq_addr_parse(text, AQ_POOL_PORT, &a, NULL) < 0)
        return;
    for (uint32_t i = 0; i < *n; i++)
        if (same(&ret[i], &a))
            return;
    ret[(*n)++] = a;
}

uint32_t aq_dial_list(const aq_member *m, const aq_found *f,
                      struct sockaddr_storage ret[AQ_ADDRS_MAX])
{
    uint32_t n = 0;

    if (m && m->n_addr > 0)
        add(ret, &n, m->addr[0]);
    for (uint32_t i = 0; f && i < AQ_MIN(f->n_addr, AQ_ADDRS_MAX); i++)
        add(ret, &n, f->addr[i]);
    for (uint32_t i = 1; m && i < AQ_MIN(m->n_addr, AQ_ADDRS_MAX); i++)
        add(ret, &n, m->addr[i]);
    return n;
}

const char *aq_reach_text(aq_reach r)
{
    switch (r) {
    case AQ_REACH_UNTRIED:
        return "not called yet";
    case AQ_REACH_FOREIGN:
        return "not an address of this network";
    case AQ_REACH_NO_ROUTE:
        return "this PC is on no network that leads there";
    case AQ_REACH_SILENT:
        return "no answer: the PC is off or asleep, or a firewall drops what it is sent";
    case AQ_REACH_BLOCKED:
        return "a firewall refuses the port, or the PC is off";
    case AQ_REACH_REFUSED:
        return "the PC is there, and its Pool is off";
    case AQ_REACH_ANSWERS:
        return "it answers";
    case AQ_REACH_N:
        break;
    }
    return "";
}

const char *aq_reach_name(aq_reach r)
{
    static const char *const names[AQ_REACH_N] = {
        [AQ_REACH_UNTRIED] = "untried",   [AQ_REACH_FOREIGN] = "foreign",
        [AQ_REACH_NO_ROUTE] = "no-route", [AQ_REACH_SILENT] = "silent",
        [AQ_REACH_BLOCKED] = "blocked",   [AQ_REACH_REFUSED] = "refused",
        [AQ_REACH_ANSWERS] = "answers",
    };

    return r < AQ_REACH_N ? names[r] : "";
}
