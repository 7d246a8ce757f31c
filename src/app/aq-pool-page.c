/* SPDX-License-Identifier: Apache-2.0 */
/* Several PCs together. Rows are kept from one state to the next, so that focus and what is folded out stay. */
#include "aq-pool-page.h"

#include <glib/gi18n.h>

#include "aq-pair-dialog.h"
#include "aq-pool-pc-row.h"
#include "aq-pool-words.h"
#include "aq-split-group.h"

struct _AqPoolPage {
    AdwBin parent;
    GtkWidget *banner, *stack, *turn_on, *name, *role, *role_off, *role_split, *serves, *split,
        *members, *others, *address, *add, *leave_group;
    AqPoolHost *pool;
    char *told;       /* what could not be done, until something else is */
    char *shown_name; /* in the entry, unless somebody writes there */
    gboolean pair_shown, setting;
};

G_DEFINE_FINAL_TYPE(AqPoolPage, aq_pool_page, ADW_TYPE_BIN)

/* ---- the worst problem ------------------------------------------------------------------------- */

static const char *mdns_words(aq_presence_state s)
{
    if (s == AQ_PRESENCE_NO_DAEMON)
        return _(
            "PCs are not found by themselves: the Avahi service does not run on this PC. Start it, "
            "or add PCs by address.");
    if (s == AQ_PRESENCE_REFUSED)
        return _("The Avahi service shows this PC to nobody. Others add it by address.");
    if (s == AQ_PRESENCE_TWIN)
        return _("Another PC on this network has the identity of this one, as if its state folder "
                 "had been copied. Turn the Pool off on one of the two, remove its folder "
                 "aquifer/pool, and pair it anew.");
    if (s == AQ_PRESENCE_FAILED)
        return _("PCs are not found by themselves: the Avahi service reports an error. Add PCs by "
                 "address.");
    if (s == AQ_PRESENCE_NO_BUILD)
        return _("This build does not find PCs by itself. Add PCs by address.");
    return NULL;
}

static void update_banner(AqPoolPage *self, const aq_seat_state *st)
{
    const char *error = aq_pool_host_get_error(self->pool), *words = NULL, *button = NULL;
    gboolean off = aq_pool_host_get_power(self->pool) == AQ_POWER_OFF;
    g_autofree char *text = NULL;

    if (self->told) {
        text = g_strdup(self->told);
        button = _("Close");
    } else if (off && error) {
        text = g_utf8_make_valid(error, -1);
    } else if (st && st->listen_err.code && strstr(st->listen_err.text, "in use")) {
        /* Translators: what the engine says; it names the address and port */
        g_autofree char *why = g_utf8_make_valid(st->listen_err.text, -1);
        text = g_strdup_printf(_("Other PCs cannot reach this one: %s"), why);
        button = _("Use Another Port");
    } else if (st && st->listen_err.code) {
        g_autofree char *why = g_utf8_make_valid(st->listen_err.text, -1);
        text = g_strdup_printf(_("Other PCs cannot reach this one: %s"), why);
        button = _("Try Again");
    } else if (st && (words = mdns_words(st->mdns.state))) {
        text = g_strdup(words);
        button = _("Add by Address");
    }
    adw_banner_set_title(ADW_BANNER(self->banner), text ? text : "");
    adw_banner_set_button_label(ADW_BANNER(self->banner), button);
    adw_banner_set_revealed(ADW_BANNER(self->banner), text != NULL);
}

static void update(AqPoolPage *self);

static void on_banner(AqPoolPage *self)
{
    const aq_seat_state *st = aq_pool_host_get_state(self->pool);
    if (self->told) {
        g_clear_pointer(&self->told, g_free);
        update(self);
    } else if (st && st->listen_err.code) {
        gboolean used = strstr(st->listen_err.text, "in use") != NULL;
        aq_pool_host_listen(self->pool, used ? 0 : AQ_POOL_PORT);
    } else {
        gtk_widget_grab_focus(self->address);
    }
}

static void on_told(AqPoolPage *self, const char *text)
{
    g_set_str(&self->told, text);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
    update(self);
}

/* ---- lists ------------------------------------------------------------------------------------ */

static gboolean same_pc(const aq_pc *a, const aq_pc *b)
{
    if (a->has_id || b->has_id)
        return a->has_id && b->has_id && aq_id_equal(&a->id, &b->id);
    return g_str_equal(a->addr[0], b->addr[0]);
}

static void update_list(AqPoolPage *self, GtkWidget *list, const aq_seat_state *st,
                        gboolean members)
{
    guint at = 0;

    for (guint i = 0; st && i < st->n_pc; i++) {
        const aq_pc *pc = &st->pc[i];
        GtkListBoxRow *row;
        if (pc->member != members)
            continue;
        /* Rows between are of PCs that went. */
        while ((row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(list), (int)at))) {
            guint k = i;
            while (k < st->n_pc &&
                   !(st->pc[k].member == members &&
                     same_pc(aq_pool_pc_row_get_pc(AQ_POOL_PC_ROW(row)), &st->pc[k])))
                k++;
            if (k < st->n_pc)
                break;
            gtk_list_box_remove(GTK_LIST_BOX(list), GTK_WIDGET(row));
        }
        if (!row || !same_pc(aq_pool_pc_row_get_pc(AQ_POOL_PC_ROW(row)), pc)) {
            row = GTK_LIST_BOX_ROW(aq_pool_pc_row_new(self->pool));
            gtk_list_box_insert(GTK_LIST_BOX(list), GTK_WIDGET(row), (int)at);
        }
        aq_pool_pc_row_set_pc(AQ_POOL_PC_ROW(row), pc);
        at++;
    }
    for (GtkListBoxRow *row; (row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(list), (int)at));)
        gtk_list_box_remove(GTK_LIST_BOX(list), GTK_WIDGET(row));
}

/* Nobody wrote this, so there is nothing to apply. */
static void set_entry(GtkWidget *row, const char *text)
{
    adw_entry_row_set_show_apply_button(ADW_ENTRY_ROW(row), FALSE);
    gtk_editable_set_text(GTK_EDITABLE(row), text);
    adw_entry_row_set_show_apply_button(ADW_ENTRY_ROW(row), TRUE);
}

/* ---- this PC ------------------------------------------------------------------------------------ */

static void update_serves(AqPoolPage *self, const aq_seat_state *st)
{
    g_autofree char *title = NULL, *text = NULL;

    if (*st->node.who) {
        /* Translators: name of a PC */
        title = g_strdup_printf(_("Works for %s"), st->node.who);
        text = st->node.loaded ? g_strdup_printf(_("Layers %u–%u are loaded here"), st->node.l0,
                                                 st->node.l1 - 1)
                               : g_strdup(_("Layers are being loaded"));
    } else if (st->node.loaded) {
        title = g_strdup(_("Works for Nobody Now"));
        text = g_strdup_printf(_("Layers %u–%u stay loaded for the next time"), st->node.l0,
                               st->node.l1 - 1);
    } else {
        title = g_strdup(_("Works for Nobody Now"));
        text = st->port ? g_strdup_printf(_("Other PCs of the pool reach it on port %u"), st->port)
                        : g_strdup(_("Other PCs cannot reach it"));
    }
    g_autofree char *reach =
        st->in_pool && st->port && *st->reach_name
            ? aq_pool_words_reach(st->reach_name, st->reach_out, st->reach_in, st->port)
            : NULL;
    if (reach) {
        g_autofree char *more = g_strdup_printf("%s\n%s", text, reach);
        g_free(text);
        text = g_steal_pointer(&more);
    }
    if (st->guest && st->host.pid) {
        g_autofree char *host =
            /* Translators: name of a program, number of its process */
            g_strdup_printf(_("%s, process %u, has this PC's pool: this window steers it"),
                            st->host.name, st->host.pid);
        g_autofree char *more = g_strdup_printf("%s\n%s", text, host);
        g_free(text);
        text = g_steal_pointer(&more);
    }
    if (*st->node.fault) {
        g_autofree char *more = g_strdup_printf(_("%s\nLast error: %s"), text, st->node.fault);
        g_free(text);
        text = g_utf8_make_valid(more, -1);
    }
    adw_preferences_row_set_title(ADW_PREFERENCES_ROW(self->serves), title);
    adw_action_row_set_subtitle(ADW_ACTION_ROW(self->serves), text);
}

static void update_pairing(AqPoolPage *self, const aq_seat_state *st)
{
    guint step = st ? st->pair.step : AQ_PAIR_NONE;

    if (step == AQ_PAIR_NONE) {
        self->pair_shown = FALSE;
        return;
    }
    GtkRoot *root = gtk_widget_get_root(GTK_WIDGET(self));
    if (self->pair_shown || !root)
        return;
    self->pair_shown = TRUE;
    adw_dialog_present(ADW_DIALOG(aq_pair_dialog_new(self->pool)), GTK_WIDGET(root));
    GtkApplication *app = GTK_IS_WINDOW(root) ? gtk_window_get_application(GTK_WINDOW(root)) : NULL;
    if (app && st->pair.incoming && !gtk_window_is_active(GTK_WINDOW(root))) {
        g_autofree char *title = g_strdup_printf(_("%s Wants to Pair"), st->pair.name);
        g_autoptr(GNotification) note = g_notification_new(title);
        g_application_send_notification(G_APPLICATION(app), "pair", note);
    }
}

static void update(AqPoolPage *self)
{
    AqPower power = aq_pool_host_get_power(self->pool);
    const aq_seat_state *st = aq_pool_host_get_state(self->pool);
    const char *name = aq_pool_host_get_name(self->pool);

    gtk_stack_set_visible_child_name(GTK_STACK(self->stack), st ? "on" : "off");
    gtk_widget_set_sensitive(self->turn_on, power == AQ_POWER_OFF);
    gtk_button_set_label(GTK_BUTTON(self->turn_on), power == AQ_POWER_STARTING ? _("Turning On…")
                                                    : power == AQ_POWER_STOPPING
                                                        ? _("Turning Off…")
                                                        : _("Turn On Pool"));
    update_banner(self, st);
    update_pairing(self, st);
    if (!st)
        return;
    self->setting = TRUE;
    gtk_toggle_button_set_active(GTK_TOGGLE_BUTTON(self->role_split), TRUE);
    self->setting = FALSE;
    if (g_strcmp0(name, self->shown_name) != 0) {
        g_set_str(&self->shown_name, name);
        set_entry(self->name, name);
    }
    update_serves(self, st);
    update_list(self, self->members, st, TRUE);
    update_list(self, self->others, st, FALSE);
    gtk_widget_set_visible(self->leave_group, st->in_pool);
}

/* ---- what a person does ------------------------------------------------------------------------- */

static void hush(AqPoolPage *self)
{
    g_clear_pointer(&self->told, g_free);
}

static void on_turn_on(AqPoolPage *self)
{
    hush(self);
    aq_pool_host_turn_on(self->pool);
}

static void on_role(AqPoolPage *self)
{
    if (self->setting || !self->pool ||
        !gtk_toggle_button_get_active(GTK_TOGGLE_BUTTON(self->role_off)))
        return;
    hush(self);
    aq_pool_host_turn_off(self->pool);
}

static void on_rename(AqPoolPage *self)
{
    const char *name = gtk_editable_get_text(GTK_EDITABLE(self->name));
    hush(self);
    g_set_str(&self->shown_name, name); /* a refusal shows the old one again */
    aq_pool_host_rename(self->pool, name);
}

static void on_address(AqPoolPage *self)
{
    gtk_widget_set_sensitive(self->add, *gtk_editable_get_text(GTK_EDITABLE(self->address)) != 0);
}

static void on_add(AqPoolPage *self)
{
    g_autofree char *text = g_strdup(gtk_editable_get_text(GTK_EDITABLE(self->address)));
    if (!*g_strstrip(text))
        return;
    hush(self);
    aq_pool_host_add(self->pool, text);
    gtk_editable_set_text(GTK_EDITABLE(self->address), "");
}

static void on_ask(AqPoolPage *self)
{
    aq_pool_host_ask(self->pool);
}

static void leave_said(AdwAlertDialog *dialog, const char *response, AqPoolPage *self)
{
    if (g_str_equal(response, "leave"))
        aq_pool_host_leave(self->pool);
}

static void on_leave(AqPoolPage *self)
{
    AdwDialog *dialog = adw_alert_dialog_new(
        _("Leave This Pool?"),
        _("This PC forgets the pool's secret and its PCs. It can be paired again later."));
    adw_alert_dialog_add_responses(ADW_ALERT_DIALOG(dialog), "cancel", _("Cancel"), "leave",
                                   _("Leave"), NULL);
    adw_alert_dialog_set_response_appearance(ADW_ALERT_DIALOG(dialog), "leave",
                                             ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(ADW_ALERT_DIALOG(dialog), "cancel");
    g_signal_connect_object(dialog, "response", G_CALLBACK(leave_said), self, 0);
    adw_dialog_present(dialog, GTK_WIDGET(self));
}

/* ---- life ------------------------------------------------------------------------------------ */

static void aq_pool_page_dispose(GObject *object)
{
    AqPoolPage *self = AQ_POOL_PAGE(object);
    self->setting = TRUE;
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_POOL_PAGE);
    g_clear_object(&self->pool);
    g_clear_pointer(&self->told, g_free);
    g_clear_pointer(&self->shown_name, g_free);
    G_OBJECT_CLASS(aq_pool_page_parent_class)->dispose(object);
}

static void aq_pool_page_class_init(AqPoolPageClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_pool_page_dispose;
    g_type_ensure(AQ_TYPE_SPLIT_GROUP);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-pool-page.ui");
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, banner);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, stack);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, turn_on);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, name);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, role);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, role_off);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, role_split);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, serves);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, split);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, members);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, others);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, address);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, add);
    gtk_widget_class_bind_template_child(widget_class, AqPoolPage, leave_group);
    gtk_widget_class_bind_template_callback(widget_class, on_banner);
    gtk_widget_class_bind_template_callback(widget_class, on_turn_on);
    gtk_widget_class_bind_template_callback(widget_class, on_role);
    gtk_widget_class_bind_template_callback(widget_class, on_rename);
    gtk_widget_class_bind_template_callback(widget_class, on_add);
    gtk_widget_class_bind_template_callback(widget_class, on_address);
    gtk_widget_class_bind_template_callback(widget_class, on_ask);
    gtk_widget_class_bind_template_callback(widget_class, on_leave);
}

static void aq_pool_page_init(AqPoolPage *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

void aq_pool_page_set_pool(AqPoolPage *self, AqPoolHost *pool, AqEngineHost *engine,
                           AqModelLibrary *library)
{
    g_return_if_fail(AQ_IS_POOL_PAGE(self) && !self->pool);
    self->pool = g_object_ref(pool);
    g_signal_connect_object(pool, "changed", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(pool, "told", G_CALLBACK(on_told), self, G_CONNECT_SWAPPED);
    aq_split_group_set_pool(AQ_SPLIT_GROUP(self->split), pool, engine, library);
    update(self);
}
