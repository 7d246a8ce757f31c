/* SPDX-License-Identifier: Apache-2.0 */
/* The reference backend: scalar f32, the yardstick of every other one. Weights stay as stored and are dequantised a row at a time,
 * exactly as their format says; products sum in double. Threads share the rows of a matrix, which changes no bit. Thread: the stage's. */
#include "forward-priv.h"
#include "rt-priv.h"

#define CHUNK_ROWS 16u /* matrix rows of one piece of work */
#define LANES 8u       /* independent sums of a dot product: one order, whatever the machine */

typedef struct ref {
    aq_rt *rt;
    uint32_t n_worker;
    size_t wide; /* longest matrix row */
    float *row;  /* [n_worker][wide] a dequantised row */
    size_t ff;   /* widest expert */
    float *mid;  /* [n_worker][2][ff] gate and up of one row in one expert */
} ref;

static void ref_close(void *ctx)
{
    ref *r = ctx;
    if (!r)
        return;
    free(r->row);
    free(r->mid);
    free(r);
}

static int ref_open(aq_rt *rt, const aq_model *m, void **ret, aq_err *err)
{
    ref *r = calloc(1, sizeof(*r));
    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "reference backend: out of memory");
    r->rt = rt;
    r->n_worker = aq_rt_threads(rt);
    for (uint32_t i = 0; i < m->n_tensor; i++)
        r->wide = AQ_MAX(r->wide, m->tensor[i].ne[0]);
    for (uint32_t l = 0; l < m->info.n_layer + m->info.n_draft; l++) {
        r->ff = AQ_MAX(r->ff, m->layer[l].n_ff_exp);
        r->wide = AQ_MAX(r->wide, m->layer[l].d_nope); /* a row of transposed keys */
    }
    if (r->wide > SIZE_MAX / 64 / r->n_worker)
        r->wide = 0;
    r->row = malloc(r->n_worker * r->wide * sizeof(float));
    r->mid = malloc(r->n_worker * 2 * r->ff * sizeof(float) + 1);
    if (!r->row || !r->mid || r->wide == 0) {
        ref_close(r);
        return aq_fail(err, AQ_E_NOMEM, "reference backend: out of memory");
    }
    *ret = r;
    return 0;
}

static size_t row_bytes(const aq_mat *m)
{
    return (size_t)m->cols / m->type->block_vals * m->type->block_bytes;
}

static int ref_mat_load(void *ctx, const aq_mat_src *src, aq_mat *m, aq_err *err)
{
    if (!m->type->dequant)
        return aq_fail(err, AQ_E_UNSUPPORTED, "storage type %s is not supported", m->type->name);
    if (m->cols % m->type->block_vals)
        return aq_fail(err, AQ_E_FORMAT, "rows of %u values are no whole blocks of %s", m->cols,
                       m->type->name);
    size_t one = row_bytes(m) * m->rows;
    m->bytes = one * m->n_mat;
    m->data = aligned_alloc(64, (m->bytes + 63) / 64 * 64);
    if (!m->data)
        return aq_fail(err, AQ_E_NOMEM, "%zu bytes of weights: out of memory", m->bytes);
    int rc = 0;
    for (uint32_t e = 0; rc == 0 && e < m->n_mat; e++)
        rc = aq_mat_read(src, aq_mat_src_row(src, e, 0) * row_bytes(m),
                         (uint8_t *)m->data + e * one, one, err);
    if (rc < 0) {
        free(m->data);
        m->data = NULL;
    }
    return rc;
}

static void ref_mat_drop(void *ctx, aq_mat *m)
{
    free(m->data);
    m->data = NULL;
}

static const void *mat_at(const aq_mat *m, uint32_t mat, uint32_t row)
{
    return (const uint8_t *)m->data + ((size_t)mat * m->rows + row) * row_bytes(m);
}

static void ref_mat_row(void *ctx, const aq_mat *m, uint32_t row, float *y)
{
    m->type->dequant(mat_at(m, 0, row), y, m->cols);
}

static float dot(const float *w, const float *x, uint32_t n)
{
    double lane[LANES] = {0}, sum = 0;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t j = 0; j < LANES; j++)
            lane[j] += (double)w[i + j] * x[i + j];
    for (; i < n; i++)
        sum += (double)w[i] * x[i];
    for (uint32_t j = 0; j < LANES; j++)
        sum += lane[j];
    return (float)sum;
}

/* y[r * stride + i] for rows [i0, i1) of matrix `mat` and n rows of x. */
static void product(const aq_mat *m, uint32_t mat, uint32_t i0, uint32_t i1, const float *x,
                    uint32_t n, float *row, float *y, size_t stride)
{
    float fac = aq_mat_fac(m, mat);
    for (uint32_t i = i0; i < i1; i++) {
        m->type->dequant(mat_at(m, mat, i), row, m->cols);
        for (uint32_t r = 0; r < n; r++)
            y[r * stride + i] = fac * dot(row, x + (size_t)r * m->cols, m->cols);
    }
}

typedef struct mul_job {
    ref *r;
    const aq_mul *mul;
    const float *x;
    uint32_t n;
} mul_job;

static void mul_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const mul_job *j = ctx;
    const aq_mat *m = j->mul->m;
    uint32_t i0 = chunk * CHUNK_ROWS, i1 = AQ_MIN(i0 + CHUNK_ROWS, m->rows);
    product(m, j->mul->mat, i0, i1, j->x, j->n, j->r->row + worker * j->r->wide, j->mul->y,
            m->rows);
}

static void ref_matmul(void *ctx, const aq_mul *mul, uint32_t n_mul, const float *x, uint32_t n)
{
    ref *r = ctx;
    for (uint32_t i = 0; i < n_mul; i++) {
        mul_job job = {.r = r, .mul = &mul[i], .x = x, .n = n};
        aq_pool_run(r->rt->pool, mul_chunk, &job, (mul[i].m->rows + CHUNK_ROWS - 1) / CHUNK_ROWS);
    }
}

typedef struct exp_job {
    ref *r;
    const aq_experts *ex;
    const aq_expert_job *job;
} exp_job;

static void add_bias(float *y, const float *bias, int32_t e, uint32_t n)
{
    for (uint32_t i = 0; bias && i < n; i++)
        y[i] += bias[(size_t)e * n + i];
}

/* One slot of one row. */
static void exp_chunk(void *ctx, uint32_t slot, uint32_t worker)
{
    const exp_job *j = ctx;
    int32_t e = j->job->expert[slot];
    const aq_mat *gate = j->ex->gate, *up = j->ex->up, *down = j->ex->down;
    uint32_t ff = gate->rows, embd = down->rows;
    if (e < 0)
        return;
    float *row = j->r->row + worker * j->r->wide, *g = j->r->mid + worker * 2 * j->r->ff,
          *u = g + ff;
    const float *x = j->job->x + (size_t)(slot / j->job->k) * gate->cols;
    float *y = j->job->y + (size_t)slot * embd;
    product(gate, (uint32_t)e - gate->e0, 0, ff, x, 1, row, g, 0);
    product(up, (uint32_t)e - up->e0, 0, ff, x, 1, row, u, 0);
    add_bias(g, j->ex->gate_bias, e, ff);
    add_bias(u, j->ex->up_bias, e, ff);
    aq_scalar_glu(NULL, j->ex->act, g, u, ff, g);
    product(down, (uint32_t)e - down->e0, 0, embd, g, 1, row, y, 0);
    add_bias(y, j->ex->down_bias, e, embd);
    for (uint32_t i = 0; i < embd; i++)
        y[i] *= j->job->w[slot];
}

static void ref_experts(void *ctx, const aq_experts *ex, const aq_expert_job *job)
{
    ref *r = ctx;
    exp_job j = {.r = r, .ex = ex, .job = job};
    aq_pool_run(r->rt->pool, exp_chunk, &j, job->n_rows * job->k);
}

static const aq_blocks ref_blocks = {
    .name = "reference",
    .open = ref_open,
    .close = ref_close,
    .mat_load = ref_mat_load,
    .mat_drop = ref_mat_drop,
    .mat_row = ref_mat_row,
    .matmul = ref_matmul,
    .experts = ref_experts,
    .norm = aq_scalar_norm,
    .rope = aq_scalar_rope,
    .kv_put = aq_scalar_kv_put,
    .attend = aq_scalar_attend,
    .choose = aq_scalar_choose,
    .glu = aq_scalar_glu,
    .delta = aq_scalar_delta,
};

static int ref_load(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                    uint32_t l0, uint32_t l1, aq_progress *p, void **ret_w, aq_err *err)
{
    return aq_net_load(&ref_blocks, rt, m, src, place, l0, l1, p, ret_w, err);
}

const aq_backend aq_backend_reference = AQ_NET_BACKEND("reference", ref_load, &ref_blocks);
