/* SPDX-License-Identifier: Apache-2.0 */
/* Character classes and case over the generated table: what the splitters and the template language need of Unicode.
 * Everything is const; any thread. */
#ifndef AQ_TEXT_UNICODE_H
#define AQ_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flags of a code point; letters by kind because some splitters look at case. */
enum {
    AQ_CL_UPPER = 1,   /* Lu, Lt */
    AQ_CL_LOWER = 2,   /* Ll */
    AQ_CL_OTHER = 4,   /* Lm, Lo: letters without case */
    AQ_CL_MARK = 8,    /* M */
    AQ_CL_NUM = 16,    /* N */
    AQ_CL_SPACE = 32,  /* White_Space */
    AQ_CL_PUNCT = 64,  /* P */
    AQ_CL_SYM = 128,   /* S */
    AQ_CL_PRINT = 256, /* shown as itself by Python's repr() */
    AQ_CL_IGN =
        512, /* no case and invisible to it: marks, format, modifiers (for the final sigma) */
    AQ_CL_DIGIT = 1024, /* Nd */
    AQ_CL_LETTER = AQ_CL_UPPER | AQ_CL_LOWER | AQ_CL_OTHER,
};

/** Flags of a code point; 0 for unassigned, private and above U+10FFFF. */
uint32_t aq_uni_class(uint32_t cp);
/** Python's str.isspace: White_Space and U+001C..U+001F. */
bool aq_uni_pyspace(uint32_t cp);

enum { AQ_UNI_UPPER, AQ_UNI_LOWER, AQ_UNI_TITLE };
/** Full case mapping of one code point without context: 1..3 code points in out. */
uint32_t aq_uni_map(int how, uint32_t cp, uint32_t out[3]);

/** Decode one character of s[0..n), n >= 1: bytes taken. Encoded surrogates pass as they are; a byte that fits nowhere
 * gives 1 and U+FFFD with *ret_bad. */
uint32_t aq_uni_next(const char *s, size_t n, uint32_t *ret, bool *ret_bad);

/* ---- the generated table (unicode-table.c) ---- */
typedef struct aq_uni_case {
    uint32_t first, last, step;
    int32_t delta;
} aq_uni_case;
typedef struct aq_uni_special {
    uint32_t cp, to[3]; /* 0 = no more */
} aq_uni_special;
extern const uint32_t aq_uni_range[], aq_uni_range_n;
extern const aq_uni_case aq_uni_case_upper[], aq_uni_case_lower[], aq_uni_case_title[];
extern const uint32_t aq_uni_case_upper_n, aq_uni_case_lower_n, aq_uni_case_title_n;
extern const aq_uni_special aq_uni_special_upper[], aq_uni_special_lower[], aq_uni_special_title[];
extern const uint32_t aq_uni_special_upper_n, aq_uni_special_lower_n, aq_uni_special_title_n;

/* ---- generated sets (range-table.c) ---- */
bool aq_uni_is_han(uint32_t cp);      /* the Han script */
bool aq_uni_is_deepseek(uint32_t cp); /* letters that are a word to deepseek-llm */

#endif
