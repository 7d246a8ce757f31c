/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in the generated Unicode table. Const data only; any thread. */
#include "unicode.h"

/* Flags per general category, in the generator's order. */
static const uint16_t gc_flags[32] = {
    /* Lu Ll Lt Lm Lo */ AQ_CL_UPPER | AQ_CL_PRINT,
    AQ_CL_LOWER | AQ_CL_PRINT,
    AQ_CL_UPPER | AQ_CL_PRINT,
    AQ_CL_OTHER | AQ_CL_PRINT | AQ_CL_IGN,
    AQ_CL_OTHER | AQ_CL_PRINT,
    /* Mn Mc Me */ AQ_CL_MARK | AQ_CL_PRINT | AQ_CL_IGN,
    AQ_CL_MARK | AQ_CL_PRINT,
    AQ_CL_MARK | AQ_CL_PRINT | AQ_CL_IGN,
    /* Nd Nl No */ AQ_CL_NUM | AQ_CL_DIGIT | AQ_CL_PRINT,
    AQ_CL_NUM | AQ_CL_PRINT,
    AQ_CL_NUM | AQ_CL_PRINT,
    /* Pc Pd Ps Pe Pi Pf Po */ AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    AQ_CL_PUNCT | AQ_CL_PRINT,
    /* Sm Sc Sk So */ AQ_CL_SYM | AQ_CL_PRINT,
    AQ_CL_SYM | AQ_CL_PRINT,
    AQ_CL_SYM | AQ_CL_PRINT | AQ_CL_IGN,
    AQ_CL_SYM | AQ_CL_PRINT,
    /* Zs Zl Zp */ 0,
    0,
    0,
    /* Cc Cf Cs Co Cn */ 0,
    AQ_CL_IGN,
    0,
    0,
    0,
};

static bool white(uint32_t c)
{
    return c <= 0x20 ? c == 0x20 || (c >= 9 && c <= 13)
                     : c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
                           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

uint32_t aq_uni_class(uint32_t cp)
{
    uint32_t flags;

    if (cp > 0x10FFFF)
        return 0;
    if (cp < 0x80) {
        if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z')
            return (cp & 0x20 ? AQ_CL_LOWER : AQ_CL_UPPER) | AQ_CL_PRINT;
        if (cp >= '0' && cp <= '9')
            return AQ_CL_NUM | AQ_CL_DIGIT | AQ_CL_PRINT;
    }
    uint32_t lo = 0, hi = aq_uni_range_n;
    while (hi - lo > 1) {
        uint32_t mid = (lo + hi) / 2;
        if (aq_uni_range[mid] >> 5 <= cp)
            lo = mid;
        else
            hi = mid;
    }
    flags = gc_flags[aq_uni_range[lo] & 31];
    if (white(cp))
        flags |= AQ_CL_SPACE;
    if (cp == ' ')
        flags |= AQ_CL_PRINT;
    if (cp == '\'' || cp == '.' || cp == ':' || cp == 0xB7 || cp == 0x2019)
        flags |= AQ_CL_IGN;
    return flags;
}

bool aq_uni_pyspace(uint32_t cp)
{
    return white(cp) || (cp >= 0x1C && cp <= 0x1F);
}

uint32_t aq_uni_map(int how, uint32_t cp, uint32_t out[3])
{
    static const struct {
        const aq_uni_case *c;
        const uint32_t *c_n;
        const aq_uni_special *s;
        const uint32_t *s_n;
    } tab[] = {
        {aq_uni_case_upper, &aq_uni_case_upper_n, aq_uni_special_upper, &aq_uni_special_upper_n},
        {aq_uni_case_lower, &aq_uni_case_lower_n, aq_uni_special_lower, &aq_uni_special_lower_n},
        {aq_uni_case_title, &aq_uni_case_title_n, aq_uni_special_title, &aq_uni_special_title_n},
    };

    out[0] = cp;
    if (cp < 0x80) {
        if (how == AQ_UNI_LOWER ? cp >= 'A' && cp <= 'Z' : cp >= 'a' && cp <= 'z')
            out[0] = cp ^ 0x20;
        return 1;
    }
    uint32_t lo = 0, hi = *tab[how].s_n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        const aq_uni_special *s = &tab[how].s[mid];
        if (s->cp == cp) {
            uint32_t n = 0;
            while (n < 3 && s->to[n]) {
                out[n] = s->to[n];
                n++;
            }
            return n;
        }
        if (s->cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    lo = 0, hi = *tab[how].c_n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        const aq_uni_case *c = &tab[how].c[mid];
        if (cp > c->last) {
            lo = mid + 1;
        } else if (cp < c->first) {
            hi = mid;
        } else {
            if ((cp - c->first) % c->step == 0)
                out[0] = (uint32_t)((int32_t)cp + c->delta);
            return 1;
        }
    }
    return 1;
}

uint32_t aq_uni_next(const char *s, size_t n, uint32_t *ret, bool *ret_bad)
{
    const uint8_t *p = (const uint8_t *)s;
    uint32_t c = p[0], len, cp, min;

    if (ret_bad)
        *ret_bad = false;
    if (c < 0x80) {
        *ret = c;
        return 1;
    }
    if (c >= 0xC2 && c <= 0xDF)
        len = 2, cp = c & 0x1F, min = 0x80;
    else if ((c & 0xF0) == 0xE0)
        len = 3, cp = c & 0x0F, min = 0x800;
    else if (c >= 0xF0 && c <= 0xF4)
        len = 4, cp = c & 0x07, min = 0x10000;
    else
        goto bad;
    if (len > n)
        goto bad;
    for (uint32_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            goto bad;
        cp = cp << 6 | (p[i] & 0x3F);
    }
    if (cp < min || cp > 0x10FFFF)
        goto bad;
    *ret = cp;
    return len;
bad:
    if (ret_bad)
        *ret_bad = true;
    *ret = 0xFFFD;
    return 1;
}
