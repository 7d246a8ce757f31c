/* SPDX-License-Identifier: Apache-2.0 */
/* Which PCs there are, where they are, and a split with one of them. No state; the caller's thread, which waits
 * here for mDNS. */
#include "dial-priv.h"
#include "split-priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define KNOWN_US 300000ll /* for a PC to answer where it was last, before it is looked for */
#define LOOK_MS 2000u     /* for a PC to be found */
#define CANCEL_LOOK_MS 50u

/* ---- looking --------------------------------------------------------------------------------- */

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

static void later(struct timespec *t, uint32_t ms)
{
    t->tv_sec += ms / 1000;
    t->tv_nsec += ms % 1000 * 1000000L;
    t->tv_sec += t->tv_nsec / 1000000000L;
    t->tv_nsec %= 1000000000L;
}

/* Until a change or `end`; with progress only so long that its cancel is seen. Under lock. True: it is late. */
static bool wait_change(looking *l, const aq_progress *progress, const struct timespec *end)
{
    struct timespec soon;

    clock_gettime(CLOCK_MONOTONIC, &soon);
    later(&soon, CANCEL_LOOK_MS);
    bool all = !progress || soon.tv_sec > end->tv_sec ||
               (soon.tv_sec == end->tv_sec && soon.tv_nsec >= end->tv_nsec);
    return pthread_cond_clockwait(&l->cond, &l->lock, CLOCK_MONOTONIC, all ? end : &soon) ==
               ETIMEDOUT &&
           all;
}

/* As aq_look; progress (may be NULL) cancels it. */
static int look(const aq_trust *t, const char *version, bool (*is_it)(void *, const aq_found *),
                void *user, bool state_only, uint32_t ms, const aq_progress *progress,
                aq_presence_info *ret_info, aq_found *ret, uint32_t *ret_n, aq_err *err)
{
    looking l = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    char own[AQ_NAME_MAX + 1];
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    struct timespec end;

    aq_trust_name(t, own);
    aq_presence_opts o = {.id = *aq_trust_id(t), .name = own, .version = version};
    int rc = aq_presence_start(&o, changed_cb, &l, &p, err);
    if (rc < 0)
        return rc;
    clock_gettime(CLOCK_MONOTONIC, &end);
    later(&end, ms);
    for (uint64_t seen = 0;;) {
        bool has = false;
        if (progress && atomic_load(&progress->cancel))
            return aq_fail(err, AQ_E_CANCELLED, "looking for a PC was stopped");
        aq_presence_get(p, ret_info);
        uint32_t n = aq_presence_found(p, ret, AQ_FOUND_MAX);
        for (uint32_t i = 0; is_it && i < n && !has; i++)
            has = is_it(user, &ret[i]);
        *ret_n = n;
        bool waits =
            ret_info->state == AQ_PRESENCE_STARTING ||
            ((ret_info->state == AQ_PRESENCE_RUNNING || ret_info->state == AQ_PRESENCE_TWIN) &&
             !state_only);
        pthread_mutex_lock(&l.lock);
        int late = 0;
        while (waits && !has && l.n_change == seen && !late &&
               !(progress && atomic_load(&progress->cancel)))
            late = wait_change(&l, progress, &end);
        seen = l.n_change;
        pthread_mutex_unlock(&l.lock);
        if (!waits || has || late)
            return 0;
    }
}

int aq_look(const aq_trust *t, const char *version, bool (*is_it)(void *, const aq_found *),
            void *user, bool state_only, uint32_t ms, aq_presence_info *ret_info, aq_found *ret,
            uint32_t *ret_n, aq_err *err)
{
    return look(t, version, is_it, user, state_only, ms, NULL, ret_info, ret, ret_n, err);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void put_addr(aq_pc *p, const char *addr)
{
    for (uint32_t i = 0; i < p->n_addr; i++)
        if (!strcmp(p->addr[i], addr))
            return;
    if (p->n_addr < AQ_ADDRS_MAX)
        snprintf(p->addr[p->n_addr++], sizeof p->addr[0], "%s", addr);
}

static void put_found(aq_pc *p, const aq_found *f)
{
    p->found = true;
    memcpy(p->version, f->version, sizeof p->version);
    for (uint32_t i = 0; i < f->n_addr; i++)
        put_addr(p, f->addr[i]);
}

static bool has_addr(const aq_pc *p, const char *addr)
{
    for (uint32_t i = 0; i < p->n_addr; i++)
        if (!strcmp(p->addr[i], addr))
            return true;
    return false;
}

static void put_member(aq_pc *p, const aq_member *m, const aq_id *own, const aq_found *f,
                       uint32_t n_f)
{
    *p = (aq_pc){.id = m->id,
                 .has_id = true,
                 .self = aq_id_equal(&m->id, own),
                 .member = true,
                 .perms = m->perms};
    memcpy(p->name, m->name, sizeof p->name);
    for (uint32_t i = 0; i < n_f; i++)
        if (aq_id_equal(&f[i].id, &m->id))
            put_found(p, &f[i]);
    for (uint32_t i = 0; i < m->n_addr; i++)
        put_addr(p, m->addr[i]);
}

int aq_pcs_list(const aq_trust *t, const aq_found *f, uint32_t n_f, aq_pc *ret, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    AQ_AUTOFREE aq_known *k = calloc(1, sizeof *k);
    uint32_t n = 0;

    if (!r || !k)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the list of PCs");
    (void)!aq_trust_roster(t, r); /* none: r->n is 0 */
    int rc = aq_known_load(t, k, err);
    if (rc < 0)
        return rc;
    for (uint32_t self = 1; self < 2; self--) /* this PC first */
        for (uint32_t i = 0; i < r->n; i++)
            if (aq_id_equal(&r->m[i].id, aq_trust_id(t)) == (self == 1))
                put_member(&ret[n++], &r->m[i], aq_trust_id(t), f, n_f);
    for (uint32_t i = 0; i < n_f && n < AQ_PCS_MAX; i++) {
        if (aq_trust_perms(t, &f[i].id) >= 0)
            continue;
        aq_pc *p = &ret[n++];
        *p = (aq_pc){.id = f[i].id, .has_id = true};
        memcpy(p->name, f[i].name, sizeof p->name);
        put_found(p, &f[i]);
    }
    uint32_t n_known = n;
    for (uint32_t i = 0; i < k->n && n < AQ_PCS_MAX; i++) {
        uint32_t at = 0;
        while (at < n_known && !has_addr(&ret[at], k->addr[i]))
            at++;
        if (at == n_known) {
            ret[at = n++] = (aq_pc){0};
            put_addr(&ret[at], k->addr[i]);
        }
        ret[at].added = true;
    }
    return (int)n;
}

/* ---- a split with a member ------------------------------------------------------------------- */

/* What mDNS says may be old by some seconds: it counts when it answers. */
static bool answers(void *user, const aq_found *f)
{
    const aq_member *m = user;
    const char *a[AQ_ADDRS_MAX] = {NULL};

    for (uint32_t i = 0; i < f->n_addr; i++)
        a[i] = f->addr[i];
    return aq_id_equal(&f->id, &m->id) && aq_reach_try(a, f->n_addr, KNOWN_US) == AQ_REACH_ANSWERS;
}

/* Where a member is. anew: by mDNS even when something answers where it was last. f [AQ_FOUND_MAX]; ret
 * [AQ_ADDRS_MAX] points into m and f. */
static int where(const aq_trust *trust, const aq_member *m, const aq_presence *presence,
                 const char *version, bool anew, const aq_progress *progress, aq_found *f,
                 const char **ret, uint32_t *ret_n, aq_err *err)
{
    aq_presence_info mdns = {0};
    const aq_found *hit = NULL;
    uint32_t n = 0, n_found = 0;

    for (uint32_t i = 0; i < m->n_addr; i++)
        ret[n++] = m->addr[i];
    *ret_n = n;
    if (!anew && n && aq_reach_try(ret, n, KNOWN_US) == AQ_REACH_ANSWERS)
        return 0;
    if (presence) {
        aq_presence_get(presence, &mdns);
        n_found = aq_presence_found(presence, f, AQ_FOUND_MAX);
    } else {
        int rc = look(trust, version, answers, (void *)m, false, LOOK_MS, progress, &mdns, f,
                      &n_found, err);
        if (rc < 0)
            return rc;
    }
    for (uint32_t i = 0; i < n_found; i++)
        if (aq_id_equal(&f[i].id, &m->id))
            hit = &f[i];
    if (hit) /* what is found now goes first; who is there proves who it is */
        for (n = 0; n < hit->n_addr; n++)
            ret[n] = hit->addr[n];
    for (uint32_t i = 0; hit && i < m->n_addr && n < AQ_ADDRS_MAX; i++)
        ret[n++] = m->addr[i];
    *ret_n = n;
    return n ? 0
             : aq_fail(err, AQ_E_GONE,
                       "nobody knows where %s is: start its node, or give its address. %s", m->name,
                       mdns.state == AQ_PRESENCE_RUNNING ? "" : aq_presence_text(mdns.state));
}

int aq_where(const aq_trust *trust, const aq_id *id, const char *version,
             const aq_progress *progress, struct sockaddr_storage ret[AQ_ADDRS_MAX],
             uint32_t *ret_n, aq_err *err)
{
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    const char *addr[AQ_ADDRS_MAX];
    uint32_t n = 0, n_good = 0;

    if (!f || !r)
        return aq_fail(err, AQ_E_NOMEM, "no memory to look for a PC");
    (void)!aq_trust_roster(trust, r);
    const aq_member *m = aq_roster_find(r, id);
    if (!m)
        return aq_fail(err, AQ_E_AUTH, "that PC is no member of this pool any more");
    int rc = where(trust, m, NULL, version, true, progress, f, addr, &n, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        n_good += aq_addr_parse(addr[i], AQ_POOL_PORT, &ret[n_good], NULL) == 0;
    *ret_n = n_good;
    return n_good ? 0 : aq_fail(err, AQ_E_GONE, "nobody knows where %s is", m->name);
}

int aq_split_open_member(const aq_split_cfg *cfg, const aq_member *m, const aq_presence *presence,
                         const char *version, aq_split **ret, aq_err *err)
{
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    const char *addr[AQ_ADDRS_MAX];
    aq_split_cfg sc = *cfg;
    aq_split_state st;
    aq_err no = {0};
    int rc;

    if (!f)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a split");
    sc.to = &m->id;
    sc.addr = addr;
    if ((rc = where(cfg->trust, m, presence, version, false, cfg->engine.progress, f, addr,
                    &sc.n_addr, err)) < 0)
        return rc;
    if ((rc = aq_split_open(&sc, ret, err)) < 0)
        return rc;
    aq_split_follow(*ret, version);
    aq_split_get_state(*ret, &st); /* it answered there: next time it need not be looked for */
    if (st.addr[0] && !(m->n_addr && !strcmp(m->addr[0], st.addr)))
        (void)!aq_trust_set_addr(cfg->trust, &m->id, st.addr, &no);
    return 0;
}
