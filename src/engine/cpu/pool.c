/* SPDX-License-Identifier: Apache-2.0 */
/* See pool-priv.h.
 *
 *   state   [ job number : 32 | chunks not yet claimed : 32 ]   claimed by compare-and-swap
 *   pending chunks not yet finished; the caller waits for 0
 *   bell    counts jobs; sleeping workers wait on it
 *
 * fn, ctx and n belong to the job whose number is in `state`. They are plain memory: written before
 * the release store of `state`, read only after a successful claim, and the next job cannot be
 * written before that claim's chunk is finished. Threads: any caller (they take turns by `turn`),
 * and the workers. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pool-priv.h"

#define LINE 64

typedef struct worker {
    aq_pool *pool;
    pthread_t thread;
    uint32_t id;
    bool started;
} worker;

struct aq_pool {
    _Alignas(LINE) _Atomic uint64_t state;
    aq_pool_fn fn;
    void *ctx;
    uint32_t n;
    _Alignas(LINE) _Atomic uint32_t pending;
    _Atomic uint32_t caller_sleeps;
    _Alignas(LINE) _Atomic uint32_t bell;
    _Atomic uint32_t asleep, quit;
    _Atomic int64_t spin_us;
    _Alignas(LINE) pthread_mutex_t turn;
    uint32_t job, n_threads, n_cpu;
    uint32_t *cpu; /* [n_cpu], NULL = not pinned */
    int nice;
    worker *worker; /* [n_threads], [0] unused */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL,
            0); /* EAGAIN and EINTR: the caller's loop looks again */
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Not aq_now_us: tests stop that clock, and a spinning worker must still fall asleep. */
static int64_t spin_clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Spin while keep(p), at most spin_us; true when it ended before that. */
static bool spin_while(bool (*keep)(aq_pool *), aq_pool *p)
{
    int64_t end = 0;
    for (uint32_t i = 0; keep(p); i++) {
        relax();
        if (i % 64 == 63) {
            int64_t now = spin_clock_us();
            if (!end)
                end = now + atomic_load_explicit(&p->spin_us, memory_order_relaxed);
            else if (now >= end)
                return false;
        }
    }
    return true;
}

static bool chunks_pending(aq_pool *p)
{
    return atomic_load_explicit(&p->pending, memory_order_acquire) != 0;
}

static bool nothing_to_claim(aq_pool *p)
{
    return (uint32_t)atomic_load_explicit(&p->state, memory_order_relaxed) == 0 &&
           !atomic_load_explicit(&p->quit, memory_order_relaxed);
}

/* Claim and run chunks until none is left. */
static void work(aq_pool *p, uint32_t id)
{
    uint64_t s = atomic_load_explicit(&p->state, memory_order_acquire);
    while ((uint32_t)s) {
        if (!atomic_compare_exchange_weak_explicit(&p->state, &s, s - 1, memory_order_acquire,
                                                   memory_order_acquire))
            continue;
        p->fn(p->ctx, p->n - (uint32_t)s, id);
        if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->caller_sleeps))
            futex_wake(&p->pending, 1);
        s = atomic_load_explicit(&p->state, memory_order_acquire);
    }
}

static void pin_self(const aq_pool *p, uint32_t id)
{
    if (!p->cpu || id >= p->n_cpu)
        return; /* more threads than CPUs: these float */
    size_t size = CPU_ALLOC_SIZE(p->cpu[id] + 1);
    cpu_set_t *set = CPU_ALLOC(p->cpu[id] + 1);
    if (!set)
        return; /* a worker that is not pinned is slower, not wrong */
    CPU_ZERO_S(size, set);
    CPU_SET_S(p->cpu[id], size, set);
    sched_setaffinity(0, size, set);
    CPU_FREE(set);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    aq_pool *p = w->pool;
    pin_self(p, w->id);
    if (p->nice)
        setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid),
                    p->nice); /* refused (lower than allowed): as the process */
    while (!atomic_load(&p->quit)) {
        work(p, w->id);
        if (spin_while(nothing_to_claim, p))
            continue;
        /* The bell is read before the last look, and a job rings it after it is there: no job is
         * slept through. */
        uint32_t bell = atomic_load(&p->bell);
        atomic_fetch_add(&p->asleep, 1);
        if ((uint32_t)atomic_load(&p->state) == 0 && !atomic_load(&p->quit))
            futex_wait(&p->bell, bell);
        atomic_fetch_sub(&p->asleep, 1);
    }
    return NULL;
}

void aq_pool_run(aq_pool *p, aq_pool_fn fn, void *ctx, uint32_t n_chunks)
{
    if (p->n_threads == 1 || n_chunks <= 1) {
        for (uint32_t i = 0; i < n_chunks; i++)
            fn(ctx, i, 0);
        return;
    }
    pthread_mutex_lock(&p->turn);
    p->fn = fn;
    p->ctx = ctx;
    p->n = n_chunks;
    p->job++;
    atomic_store_explicit(&p->pending, n_chunks, memory_order_relaxed);
    atomic_store(&p->state, (uint64_t)p->job << 32 | n_chunks);
    atomic_fetch_add(&p->bell, 1);
    if (atomic_load(&p->asleep))
        futex_wake(&p->bell, (int)AQ_MIN(n_chunks, p->n_threads) - 1);
    work(p, 0);
    while (!spin_while(chunks_pending, p)) {
        atomic_store(&p->caller_sleeps, 1);
        uint32_t left = atomic_load(&p->pending);
        if (left)
            futex_wait(&p->pending, left);
        atomic_store(&p->caller_sleeps, 0);
    }
    pthread_mutex_unlock(&p->turn);
}

int aq_pool_new(uint32_t n_threads, bool pin, int nice, aq_pool **ret, aq_err *err)
{
    AQ_AUTOFREE uint32_t *cpu = NULL;
    uint32_t n_cpu = 0, n_cores = 0;
    if (n_threads > AQ_THREADS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u threads asked for, at most %u are possible", n_threads,
                       AQ_THREADS_MAX);
    int rc = aq_cpu_list(&cpu, &n_cpu, &n_cores, err);
    if (rc < 0)
        return rc;
    if (!n_threads)
        n_threads = AQ_MIN(AQ_MAX(AQ_MIN(n_cores, aq_cpu_quota()), 1u), AQ_THREADS_MAX);

    AQ_AUTO(aq_pool_free) aq_pool *p = aligned_alloc(LINE, sizeof *p);
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the CPU pool");
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->turn, NULL);
    p->n_threads = n_threads;
    p->nice = nice;
    atomic_store(&p->spin_us, AQ_POOL_SPIN_US);
    if (pin) {
        p->cpu = AQ_STEAL(cpu);
        p->n_cpu = n_cpu;
    }
    p->worker = calloc(n_threads, sizeof *p->worker);
    if (!p->worker)
        return aq_fail(err, AQ_E_NOMEM, "no memory for %u threads of the CPU pool", n_threads);

    sigset_t all, old; /* signals of the process go to the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int en = 0;
    for (uint32_t i = 1; i < n_threads && !en; i++) {
        p->worker[i] = (worker){.pool = p, .id = i};
        en = aq_failpoint("pool.thread")
                 ? EAGAIN
                 : pthread_create(&p->worker[i].thread, NULL, worker_main, &p->worker[i]);
        p->worker[i].started = !en;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (en)
        return aq_fail(err, AQ_E_NOMEM,
                       "cannot start %u compute threads (limit of the system? try fewer): %s",
                       n_threads, strerrordesc_np(en));
    *ret = AQ_STEAL(p);
    return 0;
}

void aq_pool_free(aq_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, 1);
    atomic_fetch_add(&p->bell, 1);
    futex_wake(&p->bell, INT32_MAX);
    for (uint32_t i = 1; p->worker && i < p->n_threads; i++)
        if (p->worker[i].started)
            pthread_join(p->worker[i].thread, NULL);
    pthread_mutex_destroy(&p->turn);
    free(p->worker);
    free(p->cpu);
    free(p);
}

uint32_t aq_pool_threads(const aq_pool *p)
{
    return p->n_threads;
}

void aq_pool_set_spin(aq_pool *p, uint32_t us)
{
    atomic_store(&p->spin_us, us);
}

uint32_t aq_pool_asleep(const aq_pool *p)
{
    return atomic_load(&((aq_pool *)p)->asleep);
}
