/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of `pool` share: options, one text that grows, and what is asked of the process that has the pool.
 * One thread. */
#ifndef AQ_CLI_MEMBER_H
#define AQ_CLI_MEMBER_H

#include "cli-pool.h"

#define CLI_APP "aquifer " AQ_VERSION

typedef struct member_opt {
    const char *state, *name, *bind;
    uint32_t port, wait_ms;
    bool json, wait;
    const char *more[2]; /* of permit, after the PC */
    aq_call *call;       /* to the process that has the pool; NULL = none has it */
} member_opt;

/* ---- output: cli-out.c ------------------------------------------------------------------------- */

/** One text that grows; the first error stays. */
typedef struct out {
    aq_bytes b;
    int rc;
} out;
void put(out *, const char *fmt, ...) AQ_PRINTF(2, 3);
void put_json(out *, const char *text); /* quoted */
void put_id(out *, const aq_id *);
void put_addrs(out *, const char (*addr)[AQ_ADDR_MAX + 1], uint32_t n);
int out_end(out *, const char *where); /* print it; exit code */

/* ---- cli-far.c --------------------------------------------------------------------------------- */

/** Send the request in o (which is cleared) and hear its end: ret is the object of "done", until the next request. */
int far_ask(aq_call *, out *o, const aq_json **ret, aq_err *) AQ_MUST;
int far_say(aq_call *, out *o, aq_err *) AQ_MUST; /* send alone */
/** What the process that has the pool knows of mDNS; f [AQ_FOUND_MAX] and n may be NULL. ret: all of its state, until the next
 * request. */
int far_state(aq_call *, aq_presence_info *mdns, aq_found *f, uint32_t *ret_n, const aq_json **ret,
              aq_err *) AQ_MUST;
bool far_id(const aq_json *, aq_id *ret); /* its "id" */
/** aq_look, or what that process has found. */
int member_look(const member_opt *, const aq_trust *, bool (*is_it)(void *, const aq_found *),
                void *user, aq_presence_info *mdns, aq_found *f, uint32_t *ret_n, aq_err *) AQ_MUST;

/* ---- cli-pair.c -------------------------------------------------------------------------------- */

int pool_pair(const member_opt *, aq_trust *, const char *arg, aq_err *);

#endif
