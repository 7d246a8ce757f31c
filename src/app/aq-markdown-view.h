/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a message as widgets. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-find.h"

G_BEGIN_DECLS

#define AQ_TYPE_MARKDOWN_VIEW (aq_markdown_view_get_type())
G_DECLARE_FINAL_TYPE(AqMarkdownView, aq_markdown_view, AQ, MARKDOWN_VIEW, AdwBin)

/* Signal "more": the user asked for what is not shown of a very long message; update it again. */

/** Whether the text is Markdown, or text as it is. Before the first update. */
void aq_markdown_view_set_plain(AqMarkdownView *self, gboolean plain);
/** Show this text; only what is different from before is made anew. running: more may come. Makes a frame's worth of widgets and returns
 * FALSE while there are more to make: call it again in the next frame. */
gboolean aq_markdown_view_update(AqMarkdownView *self, const char *text, gsize n, gboolean running);

/** Mark what is looked for, now and as text is added; NULL: nothing. */
void aq_markdown_view_set_find(AqMarkdownView *self, AqFind *find);
/** The place that is gone to; NULL: none. It is marked, and its rectangle is given in the coordinates of the widget returned. NULL: it is
 * not there yet; "more" was emitted if that takes another update. */
GtkWidget *aq_markdown_view_go_to(AqMarkdownView *self, const AqFindPlace *place,
                                  graphene_rect_t *ret);

G_END_DECLS
