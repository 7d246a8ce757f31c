/* SPDX-License-Identifier: Apache-2.0 */
/* The growing byte buffer. Doubles, never past AQ_BYTES_MAX, and is unchanged when a call fails.
 * One thread at a time. */
#include "aq/base.h"

#include <stdio.h>

#define BYTES_FIRST 64 /* capacity of the first allocation */

int aq_bytes_reserve(aq_bytes *b, size_t n_more)
{
    if (n_more > AQ_BYTES_MAX || b->n > AQ_BYTES_MAX - n_more)
        return -AQ_E_LIMIT;
    size_t need = b->n + n_more;
    if (need <= b->cap)
        return AQ_OK;

    size_t cap = b->cap ? b->cap : BYTES_FIRST;
    while (cap < need)
        cap *= 2; /* need <= 2^31, so this cannot overflow */
    cap = AQ_MIN(cap, AQ_BYTES_MAX);
    uint8_t *p = realloc(b->p, cap);
    if (!p)
        return -AQ_E_NOMEM;
    b->p = p;
    b->cap = cap;
    return AQ_OK;
}

int aq_bytes_put(aq_bytes *b, const void *src, size_t n)
{
    int rc = aq_bytes_reserve(b, n);

    if (rc < 0 || n == 0)
        return rc;
    memcpy(b->p + b->n, src, n);
    b->n += n;
    return AQ_OK;
}

int aq_bytes_puts(aq_bytes *b, const char *s)
{
    return aq_bytes_put(b, s, strlen(s));
}

int aq_bytes_putf(aq_bytes *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -AQ_E_FORMAT;
    /* vsnprintf writes its NUL too; it is not counted in b->n. */
    int rc = aq_bytes_reserve(b, (size_t)n + 1);
    if (rc < 0)
        return rc;
    va_start(ap, fmt);
    vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
    return AQ_OK;
}

const char *aq_bytes_str(aq_bytes *b)
{
    if (aq_bytes_reserve(b, 1) < 0)
        return NULL;
    b->p[b->n] = 0;
    return (const char *)b->p;
}

void aq_bytes_clear(aq_bytes *b)
{
    if (!b)
        return;
    free(b->p);
    *b = (aq_bytes){0};
}
