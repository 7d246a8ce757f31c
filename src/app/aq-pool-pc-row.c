/* SPDX-License-Identifier: Apache-2.0 */
/* A PC of the pool, or one that was found or added: its name, how it is in words, and what can be done. */
#include "aq-pool-pc-row.h"

#include <glib/gi18n.h>

#include "aq-format.h"

struct _AqPoolPcRow {
    AdwExpanderRow parent;
    GtkWidget *pair, *address, *layers, *remove;
    AqPoolHost *host;
    aq_pc pc;
    gboolean setting;
};

G_DEFINE_FINAL_TYPE(AqPoolPcRow, aq_pool_pc_row, ADW_TYPE_EXPANDER_ROW)

static const char *name_of(const aq_pc *pc)
{
    return *pc->name ? pc->name : pc->n_addr ? pc->addr[0] : _("A PC");
}

/* One line: what it is and how it is. */
static char *status(const aq_pc *pc)
{
    if (pc->self)
        return g_strdup(_("This PC"));
    if (pc->state == AQ_PC_UNASKED)
        return g_strdup(_("Being asked…"));
    if (pc->state == AQ_PC_TROUBLE)
        return g_utf8_make_valid(pc->why.text, -1);
    if (!pc->member)
        return g_strdup(pc->found ? _("Found on this network") : _("Answers"));
    g_autofree char *mem = aq_format_bytes(pc->mem_bytes);
    if (*pc->works_for)
        /* Translators: name of the other PC, whom it works for, memory, milliseconds */
        return g_strdup_printf(_("%s works for %s · %s free · %.1f ms away"), pc->name,
                               pc->works_for, mem, (double)pc->rtt_us / 1e3);
    /* Translators: memory, milliseconds */
    return g_strdup_printf(_("Ready · %s free · %.1f ms away"), mem, (double)pc->rtt_us / 1e3);
}

void aq_pool_pc_row_set_pc(AqPoolPcRow *self, const aq_pc *pc)
{
    g_autofree char *text = status(pc), *where = NULL;
    GString *addr = g_string_new(NULL);

    self->pc = *pc;
    self->setting = TRUE;
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self), name_of(pc));
    adw_expander_row_set_subtitle(ADW_EXPANDER_ROW(self), text);
    for (guint i = 0; i < pc->n_addr; i++)
        g_string_append_printf(addr, "%s%s", i ? "\n" : "", pc->addr[i]);
    if (*pc->version)
        g_string_append_printf(addr, "%sAquifer %s", addr->len ? "\n" : "", pc->version);
    where = g_string_free(addr, FALSE);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->address), *where ? where : _("Not known"));
    gtk_widget_set_visible(self->pair, !pc->member && !pc->self && pc->n_addr > 0);
    gtk_widget_set_visible(self->layers, pc->member && !pc->self);
    adw_switch_row_set_active(ADW_SWITCH_ROW(self->layers), pc->perms & AQ_PERM_LAYERS);
    gtk_widget_set_visible(self->remove, !pc->self && (pc->member || pc->added));
    self->setting = FALSE;
    g_autofree char *pair = g_strdup_printf(_("Pair with %s"), name_of(pc));
    g_autofree char *remove =
        g_strdup_printf(pc->member ? _("Remove %s From Pool") : _("Forget %s"), name_of(pc));
    gtk_accessible_reset_relation(GTK_ACCESSIBLE(self->pair), GTK_ACCESSIBLE_RELATION_LABELLED_BY);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->pair), GTK_ACCESSIBLE_PROPERTY_LABEL, pair,
                                   -1);
    gtk_accessible_update_property(GTK_ACCESSIBLE(self->remove), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   remove, -1);
    gtk_widget_set_tooltip_text(self->remove, remove);
}

const aq_pc *aq_pool_pc_row_get_pc(AqPoolPcRow *self)
{
    return &self->pc;
}

static void on_pair(AqPoolPcRow *self)
{
    aq_pool_host_pair(self->host, &self->pc);
}

static void on_permission(AqPoolPcRow *self)
{
    gboolean on = adw_switch_row_get_active(ADW_SWITCH_ROW(self->layers));
    if (self->setting || !self->pc.member)
        return;
    guint32 perms = on ? self->pc.perms | AQ_PERM_LAYERS : self->pc.perms & ~AQ_PERM_LAYERS;
    if (perms != self->pc.perms)
        aq_pool_host_permit(self->host, &self->pc.id, perms);
}

static void remove_said(AdwAlertDialog *dialog, const char *response, AqPoolPcRow *self)
{
    if (g_str_equal(response, "remove"))
        aq_pool_host_remove(self->host, &self->pc.id);
}

static void on_remove(AqPoolPcRow *self)
{
    if (!self->pc.member) {
        aq_pool_host_forget(self->host, self->pc.addr[0]);
        return;
    }
    g_autofree char *title = g_strdup_printf(_("Remove %s?"), name_of(&self->pc));
    AdwDialog *dialog = adw_alert_dialog_new(
        title,
        _("The pool gets a new secret, and the PC can be paired again later. A split with it "
          "ends."));
    adw_alert_dialog_add_responses(ADW_ALERT_DIALOG(dialog), "cancel", _("Cancel"), "remove",
                                   _("Remove"), NULL);
    adw_alert_dialog_set_response_appearance(ADW_ALERT_DIALOG(dialog), "remove",
                                             ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(ADW_ALERT_DIALOG(dialog), "cancel");
    g_signal_connect_object(dialog, "response", G_CALLBACK(remove_said), self, 0);
    adw_dialog_present(dialog, GTK_WIDGET(self));
}

static void aq_pool_pc_row_dispose(GObject *object)
{
    AqPoolPcRow *self = AQ_POOL_PC_ROW(object);
    self->setting = TRUE;
    g_clear_object(&self->host);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_POOL_PC_ROW);
    G_OBJECT_CLASS(aq_pool_pc_row_parent_class)->dispose(object);
}

static void aq_pool_pc_row_class_init(AqPoolPcRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_pool_pc_row_dispose;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-pool-pc-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqPoolPcRow, pair);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPcRow, address);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPcRow, layers);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPcRow, remove);
    gtk_widget_class_bind_template_callback(widget_class, on_pair);
    gtk_widget_class_bind_template_callback(widget_class, on_permission);
    gtk_widget_class_bind_template_callback(widget_class, on_remove);
}

static void aq_pool_pc_row_init(AqPoolPcRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqPoolPcRow *aq_pool_pc_row_new(AqPoolHost *host)
{
    AqPoolPcRow *self = g_object_new(AQ_TYPE_POOL_PC_ROW, NULL);
    self->host = g_object_ref(host);
    return self;
}
