/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest TAP producer: `ok(cond, "name %d", i)` per case, `skip("why")`, and `return tap_done();` at the end of main. One thread. */
#ifndef TAP_H
#define TAP_H
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_n, tap_bad;

__attribute__((format(printf, 4, 5), unused)) static bool tap_ok(bool c, const char *file, int line,
                                                                 const char *fmt, ...)
{
    va_list ap;
    tap_n++;
    tap_bad += !c;
    printf("%sok %d - ", c ? "" : "not ", tap_n);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    if (!c)
        printf("# failed at %s:%d\n", file, line);
    fflush(stdout);
    return c;
}
#define ok(c, ...) tap_ok((c), __FILE__, __LINE__, __VA_ARGS__)

/** One skipped case with its reason; tests/skips.txt must list it. */
__attribute__((unused)) static void tap_skip(const char *name, const char *why)
{
    printf("ok %d - %s # SKIP %s\n", ++tap_n, name, why);
    fflush(stdout);
}

__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_n);
    return tap_bad != 0 || tap_n == 0;
}
#endif
