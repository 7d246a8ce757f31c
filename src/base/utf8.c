/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as Unicode table 3-7 allows it: no overlong forms, no surrogates, nothing past U+10FFFF.
 * No state. */
#include "aq/base.h"

#define REPLACEMENT 0xFFFDu

uint32_t aq_utf8_next(const char *s, size_t n, uint32_t *ret, bool *ret_bad)
{
    const uint8_t *p = (const uint8_t *)s;
    uint32_t cp, len, least;

    if (ret_bad)
        *ret_bad = false;
    if (n == 0)
        return 0;
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    if ((p[0] & 0xE0) == 0xC0) {
        len = 2, least = 0x80, cp = p[0] & 0x1F;
    } else if ((p[0] & 0xF0) == 0xE0) {
        len = 3, least = 0x800, cp = p[0] & 0x0F;
    } else if ((p[0] & 0xF8) == 0xF0) {
        len = 4, least = 0x10000, cp = p[0] & 0x07;
    } else {
        goto bad;
    }
    if (n < len)
        goto bad;
    for (uint32_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            goto bad;
        cp = cp << 6 | (p[i] & 0x3F);
    }
    if (cp < least || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        goto bad;
    *ret = cp;
    return len;

bad:
    *ret = REPLACEMENT;
    if (ret_bad)
        *ret_bad = true;
    return 1;
}

uint32_t aq_utf8_put(uint32_t cp, char out[4])
{
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        cp = REPLACEMENT;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}
