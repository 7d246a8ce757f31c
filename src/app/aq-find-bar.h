/* SPDX-License-Identifier: Apache-2.0 */
/* Search in one chat. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chat.h"
#include "aq-find.h"

G_BEGIN_DECLS

#define AQ_TYPE_FIND_BAR (aq_find_bar_get_type())
G_DECLARE_FINAL_TYPE(AqFindBar, aq_find_bar, AQ, FIND_BAR, AdwBin)

/* Signals: "find" when what is looked for is another (aq_find_bar_get_find); "go-to" (AqMessage *, gboolean thinking, guint block,
 * guint nth) when a place is gone to; "ended": the bar went, by its button or Escape. */

void aq_find_bar_set_chat(AqFindBar *self, AqChat *chat); /* once */
/** Show the bar, with this text to look for (NULL: the one that is there), and go to its first place in a message (0: the newest). */
void aq_find_bar_open(AqFindBar *self, const char *text, gint64 message);
gboolean aq_find_bar_is_open(AqFindBar *self);
void aq_find_bar_step(AqFindBar *self, int by); /* +1: the next place; -1: the one before */
AqFind *aq_find_bar_get_find(AqFindBar *self);  /* or NULL; borrowed */

G_END_DECLS
