/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the models on this PC. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-model-library.h"

G_BEGIN_DECLS

#define AQ_TYPE_MODELS_PAGE (aq_models_page_get_type())
G_DECLARE_FINAL_TYPE(AqModelsPage, aq_models_page, AQ, MODELS_PAGE, AdwBin)

/** Show the models of library, once; they are loaded into host. folder: where they are looked for, to be told. */
void aq_models_page_set_library(AqModelsPage *self, AqModelLibrary *library, AqEngineHost *host,
                                const char *folder);

G_END_DECLS
