/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the first start: what the app is, the hardware as found, and the two ways on. Everything can be skipped. */
#include "aq-welcome.h"

#include <glib/gi18n.h>

#include "aq-format.h"
#include "aq-hardware.h"

struct _AqWelcome {
    AdwDialog parent;
    GtkWidget *cpu, *memory, *gpu, *guide, *open;
};

G_DEFINE_FINAL_TYPE(AqWelcome, aq_welcome, ADW_TYPE_DIALOG)

static guint signal_guide;

static void set_row(GtkWidget *row, const char *text)
{
    adw_action_row_set_subtitle(ADW_ACTION_ROW(row), text);
}

static void show_hardware(AqWelcome *self)
{
    guint n = g_get_num_processors();
    g_autofree char *cpu = aq_hardware_cpu("");
    g_autofree char *threads = g_strdup_printf(ngettext("%u thread", "%u threads", n), n);
    /* Translators: a processor's name, and how many threads it runs at once */
    g_autofree char *cpu_text = cpu ? g_strdup_printf(_("%s, %s"), cpu, threads) : NULL;
    set_row(self->cpu, cpu_text ? cpu_text : threads);

    g_autofree char *total = aq_format_bytes(aq_hardware_memory_bytes(""));
    g_autofree char *left = aq_format_bytes(aq_mem_free_bytes());
    /* Translators: memory in all, memory that a model may take now */
    g_autofree char *memory =
        g_strdup_printf(_("%s, of which %s are free for models"), total, left);
    set_row(self->memory, memory);

    g_auto(GStrv) gpus = aq_hardware_gpus("");
    g_autofree char *names = g_strjoinv(", ", gpus);
    /* Translators: names of graphics cards */
    g_autofree char *gpu = g_strdup_printf(
        _("%s; not used, since this version computes on the processor alone"), names);
    set_row(self->gpu, *gpus ? gpu : _("None found; this version computes on the processor alone"));
}

static void on_guide(AqWelcome *self)
{
    g_object_ref(self);
    adw_dialog_close(ADW_DIALOG(self));
    g_signal_emit(self, signal_guide, 0);
    g_object_unref(self);
}

static void on_open(AqWelcome *self)
{
    GtkWidget *window = GTK_WIDGET(gtk_widget_get_root(GTK_WIDGET(self)));
    adw_dialog_close(ADW_DIALOG(self));
    gtk_widget_activate_action(window, "app.open", NULL);
}

static void on_skip(AqWelcome *self)
{
    adw_dialog_close(ADW_DIALOG(self));
}

gboolean aq_welcome_due(GSettings *settings)
{
    if (!settings || g_settings_get_boolean(settings, "welcome-shown"))
        return FALSE;
    g_settings_set_boolean(settings, "welcome-shown", TRUE);
    return TRUE;
}

static void aq_welcome_dispose(GObject *object)
{
    gtk_widget_dispose_template(GTK_WIDGET(object), AQ_TYPE_WELCOME);
    G_OBJECT_CLASS(aq_welcome_parent_class)->dispose(object);
}

static void aq_welcome_class_init(AqWelcomeClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_welcome_dispose;
    signal_guide = g_signal_new("guide", G_TYPE_FROM_CLASS(klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                NULL, G_TYPE_NONE, 0);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-welcome.ui");
    gtk_widget_class_bind_template_child(widget_class, AqWelcome, cpu);
    gtk_widget_class_bind_template_child(widget_class, AqWelcome, memory);
    gtk_widget_class_bind_template_child(widget_class, AqWelcome, gpu);
    gtk_widget_class_bind_template_child(widget_class, AqWelcome, guide);
    gtk_widget_class_bind_template_child(widget_class, AqWelcome, open);
    gtk_widget_class_bind_template_callback(widget_class, on_guide);
    gtk_widget_class_bind_template_callback(widget_class, on_open);
    gtk_widget_class_bind_template_callback(widget_class, on_skip);
}

static void aq_welcome_init(AqWelcome *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqWelcome *aq_welcome_new(gboolean has_guide)
{
    AqWelcome *self = g_object_new(AQ_TYPE_WELCOME, NULL);
    gtk_widget_set_visible(self->guide, has_guide);
    adw_dialog_set_default_widget(ADW_DIALOG(self), has_guide ? self->guide : self->open);
    /* Not the first label that can be selected, where Enter does nothing. */
    adw_dialog_set_focus(ADW_DIALOG(self), has_guide ? self->guide : self->open);
    show_hardware(self);
    return self;
}
