/* SPDX-License-Identifier: Apache-2.0 */
/* One message of a chat, how an answer came about, and how it is kept. Main thread. */
#pragma once

#include <glib-object.h>

#include "aq-store.h"
#include "aq/engine.h"

G_BEGIN_DECLS

typedef enum {
    AQ_MESSAGE_USER,
    AQ_MESSAGE_ASSISTANT,
} AqMessageRole;

typedef enum {
    AQ_MESSAGE_DONE,
    AQ_MESSAGE_WAITING, /* queued, or the prompt is being read: no text yet */
    AQ_MESSAGE_STREAMING,
    AQ_MESSAGE_STOPPED, /* by the user; the text so far is kept */
    AQ_MESSAGE_FULL,    /* the context or the token limit ended it */
    AQ_MESSAGE_FAILED,  /* see aq_message_get_error */
} AqMessageState;

#define AQ_TYPE_MESSAGE (aq_message_get_type())
G_DECLARE_FINAL_TYPE(AqMessage, aq_message, AQ, MESSAGE, GObject)

/* Signal "changed": anything below is different. */
AqMessage *aq_message_new(AqMessageRole role, const char *text);
AqMessageRole aq_message_get_role(AqMessage *self);
AqMessageState aq_message_get_state(AqMessage *self);
gboolean aq_message_is_running(AqMessage *self);                /* waiting or streaming */
const char *aq_message_get_text(AqMessage *self, gsize *ret_n); /* ret_n may be NULL */
const char *aq_message_get_thinking(AqMessage *self, gsize *ret_n);
int aq_message_get_error_code(AqMessage *self); /* AQ_E_*, 0 = none */
const char *aq_message_get_error(AqMessage *self);
const aq_usage *aq_message_get_usage(AqMessage *self); /* NULL until the answer ended */
/** While no text is there: what the answer waits for, for people. Free it. */
char *aq_message_describe_wait(AqMessage *self);

void aq_message_append(AqMessage *self, gboolean thinking, const char *bytes, gsize n);
void aq_message_set_state(AqMessage *self, AqMessageState state);
void aq_message_set_progress(AqMessage *self, const aq_req_state *progress);
void aq_message_set_usage(AqMessage *self, const aq_usage *usage);
void aq_message_fail(AqMessage *self, const aq_err *err);

/** Its place in the store: numbers ascend with time; parent 0 = the first of a chat. */
void aq_message_set_id(AqMessage *self, gint64 id, gint64 parent);
gint64 aq_message_get_id(AqMessage *self);
gint64 aq_message_get_parent(AqMessage *self);
const char *aq_message_get_model(AqMessage *self); /* that answered, or NULL */
void aq_message_set_model(AqMessage *self, const char *model);
/** Whether what was put last is on disk; TRUE for one that is not kept at all. */
gboolean aq_message_get_saved(AqMessage *self);
void aq_message_set_saved(AqMessage *self, gboolean saved);
/** What goes with a question: of AqFile, never changed. NULL = nothing. */
GPtrArray *aq_message_get_files(AqMessage *self);
void aq_message_set_files(AqMessage *self, GPtrArray *files);
AqMessage *aq_message_new_stored(const AqStoreMessage *stored);
/** A view of it for the store, with nothing to free: valid until the message changes. */
void aq_message_to_stored(AqMessage *self, gint64 chat, AqStoreMessage *ret);

/** Where the block of text that starts at `from` ends: behind a blank line, else (in long text) behind a line, a word or a
 * character. Returns n while the block may still grow. Only the last block of an answer is laid out anew as it grows. */
gsize aq_text_block_end(const char *text, gsize n, gsize from);

G_END_DECLS
