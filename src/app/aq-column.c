/* SPDX-License-Identifier: Apache-2.0 */
/* A box of which only what is in view is drawn.
 *
 * GTK draws a long page as a whole for each frame, and leaves what is outside of the window to be cut off; in software that takes longer the
 * more there is, and a chat only gets longer. Here children that are more than PAGES_BEYOND pages away from the view are left out:
 *
 *        ┌──────────┐ from        what was drawn last
 *   ┌────┼──────────┼────┐
 *   │    │  child   │    │        the viewport
 *   └────┼──────────┼────┘
 *        └──────────┘ to
 *
 * When the view, or what is in it, has moved beyond that, it is drawn anew. A box that is in no viewport is drawn whole. */
#include "aq-column.h"

#define PAGES_BEYOND 0.5f

struct _AqColumn {
    GtkBox parent;
    GtkWidget *port; /* while it is mapped in one: the nearest viewport */
    GdkFrameClock *clock;
    AqColumn *outer; /* that it is in, or NULL */
    float from, to;  /* drawn, in its own pixels */
    gboolean in_view;
};

G_DEFINE_FINAL_TYPE(AqColumn, aq_column, GTK_TYPE_BOX)

/* The part of it that is in view; FALSE: that is not known. */
static gboolean view_of(AqColumn *self, float *ret_from, float *ret_to)
{
    graphene_rect_t view;
    if (!self->port || !gtk_widget_compute_bounds(self->port, GTK_WIDGET(self), &view))
        return FALSE;
    *ret_from = view.origin.y;
    *ret_to = view.origin.y + view.size.height;
    return TRUE;
}

/* An outer one hears of it first. */
static void on_layout(AqColumn *self)
{
    float from, to, height = (float)gtk_widget_get_height(GTK_WIDGET(self));
    self->in_view = (!self->outer || self->outer->in_view) && view_of(self, &from, &to) &&
                    from < height && to > 0;
    if (self->in_view && (MAX(from, 0) < self->from || MIN(to, height) > self->to))
        gtk_widget_queue_draw(GTK_WIDGET(self));
}

static void aq_column_snapshot(GtkWidget *widget, GtkSnapshot *snapshot)
{
    AqColumn *self = AQ_COLUMN(widget);
    float from, to;
    gboolean all = !view_of(self, &from, &to);
    float beyond = all ? 0 : (to - from) * PAGES_BEYOND;
    self->from = all ? -G_MAXFLOAT : from - beyond;
    self->to = all ? G_MAXFLOAT : to + beyond;
    for (GtkWidget *c = gtk_widget_get_first_child(widget); c; c = gtk_widget_get_next_sibling(c)) {
        graphene_rect_t box;
        if (!all && gtk_widget_compute_bounds(c, widget, &box) &&
            (box.origin.y + box.size.height < self->from || box.origin.y > self->to))
            continue;
        gtk_widget_snapshot_child(widget, c, snapshot);
    }
}

static void aq_column_map(GtkWidget *widget)
{
    AqColumn *self = AQ_COLUMN(widget);
    self->port = gtk_widget_get_ancestor(widget, GTK_TYPE_VIEWPORT);
    GtkWidget *outer = gtk_widget_get_ancestor(gtk_widget_get_parent(widget), AQ_TYPE_COLUMN);
    self->outer = outer ? AQ_COLUMN(outer) : NULL;
    /* Scrolled, or moved by what grows or shrinks beside it: when all is laid out, each widget lies where this frame will draw it. */
    self->clock = gtk_widget_get_frame_clock(widget);
    if (self->clock)
        g_signal_connect_object(self->clock, "layout", G_CALLBACK(on_layout), self,
                                G_CONNECT_SWAPPED | G_CONNECT_AFTER);
    GTK_WIDGET_CLASS(aq_column_parent_class)->map(widget);
}

static void aq_column_unmap(GtkWidget *widget)
{
    AqColumn *self = AQ_COLUMN(widget);
    GTK_WIDGET_CLASS(aq_column_parent_class)->unmap(widget);
    if (self->clock)
        g_signal_handlers_disconnect_by_func(self->clock, on_layout, self);
    self->clock = NULL;
    self->port = NULL;
    self->outer = NULL;
}

static void aq_column_class_init(AqColumnClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    widget_class->map = aq_column_map;
    widget_class->unmap = aq_column_unmap;
    widget_class->snapshot = aq_column_snapshot;
}

static void aq_column_init(AqColumn *self)
{
    gtk_orientable_set_orientation(GTK_ORIENTABLE(self), GTK_ORIENTATION_VERTICAL);
}

GtkWidget *aq_column_new(int spacing)
{
    return g_object_new(AQ_TYPE_COLUMN, "spacing", spacing, NULL);
}
