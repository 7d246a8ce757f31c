/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, error sentences and the cleanup of file descriptors. Any thread; no state. */
#include "base-priv.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    int code, http;
    const char *name, *text;
} status_table[] = {
#define N_(s) s
#define AQ_STATUS(name, num, http, text) {num, http, #name, text},
#include "aq/status.def"
#undef AQ_STATUS
#undef N_
};

/* Index into status_table, or -1. */
static int find_status(int rc)
{
    for (size_t i = 0; i < AQ_LEN(status_table); i++)
        if (rc == status_table[i].code || rc == -status_table[i].code)
            return (int)i;
    return -1;
}

const char *aq_status_name(int rc)
{
    int i = find_status(rc);

    if (rc == AQ_OK)
        return "OK";
    return i < 0 ? "UNKNOWN" : status_table[i].name;
}

const char *aq_status_text(int rc)
{
    int i = find_status(rc);

    if (rc == AQ_OK)
        return "Done";
    return i < 0 ? "An unknown error occurred" : status_table[i].text;
}

int aq_status_http(int rc)
{
    int i = find_status(rc);

    if (rc == AQ_OK)
        return 200;
    return i < 0 ? 500 : status_table[i].http;
}

size_t aq_text_clean(char *s, size_t n, bool cut)
{
    if (cut && n > 0) {
        size_t lead = n - 1;

        while (lead > 0 && n - lead < 4 && ((uint8_t)s[lead] & 0xC0) == 0x80)
            lead--;
        uint8_t c = (uint8_t)s[lead];
        size_t need = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        if (need > n - lead)
            n = lead;
    }
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad;
        uint32_t took = aq_utf8_next(s + i, n - i, &cp, &bad);

        if (bad)
            s[i] = '?';
        else if (cp < 0x20 || cp == 0x7F)
            s[i] = ' ';
        i += took;
    }
    s[n] = 0;
    return n;
}

/* Format into buf[cap] and clean it; a format that fails leaves an empty string. Returns the
 * length. */
static AQ_PRINTF(3, 0) size_t format_text(char *buf, size_t cap, const char *fmt, va_list ap)
{
    int n = vsnprintf(buf, cap, fmt, ap);
    size_t len = n < 0 ? 0 : AQ_MIN((size_t)n, cap - 1);

    return aq_text_clean(buf, len, n > 0 && (size_t)n > len);
}

/* err->text = a + sep + b, cut. a and b must not point into err. */
static void set_text(aq_err *err, const char *a, const char *sep, const char *b)
{
    int n = snprintf(err->text, sizeof err->text, "%s%s%s", a, sep, b);
    size_t len = n < 0 ? 0 : AQ_MIN((size_t)n, sizeof err->text - 1);

    aq_text_clean(err->text, len, n > 0 && (size_t)n > len);
}

int aq_fail(aq_err *err, int code, const char *fmt, ...)
{
    /* A caller that passes on a negative result by mistake must still get a failure back. */
    code = code < 0 ? -code : code;
    if (err) {
        /* Formatted apart, since an argument may be the old err->text. */
        char text[sizeof err->text];
        va_list ap;

        va_start(ap, fmt);
        size_t n = format_text(text, sizeof text, fmt, ap);
        va_end(ap);
        memcpy(err->text, text, n + 1);
        err->code = code;
    }
    return -code;
}

static int code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOMEM:
        return AQ_E_NOMEM;
    case EACCES:
    case EPERM:
        return AQ_E_AUTH;
    case ETIMEDOUT:
        return AQ_E_TIMEOUT;
    default:
        return AQ_E_IO;
    }
}

int aq_fail_errno(aq_err *err, int errnum, const char *fmt, ...)
{
    int code = code_of_errno(errnum);

    if (err) {
        char text[sizeof err->text], why[128];
        va_list ap;

        va_start(ap, fmt);
        format_text(text, sizeof text, fmt, ap);
        va_end(ap);
        set_text(err, text, ": ", strerror_r(errnum, why, sizeof why));
        err->code = code;
    }
    return -code;
}

int aq_err_prefix(aq_err *err, int rc, const char *fmt, ...)
{
    if (err && err->code != 0) {
        char what[sizeof err->text], old[sizeof err->text];
        va_list ap;

        va_start(ap, fmt);
        format_text(what, sizeof what, fmt, ap);
        va_end(ap);
        memcpy(old, err->text, sizeof old);
        set_text(err, what, ": ", old);
    }
    return rc;
}

void aq_fd_close_p(int *fd)
{
    if (*fd >= 0) {
        int saved = errno; /* a cleanup must not hide the error that led to it */

        close(*fd);
        errno = saved;
        *fd = -1;
    }
}
