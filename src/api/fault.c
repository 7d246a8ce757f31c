/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the words of each dialect. Agents recognise a prompt that is too long by its words, so those are written for them.
 *
 *   OpenAI      {"error":{"message":…,"type":…,"param":…|null,"code":…|null}}
 *   Anthropic   {"type":"error","error":{"type":…,"message":…}} */
#include <stdio.h>

#include "api-priv.h"

static AQ_PRINTF(5, 0) void vset(aq_fault *f, int http, const char *type, const char *code,
                                 const char *fmt, va_list ap)
{
    *f = (aq_fault){.http = http, .type = type, .code = code};
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    /* a text that was cut ends with a whole character */
    size_t n = strlen(f->text);
    if (n == sizeof f->text - 1) {
        while (n && ((uint8_t)f->text[n - 1] & 0xC0) == 0x80)
            n--;
        f->text[n ? n - 1 : 0] = 0;
    }
}

int aq_fault_set(aq_fault *f, int http, const char *type, const char *code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vset(f, http, type, code, fmt, ap);
    va_end(ap);
    return -AQ_E_INVAL;
}

int aq_fault_field(aq_fault *f, const char *param, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vset(f, 400, "invalid_request_error", NULL, fmt, ap);
    va_end(ap);
    snprintf(f->param, sizeof f->param, "%s", param);
    return -AQ_E_INVAL;
}

int aq_fault_err(aq_fault *f, int rc, const aq_err *err)
{
    const char *text = err && err->code && err->text[0] ? err->text : aq_status_text(rc);
    int http = 500;
    const char *type = "server_error", *code = NULL;

    switch (-rc) {
    case AQ_E_INVAL:
    case AQ_E_FORMAT:
    case AQ_E_UNSUPPORTED:
    case AQ_E_LIMIT:
        http = 400;
        type = "invalid_request_error";
        break;
    case AQ_E_BUSY:
        http = 429;
        type = code = "rate_limit_exceeded";
        break;
    case AQ_E_NOMEM:
    case AQ_E_CANCELLED:
        http = 503;
        type = "unavailable_error";
        break;
    default:
        break;
    }
    *f = (aq_fault){.http = http, .type = type, .code = code};
    snprintf(f->text, sizeof f->text, "%s", text);
    return rc < 0 ? rc : -rc;
}

static const char *anthropic_type(int http)
{
    switch (http) {
    case 400:
    case 405:
    case 415:
    case 501:
        return "invalid_request_error";
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return "api_error";
    }
}

void aq_fault_put_openai(aq_jw *w, const aq_fault *f)
{
    aq_jw_s(w, "{\"message\":");
    aq_jw_q(w, f->text);
    aq_jw_s(w, ",\"type\":");
    aq_jw_q(w, f->type);
    aq_jw_s(w, ",\"param\":");
    aq_jw_q(w, f->param[0] ? f->param : NULL);
    aq_jw_s(w, ",\"code\":");
    aq_jw_q(w, f->code);
    if (f->n_ctx)
        aq_jw_f(w, ",\"n_prompt_tokens\":%u,\"n_ctx\":%u", f->n_prompt, f->n_ctx);
    aq_jw_s(w, "}");
}

void aq_fault_put(aq_jw *w, const aq_fault *f, bool anthropic)
{
    if (anthropic) {
        aq_jw_s(w, "{\"type\":\"error\",\"error\":{\"type\":");
        aq_jw_q(w, anthropic_type(f->http));
        aq_jw_s(w, ",\"message\":");
        if (f->n_ctx) /* the words that its clients look for */
            aq_jw_f(w, "\"prompt is too long: %u tokens > %u maximum\"", f->n_prompt, f->n_ctx);
        else
            aq_jw_q(w, f->text);
        aq_jw_s(w, "}}");
        return;
    }
    aq_jw_s(w, "{\"error\":");
    aq_fault_put_openai(w, f);
    aq_jw_s(w, "}");
}
