/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with, and its JSON: one flat object, size and depth limited before it is parsed. */
#include "aq-chat-settings.h"

#include <string.h>

#include "aq-json-read.h"

#define JSON_MAX_BYTES (1u << 20)
#define DEPTH_MAX 4

typedef struct {
    const char *name;
    gsize offset;
    double min, max, fallback;
} Number;

static const Number numbers[] = {
    {"temperature", G_STRUCT_OFFSET(AqChatSettings, temperature), 0, 2, 0.7},
    {"top_p", G_STRUCT_OFFSET(AqChatSettings, top_p), 0.01, 1, 0.95},
    {"min_p", G_STRUCT_OFFSET(AqChatSettings, min_p), 0, 1, 0.05},
    {"repeat_penalty", G_STRUCT_OFFSET(AqChatSettings, repeat_penalty), 0.5, 2, 1},
};

#define TOP_K 40
#define TOP_K_MAX 1000
#define TOK_MAX (1u << 20)
#define CTX_MAX (1u << 24)

void aq_chat_settings_init(AqChatSettings *self, double temperature)
{
    *self = (AqChatSettings){.top_k = TOP_K};
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
        G_STRUCT_MEMBER(double, self, numbers[i].offset) = numbers[i].fallback;
    self->temperature = temperature;
}

void aq_chat_settings_clear(AqChatSettings *self)
{
    g_clear_pointer(&self->system, g_free);
}

char *aq_chat_settings_to_json(const AqChatSettings *self, double temperature)
{
    AqChatSettings usual;
    g_autoptr(JsonObject) object = json_object_new();
    aq_chat_settings_init(&usual, temperature);
    if (self->system && *self->system)
        json_object_set_string_member(object, "system", self->system);
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
        double value = G_STRUCT_MEMBER(double, self, numbers[i].offset);
        if (value < G_STRUCT_MEMBER(double, &usual, numbers[i].offset) ||
            value > G_STRUCT_MEMBER(double, &usual, numbers[i].offset))
            json_object_set_double_member(object, numbers[i].name, value);
    }
    if (self->top_k != usual.top_k)
        json_object_set_int_member(object, "top_k", self->top_k);
    if (self->max_tok)
        json_object_set_int_member(object, "max_tok", self->max_tok);
    if (self->n_ctx)
        json_object_set_int_member(object, "n_ctx", self->n_ctx);
    if (self->no_thinking)
        json_object_set_boolean_member(object, "no_thinking", TRUE);
    if (!json_object_get_size(object))
        return NULL;
    g_autoptr(JsonNode) root = json_node_new(JSON_NODE_OBJECT);
    json_node_set_object(root, object);
    return json_to_string(root, FALSE);
}

JsonObject *aq_chat_settings_to_object(const AqChatSettings *self)
{
    JsonObject *object = json_object_new();
    json_object_set_string_member(object, "system", self->system ? self->system : "");
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++)
        json_object_set_double_member(object, numbers[i].name,
                                      G_STRUCT_MEMBER(double, self, numbers[i].offset));
    json_object_set_int_member(object, "top_k", self->top_k);
    json_object_set_int_member(object, "max_tok", self->max_tok);
    json_object_set_boolean_member(object, "no_thinking", self->no_thinking);
    return object;
}

/* A whole number in its range, or what is there already. */
static void take_count(JsonObject *object, const char *name, guint max, guint *ret)
{
    double value = aq_member_double(object, name, -1);
    if (value >= 0 && value <= max)
        *ret = (guint)value;
}

void aq_chat_settings_from_object(AqChatSettings *self, JsonObject *object, double temperature)
{
    aq_chat_settings_init(self, temperature);
    const char *system = aq_member_string(object, "system");
    self->system = system && *system ? g_strdup(system) : NULL;
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
        double value = aq_member_double(object, numbers[i].name, -1);
        if (value >= numbers[i].min && value <= numbers[i].max)
            G_STRUCT_MEMBER(double, self, numbers[i].offset) = value;
    }
    take_count(object, "top_k", TOP_K_MAX, &self->top_k);
    take_count(object, "max_tok", TOK_MAX, &self->max_tok);
    take_count(object, "n_ctx", CTX_MAX, &self->n_ctx);
    JsonNode *node = json_object_get_member(object, "no_thinking");
    if (node && JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_BOOLEAN)
        self->no_thinking = json_node_get_boolean(node);
}

void aq_chat_settings_from_json(AqChatSettings *self, const char *json, double temperature)
{
    g_autoptr(JsonNode) root = NULL;
    aq_chat_settings_init(self, temperature);
    if (!json || aq_json_read(json, strlen(json), JSON_MAX_BYTES, DEPTH_MAX, &root, NULL) < 0 ||
        !JSON_NODE_HOLDS_OBJECT(root))
        return;
    aq_chat_settings_from_object(self, json_node_get_object(root), temperature);
}
