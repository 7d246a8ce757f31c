/* SPDX-License-Identifier: Apache-2.0 */
/* See relay.h. */
#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aq/base.h"

#define PAIRS 16u
#define BUF 65536u
#define ANSWER_MS 10000 /* a late piece waits no longer for something to come back */

typedef struct pipe_way {
    uint8_t buf[BUF];
    size_t n, off;
} pipe_way;

typedef struct pair {
    int fd[2];    /* [0] who dialed, [1] who listens; -1 = free */
    bool gone[2]; /* that end went while the cable was cut: the other does not hear of it yet */
    pipe_way way[2];
} pair;

struct relay {
    pthread_t thread;
    int listen_fd, wake_fd;
    uint16_t port;
    pthread_mutex_t lock; /* guards what follows */
    uint16_t to_port;
    bool stop, cut, waits; /* waits: for an answer to a late piece */
    uint64_t asked, done;  /* rounds */
    uint64_t passed[2], limit[2], came[2], came_at;
    bool more[2]; /* something waits behind the limit */
    int slow_way;
    relay_pace pace;
    uint32_t n_piece;
    pair pair[PAIRS]; /* of the thread */
};

static void wake(relay *r)
{
    uint64_t one = 1;

    (void)!write(r->wake_fd, &one, sizeof one);
}

static void drop(pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->fd[i] >= 0)
            close(p->fd[i]);
    p->fd[0] = p->fd[1] = -1;
    p->gone[0] = p->gone[1] = false;
    p->way[0].n = p->way[0].off = p->way[1].n = p->way[1].off = 0;
}

static void no_delay(int fd)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* A caller; when nobody listens behind, he is hung up on. */
static void accept_one(relay *r)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int a = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC); /* sending waits, receiving does not */
    int b = a < 0 ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair *p = NULL;

    pthread_mutex_lock(&r->lock);
    to.sin_port = htons(r->to_port);
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < PAIRS && !p; i++)
        p = r->pair[i].fd[0] < 0 ? &r->pair[i] : NULL;
    /* loopback: connecting does not block */
    if (!p || b < 0 || connect(b, (struct sockaddr *)&to, sizeof to) < 0) {
        if (a >= 0)
            close(a);
        if (b >= 0)
            close(b);
        return;
    }
    no_delay(a);
    no_delay(b);
    p->fd[0] = a;
    p->fd[1] = b;
}

/* Bytes that may go now, of those that wait; moves the clock for a late piece. Under the lock. */
static size_t allowed(relay *r, int way, size_t n)
{
    uint64_t room = r->limit[way] - r->passed[way];

    r->more[way] = n > 0 && room == 0;
    n = n > room ? (size_t)room : n;
    if (n == 0 || way != r->slow_way || !r->pace.n_steps)
        return n;
    if (r->waits) {
        if (r->came[!way] == r->came_at)
            return 0;
        r->waits = false;
    }
    n = n > r->pace.piece ? r->pace.piece : n;
    if (++r->n_piece % r->pace.each == 0) {
        r->pace.n_steps--;
        r->came_at = r->came[!way];
        r->waits = true;
        aq_clock_advance(r->pace.late_us);
    }
    return n;
}

/* Takes what was sent this way. false: who sends is gone. */
static bool take(relay *r, pair *p, int way)
{
    pipe_way *w = &p->way[way];

    if (w->n == w->off)
        w->n = w->off = 0;
    while (w->n < BUF) {
        ssize_t n = recv(p->fd[way], w->buf + w->n, BUF - w->n, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        w->n += (size_t)n;
        pthread_mutex_lock(&r->lock);
        r->came[way] += (uint64_t)n;
        pthread_mutex_unlock(&r->lock);
    }
    return true;
}

/* Passes on what may go. false: who takes it is gone. */
static bool give(relay *r, pair *p, int way)
{
    pipe_way *w = &p->way[way];

    for (;;) {
        pthread_mutex_lock(&r->lock);
        size_t n = r->cut ? 0 : allowed(r, way, w->n - w->off);
        pthread_mutex_unlock(&r->lock);
        if (n == 0)
            return true;
        ssize_t k = send(p->fd[!way], w->buf + w->off, n, MSG_NOSIGNAL);
        if (k < 0)
            return errno == EINTR;
        w->off += (size_t)k;
        pthread_mutex_lock(&r->lock);
        r->passed[way] += (uint64_t)k;
        pthread_mutex_unlock(&r->lock);
    }
}

static void *relay_main(void *arg)
{
    relay *r = arg;

    for (;;) {
        struct pollfd p[2 + 2 * PAIRS];
        uint32_t n = 0;
        uint64_t x;

        pthread_mutex_lock(&r->lock);
        uint64_t asked = r->asked;
        bool stop = r->stop, cut = r->cut;
        int ms = asked > r->done ? 0 : r->waits ? ANSWER_MS : -1;
        pthread_mutex_unlock(&r->lock);
        if (stop)
            break;
        p[n++] = (struct pollfd){.fd = r->wake_fd, .events = POLLIN};
        p[n++] = (struct pollfd){.fd = cut ? -1 : r->listen_fd, .events = POLLIN};
        for (uint32_t i = 0; i < PAIRS; i++)
            for (int k = 0; k < 2; k++) {
                const pair *q = &r->pair[i];
                bool no = q->gone[k] || q->way[k].n - q->way[k].off == BUF;
                p[n++] = (struct pollfd){.fd = no ? -1 : q->fd[k], .events = POLLIN};
            }
        int rc = poll(p, n, ms);
        if (p[0].revents)
            (void)!read(r->wake_fd, &x, sizeof x);
        if (rc == 0 && ms > 0) {
            pthread_mutex_lock(&r->lock);
            r->waits = false;
            pthread_mutex_unlock(&r->lock);
        }
        if (rc < 0)
            continue;
        if (p[1].revents)
            accept_one(r);
        for (uint32_t i = 0; i < PAIRS; i++) {
            pair *q = &r->pair[i];
            if (q->fd[0] < 0)
                continue;
            bool good = true;
            for (int k = 0; k < 2; k++)
                q->gone[k] |= !take(r, q, k);
            for (int k = 0; k < 2; k++)
                good = give(r, q, k) && (!q->gone[k] || cut) && good;
            if (!good)
                drop(q);
        }
        pthread_mutex_lock(&r->lock);
        r->done = asked;
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

relay *relay_start(uint16_t to_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    relay *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->to_port = to_port;
    r->limit[0] = r->limit[1] = RELAY_OPEN;
    for (uint32_t i = 0; i < PAIRS; i++)
        r->pair[i].fd[0] = r->pair[i].fd[1] = -1;
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->wake_fd < 0 || r->listen_fd < 0 ||
        bind(r->listen_fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(r->listen_fd, 16) < 0 ||
        getsockname(r->listen_fd, (struct sockaddr *)&a, &n) < 0 ||
        pthread_create(&r->thread, NULL, relay_main, r) != 0) {
        close(r->wake_fd);
        close(r->listen_fd);
        free(r);
        return NULL;
    }
    r->port = ntohs(a.sin_port);
    return r;
}

void relay_end(relay *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_mutex_unlock(&r->lock);
    wake(r);
    pthread_join(r->thread, NULL);
    for (uint32_t i = 0; i < PAIRS; i++)
        drop(&r->pair[i]);
    close(r->listen_fd);
    close(r->wake_fd);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

uint16_t relay_port(const relay *r)
{
    return r->port;
}

void relay_to(relay *r, uint16_t to_port)
{
    pthread_mutex_lock(&r->lock);
    r->to_port = to_port;
    pthread_mutex_unlock(&r->lock);
}

void relay_round(relay *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t asked = ++r->asked;
    wake(r);
    while (r->done < asked) {
        pthread_mutex_unlock(&r->lock);
        poll(NULL, 0, 1);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
}

void relay_cut(relay *r, bool cut)
{
    pthread_mutex_lock(&r->lock);
    r->cut = cut;
    pthread_mutex_unlock(&r->lock);
    relay_round(r);
}

uint64_t relay_came(relay *r, int way)
{
    pthread_mutex_lock(&r->lock);
    uint64_t n = r->came[way];
    pthread_mutex_unlock(&r->lock);
    return n;
}

uint64_t relay_bytes(relay *r, int way)
{
    pthread_mutex_lock(&r->lock);
    uint64_t n = r->passed[way];
    pthread_mutex_unlock(&r->lock);
    return n;
}

void relay_hold_at(relay *r, int way, uint64_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->limit[way] = bytes > r->passed[way] ? bytes : r->passed[way];
    r->more[way] = false;
    pthread_mutex_unlock(&r->lock);
    wake(r);
}

bool relay_is_held(relay *r, int way)
{
    pthread_mutex_lock(&r->lock);
    bool held = r->more[way];
    pthread_mutex_unlock(&r->lock);
    return held;
}

void relay_slow(relay *r, int way, const relay_pace *pace)
{
    pthread_mutex_lock(&r->lock);
    r->slow_way = way;
    r->pace = *pace;
    r->n_piece = 0;
    r->waits = false;
    pthread_mutex_unlock(&r->lock);
    wake(r);
}

uint32_t relay_steps_left(relay *r)
{
    pthread_mutex_lock(&r->lock);
    uint32_t n = r->pace.n_steps;
    pthread_mutex_unlock(&r->lock);
    return n;
}
