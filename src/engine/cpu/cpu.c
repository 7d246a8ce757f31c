/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu backend: the walk's operations by the kernels of the chosen path. Matrices lie in tiles
 * (cpu-priv.h), packed while they are read, in slabs of huge pages; inputs of quantised matrices
 * are rounded to 8 bits per 32 values (aq_mat.fine: to 16). Thread: load any one, the rest the stage's. */
#include <math.h>
#include <sys/mman.h>

#include "product-priv.h"

#define SLAB_BYTES ((size_t)32 << 20)
#define HUGE_BYTES ((size_t)2 << 20)
#define STAGE_BYTES \
    ((size_t)8 << 20)  /* rows as stored between reading and packing; one row may need more */
#define PAR_F32 16384u /* operations on fewer values than this are not shared */

/* ---- memory of weights ---- */

static uint8_t *slab_take(aq_cpu *c, size_t n)
{
    n = (n + 63) / 64 * 64;
    aq_slab *s = c->slab;
    if (!s || s->n - s->used < n) {
        size_t size = (AQ_MAX(n, SLAB_BYTES) + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
        s = calloc(1, sizeof *s);
        uint8_t *p =
            s ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
              : MAP_FAILED;
        if (p == MAP_FAILED) {
            free(s);
            return NULL;
        }
        madvise(p, size, MADV_HUGEPAGE); /* advice: refused is fine */
        *s = (aq_slab){.next = c->slab, .p = p, .n = size};
        c->slab = s;
    }
    uint8_t *p = s->p + s->used;
    s->used += n;
    return p;
}

/* ---- context ---- */

static void scratch_clear(aq_cpu *c)
{
    for (int f = 0; f < AQ_IN_N; f++) {
        aq_acts_clear(&c->acts[f]);
        aq_acts_clear(&c->acts_exp[f]);
    }
    free(c->mid);
    free(c->order);
    free(c->order_row);
    c->mid = NULL;
    c->order = c->order_row = NULL;
    c->cap = 0;
}

static void cpu_close(void *ctx)
{
    aq_cpu *c = ctx;
    if (!c)
        return;
    scratch_clear(c);
    while (c->slab) {
        aq_slab *s = c->slab;
        c->slab = s->next;
        munmap(s->p, s->n);
        free(s);
    }
    free(c->first);
    free(c->active);
    free(c->side);
    free(c->panel);
    free(c->entries);
    free(c->sums);
    free(c->spans);
    free(c);
}
AQ_CLEANUP_FUNC(void *, cpu_close)

int aq_cpu_reserve(void *ctx, uint32_t max_rows, aq_err *err)
{
    aq_cpu *c = ctx, old = *c;
    uint32_t n = AQ_MIN(AQ_MAX(max_rows, 1u), AQ_CPU_ROWS_MAX), slots = n * c->n_used;
    if (n <= c->cap)
        return 0;
    memset(c->acts, 0, sizeof c->acts);
    memset(c->acts_exp, 0, sizeof c->acts_exp);
    c->mid = NULL;
    c->order = c->order_row = NULL;
    int rc = 0;
    for (int f = 0; rc == 0 && f < AQ_IN_N; f++)
        if (c->forms >> f & 1) {
            rc = aq_acts_new(f, n, c->wide, &c->acts[f], err);
            if (rc == 0 && slots)
                rc = aq_acts_new(f, slots, c->wide_exp, &c->acts_exp[f], err);
        }
    if (rc == 0 && slots) {
        c->mid = malloc(2 * (size_t)slots * c->wide_exp * sizeof *c->mid);
        c->order = malloc(slots * sizeof *c->order);
        c->order_row = malloc(slots * sizeof *c->order_row);
        if (rc == 0 && (!c->mid || !c->order || !c->order_row))
            rc = aq_fail(err, AQ_E_NOMEM, "scratch for %u rows in experts: out of memory", n);
    }
    if (rc < 0) {
        scratch_clear(c);
        *c = old; /* what was there still serves */
        return rc;
    }
    scratch_clear(&old);
    c->cap = n;
    return 0;
}

static int cpu_open(aq_rt *rt, const aq_model *m, void **ret, aq_err *err)
{
    aq_cpu *c = calloc(1, sizeof *c);
    AQ_AUTO(cpu_close) void *guard = c;
    if (!c)
        return aq_fail(err, AQ_E_NOMEM, "cpu backend: out of memory");
    c->rt = rt;
    c->isa = rt->isa;
    uint64_t wide = 1;
    bool convert = false;
    c->forms = 1u << AQ_IN_F32;
    for (uint32_t i = 0; i < m->n_tensor; i++) {
        int l = aq_layout_of(m->tensor[i].type->id);
        wide = AQ_MAX(wide, m->tensor[i].ne[0]);
        if (l < 0)
            continue;
        int form = aq_cpu_form(rt, l, (uint32_t)AQ_MIN(m->tensor[i].ne[0], UINT32_MAX));
        c->forms |= 1u << form;
        convert = convert || l >= AQ_L_STORED || (form == AQ_IN_F32 && !aq_layout_is_float(l));
    }
    for (uint32_t l = 0; l < m->info.n_layer + m->info.n_draft; l++)
        wide = AQ_MAX(wide, m->layer[l].d_nope); /* a row of transposed keys */
    if (wide > 1u << 22)
        return aq_fail(err, AQ_E_LIMIT, "rows of %llu values are too long (at most %u)",
                       (unsigned long long)wide, 1u << 22);
    c->wide = (uint32_t)wide;
    for (uint32_t l = 0; l < m->info.n_layer + m->info.n_draft; l++) {
        const aq_layer *d = &m->layer[l];
        c->wide_kv = AQ_MAX(c->wide_kv, AQ_MAX(d->d_k, d->d_v));
        if (!d->n_exp)
            continue;
        c->wide_exp = AQ_MAX(c->wide_exp, d->n_ff_exp);
        c->n_used = AQ_MAX(c->n_used, d->n_used);
        c->n_exp = AQ_MAX(c->n_exp, d->n_exp);
    }
    c->first = calloc(c->n_exp + 1, sizeof *c->first);
    c->active = calloc(c->n_exp + 1, sizeof *c->active);
    c->entries = aligned_alloc(64, ((size_t)aq_rt_threads(rt) * AQ_ATTN_TOK * c->wide_kv + 16) *
                                       sizeof *c->entries);
    c->sums =
        malloc(aq_rt_threads(rt) * (size_t)AQ_ATTN_QUERIES * c->wide_kv * sizeof *c->sums + 1);
    c->spans = malloc(AQ_ATTN_SPANS_F32 * sizeof *c->spans);
    if (convert)
        c->panel = malloc((size_t)aq_rt_threads(rt) * c->wide * c->isa->lanes * sizeof *c->panel);
    if (c->isa->many[AQ_L_Q4_K]) {
        c->side_bytes = aq_side_bytes(c->wide);
        c->side = aligned_alloc(64, 2 * aq_rt_threads(rt) * c->side_bytes);
    }
    if (!c->first || !c->active || !c->entries || !c->sums || !c->spans || (convert && !c->panel) ||
        (c->side_bytes && !c->side))
        return aq_fail(err, AQ_E_NOMEM, "cpu backend: out of memory");
    int rc = aq_cpu_reserve(c, 8, err);
    if (rc < 0)
        return rc;
    *ret = AQ_STEAL(guard);
    return 0;
}

/* ---- matrices ---- */

/* Loading one stack of matrices: a piece is a batch of rows of one of them, as stored. The thread that loads reads
 * a piece for each worker, then all put them into tiles: no piece of the pool's waits for a disk, which
 * would keep those who compute waiting, too. */
typedef struct load_job {
    const aq_mat *m;
    int layout;
    uint32_t lanes, batch, per_mat, first; /* rows and pieces of a matrix; the first piece */
    size_t row, tile, mat;                 /* bytes */
    uint8_t *data, *stage;                 /* stage [threads][batch][row] */
} load_job;

static uint32_t piece_rows(const load_job *j, uint32_t at, uint32_t *ret_mat, uint32_t *ret_row)
{
    *ret_mat = at / j->per_mat;
    *ret_row = at % j->per_mat * j->batch;
    return AQ_MIN(j->batch, j->m->rows - *ret_row);
}

static void load_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const load_job *j = ctx;
    uint32_t e, r0, n = piece_rows(j, j->first + piece, &e, &r0);
    const uint8_t *stage = j->stage + (size_t)piece * j->batch * j->row;
    uint8_t *t = j->data + e * j->mat + r0 / j->lanes * j->tile;
    for (uint32_t r = 0; r < n; r++)
        aq_tile_put(j->layout, j->lanes, j->m->cols, r % j->lanes, stage + r * j->row,
                    t + r / j->lanes * j->tile);
}

static int cpu_mat_load(void *ctx, const aq_mat_src *src, aq_mat *m, aq_err *err)
{
    aq_cpu *c = ctx;
    int l = aq_layout_of(m->type->id);
    if (l < 0)
        return aq_fail(err, AQ_E_UNSUPPORTED, "storage type %s is not supported by the cpu backend",
                       m->type->name);
    if (m->cols % m->type->block_vals)
        return aq_fail(err, AQ_E_FORMAT, "rows of %u values are no whole blocks of %s", m->cols,
                       m->type->name);
    uint32_t lanes = c->isa->lanes, threads = aq_rt_threads(c->rt);
    size_t row = (size_t)(m->cols / m->type->block_vals) * m->type->block_bytes,
           stage_bytes = AQ_MAX(STAGE_BYTES / threads, STAGE_BYTES / 32);
    uint32_t batch = (uint32_t)AQ_MAX(stage_bytes / (row * lanes), 1u) * lanes; /* whole tiles */
    batch = AQ_MIN(batch, (m->rows + lanes - 1) / lanes * lanes);
    load_job j = {.m = m,
                  .layout = l,
                  .lanes = lanes,
                  .batch = batch,
                  .per_mat = (m->rows + batch - 1) / batch,
                  .row = row,
                  .tile = aq_tile_bytes(l, lanes, m->cols),
                  .mat = aq_mat_tiles_bytes(m, lanes)};
    m->bytes = j.mat * m->n_mat;
    AQ_AUTOFREE uint8_t *stage = malloc((size_t)threads * batch * row);
    j.stage = stage;
    j.data = stage ? slab_take(c, m->bytes) : NULL; /* zeroed: padding of the last tile stays so */
    if (!j.data)
        return aq_fail(err, AQ_E_NOMEM, "%zu bytes of weights: out of memory", m->bytes);
    for (uint32_t all = j.per_mat * m->n_mat, n; j.first < all; j.first += n) {
        n = AQ_MIN(all - j.first, threads);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t e, r0, rows = piece_rows(&j, j.first + i, &e, &r0);
            int rc = aq_mat_read(src, aq_mat_src_row(src, e, r0) * row,
                                 stage + (size_t)i * batch * row, rows * row, err);
            if (rc < 0)
                return rc;
        }
        aq_pool_run(c->rt->pool, load_piece, &j, n);
    }
    m->data = j.data;
    return 0;
}

static void cpu_mat_drop(void *ctx, aq_mat *m)
{
    m->data = NULL; /* slabs go with the context */
}

static void cpu_mat_row(void *ctx, const aq_mat *m, uint32_t row, float *y)
{
    const aq_cpu *c = ctx;
    int l = aq_layout_of(m->type->id);
    uint32_t lanes = c->isa->lanes;
    aq_tile_get(l, lanes, m->cols, row % lanes,
                (const uint8_t *)m->data + row / lanes * aq_tile_bytes(l, lanes, m->cols), y, 1);
}

/* ---- rows ---- */

typedef struct norm_job {
    const aq_isa *isa;
    const float *x, *w;
    uint32_t n, dim, per;
    float eps, *y;
} norm_job;

static void norm_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const norm_job *j = ctx;
    for (uint32_t i = piece * j->per; i < AQ_MIN((piece + 1) * j->per, j->n); i++)
        j->isa->norm(j->x + (size_t)i * j->dim, j->w, j->dim, j->eps, j->y + (size_t)i * j->dim);
}

static void cpu_norm(void *ctx, const float *x, const float *w, uint32_t n, uint32_t dim, float eps,
                     float *y)
{
    const aq_cpu *c = ctx;
    norm_job j = {.isa = c->isa,
                  .x = x,
                  .w = w,
                  .n = n,
                  .dim = dim,
                  .eps = eps,
                  .y = y,
                  .per = AQ_MAX(PAR_F32 / dim, 1u)};
    aq_pool_run(c->rt->pool, norm_piece, &j, (n + j.per - 1) / j.per);
}

typedef struct glu_job {
    const aq_isa *isa;
    int act;
    const float *gate, *up;
    float *y;
    size_t n;
} glu_job;

static void glu_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const glu_job *j = ctx;
    size_t at = (size_t)piece * PAR_F32;
    aq_cpu_glu(j->isa, j->act, j->gate + at, j->up + at, AQ_MIN(j->n - at, PAR_F32), j->y + at);
}

static void cpu_glu(void *ctx, int act, const float *gate, const float *up, size_t n, float *y)
{
    const aq_cpu *c = ctx;
    glu_job j = {.isa = c->isa, .act = act, .gate = gate, .up = up, .y = y, .n = n};
    aq_pool_run(c->rt->pool, glu_piece, &j, (uint32_t)((n + PAR_F32 - 1) / PAR_F32));
}

typedef struct put_job {
    const aq_isa *isa;
    const aq_kv *kv;
    const aq_run *run;
    const float *k, *v;
} put_job;

#define PUT_ROWS 8u /* of a piece */
static void put_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const put_job *j = ctx;
    const aq_kv *kv = j->kv;
    aq_run run = *j->run;
    uint32_t first = piece * PUT_ROWS;
    run.row0 += first;
    run.kv0 += first;
    run.n = AQ_MIN(run.n - first, PUT_ROWS);
    if (kv->type != AQ_KV_F16) {
        aq_scalar_kv_put(NULL, kv, &run, 1, j->k, j->v);
        return;
    }
    for (uint32_t i = 0; i < run.n; i++) {
        uint32_t t = run.kv0 + i, page = run.page[t / AQ_PAGE_TOK], at = t % AQ_PAGE_TOK;
        size_t row = (size_t)run.row0 + i;
        for (uint32_t h = 0; h < kv->n_kv; h++) {
            j->isa->to_f16(j->k + (row * kv->n_kv + h) * kv->d_k, kv->d_k,
                           aq_kv_k(kv, page, h, at));
            if (j->v)
                j->isa->to_f16(j->v + (row * kv->n_kv + h) * kv->d_v, kv->d_v,
                               aq_kv_v(kv, page, h, at));
        }
    }
}

static void cpu_kv_put(void *ctx, const aq_kv *kv, const aq_run *run, uint32_t n_run,
                       const float *k, const float *v)
{
    const aq_cpu *c = ctx;
    for (; n_run > 0; n_run--, run++) {
        put_job j = {c->isa, kv, run, k, v};
        aq_cpu_share(c, put_piece, &j, (run->n + PUT_ROWS - 1) / PUT_ROWS,
                     (uint64_t)run->n * kv->n_kv * (kv->d_k + kv->d_v));
    }
}

typedef struct delta_job {
    const aq_isa *isa;
    const aq_delta *a;
} delta_job;

/* A piece is a head with all its rows: its state stays in the caches from row to row. */
static void delta_piece(void *ctx, uint32_t h, uint32_t worker)
{
    const delta_job *j = ctx;
    const aq_delta *a = j->a;
    uint32_t ds = a->d->d_state, n_kh = a->d->n_kh, n_vh = a->d->n_vh;
    uint32_t kh = a->d->kh_grouped ? h / (n_vh / n_kh) : h % n_kh;
    size_t at = (size_t)h * ds * ds;
    for (uint32_t t = 0; t < a->n; t++) {
        const float *q = a->q + t * a->stride + (size_t)kh * ds,
                    *k = a->k + t * a->stride + (size_t)kh * ds,
                    *v = a->v + t * a->stride + (size_t)h * ds;
        float e = (float)exp((double)a->decay[(size_t)t * n_vh + h]);
        j->isa->delta(ds, e, a->beta[(size_t)t * n_vh + h], q, k, v, (t ? a->s_out : a->s_in) + at,
                      a->s_out + at, a->o + ((size_t)t * n_vh + h) * ds);
    }
}

static void cpu_delta(void *ctx, const aq_delta *a)
{
    const aq_cpu *c = ctx;
    delta_job j = {.isa = c->isa, .a = a};
    uint32_t n_vh = a->d->n_vh;
    aq_cpu_share(c, delta_piece, &j, n_vh,
                 4 * (uint64_t)a->n * n_vh * a->d->d_state * a->d->d_state);
}

typedef struct rope_job {
    float *x;
    uint32_t n, n_head, d, d_rot;
    int kind;
    const float *cs;
} rope_job;

static void rope_piece(void *ctx, uint32_t r, uint32_t worker)
{
    const rope_job *j = ctx;
    aq_scalar_rope(NULL, j->x + (size_t)r * j->n_head * j->d, 1, j->n_head, j->d, j->d_rot, j->kind,
                   j->cs + (size_t)r * (j->d_rot / 2) * 2);
}

static void cpu_rope(void *ctx, float *x, uint32_t n, uint32_t n_head, uint32_t d, uint32_t d_rot,
                     int kind, const float *cs)
{
    rope_job j = {.x = x, .n = n, .n_head = n_head, .d = d, .d_rot = d_rot, .kind = kind, .cs = cs};
    aq_cpu_share(ctx, rope_piece, &j, n, 8 * (uint64_t)n * n_head * d_rot);
}

static void cpu_share(void *ctx, void (*fn)(void *, uint32_t, uint32_t), void *arg, uint32_t n)
{
    aq_pool_run(((aq_cpu *)ctx)->rt->pool, fn, arg, n);
}

static const aq_blocks cpu_blocks = {
    .name = "cpu",
    .open = cpu_open,
    .reserve = aq_cpu_reserve,
    .close = cpu_close,
    .mat_load = cpu_mat_load,
    .mat_drop = cpu_mat_drop,
    .mat_row = cpu_mat_row,
    .matmul = aq_cpu_matmul,
    .experts = aq_cpu_experts,
    .norm = cpu_norm,
    .rope = cpu_rope,
    .kv_put = cpu_kv_put,
    .attend = aq_cpu_attend,
    .choose = aq_cpu_choose,
    .glu = cpu_glu,
    .delta = cpu_delta,
    .share = cpu_share,
};

static int cpu_load(aq_rt *rt, const aq_model *m, const aq_wsrc *src, const aq_place *place,
                    uint32_t l0, uint32_t l1, aq_progress *p, void **ret_w, aq_err *err)
{
    return aq_net_load(&cpu_blocks, rt, m, src, place, l0, l1, p, ret_w, err);
}

const aq_backend aq_backend_cpu = AQ_NET_BACKEND("cpu", cpu_load, &cpu_blocks);
