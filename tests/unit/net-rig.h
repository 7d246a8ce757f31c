/* SPDX-License-Identifier: Apache-2.0 */
/* A random model loaded into a backend, and windows sent through it by hand: for tests of forward, state and experts. Include after
 * tap.h. One thread. */
#ifndef NET_RIG_H
#define NET_RIG_H

#include <stdio.h>
#include <unistd.h>

#include "forward-priv.h"
#include "gguf-write.h"

#define RIG_ROWS 512u

typedef struct rig {
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    void *w;
    const aq_backend *be;
    uint32_t embd, wide, vocab; /* wide: floats of a row between layers */
} rig;

__attribute__((unused)) static void rig_close(rig *r)
{
    if (r->be)
        r->be->drop(r->w);
    aq_wsrc_close(&r->src);
    aq_model_free(r->m);
    aq_rt_free(r->rt);
    *r = (rig){0};
}

/* cpu_path NULL = the best; blocks NULL = the backend's own. */
__attribute__((unused)) static int rig_open_path(rig *r, const char *arch, const char *type,
                                                 const char *backend, uint32_t threads,
                                                 const char *cpu_path, const aq_blocks *blocks)
{
    char path[] = "/tmp/aq-net-XXXXXX";
    aq_err err = {0};
    *r = (rig){0};
    int fd = mkstemp(path);
    if (fd < 0)
        return -AQ_E_IO;
    close(fd);
    int rc = gw_model(arch, type, 7, path);
    if (rc == 0)
        rc = aq_rt_new(&(aq_rt_cfg){.n_threads = threads, .cpu_path = cpu_path}, &r->rt, &err);
    if (rc == 0)
        rc = aq_model_open(r->rt, path, 0, &r->m, &r->src, &err);
    unlink(path);
    if (rc == 0)
        rc = aq_backend_find(backend, &r->be, &err);
    aq_place place = {.flags = AQ_PLACE_ENDS};
    if (rc == 0) {
        uint32_t n = aq_model_get_info(r->m)->n_layer;
        rc = blocks ? aq_net_load(blocks, r->rt, r->m, &r->src, &place, 0, n, NULL, &r->w, &err)
                    : r->be->load(r->rt, r->m, &r->src, &place, 0, n, NULL, &r->w, &err);
    }
    if (rc < 0) {
        printf("# %s %s: %s\n", arch, type, err.text);
        rig_close(r);
        return rc;
    }
    r->embd = aq_model_get_info(r->m)->n_embd;
    r->wide = aq_model_get_info(r->m)->row_f32;
    r->vocab = aq_model_get_info(r->m)->n_vocab;
    return 0;
}

__attribute__((unused)) static int rig_open(rig *r, const char *arch, const char *type,
                                            const char *backend, uint32_t threads,
                                            const aq_blocks *blocks)
{
    return rig_open_path(r, arch, type, backend, threads, NULL, blocks);
}

__attribute__((unused)) static int rig_state(rig *r, uint32_t kv_type, void **ret)
{
    aq_state_cfg cfg = {
        .kv_type = kv_type, .n_page = 16, .max_seq = 6, .n_snap = 4, .max_rows = RIG_ROWS};
    aq_err err = {0};
    int rc = r->be->state(r->w, &cfg, ret, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc;
}

__attribute__((unused)) static int rig_op(rig *r, void *s, uint16_t kind, uint32_t seq,
                                          uint32_t from, uint64_t arg)
{
    aq_op o = {.kind = kind, .seq = seq, .from = from, .arg = arg};
    return r->be->apply(s, &o, 1, NULL);
}

/* The token at a place of a timeline. */
__attribute__((unused)) static int32_t rig_tok(uint32_t line, uint32_t pos)
{
    return (int32_t)(((pos + 1) * 2654435761u ^ line * 40503u) >> 7) % (int32_t)GW_VOCAB;
}

/* Rows of any seqs; logits of all [n][vocab], hidden rows (may be NULL) [n][embd]. */
__attribute__((unused)) static int rig_window(rig *r, void *s, aq_row *row, uint32_t n,
                                              const aq_expert_host *const *hosts, uint32_t n_hosts,
                                              float *logits, float *hidden, const atomic_uint *stop,
                                              aq_err *err)
{
    AQ_AUTOFREE float *x = malloc((size_t)n * r->wide * sizeof(float)),
                      *y = malloc((size_t)n * r->wide * sizeof(float));
    for (uint32_t i = 0; i < n; i++)
        row[i].flags |= AQ_ROW_LOGITS;
    aq_window w = {.n_rows = n, .n_back = n, .row = row, .x = x};
    int rc = x && y ? r->be->embed(r->w, row, n, x, err) : -AQ_E_NOMEM;
    if (rc == 0)
        rc = r->be->forward(r->w, s, &w, hosts, n_hosts, y, stop, err);
    return rc < 0 ? rc : r->be->head(r->w, y, n, logits, hidden, err);
}

/* n tokens of a timeline from pos on, for one seq; logits of all of them. */
__attribute__((unused)) static int rig_feed(rig *r, void *s, uint32_t seq, uint32_t line,
                                            uint32_t pos, uint32_t n, float *logits)
{
    aq_row row[RIG_ROWS];
    aq_err err = {0};
    for (uint32_t i = 0; i < n; i++)
        row[i] = (aq_row){.seq = seq, .pos = pos + i, .tok = rig_tok(line, pos + i)};
    int rc = rig_window(r, s, row, n, NULL, 0, logits, NULL, NULL, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc;
}

/* Positions [pos, pos + n) of a timeline in windows of `chunk`. */
__attribute__((unused)) static int rig_feed_by(rig *r, void *s, uint32_t seq, uint32_t line,
                                               uint32_t pos, uint32_t n, uint32_t chunk,
                                               float *logits)
{
    int rc = 0;
    for (uint32_t i = 0, k; rc == 0 && i < n; i += k) {
        k = AQ_MIN(chunk, n - i);
        rc = rig_feed(r, s, seq, line, pos + i, k, logits + (size_t)i * r->vocab);
    }
    return rc;
}

#endif
