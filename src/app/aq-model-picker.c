/* SPDX-License-Identifier: Apache-2.0 */
/* The name of the loaded model, and a menu of those that can be loaded in its place, as on the Models page: a file that cannot be used is not
 * there, one that is being loaded cannot be chosen again. The earlier model answers until the new one does, so a reply goes on. */
#include "aq-model-picker.h"

#include <glib/gi18n.h>

#include "aq-format.h"

#define NAME_CHARS 34 /* of a model or a file, before it is cut short */

struct _AqModelPicker {
    AdwBin parent;
    GtkWidget *button, *label, *popover, *items, *empty;
    AqModelLibrary *library;
    AqEngineHost *host;
};

G_DEFINE_FINAL_TYPE(AqModelPicker, aq_model_picker, ADW_TYPE_BIN)

static AqModelItem *item_of(GtkWidget *button)
{
    return g_object_get_data(G_OBJECT(button), "item");
}

static void choose(AqModelPicker *self, GtkWidget *button)
{
    const char *path = aq_model_item_get_path(item_of(button));
    gtk_popover_popdown(GTK_POPOVER(self->popover));
    if (g_strcmp0(aq_engine_host_get_path(self->host), path) == 0)
        aq_engine_host_cancel_load(self->host); /* the one that is there is to stay */
    else
        aq_engine_host_load(self->host, path);
}

static GtkWidget *line_new(const char *text, const char *style)
{
    GtkWidget *label = gtk_label_new(text);
    gtk_label_set_xalign(GTK_LABEL(label), 0);
    gtk_label_set_ellipsize(GTK_LABEL(label), PANGO_ELLIPSIZE_MIDDLE);
    gtk_label_set_max_width_chars(GTK_LABEL(label), NAME_CHARS);
    if (style)
        gtk_widget_add_css_class(label, style);
    return label;
}

/* Several files may be of models with one name: the file tells them apart. */
static GtkWidget *item_new(AqModelPicker *self, AqModelItem *item)
{
    const char *path = aq_model_item_get_path(item), *name = aq_model_item_get_name(item);
    g_autofree char *file = aq_format_file(path), *whole = g_filename_display_name(path);
    GtkWidget *lines = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0);
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 12);
    GtkWidget *mark = gtk_image_new_from_icon_name("object-select-symbolic");
    GtkWidget *button =
        g_object_new(GTK_TYPE_BUTTON, "accessible-role", GTK_ACCESSIBLE_ROLE_RADIO, NULL);
    GtkWidget *second = line_new(file, "caption");
    gtk_widget_add_css_class(second, "dimmed");
    gtk_box_append(GTK_BOX(lines), line_new(name, NULL));
    gtk_box_append(GTK_BOX(lines), second);
    gtk_widget_set_hexpand(lines, TRUE);
    gtk_box_append(GTK_BOX(box), lines);
    gtk_box_append(GTK_BOX(box), mark);
    gtk_button_set_child(GTK_BUTTON(button), box);
    gtk_widget_add_css_class(button, "flat");
    gtk_widget_add_css_class(button, "menu-item");
    gtk_widget_set_tooltip_text(button, whole);
    gtk_accessible_update_property(GTK_ACCESSIBLE(button), GTK_ACCESSIBLE_PROPERTY_LABEL, name,
                                   GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, file, -1);
    g_object_set_data_full(G_OBJECT(button), "item", g_object_ref(item), g_object_unref);
    g_object_set_data(G_OBJECT(button), "mark", mark);
    g_signal_connect_object(button, "clicked", G_CALLBACK(choose), self, G_CONNECT_SWAPPED);
    return button;
}

/* Which one answers, which one is being loaded. */
static void mark_items(AqModelPicker *self)
{
    const char *path = aq_engine_host_get_path(self->host);
    const char *loading = aq_engine_host_get_loading_path(self->host);
    for (GtkWidget *w = gtk_widget_get_first_child(self->items); w;
         w = gtk_widget_get_next_sibling(w)) {
        const char *own = aq_model_item_get_path(item_of(w));
        gboolean in_use = g_strcmp0(own, path) == 0;
        /* Its place stays, so that the menu does not change its width. */
        gtk_widget_set_opacity(g_object_get_data(G_OBJECT(w), "mark"), in_use ? 1 : 0);
        gtk_accessible_update_state(
            GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_STATE_CHECKED,
            in_use ? GTK_ACCESSIBLE_TRISTATE_TRUE : GTK_ACCESSIBLE_TRISTATE_FALSE, -1);
        gtk_widget_set_sensitive(w, g_strcmp0(own, loading) != 0);
    }
}

static void fill(AqModelPicker *self)
{
    GListModel *models = aq_model_library_get_items(self->library);
    GtkWidget *old;
    while ((old = gtk_widget_get_first_child(self->items)))
        gtk_box_remove(GTK_BOX(self->items), old);
    for (guint i = 0; i < g_list_model_get_n_items(models); i++) {
        g_autoptr(AqModelItem) item = g_list_model_get_item(models, i);
        if (aq_model_item_get_usable(item))
            gtk_box_append(GTK_BOX(self->items), item_new(self, item));
    }
    gtk_widget_set_visible(self->empty, !gtk_widget_get_first_child(self->items));
    mark_items(self);
}

static void on_items_changed(AqModelPicker *self)
{
    if (gtk_widget_get_mapped(self->popover))
        fill(self);
}

static void on_open(AqModelPicker *self)
{
    if (!self->library)
        return;
    fill(self);
    aq_model_library_refresh(self->library);
}

static void on_leave(AqModelPicker *self)
{
    gtk_popover_popdown(GTK_POPOVER(self->popover));
}

static void on_host_changed(AqModelPicker *self)
{
    const char *name = aq_engine_host_get_model_name(self->host);
    const char *path = aq_engine_host_get_path(self->host);
    g_autofree char *shown_path = path ? g_filename_display_name(path) : NULL;
    /* Translators: the model that answers */
    g_autofree char *told = name ? g_strdup_printf(_("Model: %s"), name) : NULL;
    gtk_label_set_text(GTK_LABEL(self->label), name ? name : _("No model is loaded"));
    gtk_widget_set_tooltip_text(self->button, shown_path ? shown_path : _("Choose a Model"));
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->button), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   told ? told : _("Choose a Model"), -1);
    if (gtk_widget_get_mapped(self->popover))
        mark_items(self);
}

void aq_model_picker_set_library(AqModelPicker *self, AqModelLibrary *library, AqEngineHost *host)
{
    g_return_if_fail(AQ_IS_MODEL_PICKER(self) && !self->library);
    self->library = g_object_ref(library);
    self->host = g_object_ref(host);
    g_signal_connect_object(aq_model_library_get_items(library), "items-changed",
                            G_CALLBACK(on_items_changed), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(host, "changed", G_CALLBACK(on_host_changed), self, G_CONNECT_SWAPPED);
    on_host_changed(self);
}

static void aq_model_picker_dispose(GObject *object)
{
    AqModelPicker *self = AQ_MODEL_PICKER(object);
    adw_bin_set_child(ADW_BIN(self), NULL); /* or both take it away */
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_MODEL_PICKER);
    g_clear_object(&self->library);
    g_clear_object(&self->host);
    G_OBJECT_CLASS(aq_model_picker_parent_class)->dispose(object);
}

static void aq_model_picker_class_init(AqModelPickerClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_model_picker_dispose;
    gtk_widget_class_set_template_from_resource(
        widget_class, "/io/github/aquiferpool/Aquifer/aq-model-picker.ui");
    gtk_widget_class_bind_template_child(widget_class, AqModelPicker, button);
    gtk_widget_class_bind_template_child(widget_class, AqModelPicker, label);
    gtk_widget_class_bind_template_child(widget_class, AqModelPicker, popover);
    gtk_widget_class_bind_template_child(widget_class, AqModelPicker, items);
    gtk_widget_class_bind_template_child(widget_class, AqModelPicker, empty);
    gtk_widget_class_bind_template_callback(widget_class, on_open);
    gtk_widget_class_bind_template_callback(widget_class, on_leave);
}

static void aq_model_picker_init(AqModelPicker *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}
