/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas: what may come and what may not, byte by byte; what is refused, by its name; random walks give valid JSON; calls of
 * each family go through the parser again; masks agree with tokens tried one by one. */
#include <math.h>

#include "gram-priv.h"
#include "tap.h"
#include "toolparse-text.h"

static aq_gram *compile(const char *schema, aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    const aq_json *j;

    if (!a || aq_json_parse(a, schema, strlen(schema), &j, err) < 0 ||
        aq_gram_new(NULL, &g, err) < 0 ||
        aq_schema_put(g, j, j, AQ_NOTE_JSON, g->end, &g->start, err) < 0 ||
        aq_gram_check(g, err) < 0)
        return NULL;
    return AQ_STEAL(g);
}

/* 1 = it can end here, 0 = it can not, -1 = a byte does not fit */
static int takes(const aq_gram *g, const char *s, size_t n)
{
    AQ_AUTO(aq_gmach_free) aq_gmach *m = NULL;
    int rc = 0;

    if (aq_gmach_new(g, &m, NULL) < 0)
        return -2;
    uint32_t at = aq_gmach_at(m, g->start, &rc);
    for (size_t i = 0; i < n && at != AQ_GS_DEAD; i++)
        at = aq_gmach_byte(m, at, (uint8_t)s[i], &rc);
    return rc < 0 ? -2 : at == AQ_GS_DEAD ? -1 : aq_gmach_may_end(m, at);
}

static const struct {
    const char *schema, *yes[8], *no[8];
} cases[] = {
    {"true", {"1", "\"a\"", "{\"a\": [1, {}]}", "null", "[]"}, {"", "a", "{1}", "[1,]"}},
    {"{\"type\":\"object\"}",
     {"{}", "{\"a\": 1, \"b\":2}", "{ \"a\":[[]]}"},
     {"[]", "{\"a\"}", "{,}"}},
    {"{\"type\":\"string\"}",
     {"\"\"", "\"\xC3\xA9\xF0\x9F\x98\x80\"", "\"\\n\\u00e9\\ud83d\\ude00\""},
     {"\"\xFF\"", "\"\xC0\x80\"", "\"\\ud83d\"", "\"\n\"", "\"\\x\"", "\"\xED\xA0\x80\""}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\xC3\xA9\\n\xE2\x82\xAC\""},
     {"\"a\"", "\"abcd\""}},
    {"{\"type\":\"string\",\"maxLength\":100000}", {"\"\"", "\"abc\""}, {"1"}},
    {"{\"type\":\"integer\"}", {"0", "-1", "120"}, {"01", "1.0", "-", "+1"}},
    {"{\"type\":\"number\"}", {"0", "-1.5", "1e10", "2.5E-3"}, {"1.", ".5", "1e", "1e999", "NaN"}},
    {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":120}",
     {"3", "9", "10", "99", "100", "120"},
     {"2", "121", "-5", "1000", "03"}},
    {"{\"type\":\"integer\",\"minimum\":-12,\"exclusiveMaximum\":5}",
     {"-12", "-1", "0", "4"},
     {"-13", "5", "-0", "11"}},
    {"{\"type\":\"integer\",\"minimum\":1}", {"1", "1000000000"}, {"0", "-1"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "1", "0.25"},
     {"1.5", "-0.1", "1.1"}},
    {"{\"type\":\"number\",\"minimum\":-2,\"exclusiveMaximum\":1}",
     {"-2", "-1.5", "-0.5", "0", "0.9"},
     {"-2.5", "1", "1.2"}},
    {"{\"enum\":[\"a\",\"b c\",1,null,{\"x\":1}]}",
     {"\"a\"", "\"b c\"", "1", "null", "{\"x\":1}"},
     {"\"c\"", "2"}},
    {"{\"const\":\"\xC3\xA9\\n\"}", {"\"\xC3\xA9\\n\""}, {"\"e\""}},
    {"{\"type\":[\"string\",\"null\"]}", {"null", "\"x\""}, {"1"}},
    {"{\"type\":\"integer\",\"nullable\":true}", {"null", "5"}, {"\"x\""}},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}}]}",
     {"7", "[]", "[true, false]"},
     {"[1]", "true"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[1]", "[1,2]", "[1, 2, 3]"},
     {"[]", "[1,2,3,4]", "[1,]", "[,1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2}",
     {"[1,2]", "[1,2,3,4,5]"},
     {"[]", "[1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":0}", {"[]"}, {"[1]"}},
    {"{\"type\":\"array\",\"maxItems\":2}", {"[]", "[1]", "[\"a\",{}]"}, {"[1,2,3]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":"
     "false}",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,\"a\",2]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},"
     "\"minItems\":1}",
     {"[1]", "[1,\"a\",\"b\"]"},
     {"[]", "[1,2]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}"
     ",\"c\":{\"type\":"
     "\"null\"}},\"required\":[\"b\"]}",
     {"{\"a\":1,\"b\":\"x\",\"c\":null}", "{\"b\": \"x\"}", "{\"a\":1, \"b\":\"\"}",
      "{\n  \"b\": \"x\"\n}"},
     {"{}", "{\"a\":1}", "{\"b\":\"x\",\"a\":1}", "{\"b\":\"x\",\"d\":1}", "{\"a\":1,}",
      "{\"b\":\"x\",}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"}},\"additionalProperties\":"
     "{\"type\":\"string\"}}",
     {"{}", "{\"ab\":1}", "{\"ab\":1,\"abc\":\"x\"}", "{\"a\":\"x\"}",
      "{\"b\":\"x\",\"\xC3\xA9\":\"\"}"},
     {"{\"ab\":\"x\"}", "{\"x\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"x\":1,\"y\":2}"},
     {"{\"x\":\"a\"}"}},
    {"{\"$ref\":\"#/$defs/"
     "n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{"
     "\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/n\"}]}},\"required\":[\"v\",\"next\"]}}}",
     {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2}}"}},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]"}},
    {"{\"allOf\":[{\"$ref\":\"#/definitions/a~1b\"}],\"definitions\":{\"a/"
     "b\":{\"type\":\"boolean\"}}}",
     {"true"},
     {"1"}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\d{3}-[a-z_]+$\"}",
     {"\"123-ab_\""},
     {"\"12-a\"", "\"123-A\"", "\"x123-a\""}},
    {"{\"type\":\"string\",\"pattern\":\"\\\\d{3}\"}",
     {"\"123\"", "\"a1234b\""},
     {"\"12\"", "\"ab\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(a|b(c)?)*$|^x\"}",
     {"\"\"", "\"abcab\"", "\"xyz\""},
     {"\"c\"", "\"ay\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^a-z\\\"]+$\"}",
     {"\"A\xC3\xA9\\n\\\\\""},
     {"\"a\"", "\"\\\"\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^.[\\\\u00e0-\\\\u00ff]\\\\S\\\\W$\"}",
     {"\"a\xC3\xA9\x62-\""},
     {"\"aabc\"", "\"a\xC3\xA9 -\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\(a\\\\.b{2,}c{0,1}?\\\\/\\\\x41\\\\u{1F600}$\"}",
     {"\"(a.bbbc/A\xF0\x9F\x98\x80\""},
     {"\"(a.bc/A\xF0\x9F\x98\x80\"", "\"(axbb/A\xF0\x9F\x98\x80\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}", {"\"2026-11-30\""}, {"\"2026-13-01\"", "\"x\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2026-11-30T12:00:00Z\""},
     {"\"2026-11-30\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}", {"\"anything\""}, {"1"}},
    {"{\"properties\":{\"a\":true},\"required\":[\"a\"],\"title\":\"x\",\"description\":\"y\","
     "\"default\":{}}",
     {"{\"a\":[1,{\"b\":2}]}"},
     {"{}"}},
};

static void languages(void)
{
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        aq_err err = {0};
        AQ_AUTO(aq_gram_free) aq_gram *g = compile(cases[i].schema, &err);
        const char *bad = NULL;
        for (size_t k = 0; g && k < 8 && cases[i].yes[k]; k++)
            if (takes(g, cases[i].yes[k], strlen(cases[i].yes[k])) != 1)
                bad = cases[i].yes[k];
        for (size_t k = 0; g && k < 8 && cases[i].no[k]; k++)
            if (takes(g, cases[i].no[k], strlen(cases[i].no[k])) == 1)
                bad = cases[i].no[k];
        if (!ok(g && !bad, "schema %zu", i))
            printf("# %s\n# %s %s\n", cases[i].schema, bad ? bad : "", err.text);
    }
}

static void refusals(void)
{
    static const struct {
        const char *schema, *says;
        int code;
    } no[] = {
        {"{\"not\":{}}", "not: it is not supported", AQ_E_UNSUPPORTED},
        {"{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\",\"multipleOf\":0.5}}}",
         "/properties/x multipleOf", AQ_E_UNSUPPORTED},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "uniqueItems", AQ_E_UNSUPPORTED},
        {"{\"type\":\"object\",\"patternProperties\":{}}", "patternProperties", AQ_E_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/none\"}", "refers to nothing", AQ_E_INVAL},
        {"{\"$ref\":\"http://x\"}", "refers to nothing", AQ_E_INVAL},
        {"{\"$ref\":\"#\"}", "refers to itself", AQ_E_INVAL},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself", AQ_E_INVAL},
        {"{\"type\":\"strng\"}", "none of JSON's types", AQ_E_INVAL},
        {"{\"type\":7}", "type", AQ_E_INVAL},
        {"{\"enum\":[]}", "not empty", AQ_E_INVAL},
        {"false", "nothing is valid", AQ_E_INVAL},
        {"7", "no schema", AQ_E_INVAL},
        {"{\"allOf\":[{},{}]}", "allOf", AQ_E_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", "group without its end", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"a)\"}", "without its beginning", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "look-around", AQ_E_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"\\\\1\"}", "references", AQ_E_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"[z-a]\"}", "ends before it begins", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"[a\"}", "class without", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"*\"}", "repetition of nothing", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"a{3,2}\"}", "repetitions", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"a^b\"}", "at the ends", AQ_E_UNSUPPORTED},
        {"{\"type\":\"string\",\"pattern\":\"\\\\u12\"}", "character number", AQ_E_INVAL},
        {"{\"type\":\"string\",\"pattern\":\"((a{1000}){1000}){1000}\"}", "steps", AQ_E_LIMIT},
        {"{\"type\":\"string\",\"pattern\":\"a\",\"maxLength\":3}", "together", AQ_E_UNSUPPORTED},
        {"{\"type\":\"string\",\"minLength\":-1}", "minLength", AQ_E_INVAL},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "maxLength", AQ_E_INVAL},
        {"{\"type\":\"string\",\"minLength\":5000}", "minLength", AQ_E_UNSUPPORTED},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "no whole number", AQ_E_UNSUPPORTED},
        {"{\"type\":\"number\",\"minimum\":\"5\"}", "must be a number", AQ_E_INVAL},
        {"{\"type\":\"object\",\"required\":[\"a\"]}", "required", AQ_E_UNSUPPORTED},
        {"{\"type\":\"object\",\"properties\":[]}", "properties", AQ_E_INVAL},
        {"{\"type\":\"object\",\"minProperties\":2}", "minProperties", AQ_E_UNSUPPORTED},
        {"{\"type\":\"object\",\"maxProperties\":2}", "maxProperties", AQ_E_UNSUPPORTED},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "maxItems", AQ_E_INVAL},
        {"{\"anyOf\":[],\"type\":\"object\"}", "anyOf", AQ_E_INVAL},
        {"{\"$ref\":\"#/$defs/a\",\"type\":\"object\",\"$defs\":{\"a\":{}}}", "besides",
         AQ_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < AQ_LEN(no); i++) {
        aq_err err = {0};
        AQ_AUTO(aq_gram_free) aq_gram *g = compile(no[i].schema, &err);
        if (!ok(!g && err.code == no[i].code && strstr(err.text, no[i].says), "refused: %s",
                no[i].says))
            printf("# %s: %d %s\n", no[i].schema, err.code, err.text);
    }
    char deep[2000] = "";
    size_t n = 0;
    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf(deep + n, sizeof deep - n, "{\"items\":");
    n += (size_t)snprintf(deep + n, sizeof deep - n, "{}");
    for (int i = 0; i < 60; i++)
        deep[n++] = '}';
    deep[n] = 0;
    aq_err err = {0};
    AQ_AUTO(aq_gram_free) aq_gram *g = compile(deep, &err);
    ok(g && takes(g, "[[[]]]", 6) == 1, "60 levels are taken");
}

static uint32_t seed = 7;
static uint32_t dice(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* A random answer that the grammar allows; NULL when it has not ended after 20,000 bytes. */
static bool walk(const aq_gram *g, aq_bytes *ret)
{
    AQ_AUTO(aq_gmach_free) aq_gmach *m = NULL;
    int rc = 0;

    if (aq_gmach_new(g, &m, NULL) < 0)
        return false;
    uint32_t at = aq_gmach_at(m, g->start, &rc);
    for (int i = 0; i < 20000 && rc >= 0; i++) {
        if (aq_gmach_must_end(m, at) || (aq_gmach_may_end(m, at) && !dice(4)))
            return true;
        uint32_t to[256], n = 0;
        uint8_t with[256];
        for (int b = 0; b < 256; b++)
            if ((to[n] = aq_gmach_byte(m, at, (uint8_t)b, &rc)) != AQ_GS_DEAD)
                with[n++] = (uint8_t)b;
        if (!n)
            return false;
        uint32_t k = dice(n);
        for (uint32_t j = 0; j < n && dice(3); j++) /* ends are likelier than letters */
            if (with[j] == '"' || with[j] == '}' || with[j] == ']' || with[j] == '<')
                k = j;
        if (aq_bytes_put(ret, &with[k], 1) < 0)
            return false;
        at = to[k];
        if (aq_gmach_trim(m, &at) < 0)
            return false;
    }
    return false;
}

static void walks(void)
{
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        AQ_AUTO(aq_gram_free) aq_gram *g = compile(cases[i].schema, NULL);
        bool good = g != NULL;
        for (int k = 0; k < 5 && good; k++) {
            AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
            aq_jscan js = {0};
            int r = AQ_JSCAN_MORE;
            if (!walk(g, &b))
                continue; /* some go on and on */
            for (size_t j = 0; j < b.n && r == AQ_JSCAN_MORE; j++)
                r = aq_jscan_push(&js, b.p[j]);
            if (r == AQ_JSCAN_MORE)
                r = aq_jscan_push(&js, ' ');
            good = r == AQ_JSCAN_DONE || r == AQ_JSCAN_BEFORE;
            if (!good)
                printf("# %.*s\n", (int)b.n, (char *)b.p);
        }
        ok(good, "random answers of schema %zu are JSON", i);
    }
}

/* ---- calls ---- */

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{"
    "\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9},\"e\":{\"enum\":"
    "[\"x\",\"y\"]}},\"required\":["
    "\"city\",\"n\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"put\"}}]";

static void one_family(uint8_t calls, bool fenced, bool args_mark, const char *pre)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_chat_caps c = {.calls = calls,
                      .has_tools = true,
                      .fenced = fenced,
                      .args_mark = args_mark,
                      .id_mark = args_mark && fenced,
                      .invoke_pre = pre};
    aq_gram_want w = {.caps = &c, .must_call = true};
    aq_err err = {0};
    bool good = a && aq_json_parse(a, tools, strlen(tools), &w.tools, &err) >= 0;
    int n = 0;

    for (int only = 0; only < 3 && good; only++) {
        AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
        w.only = only == 1 ? "get" : NULL;
        w.one_call = only > 0;
        good = aq_gram_answer(NULL, &w, &g, &err) >= 0;
        for (int k = 0; k < 12 && good; k++) {
            AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
            AQ_AUTO(aq_toolparse_free) aq_toolparse *p = NULL;
            tp_text t = {0};
            if (!walk(g, &b))
                continue;
            if (b.n > 22 && !memcmp(b.p, "<|channel|>analysis", 19))
                continue; /* thinking comes first here */
            n++;
            good = aq_toolparse_new(&c, tools, true, AQ_THINK_CLOSED, &p, NULL) >= 0 &&
                   aq_toolparse_push(p, (const char *)b.p, b.n, false) >= 0 &&
                   tp_take(&t, p) >= 0 && aq_toolparse_finish(p) >= 0 && tp_take(&t, p) >= 0 &&
                   tp_end(&t, p) >= 0 && !p->broken && p->n_done && p->n_done == p->n_started &&
                   (only == 0 || p->n_done == 1) && t.b.p[0] == 'C' &&
                   (only != 1 || !memcmp(t.b.p, "C\"get\"A\"{\"city\":", 16) ||
                    calls == AQ_CALLS_HERMES || memchr(t.b.p, '{', t.b.n));
            if (!good)
                printf("# %.*s\n# %.*s\n", (int)b.n, (char *)b.p, (int)t.b.n,
                       t.b.n ? (char *)t.b.p : "");
            aq_bytes_clear(&t.b);
        }
    }
    if (!ok(good && n, "calls of %s: %d answers are calls", aq_calls_name[calls], n))
        printf("# %s\n", err.text);
}

static void families(void)
{
    for (uint8_t f = 0; f < AQ_CALLS_N; f++) {
        one_family(f, false, false, f == AQ_CALLS_INVOKE ? "" : NULL);
        if (f == AQ_CALLS_DEEPSEEK || f == AQ_CALLS_MISTRAL)
            one_family(f, true, true, NULL);
        if (f == AQ_CALLS_MISTRAL)
            one_family(f, false, true, NULL);
        if (f == AQ_CALLS_INVOKE)
            one_family(f, false, false,
                       "\xEF\xBD\x9C"
                       "DSML\xEF\xBD\x9C");
    }
}

/* Mistral's models write an id into a call; not one of another length. */
static void ids(void)
{
    static const struct {
        const char *text;
        bool args_mark, id_mark;
        int takes;
    } c[] = {{"[TOOL_CALLS]put[ARGS]{}", true, true, 1},
             {"[TOOL_CALLS]put[CALL_ID]aB3456789[ARGS]{}", true, true, 1},
             {"[TOOL_CALLS]put[CALL_ID]aB345678[ARGS]{}", true, true, -1},
             {"[TOOL_CALLS]put[CALL_ID]aB3456789[ARGS]{}", true, false, -1},
             {"[TOOL_CALLS][{\"name\": \"put\", \"arguments\": {}, \"id\": \"aB3456789\"}]", false,
              false, 1},
             {"[TOOL_CALLS] [{\"name\": \"put\", \"arguments\": {}}, {\"name\": \"put\", "
              "\"arguments\": {}, \"id\": \"123456789\"}]",
              false, false, 1},
             {"[TOOL_CALLS][{\"name\": \"put\", \"arguments\": {}, \"id\": \"aB34567890\"}]", false,
              false, -1}};
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_err err = {0};

    for (size_t i = 0; i < AQ_LEN(c); i++) {
        AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
        aq_chat_caps caps = {.calls = AQ_CALLS_MISTRAL,
                             .has_tools = true,
                             .args_mark = c[i].args_mark,
                             .id_mark = c[i].id_mark};
        aq_gram_want w = {.caps = &caps, .must_call = true};
        bool good = a && aq_json_parse(a, tools, strlen(tools), &w.tools, &err) >= 0 &&
                    aq_gram_answer(NULL, &w, &g, &err) >= 0;
        ok(good && takes(g, c[i].text, strlen(c[i].text)) == c[i].takes, "Mistral: %s %s",
           c[i].takes > 0 ? "taken:" : "refused:", c[i].text);
    }
}

/* An answer may be a call or a value of the schema; a list of no tools changes nothing. */
static void either(void)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_chat_caps c = {.calls = AQ_CALLS_HERMES, .think_open = "<think>", .think_close = "</think>"};
    aq_gram_want w = {.caps = &c, .may_think = true};
    static const char schema[] = "{\"type\":\"boolean\"}", empty[] = "[]";
    static const char one[] = "<tool_call>\n{\"name\": \"put\", \"arguments\": {}}\n</tool_call>";

    for (int k = 0; k < 3; k++) {
        AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
        const char *list = k == 1 ? empty : tools;
        aq_err err = {0};
        bool good = a && aq_json_parse(a, schema, strlen(schema), &w.schema, &err) >= 0 &&
                    (!k || aq_json_parse(a, list, strlen(list), &w.tools, &err) >= 0) &&
                    aq_gram_answer(NULL, &w, &g, &err) >= 0;
        ok(good && takes(g, "true", 4) == 1 && takes(g, "\n\nfalse", 7) == 1 &&
               takes(g, "<think>", 7) == 1 && takes(g, "no", 2) == -1 &&
               takes(g, one, strlen(one)) == (k == 2 ? 1 : -1),
           "a schema with %s tools %s",
           k == 2 ? "two"
           : k    ? "no"
                  : "no list of",
           err.text);
    }
    w.must_call = true;
    w.only = "none";
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    aq_err err = {0};
    ok(aq_gram_answer(NULL, &w, &g, &err) == -AQ_E_INVAL && strstr(err.text, "none of the tools"),
       "a tool that is not there: %s", err.text);
}

/* A call of the model's own choice: properties in its order, each once, none that is required left out; others too. */
static void lenient(void)
{
    static const char list[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"a\":{"
        "\"type\":\"string\"},\"b\":{\"type\":\"integer\"}},\"required\":[\"b\"]}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"a\":{"
        "\"type\":\"string\"}},\"additionalProperties\":false}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"h\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"a\":{"
        "\"type\":\"string\"},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{}},\"required\":[\"f\"]}}}"
        "]";
    static const struct {
        const char *name, *args;
        int takes;
    } c[] = {{"f", "{\"b\": 1, \"a\": \"x\"}", 1},
             {"f", "{\"a\":\"x\",\"b\":1}", 1},
             {"f", "{\"b\":1}", 1},
             {"f", "{\"q\":[1,{\"r\":null}],\"b\":2}", 1},
             {"f", "{\"a\":\"x\"}", -1},
             {"f", "{}", -1},
             {"f", "{\"b\":1,\"b\":2}", -1},
             {"f", "{\"b\":\"x\"}", -1},
             {"f", "{\"b\":1,}", -1},
             {"g", "{}", 1},
             {"g", "{\"a\":\"\"}", 1},
             {"g", "{\"b\":1}", -1},
             {"h", "{\"e\":1,\"a\":\"x\"}", 1},
             {"h", "{\"a\":1}", -1}};
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    aq_chat_caps caps = {.calls = AQ_CALLS_HERMES, .has_tools = true};
    aq_gram_want w = {.caps = &caps};
    aq_err err = {0};

    if (!ok(a && aq_json_parse(a, list, strlen(list), &w.tools, &err) >= 0 &&
                aq_gram_call(NULL, &w, &g, &err) >= 0 && g,
            "calls as the model likes %s", err.text))
        return;
    for (size_t i = 0; i < AQ_LEN(c); i++) {
        char s[300];
        int n = snprintf(s, sizeof s, "\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>",
                         c[i].name, c[i].args);
        ok(takes(g, s, (size_t)n) == c[i].takes, "%s%s", c[i].name, c[i].args);
    }
}

/* ---- masks ---- */

static void masks(void)
{
    static const char *const words[] = {
        "{",  "}", "\"", "\"a", "a\"",  ":",   "1", "12",   "{\"",  "\":",       "b", "a",
        ", ", ",", "[",  "]",   "true", "tru", "e", "\xC3", "\xA9", "{\"a\":1}", " ", "}x"};
    enum { N = AQ_LEN(words) };
    aq_vstr tok[N + 2];
    uint8_t type[N + 2], ok_[N + 2];
    char text[N + 2][24];
    aq_err err = {0};
    AQ_AUTO(aq_vocab_free) aq_vocab *v = NULL;
    AQ_AUTO(aq_tok_order_free) aq_tok_order *o = NULL;
    AQ_AUTO(aq_gmach_free) aq_gmach *m = NULL;
    AQ_AUTO(aq_gram_free) aq_gram *g = compile(cases[23].schema, NULL);

    for (uint32_t i = 0; i < N; i++) {
        size_t n = 0;
        for (const char *p = words[i]; *p; p++) { /* as byte-level vocabularies spell bytes */
            uint8_t b = (uint8_t)*p;
            uint32_t cp = b == ' ' ? 0x120 : b < 0x7f ? b : b == 0xC3 ? 0xC3 : 0xA9;
            n += aq_utf8_put(cp, text[i] + n);
        }
        tok[i] = (aq_vstr){text[i], (uint32_t)n};
        type[i] = AQ_TOK_NORMAL;
    }
    tok[N] = (aq_vstr){"<end>", 5};
    tok[N + 1] = (aq_vstr){"{\"a", 3};
    type[N] = AQ_TOK_CONTROL;
    type[N + 1] = AQ_TOK_UNUSED;
    aq_vocab_in in = {.model = "gpt2",
                      .pre = "gpt-2",
                      .n_tok = N + 2,
                      .tok = tok,
                      .type = type,
                      .bos = -1,
                      .eos = N,
                      .eot = -1,
                      .eom = -1,
                      .unk = -1,
                      .pad = -1};
    if (!ok(g && aq_vocab_new(&in, &v, &err) >= 0 && aq_tok_order_new(v, &o, &err) >= 0 &&
                aq_gmach_new(g, &m, &err) >= 0,
            "a vocabulary for masks %s", err.text))
        return;
    int rc = 0, wrong = 0, n_state = 0;
    for (int round = 0; round < 200 && rc >= 0; round++) {
        uint32_t at = aq_gmach_at(m, g->start, &rc);
        for (int k = 0; k < 30 && at != AQ_GS_DEAD && rc >= 0; k++) {
            uint32_t fit[N], n = 0;
            rc = aq_gmach_mask(m, o, at, ok_, N + 2);
            n_state++;
            for (int32_t i = 0; i < N + 2; i++) {
                bool may = aq_gmach_token(m, v, at, i, &rc) != AQ_GS_DEAD;
                wrong += may != (ok_[i] == 1);
                if (may && n < N)
                    fit[n++] = (uint32_t)i;
            }
            at = n ? aq_gmach_token(m, v, at, (int32_t)fit[dice(n)], &rc) : AQ_GS_DEAD;
        }
    }
    ok(rc >= 0 && n_state > 500 && !wrong, "%d masks agree with tokens tried one by one", n_state);
}

int main(void)
{
    languages();
    refusals();
    walks();
    families();
    ids();
    either();
    lenient();
    masks();
    return tap_done();
}
