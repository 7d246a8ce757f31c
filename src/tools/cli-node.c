/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli node: a PC without a window that computes layers for the PCs of its pool. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-pool.h"

/* The secret as text: of the file, or of a pool that is made now and written to it. */
static int new_pool(aq_trust *trust, const char *path, aq_err *err)
{
    char text[AQ_SECRET_TEXT_MAX + 1];
    int rc = aq_trust_create(trust, err);

    if (rc < 0 || (rc = aq_trust_secret_text(trust, text, err)) < 0)
        return rc;
    AQ_AUTOFD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t n = strlen(text);
    text[n] = '\n';
    if (fd < 0 || write(fd, text, n + 1) != (ssize_t)n + 1 || fsync(fd) < 0)
        rc = aq_fail_errno(err, errno, "the pool's secret cannot be written to %s", path);
    aq_mem_wipe(text, sizeof text);
    if (rc < 0) {
        aq_err more = {0};
        (void)!aq_trust_leave(trust, &more);
        return rc;
    }
    fprintf(stderr,
            "a new pool was made; its secret is in %s: another PC joins with it (node "
            "--secret-file FILE --join ADDRESS)\n",
            path);
    return 0;
}

static int read_secret(const char *path, uint8_t ret[AQ_SECRET_BYTES], aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    struct stat st;
    int rc = cli_read_file(path, 4096, &b, err);

    if (rc < 0)
        return rc;
    if (stat(path, &st) == 0 && st.st_mode & (S_IRWXG | S_IRWXO))
        rc = aq_fail(err, AQ_E_AUTH,
                     "%s holds a secret and others may read it: chmod 600 %s, and make a new pool "
                     "if somebody did",
                     path, path);
    const char *s = rc < 0 ? NULL : aq_bytes_str(&b);
    if (rc >= 0)
        rc = s ? aq_secret_from_text(s, ret, err)
               : aq_fail(err, AQ_E_NOMEM, "no memory for %s", path);
    aq_mem_wipe(b.p, b.cap);
    return rc;
}

/* The PC must be in a pool before it serves: it is, or it makes one, or joins one. */
static int enter(aq_trust *trust, aq_seat *pool, const char *secret_file, const char *join,
                 aq_err *err)
{
    uint8_t secret[AQ_SECRET_BYTES];
    int rc;

    if (aq_trust_roster(trust, NULL))
        return 0;
    if (!secret_file)
        return aq_fail(err, AQ_E_AUTH,
                       "this PC is in no pool: give --secret-file FILE to make one, and --join "
                       "ADDRESS too to join the pool that the secret in it belongs to");
    if (!join)
        return access(secret_file, F_OK) < 0
                   ? new_pool(trust, secret_file, err)
                   : aq_fail(err, AQ_E_AUTH,
                             "this PC is in no pool, and %s is there: give --join ADDRESS of a PC "
                             "of that pool",
                             secret_file);
    if ((rc = read_secret(secret_file, secret, err)) < 0)
        return rc;
    rc = aq_seat_join(pool, join, secret, err);
    aq_mem_wipe(secret, sizeof secret);
    return rc;
}

static int tell(aq_trust *trust, uint16_t port, bool json)
{
    char name[AQ_NAME_MAX + 1], id[65];
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    aq_trust_name(trust, name);
    aq_hex(aq_trust_id(trust)->b, 32, id);
    int rc = json ? aq_bytes_putf(&b, "{\"id\":\"%s\",\"port\":%u,\"name\":", id, port) : 0;
    rc = rc < 0 || !json ? rc : aq_json_quote(&b, name, strlen(name));
    rc = rc < 0 ? rc
         : json ? aq_bytes_puts(&b, "}\n")
                : aq_bytes_putf(&b, "%s serves layers on port %u\n", name, port);
    if (rc < 0)
        return cli_error(CLI_FAILED, "node", "out of memory");
    fwrite(b.p, 1, b.n, stdout);
    return cli_flush();
}

/* What a service says is kept by who started it. */
static void log_cb(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

/* Others cannot find one that only this PC can reach. */
static bool only_here(const char *bind)
{
    return bind &&
           (!strncmp(bind, "127.", 4) || !strncmp(bind, "::1", 3) || !strncmp(bind, "[::1", 4));
}

/* What it is now: also its port, or why it has none. */
static int port_of(aq_seat *pool, uint16_t *ret, aq_err *err)
{
    AQ_AUTOFREE aq_seat_state *st = calloc(1, sizeof *st);

    if (!st)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    aq_seat_get(pool, st);
    if (!st->port) {
        *err = st->listen_err;
        return -err->code;
    }
    *ret = st->port;
    return 0;
}

int cli_node(int argc, char **argv)
{
    const char *name = NULL, *secret = NULL, *dir = NULL, *bind = NULL, *state = NULL,
               *backend = NULL, *join = NULL;
    uint32_t port = AQ_POOL_PORT, threads = 0;
    bool json = false;
    int n_pos, sig;
    cli_opt opts[] = {{"--name", 's', &name},
                      {"--secret-file", 's', &secret},
                      {"--model-dir", 's', &dir},
                      {"--bind", 's', &bind},
                      {"--port", 'u', &port},
                      {"--state", 's', &state},
                      {"--backend", 's', &backend},
                      {"--threads", 'u', &threads},
                      {"--join", 's', &join},
                      {"--json", 'b', &json},
                      {0}};
    int code = cli_parse(argc, argv, opts, NULL, 0, &n_pos);
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_trust_free) aq_trust *trust = NULL;
    AQ_AUTO(aq_seat_free) aq_seat *pool = NULL;
    uint16_t listens = 0;
    AQ_AUTOFREE char *models = NULL, *run_dir = cli_run_dir(state);
    aq_err err = {0};
    sigset_t set;

    if (code != CLI_OK)
        return code;
    if (port > 65535)
        return cli_error(CLI_CANNOT, "--port", "%u is no port: 0 to 65535", port);
    /* threads made from here on leave these to sigwait below */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (!dir && !(dir = models = cli_model_dir()))
        return cli_error(CLI_CANNOT, "node", "needs --model-dir DIR: there is no home folder");
    int rc = cli_rt(threads, &rt, &err);
    rc = rc < 0 ? rc : cli_trust_open(state, name, &trust, &err);
    rc = rc < 0 ? rc : aq_trust_hold(trust, &err);
    if (rc < 0)
        return cli_fail("node", rc, &err);
    aq_seat_cfg cfg = {.rt = rt,
                       .trust = trust,
                       .app = "aquifer " AQ_VERSION,
                       .version = AQ_VERSION,
                       .backend = backend,
                       .dir = &dir,
                       .n_dir = 1,
                       .bind = &bind,
                       .n_bind = bind ? 1 : 0,
                       .port = (uint16_t)port,
                       .join = secret != NULL,
                       .hide = only_here(bind),
                       .ctl_dir = run_dir};
    rc = aq_seat_new(&cfg, &pool, &err);
    rc = rc < 0 ? rc : port_of(pool, &listens, &err);
    rc = rc < 0 ? rc : enter(trust, pool, secret, join, &err);
    if (rc < 0)
        return cli_fail("node", rc, &err);
    if ((code = tell(trust, listens, json)) != CLI_OK)
        return code;
    aq_log_set(log_cb, NULL, AQ_LOG_INFO);
    sigwait(&set, &sig);
    aq_log_set(NULL, NULL, AQ_LOG_INFO);
    return CLI_OK;
}
