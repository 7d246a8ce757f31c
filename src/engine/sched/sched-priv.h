/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the scheduler.
 *
 *   request.c   aq_submit, rings, events, cancel, free: the side that other threads see
 *   engine.c    the step thread: commands and completions in, then a turn of all that follows
 *   admit.c     a queued request gets a seq and pages, or waits
 *   prefix.c    parked seqs, the longest known prefix, snapshots of recurrent state
 *   batch.c     who goes into the next window
 *   pipeline.c  windows on their way: embed, stage 0, 1, …, head
 *   gen.c       logits -> token -> text -> events
 *   draft.c     tokens guessed ahead by the model's draft layers
 *   park.c      parked chats on disk
 *   epoch.c     another set of stages; everything live is queued again with its token log
 *
 * A seq's tokens are numbered three ways: log.n known, n_sub of them sent in windows, n_done of
 * them through all stages. The next token is sampled when the last of the log has come through:
 * reading a prompt, decoding and replaying a lost stage are this one rule. With drafts n_sub runs
 * ahead of log.n while a window checks them; what was wrong is taken back (`over`).
 *
 * Threads. Everything in aq_engine and aq_sseq belongs to the step thread, but for what stands
 * under hub->mu. The hub outlives the engine: requests hold it. */
#ifndef AQ_SCHED_PRIV_H
#define AQ_SCHED_PRIV_H

#include <pthread.h>

#include "backend-priv.h"
#include "chat-priv.h"
#include "gram-priv.h"
#include "model-priv.h"
#include "sampler-priv.h"
#include "stage-priv.h"
#include "state-priv.h"
#include "text-priv.h"
#include "toolparse-priv.h"

#define AQ_STAGES_MAX 64u
#define AQ_QUEUE_MAX 1024u /* requests waiting */
#define AQ_PARALLEL_MAX 64u
#define AQ_RING_BYTES 65536u
#define AQ_SNAP_EVERY_TOK 1024u
#define AQ_RETRY_MAX 3u /* times a chat is taken back to a known state before it fails */
#define AQ_TAKE_TAIL_TOK \
    64u /* a parked chat is taken over rather than copied when less than this would be lost */

enum {
    AQ_SEQ_FREE,
    AQ_SEQ_LIVE,
    AQ_SEQ_DRAIN, /* its request ended, windows are still under way */
    AQ_SEQ_PARKED
};
enum { AQ_REQ_QUEUED = 1, AQ_REQ_RUN, AQ_REQ_END };

typedef struct aq_wnd aq_wnd;
typedef struct aq_park aq_park;
typedef struct aq_hub aq_hub;
typedef struct aq_snap {
    uint32_t seq, n_tok; /* AQ_SEQ_NONE = free */
    uint64_t used;
} aq_snap;

/* A set of stages with the tables that the engine needs for it: handed in by aq_engine_set_stages,
 * handed back with the old ones. */
typedef struct aq_swap_set {
    aq_stage *stage[AQ_STAGES_MAX];
    uint32_t n_stage, n_page, n_snap, max_rows, max_seq; /* the smallest stage's */
    uint32_t depth;                                      /* windows that keep all stages at work */
    uint32_t *page_ref;                                  /* [n_page] */
    aq_snap *snap;                                       /* [n_snap] id = index */
    bool taken;
} aq_swap_set;

/* What requests and the engine share. */
struct aq_hub {
    atomic_uint ref;
    pthread_mutex_t mu;  /* taken after nothing else; before a stage's own locks */
    pthread_cond_t work; /* the step thread waits */
    pthread_cond_t swap; /* aq_engine_set_stages waits */
    atomic_bool hurry;   /* what own layers have under way is wanted by nobody: take() first */
    /* under mu */
    bool kick, stop, dead;
    aq_req *new_first, *new_last;
    uint32_t n_waiting;
    aq_wnd *done_first, *done_last;
    aq_tok_order *order; /* made with the first answer that is held to a form; then for good */
    aq_stage *stage[AQ_STAGES_MAX]; /* written, and read without the lock, by the step thread */
    uint32_t n_stage, epoch;
    /* under way at each stage, oldest first */
    aq_wnd *out_first[AQ_STAGES_MAX], *out_last[AQ_STAGES_MAX];
    uint32_t n_out[AQ_STAGES_MAX];
    aq_swap_set *next; /* waits to be taken by the step thread */
    uint32_t row_f32;
};

struct aq_req {
    atomic_uint ref; /* reader and step thread */
    aq_hub *hub;
    aq_ring *ring;
    pthread_mutex_t wake_mu; /* held while wake runs, so that none comes after aq_req_free */
    void (*wake)(void *);
    void *user;
    atomic_uint cancel, gone; /* gone: the reader left */
    atomic_uint stuck;        /* the ring is full */
    atomic_uint orphan;       /* the engine left: the reader takes what is in out */
    atomic_uint st_prompt, st_read, st_gen, st_queued;
    /* under hub->mu */
    aq_req *next;
    uint32_t seq;   /* AQ_SEQ_NONE when it has none */
    bool abortable; /* windows under way with this seq hold of others only what is cheap to redo */
    /* step thread, after aq_submit */
    aq_req *q_prev, *q_next;
    uint8_t state;
    bool final_made, final_usage_out, final_out;
    uint32_t n_prompt, n_gen, max_tok, n_logprobs, n_retry;
    aq_toks log; /* prompt and what was sampled */
    aq_toks
        prompt; /* of a request with tools, which an answer's chat may go on from; never changed */
    uint8_t key[32];
    aq_sampler *sampler;
    bool ignore_eog;
    char *stop[AQ_STOP_MAX];
    uint32_t stop_n[AQ_STOP_MAX], n_stop;
    uint32_t stopped_by; /* number of the stop string that was found, from 1; 0 = none */
    aq_detok detok;
    aq_toolparse *parse; /* NULL: the prompt came as tokens, all is content */
    aq_guide *guide;     /* NULL: any answer will do */
    bool one_call;
    uint64_t id_seed; /* of the calls' ids */
    aq_bytes held;    /* characters that may still become a stop string */
    aq_bytes out;     /* records that the ring had no room for: u64 length, then the record */
    size_t out_off;
    int32_t final_rc; /* AQ_DONE_* or -AQ_E_* */
    aq_err final_err;
    uint64_t final_buf[72]; /* its record */
    float draft_rate;       /* running share of guesses that were right */
    uint32_t draft_pause;   /* tokens until guessing goes on */
    aq_usage usage;
    int64_t t_submit_us, t_run_us, t_first_us, t_last_us;
};

typedef struct aq_sseq {
    uint8_t state;
    bool lost;   /* some stage did not take its rows: to be taken back before it goes on */
    bool bad;    /* a stage failed on it: nothing of it can be relied on */
    bool secret; /* not to be written to the folder for parked chats */
    aq_req *req; /* LIVE */
    aq_toks log; /* DRAIN, PARKED; a live seq's is its request's */
    uint32_t n_sub, n_done, n_wnd;
    bool over; /* stages hold rejected rows behind n_done: KEEP comes before anything else */
    uint32_t n_spec,
        spec_at; /* guesses for the tokens behind the log, when it has spec_at tokens */
    int32_t spec[AQ_DRAFT_MAX];
    uint32_t n_last;        /* rows of its last window */
    uint32_t n_snapped;     /* tokens at the last snapshot */
    uint32_t *page, n_page; /* the engine's own count of pages: index into page_ref */
    uint64_t used;          /* turn of last use */
} aq_sseq;

typedef struct aq_part {
    uint32_t seq, n_rows;
    uint32_t n_draft; /* the last of them: guesses to be checked */
    bool logits;
} aq_part;

struct aq_wnd {
    uint64_t id;
    uint32_t stage; /* where it is or goes next */
    uint32_t n_ops, n_rows, n_part, n_logits;
    uint32_t n_back; /* rows that the last stage returns: LOGITS or DRAFT */
    aq_op *op;
    aq_row *row;
    aq_part *part;
    float *x;     /* [n_rows][row_f32] */
    int rc;       /* first failure; its rows go no further, its operations do */
    bool ops_bad; /* a stage failed on it without rows */
    aq_err err;
    aq_wnd *next; /* in a list of the pipeline or the hub */
    int64_t start_us;
    int64_t worker_us, net_us; /* of stages on other PCs; under hub->mu */
    /* completion, under hub->mu */
    int done_rc;
    float *done_x;
    uint32_t done_back;
    aq_err done_err;
    aq_wnd *done_next;
};

struct aq_engine {
    aq_hub *hub;
    aq_rt *rt;
    const aq_model *model;
    const aq_backend *be;
    void *ends;                   /* weights of embedding, head and draft layers */
    void *draft;                  /* state of the draft layers, NULL without */
    uint32_t n_draft, draft_rows; /* guesses a window at most; rows that draft takes at once */
    float *hidden, *draft_x;      /* [hidden_rows][n_embd], [draft_rows][n_embd] */
    uint32_t hidden_rows;
    aq_row *draft_row; /* [draft_rows] */
    pthread_t thread;
    bool recurrent;
    uint32_t n_ctx, n_parallel, chunk_tok, kv_type, n_vocab, row_f32;
    char device[96];
    uint64_t weight_bytes, state_bytes;
    atomic_uint st_running, st_queued, st_parked, st_pages, st_epoch, st_paused, st_n_page;
    atomic_uint st_disk;
    atomic_bool forget; /* aq_engine_forget was called */
    _Atomic uint64_t st_disk_bytes;
    _Atomic uint64_t st_window, st_read, st_gen, st_here_us;
    /* step thread */
    uint64_t wnd_id, turn;
    aq_swap_set set;          /* stage: a copy of the hub's */
    uint32_t n_flight;        /* windows on their way */
    bool paused;              /* a stage is lost: nothing moves until aq_engine_set_stages */
    aq_req *q_first, *q_last; /* queued, oldest first */
    aq_req *r_first, *r_last; /* running and ended ones whose last events have no room yet */
    uint32_t n_run, n_queued;
    aq_sseq seq[AQ_SEQS_MAX];
    uint32_t pages_used;
    aq_op *op; /* go with the next window */
    uint32_t n_op, cap_op;
    aq_park *park;                                            /* NULL: no folder for parked chats */
    uint32_t cursor;                                          /* batch.c: whose turn it is */
    aq_wnd *to_first[AQ_STAGES_MAX], *to_last[AQ_STAGES_MAX]; /* wait to be submitted to a stage */
    float *logits;                                            /* [logits_rows][n_vocab] */
    uint32_t logits_rows;
};

/* ---- engine.c ---- */
/** As aq_engine_new, on this backend (tests bring their own). */
int aq_engine_new_on(const aq_backend *, aq_rt *, const aq_model *, const aq_wsrc *,
                     const aq_engine_cfg *, aq_engine **ret, aq_err *) AQ_MUST;
void aq_hub_unref(aq_hub *);
void aq_hub_kick(aq_hub *);
/** Operation for the next window. NOMEM or LIMIT: not added. */
int aq_engine_op(aq_engine *, uint16_t kind, uint32_t seq, uint32_t from, uint64_t arg) AQ_MUST;

/* ---- request.c: step thread ---- */
void aq_req_unref(aq_req *);
int aq_req_emit(aq_req *, uint32_t kind, uint32_t call, int32_t tok, const char *bytes,
                uint32_t n_bytes, const aq_logprob *top, uint32_t n_top) AQ_MUST;
/** Put USAGE and DONE or ERROR behind everything else; err only for rc < 0. Nothing is sent when
 * the request ended before. */
void aq_req_finish(aq_req *, int32_t rc, const aq_err *err);
/** Move what waits into the ring: true when nothing is left. */
bool aq_req_flush(aq_req *);

/* ---- gen.c ---- */
/** One sampled token: events, and the end of the answer when it is one (returns true). logits
 * [n_vocab] are consumed. */
bool aq_gen_token(aq_engine *, aq_req *, float *logits);

/* ---- admit.c ---- */
void aq_admit(aq_engine *);
/** The request ends: event, seq parked or freed (or drained first). err as aq_req_finish. */
void aq_req_end(aq_engine *, aq_req *, int32_t rc, const aq_err *err);
uint32_t aq_page_need(uint32_t n_tok);
void aq_pages_cut(aq_engine *, aq_sseq *,
                  uint32_t n_keep_tok); /* give back what n_keep_tok tokens do not need */

/** Pages for the n_tok tokens of a seq that has none; the caller has counted. NOMEM. */
int aq_pages_take(aq_engine *, aq_sseq *, uint32_t n_tok) AQ_MUST;
uint32_t aq_seq_unused(const aq_engine *); /* a FREE seq, or AQ_SEQ_NONE */

/* ---- park.c: step thread, or before it runs and after it ended ---- */
/** Nothing when cfg names no folder. IO, NOMEM. */
int aq_park_open(aq_engine *, const aq_engine_cfg *, const aq_wsrc *, aq_err *) AQ_MUST;
void aq_park_close(aq_engine *);
void aq_park_save(aq_engine *, uint32_t seq); /* PARKED; failures are logged */
void aq_park_save_all(aq_engine *);
/** Bring in a chat that t begins with, when it spares clearly more than the `known` tokens: true
 * when there is a new parked seq (others may have gone for it). */
bool aq_park_fetch(aq_engine *, const aq_toks *t, uint32_t known);
void aq_park_forget(aq_engine *); /* see aq_engine_forget */
void aq_park_stats(const aq_engine *, uint32_t *ret_n, uint64_t *ret_bytes);

/* ---- prefix.c ---- */
typedef struct aq_match {
    uint32_t seq, n_tok; /* AQ_SEQ_NONE, 0 = nothing known */
    uint32_t snap;       /* index to restore from, UINT32_MAX = none needed */
    bool wait; /* a chat that was just stopped knows much more: in a moment it can be used */
} aq_match;
aq_match aq_prefix_find(const aq_engine *, const aq_toks *);
/** DRAIN with no window left -> PARKED or FREE. */
void aq_seq_settle(aq_engine *, uint32_t seq);
void aq_seq_drop(aq_engine *, uint32_t seq); /* PARKED -> FREE, with the operation for the stages */
/** Give up the parked seq that was not used for longest, but not `keep`. False when there is none.
 */
bool aq_prefix_evict(aq_engine *, uint32_t keep);
/** Snapshot of seq at n_sub tokens with the next window, when the model needs it and there is room.
 */
void aq_snap_take(aq_engine *, uint32_t seq);
void aq_snap_drop_from(aq_engine *, uint32_t seq,
                       uint32_t n_tok); /* those of seq with more than n_tok tokens */
/** Take a live seq whose windows failed back to what all stages are known to have. */
int aq_seq_recover(aq_engine *, uint32_t seq) AQ_MUST;
const aq_toks *aq_seq_log(const aq_sseq *);

/* ---- batch.c ---- */
/** The next window, or NULL when nobody has anything to send. */
aq_wnd *aq_batch_next(aq_engine *);

/* ---- pipeline.c ---- */
bool aq_pipe_room(const aq_engine *); /* stage 0 takes another window now */
void aq_pipe_start(aq_engine *, aq_wnd *);
void aq_pipe_push(aq_engine *); /* submit what waits, as far as stages take it */
void aq_pipe_done(aq_engine *, aq_wnd *);
void aq_wnd_free(aq_wnd *);
void aq_pipe_done_cb(void *hub, aq_stage *, const aq_done *);
void aq_pipe_drop_all(aq_engine *); /* a new epoch: forget every window */

/* ---- draft.c: all step thread ---- */
/** Draft state for the stages in use; without memory for it there are no drafts (a warning). */
void aq_draft_reset(aq_engine *);
void aq_draft_clear(aq_engine *);
/** The operations of a window, on the draft layers' state. */
void aq_draft_ops(aq_engine *, const aq_op *, uint32_t n);
/** Feed what came back of a window to the draft layers, and guess for the chats that decode. */
void aq_draft_window(aq_engine *, const aq_wnd *);
/** Count what a check has shown. */
void aq_draft_count(aq_req *, uint32_t n, uint32_t n_ok);
/** logits of n rows in e->logits: room, NOMEM. */
int aq_logits_room(aq_engine *, uint32_t n) AQ_MUST;

/* ---- epoch.c ---- */
/** Check that the stages cover all layers in order, and make the tables for them. LIMIT, INVAL,
 * NOMEM. */
int aq_swap_set_make(const aq_engine *, aq_stage *const *, uint32_t n, aq_swap_set *ret,
                     aq_err *) AQ_MUST;
void aq_swap_set_clear(aq_swap_set *); /* tables only */
/** Step thread (or before it runs): the hub's next set becomes the one in use and holds the old one
 * after it. */
void aq_epoch_begin(aq_engine *);
/** A stage is lost: forget every window, keep the chats, wait for another set. */
void aq_epoch_pause(aq_engine *, uint32_t stage, const aq_err *why);

/** Tokens that are known but not sent yet. */
static inline uint32_t aq_req_todo(const aq_engine *e, const aq_req *r)
{
    uint32_t n_sub = e->seq[r->seq].n_sub;
    return r->log.n > n_sub ? r->log.n - n_sub : 0; /* less while drafts are checked */
}

#endif
