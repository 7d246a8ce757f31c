/* SPDX-License-Identifier: Apache-2.0 */
/* A model's GGUF as a whole: one file, or parts that say split.no and split.count. Their names differ in a number only:
 * NAME-00001-of-0000N.gguf as converters write it, or any other form, from 0 or from 1. The first part's keys are the model's; the
 * tensors of all parts make one table. Any part may be given to open them all.
 * Threads: opening is one thread's work; afterwards everything but the count of holders is read-only. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gguf-priv.h"

static void shard_clear(aq_shard *s)
{
    aq_fd_close_p(&s->fd);
    free(s->path);
    free(s->head);
    free(s->kv);
    free(s->tensor);
}

aq_gguf *aq_gguf_hold(aq_gguf *g)
{
    atomic_fetch_add(&g->holders, 1);
    return g;
}

void aq_gguf_free(aq_gguf *g)
{
    if (!g || atomic_fetch_sub(&g->holders, 1) > 1)
        return;
    for (uint32_t i = 0; i < g->n_shard; i++)
        shard_clear(&g->shard[i]);
    free(g->shard);
    free(g->tensor);
    free(g->by_name);
    free(g);
}

static aq_gguf *gguf_new(uint32_t n_shard)
{
    aq_gguf *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    atomic_init(&g->holders, 1);
    g->shard = calloc(n_shard, sizeof *g->shard);
    if (!g->shard) {
        free(g);
        return NULL;
    }
    g->n_shard = n_shard;
    for (uint32_t i = 0; i < n_shard; i++)
        g->shard[i].fd = -1;
    return g;
}

static int name_cmp(const void *a, const void *b, void *tensor)
{
    const aq_tensor *t = tensor;
    return aq_str_cmp(t[*(const uint32_t *)a].name, t[*(const uint32_t *)b].name);
}

/** All shards are parsed: one tensor table, sorted names, no name twice. */
static int join(aq_gguf *g, aq_err *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_shard; i++)
        n += g->shard[i].n_tensor;
    if (n > AQ_GGUF_TENSORS_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "the shards of %s hold %" PRIu64 " tensors, the limit is %u",
                       g->shard[0].file, n, AQ_GGUF_TENSORS_MAX);
    g->tensor = calloc(n + 1, sizeof *g->tensor);
    g->by_name = calloc(n + 1, sizeof *g->by_name);
    if (!g->tensor || !g->by_name)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for its %" PRIu64 " tensors",
                       g->shard[0].file, n);
    for (uint32_t i = 0; i < g->n_shard; i++) {
        aq_shard *s = &g->shard[i];
        g->file_bytes += s->file_bytes;
        for (uint32_t j = 0; j < s->n_tensor; j++) {
            g->by_name[g->n_tensor] = g->n_tensor;
            g->tensor[g->n_tensor] = s->tensor[j];
            g->tensor[g->n_tensor++].shard = i;
        }
        free(AQ_STEAL(s->tensor));
    }
    qsort_r(g->by_name, g->n_tensor, sizeof *g->by_name, name_cmp, g->tensor);
    for (uint32_t i = 1; i < g->n_tensor; i++) {
        const aq_tensor *a = &g->tensor[g->by_name[i - 1]], *b = &g->tensor[g->by_name[i]];
        char show[AQ_SHOW_BYTES];
        if (!aq_str_cmp(a->name, b->name))
            return aq_fail(
                err, AQ_E_FORMAT,
                "%s holds the tensor '%s' twice (%s); the file is damaged, " AQ_GGUF_AGAIN,
                g->shard[b->shard].file, aq_str_show(b->name, show),
                a->shard == b->shard ? "in one file" : "in two of its parts");
    }
    return 0;
}

/** split.* of a shard that is known to belong to n_shard (1 = not split) at place no. */
static int check_split(const aq_gguf *g, uint32_t i, uint32_t *ret_no, uint32_t *ret_count,
                       aq_err *err)
{
    aq_gguf one = {.n_shard = 1, .shard = &g->shard[i]}; /* look-ups read the first shard */
    uint32_t no = 0, count = 1;
    int rc;
    if ((rc = aq_gguf_u32(&one, "split.no", &no, err)) < 0 ||
        (rc = aq_gguf_u32(&one, "split.count", &count, err)) < 0)
        return rc;
    count = AQ_MAX(count, 1u);
    if (count > AQ_GGUF_SHARDS_MAX || no >= count)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s says that it is part %u of %u, which cannot be (at most %u parts); the "
                       "file is damaged, " AQ_GGUF_AGAIN,
                       g->shard[i].file, no + 1, count, AQ_GGUF_SHARDS_MAX);
    *ret_no = no;
    *ret_count = count;
    return 0;
}

static int check_total(const aq_gguf *g, aq_err *err)
{
    uint32_t total;
    int rc = aq_gguf_u32(g, "split.tensors.count", &total, err);
    if (rc == 1 && total != g->n_tensor)
        return aq_fail(
            err, AQ_E_FORMAT,
            "the parts of %s hold %u tensors, %u were announced; the parts do not belong together",
            g->shard[0].file, g->n_tensor, total);
    return rc < 0 ? rc : 0;
}

/* ---- names of parts ---- */

/** Where the name of a part says which one it is. */
typedef struct number {
    size_t at, n;  /* its digits in the path */
    uint32_t base; /* of the first part */
    bool padded;   /* with zeros, to n digits */
} number;

static char *part_path(const char *path, const number *u, uint32_t i)
{
    size_t n = strlen(path) + 16;
    char *p = malloc(n);
    if (p)
        snprintf(p, n, "%.*s%0*u%s", (int)u->at, path, u->padded ? (int)u->n : 1, i + u->base,
                 path + u->at + u->n);
    return p;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/** -00002-of-00003.gguf: no doubt then, even if no other part is there. */
static bool is_usual(const char *path, uint32_t no, uint32_t count, number *ret)
{
    char tail[32];
    int t = snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", no + 1, count);
    size_t n = strlen(path);
    *ret = (number){n - (size_t)t + 1, 5, 1, true};
    return n > (size_t)t && !strcmp(path + n - (size_t)t, tail);
}

/** The number in the name of part no with which most of the other parts are found, the last of several such. 0 or NOMEM; ret->n 0:
 * there is none. */
static int find_number(const char *path, uint32_t no, uint32_t count, number *ret)
{
    const char *slash = strrchr(path, '/');
    size_t start = slash ? (size_t)(slash - path) + 1 : 0, end = strlen(path);
    uint32_t most = 0;
    *ret = (number){0};
    if (is_usual(path, no, count, ret))
        return 0;
    ret->n = 0;
    for (size_t at; end > start; end = at) {
        for (at = end; at > start && is_digit(path[at - 1]) == is_digit(path[end - 1]); at--)
            ;
        if (!is_digit(path[at]) || end - at > 9)
            continue;
        unsigned long v = strtoul(path + at, NULL, 10);
        for (int k = 0; k < 4; k++) {
            number u = {at, end - at, k % 2 ? 0 : 1, k < 2};
            uint32_t n = 0;
            if (v != no + u.base || (!u.padded && path[at] == '0' && u.n > 1))
                continue;
            /* counted from 0, there is none with the number of them all */
            for (uint32_t i = 0; i < count + !u.base; i++) {
                AQ_AUTOFREE char *p = part_path(path, &u, i);
                if (!p)
                    return -AQ_E_NOMEM;
                if (i != no && access(p, F_OK) == 0)
                    n = i < count ? n + 1 : 0;
            }
            if (n > most)
                *ret = u;
            most = AQ_MAX(most, n);
        }
    }
    return 0;
}

/** Open part i of all, its name made from path, the name of another part. */
static int open_part(aq_gguf *all, uint32_t i, const char *path, const number *u, aq_err *err)
{
    uint32_t no, count;
    AQ_AUTOFREE char *p = part_path(path, u, i);
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory to open the parts of %s", path);
    int rc = aq_shard_open(&all->shard[i], p, err);
    if (rc < 0)
        return aq_err_prefix(err, rc, "part %u of %u is missing or unreadable", i + 1,
                             all->n_shard);
    if ((rc = check_split(all, i, &no, &count, err)) < 0)
        return rc;
    if (no != i || count != all->n_shard)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s says that it is part %u of %u, its name and the other parts say %u of "
                       "%u; get the parts again",
                       all->shard[i].file, no + 1, count, i + 1, all->n_shard);
    return 0;
}

int aq_gguf_open(const char *path, aq_gguf **ret, aq_err *err)
{
    AQ_AUTO(aq_gguf_free) aq_gguf *g = gguf_new(1);
    if (!g)
        return aq_fail(err, AQ_E_NOMEM, "no memory to open %s", path);
    uint32_t no, count;
    int rc;
    if ((rc = aq_shard_open(&g->shard[0], path, err)) < 0 ||
        (rc = check_split(g, 0, &no, &count, err)) < 0)
        return rc;
    if (count > 1) {
        number u;
        if (find_number(path, no, count, &u) < 0)
            return aq_fail(err, AQ_E_NOMEM, "no memory to find the %u parts of %s", count, path);
        if (!u.n)
            return aq_fail(
                err, AQ_E_FORMAT,
                "%s says that it is part %u of %u, and neither its name nor a file beside "
                "it fits that: the names of parts must differ in their number only, such "
                "as NAME-%05u-of-%05u.gguf; give them their own names back",
                g->shard[0].file, no + 1, count, no + 1, count);
        AQ_AUTO(aq_gguf_free) aq_gguf *all = gguf_new(count);
        if (!all)
            return aq_fail(err, AQ_E_NOMEM, "no memory to open the %u parts of %s", count, path);
        all->shard[no] = g->shard[0];
        g->shard[0] = (aq_shard){.fd = -1};
        for (uint32_t i = 0; i < count; i++)
            if (i != no && (rc = open_part(all, i, path, &u, err)) < 0)
                return rc;
        aq_gguf_free(g);
        g = AQ_STEAL(all);
    }
    if ((rc = join(g, err)) < 0 || (rc = check_total(g, err)) < 0)
        return rc;
    *ret = AQ_STEAL(g);
    return 0;
}

int aq_gguf_from_heads(const aq_head_view *v, uint32_t n, aq_gguf **ret, aq_err *err)
{
    AQ_AUTO(aq_gguf_free) aq_gguf *g = gguf_new(AQ_MAX(n, 1u));
    if (!g)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read a model card");
    int rc;
    for (uint32_t i = 0; i < n; i++) {
        if ((rc = aq_shard_from_head(&g->shard[i], &v[i], err)) < 0)
            return rc;
    }
    if ((rc = join(g, err)) < 0 || (rc = check_total(g, err)) < 0)
        return rc;
    *ret = AQ_STEAL(g);
    return 0;
}

int32_t aq_gguf_tensor(const aq_gguf *g, const char *name, size_t n)
{
    aq_str want = {name, (uint32_t)n};
    uint32_t lo = 0, hi = g->n_tensor;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = aq_str_cmp(g->tensor[g->by_name[mid]].name, want);
        if (!c)
            return (int32_t)g->by_name[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

const aq_kv *aq_gguf_find(const aq_gguf *g, const char *key)
{
    const aq_shard *s = &g->shard[0];
    aq_kv want = {.key = {key, (uint32_t)strlen(key)}};
    return s->n_kv ? bsearch(&want, s->kv, s->n_kv, sizeof *s->kv, aq_kv_cmp) : NULL;
}
