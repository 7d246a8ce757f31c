/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, the accept loop, and connections with their time limits.
 *
 * libsoup's own listener stops for good at the first accept() that fails, and accepts one connection a turn; so the loop is ours
 * and hands connections over. It keeps them alive only when some listener is there: one that nobody can reach is given to it.
 *
 * open: any thread, before the server's one runs. All else: the server's thread. */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api-priv.h"

#define BACKLOG 1024
#define SEND_BYTES \
    (512 << 10)       /* that the system keeps for a client; it would take 4 MiB and more */
#define AGAIN_MS 100u /* after an accept that failed for want of descriptors or memory */

/* ---- opening --------------------------------------------------------------------------------- */

static int listen_on(const struct sockaddr *a, socklen_t n, int *ret, aq_err *err)
{
    AQ_AUTOFD int fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd < 0)
        return aq_fail_errno(err, errno, "no socket for the API");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a, n) < 0 || listen(fd, BACKLOG) < 0)
        return aq_fail_errno(err, errno, "the API cannot listen");
    *ret = fd;
    fd = -1; /* kept */
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in a = {0};
    socklen_t n = sizeof a;

    return getsockname(fd, (struct sockaddr *)&a, &n) < 0 ? 0 : ntohs(a.sin_port);
}

int aq_listen_open(aq_api *api, const aq_api_cfg *cfg, aq_err *err)
{
    for (int turn = 0;; turn++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(cfg->port)};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        aq_err no = {0};
        v4.sin_addr.s_addr = htonl(cfg->lan ? INADDR_ANY : INADDR_LOOPBACK);
        v6.sin6_addr = cfg->lan ? in6addr_any : in6addr_loopback;
        int rc = listen_on((struct sockaddr *)&v4, sizeof v4, &api->listen_fd[0], err);
        if (rc < 0 && errno == EADDRINUSE)
            return aq_fail(err, AQ_E_IO, "port %u is taken by another program: choose another one",
                           cfg->port);
        if (rc < 0)
            return rc;
        api->n_listen = 1;
        api->port = port_of(api->listen_fd[0]);
        v6.sin6_port = htons(api->port);
        if (listen_on((struct sockaddr *)&v6, sizeof v6, &api->listen_fd[1], &no) >= 0)
            api->n_listen = 2;
        else if (errno == EADDRINUSE && !cfg->port && turn < 16) {
            aq_fd_close_p(&api->listen_fd[0]); /* the number is free for one of the two only */
            continue;
        } else if (errno == EADDRINUSE) {
            return aq_fail(err, AQ_E_IO, "port %u is taken by another program: choose another one",
                           cfg->port);
        } /* else a PC without IPv6 */
        return 0;
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void conn_gone(gpointer user, GObject *stream)
{
    aq_conn *c = user;

    (void)stream;
    if (c->prev)
        c->prev->next = c->next;
    else
        c->api->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->api->n_conn--;
    if (c->x)
        c->x->conn = NULL;
    g_object_unref(c->socket);
    g_free(c);
}

aq_conn *aq_conn_of(SoupServerMessage *msg)
{
    GSocketAddress *a = soup_server_message_get_remote_address(msg);

    return a ? g_object_get_data(G_OBJECT(a), "aq-conn") : NULL;
}

void aq_conn_state(aq_conn *c, int state)
{
    c->used = c->used || c->state != AQ_CONN_IDLE; /* it came from a request */
    c->state = state;
    c->since_us = aq_now_us();
    c->body_bytes = 0;
}

void aq_conn_cut(aq_conn *c)
{
    if (c)
        shutdown(c->fd, SHUT_RDWR);
}

static void address_text(GSocketAddress *a, char *ret, size_t cap)
{
    ret[0] = 0;
    if (G_IS_INET_SOCKET_ADDRESS(a)) {
        char *text =
            g_inet_address_to_string(g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(a)));
        snprintf(ret, cap, "%s", text);
        g_free(text);
    }
}

/* The connection as libsoup is to see it. From other PCs it is TLS, which shakes hands as libsoup reads; on loopback nobody listens. */
static GIOStream *wrap(aq_api *api, GSocketConnection *stream, GSocketAddress *local)
{
    static const char *const protocols[] = {"http/1.1", NULL};
    GInetAddress *a = G_IS_INET_SOCKET_ADDRESS(local)
                          ? g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(local))
                          : NULL;

    if (!api->cert || !a || g_inet_address_get_is_loopback(a))
        return g_object_ref(G_IO_STREAM(stream));
    GIOStream *tls = g_tls_server_connection_new(G_IO_STREAM(stream), api->cert, NULL);
    if (tls)
        g_tls_connection_set_advertised_protocols(G_TLS_CONNECTION(tls), protocols);
    return tls;
}

static void take(aq_api *api, int fd)
{
    int on = 1, unsent_bytes = SEND_BYTES;
    GSocket *socket = g_socket_new_from_fd(fd, NULL);

    if (!socket) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unsent_bytes, sizeof unsent_bytes);
    GSocketAddress *local = g_socket_get_local_address(socket, NULL);
    GSocketAddress *remote = g_socket_get_remote_address(socket, NULL);
    GSocketConnection *stream = g_socket_connection_factory_create_connection(socket);
    GIOStream *io = local && remote ? wrap(api, stream, local) : NULL;
    if (io) {
        aq_conn *c = g_new0(aq_conn, 1);
        c->api = api;
        c->socket = g_object_ref(socket);
        c->fd = fd;
        aq_conn_state(c, AQ_CONN_IDLE);
        address_text(remote, c->peer, sizeof c->peer);
        address_text(local, c->local, sizeof c->local);
        c->next = api->conns;
        if (c->next)
            c->next->prev = c;
        api->conns = c;
        api->n_conn++;
        g_object_weak_ref(G_OBJECT(stream), conn_gone, c);
        /* libsoup's messages know no socket, but this very object */
        g_object_set_data(G_OBJECT(remote), "aq-conn", c);
        soup_server_accept_iostream(api->soup, io, local, remote, NULL);
        g_object_unref(io);
    }
    g_clear_object(&local);
    g_clear_object(&remote);
    g_object_unref(stream);
    g_object_unref(socket);
}

/* Room for one more: the connection that has been idle longest goes. */
static bool make_room(aq_api *api)
{
    aq_conn *old = NULL;

    if (api->n_conn < api->cfg.n_conn)
        return true;
    for (aq_conn *c = api->conns; c; c = c->next)
        if (c->state == AQ_CONN_IDLE && (!old || c->since_us < old->since_us))
            old = c;
    if (!old)
        return false;
    aq_conn_cut(old);
    old->since_us = INT64_MAX; /* once */
    return true;
}

static gboolean accept_cb(gint fd, GIOCondition cond, gpointer user);

static void watch(aq_api *api)
{
    for (uint32_t i = 0; i < api->n_listen; i++) {
        api->listen_src[i] = g_unix_fd_source_new(api->listen_fd[i], G_IO_IN);
        g_source_set_callback(api->listen_src[i], G_SOURCE_FUNC(accept_cb), api, NULL);
        g_source_attach(api->listen_src[i], api->context);
    }
}

static void unwatch(aq_api *api)
{
    for (uint32_t i = 0; i < api->n_listen; i++)
        if (api->listen_src[i]) {
            g_source_destroy(api->listen_src[i]);
            g_clear_pointer(&api->listen_src[i], g_source_unref);
        }
}

static gboolean again_cb(gpointer user)
{
    aq_api *api = user;

    g_clear_pointer(&api->listen_again, g_source_unref);
    watch(api);
    return G_SOURCE_REMOVE;
}

static gboolean accept_cb(gint fd, GIOCondition cond, gpointer user)
{
    aq_api *api = user;

    (void)cond;
    for (int i = 0; i < BACKLOG; i++) {
        int one = aq_failpoint("api-accept")
                      ? (errno = EMFILE, -1)
                      : accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (one >= 0) {
            if (make_room(api))
                take(api, one);
            else
                close(one);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            aq_log(AQ_LOG_WARN, "api", "accept failed errno=%d", errno);
            unwatch(api);
            api->listen_again = g_timeout_source_new(AGAIN_MS);
            g_source_set_callback(api->listen_again, again_cb, api, NULL);
            g_source_attach(api->listen_again, api->context);
            return G_SOURCE_REMOVE;
        }
        break;
    }
    return G_SOURCE_CONTINUE;
}

/* A listener that nobody can reach: its name is gone before anybody could see it. */
static void give_listener(aq_api *api)
{
    char *dir = g_dir_make_tmp("aquifer-XXXXXX", NULL);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = dir ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    bool good = fd >= 0 &&
                snprintf(a.sun_path, sizeof a.sun_path, "%s/s", dir) < (int)sizeof a.sun_path &&
                bind(fd, (struct sockaddr *)&a, sizeof a) == 0;

    if (good) {
        unlink(a.sun_path);
        good = listen(fd, 1) == 0;
    }
    if (dir)
        g_rmdir(dir);
    g_free(dir);
    GSocket *socket = good ? g_socket_new_from_fd(fd, NULL) : NULL;
    if (!socket || !soup_server_listen_socket(api->soup, socket, 0, NULL))
        aq_log(AQ_LOG_WARN, "api", "connections are closed after each answer errno=%d", errno);
    if (socket)
        g_object_unref(socket);
    else if (fd >= 0)
        close(fd);
}

void aq_listen_start(aq_api *api)
{
    give_listener(api);
    watch(api);
}

void aq_listen_stop(aq_api *api)
{
    unwatch(api);
    if (api->listen_again) {
        g_source_destroy(api->listen_again);
        g_clear_pointer(&api->listen_again, g_source_unref);
    }
    for (uint32_t i = 0; i < api->n_listen; i++)
        aq_fd_close_p(&api->listen_fd[i]);
    api->n_listen = 0;
}

static bool late(const aq_conn *c, int64_t now)
{
    int64_t read_us = api_us(c->api->cfg.read_ms);

    switch (c->state) {
    case AQ_CONN_IDLE:
        return now - c->since_us > (c->used ? api_us(c->api->cfg.idle_ms) : read_us);
    case AQ_CONN_READ: /* a large body may take longer: a second for each 256 KiB */
        return now - c->since_us > read_us + (int64_t)(c->body_bytes >> 18) * 1000000;
    case AQ_CONN_BUSY:
    default:
        return c->x && aq_xchg_unsent(c->x) && now - c->x->moved_us > api_us(c->api->cfg.stall_ms);
    }
}

void aq_conn_tick(aq_api *api)
{
    int64_t now = aq_now_us();

    for (aq_conn *c = api->conns; c; c = c->next)
        if (c->since_us != INT64_MAX && late(c, now)) {
            aq_conn_cut(c); /* libsoup, or the watch for a hang-up, sees an end and lets go */
            c->since_us = INT64_MAX;
        }
}
