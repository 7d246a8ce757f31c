/* SPDX-License-Identifier: Apache-2.0 */
/* A model driven by hand: one backend with all layers and the ends, one seq. One thread at a time. */
#include "forward-priv.h"
#include "rt-priv.h"
#include "sampler-priv.h"

struct aq_eval {
    const aq_model *model;
    const aq_backend *be;
    void *w, *s;
    uint32_t max_rows, len;
    aq_row *row;  /* [max_rows] */
    float *x, *y; /* [max_rows][row_f32] */
};

void aq_eval_free(aq_eval *e)
{
    if (!e)
        return;
    if (e->be) {
        e->be->drop_state(e->s);
        e->be->drop(e->w);
    }
    free(e->row);
    free(e->x);
    free(e->y);
    free(e);
}

int aq_eval_new(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                uint32_t kv_type, uint32_t n_ctx, uint32_t max_rows, aq_progress *progress,
                aq_eval **ret, aq_err *err)
{
    if (n_ctx == 0 || n_ctx > AQ_CTX_MAX || max_rows == 0 || max_rows > AQ_ROWS_MAX)
        return aq_fail(err, AQ_E_INVAL,
                       "a context of %u tokens in windows of %u rows is out of range", n_ctx,
                       max_rows);
    aq_place p = place ? *place : (aq_place){0};
    p.flags |= AQ_PLACE_ENDS;
    aq_state_cfg cfg = {.kv_type = kv_type,
                        .n_page = (n_ctx + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK,
                        .max_seq = 1,
                        .max_rows = max_rows};
    size_t row_f32 = m->info.row_f32;
    AQ_AUTO(aq_eval_free) aq_eval *e = calloc(1, sizeof(*e));
    if (!e)
        return aq_fail(err, AQ_E_NOMEM, "eval: out of memory");
    e->model = m;
    e->max_rows = max_rows;
    int rc = aq_backend_find(p.backend, &e->be, err);
    if (rc < 0)
        return rc;
    rc = aq_mem_check(aq_net_load_bytes(m, &p, 0, m->info.n_layer),
                      aq_mem_state_bytes(&m->info, kv_type, n_ctx), aq_mem_free_bytes(), err);
    if (rc < 0)
        return rc;
    e->row = calloc(max_rows, sizeof(*e->row));
    e->x = malloc(max_rows * row_f32 * sizeof(float));
    e->y = malloc(max_rows * row_f32 * sizeof(float));
    if (!e->row || !e->x || !e->y)
        return aq_fail(err, AQ_E_NOMEM, "windows of %u rows: out of memory", max_rows);
    if (progress)
        atomic_store_explicit(&progress->total, aq_net_load_bytes(m, &p, 0, m->info.n_layer),
                              memory_order_relaxed);
    rc = e->be->load(rt, m, src, &p, 0, m->info.n_layer, progress, &e->w, err);
    if (rc == 0)
        rc = e->be->state(e->w, &cfg, &e->s, err);
    if (rc == 0)
        rc = e->be->apply(e->s, &(aq_op){.kind = AQ_OP_KEEP}, 1, err);
    if (rc < 0)
        return rc;
    *ret = AQ_STEAL(e);
    return 0;
}

static int rows(aq_eval *e, const int32_t *tok, uint32_t n, uint32_t pos0, aq_err *err)
{
    if (n == 0 || n > e->max_rows)
        return aq_fail(err, AQ_E_INVAL, "%u tokens in one window: 1 to %u are possible", n,
                       e->max_rows);
    for (uint32_t i = 0; i < n; i++)
        e->row[i] = (aq_row){.pos = pos0 + i, .tok = tok[i], .flags = AQ_ROW_LOGITS};
    return 0;
}

/** Logits [n][n_vocab] that somebody asked for are numbers, or FORMAT. */
static int check_rows(const aq_eval *e, const float *logits, uint32_t n, aq_err *err)
{
    uint32_t n_vocab = e->model->info.n_vocab;
    for (uint32_t i = 0; logits && i < n; i++) {
        int rc = aq_logits_check(logits + (size_t)i * n_vocab, n_vocab, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int aq_eval_rows(aq_eval *e, const int32_t *tok, uint32_t n, bool last_only, float *ret_logits,
                 float *ret_hidden, aq_err *err)
{
    int rc = rows(e, tok, n, e->len, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; last_only && !ret_hidden && i + 1 < n; i++)
        e->row[i].flags = 0;
    uint32_t n_back = last_only && !ret_hidden ? 1 : n;
    aq_window win = {.n_rows = n, .n_back = n_back, .row = e->row, .x = e->x};
    rc = e->be->embed(e->w, e->row, n, e->x, err);
    if (rc == 0)
        rc = e->be->forward(e->w, e->s, &win, NULL, 0, e->y, NULL, err);
    if (rc < 0)
        return rc;
    e->len += n;
    if (last_only && ret_hidden) {
        rc = e->be->head(e->w, e->y, n, NULL, ret_hidden, err);
        if (rc == 0)
            rc = e->be->head(e->w, e->y + (size_t)(n - 1) * e->model->info.row_f32, 1, ret_logits,
                             NULL, err);
    } else if (ret_logits || ret_hidden)
        rc = e->be->head(e->w, e->y, n_back, ret_logits, ret_hidden, err);
    if (rc == 0)
        rc = e->be->sync(e->w, err);
    return rc < 0 ? rc : check_rows(e, ret_logits, last_only ? 1 : n, err);
}

int aq_eval_draft(aq_eval *e, const int32_t *tok, const float *hidden, uint32_t n, uint32_t pos0,
                  float *ret_logits, float *ret_hidden, aq_err *err)
{
    int rc = rows(e, tok, n, pos0, err);
    if (rc < 0)
        return rc;
    aq_window win = {.n_rows = n, .n_back = n, .row = e->row, .x = hidden};
    rc = e->be->draft(e->w, e->s, &win, ret_logits, ret_hidden, NULL, err);
    if (rc == 0)
        rc = e->be->sync(e->w, err);
    return rc < 0 ? rc : check_rows(e, ret_logits, n, err);
}

int aq_eval_keep(aq_eval *e, uint32_t n_tok, aq_err *err)
{
    int rc = e->be->apply(e->s, &(aq_op){.kind = AQ_OP_KEEP, .arg = n_tok}, 1, err);
    if (rc == 0)
        e->len = n_tok;
    return rc;
}

uint64_t aq_eval_weight_bytes(const aq_eval *e)
{
    return e->be->bytes(e->w, NULL);
}
