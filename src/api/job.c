/* SPDX-License-Identifier: Apache-2.0 */
/* An ask under way, from its body to the last byte of its answer.
 *
 *   server's thread  aq_job_start        the exchange is paused and watched
 *   worker           parse, tokenize, aq_submit    everything that can be refused is, before a header is sent
 *   server's thread  submitted, pump…    the engine's events become the dialect's bytes
 *
 * The engine's wake marks a choice and pokes the server's thread; that one takes events, at most PUMP_US at a time. A client that
 * is slower than the engine fills AQ_API_OUT_BYTES and then lets its events wait in the engine's ring, whose chat is parked. A
 * client that leaves has its requests freed at once, which stops them within a layer. */
#include <stdio.h>
#include <sys/random.h>

#include "api-priv.h"

#define PUMP_US 4000

/* ---- what dialects ask ----------------------------------------------------------------------- */

void aq_job_usage(const aq_job *j, aq_usage *ret, uint32_t *ret_reasoning)
{
    uint32_t think = 0;

    *ret = (aq_usage){0};
    for (uint32_t i = 0; i < j->n; i++) {
        const aq_usage *u = &j->choice[i].usage;
        if (i % j->ask.n == 0) { /* each prompt counts once */
            ret->prompt_tok += u->prompt_tok;
            ret->cached_tok += u->cached_tok;
            ret->prompt_us += u->prompt_us;
        }
        ret->gen_tok += u->gen_tok;
        ret->draft_tok += u->draft_tok;
        ret->draft_ok_tok += u->draft_ok_tok;
        ret->bad_calls += u->bad_calls;
        ret->gen_us = AQ_MAX(ret->gen_us, u->gen_us);
        ret->queue_us = AQ_MAX(ret->queue_us, u->queue_us);
        ret->first_us = AQ_MAX(ret->first_us, u->first_us);
        think += j->choice[i].n_reasoning_tok;
    }
    if (ret_reasoning)
        *ret_reasoning = think;
}

static void put_rate(aq_jw *w, const char *name, uint32_t n, uint32_t n_timed, int64_t us)
{
    aq_jw_f(w, ",\"%s_n\":%u,\"%s_ms\":", name, n, name);
    aq_jw_num(w, (double)us / 1e3);
    aq_jw_f(w, ",\"%s_per_token_ms\":", name);
    aq_jw_num(w, n_timed ? (double)us / 1e3 / n_timed : 0);
    aq_jw_f(w, ",\"%s_per_second\":", name);
    aq_jw_num(w, us > 0 ? n_timed * 1e6 / (double)us : 0);
}

void aq_put_timings(aq_jw *w, const aq_usage *u)
{
    uint32_t read = u->prompt_tok - AQ_MIN(u->cached_tok, u->prompt_tok);

    aq_jw_f(w, "{\"cache_n\":%u", u->cached_tok);
    put_rate(w, "prompt", read, read, u->prompt_us);
    /* from the first token to the last: one interval less than tokens */
    put_rate(w, "predicted", u->gen_tok, u->gen_tok ? u->gen_tok - 1 : 0, u->gen_us);
    aq_jw_s(w, "}");
}

static void put_token(aq_jw *w, const aq_model *m, const aq_logprob *t)
{
    uint32_t n = 0;
    const char *p = aq_token_piece(m, t->tok, &n);

    aq_jw_s(w, "\"token\":");
    aq_jw_qn(w, p, p ? n : 0);
    aq_jw_s(w, ",\"logprob\":");
    aq_jw_num(w, t->logprob > -9999 ? t->logprob : -9999);
    aq_jw_s(w, ",\"bytes\":[");
    for (uint32_t i = 0; p && i < n; i++)
        aq_jw_f(w, i ? ",%u" : "%u", (uint8_t)p[i]);
    aq_jw_s(w, "]");
}

void aq_put_logprob(aq_jw *w, const aq_model *m, const aq_event *ev, uint32_t n_top)
{
    aq_jw_s(w, "{");
    put_token(w, m, &ev->top[0]);
    aq_jw_s(w, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < n_top && i + 1 < ev->n_top; i++) {
        aq_jw_s(w, i ? ",{" : "{");
        put_token(w, m, &ev->top[i + 1]);
        aq_jw_s(w, "}");
    }
    aq_jw_s(w, "]}");
}

const aq_model *aq_job_model(const aq_job *j)
{
    return j->model->m.model;
}

/* ---- end of a job ---------------------------------------------------------------------------- */

static void job_free(aq_job *j)
{
    aq_api *api = j->api;

    pthread_mutex_lock(&api->mu);
    for (uint32_t i = 0; i < api->n_job; i++)
        if (api->job[i] == j) {
            memmove(&api->job[i], &api->job[i + 1], (api->n_job - i - 1) * sizeof *api->job);
            api->n_job--;
            break;
        }
    pthread_mutex_unlock(&api->mu);
    for (uint32_t i = 0; i < j->n; i++) {
        aq_req_free(j->choice[i].req);
        aq_bytes_clear(&j->choice[i].text);
        aq_bytes_clear(&j->choice[i].reasoning);
        aq_jw_clear(&j->choice[i].logprobs);
        aq_toks_clear(&j->choice[i].tok);
        for (uint32_t k = 0; k < j->choice[i].n_call; k++) {
            aq_bytes_clear(&j->choice[i].call[k].name);
            aq_bytes_clear(&j->choice[i].call[k].args);
        }
        free(j->choice[i].call);
    }
    free(j->choice);
    aq_jw_clear(&j->out);
    aq_jw_clear(&j->st.items);
    aq_ask_clear(&j->ask);
    aq_model_put(j->model);
    if (j->body)
        g_bytes_unref(j->body);
    g_free(j);
}

static void job_end(aq_job *j, int http)
{
    aq_usage u;

    aq_job_usage(j, &u, NULL);
    aq_log_add(j->api, j, http, &u);
    if (j->x) {
        j->x->gone = j->x->moved = NULL;
        j->x = NULL;
    }
    job_free(j);
}

/* The client left. */
static void gone_cb(void *user)
{
    aq_job *j = user;

    j->x = NULL;
    atomic_store(&j->gone, true);
    if (j->at_work) { /* freed when it comes back */
        pthread_mutex_lock(&j->api->mu);
        for (uint32_t i = 0; i < j->n; i++)
            if (j->choice[i].req)
                aq_req_cancel(j->choice[i].req);
        pthread_mutex_unlock(&j->api->mu);
        return;
    }
    job_end(j, 499);
}

/* In a stream, or as an answer of its own. The job is gone afterwards. */
static void job_fail(aq_job *j, const aq_fault *f)
{
    if (j->streaming) {
        j->out.rc = AQ_MIN(j->out.rc, 0);
        j->dialect->fail(j, f, &j->out);
        aq_xchg_put(j->x, &j->out.b);
        aq_xchg_end(j->x);
    } else {
        aq_xchg_fault(j->x, f, j->dialect->anthropic);
    }
    job_end(j, f->http);
}

static void fail_memory(aq_job *j)
{
    aq_fault f;

    aq_fault_set(&f, 503, "unavailable_error", NULL, "there is no memory for this answer");
    j->out.rc = 0;
    job_fail(j, &f);
}

static void job_done(aq_job *j)
{
    if (j->streaming) {
        j->dialect->end(j, &j->out);
    } else {
        j->dialect->whole(j, &j->out);
    }
    if (j->out.rc < 0) {
        fail_memory(j);
        return;
    }
    if (j->streaming) {
        aq_xchg_put(j->x, &j->out.b);
        aq_xchg_end(j->x);
    } else {
        aq_xchg_reply(j->x, 200, "application/json", j->out.b.p, j->out.b.n);
    }
    job_end(j, 200);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int keep_call(aq_choice *c, const aq_event *ev)
{
    if (ev->kind == AQ_EV_CALL_START) {
        aq_call *more = realloc(c->call, (c->n_call + 1) * sizeof *more);
        if (!more)
            return -AQ_E_NOMEM;
        c->call = more;
        aq_call *k = &c->call[c->n_call++];
        *k = (aq_call){0};
        snprintf(k->id, sizeof k->id, "%s", ev->call_id ? ev->call_id : "");
        return aq_bytes_put(&k->name, ev->bytes, ev->n_bytes);
    }
    return ev->call < c->n_call ? aq_bytes_put(&c->call[ev->call].args, ev->bytes, ev->n_bytes) : 0;
}

static int keep(aq_choice *c, const aq_event *ev)
{
    aq_job *j = c->job;
    int rc = 0;

    if (!atomic_load(&j->first_us))
        atomic_store(&j->first_us, aq_now_us());
    if (ev->kind == AQ_EV_TEXT)
        rc = aq_bytes_put(&c->text, ev->bytes, ev->n_bytes);
    else if (ev->kind == AQ_EV_REASONING)
        rc = aq_bytes_put(&c->reasoning, ev->bytes, ev->n_bytes);
    else if (ev->kind == AQ_EV_CALL_START || ev->kind == AQ_EV_CALL_ARGS)
        rc = keep_call(c, ev);
    if (ev->kind == AQ_EV_REASONING)
        c->n_reasoning_tok++;
    if (rc >= 0 && ev->tok >= 0 && j->ask.tools.b.n)
        rc = aq_toks_put(&c->tok, ev->tok);
    if (rc >= 0 && j->ask.logprobs && ev->n_top && ev->kind == AQ_EV_TEXT) {
        if (c->n_logprob++)
            aq_jw_s(&c->logprobs, ",");
        aq_put_logprob(&c->logprobs, aq_job_model(j), ev, j->ask.n_top);
        rc = c->logprobs.rc;
    }
    return rc;
}

static void remember(const aq_choice *c)
{
    uint8_t key[32];

    aq_replay_add(c->job->api->replay, &(aq_replay_in){.model = c->job->model->no,
                                                       .call = c->call,
                                                       .n_call = c->n_call,
                                                       .text = &c->text,
                                                       .prompt = aq_req_get_prompt(c->req, key),
                                                       .answer = &c->tok,
                                                       .key = key});
}

/* 1 = the last event of this answer; -1: f says why it failed. */
static int take(aq_choice *c, const aq_event *ev, aq_fault *f)
{
    aq_job *j = c->job;

    switch (ev->kind) {
    case AQ_EV_USAGE:
        c->usage = *ev->usage;
        return 0;
    case AQ_EV_ERROR:
        aq_fault_err(f, ev->rc, ev->err);
        return -1;
    case AQ_EV_DONE:
        c->done = true;
        c->reason = ev->rc;
        if (ev->call && ev->call <= j->ask.sampling.n_stop)
            c->stopped_by = j->ask.sampling.stop[ev->call - 1];
        if (ev->rc == AQ_DONE_CANCELLED) {
            aq_fault_set(f, 503, "server_error", "stopped",
                         atomic_load(&j->stopped) ? "this request was stopped at the server"
                                                  : "the model is being closed");
            return -1;
        }
        if (c->reason == AQ_DONE_CALLS)
            remember(c);
        j->n_done++;
        if (j->streaming)
            j->dialect->choice_end(j, c, &j->out);
        return 1;
    default:
        if (keep(c, ev) < 0)
            j->out.rc = -AQ_E_NOMEM;
        if (j->streaming)
            j->dialect->event(j, c, ev, &j->out);
        return 0;
    }
}

static void pump(aq_job *j)
{
    int64_t until = aq_now_us() + PUMP_US;
    aq_fault f;
    aq_event ev;
    uint32_t n = 0;

    for (uint32_t i = 0; i < j->n; i++) {
        aq_choice *c = &j->choice[i];
        if (c->done || !atomic_exchange(&c->ready, false))
            continue;
        int rc = 0;
        while (rc == 0 && aq_req_pop(c->req, &ev) == 1) {
            if ((rc = take(c, &ev, &f)) < 0) {
                job_fail(j, &f);
                return;
            }
            bool full = j->streaming && j->out.b.n + aq_xchg_unsent(j->x) > AQ_API_OUT_BYTES;
            if (full || (++n % 64 == 0 && aq_now_us() > until)) {
                if (rc == 0)
                    atomic_store(&c->ready, true);
                if (!full) /* else moved_cb comes back to it */
                    aq_api_wake(j->api);
                break;
            }
        }
    }
    if (j->out.rc < 0) {
        fail_memory(j);
        return;
    }
    if (j->n_done == j->n) {
        job_done(j);
        return;
    }
    if (j->out.b.n) {
        j->sent_us = aq_now_us();
        aq_xchg_put(j->x, &j->out.b);
    }
}

static bool has_events(const aq_job *j)
{
    for (uint32_t i = 0; i < j->n; i++)
        if (atomic_load(&j->choice[i].ready))
            return true;
    return false;
}

void aq_job_ready(aq_api *api)
{
    /* pump may end jobs, which leave the list; only this thread changes it */
    for (uint32_t i = 0; i < api->n_job;) {
        aq_job *j = api->job[i];
        if (j->x && !j->at_work && j->n && has_events(j) &&
            !(j->streaming && aq_xchg_unsent(j->x) > AQ_API_OUT_BYTES))
            pump(j);
        if (i < api->n_job && api->job[i] == j)
            i++;
    }
}

static void moved_cb(void *user)
{
    aq_job *j = user;

    if (has_events(j))
        aq_api_wake(j->api);
}

void aq_job_tick(aq_api *api)
{
    int64_t now = aq_now_us();

    for (uint32_t i = 0; i < api->n_job; i++) {
        aq_job *j = api->job[i];
        if (!j->x || !j->streaming || aq_xchg_unsent(j->x) ||
            now - j->sent_us < api_us(api->cfg.keepalive_ms))
            continue;
        if (j->dialect->keepalive)
            aq_jw_s(&j->out, j->dialect->keepalive);
        else
            j->dialect->alive(j, &j->out);
        j->sent_us = now;
        aq_xchg_put(j->x, &j->out.b);
    }
}

/* ---- submitting ------------------------------------------------------------------------------ */

static void wake_cb(void *user) /* the engine's thread */
{
    aq_choice *c = user;

    atomic_store(&c->ready, true);
    aq_api_wake(c->job->api);
}

/* The worker is done. */
static gboolean submitted(gpointer user)
{
    aq_job *j = user;

    j->at_work = false;
    if (!j->x) {
        job_end(j, 499);
        return G_SOURCE_REMOVE;
    }
    bool in_stream = j->rc < 0 && j->dialect->failed_in_stream && j->ask.stream && j->fault.n_ctx;
    if (j->rc < 0 && !in_stream) {
        job_fail(j, &j->fault);
        return G_SOURCE_REMOVE;
    }
    j->sent_us = aq_now_us();
    if (j->ask.stream) {
        j->streaming = true;
        aq_xchg_stream(j->x);
        j->dialect->begin(j, &j->out);
        if (in_stream) {
            job_fail(j, &j->fault);
            return G_SOURCE_REMOVE;
        }
    }
    for (uint32_t i = 0; i < j->n; i++) {
        atomic_store(&j->choice[i].ready, true);
        if (atomic_load(&j->stopped))
            aq_req_cancel(j->choice[i].req);
    }
    pump(j);
    return G_SOURCE_REMOVE;
}

/* What an answer of these prompts would be refused for: the numbers go with it. */
static void fault_of_submit(aq_job *j, const aq_req_in *in, int rc, const aq_err *err)
{
    __attribute__((cleanup(aq_toks_clear))) aq_toks toks = {0};
    aq_err no = {0};
    uint32_t n_ctx = j->model->info.n_ctx;

    j->rc = rc;
    aq_fault_err(&j->fault, rc, err);
    if (rc == -AQ_E_LIMIT) {
        uint32_t n = in->messages_json ? 0 : in->n_tok;
        if (in->messages_json && aq_chat_prompt(j->model->m.model, in, NULL, &toks, &no) >= 0)
            n = toks.n;
        if (n >= n_ctx) {
            j->fault.code = "context_length_exceeded";
            j->fault.n_prompt = n;
            j->fault.n_ctx = n_ctx;
            snprintf(j->fault.text, sizeof j->fault.text,
                     "This model's maximum context length is %u tokens, and the prompt has %u: "
                     "shorten it, or load the model with a larger context",
                     n_ctx, n);
        }
    }
    if (j->fault.http == 400 && !j->fault.param[0]) {
        bool messages = !strncmp(j->fault.text, "message", 7) || j->fault.n_ctx;
        snprintf(j->fault.param, sizeof j->fault.param, "%s",
                 !in->messages_json                           ? "prompt"
                 : !messages && strstr(j->fault.text, "tool") ? "tools"
                 : !messages && in->schema_json && strstr(j->fault.text, "schema")
                     ? "response_format"
                     : "messages");
    }
}

static int tokenize_prompts(aq_job *j)
{
    aq_err err = {0};

    for (uint32_t i = 0; i < j->ask.n_prompt; i++) {
        aq_prompt_in *p = &j->ask.prompt[i];
        __attribute__((cleanup(aq_toks_clear))) aq_toks toks = {0};
        if (p->tok)
            continue;
        int rc = aq_tokenize(j->model->m.model, p->text, p->n_text, true, &toks, &err);
        if (rc < 0)
            return aq_fault_err(&j->fault, rc, &err);
        if (!toks.n)
            return aq_fault_field(&j->fault, "prompt", "'prompt' is empty");
        if (!(p->tok = aq_ask_alloc(&j->ask, toks.n * sizeof *p->tok, &j->fault)))
            return -AQ_E_NOMEM;
        memcpy(p->tok, toks.id, toks.n * sizeof *p->tok);
        p->n_tok = toks.n;
    }
    return 0;
}

static void submit_all(aq_job *j)
{
    uint32_t n = j->ask.n * AQ_MAX(j->ask.n_prompt, 1u);
    aq_err err = {0};

    j->choice = calloc(n, sizeof *j->choice);
    if (!j->choice) {
        j->rc = aq_fault_set(&j->fault, 503, "unavailable_error", NULL, "there is no memory");
        return;
    }
    for (uint32_t i = 0; i < n && !atomic_load(&j->gone); i++) {
        aq_req_in in;
        aq_req *req = NULL;
        j->choice[i].job = j;
        aq_ask_in(&j->ask, i, &in);
        int rc = aq_submit(j->model->m.engine, &in, wake_cb, &j->choice[i], &req, &err);
        if (rc < 0) {
            fault_of_submit(j, &in, rc, &err);
            return;
        }
        pthread_mutex_lock(&j->api->mu);
        j->choice[i].req = req;
        j->n = i + 1;
        pthread_mutex_unlock(&j->api->mu);
    }
}

static void run(aq_work *w)
{
    aq_job *j = (aq_job *)w;
    gsize n = 0;
    const char *body = g_bytes_get_data(j->body, &n);

    if (!atomic_load(&j->gone)) {
        j->rc = j->dialect->parse(&j->ask, body ? body : "", n, &j->fault);
        if (j->rc >= 0)
            j->rc = tokenize_prompts(j);
        if (j->rc >= 0 && j->ask.n > j->model->info.n_parallel)
            j->rc = aq_fault_field(&j->fault, "n", "'n' is %u, and %u answers at once are computed",
                                   j->ask.n, j->model->info.n_parallel);
        if (j->rc >= 0) {
            aq_ask_replay(&j->ask, j->model->no);
            submit_all(j);
        }
        /* any name is served by the one model there is, and told as it was asked for */
        j->name = j->ask.model && *j->ask.model ? j->ask.model : j->model->id;
    }
    g_main_context_invoke(j->api->context, submitted, j);
}

static int random_id(char *ret, size_t n)
{
    uint8_t b[16];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        for (size_t i = 0; i < sizeof b; i++)
            b[i] = (uint8_t)g_random_int();
    if (n < 2 * sizeof b + 1)
        return -AQ_E_INVAL;
    aq_hex(b, sizeof b, ret);
    return 0;
}

void aq_job_start(aq_api *api, aq_xchg *x, const aq_dialect *d, const char *path, const char *who)
{
    aq_fault f;
    aq_model_ref *m = aq_model_get(api);
    uint32_t most = (m ? m->info.n_parallel : 0) + api->cfg.n_queue;

    if (!m || api->n_job >= most) {
        if (!m)
            aq_fault_set(&f, 503, "unavailable_error", "model_not_loaded", "no model is loaded");
        else if (d->failed_in_stream)
            aq_fault_set(&f, 503, "server_error", "server_is_overloaded",
                         "%u requests are under way, more do not fit: try again later", api->n_job);
        else
            aq_fault_set(&f, 429, "rate_limit_exceeded", "rate_limit_exceeded",
                         "%u requests are under way, more do not fit: try again later", api->n_job);
        aq_model_put(m);
        aq_xchg_fault(x, &f, d->anthropic);
        return;
    }
    aq_job *j = g_new0(aq_job, 1);
    j->work.run = run;
    j->api = api;
    j->dialect = d;
    j->model = m;
    j->ask.replay = api->replay;
    j->x = x;
    j->start_us = j->sent_us = aq_now_us();
    j->created_s = aq_wall_s();
    (void)!random_id(j->id, sizeof j->id);
    snprintf(j->who, sizeof j->who, "%s", who);
    snprintf(j->path, sizeof j->path, "%s", path);
    j->body = soup_message_body_flatten(soup_server_message_get_request_body(x->msg));
    j->at_work = true;
    pthread_mutex_lock(&api->mu);
    j->no = ++api->job_no;
    if (api->n_job == api->cap_job) {
        api->cap_job = api->cap_job ? 2 * api->cap_job : 64;
        api->job = g_renew(aq_job *, api->job, api->cap_job);
    }
    api->job[api->n_job++] = j;
    pthread_mutex_unlock(&api->mu);
    aq_xchg_watch(x);
    x->gone = gone_cb;
    x->moved = moved_cb;
    x->user = j;
    g_thread_pool_push(api->workers, &j->work, NULL);
}

void aq_job_stop_all(aq_api *api)
{
    for (uint32_t i = 0; i < api->n_job; i++)
        if (api->job[i]->x)
            aq_conn_cut(api->job[i]->x->conn);
}
