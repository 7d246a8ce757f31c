/* SPDX-License-Identifier: Apache-2.0 */
/* Found places made to be seen in labels and text views. Main thread. */
#pragma once

#include <gtk/gtk.h>

#include "aq-find.h"

G_BEGIN_DECLS

/** Mark all places in the label's text, the one numbered `current` in another colour (-1: none). find NULL: no marks. Returns how many
 * there are. */
guint aq_find_mark_label(GtkLabel *label, const AqFind *find, int current);
guint aq_find_mark_text(GtkTextView *view, const AqFind *find, int current);
/** Where the nth place lies, in the widget's coordinates; FALSE when it is not there. */
gboolean aq_find_rect_label(GtkLabel *label, const AqFind *find, guint nth, graphene_rect_t *ret);
gboolean aq_find_rect_text(GtkTextView *view, const AqFind *find, guint nth, graphene_rect_t *ret);

G_END_DECLS
