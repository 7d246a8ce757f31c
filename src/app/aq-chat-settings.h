/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with: its system prompt and how words are chosen. Main thread. */
#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

typedef struct {
    char *system; /* NULL = none */
    double temperature, top_p, min_p, repeat_penalty;
    guint top_k, max_tok; /* 0 = off; 0 = to the end of the context */
    gboolean no_thinking; /* where the model's template has the switch */
    guint n_ctx; /* context that the chat is to have, in tokens; 0 = as the model is loaded */
} AqChatSettings;

/** As by default, with this temperature. */
void aq_chat_settings_init(AqChatSettings *self, double temperature);
void aq_chat_settings_clear(AqChatSettings *self);
/** As JSON with what differs from the default; NULL when nothing does. Free it. */
char *aq_chat_settings_to_json(const AqChatSettings *self, double temperature);
/** What the JSON says, over the defaults; values out of range, unknown members and JSON that is none are passed over. */
void aq_chat_settings_from_json(AqChatSettings *self, const char *json, double temperature);

/** All of it but n_ctx, defaults too: for a preset. */
JsonObject *aq_chat_settings_to_object(const AqChatSettings *self);
void aq_chat_settings_from_object(AqChatSettings *self, JsonObject *object, double temperature);

G_END_DECLS
