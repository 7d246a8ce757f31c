/* SPDX-License-Identifier: Apache-2.0 */
/* Chats in an SQLite file.
 *
 *   chats(id, title, created_us, changed_us, leaf, folder, draft, settings, deleted)
 *   messages(id, chat, parent, role, state, text, thinking, model, created_us, error_code, error, figures …)
 *   files(owner, pos, chat, name, text): owner is a message, or a chat for what its draft has; numbers of both are never the same
 *   folders(name): all of them; chats.folder is a name of these, or NULL
 *   words: FTS5 over messages.text by trigrams, so that parts of words and languages without spaces are found; it holds no text itself
 *
 * The file is locked for this process while it is open (locking_mode EXCLUSIVE: WAL without shared memory). After a crash of the program
 * every transaction that was told as written is there; after a loss of power the last seconds may be missing. user_version is the
 * version of the schema. Every step of a write has a failpoint. */
#include "aq-store-db.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <sqlite3.h>

#include "aq-file.h"
#include "aq-message.h"

#define APPLICATION_ID 0x41514348 /* "AQCH" */
#define SNIPPET_BEFORE_BYTES 40
#define SNIPPET_BYTES 160
#define SHORT_CHARS 3 /* below it trigrams find nothing: every text is looked at */

struct AqStoreDb {
    sqlite3 *sql;
    sqlite3_stmt *put_chat, *drop_chat, *drop_chat_words, *drop_chat_messages, *put_message,
        *drop_message, *put_words, *drop_words, *put_file, *drop_files, *drop_chat_files;
};

/* ---- schema --------------------------------------------------------------------------------- */

/* What makes version n + 1 out of n; [0] makes the first. */
static const char *const migrations[AQ_STORE_VERSION] = {
    "CREATE TABLE chats("
    "  id INTEGER PRIMARY KEY, title TEXT, created_us INTEGER NOT NULL, changed_us INTEGER NOT "
    "NULL,"
    "  leaf INTEGER NOT NULL, folder TEXT, draft TEXT, settings TEXT,"
    "  deleted INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE messages("
    "  id INTEGER PRIMARY KEY, chat INTEGER NOT NULL, parent INTEGER NOT NULL,"
    "  role INTEGER NOT NULL, state INTEGER NOT NULL, text TEXT NOT NULL, thinking TEXT,"
    "  files TEXT, model TEXT, created_us INTEGER NOT NULL, error_code INTEGER NOT NULL DEFAULT 0,"
    "  error TEXT, prompt_tok INTEGER, cached_tok INTEGER, gen_tok INTEGER, prompt_us INTEGER,"
    "  first_us INTEGER, gen_us INTEGER);"
    "CREATE INDEX messages_chat ON messages(chat);"
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1,"
    "  tokenize='trigram remove_diacritics 1');",
    "ALTER TABLE messages DROP COLUMN files;"
    "CREATE TABLE files("
    "  owner INTEGER NOT NULL, pos INTEGER NOT NULL, chat INTEGER NOT NULL, name TEXT NOT NULL,"
    "  text TEXT NOT NULL, PRIMARY KEY(owner, pos));"
    "CREATE INDEX files_chat ON files(chat);",
    "CREATE TABLE folders(name TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;",
};

/* ---- errors --------------------------------------------------------------------------------- */

static int fail(AqStoreDb *db, int rc, aq_err *err)
{
    const char *why = db && db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc);
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return aq_fail(err, AQ_E_LIMIT, "%s", _("The disk is full: make room on it"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return aq_fail(err, AQ_E_BUSY, "%s",
                       _("Another program uses the file of chats: close it there"));
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return aq_fail(err, AQ_E_AUTH, "%s",
                       _("The folder of chats cannot be written: look at its permissions"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return aq_fail(err, AQ_E_FORMAT, _("The file of chats is damaged (%s)"), why);
    case SQLITE_NOMEM:
        return aq_fail(err, AQ_E_NOMEM, "%s", _("There is not enough memory to write chats"));
    default:
        return aq_fail(err, AQ_E_IO, _("The file of chats could not be used (%s)"), why);
    }
}

static int run(AqStoreDb *db, const char *name, const char *sql, aq_err *err)
{
    if (aq_failpoint(name))
        return fail(db, SQLITE_FULL, err);
    int rc = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(db, rc, err);
}

/* A statement that returns nothing; it is left ready for its next use. */
static int step(AqStoreDb *db, const char *name, sqlite3_stmt *stmt, aq_err *err)
{
    int rc = aq_failpoint(name) ? SQLITE_FULL : sqlite3_step(stmt);
    int result = rc == SQLITE_DONE ? 0 : fail(db, rc, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return result;
}

/* ---- open ----------------------------------------------------------------------------------- */

void aq_store_db_close(AqStoreDb *db)
{
    if (!db)
        return;
    sqlite3_stmt *const all[] = {db->put_chat,           db->drop_chat,      db->drop_chat_words,
                                 db->drop_chat_messages, db->put_message,    db->drop_message,
                                 db->put_words,          db->drop_words,     db->put_file,
                                 db->drop_files,         db->drop_chat_files};
    for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(db->sql);
    g_free(db);
}

static int number(AqStoreDb *db, const char *sql, gint64 *ret, aq_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->sql, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : fail(db, rc, err);
}

/* Whether the pages of the file hang together. */
static int check(AqStoreDb *db, aq_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->sql, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW && g_strcmp0((const char *)sqlite3_column_text(stmt, 0), "ok") != 0)
        rc = SQLITE_CORRUPT;
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : fail(db, rc, err);
}

static int prepare(AqStoreDb *db, aq_err *err)
{
    const struct {
        sqlite3_stmt **stmt;
        const char *sql;
    } all[] = {
        {&db->put_chat, "INSERT OR REPLACE INTO chats(id, title, created_us, changed_us, leaf, "
                        "folder, draft, settings, deleted) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)"},
        {&db->drop_chat, "DELETE FROM chats WHERE id = ?1"},
        {&db->drop_chat_words,
         "DELETE FROM words WHERE rowid IN (SELECT id FROM messages WHERE chat = ?1)"},
        {&db->drop_chat_messages, "DELETE FROM messages WHERE chat = ?1"},
        {&db->put_message,
         "INSERT OR REPLACE INTO messages(id, chat, parent, role, state, text, thinking, "
         "model, created_us, error_code, error, prompt_tok, cached_tok, gen_tok, prompt_us, "
         "first_us, gen_us) SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17 "
         "WHERE EXISTS(SELECT 1 FROM chats WHERE id = ?2)"},
        {&db->drop_message, "DELETE FROM messages WHERE id = ?1"},
        {&db->put_words, "INSERT OR REPLACE INTO words(rowid, text) "
                         "SELECT id, text FROM messages WHERE id = ?1"},
        {&db->drop_words, "DELETE FROM words WHERE rowid = ?1"},
        {&db->put_file, "INSERT INTO files(owner, pos, chat, name, text) SELECT ?1,?2,?3,?4,?5 "
                        "WHERE EXISTS(SELECT 1 FROM chats WHERE id = ?3)"},
        {&db->drop_files, "DELETE FROM files WHERE owner = ?1"},
        {&db->drop_chat_files, "DELETE FROM files WHERE chat = ?1"},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(all); i++) {
        int rc = sqlite3_prepare_v3(db->sql, all[i].sql, -1, SQLITE_PREPARE_PERSISTENT, all[i].stmt,
                                    NULL);
        if (rc != SQLITE_OK)
            return fail(db, rc, err);
    }
    return 0;
}

static int migrate(AqStoreDb *db, gint64 from, aq_err *err)
{
    for (gint64 v = from; v < AQ_STORE_VERSION; v++) {
        g_autofree char *sql = g_strdup_printf(
            "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;",
            migrations[v], APPLICATION_ID, (int)v + 1);
        int rc = run(db, "store.migrate", sql, err);
        if (rc < 0) {
            sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
            return rc;
        }
    }
    return 0;
}

/* What a crash left: answers under way ended where their text ends, and what was deleted goes. */
static int tidy(AqStoreDb *db, aq_err *err)
{
    g_autofree char *sql = g_strdup_printf(
        "BEGIN IMMEDIATE;"
        "INSERT OR REPLACE INTO words(rowid, text)"
        " SELECT id, text FROM messages WHERE state IN (%1$d, %2$d);"
        "UPDATE messages SET state = %3$d WHERE state IN (%1$d, %2$d);"
        "DELETE FROM words WHERE rowid IN"
        " (SELECT id FROM messages WHERE chat IN (SELECT id FROM chats WHERE deleted));"
        "DELETE FROM messages WHERE chat IN (SELECT id FROM chats WHERE deleted);"
        "DELETE FROM files WHERE chat IN (SELECT id FROM chats WHERE deleted);"
        "DELETE FROM chats WHERE deleted; COMMIT;",
        AQ_MESSAGE_WAITING, AQ_MESSAGE_STREAMING, AQ_MESSAGE_STOPPED);
    int rc = run(db, "store.tidy", sql, err);
    if (rc < 0)
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* One attempt. *ret_version: of the file, as far as it could be read. */
static int open_once(const char *path, gboolean writable, AqStoreDb **ret, gint64 *ret_version,
                     aq_err *err)
{
    g_autoptr(AqStoreDb) db = g_new0(AqStoreDb, 1);
    g_autofree char *uri = NULL;
    gint64 version = 0, id = 0, tables = 0;
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    if (!path) {
        uri = g_strdup(":memory:");
    } else {
        g_autofree char *escaped = g_uri_escape_string(path, "/", FALSE);
        uri = g_strdup_printf("file:%s%s", escaped, writable ? "" : "?immutable=1");
    }
    flags |= writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    int rc = sqlite3_open_v2(uri, &db->sql, flags, NULL);
    if (rc != SQLITE_OK)
        return fail(db, rc, err);
    sqlite3_extended_result_codes(db->sql, 1);
    sqlite3_busy_timeout(db->sql, 500);
    if ((rc = number(db, "PRAGMA user_version", &version, err)) < 0 ||
        (rc = number(db, "PRAGMA application_id", &id, err)) < 0 ||
        (rc = number(db, "SELECT count(*) FROM sqlite_schema", &tables, err)) < 0)
        return rc;
    *ret_version = version;
    if (version > AQ_STORE_VERSION)
        return aq_fail(err, AQ_E_MISMATCH, "%s",
                       _("The file of chats was written by a newer Aquifer"));
    if (tables && id != APPLICATION_ID)
        return aq_fail(err, AQ_E_FORMAT, "%s",
                       _("The file of chats is damaged (it belongs to another program)"));
    if (writable) {
        if (sqlite3_db_readonly(db->sql, "main"))
            return fail(db, SQLITE_READONLY, err);
        if ((rc = run(db, "store.open",
                      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                      "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8192;"
                      "BEGIN EXCLUSIVE; COMMIT;",
                      err)) < 0)
            return rc;
    }
    if (tables && (rc = check(db, err)) < 0)
        return rc;
    if (writable && ((rc = migrate(db, version, err)) < 0 || (rc = tidy(db, err)) < 0))
        return rc;
    if ((rc = prepare(db, err)) < 0)
        return rc;
    *ret = g_steal_pointer(&db);
    return 0;
}

/* Rename the file and what SQLite keeps beside it to a name that is free; that name, or NULL. */
static char *rename_away(const char *path, const char *why)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_local();
    g_autofree char *day = g_date_time_format(now, "%Y-%m-%d");
    static const char *const beside[] = {"-wal", "-shm", "-journal"};
    for (guint i = 1; i < 1000; i++) {
        g_autofree char *to = g_strdup_printf("%s.%s-%s-%u", path, why, day, i);
        if (g_file_test(to, G_FILE_TEST_EXISTS))
            continue;
        if (g_rename(path, to) != 0)
            return NULL;
        for (gsize k = 0; k < G_N_ELEMENTS(beside); k++) {
            g_autofree char *a = g_strconcat(path, beside[k], NULL),
                            *b = g_strconcat(to, beside[k], NULL);
            if (g_rename(a, b) != 0)
                g_debug("%s: %s", a, g_strerror(errno));
        }
        return g_steal_pointer(&to);
    }
    return NULL;
}

void aq_store_db_set_aside(const char *path, char **ret_said)
{
    g_autofree char *to = path ? rename_away(path, "damaged") : NULL;
    g_autofree char *shown = to ? g_filename_display_name(to) : NULL;
    *ret_said =
        shown
            ? g_strdup_printf(
                  _("The file of chats is damaged. It was kept as %s, and a new one begun."), shown)
            : NULL;
}

int aq_store_db_open(const char *path, AqStoreDb **ret, char **ret_said, aq_err *err)
{
    gint64 version = 0;
    aq_err why = {0};
    if (path) {
        g_autofree char *folder = g_path_get_dirname(path);
        if (g_mkdir_with_parents(folder, 0700) != 0 && !g_file_test(folder, G_FILE_TEST_IS_DIR)) {
            int e = errno;
            g_autofree char *shown = g_filename_display_name(folder);
            return aq_fail(err, AQ_E_AUTH, _("The folder %s cannot be made (%s)"), shown,
                           g_strerror(e));
        }
    }
    *ret_said = NULL;
    int rc = open_once(path, TRUE, ret, &version, &why);
    if (rc == -AQ_E_MISMATCH || rc == -AQ_E_FORMAT) {
        if (rc == -AQ_E_FORMAT) {
            aq_store_db_set_aside(path, ret_said);
        } else {
            g_autofree char *to = rename_away(path, "newer");
            g_autofree char *shown = to ? g_filename_display_name(to) : NULL;
            if (shown)
                *ret_said = g_strdup_printf(_("The file of chats was written by a newer Aquifer. "
                                              "It was kept as %s, and a new one begun."),
                                            shown);
        }
        if (*ret_said)
            rc = open_once(path, TRUE, ret, &version, &why);
    }
    /* What cannot be written may still be read. */
    if (rc == -AQ_E_AUTH && g_file_test(path, G_FILE_TEST_IS_REGULAR) &&
        open_once(path, FALSE, ret, &version, NULL) >= 0)
        return 0;
    if (rc < 0)
        return aq_fail(err, why.code, "%s", why.text);
    return 0;
}

int aq_store_db_make_writable(const char *path, AqStoreDb **db, aq_err *err)
{
    AqStoreDb *now = NULL;
    gint64 version = 0;
    if (!sqlite3_db_readonly((*db)->sql, "main"))
        return 0;
    int rc = open_once(path, TRUE, &now, &version, err);
    if (rc < 0)
        return rc;
    aq_store_db_close(*db);
    *db = now;
    return 0;
}

/* ---- write ---------------------------------------------------------------------------------- */

static void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
    sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

static int put_chat(AqStoreDb *db, const AqStoreChat *c, aq_err *err)
{
    sqlite3_stmt *s = db->put_chat;
    sqlite3_bind_int64(s, 1, c->id);
    bind_text(s, 2, c->title);
    sqlite3_bind_int64(s, 3, c->created_us);
    sqlite3_bind_int64(s, 4, c->changed_us);
    sqlite3_bind_int64(s, 5, c->leaf);
    bind_text(s, 6, c->folder);
    bind_text(s, 7, c->draft);
    bind_text(s, 8, c->settings);
    sqlite3_bind_int(s, 9, c->deleted);
    return step(db, "store.put-chat", s, err);
}

/* In the place of those that the owner had. */
static int put_files(AqStoreDb *db, gint64 owner, gint64 chat, GPtrArray *files, aq_err *err)
{
    sqlite3_bind_int64(db->drop_files, 1, owner);
    int rc = step(db, "store.drop-files", db->drop_files, err);
    for (guint i = 0; rc >= 0 && i < files->len; i++) {
        sqlite3_stmt *s = db->put_file;
        gsize n;
        const char *text = aq_file_get_text(files->pdata[i], &n);
        sqlite3_bind_int64(s, 1, owner);
        sqlite3_bind_int64(s, 2, i);
        sqlite3_bind_int64(s, 3, chat);
        bind_text(s, 4, aq_file_get_name(files->pdata[i]));
        sqlite3_bind_text64(s, 5, text, n, SQLITE_STATIC, SQLITE_UTF8);
        rc = step(db, "store.put-file", s, err);
    }
    return rc;
}

static int put_message(AqStoreDb *db, const AqStoreMessage *m, aq_err *err)
{
    sqlite3_stmt *s = db->put_message;
    sqlite3_bind_int64(s, 1, m->id);
    sqlite3_bind_int64(s, 2, m->chat);
    sqlite3_bind_int64(s, 3, m->parent);
    sqlite3_bind_int(s, 4, m->role);
    sqlite3_bind_int(s, 5, m->state);
    bind_text(s, 6, m->text ? m->text : "");
    bind_text(s, 7, m->thinking);
    bind_text(s, 8, m->model);
    sqlite3_bind_int64(s, 9, m->created_us);
    sqlite3_bind_int(s, 10, m->error_code);
    bind_text(s, 11, m->error);
    if (m->has_usage) {
        sqlite3_bind_int64(s, 12, m->usage.prompt_tok);
        sqlite3_bind_int64(s, 13, m->usage.cached_tok);
        sqlite3_bind_int64(s, 14, m->usage.gen_tok);
        sqlite3_bind_int64(s, 15, m->usage.prompt_us);
        sqlite3_bind_int64(s, 16, m->usage.first_us);
        sqlite3_bind_int64(s, 17, m->usage.gen_us);
    }
    int rc = step(db, "store.put-message", s, err);
    /* A message has its files from the beginning, and keeps them. */
    if (rc >= 0 && m->files)
        rc = put_files(db, m->id, m->chat, m->files, err);
    /* Words of a text that still grows would be made anew each time. */
    if (rc < 0 || m->state == AQ_MESSAGE_WAITING || m->state == AQ_MESSAGE_STREAMING)
        return rc;
    sqlite3_bind_int64(db->put_words, 1, m->id);
    return step(db, "store.put-words", db->put_words, err);
}

/* A folder comes or goes so seldom that its statement is made each time. */
static int folder(AqStoreDb *db, const char *failpoint, const char *sql, const char *name,
                  aq_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        return fail(db, rc, err);
    bind_text(s, 1, name);
    rc = step(db, failpoint, s, err);
    sqlite3_finalize(s);
    return rc;
}

static int drop(AqStoreDb *db, const char *name, sqlite3_stmt *stmt, gint64 id, aq_err *err)
{
    sqlite3_bind_int64(stmt, 1, id);
    return step(db, name, stmt, err);
}

static int apply(AqStoreDb *db, const AqStoreOp *op, aq_err *err)
{
    int rc = 0;
    switch (op->kind) {
    case AQ_STORE_PUT_CHAT:
        return put_chat(db, op->chat, err);
    case AQ_STORE_PUT_MESSAGE:
        return put_message(db, op->message, err);
    case AQ_STORE_DROP_CHAT:
        if ((rc = drop(db, "store.drop-words", db->drop_chat_words, op->id, err)) < 0 ||
            (rc = drop(db, "store.drop-messages", db->drop_chat_messages, op->id, err)) < 0 ||
            (rc = drop(db, "store.drop-chat-files", db->drop_chat_files, op->id, err)) < 0)
            return rc;
        return drop(db, "store.drop-chat", db->drop_chat, op->id, err);
    case AQ_STORE_DROP_MESSAGE:
        if ((rc = drop(db, "store.drop-words", db->drop_words, op->id, err)) < 0 ||
            (rc = drop(db, "store.drop-message-files", db->drop_files, op->id, err)) < 0)
            return rc;
        return drop(db, "store.drop-message", db->drop_message, op->id, err);
    case AQ_STORE_PUT_FOLDER:
        return folder(db, "store.put-folder", "INSERT OR IGNORE INTO folders(name) VALUES(?1)",
                      op->name, err);
    case AQ_STORE_DROP_FOLDER:
        return folder(db, "store.drop-folder", "DELETE FROM folders WHERE name = ?1", op->name,
                      err);
    case AQ_STORE_PUT_DRAFT_FILES:
        return put_files(db, op->id, op->id, op->files, err);
    }
    return 0;
}

int aq_store_db_write(AqStoreDb *db, AqStoreOp *const *op, guint n, aq_err *err)
{
    if (sqlite3_db_readonly(db->sql, "main") == 1)
        return fail(db, SQLITE_READONLY, err);
    int rc = run(db, "store.begin", "BEGIN IMMEDIATE", err);
    if (rc < 0)
        return rc;
    for (guint i = 0; rc >= 0 && i < n; i++)
        rc = apply(db, op[i], err);
    if (rc >= 0)
        rc = run(db, "store.commit", "COMMIT", err);
    if (rc < 0)
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* ---- read ----------------------------------------------------------------------------------- */

static char *column(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    return text ? g_utf8_make_valid(text, sqlite3_column_bytes(stmt, i)) : NULL;
}

/* Takes what is open: its statement and, on an error, its list. */
static int ended(AqStoreDb *db, int rc, sqlite3_stmt *stmt, GPtrArray *list, GPtrArray **ret,
                 aq_err *err)
{
    int result = rc == SQLITE_DONE ? 0 : fail(db, rc, err);
    sqlite3_finalize(stmt);
    if (result < 0)
        g_ptr_array_unref(list);
    else
        *ret = list;
    return result;
}

int aq_store_db_list(AqStoreDb *db, GPtrArray **ret, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_chat_free);
    int rc = sqlite3_prepare_v2(db->sql,
                                "SELECT id, title, created_us, changed_us, leaf, folder, draft, "
                                "settings FROM chats WHERE NOT deleted ORDER BY changed_us DESC",
                                -1, &s, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        AqStoreChat *c = g_new0(AqStoreChat, 1);
        c->id = sqlite3_column_int64(s, 0);
        c->title = column(s, 1);
        c->created_us = sqlite3_column_int64(s, 2);
        c->changed_us = sqlite3_column_int64(s, 3);
        c->leaf = sqlite3_column_int64(s, 4);
        c->folder = column(s, 5);
        c->draft = column(s, 6);
        c->settings = column(s, 7);
        g_ptr_array_add(list, c);
    }
    return ended(db, rc, s, list, ret, err);
}

static AqFile *file_of(sqlite3_stmt *s, int name, int text)
{
    g_autofree char *n = column(s, name), *t = column(s, text);
    return aq_file_new(n ? n : "", t ? t : "", t ? strlen(t) : 0);
}

/* The files of messages that ascend. */
static int read_files(AqStoreDb *db, gint64 chat, GPtrArray *messages, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    guint at = 0;
    int rc = sqlite3_prepare_v2(db->sql,
                                "SELECT owner, name, text FROM files WHERE chat = ?1 AND owner <> "
                                "?1 ORDER BY owner, pos",
                                -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 1, chat);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        gint64 owner = sqlite3_column_int64(s, 0);
        while (at < messages->len && ((AqStoreMessage *)messages->pdata[at])->id < owner)
            at++;
        AqStoreMessage *m = at < messages->len ? messages->pdata[at] : NULL;
        if (!m || m->id != owner)
            continue;
        if (!m->files)
            m->files = g_ptr_array_new_with_free_func(g_object_unref);
        g_ptr_array_add(m->files, file_of(s, 1, 2));
    }
    int result = rc == SQLITE_DONE ? 0 : fail(db, rc, err);
    sqlite3_finalize(s);
    return result;
}

int aq_store_db_draft_files(AqStoreDb *db, gint64 chat, GPtrArray **ret, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(g_object_unref);
    int rc = sqlite3_prepare_v2(
        db->sql, "SELECT name, text FROM files WHERE owner = ?1 ORDER BY pos", -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 1, chat);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        g_ptr_array_add(list, file_of(s, 0, 1));
    }
    return ended(db, rc, s, list, ret, err);
}

int aq_store_db_messages(AqStoreDb *db, gint64 chat, GPtrArray **ret, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_message_free);
    int rc = sqlite3_prepare_v2(
        db->sql,
        "SELECT id, chat, parent, role, state, text, thinking, model, created_us, "
        "error_code, error, prompt_tok, cached_tok, gen_tok, prompt_us, first_us, gen_us "
        "FROM messages WHERE chat = ?1 ORDER BY id",
        -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 1, chat);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        AqStoreMessage *m = g_new0(AqStoreMessage, 1);
        m->id = sqlite3_column_int64(s, 0);
        m->chat = sqlite3_column_int64(s, 1);
        m->parent = sqlite3_column_int64(s, 2);
        m->role = sqlite3_column_int(s, 3);
        m->state = sqlite3_column_int(s, 4);
        m->text = column(s, 5);
        m->thinking = column(s, 6);
        m->model = column(s, 7);
        m->created_us = sqlite3_column_int64(s, 8);
        m->error_code = sqlite3_column_int(s, 9);
        m->error = column(s, 10);
        m->has_usage = sqlite3_column_type(s, 13) != SQLITE_NULL;
        m->usage.prompt_tok = (uint32_t)sqlite3_column_int64(s, 11);
        m->usage.cached_tok = (uint32_t)sqlite3_column_int64(s, 12);
        m->usage.gen_tok = (uint32_t)sqlite3_column_int64(s, 13);
        m->usage.prompt_us = sqlite3_column_int64(s, 14);
        m->usage.first_us = sqlite3_column_int64(s, 15);
        m->usage.gen_us = sqlite3_column_int64(s, 16);
        g_ptr_array_add(list, m);
    }
    GPtrArray *found = NULL;
    int result = ended(db, rc, s, list, &found, err);
    if (result >= 0 && (result = read_files(db, chat, found, err)) < 0)
        g_ptr_array_unref(found);
    if (result >= 0)
        *ret = found;
    return result;
}

int aq_store_db_folders(AqStoreDb *db, GPtrArray **ret, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    int rc = sqlite3_prepare_v2(db->sql, "SELECT name FROM folders ORDER BY name COLLATE NOCASE",
                                -1, &s, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        g_ptr_array_add(list, column(s, 0));
    }
    return ended(db, rc, s, list, ret, err);
}

/* The part of the text around the first place where it says `what`, in one line. */
static char *snippet(const char *text, const char *what)
{
    g_autofree char *low = g_utf8_strdown(text, -1), *key = g_utf8_strdown(what, -1);
    const char *at = strlen(low) == strlen(text) ? strstr(low, key) : NULL;
    gsize from = at ? (gsize)(at - low) : 0, n = strlen(text);
    gboolean cut = from > SNIPPET_BEFORE_BYTES;
    from = cut ? from - SNIPPET_BEFORE_BYTES : 0;
    while (from && ((guchar)text[from] & 0xc0) == 0x80)
        from--;
    gsize end = MIN(n, from + SNIPPET_BYTES);
    while (end < n && ((guchar)text[end] & 0xc0) == 0x80)
        end++;
    g_autofree char *part = g_strndup(text + from, end - from);
    for (char *p = part; *p; p++)
        if ((guchar)*p < ' ')
            *p = ' ';
    return g_strdup_printf("%s%s%s", cut ? "…" : "", part, end < n ? "…" : "");
}

/* A value of LIKE … ESCAPE '\' that matches text that contains `what`. */
static char *like(const char *what)
{
    GString *s = g_string_new("%");
    for (const char *p = what; *p; p++) {
        if (*p == '%' || *p == '_' || *p == '\\')
            g_string_append_c(s, '\\');
        g_string_append_c(s, *p);
    }
    g_string_append_c(s, '%');
    return g_string_free(s, FALSE);
}

/* What one statement of a search finds, up to `limit` in all. */
static int search_step(AqStoreDb *db, const char *sql, const char *key, const char *text,
                       guint limit, GPtrArray *list, aq_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL);
    if (rc == SQLITE_OK) {
        bind_text(s, 1, key);
        sqlite3_bind_int64(s, 2, limit - MIN(limit, list->len));
    }
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(s)) != SQLITE_ROW)
            break;
        AqStoreHit *hit = g_new0(AqStoreHit, 1);
        g_autofree char *all = column(s, 2);
        hit->chat = sqlite3_column_int64(s, 0);
        hit->message = sqlite3_column_int64(s, 1);
        hit->snippet = snippet(all ? all : "", text);
        g_ptr_array_add(list, hit);
    }
    int result = rc == SQLITE_DONE ? 0 : fail(db, rc, err);
    sqlite3_finalize(s);
    return result;
}

int aq_store_db_search(AqStoreDb *db, const char *text, guint limit, GPtrArray **ret, aq_err *err)
{
    /* Both walk from the newest message down and end at the limit, so that a word of every message costs no more than a rare one. */
    static const char *const titles =
        "SELECT id, 0, title FROM chats WHERE NOT deleted AND title LIKE ?1 ESCAPE '\\'"
        " ORDER BY changed_us DESC LIMIT ?2";
    static const char *const by_words =
        "SELECT m.chat, m.id, m.text FROM words CROSS JOIN messages m ON m.id = words.rowid"
        " CROSS JOIN chats c ON c.id = m.chat"
        " WHERE words MATCH ?1 AND NOT c.deleted ORDER BY words.rowid DESC LIMIT ?2";
    static const char *const by_text =
        "SELECT m.chat, m.id, m.text FROM messages m CROSS JOIN chats c ON c.id = m.chat"
        " WHERE m.text LIKE ?1 ESCAPE '\\' AND NOT c.deleted ORDER BY m.id DESC LIMIT ?2";
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_hit_free);
    gboolean brief = g_utf8_strlen(text, -1) < SHORT_CHARS;
    g_autofree char *pattern = like(text);
    g_autoptr(GString) phrase = g_string_new("\"");
    for (const char *p = text; *p; p++)
        g_string_append_printf(phrase, *p == '"' ? "\"\"" : "%c", *p);
    g_string_append_c(phrase, '"');
    int rc = search_step(db, titles, pattern, text, limit, list, err);
    if (rc >= 0)
        rc = search_step(db, brief ? by_text : by_words, brief ? pattern : phrase->str, text, limit,
                         list, err);
    if (rc >= 0)
        *ret = g_steal_pointer(&list);
    return rc;
}
