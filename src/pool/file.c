/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that must not be lost or half written, random bytes, and buffers that are wiped. Any
 * thread; writers of one file are kept apart by their caller. */
#include "trust-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

void aq_bytes_wipe(aq_bytes *b)
{
    if (b->p)
        aq_mem_wipe(b->p, b->cap);
    aq_bytes_clear(b);
}

int aq_random(void *ret, size_t n, aq_err *err)
{
    uint8_t *p = ret;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return aq_fail_errno(err, errno, "no random numbers");
        p += got;
        n -= (size_t)got;
    }
    return AQ_OK;
}

static int open_dir(const char *dir, int *ret, aq_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return aq_fail_errno(err, errno, "%s", dir);
    *ret = fd;
    return AQ_OK;
}

int aq_file_read(const char *dir, const char *name, size_t max, bool secret, aq_bytes *ret,
                 aq_err *err)
{
    AQ_AUTOFD int d = -1;
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0};
    struct stat st;
    int rc = open_dir(dir, &d, err);

    if (rc < 0)
        return rc;
    AQ_AUTOFD int fd = openat(d, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return aq_fail_errno(err, errno, "%s/%s", dir, name);
    if (secret && (st.st_mode & 077))
        return aq_fail(err, AQ_E_AUTH,
                       "%s/%s can be read by other users: make it private with chmod 600, or "
                       "remove it and pair again",
                       dir, name);
    if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > max)
        return aq_fail(err, AQ_E_LIMIT, "%s/%s is longer than %zu bytes, or no file", dir, name,
                       max);
    if ((rc = aq_bytes_reserve(&b, (size_t)st.st_size + 1)) < 0)
        return aq_fail(err, -rc, "no memory for %s/%s", dir, name);
    while (b.n < (size_t)st.st_size) {
        ssize_t n = read(fd, b.p + b.n, (size_t)st.st_size - b.n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return aq_fail_errno(err, errno, "%s/%s", dir, name);
        if (n == 0)
            break;
        b.n += (size_t)n;
    }
    *ret = b;
    b = (aq_bytes){0};
    return 1;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int aq_file_write(const char *dir, const char *name, const void *p, size_t n, aq_err *err)
{
    AQ_AUTOFD int d = -1;
    char tmp[NAME_MAX + 1];
    int rc = open_dir(dir, &d, err);

    if (rc < 0)
        return rc;
    int len = snprintf(tmp, sizeof tmp, "%s.new", name);
    if (len < 0 || (size_t)len >= sizeof tmp)
        return aq_fail(err, AQ_E_INVAL, "the file name %s is too long", name);
    if (unlinkat(d, tmp, 0) < 0 && errno != ENOENT)
        return aq_fail_errno(err, errno, "%s/%s", dir, tmp);
    AQ_AUTOFD int fd = openat(d, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return aq_fail_errno(err, errno, "%s/%s", dir, tmp);
    if (aq_failpoint("pool-file-write")) {
        unlinkat(d, tmp, 0);
        return aq_fail_errno(err, ENOSPC, "%s/%s", dir, name);
    }
    if (write_all(fd, p, n) < 0 || fsync(fd) < 0 || renameat(d, tmp, d, name) < 0) {
        rc = aq_fail_errno(err, errno, "%s/%s", dir, name);
        unlinkat(d, tmp, 0);
        return rc;
    }
    fsync(d); /* the rename; some file systems cannot, and then it is as good as it gets */
    return AQ_OK;
}

int aq_file_remove(const char *dir, const char *name, aq_err *err)
{
    AQ_AUTOFD int d = -1;
    int rc = open_dir(dir, &d, err);

    if (rc < 0)
        return rc;
    if (unlinkat(d, name, 0) < 0 && errno != ENOENT)
        return aq_fail_errno(err, errno, "%s/%s", dir, name);
    fsync(d);
    return AQ_OK;
}
