/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu backend on random models, each path of this CPU: the same bits however rows are cut into
 * windows and shared among threads, results near the reference's, experts divided among hosts, and
 * loading that fails. */
#include <math.h>
#include <stdio.h>

#include "tap.h"

#include "cpu-priv.h"
#include "net-rig.h"
#include "torture.h"

#ifdef __SANITIZE_THREAD__
#define LEN 40u /* races show in short windows too, and everything is slow */
#else
#define LEN 262u /* more than a page */
#endif

typedef struct kind {
    const char *arch, *type;
} kind;
static const kind kinds[] = {
    {"llama", "mix"}, {"qwen3moe", "mix"}, {"qwen35", "mix"}, {"qwen3moe", "rest"}};
static const char *const paths[] = {"c", "c16", "avx2", "avx2-plain", "avx512", "amx"};

/* Logits of LEN tokens, read in windows of `chunk` (0 = uneven ones); NULL on failure. */
static float *logits_of(const kind *m, const char *backend, const char *path, uint32_t threads,
                        uint32_t kv, uint32_t chunk)
{
    rig r;
    void *s = NULL;
    if (rig_open_path(&r, m->arch, m->type, backend, threads, path, NULL) < 0)
        return NULL;
    float *y = malloc(LEN * (size_t)r.vocab * sizeof *y);
    int rc = y ? rig_state(&r, kv, &s) : -1;
    if (rc == 0)
        rc = rig_op(&r, s, AQ_OP_KEEP, 0, 0, 0);
    for (uint32_t at = 0, n, i = 0; rc == 0 && at < LEN; at += n, i++) {
        n = AQ_MIN(chunk ? chunk : 1 + i * 7 % 13, LEN - at);
        rc = rig_feed(&r, s, 0, 0, at, n, y + (size_t)at * r.vocab);
    }
    if (s)
        r.be->drop_state(s);
    rig_close(&r);
    if (rc == 0)
        return y;
    free(y);
    return NULL;
}

static const size_t logits_bytes = LEN * (size_t)GW_VOCAB * sizeof(float);

static void row_invariance(const kind *m, const char *path, uint32_t kv)
{
    static const struct {
        uint32_t threads, chunk;
    } ways[] = {
#ifdef __SANITIZE_THREAD__
        {2, 1}, {3, 8}, {2, 0}};
#else
        {2, 1}, {1, 31}, {2, 256}, {3, 0}, {2, 8}, {1, 2}, {1, LEN}};
#endif
    uint32_t n_way = AQ_LEN(ways);
    if (path[0] == 'c' && n_way > 3)
        n_way = 3; /* slow, and the order of its sums is plain to see */
    if (getenv("AQ_SANITIZE"))
        n_way = 2;
    AQ_AUTOFREE float *want = logits_of(m, "cpu", path, 2, kv, LEN);
    bool all = want, finite = want;
    for (size_t i = 0; want && i < LEN * (size_t)GW_VOCAB; i++)
        finite = finite && isfinite(want[i]);
    for (size_t i = 0; all && i < n_way; i++) {
        AQ_AUTOFREE float *got = logits_of(m, "cpu", path, ways[i].threads, kv, ways[i].chunk);
        all = got && !memcmp(got, want, logits_bytes);
        if (!all)
            printf("# differs with %u threads and windows of %u rows\n", ways[i].threads,
                   ways[i].chunk);
    }
    ok(all && finite,
       "%s %s %s, KV %s: the same bits in windows of %u rows and in %u other ways, 1 to 3 threads",
       m->arch, m->type, path,
       kv == AQ_KV_F32   ? "f32"
       : kv == AQ_KV_F16 ? "f16"
                         : "q8_0",
       LEN, n_way);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* RMS of the difference relative to the spread of the logits, of all rows but the worst `but` in 100 (at least 2): where two experts are nearly
 * tied, rounding may choose the other one, and a row computed by it is another row. */
static double rel_rms(const float *a, const float *b, uint32_t but)
{
    double row[LEN], d = 0, sum = 0, sum2 = 0, n = LEN * (double)GW_VOCAB;
    for (size_t r = 0; r < LEN; r++) {
        row[r] = 0;
        for (size_t i = r * GW_VOCAB; i < (r + 1) * GW_VOCAB; i++) {
            row[r] += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
            sum += b[i];
            sum2 += (double)b[i] * b[i];
        }
    }
    qsort(row, LEN, sizeof *row, by_size);
    size_t kept = LEN - (but ? AQ_MAX(2, LEN * but / 100) : 0);
    for (size_t r = 0; r < kept; r++)
        d += row[r];
    return sqrt(d / ((double)kept * GW_VOCAB)) / sqrt(sum2 / n - sum / n * sum / n);
}

static void near_reference(const kind *m, const char *path, const float *want)
{
    char exact[24];
    /* the types of `rest` have 1 to 5 bits, and this model's random weights use few of their values: two experts are nearly tied more often.
     * Its better half of the rows is looked at; a fault would be in all of them. */
    bool rest = !strcmp(m->type, "rest");
    snprintf(exact, sizeof exact, "%s-f32", path);
    AQ_AUTOFREE float *f32 = logits_of(m, "cpu", exact, 2, AQ_KV_F32, 64),
                      *q8 = logits_of(m, "cpu", path, 2, AQ_KV_F16, 64);
    double e32 = f32 ? rel_rms(f32, want, 0) : 1, e8 = q8 ? rel_rms(q8, want, rest ? 50 : 2) : 1;
    ok(e32 < 1e-5, "%s %s %s with f32 inputs: %.1e from the reference (below 1e-05)", m->arch,
       m->type, path, e32);
    const double most = 5e-2; /* rounding alone, with a scale per 256 columns, makes 4e-2 of it */
    ok(e8 < most && e8 > 1e-5,
       "%s %s %s: %.1e from the reference but for its worst rows (below %.1e)", m->arch, m->type,
       path, e8, most);
}

/* want: the reference with KV q8_0. The same values are rounded, but for those that the paths put on different sides of a half. */
static void near_reference_q8(const kind *m, const char *path, const float *f32, const float *want)
{
    char exact[16];
    snprintf(exact, sizeof exact, "%s-f32", path);
    AQ_AUTOFREE float *got = logits_of(m, "cpu", exact, 2, AQ_KV_Q8_0, 64);
    double e = got ? rel_rms(got, want, 2) : 1, r = got ? rel_rms(got, f32, 2) : 1;
    ok(e < 5e-3 && r > 2 * e && r < 4e-2,
       "%s %s %s, KV q8_0: %.1e from the reference with it (below 5e-03), %.1e from f32", m->arch,
       m->type, path, e, r);
}

/* Mixers of models with experts: inputs in 16 bits. y [N_FINE][rows] of one matrix with the rows of x, at once or one by one. */
#define N_FINE 7u
static void project(const rig *r, const float *x, bool fine, bool apart, float *y)
{
    const aq_net *net = r->w;
    aq_mat m = net->layer[1].m[AQ_W_Q];
    m.fine = fine;
    for (uint32_t i = 0; i < (apart ? N_FINE : 1); i++)
        net->blocks->matmul(net->ctx, &(aq_mul){&m, y + (size_t)i * m.rows}, 1,
                            x + (size_t)i * m.cols, apart ? 1 : N_FINE);
}

static double worst(const float *a, const float *b, size_t n)
{
    double e = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        e = fmax(e, fabs((double)a[i] - b[i]));
        top = fmax(top, fabs((double)b[i]));
    }
    return e / top;
}

static void fine_inputs(const char *path)
{
    enum { BIG = 4096 };
    char exact[24];
    static float x[N_FINE * BIG], y[4][N_FINE * BIG];
    rig r, f;
    snprintf(exact, sizeof exact, "%s-f32", path);
    bool good = rig_open_path(&r, "qwen3moe", "Q6_K", "cpu", 2, path, NULL) == 0;
    good = good && rig_open_path(&f, "qwen3moe", "Q6_K", "cpu", 2, exact, NULL) == 0;
    if (!ok(good, "%s: qwen3moe, twice", path))
        return;
    const aq_mat *m = &((const aq_net *)r.w)->layer[1].m[AQ_W_Q];
    size_t n = (size_t)N_FINE * m->rows;
    for (uint32_t i = 0; i < N_FINE * m->cols; i++)
        x[i] = sinf((float)i * 1.7f) * (i % 32 == 3 ? 20 : 1);
    good = m->fine && !((const aq_net *)r.w)->layer[1].m[AQ_W_EXP_DOWN].fine && n <= AQ_LEN(y[0]);
    project(&f, x, true, false, y[0]);
    project(&r, x, false, false, y[1]);
    project(&r, x, true, false, y[2]);
    project(&r, x, true, true, y[3]);
    double e8 = worst(y[1], y[0], n), e16 = worst(y[2], y[0], n);
    ok(good && e16 < 1e-4 && e8 > 20 * e16, "%s: 8-bit inputs are off by %.1e, 16-bit ones by %.1e",
       path, e8, e16);
    ok(!memcmp(y[2], y[3], n * sizeof(float)), "%s: 16-bit inputs, together or one by one", path);
    rig_close(&r);
    rig_close(&f);
}

/** NVFP4's second scale: factors that cancel out change no bit. */
static void scaled(const char *path)
{
    const kind plain = {"qwen3moe", "NVFP4"}, with = {"qwen3moe+scale", "NVFP4"};
    for (int ref = 0; ref < 2; ref++) {
        const char *be = ref ? "reference" : "cpu", *p = ref ? NULL : path;
        AQ_AUTOFREE float *a = logits_of(&plain, be, p, 2, AQ_KV_F32, 16),
                          *b = logits_of(&with, be, p, 2, AQ_KV_F32, 16);
        ok(a && b && !memcmp(a, b, logits_bytes), "%s %s: factors of results", be, path);
        if (strcmp(path, "c"))
            break;
    }
}

/* The walk's own loops: each row once, in several pieces when there is enough to do. */
typedef struct seen_rows {
    _Atomic uint32_t row[2048], calls;
} seen_rows;

static void see_rows(void *arg, uint32_t r0, uint32_t r1)
{
    seen_rows *s = arg;
    atomic_fetch_add(&s->calls, 1);
    for (uint32_t r = r0; r < r1; r++)
        atomic_fetch_add(&s->row[r], 1);
}

static void shared_rows(const char *backend, bool shares)
{
    static const struct {
        uint32_t n;
        size_t ops;
        bool parts;
    } loops[] = {{0, 1, false},    {1, 1000000, false}, {3, 4000, false},     {7, 5000, true},
                 {2047, 16, true}, {2048, 2048, true},  {513, 1u << 20, true}};
    rig r;
    if (!ok(rig_open(&r, "qwen3moe", "Q8_0", backend, 2, NULL) == 0, "%s: qwen3moe", backend))
        return;
    const aq_net *net = r.w;
    for (size_t i = 0; i < AQ_LEN(loops); i++) {
        static seen_rows s;
        memset(&s, 0, sizeof s);
        aq_rows_share(net->blocks, net->ctx, see_rows, &s, loops[i].n, loops[i].ops);
        bool once = true;
        for (uint32_t t = 0; t < AQ_LEN(s.row); t++)
            once = once && s.row[t] == (t < loops[i].n);
        ok(once && (s.calls > 1) == (shares && loops[i].parts),
           "%s: %u rows of %zu operations, each once", backend, loops[i].n, loops[i].ops);
    }
    rig_close(&r);
}

/* ---- experts ---- */

static bool host_window(rig *r, const aq_expert_host *const *hosts, uint32_t n_hosts, float *y)
{
    aq_row row[40];
    void *s = NULL;
    aq_err err = {0};
    for (uint32_t i = 0; i < AQ_LEN(row); i++)
        row[i] = (aq_row){.pos = i, .tok = rig_tok(0, i)};
    int rc = rig_state(r, AQ_KV_F16, &s);
    if (rc == 0)
        rc = rig_op(r, s, AQ_OP_KEEP, 0, 0, 0);
    if (rc == 0)
        rc = rig_window(r, s, row, AQ_LEN(row), hosts, n_hosts, y, NULL, NULL, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    if (s)
        r->be->drop_state(s);
    return rc == 0;
}

static void divided_experts(const char *path)
{
    rig r;
    if (!ok(rig_open_path(&r, "qwen3moe", "mix", "cpu", 2, path, NULL) == 0, "%s: a mixture loads",
            path))
        return;
    uint32_t n_layer = aq_model_get_info(r.m)->n_layer, n_exp = aq_model_get_info(r.m)->n_expert;
    size_t bytes = 40 * (size_t)r.vocab * sizeof(float);
    AQ_AUTOFREE float *own = malloc(bytes), *two = malloc(bytes);
    bool good = own && two && host_window(&r, NULL, 0, own);
    for (uint32_t cut = 1; good && cut < n_exp; cut++) {
        aq_expert_host h[2] = {0};
        const aq_expert_host *hosts[] = {&h[0], &h[1]};
        aq_err err = {0};
        for (uint32_t i = 0; good && i < 2; i++) {
            aq_place place = {.backend = "cpu", .e0 = i ? cut : 0, .e1 = i ? n_exp : cut};
            good =
                aq_expert_host_local(r.rt, r.m, &r.src, &place, 0, n_layer, NULL, &h[i], &err) == 0;
        }
        good = good && host_window(&r, hosts, 2, two) && !memcmp(own, two, bytes);
        for (uint32_t i = 0; i < 2; i++)
            if (h[i].close)
                h[i].close(h[i].self);
    }
    ok(good && n_exp > 1, "%s: experts divided between two hosts anywhere, the same bits as one",
       path);
    rig_close(&r);
}

/* ---- loading ---- */

typedef struct bad_src {
    const aq_wsrc *in;
    _Atomic uint32_t left; /* reads that succeed */
    aq_progress *cancel;
} bad_src;

static int bad_read(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *err)
{
    bad_src *b = self;
    uint32_t left = atomic_load(&b->left); /* any thread of the pool */
    while (left && !atomic_compare_exchange_weak(&b->left, &left, left - 1))
        ;
    if (!left && !b->cancel)
        return aq_fail(err, AQ_E_IO, "the file was cut short");
    if (!left)
        atomic_store(&b->cancel->cancel, 1);
    return b->in->read(b->in->self, tensor, off, dst, n, err);
}

static void loading(void)
{
    rig r;
    if (!ok(rig_open(&r, "qwen3moe", "mix", "cpu", 2, NULL) == 0, "a model for loading"))
        return;
    uint32_t n_layer = aq_model_get_info(r.m)->n_layer;
    aq_place place = {.flags = AQ_PLACE_ENDS};
    aq_progress p = {0};
    aq_err err = {0};
    void *w = NULL;
    bad_src b = {.in = &r.src, .left = 20};
    aq_wsrc src = {.self = &b, .read = bad_read};
    ok(r.be->load(r.rt, r.m, &src, &place, 0, n_layer, &p, &w, &err) == -AQ_E_IO && !w &&
           strstr(err.text, "cut short"),
       "a read that fails: %s", err.text);
    b = (bad_src){.in = &r.src, .left = 9, .cancel = &p};
    p = (aq_progress){0};
    ok(r.be->load(r.rt, r.m, &src, &place, 0, n_layer, &p, &w, &err) == -AQ_E_CANCELLED && !w,
       "cancelled while loading: %s", err.text);
    b = (bad_src){.in = &r.src, .left = UINT32_MAX};
    p = (aq_progress){0};
    int rc = r.be->load(r.rt, r.m, &src, &place, 0, n_layer, &p, &w, &err);
    ok(rc == 0 && atomic_load(&p.done) == aq_net_load_bytes(r.m, &place, 0, n_layer),
       "progress ends at the bytes that loading reads");
    r.be->drop(w);
    rig_close(&r);
}

static int alloc_run(void *user)
{
    rig r = *(rig *)user;
    aq_err err = {0};
    aq_place place = {.flags = AQ_PLACE_ENDS};
    aq_state_cfg cfg = {.kv_type = AQ_KV_F16, .n_page = 2, .max_seq = 1, .max_rows = 64};
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
    if (s)
        r.be->drop_state(s);
    r.be->drop(r.w);
    return rc;
}

int main(void)
{
    float *want[AQ_LEN(kinds)];
    bool less = getenv("AQ_SANITIZE") != NULL; /* every walk once */
    for (size_t a = 0; a < AQ_LEN(kinds); a++) {
        want[a] = logits_of(&kinds[a], "reference", NULL, 2, AQ_KV_F32, 64);
        ok(want[a] != NULL, "%s %s: the reference", kinds[a].arch, kinds[a].type);
    }
    AQ_AUTOFREE float *want_q8 = logits_of(&kinds[0], "reference", NULL, 2, AQ_KV_Q8_0, 64);
    for (size_t p = 0; p < AQ_LEN(paths); p++) {
        if (!aq_isa_find(paths[p])) {
            tap_skip(paths[p], "this CPU does not have the path");
            continue;
        }
        for (size_t a = 0; a < AQ_LEN(kinds); a++) {
            /* other kernels than those of the path beside it, the same walk */
            if ((!strcmp(paths[p], "avx2-plain") && a != 0 && a != 3) ||
                (!strcmp(paths[p], "c16") && a % 2 == 0) || (less && paths[p][0] == 'c' && a != 1))
                continue;
            row_invariance(&kinds[a], paths[p], a % 3);
            if (want[a] && (!less || a == 1))
                near_reference(&kinds[a], paths[p], want[a]);
        }
        if (want[0] && want_q8)
            near_reference_q8(&kinds[0], paths[p], want[0], want_q8);
        divided_experts(paths[p]);
        fine_inputs(paths[p]);
        if (!less)
            scaled(paths[p]);
    }
    for (size_t a = 0; a < AQ_LEN(kinds); a++)
        free(want[a]);
    shared_rows("cpu", true);
    shared_rows("reference", false);
    loading();
    rig r;
    if (ok(rig_open(&r, "qwen3moe", "Q8_0", "cpu", 1, NULL) == 0, "a model to fail on"))
        torture("load, state and one window", alloc_run, &r);
    rig_close(&r);
    return tap_done();
}
