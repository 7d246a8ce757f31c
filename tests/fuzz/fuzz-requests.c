/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the control socket: any bytes are cut into lines, and each line gives a clear error or a request whose values are
 * within their limits. */
#include "ctl-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool c)
{
    if (!c)
        abort();
}

static void check(const aq_ctl_req *r)
{
    must(r->what < AQ_CTL_N && r->n_addr <= AQ_ADDRS_MAX && r->perms <= AQ_PERM_ALL);
    for (uint32_t i = 0; i < r->n_addr; i++)
        must(strlen(r->addr[i]) <= AQ_ADDR_MAX);
    if (r->what == AQ_CTL_NAME || r->what == AQ_CTL_ADD || r->what == AQ_CTL_FORGET)
        must(r->text && strlen(r->text) <= 4 * AQ_NAME_MAX);
    if (r->what == AQ_CTL_CHAT)
        must(r->messages && r->messages->kind == AQ_JSON_ARR && r->temp >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    aq_ctl_in in = {.n_taken = 0};
    const char *line;
    size_t n_line, seen = 0;
    aq_err err = {0};

    if (n > 65536 || (n && aq_bytes_put(&in.b, data, n) < 0))
        return 0;
    while (aq_ctl_line(&in, &line, &n_line, &err) == 1) {
        AQ_AUTO(aq_arena_free) aq_arena *arena = aq_arena_new(AQ_CTL_ARENA_MAX);
        aq_ctl_req r = {.what = AQ_CTL_N};
        aq_err why = {0};

        must(n_line < n && !memchr(line, '\n', n_line) && memcmp(line, data + seen, n_line) == 0);
        seen += n_line + 1;
        int rc = aq_ctl_parse(arena, line, n_line, &r, &why);
        must(rc < 0 ? why.code == -rc && why.text[0] && r.what == AQ_CTL_N : rc == 0);
        if (rc == 0)
            check(&r);
    }
    aq_bytes_clear(&in.b);
    return 0;
}
