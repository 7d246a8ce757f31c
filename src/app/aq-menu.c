/* SPDX-License-Identifier: Apache-2.0 */
/* A small menu of actions, a popover of plain buttons. */
#include "aq-menu.h"

#include <glib/gi18n.h>

GtkWidget *aq_menu_new(const AqMenuItem *items, gsize n)
{
    /* Of a popover's usual role no name is told. */
    GtkWidget *popover =
        g_object_new(GTK_TYPE_POPOVER, "accessible-role", GTK_ACCESSIBLE_ROLE_GROUP, NULL);
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0);
    for (gsize i = 0; i < n; i++) {
        if (!items[i].label) {
            gtk_box_append(GTK_BOX(box), gtk_separator_new(GTK_ORIENTATION_HORIZONTAL));
            continue;
        }
        GtkWidget *item = gtk_button_new_with_mnemonic(gettext(items[i].label));
        gtk_widget_set_halign(gtk_button_get_child(GTK_BUTTON(item)), GTK_ALIGN_START);
        gtk_widget_add_css_class(item, "flat");
        gtk_widget_add_css_class(item, "menu-item");
        /* The menu goes before the action takes place: it may remove what the menu belongs to. */
        g_signal_connect_swapped(item, "clicked", G_CALLBACK(gtk_popover_popdown), popover);
        gtk_actionable_set_action_name(GTK_ACTIONABLE(item), items[i].action);
        gtk_box_append(GTK_BOX(box), item);
    }
    gtk_popover_set_child(GTK_POPOVER(popover), box);
    return popover;
}

typedef struct {
    const AqMenuItem *items;
    gsize n;
} Menu;

static void create_popup(GtkMenuButton *button, gpointer user)
{
    const Menu *menu = user;
    if (!gtk_menu_button_get_popover(button))
        gtk_menu_button_set_popover(button, aq_menu_new(menu->items, menu->n));
}

void aq_menu_set(GtkMenuButton *button, const AqMenuItem *items, gsize n)
{
    const Menu menu = {.items = items, .n = n};
    gtk_menu_button_set_create_popup_func(button, create_popup, g_memdup2(&menu, sizeof menu),
                                          g_free);
}
