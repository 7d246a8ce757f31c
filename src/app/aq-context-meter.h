/* SPDX-License-Identifier: Apache-2.0 */
/* How much of the context a chat fills. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_CONTEXT_METER (aq_context_meter_get_type())
G_DECLARE_FINAL_TYPE(AqContextMeter, aq_context_meter, AQ, CONTEXT_METER, AdwBin)

void aq_context_meter_set_chat(AqContextMeter *self, AqChat *chat);
/** What is being written counts, too. */
void aq_context_meter_set_draft(AqContextMeter *self, const char *text);

G_END_DECLS
