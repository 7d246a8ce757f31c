/* SPDX-License-Identifier: Apache-2.0 */
/* All chats: those that the store has, and the new ones; by when they changed, the last one first. */
#include "aq-chats.h"

#include "aq-format.h"
#include "aq-transfer.h"

struct _AqChats {
    GObject parent;
    AqEngineHost *host;
    AqChatStore *store;
    GListStore *list;
    GtkStringList *folders;
    double temperature;
};

G_DEFINE_FINAL_TYPE(AqChats, aq_chats, G_TYPE_OBJECT)

static guint signal_moved;

static int newer_first(gconstpointer a, gconstpointer b, gpointer user)
{
    gint64 at = aq_chat_get_changed_us(AQ_CHAT((gpointer)a)),
           bt = aq_chat_get_changed_us(AQ_CHAT((gpointer)b));
    return at > bt ? -1 : at < bt;
}

static void on_chat_changed(AqChats *self, AqChat *chat)
{
    guint at;
    if (!g_list_store_find(self->list, chat, &at) || at == 0)
        return;
    g_autoptr(AqChat) keep = g_object_ref(chat);
    g_list_store_remove(self->list, at);
    g_list_store_insert_sorted(self->list, chat, newer_first, NULL);
    g_signal_emit(self, signal_moved, 0, chat);
}

static void watch(AqChats *self, AqChat *chat)
{
    aq_chat_set_temperature(chat, self->temperature);
    g_signal_connect_object(chat, "changed", G_CALLBACK(on_chat_changed), self, G_CONNECT_SWAPPED);
}

static void chats_read(GPtrArray *read, GObject *user)
{
    AqChats *self = AQ_CHATS(user);
    g_autoptr(GPtrArray) more = g_ptr_array_new_with_free_func(g_object_unref);
    if (!read)
        return;
    for (guint i = 0; i < read->len; i++) {
        const AqStoreChat *stored = read->pdata[i];
        if (aq_chats_find(self, stored->id))
            continue;
        AqChat *chat = aq_chat_new_stored(self->host, self->store, stored);
        watch(self, chat);
        g_ptr_array_add(more, chat);
    }
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    g_list_store_splice(self->list, n, 0, more->pdata, more->len);
    /* Those of this run are newer than all that were read, unless the clock went back. */
    g_ptr_array_unref(read);
}

/* ---- folders -------------------------------------------------------------------------------- */

GListModel *aq_chats_get_folders(AqChats *self)
{
    return G_LIST_MODEL(self->folders);
}

/* Where a name stands, or would stand. */
static guint folder_place(AqChats *self, const char *name, gboolean *ret_there)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->folders)), at = 0;
    *ret_there = FALSE;
    for (guint i = 0; i < n; i++) {
        const char *other = gtk_string_list_get_string(self->folders, i);
        if (g_str_equal(other, name)) {
            *ret_there = TRUE;
            return i;
        }
        if (g_utf8_collate(other, name) < 0)
            at = i + 1;
    }
    return at;
}

/* In the list, if it is not there yet. */
static gboolean list_folder(AqChats *self, const char *name)
{
    gboolean there;
    guint at = folder_place(self, name, &there);
    if (!there)
        gtk_string_list_splice(self->folders, at, 0, (const char *const[]){name, NULL});
    return !there;
}

gboolean aq_chats_add_folder(AqChats *self, const char *name)
{
    g_autofree char *clean = aq_format_title(name);
    if (!clean || !list_folder(self, clean))
        return FALSE;
    aq_chat_store_put_folder(self->store, clean);
    return TRUE;
}

static void move_all(AqChats *self, const char *from, const char *to)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        if (g_strcmp0(aq_chat_get_folder(chat), from) == 0)
            aq_chat_set_folder(chat, to);
    }
}

void aq_chats_drop_folder(AqChats *self, const char *name)
{
    gboolean there;
    g_autofree char *keep = g_strdup(name); /* it may be the list's own */
    guint at = folder_place(self, keep, &there);
    if (!there)
        return;
    move_all(self, keep, NULL);
    gtk_string_list_remove(self->folders, at);
    aq_chat_store_drop_folder(self->store, keep);
}

gboolean aq_chats_rename_folder(AqChats *self, const char *name, const char *to)
{
    gboolean there;
    g_autofree char *keep = g_strdup(name), *clean = aq_format_title(to);
    guint at = folder_place(self, keep, &there);
    if (!there || !clean || !aq_chats_add_folder(self, clean))
        return FALSE;
    move_all(self, keep, clean);
    at = folder_place(self, keep, &there);
    gtk_string_list_remove(self->folders, at);
    aq_chat_store_drop_folder(self->store, keep);
    return TRUE;
}

static void folders_read(GPtrArray *read, GObject *user)
{
    for (guint i = 0; read && i < read->len; i++)
        if (read->pdata[i])
            list_folder(AQ_CHATS(user), read->pdata[i]);
    g_clear_pointer(&read, g_ptr_array_unref);
}

/* ---- chats ---------------------------------------------------------------------------------- */

guint aq_chats_import(AqChats *self, GPtrArray *copies)
{
    for (guint i = 0; i < copies->len; i++) {
        const AqChatCopy *copy = copies->pdata[i];
        AqStoreChat c = *copy->chat;
        g_autofree char *title = aq_format_title(c.title ? c.title : ""), *folder = NULL;
        g_autofree gint64 *ids = g_new(gint64, copy->messages->len + 1);
        c.id = aq_chat_store_new_id(self->store);
        ids[0] = 0;
        for (guint k = 0; k < copy->messages->len; k++)
            ids[k + 1] = aq_chat_store_new_id(self->store);
        c.leaf = ids[c.leaf];
        c.title = title;
        c.folder = folder = c.folder ? aq_format_title(c.folder) : NULL;
        c.draft = NULL;
        aq_chat_store_put_chat(self->store, &c);
        if (folder)
            aq_chats_add_folder(self, folder);
        for (guint k = 0; k < copy->messages->len; k++) {
            AqStoreMessage m = *(const AqStoreMessage *)copy->messages->pdata[k];
            m.id = ids[k + 1];
            m.parent = ids[m.parent];
            m.chat = c.id;
            aq_chat_store_put_message(self->store, &m, NULL);
        }
        g_autoptr(AqChat) chat = aq_chat_new_stored(self->host, self->store, &c);
        watch(self, chat);
        g_list_store_insert_sorted(self->list, chat, newer_first, NULL);
    }
    return copies->len;
}

static void on_opened(AqChats *self)
{
    aq_chat_store_folders(self->store, folders_read, G_OBJECT(self));
    aq_chat_store_list(self->store, chats_read, G_OBJECT(self));
}

static void on_reset(AqChats *self)
{
    guint n_folders = g_list_model_get_n_items(G_LIST_MODEL(self->folders));
    for (guint i = 0; i < n_folders; i++)
        aq_chat_store_put_folder(self->store, gtk_string_list_get_string(self->folders, i));
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        aq_chat_put_all(chat);
    }
}

static void on_saved(AqChats *self, GObject *owner)
{
    if (AQ_IS_MESSAGE(owner))
        aq_message_set_saved(AQ_MESSAGE(owner), TRUE);
}

GListModel *aq_chats_get_list(AqChats *self)
{
    return G_LIST_MODEL(self->list);
}

AqChatStore *aq_chats_get_store(AqChats *self)
{
    return self->store;
}

AqChat *aq_chats_find(AqChats *self, gint64 id)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        if (aq_chat_get_id(chat) == id)
            return chat; /* the list has it */
    }
    return NULL;
}

AqChat *aq_chats_add(AqChats *self)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        if (aq_chat_get_empty(chat))
            return chat;
    }
    g_autoptr(AqChat) chat = aq_chat_new(self->host, self->store);
    watch(self, chat);
    g_list_store_insert(self->list, 0, chat);
    return chat;
}

void aq_chats_remove(AqChats *self, AqChat *chat)
{
    guint at;
    aq_chat_stop(chat);
    aq_chat_set_deleted(chat, TRUE);
    aq_engine_host_forget_parked(self->host); /* if it is restored, it is read again */
    if (aq_chat_get_empty(chat))
        aq_chat_drop(chat);
    if (g_list_store_find(self->list, chat, &at))
        g_list_store_remove(self->list, at);
}

void aq_chats_restore(AqChats *self, AqChat *chat)
{
    aq_chat_set_deleted(chat, FALSE);
    g_list_store_insert_sorted(self->list, chat, newer_first, NULL);
}

void aq_chats_forget(AqChats *self, AqChat *chat)
{
    aq_chat_drop(chat);
}

void aq_chats_close(AqChats *self, void (*done)(gpointer user), gpointer user)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        aq_chat_end(chat);
    }
    aq_chat_store_close(self->store, done, user);
}

static void aq_chats_dispose(GObject *object)
{
    AqChats *self = AQ_CHATS(object);
    g_clear_object(&self->list);
    g_clear_object(&self->folders);
    g_clear_object(&self->store);
    g_clear_object(&self->host);
    G_OBJECT_CLASS(aq_chats_parent_class)->dispose(object);
}

static void aq_chats_class_init(AqChatsClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = aq_chats_dispose;
    signal_moved = g_signal_new("moved", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                NULL, G_TYPE_NONE, 1, AQ_TYPE_CHAT);
}

static void aq_chats_init(AqChats *self)
{
    self->list = g_list_store_new(AQ_TYPE_CHAT);
    self->folders = gtk_string_list_new(NULL);
}

AqChats *aq_chats_new(AqEngineHost *host, AqChatStore *store, double temperature)
{
    AqChats *self = g_object_new(AQ_TYPE_CHATS, NULL);
    self->host = g_object_ref(host);
    self->store = g_object_ref(store);
    self->temperature = temperature;
    g_signal_connect_object(store, "opened", G_CALLBACK(on_opened), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(store, "reset", G_CALLBACK(on_reset), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(store, "saved", G_CALLBACK(on_saved), self, G_CONNECT_SWAPPED);
    return self;
}
