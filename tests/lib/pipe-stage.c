/* SPDX-License-Identifier: Apache-2.0 */
#include "pipe-stage.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { F_HELLO = 1, F_ERROR, F_WINDOW, F_CANCEL, F_DONE };
#define FRAME_MAX (64u << 20)
#define MOST 8u

static bool put_all(int fd, const void *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p = (const char *)p + k;
        n -= (size_t)k;
    }
    return true;
}

static bool get_all(int fd, void *p, size_t n)
{
    while (n) {
        ssize_t k = recv(fd, p, n, 0);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p = (char *)p + k;
        n -= (size_t)k;
    }
    return true;
}

/* One frame in one send. */
static bool send_frame(int fd, uint32_t kind, const aq_bytes *b)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes f = {0};
    uint32_t head[2] = {kind, (uint32_t)b->n};

    return aq_bytes_put(&f, head, sizeof head) >= 0 &&
           (!b->n || aq_bytes_put(&f, b->p, b->n) >= 0) && put_all(fd, f.p, f.n);
}

/* 1 and the payload, or 0 at the end. */
static int recv_frame(int fd, uint32_t *ret_kind, aq_bytes *b)
{
    uint32_t head[2];

    if (!get_all(fd, head, sizeof head) || head[1] > FRAME_MAX)
        return 0;
    b->n = 0;
    if (aq_bytes_reserve(b, (size_t)head[1] + 1) < 0 || !get_all(fd, b->p, head[1]))
        return 0;
    b->n = head[1];
    *ret_kind = head[0];
    return 1;
}

typedef struct win_head {
    uint64_t id;
    uint32_t epoch, n_ops, n_rows, n_back;
} win_head;
typedef struct done_head {
    uint64_t id;
    uint32_t epoch, n_back;
    int32_t rc;
    aq_err err;
} done_head;

/* ---- child ---- */

typedef struct child {
    int fd;
    uint32_t row_f32;
    aq_stage *st;
    pthread_mutex_t mu; /* of what is written to fd, and of n */
    pthread_cond_t cv;
    uint32_t n; /* windows to compute */
    bool end;
} child;

static void child_done(void *user, aq_stage *st, const aq_done *d)
{
    child *c = user;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    done_head h = {.id = d->id,
                   .epoch = d->epoch,
                   .n_back = d->rc < 0 ? 0 : d->n_back,
                   .rc = d->rc,
                   .err = d->err};

    (void)st;
    int rc = aq_bytes_put(&b, &h, sizeof h);
    if (rc >= 0 && h.n_back)
        rc = aq_bytes_put(&b, d->x, (size_t)h.n_back * c->row_f32 * sizeof *d->x);
    pthread_mutex_lock(&c->mu);
    if (rc < 0 || !send_frame(c->fd, F_DONE, &b))
        c->end = true;
    pthread_mutex_unlock(&c->mu);
}

static void child_window(child *c, const aq_bytes *b)
{
    win_head h;
    aq_cur cur = {b->p, b->n, 0};
    const uint8_t *p, *op, *row, *x;
    aq_err err = {0};
    int rc = -AQ_E_PROTO;

    if (aq_cur_get_bytes(&cur, sizeof h, &p) < 0)
        return;
    memcpy(&h, p, sizeof h);
    if (h.n_ops <= AQ_OPS_MAX && h.n_rows <= AQ_ROWS_MAX &&
        aq_cur_get_bytes(&cur, h.n_ops * sizeof(aq_op), &op) >= 0 &&
        aq_cur_get_bytes(&cur, h.n_rows * sizeof(aq_row), &row) >= 0 &&
        aq_cur_get_bytes(&cur, (size_t)h.n_rows * c->row_f32 * sizeof(float), &x) >= 0) {
        aq_window w = {.id = h.id,
                       .epoch = h.epoch,
                       .n_ops = h.n_ops,
                       .n_rows = h.n_rows,
                       .n_back = h.n_back,
                       .op = (const void *)op,
                       .row = (const void *)row,
                       .x = (const void *)x};
        rc = c->st->vt->submit(c->st, &w, &err);
    }
    if (rc < 0) { /* refused: it completes at once */
        child_done(c, c->st, &(aq_done){.id = h.id, .epoch = h.epoch, .rc = rc, .err = err});
        return;
    }
    pthread_mutex_lock(&c->mu);
    c->n++;
    pthread_cond_signal(&c->cv);
    pthread_mutex_unlock(&c->mu);
}

static void *child_read(void *arg)
{
    child *c = arg;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint32_t kind, seq;

    while (recv_frame(c->fd, &kind, &b)) {
        if (kind == F_WINDOW) {
            child_window(c, &b);
        } else if (kind == F_CANCEL && b.n == sizeof seq) {
            memcpy(&seq, b.p, sizeof seq);
            c->st->vt->cancel(c->st, seq);
        }
    }
    pthread_mutex_lock(&c->mu);
    c->end = true;
    pthread_cond_signal(&c->cv);
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

static int child_run(int fd, const pipe_cfg *cfg)
{
    child c = {.fd = fd};
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wsrc src = {0};
    aq_err err = {0};
    pthread_t reader;
    const char *path = "c";

    pthread_mutex_init(&c.mu, NULL);
    pthread_cond_init(&c.cv, NULL);
    int rc = aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = path}, &rt, &err);
    if (rc >= 0)
        rc = aq_model_open(rt, cfg->model, 0, &m, &src, &err);
    if (rc >= 0)
        rc = aq_stage_local(rt, m, &src, &(aq_place){.backend = cfg->backend}, &cfg->state, cfg->l0,
                            cfg->l1, NULL, &c.st, &err);
    if (rc < 0) {
        if (aq_bytes_puts(&b, err.text) < 0)
            return 1;
        send_frame(fd, F_ERROR, &b);
        return 1;
    }
    c.row_f32 = aq_model_get_info(m)->row_f32;
    c.st->done_cb = child_done;
    c.st->done_user = &c;
    uint32_t hello[7] = {c.st->l0,       c.st->l1,      c.st->n_page,    c.st->n_snap,
                         c.st->max_rows, c.st->max_seq, c.st->n_inflight};
    if (aq_bytes_put(&b, hello, sizeof hello) < 0 || !send_frame(fd, F_HELLO, &b) ||
        pthread_create(&reader, NULL, child_read, &c))
        return 1;
    for (;;) {
        pthread_mutex_lock(&c.mu);
        while (!c.n && !c.end)
            pthread_cond_wait(&c.cv, &c.mu);
        bool end = c.end;
        c.n -= !end;
        pthread_mutex_unlock(&c.mu);
        if (end)
            break;
        c.st->vt->work(c.st, &err);
    }
    shutdown(fd, SHUT_RDWR);
    pthread_join(reader, NULL);
    c.st->vt->close(c.st);
    aq_wsrc_close(&src);
    return 0;
}

bool pipe_stage_child(int argc, char **argv, int *ret)
{
    uint32_t v[8];

    if (argc != 12 || strcmp(argv[1], "--stage"))
        return false;
    for (int i = 0; i < 8; i++)
        v[i] = (uint32_t)strtoul(argv[4 + i], NULL, 10);
    pipe_cfg cfg = {
        .model = argv[2],
        .backend = argv[3],
        .l0 = v[1],
        .l1 = v[2],
        .state = {
            .kv_type = v[3], .n_page = v[4], .max_seq = v[5], .n_snap = v[6], .max_rows = v[7]}};
    *ret = child_run((int)v[0], &cfg);
    return true;
}

/* ---- parent ---- */

typedef struct pstage {
    aq_stage stage;
    int fd;
    pid_t pid;
    uint32_t row_f32;
    pthread_t reader;
    pthread_mutex_t mu;   /* guards what follows, never held while a frame is sent */
    pthread_mutex_t send; /* one frame at a time */
    struct {
        uint64_t id;
        uint32_t epoch;
    } q[MOST];
    uint32_t head, n, most;
    bool gone;
} pstage;

static void *parent_read(void *arg)
{
    pstage *t = arg;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint32_t kind;
    done_head h;

    while (recv_frame(t->fd, &kind, &b)) {
        if (kind != F_DONE || b.n < sizeof h)
            break;
        memcpy(&h, b.p, sizeof h);
        if (b.n != sizeof h + (size_t)h.n_back * t->row_f32 * sizeof(float))
            break;
        pthread_mutex_lock(&t->mu);
        bool known = t->n && t->q[t->head].id == h.id;
        if (known) {
            t->head = (t->head + 1) % MOST;
            t->n--;
        }
        pthread_mutex_unlock(&t->mu);
        if (!known)
            break;
        aq_done d = {.id = h.id, .epoch = h.epoch, .n_back = h.n_back, .rc = h.rc, .err = h.err};
        d.x = h.n_back ? (const float *)(b.p + sizeof h) : NULL;
        aq_stage_done(&t->stage, &d);
    }
    /* the end of the stream: whatever is under way is lost */
    for (;;) {
        pthread_mutex_lock(&t->mu);
        t->gone = true;
        bool any = t->n > 0;
        aq_done d = {.id = t->q[t->head].id, .epoch = t->q[t->head].epoch};
        if (any) {
            t->head = (t->head + 1) % MOST;
            t->n--;
        }
        pthread_mutex_unlock(&t->mu);
        if (!any)
            return NULL;
        d.rc = aq_fail(&d.err, AQ_E_GONE, "the child with layers %u to %u has gone", t->stage.l0,
                       t->stage.l1);
        aq_stage_done(&t->stage, &d);
    }
}

static int submit(aq_stage *st, const aq_window *w, aq_err *err)
{
    pstage *t = st->self;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    win_head h = {w->id, w->epoch, w->n_ops, w->n_rows, w->n_back};
    int rc = aq_bytes_put(&b, &h, sizeof h);

    if (rc >= 0 && w->n_ops)
        rc = aq_bytes_put(&b, w->op, w->n_ops * sizeof *w->op);
    if (rc >= 0 && w->n_rows && (rc = aq_bytes_put(&b, w->row, w->n_rows * sizeof *w->row)) >= 0)
        rc = aq_bytes_put(&b, w->x, (size_t)w->n_rows * t->row_f32 * sizeof *w->x);
    if (rc < 0)
        return aq_fail(err, -rc, "window");
    pthread_mutex_lock(&t->mu);
    if (t->gone)
        rc = aq_fail(err, AQ_E_GONE, "the child with layers %u to %u has gone", st->l0, st->l1);
    else if (t->n >= st->n_inflight)
        rc = aq_fail(err, AQ_E_BUSY, "%u windows are under way", t->n);
    else {
        uint32_t at = (t->head + t->n++) % MOST;
        t->q[at].id = w->id;
        t->q[at].epoch = w->epoch;
        t->most = AQ_MAX(t->most, t->n);
    }
    pthread_mutex_unlock(&t->mu);
    if (rc < 0)
        return rc;
    /* the child's reader always takes what comes; when it is gone the reader here completes the
     * window with GONE */
    pthread_mutex_lock(&t->send);
    send_frame(t->fd, F_WINDOW, &b);
    pthread_mutex_unlock(&t->send);
    return 0;
}

static void cancel(aq_stage *st, uint32_t seq)
{
    pstage *t = st->self;
    aq_bytes b = {.p = (uint8_t *)&seq, .n = sizeof seq};

    pthread_mutex_lock(&t->send);
    send_frame(t->fd, F_CANCEL, &b);
    pthread_mutex_unlock(&t->send);
}

static void close_stage(aq_stage *st)
{
    pstage *t = st->self;

    pipe_stage_stop(st, false);
    shutdown(t->fd, SHUT_RDWR);
    pthread_join(t->reader, NULL);
    close(t->fd);
    waitpid(t->pid, NULL, 0);
    pthread_mutex_destroy(&t->mu);
    pthread_mutex_destroy(&t->send);
    free(t);
}

static const aq_stage_vt vt = {submit, NULL, cancel, close_stage};

aq_stage *pipe_stage(const pipe_cfg *cfg, uint32_t row_f32, aq_err *err)
{
    int fd[2];
    char arg[8][16];
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint32_t kind = 0, hello[7];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        return aq_fail_errno(err, errno, "socketpair"), NULL;
    const uint32_t v[8] = {(uint32_t)fd[1],   cfg->l0,
                           cfg->l1,           cfg->state.kv_type,
                           cfg->state.n_page, cfg->state.max_seq,
                           cfg->state.n_snap, cfg->state.max_rows};
    for (int i = 0; i < 8; i++)
        snprintf(arg[i], sizeof arg[i], "%u", v[i]);
    pid_t pid = fork();
    if (pid == 0) {
        /* between fork and exec only what is safe there; fd[1] alone stays open */
        char *const args[] = {(char *)"stage",
                              (char *)"--stage",
                              (char *)cfg->model,
                              (char *)cfg->backend,
                              arg[0],
                              arg[1],
                              arg[2],
                              arg[3],
                              arg[4],
                              arg[5],
                              arg[6],
                              arg[7],
                              NULL};
        int keep = dup(fd[1]);
        dup2(keep, fd[1]); /* clears close-on-exec */
        close(keep);
        execv("/proc/self/exe", args);
        _exit(127);
    }
    close(fd[1]);
    pstage *t = calloc(1, sizeof *t);
    if (pid < 0 || !t || !recv_frame(fd[0], &kind, &b) || kind != F_HELLO || b.n != sizeof hello) {
        aq_fail(err, AQ_E_GONE, "no stage in the child: %.*s", kind == F_ERROR ? (int)b.n : 0,
                b.p ? (const char *)b.p : "");
        close(fd[0]);
        if (pid > 0)
            waitpid(pid, NULL, 0);
        free(t);
        return NULL;
    }
    memcpy(hello, b.p, sizeof hello);
    t->fd = fd[0];
    t->pid = pid;
    t->row_f32 = row_f32;
    t->stage = (aq_stage){.vt = &vt,
                          .self = t,
                          .l0 = hello[0],
                          .l1 = hello[1],
                          .n_page = hello[2],
                          .n_snap = hello[3],
                          .max_rows = hello[4],
                          .max_seq = hello[5],
                          .n_inflight = AQ_MIN(hello[6], MOST)};
    pthread_mutex_init(&t->mu, NULL);
    pthread_mutex_init(&t->send, NULL);
    if (pthread_create(&t->reader, NULL, parent_read, t)) {
        aq_fail(err, AQ_E_NOMEM, "no thread");
        close(fd[0]);
        waitpid(pid, NULL, 0);
        free(t);
        return NULL;
    }
    return &t->stage;
}

void pipe_stage_kill(aq_stage *st)
{
    kill(((pstage *)st->self)->pid, SIGKILL);
}

void pipe_stage_stop(aq_stage *st, bool stop)
{
    kill(((pstage *)st->self)->pid, stop ? SIGSTOP : SIGCONT);
}

int pipe_stage_pid(const aq_stage *st)
{
    return ((pstage *)st->self)->pid;
}

static uint32_t counted(aq_stage *st, bool most)
{
    pstage *t = st->self;

    pthread_mutex_lock(&t->mu);
    uint32_t n = most ? t->most : t->n;
    pthread_mutex_unlock(&t->mu);
    return n;
}

uint32_t pipe_stage_waiting(aq_stage *st)
{
    return counted(st, false);
}

uint32_t pipe_stage_most(aq_stage *st)
{
    return counted(st, true);
}
