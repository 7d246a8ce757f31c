/* SPDX-License-Identifier: Apache-2.0 */
/* detokenize: {"ids":[…]} per line on stdin, {"text":"…"} per line on stdout (invalid UTF-8 as U+FFFD), with --pieces
 * {"pieces_hex":["…"]} token by token. Control tokens are shown. */
#include <stdio.h>

#include "cli-jsonl.h"

typedef struct job {
    const aq_model *m;
    bool pieces;
} job;

static int put_hex(aq_bytes *out, const char *p, uint32_t n)
{
    int rc = 0;

    for (uint32_t i = 0; rc >= 0 && i < n; i++)
        rc = aq_bytes_putf(out, "%02x", (uint8_t)p[i]);
    return rc;
}

static int line(void *user, const aq_json *in, aq_bytes *out, aq_err *err)
{
    const job *j = user;
    const aq_json *ids = aq_json_get(in, "ids");
    AQ_AUTO(aq_bytes_clear) aq_bytes text = {0};
    int rc = j->pieces ? aq_bytes_puts(out, "{\"pieces_hex\":[") : 0;

    if (!ids || ids->kind != AQ_JSON_ARR)
        return aq_fail(err, AQ_E_INVAL, "\"ids\" is not there as an array");
    for (const aq_json *c = ids->n ? ids->item : NULL; c && rc >= 0; c = c->next) {
        uint32_t n;
        const char *p = c->kind == AQ_JSON_INT && c->i >= 0 && c->i <= INT32_MAX
                            ? aq_token_piece(j->m, (int32_t)c->i, &n)
                            : NULL;
        if (!p)
            return aq_fail(err, AQ_E_INVAL, "\"ids\" has a value that is no token of this model");
        if (!j->pieces) {
            rc = aq_bytes_put(&text, p, n);
        } else if ((rc = aq_bytes_puts(out, c == ids->item ? "\"" : ",\"")) >= 0 &&
                   (rc = put_hex(out, p, n)) >= 0) {
            rc = aq_bytes_puts(out, "\"");
        }
    }
    if (rc >= 0 && !j->pieces && (rc = aq_bytes_puts(out, "{\"text\":")) >= 0)
        rc = cli_put_quoted(out, text.n ? (const char *)text.p : "", text.n);
    return rc < 0 ? rc : aq_bytes_puts(out, j->pieces ? "]}" : "}");
}

static int with_pieces(void *user, const aq_json *in, aq_bytes *out, aq_err *err)
{
    return line(&(job){user, true}, in, out, err);
}

static int as_text(void *user, const aq_json *in, aq_bytes *out, aq_err *err)
{
    return line(&(job){user, false}, in, out, err);
}

int cli_detokenize(int argc, char **argv)
{
    bool jsonl = false, pieces = false;
    const cli_opt opts[] = {{"--jsonl", 'b', &jsonl}, {"--pieces", 'b', &pieces}, {0}};
    const char *path = NULL;
    int n, rc = cli_parse(argc, argv, opts, &path, 1, &n);

    if (rc)
        return rc;
    if (!path || !jsonl)
        return cli_error(
            CLI_CANNOT, "detokenize",
            "a model and --jsonl are wanted (aquifer-cli detokenize MODEL --jsonl < LINES)");
    return cli_text_model(path, pieces ? with_pieces : as_text);
}
