/* SPDX-License-Identifier: Apache-2.0 */
/* This PC's seat in the pool: seat.c is its life, pairing and members; seat-watch.c asks how the PCs are; seat-guest.c is the seat
 * of who finds the pool taken by another process. */
#ifndef AQ_SEAT_PRIV_H
#define AQ_SEAT_PRIV_H

#include "dial-priv.h"
#include "pair-priv.h"
#include "split-priv.h"

#include <pthread.h>

typedef struct aq_ctl aq_ctl;
typedef struct aq_guest aq_guest;

/** A split of this seat, while it lives. */
typedef struct aq_shared_split {
    struct aq_shared_split *next;
    aq_seat *seat;
    aq_split *split;
    const aq_model *model;
    uint8_t print[32]; /* the model's fingerprint */
    aq_id pc;
    char rows[8];
    void (*change_cb)(void *user); /* of who opened it */
    void *user;
    atomic_bool ends;
    uint32_t n_use; /* under the seat's lock */
} aq_shared_split;

struct aq_seat {
    aq_seat_cfg cfg;
    _Atomic(aq_ctl *) ctl;   /* NULL = none */
    pthread_mutex_t op_lock; /* one change by hand at a time; before the others */
    aq_net *net;             /* of calls from here; the node has its own */
    _Atomic(aq_presence *) presence;
    aq_guest *
        guest; /* NULL = this process has the pool. Changed by the watch thread, under op_lock and lock */
    pthread_t thread; /* of seat-watch.c */
    bool started;
    aq_progress asking;         /* its cancel ends a question */
    pthread_mutex_t serve_lock; /* held while the node is put up or taken down; before `lock` */
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t cond;
    bool stop, kick;
    aq_node *node; /* NULL: listen_err */
    aq_err listen_err;
    aq_pairing *pairing; /* the last one, until it is forgotten */
    bool pairing_over;
    uint64_t n_pair;                              /* pairings so far */
    struct sockaddr_storage called[AQ_ADDRS_MAX]; /* where a person here called last */
    uint32_t n_called;
    uint32_t n_wait; /* programs that wait for a PC that wants to be paired */
    aq_shared_split *split;
    char reach_name[AQ_NAME_MAX + 1]; /* of the last pairing that was done, as the next two */
    aq_reach reach_out, reach_in;
    aq_pair_state pair;
    aq_pc *seen; /* [n_seen] as asked last; room for AQ_PCS_MAX */
    uint32_t n_seen;
};

void aq_seat_changed(aq_seat *);
/** The PCs that there are now, with what they said last. */
int aq_seat_pcs(aq_seat *, aq_pc *ret, aq_err *) AQ_MUST;
void *aq_seat_watch_main(void *);
/** A copy of the pairing's state, and which pairing it is, from 1. */
uint64_t aq_seat_pair_get(aq_seat *, aq_pair_state *ret);
/** A program waits for a PC that wants to be paired, or no longer does. ret_port: where. Errors: why it does not listen. */
int aq_seat_pair_wait(aq_seat *, bool on, uint16_t *ret_port, aq_err *) AQ_MUST;
/** The split of this model, kept from ending until it is given back; NULL when there is none. */
aq_shared_split *aq_seat_split_use(aq_seat *, const uint8_t print[32]);
void aq_seat_split_unuse(aq_shared_split *);
/** Who had the pool is gone: this process takes it, when it gets the lock. */
void aq_seat_take_over(aq_seat *);

/* ---- seat-guest.c ---------------------------------------------------------------------------- */

/** What the process that has the pool told last. */
typedef struct aq_guest_told {
    aq_holder host; /* pid 0 = nothing yet */
    uint16_t port;
    bool waits; /* for PCs that want to be paired */
    aq_presence_info mdns;
    aq_node_state node;
} aq_guest_told;

int aq_guest_new(aq_seat *, aq_guest **ret, aq_err *) AQ_MUST;
int aq_guest_start(aq_guest *, aq_err *) AQ_MUST; /* its thread, where the seat pairs */
void aq_guest_free(aq_guest *);
/** Ask how it is. false: no process has the pool any more. */
bool aq_guest_look(aq_seat *);
/** Under the seat's lock, as the next one, which fills [AQ_FOUND_MAX] and returns how many they are. */
void aq_guest_told_get(const aq_guest *, aq_guest_told *ret);
uint32_t aq_guest_found(const aq_guest *, aq_found *ret);
/** Under op_lock, as the next ones. A request of one text (key NULL = none): 1 when it said that it knew it, else 0. ret_addr NULL = not
 * wanted. Errors: its own; GONE, TIMEOUT. */
int aq_guest_text(aq_seat *, const char *what, const char *key, const char *text,
                  char ret_addr[AQ_ADDR_MAX + 1], aq_err *) AQ_MUST;
int aq_guest_permit(aq_seat *, const aq_id *, uint32_t perms, aq_err *) AQ_MUST;
int aq_guest_pair(aq_seat *, const char *const *addr, uint32_t n, aq_err *) AQ_MUST;
void aq_guest_pair_answer(aq_seat *, bool match);
void aq_guest_pair_end(aq_seat *);

#endif
