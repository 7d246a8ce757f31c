/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a split whose stages compute nothing (paced-stage.h): for gates on what the pool itself
 * costs. Each command is a process of its own, on a PC of its own.
 *
 * usage: split-bench twins DIR                                    two identities of one pool
 *        split-bench worker DIR MODEL ADDR WINDOW-US ROW-US       on port 7710 and, for echoes, 7711
 *        split-bench hop DIR MODEL ADDR N                         one row there and back, and a TCP echo
 *        split-bench pipeline DIR MODEL ADDR WINDOW-US ROW-US CHUNK N-CHUNK N-GEN ROUNDS
 *
 * Results are one JSON object; times in microseconds. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "paced-stage.h"
#include "split-priv.h"

#define ECHO_PORT (AQ_POOL_PORT + 1)
#define MSG_MAX (1u << 20)

typedef struct bench {
    aq_trust *trust;
    aq_net *net;
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    const aq_model_info *in;
    struct sockaddr_storage addr, echo;
    pace pace;
} bench;

static int die(const char *where, const aq_err *err)
{
    fprintf(stderr, "split-bench: %s: %s\n", where, err->text);
    return 2;
}

static int make(void *user, const aq_model *m, const aq_state_cfg *sc, uint32_t l0, uint32_t l1,
                aq_stage **ret, aq_err *err)
{
    aq_stage *st = paced_stage(m, sc, l0, l1, ((const bench *)user)->pace);

    if (!st)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a stage");
    *ret = st;
    return 0;
}

static int open_bench(bench *b, const char *dir, const char *who, const char *model,
                      const char *addr, aq_err *err)
{
    char path[4096];
    int rc;

    snprintf(path, sizeof path, "%s/%s", dir, who);
    if ((rc = aq_trust_open(path, "bench", NULL, &b->trust, err)) < 0 ||
        (rc = aq_net_new(b->trust, "bench 1", AQ_FEAT_SPLIT, &b->net, err)) < 0 ||
        (rc = aq_rt_new(&(aq_rt_cfg){.n_threads = 1}, &b->rt, err)) < 0 ||
        (rc = aq_model_open(b->rt, model, 0, &b->m, &b->src, err)) < 0 ||
        (rc = aq_addr_parse(addr, AQ_POOL_PORT, &b->addr, err)) < 0)
        return rc;
    b->in = aq_model_get_info(b->m);
    return aq_addr_parse(addr, ECHO_PORT, &b->echo, err);
}

/* ---- a TCP echo, as plain as can be ---------------------------------------------------------- */

static bool all(int fd, uint8_t *p, size_t n, bool out)
{
    while (n) {
        ssize_t k = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void *echo(void *arg)
{
    static uint8_t buf[MSG_MAX];
    const struct sockaddr_storage *at = arg;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)at, sizeof(struct sockaddr_in)) < 0 ||
        listen(fd, 1) < 0) {
        fprintf(stderr, "split-bench: echo: %s\n", strerror(errno));
        exit(2);
    }
    for (;;) {
        uint32_t n;
        int c = accept(fd, NULL, NULL);
        setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (all(c, (uint8_t *)&n, sizeof n, false) && n <= MSG_MAX)
            while (all(c, buf, n, false) && all(c, buf, n, true))
                ;
        close(c);
    }
    return NULL;
}

static int accept_cb(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    return aq_worker_accept(user, link, ret_cb, err);
}

static int serve(char **v)
{
    bench b = {.pace = {strtod(v[3], NULL), strtod(v[4], NULL)}};
    const char *dir = v[1];
    aq_worker *w = NULL;
    aq_listener *l = NULL;
    pthread_t t;
    aq_err err = {0};
    int rc = open_bench(&b, v[0], "there", v[1], v[2], &err);
    aq_worker_cfg wc = {
        .rt = b.rt, .trust = b.trust, .dir = &dir, .n_dir = 1, .make = make, .user = &b};

    if (rc < 0 || aq_worker_new(&wc, &w, &err) < 0 ||
        aq_listener_new(b.net, &b.addr, 1, accept_cb, w, &l, &err) < 0)
        return die("worker", &err);
    if (pthread_create(&t, NULL, echo, &b.echo))
        return 2;
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

/* ---- one hop --------------------------------------------------------------------------------- */

typedef struct hand {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;
    int rc;
} hand;

/* As the engine takes completions: a copy under a lock, and a signal to the step thread. */
static void hand_done(void *user, aq_stage *st, const aq_done *d)
{
    hand *h = user;

    (void)st;
    pthread_mutex_lock(&h->mu);
    h->done = true;
    h->rc = d->rc;
    pthread_cond_signal(&h->cv);
    pthread_mutex_unlock(&h->mu);
}

static int remote_at(const bench *b, uint32_t l0, const aq_state_cfg *sc, aq_stage **ret,
                     aq_err *err)
{
    aq_remote_cfg rc = {.net = b->net,
                        .addr = &b->addr,
                        .n_addr = 1,
                        .epoch = 1,
                        .l0 = l0,
                        .l1 = b->in->n_layer,
                        .row_f32 = b->in->row_f32,
                        .state = *sc};
    int e = aq_model_fingerprint(b->m, &b->src, rc.model, err);

    e = e < 0 ? e : aq_remote_dial(&rc, ret, err);
    return e < 0 ? e : aq_remote_wait(*ret, NULL, err);
}

static int64_t one_window(hand *h, aq_stage *st, const float *x, uint32_t pos)
{
    static const aq_op keep = {.kind = AQ_OP_KEEP};
    aq_row row = {.pos = pos, .flags = AQ_ROW_LOGITS};
    aq_window w = {.id = pos + 1,
                   .n_ops = pos == 0,
                   .op = &keep,
                   .n_rows = 1,
                   .n_back = 1,
                   .row = &row,
                   .x = x};
    aq_err err = {0};

    h->done = false;
    int64_t t0 = aq_now_us();
    if (st->vt->submit(st, &w, &err) < 0)
        return -1;
    pthread_mutex_lock(&h->mu);
    while (!h->done)
        pthread_cond_wait(&h->cv, &h->mu);
    pthread_mutex_unlock(&h->mu);
    return h->rc < 0 ? -1 : aq_now_us() - t0;
}

static int64_t one_echo(int fd, uint8_t *buf, size_t n)
{
    int64_t t0 = aq_now_us();

    return all(fd, buf, n, true) && all(fd, buf, n, false) ? aq_now_us() - t0 : -1;
}

static void print_list(const char *name, const int64_t *v, uint32_t n)
{
    printf("\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%lld", i ? "," : "", (long long)v[i]);
    printf("]");
}

static int hop(char **v)
{
    bench b = {0};
    hand h = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
    aq_state_cfg sc = {.n_page = 4, .max_seq = 2, .n_snap = 2, .max_rows = 32};
    uint32_t n = (uint32_t)strtoul(v[3], NULL, 10), warm = 50;
    aq_stage *st = NULL;
    aq_err err = {0};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (open_bench(&b, v[0], "here", v[1], v[2], &err) < 0 || remote_at(&b, 1, &sc, &st, &err) < 0)
        return die("hop", &err);
    uint32_t bytes = b.in->row_f32 * 4 + 86; /* of a WINDOW on the wire */
    float *x = calloc(b.in->row_f32, sizeof *x);
    uint8_t *buf = calloc(bytes, 1);
    int64_t *tw = calloc(n, sizeof *tw), *te = calloc(n, sizeof *te);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!x || !buf || !tw || !te ||
        connect(fd, (const struct sockaddr *)&b.echo, sizeof(struct sockaddr_in)) < 0 ||
        !all(fd, (uint8_t *)&bytes, sizeof bytes, true))
        return 2;
    st->done_cb = hand_done;
    st->done_user = &h;
    for (uint32_t i = 0; i < n + warm; i++) { /* alternating: both meet the same machine */
        int64_t w = one_window(&h, st, x, i), e = one_echo(fd, buf, bytes);
        if (w < 0 || e < 0)
            return 2;
        if (i >= warm) {
            tw[i - warm] = w;
            te[i - warm] = e;
        }
    }
    printf("{\"bytes\":%u,", bytes);
    print_list("window", tw, n);
    printf(",");
    print_list("echo", te, n);
    printf("}\n");
    st->vt->close(st);
    return 0;
}

/* ---- pipeline -------------------------------------------------------------------------------- */

typedef struct ask {
    aq_req *r;
    int fd;
    bool done;
    int rc;
    aq_usage usage;
} ask;

static void wake(void *user)
{
    uint64_t one = 1;

    (void)!write(((ask *)user)->fd, &one, sizeof one);
}

static void take(ask *a)
{
    aq_event ev;

    while (!a->done && aq_req_pop(a->r, &ev)) {
        if (ev.kind == AQ_EV_USAGE)
            a->usage = *ev.usage;
        a->done = ev.kind == AQ_EV_DONE || ev.kind == AQ_EV_ERROR;
        if (ev.kind == AQ_EV_ERROR)
            a->rc = -1;
    }
}

/* n chats at once; the time from submitting until all have ended. */
static int64_t chats(aq_engine *e, ask *a, uint32_t n, uint32_t n_prompt, uint32_t n_gen,
                     uint32_t salt)
{
    int32_t *tok = calloc(n_prompt, sizeof *tok);
    int64_t t0 = aq_now_us();
    bool all_done = false;
    aq_err err = {0};

    for (uint32_t k = 0; k < n; k++) {
        a[k] = (ask){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        for (uint32_t i = 0; i < n_prompt; i++)
            tok[i] = (int32_t)((i * 7 + (salt + k) * 131 + i / 200 * k) % 250);
        aq_req_in in = {
            .tok = tok, .n_tok = n_prompt, .max_tok = n_gen, .sampling = {.ignore_eog = true}};
        if (aq_submit(e, &in, wake, &a[k], &a[k].r, &err) < 0)
            return -1;
    }
    while (!all_done) {
        struct pollfd p[2];
        uint64_t w;
        for (uint32_t k = 0; k < n; k++)
            p[k] = (struct pollfd){.fd = a[k].fd, .events = POLLIN};
        poll(p, n, -1);
        all_done = true;
        for (uint32_t k = 0; k < n; k++) {
            (void)!read(a[k].fd, &w, sizeof w);
            take(&a[k]);
            all_done = all_done && a[k].done;
        }
    }
    int64_t us = aq_now_us() - t0;
    for (uint32_t k = 0; k < n; k++) {
        us = a[k].rc < 0 ? -1 : us;
        aq_req_free(a[k].r);
        close(a[k].fd);
    }
    free(tok);
    return us;
}

static int pipeline(char **v)
{
    bench b = {.pace = {strtod(v[3], NULL), strtod(v[4], NULL)}};
    uint32_t chunk = (uint32_t)strtoul(v[5], NULL, 10), n_chunk = (uint32_t)strtoul(v[6], NULL, 10),
             n_gen = (uint32_t)strtoul(v[7], NULL, 10), rounds = (uint32_t)strtoul(v[8], NULL, 10);
    aq_state_cfg sc = {.n_page = 64, .max_seq = 16, .n_snap = 2, .max_rows = chunk + 4};
    aq_stage *st[2] = {NULL, NULL};
    aq_engine *e = NULL;
    aq_err err = {0};
    ask a[2];

    if (open_bench(&b, v[0], "here", v[1], v[2], &err) < 0)
        return die("pipeline", &err);
    uint32_t cut = b.in->n_layer / 2;
    if (!(st[0] = paced_stage(b.m, &sc, 0, cut, b.pace)) ||
        remote_at(&b, cut, &sc, &st[1], &err) < 0)
        return die("pipeline", &err);
    aq_engine_cfg ec = {
        .n_ctx = 2048, .n_parallel = 2, .chunk_tok = chunk, .stage = st, .n_stage = 2};
    if (aq_engine_new(b.rt, b.m, &b.src, &ec, &e, &err) < 0)
        return die("pipeline", &err);
    int64_t *t = calloc(rounds * 3u, sizeof *t);
    if (!t || chats(e, a, 2, 8, 8, 1) < 0) /* warm */
        return 2;
    for (uint32_t i = 0; i < rounds; i++) {
        if (chats(e, a, 1, 4, n_gen, 10 * i + 2) < 0)
            return 2;
        t[i] = a[0].usage.gen_us;
        if (chats(e, a, 2, 4, n_gen, 10 * i + 4) < 0)
            return 2;
        t[rounds + i] = AQ_MAX(a[0].usage.gen_us, a[1].usage.gen_us);
        if (chats(e, a, 1, chunk * n_chunk, 1, 10 * i + 6) < 0)
            return 2;
        t[2 * rounds + i] = a[0].usage.prompt_us;
    }
    printf("{\"layers_here\":%u,\"layers_there\":%u,", cut, b.in->n_layer - cut);
    print_list("one", t, rounds);
    printf(",");
    print_list("two", t + rounds, rounds);
    printf(",");
    print_list("prompt", t + 2u * rounds, rounds);
    printf("}\n");
    aq_engine_free(e);
    return 0;
}

int main(int argc, char **argv)
{
    const char *cmd = argc > 2 ? argv[1] : "";
    aq_trust *a = NULL, *b = NULL;
    aq_err err = {0};

    if (!strcmp(cmd, "twins") && argc == 3)
        return aq_check_twins(argv[2], &a, &b, &err) < 0 ? die("twins", &err) : 0;
    if (!strcmp(cmd, "worker") && argc == 7)
        return serve(argv + 2);
    if (!strcmp(cmd, "hop") && argc == 6)
        return hop(argv + 2);
    if (!strcmp(cmd, "pipeline") && argc == 11)
        return pipeline(argv + 2);
    fprintf(stderr, "split-bench: see the head of its source for what it takes\n");
    return 2;
}
