/* SPDX-License-Identifier: Apache-2.0 */
/* How the PCs of the pool are: one thread asks each member on a connection of its own, which proves who it is, and
 * calls the other PCs. One after the other; a running reply is not disturbed. */
#include "seat-priv.h"

#include <stdio.h>
#include <time.h>

#define CALL_US 1500000ll /* for a PC that is no member to answer */

static bool same(const aq_pc *a, const aq_pc *b)
{
    if (a->has_id || b->has_id)
        return a->has_id && b->has_id && aq_id_equal(&a->id, &b->id);
    return a->n_addr && b->n_addr && !strcmp(a->addr[0], b->addr[0]);
}

int aq_seat_pcs(aq_seat *p, aq_pc *ret, aq_err *err)
{
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);

    if (!f)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the list of PCs");
    aq_presence *mdns = p->presence;
    pthread_mutex_lock(&p->lock);
    uint32_t n_f = p->guest ? aq_guest_found(p->guest, f)
                   : mdns   ? aq_presence_found(mdns, f, AQ_FOUND_MAX)
                            : 0;
    pthread_mutex_unlock(&p->lock);
    int n = aq_pcs_list(p->cfg.trust, f, n_f, ret, err);
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < n; i++) {
        for (uint32_t k = 0; k < p->n_seen; k++) {
            const aq_pc *s = &p->seen[k];
            if (!same(&ret[i], s) || ret[i].member != s->member)
                continue;
            ret[i].state = s->state;
            ret[i].why = s->why;
            ret[i].mem_bytes = s->mem_bytes;
            ret[i].rtt_us = s->rtt_us;
            memcpy(ret[i].works_for, s->works_for, sizeof s->works_for);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

static void ask_member(aq_seat *p, aq_pc *pc)
{
    struct sockaddr_storage a[AQ_ADDRS_MAX];
    uint32_t n = 0;
    aq_peer_mem mem;
    aq_err err = {0};

    for (uint32_t i = 0; i < pc->n_addr; i++)
        if (aq_addr_parse(pc->addr[i], AQ_POOL_PORT, &a[n], NULL) == 0)
            n++;
    int rc = n ? aq_peer_mem_ask(p->net, a, n, &pc->id, &p->asking, &mem, &err)
               : aq_fail(&err, AQ_E_GONE, "nobody knows where %s is", pc->name);
    if (rc < 0) {
        if (!strstr(err.text, pc->name))
            aq_err_prefix(&err, rc, "%s", pc->name);
        pc->why = err;
        pc->state = AQ_PC_TROUBLE;
        return;
    }
    pc->state = AQ_PC_HERE;
    pc->mem_bytes = mem.bytes;
    pc->rtt_us = mem.rtt_us;
    memcpy(pc->works_for, mem.works_for, sizeof pc->works_for);
}

static void call_other(aq_pc *pc)
{
    const char *a[AQ_ADDRS_MAX] = {NULL};

    for (uint32_t i = 0; i < pc->n_addr; i++)
        a[i] = pc->addr[i];
    aq_reach reach = aq_reach_try(a, pc->n_addr, CALL_US);
    pc->state = reach == AQ_REACH_ANSWERS ? AQ_PC_HERE : AQ_PC_TROUBLE;
    pc->why = (aq_err){0};
    if (reach != AQ_REACH_ANSWERS)
        aq_fail(&pc->why, AQ_E_GONE, "%s", aq_reach_text(reach));
}

static void round_of_questions(aq_seat *p, aq_pc *pc)
{
    int n = aq_seat_pcs(p, pc, NULL);

    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&p->lock);
        bool stop = p->stop;
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return;
        if (pc[i].self)
            continue;
        if (pc[i].member)
            ask_member(p, &pc[i]);
        else
            call_other(&pc[i]);
        pthread_mutex_lock(&p->lock);
        uint32_t at = 0;
        while (at < p->n_seen && !same(&p->seen[at], &pc[i]))
            at++;
        if (at == AQ_PCS_MAX)
            at = p->n_seen = 0; /* names of long ago: begin anew */
        p->seen[at] = pc[i];
        p->n_seen = AQ_MAX(p->n_seen, at + 1);
        pthread_mutex_unlock(&p->lock);
        aq_seat_changed(p);
    }
}

void *aq_seat_watch_main(void *arg)
{
    aq_seat *p = arg;
    AQ_AUTOFREE aq_pc *pc = calloc(AQ_PCS_MAX, sizeof *pc);
    struct timespec end;

    pthread_mutex_lock(&p->lock);
    while (!p->stop && pc) {
        p->kick = false;
        pthread_mutex_unlock(&p->lock);
        if (p->guest && !aq_guest_look(p))
            aq_seat_take_over(p);
        round_of_questions(p, pc);
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += AQ_SEAT_WATCH_MS / 1000;
        pthread_mutex_lock(&p->lock);
        while (!p->stop && !p->kick && pthread_cond_timedwait(&p->cond, &p->lock, &end) == 0)
            ;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}
