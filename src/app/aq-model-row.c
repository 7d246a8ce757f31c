/* SPDX-License-Identifier: Apache-2.0 */
/* A model file: its facts, and the way to load it. A file that cannot be used says why and has no button. */
#include "aq-model-row.h"

#include <glib/gi18n.h>

struct _AqModelRow {
    AdwExpanderRow parent;
    GtkWidget *in_use, *load;
    AqModelItem *item;
    AqEngineHost *host;
};

G_DEFINE_FINAL_TYPE(AqModelRow, aq_model_row, ADW_TYPE_EXPANDER_ROW)

static void update(AqModelRow *self)
{
    const char *path = aq_model_item_get_path(self->item);
    gboolean in_use = g_strcmp0(aq_engine_host_get_path(self->host), path) == 0;
    gboolean loading = g_strcmp0(aq_engine_host_get_loading_path(self->host), path) == 0;
    gtk_widget_set_visible(self->in_use, in_use);
    gtk_widget_set_visible(self->load, !in_use && aq_model_item_get_usable(self->item));
    gtk_widget_set_sensitive(self->load, !loading);
}

static void on_load(AqModelRow *self)
{
    aq_engine_host_load(self->host, aq_model_item_get_path(self->item));
}

static void aq_model_row_dispose(GObject *object)
{
    AqModelRow *self = AQ_MODEL_ROW(object);
    g_clear_object(&self->item);
    g_clear_object(&self->host);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_MODEL_ROW);
    G_OBJECT_CLASS(aq_model_row_parent_class)->dispose(object);
}

static void aq_model_row_class_init(AqModelRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_model_row_dispose;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-model-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqModelRow, in_use);
    gtk_widget_class_bind_template_child(widget_class, AqModelRow, load);
    gtk_widget_class_bind_template_callback(widget_class, on_load);
}

static void aq_model_row_init(AqModelRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqModelRow *aq_model_row_new(AqModelItem *item, AqEngineHost *host)
{
    AqModelRow *self = g_object_new(AQ_TYPE_MODEL_ROW, NULL);
    self->item = g_object_ref(item);
    self->host = g_object_ref(host);
    const char *name = aq_model_item_get_name(item);
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self), name);
    adw_expander_row_set_subtitle(ADW_EXPANDER_ROW(self), aq_model_item_get_line(item));
    g_autofree char *what = g_strdup_printf(_("Load “%s”"), name);
    /* A button is named by its label unless that relation goes. */
    gtk_accessible_reset_relation(GTK_ACCESSIBLE(self->load), GTK_ACCESSIBLE_RELATION_LABELLED_BY);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->load), GTK_ACCESSIBLE_PROPERTY_LABEL, what,
                                   -1);
    guint n;
    const AqModelFact *fact = aq_model_item_get_facts(item, &n);
    for (guint i = 0; i < n; i++) {
        GtkWidget *row =
            g_object_new(ADW_TYPE_ACTION_ROW, "use-markup", FALSE, "title", fact[i].title,
                         "subtitle", fact[i].value, "subtitle-selectable", TRUE, NULL);
        gtk_widget_add_css_class(row, "property");
        adw_expander_row_add_row(ADW_EXPANDER_ROW(self), row);
    }
    g_signal_connect_object(host, "changed", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    update(self);
    return self;
}
