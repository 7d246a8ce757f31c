/* SPDX-License-Identifier: Apache-2.0 */
/* A button with the presets to choose from; those of the user can be renamed and deleted there. */
#pragma once

#include <adwaita.h>

#include "aq-presets.h"

G_BEGIN_DECLS

#define AQ_TYPE_PRESET_MENU (aq_preset_menu_get_type())
G_DECLARE_FINAL_TYPE(AqPresetMenu, aq_preset_menu, AQ, PRESET_MENU, AdwBin)

/* Signals: "chosen" (AqPreset *preset); "problem" (char *text, for people). */
void aq_preset_menu_set_presets(AqPresetMenu *self, AqPresets *presets);
/** Ask for a name and save the settings under it. */
void aq_preset_menu_save(AqPresetMenu *self, const AqChatSettings *settings);

G_END_DECLS
