/* SPDX-License-Identifier: Apache-2.0 */
/* The menu of a message. Main thread. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

typedef struct {
    const char *label; /* marked by N_(), with a mnemonic */
    GtkWidget *button; /* below the widget that the menu is of; has an action's name */
} AqMessageMenuItem;

/** Give the widget a menu by a right click, the Menu key and Shift+F10, once. It has an item for each of these buttons that is shown when it
 * opens, with the button's action; in code, in fields and over links GTK's own menu stays. */
void aq_message_menu_attach(GtkWidget *widget, const AqMessageMenuItem *items, gsize n);

G_END_DECLS
