/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU can do (CPUID and XGETBV: a feature counts only if the system saves its registers),
 * and which CPUs this process may use, physical cores first (sched_getaffinity and sysfs). Any
 * thread. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
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

/* Linux saves the tile registers (8 KB) only of processes that have asked for them. */
static bool tiles_granted(void)
{
    const long ask = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

typedef struct features {
    bool avx2, avx2_vnni, avx512, amx;
} features;

static features cpu_features(void)
{
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29,
                   avx2 = 1u << 5; /* leaf 1 ecx, leaf 7 ebx */
    const uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31, vnni = 1u << 11,
                   avx_vnni = 1u << 4,            /* leaf 7 ebx, ecx; leaf 7.1 eax */
        amx_tile = 1u << 24, amx_int8 = 1u << 25; /* leaf 7 edx */
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
    have.amx = have.avx512 && (saved & 0x60000) == 0x60000 &&
               (d & (amx_tile | amx_int8)) == (amx_tile | amx_int8) && tiles_granted();
    have.avx2_vnni = a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni);
    return have;
}
#endif

#define N_PATH 4u
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
    if (have.amx)
        ret[n++] = &aq_isa_amx;
#elif defined(__aarch64__)
    const unsigned long dot_products = 1ul << 20; /* HWCAP_ASIMDDP */
    if (getauxval(AT_HWCAP) & dot_products)
        ret[n++] = &aq_isa_neon;
#endif
    return n;
}

const aq_isa *aq_isa_find(const char *name)
{
    const aq_isa *k[N_PATH];
    uint32_t n = isas(k);
    if (!name)
        return k[n - 1];
    if (!strcmp(name, "c16")) /* for tests: as paths with tiles of 16 rows; not listed */
        return &aq_isa_c16;
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
#if defined(__aarch64__)
    static const char *const list[N_PATH][N_PATH + 1] = {{"c", NULL}, {"c", "neon", NULL}};
#else
    static const char *const list[N_PATH][N_PATH + 1] = {{"c", NULL},
                                                         {"c", "avx2", NULL},
                                                         {"c", "avx2", "avx512", NULL},
                                                         {"c", "avx2", "avx512", "amx", NULL}};
#endif
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

bool aq_cpu_in_list(const char *list, uint32_t cpu)
{
    for (char *end; *list; list = end) {
        unsigned long a = strtoul(list, &end, 10), b = a;
        if (end == list)
            return false;
        if (*end == '-') {
            list = end + 1;
            b = strtoul(list, &end, 10);
            if (end == list)
                return false;
        }
        if (cpu >= a && cpu <= b)
            return true;
        end += strspn(end, ", \n");
    }
    return false;
}

static bool read_line(const char *path, char *buf, size_t n)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(buf, (int)n, f);
    if (f)
        fclose(f);
    return ok;
}

/* The quota of one group in whole CPUs. */
static uint32_t group_quota(const char *dir, bool v2)
{
    char path[4400], buf[64], *end;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_line(path, buf, sizeof buf))
        return UINT32_MAX;
    long long quota = strtoll(buf, &end, 10), period = 100000; /* "max 100000", or -1: none */
    if (end == buf || quota <= 0)
        return UINT32_MAX;
    if (v2) {
        period = strtoll(end, NULL, 10);
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        period = read_line(path, buf, sizeof buf) ? strtoll(buf, NULL, 10) : period;
    }
    if (period <= 0)
        return UINT32_MAX;
    return (uint32_t)AQ_MIN(AQ_MAX(quota / period, 1), 1 << 20);
}

uint32_t aq_cpu_quota_from(const char *proc_cgroup, const char *mount)
{
    uint32_t least = UINT32_MAX;
    char line[4200];
    FILE *f = fopen(proc_cgroup, "re");
    while (f && fgets(line, sizeof line, f)) { /* ID:controllers:/path, none of them in v2 */
        line[strcspn(line, "\n")] = 0;
        char *ctl = strchr(line, ':'), *group = ctl ? strchr(ctl + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        ctl++;
        char list[300], dir[4300];
        snprintf(list, sizeof list, ",%s,", ctl);
        bool v2 = !*ctl;
        if (!v2 && !strstr(list, ",cpu,"))
            continue;
        int n = snprintf(dir, sizeof dir, "%s%s%s", mount, v2 ? "" : "/cpu", group);
        if (n < 0 || (size_t)n >= sizeof dir)
            continue;
        for (char *cut = dir + n; cut; cut = strrchr(dir + strlen(mount), '/')) {
            *cut = 0; /* the group, and each one above it */
            uint32_t q = group_quota(dir, v2);
            least = AQ_MIN(least, q);
        }
    }
    if (f)
        fclose(f);
    return least;
}

uint32_t aq_cpu_quota(void)
{
    return aq_cpu_quota_from("/proc/self/cgroup", "/sys/fs/cgroup");
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
        uint32_t n = (uint32_t)CPU_COUNT_S(size, set), n_cores = 0, n_small = 0, n_rest = 0;
        uint32_t *cpu = malloc(3 * (size_t)AQ_MAX(n, 1u) * sizeof *cpu);
        char small[4096] = ""; /* the small cores of CPUs that have two kinds */
        read_line("/sys/devices/cpu_atom/cpus", small, sizeof small);
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
            else if (aq_cpu_in_list(small, i))
                cpu[2 * (size_t)n + n_small++] = i;
            else
                cpu[n_cores++] = i;
            *seen = 1;
        }
        memmove(cpu + n_cores + n_small, cpu + n, n_rest * sizeof *cpu);
        memmove(cpu + n_cores, cpu + 2 * (size_t)n, n_small * sizeof *cpu);
        n_cores += n_small;
        CPU_FREE(set);
        free(core_seen);
        *ret = cpu;
        *ret_n = n;
        *ret_n_cores = n_cores;
        return 0;
    }
    return aq_fail(err, AQ_E_LIMIT, "this system has more than %u CPUs", CPUS_MAX);
}
