/* SPDX-License-Identifier: Apache-2.0 */
/* The server of the control socket: other programs of this user ask and steer a seat.
 *
 *   accept thread ─▶ a thread per client: one request, its events, its end
 *   aq_seat_changed ─▶ wake_fd of each client
 *   aq_ctl_stop ─▶ stop_fd, which every wait looks at
 *
 * The folder is its owner's alone (0700), and who calls must be of the same user: the socket's own mode is left alone, because a
 * process has one umask for all its threads. A socket that a killed process left is removed: whoever makes one holds the lock of
 * the state folder, by whose inode it is named. */
#include "ctl-priv.h"
#include "member-priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct aq_ctl {
    aq_seat *seat;
    struct sockaddr_un addr;
    int fd, stop_fd;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards what follows */
    aq_ctl_client c[AQ_CTL_CLIENTS_MAX];
};

aq_seat *aq_ctl_seat(const aq_ctl *s)
{
    return s->seat;
}

static void tick(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof one); /* full means awake */
}

void aq_ctl_wake(aq_ctl *s)
{
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < AQ_CTL_CLIENTS_MAX; i++)
        if (s->c[i].used && !s->c[i].over)
            tick(s->c[i].wake_fd);
    pthread_mutex_unlock(&s->lock);
}

/* ---- a client's lines ------------------------------------------------------------------------ */

static int over(const aq_ctl_client *c, const struct pollfd *stop, aq_err *err)
{
    if (stop->revents)
        return aq_fail(err, AQ_E_GONE, "the program that has the pool ends");
    if (c->ends && atomic_load(c->ends))
        return aq_fail(err, AQ_E_GONE, "the split was ended by its program");
    return 0;
}

int aq_ctl_put(aq_ctl_client *c, const aq_bytes *line, aq_err *err)
{
    struct pollfd p[] = {{.fd = c->fd, .events = POLLOUT},
                         {.fd = c->ctl->stop_fd, .events = POLLIN},
                         {.fd = c->wake_fd, .events = POLLIN}};
    uint64_t n_wake;
    size_t sent = 0;
    int rc = 0;

    while (sent < line->n && rc >= 0) {
        ssize_t n = send(c->fd, line->p + sent, line->n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            p[0].revents = p[1].revents = p[2].revents = 0;
            (void)!poll(p, 3, -1);
            if (p[2].revents) /* who waits looks at everything anew after a line */
                (void)!read(c->wake_fd, &n_wake, sizeof n_wake);
            rc = over(c, &p[1], err);
        } else if (n == 0 || errno != EINTR) {
            rc = aq_fail(err, AQ_E_GONE, "the other program hung up");
        }
    }
    return rc;
}

int aq_ctl_wait(aq_ctl_client *c, int64_t deadline_us, aq_ctl_req *ret, aq_err *err)
{
    struct pollfd p[] = {{.fd = c->fd, .events = POLLIN},
                         {.fd = c->ctl->stop_fd, .events = POLLIN},
                         {.fd = c->wake_fd, .events = POLLIN}};
    const char *line;
    uint64_t n_wake;
    size_t n;
    int rc;

    for (;;) {
        if ((rc = aq_ctl_line(&c->in, &line, &n, err)) < 0)
            return rc;
        if (rc == 1)
            break;
        int64_t left_us = deadline_us - aq_now_us();
        if (left_us <= 0)
            return aq_fail(err, AQ_E_TIMEOUT, "no request came");
        int ms = left_us > 1000000000ll ? 1000000 : (int)(left_us / 1000) + 1;
        p[0].revents = p[1].revents = p[2].revents = 0;
        if (poll(p, 3, ms) < 0 && errno != EINTR)
            return aq_fail_errno(err, errno, "waiting failed");
        if ((rc = over(c, &p[1], err)) < 0)
            return rc;
        if (p[2].revents) {
            (void)!read(c->wake_fd, &n_wake, sizeof n_wake);
            return 0;
        }
        if (p[0].revents && (rc = aq_ctl_recv(&c->in, c->fd, err)) < 0)
            return rc;
    }
    aq_arena_free(c->arena);
    if (!(c->arena = aq_arena_new(AQ_CTL_ARENA_MAX)))
        return aq_fail(err, AQ_E_NOMEM, "no memory for a request");
    rc = aq_ctl_parse(c->arena, line, n, ret, err);
    return rc < 0 ? rc : 1;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* {"done":{"state":… : what other programs cannot read from the files. */
static int put_state(aq_seat *seat, aq_bytes *b)
{
    AQ_AUTOFREE aq_seat_state *st = malloc(sizeof *st);
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    char hex[65];
    int rc = st && f ? 0 : -AQ_E_NOMEM;

    if (rc < 0)
        return rc;
    aq_seat_get(seat, st);
    uint32_t n = aq_presence_found(seat->presence, f, AQ_FOUND_MAX);
    rc = aq_bytes_putf(b, "{\"done\":{\"port\":%u,\"mdns\":\"%s\"", st->port,
                       aq_presence_name(st->mdns.state));
    rc = rc < 0 ? rc : aq_ctl_put_text(b, "mdns_detail", st->mdns.detail);
    rc = rc < 0 ? rc : aq_ctl_put_text(b, "works_for", st->node.who);
    rc = rc < 0 ? rc : aq_ctl_put_text(b, "fault", st->node.fault);
    if (rc >= 0 && st->node.loaded)
        rc = aq_bytes_putf(b, ",\"layers\":[%u,%u]", st->node.l0, st->node.l1 - 1);
    rc = rc < 0 ? rc : aq_bytes_puts(b, ",\"found\":[");
    for (uint32_t i = 0; i < n && rc >= 0; i++) {
        aq_hex(f[i].id.b, sizeof f[i].id.b, hex);
        rc = aq_bytes_putf(b, "%s{\"id\":\"%s\"", i ? "," : "", hex);
        rc = rc < 0 ? rc : aq_ctl_put_text(b, "name", f[i].name);
        rc = rc < 0 ? rc : aq_ctl_put_text(b, "version", f[i].version);
        rc = rc < 0 ? rc : aq_bytes_puts(b, ",\"addresses\":[");
        for (uint32_t k = 0; k < f[i].n_addr && rc >= 0; k++)
            rc = aq_bytes_putf(b, "%s\"%s\"", k ? "," : "", f[i].addr[k]);
        rc = rc < 0 ? rc : aq_bytes_puts(b, "]}");
    }
    rc = rc < 0 ? rc : aq_bytes_puts(b, "]");
    rc = rc < 0 ? rc : aq_ctl_put_splits(seat, b);
    return rc < 0 ? rc : aq_bytes_puts(b, "}}\n");
}

static int put_pool(aq_seat *seat, aq_bytes *b)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    char hex[33];

    if (!r)
        return -AQ_E_NOMEM;
    if (!aq_trust_roster(seat->cfg.trust, r))
        return aq_bytes_puts(b, "\"epoch\":0");
    aq_hex(r->pool, sizeof r->pool, hex);
    return aq_bytes_putf(b, "\"pool\":\"%s\",\"epoch\":%u,\"members\":%u", hex, r->epoch, r->n);
}

/* The end of a request that changed the pool. */
static int say_done(aq_ctl_client *c, const char *more, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "{\"done\":{");

    rc = rc < 0 ? rc : put_pool(c->ctl->seat, &b);
    rc = rc < 0 ? rc : aq_bytes_puts(&b, more);
    rc = rc < 0 ? rc : aq_bytes_puts(&b, "}}\n");
    return rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for an answer") : aq_ctl_put(c, &b, err);
}

static int say_state(aq_ctl_client *c, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    return put_state(c->ctl->seat, &b) < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for the state")
                                           : aq_ctl_put(c, &b, err);
}

static int say_pair(aq_ctl_client *c, const aq_pair_state *p, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    char hex[65];
    int rc;

    if (p->step == AQ_PAIR_DIGITS) {
        rc = aq_bytes_putf(&b, "{\"event\":\"digits\",\"digits\":\"%s\"", p->digits);
        rc = rc < 0 ? rc : aq_ctl_put_text(&b, "name", p->name);
        rc = rc < 0 ? rc : aq_bytes_puts(&b, "}\n");
    } else {
        aq_hex(p->id.b, sizeof p->id.b, hex);
        rc = aq_bytes_putf(&b,
                           "{\"done\":{\"id\":\"%s\",\"digits\":\"%s\",\"reach\":\"%s\","
                           "\"reached\":\"%s\"",
                           hex, p->digits, aq_reach_name(p->reach_out), aq_reach_name(p->reach_in));
        rc = rc < 0 ? rc : aq_ctl_put_text(&b, "name", p->name);
        rc = rc < 0 ? rc : aq_bytes_puts(&b, ",");
        rc = rc < 0 ? rc : put_pool(c->ctl->seat, &b);
        rc = rc < 0 ? rc : aq_bytes_puts(&b, "}}\n");
    }
    return rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for an answer") : aq_ctl_put(c, &b, err);
}

/* A pairing from its digits to its end. n: number of the last pairing that is none of this client's (waits), or of its
 * own. */
static int follow_pair(aq_ctl_client *c, bool waits, uint64_t n, aq_err *err)
{
    aq_seat *seat = c->ctl->seat;
    uint64_t shown = 0;
    aq_pair_state p;
    aq_ctl_req r;
    int rc = 0;

    while (rc >= 0) {
        uint64_t now = aq_seat_pair_get(seat, &p);
        bool ours = waits ? p.incoming && now > n : now == n;
        if ((shown && now != shown) || (!ours && !waits) || (shown && p.step == AQ_PAIR_NONE))
            return aq_fail(err, AQ_E_CANCELLED, "pairing was ended by %s",
                           seat->cfg.pair ? "the window" : "another program");
        if (ours && p.step == AQ_PAIR_DONE)
            return say_pair(c, &p, err);
        if (ours && p.step == AQ_PAIR_BROKEN) {
            *err = p.why;
            return -p.why.code;
        }
        if (ours && p.step == AQ_PAIR_DIGITS && !shown) {
            shown = now;
            rc = say_pair(c, &p, err);
            continue; /* what came meanwhile was taken from wake_fd */
        }
        if ((rc = aq_ctl_wait(c, INT64_MAX, &r, err)) != 1)
            continue;
        if (r.what == AQ_CTL_ANSWER && shown)
            aq_seat_pair_answer(seat, r.match);
        else
            rc = aq_fail(err, AQ_E_INVAL, "there is nothing to answer now");
    }
    return rc;
}

static int pair(aq_ctl_client *c, const aq_ctl_req *r, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_seat *seat = c->ctl->seat;
    aq_pair_state p;
    uint16_t port = 0;
    int rc;

    if (r->n_addr) {
        if ((rc = aq_seat_pair(seat, r->addr, r->n_addr, err)) < 0)
            return rc;
        rc = follow_pair(c, false, aq_seat_pair_get(seat, &p), err);
        aq_seat_pair_end(seat);
        return rc;
    }
    uint64_t n = aq_seat_pair_get(seat, &p);
    if ((rc = aq_seat_pair_wait(seat, true, &port, err)) < 0)
        return rc;
    rc = aq_bytes_putf(&b, "{\"event\":\"waits\",\"port\":%u}\n", port);
    rc = rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for an answer") : aq_ctl_put(c, &b, err);
    rc = rc < 0 ? rc : follow_pair(c, true, n, err);
    (void)!aq_seat_pair_wait(seat, false, &port, NULL);
    return rc;
}

static int serve(aq_ctl_client *c, const aq_ctl_req *r, aq_err *err)
{
    aq_seat *seat = c->ctl->seat;
    char addr[AQ_ADDR_MAX + 1], more[AQ_ADDR_MAX + 32] = "";
    int rc = 0;

    switch (r->what) {
    case AQ_CTL_STATE:
        return say_state(c, err);
    case AQ_CTL_PAIR:
        return pair(c, r, err);
    case AQ_CTL_CHAT:
        return aq_ctl_chat(c, r, err);
    case AQ_CTL_NAME:
        rc = aq_seat_set_name(seat, r->text, err);
        break;
    case AQ_CTL_ADD:
        if ((rc = aq_seat_add(seat, r->text, addr, err)) >= 0)
            snprintf(more, sizeof more, ",\"address\":\"%s\"", addr);
        break;
    case AQ_CTL_FORGET:
        if ((rc = aq_seat_forget(seat, r->text, err)) >= 0)
            snprintf(more, sizeof more, ",\"known\":%s", rc ? "true" : "false");
        break;
    case AQ_CTL_REMOVE:
        rc = aq_seat_remove(seat, &r->id, err);
        break;
    case AQ_CTL_PERMIT:
        rc = aq_seat_set_perms(seat, &r->id, r->perms, err);
        break;
    case AQ_CTL_LEAVE:
        rc = aq_seat_leave(seat, err);
        break;
    case AQ_CTL_ANSWER:
    case AQ_CTL_STOP:
    case AQ_CTL_N:
        return aq_fail(err, AQ_E_INVAL, "there is nothing to answer now");
    }
    return rc < 0 ? rc : say_done(c, more, err);
}

static int say_error(aq_ctl_client *c, const aq_err *why)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_err no = {0};

    return aq_ctl_put_error(&b, why) < 0 ? -AQ_E_NOMEM : aq_ctl_put(c, &b, &no);
}

/* Requests, one after the other, until it hangs up or sends what is none. */
static void *client_main(void *arg)
{
    aq_ctl_client *c = arg;
    int64_t end_us = aq_now_us() + AQ_CTL_FIRST_US;
    aq_ctl_req r;
    int rc;

    do {
        aq_err err = {0};
        if ((rc = aq_ctl_wait(c, end_us, &r, &err)) == 0)
            continue; /* something changed that it has not asked for */
        end_us = INT64_MAX;
        if (rc < 0)
            (void)!say_error(c, &err);
        else if (serve(c, &r, &err) < 0)
            rc = say_error(c, &err);
    } while (rc >= 0);
    pthread_mutex_lock(&c->ctl->lock);
    c->over = true;
    /* Not closed: its number would be another's at once, while wakes may still go to this client. */
    shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&c->ctl->lock);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Its thread is over, or soon. */
static void client_end(aq_ctl *s, aq_ctl_client *c)
{
    pthread_join(c->thread, NULL);
    pthread_mutex_lock(&s->lock);
    aq_fd_close_p(&c->fd);
    aq_fd_close_p(&c->wake_fd);
    aq_bytes_clear(&c->in.b);
    aq_arena_free(c->arena);
    *c = (aq_ctl_client){0};
    pthread_mutex_unlock(&s->lock);
}

static void refuse(int fd, const aq_err *why)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    if (aq_ctl_put_error(&b, why) >= 0)
        (void)!send(fd, b.p, b.n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take(aq_ctl *s, int fd)
{
    aq_ctl_client *free_one = NULL;
    aq_err why = {0};
    int rc = aq_ctl_same_user(fd, &why);

    for (uint32_t i = 0; i < AQ_CTL_CLIENTS_MAX; i++) {
        pthread_mutex_lock(&s->lock);
        bool used = s->c[i].used, ended = s->c[i].over;
        pthread_mutex_unlock(&s->lock);
        if (ended)
            client_end(s, &s->c[i]);
        if (!used || ended)
            free_one = &s->c[i];
    }
    int wake_fd = -1;
    if (rc >= 0 && !free_one)
        rc = aq_fail(&why, AQ_E_BUSY, "%u other programs ask it at this time: end one of them",
                     AQ_CTL_CLIENTS_MAX);
    else if (rc >= 0 && (wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        rc = aq_fail_errno(&why, errno, "no eventfd");
    if (rc >= 0) {
        pthread_mutex_lock(&s->lock);
        *free_one = (aq_ctl_client){.ctl = s, .used = true, .fd = fd, .wake_fd = wake_fd};
        int en = pthread_create(&free_one->thread, NULL, client_main, free_one);
        if (en) {
            rc = aq_fail_errno(&why, en, "no thread");
            *free_one = (aq_ctl_client){0};
        }
        pthread_mutex_unlock(&s->lock);
    }
    if (rc >= 0)
        return;
    aq_log(AQ_LOG_WARN, "pool", "control=refused text=%s", why.text);
    refuse(fd, &why);
    aq_fd_close_p(&fd);
    aq_fd_close_p(&wake_fd);
}

static void *accept_main(void *arg)
{
    aq_ctl *s = arg;
    struct pollfd p[] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->stop_fd, .events = POLLIN}};

    for (;;) {
        p[0].revents = p[1].revents = 0;
        (void)!poll(p, 2, -1);
        if (p[1].revents)
            return NULL;
        if (!p[0].revents)
            continue;
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take(s, fd);
        else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
            (void)!poll(&p[1], 1, 100); /* no descriptors: the caller waits meanwhile */
    }
}

/* A folder of this user alone. */
static int own_dir(const char *dir, aq_err *err)
{
    struct stat st;

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return aq_fail_errno(err, errno, "the folder %s cannot be made", dir);
    if (lstat(dir, &st) < 0)
        return aq_fail_errno(err, errno, "%s", dir);
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077)
               ? 0
               : aq_fail(err, AQ_E_AUTH, "%s is no folder of this user alone: chmod 700 it", dir);
}

static int listen_at(aq_ctl *s, const char *dir, aq_err *err)
{
    const char *state = aq_trust_dir(s->seat->cfg.trust);
    struct stat st;

    s->addr.sun_family = AF_UNIX;
    if (stat(state, &st) < 0)
        return aq_fail_errno(err, errno, "%s", state);
    int n = snprintf(s->addr.sun_path, sizeof s->addr.sun_path, "%s/pool-%llx-%llx", dir,
                     (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    if (n < 0 || (size_t)n >= sizeof s->addr.sun_path)
        return aq_fail(err, AQ_E_LIMIT, "the path %.60s… is too long for a socket", dir);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return aq_fail_errno(err, errno, "no socket");
    if (unlink(s->addr.sun_path) < 0 && errno != ENOENT)
        return aq_fail_errno(err, errno, "%s", s->addr.sun_path);
    if (bind(s->fd, (struct sockaddr *)&s->addr, sizeof s->addr) < 0 || listen(s->fd, 16) < 0)
        return aq_fail_errno(err, errno, "%s", s->addr.sun_path);
    return 0;
}

int aq_ctl_new(aq_seat *seat, const char *dir, aq_ctl **ret, aq_err *err)
{
    aq_ctl *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the control socket");
    s->seat = seat;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = s->stop_fd < 0 ? aq_fail_errno(err, errno, "no eventfd") : own_dir(dir, err);
    rc = rc < 0 ? rc : listen_at(s, dir, err);
    if (rc >= 0) {
        int en = pthread_create(&s->thread, NULL, accept_main, s);
        s->started = !en;
        rc = en ? aq_fail_errno(err, en, "no thread for the control socket")
                : aq_trust_hold_socket(seat->cfg.trust, s->addr.sun_path, err);
    }
    if (rc < 0) {
        aq_ctl_stop(s);
        aq_ctl_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void aq_ctl_stop(aq_ctl *s)
{
    aq_err no = {0};

    if (s->fd >= 0) {
        (void)!aq_trust_hold_socket(s->seat->cfg.trust, "", &no);
        unlink(s->addr.sun_path);
    }
    if (s->stop_fd >= 0)
        tick(s->stop_fd);
    if (s->started)
        pthread_join(s->thread, NULL);
    for (uint32_t i = 0; i < AQ_CTL_CLIENTS_MAX; i++)
        if (s->c[i].used) /* nobody but the accept thread gives out new ones */
            client_end(s, &s->c[i]);
    aq_fd_close_p(&s->fd);
}

void aq_ctl_free(aq_ctl *s)
{
    if (!s)
        return;
    aq_fd_close_p(&s->stop_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
