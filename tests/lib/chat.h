/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in tests: submit, wait for events with a hang limit, gather what came. */
#ifndef TEST_CHAT_H
#define TEST_CHAT_H

#include <pthread.h>

#include "aq/engine.h"

#define CHAT_HANG_S 60 /* a test that waits longer has failed */

typedef struct chat {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    unsigned woken;
    aq_req *req;
    int rc;       /* of aq_submit */
    aq_err err;   /* of aq_submit, or of the ERROR event */
    int32_t *tok; /* sampled tokens that had a TEXT event */
    uint32_t n_tok, cap_tok;
    aq_bytes text;
    aq_logprob top[64 + 1];
    uint32_t n_top; /* of the last TEXT event */
    aq_usage usage;
    uint32_t n_usage, n_done, n_error, n_text;
    int32_t reason; /* DONE's or ERROR's rc */
    bool hung, oom; /* the hang limit was reached; gathering found no memory */
} chat;

/** Submit; *in is used as it is. Any chat must be zeroed before. */
void chat_start(chat *, aq_engine *, const aq_req_in *in);
/** Prompt of tokens, greedy, end-of-text ignored. */
void chat_start_tok(chat *, aq_engine *, const int32_t *tok, uint32_t n, uint32_t max_tok);
/** Take events until n_tok tokens came or the end; false when the hang limit was reached. */
bool chat_wait_tok(chat *, uint32_t n_tok);
bool chat_wait(chat *);    /* until DONE or ERROR */
void chat_pop_all(chat *); /* what is there now */
void chat_end(chat *);
/** Poll until cond() is true or the hang limit (yields; for what has no wake of its own). */
#define wait_until(cond)                                        \
    ({                                                          \
        int64_t t_end_ = aq_now_us() + CHAT_HANG_S * 1000000ll; \
        bool is_;                                               \
        while (!(is_ = (cond)) && aq_now_us() < t_end_)         \
            sched_yield();                                      \
        is_;                                                    \
    })

#endif
