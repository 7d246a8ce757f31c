/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the context a chat fills: the very tokens that the engine would read for it, by the model's own template, with what is being
 * written and its files. They are counted on a worker COUNT_MS after the last change, never while an answer is written. Before the context is
 * full it says so, and offers what helps: a new chat, no thinking, a longer context. */
#include "aq-context-meter.h"

#include <glib/gi18n.h>

#include "aq-format.h"

#define COUNT_MS 400
#define WARN_PERCENT 85
/* Texts of so many bytes for each token of the context are not counted: they do not fit, and to count them takes long. */
#define TOK_BYTES_MAX 64

struct _AqContextMeter {
    AdwBin parent;
    GtkWidget *label, *warning, *warning_label, *no_thinking, *larger;
    AqChat *chat;
    char *draft;
    guint timer, offered; /* offered: tokens of the context that the button stands for */
    gboolean counting, again;
};

G_DEFINE_FINAL_TYPE(AqContextMeter, aq_context_meter, ADW_TYPE_BIN)

typedef struct {
    AqEngineSlot *slot; /* let go on the main thread */
    char *json, *vars;
    guint n_ctx, n_tok;
    gboolean known, over; /* over: more than the context, and not counted */
} Count;

static void later(AqContextMeter *self);

static void count_free(gpointer data)
{
    Count *c = data;
    g_free(c->json);
    g_free(c->vars);
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
    if (empty || aq_chat_prompt(model, &in, NULL, &toks, NULL) >= 0) {
        c->n_tok = toks.n;
        c->known = TRUE;
    }
    aq_toks_clear(&toks);
    g_task_return_boolean(task, TRUE);
}

/* ---- what is offered ------------------------------------------------------------------------ */

/* What the chat was set to, else twice as much as there is; 0 = no longer context can be had. */
static guint larger_context(AqContextMeter *self, guint n_ctx)
{
    AqEngineHost *host = aq_chat_get_host(self->chat);
    guint max = aq_engine_host_get_ctx_max(host), set = aq_chat_get_settings(self->chat)->n_ctx;
    guint64 wanted = MIN(set > n_ctx ? set : (guint64)n_ctx * 2, max);
    return wanted > n_ctx ? (guint)wanted : 0;
}

/* The button with what it takes; or, returned, a sentence that says why there is none. */
static char *offer_larger(AqContextMeter *self, guint n_ctx)
{
    AqEngineHost *host = aq_chat_get_host(self->chat);
    guint wanted = larger_context(self, n_ctx);
    guint64 need, room, now = aq_engine_host_ctx_bytes(host, n_ctx);
    gtk_widget_set_visible(self->larger, FALSE);
    if (!wanted)
        return NULL;
    gboolean fits = aq_engine_host_ctx_fits(host, wanted, &need, &room);
    g_autofree char *tok = aq_format_tokens(wanted), *need_text = aq_format_bytes(need),
                    *room_text = aq_format_bytes(room),
                    *more = aq_format_bytes(need > now ? need - now : 0);
    if (!fits)
        /* Translators: "16,384 tokens", memory that they take, memory that is free */
        return g_strdup_printf(_("A context of %s needs %s of memory; %s are free."), tok,
                               need_text, room_text);
    /* Translators: "16,384 tokens", memory */
    g_autofree char *text = g_strdup_printf(_("Reload With %s (%s More Memory)"), tok, more);
    self->offered = wanted;
    gtk_button_set_label(GTK_BUTTON(self->larger), text);
    gtk_widget_set_visible(self->larger, TRUE);
    return NULL;
}

static void set_settings(AqContextMeter *self, gboolean no_thinking, guint n_ctx)
{
    AqChatSettings s = *aq_chat_get_settings(self->chat);
    g_autofree char *system = g_strdup(s.system);
    s.system = system;
    s.no_thinking = no_thinking;
    s.n_ctx = n_ctx;
    aq_chat_set_settings(self->chat, &s);
}

static void on_no_thinking(AqContextMeter *self)
{
    set_settings(self, TRUE, aq_chat_get_settings(self->chat)->n_ctx);
}

static void on_larger(AqContextMeter *self)
{
    gtk_widget_set_visible(self->warning, FALSE);
    set_settings(self, aq_chat_get_settings(self->chat)->no_thinking, self->offered);
    aq_engine_host_reload(aq_chat_get_host(self->chat), self->offered);
}

/* ---- count ---------------------------------------------------------------------------------- */

static void hide(AqContextMeter *self)
{
    gtk_widget_set_visible(self->label, FALSE);
    gtk_widget_set_visible(self->warning, FALSE);
}

static void show(AqContextMeter *self, const Count *c)
{
    const AqChatSettings *set = aq_chat_get_settings(self->chat);
    AqEngineHost *host = aq_chat_get_host(self->chat);
    gboolean full = c->over || c->n_tok >= c->n_ctx;
    gboolean warn = full || (guint64)c->n_tok * 100 >= (guint64)c->n_ctx * WARN_PERCENT;
    gboolean wish = set->n_ctx > c->n_ctx && larger_context(self, c->n_ctx);
    gtk_widget_set_visible(self->label, c->over || c->n_tok > 0);
    gtk_widget_set_visible(self->warning, warn || wish);
    /* Translators: tokens of the chat, tokens that the context holds */
    g_autofree char *text = c->over ? g_strdup_printf(_("more than %'u tokens"), c->n_ctx)
                                    : g_strdup_printf(_("%'u of %'u tokens"), c->n_tok, c->n_ctx);
    gtk_label_set_text(GTK_LABEL(self->label), text);
    if (!warn && !wish) {
        gtk_label_set_text(GTK_LABEL(self->warning_label), "");
        return;
    }
    gtk_widget_set_visible(self->no_thinking,
                           warn && !set->no_thinking && aq_engine_host_has_thinking_switch(host));
    g_autofree char *lack = offer_larger(self, c->n_ctx), *wished = aq_format_tokens(set->n_ctx);
    g_autofree char *less =
        /* Translators: "16,384 tokens" */
        g_strdup_printf(_("This chat was set to a context of %s; the model has less now."), wished);
    g_autofree char *all =
        g_strconcat(full   ? _("The context is full: the next question does not fit.")
                    : warn ? _("The context is nearly full: soon only short answers fit.")
                           : less,
                    lack ? " " : NULL, lack, NULL);
    if (g_str_equal(all, gtk_label_get_text(GTK_LABEL(self->warning_label))))
        return;
    gtk_label_set_text(GTK_LABEL(self->warning_label), all);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), all, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
}

static void counted(GObject *source, GAsyncResult *result, gpointer user)
{
    AqContextMeter *self = AQ_CONTEXT_METER(source);
    Count *c = g_task_get_task_data(G_TASK(result));
    g_clear_pointer(&c->slot, aq_engine_slot_unref);
    self->counting = FALSE;
    if (!self->chat)
        return;
    if (c->known)
        show(self, c);
    if (self->again)
        later(self);
    self->again = FALSE;
}

static guint64 file_bytes(AqFile *file)
{
    gsize n;
    aq_file_get_text(file, &n);
    return n;
}

static guint64 draft_file_bytes(AqChat *chat)
{
    GListModel *files = aq_chat_get_draft_files(chat);
    guint64 all = 0;
    for (guint i = 0; i < g_list_model_get_n_items(files); i++) {
        g_autoptr(AqFile) file = g_list_model_get_item(files, i);
        all += file_bytes(file);
    }
    return all;
}

static guint64 message_bytes(AqChat *chat)
{
    GListModel *messages = aq_chat_get_messages(chat);
    guint64 all = 0;
    for (guint i = 0; i < g_list_model_get_n_items(messages); i++) {
        g_autoptr(AqMessage) message = g_list_model_get_item(messages, i);
        GPtrArray *files = aq_message_get_files(message);
        gsize n;
        aq_message_get_text(message, &n);
        all += n;
        for (guint k = 0; files && k < files->len; k++)
            all += file_bytes(files->pdata[k]);
    }
    return all;
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
    if (!aq_engine_host_can_answer(host)) {
        hide(self);
        return G_SOURCE_REMOVE;
    }
    guint64 bytes = draft_file_bytes(self->chat);
    guint n_ctx = aq_engine_host_get_n_ctx(host);
    if (bytes + message_bytes(self->chat) > (guint64)n_ctx * TOK_BYTES_MAX) {
        show(self, &(Count){.n_ctx = n_ctx, .over = TRUE});
        return G_SOURCE_REMOVE;
    }
    const char *draft = self->draft ? self->draft : "";
    Count *c = g_new0(Count, 1);
    c->n_ctx = n_ctx;
    c->json =
        aq_chat_to_json(self->chat, g_list_model_get_n_items(aq_chat_get_messages(self->chat)),
                        *draft || bytes ? draft : NULL);
    c->vars = g_strdup(aq_chat_get_vars(self->chat));
    if (!c->json) {
        hide(self);
        count_free(c);
        return G_SOURCE_REMOVE;
    }
    c->slot = aq_engine_host_ref_slot(host);
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
    g_set_str(&self->draft, text);
    later(self); /* the files beside it may be other ones */
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

static GtkWidget *add_button(GtkWidget *box, const char *label)
{
    GtkWidget *button = gtk_button_new_with_label(label);
    gtk_button_set_can_shrink(GTK_BUTTON(button), TRUE);
    adw_wrap_box_append(ADW_WRAP_BOX(box), button);
    return button;
}

static void aq_context_meter_init(AqContextMeter *self)
{
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6), *buttons = adw_wrap_box_new();
    GtkWidget *fresh = add_button(buttons, _("New Chat"));
    self->no_thinking = add_button(buttons, _("Turn Thinking Off"));
    self->larger = add_button(buttons, "");
    adw_wrap_box_set_child_spacing(ADW_WRAP_BOX(buttons), 6);
    adw_wrap_box_set_line_spacing(ADW_WRAP_BOX(buttons), 6);
    gtk_actionable_set_action_name(GTK_ACTIONABLE(fresh), "app.new-chat");
    g_signal_connect_object(self->no_thinking, "clicked", G_CALLBACK(on_no_thinking), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(self->larger, "clicked", G_CALLBACK(on_larger), self,
                            G_CONNECT_SWAPPED);
    self->label = gtk_label_new(NULL);
    gtk_label_set_xalign(GTK_LABEL(self->label), 1);
    gtk_widget_add_css_class(self->label, "caption");
    gtk_widget_add_css_class(self->label, "dimmed");
    gtk_widget_add_css_class(self->label, "numeric");
    gtk_widget_set_tooltip_text(self->label, _("What the model reads for the next answer"));
    gtk_widget_set_visible(self->label, FALSE);
    self->warning = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6);
    self->warning_label = gtk_label_new(NULL);
    gtk_label_set_wrap(GTK_LABEL(self->warning_label), TRUE);
    gtk_label_set_xalign(GTK_LABEL(self->warning_label), 0);
    gtk_box_append(GTK_BOX(self->warning), self->warning_label);
    gtk_box_append(GTK_BOX(self->warning), buttons);
    gtk_widget_add_css_class(self->warning, "notice");
    gtk_widget_set_visible(self->warning, FALSE);
    gtk_box_append(GTK_BOX(box), self->warning);
    gtk_box_append(GTK_BOX(box), self->label);
    adw_bin_set_child(ADW_BIN(self), box);
}
