/* SPDX-License-Identifier: Apache-2.0 */
/* Links between two PCs: TLS, handshake and frames over a socket.
 *
 * Threads. A link has one thread that owns its TLS object and its socket; all callbacks come from
 * it. (Until a caller is authenticated, the listener's one thread is that thread, for all of them,
 * and none can block it.) aq_link_send and the getters may be called from any thread. */
#ifndef AQ_LINK_PRIV_H
#define AQ_LINK_PRIV_H

#include "addr-priv.h"
#include "hs-priv.h"
#include "tls-priv.h"

#define AQ_LINK_BEAT_US 500000ll   /* a PING each */
#define AQ_LINK_GONE_US 1500000ll  /* silence that means gone: three beats */
#define AQ_LINK_AUTH_US 5000000ll  /* from accept or connect to AUTH_OK */
#define AQ_LINK_PAIR_US 60000000ll /* for two people to compare digits */
#define AQ_LINK_PIECE (256u << 10) /* a frame up to this leaves in one send */
#define AQ_LINK_CTL_QUEUE_MAX 256u /* frames */
#define AQ_LINK_DATA_QUEUE_MAX 64u
#define AQ_LINK_UNAUTH_MAX 16u     /* connections that have not proved anything yet */
#define AQ_LINK_UNAUTH_ADDR_MAX 4u /* of one address */
#define AQ_LINK_TRIES_MAX 20u      /* of one address in AQ_LINK_TRIES_US */
#define AQ_LINK_TRIES_US 10000000ll

typedef struct aq_net aq_net; /* what all links of this PC share */
typedef struct aq_link aq_link;
typedef struct aq_listener aq_listener;

/** trust is borrowed. app: "aquifer 0.1.0"; feat: AQ_FEAT_*. */
int aq_net_new(aq_trust *, const char *app, uint64_t feat, aq_net **ret, aq_err *) AQ_MUST;
void aq_net_free(aq_net *); /* after all its links and listeners */
AQ_CLEANUP_FUNC(aq_net *, aq_net_free)
/** Whether strangers may pair, or join by the secret. Off at first. */
void aq_net_set_open(aq_net *, bool pair, bool join);
aq_trust *aq_net_trust(const aq_net *);

typedef struct aq_link_cb {
    void *user;
    /* First of all: authenticated (OPEN or STATUS), or PAIR. May be NULL. */
    void (*open_cb)(void *user, aq_link *);
    /* A frame; the payload is borrowed. PING, and ROSTER's effect, are done already. < 0 ends the
     * link: the other side is told err. */
    int (*frame_cb)(void *user, aq_link *, const aq_hdr *, const uint8_t *payload, aq_err *);
    /* After each wake and each batch of frames; for work that belongs on this thread. May be NULL.
     * < 0 ends the link. aq_link_wake makes it come. */
    int (*turn_cb)(void *user, aq_link *, aq_err *);
    /* Last of all; why->code 0: closed by this side. Also after a dial that failed. May be NULL. */
    void (*closed_cb)(void *user, aq_link *, const aq_err *why);
} aq_link_cb;

typedef struct aq_dial {
    const struct sockaddr_storage *addr; /* called side by side (dial-priv.h), best first */
    uint32_t n_addr;                     /* 1 .. AQ_ADDRS_MAX */
    aq_purpose purpose;
    const aq_id *
        to; /* NULL: whoever answers. Else, where another one answers, the next address is called */
    const uint8_t *join_secret; /* [AQ_SECRET_BYTES], for AQ_FOR_JOIN */
} aq_dial;
/** Returns at once; open_cb or closed_cb follows. INVAL, AUTH (no address is of this network),
 * NOMEM. */
int aq_link_dial(aq_net *, const aq_dial *, const aq_link_cb *, aq_link **ret, aq_err *) AQ_MUST;
/** Says BYE, ends the thread (closed_cb comes before this returns), frees. Not from a callback. */
void aq_link_free(aq_link *);
AQ_CLEANUP_FUNC(aq_link *, aq_link_free)
/** End it from anywhere, a callback too: BYE with this reason; closed_cb follows. */
void aq_link_close(aq_link *, const char *reason);

/** Queue a control frame; it overtakes queued data. ret_seq (may be NULL) is its number, for `re`.
 * BUSY: queue full; GONE: closed; INVAL: not open yet; LIMIT. */
int aq_link_send(aq_link *, uint16_t type, uint16_t flags, const void *payload, size_t n,
                 uint64_t *ret_seq, aq_err *) AQ_MUST;
/** Queue a whole WINDOW or ROWS frame (aq_wire_put_window). Takes the bytes and leaves an empty
 * buffer to write the next one to, so that nothing is allocated in the steady state. */
int aq_link_send_data(aq_link *, aq_bytes *frame, aq_err *) AQ_MUST;

void aq_link_wake(aq_link *); /* any thread */

const aq_hello *aq_link_peer(const aq_link *); /* from open_cb on; borrowed */
aq_role aq_link_role(const aq_link *);
aq_purpose aq_link_purpose(const aq_link *);
aq_lstate aq_link_state(const aq_link *);
int64_t aq_link_rtt_us(const aq_link *); /* of the last PING, -1 = none yet */
void aq_link_addr(const aq_link *, char ret[AQ_ADDR_MAX + 1]);
typedef struct aq_link_count {
    uint64_t rx_bytes, tx_bytes, rx_frames, tx_frames, tx_sends; /* bytes at the socket */
} aq_link_count;
void aq_link_get_count(const aq_link *, aq_link_count *ret);
/** For pairing; from open_cb on, on the link's thread. */
const uint8_t *aq_link_cert_hash(const aq_link *); /* [32] of the other side */
const uint8_t *aq_link_exporter(const aq_link *);  /* [32] */

/** Somebody is authenticated (or wants to pair): fill ret_cb and return 0 to keep the link (it is
 * yours to free, its callbacks begin after this returned), or refuse it with an error that the other
 * side is told. Listener's thread; must not block. */
typedef int (*aq_accept_fn)(void *user, aq_link *, aq_link_cb *ret_cb, aq_err *);
/** Listen on these addresses (all of this network, else AUTH). IO with "in use" in its text when the
 * port is taken. Port 0 of the first address chooses one. */
int aq_listener_new(aq_net *, const struct sockaddr_storage *addr, uint32_t n_addr, aq_accept_fn,
                    void *user, aq_listener **ret, aq_err *) AQ_MUST;
/** On all addresses of this PC that a pool may use, also those that it gets later. IO: it has none. */
int aq_listener_new_own(aq_net *, uint16_t port, aq_accept_fn, void *user, aq_listener **ret,
                        aq_err *) AQ_MUST;
void aq_listener_free(aq_listener *);
AQ_CLEANUP_FUNC(aq_listener *, aq_listener_free)
uint16_t aq_listener_port(const aq_listener *);
typedef struct aq_listener_count {
    uint64_t accepted, refused_addr, refused_rate, refused_full, failed, opened;
    uint32_t n_unauth;
} aq_listener_count;
void aq_listener_get_count(const aq_listener *, aq_listener_count *ret);

/* ---- between link.c and listen.c ------------------------------------------------------------- */

/** A link over a connected socket (taken), for who pumps it himself: the acceptor's end, or with d
 * (its addresses are not looked at) the dialer's. */
int aq_link_over(aq_net *, int *fd, const struct sockaddr *from, const aq_dial *d, aq_link **ret,
                 aq_err *) AQ_MUST;
int aq_link_pump(aq_link *, aq_err *) AQ_MUST;  /* 0 = goes on, 1 = open; never blocks */
void aq_link_refuse(aq_link *, const aq_err *); /* says why (best effort) and shuts down */
int aq_link_fd(const aq_link *);
bool aq_link_wants_out(const aq_link *);
bool aq_link_wants_in(const aq_link *); /* false: too much waits to be sent */
int64_t aq_link_deadline_us(const aq_link *);
int aq_link_start(aq_link *, const aq_link_cb *, aq_err *) AQ_MUST;
void aq_net_set_port(aq_net *, uint16_t port);
int aq_socket_setup(int fd, aq_err *) AQ_MUST; /* non-blocking, no delay, close-on-exec */

#endif
