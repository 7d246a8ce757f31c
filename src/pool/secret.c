/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's secret as letters that a person can type: Crockford's base 32 (no I, L, O, U). 256 bits
 * give 52 letters, then 4 letters with the first 20 bits of the secret's SHA-256; a dash after every
 * fourth. Any thread. */
#include "trust-priv.h"

#define LETTERS 56u

static const char alphabet[33] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* 52 letters hold 260 bits: the last one has 4 zero bits. */
static void letters_of(const uint8_t secret[AQ_SECRET_BYTES], uint8_t ret[LETTERS])
{
    uint8_t sum[32] = {0}, bits[33] = {0};
    aq_sha256 *h = aq_sha256_new();

    memcpy(bits, secret, 32);
    for (unsigned i = 0; i < 52; i++) {
        unsigned at = i * 5,
                 two = (unsigned)bits[at / 8] << 8 | (at / 8 + 1 < 33 ? bits[at / 8 + 1] : 0);
        ret[i] = (uint8_t)(two >> (11 - at % 8) & 31);
    }
    if (h && aq_sha256_add(h, secret, AQ_SECRET_BYTES) == 0)
        (void)!aq_sha256_end(h, sum);
    aq_sha256_free(h);
    ret[52] = sum[0] >> 3;
    ret[53] = (uint8_t)((sum[0] << 2 | sum[1] >> 6) & 31);
    ret[54] = sum[1] >> 1 & 31;
    ret[55] = (uint8_t)((sum[1] << 4 | sum[2] >> 4) & 31);
    aq_mem_wipe(bits, sizeof bits);
}

void aq_secret_to_text(const uint8_t secret[AQ_SECRET_BYTES], char ret[AQ_SECRET_TEXT_MAX])
{
    uint8_t v[LETTERS];
    unsigned out = 0;

    letters_of(secret, v);
    for (unsigned i = 0; i < LETTERS; i++) {
        if (i && i % 4 == 0)
            ret[out++] = '-';
        ret[out++] = alphabet[v[i]];
    }
    ret[out] = 0;
    aq_mem_wipe(v, sizeof v);
}

/* A typed letter's value; O is read as 0, I and L as 1. */
static int value_of(char c)
{
    if (c >= 'a' && c <= 'z')
        c = (char)(c - 'a' + 'A');
    if (c == 'O')
        c = '0';
    if (c == 'I' || c == 'L')
        c = '1';
    const char *p = c ? strchr(alphabet, c) : NULL;
    return p ? (int)(p - alphabet) : -1;
}

int aq_secret_from_text(const char *text, uint8_t ret[AQ_SECRET_BYTES], aq_err *err)
{
    uint8_t v[LETTERS] = {0}, again[LETTERS], s[AQ_SECRET_BYTES] = {0};
    unsigned n = 0;
    int rc = AQ_OK;

    for (; *text; text++) {
        if (*text == ' ' || *text == '-' || *text == '\n' || *text == '\r' || *text == '\t')
            continue;
        int d = value_of(*text);
        if (d < 0 || n >= LETTERS) {
            n = LETTERS + 1;
            break;
        }
        v[n++] = (uint8_t)d;
    }
    if (n != LETTERS) {
        rc = aq_fail(err, AQ_E_FORMAT, "a pool secret has %u letters and digits in groups of four",
                     LETTERS);
        goto out;
    }
    for (unsigned i = 0; i < 256; i++)
        s[i / 8] |= (uint8_t)((v[i / 5] >> (4 - i % 5) & 1) << (7 - i % 8));
    letters_of(s, again);
    if (!aq_mem_equal_ct(v, again, LETTERS)) {
        rc = aq_fail(err, AQ_E_FORMAT, "a letter of the pool secret is wrong: type it again");
        goto out;
    }
    memcpy(ret, s, AQ_SECRET_BYTES);
out:
    aq_mem_wipe(v, sizeof v);
    aq_mem_wipe(again, sizeof again);
    aq_mem_wipe(s, sizeof s);
    return rc;
}
