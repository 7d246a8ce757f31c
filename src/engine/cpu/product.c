/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices in tiles with rows, plain and by expert. A piece of work for the pool is a
 * few tiles of one matrix and all rows that meet it: weights come from memory once, and rows are
 * looked at in groups that stay in the caches. Row-invariance: see cpu-priv.h; nothing here adds
 * floats across rows, tiles or pieces. Thread: the stage's, and the pool's. */
#include "product-priv.h"

#define GROUP_ROWS AQ_MANY_ROWS /* rows that go through a piece's tiles together */
#define PIECES_PER_THREAD 8u
#define PIECE_TILES_FEW 16u /* for few rows: a piece that is late is not waited for long */
#define PIECE_TILES_MAX 64u /* for many: they lie side by side once for all tiles of a piece */

/* ---- rows ---- */

/* A scale per so many columns. */
static uint32_t block_of(int form)
{
    return form == AQ_IN_256 ? 256 : 32;
}

int aq_acts_new(int form, uint32_t n, uint32_t wide, aq_acts *ret, aq_err *err)
{
    wide = (wide + 63) / 64 * 64;
    wide += wide % 1024 ? 0 : 64; /* rows a power of two apart would share few sets of the caches */
    size_t rows = (size_t)n + 15; /* aq_rows_in: rows up to a multiple of 16 may be read */
    size_t n_block = (wide + block_of(form) - 1) / block_of(form);
    aq_acts a = {.form = form, .n = n, .wide = wide, .in = malloc(n * sizeof *a.in)};
    bool good = a.in;
    if (form != AQ_IN_F32) {
        a.to.q = aligned_alloc(64, rows * wide + 64);
        a.to.d = malloc(rows * n_block * sizeof *a.to.d);
        good = good && a.to.q && a.to.d;
    }
    if (form == AQ_IN_32) {
        a.to.s = malloc(rows * n_block * sizeof *a.to.s);
        a.to.n32 = malloc(rows * n_block * sizeof *a.to.n32);
        good = good && a.to.s && a.to.n32;
    }
    if (form == AQ_IN_256) {
        a.to.sum16 = malloc(rows * (wide / 16) * sizeof *a.to.sum16);
        a.to.sum32 = malloc(rows * (wide / 32) * sizeof *a.to.sum32);
        good = good && a.to.sum16 && a.to.sum32;
    }
    if (!good) {
        aq_acts_clear(&a);
        return aq_fail(err, AQ_E_NOMEM, "scratch for %u rows of %u values: out of memory", n, wide);
    }
    *ret = a;
    return 0;
}

void aq_acts_clear(aq_acts *a)
{
    free(a->to.q);
    free(a->to.d);
    free(a->to.s);
    free(a->to.n32);
    free(a->to.sum16);
    free(a->to.sum32);
    free(a->in);
    *a = (aq_acts){0};
}

/* Row i of a, whose input is x: where it is rounded to. */
static aq_row_q acts_row(const aq_acts *a, uint32_t i, const float *x)
{
    const size_t at = (size_t)i * a->wide;
    const size_t block = (size_t)i * ((a->wide + block_of(a->form) - 1) / block_of(a->form));
    aq_row_q o = {0};
    if (a->form != AQ_IN_F32) {
        o.q = a->to.q + at;
        o.d = a->to.d + block;
    }
    if (a->form == AQ_IN_32) {
        o.s = a->to.s + block;
        o.n32 = a->to.n32 + block;
    }
    if (a->form == AQ_IN_256) {
        o.sum16 = a->to.sum16 + at / 16;
        o.sum32 = a->to.sum32 + at / 32;
    }
    a->in[i] = (aq_row_in){x, o.q, o.d, o.s, o.n32, o.sum16, o.sum32};
    return o;
}

typedef struct prep_job {
    aq_cpu *c;
    aq_acts *a;     /* [AQ_IN_N] */
    const float *x; /* [n][stride]; with up: gate, of which act(gate, up) is made in place */
    float *gate, *up;
    const aq_experts *ex; /* with up: activation and biases; row i is slot order[i] */
    const int32_t *expert;
    const uint32_t *order;
    size_t stride;
    uint32_t k;
    uint32_t forms; /* bits 1 << AQ_IN_*: those that are made */
    uint32_t low; /* not 0: what rounding leaves of row i is rounded once more, into row low + i */
} prep_job;

static void add_bias(float *y, const float *bias, int32_t expert, uint32_t n)
{
    for (uint32_t i = 0; bias && i < n; i++)
        y[i] += bias[(size_t)expert * n + i];
}

static void round_row(const aq_isa *isa, int form, const float *x, uint32_t k, const aq_row_q *o)
{
    if (form == AQ_IN_256)
        isa->quant_256(x, k, o);
    else if (form == AQ_IN_32)
        isa->quant(x, k, o);
}

/* x - d q, rounded in its turn: 16 bits in all. */
static void prep_low(const prep_job *j, const aq_acts *a, const float *x, uint32_t i)
{
    const uint32_t block = block_of(a->form);
    const aq_row_in hi = a->in[i];
    aq_row_q o = acts_row(a, j->low + i, NULL);
    for (uint32_t b = 0; b < j->k / block; b++) {
        float left[256];
        for (uint32_t c = 0; c < block; c++)
            left[c] = x[block * b + c] - hi.d[b] * hi.q[block * b + c];
        round_row(j->c->isa, a->form, left, block, &o);
        o.q += block;
        o.d++;
        if (a->form == AQ_IN_32) {
            o.s++;
            o.n32++;
        } else {
            o.sum16 += 16;
            o.sum32 += 8;
        }
    }
}

static void prep_row(void *ctx, uint32_t i, uint32_t worker)
{
    const prep_job *j = ctx;
    const float *x = j->x + i * j->stride;
    if (j->up) {
        float *gate = j->gate + i * j->stride, *up = j->up + i * j->stride;
        int32_t e = j->expert[j->order[i]];
        add_bias(gate, j->ex->gate_bias, e, j->k);
        add_bias(up, j->ex->up_bias, e, j->k);
        aq_cpu_glu(j->c->isa, j->ex->act, gate, up, j->k, gate);
    }
    for (int f = 0; f < AQ_IN_N; f++)
        if (j->forms >> f & 1) {
            const aq_row_q o = acts_row(&j->a[f], i, x);
            round_row(j->c->isa, f, x, j->k, &o);
            if (f != AQ_IN_F32 && j->low)
                prep_low(j, &j->a[f], x, i);
        }
}

static void prepare(const prep_job *j, uint32_t n)
{
    aq_cpu_share(j->c, prep_row, (void *)j, n,
                 16 * (uint64_t)n * j->k); /* a value costs as much as 16 multiplications */
}

/* ---- tiles × rows ---- */

/* Row i of the product: input in[in_at[i]], output y + out_at[i] × stride, times w[out_at[i]]. NULL
 * = i, i and 1. */
typedef struct product {
    int layout, form; /* form: of the input rows, AQ_IN_* */
    const uint8_t *tile;
    size_t tile_bytes;
    uint32_t lanes, k, rows, n_tile, n;
    const aq_row_in *in;
    size_t wide;          /* from one row's q to the next's, where in_at is NULL */
    const aq_row_in *low; /* what rounding left of the rows, or NULL: added to their results */
    const uint32_t *in_at, *out_at;
    const float *w;
    float fac; /* of all results */
    float *y;
    size_t stride;
} product;

static product product_of(const aq_cpu *c, const aq_mat *m, uint32_t mat)
{
    int l = aq_layout_of(m->type->id);
    uint32_t lanes = c->isa->lanes;
    return (product){.layout = l,
                     .form = aq_cpu_form(c->rt, l, m->cols),
                     .tile = (const uint8_t *)m->data + mat * aq_mat_tiles_bytes(m, lanes),
                     .tile_bytes = aq_tile_bytes(l, lanes, m->cols),
                     .lanes = lanes,
                     .k = m->cols,
                     .rows = m->rows,
                     .fac = aq_mat_fac(m, mat),
                     .n_tile = (m->rows + lanes - 1) / lanes};
}

/* Row r of a product, of n_tile tiles from t on. */
static void put_row(const product *p, uint32_t t, uint32_t n_tile, uint32_t r, float *y)
{
    uint32_t n_out = AQ_MIN(p->rows - t * p->lanes, n_tile * p->lanes);
    size_t at = p->out_at ? p->out_at[r] : r;
    float by = p->fac * (p->w ? p->w[at] : 1);
    if (by != 1)
        for (uint32_t j = 0; j < n_out; j++)
            y[j] *= by;
    memcpy(p->y + at * p->stride + t * p->lanes, y, n_out * sizeof(float));
}

static void add_low(float *y, const float *low, uint32_t lanes)
{
    for (uint32_t j = 0; j < lanes; j++)
        y[j] += low[j];
}

static aq_row_in row_in(const product *p, uint32_t r)
{
    return p->in[p->in_at ? p->in_at[r] : r];
}

/* With `low` a row and what rounding left of it go through side by side. */
static void tile_rows(const aq_isa *isa, aq_tile_fn fn, const product *p, const uint8_t *tile,
                      uint32_t t, uint32_t r0, uint32_t r1)
{
    uint32_t each = p->low ? 2 : 1, step = isa->rows / each;
    for (uint32_t r = r0; r < r1; r += step) {
        aq_row_in in[AQ_TILE_ROWS];
        float y[AQ_TILE_ROWS][AQ_LANES_MAX];
        uint32_t n = AQ_MIN(r1 - r, step);
        for (uint32_t i = 0; i < n; i++) {
            in[each * i] = row_in(p, r + i);
            if (p->low)
                in[each * i + 1] = p->low[r + i];
        }
        fn(tile, p->k, in, each * n, y);
        for (uint32_t i = 0; i < n; i++) {
            if (p->low)
                add_low(y[each * i], y[each * i + 1], p->lanes);
            put_row(p, t, 1, r + i, y[each * i]);
        }
    }
}

/* ---- many rows at once, where a path can ---- */

#define SIDE_ROW(wide) ((wide) + ((wide) % 1024 ? 0 : 64)) /* see aq_acts_new */
size_t aq_side_bytes(uint32_t wide)
{
    size_t cols = SIDE_ROW((wide + 63) / 64 * 64);
    return AQ_MANY_ROWS * (cols + cols / 32 * 2 * sizeof(float) + sizeof(aq_row_in));
}

/* n rows from r0 on side by side; low: what rounding left of them. */
static aq_rows_in side_by_side(const aq_cpu *c, uint32_t worker, const product *p, bool low,
                               uint32_t r0, uint32_t n)
{
    const uint32_t n_block = p->k / block_of(p->form), padded = (n + 15) / 16 * 16;
    uint8_t *at = c->side + (2 * (size_t)worker + low) * c->side_bytes;
    aq_row_in *row = (void *)at;
    float(*d)[AQ_MANY_ROWS] = (void *)(row + AQ_MANY_ROWS), (*s)[AQ_MANY_ROWS] = d + n_block;
    int8_t *q = (int8_t *)(s + n_block);
    size_t wide = SIDE_ROW((p->k + 63) / 64 * 64);
    for (uint32_t i = 0; i < n; i++) {
        row[i] = low ? p->low[r0 + i] : row_in(p, r0 + i);
        for (uint32_t b = 0; b < n_block; b++)
            d[b][i] = row[i].d[b];
        for (uint32_t b = 0; row[i].s && b < n_block; b++)
            s[b][i] = row[i].s[b];
        if (p->in_at) /* else they lie so already */
            memcpy(q + i * wide, row[i].q, p->k);
    }
    for (uint32_t i = n; i < padded; i++)
        row[i] = row[n - 1];
    for (uint32_t b = 0; b < n_block; b++)
        for (uint32_t i = n; i < padded; i++)
            d[b][i] = s[b][i] = 0;
    aq_rows_in in = {.row = row, .q = q, .wide = wide, .d = d, .s = s};
    if (!p->in_at) {
        in.q = row[0].q;
        in.wide = p->wide;
    }
    return in;
}

static void many_rows(const aq_cpu *c, uint32_t worker, int layout, const product *p,
                      const uint8_t *const *tile, uint32_t t, uint32_t n_tile, uint32_t r0)
{
    float y[AQ_MANY_ROWS][AQ_LANES_MAX], z[AQ_MANY_ROWS][AQ_LANES_MAX];
    uint32_t n = AQ_MIN(p->n - r0, AQ_MANY_ROWS);
    aq_rows_in in = side_by_side(c, worker, p, false, r0, n), low;
    if (p->low)
        low = side_by_side(c, worker, p, true, r0, n);
    for (uint32_t i = 0, step; i < n_tile; i += step) {
        step = c->isa->pair[layout] && i + 1 < n_tile ? 2 : 1;
        aq_many_fn fn = step == 2 ? c->isa->pair[layout] : c->isa->many[layout];
        fn(tile[i], p->k, &in, n, y);
        if (p->low)
            fn(tile[i], p->k, &low, n, z);
        for (uint32_t r = 0; r < n; r++) {
            if (p->low)
                add_low(y[r], z[r], step * p->lanes);
            put_row(p, t + i, step, r0 + r, y[r]);
        }
    }
}

/* A tile in another form: as F32, exactly, or rounded to Q8_0. */
static const uint8_t *make_panel(const product *p, const uint8_t *tile, bool exact, float *panel)
{
    for (uint32_t i = 0; i < p->lanes; i++)
        if (exact)
            aq_tile_get(p->layout, p->lanes, p->k, i, tile, panel + i, p->lanes);
        else
            aq_tile_to_q8_0(p->layout, p->lanes, p->k, i, tile, (uint8_t *)panel);
    return (const uint8_t *)panel;
}

static void run_tiles(const aq_cpu *c, uint32_t worker, const product *p, uint32_t t0, uint32_t t1)
{
    bool exact = !aq_layout_is_float(p->layout) && p->form == AQ_IN_F32,
         rounded = !exact && p->layout >= AQ_L_STORED, changed = exact || rounded;
    int l = exact ? AQ_L_F32 : rounded ? AQ_L_Q8_0 : p->layout;
    bool many = c->isa->many[l] && p->n >= AQ_MANY_MIN;
    float *panel = changed ? c->panel + (size_t)worker * c->wide * c->isa->lanes : NULL;
    uint32_t step = changed ? 1 : t1 - t0, group = changed && !many ? p->n : GROUP_ROWS;
    for (uint32_t t = t0; t < t1; t += step) { /* a tile is converted once for all rows */
        const uint8_t *tile[PIECE_TILES_MAX];
        for (uint32_t i = 0; i < step; i++)
            tile[i] = p->tile + (t + i) * p->tile_bytes;
        if (changed)
            tile[0] = make_panel(p, tile[0], exact, panel);
        for (uint32_t r0 = 0; r0 < p->n; r0 += group)
            if (many)
                many_rows(c, worker, l, p, tile, t, step, r0);
            else
                for (uint32_t i = 0; i < step; i++)
                    tile_rows(c->isa, c->isa->tile[l], p, tile[i], t + i, r0,
                              AQ_MIN(r0 + group, p->n));
    }
}

static uint32_t piece_tiles(const aq_cpu *c, uint32_t n_tile, uint32_t rows)
{
    uint32_t t = n_tile / (aq_rt_threads(c->rt) * PIECES_PER_THREAD);
    t += rows < AQ_MANY_MIN ? 0 : t % 2; /* pairs of tiles */
    return AQ_MIN(AQ_MAX(t, 1u), rows < AQ_MANY_MIN ? PIECE_TILES_FEW : PIECE_TILES_MAX);
}

#define MUL_MAX 8u /* products of one call of matmul */
typedef struct mul_job {
    const aq_cpu *c;
    product p[MUL_MAX];
    uint32_t first[MUL_MAX + 1]; /* piece of each product, of one group of rows */
    uint32_t n, tiles, group, n_group;
} mul_job;

/* Pieces: [tiles][group of rows], so that a thread keeps its tiles while it can. */
static void mul_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const mul_job *j = ctx;
    uint32_t i = 0, r0 = piece % j->n_group * j->group;
    piece /= j->n_group;
    while (piece >= j->first[i + 1])
        i++;
    uint32_t t0 = (piece - j->first[i]) * j->tiles;
    product p = j->p[i];
    p.n = AQ_MIN(p.n - r0, j->group);
    if (r0) { /* else nothing may be offset: not all products have all of these */
        p.in += r0;
        p.low = p.low ? p.low + r0 : NULL;
        p.y += r0 * p.stride;
    }
    run_tiles(j->c, worker, &p, t0, AQ_MIN(t0 + j->tiles, p.n_tile));
}

/* Few tiles and many rows are cut by rows as well: what is done once for all tiles of a piece is then
 * done for several. Tiles that must be converted meet all rows at once. */
static void cut_mul(mul_job *j, uint32_t n_tile, uint32_t rows)
{
    bool whole = rows < 2 * GROUP_ROWS;
    for (uint32_t i = 0; i < j->n; i++)
        whole = whole || j->p[i].layout >= AQ_L_STORED;
    j->group = whole ? rows : GROUP_ROWS;
    j->n_group = (rows + j->group - 1) / j->group;
    j->tiles = piece_tiles(j->c, n_tile * j->n_group, rows);
    for (uint32_t i = 0; i < j->n; i++)
        j->first[i + 1] = j->first[i] + (j->p[i].n_tile + j->tiles - 1) / j->tiles;
}

void aq_cpu_matmul(void *ctx, const aq_mul *mul, uint32_t n_mul, const float *x, uint32_t n)
{
    aq_cpu *c = ctx;
    for (; n_mul > MUL_MAX; n_mul -= MUL_MAX, mul += MUL_MAX)
        aq_cpu_matmul(ctx, mul, MUL_MAX, x, n);
    mul_job j = {.c = c, .n = n_mul};
    uint32_t k = n_mul ? mul[0].m->cols : 0, all = 0, forms = 0;
    bool fine = false;
    for (uint32_t i = 0; i < n_mul; i++) {
        j.p[i] = product_of(c, mul[i].m, mul[i].mat);
        forms |= 1u << j.p[i].form;
        fine = fine || mul[i].m->fine;
        all += j.p[i].n_tile;
    }
    fine = fine && forms != 1u << AQ_IN_F32;
    uint32_t step = fine ? c->cap / 2 : c->cap; /* a fine row takes two places */
    for (uint32_t r0 = 0; r0 < n; r0 += step) {
        uint32_t rows = AQ_MIN(n - r0, step);
        prep_job prep = {.c = c,
                         .a = c->acts,
                         .x = x + (size_t)r0 * k,
                         .stride = k,
                         .k = k,
                         .forms = forms,
                         .low = fine ? rows : 0};
        prepare(&prep, rows);
        for (uint32_t i = 0; i < n_mul; i++) {
            const aq_acts *a = &c->acts[j.p[i].form];
            j.p[i].n = rows;
            j.p[i].in = a->in;
            j.p[i].wide = a->wide;
            j.p[i].low = fine && a->form != AQ_IN_F32 ? a->in + rows : NULL;
            j.p[i].y = mul[i].y + (size_t)r0 * mul[i].m->rows;
            j.p[i].stride = mul[i].m->rows;
        }
        cut_mul(&j, all, rows);
        aq_cpu_share(c, mul_piece, &j, j.first[n_mul] * j.n_group,
                     (uint64_t)all * c->isa->lanes * k * rows * (fine ? 2 : 1));
    }
}

/* ---- experts ---- */

typedef struct exp_job {
    const aq_cpu *c;
    const aq_mat *mat[2];          /* gate and up, or down */
    product p[2];                  /* of matrix 0, without rows */
    uint32_t n_mat, pieces, tiles; /* pieces of one matrix */
} exp_job;

/* Pieces: [active expert][matrix][piece]. */
static void exp_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const exp_job *j = ctx;
    const aq_cpu *c = j->c;
    uint32_t e = c->active[piece / (j->pieces * j->n_mat)], m = piece / j->pieces % j->n_mat;
    uint32_t t0 = piece % j->pieces * j->tiles, r0 = c->first[e];
    product p = j->p[m];
    p.tile += e * aq_mat_tiles_bytes(j->mat[m], p.lanes);
    p.fac = aq_mat_fac(j->mat[m], e);
    p.n = c->first[e + 1] - r0;
    if (p.in_at) { /* gate, up: rows of the window to places in order */
        p.in_at += r0;
        p.y += r0 * p.stride;
    } else { /* down: places in order to slots */
        p.in += r0;
        p.out_at += r0;
    }
    run_tiles(c, worker, &p, t0, AQ_MIN(t0 + j->tiles, p.n_tile));
}

static void run_experts(const aq_cpu *c, exp_job *j, uint32_t n_active, uint32_t n_slot)
{
    uint32_t n_tile = j->p[0].n_tile;
    j->tiles = piece_tiles(c, n_tile * n_active * j->n_mat, n_slot / n_active);
    j->pieces = (n_tile + j->tiles - 1) / j->tiles;
    aq_cpu_share(c, exp_piece, j, n_active * j->n_mat * j->pieces,
                 (uint64_t)n_tile * c->isa->lanes * j->p[0].k * j->n_mat * n_slot);
}

/* Slots [s0, s0 + n) by expert into order; returns the number of experts that have some. */
static uint32_t sort_slots(aq_cpu *c, const aq_mat *m, const int32_t *expert, uint32_t n,
                           uint32_t k)
{
    uint32_t n_active = 0;
    memset(c->first, 0, (m->n_mat + 1) * sizeof *c->first);
    for (uint32_t s = 0; s < n; s++)
        if (expert[s] >= 0)
            c->first[(uint32_t)expert[s] - m->e0 + 1]++;
    for (uint32_t e = 0; e < m->n_mat; e++) {
        if (c->first[e + 1])
            c->active[n_active++] = e;
        c->first[e + 1] += c->first[e];
    }
    for (uint32_t s = 0; s < n; s++)
        if (expert[s] >= 0) {
            uint32_t at = c->first[(uint32_t)expert[s] - m->e0]++;
            c->order[at] = s;
            c->order_row[at] = s / k;
        }
    for (uint32_t e = m->n_mat; e > 0; e--) /* filling moved each start to the next one's */
        c->first[e] = c->first[e - 1];
    c->first[0] = 0;
    return n_active;
}

/* The bias of an expert's output, weighted as the output was. */
static void down_biases(const aq_experts *ex, const int32_t *expert, const float *w, uint32_t n,
                        float *y)
{
    uint32_t embd = ex->down->rows;
    for (uint32_t s = 0; ex->down_bias && s < n; s++)
        for (uint32_t i = 0; expert[s] >= 0 && i < embd; i++)
            y[(size_t)s * embd + i] += w[s] * ex->down_bias[(size_t)expert[s] * embd + i];
}

void aq_cpu_experts(void *ctx, const aq_experts *ex, const aq_expert_job *job)
{
    aq_cpu *c = ctx;
    const aq_mat *gate = ex->gate, *up = ex->up, *down = ex->down;
    uint32_t k = job->k, embd = gate->cols, ff = gate->rows;
    exp_job in = {
        .c = c, .mat = {gate, up}, .p = {product_of(c, gate, 0), product_of(c, up, 0)}, .n_mat = 2};
    exp_job out = {.c = c, .mat = {down}, .p = {product_of(c, down, 0)}, .n_mat = 1};
    for (uint32_t r0 = 0; r0 < job->n_rows; r0 += c->cap) {
        uint32_t rows = AQ_MIN(job->n_rows - r0, c->cap);
        uint32_t n_active = sort_slots(c, gate, job->expert + (size_t)r0 * k, rows * k, k);
        uint32_t n_slot = c->first[gate->n_mat];
        float *g = c->mid, *u = c->mid + (size_t)c->cap * c->n_used * c->wide_exp;
        prep_job prep = {.c = c,
                         .a = c->acts,
                         .x = job->x + (size_t)r0 * embd,
                         .stride = embd,
                         .k = embd,
                         .forms = 1u << in.p[0].form | 1u << in.p[1].form};
        if (!n_slot)
            continue;
        prepare(&prep, rows);
        for (uint32_t m = 0; m < 2; m++) {
            in.p[m].in = c->acts[in.p[m].form].in;
            in.p[m].in_at = c->order_row;
            in.p[m].y = m ? u : g;
            in.p[m].stride = ff;
        }
        run_experts(c, &in, n_active, n_slot);
        prep_job mid = {.c = c,
                        .a = c->acts_exp,
                        .x = g,
                        .gate = g,
                        .up = u,
                        .ex = ex,
                        .expert = job->expert + (size_t)r0 * k,
                        .order = c->order,
                        .stride = ff,
                        .k = ff,
                        .forms = 1u << out.p[0].form};
        prepare(&mid, n_slot);
        out.p[0].in = c->acts_exp[out.p[0].form].in;
        out.p[0].wide = c->acts_exp[out.p[0].form].wide;
        out.p[0].out_at = c->order;
        out.p[0].w = job->w + (size_t)r0 * k;
        out.p[0].y = job->y + (size_t)r0 * k * down->rows;
        out.p[0].stride = down->rows;
        run_experts(c, &out, n_active, n_slot);
        down_biases(ex, job->expert + (size_t)r0 * k, out.p[0].w, rows * k, out.p[0].y);
    }
}
