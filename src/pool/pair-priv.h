/* SPDX-License-Identifier: Apache-2.0 */
/* Pairing: the machine as a pure function of messages, and the driver that runs it over a link. */
#ifndef AQ_PAIR_PRIV_H
#define AQ_PAIR_PRIV_H

#include "link-priv.h"

/* ---- the machine: no I/O, no clock, no randomness ------------------------------------------- */

typedef struct aq_pair_cfg {
    aq_role role;
    uint8_t cert_d[32], cert_a[32]; /* SHA-256 of the certificates, as this side sees them */
    uint8_t nonce[32];              /* own, fresh */
    uint8_t exporter[32];
} aq_pair_cfg;
typedef enum aq_pair_step {
    AQ_PAIR_COMMITS,  /* waits for the other's commitment */
    AQ_PAIR_REVEALS,  /* waits for its nonce */
    AQ_PAIR_COMPARES, /* the digits are shown */
    AQ_PAIR_AGREED,   /* both people pressed They Match */
    AQ_PAIR_FAILED,
} aq_pair_step;
typedef struct aq_pair {
    aq_pair_cfg cfg;
    aq_pair_step step;
    uint8_t commit[32], nonce[32]; /* the other's */
    bool said, heard;
    char digits[7];
} aq_pair;
/** What to send now: an AQ_T_PAIR_* and its payload. */
typedef struct aq_pair_msg {
    uint16_t type; /* 0 = nothing */
    uint8_t payload[128];
    size_t n;
} aq_pair_msg;

void aq_pair_commit_of(aq_role, const uint8_t cert[32], const uint8_t nonce[32], uint8_t ret[32]);
/** The six digits and their NUL. */
void aq_pair_digits_of(const uint8_t cert_d[32], const uint8_t cert_a[32],
                       const uint8_t nonce_d[32], const uint8_t nonce_a[32],
                       const uint8_t exporter[32], char ret[7]);
/** The dialer has something to send at once, the acceptor has not. */
int aq_pair_init(aq_pair *, const aq_pair_cfg *, aq_pair_msg *ret, aq_err *) AQ_MUST;
/** A PAIR_COMMIT, PAIR_REVEAL or PAIR_MATCH came. At most one message to send. AUTH: the nonce is
 * not the one promised; PROTO: out of order. After an error the machine is FAILED for good. */
int aq_pair_take(aq_pair *, uint16_t type, const void *payload, size_t n, aq_pair_msg *ret,
                 aq_err *) AQ_MUST;
/** This side's person pressed They Match. INVAL when there are no digits yet. */
int aq_pair_match(aq_pair *, aq_pair_msg *ret, aq_err *) AQ_MUST;
void aq_pair_clear(aq_pair *);

/* ---- the driver ------------------------------------------------------------------------------ */

typedef struct aq_pairing aq_pairing;
typedef struct aq_pairing_cb {
    void *user;
    /* "379380" is on the screen of both now, together with the other PC's name. Link's thread. */
    void (*digits_cb)(void *user, aq_pairing *, const char digits[7], const char *name);
    /* The end: err->code 0 = paired with id. Link's thread. */
    void (*done_cb)(void *user, aq_pairing *, const aq_err *err, const aq_id *id);
} aq_pairing_cb;
/** Pair with the PC at one of these addresses. */
int aq_pairing_dial(aq_net *, const struct sockaddr_storage *addr, uint32_t n_addr,
                    const aq_pairing_cb *, aq_pairing **ret, aq_err *) AQ_MUST;
/** From an aq_accept_fn, for a link whose purpose is AQ_FOR_PAIR: takes the link over. */
int aq_pairing_accept(aq_net *, aq_link *, aq_link_cb *ret_cb, const aq_pairing_cb *,
                      aq_pairing **ret, aq_err *) AQ_MUST;
/** They Match, or They Differ. Any thread, a callback too; once. */
void aq_pairing_answer(aq_pairing *, bool match);
/** Where the other PC is, "" before it answered. From a callback. */
void aq_pairing_addr(aq_pairing *, char ret[AQ_ADDR_MAX + 1]);
/** What became of calling the other PC from here, and of its calling back here (UNTRIED, too, when it has not said).
 * From done_cb. */
void aq_pairing_reach(const aq_pairing *, aq_reach *ret_out, aq_reach *ret_in);
/** Ends it when it is not over (done_cb comes before this returns). Not from a callback. */
void aq_pairing_free(aq_pairing *);
AQ_CLEANUP_FUNC(aq_pairing *, aq_pairing_free)

#endif
