/* SPDX-License-Identifier: Apache-2.0 */
/* A box of which only what is in view is drawn. Main thread. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

#define AQ_TYPE_COLUMN (aq_column_get_type())
G_DECLARE_FINAL_TYPE(AqColumn, aq_column, AQ, COLUMN, GtkBox)

/** It is a GtkBox in all else. */
GtkWidget *aq_column_new(int spacing);

G_END_DECLS
