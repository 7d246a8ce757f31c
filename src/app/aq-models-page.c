/* SPDX-License-Identifier: Apache-2.0 */
/* The models that are on this PC. The list is looked through again each time the page is shown. */
#include "aq-models-page.h"

#include <glib/gi18n.h>

#include "aq-model-row.h"

struct _AqModelsPage {
    AdwBin parent;
    GtkWidget *group, *list;
    AqModelLibrary *library;
    AqEngineHost *host;
};

G_DEFINE_FINAL_TYPE(AqModelsPage, aq_models_page, ADW_TYPE_BIN)

static GtkWidget *create_row(gpointer item, gpointer user)
{
    return GTK_WIDGET(aq_model_row_new(item, AQ_MODELS_PAGE(user)->host));
}

static void on_refresh(AqModelsPage *self)
{
    if (self->library)
        aq_model_library_refresh(self->library);
}

void aq_models_page_set_library(AqModelsPage *self, AqModelLibrary *library, AqEngineHost *host,
                                const char *folder)
{
    g_return_if_fail(AQ_IS_MODELS_PAGE(self) && !self->library);
    self->library = g_object_ref(library);
    self->host = g_object_ref(host);
    g_autofree char *shown = g_filename_display_name(folder);
    g_autofree char *where = g_strdup_printf(_("GGUF files in %s are listed here"), shown);
    g_autofree char *markup = g_markup_escape_text(where, -1);
    adw_preferences_group_set_description(ADW_PREFERENCES_GROUP(self->group), markup);
    gtk_list_box_bind_model(GTK_LIST_BOX(self->list), aq_model_library_get_items(library),
                            create_row, self, NULL);
}

static void aq_models_page_map(GtkWidget *widget)
{
    GTK_WIDGET_CLASS(aq_models_page_parent_class)->map(widget);
    on_refresh(AQ_MODELS_PAGE(widget));
}

static void aq_models_page_dispose(GObject *object)
{
    AqModelsPage *self = AQ_MODELS_PAGE(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_MODELS_PAGE);
    g_clear_object(&self->library);
    g_clear_object(&self->host);
    G_OBJECT_CLASS(aq_models_page_parent_class)->dispose(object);
}

static void aq_models_page_class_init(AqModelsPageClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_models_page_dispose;
    widget_class->map = aq_models_page_map;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-models-page.ui");
    gtk_widget_class_bind_template_child(widget_class, AqModelsPage, group);
    gtk_widget_class_bind_template_child(widget_class, AqModelsPage, list);
    gtk_widget_class_bind_template_callback(widget_class, on_refresh);
}

static void aq_models_page_init(AqModelsPage *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}
