/* SPDX-License-Identifier: Apache-2.0 */
/* Spell checking of what is written, where libspelling was there at build time and a dictionary is there now. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

/** Give the view, whose buffer is a GtkSourceBuffer, its checking and the entries of its menu. settings may be NULL. Without libspelling
 * nothing happens; without a dictionary the menu has one entry, off, that says so. Returns whether words are marked from now on: not when
 * there are dictionaries of other languages only, until the menu turns one on. */
gboolean aq_spelling_attach(GtkTextView *view, GSettings *settings);

G_END_DECLS
