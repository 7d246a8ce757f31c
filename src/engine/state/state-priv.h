/* SPDX-License-Identifier: Apache-2.0 */
/* State bookkeeping shared by the backends that compute in host memory: which page and slot holds a (seq, pos), and which slot of the
 * recurrent store belongs to a seq or a snapshot. It moves no data itself: the backend owns the memory and copies when told.
 *
 * A page is AQ_PAGE_TOK tokens of all layers of the stage. Full pages are shared by FORK (reference counts); a page that is not full is
 * copied by FORK, since both seqs will write into it. Thread: the stage's. */
#ifndef AQ_STATE_PRIV_H
#define AQ_STATE_PRIV_H

#include "aq/engine.h"

typedef struct aq_seqmap aq_seqmap;
typedef struct aq_seqmap_vt {
    void (*copy_page)(void *user, uint32_t dst, uint32_t src, uint32_t n_tok); /* first n_tok tokens of a page, all layers */
    /* recurrent store of max_seq + n_snap slots: slot s < max_seq is the live state of seq s, the rest are snapshots */
    void (*copy_slot)(void *user, uint32_t dst, uint32_t src);
    void (*zero_slot)(void *user, uint32_t slot);
    /* roll seq back to n tokens, which lies within its last window (≤ 8 rows): restore the kept pre-window state and re-run the rows */
    int (*rewind)(void *user, uint32_t seq, uint32_t n_tok, aq_err *);
} aq_seqmap_vt;
int aq_seqmap_new(const aq_state_cfg *, bool recurrent, const aq_seqmap_vt *, void *user, aq_seqmap **ret, aq_err *) AQ_MUST;
void aq_seqmap_free(aq_seqmap *);
/** All ops or none up to the first bad one: INVAL names it. LIMIT: out of pages (nothing half done for that op). */
int aq_seqmap_apply(aq_seqmap *, const aq_op *, uint32_t n, aq_err *) AQ_MUST;
/** Check the rows of a window (seq known, pos = length ascending, adjacent) and map pages for them: LIMIT when out of pages, INVAL.
 * On success the seqs have grown; aq_seqmap_undo takes it back (cancelled window). */
int aq_seqmap_grow(aq_seqmap *, const aq_window *, aq_err *) AQ_MUST;
void aq_seqmap_undo(aq_seqmap *, const aq_window *);
/** Page table of seq: page[pos / AQ_PAGE_TOK]; *ret_len = tokens. */
const uint32_t *aq_seqmap_pages(const aq_seqmap *, uint32_t seq, uint32_t *ret_len);
uint32_t aq_seqmap_pages_used(const aq_seqmap *);

#endif
