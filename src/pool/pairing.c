/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing over a link: runs the machine of pair.c, shows the digits, and when both people agreed hands
 * the pool over. The granting side (who is in a pool, else the dialer) writes the new member down
 * before it sends the secret.
 *
 * Threads: the link's thread runs the machine; aq_pairing_answer comes from any. */
#include "pair-priv.h"

#include <pthread.h>
#include <stdio.h>

struct aq_pairing {
    aq_net *net;
    aq_link *link;
    aq_pairing_cb cb;
    pthread_mutex_t lock; /* of the machine and the flags */
    aq_pair machine;
    bool begun, grants, granted, finished;
    aq_id peer;
    aq_err why;       /* set by this side when it ends it */
    aq_reach out, in; /* this PC calls the other one; the other way */
};

#define CALL_BACK_US 1500000ll

static int send_msg(aq_link *link, const aq_pair_msg *m, aq_err *err)
{
    if (m->type == 0)
        return AQ_OK;
    return aq_link_send(link, m->type, 0, m->payload, m->n, NULL, err);
}

/* ---- can they reach each other? ---------------------------------------------------------------- */

static const char *const reach_words[AQ_REACH_N] = {
    [AQ_REACH_UNTRIED] = "untried",      [AQ_REACH_FOREIGN] = "untried",
    [AQ_REACH_NO_ROUTE] = "unreachable", [AQ_REACH_SILENT] = "timeout",
    [AQ_REACH_BLOCKED] = "unreachable",  [AQ_REACH_REFUSED] = "refused",
    [AQ_REACH_ANSWERS] = "ok",
};

/* Who called has reached the other; who was called calls back, where the other says that it listens. Only a call from
 * outside shows what a firewall does. Blocks a little: nothing else is done on this link then. */
static aq_reach call_back(aq_link *link)
{
    uint32_t port = aq_link_peer(link)->port;
    char addr[AQ_ADDR_MAX + 1];
    const char *one = addr;

    if (aq_link_role(link) == AQ_DIALER)
        return AQ_REACH_ANSWERS;
    if (!port)
        return AQ_REACH_UNTRIED;
    aq_link_addr(link, addr);
    char *colon = strrchr(addr, ':');
    if (!colon)
        return AQ_REACH_UNTRIED;
    snprintf(colon, sizeof addr - (size_t)(colon - addr), ":%u", port);
    return aq_reach_try(&one, 1, CALL_BACK_US);
}

static int take_done(aq_pairing *p, const uint8_t *payload, size_t n, aq_err *err)
{
    char word[16] = "";
    aq_kv kv;
    int rc = aq_kv_parse(payload, n, &kv, err);

    rc = rc < 0 ? rc : aq_kv_text(&kv, "reach", false, word, sizeof word, err);
    if (rc < 0)
        return rc;
    /* from the most telling: several have one word */
    for (int r = AQ_REACH_ANSWERS; r > AQ_REACH_FOREIGN; r--)
        if (!strcmp(word, reach_words[r])) {
            p->in = (aq_reach)r;
            break;
        }
    return AQ_OK;
}

/* ---- handing over ---------------------------------------------------------------------------- */

static int grant(aq_pairing *p, aq_link *link, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0}, roster = {0};
    aq_trust *trust = aq_net_trust(p->net);
    const aq_hello *peer = aq_link_peer(link);
    aq_member m = {.id = peer->id, .perms = AQ_PERM_DEFAULT};
    aq_cred c = {0};
    int rc;

    memcpy(m.name, peer->name, sizeof m.name);
    if (!aq_trust_roster(trust, NULL) && (rc = aq_trust_create(trust, err)) < 0)
        return rc;
    if ((rc = aq_trust_add(trust, &m, err)) < 0 || (rc = aq_trust_share(trust, &roster, err)) < 0)
        return rc;
    aq_trust_cred(trust, &c);
    const char *text = aq_bytes_str(&roster);
    /* Reserved first: growing would leave copies of the secret behind. */
    if (!text || aq_bytes_reserve(&b, roster.n + 512) < 0 ||
        aq_kv_put_hex(&b, "pool", c.pool, sizeof c.pool) < 0 ||
        aq_kv_put_u64(&b, "epoch", c.epoch) < 0 ||
        aq_kv_put_hex(&b, "secret", c.secret, sizeof c.secret) < 0 ||
        aq_kv_put_text(&b, "roster", text) < 0)
        rc = aq_fail(err, AQ_E_NOMEM, "no memory for pairing");
    else
        rc = aq_link_send(link, AQ_T_PAIR_GRANT, 0, b.p, b.n, NULL, err);
    aq_mem_wipe(&c, sizeof c);
    return rc;
}

static int take_grant(aq_pairing *p, aq_link *link, const uint8_t *payload, size_t n, aq_err *err)
{
    char done[40];
    aq_kv kv;
    uint8_t pool[16], secret[AQ_SECRET_BYTES];
    uint32_t epoch = 0, n_roster = 0;
    int rc;

    if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "pool", true, pool, sizeof pool, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &epoch, err)) < 0)
        return rc;
    const char *roster = aq_kv_get(&kv, "roster", &n_roster);
    if (!roster)
        return aq_fail(err, AQ_E_FORMAT, "the key roster is missing");
    if ((rc = aq_kv_hex(&kv, "secret", true, secret, sizeof secret, err)) == 1)
        rc = aq_trust_adopt(aq_net_trust(p->net), pool, epoch, secret, roster, n_roster, err);
    aq_mem_wipe(secret, sizeof secret);
    if (rc < 0)
        return rc;
    p->finished = true;
    p->out = call_back(link);
    int n_done = snprintf(done, sizeof done, "reach=%s\n", reach_words[p->out]);
    return aq_link_send(link, AQ_T_PAIR_DONE, 0, done, (size_t)n_done, NULL, err);
}

/* Under lock, after each step: 1 = both people agreed and this side grants. */
static bool must_grant(aq_pairing *p)
{
    if (p->machine.step != AQ_PAIR_AGREED || !p->grants || p->granted)
        return false;
    p->granted = true;
    return true;
}

/* ---- callbacks of the link ------------------------------------------------------------------- */

static void open_cb(void *user, aq_link *link)
{
    aq_pairing *p = user;
    aq_pair_cfg cfg = {.role = aq_link_role(link)};
    const aq_hello *peer = aq_link_peer(link);
    aq_pair_msg m;
    uint8_t own[32];
    aq_err err = {0};
    aq_id id;
    bool dialer = cfg.role == AQ_DIALER;

    pthread_mutex_lock(&p->lock);
    p->link = link;
    pthread_mutex_unlock(&p->lock);
    p->peer = peer->id;
    p->grants = peer->has_pool                                ? false
                : aq_trust_roster(aq_net_trust(p->net), NULL) ? true
                                                              : dialer;
    int rc = aq_id_of_cert(aq_trust_identity(aq_net_trust(p->net))->cert, &id, own, &err);
    if (rc == AQ_OK)
        rc = aq_random(cfg.nonce, sizeof cfg.nonce, &err);
    memcpy(dialer ? cfg.cert_d : cfg.cert_a, own, 32);
    memcpy(dialer ? cfg.cert_a : cfg.cert_d, aq_link_cert_hash(link), 32);
    memcpy(cfg.exporter, aq_link_exporter(link), 32);
    if (rc == AQ_OK) {
        pthread_mutex_lock(&p->lock);
        rc = aq_pair_init(&p->machine, &cfg, &m, &err);
        p->begun = rc == AQ_OK;
        pthread_mutex_unlock(&p->lock);
    }
    aq_mem_wipe(&cfg, sizeof cfg);
    if (rc == AQ_OK)
        rc = send_msg(link, &m, &err);
    if (rc < 0) {
        pthread_mutex_lock(&p->lock);
        p->why = err;
        pthread_mutex_unlock(&p->lock);
        aq_link_close(link, "shutdown");
    }
}

static int frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    aq_pairing *p = user;
    aq_pair_msg m = {0};
    int rc;

    if (h->type == AQ_T_PAIR_GRANT && !p->grants && !p->finished)
        return take_grant(p, link, payload, h->length, err);
    if (h->type == AQ_T_PAIR_DONE && p->granted && !p->finished) {
        if ((rc = take_done(p, payload, h->length, err)) < 0)
            return rc;
        p->finished = true;
        p->out = call_back(link);
        aq_link_close(link, "idle");
        return AQ_OK;
    }
    if (h->type == AQ_T_PAIR_GRANT || h->type == AQ_T_PAIR_DONE)
        return aq_fail(err, AQ_E_PROTO, "the other PC does not keep the order of pairing");
    pthread_mutex_lock(&p->lock);
    if (p->why.code) { /* the person here ended it, and the other PC is about to be told why */
        pthread_mutex_unlock(&p->lock);
        return AQ_OK;
    }
    aq_pair_step before = p->machine.step;
    rc = aq_pair_take(&p->machine, h->type, payload, h->length, &m, err);
    aq_pair_step now = p->machine.step;
    pthread_mutex_unlock(&p->lock);
    if (rc < 0 || (rc = send_msg(link, &m, err)) < 0)
        return rc;
    if (now == AQ_PAIR_COMPARES && before != now && p->cb.digits_cb)
        p->cb.digits_cb(p->cb.user, p, p->machine.digits, aq_link_peer(link)->name);
    return AQ_OK;
}

/* Files are written here, on the link's thread, and not where somebody pressed a button. */
static int turn_cb(void *user, aq_link *link, aq_err *err)
{
    aq_pairing *p = user;

    pthread_mutex_lock(&p->lock);
    bool give = must_grant(p);
    pthread_mutex_unlock(&p->lock);
    return give ? grant(p, link, err) : AQ_OK;
}

static void closed_cb(void *user, aq_link *link, const aq_err *why)
{
    aq_pairing *p = user;
    aq_err none = {0}, err;

    pthread_mutex_lock(&p->lock);
    err = p->why.code ? p->why : *why;
    pthread_mutex_unlock(&p->lock);
    if (p->finished)
        err = none;
    else if (err.code == 0)
        aq_fail(&err, AQ_E_CANCELLED, "pairing was stopped");
    if (p->cb.done_cb)
        p->cb.done_cb(p->cb.user, p, &err, &p->peer);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int create(aq_net *net, const aq_pairing_cb *cb, aq_pairing **ret, aq_err *err)
{
    aq_pairing *p = calloc(1, sizeof *p);

    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for pairing");
    p->net = net;
    p->cb = *cb;
    pthread_mutex_init(&p->lock, NULL);
    *ret = p;
    return AQ_OK;
}

int aq_pairing_dial(aq_net *net, const struct sockaddr_storage *addr, uint32_t n_addr,
                    const aq_pairing_cb *cb, aq_pairing **ret, aq_err *err)
{
    aq_pairing *p = NULL;
    int rc = create(net, cb, &p, err);

    if (rc < 0)
        return rc;
    /* Callbacks may come before this returns; they use the link they are given. */
    aq_link_cb lcb = {p, open_cb, frame_cb, turn_cb, closed_cb};
    aq_dial d = {.addr = addr, .n_addr = n_addr, .purpose = AQ_FOR_PAIR};
    *ret = p;
    aq_link *l = NULL;
    if ((rc = aq_link_dial(net, &d, &lcb, &l, err)) < 0) {
        aq_pairing_free(p);
        *ret = NULL;
        return rc;
    }
    pthread_mutex_lock(&p->lock);
    p->link = l;
    pthread_mutex_unlock(&p->lock);
    return AQ_OK;
}

int aq_pairing_accept(aq_net *net, aq_link *link, aq_link_cb *ret_cb, const aq_pairing_cb *cb,
                      aq_pairing **ret, aq_err *err)
{
    aq_pairing *p = NULL;
    int rc = create(net, cb, &p, err);

    if (rc < 0)
        return rc;
    p->link = link;
    *ret_cb = (aq_link_cb){p, open_cb, frame_cb, turn_cb, closed_cb};
    *ret = p;
    return AQ_OK;
}

void aq_pairing_answer(aq_pairing *p, bool match)
{
    aq_pair_msg m = {0};
    aq_err err = {0};

    pthread_mutex_lock(&p->lock);
    aq_link *link = p->link;
    int rc = AQ_OK;
    if (!link)
        rc = aq_fail(&err, AQ_E_INVAL, "there is nothing to compare yet");
    else if (!match)
        rc = aq_fail(&err, AQ_E_AUTH,
                     "the digits differ: another device may be in between. Nothing was shared");
    else if ((rc = aq_pair_match(&p->machine, &m, &err)) == AQ_OK)
        rc = send_msg(link, &m, &err); /* within the lock: before any GRANT */
    if (rc < 0) {
        p->machine.step = AQ_PAIR_FAILED;
        if (!p->why.code)
            p->why = err;
    }
    pthread_mutex_unlock(&p->lock);
    if (rc < 0 && link) {
        __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
        if (aq_kv_put_u64(&b, "code", (uint64_t)-rc) == 0 &&
            aq_kv_put_text(&b, "text", err.text) == 0)
            (void)!aq_link_send(link, AQ_T_ERROR, 0, b.p, b.n, NULL, NULL);
        aq_link_close(link, "leave");
    }
}

void aq_pairing_addr(aq_pairing *p, char ret[AQ_ADDR_MAX + 1])
{
    pthread_mutex_lock(&p->lock);
    aq_link *link = p->link;
    pthread_mutex_unlock(&p->lock);
    ret[0] = 0;
    if (link)
        aq_link_addr(link, ret);
}

void aq_pairing_reach(const aq_pairing *p, aq_reach *ret_out, aq_reach *ret_in)
{
    *ret_out = p->out;
    *ret_in = p->in;
}

void aq_pairing_free(aq_pairing *p)
{
    if (!p)
        return;
    aq_link_free(p->link);
    aq_pair_clear(&p->machine);
    pthread_mutex_destroy(&p->lock);
    aq_mem_wipe(p, sizeof *p);
    free(p);
}
