/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the subcommands of aquifer-cli. Exit codes: 0 done or passed, 1 the thing asked for failed, 2 could not be run.
 * Errors are one line on stderr: `aquifer-cli: WHERE: WHAT (what to do)`. With --json one object on stdout and nothing else;
 * progress goes to stderr and only to a terminal. */
#ifndef AQ_CLI_H
#define AQ_CLI_H

#include "aq/engine.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_CANNOT = 2 };

#define CLI_LIST_MAX 30u
/** Values of an option that may come several times. */
typedef struct cli_list {
    const char *v[CLI_LIST_MAX];
    uint32_t n;
} cli_list;
int cli_list_add(cli_list *, const char *); /* -1 = full */

/** One option: `--name VALUE` (kind 's' string, 'u' uint32, 'f' float, 'l' one more of a list) or a flag (kind 'b' bool). */
typedef struct cli_opt {
    const char *name; /* "--tokens", or "-n" */
    char kind;
    void *dst; /* const char **, uint32_t *, float *, cli_list *, bool * */
} cli_opt;
/** Parse argv[1..) into opts (ended by name NULL) and at most max_pos positional arguments. 0, or CLI_CANNOT with the error printed. */
int cli_parse(int argc, char **argv, const cli_opt *, const char **pos, int max_pos,
              int *ret_n_pos);
int cli_error(int exit_code, const char *where, const char *fmt, ...)
    AQ_PRINTF(3, 4); /* prints, returns exit_code */
int cli_fail(const char *where, int rc,
             const aq_err *err); /* exit code for rc: IO on open = 2, else 1 */
/** Text of a model, made fit for a terminal in place: control characters but newline and tab become '?'. */
void cli_plain(char *, size_t n);
/** Everything written to stdout so far has arrived, or the error printed and CLI_FAILED. */
int cli_flush(void);
/** Read a whole file (at most max bytes). */
int cli_read_file(const char *path, size_t max, aq_bytes *ret, aq_err *err);
/** Runtime from AQ_CPU and --threads (0 = all). */
int cli_rt(uint32_t n_threads, aq_rt **ret, aq_err *err);
/** Lines for each window and request are wanted (AQ_TIMING=1). */
bool cli_timing(void);
/** Tokens of an OLG1 file or of text with ids between white space. */
int cli_read_tokens(const char *path, aq_toks *ret, aq_err *err);

int cli_info(int argc, char **argv);
int cli_dequant(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_detokenize(int argc, char **argv);
int cli_render(int argc, char **argv);
int cli_logits(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_node(int argc, char **argv);
int cli_pool(int argc, char **argv);
int cli_serve(int argc, char **argv); /* where the API is built */

#endif
