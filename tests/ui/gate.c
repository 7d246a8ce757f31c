/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that misbehaves, preloaded into the app. So a test sees a load half-way for as long as it likes, or a disk fill up and get room again.
 *
 *   AQ_TEST_GATE   while the file of that name exists, reads of a *.gguf file behind its first 4 MiB wait
 *   AQ_TEST_FULL   while the file of that name exists, writes to a *.sqlite file and to what lies beside it find the disk full */
/* With 64-bit offsets pread would be another name of pread64, and both are needed. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FREE_BYTES (4 << 20)

ssize_t pread(int fd, void *buf, size_t n, off_t off);
ssize_t pread64(int fd, void *buf, size_t n, off64_t off);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t off);
ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off);
ssize_t write(int fd, const void *buf, size_t n);

static int name_of(int fd, char ret[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, ret, 4095);
    ret[len > 0 ? len : 0] = 0;
    return len > 5;
}

static int is_model(int fd)
{
    char name[4096];
    return name_of(fd, name) && strcmp(name + strlen(name) - 5, ".gguf") == 0;
}

static int is_full(int fd)
{
    const char *full = getenv("AQ_TEST_FULL");
    char name[4096];
    return full && access(full, F_OK) == 0 && name_of(fd, name) && strstr(name, ".sqlite");
}

ssize_t pread64(int fd, void *buf, size_t n, off64_t off)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pread64");
    const char *gate = getenv("AQ_TEST_GATE");
    if (gate && off >= FREE_BYTES && is_model(fd))
        while (access(gate, F_OK) == 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return real(fd, buf, n, off);
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
    return pread64(fd, buf, n, off);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    if (is_full(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, buf, n, off);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
    return pwrite64(fd, buf, n, off);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    if (is_full(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, buf, n);
}
