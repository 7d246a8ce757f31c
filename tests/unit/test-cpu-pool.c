/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU pool under stress, what it does when idle, and the runtime around it. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pool-priv.h"
#include "rt-priv.h"
#include "tap.h"

#define CHUNKS_MAX 300u
typedef struct job {
    uint32_t
        hits[CHUNKS_MAX]; /* plain memory: a chunk that two workers run is a race that TSan sees */
    _Atomic uint32_t worker_max, bad;
    uint32_t n;
} job;

static void count_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    job *j = ctx;
    if (chunk >= j->n)
        atomic_store(&j->bad, 1);
    else
        j->hits[chunk]++;
    if (worker > atomic_load(&j->worker_max))
        atomic_store(&j->worker_max, worker);
}

/* n_jobs jobs of 0 … CHUNKS_MAX chunks: true when each chunk of each ran exactly once and was
 * visible afterwards. */
static bool stress(aq_pool *p, uint32_t n_jobs, uint32_t seed)
{
    bool good = true;
    for (uint32_t i = 0; i < n_jobs && good; i++) {
        job j = {0};
        seed = seed * 1664525u + 1013904223u;
        j.n = (seed >> 16) % (i % 8 ? 9 : CHUNKS_MAX);
        aq_pool_run(p, count_chunk, &j, j.n);
        for (uint32_t c = 0; c < CHUNKS_MAX; c++)
            good = good && j.hits[c] == (c < j.n);
        good = good && !j.bad && j.worker_max < aq_pool_threads(p);
    }
    return good;
}

static void *other_caller(void *arg)
{
    return stress(arg, 2000, 77) ? arg : NULL;
}

static void test_stress(void)
{
    const uint32_t n_threads[] = {1, 2, 3, 8};
    for (size_t i = 0; i < AQ_LEN(n_threads); i++) {
        aq_pool *p = NULL;
        aq_err err = {0};
        if (!ok(aq_pool_new(n_threads[i], i % 2, 0, &p, &err) == 0, "pool of %u threads: %s",
                n_threads[i], err.text))
            continue;
        ok(aq_pool_threads(p) == n_threads[i], "it has %u threads", n_threads[i]);
        ok(stress(p, 4000, (uint32_t)i + 1), "every chunk of 4000 jobs once, %u threads",
           n_threads[i]);
        pthread_t t;
        void *good = NULL;
        bool started = !pthread_create(&t, NULL, other_caller, p);
        bool mine = stress(p, 2000, 5);
        if (started)
            pthread_join(t, &good);
        ok(started && mine && good, "two callers take turns, %u threads", n_threads[i]);
        aq_pool_free(p);
    }
}

static void pass(void *ctx, uint32_t chunk, uint32_t worker)
{
    atomic_fetch_add((_Atomic uint32_t *)ctx, 1);
}

static int64_t cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void test_idle(void)
{
    aq_pool *p = NULL;
    _Atomic uint32_t n = 0;
    if (!ok(aq_pool_new(3, false, 0, &p, NULL) == 0, "pool of 3 threads"))
        return;
    for (int round = 0; round < 3; round++) {
        aq_pool_run(p, pass, &n, 50);
        /* the hang limit of the test runner is the bound: workers that never sleep would keep us
         * here */
        while (aq_pool_asleep(p) < 2)
            sched_yield();
    }
    ok(n == 150, "work comes through to workers that were asleep (%u)", n);
    int64_t t0 = cpu_us();
    struct timespec quarter = {
        .tv_nsec = 250000000}; /* the thing measured is idle time, not a wait for something */
    nanosleep(&quarter, NULL);
    int64_t used = cpu_us() - t0;
    printf("# an idle pool used %lld us of a core in 250000\n", (long long)used);
    ok(aq_pool_asleep(p) == 2, "both workers still sleep");
    aq_pool_free(p);
    aq_pool_free(NULL);
}

static void test_errors(void)
{
    aq_pool *p = NULL;
    aq_err err = {0};
    ok(aq_pool_new(AQ_THREADS_MAX + 1, true, 0, &p, &err) == -AQ_E_LIMIT && !p &&
           strstr(err.text, "512"),
       "too many: %s", err.text);
    aq_failpoint_set("pool.thread", 2, 1);
    ok(aq_pool_new(4, true, 0, &p, &err) == -AQ_E_NOMEM && !p, "a thread that does not start: %s",
       err.text);
    aq_failpoint_set("pool.thread", 0, 0);
}

static void test_rt(void)
{
    aq_err err = {0};
    aq_rt *rt = NULL;
    ok(aq_rt_new(&(aq_rt_cfg){.cpu_path = "sse9"}, &rt, &err) == -AQ_E_UNSUPPORTED && !rt &&
           strstr(err.text, "sse9") && strstr(err.text, " c"),
       "unknown path: %s", err.text);
    const char *last = NULL;
    for (const char *const *path = aq_cpu_paths(); *path; path++) {
        last = *path;
        rt = NULL;
        ok(aq_rt_new(&(aq_rt_cfg){.cpu_path = *path, .n_threads = 2}, &rt, &err) == 0 &&
               !strcmp(aq_rt_cpu_path(rt), *path) && aq_rt_threads(rt) == 2,
           "path %s", *path);
        aq_rt_free(rt);
    }
    rt = NULL;
    ok(aq_rt_new(NULL, &rt, &err) == 0 && !strcmp(aq_rt_cpu_path(rt), last) &&
           aq_rt_threads(rt) >= 1,
       "the best path, %s, and one thread per core, %u", last, rt ? aq_rt_threads(rt) : 0);
    aq_rt_free(rt);
    aq_rt_free(NULL);
    const char *text = "";
    ok(!strcmp(aq_cuda_state(&text), "not-built") && *text, "cuda: %s", text);
}

static bool put_file(const char *dir, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool good = fputs(text, f) >= 0;
    return fclose(f) == 0 && good;
}

/* The quota of a made-up tree of cgroups, v2 or v1. */
static uint32_t quota(const char *dir, const char *cgroup)
{
    char path[600];
    put_file(dir, "cgroup", cgroup);
    snprintf(path, sizeof path, "%s/cgroup", dir);
    return aq_cpu_quota_from(path, dir);
}

static void test_quota(void)
{
    const char *tmp = getenv("TMPDIR");
    char dir[300], sub[400], deep[500];
    snprintf(dir, sizeof dir, "%s/quota-XXXXXX", tmp ? tmp : "/tmp");
    if (!ok(mkdtemp(dir) != NULL, "a folder"))
        return;
    snprintf(sub, sizeof sub, "%s/a", dir);
    snprintf(deep, sizeof deep, "%s/a/b", dir);
    mkdir(sub, 0700);
    mkdir(deep, 0700);
    ok(quota(dir, "0::/a/b\n") == UINT32_MAX, "no files, no quota");
    put_file(deep, "cpu.max", "max 100000\n");
    ok(quota(dir, "0::/a/b\n") == UINT32_MAX, "max is no quota");
    put_file(sub, "cpu.max", "350000 100000\n");
    ok(quota(dir, "0::/a/b\n") == 3, "3.5 CPUs of the group above are 3");
    put_file(deep, "cpu.max", "50000 100000\n");
    ok(quota(dir, "0::/a/b\n") == 1, "half a CPU is 1");
    ok(quota(dir, "0::/\n") == UINT32_MAX, "the root group has none");
    snprintf(sub, sizeof sub, "%s/cpu", dir);
    mkdir(sub, 0700);
    put_file(sub, "cpu.cfs_quota_us", "200000\n");
    put_file(sub, "cpu.cfs_period_us", "100000\n");
    ok(quota(dir, "3:cpu,cpuacct:/\n2:memory:/x\n") == 2, "v1: 2");
    put_file(sub, "cpu.cfs_quota_us", "-1\n");
    ok(quota(dir, "3:cpu,cpuacct:/\n") == UINT32_MAX, "v1: none");
    ok(aq_cpu_in_list("0-7,16,18-19\n", 5) && aq_cpu_in_list("0-7,16,18-19\n", 16) &&
           aq_cpu_in_list("0-7,16,18-19\n", 19) && !aq_cpu_in_list("0-7,16,18-19\n", 17) &&
           !aq_cpu_in_list("", 0) && !aq_cpu_in_list("x", 0),
       "lists of CPUs");
}

static void test_mem(void)
{
    char dir[] = "/tmp/aq-mem-XXXXXX", a[600], b[600], info[600], cg[600];
    if (!ok(mkdtemp(dir) != NULL, "a folder for made-up system files"))
        return;
    snprintf(info, sizeof info, "%s/meminfo", dir);
    snprintf(cg, sizeof cg, "%s/cgroup", dir);
    char cmd[2000];
    snprintf(cmd, sizeof cmd, "mkdir -p %s/a/b %s/memory/x", dir, dir);
    ok(system(cmd) == 0, "folders");
    snprintf(a, sizeof a, "%s/a", dir);
    snprintf(b, sizeof b, "%s/a/b", dir);
    put_file(dir, "meminfo", "MemTotal:       9000 kB\nMemAvailable:    8000 kB\n");
    ok(aq_mem_free_from(info, cg, dir) == 8000 * 1024, "no cgroup: MemAvailable");
    put_file(dir, "cgroup", "0::/a/b\n");
    put_file(b, "memory.max", "max\n");
    put_file(b, "memory.current", "1000\n");
    ok(aq_mem_free_from(info, cg, dir) == 8000 * 1024, "v2 without a limit");
    put_file(a, "memory.max", "1000000\n");
    put_file(a, "memory.current", "600000\n");
    put_file(a, "memory.stat", "anon 1\ninactive_file 100000\n");
    ok(aq_mem_free_from(info, cg, dir) == 500000,
       "v2: the parent's limit, its cache counted as free");
    put_file(b, "memory.max", "900\n");
    ok(aq_mem_free_from(info, cg, dir) == 0, "v2: over the limit leaves nothing");
    snprintf(a, sizeof a, "%s/memory/x", dir);
    put_file(dir, "cgroup", "5:cpu,cpuacct:/y\n4:memory:/x\n");
    put_file(a, "memory.limit_in_bytes", "70000\n");
    put_file(a, "memory.usage_in_bytes", "20000\n");
    put_file(a, "memory.stat", "total_inactive_file 1000\n");
    ok(aq_mem_free_from(info, cg, dir) == 51000, "v1");
    put_file(dir, "cgroup", "4:memory:/not/there\n");
    snprintf(a, sizeof a, "%s/memory", dir);
    put_file(a, "memory.limit_in_bytes", "60000\n");
    put_file(a, "memory.usage_in_bytes", "20000\n");
    ok(aq_mem_free_from(info, cg, dir) == 40000,
       "v1 in a container: the mount itself is the group");
    ok(aq_mem_free_bytes() > 0, "this machine has memory left");
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    ok(system(cmd) == 0, "cleaned up");
}

int main(void)
{
    test_stress();
    test_idle();
    test_quota();
    test_errors();
    test_rt();
    test_mem();
    return tap_done();
}
