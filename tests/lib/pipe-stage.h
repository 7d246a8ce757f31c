/* SPDX-License-Identifier: Apache-2.0 */
/* A stage in a child process over a socketpair, nothing shared: the child is this program started
 * anew, which opens the model file itself. The smallest thing that shows what a worker on another
 * PC will be.
 *
 *   frame:  | kind (4) | bytes (4) | payload |       both ends are this machine: native byte order
 *   HELLO   child: l0 l1 n_page n_snap max_rows max_seq n_inflight (4 each), or ERROR: a text
 *   WINDOW  parent: id (8) epoch n_ops n_rows n_back (4 each) | op | row | x[n_rows][row_f32]
 *   CANCEL  parent: seq (4); the child's reader takes it at once, so it overtakes queued windows
 *   DONE    child: id (8) epoch n_back (4 each) rc (4) err (aq_err) | x[n_back][row_f32] */
#ifndef PIPE_STAGE_H
#define PIPE_STAGE_H

#include "aq/engine.h"

typedef struct pipe_cfg {
    const char *model, *backend;
    uint32_t l0, l1;
    aq_state_cfg state;
} pipe_cfg;

/** First thing in main(): runs the child and returns its exit status in *ret when this process is
 * one. */
bool pipe_stage_child(int argc, char **argv, int *ret);
/** Start a child. row_f32 of the model. NULL with the reason in err. */
aq_stage *pipe_stage(const pipe_cfg *, uint32_t row_f32, aq_err *err);
void pipe_stage_kill(aq_stage *);        /* SIGKILL, as a PC that loses power */
void pipe_stage_stop(aq_stage *, bool);  /* SIGSTOP and SIGCONT, as one that is slow */
uint32_t pipe_stage_waiting(aq_stage *); /* windows under way */
uint32_t pipe_stage_most(aq_stage *);    /* most ever */
int pipe_stage_pid(const aq_stage *);

#endif
