/* SPDX-License-Identifier: Apache-2.0 */
/* The wire of docs/PROTOCOL.md in C: types, states, limits and layouts, all of them here. Pure
 * functions of bytes: no I/O, no clock, no state but what the caller holds. Any thread. */
#ifndef AQ_WIRE_PRIV_H
#define AQ_WIRE_PRIV_H

#include "aq/engine.h"

#define AQ_WIRE_MAGIC 0x31505141u /* "AQP1" */
#define AQ_WIRE_MAJOR 1u
#define AQ_WIRE_MINOR 0u

#define AQ_WIRE_HDR_BYTES 24u
#define AQ_WIRE_PREAUTH_MAX 2048u     /* payload before AUTH_OK */
#define AQ_WIRE_CTL_MAX (64u << 10)   /* control payload */
#define AQ_WIRE_DATA_MAX (512u << 20) /* WINDOW, ROWS */
#define AQ_WIRE_KEY_MAX 32u           /* bytes of a key */
#define AQ_WIRE_VALUE_MAX 1024u       /* bytes of a value; `roster` fills the frame */
#define AQ_WIRE_LINES_MAX 256u
#define AQ_WIRE_NAME_MAX 64u /* bytes of a PC's name */
#define AQ_WIRE_HOPS_MAX 64u
#define AQ_WIRE_ROW_F32_MAX (1u << 20)
#define AQ_WIRE_HEAD_BYTES 24u /* of WINDOW and ROWS in 1.0 */
#define AQ_WIRE_HEAD_MAX 1024u /* what a later minor may make of it */
#define AQ_WIRE_HOP_BYTES 12u
#define AQ_WIRE_OP_BYTES 24u
#define AQ_WIRE_ROW_BYTES 16u

/* Feature bits of HELLO. */
#define AQ_FEAT_SPLIT (1ull << 0)
#define AQ_FEAT_F16 (1ull << 1)
#define AQ_FEAT_BF16 (1ull << 2)
#define AQ_FEAT_RING (1ull << 3)
#define AQ_FEAT_FILES (1ull << 4)
#define AQ_FEAT_SHARE (1ull << 5)

/* Header flags. */
#define AQ_FLAG_REPLY 0x0001u
#define AQ_FLAG_MUST_MASK 0xff00u /* unknown bits of these are an error */

enum {
    AQ_T_HELLO = 0x01,
    AQ_T_AUTH = 0x02,
    AQ_T_AUTH_OK = 0x03,
    AQ_T_REKEY = 0x04,
    AQ_T_PAIR_COMMIT = 0x08,
    AQ_T_PAIR_REVEAL = 0x09,
    AQ_T_PAIR_MATCH = 0x0a,
    AQ_T_PAIR_GRANT = 0x0b,
    AQ_T_PAIR_DONE = 0x0c,
    AQ_T_PING = 0x10,
    AQ_T_STATS = 0x11,
    AQ_T_ACK = 0x12,
    AQ_T_BUSY = 0x13,
    AQ_T_ERROR = 0x14,
    AQ_T_BYE = 0x15,
    AQ_T_ROSTER = 0x16,
    AQ_T_CONFIG = 0x20,
    AQ_T_READY = 0x21,
    AQ_T_CANCEL = 0x22,
    AQ_T_WINDOW = 0x30,
    AQ_T_ROWS = 0x31,
    AQ_T_OPTIONAL = 0x8000, /* and up: skipped when unknown */
};

/** State of one end of a link. */
typedef enum aq_lstate {
    AQ_LS_HELLO,
    AQ_LS_AUTH,
    AQ_LS_PAIR,
    AQ_LS_PAIRED,
    AQ_LS_OPEN,
    AQ_LS_LOADING,
    AQ_LS_READY,
    AQ_LS_STATUS,
    AQ_LS_CLOSED,
    AQ_LS_N
} aq_lstate;

/** Who made the TCP connection, and who accepted it; the numbers are those of the proofs. */
typedef enum aq_role {
    AQ_DIALER = 1,
    AQ_ACCEPTOR = 2,
} aq_role;

typedef struct aq_hdr {
    uint16_t type, flags;
    uint64_t length, seq;
} aq_hdr;

/** "WINDOW"; NULL for a type that 1.0 does not know. */
const char *aq_wire_type_name(uint16_t type);
const char *aq_wire_state_name(aq_lstate);
/** Longest payload that `from` may send in this state; -1 = the type is illegal there. */
int64_t aq_wire_max(aq_lstate, aq_role from, uint16_t type);

void aq_wire_put_hdr(uint8_t ret[AQ_WIRE_HDR_BYTES], const aq_hdr *);
/** Take one header off cur. data_max: what CONFIG makes of AQ_WIRE_DATA_MAX.
 * Returns 1 = taken, 0 = too few bytes (cur untouched), PROTO (magic, unknown type, type illegal in
 * this state, flag that must be understood), LIMIT (length). */
int aq_wire_get_hdr(aq_cur *cur, aq_lstate, aq_role from, uint64_t data_max, aq_hdr *ret,
                    aq_err *) AQ_MUST;

/** Sequence numbers of one direction; {0} at the start. */
typedef struct aq_wire_seq {
    uint64_t ctl; /* of the next control frame */
    uint64_t win; /* WINDOW or ROWS frames seen in this epoch */
    uint32_t epoch;
} aq_wire_seq;
/** A new epoch: WINDOW and ROWS count from 1 again. */
void aq_wire_seq_epoch(aq_wire_seq *, uint32_t epoch);
/** Check an arrived frame's number. 0 = take it, 1 = drop it (older epoch), PROTO. */
int aq_wire_seq_in(aq_wire_seq *, const aq_hdr *, const void *payload, size_t n, aq_err *) AQ_MUST;

/* ---- control payload: key=value lines -------------------------------------------------------- */

typedef struct aq_kv {
    const char *p; /* borrowed payload */
    uint32_t n_line;
    struct {
        uint32_t key, val, n_val; /* offsets into p */
        uint32_t n_key;
    } line[AQ_WIRE_LINES_MAX];
} aq_kv;

/** FORMAT or LIMIT with the line's number; the payload is borrowed. */
int aq_kv_parse(const void *payload, size_t n, aq_kv *ret, aq_err *) AQ_MUST;
/** The value, not NUL-terminated, or NULL. */
const char *aq_kv_get(const aq_kv *, const char *key, uint32_t *ret_n);
/* Each: 1 = present, 0 = absent (only when not `need`; *ret untouched), FORMAT or LIMIT naming the
 * key. */
int aq_kv_u64(const aq_kv *, const char *key, bool need, uint64_t max, uint64_t *ret,
              aq_err *) AQ_MUST;
int aq_kv_u32(const aq_kv *, const char *key, bool need, uint32_t max, uint32_t *ret,
              aq_err *) AQ_MUST;
int aq_kv_hex(const aq_kv *, const char *key, bool need, uint8_t *ret, size_t n,
              aq_err *) AQ_MUST; /* ret[n] of 2n digits */
int aq_kv_bits(const aq_kv *, const char *key, bool need, uint64_t *ret, aq_err *) AQ_MUST;
/** Copy as a string of at most cap - 1 bytes. */
int aq_kv_text(const aq_kv *, const char *key, bool need, char *ret, size_t cap, aq_err *) AQ_MUST;

/* Append a line. Control characters and invalid UTF-8 of text become spaces or '?', a text that is
 * too long is cut. NOMEM, LIMIT. */
int aq_kv_put_text(aq_bytes *, const char *key, const char *text) AQ_MUST;
int aq_kv_put_u64(aq_bytes *, const char *key, uint64_t) AQ_MUST;
int aq_kv_put_hex(aq_bytes *, const char *key, const uint8_t *, size_t n) AQ_MUST;
int aq_kv_put_bits(aq_bytes *, const char *key, uint64_t) AQ_MUST;

/* ---- rows ------------------------------------------------------------------------------------ */

/** How a link carries rows: agreed by CONFIG. */
enum { AQ_ROWS_F32 = 0, AQ_ROWS_F16 = 1, AQ_ROWS_BF16 = 2, AQ_ROWS_N };
typedef struct aq_wire_fmt {
    uint32_t row_f32; /* floats of a row */
    uint32_t max_rows;
    uint32_t type; /* AQ_ROWS_* */
} aq_wire_fmt;
const char *aq_rows_name(uint32_t type);
int aq_rows_type(const char *name); /* -1: unknown */
uint32_t aq_rows_elem_bytes(uint32_t type);
/** Longest payload of WINDOW and ROWS under fmt. */
uint64_t aq_wire_data_max(const aq_wire_fmt *);

/** x[n] to dst[n * elem_bytes], little-endian, to nearest even.
 * Returns n, or the index of the first finite value that would become infinite. */
size_t aq_rows_pack(uint32_t type, const float *x, size_t n, uint8_t *dst);
void aq_rows_unpack(uint32_t type, const uint8_t *src, size_t n, float *ret_x);
uint16_t aq_f16_from_f32(float);
float aq_rows_f16_to_f32(uint16_t);

/** A whole WINDOW frame, header included, appended to b. w->x may be NULL only when w->n_rows is 0.
 * LIMIT: a value does not fit f16 or bf16 (row and value named), too many rows, operations or hops.
 * b is as before on failure. */
int aq_wire_put_window(aq_bytes *b, uint64_t seq, const aq_window *w, const aq_wire_fmt *,
                       const aq_hop *hop, uint32_t n_hop, aq_err *) AQ_MUST;
/** A whole ROWS frame. With d->rc the hops and d->err.text, else d->x [d->n_back][row_f32]. */
int aq_wire_put_rows(aq_bytes *b, uint64_t seq, const aq_done *d, const aq_wire_fmt *,
                     aq_err *) AQ_MUST;

/** Where WINDOW is unpacked to. {0} at first; buffers grow once and are used again. */
typedef struct aq_wire_win {
    aq_window w; /* w.id is the caller's to set (the frame's seq) */
    aq_hop *hop;
    uint32_t n_hop;
    void *buf;
    size_t cap;
} aq_wire_win;
typedef struct aq_wire_rows {
    aq_done d; /* d.id is the caller's to set */
    void *buf;
    size_t cap;
} aq_wire_rows;
/** FORMAT (lengths, unknown operation or flag, positions not ascending), LIMIT, MISMATCH (row size
 * or type other than agreed), NOMEM. ret is valid until its next use. */
int aq_wire_get_window(const void *payload, size_t n, const aq_wire_fmt *, aq_wire_win *ret,
                       aq_err *) AQ_MUST;
int aq_wire_get_rows(const void *payload, size_t n, const aq_wire_fmt *, aq_wire_rows *ret,
                     aq_err *) AQ_MUST;
void aq_wire_win_clear(aq_wire_win *);
void aq_wire_rows_clear(aq_wire_rows *);

#endif
