/* SPDX-License-Identifier: Apache-2.0 */
/* The golden models over two PCs, both in this process, over real links on loopback: two chats at once
 * at every cut, logits with each format of rows, and what crosses the wire and is read, counted. What is
 * expected comes from one engine and from stages of this PC, which know no pool.
 * usage: test-pool-count GOLDEN-FOLDER */
#include <math.h>
#include <sched.h>
#include <stdio.h>

#include "backend-priv.h"
#include "chat.h"
#include "pool-node.h"
#include "split-priv.h"
#include "tap.h"

#define CTX 512u
#define CHUNK 32u
#define N_GEN 24u
#define N_PROMPT 90u
#define CTL_BYTES 150u /* a PING, its header and TLS record with it, is less */

static node here, there;
static bool less; /* a sanitizer is slow: one model, one cut */
static aq_rt *rt;

typedef struct rig {
    const char *arch;
    aq_model *m;
    aq_wsrc src;
    const aq_model_info *in;
    char path[400];
    /* the worker's PC */
    aq_worker *worker;
    aq_listener *listener;
} rig;

static aq_engine_cfg engine_cfg(void)
{
    return (aq_engine_cfg){.place = {.backend = "cpu"},
                           .n_ctx = CTX,
                           .n_parallel = 2,
                           .n_page = 12,
                           .chunk_tok = CHUNK};
}

static int accept_cb(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    return aq_worker_accept(user, link, ret_cb, err);
}

static bool open_rig(rig *r, const char *golden, const char *arch)
{
    const char *dir = r->path;
    aq_worker_cfg wc = {.rt = rt, .trust = there.trust, .backend = "cpu", .dir = &dir, .n_dir = 1};
    struct sockaddr_storage addr;
    aq_err err = {0};

    *r = (rig){.arch = arch};
    snprintf(r->path, sizeof r->path, "%s/%s.gguf", golden, arch);
    bool good = aq_model_open(rt, r->path, 0, &r->m, &r->src, &err) >= 0 &&
                aq_addr_parse("127.0.0.1", 0, &addr, &err) >= 0 &&
                aq_worker_new(&wc, &r->worker, &err) >= 0 &&
                aq_listener_new(there.net, &addr, 1, accept_cb, r->worker, &r->listener, &err) >= 0;
    r->in = good ? aq_model_get_info(r->m) : NULL;
    return ok(good, "%s: a worker serves it %s", arch, err.text);
}

static void close_rig(rig *r)
{
    aq_listener_free(r->listener);
    aq_worker_free(r->worker);
    aq_wsrc_close(&r->src);
    aq_model_free(r->m);
}

static bool split_at(const rig *r, uint32_t cut, const char *rows, aq_split **ret)
{
    char addr[64];
    const char *addrs[] = {addr};
    aq_split_cfg sc = {.rt = rt,
                       .trust = here.trust,
                       .model = r->m,
                       .src = &r->src,
                       .app = "test 1",
                       .to = aq_trust_id(there.trust),
                       .addr = addrs,
                       .n_addr = 1,
                       .cut = cut,
                       .rows = rows,
                       .engine = engine_cfg()};
    aq_worker_count n;
    aq_err err = {0};

    /* the one before may still be leaving */
    snprintf(addr, sizeof addr, "127.0.0.1:%u", aq_listener_port(r->listener));
    bool good = wait_until((aq_worker_get_count(r->worker, &n), !n.owned)) &&
                aq_split_open(&sc, ret, &err) >= 0;
    return ok(good, "%s: split before layer %u, rows as %s %s", r->arch, cut, rows, err.text);
}

static int32_t tok_at(const rig *r, uint32_t k, uint32_t i)
{
    return (int32_t)((((k + 1) * 2654435761u ^ i * 2246822519u) >> 7) % r->in->n_vocab);
}

static void start(chat *ch, aq_engine *e, const int32_t *tok, uint32_t n)
{
    *ch = (chat){0};
    chat_start_tok(ch, e, tok, n, N_GEN);
}

static bool same(const chat *a, const chat *b)
{
    return a->n_tok == N_GEN && b->n_tok == N_GEN &&
           !memcmp(a->tok, b->tok, N_GEN * sizeof *a->tok);
}

static bool one_pc(const rig *r, aq_engine **ret)
{
    aq_engine_cfg ec = engine_cfg();
    aq_err err = {0};

    return aq_engine_new(rt, r->m, &r->src, &ec, ret, &err) >= 0 || ok(false, "%s", err.text);
}

/* ---- every cut ------------------------------------------------------------------------------- */

static void cuts(const rig *r)
{
    int32_t tok[2][N_PROMPT];
    chat want[2], ch[2];
    aq_engine *e = NULL;
    aq_split *s = NULL;

    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < N_PROMPT; i++)
            tok[k][i] = tok_at(r, k, i);
    if (!one_pc(r, &e))
        return;
    for (uint32_t k = 0; k < 2; k++) {
        start(&want[k], e, tok[k], N_PROMPT - 30 * k);
        chat_wait(&want[k]);
    }
    ok(want[0].n_tok == N_GEN && want[1].n_tok == N_GEN && !same(&want[0], &want[1]),
       "%s: one PC gives two answers", r->arch);
    for (uint32_t cut = 1; cut < (less ? 2 : r->in->n_layer); cut++) {
        if (!r->in->cut_ok[cut] || !split_at(r, cut, "f32", &s))
            continue;
        for (uint32_t k = 0; k < 2; k++)
            start(&ch[k], aq_split_engine(s), tok[k], N_PROMPT - 30 * k);
        chat_wait(&ch[0]);
        chat_wait(&ch[1]);
        ok(same(&ch[0], &want[0]) && same(&ch[1], &want[1]),
           "%s: two chats at once give them too, parted before layer %u", r->arch, cut);
        chat_end(&ch[0]);
        chat_end(&ch[1]);
        aq_split_free(s);
    }
    chat_end(&want[0]);
    chat_end(&want[1]);
    aq_engine_free(e);
}

/* ---- what is sent and read ------------------------------------------------------------------- */

typedef struct counts {
    aq_split_state split;
    aq_worker_count worker;
    aq_engine_stats engine;
} counts;

static void count(const rig *r, aq_split *s, counts *ret)
{
    aq_split_get_state(s, &ret->split);
    aq_engine_get_stats(aq_split_engine(s), &ret->engine);
    aq_worker_get_count(r->worker, &ret->worker);
}

typedef struct turn {
    const char *what;
    uint32_t n, cached; /* tokens of the prompt; of them known to both PCs */
} turn;

/* One answer over both PCs: the right one, and nothing is read that is known, nor sent twice. */
static bool ask(const rig *r, aq_split *s, aq_engine *one, const int32_t *tok, const turn *t,
                uint32_t elem_bytes, chat *ret)
{
    chat want;
    counts c0, c1;
    uint32_t todo = t->n - t->cached, row = r->in->row_f32 * elem_bytes;

    count(r, s, &c0);
    start(ret, aq_split_engine(s), tok, t->n);
    bool good = chat_wait(ret);
    if (one) {
        start(&want, one, tok, t->n);
        good = chat_wait(&want) && same(ret, &want) && good;
        chat_end(&want);
    }
    ok(good && ret->n_tok == N_GEN, "%s, %s: the answer %s", r->arch, t->what, ret->err.text);
    uint32_t rows = todo + N_GEN - 1, wins = (todo + CHUNK - 1) / CHUNK + N_GEN - 1;
    /* the worker counts a window after it has answered it */
    bool counted = wait_until((aq_worker_get_count(r->worker, &c1.worker),
                               c1.worker.n_window - c0.worker.n_window >= wins));
    count(r, s, &c1);
    ok(ret->usage.cached_tok == t->cached && c1.worker.n_row - c0.worker.n_row == rows &&
           c1.engine.rows_read - c0.engine.rows_read == todo &&
           c1.engine.rows_gen - c0.engine.rows_gen == N_GEN,
       "%s, %s: %u of %u tokens are known; %llu rows here, %llu there for %u new and %u answered",
       r->arch, t->what, ret->usage.cached_tok, t->n,
       (unsigned long long)(c1.split.n_row - c0.split.n_row),
       (unsigned long long)(c1.worker.n_row - c0.worker.n_row), todo, N_GEN);
    uint64_t sent = c1.split.n_window - c0.split.n_window;
    ok(counted && sent == wins && c1.worker.n_window - c0.worker.n_window == wins,
       "%s, %s: %llu windows, one for each chunk and each token: none for a checkpoint", r->arch,
       t->what, (unsigned long long)sent);
    /* each row of the prompt has 16 bytes beside its values; rows come back for the last one only */
    uint64_t pure = (uint64_t)row * (todo + 1) + 2ull * row * (N_GEN - 1) + 16ull * todo,
             bytes = c1.split.tx_bytes - c0.split.tx_bytes + c1.split.rx_bytes - c0.split.rx_bytes,
             frames =
                 c1.split.tx_frames - c0.split.tx_frames + c1.split.rx_frames - c0.split.rx_frames,
             ctl = frames - 2 * sent;
    ok(frames >= 2 * sent && bytes >= pure && bytes <= pure + 200ull * wins + CTL_BYTES * ctl,
       "%s, %s: %llu bytes for %llu of rows: %.0f beside them a window", r->arch, t->what,
       (unsigned long long)bytes, (unsigned long long)pure,
       ((double)bytes - (double)pure - CTL_BYTES * (double)ctl) / wins);
    return good;
}

/* A conversation: first turn, second turn, a question edited, the first one again. */
static void conversation(const rig *r)
{
    int32_t tok[3][CTX];
    aq_engine *one = NULL;
    aq_split *s = NULL;
    chat ch;

    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < CTX; i++)
            tok[k][i] = tok_at(r, k, i);
    if (!one_pc(r, &one) || !split_at(r, 1, "f32", &s)) {
        aq_engine_free(one);
        return;
    }
    turn first = {"first turn", N_PROMPT, 0};
    bool good = ask(r, s, one, tok[0], &first, 4, &ch);
    if (good)
        memcpy(tok[0] + N_PROMPT, ch.tok, N_GEN * sizeof *ch.tok);
    chat_end(&ch);
    /* the answer's last token was never read: nothing came after it */
    turn second = {"second turn", N_PROMPT + N_GEN + 40, N_PROMPT + N_GEN - 1};
    if (good)
        good = ask(r, s, one, tok[0], &second, 4, &ch), chat_end(&ch);
    /* other words from token 100 on. A recurrent model goes on from where the first prompt ended, the
     * latest checkpoint before */
    memcpy(tok[1], tok[0], 100 * sizeof tok[0][0]);
    turn edit = {"edited", 130, r->in->recurrent ? N_PROMPT : 100};
    if (good)
        good = ask(r, s, one, tok[1], &edit, 4, &ch), chat_end(&ch);
    turn other = {"another chat", 70, 0};
    if (good)
        good = ask(r, s, one, tok[2], &other, 4, &ch), chat_end(&ch);
    ok(good, "%s: a conversation over two PCs", r->arch);
    aq_split_free(s);
    for (uint32_t type = AQ_ROWS_F16; good && type < AQ_ROWS_N; type++) {
        turn half = {aq_rows_name(type), N_PROMPT, 0};
        if (!split_at(r, 1, aq_rows_name(type), &s))
            break;
        ask(r, s, NULL, tok[0], &half, 2, &ch);
        chat_end(&ch);
        aq_split_free(s);
    }
    aq_engine_free(one);
}

/* ---- logits ---------------------------------------------------------------------------------- */

typedef struct hand {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;
    int rc;
    float *x; /* [16][row_f32] */
    size_t n_x;
} hand;

static void hand_done(void *user, aq_stage *st, const aq_done *d)
{
    hand *h = user;

    (void)st;
    pthread_mutex_lock(&h->mu);
    h->done = true;
    h->rc = d->rc;
    if (d->rc >= 0 && d->n_back)
        memcpy(h->x, d->x, h->n_x * sizeof *h->x);
    pthread_cond_signal(&h->cv);
    pthread_mutex_unlock(&h->mu);
}

/* 16 rows through a stage; h->x in and out. */
static int through(hand *h, aq_stage *st, const int32_t *tok)
{
    aq_op keep = {.kind = AQ_OP_KEEP};
    aq_row row[16];
    aq_window w = {
        .id = 7, .n_ops = 1, .n_rows = 16, .n_back = 16, .op = &keep, .row = row, .x = h->x};
    aq_err err = {0};

    for (uint32_t i = 0; i < 16; i++)
        row[i] = (aq_row){.pos = i, .tok = tok[i], .flags = AQ_ROW_BACK};
    h->done = false;
    st->done_cb = hand_done;
    st->done_user = h;
    int rc = st->vt->submit(st, &w, &err);
    if (rc >= 0 && st->vt->work)
        rc = st->vt->work(st, &err);
    pthread_mutex_lock(&h->mu);
    while (rc >= 0 && !h->done)
        pthread_cond_wait(&h->cv, &h->mu);
    pthread_mutex_unlock(&h->mu);
    return rc < 0 ? rc : h->rc;
}

static int remote_at(const rig *r, uint32_t cut, uint32_t rows, uint32_t epoch,
                     const aq_state_cfg *sc, aq_stage **ret, aq_err *err)
{
    char text[64];
    struct sockaddr_storage addr;
    aq_remote_cfg rc = {.net = here.net,
                        .addr = &addr,
                        .n_addr = 1,
                        .epoch = epoch,
                        .l0 = cut,
                        .l1 = r->in->n_layer,
                        .row_f32 = r->in->row_f32,
                        .rows = rows,
                        .state = *sc};

    snprintf(text, sizeof text, "127.0.0.1:%u", aq_listener_port(r->listener));
    int e = aq_addr_parse(text, 0, &addr, err);
    e = e < 0 ? e : aq_model_fingerprint(r->m, &r->src, rc.model, err);
    e = e < 0 ? e : aq_remote_dial(&rc, ret, err);
    if (e >= 0 && (e = aq_remote_wait(*ret, NULL, err)) < 0) {
        (*ret)->vt->close(*ret);
        *ret = NULL;
    }
    return e;
}

/* Logits of 16 tokens: embedding and layers [0, cut) here, the rest in a stage, the head here. */
static int logits_of(hand *h, const aq_backend *be, void *ends, aq_stage *head, aq_stage *tail,
                     const int32_t *tok, float *ret, aq_err *err)
{
    aq_row row[16];

    for (uint32_t i = 0; i < 16; i++)
        row[i] = (aq_row){.pos = i, .tok = tok[i]};
    int rc = be->embed(ends, row, 16, h->x, err);
    rc = rc < 0 ? rc : through(h, head, tok);
    rc = rc < 0 ? rc : through(h, tail, tok);
    return rc < 0 ? rc : be->head(ends, h->x, 16, ret, NULL, err);
}

static double rel_rms(const float *x, const float *want, size_t n)
{
    double d = 0, s = 0;

    for (size_t i = 0; i < n; i++) {
        d += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        s += (double)want[i] * want[i];
    }
    return s > 0 ? sqrt(d / s) : 1;
}

static void logits(const rig *r, uint32_t cut)
{
    static const double bound[] = {[AQ_ROWS_F32] = 0, [AQ_ROWS_F16] = 5e-3, [AQ_ROWS_BF16] = 2e-2};
    size_t n_logit = 16 * (size_t)r->in->n_vocab;
    AQ_AUTOFREE float *want = calloc(n_logit, sizeof *want), *got = calloc(n_logit, sizeof *got),
                      *x = calloc(16 * (size_t)r->in->row_f32, sizeof *x);
    hand h = {.mu = PTHREAD_MUTEX_INITIALIZER,
              .cv = PTHREAD_COND_INITIALIZER,
              .x = x,
              .n_x = 16 * (size_t)r->in->row_f32};
    aq_state_cfg sc = {
        .kv_type = AQ_KV_F16, .n_page = 4, .max_seq = 2, .n_snap = 2, .max_rows = 32};
    aq_place place = {.backend = "cpu"}, at_ends = {.backend = "cpu", .flags = AQ_PLACE_ENDS};
    aq_stage *head = NULL, *tail = NULL;
    const aq_backend *be = NULL;
    void *ends = NULL;
    int32_t tok[16];
    aq_err err = {0};

    for (uint32_t i = 0; i < 16; i++)
        tok[i] = tok_at(r, 5, i);
    int rc = want && got && x ? aq_backend_find("cpu", &be, &err) : -AQ_E_NOMEM;
    rc = rc < 0 ? rc : be->load(rt, r->m, &r->src, &at_ends, 0, 0, NULL, &ends, &err);
    rc = rc < 0 ? rc : aq_stage_local(rt, r->m, &r->src, &place, &sc, 0, cut, NULL, &head, &err);
    rc = rc < 0 ? rc
                : aq_stage_local(rt, r->m, &r->src, &place, &sc, cut, r->in->n_layer, NULL, &tail,
                                 &err);
    rc = rc < 0 ? rc : logits_of(&h, be, ends, head, tail, tok, want, &err);
    ok(rc >= 0, "%s: logits of one PC %s", r->arch, err.text);
    for (uint32_t type = 0; rc >= 0 && type < AQ_ROWS_N; type++) {
        aq_stage *st = NULL;
        aq_worker_count n;
        memset(got, 0, n_logit * sizeof *got);
        wait_until((aq_worker_get_count(r->worker, &n), !n.owned));
        rc = remote_at(r, cut, type, type + 1, &sc, &st, &err);
        rc = rc < 0 ? rc : logits_of(&h, be, ends, head, st, tok, got, &err);
        double rms = rel_rms(got, want, n_logit);
        ok(rc >= 0 && (type == AQ_ROWS_F32 ? !memcmp(got, want, n_logit * sizeof *got)
                                           : rms > 0 && rms <= bound[type]),
           "%s: logits, parted before layer %u, with %s rows: %.1e from one PC's %s", r->arch, cut,
           aq_rows_name(type), rms, err.text);
        if (st)
            st->vt->close(st);
    }
    if (head)
        head->vt->close(head);
    if (tail)
        tail->vt->close(tail);
    if (ends)
        be->drop(ends);
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35"};
    const char *tmp = getenv("TMPDIR");
    char top[256], cmd[300];
    aq_err err = {0};

    snprintf(top, sizeof top, "%s/aq-count-XXXXXX", tmp ? tmp : "/tmp");
    if (argc != 2 || !mkdtemp(top))
        return 1;
    bool good = aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &rt, &err) >= 0 &&
                node_start(&here, top, "Studio PC") && node_start(&there, top, "Laptop") &&
                node_join(&here, &there);
    ok(good, "two PCs in a pool %s", err.text);
    less = getenv("AQ_SANITIZE") != NULL;
    for (uint32_t i = less ? 2 : 0; good && i < 3; i++) {
        rig r;
        if (open_rig(&r, argv[1], archs[i])) {
            cuts(&r);
            conversation(&r);
            for (uint32_t cut = 1; cut < (less ? 2 : r.in->n_layer); cut++)
                if (r.in->cut_ok[cut])
                    logits(&r, cut);
        }
        close_rig(&r);
    }
    node_stop(&here);
    node_stop(&there);
    aq_rt_free(rt);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
