/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO and AUTH of docs/PROTOCOL.md as a pure machine: frames in, frames out. No I/O, no clock, no
 * randomness of its own. One thread at a time. */
#ifndef AQ_HS_PRIV_H
#define AQ_HS_PRIV_H

#include "trust-priv.h"
#include "wire-priv.h"

typedef enum aq_purpose {
    AQ_FOR_STEP,
    AQ_FOR_STATUS,
    AQ_FOR_REQUEST,
    AQ_FOR_BULK,
    AQ_FOR_PAIR,
    AQ_FOR_JOIN,
    AQ_FOR_N
} aq_purpose;
const char *aq_purpose_name(aq_purpose);

/** What a HELLO said. */
typedef struct aq_hello {
    uint32_t major, minor;
    uint64_t feat, need, roster;
    aq_purpose purpose;
    aq_id id, to;
    bool has_to, has_pool;
    uint8_t nonce[32], pool[16], boot[8];
    uint32_t epoch, port;
    char name[AQ_NAME_MAX + 1], app[AQ_NAME_MAX + 1];
} aq_hello;
int aq_hello_parse(const void *payload, size_t n, bool from_dialer, aq_hello *ret,
                   aq_err *) AQ_MUST;
int aq_hello_print(const aq_hello *, bool from_dialer, aq_bytes *ret) AQ_MUST;

/** HMAC over what binds a proof to its connection; role is the prover's. */
typedef struct aq_proof {
    uint32_t epoch;
    aq_id id_d, id_a;
    uint8_t nonce_d[32], nonce_a[32], exporter[32], hello_d[32], hello_a[32];
} aq_proof;
int aq_proof_make(const uint8_t secret[AQ_SECRET_BYTES], aq_role, const aq_proof *,
                  uint8_t ret[32]) AQ_MUST;

typedef struct aq_hs_cfg {
    aq_role role;
    aq_hello me;     /* own HELLO; as acceptor its purpose is filled in */
    aq_id peer;      /* as TLS saw it */
    bool peer_known; /* in the roster */
    bool pair_open, join_open;
    uint8_t exporter[32];
    uint8_t secret[AQ_SECRET_BYTES];                   /* of the pool, or typed in for `join` */
    int (*share)(void *user, aq_bytes *ret, aq_err *); /* the roster, for REKEY */
    void *user;
} aq_hs_cfg;

enum {
    AQ_HS_MORE = 0,
    AQ_HS_OPEN = 1,       /* both proofs were right */
    AQ_HS_PAIR = 2,       /* both want to pair */
    AQ_HS_REKEYED = 3,    /* hs->rekey_* is a newer secret: take it, close, dial again */
    AQ_HS_REKEY_SENT = 4, /* close when it is sent; the other dials again, or this side does */
};
typedef struct aq_hs {
    aq_hs_cfg cfg;
    aq_lstate state;
    uint64_t seq_out; /* of the next control frame */
    aq_hello peer;
    aq_proof proof;
    uint32_t rekey_epoch;
    uint8_t rekey_secret[AQ_SECRET_BYTES];
    aq_bytes rekey_roster;
} aq_hs;

void aq_hs_init(aq_hs *, const aq_hs_cfg *);
void aq_hs_clear(aq_hs *); /* wipes */
/** The dialer's HELLO. */
int aq_hs_begin(aq_hs *, aq_bytes *out, aq_err *) AQ_MUST;
/** One frame that passed the wire's table. AQ_HS_*, or an error: send aq_put_refusal and close. The
 * other side's own ERROR, BUSY and BYE come back as errors with *ret_told = true: just close. */
int aq_hs_frame(aq_hs *, const aq_hdr *, const void *payload, aq_bytes *out, bool *ret_told,
                aq_err *) AQ_MUST;

/** Append a control frame. */
int aq_put_frame(aq_bytes *out, uint16_t type, uint16_t flags, uint64_t seq, const void *payload,
                 size_t n) AQ_MUST;
/** ERROR, or BUSY for that code. */
int aq_put_refusal(aq_bytes *out, aq_role, aq_lstate, uint64_t seq, const aq_err *) AQ_MUST;
/** An arrived ERROR, BUSY or BYE as an error: code and "NAME: text". BUSY for BYE `replaced`: another program of this
 * PC has the other one now; calling again would take it away from that. */
int aq_told(uint16_t type, const void *payload, size_t n, const char *name, aq_err *);

#endif
