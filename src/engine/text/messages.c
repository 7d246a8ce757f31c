/* SPDX-License-Identifier: Apache-2.0 */
/* A chat as OpenAI's clients write it, made into what chat templates take: each message an object with a role they know and a
 * content that is one text. So what a template would stumble over is refused here, by the message's number. Any thread.
 *
 *   role      system, user, assistant, tool; developer, which no template knows, becomes system
 *   content   a text; an array of parts {"type":"text","text":…} is joined by newlines; null or absent becomes the empty text
 *             in an assistant's message (one of calls alone has none)
 *   others    stay as they are, in their order */
#include "text-priv.h"

/* Where a message's trouble is told: "message 3" counts from 1. */
static int refuse(aq_err *err, int code, uint32_t no, const char *what)
{
    return aq_fail(err, code, "message %u %s", no, what);
}

static int role_of(const aq_json *msg, uint32_t no, const char **ret, aq_err *err)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *role = aq_json_str(msg, "role");

    if (!role)
        return refuse(err, AQ_E_INVAL, no, "has no \"role\", or one that is no text");
    if (!strcmp(role, "developer"))
        role = "system";
    for (size_t i = 0; i < AQ_LEN(roles); i++)
        if (!strcmp(role, roles[i])) {
            *ret = role;
            return 0;
        }
    return aq_fail(
        err, AQ_E_INVAL,
        "message %u has the role \"%.40s\"; known are system, developer, user, assistant "
        "and tool",
        no, role);
}

/* The texts of an array of parts. */
static int join(const aq_json *parts, uint32_t no, aq_bytes *ret, aq_err *err)
{
    int rc = 0;

    for (const aq_json *p = parts->n ? parts->item : NULL; p && rc >= 0; p = p->next) {
        const char *type = aq_json_str(p, "type");
        const aq_json *text = aq_json_get(p, "text");
        if (!type)
            return refuse(err, AQ_E_INVAL, no, "has a part of content without a \"type\"");
        if (strcmp(type, "text"))
            return aq_fail(err, AQ_E_UNSUPPORTED,
                           "message %u has a part of type \"%.40s\"; only parts of type text are "
                           "read: leave the others out",
                           no, type);
        if (!text || text->kind != AQ_JSON_STR)
            return refuse(err, AQ_E_INVAL, no, "has a part of type text without a \"text\"");
        rc = p == parts->item ? 0 : aq_bytes_puts(ret, "\n");
        rc = rc < 0 ? rc : aq_bytes_put(ret, text->str, text->n);
    }
    return rc < 0 ? refuse(err, -rc, no, "needs more memory than there is") : 0;
}

/* "content": and its text. */
static int put_content(aq_bytes *out, const aq_json *c, const char *role, uint32_t no, aq_err *err)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes text = {0};
    const char *p = "";
    size_t n = 0;
    int rc = 0;

    if (c && c->kind == AQ_JSON_STR) {
        p = c->str;
        n = c->n;
    } else if (c && c->kind == AQ_JSON_ARR) {
        if ((rc = join(c, no, &text, err)) < 0)
            return rc;
        if (text.n) {
            p = (const char *)text.p;
            n = text.n;
        }
    } else if (c && c->kind != AQ_JSON_NULL) {
        return refuse(err, AQ_E_INVAL, no, "has a \"content\" that is neither text nor parts");
    } else if (strcmp(role, "assistant")) {
        return refuse(err, AQ_E_INVAL, no, "has no \"content\"");
    }
    if ((rc = aq_bytes_puts(out, ",\"content\":")) >= 0)
        rc = aq_json_quote(out, p, n);
    return rc < 0 ? refuse(err, -rc, no, "needs more memory than there is") : 0;
}

static int put_message(aq_bytes *out, const aq_json *msg, uint32_t no, aq_err *err)
{
    const char *role = "";

    if (msg->kind != AQ_JSON_OBJ)
        return refuse(err, AQ_E_INVAL, no, "is no JSON object");
    int rc = role_of(msg, no, &role, err);
    if (rc < 0)
        return rc;
    rc = aq_bytes_putf(out, "%s{\"role\":\"%s\"", no > 1 ? "," : "", role);
    if (rc >= 0 && (rc = put_content(out, aq_json_get(msg, "content"), role, no, err)) < 0)
        return rc;
    for (const aq_json *c = msg->n ? msg->item : NULL; c && rc >= 0; c = c->next) {
        if (!strcmp(c->key, "role") || !strcmp(c->key, "content"))
            continue;
        if ((rc = aq_bytes_puts(out, ",")) >= 0 &&
            (rc = aq_json_quote(out, c->key, c->key_n)) >= 0 && (rc = aq_bytes_puts(out, ":")) >= 0)
            rc = aq_json_put(out, c);
    }
    rc = rc < 0 ? rc : aq_bytes_puts(out, "}");
    return rc < 0 ? refuse(err, -rc, no, "needs more memory than there is") : 0;
}

int aq_messages_put(aq_bytes *out, const aq_json *messages, aq_err *err)
{
    uint32_t no = 0;
    int rc = aq_bytes_puts(out, "[");

    for (const aq_json *m = messages->n ? messages->item : NULL; m && rc >= 0; m = m->next)
        if ((rc = put_message(out, m, ++no, err)) < 0)
            return rc;
    rc = rc < 0 ? rc : aq_bytes_puts(out, "]");
    return rc < 0 ? aq_fail(err, -rc, "no memory for a chat of %u messages", no) : 0;
}
