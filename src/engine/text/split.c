/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: hand-written equivalents of the regular expressions that vocabularies were trained with. A function gives the
 * length of the first piece; the expression it stands for is written above it. Each piece is found by looking at its own bytes and
 * at most one character more, so splitting is linear. Const; any thread.
 *
 * \s is White_Space; (?i:'s) is taken over ASCII. Alternatives are tried in the order of the expression. */
#include "unicode.h"
#include "vocab-priv.h"

typedef struct ch {
    uint32_t cp, cl, len; /* len 0: past the end */
} ch;

static inline ch at(const char *s, size_t n, size_t i)
{
    ch c = {0, 0, 0};

    if (i < n) {
        c.len = aq_uni_next(s + i, n - i, &c.cp, NULL);
        c.cl = aq_uni_class(c.cp);
    }
    return c;
}

static size_t run(const char *s, size_t n, size_t i, uint32_t mask)
{
    for (ch c; (c = at(s, n, i)).len && (c.cl & mask);)
        i += c.len;
    return i;
}

/* 's 't 're 've 'm 'll 'd at s: its length or 0. */
static size_t contraction(const char *s, size_t n, bool fold)
{
    if (n < 2 || s[0] != '\'')
        return 0;
    char a = s[1], b = n > 2 ? s[2] : 0;
    if (fold) {
        a = (char)(a | 0x20);
        b = (char)(b | 0x20);
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* \s+(?!\S)|\s+ : a run gives its last character away to what follows, unless it has no other. */
static size_t space_tail(const char *s, size_t n)
{
    size_t i = 0, last = 0;

    for (ch c; (c = at(s, n, i)).len && (c.cl & AQ_CL_SPACE); i += c.len)
        last = i;
    return i == n || last == 0 ? i : last;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run if it has one. */
static size_t space_lines(const char *s, size_t n)
{
    size_t i = 0, line = 0;

    for (ch c; (c = at(s, n, i)).len && (c.cl & AQ_CL_SPACE);) {
        i += c.len;
        if (c.cp == '\n' || c.cp == '\r')
            line = i;
    }
    return line ? line : space_tail(s, n);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t split_gpt2(const char *s, size_t n)
{
    size_t len = contraction(s, n, false), i = s[0] == ' ';

    if (len)
        return len;
    ch c = at(s, n, i);
    if (c.len && !(c.cl & AQ_CL_SPACE)) {
        if (c.cl & AQ_CL_LETTER)
            return run(s, n, i, AQ_CL_LETTER);
        if (c.cl & AQ_CL_NUM)
            return run(s, n, i, AQ_CL_NUM);
        while (c.len && !(c.cl & (AQ_CL_SPACE | AQ_CL_LETTER | AQ_CL_NUM))) {
            i += c.len;
            c = at(s, n, i);
        }
        return i;
    }
    return space_tail(s, n);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?LETTERS+|\p{N}{1,DIGITS}| ?[^\s LETTERS \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * where LETTERS is \p{L}, with \p{M} in the newest form. */
static inline size_t split_words(const char *s, size_t n, uint32_t letters, uint32_t digits)
{
    size_t len = contraction(s, n, true);

    if (len)
        return len;
    ch c = at(s, n, 0), d = at(s, n, c.len);
    if (c.cl & letters)
        return run(s, n, 0, letters);
    if (c.cp != '\r' && c.cp != '\n' && !(c.cl & (AQ_CL_LETTER | AQ_CL_NUM)) && (d.cl & letters))
        return run(s, n, c.len, letters);
    if (c.cl & AQ_CL_NUM) {
        size_t i = 0;
        for (uint32_t k = 0; k < digits && c.len && (c.cl & AQ_CL_NUM); k++) {
            i += c.len;
            c = at(s, n, i);
        }
        return i;
    }
    size_t i = c.cp == ' ' ? c.len : 0;
    c = i ? d : c;
    if (c.len && !(c.cl & (AQ_CL_SPACE | AQ_CL_NUM | letters))) {
        do {
            i += c.len;
            c = at(s, n, i);
        } while (c.len && !(c.cl & (AQ_CL_SPACE | AQ_CL_NUM | letters)));
        while (i < n && (s[i] == '\r' || s[i] == '\n'))
            i++;
        return i;
    }
    return space_lines(s, n);
}

static size_t split_qwen2(const char *s, size_t n)
{
    return split_words(s, n, AQ_CL_LETTER, 1);
}

static size_t split_qwen35(const char *s, size_t n)
{
    return split_words(s, n, AQ_CL_LETTER | AQ_CL_MARK, 1);
}

static size_t split_llama3(const char *s, size_t n)
{
    return split_words(s, n, AQ_CL_LETTER, 3);
}

static const aq_splitter splitters[] = {
    {"gpt-2", split_gpt2, false, false},      {"smollm", split_gpt2, true, false},
    {"refact", split_gpt2, true, false},      {"starcoder", split_gpt2, true, false},
    {"qwen2", split_qwen2, false, false},     {"qwen35", split_qwen35, false, false},
    {"llama-bpe", split_llama3, false, true}, {"glm4", split_llama3, false, false},
};

const aq_splitter *aq_splitter_find(const char *pre)
{
    for (size_t i = 0; pre && i < AQ_LEN(splitters); i++)
        if (!strcmp(splitters[i].pre, pre))
            return &splitters[i];
    return NULL;
}

const aq_splitter *aq_splitter_list(size_t *ret_n)
{
    *ret_n = AQ_LEN(splitters);
    return splitters;
}
