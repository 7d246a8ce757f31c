/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli dequant FILE: blocks of each storage type against the floats they stand for, bit for bit. */
#include <stdio.h>

#include "cli.h"

#define DEQUANT_FILE_MAX_BYTES ((size_t)256 << 20)

static void line(void *user, const char *name, uint32_t type, int64_t bad, const char *why)
{
    int *n_checked = user;
    if (why) {
        printf("%-8s type %2u  skipped: %s\n", name, type, why);
        return;
    }
    ++*n_checked;
    if (bad < 0)
        printf("%-8s type %2u  ok\n", name, type);
    else
        printf("%-8s type %2u  DIFFERS at value %lld\n", name, type, (long long)bad);
}

int cli_dequant(int argc, char **argv)
{
    const cli_opt opts[] = {{0}};
    const char *path = NULL;
    int n_pos, n_checked = 0;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_err err = {0};
    int rc = cli_parse(argc, argv, opts, &path, 1, &n_pos);
    if (rc)
        return rc;
    if (!n_pos)
        return cli_error(CLI_CANNOT, "dequant", "which file? (aquifer-cli dequant FILE)");
    if ((rc = cli_read_file(path, DEQUANT_FILE_MAX_BYTES, &b, &err)) < 0 ||
        (rc = aq_dequant_check(b.p, b.n, line, &n_checked, &err)) < 0) {
        fflush(stdout);
        return cli_fail("dequant", rc, &err);
    }
    if (!n_checked)
        return cli_error(CLI_CANNOT, "dequant",
                         "%s holds no block of a type that this version reads", path);
    return CLI_OK;
}
