/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the API's requests: the first byte chooses the dialect. Any bytes either give a fault with a text, or an ask whose
 * messages and tools are JSON again. */
#include "api-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static void is_json(const aq_jw *w)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *v = NULL;
    aq_err err = {0};

    if (!w->b.n)
        return;
    must(w->rc >= 0 && w->b.p[w->b.n - 1] == 0);
    int rc = a ? aq_json_parse(a, (const char *)w->b.p, w->b.n - 1, &v, &err) : -AQ_E_NOMEM;
    must(rc == -AQ_E_NOMEM || rc == -AQ_E_LIMIT || (rc >= 0 && v->kind == AQ_JSON_ARR));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const aq_dialect *const dialects[] = {&aq_dialect_chat, &aq_dialect_complete,
                                                 &aq_dialect_responses, &aq_dialect_messages};
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};
    aq_ask a = {0};
    aq_fault f = {0};
    aq_req_in in;

    if (!n)
        return 0;
    int rc = dialects[data[0] % AQ_LEN(dialects)]->parse(&a, (const char *)data + 1, n - 1, &f);
    if (rc < 0) {
        must(f.http >= 400 && f.type && f.text[0]);
        aq_fault_put(&w, &f, data[0] & 1);
        must(w.rc >= 0);
    } else {
        is_json(&a.messages);
        is_json(&a.tools);
        must(a.n >= 1 && a.n <= AQ_API_N_MAX && a.sampling.n_stop <= AQ_STOP_MAX);
        aq_ask_in(&a, 0, &in);
        must(in.messages_json || in.tok || a.n_prompt);
    }
    aq_ask_clear(&a);
    return 0;
}
