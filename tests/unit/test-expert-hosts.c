/* SPDX-License-Identifier: Apache-2.0 */
/* Experts through hosts: however they are divided, and whoever drops out, the logits are the same bits as with the layer's own. */
#include <stdio.h>

#include "tap.h"

#include "net-rig.h"

#define N_ROWS 40u

/* A host that forwards to another one and may be told to fail. */
typedef struct shaky {
    aq_expert_host in;
    int fail_begin, fail_end; /* codes to answer with, 0 = none */
    uint32_t n_begin, n_end, only_layer;
} shaky;

static const uint64_t *shaky_resident(void *self, uint32_t layer)
{
    shaky *s = self;
    return s->in.resident(s->in.self, layer);
}

static int shaky_begin(void *self, const aq_expert_job *job, uint64_t *ret, aq_err *err)
{
    shaky *s = self;
    if (s->fail_begin && (s->only_layer == UINT32_MAX || s->only_layer == job->layer))
        return aq_fail(err, -s->fail_begin, "told to");
    s->n_begin++;
    return s->in.begin(s->in.self, job, ret, err);
}

static int shaky_end(void *self, uint64_t ticket, int64_t deadline_us, aq_err *err)
{
    shaky *s = self;
    s->n_end++;
    int rc = s->in.end(s->in.self, ticket, deadline_us, err);
    return s->fail_end ? aq_fail(err, -s->fail_end, "told to") : rc;
}

static rig r;
static void *st;
static float *want_logits, *got;

/* Expert e0 .. e1 as a host; e0 = e1 = 0: all. */
static bool host(uint32_t e0, uint32_t e1, aq_expert_host *ret)
{
    aq_err err = {0};
    aq_place p = {.backend = r.be->name, .e0 = e0, .e1 = e1};
    int rc = aq_expert_host_local(r.rt, r.m, &r.src, &p, 0, aq_model_get_info(r.m)->n_layer, NULL,
                                  ret, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc == 0;
}

static int run(const aq_expert_host *const *hosts, uint32_t n, aq_err *err)
{
    aq_row row[N_ROWS];
    memset(got, 0, N_ROWS * r.vocab * sizeof(float));
    for (uint32_t i = 0; i < N_ROWS; i++)
        row[i] = (aq_row){.pos = i, .tok = rig_tok(0, i)};
    int rc = rig_op(&r, st, AQ_OP_KEEP, 0, 0, 0);
    return rc < 0 ? rc : rig_window(&r, st, row, N_ROWS, hosts, n, got, NULL, NULL, err);
}

static bool same(const aq_expert_host *const *hosts, uint32_t n)
{
    aq_err err = {0};
    int rc = run(hosts, n, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc == 0 && memcmp(got, want_logits, N_ROWS * r.vocab * sizeof(float)) == 0;
}

static void splits(void)
{
    static const uint32_t cuts[] = {1, 3, 4, 7};
    for (size_t i = 0; i < AQ_LEN(cuts); i++) {
        aq_expert_host a, b;
        if (!host(0, cuts[i], &a) || !host(cuts[i], 8, &b)) {
            ok(false, "hosts parted at %u", cuts[i]);
            continue;
        }
        ok(same((const aq_expert_host *[]){&a, &b}, 2) &&
               same((const aq_expert_host *[]){&b, &a}, 2),
           "two hosts parted at expert %u, either order", cuts[i]);
        a.close(a.self);
        b.close(b.self);
    }
}

static void losses(void)
{
    aq_expert_host all, low, h[3];
    aq_err err = {0};
    if (!host(0, 0, &all) || !host(0, 5, &low)) {
        ok(false, "two hosts");
        return;
    }
    shaky s[2] = {{.in = low, .only_layer = UINT32_MAX}, {.in = all, .only_layer = UINT32_MAX}};
    for (uint32_t i = 0; i < 2; i++)
        h[i] = (aq_expert_host){.self = &s[i],
                                .name = "shaky",
                                .resident = shaky_resident,
                                .begin = shaky_begin,
                                .end = shaky_end};
    const aq_expert_host *both[] = {&h[0], &h[1]};
    ok(same(both, 2) && s[0].n_begin > 0 && s[1].n_begin > 0 && s[0].n_begin == s[0].n_end,
       "overlapping hosts: the first has precedence");
    s[0].fail_begin = -AQ_E_GONE;
    ok(same(both, 2), "a host that is gone at begin: the other one computes");
    s[0].only_layer = 1;
    ok(same(both, 2), "the same in one layer only");
    s[0].fail_begin = 0;
    s[0].fail_end = -AQ_E_GONE;
    ok(same(both, 2), "a host that is gone at end: its slots are computed again elsewhere");
    s[0].fail_end = -AQ_E_TIMEOUT;
    ok(same(both, 2), "a host that is too late counts as gone");
    s[0].fail_end = -AQ_E_NOMEM;
    ok(run(both, 2, &err) == -AQ_E_NOMEM, "another error of a host is the window's");
    s[0].fail_end = 0;
    s[1].fail_begin = -AQ_E_GONE;
    ok(run(both, 2, &err) == -AQ_E_GONE && strstr(err.text, "held by no one"),
       "an expert that no one is left for: GONE");
    s[1].fail_begin = 0;
    ok(run((const aq_expert_host *[]){&h[0]}, 1, &err) == -AQ_E_GONE,
       "an expert that no one holds: GONE");
    ok(same(both, 2) && same(NULL, 0), "failed windows leave no trace");
    low.close(low.self);
    all.close(all.self);
}

/* Without parts a host adds its slots in order itself. */
static void sums(void)
{
    aq_expert_host all;
    aq_err err = {0};
    uint32_t embd = r.embd, k = aq_model_get_info(r.m)->n_expert_used;
    AQ_AUTOFREE float *x = malloc(3 * embd * sizeof(float)),
                      *parts = calloc(3 * k * embd, sizeof(float)),
                      *y = malloc(3 * embd * sizeof(float));
    int32_t expert[6] = {2, 5, 7, -1, -1, -1};
    float w[6] = {0.75f, 0.25f, 0.5f, 0.5f, 1, 0}, bad = 0;
    if (k != 2 || !host(0, 0, &all)) {
        ok(false, "a host of all experts");
        return;
    }
    for (uint32_t i = 0; i < 3 * embd; i++)
        x[i] = (float)(i % 17) / 9 - 1;
    for (uint32_t i = 0; i < 6 * embd; i++)
        parts[i] = -123;
    aq_expert_job job = {
        .layer = 1, .n_rows = 3, .k = k, .parts = 1, .x = x, .expert = expert, .w = w, .y = parts};
    uint64_t t[2];
    int rc = all.begin(all.self, &job, &t[0], &err);
    job.parts = 0;
    job.y = y;
    rc |= all.begin(all.self, &job, &t[1], &err) | all.end(all.self, t[1], 0, &err) |
          all.end(all.self, t[0], 0, &err);
    for (uint32_t i = 0; i < embd; i++) {
        bad += y[i] != parts[i] + parts[embd + i];
        bad += y[embd + i] != parts[2 * embd + i] || parts[3 * embd + i] != -123 ||
               parts[4 * embd + i] != -123 || y[2 * embd + i] != 0;
    }
    ok(rc == 0 && bad == 0 && y[0] != 0, "unsummed parts and their sum; absent slots untouched");
    job.k = 3;
    job.n_rows = 2;
    ok(all.begin(all.self, &job, &t[0], &err) == -AQ_E_INVAL,
       "more experts a row than the model uses are refused: %s", err.text);
    job.k = k;
    job.n_rows = 3;
    expert[0] = 8;
    ok(all.begin(all.self, &job, &t[0], &err) == -AQ_E_INVAL, "an expert out of range is refused");
    job.layer = 99;
    ok(all.begin(all.self, &job, &t[0], &err) == -AQ_E_INVAL, "a layer out of range is refused");
    ok(all.end(all.self, 12345, 0, &err) == -AQ_E_INVAL,
       "a ticket that was never given is refused");
    all.close(all.self);
}

int main(int argc, char **argv)
{
    const char *backend = argc > 1 ? argv[1] : "reference";
    aq_err err = {0};
    bool good = rig_open(&r, "qwen3moe", "Q8_0", backend, 2, NULL) == 0 &&
                rig_state(&r, AQ_KV_F32, &st) == 0;
    want_logits = malloc(N_ROWS * GW_VOCAB * sizeof(float));
    got = malloc(N_ROWS * GW_VOCAB * sizeof(float));
    if (ok(good && run(NULL, 0, &err) == 0, "the layers' own experts")) {
        memcpy(want_logits, got, N_ROWS * r.vocab * sizeof(float));
        splits();
        losses();
        sums();
    }
    rig dense;
    aq_place p = {.backend = backend};
    aq_expert_host h;
    good = rig_open(&dense, "llama", "F32", backend, 1, NULL) == 0;
    ok(good && aq_expert_host_local(dense.rt, dense.m, &dense.src, &p, 0, 1, NULL, &h, &err) ==
                   -AQ_E_UNSUPPORTED,
       "a dense model has no experts");
    rig_close(&dense);
    p.e0 = 6;
    p.e1 = 9;
    ok(aq_expert_host_local(r.rt, r.m, &r.src, &p, 0, 1, NULL, &h, &err) == -AQ_E_INVAL,
       "experts that are not there cannot be held");
    if (st)
        r.be->drop_state(st);
    rig_close(&r);
    free(want_logits);
    free(got);
    return tap_done();
}
