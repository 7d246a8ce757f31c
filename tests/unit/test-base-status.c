/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and texts, error sentences: cut, cleaned, prefixed; the descriptor cleanup. */
#include "aq/base.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

static bool is(const char *a, const char *b)
{
    if (a && b && strcmp(a, b) == 0)
        return true;
    printf("# got  '%s'\n# want '%s'\n", a ? a : "(NULL)", b);
    return false;
}

static bool is_utf8(const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        uint32_t cp;
        bool bad;
        uint32_t took = aq_utf8_next(s, n, &cp, &bad);

        if (bad)
            return false;
        s += took;
        n -= took;
    }
    return true;
}

static void test_table(void)
{
    ok(is(aq_status_name(AQ_E_INVAL), "INVAL") && is(aq_status_name(-AQ_E_INVAL), "INVAL"),
       "a name by either sign");
    ok(is(aq_status_name(-AQ_E_DEVICE), "DEVICE"), "the last name");
    ok(is(aq_status_name(0), "OK") && aq_status_http(0) == 200, "success");
    ok(is(aq_status_name(-9999), "UNKNOWN") && is(aq_status_name(INT_MIN), "UNKNOWN") &&
           aq_status_http(77) == 500,
       "an unknown code");
    ok(aq_status_http(-AQ_E_LIMIT) == 413 && aq_status_http(AQ_E_CANCELLED) == 499, "HTTP status");
    ok(is(aq_status_text(-AQ_E_NOMEM), "There is not enough memory"), "a sentence");
}

static void test_fail(void)
{
    aq_err err = {0};

    ok(aq_fail(&err, AQ_E_IO, "file %s line %d", "a", 3) == -AQ_E_IO && err.code == AQ_E_IO &&
           is(err.text, "file a line 3"),
       "an error is filled");
    ok(aq_fail(NULL, AQ_E_IO, "x") == -AQ_E_IO, "no place for the error");
    ok(aq_fail(&err, -AQ_E_LIMIT, "x") == -AQ_E_LIMIT && err.code == AQ_E_LIMIT,
       "a negative code is a failure too");
    aq_fail(&err, AQ_E_IO, "inner");
    aq_fail(&err, AQ_E_IO, "outer: %s", err.text);
    ok(is(err.text, "outer: inner"), "the old text may be an argument");
    aq_fail(&err, AQ_E_FORMAT, "a\nb\tc\x01 \xff\xc3(");
    ok(is(err.text, "a b c  ?\?("), "control characters and broken UTF-8 are replaced");
}

/* Every phase of a truncation against characters of one to four bytes. */
static void test_cut(void)
{
    static const char *const chars[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    bool good = true;

    for (size_t c = 0; c < AQ_LEN(chars); c++) {
        for (int shift = 0; shift < 8; shift++) {
            char in[1200];
            size_t n = 0, len = strlen(chars[c]);
            aq_err err;

            for (; n < (size_t)shift; n++)
                in[n] = '.';
            for (; n + len < sizeof in; n += len)
                memcpy(in + n, chars[c], len);
            in[n] = 0;
            aq_fail(&err, AQ_E_IO, "%s", in);
            size_t got = strlen(err.text), room = sizeof err.text - 1;
            good = good && is_utf8(err.text) && got <= room && got + len > room &&
                   memcmp(err.text, in, got) == 0;
        }
    }
    ok(good, "long text is cut between characters, as late as possible");

    aq_err err;
    char exact[500];
    memset(exact, 'e', sizeof exact);
    memcpy(exact + 497, "\xc3\xa9", 3);
    aq_fail(&err, AQ_E_IO, "%s", exact);
    ok(strcmp(err.text, exact) == 0, "a text that just fits is not cut");
}

static void test_errno_and_prefix(void)
{
    aq_err err = {0};

    ok(aq_fail_errno(&err, ENOENT, "cannot open %s", "f") == -AQ_E_IO &&
           is(err.text, "cannot open f: No such file or directory"),
       "errno's meaning is appended");
    ok(aq_fail_errno(NULL, ENOMEM, "x") == -AQ_E_NOMEM &&
           aq_fail_errno(NULL, EACCES, "x") == -AQ_E_AUTH &&
           aq_fail_errno(NULL, EPERM, "x") == -AQ_E_AUTH &&
           aq_fail_errno(NULL, ETIMEDOUT, "x") == -AQ_E_TIMEOUT,
       "errno chooses the code");
    aq_fail(&err, AQ_E_GONE, "no answer");
    ok(aq_err_prefix(&err, -AQ_E_GONE, "worker %d", 2) == -AQ_E_GONE &&
           is(err.text, "worker 2: no answer") && err.code == AQ_E_GONE,
       "a prefix");
    err = (aq_err){0};
    ok(aq_err_prefix(&err, 0, "x") == 0 && err.text[0] == 0 &&
           aq_err_prefix(NULL, -AQ_E_IO, "x") == -AQ_E_IO,
       "no error, no prefix");
    char euros[1200] = "";
    for (int i = 0; i < 300; i++)
        memcpy(euros + i * 3, "\xe2\x82\xac", 4);
    aq_fail(&err, AQ_E_IO, "%s", euros);
    aq_err_prefix(&err, -AQ_E_IO, "p");
    ok(is_utf8(err.text) && strncmp(err.text, "p: \xe2\x82\xac", 6) == 0,
       "a prefix cuts between characters");
}

static void test_fd(void)
{
    int kept, none = -1;
    {
        AQ_AUTOFD int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        kept = fd;
        errno = EBUSY;
    }
    ok(kept >= 0 && errno == EBUSY, "closing keeps errno");
    ok(fcntl(kept, F_GETFD) == -1 && errno == EBADF, "the descriptor is closed");
    aq_fd_close_p(&none);
    ok(none == -1, "no descriptor, nothing to close");
}

int main(void)
{
    test_table();
    test_fail();
    test_cut();
    test_errno_and_prefix();
    test_fd();
    return tap_done();
}
