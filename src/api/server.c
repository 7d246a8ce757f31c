/* SPDX-License-Identifier: Apache-2.0 */
/* The server's thread: its loop, libsoup, routing, and what the window sees of it.
 *
 * A request goes through these doors, in this order, before its body is read: a connection of ours, one Host that is this PC's,
 * an Origin that may ask, a key, a path and a method that exist, JSON, a body of a size that is allowed. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "api-priv.h"

#define WORKERS 4

/* ---- the model ------------------------------------------------------------------------------- */

aq_model_ref *aq_model_get(aq_api *api)
{
    pthread_mutex_lock(&api->mu);
    aq_model_ref *m = api->model;
    if (m)
        atomic_fetch_add(&m->ref, 1);
    pthread_mutex_unlock(&api->mu);
    return m;
}

void aq_model_put(aq_model_ref *m)
{
    if (!m || atomic_fetch_sub(&m->ref, 1) != 1)
        return;
    if (m->m.released)
        m->m.released(m->m.user);
    free(m->id);
    free(m);
}

int aq_api_set_model(aq_api *api, const aq_api_model *in, aq_err *err)
{
    aq_model_ref *m = NULL;

    if (in) {
        m = calloc(1, sizeof *m);
        if (!m || !(m->id = strdup(in->id && *in->id ? in->id : "model"))) {
            free(m);
            return aq_fail(err, AQ_E_NOMEM, "no memory for a model");
        }
        atomic_init(&m->ref, 1);
        m->m = *in;
        aq_engine_get_info(in->engine, &m->info);
    }
    pthread_mutex_lock(&api->mu);
    aq_model_ref *old = api->model;
    if (m)
        m->no = ++api->model_no;
    api->model = m;
    pthread_mutex_unlock(&api->mu);
    aq_model_put(old);
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

int aq_api_set_keys(aq_api *api, const char *const *key, uint32_t n, aq_err *err)
{
    if (api->cfg.lan && !n)
        return aq_fail(err, AQ_E_INVAL, "other PCs may ask only with a key: make one");
    pthread_mutex_lock(&api->mu);
    int rc = aq_guard_keys(&api->guard, key, n, err);
    pthread_mutex_unlock(&api->mu);
    return rc;
}

int aq_api_key_new(char ret[AQ_API_KEY_TEXT], aq_err *err)
{
    uint8_t b[16];

    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return aq_fail_errno(err, errno, "no randomness for a key");
    memcpy(ret, "aq-", 3);
    aq_hex(b, sizeof b, ret + 3);
    aq_mem_wipe(b, sizeof b);
    return 0;
}

/* ---- what the window sees -------------------------------------------------------------------- */

uint32_t aq_api_get_requests(aq_api *api, aq_api_request *ret, uint32_t cap)
{
    uint32_t n = 0;
    int64_t now = aq_now_us();

    pthread_mutex_lock(&api->mu);
    for (uint32_t i = 0; i < api->n_job && n < cap; i++) {
        const aq_job *j = api->job[i];
        aq_api_request *r = &ret[n++];
        *r = (aq_api_request){.id = j->no, .start_us = j->start_us};
        snprintf(r->who, sizeof r->who, "%s", j->who);
        snprintf(r->path, sizeof r->path, "%s", j->path);
        snprintf(r->model, sizeof r->model, "%s", j->model->id);
        bool queued = j->n > 0;
        for (uint32_t k = 0; k < j->n; k++) {
            aq_req_state st;
            aq_req_get_state(j->choice[k].req, &st);
            r->prompt_tok = AQ_MAX(r->prompt_tok, st.prompt_tok);
            r->read_tok = AQ_MAX(r->read_tok, st.read_tok);
            r->gen_tok += st.gen_tok;
            queued = queued && st.queued;
        }
        r->state = queued ? AQ_API_QUEUED : r->gen_tok ? AQ_API_WRITING : AQ_API_READING;
        int64_t first_us = atomic_load(&j->first_us);
        if (r->gen_tok > 1 && first_us && now > first_us)
            r->tok_s = (r->gen_tok - 1) * 1e6 / (double)(now - first_us);
    }
    pthread_mutex_unlock(&api->mu);
    return n;
}

bool aq_api_stop(aq_api *api, uint64_t id)
{
    bool found = false;

    pthread_mutex_lock(&api->mu);
    for (uint32_t i = 0; i < api->n_job && !found; i++) {
        aq_job *j = api->job[i];
        if (j->no != id)
            continue;
        found = true;
        atomic_store(&j->stopped, true);
        for (uint32_t k = 0; k < j->n; k++)
            aq_req_cancel(j->choice[k].req);
    }
    pthread_mutex_unlock(&api->mu);
    return found;
}

void aq_log_add(aq_api *api, const aq_job *j, int http, const aq_usage *u)
{
    api->stats.n_request++;
    api->stats.n_failed += http >= 400;
    api->stats.prompt_tok += u->prompt_tok;
    api->stats.cached_tok += u->cached_tok;
    api->stats.gen_tok += u->gen_tok;
    api->stats.draft_tok += u->draft_tok;
    api->stats.draft_ok_tok += u->draft_ok_tok;
    api->stats.n_malformed_call += u->bad_calls;
    api->stats.prompt_us += u->prompt_us;
    api->stats.gen_us += u->gen_us;
    pthread_mutex_lock(&api->mu);
    aq_api_log *l = &api->log[api->n_log % AQ_API_LOG_MAX];
    *l = (aq_api_log){.no = ++api->n_log,
                      .end_s = aq_wall_s(),
                      .http = http,
                      .prompt_tok = u->prompt_tok,
                      .cached_tok = u->cached_tok,
                      .gen_tok = u->gen_tok,
                      .ms = (uint32_t)((aq_now_us() - j->start_us) / 1000)};
    snprintf(l->who, sizeof l->who, "%s", j->who);
    snprintf(l->path, sizeof l->path, "%s", j->path);
    pthread_mutex_unlock(&api->mu);
    aq_log(AQ_LOG_INFO, "api", "request path=%s http=%d prompt=%u cached=%u gen=%u", j->path, http,
           u->prompt_tok, u->cached_tok, u->gen_tok);
}

uint32_t aq_api_get_log(aq_api *api, uint64_t since, aq_api_log *ret, uint32_t cap)
{
    uint32_t n = 0;

    pthread_mutex_lock(&api->mu);
    uint64_t first = api->n_log > AQ_API_LOG_MAX ? api->n_log - AQ_API_LOG_MAX : 0;
    for (uint64_t i = AQ_MAX(first, since); i < api->n_log && n < cap; i++)
        ret[n++] = api->log[i % AQ_API_LOG_MAX];
    pthread_mutex_unlock(&api->mu);
    return n;
}

uint16_t aq_api_port(const aq_api *api)
{
    return api->port;
}

/* ---- doors ----------------------------------------------------------------------------------- */

static const char *the_one(SoupMessageHeaders *h, const char *name, bool *ret_twice)
{
    SoupMessageHeadersIter it;
    const char *key, *value, *found = NULL;

    soup_message_headers_iter_init(&it, h);
    while (soup_message_headers_iter_next(&it, &key, &value))
        if (!g_ascii_strcasecmp(key, name)) {
            *ret_twice = *ret_twice || found;
            found = value;
        }
    return found;
}

static int door_host(aq_api *api, const aq_conn *c, SoupServerMessage *msg, aq_fault *f)
{
    SoupMessageHeaders *h = soup_server_message_get_request_headers(msg);
    bool twice = false;
    const char *host = the_one(h, "Host", &twice);
    const char *in_uri = g_uri_get_host(soup_server_message_get_uri(msg));
    char *plain = NULL;

    if (twice)
        return aq_fault_set(f, 400, "invalid_request_error", NULL, "there are two Host headers");
    /* of an address in the request line; libsoup gives v6 without brackets */
    if (in_uri)
        plain = strchr(in_uri, ':') ? g_strdup_printf("[%s]", in_uri) : g_strdup(in_uri);
    pthread_mutex_lock(&api->mu);
    bool good = (!host || aq_guard_host(&api->guard, host, c->local)) &&
                (!plain || aq_guard_host(&api->guard, plain, c->local));
    pthread_mutex_unlock(&api->mu);
    g_free(plain);
    return good ? 0
                : aq_fault_set(f, 403, "permission_error", NULL,
                               "the Host header names another computer: use this PC's address, or "
                               "allow the name");
}

/* Answers to a page of this PC say so; a page of elsewhere is refused. 1: it was a preflight. */
static int door_origin(aq_api *api, SoupServerMessage *msg, aq_fault *f)
{
    SoupMessageHeaders *h = soup_server_message_get_request_headers(msg);
    SoupMessageHeaders *out = soup_server_message_get_response_headers(msg);
    const char *origin = soup_message_headers_get_one(h, "Origin");

    if (!origin)
        return 0;
    pthread_mutex_lock(&api->mu);
    bool good = aq_guard_origin(&api->guard, origin);
    pthread_mutex_unlock(&api->mu);
    if (!good)
        return aq_fault_set(f, 403, "permission_error", NULL,
                            "this web page may not ask: its origin is not allowed");
    soup_message_headers_replace(out, "Access-Control-Allow-Origin", origin);
    soup_message_headers_replace(out, "Vary", "Origin");
    const char *ask = soup_message_headers_get_list(h, "Access-Control-Request-Headers");
    if (strcmp(soup_server_message_get_method(msg), "OPTIONS") != 0)
        return 0;
    soup_message_headers_replace(out, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    if (ask)
        soup_message_headers_replace(out, "Access-Control-Allow-Headers", ask);
    soup_message_headers_replace(out, "Access-Control-Max-Age", "600");
    return 1;
}

static int door_key(aq_api *api, SoupServerMessage *msg, aq_fault *f)
{
    SoupMessageHeaders *h = soup_server_message_get_request_headers(msg);

    pthread_mutex_lock(&api->mu);
    bool good = aq_guard_key(&api->guard, soup_message_headers_get_one(h, "Authorization"),
                             soup_message_headers_get_one(h, "X-Api-Key"));
    pthread_mutex_unlock(&api->mu);
    return good ? 0
                : aq_fault_set(f, 401, "authentication_error", "invalid_api_key",
                               "a key of this server is needed: Authorization: Bearer KEY, or "
                               "x-api-key: KEY");
}

static int door_path(SoupServerMessage *msg, const char *path, aq_fault *f)
{
    const char *method = soup_server_message_get_method(msg);
    int takes = aq_path_method(path);

    if (!takes)
        return aq_fault_set(f, 404, "not_found_error", NULL,
                            "there is nothing at %.200s (docs/API.md lists what there is)", path);
    bool head = takes == 1 && !strcmp(method, "HEAD"); /* libsoup leaves the body out */
    if (!head && strcmp(method, takes == 1 ? "GET" : "POST") != 0) {
        soup_message_headers_replace(soup_server_message_get_response_headers(msg), "Allow",
                                     takes == 1 ? "GET" : "POST");
        return aq_fault_set(f, 405, "invalid_request_error", NULL, "%.200s takes %s, not %.20s",
                            path, takes == 1 ? "GET" : "POST", method);
    }
    return 0;
}

static int door_body(aq_api *api, SoupServerMessage *msg, const char *path, aq_fault *f)
{
    SoupMessageHeaders *h = soup_server_message_get_request_headers(msg);
    const char *type = soup_message_headers_get_content_type(h, NULL);
    goffset n = soup_message_headers_get_encoding(h) == SOUP_ENCODING_CONTENT_LENGTH
                    ? soup_message_headers_get_content_length(h)
                    : 0;

    if (soup_message_headers_get_one(h, "Content-Length") &&
        soup_message_headers_get_one(h, "Transfer-Encoding"))
        return aq_fault_set(f, 400, "invalid_request_error", NULL,
                            "Content-Length and Transfer-Encoding tell two lengths of one body");
    if (n < 0) /* libsoup takes "-5" */
        return aq_fault_set(f, 400, "invalid_request_error", NULL,
                            "Content-Length is not the number of the body's bytes");
    if (n > (goffset)api->cfg.body_max_bytes)
        return aq_fault_set(f, 413, "invalid_request_error", NULL,
                            "the body is larger than the %u bytes that are allowed",
                            api->cfg.body_max_bytes);
    if (aq_path_method(path) != 2)
        return 0;
    bool twice = false;
    (void)the_one(h, "Content-Type", &twice);
    if (!type || twice || g_ascii_strcasecmp(type, "application/json") != 0)
        return aq_fault_set(f, 415, "invalid_request_error", NULL,
                            "the body must be JSON, with Content-Type: application/json");
    const char *coding = soup_message_headers_get_list(h, "Content-Encoding");
    if (coding && g_ascii_strcasecmp(coding, "identity") != 0)
        return aq_fault_set(f, 415, "invalid_request_error", NULL,
                            "Content-Encoding: %.40s is not read: send the body as it is", coding);
    return 0;
}

static const char *path_of(SoupServerMessage *msg)
{
    const char *path = g_uri_get_path(soup_server_message_get_uri(msg));

    return path ? path : "";
}

static bool is_public(const char *path)
{
    return !strcmp(path, "/health") || !strcmp(path, "/v1/health");
}

static void early_cb(SoupServer *server, SoupServerMessage *msg, const char *soup_path,
                     GHashTable *query, gpointer user)
{
    aq_api *api = user;
    aq_conn *c = aq_conn_of(msg);
    const char *path = path_of(msg);
    bool anthropic = aq_path_anthropic(path);
    aq_fault f;

    (void)server;
    (void)soup_path;
    (void)query;
    if (!c || c->x || api->stopping) { /* not by our accept loop */
        soup_server_message_set_status(msg, 403, NULL);
        return;
    }
    aq_xchg *x = aq_xchg_new(api, c, msg);
    int rc = door_host(api, c, msg, &f);
    rc = rc < 0 ? rc : door_origin(api, msg, &f);
    if (rc == 1) { /* a preflight carries no key */
        soup_server_message_set_status(msg, 204, NULL);
        return;
    }
    if (rc >= 0 && !is_public(path))
        rc = door_key(api, msg, &f);
    rc = rc < 0 ? rc : door_path(msg, path, &f);
    rc = rc < 0 ? rc : door_body(api, msg, path, &f);
    if (rc < 0)
        aq_xchg_refuse(x, &f, anthropic);
}

/* "openai-python 127.0.0.1": the program's own name for itself, without versions, and where it is. */
static void name_client(SoupServerMessage *msg, const aq_conn *c, char *ret, size_t cap)
{
    const char *agent =
        soup_message_headers_get_one(soup_server_message_get_request_headers(msg), "User-Agent");
    char name[48] = "";

    for (size_t i = 0; agent && agent[i] > ' ' && agent[i] != '/' && i + 1 < sizeof name; i++) {
        name[i] = agent[i] < 127 ? agent[i] : '?';
        name[i + 1] = 0;
    }
    snprintf(ret, cap, "%s%s%s", name, name[0] ? " " : "", c->peer);
}

static void handler_cb(SoupServer *server, SoupServerMessage *msg, const char *soup_path,
                       GHashTable *query, gpointer user)
{
    aq_api *api = user;
    aq_xchg *x = g_object_get_data(G_OBJECT(msg), "aq-x");
    const char *path = path_of(msg);
    char who[96];

    (void)server;
    (void)soup_path;
    (void)query;
    if (!x || !x->conn)
        return;
    const aq_dialect *d = aq_dialect_of(path);
    if (d) {
        name_client(msg, x->conn, who, sizeof who);
        aq_job_start(api, x, d, path, who);
        return;
    }
    if (!aq_page_get(x, path) && !aq_page_post(x, path)) {
        aq_fault f;
        aq_fault_set(&f, 404, "not_found_error", NULL, "there is nothing at %.200s", path);
        aq_xchg_fault(x, &f, false);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static gboolean ready_dispatch(GSource *source, GSourceFunc cb, gpointer user)
{
    (void)cb;
    g_source_set_ready_time(source, -1);
    aq_job_ready(user);
    return G_SOURCE_CONTINUE;
}

static gboolean ready_cb(gpointer user)
{
    (void)user;
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs ready_funcs = {.dispatch = ready_dispatch};

void aq_api_wake(aq_api *api)
{
    g_source_set_ready_time(api->ready, 0);
}

static gboolean tick_cb(gpointer user)
{
    aq_conn_tick(user);
    aq_job_tick(user);
    return G_SOURCE_CONTINUE;
}

static gboolean stop_cb(gpointer user)
{
    aq_api *api = user;

    api->stopping = true;
    aq_listen_stop(api);
    aq_job_stop_all(api);
    for (aq_conn *c = api->conns; c; c = c->next)
        aq_conn_cut(c);
    return G_SOURCE_REMOVE;
}

static gpointer thread_main(gpointer user)
{
    aq_api *api = user;

    g_main_context_push_thread_default(api->context);
    api->soup = soup_server_new("server-header", "aquifer", NULL);
    soup_server_add_early_handler(api->soup, NULL, early_cb, api, NULL);
    soup_server_add_handler(api->soup, NULL, handler_cb, api, NULL);
    aq_listen_start(api);
    /* until all is over that stop_cb cut */
    while (!api->stopping || api->n_conn || api->n_job || api->n_linger || api->n_page)
        g_main_context_iteration(api->context, TRUE);
    soup_server_disconnect(api->soup);
    g_object_unref(api->soup);
    g_main_context_pop_thread_default(api->context);
    return NULL;
}

static void run_work(gpointer data, gpointer user)
{
    aq_work *w = data;

    (void)user;
    w->run(w);
}

static uint32_t or_else(uint32_t v, uint32_t dflt)
{
    return v ? v : dflt;
}

static void start(aq_api *api)
{
    api->context = g_main_context_new();
    api->workers = g_thread_pool_new(run_work, NULL, WORKERS, FALSE, NULL);
    api->ready = g_source_new(&ready_funcs, sizeof(GSource));
    g_source_set_callback(api->ready, ready_cb, api, NULL);
    g_source_set_ready_time(api->ready, -1);
    g_source_attach(api->ready, api->context);
    api->tick = g_timeout_source_new(AQ_MIN(AQ_MAX(api->cfg.keepalive_ms / 4, 10u), 1000u));
    g_source_set_callback(api->tick, tick_cb, api, NULL);
    g_source_attach(api->tick, api->context);
    api->thread = g_thread_new("aq-api", thread_main, api);
}

static int open_cert(aq_api *api, const char *pem, aq_err *err)
{
    GError *e = NULL;

    if (!g_tls_backend_supports_tls(g_tls_backend_get_default()))
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "this system has no TLS for programs: install glib-networking");
    api->cert = g_tls_certificate_new_from_pem(pem, -1, &e);
    int rc = api->cert ? 0 : aq_fail(err, AQ_E_INVAL, "the certificate: %.200s", e->message);
    g_clear_error(&e);
    return rc;
}

int aq_api_new(const aq_api_cfg *cfg, aq_api **ret, aq_err *err)
{
    aq_api *api = calloc(1, sizeof *api);

    if (!api)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the API");
    pthread_mutex_init(&api->mu, NULL);
    for (uint32_t i = 0; i < AQ_API_LISTEN_MAX; i++)
        api->listen_fd[i] = -1;
    api->cfg = (aq_api_cfg){.lan = cfg->lan,
                            .body_max_bytes = or_else(cfg->body_max_bytes, AQ_API_BODY_BYTES),
                            .n_queue = or_else(cfg->n_queue, AQ_API_QUEUE),
                            .n_conn = or_else(cfg->n_conn, AQ_API_CONNS),
                            .keepalive_ms = or_else(cfg->keepalive_ms, 5000),
                            .read_ms = or_else(cfg->read_ms, 30000),
                            .idle_ms = or_else(cfg->idle_ms, 120000),
                            .stall_ms = or_else(cfg->stall_ms, 60000)};
    int rc = cfg->lan && !cfg->n_key
                 ? aq_fail(err, AQ_E_INVAL, "other PCs may ask only with a key: give one")
                 : 0;
    rc = rc < 0 ? rc : aq_guard_keys(&api->guard, cfg->key, cfg->n_key, err);
    rc = rc < 0 ? rc : aq_guard_names(&api->guard, cfg, err);
    rc = rc < 0 || !cfg->tls_pem ? rc : open_cert(api, cfg->tls_pem, err);
    if (rc >= 0 && !(api->replay = aq_replay_new()))
        rc = aq_fail(err, AQ_E_NOMEM, "no memory for the API");
    if (rc >= 0 && !(api->app = strdup(cfg->app ? cfg->app : "aquifer")))
        rc = aq_fail(err, AQ_E_NOMEM, "no memory for the API");
    rc = rc < 0 ? rc : aq_listen_open(api, cfg, err);
    if (rc < 0) {
        aq_api_free(api);
        return rc;
    }
    start(api);
    *ret = api;
    return 0;
}

void aq_api_free(aq_api *api)
{
    if (!api)
        return;
    if (api->thread) {
        GSource *s = g_idle_source_new();
        g_source_set_priority(s, G_PRIORITY_HIGH);
        g_source_set_callback(s, stop_cb, api, NULL);
        g_source_attach(s, api->context);
        g_source_unref(s);
        g_thread_join(api->thread);
        g_thread_pool_free(api->workers, FALSE, TRUE);
        g_source_destroy(api->tick);
        g_source_unref(api->tick);
        g_source_destroy(api->ready);
        g_source_unref(api->ready);
        g_main_context_unref(api->context);
    }
    for (uint32_t i = 0; i < AQ_API_LISTEN_MAX; i++)
        aq_fd_close_p(&api->listen_fd[i]);
    aq_model_put(api->model);
    aq_guard_clear(&api->guard);
    aq_replay_free(api->replay);
    g_clear_object(&api->cert);
    g_free(api->job);
    free(api->app);
    pthread_mutex_destroy(&api->mu);
    free(api);
}
