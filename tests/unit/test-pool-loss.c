/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a reply when a PC or the network fails: each row and column of docs/POOL.md, *When something fails*. A
 * disturbed reply must end with the whole token list of one that one PC gave alone.
 *
 *   this process: coordinator ── relay (tests/lib) ── worker, here too or in a child of its own
 *   row 4:        worker ─────── relay ───────────── coordinator in a child
 *
 * Children are killed and suspended for real. The clock of each process stands still and is moved: what is noticed without moving it was
 * noticed at once. The point in a reply is a number of bytes that the relay lets through, so that it is the same each time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chat.h"
#include "gguf-write.h"
#include "pool-node.h"
#include "relay.h"
#include "split-priv.h"
#include "tap.h"

#define N_PROMPT 150u
#define N_GEN 40u
#define NOTICE_US 2000000ll /* how late a loss may be noticed */
#define HANG_S 120          /* a limit against hanging */

enum fault { KILL_WORKER, CUT_CABLE, STOP_WORKER, KILL_COORDINATOR, SLOW_LINK, LOSE_PACKETS };
enum phase { PREFILL, DECODE, IDLE, LOADING };
static const char *const fault_names[] = {
    "worker killed",      "cable cut", "worker suspended 20 s",
    "coordinator killed", "slow link", "packets lost"};
static const char *const phase_names[] = {"reading the prompt", "answering", "idle", "loading"};

typedef struct rig {
    const char *arch;
    char path[300];
    aq_model *m;
    aq_wsrc src;
    int32_t tok[N_PROMPT], want[N_GEN];
    uint64_t at[2]; /* bytes from opening to the middle of the prompt, of the answer */
} rig;

static char top[200];
static node a, b; /* Studio PC (coordinator), Laptop (worker) */
static aq_rt *rt;
static rig rigs[3];

static int64_t real_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* Until cond, by a clock that goes. */
#define until(cond)                                \
    ({                                             \
        int64_t end_ = real_s() + HANG_S;          \
        bool is_;                                  \
        while (!(is_ = (cond)) && real_s() < end_) \
            poll(NULL, 0, 2);                      \
        is_;                                       \
    })

static aq_engine_cfg engine_cfg(void)
{
    return (aq_engine_cfg){
        .place = {.backend = "cpu"}, .n_ctx = 512, .n_parallel = 2, .n_page = 8, .chunk_tok = 32};
}

static bool open_model(rig *r)
{
    aq_err err = {0};

    if (aq_model_open(rt, r->path, 0, &r->m, &r->src, &err) < 0) {
        printf("# %s\n", err.text);
        return false;
    }
    for (uint32_t i = 0; i < N_PROMPT; i++)
        r->tok[i] = (int32_t)(((i * 2246822519u) >> 7) % aq_model_get_info(r->m)->n_vocab);
    return true;
}

static void ask(chat *c, aq_engine *e, const rig *r)
{
    *c = (chat){0};
    chat_start_tok(c, e, r->tok, N_PROMPT, N_GEN);
}

static bool right(chat *c, const rig *r)
{
    bool good = chat_wait(c) && c->n_tok == N_GEN && !memcmp(c->tok, r->want, sizeof r->want);

    if (!good)
        printf("# %u tokens, %s\n", c->n_tok, c->err.text);
    return good;
}

static aq_node *serve(const char *path)
{
    const char *dir[] = {path}, *bind[] = {"127.0.0.1"};
    aq_node_cfg nc = {.rt = rt,
                      .trust = b.trust,
                      .app = "test 1",
                      .backend = "cpu",
                      .dir = dir,
                      .n_dir = 1,
                      .bind = bind,
                      .n_bind = 1};
    aq_node *n = NULL;
    aq_err err = {0};

    if (aq_node_new(&nc, &n, &err) < 0)
        printf("# %s\n", err.text);
    return n;
}

static int split_open(const rig *r, uint16_t port, aq_split **ret, aq_err *err)
{
    char addr[64];
    const char *addrs[] = {addr};
    aq_split_cfg sc = {.rt = rt,
                       .trust = a.trust,
                       .model = r->m,
                       .src = &r->src,
                       .app = "test 1",
                       .addr = addrs,
                       .n_addr = 1,
                       .cut = 1,
                       .engine = engine_cfg()};

    snprintf(addr, sizeof addr, "127.0.0.1:%u", port);
    *err = (aq_err){0};
    return aq_split_open(&sc, ret, err);
}

/* ---- the other process ------------------------------------------------------------------------- */

/* Lines on stdin: "state", "clock US", "chat", "go" (loading goes on). */
static int child_main(const char *role, const char *path, uint16_t port)
{
    aq_err err = {0};
    aq_node *n = NULL;
    aq_split *s = NULL;
    char line[64];
    rig r = {0};
    chat c = {0};
    bool worker = !strncmp(role, "worker", 6);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    aq_clock_set(aq_now_us());
    snprintf(r.path, sizeof r.path, "%s", path);
    if (aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &rt, &err) < 0 ||
        !node_start(worker ? &b : &a, top, worker ? "Laptop" : "Studio PC"))
        return 1;
    if (!strcmp(role, "worker-stands"))
        aq_failpoint_set("worker-load-stands", 1, UINT32_MAX);
    if (worker ? !(n = serve(path)) : !open_model(&r) || split_open(&r, port, &s, &err) < 0) {
        fprintf(stderr, "# %s: %s\n", role, err.text);
        return 1;
    }
    printf("%u\n", worker ? aq_node_port(n) : 1);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        aq_node_state st = {0};
        if (!strncmp(line, "clock ", 6))
            aq_clock_advance(atoll(line + 6));
        else if (!strcmp(line, "chat\n"))
            ask(&c, aq_split_engine(s), &r);
        else if (!strcmp(line, "go\n"))
            aq_failpoint_set("worker-load-stands", 0, 0);
        else if (!strcmp(line, "state\n"))
            aq_node_get_state(n, &st);
        printf("%d %llu\n", st.who[0] != 0, (unsigned long long)st.n_load);
        fflush(stdout);
    }
    if (c.req)
        chat_end(&c);
    aq_split_free(s);
    aq_node_free(n);
    aq_wsrc_close(&r.src);
    aq_model_free(r.m);
    node_stop(worker ? &b : &a);
    aq_rt_free(rt);
    return 0;
}

typedef struct child {
    pid_t pid;
    FILE *to, *from;
    uint16_t port;
} child;

static bool child_start(child *k, const char *role, const rig *r, uint16_t port)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    char num[16], line[64] = "";

    *k = (child){0};
    snprintf(num, sizeof num, "%u", port);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        return false;
    k->pid = fork();
    if (k->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/proc/self/exe", "test-pool-loss", role, top, r->path, num, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    k->to = fdopen(in[1], "w");
    k->from = fdopen(out[0], "r");
    /* a coordinator says its first word when it has opened */
    if (!strncmp(role, "worker", 6) && fgets(line, sizeof line, k->from))
        k->port = (uint16_t)atoi(line);
    return k->pid > 0 && k->to && k->from && (k->port || port);
}

/* What it answers, "" when it is gone. */
static void child_say(child *k, const char *what, char ret[64])
{
    ret[0] = 0;
    if (fprintf(k->to, "%s\n", what) > 0 && fflush(k->to) == 0 && !fgets(ret, 64, k->from))
        ret[0] = 0;
}

static bool child_is_owned(child *k)
{
    char line[64];

    child_say(k, "state", line);
    return line[0] == '1';
}

/* sig 0: it ends by itself. True when it ended as it should. */
static bool child_end(child *k, int sig)
{
    int status = 0;

    if (!k->pid)
        return false;
    if (sig)
        kill(k->pid, sig);
    if (k->to)
        fclose(k->to);
    while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (k->from)
        fclose(k->from);
    *k = (child){0};
    return sig ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- one case ---------------------------------------------------------------------------------- */

typedef struct kase {
    const rig *r;
    enum fault fault;
    enum phase phase;
    relay *cable;
    aq_node *n; /* the worker is here */
    child k;    /* or there; or the coordinator is */
    aq_split *s;
    chat c;
    char name[80];
} kase;

static bool is(kase *k, uint32_t kind)
{
    aq_split_state st;

    aq_split_get_state(k->s, &st);
    return st.kind == kind;
}

/* Hold the reply at its point: reading the prompt, or answering. e NULL: the child asks. */
static bool at_point(kase *k, aq_engine *e)
{
    char line[64];

    relay_hold_at(k->cable, RELAY_THERE,
                  relay_bytes(k->cable, RELAY_THERE) + k->r->at[k->phase == DECODE]);
    if (!e) {
        child_say(&k->k, "chat", line);
        return until(relay_is_held(k->cable, RELAY_THERE));
    }
    ask(&k->c, e, k->r);
    bool good = until(relay_is_held(k->cable, RELAY_THERE));
    chat_pop_all(&k->c);
    return good && (k->phase == DECODE ? k->c.n_tok > 0 && k->c.n_tok < N_GEN : !k->c.n_tok);
}

static void hold_off(kase *k)
{
    relay_hold_at(k->cable, RELAY_THERE, RELAY_OPEN);
}

/* The worker, wherever it is in this case, and a cable to it. */
static bool start_worker(kase *k, bool stands)
{
    bool apart = k->fault == KILL_WORKER || k->fault == STOP_WORKER;

    if (apart) {
        if (!child_start(&k->k, stands ? "worker-stands" : "worker", k->r, 0))
            return false;
    } else if (!k->n) {
        aq_failpoint_set("worker-load-stands", stands, UINT32_MAX);
        if (!(k->n = serve(k->r->path)))
            return false;
    }
    uint16_t port = apart ? k->k.port : aq_node_port(k->n);
    if (!k->cable)
        k->cable = relay_start(port);
    else
        relay_to(k->cable, port);
    return k->cable != NULL;
}

static bool worker_is_owned(kase *k)
{
    aq_node_state st;

    if (!k->n)
        return child_is_owned(&k->k);
    aq_node_get_state(k->n, &st);
    return st.who[0] != 0;
}

static void load_goes_on(kase *k)
{
    char line[64];

    if (k->n)
        aq_failpoint_set("worker-load-stands", 0, 0);
    else if (k->k.pid)
        child_say(&k->k, "go", line);
}

/* Silence from now on: first half a second, so that the coordinator's heartbeat shows that it has read all that was said before. */
static bool silence(kase *k, bool (*noticed)(kase *))
{
    uint64_t n = relay_came(k->cable, RELAY_THERE);

    aq_clock_advance(AQ_LINK_BEAT_US);
    if (!until(relay_came(k->cable, RELAY_THERE) > n))
        return false;
    aq_clock_advance(NOTICE_US - AQ_LINK_BEAT_US);
    return until(noticed(k));
}

/* What happens, up to where the loss has been noticed. noticed() by this side. */
static bool happen(kase *k, bool (*noticed)(kase *))
{
    bool good;

    switch (k->fault) {
    case KILL_WORKER:
        good = child_end(&k->k, SIGKILL);
        return until(noticed(k)) && good; /* the clock stands still: at once */
    case CUT_CABLE:
        relay_cut(k->cable, true);
        return silence(k, noticed);
    case STOP_WORKER:
        good = kill(k->k.pid, SIGSTOP) == 0 && waitpid(k->k.pid, NULL, WUNTRACED) == k->k.pid;
        relay_round(k->cable);
        return silence(k, noticed) && good;
    case KILL_COORDINATOR:
    case SLOW_LINK:
    case LOSE_PACKETS:
        break;
    }
    return false;
}

/* And how it ends: the worker is back. */
static bool mend(kase *k)
{
    char line[64];

    hold_off(k);
    switch (k->fault) {
    case KILL_WORKER:
        return start_worker(k, false);
    case CUT_CABLE:
        relay_cut(k->cable, false);
        return true;
    case STOP_WORKER:
        aq_clock_advance(20000000 - NOTICE_US);
        if (kill(k->k.pid, SIGCONT) < 0)
            return false;
        child_say(&k->k, "clock 20000000", line);
        load_goes_on(k);
        return line[0] != 0;
    case KILL_COORDINATOR:
    case SLOW_LINK:
    case LOSE_PACKETS:
        break;
    }
    return false;
}

static bool is_lost(kase *k)
{
    return is(k, AQ_SPLIT_LOST);
}

/* Rows 1 to 3, not while loading: noticed, the reply waits, and goes on when it is mended. */
static void lose(kase *k)
{
    aq_split_state st;
    aq_err err = {0};
    bool busy = k->phase != IDLE;

    if (!ok(start_worker(k, false) && split_open(k->r, relay_port(k->cable), &k->s, &err) >= 0,
            "%s: split %s", k->name, err.text))
        return;
    if (busy)
        ok(at_point(k, aq_split_engine(k->s)), "%s: in the middle of it", k->name);
    uint32_t had = k->c.n_tok;
    ok(happen(k, is_lost), "%s: noticed in time", k->name);
    aq_split_get_state(k->s, &st);
    ok(strstr(st.text, "Laptop") && !strstr(st.text, "crash"), "%s: it says who: %s", k->name,
       st.text);
    if (busy) {
        chat_pop_all(&k->c);
        ok(k->c.n_tok == had && !k->c.n_done && !k->c.n_error, "%s: the reply waits", k->name);
    } else {
        ask(&k->c, aq_split_engine(k->s), k->r);
    }
    ok(mend(k) && right(&k->c, k->r), "%s: it goes on with the same tokens", k->name);
    ok(until(is(k, AQ_SPLIT_RUNNING)), "%s: over both PCs", k->name);
    chat_end(&k->c);
}

typedef struct opening {
    const kase *k;
    pthread_t thread;
    aq_split *s;
    atomic_int rc; /* 1 = not yet */
    aq_err err;
} opening;

static void *open_main(void *arg)
{
    opening *o = arg;

    atomic_store(&o->rc, split_open(o->k->r, relay_port(o->k->cable), &o->s, &o->err));
    return NULL;
}

static opening first; /* the opening of a chat, on a thread: it blocks while loading */

static bool open_failed(kase *k)
{
    (void)k;
    return atomic_load(&first.rc) < 0;
}

static bool begin_open(kase *k)
{
    first = (opening){.k = k, .rc = 1};
    return start_worker(k, true) && pthread_create(&first.thread, NULL, open_main, &first) == 0 &&
           until(worker_is_owned(k));
}

/* The same while the worker loads: at the start of a chat, then after a loss. */
static void lose_loading(kase *k)
{
    aq_err err = {0};

    if (!ok(begin_open(k), "%s: the worker is loading", k->name))
        return;
    ok(happen(k, open_failed), "%s: noticed in time", k->name);
    pthread_join(first.thread, NULL);
    ok(strstr(first.err.text, "Laptop") != NULL, "%s: an error that names it: %s", k->name,
       first.err.text);
    if (k->n) {
        ok(until(!worker_is_owned(k)), "%s: the worker stops loading", k->name);
        load_goes_on(k);
    }
    ok(mend(k) && split_open(k->r, relay_port(k->cable), &k->s, &err) >= 0,
       "%s: the next chat opens %s", k->name, err.text);
    if (!k->s)
        return;
    ask(&k->c, aq_split_engine(k->s), k->r);
    ok(right(&k->c, k->r), "%s: with the same tokens", k->name);
    chat_end(&k->c);
    if (k->fault != KILL_WORKER)
        return;
    /* killed, and killed again while it loads what it lost */
    ok(child_end(&k->k, SIGKILL) && until(is_lost(k)), "%s: after a loss", k->name);
    ask(&k->c, aq_split_engine(k->s), k->r);
    ok(start_worker(k, true) && until(worker_is_owned(k)), "%s: loading again", k->name);
    ok(child_end(&k->k, SIGKILL) && start_worker(k, false) && right(&k->c, k->r),
       "%s: tried again, with the same tokens", k->name);
    chat_end(&k->c);
}

/* Row 4: the worker is free at once, keeps its layers, and serves the same PC when it is back. */
static void lose_coordinator(kase *k)
{
    aq_node_state st = {0};
    aq_err err = {0};
    char line[64] = "1";
    bool loading = k->phase == LOADING;

    if (!ok(start_worker(k, loading) &&
                child_start(&k->k, "coordinator", k->r, relay_port(k->cable)) &&
                (loading || fgets(line, sizeof line, k->k.from)) && until(worker_is_owned(k)),
            "%s: split", k->name))
        return;
    if (k->phase == PREFILL || k->phase == DECODE)
        ok(at_point(k, NULL), "%s: in the middle of it", k->name);
    ok(child_end(&k->k, SIGKILL) && until(!worker_is_owned(k)), "%s: the worker is free at once",
       k->name);
    hold_off(k);
    load_goes_on(k);
    ok(split_open(k->r, relay_port(k->cable), &k->s, &err) >= 0, "%s: and serves it again %s",
       k->name, err.text);
    if (!k->s)
        return;
    aq_node_get_state(k->n, &st);
    ok(st.n_load == 1, "%s: its layers were read once", k->name);
    ask(&k->c, aq_split_engine(k->s), k->r);
    ok(right(&k->c, k->r), "%s: the same tokens", k->name);
    chat_end(&k->c);
}

/* Rows 5 and 6: later, and nothing else. */
static void slow(kase *k)
{
    static const relay_pace paces[] = {{.piece = 96, .each = 1, .late_us = 500000, .n_steps = 12},
                                       {.piece = 256, .each = 5, .late_us = 600000, .n_steps = 6}};
    bool loading = k->phase == LOADING, quiet = loading || k->phase == IDLE;
    relay_pace pace = paces[k->fault == LOSE_PACKETS];
    aq_split_state st;
    aq_err err = {0};
    aq_node_state ns;

    int rc = loading ? (begin_open(k) ? 0 : -1)
                     : (start_worker(k, false) ? split_open(k->r, relay_port(k->cable), &k->s, &err)
                                               : -1);
    if (!ok(rc >= 0, "%s: split %s", k->name, err.text))
        return;
    int64_t t0 = aq_now_us();
    if (quiet) /* heartbeats only, and they come because one was late */
        pace.each = 1;
    if (loading) {
        relay_slow(k->cable, RELAY_BACK, &pace);
        aq_clock_advance(AQ_LINK_BEAT_US); /* the first heartbeats: there is something to send */
        bool all = until(relay_steps_left(k->cable) == 0);
        load_goes_on(k);
        pthread_join(first.thread, NULL);
        k->s = first.s;
        ok(all && first.rc >= 0, "%s: loaded all the same %s", k->name, first.err.text);
        if (!k->s)
            return;
        ask(&k->c, aq_split_engine(k->s), k->r);
    } else if (k->phase == IDLE) {
        relay_slow(k->cable, RELAY_THERE, &pace);
        aq_clock_advance(AQ_LINK_BEAT_US);
        ok(until(relay_steps_left(k->cable) == 0), "%s: heartbeats come late", k->name);
        ask(&k->c, aq_split_engine(k->s), k->r);
    } else {
        ok(at_point(k, aq_split_engine(k->s)), "%s: in the middle of it", k->name);
        relay_slow(k->cable, RELAY_THERE, &pace);
        hold_off(k);
    }
    ok(right(&k->c, k->r), "%s: the same tokens", k->name);
    aq_split_get_state(k->s, &st);
    aq_node_get_state(k->n, &ns);
    ok(relay_steps_left(k->cable) == 0 && aq_now_us() - t0 >= pace.n_steps * pace.late_us,
       "%s: later by %.1f s", k->name, (double)(aq_now_us() - t0) / 1e6);
    ok(st.n_loss == 0 && st.kind == AQ_SPLIT_RUNNING && ns.n_load == 1, "%s: nothing was lost",
       k->name);
    chat_end(&k->c);
}

static void run_case(const rig *r, enum fault f, enum phase p)
{
    kase k = {.r = r, .fault = f, .phase = p};

    snprintf(k.name, sizeof k.name, "%s, %s", fault_names[f], phase_names[p]);
    aq_clock_set(1000000000000ll);
    if (f == KILL_COORDINATOR)
        lose_coordinator(&k);
    else if (f == SLOW_LINK || f == LOSE_PACKETS)
        slow(&k);
    else if (p == LOADING)
        lose_loading(&k);
    else
        lose(&k);
    aq_failpoint_set("worker-load-stands", 0, 0);
    if (k.cable) { /* a case that failed may have left it so */
        relay_cut(k.cable, false);
        hold_off(&k);
    }
    aq_split_free(k.s);
    aq_node_free(k.n);
    if (k.k.pid)
        ok(child_end(&k.k, 0), "%s: the other process ends well", k.name);
    relay_end(k.cable);
    aq_clock_set(-1);
}

/* Power gone, or suspended: nobody told the worker. Who comes back is another process of the same PC, and need not wait for silence. */
static void take_over(const rig *r)
{
    kase k = {.r = r, .fault = KILL_COORDINATOR, .phase = IDLE};
    char line[64];
    aq_err err = {0};

    aq_clock_set(1000000000000ll);
    ok(start_worker(&k, false) && child_start(&k.k, "coordinator", r, relay_port(k.cable)) &&
           fgets(line, sizeof line, k.k.from) && kill(k.k.pid, SIGSTOP) == 0 && worker_is_owned(&k),
       "the coordinator falls silent");
    ok(split_open(r, relay_port(k.cable), &k.s, &err) >= 0,
       "another process of that PC takes the session over at once %s", err.text);
    if (k.s) {
        ask(&k.c, aq_split_engine(k.s), r);
        ok(right(&k.c, r), "and has its answer");
        chat_end(&k.c);
    }
    child_end(&k.k, SIGKILL);
    aq_split_free(k.s);
    aq_node_free(k.n);
    relay_end(k.cable);
    aq_clock_set(-1);
}

/* The worker's own disk or memory fails in the middle of an answer, and its disk once more when it begins anew: it says why, waits 3 s,
 * then 6 s, and the answer goes on. */
static void break_worker(const rig *r, const char *what)
{
    kase k = {.r = r, .fault = SLOW_LINK, .phase = DECODE};
    aq_node_state ns = {0};
    aq_split_state st;
    aq_err err = {0};

    aq_clock_set(1000000000000ll);
    if (!ok(start_worker(&k, false) && split_open(r, relay_port(k.cable), &k.s, &err) >= 0 &&
                at_point(&k, aq_split_engine(k.s)),
            "%s: in the middle of an answer %s", what, err.text))
        return;
    aq_failpoint_set(what, 1, 1);
    hold_off(&k);
    ok(until((aq_split_get_state(k.s, &st), strstr(st.text, "begins anew in 3 s"))) &&
           strstr(st.text, "Laptop"),
       "%s: it says why, and when: %s", what, st.text);
    aq_node_get_state(k.n, &ns);
    ok(ns.n_fault == 1 && !ns.loaded && strstr(st.text, ns.fault), "%s: and keeps it: %s", what,
       ns.fault);
    aq_failpoint_set("wsrc-read", 1, 1);
    aq_clock_advance(3000000);
    ok(until((aq_split_get_state(k.s, &st), strstr(st.text, "begins anew in 6 s"))),
       "%s: its disk fails when it begins anew: %s", what, st.text);
    aq_clock_advance(6000000);
    ok(right(&k.c, r) && until(is(&k, AQ_SPLIT_RUNNING)), "%s: the answer goes on", what);
    aq_node_get_state(k.n, &ns);
    ok(ns.n_fault == 2 && ns.fault[0] && ns.loaded, "%s: the last reason stays: %s", what,
       ns.fault);
    aq_failpoint_set("wsrc-read", 0, 0);
    chat_end(&k.c);
    aq_split_free(k.s);
    aq_node_free(k.n);
    relay_end(k.cable);
    aq_clock_set(-1);
}

/* What one PC says, and how many bytes of an undisturbed reply over two go to its points. */
static bool prepare(rig *r, const char *arch)
{
    kase k = {.r = r, .fault = CUT_CABLE};
    aq_engine_cfg ec = engine_cfg();
    aq_engine *e = NULL;
    aq_err err = {0};
    chat c;

    r->arch = arch;
    snprintf(r->path, sizeof r->path, "%s/%s.gguf", top, arch);
    if (!ok(gw_model(arch, "F16", 5, r->path) == 0 && open_model(r) &&
                aq_engine_new(rt, r->m, &r->src, &ec, &e, &err) >= 0,
            "%s: a random model %s", arch, err.text))
        return false;
    ask(&c, e, r);
    bool good = chat_wait(&c) && c.n_tok == N_GEN;
    if (good)
        memcpy(r->want, c.tok, sizeof r->want);
    chat_end(&c);
    aq_engine_free(e);
    aq_clock_set(1000000000000ll);
    good = good && start_worker(&k, false) && split_open(r, relay_port(k.cable), &k.s, &err) >= 0;
    if (good) {
        uint64_t from = relay_bytes(k.cable, RELAY_THERE);
        relay_hold_at(k.cable, RELAY_THERE, RELAY_OPEN);
        ask(&k.c, aq_split_engine(k.s), r);
        good = right(&k.c, r);
        uint64_t all = relay_bytes(k.cable, RELAY_THERE) - from,
                 row = 4ull * aq_model_get_info(r->m)->row_f32 + 16;
        r->at[0] = N_PROMPT / 2 * row;
        r->at[1] = all - (N_GEN / 2) * (row + 86);
        good = good && r->at[1] > (N_PROMPT + 2) * row && r->at[0] < r->at[1];
        chat_end(&k.c);
    }
    aq_split_free(k.s);
    aq_node_free(k.n);
    relay_end(k.cable);
    aq_clock_set(-1);
    return ok(good, "%s: undisturbed, the tokens of one PC %s", arch, err.text);
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35"};
    const char *tmp = getenv("TMPDIR");
    char cmd[300];
    aq_err err = {0};
    bool all = true;

    signal(SIGPIPE, SIG_IGN); /* a child that was killed */
    if (argc == 5) {
        snprintf(top, sizeof top, "%s", argv[2]);
        return child_main(argv[1], argv[3], (uint16_t)atoi(argv[4]));
    }
    snprintf(top, sizeof top, "%s/aq-loss-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    ok(aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &rt, &err) >= 0 &&
           node_start(&a, top, "Studio PC") && node_start(&b, top, "Laptop") && node_join(&a, &b),
       "two PCs in a pool");
    for (uint32_t i = 0; i < 3; i++)
        all = prepare(&rigs[i], archs[i]) && all;
    for (int f = KILL_WORKER; all && f <= LOSE_PACKETS; f++)
        for (int p = PREFILL; p <= LOADING; p++)
            run_case(&rigs[(f + p) % 3], (enum fault)f, (enum phase)p);
    if (all) {
        take_over(&rigs[0]);
        break_worker(&rigs[1], "worker-window");
        break_worker(&rigs[2], "worker-memory");
    }
    for (uint32_t i = 0; i < 3; i++) {
        aq_wsrc_close(&rigs[i].src);
        aq_model_free(rigs[i].m);
    }
    node_stop(&a);
    node_stop(&b);
    aq_rt_free(rt);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
