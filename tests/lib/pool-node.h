/* SPDX-License-Identifier: Apache-2.0 */
/* PCs of a pool in one process, over loopback: each has its own trust in a folder of its own, a
 * listener, and the last link of either kind. Waiting is for an event, with a limit against hanging. */
#ifndef POOL_NODE_H
#define POOL_NODE_H

#include "pair-priv.h"

#include <pthread.h>

#define NODE_FRAMES_MAX 64

typedef struct node_frame {
    aq_hdr hdr;
    aq_bytes body;
} node_frame;
typedef struct node_end { /* one end of a link */
    struct node *node;
    aq_link *link;
    bool open, closed, hold, held; /* hold: frame_cb waits (held) until it is false again */
    aq_err why;
    node_frame frame[NODE_FRAMES_MAX];
    uint32_t n_frame;
} node_end;
typedef struct node {
    char dir[512];
    aq_trust *trust;
    aq_net *net;
    aq_listener *listener;
    struct sockaddr_storage addr; /* where it listens */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    node_end in, out;
    aq_pairing *pair_in, *pair_out;
    char digits_in[7], digits_out[7];
    bool done_in, done_out;
    aq_err err_in, err_out;
    int refuse; /* accept callback answers with -refuse */
} node;

/** A PC in folder top/name. */
bool node_start(node *, const char *top, const char *name);
void node_stop(node *);
bool node_listen(node *, const char *addr); /* "127.0.0.1": any port, "127.0.0.1:80" */
/** Put both into one pool, a granting. */
bool node_join(node *a, node *b);
/** Dial from one to the other's listener; open on both ends (true), or closed. */
bool node_dial(node *from, node *to, aq_purpose);
bool node_dial_with(node *from, node *to, const aq_dial *, bool wait);
void node_hang_up(node *from, node *to);
bool node_wait_frames(node_end *, uint32_t n);
bool node_wait_closed(node_end *);
void node_hold(node_end *, bool);
void node_forget(node_end *); /* frames seen so far */
/** Wait (at most 20 s) until *flag, which is under n->lock. */
bool node_wait(node *n, const bool *flag);
#endif
