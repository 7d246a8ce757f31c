/* SPDX-License-Identifier: Apache-2.0 */
/* The pairing machine of docs/PROTOCOL.md 8, a pure function of messages.
 *
 *   commit = SHA-256("aquifer-pair-commit-1\0" | role u8 | own cert | own nonce)
 *   s      = SHA-256("aquifer-pair-digits-1\0" | cert_d | cert_a | nonce_d | nonce_a | exporter)
 *   digits = big-endian u64 of s[0..8) mod 1,000,000
 *
 * Who is in between must promise his nonces before he sees the others', so he meets the same digits
 * on both screens once in a million tries. */
#include "pair-priv.h"

#include <openssl/evp.h>
#include <stdio.h>

#define COMMIT_LABEL "aquifer-pair-commit-1" /* with their NULs */
#define DIGITS_LABEL "aquifer-pair-digits-1"

void aq_pair_commit_of(aq_role role, const uint8_t cert[32], const uint8_t nonce[32],
                       uint8_t ret[32])
{
    uint8_t m[sizeof COMMIT_LABEL + 1 + 64];
    unsigned n = 0;

    memcpy(m, COMMIT_LABEL, sizeof COMMIT_LABEL);
    m[sizeof COMMIT_LABEL] = (uint8_t)role;
    memcpy(m + sizeof COMMIT_LABEL + 1, cert, 32);
    memcpy(m + sizeof COMMIT_LABEL + 33, nonce, 32);
    /* Only memory can run out here; then the commitment is one that nobody can open. */
    if (EVP_Digest(m, sizeof m, ret, &n, EVP_sha256(), NULL) != 1)
        memset(ret, 0, 32);
    aq_mem_wipe(m, sizeof m);
}

void aq_pair_digits_of(const uint8_t cert_d[32], const uint8_t cert_a[32],
                       const uint8_t nonce_d[32], const uint8_t nonce_a[32],
                       const uint8_t exporter[32], char ret[7])
{
    uint8_t m[sizeof DIGITS_LABEL + 5 * 32], s[32] = {0}, *p = m + sizeof DIGITS_LABEL;
    const uint8_t *parts[5] = {cert_d, cert_a, nonce_d, nonce_a, exporter};
    uint64_t x = 0;
    unsigned n = 0;

    memcpy(m, DIGITS_LABEL, sizeof DIGITS_LABEL);
    for (int i = 0; i < 5; i++)
        memcpy(p + 32 * i, parts[i], 32);
    if (EVP_Digest(m, sizeof m, s, &n, EVP_sha256(), NULL) != 1) {
        ret[0] = 0; /* no digits: nothing can be agreed */
        return;
    }
    for (int i = 0; i < 8; i++)
        x = x << 8 | s[i];
    snprintf(ret, 7, "%06u", (unsigned)(x % 1000000));
    aq_mem_wipe(m, sizeof m);
}

static int put_hex(aq_pair_msg *m, uint16_t type, const char *key, const uint8_t v[32], aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};

    if (aq_kv_put_hex(&b, key, v, 32) < 0 || b.n > sizeof m->payload)
        return aq_fail(err, AQ_E_NOMEM, "no memory for pairing");
    m->type = type;
    m->n = b.n;
    memcpy(m->payload, b.p, b.n);
    return AQ_OK;
}

static const uint8_t *own_cert(const aq_pair *p)
{
    return p->cfg.role == AQ_DIALER ? p->cfg.cert_d : p->cfg.cert_a;
}

static const uint8_t *other_cert(const aq_pair *p)
{
    return p->cfg.role == AQ_DIALER ? p->cfg.cert_a : p->cfg.cert_d;
}

static int send_commit(aq_pair *p, aq_pair_msg *ret, aq_err *err)
{
    uint8_t c[32];

    aq_pair_commit_of(p->cfg.role, own_cert(p), p->cfg.nonce, c);
    return put_hex(ret, AQ_T_PAIR_COMMIT, "commit", c, err);
}

static int send_nonce(aq_pair *p, aq_pair_msg *ret, aq_err *err)
{
    return put_hex(ret, AQ_T_PAIR_REVEAL, "nonce", p->cfg.nonce, err);
}

int aq_pair_init(aq_pair *p, const aq_pair_cfg *cfg, aq_pair_msg *ret, aq_err *err)
{
    *p = (aq_pair){.cfg = *cfg, .step = AQ_PAIR_COMMITS};
    *ret = (aq_pair_msg){0};
    return cfg->role == AQ_DIALER ? send_commit(p, ret, err) : AQ_OK;
}

void aq_pair_clear(aq_pair *p)
{
    aq_mem_wipe(p, sizeof *p);
}

static int out_of_order(aq_err *err)
{
    return aq_fail(err, AQ_E_PROTO, "the other PC does not keep the order of pairing");
}

static int take_commit(aq_pair *p, const aq_kv *kv, aq_pair_msg *ret, aq_err *err)
{
    int rc = aq_kv_hex(kv, "commit", true, p->commit, 32, err);

    if (rc < 0)
        return rc;
    p->step = AQ_PAIR_REVEALS;
    /* The dialer opens first, the acceptor only what it can check against an opened one. */
    return p->cfg.role == AQ_DIALER ? send_nonce(p, ret, err) : send_commit(p, ret, err);
}

static int take_nonce(aq_pair *p, const aq_kv *kv, aq_pair_msg *ret, aq_err *err)
{
    uint8_t want[32];
    aq_role other = p->cfg.role == AQ_DIALER ? AQ_ACCEPTOR : AQ_DIALER;
    int rc = aq_kv_hex(kv, "nonce", true, p->nonce, 32, err);

    if (rc < 0)
        return rc;
    aq_pair_commit_of(other, other_cert(p), p->nonce, want);
    if (!aq_mem_equal_ct(want, p->commit, 32))
        return aq_fail(err, AQ_E_AUTH,
                       "the other PC did not keep what it promised: another device may be in "
                       "between. Nothing was shared");
    bool dialer = p->cfg.role == AQ_DIALER;
    aq_pair_digits_of(p->cfg.cert_d, p->cfg.cert_a, dialer ? p->cfg.nonce : p->nonce,
                      dialer ? p->nonce : p->cfg.nonce, p->cfg.exporter, p->digits);
    if (!p->digits[0])
        return aq_fail(err, AQ_E_NOMEM, "no memory for pairing");
    p->step = AQ_PAIR_COMPARES;
    return dialer ? AQ_OK : send_nonce(p, ret, err);
}

int aq_pair_take(aq_pair *p, uint16_t type, const void *payload, size_t n, aq_pair_msg *ret,
                 aq_err *err)
{
    aq_kv kv;
    int rc;

    *ret = (aq_pair_msg){0};
    if ((rc = aq_kv_parse(payload, n, &kv, err)) < 0)
        goto out;
    if (type == AQ_T_PAIR_COMMIT && p->step == AQ_PAIR_COMMITS) {
        rc = take_commit(p, &kv, ret, err);
    } else if (type == AQ_T_PAIR_REVEAL && p->step == AQ_PAIR_REVEALS) {
        rc = take_nonce(p, &kv, ret, err);
    } else if (type == AQ_T_PAIR_MATCH && p->step == AQ_PAIR_COMPARES && !p->heard) {
        p->heard = true;
        if (p->said)
            p->step = AQ_PAIR_AGREED;
        rc = AQ_OK;
    } else {
        rc = out_of_order(err);
    }
out:
    if (rc < 0) {
        p->step = AQ_PAIR_FAILED;
        *ret = (aq_pair_msg){0};
    }
    return rc;
}

int aq_pair_match(aq_pair *p, aq_pair_msg *ret, aq_err *err)
{
    if (p->step != AQ_PAIR_COMPARES || p->said)
        return aq_fail(err, AQ_E_INVAL, "there are no digits to compare");
    p->said = true;
    if (p->heard)
        p->step = AQ_PAIR_AGREED;
    *ret = (aq_pair_msg){.type = AQ_T_PAIR_MATCH};
    return AQ_OK;
}
