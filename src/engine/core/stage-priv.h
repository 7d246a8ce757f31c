/* SPDX-License-Identifier: Apache-2.0 */
/* Local stages inside the engine: on a backend given by its table (tests bring their own), and
 * stopping one in the middle of a window. */
#ifndef AQ_STAGE_PRIV_H
#define AQ_STAGE_PRIV_H

#include "backend-priv.h"

/** As aq_stage_local, on this backend. rt and src are only handed to it. */
int aq_stage_local_on(const aq_backend *, aq_rt *, const aq_model *, const aq_wsrc *,
                      const aq_place *, const aq_state_cfg *, uint32_t l0, uint32_t l1,
                      aq_progress *, aq_stage **ret, aq_err *) AQ_MUST;
/** Any thread: whatever a local stage has under way ends CANCELLED at its next layer, queued
 * windows too. Others: nothing. */
void aq_stage_local_stop(aq_stage *);
/** Bytes of weights and state held by a local stage; 0 for others. */
void aq_stage_local_bytes(const aq_stage *, uint64_t *ret_weights, uint64_t *ret_state);

#endif
