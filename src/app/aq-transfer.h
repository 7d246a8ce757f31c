/* SPDX-License-Identifier: Apache-2.0 */
/* Chats as files: written as Markdown and JSON, read from JSON of our own and of other programs. No display needed; any thread. */
#pragma once

#include "aq-store.h"

G_BEGIN_DECLS

#define AQ_TRANSFER_MAX_BYTES (256u << 20) /* of a file that is read */
#define AQ_TRANSFER_DEPTH 24
#define AQ_TRANSFER_MESSAGES 1000000 /* of a file */

/* A chat and all its messages: their ids ascend, a parent is an earlier one. */
typedef struct {
    AqStoreChat *chat;
    GPtrArray *messages; /* of AqStoreMessage */
} AqChatCopy;

/** Takes both. */
AqChatCopy *aq_chat_copy_new(AqStoreChat *chat, GPtrArray *messages);
void aq_chat_copy_free(AqChatCopy *copy);

/** The branch in view, for people. Free it. */
char *aq_transfer_markdown(const AqChatCopy *copy);
/** All of them, with all branches: what aq_transfer_read takes. Free it. */
char *aq_transfer_json(GPtrArray *copies);
/** The chats of a file: Aquifer's own, an export of ChatGPT (conversations.json), a conversation of LM Studio, or a list of messages with
 * role and content. Ids are 1, 2, … of each chat, leaf among them. Returns of AqChatCopy. Errors: LIMIT, FORMAT. */
int aq_transfer_read(const char *text, gsize n, GPtrArray **ret, aq_err *err) AQ_MUST;

G_END_DECLS
