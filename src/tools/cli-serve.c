/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli serve: a model for other programs, over the local API, until SIGINT or SIGTERM.
 *
 * Threads: this one loads and then waits for a signal; the API has its own. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "aq/api.h"
#include "cli-pool.h"
#include "cli.h"

typedef struct serve {
    const char *path, *alias, *backend, *key_file, *state, *park;
    uint32_t port, ctx, parallel, threads, park_mb;
    bool lan, tls, json;
    char cert[512]; /* the file that other PCs are to trust */
    cli_list key, host, origin;
    char new_key[AQ_API_KEY_TEXT];
    aq_bytes file; /* of keys, cut into lines */
    aq_rt *rt;
    aq_model *model;
    aq_wsrc src;
    aq_engine *engine;
    aq_api *api;
} serve;

static aq_progress loading;

/* What a service says is kept by who started it. */
static void log_cb(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

/* One key a line; empty ones and those that begin with # do not count. */
static int read_keys(serve *s)
{
    aq_err err = {0};
    int rc = cli_read_file(s->key_file, 65536, &s->file, &err);

    if (rc < 0)
        return cli_fail(s->key_file, rc, &err);
    char *line = (char *)aq_bytes_str(&s->file);
    while (line && *line) {
        char *end = line + strcspn(line, "\r\n");
        bool more = *end;
        *end = 0;
        if (*line && *line != '#' && cli_list_add(&s->key, line) < 0)
            return cli_error(CLI_CANNOT, s->key_file, "holds more than %u keys", CLI_LIST_MAX);
        line = end + more;
    }
    return s->key.n ? CLI_OK : cli_error(CLI_CANNOT, s->key_file, "holds no key");
}

/* "SmolLM2-135M.Q4_1" of ".../SmolLM2-135M.Q4_1.gguf". */
static const char *name_of(const char *path, char *ret, size_t cap)
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, cap, "%s", slash ? slash + 1 : path);
    size_t n = strlen(ret);
    if (n > 5 && !strcmp(ret + n - 5, ".gguf"))
        ret[n - 5] = 0;
    return ret;
}

static int load(serve *s)
{
    aq_err err = {0};
    int rc = aq_model_open(s->rt, s->path, 0, &s->model, &s->src, &err);
    aq_engine_cfg cfg = {.place = {.backend = s->backend},
                         .n_ctx = s->ctx,
                         .n_parallel = s->parallel,
                         .park_dir = s->park,
                         .park_bytes = s->park_mb * 1000000ull,
                         .progress = &loading};
    char name[256];

    if (rc >= 0 && aq_model_get_info(s->model)->tok_refused)
        rc = aq_fail(&err, AQ_E_UNSUPPORTED, "%s", aq_model_get_info(s->model)->tok_refused);
    rc = rc < 0 ? rc : aq_engine_new(s->rt, s->model, &s->src, &cfg, &s->engine, &err);
    if (rc < 0)
        return cli_fail(s->path, rc, &err);
    aq_api_model m = {.id = s->alias ? s->alias : name_of(s->path, name, sizeof name),
                      .engine = s->engine,
                      .model = s->model,
                      .created_s = aq_wall_s()};
    rc = aq_api_set_model(s->api, &m, &err);
    return rc < 0 ? cli_fail("serve", rc, &err) : CLI_OK;
}

static int tell(const serve *s)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint16_t port = aq_api_port(s->api);
    aq_engine_info info;
    char name[256];
    int rc;

    aq_engine_get_info(s->engine, &info);
    name_of(s->path, name, sizeof name);
    if (s->json) {
        rc = aq_bytes_putf(&b, "{\"port\":%u,\"url\":\"http://127.0.0.1:%u/v1\",\"context\":%u,",
                           port, port, info.n_ctx);
        rc = rc < 0 ? rc : aq_bytes_puts(&b, "\"model\":");
        rc = rc < 0 ? rc
                    : aq_json_quote(&b, s->alias ? s->alias : name,
                                    strlen(s->alias ? s->alias : name));
        rc = rc < 0 ? rc : aq_bytes_puts(&b, ",\"device\":");
        rc = rc < 0 ? rc : aq_json_quote(&b, info.device, strlen(info.device));
        if (rc >= 0 && s->new_key[0])
            rc = aq_bytes_putf(&b, ",\"key\":\"%s\"", s->new_key);
        if (rc >= 0 && s->tls && (rc = aq_bytes_puts(&b, ",\"certificate\":")) >= 0)
            rc = aq_json_quote(&b, s->cert, strlen(s->cert));
        rc = rc < 0 ? rc : aq_bytes_puts(&b, "}\n");
    } else {
        rc = aq_bytes_putf(&b,
                           "%s on %s, context %u\nOpenAI: http://127.0.0.1:%u/v1   Anthropic: "
                           "http://127.0.0.1:%u\n",
                           s->alias ? s->alias : name, info.device, info.n_ctx, port, port);
        if (rc >= 0 && s->tls)
            rc = aq_bytes_putf(&b,
                               "Other PCs reach it over TLS: https and this PC's address, port %u. "
                               "Their programs need this certificate: %s\n",
                               port, s->cert);
        else if (rc >= 0 && s->lan)
            rc = aq_bytes_putf(&b,
                               "Other PCs reach it at this PC's address, port %u. Keys and chats "
                               "travel in clear there: use it on a network that you trust, or "
                               "with --tls.\n",
                               port);
        if (rc >= 0 && s->new_key[0])
            rc = aq_bytes_putf(&b, "key: %s\n", s->new_key);
    }
    if (rc < 0)
        return cli_error(CLI_FAILED, "serve", "out of memory");
    fwrite(b.p, 1, b.n, stdout);
    return cli_flush();
}

/* Wait for a signal on a thread of its own, so that it also stops loading. */
static void *wait_signal(void *arg)
{
    int sig;

    sigwait(arg, &sig);
    atomic_store(&loading.cancel, 1);
    return NULL;
}

static void wipe_p(aq_bytes *b)
{
    if (b->p)
        aq_mem_wipe(b->p, b->cap);
    aq_bytes_clear(b);
}

static int certificate(serve *s, aq_bytes *ret_pem, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    int rc = cli_trust_open(s->state, NULL, &t, err);

    return rc < 0 ? rc
                  : aq_trust_server_cert(t, s->host.v, s->host.n, ret_pem, s->cert, sizeof s->cert,
                                         err);
}

static int run(serve *s)
{
    aq_err err = {0};
    int code = s->key_file ? read_keys(s) : CLI_OK;

    if (code != CLI_OK)
        return code;
    int rc = 0;
    if (s->lan && !s->key.n) {
        rc = aq_api_key_new(s->new_key, &err);
        (void)!cli_list_add(&s->key, s->new_key);
    }
    __attribute__((cleanup(wipe_p))) aq_bytes pem = {0};
    rc = rc < 0 || !s->tls ? rc : certificate(s, &pem, &err);
    aq_api_cfg cfg = {.app = "aquifer " AQ_VERSION,
                      .port = (uint16_t)s->port,
                      .lan = s->lan,
                      .tls_pem = (const char *)pem.p,
                      .key = s->key.v,
                      .n_key = s->key.n,
                      .host = s->host.v,
                      .n_host = s->host.n,
                      .origin = s->origin.v,
                      .n_origin = s->origin.n};
    rc = rc < 0 ? rc : cli_rt(s->threads, &s->rt, &err);
    rc = rc < 0 ? rc : aq_api_new(&cfg, &s->api, &err);
    if (rc < 0)
        return cli_fail("serve", rc, &err);
    return (code = load(s)) != CLI_OK ? code : tell(s);
}

int cli_serve(int argc, char **argv)
{
    serve s = {.port = AQ_API_PORT, .park_mb = 4000};
    cli_opt opts[] = {{"-m", 's', &s.path},
                      {"--port", 'u', &s.port},
                      {"--lan", 'b', &s.lan},
                      {"--tls", 'b', &s.tls},
                      {"--state", 's', &s.state},
                      {"--key", 'l', &s.key},
                      {"--key-file", 's', &s.key_file},
                      {"--host", 'l', &s.host},
                      {"--origin", 'l', &s.origin},
                      {"--alias", 's', &s.alias},
                      {"--ctx", 'u', &s.ctx},
                      {"--parallel", 'u', &s.parallel},
                      {"--threads", 'u', &s.threads},
                      {"--backend", 's', &s.backend},
                      {"--park", 's', &s.park},
                      {"--park-mb", 'u', &s.park_mb},
                      {"--json", 'b', &s.json},
                      {0}};
    const char *model = NULL;
    int n_pos, code = cli_parse(argc, argv, opts, &model, 1, &n_pos);
    pthread_t waiter;
    sigset_t set;

    if (code != CLI_OK)
        return code;
    s.path = s.path ? s.path : model;
    if (!s.path || (model && s.path != model))
        return cli_error(CLI_CANNOT, "serve", "needs one -m MODEL, a GGUF file");
    if (s.tls && !s.lan)
        return cli_error(CLI_CANNOT, "--tls", "is for other PCs: give --lan as well");
    if (s.port > 65535)
        return cli_error(CLI_CANNOT, "--port", "%u is no port: 0 to 65535", s.port);
    /* threads made from here on leave these to the waiter */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&waiter, NULL, wait_signal, &set))
        return cli_error(CLI_CANNOT, "serve", "no thread can be made");
    code = run(&s);
    if (code == CLI_OK) {
        aq_log_set(log_cb, NULL, cli_timing() ? AQ_LOG_DEBUG : AQ_LOG_INFO);
        pthread_join(waiter, NULL);
        aq_log_set(NULL, NULL, AQ_LOG_INFO);
    } else {
        pthread_cancel(waiter);
        pthread_join(waiter, NULL);
    }
    aq_api_free(s.api);
    aq_engine_free(s.engine);
    aq_wsrc_close(&s.src);
    aq_model_free(s.model);
    aq_rt_free(s.rt);
    if (s.file.p)
        aq_mem_wipe(s.file.p, s.file.cap);
    aq_bytes_clear(&s.file);
    return code;
}
