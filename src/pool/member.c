/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a user changes this PC's pool: the lock of its state folder. And the addresses that
 * a person typed in, of PCs that need not be members. No state; any thread.
 *
 * Files of the folder:
 *
 *   lock         locked by the holder (F_OFD_SETLK, which can be asked for without being taken); "pid=N\nname=PROGRAM\nport=N\nsocket=PATH\n" for who finds it taken
 *                (socket: of ctl-serve.c, "" = it takes no calls).
 *                Never removed: two processes would hold locks of two files of one name.
 *   addresses    "aquifer-addresses 1\n" | ADDRESS "\n" … */
#include "dial-priv.h"
#include "member-priv.h"
#include "wire-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define LOCK_FILE "lock"
#define LOCK_MAX 512u
#define KNOWN_FILE "addresses"
#define KNOWN_HEAD "aquifer-addresses 1\n"
#define KNOWN_FILE_MAX (AQ_KNOWN_MAX * (AQ_ADDR_MAX + 1) + 64u)

/* ---- the lock -------------------------------------------------------------------------------- */

static int lock_open(const char *dir, int *ret_fd, aq_err *err)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s/" LOCK_FILE, dir) >= (int)sizeof path)
        return aq_fail(err, AQ_E_LIMIT, "the path %.60s… is too long", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return aq_fail_errno(err, errno, "%s", path);
    *ret_fd = fd;
    return AQ_OK;
}

/* What the holder wrote; it may be about to write it, then it has no name yet. */
static void lock_read_text(int fd, aq_holder *ret)
{
    char text[LOCK_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    uint32_t n_name = 0;
    uint64_t pid = 0, port = 0;
    aq_kv kv;

    if (n <= 0 || aq_kv_parse(text, (size_t)n, &kv, NULL) < 0 ||
        aq_kv_u64(&kv, "pid", true, INT32_MAX, &pid, NULL) < 0 ||
        aq_kv_u64(&kv, "port", true, UINT16_MAX, &port, NULL) < 0)
        return;
    const char *name = aq_kv_get(&kv, "name", &n_name);
    ret->pid = (uint32_t)pid;
    ret->port = (uint16_t)port;
    if (aq_kv_text(&kv, "socket", false, ret->socket, sizeof ret->socket, NULL) < 0)
        ret->socket[0] = 0;
    if (name)
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)n_name, name);
}

int aq_lock_busy(const aq_holder *who, aq_err *err)
{
    return aq_fail(err, AQ_E_BUSY,
                   "another program of yours has this PC's pool: %s, process %u (end it first)",
                   who->name[0] ? who->name : "one that just started", who->pid);
}

int aq_lock_take(const char *dir, int *ret_fd, aq_err *err)
{
    AQ_AUTOFD int fd = -1;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    aq_holder who = {0};
    int rc = lock_open(dir, &fd, err);

    if (rc < 0)
        return rc;
    if (fcntl(fd, F_OFD_SETLK, &all) < 0) {
        if (errno != EAGAIN && errno != EACCES)
            return aq_fail_errno(err, errno, "the lock of %s", dir);
        lock_read_text(fd, &who);
        return aq_lock_busy(&who, err);
    }
    if ((rc = aq_lock_say(fd, 0, "", err)) < 0)
        return rc;
    *ret_fd = fd;
    fd = -1;
    return AQ_OK;
}

int aq_lock_say(int fd, uint16_t port, const char *socket, aq_err *err)
{
    char text[LOCK_MAX];
    int n = snprintf(text, sizeof text, "pid=%ld\nname=%.60s\nport=%u\nsocket=%.107s\n",
                     (long)getpid(), program_invocation_short_name, port, socket);

    /* Truncated first: a reader sees nothing or all, or a text that the parser refuses. */
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return aq_fail_errno(err, errno, "the lock of the pool's state cannot be written");
    return AQ_OK;
}

int aq_lock_read(const char *dir, aq_holder *ret, aq_err *err)
{
    AQ_AUTOFD int fd = -1;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    aq_holder who = {0};
    int rc = lock_open(dir, &fd, err);

    if (rc < 0)
        return rc;
    if (fcntl(fd, F_OFD_GETLK, &all) < 0)
        return aq_fail_errno(err, errno, "the lock of %s", dir);
    if (all.l_type == F_UNLCK) {
        *ret = (aq_holder){0};
        return 0;
    }
    lock_read_text(fd, &who);
    *ret = who;
    return 1;
}

int aq_trust_holder(const aq_trust *t, aq_holder *ret, aq_err *err)
{
    return aq_lock_read(aq_trust_dir(t), ret, err);
}

/* ---- addresses typed in ---------------------------------------------------------------------- */

int aq_known_load(const aq_trust *t, aq_known *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    AQ_AUTOFREE aq_known *k = calloc(1, sizeof *k);
    struct sockaddr_storage a;
    size_t head = strlen(KNOWN_HEAD);

    if (!k)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the addresses");
    int rc = aq_file_read(aq_trust_dir(t), KNOWN_FILE, KNOWN_FILE_MAX, false, &b, err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        if (b.n < head || memcmp(b.p, KNOWN_HEAD, head) != 0)
            goto damaged;
        for (size_t at = head; at < b.n;) {
            const uint8_t *end = memchr(b.p + at, '\n', b.n - at);
            size_t n = end ? (size_t)(end - b.p) - at : 0;
            if (n == 0 || n > AQ_ADDR_MAX || k->n == AQ_KNOWN_MAX)
                goto damaged;
            memcpy(k->addr[k->n], b.p + at, n);
            if (strlen(k->addr[k->n]) != n || aq_addr_parse(k->addr[k->n], 1, &a, NULL) < 0)
                goto damaged;
            k->n++;
            at += n + 1;
        }
    }
    *ret = *k;
    return AQ_OK;
damaged:
    return aq_fail(err, AQ_E_FORMAT,
                   "%s/" KNOWN_FILE " is damaged, or of a later version: remove it and add the "
                   "addresses again",
                   aq_trust_dir(t));
}

static int known_save(const aq_trust *t, const aq_known *k, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, KNOWN_HEAD);

    for (uint32_t i = 0; i < k->n && rc >= 0; i++)
        rc = aq_bytes_putf(&b, "%s\n", k->addr[i]);
    return rc < 0 ? aq_fail(err, AQ_E_NOMEM, "no memory for the addresses")
                  : aq_file_write(aq_trust_dir(t), KNOWN_FILE, b.p, b.n, err);
}

/* The one way to write it, checked: of this network, with its port. */
static int canonical(const char *addr, char ret[AQ_ADDR_MAX + 1], aq_err *err)
{
    aq_prefix6 prefix[AQ_PREFIX6_MAX];
    struct sockaddr_storage a;
    int rc = aq_addr_parse(addr, AQ_POOL_PORT, &a, err);

    if (rc < 0 || (rc = aq_addr_check((struct sockaddr *)&a, prefix,
                                      aq_addr_on_link(prefix, AQ_PREFIX6_MAX), err)) < 0)
        return rc;
    aq_addr_text((struct sockaddr *)&a, true, ret);
    return AQ_OK;
}

static uint32_t known_find(const aq_known *k, const char *addr)
{
    uint32_t i = 0;

    while (i < k->n && strcmp(k->addr[i], addr))
        i++;
    return i;
}

int aq_known_add(aq_trust *t, const char *addr, char ret[AQ_ADDR_MAX + 1], aq_err *err)
{
    AQ_AUTOFREE aq_known *k = malloc(sizeof *k);
    char text[AQ_ADDR_MAX + 1];
    int rc;

    if (!k)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the addresses");
    if ((rc = canonical(addr, text, err)) < 0 || (rc = aq_known_load(t, k, err)) < 0)
        return rc;
    if (known_find(k, text) == k->n) {
        if (k->n == AQ_KNOWN_MAX)
            return aq_fail(err, AQ_E_LIMIT, "%u addresses are remembered: remove one first", k->n);
        memcpy(k->addr[k->n++], text, sizeof text);
        if ((rc = known_save(t, k, err)) < 0)
            return rc;
    }
    memcpy(ret, text, sizeof text);
    return AQ_OK;
}

int aq_known_drop(aq_trust *t, const char *addr, aq_err *err)
{
    AQ_AUTOFREE aq_known *k = malloc(sizeof *k);
    char text[AQ_ADDR_MAX + 1];
    int rc;

    if (!k)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the addresses");
    if ((rc = aq_known_load(t, k, err)) < 0)
        return rc;
    if (canonical(addr, text, NULL) < 0)
        return 0;
    uint32_t i = known_find(k, text);
    if (i == k->n)
        return 0;
    memmove(k->addr[i], k->addr[i + 1], (k->n - i - 1) * sizeof k->addr[0]);
    k->n--;
    return (rc = known_save(t, k, err)) < 0 ? rc : 1;
}

/* ---- is it there? ---------------------------------------------------------------------------- */

aq_reach aq_reach_try(const char *const *addr, uint32_t n, int64_t timeout_us)
{
    struct sockaddr_storage a[AQ_ADDRS_MAX];
    aq_reach reach[AQ_ADDRS_MAX] = {AQ_REACH_UNTRIED}, best = AQ_REACH_UNTRIED;
    uint32_t n_a = 0, which;
    AQ_AUTOFD int fd = -1;

    for (uint32_t i = 0; i < n && n_a < AQ_ADDRS_MAX; i++)
        if (aq_addr_parse(addr[i], AQ_POOL_PORT, &a[n_a], NULL) == 0)
            n_a++;
    if (!n_a)
        return best;
    aq_dial_to to = {.addr = a, .n = n_a, .deadline_us = aq_now_us() + timeout_us, .wake_fd = -1};
    if (aq_dial_any(&to, &fd, &which, reach, NULL) >= 0)
        return AQ_REACH_ANSWERS;
    for (uint32_t i = 0; i < n_a; i++)
        best = AQ_MAX(best, reach[i]);
    return best;
}
