/* SPDX-License-Identifier: Apache-2.0 */
/* The pairing machine, scripted: two honest sides, and every way in which somebody in between could
 * try to make two people see the same digits. */
#include "pair-priv.h"
#include "tap.h"

#include <stdio.h>

static void sha(const char *s, uint8_t ret[32])
{
    aq_sha256 *h = aq_sha256_new();

    if (!h || aq_sha256_add(h, s, strlen(s)) < 0 || aq_sha256_end(h, ret) < 0)
        memset(ret, 0, 32);
    aq_sha256_free(h);
}

static void count_up(uint8_t *p, uint8_t from)
{
    for (int i = 0; i < 32; i++)
        p[i] = (uint8_t)(from + i);
}

/* The two sides of one connection between certificates d and a. */
static void sides(const char *cert_d, const char *cert_a, uint8_t nonce_d, uint8_t nonce_a,
                  uint8_t exporter, aq_pair_cfg *d, aq_pair_cfg *a)
{
    *d = (aq_pair_cfg){.role = AQ_DIALER};
    sha(cert_d, d->cert_d);
    sha(cert_a, d->cert_a);
    count_up(d->exporter, exporter);
    *a = *d;
    a->role = AQ_ACCEPTOR;
    count_up(d->nonce, nonce_d);
    count_up(a->nonce, nonce_a);
}

static int give(aq_pair *to, const aq_pair_msg *m, aq_pair_msg *ret)
{
    aq_err err = {0};
    aq_pair_msg none;
    int rc = aq_pair_take(to, m->type, m->payload, m->n, ret ? ret : &none, &err);

    return rc < 0 && (err.code != -rc || !err.text[0] || to->step != AQ_PAIR_FAILED) ? 99 : rc;
}

static void test_vector(void)
{
    aq_pair_cfg d, a;
    uint8_t c[32];
    char hex[65], digits[7];

    sides("dialer certificate", "acceptor certificate", 0, 32, 64, &d, &a);
    aq_pair_commit_of(AQ_DIALER, d.cert_d, d.nonce, c);
    aq_hex(c, 32, hex);
    ok(strcmp(hex, "15322d724855c0ecbbfa983767befdcc8ddd6c6d9bbe5ffb7e7d751d04dcce65") == 0,
       "the page's commit(1)");
    aq_pair_commit_of(AQ_ACCEPTOR, a.cert_a, a.nonce, c);
    aq_hex(c, 32, hex);
    ok(strcmp(hex, "8f4ea327533b3a44d07d1d34f59d786e82affe6abffa75bf39d02b356743de43") == 0,
       "the page's commit(2)");
    aq_pair_digits_of(d.cert_d, d.cert_a, d.nonce, a.nonce, d.exporter, digits);
    ok(strcmp(digits, "379380") == 0, "the page's digits: %s", digits);
}

/* Up to the digits; what went over the wire is kept. */
typedef struct talk {
    aq_pair d, a;
    aq_pair_msg commit_d, commit_a, reveal_d, reveal_a;
} talk;

static bool until_digits(talk *t, const aq_pair_cfg *d, const aq_pair_cfg *a)
{
    aq_pair_msg m;
    aq_err err = {0};

    return aq_pair_init(&t->d, d, &t->commit_d, &err) == 0 &&
           aq_pair_init(&t->a, a, &m, &err) == 0 && m.type == 0 &&
           t->commit_d.type == AQ_T_PAIR_COMMIT && give(&t->a, &t->commit_d, &t->commit_a) == 0 &&
           t->commit_a.type == AQ_T_PAIR_COMMIT && give(&t->d, &t->commit_a, &t->reveal_d) == 0 &&
           t->reveal_d.type == AQ_T_PAIR_REVEAL && give(&t->a, &t->reveal_d, &t->reveal_a) == 0 &&
           t->reveal_a.type == AQ_T_PAIR_REVEAL && give(&t->d, &t->reveal_a, &m) == 0 &&
           m.type == 0;
}

static void test_good(void)
{
    aq_pair_cfg d, a;
    aq_pair_msg m;
    aq_err err = {0};
    static talk t;

    sides("dialer certificate", "acceptor certificate", 0, 32, 64, &d, &a);
    ok(until_digits(&t, &d, &a) && t.d.step == AQ_PAIR_COMPARES && t.a.step == AQ_PAIR_COMPARES &&
           strcmp(t.d.digits, "379380") == 0 && strcmp(t.a.digits, "379380") == 0,
       "both show the same digits");
    ok(aq_pair_match(&t.a, &m, &err) == 0 && m.type == AQ_T_PAIR_MATCH &&
           t.a.step == AQ_PAIR_COMPARES,
       "one pressed They Match: not agreed yet");
    ok(aq_pair_match(&t.a, &m, &err) == -AQ_E_INVAL, "once");
    ok(give(&t.d, &m, NULL) == 0 && t.d.step == AQ_PAIR_COMPARES,
       "the other hears it: not agreed either");
    m = (aq_pair_msg){0};
    ok(aq_pair_match(&t.d, &m, &err) == 0 && t.d.step == AQ_PAIR_AGREED,
       "the other pressed too: agreed");
    ok(give(&t.a, &m, NULL) == 0 && t.a.step == AQ_PAIR_AGREED, "and the first hears it");
    ok(give(&t.a, &m, NULL) == -AQ_E_PROTO, "not twice");
}

/* In between: two connections with the relay's own certificate, frames passed on as they are. */
static void test_relay(void)
{
    aq_pair_cfg d, a, rd, ra;
    static aq_pair pd, pa;
    aq_pair_msg cd, ca, m;
    aq_err err = {0};

    sides("dialer certificate", "relay certificate", 0, 200, 64, &d, &ra);
    sides("relay certificate", "acceptor certificate", 201, 32, 96, &rd, &a);
    ok(aq_pair_init(&pd, &d, &cd, &err) == 0 && aq_pair_init(&pa, &a, &m, &err) == 0 &&
           give(&pa, &cd, &ca) == 0 && give(&pd, &ca, &m) == 0 && give(&pa, &m, NULL) == -AQ_E_AUTH,
       "frames passed on as they are: the certificate in the commitment is another");

    /* A relay that plays both parts honestly with nonces of its own: digits differ. */
    static talk left, right;
    ok(until_digits(&left, &d, &ra) && until_digits(&right, &rd, &a),
       "a relay that pairs with both");
    ok(strcmp(left.d.digits, right.a.digits) != 0, "%s on one screen, %s on the other",
       left.d.digits, right.a.digits);

    /* It knows the left digits now, and looks for a nonce that gives them on the right too: it has
     * committed there before it sees the acceptor's nonce, so another one is refused. */
    static aq_pair fresh;
    aq_pair_msg commit, reveal;
    ok(aq_pair_init(&fresh, &a, &m, &err) == 0 && aq_pair_init(&right.d, &rd, &commit, &err) == 0 &&
           give(&fresh, &commit, &m) == 0,
       "it commits on the right");
    sides("relay certificate", "acceptor certificate", 99, 32, 96, &rd, &a);
    static aq_pair other;
    ok(aq_pair_init(&other, &rd, &commit, &err) == 0 && give(&other, &m, &reveal) == 0 &&
           give(&fresh, &reveal, NULL) == -AQ_E_AUTH && fresh.digits[0] == 0,
       "and cannot reveal another nonce");
}

static void test_wrong(void)
{
    aq_pair_cfg d, a, d2, a2;
    static talk t, old;
    aq_pair_msg m;
    aq_err err = {0};

    sides("dialer certificate", "acceptor certificate", 0, 32, 64, &d, &a);
    ok(until_digits(&old, &d, &a), "an honest pairing, listened to");

    /* Replayed into a new one: exporter and nonces are fresh. */
    sides("dialer certificate", "acceptor certificate", 7, 39, 71, &d2, &a2);
    ok(aq_pair_init(&t.a, &a2, &m, &err) == 0 && give(&t.a, &old.commit_d, &m) == 0 &&
           give(&t.a, &old.reveal_d, &m) == 0 && strcmp(t.a.digits, old.a.digits) != 0,
       "a replayed dialer: its digits are others (%s, %s)", t.a.digits, old.a.digits);
    ok(aq_pair_init(&t.d, &d2, &m, &err) == 0 && give(&t.d, &old.commit_a, &m) == 0 &&
           give(&t.d, &old.reveal_a, &m) == 0 && strcmp(t.d.digits, old.d.digits) != 0,
       "a replayed acceptor too");

    /* Its own messages sent back. */
    ok(aq_pair_init(&t.d, &d, &m, &err) == 0 && give(&t.d, &m, &t.reveal_d) == 0 &&
           give(&t.d, &t.reveal_d, NULL) == -AQ_E_AUTH,
       "the dialer's own commitment reflected");

    /* Every digit of the nonce counts. */
    unsigned taken = 0;
    for (size_t i = 6; i < old.reveal_d.n - 1; i++) {
        aq_pair_msg bad = old.reveal_d;
        bad.payload[i] = bad.payload[i] == '0' ? '1' : '0';
        if (aq_pair_init(&t.a, &a, &m, &err) == 0 && give(&t.a, &old.commit_d, &m) == 0)
            taken += give(&t.a, &bad, NULL) != -AQ_E_AUTH;
    }
    ok(taken == 0, "a nonce with any digit changed");

    /* People who say they differ, or say so too early. */
    ok(aq_pair_init(&t.d, &d, &m, &err) == 0 && aq_pair_match(&t.d, &m, &err) == -AQ_E_INVAL,
       "They Match before there are digits");

    /* Each message in each step where it is not due. */
    const aq_pair_msg match = {.type = AQ_T_PAIR_MATCH};
    const aq_pair_msg *msgs[3] = {&old.commit_d, &old.reveal_d, &match};
    for (int step = 0; step < 3; step++)
        for (int k = 0; k < 3; k++) {
            if (k == step)
                continue;
            bool good = aq_pair_init(&t.a, &a, &m, &err) == 0;
            for (int i = 0; i < step; i++)
                good = good && give(&t.a, msgs[i], &m) == 0;
            ok(good && give(&t.a, msgs[k], &m) == -AQ_E_PROTO && m.type == 0 &&
                   give(&t.a, msgs[step], &m) == -AQ_E_PROTO,
               "%s in step %d; after it nothing goes any more", aq_wire_type_name(msgs[k]->type),
               step);
        }
    static const char *const bad[] = {"", "commit=\n", "commit=00\n", "nonce=00\n", "commit"};
    for (size_t i = 0; i < AQ_LEN(bad); i++) {
        m = (aq_pair_msg){.type = AQ_T_PAIR_COMMIT, .n = strlen(bad[i])};
        memcpy(m.payload, bad[i], m.n);
        aq_pair_msg out;
        ok(aq_pair_init(&t.a, &a, &out, &err) == 0 && give(&t.a, &m, &out) == -AQ_E_FORMAT,
           "a commitment that is none: no. %zu", i);
    }
}

/* All values of the digits are reached alike: 1,000 draws fall into ten tenths. */
static void test_spread(void)
{
    unsigned tenth[10] = {0}, bad = 0;
    aq_pair_cfg d, a;

    sides("x", "y", 0, 32, 64, &d, &a);
    for (unsigned i = 0; i < 1000; i++) {
        char digits[7];
        d.nonce[0] = (uint8_t)i;
        d.nonce[1] = (uint8_t)(i >> 8);
        aq_pair_digits_of(d.cert_d, d.cert_a, d.nonce, a.nonce, d.exporter, digits);
        bad += strlen(digits) != 6;
        tenth[(unsigned)(digits[0] - '0') % 10]++;
    }
    for (int i = 0; i < 10; i++)
        bad += tenth[i] < 60 || tenth[i] > 140;
    ok(bad == 0, "six digits, each tenth alike");
}

int main(void)
{
    test_vector();
    test_good();
    test_relay();
    test_wrong();
    test_spread();
    return tap_done();
}
