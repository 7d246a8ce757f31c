/* SPDX-License-Identifier: Apache-2.0 */
/* A stage that computes nothing and takes its time: rows come back as they went in, after
 * layers × (window_us + row_us × rows). It sleeps meanwhile, so that what is measured is how windows
 * are passed on and not how two cores are shared. */
#ifndef PACED_STAGE_H
#define PACED_STAGE_H

#include "aq/engine.h"

typedef struct pace {
    double window_us, row_us; /* of one layer */
} pace;
/** NULL when out of memory. */
aq_stage *paced_stage(const aq_model *, const aq_state_cfg *, uint32_t l0, uint32_t l1, pace);

#endif
