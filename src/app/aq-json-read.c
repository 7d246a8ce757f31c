/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of files and settings. json-glib recurses once for each level, so a text that nests deeper than it may is not given to it. */
#include "aq-json-read.h"

#include <glib/gi18n.h>

/* Strings are passed over, so that what they hold does not count. */
static gboolean too_deep(const char *text, gsize n, guint max_depth)
{
    guint depth = 0;
    gboolean quoted = FALSE;
    for (gsize i = 0; i < n; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = FALSE;
        } else if (c == '"') {
            quoted = TRUE;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth)
                return TRUE;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return FALSE;
}

int aq_json_read(const char *text, gsize n, gsize max_bytes, guint max_depth, JsonNode **ret,
                 aq_err *err)
{
    if (n > max_bytes) {
        g_autofree char *is = g_format_size(n), *most = g_format_size(max_bytes);
        return aq_fail(err, AQ_E_LIMIT, _("It has %s, at most %s can be read"), is, most);
    }
    if (!g_utf8_validate(text, (gssize)n, NULL))
        return aq_fail(err, AQ_E_FORMAT, "%s", _("It is no text in UTF-8"));
    if (too_deep(text, n, max_depth))
        return aq_fail(err, AQ_E_LIMIT, _("It nests deeper than %u levels"), max_depth);
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    g_autoptr(GError) error = NULL;
    if (!json_parser_load_from_data(parser, text, (gssize)n, &error) ||
        !json_parser_get_root(parser))
        return aq_fail(err, AQ_E_FORMAT, _("It is no JSON: %s"), error ? error->message : "");
    *ret = json_node_ref(json_parser_get_root(parser));
    return 0;
}

static JsonNode *value_of(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);
    return node && JSON_NODE_HOLDS_VALUE(node) ? node : NULL;
}

const char *aq_member_string(JsonObject *object, const char *name)
{
    JsonNode *node = value_of(object, name);
    return node && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node)
                                                                   : NULL;
}

double aq_member_double(JsonObject *object, const char *name, double otherwise)
{
    JsonNode *node = value_of(object, name);
    GType type = node ? json_node_get_value_type(node) : G_TYPE_INVALID;
    return type == G_TYPE_DOUBLE || type == G_TYPE_INT64 ? json_node_get_double(node) : otherwise;
}

gint64 aq_member_int(JsonObject *object, const char *name, gint64 otherwise)
{
    JsonNode *node = value_of(object, name);
    return node && json_node_get_value_type(node) == G_TYPE_INT64 ? json_node_get_int(node)
                                                                  : otherwise;
}

JsonObject *aq_member_object(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);
    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

JsonArray *aq_member_array(JsonObject *object, const char *name)
{
    JsonNode *node = json_object_get_member(object, name);
    return node && JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
}

JsonObject *aq_element_object(JsonArray *array, guint i)
{
    JsonNode *node = json_array_get_element(array, i);
    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}
