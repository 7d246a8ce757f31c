/* SPDX-License-Identifier: Apache-2.0 */
/* The Unicode table: classes and case of chosen characters, and its order. */
#include "tap.h"
#include "unicode.h"

static void test_classes(void)
{
    static const struct {
        uint32_t cp, has, not;
    } tab[] = {
        {'A', AQ_CL_UPPER, AQ_CL_LOWER},
        {'z', AQ_CL_LOWER, AQ_CL_UPPER},
        {'7', AQ_CL_NUM | AQ_CL_DIGIT, AQ_CL_LETTER},
        {' ', AQ_CL_SPACE | AQ_CL_PRINT, AQ_CL_LETTER},
        {'_', AQ_CL_PUNCT, AQ_CL_LETTER | AQ_CL_SYM},
        {'+', AQ_CL_SYM, AQ_CL_PUNCT},
        {'\t', AQ_CL_SPACE, AQ_CL_PRINT},
        {0x1C, 0, AQ_CL_SPACE | AQ_CL_PRINT},
        {0x85, AQ_CL_SPACE, AQ_CL_PRINT},
        {0xA0, AQ_CL_SPACE, AQ_CL_PRINT},
        {0x3000, AQ_CL_SPACE, AQ_CL_PRINT},
        {0x200B, AQ_CL_IGN, AQ_CL_SPACE | AQ_CL_PRINT},
        {0xDF, AQ_CL_LOWER, AQ_CL_UPPER},
        {0x1C5, AQ_CL_UPPER, AQ_CL_LOWER},
        {0x301, AQ_CL_MARK, AQ_CL_LETTER},
        {0x93E, AQ_CL_MARK, AQ_CL_LETTER},
        {0xBD, AQ_CL_NUM, AQ_CL_DIGIT},
        {0x2167, AQ_CL_NUM, AQ_CL_LETTER},
        {0x4E2D, AQ_CL_OTHER, AQ_CL_UPPER},
        {0xAC00, AQ_CL_OTHER, AQ_CL_MARK},
        {0x1F642, AQ_CL_SYM, AQ_CL_LETTER},
        {0xE000, 0, AQ_CL_PRINT | AQ_CL_LETTER},
        {0x378, 0, AQ_CL_PRINT},
        {0x10FFFF, 0, AQ_CL_PRINT},
        {0x110000, 0, ~0u},
        {0x323AF, AQ_CL_OTHER, 0},
        {0x2EBF0, AQ_CL_OTHER, 0},
    };
    for (size_t i = 0; i < sizeof tab / sizeof *tab; i++) {
        uint32_t c = aq_uni_class(tab[i].cp);
        ok((c & tab[i].has) == tab[i].has && !(c & tab[i].not), "class of U+%04X", tab[i].cp);
    }
    ok(aq_uni_pyspace(0x1C) && aq_uni_pyspace(' ') && !aq_uni_pyspace(0x200B),
       "white space as Python strips it");
}

static void test_case(void)
{
    static const struct {
        int how;
        uint32_t cp, n, out[3];
    } tab[] = {
        {AQ_UNI_UPPER, 'a', 1, {'A'}},          {AQ_UNI_LOWER, 'A', 1, {'a'}},
        {AQ_UNI_UPPER, '1', 1, {'1'}},          {AQ_UNI_UPPER, 0xE9, 1, {0xC9}},
        {AQ_UNI_UPPER, 0xDF, 2, {'S', 'S'}},    {AQ_UNI_TITLE, 0xDF, 2, {'S', 's'}},
        {AQ_UNI_LOWER, 0x130, 2, {'i', 0x307}}, {AQ_UNI_UPPER, 0x149, 2, {0x2BC, 'N'}},
        {AQ_UNI_TITLE, 0x1C6, 1, {0x1C5}},      {AQ_UNI_UPPER, 0x1C6, 1, {0x1C4}},
        {AQ_UNI_LOWER, 0x3A3, 1, {0x3C3}},      {AQ_UNI_UPPER, 0x101, 1, {0x100}},
        {AQ_UNI_UPPER, 0x100, 1, {0x100}},      {AQ_UNI_LOWER, 0x10400, 1, {0x10428}},
        {AQ_UNI_UPPER, 0x1E9E, 1, {0x1E9E}},    {AQ_UNI_UPPER, 0xFB03, 3, {'F', 'F', 'I'}},
        {AQ_UNI_LOWER, 0x4E2D, 1, {0x4E2D}},
    };
    for (size_t i = 0; i < sizeof tab / sizeof *tab; i++) {
        uint32_t out[3] = {0}, n = aq_uni_map(tab[i].how, tab[i].cp, out);
        bool same = n == tab[i].n;
        for (uint32_t k = 0; same && k < n; k++)
            same = out[k] == tab[i].out[k];
        ok(same, "case %d of U+%04X", tab[i].how, tab[i].cp);
    }
}

static void test_table(void)
{
    bool good = aq_uni_range_n > 3000 && aq_uni_range[0] >> 5 == 0;
    for (uint32_t i = 1; i < aq_uni_range_n; i++)
        good &= aq_uni_range[i - 1] >> 5 < aq_uni_range[i] >> 5;
    ok(good, "the ranges ascend from 0");
}

int main(void)
{
    test_classes();
    test_case();
    test_table();
    return tap_done();
}
