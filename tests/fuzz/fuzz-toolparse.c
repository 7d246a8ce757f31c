/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of calls: byte 0 picks the family, byte 1 how thinking stands, byte 2 the cuts; the rest is an answer. Cut in any way it
 * gives the same events; the arguments of a finished call are one JSON object; a call that began is finished or said to be broken. */
#include "../lib/toolparse-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"m\":{\"type\":["
    "\"string\",\"null\"]},\"u\":{\"anyOf\":[{\"type\":\"string\"},{\"enum\":[1]}]}}}}}]";

static bool run(const aq_chat_caps *c, uint8_t think, bool on, const uint8_t *p, size_t n,
                uint8_t cut, tp_text *ret)
{
    AQ_AUTO(aq_toolparse_free) aq_toolparse *t = NULL;
    aq_jscan js = {0};
    int state = AQ_JSCAN_DONE;
    uint32_t call = 0, n_done = 0, n_start = 0;

    must(aq_toolparse_new(c, tools, on, think, &t, NULL) == 0);
    for (size_t i = 0;; i += cut) {
        bool last = i >= n;
        if (last)
            must(aq_toolparse_finish(t) == 0);
        else
            must(aq_toolparse_push(t, (const char *)p + i, AQ_MIN((size_t)cut, n - i), false) == 0);
        for (uint32_t k = 0; k < t->n_ev; k++) {
            const aq_tp_ev *e = &t->ev[k];
            if (e->kind == AQ_EV_CALL_START) {
                must(e->n > 0 && e->call == n_start);
                n_done += state == AQ_JSCAN_DONE && n_start;
                n_start++;
                call = e->call;
                js = (aq_jscan){0};
                state = AQ_JSCAN_MORE;
            }
            for (size_t b = 0; e->kind == AQ_EV_CALL_ARGS && b < e->n; b++) {
                must(e->call == call && state == AQ_JSCAN_MORE);
                state = aq_jscan_push(&js, t->buf.p[e->off + b]);
                /* a value of a family with tags may nest deeper together with the object around it */
                if (state == AQ_JSCAN_BAD && js.depth == AQ_JSCAN_DEPTH_MAX)
                    return false;
            }
        }
        must(tp_take(ret, t) == 0);
        if (last)
            break;
    }
    n_done += state == AQ_JSCAN_DONE && t->n_started;
    must(n_done == t->n_done && t->n_started >= t->n_done &&
         (t->n_started == t->n_done || t->broken));
    must(tp_end(ret, t) == 0);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 3)
        return 0;
    aq_chat_caps c = {.calls = data[0] % AQ_CALLS_N,
                      .has_tools = true,
                      .invoke_pre = data[0] & 64 ? ""
                                                 : "\xEF\xBD\x9C"
                                                   "DSML\xEF\xBD\x9C",
                      .think_open = "<think>",
                      .think_close = "</think>"};
    tp_text a = {0}, b = {0};

    if (c.calls == AQ_CALLS_GEMMA) {
        c.think_open = "<|channel>thought\n";
        c.think_close = "<channel|>";
    }
    if (run(&c, data[1] % 3, !(data[1] & 4), data + 3, n - 3, 255, &a) &&
        run(&c, data[1] % 3, !(data[1] & 4), data + 3, n - 3, (uint8_t)(1 + data[2] % 7), &b))
        must(a.b.n == b.b.n && (!a.b.n || !memcmp(a.b.p, b.b.p, a.b.n)));
    aq_bytes_clear(&a.b);
    aq_bytes_clear(&b.b);
    return 0;
}
