/* SPDX-License-Identifier: Apache-2.0 */
/* Several PCs together: on or off, the PCs there are, and a model over two of them. */
#pragma once

#include <adwaita.h>

#include "aq-model-library.h"
#include "aq-pool-host.h"

G_BEGIN_DECLS

#define AQ_TYPE_POOL_PAGE (aq_pool_page_get_type())
G_DECLARE_FINAL_TYPE(AqPoolPage, aq_pool_page, AQ, POOL_PAGE, AdwBin)

/** Once. */
void aq_pool_page_set_pool(AqPoolPage *self, AqPoolHost *pool, AqEngineHost *engine,
                           AqModelLibrary *library);

G_END_DECLS
