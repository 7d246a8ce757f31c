/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a corpus as a plain test: each file of the folders named on the command line goes
 * through LLVMFuzzerTestOneInput once, one TAP case per file. A fault shows as a crash or a
 * sanitizer's report. One thread. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define FILE_MAX_BYTES (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/** The whole file in a buffer of exactly its size, so that a sanitizer sees a read past its end. */
static uint8_t *slurp(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    long n = -1;

    if (f && !fseek(f, 0, SEEK_END))
        n = ftell(f);
    if (n >= 0 && n <= (long)FILE_MAX_BYTES && !fseek(f, 0, SEEK_SET)) {
        data = malloc(n > 0 ? (size_t)n : 1);
        if (data && fread(data, 1, (size_t)n, f) != (size_t)n) {
            free(data);
            data = NULL;
        }
    }
    if (f)
        fclose(f);
    *ret_size = n > 0 ? (size_t)n : 0;
    return data;
}

int main(int argc, char **argv)
{
    for (int a = 1; a < argc; a++) {
        struct dirent **list = NULL;
        int n = scandir(argv[a], &list, visible, alphasort);

        ok(n > 0, "the corpus %s has files", argv[a]);
        for (int i = 0; i < n; i++) {
            char path[4096];
            size_t size;

            snprintf(path, sizeof path, "%s/%s", argv[a], list[i]->d_name);
            uint8_t *data = slurp(path, &size);
            ok(data && LLVMFuzzerTestOneInput(data, size) == 0, "%s", list[i]->d_name);
            free(data);
            free(list[i]);
        }
        free(list);
    }
    return tap_done();
}
