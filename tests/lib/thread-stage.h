/* SPDX-License-Identifier: Apache-2.0 */
/* A local stage behind a thread of its own: completes like a remote one, from another thread,
 * later. Tests hold it, count what is under way and make it fail. */
#ifndef THREAD_STAGE_H
#define THREAD_STAGE_H

#include "aq/engine.h"

/** Takes over inner (a local stage). NULL when out of memory. */
aq_stage *thread_stage(aq_stage *inner, uint32_t n_inflight);
void thread_stage_hold(aq_stage *, bool); /* windows are taken but not computed */
void thread_stage_hold_after(aq_stage *,
                             uint32_t n);  /* as hold, once n windows more were computed */
uint32_t thread_stage_held(aq_stage *);    /* windows that wait because it holds */
uint32_t thread_stage_waiting(aq_stage *); /* windows under way */
uint32_t thread_stage_most(aq_stage *);    /* most ever under way */
/** Everything under way and every later window ends with -code. */
void thread_stage_kill(aq_stage *, int code);
/** The next n windows with rows end with -code, their operations applied. */
void thread_stage_fail(aq_stage *, uint32_t n, int code);

#endif
