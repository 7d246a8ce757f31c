/* SPDX-License-Identifier: Apache-2.0 */
/* This PC while its Pool is on: mDNS, a node that listens, pairing, and a thread that watches how the others are.
 *
 *   presence thread ─ found PCs ─┐
 *   links' threads ── pairing ───┼─▶ state under one lock ─▶ changed_cb ─▶ the program calls aq_seat_get
 *   watch thread ──── answers ───┘
 *
 * Removing a member takes the node down and puts it up again: all links end, so that the members come back and are
 * given the new secret. */
#include "ctl-priv.h"

#include <stdio.h>
#include <time.h>

#define GUEST_LISTENS "another program of this user has this PC's pool and listens for it"

void aq_seat_changed(aq_seat *p)
{
    aq_ctl *ctl = atomic_load(&p->ctl);

    if (ctl)
        aq_ctl_wake(ctl);
    if (p->cfg.changed_cb)
        p->cfg.changed_cb(p->cfg.user);
}

void aq_seat_ask(aq_seat *p)
{
    pthread_mutex_lock(&p->lock);
    p->kick = true;
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
}

static void presence_cb(void *user)
{
    aq_seat_ask(user);
    aq_seat_changed(user);
}

/* ---- pairing --------------------------------------------------------------------------------- */

static bool pairing_runs(const aq_seat *p)
{
    return p->pair.step == AQ_PAIR_CALLING || p->pair.step == AQ_PAIR_DIGITS ||
           p->pair.step == AQ_PAIR_WAITS;
}

static void digits_cb(void *user, aq_pairing *pairing, const char digits[7], const char *name)
{
    aq_seat *p = user;

    pthread_mutex_lock(&p->lock);
    /* a call may answer before aq_pairing_dial returned */
    bool calls = !p->pairing && !p->pair.incoming && p->pair.step == AQ_PAIR_CALLING;
    if (p->pairing == pairing || calls) {
        p->pairing = pairing;
        p->pair.step = AQ_PAIR_DIGITS;
        memcpy(p->pair.digits, digits, sizeof p->pair.digits);
        snprintf(p->pair.name, sizeof p->pair.name, "%s", name);
    }
    pthread_mutex_unlock(&p->lock);
    aq_seat_changed(p);
}

static void done_cb(void *user, aq_pairing *pairing, const aq_err *why, const aq_id *id)
{
    aq_seat *p = user;
    char addr[AQ_ADDR_MAX + 1];
    aq_err no = {0};

    pthread_mutex_lock(&p->lock);
    bool ours = (p->pairing == pairing || (!p->pairing && !p->pair.incoming)) && pairing_runs(p);
    /* A scanner, or a stranger that hung up: nobody has seen anything of it. */
    bool quiet = p->pairing == pairing && p->pair.step == AQ_PAIR_NONE;
    bool called = !p->pair.incoming;
    p->pairing_over |= p->pairing == pairing;
    pthread_mutex_unlock(&p->lock);
    if (quiet)
        aq_log(AQ_LOG_WARN, "pool", "pairing_failed text=%s", why->text);
    if (!ours)
        return;
    aq_pairing_addr(pairing, addr); /* it answered there: next time it need not be said */
    if (!why->code && called && aq_trust_set_addr(p->cfg.trust, id, addr, &no) < 0)
        aq_log(AQ_LOG_WARN, "pool", "address=not_kept text=%s", no.text);
    pthread_mutex_lock(&p->lock);
    if (!why->code) {
        aq_pairing_reach(pairing, &p->pair.reach_out, &p->pair.reach_in);
        p->reach_out = p->pair.reach_out;
        p->reach_in = p->pair.reach_in;
        memcpy(p->reach_name, p->pair.name, sizeof p->reach_name);
    }
    p->pair.step = why->code ? AQ_PAIR_BROKEN : AQ_PAIR_DONE;
    p->pair.why = *why;
    p->pair.id = why->code ? (aq_id){{0}} : *id;
    pthread_mutex_unlock(&p->lock);
    aq_seat_ask(p);
    aq_seat_changed(p);
}

/* Under lock: strangers may call. */
static bool pair_open(const aq_seat *p)
{
    return p->cfg.pair || p->n_wait;
}

/* Under lock: a person here asked for the PC at this address. */
static bool called(const aq_seat *p, const char *addr)
{
    struct sockaddr_storage a;
    uint32_t i = 0;

    if (aq_addr_parse(addr, AQ_POOL_PORT, &a, NULL) < 0)
        return false;
    while (i < p->n_called && !aq_addr_same((const void *)&a, (const void *)&p->called[i]))
        i++;
    return i < p->n_called;
}

/* Under lock: both people pressed Pair at once, and the calls met. The one of the PC with the lower id goes on. */
static bool crossed(const aq_seat *p, const aq_link *link)
{
    int code = p->pair.why.code;
    bool ended = code == AQ_E_BUSY || code == AQ_E_CANCELLED || code == AQ_E_GONE;
    char addr[AQ_ADDR_MAX + 1];

    aq_link_addr(link, addr);
    return !p->pair.incoming &&
           (p->pair.step == AQ_PAIR_CALLING || (p->pair.step == AQ_PAIR_BROKEN && ended)) &&
           memcmp(aq_link_peer(link)->id.b, aq_trust_id(p->cfg.trust)->b, sizeof(aq_id)) < 0 &&
           called(p, addr);
}

static int accept_pair(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    aq_seat *p = user;
    aq_pairing_cb cb = {p, digits_cb, done_cb};
    aq_pairing *old = NULL, *new = NULL;

    pthread_mutex_lock(&p->lock);
    /* an end that was not looked at yet counts, too */
    bool runs = p->pair.step != AQ_PAIR_NONE || (p->pairing && !p->pairing_over);
    bool busy = !p->node || !pair_open(p) || (runs && !crossed(p, link));
    int rc = busy ? aq_fail(err, AQ_E_BUSY, "this PC is being paired with another one")
                  : aq_pairing_accept(aq_node_net(p->node), link, ret_cb, &cb, &new, err);
    if (rc >= 0) {
        old = p->pairing;
        p->pairing = new; /* callbacks begin after this returned */
        p->pairing_over = false;
        p->n_pair++;
        p->pair = (aq_pair_state){.incoming = true, .step = runs ? AQ_PAIR_CALLING : AQ_PAIR_NONE};
    }
    pthread_mutex_unlock(&p->lock);
    aq_pairing_free(old);
    return rc;
}

/* Under op_lock. */
static void forget_pairing(aq_seat *p)
{
    pthread_mutex_lock(&p->lock);
    aq_pairing *old = p->pairing;
    p->pairing = NULL;
    p->pair = (aq_pair_state){0};
    pthread_mutex_unlock(&p->lock);
    aq_pairing_free(old);
}

/* Under op_lock: 1 = may call, 0 = the PC at these addresses is calling, too, and its digits show or are about to; BUSY. */
static int begin_call(aq_seat *p, const struct sockaddr_storage *a, uint32_t n, uint64_t *ret_mine,
                      aq_err *err)
{
    char from[AQ_ADDR_MAX + 1] = "";
    aq_pairing *old;

    pthread_mutex_lock(&p->lock);
    memcpy(p->called, a, n * sizeof a[0]);
    p->n_called = n;
    while (!pairing_runs(p) && (old = p->pairing)) {
        if (p->pair.incoming && !p->pairing_over)
            aq_pairing_addr(old, from);
        if (from[0] && called(p, from))
            break;
        p->pairing = NULL;
        p->pair = (aq_pair_state){0};
        pthread_mutex_unlock(&p->lock);
        aq_pairing_free(old); /* somebody else may call meanwhile */
        pthread_mutex_lock(&p->lock);
    }
    int rc = !pairing_runs(p) ? !p->pairing : -AQ_E_BUSY;
    if (rc < 0 && p->pair.incoming && p->pairing && !p->pairing_over) {
        aq_pairing_addr(p->pairing, from); /* its digits may show already */
        rc = called(p, from) ? 0 : rc;
    }
    if (rc == 1) {
        *ret_mine = ++p->n_pair;
        p->pair = (aq_pair_state){.step = AQ_PAIR_CALLING};
        p->pairing_over = false;
    }
    pthread_mutex_unlock(&p->lock);
    return rc < 0 ? aq_fail(err, AQ_E_BUSY, "another PC is being paired") : rc;
}

/* Under op_lock. */
static int call(aq_seat *p, const char *const *addr, uint32_t n, aq_err *err)
{
    struct sockaddr_storage a[AQ_ADDRS_MAX];
    aq_pairing_cb cb = {p, digits_cb, done_cb};
    aq_pairing *pairing = NULL;
    uint64_t mine = 0;
    int rc;

    if (!n || n > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "%u addresses were given, 1 to %u are possible", n,
                       AQ_ADDRS_MAX);
    for (uint32_t i = 0; i < n; i++)
        if ((rc = aq_addr_parse(addr[i], AQ_POOL_PORT, &a[i], err)) < 0)
            return rc;
    if ((rc = begin_call(p, a, n, &mine, err)) <= 0)
        return rc;
    rc = aq_pairing_dial(p->net, a, n, &cb, &pairing, err);
    pthread_mutex_lock(&p->lock);
    bool met = p->n_pair != mine; /* it called, and its call goes on */
    if (!met) {
        if (rc < 0)
            p->pair.step = AQ_PAIR_NONE;
        else
            p->pairing = pairing;
        p->pairing_over = rc >= 0 && !pairing_runs(p);
    }
    pthread_mutex_unlock(&p->lock);
    if (met)
        aq_pairing_free(pairing);
    return met ? AQ_OK : rc;
}

int aq_seat_pair(aq_seat *p, const char *const *addr, uint32_t n, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_pair(p, addr, n, err) : call(p, addr, n, err);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
    return rc;
}

void aq_seat_pair_answer(aq_seat *p, bool match)
{
    pthread_mutex_lock(&p->op_lock); /* or it could be forgotten meanwhile */
    if (p->guest)
        aq_guest_pair_answer(p, match);
    pthread_mutex_lock(&p->lock);
    aq_pairing *pairing = p->pair.step == AQ_PAIR_DIGITS ? p->pairing : NULL;
    if (pairing)
        p->pair.step = AQ_PAIR_WAITS;
    pthread_mutex_unlock(&p->lock);
    if (pairing)
        aq_pairing_answer(pairing, match);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
}

void aq_seat_pair_end(aq_seat *p)
{
    pthread_mutex_lock(&p->op_lock);
    if (p->guest)
        aq_guest_pair_end(p);
    else
        forget_pairing(p);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
}

uint64_t aq_seat_pair_get(aq_seat *p, aq_pair_state *ret)
{
    pthread_mutex_lock(&p->lock);
    *ret = p->pair;
    uint64_t n = p->n_pair;
    pthread_mutex_unlock(&p->lock);
    return n;
}

int aq_seat_pair_wait(aq_seat *p, bool on, uint16_t *ret_port, aq_err *err)
{
    int rc = AQ_OK;

    pthread_mutex_lock(&p->op_lock);
    pthread_mutex_lock(&p->lock);
    /* Nobody else looks at what it was about. */
    bool last = !on && p->n_wait == 1 && !p->cfg.pair && p->pair.incoming;
    if (on && !p->node)
        rc = aq_fail(err, p->listen_err.code, "%s", p->listen_err.text);
    else
        p->n_wait += on ? 1u : UINT32_MAX;
    if (p->node) {
        aq_net_set_open(aq_node_net(p->node), pair_open(p), p->cfg.join);
        *ret_port = aq_node_port(p->node);
    }
    pthread_mutex_unlock(&p->lock);
    if (last)
        forget_pairing(p);
    pthread_mutex_unlock(&p->op_lock);
    return rc;
}

/* ---- the node -------------------------------------------------------------------------------- */

static void announce(aq_seat *p, uint16_t port)
{
    char name[AQ_NAME_MAX + 1];
    bool used = !port && strstr(p->listen_err.text, "in use");
    aq_err err = {0};

    aq_net_set_port(p->net, port);
    if (aq_trust_hold_port(p->cfg.trust, port, &err) < 0)
        aq_log(AQ_LOG_WARN, "pool", "port=not_told text=%s", err.text);
    aq_trust_name(p->cfg.trust, name);
    aq_presence_opts o = {.id = *aq_trust_id(p->cfg.trust),
                          .name = name,
                          .version = p->cfg.version,
                          .port = port,
                          .port_used = used ? p->cfg.port : 0};
    if (p->presence && aq_presence_set(p->presence, &o, &err) < 0)
        aq_log(AQ_LOG_WARN, "pool", "presence=not_set text=%s", err.text);
}

/* Under serve_lock. */
static int serve(aq_seat *p, uint16_t port, aq_err *err)
{
    const aq_seat_cfg *c = &p->cfg;
    aq_node_cfg nc = {.rt = c->rt,
                      .trust = c->trust,
                      .app = c->app,
                      .backend = c->backend,
                      .dir = c->dir,
                      .n_dir = c->n_dir,
                      .bind = c->bind,
                      .n_bind = c->n_bind,
                      .port = port,
                      .join = c->join};
    aq_node *n = NULL;
    aq_err why = {0};
    int rc = aq_node_new_pairing(&nc, c->pair, accept_pair, p, &n, &why);

    pthread_mutex_lock(&p->lock);
    if (n)
        aq_net_set_open(aq_node_net(n), pair_open(p), c->join);
    p->node = n;
    p->listen_err = why;
    pthread_mutex_unlock(&p->lock);
    announce(p, n ? aq_node_port(n) : 0);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static void silence(aq_seat *p)
{
    pthread_mutex_lock(&p->lock);
    aq_node *old = p->node;
    aq_pairing *pairing = p->pair.incoming ? p->pairing : NULL; /* its net is the node's */
    if (pairing) {
        p->pairing = NULL;
        p->pair = (aq_pair_state){0};
    }
    p->node = NULL;
    pthread_mutex_unlock(&p->lock);
    aq_pairing_free(pairing);
    aq_node_free(old);
}

/* Where it was: the others know that port. */
static uint16_t own_port(aq_seat *p)
{
    pthread_mutex_lock(&p->lock);
    uint16_t port = p->node ? aq_node_port(p->node) : p->cfg.port;
    pthread_mutex_unlock(&p->lock);
    return port;
}

static int again(aq_seat *p, uint16_t port, aq_err *err)
{
    pthread_mutex_lock(&p->serve_lock);
    silence(p);
    int rc = serve(p, port, err);
    pthread_mutex_unlock(&p->serve_lock);
    aq_seat_ask(p);
    aq_seat_changed(p);
    return rc;
}

int aq_seat_listen(aq_seat *p, uint16_t port, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    if (!p->guest)
        p->cfg.port = port;
    int rc = p->guest ? aq_fail(err, AQ_E_BUSY, GUEST_LISTENS) : again(p, port, err);
    pthread_mutex_unlock(&p->op_lock);
    return rc;
}

int aq_seat_join(aq_seat *p, const char *addr, const uint8_t secret[AQ_SECRET_BYTES], aq_err *err)
{
    pthread_mutex_lock(&p->serve_lock);
    int rc = p->node ? aq_node_join(p->node, addr, secret, err)
                     : aq_fail(err, p->listen_err.code, "%s", p->listen_err.text);
    pthread_mutex_unlock(&p->serve_lock);
    return rc;
}

/* ---- members --------------------------------------------------------------------------------- */

/* Under op_lock, as the next ones. */
static int set_perms(aq_seat *p, const aq_id *id, uint32_t perms, aq_err *err)
{
    int was = aq_trust_perms(p->cfg.trust, id);
    int rc = aq_trust_set_perms(p->cfg.trust, id, perms, err);

    if (rc < 0)
        return rc;
    aq_seat_changed(p);
    /* what it has open was allowed before */
    return was >= 0 && (was & ~(int)perms) ? again(p, own_port(p), err) : AQ_OK;
}

int aq_seat_set_perms(aq_seat *p, const aq_id *id, uint32_t perms, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_permit(p, id, perms, err) : set_perms(p, id, perms, err);
    pthread_mutex_unlock(&p->op_lock);
    return rc;
}

int aq_seat_set_name(aq_seat *p, const char *name, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_text(p, "name", "name", name, NULL, err)
                      : aq_trust_set_name(p->cfg.trust, name, err);
    if (rc >= 0 && !p->guest) {
        pthread_mutex_lock(&p->serve_lock);
        pthread_mutex_lock(&p->lock);
        uint16_t port = p->node ? aq_node_port(p->node) : 0;
        pthread_mutex_unlock(&p->lock);
        announce(p, port);
        pthread_mutex_unlock(&p->serve_lock);
    }
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
    return rc;
}

int aq_seat_remove(aq_seat *p, const aq_id *id, aq_err *err)
{
    char hex[65];

    aq_hex(id->b, sizeof id->b, hex);
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_text(p, "remove", "id", hex, NULL, err)
                      : aq_trust_remove(p->cfg.trust, id, err);
    rc = rc < 0 || p->guest ? rc : again(p, own_port(p), err);
    pthread_mutex_unlock(&p->op_lock);
    return rc;
}

int aq_seat_leave(aq_seat *p, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_text(p, "leave", NULL, NULL, NULL, err)
                      : aq_trust_leave(p->cfg.trust, err);
    rc = rc < 0 || p->guest ? rc : again(p, own_port(p), err);
    pthread_mutex_unlock(&p->op_lock);
    return rc;
}

int aq_seat_add(aq_seat *p, const char *addr, char ret[AQ_ADDR_MAX + 1], aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_text(p, "add", "address", addr, ret, err)
                      : aq_known_add(p->cfg.trust, addr, ret, err);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_ask(p);
    aq_seat_changed(p);
    return rc;
}

int aq_seat_forget(aq_seat *p, const char *addr, aq_err *err)
{
    pthread_mutex_lock(&p->op_lock);
    int rc = p->guest ? aq_guest_text(p, "forget", "address", addr, NULL, err)
                      : aq_known_drop(p->cfg.trust, addr, err);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
    return rc;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static void split_changed(void *user)
{
    aq_shared_split *e = user;
    aq_ctl *ctl = atomic_load(&e->seat->ctl);

    if (ctl)
        aq_ctl_wake(ctl);
    if (e->change_cb)
        e->change_cb(e->user);
}

/* It is about to be freed: whoever asks it over the socket leaves first. */
static void split_ends(void *user)
{
    aq_shared_split *e = user;
    aq_seat *p = e->seat;

    atomic_store(&e->ends, true);
    aq_ctl *ctl = atomic_load(&p->ctl);
    if (ctl)
        aq_ctl_wake(ctl);
    pthread_mutex_lock(&p->lock);
    for (aq_shared_split **at = &p->split; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    while (e->n_use)
        pthread_cond_wait(&p->cond, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

aq_shared_split *aq_seat_split_use(aq_seat *p, const uint8_t print[32])
{
    pthread_mutex_lock(&p->lock);
    aq_shared_split *e = p->split;
    while (e && memcmp(e->print, print, sizeof e->print) != 0)
        e = e->next;
    if (e)
        e->n_use++;
    pthread_mutex_unlock(&p->lock);
    return e;
}

void aq_seat_split_unuse(aq_shared_split *e)
{
    aq_seat *p = e->seat;

    pthread_mutex_lock(&p->lock);
    e->n_use--;
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
}

int aq_seat_split(aq_seat *p, const aq_id *id, const aq_split_cfg *cfg, aq_split **ret, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    AQ_AUTOFREE aq_shared_split *e = calloc(1, sizeof *e);
    aq_split_cfg sc = *cfg;

    if (!r || !e)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a split");
    if (!aq_trust_roster(p->cfg.trust, r))
        return aq_fail(err, AQ_E_AUTH, "this PC is in no pool: pair it with another one first");
    const aq_member *m = aq_roster_find(r, id);
    if (!m)
        return aq_fail(err, AQ_E_AUTH, "this PC is not in the pool any more: pair it again");
    *e = (aq_shared_split){
        .seat = p, .model = cfg->model, .pc = *id, .change_cb = cfg->change_cb, .user = cfg->user};
    snprintf(e->rows, sizeof e->rows, "%s", cfg->rows ? cfg->rows : "f32");
    sc.rt = p->cfg.rt;
    sc.trust = p->cfg.trust;
    sc.app = p->cfg.app;
    sc.change_cb = split_changed;
    sc.user = e;
    int rc = aq_split_open_member(&sc, m, p->presence, p->cfg.version, &e->split, err);
    if (rc < 0)
        return rc;
    aq_split_print(e->split, e->print);
    *ret = e->split;
    aq_split_on_free(e->split, split_ends, free, e);
    pthread_mutex_lock(&p->lock);
    e->next = p->split;
    p->split = AQ_STEAL(e);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What the process does that has the pool: it shows itself, listens, and takes calls. */
static int be_seen(aq_seat *p, aq_err *err)
{
    char name[AQ_NAME_MAX + 1];
    aq_presence *mdns = NULL;

    aq_trust_name(p->cfg.trust, name);
    aq_presence_opts o = {
        .id = *aq_trust_id(p->cfg.trust), .name = name, .version = p->cfg.version};
    int rc = p->cfg.hide ? 0 : aq_presence_start(&o, presence_cb, p, &mdns, err);
    if (rc < 0)
        return rc;
    p->presence = mdns;
    pthread_mutex_lock(&p->serve_lock);
    (void)!serve(p, p->cfg.port, NULL); /* listen_err tells */
    pthread_mutex_unlock(&p->serve_lock);
    return AQ_OK;
}

static void take_calls(aq_seat *p)
{
    aq_ctl *ctl = NULL;
    aq_err why = {0};

    if (p->cfg.ctl_dir && aq_ctl_new(p, p->cfg.ctl_dir, &ctl, &why) < 0)
        aq_log(AQ_LOG_WARN, "pool", "control=none text=%s", why.text);
    atomic_store(&p->ctl, ctl);
}

void aq_seat_take_over(aq_seat *p)
{
    aq_err err = {0};

    pthread_mutex_lock(&p->op_lock);
    int rc = aq_trust_hold(p->cfg.trust, &err);
    if (rc >= 0) {
        pthread_mutex_lock(&p->lock);
        aq_guest *g = p->guest;
        p->guest = NULL;
        p->pair = (aq_pair_state){0};
        pthread_mutex_unlock(&p->lock);
        aq_guest_free(g);
        if ((rc = be_seen(p, &err)) >= 0)
            take_calls(p);
    }
    if (rc < 0)
        aq_log(AQ_LOG_WARN, "pool", "pool=not_taken_over text=%s", err.text);
    pthread_mutex_unlock(&p->op_lock);
    aq_seat_changed(p);
}

static int start(aq_seat *p, aq_err *err)
{
    int rc = aq_net_new(p->cfg.trust, p->cfg.app, AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16,
                        &p->net, err);

    if (rc >= 0 && p->cfg.guest) {
        (void)aq_fail(&p->listen_err, AQ_E_BUSY, GUEST_LISTENS);
        if ((rc = aq_guest_new(p, &p->guest, err)) >= 0)
            rc = aq_guest_start(p->guest, err);
    } else if (rc >= 0) {
        rc = be_seen(p, err);
    }
    if (rc < 0)
        return rc;
    if (p->cfg.watch) {
        int en = pthread_create(&p->thread, NULL, aq_seat_watch_main, p);
        if (en)
            return aq_fail_errno(err, en, "no thread for the pool");
        p->started = true;
    }
    if (!p->cfg.guest)
        take_calls(p);
    return AQ_OK;
}

int aq_seat_new(const aq_seat_cfg *cfg, aq_seat **ret, aq_err *err)
{
    aq_seat *p = calloc(1, sizeof *p);
    pthread_condattr_t attr;

    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool");
    p->cfg = *cfg;
    pthread_mutex_init(&p->op_lock, NULL);
    pthread_mutex_init(&p->serve_lock, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->cond, &attr);
    pthread_condattr_destroy(&attr);
    p->seen = calloc(AQ_PCS_MAX, sizeof *p->seen);
    int rc = p->seen ? start(p, err) : aq_fail(err, AQ_E_NOMEM, "no memory for the pool");
    if (rc < 0) {
        aq_seat_free(p);
        return rc;
    }
    *ret = p;
    return AQ_OK;
}

void aq_seat_free(aq_seat *p)
{
    aq_err no = {0};

    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
    atomic_store(&p->asking.cancel, 1);
    if (p->started) /* first: it may be about to take the pool over */
        pthread_join(p->thread, NULL);
    aq_ctl *ctl = atomic_load(&p->ctl);
    if (ctl)
        aq_ctl_stop(ctl);
    aq_presence_free(p->presence); /* nobody calls who is about to go */
    aq_guest_free(p->guest);
    silence(p);
    aq_pairing_free(p->pairing);
    aq_net_free(p->net);
    aq_ctl_free(ctl); /* nothing calls aq_seat_changed any more */
    (void)!aq_trust_hold_port(p->cfg.trust, 0, &no);
    pthread_mutex_destroy(&p->op_lock);
    pthread_mutex_destroy(&p->serve_lock);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->cond);
    free(p->seen);
    free(p);
}

void aq_seat_get(aq_seat *p, aq_seat_state *ret)
{
    *ret = (aq_seat_state){.in_pool = aq_trust_roster(p->cfg.trust, NULL)};
    aq_presence *mdns = p->presence;
    if (mdns)
        aq_presence_get(mdns, &ret->mdns);
    int n = aq_seat_pcs(p, ret->pc, NULL);
    ret->n_pc = n > 0 ? (uint32_t)n : 0;
    pthread_mutex_lock(&p->lock);
    ret->listen_err = p->listen_err;
    ret->pair = p->pair;
    ret->reach_out = p->reach_out;
    ret->reach_in = p->reach_in;
    memcpy(ret->reach_name, p->reach_name, sizeof ret->reach_name);
    if (p->node) {
        ret->port = aq_node_port(p->node);
        aq_node_get_state(p->node, &ret->node);
        ret->open = pair_open(p);
    }
    if (p->guest) {
        aq_guest_told told;
        aq_guest_told_get(p->guest, &told);
        ret->guest = true;
        ret->open = told.waits;
        ret->host = told.host;
        ret->port = told.port;
        ret->mdns = told.mdns;
        ret->node = told.node;
        ret->listen_err = (aq_err){0};
    }
    pthread_mutex_unlock(&p->lock);
}
