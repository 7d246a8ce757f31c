/* SPDX-License-Identifier: Apache-2.0 */
/* One model over this PC and another: what it would take, and how it runs. */
#pragma once

#include <adwaita.h>

#include "aq-model-library.h"
#include "aq-pool-host.h"

G_BEGIN_DECLS

#define AQ_TYPE_SPLIT_GROUP (aq_split_group_get_type())
G_DECLARE_FINAL_TYPE(AqSplitGroup, aq_split_group, AQ, SPLIT_GROUP, AdwBin)

/** Once. */
void aq_split_group_set_pool(AqSplitGroup *self, AqPoolHost *pool, AqEngineHost *engine,
                             AqModelLibrary *library);

G_END_DECLS
