/* SPDX-License-Identifier: Apache-2.0 */
/* Running a grammar. States and stacks are kept by content, so that a state met again costs one look-up: strings, white space and
 * numbers loop in a few states, and the walk over a vocabulary is a table look-up a byte. One thread per machine. */
#include "gram-priv.h"

#define UNKNOWN UINT32_MAX

typedef struct stack {
    uint32_t node, below; /* where to go on; 0 = the bottom */
} stack;

typedef struct state {
    uint64_t *item; /* [n] node << 32 | stack, ascending; nodes that take something, and the end */
    uint32_t n;
    uint32_t *next; /* [256] or NULL */
} state;

struct aq_gmach {
    const aq_gram *g;
    stack *st; /* [n_st] 0 is the bottom */
    uint32_t n_st, cap_st;
    state *s; /* [n_s] 0 is the dead one */
    uint32_t n_s, cap_s;
    uint32_t *st_slot, *s_slot; /* open addressing, index + 1 */
    uint32_t st_mask, s_mask;
    uint64_t *work, *item; /* scratch of one closure */
    uint32_t n_work, cap_work, n_item, cap_item;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

/* Room for one more; -AQ_E_NOMEM. */
static int room(void **p, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return 0;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *m = realloc(*p, more * size);
    if (!m)
        return -AQ_E_NOMEM;
    *p = m;
    *cap = more;
    return 0;
}

static int rehash(uint32_t **slot, uint32_t *mask, uint32_t want)
{
    if (*slot && want * 2 <= *mask)
        return 0;
    uint32_t m = 255;
    while (m < want * 4)
        m = 2 * m + 1;
    uint32_t *n = calloc((size_t)m + 1, sizeof *n);
    if (!n)
        return -AQ_E_NOMEM;
    free(*slot);
    *slot = n;
    *mask = m;
    return 1;
}

static uint64_t st_hash(stack s)
{
    return mix(mix(1, s.node), s.below);
}

static void st_insert(aq_gmach *m, uint32_t i)
{
    uint32_t k = (uint32_t)st_hash(m->st[i]) & m->st_mask;
    while (m->st_slot[k])
        k = (k + 1) & m->st_mask;
    m->st_slot[k] = i + 1;
}

/* The stack with this on top. */
static int push(aq_gmach *m, uint32_t node, uint32_t below, uint32_t *ret)
{
    stack s = {node, below};
    int rc;

    for (uint32_t k = (uint32_t)st_hash(s) & m->st_mask; m->st_slot[k]; k = (k + 1) & m->st_mask) {
        uint32_t i = m->st_slot[k] - 1;
        if (m->st[i].node == node && m->st[i].below == below) {
            *ret = i;
            return 0;
        }
    }
    if ((rc = room((void **)&m->st, m->n_st, &m->cap_st, sizeof s)) < 0)
        return rc;
    if ((rc = rehash(&m->st_slot, &m->st_mask, m->n_st + 1)) < 0)
        return rc;
    if (rc)
        for (uint32_t i = 1; i < m->n_st; i++)
            st_insert(m, i);
    m->st[m->n_st] = s;
    st_insert(m, m->n_st);
    *ret = m->n_st++;
    return 0;
}

static int more(aq_gmach *m, uint32_t node, uint32_t st)
{
    if (m->n_work >= 4 * AQ_GRAM_ITEMS_MAX)
        return -AQ_E_LIMIT;
    int rc = room((void **)&m->work, m->n_work, &m->cap_work, sizeof *m->work);
    if (rc >= 0)
        m->work[m->n_work++] = (uint64_t)node << 32 | st;
    return rc;
}

static int cmp(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t items_hash(const uint64_t *p, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = mix(h, p[i]);
    return h;
}

static void s_insert(aq_gmach *m, uint32_t i)
{
    uint32_t k = (uint32_t)items_hash(m->s[i].item, m->s[i].n) & m->s_mask;
    while (m->s_slot[k])
        k = (k + 1) & m->s_mask;
    m->s_slot[k] = i + 1;
}

/* The state of the n items gathered. */
static int intern(aq_gmach *m, uint32_t *ret)
{
    uint32_t n = 0;
    int rc;

    if (!m->n_item) {
        *ret = AQ_GS_DEAD;
        return 0;
    }
    qsort(m->item, m->n_item, sizeof *m->item, cmp);
    for (uint32_t i = 0; i < m->n_item; i++)
        if (!n || m->item[n - 1] != m->item[i])
            m->item[n++] = m->item[i];
    for (uint32_t k = (uint32_t)items_hash(m->item, n) & m->s_mask; m->s_slot[k];
         k = (k + 1) & m->s_mask) {
        const state *s = &m->s[m->s_slot[k] - 1];
        if (s->n == n && !memcmp(s->item, m->item, n * sizeof *m->item)) {
            *ret = m->s_slot[k] - 1;
            return 0;
        }
    }
    if (m->n_s >= AQ_GRAM_STATES_MAX)
        return -AQ_E_LIMIT;
    uint64_t *copy = malloc(n * sizeof *copy);
    if (!copy)
        return -AQ_E_NOMEM;
    memcpy(copy, m->item, n * sizeof *copy);
    if ((rc = room((void **)&m->s, m->n_s, &m->cap_s, sizeof *m->s)) < 0 ||
        (rc = rehash(&m->s_slot, &m->s_mask, m->n_s + 1)) < 0) {
        free(copy);
        return rc;
    }
    if (rc)
        for (uint32_t i = 1; i < m->n_s; i++)
            s_insert(m, i);
    m->s[m->n_s] = (state){copy, n, NULL};
    s_insert(m, m->n_s);
    *ret = m->n_s++;
    return 0;
}

/* Follow forks, calls and returns of what is in work; what takes something becomes an item. */
static int close_over(aq_gmach *m, uint32_t *ret)
{
    int rc = 0;

    m->n_item = 0;
    for (uint32_t i = 0; i < m->n_work && rc >= 0; i++) {
        uint32_t at = (uint32_t)(m->work[i] >> 32), st = (uint32_t)m->work[i], up;
        bool seen = false;
        /* the last ones are where a loop of forks comes round */
        for (uint32_t k = i; k-- > 0 && !seen && i - k < 64;)
            seen = m->work[k] == m->work[i];
        if (seen)
            continue;
        const aq_gnode *n = &m->g->node[at];
        switch (n->kind) {
        case AQ_G_FORK:
            if ((rc = more(m, n->a, st)) >= 0)
                rc = more(m, n->b, st);
            break;
        case AQ_G_CALL:
            up = st;
            if (m->g->node[n->b].kind != AQ_G_RETURN)
                rc = push(m, n->b, st, &up); /* else whoever called returns for it */
            if (rc >= 0)
                rc = more(m, n->a, up);
            break;
        case AQ_G_RETURN:
            if (st) {
                rc = more(m, m->st[st].node, m->st[st].below);
                break;
            }
            __attribute__((fallthrough));
        default:
            if (m->n_item >= AQ_GRAM_ITEMS_MAX)
                rc = -AQ_E_LIMIT;
            else if ((rc = room((void **)&m->item, m->n_item, &m->cap_item, sizeof *m->item)) >= 0)
                m->item[m->n_item++] =
                    n->kind == AQ_G_RETURN ? (uint64_t)UINT32_MAX << 32 : m->work[i];
        }
    }
    m->n_work = 0;
    return rc < 0 ? rc : intern(m, ret);
}

int aq_gmach_new(const aq_gram *g, aq_gmach **ret, aq_err *err)
{
    AQ_AUTO(aq_gmach_free) aq_gmach *m = calloc(1, sizeof *m);

    if (!m || rehash(&m->st_slot, &m->st_mask, 16) < 0 || rehash(&m->s_slot, &m->s_mask, 16) < 0 ||
        room((void **)&m->st, 0, &m->cap_st, sizeof *m->st) < 0 ||
        room((void **)&m->s, 0, &m->cap_s, sizeof *m->s) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory to hold an answer to its form");
    m->g = g;
    m->st[m->n_st++] = (stack){AQ_G_NONE, 0};
    m->s[m->n_s++] = (state){0};
    *ret = AQ_STEAL(m);
    return 0;
}

static void forget(aq_gmach *m)
{
    for (uint32_t i = 1; i < m->n_s; i++) {
        free(m->s[i].item);
        free(m->s[i].next);
    }
    m->n_s = AQ_MIN(m->n_s, 1u);
}

void aq_gmach_free(aq_gmach *m)
{
    if (!m)
        return;
    forget(m);
    free(m->st);
    free(m->s);
    free(m->st_slot);
    free(m->s_slot);
    free(m->work);
    free(m->item);
    free(m);
}

uint32_t aq_gmach_at(aq_gmach *m, uint32_t node, int *ret_rc)
{
    uint32_t s = AQ_GS_DEAD;

    m->n_work = 0;
    *ret_rc = more(m, node, 0);
    if (*ret_rc >= 0)
        *ret_rc = close_over(m, &s);
    return s;
}

uint32_t aq_gmach_byte(aq_gmach *m, uint32_t at, uint8_t b, int *ret_rc)
{
    uint32_t to = AQ_GS_DEAD;
    int rc = 0;

    if (at == AQ_GS_DEAD)
        return AQ_GS_DEAD;
    if (m->s[at].next && m->s[at].next[b] != UNKNOWN)
        return m->s[at].next[b];
    m->n_work = 0;
    for (uint32_t i = 0; i < m->s[at].n && rc >= 0; i++) {
        uint32_t id = (uint32_t)(m->s[at].item[i] >> 32);
        if (id == UINT32_MAX)
            continue;
        const aq_gnode *n = &m->g->node[id];
        if ((n->kind == AQ_G_BYTE && n->a == b) ||
            (n->kind == AQ_G_SET && (m->g->set[n->a].bit[b >> 6] >> (b & 63) & 1)))
            rc = more(m, n->b, (uint32_t)m->s[at].item[i]);
    }
    if (rc >= 0)
        rc = close_over(m, &to);
    if (rc >= 0 && !m->s[at].next && (m->s[at].next = malloc(256 * sizeof(uint32_t))))
        memset(m->s[at].next, 0xff, 256 * sizeof(uint32_t));
    if (rc >= 0 && m->s[at].next)
        m->s[at].next[b] = to;
    if (rc < 0)
        *ret_rc = rc;
    return rc < 0 ? AQ_GS_DEAD : to;
}

static uint32_t control(aq_gmach *m, uint32_t at, int32_t tok, int *ret_rc)
{
    uint32_t to = AQ_GS_DEAD;
    int rc = 0;

    m->n_work = 0;
    for (uint32_t i = 0; i < m->s[at].n && rc >= 0; i++) {
        uint32_t id = (uint32_t)(m->s[at].item[i] >> 32);
        if (id != UINT32_MAX && m->g->node[id].kind == AQ_G_TOK &&
            m->g->node[id].a == (uint32_t)tok)
            rc = more(m, m->g->node[id].b, (uint32_t)m->s[at].item[i]);
    }
    if (rc >= 0)
        rc = close_over(m, &to);
    if (rc < 0)
        *ret_rc = rc;
    return rc < 0 ? AQ_GS_DEAD : to;
}

uint32_t aq_gmach_token(aq_gmach *m, const aq_vocab *v, uint32_t at, int32_t tok, int *ret_rc)
{
    uint32_t n;
    const char *p = aq_vocab_piece(v, tok, &n);

    if (aq_vocab_is_control(v, tok))
        return control(m, at, tok, ret_rc);
    if (!p || !n)
        return AQ_GS_DEAD;
    for (uint32_t i = 0; i < n && at != AQ_GS_DEAD; i++)
        at = aq_gmach_byte(m, at, (uint8_t)p[i], ret_rc);
    return at;
}

bool aq_gmach_may_end(const aq_gmach *m, uint32_t at)
{
    /* the end sorts last */
    return at != AQ_GS_DEAD && m->s[at].item[m->s[at].n - 1] >> 32 == UINT32_MAX;
}

bool aq_gmach_must_end(const aq_gmach *m, uint32_t at)
{
    return aq_gmach_may_end(m, at) && m->s[at].n == 1;
}

int aq_gmach_mask(aq_gmach *m, const aq_tok_order *o, uint32_t at, uint8_t *ok, uint32_t n_vocab)
{
    AQ_AUTOFREE uint32_t *chain = malloc(((size_t)o->longest + 1) * sizeof *chain);
    uint32_t alive = 0; /* bytes of the token before that the grammar took */
    int rc = 0;

    if (!chain)
        return -AQ_E_NOMEM;
    memset(ok, 0, n_vocab);
    chain[0] = at;
    for (uint32_t i = 0; i < o->n && rc >= 0; i++) {
        uint32_t n, k = o->same[i];
        const char *p = aq_vocab_piece(o->vocab, (int32_t)o->id[i], &n);
        if (k > alive)
            continue; /* as the one before, it has the byte that does not fit */
        for (; k < n; k++) {
            uint32_t to = aq_gmach_byte(m, chain[k], (uint8_t)p[k], &rc);
            if (to == AQ_GS_DEAD)
                break;
            chain[k + 1] = to;
        }
        alive = k;
        if (k == n && o->id[i] < n_vocab)
            ok[o->id[i]] = 1;
    }
    for (uint32_t i = 0; at != AQ_GS_DEAD && i < m->s[at].n; i++) {
        uint32_t id = (uint32_t)(m->s[at].item[i] >> 32);
        if (id != UINT32_MAX && m->g->node[id].kind == AQ_G_TOK && m->g->node[id].a < n_vocab)
            ok[m->g->node[id].a] = 1;
    }
    return rc;
}

int aq_gmach_trim(aq_gmach *m, uint32_t *at)
{
    if (m->n_s <= AQ_GRAM_STATES_KEEP || *at == AQ_GS_DEAD)
        return 0;
    uint32_t n = m->s[*at].n;
    uint64_t *keep = malloc(n * sizeof *keep);
    if (!keep)
        return -AQ_E_NOMEM;
    memcpy(keep, m->s[*at].item, n * sizeof *keep);
    forget(m);
    memset(m->s_slot, 0, ((size_t)m->s_mask + 1) * sizeof *m->s_slot);
    memcpy(m->item, keep, n * sizeof *keep); /* it has held as many */
    m->n_item = n;
    free(keep);
    return intern(m, at);
}

/* ---- tokens in byte order ---- */

typedef struct entry {
    const char *p;
    uint32_t n, id;
} entry;

static int by_bytes(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int c = memcmp(x->p, y->p, AQ_MIN(x->n, y->n));

    return c ? c : x->n < y->n ? -1 : x->n > y->n;
}

int aq_tok_order_new(const aq_vocab *v, aq_tok_order **ret, aq_err *err)
{
    uint32_t n = aq_vocab_n(v), k = 0;
    AQ_AUTOFREE entry *e = malloc(((size_t)n + 1) * sizeof *e);
    AQ_AUTO(aq_tok_order_free) aq_tok_order *o = calloc(1, sizeof *o);

    if (o) {
        o->id = malloc(((size_t)n + 1) * sizeof *o->id);
        o->same = malloc(((size_t)n + 1) * sizeof *o->same);
    }
    if (!e || !o || !o->id || !o->same)
        return aq_fail(err, AQ_E_NOMEM, "no memory to sort a vocabulary");
    for (uint32_t i = 0; i < n; i++) {
        e[k].p = aq_vocab_piece(v, (int32_t)i, &e[k].n);
        e[k].id = i;
        if (e[k].p && e[k].n && e[k].n < 65536 && !aq_vocab_is_control(v, (int32_t)i))
            k++;
    }
    qsort(e, k, sizeof *e, by_bytes);
    for (uint32_t i = 0; i < k; i++) {
        uint32_t same = 0;
        while (i && same < AQ_MIN(e[i].n, e[i - 1].n) && e[i].p[same] == e[i - 1].p[same])
            same++;
        o->id[i] = e[i].id;
        o->same[i] = (uint16_t)same;
        o->longest = AQ_MAX(o->longest, e[i].n);
    }
    o->vocab = v;
    o->n = k;
    *ret = AQ_STEAL(o);
    return 0;
}

void aq_tok_order_free(aq_tok_order *o)
{
    if (!o)
        return;
    free(o->id);
    free(o->same);
    free(o);
}
