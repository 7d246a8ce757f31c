/* SPDX-License-Identifier: Apache-2.0 */
/* The name of the loaded model, and a menu of those that can be loaded in its place. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-model-library.h"

G_BEGIN_DECLS

#define AQ_TYPE_MODEL_PICKER (aq_model_picker_get_type())
G_DECLARE_FINAL_TYPE(AqModelPicker, aq_model_picker, AQ, MODEL_PICKER, AdwBin)

/** Offer the models of library, once; they are loaded into host. */
void aq_model_picker_set_library(AqModelPicker *self, AqModelLibrary *library, AqEngineHost *host);

G_END_DECLS
