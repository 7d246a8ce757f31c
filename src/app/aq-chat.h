/* SPDX-License-Identifier: Apache-2.0 */
/* A chat: a tree of messages, the branch of it that is in view, the answer under way. Main thread. */
#pragma once

#include "aq-chat-settings.h"
#include "aq-engine-host.h"
#include "aq-file.h"
#include "aq-message.h"
#include "aq-store.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHAT (aq_chat_get_type())
G_DECLARE_FINAL_TYPE(AqChat, aq_chat, AQ, CHAT, GObject)

/* Properties: "title" (string), "busy" (an answer is under way), "empty" (no message yet), "loaded", "folder", "unread". Signal "changed": its place in the
 * list of chats, by aq_chat_get_changed_us, is another. */

/** store may be NULL: nothing is kept. */
AqChat *aq_chat_new(AqEngineHost *host, AqChatStore *store);
/** One that the store has; its messages come with aq_chat_load. */
AqChat *aq_chat_new_stored(AqEngineHost *host, AqChatStore *store, const AqStoreChat *stored);
/** Read the messages, if they are not there yet. */
void aq_chat_load(AqChat *self);
gboolean aq_chat_get_loaded(AqChat *self);

gint64 aq_chat_get_id(AqChat *self);
gint64 aq_chat_get_changed_us(AqChat *self);
const char *aq_chat_get_title(AqChat *self);
void aq_chat_set_title(AqChat *self, const char *title);
gboolean aq_chat_get_busy(AqChat *self);
gboolean aq_chat_get_empty(AqChat *self);
const char *aq_chat_get_folder(AqChat *self); /* or NULL */
/** folder: of those in AqChats; NULL: none. */
void aq_chat_set_folder(AqChat *self, const char *folder);
/** An answer ended while nobody looked; set by who knows what is looked at. */
gboolean aq_chat_get_unread(AqChat *self);
void aq_chat_set_unread(AqChat *self, gboolean unread);
GListModel *aq_chat_get_messages(AqChat *self); /* of AqMessage, the branch in view; borrowed */
AqEngineHost *aq_chat_get_host(AqChat *self);

/** A question with what the draft has attached, and the answer to it. FALSE when that is not possible now: no model, an answer under way,
 * nothing but white space and no file. */
gboolean aq_chat_send(AqChat *self, const char *text);
/** Another answer in the place of this one, which stays as another branch, unless it failed. */
gboolean aq_chat_ask_again(AqChat *self, AqMessage *answer);
/** The question in other words, as another branch, and the answer to it. */
gboolean aq_chat_edit(AqChat *self, AqMessage *question, const char *text);
/** The last answer, if it was stopped or cut off, goes on where it ended. */
gboolean aq_chat_can_continue(AqChat *self);
gboolean aq_chat_continue(AqChat *self);
/** The versions of a message: how many, and which one this is, from 0. */
guint aq_chat_get_branches(AqChat *self, AqMessage *message, guint *ret_at);
/** Show another version of the message, by +1 or -1, with what followed it last. */
void aq_chat_step_branch(AqChat *self, AqMessage *message, int by);
/** The message and all below it. */
void aq_chat_delete_message(AqChat *self, AqMessage *message);
void aq_chat_stop(AqChat *self);
/** The temperature of a chat that has none of its own. */
void aq_chat_set_temperature(AqChat *self, double temperature);
double aq_chat_get_usual_temperature(AqChat *self);
const AqChatSettings *aq_chat_get_settings(AqChat *self);
void aq_chat_set_settings(AqChat *self, const AqChatSettings *settings);
/** Variables of the template, as JSON, or NULL; valid until the settings or the model change. */
const char *aq_chat_get_vars(AqChat *self);
/** What is written in the field and not sent; "" = nothing. */
const char *aq_chat_get_draft(AqChat *self);
void aq_chat_set_draft(AqChat *self, const char *draft);
/** What is attached to the question that is being written: of AqFile; kept like the draft. borrowed */
GListModel *aq_chat_get_draft_files(AqChat *self);
/** FALSE when there are AQ_FILES_MAX already. */
gboolean aq_chat_add_draft_file(AqChat *self, AqFile *file);
void aq_chat_remove_draft_file(AqChat *self, AqFile *file);
/** The messages up to n as the engine takes them, `[{"role":…,"content":…},…]`; answers that failed are left out.
 * With `draft` (not NULL) what is being written comes last, with its files. Free it. */
char *aq_chat_to_json(AqChat *self, guint n, const char *draft);

/** Gone from the list and, if it stays so, from the disk; aq_chat_drop makes it final. */
void aq_chat_set_deleted(AqChat *self, gboolean deleted);
void aq_chat_drop(AqChat *self);
/** Put all of it again, in a store that began anew. */
void aq_chat_put_all(AqChat *self);
/** An answer under way ends here, and is put as it is: before the store is closed. "ending" is emitted first: who
 * holds back something that belongs to the chat (a draft being written) hands it over then. */
void aq_chat_end(AqChat *self);

G_END_DECLS
