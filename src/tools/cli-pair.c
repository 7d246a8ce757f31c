/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli pool pair: two PCs are paired by six digits that two people compare. Where a process has this PC's pool, it
 * pairs, and this one shows the digits and asks; else this one takes the pool's lock and pairs itself. One thread, and a
 * link's. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli-member.h"

typedef struct pairing {
    int wake_fd;
    pthread_mutex_t lock;
    bool shown, over; /* under lock, as all below */
    char digits[7], name[AQ_NAME_MAX + 1];
    aq_err why;
    aq_id id;
    aq_reach out, in;
    char pool[33]; /* hex */
    uint32_t n_member;
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

static void ask(const pairing *p)
{
    fprintf(stderr,
            "%s shows digits. Those here: %.3s %.3s\nDo they match? [y/n, or the digits of "
            "the other PC] ",
            p->name, p->digits, p->digits + 3);
    fflush(stderr);
}

/* The line that is being typed. Standard input is read as bytes: stdio would keep some back from poll. */
typedef struct typed {
    char line[128];
    size_t n;
} typed;

/* What there is of it: -1 = not yet a line, 0 = no, 1 = yes. */
static int read_answer(typed *t, const char *digits)
{
    ssize_t k = read(STDIN_FILENO, t->line + t->n, sizeof t->line - 1 - t->n);

    if (k < 0 && errno == EINTR)
        return -1;
    t->n += k > 0 ? (size_t)k : 0;
    t->line[t->n] = 0;
    /* no more input, or a line longer than any answer: no */
    if (k > 0 && !strchr(t->line, '\n') && t->n < sizeof t->line - 1)
        return -1;
    t->line[strcspn(t->line, "\n")] = 0;
    return k > 0 && says_yes(t->line, digits);
}

/* The same, when something was typed at all. */
static int poll_answer(typed *t, const char *digits)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&in, 1, 0) == 1 ? read_answer(t, digits) : -1;
}

/* Until the pairing is over. */
static int talk(pairing *p, aq_meet *m, aq_err *err)
{
    struct pollfd fd[2] = {{.fd = p->wake_fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    typed t = {.n = 0};
    bool asked = false;

    for (;;) {
        uint64_t one;
        fd[0].revents = fd[1].revents = 0;
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
            ask(p);
            continue;
        }
        int yes = fd[1].revents ? read_answer(&t, p->digits) : -1;
        if (yes < 0)
            continue;
        fd[1].fd = -1;
        aq_meet_answer(m, yes);
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
    int rc = member_look(mo, t, is_named, (void *)arg, &mdns, f, &n, err);
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

static int pair_report(const member_opt *mo, const pairing *p)
{
    out o = {0};

    if (mo->json) {
        put(&o, "{\"paired\":true,");
        put_id(&o, &p->id);
        put(&o, ",\"name\":");
        put_json(&o, p->name);
        put(&o, ",\"digits\":\"%s\",\"pool\":\"%s\",\"reach\":\"%s\",\"reached\":\"%s\"}\n",
            p->digits, p->pool, aq_reach_name(p->out), aq_reach_name(p->in));
    } else {
        put(&o, "paired with %s: the pool has %u PCs\n", p->name, p->n_member);
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

/* ---- by the process that has the pool ------------------------------------------------------------ */

static aq_reach reach_named(const char *name)
{
    for (uint32_t i = 0; name && i < AQ_REACH_N; i++)
        if (!strcmp(name, aq_reach_name((aq_reach)i)))
            return (aq_reach)i;
    return AQ_REACH_UNTRIED;
}

/* 1 = the end. */
static int heard(const member_opt *mo, pairing *p, const aq_json *j, aq_err *err)
{
    const char *event = aq_json_str(j, "event"), *digits = aq_json_str(j, "digits");
    const aq_json *done = aq_json_get(j, "done");

    if (event && !strcmp(event, "waits")) {
        fprintf(stderr, "%s, process %u, waits for another PC on port %lld\n",
                aq_call_holder(mo->call)->name, aq_call_holder(mo->call)->pid,
                (long long)aq_json_int(j, "port", 0));
        return 0;
    }
    if (event && !strcmp(event, "digits") && digits && strlen(digits) == 6 &&
        strspn(digits, "0123456789") == 6) {
        const char *name = aq_json_str(j, "name");
        memcpy(p->digits, digits, sizeof p->digits);
        snprintf(p->name, sizeof p->name, "%s", name ? name : "?");
        p->shown = true;
        ask(p);
        return 0;
    }
    if (!done)
        return 0; /* of a later version */
    const char *pool = aq_json_str(done, "pool");
    if (!far_id(done, &p->id) || !pool || strlen(pool) != 32)
        return aq_fail(err, AQ_E_PROTO,
                       "the process that has the pool does not say who was paired");
    memcpy(p->pool, pool, sizeof p->pool);
    p->n_member = (uint32_t)aq_json_int(done, "members", 0);
    p->out = reach_named(aq_json_str(done, "reach"));
    p->in = reach_named(aq_json_str(done, "reached"));
    return 1;
}

/* addr [n]; n 0 = wait. */
static int pair_far(const member_opt *mo, const char *const *addr, uint32_t n, pairing *p,
                    aq_err *err)
{
    const aq_json *j;
    typed t = {.n = 0};
    bool answered = false;
    out o = {0};

    put(&o, n ? "{\"do\":\"pair\",\"addresses\":[" : "{\"do\":\"pair\",\"wait\":true}");
    for (uint32_t i = 0; i < n; i++) {
        put(&o, i ? "," : "");
        put_json(&o, addr[i]);
    }
    put(&o, n ? "]}" : "");
    int rc = far_say(mo->call, &o, err);
    while (rc >= 0) {
        rc = aq_call_hear(mo->call, p->shown && !answered ? STDIN_FILENO : -1, &j, err);
        if (rc == 1 && (rc = heard(mo, p, j, err)) == 1)
            return 0;
        int yes = rc == 0 && p->shown && !answered ? poll_answer(&t, p->digits) : -1;
        if (yes < 0)
            continue;
        answered = true;
        put(&o, "{\"do\":\"answer\",\"match\":%s}", yes ? "true" : "false");
        rc = far_say(mo->call, &o, err);
    }
    return rc;
}

/* ---- both -------------------------------------------------------------------------------------- */

int pool_pair(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    pairing p = {.lock = PTHREAD_MUTEX_INITIALIZER};
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    const char *addr[AQ_ADDRS_MAX] = {mo->bind};
    aq_meet_cfg cfg = {.trust = t,
                       .app = CLI_APP,
                       .wait = mo->wait,
                       .addr = addr,
                       .n_addr = mo->bind ? 1 : 0,
                       .port = (uint16_t)mo->port,
                       .digits_cb = digits_cb,
                       .done_cb = done_cb,
                       .user = &p};
    int rc = !f ? aq_fail(err, AQ_E_NOMEM, "out of memory") : mo->call ? 0 : aq_trust_hold(t, err);

    if (rc >= 0 && mo->call && (mo->bind || mo->port != AQ_POOL_PORT))
        rc = aq_fail(err, AQ_E_INVAL,
                     "%s, process %u, listens for this PC already: leave out --bind and --port",
                     aq_call_holder(mo->call)->name, aq_call_holder(mo->call)->pid);
    if (rc < 0 || (!mo->wait && (rc = whom(mo, t, arg, f, addr, &cfg.n_addr, err)) < 0))
        return rc;
    if (mo->call) {
        rc = pair_far(mo, addr, mo->wait ? 0 : cfg.n_addr, &p, err);
        return rc < 0 ? rc : pair_report(mo, &p);
    }
    AQ_AUTOFD int wake_fd = p.wake_fd = eventfd(0, EFD_CLOEXEC);
    if (wake_fd < 0)
        return aq_fail_errno(err, errno, "no eventfd");
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    rc = r ? pair_run(mo, t, &cfg, &p, err) : aq_fail(err, AQ_E_NOMEM, "out of memory");
    if (rc < 0)
        return rc;
    if (aq_trust_roster(t, r)) {
        aq_hex(r->pool, sizeof r->pool, p.pool);
        p.n_member = r->n;
    }
    return pair_report(mo, &p);
}
