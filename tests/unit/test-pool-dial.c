/* SPDX-License-Identifier: Apache-2.0 */
/* Calling a PC on all its addresses, with listeners on loopback that answer, refuse or stay silent
 * (127.0.0.N are so many hosts). Time is a frozen clock: nothing waits for it. */
#include "dial-priv.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ANSWERS, REFUSES, SILENT, FOREIGN };
#define FILL 4

typedef struct host {
    int listener, fill[FILL];
    struct sockaddr_storage addr;
} host;

static void make(host *h, int kind, int number)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;

    *h = (host){.listener = -1, .fill = {-1, -1, -1, -1}};
    a.sin_addr.s_addr =
        htonl(kind == FOREIGN ? 0x08080800u + (uint32_t)number : 0x7f000100u + (uint32_t)number);
    a.sin_port = htons(7710);
    if (kind != FOREIGN) {
        a.sin_port = 0;
        h->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(h->listener, (struct sockaddr *)&a, sizeof a) < 0 ||
            getsockname(h->listener, (struct sockaddr *)&a, &n) < 0 ||
            (kind != REFUSES && listen(h->listener, kind == SILENT ? 0 : 16) < 0))
            ok(false, "a host on loopback is made");
        /* A full backlog: the kernel drops further calls without a word. */
        for (int i = 0; kind == SILENT && i < FILL; i++) {
            h->fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            (void)!connect(h->fill[i], (struct sockaddr *)&a, sizeof a);
        }
    }
    memcpy(&h->addr, &a, sizeof a);
}

static void unmake(host *h)
{
    aq_fd_close_p(&h->listener);
    for (int i = 0; i < FILL; i++)
        aq_fd_close_p(&h->fill[i]);
}

/* How many calls a host got. */
static int calls(host *h)
{
    int n = 0, fd;

    fcntl(h->listener, F_SETFL, O_NONBLOCK);
    while ((fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        n++;
        close(fd);
    }
    return n;
}

/* A stop_cb that moves the clock a step each time it is asked, and never stops. */
static bool step(void *user)
{
    aq_clock_advance(*(int64_t *)user);
    return false;
}

static void test_which(void)
{
    static const struct {
        const char *name;
        uint32_t n;
        int kind[4];
        uint32_t won; /* 99: none */
        int code;
        aq_reach best;
        const char *text;
    } cases[] = {
        {"one that answers", 1, {ANSWERS}, 0, 0, AQ_REACH_ANSWERS, ""},
        {"refused, then answered", 2, {REFUSES, ANSWERS}, 1, 0, AQ_REACH_ANSWERS, ""},
        {"silent, then answered", 2, {SILENT, ANSWERS}, 1, 0, AQ_REACH_ANSWERS, ""},
        {"the first of two", 2, {ANSWERS, ANSWERS}, 0, 0, AQ_REACH_ANSWERS, ""},
        {"behind one of each", 4, {FOREIGN, REFUSES, SILENT, ANSWERS}, 3, 0, AQ_REACH_ANSWERS, ""},
        {"refused", 1, {REFUSES}, 99, AQ_E_GONE, AQ_REACH_REFUSED, "turn the pool on"},
        {"silent", 1, {SILENT}, 99, AQ_E_TIMEOUT, AQ_REACH_SILENT, "off or asleep"},
        {"all silent",
         4,
         {SILENT, SILENT, SILENT, SILENT},
         99,
         AQ_E_TIMEOUT,
         AQ_REACH_SILENT,
         "no answer"},
        {"silent and refused",
         2,
         {SILENT, REFUSES},
         99,
         AQ_E_GONE,
         AQ_REACH_REFUSED,
         "turn the pool on"},
        {"foreign",
         2,
         {FOREIGN, FOREIGN},
         99,
         AQ_E_AUTH,
         AQ_REACH_FOREIGN,
         "not an address of this"},
        {"foreign and silent",
         2,
         {FOREIGN, SILENT},
         99,
         AQ_E_TIMEOUT,
         AQ_REACH_SILENT,
         "no answer"},
    };

    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        host h[4];
        struct sockaddr_storage addr[4];
        aq_reach reach[4] = {AQ_REACH_UNTRIED};
        aq_err err = {0};
        int64_t d = 1000000; /* a round waits at most 0.1 s: ten rounds to answer in */
        uint32_t won = 99;
        AQ_AUTOFD int fd = -1;

        for (uint32_t k = 0; k < cases[i].n; k++) {
            make(&h[k], cases[i].kind[k], (int)(i * 4 + k + 1));
            addr[k] = h[k].addr;
        }
        aq_clock_set(1000000);
        aq_dial_to to = {addr, cases[i].n, 11000000, -1, step, &d};
        int rc = aq_dial_any(&to, &fd, &won, reach, &err);
        ok(rc == -cases[i].code && won == cases[i].won && (fd >= 0) == (rc == 0),
           "%s: %s, address %u", cases[i].name, aq_status_name(rc), won);
        aq_reach best = AQ_REACH_UNTRIED;
        bool foreign = true;
        for (uint32_t k = 0; k < cases[i].n; k++) {
            best = AQ_MAX(best, reach[k]);
            foreign &= (cases[i].kind[k] == FOREIGN) == (reach[k] == AQ_REACH_FOREIGN);
        }
        ok(best == cases[i].best && strstr(err.text, cases[i].text) &&
               (err.text[0] != 0) == (rc < 0),
           "%s: it says why: %s", cases[i].name, err.text);
        ok(rc == 0 || foreign, "%s: only foreign addresses were not called", cases[i].name);
        if (fd >= 0)
            ok((fcntl(fd, F_GETFL) & O_NONBLOCK) && (fcntl(fd, F_GETFD) & FD_CLOEXEC),
               "%s: non-blocking, and not for children", cases[i].name);
        for (uint32_t k = 0; k < cases[i].n; k++)
            unmake(&h[k]);
    }
    aq_clock_set(-1);
}

/* A PC that answers at once is called once, on its best address. */
static void test_head_start(void)
{
    host h[AQ_ADDRS_MAX];
    struct sockaddr_storage addr[AQ_ADDRS_MAX];
    uint32_t won = 99;
    int rest = 0;
    AQ_AUTOFD int fd = -1;

    for (uint32_t k = 0; k < AQ_ADDRS_MAX; k++) {
        make(&h[k], ANSWERS, 100 + (int)k);
        addr[k] = h[k].addr;
    }
    aq_clock_set(1000000);
    aq_dial_to to = {addr, AQ_ADDRS_MAX, 6000000, -1, NULL, NULL};
    int rc = aq_dial_any(&to, &fd, &won, NULL, NULL);
    aq_clock_set(-1);
    int first = calls(&h[0]);
    for (uint32_t k = 1; k < AQ_ADDRS_MAX; k++)
        rest += calls(&h[k]);
    ok(rc == 0 && won == 0 && first == 1 && rest == 0, "one call: %d on the first, %d on others",
       first, rest);
    for (uint32_t k = 0; k < AQ_ADDRS_MAX; k++)
        unmake(&h[k]);
}

static bool third_time(void *user)
{
    return ++*(int *)user == 3;
}

/* The next address is called when its time has come, by base's clock. */
static void test_stagger(void)
{
    host h[2];
    struct sockaddr_storage addr[2];
    aq_reach reach[2];
    int asked = 0;
    int64_t d = AQ_DIAL_STAGGER_US;
    uint32_t won = 99;
    AQ_AUTOFD int fd = -1;

    make(&h[0], SILENT, 110);
    make(&h[1], ANSWERS, 111);
    addr[0] = h[0].addr;
    addr[1] = h[1].addr;
    aq_clock_set(1000000);
    aq_dial_to to = {addr, 2, 6000000, -1, third_time, &asked};
    int rc = aq_dial_any(&to, &fd, &won, reach, NULL);
    ok(rc == -AQ_E_CANCELLED && reach[1] == AQ_REACH_UNTRIED && calls(&h[1]) == 0,
       "while the clock stands the second is not called");
    to.stop_cb = step;
    to.user = &d;
    rc = aq_dial_any(&to, &fd, &won, NULL, NULL);
    aq_clock_set(-1);
    ok(rc == 0 && won == 1, "a head start later it is");
    unmake(&h[0]);
    unmake(&h[1]);
}

typedef struct stopper {
    int fd;
    _Atomic bool stop, asked;
} stopper;

static bool stop_cb(void *user)
{
    stopper *s = user;
    atomic_store(&s->asked, true);
    return atomic_load(&s->stop);
}

static void *stop_main(void *user)
{
    stopper *s = user;
    const uint64_t one = 1;

    while (!atomic_load(&s->asked))
        sched_yield();
    atomic_store(&s->stop, true);
    (void)!write(s->fd, &one, sizeof one);
    return NULL;
}

static void test_stop(void)
{
    stopper s = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    aq_err err = {0};
    pthread_t t;
    host h;
    uint32_t won = 99;
    int fd = -1;

    make(&h, SILENT, 120);
    aq_dial_to to = {&h.addr, 1, INT64_MAX, s.fd, stop_cb, &s};
    if (!ok(pthread_create(&t, NULL, stop_main, &s) == 0, "a thread that stops"))
        return;
    int rc = aq_dial_any(&to, &fd, &won, NULL, &err);
    pthread_join(t, NULL);
    ok(rc == -AQ_E_CANCELLED && fd == -1 && won == 99, "given up from another thread: %s",
       err.text);
    to.n = 0;
    ok(aq_dial_any(&to, &fd, &won, NULL, &err) == -AQ_E_INVAL, "no address: %s", err.text);
    to.n = AQ_ADDRS_MAX + 1;
    ok(aq_dial_any(&to, &fd, &won, NULL, &err) == -AQ_E_INVAL, "too many addresses");
    unmake(&h);
    close(s.fd);
}

static void test_descriptors(void)
{
    host h[3];
    struct sockaddr_storage addr[3];
    static const int kinds[3] = {SILENT, REFUSES, SILENT};
    int64_t d = 1000000;
    uint32_t won;
    int fd = -1;

    for (int k = 0; k < 3; k++) {
        make(&h[k], kinds[k], 130 + k);
        addr[k] = h[k].addr;
    }
    int before = dup(0), after;
    close(before);
    for (int i = 0; i < 20; i++) {
        aq_clock_set(1000000);
        aq_dial_to to = {addr, 3, 2000000, -1, step, &d};
        (void)!aq_dial_any(&to, &fd, &won, NULL, NULL);
    }
    aq_clock_set(-1);
    after = dup(0);
    close(after);
    ok(before == after && fd == -1, "20 calls in vain leave no descriptor open");
    for (int k = 0; k < 3; k++)
        unmake(&h[k]);
}

static void test_list(void)
{
    aq_member m = {.n_addr = 3, .addr = {"10.0.0.9:7710", "10.0.0.8", "not an address"}};
    aq_found f = {.n_addr = 3, .addr = {"192.168.1.7:7710", "10.0.0.9:7710", "[fe80::1%lo]:7710"}};
    static const char *const want[] = {"10.0.0.9:7710", "192.168.1.7:7710", "[fe80::1%lo]:7710",
                                       "10.0.0.8:7710"};
    struct sockaddr_storage a[AQ_ADDRS_MAX];
    uint32_t n = aq_dial_list(&m, &f, a);
    bool same = n == AQ_LEN(want);

    for (uint32_t i = 0; same && i < n; i++) {
        char text[AQ_ADDR_MAX + 1];
        aq_addr_text((const struct sockaddr *)&a[i], true, text);
        same = strcmp(text, want[i]) == 0;
    }
    ok(same, "the one that answered last, those found, the others; each once (%u)", n);
    ok(aq_dial_list(NULL, NULL, a) == 0, "neither remembered nor found");
    for (uint32_t i = 0; i < AQ_ADDRS_MAX; i++) {
        snprintf(m.addr[i], sizeof m.addr[i], "10.1.0.%u", i + 1);
        snprintf(f.addr[i], sizeof f.addr[i], "10.2.0.%u", i + 1);
    }
    m.n_addr = f.n_addr = AQ_ADDRS_MAX;
    ok(aq_dial_list(&m, &f, a) == AQ_ADDRS_MAX, "never more than %u", AQ_ADDRS_MAX);
    for (int r = 0; r < AQ_REACH_N; r++)
        ok(aq_reach_text((aq_reach)r)[0], "reach %d has a text", r);
}

int main(void)
{
    test_which();
    test_head_start();
    test_stagger();
    test_stop();
    test_descriptors();
    test_list();
    return tap_done();
}
