/* SPDX-License-Identifier: Apache-2.0 */
/* Which PCs of the network have their pool on, by mDNS; and who of them is meant. The daemon is asked on a
 * thread of the room; the caller waits here. */
#include <pthread.h>
#include <time.h>

#include "cli-pool.h"

typedef struct looking {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    uint64_t n_change;
} looking;

static void changed_cb(void *user)
{
    looking *l = user;

    pthread_mutex_lock(&l->lock);
    l->n_change++;
    pthread_cond_broadcast(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

int cli_look(const aq_trust *t, bool (*is_it)(void *, const aq_found *), void *user,
             bool state_only, uint32_t ms, aq_presence_info *ret_info, aq_found *ret,
             uint32_t *ret_n, aq_err *err)
{
    looking l = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    char own[AQ_NAME_MAX + 1];
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    struct timespec end;

    aq_trust_name(t, own);
    aq_presence_opts o = {.id = *aq_trust_id(t), .name = own, .version = AQ_VERSION};
    int rc = aq_presence_start(&o, changed_cb, &l, &p, err);
    if (rc < 0)
        return rc;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    for (uint64_t seen = 0;;) {
        bool has = false;
        aq_presence_get(p, ret_info);
        uint32_t n = aq_presence_found(p, ret, AQ_FOUND_MAX);
        for (uint32_t i = 0; is_it && i < n && !has; i++)
            has = is_it(user, &ret[i]);
        *ret_n = n;
        bool waits = ret_info->state == AQ_PRESENCE_STARTING ||
                     (ret_info->state == AQ_PRESENCE_RUNNING && !state_only);
        pthread_mutex_lock(&l.lock);
        int late = 0;
        while (waits && !has && l.n_change == seen && !late)
            late = pthread_cond_timedwait(&l.cond, &l.lock, &end);
        seen = l.n_change;
        pthread_mutex_unlock(&l.lock);
        if (!waits || has || late)
            return 0;
    }
}
