/* SPDX-License-Identifier: Apache-2.0 */
/* Requests as other threads see them: submit, events, cancel, free.
 *
 *   record in the ring:  rec | top [n_top] | bytes [n_bytes]      TEXT, REASONING, CALL_ARGS
 *                        rec | top [n_top] | id [32] | bytes …    CALL_START
 *                        rec | aq_usage                           USAGE
 *                        rec | aq_err                             ERROR
 *
 * A record that finds the ring full waits in `out`, and the step thread passes this chat over until
 * the reader has taken something (the reader sees `stuck` and kicks). USAGE and DONE or ERROR are
 * made from fixed fields, so that they never need memory. When the engine goes, the reader takes
 * what is left from `out` itself. */
#include <sys/random.h>

#include "sched-priv.h"

typedef struct rec {
    uint32_t kind, n_bytes, n_top;
    int32_t tok, rc;
    uint32_t call;
} rec;
#define CALL_ID_BYTES 32u
_Static_assert(sizeof(rec) % 8 == 0 && sizeof(aq_logprob) == 8,
               "parts of a record keep its alignment");
typedef struct final_rec {
    rec head;
    union {
        aq_usage usage;
        aq_err err;
    };
} final_rec;
_Static_assert(sizeof(final_rec) <= sizeof((aq_req *)0)->final_buf,
               "the last record fits its buffer");

/* ---- step thread: writing ---- */

void aq_req_unref(aq_req *r)
{
    if (!r || atomic_fetch_sub(&r->ref, 1) != 1)
        return;
    aq_ring_free(r->ring);
    aq_toks_clear(&r->log);
    aq_toks_clear(&r->prompt);
    aq_sampler_free(r->sampler);
    aq_toolparse_free(r->parse);
    aq_guide_free(r->guide);
    for (uint32_t i = 0; i < r->n_stop; i++)
        free(r->stop[i]);
    aq_bytes_clear(&r->held);
    aq_bytes_clear(&r->out);
    pthread_mutex_destroy(&r->wake_mu);
    aq_hub_unref(r->hub);
    free(r);
}

static void wake(aq_req *r)
{
    pthread_mutex_lock(&r->wake_mu);
    if (r->wake)
        r->wake(r->user);
    pthread_mutex_unlock(&r->wake_mu);
}

/* The oldest record that is not in the ring yet; final ones are made in *f. */
static bool peek(aq_req *r, final_rec *f, const void **ret, uint32_t *ret_n)
{
    if (r->out_off < r->out.n) {
        uint64_t n;
        memcpy(&n, r->out.p + r->out_off, sizeof n);
        *ret = r->out.p + r->out_off + sizeof n;
        *ret_n = (uint32_t)n;
        return true;
    }
    if (!r->final_made || r->final_out)
        return false;
    *f = (final_rec){.head = {.tok = -1, .rc = r->final_rc}};
    *ret = f;
    if (r->final_rc >= 0 && !r->final_usage_out) {
        f->head.kind = AQ_EV_USAGE;
        f->head.rc = 0;
        f->usage = r->usage;
        *ret_n = sizeof f->head + sizeof f->usage;
    } else if (r->final_rc >= 0) {
        f->head.kind = AQ_EV_DONE;
        f->head.call = r->stopped_by;
        *ret_n = sizeof f->head;
    } else {
        f->head.kind = AQ_EV_ERROR;
        f->err = r->final_err;
        *ret_n = sizeof f->head + sizeof f->err;
    }
    return true;
}

static void advance(aq_req *r)
{
    if (r->out_off < r->out.n) {
        uint64_t n;
        memcpy(&n, r->out.p + r->out_off, sizeof n);
        r->out_off += sizeof n + ((n + 7) & ~7ull);
        if (r->out_off >= r->out.n)
            r->out.n = r->out_off = 0;
    } else if (r->final_rc >= 0 && !r->final_usage_out) {
        r->final_usage_out = true;
    } else {
        r->final_out = true;
    }
}

bool aq_req_flush(aq_req *r)
{
    const void *p;
    uint32_t n;
    bool woke = false, empty = true;

    while (peek(r, (final_rec *)r->final_buf, &p, &n)) {
        int rc = aq_ring_push(r->ring, p, n, NULL, 0);
        if (rc == -AQ_E_BUSY) {
            if (!atomic_load(&r->stuck)) {
                atomic_store(&r->stuck, 1);
                continue; /* once more: room may have come before the flag could be seen */
            }
            empty = false;
            break;
        }
        woke |= rc == 1;
        advance(r); /* LIMIT cannot be: records are smaller than half a ring */
    }
    if (empty)
        atomic_store(&r->stuck, 0);
    if (woke)
        wake(r);
    return empty;
}

/* 24 letters and digits that no other call has: 120 bits of two SplitMix64 steps from a random seed. */
static void call_id(uint64_t seed, uint32_t call, char ret[CALL_ID_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";

    memcpy(ret, "call_", 5);
    for (uint32_t i = 0; i < 24; i++) {
        double u = aq_sampler_uniform(seed, (uint64_t)call * 24 + i);
        ret[5 + i] = letters[(uint32_t)(u * 32)];
    }
    memset(ret + 29, 0, CALL_ID_BYTES - 29);
}

int aq_req_emit(aq_req *r, uint32_t kind, uint32_t call, int32_t tok, const char *bytes,
                uint32_t n_bytes, const aq_logprob *top, uint32_t n_top)
{
    struct {
        rec head;
        char body[(AQ_LOGPROBS_MAX + 1) * sizeof(aq_logprob) + CALL_ID_BYTES];
    } h = {.head = {.kind = kind, .n_bytes = n_bytes, .n_top = n_top, .tok = tok, .call = call}};
    uint32_t n_head = sizeof h.head + n_top * sizeof *top;

    if (n_top)
        memcpy(h.body, top, n_top * sizeof *top);
    if (kind == AQ_EV_CALL_START) {
        call_id(r->id_seed, call, h.body + n_top * sizeof *top);
        n_head += CALL_ID_BYTES;
    }
    uint64_t n = (uint64_t)n_head + n_bytes;
    if (r->out.n == 0) {
        int rc = aq_ring_push(r->ring, &h, n_head, bytes, n_bytes);
        if (rc == 1)
            wake(r);
        if (rc != -AQ_E_BUSY)
            return rc < 0 ? rc : 0;
    }
    size_t was = r->out.n;
    static const uint8_t zero[8];
    int rc = aq_bytes_put(&r->out, &n, sizeof n);
    if (rc >= 0)
        rc = aq_bytes_put(&r->out, &h, n_head);
    if (rc >= 0 && n_bytes)
        rc = aq_bytes_put(&r->out, bytes, n_bytes);
    if (rc >= 0 && n % 8)
        rc = aq_bytes_put(&r->out, zero, 8 - n % 8);
    if (rc < 0) {
        r->out.n = was;
        return rc;
    }
    aq_req_flush(r);
    return 0;
}

static double rest_ms(int64_t all_us, int64_t worker_us, int64_t net_us)
{
    return (double)AQ_MAX(all_us - worker_us - net_us, 0) / 1e3;
}

static void log_request(const aq_req *r, int32_t rc)
{
    const aq_usage *u = &r->usage;

    aq_log(AQ_LOG_INFO, "engine",
           "request prompt_tok=%u cached_tok=%u gen_tok=%u rc=%d prefill_ms=%.1f here=%.1f "
           "worker=%.1f net=%.1f decode_ms=%.1f here=%.1f worker=%.1f net=%.1f drafts=%u right=%u",
           u->prompt_tok, u->cached_tok, u->gen_tok, (int)rc, (double)u->prompt_us / 1e3,
           rest_ms(u->prompt_us, u->prompt_worker_us, u->prompt_net_us),
           (double)u->prompt_worker_us / 1e3, (double)u->prompt_net_us / 1e3,
           (double)u->gen_us / 1e3, rest_ms(u->gen_us, u->gen_worker_us, u->gen_net_us),
           (double)u->gen_worker_us / 1e3, (double)u->gen_net_us / 1e3, u->draft_tok,
           u->draft_ok_tok);
}

void aq_req_finish(aq_req *r, int32_t rc, const aq_err *err)
{
    if (r->final_made)
        return;
    r->usage.prompt_tok = r->n_prompt;
    r->usage.gen_tok = r->n_gen;
    r->usage.bad_calls = r->parse ? r->parse->n_bad : 0;
    if (!r->t_run_us)
        r->usage.queue_us = aq_now_us() - r->t_submit_us;
    r->usage.first_us = r->t_first_us ? r->t_first_us - r->t_submit_us : 0;
    r->usage.gen_us = r->t_first_us ? r->t_last_us - r->t_first_us : 0;
    r->final_rc = rc;
    log_request(r, rc);
    if (rc < 0) {
        if (err && err->code)
            r->final_err = *err;
        else
            aq_fail(&r->final_err, -rc, "%s", aq_status_text(rc));
    }
    r->final_made = true;
    aq_req_flush(r);
}

/* ---- reader ---- */

int aq_req_pop(aq_req *r, aq_event *ret)
{
    const void *p;
    uint32_t n;
    /* asked before the ring is looked at: what the last writer put there comes before `out` */
    bool orphan = atomic_load(&r->orphan);
    int got = aq_ring_pop(r->ring, &p, &n);

    if (!got && orphan) {
        /* no writer any more; what lies in out stays where it is */
        if (!peek(r, (final_rec *)r->final_buf, &p, &n))
            return 0;
        advance(r);
        got = 1;
    } else if (atomic_load(&r->stuck)) {
        aq_hub_kick(r->hub);
    }
    if (!got)
        return 0;
    const rec *h = p;
    const char *body = (const char *)(h + 1);
    *ret = (aq_event){
        .kind = h->kind, .n_bytes = h->n_bytes, .n_top = h->n_top, .tok = h->tok, .rc = h->rc};
    if (h->n_top)
        ret->top = (const aq_logprob *)body;
    ret->bytes = body + h->n_top * sizeof(aq_logprob);
    ret->call = h->call;
    if (h->kind == AQ_EV_CALL_START) {
        ret->call_id = ret->bytes;
        ret->bytes += CALL_ID_BYTES;
    }
    if (h->kind == AQ_EV_USAGE)
        ret->usage = (const aq_usage *)body;
    if (h->kind == AQ_EV_ERROR)
        ret->err = (const aq_err *)body;
    return 1;
}

const aq_toks *aq_req_get_prompt(const aq_req *r, uint8_t ret_key[32])
{
    memcpy(ret_key, r->key, sizeof r->key);
    return &r->prompt;
}

void aq_req_get_state(const aq_req *r, aq_req_state *ret)
{
    *ret = (aq_req_state){.prompt_tok = atomic_load(&r->st_prompt),
                          .read_tok = atomic_load(&r->st_read),
                          .gen_tok = atomic_load(&r->st_gen),
                          .queued = atomic_load(&r->st_queued)};
}

void aq_req_cancel(aq_req *r)
{
    aq_hub *h = r->hub;

    pthread_mutex_lock(&h->mu);
    atomic_store(&r->cancel, 1);
    if (!h->dead && r->seq != AQ_SEQ_NONE && r->abortable)
        for (uint32_t i = 0; i < h->n_stage; i++)
            if (h->stage[i]->vt->cancel)
                h->stage[i]->vt->cancel(h->stage[i], r->seq);
    h->kick = true;
    pthread_cond_signal(&h->work);
    pthread_mutex_unlock(&h->mu);
}

void aq_req_free(aq_req *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->wake_mu);
    r->wake = NULL;
    pthread_mutex_unlock(&r->wake_mu);
    atomic_store(&r->gone, 1);
    aq_req_cancel(r);
    aq_req_unref(r);
}

/* ---- submit ---- */

/* Parse a JSON array that is not empty. */
/* The vocabulary in byte order, made once for all requests. */
static int order_of(aq_engine *e, const aq_tok_order **ret, aq_err *err)
{
    aq_hub *h = e->hub;
    aq_tok_order *o = NULL;

    pthread_mutex_lock(&h->mu);
    *ret = h->order;
    pthread_mutex_unlock(&h->mu);
    if (*ret)
        return 0;
    int rc = aq_tok_order_new(e->model->vocab, &o, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&h->mu);
    if (!h->order) {
        h->order = o;
        o = NULL;
    }
    *ret = h->order;
    pthread_mutex_unlock(&h->mu);
    aq_tok_order_free(o); /* another request was quicker */
    return 0;
}

static int parse_text(aq_arena *a, const char *what, const char *text, const aq_json **ret,
                      aq_err *err)
{
    int rc = text ? aq_json_parse(a, text, strlen(text), ret, err) : 0;

    if (rc == -AQ_E_FORMAT && err)
        err->code = AQ_E_INVAL;
    return rc < 0 ? aq_err_prefix(err, rc == -AQ_E_FORMAT ? -AQ_E_INVAL : rc, "%s", what) : 0;
}

/* The form that the answer is held to. */
static int guide(aq_engine *e, const aq_req_in *in, aq_req *r, uint8_t think, aq_err *err)
{
    static const aq_chat_caps plain = {.calls = AQ_CALLS_HERMES};
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_model *m = e->model;
    const aq_tok_order *order;
    aq_gram *g = NULL;
    bool calls = in->messages_json && in->tools_json && in->tool_choice != AQ_TOOLS_NONE;
    aq_gram_want w = {.caps = in->messages_json ? m->chat : &plain,
                      .only = in->tool_choice == AQ_TOOLS_NAMED ? in->tool_name : NULL,
                      .must_call = in->tool_choice >= AQ_TOOLS_REQUIRED,
                      .one_call = in->one_call || in->tool_choice >= AQ_TOOLS_REQUIRED,
                      .may_think = in->messages_json && think == AQ_THINK_UNKNOWN};
    bool lazy = !w.must_call && !in->schema_json;
    int rc;

    if (lazy && !calls)
        return 0;
    if (!a)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the form of an answer");
    if (!m->vocab)
        return aq_fail(err, AQ_E_UNSUPPORTED, "this model cannot read text: %s",
                       m->info.tok_refused ? m->info.tok_refused : "it has no vocabulary");
    if ((calls && (rc = parse_text(a, "tools", in->tools_json, &w.tools, err)) < 0) ||
        (rc = parse_text(a, "schema", in->schema_json, &w.schema, err)) < 0)
        return rc;
    if (lazy) {
        aq_err why = {0};
        if ((rc = aq_gram_call(m->vocab, &w, &g, &why)) < 0) {
            if (rc == -AQ_E_NOMEM)
                return aq_fail(err, AQ_E_NOMEM, "%s", why.text);
            aq_log(AQ_LOG_WARN, "engine", "calls are not held to their schemas: %s", why.text);
        }
        if (!g)
            return 0;
    } else if ((rc = aq_gram_answer(m->vocab, &w, &g, err)) < 0) {
        return rc;
    }
    if ((rc = order_of(e, &order, err)) < 0) {
        aq_gram_free(g);
        return rc;
    }
    return aq_guide_new(m->vocab, order, g, lazy, think, &r->guide, err);
}

static int render(aq_engine *e, const aq_req_in *in, aq_req *r, aq_err *err)
{
    AQ_AUTO(aq_prompt_clear) aq_prompt p = {0};
    const aq_model *m = e->model;
    aq_req_in plain = *in;
    int rc = aq_prompt_make(m, in, &p, err);

    plain.turn = NULL;
    if (rc >= 0 && in->turn && p.toks.n >= e->n_ctx) { /* the template may leave more out */
        aq_prompt_clear(&p);
        rc = aq_prompt_make(m, &plain, &p, err);
    }
    if (rc < 0)
        return rc;
    r->log = p.toks;
    p.toks = (aq_toks){0};
    for (uint32_t i = 0; in->tools_json && i < r->log.n && rc >= 0; i++)
        rc = aq_toks_put(&r->prompt, r->log.id[i]);
    if (rc < 0)
        return aq_fail(err, -rc, "no memory for a prompt of %u tokens", r->log.n);
    memcpy(r->key, p.key, sizeof r->key);
    r->detok.at_start = true;
    /* a model that does not know when to end would call until the context is full */
    r->one_call = in->one_call || in->tool_choice >= AQ_TOOLS_REQUIRED;
    if ((rc = aq_toolparse_new(m->chat, in->tools_json,
                               in->tools_json && in->tool_choice != AQ_TOOLS_NONE, p.think,
                               &r->parse, err)) < 0)
        return rc;
    return guide(e, in, r, p.think, err);
}

static int copy_toks(const aq_engine *e, const aq_req_in *in, aq_toks *ret, aq_err *err)
{
    if (!in->n_tok)
        return aq_fail(err, AQ_E_INVAL, "a request needs messages or at least one token");
    for (uint32_t i = 0; i < in->n_tok; i++) {
        if ((uint32_t)in->tok[i] >= e->n_vocab)
            return aq_fail(err, AQ_E_INVAL, "token %u of the prompt is %d, the model's are 0 to %u",
                           i, in->tok[i], e->n_vocab - 1);
        if (i < e->n_ctx && aq_toks_put(ret, in->tok[i]) < 0)
            return aq_fail(err, AQ_E_NOMEM, "no memory for a prompt of %u tokens", in->n_tok);
    }
    return 0;
}

static int copy_settings(const aq_engine *e, const aq_req_in *in, aq_req *r, aq_err *err)
{
    const aq_sampling *s = &in->sampling;
    aq_sampling drawn = *s;

    if (in->tool_choice > AQ_TOOLS_NAMED || (in->tool_choice == AQ_TOOLS_NAMED && !in->tool_name))
        return aq_fail(err, AQ_E_INVAL, "tool_choice is none of auto, none, required and a tool");
    if (in->tool_choice >= AQ_TOOLS_REQUIRED && (!in->tools_json || !in->messages_json))
        return aq_fail(
            err, AQ_E_INVAL,
            "tool_choice demands a call, but there are no tools: add some or leave it out");
    if (in->tool_choice >= AQ_TOOLS_REQUIRED && in->schema_json)
        return aq_fail(
            err, AQ_E_INVAL,
            "an answer cannot be a demanded call and a value of a schema: leave one out");
    if (in->n_logprobs > AQ_LOGPROBS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u log-probabilities per token, at most %u are allowed",
                       in->n_logprobs, AQ_LOGPROBS_MAX);
    if (s->n_stop > AQ_STOP_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%u stop strings, at most %u are allowed", s->n_stop,
                       AQ_STOP_MAX);
    for (uint32_t i = 0; i < s->n_stop; i++) {
        size_t n = s->stop[i] ? strlen(s->stop[i]) : 0;
        if (!n || n > AQ_STOP_BYTES_MAX)
            return aq_fail(err, AQ_E_INVAL, "stop string %u has %zu bytes, 1 to %u are allowed", i,
                           n, AQ_STOP_BYTES_MAX);
        if (!(r->stop[i] = strdup(s->stop[i])))
            return aq_fail(err, AQ_E_NOMEM, "no memory for a request");
        r->stop_n[r->n_stop++] = (uint32_t)n;
    }
    while (!drawn.seed)
        if (getrandom(&drawn.seed, sizeof drawn.seed, 0) != sizeof drawn.seed)
            drawn.seed = (uint64_t)aq_now_us(); /* better a weak seed than no answer */
    while (!r->id_seed)
        if (getrandom(&r->id_seed, sizeof r->id_seed, 0) != sizeof r->id_seed)
            r->id_seed = drawn.seed ^ (uint64_t)aq_now_us();
    r->ignore_eog = s->ignore_eog;
    r->n_logprobs = in->n_logprobs;
    return aq_sampler_new(&drawn, e->n_vocab, &r->sampler, err);
}

int aq_submit(aq_engine *e, const aq_req_in *in, void (*wake_fn)(void *), void *user, aq_req **ret,
              aq_err *err)
{
    aq_hub *h = e->hub;
    aq_req *r = calloc(1, sizeof *r);

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a request");
    atomic_init(&r->ref, 1);
    pthread_mutex_init(&r->wake_mu, NULL);
    r->hub = h;
    atomic_fetch_add(&h->ref, 1);
    r->wake = wake_fn;
    r->user = user;
    r->seq = AQ_SEQ_NONE;
    r->t_submit_us = aq_now_us();
    int rc = copy_settings(e, in, r, err);
    if (rc >= 0)
        rc = in->messages_json ? render(e, in, r, err) : copy_toks(e, in, &r->log, err);
    if (rc >= 0 && !in->messages_json)
        rc = guide(e, in, r, AQ_THINK_CLOSED, err);
    uint32_t n_tok = in->messages_json ? r->log.n : in->n_tok;
    if (rc >= 0 && !n_tok)
        rc = aq_fail(err, AQ_E_INVAL, "the chat's template made no tokens of the messages");
    if (rc >= 0 && n_tok >= e->n_ctx)
        rc = aq_fail(err, AQ_E_LIMIT,
                     "the chat has %u tokens, the context holds %u with the answer: shorten the "
                     "chat or open the model "
                     "with a larger context",
                     n_tok, e->n_ctx);
    if (rc >= 0 && !(r->ring = aq_ring_new(AQ_RING_BYTES)))
        rc = aq_fail(err, AQ_E_NOMEM, "no memory for a request");
    if (rc < 0) {
        aq_req_unref(r);
        return rc;
    }
    r->n_prompt = r->log.n;
    r->draft_rate = 1;
    r->max_tok = AQ_MIN(in->max_tok ? in->max_tok : UINT32_MAX, e->n_ctx - r->n_prompt);
    atomic_init(&r->st_prompt, r->n_prompt);
    atomic_init(&r->st_queued, 1);
    atomic_store(&r->ref, 2);

    pthread_mutex_lock(&h->mu);
    uint32_t waiting = h->n_waiting;
    bool dead = h->dead || h->stop;
    if (!dead && waiting < AQ_QUEUE_MAX) {
        if (h->new_last)
            h->new_last->next = r;
        else
            h->new_first = r;
        h->new_last = r;
        h->n_waiting++;
        h->kick = true;
        pthread_cond_signal(&h->work);
    }
    pthread_mutex_unlock(&h->mu);
    if (dead || waiting >= AQ_QUEUE_MAX) {
        aq_req_unref(r);
        aq_req_unref(r);
        return dead ? aq_fail(err, AQ_E_CANCELLED, "the engine is being closed")
                    : aq_fail(err, AQ_E_BUSY,
                              "%u requests wait already, at most %u may: try again later", waiting,
                              AQ_QUEUE_MAX);
    }
    *ret = r;
    return 0;
}
