/* SPDX-License-Identifier: Apache-2.0 */
/* One model over two PCs: who computes layers for another (worker), and the stage that stands for
 * them in the coordinator's engine (remote). docs/PROTOCOL.md sections 4, 10, 11, 12. */
#ifndef AQ_SPLIT_PRIV_H
#define AQ_SPLIT_PRIV_H

#include "aq/pool.h"
#include "link-priv.h"

/* ---- find.c: a model by its fingerprint ------------------------------------------------------ */

#define AQ_FIND_FILES_MAX 4096u /* files looked at in all folders */

/** Folders and what is known of the files in them. One thread at a time. */
typedef struct aq_finder aq_finder;
/** dir: folders (two levels are searched) or single files. prints: folder that keeps fingerprints
 * (prints.c), NULL = none. Both are copied. */
int aq_finder_new(const char *const *dir, uint32_t n, const char *prints, aq_finder **ret,
                  aq_err *) AQ_MUST;
void aq_finder_free(aq_finder *);
AQ_CLEANUP_FUNC(aq_finder *, aq_finder_free)
/** Open the model with this fingerprint. MISMATCH when no file has it. Fingerprints are remembered
 * by inode, size and time, so that a file is read once. */
int aq_finder_open(aq_finder *, aq_rt *, const uint8_t fp[32], aq_model **ret, aq_wsrc *ret_src,
                   aq_err *) AQ_MUST;

/* ---- prints.c: fingerprints kept across runs -------------------------------------------------- */

#define AQ_PRINTS_MAX 1024u /* models; the oldest is forgotten */
/** The fingerprint of an open model: as it is kept in folder dir (NULL: nowhere), else made by reading
 * the edges of every tensor, and kept. Errors as of aq_model_fingerprint. */
int aq_prints_get(const char *dir, const aq_model *, const aq_wsrc *, uint8_t ret[32],
                  aq_err *) AQ_MUST;

/* ---- backoff.c ------------------------------------------------------------------------------- */

/** After an error of its own a worker begins anew: 3 s later, then 6, 12 … 60 s, until something went
 * right. By aq_now_us; guarded by its owner. All zero: nothing went wrong. */
typedef struct aq_backoff {
    uint32_t n_row, n_all; /* errors in a row; ever */
    int64_t until_us;
    aq_err why; /* of the last one; kept */
} aq_backoff;
void aq_backoff_fail(aq_backoff *, const aq_err *why);
void aq_backoff_right(aq_backoff *);
int64_t aq_backoff_left_us(const aq_backoff *); /* 0 = now */
/** An error of the PC, its disk or its device, and not of what was asked. */
bool aq_backoff_is_fault(int rc);

/* ---- worker.c -------------------------------------------------------------------------------- */

typedef struct aq_worker aq_worker;
typedef struct aq_worker_cfg {
    aq_rt *rt;           /* borrowed */
    aq_trust *trust;     /* borrowed */
    const char *backend; /* NULL = the best */
    const char *const *dir;
    uint32_t n_dir;
    /* Benches and tests: makes the stage instead of aq_stage_local; it must have vt->work. NULL = no */
    int (*make)(void *user, const aq_model *, const aq_state_cfg *, uint32_t l0, uint32_t l1,
                aq_stage **ret, aq_err *);
    void *user;
} aq_worker_cfg;
/** Starts the thread that loads and computes. */
int aq_worker_new(const aq_worker_cfg *, aq_worker **ret, aq_err *) AQ_MUST;
/** After the listener that calls aq_worker_accept. */
void aq_worker_free(aq_worker *);
AQ_CLEANUP_FUNC(aq_worker *, aq_worker_free)
/** For the listener's aq_accept_fn: takes links for `step` and `status`. AUTH: the other PC may not
 * use layers here; BUSY: too many links. */
int aq_worker_accept(aq_worker *, aq_link *, aq_link_cb *ret_cb, aq_err *) AQ_MUST;
typedef struct aq_worker_count {
    uint64_t n_load, n_config, n_window, n_row, busy_us; /* n_load: times that weights were read */
    bool loaded, owned;
    uint32_t l0, l1;
    char who[AQ_NAME_MAX + 1]; /* the coordinator's name, "" = none */
    uint32_t n_fault;
    char fault[256]; /* the last one in words, "" = none yet */
} aq_worker_count;
void aq_worker_get_count(aq_worker *, aq_worker_count *ret);

/** Weights of layers [l0, l1) and their share of the state, in bytes. */
uint64_t aq_layers_need_bytes(const aq_model_info *, uint32_t l0, uint32_t l1,
                              const aq_state_cfg *);
/** NOMEM, with both numbers, when these layers and their state (and, with ends, embedding and head) do not fit into this PC's free
 * memory. */
int aq_layers_check_memory(const aq_model_info *, uint32_t l0, uint32_t l1, bool ends,
                           const aq_state_cfg *, aq_err *) AQ_MUST;

/* ---- cut.c ----------------------------------------------------------------------------------- */

/** Where to part a model: at half, or at the place next to it where both parts fit. here, there: bytes
 * that the two PCs have; this one also keeps the embedding and the head. pc: the other's name. Errors:
 * UNSUPPORTED (it can be parted nowhere), NOMEM with both numbers. */
int aq_cut_choose(const aq_model_info *, const aq_state_cfg *, uint64_t here_bytes,
                  uint64_t there_bytes, const char *pc, uint32_t *ret, aq_err *) AQ_MUST;

typedef struct aq_peer_mem {
    uint64_t bytes; /* free, or held by layers that it gives back */
    int64_t rtt_us; /* of the question */
    char name[AQ_NAME_MAX + 1];
    char works_for[AQ_NAME_MAX + 1]; /* "" = nobody */
} aq_peer_mem;
/** Ask a PC how much memory it has for layers, on a connection of its own. Blocks, some seconds at most;
 * cancel (may be NULL) of progress ends it. Errors as of a link: GONE, AUTH, TIMEOUT, CANCELLED, … */
int aq_peer_mem_ask(aq_net *, const struct sockaddr_storage *addr, uint32_t n_addr, const aq_id *to,
                    const aq_progress *, aq_peer_mem *ret, aq_err *) AQ_MUST;

/* ---- node.c ---------------------------------------------------------------------------------- */

/** A node that may let other PCs pair, while that is open (aq_net_set_open of its net; at first it is, when `open`): pair takes
 * their links, as an aq_accept_fn does. */
int aq_node_new_pairing(const aq_node_cfg *, bool open, aq_accept_fn pair, void *user,
                        aq_node **ret, aq_err *) AQ_MUST;
aq_net *aq_node_net(const aq_node *);

/* ---- seek.c, split.c: where the other PC is ---------------------------------------------------- */

/** All addresses that a member may have now: found ones first (mDNS is asked), then those where it answered. Blocks, some
 * seconds at most; cancel of progress ends it. AUTH: no member; GONE: none; CANCELLED. */
int aq_where(const aq_trust *, const aq_id *, const char *version, const aq_progress *,
             struct sockaddr_storage ret[AQ_ADDRS_MAX], uint32_t *ret_n, aq_err *) AQ_MUST;
/** From now on the other PC, a member, is looked for when it does not come back where it was. version: of the program. */
void aq_split_follow(aq_split *, const char *version);
/** ends_cb: at the beginning of aq_split_free, when nothing has ended yet; may wait. freed_cb: at its end. */
void aq_split_on_free(aq_split *, void (*ends_cb)(void *user), void (*freed_cb)(void *user),
                      void *user);
/** The fingerprint of its model. */
void aq_split_print(const aq_split *, uint8_t ret[32]);

/* ---- remote.c -------------------------------------------------------------------------------- */

typedef struct aq_remote_cfg {
    aq_net *net;
    const struct sockaddr_storage *addr;
    uint32_t n_addr;
    const aq_id *to; /* NULL: whoever answers */
    uint8_t model[32];
    uint32_t epoch; /* of CONFIG: higher than any before of this process */
    uint32_t l0, l1, row_f32, rows /* AQ_ROWS_* */;
    aq_state_cfg state;
    /* The PC is lost (not: closed from here); BUSY: another program of this PC has it now. Link's
     * thread; must not block. May be NULL. */
    void (*gone_cb)(void *user, aq_stage *, const aq_err *why);
    void *user;
} aq_remote_cfg;
/** Connect and ask for the layers; returns at once. vt->close ends it at any time. */
int aq_remote_dial(const aq_remote_cfg *, aq_stage **ret, aq_err *) AQ_MUST;
/** Until the layers are loaded there. progress (may be NULL): the other PC's bytes; its cancel ends
 * the wait. Errors: BUSY, MISMATCH, NOMEM, GONE, AUTH, …, each with the PC's name; then only close is
 * left. */
int aq_remote_wait(aq_stage *, aq_progress *, aq_err *) AQ_MUST;
typedef struct aq_remote_times {
    uint64_t n_window, n_row, worker_us, net_us; /* worker: by its own clock; net: the rest */
} aq_remote_times;
void aq_remote_get_times(aq_stage *, aq_remote_times *ret);
void aq_remote_name(aq_stage *, char ret[AQ_NAME_MAX + 1]);
void aq_remote_addr(aq_stage *, char ret[AQ_ADDR_MAX + 1]);
void aq_remote_get_count(aq_stage *, aq_link_count *ret);

#endif
