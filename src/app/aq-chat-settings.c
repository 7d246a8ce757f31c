/* SPDX-License-Identifier: Apache-2.0 */
/* What a chat is asked with, and its JSON: one flat object, size and depth limited before it is parsed. */
#include "aq-chat-settings.h"

#include <json-glib/json-glib.h>
#include <string.h>

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
    if (self->no_thinking)
        json_object_set_boolean_member(object, "no_thinking", TRUE);
    if (!json_object_get_size(object))
        return NULL;
    g_autoptr(JsonNode) root = json_node_new(JSON_NODE_OBJECT);
    json_node_set_object(root, object);
    return json_to_string(root, FALSE);
}

/* The member if it is a value of its own, not an array or object. */
static JsonNode *value_of(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);
    return node && JSON_NODE_HOLDS_VALUE(node) ? node : NULL;
}

static double number_of(JsonNode *node)
{
    GType type = json_node_get_value_type(node);
    return type == G_TYPE_DOUBLE || type == G_TYPE_INT64 ? json_node_get_double(node) : -1;
}

/* json-glib recurses once for each level: text that nests deeper than ours is not given to it. */
static gboolean is_flat(const char *json)
{
    gsize depth = 0;
    gboolean quoted = FALSE;
    for (const char *p = json; *p; p++) {
        if (quoted) {
            if (*p == '\\' && p[1])
                p++;
            else if (*p == '"')
                quoted = FALSE;
        } else if (*p == '"') {
            quoted = TRUE;
        } else if (*p == '{' || *p == '[') {
            if (++depth > DEPTH_MAX)
                return FALSE;
        } else if ((*p == '}' || *p == ']') && depth) {
            depth--;
        }
    }
    return TRUE;
}

void aq_chat_settings_from_json(AqChatSettings *self, const char *json, double temperature)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    aq_chat_settings_init(self, temperature);
    if (!json || strlen(json) > JSON_MAX_BYTES || !is_flat(json) ||
        !json_parser_load_from_data(parser, json, -1, NULL))
        return;
    JsonNode *root = json_parser_get_root(parser), *node;
    if (!root || !JSON_NODE_HOLDS_OBJECT(root))
        return;
    JsonObject *object = json_node_get_object(root);
    if ((node = value_of(object, "system")) && json_node_get_value_type(node) == G_TYPE_STRING)
        self->system = json_node_dup_string(node);
    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
        if (!(node = value_of(object, numbers[i].name)))
            continue;
        double value = number_of(node);
        if (value >= numbers[i].min && value <= numbers[i].max)
            G_STRUCT_MEMBER(double, self, numbers[i].offset) = value;
    }
    if ((node = value_of(object, "top_k")) && number_of(node) >= 0 && number_of(node) <= TOP_K_MAX)
        self->top_k = (guint)number_of(node);
    if ((node = value_of(object, "max_tok")) && number_of(node) >= 0 && number_of(node) <= TOK_MAX)
        self->max_tok = (guint)number_of(node);
    if ((node = value_of(object, "no_thinking")) &&
        json_node_get_value_type(node) == G_TYPE_BOOLEAN)
        self->no_thinking = json_node_get_boolean(node);
}
