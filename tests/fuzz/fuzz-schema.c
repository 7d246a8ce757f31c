/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: any JSON either gives a clear error or a form in which an answer, chosen by the bytes behind a NUL, is JSON when it has
 * come to its end. */
#include "gram-priv.h"
#include "toolparse-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(64u << 20);
    AQ_AUTO(aq_gram_free) aq_gram *g = NULL;
    AQ_AUTO(aq_gmach_free) aq_gmach *m = NULL;
    const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
    size_t n_text = nul ? (size_t)(nul - data) : n;
    const aq_json *j;
    aq_jscan js = {0};
    aq_err err = {0};
    int rc, r = AQ_JSCAN_MORE;

    if (!a || aq_json_parse(a, (const char *)data, n_text, &j, NULL) < 0)
        return 0;
    must(aq_gram_new(NULL, &g, &err) == 0);
    rc = aq_schema_put(g, j, j, AQ_NOTE_JSON, g->end, &g->start, &err);
    must(rc < 0 ? err.code == -rc && err.text[0] : g->start != AQ_G_NONE);
    if (rc < 0)
        return 0;
    must(aq_gmach_new(g, &m, &err) == 0);
    uint32_t at = aq_gmach_at(m, g->start, &rc);
    for (size_t i = 0; i < 400 && rc >= 0; i++) {
        uint8_t pick = nul && n > n_text + 1 ? nul[1 + i % (n - n_text - 1)] : (uint8_t)(i * 37);
        uint32_t to = AQ_GS_DEAD, b = 0;
        if (aq_gmach_must_end(m, at))
            break;
        for (; b < 256 && to == AQ_GS_DEAD && rc >= 0; b++)
            to = aq_gmach_byte(m, at, (uint8_t)(pick + b), &rc);
        if (rc < 0)
            return 0;
        must(to != AQ_GS_DEAD || aq_gmach_may_end(m, at));
        if (to == AQ_GS_DEAD)
            break;
        r = aq_jscan_push(&js, (uint8_t)(pick + b - 1));
        if (r == AQ_JSCAN_BAD && js.depth == AQ_JSCAN_DEPTH_MAX)
            return 0;
        must(r == AQ_JSCAN_MORE || r == AQ_JSCAN_DONE);
        at = to;
        must(aq_gmach_trim(m, &at) == 0);
    }
    if (rc >= 0 && aq_gmach_must_end(m, at))
        must(r == AQ_JSCAN_DONE || aq_jscan_push(&js, ' ') == AQ_JSCAN_BEFORE);
    return 0;
}
