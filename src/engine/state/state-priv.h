/* SPDX-License-Identifier: Apache-2.0 */
/* State bookkeeping shared by the backends that compute in host memory: which page and slot holds a (seq, pos), and which slot of the
 * recurrent store belongs to a seq or a snapshot. It moves no data itself: the backend owns the memory and copies when told.
 *
 * A page is AQ_PAGE_TOK tokens of all layers of the stage. FORK shares pages by reference count; a seq that is about to write into a
 * page that another seq holds too gets its own copy first, so at most one seq writes into a page. Thread: the stage's. */
#ifndef AQ_STATE_PRIV_H
#define AQ_STATE_PRIV_H

#include "aq/engine.h"

#define AQ_REWIND_ROWS 8u /* rows of one seq in a window that a recurrent model can take back */

typedef struct aq_seqmap aq_seqmap;
typedef struct aq_seqmap_vt {
    void (*copy_page)(void *user, uint32_t dst, uint32_t src,
                      uint32_t n_tok); /* first n_tok tokens of a page, all layers */
    /* recurrent store of max_seq + n_snap slots: slot s < max_seq is the live state of seq s, the rest are snapshots */
    void (*copy_slot)(void *user, uint32_t dst, uint32_t src);
    void (*zero_slot)(void *user, uint32_t slot);
    /* live state of seq dst := the kept state of src before its last window, and the first n_rows rows of that window on top
     * (the kept state and rows of src stay, so that this may come again; dst == src is KEEP, else FORK) */
    void (*rewind)(void *user, uint32_t dst, uint32_t src, uint32_t n_rows);
} aq_seqmap_vt;
/** The last three functions are called for recurrent models only. Seqs are numbered 0 .. max_seq - 1. INVAL, NOMEM. */
int aq_seqmap_new(const aq_state_cfg *, bool recurrent, const aq_seqmap_vt *, void *user,
                  aq_seqmap **ret, aq_err *) AQ_MUST;
void aq_seqmap_free(aq_seqmap *);
AQ_CLEANUP_FUNC(aq_seqmap *, aq_seqmap_free)
/** Apply in order, up to the first bad op, of which nothing is done: INVAL names it; LIMIT: no room for another snapshot; NOMEM.
 * FREE of what is not there is no error. */
int aq_seqmap_apply(aq_seqmap *, const aq_op *, uint32_t n, aq_err *) AQ_MUST;
/** Check the rows of a window (seq known, pos = length ascending, adjacent, a recurrent state that is defined) and map pages for them:
 * LIMIT when out of pages, INVAL, NOMEM; nothing has changed then. On success the seqs have grown, and the state before is what rewind
 * goes back to where a seq has at most AQ_REWIND_ROWS rows; aq_seqmap_undo takes it back (cancelled window). */
int aq_seqmap_grow(aq_seqmap *, const aq_window *, aq_err *) AQ_MUST;
/** Only right after a grow with the same window. The backend has put back the recurrent states. */
void aq_seqmap_undo(aq_seqmap *, const aq_window *);
/** Page table of seq: page[pos / AQ_PAGE_TOK]; *ret_len = tokens. NULL when there is no such seq (or it has no page: length 0). */
const uint32_t *aq_seqmap_pages(const aq_seqmap *, uint32_t seq, uint32_t *ret_len);
bool aq_seqmap_has(const aq_seqmap *, uint32_t seq);
/** Tokens that snapshot `id` stands for: 1 and *ret, or 0 when there is no such snapshot. */
int aq_seqmap_snap(const aq_seqmap *, uint64_t id, uint32_t *ret);
/** seq (live and empty) gets n_tok tokens whose KV the caller fills in, as it does with their recurrent state: LIMIT, NOMEM, INVAL. */
int aq_seqmap_fill(aq_seqmap *, uint32_t seq, uint32_t n_tok, aq_err *) AQ_MUST;
/** Snapshot `id` becomes one of n_tok tokens (made, if need be) whose slot the caller fills in. LIMIT. */
int aq_seqmap_snap_set(aq_seqmap *, uint64_t id, uint32_t n_tok, aq_err *) AQ_MUST;
/** Slot of snapshot `id`; UINT32_MAX = there is none. */
uint32_t aq_seqmap_snap_slot(const aq_seqmap *, uint64_t id);
/** The live state of seq stands at its length. */
bool aq_seqmap_defined(const aq_seqmap *, uint32_t seq);
uint32_t aq_seqmap_pages_used(const aq_seqmap *);

#endif
