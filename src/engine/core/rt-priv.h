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
    char path[24];
};
/** As aq_mem_free_bytes, with the two files and the cgroup mount point given (tests). 0 when nothing
 * can be read. */
uint64_t aq_mem_free_from(const char *meminfo, const char *proc_cgroup, const char *cgroup_mount);
/** Before anything is loaded: do weights and the state of one chat fit into what is free? NOMEM names all three. */
int aq_mem_check(uint64_t weights_bytes, uint64_t state_bytes, uint64_t free_bytes,
                 aq_err *) AQ_MUST;
/** State of one chat of n_tok tokens, in whole pages. n_tok is at most AQ_CTX_MAX. */
uint64_t aq_mem_state_bytes(const aq_model_info *, uint32_t kv_type, uint64_t n_tok);

#endif
