/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of stages: the engine with half of the layers in another process, nothing shared
 * (tests/lib/pipe-stage.c), gives the tokens that one process gives: two chats, two windows under
 * way, FORK, rollback, cancel, the child killed and another one replayed. With an ordinary model
 * and with a recurrent one. What is expected comes from aq_eval, which knows no scheduler.
 *
 * Arguments: backend, then model files; none: random models of tests/lib/gguf-write.c. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "backend-priv.h"
#include "chat.h"
#include "gguf-write.h"
#include "pipe-stage.h"
#include "tap.h"

#define CTX 512u
#define CHUNK 32u

typedef struct rig {
    const char *path, *backend;
    char name[64];
    aq_rt *rt;
    aq_model *m;
    aq_wsrc src;
    const aq_model_info *in;
} rig;

static aq_state_cfg state_cfg(void)
{
    return (aq_state_cfg){
        .kv_type = AQ_KV_F16, .n_page = 24, .max_seq = 8, .n_snap = 10, .max_rows = 64};
}

static void fill(const rig *r, int32_t *tok, uint32_t from, uint32_t to, uint32_t seed)
{
    for (uint32_t i = from; i < to; i++)
        tok[i] = (int32_t)(((seed * 2654435761u ^ i * 2246822519u) >> 7) % r->in->n_vocab);
}

static int32_t best(const float *l, uint32_t n)
{
    uint32_t b = 0;

    for (uint32_t i = 1; i < n; i++)
        if (l[i] > l[b])
            b = i;
    return (int32_t)b;
}

/* The greedy answer of one process, one seq, no scheduler. */
static bool answer(const rig *r, const int32_t *tok, uint32_t n, uint32_t n_gen, int32_t *ret)
{
    AQ_AUTO(aq_eval_free) aq_eval *ev = NULL;
    AQ_AUTOFREE float *l = malloc(r->in->n_vocab * sizeof *l);
    aq_err err = {0};
    int rc = aq_eval_new(r->rt, r->m, &r->src, &(aq_place){.backend = r->backend}, AQ_KV_F16, CTX,
                         CTX, NULL, &ev, &err);

    for (uint32_t at = 0, k; rc >= 0 && at < n; at += k) {
        k = AQ_MIN(100u, n - at);
        rc = aq_eval_rows(ev, tok + at, k, true, l, NULL, &err);
    }
    for (uint32_t i = 0; rc >= 0 && i < n_gen; i++) {
        ret[i] = best(l, r->in->n_vocab);
        if (i + 1 < n_gen)
            rc = aq_eval_rows(ev, &ret[i], 1, true, l, NULL, &err);
    }
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc >= 0;
}

static bool same(const chat *c, const int32_t *want, uint32_t n)
{
    if (c->n_error)
        printf("# %s\n", c->err.text);
    for (uint32_t i = 0; i < n; i++)
        if (i >= c->n_tok || c->tok[i] != want[i]) {
            printf("# token %u of %u: %d, wanted %d\n", i, c->n_tok, i < c->n_tok ? c->tok[i] : -1,
                   want[i]);
            return false;
        }
    return c->n_tok == n;
}

/* Layers [0, k) here, [k, n) in a child. */
static bool split(const rig *r, uint32_t k, aq_stage *st[2])
{
    aq_err err = {0};
    pipe_cfg pc = {.model = r->path,
                   .backend = r->backend,
                   .l0 = k,
                   .l1 = r->in->n_layer,
                   .state = state_cfg()};

    st[1] = pipe_stage(&pc, r->in->row_f32, &err);
    if (st[1] && aq_stage_local(r->rt, r->m, &r->src, &(aq_place){.backend = r->backend}, &pc.state,
                                0, k, NULL, &st[0], &err) >= 0)
        return true;
    printf("# %s\n", err.text);
    if (st[1])
        st[1]->vt->close(st[1]);
    return false;
}

/* ---- through the engine ---- */

static void engine_cases(const rig *r)
{
    enum { N = 30, NC = 230, NL = 400 };
    aq_stage *st[2], *second[2];
    aq_engine *e = NULL;
    aq_err err = {0};
    int32_t a[200], b[150], c[NC], d[NL], wa[N * 8], wb[N * 8], wc[N], wd[N];
    chat A = {0}, B = {0}, C = {0}, D = {0};
    aq_req_state s;
    aq_engine_stats es;

    fill(r, a, 0, 200, 1);
    fill(r, b, 0, 150, 2);
    memcpy(c, a, sizeof a);
    fill(r, c, 200, NC, 3);
    fill(r, d, 0, NL, 4);
    if (!ok(answer(r, a, 200, N * 8, wa) && answer(r, b, 150, N * 8, wb) &&
                answer(r, c, NC, N, wc) && answer(r, d, NL, N, wd),
            "%s: one process answers", r->name))
        return;
    bool made = split(r, 1, st) && aq_engine_new(r->rt, r->m, &r->src,
                                                 &(aq_engine_cfg){.place = {.backend = r->backend},
                                                                  .n_ctx = CTX,
                                                                  .n_parallel = 4,
                                                                  .chunk_tok = CHUNK,
                                                                  .stage = st,
                                                                  .n_stage = 2},
                                                 &e, &err) >= 0;
    if (!ok(made, "%s: an engine with a stage in a child %s", r->name, err.text))
        return;
    ok(pipe_stage_pid(st[1]) != getpid(), "%s: which is another process", r->name);

    /* two chats, two windows under way at once; a third one forked from a running one */
    chat_start_tok(&A, e, a, 200, N * 8);
    chat_start_tok(&B, e, b, 150, N * 8);
    chat_wait_tok(&A, 3);
    chat_wait_tok(&B, 3);
    pipe_stage_stop(st[1], true);
    ok(wait_until(pipe_stage_waiting(st[1]) == 2),
       "%s: two windows of two chats are under way while the child stands still", r->name);
    pipe_stage_stop(st[1], false);
    chat_start_tok(&C, e, c, NC, N);
    ok(chat_wait(&C) && same(&C, wc, N), "%s: a chat that begins like a running one is right",
       r->name);
    ok(C.usage.cached_tok == 200, "%s: and was forked from it (%u tokens)", r->name,
       C.usage.cached_tok);
    chat_end(&C);

    /* cancelled in the middle of its prompt, then asked again */
    chat_start_tok(&D, e, d, NL, N);
    wait_until((aq_req_get_state(D.req, &s), s.read_tok >= 3 * CHUNK));
    aq_req_cancel(D.req);
    ok(chat_wait(&D) && D.n_done == 1 && D.reason == AQ_DONE_CANCELLED,
       "%s: a chat is stopped while its prompt is read", r->name);
    chat_end(&D);
    chat_start_tok(&D, e, d, NL, N);
    ok(chat_wait(&D) && same(&D, wd, N), "%s: asked again it is right", r->name);
    ok(r->in->recurrent ? D.usage.cached_tok == 0 : D.usage.cached_tok >= 3 * CHUNK,
       "%s: with what was read before (%u tokens)", r->name, D.usage.cached_tok);
    chat_end(&D);
    ok(chat_wait(&A) && same(&A, wa, N * 8), "%s: the first chat beside all that is right",
       r->name);
    ok(chat_wait(&B) && same(&B, wb, N * 8), "%s: and the second", r->name);
    ok(pipe_stage_most(st[1]) >= 2, "%s: the child had %u windows at once", r->name,
       pipe_stage_most(st[1]));
    chat_end(&A);
    chat_end(&B);

    /* killed in the middle of two answers and of a prompt; another cut after that */
    chat_start_tok(&A, e, a, 200, N * 8);
    chat_start_tok(&B, e, b, 150, N * 8);
    chat_wait_tok(&A, 20);
    chat_start_tok(&D, e, d, NL, N);
    pipe_stage_kill(st[1]);
    ok(wait_until((aq_engine_get_stats(e, &es), es.paused)),
       "%s: the child is killed, the engine pauses", r->name);
    chat_pop_all(&A);
    uint32_t had = A.n_tok;
    ok(had >= 20 && had < N * 8 && !A.n_error && !B.n_error && !D.n_error,
       "%s: no chat ends for it (%u tokens so far)", r->name, had);
    made = split(r, 2, second) && aq_engine_set_stages(e, second, 2, &err) >= 0;
    ok(made, "%s: another child with other layers takes over", r->name);
    ok(chat_wait(&A) && same(&A, wa, N * 8),
       "%s: the first answer goes on, no token lost or repeated", r->name);
    ok(chat_wait(&B) && same(&B, wb, N * 8), "%s: so does the second", r->name);
    ok(chat_wait(&D) && same(&D, wd, N), "%s: and the one whose prompt was being read", r->name);
    chat_end(&A);
    chat_end(&B);
    chat_end(&D);
    aq_engine_free(e);
}

/* ---- by hand: what the engine does not do yet (drafts), and every operation ---- */

typedef struct hand {
    const rig *r;
    const aq_backend *be;
    void *ends;
    aq_stage *st[2];
    uint32_t n_st;
    uint64_t id;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;
    int rc;
    uint32_t n_back;
    float *x; /* [64][row_f32] */
} hand;

static void hand_done(void *user, aq_stage *st, const aq_done *d)
{
    hand *h = user;

    (void)st;
    pthread_mutex_lock(&h->mu);
    h->done = true;
    h->rc = d->rc;
    h->n_back = d->n_back;
    if (d->rc < 0)
        printf("# window: %s\n", d->err.text);
    else if (d->n_back)
        memcpy(h->x, d->x, (size_t)d->n_back * h->r->in->row_f32 * sizeof(float));
    pthread_cond_signal(&h->cv);
    pthread_mutex_unlock(&h->mu);
}

static bool hand_open(hand *h, const rig *r, aq_stage *const *st, uint32_t n_st)
{
    aq_err err = {0};

    *h = (hand){.r = r, .n_st = n_st};
    pthread_mutex_init(&h->mu, NULL);
    pthread_cond_init(&h->cv, NULL);
    h->x = malloc(64u * r->in->row_f32 * sizeof *h->x);
    for (uint32_t i = 0; i < n_st; i++) {
        h->st[i] = st[i];
        st[i]->done_cb = hand_done;
        st[i]->done_user = h;
    }
    int rc = aq_backend_find(r->backend, &h->be, &err);
    if (rc >= 0)
        rc = h->be->load(r->rt, r->m, &r->src,
                         &(aq_place){.backend = r->backend, .flags = AQ_PLACE_ENDS}, 0, 0, NULL,
                         &h->ends, &err);
    return rc >= 0 && h->x;
}

static void hand_close(hand *h)
{
    for (uint32_t i = 0; i < h->n_st; i++)
        h->st[i]->vt->close(h->st[i]);
    if (h->ends)
        h->be->drop(h->ends);
    free(h->x);
}

/* One window through all stages, one after the other: logits [n][n_vocab] of all rows. */
static int hand_window(hand *h, const aq_op *op, uint32_t n_ops, uint32_t seq, uint32_t pos,
                       const int32_t *tok, uint32_t n, float *logits)
{
    aq_row row[64];
    aq_err err = {0};
    int rc = 0;

    for (uint32_t i = 0; i < n; i++)
        row[i] = (aq_row){
            .seq = seq, .pos = pos + i, .tok = tok[i], .flags = AQ_ROW_BACK | AQ_ROW_LOGITS};
    if (n && h->be->embed(h->ends, row, n, h->x, &err) < 0)
        return -1;
    for (uint32_t s = 0; rc >= 0 && s < h->n_st; s++) {
        aq_window w = {.id = ++h->id,
                       .epoch = 1,
                       .n_ops = n_ops,
                       .n_rows = n,
                       .n_back = n,
                       .op = op,
                       .row = row,
                       .x = h->x};
        h->done = false;
        rc = h->st[s]->vt->submit(h->st[s], &w, &err);
        if (rc >= 0 && h->st[s]->vt->work)
            h->st[s]->vt->work(h->st[s], &err);
        pthread_mutex_lock(&h->mu);
        while (rc >= 0 && !h->done)
            pthread_cond_wait(&h->cv, &h->mu);
        pthread_mutex_unlock(&h->mu);
        if (rc >= 0)
            rc = h->rc;
        if (rc >= 0 && h->n_back != n)
            rc = -AQ_E_PROTO;
    }
    if (rc >= 0 && n && logits)
        rc = h->be->head(h->ends, h->x, n, logits, NULL, &err);
    if (rc >= 0 && n && h->be->sync)
        rc = h->be->sync(h->ends, &err);
    return rc;
}

#define OP(k, s, f, a) (&(aq_op){.kind = AQ_OP_##k, .seq = (s), .from = (f), .arg = (a)}), 1

/* Logits of tok[0..n) read plainly into a fresh seq: [n][n_vocab]. */
static bool plain(hand *h, uint32_t seq, const int32_t *tok, uint32_t n, float *ret)
{
    bool good = hand_window(h, OP(KEEP, seq, 0, 0), 0, 0, NULL, 0, NULL) >= 0;

    for (uint32_t at = 0, k; good && at < n; at += k) {
        k = AQ_MIN(20u, n - at);
        good = hand_window(h, NULL, 0, seq, at, tok + at, k,
                           ret + (size_t)at * h->r->in->n_vocab) >= 0;
    }
    return good;
}

static void hand_cases(const rig *r)
{
    enum { N = 100 };
    uint32_t v = r->in->n_vocab;
    aq_stage *one[1], *two[2];
    hand h1, h2;
    aq_err err = {0};
    int32_t t[N], other[N];
    AQ_AUTOFREE float *want = malloc(N * v * sizeof *want), *got = malloc(N * v * sizeof *got);
    aq_state_cfg sc = state_cfg();
    bool made = aq_stage_local(r->rt, r->m, &r->src, &(aq_place){.backend = r->backend}, &sc, 0,
                               r->in->n_layer, NULL, &one[0], &err) >= 0 &&
                split(r, r->in->n_layer - 1, two) && hand_open(&h1, r, one, 1) &&
                hand_open(&h2, r, two, 2);

    fill(r, t, 0, N, 11);
    fill(r, other, 0, N, 12);
    if (!ok(made && want && got && plain(&h1, 0, t, N, want), "%s: by hand, one stage and two",
            r->name))
        return;
    ok(plain(&h2, 0, t, N, got) && !memcmp(got, want, N * v * sizeof *got),
       "%s: the same bits over two", r->name);

#define SAME(from, n) \
    (!memcmp(got + (size_t)(from) * v, want + (size_t)(from) * v, (size_t)(n) * v * sizeof *got))
    /* a draft of 8 rows of which the first 3 are right; then one of which none is; then one kept
     * whole */
    bool good = plain(&h2, 1, t, 40, got) && SAME(0, 40);
    int32_t draft[8];
    memcpy(draft, other, sizeof draft);
    memcpy(draft, t + 40, 3 * sizeof *t);
    good = good && hand_window(&h2, NULL, 0, 1, 40, draft, 8, got + 40 * v) >= 0 && SAME(40, 3);
    good = good && hand_window(&h2, OP(KEEP, 1, 0, 43), 1, 43, other, 5, NULL) >= 0;
    good = good && hand_window(&h2, OP(KEEP, 1, 0, 43), 1, 43, t + 43, 8, got + 43 * v) >= 0 &&
           SAME(43, 8);
    good = good && hand_window(&h2, OP(KEEP, 1, 0, 51), 1, 51, t + 51, 20, got + 51 * v) >= 0 &&
           SAME(51, 20);
    ok(good, "%s: drafts taken back by KEEP within their window leave no trace", r->name);

    /* taken back to the first row and by one row */
    good = plain(&h2, 1, t, 30, got) && hand_window(&h2, NULL, 0, 1, 30, other, 8, NULL) >= 0 &&
           hand_window(&h2, OP(KEEP, 1, 0, 30), 1, 30, t + 30, 4, got + 30 * v) >= 0 &&
           SAME(30, 4) &&
           hand_window(&h2, OP(KEEP, 1, 0, 33), 1, 33, t + 33, 7, got + 33 * v) >= 0 && SAME(33, 7);
    ok(good, "%s: so it is for all rows of a window and for one", r->name);

    /* FORK within the last window, and both go on */
    good = plain(&h2, 1, t, 50, got) &&
           hand_window(&h2, NULL, 0, 1, 50, t + 50, 6, got + 50 * v) >= 0 &&
           hand_window(&h2, OP(FREE, 2, 0, 0), 0, 0, NULL, 0, NULL) >= 0 &&
           hand_window(&h2, OP(FORK, 2, 1, 53), 2, 53, t + 53, 8, got + 53 * v) >= 0 &&
           SAME(50, 11);
    memset(got + 56 * v, 0, 5 * v * sizeof *got);
    good = good && hand_window(&h2, NULL, 0, 1, 56, t + 56, 10, got + 56 * v) >= 0 && SAME(56, 10);
    ok(good, "%s: FORK in the middle of the last window: both are right", r->name);

    /* SNAP, far away, RESTORE */
    good = plain(&h2, 3, t, 60, got) &&
           hand_window(&h2, OP(SNAP, 3, 0, 7), 3, 60, other, 30, NULL) >= 0 &&
           hand_window(&h2, OP(RESTORE, 3, 0, 7), 3, 60, t + 60, 30, got + 60 * v) >= 0 &&
           SAME(60, 30);
    ok(good, "%s: SNAP and RESTORE", r->name);
    if (r->in->recurrent) {
        good = hand_window(&h2, OP(KEEP, 3, 0, 70), 0, 0, NULL, 0, NULL) >= 0;
        ok(good && hand_window(&h2, NULL, 0, 3, 70, t + 70, 1, NULL) == -AQ_E_INVAL,
           "%s: cut outside the last window rows are refused", r->name);
        ok(hand_window(&h2, OP(RESTORE, 3, 0, 7), 3, 60, t + 60, 5, got + 60 * v) >= 0 &&
               SAME(60, 5),
           "%s: until RESTORE", r->name);
    } else {
        good = hand_window(&h2, OP(KEEP, 3, 0, 70), 3, 70, t + 70, 5, got + 70 * v) >= 0 &&
               SAME(70, 5);
        ok(good, "%s: KEEP cuts anywhere", r->name);
    }

    /* what is wrong is refused, in the child too, and harms nobody */
    ok(hand_window(&h2, NULL, 0, 0, N + 5, t, 1, NULL) == -AQ_E_INVAL,
       "%s: a row with a gap before it is INVAL", r->name);
    ok(hand_window(&h2, NULL, 0, 6, 0, t, 1, NULL) == -AQ_E_INVAL,
       "%s: so is one of a seq that is not there", r->name);
    ok(hand_window(&h2, OP(FREE, 0, 0, 0), 0, 0, NULL, 0, NULL) >= 0 &&
           hand_window(&h2, NULL, 0, 0, N, t, 1, NULL) == -AQ_E_INVAL,
       "%s: or that was freed by a window without rows", r->name);
    aq_row far = {.seq = 1u << 20};
    float x0[4096] = {0};
    aq_window w = {.id = 99999, .epoch = 1, .n_rows = 1, .row = &far, .x = x0};
    h2.done = false;
    int rc = r->in->row_f32 <= 4096 ? two[1]->vt->submit(two[1], &w, &err) : -1;
    pthread_mutex_lock(&h2.mu);
    while (rc >= 0 && !h2.done)
        pthread_cond_wait(&h2.cv, &h2.mu);
    pthread_mutex_unlock(&h2.mu);
    ok(rc >= 0 && h2.rc == -AQ_E_INVAL, "%s: a wild seq number is refused by the child itself",
       r->name);
    ok(plain(&h2, 0, t, N, got) && SAME(0, N), "%s: after all that it still gives the same bits",
       r->name);

    hand_close(&h1);
    hand_close(&h2);
}

static void model(const char *path, const char *name, const char *backend)
{
    rig r = {.path = path, .backend = backend};
    aq_err err = {0};

    if (!ok(aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &r.rt, &err) >= 0 &&
                aq_model_open(r.rt, path, 0, &r.m, &r.src, &err) >= 0,
            "%s opens %s", path, err.text))
        return;
    r.in = aq_model_get_info(r.m);
    snprintf(r.name, sizeof r.name, "%s, %s", r.in->arch, backend);
    hand_cases(&r);
    engine_cases(&r);
    aq_wsrc_close(&r.src);
    aq_model_free(r.m);
    aq_rt_free(r.rt);
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"qwen3moe", "qwen35"};
    const char *backend = argc > 1 ? argv[1] : "reference";
    int status;

    if (pipe_stage_child(argc, argv, &status))
        return status;
    for (int i = 2; i < argc; i++)
        model(argv[i], argv[i], backend);
    for (size_t i = 0; argc <= 2 && i < AQ_LEN(archs); i++) {
        char path[] = "/tmp/aq-contract-XXXXXX";
        int fd = mkstemp(path);
        if (fd < 0)
            continue;
        close(fd);
        if (ok(gw_model(archs[i], "F16", 5, path) == 0, "a random %s", archs[i]))
            model(path, archs[i], backend);
        unlink(path);
    }
    return tap_done();
}
