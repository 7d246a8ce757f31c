/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli pool check: the same greedy answer by one PC and by two, at one cut or at every one:
 * tokens, logits, timing. With --self the second PC is a child of this process that shares nothing with
 * it but a link over loopback. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli-pool.h"

#define N_TOP 8u
#define N_PROMPT 96u

/* What one run gave. */
typedef struct answer {
    uint32_t n;
    int32_t *tok;    /* [n_gen] */
    float *lp;       /* [n_gen][N_TOP] */
    int32_t *lp_tok; /* [n_gen][N_TOP] */
    aq_usage usage;
} answer;

typedef struct check {
    const char *path, *backend, *kv, *dir; /* dir: of the twins, NULL = a real PC */
    bool json;
    uint32_t n_gen, n_diff, n_cut;
    aq_rt *rt;
    aq_model *model;
    aq_wsrc src;
    const aq_model_info *in;
    aq_engine_cfg ec;
    cli_split_opt split;
    aq_trust *here; /* twins */
    aq_id to;
    pid_t child;
    char addr[64];
    int wake_fd;
    int32_t prompt[N_PROMPT];
    answer one, two;
    aq_bytes out;
} check;

static void wake_cb(void *user)
{
    uint64_t one = 1;

    (void)!write(((check *)user)->wake_fd, &one, sizeof one);
}

static int answer_new(answer *a, uint32_t n_gen)
{
    a->tok = calloc(n_gen, sizeof *a->tok);
    a->lp = calloc((size_t)n_gen * N_TOP, sizeof *a->lp);
    a->lp_tok = calloc((size_t)n_gen * N_TOP, sizeof *a->lp_tok);
    return a->tok && a->lp && a->lp_tok ? 0 : -AQ_E_NOMEM;
}

static void answer_clear(answer *a)
{
    free(a->tok);
    free(a->lp);
    free(a->lp_tok);
    *a = (answer){0};
}

/* One greedy answer of the engine. */
static int ask(check *c, aq_engine *e, answer *a, aq_err *err)
{
    aq_req_in in = {.tok = c->prompt,
                    .n_tok = N_PROMPT,
                    .sampling = {.ignore_eog = true},
                    .n_logprobs = N_TOP,
                    .max_tok = c->n_gen};
    AQ_AUTO(aq_req_free) aq_req *r = NULL;
    aq_event ev;
    uint64_t n;
    int rc = aq_submit(e, &in, wake_cb, c, &r, err);

    a->n = 0;
    if (rc < 0)
        return rc;
    for (;;) {
        while (aq_req_pop(r, &ev)) {
            if (ev.kind == AQ_EV_TEXT && ev.tok >= 0 && a->n < c->n_gen) {
                for (uint32_t i = 0; i < AQ_MIN(ev.n_top, N_TOP); i++) {
                    a->lp[(size_t)a->n * N_TOP + i] = ev.top[i].logprob;
                    a->lp_tok[(size_t)a->n * N_TOP + i] = ev.top[i].tok;
                }
                a->tok[a->n++] = ev.tok;
            } else if (ev.kind == AQ_EV_USAGE) {
                a->usage = *ev.usage;
            } else if (ev.kind == AQ_EV_DONE) {
                return 0;
            } else if (ev.kind == AQ_EV_ERROR) {
                if (err)
                    *err = *ev.err;
                return ev.rc;
            }
        }
        struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};
        if (poll(&p, 1, -1) > 0)
            (void)!read(c->wake_fd, &n, sizeof n);
    }
}

/* ---- the second PC of --self ------------------------------------------------------------------- */

/* The child prints one line when it listens; its port is in it. */
static int read_port(int fd, uint32_t *ret, aq_err *err)
{
    char line[512];
    size_t n = 0;
    const aq_json *j;
    AQ_AUTO(aq_arena_free) aq_arena *arena = aq_arena_new(0);

    while (n < sizeof line && !memchr(line, '\n', n)) {
        ssize_t k = read(fd, line + n, sizeof line - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return aq_fail(err, AQ_E_GONE, "the second process ended before it was ready");
        n += (size_t)k;
    }
    if (!arena || aq_json_parse(arena, line, n, &j, err) < 0)
        return aq_fail(err, AQ_E_PROTO, "the second process said something unexpected");
    *ret = (uint32_t)aq_json_int(j, "port", 0);
    return *ret ? 0 : aq_fail(err, AQ_E_PROTO, "the second process has no port");
}

static int start_child(check *c, aq_err *err)
{
    char state[300], threads[16];
    AQ_AUTO(aq_trust_free) aq_trust *there = NULL;
    uint32_t port;
    int fd[2], rc = aq_check_twins(c->dir, &c->here, &there, err);

    if (rc < 0)
        return rc;
    c->to = *aq_trust_id(there);
    snprintf(state, sizeof state, "%s/there", c->dir);
    snprintf(threads, sizeof threads, "%u", AQ_MAX(aq_rt_threads(c->rt) / 2, 1u));
    char *args[] = {(char *)"aquifer-cli",
                    (char *)"node",
                    (char *)"--state",
                    state,
                    (char *)"--bind",
                    (char *)"127.0.0.1",
                    (char *)"--port",
                    (char *)"0",
                    (char *)"--json",
                    (char *)"--model-dir",
                    (char *)c->path,
                    (char *)"--threads",
                    threads,
                    (char *)(c->backend ? "--backend" : NULL),
                    (char *)c->backend,
                    NULL};
    if (pipe2(fd, O_CLOEXEC) < 0)
        return aq_fail_errno(err, errno, "no pipe to a second process");
    c->child = fork();
    if (c->child == 0) {
        dup2(fd[1], STDOUT_FILENO); /* clears close-on-exec */
        execv("/proc/self/exe", args);
        _exit(127);
    }
    close(fd[1]);
    rc = c->child < 0 ? aq_fail_errno(err, errno, "no second process")
                      : read_port(fd[0], &port, err);
    close(fd[0]);
    if (rc >= 0)
        snprintf(c->addr, sizeof c->addr, "127.0.0.1:%u", port);
    return rc;
}

static int drop_cb(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void end_child(check *c)
{
    if (c->child > 0) {
        kill(c->child, SIGTERM);
        while (waitpid(c->child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    aq_trust_free(c->here);
    if (c->dir)
        nftw(c->dir, drop_cb, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- the comparison ---------------------------------------------------------------------------- */

static double ms(int64_t us)
{
    return (double)us / 1e3;
}

/* Largest difference of log-probabilities up to the first other token; INFINITY when the candidates differ. */
static double worst(const answer *a, const answer *b, uint32_t *ret_same)
{
    double w = 0;
    uint32_t i = 0;

    for (; i < AQ_MIN(a->n, b->n); i++) {
        for (uint32_t k = 0; k < N_TOP; k++) {
            size_t at = (size_t)i * N_TOP + k;
            /* the order of near equals may change with f16 rows: compare what has the same token */
            if (a->lp_tok[at] == b->lp_tok[at])
                w = fmax(w, fabs((double)a->lp[at] - (double)b->lp[at]));
        }
        if (a->tok[i] != b->tok[i])
            break;
    }
    *ret_same = i;
    return w;
}

static int report(check *c, uint32_t cut, const aq_split_state *st)
{
    const answer *a = &c->two;
    bool exact = !c->split.rows || !strcmp(c->split.rows, "f32");
    uint32_t same;
    double w = worst(&c->one, a, &same);
    bool good = same == c->n_gen && a->n == c->n_gen && (!exact || w == 0);
    double n = AQ_MAX(st->n_window, 1);
    int rc;

    c->n_diff += !good;
    if (c->json)
        rc = aq_bytes_putf(&c->out,
                           "%s{\"cut\":%u,\"same\":%s,\"tokens_same\":%u,\"logprob_diff\":%.3g,"
                           "\"prompt_ms\":%.2f,\"gen_ms\":%.2f,\"gen_worker_ms\":%.2f,"
                           "\"gen_network_ms\":%.2f,\"windows\":%llu,\"worker_ms\":%.2f,"
                           "\"network_ms\":%.2f,\"tx_bytes\":%llu,\"rx_bytes\":%llu}",
                           c->n_cut ? "," : "", cut, good ? "true" : "false", same, w,
                           ms(a->usage.prompt_us), ms(a->usage.gen_us), ms(a->usage.gen_worker_us),
                           ms(a->usage.gen_net_us), (unsigned long long)st->n_window,
                           ms((int64_t)st->worker_us), ms((int64_t)st->net_us),
                           (unsigned long long)st->tx_bytes, (unsigned long long)st->rx_bytes);
    else
        rc =
            aq_bytes_putf(&c->out,
                          "layers 0-%u here, %u-%u there: %s (%u of %u tokens, logprobs differ by "
                          "%.2g); a token %.2f ms, one PC %.2f ms; a window there %.3f ms, network "
                          "%.3f ms\n",
                          cut - 1, cut, c->in->n_layer - 1, good ? "the same" : "DIFFERENT", same,
                          c->n_gen, w, ms(a->usage.gen_us) / AQ_MAX(c->n_gen - 1, 1u),
                          ms(c->one.usage.gen_us) / AQ_MAX(c->n_gen - 1, 1u),
                          ms((int64_t)st->worker_us) / n, ms((int64_t)st->net_us) / n);
    c->n_cut++;
    if (rc >= 0 && !c->json) {
        fwrite(c->out.p, 1, c->out.n, stdout);
        c->out.n = 0;
        return cli_flush() == CLI_OK ? 0 : -AQ_E_IO;
    }
    return rc;
}

static int one_cut(check *c, uint32_t cut, aq_err *err)
{
    cli_split sp = {0};
    aq_split_state st;
    int rc;

    c->split.cut = cut;
    if (c->dir) {
        const char *addr = c->addr;
        aq_split_cfg sc = {.rt = c->rt,
                           .trust = c->here,
                           .model = c->model,
                           .src = &c->src,
                           .app = "aquifer " AQ_VERSION,
                           .to = &c->to,
                           .addr = &addr,
                           .n_addr = 1,
                           .cut = cut,
                           .rows = c->split.rows,
                           .engine = c->ec};
        rc = aq_split_open(&sc, &sp.split, err);
    } else {
        rc = cli_split_open(&sp, &c->split, c->rt, c->model, &c->src, &c->ec, err);
    }
    if (rc >= 0)
        rc = ask(c, aq_split_engine(sp.split), &c->two, err);
    if (rc >= 0) {
        aq_split_get_state(sp.split, &st);
        rc = report(c, cut, &st);
    }
    cli_split_close(&sp);
    return rc;
}

static int alone(check *c, aq_err *err)
{
    AQ_AUTO(aq_engine_free) aq_engine *e = NULL;
    int rc = aq_engine_new(c->rt, c->model, &c->src, &c->ec, &e, err);

    return rc < 0 ? rc : ask(c, e, &c->one, err);
}

static int run(check *c, uint32_t cut, aq_err *err)
{
    int rc = answer_new(&c->one, c->n_gen);

    rc = rc < 0 ? rc : answer_new(&c->two, c->n_gen);
    if (rc < 0)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    uint64_t rng = 88172645463325252ull;
    for (uint32_t i = 0; i < N_PROMPT; i++) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        c->prompt[i] = (int32_t)(rng % c->in->n_vocab);
    }
    if ((rc = alone(c, err)) < 0 || (c->dir && (rc = start_child(c, err)) < 0))
        return rc;
    if (cut)
        return one_cut(c, cut, err);
    for (uint32_t k = 1; k < c->in->n_layer; k++)
        if (c->in->cut_ok[k] && (rc = one_cut(c, k, err)) < 0)
            return rc;
    return c->n_cut ? 0 : aq_fail(err, AQ_E_UNSUPPORTED, "this model cannot be parted anywhere");
}

static int print_json(check *c)
{
    printf("{\"model\":");
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes name = {0};
    if (aq_json_quote(&name, c->in->name, strlen(c->in->name)) < 0)
        return cli_error(CLI_FAILED, "pool check", "out of memory");
    fwrite(name.p, 1, name.n, stdout);
    printf(",\"rows\":\"%s\",\"tokens\":%u,\"passed\":%s,\"alone\":{\"prompt_ms\":%.2f,"
           "\"gen_ms\":%.2f},\"cuts\":[",
           c->split.rows ? c->split.rows : "f32", c->n_gen, c->n_diff ? "false" : "true",
           ms(c->one.usage.prompt_us), ms(c->one.usage.gen_us));
    if (c->out.n)
        fwrite(c->out.p, 1, c->out.n, stdout);
    printf("]}\n");
    return cli_flush();
}

static int pool_check(int argc, char **argv)
{
    char dir[] = "/tmp/aquifer-check-XXXXXX";
    const char *pos[1];
    bool self = false;
    uint32_t cut = 0, threads = 0;
    int n_pos;
    check c = {.n_gen = 32, .wake_fd = -1};
    cli_opt opts[] = {{"--self", 'b', &self},
                      {"--json", 'b', &c.json},
                      {"--cut", 'u', &cut},
                      {"--rows", 's', &c.split.rows},
                      {"--pc", 's', &c.split.pc},
                      {"--addr", 's', &c.split.addr},
                      {"--state", 's', &c.split.state},
                      {"--backend", 's', &c.backend},
                      {"-n", 'u', &c.n_gen},
                      {"--threads", 'u', &threads},
                      {0}};
    int code = cli_parse(argc, argv, opts, pos, 1, &n_pos);
    aq_err err = {0};

    if (code != CLI_OK)
        return code;
    if (n_pos != 1 || !c.n_gen || c.n_gen > 4096)
        return cli_error(CLI_CANNOT, "pool check", "needs MODEL, and -n from 1 to 4096");
    c.path = pos[0];
    int rc = cli_rt(threads, &c.rt, &err);
    rc = rc < 0 ? rc : aq_model_open(c.rt, c.path, 0, &c.model, &c.src, &err);
    if (rc >= 0) {
        c.in = aq_model_get_info(c.model);
        c.ec = (aq_engine_cfg){.place = {.backend = c.backend},
                               .n_ctx = N_PROMPT + c.n_gen + 16,
                               .n_parallel = 1,
                               .chunk_tok = 32};
        if (c.in->n_ctx_train && c.ec.n_ctx > c.in->n_ctx_train)
            rc = aq_fail(&err, AQ_E_LIMIT, "-n %u is too much for this model's context", c.n_gen);
    }
    c.wake_fd = eventfd(0, EFD_CLOEXEC);
    if (rc >= 0 && c.wake_fd < 0)
        rc = aq_fail_errno(&err, errno, "no eventfd");
    if (rc >= 0 && self && !(c.dir = mkdtemp(dir)))
        rc = aq_fail_errno(&err, errno, "no folder in /tmp");
    cli_far far = {0};
    if (rc >= 0 && !self && (rc = cli_split_far(&c.split, c.model, &c.src, &far, &err)) == 1)
        rc = aq_fail(&err, AQ_E_BUSY,
                     "%s, process %u, computes this model with %s: end that split first, or check "
                     "it there",
                     aq_call_holder(far.call)->name, aq_call_holder(far.call)->pid, far.split.pc);
    aq_call_free(far.call);
    rc = rc < 0 ? rc : run(&c, cut, &err);
    if (rc < 0)
        code = cli_fail("pool check", rc, &err);
    else if (c.json)
        code = print_json(&c);
    if (code == CLI_OK && c.n_diff)
        code = c.json
                   ? CLI_FAILED
                   : cli_error(CLI_FAILED, "pool check",
                               "%u of %u cuts gave another answer than one PC", c.n_diff, c.n_cut);
    end_child(&c);
    answer_clear(&c.one);
    answer_clear(&c.two);
    aq_bytes_clear(&c.out);
    aq_fd_close_p(&c.wake_fd);
    aq_wsrc_close(&c.src);
    aq_model_free(c.model);
    aq_rt_free(c.rt);
    return code;
}

int cli_pool(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "check"))
        return pool_check(argc - 1, argv + 1);
    return cli_pool_member(argc, argv);
}
