/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO and AUTH between two machines, with somebody in between who may change, replay or relay. */
#include "hs-priv.h"
#include "tap.h"
#include "torture.h"

#include <stdio.h>

static const uint8_t pool1[16] = "pool one", pool2[16] = "pool two";

typedef struct pair {
    aq_hs d, a;
} pair;

static int share(void *user, aq_bytes *ret, aq_err *err)
{
    return aq_bytes_puts(ret, "aquifer-roster 1;…");
}

static void fill(uint8_t *p, size_t n, uint8_t with)
{
    memset(p, with, n);
}

/* Two members of one pool, before any frame. */
static void setup(aq_hs_cfg *d, aq_hs_cfg *a)
{
    *d = (aq_hs_cfg){.role = AQ_DIALER, .peer_known = true, .share = share};
    *a = (aq_hs_cfg){.role = AQ_ACCEPTOR, .peer_known = true, .share = share};
    for (int k = 0; k < 2; k++) {
        aq_hs_cfg *c = k ? a : d;
        aq_hello *h = &c->me;
        fill(h->id.b, 32, k ? 0xaa : 0xdd);
        fill(c->peer.b, 32, k ? 0xdd : 0xaa);
        fill(h->nonce, 32, k ? 0x0a : 0x0d);
        fill(c->exporter, 32, 0xee);
        fill(c->secret, 32, 0x55);
        memcpy(h->pool, pool1, 16);
        h->has_pool = true;
        h->epoch = 7;
        h->feat = AQ_FEAT_SPLIT;
        snprintf(h->name, sizeof h->name, "%s", k ? "Laptop" : "Studio");
        snprintf(h->app, sizeof h->app, "test 1");
    }
}

/* Change the payload of the k-th frame (0 HELLO d, 1 HELLO a, 2 AUTH, 3 AUTH_OK); same length. */
typedef void (*meddle_fn)(unsigned k, uint16_t type, uint8_t *payload, size_t n);

typedef struct result {
    int d, a; /* last return of each */
    bool d_told, a_told;
    aq_err d_err, a_err;
    aq_lstate d_state, a_state;
    unsigned frames;
    uint8_t seen[4][2048]; /* payloads as they went */
    size_t n_seen[4];
    uint16_t type[4];
    uint32_t rekey_epoch;
    aq_hello d_peer, a_peer;
} result;

static void run(const aq_hs_cfg *dc, const aq_hs_cfg *ac, meddle_fn meddle, result *r)
{
    aq_hs hs[2];
    aq_bytes wire[2] = {{0}, {0}}; /* towards d, towards a */
    size_t off[2] = {0, 0};
    int rc[2] = {0, 0};

    *r = (result){0};
    aq_hs_init(&hs[0], dc);
    aq_hs_init(&hs[1], ac);
    rc[0] = aq_hs_begin(&hs[0], &wire[1], &r->d_err);
    for (int who = 1, idle = 0; idle < 2; who = !who) {
        aq_cur c = {.p = wire[who].p, .n = wire[who].n, .off = off[who]};
        aq_hdr h;
        aq_err err = {0};
        bool *told = who ? &r->a_told : &r->d_told;
        aq_role from = who ? AQ_DIALER : AQ_ACCEPTOR;

        if (rc[who] != AQ_HS_MORE || aq_cur_left(&c) == 0) {
            idle++;
            continue;
        }
        idle = 0;
        rc[who] = aq_wire_get_hdr(&c, hs[who].state, from, 0, &h, &err);
        if (rc[who] == 1) {
            uint8_t *p = wire[who].p + c.off;
            if (r->frames < 4) {
                r->type[r->frames] = h.type;
                if (meddle)
                    meddle(r->frames, h.type, p, h.length);
                memcpy(r->seen[r->frames], p, AQ_MIN(h.length, sizeof r->seen[0]));
                r->n_seen[r->frames] = h.length;
            }
            r->frames++;
            rc[who] = aq_hs_frame(&hs[who], &h, p, &wire[!who], told, &err);
            off[who] = c.off + h.length;
        }
        if (rc[who] < 0 && !*told &&
            aq_put_refusal(&wire[!who], who ? AQ_ACCEPTOR : AQ_DIALER, hs[who].state,
                           hs[who].seq_out, &err) < 0)
            rc[who] = -99;
        *(who ? &r->a_err : &r->d_err) = err;
    }
    r->d = rc[0];
    r->a = rc[1];
    r->d_state = hs[0].state;
    r->a_state = hs[1].state;
    r->rekey_epoch = hs[0].rekey_epoch ? hs[0].rekey_epoch : hs[1].rekey_epoch;
    r->d_peer = hs[0].peer;
    r->a_peer = hs[1].peer;
    for (int k = 0; k < 2; k++) {
        aq_hs_clear(&hs[k]);
        aq_bytes_wipe(&wire[k]);
    }
}

static void test_vector(void)
{
    static const char *const want[2] = {
        "0efaaa0e48bbd72ec051a3d3f4ead20db62268180b88df69d8b87b675a4405b7",
        "4b924588c9e0938cf4b80bdb39e8968f86cca81fd612848de89e5e022051b970"};
    static const char *const text[4] = {"dialer key", "acceptor key", "dialer hello",
                                        "acceptor hello"};
    uint8_t secret[32], sum[32];
    aq_proof p = {.epoch = 7};
    uint8_t *to[4] = {p.id_d.b, p.id_a.b, p.hello_d, p.hello_a};
    char hex[65];

    for (int i = 0; i < 32; i++) {
        p.nonce_d[i] = (uint8_t)i;
        p.nonce_a[i] = (uint8_t)(32 + i);
        p.exporter[i] = (uint8_t)(64 + i);
        secret[i] = (uint8_t)(96 + i);
    }
    for (int i = 0; i < 4; i++) {
        aq_sha256 *h = aq_sha256_new();
        ok(h && aq_sha256_add(h, text[i], strlen(text[i])) == 0 && aq_sha256_end(h, sum) == 0,
           "hash of %s", text[i]);
        aq_sha256_free(h);
        memcpy(to[i], sum, 32);
    }
    for (int role = 1; role <= 2; role++) {
        ok(aq_proof_make(secret, (aq_role)role, &p, sum) == 0, "a proof");
        aq_hex(sum, 32, hex);
        ok(strcmp(hex, want[role - 1]) == 0, "proof(%d) is the page's", role);
    }
}

static result kept;

static void replay_auth(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    if (k == 2 && n == kept.n_seen[2])
        memcpy(p, kept.seen[2], n);
}

static void reflect(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    static uint8_t proof[512];

    if (k == 2)
        memcpy(proof, p, AQ_MIN(n, sizeof proof));
    if (k == 3)
        memcpy(p, proof, AQ_MIN(n, sizeof proof));
}

/* Take a feature away in the dialer's HELLO, so that both would do with less. */
static void downgrade(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    char *at = k == 0 ? memmem(p, n, "feat=0000000000000001", 21) : NULL;

    if (at)
        at[20] = '0';
}

static void major2(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    char *at = k == 0 ? memmem(p, n, "proto=1.0", 9) : NULL;

    if (at)
        at[6] = '2';
}

static void bit(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    if (k == 2 && n > 10)
        p[10] = p[10] == '0' ? '1' : '0';
}

static void bit_ok(unsigned k, uint16_t type, uint8_t *p, size_t n)
{
    if (k == 3 && n > 10)
        p[10] = p[10] == '0' ? '1' : '0';
}

static void test_good(void)
{
    aq_hs_cfg d, a;
    result r;

    setup(&d, &a);
    run(&d, &a, NULL, &r);
    ok(r.d == AQ_HS_OPEN && r.a == AQ_HS_OPEN && r.d_state == AQ_LS_OPEN &&
           r.a_state == AQ_LS_OPEN && r.frames == 4,
       "open after four frames");
    ok(r.type[0] == AQ_T_HELLO && r.type[1] == AQ_T_HELLO && r.type[2] == AQ_T_AUTH &&
           r.type[3] == AQ_T_AUTH_OK,
       "HELLO, HELLO, AUTH, AUTH_OK");
    ok(strcmp(r.d_peer.name, "Laptop") == 0 && strcmp(r.a_peer.name, "Studio") == 0 &&
           r.a_peer.feat == AQ_FEAT_SPLIT,
       "each knows the other's name");
    unsigned leaks = 0;
    for (int k = 0; k < 4; k++)
        leaks += memmem(r.seen[k], r.n_seen[k], "5555555555555555", 16) != NULL;
    ok(leaks == 0, "the secret is in none of them");
    kept = r;
    d.me.purpose = AQ_FOR_STATUS;
    run(&d, &a, NULL, &r);
    ok(r.d == AQ_HS_OPEN && r.d_state == AQ_LS_STATUS && r.a_state == AQ_LS_STATUS, "for status");
    setup(&d, &a);
    d.me.minor = 0;
    memcpy(d.me.to.b, a.me.id.b, 32);
    d.me.has_to = true;
    run(&d, &a, NULL, &r);
    ok(r.d == AQ_HS_OPEN && r.a == AQ_HS_OPEN, "to the one that is meant");
}

/* Nobody is told anything before the dialer has proved itself. */
static void test_attacks(void)
{
    aq_hs_cfg d, a;
    result r;

    setup(&d, &a);
    d.secret[31] ^= 1;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_AUTH && r.d == -AQ_E_AUTH && r.d_told && r.frames == 4 &&
           r.type[3] == AQ_T_ERROR,
       "wrong secret: %s", r.d_err.text);
    setup(&d, &a);
    fill(a.me.nonce, 32, 0x77);
    run(&d, &a, replay_auth, &r);
    ok(r.a == -AQ_E_AUTH, "a replayed AUTH against a fresh nonce");
    setup(&d, &a);
    fill(a.exporter, 32, 0xef);
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_AUTH && r.d == -AQ_E_AUTH, "a relay with two TLS connections");
    setup(&d, &a);
    run(&d, &a, reflect, &r);
    ok(r.d == -AQ_E_AUTH && !r.d_told, "the dialer's own proof sent back");
    setup(&d, &a);
    run(&d, &a, downgrade, &r);
    ok(r.a == -AQ_E_AUTH, "a feature taken away on the way");
    setup(&d, &a);
    run(&d, &a, bit, &r);
    ok(r.a == -AQ_E_AUTH, "a digit of AUTH changed");
    setup(&d, &a);
    run(&d, &a, bit_ok, &r);
    ok(r.d == -AQ_E_AUTH, "a digit of AUTH_OK changed");
    setup(&d, &a);
    fill(d.peer.b, 32, 0xab);
    run(&d, &a, NULL, &r);
    ok(r.d == -AQ_E_PROTO, "an id that is not the certificate's");
    setup(&d, &a);
    memcpy(d.me.id.b, a.me.id.b, 32);
    memcpy(a.peer.b, a.me.id.b, 32);
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_MISMATCH, "the PC itself: %s", r.d_err.text);
}

static void test_refusals(void)
{
    aq_hs_cfg d, a;
    result r;

    setup(&d, &a);
    run(&d, &a, major2, &r);
    ok(r.a == -AQ_E_PROTO && r.d == -AQ_E_PROTO && r.d_told && strstr(r.d_err.text, "2.0") &&
           strstr(r.d_err.text, "1.0"),
       "another major: %s", r.d_err.text);
    setup(&d, &a);
    a.peer_known = false;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_AUTH && r.d == -AQ_E_AUTH, "no member: %s", r.d_err.text);
    setup(&d, &a);
    memcpy(a.me.pool, pool2, 16);
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_AUTH, "another pool");
    setup(&d, &a);
    d.me.has_pool = false;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_FORMAT, "a member without a pool: %s", r.a_err.text);
    setup(&d, &a);
    d.me.need = AQ_FEAT_SHARE;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_UNSUPPORTED, "a need that is not met");
    setup(&d, &a);
    a.me.need = AQ_FEAT_RING;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_UNSUPPORTED, "the other way");
    setup(&d, &a);
    d.me.has_to = true;
    fill(d.me.to.b, 32, 0x99);
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_MISMATCH && r.d == -AQ_E_MISMATCH, "another PC is meant");
    setup(&d, &a);
    d.me.purpose = AQ_FOR_PAIR;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_BUSY && r.d == -AQ_E_BUSY && r.type[1] == AQ_T_BUSY &&
           strstr(r.d_err.text, "Laptop"),
       "pairing that is not open: %s", r.d_err.text);
    a.pair_open = true;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_MISMATCH, "both in a pool");
    d.me.has_pool = false;
    run(&d, &a, NULL, &r);
    ok(r.a == AQ_HS_PAIR && r.d == AQ_HS_PAIR && r.frames == 2 && r.d_state == AQ_LS_PAIR &&
           r.d_peer.has_pool && !r.a_peer.has_pool,
       "on to pairing");
}

static void test_rekey(void)
{
    aq_hs_cfg d, a;
    result r;

    setup(&d, &a);
    a.me.epoch = 9;
    run(&d, &a, NULL, &r);
    ok(r.a == AQ_HS_REKEY_SENT && r.d == AQ_HS_REKEYED && r.rekey_epoch == 9,
       "an older dialer gets the new secret");
    setup(&d, &a);
    d.me.epoch = 8;
    run(&d, &a, NULL, &r);
    ok(r.d == AQ_HS_REKEY_SENT && r.a == AQ_HS_REKEYED && r.rekey_epoch == 8,
       "an older acceptor too");
    setup(&d, &a);
    d.me.epoch = 8;
    d.peer_known = false;
    run(&d, &a, NULL, &r);
    ok(r.d == -AQ_E_AUTH && r.rekey_epoch == 0 && r.type[2] == AQ_T_ERROR, "not who was removed");
}

static void test_join(void)
{
    aq_hs_cfg d, a;
    result r;

    setup(&d, &a);
    d.me.purpose = AQ_FOR_JOIN;
    d.me.has_pool = false;
    d.me.epoch = 0;
    d.peer_known = a.peer_known = false;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_BUSY, "joining that is off");
    a.join_open = true;
    run(&d, &a, NULL, &r);
    ok(r.d == AQ_HS_OPEN && r.a == AQ_HS_OPEN && r.d_peer.epoch == 7 &&
           memcmp(r.d_peer.pool, pool1, 16) == 0,
       "by the secret alone; the pool is told");
    d.secret[0] ^= 1;
    run(&d, &a, NULL, &r);
    ok(r.a == -AQ_E_AUTH, "by a wrong one");
}

/* Each type in each state that the table lets through must still be due. */
static void test_order(void)
{
    aq_hs_cfg d, a;
    static const uint16_t types[] = {AQ_T_HELLO, AQ_T_AUTH, AQ_T_AUTH_OK,
                                     AQ_T_REKEY, AQ_T_PING, AQ_T_WINDOW};
    unsigned wrong = 0;

    setup(&d, &a);
    for (int st = AQ_LS_HELLO; st <= AQ_LS_AUTH; st++)
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < AQ_LEN(types); i++) {
                aq_hs hs;
                aq_bytes out = {0};
                aq_err err = {0};
                bool told = false;
                aq_hdr h = {.type = types[i]};
                aq_hs_init(&hs, k ? &a : &d);
                hs.state = (aq_lstate)st;
                hs.peer.epoch = 7;
                int rc = aq_hs_frame(&hs, &h, "", &out, &told, &err);
                wrong += rc >= 0 || out.n > 0 || !err.text[0];
                aq_hs_clear(&hs);
                aq_bytes_clear(&out);
            }
    ok(wrong == 0, "no empty or early frame is answered");
}

/* Memory may end at any allocation: NOMEM on that side, and nothing is open there. */
static int one_handshake(void *user)
{
    static result r;
    aq_hs_cfg d, a;

    setup(&d, &a);
    d.me.epoch += *(uint32_t *)user; /* 1: a REKEY instead of AUTH */
    run(&d, &a, NULL, &r);
    if (r.d == -AQ_E_NOMEM || r.a == -AQ_E_NOMEM)
        return -AQ_E_NOMEM;
    return r.d < 0 ? r.d : r.a;
}

int main(void)
{
    uint32_t none = 0, one = 1;

    torture("a handshake", one_handshake, &none);
    torture("a new secret", one_handshake, &one);
    test_vector();
    test_good();
    test_attacks();
    test_refusals();
    test_rekey();
    test_join();
    test_order();
    return tap_done();
}
