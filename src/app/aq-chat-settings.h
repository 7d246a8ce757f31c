/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with: its system prompt and how words are chosen. Main thread. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct {
    char *system; /* NULL = none */
    double temperature, top_p, min_p, repeat_penalty;
    guint top_k, max_tok; /* 0 = off; 0 = to the end of the context */
    gboolean no_thinking; /* where the model's template has the switch */
} AqChatSettings;

/** As by default, with this temperature. */
void aq_chat_settings_init(AqChatSettings *self, double temperature);
void aq_chat_settings_clear(AqChatSettings *self);
/** As JSON with what differs from the default; NULL when nothing does. Free it. */
char *aq_chat_settings_to_json(const AqChatSettings *self, double temperature);
/** What the JSON says, over the defaults; values out of range, unknown members and JSON that is none are passed over. */
void aq_chat_settings_from_json(AqChatSettings *self, const char *json, double temperature);

G_END_DECLS
