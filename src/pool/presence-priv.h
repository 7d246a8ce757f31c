/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the room: the table of services seen (presence.c) and the daemon that fills it
 * (mdns.c, or mdns-none.c in a build without). */
#ifndef AQ_PRESENCE_PRIV_H
#define AQ_PRESENCE_PRIV_H

#include "addr-priv.h"

#define AQ_SEEN_MAX 256u /* services on all interfaces; further ones are not looked at */

/** One service, as one interface showed it by IPv4 or IPv6. {0} at first. */
typedef struct aq_seen {
    uint64_t key;   /* the daemon side's name for it, never 0 */
    uint64_t stamp; /* of the table: grows */
    aq_id id;
    bool has_id, has_name, has_version, has_port;
    bool own_host; /* this PC's daemon publishes it */
    uint16_t port;
    uint8_t rank; /* of the address: lower is nearer */
    char name[AQ_NAME_MAX + 1];
    char version[AQ_VERSION_MAX + 1];
    char addr[AQ_ADDR_MAX + 1];
} aq_seen;

/** Take one TXT string, "key=value" of n foreign bytes. Unknown keys are passed over, of a key twice
 * the first counts. FORMAT: id or port is not one. */
int aq_seen_txt(aq_seen *, const uint8_t *text, size_t n, aq_err *) AQ_MUST;
/** After the last TXT string: where it is. scope: the interface, for link-local IPv6. FORMAT (no id,
 * ports that differ), AUTH (an address that is not of this network). */
int aq_seen_at(aq_seen *, const struct sockaddr *, uint32_t scope, uint16_t port,
               const aq_prefix6 *, uint32_t n_prefix, aq_err *) AQ_MUST;
/** What a PC's name keeps of foreign text: no control or direction characters, whole letters. */
void aq_seen_name(const uint8_t *text, size_t n, char ret[AQ_NAME_MAX + 1]);

/* ---- the table; the daemon side calls these from its thread ---------------------------------- */

/** Insert or replace by key and tell. This PC's own id is left out; from another host it makes the state TWIN. LIMIT
 * when full. */
int aq_presence_put(aq_presence *, const aq_seen *, aq_err *) AQ_MUST;
void aq_presence_drop(aq_presence *, uint64_t key); /* 0: all */
void aq_presence_state_set(aq_presence *, aq_presence_state, const char *detail);
void aq_presence_tell(aq_presence *);

/** What is to be published, copied. */
typedef struct aq_presence_self {
    aq_id id;
    uint16_t port;
    char name[AQ_NAME_MAX + 1];
    char version[AQ_VERSION_MAX + 1];
} aq_presence_self;
void aq_presence_self_get(const aq_presence *, aq_presence_self *ret);

/** A table without a daemon, for tests. */
int aq_presence_new(const aq_presence_opts *, void (*changed_cb)(void *), void *user,
                    aq_presence **ret, aq_err *) AQ_MUST;

/* ---- mdns.c, mdns-none.c --------------------------------------------------------------------- */

typedef struct aq_mdns aq_mdns;
/** p outlives it. */
int aq_mdns_new(aq_presence *p, aq_mdns **ret, aq_err *) AQ_MUST;
void aq_mdns_free(aq_mdns *);
void aq_mdns_wake(aq_mdns *); /* what is to be published has changed; any thread */

#endif
