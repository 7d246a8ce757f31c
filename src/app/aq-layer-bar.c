/* SPDX-License-Identifier: Apache-2.0 */
/* A bar of parts whose widths are their shares. The parts are labels, so that they can be read; their colours come from the style
 * classes part-0, part-1 …, which also differ by a line. */
#include "aq-layer-bar.h"

struct _AqLayerBar {
    GtkWidget parent;
    GtkWidget *label[AQ_LAYER_BAR_PARTS];
    double share[AQ_LAYER_BAR_PARTS];
};

G_DEFINE_FINAL_TYPE(AqLayerBar, aq_layer_bar, GTK_TYPE_WIDGET)

static void aq_layer_bar_measure(GtkWidget *widget, GtkOrientation orientation, int for_size,
                                 int *minimum, int *natural, int *minimum_baseline,
                                 int *natural_baseline)
{
    AqLayerBar *self = AQ_LAYER_BAR(widget);
    *minimum = *natural = 0;
    for (guint i = 0; i < AQ_LAYER_BAR_PARTS; i++) {
        int min, nat;
        gtk_widget_measure(self->label[i], orientation, -1, &min, &nat, NULL, NULL);
        *minimum = orientation == GTK_ORIENTATION_HORIZONTAL ? *minimum + min : MAX(*minimum, min);
        *natural = orientation == GTK_ORIENTATION_HORIZONTAL ? *natural + nat : MAX(*natural, nat);
    }
}

static void aq_layer_bar_size_allocate(GtkWidget *widget, int width, int height, int baseline)
{
    AqLayerBar *self = AQ_LAYER_BAR(widget);
    double all = 0, rest = width;
    int min[AQ_LAYER_BAR_PARTS] = {0}, x = 0;

    for (guint i = 0; i < AQ_LAYER_BAR_PARTS; i++) {
        if (!gtk_widget_get_visible(self->label[i]))
            continue;
        gtk_widget_measure(self->label[i], GTK_ORIENTATION_HORIZONTAL, -1, &min[i], NULL, NULL,
                           NULL);
        all += self->share[i];
        rest -= min[i];
    }
    for (guint i = 0; i < AQ_LAYER_BAR_PARTS; i++) {
        if (!gtk_widget_get_visible(self->label[i]))
            continue;
        int w = min[i] + (int)(rest * self->share[i] / MAX(all, 1e-9));
        gtk_widget_size_allocate(self->label[i], &(GtkAllocation){x, 0, w, height}, -1);
        x += w;
    }
}

static void aq_layer_bar_dispose(GObject *object)
{
    AqLayerBar *self = AQ_LAYER_BAR(object);
    for (guint i = 0; i < AQ_LAYER_BAR_PARTS; i++)
        g_clear_pointer(&self->label[i], gtk_widget_unparent);
    G_OBJECT_CLASS(aq_layer_bar_parent_class)->dispose(object);
}

static void aq_layer_bar_class_init(AqLayerBarClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_layer_bar_dispose;
    widget_class->measure = aq_layer_bar_measure;
    widget_class->size_allocate = aq_layer_bar_size_allocate;
    gtk_widget_class_set_css_name(widget_class, "layerbar");
    gtk_widget_class_set_accessible_role(widget_class, GTK_ACCESSIBLE_ROLE_GROUP);
}

static void aq_layer_bar_init(AqLayerBar *self)
{
    for (guint i = 0; i < AQ_LAYER_BAR_PARTS; i++) {
        g_autofree char *name = g_strdup_printf("part-%u", i);
        self->label[i] = gtk_label_new(NULL);
        gtk_label_set_ellipsize(GTK_LABEL(self->label[i]), PANGO_ELLIPSIZE_END);
        gtk_widget_add_css_class(self->label[i], name);
        gtk_widget_set_visible(self->label[i], FALSE);
        gtk_widget_set_parent(self->label[i], GTK_WIDGET(self));
    }
    gtk_widget_set_overflow(GTK_WIDGET(self), GTK_OVERFLOW_HIDDEN);
}

void aq_layer_bar_set_part(AqLayerBar *self, guint part, double share, const char *text,
                           const char *tip)
{
    g_return_if_fail(AQ_IS_LAYER_BAR(self) && part < AQ_LAYER_BAR_PARTS);
    GtkWidget *label = self->label[part];
    gboolean visible = share > 0;
    gtk_label_set_text(GTK_LABEL(label), text);
    gtk_widget_set_tooltip_text(label, tip);
    if (self->share[part] != share || gtk_widget_get_visible(label) != visible) {
        self->share[part] = share;
        gtk_widget_set_visible(label, visible);
        gtk_widget_queue_resize(GTK_WIDGET(self));
    }
}
