/* SPDX-License-Identifier: Apache-2.0 */
/* Make the N-th allocation of a function fail, for N = 1, 2, ... until it gets through without a
 * failure. Each failed run must return -AQ_E_NOMEM and leave as many allocations behind as there
 * were before.
 *
 * Include it once per program, after tap.h, and link with torture_args (tests/meson.build): they
 * wrap the allocator's functions for the objects linked into the program, not for shared
 * libraries. Allocations of any thread count. */
#ifndef TORTURE_H
#define TORTURE_H

#include "aq/base.h"
#include "tap.h"

#include <errno.h>
#include <pthread.h>

#define TORTURE_RUNS_MAX 20000
#define TORTURE_SLOTS (1u << 18) /* live allocations at most, power of two */

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
int __real_posix_memalign(void **, size_t, size_t);
void __real_free(void *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
int __wrap_posix_memalign(void **, size_t, size_t);
void __wrap_free(void *);

static pthread_mutex_t torture_lock = PTHREAD_MUTEX_INITIALIZER;
static bool torture_on;                   /* all under torture_lock */
static uint64_t torture_wait;             /* allocations until the one that fails; 0 = it is past */
static void *torture_live[TORTURE_SLOTS]; /* open addressing; NULL = free */
static size_t torture_n_live;
static bool torture_overflow;

static size_t torture_home(const void *p)
{
    return (size_t)((uintptr_t)p * 0x9E3779B97F4A7C15ull >> 40) % TORTURE_SLOTS;
}

/* True when this allocation is the one to fail. */
static bool torture_fails(void)
{
    pthread_mutex_lock(&torture_lock);
    bool fail = torture_on && torture_wait > 0 && --torture_wait == 0;
    pthread_mutex_unlock(&torture_lock);
    if (fail)
        errno = ENOMEM;
    return fail;
}

static void *torture_add(void *p)
{
    pthread_mutex_lock(&torture_lock);
    if (p && torture_on) {
        if (torture_n_live >= TORTURE_SLOTS / 2) {
            torture_overflow = true;
        } else {
            size_t i = torture_home(p);
            while (torture_live[i])
                i = (i + 1) % TORTURE_SLOTS;
            torture_live[i] = p;
            torture_n_live++;
        }
    }
    pthread_mutex_unlock(&torture_lock);
    return p;
}

/* Forget p when it is one of ours; others may come from a shared library or from before. */
static void torture_remove(const void *p)
{
    pthread_mutex_lock(&torture_lock);
    size_t i = torture_home(p);
    while (p && torture_live[i] && torture_live[i] != p)
        i = (i + 1) % TORTURE_SLOTS;
    if (p && torture_live[i]) {
        torture_live[i] = NULL;
        torture_n_live--;
        /* Move up what this gap would hide. */
        for (size_t j = (i + 1) % TORTURE_SLOTS; torture_live[j]; j = (j + 1) % TORTURE_SLOTS) {
            size_t home = torture_home(torture_live[j]);
            if ((j - home) % TORTURE_SLOTS >= (j - i) % TORTURE_SLOTS) {
                torture_live[i] = torture_live[j];
                torture_live[j] = NULL;
                i = j;
            }
        }
    }
    pthread_mutex_unlock(&torture_lock);
}

void *__wrap_malloc(size_t n)
{
    return torture_fails() ? NULL : torture_add(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return torture_fails() ? NULL : torture_add(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t n)
{
    if (torture_fails())
        return NULL;
    torture_remove(old); /* first: another thread may get the address at once */
    void *p = __real_realloc(old, n);
    torture_add(p ? p : n > 0 ? old : NULL);
    return p;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return torture_fails() ? NULL : torture_add(__real_aligned_alloc(align, n));
}

int __wrap_posix_memalign(void **ret, size_t align, size_t n)
{
    if (torture_fails())
        return ENOMEM;
    int rc = __real_posix_memalign(ret, align, n);
    if (rc == 0)
        torture_add(*ret);
    return rc;
}

void __wrap_free(void *p)
{
    torture_remove(p);
    __real_free(p);
}

/** fn makes, uses and destroys its objects, and returns >= 0 or -AQ_E_*; it is run once per
 * allocation it makes. It should not report cases itself. One case: every run as described
 * above. */
__attribute__((unused)) static void torture(const char *name, int (*fn)(void *user), void *user)
{
    unsigned run = 0;
    int bad = 0;

    for (;;) {
        pthread_mutex_lock(&torture_lock);
        if (torture_n_live > 0) /* leaked by the run before, reported there */
            memset(torture_live, 0, sizeof torture_live);
        torture_n_live = 0;
        torture_wait = ++run;
        torture_on = true;
        pthread_mutex_unlock(&torture_lock);

        int rc = fn(user);

        pthread_mutex_lock(&torture_lock);
        torture_on = false;
        bool injected = torture_wait == 0, lost = torture_overflow;
        size_t live = torture_n_live;
        pthread_mutex_unlock(&torture_lock);

        bool good = live == 0 && !lost && (injected ? rc == -AQ_E_NOMEM : rc >= 0);
        if (!good && bad++ < 10)
            printf("# %s: allocation %u %s: result %s (%d), %zu allocations left%s\n", name, run,
                   injected ? "failed" : "not reached", aq_status_name(rc), rc, live,
                   lost ? ", more than can be counted" : "");
        if (!injected || run == TORTURE_RUNS_MAX)
            break;
    }
    ok(bad == 0 && run > 1 && run < TORTURE_RUNS_MAX, "%s: each of %u allocations may fail", name,
       run - 1);
}
#endif
