/* SPDX-License-Identifier: Apache-2.0 */
/* Failpoints: countdown, number of hits, disarming, a full table, many threads. */
#include "aq/base.h"
#include "tap.h"

#include <pthread.h>

static int hits(const char *name, int tries)
{
    int n = 0;

    for (int i = 0; i < tries; i++)
        n += aq_failpoint(name);
    return n;
}

static void test_countdown(void)
{
    ok(hits("a", 10) == 0, "nothing is armed at first");
    ok(aq_failpoint_set("a", 1, 1) == 0 && aq_failpoint("a") && hits("a", 10) == 0,
       "the next hit fails, once");
    ok(aq_failpoint_set("a", 4, 2) == 0 && hits("a", 3) == 0 && hits("a", 2) == 2 &&
           hits("a", 10) == 0,
       "the fourth and fifth hit fail");
    ok(aq_failpoint_set("a", 3, 1) == 0 && hits("b", 10) == 0 && hits("a", 2) == 0 &&
           hits("a", 1) == 1,
       "other names do not count");
    ok(aq_failpoint_set("a", 1, 5) == 0 && aq_failpoint("a") && aq_failpoint_set("a", 0, 0) == 0 &&
           hits("a", 10) == 0,
       "disarmed");
    ok(aq_failpoint_set("a", 1, 5) == 0 && aq_failpoint_set("a", 2, 1) == 0 && hits("a", 10) == 1,
       "armed anew, not twice");
    ok(aq_failpoint_set("never-armed", 0, 0) == 0, "disarming what is not armed");
}

static void test_refused(void)
{
    char name[80];

    ok(aq_failpoint_set("", 1, 1) == -AQ_E_INVAL && aq_failpoint_set("a", 1, 0) == -AQ_E_INVAL,
       "no name, no times");
    memset(name, 'n', sizeof name);
    name[79] = 0;
    ok(aq_failpoint_set(name, 1, 1) == -AQ_E_INVAL, "a name too long");
    bool all = true;
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "point-%d", i);
        all = all && aq_failpoint_set(name, 1, 1) == 0;
    }
    ok(all && aq_failpoint_set("one-more", 1, 1) == -AQ_E_LIMIT, "64 fit, one more does not");
    ok(aq_failpoint("point-63") && aq_failpoint_set("one-more", 1, 1) == 0 &&
           aq_failpoint("one-more"),
       "a point that has failed frees its place");
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "point-%d", i);
        aq_failpoint_set(name, 0, 0);
    }
}

static void *hit_many(void *ret)
{
    *(int *)ret = hits("shared", 1000);
    return NULL;
}

static void test_threads(void)
{
    pthread_t t[4];
    int n[4], sum = 0;

    aq_failpoint_set("shared", 500, 1234);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, hit_many, &n[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        sum += n[i];
    }
    ok(sum == 1234, "exactly as many hits fail over all threads (%d)", sum);
}

int main(void)
{
    test_countdown();
    test_refused();
    test_threads();
    return tap_done();
}
