/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: any bytes either give a clear error or a tree that can be written and read again to the
 * same tree. */
#include "aq/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define ARENA_LIMIT (64u << 20)

static void must(bool c)
{
    if (!c)
        abort();
}

static void write_value(aq_bytes *b, const aq_json *v)
{
    static const char *const words[] = {"null", "false", "true"};

    switch (v->kind) {
    case AQ_JSON_STR:
        must(aq_json_quote(b, v->str, v->n) == AQ_OK);
        return;
    case AQ_JSON_INT:
    case AQ_JSON_NUM:
        must(strlen(v->raw) == v->raw_n && aq_bytes_put(b, v->raw, v->raw_n) == AQ_OK);
        return;
    case AQ_JSON_ARR:
    case AQ_JSON_OBJ:
        must(aq_bytes_puts(b, v->kind == AQ_JSON_OBJ ? "{" : "[") == AQ_OK);
        for (const aq_json *k = v->item; k; k = k->next) {
            must(k == v->item || aq_bytes_puts(b, ",") == AQ_OK);
            if (v->kind == AQ_JSON_OBJ) {
                must(strlen(k->key) != k->key_n || aq_json_get(v, k->key) == k);
                must(aq_json_quote(b, k->key, k->key_n) == AQ_OK && aq_bytes_puts(b, ":") == AQ_OK);
            }
            write_value(b, k);
        }
        must(aq_bytes_puts(b, v->kind == AQ_JSON_OBJ ? "}" : "]") == AQ_OK);
        return;
    default:
        must(aq_bytes_puts(b, words[v->kind]) == AQ_OK);
    }
}

static bool same(const aq_json *a, const aq_json *b)
{
    if (a->kind != b->kind || a->n != b->n || a->key_n != b->key_n ||
        (a->key_n > 0 && memcmp(a->key, b->key, a->key_n) != 0))
        return false;
    if (a->kind == AQ_JSON_STR)
        return memcmp(a->str, b->str, a->n) == 0;
    if (a->kind == AQ_JSON_INT)
        return a->i == b->i;
    if (a->kind == AQ_JSON_NUM)
        return a->num == b->num;
    if (a->kind != AQ_JSON_ARR && a->kind != AQ_JSON_OBJ)
        return true;
    const aq_json *x = a->item, *y = b->item;
    uint32_t n = 0;
    for (; x && y && same(x, y); x = x->next, y = y->next)
        n++;
    return !x && !y && n == a->n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AQ_AUTO(aq_arena_free) aq_arena *arena = aq_arena_new(ARENA_LIMIT);
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes text = {0};
    const aq_json *v = NULL, *again = NULL;
    aq_err err = {0};

    if (!arena)
        return 0;
    int rc = aq_json_parse(arena, (const char *)data, n, &v, &err);
    if (rc < 0) {
        must(v == NULL && err.code == -rc && err.text[0]);
        must(err.code == AQ_E_FORMAT || err.code == AQ_E_LIMIT || err.code == AQ_E_NOMEM);
        return 0;
    }
    write_value(&text, v);
    rc = aq_json_parse(arena, (const char *)text.p, text.n, &again, &err);
    must(rc == -AQ_E_LIMIT || (rc == AQ_OK && same(v, again)));
    return 0;
}
