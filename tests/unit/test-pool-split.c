/* SPDX-License-Identifier: Apache-2.0 */
/* A model over two PCs, both in this process, over real links on loopback: worker, remote stage and
 * driver. What is expected comes from aq_eval and from one engine, which know no pool. */
#include <sched.h>
#include <unistd.h>

#include "chat.h"
#include "gguf-write.h"
#include "pool-node.h"
#include "split-priv.h"
#include "tap.h"

#define CTX 512u
#define N_GEN 24u

static char top[256];
static node a, b, c; /* Studio PC (coordinator), Laptop (worker), Kitchen PC */
static aq_rt *rt;

typedef struct rig {
    char path[300];
    const char *arch;
    aq_model *m;
    aq_wsrc src;
    const aq_model_info *in;
    int32_t tok[2][200], want[2][N_GEN];
    float lp[5]; /* of the last token of chat 0 */
} rig;

static aq_engine_cfg engine_cfg(void)
{
    return (aq_engine_cfg){
        .place = {.backend = "cpu"}, .n_ctx = CTX, .n_parallel = 2, .n_page = 12, .chunk_tok = 32};
}

static void start(chat *ch, aq_engine *e, const rig *r, uint32_t k)
{
    *ch = (chat){0};
    aq_req_in in = {.tok = r->tok[k],
                    .n_tok = 90 + 40 * k,
                    .sampling = {.ignore_eog = true},
                    .n_logprobs = 5,
                    .max_tok = N_GEN};
    chat_start(ch, e, &in);
}

static bool right(const rig *r, const chat *ch, uint32_t k)
{
    if (ch->n_error || ch->rc < 0)
        printf("# %s\n", ch->err.text);
    return ch->n_tok == N_GEN && !memcmp(ch->tok, r->want[k], sizeof r->want[k]);
}

static bool open_rig(rig *r, const char *arch, const char *type, uint64_t seed)
{
    aq_err err = {0};
    aq_engine *e = NULL;
    aq_engine_cfg ec = engine_cfg();
    chat ch[2];

    *r = (rig){.arch = arch};
    snprintf(r->path, sizeof r->path, "%s/%s-%llu.gguf", top, arch, (unsigned long long)seed);
    bool good = gw_model(arch, type, seed, r->path) == 0 &&
                aq_model_open(rt, r->path, 0, &r->m, &r->src, &err) >= 0;
    if (!ok(good, "%s: a random model %s", arch, err.text))
        return false;
    r->in = aq_model_get_info(r->m);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < 200; i++)
            r->tok[k][i] =
                (int32_t)((((k + 1) * 2654435761u ^ i * 2246822519u) >> 7) % r->in->n_vocab);
    if (aq_engine_new(rt, r->m, &r->src, &ec, &e, &err) < 0)
        return ok(false, "%s", err.text);
    for (uint32_t k = 0; k < 2; k++) {
        start(&ch[k], e, r, k);
        good = good && chat_wait(&ch[k]) && ch[k].n_tok == N_GEN;
        if (good)
            memcpy(r->want[k], ch[k].tok, sizeof r->want[k]);
        if (k == 0)
            for (uint32_t i = 0; i < 5; i++)
                r->lp[i] = ch[k].top[i].logprob;
        chat_end(&ch[k]);
    }
    aq_engine_free(e);
    return ok(good, "%s: one PC answers", arch);
}

static void close_rig(rig *r)
{
    aq_wsrc_close(&r->src);
    aq_model_free(r->m);
    unlink(r->path);
}

static aq_node *serve(const rig *r, uint16_t port)
{
    const char *dir[] = {r ? r->path : top}, *bind[] = {"127.0.0.1"};
    aq_node_cfg nc = {.rt = rt,
                      .trust = b.trust,
                      .app = "test 1",
                      .backend = "cpu",
                      .dir = dir,
                      .n_dir = 1,
                      .bind = bind,
                      .n_bind = 1,
                      .port = port};
    aq_node *n = NULL;
    aq_err err = {0};

    /* the port may still be held by what was there before */
    wait_until(aq_node_new(&nc, &n, &err) >= 0);
    if (!n)
        printf("# %s\n", err.text);
    return n;
}

static int split_with(const rig *r, node *who, uint16_t port, uint32_t cut, const char *rows,
                      uint32_t alone_ms, aq_split **ret, aq_err *err)
{
    char addr[64];
    const char *addrs[] = {addr};
    aq_split_cfg sc = {.rt = rt,
                       .trust = who->trust,
                       .model = r->m,
                       .src = &r->src,
                       .app = "test 1",
                       .to = aq_trust_id(b.trust),
                       .addr = addrs,
                       .n_addr = 1,
                       .cut = cut,
                       .rows = rows,
                       .engine = engine_cfg(),
                       .alone_after_ms = alone_ms};

    snprintf(addr, sizeof addr, "127.0.0.1:%u", port);
    *err = (aq_err){0};
    return aq_split_open(&sc, ret, err);
}

static uint32_t kind(aq_split *s)
{
    aq_split_state st;

    aq_split_get_state(s, &st);
    return st.kind;
}

/* Every cut: two chats at once, the tokens and the bits of one PC; the second time nothing is read. */
static void cuts(const rig *r)
{
    aq_node *n = serve(r, 0);
    aq_split *s = NULL;
    aq_err err = {0};
    aq_node_state ns;
    uint32_t loads = 0;

    for (uint32_t cut = 1; n && cut < r->in->n_layer; cut++) {
        if (!r->in->cut_ok[cut])
            continue;
        for (uint32_t twice = 0; twice < 2; twice++) {
            chat ch[2];
            aq_split_state st;
            if (!ok(split_with(r, &a, aq_node_port(n), cut, NULL, 0, &s, &err) >= 0,
                    "%s: split before layer %u %s", r->arch, cut, err.text))
                break;
            for (uint32_t k = 0; k < 2; k++)
                start(&ch[k], aq_split_engine(s), r, k);
            bool good = chat_wait(&ch[0]) && right(r, &ch[0], 0);
            good = chat_wait(&ch[1]) && right(r, &ch[1], 1) && good;
            ok(good, "%s: two chats at once are right", r->arch);
            bool same = ch[0].n_top >= 5;
            for (uint32_t i = 0; same && i < 5; i++)
                same = !memcmp(&ch[0].top[i].logprob, &r->lp[i], sizeof r->lp[i]);
            ok(same, "%s: with the very logits of one PC", r->arch);
            aq_split_get_state(s, &st);
            aq_node_get_state(n, &ns);
            ok(st.kind == AQ_SPLIT_RUNNING && st.n_window && st.worker_us && !st.n_loss &&
                   !strcmp(st.pc, "Laptop") && !strcmp(ns.who, "Studio PC") && ns.l0 == cut &&
                   ns.l1 == r->in->n_layer,
               "%s: both PCs know what they do", r->arch);
            loads += twice == 0;
            ok(ns.n_load == loads, "%s: the worker read its weights %u times", r->arch, loads);
            for (uint32_t k = 0; k < 2; k++)
                chat_end(&ch[k]);
            aq_split_free(s);
            s = NULL;
            ok(wait_until((aq_node_get_state(n, &ns), !ns.who[0])) && ns.loaded,
               "%s: afterwards it is free, its layers loaded", r->arch);
        }
    }
    aq_node_free(n);
}

/* The worker goes in the middle of two replies and comes back, with nothing of before. */
static void loss(const rig *r)
{
    aq_node *n = serve(r, 0);
    uint16_t port = n ? aq_node_port(n) : 0;
    aq_split *s = NULL;
    aq_err err = {0};
    chat ch[2];
    aq_split_state st;
    aq_engine_stats es;

    if (!ok(split_with(r, &a, port, 1, NULL, 0, &s, &err) >= 0, "%s: split %s", r->arch, err.text))
        return;
    for (uint32_t k = 0; k < 2; k++)
        start(&ch[k], aq_split_engine(s), r, k);
    chat_wait_tok(&ch[0], 3);
    aq_node_free(n);
    ok(wait_until((aq_split_get_state(s, &st), st.kind == AQ_SPLIT_LOST && st.n_loss == 1)),
       "%s: the loss is noticed: %s", r->arch, st.text);
    ok(wait_until((aq_engine_get_stats(aq_split_engine(s), &es), es.paused)),
       "%s: the engine pauses", r->arch);
    chat_pop_all(&ch[0]);
    uint32_t had = ch[0].n_tok;
    ok(had >= 3 && had < N_GEN && !ch[0].n_error && !ch[1].n_error,
       "%s: no reply ends for it (%u tokens so far)", r->arch, had);
    n = serve(r, port);
    bool good = chat_wait(&ch[0]) && right(r, &ch[0], 0);
    ok(good, "%s: it is back, the first reply goes on, no token lost or repeated", r->arch);
    ok(chat_wait(&ch[1]) && right(r, &ch[1], 1), "%s: so does the second", r->arch);
    aq_split_get_state(s, &st);
    ok(st.kind == AQ_SPLIT_RUNNING && !st.text[0], "%s: and all is well", r->arch);
    chat_end(&ch[0]);
    chat_end(&ch[1]);

    /* lost while nobody asks anything: noticed all the same, and mended before the next question */
    aq_node_free(n);
    ok(wait_until(kind(s) == AQ_SPLIT_LOST), "%s: a loss while idle is noticed", r->arch);
    n = serve(r, port);
    ok(wait_until(kind(s) == AQ_SPLIT_RUNNING), "%s: and mended", r->arch);
    start(&ch[0], aq_split_engine(s), r, 0);
    ok(chat_wait(&ch[0]) && right(r, &ch[0], 0), "%s: the next reply is right", r->arch);
    chat_end(&ch[0]);
    aq_split_free(s);
    aq_node_free(n);
}

static void alone(const rig *r)
{
    aq_node *n = serve(r, 0);
    uint16_t port = n ? aq_node_port(n) : 0;
    aq_split *s = NULL;
    aq_err err = {0};
    chat ch;
    aq_split_state st;

    if (!ok(split_with(r, &a, port, 2, NULL, 1, &s, &err) >= 0, "%s: split %s", r->arch, err.text))
        return;
    start(&ch, aq_split_engine(s), r, 1);
    chat_wait_tok(&ch, 2);
    aq_node_free(n);
    ok(chat_wait(&ch) && right(r, &ch, 1), "%s: without the worker the reply ends on this PC",
       r->arch);
    chat_end(&ch);
    aq_split_get_state(s, &st);
    ok(st.kind == AQ_SPLIT_ALONE && st.text[0], "%s: which says why: %s", r->arch, st.text);
    n = serve(r, port);
    ok(wait_until(kind(s) == AQ_SPLIT_RUNNING), "%s: the worker takes its place again", r->arch);
    start(&ch, aq_split_engine(s), r, 0);
    ok(chat_wait(&ch) && right(r, &ch, 0), "%s: and answers", r->arch);
    chat_end(&ch);
    aq_split_free(s);
    aq_node_free(n);
}

/* The worker's disk fails in the middle of a reply: it begins anew 3 s later, and says why until then. */
static void fault(const rig *r)
{
    aq_node *n = serve(r, 0);
    uint16_t port = n ? aq_node_port(n) : 0;
    aq_split *s = NULL;
    aq_err err = {0};
    chat ch;
    aq_split_state st;
    aq_node_state ns;

    if (!ok(split_with(r, &a, port, 1, NULL, 0, &s, &err) >= 0, "%s: split %s", r->arch, err.text))
        return;
    aq_failpoint_set("worker-window", 4, 1);
    start(&ch, aq_split_engine(s), r, 1);
    ok(wait_until((aq_split_get_state(s, &st), strstr(st.text, "begins anew in"))),
       "%s: a fault is told to the other PC: %s", r->arch, st.text);
    aq_node_get_state(n, &ns);
    ok(ns.n_fault == 1 && ns.fault[0] && !ns.loaded && strstr(st.text, ns.fault),
       "%s: and kept: %s", r->arch, ns.fault);
    ok(chat_wait(&ch) && right(r, &ch, 1) && kind(s) == AQ_SPLIT_RUNNING,
       "%s: it begins anew, and the reply goes on", r->arch);
    aq_node_get_state(n, &ns);
    ok(ns.n_fault == 1 && ns.n_load == 2 && ns.fault[0], "%s: once, and the reason stays", r->arch);
    aq_failpoint_set("worker-window", 0, 0);
    chat_end(&ch);
    aq_split_free(s);
    aq_node_free(n);
}

static void refusals(const rig *r, const rig *other)
{
    aq_node *n = serve(r, 0);
    aq_split *s = NULL, *second = NULL;
    aq_split_state st;
    aq_err err = {0};
    aq_node_state ns;
    chat ch;

    if (!ok(n && split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) >= 0, "split %s",
            err.text))
        return;
    start(&ch, aq_split_engine(s), r, 0);
    chat_wait_tok(&ch, 2);
    ok(split_with(r, &c, aq_node_port(n), 2, NULL, 0, &second, &err) == -AQ_E_BUSY &&
           !strcmp(err.text, "Laptop works for Studio PC"),
       "a second coordinator: %s", err.text);
    /* who only asks how it is has a connection of its own, as has who only calls */
    struct sockaddr_storage at;
    aq_peer_mem mem = {0};
    char text[64];
    const char *one = text;
    snprintf(text, sizeof text, "127.0.0.1:%u", aq_node_port(n));
    bool asked = aq_addr_parse(text, 0, &at, &err) == 0;
    for (uint32_t i = 0; asked && i < 5; i++)
        asked = aq_peer_mem_ask(c.net, &at, 1, NULL, NULL, &mem, &err) >= 0 && mem.bytes > 0 &&
                !strcmp(mem.works_for, "Studio PC") &&
                aq_reach_try(&one, 1, 5000000) == AQ_REACH_ANSWERS;
    ok(asked, "nor do five questions and five calls (%s)", err.text);
    aq_split_get_state(s, &st);
    aq_node_get_state(n, &ns);
    ok(chat_wait(&ch) && right(r, &ch, 0) && ns.n_load == 1 && ns.l0 == 1 && st.n_loss == 0,
       "disturb the first");
    chat_end(&ch);
    aq_split_free(s);
    wait_until((aq_node_get_state(n, &ns), !ns.who[0]));
    ok(split_with(r, &c, aq_node_port(n), 1, NULL, 0, &second, &err) >= 0,
       "when the first has left it is taken %s", err.text);
    aq_node_get_state(n, &ns);
    ok(ns.n_load == 1, "and reads no weights");
    aq_split_free(second);
    wait_until((aq_node_get_state(n, &ns), !ns.who[0]));

    ok(split_with(other, &a, aq_node_port(n), 1, NULL, 0, &s, &err) == -AQ_E_MISMATCH &&
           strstr(err.text, "Laptop") && strstr(err.text, "no copy of this model"),
       "another model: %s", err.text);
    ok(split_with(r, &a, aq_node_port(n), r->in->n_layer, NULL, 0, &s, &err) == -AQ_E_INVAL,
       "no cut at the end: %s", err.text);
    ok(split_with(r, &a, aq_node_port(n), 0, NULL, 0, &s, &err) >= 0, "no cut said %s", err.text);
    aq_split_get_state(s, &st);
    ok(st.kind == AQ_SPLIT_RUNNING && st.cut == r->in->n_layer / 2,
       "half, where both have room: %u", st.cut);
    aq_split_free(s);
    wait_until((aq_node_get_state(n, &ns), !ns.who[0]));
    ok(split_with(r, &a, aq_node_port(n), 1, "f64", 0, &s, &err) == -AQ_E_INVAL, "rows: %s",
       err.text);
    ok(aq_trust_set_perms(b.trust, aq_trust_id(a.trust), AQ_PERM_REQUESTS, &err) >= 0 &&
           split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) == -AQ_E_AUTH,
       "without permission: %s", err.text);
    ok(aq_trust_set_perms(b.trust, aq_trust_id(a.trust), AQ_PERM_DEFAULT, &err) >= 0 &&
           split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) >= 0,
       "and with it again %s", err.text);
    aq_split_free(s);
    uint16_t port = aq_node_port(n);
    aq_node_free(n);
    ok(split_with(r, &a, port, 1, NULL, 0, &s, &err) == -AQ_E_GONE, "nobody there: %s", err.text);
}

/* A long answer whose ring holds a part of it only, so that it stays under way until it is taken. */
static void start_long(chat *ch, aq_split *s, const rig *r)
{
    *ch = (chat){0};
    aq_req_in in = {.tok = r->tok[0],
                    .n_tok = 90,
                    .sampling = {.ignore_eog = true},
                    .n_logprobs = 64,
                    .max_tok = CTX - 100};
    chat_start(ch, aq_split_engine(s), &in);
}

/* Status, probes and lists during a reply: by the PC that asks and by another one, many times. Each has a connection of its own. The
 * clock stands still, so that no sign of life is due: the reply's own connection carries its windows and not one frame more. */
static void questions(const rig *r)
{
    static aq_pc pcs[AQ_PCS_MAX];
    struct sockaddr_storage at;
    aq_split_state s0, s1;
    aq_peer_mem mem = {0};
    aq_split *s = NULL;
    aq_err err = {0};
    uint32_t n_ask = 0, n_call = 0, n_list = 0;
    chat plain, ch;
    char text[64];
    const char *one = text;

    aq_clock_set(aq_now_us());
    aq_node *n = serve(r, 0);
    snprintf(text, sizeof text, "127.0.0.1:%u", n ? aq_node_port(n) : 0);
    if (!ok(n && split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) >= 0 &&
                aq_addr_parse(text, 0, &at, &err) == 0,
            "questions beside a reply: split %s", err.text))
        return;
    start_long(&plain, s, r);
    ok(chat_wait(&plain) && plain.n_tok == CTX - 100,
       "questions: a long answer that nobody disturbs");

    aq_split_get_state(s, &s0);
    start_long(&ch, s, r);
    chat_wait_tok(&ch, 1);
    bool good = true;
    while (good && !ch.n_done && !ch.n_error) {
        for (uint32_t i = 0; good && i < 4; i++, n_ask++)
            good = aq_peer_mem_ask(i % 2 ? c.net : a.net, &at, 1,
                                   i % 2 ? NULL : aq_trust_id(b.trust), NULL, &mem, &err) >= 0 &&
                   mem.bytes > 0 && !strcmp(mem.works_for, "Studio PC");
        /* who hangs up without a word may do so twenty times in ten seconds, and the clock stands still */
        if (good && n_call < 12)
            n_call++, good = aq_reach_try(&one, 1, 5000000) == AQ_REACH_ANSWERS;
        n_list++, good = good && aq_pcs_list(a.trust, NULL, 0, pcs, &err) == 3;
        chat_pop_all(&ch);
    }
    ok(good && n_ask >= 20 && n_call >= 5,
       "questions: %u for the status, %u calls and %u lists are answered while it runs %s", n_ask,
       n_call, n_list, err.text);
    ok(chat_wait(&ch) && ch.n_tok == plain.n_tok &&
           !memcmp(ch.tok, plain.tok, plain.n_tok * sizeof *plain.tok),
       "questions: the reply has the same %u tokens", ch.n_tok);
    aq_split_get_state(s, &s1);
    uint64_t wins = s1.n_window - s0.n_window, out = s1.tx_frames - s0.tx_frames,
             in = s1.rx_frames - s0.rx_frames;
    ok(wins >= plain.n_tok - 1 && out == wins && in == wins && !s1.n_loss,
       "questions: its connection carries %llu windows in %llu frames, %llu back, and no other "
       "frame",
       (unsigned long long)wins, (unsigned long long)out, (unsigned long long)in);
    chat_end(&plain);
    chat_end(&ch);
    aq_split_free(s);
    aq_node_free(n);
    aq_clock_set(-1);
}

/* The model is found by what is in it, whatever it is called, wherever it lies. */
static void finding(const rig *r)
{
    char from[340], to[340];
    aq_split *s = NULL;
    aq_err err = {0};

    snprintf(from, sizeof from, "%s", r->path);
    snprintf(to, sizeof to, "%s/other name.gguf", top);
    ok(link(from, to) == 0, "a copy under another name");
    aq_node *n = serve(NULL, 0); /* the whole folder, other files in it */
    ok(n && split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) >= 0,
       "is found in its folder %s", err.text);
    aq_split_free(s);
    aq_node_free(n);
    unlink(to);
}

/* ---- by hand: logits with each format of rows -------------------------------------------------- */

typedef struct hand {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;
    int rc;
    aq_err err;
    float *x;
    size_t n_x;
} hand;

static void hand_done(void *user, aq_stage *st, const aq_done *d)
{
    hand *h = user;

    (void)st;
    pthread_mutex_lock(&h->mu);
    h->done = true;
    h->rc = d->rc;
    h->err = d->err;
    if (d->rc >= 0 && d->n_back)
        memcpy(h->x, d->x, h->n_x * sizeof *h->x);
    pthread_cond_signal(&h->cv);
    pthread_mutex_unlock(&h->mu);
}

static int remote_at(const rig *r, uint16_t port, uint32_t l0, uint32_t rows, uint32_t epoch,
                     aq_stage **ret, aq_err *err)
{
    char text[64];
    struct sockaddr_storage addr;
    aq_remote_cfg rc = {
        .net = a.net,
        .addr = &addr,
        .n_addr = 1,
        .epoch = epoch,
        .l0 = l0,
        .l1 = r->in->n_layer,
        .row_f32 = r->in->row_f32,
        .rows = rows,
        .state = {.kv_type = AQ_KV_F16, .n_page = 4, .max_seq = 2, .n_snap = 2, .max_rows = 32}};

    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    int e = aq_addr_parse(text, 0, &addr, err);
    e = e < 0 ? e : aq_model_fingerprint(r->m, &r->src, rc.model, err);
    e = e < 0 ? e : aq_remote_dial(&rc, ret, err);
    if (e >= 0 && (e = aq_remote_wait(*ret, NULL, err)) < 0) {
        (*ret)->vt->close(*ret);
        *ret = NULL;
    }
    return e;
}

/* 16 rows through a stage that is the whole model but layer 0; x [16][row_f32] in and out. */
static int through(hand *h, aq_stage *st, const rig *r, float *x)
{
    aq_op keep = {.kind = AQ_OP_KEEP};
    aq_row row[16];
    aq_err err = {0};
    aq_window w = {.id = 7,
                   .epoch = 3,
                   .n_ops = 1,
                   .n_rows = 16,
                   .n_back = 16,
                   .op = &keep,
                   .row = row,
                   .x = x};

    for (uint32_t i = 0; i < 16; i++)
        row[i] = (aq_row){.pos = i, .tok = r->tok[0][i], .flags = AQ_ROW_BACK};
    h->done = false;
    h->x = x;
    h->n_x = 16 * (size_t)r->in->row_f32;
    st->done_cb = hand_done;
    st->done_user = h;
    int rc = st->vt->submit(st, &w, &err);
    if (rc < 0) {
        h->err = err;
        return rc;
    }
    if (st->vt->work)
        st->vt->work(st, &err);
    pthread_mutex_lock(&h->mu);
    while (!h->done)
        pthread_cond_wait(&h->cv, &h->mu);
    pthread_mutex_unlock(&h->mu);
    return h->rc;
}

/* The row after those 16, of a seq that the stage must still know. */
static int one_more(hand *h, aq_stage *st, const float *x)
{
    aq_row row = {.pos = 16};
    aq_window w = {.id = 8, .epoch = 3, .n_rows = 1, .row = &row, .x = x};
    aq_err err = {0};

    h->done = false;
    int rc = st->vt->submit(st, &w, &err);
    pthread_mutex_lock(&h->mu);
    while (rc >= 0 && !h->done)
        pthread_cond_wait(&h->cv, &h->mu);
    pthread_mutex_unlock(&h->mu);
    return rc < 0 ? rc : h->rc;
}

static double rel_rms(const float *x, const float *want, size_t n)
{
    double d = 0, s = 0;

    for (size_t i = 0; i < n; i++) {
        d += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        s += (double)want[i] * want[i];
    }
    return s > 0 ? __builtin_sqrt(d / s) : 1;
}

static void formats(const rig *r)
{
    static const double bound[] = {0, 5e-3, 2e-2};
    size_t n_x = 16 * (size_t)r->in->row_f32;
    AQ_AUTOFREE float *in = malloc(n_x * sizeof *in), *want = malloc(n_x * sizeof *want),
                      *x = malloc(n_x * sizeof *x);
    aq_node *n = serve(r, 0);
    hand h = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
    aq_stage *st = NULL;
    aq_err err = {0};
    aq_state_cfg sc = {
        .kv_type = AQ_KV_F16, .n_page = 4, .max_seq = 2, .n_snap = 2, .max_rows = 32};

    for (size_t i = 0; i < n_x; i++)
        in[i] = (float)((i * 2654435761u >> 9) % 2001) / 1000.0f - 1.0f;
    memcpy(want, in, n_x * sizeof *in);
    bool good = aq_stage_local(rt, r->m, &r->src, &(aq_place){.backend = "cpu"}, &sc, 1,
                               r->in->n_layer, NULL, &st, &err) >= 0 &&
                through(&h, st, r, want) >= 0;
    if (!ok(n && good, "%s: rows of a local stage %s", r->arch, err.text))
        return;
    st->vt->close(st);
    for (uint32_t type = 0; type < AQ_ROWS_N; type++) {
        if (!ok(remote_at(r, aq_node_port(n), 1, type, type + 1, &st, &err) >= 0, "%s: %s rows %s",
                r->arch, aq_rows_name(type), err.text))
            continue;
        memcpy(x, in, n_x * sizeof *in);
        int rc = through(&h, st, r, x);
        double rms = rel_rms(x, want, n_x);
        ok(rc >= 0 && (type ? rms > 0 && rms <= bound[type] : !memcmp(x, want, n_x * sizeof *x)),
           "%s: %s rows are %s (%.1e) %s", r->arch, aq_rows_name(type),
           type ? "near" : "the same bits", rms, h.err.text);
        if (type == AQ_ROWS_F16) {
            memcpy(x, in, n_x * sizeof *in);
            x[5] = 1e6f;
            ok(through(&h, st, r, x) == -AQ_E_LIMIT && strstr(h.err.text, "bf16"),
               "%s: what f16 cannot hold is not passed on: %s", r->arch, h.err.text);
            memcpy(x, in, n_x * sizeof *in);
            ok(through(&h, st, r, x) >= 0, "%s: and the next window is taken", r->arch);
        }
        /* what is empty, and what is wrong, completes in its turn */
        h.done = false;
        h.n_x = 0;
        ok(st->vt->submit(st, &(aq_window){.id = 8, .epoch = 3}, &err) >= 0 &&
               wait_until(
                   (pthread_mutex_lock(&h.mu), good = h.done, pthread_mutex_unlock(&h.mu), good)) &&
               h.rc >= 0,
           "%s: a window with nothing in it completes", r->arch);
        aq_row far = {.seq = 77};
        h.done = false;
        ok(st->vt->submit(st, &(aq_window){.id = 9, .epoch = 3, .n_rows = 1, .row = &far, .x = in},
                          &err) >= 0 &&
               wait_until(
                   (pthread_mutex_lock(&h.mu), good = h.done, pthread_mutex_unlock(&h.mu), good)) &&
               h.rc == -AQ_E_INVAL && strstr(h.err.text, "Laptop"),
           "%s: a wild seq is refused there: %s", r->arch, h.err.text);
        /* the steady state: one send a window, and as many bytes as the rows and a little */
        aq_link_count n0, n1;
        aq_remote_get_count(st, &n0);
        bool all = true;
        for (uint32_t i = 0; i < 10; i++) {
            memcpy(x, in, n_x * sizeof *in);
            all = all && through(&h, st, r, x) >= 0;
        }
        aq_remote_get_count(st, &n1);
        uint64_t sends = n1.tx_sends - n0.tx_sends, frames = n1.tx_frames - n0.tx_frames,
                 bytes = n1.tx_bytes - n0.tx_bytes + n1.rx_bytes - n0.rx_bytes,
                 pure = 10 * 2 * n_x * aq_rows_elem_bytes(type);
        ok(all && sends == frames && frames >= 10, "%s: %llu frames in %llu sends", r->arch,
           (unsigned long long)frames, (unsigned long long)sends);
        ok(bytes >= pure && bytes <= pure + 10 * (200 + 16 * 16) + 2000,
           "%s: %llu bytes for %llu of rows", r->arch, (unsigned long long)bytes,
           (unsigned long long)pure);
        st->vt->close(st);
    }
    aq_node_free(n);
}

/* A snapshot on the other PC: saved, restored to the same bits, dropped and then refused. */
static void checkpoints(const rig *r)
{
    size_t n = r->in->row_f32, n_x = 16 * n;
    AQ_AUTOFREE float *x = calloc(n_x, sizeof *x), *a1 = calloc(n, sizeof *a1),
                      *a2 = calloc(n, sizeof *a2);
    aq_node *there = serve(r, 0);
    hand h = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
    aq_stage *st = NULL;
    aq_err err = {0};
    aq_row row = {.pos = 16, .flags = AQ_ROW_BACK};
    aq_op op[] = {{.kind = AQ_OP_SNAP, .arg = 5}, {.kind = AQ_OP_RESTORE, .arg = 5}};
    aq_op drop = {.kind = AQ_OP_FREE, .seq = AQ_SEQ_NONE, .arg = 5};

    for (size_t i = 0; i < n_x; i++)
        x[i] = (float)((i * 2654435761u >> 9) % 2001) / 1000.0f - 1.0f;
    bool good = there && remote_at(r, aq_node_port(there), 1, 0, 1, &st, &err) >= 0 &&
                through(&h, st, r, x) >= 0;
    if (!ok(good, "%s: 16 rows over there %s", r->arch, err.text))
        return;
    h.n_x = n;
    int rc[4];
    for (uint32_t k = 0; k < 4; k++) { /* save and go on; restore and go on; drop; restore */
        aq_window w = {.id = 20 + k, .epoch = 3, .n_ops = 1, .op = k == 2 ? &drop : &op[k > 0]};
        if (k < 2) {
            w.n_rows = w.n_back = 1;
            w.row = &row;
            w.x = x;
            h.x = k ? a2 : a1;
        }
        h.done = false;
        rc[k] = st->vt->submit(st, &w, &err);
        pthread_mutex_lock(&h.mu);
        while (rc[k] >= 0 && !h.done)
            pthread_cond_wait(&h.cv, &h.mu);
        pthread_mutex_unlock(&h.mu);
        rc[k] = rc[k] < 0 ? rc[k] : h.rc;
    }
    ok(rc[0] >= 0 && rc[1] >= 0 && !memcmp(a1, a2, n * sizeof *a1),
       "%s: a checkpoint is saved there, and restored to the same bits", r->arch);
    ok(rc[2] >= 0 && rc[3] < 0, "%s: dropped, it is not there any more: %s", r->arch, h.err.text);
    st->vt->close(st);
    aq_node_free(there);
}

/* The same PC with a higher epoch takes its own session over; the old stage ends with GONE. */
static void takeover(const rig *r)
{
    aq_node *n = serve(r, 0);
    size_t n_x = 16 * (size_t)r->in->row_f32;
    AQ_AUTOFREE float *x = calloc(n_x, sizeof *x);
    hand h = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
    aq_stage *old = NULL, *new = NULL, *late = NULL;
    aq_err err = {0};
    aq_node_state ns;

    bool good = remote_at(r, aq_node_port(n), 1, 0, 5, &old, &err) >= 0;
    ok(good && through(&h, old, r, x) >= 0, "a stage at work");
    ok(remote_at(r, aq_node_port(n), 1, 0, 5, &late, &err) == -AQ_E_BUSY,
       "the same epoch again: %s", err.text);
    ok(remote_at(r, aq_node_port(n), 1, 0, 6, &new, &err) >= 0, "a higher one %s", err.text);
    ok(wait_until(through(&h, old, r, x) == -AQ_E_GONE), "the old stage: %s", h.err.text);
    if (!new)
        return;
    new->done_cb = hand_done;
    new->done_user = &h;
    ok(one_more(&h, new, x) == -AQ_E_INVAL, "the new one knows no seq of before");
    ok(through(&h, new, r, x) >= 0 && one_more(&h, new, x) >= 0, "and works");
    aq_node_get_state(n, &ns);
    ok(ns.n_load == 1, "no weights were read for it");
    old->vt->close(old);
    ok(through(&h, new, r, x) >= 0, "and goes on when the old one is closed");
    new->vt->close(new);
    aq_node_free(n);
}

/* Another program of this PC takes the worker over: the first one waits until it is free, and does not take it back. */
static void replaced(const rig *r)
{
    aq_node *n = serve(r, 0);
    char dir[300];
    node again = {0};
    aq_split *s = NULL, *other = NULL;
    aq_split_state st;
    aq_node_state ns;
    aq_err err = {0};
    chat ch;

    snprintf(dir, sizeof dir, "%s", top);
    if (!ok(n && node_start(&again, dir, "Studio PC") &&
                split_with(r, &a, aq_node_port(n), 1, NULL, 0, &s, &err) >= 0 &&
                split_with(r, &again, aq_node_port(n), 1, NULL, 0, &other, &err) >= 0,
            "two programs of one PC: the second has the worker %s", err.text))
        return;
    ok(wait_until((aq_split_get_state(s, &st), strstr(st.text, "another program of this PC"))),
       "the first hears of it: %s", st.text);
    start(&ch, aq_split_engine(other), r, 0);
    bool good = chat_wait(&ch) && right(r, &ch, 0);
    chat_end(&ch);
    aq_split_get_state(other, &st);
    aq_node_get_state(n, &ns);
    ok(good && st.n_loss == 0 && ns.n_load == 1, "the second is not disturbed (%u losses)",
       st.n_loss);
    start(&ch, aq_split_engine(s), r, 1);
    aq_split_free(other);
    ok(chat_wait(&ch) && right(r, &ch, 1) && kind(s) == AQ_SPLIT_RUNNING,
       "when it ends the first goes on");
    chat_end(&ch);
    aq_split_free(s);
    aq_node_free(n);
    node_stop(&again);
}

static bool three_pcs(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes s = {0};
    aq_err err = {0};

    return node_start(&a, top, "Studio PC") && node_start(&b, top, "Laptop") &&
           node_start(&c, top, "Kitchen PC") && node_join(&a, &c) && node_join(&a, &b) &&
           aq_trust_share(a.trust, &s, &err) >= 0 &&
           aq_trust_merge(c.trust, (const char *)s.p, s.n, &err) >= 0;
}

int main(void)
{
    static const char *const archs[] = {"llama", "qwen3moe", "qwen35"};
    const char *tmp = getenv("TMPDIR");
    char cmd[300];
    aq_err err = {0};
    static rig r[3], other;

    snprintf(top, sizeof top, "%s/aq-split-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    ok(aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &rt, &err) >= 0 && three_pcs(),
       "three PCs in a pool");
    bool all = open_rig(&other, "llama", "F16", 99);
    for (uint32_t i = 0; i < 3; i++)
        all = open_rig(&r[i], archs[i], "F16", 5) && all;
    for (uint32_t i = 0; all && i < 3; i++) {
        cuts(&r[i]);
        loss(&r[i]);
    }
    if (all) {
        alone(&r[2]);
        fault(&r[1]);
        formats(&r[0]);
        formats(&r[2]);
        checkpoints(&r[2]);
        takeover(&r[1]);
        replaced(&r[0]);
        refusals(&r[0], &other);
        questions(&r[0]);
        finding(&r[1]);
    }
    for (uint32_t i = 0; i < 3; i++)
        close_rig(&r[i]);
    close_rig(&other);
    node_stop(&a);
    node_stop(&b);
    node_stop(&c);
    aq_rt_free(rt);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
