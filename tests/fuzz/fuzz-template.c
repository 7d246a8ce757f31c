/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: any source either gives a clear error or, with fixed variables, an error or UTF-8 with spans that ascend and lie in
 * it. What stands behind a NUL is taken as the content of a message. */
#include "jinja-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static const char
    head[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"S "
             "<x>\"},{\"role\":\"user\",\"content\":\" "
             "caf\xC3\xA9 1\\n\",\"n\":[1,2.5,true,null]},{\"role\":\"assistant\",\"content\":",
    tail[] =
        ",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":"
        "\"b\",\"c\":[1]}}}]}],\"tools\":null,"
        "\"s\":\" Ab,c "
        "caf\xC3\xA9\\n\",\"xs\":[{\"n\":\"p\",\"k\":1,\"d\":{\"e\":1}},{\"n\":\"q\",\"k\":0}],"
        "\"d\":{\"b\":1,\"A\":[2]},\"l\":[\"x\",2,3],\"a\":1,\"b\":\"x\",\"c\":\"<think>r</"
        "think>y\",\"v\":[1.5,\"it's\"],\"bos_token\":\"<s>\",\"x\":3,\"add_generation_prompt\":"
        "true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AQ_AUTO(aq_arena_free) aq_arena *arena = aq_arena_new(64u << 20);
    AQ_AUTO(aq_bytes_clear) aq_bytes json = {0};
    AQ_AUTO(aq_tmpl_free) aq_tmpl *t = NULL;
    AQ_AUTO(aq_rendered_clear) aq_rendered r = {0};
    const aq_json *vars = NULL;
    aq_err err = {0};
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    size_t n_src = nul ? (size_t)(nul - data) : n;

    must(arena && aq_bytes_puts(&json, head) == 0);
    must(aq_json_quote(&json, nul ? (const char *)nul + 1 : "x", nul ? n - n_src - 1 : 1) == 0 &&
         aq_bytes_puts(&json, tail) == 0);
    must(aq_json_parse(arena, (const char *)json.p, json.n, &vars, NULL) == 0);
    int rc = aq_tmpl_new((const char *)data, n_src, &t, &err);
    must(rc == 0 ? t != NULL : !t && err.code == -rc && err.text[0]);
    if (rc < 0)
        return 0;
    rc = aq_tmpl_render_within(t, vars, 100000, 16u << 20, &r, &err);
    must(rc == 0 || (err.code == -rc && !r.text.p));
    if (rc < 0)
        return 0;
    for (size_t i = 0; i < r.text.n;) {
        uint32_t cp;
        bool bad;
        i += aq_utf8_next((const char *)r.text.p + i, r.text.n - i, &cp, &bad);
        must(!bad);
    }
    for (uint32_t i = 0; i < r.n_user; i++)
        must(r.user[i].start < r.user[i].end && r.user[i].end <= r.text.n &&
             (!i || r.user[i - 1].end <= r.user[i].start));
    return 0;
}
