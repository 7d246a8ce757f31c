/* SPDX-License-Identifier: Apache-2.0 */
/* Found places made to be seen: black on yellow, and the one that is gone to on orange, as readable in light, dark and high contrast. */
#include "aq-find-mark.h"

static const guint16 ground[2][3] = {{0xf8f8, 0xe4e4, 0x5c5c}, {0xffff, 0xa3a3, 0x4848}};

/* ---- labels --------------------------------------------------------------------------------- */

static void add(PangoAttrList *list, PangoAttribute *attr, gsize at, gsize n)
{
    attr->start_index = (guint)at;
    attr->end_index = (guint)(at + n);
    pango_attr_list_insert(list, attr);
}

guint aq_find_mark_label(GtkLabel *label, const AqFind *find, int current)
{
    const char *text = gtk_label_get_text(label);
    PangoAttrList *list = NULL;
    gsize at = 0, n;
    guint count = 0;
    while (find && aq_find_next(find, text, &at, &n)) {
        const guint16 *c = ground[(int)count == current];
        if (!list)
            list = pango_attr_list_new();
        add(list, pango_attr_background_new(c[0], c[1], c[2]), at, n);
        add(list, pango_attr_foreground_new(0, 0, 0), at, n);
        at += n;
        count++;
    }
    if (list || gtk_label_get_attributes(label))
        gtk_label_set_attributes(label, list);
    g_clear_pointer(&list, pango_attr_list_unref);
    return count;
}

gboolean aq_find_rect_label(GtkLabel *label, const AqFind *find, guint nth, graphene_rect_t *ret)
{
    gsize at = 0, n;
    for (guint i = 0; aq_find_next(find, gtk_label_get_text(label), &at, &n); i++, at += n) {
        if (i != nth)
            continue;
        PangoRectangle r;
        int x, y;
        pango_layout_index_to_pos(gtk_label_get_layout(label), (int)at, &r);
        gtk_label_get_layout_offsets(label, &x, &y);
        *ret = GRAPHENE_RECT_INIT((float)(x + PANGO_PIXELS(r.x)), (float)(y + PANGO_PIXELS(r.y)), 1,
                                  (float)PANGO_PIXELS(r.height));
        return TRUE;
    }
    return FALSE;
}

/* ---- text views ----------------------------------------------------------------------------- */

static char *text_of(GtkTextBuffer *buffer)
{
    GtkTextIter a, b;
    gtk_text_buffer_get_bounds(buffer, &a, &b);
    return gtk_text_buffer_get_text(buffer, &a, &b, TRUE);
}

static GtkTextTag *tag_of(GtkTextBuffer *buffer, gboolean current)
{
    const char *name = current ? "aq-found-here" : "aq-found";
    GtkTextTag *tag = gtk_text_tag_table_lookup(gtk_text_buffer_get_tag_table(buffer), name);
    if (tag)
        return tag;
    const guint16 *c = ground[current];
    const GdkRGBA back = {(float)c[0] / 65535, (float)c[1] / 65535, (float)c[2] / 65535, 1},
                  black = {0, 0, 0, 1};
    tag = gtk_text_buffer_create_tag(buffer, name, "background-rgba", &back, "foreground-rgba",
                                     &black, NULL);
    return tag;
}

guint aq_find_mark_text(GtkTextView *view, const AqFind *find, int current)
{
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(view);
    g_autofree char *text = text_of(buffer);
    GtkTextIter a, b;
    gsize at = 0, n, before = 0;
    guint count = 0, chars = 0;
    gtk_text_buffer_get_bounds(buffer, &a, &b);
    for (int i = 0; i < 2; i++)
        gtk_text_buffer_remove_tag(buffer, tag_of(buffer, i), &a, &b);
    while (find && aq_find_next(find, text, &at, &n)) {
        chars += (guint)g_utf8_strlen(text + before, (gssize)(at - before));
        gtk_text_buffer_get_iter_at_offset(buffer, &a, (int)chars);
        chars += (guint)g_utf8_strlen(text + at, (gssize)n);
        gtk_text_buffer_get_iter_at_offset(buffer, &b, (int)chars);
        GtkTextTag *tag = tag_of(buffer, (int)count == current);
        /* Above the colours of a language, which come later. */
        gtk_text_tag_set_priority(
            tag, gtk_text_tag_table_get_size(gtk_text_buffer_get_tag_table(buffer)) - 1);
        gtk_text_buffer_apply_tag(buffer, tag, &a, &b);
        at += n;
        before = at;
        count++;
    }
    return count;
}

gboolean aq_find_rect_text(GtkTextView *view, const AqFind *find, guint nth, graphene_rect_t *ret)
{
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(view);
    g_autofree char *text = text_of(buffer);
    gsize at = 0, n;
    for (guint i = 0; aq_find_next(find, text, &at, &n); i++, at += n) {
        if (i != nth)
            continue;
        GtkTextIter iter;
        GdkRectangle r;
        int x, y;
        gtk_text_buffer_get_iter_at_offset(buffer, &iter, (int)g_utf8_strlen(text, (gssize)at));
        gtk_text_view_get_iter_location(view, &iter, &r);
        gtk_text_view_buffer_to_window_coords(view, GTK_TEXT_WINDOW_WIDGET, r.x, r.y, &x, &y);
        *ret = GRAPHENE_RECT_INIT((float)x, (float)y, 1, (float)r.height);
        return TRUE;
    }
    return FALSE;
}
