/* SPDX-License-Identifier: Apache-2.0 */
/* A chat: its messages, its title, the answer under way. All chats share one engine, which keeps the longest known prefix of each, so a
 * chat always sends its whole history. Main thread. */
#include "aq-chat.h"

#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq-reply.h"

struct _AqChat {
    GObject parent;
    AqEngineHost *host;
    GListStore *messages;
    AqReply *reply; /* under way, or NULL */
    char *title;    /* NULL until something was asked */
    double temperature;
};

enum { PROP_TITLE = 1, PROP_BUSY, PROP_EMPTY, N_PROPS };
static GParamSpec *props[N_PROPS];

G_DEFINE_FINAL_TYPE(AqChat, aq_chat, G_TYPE_OBJECT)

const char *aq_chat_get_title(AqChat *self)
{
    return self->title ? self->title : _("New Chat");
}

gboolean aq_chat_get_busy(AqChat *self)
{
    return self->reply != NULL;
}

gboolean aq_chat_get_empty(AqChat *self)
{
    return g_list_model_get_n_items(G_LIST_MODEL(self->messages)) == 0;
}

GListModel *aq_chat_get_messages(AqChat *self)
{
    return G_LIST_MODEL(self->messages);
}

AqEngineHost *aq_chat_get_host(AqChat *self)
{
    return self->host;
}

void aq_chat_set_temperature(AqChat *self, double temperature)
{
    self->temperature = temperature;
}

char *aq_chat_to_json(AqChat *self, guint n)
{
    AQ_AUTO(aq_bytes_clear) aq_bytes out = {0};
    gboolean ok = aq_bytes_puts(&out, "[") >= 0, first = TRUE;
    for (guint i = 0; ok && i < n; i++) {
        g_autoptr(AqMessage) m = g_list_model_get_item(G_LIST_MODEL(self->messages), i);
        gboolean user = aq_message_get_role(m) == AQ_MESSAGE_USER;
        gsize n_text;
        const char *text = aq_message_get_text(m, &n_text);
        if (!user && (aq_message_get_state(m) == AQ_MESSAGE_FAILED || !n_text))
            continue;
        ok = aq_bytes_putf(&out, "%s{\"role\":\"%s\",\"content\":", first ? "" : ",",
                           user ? "user" : "assistant") >= 0 &&
             aq_json_quote(&out, text, n_text) >= 0 && aq_bytes_puts(&out, "}") >= 0;
        first = FALSE;
    }
    ok = ok && aq_bytes_puts(&out, "]") >= 0;
    return ok ? g_strndup((const char *)out.p, out.n) : NULL;
}

static void reply_ended(gpointer user)
{
    AqChat *self = user;
    g_clear_pointer(&self->reply, aq_reply_free);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_BUSY]);
}

/* The question is the last message. */
static gboolean ask(AqChat *self)
{
    g_autoptr(AqEngineSlot) slot = aq_engine_host_ref_slot(self->host);
    g_autofree char *json =
        aq_chat_to_json(self, g_list_model_get_n_items(G_LIST_MODEL(self->messages)));
    g_autoptr(AqMessage) answer = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);

    g_list_store_append(self->messages, answer);
    if (!slot || !json) {
        aq_err err;
        aq_fail(&err, slot ? AQ_E_LIMIT : AQ_E_GONE, "%s",
                slot ? _("The chat is too long: start a new one") : _("No model is loaded"));
        aq_message_fail(answer, &err);
        return FALSE;
    }
    self->reply = aq_reply_start(slot, json, self->temperature, answer, reply_ended, self);
    g_object_notify_by_pspec(G_OBJECT(self), props[PROP_BUSY]);
    return TRUE;
}

gboolean aq_chat_send(AqChat *self, const char *text)
{
    g_return_val_if_fail(AQ_IS_CHAT(self) && text, FALSE);
    if (self->reply || !aq_engine_host_can_answer(self->host))
        return FALSE;
    g_autofree char *clean = g_strstrip(g_strdup(text));
    if (!*clean)
        return FALSE;
    gboolean was_empty = aq_chat_get_empty(self);
    g_autoptr(AqMessage) question = aq_message_new(AQ_MESSAGE_USER, clean);
    g_list_store_append(self->messages, question);
    if (was_empty) {
        self->title = aq_format_title(clean);
        g_object_notify_by_pspec(G_OBJECT(self), props[PROP_TITLE]);
        g_object_notify_by_pspec(G_OBJECT(self), props[PROP_EMPTY]);
    }
    ask(self);
    return TRUE;
}

gboolean aq_chat_ask_again(AqChat *self)
{
    g_return_val_if_fail(AQ_IS_CHAT(self), FALSE);
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->messages));
    if (self->reply || n < 2 || !aq_engine_host_can_answer(self->host))
        return FALSE;
    g_list_store_remove(self->messages, n - 1);
    ask(self);
    return TRUE;
}

void aq_chat_stop(AqChat *self)
{
    g_return_if_fail(AQ_IS_CHAT(self));
    if (self->reply)
        aq_reply_stop(self->reply);
}

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
    default:
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
    }
}

static void aq_chat_dispose(GObject *object)
{
    AqChat *self = AQ_CHAT(object);
    g_clear_pointer(&self->reply, aq_reply_free);
    g_clear_object(&self->messages);
    g_clear_object(&self->host);
    g_clear_pointer(&self->title, g_free);
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
    g_object_class_install_properties(object_class, N_PROPS, props);
}

static void aq_chat_init(AqChat *self)
{
    self->messages = g_list_store_new(AQ_TYPE_MESSAGE);
    self->temperature = 0.7;
}

AqChat *aq_chat_new(AqEngineHost *host)
{
    AqChat *self = g_object_new(AQ_TYPE_CHAT, NULL);
    self->host = g_object_ref(host);
    return self;
}
