/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic and wall clock. The two overrides are process-wide, for tests; any thread may read
 * while one test sets. */
#include "aq/base.h"

#include <time.h>

static _Atomic int64_t frozen_us = -1; /* < 0: the real clock */
static _Atomic int64_t frozen_wall_s = -1;

int64_t aq_now_us(void)
{
    int64_t t = atomic_load(&frozen_us);
    struct timespec ts;

    if (t >= 0)
        return t;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void aq_clock_set(int64_t t_us)
{
    atomic_store(&frozen_us, t_us < 0 ? -1 : t_us);
}

/* Moves a frozen clock only: the real one cannot be pushed. */
void aq_clock_advance(int64_t d_us)
{
    int64_t t = atomic_load(&frozen_us), next;

    do {
        if (t < 0)
            return;
        next = t + d_us < 0 ? 0 : t + d_us;
    } while (!atomic_compare_exchange_weak(&frozen_us, &t, next));
}

int64_t aq_wall_s(void)
{
    int64_t t = atomic_load(&frozen_wall_s);
    struct timespec ts;

    if (t >= 0)
        return t;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec;
}

void aq_wall_set(int64_t s)
{
    atomic_store(&frozen_wall_s, s < 0 ? -1 : s);
}
