/* SPDX-License-Identifier: Apache-2.0 */
/* The page of the local API: its switch, addresses and keys, how programs are set up for it, what they ask now and asked before. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-api-server.h"

G_BEGIN_DECLS

#define AQ_TYPE_API_PAGE (aq_api_page_get_type())
G_DECLARE_FINAL_TYPE(AqApiPage, aq_api_page, AQ, API_PAGE, AdwBin)

/** Show and steer server, once. The page shuts it down when it goes. */
void aq_api_page_set_server(AqApiPage *self, AqApiServer *server, AqEngineHost *host);

G_END_DECLS
