/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with, to be changed. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chat.h"

G_BEGIN_DECLS

#define AQ_TYPE_SETTINGS_DIALOG (aq_settings_dialog_get_type())
G_DECLARE_FINAL_TYPE(AqSettingsDialog, aq_settings_dialog, AQ, SETTINGS_DIALOG, AdwDialog)

/** Changes apply to the chat when the dialog is closed. */
AqSettingsDialog *aq_settings_dialog_new(AqChat *chat);

G_END_DECLS
