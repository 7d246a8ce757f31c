/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake after TLS: HELLO, then AUTH and AUTH_OK, or REKEY, or on to pairing. See
 * docs/PROTOCOL.md 6 and 7. Pure functions of messages.
 *
 *   proof = HMAC(secret, "aquifer-auth-1\0" | role u8 | epoch u32 | id_d | id_a | nonce_d | nonce_a |
 *                exporter | SHA-256(HELLO of d) | SHA-256(HELLO of a))                            */
#include "hs-priv.h"

#include <stdio.h>

#define AUTH_LABEL "aquifer-auth-1" /* with its NUL */

static const char *const purposes[AQ_FOR_N] = {"step", "status", "request", "bulk", "pair", "join"};

const char *aq_purpose_name(aq_purpose p)
{
    return (unsigned)p < AQ_FOR_N ? purposes[p] : "?";
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

/* "1.0" */
static int get_version(const aq_kv *kv, aq_hello *h, aq_err *err)
{
    char s[16];
    int rc = aq_kv_text(kv, "proto", true, s, sizeof s, err);

    if (rc < 0)
        return rc;
    char *end, *minor;
    unsigned long x = strtoul(s, &end, 10), y = 0;
    bool good = s[0] >= '0' && s[0] <= '9' && *end == '.' && end[1] >= '0' && end[1] <= '9';
    if (good) {
        y = strtoul(minor = end + 1, &end, 10);
        good = end != minor && !*end;
    }
    if (!good)
        return aq_fail(err, AQ_E_FORMAT, "the key proto is not MAJOR.MINOR");
    h->major =
        (uint32_t)AQ_MIN(x, (unsigned long)UINT32_MAX); /* no later one is taken for this one */
    h->minor = (uint32_t)AQ_MIN(y, (unsigned long)UINT32_MAX);
    return AQ_OK;
}

int aq_hello_parse(const void *payload, size_t n, bool from_dialer, aq_hello *ret, aq_err *err)
{
    aq_hello h = {0};
    aq_kv kv;
    char purpose[32];
    int rc;

    if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0 || (rc = get_version(&kv, &h, err)) < 0)
        return rc;
    if (h.major != AQ_WIRE_MAJOR)
        return aq_fail(err, AQ_E_PROTO,
                       "the other PC speaks version %u.%u of the pool's protocol, this one %u.%u: "
                       "update the older of the two",
                       h.major, h.minor, AQ_WIRE_MAJOR, AQ_WIRE_MINOR);
    if ((rc = aq_kv_text(&kv, "purpose", true, purpose, sizeof purpose, err)) < 0)
        return rc;
    for (h.purpose = 0; h.purpose < AQ_FOR_N && strcmp(purpose, purposes[h.purpose]) != 0;)
        h.purpose++;
    if (h.purpose == AQ_FOR_N)
        return aq_fail(err, AQ_E_UNSUPPORTED, "the purpose '%s' is unknown here", purpose);
    bool pair = h.purpose == AQ_FOR_PAIR, joins = h.purpose == AQ_FOR_JOIN && from_dialer;
    if ((rc = aq_kv_hex(&kv, "id", true, h.id.b, 32, err)) < 0 ||
        (rc = aq_kv_text(&kv, "name", true, h.name, sizeof h.name, err)) < 0 ||
        (rc = aq_kv_text(&kv, "app", false, h.app, sizeof h.app, err)) < 0 ||
        (rc = aq_kv_bits(&kv, "feat", false, &h.feat, err)) < 0 ||
        (rc = aq_kv_bits(&kv, "need", false, &h.need, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "nonce", !pair, h.nonce, 32, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "epoch", !pair && !joins, UINT32_MAX, &h.epoch, err)) < 0 ||
        (rc = aq_kv_u64(&kv, "roster", false, UINT64_MAX, &h.roster, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "boot", false, h.boot, 8, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "port", false, 65535, &h.port, err)) < 0)
        return rc;
    if ((rc = aq_kv_hex(&kv, "to", false, h.to.b, 32, err)) < 0)
        return rc;
    h.has_to = rc == 1;
    if ((rc = aq_kv_hex(&kv, "pool", !pair && !joins, h.pool, 16, err)) < 0)
        return rc;
    h.has_pool = rc == 1;
    *ret = h;
    return AQ_OK;
}

int aq_hello_print(const aq_hello *h, bool from_dialer, aq_bytes *b)
{
    char proto[32];
    int rc;

    snprintf(proto, sizeof proto, "%u.%u", h->major, h->minor);
    if ((rc = aq_kv_put_text(b, "proto", proto)) < 0 ||
        (rc = aq_kv_put_bits(b, "feat", h->feat)) < 0 ||
        (rc = aq_kv_put_bits(b, "need", h->need)) < 0 ||
        (rc = aq_kv_put_text(b, "purpose", aq_purpose_name(h->purpose))) < 0 ||
        (rc = aq_kv_put_hex(b, "id", h->id.b, 32)) < 0 ||
        (rc = aq_kv_put_text(b, "name", h->name)) < 0 ||
        (rc = aq_kv_put_text(b, "app", h->app)) < 0 ||
        (rc = aq_kv_put_hex(b, "boot", h->boot, 8)) < 0 ||
        (rc = aq_kv_put_u64(b, "port", h->port)) < 0)
        return rc;
    if (h->has_to && (rc = aq_kv_put_hex(b, "to", h->to.b, 32)) < 0)
        return rc;
    if (h->purpose != AQ_FOR_PAIR && (rc = aq_kv_put_hex(b, "nonce", h->nonce, 32)) < 0)
        return rc;
    if (h->has_pool && ((rc = aq_kv_put_hex(b, "pool", h->pool, 16)) < 0 ||
                        (rc = aq_kv_put_u64(b, "epoch", h->epoch)) < 0 ||
                        (rc = aq_kv_put_u64(b, "roster", h->roster)) < 0))
        return rc;
    return AQ_OK;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

int aq_proof_make(const uint8_t secret[AQ_SECRET_BYTES], aq_role role, const aq_proof *p,
                  uint8_t ret[32])
{
    uint8_t m[sizeof AUTH_LABEL + 1 + 4 + 7 * 32], *w = m;
    const uint8_t *parts[7] = {p->id_d.b,   p->id_a.b,  p->nonce_d, p->nonce_a,
                               p->exporter, p->hello_d, p->hello_a};

    memcpy(w, AUTH_LABEL, sizeof AUTH_LABEL);
    w += sizeof AUTH_LABEL;
    *w++ = (uint8_t)role;
    for (int i = 0; i < 4; i++)
        *w++ = (uint8_t)(p->epoch >> 8 * i);
    for (int i = 0; i < 7; i++, w += 32)
        memcpy(w, parts[i], 32);
    int rc = aq_hmac(secret, m, sizeof m, ret);
    aq_mem_wipe(m, sizeof m);
    return rc;
}

/* ---- frames ---------------------------------------------------------------------------------- */

int aq_put_frame(aq_bytes *out, uint16_t type, uint16_t flags, uint64_t seq, const void *payload,
                 size_t n)
{
    int rc = aq_bytes_reserve(out, AQ_WIRE_HDR_BYTES + n);

    if (rc < 0)
        return rc;
    aq_wire_put_hdr(out->p + out->n,
                    &(aq_hdr){.type = type, .flags = flags, .length = n, .seq = seq});
    out->n += AQ_WIRE_HDR_BYTES;
    return aq_bytes_put(out, payload, n);
}

int aq_put_refusal(aq_bytes *out, aq_role role, aq_lstate state, uint64_t seq, const aq_err *why)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    bool busy = why->code == AQ_E_BUSY && aq_wire_max(state, role, AQ_T_BUSY) > 0;
    int rc = busy ? 0 : aq_kv_put_u64(&b, "code", (uint64_t)why->code);

    if (rc < 0 || (rc = aq_kv_put_text(&b, "text", why->text)) < 0)
        return rc;
    return aq_put_frame(out, busy ? AQ_T_BUSY : AQ_T_ERROR, 0, seq, b.p, b.n);
}

int aq_told(uint16_t type, const void *payload, size_t n, const char *name, aq_err *err)
{
    aq_kv kv;
    uint32_t code = type == AQ_T_BUSY ? AQ_E_BUSY : type == AQ_T_BYE ? AQ_E_GONE : AQ_E_PROTO;
    char text[420] = "", who[AQ_NAME_MAX + 1] = "";
    int rc = aq_kv_parse(payload, n, &kv, err);

    if (rc < 0)
        return rc;
    if (type == AQ_T_BYE) {
        uint32_t n_reason = 0;
        const char *reason = aq_kv_get(&kv, "reason", &n_reason);
        if (reason && n_reason == 8 && !memcmp(reason, "replaced", 8))
            return aq_fail(err, AQ_E_BUSY, "%s works for another program of this PC now",
                           name[0] ? name : "the other PC");
        return aq_fail(err, AQ_E_GONE, "%s has left", name[0] ? name : "the other PC");
    }
    if (type == AQ_T_ERROR && (rc = aq_kv_u32(&kv, "code", true, UINT16_MAX, &code, err)) < 0)
        return rc;
    if ((rc = aq_kv_text(&kv, "text", true, text, sizeof text, err)) < 0 ||
        (rc = aq_kv_text(&kv, "who_name", false, who, sizeof who, err)) < 0)
        return rc;
    if (type == AQ_T_BUSY && who[0])
        return aq_fail(err, AQ_E_BUSY, "%s works for %s", name[0] ? name : "the other PC", who);
    if (code == 0)
        code = AQ_E_PROTO;
    return aq_fail(err, (int)code, "%s%s%s", name, name[0] ? ": " : "",
                   text[0] ? text : aq_status_text((int)code));
}

/* ---- the machine ----------------------------------------------------------------------------- */

void aq_hs_init(aq_hs *hs, const aq_hs_cfg *cfg)
{
    *hs = (aq_hs){.cfg = *cfg, .state = AQ_LS_HELLO};
    hs->cfg.me.major = AQ_WIRE_MAJOR;
    hs->cfg.me.minor = AQ_WIRE_MINOR;
}

void aq_hs_clear(aq_hs *hs)
{
    aq_bytes_wipe(&hs->rekey_roster);
    aq_mem_wipe(hs, sizeof *hs);
}

static int no_memory(aq_err *err)
{
    return aq_fail(err, AQ_E_NOMEM, "no memory for a handshake");
}

static int hash(const void *p, size_t n, uint8_t ret[32])
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *h = aq_sha256_new();

    if (!h || aq_sha256_add(h, p, n) < 0)
        return -AQ_E_NOMEM;
    return aq_sha256_end(h, ret);
}

static int send_hello(aq_hs *hs, aq_bytes *out, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    bool dialer = hs->cfg.role == AQ_DIALER;

    if (aq_hello_print(&hs->cfg.me, dialer, &b) < 0 ||
        hash(b.p, b.n, dialer ? hs->proof.hello_d : hs->proof.hello_a) < 0 ||
        aq_put_frame(out, AQ_T_HELLO, 0, hs->seq_out, b.p, b.n) < 0)
        return no_memory(err);
    hs->seq_out++;
    return AQ_OK;
}

int aq_hs_begin(aq_hs *hs, aq_bytes *out, aq_err *err)
{
    return send_hello(hs, out, err);
}

static int send_proof(aq_hs *hs, uint16_t type, aq_bytes *out, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint8_t mac[32];

    if (aq_proof_make(hs->cfg.secret, hs->cfg.role, &hs->proof, mac) < 0 ||
        aq_kv_put_hex(&b, "proof", mac, 32) < 0 ||
        aq_put_frame(out, type, 0, hs->seq_out, b.p, b.n) < 0)
        return no_memory(err);
    hs->seq_out++;
    return AQ_OK;
}

static int check_proof(aq_hs *hs, const void *payload, size_t n, aq_err *err)
{
    aq_kv kv;
    uint8_t got[32], want[32];
    aq_role other = hs->cfg.role == AQ_DIALER ? AQ_ACCEPTOR : AQ_DIALER;
    int rc;

    if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "proof", true, got, 32, err)) < 0)
        return rc;
    if (aq_proof_make(hs->cfg.secret, other, &hs->proof, want) < 0)
        return no_memory(err);
    bool equal = aq_mem_equal_ct(got, want, 32);
    aq_mem_wipe(want, sizeof want);
    if (!equal)
        return aq_fail(err, AQ_E_AUTH,
                       "%s does not know this pool's secret, or something stands in between: pair "
                       "the two PCs again",
                       hs->peer.name);
    return AQ_OK;
}

static int send_rekey(aq_hs *hs, aq_bytes *out, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0}, roster = {0};
    int rc = hs->cfg.share ? hs->cfg.share(hs->cfg.user, &roster, err) : -AQ_E_AUTH;

    if (rc < 0)
        return rc;
    const char *text = aq_bytes_str(&roster);
    /* Reserved first: growing would leave copies of the secret behind. */
    if (!text || aq_bytes_reserve(&b, roster.n + 256) < 0 ||
        aq_kv_put_u64(&b, "epoch", hs->cfg.me.epoch) < 0 ||
        aq_kv_put_hex(&b, "secret", hs->cfg.secret, 32) < 0 ||
        aq_kv_put_text(&b, "roster", text) < 0 ||
        aq_put_frame(out, AQ_T_REKEY, 0, hs->seq_out, b.p, b.n) < 0)
        return no_memory(err);
    hs->seq_out++;
    return AQ_HS_REKEY_SENT;
}

static int get_rekey(aq_hs *hs, const void *payload, size_t n, aq_err *err)
{
    aq_kv kv;
    uint32_t n_roster = 0;
    int rc;

    if (!hs->cfg.peer_known || hs->peer.epoch <= hs->cfg.me.epoch)
        return aq_fail(err, AQ_E_PROTO, "a new secret that was not due");
    if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0 ||
        (rc = aq_kv_u32(&kv, "epoch", true, UINT32_MAX, &hs->rekey_epoch, err)) < 0 ||
        (rc = aq_kv_hex(&kv, "secret", true, hs->rekey_secret, 32, err)) < 0)
        return rc;
    const char *roster = aq_kv_get(&kv, "roster", &n_roster);
    if (!roster)
        return aq_fail(err, AQ_E_FORMAT, "the key roster is missing");
    if (aq_bytes_put(&hs->rekey_roster, roster, n_roster) < 0)
        return no_memory(err);
    return AQ_HS_REKEYED;
}

/* What is refused, whoever dialed. */
static int check_hello(aq_hs *hs, aq_err *err)
{
    const aq_hello *p = &hs->peer, *me = &hs->cfg.me;
    bool dialer = hs->cfg.role == AQ_DIALER;

    if (!aq_id_equal(&p->id, &hs->cfg.peer))
        return aq_fail(err, AQ_E_PROTO, "%s calls itself another than its certificate does",
                       p->name);
    if (aq_id_equal(&p->id, &me->id))
        return aq_fail(err, AQ_E_MISMATCH,
                       "this is the same PC, or one that has a copy of its state folder");
    if (p->need & ~me->feat || me->need & ~p->feat)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "%s and this PC do not have the same features: update the older of the two",
                       p->name);
    if (dialer && p->purpose != me->purpose)
        return aq_fail(err, AQ_E_PROTO, "%s answers for another purpose", p->name);
    if (dialer ? me->has_to && !aq_id_equal(&me->to, &p->id)
               : p->has_to && !aq_id_equal(&p->to, &me->id))
        return aq_fail(err, AQ_E_MISMATCH, "another PC than expected has this address");
    switch (p->purpose) {
    case AQ_FOR_PAIR:
        if (!dialer && !hs->cfg.pair_open)
            return aq_fail(err, AQ_E_BUSY, "%s is not ready to pair: open its Pool page", me->name);
        if (p->has_pool && me->has_pool)
            return aq_fail(err, AQ_E_MISMATCH,
                           "%s and %s are in a pool already: one of them must leave it first",
                           p->name, me->name);
        return AQ_OK;
    case AQ_FOR_JOIN:
        if (!dialer && (!hs->cfg.join_open || !me->has_pool))
            return aq_fail(err, AQ_E_BUSY, "%s takes no PC by secret now", me->name);
        return AQ_OK;
    case AQ_FOR_STEP:
    case AQ_FOR_STATUS:
    case AQ_FOR_REQUEST:
    case AQ_FOR_BULK:
    case AQ_FOR_N:
        break;
    }
    if (!hs->cfg.peer_known || !p->has_pool || !me->has_pool ||
        memcmp(p->pool, me->pool, sizeof p->pool) != 0)
        return aq_fail(err, AQ_E_AUTH, "%s and %s are not in the same pool: pair them first",
                       p->name, me->name);
    return AQ_OK;
}

static int get_hello(aq_hs *hs, const void *payload, size_t n, aq_bytes *out, aq_err *err)
{
    bool dialer = hs->cfg.role == AQ_DIALER;
    aq_hello *me = &hs->cfg.me;
    int rc;

    if ((rc = aq_hello_parse(payload, n, !dialer, &hs->peer, err)) < 0 ||
        (rc = check_hello(hs, err)) < 0)
        return rc;
    if (hash(payload, n, dialer ? hs->proof.hello_a : hs->proof.hello_d) < 0)
        return no_memory(err);
    if (!dialer) {
        me->purpose = hs->peer.purpose;
        if ((rc = send_hello(hs, out, err)) < 0)
            return rc;
    }
    const aq_hello *d = dialer ? me : &hs->peer, *a = dialer ? &hs->peer : me;
    hs->proof.epoch = a->epoch;
    hs->proof.id_d = d->id;
    hs->proof.id_a = a->id;
    memcpy(hs->proof.nonce_d, d->nonce, 32);
    memcpy(hs->proof.nonce_a, a->nonce, 32);
    memcpy(hs->proof.exporter, hs->cfg.exporter, 32);
    if (me->purpose == AQ_FOR_PAIR) {
        hs->state = AQ_LS_PAIR;
        return AQ_HS_PAIR;
    }
    hs->state = AQ_LS_AUTH;
    if (me->purpose != AQ_FOR_JOIN && d->epoch != a->epoch)
        return me->epoch > hs->peer.epoch ? send_rekey(hs, out, err) : AQ_HS_MORE;
    return dialer ? send_proof(hs, AQ_T_AUTH, out, err) : AQ_HS_MORE;
}

int aq_hs_frame(aq_hs *hs, const aq_hdr *h, const void *payload, aq_bytes *out, bool *ret_told,
                aq_err *err)
{
    bool same_epoch = hs->cfg.me.purpose == AQ_FOR_JOIN || hs->peer.epoch == hs->cfg.me.epoch;
    int rc;

    switch (h->type) {
    case AQ_T_ERROR:
    case AQ_T_BUSY:
    case AQ_T_BYE:
        *ret_told = true;
        return aq_told(h->type, payload, h->length, hs->peer.name, err);
    case AQ_T_HELLO:
        if (hs->state == AQ_LS_HELLO)
            return get_hello(hs, payload, h->length, out, err);
        break;
    case AQ_T_REKEY:
        if (hs->state == AQ_LS_AUTH)
            return get_rekey(hs, payload, h->length, err);
        break;
    case AQ_T_AUTH:
        if (hs->state != AQ_LS_AUTH || hs->cfg.role != AQ_ACCEPTOR || !same_epoch)
            break;
        if ((rc = check_proof(hs, payload, h->length, err)) < 0 ||
            (rc = send_proof(hs, AQ_T_AUTH_OK, out, err)) < 0)
            return rc;
        hs->state = hs->cfg.me.purpose == AQ_FOR_STEP ? AQ_LS_OPEN : AQ_LS_STATUS;
        return AQ_HS_OPEN;
    case AQ_T_AUTH_OK:
        if (hs->state != AQ_LS_AUTH || hs->cfg.role != AQ_DIALER || !same_epoch)
            break;
        if ((rc = check_proof(hs, payload, h->length, err)) < 0)
            return rc;
        hs->state = hs->cfg.me.purpose == AQ_FOR_STEP ? AQ_LS_OPEN : AQ_LS_STATUS;
        return AQ_HS_OPEN;
    default:
        break;
    }
    return aq_fail(err, AQ_E_PROTO, "a frame that was not due in the handshake");
}
