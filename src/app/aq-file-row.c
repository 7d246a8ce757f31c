/* SPDX-License-Identifier: Apache-2.0 */
/* A file of a question that was sent. Its text is put into a view when it is unfolded for the first time, and of a long one the beginning:
 * all of it can be copied. */
#include "aq-file-row.h"

#include <glib/gi18n.h>

#include "aq-format.h"

#define SHOWN_BYTES (32u << 10)
#define LINE_MAX_CHARS 1000 /* a text view lays out a line as a whole: longer ones are broken */
#define HEIGHT_MAX 260

struct _AqFileRow {
    AdwBin parent;
    GtkWidget *expander;
    AqFile *file;
};

G_DEFINE_FINAL_TYPE(AqFileRow, aq_file_row, ADW_TYPE_BIN)

/* The beginning, with breaks in lines that are too long; *ret_bytes: how much of the file that is. */
static char *beginning(AqFile *file, gsize *ret_bytes)
{
    gsize n;
    const char *text = aq_file_get_text(file, &n), *p = text;
    GString *s = g_string_new(NULL);
    for (glong column = 0; (gsize)(p - text) < MIN(n, SHOWN_BYTES); p = g_utf8_next_char(p)) {
        if (*p == '\n') {
            column = 0;
        } else if (++column > LINE_MAX_CHARS) {
            g_string_append_c(s, '\n');
            column = 1;
        }
        g_string_append_len(s, p, g_utf8_next_char(p) - p);
    }
    *ret_bytes = (gsize)(p - text);
    return g_string_free(s, FALSE);
}

static void on_copy(AqFileRow *self)
{
    gdk_clipboard_set_text(gtk_widget_get_clipboard(GTK_WIDGET(self)),
                           aq_file_get_text(self->file, NULL));
    gtk_accessible_announce(GTK_ACCESSIBLE(self), _("Copied"),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_LOW);
}

static void on_expanded(AqFileRow *self)
{
    GtkExpander *expander = GTK_EXPANDER(self->expander);
    if (!gtk_expander_get_expanded(expander) || gtk_expander_get_child(expander))
        return;
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6), *view = gtk_text_view_new(),
              *scrolled = gtk_scrolled_window_new(), *foot = gtk_box_new(0, 6),
              *copy = gtk_button_new_with_label(_("Copy File"));
    gsize n, shown;
    g_autofree char *text = beginning(self->file, &shown);
    gtk_text_buffer_set_text(gtk_text_view_get_buffer(GTK_TEXT_VIEW(view)), text, -1);
    gtk_text_view_set_editable(GTK_TEXT_VIEW(view), FALSE);
    gtk_text_view_set_cursor_visible(GTK_TEXT_VIEW(view), FALSE);
    gtk_text_view_set_monospace(GTK_TEXT_VIEW(view), TRUE);
    gtk_text_view_set_accepts_tab(GTK_TEXT_VIEW(view), FALSE);
    gtk_text_view_set_wrap_mode(GTK_TEXT_VIEW(view), GTK_WRAP_WORD_CHAR);
    gtk_accessible_update_property(GTK_ACCESSIBLE(view), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   aq_file_get_name(self->file), -1);
    gtk_widget_add_css_class(scrolled, "file-text");
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_NEVER,
                                   GTK_POLICY_AUTOMATIC);
    gtk_scrolled_window_set_propagate_natural_height(GTK_SCROLLED_WINDOW(scrolled), TRUE);
    gtk_scrolled_window_set_max_content_height(GTK_SCROLLED_WINDOW(scrolled), HEIGHT_MAX);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), view);
    gtk_box_append(GTK_BOX(box), scrolled);
    g_signal_connect_object(copy, "clicked", G_CALLBACK(on_copy), self, G_CONNECT_SWAPPED);
    gtk_box_append(GTK_BOX(foot), copy);
    aq_file_get_text(self->file, &n);
    if (shown < n) {
        g_autofree char *rest = aq_format_bytes(n - shown);
        /* Translators: how much of a file is not shown */
        g_autofree char *more = g_strdup_printf(_("… and %s more"), rest);
        GtkWidget *label = gtk_label_new(more);
        gtk_label_set_wrap(GTK_LABEL(label), TRUE);
        gtk_widget_add_css_class(label, "dimmed");
        gtk_box_append(GTK_BOX(foot), label);
    }
    gtk_box_append(GTK_BOX(box), foot);
    gtk_widget_set_margin_top(box, 6);
    gtk_expander_set_child(expander, box);
}

static void aq_file_row_dispose(GObject *object)
{
    g_clear_object(&AQ_FILE_ROW(object)->file);
    G_OBJECT_CLASS(aq_file_row_parent_class)->dispose(object);
}

static void aq_file_row_class_init(AqFileRowClass *klass)
{
    G_OBJECT_CLASS(klass)->dispose = aq_file_row_dispose;
}

static void aq_file_row_init(AqFileRow *self)
{
    gtk_widget_add_css_class(GTK_WIDGET(self), "message-file");
}

AqFileRow *aq_file_row_new(AqFile *file)
{
    AqFileRow *self = g_object_new(AQ_TYPE_FILE_ROW, NULL);
    gsize n;
    self->file = g_object_ref(file);
    aq_file_get_text(file, &n);
    g_autofree char *size = aq_format_bytes(n);
    /* Translators: file name, size */
    g_autofree char *text = g_strdup_printf(_("%s · %s"), aq_file_get_name(file), size);
    GtkWidget *label = gtk_label_new(text);
    gtk_label_set_ellipsize(GTK_LABEL(label), PANGO_ELLIPSIZE_MIDDLE);
    self->expander = gtk_expander_new(NULL);
    gtk_expander_set_label_widget(GTK_EXPANDER(self->expander), label);
    g_signal_connect_object(self->expander, "notify::expanded", G_CALLBACK(on_expanded), self,
                            G_CONNECT_SWAPPED);
    adw_bin_set_child(ADW_BIN(self), self->expander);
    return self;
}
