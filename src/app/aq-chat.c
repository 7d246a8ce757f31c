/* SPDX-License-Identifier: Apache-2.0 */
/* A chat: a tree of messages, the branch of it that is in view, the answer under way. All chats share one engine, which keeps the longest
 * known prefix of each, so a chat always sends its whole branch.
 *
 * What happens goes to the store at once, but for an answer that grows: that is put every FLUSH_MS. */
#include "aq-chat.h"

#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq-reply.h"

#define FLUSH_MS 300

struct _AqChat {
    GObject parent;
    AqEngineHost *host;
    AqChatStore *store;   /* or NULL */
    GPtrArray *all;       /* every message, by ascending number */
    GListStore *messages; /* the branch in view */
    GListStore *draft_files;
    AqReply *reply;    /* under way, or NULL */
    AqMessage *answer; /* that it writes */
    guint flush_timer;
    char *title; /* NULL until something was asked */
    gint64 id, leaf, created_us, changed_us;
    gboolean loaded, loading, deleted, unread;
    char *folder, *draft;
    double temperature; /* of chats that have none of their own */
    char *settings_json;
    AqChatSettings settings;
};

enum { PROP_TITLE = 1, PROP_BUSY, PROP_EMPTY, PROP_LOADED, PROP_FOLDER, PROP_UNREAD, N_PROPS };
static GParamSpec *props[N_PROPS];
static guint signal_changed, signal_ending;

G_DEFINE_FINAL_TYPE(AqChat, aq_chat, G_TYPE_OBJECT)

/* ---- kept ----------------------------------------------------------------------------------- */

static void put_chat(AqChat *self)
{
    if (!self->store)
        return;
    const AqStoreChat c = {.id = self->id,
                           .created_us = self->created_us,
                           .changed_us = self->changed_us,
                           .leaf = self->leaf,
                           .title = self->title,
                           .folder = self->folder,
                           .draft = self->draft,
                           .settings = self->settings_json,
                           .deleted = self->deleted};
    aq_chat_store_put_chat(self->store, &c);
}

static void put_message(AqChat *self, AqMessage *message)
{
    if (!self->store)
        return;
    AqStoreMessage m;
    aq_message_to_stored(message, self->id, &m);
    aq_chat_store_put_message(self->store, &m, G_OBJECT(message));
}

static gboolean flush_tick(gpointer user)
{
    AqChat *self = user;
    self->flush_timer = 0;
    if (self->answer)
        put_message(self, self->answer);
    return G_SOURCE_REMOVE;
}

static void on_answer_changed(AqChat *self)
{
    if (self->store && !self->flush_timer && aq_message_is_running(self->answer))
        self->flush_timer = g_timeout_add(FLUSH_MS, flush_tick, self);
}

void aq_chat_set_deleted(AqChat *self, gboolean deleted)
{
    self->deleted = deleted;
    put_chat(self);
}

void aq_chat_drop(AqChat *self)
{
    g_clear_handle_id(&self->flush_timer, g_source_remove);
    if (self->store)
        aq_chat_store_drop_chat(self->store, self->id);
}

static GPtrArray *draft_files(AqChat *self)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->draft_files));
    GPtrArray *files = g_ptr_array_new_with_free_func(g_object_unref);
    for (guint i = 0; i < n; i++)
        g_ptr_array_add(files, g_list_model_get_item(G_LIST_MODEL(self->draft_files), i));
    return files;
}

static void put_draft_files(AqChat *self)
{
    if (!self->store)
        return;
    g_autoptr(GPtrArray) files = draft_files(self);
    put_chat(self); /* a chat that nothing was asked in yet may not be there */
    aq_chat_store_put_draft_files(self->store, self->id, files);
}

void aq_chat_put_all(AqChat *self)
{
    gboolean files = g_list_model_get_n_items(G_LIST_MODEL(self->draft_files)) > 0;
    if (!self->loaded || (!self->leaf && !self->draft && !files))
        return;
    put_chat(self);
    if (files)
        put_draft_files(self);
    for (guint i = 0; i < self->all->len; i++)
        put_message(self, self->all->pdata[i]);
}

/* ---- the tree ------------------------------------------------------------------------------- */

static AqMessage *message_of(AqChat *self, gint64 id)
{
    guint lo = 0, hi = self->all->len;
    while (lo < hi) {
        guint mid = lo + (hi - lo) / 2;
        gint64 at = aq_message_get_id(self->all->pdata[mid]);
        if (at == id)
            return self->all->pdata[mid];
        if (at < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* Make the branch that ends in the leaf the one in view; what both have stays. */
static void show_branch(AqChat *self)
{
    g_autoptr(GPtrArray) path = g_ptr_array_new();
    guint same = 0, n = g_list_model_get_n_items(G_LIST_MODEL(self->messages));
    /* A parent has a smaller number, else the file was made by hand: then the branch begins there. */
    for (AqMessage *m = message_of(self, self->leaf); m;) {
        g_ptr_array_insert(path, 0, m);
        gint64 parent = aq_message_get_parent(m);
        m = parent < aq_message_get_id(m) ? message_of(self, parent) : NULL;
    }
    while (same < n && same < path->len) {
        g_autoptr(AqMessage) m = g_list_model_get_item(G_LIST_MODEL(self->messages), same);
        if (m != path->pdata[same])
            break;
        same++;
    }
    g_list_store_splice(self->messages, same, n - same, path->len ? path->pdata + same : NULL,
                        path->len - same);
}

static AqMessage *last_message(AqChat *self)
{
    return message_of(self, self->leaf);
}

/* A new leaf below the last message, or beside it below its parent. */
static void add_message(AqChat *self, AqMessage *message, gint64 parent)
{
    gboolean was_empty = self->leaf == 0;
    gint64 id = self->store ? aq_chat_store_new_id(self->store) : (gint64)self->all->len + 1;
    aq_message_set_id(message, id, parent);
    if (self->store)
        aq_message_set_saved(message, FALSE);
    g_ptr_array_add(self->all, g_object_ref(message));
    self->leaf = id;
    show_branch(self);
    put_chat(self);
    put_message(self, message);
    if (was_empty)
        g_object_notify_by_pspec(G_OBJECT(self), props[PROP_EMPTY]);
}

static void forget_message(AqChat *self, AqMessage *message)
{
    if (self->store)
        aq_chat_store_drop_message(self->store, aq_message_get_id(message));
    g_ptr_array_remove(self->all, message);
}

/* Those of a draft that is there already are newer. */
static void draft_files_read(GPtrArray *list, GObject *user)
{
    AqChat *self = AQ_CHAT(user);
    if (!list)
        return;
    if (!g_list_model_get_n_items(G_LIST_MODEL(self->draft_files)))
        g_list_store_splice(self->draft_files, 0, 0, list->pdata, list->len);
    g_ptr_array_unref(list);
}

static void messages_read(GPtrArray *list, GObject *user)
{
    AqChat *self = AQ_CHAT(user);
    self->loading = FALSE;
    if (!list)
        return;
    for (guint i = 0; i < list->len; i++)
        g_ptr_array_add(self->all, aq_message_new_stored(list->pdata[i]));
    g_ptr_array_unref(list);
    /* A leaf that is missing (a message that was not written any more): the newest there is. */
    if (!last_message(self) && self->all->len)
        self->leaf = aq_message_get_id(self->all->pdata[self->all->len - 1]);
    self->loaded = TRUE;
    show_branch(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_LOADED]);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_EMPTY]);
}

void aq_chat_load(AqChat *self)
{
    if (self->loaded || self->loading)
        return;
    self->loading = TRUE;
    aq_chat_store_draft_files(self->store, self->id, draft_files_read, G_OBJECT(self));
    aq_chat_store_messages(self->store, self->id, messages_read, G_OBJECT(self));
}

/* ---- what is there -------------------------------------------------------------------------- */

gboolean aq_chat_get_loaded(AqChat *self)
{
    return self->loaded;
}

gint64 aq_chat_get_id(AqChat *self)
{
    return self->id;
}

gint64 aq_chat_get_changed_us(AqChat *self)
{
    return self->changed_us;
}

const char *aq_chat_get_title(AqChat *self)
{
    return self->title ? self->title : _("New Chat");
}

void aq_chat_set_title(AqChat *self, const char *title)
{
    g_autofree char *clean = aq_format_title(title);
    if (!clean || !g_set_str(&self->title, clean))
        return;
    put_chat(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_TITLE]);
}

const char *aq_chat_get_folder(AqChat *self)
{
    return self->folder;
}

void aq_chat_set_folder(AqChat *self, const char *folder)
{
    if (!g_set_str(&self->folder, folder))
        return;
    if (self->leaf)
        put_chat(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_FOLDER]);
}

gboolean aq_chat_get_unread(AqChat *self)
{
    return self->unread;
}

void aq_chat_set_unread(AqChat *self, gboolean unread)
{
    if (self->unread == unread)
        return;
    self->unread = unread;
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_UNREAD]);
}

gboolean aq_chat_get_busy(AqChat *self)
{
    return self->reply != NULL;
}

gboolean aq_chat_get_empty(AqChat *self)
{
    return self->leaf == 0 && g_list_model_get_n_items(G_LIST_MODEL(self->messages)) == 0;
}

GListModel *aq_chat_get_messages(AqChat *self)
{
    return G_LIST_MODEL(self->messages);
}

AqEngineHost *aq_chat_get_host(AqChat *self)
{
    return self->host;
}

static void read_settings(AqChat *self)
{
    aq_chat_settings_clear(&self->settings);
    aq_chat_settings_from_json(&self->settings, self->settings_json, self->temperature);
}

void aq_chat_set_temperature(AqChat *self, double temperature)
{
    self->temperature = temperature;
    read_settings(self);
}

double aq_chat_get_usual_temperature(AqChat *self)
{
    return self->temperature;
}

const AqChatSettings *aq_chat_get_settings(AqChat *self)
{
    return &self->settings;
}

void aq_chat_set_settings(AqChat *self, const AqChatSettings *settings)
{
    g_autofree char *json = aq_chat_settings_to_json(settings, self->temperature);
    if (!g_set_str(&self->settings_json, json))
        return;
    read_settings(self);
    put_chat(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_EMPTY]);
}

const char *aq_chat_get_vars(AqChat *self)
{
    return self->settings.no_thinking && aq_engine_host_has_thinking_switch(self->host)
               ? "{\"enable_thinking\":false}"
               : NULL;
}

const char *aq_chat_get_draft(AqChat *self)
{
    return self->draft ? self->draft : "";
}

void aq_chat_set_draft(AqChat *self, const char *draft)
{
    if (g_set_str(&self->draft, draft && *draft ? draft : NULL))
        put_chat(self);
}

GListModel *aq_chat_get_draft_files(AqChat *self)
{
    return G_LIST_MODEL(self->draft_files);
}

gboolean aq_chat_add_draft_file(AqChat *self, AqFile *file)
{
    if (g_list_model_get_n_items(G_LIST_MODEL(self->draft_files)) >= AQ_FILES_MAX)
        return FALSE;
    g_list_store_append(self->draft_files, file);
    put_draft_files(self);
    return TRUE;
}

void aq_chat_remove_draft_file(AqChat *self, AqFile *file)
{
    guint at;
    if (!g_list_store_find(self->draft_files, file, &at))
        return;
    g_list_store_remove(self->draft_files, at);
    put_draft_files(self);
}

static gboolean put_message_json(aq_bytes *out, gboolean user, GPtrArray *files, const char *text)
{
    g_autofree char *all = files ? aq_files_to_prompt(files, text) : NULL;
    const char *content = all ? all : text;
    return aq_bytes_putf(out, "{\"role\":\"%s\",\"content\":", user ? "user" : "assistant") >= 0 &&
           aq_json_quote(out, content, strlen(content)) >= 0 && aq_bytes_puts(out, "}") >= 0;
}

char *aq_chat_to_json(AqChat *self, guint n, const char *draft)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
    gboolean ok = aq_bytes_puts(&out, "[") >= 0, first = TRUE;
    const char *system = self->settings.system;
    if (ok && (n || draft) && system && *system) {
        ok = aq_bytes_puts(&out, "{\"role\":\"system\",\"content\":") >= 0 &&
             aq_json_quote(&out, system, strlen(system)) >= 0 && aq_bytes_puts(&out, "}") >= 0;
        first = FALSE;
    }
    for (guint i = 0; ok && i < n; i++) {
        g_autoptr(AqMessage) m = g_list_model_get_item(G_LIST_MODEL(self->messages), i);
        gboolean user = aq_message_get_role(m) == AQ_MESSAGE_USER;
        gsize n_text;
        const char *text = aq_message_get_text(m, &n_text);
        if (!user && (aq_message_get_state(m) == AQ_MESSAGE_FAILED || !n_text))
            continue;
        ok = aq_bytes_puts(&out, first ? "" : ",") >= 0 &&
             put_message_json(&out, user, aq_message_get_files(m), text);
        first = FALSE;
    }
    if (ok && draft) {
        g_autoptr(GPtrArray) files = draft_files(self);
        ok = aq_bytes_puts(&out, first ? "" : ",") >= 0 &&
             put_message_json(&out, TRUE, files->len ? files : NULL, draft);
    }
    ok = ok && aq_bytes_puts(&out, "]") >= 0;
    return ok ? g_strndup((const char *)out.p, out.n) : NULL;
}

/* ---- asking --------------------------------------------------------------------------------- */

static void let_go(AqChat *self)
{
    if (!self->answer)
        return;
    g_signal_handlers_disconnect_by_func(self->answer, on_answer_changed, self);
    g_clear_handle_id(&self->flush_timer, g_source_remove);
    put_message(self, self->answer);
    g_clear_object(&self->answer);
}

static void reply_ended(gpointer user)
{
    AqChat *self = user;
    /* Deleted in the moment between asking and the engine's taking it up. */
    if (self->deleted)
        aq_engine_host_forget_parked(self->host);
    g_clear_pointer(&self->reply, aq_reply_free);
    let_go(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_BUSY]);
}

void aq_chat_end(AqChat *self)
{
    g_signal_emit(self, signal_ending, 0);
    g_clear_pointer(&self->reply, aq_reply_free);
    let_go(self);
}

static void touch(AqChat *self)
{
    self->changed_us = g_get_real_time();
    g_signal_emit(self, signal_changed, 0);
}

static void start(AqChat *self, AqEngineSlot *slot, const char *json, AqMessage *answer)
{
    self->answer = g_object_ref(answer);
    g_signal_connect_object(answer, "changed", G_CALLBACK(on_answer_changed), self,
                            G_CONNECT_SWAPPED);
    const AqChatSettings *set = &self->settings;
    const AqReplyIn in = {
        .messages_json = json,
        .vars_json = aq_chat_get_vars(self),
        .continued = aq_message_get_text(answer, NULL),
        .sampling = {.temp = (float)set->temperature,
                     .top_k = (int32_t)set->top_k,
                     .top_p = (float)set->top_p,
                     .min_p = (float)set->min_p,
                     .repeat_penalty = (float)set->repeat_penalty},
        .max_tok = set->max_tok,
    };
    self->reply = aq_reply_start(slot, &in, answer, reply_ended, self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_BUSY]);
}

static void refuse(AqChat *self, AqEngineSlot *slot, AqMessage *answer)
{
    aq_err err;
    aq_fail(&err, slot ? AQ_E_LIMIT : AQ_E_GONE, "%s",
            slot ? _("The chat is too long: start a new one") : _("No model is loaded"));
    aq_message_fail(answer, &err);
    put_message(self, answer);
}

/* The question is the last message. */
static gboolean ask(AqChat *self)
{
    g_autoptr(AqEngineSlot) slot = aq_engine_host_ref_slot(self->host);
    g_autofree char *json =
        aq_chat_to_json(self, g_list_model_get_n_items(G_LIST_MODEL(self->messages)), NULL);
    g_autoptr(AqMessage) answer = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);

    aq_message_set_model(answer, aq_engine_host_get_model_name(self->host));
    add_message(self, answer, self->leaf);
    if (!slot || !json) {
        refuse(self, slot, answer);
        return FALSE;
    }
    start(self, slot, json, answer);
    return TRUE;
}

gboolean aq_chat_send(AqChat *self, const char *text)
{
    g_return_val_if_fail(AQ_IS_CHAT(self) && text, FALSE);
    if (self->reply || !self->loaded || !aq_engine_host_can_answer(self->host))
        return FALSE;
    g_autofree char *clean = g_strstrip(g_strdup(text));
    g_autoptr(GPtrArray) files = draft_files(self);
    if (!*clean && !files->len)
        return FALSE;
    g_autoptr(AqMessage) question = aq_message_new(AQ_MESSAGE_USER, clean);
    aq_message_set_files(question, files);
    if (!self->title) {
        self->title = aq_format_title(*clean ? clean : aq_file_get_name(files->pdata[0]));
        g_object_notify_by_pspec(G_OBJECT(self), props[PROP_TITLE]);
    }
    touch(self);
    add_message(self, question, self->leaf);
    if (files->len) {
        g_list_store_remove_all(self->draft_files);
        put_draft_files(self);
    }
    ask(self);
    return TRUE;
}

gboolean aq_chat_ask_again(AqChat *self, AqMessage *answer)
{
    g_return_val_if_fail(AQ_IS_CHAT(self) && AQ_IS_MESSAGE(answer), FALSE);
    gint64 parent = aq_message_get_parent(answer);
    if (self->reply || !aq_engine_host_can_answer(self->host) || !parent ||
        aq_message_get_role(answer) != AQ_MESSAGE_ASSISTANT)
        return FALSE;
    g_autoptr(AqMessage) keep = g_object_ref(answer);
    self->leaf = parent;
    if (aq_message_get_state(answer) == AQ_MESSAGE_FAILED)
        forget_message(self, answer);
    show_branch(self);
    ask(self);
    return TRUE;
}

gboolean aq_chat_edit(AqChat *self, AqMessage *question, const char *text)
{
    g_return_val_if_fail(AQ_IS_CHAT(self) && AQ_IS_MESSAGE(question) && text, FALSE);
    g_autofree char *clean = g_strstrip(g_strdup(text));
    GPtrArray *files = aq_message_get_files(question);
    if (self->reply || !aq_engine_host_can_answer(self->host) || (!*clean && !files) ||
        aq_message_get_role(question) != AQ_MESSAGE_USER)
        return FALSE;
    g_autoptr(AqMessage) another = aq_message_new(AQ_MESSAGE_USER, clean);
    aq_message_set_files(another, files);
    touch(self);
    add_message(self, another, aq_message_get_parent(question));
    ask(self);
    return TRUE;
}

gboolean aq_chat_can_continue(AqChat *self)
{
    AqMessage *last = last_message(self);
    AqMessageState state = last ? aq_message_get_state(last) : AQ_MESSAGE_DONE;
    gsize n = 0;
    if (last)
        aq_message_get_text(last, &n);
    return !self->reply && aq_engine_host_can_answer(self->host) && n > 0 &&
           aq_message_get_role(last) == AQ_MESSAGE_ASSISTANT && aq_message_get_parent(last) &&
           (state == AQ_MESSAGE_STOPPED || state == AQ_MESSAGE_FULL);
}

gboolean aq_chat_continue(AqChat *self)
{
    g_return_val_if_fail(AQ_IS_CHAT(self), FALSE);
    if (!aq_chat_can_continue(self))
        return FALSE;
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->messages));
    g_autoptr(AqEngineSlot) slot = aq_engine_host_ref_slot(self->host);
    g_autofree char *json = aq_chat_to_json(self, n - 1, NULL);
    AqMessage *last = last_message(self);
    if (!slot || !json)
        return FALSE;
    aq_message_set_state(last, AQ_MESSAGE_WAITING);
    start(self, slot, json, last);
    return TRUE;
}

/* ---- versions ------------------------------------------------------------------------------- */

guint aq_chat_get_branches(AqChat *self, AqMessage *message, guint *ret_at)
{
    gint64 parent = aq_message_get_parent(message);
    guint n = 0;
    *ret_at = 0;
    for (guint i = 0; i < self->all->len; i++) {
        AqMessage *m = self->all->pdata[i];
        if (aq_message_get_parent(m) != parent)
            continue;
        if (m == message)
            *ret_at = n;
        n++;
    }
    return n;
}

/* The end of the newest branch from here on: numbers ascend, so one walk finds it. */
static gint64 newest_below(AqChat *self, gint64 id)
{
    for (guint i = self->all->len; i-- > 0;) {
        AqMessage *m = self->all->pdata[i];
        for (AqMessage *up = m; up; up = message_of(self, aq_message_get_parent(up)))
            if (aq_message_get_id(up) == id)
                return aq_message_get_id(m);
    }
    return id;
}

void aq_chat_step_branch(AqChat *self, AqMessage *message, int by)
{
    g_return_if_fail(AQ_IS_CHAT(self) && AQ_IS_MESSAGE(message));
    gint64 parent = aq_message_get_parent(message);
    AqMessage *before = NULL, *other = NULL;
    for (guint i = 0; i < self->all->len && !other; i++) {
        AqMessage *m = self->all->pdata[i];
        if (aq_message_get_parent(m) != parent)
            continue;
        if (by < 0 && m == message)
            other = before;
        else if (by > 0 && before == message)
            other = m;
        before = m;
    }
    if (self->reply || !other)
        return;
    self->leaf = newest_below(self, aq_message_get_id(other));
    show_branch(self);
    put_chat(self);
}

void aq_chat_delete_message(AqChat *self, AqMessage *message)
{
    g_return_if_fail(AQ_IS_CHAT(self) && AQ_IS_MESSAGE(message));
    gint64 id = aq_message_get_id(message), parent = aq_message_get_parent(message);
    if (self->reply || !message_of(self, id))
        return;
    g_autoptr(GHashTable) doomed = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func(g_object_unref);
    g_autoptr(GArray) ids = g_array_sized_new(FALSE, FALSE, sizeof(gint64), self->all->len);
    for (guint i = 0; i < self->all->len; i++) {
        AqMessage *m = self->all->pdata[i];
        gint64 above = aq_message_get_parent(m), own = aq_message_get_id(m);
        if (own != id && !g_hash_table_contains(doomed, &above))
            continue;
        g_array_append_val(ids, own); /* sized, so that it does not move */
        g_hash_table_add(doomed, &g_array_index(ids, gint64, ids->len - 1));
        g_ptr_array_add(gone, g_object_ref(m));
    }
    for (guint i = 0; i < gone->len; i++)
        forget_message(self, gone->pdata[i]);
    aq_engine_host_forget_parked(self->host);
    /* What is left there: another version, else what was before. */
    gint64 left = parent;
    for (guint i = 0; i < self->all->len; i++)
        if (aq_message_get_parent(self->all->pdata[i]) == parent)
            left = aq_message_get_id(self->all->pdata[i]);
    self->leaf = left ? newest_below(self, left) : 0;
    show_branch(self);
    put_chat(self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_EMPTY]);
}

void aq_chat_stop(AqChat *self)
{
    g_return_if_fail(AQ_IS_CHAT(self));
    if (self->reply)
        aq_reply_stop(self->reply);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void aq_chat_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
    AqChat *self = AQ_CHAT(object);
    switch (id) {
    case PROP_TITLE:
        g_value_set_string(value, aq_chat_get_title(self));
        break;
    case PROP_BUSY:
        g_value_set_boolean(value, aq_chat_get_busy(self));
        break;
    case PROP_EMPTY:
        g_value_set_boolean(value, aq_chat_get_empty(self));
        break;
    case PROP_LOADED:
        g_value_set_boolean(value, self->loaded);
        break;
    case PROP_FOLDER:
        g_value_set_string(value, self->folder);
        break;
    case PROP_UNREAD:
        g_value_set_boolean(value, self->unread);
        break;
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    }
}

static void aq_chat_dispose(GObject *object)
{
    AqChat *self = AQ_CHAT(object);
    g_clear_pointer(&self->reply, aq_reply_free);
    g_clear_handle_id(&self->flush_timer, g_source_remove);
    g_clear_object(&self->answer);
    g_clear_object(&self->messages);
    g_clear_object(&self->draft_files);
    g_clear_pointer(&self->all, g_ptr_array_unref);
    g_clear_object(&self->store);
    g_clear_object(&self->host);
    g_clear_pointer(&self->title, g_free);
    g_clear_pointer(&self->folder, g_free);
    g_clear_pointer(&self->draft, g_free);
    g_clear_pointer(&self->settings_json, g_free);
    aq_chat_settings_clear(&self->settings);
    G_OBJECT_CLASS(aq_chat_parent_class)->dispose(object);
}

static void aq_chat_class_init(AqChatClass *klass)
{
    GObjectClass *object_class = G_OBJECT_CLASS(klass);
    object_class->get_property = aq_chat_get_property;
    object_class->dispose = aq_chat_dispose;
    const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
    props[PROP_TITLE] = g_param_spec_string("title", NULL, NULL, NULL, flags);
    props[PROP_BUSY] = g_param_spec_boolean("busy", NULL, NULL, FALSE, flags);
    props[PROP_EMPTY] = g_param_spec_boolean("empty", NULL, NULL, TRUE, flags);
    props[PROP_LOADED] = g_param_spec_boolean("loaded", NULL, NULL, FALSE, flags);
    props[PROP_FOLDER] = g_param_spec_string("folder", NULL, NULL, NULL, flags);
    props[PROP_UNREAD] = g_param_spec_boolean("unread", NULL, NULL, FALSE, flags);
    g_object_class_install_properties(object_class, N_PROPS, props);
    signal_changed = g_signal_new("changed", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                  NULL, NULL, G_TYPE_NONE, 0);
    signal_ending = g_signal_new("ending", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                 NULL, NULL, G_TYPE_NONE, 0);
}

static void aq_chat_init(AqChat *self)
{
    self->messages = g_list_store_new(AQ_TYPE_MESSAGE);
    self->draft_files = g_list_store_new(AQ_TYPE_FILE);
    self->all = g_ptr_array_new_with_free_func(g_object_unref);
    self->temperature = 0.7;
    aq_chat_settings_init(&self->settings, self->temperature);
}

AqChat *aq_chat_new(AqEngineHost *host, AqChatStore *store)
{
    AqChat *self = g_object_new(AQ_TYPE_CHAT, NULL);
    self->host = g_object_ref(host);
    g_set_object(&self->store, store);
    self->id = store ? aq_chat_store_new_id(store) : 0;
    self->created_us = self->changed_us = g_get_real_time();
    self->loaded = TRUE;
    return self;
}

AqChat *aq_chat_new_stored(AqEngineHost *host, AqChatStore *store, const AqStoreChat *stored)
{
    AqChat *self = aq_chat_new(host, store);
    self->id = stored->id;
    self->created_us = stored->created_us;
    self->changed_us = stored->changed_us;
    self->leaf = stored->leaf;
    self->title = g_strdup(stored->title);
    self->folder = g_strdup(stored->folder);
    self->draft = g_strdup(stored->draft);
    self->settings_json = g_strdup(stored->settings);
    read_settings(self);
    self->loaded = FALSE;
    return self;
}
