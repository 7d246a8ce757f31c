/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: frozen, moved, real again. */
#include "aq/base.h"
#include "tap.h"

#include <time.h>

int main(void)
{
    aq_clock_set(5000);
    ok(aq_now_us() == 5000 && aq_now_us() == 5000, "a frozen clock stands");
    aq_clock_advance(250);
    ok(aq_now_us() == 5250, "and is moved by hand");
    aq_clock_advance(-6000);
    ok(aq_now_us() == 0, "never below zero, which would mean real");
    aq_clock_set(0);
    ok(aq_now_us() == 0, "zero is a time");

    aq_clock_set(-5);
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t before = (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000, now = aq_now_us();
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t after = (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
    ok(before <= now && now <= after, "the real clock is the monotonic one, in microseconds");
    aq_clock_advance((int64_t)1 << 50);
    ok(aq_now_us() < now + ((int64_t)1 << 49), "the real clock is not moved");

    aq_wall_set(86400);
    ok(aq_wall_s() == 86400, "a set date");
    aq_wall_set(-1);
    time_t t0 = time(NULL);
    int64_t wall = aq_wall_s();
    ok(wall >= (int64_t)t0 - 1 && wall <= (int64_t)time(NULL) + 1, "the real date");
    return tap_done();
}
