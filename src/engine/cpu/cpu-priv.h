/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's paths: one table of kernels per instruction set, chosen at run time. */
#ifndef AQ_CPU_PRIV_H
#define AQ_CPU_PRIV_H

#include "aq/engine.h"

/** Kernels of one instruction set. A path's bits may differ from another path's; within a path a row's bits depend on nothing else. */
typedef struct aq_isa {
    const char *name;
} aq_isa;
/** The table of a path, NULL when this build or this CPU does not have it. name NULL = the best. */
const aq_isa *aq_isa_find(const char *name);

#endif
