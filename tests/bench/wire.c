/* SPDX-License-Identifier: Apache-2.0 */
/* A cable between two TAP devices: holds each frame back for its time on the wire and a fixed delay, and loses some.
 *
 * usage: wire TAP-A TAP-B DELAY-US MBIT [LOST-PER-1000]
 *
 *   TAP-A ─▶ queue ─▶ TAP-B     a frame leaves at max(arrival, end of the one before) + bits / MBIT + DELAY
 *   TAP-A ◀─ queue ◀─ TAP-B     MBIT 0: no limit. Says "ready" when both devices are there.
 *
 * A full queue drops, as a switch does. One thread. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX 2048
#define QUEUE_MAX 1024u

typedef struct frame {
    long long due_ns;
    ssize_t n;
    unsigned char b[FRAME_MAX];
} frame;

typedef struct way {
    int in, out;
    long long free_ns; /* when the wire has sent what it has */
    unsigned rng, lost_per_1000;
    unsigned head, n;
    frame *q; /* [QUEUE_MAX] */
} way;

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int tap(const char *name)
{
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) {
        fprintf(stderr, "wire: %s: %s\n", name, strerror(errno));
        exit(2);
    }
    return fd;
}

/* All that has come: each gets its time. */
static void take(way *w, long long delay_ns, long long mbit)
{
    for (;;) {
        frame *f = &w->q[(w->head + w->n) % QUEUE_MAX], lost;
        ssize_t n = read(w->in, w->n < QUEUE_MAX ? f->b : lost.b, FRAME_MAX);

        if (n <= 0)
            return;
        if (w->n == QUEUE_MAX)
            continue;
        w->rng = w->rng * 1664525u + 1013904223u; /* the same ones each time */
        if ((w->rng >> 8) % 1000 < w->lost_per_1000)
            continue;
        long long t = now_ns();
        w->free_ns = (w->free_ns > t ? w->free_ns : t) + (mbit ? n * 8000 / mbit : 0);
        f->due_ns = w->free_ns + delay_ns;
        f->n = n;
        w->n++;
    }
}

static void give(way *w)
{
    while (w->n && w->q[w->head].due_ns <= now_ns()) {
        (void)!write(w->out, w->q[w->head].b, (size_t)w->q[w->head].n);
        w->head = (w->head + 1) % QUEUE_MAX;
        w->n--;
    }
}

int main(int argc, char **argv)
{
    way w[2] = {{.in = -1}, {.in = -1}};

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: wire TAP-A TAP-B DELAY-US MBIT [LOST-PER-1000]\n");
        return 2;
    }
    long long delay_ns = strtoll(argv[3], NULL, 10) * 1000, mbit = strtoll(argv[4], NULL, 10);
    for (unsigned i = 0; i < 2; i++) {
        w[i].rng = 7 + i;
        w[i].lost_per_1000 = argc == 6 ? (unsigned)strtoul(argv[5], NULL, 10) : 0;
    }
    w[0].in = w[1].out = tap(argv[1]);
    w[1].in = w[0].out = tap(argv[2]);
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (int i = 0; i < 2; i++)
        if (!(w[i].q = calloc(QUEUE_MAX, sizeof *w[i].q)))
            return 2;
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd p[2] = {{.fd = w[0].in, .events = POLLIN}, {.fd = w[1].in, .events = POLLIN}};
        long long t = now_ns(), next = t + 999999999;
        for (int i = 0; i < 2; i++)
            if (w[i].n && w[i].q[w[i].head].due_ns < next)
                next = w[i].q[w[i].head].due_ns;
        struct timespec d = {.tv_nsec = next > t ? next - t : 0};
        ppoll(p, 2, &d, NULL);
        for (int i = 0; i < 2; i++) {
            take(&w[i], delay_ns, mbit);
            give(&w[i]);
        }
    }
}
