/* SPDX-License-Identifier: Apache-2.0 */
/* A backend: loads weights of a layer range into memory that it owns and lays out for itself, keeps their state, and runs windows
 * through them. Backends are `reference` (scalar f32, the oracle), `cpu`, and modules opened at run time (one exported
 * aq_backend_get(abi); `hash` guards the headers both sides were built with).
 * Threads: load from any one thread; everything else from the one thread that owns the stage. */
#ifndef AQ_BACKEND_PRIV_H
#define AQ_BACKEND_PRIV_H

#include "aq/engine.h"

#define AQ_BACKEND_ABI 2u

/** A piece of state to be written somewhere, or to be filled. */
typedef int (*aq_state_io_fn)(void *user, void *p, size_t n, aq_err *);

struct aq_blocks;
typedef struct aq_backend {
    uint32_t abi, size;
    char hash[33];
    const char *name;
    /** Weights of layers [l0, l1), and with AQ_PLACE_ENDS embedding, norm, head and draft layers; experts [e0, e1) only. progress in
     * bytes as stored (total set by the caller). IO, NOMEM, CANCELLED, UNSUPPORTED. */
    int (*load)(aq_rt *, const aq_model *, const aq_wsrc *, const aq_place *, uint32_t l0,
                uint32_t l1, aq_progress *, void **ret_w, aq_err *);
    /** KV and recurrent state for the layers of w (for its draft layers when it has the ends). */
    int (*state)(void *w, const aq_state_cfg *, void **ret_s, aq_err *);
    int (*apply)(void *s, const aq_op *, uint32_t n, aq_err *);
    /** The rows of win (its ops were applied before): win->x [n_rows][row_f32] through the layers; rows with BACK or LOGITS to
     * x_out [n_back][row_f32]. hosts NULL = own experts.
     * *stop != 0 is looked at once a layer: CANCELLED, and every seq is as it was before the window's rows, a recurrent one too. */
    int (*forward)(void *w, void *s, const aq_window *, const aq_expert_host *const *hosts,
                   uint32_t n_hosts, float *x_out, const atomic_uint *stop, aq_err *);
    /** What is kept of seq's first n_tok tokens, through io piece by piece. load: seq, which must be empty, becomes n_tok tokens long
     * and snapshots snap [n_snap] are made, of snap_tok tokens, before the pieces are filled; when that fails the seq is empty again. NULL = cannot. */
    int (*state_io)(void *s, bool load, uint32_t seq, uint32_t n_tok, const uint64_t *snap,
                    const uint32_t *snap_tok, uint32_t n_snap, aq_state_io_fn io, void *user,
                    aq_err *);
    /* ends */
    int (*embed)(void *w, const aq_row *, uint32_t n, float *x /* [n][row_f32] */, aq_err *);
    int (*head)(void *w, const float *x /* [n][row_f32] */, uint32_t n,
                float *logits /* [n][n_vocab] or NULL */,
                float *hidden /* [n][n_embd] after the final norm, or NULL */, aq_err *);
    /** win->x [n_rows][n_embd]: hidden rows (after the final norm) of the positions before the rows; logits of the rows with LOGITS. */
    int (*draft)(void *w, void *s, const aq_window *, float *logits, float *hidden,
                 const atomic_uint *stop, aq_err *);
    /** Entries of seq in the draft layers of s: positions 1 … n. NULL = it has no draft layers. */
    uint32_t (*draft_len)(const void *s, uint32_t seq);
    /** This w's experts as a host (borrows w). UNSUPPORTED when it has none. */
    int (*host)(void *w, aq_expert_host *ret, aq_err *);
    int (*sync)(void *w, aq_err *); /* results valid after this */
    void (*drop_state)(void *s);
    void (*drop)(void *w);
    uint64_t (*bytes)(const void *w, const void *s); /* held now; either may be NULL */
    const struct aq_blocks
        *blocks; /* its operations, for tests; NULL when it is not built on forward-priv.h */
} aq_backend;

extern const aq_backend aq_backend_reference;
extern const aq_backend aq_backend_cpu;
/** name NULL = "cpu". UNSUPPORTED lists what is there; "cuda" says why not. */
int aq_backend_find(const char *name, const aq_backend **ret, aq_err *) AQ_MUST;

#endif
