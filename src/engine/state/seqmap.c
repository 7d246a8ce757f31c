/* SPDX-License-Identifier: Apache-2.0 */
/* Seqs, pages and snapshots of one stage; see state-priv.h. Thread: the stage's.
 *
 * A seq of len tokens holds ceil(len / AQ_PAGE_TOK) pages. ref[] counts the seqs that hold a page; free pages are a stack, so that
 * the page given back last (warm in the cache) is taken first.
 *
 * Recurrent models: `defined` says that the live recurrent state stands at len. [win0, win1] are the lengths that rewind can reach:
 * the last window's, if it was short enough, else just len. */
#include "state-priv.h"

typedef struct seq {
    bool live, defined;
    uint32_t len;
    uint32_t win0, win1;
    uint32_t old_len; /* before the last grow, for undo */
    uint32_t n_page, cap_page;
    uint32_t *page;
    uint64_t stamp; /* of the grow that saw it last: finds rows that are not adjacent */
} seq;
typedef struct snap {
    bool used;
    uint64_t id;
    uint32_t n_tok;
} snap;
struct aq_seqmap {
    aq_state_cfg cfg;
    bool recurrent;
    const aq_seqmap_vt *vt;
    void *user;
    seq *seq;       /* [max_seq] */
    snap *snap;     /* [n_snap] */
    uint32_t *ref;  /* [n_page] */
    uint32_t *free; /* [n_page], the first n_free are free pages */
    uint32_t n_free;
    uint64_t stamp;
};

#define PAGES(n_tok) (((n_tok) + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK)

int aq_seqmap_new(const aq_state_cfg *cfg, bool recurrent, const aq_seqmap_vt *vt, void *user,
                  aq_seqmap **ret, aq_err *err)
{
    if (cfg->max_seq == 0 || cfg->max_seq > AQ_SEQS_MAX)
        return aq_fail(err, AQ_E_INVAL, "state for %u chats: 1 to %u are possible", cfg->max_seq,
                       AQ_SEQS_MAX);
    if (cfg->n_page == 0 || cfg->n_page > AQ_CTX_MAX / AQ_PAGE_TOK * AQ_SEQS_MAX)
        return aq_fail(err, AQ_E_INVAL, "state of %u pages: out of range", cfg->n_page);
    if (cfg->n_snap > 1u << 20)
        return aq_fail(err, AQ_E_INVAL, "state with %u snapshots: out of range", cfg->n_snap);
    if (cfg->max_rows == 0 || cfg->max_rows > AQ_ROWS_MAX)
        return aq_fail(err, AQ_E_INVAL, "windows of %u rows: 1 to %u are possible", cfg->max_rows,
                       AQ_ROWS_MAX);
    AQ_AUTO(aq_seqmap_free) aq_seqmap *m = calloc(1, sizeof(*m));
    if (!m)
        return aq_fail(err, AQ_E_NOMEM, "state: out of memory");
    m->cfg = *cfg;
    m->recurrent = recurrent;
    m->vt = vt;
    m->user = user;
    m->seq = calloc(cfg->max_seq, sizeof(*m->seq));
    m->snap = calloc(cfg->n_snap + 1, sizeof(*m->snap));
    m->ref = calloc(cfg->n_page, sizeof(*m->ref));
    m->free = calloc(cfg->n_page, sizeof(*m->free));
    if (!m->seq || !m->snap || !m->ref || !m->free)
        return aq_fail(err, AQ_E_NOMEM, "state of %u pages: out of memory", cfg->n_page);
    m->n_free = cfg->n_page;
    for (uint32_t i = 0; i < m->n_free; i++)
        m->free[i] = m->n_free - 1 - i;
    *ret = AQ_STEAL(m);
    return 0;
}

void aq_seqmap_free(aq_seqmap *m)
{
    if (!m)
        return;
    if (m->seq)
        for (uint32_t i = 0; i < m->cfg.max_seq; i++)
            free(m->seq[i].page);
    free(m->seq);
    free(m->snap);
    free(m->ref);
    free(m->free);
    free(m);
}

static void page_drop(aq_seqmap *m, uint32_t page)
{
    if (--m->ref[page] == 0)
        m->free[m->n_free++] = page;
}

static void trim(aq_seqmap *m, seq *s, uint32_t n_tok)
{
    while (s->n_page > PAGES(n_tok))
        page_drop(m, s->page[--s->n_page]);
    s->len = n_tok;
}

/* Room for n page numbers in the table of s. */
static int table_reserve(seq *s, uint32_t n, aq_err *err)
{
    if (n <= s->cap_page)
        return 0;
    uint32_t cap = AQ_MAX(n, s->cap_page * 2);
    uint32_t *p = realloc(s->page, cap * sizeof(*p));
    if (!p)
        return aq_fail(err, AQ_E_NOMEM, "page table of %u pages: out of memory", cap);
    s->page = p;
    s->cap_page = cap;
    return 0;
}

static void no_history(seq *s)
{
    s->win0 = s->win1 = s->len;
}

static snap *snap_find(const aq_seqmap *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->cfg.n_snap; i++)
        if (m->snap[i].used && m->snap[i].id == id)
            return &m->snap[i];
    return NULL;
}

static int op_keep(aq_seqmap *m, const aq_op *op, aq_err *err)
{
    seq *s = &m->seq[op->seq];
    if (op->arg > 0 && (!s->live || op->arg > s->len))
        return aq_fail(err, AQ_E_INVAL, "KEEP %llu: seq %u has %u tokens",
                       (unsigned long long)op->arg, op->seq, s->live ? s->len : 0);
    uint32_t n = (uint32_t)op->arg;
    if (n == 0) {
        trim(m, s, 0);
        s->live = s->defined = true;
        no_history(s);
        if (m->recurrent)
            m->vt->zero_slot(m->user, op->seq);
        return 0;
    }
    if (n == s->len)
        return 0;
    trim(m, s, n);
    if (m->recurrent && s->defined) {
        if (n >= s->win0 && n <= s->win1)
            m->vt->rewind(m->user, op->seq, op->seq, n - s->win0);
        else
            s->defined = false;
    }
    if (!m->recurrent || !s->defined)
        no_history(s);
    return 0;
}

static int op_fork(aq_seqmap *m, const aq_op *op, aq_err *err)
{
    if (op->from >= m->cfg.max_seq || op->from == op->seq || !m->seq[op->from].live)
        return aq_fail(err, AQ_E_INVAL, "FORK to seq %u: there is no seq %u to fork from", op->seq,
                       op->from);
    seq *s = &m->seq[op->seq], *from = &m->seq[op->from];
    if (s->live && s->len > 0)
        return aq_fail(err, AQ_E_INVAL, "FORK to seq %u: it is not empty", op->seq);
    if (op->arg > from->len)
        return aq_fail(err, AQ_E_INVAL, "FORK of %llu tokens: seq %u has %u",
                       (unsigned long long)op->arg, op->from, from->len);
    uint32_t n = (uint32_t)op->arg, n_page = PAGES(n);
    int rc = table_reserve(s, n_page, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n_page; i++) {
        s->page[i] = from->page[i];
        m->ref[s->page[i]]++;
    }
    s->live = true;
    s->n_page = n_page;
    s->len = n;
    s->defined = true;
    if (m->recurrent) {
        if (n == 0)
            m->vt->zero_slot(m->user, op->seq);
        else if (!from->defined)
            s->defined = false;
        else if (n == from->len)
            m->vt->copy_slot(m->user, op->seq, op->from);
        else if (n >= from->win0 && n <= from->win1)
            m->vt->rewind(m->user, op->seq, op->from, n - from->win0);
        else
            s->defined = false;
    }
    no_history(s);
    return 0;
}

static int op_free(aq_seqmap *m, const aq_op *op)
{
    if (op->seq == AQ_SEQ_NONE) {
        snap *p = snap_find(m, op->arg);
        if (p)
            p->used = false;
        return 0;
    }
    seq *s = &m->seq[op->seq];
    if (!s->live)
        return 0;
    trim(m, s, 0);
    free(s->page);
    *s = (seq){0};
    return 0;
}

static int op_snap(aq_seqmap *m, const aq_op *op, aq_err *err)
{
    seq *s = &m->seq[op->seq];
    if (!s->live)
        return aq_fail(err, AQ_E_INVAL, "SNAP: there is no seq %u", op->seq);
    if (!s->defined)
        return aq_fail(
            err, AQ_E_INVAL,
            "SNAP: the recurrent state of seq %u was cut at token %u; RESTORE comes first", op->seq,
            s->len);
    snap *p = snap_find(m, op->arg);
    for (uint32_t i = 0; !p && i < m->cfg.n_snap; i++)
        if (!m->snap[i].used)
            p = &m->snap[i];
    if (!p)
        return aq_fail(err, AQ_E_LIMIT, "SNAP: all %u snapshots are in use", m->cfg.n_snap);
    *p = (snap){.used = true, .id = op->arg, .n_tok = s->len};
    if (m->recurrent)
        m->vt->copy_slot(m->user, m->cfg.max_seq + (uint32_t)(p - m->snap), op->seq);
    return 0;
}

static int op_restore(aq_seqmap *m, const aq_op *op, aq_err *err)
{
    seq *s = &m->seq[op->seq];
    const snap *p = snap_find(m, op->arg);
    if (!s->live || !p)
        return aq_fail(err, AQ_E_INVAL, "RESTORE: there is no %s %llu",
                       s->live ? "snapshot" : "seq",
                       (unsigned long long)(s->live ? op->arg : op->seq));
    if (p->n_tok > s->len)
        return aq_fail(err, AQ_E_INVAL, "RESTORE: snapshot %llu stands at %u tokens, seq %u has %u",
                       (unsigned long long)op->arg, p->n_tok, op->seq, s->len);
    trim(m, s, p->n_tok);
    s->defined = true;
    no_history(s);
    if (m->recurrent)
        m->vt->copy_slot(m->user, op->seq, m->cfg.max_seq + (uint32_t)(p - m->snap));
    return 0;
}

int aq_seqmap_apply(aq_seqmap *m, const aq_op *op, uint32_t n, aq_err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const aq_op *o = &op[i];
        bool drops_snap = o->kind == AQ_OP_FREE && o->seq == AQ_SEQ_NONE;
        int rc;
        if (o->zero != 0 || (o->seq >= m->cfg.max_seq && !drops_snap))
            rc = aq_fail(err, AQ_E_INVAL, "seq %u is out of range: this stage has %u", o->seq,
                         m->cfg.max_seq);
        else if (o->kind == AQ_OP_KEEP)
            rc = op_keep(m, o, err);
        else if (o->kind == AQ_OP_FORK)
            rc = op_fork(m, o, err);
        else if (o->kind == AQ_OP_FREE)
            rc = op_free(m, o);
        else if (o->kind == AQ_OP_SNAP)
            rc = op_snap(m, o, err);
        else if (o->kind == AQ_OP_RESTORE)
            rc = op_restore(m, o, err);
        else
            rc = aq_fail(err, AQ_E_INVAL, "there is no operation %u", o->kind);
        if (rc < 0)
            return aq_err_prefix(err, rc, "state operation %u", i);
    }
    return 0;
}

static int page_take(aq_seqmap *m, uint32_t *ret, aq_err *err)
{
    if (m->n_free == 0)
        return aq_fail(err, AQ_E_LIMIT, "all %u pages of %u tokens are in use", m->cfg.n_page,
                       AQ_PAGE_TOK);
    *ret = m->free[--m->n_free];
    m->ref[*ret] = 1;
    return 0;
}

/* Pages for n more tokens; on failure s may hold pages beyond its length, which the caller trims. */
static int seq_grow(aq_seqmap *m, seq *s, uint32_t n, aq_err *err)
{
    uint32_t n_page = PAGES(s->len + n), part = s->len % AQ_PAGE_TOK, page = 0;
    int rc = table_reserve(s, n_page, err);
    if (rc < 0)
        return rc;
    if (part && m->ref[s->page[s->n_page - 1]] > 1) { /* shared and about to be written into */
        uint32_t src = s->page[s->n_page - 1];
        rc = page_take(m, &page, err);
        if (rc < 0)
            return rc;
        m->vt->copy_page(m->user, page, src, part);
        page_drop(m, src);
        s->page[s->n_page - 1] = page;
    }
    while (s->n_page < n_page) {
        rc = page_take(m, &page, err);
        if (rc < 0)
            return rc;
        s->page[s->n_page++] = page;
    }
    return 0;
}

static uint32_t run_of(const aq_window *w, uint32_t i)
{
    uint32_t n = 1;
    while (i + n < w->n_rows && w->row[i + n].seq == w->row[i].seq)
        n++;
    return n;
}

static int check_rows(aq_seqmap *m, const aq_window *w, aq_err *err)
{
    if (w->n_rows > m->cfg.max_rows)
        return aq_fail(err, AQ_E_INVAL, "window of %u rows: this stage takes %u", w->n_rows,
                       m->cfg.max_rows);
    m->stamp++;
    for (uint32_t i = 0, n; i < w->n_rows; i += n) {
        uint32_t id = w->row[i].seq;
        n = run_of(w, i);
        if (id >= m->cfg.max_seq || !m->seq[id].live)
            return aq_fail(err, AQ_E_INVAL, "row %u: there is no seq %u", i, id);
        seq *s = &m->seq[id];
        if (s->stamp == m->stamp)
            return aq_fail(err, AQ_E_INVAL, "row %u: the rows of seq %u are not adjacent", i, id);
        s->stamp = m->stamp;
        for (uint32_t j = 0; j < n; j++)
            if (w->row[i + j].pos != (uint64_t)s->len + j || w->row[i + j].pos >= AQ_CTX_MAX)
                return aq_fail(err, AQ_E_INVAL, "row %u: position %u, but seq %u has %u tokens",
                               i + j, w->row[i + j].pos, id, s->len + j);
        if (m->recurrent && !s->defined)
            return aq_fail(
                err, AQ_E_INVAL,
                "row %u: the recurrent state of seq %u was cut at token %u; RESTORE comes first", i,
                id, s->len);
    }
    return 0;
}

int aq_seqmap_grow(aq_seqmap *m, const aq_window *w, aq_err *err)
{
    int rc = check_rows(m, w, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0, n; i < w->n_rows; i += n) {
        seq *s = &m->seq[w->row[i].seq];
        n = run_of(w, i);
        rc = seq_grow(m, s, n, err);
        if (rc < 0) {
            for (uint32_t j = 0; j <= i; j += run_of(w, j))
                trim(m, &m->seq[w->row[j].seq], m->seq[w->row[j].seq].len);
            return aq_err_prefix(err, rc, "window of %u rows", w->n_rows);
        }
    }
    for (uint32_t i = 0, n; i < w->n_rows; i += n) {
        seq *s = &m->seq[w->row[i].seq];
        n = run_of(w, i);
        s->old_len = s->len;
        s->len += n;
        s->win0 = n <= AQ_REWIND_ROWS ? s->old_len : s->len;
        s->win1 = s->len;
    }
    return 0;
}

void aq_seqmap_undo(aq_seqmap *m, const aq_window *w)
{
    for (uint32_t i = 0; i < w->n_rows; i += run_of(w, i)) {
        seq *s = &m->seq[w->row[i].seq];
        trim(m, s, s->old_len);
        no_history(s);
    }
}

const uint32_t *aq_seqmap_pages(const aq_seqmap *m, uint32_t id, uint32_t *ret_len)
{
    bool live = aq_seqmap_has(m, id);
    *ret_len = live ? m->seq[id].len : 0;
    return live ? m->seq[id].page : NULL;
}

bool aq_seqmap_has(const aq_seqmap *m, uint32_t id)
{
    return id < m->cfg.max_seq && m->seq[id].live;
}

int aq_seqmap_snap(const aq_seqmap *m, uint64_t id, uint32_t *ret)
{
    const snap *p = snap_find(m, id);
    if (p)
        *ret = p->n_tok;
    return p != NULL;
}

uint32_t aq_seqmap_pages_used(const aq_seqmap *m)
{
    return m->cfg.n_page - m->n_free;
}

int aq_seqmap_fill(aq_seqmap *m, uint32_t id, uint32_t n_tok, aq_err *err)
{
    seq *s = id < m->cfg.max_seq ? &m->seq[id] : NULL;
    if (!s || !s->live || s->len || n_tok >= AQ_CTX_MAX)
        return aq_fail(err, AQ_E_INVAL, "seq %u cannot be filled with %u tokens", id, n_tok);
    int rc = seq_grow(m, s, n_tok, err);
    if (rc < 0) {
        trim(m, s, 0);
        return rc;
    }
    s->len = n_tok;
    s->defined = true;
    no_history(s);
    return 0;
}

int aq_seqmap_snap_set(aq_seqmap *m, uint64_t id, uint32_t n_tok, aq_err *err)
{
    snap *p = snap_find(m, id);
    for (uint32_t i = 0; !p && i < m->cfg.n_snap; i++)
        if (!m->snap[i].used)
            p = &m->snap[i];
    if (!p)
        return aq_fail(err, AQ_E_LIMIT, "all %u snapshots are in use", m->cfg.n_snap);
    *p = (snap){.used = true, .id = id, .n_tok = n_tok};
    return 0;
}

uint32_t aq_seqmap_snap_slot(const aq_seqmap *m, uint64_t id)
{
    const snap *p = snap_find(m, id);
    return p ? m->cfg.max_seq + (uint32_t)(p - m->snap) : UINT32_MAX;
}

bool aq_seqmap_defined(const aq_seqmap *m, uint32_t id)
{
    return aq_seqmap_has(m, id) && m->seq[id].defined;
}
