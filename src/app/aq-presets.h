/* SPDX-License-Identifier: Apache-2.0 */
/* Presets: named settings of chats, a few that the program brings and those that were saved, in a JSON file. Main thread. */
#pragma once

#include <gio/gio.h>

#include "aq-chat-settings.h"

G_BEGIN_DECLS

#define AQ_PRESETS_MAX 100
#define AQ_PRESET_NAME_CHARS 60

#define AQ_TYPE_PRESET (aq_preset_get_type())
G_DECLARE_FINAL_TYPE(AqPreset, aq_preset, AQ, PRESET, GObject)
const char *aq_preset_get_name(AqPreset *self);
const AqChatSettings *aq_preset_get_settings(AqPreset *self);
gboolean aq_preset_is_own(AqPreset *self); /* saved by the user, not brought by the program */

#define AQ_TYPE_PRESETS (aq_presets_get_type())
G_DECLARE_FINAL_TYPE(AqPresets, aq_presets, AQ, PRESETS, GObject)

/* Signals: "changed" (the list, or whether it was read); "said" (char *text: something went wrong with the file, for people). */

/** Of the file at path; it is read on a worker thread, and one that is damaged is renamed, never deleted. usual_temperature: of settings
 * that have none. */
AqPresets *aq_presets_new(const char *path, double usual_temperature);
gboolean aq_presets_get_read(AqPresets *self);
GListModel *aq_presets_get_list(AqPresets *self); /* of AqPreset; borrowed */
/** Save the settings (system prompt, sampling, thinking) under a name; one of the user's own of that name is replaced. Renaming and removing
 * are for those too. FALSE and *ret_why (for people, static) when the name cannot be had. The file is written on a worker thread. */
gboolean aq_presets_save(AqPresets *self, const char *name, const AqChatSettings *settings,
                         const char **ret_why);
gboolean aq_presets_rename(AqPresets *self, AqPreset *preset, const char *name,
                           const char **ret_why);
void aq_presets_remove(AqPresets *self, AqPreset *preset);

G_END_DECLS
