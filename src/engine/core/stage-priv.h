/* SPDX-License-Identifier: Apache-2.0 */
/* Local stages inside the engine: on a backend given by its table (tests bring their own). */
#ifndef AQ_STAGE_PRIV_H
#define AQ_STAGE_PRIV_H

#include "backend-priv.h"

/** As aq_stage_local, on this backend. rt and src are only handed to it. */
int aq_stage_local_on(const aq_backend *, aq_rt *, const aq_model *, const aq_wsrc *,
                      const aq_place *, const aq_state_cfg *, uint32_t l0, uint32_t l1,
                      aq_progress *, aq_stage **ret, aq_err *) AQ_MUST;

/** Operations at once, and state in and out (aq_backend.state_io), on a local stage that has no window under way: INVAL when it has
 * one or is not local, UNSUPPORTED when its backend cannot. */
int aq_stage_local_apply(aq_stage *, const aq_op *, uint32_t n, aq_err *) AQ_MUST;
int aq_stage_local_io(aq_stage *, bool load, uint32_t seq, uint32_t n_tok, const uint64_t *snap,
                      const uint32_t *snap_tok, uint32_t n_snap, aq_state_io_fn io, void *user,
                      aq_err *) AQ_MUST;
bool aq_stage_is_local(const aq_stage *);

#endif
