/* SPDX-License-Identifier: Apache-2.0 */
/* A toy backend for tests of everything above the kernels: a row is a hash of all tokens up to it,
 * so that one token lost, doubled, misplaced or taken from another chat changes every token after
 * it. Exact and fast. Pages, snapshots and rewinding are the engine's own (state/seqmap.c) over the
 * toy's memory: even layers keep a value per position (like a KV cache), odd layers of a recurrent
 * model one value that cannot be cut. */
#ifndef TOY_BACKEND_H
#define TOY_BACKEND_H

#include "backend-priv.h"
#include "model-priv.h"

/** Floats of a row: 22 + 22 + 20 bits of the hash, and a forced token + 1 or 0. */
#define TOY_ROW 4u

extern const aq_backend toy_backend;

/** A model without text: tokens are numbers. Free with toy_model_free. */
aq_model *toy_model(uint32_t n_layer, uint32_t n_vocab, bool recurrent);
/** Vocabulary of this many tokens whose text is given (others: empty); kind AQ_TOK_*; makes texts,
 * stops and ends testable. */
typedef struct toy_word {
    int32_t id;
    const char *text;
    uint8_t kind;
} toy_word;
int toy_model_words(aq_model *, const toy_word *, uint32_t n, int32_t eos);
void toy_model_free(aq_model *);

/** What the model answers greedily to tok[0..n), computed without any engine: ret[n_gen]. */
void toy_answer(const aq_model *, const int32_t *tok, uint32_t n, uint32_t n_gen, int32_t *ret);
/** The logits after tok[0..n): ret[n_vocab]. */
void toy_logits(const aq_model *, const int32_t *tok, uint32_t n, float *ret);
/** The row that makes toy's head answer tok. */
void toy_force(float row[TOY_ROW], int32_t tok);

/** What a test can see and do of all toys of the process. gate: every layer waits until the gate
 * opens (0) or *stop is set; gate_from: so do those of the forward of this number and later (0 =
 * none). */
typedef struct toy_watch {
    atomic_uint gate, gate_from, at_gate; /* at_gate: forwards that wait there */
    atomic_uint n_forward, n_cancelled, rows;
    atomic_uint last_part, max_part; /* seqs of the last window with rows; most ever */
} toy_watch;
extern toy_watch toy;
void toy_reset(void);

#endif
