/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: a stream of any bytes either ends with a clear error or gives frames within the table's
 * limits; a WINDOW or ROWS that is taken can be written again to the same bytes (f32), or to what
 * reads the same.
 *
 *   byte 0: link state, bit 7 the sender   1: row type and floats of a row   then: frames */
#include "wire-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static void window(const aq_hdr *h, const uint8_t *p, const aq_wire_fmt *f)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_win got = {0}, again = {0};
    aq_err err = {0};
    int rc = aq_wire_get_window(p, h->length, f, &got, &err);

    if (rc < 0) {
        must(err.code == -rc && err.text[0]);
    } else {
        must(got.w.n_rows <= f->max_rows && got.w.n_back <= got.w.n_rows);
        must(aq_wire_put_window(&b, h->seq, &got.w, f, got.hop, got.n_hop, &err) == AQ_OK);
        must(b.n - AQ_WIRE_HDR_BYTES <= h->length);
        must(aq_wire_get_window(b.p + AQ_WIRE_HDR_BYTES, b.n - AQ_WIRE_HDR_BYTES, f, &again,
                                &err) == AQ_OK);
        must(again.w.epoch == got.w.epoch && again.w.n_back == got.w.n_back &&
             again.n_hop == got.n_hop);
        must(got.w.n_ops == 0 || memcmp(got.w.op, again.w.op, got.w.n_ops * sizeof(aq_op)) == 0);
        must(got.w.n_rows == 0 ||
             memcmp(got.w.row, again.w.row, got.w.n_rows * sizeof(aq_row)) == 0);
        for (size_t i = 0; i < (size_t)got.w.n_rows * f->row_f32; i++)
            must(memcmp(&got.w.x[i], &again.w.x[i], 4) == 0 || got.w.x[i] != got.w.x[i]);
    }
    aq_wire_win_clear(&got);
    aq_wire_win_clear(&again);
}

static void rows(const aq_hdr *h, const uint8_t *p, const aq_wire_fmt *f)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_wire_rows got = {0};
    aq_err err = {0};
    int rc = aq_wire_get_rows(p, h->length, f, &got, &err);

    if (rc < 0)
        must(err.code == -rc && err.text[0]);
    else
        must((got.d.rc == 0 || !got.d.x) && got.d.n_back <= f->max_rows &&
             aq_wire_put_rows(&b, h->seq, &got.d, f, &err) == AQ_OK);
    aq_wire_rows_clear(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    aq_wire_fmt f = {.max_rows = 16};
    aq_wire_seq seq = {0};

    if (n < 2)
        return 0;
    aq_lstate st = (aq_lstate)((data[0] & 0x7f) % AQ_LS_N);
    aq_role from = data[0] & 0x80 ? AQ_ACCEPTOR : AQ_DIALER;
    f.type = data[1] % AQ_ROWS_N;
    f.row_f32 = 1 + data[1] / AQ_ROWS_N % 8;
    aq_cur c = {.p = data + 2, .n = n - 2};
    for (;;) {
        aq_hdr h = {0};
        aq_err err = {0};
        uint8_t back[AQ_WIRE_HDR_BYTES];
        size_t at = c.off;
        int rc = aq_wire_get_hdr(&c, st, from, aq_wire_data_max(&f), &h, &err);

        if (rc <= 0) {
            must(c.off == at &&
                 (rc == 0 ? aq_cur_left(&c) < AQ_WIRE_HDR_BYTES : err.code == -rc && err.text[0]));
            return 0;
        }
        must(aq_wire_max(st, from, h.type) >= 0 &&
             h.length <= (uint64_t)aq_wire_max(st, from, h.type));
        aq_wire_put_hdr(back, &h);
        must(memcmp(back, c.p + at, sizeof back) == 0);
        if (aq_cur_left(&c) < h.length)
            return 0;
        const uint8_t *p = c.p + c.off;
        rc = aq_wire_seq_in(&seq, &h, p, h.length, &err);
        must(rc >= 0 || err.code == -rc);
        if (h.type == AQ_T_WINDOW)
            window(&h, p, &f);
        else if (h.type == AQ_T_ROWS)
            rows(&h, p, &f);
        must(aq_cur_skip(&c, h.length) == AQ_OK);
    }
}
