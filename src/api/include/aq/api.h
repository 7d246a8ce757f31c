/* SPDX-License-Identifier: Apache-2.0 */
/* The local API: an HTTP endpoint that other programs use a loaded model through, in the words of OpenAI and Anthropic.
 *
 * Threads. The server has one thread with a GMainContext of its own, and a few workers that read bodies and submit
 * requests. Functions here may be called from any thread unless they say otherwise; none waits for a client.
 *
 * Errors. >= 0 or -AQ_E_*; `ret_*` are untouched on failure; `err` may be NULL. */
#ifndef AQ_API_H
#define AQ_API_H

#include "aq/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_API_PORT 7711
#define AQ_API_KEYS_MAX 64u
#define AQ_API_KEY_MAX 256u /* bytes of a key */
#define AQ_API_KEY_TEXT 40u /* bytes that aq_api_key_new writes, NUL included */
#define AQ_API_NAMES_MAX 32u

typedef struct aq_api aq_api;

typedef struct aq_api_cfg { /* copied by aq_api_new */
    const char *app;        /* "aquifer 0.1.0" */
    uint16_t port;          /* 0 = any that is free */
    bool lan;               /* all addresses of this PC, not loopback alone: needs a key */
    const char *tls_pem;    /* certificate and key: other PCs come over TLS; NULL = in clear */
    const char *const *key; /* [n_key] empty: no key is asked for */
    uint32_t n_key;
    const char *const
        *host; /* [n_host] names in the Host header besides loopback's and this PC's */
    uint32_t n_host;
    const char *const *origin; /* [n_origin] web pages besides those of loopback, as "app://-" */
    uint32_t n_origin;
    /* Limits; 0 = the default. */
    uint32_t body_max_bytes;   /* 64 MiB */
    uint32_t n_queue;          /* requests that may wait for the engine, 64 */
    uint32_t n_conn;           /* connections, 1024 */
    uint32_t keepalive_ms;     /* a sign of life this often while nothing else is sent, 5000 */
    uint32_t read_ms, idle_ms; /* for headers and body, 30 s; between requests, 120 s */
    uint32_t stall_ms;         /* a client that takes nothing for so long is left, 60 s */
} aq_api_cfg;

/** Listen and start the thread. There is no model yet: requests get 503. Errors: IO (the port is taken, …), INVAL (lan
 * without a key, a key that is empty or too long, a certificate that is none), UNSUPPORTED (no TLS on this system), NOMEM. */
int aq_api_new(const aq_api_cfg *, aq_api **ret, aq_err *) AQ_MUST;
/** Ends all requests, closes all connections, calls the model's `released`. Blocks for that. */
void aq_api_free(aq_api *);
AQ_CLEANUP_FUNC(aq_api *, aq_api_free)
uint16_t aq_api_port(const aq_api *);

/** A model to answer with. Everything is borrowed until `released` is called, on any thread, when the last request that
 * used it has ended. */
typedef struct aq_api_model {
    const char *id; /* as /v1/models tells it */
    aq_engine *engine;
    const aq_model *model;
    int64_t created_s;            /* seconds since 1970 */
    void (*released)(void *user); /* may be NULL */
    void *user;
} aq_api_model;
/** Replace the model; NULL: none. Requests under way keep the one they began with. */
int aq_api_set_model(aq_api *, const aq_api_model *, aq_err *) AQ_MUST;
/** Replace all keys; those that are not in the list hold no longer, from the next request on. INVAL: lan and none, or
 * one that is no key. */
int aq_api_set_keys(aq_api *, const char *const *key, uint32_t n, aq_err *) AQ_MUST;
/** A new key: "aq-" and 128 random bits. IO: no randomness. */
int aq_api_key_new(char ret[AQ_API_KEY_TEXT], aq_err *) AQ_MUST;

enum { AQ_API_QUEUED, AQ_API_READING, AQ_API_WRITING };
/** A request under way. */
typedef struct aq_api_request {
    uint64_t id;
    char who[96]; /* program and address: "openai-python 127.0.0.1" */
    char model[96], path[48];
    uint32_t state, prompt_tok, read_tok, gen_tok; /* AQ_API_* */
    int64_t start_us;                              /* aq_now_us() */
    double tok_s;                                  /* since the first token; 0 = none yet */
} aq_api_request;
/** Up to cap, oldest first; returns how many. */
uint32_t aq_api_get_requests(aq_api *, aq_api_request *ret, uint32_t cap);
/** Stop one; false when it has ended. */
bool aq_api_stop(aq_api *, uint64_t id);

/** An ended request, without what was asked and answered. */
typedef struct aq_api_log {
    uint64_t no; /* 1, 2, … */
    int64_t end_s;
    char who[96], path[48];
    int http;
    uint32_t prompt_tok, cached_tok, gen_tok, ms;
} aq_api_log;
#define AQ_API_LOG_MAX 200u
/** Those with a number above `since`, oldest first; returns how many. The last AQ_API_LOG_MAX are kept. */
uint32_t aq_api_get_log(aq_api *, uint64_t since, aq_api_log *ret, uint32_t cap);

#ifdef __cplusplus
}
#endif
#endif
