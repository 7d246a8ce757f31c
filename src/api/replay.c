/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of calls as they were sampled, by the calls' ids; the oldest go first. Any thread. */
#include "api-priv.h"

typedef struct kept {
    char *id, *args;
    size_t n;
} kept;

struct aq_replay {
    pthread_mutex_t mu;
    GHashTable *by_id; /* id of a kept -> its link in order */
    GQueue order;      /* of kept, oldest first */
    size_t bytes;
};

static size_t cost(const kept *k)
{
    return k->n + strlen(k->id) + sizeof *k;
}

static void drop(aq_replay *r, GList *link)
{
    kept *k = link->data;

    g_hash_table_remove(r->by_id, k->id);
    g_queue_delete_link(&r->order, link);
    r->bytes -= cost(k);
    free(k->id);
    free(k->args);
    free(k);
}

aq_replay *aq_replay_new(void)
{
    aq_replay *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    pthread_mutex_init(&r->mu, NULL);
    r->by_id = g_hash_table_new(g_str_hash, g_str_equal);
    g_queue_init(&r->order);
    return r;
}

void aq_replay_free(aq_replay *r)
{
    if (!r)
        return;
    while (r->order.head)
        drop(r, r->order.head);
    g_hash_table_unref(r->by_id);
    pthread_mutex_destroy(&r->mu);
    free(r);
}

void aq_replay_add(aq_replay *r, const char *id, const void *args, size_t n)
{
    kept *k = calloc(1, sizeof *k);

    if (!k || !(k->id = strdup(id)) || !(k->args = malloc(n + 1))) {
        free(k ? k->id : NULL);
        free(k);
        return;
    }
    memcpy(k->args, args, n);
    k->args[n] = 0;
    k->n = n;
    pthread_mutex_lock(&r->mu);
    GList *old = g_hash_table_lookup(r->by_id, id);
    if (old)
        drop(r, old);
    g_queue_push_tail(&r->order, k);
    g_hash_table_insert(r->by_id, k->id, r->order.tail);
    r->bytes += cost(k);
    while (r->order.length > AQ_API_REPLAY_CALLS ||
           (r->bytes > AQ_API_REPLAY_BYTES && r->order.head))
        drop(r, r->order.head);
    pthread_mutex_unlock(&r->mu);
}

static bool same(const aq_json *a, const aq_json *b)
{
    if (a->kind == AQ_JSON_INT || a->kind == AQ_JSON_NUM) /* 1 and 1.0 are the same to clients */
        return (b->kind == AQ_JSON_INT || b->kind == AQ_JSON_NUM) &&
               ((a->kind == b->kind && a->raw_n == b->raw_n && !memcmp(a->raw, b->raw, a->raw_n)) ||
                g_ascii_strtod(a->raw, NULL) == g_ascii_strtod(b->raw, NULL));
    if (a->kind != b->kind || a->n != b->n)
        return false;
    if (a->kind == AQ_JSON_STR)
        return !memcmp(a->str, b->str, a->n);
    if (a->kind != AQ_JSON_ARR && a->kind != AQ_JSON_OBJ)
        return true;
    const aq_json *x = a->n ? a->item : NULL, *y = b->n ? b->item : NULL;
    for (; x && y; x = x->next, y = y->next) {
        const aq_json *z = a->kind == AQ_JSON_OBJ ? aq_json_get(b, x->key) : y;
        if (!z || !same(x, z))
            return false;
    }
    return true;
}

char *aq_replay_find(aq_replay *r, const char *id, const aq_json *args, size_t *ret_n)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    const aq_json *mine = NULL;
    char *text = NULL;
    size_t n = 0;

    pthread_mutex_lock(&r->mu);
    GList *link = g_hash_table_lookup(r->by_id, id);
    if (link) {
        const kept *k = link->data;
        n = k->n;
        if ((text = malloc(n + 1)))
            memcpy(text, k->args, n + 1);
    }
    pthread_mutex_unlock(&r->mu);
    if (!text || !a || aq_json_parse(a, text, n, &mine, NULL) < 0 || !same(mine, args)) {
        free(text);
        return NULL;
    }
    *ret_n = n;
    return text;
}
