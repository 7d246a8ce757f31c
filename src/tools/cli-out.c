/* SPDX-License-Identifier: Apache-2.0 */
/* One text that grows and is printed at its end, so that an error leaves nothing half said. One thread. */
#include <stdarg.h>
#include <stdio.h>

#include "cli-member.h"

void put(out *o, const char *fmt, ...)
{
    char s[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    if (o->rc >= 0)
        o->rc = aq_bytes_puts(&o->b, s);
}

void put_json(out *o, const char *text)
{
    if (o->rc >= 0)
        o->rc = aq_json_quote(&o->b, text, strlen(text));
}

int out_end(out *o, const char *where)
{
    int code = CLI_OK;

    if (o->rc < 0)
        code = cli_error(CLI_FAILED, where, "out of memory");
    else
        fwrite(o->b.p, 1, o->b.n, stdout);
    aq_bytes_clear(&o->b);
    return code == CLI_OK ? cli_flush() : code;
}

void put_id(out *o, const aq_id *id)
{
    char hex[65];

    aq_hex(id->b, 32, hex);
    put(o, "\"id\":\"%s\"", hex);
}

void put_addrs(out *o, const char (*addr)[AQ_ADDR_MAX + 1], uint32_t n)
{
    put(o, "\"addresses\":[");
    for (uint32_t i = 0; i < n; i++) {
        put(o, i ? "," : "");
        put_json(o, addr[i]);
    }
    put(o, "]");
}
