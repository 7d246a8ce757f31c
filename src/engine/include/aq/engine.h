/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: GGUF in, tokens out. All that pool, api, app and tools see of it. It has no sockets: `aq_stage` (a range of
 * layers executed somewhere) and `aq_expert_host` (experts executed somewhere) are interfaces that the pool implements too.
 *
 * Words. Request: one answer. Seq: one token timeline inside the engine. Window: the only thing that travels between stages:
 * state operations, then rows. Row: `row_f32` floats, a number that the architecture sets. Epoch: numbers each set of stages.
 *
 * Threads. One step thread per engine is the only user of its seqs; functions here may be called from any thread unless
 * they say otherwise. Rings carry events up (one writer: the step thread; one reader: whoever pops); progress is atomics.
 *
 * Errors. >= 0 or -AQ_E_*; `ret_*` and `*ret` are untouched on failure; `err` may be NULL. */
#ifndef AQ_ENGINE_H
#define AQ_ENGINE_H

#include "aq/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aq_rt
    aq_rt; /* process: CPU pool, modules, memory budget; shared by engines and stages */
typedef struct aq_model
    aq_model; /* immutable: hyperparameters, tensor table, cut_ok[], text; no weights */
typedef struct aq_engine aq_engine; /* scheduler, state, stages, one step thread */
typedef struct aq_req aq_req;       /* one answer */
typedef struct aq_stage aq_stage;

/** Limits on what comes from outside. */
#define AQ_LAYERS_MAX 1024u
#define AQ_ROWS_MAX 65536u /* rows of one window */
#define AQ_OPS_MAX 4096u   /* operations of one window */
#define AQ_SEQS_MAX 256u   /* seqs of one stage */
#define AQ_PAGE_TOK 256u   /* tokens of one KV page */
#define AQ_CTX_MAX (1u << 24)
#define AQ_CARD_MAX_BYTES (32u << 20)
#define AQ_PROMPT_MAX_BYTES (64u << 20)

/** Bytes or tokens done of a total; written by one thread with relaxed stores, read by any. Setting `cancel` stops the work
 * at its next step, which then fails with CANCELLED. */
typedef struct aq_progress {
    _Atomic uint64_t done, total;
    atomic_uint cancel;
} aq_progress;

/* ---- process ------------------------------------------------------------------------------------------------------------ */

typedef struct aq_rt_cfg {
    uint32_t
        n_threads; /* compute threads, the step thread among them; 0 = one per physical core this process may use,
                    * no more than its cgroups' quota of CPU time */
    const char *
        cpu_path; /* "c", "avx2", …; NULL = the best this CPU has. Programs pass the environment's AQ_CPU */
    int nice;         /* niceness of the pinned workers, 0 = as the process */
    bool pin;         /* pin workers to cores */
    uint32_t spin_us; /* how long idle workers look for work before they sleep; 0 = 200 */
} aq_rt_cfg;

/** Errors: UNSUPPORTED (unknown or unsupported cpu_path; the text lists those this CPU has), NOMEM, LIMIT. */
int aq_rt_new(const aq_rt_cfg *, aq_rt **ret, aq_err *) AQ_MUST;
void aq_rt_free(aq_rt *); /* after everything made with it */
AQ_CLEANUP_FUNC(aq_rt *, aq_rt_free)
uint32_t aq_rt_threads(const aq_rt *);
const char *aq_rt_cpu_path(const aq_rt *);
/** Paths this CPU can run, best last, NULL-terminated; static. */
const char *const *aq_cpu_paths(void);
/** Memory this process may still take: min of MemAvailable and what its cgroups (v1, v2) leave. */
uint64_t aq_mem_free_bytes(void);
/** What is known about a CUDA device: {"state":"not-built|no-driver|…"} and a sentence for people. Never fails. */
const char *aq_cuda_state(const char **ret_text);

/* ---- model ---------------------------------------------------------------------------------------------------------------- */

/** Weight bytes by position: file shards, a peer's chunks, a test's generator. `tensor` indexes the model's tensor table, `off`
 * counts from the tensor's first byte. It must outlive what was loaded from it: tables too large to load (n-gram embeddings) are read
 * row by row while tokens are computed. read: any thread, blocks; IO when the file was cut short or removed (never a SIGBUS). */
typedef struct aq_wsrc {
    void *self;
    int (*read)(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *);
    void (*close)(void *self); /* may be NULL */
    /* These bytes will be read soon; may be NULL. Any thread, returns at once. */
    void (*ahead)(void *self, uint32_t tensor, uint64_t off, size_t n);
} aq_wsrc;
void aq_wsrc_close(aq_wsrc *); /* NULL and empty are fine */

enum { AQ_OPEN_VOCAB = 1 }; /* text only: a file without tensors will do */
/** Read and check the header of a GGUF (or of all its shards, given any of them); no weights are read. ret_src may be NULL.
 * Errors: IO, FORMAT (damaged, truncated, not GGUF), UNSUPPORTED (architecture, quant type, GGUF version, byte order; named), LIMIT. */
int aq_model_open(aq_rt *, const char *path, uint32_t flags, aq_model **ret, aq_wsrc *ret_src,
                  aq_err *) AQ_MUST;
/** What a PC without the file needs: metadata, tensor table, tokenizer; ≤ AQ_CARD_MAX_BYTES, else LIMIT. */
int aq_model_card(const aq_model *, aq_bytes *ret, aq_err *) AQ_MUST;
int aq_model_from_card(aq_rt *, const void *card, size_t n, aq_model **ret, aq_err *) AQ_MUST;
/** What tells this model from every other: SHA-256 over its hyperparameters and, by name, each tensor's type, shape, first and last
 * 64 KiB. The same for a file and for its shards, whatever they are called. Reads up to 128 KiB a tensor. Errors: IO, NOMEM. */
int aq_model_fingerprint(const aq_model *, const aq_wsrc *, uint8_t ret[32], aq_err *) AQ_MUST;
/** What tells whether the files of a model are still those that they were: SHA-256 over device, inode, size and time of writing of each,
 * as they were opened. ret_written_s: when the youngest was written to. Reads nothing. Errors: INVAL (made from a card), NOMEM. */
int aq_model_stamp(const aq_model *, uint8_t ret[32], int64_t *ret_written_s, aq_err *) AQ_MUST;
void aq_model_free(aq_model *);
AQ_CLEANUP_FUNC(aq_model *, aq_model_free)

typedef struct aq_type_use {
    const char *name; /* "Q4_K" */
    uint32_t n_tensor;
    uint64_t bytes;
} aq_type_use;
typedef struct aq_model_info {
    const char *arch, *name; /* general.architecture, general.name or "" */
    uint32_t n_layer;        /* without draft layers */
    uint32_t n_draft;        /* draft (MTP) layers behind them */
    uint32_t n_embd, row_f32, n_vocab, n_ctx_train, n_head, n_head_kv, n_expert, n_expert_used;
    bool recurrent;               /* some layer keeps state that cannot be cut at any token */
    uint64_t n_param, file_bytes; /* parameters; bytes of all shards */
    const uint8_t *
        cut_ok; /* [n_layer + 1] 1 = layers may be parted before this one; [0] and [n_layer] are 1 */
    const uint64_t *layer_bytes; /* [n_layer] weights of a layer as they are loaded */
    uint64_t
        ends_bytes; /* embedding, final norm, head, draft layers; not a table that is never loaded */
    uint64_t
        stage_bytes; /* what each set of layers needs beside its own: per-layer tables, rope factors */
    uint64_t kv_f16_bytes_tok; /* KV bytes per token over all layers, f16 */
    uint64_t kv_q8_bytes_tok;  /* the same, q8_0 */
    uint64_t recur_bytes_seq;  /* recurrent state per seq */
    uint32_t n_type;
    const aq_type_use *type;         /* [n_type], by bytes, largest first */
    const char *tok_model, *tok_pre; /* tokenizer.ggml.model, .pre */
    const char *tok_refused;         /* NULL = usable, else why not */
    const char *tmpl_src;            /* chat template or NULL */
    const char
        *tmpl_refused; /* NULL = usable (or absent: then a stated fallback is used), else why not */
    uint32_t n_shard;
} aq_model_info;
const aq_model_info *aq_model_get_info(const aq_model *); /* lives as long as the model */
/** KV bytes per token over all layers, for kv_type AQ_KV_*. */
uint64_t aq_model_kv_bytes_tok(const aq_model_info *, uint32_t kv_type);

/* ---- text ------------------------------------------------------------------------------------------------------------------- */

typedef struct aq_toks {
    int32_t *id;
    uint32_t n, cap;
} aq_toks;
void aq_toks_clear(aq_toks *);
AQ_MUST int aq_toks_put(aq_toks *, int32_t id);

/** Append the tokens of text (invalid UTF-8: one U+FFFD per bad byte). special: control tokens written in the text are taken as such.
 * No BOS or EOS is added. Errors: UNSUPPORTED (the model's tokenizer), LIMIT, NOMEM. */
int aq_tokenize(const aq_model *, const char *text, size_t n, bool special, aq_toks *ret,
                aq_err *) AQ_MUST;
/** Raw bytes of one token, borrowed from the model; NULL when the id is out of range. */
const char *aq_token_piece(const aq_model *, int32_t id, uint32_t *ret_n);
bool aq_token_is_eog(const aq_model *, int32_t id);

typedef struct aq_span {
    uint32_t start, end; /* bytes [start, end) */
} aq_span;
typedef struct aq_rendered {
    aq_bytes text;
    /* What came from messages, tools and documents, all of it: control tokens are not recognised there. */
    aq_span *user;
    /* Of these, for showing, by aq_render only: the strings that came through whole. White space that was taken off one is outside. Not
     * here is a string of which an end was cut off, or which is a word that the template knows and renders otherwise than others. */
    aq_span *whole;
    uint32_t n_user, n_whole;
} aq_rendered;
void aq_rendered_clear(aq_rendered *);
/** Render a chat template. m may be NULL when tmpl is given; tmpl NULL = the model's own (or the stated fallback). vars_json: one object
 * with all template variables. Errors: INVAL (raise_exception: its message), FORMAT (template does not parse; line), LIMIT. */
int aq_render(const aq_model *m, const char *tmpl, size_t n_tmpl, const char *vars_json,
              size_t n_vars, aq_rendered *ret, aq_err *) AQ_MUST;
/** The tokens the engine would read for it: control tokens from template text only. m needed. */
int aq_render_tokens(const aq_model *m, const char *tmpl, size_t n_tmpl, const char *vars_json,
                     size_t n_vars, aq_toks *ret, aq_err *) AQ_MUST;

/* ---- windows and stages ------------------------------------------------------------------------------------------------------- */

enum { AQ_OP_KEEP = 1, AQ_OP_FORK, AQ_OP_FREE, AQ_OP_SNAP, AQ_OP_RESTORE };
enum { AQ_ROW_BACK = 1, AQ_ROW_LOGITS = 2, AQ_ROW_DRAFT = 4 };

/** KEEP: the first arg tokens of seq stay, the rest is forgotten (arg 0 = empty; makes the seq if it is not there).
 * FORK: seq becomes the first arg tokens of `from` (sharing pages; seq must be empty or absent).
 * FREE: seq is forgotten with everything but its snapshots' ids in other seqs.
 * SNAP: store seq's recurrent state under id arg (a no-op but for the id in models without one).
 * RESTORE: seq's recurrent state becomes snapshot arg; its KV is cut to the snapshot's token count, which it must have.
 * In a recurrent model KEEP and FORK with n below the seq's length work only within the last window of ≤ 8 rows; elsewhere the
 * caller RESTOREs a snapshot after it (KEEP/FORK then leave the recurrent state undefined until RESTORE). A SNAP lives until the same
 * id is SNAPped again, or FREE names it: FREE with seq = AQ_SEQ_NONE drops snapshot arg. */
#define AQ_SEQ_NONE 0xffffffffu
typedef struct aq_op {
    uint16_t kind, zero;
    uint32_t seq, from;
    uint64_t arg;
} aq_op;
/** One token at its place. LOGITS: this row's hidden state is wanted and the head will run on it; BACK: the hidden state is wanted;
 * DRAFT: it feeds the draft layers. A stage returns the rows with BACK or LOGITS, in order. */
typedef struct aq_row {
    uint32_t seq, pos;
    int32_t tok;
    uint32_t flags;
} aq_row;
typedef struct aq_window {
    uint64_t id;
    uint32_t epoch, n_ops, n_rows, n_back; /* n_back: rows with BACK or LOGITS */
    const aq_op *op;                       /* [n_ops], applied in order before the rows */
    const aq_row *row; /* [n_rows] a seq's rows adjacent, pos ascending from the seq's length */
    const float *x;    /* [n_rows][row_f32] input of the stage's first layer */
} aq_window;
typedef struct aq_hop {
    uint32_t stage, self_us, net_us;
} aq_hop;
typedef struct aq_done {
    uint64_t id;
    uint32_t epoch, n_hop, n_back;
    int rc; /* 0, or -AQ_E_*: CANCELLED, GONE (stage lost), DEVICE, LIMIT, NOMEM … then x is NULL */
    const float *x;    /* [n_back][row_f32] */
    const aq_hop *hop; /* [n_hop] */
    aq_err err;
} aq_done;

typedef struct aq_stage_vt {
    /** Copies; never blocks; in order; BUSY if n_inflight are under way. */
    int (*submit)(aq_stage *, const aq_window *, aq_err *);
    /** Local: compute one queued window on the step thread (1), 0 = none. NULL: it works elsewhere. */
    int (*work)(aq_stage *, aq_err *);
    /** Any thread, under a lock of the engine: it neither waits nor completes a window from inside.
     * Windows under way that hold rows of this seq may end CANCELLED: their operations are applied
     * all the same, and every seq is as it was before their rows. */
    void (*cancel)(aq_stage *, uint32_t seq);
    /** Frees it; no completion comes after it returned. */
    void (*close)(aq_stage *);
} aq_stage_vt;
struct aq_stage {
    const aq_stage_vt *vt;
    void *self;
    uint32_t l0, l1; /* layers [l0, l1) */
    uint32_t n_page, n_snap, max_rows, n_inflight, max_seq;
    /* set by the engine that owns the stage; aq_stage_done goes there */
    void (*done_cb)(void *user, aq_stage *, const aq_done *);
    void *done_user;
};
/** Hand a completion to the engine: any thread, copies. */
void aq_stage_done(aq_stage *, const aq_done *);

enum { AQ_KV_F16 = 0, AQ_KV_F32 = 1, AQ_KV_Q8_0 = 2 };
typedef struct aq_state_cfg {
    uint32_t kv_type; /* AQ_KV_* */
    uint32_t n_page;  /* KV pages of AQ_PAGE_TOK tokens, shared by the seqs */
    uint32_t max_seq, n_snap, max_rows;
} aq_state_cfg;
enum {
    AQ_PLACE_ENDS = 1
}; /* embedding, final norm, head, draft layers (besides or instead of layers) */
typedef struct aq_place {
    const char *backend; /* "cpu", "reference", "cuda"; NULL = the best there is */
    uint32_t flags;
    uint32_t e0, e1; /* experts [e0, e1) are held here; 0, 0 = all */
} aq_place;
/** Load layers [l0, l1) and make their state. Blocks while loading; progress may be NULL, its total is
 * the caller's to set. A worker is this plus a connection. */
int aq_stage_local(aq_rt *, const aq_model *, const aq_wsrc *, const aq_place *,
                   const aq_state_cfg *, uint32_t l0, uint32_t l1, aq_progress *, aq_stage **ret,
                   aq_err *) AQ_MUST;
/** Forget every seq, snapshot and queued window of a local stage (no completion comes for them); weights stay. The thread that calls
 * work(). Errors: NOMEM (windows then fail with NOMEM too); INVAL: not a local stage. */
int aq_stage_local_reset(aq_stage *, aq_err *) AQ_MUST;
/** Whatever a local stage has under way ends CANCELLED at its next layer, queued windows too. Any thread. Others: nothing. */
void aq_stage_local_stop(aq_stage *);
/** Bytes of weights and of state that a local stage holds; 0 for others. */
void aq_stage_local_bytes(const aq_stage *, uint64_t *ret_weights, uint64_t *ret_state);

/* ---- experts ---------------------------------------------------------------------------------------------------------------------- */

typedef struct aq_expert_job {
    uint32_t layer, n_rows, k, parts;
    const float *x;        /* [n_rows][n_embd], normed */
    const int32_t *expert; /* [n_rows][k], -1 = not here */
    const float *w;        /* [n_rows][k] */
    float *
        y; /* parts: [n_rows][k][n_embd] weighted, unsummed, absent slots untouched; else [n_rows][n_embd], added in slot order */
} aq_expert_job;
typedef struct aq_swap {
    uint32_t layer, expert, in;
} aq_swap;
typedef struct aq_expert_host { /* VRAM, RAM, file, another PC */
    void *self;
    const char *name;
    const uint64_t *(*resident)(
        void *self, uint32_t layer); /* bit set of experts; changes only in turn(); NULL = none */
    int (*begin)(void *self, const aq_expert_job *, uint64_t *ret_ticket,
                 aq_err *); /* job lives until end */
    int (*end)(void *self, uint64_t ticket, int64_t deadline_us,
               aq_err *); /* GONE: run elsewhere */
    int (*turn)(void *self, const aq_swap *, uint32_t n,
                aq_err *);     /* between windows; may be NULL */
    void (*close)(void *self); /* may be NULL */
} aq_expert_host;
/** Experts of these layers held in this process (place->e0, e1). */
int aq_expert_host_local(aq_rt *, const aq_model *, const aq_wsrc *, const aq_place *, uint32_t l0,
                         uint32_t l1, aq_progress *, aq_expert_host *ret, aq_err *) AQ_MUST;
/** Route a local stage's experts to these hosts (borrowed) instead of its own; n 0 = its own again. Not while windows are under way. */
int aq_stage_local_hosts(aq_stage *, const aq_expert_host *const *, uint32_t n, aq_err *) AQ_MUST;

/* ---- engine and requests ------------------------------------------------------------------------------------------------------------ */

typedef struct aq_engine_cfg {
    aq_place place; /* where embedding, head and (without stages) all layers live */
    uint32_t kv_type;
    uint32_t n_ctx;         /* tokens of one chat at most; 0 = the model's, at most 8192 */
    uint32_t n_parallel;    /* chats computed together, 0 = 4; more queue */
    uint32_t n_page;        /* 0 = enough for n_parallel full chats, within measured free memory */
    uint32_t chunk_tok;     /* prompt tokens per window, 0 = 512 */
    aq_stage *const *stage; /* NULL = one local stage of all layers; else as aq_engine_set_stages */
    uint32_t n_stage;
    aq_progress *progress; /* bytes loaded; may be NULL */
    /* Tokens that the model's draft layers guess ahead, at most, and one window checks; 0 = off, up to AQ_DRAFT_MAX. Answers are the
     * same with and without, sampled ones too. It pays where a window of a few rows takes little longer than one of a single
     * row; a chat whose guesses are mostly wrong pauses them. */
    uint32_t n_draft;
    /* Folder (made if need be) and bytes for chats whose pages are needed, and for all when the engine ends: a later request that
     * begins like one is spared the reading. NULL or 0 = none. Files that are damaged or not of this model are passed over. Only
     * where all layers are in this process. */
    const char *park_dir;
    uint64_t park_bytes;
} aq_engine_cfg;
#define AQ_DRAFT_MAX 7u
/** Load and start. Blocks while loading: not for a thread that must answer. Errors: NOMEM (both numbers named), IO, CANCELLED,
 * UNSUPPORTED (drafts of a model without draft layers, too), LIMIT. */
int aq_engine_new(aq_rt *, const aq_model *, const aq_wsrc *, const aq_engine_cfg *,
                  aq_engine **ret, aq_err *) AQ_MUST;
/** Another set of stages, in layer order, covering all layers: a new epoch; every live seq's token log is replayed. The engine owns the
 * stages from here on and closes the old ones. A local stage that is in the old set too is kept and emptied: its weights are not loaded again. */
int aq_engine_set_stages(aq_engine *, aq_stage *const *, uint32_t n, aq_err *) AQ_MUST;
void aq_engine_free(
    aq_engine
        *); /* ends all requests with CANCELLED; requests may be freed before or after; no other
                   * call with this engine is under way */
AQ_CLEANUP_FUNC(aq_engine *, aq_engine_free)

/** The chats so far are kept in no folder: all files of parked chats go, other models' too, and what is in memory is not written until
 * its chat goes on. For when people delete a chat. Any thread; the engine's own one does it. */
void aq_engine_forget(aq_engine *);

typedef struct aq_engine_info {
    const char *backend, *device; /* "cpu", "CPU (avx2, 2 threads)": always shown to the user */
    uint32_t n_ctx, n_parallel, n_page, epoch, kv_type, n_draft;
    uint64_t weight_bytes, state_bytes;
} aq_engine_info;
void aq_engine_get_info(const aq_engine *, aq_engine_info *ret);
typedef struct aq_engine_stats {
    uint32_t n_running, n_queued, n_parked, pages_used;
    uint32_t
        paused; /* 1 = a stage is lost: chats keep what they have and wait for aq_engine_set_stages */
    uint64_t n_window, rows_read, rows_gen; /* since start */
    uint32_t n_disk; /* chats of this model in the folder for parked ones, and the folder's bytes */
    uint64_t disk_bytes;
    uint64_t here_us; /* since start: this PC's layers at work */
} aq_engine_stats;
void aq_engine_get_stats(const aq_engine *, aq_engine_stats *ret);

typedef struct aq_bias {
    int32_t tok;
    float bias;
} aq_bias;
typedef struct aq_sampling {
    float temp;           /* 0 = greedy */
    int32_t top_k;        /* 0 = off */
    float top_p, min_p;   /* 1 = off (0 counts as 1), 0 = off */
    float repeat_penalty; /* 1 = off (0 counts as 1) */
    float frequency_penalty, presence_penalty;
    uint32_t penalty_last_n; /* tokens looked back at, 0 = 64 */
    uint64_t seed;           /* 0 = drawn */
    const aq_bias *bias;
    uint32_t n_bias;
    const char *const *stop; /* strings that end the answer; not part of it */
    uint32_t n_stop;
    bool ignore_eog; /* go on after end-of-text tokens */
} aq_sampling;
#define AQ_STOP_MAX 16u
#define AQ_STOP_BYTES_MAX 256u
#define AQ_BIAS_MAX 1024u

enum {
    AQ_TOOLS_AUTO = 0, /* the model decides; the form of a call is enforced from its beginning on */
    AQ_TOOLS_NONE,     /* tools are told to the model, calls stay text */
    AQ_TOOLS_REQUIRED, /* the answer is one call */
    AQ_TOOLS_NAMED     /* the answer is a call of tool_name */
};
/** An answer with calls as it was read and written, for the prompts of the chat that goes on: what templates make of a message is not
 * what was sampled (thinking is left out, arguments are spelled anew, the same text is cut into other tokens). The prompt begins with
 * these tokens when the messages before `msg` are what the answer's prompt was made of, and the template can be cut behind it. */
typedef struct aq_turn {
    uint8_t key[32]; /* of the answer's request: aq_req_get_prompt */
    const int32_t *tok;
    uint32_t n_tok; /* its prompt and what was sampled, without the token that ended it */
    uint32_t msg;   /* the message of the answer in messages_json, from 0 */
} aq_turn;

typedef struct aq_req_in { /* copied by aq_submit */
    /** An OpenAI-shaped array, strict, order kept. Roles: system, developer (read as system), user, assistant, tool. content: a
     * text, or parts of type text (joined by newlines); for assistant also null. tool_calls: arguments as JSON text or object.
     * reasoning_content: earlier thinking, shown to the model where its template has a place for it. */
    const char *messages_json;
    const char
        *tools_json; /* OpenAI-shaped array [{"type":"function","function":{…}}]; NULL = none */
    const char
        *schema_json; /* JSON schema: the answer's content is one JSON value of it; any JSON object:
                              * {"type":"object"}. Not together with REQUIRED or NAMED */
    const char
        *vars_json; /* further variables of the chat template, one object: chat_template_kwargs */
    const aq_turn *turn;   /* NULL = none is known */
    const char *tool_name; /* AQ_TOOLS_NAMED */
    uint32_t tool_choice;  /* AQ_TOOLS_*; without tools only AUTO and NONE */
    bool one_call;         /* the answer ends after its first call (parallel_tool_calls: false) */
    const int32_t *tok;    /* instead of messages: the prompt as tokens; the answer is TEXT only */
    uint32_t n_tok;
    aq_sampling sampling;
    uint32_t n_logprobs, max_tok; /* max_tok 0 = to the end of the context */
} aq_req_in;

/** TEXT: content. REASONING: thinking, apart from it. CALL_START: a call begins: its name, call_id, number. CALL_ARGS: a piece of
 * its arguments; the pieces of one call joined are one JSON object, unless the answer ended within it (DONE is then not CALLS).
 * Nothing that was said is taken back, and however the tokens cut the text, the joined pieces are the same. */
enum {
    AQ_EV_TEXT = 1,
    AQ_EV_REASONING,
    AQ_EV_CALL_START,
    AQ_EV_CALL_ARGS,
    AQ_EV_USAGE,
    AQ_EV_DONE,
    AQ_EV_ERROR
};
enum {
    AQ_DONE_STOP = 1,
    AQ_DONE_LENGTH,
    AQ_DONE_CANCELLED,
    AQ_DONE_CALLS /* the answer ended with whole calls */
};
typedef struct aq_logprob {
    int32_t tok;
    float logprob;
} aq_logprob;
typedef struct aq_usage {
    uint32_t prompt_tok, cached_tok, gen_tok;
    int64_t queue_us, prompt_us, first_us,
        gen_us; /* waiting; reading the prompt; submit to first token; first to last token */
    /* of prompt_us and gen_us: stages on other PCs by their own clocks, and the way there. Windows
     * overlap while a prompt is read, so that these may add up to more than it took. */
    int64_t prompt_worker_us, prompt_net_us, gen_worker_us, gen_net_us;
    uint32_t draft_tok, draft_ok_tok; /* guessed ahead and checked; those of them that were right */
    uint32_t
        bad_calls; /* that the model wrote wrongly: their text was given on, or they ended unfinished */
} aq_usage;
typedef struct aq_event {
    uint32_t kind, n_bytes, n_top;
    uint32_t call; /* CALL_START, CALL_ARGS: number of the call in this answer, from 0; DONE: of the
                    * stop string that ended it, from 1, or 0 */
    int32_t tok;   /* TEXT, REASONING, CALL_*: the last token it holds, -1 if none */
    int32_t rc;    /* DONE: AQ_DONE_*; ERROR: -AQ_E_* */
    const char *
        bytes; /* whole UTF-8 characters, not NUL-terminated; valid until the next pop, as are the pointers below */
    const char
        *call_id; /* CALL_START: "call_" and 24 letters and digits, NUL-terminated; else NULL */
    const aq_logprob *top;
    const aq_usage *usage; /* USAGE: comes right before DONE */
    const aq_err *err;     /* ERROR: the last event of this request, like DONE */
} aq_event;
/** Queue a request. wake(user) is called from the step thread when the ring goes from empty to non-empty; it must not block.
 * Errors: INVAL (bad JSON, a message without role or content, sampling out of range), UNSUPPORTED (content other than text;
 * what of a
 * schema is not supported, by its place and name; under AUTO a tool's schema that is not supported only lets its calls go unchecked,
 * with a line in the log), LIMIT (a chat too long for the context: both numbers; a schema too large), NOMEM, BUSY (queue full),
 * CANCELLED (the engine is closing). */
int aq_submit(aq_engine *, const aq_req_in *, void (*wake)(void *), void *user, aq_req **ret,
              aq_err *) AQ_MUST;
int aq_req_pop(aq_req *,
               aq_event *ret); /* 1 or 0; one reader; taking from a full ring un-parks the chat */
/** The prompt that aq_submit would have the model read for these messages, tools and variables; nothing is computed. Either may be
 * NULL; the caller clears what it gets. The text is the template's, whatever `turn` holds. Errors as aq_submit's of the messages. Any
 * thread. */
int aq_chat_prompt(const aq_model *, const aq_req_in *, aq_bytes *ret_text, aq_toks *ret_toks,
                   aq_err *) AQ_MUST;
/** The prompt of a request of messages and tools (else no tokens) and the key of what it was made of. Both stay as they are. */
const aq_toks *aq_req_get_prompt(const aq_req *, uint8_t ret_key[32]);
typedef struct aq_req_state {
    uint32_t prompt_tok, read_tok, gen_tok,
        queued; /* queued: requests before this one, 0 = running */
} aq_req_state;
void aq_req_get_state(const aq_req *, aq_req_state *ret); /* any thread; atomics */
void aq_req_cancel(aq_req *); /* any thread; DONE with CANCELLED follows within a layer */
void aq_req_free(aq_req *);   /* cancels if needed; no wake comes after it returned */
AQ_CLEANUP_FUNC(aq_req *, aq_req_free)

/* ---- eval: a model driven by hand, without scheduler; for tools, benches and tests -------------------------------------------------- */

typedef struct aq_eval aq_eval;
/** All layers and ends of a model on one backend, one seq 0 of up to n_ctx tokens. One thread at a time. */
int aq_eval_new(aq_rt *, const aq_model *, const aq_wsrc *, const aq_place *, uint32_t kv_type,
                uint32_t n_ctx, uint32_t max_rows, aq_progress *, aq_eval **ret, aq_err *) AQ_MUST;
void aq_eval_free(aq_eval *);
AQ_CLEANUP_FUNC(aq_eval *, aq_eval_free)
/** Read n (≤ max_rows) tokens; logits of all rows [n][n_vocab], or with last_only of the last one [1][n_vocab]; ret_hidden [n][n_embd]
 * after the final norm. Either may be NULL. */
int aq_eval_rows(aq_eval *, const int32_t *tok, uint32_t n, bool last_only, float *ret_logits,
                 float *ret_hidden, aq_err *) AQ_MUST;
/** The draft head: tokens tok[i] at positions pos0 + i with the hidden rows of the positions before them; logits [n][n_vocab], and its
 * own hidden rows [n][n_embd], from which it may go on. Either may be NULL. */
int aq_eval_draft(aq_eval *, const int32_t *tok, const float *hidden, uint32_t n, uint32_t pos0,
                  float *ret_logits, float *ret_hidden, aq_err *) AQ_MUST;
int aq_eval_keep(aq_eval *, uint32_t n_tok, aq_err *) AQ_MUST;
uint64_t aq_eval_weight_bytes(const aq_eval *);

/** Check a dequant.bin (records of blocks with the floats they stand for): calls line() once per record with its name, type id and the
 * first differing value's index (or -1). 0 = all equal, -AQ_E_MISMATCH, -AQ_E_FORMAT. */
int aq_dequant_check(const void *data, size_t n,
                     void (*line)(void *user, const char *name, uint32_t type, int64_t bad,
                                  const char *why),
                     void *user, aq_err *) AQ_MUST;

#ifdef __cplusplus
}
#endif
#endif
