/* SPDX-License-Identifier: Apache-2.0 */
/* Local stages inside the engine: on a backend given by its table (tests bring their own). */
#ifndef AQ_STAGE_PRIV_H
#define AQ_STAGE_PRIV_H

#include "backend-priv.h"

/** As aq_stage_local, on this backend. rt and src are only handed to it. */
int aq_stage_local_on(const aq_backend *, aq_rt *, const aq_model *, const aq_wsrc *,
                      const aq_place *, const aq_state_cfg *, uint32_t l0, uint32_t l1,
                      aq_progress *, aq_stage **ret, aq_err *) AQ_MUST;

#endif
