/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over pages. A piece of work is one KV head and up to MOST queries that read it: heads of
 * a group, of several rows of one seq. Entries are taken in blocks of AQ_ATTN_TOK that begin at
 * multiples of it, whatever the window, made floats once for all queries that see them alike, with a
 * running maximum. Each SPAN of entries is summed by itself, and the spans are folded in order: where
 * there are fewer heads than work for all threads, a span is a piece of its own. The order of a row's
 * sums depends on its position alone. Thread: the stage's, and the pool's. */
#include <math.h>

#include "product-priv.h"

#define MOST AQ_ATTN_QUERIES
#define SPAN 512u      /* entries that are summed by themselves, a multiple of AQ_ATTN_TOK */
#define FEW 32u        /* entries that are floats at a time */
#define AS_THEY_LIE 8u /* queries that read them from their page */
#define RUNS_MAX 64u   /* seqs of a job */

typedef struct attn_job {
    const aq_cpu *c;
    const aq_layer *d;
    const aq_kv *kv;
    const aq_run *run;
    uint32_t n_run;
    const float *q, *sinks;
    const uint32_t *sel; /* sparse attention: what each row sees */
    uint32_t *ret_sel;   /* choosing it */
    float *out;
    uint32_t heads, rows, n_cut; /* of a piece: heads, rows; parts that a group is cut into */
    uint32_t piece0[RUNS_MAX + 1];
} attn_job;
_Static_assert(AQ_SEEN_TOK == AQ_ATTN_TOK, "ranges of entries are blocks of attention");

/* Queries that are under way. */
typedef struct queries {
    const float *q[MOST];
    float *o[MOST];
    float max[MOST], sum[MOST];         /* of the span under way; sum 0: nothing seen */
    float *all[MOST];                   /* of those before it */
    float all_max[MOST], all_sum[MOST]; /* all_sum 0: nothing */
} queries;

static const float *entries(const attn_job *j, const void *p, uint32_t row_bytes, uint32_t n,
                            uint32_t d, float *buf)
{
    if (j->kv->type == AQ_KV_F32)
        return p;
    if (j->kv->type == AQ_KV_F16)
        j->c->isa->from_f16(p, (size_t)n * d, buf);
    else
        for (uint32_t t = 0; t < n; t++)
            (j->c->isa->from_q8 ? j->c->isa->from_q8 : aq_kv_q8_get)(
                (const uint8_t *)p + (size_t)t * row_bytes, d, buf + (size_t)t * d);
    return buf;
}

/* Scores p of queries [i, i + m) become weights, by a maximum that may have grown; keep: what is left
 * of the sums so far. */
static void weigh(const attn_job *j, queries *s, uint32_t i, uint32_t m, uint32_t n,
                  float (*p)[AQ_ATTN_TOK], const float *top, float *keep)
{
    for (uint32_t h = 0; h < m; h++) {
        float *max = &s->max[i + h], *sum = &s->sum[i + h];
        keep[h] = top[h] > *max ? expf(*max - top[h]) : 1;
        *max = top[h] > *max ? top[h] : *max;
        *sum = *sum * keep[h] + j->c->isa->exps(p[h], n, *max);
    }
}

/* From column t on. */
static float (*part_of(float (*p)[AQ_ATTN_TOK], uint32_t t))[AQ_ATTN_TOK]
{
    return (float(*)[AQ_ATTN_TOK])(void *)(p[0] + t);
}

/* Queries [i, i + m) see entries [t, t + n) of a seq, within a block. Few queries take them as they
 * lie; for many they are made floats, a few at a time, so that those stay in the first cache. */
static void see_range(const attn_job *j, const aq_run *run, uint32_t kv_head, uint32_t worker,
                      queries *s, uint32_t i, uint32_t m, uint32_t t, uint32_t n)
{
    const aq_isa *isa = j->c->isa;
    const aq_kv *kv = j->kv;
    uint32_t page = run->page[t / AQ_PAGE_TOK], at = t % AQ_PAGE_TOK,
             next = (t / AQ_ATTN_TOK + 1) * AQ_ATTN_TOK;
    float *buf = j->c->entries + (size_t)worker * AQ_ATTN_TOK * j->c->wide_kv;
    float p[MOST][AQ_ATTN_TOK], top[MOST] = {0}, keep[MOST];
    if (m <= AS_THEY_LIE && isa->scores_kv[kv->type]) {
        aq_entries k = {.p = aq_kv_k(kv, page, kv_head, at), .step = kv->k_bytes}, v = k;
        if (kv->v_off) { /* latent: K is V */
            v = (aq_entries){.p = aq_kv_v(kv, page, kv_head, at), .step = kv->v_bytes};
            k.ahead = v.p;
        }
        k.ahead_step = v.step;
        v.ahead = next < run->kv0 + run->n
                      ? aq_kv_k(kv, run->page[next / AQ_PAGE_TOK], kv_head, next % AQ_PAGE_TOK)
                      : NULL;
        v.ahead_step = k.step;
        isa->scores_kv[kv->type](s->q + i, m, &k, n, kv->d_k, j->d->score_scale, p, top);
        weigh(j, s, i, m, n, p, top, keep);
        isa->mix_kv[kv->type]((const void *)p, m, &v, n, kv->d_v, keep, s->o + i);
        return;
    }
    for (uint32_t a = 0, few; a < n; a += few) {
        few = AQ_MIN(n - a, FEW);
        const float *k =
            entries(j, aq_kv_k(kv, page, kv_head, at + a), kv->k_bytes, few, kv->d_k, buf);
        float best[MOST];
        isa->scores(s->q + i, m, k, few, kv->d_k, j->d->score_scale, part_of(p, a), best);
        for (uint32_t h = 0; h < m; h++)
            top[h] = a == 0 || best[h] > top[h] ? best[h] : top[h];
    }
    weigh(j, s, i, m, n, p, top, keep);
    for (uint32_t a = 0, few; a < n; a += few) {
        few = AQ_MIN(n - a, FEW);
        const void *from = kv->v_off ? aq_kv_v(kv, page, kv_head, at + a)
                                     : aq_kv_k(kv, page, kv_head, at + a); /* latent: K is V */
        const float *v = entries(j, from, kv->v_off ? kv->v_bytes : kv->k_bytes, few, kv->d_v, buf);
        isa->mix(part_of(p, a), m, v, few, kv->d_v, keep, s->o + i);
        for (uint32_t h = 0; h < m; h++)
            keep[h] = 1;
    }
}

static void begin(queries *s, uint32_t i, uint32_t d)
{
    s->max[i] = -INFINITY;
    s->sum[i] = 0;
    memset(s->o[i], 0, d * sizeof(float));
}

/* A span [d] with its maximum and sum joins those before it. */
static void fold(queries *s, uint32_t i, const float *o, float max, float sum, uint32_t d)
{
    float *all = s->all[i];
    if (sum == 0)
        return;
    if (s->all_sum[i] == 0) {
        memcpy(all, o, d * sizeof *o);
        s->all_max[i] = max;
        s->all_sum[i] = sum;
        return;
    }
    float top = max > s->all_max[i] ? max : s->all_max[i], a = expf(s->all_max[i] - top),
          b = expf(max - top);
    s->all_max[i] = top;
    s->all_sum[i] = s->all_sum[i] * a + sum * b;
    for (uint32_t c = 0; c < d; c++)
        all[c] = all[c] * a + o[c] * b;
}

static void fold_all(queries *s, uint32_t n, uint32_t d)
{
    for (uint32_t i = 0; i < n; i++) {
        fold(s, i, s->o[i], s->max[i], s->sum[i], d);
        begin(s, i, d);
    }
}

/* The sink is as a span before all others, without a value. */
static void open_query(const attn_job *j, queries *s, uint32_t i, uint32_t row, uint32_t h)
{
    const aq_layer *d = j->d;
    size_t at = (size_t)row * d->n_head + h;
    s->q[i] = j->q + at * d->d_k;
    s->all[i] = j->out + at * d->d_v;
    s->all_max[i] = j->sinks ? j->sinks[h] : -INFINITY;
    s->all_sum[i] = j->sinks ? 1 : 0;
    memset(s->all[i], 0, d->d_v * sizeof(float));
}

static void close_query(queries *s, uint32_t i, uint32_t d)
{
    for (uint32_t c = 0; c < d; c++)
        s->all[i][c] /= s->all_sum[i];
}

/* Rows [row, row + n_row) of a run, all whose ranges are those of their positions. */
static void see_all(const attn_job *j, const aq_run *run, uint32_t kv_head, uint32_t worker,
                    uint32_t row, uint32_t n_row, uint32_t n_head, queries *s)
{
    uint32_t window = j->d->window, last = run->kv0 + row + n_row; /* the end of the last row */
    uint32_t end = run->kv0 + row + 1, t = window && end > window ? end - window : 0;
    for (t = t / AQ_ATTN_TOK * AQ_ATTN_TOK; t < last; t += AQ_ATTN_TOK) {
        if (t % SPAN == 0)
            fold_all(s, n_row * n_head, j->d->d_v);
        for (uint32_t r = 0, n_same; r < n_row; r += n_same) {
            uint32_t from[2] = {0}, to[2] = {0},
                     same = 0; /* of the first row of those alike, of the next */
            for (n_same = 0; r + n_same < n_row; n_same++, same = 1) {
                uint32_t e = run->kv0 + row + r + n_same + 1,
                         f = window && e > window ? e - window : 0;
                from[same] = AQ_MAX(f, t);
                to[same] = AQ_MIN(e, t + AQ_ATTN_TOK);
                if (same && (from[1] != from[0] || to[1] != to[0]))
                    break;
            }
            if (to[0] > from[0])
                see_range(j, run, kv_head, worker, s, r * n_head, n_same * n_head, from[0],
                          to[0] - from[0]);
        }
    }
}

static void attn_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t per_row = d->n_kv * j->n_cut, group = d->n_head / d->n_kv, r = 0;
    while (piece >= j->piece0[r + 1])
        r++;
    const aq_run *run = &j->run[r];
    piece -= j->piece0[r];
    uint32_t row = piece / per_row * j->rows, n_row = AQ_MIN(j->rows, run->n - row);
    uint32_t kv_head = piece % per_row / j->n_cut, h0 = piece % j->n_cut * j->heads,
             n_head = AQ_MIN(j->heads, group - h0);
    h0 += kv_head * group;
    queries s;
    for (uint32_t i = 0; i < n_row * n_head; i++) {
        s.o[i] = j->c->sums + ((size_t)worker * MOST + i) * j->c->wide_kv;
        open_query(j, &s, i, run->row0 + row + i / n_head, h0 + i % n_head);
        begin(&s, i, d->d_v);
    }
    if (j->sel) { /* one row */
        uint32_t end = run->kv0 + row + 1,
                 first = d->window && end > d->window ? end - d->window : 0;
        aq_seen seen =
            aq_seen_begin(d, j->sel + ((size_t)run->row0 + row) * aq_sel_u32(d), first, end);
        for (uint32_t t, n; (n = aq_seen_next(&seen, &t)) > 0;)
            see_range(j, run, kv_head, worker, &s, 0, n_head, t, n);
    } else {
        see_all(j, run, kv_head, worker, row, n_row, n_head, &s);
    }
    fold_all(&s, n_row * n_head, d->d_v);
    for (uint32_t i = 0; i < n_row * n_head; i++)
        close_query(&s, i, d->d_v);
}

/* ---- one span a piece ---- */

/* Spans of a run's rows, of which a row sees some: [first, end). */
static uint32_t spans(const attn_job *j, const aq_run *run, uint32_t *ret_first)
{
    uint32_t window = j->d->window, end = run->kv0 + 1;
    *ret_first = (window && end > window ? end - window : 0) / SPAN;
    return (run->kv0 + run->n + SPAN - 1) / SPAN - *ret_first;
}

/* Where a span of a head is kept: its maximum, its sum, d_v values. */
static float *kept(const attn_job *j, uint32_t piece, uint32_t head)
{
    uint32_t group = j->d->n_head / j->d->n_kv;
    return j->c->spans + ((size_t)piece * group + head) * (j->d->d_v + 2);
}

/* Pieces of a run: [row][KV head][span]. */
static void span_piece(void *ctx, uint32_t piece, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t r = 0, group = d->n_head / d->n_kv, first;
    while (piece >= j->piece0[r + 1])
        r++;
    const aq_run *run = &j->run[r];
    uint32_t at = piece - j->piece0[r], n_span = spans(j, run, &first);
    uint32_t row = at / n_span / d->n_kv, kv_head = at / n_span % d->n_kv;
    uint32_t end = run->kv0 + row + 1, from = d->window && end > d->window ? end - d->window : 0;
    uint32_t t = AQ_MAX((first + at % n_span) * SPAN, from);
    end = AQ_MIN(end, (first + at % n_span + 1) * SPAN);
    queries s;
    for (uint32_t i = 0; i < group; i++) {
        s.q[i] = j->q + (((size_t)run->row0 + row) * d->n_head + kv_head * group + i) * d->d_k;
        s.o[i] = kept(j, piece, i) + 2;
        begin(&s, i, d->d_v);
    }
    for (uint32_t n; t < end; t += n) {
        n = AQ_MIN(end, (t / AQ_ATTN_TOK + 1) * AQ_ATTN_TOK) - t;
        see_range(j, run, kv_head, worker, &s, 0, group, t, n);
    }
    for (uint32_t i = 0; i < group; i++) {
        kept(j, piece, i)[0] = s.max[i];
        kept(j, piece, i)[1] = s.sum[i];
    }
}

/* The spans of one row of a run, in order. */
static void fold_piece(void *ctx, uint32_t row, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t r = 0, group = d->n_head / d->n_kv, first;
    while (row >= j->run[r].n)
        row -= j->run[r++].n;
    const aq_run *run = &j->run[r];
    uint32_t n_span = spans(j, run, &first);
    for (uint32_t h = 0; h < d->n_head; h++) {
        queries s;
        uint32_t piece = j->piece0[r] + (row * d->n_kv + h / group) * n_span;
        open_query(j, &s, 0, run->row0 + row, h);
        for (uint32_t k = 0; k < n_span; k++) {
            const float *p = kept(j, piece + k, h % group);
            fold(&s, 0, p + 2, p[0], p[1], d->d_v);
        }
        close_query(&s, 0, d->d_v);
    }
}

/* Whether spans are to be pieces: few rows and KV heads, much context. */
static bool cut_by_span(attn_job *j, uint32_t n_thread, uint32_t *ret_n, uint32_t *ret_rows)
{
    const aq_layer *d = j->d;
    uint32_t group = d->n_head / d->n_kv, most = 0, rows = 0, first;
    uint64_t n = 0;
    for (uint32_t r = 0; r < j->n_run; r++) {
        uint32_t n_span = spans(j, &j->run[r], &first);
        most = AQ_MAX(most, n_span);
        rows += j->run[r].n;
        j->piece0[r] = (uint32_t)n;
        n += (uint64_t)j->run[r].n * d->n_kv * n_span;
    }
    if (j->sel || n_thread < 2 || most < 2 || rows * d->n_kv >= 4 * n_thread || group > MOST ||
        n * group * (d->d_v + 2) > AQ_ATTN_SPANS_F32)
        return false;
    j->piece0[j->n_run] = *ret_n = (uint32_t)n;
    *ret_rows = rows;
    return true;
}

/* Pieces of a window: whole groups of several rows when there are many, parts of a group of one row
 * when there are few. */
static uint32_t cut(attn_job *j, uint32_t n_thread)
{
    uint32_t group = j->d->n_head / j->d->n_kv, n = 0, rows = 0;
    for (uint32_t r = 0; r < j->n_run; r++)
        rows += j->run[r].n;
    j->heads = AQ_MIN(group, MOST);
    while (j->heads > 1 && rows * j->d->n_kv * ((group + j->heads - 1) / j->heads) < 2 * n_thread)
        j->heads = (j->heads + 1) / 2;
    j->n_cut = (group + j->heads - 1) / j->heads;
    j->rows = j->sel ? 1 : AQ_MAX(MOST / j->heads, 1u);
    while (j->rows > 1 && rows * j->d->n_kv * j->n_cut < 4 * n_thread * j->rows)
        j->rows /= 2;
    for (uint32_t r = 0; r < j->n_run; r++) {
        j->piece0[r] = n;
        n += (j->run[r].n + j->rows - 1) / j->rows * j->d->n_kv * j->n_cut;
    }
    j->piece0[j->n_run] = n;
    return n;
}

void aq_cpu_attend(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run, uint32_t n_run,
                   const float *q, const float *sinks, const uint32_t *sel, float *out)
{
    const aq_cpu *c = ctx;
    for (; n_run > 0; n_run -= AQ_MIN(n_run, RUNS_MAX), run += RUNS_MAX) {
        attn_job j = {.c = c,
                      .d = d,
                      .kv = kv,
                      .run = run,
                      .n_run = AQ_MIN(n_run, RUNS_MAX),
                      .q = q,
                      .sinks = sinks,
                      .sel = sel,
                      .out = out};
        uint64_t entries = 0; /* at most; a window sees fewer */
        for (uint32_t r = 0; r < j.n_run; r++)
            entries += (uint64_t)run[r].n * (run[r].kv0 + run[r].n);
        uint64_t work = entries * d->n_head * (d->d_k + d->d_v);
        uint32_t n, rows;
        if (cut_by_span(&j, aq_rt_threads(c->rt), &n, &rows)) {
            aq_cpu_share(c, span_piece, &j, n, work);
            aq_cpu_share(c, fold_piece, &j, rows, entries / SPAN * d->n_head * d->d_v);
            continue;
        }
        n = cut(&j, aq_rt_threads(c->rt));
        aq_cpu_share(c, attn_piece, &j, n, work);
    }
}

/* ---- the indexer's choice ---- */

static void dots(void *ctx, const float *q, const float *k, uint32_t n, uint32_t d, float *ret)
{
    const aq_cpu *c = ctx;
    for (uint32_t t = 0; t < n; t += AQ_ATTN_TOK) {
        uint32_t m = AQ_MIN(n - t, AQ_ATTN_TOK);
        float s[1][AQ_ATTN_TOK], top;
        c->isa->scores(&q, 1, k + (size_t)t * d, m, d, 1, s, &top);
        memcpy(ret + t, s[0], m * sizeof(float));
    }
}

static void choose_piece(void *ctx, uint32_t row, uint32_t worker)
{
    const attn_job *j = ctx;
    const aq_layer *d = j->d;
    uint32_t r = 0;
    while (row >= j->run[r].n)
        row -= j->run[r++].n;
    size_t at = (size_t)j->run[r].row0 + row;
    aq_choose_row(d, j->kv, j->run[r].page, (j->run[r].kv0 + row + 1) / d->idx_block,
                  j->q + at * d->n_idx * d->d_idx, dots, (void *)j->c,
                  j->ret_sel + at * aq_sel_u32(d));
}

void aq_cpu_choose(void *ctx, const aq_layer *d, const aq_kv *kv, const aq_run *run, uint32_t n_run,
                   const float *q, uint32_t *sel)
{
    const aq_cpu *c = ctx;
    attn_job j = {.c = c, .d = d, .kv = kv, .run = run, .n_run = n_run, .q = q, .ret_sel = sel};
    uint32_t rows = 0;
    uint64_t blocks = 0;
    for (uint32_t r = 0; r < n_run; r++) {
        rows += run[r].n;
        blocks += (uint64_t)run[r].n * ((run[r].kv0 + run[r].n) / d->idx_block);
    }
    aq_cpu_share(c, choose_piece, &j, rows, blocks * d->n_idx * d->d_idx);
}
