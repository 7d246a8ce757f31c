/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the control socket: one question to the process that has this PC's pool. One thread. */
#include "ctl-priv.h"
#include "member-priv.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ARENA_MAX (16u << 20) /* a parsed line */
#define STARTS_MS 200         /* for a process that has just taken the lock to say who it is */

struct aq_call {
    aq_holder who;
    int fd;
    aq_ctl_in in;
    aq_arena *arena; /* of the last line */
};

void aq_call_free(aq_call *c)
{
    if (!c)
        return;
    aq_fd_close_p(&c->fd);
    aq_bytes_clear(&c->in.b);
    aq_arena_free(c->arena);
    free(c);
}

const aq_holder *aq_call_holder(const aq_call *c)
{
    return &c->who;
}

static int dial(aq_call *c, aq_err *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (!c->who.socket[0])
        return aq_lock_busy(&c->who, err);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", c->who.socket);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return aq_fail_errno(err, errno, "no socket");
    /* It is there and cannot be talked to: it ends just now, or is another user's, or in a container. */
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0)
        return aq_lock_busy(&c->who, err);
    return aq_ctl_same_user(c->fd, err);
}

/* Whether the other end is this process. Its number alone says nothing: programs in sandboxes of their own may have the same one. The kernel
 * gives the peer's number as it is seen here, 0 = not seen. */
static bool is_self(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid == getpid();
}

int aq_call_open(const aq_trust *t, aq_call **ret, aq_err *err)
{
    AQ_AUTO(aq_call_free) aq_call *c = calloc(1, sizeof *c);
    int rc, n_try = 0;

    if (!c)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a question");
    c->fd = -1;
    while ((rc = aq_trust_holder(t, &c->who, err)) == 1 && !c->who.pid && n_try++ < STARTS_MS)
        (void)!poll(NULL, 0, 1);
    if (rc != 1)
        return rc < 0 ? rc : 0;
    bool may_be_self = c->who.pid == (uint32_t)getpid(); /* which is nobody to ask */
    if ((rc = dial(c, may_be_self ? NULL : err)) < 0)
        return may_be_self ? 0 : rc;
    if (may_be_self && is_self(c->fd))
        return 0;
    *ret = AQ_STEAL(c);
    return 1;
}

int aq_call_say(aq_call *c, const char *line, size_t n, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    if (n > AQ_CALL_LINE_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%zu bytes are too long for a question, at most %u", n,
                       AQ_CALL_LINE_MAX);
    if (aq_bytes_put(&b, line, n) < 0 || aq_bytes_puts(&b, "\n") < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a question");
    for (size_t sent = 0; sent < b.n;) {
        ssize_t k = send(c->fd, b.p + sent, b.n - sent, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) /* its reason may be there to be heard */
            break;
        sent += (size_t)k;
    }
    return 0;
}

static int gone(const aq_call *c, aq_err *err)
{
    return aq_fail(err, AQ_E_GONE, "%s, process %u, ended or hung up", c->who.name, c->who.pid);
}

/* A line that is here: 1, 0 = none. */
static int take(aq_call *c, const aq_json **ret, aq_err *err)
{
    const char *line;
    size_t n;
    int rc = aq_ctl_line(&c->in, &line, &n, err);

    if (rc != 1)
        return rc;
    aq_arena_free(c->arena);
    if (!(c->arena = aq_arena_new(ARENA_MAX)))
        return aq_fail(err, AQ_E_NOMEM, "no memory for an answer");
    if ((rc = aq_json_parse(c->arena, line, n, ret, err)) < 0)
        return aq_err_prefix(err, rc, "%s, process %u, says something that is not understood",
                             c->who.name, c->who.pid);
    const aq_json *e = aq_json_get(*ret, "error");
    if (!e)
        return 1;
    const char *text = aq_json_str(e, "text");
    int64_t code = aq_json_int(e, "code", AQ_E_PROTO);
    return aq_fail(err, code > 0 && code < 100 ? (int)code : AQ_E_PROTO, "%s",
                   text ? text : "refused");
}

int aq_call_hear(aq_call *c, int other_fd, const aq_json **ret, aq_err *err)
{
    struct pollfd p[] = {{.fd = c->fd, .events = POLLIN}, {.fd = other_fd, .events = POLLIN}};
    int rc;

    while ((rc = take(c, ret, err)) == 0) {
        p[0].revents = p[1].revents = 0;
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return aq_fail_errno(err, errno, "waiting failed");
        if (p[0].revents && aq_ctl_recv(&c->in, c->fd, err) < 0)
            return gone(c, err);
        if (p[1].revents)
            return 0;
    }
    return rc;
}

int aq_trust_fingerprint(const aq_trust *t, const aq_model *m, const aq_wsrc *src, uint8_t ret[32],
                         aq_err *err)
{
    return aq_prints_get(aq_trust_dir(t), m, src, ret, err);
}
