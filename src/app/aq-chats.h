/* SPDX-License-Identifier: Apache-2.0 */
/* All chats: those that the store has, and the new ones. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_CHATS (aq_chats_get_type())
G_DECLARE_FINAL_TYPE(AqChats, aq_chats, AQ, CHATS, GObject)

/* Signal "moved" (AqChat *): the chat was taken out of the list and put in again at another place. */

/** Chats of the store appear as soon as they are read. */
AqChats *aq_chats_new(AqEngineHost *host, AqChatStore *store, double temperature);
GListModel *aq_chats_get_list(AqChats *self); /* of AqChat, the one changed last first; borrowed */
AqChatStore *aq_chats_get_store(AqChats *self);
AqChat *aq_chats_find(AqChats *self, gint64 id); /* or NULL; borrowed */
/** Names of the folders, in order; of GtkStringObject; borrowed. */
GListModel *aq_chats_get_folders(AqChats *self);
/** FALSE: there is such a folder, or the name is blank. */
gboolean aq_chats_add_folder(AqChats *self, const char *name);
gboolean aq_chats_rename_folder(AqChats *self, const char *name, const char *to);
/** Its chats stay, in no folder. */
void aq_chats_drop_folder(AqChats *self, const char *name);
/** Chats that aq_transfer_read returned become chats of their own. Returns how many. */
guint aq_chats_import(AqChats *self, GPtrArray *copies);
/** An empty chat: the one that is there, else a new one, first in the list. Borrowed. */
AqChat *aq_chats_add(AqChats *self);
/** Out of the list; it can be restored until aq_chats_forget or the end of the program. */
void aq_chats_remove(AqChats *self, AqChat *chat);
void aq_chats_restore(AqChats *self, AqChat *chat);
void aq_chats_forget(AqChats *self, AqChat *chat);
/** Put what is left and close the store; then done(user). */
void aq_chats_close(AqChats *self, void (*done)(gpointer user), gpointer user);

G_END_DECLS
