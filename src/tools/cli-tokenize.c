/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize: {"text":"…","special":false} or {"bytes_hex":"…"} per line on stdin, {"ids":[…]} per line on stdout. */
#include <stdio.h>

#include "cli-jsonl.h"

static int unhex(const char *s, aq_bytes *out)
{
    for (size_t i = 0; s[i]; i += 2) {
        int v = 0;
        for (size_t k = 0; k < 2; k++) {
            char c = s[i + k];
            int d = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
            if (d < 0)
                return -AQ_E_INVAL;
            v = v * 16 + d;
        }
        uint8_t b = (uint8_t)v;
        if (aq_bytes_put(out, &b, 1) < 0)
            return -AQ_E_NOMEM;
    }
    return 0;
}

static int line(void *user, const aq_json *in, aq_bytes *out, aq_err *err)
{
    const aq_model *m = user;
    const aq_json *text = aq_json_get(in, "text");
    const char *hex = aq_json_str(in, "bytes_hex");
    AQ_AUTO(aq_bytes_clear) aq_bytes raw = {0};
    aq_toks toks = {0};
    int rc;

    if (hex && (rc = unhex(hex, &raw)) < 0)
        return aq_fail(err, -rc, "bytes_hex is not pairs of hexadecimal digits");
    if (!hex && (!text || text->kind != AQ_JSON_STR))
        return aq_fail(err, AQ_E_INVAL, "neither \"text\" nor \"bytes_hex\" is there as a string");
    rc = aq_tokenize(m, hex ? (const char *)raw.p : text->str, hex ? raw.n : text->n,
                     aq_json_bool(in, "special", false), &toks, err);
    if (rc >= 0)
        rc = cli_put_ids(out, &toks);
    aq_toks_clear(&toks);
    return rc;
}

int cli_tokenize(int argc, char **argv)
{
    bool jsonl = false;
    const cli_opt opts[] = {{"--jsonl", 'b', &jsonl}, {0}};
    const char *path = NULL;
    int n, rc = cli_parse(argc, argv, opts, &path, 1, &n);

    if (rc)
        return rc;
    if (!path || !jsonl)
        return cli_error(
            CLI_CANNOT, "tokenize",
            "a model and --jsonl are wanted (aquifer-cli tokenize MODEL --jsonl < LINES)");
    return cli_text_model(path, line);
}
