/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with. Changes apply when the dialog is closed. */
#include "aq-settings-dialog.h"

struct _AqSettingsDialog {
    AdwDialog parent;
    GtkWidget *system, *thinking_group, *thinking, *temperature, *top_p, *top_k, *min_p,
        *repeat_penalty, *max_tok;
    AqChat *chat;
};

G_DEFINE_FINAL_TYPE(AqSettingsDialog, aq_settings_dialog, ADW_TYPE_DIALOG)

static void show(AqSettingsDialog *self, const AqChatSettings *s)
{
    adw_switch_row_set_active(ADW_SWITCH_ROW(self->thinking), !s->no_thinking);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->temperature), s->temperature);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->top_p), s->top_p);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->top_k), s->top_k);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->min_p), s->min_p);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->repeat_penalty), s->repeat_penalty);
    adw_spin_row_set_value(ADW_SPIN_ROW(self->max_tok), s->max_tok);
}

static void on_reset(AqSettingsDialog *self)
{
    AqChatSettings usual;
    aq_chat_settings_init(&usual, aq_chat_get_usual_temperature(self->chat));
    show(self, &usual);
}

static void aq_settings_dialog_closed(AdwDialog *dialog)
{
    AqSettingsDialog *self = AQ_SETTINGS_DIALOG(dialog);
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->system));
    GtkTextIter start, end;
    gtk_text_buffer_get_bounds(buffer, &start, &end);
    g_autofree char *system = gtk_text_buffer_get_text(buffer, &start, &end, FALSE);
    const AqChatSettings s = {
        .system = g_strstrip(system),
        .no_thinking = !adw_switch_row_get_active(ADW_SWITCH_ROW(self->thinking)),
        .temperature = adw_spin_row_get_value(ADW_SPIN_ROW(self->temperature)),
        .top_p = adw_spin_row_get_value(ADW_SPIN_ROW(self->top_p)),
        .top_k = (guint)adw_spin_row_get_value(ADW_SPIN_ROW(self->top_k)),
        .min_p = adw_spin_row_get_value(ADW_SPIN_ROW(self->min_p)),
        .repeat_penalty = adw_spin_row_get_value(ADW_SPIN_ROW(self->repeat_penalty)),
        .max_tok = (guint)adw_spin_row_get_value(ADW_SPIN_ROW(self->max_tok)),
    };
    aq_chat_set_settings(self->chat, &s);
}

static void aq_settings_dialog_dispose(GObject *object)
{
    AqSettingsDialog *self = AQ_SETTINGS_DIALOG(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_SETTINGS_DIALOG);
    g_clear_object(&self->chat);
    G_OBJECT_CLASS(aq_settings_dialog_parent_class)->dispose(object);
}

static void aq_settings_dialog_class_init(AqSettingsDialogClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_settings_dialog_dispose;
    ADW_DIALOG_CLASS(klass)->closed = aq_settings_dialog_closed;
    gtk_widget_class_set_template_from_resource(
        widget_class, "/io/github/aquiferpool/Aquifer/aq-settings-dialog.ui");
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, system);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, thinking_group);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, thinking);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, temperature);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, top_p);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, top_k);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, min_p);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, repeat_penalty);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, max_tok);
    gtk_widget_class_bind_template_callback(widget_class, on_reset);
}

static void aq_settings_dialog_init(AqSettingsDialog *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqSettingsDialog *aq_settings_dialog_new(AqChat *chat)
{
    AqSettingsDialog *self = g_object_new(AQ_TYPE_SETTINGS_DIALOG, NULL);
    const AqChatSettings *s = aq_chat_get_settings(chat);
    self->chat = g_object_ref(chat);
    gtk_text_buffer_set_text(gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->system)),
                             s->system ? s->system : "", -1);
    gtk_widget_set_visible(self->thinking_group,
                           aq_engine_host_has_thinking_switch(aq_chat_get_host(chat)));
    show(self, s);
    return self;
}
