/* SPDX-License-Identifier: Apache-2.0 */
/* Where chats are kept: the main thread's half of the store, and the thread's loop.
 *
 *   main thread    put, drop, list, search ──jobs──▶ queue
 *   store thread   takes all that waits, folds writes of one thing into the last one, writes them in one transaction
 *   main thread    ◀──answers── "saved", "problem", lists
 *
 * What could not be written stays in `unsaved`, in order, and goes with the next attempt: when something new is put, when asked, and
 * every RETRY_S seconds. A file that could not be opened, or only to be read, is tried again at the same times. */
#include "aq-store.h"

#include <glib/gi18n.h>

#include "aq-store-db.h"

#define RETRY_S 5

struct _AqChatStore {
    GObject parent;
    GThread *thread;
    GAsyncQueue *jobs;
    char *path;
    char *problem;
    gint64 last_id;
    gboolean closed;
};

G_DEFINE_FINAL_TYPE(AqChatStore, aq_chat_store, G_TYPE_OBJECT)

static guint signal_saved, signal_opened, signal_problem, signal_said, signal_reset;

typedef enum {
    JOB_WRITE,
    JOB_LIST,
    JOB_FOLDERS,
    JOB_MESSAGES,
    JOB_FILES,
    JOB_SEARCH,
    JOB_RETRY,
    JOB_QUIT
} JobKind;

typedef struct {
    JobKind kind;
    AqStoreOp *op;
    gint64 chat;
    char *text;
    guint limit;
    AqStoreListCb cb;
    GObject *user;
    void (*done)(gpointer user);
    gpointer done_user;
} Job;

/* What goes back to the main thread. */
typedef struct {
    AqChatStore *store;
    GPtrArray *saved; /* of GObject; or NULL */
    gboolean opened, reset, problem_known;
    char *problem, *said;
    GPtrArray *list;
    AqStoreListCb cb;
    GObject *user;
    void (*done)(gpointer user);
    gpointer done_user;
} Answer;

/* ---- what is passed around ------------------------------------------------------------------ */

AqStoreChat *aq_store_chat_copy(const AqStoreChat *chat)
{
    AqStoreChat *c = g_memdup2(chat, sizeof *chat);
    c->title = g_strdup(chat->title);
    c->folder = g_strdup(chat->folder);
    c->draft = g_strdup(chat->draft);
    c->settings = g_strdup(chat->settings);
    return c;
}

void aq_store_chat_free(AqStoreChat *c)
{
    if (!c)
        return;
    g_free(c->title);
    g_free(c->folder);
    g_free(c->draft);
    g_free(c->settings);
    g_free(c);
}

AqStoreMessage *aq_store_message_copy(const AqStoreMessage *message)
{
    AqStoreMessage *m = g_memdup2(message, sizeof *message);
    m->text = g_strdup(message->text);
    m->thinking = g_strdup(message->thinking);
    m->error = g_strdup(message->error);
    m->model = g_strdup(message->model);
    m->files = message->files ? g_ptr_array_ref(message->files) : NULL;
    return m;
}

void aq_store_message_free(AqStoreMessage *m)
{
    if (!m)
        return;
    g_free(m->text);
    g_free(m->thinking);
    g_free(m->error);
    g_free(m->model);
    g_clear_pointer(&m->files, g_ptr_array_unref);
    g_free(m);
}

void aq_store_hit_free(AqStoreHit *hit)
{
    if (!hit)
        return;
    g_free(hit->snippet);
    g_free(hit);
}

static void op_free(AqStoreOp *op)
{
    if (!op)
        return;
    aq_store_chat_free(op->chat);
    aq_store_message_free(op->message);
    g_free(op->name);
    g_clear_pointer(&op->files, g_ptr_array_unref);
    g_clear_object(&op->owner);
    g_free(op);
}

static void job_free(Job *job)
{
    op_free(job->op);
    g_free(job->text);
    g_free(job);
}

/* ---- main thread: answers ------------------------------------------------------------------- */

static gboolean answer_take(gpointer data)
{
    Answer *a = data;
    AqChatStore *self = a->store;
    if (a->said)
        g_signal_emit(self, signal_said, 0, a->said);
    if (a->problem_known && g_strcmp0(a->problem, self->problem) != 0) {
        g_free(self->problem);
        self->problem = g_strdup(a->problem);
        g_signal_emit(self, signal_problem, 0, self->problem);
    }
    if (a->opened)
        g_signal_emit(self, signal_opened, 0);
    if (a->reset)
        g_signal_emit(self, signal_reset, 0);
    for (guint i = 0; a->saved && i < a->saved->len; i++)
        g_signal_emit(self, signal_saved, 0, a->saved->pdata[i]);
    if (a->cb)
        a->cb(a->list, a->user);
    if (a->done) {
        g_thread_join(g_steal_pointer(&self->thread));
        g_object_unref(self);
        a->done(a->done_user);
    }
    return G_SOURCE_REMOVE;
}

static void answer_free(gpointer data)
{
    Answer *a = data;
    g_clear_pointer(&a->saved, g_ptr_array_unref);
    g_free(a->problem);
    g_free(a->said);
    g_clear_object(&a->user);
    g_object_unref(a->store);
    g_free(a);
}

/* ---- store thread --------------------------------------------------------------------------- */

typedef struct {
    AqChatStore *self; /* its path and queue only */
    AqStoreDb *db;
    GPtrArray *unsaved; /* of AqStoreOp, in order */
    GHashTable *place;  /* key of an op -> its index in unsaved + 1 */
    gboolean stuck;     /* a problem was told and is not over */
} Work;

static Answer *answer_new(Work *w)
{
    Answer *a = g_new0(Answer, 1);
    a->store = g_object_ref(w->self);
    return a;
}

static void send(Answer *a)
{
    g_idle_add_full(G_PRIORITY_DEFAULT, answer_take, a, answer_free);
}

static void send_problem(Work *w, const aq_err *err)
{
    w->stuck = err != NULL;
    Answer *a = answer_new(w);
    a->problem_known = TRUE;
    /* Translators: a sentence that says why and what to do */
    a->problem = err ? g_strdup_printf(_("Chats are not being saved: %s"), err->text) : NULL;
    send(a);
}

static gboolean ensure_open(Work *w)
{
    if (w->db)
        return TRUE;
    aq_err err = {0};
    char *said = NULL;
    if (aq_store_db_open(w->self->path, &w->db, &said, &err) < 0) {
        g_free(said);
        send_problem(w, &err);
        return FALSE;
    }
    Answer *a = answer_new(w);
    a->opened = TRUE;
    a->said = said;
    send(a);
    return TRUE;
}

static void add_unsaved(Work *w, AqStoreOp *op)
{
    gboolean chat = op->kind == AQ_STORE_PUT_CHAT || op->kind == AQ_STORE_DROP_CHAT;
    char kind = op->kind == AQ_STORE_PUT_DRAFT_FILES ? 'f' : chat ? 'c' : 'm';
    g_autofree char *key = op->name ? g_strconcat("F", op->name, NULL)
                                    : g_strdup_printf("%c%" G_GINT64_FORMAT, kind, op->id);
    guint at = GPOINTER_TO_UINT(g_hash_table_lookup(w->place, key));
    if (at) {
        op_free(w->unsaved->pdata[at - 1]);
        w->unsaved->pdata[at - 1] = op;
        return;
    }
    g_ptr_array_add(w->unsaved, op);
    g_hash_table_insert(w->place, g_steal_pointer(&key), GUINT_TO_POINTER(w->unsaved->len));
}

static void write_unsaved(Work *w)
{
    if (!w->unsaved->len || !ensure_open(w))
        return;
    aq_err err = {0};
    int rc = aq_store_db_make_writable(w->self->path, &w->db, &err);
    if (rc >= 0)
        rc = aq_store_db_write(w->db, (AqStoreOp *const *)w->unsaved->pdata, w->unsaved->len, &err);
    if (rc == -AQ_E_FORMAT && w->self->path) {
        Answer *a = answer_new(w);
        g_clear_pointer(&w->db, aq_store_db_close);
        aq_store_db_set_aside(w->self->path, &a->said);
        a->reset = a->said != NULL;
        send(a);
        if (!ensure_open(w))
            return;
        rc = aq_store_db_write(w->db, (AqStoreOp *const *)w->unsaved->pdata, w->unsaved->len, &err);
    }
    if (rc < 0) {
        send_problem(w, &err);
        return;
    }
    Answer *a = answer_new(w);
    w->stuck = FALSE;
    a->problem_known = TRUE;
    a->saved = g_ptr_array_new_with_free_func(g_object_unref);
    for (guint i = 0; i < w->unsaved->len; i++) {
        AqStoreOp *op = w->unsaved->pdata[i];
        if (op->owner)
            g_ptr_array_add(a->saved, g_steal_pointer(&op->owner));
    }
    send(a);
    g_ptr_array_set_size(w->unsaved, 0);
    g_hash_table_remove_all(w->place);
}

/* Whatever stands in the way of writing is told at the start, before there is something that could be lost. */
static void attempt(Work *w)
{
    aq_err err = {0};
    if (w->unsaved->len)
        write_unsaved(w);
    else if (w->stuck && ensure_open(w))
        send_problem(w, aq_store_db_make_writable(w->self->path, &w->db, &err) < 0 ? &err : NULL);
}

static void read_job(Work *w, Job *job)
{
    Answer *a = answer_new(w);
    aq_err err = {0};
    int rc = 0;
    a->cb = job->cb;
    a->user = job->user;
    if (ensure_open(w)) {
        if (job->kind == JOB_LIST)
            rc = aq_store_db_list(w->db, &a->list, &err);
        else if (job->kind == JOB_FOLDERS)
            rc = aq_store_db_folders(w->db, &a->list, &err);
        else if (job->kind == JOB_MESSAGES)
            rc = aq_store_db_messages(w->db, job->chat, &a->list, &err);
        else if (job->kind == JOB_FILES)
            rc = aq_store_db_draft_files(w->db, job->chat, &a->list, &err);
        else
            rc = aq_store_db_search(w->db, job->text, job->limit, &a->list, &err);
        if (rc < 0) {
            a->said = g_strdup_printf(_("Chats could not be read: %s"), err.text);
        }
    }
    send(a);
}

static gpointer work(gpointer user)
{
    Work w = {.self = user,
              .stuck = TRUE, /* until it is open */
              .unsaved = g_ptr_array_new_with_free_func((GDestroyNotify)op_free),
              .place = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL)};
    GAsyncQueue *jobs = w.self->jobs;
    attempt(&w);
    for (gboolean quit = FALSE; !quit;) {
        Job *job = w.stuck ? g_async_queue_timeout_pop(jobs, RETRY_S * G_USEC_PER_SEC)
                           : g_async_queue_pop(jobs);
        /* A read sees what was put before it; so writes wait for each other up to the next read. */
        for (; job; job = quit ? NULL : g_async_queue_try_pop(jobs)) {
            if (job->kind == JOB_WRITE) {
                add_unsaved(&w, g_steal_pointer(&job->op));
            } else {
                write_unsaved(&w);
                if (job->kind == JOB_QUIT) {
                    Answer *a = answer_new(&w);
                    quit = TRUE;
                    a->done = job->done;
                    a->done_user = job->done_user;
                    g_clear_pointer(&w.db, aq_store_db_close);
                    send(a);
                } else if (job->kind != JOB_RETRY) {
                    read_job(&w, job);
                }
            }
            job_free(job);
        }
        if (!quit)
            attempt(&w);
    }
    g_ptr_array_unref(w.unsaved);
    g_hash_table_unref(w.place);
    return NULL;
}

/* ---- main thread: asks ---------------------------------------------------------------------- */

const char *aq_chat_store_get_problem(AqChatStore *self)
{
    return self->problem;
}

gint64 aq_chat_store_new_id(AqChatStore *self)
{
    /* The clock in microseconds, with room for those made in the same one. */
    self->last_id = MAX(self->last_id + 1, g_get_real_time() << 8);
    return self->last_id;
}

static Job *push(AqChatStore *self, JobKind kind)
{
    Job *job = g_new0(Job, 1);
    job->kind = kind;
    return job;
}

static void push_op(AqChatStore *self, const AqStoreOp *given)
{
    g_return_if_fail(AQ_IS_CHAT_STORE(self));
    AqStoreOp *op = g_memdup2(given, sizeof *given);
    if (op->owner)
        g_object_ref(op->owner);
    if (self->closed) {
        op_free(op);
        return;
    }
    Job *job = push(self, JOB_WRITE);
    job->op = op;
    g_async_queue_push(self->jobs, job);
}

void aq_chat_store_put_chat(AqChatStore *self, const AqStoreChat *chat)
{
    push_op(self, &(AqStoreOp){
                      .kind = AQ_STORE_PUT_CHAT, .id = chat->id, .chat = aq_store_chat_copy(chat)});
}

void aq_chat_store_drop_chat(AqChatStore *self, gint64 id)
{
    push_op(self, &(AqStoreOp){.kind = AQ_STORE_DROP_CHAT, .id = id});
}

void aq_chat_store_put_message(AqChatStore *self, const AqStoreMessage *message, GObject *owner)
{
    push_op(self, &(AqStoreOp){.kind = AQ_STORE_PUT_MESSAGE,
                               .id = message->id,
                               .message = aq_store_message_copy(message),
                               .owner = owner});
}

void aq_chat_store_drop_message(AqChatStore *self, gint64 id)
{
    push_op(self, &(AqStoreOp){.kind = AQ_STORE_DROP_MESSAGE, .id = id});
}

void aq_chat_store_put_draft_files(AqChatStore *self, gint64 chat, GPtrArray *files)
{
    push_op(self, &(AqStoreOp){.kind = AQ_STORE_PUT_DRAFT_FILES,
                               .id = chat,
                               .files = g_ptr_array_ref(files)});
}

static void push_folder(AqChatStore *self, AqStoreOpKind kind, const char *name)
{
    g_return_if_fail(AQ_IS_CHAT_STORE(self) && name);
    if (self->closed)
        return;
    Job *job = push(self, JOB_WRITE);
    job->op = g_new0(AqStoreOp, 1);
    job->op->kind = kind;
    job->op->name = g_strdup(name);
    g_async_queue_push(self->jobs, job);
}

void aq_chat_store_put_folder(AqChatStore *self, const char *name)
{
    push_folder(self, AQ_STORE_PUT_FOLDER, name);
}

void aq_chat_store_drop_folder(AqChatStore *self, const char *name)
{
    push_folder(self, AQ_STORE_DROP_FOLDER, name);
}

static void push_read(AqChatStore *self, Job *job, AqStoreListCb cb, GObject *user)
{
    g_return_if_fail(AQ_IS_CHAT_STORE(self));
    if (self->closed) {
        job_free(job);
        return;
    }
    job->cb = cb;
    job->user = g_object_ref(user);
    g_async_queue_push(self->jobs, job);
}

void aq_chat_store_list(AqChatStore *self, AqStoreListCb cb, GObject *user)
{
    push_read(self, push(self, JOB_LIST), cb, user);
}

void aq_chat_store_folders(AqChatStore *self, AqStoreListCb cb, GObject *user)
{
    push_read(self, push(self, JOB_FOLDERS), cb, user);
}

void aq_chat_store_messages(AqChatStore *self, gint64 chat, AqStoreListCb cb, GObject *user)
{
    Job *job = push(self, JOB_MESSAGES);
    job->chat = chat;
    push_read(self, job, cb, user);
}

void aq_chat_store_draft_files(AqChatStore *self, gint64 chat, AqStoreListCb cb, GObject *user)
{
    Job *job = push(self, JOB_FILES);
    job->chat = chat;
    push_read(self, job, cb, user);
}

void aq_chat_store_search(AqChatStore *self, const char *text, guint limit, AqStoreListCb cb,
                          GObject *user)
{
    Job *job = push(self, JOB_SEARCH);
    job->text = g_strdup(text);
    job->limit = limit;
    push_read(self, job, cb, user);
}

void aq_chat_store_retry(AqChatStore *self)
{
    g_async_queue_push(self->jobs, push(self, JOB_RETRY));
}

void aq_chat_store_close(AqChatStore *self, void (*done)(gpointer user), gpointer user)
{
    g_return_if_fail(AQ_IS_CHAT_STORE(self) && !self->closed);
    Job *job = push(self, JOB_QUIT);
    job->done = done;
    job->done_user = user;
    self->closed = TRUE;
    g_async_queue_push(self->jobs, job);
}

static void aq_chat_store_finalize(GObject *object)
{
    AqChatStore *self = AQ_CHAT_STORE(object);
    /* The thread holds a reference until it was closed. */
    g_async_queue_unref(self->jobs);
    g_free(self->path);
    g_free(self->problem);
    G_OBJECT_CLASS(aq_chat_store_parent_class)->finalize(object);
}

static void aq_chat_store_class_init(AqChatStoreClass *klass)
{
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = aq_chat_store_finalize;
    signal_saved = g_signal_new("saved", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE,
                                1, G_TYPE_OBJECT);
    signal_opened =
        g_signal_new("opened", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_problem = g_signal_new("problem", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                  G_TYPE_NONE, 1, G_TYPE_STRING);
    signal_said = g_signal_new("said", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 1,
                               G_TYPE_STRING);
    signal_reset =
        g_signal_new("reset", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void aq_chat_store_init(AqChatStore *self)
{
    self->jobs = g_async_queue_new_full((GDestroyNotify)job_free);
}

AqChatStore *aq_chat_store_new(const char *path)
{
    AqChatStore *self = g_object_new(AQ_TYPE_CHAT_STORE, NULL);
    self->path = g_strdup(path);
    /* The thread has a reference until it was closed. */
    self->thread = g_thread_new("store", work, g_object_ref(self));
    return self;
}
