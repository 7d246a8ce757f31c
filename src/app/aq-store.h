/* SPDX-License-Identifier: Apache-2.0 */
/* Where chats are kept: an SQLite file and the one thread that uses it. The main thread never waits for the disk: writes are queued,
 * and what is read comes back by a callback. What could not be written stays queued and is tried again. */
#pragma once

#include <gio/gio.h>

#include "aq/engine.h"

G_BEGIN_DECLS

typedef struct {
    gint64 id, created_us, changed_us, leaf; /* leaf: the last message of the branch in view */
    char *title, *folder, *draft;            /* any may be NULL */
    char *settings;                          /* JSON, or NULL: all as by default */
    gboolean deleted;                        /* until it is dropped, it can come back */
} AqStoreChat;

typedef struct {
    gint64 id, chat, parent; /* parent: the message before it; 0 = none */
    gint64 created_us;
    int role, state, error_code;
    char *text, *thinking, *error, *model;
    GPtrArray *files; /* of AqFile: what goes with a question; or NULL */
    gboolean has_usage;
    aq_usage usage;
} AqStoreMessage;

typedef struct {
    gint64 chat, message; /* message 0: the title */
    char *snippet;
} AqStoreHit;

AqStoreChat *aq_store_chat_copy(const AqStoreChat *chat);
void aq_store_chat_free(AqStoreChat *chat);
AqStoreMessage *aq_store_message_copy(const AqStoreMessage *message);
void aq_store_message_free(AqStoreMessage *message);
void aq_store_hit_free(AqStoreHit *hit);

typedef enum {
    AQ_STORE_PUT_CHAT,
    AQ_STORE_DROP_CHAT, /* with its messages */
    AQ_STORE_PUT_MESSAGE,
    AQ_STORE_DROP_MESSAGE,
    AQ_STORE_PUT_FOLDER,
    AQ_STORE_DROP_FOLDER,     /* chats that name it are put by themselves */
    AQ_STORE_PUT_DRAFT_FILES, /* id: the chat's */
} AqStoreOpKind;

typedef struct {
    AqStoreOpKind kind;
    gint64 id;
    AqStoreChat *chat;
    AqStoreMessage *message;
    char *name; /* of a folder */
    GPtrArray *files;
    GObject *owner; /* told by "saved"; or NULL */
} AqStoreOp;

#define AQ_TYPE_CHAT_STORE (aq_chat_store_get_type())
G_DECLARE_FINAL_TYPE(AqChatStore, aq_chat_store, AQ, CHAT_STORE, GObject)

/* Signals, on the main thread: "saved" (GObject *owner: what was put with it is on disk); "opened" (the file can be read now);
 * "problem" (char *text for people, or NULL when it is over); "said" (char *text: something to know once); "reset" (a new file was
 * begun while the program ran: put again all that is to be kept). */

/** path NULL: kept in memory only. Opening happens on the store's thread. */
AqChatStore *aq_chat_store_new(const char *path);
/** What stands in the way of writing, for people; NULL = nothing. */
const char *aq_chat_store_get_problem(AqChatStore *self);
/** Try again now what could not be written. */
void aq_chat_store_retry(AqChatStore *self);
/** Write what is queued, close the file, then call done. Nothing is put after it. */
void aq_chat_store_close(AqChatStore *self, void (*done)(gpointer user), gpointer user);

/** A new number for a chat or message: greater than those before. */
gint64 aq_chat_store_new_id(AqChatStore *self);
void aq_chat_store_put_chat(AqChatStore *self, const AqStoreChat *chat);
void aq_chat_store_drop_chat(AqChatStore *self, gint64 id);
/** A message of a chat that is not there is let go silently. */
void aq_chat_store_put_message(AqChatStore *self, const AqStoreMessage *message, GObject *owner);
void aq_chat_store_drop_message(AqChatStore *self, gint64 id);
/** What is attached to a question that is not sent yet; files: of AqFile, kept. Of a chat that is not there they are let go silently. */
void aq_chat_store_put_draft_files(AqChatStore *self, gint64 chat, GPtrArray *files);

void aq_chat_store_put_folder(AqChatStore *self, const char *name);
void aq_chat_store_drop_folder(AqChatStore *self, const char *name);

/** list: of AqStoreChat, AqStoreMessage, AqFile or AqStoreHit; owned by the caller of the callback; NULL when it could not be read (then "problem"
 * tells why). user stays alive until the call, which comes unless the store is closed. */
typedef void (*AqStoreListCb)(GPtrArray *list, GObject *user);
void aq_chat_store_folders(AqChatStore *self, AqStoreListCb cb, GObject *user); /* of char */
void aq_chat_store_list(AqChatStore *self, AqStoreListCb cb, GObject *user);
void aq_chat_store_messages(AqChatStore *self, gint64 chat, AqStoreListCb cb, GObject *user);
void aq_chat_store_draft_files(AqChatStore *self, gint64 chat, AqStoreListCb cb, GObject *user);
void aq_chat_store_search(AqChatStore *self, const char *text, guint limit, AqStoreListCb cb,
                          GObject *user);

G_END_DECLS
