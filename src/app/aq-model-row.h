/* SPDX-License-Identifier: Apache-2.0 */
/* The widget of one model file. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-model-library.h"

G_BEGIN_DECLS

#define AQ_TYPE_MODEL_ROW (aq_model_row_get_type())
G_DECLARE_FINAL_TYPE(AqModelRow, aq_model_row, AQ, MODEL_ROW, AdwExpanderRow)

/** A model file: its facts, and the way to load it into host. */
AqModelRow *aq_model_row_new(AqModelItem *item, AqEngineHost *host);

G_END_DECLS
