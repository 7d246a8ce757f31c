/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming detokenizer: bytes of tokens in, complete UTF-8 characters out. One per request; no allocation of its own. */
#include "unicode.h"
#include "vocab-priv.h"

/* Bytes that the character starting with lead byte c has; 1 for what can start none. */
static uint32_t lead_len(uint8_t c)
{
    return c >= 0xF0 && c <= 0xF4 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 1;
}

/* True when p[0..n) can still become a character by more bytes. */
static bool open_ended(const uint8_t *p, uint32_t n)
{
    uint8_t lo = 0x80, hi = 0xBF;

    if (n >= lead_len(p[0]))
        return false;
    /* second bytes that would make the character too long, too high or a surrogate */
    if (p[0] == 0xE0)
        lo = 0xA0;
    else if (p[0] == 0xED)
        hi = 0x9F;
    else if (p[0] == 0xF0)
        lo = 0x90;
    else if (p[0] == 0xF4)
        hi = 0x8F;
    for (uint32_t i = 1; i < n; i++, lo = 0x80, hi = 0xBF)
        if (p[i] < lo || p[i] > hi)
            return false;
    return true;
}

/* Put out what is decided of held[]; with `end` everything is. */
static int drain(aq_detok *d, bool end, aq_bytes *out)
{
    uint32_t i = 0;

    while (i < d->n_held) {
        uint32_t cp, left = d->n_held - i, len;
        bool bad;
        if (!end && open_ended(d->held + i, left))
            break;
        len = aq_uni_next((const char *)d->held + i, left, &cp, &bad);
        if (cp >= 0xD800 && cp < 0xE000)
            bad = true, len = 1;
        int rc = bad ? aq_bytes_put(out, "\xEF\xBF\xBD", 3) : aq_bytes_put(out, d->held + i, len);
        if (rc < 0)
            return rc;
        i += len;
    }
    memmove(d->held, d->held + i, d->n_held - i);
    d->n_held -= i;
    return 0;
}

int aq_detok_push(aq_detok *d, const aq_vocab *v, int32_t id, bool show_control, aq_bytes *out)
{
    uint32_t n;
    const char *p = aq_vocab_piece(v, id, &n);
    int rc;

    if (!aq_vocab_type(v, id))
        return -AQ_E_INVAL;
    if (!show_control && aq_vocab_is_control(v, id))
        return 0;
    uint32_t skip = d->at_start && v->space_prefix && n && p[0] == ' ';
    d->at_start = false;
    for (uint32_t i = skip; i < n; i++) {
        d->held[d->n_held++] = (uint8_t)p[i];
        if ((rc = drain(d, false, out)) < 0)
            return rc;
    }
    return 0;
}

int aq_detok_flush(aq_detok *d, aq_bytes *out)
{
    return drain(d, true, out);
}
