/* SPDX-License-Identifier: Apache-2.0 */
/* The memory behind a seqmap: KV pages of each attention layer and the recurrent store of each delta-net layer, for backends that
 * compute in host memory.
 *
 * Recurrent store. A slot holds, layer after layer, [conv_k - 1][C] rows of convolution history and [n_vh][d][d] state. Each seq owns
 * two slots that change places with every window: a window reads the one and writes the other, so the state before the window stays
 * without a copy, for cancel and for rewind. History: the inputs of the recurrence [AQ_REWIND_ROWS][C + 2 n_vh] of each layer.
 * A layer with n-gram embeddings has, behind that, [ng_back][row_f32] rows and [n-gram size - 1] tokens, history
 * [AQ_REWIND_ROWS][row_f32] and [AQ_REWIND_ROWS] tokens. */
#ifndef AQ_STORE_PRIV_H
#define AQ_STORE_PRIV_H

#include "forward-priv.h"

typedef struct aq_store {
    const aq_net *net;
    const aq_net_layer *layer; /* [n_layer] */
    uint32_t n_layer;
    aq_state_cfg cfg;
    aq_seqmap *map;
    aq_kv *kv; /* [n_layer], base NULL on recurrent layers */
    bool recurrent;
    size_t slot_f32, *slot_off; /* floats of a slot; where a layer lies in it */
    size_t hist_f32, *hist_off;
    float *slot, *hist; /* [2 max_seq + n_snap][slot_f32], [max_seq][hist_f32] */
    uint8_t *odd;       /* [max_seq] which of its two slots is live */
    float *tmp, *tmp_o; /* rewind's scratch */
    aq_run *run;        /* [max_rows] of the window under way */
    uint32_t n_run;
    uint64_t bytes; /* of KV, slots and history */
} aq_store;

int aq_store_new(const aq_net *, const aq_net_layer *, uint32_t n_layer, const aq_state_cfg *,
                 aq_store **ret, aq_err *) AQ_MUST;
void aq_store_free(aq_store *);
AQ_CLEANUP_FUNC(aq_store *, aq_store_free)
/** aq_seqmap_grow, the runs of the window, and the recurrent slots turned. */
int aq_store_begin(aq_store *, const aq_window *, aq_err *) AQ_MUST;
void aq_store_undo(aq_store *, const aq_window *);
/** All that is kept of a seq's first n_tok tokens, through io piece by piece: KV of the layers, then (recurrent) the live state and
 * those of n_snap snapshots. The same pieces in the same order for saving (io reads them) and for loading (io fills them). */
int aq_store_io(aq_store *, uint32_t seq, uint32_t n_tok, const uint64_t *snap, uint32_t n_snap,
                aq_state_io_fn io, void *user, aq_err *) AQ_MUST;
/** A layer's part of a seq's slot: live, or the one before its last window. */
float *aq_store_live(const aq_store *, uint32_t seq, uint32_t layer);
float *aq_store_before(const aq_store *, uint32_t seq, uint32_t layer);
/** History rows of a seq's last window: qkv [AQ_REWIND_ROWS][C], then decay and beta [AQ_REWIND_ROWS][n_vh]. */
float *aq_store_hist(const aq_store *, uint32_t seq, uint32_t layer);
/** The same of n-gram embeddings. */
float *aq_store_ngram(const aq_store *, uint32_t seq, uint32_t layer, bool live);
float *aq_store_ngram_hist(const aq_store *, uint32_t seq, uint32_t layer);

#endif
