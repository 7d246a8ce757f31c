/* SPDX-License-Identifier: Apache-2.0 */
/* WINDOW and ROWS frames, and the three ways a row travels. Pure functions; a buffer belongs to one
 * thread at a time.
 *
 *   WINDOW   | head u16 | type u8 | 0 u8 | epoch u32 | n_ops u32 | n_rows u32 | row_f32 u32 |
 *            | n_hop u16 | 0 u16 | hop[n_hop] | op[n_ops] | row[n_rows] | x[n_rows][row_f32]
 *   ROWS     | head u16 | type u8 | 0 u8 | epoch u32 | rc u16 | n_hop u16 | n_rows u32 |
 *            | row_f32 u32 | n_text u32 | hop[n_hop] | text[n_text] | x[n_rows][row_f32]
 *
 * f16 and bf16 round to nearest, ties to even; a finite value that would become infinite is an
 * error of the sender. */
#include "wire-priv.h"

#include <endian.h>
#include <stdio.h>

#define ROW_FLAGS (AQ_ROW_BACK | AQ_ROW_LOGITS | AQ_ROW_DRAFT)

static const struct {
    const char *name;
    uint32_t bytes;
} row_types[AQ_ROWS_N] = {{"f32", 4}, {"f16", 2}, {"bf16", 2}};

const char *aq_rows_name(uint32_t type)
{
    return type < AQ_ROWS_N ? row_types[type].name : "?";
}

int aq_rows_type(const char *name)
{
    for (int i = 0; i < AQ_ROWS_N; i++)
        if (strcmp(name, row_types[i].name) == 0)
            return i;
    return -1;
}

uint32_t aq_rows_elem_bytes(uint32_t type)
{
    return type < AQ_ROWS_N ? row_types[type].bytes : 0;
}

uint64_t aq_wire_data_max(const aq_wire_fmt *f)
{
    uint64_t n = AQ_WIRE_HEAD_MAX + AQ_WIRE_HOPS_MAX * AQ_WIRE_HOP_BYTES +
                 AQ_OPS_MAX * AQ_WIRE_OP_BYTES + (uint64_t)f->max_rows * AQ_WIRE_ROW_BYTES +
                 (uint64_t)f->max_rows * f->row_f32 * aq_rows_elem_bytes(f->type);

    return AQ_MIN(n, AQ_WIRE_DATA_MAX);
}

static uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, 4);
    return x;
}

uint16_t aq_f16_from_f32(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;

    if (mag > 0x7f800000) /* NaN stays one, its top bits too */
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x47800000) /* 65536 and up, infinity */
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x33000000) /* below half of the smallest subnormal, 2^-25 */
        return (uint16_t)sign;
    if (mag < 0x38800000) { /* subnormal in f16: below 2^-14 */
        uint32_t shift = 126 - (mag >> 23), m = (mag & 0x7fffff) | 0x800000;
        uint32_t half = 1u << (shift - 1), rest = m & ((1u << shift) - 1), q = m >> shift;
        return (uint16_t)(sign | (q + (rest > half || (rest == half && (q & 1)))));
    }
    /* A carry out of the mantissa raises the exponent, as it must; 65520 becomes infinity. */
    uint32_t r = mag - 0x38000000;
    return (uint16_t)(sign | ((r + 0xfff + (r >> 13 & 1)) >> 13));
}

float aq_rows_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;

    if (e == 31)
        return float_of(sign | 0x7f800000 | m << 13);
    if (e == 0) /* m * 2^-24, exact */
        return float_of(sign | bits_of((float)m * 0x1p-24f));
    return float_of(sign | (e + 112) << 23 | m << 13);
}

static uint16_t bf16_from_f32(float x)
{
    uint32_t u = bits_of(x);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

size_t aq_rows_pack(uint32_t type, const float *x, size_t n, uint8_t *dst)
{
    if (type == AQ_ROWS_F32) {
        for (size_t i = 0; i < n; i++) {
            uint32_t u = htole32(bits_of(x[i]));
            memcpy(dst + 4 * i, &u, 4);
        }
        return n;
    }
    uint16_t inf = type == AQ_ROWS_F16 ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = type == AQ_ROWS_F16 ? aq_f16_from_f32(x[i]) : bf16_from_f32(x[i]);
        uint16_t le = htole16(h);

        if ((h & 0x7fff) == inf && (bits_of(x[i]) & 0x7fffffff) != 0x7f800000)
            return i;
        memcpy(dst + 2 * i, &le, 2);
    }
    return n;
}

void aq_rows_unpack(uint32_t type, const uint8_t *src, size_t n, float *ret_x)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        uint16_t h;

        if (type == AQ_ROWS_F32) {
            memcpy(&u, src + 4 * i, 4);
            ret_x[i] = float_of(le32toh(u));
            continue;
        }
        memcpy(&h, src + 2 * i, 2);
        h = le16toh(h);
        ret_x[i] = type == AQ_ROWS_F16 ? aq_rows_f16_to_f32(h) : float_of((uint32_t)h << 16);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* All writers reserve the whole frame first, so these cannot run past it. */
static uint8_t *put16(uint8_t *p, uint32_t x)
{
    uint16_t v = htole16((uint16_t)x);

    memcpy(p, &v, 2);
    return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t x)
{
    uint32_t v = htole32(x);

    memcpy(p, &v, 4);
    return p + 4;
}

static uint8_t *put64(uint8_t *p, uint64_t x)
{
    uint64_t v = htole64(x);

    memcpy(p, &v, 8);
    return p + 8;
}

static uint8_t *put_hops(uint8_t *p, const aq_hop *hop, uint32_t n_hop)
{
    for (uint32_t i = 0; i < n_hop; i++) {
        p = put32(p, hop[i].stage);
        p = put32(p, hop[i].self_us);
        p = put32(p, hop[i].net_us);
    }
    return p;
}

static int check_fmt(const aq_wire_fmt *f, aq_err *err)
{
    if (f->type >= AQ_ROWS_N || f->row_f32 == 0 || f->row_f32 > AQ_WIRE_ROW_F32_MAX ||
        f->max_rows == 0 || f->max_rows > AQ_ROWS_MAX)
        return aq_fail(err, AQ_E_INVAL, "rows of %u floats, %u at once, are outside the limits",
                       f->row_f32, f->max_rows);
    return AQ_OK;
}

/* Reserve a frame of n_payload bytes and write its header; *ret is where the payload goes. */
static int begin(aq_bytes *b, uint16_t type, uint64_t seq, uint64_t n_payload, uint8_t **ret,
                 aq_err *err)
{
    int rc;

    if (n_payload > AQ_WIRE_DATA_MAX)
        return aq_fail(err, AQ_E_LIMIT, "a frame of %llu bytes is too long: use smaller windows",
                       (unsigned long long)n_payload);
    if ((rc = aq_bytes_reserve(b, AQ_WIRE_HDR_BYTES + (size_t)n_payload)) < 0)
        return aq_fail(err, -rc, "no memory for a frame of %llu bytes",
                       (unsigned long long)n_payload);
    aq_wire_put_hdr(b->p + b->n, &(aq_hdr){.type = type, .length = n_payload, .seq = seq});
    *ret = b->p + b->n + AQ_WIRE_HDR_BYTES;
    return AQ_OK;
}

/* The rows, and the length of the finished frame; b is unchanged on failure. */
static int finish(aq_bytes *b, uint8_t *p, const float *x, uint32_t n_rows, const aq_wire_fmt *f,
                  aq_err *err)
{
    size_t n = (size_t)n_rows * f->row_f32, done = 0;

    if (n > 0)
        done = aq_rows_pack(f->type, x, n, p);
    if (done < n)
        return aq_fail(
            err, AQ_E_LIMIT, "value %zu of row %zu is %g, too large for %s: use bf16 or f32 rows",
            done % f->row_f32, done / f->row_f32, (double)x[done], aq_rows_name(f->type));
    p += n * aq_rows_elem_bytes(f->type);
    b->n = (size_t)(p - b->p);
    return AQ_OK;
}

int aq_wire_put_window(aq_bytes *b, uint64_t seq, const aq_window *w, const aq_wire_fmt *f,
                       const aq_hop *hop, uint32_t n_hop, aq_err *err)
{
    uint8_t *p = NULL;
    int rc;

    if ((rc = check_fmt(f, err)) < 0)
        return rc;
    if (w->n_rows > f->max_rows || w->n_ops > AQ_OPS_MAX || n_hop > AQ_WIRE_HOPS_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "a window of %u rows, %u operations and %u hops is too large", w->n_rows,
                       w->n_ops, n_hop);
    if (w->n_rows == 0 && w->n_ops == 0)
        return aq_fail(err, AQ_E_INVAL, "a window without rows and operations");
    if (w->n_rows > 0 && !w->x)
        return aq_fail(err, AQ_E_INVAL, "a window without hidden rows");
    uint64_t n = AQ_WIRE_HEAD_BYTES + (uint64_t)n_hop * AQ_WIRE_HOP_BYTES +
                 (uint64_t)w->n_ops * AQ_WIRE_OP_BYTES + (uint64_t)w->n_rows * AQ_WIRE_ROW_BYTES +
                 (uint64_t)w->n_rows * f->row_f32 * aq_rows_elem_bytes(f->type);
    if ((rc = begin(b, AQ_T_WINDOW, seq, n, &p, err)) < 0)
        return rc;
    p = put16(p, AQ_WIRE_HEAD_BYTES);
    *p++ = (uint8_t)f->type;
    *p++ = 0;
    p = put32(p, w->epoch);
    p = put32(p, w->n_ops);
    p = put32(p, w->n_rows);
    p = put32(p, f->row_f32);
    p = put16(p, n_hop);
    p = put16(p, 0);
    p = put_hops(p, hop, n_hop);
    for (uint32_t i = 0; i < w->n_ops; i++) {
        p = put16(p, w->op[i].kind);
        p = put16(p, 0);
        p = put32(p, w->op[i].seq);
        p = put32(p, w->op[i].from);
        p = put32(p, 0);
        p = put64(p, w->op[i].arg);
    }
    for (uint32_t i = 0; i < w->n_rows; i++) {
        p = put32(p, w->row[i].seq);
        p = put32(p, w->row[i].pos);
        p = put32(p, (uint32_t)w->row[i].tok);
        p = put32(p, w->row[i].flags);
    }
    return finish(b, p, w->x, w->n_rows, f, err);
}

int aq_wire_put_rows(aq_bytes *b, uint64_t seq, const aq_done *d, const aq_wire_fmt *f, aq_err *err)
{
    uint32_t n_text = d->rc ? (uint32_t)strnlen(d->err.text, sizeof d->err.text - 1) : 0;
    uint32_t n_back = d->rc ? 0 : d->n_back;
    uint8_t *p = NULL;
    int rc;

    if ((rc = check_fmt(f, err)) < 0)
        return rc;
    if (n_back > f->max_rows || d->n_hop > AQ_WIRE_HOPS_MAX)
        return aq_fail(err, AQ_E_LIMIT, "an answer of %u rows and %u hops is too large", n_back,
                       d->n_hop);
    if (n_back > 0 && !d->x)
        return aq_fail(err, AQ_E_INVAL, "an answer without its rows");
    uint64_t n = AQ_WIRE_HEAD_BYTES + (uint64_t)d->n_hop * AQ_WIRE_HOP_BYTES + n_text +
                 (uint64_t)n_back * f->row_f32 * aq_rows_elem_bytes(f->type);
    if ((rc = begin(b, AQ_T_ROWS, seq, n, &p, err)) < 0)
        return rc;
    p = put16(p, AQ_WIRE_HEAD_BYTES);
    *p++ = (uint8_t)f->type;
    *p++ = 0;
    p = put32(p, d->epoch);
    p = put16(p, (uint32_t)(d->rc < 0 ? -d->rc : d->rc));
    p = put16(p, d->n_hop);
    p = put32(p, n_back);
    p = put32(p, f->row_f32);
    p = put32(p, n_text);
    p = put_hops(p, d->hop, d->n_hop);
    memcpy(p, d->err.text, n_text);
    return finish(b, p + n_text, d->x, n_back, f, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int torn(const char *what, aq_err *err)
{
    return aq_fail(err, AQ_E_FORMAT, "a frame %s is too short for what it says it holds", what);
}

/* A buffer of at least n bytes that grows once and is used again. */
static int need(void **buf, size_t *cap, uint64_t n, aq_err *err)
{
    n = AQ_MAX(n, 64u);
    if (n <= *cap)
        return AQ_OK;
    void *p = n <= SIZE_MAX ? realloc(*buf, (size_t)n) : NULL;
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "no memory for %llu bytes of rows", (unsigned long long)n);
    *buf = p;
    *cap = (size_t)n;
    return AQ_OK;
}

/* head and type, common to both. */
static int get_start(aq_cur *c, const aq_wire_fmt *f, const char *what, uint16_t *ret_head,
                     uint32_t *ret_epoch, uint8_t *ret_type, aq_err *err)
{
    uint8_t zero;

    if (aq_cur_get_u16(c, ret_head) < 0 || aq_cur_get_u8(c, ret_type) < 0 ||
        aq_cur_get_u8(c, &zero) < 0 || aq_cur_get_u32(c, ret_epoch) < 0)
        return torn(what, err);
    if (*ret_head < AQ_WIRE_HEAD_BYTES || *ret_head > AQ_WIRE_HEAD_MAX || *ret_head % 4 != 0)
        return aq_fail(err, AQ_E_FORMAT, "a frame %s has a head of %u bytes", what, *ret_head);
    return check_fmt(f, err);
}

static int check_row_size(const char *what, uint8_t type, uint32_t row_f32, const aq_wire_fmt *f,
                          aq_err *err)
{
    if (type != f->type || row_f32 != f->row_f32)
        return aq_fail(err, AQ_E_MISMATCH,
                       "a frame %s has rows of %u floats as %s, agreed are %u as %s", what, row_f32,
                       aq_rows_name(type), f->row_f32, aq_rows_name(f->type));
    return AQ_OK;
}

static int get_hops(aq_cur *c, aq_hop *hop, uint32_t n_hop)
{
    for (uint32_t i = 0; i < n_hop; i++)
        if (aq_cur_get_u32(c, &hop[i].stage) < 0 || aq_cur_get_u32(c, &hop[i].self_us) < 0 ||
            aq_cur_get_u32(c, &hop[i].net_us) < 0)
            return -AQ_E_FORMAT;
    return AQ_OK;
}

static int get_ops(aq_cur *c, aq_op *op, uint32_t n, aq_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        op[i] = (aq_op){0};
        if (aq_cur_get_u16(c, &op[i].kind) < 0 || aq_cur_skip(c, 2) < 0 ||
            aq_cur_get_u32(c, &op[i].seq) < 0 || aq_cur_get_u32(c, &op[i].from) < 0 ||
            aq_cur_skip(c, 4) < 0 || aq_cur_get_u64(c, &op[i].arg) < 0)
            return torn("WINDOW", err);
        if (op[i].kind < AQ_OP_KEEP || op[i].kind > AQ_OP_RESTORE)
            return aq_fail(err, AQ_E_FORMAT, "operation %u of a window is of unknown kind %u", i,
                           op[i].kind);
    }
    return AQ_OK;
}

static int get_row_list(aq_cur *c, aq_row *row, uint32_t n, uint32_t *ret_n_back, aq_err *err)
{
    uint32_t n_back = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t tok;

        if (aq_cur_get_u32(c, &row[i].seq) < 0 || aq_cur_get_u32(c, &row[i].pos) < 0 ||
            aq_cur_get_u32(c, &tok) < 0 || aq_cur_get_u32(c, &row[i].flags) < 0)
            return torn("WINDOW", err);
        row[i].tok = (int32_t)tok;
        if (row[i].seq == AQ_SEQ_NONE || row[i].pos >= AQ_CTX_MAX || row[i].flags & ~ROW_FLAGS)
            return aq_fail(err, AQ_E_FORMAT, "row %u of a window is seq %u, position %u, flags %x",
                           i, row[i].seq, row[i].pos, row[i].flags);
        if (i > 0 && row[i].seq == row[i - 1].seq && row[i].pos != row[i - 1].pos + 1)
            return aq_fail(err, AQ_E_FORMAT, "row %u of a window has position %u after %u", i,
                           row[i].pos, row[i - 1].pos);
        n_back += (row[i].flags & (AQ_ROW_BACK | AQ_ROW_LOGITS)) != 0;
    }
    *ret_n_back = n_back;
    return AQ_OK;
}

int aq_wire_get_window(const void *payload, size_t n, const aq_wire_fmt *f, aq_wire_win *ret,
                       aq_err *err)
{
    aq_cur c = {.p = payload, .n = n};
    aq_window w = {0};
    uint16_t head, n_hop, zero;
    uint32_t row_f32;
    uint8_t type;
    int rc;

    if ((rc = get_start(&c, f, "WINDOW", &head, &w.epoch, &type, err)) < 0)
        return rc;
    if (aq_cur_get_u32(&c, &w.n_ops) < 0 || aq_cur_get_u32(&c, &w.n_rows) < 0 ||
        aq_cur_get_u32(&c, &row_f32) < 0 || aq_cur_get_u16(&c, &n_hop) < 0 ||
        aq_cur_get_u16(&c, &zero) < 0 || aq_cur_skip(&c, head - AQ_WIRE_HEAD_BYTES) < 0)
        return torn("WINDOW", err);
    if (w.n_ops > AQ_OPS_MAX || w.n_rows > f->max_rows || n_hop > AQ_WIRE_HOPS_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "a window of %u rows, %u operations and %u hops, at most %u, %u and %u",
                       w.n_rows, w.n_ops, n_hop, f->max_rows, AQ_OPS_MAX, AQ_WIRE_HOPS_MAX);
    if (w.n_rows == 0 && w.n_ops == 0)
        return aq_fail(err, AQ_E_FORMAT, "a window without rows and operations");
    if (w.n_rows > 0 && (rc = check_row_size("WINDOW", type, row_f32, f, err)) < 0)
        return rc;
    uint64_t n_f32 = (uint64_t)w.n_rows * f->row_f32;
    uint64_t want = (uint64_t)n_hop * AQ_WIRE_HOP_BYTES + (uint64_t)w.n_ops * AQ_WIRE_OP_BYTES +
                    (uint64_t)w.n_rows * AQ_WIRE_ROW_BYTES + n_f32 * aq_rows_elem_bytes(f->type);
    if (aq_cur_left(&c) != want)
        return aq_fail(err, AQ_E_FORMAT, "a frame WINDOW holds %zu bytes after its head, not %llu",
                       aq_cur_left(&c), (unsigned long long)want);

    /* op first: it has the widest alignment, and all sizes are multiples of 4. */
    uint64_t n_op_bytes = (uint64_t)w.n_ops * sizeof(aq_op);
    uint64_t n_row_bytes = (uint64_t)w.n_rows * sizeof(aq_row),
             n_hop_bytes = n_hop * sizeof(aq_hop);
    ret->w = (aq_window){0}; /* it may point into what moves now */
    ret->hop = NULL;
    ret->n_hop = 0;
    if ((rc = need(&ret->buf, &ret->cap, n_op_bytes + n_row_bytes + n_hop_bytes + n_f32 * 4, err)) <
        0)
        return rc;
    uint8_t *buf = ret->buf;
    aq_op *op = (void *)buf;
    aq_row *row = (void *)(buf + n_op_bytes);
    aq_hop *hop = (void *)(buf + n_op_bytes + n_row_bytes);
    float *x = (void *)(buf + n_op_bytes + n_row_bytes + n_hop_bytes);
    if (get_hops(&c, hop, n_hop) < 0)
        return torn("WINDOW", err);
    if ((rc = get_ops(&c, op, w.n_ops, err)) < 0 ||
        (rc = get_row_list(&c, row, w.n_rows, &w.n_back, err)) < 0)
        return rc;
    aq_rows_unpack(f->type, c.p + c.off, (size_t)n_f32, x);
    w.op = op;
    w.row = row;
    w.x = w.n_rows > 0 ? x : NULL;
    ret->w = w;
    ret->hop = hop;
    ret->n_hop = n_hop;
    return AQ_OK;
}

int aq_wire_get_rows(const void *payload, size_t n, const aq_wire_fmt *f, aq_wire_rows *ret,
                     aq_err *err)
{
    aq_cur c = {.p = payload, .n = n};
    aq_done d = {0};
    uint16_t head, code, n_hop;
    uint32_t row_f32, n_text;
    uint8_t type;
    const uint8_t *text;
    int rc;

    if ((rc = get_start(&c, f, "ROWS", &head, &d.epoch, &type, err)) < 0)
        return rc;
    if (aq_cur_get_u16(&c, &code) < 0 || aq_cur_get_u16(&c, &n_hop) < 0 ||
        aq_cur_get_u32(&c, &d.n_back) < 0 || aq_cur_get_u32(&c, &row_f32) < 0 ||
        aq_cur_get_u32(&c, &n_text) < 0 || aq_cur_skip(&c, head - AQ_WIRE_HEAD_BYTES) < 0)
        return torn("ROWS", err);
    if (d.n_back > f->max_rows || n_hop > AQ_WIRE_HOPS_MAX || n_text >= sizeof d.err.text)
        return aq_fail(err, AQ_E_LIMIT, "an answer of %u rows, %u hops and %u bytes of text",
                       d.n_back, n_hop, n_text);
    if (code ? d.n_back > 0 : n_text > 0)
        return aq_fail(err, AQ_E_FORMAT, "an answer with status %u, %u rows and %u bytes of text",
                       code, d.n_back, n_text);
    if (d.n_back > 0 && (rc = check_row_size("ROWS", type, row_f32, f, err)) < 0)
        return rc;
    uint64_t n_f32 = (uint64_t)d.n_back * f->row_f32;
    uint64_t want =
        (uint64_t)n_hop * AQ_WIRE_HOP_BYTES + n_text + n_f32 * aq_rows_elem_bytes(f->type);
    if (aq_cur_left(&c) != want)
        return aq_fail(err, AQ_E_FORMAT, "a frame ROWS holds %zu bytes after its head, not %llu",
                       aq_cur_left(&c), (unsigned long long)want);
    uint64_t n_hop_bytes = n_hop * sizeof(aq_hop);
    ret->d = (aq_done){0}; /* it may point into what moves now */
    if ((rc = need(&ret->buf, &ret->cap, n_hop_bytes + n_f32 * 4, err)) < 0)
        return rc;
    aq_hop *hop = ret->buf;
    float *x = (void *)((uint8_t *)ret->buf + n_hop_bytes);
    if (get_hops(&c, hop, n_hop) < 0 || aq_cur_get_bytes(&c, n_text, &text) < 0)
        return torn("ROWS", err);
    if (code) /* aq_fail cleans the foreign text */
        aq_fail(&d.err, code, "%.*s", (int)n_text, (const char *)text);
    aq_rows_unpack(f->type, c.p + c.off, (size_t)n_f32, x);
    d.rc = -(int)code;
    d.n_hop = n_hop;
    d.hop = hop;
    d.x = d.n_back > 0 ? x : NULL;
    ret->d = d;
    return AQ_OK;
}

void aq_wire_win_clear(aq_wire_win *w)
{
    if (!w)
        return;
    free(w->buf);
    *w = (aq_wire_win){0};
}

void aq_wire_rows_clear(aq_wire_rows *r)
{
    if (!r)
        return;
    free(r->buf);
    *r = (aq_wire_rows){0};
}
