/* SPDX-License-Identifier: Apache-2.0 */
/* Where chats are kept. aq_failpoint is wrapped, so that a test can have each step of a write fail, or kill the process there; and a
 * child that streams, edits and deletes is killed at random moments. One file, though long: all of it shares the wrapped failpoint and the
 * helpers that write and look. */
#include <errno.h>
#include <glib/gstdio.h>
#include <locale.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aq-file.h"
#include "aq-message.h"
#include "aq-store-db.h"
#include "aq/base.h"

bool __wrap_aq_failpoint(const char *name);

static int hits_left = -1; /* at 0 the step fails, or the process dies */
static gboolean kill_there;

bool __wrap_aq_failpoint(const char *name)
{
    if (hits_left < 0 || !g_str_has_prefix(name, "store."))
        return false;
    if (hits_left-- > 0)
        return false;
    if (kill_there)
        kill(getpid(), SIGKILL);
    return true;
}

/* ---- helpers -------------------------------------------------------------------------------- */

static char *new_path(void)
{
    g_autofree char *dir = g_dir_make_tmp("aq-store-XXXXXX", NULL);
    g_assert_nonnull(dir);
    return g_build_filename(dir, "aquifer", "chats.sqlite", NULL);
}

static AqStoreDb *open_db(const char *path, char **ret_said)
{
    AqStoreDb *db = NULL;
    aq_err err = {0};
    g_autofree char *said = NULL;
    int rc = aq_store_db_open(path, &db, &said, &err);
    g_assert_cmpstr(err.text, ==, "");
    g_assert_cmpint(rc, ==, 0);
    if (ret_said)
        *ret_said = g_steal_pointer(&said);
    else
        g_assert_null(said);
    return db;
}

static int put_chat(AqStoreDb *db, gint64 id, const char *title, gint64 changed, gboolean deleted)
{
    AqStoreChat c = {.id = id,
                     .changed_us = changed,
                     .leaf = id + 1,
                     .title = (char *)title,
                     .deleted = deleted};
    AqStoreOp op = {.kind = AQ_STORE_PUT_CHAT, .id = id, .chat = &c}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

static int put_text(AqStoreDb *db, gint64 chat, gint64 id, const char *text, AqMessageState state)
{
    AqStoreMessage m = {
        .id = id, .chat = chat, .parent = id - 1, .text = (char *)text, .state = (int)state};
    AqStoreOp op = {.kind = AQ_STORE_PUT_MESSAGE, .id = id, .message = &m}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

static int drop(AqStoreDb *db, AqStoreOpKind kind, gint64 id)
{
    AqStoreOp op = {.kind = kind, .id = id}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

static int on_folder(AqStoreDb *db, AqStoreOpKind kind, const char *name)
{
    AqStoreOp op = {.kind = kind, .name = (char *)name}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

/* Two files, the second of n bytes. */
static GPtrArray *two_files(gsize n)
{
    GPtrArray *files = g_ptr_array_new_with_free_func(g_object_unref);
    g_autofree char *big = g_strnfill(n, 'f');
    g_ptr_array_add(files, aq_file_new("a.txt", "first", 5));
    g_ptr_array_add(files, aq_file_new("b.txt", big, n));
    return files;
}

static void assert_two_files(GPtrArray *files, gsize n)
{
    gsize got;
    g_assert_nonnull(files);
    g_assert_cmpuint(files->len, ==, 2);
    g_assert_cmpstr(aq_file_get_name(files->pdata[0]), ==, "a.txt");
    g_assert_cmpstr(aq_file_get_text(files->pdata[0], NULL), ==, "first");
    const char *text = aq_file_get_text(files->pdata[1], &got);
    g_assert_cmpuint(got, ==, n);
    g_assert_true(got == strspn(text, "f"));
}

static int put_question(AqStoreDb *db, gint64 chat, gint64 id, GPtrArray *files)
{
    AqStoreMessage m = {
        .id = id, .chat = chat, .parent = id - 1, .text = (char *)"question", .files = files};
    AqStoreOp op = {.kind = AQ_STORE_PUT_MESSAGE, .id = id, .message = &m}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

static int put_draft_files(AqStoreDb *db, gint64 chat, GPtrArray *files)
{
    AqStoreOp op = {.kind = AQ_STORE_PUT_DRAFT_FILES, .id = chat, .files = files}, *ops[] = {&op};
    return aq_store_db_write(db, ops, 1, NULL);
}

static GPtrArray *draft_files(AqStoreDb *db, gint64 chat)
{
    GPtrArray *list = NULL;
    g_assert_cmpint(aq_store_db_draft_files(db, chat, &list, NULL), ==, 0);
    return list;
}

static GPtrArray *messages(AqStoreDb *db, gint64 chat)
{
    GPtrArray *list = NULL;
    g_assert_cmpint(aq_store_db_messages(db, chat, &list, NULL), ==, 0);
    return list;
}

static guint n_chats(AqStoreDb *db)
{
    g_autoptr(GPtrArray) list = NULL;
    g_assert_cmpint(aq_store_db_list(db, &list, NULL), ==, 0);
    return list->len;
}

/* The messages found, as "id id …". */
static char *find(AqStoreDb *db, const char *text)
{
    g_autoptr(GPtrArray) list = NULL;
    GString *s = g_string_new(NULL);
    g_assert_cmpint(aq_store_db_search(db, text, 50, &list, NULL), ==, 0);
    for (guint i = 0; i < list->len; i++) {
        const AqStoreHit *hit = list->pdata[i];
        g_assert_true(g_utf8_validate(hit->snippet, -1, NULL));
        g_string_append_printf(s, "%s%d", i ? " " : "",
                               (int)(hit->message ? hit->message : -hit->chat));
    }
    return g_string_free(s, FALSE);
}

#define assert_found(db, text, expected)            \
    G_STMT_START                                    \
    {                                               \
        g_autofree char *got_ = find((db), (text)); \
        g_assert_cmpstr(got_, ==, (expected));      \
    }                                               \
    G_STMT_END

/* ---- what is written is read ---------------------------------------------------------------- */

static void test_round(void)
{
    g_autofree char *path = new_path();
    g_autoptr(AqStoreDb) db = open_db(path, NULL);
    AqStoreChat c = {.id = 7,
                     .created_us = 1,
                     .changed_us = 2,
                     .leaf = 9,
                     .title = (char *)"Ünï \"t\"",
                     .folder = (char *)"f",
                     .draft = (char *)"d",
                     .settings = (char *)"{}"};
    AqStoreMessage m = {.id = 9,
                        .chat = 7,
                        .parent = 8,
                        .created_us = 3,
                        .role = AQ_MESSAGE_ASSISTANT,
                        .state = AQ_MESSAGE_FAILED,
                        .error_code = AQ_E_IO,
                        .text = (char *)"text",
                        .thinking = (char *)"hm",
                        .error = (char *)"why",
                        .model = (char *)"M",
                        .files = NULL,
                        .has_usage = TRUE,
                        .usage = {.prompt_tok = 1,
                                  .cached_tok = 2,
                                  .gen_tok = 3,
                                  .prompt_us = 4,
                                  .first_us = 5,
                                  .gen_us = 6}};
    g_autoptr(GPtrArray) files = two_files(100000);
    m.files = files;
    AqStoreMessage lost = {.id = 10, .chat = 70, .text = (char *)"of no chat"};
    AqStoreOp a = {.kind = AQ_STORE_PUT_CHAT, .id = 7, .chat = &c},
              b = {.kind = AQ_STORE_PUT_MESSAGE, .id = 9, .message = &m},
              d = {.kind = AQ_STORE_PUT_MESSAGE, .id = 10, .message = &lost};
    AqStoreOp *ops[] = {&a, &b, &d};
    g_assert_cmpint(aq_store_db_write(db, ops, 3, NULL), ==, 0);
    g_clear_pointer(&db, aq_store_db_close);
    g_autofree char *wal = g_strconcat(path, "-wal", NULL);
    g_assert_false(g_file_test(wal, G_FILE_TEST_EXISTS));

    db = open_db(path, NULL);
    g_autoptr(GPtrArray) chats = NULL;
    g_assert_cmpint(aq_store_db_list(db, &chats, NULL), ==, 0);
    g_assert_cmpuint(chats->len, ==, 1);
    const AqStoreChat *rc = chats->pdata[0];
    g_assert_cmpint(rc->id, ==, 7);
    g_assert_cmpint(rc->created_us, ==, 1);
    g_assert_cmpint(rc->changed_us, ==, 2);
    g_assert_cmpint(rc->leaf, ==, 9);
    g_assert_cmpstr(rc->title, ==, c.title);
    g_assert_cmpstr(rc->folder, ==, "f");
    g_assert_cmpstr(rc->draft, ==, "d");
    g_assert_cmpstr(rc->settings, ==, "{}");
    g_autoptr(GPtrArray) list = messages(db, 7);
    g_assert_cmpuint(list->len, ==, 1);
    const AqStoreMessage *rm = list->pdata[0];
    g_assert_cmpint(rm->parent, ==, 8);
    g_assert_cmpint(rm->role, ==, AQ_MESSAGE_ASSISTANT);
    g_assert_cmpint(rm->state, ==, AQ_MESSAGE_FAILED);
    g_assert_cmpint(rm->error_code, ==, AQ_E_IO);
    g_assert_cmpstr(rm->text, ==, "text");
    g_assert_cmpstr(rm->thinking, ==, "hm");
    g_assert_cmpstr(rm->error, ==, "why");
    g_assert_cmpstr(rm->model, ==, "M");
    assert_two_files(rm->files, 100000);
    g_assert_true(rm->has_usage);
    g_assert_cmpuint(rm->usage.prompt_tok + rm->usage.cached_tok * 10 + rm->usage.gen_tok * 100, ==,
                     321);
    g_assert_cmpint(rm->usage.prompt_us + rm->usage.first_us * 10 + rm->usage.gen_us * 100, ==,
                    654);
    g_autoptr(GPtrArray) none = messages(db, 70);
    g_assert_cmpuint(none->len, ==, 0);
    /* Files of a draft are no message's, and go when there are none. */
    g_autoptr(GPtrArray) no_files = g_ptr_array_new();
    g_assert_cmpint(put_draft_files(db, 7, files), ==, 0);
    g_assert_cmpint(put_draft_files(db, 70, files), ==, 0);
    g_autoptr(GPtrArray) drafted = draft_files(db, 7), lost_files = draft_files(db, 70);
    assert_two_files(drafted, 100000);
    g_assert_cmpuint(lost_files->len, ==, 0);
    g_autoptr(GPtrArray) same = messages(db, 7);
    assert_two_files(((AqStoreMessage *)same->pdata[0])->files, 100000);
    g_assert_cmpint(put_draft_files(db, 7, no_files), ==, 0);
    g_autoptr(GPtrArray) cleared = draft_files(db, 7);
    g_assert_cmpuint(cleared->len, ==, 0);
    g_assert_cmpint(drop(db, AQ_STORE_DROP_MESSAGE, 9), ==, 0);
    g_assert_cmpint(put_text(db, 7, 9, "another", AQ_MESSAGE_DONE), ==, 0);
    g_autoptr(GPtrArray) bare = messages(db, 7);
    g_assert_null(((AqStoreMessage *)bare->pdata[0])->files);
    /* The folder is for its owner alone. */
    g_autofree char *dir = g_path_get_dirname(path);
    struct stat st;
    g_assert_cmpint(stat(dir, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0700);
}

static void test_search(void)
{
    g_autoptr(AqStoreDb) db = open_db(NULL, NULL);
    put_chat(db, 100, "Rivers of Ägypten", 1, FALSE);
    put_chat(db, 200, "Other", 2, FALSE);
    put_text(db, 100, 101, "The Nile is a \"long\" river", AQ_MESSAGE_DONE);
    put_text(db, 100, 102, "100% sure_thing C:\\path", AQ_MESSAGE_DONE);
    put_text(db, 200, 201, "長江は川です。 It's long", AQ_MESSAGE_DONE);
    put_text(db, 200, 202, "still being written", AQ_MESSAGE_STREAMING);
    assert_found(db, "RIVER", "-100 101");
    assert_found(db, "long", "201 101");
    g_autoptr(GPtrArray) newest = NULL;
    g_assert_cmpint(aq_store_db_search(db, "long", 1, &newest, NULL), ==, 0);
    g_assert_cmpuint(newest->len, ==, 1);
    g_assert_cmpint(((AqStoreHit *)newest->pdata[0])->message, ==, 201);
    assert_found(db, "\"long\"", "101");
    assert_found(db, "ile i", "101");
    assert_found(db, "長江は", "201");
    assert_found(db, "江", "201");
    assert_found(db, "0%", "102");
    assert_found(db, "e_t", "102");
    assert_found(db, "_", "102");
    assert_found(db, "\\p", "102");
    assert_found(db, "AND OR NOT *", "");
    assert_found(db, "it's", "201");
    assert_found(db, "being", "");
    put_text(db, 200, 202, "now it is done being written", AQ_MESSAGE_DONE);
    assert_found(db, "being", "202");
    put_text(db, 200, 202, "edited", AQ_MESSAGE_DONE);
    assert_found(db, "being", "");
    put_chat(db, 200, "Other", 2, TRUE);
    assert_found(db, "long", "101");
    put_chat(db, 200, "Other", 2, FALSE);
    assert_found(db, "long", "201 101");
    drop(db, AQ_STORE_DROP_MESSAGE, 101);
    assert_found(db, "long", "201");
    drop(db, AQ_STORE_DROP_CHAT, 200);
    assert_found(db, "long", "");
    g_assert_cmpuint(n_chats(db), ==, 1);
}

/* ---- files that are not as they should be --------------------------------------------------- */

/* What is set aside is there, byte for byte, and a new file is in its place. */
static void check_aside(const char *path, const char *data, gsize n, const char *word)
{
    g_autofree char *said = NULL, *dir = g_path_get_dirname(path), *kept = NULL;
    gsize n_kept = 0;
    AqStoreDb *db = open_db(path, &said);
    g_assert_nonnull(said);
    g_assert_nonnull(strstr(said, word));
    g_assert_cmpuint(n_chats(db), ==, 0);
    g_assert_cmpint(put_chat(db, 1, "new", 1, FALSE), ==, 0);
    aq_store_db_close(db);
    g_autoptr(GDir) d = g_dir_open(dir, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(d))) {
        g_autofree char *file = g_build_filename(dir, name, NULL);
        g_autofree char *told = g_strconcat(file, ",", NULL);
        if (!strstr(said, told))
            continue;
        g_assert_true(g_file_get_contents(file, &kept, &n_kept, NULL));
        break;
    }
    g_assert_nonnull(kept);
    g_assert_cmpmem(kept, n_kept, data, n);
}

static void test_aside(void)
{
    g_autofree char *path = new_path(), *good = NULL, *dir = g_path_get_dirname(path);
    gsize n = 0;
    AqStoreDb *db = open_db(path, NULL);
    for (int i = 0; i < 200; i++) {
        g_autofree char *text = g_strnfill(500, (char)('a' + i % 26));
        put_chat(db, 1000 + 1000 * i, "x", i, FALSE);
        put_text(db, 1000 + 1000 * i, 1001 + 1000 * i, text, AQ_MESSAGE_DONE);
    }
    aq_store_db_close(db);
    g_assert_true(g_file_get_contents(path, &good, &n, NULL));
    g_assert_cmpuint(n, >, 50000);
    struct {
        gsize from, n;
        const char *word;
    } cases[] = {{0, 100, "damaged"}, {20000, 8000, "damaged"}, {40000, 4096, "damaged"}};
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *bad = g_memdup2(good, n);
        memset(bad + cases[i].from, 0x5a, cases[i].n);
        g_assert_true(g_file_set_contents(path, bad, (gssize)n, NULL));
        check_aside(path, bad, n, cases[i].word);
    }
    g_assert_true(g_file_set_contents(path, good, (gssize)(n / 2), NULL));
    check_aside(path, good, n / 2, "damaged");
    g_assert_true(g_file_set_contents(path, "These are no chats.", -1, NULL));
    check_aside(path, "These are no chats.", 19, "damaged");
    /* user_version is at 60 of the header, application_id at 68. */
    g_autofree char *newer = g_memdup2(good, n);
    newer[63] = AQ_STORE_VERSION + 1;
    g_assert_true(g_file_set_contents(path, newer, (gssize)n, NULL));
    check_aside(path, newer, n, "newer Aquifer");
    g_autofree char *other = g_memdup2(good, n);
    other[71] ^= 1;
    g_assert_true(g_file_set_contents(path, other, (gssize)n, NULL));
    check_aside(path, other, n, "damaged");
    /* An empty file is a new one. */
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    db = open_db(path, NULL);
    g_assert_cmpuint(n_chats(db), ==, 0);
    aq_store_db_close(db);
}

/* A file as the release with version v of the schema left it. */
static char *fixture_new(int v)
{
    g_autofree char *path = new_path(), *dir = g_path_get_dirname(path), *sql = NULL;
    g_autofree char *name = g_strdup_printf("chats-%d.sql", v);
    g_autofree char *fixture = g_test_build_filename(G_TEST_DIST, name, NULL);
    g_assert_true(g_file_get_contents(fixture, &sql, NULL, NULL));
    g_assert_cmpint(g_mkdir_with_parents(dir, 0700), ==, 0);
    sqlite3 *raw = NULL;
    g_assert_cmpint(sqlite3_open(path, &raw), ==, SQLITE_OK);
    g_assert_cmpint(sqlite3_exec(raw, sql, NULL, NULL, NULL), ==, SQLITE_OK);
    sqlite3_close(raw);
    return g_steal_pointer(&path);
}

/* All that the fixture had is there, in the newest form. */
static void check_fixture(AqStoreDb *db, int v)
{
    g_assert_cmpuint(n_chats(db), ==, 1);
    g_autoptr(GPtrArray) list = messages(db, 1000);
    g_assert_cmpuint(list->len, ==, 3);
    const AqStoreMessage *m = list->pdata[1];
    g_assert_cmpstr(m->text, ==, "The Nile.");
    g_assert_cmpstr(m->thinking, ==, "Nile or Amazon?");
    g_assert_cmpuint(m->usage.gen_tok, ==, 4);
    /* An answer that was under way ended there, and is found. */
    m = list->pdata[2];
    g_assert_cmpint(m->state, ==, AQ_MESSAGE_STOPPED);
    assert_found(db, "The Ama", "1003");
    assert_found(db, "river", "-1000 1001");
    assert_found(db, "Deleted", "");
    g_autoptr(GPtrArray) gone = messages(db, 2000), drafted = draft_files(db, 1000),
                         gone_files = draft_files(db, 2001);
    g_assert_cmpuint(gone->len, ==, 0);
    g_assert_cmpuint(gone_files->len, ==, 0);
    const AqStoreMessage *question = list->pdata[0];
    g_assert_cmpuint(question->files ? question->files->len : 0, ==, v < 2 ? 0 : 2);
    g_assert_cmpuint(drafted->len, ==, v < 2 ? 0 : 1);
    if (v >= 2)
        g_assert_cmpstr(aq_file_get_name(question->files->pdata[1]), ==, "more.csv");
    g_autoptr(GPtrArray) folders = NULL, chats = NULL;
    g_assert_cmpint(aq_store_db_folders(db, &folders, NULL), ==, 0);
    g_assert_cmpint(aq_store_db_list(db, &chats, NULL), ==, 0);
    g_assert_cmpuint(folders->len, ==, v < 3 ? 0 : 2);
    g_assert_cmpstr(((const AqStoreChat *)chats->pdata[0])->folder, ==, v < 3 ? NULL : "Water");
}

/* One fixture of each version of the schema is read, and brought to the newest. */
static void test_versions(void)
{
    for (int v = 1; v <= AQ_STORE_VERSION; v++) {
        g_autofree char *path = fixture_new(v);
        g_autoptr(AqStoreDb) db = open_db(path, NULL);
        check_fixture(db, v);
    }
}

/* Opens in a child that is killed at step at; TRUE when it was. */
static gboolean killed_while_opening(const char *path, int at)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        AqStoreDb *db = NULL;
        char *said;
        kill_there = TRUE;
        hits_left = at;
        _exit(aq_store_db_open(path, &db, &said, NULL) < 0);
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    if (WIFEXITED(status))
        g_assert_cmpint(WEXITSTATUS(status), ==, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Opens with step at failing; TRUE when it came to that. The file is neither opened half nor set aside. */
static gboolean failed_while_opening(const char *path, int at)
{
    AqStoreDb *db = NULL;
    char *said = NULL;
    hits_left = at;
    int rc = aq_store_db_open(path, &db, &said, NULL);
    gboolean there = hits_left < 0;
    hits_left = -1;
    g_assert_null(said);
    g_assert_true((rc < 0) == there && (rc < 0) == !db);
    g_clear_pointer(&db, aq_store_db_close);
    return there;
}

/* Bringing a file of each release to the newest form fails, or is killed, at each step once: nothing is lost. */
static void test_versions_stopped(void)
{
    int steps = 0;
    for (int v = 1; v <= AQ_STORE_VERSION; v++)
        for (int kill_it = 0; kill_it < 2; kill_it++)
            for (int at = 0;; at++, steps++) {
                g_autofree char *path = fixture_new(v);
                gboolean there =
                    kill_it ? killed_while_opening(path, at) : failed_while_opening(path, at);
                g_autoptr(AqStoreDb) db = open_db(path, NULL);
                check_fixture(db, v);
                if (!there)
                    break;
            }
    g_assert_cmpint(steps, >, 4);
    g_test_message("%d steps of opening stopped once each", steps);
}

/* ---- what stands in the way ----------------------------------------------------------------- */

static void test_locked(void)
{
    g_autofree char *path = new_path();
    g_autoptr(AqStoreDb) db = open_db(path, NULL), second = NULL;
    char *said = NULL;
    aq_err err = {0};
    g_assert_cmpint(put_chat(db, 1, "a", 1, FALSE), ==, 0);
    g_assert_cmpint(aq_store_db_open(path, &second, &said, &err), ==, -AQ_E_BUSY);
    g_assert_nonnull(strstr(err.text, "Another program"));
    g_assert_null(said);
    g_assert_cmpint(put_chat(db, 2, "b", 2, FALSE), ==, 0);
    g_clear_pointer(&db, aq_store_db_close);
    second = open_db(path, NULL);
    g_assert_cmpuint(n_chats(second), ==, 2);
}

/* In a child, as an ordinary user: 0 = as expected. */
static int read_only_home(const char *path)
{
    AqStoreDb *db = NULL;
    char *said = NULL;
    aq_err err = {0};
    g_autofree char *none = g_build_filename(path, "..", "none", "chats.sqlite", NULL);
    if (aq_store_db_open(none, &db, &said, &err) != -AQ_E_AUTH || !strstr(err.text, "none"))
        return 2;
    if (aq_store_db_open(path, &db, &said, &err) != 0 || said)
        return 3;
    if (n_chats(db) != 1)
        return 4;
    AqStoreChat c = {.id = 5, .title = (char *)"b"};
    AqStoreOp op = {.kind = AQ_STORE_PUT_CHAT, .id = 5, .chat = &c}, *ops[] = {&op};
    if (aq_store_db_write(db, ops, 1, &err) != -AQ_E_AUTH || !strstr(err.text, "permissions"))
        return 5;
    aq_store_db_close(db);
    return 0;
}

static void test_read_only(void)
{
    g_autofree char *path = new_path(), *dir = g_path_get_dirname(path),
                    *top = g_path_get_dirname(dir);
    AqStoreDb *db = open_db(path, NULL);
    put_chat(db, 1, "a", 1, FALSE);
    aq_store_db_close(db);
    g_assert_cmpint(chmod(path, 0444), ==, 0);
    g_assert_cmpint(chmod(dir, 0555), ==, 0);
    g_assert_cmpint(chmod(top, 0555), ==, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(getuid() == 0 && setresuid(65534, 65534, 65534) != 0 ? 9 : read_only_home(path));
    int status = -1;
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_cmpint(status, ==, 0);
    chmod(top, 0755);
    chmod(dir, 0755);
}

/* ---- each step fails once, each step is killed once ------------------------------------------ */

enum {
    W_CHAT = 1,
    W_QUESTION,
    W_HALF,
    W_DONE,
    W_DRAFT,
    W_FOLDER,
    W_DROP_MESSAGE,
    W_DROP_FOLDER,
    W_DROP_CHAT
};

static int write_one(AqStoreDb *db, int n, GPtrArray *files)
{
    switch (n) {
    case W_CHAT:
        return put_chat(db, 10, "chat", 1, FALSE);
    case W_QUESTION:
        return put_question(db, 10, 11, files);
    case W_HALF:
        return put_text(db, 10, 12, "half an ans", AQ_MESSAGE_STREAMING);
    case W_DONE:
        return put_text(db, 10, 12, "half an answer", AQ_MESSAGE_DONE);
    case W_DRAFT:
        return put_draft_files(db, 10, files);
    case W_FOLDER:
        return on_folder(db, AQ_STORE_PUT_FOLDER, "Water");
    case W_DROP_MESSAGE:
        return drop(db, AQ_STORE_DROP_MESSAGE, 12);
    case W_DROP_FOLDER:
        return on_folder(db, AQ_STORE_DROP_FOLDER, "Water");
    default:
        return drop(db, AQ_STORE_DROP_CHAT, 10);
    }
}

/* Every kind of write; says on fd, if there is one, how many are done. */
static int writes(AqStoreDb *db, int fd)
{
    g_autoptr(GPtrArray) files = two_files(20000);
    for (char n = W_CHAT; n <= W_DROP_CHAT; n++) {
        if (write_one(db, n, files) < 0)
            return n;
        if (fd >= 0 && write(fd, &n, 1) != 1)
            _exit(8);
    }
    return 0;
}

/* What must be there when n of the writes were told as done, and perhaps one more was. */
static void check_writes(AqStoreDb *db, int n)
{
    g_autoptr(GPtrArray) list = messages(db, 10), folders = NULL;
    guint chats = n_chats(db);
    const AqStoreMessage *last = list->len ? list->pdata[list->len - 1] : NULL;
    g_assert_cmpuint(chats, <=, 1);
    g_assert_cmpuint(list->len, <=, 2);
    g_autoptr(GPtrArray) drafted = draft_files(db, 10);
    if (n >= W_CHAT && n < W_DROP_FOLDER)
        g_assert_cmpuint(chats, ==, 1);
    if (n >= W_QUESTION && n < W_DROP_FOLDER)
        g_assert_cmpuint(list->len, >=, 1);
    /* A question has all its files or is not there. */
    if (list->len)
        assert_two_files(((AqStoreMessage *)list->pdata[0])->files, 20000);
    if ((n >= W_DRAFT && n < W_DROP_FOLDER) || drafted->len)
        assert_two_files(drafted, 20000);
    if (n == W_HALF)
        g_assert_true(g_str_has_prefix(last->text, "half an ans"));
    if (n >= W_DONE && list->len == 2)
        g_assert_cmpstr(last->text, ==, "half an answer");
    g_assert_cmpint(aq_store_db_folders(db, &folders, NULL), ==, 0);
    if (n == W_FOLDER)
        g_assert_cmpuint(folders->len, ==, 1);
    if (n < W_FOLDER - 1 || n >= W_DROP_FOLDER)
        g_assert_cmpuint(folders->len, ==, 0);
    if (n == W_DROP_CHAT || !chats) {
        g_assert_cmpuint(list->len, ==, 0);
        g_assert_cmpuint(drafted->len, ==, 0);
        assert_found(db, "question", "");
    } else if (list->len) {
        assert_found(db, "question", "11");
    }
}

static void test_step_fails(void)
{
    int steps = 0;
    for (int at = 0;; at++) {
        g_autofree char *path = new_path();
        AqStoreDb *db = open_db(path, NULL);
        hits_left = at;
        int failed = writes(db, -1);
        gboolean all = hits_left >= 0;
        hits_left = -1;
        if (all) {
            g_assert_cmpint(failed, ==, 0);
            aq_store_db_close(db);
            break;
        }
        g_assert_cmpint(failed, >, 0);
        check_writes(db, failed - 1);
        /* The store works on. */
        g_assert_cmpint(put_chat(db, 99, "after", 9, FALSE), ==, 0);
        aq_store_db_close(db);
        db = open_db(path, NULL);
        g_assert_cmpuint(n_chats(db), >=, 1);
        aq_store_db_close(db);
        steps++;
    }
    g_assert_cmpint(steps, >, 20);
    g_test_message("%d steps failed once each", steps);
}

static void test_step_killed(void)
{
    int steps = 0;
    for (int at = 0;; at++) {
        g_autofree char *path = new_path();
        int fd[2], status = -1;
        char n = 0;
        g_assert_cmpint(pipe(fd), ==, 0);
        pid_t pid = fork();
        if (pid == 0) {
            AqStoreDb *db = NULL;
            char *said;
            kill_there = TRUE;
            hits_left = at;
            if (aq_store_db_open(path, &db, &said, NULL) < 0 || writes(db, fd[1]) != 0)
                _exit(7);
            _exit(0);
        }
        close(fd[1]);
        while (read(fd[0], &n, 1) == 1)
            ;
        close(fd[0]);
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        if (WIFEXITED(status)) {
            g_assert_cmpint(WEXITSTATUS(status), ==, 0);
            g_assert_cmpint(n, ==, W_DROP_CHAT);
            break;
        }
        g_assert_cmpint(WTERMSIG(status), ==, SIGKILL);
        AqStoreDb *db = open_db(path, NULL);
        check_writes(db, n);
        aq_store_db_close(db);
        steps++;
    }
    g_assert_cmpint(steps, >, 20);
    g_test_message("%d steps killed once each", steps);
}

/* ---- the store as a whole ------------------------------------------------------------------- */

typedef struct {
    GMainLoop *loop;
    GPtrArray *list;
    char *problem;
    guint n_saved, n_problems;
} Seen;

static void closed(gpointer user)
{
    g_main_loop_quit(user);
}

static void close_store(AqChatStore *store)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    aq_chat_store_close(store, closed, loop);
    g_main_loop_run(loop);
    g_object_unref(store);
}

static void on_saved(Seen *seen, GObject *owner)
{
    seen->n_saved++;
    g_main_loop_quit(seen->loop);
}

static void on_problem(Seen *seen, const char *text)
{
    g_free(seen->problem);
    seen->problem = g_strdup(text);
    seen->n_problems++;
    if (text)
        g_main_loop_quit(seen->loop);
}

/* A problem is told, what was put stays, and is written when the way is free. */
static void test_retry(void)
{
    g_autofree char *path = new_path();
    AqStoreDb *other = open_db(path, NULL);
    AqChatStore *store = aq_chat_store_new(path);
    Seen seen = {.loop = g_main_loop_new(NULL, FALSE)};
    g_autoptr(GObject) owner = g_object_new(AQ_TYPE_MESSAGE, NULL);
    g_signal_connect_swapped(store, "saved", G_CALLBACK(on_saved), &seen);
    g_signal_connect_swapped(store, "problem", G_CALLBACK(on_problem), &seen);
    AqStoreChat c = {.id = 1, .title = (char *)"kept"};
    AqStoreMessage m = {.id = 2, .chat = 1, .text = (char *)"first"};
    aq_chat_store_put_chat(store, &c);
    aq_chat_store_put_message(store, &m, owner);
    g_main_loop_run(seen.loop);
    g_assert_nonnull(seen.problem);
    g_assert_nonnull(strstr(seen.problem, "Chats are not being saved: Another program"));
    g_assert_cmpstr(aq_chat_store_get_problem(store), ==, seen.problem);
    g_assert_cmpuint(seen.n_saved, ==, 0);
    /* A later state of one thing takes the place of the earlier one. */
    m.text = (char *)"second";
    aq_chat_store_put_message(store, &m, owner);
    aq_store_db_close(other);
    aq_chat_store_retry(store);
    g_main_loop_run(seen.loop);
    g_assert_cmpuint(seen.n_saved, >=, 1);
    g_assert_null(seen.problem);
    close_store(store);
    /* A try to open that had begun before the second state was put saves the first on its own. */
    g_assert_cmpuint(seen.n_saved, <=, 2);
    AqStoreDb *db = open_db(path, NULL);
    g_autoptr(GPtrArray) list = messages(db, 1);
    g_assert_cmpuint(list->len, ==, 1);
    g_assert_cmpstr(((AqStoreMessage *)list->pdata[0])->text, ==, "second");
    aq_store_db_close(db);
    g_main_loop_unref(seen.loop);
    g_free(seen.problem);
}

/* In a child, as an ordinary user: 0 = as expected. */
static int permission_given_back(const char *path, const char *dir)
{
    AqChatStore *store = aq_chat_store_new(path);
    Seen seen = {.loop = g_main_loop_new(NULL, FALSE)};
    g_autoptr(GObject) owner = g_object_new(AQ_TYPE_MESSAGE, NULL);
    g_signal_connect_swapped(store, "saved", G_CALLBACK(on_saved), &seen);
    g_signal_connect_swapped(store, "problem", G_CALLBACK(on_problem), &seen);
    g_main_loop_run(seen.loop); /* nothing was put yet */
    if (!seen.problem || !strstr(seen.problem, "look at its permissions"))
        return 2;
    AqStoreChat c = {.id = 5, .title = (char *)"b"};
    AqStoreMessage m = {.id = 6, .chat = 5, .text = (char *)"kept"};
    aq_chat_store_put_chat(store, &c);
    aq_chat_store_put_message(store, &m, owner);
    if (chmod(dir, 0700) != 0 || chmod(path, 0600) != 0)
        return 3;
    aq_chat_store_retry(store);
    g_main_loop_run(seen.loop);
    if (seen.n_saved != 1 || seen.problem)
        return 4;
    close_store(store);
    return 0;
}

/* A file that could only be read is written when its permissions allow it. */
static void test_permission(void)
{
    g_autofree char *path = new_path(), *dir = g_path_get_dirname(path),
                    *top = g_path_get_dirname(dir);
    AqStoreDb *db = open_db(path, NULL);
    put_chat(db, 1, "a", 1, FALSE);
    aq_store_db_close(db);
    if (getuid() == 0) {
        g_assert_cmpint(chown(top, 65534, 65534), ==, 0);
        g_assert_cmpint(chown(dir, 65534, 65534), ==, 0);
        g_assert_cmpint(chown(path, 65534, 65534), ==, 0);
    }
    g_assert_cmpint(chmod(path, 0400), ==, 0);
    g_assert_cmpint(chmod(dir, 0500), ==, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(getuid() == 0 && setresuid(65534, 65534, 65534) != 0
                  ? 9
                  : permission_given_back(path, dir));
    int status = -1;
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_cmpint(status, ==, 0);
    db = open_db(path, NULL);
    g_autoptr(GPtrArray) list = messages(db, 5);
    g_assert_cmpuint(list->len, ==, 1);
    g_assert_cmpuint(n_chats(db), ==, 2);
    aq_store_db_close(db);
}

static void on_list(GPtrArray *list, GObject *user)
{
    Seen *seen = g_object_get_data(user, "seen");
    seen->list = list;
    g_main_loop_quit(seen->loop);
}

/* What was put is read, in order, though nobody waited for the disk. */
static void test_order(void)
{
    g_autofree char *path = new_path();
    AqChatStore *store = aq_chat_store_new(path);
    g_autoptr(GObject) user = g_object_new(G_TYPE_OBJECT, NULL);
    Seen seen = {.loop = g_main_loop_new(NULL, FALSE)};
    g_object_set_data(user, "seen", &seen);
    gint64 chat = aq_chat_store_new_id(store), before = chat;
    AqStoreChat c = {.id = chat, .title = (char *)"t"};
    aq_chat_store_put_chat(store, &c);
    for (int i = 0; i < 1000; i++) {
        AqStoreMessage m = {.id = aq_chat_store_new_id(store), .chat = chat, .text = (char *)"x"};
        g_assert_cmpint(m.id, >, before);
        before = m.id;
        aq_chat_store_put_message(store, &m, NULL);
    }
    aq_chat_store_messages(store, chat, on_list, user);
    g_main_loop_run(seen.loop);
    g_assert_cmpuint(seen.list->len, ==, 1000);
    g_clear_pointer(&seen.list, g_ptr_array_unref);
    aq_chat_store_drop_chat(store, chat);
    aq_chat_store_list(store, on_list, user);
    g_main_loop_run(seen.loop);
    g_assert_cmpuint(seen.list->len, ==, 0);
    g_clear_pointer(&seen.list, g_ptr_array_unref);
    close_store(store);
    g_main_loop_unref(seen.loop);
}

/* ---- killed while it streams, edits and deletes ---------------------------------------------- */

/* Says each question that was told as saved, "s CHAT ID" (or "e" for another version of it), and each chat or message that it is about to delete, "d ID". */
static void tell_saved(AqChatStore *store, GObject *owner, gpointer user)
{
    gint64 *id = g_object_get_data(owner, "ids");
    printf("%c %" G_GINT64_FORMAT " %" G_GINT64_FORMAT "\n", id[2] ? 'e' : 's', id[0], id[1]);
    fflush(stdout);
    *(gint64 *)user = id[1];
}

G_NORETURN static void stream_forever(const char *path)
{
    AqChatStore *store = aq_chat_store_new(path);
    GPtrArray *files = two_files(30000);
    gint64 told = 0;
    g_signal_connect(store, "saved", G_CALLBACK(tell_saved), &told);
    for (int i = 0;; i++) {
        AqStoreChat c = {.id = aq_chat_store_new_id(store), .title = (char *)"chat"};
        gint64 *ids = g_new0(gint64, 3);
        GObject *owner = g_object_new(G_TYPE_OBJECT, NULL);
        AqStoreMessage q = {.id = aq_chat_store_new_id(store), .chat = c.id};
        q.text = (char *)"question";
        q.files = files;
        ids[0] = c.id;
        ids[1] = q.id;
        g_object_set_data_full(owner, "ids", ids, g_free);
        c.leaf = q.id;
        aq_chat_store_put_chat(store, &c);
        aq_chat_store_put_message(store, &q, owner);
        g_object_unref(owner);
        g_autoptr(GString) text = g_string_new(NULL);
        AqStoreMessage a = {.id = aq_chat_store_new_id(store), .chat = c.id, .parent = q.id};
        a.role = AQ_MESSAGE_ASSISTANT;
        for (int k = 0; k < 20; k++) {
            g_string_append(text, "some words of an answer ");
            a.text = text->str;
            a.state = k < 19 ? AQ_MESSAGE_STREAMING : AQ_MESSAGE_DONE;
            aq_chat_store_put_message(store, &a, NULL);
            while (g_main_context_iteration(NULL, k == 10 && told != q.id))
                ;
        }
        /* The question in other words, beside the first; the answer, or all of it, goes. */
        if (i % 3 == 1) {
            GObject *edited = g_object_new(G_TYPE_OBJECT, NULL);
            q.id = aq_chat_store_new_id(store);
            gint64 pair[] = {c.id, q.id, 1};
            g_object_set_data_full(edited, "ids", g_memdup2(pair, sizeof pair), g_free);
            aq_chat_store_put_message(store, &q, edited);
            g_object_unref(edited);
            printf("d %" G_GINT64_FORMAT "\n", a.id);
            fflush(stdout);
            aq_chat_store_drop_message(store, a.id);
        } else if (i % 3 == 2) {
            printf("d %" G_GINT64_FORMAT "\n", c.id);
            fflush(stdout);
            aq_chat_store_drop_chat(store, c.id);
        }
    }
}

static const char *self_exe;

static void test_killed(void)
{
    guint32 seed = g_test_rand_int();
    const char *given = g_getenv("AQ_TEST_SEED");
    if (given)
        seed = (guint32)g_ascii_strtoull(given, NULL, 10);
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_test_message("seed %u (AQ_TEST_SEED)", seed);
    for (int round = 0; round < 20; round++) {
        g_autofree char *path = new_path();
        g_autoptr(GSubprocess) child = g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, NULL,
                                                        self_exe, "--stream", path, NULL);
        g_assert_nonnull(child);
        g_autoptr(GDataInputStream) in =
            g_data_input_stream_new(g_subprocess_get_stdout_pipe(child));
        g_autoptr(GPtrArray) saved = g_ptr_array_new_with_free_func(g_free);
        g_autoptr(GHashTable) deleted =
            g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
        /* The moment is a number of lines and then a bit of time: all that is checked holds at any. */
        int lines = g_rand_int_range(rand, 1, 60);
        for (int n = 0;; n++) {
            g_autofree char *line = g_data_input_stream_read_line(in, NULL, NULL, NULL);
            if (!line)
                break;
            if (line[0] == 'd')
                g_hash_table_add(deleted, g_strdup(line + 2));
            else
                g_ptr_array_add(saved, g_strconcat(line + 2, line[0] == 'e' ? " e" : NULL, NULL));
            if (n == lines) {
                g_usleep((gulong)g_rand_int_range(rand, 0, 3000));
                g_subprocess_force_exit(child);
            }
        }
        g_subprocess_wait(child, NULL, NULL);
        g_assert_cmpuint(saved->len, >, 0);
        AqStoreDb *db = open_db(path, NULL);
        guint partial = 0, edited = 0;
        for (guint i = 0; i < saved->len; i++) {
            g_auto(GStrv) id = g_strsplit(saved->pdata[i], " ", 3);
            gboolean edit = id[2] != NULL;
            edited += edit;
            if (g_hash_table_contains(deleted, id[0]))
                continue;
            g_autoptr(GPtrArray) list = messages(db, g_ascii_strtoll(id[0], NULL, 10));
            const AqStoreMessage *question = NULL;
            for (guint k = 0; k < list->len; k++) {
                const AqStoreMessage *m = list->pdata[k];
                if (m->id == g_ascii_strtoll(id[1], NULL, 10))
                    question = m;
                partial += m->role == AQ_MESSAGE_ASSISTANT && !edit;
            }
            g_assert_nonnull(question);
            assert_two_files(question->files, 30000);
        }
        g_assert_cmpuint(partial + g_hash_table_size(deleted) + 2, >=, saved->len - edited);
        aq_store_db_close(db);
    }
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    if (argc == 3 && g_str_equal(argv[1], "--stream"))
        stream_forever(argv[2]);
    self_exe = argv[0];
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/store/round", test_round);
    g_test_add_func("/store/search", test_search);
    g_test_add_func("/store/aside", test_aside);
    g_test_add_func("/store/versions", test_versions);
    g_test_add_func("/store/locked", test_locked);
    g_test_add_func("/store/read-only", test_read_only);
    g_test_add_func("/store/step-fails", test_step_fails);
    g_test_add_func("/store/step-killed", test_step_killed);
    g_test_add_func("/store/versions-stopped", test_versions_stopped);
    g_test_add_func("/store/retry", test_retry);
    g_test_add_func("/store/permission", test_permission);
    g_test_add_func("/store/order", test_order);
    g_test_add_func("/store/killed", test_killed);
    return g_test_run();
}
