/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the room: calling a PC on all its addresses. */
#ifndef AQ_DIAL_PRIV_H
#define AQ_DIAL_PRIV_H

#include "addr-priv.h"

#define AQ_DIAL_STAGGER_US 50000ll /* head start of each address before the next */

typedef struct aq_dial_to {
    const struct sockaddr_storage *addr; /* best first */
    uint32_t n;                          /* 1 .. AQ_ADDRS_MAX */
    int64_t deadline_us;                 /* by aq_now_us */
    int wake_fd;                         /* an eventfd that ends a wait, or -1; it is emptied */
    bool (*stop_cb)(void *user);         /* true: give up (CANCELLED). May be NULL */
    void *user;
} aq_dial_to;

/** Call all addresses side by side, each with a short head start before the next (a PC that answers
 * at once is called once), or at once when the one before failed. The first that answers is taken,
 * the others are closed. Blocks until then, or the deadline.
 * ret_fd: connected, non-blocking, close-on-exec. ret_i: its address. ret_reach [n] (may be NULL) is
 * filled on failure too; of an address still being called it is SILENT. Errors: INVAL; AUTH, no address is of this network; GONE, refused or not
 * there; TIMEOUT; CANCELLED; IO. An address that is not of this network is not called. */
int aq_dial_any(const aq_dial_to *, int *ret_fd, uint32_t *ret_i, aq_reach *ret_reach,
                aq_err *) AQ_MUST;

/** All addresses of a PC in the order to call them: the one that answered last, those found now, the
 * others remembered; each once; what is no address is left out. Either may be NULL. */
uint32_t aq_dial_list(const aq_member *, const aq_found *,
                      struct sockaddr_storage ret[AQ_ADDRS_MAX]);

#endif
