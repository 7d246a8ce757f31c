/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with. Changes apply when the dialog is closed, but for the context, which takes loading the model again. */
#include "aq-settings-dialog.h"

#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq-paths.h"
#include "aq-preset-menu.h"

#define CTX_MIN 256

struct _AqSettingsDialog {
    AdwDialog parent;
    GtkWidget *system, *thinking_group, *thinking, *temperature, *top_p, *top_k, *min_p,
        *repeat_penalty, *max_tok, *presets, *problem, *context, *context_cost, *reload;
    AqChat *chat;
};

G_DEFINE_FINAL_TYPE(AqSettingsDialog, aq_settings_dialog, ADW_TYPE_DIALOG)

static void show(AqSettingsDialog *self, const AqChatSettings *s)
{
    gtk_switch_set_active(GTK_SWITCH(self->thinking), !s->no_thinking);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->temperature), s->temperature);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->top_p), s->top_p);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->top_k), s->top_k);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->min_p), s->min_p);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->repeat_penalty), s->repeat_penalty);
    gtk_spin_button_set_value(GTK_SPIN_BUTTON(self->max_tok), s->max_tok);
}

/* The settings as the dialog shows them; to be cleared. */
static void settings_of(AqSettingsDialog *self, AqChatSettings *ret)
{
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->system));
    GtkTextIter start, end;
    gtk_text_buffer_get_bounds(buffer, &start, &end);
    *ret = (AqChatSettings){
        .system = g_strstrip(gtk_text_buffer_get_text(buffer, &start, &end, FALSE)),
        .no_thinking = !gtk_switch_get_active(GTK_SWITCH(self->thinking)),
        .temperature = gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->temperature)),
        .top_p = gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->top_p)),
        .top_k = (guint)gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->top_k)),
        .min_p = gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->min_p)),
        .repeat_penalty = gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->repeat_penalty)),
        .max_tok = (guint)gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->max_tok)),
        .n_ctx = aq_chat_get_settings(self->chat)->n_ctx,
    };
}

/* ---- presets -------------------------------------------------------------------------------- */

static void show_system(AqSettingsDialog *self, const char *system)
{
    gtk_text_buffer_set_text(gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->system)),
                             system ? system : "", -1);
}

static void on_preset(AqSettingsDialog *self, AqPreset *preset)
{
    const AqChatSettings *s = aq_preset_get_settings(preset);
    gtk_widget_set_visible(self->problem, FALSE);
    show_system(self, s->system);
    show(self, s);
}

static void on_preset_problem(AqSettingsDialog *self, const char *text)
{
    gtk_label_set_text(GTK_LABEL(self->problem), text);
    gtk_widget_set_visible(self->problem, TRUE);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
}

static void on_save_preset(AqSettingsDialog *self)
{
    AqChatSettings s;
    settings_of(self, &s);
    gtk_widget_set_visible(self->problem, FALSE);
    aq_preset_menu_save(AQ_PRESET_MENU(self->presets), &s);
    aq_chat_settings_clear(&s);
}

/* A GtkSpinButton in a row, and no AdwSpinRow: that is not there for assistive technology. */
static AdwActionRow *row_of(GtkWidget *spin)
{
    return ADW_ACTION_ROW(gtk_widget_get_ancestor(spin, ADW_TYPE_ACTION_ROW));
}

/* ---- context -------------------------------------------------------------------------------- */

static guint context_of(AqSettingsDialog *self)
{
    return (guint)gtk_spin_button_get_value(GTK_SPIN_BUTTON(self->context));
}

static void show_context(AqSettingsDialog *self)
{
    AqEngineHost *host = aq_chat_get_host(self->chat);
    guint now = aq_engine_host_get_n_ctx(host), max = aq_engine_host_get_ctx_max(host),
          wanted = context_of(self);
    guint64 need, room;
    gboolean loading = aq_engine_host_get_state(host) == AQ_ENGINE_LOADING;
    gboolean fits = aq_engine_host_ctx_fits(host, wanted, &need, &room);
    g_autofree char *need_text = aq_format_bytes(need), *room_text = aq_format_bytes(room),
                    *text = NULL;
    gtk_widget_set_sensitive(self->context, max > 0);
    gtk_widget_set_sensitive(self->reload, max > 0 && !loading && fits && wanted != now);
    if (!max)
        text = g_strdup(now ? _("A model that is split over two PCs keeps its context")
                            : _("No model is loaded"));
    else if (loading)
        text = g_strdup(_("The model is being loaded; answers under way go on"));
    else if (!fits)
        /* Translators: memory that a context takes, memory that is free */
        text = g_strdup_printf(_("Takes %s of memory, but %s are free: choose less"), need_text,
                               room_text);
    else if (wanted == now)
        text = g_strdup_printf(_("As the model is loaded; one chat takes up to %s"), need_text);
    else
        text = g_strdup_printf(
            _("Takes %s of memory for a chat; %s are free. The model is loaded again for it."),
            need_text, room_text);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->context_cost), text);
}

static void on_reload(AqSettingsDialog *self)
{
    AqChatSettings s;
    settings_of(self, &s);
    s.n_ctx = context_of(self);
    aq_chat_set_settings(self->chat, &s);
    aq_chat_settings_clear(&s);
    aq_engine_host_reload(aq_chat_get_host(self->chat), context_of(self));
}

static void set_up_context(AqSettingsDialog *self)
{
    AqEngineHost *host = aq_chat_get_host(self->chat);
    guint max = aq_engine_host_get_ctx_max(host), now = aq_engine_host_get_n_ctx(host),
          top = MAX(max, MAX(now, CTX_MIN)), set = aq_chat_get_settings(self->chat)->n_ctx;
    gtk_adjustment_configure(gtk_spin_button_get_adjustment(GTK_SPIN_BUTTON(self->context)),
                             set && max ? MIN(set, top) : now, MIN(CTX_MIN, top), top, 1024, 8192,
                             0);
    if (max) {
        g_autofree char *tok = aq_format_tokens(max);
        /* Translators: "32,768 tokens" */
        g_autofree char *text = g_strdup_printf(_("In tokens. The model was made for %s."), tok);
        adw_action_row_set_subtitle(row_of(self->context), text);
    }
    g_signal_connect_object(self->context, "value-changed", G_CALLBACK(show_context), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(host, "changed", G_CALLBACK(show_context), self, G_CONNECT_SWAPPED);
    show_context(self);
}

/* ---- sampling ------------------------------------------------------------------------------- */

static void tell_default(GtkWidget *spin, double value)
{
    const char *what = adw_action_row_get_subtitle(row_of(spin));
    g_autofree char *number =
        g_strdup_printf("%.*f", (int)gtk_spin_button_get_digits(GTK_SPIN_BUTTON(spin)), value);
    /* Translators: a number; what a special value means */
    g_autofree char *text = g_strdup_printf(_("By default %s. %s"), number, what);
    adw_action_row_set_subtitle(row_of(spin), text);
    gtk_accessible_update_property(GTK_ACCESSIBLE(spin), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text,
                                   -1);
}

static void tell_defaults(AqSettingsDialog *self)
{
    AqChatSettings usual;
    aq_chat_settings_init(&usual, aq_chat_get_usual_temperature(self->chat));
    tell_default(self->temperature, usual.temperature);
    tell_default(self->top_p, usual.top_p);
    tell_default(self->top_k, usual.top_k);
    tell_default(self->min_p, usual.min_p);
    tell_default(self->repeat_penalty, usual.repeat_penalty);
    tell_default(self->max_tok, usual.max_tok);
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
    AqChatSettings s;
    settings_of(self, &s);
    aq_chat_set_settings(self->chat, &s);
    aq_chat_settings_clear(&s);
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
    g_type_ensure(AQ_TYPE_PRESET_MENU);
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
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, presets);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, problem);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, context);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, context_cost);
    gtk_widget_class_bind_template_child(widget_class, AqSettingsDialog, reload);
    gtk_widget_class_bind_template_callback(widget_class, on_reset);
    gtk_widget_class_bind_template_callback(widget_class, on_reload);
    gtk_widget_class_bind_template_callback(widget_class, on_preset);
    gtk_widget_class_bind_template_callback(widget_class, on_preset_problem);
    gtk_widget_class_bind_template_callback(widget_class, on_save_preset);
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
    show_system(self, s->system);
    gtk_widget_set_visible(self->thinking_group,
                           aq_engine_host_has_thinking_switch(aq_chat_get_host(chat)));
    show(self, s);
    tell_defaults(self);
    set_up_context(self);
    g_autoptr(AqPresets) presets =
        aq_presets_new(aq_paths_presets(), aq_chat_get_usual_temperature(chat));
    aq_preset_menu_set_presets(AQ_PRESET_MENU(self->presets), presets);
    return self;
}
