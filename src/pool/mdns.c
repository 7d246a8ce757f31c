/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon side of presence: Avahi's client library on its threaded poll.
 *
 * Threads. All of Avahi's objects belong to the poll's thread; other threads only write the eventfd
 * that wakes it, so that nobody waits for the daemon but aq_mdns_free, which ends the thread first.
 *
 *     tick ─▶ client ─ RUNNING ─▶ entry group (this PC) ─ ESTABLISHED ─▶ state RUNNING
 *       ▲        │                 browser ─ NEW ─▶ item: resolver, kept open ─ FOUND ─▶ table
 *       └─ FAILURE, no daemon              REMOVE ─▶ item and its row go
 *
 * A resolver that stays open reports again when the TXT or the address changes: a new name of a PC
 * comes that way. The instance name is made of the id, so that two PCs never want the same one. */
#include "presence-priv.h"

#include <avahi-client/client.h>
#include <avahi-client/lookup.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/thread-watch.h>
#include <avahi-common/timeval.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RETRY_FIRST_MS 500u
#define RETRY_MAX_MS 8000u
#define RESOLVE_TRIES_MAX 8u

typedef struct item {
    aq_mdns *m;
    uint64_t key;
    AvahiServiceResolver *resolver;
    AvahiIfIndex iface;
    AvahiProtocol proto;
    uint32_t tries;
    char *name, *domain; /* Avahi's memory */
} item;

struct aq_mdns {
    aq_presence *p;
    AvahiThreadedPoll *poll;
    const AvahiPoll *api;
    int wake_fd;
    bool started;
    AvahiWatch *wake;
    AvahiTimeout *tick;
    AvahiClient *client;
    AvahiEntryGroup *group;
    AvahiServiceBrowser *browser;
    bool dead;      /* the client is of no use any more */
    bool again;     /* publishing failed: try again at the next tick */
    bool published; /* the group holds self */
    uint32_t retry_ms;
    aq_presence_self self; /* as published */
    char *instance;        /* Avahi's memory */
    uint64_t last_key;
    item *items[AQ_SEEN_MAX];
    bool full_told;
};

static void tick_in(aq_mdns *m, uint32_t ms)
{
    struct timeval tv;

    m->api->timeout_update(m->tick, avahi_elapse_time(&tv, ms, 0));
}

static void tick_later(aq_mdns *m)
{
    tick_in(m, m->retry_ms);
    m->retry_ms = AQ_MIN(m->retry_ms * 2, RETRY_MAX_MS);
}

static void failed(aq_mdns *m, int error)
{
    aq_presence_state s = AQ_PRESENCE_FAILED;

    if (error == AVAHI_ERR_NO_DAEMON || error == AVAHI_ERR_DISCONNECTED ||
        error == AVAHI_ERR_DBUS_ERROR)
        s = AQ_PRESENCE_NO_DAEMON;
    else if (error == AVAHI_ERR_ACCESS_DENIED || error == AVAHI_ERR_NOT_PERMITTED)
        s = AQ_PRESENCE_REFUSED;
    aq_presence_state_set(m->p, s, avahi_strerror(error));
}

/* ---- this PC --------------------------------------------------------------------------------- */

static void publish(aq_mdns *m);

static void group_cb(AvahiEntryGroup *g, AvahiEntryGroupState state, void *user)
{
    aq_mdns *m = user;

    m->group = g; /* the first call comes before avahi_entry_group_new returns */
    switch (state) {
    case AVAHI_ENTRY_GROUP_ESTABLISHED:
        m->retry_ms = RETRY_FIRST_MS;
        aq_presence_state_set(m->p, AQ_PRESENCE_RUNNING, "");
        break;
    case AVAHI_ENTRY_GROUP_COLLISION: {
        char *other = avahi_alternative_service_name(m->instance);
        if (other) {
            avahi_free(m->instance);
            m->instance = other;
        }
        m->published = false;
        m->again = true;
        tick_in(m, 0);
        break;
    }
    case AVAHI_ENTRY_GROUP_FAILURE:
        m->published = false;
        m->again = true;
        failed(m, avahi_client_errno(avahi_entry_group_get_client(g)));
        tick_later(m);
        break;
    case AVAHI_ENTRY_GROUP_UNCOMMITED:
    case AVAHI_ENTRY_GROUP_REGISTERING:
        break;
    }
}

static AvahiStringList *txt_of(const aq_presence_self *self)
{
    char id[2 * sizeof self->id.b + 1], port[8];

    aq_hex(self->id.b, sizeof self->id.b, id);
    snprintf(port, sizeof port, "%u", self->port);
    AvahiStringList *l = avahi_string_list_add_pair(NULL, "port", port);
    l = l ? avahi_string_list_add_pair(l, "version", self->version) : NULL;
    l = l ? avahi_string_list_add_pair(l, "name", self->name) : NULL;
    return l ? avahi_string_list_add_pair(l, "id", id) : NULL;
}

/* Bring the group to what the table says of this PC. */
static void publish(aq_mdns *m)
{
    aq_presence_self want;
    AvahiStringList *txt;
    int rc;

    if (!m->client || m->dead || avahi_client_get_state(m->client) != AVAHI_CLIENT_S_RUNNING)
        return;
    aq_presence_self_get(m->p, &want);
    m->again = false;
    if (m->published && want.port == m->self.port && strcmp(want.name, m->self.name) == 0 &&
        strcmp(want.version, m->self.version) == 0)
        return;
    if (m->group && (!m->published || want.port != m->self.port)) {
        avahi_entry_group_reset(m->group);
        m->published = false;
    }
    if (want.port == 0) {
        m->self = want;
        m->retry_ms = RETRY_FIRST_MS;
        aq_presence_state_set(m->p, AQ_PRESENCE_RUNNING, "");
        return;
    }
    if (!m->group && !avahi_entry_group_new(m->client, group_cb, m)) {
        rc = avahi_client_errno(m->client);
        goto bad;
    }
    if (!(txt = txt_of(&want))) {
        rc = AVAHI_ERR_NO_MEMORY;
        goto bad;
    }
    if (m->published) {
        rc = avahi_entry_group_update_service_txt_strlst(m->group, AVAHI_IF_UNSPEC,
                                                         AVAHI_PROTO_UNSPEC, 0, m->instance,
                                                         AQ_POOL_SERVICE, NULL, txt);
    } else {
        rc = avahi_entry_group_add_service_strlst(m->group, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC, 0,
                                                  m->instance, AQ_POOL_SERVICE, NULL, NULL,
                                                  want.port, txt);
        if (rc >= 0)
            rc = avahi_entry_group_commit(m->group);
    }
    avahi_string_list_free(txt);
    if (rc >= 0) {
        m->published = true;
        m->self = want;
        return;
    }
    if (rc == AVAHI_ERR_COLLISION && m->group) {
        group_cb(m->group, AVAHI_ENTRY_GROUP_COLLISION, m);
        return;
    }
bad:
    m->published = false;
    m->again = rc != AVAHI_ERR_ACCESS_DENIED && rc != AVAHI_ERR_NOT_PERMITTED;
    failed(m, rc);
    tick_later(m);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void item_free(item *it)
{
    if (it->resolver)
        avahi_service_resolver_free(it->resolver);
    avahi_free(it->name);
    avahi_free(it->domain);
    free(it);
}

static void resolved(item *it, const char *host, const AvahiAddress *a, uint16_t port,
                     AvahiStringList *txt)
{
    const char *own = avahi_client_get_host_name_fqdn(it->m->client);
    struct sockaddr_storage at = {0};
    aq_prefix6 prefix[AQ_PREFIX6_MAX];
    aq_seen s = {.key = it->key, .own_host = !own || !host || strcmp(own, host) == 0};
    aq_err err = {0};
    int rc = AQ_OK;

    for (AvahiStringList *l = txt; l && rc >= 0; l = avahi_string_list_get_next(l))
        rc = aq_seen_txt(&s, avahi_string_list_get_text(l), avahi_string_list_get_size(l), &err);
    if (a->proto == AVAHI_PROTO_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, &a->data.ipv4, sizeof v4->sin_addr);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, &a->data.ipv6, sizeof v6->sin6_addr);
    }
    if (rc >= 0)
        rc = aq_seen_at(&s, (struct sockaddr *)&at, (uint32_t)it->iface, port, prefix,
                        aq_addr_on_link(prefix, AQ_PREFIX6_MAX), &err);
    if (rc >= 0)
        rc = aq_presence_put(it->m->p, &s, &err);
    if (rc < 0) {
        aq_log(AQ_LOG_INFO, "pool", "presence_ignored interface=%d why=\"%s\"", it->iface,
               err.text);
        aq_presence_drop(it->m->p, it->key);
    }
}

static void resolver_cb(AvahiServiceResolver *r, AvahiIfIndex iface, AvahiProtocol proto,
                        AvahiResolverEvent event, const char *name, const char *type,
                        const char *domain, const char *host, const AvahiAddress *a, uint16_t port,
                        AvahiStringList *txt, AvahiLookupResultFlags flags, void *user)
{
    item *it = user;

    if (event == AVAHI_RESOLVER_FOUND && a) {
        it->tries = 0;
        resolved(it, host, a, port, txt);
        return;
    }
    /* It answered the browser and not the resolver: ask again, not for ever. */
    avahi_service_resolver_free(r);
    it->resolver = NULL;
    tick_in(it->m, RETRY_FIRST_MS);
}

static void resolve(item *it)
{
    it->tries++;
    it->resolver =
        avahi_service_resolver_new(it->m->client, it->iface, it->proto, it->name, AQ_POOL_SERVICE,
                                   it->domain, it->proto, 0, resolver_cb, it);
    if (!it->resolver)
        tick_in(it->m, RETRY_FIRST_MS);
}

static item **item_find(aq_mdns *m, AvahiIfIndex iface, AvahiProtocol proto, const char *name,
                        const char *domain)
{
    for (uint32_t i = 0; i < AQ_SEEN_MAX; i++) {
        const item *it = m->items[i];
        if (it && it->iface == iface && it->proto == proto && strcmp(it->name, name) == 0 &&
            strcmp(it->domain, domain) == 0)
            return &m->items[i];
    }
    return NULL;
}

static void item_new(aq_mdns *m, AvahiIfIndex iface, AvahiProtocol proto, const char *name,
                     const char *domain)
{
    item **at = NULL, *it;

    for (uint32_t i = 0; i < AQ_SEEN_MAX && !at; i++)
        if (!m->items[i])
            at = &m->items[i];
    if (!at) {
        if (!m->full_told)
            aq_log(AQ_LOG_WARN, "pool", "presence_full max=%u", AQ_SEEN_MAX);
        m->full_told = true;
        return;
    }
    if (!(it = calloc(1, sizeof *it)))
        return;
    it->m = m;
    it->key = ++m->last_key;
    it->iface = iface;
    it->proto = proto;
    it->name = avahi_strdup(name);
    it->domain = avahi_strdup(domain);
    if (!it->name || !it->domain) {
        item_free(it);
        return;
    }
    *at = it;
    resolve(it);
}

static void browser_cb(AvahiServiceBrowser *b, AvahiIfIndex iface, AvahiProtocol proto,
                       AvahiBrowserEvent event, const char *name, const char *type,
                       const char *domain, AvahiLookupResultFlags flags, void *user)
{
    aq_mdns *m = user;
    item **at;

    switch (event) {
    case AVAHI_BROWSER_NEW:
        if (!item_find(m, iface, proto, name, domain))
            item_new(m, iface, proto, name, domain);
        break;
    case AVAHI_BROWSER_REMOVE:
        if ((at = item_find(m, iface, proto, name, domain))) {
            uint64_t key = (*at)->key;
            item_free(*at);
            *at = NULL;
            aq_presence_drop(m->p, key);
        }
        break;
    case AVAHI_BROWSER_FAILURE:
        failed(m, avahi_client_errno(avahi_service_browser_get_client(b)));
        m->dead = true;
        tick_later(m);
        break;
    case AVAHI_BROWSER_CACHE_EXHAUSTED:
    case AVAHI_BROWSER_ALL_FOR_NOW:
        break;
    }
}

/* ---- the daemon ------------------------------------------------------------------------------ */

/* While this PC's own name is still being claimed, too: that may take long, and others can be found meanwhile. */
static void browse(aq_mdns *m)
{
    if (!m->browser)
        m->browser = avahi_service_browser_new(m->client, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC,
                                               AQ_POOL_SERVICE, NULL, 0, browser_cb, m);
    if (!m->browser) {
        failed(m, avahi_client_errno(m->client));
        m->dead = true;
        tick_later(m);
    }
}

static void client_cb(AvahiClient *c, AvahiClientState state, void *user)
{
    aq_mdns *m = user;

    m->client = c; /* the first call comes before avahi_client_new returns */
    switch (state) {
    case AVAHI_CLIENT_S_RUNNING:
        publish(m);
        browse(m);
        break;
    case AVAHI_CLIENT_S_COLLISION:
    case AVAHI_CLIENT_S_REGISTERING:
        /* The PC's host name changes: what was published goes, and comes back with RUNNING. */
        if (m->group)
            avahi_entry_group_reset(m->group);
        m->published = false;
        aq_presence_state_set(m->p, AQ_PRESENCE_STARTING, "");
        browse(m);
        break;
    case AVAHI_CLIENT_CONNECTING:
        failed(m, AVAHI_ERR_NO_DAEMON);
        break;
    case AVAHI_CLIENT_FAILURE:
        failed(m, avahi_client_errno(c));
        m->dead = true; /* it cannot be freed in its own callback */
        tick_later(m);
        break;
    }
}

static void forget(aq_mdns *m)
{
    for (uint32_t i = 0; i < AQ_SEEN_MAX; i++)
        if (m->items[i]) {
            item_free(m->items[i]);
            m->items[i] = NULL;
        }
    if (m->client)
        avahi_client_free(m->client); /* its group and browser too */
    m->client = NULL;
    m->group = NULL;
    m->browser = NULL;
    m->dead = m->published = m->again = false;
}

static void tick_cb(AvahiTimeout *t, void *user)
{
    aq_mdns *m = user;
    int error = 0;

    if (!m->client || m->dead) {
        forget(m);
        aq_presence_drop(m->p, 0);
        m->client = avahi_client_new(m->api, AVAHI_CLIENT_NO_FAIL, client_cb, m, &error);
        if (!m->client) {
            m->group = NULL;
            m->browser = NULL;
            failed(m, error);
            tick_later(m);
        }
        return;
    }
    if (m->again)
        publish(m);
    for (uint32_t i = 0; i < AQ_SEEN_MAX; i++) {
        item *it = m->items[i];
        if (it && !it->resolver && it->tries < RESOLVE_TRIES_MAX)
            resolve(it);
    }
}

static void wake_cb(AvahiWatch *w, int fd, AvahiWatchEvent event, void *user)
{
    aq_mdns *m = user;
    uint64_t n;

    (void)!read(fd, &n, sizeof n);
    publish(m);
    aq_presence_tell(m->p);
}

void aq_mdns_wake(aq_mdns *m)
{
    const uint64_t one = 1;

    (void)!write(m->wake_fd, &one, sizeof one);
}

void aq_mdns_free(aq_mdns *m)
{
    if (!m)
        return;
    if (m->started)
        avahi_threaded_poll_stop(m->poll);
    forget(m);
    if (m->wake)
        m->api->watch_free(m->wake);
    if (m->tick)
        m->api->timeout_free(m->tick);
    if (m->poll)
        avahi_threaded_poll_free(m->poll);
    aq_fd_close_p(&m->wake_fd);
    avahi_free(m->instance);
    free(m);
}
AQ_CLEANUP_FUNC(aq_mdns *, aq_mdns_free)

int aq_mdns_new(aq_presence *p, aq_mdns **ret, aq_err *err)
{
    AQ_AUTO(aq_mdns_free) aq_mdns *m = calloc(1, sizeof *m);
    char id[17], instance[32];
    aq_presence_self self;
    struct timeval tv;

    if (!m)
        return aq_fail(err, AQ_E_NOMEM, "no memory to look for PCs");
    m->p = p;
    m->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    m->retry_ms = RETRY_FIRST_MS;
    if (m->wake_fd < 0)
        return aq_fail_errno(err, errno, "looking for PCs");
    aq_presence_self_get(p, &self);
    aq_hex(self.id.b, 8, id);
    snprintf(instance, sizeof instance, "aquifer %s", id);
    if (!(m->instance = avahi_strdup(instance)) || !(m->poll = avahi_threaded_poll_new()))
        return aq_fail(err, AQ_E_NOMEM, "no memory to look for PCs");
    m->api = avahi_threaded_poll_get(m->poll);
    m->wake = m->api->watch_new(m->api, m->wake_fd, AVAHI_WATCH_IN, wake_cb, m);
    m->tick = m->api->timeout_new(m->api, avahi_elapse_time(&tv, 0, 0), tick_cb, m);
    if (!m->wake || !m->tick)
        return aq_fail(err, AQ_E_NOMEM, "no memory to look for PCs");
    if (avahi_threaded_poll_start(m->poll) < 0)
        return aq_fail(err, AQ_E_IO, "no thread to look for PCs");
    m->started = true;
    *ret = AQ_STEAL(m);
    return AQ_OK;
}
