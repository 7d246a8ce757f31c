/* SPDX-License-Identifier: Apache-2.0 */
/* Chats in an SQLite file: the blocking half of AqChatStore. Everything here is for the store's own thread. */
#pragma once

#include "aq-store.h"

G_BEGIN_DECLS

#define AQ_STORE_VERSION \
    3 /* of the schema; a change adds a migration and a fixture of the old one */

typedef struct AqStoreDb AqStoreDb;

/** Open, or make, the file of chats (NULL: in memory only) with its folder. A damaged file or one of a newer Aquifer is renamed, never
 * deleted, and a new one is made; *ret_said then tells it (for people; else NULL; free it). A file that can only be read is opened so.
 * The file is locked until close. Errors: BUSY (another program has it), AUTH, IO. */
int aq_store_db_open(const char *path, AqStoreDb **ret, char **ret_said, aq_err *err) AQ_MUST;
/** A file that was opened to be read only is opened anew when it can be written by now, in the place of *db; else *db stays. Nothing to do
 * for one that can be written. Errors: as of open. */
int aq_store_db_make_writable(const char *path, AqStoreDb **db, aq_err *err) AQ_MUST;
void aq_store_db_close(AqStoreDb *db);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AqStoreDb, aq_store_db_close)

/** Write all of them or none. Errors: LIMIT (disk full), AUTH, BUSY, IO, FORMAT (set the file aside and open again). */
int aq_store_db_write(AqStoreDb *db, AqStoreOp *const *op, guint n, aq_err *err) AQ_MUST;
/** Rename a file that proved damaged, after close. *ret_said as above. */
void aq_store_db_set_aside(const char *path, char **ret_said);

/** All chats that are not deleted, the one changed last first; of AqStoreChat. */
int aq_store_db_list(AqStoreDb *db, GPtrArray **ret, aq_err *err) AQ_MUST;
/** The messages of a chat, oldest first, with their files; of AqStoreMessage. */
int aq_store_db_messages(AqStoreDb *db, gint64 chat, GPtrArray **ret, aq_err *err) AQ_MUST;
/** The names of all folders, in their order; of char. */
int aq_store_db_folders(AqStoreDb *db, GPtrArray **ret, aq_err *err) AQ_MUST;
/** What is attached to the question that is not sent yet; of AqFile. */
int aq_store_db_draft_files(AqStoreDb *db, gint64 chat, GPtrArray **ret, aq_err *err) AQ_MUST;
/** Messages (and chats, by their title) that contain the text, newest first; of AqStoreHit. */
int aq_store_db_search(AqStoreDb *db, const char *text, guint limit, GPtrArray **ret,
                       aq_err *err) AQ_MUST;

G_END_DECLS
