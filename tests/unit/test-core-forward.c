/* SPDX-License-Identifier: Apache-2.0 */
/* Windows through random models of each architecture: however a timeline is cut into windows, shared with other chats, taken back,
 * forked, saved, stopped or split over stages, its logits are the same bits.
 *
 * Arguments: the backend, and a path of the CPU (skipped where this CPU does not have it). */
#include <math.h>
#include <stdio.h>

#include "tap.h"

#include "net-rig.h"
#include "walk-priv.h"

static const char *cpu_path; /* NULL = the best */
static bool less;            /* under a sanitizer: the same ways, fewer places */
#include "torture.h"

#define LEN 300u /* more than a page */

typedef struct test {
    const char *arch, *backend;
    uint32_t kv;
    rig r;
    void *s;
    float *want[2], *got; /* [LEN][vocab] logits of timelines 0 and 1, read at once */
    char name[64];
} test;

static size_t row_bytes(const test *t, uint32_t n)
{
    return (size_t)n * t->r.vocab * sizeof(float);
}

static const float *want(const test *t, uint32_t line, uint32_t pos)
{
    return t->want[line] + (size_t)pos * t->r.vocab;
}

/* got holds n rows of timeline `line` from pos on. */
static bool same(const test *t, uint32_t line, uint32_t pos, uint32_t n)
{
    return memcmp(t->got, want(t, line, pos), row_bytes(t, n)) == 0;
}

/* Feed and compare. */
static bool reads(test *t, uint32_t seq, uint32_t line, uint32_t pos, uint32_t n, uint32_t chunk)
{
    memset(t->got, 0, row_bytes(t, n));
    return rig_feed_by(&t->r, t->s, seq, line, pos, n, chunk, t->got) == 0 && same(t, line, pos, n);
}

static bool op(test *t, uint16_t kind, uint32_t seq, uint32_t from, uint64_t arg)
{
    return rig_op(&t->r, t->s, kind, seq, from, arg) == 0;
}

static bool fresh(test *t, uint32_t seq)
{
    return op(t, AQ_OP_KEEP, seq, 0, 0);
}

static void chunks(test *t)
{
    static const uint32_t sizes[] = {1, 2, 8, 31, 256, LEN};
    for (size_t i = 0; i < AQ_LEN(sizes); i++)
        ok(fresh(t, 0) && reads(t, 0, 0, 0, LEN, sizes[i]), "%s: windows of %u rows", t->name,
           sizes[i]);
}

/* Two chats in one window: a prompt chunk of one, one row of the other. */
static void together(test *t)
{
    aq_row row[8];
    aq_err err = {0};
    bool good = fresh(t, 0) && fresh(t, 1);
    for (uint32_t step = 0; good && step < 20; step++) {
        row[0] = (aq_row){.seq = 1, .pos = step, .tok = rig_tok(1, step)};
        for (uint32_t i = 0; i < 7; i++)
            row[i + 1] = (aq_row){.seq = 0, .pos = step * 7 + i, .tok = rig_tok(0, step * 7 + i)};
        good = rig_window(&t->r, t->s, row, 8, NULL, 0, t->got, NULL, NULL, &err) == 0 &&
               same(t, 1, step, 1) &&
               memcmp(t->got + t->r.vocab, want(t, 0, step * 7), row_bytes(t, 7)) == 0;
    }
    ok(good, "%s: two chats in one window", t->name);
}

/* Read `n0`, then a window of k rows of another timeline after `good` right ones; keep the right ones; go on. */
static bool take_back(test *t, uint32_t n0, uint32_t k, uint32_t good)
{
    aq_row row[8];
    aq_err err = {0};
    if (!fresh(t, 0) || !reads(t, 0, 0, 0, n0, 64))
        return false;
    for (uint32_t i = 0; i < k; i++)
        row[i] = (aq_row){.seq = 0, .pos = n0 + i, .tok = rig_tok(i < good ? 0 : 1, n0 + i)};
    return rig_window(&t->r, t->s, row, k, NULL, 0, t->got, NULL, NULL, &err) == 0 &&
           op(t, AQ_OP_KEEP, 0, 0, n0 + good) && reads(t, 0, 0, n0 + good, 9, 4);
}

static void rollback(test *t)
{
    bool good = true;
    for (uint32_t k = 1; k <= 8; k += less ? 7 : 1)
        for (uint32_t n = 0; n <= k; n += less ? 2 : 1)
            good = good && take_back(t, 12, k, n);
    ok(good, "%s: every rollback within a window of 1 to 8 rows", t->name);
    ok(take_back(t, 254, 8, 1) && take_back(t, 254, 8, 5), "%s: rollback over a page's edge",
       t->name);
    good = take_back(t, 30, 8, 6) && fresh(t, 0) && reads(t, 0, 0, 0, 10, 10) &&
           reads(t, 0, 0, 10, 8, 8);
    ok(good && op(t, AQ_OP_KEEP, 0, 0, 16) && op(t, AQ_OP_KEEP, 0, 0, 12) &&
           reads(t, 0, 0, 12, 9, 4),
       "%s: rollback twice in a window", t->name);
}

static void forks(test *t)
{
    bool recurrent = aq_model_get_info(t->r.m)->recurrent;
    ok(fresh(t, 0) && op(t, AQ_OP_FREE, 1, 0, 0) && reads(t, 0, 0, 0, 100, 100) &&
           op(t, AQ_OP_FORK, 1, 0, 100) && reads(t, 0, 0, 100, 30, 7) &&
           reads(t, 1, 0, 100, 30, 30) && reads(t, 0, 0, 130, 10, 1),
       "%s: FORK at the length, both go on", t->name);
    ok(fresh(t, 1) && fresh(t, 0) && reads(t, 0, 0, 0, 50, 50) && reads(t, 0, 0, 50, 6, 6) &&
           op(t, AQ_OP_FORK, 1, 0, 52) && reads(t, 1, 0, 52, 30, 30) && reads(t, 0, 0, 56, 30, 5),
       "%s: FORK within the last window", t->name);
    ok(op(t, AQ_OP_FREE, 0, 0, 0) && reads(t, 1, 0, 82, 30, 30), "%s: the fork outlives its origin",
       t->name);
    bool cut =
        fresh(t, 0) && reads(t, 0, 0, 0, 90, 90) && fresh(t, 1) && op(t, AQ_OP_FORK, 1, 0, 40);
    if (!recurrent)
        ok(cut && reads(t, 1, 0, 40, 30, 30), "%s: FORK anywhere", t->name);
    else
        ok(cut && rig_feed(&t->r, t->s, 1, 0, 40, 1, t->got) == -AQ_E_INVAL,
           "%s: rows after a FORK anywhere need a RESTORE", t->name);
}

static void snaps(test *t)
{
    bool recurrent = aq_model_get_info(t->r.m)->recurrent;
    ok(fresh(t, 0) && reads(t, 0, 0, 0, 40, 40) && op(t, AQ_OP_SNAP, 0, 0, 77) &&
           reads(t, 0, 0, 40, 60, 30) && op(t, AQ_OP_KEEP, 0, 0, 60) &&
           (recurrent ? rig_feed(&t->r, t->s, 0, 0, 60, 1, t->got) == -AQ_E_INVAL
                      : reads(t, 0, 0, 60, 5, 5)) &&
           op(t, AQ_OP_RESTORE, 0, 0, 77) && reads(t, 0, 0, 40, 30, 11),
       "%s: SNAP, read on, KEEP, RESTORE", t->name);
    ok(fresh(t, 1) && op(t, AQ_OP_FORK, 1, 0, 55) && op(t, AQ_OP_RESTORE, 1, 0, 77) &&
           reads(t, 1, 0, 40, 30, 11) && op(t, AQ_OP_FREE, 0, 0, 0) &&
           op(t, AQ_OP_RESTORE, 1, 0, 77) && reads(t, 1, 0, 40, 5, 5),
       "%s: a snapshot serves a fork and outlives its seq", t->name);
    ok(op(t, AQ_OP_FREE, AQ_SEQ_NONE, 0, 77) && !op(t, AQ_OP_RESTORE, 1, 0, 77),
       "%s: a dropped snapshot is gone", t->name);
}

static void refusals(test *t)
{
    aq_row row[2] = {{.seq = 0, .pos = 0, .tok = 1},
                     {.seq = 0, .pos = 1, .tok = (int32_t)t->r.vocab}};
    aq_err err = {0};
    bool made = fresh(t, 0);
    ok(made && rig_window(&t->r, t->s, row, 2, NULL, 0, t->got, NULL, NULL, &err) == -AQ_E_INVAL &&
           strstr(err.text, "272"),
       "%s: a token out of the vocabulary is refused", t->name);
    row[1].tok = 1;
    row[1].pos = 2;
    ok(rig_window(&t->r, t->s, row, 2, NULL, 0, t->got, NULL, NULL, &err) == -AQ_E_INVAL,
       "%s: a gap in the positions is refused", t->name);
    row[1].pos = 1;
    AQ_AUTOFREE float *x = calloc(2 * t->r.embd, sizeof(*x));
    aq_window w = {.n_rows = 2, .n_back = 1, .row = row, .x = x};
    row[0].flags = row[1].flags = AQ_ROW_BACK;
    ok(t->r.be->forward(t->r.w, t->s, &w, NULL, 0, x, NULL, &err) == -AQ_E_INVAL,
       "%s: a wrong count of rows wanted is refused", t->name);
    ok(reads(t, 0, 0, 0, 20, 20), "%s: refused windows leave no trace", t->name);
}

static const char *kv_name(uint32_t kv)
{
    return kv == AQ_KV_F32 ? "f32" : kv == AQ_KV_F16 ? "f16" : "q8_0";
}

static int run(const char *arch, const char *backend, uint32_t kv)
{
    test t = {.arch = arch, .backend = backend, .kv = kv};
    snprintf(t.name, sizeof(t.name), "%s, %s, KV %s", arch, backend, kv_name(kv));
    int rc = rig_open_path(&t.r, arch, "Q8_0", backend, 2, cpu_path, NULL);
    if (rc == 0)
        rc = rig_state(&t.r, kv, &t.s);
    t.want[0] = malloc(row_bytes(&t, LEN));
    t.want[1] = malloc(row_bytes(&t, LEN));
    t.got = malloc(row_bytes(&t, LEN));
    for (uint32_t line = 0; rc == 0 && line < 2; line++)
        rc = fresh(&t, 0) ? rig_feed(&t.r, t.s, 0, line, 0, LEN, t.want[line]) : -1;
    if (ok(rc == 0, "%s: loads and reads", t.name)) {
        chunks(&t);
        together(&t);
        rollback(&t);
        forks(&t);
        snaps(&t);
        refusals(&t);
    }
    if (t.s)
        t.r.be->drop_state(t.s);
    free(t.want[0]);
    free(t.want[1]);
    free(t.got);
    rig_close(&t.r);
    return rc;
}

/* The same, shorter: what an architecture adds to the walk is not in the bookkeeping that run() goes through. */
static void brief(const char *arch, const char *backend, uint32_t kv)
{
    enum { N = 90 };
    test t = {.arch = arch, .backend = backend, .kv = kv};
    snprintf(t.name, sizeof(t.name), "%s, %s, KV %s", arch, backend, kv_name(kv));
    int rc = rig_open_path(&t.r, arch, "Q8_0", backend, 2, cpu_path, NULL);
    if (rc == 0)
        rc = rig_state(&t.r, kv, &t.s);
    t.want[0] = malloc(row_bytes(&t, N));
    t.got = malloc(row_bytes(&t, N));
    if (rc == 0)
        rc = fresh(&t, 0) ? rig_feed(&t.r, t.s, 0, 0, 0, N, t.want[0]) : -1;
    bool finite = rc == 0, moves = false;
    for (size_t i = 0; finite && i < (size_t)N * t.r.vocab; i++) {
        finite = isfinite(t.want[0][i]);
        moves = moves || t.want[0][i] != t.want[0][i % t.r.vocab];
    }
    if (ok(rc == 0 && finite && moves, "%s: loads and reads", t.name)) {
        ok(fresh(&t, 0) && reads(&t, 0, 0, 0, N, 1), "%s: row by row", t.name);
        ok(fresh(&t, 0) && reads(&t, 0, 0, 0, N, 31), "%s: windows of 31 rows", t.name);
        ok(fresh(&t, 0) && reads(&t, 0, 0, 0, 61, 61) && op(&t, AQ_OP_FORK, 1, 0, 61) &&
               reads(&t, 1, 0, 61, 20, 7) && reads(&t, 0, 0, 61, 9, 9),
           "%s: a fork goes on", t.name);
    }
    if (t.s)
        t.r.be->drop_state(t.s);
    free(t.want[0]);
    free(t.got);
    rig_close(&t.r);
}

/* One thread gives the bits that two gave. */
static void threads(const char *arch, const char *backend)
{
    float *logits[2] = {0};
    size_t bytes = 0;
    bool good = true;
    for (uint32_t i = 0; good && i < 2; i++) {
        rig r;
        void *s = NULL;
        good = rig_open_path(&r, arch, "Q8_0", backend, i + 1, cpu_path, NULL) == 0 &&
               rig_state(&r, AQ_KV_F32, &s) == 0;
        bytes = good ? 70 * (size_t)r.vocab * sizeof(float) : 0;
        logits[i] = malloc(bytes + 1);
        good = good && rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0) == 0 &&
               rig_feed_by(&r, s, 0, 0, 0, 70, 33, logits[i]) == 0;
        if (s)
            r.be->drop_state(s);
        rig_close(&r);
    }
    ok(good && memcmp(logits[0], logits[1], bytes) == 0, "%s, %s: one and two threads", arch,
       backend);
    free(logits[0]);
    free(logits[1]);
}

/* ---- cancel: a block that stops its own window ---- */

static atomic_uint stop;
static const aq_backend *inner;
static int norms_left; /* until stop is set; < 0 = never */
static void stopping_norm(void *ctx, const float *x, const float *w, uint32_t n, uint32_t dim,
                          float eps, float *y)
{
    if (norms_left >= 0 && norms_left-- == 0)
        atomic_store(&stop, 1);
    inner->blocks->norm(ctx, x, w, n, dim, eps, y);
}

static void cancels(const char *arch, const char *backend)
{
    aq_err find;
    if (!ok(aq_backend_find(backend, &inner, &find) == 0, "%s, %s: there", arch, backend))
        return;
    aq_blocks blocks = *inner->blocks;
    blocks.norm = stopping_norm;
    test t = {.arch = arch};
    snprintf(t.name, sizeof(t.name), "%s, %s", arch, backend);
    norms_left = -1;
    bool good = rig_open_path(&t.r, arch, "Q8_0", backend, 1, cpu_path, &blocks) == 0 &&
                rig_state(&t.r, AQ_KV_F32, &t.s) == 0;
    t.want[0] = malloc(row_bytes(&t, LEN));
    t.want[1] = malloc(row_bytes(&t, LEN));
    t.got = malloc(row_bytes(&t, LEN));
    for (uint32_t line = 0; good && line < 2; line++)
        good = fresh(&t, 0) && rig_feed(&t.r, t.s, 0, line, 0, LEN, t.want[line]) == 0;
    static const uint32_t sizes[] = {1, 8, 20};
    uint32_t n_cancelled = 0, n_through = 0;
    for (size_t z = 0; good && z < AQ_LEN(sizes); z++)
        for (int at = 0; good && at < 20; at += less ? 3 : 1) {
            /* seq 0 and seq 1 in one window that is stopped, then both go on where they were */
            aq_row row[64];
            aq_err err = {0};
            uint32_t n = sizes[z];
            good = fresh(&t, 0) && fresh(&t, 1) && reads(&t, 0, 0, 0, 20, 20) &&
                   reads(&t, 0, 0, 20, 3, 3) && reads(&t, 1, 1, 0, 9, 9);
            for (uint32_t i = 0; i < n; i++) {
                row[i] = (aq_row){.seq = 0, .pos = 23 + i, .tok = rig_tok(1, i)};
                row[n + i] = (aq_row){.seq = 1, .pos = 9 + i, .tok = rig_tok(0, i)};
            }
            norms_left = at;
            int rc = rig_window(&t.r, t.s, row, 2 * n, NULL, 0, t.got, NULL, &stop, &err);
            norms_left = -1;
            atomic_store(&stop, 0);
            n_cancelled += rc == -AQ_E_CANCELLED;
            n_through += rc == 0;
            good = good && (rc == -AQ_E_CANCELLED || rc == 0);
            if (rc == -AQ_E_CANCELLED)
                good = good && reads(&t, 0, 0, 23, 5, 2) && reads(&t, 1, 1, 9, 5, 5);
        }
    ok(good && n_cancelled > (less ? 3 : 8) && n_through > 0,
       "%s: a window stopped at any layer leaves no trace (%u stopped, %u not)", t.name,
       n_cancelled, n_through);
    if (t.s)
        t.r.be->drop_state(t.s);
    free(t.want[0]);
    free(t.want[1]);
    free(t.got);
    rig_close(&t.r);
}

/* ---- stages: layers [0, cut) and [cut, n) ---- */

static void stages(const char *arch, const char *backend)
{
    rig r;
    aq_err err = {0};
    void *s = NULL, *w[2] = {0}, *st[2] = {0};
    bool good = rig_open_path(&r, arch, "F16", backend, 2, cpu_path, NULL) == 0 &&
                rig_state(&r, AQ_KV_F16, &s) == 0 && rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0) == 0;
    uint32_t n_layer = good ? aq_model_get_info(r.m)->n_layer : 0, n = 33;
    aq_row row[33];
    for (uint32_t i = 0; i < n; i++)
        row[i] = (aq_row){.pos = i, .tok = rig_tok(0, i), .flags = AQ_ROW_BACK};
    float *x = malloc(n * r.wide * sizeof(*x)), *y = malloc(n * r.wide * sizeof(*x)),
          *z = malloc(n * r.wide * sizeof(*x));
    aq_window win = {.n_rows = n, .n_back = n, .row = row, .x = x};
    good = good && r.be->embed(r.w, row, n, x, &err) == 0 &&
           r.be->forward(r.w, s, &win, NULL, 0, y, NULL, &err) == 0;
    const uint8_t *cut_ok = good ? aq_model_get_info(r.m)->cut_ok : NULL;
    for (uint32_t cut = 1; good && cut < n_layer; cut++) {
        aq_place whole = {0};
        if (!cut_ok[cut]) { /* the second part would read KV that it does not keep */
            good = r.be->load(r.rt, r.m, &r.src, &whole, cut, n_layer, NULL, &w[0], &err) ==
                   -AQ_E_INVAL;
            continue;
        }
        aq_state_cfg cfg = {.kv_type = AQ_KV_F16, .n_page = 1, .max_seq = 1, .max_rows = n};
        for (uint32_t i = 0; good && i < 2; i++) {
            aq_place place = {0};
            good = r.be->load(r.rt, r.m, &r.src, &place, i ? cut : 0, i ? n_layer : cut, NULL,
                              &w[i], &err) == 0 &&
                   r.be->state(w[i], &cfg, &st[i], &err) == 0 &&
                   rig_op(&r, st[i], AQ_OP_KEEP, 0, 0, 0) == 0;
        }
        win.x = x;
        good = good && r.be->forward(w[0], st[0], &win, NULL, 0, z, NULL, &err) == 0;
        win.x = z;
        good = good && r.be->forward(w[1], st[1], &win, NULL, 0, z, NULL, &err) == 0 &&
               memcmp(y, z, n * r.wide * sizeof(*x)) == 0;
        for (uint32_t i = 0; i < 2; i++) {
            if (st[i])
                r.be->drop_state(st[i]);
            if (w[i])
                r.be->drop(w[i]);
            st[i] = w[i] = NULL;
        }
    }
    ok(good && n_layer > 1, "%s, %s: parted before any layer, the same rows", arch, backend);
    free(x);
    free(y);
    free(z);
    if (s)
        r.be->drop_state(s);
    rig_close(&r);
}

/* ---- draft head ---- */

static int draft(rig *r, void *s, const float *hidden, uint32_t pos, uint32_t n, float *logits)
{
    aq_row row[64];
    for (uint32_t i = 0; i < n; i++)
        row[i] = (aq_row){
            .pos = pos + i, .tok = rig_tok(0, pos + i), .flags = AQ_ROW_LOGITS | AQ_ROW_DRAFT};
    aq_window w = {.n_rows = n, .n_back = n, .row = row, .x = hidden + (size_t)(pos - 1) * r->embd};
    return r->be->draft(r->w, s, &w, logits, NULL, NULL, NULL);
}

static void drafts(const char *backend)
{
    enum { N = 60 };
    rig r;
    void *s = NULL;
    aq_row row[N];
    aq_err err = {0};
    bool good = rig_open_path(&r, "qwen35", "Q8_0", backend, 2, cpu_path, NULL) == 0 &&
                rig_state(&r, AQ_KV_F32, &s) == 0 && rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0) == 0;
    if (!ok(good, "qwen35, %s: loads with its draft layer", backend)) {
        rig_close(&r);
        return;
    }
    size_t rb = r.vocab * sizeof(float);
    float *hidden = malloc(N * r.embd * sizeof(float)), *logits = malloc(N * rb),
          *one = malloc(N * rb), *two = malloc(N * rb);
    for (uint32_t i = 0; i < N; i++)
        row[i] = (aq_row){.pos = i, .tok = rig_tok(0, i)};
    good = rig_window(&r, s, row, N, NULL, 0, logits, hidden, NULL, &err) == 0;
    good = good && draft(&r, s, hidden, 0 + 1, N - 1, one) == 0;
    ok(good && draft(&r, s, hidden, 1, 1, two) == -AQ_E_INVAL,
       "%s: draft positions go on from where they were", backend);
    good = rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0) == 0 &&
           rig_window(&r, s, row, N, NULL, 0, logits, hidden, NULL, &err) == 0;
    for (uint32_t p = 1; good && p < N; p += 4)
        good = draft(&r, s, hidden, p, AQ_MIN(4u, N - p), two + (size_t)(p - 1) * r.vocab) == 0;
    ok(good && memcmp(one, two, (N - 1) * rb) == 0, "%s: draft rows in any windows, the same bits",
       backend);
    /* a draft that ran ahead of the chat, taken back by the chat's KEEP */
    good = rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0) == 0 &&
           rig_window(&r, s, row, 40, NULL, 0, logits, hidden, NULL, &err) == 0 &&
           draft(&r, s, hidden, 1, 40, two) == 0 && memcmp(one, two, 40 * rb) == 0;
    good = good && rig_window(&r, s, row + 40, 4, NULL, 0, logits, hidden + 40 * (size_t)r.embd,
                              NULL, &err) == 0;
    ok(good && rig_op(&r, s, AQ_OP_KEEP, 0, 0, 42) == 0 && draft(&r, s, hidden, 41, 2, two) == 0 &&
           memcmp(one + 40 * (size_t)r.vocab, two, 2 * rb) == 0,
       "%s: KEEP leaves the draft rows below it", backend);
    ok(good && rig_op(&r, s, AQ_OP_KEEP, 0, 0, 38) == 0 &&
           draft(&r, s, hidden, 39, 1, two) == -AQ_E_INVAL &&
           draft(&r, s, hidden, 38, 3, two) == 0 &&
           memcmp(one + 37 * (size_t)r.vocab, two, 3 * rb) == 0,
       "%s: KEEP takes back the draft rows above it", backend);
    free(hidden);
    free(logits);
    free(one);
    free(two);
    r.be->drop_state(s);
    rig_close(&r);
}

static int alloc_run(void *user)
{
    rig r = *(rig *)user; /* its model, with weights of our own */
    aq_err err = {0};
    aq_place place = {.flags = AQ_PLACE_ENDS};
    aq_state_cfg cfg = {
        .kv_type = AQ_KV_F16, .n_page = 4, .max_seq = 2, .n_snap = 1, .max_rows = 4};
    void *s = NULL;
    aq_row row = {.tok = 1};
    float logits[GW_VOCAB];
    int rc =
        r.be->load(r.rt, r.m, &r.src, &place, 0, aq_model_get_info(r.m)->n_layer, NULL, &r.w, &err);
    if (rc < 0)
        return rc;
    rc = r.be->state(r.w, &cfg, &s, &err);
    if (rc == 0)
        rc = rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0);
    if (rc == 0)
        rc = rig_window(&r, s, &row, 1, NULL, 0, logits, NULL, NULL, &err);
    if (rc == 0)
        rc = rig_op(&r, s, AQ_OP_FORK, 1, 0, 1);
    if (s)
        r.be->drop_state(s);
    r.be->drop(r.w);
    return rc;
}

/* What loading reads is what was said: progress ends at its total, and the figures that others plan with are the same. */
static void progress(const char *arch, const char *backend)
{
    rig r;
    aq_err err = {0};
    bool good = rig_open_path(&r, arch, "F16", backend, 1, cpu_path, NULL) == 0;
    const aq_model_info *in = good ? aq_model_get_info(r.m) : NULL;
    for (uint32_t k = 0; good && k < 2; k++) { /* the ends; all layers */
        aq_place place = {.flags = k ? 0 : AQ_PLACE_ENDS};
        aq_progress p = {0};
        void *w = NULL;
        uint32_t n = k ? in->n_layer : 0;
        uint64_t want = k ? in->stage_bytes : in->ends_bytes;
        for (uint32_t i = 0; i < n; i++)
            want += in->layer_bytes[i];
        good = r.be->load(r.rt, r.m, &r.src, &place, 0, n, &p, &w, &err) == 0 &&
               atomic_load(&p.done) == want && aq_net_load_bytes(r.m, &place, 0, n) == want;
        if (!good)
            printf("# %llu read, %llu said\n", (unsigned long long)atomic_load(&p.done),
                   (unsigned long long)want);
        if (w)
            r.be->drop(w);
    }
    ok(good, "%s, %s: as many bytes are loaded as were said", arch, backend);
    rig_close(&r);
}

/** Sections of an interleaved rope: a pair that none of the three positions of text has does not turn. */
static void still_pairs(void)
{
    const aq_net net = {0};
    aq_layer d = {.n_rot = 16, .rope_base = 10000, .scale = {.factor = 1, .mag = 1}};
    float plain[16], sect[16];
    aq_rope_at(&net, &d, 100, plain);
    memcpy(d.sect, (uint32_t[]){4, 2, 2, 0}, sizeof d.sect);
    aq_rope_at(&net, &d, 100, sect);
    ok(!memcmp(plain, sect, 14 * sizeof(float)) && sect[14] == 1 && sect[15] == 0 && plain[15] != 0,
       "sections 4, 2, 2: pair 7 belongs to none");
    memcpy(d.sect, (uint32_t[]){3, 3, 2, 0}, sizeof d.sect);
    aq_rope_at(&net, &d, 100, sect);
    ok(!memcmp(plain, sect, sizeof plain), "sections 3, 3, 2: all turn");
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35", "qwen4exp"};
    static const char *const more[] = {
        "qwen2",   "qwen3",   "olmoe",     "granitemoe", "minimax-m2", "qwen35moe", "qwen3next",
        "glm4moe", "gpt-oss", "deepseek2", "gemma3",     "gemma4",     "gemma4-ple"};
    const char *backend = argc > 1 ? argv[1] : "reference";
    bool there = argc < 3;
    cpu_path = argc > 2 ? argv[2] : NULL;
    for (const char *const *p = aq_cpu_paths(); *p; p++)
        there = there || strcmp(*p, cpu_path) == 0;
    if (!there) {
        tap_skip("windows", "this CPU does not have the path");
        return tap_done();
    }
    less = getenv("AQ_SANITIZE") != NULL;
    /* the store is the same, qwen4exp takes long */
    bool slow = !strcmp(backend, "reference") || (less && cpu_path && !strcmp(cpu_path, "c"));
    for (size_t i = 0; i < AQ_LEN(archs) - slow; i++) {
        run(archs[i], backend, i == 2 ? AQ_KV_Q8_0 : AQ_KV_F32);
        threads(archs[i], backend);
        stages(archs[i], backend);
        cancels(archs[i], backend);
        if (!cpu_path)
            progress(archs[i], backend);
    }
    for (size_t i = 0; i < AQ_LEN(more); i++) {
        brief(more[i], backend, i % 3); /* every KV type, deepseek2 with q8_0 */
        threads(more[i], backend);
        stages(more[i], backend);
        if (!cpu_path) /* once: the reference */
            progress(more[i], backend);
    }
    if (slow)
        brief("qwen4exp", backend, AQ_KV_F16);
    run("qwen3moe", backend, AQ_KV_F16);
    drafts(backend);
    still_pairs();
    rig r;
    if (ok(rig_open_path(&r, "qwen35", "F32", backend, 1, cpu_path, NULL) == 0,
           "a model to fail on"))
        torture("load, state, one window and FORK", alloc_run, &r);
    rig_close(&r);
    return tap_done();
}
