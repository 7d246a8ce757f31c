/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of chats in the sidebar. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chats.h"

G_BEGIN_DECLS

#define AQ_TYPE_FOLDER_LIST (aq_folder_list_get_type())
G_DECLARE_FINAL_TYPE(AqFolderList, aq_folder_list, AQ, FOLDER_LIST, AdwBin)

/* Signal "changed": another folder is chosen. Hidden while there are no folders. A chat that is dropped on a folder is moved there. */

void aq_folder_list_set_chats(AqFolderList *self, AqChats *chats); /* once */
/** The folder whose chats are to be seen, or NULL: all chats. Borrowed. */
const char *aq_folder_list_get_chosen(AqFolderList *self);

/** Ask for the name of a new folder, and make it. */
void aq_folder_ask_new(GtkWidget *parent, AqChats *chats);
/** Ask which folder, there or new, a chat is to be in. */
void aq_folder_ask_move(GtkWidget *parent, AqChats *chats, AqChat *chat);

G_END_DECLS
