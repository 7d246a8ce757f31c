/* SPDX-License-Identifier: Apache-2.0 */
/* `bench` and `generate` of the command line, built of base and engine alone: no room of the pool, no OpenSSL links, no mDNS is in this
 * program. pool-off.py sets it beside the whole one. One thread besides the engine's. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "bench"))
        return cli_bench(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "generate"))
        return cli_generate(argc - 1, argv + 1);
    fprintf(stderr, "usage: engine-alone bench|generate …, as of aquifer-cli\n");
    return CLI_CANNOT;
}
