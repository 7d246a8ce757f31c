/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli: the engine (and later the pool) without a window. One subcommand per cli-NAME.c. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name;
    int (*run)(int, char **);
    const char *use;
} commands[] = {
};

static void usage(FILE *f)
{
    fprintf(f, "aquifer-cli " AQ_VERSION "\nusage: aquifer-cli COMMAND …\n\n");
    for (size_t i = 0; i < AQ_LEN(commands); i++)
        fprintf(f, "  aquifer-cli %s\n", commands[i].use);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
        usage(stdout);
        return CLI_OK;
    }
    if (argc >= 2 && !strcmp(argv[1], "--version")) {
        printf("aquifer-cli " AQ_VERSION "\n");
        return CLI_OK;
    }
    if (argc < 2) {
        usage(stderr);
        return CLI_CANNOT;
    }
    for (size_t i = 0; i < AQ_LEN(commands); i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return cli_error(CLI_CANNOT, argv[1], "no such command (aquifer-cli --help lists them)");
}
