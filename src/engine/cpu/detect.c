/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU can do (CPUID and XGETBV: a feature counts only if the system saves its registers),
 * and which CPUs this process may use, physical cores first (sched_getaffinity and sysfs). Any
 * thread. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu-priv.h"
#include "pool-priv.h"

/* ---- instruction sets ---- */

#if defined(__x86_64__)
static uint64_t xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

typedef struct features {
    bool avx2, avx2_vnni, avx512;
} features;

static features cpu_features(void)
{
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29,
                   avx2 = 1u << 5; /* leaf 1 ecx, leaf 7 ebx */
    const uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31, vnni = 1u << 11,
                   avx_vnni = 1u << 4; /* leaf 7 ebx, ecx; leaf 7.1 eax */
    features have = {0};
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        (c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c))
        return have;
    uint64_t saved = xcr0();
    if ((saved & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & avx2))
        return have;
    have.avx2 = true;
    have.avx512 = (saved & 0xe6) == 0xe6 && (b & (f | dq | bw | vl)) == (f | dq | bw | vl) &&
                  (c & vnni); /* mask and upper registers are saved, too */
    have.avx2_vnni = a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni);
    return have;
}
#endif

#define N_PATH 3u
static uint32_t isas(const aq_isa *ret[N_PATH]) /* best last */
{
    uint32_t n = 0;
    ret[n++] = &aq_isa_c;
#if defined(__x86_64__)
    features have = cpu_features();
    if (have.avx2)
        ret[n++] = have.avx2_vnni ? &aq_isa_avx2_vnni : &aq_isa_avx2;
    if (have.avx512)
        ret[n++] = &aq_isa_avx512;
#endif
    return n;
}

const aq_isa *aq_isa_find(const char *name)
{
    const aq_isa *k[N_PATH];
    uint32_t n = isas(k);
    if (!name)
        return k[n - 1];
#if defined(__x86_64__)
    if (!strcmp(name, "avx2-plain")) /* as on CPUs without AVX-VNNI; not listed */
        return cpu_features().avx2 ? &aq_isa_avx2 : NULL;
#endif
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(k[i]->name, name))
            return k[i];
    return NULL;
}

const char *const *aq_cpu_paths(void)
{
    /* one list per number of paths that this CPU has: each set includes the ones before */
    static const char *const list[N_PATH][N_PATH + 1] = {
        {"c", NULL}, {"c", "avx2", NULL}, {"c", "avx2", "avx512", NULL}};
    const aq_isa *k[N_PATH];
    return list[isas(k) - 1];
}

/* ---- which CPUs ---- */

#define CPUS_MAX 16384u /* the kernel's own limit is 8192 */

/* The lowest CPU of the list "0-1" or "3,67" in a sysfs file, or dflt. */
static uint32_t first_sibling(uint32_t cpu)
{
    char path[96], buf[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "re");
    if (!f)
        return cpu;
    uint32_t first = cpu;
    if (fgets(buf, sizeof buf, f)) {
        char *end;
        unsigned long v = strtoul(buf, &end, 10);
        if (end != buf && v < CPUS_MAX)
            first = (uint32_t)v;
    }
    fclose(f);
    return first;
}

int aq_cpu_list(uint32_t **ret, uint32_t *ret_n, uint32_t *ret_n_cores, aq_err *err)
{
    for (uint32_t max = 1024; max <= CPUS_MAX; max *= 2) {
        size_t size = CPU_ALLOC_SIZE(max);
        cpu_set_t *set = CPU_ALLOC(max);
        if (!set)
            return aq_fail(err, AQ_E_NOMEM, "no memory for the list of CPUs");
        CPU_ZERO_S(size, set);
        if (sched_getaffinity(0, size, set) < 0) {
            int en = errno;
            CPU_FREE(set);
            if (en == EINVAL && max < CPUS_MAX)
                continue; /* the system has more CPUs than that */
            return aq_fail_errno(err, en, "cannot ask which CPUs this process may use");
        }
        uint32_t n = (uint32_t)CPU_COUNT_S(size, set), n_cores = 0, n_rest = 0;
        uint32_t *cpu = malloc(2 * (size_t)AQ_MAX(n, 1u) * sizeof *cpu);
        uint8_t *core_seen = calloc(CPUS_MAX, 1);
        if (!cpu || !core_seen) {
            CPU_FREE(set);
            free(cpu);
            free(core_seen);
            return aq_fail(err, AQ_E_NOMEM, "no memory for the list of %u CPUs", n);
        }
        for (uint32_t i = 0; i < max; i++) {
            if (!CPU_ISSET_S(i, size, set))
                continue;
            uint8_t *seen = &core_seen[first_sibling(i)];
            if (*seen)
                cpu[n + n_rest++] = i;
            else
                cpu[n_cores++] = i;
            *seen = 1;
        }
        memmove(cpu + n_cores, cpu + n, n_rest * sizeof *cpu);
        CPU_FREE(set);
        free(core_seen);
        *ret = cpu;
        *ret_n = n;
        *ret_n_cores = n_cores;
        return 0;
    }
    return aq_fail(err, AQ_E_LIMIT, "this system has more than %u CPUs", CPUS_MAX);
}
