/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of each model family, taken apart; every answer whole, byte by byte and cut at random gives the same events. */
#include "tap.h"
#include "toolparse-text.h"

#define DC "<\xEF\xBD\x9Ctool\xE2\x96\x81"
#define DE "\xEF\xBD\x9C>"
#define DM         \
    "\xEF\xBD\x9C" \
    "DSML\xEF\xBD\x9C"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"any\":{},"
    "\"on\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},\"m\":{\"type\":[\"string\","
    "\"null\"]},"
    "\"e\":{\"enum\":[\"1\",\"2\"]},\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"string\"}]}"
    "}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"put\"}}]";

typedef struct item {
    const char *name, *in, *out;
    uint8_t calls, think; /* AQ_CALLS_*, AQ_THINK_* */
    bool off;
} item;

static const item items[] = {
    /* content */
    {"plain", " Hello\n<b> a < b </thi ", "T\" Hello\n<b> a < b </thi \"", AQ_CALLS_HERMES, 0,
     false},
    {"nothing", "", "", AQ_CALLS_HERMES, 0, false},
    {"thinking opened by the model", "<think>\nhm\n\nso\n</think>\n\nYes.",
     "R\"hm\n\nso\"T\"Yes.\"", AQ_CALLS_HERMES, 0, false},
    {"thinking opened by the prompt", "hm</think>Yes", "R\"hm\"T\"Yes\"", AQ_CALLS_HERMES,
     AQ_THINK_OPEN, false},
    {"thinking closed by the prompt", "\n\nYes <think>", "T\"Yes <think>\"", AQ_CALLS_HERMES,
     AQ_THINK_CLOSED, false},
    {"thinking that never ends", "<think>a </think", "R\"a </think\"", AQ_CALLS_HERMES, 0, false},
    {"a later <think> is text", "a <think>b</think>", "T\"a <think>b</think>\"", AQ_CALLS_HERMES, 0,
     false},
    {"no thought", "<think>\n\n</think>\n\nHi", "T\"Hi\"", AQ_CALLS_HERMES, 0, false},
    /* Hermes */
    {"one call",
     "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"B\\u00e4le\"}}\n</tool_call>",
     "C\"get\"A\"{\"city\": \"B\\u00e4le\"}\"", AQ_CALLS_HERMES, 0, false},
    {"text before, two calls",
     "I look.\n\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>\n<tool_call>"
     "{\"arguments\": {\"a\": [1, {\"b\": -1.5e3}]}, \"name\": \"put\"}</tool_call>",
     "T\"I look.\"C\"get\"A\"{}\"C\"put\"A\"{\"a\": [1, {\"b\": -1.5e3}]}\"", AQ_CALLS_HERMES, 0,
     false},
    {"calls parted by a semicolon",
     "<tool_call>{\"name\":\"get\",\"arguments\":{}}</tool_call>; <tool_call>{\"name\":\"put\","
     "\"arguments\":{}}</tool_call>",
     "C\"get\"A\"{}\"C\"put\"A\"{}\"", AQ_CALLS_HERMES, 0, false},
    {"the end tag left out",
     "<tool_call>{\"name\":\"get\",\"arguments\":{}}<tool_call>"
     "{\"name\":\"put\",\"id\":[7],\"arguments\":{}}",
     "C\"get\"A\"{}\"C\"put\"A\"{}\"", AQ_CALLS_HERMES, 0, false},
    {"a bracket left out", "<tool_call>{\"name\":\"get\",\"arguments\":{}</tool_call>x",
     "C\"get\"A\"{}\"T\"x\"", AQ_CALLS_HERMES, 0, false},
    {"no arguments", "<tool_call>{\"name\":\"get\"}</tool_call>", "C\"get\"A\"{}\"",
     AQ_CALLS_HERMES, 0, false},
    {"text after a call", "<tool_call>{\"name\":\"get\"}</tool_call>\nDone.",
     "C\"get\"A\"{}\"T\"Done.\"", AQ_CALLS_HERMES, 0, false},
    {"a call that is none", "a <tool_call>hello</tool_call>", "T\"a <tool_call>hello</tool_call>\"",
     AQ_CALLS_HERMES, 0, false},
    {"a call without a name", "<tool_call>{\"x\":1}", "T\"<tool_call>{\"x\":1}\"", AQ_CALLS_HERMES,
     0, false},
    {"a call that was cut", "<tool_call>{\"name\":\"get\",\"arguments\":{\"a\"",
     "C\"get\"A\"{\"a\"\"#", AQ_CALLS_HERMES, 0, false},
    {"arguments that go wrong", "<tool_call>{\"name\":\"get\",\"arguments\":{\"a\":tru,}} x",
     "C\"get\"A\"{\"a\":tru\"T\",}} x\"#", AQ_CALLS_HERMES, 0, false},
    {"a call cut before its name", "x <tool_call>{\"na", "T\"x <tool_call>{\"na\"", AQ_CALLS_HERMES,
     0, false},
    {"calls switched off", "<tool_call>{\"name\":\"get\"}</tool_call>",
     "T\"<tool_call>{\"name\":\"get\"}</tool_call>\"", AQ_CALLS_HERMES, 0, true},
    {"thinking, then a call",
     "<think>a <tool_call></think>\n<tool_call>{\"name\":\"get\"}</tool_call>",
     "R\"a <tool_call>\"C\"get\"A\"{}\"", AQ_CALLS_HERMES, 0, false},
    /* function tags */
    {"values by their schema",
     "<tool_call>\n<function=get>\n<parameter=city>\nNew\n\"York\"\t1\n\n</"
     "parameter>\n<parameter=n>\n"
     "30\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n<parameter=o>\n{\"a\": "
     "1}\n</parameter>\n"
     "<parameter=m>\nNone\n</parameter>\n<parameter=e>\n2\n</parameter>\n<parameter=u>\n5\n</"
     "parameter>\n"
     "<parameter=any>\n[1]\n</parameter>\n</function>\n</tool_call>",
     "C\"get\"A\"{\"city\":\"New\\n\\\"York\\\"\\t1\\n\",\"n\":30,\"on\":true,\"o\":{\"a\": "
     "1},\"m\":null,"
     "\"e\":\"2\",\"u\":\"5\",\"any\":[1]}\"",
     AQ_CALLS_FUNCTION, 0, false},
    {"a number that is none",
     "<tool_call><function=get><parameter=n>thirty</parameter></function></tool_call>",
     "C\"get\"A\"{\"n\":\"thirty\"}\"", AQ_CALLS_FUNCTION, 0, false},
    {"a text that looks like a number",
     "<tool_call><function=get><parameter=city>30</parameter></function>",
     "C\"get\"A\"{\"city\":\"30\"}\"", AQ_CALLS_FUNCTION, 0, false},
    {"the opening tag left out",
     "So.\n<function=put>\n</function>\n</tool_call>\n<function=get></function>",
     "T\"So.\"C\"put\"A\"{}\"C\"get\"A\"{}\"", AQ_CALLS_FUNCTION, 0, false},
    {"tags inside a value",
     "<tool_call><function=get><parameter=city>a</param><b></parameter></function></tool_call>",
     "C\"get\"A\"{\"city\":\"a</param><b>\"}\"", AQ_CALLS_FUNCTION, 0, false},
    {"no function", "<tool_call>\nhm", "T\"<tool_call>\nhm\"", AQ_CALLS_FUNCTION, 0, false},
    {"cut within a value", "<tool_call><function=get><parameter=city>ab\n",
     "C\"get\"A\"{\"city\":\"ab\"#", AQ_CALLS_FUNCTION, 0, false},
    {"two with tags",
     "<tool_call><function=get></function></tool_call><tool_call><function=put></function>"
     "</tool_call>",
     "C\"get\"A\"{}\"C\"put\"A\"{}\"", AQ_CALLS_FUNCTION, 0, false},
    /* GLM */
    {"GLM",
     "\n<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>\nA\n</arg_value>\n<arg_key>n</"
     "arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>put\n</tool_call>",
     "C\"get\"A\"{\"city\":\"\\nA\\n\",\"n\":3}\"C\"put\"A\"{}\"", AQ_CALLS_GLM, 0, false},
    {"GLM without a name", "<tool_call></tool_call>", "T\"<tool_call></tool_call>\"", AQ_CALLS_GLM,
     0, false},
    {"GLM gone wrong", "<tool_call>get<arg_key>n</arg_key>x", "C\"get\"A\"{\"T\"x\"#", AQ_CALLS_GLM,
     0, false},
    /* DeepSeek */
    {"DeepSeek V3",
     "Hm." DC "calls\xE2\x96\x81"
     "begin" DE DC "call\xE2\x96\x81"
     "begin" DE "function" DC "sep" DE "get\n```json\n{\"city\": \"A\"}\n```" DC "call\xE2\x96\x81"
     "end" DE "\n" DC "call\xE2\x96\x81"
     "begin" DE "function" DC "sep" DE "put\n```json\n{}\n```" DC "call\xE2\x96\x81"
     "end" DE DC "calls\xE2\x96\x81"
     "end" DE,
     "T\"Hm.\"C\"get\"A\"{\"city\": \"A\"}\"C\"put\"A\"{}\"", AQ_CALLS_DEEPSEEK, 0, false},
    {"DeepSeek V3.1",
     DC "calls\xE2\x96\x81"
        "begin" DE DC "call\xE2\x96\x81"
        "begin" DE "get" DC "sep" DE "{\"n\": 1}" DC "call\xE2\x96\x81"
        "end" DE DC "calls\xE2\x96\x81"
        "end" DE,
     "C\"get\"A\"{\"n\": 1}\"", AQ_CALLS_DEEPSEEK, 0, false},
    {"DeepSeek V3.2",
     "A\n\n<" DM "function_calls>\n<" DM "invoke name=\"get\">\n<" DM
     "parameter name=\"city\" string=\"true\">1"
     "</" DM "parameter>\n<" DM "parameter name=\"n\" string=\"false\">[2]</" DM "parameter>\n</" DM
     "invoke>\n<" DM "invoke name=\"put\">\n</" DM "invoke>\n</" DM "function_calls>",
     "T\"A\"C\"get\"A\"{\"city\":\"1\",\"n\":[2]}\"C\"put\"A\"{}\"", AQ_CALLS_INVOKE, 0, false},
    /* Llama */
    {"Llama", "{\"name\": \"get\", \"parameters\": {\"n\": \"5\"}}", "C\"get\"A\"{\"n\": \"5\"}\"",
     AQ_CALLS_LLAMA, 0, false},
    {"Llama, two",
     "<|python_tag|>{\"name\": \"get\", \"parameters\": {}}; {\"name\": \"put\", \"parameters\": "
     "{}}",
     "C\"get\"A\"{}\"C\"put\"A\"{}\"", AQ_CALLS_LLAMA, 0, false},
    {"Llama, JSON that is no call", "{\"answer\": 5}", "T\"{\"answer\": 5}\"", AQ_CALLS_LLAMA, 0,
     false},
    {"Llama, no tool of ours", "{\"name\": \"Bob\", \"parameters\": {}}",
     "T\"{\"name\": \"Bob\", \"parameters\": {}}\"", AQ_CALLS_LLAMA, 0, false},
    {"Llama, JSON within text", "So: {\"name\": \"get\"}", "T\"So: {\"name\": \"get\"}\"",
     AQ_CALLS_LLAMA, 0, false},
    {"Llama, code", "<|python_tag|>x.call(1)", "T\"<|python_tag|>x.call(1)\"", AQ_CALLS_LLAMA, 0,
     false},
    /* Mistral */
    {"Mistral, a list",
     "[TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"n\": 1}, \"id\": \"abc\"}, "
     "{\"name\": \"put\", \"arguments\": {}}]",
     "C\"get\"A\"{\"n\": 1}\"C\"put\"A\"{}\"", AQ_CALLS_MISTRAL, 0, false},
    {"Mistral, names before",
     "Hm [TOOL_CALLS]get[ARGS]{\"n\": 1}[TOOL_CALLS]put[CALL_ID]x1[ARGS]{}",
     "T\"Hm\"C\"get\"A\"{\"n\": 1}\"C\"put\"A\"{}\"", AQ_CALLS_MISTRAL, 0, false},
    {"Mistral, no marker before the arguments", "[TOOL_CALLS]get{\"n\": 1}",
     "C\"get\"A\"{\"n\": 1}\"", AQ_CALLS_MISTRAL, 0, false},
    /* Gemma */
    {"Gemma",
     "<|tool_call>call:get{city:<|\"|>a \"b\"\n<|\"|>,n:1.5,o:{x:true,<|\"|>y "
     "z<|\"|>:null},any:[],u:[<|\"|><|\"|>,2]}"
     "<tool_call|><|tool_call>call:put{}<tool_call|>",
     "C\"get\"A\"{\"city\":\"a \\\"b\\\"\\n\",\"n\":1.5,\"o\":{\"x\":true,\"y "
     "z\":null},\"any\":[],\"u\":[\"\",2]}\""
     "C\"put\"A\"{}\"",
     AQ_CALLS_GEMMA, 0, false},
    {"Gemma, thinking", "<|channel>thought\nhm\n<channel|>Hi", "R\"hm\"T\"Hi\"", AQ_CALLS_GEMMA, 0,
     false},
    {"Gemma, none", "<|tool_call>hello", "T\"<|tool_call>hello\"", AQ_CALLS_GEMMA, 0, false},
    {"Gemma, cut", "<|tool_call>call:get{city:<|\"|>a", "C\"get\"A\"{\"city\":\"a\"#",
     AQ_CALLS_GEMMA, 0, false},
    /* harmony */
    {"harmony",
     "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>final<|message|>Hi "
     "there<|return|>",
     "R\"I think.\"T\"Hi there\"", AQ_CALLS_HARMONY, 0, false},
    {"harmony, recipient behind the channel",
     "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.get "
     "<|constrain|>json<|message|>{\"n\": 1}<|call|>",
     "R\"A\"C\"get\"A\"{\"n\": 1}\"", AQ_CALLS_HARMONY, 0, false},
    {"harmony, recipient in the role",
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant "
     "to=functions.get<|channel|>commentary json"
     "<|message|>{\"n\":1}<|call|>",
     "T\"I look.\"C\"get\"A\"{\"n\":1}\"", AQ_CALLS_HARMONY, 0, false},
    {"harmony, first header with a recipient",
     " to=functions.put<|channel|>commentary<|message|>{}<|call|>", "C\"put\"A\"{}\"",
     AQ_CALLS_HARMONY, 0, false},
    {"harmony without headers", "Hello there", "T\"Hello there\"", AQ_CALLS_HARMONY, 0, false},
    {"harmony, arguments that are none",
     "<|channel|>commentary to=functions.get<|message|>hm<|call|>", "C\"get\"T\"hm\"#",
     AQ_CALLS_HARMONY, 0, false},
};

static bool control_token(const char *s, size_t *ret_n)
{
    static const char *const list[] = {
        "<|channel|>",    "<|message|>",   "<|start|>",    "<|end|>",      "<|return|>",
        "<|call|>",       "<|constrain|>", "<|tool_call>", "<tool_call|>", "<|\"|>",
        "<|python_tag|>", "[TOOL_CALLS]",  "[ARGS]",       "<|channel>",   "<channel|>"};
    for (size_t i = 0; i < AQ_LEN(list); i++)
        if (!strncmp(s, list[i], strlen(list[i]))) {
            *ret_n = strlen(list[i]);
            return true;
        }
    return false;
}

/* step 0: whole; n: n bytes each; -1: at random; -2: control tokens by themselves, the rest byte by byte */
static bool run(const item *t, int step, tp_text *ret)
{
    AQ_AUTO(aq_toolparse_free) aq_toolparse *p = NULL;
    aq_chat_caps c = {.calls = t->calls,
                      .has_tools = true,
                      .invoke_pre = DM,
                      .think_open = t->calls == AQ_CALLS_GEMMA ? "<|channel>thought\n" : "<think>",
                      .think_close = t->calls == AQ_CALLS_GEMMA ? "<channel|>" : "</think>"};
    size_t n = strlen(t->in);
    static uint32_t seed = 1;

    if (aq_toolparse_new(&c, tools, !t->off, t->think, &p, NULL) < 0)
        return false;
    for (size_t i = 0, k; i < n; i += k) {
        bool ctl = step == -2 && control_token(t->in + i, &k);
        if (!ctl)
            k = step == -1   ? 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 9
                : step > 0   ? (size_t)step
                : step == -2 ? 1
                             : n;
        k = AQ_MIN(k, n - i);
        if (aq_toolparse_push(p, t->in + i, k, ctl) < 0 || tp_take(ret, p) < 0)
            return false;
    }
    return aq_toolparse_finish(p) >= 0 && tp_take(ret, p) >= 0 && tp_end(ret, p) >= 0;
}

int main(void)
{
    for (size_t i = 0; i < AQ_LEN(items); i++) {
        static const int steps[] = {0, 1, 2, 3, 7, -1, -1, -1, -1, -2};
        bool good = true;
        for (size_t k = 0; k < AQ_LEN(steps) && good; k++) {
            tp_text t = {0};
            good = run(&items[i], steps[k], &t) && t.b.n == strlen(items[i].out) &&
                   (!t.b.n || !memcmp(t.b.p, items[i].out, t.b.n));
            if (!good)
                printf("# pieces %d\n# want %s\n# got  %.*s\n", steps[k], items[i].out, (int)t.b.n,
                       t.b.n ? (char *)t.b.p : "");
            aq_bytes_clear(&t.b);
        }
        ok(good, "%s: %s", aq_calls_name[items[i].calls], items[i].name);
    }
    return tap_done();
}
