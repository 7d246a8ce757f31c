/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of JSON through a callback. One thread. */
#include <errno.h>
#include <stdio.h>

#include "cli-jsonl.h"

int cli_put_ids(aq_bytes *out, const aq_toks *t)
{
    int rc = aq_bytes_puts(out, "{\"ids\":[");

    for (uint32_t i = 0; rc >= 0 && i < t->n; i++)
        rc = aq_bytes_putf(out, "%s%d", i ? "," : "", t->id[i]);
    return rc < 0 ? rc : aq_bytes_puts(out, "]}");
}

int cli_put_quoted(aq_bytes *out, const char *p, size_t n)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes q = {0};
    int rc = aq_json_quote(&q, p, n);

    for (size_t i = 0; rc >= 0 && i < q.n;) {
        uint32_t cp, len = aq_utf8_next((const char *)q.p + i, q.n - i, &cp, NULL);
        if (cp < 0x7F)
            rc = aq_bytes_put(out, q.p + i, 1);
        else if (cp < 0x10000)
            rc = aq_bytes_putf(out, "\\u%04x", cp);
        else
            rc = aq_bytes_putf(out, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                               0xDC00 + ((cp - 0x10000) & 0x3FF));
        i += len;
    }
    return rc;
}

static int answer(const char *text, size_t n, cli_line_cb cb, void *user, aq_bytes *out)
{
    AQ_AUTO(aq_arena_free) aq_arena *arena = aq_arena_new(0);
    const aq_json *in;
    aq_err err = {0};
    int rc;

    if (!arena)
        return -AQ_E_NOMEM;
    if ((rc = aq_json_parse(arena, text, n, &in, &err)) >= 0 && (rc = cb(user, in, out, &err)) >= 0)
        return 0;
    out->n = 0;
    const char *why = err.code ? err.text : aq_status_text(rc);
    if (aq_bytes_puts(out, "{\"error\":") < 0 || aq_json_quote(out, why, strlen(why)) < 0 ||
        aq_bytes_puts(out, "}") < 0)
        return -AQ_E_NOMEM;
    return 1;
}

int cli_jsonl(cli_line_cb cb, void *user)
{
    AQ_AUTOFREE char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    int ret = CLI_OK;

    while ((n = getline(&text, &cap, stdin)) >= 0) {
        AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
        while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
            n--;
        if (!n)
            continue;
        if (n > (ssize_t)CLI_LINE_MAX_BYTES)
            return cli_error(CLI_FAILED, "stdin", "a line has more than %u bytes",
                             CLI_LINE_MAX_BYTES);
        int rc = answer(text, (size_t)n, cb, user, &out);
        if (rc < 0)
            return cli_error(CLI_FAILED, "stdin", "out of memory for a line of %zd bytes", n);
        if (rc)
            ret = CLI_FAILED;
        if (fwrite(out.p, 1, out.n, stdout) != out.n || putchar('\n') == EOF)
            return cli_flush();
    }
    if (ferror(stdin))
        return cli_error(CLI_CANNOT, "stdin", "cannot be read: %s (give it lines of JSON)",
                         strerror(errno));
    int rc = cli_flush();
    return rc != CLI_OK ? rc : ret;
}

int cli_text_model(const char *path, cli_line_cb cb)
{
    AQ_AUTO(aq_rt_free) aq_rt *rt = NULL;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_err err = {0};
    int rc;

    if ((rc = cli_rt(1, &rt, &err)) < 0 ||
        (rc = aq_model_open(rt, path, AQ_OPEN_VOCAB, &m, NULL, &err)) < 0)
        return cli_fail(path, rc, &err);
    const aq_model_info *info = aq_model_get_info(m);
    if (info->tok_refused)
        return cli_error(CLI_FAILED, path, "%s", info->tok_refused);
    return cli_jsonl(cb, m);
}
