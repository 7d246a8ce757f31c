/* SPDX-License-Identifier: Apache-2.0 */
/* A bar of parts whose widths are their shares, each with a label; for layers per PC and for time per PC. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

#define AQ_LAYER_BAR_PARTS 3

#define AQ_TYPE_LAYER_BAR (aq_layer_bar_get_type())
G_DECLARE_FINAL_TYPE(AqLayerBar, aq_layer_bar, AQ, LAYER_BAR, GtkWidget)

/** share 0 hides a part. text: in it; tip: said of it. */
void aq_layer_bar_set_part(AqLayerBar *self, guint part, double share, const char *text,
                           const char *tip);

G_END_DECLS
