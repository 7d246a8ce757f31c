/* SPDX-License-Identifier: Apache-2.0 */
/* Presence: the table of PCs that say they have their Pool on, and this PC's own entry.
 *
 * Threads. Everything in aq_presence is under its lock, held for copying only; the daemon side
 * (mdns.c) has one thread, which alone puts and drops, and from which changed_cb comes.
 * One PC shows itself many times, by IPv4 and IPv6 on each interface that both PCs are on. Each is a
 * row here; aq_presence_found joins them by id:
 *
 *     key  id  name    address                           found
 *      1   a   Laptop  192.168.1.7:7710              \
 *      2   a   Laptop  [fe80::1%eth0]:7710            >  a  Laptop  192.168.1.7, 10.0.0.2, [fe80::1…
 *      4   a   Laptop  10.0.0.2:7710 (another card)  /
 */
#include "presence-priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>

struct aq_presence {
    void (*changed_cb)(void *user);
    void *user;
    aq_mdns *mdns;
    pthread_mutex_t lock;
    aq_presence_self self; /* under lock, as all below */
    uint16_t port_used;
    aq_presence_state state;
    char detail[96];
    uint64_t twin; /* key of an entry with this PC's id from another host, 0 = none */
    bool full_told;
    uint64_t stamp;
    uint32_t n;
    aq_seen seen[AQ_SEEN_MAX];
};

static pthread_mutex_t *lock_of(const aq_presence *p)
{
    return (pthread_mutex_t *)&p->lock;
}

/* ---- what others say ------------------------------------------------------------------------- */

void aq_seen_name(const uint8_t *text, size_t n, char ret[AQ_NAME_MAX + 1])
{
    const char *s = (const char *)text;
    size_t out = 0;

    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad = false;
        uint32_t took = aq_utf8_next(s + i, n - i, &cp, &bad);
        bool control = cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
        /* Marks that turn the direction of the text around them would let a name rewrite a row. */
        bool direction = cp == 0x200e || cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) ||
                         (cp >= 0x2066 && cp <= 0x2069);

        if (out + took > AQ_NAME_MAX)
            break;
        if (!bad && !control && !direction) {
            memcpy(ret + out, s + i, took);
            out += took;
        }
        i += took;
    }
    ret[out] = 0;
}

static int nibble(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_id(const uint8_t *p, size_t n, aq_id *ret)
{
    aq_id id;

    if (n != 2 * sizeof id.b)
        return false;
    for (size_t i = 0; i < sizeof id.b; i++) {
        int hi = nibble(p[2 * i]), lo = nibble(p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        id.b[i] = (uint8_t)(hi << 4 | lo);
    }
    *ret = id;
    return true;
}

static bool get_port(const uint8_t *p, size_t n, uint16_t *ret)
{
    uint32_t x = 0;

    if (n == 0 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        x = x * 10 + (uint32_t)(p[i] - '0');
    }
    *ret = (uint16_t)x;
    return x > 0 && x <= 65535;
}

int aq_seen_txt(aq_seen *s, const uint8_t *text, size_t n, aq_err *err)
{
    const uint8_t *eq = n > 0 ? memchr(text, '=', n) : NULL;
    size_t n_key = eq ? (size_t)(eq - text) : 0, n_value = eq ? n - n_key - 1 : 0;
    const char *key = (const char *)text;

    if (!eq)
        return AQ_OK;
    if (n_key == 2 && strncasecmp(key, "id", 2) == 0 && !s->has_id) {
        if (!get_id(eq + 1, n_value, &s->id))
            return aq_fail(err, AQ_E_FORMAT, "the id that a PC shows is not 64 hexadecimal digits");
        s->has_id = true;
    } else if (n_key == 4 && strncasecmp(key, "name", 4) == 0 && !s->has_name) {
        aq_seen_name(eq + 1, n_value, s->name);
        s->has_name = true;
    } else if (n_key == 7 && strncasecmp(key, "version", 7) == 0 && !s->has_version) {
        char version[AQ_NAME_MAX + 1] = "";
        aq_seen_name(eq + 1, AQ_MIN(n_value, AQ_VERSION_MAX), version);
        memcpy(s->version, version, sizeof s->version);
        s->version[AQ_VERSION_MAX] = 0;
        s->has_version = true;
    } else if (n_key == 4 && strncasecmp(key, "port", 4) == 0 && !s->has_port) {
        if (!get_port(eq + 1, n_value, &s->port))
            return aq_fail(err, AQ_E_FORMAT, "the port that a PC shows is not a port");
        s->has_port = true;
    }
    return AQ_OK;
}

/* Nearest first: a private IPv4 or routable IPv6 address holds longer than a link-local one, and
 * loopback is right only for two users of one PC. */
static uint8_t rank_of(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        uint32_t v4 = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
        return v4 >> 24 == 127 ? 4 : v4 >> 16 == 0xa9fe ? 2 : 0;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) ? 4 : IN6_IS_ADDR_LINKLOCAL(v6) ? 3 : 1;
}

int aq_seen_at(aq_seen *s, const struct sockaddr *a, uint32_t scope, uint16_t port,
               const aq_prefix6 *prefix, uint32_t n_prefix, aq_err *err)
{
    char host[INET6_ADDRSTRLEN] = "", dev[IF_NAMESIZE] = "";
    int rc;

    if (!s->has_id)
        return aq_fail(err, AQ_E_FORMAT, "a PC shows no id");
    if (port == 0 || (s->has_port && s->port != port))
        return aq_fail(err, AQ_E_FORMAT, "a PC shows two ports, %u and %u", s->port, port);
    if (a->sa_family != AF_INET && a->sa_family != AF_INET6)
        return aq_fail(err, AQ_E_FORMAT, "a PC shows an address that is neither IPv4 nor IPv6");
    if ((rc = aq_addr_check(a, prefix, n_prefix, err)) < 0)
        return rc;
    s->port = port;
    s->rank = rank_of(a);
    if (!s->name[0])
        memcpy(s->name, "PC", 3);
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)a;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(s->addr, sizeof s->addr, "%s:%u", host, port);
        return AQ_OK;
    }
    const struct sockaddr_in6 *v6 = (const void *)a;
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    /* By the interface's name: its number is another one after the next start. */
    if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        snprintf(s->addr, sizeof s->addr, "[%s]:%u", host, port);
    else if (if_indextoname(scope, dev))
        snprintf(s->addr, sizeof s->addr, "[%s%%%s]:%u", host, dev, port);
    else
        return aq_fail(err, AQ_E_FORMAT, "%s is on an interface that is gone", host);
    return AQ_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

void aq_presence_tell(aq_presence *p)
{
    if (p->changed_cb)
        p->changed_cb(p->user);
}

/* A copied state folder: who calls one of the two meets the other. */
static void twin_set(aq_presence *p, const aq_seen *s)
{
    aq_presence_drop(p, s->key);
    pthread_mutex_lock(&p->lock);
    p->twin = s->key;
    pthread_mutex_unlock(&p->lock);
    aq_log(AQ_LOG_WARN, "pool", "same_identity at=%s", s->addr);
    aq_presence_tell(p);
}

int aq_presence_put(aq_presence *p, const aq_seen *s, aq_err *err)
{
    uint32_t i;
    bool full = false, tell_full = false;

    if (aq_id_equal(&s->id, &p->self.id)) { /* the id never changes: no lock */
        if (s->own_host)
            aq_presence_drop(p, s->key);
        else
            twin_set(p, s);
        return AQ_OK;
    }
    pthread_mutex_lock(&p->lock);
    for (i = 0; i < p->n && p->seen[i].key != s->key; i++)
        ;
    if (i == AQ_SEEN_MAX) {
        full = true;
        tell_full = !p->full_told;
        p->full_told = true;
    } else {
        p->seen[i] = *s;
        p->seen[i].stamp = ++p->stamp;
        p->n = AQ_MAX(p->n, i + 1);
    }
    pthread_mutex_unlock(&p->lock);
    if (tell_full)
        aq_log(AQ_LOG_WARN, "pool", "presence_full max=%u", AQ_SEEN_MAX);
    if (full)
        return aq_fail(err, AQ_E_LIMIT,
                       "more than %u entries of PCs are on this network: add the PC by address",
                       AQ_SEEN_MAX);
    aq_presence_tell(p);
    return AQ_OK;
}

void aq_presence_drop(aq_presence *p, uint64_t key)
{
    uint32_t n = 0;

    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->n; i++)
        if (key != 0 && p->seen[i].key != key) {
            if (n != i)
                p->seen[n] = p->seen[i];
            n++;
        }
    bool changed = n != p->n || (p->twin && (!key || key == p->twin));
    p->n = n;
    if (!key || key == p->twin)
        p->twin = 0;
    pthread_mutex_unlock(&p->lock);
    if (changed)
        aq_presence_tell(p);
}

void aq_presence_state_set(aq_presence *p, aq_presence_state state, const char *detail)
{
    pthread_mutex_lock(&p->lock);
    bool changed = p->state != state || strncmp(p->detail, detail, sizeof p->detail - 1) != 0;
    p->state = state;
    snprintf(p->detail, sizeof p->detail, "%s", detail);
    pthread_mutex_unlock(&p->lock);
    if (!changed)
        return;
    aq_log(AQ_LOG_INFO, "pool", "presence state=%d detail=\"%s\"", (int)state, detail);
    aq_presence_tell(p);
}

void aq_presence_self_get(const aq_presence *p, aq_presence_self *ret)
{
    pthread_mutex_lock(lock_of(p));
    *ret = p->self;
    pthread_mutex_unlock(lock_of(p));
}

/* Into ret, sorted by id; the newest row's name counts. false: no room. */
static bool join(aq_found *ret, uint64_t *newest, uint32_t *n, uint32_t cap, const aq_seen *s)
{
    uint32_t i = 0;

    while (i < *n && memcmp(ret[i].id.b, s->id.b, sizeof s->id.b) < 0)
        i++;
    if (i == *n || !aq_id_equal(&ret[i].id, &s->id)) {
        if (*n == cap)
            return false;
        memmove(ret + i + 1, ret + i, (*n - i) * sizeof ret[0]);
        memmove(newest + i + 1, newest + i, (*n - i) * sizeof newest[0]);
        ret[i] = (aq_found){.id = s->id};
        newest[i] = 0;
        ++*n;
    }
    if (s->stamp > newest[i]) {
        newest[i] = s->stamp;
        memcpy(ret[i].name, s->name, sizeof s->name);
        memcpy(ret[i].version, s->version, sizeof s->version);
    }
    for (uint32_t k = 0; k < ret[i].n_addr; k++)
        if (strcmp(ret[i].addr[k], s->addr) == 0)
            return true;
    if (ret[i].n_addr < AQ_ADDRS_MAX)
        memcpy(ret[i].addr[ret[i].n_addr++], s->addr, sizeof s->addr);
    return true;
}

/* Under lock. */
static uint32_t found_locked(const aq_presence *p, aq_found *ret, uint32_t cap)
{
    uint64_t newest[AQ_FOUND_MAX];
    uint32_t n = 0;

    cap = AQ_MIN(cap, AQ_FOUND_MAX);
    for (uint32_t rank = 0; rank <= 4; rank++)
        for (uint32_t i = 0; i < p->n; i++)
            if (p->seen[i].rank == rank)
                (void)join(ret, newest, &n, cap, &p->seen[i]);
    return n;
}

uint32_t aq_presence_found(const aq_presence *p, aq_found *ret, uint32_t cap)
{
    if (!p)
        return 0;
    pthread_mutex_lock(lock_of(p));
    uint32_t n = found_locked(p, ret, cap);
    pthread_mutex_unlock(lock_of(p));
    return n;
}

void aq_presence_get(const aq_presence *p, aq_presence_info *ret)
{
    if (!p) {
        *ret = (aq_presence_info){.state = AQ_PRESENCE_OFF};
        return;
    }
    *ret = (aq_presence_info){0};
    pthread_mutex_lock(lock_of(p));
    /* That nobody can reach this PC is worse than that nobody finds it. */
    ret->state = p->port_used ? AQ_PRESENCE_PORT_USED : p->twin ? AQ_PRESENCE_TWIN : p->state;
    ret->port = p->port_used ? p->port_used : p->self.port;
    memcpy(ret->detail, p->detail, sizeof ret->detail);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t k = 0;
        while (k < i && !aq_id_equal(&p->seen[k].id, &p->seen[i].id))
            k++;
        ret->n_found += k == i;
    }
    pthread_mutex_unlock(lock_of(p));
    ret->n_found = AQ_MIN(ret->n_found, AQ_FOUND_MAX);
}

const char *aq_presence_name(aq_presence_state s)
{
    static const char *const names[AQ_PRESENCE_N] = {
        [AQ_PRESENCE_OFF] = "off",           [AQ_PRESENCE_STARTING] = "starting",
        [AQ_PRESENCE_RUNNING] = "running",   [AQ_PRESENCE_NO_DAEMON] = "no-daemon",
        [AQ_PRESENCE_REFUSED] = "refused",   [AQ_PRESENCE_PORT_USED] = "port-used",
        [AQ_PRESENCE_TWIN] = "twin",         [AQ_PRESENCE_FAILED] = "failed",
        [AQ_PRESENCE_NO_BUILD] = "no-build",
    };

    return s < AQ_PRESENCE_N ? names[s] : "";
}

const char *aq_presence_text(aq_presence_state s)
{
    switch (s) {
    case AQ_PRESENCE_OFF:
        return "The Pool is off: this PC does not look for others and does not show itself.";
    case AQ_PRESENCE_STARTING:
        return "Looking for PCs.";
    case AQ_PRESENCE_RUNNING:
        return "Other PCs on this network can find this one.";
    case AQ_PRESENCE_NO_DAEMON:
        return "PCs are not found by themselves, because the Avahi service is not running on this "
               "PC. Start it (systemctl start avahi-daemon), or add PCs by address.";
    case AQ_PRESENCE_REFUSED:
        return "Other PCs do not find this one, because its Avahi service publishes nothing for "
               "programs (disable-user-service-publishing in avahi-daemon.conf). Change that, or "
               "add this PC by address on the others.";
    case AQ_PRESENCE_TWIN:
        return "Another PC on this network has the identity of this one, as if its state folder "
               "had been copied: a pool cannot tell them apart. Turn the Pool off on one of the "
               "two, remove its folder ~/.local/state/aquifer/pool, and pair it anew.";
    case AQ_PRESENCE_PORT_USED:
        return "Another program on this PC uses the Pool's port, so other PCs cannot reach this "
               "one. End that program, or choose another port.";
    case AQ_PRESENCE_FAILED:
        return "The Avahi service of this PC reported an error. It is asked again; until then, add "
               "PCs by address.";
    case AQ_PRESENCE_NO_BUILD:
        return "PCs are not found by themselves, because this program was built without Avahi. Add "
               "PCs by address.";
    case AQ_PRESENCE_N:
        break;
    }
    return "";
}

/* ---- life ------------------------------------------------------------------------------------ */

static void self_fill(aq_presence_self *self, const aq_presence_opts *o)
{
    char version[AQ_NAME_MAX + 1] = "";

    aq_seen_name((const uint8_t *)o->name, strlen(o->name), self->name);
    aq_seen_name((const uint8_t *)o->version, AQ_MIN(strlen(o->version), AQ_VERSION_MAX), version);
    memcpy(self->version, version, sizeof self->version);
    self->version[AQ_VERSION_MAX] = 0;
    self->id = o->id;
    self->port = o->port;
}

int aq_presence_new(const aq_presence_opts *o, void (*changed_cb)(void *), void *user,
                    aq_presence **ret, aq_err *err)
{
    aq_presence_self self = {0};

    self_fill(&self, o);
    if (!self.name[0])
        return aq_fail(err, AQ_E_INVAL, "a PC's name has at least one letter");
    aq_presence *p = calloc(1, sizeof *p);
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the list of PCs");
    pthread_mutex_init(&p->lock, NULL);
    p->changed_cb = changed_cb;
    p->user = user;
    p->self = self;
    p->port_used = o->port_used;
    p->state = AQ_PRESENCE_STARTING;
    *ret = p;
    return AQ_OK;
}

int aq_presence_start(const aq_presence_opts *o, void (*changed_cb)(void *), void *user,
                      aq_presence **ret, aq_err *err)
{
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    int rc = aq_presence_new(o, changed_cb, user, &p, err);

    if (rc < 0 || (rc = aq_mdns_new(p, &p->mdns, err)) < 0)
        return rc;
    *ret = AQ_STEAL(p);
    return AQ_OK;
}

int aq_presence_set(aq_presence *p, const aq_presence_opts *o, aq_err *err)
{
    aq_presence_self self = {0};

    self_fill(&self, o);
    if (!self.name[0])
        return aq_fail(err, AQ_E_INVAL, "a PC's name has at least one letter");
    if (!aq_id_equal(&self.id, &p->self.id))
        return aq_fail(err, AQ_E_INVAL, "a PC's id does not change: turn the Pool off first");
    pthread_mutex_lock(&p->lock);
    memcpy(p->self.name, self.name, sizeof self.name);
    memcpy(p->self.version, self.version, sizeof self.version);
    p->self.port = self.port;
    p->port_used = o->port_used;
    pthread_mutex_unlock(&p->lock);
    if (p->mdns)
        aq_mdns_wake(p->mdns);
    return AQ_OK;
}

void aq_presence_free(aq_presence *p)
{
    if (!p)
        return;
    aq_mdns_free(p->mdns);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
