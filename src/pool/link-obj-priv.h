/* SPDX-License-Identifier: Apache-2.0 */
/* A link from inside: shared by link.c (the machine that moves bytes) and link-run.c (its thread). */
#ifndef AQ_LINK_OBJ_PRIV_H
#define AQ_LINK_OBJ_PRIV_H

#include "link-priv.h"

#include <pthread.h>

struct aq_net {
    aq_trust *trust;
    aq_tls_ctx *tls;
    uint64_t feat;
    uint8_t boot[8];
    char app[AQ_NAME_MAX + 1];
    atomic_bool pair_open, join_open;
    atomic_uint port;
};

typedef struct item {
    struct item *next;
    uint16_t type;
    uint64_t seq; /* of a control frame */
    aq_bytes frame;
} item;
typedef struct queue {
    item *first, *last;
    uint32_t n;
} queue;

struct aq_link {
    aq_net *net;
    aq_role role;
    aq_purpose purpose;
    aq_link_cb cb;
    pthread_t thread;
    bool started;
    struct sockaddr_storage addr[AQ_ADDRS_MAX]; /* dial: to try; [0] afterwards the other side */
    uint32_t n_addr;
    bool has_to;
    aq_id to;
    uint8_t join_secret[AQ_SECRET_BYTES];

    /* Under io, as all down to `lock`: the link's thread has it but for its waits, and who sends a window takes it if it
     * is free. Nobody waits for it but that thread, so it may be taken under any other lock. */
    pthread_mutex_t io;
    int fd;
    aq_tls *tls;
    bool tls_done, peer_known, hs_done, open_told;
    bool told;    /* the other side said why it ends */
    bool rekeyed; /* a new secret was given or taken: the connection is made anew */
    uint32_t n_rekey;
    bool match_sent, match_got;
    aq_hs hs;
    uint8_t exporter[32];
    int64_t deadline_us, beat_us, heard_us;
    uint8_t *rbuf;
    size_t rbuf_cap;
    uint8_t head[AQ_WIRE_HDR_BYTES];
    size_t n_head, n_body;
    aq_hdr hdr;
    aq_bytes body;
    aq_wire_seq rx;
    uint64_t data_max, config_seq;
    item *sending; /* with n_sending bytes of it in TLS already */
    size_t n_sending;
    _Atomic int state;
    _Atomic int64_t rtt_us;
    _Atomic uint64_t rx_bytes, tx_bytes, rx_frames, tx_frames, tx_sends;

    pthread_mutex_t lock;
    queue ctl, data; /* under lock, as all below */
    item *spare;
    uint32_t n_spare;
    uint64_t seq_out;
    bool accepting, stop;
    int wake_fd;
};

int aq_link_create(aq_net *, aq_role, aq_link **ret, aq_err *) AQ_MUST;
void aq_link_destroy(aq_link *); /* its thread has ended, or never began */
void aq_link_reset(aq_link *); /* its connection is closed; as before it was made. Owner's thread */
void aq_link_set_dial(aq_link *, const aq_dial *);
bool aq_link_accept_cert(void *link, const aq_id *); /* for TLS */
bool aq_link_stopped(aq_link *);
/** Move queued frames to the socket until it is full or nothing is left. */
int aq_link_send_queued(aq_link *, aq_err *) AQ_MUST;

#endif
