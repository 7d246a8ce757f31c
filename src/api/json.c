/* SPDX-License-Identifier: Apache-2.0 */
/* Text of an answer, written piece by piece: the first failure stays, so that one check at the end is enough. */
#include <math.h>
#include <stdio.h>

#include "api-priv.h"

void aq_jw_n(aq_jw *w, const void *text, size_t n)
{
    if (w->rc >= 0 && n)
        w->rc = aq_bytes_put(&w->b, text, n);
}

void aq_jw_s(aq_jw *w, const char *text)
{
    aq_jw_n(w, text, strlen(text));
}

void aq_jw_f(aq_jw *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text) {
        w->rc = w->rc < 0 ? w->rc : -AQ_E_LIMIT;
        return;
    }
    aq_jw_n(w, text, (size_t)n);
}

void aq_jw_qn(aq_jw *w, const char *text, size_t n)
{
    if (w->rc >= 0)
        w->rc = aq_json_quote(&w->b, text ? text : "", n);
}

void aq_jw_q(aq_jw *w, const char *text)
{
    if (text)
        aq_jw_qn(w, text, strlen(text));
    else
        aq_jw_s(w, "null");
}

void aq_jw_v(aq_jw *w, const aq_json *v)
{
    if (w->rc >= 0)
        w->rc = aq_json_put(&w->b, v);
}

void aq_jw_num(aq_jw *w, double v)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];

    if (!isfinite(v))
        aq_jw_s(w, "null");
    else /* whatever the language's decimal point is */
        aq_jw_s(w, g_ascii_formatd(text, sizeof text, "%.6g", v));
}

void aq_jw_clear(aq_jw *w)
{
    aq_bytes_clear(&w->b);
    w->rc = 0;
}
