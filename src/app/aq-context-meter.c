/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the context a chat fills: the very tokens that the engine would read for it, by the model's own template, counted on a worker
 * COUNT_MS after the last change, never while an answer is written. */
#include "aq-context-meter.h"

#include <glib/gi18n.h>

#define COUNT_MS 400
#define WARN_PERCENT 85

struct _AqContextMeter {
    AdwBin parent;
    GtkWidget *label, *warning, *warning_label;
    AqChat *chat;
    char *draft;
    guint timer;
    gboolean counting, again;
};

G_DEFINE_FINAL_TYPE(AqContextMeter, aq_context_meter, ADW_TYPE_BIN)

typedef struct {
    AqEngineSlot *slot; /* let go on the main thread */
    char *json, *vars, *draft;
    guint n_ctx, n_tok;
    gboolean known;
} Count;

static void later(AqContextMeter *self);

static void count_free(gpointer data)
{
    Count *c = data;
    g_free(c->json);
    g_free(c->vars);
    g_free(c->draft);
    g_free(c);
}

static void count_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Count *c = data;
    const aq_model *model = aq_engine_slot_get_model(c->slot);
    const aq_req_in in = {.messages_json = c->json, .vars_json = c->vars};
    aq_toks toks = {0};
    /* An empty chat has no prompt yet. */
    gboolean empty = g_str_equal(c->json, "[]");
    if ((empty || aq_chat_prompt(model, &in, NULL, &toks, NULL) >= 0) &&
        aq_tokenize(model, c->draft, strlen(c->draft), FALSE, &toks, NULL) >= 0) {
        c->n_tok = toks.n;
        c->known = TRUE;
    }
    aq_toks_clear(&toks);
    g_task_return_boolean(task, TRUE);
}

static void show(AqContextMeter *self, const Count *c)
{
    gboolean full = c->known && c->n_tok >= c->n_ctx;
    gboolean warn = c->known && (guint64)c->n_tok * 100 >= (guint64)c->n_ctx * WARN_PERCENT;
    gtk_widget_set_visible(self->label, c->known && c->n_tok > 0);
    gtk_widget_set_visible(self->warning, warn);
    if (!c->known)
        return;
    /* Translators: tokens of the chat, tokens that the context holds */
    g_autofree char *text = g_strdup_printf(_("%'u of %'u tokens"), c->n_tok, c->n_ctx);
    gtk_label_set_text(GTK_LABEL(self->label), text);
    if (!warn)
        return;
    gtk_label_set_text(
        GTK_LABEL(self->warning_label),
        full ? _("The context is full: start a new chat, or delete messages that are not needed.")
             : _("The context is nearly full: soon only short answers fit. A new chat has room."));
}

static void counted(GObject *source, GAsyncResult *result, gpointer user)
{
    AqContextMeter *self = AQ_CONTEXT_METER(source);
    Count *c = g_task_get_task_data(G_TASK(result));
    g_clear_pointer(&c->slot, aq_engine_slot_unref);
    self->counting = FALSE;
    if (!self->chat)
        return;
    show(self, c);
    if (self->again)
        later(self);
    self->again = FALSE;
}

static gboolean on_timer(gpointer user)
{
    AqContextMeter *self = user;
    self->timer = 0;
    AqEngineHost *host = aq_chat_get_host(self->chat);
    if (aq_chat_get_busy(self->chat) || !aq_chat_get_loaded(self->chat))
        return G_SOURCE_REMOVE;
    if (self->counting) {
        self->again = TRUE;
        return G_SOURCE_REMOVE;
    }
    Count *c = g_new0(Count, 1);
    c->slot = aq_engine_host_ref_slot(host);
    c->n_ctx = aq_engine_host_get_n_ctx(host);
    c->json = aq_chat_to_json(self->chat,
                              g_list_model_get_n_items(aq_chat_get_messages(self->chat)), NULL);
    c->vars = g_strdup(aq_chat_get_vars(self->chat));
    c->draft = g_strdup(self->draft ? self->draft : "");
    if (!c->slot || !c->json) {
        gtk_widget_set_visible(self->label, FALSE);
        gtk_widget_set_visible(self->warning, FALSE);
        g_clear_pointer(&c->slot, aq_engine_slot_unref);
        count_free(c);
        return G_SOURCE_REMOVE;
    }
    self->counting = TRUE;
    g_autoptr(GTask) task = g_task_new(self, NULL, counted, NULL);
    g_task_set_task_data(task, c, count_free);
    g_task_run_in_thread(task, count_thread);
    return G_SOURCE_REMOVE;
}

static void later(AqContextMeter *self)
{
    if (!self->chat || aq_chat_get_busy(self->chat))
        return;
    g_clear_handle_id(&self->timer, g_source_remove);
    self->timer = g_timeout_add(COUNT_MS, on_timer, self);
}

void aq_context_meter_set_draft(AqContextMeter *self, const char *text)
{
    if (g_set_str(&self->draft, text))
        later(self);
}

void aq_context_meter_set_chat(AqContextMeter *self, AqChat *chat)
{
    g_return_if_fail(AQ_IS_CONTEXT_METER(self) && !self->chat);
    self->chat = g_object_ref(chat);
    g_signal_connect_object(chat, "notify", G_CALLBACK(later), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(aq_chat_get_messages(chat), "items-changed", G_CALLBACK(later), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(aq_chat_get_host(chat), "changed", G_CALLBACK(later), self,
                            G_CONNECT_SWAPPED);
    later(self);
}

static void aq_context_meter_dispose(GObject *object)
{
    AqContextMeter *self = AQ_CONTEXT_METER(object);
    g_clear_handle_id(&self->timer, g_source_remove);
    g_clear_object(&self->chat);
    g_clear_pointer(&self->draft, g_free);
    G_OBJECT_CLASS(aq_context_meter_parent_class)->dispose(object);
}

static void aq_context_meter_class_init(AqContextMeterClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = aq_context_meter_dispose;
}

static void aq_context_meter_init(AqContextMeter *self)
{
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6);
    GtkWidget *fresh = gtk_button_new_with_label(_("New Chat"));
    self->label = gtk_label_new(NULL);
    gtk_label_set_xalign(GTK_LABEL(self->label), 1);
    gtk_widget_add_css_class(self->label, "caption");
    gtk_widget_add_css_class(self->label, "dimmed");
    gtk_widget_add_css_class(self->label, "numeric");
    gtk_widget_set_tooltip_text(self->label, _("What the model reads for the next answer"));
    gtk_widget_set_visible(self->label, FALSE);
    self->warning = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 12);
    self->warning_label = gtk_label_new(NULL);
    gtk_label_set_wrap(GTK_LABEL(self->warning_label), TRUE);
    gtk_label_set_xalign(GTK_LABEL(self->warning_label), 0);
    gtk_widget_set_hexpand(self->warning_label, TRUE);
    gtk_widget_set_valign(fresh, GTK_ALIGN_CENTER);
    gtk_actionable_set_action_name(GTK_ACTIONABLE(fresh), "app.new-chat");
    gtk_box_append(GTK_BOX(self->warning), self->warning_label);
    gtk_box_append(GTK_BOX(self->warning), fresh);
    gtk_widget_set_visible(self->warning, FALSE);
    gtk_box_append(GTK_BOX(box), self->warning);
    gtk_box_append(GTK_BOX(box), self->label);
    adw_bin_set_child(ADW_BIN(self), box);
}
