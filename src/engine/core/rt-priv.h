/* SPDX-License-Identifier: Apache-2.0 */
/* The process: what engines and stages of one process share. Immutable after aq_rt_new; any thread. */
#ifndef AQ_RT_PRIV_H
#define AQ_RT_PRIV_H

#include "aq/engine.h"
#include "cpu-priv.h"
#include "pool-priv.h"

struct aq_rt {
    aq_pool *pool;
    const aq_isa *isa;
    bool f32_acts; /* path "…-f32": inputs of products stay f32 and weights are dequantised exactly,
                      to prove the rest of a path */
    char path[16];
};
/** As aq_mem_free_bytes, with the two files and the cgroup mount point given (tests). 0 when nothing
 * can be read. */
uint64_t aq_mem_free_from(const char *meminfo, const char *proc_cgroup, const char *cgroup_mount);

#endif
