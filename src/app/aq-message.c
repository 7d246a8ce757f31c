/* SPDX-License-Identifier: Apache-2.0 */
/* One message of a chat. The text only grows, in whole UTF-8 characters. Main thread. */
#include "aq-message.h"

#include <glib/gi18n.h>

#define BLOCK_LINE_BYTES 2000 /* a block this long ends at the next line */
#define BLOCK_MAX_BYTES \
    4000 /* and here anywhere: laying out a label of 100 KB takes most of a second */

struct _AqMessage {
    GObject parent;
    AqMessageRole role;
    AqMessageState state;
    GString *text, *thinking;
    aq_req_state progress;
    gboolean has_progress;
    aq_usage usage;
    gboolean has_usage;
    aq_err err;
};

G_DEFINE_FINAL_TYPE(AqMessage, aq_message, G_TYPE_OBJECT)

static guint signal_changed;

static void changed(AqMessage *self)
{
    g_signal_emit(self, signal_changed, 0);
}

static void aq_message_finalize(GObject *object)
{
    AqMessage *self = AQ_MESSAGE(object);
    g_string_free(self->text, TRUE);
    g_string_free(self->thinking, TRUE);
    G_OBJECT_CLASS(aq_message_parent_class)->finalize(object);
}

static void aq_message_class_init(AqMessageClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_message_finalize;
    signal_changed = g_signal_new("changed", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 0);
}

static void aq_message_init(AqMessage *self)
{
    self->text = g_string_new(NULL);
    self->thinking = g_string_new(NULL);
}

AqMessage *aq_message_new(AqMessageRole role, const char *text)
{
    AqMessage *self = g_object_new(AQ_TYPE_MESSAGE, NULL);
    self->role = role;
    self->state = role == AQ_MESSAGE_USER ? AQ_MESSAGE_DONE : AQ_MESSAGE_WAITING;
    if (text)
        g_string_assign(self->text, text);
    return self;
}

AqMessageRole aq_message_get_role(AqMessage *self)
{
    return self->role;
}

AqMessageState aq_message_get_state(AqMessage *self)
{
    return self->state;
}

gboolean aq_message_is_running(AqMessage *self)
{
    return self->state == AQ_MESSAGE_WAITING || self->state == AQ_MESSAGE_STREAMING;
}

const char *aq_message_get_text(AqMessage *self, gsize *ret_n)
{
    if (ret_n)
        *ret_n = self->text->len;
    return self->text->str;
}

const char *aq_message_get_thinking(AqMessage *self, gsize *ret_n)
{
    if (ret_n)
        *ret_n = self->thinking->len;
    return self->thinking->str;
}

int aq_message_get_error_code(AqMessage *self)
{
    return self->err.code;
}

const char *aq_message_get_error(AqMessage *self)
{
    return self->err.text;
}

const aq_usage *aq_message_get_usage(AqMessage *self)
{
    return self->has_usage ? &self->usage : NULL;
}

char *aq_message_describe_wait(AqMessage *self)
{
    const aq_req_state *p = &self->progress;
    if (self->has_progress && p->queued > 1)
        return g_strdup_printf(
            ngettext("Waiting for %u other answer", "Waiting for %u other answers", p->queued - 1),
            p->queued - 1);
    if (self->has_progress && !p->queued && p->read_tok < p->prompt_tok)
        return g_strdup_printf(
            ngettext("Reading %u of %u token", "Reading %u of %u tokens", p->prompt_tok),
            p->read_tok, p->prompt_tok);
    return g_strdup(_("Starting…"));
}

void aq_message_append(AqMessage *self, gboolean thinking, const char *bytes, gsize n)
{
    /* Labels and JSON end at a NUL: show it as what it is, a character without a picture. */
    GString *to = thinking ? self->thinking : self->text;
    for (gsize i = 0; i < n;) {
        const char *nul = memchr(bytes + i, 0, n - i);
        gsize part = nul ? (gsize)(nul - bytes) - i : n - i;
        g_string_append_len(to, bytes + i, (gssize)part);
        i += part;
        if (nul) {
            g_string_append(to, "\xef\xbf\xbd");
            i++;
        }
    }
    self->state = AQ_MESSAGE_STREAMING;
    changed(self);
}

void aq_message_set_state(AqMessage *self, AqMessageState state)
{
    self->state = state;
    changed(self);
}

void aq_message_set_progress(AqMessage *self, const aq_req_state *progress)
{
    self->progress = *progress;
    self->has_progress = TRUE;
    changed(self);
}

void aq_message_set_usage(AqMessage *self, const aq_usage *usage)
{
    self->usage = *usage;
    self->has_usage = TRUE;
    changed(self);
}

void aq_message_fail(AqMessage *self, const aq_err *err)
{
    self->err = *err;
    self->state = AQ_MESSAGE_FAILED;
    changed(self);
}

gsize aq_text_block_end(const char *text, gsize n, gsize from)
{
    gsize line = 0, word = 0;
    for (gsize i = from; i < n; i++) {
        if (text[i] == '\n') {
            if (i > from && text[i - 1] == '\n') {
                while (i + 1 < n && text[i + 1] == '\n')
                    i++;
                return i + 1;
            }
            line = i + 1;
            if (i - from >= BLOCK_LINE_BYTES)
                return line;
        } else if (text[i] == ' ') {
            word = i + 1;
        }
        if (i + 1 - from >= BLOCK_MAX_BYTES) {
            if (line)
                return line;
            if (word)
                return word;
            gsize end = i + 1;
            while (end > from + 1 && end < n && ((guchar)text[end] & 0xc0) == 0x80)
                end--;
            return end;
        }
    }
    return n;
}
