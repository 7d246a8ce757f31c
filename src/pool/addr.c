/* SPDX-License-Identifier: Apache-2.0 */
/* The pool stays at home: it binds, dials and accepts only addresses of this PC's own networks. Pure
 * but for aq_addr_on_link, which asks the kernel for the interfaces. Any thread. */
#include "addr-priv.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

static const struct sockaddr_in *as4(const struct sockaddr *a)
{
    return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *as6(const struct sockaddr *a)
{
    return (const struct sockaddr_in6 *)(const void *)a;
}

/* The IPv4 address of a, mapped ones too. */
static bool v4_of(const struct sockaddr *a, uint32_t *ret)
{
    if (a->sa_family == AF_INET) {
        *ret = ntohl(as4(a)->sin_addr.s_addr);
        return true;
    }
    if (a->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&as6(a)->sin6_addr)) {
        const uint8_t *p = as6(a)->sin6_addr.s6_addr + 12;
        *ret = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        return true;
    }
    return false;
}

static bool allowed4(uint32_t a)
{
    static const struct {
        uint32_t net, bits;
    } nets[] = {{0x7f000000, 8},  {0xa9fe0000, 16}, {0x0a000000, 8},
                {0xac100000, 12}, {0xc0a80000, 16}, {0x64400000, 10}};

    for (size_t i = 0; i < AQ_LEN(nets); i++)
        if (a >> (32 - nets[i].bits) == nets[i].net >> (32 - nets[i].bits))
            return true;
    return false;
}

static bool in_prefix(const uint8_t a[16], const aq_prefix6 *p)
{
    uint32_t whole = p->n_bits / 8, rest = p->n_bits % 8;

    /* ::/0 and the like would allow everything. */
    if (p->n_bits < 16 || p->n_bits > 128 || memcmp(a, p->a, whole) != 0)
        return false;
    return rest == 0 || (a[whole] ^ p->a[whole]) >> (8 - rest) == 0;
}

int aq_addr_check(const struct sockaddr *a, const aq_prefix6 *prefix, uint32_t n, aq_err *err)
{
    char text[AQ_ADDR_MAX + 1];
    uint32_t v4;

    if (v4_of(a, &v4)) {
        if (allowed4(v4))
            return AQ_OK;
    } else if (a->sa_family == AF_INET6) {
        const uint8_t *p = as6(a)->sin6_addr.s6_addr;
        if (IN6_IS_ADDR_LOOPBACK(&as6(a)->sin6_addr) || (p[0] & 0xfe) == 0xfc ||
            (p[0] == 0xfe && (p[1] & 0xc0) == 0x80))
            return AQ_OK;
        for (uint32_t i = 0; i < n; i++)
            if (in_prefix(p, &prefix[i]))
                return AQ_OK;
    }
    aq_addr_text(a, false, text);
    return aq_fail(
        err, AQ_E_AUTH,
        "%s is not an address of this network: a pool works only between PCs of one home "
        "or office network",
        text);
}

uint32_t aq_addr_on_link(aq_prefix6 *ret, uint32_t cap)
{
    struct ifaddrs *list = NULL;
    uint32_t n = 0;

    if (getifaddrs(&list) < 0)
        return 0;
    for (const struct ifaddrs *i = list; i && n < cap; i = i->ifa_next) {
        if (!i->ifa_addr || !i->ifa_netmask || i->ifa_addr->sa_family != AF_INET6 ||
            !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_POINTOPOINT))
            continue;
        const uint8_t *mask = as6(i->ifa_netmask)->sin6_addr.s6_addr;
        memcpy(ret[n].a, as6(i->ifa_addr)->sin6_addr.s6_addr, 16);
        ret[n].n_bits = 0;
        while (ret[n].n_bits < 128 && (mask[ret[n].n_bits / 8] >> (7 - ret[n].n_bits % 8) & 1))
            ret[n].n_bits++;
        n++;
    }
    freeifaddrs(list);
    return n;
}

void aq_addr_text(const struct sockaddr *a, bool with_port, char ret[AQ_ADDR_MAX + 1])
{
    char host[INET6_ADDRSTRLEN + 1] = "?", scope[1 + IF_NAMESIZE] = "", dev[IF_NAMESIZE];
    unsigned port = 0;

    if (a->sa_family == AF_INET) {
        inet_ntop(AF_INET, &as4(a)->sin_addr, host, sizeof host);
        port = ntohs(as4(a)->sin_port);
    } else if (a->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &as6(a)->sin6_addr, host, sizeof host);
        port = ntohs(as6(a)->sin6_port);
        uint32_t id = as6(a)->sin6_scope_id;
        /* by the interface's name: such a text is kept, and the number is another one after the next start */
        if (id && if_indextoname(id, dev))
            snprintf(scope, sizeof scope, "%%%s", dev);
        else if (id)
            snprintf(scope, sizeof scope, "%%%u", id);
    }
    bool v6 = a->sa_family == AF_INET6;
    int n = snprintf(ret, AQ_ADDR_MAX + 1, "%s%s%s%s", v6 ? "[" : "", host, scope, v6 ? "]" : "");
    if (with_port && n > 0 && n < (int)AQ_ADDR_MAX)
        snprintf(ret + n, AQ_ADDR_MAX + 1 - (size_t)n, ":%u", port);
}

/* ":7710" or nothing. */
static bool get_port(const char *p, uint16_t dflt, uint16_t *ret)
{
    uint32_t x = 0;

    if (!*p) {
        *ret = dflt;
        return true;
    }
    if (*p++ != ':' || !*p)
        return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || x > 65535)
            return false;
        x = x * 10 + (uint32_t)(*p - '0');
    }
    *ret = (uint16_t)x;
    return x > 0 && x <= 65535;
}

static int parse6(const char *host, const char *scope, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET6, host, &a.sin6_addr) != 1)
        return -AQ_E_INVAL;
    if (scope && (a.sin6_scope_id = if_nametoindex(scope)) == 0) {
        uint32_t x = 0; /* no such name: a number */
        for (const char *p = scope; *p; p++) {
            if (*p < '0' || *p > '9' || x > 1000000)
                return -AQ_E_INVAL;
            x = x * 10 + (uint32_t)(*p - '0');
        }
        a.sin6_scope_id = x;
    }
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &a, sizeof a);
    return AQ_OK;
}

int aq_addr_parse(const char *text, uint16_t dflt, struct sockaddr_storage *ret, aq_err *err)
{
    char host[AQ_ADDR_MAX + 1];
    struct sockaddr_in a = {.sin_family = AF_INET};
    uint16_t port;
    size_t n = strlen(text);

    if (n == 0 || n > AQ_ADDR_MAX)
        goto bad;
    memcpy(host, text, n + 1);
    char *colon = strchr(host, ':'), *close = strchr(host, ']');
    if (host[0] == '[' || (colon && strchr(colon + 1, ':'))) {
        char *start = host[0] == '[' ? host + 1 : host;
        if ((host[0] == '[') != (close != NULL))
            goto bad;
        if (close)
            *close = 0;
        char *scope = strchr(start, '%');
        if (scope)
            *scope++ = 0;
        if (!get_port(close ? close + 1 : "", dflt, &port) || parse6(start, scope, port, ret) < 0)
            goto bad;
        return AQ_OK;
    }
    if (!get_port(colon ? text + (colon - host) : "", dflt, &port))
        goto bad;
    if (colon)
        *colon = 0;
    a.sin_port = htons(port);
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        goto bad;
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &a, sizeof a);
    return AQ_OK;
bad:
    return aq_fail(err, AQ_E_INVAL,
                   "'%s' is not an address: write it like 192.168.1.7 or 192.168.1.7:7710", text);
}

socklen_t aq_addr_len(const struct sockaddr *a)
{
    return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

uint64_t aq_addr_bucket(const struct sockaddr *a)
{
    uint32_t v4;
    uint64_t x = 0;

    if (v4_of(a, &v4))
        return 0xffffull << 32 | v4;
    if (a->sa_family == AF_INET6)
        memcpy(&x, as6(a)->sin6_addr.s6_addr, 8);
    return x;
}

bool aq_addr_same(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return as4(a)->sin_addr.s_addr == as4(b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && as6(a)->sin6_scope_id == as6(b)->sin6_scope_id &&
           IN6_ARE_ADDR_EQUAL(&as6(a)->sin6_addr, &as6(b)->sin6_addr);
}

uint32_t aq_addr_own(uint16_t port, struct sockaddr_storage ret[AQ_OWN_MAX])
{
    aq_prefix6 on_link[AQ_PREFIX6_MAX];
    uint32_t n_prefix = aq_addr_on_link(on_link, AQ_PREFIX6_MAX), n = 0;
    struct ifaddrs *list;

    if (getifaddrs(&list) < 0)
        return 0;
    for (struct ifaddrs *i = list; i && n < AQ_OWN_MAX; i = i->ifa_next) {
        const struct sockaddr *a = i->ifa_addr;
        if (!a || (a->sa_family != AF_INET && a->sa_family != AF_INET6) ||
            aq_addr_check(a, on_link, n_prefix, NULL) < 0)
            continue;
        ret[n] = (struct sockaddr_storage){0};
        memcpy(&ret[n], a, aq_addr_len(a));
        if (a->sa_family == AF_INET)
            ((struct sockaddr_in *)(void *)&ret[n])->sin_port = htons(port);
        else
            ((struct sockaddr_in6 *)(void *)&ret[n])->sin6_port = htons(port);
        n++;
    }
    freeifaddrs(list);
    return n;
}
