/* SPDX-License-Identifier: Apache-2.0 */
/* A PC of the pool, or one that was found or added. */
#pragma once

#include <adwaita.h>

#include "aq-pool-host.h"

G_BEGIN_DECLS

#define AQ_TYPE_POOL_PC_ROW (aq_pool_pc_row_get_type())
G_DECLARE_FINAL_TYPE(AqPoolPcRow, aq_pool_pc_row, AQ, POOL_PC_ROW, AdwExpanderRow)

AqPoolPcRow *aq_pool_pc_row_new(AqPoolHost *host);
/** What is known of it now. */
void aq_pool_pc_row_set_pc(AqPoolPcRow *self, const aq_pc *pc);
const aq_pc *aq_pool_pc_row_get_pc(AqPoolPcRow *self);

G_END_DECLS
