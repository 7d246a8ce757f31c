/* SPDX-License-Identifier: Apache-2.0 */
/* The app's keyboard shortcuts: one table for what they do and for the dialog that shows them. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

void aq_shortcuts_install(GtkApplication *app);
void aq_shortcuts_present(GtkWidget *parent);

G_END_DECLS
