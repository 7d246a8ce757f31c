/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that stops: preloaded into the app, it holds every read of a *.gguf file behind its first 4 MiB as long as the file named by
 * AQ_TEST_GATE exists. So a test sees a load half-way for as long as it likes. */
/* With 64-bit offsets pread would be another name of pread64, and both are needed. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define FREE_BYTES (4 << 20)

ssize_t pread(int fd, void *buf, size_t n, off_t off);
ssize_t pread64(int fd, void *buf, size_t n, off64_t off);

static int is_model(int fd)
{
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, name, sizeof name);
    return len > 5 && memcmp(name + len - 5, ".gguf", 5) == 0;
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
