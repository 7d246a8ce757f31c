/* SPDX-License-Identifier: Apache-2.0 */
/* A file of a question that was sent: its name and size, folded; unfolded, its text. */
#pragma once

#include <adwaita.h>

#include "aq-file.h"

G_BEGIN_DECLS

#define AQ_TYPE_FILE_ROW (aq_file_row_get_type())
G_DECLARE_FINAL_TYPE(AqFileRow, aq_file_row, AQ, FILE_ROW, AdwBin)

AqFileRow *aq_file_row_new(AqFile *file);

G_END_DECLS
