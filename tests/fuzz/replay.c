/* SPDX-License-Identifier: Apache-2.0 */
/* Feed every file of the folder given as argument to LLVMFuzzerTestOneInput: one TAP case per file, in the order of
 * their names. A finding ends the program, so the missing cases fail the test. */
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The file's bytes in a block of exactly their number, so that a sanitizer sees a read past the end. NULL on error. */
static uint8_t *read_file(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    long n = -1;
    uint8_t *p = NULL;

    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    if (n >= 0 && fseek(f, 0, SEEK_SET) == 0)
        p = malloc(n > 0 ? (size_t)n : 1);
    if (p && fread(p, 1, (size_t)n, f) != (size_t)n) {
        free(p);
        p = NULL;
    }
    fclose(f);
    *ret_n = (size_t)n;
    return p;
}

int main(int argc, char **argv)
{
    struct dirent **names;
    int n = argc == 2 ? scandir(argv[1], &names, NULL, alphasort) : -1;

    if (n < 0) {
        printf("Bail out! usage: %s FOLDER (%s)\n", argv[0], strerror(errno));
        return 2;
    }
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            char path[4096];
            size_t size = 0;

            snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
            uint8_t *data = read_file(path, &size);
            ok(data && LLVMFuzzerTestOneInput(data, size) == 0, "%s", names[i]->d_name);
            free(data);
        }
        free(names[i]);
    }
    free(names);
    return tap_done();
}
