/* SPDX-License-Identifier: Apache-2.0 */
/* Links over loopback: open and refused, frames and their order, silence, callers that prove nothing,
 * pairing, joining, a new secret. Time is moved, not waited for. */
#include "pool-node.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static char top[256];
static node a, b, c;
static const aq_wire_fmt fmt = {.row_f32 = 4, .max_rows = 70000 / 16, .type = AQ_ROWS_F32};

static bool put(aq_link *l, uint16_t type, const char *text, uint64_t *seq)
{
    aq_err err = {0};
    int rc = aq_link_send(l, type, 0, text, strlen(text), seq, &err);

    if (rc < 0)
        printf("# sending %s: %s\n", aq_wire_type_name(type), err.text);
    return rc == AQ_OK;
}

static bool put_window(aq_link *l, aq_bytes *buf, uint32_t epoch, uint64_t seq, uint32_t n_rows)
{
    static aq_row rows[4096];
    static float x[4096 * 4];
    aq_err err = {0};

    for (uint32_t i = 0; i < n_rows; i++) {
        rows[i] = (aq_row){.pos = i, .tok = (int32_t)i, .flags = AQ_ROW_BACK};
        x[4 * i] = (float)seq;
    }
    aq_window w = {.epoch = epoch, .n_rows = n_rows, .row = rows, .x = x};
    buf->n = 0;
    return aq_wire_put_window(buf, seq, &w, &fmt, NULL, 0, &err) == 0 &&
           aq_link_send_data(l, buf, &err) == 0;
}

static bool put_rows(aq_link *l, aq_bytes *buf, uint32_t epoch, uint64_t seq, uint32_t n_rows)
{
    static float x[4096 * 4];
    static const aq_hop hop[1] = {{1, 10, 0}};
    aq_done d = {.epoch = epoch, .n_back = n_rows, .x = x, .n_hop = 1, .hop = hop};
    aq_err err = {0};

    x[0] = (float)seq;
    buf->n = 0;
    return aq_wire_put_rows(buf, seq, &d, &fmt, &err) == 0 && aq_link_send_data(l, buf, &err) == 0;
}

#define CONFIG(epoch) "epoch=" #epoch "\nmodel=00\nl0=1\nl1=2\nrow_f32=4\nrows=f32\nmax_rows=4096\n"

static void test_open(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes buf = {0}, rbuf = {0};
    aq_link_count n0, n1;
    uint64_t seq = 0;

    if (!ok(node_dial(&a, &b, AQ_FOR_STEP), "two members: open (%s)", a.out.why.text))
        return;
    ok(aq_link_role(a.out.link) == AQ_DIALER && aq_link_role(b.in.link) == AQ_ACCEPTOR &&
           aq_link_state(a.out.link) == AQ_LS_OPEN &&
           strcmp(aq_link_peer(a.out.link)->name, "b") == 0 &&
           strcmp(aq_link_peer(b.in.link)->name, "a") == 0 &&
           aq_link_purpose(b.in.link) == AQ_FOR_STEP,
       "each knows who the other is");
    ok(put(a.out.link, AQ_T_STATS, "", &seq) && node_wait_frames(&b.in, 1) &&
           b.in.frame[0].hdr.type == AQ_T_STATS && b.in.frame[0].hdr.seq == seq,
       "a control frame");
    ok(put(a.out.link, AQ_T_CONFIG, CONFIG(1), NULL) && node_wait_frames(&b.in, 2) &&
           aq_link_state(b.in.link) == AQ_LS_LOADING,
       "CONFIG: loading");
    ok(put(b.in.link, AQ_T_READY, "epoch=1\n", NULL) && node_wait_frames(&a.out, 1) &&
           aq_link_state(a.out.link) == AQ_LS_READY,
       "READY");
    /* Warm up, then count: each frame in one send, nothing else. */
    ok(put_window(a.out.link, &buf, 1, 1, 1) && node_wait_frames(&b.in, 3) &&
           put_rows(b.in.link, &rbuf, 1, 1, 1) && node_wait_frames(&a.out, 2),
       "a window and its rows");
    aq_link_get_count(a.out.link, &n0);
    uint32_t seen = 3;
    bool good = true;
    for (uint64_t k = 2; k < 12; k++)
        good = good && put_window(a.out.link, &buf, 1, k, 1) && node_wait_frames(&b.in, ++seen) &&
               put_rows(b.in.link, &rbuf, 1, k, 1) && node_wait_frames(&a.out, seen - 1);
    aq_link_get_count(a.out.link, &n1);
    ok(good && n1.tx_sends - n0.tx_sends == 10 && n1.tx_frames - n0.tx_frames == 10,
       "ten windows in ten sends");
    ok(n1.tx_bytes - n0.tx_bytes == 10 * (86 + 16) && n1.rx_bytes - n0.rx_bytes == 10 * (82 + 16),
       "a token costs its two rows and 86 + 82 bytes (%llu, %llu)",
       (unsigned long long)(n1.tx_bytes - n0.tx_bytes) / 10,
       (unsigned long long)(n1.rx_bytes - n0.rx_bytes) / 10);
    ok(put_window(a.out.link, &buf, 1, 12, 4096) && node_wait_frames(&b.in, seen + 1) &&
           b.in.frame[seen].hdr.length > 128000,
       "a window of 4,096 rows");

    /* A second epoch: what was queued of the first goes, and rows that still come are dropped. */
    node_forget(&a.out);
    node_forget(&b.in);
    ok(put(a.out.link, AQ_T_CONFIG, CONFIG(2), NULL) && node_wait_frames(&b.in, 1) &&
           put_rows(b.in.link, &rbuf, 1, 12, 1) && put(b.in.link, AQ_T_READY, "epoch=2\n", NULL) &&
           node_wait_frames(&a.out, 1) && a.out.frame[0].hdr.type == AQ_T_READY,
       "a new epoch: old rows are dropped");
    ok(put_window(a.out.link, &buf, 2, 1, 1) && node_wait_frames(&b.in, 2),
       "windows count from 1 again");
    ok(put(a.out.link, AQ_T_CONFIG, CONFIG(2), NULL) && node_wait_closed(&b.in) &&
           b.in.why.code == AQ_E_GONE,
       "an epoch that is not higher ends the link at its sender (%s)", b.in.why.text);
    node_hang_up(&a, &b);
}

/* Control overtakes data that waits. */
static void test_order(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes buf = {0};
    uint32_t cancel_at = 99, n = 0;

    if (!ok(node_dial(&a, &b, AQ_FOR_STEP) && put(a.out.link, AQ_T_CONFIG, CONFIG(1), NULL) &&
                node_wait_frames(&b.in, 1) && put(b.in.link, AQ_T_READY, "epoch=1\n", NULL) &&
                node_wait_frames(&a.out, 1),
            "ready"))
        return;
    node_hold(&b.in, true);
    bool good = true;
    int small = 65536;
    good = setsockopt(aq_link_fd(a.out.link), SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0 &&
           setsockopt(aq_link_fd(b.in.link), SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0;
    for (n = 1; n <= AQ_LINK_DATA_QUEUE_MAX / 2; n++) /* far more than the sockets hold */
        good = good && put_window(a.out.link, &buf, 1, n, 4096);
    good = good && put(a.out.link, AQ_T_CANCEL, "epoch=1\nwin=9\nseq=0\n", NULL);
    node_hold(&b.in, false);
    good = good && node_wait_frames(&b.in, n + 1);
    for (uint32_t i = 0; i < b.in.n_frame; i++)
        if (b.in.frame[i].hdr.type == AQ_T_CANCEL)
            cancel_at = i;
    ok(good && cancel_at < n - 1, "CANCEL overtook windows: %u of %u", cancel_at, n);
    aq_err err = {0};
    int rc = 0;
    node_hold(&b.in, true);
    for (uint32_t i = 0; rc == 0 && i < 4 * AQ_LINK_DATA_QUEUE_MAX; i++) {
        buf.n = 0;
        rc = put_window(a.out.link, &buf, 1, n + i, 4096) ? 0 : -AQ_E_BUSY;
    }
    buf.n = 0;
    ok(rc == -AQ_E_BUSY &&
           aq_link_send_data(a.out.link, &(aq_bytes){buf.p, AQ_WIRE_HDR_BYTES, buf.cap}, &err) ==
               -AQ_E_BUSY,
       "a queue that is full says so: %s", err.text);
    node_hang_up(&a, &b);
}

static void test_refused(void)
{
    aq_err err = {0};
    struct sockaddr_storage addr;
    aq_link *l = NULL;
    aq_link_cb none = {0};

    ok(!node_dial(&c, &b, AQ_FOR_STEP) && node_wait_closed(&c.out) && c.out.why.code == AQ_E_AUTH,
       "a stranger: %s", c.out.why.text);
    node_hang_up(&c, &b);
    ok(!node_dial(&a, &c, AQ_FOR_STEP) && node_wait_closed(&a.out) && a.out.why.code == AQ_E_AUTH,
       "to a stranger: %s", a.out.why.text);
    node_hang_up(&a, &c);
    aq_dial d = {.addr = &b.addr, .n_addr = 1, .to = aq_trust_id(a.trust)};
    ok(!node_dial_with(&a, &b, &d, true) && node_wait_closed(&a.out) &&
           a.out.why.code == AQ_E_MISMATCH,
       "another PC is meant: %s", a.out.why.text);
    node_hang_up(&a, &b);
    b.refuse = AQ_E_BUSY;
    ok(node_dial_with(&a, &b, &(aq_dial){.addr = &b.addr, .n_addr = 1}, false) &&
           node_wait_closed(&a.out) && a.out.why.code == AQ_E_BUSY &&
           strstr(a.out.why.text, "Studio PC"),
       "a busy one: %s", a.out.why.text);
    b.refuse = 0;
    node_hang_up(&a, &b);
    ok(aq_addr_parse("8.8.8.8:7710", 0, &addr, &err) == 0 &&
           aq_link_dial(a.net, &(aq_dial){.addr = &addr, .n_addr = 1}, &none, &l, &err) ==
               -AQ_E_AUTH &&
           !l,
       "a public address: %s", err.text);
    aq_listener *again = NULL;
    ok(aq_listener_new(a.net, &addr, 1, NULL, NULL, &again, &err) == -AQ_E_AUTH && !again,
       "nor is it listened on");
    ok(aq_listener_new(a.net, &b.addr, 1, NULL, NULL, &again, &err) == -AQ_E_IO &&
           strstr(err.text, "in use"),
       "a port in use: %s", err.text);
    /* A port that nobody has: taken and given back. */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in free_port = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof free_port;
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&free_port, n) == 0 &&
                getsockname(fd, (struct sockaddr *)&free_port, &n) == 0;
    if (fd >= 0)
        close(fd);
    memcpy(&addr, &free_port, sizeof free_port);
    ok(good && node_dial_with(&a, &b, &(aq_dial){.addr = &addr, .n_addr = 1}, false) &&
           node_wait_closed(&a.out) && a.out.why.code == AQ_E_GONE &&
           strstr(a.out.why.text, "turn the pool on"),
       "nobody there: %s", a.out.why.text);
    node_hang_up(&a, &b);
    /* Several addresses side by side: one answers. */
    struct sockaddr_storage two[2] = {addr, b.addr};
    ok(node_dial_with(&a, &b, &(aq_dial){.addr = two, .n_addr = 2, .to = aq_trust_id(b.trust)},
                      true),
       "of two addresses the one that answers");
    node_hang_up(&a, &b);
    /* A stranger has the first one by now: the next is called. */
    struct sockaddr_storage other[2] = {c.addr, b.addr};
    ok(node_dial_with(&a, &b, &(aq_dial){.addr = other, .n_addr = 2, .to = aq_trust_id(b.trust)},
                      true),
       "another PC at the first address: the next one (%s)", a.out.why.text);
    node_hang_up(&a, &b);
    other[1] = addr;
    ok(!node_dial_with(&a, &c, &(aq_dial){.addr = other, .n_addr = 2, .to = aq_trust_id(b.trust)},
                       true) &&
           node_wait_closed(&a.out) && a.out.why.code == AQ_E_AUTH,
       "no address left: what the first one said: %s", a.out.why.text);
    node_hang_up(&a, &c);
}

typedef struct late {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open, closed;
    aq_err why;
} late;

static void tell(late *t, bool *flag)
{
    pthread_mutex_lock(&t->lock);
    *flag = true;
    pthread_cond_broadcast(&t->cond);
    pthread_mutex_unlock(&t->lock);
}

static void await(late *t, const bool *flag)
{
    pthread_mutex_lock(&t->lock);
    while (!*flag)
        pthread_cond_wait(&t->cond, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

/* It is open for the caller before it is refused. */
static int late_accept_cb(void *user, aq_link *l, aq_link_cb *ret_cb, aq_err *err)
{
    late *t = user;

    (void)l;
    (void)ret_cb;
    await(t, &t->open);
    return aq_fail(err, AQ_E_AUTH, "no layers for you");
}

/* Says something when the other side has closed already: sending fails, and the reason waits unread. */
static void late_open_cb(void *user, aq_link *l)
{
    late *t = user;
    struct pollfd p = {.fd = aq_link_fd(l), .events = POLLRDHUP};

    tell(t, &t->open);
    poll(&p, 1, 60000);
    put(l, AQ_T_STATS, "", NULL);
    put(l, AQ_T_STATS, "", NULL);
}

static void late_closed_cb(void *user, aq_link *l, const aq_err *why)
{
    late *t = user;

    (void)l;
    t->why = *why;
    tell(t, &t->closed);
}

static void test_last_words(void)
{
    late t = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct sockaddr_storage addr;
    aq_listener *s = NULL;
    aq_link *l = NULL;
    aq_err err = {0};
    aq_link_cb cb = {&t, late_open_cb, NULL, NULL, late_closed_cb};

    bool good = aq_addr_parse("127.0.0.1", 0, &addr, &err) == 0 &&
                aq_listener_new(b.net, &addr, 1, late_accept_cb, &t, &s, &err) == 0 &&
                aq_addr_parse("127.0.0.1", aq_listener_port(s), &addr, &err) == 0 &&
                aq_link_dial(a.net, &(aq_dial){.addr = &addr, .n_addr = 1}, &cb, &l, &err) == 0;
    if (good)
        await(&t, &t.closed);
    ok(good && t.why.code == AQ_E_AUTH && strstr(t.why.text, "no layers for you"),
       "what was said before it closed is the reason: %s %s", t.why.text, err.text);
    aq_link_free(l);
    aq_listener_free(s);
}

static void test_loss(void)
{
    int64_t t = aq_now_us();

    aq_clock_set(t);
    if (!ok(node_dial(&a, &b, AQ_FOR_STEP), "open"))
        return;
    /* b's thread stands still (suspended, a cut cable): no answer, no end of stream. */
    node_hold(&b.in, true);
    ok(put(a.out.link, AQ_T_STATS, "", NULL), "a frame it will not finish");
    aq_link_count n0, n1;
    node_wait(&b, &b.in.held);
    aq_link_get_count(a.out.link, &n0);
    aq_clock_advance(AQ_LINK_BEAT_US);
    aq_link_wake(a.out.link);
    for (int i = 0; i < 2000; i++) { /* a's PING: it has read all that was there before */
        aq_link_get_count(a.out.link, &n1);
        if (n1.tx_frames > n0.tx_frames)
            break;
        poll(NULL, 0, 10);
    }
    ok(n1.tx_frames > n0.tx_frames && !a.out.closed, "half a second of silence: a PING");
    aq_clock_advance(AQ_LINK_GONE_US);
    aq_link_wake(a.out.link);
    ok(node_wait_closed(&a.out) && a.out.why.code == AQ_E_GONE &&
           strstr(a.out.why.text, "does not answer"),
       "silence: %s", a.out.why.text);
    node_hang_up(&a, &b);
    aq_clock_set(-1);
    ok(node_dial(&a, &b, AQ_FOR_STEP), "open again");
    shutdown(aq_link_fd(b.in.link), SHUT_RDWR);
    ok(node_wait_closed(&a.out) && a.out.why.code == AQ_E_GONE, "the end of the stream: %s",
       a.out.why.text);
    node_hang_up(&a, &b);
    ok(node_dial(&a, &b, AQ_FOR_STATUS) && aq_link_state(a.out.link) == AQ_LS_STATUS, "for status");
    aq_link_close(b.in.link, "shutdown");
    ok(node_wait_closed(&a.out) && a.out.why.code == AQ_E_GONE &&
           strcmp(a.out.why.text, "b has left") == 0,
       "BYE: %s", a.out.why.text);
    ok(node_wait_closed(&b.in) && b.in.why.code == 0, "and who left has no error");
    node_hang_up(&a, &b);
}

/* ---- callers that prove nothing -------------------------------------------------------------- */

static int raw_connect(const node *n, uint32_t from)
{
    struct sockaddr_in src = {.sin_family = AF_INET, .sin_addr = {htonl(from)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&src, sizeof src) < 0 ||
         connect(fd, (const struct sockaddr *)&n->addr, sizeof(struct sockaddr_in)) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* True when the other side has closed it, within 10 s. */
static bool is_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char buf[4096];
    ssize_t n;

    for (;;) {
        if (poll(&p, 1, 10000) <= 0)
            return false;
        n = recv(fd, buf, sizeof buf, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
    }
}

static bool wait_unauth(uint32_t n)
{
    aq_listener_count k;

    for (int i = 0; i < 1000; i++) {
        aq_listener_get_count(b.listener, &k);
        if (k.n_unauth == n)
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

static bool any(void *user, const aq_id *id)
{
    return true;
}

static void test_strangers(void)
{
    int fd[1000], n_open = 0;
    aq_listener_count k0, k;
    int64_t t = aq_now_us();

    aq_clock_set(t);
    aq_clock_advance(AQ_LINK_TRIES_US);
    aq_listener_get_count(b.listener, &k0);
    int one = raw_connect(&b, 0x7f000002);
    ok(one >= 0 && send(one, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18 && is_closed(one),
       "what is no TLS is closed");
    close(one);
    ok(wait_unauth(0), "and forgotten");
    one = raw_connect(&b, 0x7f000002);
    ok(one >= 0 && wait_unauth(1), "who says nothing");
    aq_clock_advance(AQ_LINK_AUTH_US - 1000);
    ok(wait_unauth(1), "has five seconds");
    aq_clock_advance(1000);
    ok(is_closed(one), "and no more");
    close(one);

    /* Thirty from one address: four at once, twenty tries. */
    aq_listener_count k1;
    ok(wait_unauth(0), "forgotten too");
    aq_listener_get_count(b.listener, &k1);
    for (int i = 0; i < 30; i++)
        fd[i] = raw_connect(&b, 0x7f00000a);
    for (int i = 0; i < 1000; i++) {
        aq_listener_get_count(b.listener, &k);
        if (k.accepted - k1.accepted == 30)
            break;
        poll(NULL, 0, 10);
    }
    ok(wait_unauth(4) && k.refused_full - k1.refused_full == 16 &&
           k.refused_rate - k1.refused_rate == 10,
       "of thirty callers of one address 4 are let in, 16 are too many at once, 10 too often");
    for (int i = 0; i < 30; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    ok(wait_unauth(0), "and gone");
    aq_listener_get_count(b.listener, &k0);

    /* A thousand at once, from four addresses: sixteen are let in, and a member still gets through. */
    struct mallinfo2 m0 = mallinfo2();
    for (int i = 0; i < 1000; i++)
        fd[i] = raw_connect(&b, 0x7f000003 + (uint32_t)(i % 4));
    for (int i = 0; i < 1000; i++)
        n_open += fd[i] >= 0;
    bool full = wait_unauth(16);
    for (int i = 0; full && i < 1000; i++) { /* all others were closed at accept */
        aq_listener_get_count(b.listener, &k);
        if (k.accepted - k0.accepted >= 1000)
            break;
        poll(NULL, 0, 10);
    }
    struct mallinfo2 m1 = mallinfo2();
    ok(n_open == 1000 && full &&
           k.refused_full + k.refused_rate - k0.refused_full - k0.refused_rate == 984,
       "of a thousand connections 16 are let in (%llu were refused)",
       (unsigned long long)(k.refused_full + k.refused_rate - k0.refused_full - k0.refused_rate));
    ok(m1.uordblks - m0.uordblks < (4u << 20), "they cost %zu KiB together",
       (size_t)(m1.uordblks - m0.uordblks) / 1024);
    for (int i = 0; i < 1000; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    ok(wait_unauth(0), "all gone");
    ok(node_dial(&a, &b, AQ_FOR_STEP), "and a member gets through");
    node_hang_up(&a, &b);

    aq_clock_set(-1);
}

/* One that finished TLS and then says nothing, the dearest kind: both ends moved by hand. */
static void test_cost(void)
{
    enum { N = 8 };
    aq_link *link[N] = {NULL};
    int fd[N];
    aq_tls_ctx *ctx = NULL;
    aq_err err = {0};
    bool good = aq_tls_ctx_new(aq_trust_identity(c.trust), &ctx, &err) == 0;

    aq_net_set_open(b.net, true, false);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < N; i++)
        fd[i] = -1;
    for (int i = 0; good && i < N; i++) {
        aq_tls *tls = NULL;
        int sv[2], rc = 0;
        char buf[8192];
        good = socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0;
        fd[i] = sv[0];
        good = good &&
               aq_link_over(b.net, &sv[1], (struct sockaddr *)&b.addr, NULL, &link[i], &err) == 0 &&
               aq_tls_new(ctx, true, any, NULL, &tls, &err) == 0;
        for (int k = 0; good && k < 8; k++) {
            size_t n;
            rc = rc == 1 ? 1 : aq_tls_handshake(tls, &err);
            const uint8_t *p = aq_tls_output(tls, &n);
            if (n > 0 && send(fd[i], p, n, MSG_NOSIGNAL) == (ssize_t)n)
                aq_tls_sent(tls, n);
            good = rc >= 0 && aq_link_pump(link[i], &err) == 0;
            ssize_t got = recv(fd[i], buf, sizeof buf, MSG_DONTWAIT);
            if (got > 0 && rc == 0)
                aq_tls_input(tls, buf, (size_t)got);
            if (rc == 0 && got > 0)
                rc = aq_tls_handshake(tls, &err);
        }
        good = good && rc == 1;
        aq_tls_free(tls);
    }
    struct mallinfo2 after = mallinfo2();
    ok(good && after.uordblks - before.uordblks < N * (64u << 10),
       "a stranger after TLS costs %zu KiB (%s)",
       (size_t)(after.uordblks - before.uordblks) / N / 1024, err.text);
    for (int i = 0; i < N; i++) {
        aq_link_free(link[i]);
        if (fd[i] >= 0)
            close(fd[i]);
    }
    aq_tls_ctx_free(ctx);
    aq_net_set_open(b.net, false, false);
}

/* Who lets TLS answer and reads none of it is not read any more: tens of thousands of key updates. */
static void test_flood(void)
{
    static const uint8_t alpn[] = "\x09"
                                  "aquifer/1";
    aq_link *link = NULL;
    aq_err err = {0};
    int sv[2], small = 4096, n = 0, idle = 0;
    size_t most = 0;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    const aq_identity *me = aq_trust_identity(a.trust);

    bool good = socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0 && ctx &&
                setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0 &&
                SSL_CTX_use_certificate(ctx, me->cert) == 1 &&
                SSL_CTX_use_PrivateKey(ctx, me->key) == 1 &&
                SSL_CTX_set_alpn_protos(ctx, alpn, sizeof alpn - 1) == 0;
    int fd = sv[0], theirs = sv[1];
    SSL *ssl = ctx ? SSL_new(ctx) : NULL;
    good = good && ssl && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && SSL_set_fd(ssl, fd) == 1 &&
           aq_link_over(b.net, &theirs, (struct sockaddr *)&b.addr, NULL, &link, &err) == 0;
    for (int i = 0; good && i < 20 && SSL_connect(ssl) != 1; i++)
        good = aq_link_pump(link, &err) == 0;
    struct mallinfo2 m = mallinfo2();
    size_t before = m.uordblks + m.hblkhd;
    for (int rc = 0; good && rc == 0 && n < 60000 && idle < 100;) {
        bool sent =
            SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(ssl) == 1;
        n += sent;
        idle = sent ? 0 : idle + 1;
        rc = aq_link_pump(link, &err);
        m = mallinfo2();
        most = AQ_MAX(most, AQ_MAX(m.uordblks + m.hblkhd, before) - before);
    }
    ok(good && n > 100 && most < (64u << 10),
       "%d key updates of one who does not read: %zu KiB at most (%s)", n, most / 1024, err.text);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    aq_link_free(link);
    close(fd);
}

/* ---- trust over links ------------------------------------------------------------------------ */

static node p1, p2;

static bool has_digits(node *x, const char *digits)
{
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&x->lock);
        bool has = digits[0] != 0 || x->done_in || x->done_out;
        pthread_mutex_unlock(&x->lock);
        if (has)
            return digits[0] != 0;
        poll(NULL, 0, 10);
    }
    return false;
}

static void end_pairing_of(node *from, node *to)
{
    aq_pairing_free(from->pair_out);
    aq_pairing_free(to->pair_in);
    from->pair_out = to->pair_in = NULL;
    from->done_out = to->done_in = false;
    memset(from->digits_out, 0, 7);
    memset(to->digits_in, 0, 7);
}

static void end_pairing(void)
{
    end_pairing_of(&p1, &p2);
}

static void test_pairing(void)
{
    if (!ok(node_start(&p1, top, "p1") && node_start(&p2, top, "p2") &&
                node_listen(&p2, "127.0.0.1"),
            "two PCs"))
        return;
    aq_dial d = {.purpose = AQ_FOR_PAIR};
    ok(node_dial_with(&p1, &p2, &d, false) && node_wait(&p1, &p1.done_out) &&
           p1.err_out.code == AQ_E_BUSY,
       "pairing is not open there: %s", p1.err_out.text);
    end_pairing();
    aq_net_set_open(p2.net, true, false);
    ok(node_dial_with(&p1, &p2, &d, false) && has_digits(&p1, p1.digits_out) &&
           has_digits(&p2, p2.digits_in) && strcmp(p1.digits_out, p2.digits_in) == 0 &&
           strlen(p1.digits_out) == 6,
       "the same digits on both: %s", p1.digits_out);
    aq_pairing_answer(p2.pair_in, false);
    ok(node_wait(&p1, &p1.done_out) && node_wait(&p2, &p2.done_in) &&
           p1.err_out.code == AQ_E_AUTH && p2.err_in.code == AQ_E_AUTH &&
           strstr(p1.err_out.text, "Nothing was shared") && !aq_trust_roster(p1.trust, NULL) &&
           !aq_trust_roster(p2.trust, NULL),
       "They Differ: %s", p1.err_out.text);
    end_pairing();
    ok(node_dial_with(&p1, &p2, &d, false) && has_digits(&p1, p1.digits_out) &&
           has_digits(&p2, p2.digits_in),
       "again");
    aq_pairing_answer(p1.pair_out, true);
    aq_pairing_answer(p2.pair_in, true);
    ok(node_wait(&p1, &p1.done_out) && node_wait(&p2, &p2.done_in) && p1.err_out.code == 0 &&
           p2.err_in.code == 0,
       "They Match on both: paired (%s %s)", p1.err_out.text, p2.err_in.text);
    aq_reach out1, in1, out2, in2;
    aq_pairing_reach(p1.pair_out, &out1, &in1);
    aq_pairing_reach(p2.pair_in, &out2, &in2);
    ok(out1 == AQ_REACH_ANSWERS && in1 == AQ_REACH_UNTRIED && out2 == AQ_REACH_UNTRIED,
       "who called has reached the other, and listens nowhere itself");
    aq_cred x, y;
    aq_trust_cred(p1.trust, &x);
    aq_trust_cred(p2.trust, &y);
    ok(x.in_pool && y.in_pool && memcmp(x.secret, y.secret, 32) == 0 &&
           aq_trust_perms(p1.trust, aq_trust_id(p2.trust)) == 3 &&
           aq_trust_perms(p2.trust, aq_trust_id(p1.trust)) == 3,
       "one pool, each in the other's roster");
    end_pairing();
    ok(node_dial(&p1, &p2, AQ_FOR_STEP), "and a link opens");
    node_hang_up(&p1, &p2);
    ok(node_dial_with(&p1, &p2, &d, false) && node_wait(&p1, &p1.done_out) &&
           p1.err_out.code == AQ_E_MISMATCH,
       "both in a pool: %s", p1.err_out.text);
    end_pairing();

    /* The pool is p2's (the acceptor's) now, and a third PC comes. */
    static node p3;
    ok(node_start(&p3, top, "p3"), "a third PC");
    ok(node_dial_with(&p3, &p2, &d, false) && has_digits(&p3, p3.digits_out) &&
           has_digits(&p2, p2.digits_in),
       "digits");
    aq_pairing_answer(p2.pair_in, true);
    aq_pairing_answer(p3.pair_out, true);
    ok(node_wait(&p3, &p3.done_out) && p3.err_out.code == 0 &&
           aq_trust_perms(p3.trust, aq_trust_id(p1.trust)) == 3,
       "it learns of all members (%s)", p3.err_out.text);
    ok(node_wait(&p2, &p2.done_in) && node_listen(&p1, "127.0.0.1"), "done");
    aq_pairing_reach(p2.pair_in, &out2, &in2);
    ok(in2 == AQ_REACH_ANSWERS, "who grants hears that it is reached");
    /* a PC that says it listens, where a firewall refuses (here: nobody listens), and one that does */
    static node p5;
    aq_err err = {0};
    ok(node_start(&p5, top, "p5"), "one more PC");
    for (int listens = 0; listens < 2; listens++) {
        if (listens)
            ok(node_listen(&p5, "127.0.0.1"), "it listens");
        else
            aq_net_set_port(p5.net, 9); /* discard: nobody */
        end_pairing_of(&p5, &p2);
        ok(node_dial_with(&p5, &p2, &d, false) && has_digits(&p5, p5.digits_out) &&
               has_digits(&p2, p2.digits_in),
           "digits");
        aq_pairing_answer(p2.pair_in, true);
        aq_pairing_answer(p5.pair_out, true);
        bool good =
            node_wait(&p2, &p2.done_in) && node_wait(&p5, &p5.done_out) && p2.err_in.code == 0;
        aq_pairing_reach(p2.pair_in, &out2, &in2);
        ok(good && out2 == (listens ? AQ_REACH_ANSWERS : AQ_REACH_REFUSED), "called back: %s",
           aq_reach_text(out2));
        ok(aq_trust_leave(p5.trust, &err) == 0, "it leaves");
    }
    end_pairing_of(&p5, &p2);
    node_stop(&p5);
    aq_net_set_open(p2.net, false, false);

    struct sockaddr_storage two[2] = {p1.addr, p2.addr};
    aq_net_set_open(p1.net, true, false); /* so that p3's certificate comes through TLS there */
    ok(node_dial_with(&p3, &p2, &(aq_dial){.addr = two, .n_addr = 2, .to = aq_trust_id(p2.trust)},
                      true),
       "a member, but not who is meant, has the first address: the next one (%s)", p3.out.why.text);
    aq_net_set_open(p1.net, false, false);
    node_hang_up(&p3, &p2);

    /* p1 has not heard of p3 yet: the roster comes with the next link to p2. */
    ok(aq_trust_perms(p1.trust, aq_trust_id(p3.trust)) == -1 && node_dial(&p1, &p2, AQ_FOR_STATUS),
       "a link");
    for (int i = 0; i < 1000 && aq_trust_perms(p1.trust, aq_trust_id(p3.trust)) == -1; i++)
        poll(NULL, 0, 10);
    ok(aq_trust_perms(p1.trust, aq_trust_id(p3.trust)) == 3, "brings the roster");
    node_hang_up(&p1, &p2);

    /* p2 removes p3 while p1 is away: p1 gets the new secret, p3 does not. */
    ok(aq_trust_remove(p2.trust, aq_trust_id(p3.trust), &err) == 0, "p3 is removed");
    ok(!node_dial(&p3, &p2, AQ_FOR_STEP) && node_wait_closed(&p3.out) &&
           p3.out.why.code == AQ_E_AUTH,
       "p3: %s", p3.out.why.text);
    node_hang_up(&p3, &p2);
    ok(node_dial(&p1, &p2, AQ_FOR_STEP) && aq_trust_perms(p1.trust, aq_trust_id(p3.trust)) == -1,
       "p1 is given the new secret, and calls again by itself");
    node_hang_up(&p1, &p2);

    /* By the secret typed in. */
    char text[AQ_SECRET_TEXT_MAX];
    uint8_t secret[32];
    static node p4;
    ok(node_start(&p4, top, "p4") && aq_trust_secret_text(p2.trust, text, &err) == 0 &&
           aq_secret_from_text(text, secret, &err) == 0,
       "a PC without a screen, a typed secret");
    aq_dial j = {.addr = &p2.addr, .n_addr = 1, .purpose = AQ_FOR_JOIN, .join_secret = secret};
    aq_net_set_open(p2.net, false, true);
    secret[0] ^= 1;
    ok(!node_dial_with(&p4, &p2, &j, true) && node_wait_closed(&p4.out) &&
           p4.out.why.code == AQ_E_AUTH && !aq_trust_roster(p4.trust, NULL),
       "a wrong one: %s", p4.out.why.text);
    node_hang_up(&p4, &p2);
    secret[0] ^= 1;
    ok(node_dial_with(&p4, &p2, &j, true) && aq_trust_perms(p4.trust, aq_trust_id(p2.trust)) == 3 &&
           aq_trust_perms(p2.trust, aq_trust_id(p4.trust)) == 3,
       "the right one: both know each other");
    for (int i = 0; i < 1000 && aq_trust_perms(p4.trust, aq_trust_id(p1.trust)) == -1; i++)
        poll(NULL, 0, 10);
    ok(aq_trust_perms(p4.trust, aq_trust_id(p1.trust)) == 3, "and the roster follows");
    node_hang_up(&p4, &p2);
    ok(node_dial(&p4, &p2, AQ_FOR_STEP), "an ordinary link then");
    node_hang_up(&p4, &p2);
    node_stop(&p4);
    node_stop(&p3);
    node_stop(&p1);
    node_stop(&p2);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    char cmd[300];

    snprintf(top, sizeof top, "%s/aq-link-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    if (ok(node_start(&a, top, "a") && node_start(&b, top, "b") && node_start(&c, top, "c") &&
               node_join(&a, &b) && node_listen(&b, "127.0.0.1") && node_listen(&c, "127.0.0.1"),
           "three PCs, two of them in a pool")) {
        test_open();
        test_order();
        test_refused();
        test_last_words();
        test_loss();
        test_strangers();
        test_cost();
        test_flood();
        node_stop(&a);
        node_stop(&b);
        node_stop(&c);
        test_pairing();
    }
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
