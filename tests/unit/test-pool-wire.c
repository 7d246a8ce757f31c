/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers: the table of docs/PROTOCOL.md read from the page itself and compared cell by cell,
 * lengths at 0, limit - 1, limit and limit + 1, flags, sequence numbers and epochs. The page's path
 * is the first argument. */
#include "tap.h"
#include "wire-priv.h"

#include <stdio.h>

static const uint16_t types[] = {
    AQ_T_HELLO,       AQ_T_AUTH,       AQ_T_AUTH_OK,    AQ_T_REKEY,     AQ_T_PAIR_COMMIT,
    AQ_T_PAIR_REVEAL, AQ_T_PAIR_MATCH, AQ_T_PAIR_GRANT, AQ_T_PAIR_DONE, AQ_T_PING,
    AQ_T_STATS,       AQ_T_ACK,        AQ_T_BUSY,       AQ_T_ERROR,     AQ_T_BYE,
    AQ_T_ROSTER,      AQ_T_CONFIG,     AQ_T_READY,      AQ_T_CANCEL,    AQ_T_WINDOW,
    AQ_T_ROWS};

static int get(aq_lstate st, aq_role from, uint64_t data_max, aq_hdr h, aq_hdr *ret, aq_err *err)
{
    uint8_t b[AQ_WIRE_HDR_BYTES];
    aq_cur c = {.p = b, .n = sizeof b};

    aq_wire_put_hdr(b, &h);
    int rc = aq_wire_get_hdr(&c, st, from, data_max, ret, err);
    if (c.off != (rc == 1 ? AQ_WIRE_HDR_BYTES : 0))
        return 99;
    return rc;
}

static void test_layout(void)
{
    static const uint8_t want[] = {'A',  'Q',  'P',  '1',  0x30, 0,    1,    0,
                                   8,    7,    6,    5,    0,    0,    0,    0,
                                   0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    uint8_t b[AQ_WIRE_HDR_BYTES];
    aq_hdr h = {AQ_T_WINDOW, AQ_FLAG_REPLY, 0x05060708, 0x1112131415161718}, back = {0};

    aq_wire_put_hdr(b, &h);
    ok(memcmp(b, want, sizeof want) == 0, "a header is these 24 bytes");
    for (size_t n = 0; n < sizeof b; n++) {
        aq_cur c = {.p = b, .n = n};
        if (aq_wire_get_hdr(&c, AQ_LS_READY, AQ_DIALER, AQ_WIRE_DATA_MAX, &back, NULL) != 0 ||
            c.off) {
            ok(false, "%zu bytes are too few", n);
            return;
        }
    }
    ok(true, "0 to 23 bytes are too few");
    ok(get(AQ_LS_READY, AQ_DIALER, AQ_WIRE_DATA_MAX, h, &back, NULL) == 1 && back.type == h.type &&
           back.flags == h.flags && back.length == h.length && back.seq == h.seq,
       "and come back");
    for (int i = 0; i < 4; i++) {
        aq_err err = {0};
        aq_cur c = {.p = b, .n = sizeof b};
        b[i] ^= 1;
        ok(aq_wire_get_hdr(&c, AQ_LS_READY, AQ_DIALER, AQ_WIRE_DATA_MAX, &back, &err) ==
                   -AQ_E_PROTO &&
               err.code == AQ_E_PROTO && c.off == 0,
           "magic with byte %d changed", i);
        b[i] ^= 1;
    }
}

/* Each cell of the table in the page: legal for whom, and the four lengths around the limit. */
static void test_table(const char *page)
{
    FILE *f = fopen(page, "r");
    char line[1024];
    unsigned rows = 0, cells = 0, bad = 0;

    while (f && fgets(line, sizeof line, f)) {
        char *cell[16], *save = NULL;
        unsigned n = 0, no = 0;
        unsigned long long max = 0;

        for (char *s = line; *s; s++) /* empty cells must count */
            if (s[0] == '|' && s[1] == ' ' && s[2] == '|')
                s[1] = '-';
        for (char *t = strtok_r(line, "|\n", &save); t && n < AQ_LEN(cell);
             t = strtok_r(NULL, "|\n", &save))
            cell[n++] = t;
        if (n != 11)
            continue;
        no = (unsigned)strtoul(cell[1], NULL, 16);
        if (no == 0)
            continue;
        char digits[32] = {0};
        for (char *s = cell[2]; *s; s++)
            if (*s >= '0' && *s <= '9')
                strncat(digits, s, 1);
        max = strtoull(digits, NULL, 10) * (strstr(cell[2], "Ki")   ? 1024
                                            : strstr(cell[2], "Mi") ? 1048576
                                                                    : 1);
        rows++;
        for (int st = 0; st < AQ_LS_CLOSED; st++) {
            const char *who = cell[3 + st];
            for (int from = AQ_DIALER; from <= AQ_ACCEPTOR; from++) {
                bool legal = strchr(who, '*') || strchr(who, from == AQ_DIALER ? 'D' : 'A');
                const uint64_t len[] = {0, max - 1, max, max + 1, 1ull << 30, UINT64_MAX};
                for (size_t k = 0; k < AQ_LEN(len); k++) {
                    aq_hdr back = {.type = 7};
                    aq_err err = {0};
                    int rc = get((aq_lstate)st, (aq_role)from, UINT64_MAX,
                                 (aq_hdr){.type = (uint16_t)no, .length = len[k]}, &back, &err);
                    int want = !legal ? -AQ_E_PROTO : len[k] > max ? -AQ_E_LIMIT : 1;
                    cells++;
                    if (rc != want ||
                        (rc < 0 && (err.code != -rc || !err.text[0] || back.type != 7))) {
                        if (bad++ < 10)
                            printf("# type 0x%x state %d from %d length %llu: %d, not %d\n", no, st,
                                   from, (unsigned long long)len[k], rc, want);
                    }
                }
            }
        }
    }
    if (f)
        fclose(f);
    ok(rows == AQ_LEN(types) + 1, "the page's table has the %u types", rows);
    ok(cells == rows * AQ_LS_CLOSED * 2 * 6 && bad == 0, "%u cells of it hold", cells);
}

static void test_rest(void)
{
    aq_hdr back;
    aq_err err = {0};
    unsigned legal = 0;

    for (size_t i = 0; i < AQ_LEN(types); i++)
        for (int from = AQ_DIALER; from <= AQ_ACCEPTOR; from++)
            legal += aq_wire_max(AQ_LS_CLOSED, (aq_role)from, types[i]) >= 0;
    ok(legal == 0, "nothing is legal on a closed link");
    legal = 0;
    for (unsigned t = 0; t < 0x8000; t++) {
        bool known = false;
        for (size_t i = 0; i < AQ_LEN(types); i++)
            known = known || types[i] == t;
        for (int st = 0; !known && st < AQ_LS_N; st++)
            legal += aq_wire_max((aq_lstate)st, AQ_DIALER, (uint16_t)t) >= 0;
    }
    ok(legal == 0, "no unknown type below 0x8000 is legal anywhere");
    ok(get(AQ_LS_READY, AQ_DIALER, 1000, (aq_hdr){.type = AQ_T_WINDOW, .length = 1000}, &back,
           NULL) == 1 &&
           get(AQ_LS_READY, AQ_DIALER, 1000, (aq_hdr){.type = AQ_T_WINDOW, .length = 1001}, &back,
               &err) == -AQ_E_LIMIT,
       "what CONFIG agreed bounds WINDOW further");
    ok(get(AQ_LS_OPEN, AQ_DIALER, 1, (aq_hdr){.type = AQ_T_PING, .flags = 0x00fe, .length = 9},
           &back, NULL) == 1,
       "unknown flags of the low byte are let through");
    for (unsigned bit = 8; bit < 16; bit++)
        ok(get(AQ_LS_OPEN, AQ_DIALER, 1,
               (aq_hdr){.type = AQ_T_PING, .flags = (uint16_t)(1u << bit)}, &back,
               &err) == -AQ_E_PROTO,
           "flag bit %u must be understood", bit);
    for (uint32_t max = AQ_WIRE_PREAUTH_MAX, i = 0; i < AQ_LEN(types); i++)
        if (types[i] == AQ_T_REKEY) /* from a member's certificate only: the link sees to it */
            continue;
        else if (aq_wire_max(AQ_LS_HELLO, AQ_DIALER, types[i]) > max ||
                 aq_wire_max(AQ_LS_AUTH, AQ_DIALER, types[i]) > max ||
                 aq_wire_max(AQ_LS_PAIR, AQ_DIALER, types[i]) > max)
            ok(false, "type 0x%x is larger than %u before it is trusted", types[i], max);
}

static void test_seq(void)
{
    aq_wire_seq s = {0};
    uint8_t p[AQ_WIRE_HEAD_BYTES] = {24};
    aq_hdr ping = {.type = AQ_T_PING}, win = {.type = AQ_T_WINDOW, .seq = 1};
    aq_err err = {0};

    ok(aq_wire_seq_in(&s, &ping, NULL, 0, &err) == 0, "the first control frame is 0");
    ok(aq_wire_seq_in(&s, &ping, NULL, 0, &err) == -AQ_E_PROTO && s.ctl == 1, "a repeat");
    ping.seq = 2;
    ok(aq_wire_seq_in(&s, &ping, NULL, 0, &err) == -AQ_E_PROTO && s.ctl == 1, "a gap");
    ping.seq = 1;
    ok(aq_wire_seq_in(&s, &ping, NULL, 0, &err) == 0 && s.ctl == 2, "the next");

    aq_wire_seq_epoch(&s, 5);
    p[4] = 5;
    win.seq = 0;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == -AQ_E_PROTO, "window 0");
    win.seq = 1;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == 0, "window 1");
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == -AQ_E_PROTO, "window 1 again");
    win.seq = 3;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == -AQ_E_PROTO, "window 3");
    p[4] = 4;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == 1 && s.win == 1,
       "one of an older epoch is dropped");
    p[4] = 6;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == -AQ_E_PROTO, "one of a newer epoch");
    ok(aq_wire_seq_in(&s, &win, p, 7, &err) == -AQ_E_FORMAT, "one without an epoch");
    p[4] = 5;
    win.seq = 2;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == 0 && s.ctl == 2,
       "window 2; control frames count apart");
    aq_wire_seq_epoch(&s, 6);
    p[4] = 6;
    win.seq = 1;
    ok(aq_wire_seq_in(&s, &win, p, sizeof p, &err) == 0, "a new epoch counts from 1");
}

int main(int argc, char **argv)
{
    test_layout();
    if (ok(argc > 1, "the page is named"))
        test_table(argv[1]);
    test_rest();
    test_seq();
    return tap_done();
}
