/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the API.
 *
 *   json.c      text of an answer, written piece by piece; one error at the end
 *   field.c     fields of a body, with errors that name them
 *   ask.c       what the dialects have in common: sampling, limits, messages
 *   fault.c     errors in the words of each dialect
 *   guard.c     who may ask: keys, Host, Origin
 *   chat-in.c responses-in.c messages-in.c    bodies of the dialects to an ask
 *   chat.c responses.c messages.c    events to an answer; complete.c: both
 *   replay.c    calls as they were sampled, by their ids, and the tokens around them
 *   pages.c     endpoints that answer at once
 *   listen.c    sockets, the accept loop, connections and their time limits
 *   exchange.c  one HTTP request and its answer, streamed or whole, over libsoup
 *   job.c       an ask under way: workers, submit, events, keep-alive, hang-up
 *   server.c    the thread, routing, and what the window sees
 *
 * Dialects know nothing of HTTP and libsoup: parse() runs on a worker, all else on the server's thread. */
#ifndef AQ_API_PRIV_H
#define AQ_API_PRIV_H

#include <libsoup/soup.h>

#include "aq/api.h"

#define AQ_API_BODY_BYTES (64u << 20)
#define AQ_API_BODIES 4u /* bodies of the largest size that are held at once, of all clients */
#define AQ_API_QUEUE 64u
#define AQ_API_CONNS 1024u
#define AQ_API_N_MAX 64u            /* answers of one ask */
#define AQ_API_MODEL_BYTES 512u     /* of the name that a client gives the model */
#define AQ_API_TOOL_BYTES 256u      /* of a tool's name */
#define AQ_API_TOP_MAX 20u          /* log-probabilities of a token */
#define AQ_API_OUT_BYTES (1u << 20) /* unsent bytes of one client before its chat waits */
#define AQ_API_ARENA_BYTES (1u << 30)

/* ---- json.c ---------------------------------------------------------------------------------- */

/** Text being written; rc is the first error, after which nothing is added. */
typedef struct aq_jw {
    aq_bytes b;
    int rc;
} aq_jw;
void aq_jw_s(aq_jw *, const char *text);
void aq_jw_n(aq_jw *, const void *text, size_t n);
void aq_jw_f(aq_jw *, const char *fmt, ...) AQ_PRINTF(2, 3);
void aq_jw_q(aq_jw *, const char *text);            /* quoted; NULL is null */
void aq_jw_qn(aq_jw *, const char *text, size_t n); /* quoted */
void aq_jw_v(aq_jw *, const aq_json *);
void aq_jw_num(aq_jw *, double); /* NaN and infinities are null */
void aq_jw_clear(aq_jw *);
static inline void aq_jw_clear_p(aq_jw *w)
{
    aq_jw_clear(w);
}

/* ---- fault.c --------------------------------------------------------------------------------- */

typedef struct aq_fault {
    int http;
    const char *type;         /* OpenAI's; Anthropic's follows from http */
    const char *code;         /* or NULL */
    char param[96];           /* "" = none */
    uint32_t n_prompt, n_ctx; /* of a prompt that is too long; else 0 */
    char text[512];
} aq_fault;
/** Fill and return -AQ_E_INVAL. type and code are literals. */
int aq_fault_set(aq_fault *, int http, const char *type, const char *code, const char *fmt, ...)
    AQ_PRINTF(5, 6);
/** 400 invalid_request_error that names a field. */
int aq_fault_field(aq_fault *, const char *param, const char *fmt, ...) AQ_PRINTF(3, 4);
/** What the engine said: its code decides the status. */
int aq_fault_err(aq_fault *, int rc, const aq_err *);
void aq_fault_put(aq_jw *, const aq_fault *, bool anthropic); /* the whole body */
void aq_fault_put_openai(aq_jw *, const aq_fault *);          /* the object of "error" alone */

/* ---- field.c --------------------------------------------------------------------------------- */

/* Each gives 0 and leaves *ret alone when the field is absent or null; 1 when it was there; else -AQ_E_INVAL with the fault. */
int aq_field_bool(const aq_json *obj, const char *key, bool *ret, aq_fault *) AQ_MUST;
int aq_field_int(const aq_json *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                 aq_fault *) AQ_MUST;
int aq_field_num(const aq_json *obj, const char *key, double min, double max, float *ret,
                 aq_fault *) AQ_MUST;
int aq_field_str(const aq_json *obj, const char *key, const char **ret, aq_fault *) AQ_MUST;
/** A field of something inside of the body: absent, null, or of this kind (AQ_JSON_TRUE: true or false). where: what has it, as "message 3";
 * param: the field of the body that the fault names. */
int aq_field_kind(const aq_json *obj, const char *key, int kind, const char *where,
                  const char *param, aq_fault *) AQ_MUST;
/** kind: AQ_JSON_ARR or AQ_JSON_OBJ. */
int aq_field_of(const aq_json *obj, const char *key, int kind, const aq_json **ret,
                aq_fault *) AQ_MUST;

/* ---- ask.c ----------------------------------------------------------------------------------- */

typedef struct aq_prompt_in { /* of /v1/completions */
    const char *text;         /* or NULL: tok */
    size_t n_text;
    int32_t *tok;
    uint32_t n_tok;
} aq_prompt_in;

typedef struct aq_replay aq_replay;
typedef struct aq_replay_turn aq_replay_turn;
/** One request, whatever dialect it came in. Strings lie in the arena. */
typedef struct aq_ask {
    aq_replay *replay; /* borrowed; may be NULL */
    aq_arena *arena;
    const aq_json *body;
    const char *model;     /* as asked, or "" */
    aq_jw messages;        /* OpenAI-shaped array, or empty */
    aq_replay_turn *known; /* or NULL: its tokens are in turn */
    aq_turn turn;
    aq_prompt_in *prompt;
    uint32_t n_prompt;
    aq_jw tools; /* OpenAI-shaped array, or empty */
    const char *schema_json, *vars_json, *tool_name;
    uint32_t tool_choice; /* AQ_TOOLS_* */
    bool one_call;        /* parallel_tool_calls: false */
    aq_sampling sampling;
    uint32_t n, max_tok;
    bool logprobs;
    uint32_t n_top;
    bool stream, usage; /* usage: a chunk of it at the end of a stream */
    bool echo;
    const aq_json *tools_in; /* as the dialect has them */
    const aq_json *allowed;  /* array: only these of them; NULL = all */
} aq_ask;
void aq_ask_clear(aq_ask *);
/** Parse the body, which must be an object, and take its "model". */
int aq_ask_begin(aq_ask *, const char *body, size_t n, aq_fault *) AQ_MUST;
/** temperature, top_p, top_k, min_p, penalties, seed, logit_bias, stream. */
int aq_ask_sampling(aq_ask *, aq_fault *) AQ_MUST;
/** A string or an array of them under this key. */
int aq_ask_stop(aq_ask *, const char *key, aq_fault *) AQ_MUST;
/** A number of tokens; -1 and 0 (where zero is said to be fine) mean no limit. */
int aq_ask_max(aq_ask *, const char *key, aq_fault *) AQ_MUST;
/** Tools as OpenAI's chat has them, checked; and who chooses. */
int aq_ask_tools(aq_ask *, aq_fault *) AQ_MUST;
/** `list` (comma-separated, OpenAI-shaped) becomes the tools, if the choice agrees. named: the tool that it names is among them. */
int aq_ask_tools_end(aq_ask *, aq_jw *list, bool named, aq_fault *) AQ_MUST;
/** A tool_choice of type allowed_tools, whose "mode" and "tools" are v's. */
int aq_ask_allow(aq_ask *, const aq_json *v, aq_fault *) AQ_MUST;
bool aq_ask_allows(const aq_ask *, const char *tool);
/** The "name" of a tool or of its function: one that every family of models can write in a call. */
int aq_ask_tool_name(const aq_json *obj, const char **ret, aq_fault *) AQ_MUST;
/** A format of the answer that has no schema: text, or json_object. False: another type. */
bool aq_ask_plain(aq_ask *, const char *type);
/** The schema of the answer. */
int aq_ask_schema(aq_ask *, const aq_json *schema, aq_fault *) AQ_MUST;
/** Variables of the chat template: "chat_template_kwargs" of the body, and one more (name NULL: none) whose value is JSON. */
int aq_ask_vars(aq_ask *, const char *name, const char *value, aq_fault *) AQ_MUST;
/** As above with "reasoning_effort", when it is a known one (or NULL). */
int aq_ask_effort(aq_ask *, const char *effort, aq_fault *) AQ_MUST;
/** As aq_ask_alloc of a copy of the written text, ended by NUL. */
const char *aq_ask_keep(aq_ask *, aq_jw *, aq_fault *) AQ_MUST;
void *aq_ask_alloc(aq_ask *, size_t n, aq_fault *) AQ_MUST; /* zeroed; NULL with the fault set */
/** Look for an answer of here in the messages. */
void aq_ask_replay(aq_ask *, uint64_t model);
/** What the engine takes, for answer i of n. */
void aq_ask_in(const aq_ask *, uint32_t i, aq_req_in *ret);

/* ---- replay.c -------------------------------------------------------------------------------- */

#define AQ_API_REPLAY_CALLS 4096u
#define AQ_API_REPLAY_BYTES (8u << 20)
#define AQ_API_REPLAY_TURN_BYTES (32u << 20)
/** The latest answers with calls, as the model wrote them. Clients take JSON apart and write it anew, and leave thinking out; a history
 * that goes into the prompt in the model's own spelling, or as its very tokens, is one that is known. Thread-safe. */
aq_replay *aq_replay_new(void);
void aq_replay_free(aq_replay *);
typedef struct aq_call aq_call;
typedef struct aq_replay_in {
    uint64_t model;      /* number of the loaded one: another's tokens are no good */
    const aq_call *call; /* their arguments are one JSON object each */
    uint32_t n_call;
    const aq_bytes *text;           /* content beside them */
    const aq_toks *prompt, *answer; /* either may be empty: then no tokens are kept */
    const uint8_t *key;             /* [32] of the prompt */
} aq_replay_in;
/** Without memory nothing is kept. */
void aq_replay_add(aq_replay *, const aq_replay_in *);
/** The last of these messages (an array) that is an answer of here with all that was said and called: how it was sampled. The turn
 * borrows from what is returned, which the caller gives back; NULL: there is none. */
aq_replay_turn *aq_replay_turn_find(aq_replay *, uint64_t model, const char *messages,
                                    aq_turn *ret);
void aq_replay_turn_put(aq_replay_turn *);
/** A copy for the caller to free() of what is kept under this id, when it is the same JSON as args, whatever the order of keys and
 * the spelling; else NULL. */
char *aq_replay_find(aq_replay *, const char *id, const aq_json *args, size_t *ret_n);

/* ---- build.c --------------------------------------------------------------------------------- */

/** Messages being written from another dialect's: system texts at the beginning become one, and what an assistant said, thought
 * and called in a row becomes one message. */
typedef struct aq_mb {
    aq_jw w;                  /* messages, comma-separated */
    aq_jw lead;               /* parts of the leading system message */
    aq_jw text, think, calls; /* of an assistant's message that is open */
    aq_replay *replay;        /* or NULL */
    bool open;
} aq_mb;
void aq_mb_system(aq_mb *, const char *text, size_t n);
/** parts: comma-separated {"type":"text",…}. */
void aq_mb_user(aq_mb *, const aq_jw *parts);
void aq_mb_tool(aq_mb *, const char *call_id, const aq_jw *parts);
void aq_mb_text(aq_mb *, const char *text, size_t n); /* of the assistant */
void aq_mb_think(aq_mb *, const char *text, size_t n);
void aq_mb_call(aq_mb *, const char *id, const char *name, const char *args, size_t n_args);
/** {"id":…,"type":"function","function":{"name":…,"arguments":…}}, the arguments as they were sampled where that is known. */
void aq_put_call(aq_jw *, aq_replay *, const char *id, const char *name, const char *args,
                 size_t n_args);
/** Into a->messages; frees what the builder holds. */
int aq_mb_end(aq_mb *, aq_ask *, aq_fault *) AQ_MUST;
void aq_mb_clear(aq_mb *);
static inline void aq_mb_clear_p(aq_mb *b)
{
    aq_mb_clear(b);
}
void aq_put_part(aq_jw *parts, const char *text, size_t n); /* one more {"type":"text",…} */
/** One more tool; schema NULL = any object. */
void aq_put_tool(aq_jw *tools, const char *name, const char *description, const aq_json *schema);

/* ---- dialects -------------------------------------------------------------------------------- */

typedef struct aq_job aq_job;
struct aq_call {
    char id[48];
    aq_bytes name, args;
};
/** One answer of a job. */
typedef struct aq_choice {
    aq_job *job;
    aq_req *req;
    atomic_bool ready; /* events may be waiting */
    bool done;
    int32_t reason;         /* AQ_DONE_* */
    const char *stopped_by; /* the stop text that ended it, or NULL */
    aq_usage usage;
    uint32_t n_reasoning_tok;
    aq_bytes text, reasoning; /* kept when the answer is not streamed, or the dialect wants it */
    aq_jw logprobs;           /* comma-separated entries */
    uint32_t n_logprob;
    aq_call *call; /* [n_call] */
    uint32_t n_call;
    aq_toks tok; /* what was sampled, where there are tools */
} aq_choice;

typedef struct aq_dialect {
    const char *path;
    bool anthropic;
    bool failed_in_stream; /* an overflow of a streamed request is told in the stream */
    const char *keepalive; /* bytes; NULL: alive() */
    int (*parse)(aq_ask *, const char *body, size_t n, aq_fault *);
    void (*begin)(aq_job *, aq_jw *); /* a stream: before the first event */
    void (*event)(aq_job *, aq_choice *, const aq_event *,
                  aq_jw *); /* TEXT, REASONING, CALL_*; streamed */
    void (*choice_end)(aq_job *, aq_choice *, aq_jw *);
    void (*end)(aq_job *, aq_jw *);
    void (*fail)(aq_job *, const aq_fault *, aq_jw *); /* in a stream */
    void (*alive)(aq_job *, aq_jw *);
    void (*whole)(aq_job *, aq_jw *); /* an answer that is not streamed */
} aq_dialect;
/** What a model calls a tool of a namespace: two of them may have a tool of one name. The caller g_free()s it; space NULL: the name. */
char *aq_tool_in(const char *space, const char *name);
int aq_chat_parse(aq_ask *, const char *body, size_t n, aq_fault *) AQ_MUST;
int aq_responses_parse(aq_ask *, const char *body, size_t n, aq_fault *) AQ_MUST;
int aq_anthropic_parse(aq_ask *, const char *body, size_t n, aq_fault *) AQ_MUST;
extern const aq_dialect aq_dialect_chat, aq_dialect_complete, aq_dialect_responses,
    aq_dialect_messages;

typedef struct aq_model_ref aq_model_ref;
typedef struct aq_xchg aq_xchg;
/** Something for a worker's thread: run() does it there and sees to what comes after. */
typedef struct aq_work {
    void (*run)(struct aq_work *);
} aq_work;
struct aq_job {
    aq_work work;
    aq_api *api;
    const aq_dialect *dialect;
    aq_ask ask;
    aq_model_ref *model;
    char id[40]; /* of the answer, without a prefix */
    int64_t created_s;
    const char *name; /* the model as the answer tells it */
    uint32_t n;       /* choices */
    aq_choice *choice;
    uint32_t n_done;
    aq_jw out;
    struct { /* of dialects whose stream has items that open and close */
        uint32_t seq, n_item, call;
        uint32_t kind;            /* AQ_EV_* of the open one, 0 = none */
        size_t text_at, think_at; /* where it begins in the choice's text */
        aq_jw items;              /* closed ones, comma-separated */
    } st;
    /* job.c alone */
    uint64_t no;
    aq_xchg *x;
    GBytes *body;
    aq_fault fault;
    int rc;
    bool streaming, at_work; /* at_work: a worker has it */
    atomic_bool gone, stopped;
    int64_t start_us, sent_us;
    atomic_llong first_us; /* when the first text or call came; 0 = none yet */
    char who[96], path[48];
};

/** Sums over the choices: the prompt counts once. */
void aq_job_usage(const aq_job *, aq_usage *ret, uint32_t *ret_reasoning);
void aq_put_timings(aq_jw *, const aq_usage *); /* the object, in llama-server's names */
/** {"token":…,"logprob":…,"bytes":[…],"top_logprobs":[…]} */
void aq_put_logprob(aq_jw *, const aq_model *, const aq_event *, uint32_t n_top);
const aq_model *aq_job_model(const aq_job *);
/** Parts of /apply-template and /v1/messages/count_tokens. */
int aq_chat_messages(aq_ask *, aq_fault *) AQ_MUST;
int aq_anthropic_prompt(aq_ask *, aq_fault *) AQ_MUST;

/* ---- guard.c --------------------------------------------------------------------------------- */

typedef struct aq_guard {
    uint8_t key[AQ_API_KEYS_MAX][32]; /* SHA-256 */
    uint32_t n_key;
    char *host[AQ_API_NAMES_MAX];
    uint32_t n_host;
    char *origin[AQ_API_NAMES_MAX];
    uint32_t n_origin;
} aq_guard;
int aq_guard_keys(aq_guard *, const char *const *key, uint32_t n, aq_err *) AQ_MUST;
int aq_guard_names(aq_guard *, const aq_api_cfg *, aq_err *) AQ_MUST;
void aq_guard_clear(aq_guard *);
/** authorization and x_api_key: header values or NULL. True when no key is asked for. */
bool aq_guard_key(const aq_guard *, const char *authorization, const char *x_api_key);
/** host: "name", "name:port", "[::1]:port"; local: this side's address of the connection, without brackets, or NULL. */
bool aq_guard_host(const aq_guard *, const char *host, const char *local);
bool aq_guard_origin(const aq_guard *, const char *origin);

/* ---- listen.c -------------------------------------------------------------------------------- */

typedef struct aq_conn aq_conn;
struct aq_conn {
    aq_api *api;
    aq_conn *prev, *next;
    GSocket *socket;
    int fd;
    enum { AQ_CONN_IDLE, AQ_CONN_READ, AQ_CONN_BUSY } state;
    bool used; /* had a request before */
    int64_t since_us;
    uint64_t body_bytes;
    char peer[64], local[64];
    aq_xchg *x; /* under way, or NULL */
};
int aq_listen_open(aq_api *, const aq_api_cfg *, aq_err *) AQ_MUST;
void aq_listen_start(aq_api *); /* server's thread */
void aq_listen_stop(aq_api *);
void aq_conn_state(aq_conn *, int state);
void aq_conn_tick(aq_api *); /* close those whose time is up */
static inline int64_t api_us(uint32_t ms)
{
    return (int64_t)ms * 1000;
}
aq_conn *aq_conn_of(SoupServerMessage *);
void aq_conn_cut(aq_conn *); /* both directions; libsoup then lets go */

/* ---- exchange.c ------------------------------------------------------------------------------ */

struct aq_xchg {
    aq_api *api;
    aq_conn *conn;
    SoupServerMessage *msg;
    GSource *hup;
    gulong sig_finished, sig_wrote, sig_chunk, sig_body;
    bool paused, streaming, complete;
    uint64_t queued, written; /* body bytes */
    int64_t moved_us;         /* when the client last took something */
    uint64_t body_bytes;
    void (*gone)(void *user);  /* the client left, or all is written; x is freed after it */
    void (*moved)(void *user); /* the client took something */
    void *user;
    int64_t start_us;
};
aq_xchg *aq_xchg_new(aq_api *, aq_conn *, SoupServerMessage *);
void aq_xchg_watch(aq_xchg *); /* from here on a hang-up is seen */
void aq_xchg_reply(aq_xchg *, int http, const char *type, const void *body, size_t n);
void aq_xchg_fault(aq_xchg *, const aq_fault *, bool anthropic);
void aq_xchg_stream(aq_xchg *);          /* 200 and headers of an event stream */
void aq_xchg_put(aq_xchg *, aq_bytes *); /* takes the bytes, leaves it empty */
void aq_xchg_end(aq_xchg *);
/** Answer before the body is read; one that is too large to be read away ends the connection. */
void aq_xchg_refuse(aq_xchg *, const aq_fault *, bool anthropic);
uint64_t aq_xchg_unsent(const aq_xchg *);

/* ---- server.c, job.c ------------------------------------------------------------------------- */

struct aq_model_ref {
    atomic_uint ref;
    uint64_t no; /* this loading of it */
    aq_api_model m;
    char *id;
    aq_engine_info info;
};
aq_model_ref *aq_model_get(aq_api *); /* a reference, or NULL: none is loaded */
void aq_model_put(aq_model_ref *);

typedef struct aq_api_stats {
    uint64_t n_request, n_failed, n_malformed_call, prompt_tok, cached_tok, gen_tok;
    uint64_t draft_tok, draft_ok_tok;
    int64_t prompt_us, gen_us;
} aq_api_stats;

#define AQ_API_LISTEN_MAX 4u
struct aq_api {
    char *app;
    aq_api_cfg cfg; /* numbers only; pointers are not kept */
    uint16_t port;
    int listen_fd[AQ_API_LISTEN_MAX];
    uint32_t n_listen;
    GThread *thread;
    GMainContext *context;
    GThreadPool *workers;
    pthread_mutex_t mu; /* guard, model, list of jobs, log */
    aq_replay *replay;
    aq_guard guard;
    aq_model_ref *model;
    aq_job **job; /* [n_job] under way, oldest first */
    uint32_t n_job, cap_job;
    aq_api_log log[AQ_API_LOG_MAX];
    uint64_t n_log;
    uint64_t job_no, model_no;
    /* server's thread */
    SoupServer *soup;
    GTlsCertificate *cert; /* NULL: no TLS */
    GSource *listen_src[AQ_API_LISTEN_MAX], *listen_again, *tick, *ready;
    aq_conn *conns;
    uint32_t n_conn, n_linger, n_page; /* n_page: bodies that workers read for pages.c */
    aq_api_stats stats;
    uint64_t held_bytes; /* of bodies that came and are not answered yet */
    bool stopping;
};
/** The first request of an ask: its exchange is watched, the rest is the job's. */
void aq_job_start(aq_api *, aq_xchg *, const aq_dialect *, const char *path, const char *who);
void aq_job_ready(aq_api *); /* take events of all jobs that have some */
void aq_job_tick(aq_api *);
void aq_job_stop_all(aq_api *);
void aq_log_add(aq_api *, const aq_job *, int http, const aq_usage *);
/** Endpoints that answer at once. False: no such path. */
bool aq_page_get(aq_xchg *, const char *path);
bool aq_page_post(aq_xchg *, const char *path);
/** What a path takes: 1 GET, 2 POST, 0 nothing. */
int aq_path_method(const char *path);
const aq_dialect *aq_dialect_of(const char *path);
bool aq_path_anthropic(const char *path); /* its errors are in Anthropic's form */
void aq_api_wake(aq_api *);               /* any thread: aq_job_ready() soon */

#endif
