/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers, the table of what is legal when and how large, sequence numbers. Pure functions;
 * any thread.
 *
 *   0       4     6     8               16              24
 *   | magic |type |flags|    length     |      seq      | payload …
 */
#include "wire-priv.h"

#include <endian.h>

/* Who may send: bits 1 << role. */
#define D (1u << AQ_DIALER)
#define A (1u << AQ_ACCEPTOR)
#define X (D | A)

static const struct frame_type {
    uint16_t type;
    const char *name;
    uint32_t max;
    uint8_t who[AQ_LS_N]; /* HELLO AUTH PAIR PAIRED OPEN LOADING READY STATUS CLOSED */
} frame_types[] = {
    /* clang-format off */
    {AQ_T_HELLO,       "HELLO",       2048,             {X, 0, 0, 0, 0, 0, 0, 0, 0}},
    {AQ_T_AUTH,        "AUTH",        512,              {0, D, 0, 0, 0, 0, 0, 0, 0}},
    {AQ_T_AUTH_OK,     "AUTH_OK",     512,              {0, A, 0, 0, 0, 0, 0, 0, 0}},
    {AQ_T_REKEY,       "REKEY",       AQ_WIRE_CTL_MAX,  {0, X, 0, 0, 0, 0, 0, 0, 0}},
    {AQ_T_PAIR_COMMIT, "PAIR_COMMIT", 512,              {0, 0, X, 0, 0, 0, 0, 0, 0}},
    {AQ_T_PAIR_REVEAL, "PAIR_REVEAL", 512,              {0, 0, X, 0, 0, 0, 0, 0, 0}},
    {AQ_T_PAIR_MATCH,  "PAIR_MATCH",  512,              {0, 0, X, 0, 0, 0, 0, 0, 0}},
    {AQ_T_PAIR_GRANT,  "PAIR_GRANT",  AQ_WIRE_CTL_MAX,  {0, 0, 0, X, 0, 0, 0, 0, 0}},
    {AQ_T_PAIR_DONE,   "PAIR_DONE",   2048,             {0, 0, 0, X, 0, 0, 0, 0, 0}},
    {AQ_T_PING,        "PING",        512,              {0, 0, 0, 0, X, X, X, X, 0}},
    {AQ_T_STATS,       "STATS",       AQ_WIRE_CTL_MAX,  {0, 0, 0, 0, X, X, X, X, 0}},
    {AQ_T_ACK,         "ACK",         512,              {0, 0, 0, 0, X, X, X, X, 0}},
    {AQ_T_BUSY,        "BUSY",        1024,             {A, A, A, 0, A, A, A, A, 0}},
    {AQ_T_ERROR,       "ERROR",       1024,             {X, X, X, X, X, X, X, X, 0}},
    {AQ_T_BYE,         "BYE",         1024,             {X, X, X, X, X, X, X, X, 0}},
    {AQ_T_ROSTER,      "ROSTER",      AQ_WIRE_CTL_MAX,  {0, 0, 0, 0, X, X, X, X, 0}},
    {AQ_T_CONFIG,      "CONFIG",      AQ_WIRE_CTL_MAX,  {0, 0, 0, 0, D, 0, D, 0, 0}},
    {AQ_T_READY,       "READY",       AQ_WIRE_CTL_MAX,  {0, 0, 0, 0, 0, A, 0, 0, 0}},
    {AQ_T_CANCEL,      "CANCEL",      512,              {0, 0, 0, 0, 0, D, D, 0, 0}},
    {AQ_T_WINDOW,      "WINDOW",      AQ_WIRE_DATA_MAX, {0, 0, 0, 0, 0, 0, D, 0, 0}},
    {AQ_T_ROWS,        "ROWS",        AQ_WIRE_DATA_MAX, {0, 0, 0, 0, 0, A, A, 0, 0}},
    /* clang-format on */
};
static const struct frame_type optional = {
    AQ_T_OPTIONAL, NULL, AQ_WIRE_CTL_MAX, {0, 0, 0, 0, X, X, X, X, 0}};

#undef D
#undef A
#undef X

static const struct frame_type *find_type(uint16_t type)
{
    for (size_t i = 0; i < AQ_LEN(frame_types); i++)
        if (frame_types[i].type == type)
            return &frame_types[i];
    return type >= AQ_T_OPTIONAL ? &optional : NULL;
}

const char *aq_wire_type_name(uint16_t type)
{
    const struct frame_type *t = find_type(type);

    return t ? t->name : NULL;
}

const char *aq_wire_state_name(aq_lstate state)
{
    static const char *const names[AQ_LS_N] = {"HELLO",   "AUTH",  "PAIR",   "PAIRED", "OPEN",
                                               "LOADING", "READY", "STATUS", "CLOSED"};

    return (unsigned)state < AQ_LS_N ? names[state] : "?";
}

int64_t aq_wire_max(aq_lstate state, aq_role from, uint16_t type)
{
    const struct frame_type *t = find_type(type);

    if (!t || (unsigned)state >= AQ_LS_N || !(t->who[state] >> from & 1))
        return -1;
    return t->max;
}

static bool is_data(uint16_t type)
{
    return type == AQ_T_WINDOW || type == AQ_T_ROWS;
}

void aq_wire_put_hdr(uint8_t ret[AQ_WIRE_HDR_BYTES], const aq_hdr *h)
{
    uint32_t magic = htole32(AQ_WIRE_MAGIC);
    uint16_t type = htole16(h->type), flags = htole16(h->flags);
    uint64_t length = htole64(h->length), seq = htole64(h->seq);

    memcpy(ret, &magic, 4);
    memcpy(ret + 4, &type, 2);
    memcpy(ret + 6, &flags, 2);
    memcpy(ret + 8, &length, 8);
    memcpy(ret + 16, &seq, 8);
}

int aq_wire_get_hdr(aq_cur *cur, aq_lstate state, aq_role from, uint64_t data_max, aq_hdr *ret,
                    aq_err *err)
{
    aq_cur c = *cur;
    uint32_t magic = 0;
    aq_hdr h = {0};

    if (aq_cur_left(&c) < AQ_WIRE_HDR_BYTES)
        return 0;
    if (aq_cur_get_u32(&c, &magic) < 0 || aq_cur_get_u16(&c, &h.type) < 0 ||
        aq_cur_get_u16(&c, &h.flags) < 0 || aq_cur_get_u64(&c, &h.length) < 0 ||
        aq_cur_get_u64(&c, &h.seq) < 0)
        return 0;
    if (magic != AQ_WIRE_MAGIC)
        return aq_fail(err, AQ_E_PROTO, "not a frame of the pool (it begins with %08x)", magic);
    const char *name = aq_wire_type_name(h.type);
    int64_t max = aq_wire_max(state, from, h.type);
    if (max < 0)
        return aq_fail(err, AQ_E_PROTO, "frame %s (0x%02x) of the %s is not allowed in state %s",
                       name ? name : "of unknown type", h.type,
                       from == AQ_DIALER ? "dialer" : "acceptor", aq_wire_state_name(state));
    if (h.flags & AQ_FLAG_MUST_MASK)
        return aq_fail(err, AQ_E_PROTO, "frame %s has unknown flags 0x%04x",
                       name ? name : "of unknown type", h.flags);
    uint64_t limit = is_data(h.type) ? AQ_MIN(data_max, (uint64_t)max) : (uint64_t)max;
    if (h.length > limit)
        return aq_fail(err, AQ_E_LIMIT, "frame %s is %llu bytes long, at most %llu are allowed",
                       name ? name : "of unknown type", (unsigned long long)h.length,
                       (unsigned long long)limit);
    *cur = c;
    *ret = h;
    return 1;
}

void aq_wire_seq_epoch(aq_wire_seq *s, uint32_t epoch)
{
    s->epoch = epoch;
    s->win = 0;
}

int aq_wire_seq_in(aq_wire_seq *s, const aq_hdr *h, const void *payload, size_t n, aq_err *err)
{
    if (!is_data(h->type)) {
        if (h->seq != s->ctl)
            return aq_fail(err, AQ_E_PROTO, "control frame number %llu where %llu was due",
                           (unsigned long long)h->seq, (unsigned long long)s->ctl);
        s->ctl++;
        return 0;
    }
    aq_cur c = {.p = payload, .n = n};
    uint32_t epoch = 0;
    if (aq_cur_skip(&c, 4) < 0 || aq_cur_get_u32(&c, &epoch) < 0)
        return aq_fail(err, AQ_E_FORMAT, "frame %s ends within its head",
                       aq_wire_type_name(h->type));
    if (epoch < s->epoch)
        return 1;
    if (epoch > s->epoch)
        return aq_fail(err, AQ_E_PROTO, "frame %s of epoch %u in epoch %u",
                       aq_wire_type_name(h->type), epoch, s->epoch);
    if (h->seq != s->win + 1)
        return aq_fail(err, AQ_E_PROTO, "frame %s number %llu where %llu was due",
                       aq_wire_type_name(h->type), (unsigned long long)h->seq,
                       (unsigned long long)(s->win + 1));
    s->win++;
    return 0;
}
