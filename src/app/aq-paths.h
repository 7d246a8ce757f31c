/* SPDX-License-Identifier: Apache-2.0 */
/* Where the app finds and keeps its files. The environment is read here, at start, and nowhere else. Main thread. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/** Read the environment and the program's place; once, before anything else here. */
void aq_paths_init(void);
/** AQ_CPU, or NULL. */
const char *aq_paths_cpu(void);
/** Folder of the user's models: AQ_MODEL_DIR, else the data folder's. */
const char *aq_paths_models(void);
/** The guide model, or NULL when it is not there. */
const char *aq_paths_guide(void);
/** Folder of the pool's state; not made. */
const char *aq_paths_pool(void);
/** File that a crash note goes to; its folder is made. */
const char *aq_paths_crash_note(void);
/** File that chats are kept in. */
const char *aq_paths_chats(void);
const char *aq_paths_presets(void);
/** Folder for the state of parked chats; not made. */
const char *aq_paths_parked(void);
/** File that the keys of the local API are kept in, or NULL; its folder is made. */
const char *aq_paths_api_keys(void);
/** Folder of translations: AQ_LOCALE_DIR, else where they are installed. */
const char *aq_paths_locale(void);
const char *aq_paths_loop_meter(void); /* file for figures of the main loop, or NULL */
/** The app's settings; NULL when the schema is not installed. */
GSettings *aq_paths_settings(void);

G_END_DECLS
