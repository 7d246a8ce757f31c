/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as clients write them, made into what a template takes; what a template can do. With a folder of templates as
 * argument, one conversation with everything in it through each of them. usage: test-text-chat [FOLDER] */
#include <dirent.h>
#include <stdio.h>

#include "chat-priv.h"
#include "tap.h"

static const aq_chat_caps full = {
    .has_tools = true, .system = true, .two_system = true, .late_system = true, .repeats = true};

static char *put(const char *in, const char *tools, const aq_chat_caps *caps, int *ret_rc,
                 aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    const aq_json *j, *t = NULL;

    *ret_rc = -1;
    if (!a || aq_json_parse(a, in, strlen(in), &j, err) < 0 ||
        (tools && aq_json_parse(a, tools, strlen(tools), &t, err) < 0))
        return NULL;
    *ret_rc = aq_messages_put(&b, j, t, caps, NULL, err);
    const char *s = aq_bytes_str(&b);
    return *ret_rc < 0 || !s ? NULL : strdup(s);
}

#define A "{\"role\":\"assistant\",\"content\":\"\""
#define U(t) "{\"role\":\"user\",\"content\":\"" t "\"}"
#define S(t) "{\"role\":\"system\",\"content\":\"" t "\"}"
#define C(id, args) \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":" args "}}"
#define R(id) "{\"role\":\"tool\",\"content\":\"r" id "\",\"tool_call_id\":\"" id "\"}"

static void messages(void)
{
    aq_chat_caps text = full, one = full, nine = full, none = full,
                 few = {.has_tools = true, .system = true}, bare = {.has_tools = true};
    text.args_text = one.one_call = nine.short_id = true;
    none.has_tools = false;
    const struct {
        const char *name, *in, *out;
        const aq_chat_caps *caps;
    } cases[] = {
        {"texts", "[" U("a\\n") "]", "[" U("a\\n") "]", &full},
        {"parts",
         "[{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"},"
         "{\"text\":\"b\",\"type\":\"text\"}],\"role\":\"user\"}]",
         "[" U("a\\n\\nb") "]", &full},
        {"no parts", "[{\"role\":\"tool\",\"content\":[]}]",
         "[{\"role\":\"tool\",\"content\":\"\"}]", &full},
        {"developer", "[{\"role\":\"developer\",\"content\":\"a\"}]", "[" S("a") "]", &full},
        {"other members, no nulls",
         "[{\"role\":\"assistant\",\"x\":{\"y\":[true,null]},\"z\":null}]",
         "[" A ",\"x\":{\"y\":[true,null]}}]", &full},
        {"arguments as text",
         "[" A ",\"tool_calls\":[" C("c", "\"{\\\"b\\\": 1.50, \\\"a\\\":2}\"") "]}]",
         "[" A ",\"tool_calls\":[" C("c", "{\"b\":1.50,\"a\":2}") "]}]", &full},
        {"arguments as an object, wanted as text",
         "[" A ",\"tool_calls\":[" C("c", "{\"b\": 1}") "]}]",
         "[" A ",\"tool_calls\":[" C("c", "\"{\\\"b\\\":1}\"") "]}]", &text},
        {"no arguments", "[" A ",\"tool_calls\":[" C("c", "\"\"") "," C("d", "null") "]}]",
         "[" A ",\"tool_calls\":[" C("c", "{}") "," C("d", "{}") "]}]", &full},
        {"thinking under both names", "[" A ",\"reasoning_content\":\"h\"}]",
         "[" A ",\"reasoning_content\":\"h\",\"thinking\":\"h\"}]", &full},
        {"two calls one by one",
         "[" A ",\"tool_calls\":[" C("c", "{}") "," C("d", "{}") "]}," R("c") "," R("d") "]",
         "[" A ",\"tool_calls\":[" C("c", "{}") "]}," R("c") "," A ",\"tool_calls\":[" C(
             "d", "{}") "]}," R("d") "]",
         &one},
        {"ids of nine letters, the call's and its result's",
         "[" A ",\"tool_calls\":[" C("c", "{}") "," C(
             "abcdefgh9", "{}") "]},{\"role\":\"tool\","
                                "\"content\":\"r\",\"tool_call_id\":\"c\"}]",
         "[" A ",\"tool_calls\":[" C("GFyU8eZ2b", "{}") "," C(
             "abcdefgh9", "{}") "]},{\"role\":"
                                "\"tool\",\"content\":\"r\",\"tool_call_id\":\"GFyU8eZ2b\"}]",
         &nine},
        {"calls for a template without",
         "[" A ",\"tool_calls\":[" C("c", "{\"x\":1}") "]}," R("c") "]",
         "[{\"role\":\"assistant\",\"content\":\"<tool_call>\\n{\\\"name\\\": \\\"f\\\", "
         "\\\"arguments\\\": {\\\"x\\\":1}}\\n</tool_call>\"},"
         "{\"role\":\"user\",\"content\":\"<tool_response>\\nrc\\n</tool_response>\"}]",
         &none},
        {"system messages merged", "[" S("a") "," S("b") "," U("c") "," S("d") "]",
         "[" S("a\\n\\nb") "," U("c\\n\\nd") "]", &few},
        {"system messages kept", "[" S("a") "," S("b") "," U("c") "," S("d") "]",
         "[" S("a") "," S("b") "," U("c") "," S("d") "]", &full},
        {"no system at all", "[" S("a") "," S("b") "," U("c") "]", "[" U("a\\n\\nb\\n\\nc") "]",
         &bare},
    };
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        aq_err err = {0};
        int rc;
        AQ_AUTOFREE char *s = put(cases[i].in, NULL, cases[i].caps, &rc, &err);
        if (!ok(s && !strcmp(s, cases[i].out), "messages: %s", cases[i].name))
            printf("# %s\n# %s %s\n", cases[i].out, s ? s : "", err.text);
    }
    aq_err err = {0};
    int rc;
    AQ_AUTOFREE char *s =
        put("[" U("a") "]", "[{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}]", &none,
            &rc, &err);
    ok(s && strstr(s, "[{\"role\":\"system\"") && strstr(s, "\\\"weather\\\""),
       "tools are told in the system text where the template knows none");
}

static void refusals(void)
{
    static const struct {
        const char *name, *in, *says;
        int code;
    } cases[] = {
        {"broken arguments", "[" U("a") "," A ",\"tool_calls\":[" C("c", "\"{\"") "]}]",
         "message 2: the arguments of tool call 1 are no JSON", AQ_E_INVAL},
        {"arguments that are a list", "[" A ",\"tool_calls\":[" C("c", "\"[1]\"") "]}]",
         "no JSON object", AQ_E_INVAL},
        {"arguments that are a number", "[" A ",\"tool_calls\":[" C("c", "7") "]}]", "neither",
         AQ_E_INVAL},
        {"a call without a name", "[" A ",\"tool_calls\":[{\"id\":\"c\"}]}]",
         "message 1: tool call 1 has no function", AQ_E_INVAL},
        {"calls that are no array", "[" A ",\"tool_calls\":{}}]", "no array", AQ_E_INVAL},
        {"calls of the user",
         "[{\"role\":\"user\",\"content\":\"\",\"tool_calls\":[" C("c", "{}") "]}]",
         "which only an assistant makes", AQ_E_INVAL},
        {"an image", "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]",
         "message 1 holds an image", AQ_E_UNSUPPORTED},
        {"a sound", "[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]",
         "message 1 holds a sound", AQ_E_UNSUPPORTED},
        {"a file", "[{\"role\":\"user\",\"content\":[{\"type\":\"file\"}]}]", "type \"file\"",
         AQ_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        aq_err err = {0};
        int rc;
        AQ_AUTOFREE char *s = put(cases[i].in, NULL, &full, &rc, &err);
        ok(!s && err.code == cases[i].code && rc == -err.code && strstr(err.text, cases[i].says),
           "refused: %s: %s", cases[i].name, err.text);
    }
    static const struct {
        const char *in, *says;
    } tools[] = {
        {"[{\"type\":\"function\"}]", "tool 1 has no function"},
        {"[{\"type\":\"web_search\"}]", "web_search"},
        {"[{\"function\":{\"name\":\"a\"}},{\"function\":{\"name\":\"a\"}}]", "two tools"},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":[]}}]", "no object"},
    };
    for (size_t i = 0; i < AQ_LEN(tools); i++) {
        AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
        AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
        const aq_json *j;
        aq_err err = {0};
        ok(a && aq_json_parse(a, tools[i].in, strlen(tools[i].in), &j, &err) >= 0 &&
               aq_tools_put(&b, j, &full, &err) < 0 && strstr(err.text, tools[i].says),
           "refused: tools: %s", err.text);
    }
}

/* ---- templates of a folder ---- */

static bool render(const aq_tmpl *t, const char *messages, const char *tools,
                   const aq_chat_caps *caps, aq_rendered *ret, aq_err *err)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    const aq_json *j, *tj, *all;

    return a && aq_json_parse(a, messages, strlen(messages), &j, err) >= 0 &&
           aq_json_parse(a, tools, strlen(tools), &tj, err) >= 0 &&
           aq_bytes_puts(&b,
                         "{\"bos_token\":\"<b>\",\"eos_token\":\"<e>\",\"add_generation_prompt\""
                         ":true,\"messages\":") >= 0 &&
           aq_messages_put(&b, j, tj, caps, NULL, err) >= 0 &&
           (!caps->has_tools ||
            (aq_bytes_puts(&b, ",\"tools\":") >= 0 && aq_tools_put(&b, tj, caps, err) >= 0)) &&
           aq_bytes_puts(&b, "}") >= 0 &&
           aq_json_parse(a, (const char *)b.p, b.n, &all, err) >= 0 &&
           aq_tmpl_render(t, all, ret, err) >= 0;
}

static void one(const char *dir, const char *name)
{
    static const char
        chat[] = "[" S("SYS1") "," S("SYS2") "," U(
            "USER1") ","
                     "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"THINK1\","
                     "\"tool_calls\":[" C(
                         "callid001",
                         "\"{\\\"k\\\": \\\"VAL1\\\", \\\"n\\\": [1, "
                         "2.5]}\"") "," C("callid002",
                                          "{\"k\":\"VAL2\"}") "]},"
                                                              "{\"role\":\"tool\",\"tool_call_id\":"
                                                              "\"callid001\","
                                                              "\"content\":\"RES1\"},"
                                                              "{\"role\":\"tool\",\"tool_call_id\":"
                                                              "\"callid002\","
                                                              "\"content\":[{\"type\":\"text\","
                                                              "\"text\":"
                                                              "\"RES2\"}]},"
                                                              "{\"role\":\"assistant\",\"content\":"
                                                              "\"ANS1\"},"
                                                              "{\"role\":\"developer\",\"content\":"
                                                              "\"SYS3\"}," U("USER2") "," U(
                                                                  "USER3") "]",
        tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
                  "\"object\",\"properties\":{\"k\":{\"type\":\"string\"}}}}}]";
    static const char *const words[] = {"SYS1", "SYS2", "USER1", "VAL1",  "VAL2", "RES1",
                                        "RES2", "ANS1", "SYS3",  "USER2", "USER3"};
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    char path[4096], src[65536];
    aq_chat_caps c;
    aq_err err = {0};

    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(src, 1, sizeof src - 1, f) : 0;
    if (f)
        fclose(f);
    src[n] = 0;
    if (!ok(n && aq_tmpl_new(src, n, &t, &err) >= 0, "%s: parses", name))
        return;
    if (!ok(aq_chat_probe(t, src, NULL, &c, &err) == 0, "%s: tried", name))
        return;
    printf("# %-28s calls %s tools %d text %d one %d system %d%d%d repeats %d desc %d think %s\n",
           name, aq_calls_name[c.calls], c.has_tools, c.args_text, c.one_call, c.system,
           c.two_system, c.late_system, c.repeats, c.need_desc, c.think_open ? c.think_open : "-");
    bool good = render(t, chat, tools, &c, &r, &err);
    const char *lost = "";
    for (size_t i = 0; i < AQ_LEN(words) && good; i++)
        if (!memmem(r.text.p, r.text.n, words[i], strlen(words[i])))
            lost = words[i];
    if (!ok(good && !lost[0], "%s: a conversation with everything in it", name))
        printf("# lost %s %s\n# %.*s\n", lost, err.text, (int)r.text.n, (char *)r.text.p);
}

static void silent(void)
{
    static const char src[] = "{% if tools %}{% endif %}";
    aq_tmpl *t = NULL;
    aq_chat_caps c = {0};
    aq_err err = {0};

    ok(aq_tmpl_new(src, sizeof src - 1, &t, &err) >= 0 &&
           aq_chat_probe(t, src, NULL, &c, &err) == 0 && !c.has_tools && !c.system,
       "a template that writes nothing knows nothing");
    aq_tmpl_free(t);
}

int main(int argc, char **argv)
{
    messages();
    silent();
    refusals();
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    if (!d)
        tap_skip("templates of models", "the reference templates are not there");
    for (struct dirent *e; d && (e = readdir(d));)
        if (strlen(e->d_name) > 6 && !strcmp(e->d_name + strlen(e->d_name) - 6, ".jinja"))
            one(argv[1], e->d_name);
    if (d)
        closedir(d);
    return tap_done();
}
