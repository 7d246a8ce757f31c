/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends of the control socket share: requests checked, lines, and whose process the other end is. No state; any
 * thread.
 *
 *   client   {"do":"permit","id":HEX64,"permissions":3}\n
 *   server   {"event":…}\n … then {"done":{…}}\n or {"error":{"code":N,"text":"…"}}\n, and the end of the stream
 *
 * The other end is a program of the same user, but perhaps of another version, or one that is wrong: each value is checked. */
#include "ctl-priv.h"
#include "wire-priv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const names[AQ_CTL_N] = {
    [AQ_CTL_STATE] = "state",   [AQ_CTL_NAME] = "name",     [AQ_CTL_ADD] = "add",
    [AQ_CTL_FORGET] = "forget", [AQ_CTL_REMOVE] = "remove", [AQ_CTL_PERMIT] = "permit",
    [AQ_CTL_LEAVE] = "leave",   [AQ_CTL_PAIR] = "pair",     [AQ_CTL_ANSWER] = "answer",
    [AQ_CTL_CHAT] = "chat",     [AQ_CTL_STOP] = "stop",
};

/* ---- requests -------------------------------------------------------------------------------- */

int aq_ctl_hex(const aq_json *j, const char *key, uint8_t ret[32], aq_err *err)
{
    const char *s = aq_json_str(j, key);
    uint8_t b[32];

    if (!s || strlen(s) != 64)
        return aq_fail(err, AQ_E_INVAL, "'%s' is 64 hexadecimal digits", key);
    for (uint32_t i = 0; i < 64; i++) {
        char c = s[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0)
            return aq_fail(err, AQ_E_INVAL, "'%s' is 64 hexadecimal digits", key);
        b[i / 2] = (uint8_t)(i % 2 ? b[i / 2] | d : d << 4);
    }
    memcpy(ret, b, sizeof b);
    return 0;
}

/* A text without NUL, of at most max bytes. */
static int get_text(const aq_json *j, const char *key, uint32_t max, const char **ret, aq_err *err)
{
    const aq_json *v = aq_json_get(j, key);

    if (!v || v->kind != AQ_JSON_STR || v->n > max || strlen(v->str) != v->n)
        return aq_fail(err, AQ_E_INVAL, "'%s' is a text of at most %u bytes", key, max);
    *ret = v->str;
    return 0;
}

static int get_int(const aq_json *j, const char *key, int64_t dflt, int64_t max, int64_t *ret,
                   aq_err *err)
{
    const aq_json *v = aq_json_get(j, key);
    int64_t x = v ? aq_json_int(j, key, -1) : dflt;

    if (x < 0 || x > max)
        return aq_fail(err, AQ_E_INVAL, "'%s' is a whole number from 0 to %lld", key,
                       (long long)max);
    *ret = x;
    return 0;
}

static int get_addrs(const aq_json *j, aq_ctl_req *r, aq_err *err)
{
    const aq_json *a = aq_json_get(j, "addresses");

    if (aq_json_bool(j, "wait", false) && !a)
        return 0;
    if (!a || a->kind != AQ_JSON_ARR || !a->n || a->n > AQ_ADDRS_MAX)
        return aq_fail(err, AQ_E_INVAL, "'addresses' are 1 to %u, or 'wait' is true", AQ_ADDRS_MAX);
    for (const aq_json *i = a->item; i; i = i->next) {
        if (i->kind != AQ_JSON_STR || i->n > AQ_ADDR_MAX || strlen(i->str) != i->n)
            return aq_fail(err, AQ_E_INVAL, "an address is a text of at most %u bytes",
                           AQ_ADDR_MAX);
        r->addr[r->n_addr++] = i->str;
    }
    return 0;
}

static int get_chat(const aq_json *j, aq_ctl_req *r, aq_err *err)
{
    int64_t max = 0, seed = 0;
    double temp = aq_json_num(j, "temp", 0);
    int rc = aq_ctl_hex(j, "model", r->model, err);

    r->messages = aq_json_get(j, "messages");
    if (rc >= 0 && (!r->messages || r->messages->kind != AQ_JSON_ARR))
        rc = aq_fail(err, AQ_E_INVAL, "'messages' is an array");
    if (rc >= 0 && !(temp >= 0 && temp <= 1000))
        rc = aq_fail(err, AQ_E_INVAL, "'temp' is a number from 0");
    rc = rc < 0 ? rc : get_int(j, "max", 0, UINT32_MAX, &max, err);
    rc = rc < 0 ? rc : get_int(j, "seed", 0, INT64_MAX, &seed, err);
    r->temp = (float)temp;
    r->max_tok = (uint32_t)max;
    r->seed = (uint64_t)seed;
    return rc;
}

int aq_ctl_parse(aq_arena *arena, const char *line, size_t n, aq_ctl_req *ret, aq_err *err)
{
    aq_ctl_req r = {.what = AQ_CTL_N};
    const aq_json *j, *match;
    int64_t perms = 0;
    int rc = aq_json_parse(arena, line, n, &j, err);

    if (rc < 0)
        return rc;
    const char *name = aq_json_str(j, "do");
    for (uint32_t i = 0; name && i < AQ_CTL_N; i++)
        if (!strcmp(name, names[i]))
            r.what = (aq_ctl_do)i;
    switch (r.what) {
    case AQ_CTL_STATE:
    case AQ_CTL_LEAVE:
    case AQ_CTL_STOP:
        break;
    case AQ_CTL_NAME:
        rc = get_text(j, "name", 4 * AQ_NAME_MAX, &r.text, err);
        break;
    case AQ_CTL_ADD:
    case AQ_CTL_FORGET:
        rc = get_text(j, "address", AQ_ADDR_MAX, &r.text, err);
        break;
    case AQ_CTL_PERMIT:
        rc = get_int(j, "permissions", -1, AQ_PERM_ALL, &perms, err);
        r.perms = (uint32_t)perms;
        if (rc < 0)
            break;
        /* fall through */
    case AQ_CTL_REMOVE:
        rc = aq_ctl_hex(j, "id", r.id.b, err);
        break;
    case AQ_CTL_PAIR:
        rc = get_addrs(j, &r, err);
        break;
    case AQ_CTL_ANSWER:
        match = aq_json_get(j, "match");
        if (!match || (match->kind != AQ_JSON_TRUE && match->kind != AQ_JSON_FALSE))
            rc = aq_fail(err, AQ_E_INVAL, "'match' is true or false");
        r.match = match && match->kind == AQ_JSON_TRUE;
        break;
    case AQ_CTL_CHAT:
        rc = get_chat(j, &r, err);
        break;
    case AQ_CTL_N:
        rc = aq_fail(err, AQ_E_UNSUPPORTED,
                     "the running program does not know this request: end it and start it again "
                     "when it is older than this one");
        break;
    }
    if (rc >= 0)
        *ret = r;
    return rc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

int aq_ctl_line(aq_ctl_in *in, const char **ret, size_t *ret_n, aq_err *err)
{
    if (in->n_taken) {
        in->b.n -= in->n_taken;
        memmove(in->b.p, in->b.p + in->n_taken, in->b.n);
        in->n_taken = 0;
    }
    const uint8_t *end = in->b.n ? memchr(in->b.p, '\n', in->b.n) : NULL;
    size_t n = end ? (size_t)(end - in->b.p) : in->b.n;
    if (n > AQ_CALL_LINE_MAX)
        return aq_fail(err, AQ_E_LIMIT, "a line of more than %u bytes", AQ_CALL_LINE_MAX);
    if (!end)
        return 0;
    *ret = (const char *)in->b.p;
    *ret_n = n;
    in->n_taken = n + 1;
    return 1;
}

int aq_ctl_recv(aq_ctl_in *in, int fd, aq_err *err)
{
    size_t room = 16384;

    if (aq_bytes_reserve(&in->b, room) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a line");
    ssize_t n = recv(fd, in->b.p + in->b.n, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n <= 0)
        return aq_fail(err, AQ_E_GONE, "the other program hung up");
    in->b.n += (size_t)n;
    return 1;
}

int aq_ctl_same_user(int fd, aq_err *err)
{
    struct ucred who;
    socklen_t n = sizeof who;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
        return aq_fail_errno(err, errno, "whose program this is cannot be told");
    return who.uid == geteuid()
               ? 0
               : aq_fail(err, AQ_E_AUTH, "process %ld belongs to user %ld, not to user %ld",
                         (long)who.pid, (long)who.uid, (long)geteuid());
}

int aq_ctl_put_text(aq_bytes *b, const char *key, const char *text)
{
    int rc = aq_bytes_putf(b, ",\"%s\":", key);

    return rc < 0 ? rc : aq_json_quote(b, text, strlen(text));
}

int aq_ctl_put_error(aq_bytes *b, const aq_err *why)
{
    int rc = aq_bytes_putf(b, "{\"error\":{\"code\":%d", why->code);

    rc = rc < 0 ? rc : aq_ctl_put_text(b, "text", why->text);
    return rc < 0 ? rc : aq_bytes_puts(b, "}}\n");
}
