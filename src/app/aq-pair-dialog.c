/* SPDX-License-Identifier: Apache-2.0 */
/* Two PCs are paired: calling, the digits, waiting for the other person, the end. Closing it at any time ends the pairing. */
#include "aq-pair-dialog.h"

#include <glib/gi18n.h>

#include "aq-busy.h"
#include "aq-pool-words.h"

struct _AqPairDialog {
    AdwDialog parent;
    GtkWidget *headline, *digits, *spinner, *text, *cancel, *match;
    AqPoolHost *host;
    guint step;
    gboolean cancelled;
};

G_DEFINE_FINAL_TYPE(AqPairDialog, aq_pair_dialog, ADW_TYPE_DIALOG)

static void show(AqPairDialog *self, const char *headline, const char *text)
{
    gtk_label_set_text(GTK_LABEL(self->headline), headline);
    gtk_label_set_text(GTK_LABEL(self->text), text);
}

static void show_end(AqPairDialog *self, const aq_pair_state *p, guint port)
{
    if (p->step == AQ_PAIR_DONE) {
        g_autofree char *headline = g_strdup_printf(_("Paired with %s"), p->name);
        g_autofree char *reach = aq_pool_words_reach(p->name, p->reach_out, p->reach_in, port);
        show(self, headline,
             reach ? reach
                   : _("Each PC may now use the other one's layers. This can be changed for each "
                       "PC in the "
                       "list of the pool."));
    } else {
        g_autofree char *why = g_utf8_make_valid(p->why.text, -1);
        show(self, _("Not Paired"), why);
    }
    gtk_accessible_announce(GTK_ACCESSIBLE(self), gtk_label_get_text(GTK_LABEL(self->headline)),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
}

static void update(AqPairDialog *self)
{
    const aq_seat_state *st = aq_pool_host_get_state(self->host);
    const aq_pair_state *p = st ? &st->pair : NULL;

    if (!p || p->step == AQ_PAIR_NONE) {
        if (self->step != AQ_PAIR_NONE)
            adw_dialog_force_close(ADW_DIALOG(self));
        return;
    }
    if (p->step == self->step)
        return;
    self->step = p->step;
    gboolean over = p->step == AQ_PAIR_DONE || p->step == AQ_PAIR_BROKEN;
    gboolean digits = p->step == AQ_PAIR_DIGITS || p->step == AQ_PAIR_WAITS;
    gtk_widget_set_visible(self->digits, digits);
    gtk_widget_set_visible(self->spinner, !over && p->step != AQ_PAIR_DIGITS);
    gtk_widget_set_visible(self->match, p->step == AQ_PAIR_DIGITS);
    gtk_button_set_label(GTK_BUTTON(self->cancel), over ? _("Close") : _("Cancel"));
    if (digits) {
        g_autofree char *shown = g_strdup_printf("%.3s %.3s", p->digits, p->digits + 3);
        gtk_label_set_text(GTK_LABEL(self->digits), shown);
    }
    if (over && self->cancelled) {
        adw_dialog_force_close(ADW_DIALOG(self));
        return;
    }
    if (over) {
        show_end(self, p, st->port);
    } else if (p->step == AQ_PAIR_CALLING) {
        show(self, _("Calling the Other PC…"), _("Its Pool must be on."));
    } else if (p->step == AQ_PAIR_DIGITS) {
        g_autofree char *headline =
            g_strdup_printf(p->incoming ? _("%s Wants to Pair") : _("Pair with %s"), p->name);
        show(
            self, headline,
            _("Compare these digits with those on the other PC. If they differ, another device may "
              "be in between: cancel then."));
        gtk_widget_grab_focus(self->cancel);
    } else {
        g_autofree char *text = g_strdup_printf(_("Waiting for the person at %s…"), p->name);
        show(self, _("These Digits Match"), text);
    }
}

static void on_match(AqPairDialog *self)
{
    aq_pool_host_pair_answer(self->host, TRUE);
}

static void on_cancel(AqPairDialog *self)
{
    if (self->step == AQ_PAIR_DIGITS && !self->cancelled) {
        self->cancelled = TRUE; /* the other PC is told that they differ */
        aq_pool_host_pair_answer(self->host, FALSE);
    } else {
        adw_dialog_force_close(ADW_DIALOG(self));
    }
}

static void aq_pair_dialog_closed(AdwDialog *dialog)
{
    AqPairDialog *self = AQ_PAIR_DIALOG(dialog);
    g_signal_handlers_disconnect_by_data(self->host, self);
    aq_pool_host_pair_end(self->host);
}

static void aq_pair_dialog_dispose(GObject *object)
{
    AqPairDialog *self = AQ_PAIR_DIALOG(object);
    g_clear_object(&self->host);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_PAIR_DIALOG);
    G_OBJECT_CLASS(aq_pair_dialog_parent_class)->dispose(object);
}

static void aq_pair_dialog_class_init(AqPairDialogClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_pair_dialog_dispose;
    ADW_DIALOG_CLASS(klass)->closed = aq_pair_dialog_closed;
    g_type_ensure(AQ_TYPE_BUSY);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-pair-dialog.ui");
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, headline);
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, digits);
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, spinner);
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, text);
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, cancel);
    gtk_widget_class_bind_template_child(widget_class, AqPairDialog, match);
    gtk_widget_class_bind_template_callback(widget_class, on_cancel);
    gtk_widget_class_bind_template_callback(widget_class, on_match);
}

static void aq_pair_dialog_init(AqPairDialog *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqPairDialog *aq_pair_dialog_new(AqPoolHost *host)
{
    AqPairDialog *self = g_object_new(AQ_TYPE_PAIR_DIALOG, NULL);
    self->host = g_object_ref(host);
    g_signal_connect_object(host, "changed", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    update(self);
    return self;
}
