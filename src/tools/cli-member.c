/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli pool status, list, pair, add, remove, leave: who this PC is, which PCs there are, and pairing by
 * six digits. What changes the pool takes its lock first; status and list only read. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cli-pool.h"

#define CALL_US 1500000ll /* for a PC to answer */
#define APP "aquifer " AQ_VERSION

typedef struct member_opt {
    const char *state, *name, *bind;
    uint32_t port, wait_ms;
    bool json, wait;
    const char *more[2]; /* of permit, after the PC */
} member_opt;

static const struct {
    uint32_t bit;
    const char *name;
} perm_names[] = {{AQ_PERM_REQUESTS, "requests"},
                  {AQ_PERM_LAYERS, "layers"},
                  {AQ_PERM_EXPERTS, "experts"},
                  {AQ_PERM_FILES, "files"}};
static const char *const mdns_names[AQ_PRESENCE_N] = {
    [AQ_PRESENCE_OFF] = "off",         [AQ_PRESENCE_STARTING] = "starting",
    [AQ_PRESENCE_RUNNING] = "running", [AQ_PRESENCE_NO_DAEMON] = "no-daemon",
    [AQ_PRESENCE_REFUSED] = "refused", [AQ_PRESENCE_PORT_USED] = "port-used",
    [AQ_PRESENCE_FAILED] = "failed",   [AQ_PRESENCE_NO_BUILD] = "no-build",
};
static const char *const reach_names[AQ_REACH_N] = {
    [AQ_REACH_UNTRIED] = "no-address", [AQ_REACH_FOREIGN] = "foreign",
    [AQ_REACH_NO_ROUTE] = "no-route",  [AQ_REACH_SILENT] = "silent",
    [AQ_REACH_BLOCKED] = "blocked",    [AQ_REACH_REFUSED] = "refused",
    [AQ_REACH_ANSWERS] = "answers",
};

/* ---- output ------------------------------------------------------------------------------------ */

/* One text that grows; the first error stays. */
typedef struct out {
    aq_bytes b;
    int rc;
} out;

static void put(out *o, const char *fmt, ...) AQ_PRINTF(2, 3);
static void put(out *o, const char *fmt, ...)
{
    char s[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    if (o->rc >= 0)
        o->rc = aq_bytes_puts(&o->b, s);
}

static void put_json(out *o, const char *text)
{
    if (o->rc >= 0)
        o->rc = aq_json_quote(&o->b, text, strlen(text));
}

static int out_end(out *o, const char *where)
{
    int code = CLI_OK;

    if (o->rc < 0)
        code = cli_error(CLI_FAILED, where, "out of memory");
    else
        fwrite(o->b.p, 1, o->b.n, stdout);
    aq_bytes_clear(&o->b);
    return code == CLI_OK ? cli_flush() : code;
}

static void put_id(out *o, const aq_id *id)
{
    char hex[65];

    aq_hex(id->b, 32, hex);
    put(o, "\"id\":\"%s\"", hex);
}

static void put_addrs(out *o, const char (*addr)[AQ_ADDR_MAX + 1], uint32_t n)
{
    put(o, "\"addresses\":[");
    for (uint32_t i = 0; i < n; i++) {
        put(o, i ? "," : "");
        put_json(o, addr[i]);
    }
    put(o, "]");
}

static void put_perms(out *o, uint32_t perms)
{
    bool first = true;

    put(o, "\"permissions\":[");
    for (size_t i = 0; i < AQ_LEN(perm_names); i++) {
        if (!(perms & perm_names[i].bit))
            continue;
        put(o, "%s\"%s\"", first ? "" : ",", perm_names[i].name);
        first = false;
    }
    put(o, "]");
}

static void put_mdns(out *o, const aq_presence_info *in)
{
    put(o, "\"mdns\":{\"state\":\"%s\",\"text\":", mdns_names[in->state]);
    put_json(o, aq_presence_text(in->state));
    put(o, ",\"detail\":");
    put_json(o, in->detail);
    put(o, "}");
}

/* ---- PCs of the network ------------------------------------------------------------------------ */

static aq_reach reach_of(const char (*addr)[AQ_ADDR_MAX + 1], uint32_t n)
{
    const char *a[AQ_ADDRS_MAX] = {NULL};

    for (uint32_t i = 0; i < n; i++)
        a[i] = addr[i];
    return aq_reach_try(a, n, CALL_US);
}

/* ---- status ------------------------------------------------------------------------------------ */

static void status_json(out *o, const aq_trust *t, const aq_roster *r, const aq_holder *h,
                        const aq_presence_info *mdns)
{
    char name[AQ_NAME_MAX + 1], hex[33];

    aq_trust_name(t, name);
    put(o, "{");
    put_id(o, aq_trust_id(t));
    put(o, ",\"name\":");
    put_json(o, name);
    if (r) {
        aq_hex(r->pool, 16, hex);
        put(o, ",\"pool\":\"%s\",\"epoch\":%u,\"version\":%llu", hex, r->epoch,
            (unsigned long long)r->version);
    } else {
        put(o, ",\"pool\":null");
    }
    put(o, ",\"members\":[");
    for (uint32_t i = 0; r && i < r->n; i++) {
        put(o, "%s{", i ? "," : "");
        put_id(o, &r->m[i].id);
        put(o, ",\"name\":");
        put_json(o, r->m[i].name);
        put(o, ",\"this\":%s,", aq_id_equal(&r->m[i].id, aq_trust_id(t)) ? "true" : "false");
        put_perms(o, r->m[i].perms);
        put(o, ",");
        put_addrs(o, r->m[i].addr, r->m[i].n_addr);
        put(o, "}");
    }
    put(o, "],\"process\":");
    if (h) {
        put(o, "{\"pid\":%u,\"name\":", h->pid);
        put_json(o, h->name);
        put(o, "},\"port\":");
    } else {
        put(o, "null,\"port\":");
    }
    put(o, h && h->port ? "%u," : "null,", h ? h->port : 0u);
    put_mdns(o, mdns);
    put(o, "}\n");
}

static void status_text(out *o, const aq_trust *t, const aq_roster *r, const aq_holder *h,
                        const aq_presence_info *mdns)
{
    char name[AQ_NAME_MAX + 1], hex[65];

    aq_trust_name(t, name);
    aq_hex(aq_trust_id(t)->b, 32, hex);
    put(o, "this PC   %s (%.12s…)\n", name, hex);
    if (r)
        put(o, "pool      %u PCs, epoch %u\n", r->n, r->epoch);
    else
        put(o, "pool      none: pair this PC with another one\n");
    for (uint32_t i = 0; r && i < r->n; i++) {
        const aq_member *m = &r->m[i];
        if (aq_id_equal(&m->id, aq_trust_id(t)))
            continue;
        put(o, "member    %s, may use here:", m->name);
        for (size_t k = 0; k < AQ_LEN(perm_names); k++)
            if (m->perms & perm_names[k].bit)
                put(o, " %s", perm_names[k].name);
        put(o, m->perms ? "\n" : " nothing\n");
    }
    if (h && h->port)
        put(o, "listens   port %u (%s, process %u)\n", h->port, h->name, h->pid);
    else
        put(o, "listens   no\n");
    put(o, "mDNS      %s\n", aq_presence_text(mdns->state));
}

static int pool_status(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    aq_presence_info mdns = {0};
    aq_holder h = {0};
    out o = {0};
    uint32_t n;

    (void)arg;
    if (!r || !f)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    int in = aq_trust_roster(t, r), held = aq_trust_holder(t, &h, err);
    if (held < 0)
        return held;
    int rc = aq_look(t, AQ_VERSION, NULL, NULL, true, mo->wait_ms, &mdns, f, &n, err);
    if (rc < 0)
        return rc;
    (mo->json ? status_json : status_text)(&o, t, in ? r : NULL, held ? &h : NULL, &mdns);
    return out_end(&o, "pool status");
}

/* ---- list -------------------------------------------------------------------------------------- */

static void list_one(out *o, const member_opt *mo, const aq_pc *p, bool first)
{
    aq_reach reach = p->self ? AQ_REACH_ANSWERS : reach_of(p->addr, p->n_addr);
    const char *state = p->self ? "this-pc" : reach_names[reach];
    const char *text = p->self ? "" : p->n_addr ? aq_reach_text(reach) : "Nobody knows its address";

    if (!mo->json) {
        put(o, "%-20s  %-10s  %-24s  %s\n", *p->name ? p->name : "?",
            p->self     ? "this PC"
            : p->member ? "member"
            : p->found  ? "found"
                        : "added",
            p->n_addr ? p->addr[0] : "", text);
        return;
    }
    put(o, "%s{", first ? "" : ",");
    if (p->has_id) {
        put_id(o, &p->id);
        put(o, ",\"name\":");
        put_json(o, p->name);
    } else {
        put(o, "\"id\":null,\"name\":null");
    }
    put(o, ",\"member\":%s,\"found\":%s,\"state\":\"%s\",\"text\":", p->member ? "true" : "false",
        p->found ? "true" : "false", state);
    put_json(o, text);
    put(o, ",");
    put_perms(o, p->perms);
    put(o, ",");
    put_addrs(o, p->addr, p->n_addr);
    put(o, ",\"app_version\":");
    if (p->found)
        put_json(o, p->version);
    else
        put(o, "null");
    put(o, "}");
}

static int pool_list(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    AQ_AUTOFREE aq_pc *pc = calloc(AQ_PCS_MAX, sizeof *pc);
    aq_presence_info mdns = {0};
    uint32_t n_f = 0;
    out o = {0};

    (void)arg;
    if (!f || !pc)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    int n = aq_pcs_list(t, NULL, 0, pc, err); /* a damaged file is told before the wait */
    if (n < 0 ||
        (n = aq_look(t, AQ_VERSION, NULL, NULL, false, mo->wait_ms, &mdns, f, &n_f, err)) < 0 ||
        (n = aq_pcs_list(t, f, n_f, pc, err)) < 0)
        return n;
    if (mo->json) {
        put(&o, "{");
        put_mdns(&o, &mdns);
        put(&o, ",\"pcs\":[");
    }
    for (int i = 0; i < n; i++)
        list_one(&o, mo, &pc[i], i == 0);
    if (mo->json)
        put(&o, "]}\n");
    else if (mdns.state != AQ_PRESENCE_RUNNING)
        put(&o, "%s\n", aq_presence_text(mdns.state));
    else if (!n)
        put(&o, "No other PCs found. Guest Wi-Fi and VPNs often block this: aquifer-cli pool add "
                "ADDRESS\n");
    return out_end(&o, "pool list");
}

/* ---- pair -------------------------------------------------------------------------------------- */

typedef struct pairing {
    int wake_fd;
    pthread_mutex_t lock;
    bool shown, over; /* under lock, as all below */
    char digits[7], name[AQ_NAME_MAX + 1];
    aq_err why;
    aq_id id;
    aq_reach out, in;
} pairing;

static void wake(pairing *p)
{
    uint64_t one = 1;

    (void)!write(p->wake_fd, &one, sizeof one);
}

static void digits_cb(void *user, const char digits[7], const char *name)
{
    pairing *p = user;

    pthread_mutex_lock(&p->lock);
    p->shown = true;
    memcpy(p->digits, digits, sizeof p->digits);
    snprintf(p->name, sizeof p->name, "%s", name);
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

static void done_cb(void *user, const aq_err *err, const aq_id *id)
{
    pairing *p = user;

    pthread_mutex_lock(&p->lock);
    p->over = true;
    p->why = *err;
    p->id = *id;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

/* What the person typed: y or the same digits is yes, with or without spaces. */
static bool says_yes(const char *line, const char *digits)
{
    char s[16];
    size_t n = 0;

    for (; *line && n < sizeof s - 1; line++)
        if (*line > ' ')
            s[n++] = (char)(*line | (*line >= 'A' && *line <= 'Z' ? 0x20 : 0));
    s[n] = 0;
    return !strcmp(s, "y") || !strcmp(s, "yes") || !strcmp(s, digits);
}

/* Until the pairing is over. Standard input is read as bytes: stdio would keep some back from poll. */
static int talk(pairing *p, aq_meet *m, aq_err *err)
{
    struct pollfd fd[2] = {{.fd = p->wake_fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    char line[128];
    size_t n = 0;
    bool asked = false, answered = false;

    for (;;) {
        uint64_t one;
        if (poll(fd, 2, -1) < 0 && errno != EINTR)
            return aq_fail_errno(err, errno, "waiting failed");
        if (fd[0].revents)
            (void)!read(p->wake_fd, &one, sizeof one);
        pthread_mutex_lock(&p->lock);
        bool shown = p->shown, over = p->over;
        pthread_mutex_unlock(&p->lock);
        if (over) {
            if (p->why.code)
                *err = p->why;
            return -p->why.code;
        }
        if (shown && !asked) {
            asked = true;
            fd[1].fd = STDIN_FILENO;
            fprintf(stderr,
                    "%s shows digits. Those here: %.3s %.3s\nDo they match? [y/n, or the digits of "
                    "the other PC] ",
                    p->name, p->digits, p->digits + 3);
            fflush(stderr);
            continue;
        }
        if (!asked || answered || !fd[1].revents)
            continue;
        ssize_t k = read(STDIN_FILENO, line + n, sizeof line - 1 - n);
        if (k < 0 && errno == EINTR)
            continue;
        n += k > 0 ? (size_t)k : 0;
        line[n] = 0;
        /* no more input, or a line longer than any answer: no */
        if (k > 0 && !strchr(line, '\n') && n < sizeof line - 1)
            continue;
        line[strcspn(line, "\n")] = 0;
        answered = true;
        fd[1].fd = -1;
        aq_meet_answer(m, k > 0 && says_yes(line, p->digits));
    }
}

static bool is_named(void *user, const aq_found *f)
{
    return !strcmp(f->name, user);
}

/* The addresses of a PC: the argument is one, or a name. ret [AQ_ADDRS_MAX]. */
static int whom(const member_opt *mo, const aq_trust *t, const char *arg, aq_found *f,
                const char **ret, uint32_t *ret_n, aq_err *err)
{
    const aq_found *hit = NULL;
    aq_presence_info mdns;
    uint32_t n, n_hit = 0;

    /* all addresses have a dot or a colon and begin with a digit, a letter a-f or a bracket */
    if (strspn(arg, "0123456789.:") == strlen(arg) || arg[0] == '[' || strchr(arg, ':')) {
        ret[0] = arg;
        *ret_n = 1;
        return 0;
    }
    int rc = aq_look(t, AQ_VERSION, is_named, (void *)arg, false, mo->wait_ms, &mdns, f, &n, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(f[i].name, arg))
            continue;
        hit = &f[i];
        n_hit++;
    }
    if (n_hit > 1)
        return aq_fail(err, AQ_E_INVAL, "%u PCs are called '%s': give the address", n_hit, arg);
    if (!hit)
        return aq_fail(err, AQ_E_GONE, "no PC called '%s' was found: give its address. %s", arg,
                       mdns.state == AQ_PRESENCE_RUNNING ? "" : aq_presence_text(mdns.state));
    for (uint32_t i = 0; i < hit->n_addr; i++)
        ret[i] = hit->addr[i];
    *ret_n = hit->n_addr;
    return 0;
}

/* As reach_names, of a PC that has an address. */
static const char *const call_names[AQ_REACH_N] = {
    [AQ_REACH_UNTRIED] = "untried",   [AQ_REACH_FOREIGN] = "foreign",
    [AQ_REACH_NO_ROUTE] = "no-route", [AQ_REACH_SILENT] = "silent",
    [AQ_REACH_BLOCKED] = "blocked",   [AQ_REACH_REFUSED] = "refused",
    [AQ_REACH_ANSWERS] = "answers",
};

static int pair_report(const member_opt *mo, const aq_trust *t, const pairing *p, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    char hex[33];
    out o = {0};

    if (!r || !aq_trust_roster(t, r))
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    aq_hex(r->pool, 16, hex);
    if (mo->json) {
        put(&o, "{\"paired\":true,");
        put_id(&o, &p->id);
        put(&o, ",\"name\":");
        put_json(&o, p->name);
        put(&o, ",\"digits\":\"%s\",\"pool\":\"%s\",\"reach\":\"%s\",\"reached\":\"%s\"}\n",
            p->digits, hex, call_names[p->out], call_names[p->in]);
    } else {
        put(&o, "paired with %s: the pool has %u PCs\n", p->name, r->n);
        if (p->out != AQ_REACH_UNTRIED && p->out != AQ_REACH_ANSWERS)
            put(&o, "%s cannot be called from here: %s\n", p->name, aq_reach_text(p->out));
        if (p->in != AQ_REACH_UNTRIED && p->in != AQ_REACH_ANSWERS)
            put(&o, "%s cannot call this PC: %s\n", p->name, aq_reach_text(p->in));
    }
    return out_end(&o, "pool pair");
}

static int pair_run(const member_opt *mo, aq_trust *t, const aq_meet_cfg *cfg, pairing *p,
                    aq_err *err)
{
    AQ_AUTO(aq_presence_free) aq_presence *shown = NULL;
    AQ_AUTO(aq_meet_free) aq_meet *m = NULL;
    char name[AQ_NAME_MAX + 1];
    int rc = aq_meet_new(cfg, &m, err);

    if (rc < 0)
        return rc;
    if (mo->wait) {
        aq_trust_name(t, name);
        aq_presence_opts o = {
            .id = *aq_trust_id(t), .name = name, .version = AQ_VERSION, .port = aq_meet_port(m)};
        if ((rc = aq_trust_hold_port(t, aq_meet_port(m), err)) < 0 ||
            (rc = aq_presence_start(&o, NULL, NULL, &shown, err)) < 0)
            return rc;
        fprintf(stderr, "%s waits for another PC on port %u\n", name, aq_meet_port(m));
    }
    rc = talk(p, m, err);
    aq_meet_reach(m, &p->out, &p->in);
    return rc;
}

static int pool_pair(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    pairing p = {.lock = PTHREAD_MUTEX_INITIALIZER};
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    const char *addr[AQ_ADDRS_MAX] = {mo->bind};
    aq_meet_cfg cfg = {.trust = t,
                       .app = APP,
                       .wait = mo->wait,
                       .addr = addr,
                       .n_addr = mo->bind ? 1 : 0,
                       .port = (uint16_t)mo->port,
                       .digits_cb = digits_cb,
                       .done_cb = done_cb,
                       .user = &p};
    int rc = f ? aq_trust_hold(t, err) : aq_fail(err, AQ_E_NOMEM, "out of memory");

    if (rc < 0 || (!mo->wait && (rc = whom(mo, t, arg, f, addr, &cfg.n_addr, err)) < 0))
        return rc;
    AQ_AUTOFD int wake_fd = p.wake_fd = eventfd(0, EFD_CLOEXEC);
    if (wake_fd < 0)
        return aq_fail_errno(err, errno, "no eventfd");
    rc = pair_run(mo, t, &cfg, &p, err);
    return rc < 0 ? rc : pair_report(mo, t, &p, err);
}

/* ---- add, remove, leave ------------------------------------------------------------------------------- */

static int pool_add(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    char addr[AQ_ADDR_MAX + 1];
    out o = {0};
    int rc = aq_trust_hold(t, err);

    if (rc < 0 || (rc = aq_known_add(t, arg, addr, err)) < 0)
        return rc;
    const char *one = addr;
    aq_reach reach = aq_reach_try(&one, 1, CALL_US);
    if (mo->json) {
        put(&o, "{\"added\":");
        put_json(&o, addr);
        put(&o, ",\"state\":\"%s\",\"text\":", reach_names[reach]);
        put_json(&o, aq_reach_text(reach));
        put(&o, "}\n");
    } else {
        put(&o, "%s is remembered. %s\n", addr, aq_reach_text(reach));
    }
    return out_end(&o, "pool add");
}

/* By name or id; *ret stays when there is none. */
static int find_member(const aq_roster *r, const char *arg, const aq_member **ret, aq_err *err)
{
    uint32_t n = 0;
    char hex[65];

    for (uint32_t i = 0; i < r->n; i++) {
        aq_hex(r->m[i].id.b, 32, hex);
        if (strcmp(r->m[i].name, arg) && strcmp(hex, arg))
            continue;
        *ret = &r->m[i];
        n++;
    }
    return n > 1 ? aq_fail(err, AQ_E_INVAL,
                           "%u members are called '%s': give the id (pool status --json)", n, arg)
                 : 0;
}

static int pool_remove(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    const aq_member *hit = NULL;
    out o = {0};
    int rc = r ? aq_trust_hold(t, err) : aq_fail(err, AQ_E_NOMEM, "out of memory");

    if (rc < 0)
        return rc;
    (void)!aq_trust_roster(t, r);
    if ((rc = find_member(r, arg, &hit, err)) < 0)
        return rc;
    if (hit)
        rc = aq_trust_remove(t, &hit->id, err);
    else if ((rc = aq_known_drop(t, arg, err)) == 0)
        return aq_fail(err, AQ_E_INVAL, "'%s' is neither a member nor an added address", arg);
    if (rc < 0)
        return rc;
    (void)!aq_trust_roster(t, r);
    if (mo->json) {
        put(&o, "{\"removed\":");
        put_json(&o, arg);
        put(&o, ",\"member\":%s,\"epoch\":%u}\n", hit ? "true" : "false", r->epoch);
    } else if (hit) {
        put(&o,
            "%s is removed; the pool has a new secret (epoch %u), which the other members get "
            "when they meet this PC\n",
            arg, r->epoch);
    } else {
        put(&o, "%s is forgotten\n", arg);
    }
    return out_end(&o, "pool remove");
}

static int pool_permit(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    const aq_member *m = NULL;
    uint32_t bit = 0;
    out o = {0};
    int rc = r ? 0 : aq_fail(err, AQ_E_NOMEM, "out of memory");

    for (size_t i = 0; i < AQ_LEN(perm_names); i++)
        if (!strcmp(mo->more[0], perm_names[i].name))
            bit = perm_names[i].bit;
    bool on = !strcmp(mo->more[1], "on");
    if (rc >= 0 && (!bit || (!on && strcmp(mo->more[1], "off") != 0)))
        rc = aq_fail(err, AQ_E_INVAL,
                     "'%s %s': permissions are requests, layers, experts and files, each on or off",
                     mo->more[0], mo->more[1]);
    if (rc < 0 || (rc = aq_trust_hold(t, err)) < 0)
        return rc;
    (void)!aq_trust_roster(t, r);
    if ((rc = find_member(r, arg, &m, err)) < 0)
        return rc;
    if (!m || aq_id_equal(&m->id, aq_trust_id(t)))
        return aq_fail(err, AQ_E_INVAL, "'%s' is no other PC of this pool", arg);
    uint32_t perms = on ? m->perms | bit : m->perms & ~bit;
    if ((rc = aq_trust_set_perms(t, &m->id, perms, err)) < 0)
        return rc;
    if (mo->json) {
        put(&o, "{");
        put_id(&o, &m->id);
        put(&o, ",\"name\":");
        put_json(&o, m->name);
        put(&o, ",");
        put_perms(&o, perms);
        put(&o, "}\n");
    } else {
        put(&o, "%s may %suse %s here\n", m->name, on ? "" : "not ", mo->more[0]);
    }
    return out_end(&o, "pool permit");
}

static int pool_leave(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    out o = {0};
    int rc = aq_trust_hold(t, err);

    (void)arg;
    if (rc < 0)
        return rc;
    if (!aq_trust_roster(t, NULL))
        return aq_fail(err, AQ_E_INVAL, "this PC is in no pool");
    if ((rc = aq_trust_leave(t, err)) < 0)
        return rc;
    put(&o, mo->json ? "{\"left\":true}\n"
                     : "this PC is in no pool any more; the others still list it until one of them "
                       "removes it\n");
    return out_end(&o, "pool leave");
}

/* ---- dispatch ---------------------------------------------------------------------------------- */

static const struct {
    const char *name, *where, *needs; /* needs: NULL = no argument */
    int n_pos;
    int (*run)(const member_opt *, aq_trust *, const char *arg, aq_err *);
} commands[] = {
    {"status", "pool status", NULL, 0, pool_status},
    {"list", "pool list", NULL, 0, pool_list},
    {"pair", "pool pair", "ADDRESS or NAME of the other PC, or --wait", 1, pool_pair},
    {"add", "pool add", "ADDRESS of the other PC", 1, pool_add},
    {"remove", "pool remove", "NAME or id of a member, or an added ADDRESS", 1, pool_remove},
    {"permit", "pool permit",
     "NAME or id of a member, then requests, layers, experts or files, then on or off", 3,
     pool_permit},
    {"leave", "pool leave", NULL, 0, pool_leave},
};

int cli_pool_member(int argc, char **argv)
{
    member_opt mo = {.port = AQ_POOL_PORT, .wait_ms = CLI_MDNS_MS};
    cli_opt opts[] = {{"--json", 'b', &mo.json}, {"--state", 's', &mo.state},
                      {"--name", 's', &mo.name}, {"--timeout-ms", 'u', &mo.wait_ms},
                      {"--wait", 'b', &mo.wait}, {"--bind", 's', &mo.bind},
                      {"--port", 'u', &mo.port}, {0}};
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    const char *pos[3] = {NULL};
    aq_err err = {0};
    int n_pos;
    size_t i = 0;

    while (i < AQ_LEN(commands) && (argc < 2 || strcmp(argv[1], commands[i].name)))
        i++;
    if (i == AQ_LEN(commands))
        return cli_error(
            CLI_CANNOT, "pool",
            "needs a command: status, list, pair, add, remove, permit, leave or check (aquifer-cli "
            "--help shows the use)");
    int code = cli_parse(argc - 1, argv + 1, opts, pos, 3, &n_pos);
    if (code != CLI_OK)
        return code;
    int takes = mo.wait ? 0 : commands[i].n_pos;
    if (n_pos < takes)
        return cli_error(CLI_CANNOT, commands[i].where, "needs %s", commands[i].needs);
    if (n_pos > takes)
        return cli_error(CLI_CANNOT, commands[i].where, "takes no '%s'", pos[takes]);
    mo.more[0] = pos[1];
    mo.more[1] = pos[2];
    bool pairs = commands[i].run == pool_pair;
    if (!pairs && mo.wait)
        return cli_error(CLI_CANNOT, "--wait", "belongs to pool pair");
    if (!mo.wait && (mo.bind || mo.port != AQ_POOL_PORT))
        return cli_error(CLI_CANNOT, mo.bind ? "--bind" : "--port", "belongs to pool pair --wait");
    if (mo.port > UINT16_MAX || mo.wait_ms > 60000)
        return cli_error(CLI_CANNOT, mo.port > UINT16_MAX ? "--port" : "--timeout-ms",
                         "at most %u is possible", mo.port > UINT16_MAX ? UINT16_MAX : 60000);
    int rc = cli_trust_open(mo.state, mo.name, &t, &err);
    rc = rc < 0 ? rc : commands[i].run(&mo, t, pos[0], &err);
    if (pairs && rc == -AQ_E_AUTH) /* it was run, and refused */
        return cli_error(CLI_FAILED, commands[i].where, "%s", err.text);
    return rc < 0 ? cli_fail(commands[i].where, rc, &err) : rc;
}
