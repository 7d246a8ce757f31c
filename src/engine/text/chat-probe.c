/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat template can do. Templates do not say; so each question is a small chat that is rendered, and the answer is whether
 * its words come out again. The form of calls is told by the markers in the template's source. */
#include "chat-priv.h"
#include "jinja-priv.h"

const char *const aq_calls_name[AQ_CALLS_N] = {
    "hermes",     "function-xml", "glm",     "harmony", "deepseek",
    "invoke-xml", "llama",        "mistral", "gemma",
};

#define SYS "{\"role\":\"system\",\"content\":\"SYSQ1\"},"
#define SYS2 "{\"role\":\"system\",\"content\":\"SYSQ2\"}"
#define USER "{\"role\":\"user\",\"content\":\"USRQ1\"}"
#define SAID "{\"role\":\"assistant\",\"content\":\"ANSQ1\"}"
#define CALL_OF(id, args)                                                        \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"toolq\"," \
    "\"arguments\":" args "}}"
#define CALLS(list) ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" list "]}"
#define RESULT(id) \
    ",{\"role\":\"tool\",\"name\":\"toolq\",\"tool_call_id\":\"" id "\",\"content\":\"RESQ1\"}"
#define TOOLS(desc)                                                                     \
    "[{\"type\":\"function\",\"function\":{\"name\":\"toolq\"," desc                    \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"argq\":{\"type\":\"string\"" \
    "}},\"required\":[\"argq\"]}}}]"

typedef struct probe {
    const aq_tmpl *t;
    bool no_mem; /* a no may be no answer */
} probe;

/* Renders, and all words (separated by blanks) are in it. */
static bool shows(probe *p, const char *messages, const char *tools, const char *words)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(1u << 20);
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    const aq_json *vars;
    int rc = a ? 0 : -AQ_E_NOMEM;

    if (rc >= 0)
        rc = aq_bytes_putf(&b,
                           "{\"add_generation_prompt\":true,\"bos_token\":\"\",\"eos_token\":\"\","
                           "%s%s%s\"messages\":[%s]}",
                           tools ? "\"tools\":" : "", tools ? tools : "", tools ? "," : "",
                           messages);
    if (rc >= 0)
        rc = aq_json_parse(a, (const char *)b.p, b.n, &vars, NULL);
    if (rc >= 0)
        rc = aq_tmpl_render_within(p->t, vars, 200000, 16u << 20, &r, NULL);
    p->no_mem |= rc == -AQ_E_NOMEM;
    if (rc < 0)
        return false;
    for (const char *w = words; *w; w += *w == ' ') {
        size_t n = strcspn(w, " ");
        if (!r.text.n || !memmem(r.text.p, r.text.n, w, n))
            return false;
        w += n;
    }
    return true;
}

static uint8_t family(const char *src, const char **ret_pre)
{
    static const struct {
        const char *mark;
        uint8_t calls;
    } marks[] = {
        {"<|channel|>", AQ_CALLS_HARMONY},
        {"<\xEF\xBD\x9Ctool\xE2\x96\x81"
         "calls\xE2\x96\x81"
         "begin\xEF\xBD\x9C>",
         AQ_CALLS_DEEPSEEK},
        {"<|tool_call>", AQ_CALLS_GEMMA},
        {"<arg_key>", AQ_CALLS_GLM},
        {"<function=", AQ_CALLS_FUNCTION},
        {"[TOOL_CALLS]", AQ_CALLS_MISTRAL},
        {"<tool_call>", AQ_CALLS_HERMES},
        {"<|python_tag|>", AQ_CALLS_LLAMA},
        {"<|start_header_id|>", AQ_CALLS_LLAMA},
    };

    *ret_pre = NULL;
    if (strstr(src, "DSML"))
        *ret_pre = "\xEF\xBD\x9C"
                   "DSML\xEF\xBD\x9C";
    else if (strstr(src, "<minimax:tool_call>") || strstr(src, "<invoke name="))
        *ret_pre = "";
    if (*ret_pre)
        return AQ_CALLS_INVOKE;
    for (size_t i = 0; i < AQ_LEN(marks); i++)
        if (strstr(src, marks[i].mark))
            return marks[i].calls;
    return AQ_CALLS_HERMES;
}

static void thinking(const char *src, const aq_vocab *v, aq_chat_caps *c)
{
    static const char *const pair[][2] = {
        {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};

    if (c->calls == AQ_CALLS_HARMONY)
        return; /* a channel */
    if (c->calls == AQ_CALLS_GEMMA) {
        c->think_open = "<|channel>thought\n";
        c->think_close = "<channel|>";
        return;
    }
    for (size_t i = 0; i < AQ_LEN(pair); i++)
        if ((src && strstr(src, pair[i][1])) ||
            (v && aq_vocab_find_special(v, pair[i][0], strlen(pair[i][0])) >= 0)) {
            c->think_open = pair[i][0];
            c->think_close = pair[i][1];
            return;
        }
}

int aq_chat_probe(const aq_tmpl *t, const char *src, const aq_vocab *v, aq_chat_caps *ret,
                  aq_err *err)
{
    static const char obj[] =
        USER CALLS(CALL_OF("callq0001", "{\"argq\":\"valq\"}")) RESULT("callq0001"),
                      text[] = USER CALLS(CALL_OF("callq0001", "\"{\\\"argq\\\":\\\"valq\\\"}\""))
                          RESULT("callq0001"),
                      two[] = USER CALLS(CALL_OF("callq0001", "{\"argq\":\"valq\"}") "," CALL_OF(
                          "callq0002", "{\"argq\":\"valr\"}")) RESULT("callq0001")
                          RESULT("callq0002"),
                      two_text[] = USER CALLS(
                          CALL_OF("callq0001", "\"{\\\"argq\\\":\\\"valq\\\"}\"") "," CALL_OF(
                              "callq0002", "\"{\\\"argq\\\":\\\"valr\\\"}\"")) RESULT("callq0001")
                          RESULT("callq0002"),
                      long_id[] = USER CALLS(CALL_OF("callq00010001", "{\"argq\":\"valq\"}"))
                          RESULT("callq00010001"),
                      long_id_text[] =
                          USER CALLS(CALL_OF("callq00010001", "\"{\\\"argq\\\":\\\"valq\\\"}\""))
                              RESULT("callq00010001"),
                      desc[] = TOOLS("\"description\":\"descq\","), bare[] = TOOLS("");
    probe p = {t, false};
    aq_chat_caps c = {.system = shows(&p, SYS USER, NULL, "SYSQ1 USRQ1")};

    c.two_system = shows(&p, SYS SYS2 "," USER, NULL, "SYSQ1 SYSQ2");
    c.late_system = shows(&p, SYS USER "," SAID "," SYS2 "," USER, NULL, "SYSQ1 SYSQ2");
    c.repeats = shows(&p, USER "," USER, NULL, "USRQ1");
    if (src && shows(&p, USER, desc, "toolq")) {
        c.has_tools = shows(&p, obj, desc, "toolq valq RESQ1");
        if (!c.has_tools || shows(&p, obj, desc, "{'argq'")) /* printed, not written as JSON */
            c.has_tools |= c.args_text = shows(&p, text, desc, "toolq valq RESQ1");
        c.args_both = c.has_tools && !c.args_text &&
                      shows(&p, text, desc, "{\"argq\":\"valq\"} RESQ1"); /* as it was written */
        c.need_desc = c.has_tools && !shows(&p, USER, bare, "toolq");
        c.one_call = c.has_tools && !shows(&p, c.args_text ? two_text : two, desc, "valq valr");
        c.short_id = c.has_tools && !shows(&p, c.args_text ? long_id_text : long_id, desc, "valq");
    }
    if (p.no_mem)
        return aq_fail(err, AQ_E_NOMEM, "no memory to try the chat template");
    c.calls = c.has_tools ? family(src, &c.invoke_pre) : AQ_CALLS_HERMES;
    if (src && strstr(src, "<|channel|>")) /* such a model writes channels, with tools or without */
        c.calls = AQ_CALLS_HARMONY;
    c.fenced = src && strstr(src, "```json");
    c.args_mark = src && strstr(src, "[ARGS]");
    c.id_mark = src && strstr(src, "[CALL_ID]");
    thinking(src, v, &c);
    *ret = c;
    return 0;
}
