/* SPDX-License-Identifier: Apache-2.0 */
#include "seat-wait.h"

#include <pthread.h>
#include <time.h>

#define HANG_S 60 /* a test that waits longer has failed */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static uint64_t n_change; /* under lock */

void seat_changed(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    n_change++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&lock);
}

bool seat_until(aq_seat *seat, aq_seat_state *st, bool (*fn)(const aq_seat_state *))
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += HANG_S;
    for (;;) {
        pthread_mutex_lock(&lock);
        uint64_t seen = n_change;
        pthread_mutex_unlock(&lock);
        aq_seat_get(seat, st);
        if (fn(st))
            return true;
        int late = 0;
        pthread_mutex_lock(&lock);
        while (n_change == seen && !late)
            late = pthread_cond_timedwait(&cond, &lock, &end);
        pthread_mutex_unlock(&lock);
        if (late)
            return false;
    }
}
