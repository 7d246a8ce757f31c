/* SPDX-License-Identifier: Apache-2.0 */
/* Options, errors and files for the subcommands. One thread. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/** One line whatever is in it: names of files come from outside, with newlines and terminal codes. */
static void put_line(const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 127 ? ' ' : *text, stderr);
}

int cli_error(int exit_code, const char *where, const char *fmt, ...)
{
    char what[2048]; /* an aq_err, or two names */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fputs("aquifer-cli: ", stderr);
    put_line(*where ? where : "''");
    fputs(": ", stderr);
    put_line(what);
    fputc('\n', stderr);
    return exit_code;
}

void cli_plain(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)p[i], next = i + 1 < n ? (uint8_t)p[i + 1] : 0;
        if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
            p[i] = '?';
        else if (c == 0xC2 && next >= 0x80 && next < 0xA0) /* U+0080 to U+009F */
            p[i] = p[i + 1] = '?';
    }
}

int cli_flush(void)
{
    bool lost = fflush(stdout) != 0;
    return !lost && !ferror(stdout)
               ? CLI_OK
               : cli_error(CLI_FAILED, "stdout",
                           "cannot be written (is the disk full, or has its reader gone away?)");
}

int cli_fail(const char *where, int rc, const aq_err *err)
{
    /* what could not even be looked at is 2; what was looked at and found wanting is 1 */
    bool cannot = rc == -AQ_E_IO || rc == -AQ_E_AUTH;

    /* A person sees the file in the home folder, where the sandbox sees none of it. */
    if (cannot && !strncmp(err->text, "cannot open ", 12) && !access("/.flatpak-info", F_OK))
        return cli_error(CLI_CANNOT, where,
                         "%s; a Flatpak sees its own folders alone: put a model into "
                         "~/.var/app/io.github.aquiferpool.Aquifer/data/aquifer/models",
                         err->text);
    return cli_error(cannot ? CLI_CANNOT : CLI_FAILED, where, "%s",
                     err->code ? err->text : aq_status_text(rc));
}

int cli_list_add(cli_list *l, const char *text)
{
    if (l->n == CLI_LIST_MAX)
        return -1;
    l->v[l->n++] = text;
    return 0;
}

static int set_opt(const cli_opt *o, const char *text)
{
    char *end;
    errno = 0;
    if (o->kind == 's') {
        *(const char **)o->dst = text;
        return 0;
    }
    if (o->kind == 'l')
        return cli_list_add(o->dst, text) < 0
                   ? cli_error(CLI_CANNOT, o->name, "comes more than %u times", CLI_LIST_MAX)
                   : 0;
    if (o->kind == 'u') {
        unsigned long v = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || v > UINT32_MAX)
            return cli_error(CLI_CANNOT, o->name, "'%s' is no whole number from 0 to 4294967295",
                             text);
        *(uint32_t *)o->dst = (uint32_t)v;
        return 0;
    }
    float f = strtof(text, &end);
    if (!*text || *end || !isfinite(f))
        return cli_error(CLI_CANNOT, o->name, "'%s' is no number", text);
    *(float *)o->dst = f;
    return 0;
}

int cli_parse(int argc, char **argv, const cli_opt *opts, const char **pos, int max_pos,
              int *ret_n_pos)
{
    int n = 0;
    bool only_pos = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (only_pos || a[0] != '-' || !a[1]) {
            if (n == max_pos)
                return cli_error(CLI_CANNOT, argv[0],
                                 "'%s' is one argument too many (aquifer-cli --help shows the use)",
                                 a);
            pos[n++] = a;
            continue;
        }
        if (!strcmp(a, "--")) {
            only_pos = true;
            continue;
        }
        const char *eq = a[1] == '-' ? strchr(a, '=') : NULL;
        size_t len = eq ? (size_t)(eq - a) : strlen(a);
        const cli_opt *o = opts;
        while (o->name && (strlen(o->name) != len || memcmp(o->name, a, len)))
            o++;
        if (!o->name)
            return cli_error(CLI_CANNOT, argv[0],
                             "unknown option '%s' (aquifer-cli --help shows the use)", a);
        if (o->kind == 'b') {
            if (eq)
                return cli_error(CLI_CANNOT, o->name, "takes no value");
            *(bool *)o->dst = true;
            continue;
        }
        if (!eq && i + 1 == argc)
            return cli_error(CLI_CANNOT, o->name, "needs a value");
        int rc = set_opt(o, eq ? eq + 1 : argv[++i]);
        if (rc)
            return rc;
    }
    *ret_n_pos = n;
    return CLI_OK;
}

int cli_read_file(const char *path, size_t max, aq_bytes *ret, aq_err *err)
{
    AQ_AUTOFD int fd = open(path, O_RDONLY | O_CLOEXEC);
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    if (fd < 0)
        return aq_fail_errno(err, errno,
                             "cannot open %s (check its name, and that you may read it)", path);
    for (;;) {
        if (aq_bytes_reserve(&b, 65536) < 0)
            return aq_fail(err, AQ_E_NOMEM, "no memory for %s", path);
        ssize_t r = read(fd, b.p + b.n, 65536);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return aq_fail_errno(err, errno, "cannot read %s", path);
        if (!r)
            break;
        b.n += (size_t)r;
        if (b.n > max)
            return aq_fail(err, AQ_E_LIMIT, "%s has more than %zu bytes", path, max);
    }
    *ret = b;
    b = (aq_bytes){0};
    return 0;
}

#define OLG1 0x31474C4Fu

static int olg1_tokens(const char *path, const aq_bytes *b, aq_toks *ret, aq_err *err)
{
    aq_cur c = {b->p, b->n, 4};
    uint32_t n, n_vocab, id;
    if (aq_cur_get_u32(&c, &n) < 0 || aq_cur_get_u32(&c, &n_vocab) < 0)
        return aq_fail(err, AQ_E_FORMAT, "%s is truncated within the OLG1 header", path);
    for (uint32_t i = 0; i < n; i++) {
        if (aq_cur_get_u32(&c, &id) < 0)
            return aq_fail(err, AQ_E_FORMAT, "%s is truncated: it says %u tokens and ends after %u",
                           path, n, i);
        if (id > INT32_MAX)
            return aq_fail(err, AQ_E_FORMAT, "%s: token %u is %u, which is no id", path, i, id);
        int rc = aq_toks_put(ret, (int32_t)id);
        if (rc < 0)
            return aq_fail(err, -rc, "no memory for %u tokens", n);
    }
    return 0;
}

static int read_tokens(const char *path, aq_toks *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = cli_read_file(path, AQ_BYTES_MAX / 2, &b, err);
    if (rc < 0)
        return rc;
    uint32_t magic = 0;
    aq_cur c = {b.p, b.n, 0};
    if (!aq_cur_get_u32(&c, &magic) && magic == OLG1)
        return olg1_tokens(path, &b, ret, err);
    const char *s = aq_bytes_str(&b);
    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "no memory for %s", path);
    while (*(s += strspn(s, " \t\r\n"))) {
        char *end;
        errno = 0;
        long v = strtol(s, &end, 10);
        if (end == s || !strchr(" \t\r\n", *end) || errno || v < 0 || v > INT32_MAX)
            return aq_fail(
                err, AQ_E_FORMAT,
                "%s, byte %zu: no token id (ids are whole numbers with white space between)", path,
                (size_t)(s - (const char *)b.p));
        if ((rc = aq_toks_put(ret, (int32_t)v)) < 0)
            return aq_fail(err, -rc, "no memory for the tokens of %s", path);
        s = end;
    }
    if (s != (const char *)b.p + b.n)
        return aq_fail(err, AQ_E_FORMAT, "%s, byte %zu: a NUL is no token id", path,
                       (size_t)(s - (const char *)b.p));
    return ret->n ? 0 : aq_fail(err, AQ_E_FORMAT, "%s holds no tokens", path);
}

int cli_read_tokens(const char *path, aq_toks *ret, aq_err *err)
{
    aq_toks t = {0};
    int rc = read_tokens(path, &t, err);
    if (rc < 0)
        aq_toks_clear(&t);
    else
        *ret = t;
    return rc;
}

int cli_rt(uint32_t n_threads, aq_rt **ret, aq_err *err)
{
    const char *path = getenv("AQ_CPU"), *spin = getenv("AQ_SPIN_US");
    aq_rt_cfg cfg = {.n_threads = n_threads, .cpu_path = path && *path ? path : NULL};
    if (spin && *spin) {
        char *end;
        unsigned long us = strtoul(spin, &end, 10);
        if (*end || us == 0 || us > 1000000)
            return aq_fail(err, AQ_E_INVAL, "AQ_SPIN_US is '%.20s': 1 to 1000000 microseconds",
                           spin);
        cfg.spin_us = (uint32_t)us;
    }
    return aq_rt_new(&cfg, ret, err);
}
