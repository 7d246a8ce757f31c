/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows while it is shown. Main thread. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

#define AQ_TYPE_TEXT_FLOW (aq_text_flow_get_type())
G_DECLARE_FINAL_TYPE(AqTextFlow, aq_text_flow, AQ, TEXT_FLOW, GtkWidget)

/** setup is called for each label that it makes, with user, which must live as long as the widget. */
AqTextFlow *aq_text_flow_new(void (*setup)(GtkLabel *label, gpointer user), gpointer user);
/** Show this markup, of those that aq_md_parse and aq_md_plain write. growing: more will be added at its end, so what is settled at its
 * front becomes a label of its own; else all of it is in one label. */
void aq_text_flow_set(AqTextFlow *self, const char *markup, gboolean growing);
/** Whether it is in several labels. */
gboolean aq_text_flow_is_cut(AqTextFlow *self);
/** All of it in one label, which is returned. */
GtkLabel *aq_text_flow_join(AqTextFlow *self);

G_END_DECLS
