/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of DeepSeek's models before V3: passes over the text of which each cuts the pieces of those before it, here as one
 * pass. Const; any thread.
 *
 *   deepseek-coder   [\r\n]   \s?\p{L}+   \s?\p{P}+   CJK+   \p{N}
 *   deepseek-llm     [\r\n]   \s?W+   \s?S+   \s+$   CJK+   \p{N}
 *
 * CJK is [U+4E00-U+9FA5 U+0800-U+4E00 U+AC00-U+D7FF], W the letters of the table below (most that have case), S the signs
 * [!-/:-~ U+FF01-U+FF0F U+FF1A-U+FF5E U+2018-U+201F U+3000-U+3002], which have Latin letters among them: so a word is cut
 * where those end and others begin. What neither words nor signs take is a gap; \s+$ cuts off the white space at its end. */
#include "unicode.h"
#include "vocab-priv.h"

/* clang-format off */
static const uint32_t words[][2] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6},
    {0xf8, 0x1ba}, {0x1bc, 0x1bf}, {0x1c4, 0x293}, {0x295, 0x2af}, {0x370, 0x373},
    {0x376, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386}, {0x388, 0x38a},
    {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f},
    {0x531, 0x556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba},
    {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107},
    {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126},
    {0x2128, 0x2128}, {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f},
    {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4},
    {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf3}, {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f},
    {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17},
    {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};
/* clang-format on */

static bool is_word(uint32_t cp)
{
    size_t a = 0, b = AQ_LEN(words);

    while (a < b) { /* the first range that does not end before cp */
        size_t mid = (a + b) / 2;
        if (words[mid][1] < cp)
            a = mid + 1;
        else
            b = mid;
    }
    return a < AQ_LEN(words) && words[a][0] <= cp;
}

static bool is_sign(uint32_t cp)
{
    return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '~') || (cp >= 0xFF01 && cp <= 0xFF0F) ||
           (cp >= 0xFF1A && cp <= 0xFF5E) || (cp >= 0x2018 && cp <= 0x201F) ||
           (cp >= 0x3000 && cp <= 0x3002);
}

static bool is_cjk(uint32_t cp)
{
    return (cp >= 0x0800 && cp <= 0x9FA5) || (cp >= 0xAC00 && cp <= 0xD7FF);
}

/* WORD and SIGN may come together; SPACE has no line end. TAKEN: white space that would be a sign, but a word behind it has it. */
enum { WORD = 1, SIGN = 2, LINE = 4, SPACE = 8, NUM = 16, CJK = 32, TAKEN = 64 };

typedef struct ch {
    uint32_t k, len; /* len 0: past the end */
} ch;

static ch at(const char *s, size_t n, size_t i, bool llm)
{
    ch c = {0};
    uint32_t cp;

    if (i >= n)
        return c;
    c.len = aq_uni_next(s + i, n - i, &cp, NULL);
    uint32_t cl = aq_uni_class(cp);
    c.k = (is_cjk(cp) ? CJK : 0) | (cl & AQ_CL_NUM ? NUM : 0);
    if (cp == '\r' || cp == '\n')
        c.k |= LINE;
    else if (cl & AQ_CL_SPACE)
        c.k |= SPACE;
    if (llm ? is_word(cp) : (cl & AQ_CL_LETTER) != 0)
        c.k |= WORD;
    if (llm ? is_sign(cp) : (cl & AQ_CL_PUNCT) != 0)
        c.k |= SIGN;
    if ((c.k & SPACE) && (c.k & SIGN) && i + c.len < n) {
        aq_uni_next(s + i + c.len, n - i - c.len, &cp, NULL);
        if (is_word(cp))
            c.k ^= SIGN | TAKEN;
    }
    return c;
}

/* The run of characters like c that s[i..n) begins with; where signs end, white space at their end is left. */
static size_t run(const char *s, size_t n, size_t i, ch c, bool llm)
{
    size_t end = 0;
    ch d = c;

    for (; !((d.k ^ c.k) & (WORD | SIGN | CJK)) && d.len; d = at(s, n, i, llm)) {
        i += d.len;
        if (!(d.k & SPACE))
            end = i;
    }
    return !end || !((d.k ^ c.k) & (WORD | SIGN)) ? i : end;
}

/* Whether d, before e, ends a gap. */
static bool ends(ch d, ch e)
{
    return !d.len || (d.k & (WORD | SIGN | LINE)) || ((d.k & SPACE) && (e.k & (WORD | SIGN)));
}

/* A piece of a gap: one number, or characters that are all CJK or all not, without white space that ends the gap. */
static size_t gap(const char *s, size_t n, bool llm)
{
    ch c = at(s, n, 0, llm), d, e;
    bool in_space = c.k & SPACE;
    size_t i = c.len;

    if (c.k & NUM)
        return i;
    for (;; i += d.len) {
        d = at(s, n, i, llm);
        e = at(s, n, i + d.len, llm);
        if (ends(d, e) || ((d.k ^ c.k) & CJK) || (d.k & NUM))
            return i;
        if (llm && (d.k & SPACE) && !in_space) {
            size_t j = i;
            ch x = d, y = e;
            for (; (x.k & SPACE) && !ends(x, y); x = y, y = at(s, n, j + x.len, llm))
                j += x.len;
            if (ends(x, y))
                return i;
        }
        in_space = d.k & SPACE;
    }
}

static size_t split(const char *s, size_t n, bool llm)
{
    ch c = at(s, n, 0, llm), d = at(s, n, c.len, llm);

    if (c.k & LINE)
        return c.len;
    if (!(c.k & SPACE) || !(d.k & (WORD | SIGN)))
        return c.k & (WORD | SIGN) ? run(s, n, 0, c, llm) : gap(s, n, llm);
    /* white space before a word or signs: one piece with them where it is no sign itself */
    if (((d.k ^ c.k) & CJK) || (c.k & TAKEN))
        return c.len;
    return run(s, n, c.len, d, llm);
}

size_t aq_split_deepseek_coder(const char *s, size_t n)
{
    return split(s, n, false);
}

size_t aq_split_deepseek_llm(const char *s, size_t n)
{
    return split(s, n, true);
}
