/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a message as widgets. Main thread. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

#define AQ_TYPE_MARKDOWN_VIEW (aq_markdown_view_get_type())
G_DECLARE_FINAL_TYPE(AqMarkdownView, aq_markdown_view, AQ, MARKDOWN_VIEW, AdwBin)

/* Signal "more": the user asked for what is not shown of a very long message; update it again. */

/** Whether the text is Markdown, or text as it is. Before the first update. */
void aq_markdown_view_set_plain(AqMarkdownView *self, gboolean plain);
/** Show this text; only what is different from before is made anew. running: more may come. Makes a frame's worth of widgets and returns
 * FALSE while there are more to make: call it again in the next frame. */
gboolean aq_markdown_view_update(AqMarkdownView *self, const char *text, gsize n, gboolean running);

G_END_DECLS
