/* SPDX-License-Identifier: Apache-2.0 */
/* This PC's seat in the pool: seat.c is its life, pairing and members; seat-watch.c asks how the PCs are. */
#ifndef AQ_SEAT_PRIV_H
#define AQ_SEAT_PRIV_H

#include "dial-priv.h"
#include "pair-priv.h"
#include "split-priv.h"

#include <pthread.h>

typedef struct aq_ctl aq_ctl;

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
    aq_presence *presence;
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

#endif
