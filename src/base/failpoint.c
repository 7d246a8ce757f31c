/* SPDX-License-Identifier: Apache-2.0 */
/* Failpoints: at most POINTS armed names in a fixed table. While none is armed a failpoint costs
 * one relaxed load. */
#include "aq/base.h"

#include <pthread.h>

#define POINTS 64
#define NAME_BYTES 64 /* with the NUL */

static struct point {
    char name[NAME_BYTES]; /* "" = free */
    uint32_t wait;         /* hits that still pass */
    uint32_t times;        /* hits that then fail */
} points[POINTS];          /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t n_armed;

/* Under lock: the armed point of that name, or NULL. */
static struct point *find(const char *name)
{
    for (size_t i = 0; i < POINTS; i++)
        if (points[i].name[0] && strcmp(points[i].name, name) == 0)
            return &points[i];
    return NULL;
}

static void disarm(struct point *p)
{
    p->name[0] = 0;
    atomic_fetch_sub_explicit(&n_armed, 1, memory_order_relaxed);
}

bool aq_failpoint(const char *name)
{
    bool hit = false;

    if (atomic_load_explicit(&n_armed, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&lock);
    struct point *p = find(name);
    if (p && p->wait > 0) {
        p->wait--;
    } else if (p) {
        hit = true;
        if (--p->times == 0)
            disarm(p);
    }
    pthread_mutex_unlock(&lock);
    return hit;
}

int aq_failpoint_set(const char *name, uint32_t n, uint32_t times)
{
    int rc = AQ_OK;

    if (!name[0] || strlen(name) >= NAME_BYTES || (n > 0 && times == 0))
        return -AQ_E_INVAL;
    pthread_mutex_lock(&lock);
    struct point *p = find(name);
    if (n == 0) {
        if (p)
            disarm(p);
        goto out;
    }
    for (size_t i = 0; !p && i < POINTS; i++) {
        if (!points[i].name[0]) {
            p = &points[i];
            memcpy(p->name, name, strlen(name) + 1);
            atomic_fetch_add_explicit(&n_armed, 1, memory_order_relaxed);
        }
    }
    if (!p) {
        rc = -AQ_E_LIMIT;
        goto out;
    }
    p->wait = n - 1;
    p->times = times;
out:
    pthread_mutex_unlock(&lock);
    return rc;
}
