/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake and pairing: any sequence of frames to a machine of either role ends with a clear error,
 * or with what may be reached without knowing the secret: never an open link, never digits.
 *
 *   byte 0: bit 0 the role, 1 member, 2 pairing open, 3 joining open, 4 in a pool, 5 pairing machine
 *   then frames: type u8, length u16 little-endian, payload */
#include "hs-priv.h"
#include "pair-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static int share(void *user, aq_bytes *ret, aq_err *err)
{
    return aq_bytes_puts(ret, "aquifer-roster 1");
}

static void handshake(uint8_t flags, aq_cur *c)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes out = {0};
    aq_hs_cfg cfg = {.role = flags & 1 ? AQ_ACCEPTOR : AQ_DIALER,
                     .peer_known = flags & 2,
                     .pair_open = flags & 4,
                     .join_open = flags & 8,
                     .share = share};
    aq_hs hs;
    aq_err err = {0};
    int rc = 0;

    cfg.me.has_pool = flags & 16;
    cfg.me.epoch = flags & 16 ? 3 : 0;
    cfg.me.purpose = (aq_purpose)(flags >> 6);
    cfg.me.id.b[0] = 1;
    cfg.me.feat = 7;
    aq_hs_init(&hs, &cfg);
    if (cfg.role == AQ_DIALER)
        must(aq_hs_begin(&hs, &out, &err) == AQ_OK);
    while (rc == AQ_HS_MORE && aq_cur_left(c) >= 3) {
        uint8_t type;
        uint16_t len = 0;
        const uint8_t *p;
        bool told = false;
        aq_role from = cfg.role == AQ_DIALER ? AQ_ACCEPTOR : AQ_DIALER;

        must(aq_cur_get_u8(c, &type) == 0 && aq_cur_get_u16(c, &len) == 0);
        len = (uint16_t)AQ_MIN(len, aq_cur_left(c));
        must(aq_cur_get_bytes(c, len, &p) == 0);
        if (aq_wire_max(hs.state, from, type) < len)
            continue;
        aq_hdr h = {.type = type, .length = len};
        uint8_t *copy = malloc(len ? len : 1);
        if (!copy)
            break;
        memcpy(copy, p, len);
        size_t before = out.n;
        rc = aq_hs_frame(&hs, &h, copy, &out, &told, &err);
        free(copy);
        must(rc >= 0 || (err.code == -rc && err.text[0]));
        /* Without a right proof nothing is open. */
        must(rc != AQ_HS_OPEN);
        must(rc != AQ_HS_PAIR ||
             (hs.state == AQ_LS_PAIR && (cfg.role == AQ_DIALER || cfg.pair_open)));
        must((rc != AQ_HS_REKEYED && rc != AQ_HS_REKEY_SENT) || cfg.peer_known);
        must(out.n >= before);
        if (rc < 0 && !told)
            must(aq_put_refusal(&out, cfg.role, hs.state, hs.seq_out, &err) == AQ_OK);
    }
    aq_hs_clear(&hs);
}

static void pairing(uint8_t flags, aq_cur *c)
{
    aq_pair_cfg cfg = {.role = flags & 1 ? AQ_ACCEPTOR : AQ_DIALER};
    aq_pair p;
    aq_pair_msg m;
    aq_err err = {0};

    must(aq_pair_init(&p, &cfg, &m, &err) == AQ_OK);
    while (aq_cur_left(c) >= 3) {
        uint8_t type;
        uint16_t len = 0;
        const uint8_t *q;

        must(aq_cur_get_u8(c, &type) == 0 && aq_cur_get_u16(c, &len) == 0);
        len = (uint16_t)AQ_MIN(len, aq_cur_left(c));
        must(aq_cur_get_bytes(c, len, &q) == 0);
        int rc = aq_pair_take(&p, type, q, len, &m, &err);
        must(rc >= 0 ||
             (err.code == -rc && err.text[0] && p.step == AQ_PAIR_FAILED && m.type == 0));
        /* A nonce that fits a commitment cannot be found by chance. */
        must(p.step != AQ_PAIR_COMPARES && p.step != AQ_PAIR_AGREED);
        if (rc < 0)
            break;
    }
    aq_pair_clear(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    aq_cur c = {.p = data, .n = n};
    uint8_t flags;

    if (aq_cur_get_u8(&c, &flags) < 0)
        return 0;
    if (flags & 32)
        pairing(flags, &c);
    else
        handshake(flags, &c);
    return 0;
}
