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

/* \p{N}{1,max} at s, or 0. */
static size_t numbers(const char *s, size_t n, uint32_t max)
{
    size_t i = 0;

    for (ch c; max-- && (c = at(s, n, i)).len && (c.cl & AQ_CL_NUM);)
        i += c.len;
    return i;
}

/* \p{N} : a first pass. */
static size_t first_digit(const char *s, size_t n)
{
    return numbers(s, n, 1);
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
    if (c.cl & AQ_CL_NUM)
        return numbers(s, n, digits);
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

/* What the splitters by upper and lower case differ in. */
typedef struct cased {
    bool tails;      /* a contraction belongs to its word */
    bool slash;      /* / ends signs as line ends do */
    bool han;        /* runs of the Han script are pieces of their own, and in no word */
    uint32_t digits; /* of one piece */
} cased;

/* One run of U = upper, title, other letters and marks, then W = lower, other letters and marks:
 * U*W+ (need_w, with what U* must give back for W+) or U+W*, then a contraction. 0 when s[i..n) has none. */
static size_t cased_word(const char *s, size_t n, size_t i, bool need_w, const cased *k)
{
    const uint32_t both = AQ_CL_OTHER | AQ_CL_MARK;
    size_t end = 0, j = i, upper;
    ch c;

    for (; (c = at(s, n, j)).len && (c.cl & (AQ_CL_UPPER | both)); j += c.len) {
        if (k->han && aq_uni_is_han(c.cp))
            break;
        if (c.cl & both)
            end = j + c.len;
    }
    for (upper = j; (c = at(s, n, j)).len && (c.cl & (AQ_CL_LOWER | both)); j += c.len)
        if (k->han && aq_uni_is_han(c.cp))
            break;
    if (j > upper || !need_w)
        end = j;
    return end > i ? end + (k->tails ? contraction(s + end, n - end, true) : 0) : 0;
}

/* [^\r\n\p{L}\p{N}]?U*W+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+W*(?i:'s|…)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W = [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
static inline size_t split_cased(const char *s, size_t n, const cased *k)
{
    ch c = at(s, n, 0);
    bool lead = c.cp != '\r' && c.cp != '\n' && !(c.cl & (AQ_CL_LETTER | AQ_CL_NUM));
    size_t len = 0;

    if (k->han) {
        for (ch d; (d = at(s, n, len)).len && aq_uni_is_han(d.cp);)
            len += d.len;
        if (len)
            return len;
    }
    for (int need_w = 1; need_w >= 0 && !len; need_w--) {
        len = lead ? cased_word(s, n, c.len, need_w, k) : 0;
        if (!len)
            len = cased_word(s, n, 0, need_w, k);
    }
    if (len)
        return len;
    if (c.cl & AQ_CL_NUM)
        return numbers(s, n, k->digits);
    size_t i = c.cp == ' ';
    if (i)
        c = at(s, n, i);
    if (c.len && !(c.cl & (AQ_CL_SPACE | AQ_CL_LETTER | AQ_CL_NUM))) {
        for (; c.len && !(c.cl & (AQ_CL_SPACE | AQ_CL_LETTER | AQ_CL_NUM)); c = at(s, n, i))
            i += c.len;
        while (i < n && (s[i] == '\r' || s[i] == '\n' || (k->slash && s[i] == '/')))
            i++;
        return i;
    }
    return space_lines(s, n);
}

static size_t split_gpt4o(const char *s, size_t n)
{
    return split_cased(s, n, &(cased){.tails = true, .slash = true, .digits = 3});
}

/* The same without contractions, and numbers digit by digit. */
static size_t split_tekken(const char *s, size_t n)
{
    return split_cased(s, n, &(cased){.slash = true, .digits = 1});
}

/* [\p{Han}]+ before all, no Han in U and W, and signs end with [\r\n]*. */
static size_t split_kimi(const char *s, size_t n)
{
    return split_cased(s, n, &(cased){.tails = true, .han = true, .digits = 3});
}

/* \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+ : first passes of deepseek-v3. */
static size_t first_deepseek(const char *s, size_t n)
{
    size_t i = numbers(s, n, 3);
    ch c;

    if (i)
        return i;
    while ((c = at(s, n, i)).len &&
           ((c.cp >= 0x4E00 && c.cp <= 0x9FA5) || (c.cp >= 0x3040 && c.cp <= 0x30FF)))
        i += c.len;
    return i;
}

/* [!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * (the first class is ASCII punctuation and symbols); what nothing matches stays together. */
static size_t deepseek_match(const char *s, size_t n)
{
    const uint32_t word = AQ_CL_LETTER | AQ_CL_MARK, sign = AQ_CL_PUNCT | AQ_CL_SYM;
    ch c = at(s, n, 0), d = at(s, n, c.len);
    size_t i = c.len;

    if (c.cp < 0x80 && (c.cl & sign) && d.cp < 0x80 && (d.cl & AQ_CL_LETTER)) {
        while (i < n && ((s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'z'))
            i++;
        return i;
    }
    if (c.cp != '\r' && c.cp != '\n' && !(c.cl & (AQ_CL_LETTER | sign)) && (d.cl & word))
        return run(s, n, c.len, word);
    if (c.cl & word)
        return run(s, n, 0, word);
    i = c.cp == ' ' ? c.len : 0;
    if ((i ? d : c).cl & sign) {
        i = run(s, n, i, sign);
        while (i < n && (s[i] == '\r' || s[i] == '\n'))
            i++;
        return i;
    }
    return c.cl & AQ_CL_SPACE ? space_lines(s, n) : 0;
}

static size_t split_deepseek(const char *s, size_t n)
{
    size_t len = deepseek_match(s, n), i = 0;

    while (!len && i < n) {
        i += at(s, n, i).len;
        len = i < n ? deepseek_match(s + i, n - i) : 0;
    }
    return i ? i : len;
}

/* [^\n]+|\n+ */
static size_t split_lines(const char *s, size_t n)
{
    const char *end;

    if (s[0] == '\n') {
        size_t i = 1;
        while (i < n && s[i] == '\n')
            i++;
        return i;
    }
    end = memchr(s, '\n', n);
    return end ? (size_t)(end - s) : n;
}

const aq_splitter aq_splitter_lines = {"gemma4", split_lines, NULL, false};

static const aq_splitter splitters[] = {
    {"gpt-2", split_gpt2, NULL, false},
    {"smollm", split_gpt2, first_digit, false},
    {"refact", split_gpt2, first_digit, false},
    {"starcoder", split_gpt2, first_digit, false},
    {"qwen2", split_qwen2, NULL, false},
    {"qwen35", split_qwen35, NULL, false},
    {"llama-bpe", split_llama3, NULL, true},
    {"glm4", split_llama3, NULL, false},
    {"gpt-4o", split_gpt4o, NULL, false},
    {"minimax-m2", split_gpt4o, NULL, false},
    {"tekken", split_tekken, NULL, true},
    {"kimi-k2", split_kimi, NULL, true},
    {"deepseek-v3", split_deepseek, first_deepseek, false},
    {"deepseek-llm", aq_split_deepseek_llm, NULL, false},
    {"deepseek-coder", aq_split_deepseek_coder, NULL, false},
};

/* Names that converters give to vocabularies of the same rules. */
static const char *const alias[][2] = {
    {"olmo", "gpt-2"},
    {"phi-2", "gpt-2"},
    {"mpt", "gpt-2"},
    {"gigachat", "gpt-2"},
    {"exaone4", "gpt-2"},
    {"a.x-4.0", "gpt-2"},
    {"mellum", "gpt-2"},
    {"trillion", "gpt-2"},
    {"command-r", "starcoder"},
    {"codeshell", "starcoder"},
    {"minerva-7b", "starcoder"},
    {"exaone", "starcoder"},
    {"deepseek-r1-qwen", "qwen2"},
    {"megrez", "qwen2"},
    {"kormo", "qwen2"},
    {"stablelm2", "qwen2"},
    {"hunyuan", "qwen2"},
    {"llama3", "llama-bpe"},
    {"llama-v3", "llama-bpe"},
    {"falcon3", "llama-bpe"},
    {"pixtral", "llama-bpe"},
    {"lfm2", "llama-bpe"},
    {"midm-2.0", "llama-bpe"},
    {"smaug-bpe", "glm4"},
    {"dbrx", "glm4"},
    {"chatglm-bpe", "glm4"},
    {"llama4", "gpt-4o"},
    {"kanana2", "gpt-4o"},
    {"hunyuan-dense", "deepseek-v3"},
    {"joyai-llm", "deepseek-v3"},
};

const aq_splitter *aq_splitter_find(const char *pre)
{
    for (size_t i = 0; pre && i < AQ_LEN(alias); i++)
        if (!strcmp(alias[i][0], pre))
            pre = alias[i][1];
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
