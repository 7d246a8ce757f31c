/* SPDX-License-Identifier: Apache-2.0 */
/* Is a split right? One answer over the pool and one of this PC alone, token by token. */
#pragma once

#include "aq-engine-host.h"

G_BEGIN_DECLS

/** Compare, on a worker thread; done(user, text) follows unless user went. good: the same tokens. The split is the loaded model. */
void aq_split_check_start(AqEngineHost *host,
                          void (*done)(gpointer user, gboolean good, const char *text),
                          GObject *user);

G_END_DECLS
