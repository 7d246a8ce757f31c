/* SPDX-License-Identifier: Apache-2.0 */
/* One JSON object per line in, one per line out: shared by tokenize, detokenize and render. */
#ifndef AQ_CLI_JSONL_H
#define AQ_CLI_JSONL_H

#include "cli.h"

#define CLI_LINE_MAX_BYTES (256u << 20)

/** Answer one line: append an object to out, or fail; the failure becomes {"error":"…"}. */
typedef int (*cli_line_cb)(void *user, const aq_json *in, aq_bytes *out, aq_err *err);
/** Every line of stdin through cb. CLI_OK, or CLI_FAILED when a line failed or was no object (the rest is still answered). */
int cli_jsonl(cli_line_cb, void *user);
/** Open a model for its vocabulary and answer the lines with it as user. */
int cli_text_model(const char *path, cli_line_cb);
int cli_put_ids(aq_bytes *out, const aq_toks *); /* {"ids":[…]} */
int cli_put_quoted(
    aq_bytes *out, const char *,
    size_t n); /* a JSON string in ASCII: line separators of any kind stay within a line */

#endif
