/* SPDX-License-Identifier: Apache-2.0 */
/* A link: socket, TLS, handshake, frames. aq_link_pump moves bytes and never blocks; whoever calls it
 * owns the link at that time: the listener's thread until the caller is authenticated, then the
 * link's own. Other threads touch the queue (under `lock`) and atomics; and who queues a window sends
 * it himself while the link's thread waits (`io`).
 *
 *   recv → rbuf → TLS → header (24) → table → payload → handshake or frame_cb
 *   send ← out  ← TLS ← pieces of ≤ 256 KiB ← control queue, else data queue             */
#include "link-obj-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RBUF_FIRST (4u << 10) /* until the other side is authenticated */
#define RBUF_OPEN (128u << 10)
#define SPARE_MAX 8u
#define NOW_MAX (64u << 10)
/* Nobody is read who does not read: TLS answers some records by itself. What a link writes stays below this, since it writes a piece
 * when the one before is gone. */
#define OUT_MAX (AQ_LINK_PIECE + (64u << 10))
#define OUT_FIRST (8u << 10) /* until the other side is authenticated */

static bool send_now(aq_link *l);

/* ---- queue ----------------------------------------------------------------------------------- */

static void item_free(item *it)
{
    aq_bytes_wipe(&it->frame);
    free(it);
}

static void push(queue *q, item *it)
{
    it->next = NULL;
    if (q->last)
        q->last->next = it;
    else
        q->first = it;
    q->last = it;
    q->n++;
}

static item *pop(queue *q)
{
    item *it = q->first;

    if (it) {
        q->first = it->next;
        if (!q->first)
            q->last = NULL;
        q->n--;
    }
    return it;
}

/* Under lock. */
static item *get_item(aq_link *l)
{
    item *it = l->spare;

    if (it) {
        l->spare = it->next;
        l->n_spare--;
        it->frame.n = 0;
        return it;
    }
    return calloc(1, sizeof *it);
}

/* Under lock. */
static void put_item(aq_link *l, item *it)
{
    if (l->n_spare >= SPARE_MAX) {
        item_free(it);
        return;
    }
    it->next = l->spare;
    l->spare = it;
    l->n_spare++;
}

void aq_link_wake(aq_link *l)
{
    uint64_t one = 1;

    (void)!write(l->wake_fd, &one, sizeof one); /* full means awake */
}

static int not_open(const aq_link *l, aq_err *err)
{
    return atomic_load(&l->state) == AQ_LS_CLOSED
               ? aq_fail(err, AQ_E_GONE, "the connection to %s is closed", l->hs.peer.name)
               : aq_fail(err, AQ_E_INVAL, "the connection is not open yet");
}

int aq_link_send(aq_link *l, uint16_t type, uint16_t flags, const void *payload, size_t n,
                 uint64_t *ret_seq, aq_err *err)
{
    int rc = AQ_OK;

    if (n > AQ_WIRE_CTL_MAX || !aq_wire_type_name(type))
        return aq_fail(err, AQ_E_LIMIT, "a control frame of %zu bytes is too long", n);
    pthread_mutex_lock(&l->lock);
    if (!l->accepting) {
        rc = not_open(l, err);
    } else if (l->ctl.n >= AQ_LINK_CTL_QUEUE_MAX) {
        rc = aq_fail(err, AQ_E_BUSY, "%s does not take what it is sent", l->hs.peer.name);
    } else {
        item *it = get_item(l);
        if (!it || aq_put_frame(&it->frame, type, flags, l->seq_out, payload, n) < 0) {
            if (it)
                put_item(l, it);
            rc = aq_fail(err, AQ_E_NOMEM, "no memory for a frame");
        } else {
            it->type = type;
            it->seq = l->seq_out;
            if (ret_seq)
                *ret_seq = l->seq_out;
            l->seq_out++;
            push(&l->ctl, it);
            /* Windows of the old epoch are replayed in the new one. */
            for (item *old; type == AQ_T_CONFIG && (old = pop(&l->data));)
                put_item(l, old);
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (rc == AQ_OK)
        aq_link_wake(l);
    return rc;
}

int aq_link_send_data(aq_link *l, aq_bytes *frame, aq_err *err)
{
    aq_cur c = {.p = frame->p, .n = frame->n};
    uint16_t type = 0;
    bool large = frame->n > NOW_MAX; /* its encryption takes longer than waking a thread */
    int rc = AQ_OK;

    if (aq_cur_skip(&c, 4) < 0 || aq_cur_get_u16(&c, &type) < 0)
        return aq_fail(err, AQ_E_INVAL, "this is no frame");
    pthread_mutex_lock(&l->lock);
    if (!l->accepting) {
        rc = not_open(l, err);
    } else if (l->data.n >= AQ_LINK_DATA_QUEUE_MAX) {
        rc = aq_fail(err, AQ_E_BUSY, "%s does not take what it is sent", l->hs.peer.name);
    } else {
        item *it = get_item(l);
        if (!it) {
            rc = aq_fail(err, AQ_E_NOMEM, "no memory for a frame");
        } else {
            aq_bytes empty = it->frame;
            it->frame = *frame;
            it->type = type;
            *frame = empty;
            frame->n = 0;
            push(&l->data, it);
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (rc == AQ_OK && (large || !send_now(l)))
        aq_link_wake(l);
    return rc;
}

int aq_socket_setup(int fd, aq_err *err)
{
    int one = 1, flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return aq_fail_errno(err, errno, "preparing a socket");
    /* Fails on a socket that is no TCP one, where it is not needed. */
    (void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return AQ_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

void aq_link_destroy(aq_link *l)
{
    item *it;

    if (!l)
        return;
    while ((it = pop(&l->ctl)) || (it = pop(&l->data)))
        item_free(it);
    while ((it = l->spare)) {
        l->spare = it->next;
        item_free(it);
    }
    if (l->sending)
        item_free(l->sending);
    aq_tls_free(l->tls);
    aq_fd_close_p(&l->fd);
    aq_fd_close_p(&l->wake_fd);
    aq_hs_clear(&l->hs);
    aq_bytes_wipe(&l->body);
    free(l->rbuf);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->io);
    aq_mem_wipe(l, sizeof *l);
    free(l);
}

void aq_link_reset(aq_link *l)
{
    aq_tls_free(l->tls);
    l->tls = NULL;
    aq_fd_close_p(&l->fd);
    aq_hs_clear(&l->hs);
    aq_mem_wipe(l->exporter, sizeof l->exporter);
    l->tls_done = l->peer_known = l->told = l->rekeyed = false;
    l->n_head = l->n_body = 0;
    l->body.n = 0;
    l->rx = (aq_wire_seq){0};
    atomic_store(&l->state, AQ_LS_HELLO);
}

int aq_link_create(aq_net *net, aq_role role, aq_link **ret, aq_err *err)
{
    aq_link *l = calloc(1, sizeof *l);

    if (!l)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a connection");
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->io, NULL);
    l->net = net;
    l->role = role;
    l->fd = -1;
    atomic_store(&l->rtt_us, -1);
    l->rbuf_cap = RBUF_FIRST;
    l->rbuf = malloc(l->rbuf_cap);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!l->rbuf || l->wake_fd < 0) {
        aq_link_destroy(l);
        return aq_fail(err, AQ_E_NOMEM, "no memory for a connection");
    }
    l->deadline_us = aq_now_us() + AQ_LINK_AUTH_US;
    *ret = l;
    return AQ_OK;
}

/* TLS asks whether this certificate may come in at all. */
bool aq_link_accept_cert(void *user, const aq_id *id)
{
    aq_link *l = user;

    l->peer_known = aq_trust_perms(l->net->trust, id) >= 0;
    if (l->peer_known)
        return true;
    if (l->role == AQ_DIALER)
        return l->purpose == AQ_FOR_PAIR || l->purpose == AQ_FOR_JOIN;
    return atomic_load(&l->net->pair_open) || atomic_load(&l->net->join_open);
}

void aq_link_set_dial(aq_link *l, const aq_dial *d)
{
    l->purpose = d->purpose;
    if (d->to) {
        l->has_to = true;
        l->to = *d->to;
    }
    if (d->join_secret)
        memcpy(l->join_secret, d->join_secret, AQ_SECRET_BYTES);
}

int aq_link_over(aq_net *net, int *fd, const struct sockaddr *from, const aq_dial *d, aq_link **ret,
                 aq_err *err)
{
    aq_link *l = NULL;
    int rc = aq_link_create(net, d ? AQ_DIALER : AQ_ACCEPTOR, &l, err);

    if (rc < 0)
        return rc;
    l->fd = *fd;
    *fd = -1;
    memcpy(&l->addr[0], from, aq_addr_len(from));
    if (d)
        aq_link_set_dial(l, d);
    if ((rc = aq_socket_setup(l->fd, err)) < 0 ||
        (rc = aq_tls_new(net->tls, d != NULL, aq_link_accept_cert, l, &l->tls, err)) < 0) {
        aq_link_destroy(l);
        return rc;
    }
    *ret = l;
    return AQ_OK;
}

/* ---- handshake ------------------------------------------------------------------------------- */

static int share_roster(void *user, aq_bytes *ret, aq_err *err)
{
    return aq_trust_share(user, ret, err);
}

/* TLS stands: the machine of HELLO and AUTH begins. */
static int begin_hs(aq_link *l, aq_err *err)
{
    aq_hs_cfg cfg = {.role = l->role,
                     .peer = *aq_tls_peer_id(l->tls),
                     .peer_known = l->peer_known,
                     .share = share_roster,
                     .user = l->net->trust};
    aq_hello *me = &cfg.me;
    aq_cred c;
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes out = {0};
    int rc;

    if ((rc = aq_tls_exporter(l->tls, l->exporter, err)) < 0 ||
        (rc = aq_random(me->nonce, sizeof me->nonce, err)) < 0)
        return rc;
    memcpy(cfg.exporter, l->exporter, sizeof cfg.exporter);
    aq_trust_cred(l->net->trust, &c);
    cfg.pair_open = atomic_load(&l->net->pair_open);
    cfg.join_open = atomic_load(&l->net->join_open);
    me->feat = l->net->feat;
    me->purpose = l->purpose;
    me->id = *aq_trust_id(l->net->trust);
    me->has_to = l->has_to;
    me->to = l->to;
    me->port = atomic_load(&l->net->port);
    memcpy(me->boot, l->net->boot, sizeof me->boot);
    memcpy(me->name, c.name, sizeof me->name);
    memcpy(me->app, l->net->app, sizeof me->app);
    bool joins = l->role == AQ_DIALER && l->purpose == AQ_FOR_JOIN;
    if (c.in_pool && !joins) {
        me->has_pool = true;
        me->epoch = c.epoch;
        me->roster = c.version;
        memcpy(me->pool, c.pool, sizeof me->pool);
    }
    memcpy(cfg.secret, joins ? l->join_secret : c.secret, sizeof cfg.secret);
    aq_mem_wipe(&c, sizeof c);
    aq_hs_init(&l->hs, &cfg);
    aq_mem_wipe(&cfg, sizeof cfg);
    l->tls_done = true;
    if (l->role == AQ_DIALER && ((rc = aq_hs_begin(&l->hs, &out, err)) < 0 ||
                                 (rc = aq_tls_write(l->tls, out.p, out.n, err)) < 0))
        return rc;
    return AQ_OK;
}

/* After `join` each side writes the other down. */
static int enter_joined(aq_link *l, aq_err *err)
{
    aq_member m = {.id = l->hs.peer.id, .perms = AQ_PERM_DEFAULT};

    memcpy(m.name, l->hs.peer.name, sizeof m.name);
    if (l->role == AQ_ACCEPTOR)
        return aq_trust_perms(l->net->trust, &m.id) >= 0 ? AQ_OK
                                                         : aq_trust_add(l->net->trust, &m, err);
    return aq_trust_join(l->net->trust, l->hs.peer.pool, l->hs.peer.epoch, l->join_secret, &m, err);
}

static int send_roster(aq_link *l, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes roster = {0}, b = {0};
    aq_cred c;

    aq_trust_cred(l->net->trust, &c);
    bool newer = c.in_pool && c.version >= l->hs.peer.roster;
    aq_mem_wipe(&c, sizeof c);
    if (!newer)
        return AQ_OK;
    int rc = aq_trust_share(l->net->trust, &roster, err);
    if (rc < 0)
        return rc;
    const char *text = aq_bytes_str(&roster);
    if (!text || aq_kv_put_text(&b, "roster", text) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    return aq_link_send(l, AQ_T_ROSTER, 0, b.p, b.n, NULL, err);
}

/* 0 = goes on, 1 = open. */
static int handshake_frame(aq_link *l, const uint8_t *p, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes out = {0};
    aq_hs *hs = &l->hs;
    int rc = aq_hs_frame(hs, &l->hdr, p, &out, &l->told, err), wrote;

    if (out.n > 0 && (wrote = aq_tls_write(l->tls, out.p, out.n, err)) < 0)
        return wrote;
    if (rc < 0)
        return rc;
    atomic_store(&l->state, hs->state);
    switch (rc) {
    case AQ_HS_OPEN:
        if (l->hs.cfg.me.purpose == AQ_FOR_JOIN && (rc = enter_joined(l, err)) < 0)
            return rc;
        break;
    case AQ_HS_PAIR:
        break;
    case AQ_HS_REKEYED:
        if ((rc = aq_trust_rekey(l->net->trust, hs->rekey_epoch, hs->rekey_secret,
                                 (char *)hs->rekey_roster.p, hs->rekey_roster.n, err)) < 0)
            return rc;
        l->told = l->rekeyed = true;
        return aq_fail(err, AQ_E_GONE, "%s gave this PC the pool's new secret: connect again",
                       hs->peer.name);
    case AQ_HS_REKEY_SENT:
        l->told = l->rekeyed = true;
        return aq_fail(err, AQ_E_GONE, "%s was given the pool's new secret: connect again",
                       hs->peer.name);
    default:
        return 0;
    }
    l->hs_done = true;
    l->purpose = hs->cfg.me.purpose;
    l->deadline_us =
        atomic_load(&l->state) == AQ_LS_PAIR ? aq_now_us() + AQ_LINK_PAIR_US : INT64_MAX;
    l->heard_us = aq_now_us();
    l->beat_us = l->heard_us + AQ_LINK_BEAT_US;
    pthread_mutex_lock(&l->lock);
    l->seq_out = hs->seq_out;
    l->accepting = true;
    pthread_mutex_unlock(&l->lock);
    if (hs->state != AQ_LS_PAIR && (rc = send_roster(l, err)) < 0)
        return rc;
    return 1;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* What a frame, sent or received, makes of the state. */
static int advance(aq_link *l, uint16_t type, uint64_t seq, bool sent, const uint8_t *payload,
                   size_t n, aq_err *err)
{
    aq_lstate st = (aq_lstate)atomic_load(&l->state);
    aq_kv kv;
    int rc;

    switch (type) {
    case AQ_T_CONFIG: {
        aq_wire_fmt f = {0};
        uint32_t epoch = 0;
        char rows[8];
        if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0 ||
            (rc = aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &epoch, err)) < 0 ||
            (rc = aq_kv_u32(&kv, "row_f32", true, AQ_WIRE_ROW_F32_MAX, &f.row_f32, err)) < 0 ||
            (rc = aq_kv_u32(&kv, "max_rows", true, AQ_ROWS_MAX, &f.max_rows, err)) < 0 ||
            (rc = aq_kv_text(&kv, "rows", true, rows, sizeof rows, err)) < 0)
            return rc;
        if (epoch <= l->rx.epoch)
            return aq_fail(err, AQ_E_PROTO, "CONFIG of epoch %u after epoch %u", epoch,
                           l->rx.epoch);
        int row_type = aq_rows_type(rows);
        if (row_type < 0)
            return aq_fail(err, AQ_E_UNSUPPORTED, "rows of type %s are unknown here", rows);
        f.type = (uint32_t)row_type;
        l->data_max = aq_wire_data_max(&f);
        aq_wire_seq_epoch(&l->rx, epoch);
        l->config_seq = seq;
        atomic_store(&l->state, AQ_LS_LOADING);
        break;
    }
    case AQ_T_READY:
        atomic_store(&l->state, AQ_LS_READY);
        break;
    case AQ_T_BUSY:
    case AQ_T_ERROR: {
        uint64_t re;
        if (st == AQ_LS_LOADING && aq_kv_parse(payload, n, &kv, NULL) == 0 &&
            aq_kv_u64(&kv, "re", true, UINT64_MAX, &re, NULL) == 1 && re == l->config_seq)
            atomic_store(&l->state, AQ_LS_OPEN);
        break;
    }
    case AQ_T_PAIR_MATCH:
        *(sent ? &l->match_sent : &l->match_got) = true;
        if (l->match_sent && l->match_got)
            atomic_store(&l->state, AQ_LS_PAIRED);
        break;
    default:
        break;
    }
    return AQ_OK;
}

static int pinged(aq_link *l, const uint8_t *payload, aq_err *err)
{
    char text[128];
    aq_kv kv;
    uint64_t t = 0;
    int rc;

    if ((rc = aq_kv_parse(payload, l->hdr.length, &kv, err)) < 0 ||
        (rc = aq_kv_u64(&kv, "t", true, INT64_MAX, &t, err)) < 0)
        return rc;
    if (l->hdr.flags & AQ_FLAG_REPLY) {
        int64_t d = aq_now_us() - (int64_t)t;
        if (d >= 0)
            atomic_store(&l->rtt_us, d);
        return AQ_OK;
    }
    int n = snprintf(text, sizeof text, "re=%llu\nt=%llu\nself_us=%lld\n",
                     (unsigned long long)l->hdr.seq, (unsigned long long)t,
                     (long long)(aq_now_us() - l->heard_us));
    return aq_link_send(l, AQ_T_PING, AQ_FLAG_REPLY, text, (size_t)n, NULL, err);
}

static int got_roster(aq_link *l, const uint8_t *payload, aq_err *err)
{
    aq_kv kv;
    uint32_t n = 0;
    int rc = aq_kv_parse(payload, l->hdr.length, &kv, err);

    if (rc < 0)
        return rc;
    const char *roster = aq_kv_get(&kv, "roster", &n);
    if (!roster)
        return aq_fail(err, AQ_E_FORMAT, "the key roster is missing");
    return aq_trust_merge(l->net->trust, roster, n, err);
}

static int open_frame(aq_link *l, const uint8_t *p, aq_err *err)
{
    const aq_hdr *h = &l->hdr;
    aq_kv kv;
    uint32_t len;
    int rc = advance(l, h->type, h->seq, false, p, h->length, err);

    if (rc < 0)
        return rc;
    switch (h->type) {
    case AQ_T_PING:
        return pinged(l, p, err);
    case AQ_T_BYE:
        l->told = true;
        return aq_told(h->type, p, h->length, l->hs.peer.name, err);
    case AQ_T_BUSY:
    case AQ_T_ERROR:
        if ((rc = aq_kv_parse(p, h->length, &kv, err)) < 0)
            return rc;
        if (aq_kv_get(&kv, "re", &len))
            break;
        l->told = true;
        return aq_told(h->type, p, h->length, l->hs.peer.name, err);
    case AQ_T_ROSTER:
        if ((rc = got_roster(l, p, err)) < 0)
            return rc;
        break;
    default:
        if (h->type >= AQ_T_OPTIONAL && !aq_wire_type_name(h->type))
            return AQ_OK;
        break;
    }
    return l->cb.frame_cb ? l->cb.frame_cb(l->cb.user, l, h, p, err) : AQ_OK;
}

/* A whole frame is in hdr and body: 0, or 1 = open now. */
static int take_frame(aq_link *l, aq_err *err)
{
    static const uint8_t none[1] = {0};
    const uint8_t *p = l->body.p ? l->body.p : none;
    int rc = aq_wire_seq_in(&l->rx, &l->hdr, p, l->hdr.length, err);

    atomic_fetch_add_explicit(&l->rx_frames, 1, memory_order_relaxed);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return l->hs_done ? open_frame(l, p, err) : handshake_frame(l, p, err);
}

/* 1 = a frame is whole, 0 = needs more bytes. */
static int read_frame(aq_link *l, aq_err *err)
{
    aq_role from = l->role == AQ_DIALER ? AQ_ACCEPTOR : AQ_DIALER;
    size_t n = 0;
    int rc;

    while (l->n_head < AQ_WIRE_HDR_BYTES) {
        if ((rc = aq_tls_read(l->tls, l->head + l->n_head, AQ_WIRE_HDR_BYTES - l->n_head, &n,
                              err)) != 1)
            return rc;
        l->n_head += n;
        if (l->n_head < AQ_WIRE_HDR_BYTES)
            continue;
        aq_cur c = {.p = l->head, .n = AQ_WIRE_HDR_BYTES};
        aq_lstate st = l->hs_done ? (aq_lstate)atomic_load(&l->state) : l->hs.state;
        if ((rc = aq_wire_get_hdr(&c, st, from, l->data_max, &l->hdr, err)) != 1)
            return rc < 0 ? rc : aq_fail(err, AQ_E_PROTO, "a frame without a header");
        if (!l->hs_done && !l->peer_known && l->hdr.length > AQ_WIRE_PREAUTH_MAX)
            return aq_fail(err, AQ_E_LIMIT, "a frame of %llu bytes from a PC that is not trusted",
                           (unsigned long long)l->hdr.length);
        l->n_body = 0;
        l->body.n = 0;
        if ((rc = aq_bytes_reserve(&l->body, (size_t)l->hdr.length)) < 0)
            return aq_fail(err, -rc, "no memory for a frame of %llu bytes",
                           (unsigned long long)l->hdr.length);
    }
    while (l->n_body < l->hdr.length) {
        if ((rc = aq_tls_read(l->tls, l->body.p + l->n_body, (size_t)l->hdr.length - l->n_body, &n,
                              err)) != 1)
            return rc;
        l->n_body += n;
    }
    l->body.n = l->n_body;
    return 1;
}

/* All that TLS holds: 0 = it wants more, 1 = open now. */
static int process(aq_link *l, aq_err *err)
{
    int rc;

    if (!l->tls_done) {
        if ((rc = aq_tls_handshake(l->tls, err)) != 1)
            return rc;
        if ((rc = begin_hs(l, err)) < 0)
            return rc;
    }
    for (;;) {
        if ((rc = read_frame(l, err)) != 1)
            return rc;
        l->n_head = 0;
        if ((rc = take_frame(l, err)) != 0)
            return rc < 0 ? rc : 1;
        pthread_mutex_lock(&l->lock);
        bool stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        if (stop)
            return 0;
    }
}

/* Send what TLS has written: 0 = all gone, 1 = the socket is full. */
static int flush(aq_link *l, aq_err *err)
{
    for (;;) {
        size_t n;
        const uint8_t *p = aq_tls_output(l->tls, &n);

        if (n == 0)
            return 0;
        ssize_t k = send(l->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 1;
        if (k < 0)
            return aq_fail(err, AQ_E_GONE, "the connection to %s broke",
                           l->hs.peer.name[0] ? l->hs.peer.name : "the other PC");
        aq_tls_sent(l->tls, (size_t)k);
        atomic_fetch_add_explicit(&l->tx_bytes, (uint64_t)k, memory_order_relaxed);
        atomic_fetch_add_explicit(&l->tx_sends, 1, memory_order_relaxed);
    }
}

/* The next frame to go: control first. Frames that the state has overtaken are dropped. */
static item *next_item(aq_link *l)
{
    for (;;) {
        pthread_mutex_lock(&l->lock);
        item *it = pop(&l->ctl);
        if (!it)
            it = pop(&l->data);
        pthread_mutex_unlock(&l->lock);
        if (!it)
            return NULL;
        aq_lstate st = (aq_lstate)atomic_load(&l->state);
        aq_err err = {0};
        if (aq_wire_max(st, l->role, it->type) >= 0 &&
            advance(l, it->type, it->seq, true, it->frame.p + AQ_WIRE_HDR_BYTES,
                    it->frame.n - AQ_WIRE_HDR_BYTES, &err) == AQ_OK)
            return it;
        /* A control frame's number is given already, so leaving it out would break the count. */
        bool data = it->type == AQ_T_WINDOW || it->type == AQ_T_ROWS;
        if (!data) {
            aq_log(AQ_LOG_ERROR, "pool", "frame_not_allowed type=%s state=%s %s",
                   aq_wire_type_name(it->type), aq_wire_state_name(st), err.text);
            pthread_mutex_lock(&l->lock);
            l->stop = true;
            pthread_mutex_unlock(&l->lock);
        }
        pthread_mutex_lock(&l->lock);
        put_item(l, it);
        pthread_mutex_unlock(&l->lock);
        if (!data)
            return NULL;
    }
}

/* Sending failed. What the other side said before it closed may still be here, and is the reason. */
static int last_words(aq_link *l, aq_err *err)
{
    aq_err why = {0};

    for (;;) {
        ssize_t n = recv(l->fd, l->rbuf, l->rbuf_cap, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -AQ_E_GONE;
        aq_tls_input(l->tls, l->rbuf, (size_t)n);
        int rc = process(l, &why);
        if (rc < 0) {
            if (err)
                *err = why;
            return rc;
        }
    }
}

static int send_queued(aq_link *l, aq_err *err)
{
    int rc;

    for (;;) {
        if ((rc = flush(l, err)) != 0)
            return rc < 0 ? rc : 0;
        if (!l->hs_done)
            return 0;
        if (!l->sending) {
            if (!(l->sending = next_item(l)))
                return 0;
            l->n_sending = 0;
        }
        aq_bytes *f = &l->sending->frame;
        size_t n = AQ_MIN(f->n - l->n_sending, AQ_LINK_PIECE);
        if ((rc = aq_tls_write(l->tls, f->p + l->n_sending, n, err)) < 0)
            return rc;
        l->n_sending += n;
        if (l->n_sending == f->n) {
            atomic_fetch_add_explicit(&l->tx_frames, 1, memory_order_relaxed);
            pthread_mutex_lock(&l->lock);
            put_item(l, l->sending);
            pthread_mutex_unlock(&l->lock);
            l->sending = NULL;
        }
    }
}

/* Move queued frames to the socket until it is full or nothing is left. */
int aq_link_send_queued(aq_link *l, aq_err *err)
{
    int rc = send_queued(l, err);

    return rc == -AQ_E_GONE && l->hs_done && !aq_link_stopped(l) ? last_words(l, err) : rc;
}

/* From the thread that has the window or its rows: two threads fewer are woken for each hop. False when the link's thread
 * must see to it, because it is at work itself, the socket is full, or the connection broke. */
static bool send_now(aq_link *l)
{
    bool gone = false;

    if (pthread_mutex_trylock(&l->io) != 0)
        return false;
    if (atomic_load(&l->state) != AQ_LS_CLOSED && !aq_link_stopped(l))
        gone = send_queued(l, NULL) >= 0 && !aq_link_wants_out(l) && !aq_link_stopped(l);
    pthread_mutex_unlock(&l->io);
    return gone;
}

bool aq_link_stopped(aq_link *l)
{
    pthread_mutex_lock(&l->lock);
    bool stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

/* Nothing of the old buffer is in use: TLS has read all of it. */
static int grow_rbuf(aq_link *l, aq_err *err)
{
    uint8_t *big = malloc(RBUF_OPEN);

    if (!big)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a connection");
    free(l->rbuf);
    l->rbuf = big;
    l->rbuf_cap = RBUF_OPEN;
    return AQ_OK;
}

int aq_link_pump(aq_link *l, aq_err *err)
{
    int rc;

    for (;;) {
        rc = process(l, err);
        if (rc != 0)
            break;
        if ((rc = aq_link_send_queued(l, err)) < 0)
            return rc;
        if (aq_link_stopped(l) ||
            !aq_link_wants_in(l)) /* there may be input that nobody reads now */
            return 0;
        if (l->hs_done && l->rbuf_cap < RBUF_OPEN && (rc = grow_rbuf(l, err)) < 0)
            return rc;
        ssize_t n = recv(l->fd, l->rbuf, l->rbuf_cap, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n <= 0)
            return aq_fail(err, AQ_E_GONE, "the connection to %s broke",
                           l->hs.peer.name[0] ? l->hs.peer.name : "the other PC");
        atomic_fetch_add_explicit(&l->rx_bytes, (uint64_t)n, memory_order_relaxed);
        l->heard_us = aq_now_us();
        aq_tls_input(l->tls, l->rbuf, (size_t)n);
    }
    if (rc == 1) {
        int sent = flush(l, err);
        return sent < 0 ? sent : 1;
    }
    return rc;
}

void aq_link_refuse(aq_link *l, const aq_err *why)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_lstate st = (aq_lstate)atomic_load(&l->state);

    /* After half a frame the count and the stream are not ours to go on with. */
    if (l->tls_done && !l->told && !l->sending && why->code != AQ_E_GONE && st != AQ_LS_CLOSED) {
        pthread_mutex_lock(&l->lock);
        uint64_t seq = l->hs_done ? l->seq_out - l->ctl.n : l->hs.seq_out;
        pthread_mutex_unlock(&l->lock);
        if (aq_put_refusal(&b, l->role, l->hs_done ? st : l->hs.state, seq, why) == AQ_OK)
            (void)!aq_tls_write(l->tls, b.p, b.n, NULL);
    }
    if (l->tls) {
        aq_tls_close(l->tls);
        if (l->fd >= 0)
            (void)!flush(l, NULL);
    }
    atomic_store(&l->state, AQ_LS_CLOSED);
}

int aq_link_fd(const aq_link *l)
{
    return l->fd;
}

bool aq_link_wants_in(const aq_link *l)
{
    size_t n;

    aq_tls_output(l->tls, &n);
    return n <= (l->hs_done ? OUT_MAX : OUT_FIRST);
}

bool aq_link_wants_out(const aq_link *l)
{
    size_t n;

    aq_tls_output(l->tls, &n);
    return n > 0;
}

int64_t aq_link_deadline_us(const aq_link *l)
{
    return l->deadline_us;
}
