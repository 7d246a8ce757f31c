/* SPDX-License-Identifier: Apache-2.0 */
/* The seat of a guest: another process of this user has this PC's pool, and is asked and steered over its socket.
 *
 *   watch thread   every 5 s: "state" ─▶ told, under the seat's lock; no such process any more: the seat takes its place
 *   pair thread    "pair": waits for a PC that wants to be paired, or calls the one that a person here named
 *   any thread     one request for each change by hand
 *
 * Links of its own (questions, splits) go out from this process: they need the files of the pool alone, which are read again
 * after each change. */
#include "ctl-priv.h"
#include "member-priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define CHANGE_S 20   /* for a change to be done; leaving a pool takes some seconds */
#define STATE_S 3     /* for the state */
#define AGAIN_MS 5000 /* between tries to wait there for PCs that want to be paired */

struct aq_guest {
    aq_seat *seat;
    int wake_fd; /* of the pair thread */
    pthread_t thread;
    bool started;
    bool stop;  /* under the seat's lock, as all below */
    bool wants; /* addr is to be called */
    bool ended; /* the person has done with the pairing */
    int answer; /* 0 none, 1 They Match, 2 They Differ */
    uint32_t n_addr, n_found;
    char addr[AQ_ADDRS_MAX][AQ_ADDR_MAX + 1];
    aq_guest_told told;
    aq_found found[AQ_FOUND_MAX];
};

static void tick(const aq_guest *g)
{
    uint64_t one = 1;

    (void)!write(g->wake_fd, &one, sizeof one); /* full means awake */
}

/* ---- what it says ---------------------------------------------------------------------------- */

static void get_text(const aq_json *j, const char *key, char *ret, size_t cap)
{
    const char *s = aq_json_str(j, key);

    snprintf(ret, cap, "%s", s ? s : "");
}

static uint32_t get_found(const aq_json *a, aq_found *ret)
{
    uint32_t n = 0;

    for (const aq_json *i = a && a->kind == AQ_JSON_ARR ? a->item : NULL; i && n < AQ_FOUND_MAX;
         i = i->next) {
        const aq_json *at = aq_json_get(i, "addresses");
        aq_found *f = &ret[n];
        *f = (aq_found){0};
        if (aq_ctl_hex(i, "id", f->id.b, NULL) < 0)
            continue;
        get_text(i, "name", f->name, sizeof f->name);
        get_text(i, "version", f->version, sizeof f->version);
        for (at = at && at->kind == AQ_JSON_ARR ? at->item : NULL; at && f->n_addr < AQ_ADDRS_MAX;
             at = at->next)
            if (at->kind == AQ_JSON_STR)
                snprintf(f->addr[f->n_addr++], sizeof f->addr[0], "%s", at->str);
        n++;
    }
    return n;
}

static aq_reach get_reach(const aq_json *j, const char *key)
{
    const char *s = aq_json_str(j, key);

    for (uint32_t i = 0; s && i < AQ_REACH_N; i++)
        if (!strcmp(s, aq_reach_name((aq_reach)i)))
            return (aq_reach)i;
    return AQ_REACH_UNTRIED;
}

static void get_told(const aq_json *j, const aq_holder *who, aq_guest_told *ret)
{
    const char *mdns = aq_json_str(j, "mdns");
    const aq_json *l = aq_json_get(j, "layers");
    int64_t port = aq_json_int(j, "port", 0);

    *ret = (aq_guest_told){.host = *who, .mdns.state = AQ_PRESENCE_FAILED};
    for (uint32_t i = 0; mdns && i < AQ_PRESENCE_N; i++)
        if (!strcmp(mdns, aq_presence_name((aq_presence_state)i)))
            ret->mdns.state = (aq_presence_state)i;
    get_text(j, "mdns_detail", ret->mdns.detail, sizeof ret->mdns.detail);
    get_text(j, "works_for", ret->node.who, sizeof ret->node.who);
    get_text(j, "fault", ret->node.fault, sizeof ret->node.fault);
    ret->port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
    if (l && l->kind == AQ_JSON_ARR && l->n == 2 && l->item->i >= 0 &&
        l->item->next->i >= l->item->i && l->item->next->i < UINT32_MAX) {
        ret->node.loaded = true;
        ret->node.l0 = (uint32_t)l->item->i;
        ret->node.l1 = (uint32_t)l->item->next->i + 1;
    }
}

/* ---- one request ------------------------------------------------------------------------------ */

/* Its "done", borrowed from *ret_call; 0 when no process has the pool, else 1. */
static int ask(aq_seat *p, const aq_bytes *line, int limit_s, aq_call **ret_call,
               const aq_json **ret, aq_err *err)
{
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    const aq_json *j = NULL;
    AQ_AUTOFD int late = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    int rc =
        late < 0 ? aq_fail_errno(err, errno, "no timer") : aq_call_open(p->cfg.trust, &call, err);

    if (rc <= 0)
        return rc;
    if (timerfd_settime(late, 0, &(struct itimerspec){.it_value.tv_sec = limit_s}, NULL) < 0)
        return aq_fail_errno(err, errno, "no timer");
    rc = aq_call_say(call, (const char *)line->p, line->n, err);
    while (rc >= 0 && !aq_json_get(j, "done"))
        if ((rc = aq_call_hear(call, late, &j, err)) == 0)
            rc = aq_fail(err, AQ_E_TIMEOUT,
                         "%s, process %u, has this PC's pool and does not answer: end it",
                         aq_call_holder(call)->name, aq_call_holder(call)->pid);
    if (rc < 0)
        return rc;
    *ret = aq_json_get(j, "done");
    *ret_call = AQ_STEAL(call);
    return 1;
}

/* A change by hand; then the files are read again. rc: of what was put into line. */
static int steer(aq_seat *p, aq_bytes *line, int rc, char *ret_addr, aq_err *err)
{
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    const aq_json *j = NULL;
    int got = rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for a question")
                     : ask(p, line, CHANGE_S, &call, &j, err);

    aq_bytes_clear(line);
    if (got == 0)
        got = aq_fail(err, AQ_E_GONE,
                      "the program that had this PC's pool has just ended: try again");
    const char *addr = got == 1 ? aq_json_str(j, "address") : NULL;
    if (ret_addr && addr)
        snprintf(ret_addr, AQ_ADDR_MAX + 1, "%s", addr);
    bool known = got == 1 && aq_json_bool(j, "known", false);
    if (got == 1 && (got = aq_trust_refresh(p->cfg.trust, err)) >= 0)
        got = known;
    aq_seat_ask(p);
    aq_seat_changed(p);
    return got;
}

static int put_do(aq_bytes *b, const char *what, const char *key, const char *text)
{
    int rc = aq_bytes_putf(b, "{\"do\":\"%s\"", what);

    rc = rc < 0 || !key ? rc : aq_ctl_put_text(b, key, text);
    return rc < 0 ? rc : aq_bytes_puts(b, "}");
}

int aq_guest_text(aq_seat *p, const char *what, const char *key, const char *text,
                  char ret_addr[AQ_ADDR_MAX + 1], aq_err *err)
{
    aq_bytes b = {0};
    int rc = put_do(&b, what, key, text);

    return steer(p, &b, rc, ret_addr, err);
}

int aq_guest_permit(aq_seat *p, const aq_id *id, uint32_t perms, aq_err *err)
{
    aq_bytes b = {0};
    char hex[65];

    aq_hex(id->b, sizeof id->b, hex);
    int rc = aq_bytes_putf(&b, "{\"do\":\"permit\",\"id\":\"%s\",\"permissions\":%u}", hex, perms);
    rc = steer(p, &b, rc, NULL, err);
    return rc < 0 ? rc : 0;
}

/* ---- pairing ---------------------------------------------------------------------------------- */

static void on_digits(aq_guest *g, bool calls, const aq_json *j)
{
    aq_seat *p = g->seat;

    pthread_mutex_lock(&p->lock);
    p->pair = (aq_pair_state){.step = AQ_PAIR_DIGITS, .incoming = !calls};
    get_text(j, "digits", p->pair.digits, sizeof p->pair.digits);
    get_text(j, "name", p->pair.name, sizeof p->pair.name);
    pthread_mutex_unlock(&p->lock);
    aq_seat_changed(p);
}

static void on_done(aq_guest *g, const aq_json *j)
{
    aq_seat *p = g->seat;

    pthread_mutex_lock(&p->lock);
    p->pair.step = AQ_PAIR_DONE;
    get_text(j, "name", p->pair.name, sizeof p->pair.name);
    (void)!aq_ctl_hex(j, "id", p->pair.id.b, NULL);
    p->pair.reach_out = p->reach_out = get_reach(j, "reach");
    p->pair.reach_in = p->reach_in = get_reach(j, "reached");
    memcpy(p->reach_name, p->pair.name, sizeof p->reach_name);
    pthread_mutex_unlock(&p->lock);
}

/* What a person here wants meanwhile: 1 = this pairing is over, and -1 or -2 = no more than the answer. */
static int wanted(aq_guest *g, bool calls)
{
    uint64_t n;

    (void)!read(g->wake_fd, &n, sizeof n);
    pthread_mutex_lock(&g->seat->lock);
    int rc = g->stop || g->ended || (g->wants && !calls) ? 1 : -g->answer;
    g->answer = 0;
    pthread_mutex_unlock(&g->seat->lock);
    return rc;
}

static void set_waits(aq_guest *g, bool waits)
{
    pthread_mutex_lock(&g->seat->lock);
    g->told.waits = waits;
    pthread_mutex_unlock(&g->seat->lock);
    aq_seat_changed(g->seat);
}

/* Until it is over: 1 = paired, 0 = given up here, or an error. */
static int follow(aq_guest *g, aq_call *call, bool calls, aq_err *err)
{
    static const char *const answers[] = {"{\"do\":\"answer\",\"match\":true}",
                                          "{\"do\":\"answer\",\"match\":false}"};
    const aq_json *j;
    int rc;

    while ((rc = aq_call_hear(call, g->wake_fd, &j, err)) >= 0) {
        const aq_json *done = rc ? aq_json_get(j, "done") : NULL;
        const char *event = rc ? aq_json_str(j, "event") : NULL;
        if (done) {
            on_done(g, done);
            return 1;
        }
        if (event && !strcmp(event, "digits"))
            on_digits(g, calls, j);
        else if (event && !calls)
            set_waits(g, true);
        int want = rc ? 0 : wanted(g, calls);
        if (want == 1)
            return 0;
        if (want < 0) {
            const char *s = answers[-want - 1];
            if ((rc = aq_call_say(call, s, strlen(s), err)) < 0)
                return rc;
        }
    }
    return rc;
}

static int put_addrs(aq_bytes *b, const aq_guest *g)
{
    int rc = aq_bytes_puts(b, "{\"do\":\"pair\",\"addresses\":[");

    for (uint32_t i = 0; i < g->n_addr && rc >= 0; i++) {
        rc = i ? aq_bytes_puts(b, ",") : 0;
        rc = rc < 0 ? rc : aq_json_quote(b, g->addr[i], strlen(g->addr[i]));
    }
    return rc < 0 ? rc : aq_bytes_puts(b, "]}");
}

/* One pairing, from here or from another PC. false: it cannot be waited for now. */
static bool pair_once(aq_guest *g)
{
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_seat *p = g->seat;
    aq_err err = {0};

    pthread_mutex_lock(&p->lock);
    bool calls = g->wants;
    g->wants = g->ended = false;
    g->answer = 0;
    int rc = calls ? put_addrs(&b, g) : aq_bytes_puts(&b, "{\"do\":\"pair\",\"wait\":true}");
    pthread_mutex_unlock(&p->lock);
    rc = rc < 0 ? aq_fail(&err, AQ_E_NOMEM, "no memory for a question")
                : aq_call_open(p->cfg.trust, &call, &err);
    if (rc == 0)
        rc = aq_fail(&err, AQ_E_GONE, "the program that had this PC's pool has ended: try again");
    rc = rc < 0 ? rc : aq_call_say(call, (const char *)b.p, b.n, &err);
    rc = rc < 0 ? rc : follow(g, call, calls, &err);
    set_waits(g, false);
    pthread_mutex_lock(&p->lock);
    bool shows = p->pair.step != AQ_PAIR_NONE;
    if (rc < 0 && shows && !g->ended) {
        p->pair.step = AQ_PAIR_BROKEN;
        p->pair.why = err;
    }
    pthread_mutex_unlock(&p->lock);
    if (rc == 1 && aq_trust_refresh(p->cfg.trust, &err) < 0)
        aq_log(AQ_LOG_WARN, "pool", "pool=not_read text=%s", err.text);
    aq_seat_ask(p);
    aq_seat_changed(p);
    return rc >= 0 || shows;
}

static void *pair_main(void *arg)
{
    aq_guest *g = arg;
    aq_seat *p = g->seat;
    struct pollfd fd = {.fd = g->wake_fd, .events = POLLIN};
    uint64_t n;

    for (;;) {
        pthread_mutex_lock(&p->lock);
        bool stop = g->stop, goes = g->wants || p->pair.step == AQ_PAIR_NONE;
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return NULL;
        if (goes && pair_once(g))
            continue;
        fd.revents = 0;
        (void)!poll(&fd, 1, goes ? AGAIN_MS : -1); /* or until the person has looked at its end */
        if (fd.revents)
            (void)!read(g->wake_fd, &n, sizeof n);
    }
}

int aq_guest_pair(aq_seat *p, const char *const *addr, uint32_t n, aq_err *err)
{
    aq_guest *g = p->guest;
    struct sockaddr_storage a;
    int rc = 0;

    if (!n || n > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "%u addresses were given, 1 to %u are possible", n,
                       AQ_ADDRS_MAX);
    for (uint32_t i = 0; i < n; i++)
        if ((rc = aq_addr_parse(addr[i], AQ_POOL_PORT, &a, err)) < 0)
            return rc;
    pthread_mutex_lock(&p->lock);
    uint32_t step = p->pair.step;
    if (step == AQ_PAIR_CALLING || step == AQ_PAIR_DIGITS || step == AQ_PAIR_WAITS) {
        rc = aq_fail(err, AQ_E_BUSY, "another PC is being paired");
    } else {
        p->pair = (aq_pair_state){.step = AQ_PAIR_CALLING};
        g->wants = true;
        g->n_addr = n;
        for (uint32_t i = 0; i < n; i++)
            snprintf(g->addr[i], sizeof g->addr[i], "%s", addr[i]);
    }
    pthread_mutex_unlock(&p->lock);
    tick(g);
    return rc;
}

void aq_guest_pair_answer(aq_seat *p, bool match)
{
    pthread_mutex_lock(&p->lock);
    if (p->pair.step == AQ_PAIR_DIGITS) {
        p->pair.step = AQ_PAIR_WAITS;
        p->guest->answer = match ? 1 : 2;
    }
    pthread_mutex_unlock(&p->lock);
    tick(p->guest);
}

void aq_guest_pair_end(aq_seat *p)
{
    pthread_mutex_lock(&p->lock);
    p->pair = (aq_pair_state){0};
    p->guest->ended = true;
    pthread_mutex_unlock(&p->lock);
    tick(p->guest);
}

/* ---- life ------------------------------------------------------------------------------------- */

bool aq_guest_look(aq_seat *p)
{
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    const aq_json *j = NULL;
    aq_guest_told told;
    aq_err err = {0};
    int rc = f ? put_do(&b, "state", NULL, NULL) : -AQ_E_NOMEM;

    rc = rc < 0 ? aq_fail(&err, AQ_E_NOMEM, "no memory for a question")
                : ask(p, &b, STATE_S, &call, &j, &err);
    if (rc == 0)
        return false;
    if (rc == 1) {
        get_told(j, aq_call_holder(call), &told);
        told.mdns.n_found = get_found(aq_json_get(j, "found"), f);
        rc = aq_trust_refresh(p->cfg.trust, &err);
    }
    if (rc < 0) {
        aq_log(AQ_LOG_WARN, "pool", "host=not_heard text=%s", err.text);
        return true;
    }
    pthread_mutex_lock(&p->lock);
    told.waits = p->guest->told.waits;
    p->guest->told = told;
    p->guest->n_found = told.mdns.n_found;
    memcpy(p->guest->found, f, AQ_FOUND_MAX * sizeof *f);
    pthread_mutex_unlock(&p->lock);
    aq_seat_changed(p);
    return true;
}

void aq_guest_told_get(const aq_guest *g, aq_guest_told *ret)
{
    *ret = g->told;
}

uint32_t aq_guest_found(const aq_guest *g, aq_found *ret)
{
    memcpy(ret, g->found, sizeof g->found);
    return g->n_found;
}

int aq_guest_new(aq_seat *p, aq_guest **ret, aq_err *err)
{
    aq_guest *g = calloc(1, sizeof *g);

    if (!g)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool");
    g->seat = p;
    g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->wake_fd < 0) {
        free(g);
        return aq_fail_errno(err, errno, "no eventfd");
    }
    *ret = g;
    return 0;
}

int aq_guest_start(aq_guest *g, aq_err *err)
{
    int en = g->seat->cfg.pair ? pthread_create(&g->thread, NULL, pair_main, g) : 0;

    g->started = g->seat->cfg.pair && !en;
    return en ? aq_fail_errno(err, en, "no thread for the pool") : 0;
}

void aq_guest_free(aq_guest *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->seat->lock);
    g->stop = true;
    pthread_mutex_unlock(&g->seat->lock);
    tick(g);
    if (g->started)
        pthread_join(g->thread, NULL);
    aq_fd_close_p(&g->wake_fd);
    free(g);
}
