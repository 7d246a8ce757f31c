/* SPDX-License-Identifier: Apache-2.0 */
/* How long the main loop's turns take, for `./dev bench --gate chat`. Off, and free, unless AQ_LOOP_METER names a file. Main thread. */
#pragma once

#include <gtk/gtk.h>

G_BEGIN_DECLS

/** Once, before the loop runs: measure until aq_loop_meter_end, which writes the file. file NULL: nothing is ever measured. */
void aq_loop_meter_begin(const char *file);
/** Something that happened now, to be found in the file by its name: a word. */
void aq_loop_meter_mark(const char *name);
/** Mark each frame of a realized window as "painted". */
void aq_loop_meter_watch(GtkWidget *window);
void aq_loop_meter_end(void);

G_END_DECLS
