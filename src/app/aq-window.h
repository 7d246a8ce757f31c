/* SPDX-License-Identifier: Apache-2.0 */
/* The window. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-chats.h"
#include "aq-model-library.h"
#include "aq-pool-host.h"

G_BEGIN_DECLS

#define AQ_TYPE_WINDOW (aq_window_get_type())
G_DECLARE_FINAL_TYPE(AqWindow, aq_window, AQ, WINDOW, AdwApplicationWindow)

/** settings may be NULL. folder: of models, to be told. */
AqWindow *aq_window_new(GtkApplication *app, AqEngineHost *host, AqModelLibrary *library,
                        AqChats *chats, GSettings *settings, const char *folder);
void aq_window_set_pool(AqWindow *self, AqPoolHost *pool, AqModelLibrary *library); /* once */
void aq_window_new_chat(AqWindow *self);
/** Show a chat by its number, if it is still there, and bring the window to the front. */
void aq_window_show_chat(AqWindow *self, gint64 id);
/** "chat", "models", "pool" or "api"; FALSE for another name. */
gboolean aq_window_show_page(AqWindow *self, const char *name);
AqChat *aq_window_get_chat(AqWindow *self); /* the one that is shown */
/** Show the newest chat that has messages; TRUE once they are there. */
gboolean aq_window_show_newest(AqWindow *self);
void aq_window_ask(AqWindow *self, const char *text);
void aq_window_tell(AqWindow *self,
                    const char *text); /* in the banner, until the next load or question */

G_END_DECLS
