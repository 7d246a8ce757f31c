/* SPDX-License-Identifier: Apache-2.0 */
/* What tells two files of one model from two models: known after a few megabytes, the same for a
 * file and for its shards, whatever they are called. Any thread.
 *
 *   SHA-256( "aquifer-fingerprint-1\0"
 *            str(architecture)
 *            u32 n, n × { str(key) u32 kind u32 element-kind u64 elements str(value as stored) }
 *                                                          keys "ARCHITECTURE.*", by key
 *            u32 n, n × { str(name) u32 type u32 dims u64 ne[4] u64 bytes
 *                         the first 64 KiB, then the last 64 KiB of what is behind them } by name )
 *   str: u32 bytes, then the bytes; numbers little-endian */
#include <endian.h>

#include "gguf-priv.h"

#define EDGE_BYTES 65536u

/* Failures of hashing are out of memory or libcrypto's own: kept in rc, told once. */
typedef struct hash {
    aq_sha256 *sha;
    int rc;
} hash;

static void put(hash *h, const void *p, size_t n)
{
    if (h->rc >= 0 && n)
        h->rc = aq_sha256_add(h->sha, p, n);
}

static void put_u32(hash *h, uint32_t v)
{
    v = htole32(v);
    put(h, &v, sizeof v);
}

static void put_u64(hash *h, uint64_t v)
{
    v = htole64(v);
    put(h, &v, sizeof v);
}

static void put_str(hash *h, const void *p, size_t n)
{
    put_u32(h, (uint32_t)n);
    put(h, p, n);
}

static bool is_hyper(const aq_kv *kv, const char *arch, size_t n_arch)
{
    return kv->key.n > n_arch && !memcmp(kv->key.p, arch, n_arch) && kv->key.p[n_arch] == '.';
}

static int put_tensor(hash *h, const aq_model *m, uint32_t i, const aq_wsrc *src, uint8_t *buf,
                      aq_err *err)
{
    const aq_tensor *t = &m->tensor[i];
    uint64_t first = AQ_MIN(t->bytes, (uint64_t)EDGE_BYTES),
             last = AQ_MIN(t->bytes - first, (uint64_t)EDGE_BYTES);

    put_str(h, t->name.p, t->name.n);
    put_u32(h, t->type->id);
    put_u32(h, t->n_dims);
    for (uint32_t d = 0; d < 4; d++)
        put_u64(h, t->ne[d]);
    put_u64(h, t->bytes);
    int rc = first ? src->read(src->self, i, 0, buf, (size_t)first, err) : 0;
    if (rc < 0)
        return rc;
    put(h, buf, (size_t)first);
    rc = last ? src->read(src->self, i, t->bytes - last, buf, (size_t)last, err) : 0;
    if (rc < 0)
        return rc;
    put(h, buf, (size_t)last);
    return 0;
}

int aq_model_fingerprint(const aq_model *m, const aq_wsrc *src, uint8_t ret[32], aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    AQ_AUTOFREE uint8_t *buf = malloc(EDGE_BYTES);
    const aq_gguf *g = m->gguf;
    const aq_shard *s = &g->shard[0];
    size_t n_arch = strlen(m->info.arch);
    hash h = {.sha = sha};
    uint32_t n = 0;
    uint8_t out[32];

    if (!sha || !buf)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for its fingerprint", s->file);
    put(&h, "aquifer-fingerprint-1", sizeof "aquifer-fingerprint-1");
    put_str(&h, m->info.arch, n_arch);
    for (uint32_t i = 0; i < s->n_kv; i++)
        n += is_hyper(&s->kv[i], m->info.arch, n_arch);
    put_u32(&h, n);
    for (uint32_t i = 0; i < s->n_kv; i++) {
        const aq_kv *kv = &s->kv[i];
        if (!is_hyper(kv, m->info.arch, n_arch))
            continue;
        put_str(&h, kv->key.p, kv->key.n);
        put_u32(&h, kv->kind);
        put_u32(&h, kv->elem);
        put_u64(&h, kv->n);
        put_str(&h, s->head + kv->off, kv->bytes);
    }
    put_u32(&h, m->n_tensor);
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        int rc = put_tensor(&h, m, g->by_name[i], src, buf, err);
        if (rc < 0)
            return rc;
    }
    if (h.rc >= 0)
        h.rc = aq_sha256_end(sha, out);
    if (h.rc < 0)
        return aq_fail(err, -h.rc, "%s: its fingerprint cannot be made", s->file);
    memcpy(ret, out, sizeof out);
    return 0;
}

int aq_model_stamp(const aq_model *m, uint8_t ret[32], int64_t *ret_written_s, aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    const aq_gguf *g = m->gguf;
    hash h = {.sha = sha};
    int64_t written_s = INT64_MIN;
    uint8_t out[32];

    if (!sha)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for its stamp", g->shard[0].file);
    put(&h, "aquifer-stamp-1", sizeof "aquifer-stamp-1");
    for (uint32_t i = 0; i < g->n_shard; i++) {
        const aq_shard *s = &g->shard[i];
        if (!s->ino)
            return aq_fail(err, AQ_E_INVAL, "%s is no file of this PC", s->file);
        put_u64(&h, s->dev);
        put_u64(&h, s->ino);
        put_u64(&h, s->file_bytes);
        put_u64(&h, (uint64_t)s->written.tv_sec);
        put_u32(&h, (uint32_t)s->written.tv_nsec);
        written_s = AQ_MAX(written_s, (int64_t)s->written.tv_sec);
    }
    if (h.rc >= 0)
        h.rc = aq_sha256_end(sha, out);
    if (h.rc < 0)
        return aq_fail(err, -h.rc, "%s: its stamp cannot be made", g->shard[0].file);
    memcpy(ret, out, sizeof out);
    *ret_written_s = written_s;
    return 0;
}
