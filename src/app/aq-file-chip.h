/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is attached to the question being written: its name, size and tokens, and a button that takes it away. */
#pragma once

#include <gtk/gtk.h>

#include "aq-engine-host.h"
#include "aq-file.h"

G_BEGIN_DECLS

#define AQ_TYPE_FILE_CHIP (aq_file_chip_get_type())
G_DECLARE_FINAL_TYPE(AqFileChip, aq_file_chip, AQ, FILE_CHIP, GtkBox)

/* Signals: "remove" (the button was pressed); "counted" (its tokens are known, or those of another model). */
AqFileChip *aq_file_chip_new(AqFile *file, AqEngineHost *host);
AqFile *aq_file_chip_get_file(AqFileChip *self);
/** Whether the loaded model's context cannot hold the file alone. */
gboolean aq_file_chip_is_too_large(AqFileChip *self);

G_END_DECLS
