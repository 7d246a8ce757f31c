/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers of DeepSeek's models before V3: passes over the text of which each cuts the pieces of those before it, here as one
 * pass. Const; any thread.
 *
 *   deepseek-coder   [\r\n]   \s?\p{L}+   \s?\p{P}+   CJK+   \p{N}
 *   deepseek-llm     [\r\n]   \s?W+   \s?S+   \s+$   CJK+   \p{N}
 *
 * CJK is [U+4E00-U+9FA5 U+0800-U+4E00 U+AC00-U+D7FF], W the letters of aq_uni_is_deepseek (most that have case), S the signs
 * [!-/:-~ U+FF01-U+FF0F U+FF1A-U+FF5E U+2018-U+201F U+3000-U+3002], which have Latin letters among them: so a word is cut
 * where those end and others begin. What neither words nor signs take is a gap; \s+$ cuts off the white space at its end. */
#include "unicode.h"
#include "vocab-priv.h"

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
    if (llm ? aq_uni_is_deepseek(cp) : (cl & AQ_CL_LETTER) != 0)
        c.k |= WORD;
    if (llm ? is_sign(cp) : (cl & AQ_CL_PUNCT) != 0)
        c.k |= SIGN;
    if ((c.k & SPACE) && (c.k & SIGN) && i + c.len < n) {
        aq_uni_next(s + i + c.len, n - i - c.len, &cp, NULL);
        if (aq_uni_is_deepseek(cp))
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
