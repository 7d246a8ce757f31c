/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request and its answer over libsoup. The server's thread alone.
 *
 *   early handler ─▶ aq_xchg_new ─┬─▶ aq_xchg_refuse      before the body is read
 *                                 └─▶ handler ─▶ aq_xchg_watch ─▶ reply, or stream, put…, end
 *   libsoup's "finished" frees it, after gone().
 *
 * What libsoup leaves to its user, and what is done about it here:
 *   - while a message is paused nobody looks at the socket: a source of our own waits for the client's hang-up
 *   - there is no limit on a body: what says or proves to be too large has its connection taken away and is answered by hand
 *   - there is no limit on what waits to be sent: wrote-body-data is counted, and whoever produces asks aq_xchg_unsent() */
#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api-priv.h"

#define LINGER_MS 2000u
#define LINGER_BYTES (512u << 10)   /* read away while an early answer travels */
#define READ_AWAY_BYTES (64u << 10) /* a body that an early answer lets come in */

static void xchg_free(aq_xchg *x)
{
    if (x->hup) {
        g_source_destroy(x->hup);
        g_source_unref(x->hup);
    }
    if (x->sig_finished)
        g_signal_handler_disconnect(x->msg, x->sig_finished);
    if (x->sig_wrote)
        g_signal_handler_disconnect(x->msg, x->sig_wrote);
    if (x->sig_chunk)
        g_signal_handler_disconnect(x->msg, x->sig_chunk);
    g_object_set_data(G_OBJECT(x->msg), "aq-x", NULL);
    if (x->conn)
        x->conn->x = NULL;
    x->api->held_bytes -= x->body_bytes;
    g_object_unref(x->msg);
    g_free(x);
}

static void tell_gone(aq_xchg *x)
{
    void (*gone)(void *) = x->gone;
    void *user = x->user;

    x->gone = x->moved = NULL;
    x->user = NULL;
    if (gone)
        gone(user);
}

static void finished_cb(SoupServerMessage *msg, gpointer user)
{
    aq_xchg *x = user;

    (void)msg;
    tell_gone(x);
    if (x->conn)
        aq_conn_state(x->conn, AQ_CONN_IDLE);
    xchg_free(x);
}

static void wrote_cb(SoupServerMessage *msg, guint n, gpointer user)
{
    aq_xchg *x = user;

    (void)msg;
    x->written += n;
    x->moved_us = aq_now_us();
    if (x->moved && aq_xchg_unsent(x) < AQ_API_OUT_BYTES / 2)
        x->moved(x->user);
}

uint64_t aq_xchg_unsent(const aq_xchg *x)
{
    return x->queued > x->written ? x->queued - x->written : 0;
}

/* ---- taken connections ----------------------------------------------------------------------- */

typedef struct parting {
    aq_api *api;
    GIOStream *stream;
    GSource *in, *timer;
    int fd;
    size_t n;
} parting;

static void linger_free(parting *l)
{
    l->api->n_linger--;
    g_source_destroy(l->in);
    g_source_unref(l->in);
    g_source_destroy(l->timer);
    g_source_unref(l->timer);
    g_io_stream_close(l->stream, NULL, NULL);
    g_object_unref(l->stream);
    g_free(l);
}

static gboolean linger_in(gint fd, GIOCondition cond, gpointer user)
{
    parting *l = user;
    char buf[16384];
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);

    (void)cond;
    if (n > 0 && (l->n += (size_t)n) < LINGER_BYTES)
        return G_SOURCE_CONTINUE;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return G_SOURCE_CONTINUE;
    linger_free(l);
    return G_SOURCE_REMOVE;
}

static gboolean linger_over(gpointer user)
{
    linger_free(user);
    return G_SOURCE_REMOVE;
}

/* Take the connection from libsoup and answer by hand; nothing more of the body is kept. x is freed. */
static void answer_and_close(aq_xchg *x, const aq_fault *f, bool anthropic)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw body = {0}, all = {0};
    aq_conn *conn = x->conn;
    SoupServerMessage *msg = g_object_ref(x->msg);
    const char *origin = soup_message_headers_get_one(soup_server_message_get_response_headers(msg),
                                                      "Access-Control-Allow-Origin");

    if (!conn) { /* it went meanwhile: libsoup finishes the message */
        g_object_unref(msg);
        return;
    }
    aq_fault_put(&body, f, anthropic);
    aq_jw_f(&all, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n",
            f->http, soup_status_get_phrase((guint)f->http), body.b.n);
    if (origin) {
        aq_jw_s(&all, "Access-Control-Allow-Origin: ");
        aq_jw_s(&all, origin);
        aq_jw_s(&all, "\r\n");
    }
    aq_jw_s(&all, "Connection: close\r\n\r\n");
    aq_jw_n(&all, body.b.p, body.b.n);
    tell_gone(x);
    xchg_free(x);
    parting *l = g_new0(parting, 1);
    l->api = conn->api;
    l->fd = conn->fd;
    l->stream = soup_server_message_steal_connection(msg);
    g_object_unref(msg);
    if (!l->stream) { /* it is gone already */
        g_free(l);
        return;
    }
    GOutputStream *out = g_io_stream_get_output_stream(l->stream);
    if (all.rc >= 0 && g_pollable_output_stream_write_nonblocking(G_POLLABLE_OUTPUT_STREAM(out),
                                                                  all.b.p, all.b.n, NULL, NULL) < 0)
        aq_log(AQ_LOG_DEBUG, "api", "early answer lost");
    shutdown(l->fd, SHUT_WR);
    l->api->n_linger++;
    l->in = g_unix_fd_source_new(l->fd, G_IO_IN);
    g_source_set_callback(l->in, G_SOURCE_FUNC(linger_in), l, NULL);
    g_source_attach(l->in, l->api->context);
    l->timer = g_timeout_source_new(LINGER_MS);
    g_source_set_callback(l->timer, linger_over, l, NULL);
    g_source_attach(l->timer, l->api->context);
}

static bool too_much(const aq_xchg *x)
{
    return x->api->held_bytes > (uint64_t)x->api->cfg.body_max_bytes * AQ_API_BODIES;
}

static void too_large(const aq_xchg *x, aq_fault *f)
{
    if (x->body_bytes <= x->api->cfg.body_max_bytes) {
        aq_fault_set(f, 503, "unavailable_error", NULL,
                     "too much is being sent to this server at once: try again later");
        return;
    }
    aq_fault_set(f, 413, "invalid_request_error", NULL,
                 "the body is larger than the %u bytes that are allowed",
                 x->api->cfg.body_max_bytes);
}

static gboolean cut_large(gpointer user)
{
    aq_xchg *x = user;
    aq_fault f;
    GSource *s = AQ_STEAL(x->hup);
    const char *path = g_uri_get_path(soup_server_message_get_uri(x->msg));

    too_large(x, &f);
    answer_and_close(x, &f, path && aq_path_anthropic(path));
    g_source_unref(s);
    return G_SOURCE_REMOVE;
}

/* A body is counted as it comes: it may say nothing of its length, and all of them together have to fit. */
static void chunk_cb(SoupServerMessage *msg, GBytes *chunk, gpointer user)
{
    aq_xchg *x = user;

    x->body_bytes += g_bytes_get_size(chunk);
    x->api->held_bytes += g_bytes_get_size(chunk);
    if (x->conn)
        x->conn->body_bytes = x->body_bytes;
    if ((x->body_bytes <= x->api->cfg.body_max_bytes && !too_much(x)) || x->hup)
        return;
    /* not from inside libsoup's reading */
    soup_message_body_set_accumulate(soup_server_message_get_request_body(msg), FALSE);
    soup_server_message_pause(msg);
    x->hup = g_idle_source_new();
    g_source_set_priority(x->hup, G_PRIORITY_DEFAULT);
    g_source_set_callback(x->hup, cut_large, x, NULL);
    g_source_attach(x->hup, x->api->context);
}

/* ---- an exchange ----------------------------------------------------------------------------- */

aq_xchg *aq_xchg_new(aq_api *api, aq_conn *conn, SoupServerMessage *msg)
{
    aq_xchg *x = g_new0(aq_xchg, 1);

    x->api = api;
    x->conn = conn;
    x->msg = g_object_ref(msg);
    x->start_us = x->moved_us = aq_now_us();
    conn->x = x;
    x->sig_finished = g_signal_connect(msg, "finished", G_CALLBACK(finished_cb), x);
    x->sig_wrote = g_signal_connect(msg, "wrote-body-data", G_CALLBACK(wrote_cb), x);
    x->sig_chunk = g_signal_connect(msg, "got-chunk", G_CALLBACK(chunk_cb), x);
    g_object_set_data(G_OBJECT(msg), "aq-x", x);
    aq_conn_state(conn, AQ_CONN_READ);
    return x;
}

static gboolean hup_cb(gint fd, GIOCondition cond, gpointer user)
{
    aq_xchg *x = user;

    (void)fd;
    (void)cond;
    g_source_unref(AQ_STEAL(x->hup));
    tell_gone(x);
    /* libsoup sees it when it writes: let it */
    aq_conn_cut(x->conn);
    if (!x->complete) {
        x->complete = true;
        if (!soup_server_message_get_status(x->msg))
            soup_server_message_set_status(x->msg, 503, NULL);
        soup_message_body_complete(soup_server_message_get_response_body(x->msg));
        x->paused = false;
    }
    soup_server_message_unpause(x->msg); /* the last of it: x may be gone now or soon */
    return G_SOURCE_REMOVE;
}

void aq_xchg_watch(aq_xchg *x)
{
    aq_conn_state(x->conn, AQ_CONN_BUSY);
    soup_server_message_pause(x->msg);
    x->paused = true;
    /* RDHUP alone: what a client sends ahead must not keep this thread awake */
    x->hup = g_unix_fd_source_new(x->conn->fd, (GIOCondition)(POLLRDHUP | POLLHUP | POLLERR));
    g_source_set_callback(x->hup, G_SOURCE_FUNC(hup_cb), x, NULL);
    g_source_attach(x->hup, x->api->context);
}

static void unpause(aq_xchg *x)
{
    x->paused = false;
    soup_server_message_unpause(x->msg);
}

void aq_xchg_reply(aq_xchg *x, int http, const char *type, const void *body, size_t n)
{
    x->gone = x->moved = NULL;
    x->complete = true;
    x->queued += n;
    soup_server_message_set_status(x->msg, (guint)http, NULL);
    soup_server_message_set_response(x->msg, type, SOUP_MEMORY_COPY, body ? body : "", n);
    if (x->paused)
        unpause(x);
}

void aq_xchg_fault(aq_xchg *x, const aq_fault *f, bool anthropic)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    SoupMessageHeaders *h = soup_server_message_get_response_headers(x->msg);

    aq_fault_put(&w, f, anthropic);
    if (f->http == 429 || f->http == 503)
        soup_message_headers_replace(h, "Retry-After", "2");
    if (f->http == 401)
        soup_message_headers_replace(h, "WWW-Authenticate", "Bearer");
    aq_xchg_reply(x, f->http, "application/json", w.b.p, w.b.n);
}

void aq_xchg_refuse(aq_xchg *x, const aq_fault *f, bool anthropic)
{
    SoupMessageHeaders *h = soup_server_message_get_request_headers(x->msg);
    SoupEncoding how = soup_message_headers_get_encoding(h);
    goffset n =
        how == SOUP_ENCODING_CONTENT_LENGTH ? soup_message_headers_get_content_length(h) : 0;

    if (how == SOUP_ENCODING_CHUNKED || n < 0 || n > (goffset)READ_AWAY_BYTES)
        answer_and_close(x, f, anthropic);
    else
        aq_xchg_fault(x, f, anthropic);
}

void aq_xchg_stream(aq_xchg *x)
{
    SoupMessageHeaders *h = soup_server_message_get_response_headers(x->msg);

    x->streaming = true;
    soup_server_message_set_status(x->msg, 200, NULL);
    soup_message_headers_set_content_type(h, "text/event-stream", NULL);
    soup_message_headers_replace(h, "Cache-Control", "no-cache");
    soup_message_headers_replace(h, "X-Accel-Buffering", "no");
    soup_message_headers_set_encoding(
        h, soup_server_message_get_http_version(x->msg) == SOUP_HTTP_1_0 ? SOUP_ENCODING_EOF
                                                                         : SOUP_ENCODING_CHUNKED);
    soup_message_body_set_accumulate(soup_server_message_get_response_body(x->msg), FALSE);
    unpause(x);
}

void aq_xchg_put(aq_xchg *x, aq_bytes *b)
{
    if (!b->n)
        return;
    if (!aq_xchg_unsent(x))
        x->moved_us = aq_now_us();
    x->queued += b->n;
    GBytes *bytes = g_bytes_new_with_free_func(b->p, b->n, free, b->p);
    *b = (aq_bytes){0};
    soup_message_body_append_bytes(soup_server_message_get_response_body(x->msg), bytes);
    g_bytes_unref(bytes);
    unpause(x);
}

void aq_xchg_end(aq_xchg *x)
{
    x->gone = x->moved = NULL;
    x->complete = true;
    soup_message_body_complete(soup_server_message_get_response_body(x->msg));
    unpause(x);
}
