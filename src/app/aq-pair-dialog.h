/* SPDX-License-Identifier: Apache-2.0 */
/* Two PCs are paired: both people compare six digits. */
#pragma once

#include <adwaita.h>

#include "aq-pool-host.h"

G_BEGIN_DECLS

#define AQ_TYPE_PAIR_DIALOG (aq_pair_dialog_get_type())
G_DECLARE_FINAL_TYPE(AqPairDialog, aq_pair_dialog, AQ, PAIR_DIALOG, AdwDialog)

/** Follows the pairing that is under way, and ends it when it is closed. */
AqPairDialog *aq_pair_dialog_new(AqPoolHost *host);

G_END_DECLS
