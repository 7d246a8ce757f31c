/* SPDX-License-Identifier: Apache-2.0 */
/* How fast N threads read memory together: the roof of decoding. Usage: mem-read N [MIB]. Prints one
 * number, GB/s: the median of 9 passes over MIB (512) mebibytes in huge pages where there are some.
 * Threads: one per part; the main one takes the time. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PASSES 9
#define THREADS_MAX 512

typedef struct part {
    const uint64_t *p;
    size_t n;
    uint64_t sum;
} part;
static pthread_barrier_t gate;

static void *reader(void *arg)
{
    part *r = arg;
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t s[8] = {0};
        pthread_barrier_wait(&gate);
        for (size_t i = 0; i + 8 <= r->n; i += 8)
            for (size_t j = 0; j < 8; j++)
                s[j] += r->p[i + j];
        for (size_t j = 0; j < 8; j++)
            r->sum += s[j];
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 0,
         mib = argc > 2 ? strtol(argv[2], NULL, 10) : 512;
    if (n < 1 || n > THREADS_MAX || mib < 1 || mib > 1 << 20) {
        fprintf(stderr, "usage: mem-read THREADS [MIB]\n");
        return 2;
    }
    size_t bytes = (size_t)mib << 20;
    uint64_t *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED) {
        fprintf(stderr, "mem-read: no memory for %ld MiB\n", mib);
        return 2;
    }
    madvise(mem, bytes, MADV_HUGEPAGE);
    memset(mem, 1, bytes);
    static part parts[THREADS_MAX];
    static pthread_t thread[THREADS_MAX];
    pthread_barrier_init(&gate, NULL, (unsigned)n + 1);
    for (long i = 0; i < n; i++) {
        parts[i] = (part){.p = mem + bytes / 8 / (size_t)n * (size_t)i, .n = bytes / 8 / (size_t)n};
        if (pthread_create(&thread[i], NULL, reader, &parts[i])) {
            fprintf(stderr, "mem-read: cannot start %ld threads\n", n);
            return 2;
        }
    }
    double rate[PASSES];
    for (int pass = 0; pass < PASSES; pass++) {
        struct timespec a, b;
        pthread_barrier_wait(&gate);
        clock_gettime(CLOCK_MONOTONIC, &a);
        pthread_barrier_wait(&gate);
        clock_gettime(CLOCK_MONOTONIC, &b);
        rate[pass] =
            (double)bytes / ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec));
    }
    for (long i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    qsort(rate, PASSES, sizeof *rate, by_size);
    printf("%.2f\n", rate[PASSES / 2]);
    return 0;
}
