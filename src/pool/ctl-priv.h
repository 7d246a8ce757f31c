/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the room: the socket by which other programs of this user ask and steer the process that has this PC's
 * pool. docs/PROTOCOL.md, 14 is the contract. ctl.c: what both ends share; ctl-serve.c, ctl-chat.c: the server;
 * ctl-call.c: the client. */
#ifndef AQ_CTL_PRIV_H
#define AQ_CTL_PRIV_H

#include "seat-priv.h"

#define AQ_CTL_CLIENTS_MAX 16u
#define AQ_CTL_FIRST_US 5000000ll   /* for a client's request to be there */
#define AQ_CTL_ARENA_MAX (8u << 20) /* a parsed line */

typedef enum aq_ctl_do {
    AQ_CTL_STATE,
    AQ_CTL_NAME,
    AQ_CTL_ADD,
    AQ_CTL_FORGET,
    AQ_CTL_REMOVE,
    AQ_CTL_PERMIT,
    AQ_CTL_LEAVE,
    AQ_CTL_PAIR,
    AQ_CTL_ANSWER,
    AQ_CTL_CHAT,
    AQ_CTL_STOP,
    AQ_CTL_N
} aq_ctl_do;

/** A request, checked; its strings are borrowed from the arena. */
typedef struct aq_ctl_req {
    aq_ctl_do what;
    aq_id id;         /* REMOVE, PERMIT */
    uint32_t perms;   /* PERMIT */
    const char *text; /* NAME; ADD, FORGET: the address */
    uint32_t n_addr;  /* PAIR: 0 = wait */
    const char *addr[AQ_ADDRS_MAX];
    bool match;              /* ANSWER */
    uint8_t model[32];       /* CHAT */
    const aq_json *messages; /* CHAT: an array */
    float temp;
    uint32_t max_tok;
    uint64_t seed;
} aq_ctl_req;

/* ---- ctl.c ----------------------------------------------------------------------------------- */

/** One line, without its end, from outside. Errors: FORMAT, INVAL (a value), UNSUPPORTED (no such request), LIMIT, NOMEM. */
int aq_ctl_parse(aq_arena *, const char *line, size_t n, aq_ctl_req *ret, aq_err *) AQ_MUST;

/** 64 hexadecimal digits, lower case: 32 bytes. INVAL. */
int aq_ctl_hex(const aq_json *, const char *key, uint8_t ret[32], aq_err *) AQ_MUST;

/** Lines that came in: a buffer of at most AQ_CALL_LINE_MAX bytes. */
typedef struct aq_ctl_in {
    aq_bytes b;
    size_t n_taken; /* bytes of the line that was given out last */
} aq_ctl_in;
/** The next whole line: 1 (until the next call), or 0. LIMIT. */
int aq_ctl_line(aq_ctl_in *, const char **ret, size_t *ret_n, aq_err *) AQ_MUST;
/** Take what the socket has: 1, 0 when it has nothing now. GONE: the other end hung up. */
int aq_ctl_recv(aq_ctl_in *, int fd, aq_err *) AQ_MUST;
/** Both ends are of one user, or AUTH. */
int aq_ctl_same_user(int fd, aq_err *) AQ_MUST;
/** {"error":…} and its line end. */
int aq_ctl_put_error(aq_bytes *, const aq_err *) AQ_MUST;
/** ,"key":"text" */
int aq_ctl_put_text(aq_bytes *, const char *key, const char *text) AQ_MUST;

/* ---- ctl-serve.c ----------------------------------------------------------------------------- */

typedef struct aq_ctl aq_ctl;
typedef struct aq_ctl_client {
    aq_ctl *ctl;
    pthread_t thread;
    bool used;         /* under ctl's lock, as is over */
    bool over;         /* its thread is about to end */
    int fd, wake_fd;   /* wake_fd: something changed that this client may wait for */
    atomic_bool *ends; /* what it uses is about to go; NULL = nothing. Its own thread */
    aq_ctl_in in;
    aq_arena *arena; /* of the line that was read last */
} aq_ctl_client;

/** Errors: IO, AUTH (the folder is another user's, or open to others), LIMIT (its path is too long), NOMEM. */
int aq_ctl_new(aq_seat *, const char *dir, aq_ctl **ret, aq_err *) AQ_MUST;
void aq_ctl_stop(aq_ctl *); /* no client is left when it returns; wakes do nothing from then on */
void aq_ctl_free(aq_ctl *); /* after aq_ctl_stop; NULL is fine */
void aq_ctl_wake(aq_ctl *); /* the seat's state changed. Any thread; does not block */
/** Send a line. GONE: the client, or this process, or what it uses, goes. */
int aq_ctl_put(aq_ctl_client *, const aq_bytes *line, aq_err *) AQ_MUST;
/** Wait: 1 and a request, or 0 after something changed. deadline_us by aq_now_us. Errors as aq_ctl_parse; TIMEOUT; GONE. */
int aq_ctl_wait(aq_ctl_client *, int64_t deadline_us, aq_ctl_req *ret, aq_err *) AQ_MUST;
aq_seat *aq_ctl_seat(const aq_ctl *);

/* ---- ctl-chat.c ------------------------------------------------------------------------------ */

/** One answer of a split of this process, to its end. */
int aq_ctl_chat(aq_ctl_client *, const aq_ctl_req *, aq_err *) AQ_MUST;
/** ,"splits":[…] of state. */
int aq_ctl_put_splits(aq_seat *, aq_bytes *) AQ_MUST;

#endif
