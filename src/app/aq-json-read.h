/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of files and settings: size and depth are limited before anything is parsed. No display needed; any thread. */
#pragma once

#include <json-glib/json-glib.h>

#include "aq/base.h"

G_BEGIN_DECLS

/** The root of a JSON text. Errors: LIMIT (larger or deeper than allowed), FORMAT; *ret is untouched then. Free it with json_node_unref. */
int aq_json_read(const char *text, gsize n, gsize max_bytes, guint max_depth, JsonNode **ret,
                 aq_err *err) AQ_MUST;

/** A member of an object, or a default where it is not there or of another kind. What is returned belongs to the object. */
const char *aq_member_string(JsonObject *object, const char *name); /* or NULL */
gint64 aq_member_int(JsonObject *object, const char *name, gint64 otherwise);
double aq_member_double(JsonObject *object, const char *name, double otherwise);
JsonObject *aq_member_object(JsonObject *object, const char *name); /* or NULL */
JsonArray *aq_member_array(JsonObject *object, const char *name);   /* or NULL */
JsonObject *aq_element_object(JsonArray *array, guint i);           /* or NULL */

G_END_DECLS
