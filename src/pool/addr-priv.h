/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a pool may use, and addresses as text. */
#ifndef AQ_ADDR_PRIV_H
#define AQ_ADDR_PRIV_H

#include "aq/pool.h"

#include <sys/socket.h>

/** A prefix of IPv6 that is on-link on one of this PC's interfaces. */
typedef struct aq_prefix6 {
    uint8_t a[16];
    uint32_t n_bits;
} aq_prefix6;
#define AQ_PREFIX6_MAX 32u
/** Those of this PC now; their number, at most cap. */
uint32_t aq_addr_on_link(aq_prefix6 *ret, uint32_t cap);
#define AQ_OWN_MAX 32u /* of one PC: cards, bridges of containers, several IPv6 each */
/** Addresses of this PC that a pool may use, with this port; their number. */
uint32_t aq_addr_own(uint16_t port, struct sockaddr_storage ret[AQ_OWN_MAX]);
/** The same address, on the same interface; the port does not count. */
bool aq_addr_same(const struct sockaddr *, const struct sockaddr *);
/** 0, or AUTH with a text: loopback, link-local, private, unique local, 100.64/10 and on-link IPv6
 * are allowed, other addresses are not. IPv4 in IPv6 counts as IPv4. */
int aq_addr_check(const struct sockaddr *, const aq_prefix6 *, uint32_t n, aq_err *) AQ_MUST;
/** "192.168.1.7", "[fe80::1%eth0]", with ":port" when with_port. */
void aq_addr_text(const struct sockaddr *, bool with_port, char ret[AQ_ADDR_MAX + 1]);
/** The other way; without a port it is port. Numbers only: no name is looked up. INVAL. */
int aq_addr_parse(const char *text, uint16_t port, struct sockaddr_storage *ret, aq_err *) AQ_MUST;
socklen_t aq_addr_len(const struct sockaddr *);
/** One bucket for one neighbour: the IPv4 address, or the /64 of an IPv6 one. */
uint64_t aq_addr_bucket(const struct sockaddr *);

#endif
