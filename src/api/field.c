/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of a request's body: absent and null are the same, another type is an error that names the field. Any thread. */
#include "api-priv.h"

static const char *kind_name(const aq_json *v)
{
    static const char *const names[] = {"null",     "a boolean", "a boolean", "an integer",
                                        "a number", "a string",  "an array",  "an object"};
    return names[v->kind];
}

/* The value, or NULL when it is absent or null. */
static const aq_json *given(const aq_json *obj, const char *key)
{
    const aq_json *v = aq_json_get(obj, key);

    return v && v->kind != AQ_JSON_NULL ? v : NULL;
}

int aq_field_bool(const aq_json *obj, const char *key, bool *ret, aq_fault *f)
{
    const aq_json *v = given(obj, key);

    if (!v)
        return 0;
    if (v->kind != AQ_JSON_TRUE && v->kind != AQ_JSON_FALSE)
        return aq_fault_field(f, key, "'%s' must be true or false, not %s", key, kind_name(v));
    *ret = v->kind == AQ_JSON_TRUE;
    return 1;
}

int aq_field_int(const aq_json *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
                 aq_fault *f)
{
    const aq_json *v = given(obj, key);
    int64_t i = 0;
    bool whole = v && v->kind == AQ_JSON_INT;

    if (!v)
        return 0;
    if (whole) {
        i = v->i;
    } else if (v->kind == AQ_JSON_NUM) {
        i = aq_json_int(obj, key, INT64_MIN); /* 2.0 is whole too */
        whole = i != INT64_MIN;
    }
    if (!whole)
        return aq_fault_field(f, key, "'%s' must be an integer, not %s", key, kind_name(v));
    if (i < min || i > max)
        return aq_fault_field(f, key, "'%s' is %lld; it can be %lld to %lld", key, (long long)i,
                              (long long)min, (long long)max);
    *ret = i;
    return 1;
}

int aq_field_num(const aq_json *obj, const char *key, double min, double max, float *ret,
                 aq_fault *f)
{
    const aq_json *v = given(obj, key);

    if (!v)
        return 0;
    if (v->kind != AQ_JSON_INT && v->kind != AQ_JSON_NUM)
        return aq_fault_field(f, key, "'%s' must be a number, not %s", key, kind_name(v));
    double d = v->kind == AQ_JSON_INT ? (double)v->i : v->num;
    if (!(d >= min && d <= max))
        return aq_fault_field(f, key, "'%s' is %g; it can be %g to %g", key, d, min, max);
    *ret = (float)d;
    return 1;
}

int aq_field_str(const aq_json *obj, const char *key, const char **ret, aq_fault *f)
{
    const aq_json *v = given(obj, key);

    if (!v)
        return 0;
    if (v->kind != AQ_JSON_STR)
        return aq_fault_field(f, key, "'%s' must be a string, not %s", key, kind_name(v));
    if (strlen(v->str) != v->n)
        return aq_fault_field(f, key, "'%s' holds a character U+0000", key);
    *ret = v->str;
    return 1;
}

int aq_field_kind(const aq_json *obj, const char *key, int kind, const char *where,
                  const char *param, aq_fault *f)
{
    static const char *const names[] = {
        [AQ_JSON_TRUE] = "true or false", [AQ_JSON_INT] = "an integer", [AQ_JSON_STR] = "a string",
        [AQ_JSON_ARR] = "an array",       [AQ_JSON_OBJ] = "an object",
    };
    const aq_json *v = given(obj, key);

    if (!v || v->kind == kind || (kind == AQ_JSON_TRUE && v->kind == AQ_JSON_FALSE))
        return 0;
    return aq_fault_field(f, param, "%s has a '%s' that must be %s, not %s", where, key,
                          names[kind], kind_name(v));
}

int aq_field_of(const aq_json *obj, const char *key, int kind, const aq_json **ret, aq_fault *f)
{
    const aq_json *v = given(obj, key);

    if (!v)
        return 0;
    if (v->kind != kind)
        return aq_fault_field(f, key, "'%s' must be %s, not %s", key,
                              kind == AQ_JSON_ARR ? "an array" : "an object", kind_name(v));
    *ret = v;
    return 1;
}
