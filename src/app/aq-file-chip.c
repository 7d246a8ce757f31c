/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is attached to the question being written. Its tokens are counted on a worker, once for each model. */
#include "aq-file-chip.h"

#include <glib/gi18n.h>

#include "aq-format.h"

struct _AqFileChip {
    GtkBox parent;
    GtkWidget *name, *facts, *remove;
    AqFile *file;
    AqEngineHost *host;
    char *counted_for; /* path of the model; NULL = not counted yet */
    guint n_tok;
    gboolean counting;
};

G_DEFINE_FINAL_TYPE(AqFileChip, aq_file_chip, GTK_TYPE_BOX)

static guint signal_remove, signal_counted;

typedef struct {
    AqEngineSlot *slot; /* let go on the main thread */
    AqFile *file;
    char *path;
    guint n_tok;
    gboolean known;
} Count;

static void count_free(gpointer data)
{
    Count *c = data;
    g_object_unref(c->file);
    g_free(c->path);
    g_free(c);
}

static void count_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Count *c = data;
    aq_toks toks = {0};
    gsize n;
    const char *text = aq_file_get_text(c->file, &n);
    if (aq_tokenize(aq_engine_slot_get_model(c->slot), text, n, FALSE, &toks, NULL) >= 0) {
        c->n_tok = toks.n;
        c->known = TRUE;
    }
    aq_toks_clear(&toks);
    g_task_return_boolean(task, TRUE);
}

gboolean aq_file_chip_is_too_large(AqFileChip *self)
{
    guint n_ctx = aq_engine_host_get_n_ctx(self->host);
    return self->counted_for && n_ctx && self->n_tok >= n_ctx;
}

static void show(AqFileChip *self)
{
    gsize n;
    aq_file_get_text(self->file, &n);
    g_autofree char *size = aq_format_bytes(n), *text = NULL;
    gboolean large = aq_file_chip_is_too_large(self);
    if (self->counted_for) {
        g_autofree char *tok = aq_format_tokens(self->n_tok);
        guint n_ctx = aq_engine_host_get_n_ctx(self->host);
        text = large
                   /* Translators: size, "5,000 tokens", tokens that the context holds */
                   ? g_strdup_printf(_("%s · %s: more than the context of %'u"), size, tok, n_ctx)
                   : g_strdup_printf(_("%s · %s"), size, tok);
    } else {
        text = self->counting ? g_strdup_printf(_("%s · counting tokens…"), size) : g_strdup(size);
    }
    gtk_label_set_text(GTK_LABEL(self->facts), text);
    if (large)
        gtk_widget_add_css_class(GTK_WIDGET(self), "too-large");
    else
        gtk_widget_remove_css_class(GTK_WIDGET(self), "too-large");
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text,
                                   -1);
}

static void count(AqFileChip *self);

static void counted(GObject *source, GAsyncResult *result, gpointer user)
{
    AqFileChip *self = AQ_FILE_CHIP(source);
    Count *c = g_task_get_task_data(G_TASK(result));
    g_clear_pointer(&c->slot, aq_engine_slot_unref);
    self->counting = FALSE;
    if (!self->file)
        return;
    if (c->known) {
        g_set_str(&self->counted_for, c->path);
        self->n_tok = c->n_tok;
    }
    show(self);
    g_signal_emit(self, signal_counted, 0);
    if (c->known)
        count(self); /* another model may have come meanwhile */
}

static void count(AqFileChip *self)
{
    const char *path = aq_engine_host_get_path(self->host);
    if (self->counting)
        return;
    if (!path || g_strcmp0(path, self->counted_for) == 0) {
        if (!path)
            g_clear_pointer(&self->counted_for, g_free);
        show(self); /* the context may be another */
        g_signal_emit(self, signal_counted, 0);
        return;
    }
    g_clear_pointer(&self->counted_for, g_free);
    Count *c = g_new0(Count, 1);
    c->slot = aq_engine_host_ref_slot(self->host);
    c->file = g_object_ref(self->file);
    c->path = g_strdup(path);
    self->counting = TRUE;
    show(self);
    g_autoptr(GTask) task = g_task_new(self, NULL, counted, NULL);
    g_task_set_task_data(task, c, count_free);
    g_task_run_in_thread(task, count_thread);
}

static void on_remove(AqFileChip *self)
{
    g_signal_emit(self, signal_remove, 0);
}

AqFile *aq_file_chip_get_file(AqFileChip *self)
{
    return self->file;
}

static void aq_file_chip_dispose(GObject *object)
{
    AqFileChip *self = AQ_FILE_CHIP(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_FILE_CHIP);
    g_clear_object(&self->file);
    g_clear_object(&self->host);
    g_clear_pointer(&self->counted_for, g_free);
    G_OBJECT_CLASS(aq_file_chip_parent_class)->dispose(object);
}

static void aq_file_chip_class_init(AqFileChipClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_file_chip_dispose;
    signal_remove =
        g_signal_new("remove", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_counted =
        g_signal_new("counted", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-file-chip.ui");
    gtk_widget_class_bind_template_child(widget_class, AqFileChip, name);
    gtk_widget_class_bind_template_child(widget_class, AqFileChip, facts);
    gtk_widget_class_bind_template_child(widget_class, AqFileChip, remove);
    gtk_widget_class_bind_template_callback(widget_class, on_remove);
}

static void aq_file_chip_init(AqFileChip *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqFileChip *aq_file_chip_new(AqFile *file, AqEngineHost *host)
{
    AqFileChip *self = g_object_new(AQ_TYPE_FILE_CHIP, NULL);
    const char *name = aq_file_get_name(file);
    self->file = g_object_ref(file);
    self->host = g_object_ref(host);
    gtk_label_set_text(GTK_LABEL(self->name), name);
    gtk_widget_set_tooltip_text(self->name, name);
    g_autofree char *what = g_strdup_printf(_("Remove “%s”"), name);
    gtk_widget_set_tooltip_text(self->remove, what);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->remove), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   what, -1);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL, name, -1);
    g_signal_connect_object(host, "changed", G_CALLBACK(count), self, G_CONNECT_SWAPPED);
    count(self);
    return self;
}
