/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are of this network: each range at both ends and one beyond. */
#include "addr-priv.h"
#include "tap.h"

#include <netinet/in.h>
#include <stdio.h>

static void test_rules(void)
{
    static const struct {
        const char *addr;
        bool ok;
    } cases[] = {
        {"127.0.0.1", true},
        {"126.255.255.255", false},
        {"128.0.0.0", false},
        {"10.0.0.0", true},
        {"10.255.255.255", true},
        {"9.255.255.255", false},
        {"11.0.0.0", false},
        {"172.16.0.0", true},
        {"172.31.255.255", true},
        {"172.15.255.255", false},
        {"172.32.0.0", false},
        {"192.168.0.0", true},
        {"192.168.255.255", true},
        {"192.167.255.255", false},
        {"192.169.0.0", false},
        {"169.254.0.0", true},
        {"169.254.255.255", true},
        {"169.253.255.255", false},
        {"169.255.0.0", false},
        {"100.64.0.0", true},
        {"100.127.255.255", true},
        {"100.63.255.255", false},
        {"100.128.0.0", false},
        {"8.8.8.8", false},
        {"0.0.0.0", false},
        {"255.255.255.255", false},
        {"224.0.0.251", false},
        {"[::1]", true},
        {"[::]", false},
        {"[::2]", false},
        {"[fe80::1]", true},
        {"[febf::1]", true},
        {"[fec0::1]", false},
        {"[fe7f::1]", false},
        {"[fc00::1]", true},
        {"[fdff::1]", true},
        {"[fbff::1]", false},
        {"[fe00::1]", false},
        {"[2001:db8:1::5]", true},
        {"[2001:db8:1:8000::5]", false},
        {"[2001:db8:2::5]", false},
        {"[2606:4700::1111]", false},
        {"[ff02::fb]", false},
        {"[::ffff:192.168.1.1]", true},
        {"[::ffff:8.8.8.8]", false},
    };
    const aq_prefix6 on_link[] = {
        {{0x20, 0x01, 0x0d, 0xb8, 0, 1}, 49}, {{0}, 0}, {{0x26, 0x06}, 15}};

    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        struct sockaddr_storage a;
        aq_err err = {0};
        int rc = aq_addr_parse(cases[i].addr, 1, &a, &err);
        if (rc == 0)
            rc = aq_addr_check((struct sockaddr *)&a, on_link, AQ_LEN(on_link), &err);
        ok(rc == (cases[i].ok ? 0 : -AQ_E_AUTH) && (cases[i].ok || err.text[0]), "%s %s",
           cases[i].addr, cases[i].ok ? "is of this network" : "is not");
    }
}

static void test_text(void)
{
    static const struct {
        const char *text, *want; /* NULL = refused */
    } cases[] = {
        {"192.168.1.7", "192.168.1.7:7710"},
        {"192.168.1.7:80", "192.168.1.7:80"},
        {"fd00::1", "[fd00::1]:7710"},
        {"[fd00::1]", "[fd00::1]:7710"},
        {"[fd00::1]:65535", "[fd00::1]:65535"},
        {"[fe80::1%99999]:1", "[fe80::1%99999]:1"}, /* no such interface: as it was */
        {"[fe80::1%lo]:1", "[fe80::1%lo]:1"},
        {"[fe80::1%1]:1", "[fe80::1%lo]:1"},
        {"", NULL},
        {"192.168.1", NULL},
        {"192.168.1.7:", NULL},
        {"192.168.1.7:0", NULL},
        {"192.168.1.7:65536", NULL},
        {"192.168.1.7:99999999999", NULL},
        {"192.168.1.7:1x", NULL},
        {"[fd00::1", NULL},
        {"fd00::1]", NULL},
        {"[fd00::1]7", NULL},
        {"[fe80::1%nonesuch]", NULL},
        {"laptop.local", NULL},
        {"http://192.168.1.7", NULL},
        {"1234567890123456789012345678901234567890123456789012345678901234", NULL},
    };

    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        struct sockaddr_storage a;
        char text[AQ_ADDR_MAX + 1] = "";
        aq_err err = {0};
        int rc = aq_addr_parse(cases[i].text, 7710, &a, &err);
        if (rc == 0)
            aq_addr_text((struct sockaddr *)&a, true, text);
        ok(cases[i].want ? rc == 0 && strcmp(text, cases[i].want) == 0
                         : rc == -AQ_E_INVAL && err.text[0],
           "'%s' is %s", cases[i].text, cases[i].want ? cases[i].want : "refused");
    }
}

static void test_bucket(void)
{
    static const char *const text[] = {"[fe80::1]", "[fe80::2]",         "[fe80:0:0:1::1]",
                                       "10.0.0.1",  "[::ffff:10.0.0.1]", "10.0.0.2"};
    uint64_t b[6] = {0};

    for (int i = 0; i < 6; i++) {
        struct sockaddr_storage a;
        if (aq_addr_parse(text[i], 1, &a, NULL) == 0)
            b[i] = aq_addr_bucket((struct sockaddr *)&a);
    }
    ok(b[0] == b[1] && b[0] != b[2] && b[3] == b[4] && b[3] != b[5],
       "a /64 is one neighbour, an IPv4 address is one");
    aq_prefix6 p[AQ_PREFIX6_MAX];
    ok(aq_addr_on_link(p, AQ_PREFIX6_MAX) <= AQ_PREFIX6_MAX && aq_addr_on_link(p, 0) == 0,
       "the interfaces can be asked");
}

int main(void)
{
    test_rules();
    test_text();
    test_bucket();
    return tap_done();
}
