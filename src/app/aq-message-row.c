/* SPDX-License-Identifier: Apache-2.0 */
/* One message: blocks of text, below them what went wrong, what it cost, what can be done with it.
 *
 * The message may change many times between two frames; the row follows once per frame, and then lays out only its last block anew. */
#include "aq-message-row.h"

#include <glib/gi18n.h>

#include "aq-format.h"

struct _AqMessageRow {
    GtkListBoxRow parent;
    GtkWidget *thinking, *thinking_label, *blocks, *wait, *wait_label, *failure, *failure_label,
        *retry, *fresh, *foot, *again, *stats;
    AqMessage *message;
    GtkWidget *block;  /* the last one, or NULL */
    gsize block_start; /* its first byte */
    gsize shown, thinking_shown;
    guint tick;
    gboolean last, was_running, unsaved;
};

G_DEFINE_FINAL_TYPE(AqMessageRow, aq_message_row, GTK_TYPE_LIST_BOX_ROW)

static GtkWidget *block_new(void)
{
    GtkWidget *w = gtk_label_new(NULL);
    GtkLabel *label = GTK_LABEL(w);
    gtk_label_set_wrap(label, TRUE);
    gtk_label_set_wrap_mode(label, PANGO_WRAP_WORD_CHAR);
    gtk_label_set_natural_wrap_mode(label, GTK_NATURAL_WRAP_WORD);
    gtk_label_set_xalign(label, 0);
    gtk_label_set_selectable(label, TRUE);
    return w;
}

static void show_text(AqMessageRow *self)
{
    gsize n;
    const char *text = aq_message_get_text(self->message, &n);
    if (n == self->shown)
        return;
    self->shown = n;
    for (gsize from = self->block_start; from < n;) {
        gsize end = aq_text_block_end(text, n, from), last = end;
        if (!self->block) {
            self->block = block_new();
            self->block_start = from;
            gtk_box_append(GTK_BOX(self->blocks), self->block);
        }
        while (last > from && text[last - 1] == '\n')
            last--;
        g_autofree char *part = g_strndup(text + from, last - from);
        gtk_label_set_text(GTK_LABEL(self->block), part);
        if (end < n)
            self->block = NULL;
        from = end;
    }
}

static void show_thinking(AqMessageRow *self)
{
    gsize n;
    const char *text = aq_message_get_thinking(self->message, &n);
    gtk_widget_set_visible(self->thinking, n > 0);
    if (n == self->thinking_shown)
        return;
    self->thinking_shown = n;
    gtk_label_set_text(GTK_LABEL(self->thinking_label), text);
}

static char *stats_text(AqMessage *message)
{
    AqMessageState state = aq_message_get_state(message);
    const aq_usage *usage = aq_message_get_usage(message);
    g_autofree char *numbers = usage ? aq_format_usage(usage) : NULL;
    const char *why = state == AQ_MESSAGE_STOPPED ? _("Stopped")
                      : state == AQ_MESSAGE_FULL  ? _("Cut off: the context is full")
                                                  : NULL;
    if (why && numbers)
        return g_strdup_printf("%s · %s", why, numbers);
    return why ? g_strdup(why) : g_steal_pointer(&numbers);
}

static void update(AqMessageRow *self)
{
    AqMessage *m = self->message;
    AqMessageState state = aq_message_get_state(m);
    gboolean answer = aq_message_get_role(m) == AQ_MESSAGE_ASSISTANT;
    gboolean running = aq_message_is_running(m);
    gboolean failed = state == AQ_MESSAGE_FAILED;

    show_text(self);
    show_thinking(self);
    gtk_widget_set_visible(self->blocks, self->shown > 0);
    gtk_widget_set_visible(self->wait, state == AQ_MESSAGE_WAITING);
    if (state == AQ_MESSAGE_WAITING) {
        g_autofree char *wait = aq_message_describe_wait(m);
        gtk_label_set_text(GTK_LABEL(self->wait_label), wait);
    }
    gtk_widget_set_visible(self->failure, failed);
    if (failed) {
        /* Asking the same again is no help when the chat is too long. */
        gboolean too_long = aq_message_get_error_code(m) == AQ_E_LIMIT;
        g_autofree char *why = g_utf8_make_valid(aq_message_get_error(m), -1);
        /* Translators: a sentence that says why and what to do */
        g_autofree char *text = g_strdup_printf(_("Not answered: %s"), why);
        gtk_label_set_text(GTK_LABEL(self->failure_label), text);
        gtk_widget_set_visible(self->retry, self->last && !too_long);
        gtk_widget_set_visible(self->fresh, too_long);
    }
    gtk_widget_set_visible(self->foot, answer && !running && !failed);
    gtk_widget_set_visible(self->again, self->last);
    g_autofree char *stats = stats_text(m);
    gtk_label_set_text(GTK_LABEL(self->stats), stats ? stats : "");
    gtk_widget_set_visible(self->stats, stats != NULL);

    gboolean unsaved = !answer && !aq_message_get_saved(m);
    if (unsaved != self->unsaved) {
        self->unsaved = unsaved;
        if (unsaved)
            gtk_widget_add_css_class(GTK_WIDGET(self), "unsaved");
        else
            gtk_widget_remove_css_class(GTK_WIDGET(self), "unsaved");
        gtk_widget_set_tooltip_text(GTK_WIDGET(self), unsaved ? _("Not saved yet") : NULL);
        gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION,
                                       unsaved ? _("Not saved yet") : "", -1);
    }

    if (self->was_running && !running)
        gtk_accessible_announce(GTK_ACCESSIBLE(self),
                                failed ? _("The answer failed") : _("The answer is complete"),
                                GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
    self->was_running = running;
}

static gboolean on_frame(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqMessageRow *self = AQ_MESSAGE_ROW(widget);
    self->tick = 0;
    update(self);
    return G_SOURCE_REMOVE;
}

static void on_changed(AqMessageRow *self)
{
    /* A row that is not on screen has no frames: it catches up when it is mapped. */
    if (!self->tick && gtk_widget_get_mapped(GTK_WIDGET(self)))
        self->tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), on_frame, NULL, NULL);
}

static void aq_message_row_map(GtkWidget *widget)
{
    GTK_WIDGET_CLASS(aq_message_row_parent_class)->map(widget);
    update(AQ_MESSAGE_ROW(widget));
}

static void on_copy(AqMessageRow *self)
{
    gdk_clipboard_set_text(gtk_widget_get_clipboard(GTK_WIDGET(self)),
                           aq_message_get_text(self->message, NULL));
}

void aq_message_row_set_last(AqMessageRow *self, gboolean last)
{
    g_return_if_fail(AQ_IS_MESSAGE_ROW(self));
    if (self->last == last)
        return;
    self->last = last;
    update(self);
}

static void aq_message_row_dispose(GObject *object)
{
    AqMessageRow *self = AQ_MESSAGE_ROW(object);
    if (self->tick)
        gtk_widget_remove_tick_callback(GTK_WIDGET(self), self->tick);
    self->tick = 0;
    g_clear_object(&self->message);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_MESSAGE_ROW);
    G_OBJECT_CLASS(aq_message_row_parent_class)->dispose(object);
}

static void aq_message_row_class_init(AqMessageRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_message_row_dispose;
    widget_class->map = aq_message_row_map;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-message-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, thinking);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, thinking_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, blocks);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, wait);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, wait_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, failure);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, failure_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, retry);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, fresh);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, foot);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, again);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, stats);
    gtk_widget_class_bind_template_callback(widget_class, on_copy);
}

static void aq_message_row_init(AqMessageRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqMessageRow *aq_message_row_new(AqMessage *message)
{
    AqMessageRow *self = g_object_new(AQ_TYPE_MESSAGE_ROW, NULL);
    gboolean user = aq_message_get_role(message) == AQ_MESSAGE_USER;
    self->message = g_object_ref(message);
    self->was_running = aq_message_is_running(message);
    if (user) {
        gtk_widget_add_css_class(self->blocks, "message-question");
        gtk_widget_set_halign(self->blocks, GTK_ALIGN_END);
    }
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   user ? _("Question") : _("Answer"), -1);
    g_signal_connect_object(message, "changed", G_CALLBACK(on_changed), self, G_CONNECT_SWAPPED);
    update(self);
    return self;
}
