/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as they were sampled, by their ids, and the tokens of the answers they came in; the oldest go first. Any thread. */
#include "api-priv.h"

typedef struct kept {
    char *id, *args;
    size_t n;
    uint64_t turn; /* number of its answer's, which may be gone */
    uint32_t call; /* its number in it */
} kept;

struct aq_replay_turn {
    atomic_uint ref;
    uint64_t no, model;
    uint8_t key[32];
    int32_t *tok;
    uint32_t n_tok, n_call;
    char *text; /* content beside the calls */
    size_t n_text;
};

struct aq_replay {
    pthread_mutex_t mu;
    GHashTable *by_id;   /* id of a kept -> its link in order */
    GHashTable *turn_of; /* no of a turn -> its link in turns */
    GQueue order, turns; /* of kept, of aq_replay_turn; oldest first */
    size_t bytes, turn_bytes;
    uint64_t no;
};

static size_t cost(const kept *k)
{
    return k->n + strlen(k->id) + sizeof *k;
}

static size_t turn_cost(const aq_replay_turn *t)
{
    return t->n_tok * sizeof *t->tok + t->n_text + sizeof *t;
}

static void kept_free(kept *k)
{
    if (!k)
        return;
    free(k->id);
    free(k->args);
    free(k);
}

void aq_replay_turn_put(aq_replay_turn *t)
{
    if (!t || atomic_fetch_sub(&t->ref, 1) != 1)
        return;
    free(t->tok);
    free(t->text);
    free(t);
}

static void drop(aq_replay *r, GList *link)
{
    kept *k = link->data;

    g_hash_table_remove(r->by_id, k->id);
    g_queue_delete_link(&r->order, link);
    r->bytes -= cost(k);
    kept_free(k);
}

static void drop_turn(aq_replay *r, GList *link)
{
    aq_replay_turn *t = link->data;

    g_hash_table_remove(r->turn_of, &t->no);
    g_queue_delete_link(&r->turns, link);
    r->turn_bytes -= turn_cost(t);
    aq_replay_turn_put(t);
}

aq_replay *aq_replay_new(void)
{
    aq_replay *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    pthread_mutex_init(&r->mu, NULL);
    r->by_id = g_hash_table_new(g_str_hash, g_str_equal);
    r->turn_of = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_queue_init(&r->order);
    g_queue_init(&r->turns);
    return r;
}

void aq_replay_free(aq_replay *r)
{
    if (!r)
        return;
    while (r->order.head)
        drop(r, r->order.head);
    while (r->turns.head)
        drop_turn(r, r->turns.head);
    g_hash_table_unref(r->by_id);
    g_hash_table_unref(r->turn_of);
    pthread_mutex_destroy(&r->mu);
    free(r);
}

/* Clients trim what they send back, and leave out what is white space alone. */
static const char *trim(const char *p, size_t *n)
{
    while (*n && strchr(" \n\t\r", p[*n - 1]))
        --*n;
    for (; *n && strchr(" \n\t\r", *p); p++)
        --*n;
    return p;
}

static aq_replay_turn *turn_new(const aq_replay_in *in)
{
    uint32_t n = in->prompt->n + in->answer->n;
    aq_replay_turn *t = in->answer->n && in->prompt->n ? calloc(1, sizeof *t) : NULL;
    size_t n_text = in->text->n;
    const char *text = trim(n_text ? (const char *)in->text->p : "", &n_text);

    if (!t || !(t->tok = malloc(n * sizeof *t->tok)) || !(t->text = malloc(n_text + 1))) {
        free(t ? t->tok : NULL);
        free(t);
        return NULL;
    }
    atomic_init(&t->ref, 1);
    memcpy(t->key, in->key, sizeof t->key);
    memcpy(t->tok, in->prompt->id, in->prompt->n * sizeof *t->tok);
    memcpy(t->tok + in->prompt->n, in->answer->id, in->answer->n * sizeof *t->tok);
    memcpy(t->text, text, n_text);
    t->n_tok = n;
    t->n_text = n_text;
    t->n_call = in->n_call;
    t->model = in->model;
    return t;
}

static kept *kept_new(const aq_call *c, uint32_t no)
{
    kept *k = calloc(1, sizeof *k);

    if (!k || !(k->id = strdup(c->id)) || !(k->args = malloc(c->args.n + 1))) {
        kept_free(k);
        return NULL;
    }
    if (c->args.n)
        memcpy(k->args, c->args.p, c->args.n);
    k->args[c->args.n] = 0;
    k->n = c->args.n;
    k->call = no;
    return k;
}

void aq_replay_add(aq_replay *r, const aq_replay_in *in)
{
    aq_replay_turn *t = turn_new(in);

    pthread_mutex_lock(&r->mu);
    uint64_t no = ++r->no;
    if (t) {
        t->no = no;
        g_queue_push_tail(&r->turns, t);
        g_hash_table_insert(r->turn_of, &t->no, r->turns.tail);
        r->turn_bytes += turn_cost(t);
    }
    for (uint32_t i = 0; i < in->n_call; i++) {
        GList *old = g_hash_table_lookup(r->by_id, in->call[i].id);
        kept *k = kept_new(&in->call[i], i);
        if (old)
            drop(r, old);
        if (!k)
            continue;
        k->turn = no;
        g_queue_push_tail(&r->order, k);
        g_hash_table_insert(r->by_id, k->id, r->order.tail);
        r->bytes += cost(k);
    }
    while (r->order.length > AQ_API_REPLAY_CALLS ||
           (r->bytes > AQ_API_REPLAY_BYTES && r->order.head))
        drop(r, r->order.head);
    while (r->turn_bytes > AQ_API_REPLAY_TURN_BYTES && r->turns.head)
        drop_turn(r, r->turns.head);
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

/* The turn whose calls are those of this message, as they were told: a new reference. */
static aq_replay_turn *turn_of(aq_replay *r, const aq_json *message)
{
    const aq_json *calls = aq_json_get(message, "tool_calls"), *c;
    const char *role = aq_json_str(message, "role");
    aq_replay_turn *t = NULL;
    uint32_t n = 0;

    if (!role || strcmp(role, "assistant") != 0 || !calls || calls->kind != AQ_JSON_ARR)
        return NULL;
    pthread_mutex_lock(&r->mu);
    for (c = calls->n ? calls->item : NULL; c; c = c->next, n++) {
        const char *id = aq_json_str(c, "id");
        const aq_json *args = aq_json_get(aq_json_get(c, "function"), "arguments");
        GList *link = id ? g_hash_table_lookup(r->by_id, id) : NULL, *at;
        const kept *k = link ? link->data : NULL;
        if (!k || k->call != n || !args || args->kind != AQ_JSON_STR || args->n != k->n ||
            memcmp(args->str, k->args, k->n) != 0)
            break;
        at = g_hash_table_lookup(r->turn_of, &k->turn);
        if (!at || (t && at->data != t))
            break;
        t = at->data;
    }
    if (c || !t || t->n_call != n)
        t = NULL;
    else
        atomic_fetch_add(&t->ref, 1);
    pthread_mutex_unlock(&r->mu);
    return t;
}

static bool says(const aq_replay_turn *t, const aq_json *content)
{
    __attribute__((cleanup(aq_jw_clear_p))) aq_jw w = {0};

    if (content && content->kind == AQ_JSON_STR)
        aq_jw_n(&w, content->str, content->n);
    for (const aq_json *p = content && content->kind == AQ_JSON_ARR && content->n ? content->item
                                                                                  : NULL;
         p; p = p->next) {
        const aq_json *text = aq_json_get(p, "text");
        if (text && text->kind == AQ_JSON_STR)
            aq_jw_n(&w, text->str, text->n);
    }
    size_t n = w.b.n;
    const char *text = trim(n ? (const char *)w.b.p : "", &n);
    return w.rc >= 0 && n == t->n_text && !memcmp(text, t->text, n);
}

aq_replay_turn *aq_replay_turn_find(aq_replay *r, uint64_t model, const char *messages,
                                    aq_turn *ret)
{
    AQ_AUTO(aq_arena_free) aq_arena *a = aq_arena_new(0);
    aq_replay_turn *found = NULL;
    const aq_json *all;
    uint32_t no = 0;

    if (!a || aq_json_parse(a, messages, strlen(messages), &all, NULL) < 0 ||
        all->kind != AQ_JSON_ARR)
        return NULL;
    for (const aq_json *m = all->n ? all->item : NULL; m; m = m->next, no++) {
        aq_replay_turn *t = turn_of(r, m);
        if (!t || t->model != model || !says(t, aq_json_get(m, "content"))) {
            aq_replay_turn_put(t);
            continue;
        }
        aq_replay_turn_put(found); /* the last one counts */
        found = t;
        *ret = (aq_turn){.tok = t->tok, .n_tok = t->n_tok, .msg = no};
        memcpy(ret->key, t->key, sizeof ret->key);
    }
    return found;
}
