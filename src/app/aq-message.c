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
    gint64 id, after, created_us;
    char *model;
    GPtrArray *files; /* of AqFile; NULL = none */
    gboolean unsaved;
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
    g_free(self->model);
    g_clear_pointer(&self->files, g_ptr_array_unref);
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
    self->created_us = g_get_real_time();
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

/* ---- kept ------------------------------------------------------------------------------------ */

void aq_message_set_id(AqMessage *self, gint64 id, gint64 parent)
{
    self->id = id;
    self->after = parent;
}

gint64 aq_message_get_id(AqMessage *self)
{
    return self->id;
}

gint64 aq_message_get_parent(AqMessage *self)
{
    return self->after;
}

const char *aq_message_get_model(AqMessage *self)
{
    return self->model;
}

void aq_message_set_model(AqMessage *self, const char *model)
{
    g_set_str(&self->model, model);
}

GPtrArray *aq_message_get_files(AqMessage *self)
{
    return self->files;
}

void aq_message_set_files(AqMessage *self, GPtrArray *files)
{
    g_clear_pointer(&self->files, g_ptr_array_unref);
    self->files = files && files->len ? g_ptr_array_ref(files) : NULL;
}

gboolean aq_message_get_saved(AqMessage *self)
{
    return !self->unsaved;
}

void aq_message_set_saved(AqMessage *self, gboolean saved)
{
    if (self->unsaved == !saved)
        return;
    self->unsaved = !saved;
    changed(self);
}

/* A number from a file becomes one of ours. */
static AqMessageState state_of(int number)
{
    return number >= AQ_MESSAGE_DONE && number <= AQ_MESSAGE_FAILED ? (AqMessageState)number
                                                                    : AQ_MESSAGE_DONE;
}

AqMessage *aq_message_new_stored(const AqStoreMessage *stored)
{
    AqMessage *self = g_object_new(AQ_TYPE_MESSAGE, NULL);
    self->role = stored->role == AQ_MESSAGE_USER ? AQ_MESSAGE_USER : AQ_MESSAGE_ASSISTANT;
    self->state = state_of(stored->state);
    if (aq_message_is_running(self))
        self->state = AQ_MESSAGE_STOPPED; /* of a program that is no more */
    self->id = stored->id;
    self->after = stored->parent;
    self->created_us = stored->created_us;
    g_string_assign(self->text, stored->text ? stored->text : "");
    g_string_assign(self->thinking, stored->thinking ? stored->thinking : "");
    self->model = g_strdup(stored->model);
    aq_message_set_files(self, stored->files);
    self->has_usage = stored->has_usage;
    self->usage = stored->usage;
    if (stored->error)
        aq_fail(&self->err, stored->error_code, "%s", stored->error);
    return self;
}

void aq_message_to_stored(AqMessage *self, gint64 chat, AqStoreMessage *ret)
{
    gboolean failed = self->state == AQ_MESSAGE_FAILED;
    *ret = (AqStoreMessage){.id = self->id,
                            .chat = chat,
                            .parent = self->after,
                            .created_us = self->created_us,
                            .role = (int)self->role,
                            .state = (int)self->state,
                            .error_code = failed ? (int)self->err.code : 0,
                            .text = self->text->str,
                            .thinking = self->thinking->len ? self->thinking->str : NULL,
                            .error = failed ? self->err.text : NULL,
                            .model = self->model,
                            .files = self->files,
                            .has_usage = self->has_usage,
                            .usage = self->usage};
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
