/* SPDX-License-Identifier: Apache-2.0 */
/* See pool-node.h. */
#include "pool-node.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <time.h>

#define LIMIT_S 20

static bool wait_until(node *n, bool (*fn)(void *), void *arg)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += LIMIT_S;
    pthread_mutex_lock(&n->lock);
    bool good = fn(arg);
    while (!good && pthread_cond_timedwait(&n->cond, &n->lock, &end) != ETIMEDOUT)
        good = fn(arg);
    good = good || fn(arg);
    pthread_mutex_unlock(&n->lock);
    return good;
}

static bool is_set(void *arg)
{
    return *(const bool *)arg;
}

bool node_wait(node *n, const bool *flag)
{
    return wait_until(n, is_set, (void *)flag);
}

bool node_wait_closed(node_end *e)
{
    return node_wait(e->node, &e->closed);
}

typedef struct frames_arg {
    node_end *e;
    uint32_t n;
} frames_arg;

static bool has_frames(void *arg)
{
    frames_arg *a = arg;

    return a->e->n_frame >= a->n || a->e->closed;
}

bool node_wait_frames(node_end *e, uint32_t n)
{
    return wait_until(e->node, has_frames, &(frames_arg){e, n}) && e->n_frame >= n;
}

static bool is_settled(void *arg)
{
    node_end *e = arg;

    return e->open || e->closed;
}

static void open_cb(void *user, aq_link *link)
{
    node_end *e = user;

    pthread_mutex_lock(&e->node->lock);
    e->open = true;
    pthread_cond_broadcast(&e->node->cond);
    pthread_mutex_unlock(&e->node->lock);
}

static int frame_cb(void *user, aq_link *link, const aq_hdr *h, const uint8_t *payload, aq_err *err)
{
    node_end *e = user;
    int rc = AQ_OK;

    if (h->type == AQ_T_ROSTER) /* the link has taken it already */
        return AQ_OK;
    pthread_mutex_lock(&e->node->lock);
    e->held = e->hold;
    pthread_cond_broadcast(&e->node->cond);
    while (e->hold)
        pthread_cond_wait(&e->node->cond, &e->node->lock);
    if (e->n_frame < NODE_FRAMES_MAX) {
        node_frame *f = &e->frame[e->n_frame];
        f->hdr = *h;
        f->body.n = 0;
        rc = aq_bytes_put(&f->body, payload, h->length);
        e->n_frame++;
    }
    pthread_cond_broadcast(&e->node->cond);
    pthread_mutex_unlock(&e->node->lock);
    return rc;
}

static void closed_cb(void *user, aq_link *link, const aq_err *why)
{
    node_end *e = user;

    pthread_mutex_lock(&e->node->lock);
    e->closed = true;
    e->why = *why;
    pthread_cond_broadcast(&e->node->cond);
    pthread_mutex_unlock(&e->node->lock);
}

static void digits_cb(void *user, aq_pairing *p, const char digits[7], const char *name)
{
    node *n = user;

    pthread_mutex_lock(&n->lock);
    memcpy(p == n->pair_in ? n->digits_in : n->digits_out, digits, 7);
    pthread_cond_broadcast(&n->cond);
    pthread_mutex_unlock(&n->lock);
}

static void done_cb(void *user, aq_pairing *p, const aq_err *err, const aq_id *id)
{
    node *n = user;

    pthread_mutex_lock(&n->lock);
    if (p == n->pair_in) {
        n->done_in = true;
        n->err_in = *err;
    } else {
        n->done_out = true;
        n->err_out = *err;
    }
    pthread_cond_broadcast(&n->cond);
    pthread_mutex_unlock(&n->lock);
}

static int accept_cb(void *user, aq_link *link, aq_link_cb *ret_cb, aq_err *err)
{
    node *n = user;

    if (n->refuse)
        return aq_fail(err, n->refuse, "this PC works for Studio PC");
    if (aq_link_purpose(link) == AQ_FOR_PAIR) {
        aq_pairing_cb cb = {n, digits_cb, done_cb};
        return aq_pairing_accept(n->net, link, ret_cb, &cb, &n->pair_in, err);
    }
    pthread_mutex_lock(&n->lock);
    int rc = n->in.link ? aq_fail(err, AQ_E_BUSY, "there is a link already") : AQ_OK;
    if (rc == AQ_OK)
        n->in.link = link;
    pthread_mutex_unlock(&n->lock);
    *ret_cb = (aq_link_cb){&n->in, open_cb, frame_cb, NULL, closed_cb};
    return rc;
}

bool node_start(node *n, const char *top, const char *name)
{
    aq_err err = {0};

    *n = (node){0};
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->cond, NULL);
    n->in.node = n->out.node = n;
    snprintf(n->dir, sizeof n->dir, "%s/%s", top, name);
    int rc = aq_trust_open(n->dir, name, NULL, &n->trust, &err);
    if (rc == AQ_OK)
        rc = aq_net_new(n->trust, "test 1", AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16, &n->net,
                        &err);
    if (rc < 0)
        printf("# %s: %s\n", name, err.text);
    return rc == AQ_OK;
}

bool node_listen(node *n, const char *addr)
{
    struct sockaddr_storage a;
    aq_err err = {0};
    int rc = aq_addr_parse(addr, 0, &a, &err);

    if (rc == AQ_OK)
        rc = aq_listener_new(n->net, &a, 1, accept_cb, n, &n->listener, &err);
    if (rc < 0) {
        printf("# listening: %s\n", err.text);
        return false;
    }
    n->addr = a;
    if (a.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&n->addr)->sin_port = htons(aq_listener_port(n->listener));
    else
        ((struct sockaddr_in6 *)(void *)&n->addr)->sin6_port = htons(aq_listener_port(n->listener));
    return true;
}

void node_forget(node_end *e)
{
    pthread_mutex_lock(&e->node->lock);
    for (uint32_t i = 0; i < NODE_FRAMES_MAX; i++)
        aq_bytes_clear(&e->frame[i].body);
    e->n_frame = 0;
    pthread_mutex_unlock(&e->node->lock);
}

static void reset(node_end *e)
{
    aq_link_free(e->link);
    node_forget(e);
    node *n = e->node;
    *e = (node_end){.node = n};
}

void node_hang_up(node *from, node *to)
{
    node_hold(&from->out, false);
    node_hold(&to->in, false);
    reset(&from->out);
    if (to->in.link)
        node_wait_closed(&to->in);
    reset(&to->in);
}

void node_stop(node *n)
{
    aq_listener_free(n->listener);
    reset(&n->out);
    reset(&n->in);
    aq_pairing_free(n->pair_in);
    aq_pairing_free(n->pair_out);
    aq_net_free(n->net);
    aq_trust_free(n->trust);
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->cond);
}

bool node_join(node *a, node *b)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes s = {0};
    aq_err err = {0};
    aq_cred c;
    aq_member m = {.id = *aq_trust_id(b->trust), .perms = AQ_PERM_DEFAULT};
    int rc = aq_trust_roster(a->trust, NULL) ? AQ_OK : aq_trust_create(a->trust, &err);

    aq_trust_name(b->trust, m.name);
    if (rc == AQ_OK && (rc = aq_trust_add(a->trust, &m, &err)) == AQ_OK &&
        (rc = aq_trust_share(a->trust, &s, &err)) == AQ_OK) {
        aq_trust_cred(a->trust, &c);
        rc = aq_trust_adopt(b->trust, c.pool, c.epoch, c.secret, (char *)s.p, s.n, &err);
    }
    if (rc < 0)
        printf("# joining: %s\n", err.text);
    return rc == AQ_OK;
}

bool node_dial_with(node *from, node *to, const aq_dial *d, bool wait)
{
    aq_link_cb cb = {&from->out, open_cb, frame_cb, NULL, closed_cb};
    aq_err err = {0};

    if (d->purpose == AQ_FOR_PAIR) {
        aq_pairing_cb pcb = {from, digits_cb, done_cb};
        return aq_pairing_dial(from->net, &to->addr, 1, &pcb, &from->pair_out, &err) == AQ_OK;
    }
    if (aq_link_dial(from->net, d, &cb, &from->out.link, &err) < 0) {
        printf("# dialing: %s\n", err.text);
        return false;
    }
    if (!wait)
        return true;
    if (!wait_until(from, is_settled, &from->out) || !from->out.open)
        return false;
    return wait_until(to, is_settled, &to->in) && to->in.open;
}

bool node_dial(node *from, node *to, aq_purpose purpose)
{
    aq_dial d = {.addr = &to->addr, .n_addr = 1, .purpose = purpose, .to = aq_trust_id(to->trust)};

    return node_dial_with(from, to, &d, true);
}

void node_hold(node_end *e, bool hold)
{
    pthread_mutex_lock(&e->node->lock);
    e->hold = hold;
    pthread_cond_broadcast(&e->node->cond);
    pthread_mutex_unlock(&e->node->lock);
}
