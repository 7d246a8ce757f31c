/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU pool: threads that stay, and one job at a time cut into chunks. Worker 0 is whoever calls
 * aq_pool_run (the step thread); workers 1 … n-1 belong to the pool. A chunk is claimed by one
 * compare-and-swap, so a worker that is late or asleep is never waited for: the job is over when
 * its chunks are. Which worker gets which chunk differs from run to run; a job must not care.
 * Between jobs workers look for work for AQ_POOL_SPIN_US (aq_pool_set_spin), then sleep. */
#ifndef AQ_POOL_PRIV_H
#define AQ_POOL_PRIV_H

#include "aq/base.h"

#define AQ_THREADS_MAX 512u
#define AQ_POOL_SPIN_US 200

typedef struct aq_pool aq_pool;
/** One chunk of a job. worker < aq_pool_threads() tells whose scratch memory may be used. */
typedef void (*aq_pool_fn)(void *ctx, uint32_t chunk, uint32_t worker);

/** n_threads with the caller's, 0 = one per physical core in this process' affinity mask, but no more
 * than its cgroups' quota of CPU time. pin:
 * worker i stays on the i-th of those CPUs (physical cores first). nice: niceness of the workers.
 * Errors: LIMIT, NOMEM. */
int aq_pool_new(uint32_t n_threads, bool pin, int nice, aq_pool **ret, aq_err *) AQ_MUST;
void aq_pool_free(aq_pool *); /* no job may be under way */
AQ_CLEANUP_FUNC(aq_pool *, aq_pool_free)
uint32_t aq_pool_threads(const aq_pool *);
/** Run fn for chunks 0 … n_chunks-1 and return when all are done; what they wrote is visible then.
 * Callers on several threads take turns; fn must not call it again. */
void aq_pool_run(aq_pool *, aq_pool_fn fn, void *ctx, uint32_t n_chunks);
/** How long workers, and a caller at the end of its job, look before they sleep. Any time. */
void aq_pool_set_spin(aq_pool *, uint32_t us);
/** Workers asleep at this moment; for tests. */
uint32_t aq_pool_asleep(const aq_pool *);

/* detect.c */
/** CPUs in the affinity mask of this process, the first thread of each physical core before all
 * second ones, and among the first ones big cores before small ones. *ret is malloc'd, *ret_n_cores counts the former. Falls back to every CPU as a core
 * where sysfs tells nothing. NOMEM, IO. */
int aq_cpu_list(uint32_t **ret, uint32_t *ret_n, uint32_t *ret_n_cores, aq_err *) AQ_MUST;
/** Whole CPUs that the cgroups of this process leave it (v2 cpu.max, v1 cpu.cfs_quota_us), at least 1;
 * UINT32_MAX = no quota. */
uint32_t aq_cpu_quota(void);
uint32_t aq_cpu_quota_from(const char *proc_cgroup, const char *mount); /* for tests */
/** Is cpu in a list as sysfs writes it, "0-7,16,18-19"? */
bool aq_cpu_in_list(const char *list, uint32_t cpu);

#endif
