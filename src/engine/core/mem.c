/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that this process may still take: MemAvailable, and for its memory cgroup and each one
 * above it, limit minus usage plus the file cache that the kernel would drop first.
 *
 *   /proc/self/cgroup   v2   0::/a/b                 MOUNT/a/b/memory.{max,current,stat}
 *                       v1   4:memory:/a/b           MOUNT/memory/a/b/memory.{limit_in_bytes,usage_in_bytes,stat}
 *
 * Inside a container the named path may not exist below the mount, which then shows the container's
 * own group: files that are not there are passed over. Any thread. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "rt-priv.h"

static bool read_num(const char *path, uint64_t *ret) /* "max" and absent files: false */
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char buf[64], *end = buf;
    unsigned long long v = fgets(buf, sizeof buf, f) ? strtoull(buf, &end, 10) : 0;
    fclose(f);
    if (end == buf)
        return false;
    *ret = v;
    return true;
}

/* The number behind `key ` at the start of a line. */
static bool read_key(const char *path, const char *key, uint64_t *ret)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char line[256];
    size_t n = strlen(key);
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, n) || (line[n] != ' ' && line[n] != ':'))
            continue;
        *ret = strtoull(line + n + 1, NULL, 10);
        found = true;
    }
    fclose(f);
    return found;
}

/* What the group at `dir` leaves. UINT64_MAX = no limit there. */
static uint64_t group_left(const char *dir, bool v2)
{
    char path[4400];
    uint64_t limit, used, cache = 0;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (!read_num(path, &limit))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (!read_num(path, &used))
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    read_key(path, v2 ? "inactive_file" : "total_inactive_file", &cache);
    used -= AQ_MIN(cache, used);
    return limit > used ? limit - used : 0;
}

/* MOUNT/path, MOUNT/its parent, … MOUNT: the smallest rest. */
static uint64_t groups_left(const char *mount, const char *group, bool v2)
{
    char dir[4200];
    int n = snprintf(dir, sizeof dir, "%s%s%s", mount, *group == '/' ? "" : "/", group);
    if (n < 0 || (size_t)n >= sizeof dir)
        return UINT64_MAX;
    uint64_t left = UINT64_MAX;
    size_t base = strlen(mount);
    for (;;) {
        uint64_t v = group_left(dir, v2);
        left = AQ_MIN(left, v);
        char *cut = strrchr(dir + base, '/');
        if (!cut)
            return left;
        *cut = 0;
    }
}

uint64_t aq_mem_free_from(const char *meminfo, const char *proc_cgroup, const char *cgroup_mount)
{
    uint64_t kib = 0;
    if (!read_key(meminfo, "MemAvailable", &kib))
        return 0;
    uint64_t left = kib * 1024;
    FILE *f = fopen(proc_cgroup, "re");
    if (!f)
        return left;
    char line[4200];
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *ctl = strchr(line, ':'), *group = ctl ? strchr(ctl + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        ctl++;
        uint64_t v = UINT64_MAX;
        if (!*ctl) {
            v = groups_left(cgroup_mount, group, true);
        } else {
            char list[300];
            snprintf(list, sizeof list, ",%s,", ctl);
            if (strstr(list, ",memory,")) {
                char mount[300];
                snprintf(mount, sizeof mount, "%s/memory", cgroup_mount);
                v = groups_left(mount, group, false);
            }
        }
        left = AQ_MIN(left, v);
    }
    fclose(f);
    return left;
}

int aq_mem_check(uint64_t weights_bytes, uint64_t state_bytes, uint64_t free_bytes, aq_err *err)
{
    /* nothing free and nothing known look the same; the first is told by the file that tells */
    if (!free_bytes && access("/proc/meminfo", R_OK) != 0)
        return 0;
    if (weights_bytes <= free_bytes && state_bytes <= free_bytes - weights_bytes)
        return 0;
    const uint64_t mb = 1000000;
    return aq_fail(err, AQ_E_NOMEM,
                   "it needs %" PRIu64 " MB of memory for its weights and %" PRIu64
                   " MB for a chat of full length, %" PRIu64
                   " MB are free: close other programs, or choose a smaller model or context",
                   (weights_bytes + mb - 1) / mb, (state_bytes + mb - 1) / mb, free_bytes / mb);
}

uint64_t aq_mem_state_bytes(const aq_model_info *in, uint32_t kv_type, uint64_t n_tok)
{
    uint64_t pages = (n_tok + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK;
    return in->recur_bytes_seq + pages * AQ_PAGE_TOK * aq_model_kv_bytes_tok(in, kv_type);
}

uint64_t aq_mem_free_bytes(void)
{
    return aq_mem_free_from("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
}
