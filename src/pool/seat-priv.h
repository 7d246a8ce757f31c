/* SPDX-License-Identifier: Apache-2.0 */
/* This PC's seat in the pool: seat.c is its life, pairing and members; seat-watch.c asks how the PCs are. */
#ifndef AQ_SEAT_PRIV_H
#define AQ_SEAT_PRIV_H

#include "dial-priv.h"
#include "pair-priv.h"
#include "split-priv.h"

#include <pthread.h>

struct aq_seat {
    aq_seat_cfg cfg;
    aq_net *net; /* of calls from here; the node has its own */
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
    aq_pair_state pair;
    aq_pc *seen; /* [n_seen] as asked last; room for AQ_PCS_MAX */
    uint32_t n_seen;
};

void aq_seat_changed(aq_seat *);
/** The PCs that there are now, with what they said last. */
int aq_seat_pcs(aq_seat *, aq_pc *ret, aq_err *) AQ_MUST;
void *aq_seat_watch_main(void *);

#endif
