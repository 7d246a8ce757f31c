/* SPDX-License-Identifier: Apache-2.0 */
/* Chats as files.
 *
 *   { "format": "aquifer-chats", "version": 1, "chats": [
 *       { "title": …, "created": "2026-01-31T12:00:00Z", "changed": …, "folder": …, "settings": {…}, "leaf": 4,
 *         "messages": [ { "parent": 0, "role": "user" | "assistant", "text": …, "thinking": …, "model": …, "created": …,
 *                         "state": "stopped" | "full", "files": [ { "name": …, "text": … } ] } ] } ] }
 *
 * Messages are numbered from 1 in their order; a parent is an earlier one, 0 is none. "leaf" is the last one of the branch in view. What is
 * not there is left out. Answers that failed are not written. */
#include "aq-transfer.h"

#include <glib/gi18n.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "aq-file.h"
#include "aq-json-read.h"
#include "aq-message.h"

#define FORMAT "aquifer-chats"
#define VERSION 1
#define TITLE_BYTES 400

AqChatCopy *aq_chat_copy_new(AqStoreChat *chat, GPtrArray *messages)
{
    AqChatCopy *copy = g_new0(AqChatCopy, 1);
    copy->chat = chat;
    copy->messages = messages;
    return copy;
}

void aq_chat_copy_free(AqChatCopy *copy)
{
    if (!copy)
        return;
    aq_store_chat_free(copy->chat);
    g_clear_pointer(&copy->messages, g_ptr_array_unref);
    g_free(copy);
}

static const AqStoreMessage *message_of(const AqChatCopy *copy, gint64 id)
{
    for (guint i = 0; i < copy->messages->len; i++) {
        const AqStoreMessage *m = copy->messages->pdata[i];
        if (m->id == id)
            return m;
    }
    return NULL;
}

/* ---- written as Markdown -------------------------------------------------------------------- */

/* The messages of the branch in view, first to last. */
static GPtrArray *branch(const AqChatCopy *copy)
{
    GPtrArray *path = g_ptr_array_new();
    const AqStoreMessage *m = message_of(copy, copy->chat->leaf);
    if (!m && copy->messages->len)
        m = copy->messages->pdata[copy->messages->len - 1];
    for (; m; m = m->parent < m->id ? message_of(copy, m->parent) : NULL)
        g_ptr_array_insert(path, 0, (gpointer)m);
    return path;
}

char *aq_transfer_markdown(const AqChatCopy *copy)
{
    g_autoptr(GPtrArray) path = branch(copy);
    GString *s = g_string_new(NULL);
    g_string_append_printf(s, "# %s\n", copy->chat->title ? copy->chat->title : _("New Chat"));
    for (guint i = 0; i < path->len; i++) {
        const AqStoreMessage *m = path->pdata[i];
        gboolean user = m->role == AQ_MESSAGE_USER;
        if (m->state == AQ_MESSAGE_FAILED)
            continue;
        g_string_append_printf(s, "\n## %s\n\n",
                               user       ? _("Question")
                               : m->model ? m->model
                                          : _("Answer"));
        g_string_append(s, m->text ? m->text : "");
        if (!s->len || s->str[s->len - 1] != '\n')
            g_string_append_c(s, '\n');
    }
    return g_string_free(s, FALSE);
}

/* ---- written as JSON ------------------------------------------------------------------------ */

static void put_string(JsonBuilder *b, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    json_builder_set_member_name(b, name);
    json_builder_add_string_value(b, value);
}

static void put_time(JsonBuilder *b, const char *name, gint64 us)
{
    g_autoptr(GDateTime) t = g_date_time_new_from_unix_utc(us / G_USEC_PER_SEC);
    g_autofree char *text = t && us > 0 ? g_date_time_format_iso8601(t) : NULL;
    put_string(b, name, text);
}

static void put_number(JsonBuilder *b, const char *name, gint64 value)
{
    json_builder_set_member_name(b, name);
    json_builder_add_int_value(b, value);
}

static void put_files(JsonBuilder *b, GPtrArray *files)
{
    json_builder_set_member_name(b, "files");
    json_builder_begin_array(b);
    for (guint i = 0; i < files->len; i++) {
        json_builder_begin_object(b);
        put_string(b, "name", aq_file_get_name(files->pdata[i]));
        put_string(b, "text", aq_file_get_text(files->pdata[i], NULL));
        json_builder_end_object(b);
    }
    json_builder_end_array(b);
}

static void put_message(JsonBuilder *b, const AqStoreMessage *m, GHashTable *numbers)
{
    gint64 parent = GPOINTER_TO_INT(g_hash_table_lookup(numbers, &m->parent));
    json_builder_begin_object(b);
    put_number(b, "parent", parent);
    put_string(b, "role", m->role == AQ_MESSAGE_USER ? "user" : "assistant");
    json_builder_set_member_name(b, "text");
    json_builder_add_string_value(b, m->text ? m->text : "");
    put_string(b, "thinking", m->thinking);
    put_string(b, "model", m->model);
    put_time(b, "created", m->created_us);
    put_string(b, "state",
               m->state == AQ_MESSAGE_FULL   ? "full"
               : m->state == AQ_MESSAGE_DONE ? NULL
                                             : "stopped");
    if (m->files && m->files->len)
        put_files(b, m->files);
    json_builder_end_object(b);
}

static void put_chat(JsonBuilder *b, const AqChatCopy *copy)
{
    const AqStoreChat *c = copy->chat;
    g_autoptr(GHashTable) numbers = g_hash_table_new(g_int64_hash, g_int64_equal);
    JsonNode *settings = NULL;
    json_builder_begin_object(b);
    put_string(b, "title", c->title);
    put_time(b, "created", c->created_us);
    put_time(b, "changed", c->changed_us);
    put_string(b, "folder", c->folder);
    if (c->settings && aq_json_read(c->settings, strlen(c->settings), 1u << 20, AQ_TRANSFER_DEPTH,
                                    &settings, NULL) >= 0) {
        json_builder_set_member_name(b, "settings");
        json_builder_add_value(b, settings);
    }
    json_builder_set_member_name(b, "messages");
    json_builder_begin_array(b);
    int n = 0;
    for (guint i = 0; i < copy->messages->len; i++) {
        const AqStoreMessage *m = copy->messages->pdata[i];
        if (m->state == AQ_MESSAGE_FAILED)
            continue;
        put_message(b, m, numbers);
        g_hash_table_insert(numbers, (gpointer)&m->id, GINT_TO_POINTER(++n));
    }
    json_builder_end_array(b);
    put_number(b, "leaf", GPOINTER_TO_INT(g_hash_table_lookup(numbers, &c->leaf)));
    json_builder_end_object(b);
}

char *aq_transfer_json(GPtrArray *copies)
{
    g_autoptr(JsonBuilder) b = json_builder_new();
    json_builder_begin_object(b);
    put_string(b, "format", FORMAT);
    put_number(b, "version", VERSION);
    json_builder_set_member_name(b, "chats");
    json_builder_begin_array(b);
    for (guint i = 0; i < copies->len; i++)
        put_chat(b, copies->pdata[i]);
    json_builder_end_array(b);
    json_builder_end_object(b);
    g_autoptr(JsonNode) root = json_builder_get_root(b);
    return json_to_string(root, TRUE);
}

/* ---- read ----------------------------------------------------------------------------------- */

typedef struct {
    GPtrArray *copies;
    guint n_messages;
} Read;

static gint64 time_of(const char *text)
{
    g_autoptr(GDateTime) t = text ? g_date_time_new_from_iso8601(text, NULL) : NULL;
    return t ? g_date_time_to_unix(t) * G_USEC_PER_SEC : 0;
}

/* Seconds of other programs, or thousandths of them. */
static gint64 time_of_number(double value)
{
    if (value > 1e11)
        value /= 1000;
    return value > 0 && value < 4e9 ? (gint64)(value * G_USEC_PER_SEC) : 0;
}

static AqChatCopy *add_chat(Read *r, const char *title, gint64 created_us, gint64 changed_us)
{
    AqStoreChat c = {.created_us = created_us ? created_us : g_get_real_time()};
    c.changed_us = changed_us ? changed_us : c.created_us;
    AqChatCopy *copy =
        aq_chat_copy_new(aq_store_chat_copy(&c),
                         g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_message_free));
    if (title && *title) {
        const char *end = title + MIN(strlen(title), TITLE_BYTES);
        while (*end && ((guchar)*end & 0xc0) == 0x80)
            end--;
        copy->chat->title = g_strndup(title, (gsize)(end - title));
    }
    g_ptr_array_add(r->copies, copy);
    return copy;
}

/* The message, to which more may be set; NULL: too many. */
static AqStoreMessage *add_message(Read *r, AqChatCopy *copy, gint64 parent, gboolean user,
                                   const char *text)
{
    if (++r->n_messages > AQ_TRANSFER_MESSAGES)
        return NULL;
    const AqStoreMessage in = {.id = copy->messages->len + 1,
                               .parent = parent,
                               .role = user ? AQ_MESSAGE_USER : AQ_MESSAGE_ASSISTANT,
                               .state = AQ_MESSAGE_DONE,
                               .created_us = copy->chat->created_us,
                               .text = (char *)(text ? text : "")};
    AqStoreMessage *m = aq_store_message_copy(&in);
    g_ptr_array_add(copy->messages, m);
    copy->chat->leaf = m->id;
    return m;
}

/* TRUE: user or assistant; other messages (system, tools) are not shown in a chat. */
static gboolean role_of(const char *role, gboolean *ret_user)
{
    *ret_user = g_strcmp0(role, "user") == 0;
    return *ret_user || g_strcmp0(role, "assistant") == 0;
}

static int too_many(aq_err *err)
{
    return aq_fail(err, AQ_E_LIMIT, _("It has more than %d messages"), AQ_TRANSFER_MESSAGES);
}

/* ---- our own -------------------------------------------------------------------------------- */

/* Of a message, or NULL. What could not have been attached is passed over. */
static GPtrArray *read_files(JsonArray *array)
{
    guint n = array ? MIN(json_array_get_length(array), AQ_FILES_MAX) : 0;
    GPtrArray *files = n ? g_ptr_array_new_with_free_func(g_object_unref) : NULL;
    for (guint i = 0; i < n; i++) {
        JsonObject *o = aq_element_object(array, i);
        const char *name = o ? aq_member_string(o, "name") : NULL,
                   *text = o ? aq_member_string(o, "text") : NULL;
        AqFile *file = name && text ? aq_file_check(name, text, strlen(text), NULL) : NULL;
        if (file)
            g_ptr_array_add(files, file);
    }
    return files;
}

static int read_own_messages(Read *r, AqChatCopy *copy, JsonArray *messages, aq_err *err)
{
    guint n = json_array_get_length(messages);
    for (guint i = 0; i < n; i++) {
        JsonObject *o = aq_element_object(messages, i);
        gboolean user;
        if (!o || !role_of(aq_member_string(o, "role"), &user))
            return aq_fail(err, AQ_E_FORMAT, _("Message %u of “%s” has no role"), i + 1,
                           copy->chat->title ? copy->chat->title : "");
        gint64 parent = aq_member_int(o, "parent", i);
        if (parent < 0 || parent > i)
            return aq_fail(err, AQ_E_FORMAT, _("Message %u of “%s” follows one that is not there"),
                           i + 1, copy->chat->title ? copy->chat->title : "");
        AqStoreMessage *m = add_message(r, copy, parent, user, aq_member_string(o, "text"));
        if (!m)
            return too_many(err);
        const char *state = aq_member_string(o, "state");
        m->state = g_strcmp0(state, "full") == 0      ? AQ_MESSAGE_FULL
                   : g_strcmp0(state, "stopped") == 0 ? AQ_MESSAGE_STOPPED
                                                      : AQ_MESSAGE_DONE;
        m->thinking = g_strdup(aq_member_string(o, "thinking"));
        m->model = g_strdup(aq_member_string(o, "model"));
        m->files = read_files(aq_member_array(o, "files"));
        gint64 created_us = time_of(aq_member_string(o, "created"));
        if (created_us > 0)
            m->created_us = created_us;
    }
    return 0;
}

static int read_own(Read *r, JsonObject *root, aq_err *err)
{
    JsonArray *chats = aq_member_array(root, "chats");
    gint64 version = aq_member_int(root, "version", 0);
    if (version > VERSION)
        return aq_fail(err, AQ_E_MISMATCH, "%s", _("It was written by a newer Aquifer"));
    if (version < 1 || !chats)
        return aq_fail(err, AQ_E_FORMAT, "%s", _("It lacks its version or its chats"));
    guint n = json_array_get_length(chats);
    for (guint i = 0; i < n; i++) {
        JsonObject *o = aq_element_object(chats, i);
        JsonArray *messages = o ? aq_member_array(o, "messages") : NULL;
        if (!messages)
            return aq_fail(err, AQ_E_FORMAT, _("Chat %u has no messages"), i + 1);
        AqChatCopy *copy =
            add_chat(r, aq_member_string(o, "title"), time_of(aq_member_string(o, "created")),
                     time_of(aq_member_string(o, "changed")));
        copy->chat->folder = g_strdup(aq_member_string(o, "folder"));
        JsonNode *settings = json_object_get_member(o, "settings");
        if (settings && JSON_NODE_HOLDS_OBJECT(settings))
            copy->chat->settings = json_to_string(settings, FALSE);
        int rc = read_own_messages(r, copy, messages, err);
        if (rc < 0)
            return rc;
        gint64 leaf = aq_member_int(o, "leaf", copy->chat->leaf);
        if (leaf > 0 && leaf <= copy->messages->len)
            copy->chat->leaf = leaf;
    }
    return 0;
}

/* ---- of others ------------------------------------------------------------------------------ */

/* Content is a text, or parts with one each: "…", ["…"], [{"type": "text", "text": "…"}], {"parts": […]}. Free it. */
static char *content_of(JsonNode *node)
{
    if (node && JSON_NODE_HOLDS_OBJECT(node))
        node = json_object_get_member(json_node_get_object(node), "parts");
    if (node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING)
        return g_strdup(json_node_get_string(node));
    if (!node || !JSON_NODE_HOLDS_ARRAY(node))
        return NULL;
    JsonArray *parts = json_node_get_array(node);
    GString *s = g_string_new(NULL);
    guint n = json_array_get_length(parts);
    for (guint i = 0; i < n; i++) {
        JsonNode *part = json_array_get_element(parts, i);
        const char *text = NULL;
        if (JSON_NODE_HOLDS_OBJECT(part))
            text = aq_member_string(json_node_get_object(part), "text");
        else if (JSON_NODE_HOLDS_VALUE(part) && json_node_get_value_type(part) == G_TYPE_STRING)
            text = json_node_get_string(part);
        if (text)
            g_string_append_printf(s, "%s%s", s->len ? "\n\n" : "", text);
    }
    return g_string_free(s, FALSE);
}

/* LM Studio keeps versions of a message, and of an answer its steps. */
static JsonObject *chosen_version(JsonObject *message)
{
    JsonArray *versions = aq_member_array(message, "versions");
    guint n = versions ? json_array_get_length(versions) : 0;
    gint64 at = aq_member_int(message, "currentlySelected", 0);
    return n ? aq_element_object(versions, at >= 0 && at < n ? (guint)at : n - 1) : message;
}

static char *steps_of(JsonObject *version)
{
    JsonArray *steps = aq_member_array(version, "steps");
    guint n = steps ? json_array_get_length(steps) : 0;
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < n; i++) {
        JsonObject *step = aq_element_object(steps, i);
        g_autofree char *text = step ? content_of(json_object_get_member(step, "content")) : NULL;
        if (text && *text)
            g_string_append_printf(s, "%s%s", s->len ? "\n\n" : "", text);
    }
    return g_string_free(s, FALSE);
}

static int read_messages(Read *r, JsonObject *chat, JsonArray *messages, aq_err *err)
{
    const char *title = aq_member_string(chat, "title");
    AqChatCopy *copy = add_chat(r, title ? title : aq_member_string(chat, "name"),
                                time_of_number(aq_member_double(chat, "createdAt", 0)), 0);
    guint n = json_array_get_length(messages);
    for (guint i = 0; i < n; i++) {
        JsonObject *o = aq_element_object(messages, i), *v = o ? chosen_version(o) : NULL;
        gboolean user;
        if (!v || !role_of(aq_member_string(v, "role"), &user))
            continue;
        g_autofree char *text = aq_member_array(v, "steps")
                                    ? steps_of(v)
                                    : content_of(json_object_get_member(v, "content"));
        if (text && !add_message(r, copy, copy->messages->len, user, text))
            return too_many(err);
    }
    return 0;
}

/* ChatGPT keeps a tree of nodes by name; the branch that ends in current_node is taken. */
static int read_mapping(Read *r, JsonObject *chat, JsonObject *mapping, aq_err *err)
{
    g_autoptr(GPtrArray) path = g_ptr_array_new();
    guint most = json_object_get_size(mapping);
    const char *at = aq_member_string(chat, "current_node");
    /* As many steps as there are nodes: a ring ends, too. */
    for (guint i = 0; at && i < most; i++) {
        JsonObject *node = aq_member_object(mapping, at);
        if (!node)
            break;
        JsonObject *message = aq_member_object(node, "message");
        if (message)
            g_ptr_array_add(path, message);
        at = aq_member_string(node, "parent");
    }
    AqChatCopy *copy = add_chat(r, aq_member_string(chat, "title"),
                                time_of_number(aq_member_double(chat, "create_time", 0)),
                                time_of_number(aq_member_double(chat, "update_time", 0)));
    for (guint i = path->len; i-- > 0;) {
        JsonObject *o = path->pdata[i], *author = aq_member_object(o, "author");
        gboolean user;
        if (!author || !role_of(aq_member_string(author, "role"), &user))
            continue;
        g_autofree char *text = content_of(json_object_get_member(o, "content"));
        if (text && *text && !add_message(r, copy, copy->messages->len, user, text))
            return too_many(err);
    }
    return 0;
}

static int read_object(Read *r, JsonObject *o, aq_err *err)
{
    JsonObject *mapping = aq_member_object(o, "mapping");
    JsonArray *messages = aq_member_array(o, "messages");
    if (g_strcmp0(aq_member_string(o, "format"), FORMAT) == 0)
        return read_own(r, o, err);
    if (mapping)
        return read_mapping(r, o, mapping, err);
    if (messages)
        return read_messages(r, o, messages, err);
    return aq_fail(err, AQ_E_FORMAT, "%s", _("It holds no chats that Aquifer knows"));
}

static int read_array(Read *r, JsonArray *array, aq_err *err)
{
    guint n = json_array_get_length(array);
    JsonObject *first = n ? aq_element_object(array, 0) : NULL;
    if (first && json_object_has_member(first, "role")) {
        g_autoptr(JsonObject) chat = json_object_new();
        return read_messages(r, chat, array, err);
    }
    for (guint i = 0; i < n; i++) {
        JsonObject *o = aq_element_object(array, i);
        int rc = o ? read_object(r, o, err)
                   : aq_fail(err, AQ_E_FORMAT, "%s", _("It holds no chats that Aquifer knows"));
        if (rc < 0)
            return rc;
    }
    return 0;
}

int aq_transfer_read(const char *text, gsize n, GPtrArray **ret, aq_err *err)
{
    g_autoptr(JsonNode) root = NULL;
    g_autoptr(GPtrArray) copies = g_ptr_array_new_with_free_func((GDestroyNotify)aq_chat_copy_free);
    Read r = {.copies = copies};
    int rc = aq_json_read(text, n, AQ_TRANSFER_MAX_BYTES, AQ_TRANSFER_DEPTH, &root, err);
    if (rc < 0)
        return rc;
    if (JSON_NODE_HOLDS_OBJECT(root))
        rc = read_object(&r, json_node_get_object(root), err);
    else if (JSON_NODE_HOLDS_ARRAY(root))
        rc = read_array(&r, json_node_get_array(root), err);
    else
        rc = aq_fail(err, AQ_E_FORMAT, "%s", _("It holds no chats that Aquifer knows"));
    if (rc < 0)
        return rc;
    /* A chat that nothing was said in is not worth a place in the list. */
    for (guint i = copies->len; i-- > 0;)
        if (!((AqChatCopy *)copies->pdata[i])->messages->len)
            g_ptr_array_remove_index(copies, i);
    if (!copies->len)
        return aq_fail(err, AQ_E_FORMAT, "%s", _("There are no messages in it"));
    *ret = g_steal_pointer(&copies);
    return 0;
}
