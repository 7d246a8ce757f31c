/* SPDX-License-Identifier: Apache-2.0 */
/* A small menu of actions. Main thread. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

typedef struct {
    const char *label;  /* marked by N_(), with a mnemonic; NULL: a line between others */
    const char *action; /* of the widget that the menu belongs to, or of one around it */
} AqMenuItem;

/** A popover of plain buttons: the items of GTK's own menus have no names for assistive technology (GTK 4.18). */
GtkWidget *aq_menu_new(const AqMenuItem *items, gsize n);
/** Give the button a menu, made when it is opened first. items: static. */
void aq_menu_set(GtkMenuButton *button, const AqMenuItem *items, gsize n);

G_END_DECLS
