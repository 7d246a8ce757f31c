/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli chat: one answer (-p), or a conversation over stdin and stdout.
 *
 * Threads: this one talks; the engine's step thread wakes it through an eventfd, and so does the
 * handler of SIGINT (Ctrl-C), which stops the loading or the answer; at the prompt it ends the
 * program. With a terminal on stderr a third one shows how far loading is. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cli-eval.h"
#include "cli-pool.h"

typedef struct chat {
    const char *path, *prompt, *system, *backend;
    float temp;
    uint32_t seed, max, ctx, threads, draft, kv_type;
    const char *kv;
    bool json, pool, tty, out_tty;
    aq_rt *rt;
    aq_model *model;
    aq_wsrc src;
    aq_engine *engine; /* with --pool the split's */
    aq_engine_info info;
    cli_split_opt split_opt;
    cli_split split;
    cli_far far;       /* another program's split is asked: engine is NULL */
    uint32_t told;     /* AQ_SPLIT_* */
    aq_bytes messages; /* JSON, without the closing bracket */
    aq_bytes answer, thought, shown;
    bool dim; /* thinking is on the screen */
} chat;

/* what the signal handler touches */
static int wake_fd = -1;
static volatile sig_atomic_t interrupted;
static aq_progress loading;

static void wake_cb(void *user)
{
    uint64_t one = 1;

    (void)user;
    if (write(wake_fd, &one, sizeof one) < 0)
        return; /* full means: it is awake already */
}

static void int_cb(int sig)
{
    int was = errno;

    (void)sig;
    interrupted = 1;
    atomic_store(&loading.cancel, 1);
    wake_cb(NULL);
    errno = was;
}

static void *show_loading(void *arg)
{
    const atomic_bool *end = arg;

    while (!atomic_load(end)) {
        uint64_t done = atomic_load(&loading.done), total = atomic_load(&loading.total);
        if (total)
            fprintf(stderr, "\rloading %llu of %llu MB ", (unsigned long long)(done / 1000000),
                    (unsigned long long)(total / 1000000));
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    fprintf(stderr, "\r%40s\r", "");
    return NULL;
}

/* False: there is no split. */
static bool get_split(const chat *c, aq_split_state *ret)
{
    if (c->far.call)
        *ret = c->far.split;
    else if (c->split.split)
        aq_split_get_state(c->split.split, ret);
    return c->far.call || c->split.split;
}

/* Pauses are told as they come: the reply goes on by itself. */
static void tell_pool(chat *c)
{
    aq_split_state s;

    if (!get_split(c, &s) || s.kind == c->told)
        return;
    if (s.kind == AQ_SPLIT_LOST)
        fprintf(stderr, "\n[paused: %s]\n", s.text);
    else if (s.kind == AQ_SPLIT_ALONE)
        fprintf(stderr, "\n[on this PC alone: %s]\n", s.text);
    else if (c->told)
        fprintf(stderr, "\n[%s is back]\n", s.pc);
    c->told = s.kind;
}

/* What is asked of an engine that runs already. */
static int fits(const chat *c, aq_err *err)
{
    const aq_holder *who = aq_call_holder(c->far.call);

    return c->ctx || c->kv || c->draft || c->backend || c->threads
               ? aq_fail(err, AQ_E_BUSY,
                         "%s, process %u, has this model split already: ask without --ctx, --kv, "
                         "--draft, --backend and --threads, or end that split",
                         who->name, who->pid)
               : 0;
}

static int load(chat *c)
{
    aq_err err = {0};
    int rc = cli_rt(c->threads, &c->rt, &err);

    if (rc >= 0)
        rc = aq_model_open(c->rt, c->path, 0, &c->model, &c->src, &err);
    if (rc < 0)
        return cli_fail(c->path, rc, &err);
    aq_engine_cfg cfg = {.place = {.backend = c->backend},
                         .kv_type = c->kv_type,
                         .n_ctx = c->ctx,
                         .n_parallel = 1,
                         .progress = &loading,
                         .n_draft = c->draft};
    atomic_bool end = false;
    pthread_t shower;
    bool shows = c->tty && pthread_create(&shower, NULL, show_loading, &end) == 0;
    rc = c->pool ? cli_split_far(&c->split_opt, c->model, &c->src, &c->far, &err) : 0;
    if (rc == 1) {
        rc = fits(c, &err);
        c->info.device = c->far.device;
    } else if (rc < 0) {
        ; /* told below */
    } else if (c->pool) {
        rc = cli_split_open(&c->split, &c->split_opt, c->rt, c->model, &c->src, &cfg, &err);
        c->engine = rc < 0 ? NULL : aq_split_engine(c->split.split);
    } else {
        rc = aq_engine_new(c->rt, c->model, &c->src, &cfg, &c->engine, &err);
    }
    if (shows) {
        atomic_store(&end, true);
        pthread_join(shower, NULL);
    }
    if (rc < 0)
        return cli_fail(c->path, rc, &err);
    if (c->engine)
        aq_engine_get_info(c->engine, &c->info);
    return CLI_OK;
}

static int add_message(chat *c, const char *role, const char *text, size_t n)
{
    int rc = aq_bytes_putf(&c->messages,
                           "%c{\"role\":\"%s\",\"content\":", c->messages.n ? ',' : '[', role);

    if (rc >= 0)
        rc = aq_json_quote(&c->messages, text, n);
    return rc < 0 ? rc : aq_bytes_puts(&c->messages, "}");
}

static double per_s(uint32_t n, int64_t us)
{
    return us > 0 ? n * 1e6 / (double)us : 0;
}

static const char *reason_name(int32_t rc)
{
    return rc == AQ_DONE_STOP ? "stop" : rc == AQ_DONE_LENGTH ? "length" : "cancelled";
}

/* What the other PC did for this answer (--json gives one). */
static int print_pool(const chat *c, aq_bytes *b)
{
    aq_split_state s = {0};

    get_split(c, &s);
    int rc = aq_bytes_puts(b, ",\"pool\":{\"pc\":");
    if (rc >= 0)
        rc = aq_json_quote(b, s.pc, strlen(s.pc));
    return rc < 0 ? rc
                  : aq_bytes_putf(b,
                                  ",\"state\":\"%s\",\"cut\":%u,\"layers\":%u,\"losses\":%u,"
                                  "\"windows\":%llu,\"worker_us\":%llu,\"network_us\":%llu}",
                                  s.kind == AQ_SPLIT_RUNNING ? "running"
                                  : s.kind == AQ_SPLIT_LOST  ? "lost"
                                                             : "alone",
                                  s.cut, s.n_layer, s.n_loss, (unsigned long long)s.n_window,
                                  (unsigned long long)s.worker_us, (unsigned long long)s.net_us);
}

/* Reading and answering, each by who worked: this PC, the other one, the network. */
static int put_split_times(aq_bytes *b, const aq_usage *u)
{
    int64_t prompt_us = u->prompt_us - u->prompt_worker_us - u->prompt_net_us;
    int64_t gen_us = u->gen_us - u->gen_worker_us - u->gen_net_us;

    return aq_bytes_putf(b,
                         ",\"prompt_here_us\":%lld,\"prompt_worker_us\":%lld,"
                         "\"prompt_network_us\":%lld,\"gen_here_us\":%lld,"
                         "\"gen_worker_us\":%lld,\"gen_network_us\":%lld",
                         (long long)AQ_MAX(prompt_us, 0), (long long)u->prompt_worker_us,
                         (long long)u->prompt_net_us, (long long)AQ_MAX(gen_us, 0),
                         (long long)u->gen_worker_us, (long long)u->gen_net_us);
}

static int print_json(const chat *c, const aq_usage *u, int32_t reason)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint32_t read = u->prompt_tok - u->cached_tok;
    int rc = aq_bytes_puts(&b, "{\"text\":");

    if (rc >= 0)
        rc = aq_json_quote(&b, c->answer.n ? (const char *)c->answer.p : "", c->answer.n);
    if (rc >= 0 && c->thought.n && (rc = aq_bytes_puts(&b, ",\"reasoning\":")) >= 0)
        rc = aq_json_quote(&b, (const char *)c->thought.p, c->thought.n);
    if (rc >= 0)
        rc = aq_bytes_putf(&b,
                           ",\"reason\":\"%s\",\"tokens\":%u,\"cached_tokens\":%u,\"prompt_"
                           "tokens\":%u,\"timings\":{\"queue_us\":%lld,"
                           "\"prompt_us\":%lld,\"first_us\":%lld,\"gen_us\":%lld,\"prompt_tok_s\":%"
                           ".2f,\"gen_tok_s\":%.2f",
                           reason_name(reason), u->gen_tok, u->cached_tok, u->prompt_tok,
                           (long long)u->queue_us, (long long)u->prompt_us, (long long)u->first_us,
                           (long long)u->gen_us, per_s(read, u->prompt_us),
                           per_s(u->gen_tok ? u->gen_tok - 1 : 0, u->gen_us));
    if (rc >= 0 && c->draft)
        rc = aq_bytes_putf(&b, ",\"draft_tokens\":%u,\"draft_right_tokens\":%u", u->draft_tok,
                           u->draft_ok_tok);
    if (rc >= 0)
        rc = put_split_times(&b, u);
    if (rc >= 0)
        rc = aq_bytes_puts(&b, "},\"device\":");
    if (rc >= 0)
        rc = aq_json_quote(&b, c->info.device, strlen(c->info.device));
    if (rc >= 0 && c->pool)
        rc = print_pool(c, &b);
    if (rc >= 0)
        rc = aq_bytes_puts(&b, "}\n");
    if (rc < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the answer");
    fwrite(b.p, 1, b.n, stdout);
    return CLI_OK;
}

/* A part of the answer. To a file or a program it goes as it is, to a terminal without the codes that would steer it. */
static int show(chat *c, const char *text, uint32_t n)
{
    c->shown.n = 0;
    if (aq_bytes_put(&c->shown, text, n) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the answer");
    if (c->out_tty)
        cli_plain((char *)c->shown.p, n);
    fwrite(c->shown.p, 1, n, stdout);
    return cli_flush();
}

/* A part of its thinking: on a terminal before the answer, dim; never in the conversation. */
static int think(chat *c, const char *text, uint32_t n)
{
    if (aq_bytes_put(&c->thought, text, n) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the answer");
    if (c->json || !c->out_tty)
        return CLI_OK;
    if (!c->dim)
        fputs("\033[2m", stdout);
    c->dim = true;
    return show(c, text, n);
}

/* Its thinking is over. */
static void undim(chat *c)
{
    if (c->dim)
        fputs("\033[0m\n\n", stdout);
    c->dim = false;
}

static int say_text(chat *c, const char *text, uint32_t n)
{
    if (aq_bytes_put(&c->answer, text, n) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the answer");
    undim(c);
    return c->json ? CLI_OK : show(c, text, n);
}

/* The answer ended so: exit code. */
static int say_error(chat *c, int rc, const aq_err *err)
{
    undim(c);
    if (c->answer.n && !c->json) {
        printf("\n");
        fflush(stdout);
    }
    return cli_fail("chat", rc, err);
}

/* Take events until the end of the answer. CLI_OK with *ret_reason, or the error printed. */
static int listen_to(chat *c, aq_req *r, aq_usage *usage, int32_t *ret_reason)
{
    aq_event ev;
    uint64_t n;

    for (;;) {
        while (aq_req_pop(r, &ev)) {
            if (ev.kind == AQ_EV_TEXT && ev.n_bytes) {
                int code = say_text(c, ev.bytes, ev.n_bytes);
                if (code != CLI_OK)
                    return code; /* nobody reads on: no more is computed */
            } else if (ev.kind == AQ_EV_REASONING && ev.n_bytes) {
                int code = think(c, ev.bytes, ev.n_bytes);
                if (code != CLI_OK)
                    return code;
            } else if (ev.kind == AQ_EV_USAGE) {
                *usage = *ev.usage;
            } else if (ev.kind == AQ_EV_DONE) {
                undim(c);
                *ret_reason = ev.rc;
                return CLI_OK;
            } else if (ev.kind == AQ_EV_ERROR) {
                return say_error(c, ev.rc, ev.err);
            }
        }
        if (c->tty)
            tell_pool(c);
        if (interrupted) {
            interrupted = 0;
            aq_req_cancel(r);
        }
        struct pollfd p = {.fd = wake_fd, .events = POLLIN};
        if (poll(&p, 1, -1) > 0 && read(wake_fd, &n, sizeof n) < 0 && errno != EAGAIN &&
            errno != EINTR)
            return cli_error(CLI_FAILED, "chat", "waiting for the answer failed: %s",
                             strerror(errno));
    }
}

/* ---- an answer of another program's split --------------------------------------------------- */

static void far_usage(const aq_json *j, aq_usage *u)
{
    *u = (aq_usage){.prompt_tok = (uint32_t)aq_json_int(j, "prompt_tok", 0),
                    .cached_tok = (uint32_t)aq_json_int(j, "cached_tok", 0),
                    .gen_tok = (uint32_t)aq_json_int(j, "gen_tok", 0),
                    .queue_us = aq_json_int(j, "queue_us", 0),
                    .prompt_us = aq_json_int(j, "prompt_us", 0),
                    .first_us = aq_json_int(j, "first_us", 0),
                    .gen_us = aq_json_int(j, "gen_us", 0),
                    .prompt_worker_us = aq_json_int(j, "prompt_worker_us", 0),
                    .prompt_net_us = aq_json_int(j, "prompt_net_us", 0),
                    .gen_worker_us = aq_json_int(j, "gen_worker_us", 0),
                    .gen_net_us = aq_json_int(j, "gen_net_us", 0)};
}

/* One line of it: an exit code, or -1 when there is more to come. */
static int far_event(chat *c, const aq_json *j, aq_usage *usage, int32_t *ret_reason)
{
    const char *event = aq_json_str(j, "event");
    const aq_json *text = aq_json_get(j, "text"), *done = aq_json_get(j, "done");
    int code = CLI_OK;

    if (done) {
        undim(c);
        far_usage(done, usage);
        far_split(aq_json_get(done, "pool"), &c->far.split);
        *ret_reason = (int32_t)aq_json_int(done, "reason", AQ_DONE_STOP);
        return CLI_OK;
    }
    if (event && !strcmp(event, "split"))
        far_split(j, &c->far.split);
    else if (event && text && text->kind == AQ_JSON_STR && !strcmp(event, "text"))
        code = say_text(c, text->str, text->n);
    else if (event && text && text->kind == AQ_JSON_STR && !strcmp(event, "reasoning"))
        code = think(c, text->str, text->n);
    if (c->tty)
        tell_pool(c);
    return code == CLI_OK ? -1 : code;
}

static int far_ask_chat(chat *c, const char *messages, aq_usage *usage, int32_t *ret_reason)
{
    static const char stop[] = "{\"do\":\"stop\"}";
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    const aq_json *j;
    aq_err err = {0};
    char hex[65];
    uint64_t n;

    aq_hex(c->far.model, sizeof c->far.model, hex);
    int rc = aq_bytes_putf(&b,
                           "{\"do\":\"chat\",\"model\":\"%s\",\"temp\":%.6g,\"seed\":%u,"
                           "\"max\":%u,\"messages\":%s}",
                           hex, (double)c->temp, c->seed, c->max, messages);
    rc = rc < 0 ? aq_fail(&err, AQ_E_NOMEM, "no memory for the conversation")
                : aq_call_say(c->far.call, (const char *)b.p, b.n, &err);
    while (rc >= 0) {
        if ((rc = aq_call_hear(c->far.call, wake_fd, &j, &err)) == 1) {
            int code = far_event(c, j, usage, ret_reason);
            if (code >= 0)
                return code;
        } else if (rc == 0) {
            (void)!read(wake_fd, &n, sizeof n);
            if (interrupted)
                rc = aq_call_say(c->far.call, stop, sizeof stop - 1, &err);
            interrupted = 0;
        }
    }
    return say_error(c, rc, &err);
}

/* ---- one answer ----------------------------------------------------------------------------- */

/* Of this program's own engine: exit code. */
static int own_ask(chat *c, const char *messages, aq_usage *usage, int32_t *ret_reason)
{
    aq_err err = {0};
    AQ_AUTO(aq_req_free) aq_req *r = NULL;
    aq_req_in in = {.messages_json = messages,
                    .max_tok = c->max,
                    .sampling = {.temp = c->temp, .top_p = 0.95f, .seed = c->seed}};
    int rc = aq_submit(c->engine, &in, wake_cb, NULL, &r, &err);

    return rc < 0 ? cli_fail("chat", rc, &err) : listen_to(c, r, usage, ret_reason);
}

/* Ask what messages say, show the answer and add it to them. */
static int ask(chat *c)
{
    aq_usage usage = {0};
    int32_t reason = 0;

    c->answer.n = c->thought.n = 0;
    if (aq_bytes_puts(&c->messages, "]") < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
    const char *json = aq_bytes_str(&c->messages);
    c->messages.n--;
    if (!json)
        return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
    int code =
        c->far.call ? far_ask_chat(c, json, &usage, &reason) : own_ask(c, json, &usage, &reason);
    if (code != CLI_OK)
        return code;
    if (add_message(c, "assistant", c->answer.n ? (const char *)c->answer.p : "", c->answer.n) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
    if (c->json)
        return print_json(c, &usage, reason);
    printf("\n");
    if (cli_flush() != CLI_OK) /* now: who reads lines from a pipe waits for this one */
        return CLI_FAILED;
    if (c->tty) {
        tell_pool(c); /* what came with the last token */
        fprintf(
            stderr,
            "[%s · %u tokens, %.1f tok/s · first after %.2f s · %u of %u prompt tokens known%s]\n",
            c->info.device, usage.gen_tok,
            per_s(usage.gen_tok ? usage.gen_tok - 1 : 0, usage.gen_us),
            (double)usage.first_us / 1e6, usage.cached_tok, usage.prompt_tok,
            reason == AQ_DONE_CANCELLED ? " · stopped"
            : reason == AQ_DONE_LENGTH  ? " · cut at its limit"
                                        : "");
    }
    return CLI_OK;
}

/* Show the prompt and wait for a line or Ctrl-C (false). Any thread may run the handler, so its eventfd is
 * waited for, too: a poll of this thread alone need not be interrupted. */
static bool prompt(void)
{
    struct pollfd in[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = wake_fd, .events = POLLIN}};
    uint64_t n;

    interrupted = 0;
    printf("> ");
    fflush(stdout);
    do {
        in[0].revents = in[1].revents = 0;
        if (poll(in, 2, -1) < 0 && errno != EINTR)
            return true; /* reading says what is wrong */
        if (in[1].revents && read(wake_fd, &n, sizeof n) < 0)
            in[1].revents = 0; /* taken already */
        if (interrupted)
            return false;
    } while (!in[0].revents);
    return true;
}

static int converse(chat *c)
{
    AQ_AUTOFREE char *line = NULL;
    size_t cap = 0;
    bool asks = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    int code = CLI_OK;

    if (asks) {
        const char *name = aq_model_get_info(c->model)->name;
        if ((code = show(c, name, (uint32_t)strlen(name))) != CLI_OK)
            return code;
        printf(" on %s. Ctrl-C stops an answer, Ctrl-D ends.\n", c->info.device);
    }
    for (;;) {
        if (!asks)
            interrupted = 0;
        else if (!prompt())
            break; /* Ctrl-C at the prompt */
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0 && !feof(stdin) && !interrupted)
            return cli_error(CLI_CANNOT, "stdin",
                             "cannot be read: %s (give it one question a line, or use -p PROMPT)",
                             strerror(errno));
        if (n < 0)
            break; /* end of input, or Ctrl-C at the prompt */
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        if (!n)
            continue;
        size_t was = c->messages.n;
        if (add_message(c, "user", line, (size_t)n) < 0)
            return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
        code = ask(c);
        if (ferror(stdout))
            return CLI_FAILED;
        if (code != CLI_OK)
            c->messages.n =
                was; /* what could not be answered is forgotten; the conversation goes on */
    }
    if (asks)
        printf("\n");
    return code;
}

static int run(chat *c)
{
    int code = load(c);

    if (code != CLI_OK)
        return code;
    if (c->system && add_message(c, "system", c->system, strlen(c->system)) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
    if (!c->prompt)
        return converse(c);
    if (add_message(c, "user", c->prompt, strlen(c->prompt)) < 0)
        return cli_error(CLI_FAILED, "chat", "no memory for the conversation");
    return ask(c);
}

int cli_chat(int argc, char **argv)
{
    chat c = {.temp = 0.7f, .tty = isatty(STDERR_FILENO), .out_tty = isatty(STDOUT_FILENO)};
    cli_opt opts[] = {{"-m", 's', &c.path},
                      {"-p", 's', &c.prompt},
                      {"--system", 's', &c.system},
                      {"--temp", 'f', &c.temp},
                      {"--seed", 'u', &c.seed},
                      {"--max", 'u', &c.max},
                      {"--ctx", 'u', &c.ctx},
                      {"--kv", 's', &c.kv},
                      {"--draft", 'u', &c.draft},
                      {"--backend", 's', &c.backend},
                      {"--threads", 'u', &c.threads},
                      {"--json", 'b', &c.json},
                      {"--pool", 'b', &c.pool},
                      {"--state", 's', &c.split_opt.state},
                      {"--pc", 's', &c.split_opt.pc},
                      {"--addr", 's', &c.split_opt.addr},
                      {"--rows", 's', &c.split_opt.rows},
                      {"--cut", 'u', &c.split_opt.cut},
                      {0}};
    const char *model = NULL; /* as the other commands take it */
    int n_pos, rc = cli_parse(argc, argv, opts, &model, 1, &n_pos);

    if (rc != CLI_OK)
        return rc;
    if (model && c.path)
        return cli_error(CLI_CANNOT, "chat",
                         "'%s' is one argument too many: the model is said with -m (a prompt "
                         "follows -p)",
                         model);
    c.path = c.path ? c.path : model;
    if (!c.path)
        return cli_error(CLI_CANNOT, "chat", "needs -m MODEL, a GGUF file");
    if (c.json && !c.prompt)
        return cli_error(CLI_CANNOT, "chat", "--json gives one answer: it needs -p PROMPT");
    if (c.kv && cli_kv_type(c.kv, &c.kv_type) != CLI_OK)
        return CLI_CANNOT;
    c.split_opt.change_cb = wake_cb;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return cli_error(CLI_CANNOT, "chat", "no eventfd: %s", strerror(errno));
    struct sigaction sa = {.sa_handler = int_cb}; /* no SA_RESTART: getline must return */
    sigaction(SIGINT, &sa, NULL);
    rc = run(&c);
    signal(SIGINT, SIG_IGN); /* all is said; the program only tidies up */
    if (!c.pool)
        aq_engine_free(c.engine);
    cli_split_close(&c.split);
    aq_call_free(c.far.call);
    aq_wsrc_close(&c.src);
    aq_model_free(c.model);
    aq_rt_free(c.rt);
    aq_bytes_clear(&c.messages);
    aq_bytes_clear(&c.answer);
    aq_bytes_clear(&c.thought);
    aq_bytes_clear(&c.shown);
    close(wake_fd);
    return rc;
}
