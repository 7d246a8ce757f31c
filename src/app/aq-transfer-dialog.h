/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import of chats: files chosen, read and written without the window waiting. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chats.h"

G_BEGIN_DECLS

/** What came of it, in words, to be shown; good FALSE: it failed, and why. */
typedef void (*AqTransferCb)(GtkWindow *window, const char *text, gboolean good);

/** One chat, as Markdown or JSON by the filter that is chosen, or by the ending that is written; chat NULL: all of them, as JSON. */
void aq_transfer_export(GtkWindow *window, AqChats *chats, AqChat *chat, AqTransferCb done);
void aq_transfer_import(GtkWindow *window, AqChats *chats, AqTransferCb done);

G_END_DECLS
