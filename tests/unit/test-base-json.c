/* SPDX-License-Identifier: Apache-2.0 */
/* Strict JSON: what is accepted, what is refused and where, numbers, strings, large objects,
 * limits, quoting. */
#include "torture.h"

#include <locale.h>
#include <math.h>

/* A string literal with its length, so that it may hold NUL. */
#define T(s) s, sizeof(s) - 1

static aq_arena *arena;
static aq_err err;

static const aq_json *parse_n(const char *text, size_t n)
{
    const aq_json *v = NULL;

    err = (aq_err){0};
    /* A copy of exactly n bytes: a read past the end is seen by sanitizers, and the tree must not
     * need the text. */
    char *copy = malloc(n > 0 ? n : 1);
    memcpy(copy, text, n);
    int rc = aq_json_parse(arena, copy, n, &v, &err);
    memset(copy, 'Z', n);
    free(copy);
    if (rc != -err.code || (rc < 0 && v))
        printf("# result %d, code %d, tree %p\n", rc, err.code, (const void *)v);
    return rc == 0 ? v : NULL;
}

static const aq_json *parse(const char *text)
{
    return parse_n(text, strlen(text));
}

static void test_refused(void)
{
    static const struct {
        const char *text;
        size_t n;
        int at; /* byte named in the message */
    } cases[] = {
        {T(""), 0},
        {T(" \n"), 2},
        {T("nul"), 0},
        {T("True"), 0},
        {T("nullx"), 4},
        {T("1 2"), 2},
        {T("["), 1},
        {T("[1"), 2},
        {T("[1,"), 3},
        {T("[1,]"), 3},
        {T("[,1]"), 1},
        {T("[1 2]"), 3},
        {T("[1}"), 2},
        {T("]"), 0},
        {T("{"), 1},
        {T("{\"a\"}"), 4},
        {T("{\"a\":}"), 5},
        {T("{\"a\":1,}"), 7},
        {T("{a:1}"), 1},
        {T("{1:1}"), 1},
        {T("{\"a\":1 \"b\":2}"), 7},
        {T("{\"a\":1]"), 6},
        {T("{\"a\":1}}"), 7},
        {T("[1]/**/"), 3},
        {T("'a'"), 0},
        {T("\xEF\xBB\xBF[]"), 0},
        {T("[1]\0"), 3},
        {T("\f1"), 0},
        {T("01"), 1},
        {T("-"), 1},
        {T("+1"), 0},
        {T(".5"), 0},
        {T("1."), 2},
        {T("1.e1"), 2},
        {T("1e"), 2},
        {T("1e+"), 3},
        {T("-01"), 2},
        {T("0x10"), 1},
        {T("NaN"), 0},
        {T("Infinity"), 0},
        {T("-Infinity"), 1},
        {T("[1e999]"), 1},
        {T("\""), 0},
        {T("\"abc"), 0},
        {T("\"abc\\"), 0},
        {T("\"abc\\\""), 0},
        {T("\"a\nb\""), 2},
        {T("\"a\0b\""), 2},
        {T("\"\\x41\""), 1},
        {T("\"\\\0\""), 1},
        {T("\"\\u12\""), 1},
        {T("\"\\u12G4\""), 1},
        {T("\"\\u"), 0},
        {T("\"\\uD800\""), 1},
        {T("\"\\uD800x\""), 1},
        {T("\"\\uD83D\\uD83D\""), 1},
        {T("\"\\uD83D\\n\""), 1},
        {T("\"\\uDE00\""), 1},
        {T("\"\xff\""), 1},
        {T("\"\xc0\xaf\""), 1},
        {T("\"\xed\xa0\x80\""), 1},
        {T("\"\xe2\x82\""), 1},
        {T("\"\xf4\x90\x80\x80\""), 1},
        {T("{\"\xff\":1}"), 2},
    };

    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        char want[40];
        const aq_json *v = parse_n(cases[i].text, cases[i].n);

        snprintf(want, sizeof want, "at byte %d:", cases[i].at);
        if (!ok(!v && err.code == AQ_E_FORMAT && strstr(err.text, want), "refused: case %zu", i))
            printf("# %s\n# want %s, got %s\n", cases[i].text, want, err.text);
    }
}

static void test_tree(void)
{
    const aq_json *v = parse(
        " {\t\"a\" : [ 1 , [ ] , { } , \"x\" ] ,\r\n\"t\":true,\"f\":false,\"n\":null, \"\":7 } ");

    ok(v && v->kind == AQ_JSON_OBJ && v->n == 5, "an object of five");
    const aq_json *a = aq_json_get(v, "a");
    ok(a == v->item && a->kind == AQ_JSON_ARR && a->n == 4 && strcmp(a->key, "a") == 0 &&
           a->key_n == 1,
       "an array of four");
    const aq_json *x = a->item;
    ok(x->kind == AQ_JSON_INT && x->i == 1 && !x->key, "first item");
    x = x->next;
    ok(x->kind == AQ_JSON_ARR && x->n == 0 && !x->item, "an empty array");
    x = x->next;
    ok(x->kind == AQ_JSON_OBJ && x->n == 0 && !x->item && !aq_json_get(x, "a"), "an empty object");
    x = x->next;
    ok(x->kind == AQ_JSON_STR && strcmp(x->str, "x") == 0 && x->n == 1 && !x->next,
       "the last item");
    ok(aq_json_bool(v, "t", false) && !aq_json_bool(v, "f", true) && aq_json_bool(v, "n", true) &&
           !aq_json_bool(v, "no", false),
       "booleans");
    ok(aq_json_get(v, "n")->kind == AQ_JSON_NULL && aq_json_int(v, "", 0) == 7,
       "null, and the empty key");
    ok(!aq_json_get(v, "absent") && !aq_json_get(a, "a") && !aq_json_get(NULL, "a"),
       "what is not there");
    ok(!aq_json_str(v, "t") && !aq_json_str(v, "q"), "no string");
    ok(parse("7")->i == 7 && parse("\"s\"")->n == 1 && parse("null")->kind == AQ_JSON_NULL,
       "any value may stand alone");
}

static void test_numbers(void)
{
    const aq_json *v =
        parse("[0,-0,9223372036854775807,-9223372036854775808,9223372036854775808,-"
              "9223372036854775809,1e16,"
              "-1.5E-3,0.1,123456789012345678901234567890,1e-999,2.0,1e2,2.5,1e300]");
    const aq_json *x = v ? v->item : NULL;

    ok(x && x->kind == AQ_JSON_INT && x->i == 0 && strcmp(x->raw, "0") == 0, "0");
    x = x->next;
    ok(x->kind == AQ_JSON_INT && x->i == 0 && strcmp(x->raw, "-0") == 0, "-0");
    x = x->next;
    ok(x->kind == AQ_JSON_INT && x->i == INT64_MAX, "the largest int64");
    x = x->next;
    ok(x->kind == AQ_JSON_INT && x->i == INT64_MIN, "the smallest int64");
    x = x->next;
    ok(x->kind == AQ_JSON_NUM && x->num == 9223372036854775808.0 &&
           strcmp(x->raw, "9223372036854775808") == 0 && x->raw_n == 19,
       "one more");
    x = x->next;
    ok(x->kind == AQ_JSON_NUM && x->num == -9223372036854775808.0 &&
           strcmp(x->raw, "-9223372036854775809") == 0,
       "one less");
    x = x->next;
    ok(x->kind == AQ_JSON_NUM && x->num == 1e16 && strcmp(x->raw, "1e16") == 0, "1e16 as written");
    x = x->next;
    ok(x->kind == AQ_JSON_NUM && x->num == -1.5e-3, "-1.5E-3");
    x = x->next;
    ok(x->num == 0.1, "0.1 rounded right");
    x = x->next;
    ok(x->kind == AQ_JSON_NUM && x->raw_n == 30 && x->num > 1.2e29 && x->num < 1.3e29,
       "a big integer as written");
    x = x->next;
    ok(x->num == 0, "too small is zero");

    v = parse("{\"a\":2.0,\"b\":1e2,\"c\":2.5,\"d\":1e300,\"e\":7,\"f\":\"7\"}");
    ok(aq_json_int(v, "a", -1) == 2 && aq_json_int(v, "b", -1) == 100 &&
           aq_json_int(v, "e", -1) == 7,
       "whole numbers are integers");
    ok(aq_json_int(v, "c", -1) == -1 && aq_json_int(v, "d", -1) == -1 &&
           aq_json_int(v, "f", -1) == -1,
       "others are not");
    ok(aq_json_num(v, "c", 0) == 2.5 && aq_json_num(v, "e", 0) == 7 &&
           aq_json_num(v, "f", 9) == 9 && aq_json_num(v, "z", 9) == 9,
       "numbers");
}

/* The decimal point does not follow the language. */
static void test_locale(void)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_AT.UTF-8",
                                         "it_IT.UTF-8"};
    const char *got = NULL;

    for (size_t i = 0; !got && i < AQ_LEN(commas); i++)
        got = setlocale(LC_NUMERIC, commas[i]);
    if (!got) {
        tap_skip("a point in a language of commas", "no such locale is installed");
        return;
    }
    const aq_json *v = parse("1.5");
    ok(v && v->num == 1.5, "a point in a language of commas");
    setlocale(LC_NUMERIC, "C");
}

static bool str_is(const char *text, const char *want, size_t n)
{
    const aq_json *v = parse(text);

    return v && v->kind == AQ_JSON_STR && v->n == n && memcmp(v->str, want, n + 1) == 0;
}

static void test_strings(void)
{
    ok(str_is("\"\"", T("")), "empty");
    ok(str_is("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", T("\"\\/\b\f\n\r\t")), "short escapes");
    ok(str_is("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"",
              T("A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")),
       "\\u of one to four bytes");
    ok(str_is("\"a\\u0000b\"", T("a\0b")), "NUL inside");
    ok(str_is("\"\\uDBFF\\uDFFF\\uD800\\uDC00\"", T("\xf4\x8f\xbf\xbf\xf0\x90\x80\x80")),
       "the ends of the surrogates' range");
    ok(str_is("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
              T("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f")),
       "UTF-8 as it stands");
    const aq_json *v = parse("{\"\\u0061\\u0000b\":1}");
    ok(v && v->item->key_n == 3 && memcmp(v->item->key, "a\0b", 4) == 0 && !aq_json_get(v, "a"),
       "escapes in a key");
}

static void test_depth(void)
{
    char text[2 * (AQ_JSON_DEPTH_MAX + 1)];
    size_t n = AQ_JSON_DEPTH_MAX;

    memset(text, '[', n);
    memset(text + n, ']', n);
    ok(parse_n(text, 2 * n), "as deep as allowed");
    n++;
    memset(text, '[', n);
    memset(text + n, ']', n);
    ok(!parse_n(text, 2 * n) && err.code == AQ_E_LIMIT && strstr(err.text, "at byte 128"),
       "one deeper");
    const char wide[] = "[[],[],[[]],{\"a\":[]}]";
    ok(parse(wide)->n == 4, "closing gives the depth back");
}

/* ---- objects of many keys ---- */

/* {"k0":0,...} in a shuffled order; twice: the key of `twice` appears again at the end (-1:
 * none). */
static const aq_json *parse_keys(int n, int twice)
{
    aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "{");

    for (int i = 0; rc == 0 && i < n; i++) {
        /* 7919 is prime: each key once when it does not divide n. */
        int k = (int)((int64_t)i * 7919 % n);

        rc = aq_bytes_putf(&b, "%s\"k%d\":%d", i ? "," : "", k, k);
    }
    if (rc == 0 && twice >= 0)
        rc = aq_bytes_putf(&b, ",\"k%d\":0", twice);
    if (rc == 0)
        rc = aq_bytes_puts(&b, "}");
    const aq_json *v = rc == 0 ? parse_n((const char *)b.p, b.n) : NULL;
    aq_bytes_clear(&b);
    return v;
}

static void test_keys(void)
{
    static const int sizes[] = {2, 15, 16, 17, 18, 100, 1000};

    for (size_t s = 0; s < AQ_LEN(sizes); s++) {
        int n = sizes[s];
        const aq_json *v = parse_keys(n, -1);
        bool found = v && v->n == (uint32_t)n, order = found;
        char key[16];

        for (int i = 0; found && i < n; i++) {
            snprintf(key, sizeof key, "k%d", i);
            found = aq_json_int(v, key, -1) == i;
        }
        int at = 0;
        for (const aq_json *m = v ? v->item : NULL; m; m = m->next, at++)
            order = order && m->i == (int64_t)at * 7919 % n;
        ok(found && !aq_json_get(v, "k") && !aq_json_get(v, "k00") && !aq_json_get(v, "zzzzzzzz"),
           "%d keys, each found, no other", n);
        ok(order && at == n, "%d keys in their order", n);
        bool refused = true;
        for (int i = 0; i < n; i += n > 100 ? 97 : 1)
            refused = refused && !parse_keys(n, i) && err.code == AQ_E_FORMAT &&
                      strstr(err.text, "twice");
        ok(refused, "%d keys and any of them twice", n);
    }
    ok(!parse("{\"a\":1,\"\\u0061\":2}") && strstr(err.text, "\"a\" twice"),
       "keys are equal when their text is");
    ok(parse("{\"a\":1,\"b\":{\"a\":2}}"), "an inner object has its own keys");
    /* Comparing all pairs would take 10^11 steps here and run into the test's time limit. */
    const aq_json *v = parse_keys(500000, -1);
    ok(v && v->n == 500000 && aq_json_int(v, "k499999", -1) == 499999, "500,000 keys");
}

static void test_memory(void)
{
    const aq_json *v = NULL;
    AQ_AUTO(aq_arena_free) aq_arena *small = aq_arena_new(1000);

    ok(aq_json_parse(small, T("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"), &v, &err) ==
               -AQ_E_LIMIT &&
           !v && err.code == AQ_E_LIMIT,
       "the arena's limit is named as such");
    ok(aq_json_parse(small, T("[1,2"), &v, NULL) == -AQ_E_LIMIT || !v, "no place for the error");
    AQ_AUTO(aq_arena_free) aq_arena *other = aq_arena_new(0);
    ok(aq_json_parse(other, T("[1,2"), &v, NULL) == -AQ_E_FORMAT && !v,
       "no place for another error");
}

static void test_quote(void)
{
    aq_bytes b = {0};

    ok(aq_json_quote(&b, T("a\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\0z")) == 0 &&
           strcmp(aq_bytes_str(&b),
                  "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\\u0000z\"") == 0,
       "what must be escaped is");
    b.n = 0;
    ok(aq_json_quote(&b, T("x\xff\xe2\x82y")) == 0 &&
           strcmp(aq_bytes_str(&b), "\"x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDy\"") == 0,
       "broken UTF-8 is replaced byte by byte");
    b.n = 0;
    ok(aq_json_quote(&b, NULL, 0) == 0 && strcmp(aq_bytes_str(&b), "\"\"") == 0, "nothing");

    /* Every code point below the surrogates and some above, there and back. */
    aq_bytes all = {0};
    bool built = true;
    for (uint32_t cp = 0; cp < 0x11000; cp++) {
        char s[4];

        if (cp < 0xD800 || cp > 0xDFFF)
            built = built && aq_bytes_put(&all, s, aq_utf8_put(cp, s)) == 0;
    }
    b.n = 0;
    built = built && aq_json_quote(&b, (const char *)all.p, all.n) == 0;
    const aq_json *v = built ? parse_n((const char *)b.p, b.n) : NULL;
    ok(v && v->n == all.n && memcmp(v->str, all.p, all.n) == 0,
       "quoted and parsed is the same text");
    aq_bytes_clear(&all);
    aq_bytes_clear(&b);
}

/* ---- torture ---- */

static int use_parse(void *user)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_bytes *text = user;
    const aq_json *v = NULL;
    aq_err e = {0};

    if (!a)
        return -AQ_E_NOMEM;
    int rc = aq_json_parse(a, (const char *)text->p, text->n, &v, &e);
    return rc == -e.code && (rc == 0) == (v != NULL) ? rc : -AQ_E_MISMATCH;
}

static int use_quote(void *user)
{
    aq_bytes b = {0};
    int rc = aq_bytes_puts(&b, "before");

    for (int i = 0; rc == 0 && i < 200; i++) {
        size_t n = b.n;

        rc = aq_json_quote(&b, T("line\nwith \"quotes\" and \xff"));
        if (rc < 0 && b.n != n)
            rc = -AQ_E_MISMATCH; /* half a string was left behind */
    }
    aq_bytes_clear(&b);
    return rc;
}

static void test_put(void)
{
    static const char text[] =
        "[{\"b\":1.50,\"a\":[1e400000,9007199254740993123,-0],\"\\u00e9\\n\":"
        "null},true,false,{},[],\"\\ud83d\\ude00\"]";
    static const char same[] = "[{\"b\":1.50,\"a\":[1e40,9007199254740993123,-0],\"\xC3\xA9\\n\":"
                               "null},true,false,{},[],\"\xF0\x9F\x98\x80\"]";
    const aq_json *j = NULL;
    aq_bytes b = {0};

    ok(aq_json_parse(arena, text, strlen(text), &j, NULL) < 0, "put: what is no double is refused");
    ok(aq_json_parse(arena, same, strlen(same), &j, NULL) == 0 && aq_json_put(&b, j) == 0 &&
           b.n == strlen(same) && !memcmp(b.p, same, b.n),
       "put: order and numbers as they were written");
    aq_bytes_clear(&b);
}

static void test_torture(void)
{
    aq_bytes text = {0};
    int rc = aq_bytes_puts(&text, "{\"x\":[");

    for (int i = 0; rc == 0 && i < 2000; i++)
        rc = aq_bytes_putf(&text, "%s{\"a\":%d,\"b\":\"text %d\",\"c\":[1.5,null]}", i ? "," : "",
                           i, i);
    if (rc == 0)
        rc = aq_bytes_puts(&text, "],\"y\":{");
    for (int i = 0; rc == 0 && i < 3000; i++)
        rc = aq_bytes_putf(&text, "%s\"key %d\":%d", i ? "," : "", i, i);
    if (rc == 0)
        rc = aq_bytes_puts(&text, "}}");
    ok(rc == 0, "a text of %zu bytes", text.n);
    torture("parse", use_parse, &text);
    torture("quote", use_quote, NULL);
    aq_bytes_clear(&text);
}

int main(void)
{
    arena = aq_arena_new(0);
    test_refused();
    test_tree();
    test_numbers();
    test_locale();
    test_strings();
    test_depth();
    test_keys();
    test_memory();
    test_quote();
    test_put();
    test_torture();
    aq_arena_free(arena);
    return tap_done();
}
