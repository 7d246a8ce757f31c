/* SPDX-License-Identifier: Apache-2.0 */
/* Which file an export becomes, of the one that was chosen. No display needed; any thread. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef enum { AQ_TRANSFER_MARKDOWN, AQ_TRANSFER_JSON } AqTransferKind;

/** name with the ending of kind: in place of the other kind's, or behind it. Free it. */
char *aq_transfer_name(const char *name, AqTransferKind kind);

/** Where an export goes, and as what (*kind). On entry *kind is what the dialog's filter says; an ending that a person wrote goes before it.
 * proposed: the name that the dialog offered, whose ending nobody wrote. A missing ending is added; all: all chats, which are JSON
 * whatever is written. Unref it. */
GFile *aq_transfer_target(GFile *chosen, const char *proposed, gboolean all, AqTransferKind *kind);

G_END_DECLS
