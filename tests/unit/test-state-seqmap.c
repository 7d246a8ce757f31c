/* SPDX-License-Identifier: Apache-2.0 */
/* The bookkeeping of pages, seqs and snapshots: every operation and its errors one by one, then random operations against a model of it
 * that keeps each seq as a plain list of tokens. The memory behind it is simulated: a page holds token ids, a recurrent state is a hash
 * of the tokens read so far. The seed is printed; the first argument sets it. */
#include <stdio.h>
#include <time.h>

#include "state-priv.h"
#include "tap.h"
#include "torture.h"

#define MAX_SEQ 6u
#define N_PAGE 24u
#define N_SNAP 3u
#define MAX_ROWS 300u

typedef struct mem {
    uint32_t page[N_PAGE][AQ_PAGE_TOK];
    uint64_t slot[MAX_SEQ + N_SNAP], before[MAX_SEQ];
    uint32_t rows[MAX_SEQ][AQ_REWIND_ROWS];
    uint32_t n_copy;
} mem;

static uint64_t mix(uint64_t h, uint32_t tok)
{
    return (h ^ tok) * 0x9E3779B97F4A7C15u + 1;
}

static void copy_page(void *user, uint32_t dst, uint32_t src, uint32_t n_tok)
{
    mem *m = user;
    memset(m->page[dst], 0xee, sizeof(m->page[dst]));
    memcpy(m->page[dst], m->page[src], n_tok * sizeof(uint32_t));
    m->n_copy++;
}

static void copy_slot(void *user, uint32_t dst, uint32_t src)
{
    mem *m = user;
    m->slot[dst] = m->slot[src];
}

static void zero_slot(void *user, uint32_t slot)
{
    mem *m = user;
    m->slot[slot] = 0;
}

static void rewind_slot(void *user, uint32_t dst, uint32_t src, uint32_t n_rows)
{
    mem *m = user;
    uint64_t h = m->before[src];
    for (uint32_t i = 0; i < n_rows; i++)
        h = mix(h, m->rows[src][i]);
    m->slot[dst] = h;
}

static const aq_seqmap_vt vt = {copy_page, copy_slot, zero_slot, rewind_slot};
static const aq_state_cfg cfg = {
    .n_page = N_PAGE, .max_seq = MAX_SEQ, .n_snap = N_SNAP, .max_rows = MAX_ROWS};

static int op(aq_seqmap *m, uint16_t kind, uint32_t seq, uint32_t from, uint64_t arg)
{
    aq_op o = {.kind = kind, .seq = seq, .from = from, .arg = arg};
    return aq_seqmap_apply(m, &o, 1, NULL);
}

/* Rows of one seq in a window; the simulated backend writes them. */
static int feed(aq_seqmap *m, mem *me, uint32_t seq, uint32_t n, const uint32_t *tok, bool undo)
{
    aq_row row[MAX_ROWS + 1];
    uint32_t len;
    aq_seqmap_pages(m, seq, &len);
    for (uint32_t i = 0; i < n; i++)
        row[i] = (aq_row){.seq = seq, .pos = len + i, .tok = (int32_t)tok[i]};
    aq_window w = {.n_rows = n, .row = row};
    int rc = aq_seqmap_grow(m, &w, NULL);
    if (rc < 0)
        return rc;
    const uint32_t *page = aq_seqmap_pages(m, seq, &len);
    me->before[seq] = me->slot[seq];
    for (uint32_t i = 0; i < n; i++) {
        me->page[page[row[i].pos / AQ_PAGE_TOK]][row[i].pos % AQ_PAGE_TOK] = tok[i];
        me->slot[seq] = mix(me->slot[seq], tok[i]);
        if (n <= AQ_REWIND_ROWS)
            me->rows[seq][i] = tok[i];
    }
    if (undo) {
        me->slot[seq] = me->before[seq];
        aq_seqmap_undo(m, &w);
    }
    return 0;
}

static uint32_t len_of(const aq_seqmap *m, uint32_t seq)
{
    uint32_t len;
    aq_seqmap_pages(m, seq, &len);
    return len;
}

static uint32_t toks[MAX_ROWS + 1];

static void one_by_one(bool recurrent)
{
    AQ_AUTO(aq_seqmap_free) aq_seqmap *m = NULL;
    mem *me = calloc(1, sizeof(*me));
    const char *k = recurrent ? "recurrent" : "plain";
    ok(aq_seqmap_new(&cfg, recurrent, &vt, me, &m, NULL) == 0, "%s: made", k);
    ok(op(m, AQ_OP_KEEP, 0, 0, 1) == -AQ_E_INVAL && !aq_seqmap_has(m, 0),
       "%s: KEEP 1 of no seq is refused", k);
    ok(feed(m, me, 0, 1, toks, false) == -AQ_E_INVAL, "%s: rows of no seq are refused", k);
    ok(op(m, AQ_OP_KEEP, 0, 0, 0) == 0 && aq_seqmap_has(m, 0) && aq_seqmap_pages_used(m) == 0,
       "%s: KEEP 0 makes an empty seq", k);
    ok(op(m, AQ_OP_KEEP, MAX_SEQ, 0, 0) == -AQ_E_INVAL, "%s: a seq out of range is refused", k);
    ok(op(m, 99, 0, 0, 0) == -AQ_E_INVAL, "%s: an unknown operation is refused", k);
    ok(feed(m, me, 0, 300, toks, false) == 0 && len_of(m, 0) == 300 && aq_seqmap_pages_used(m) == 2,
       "%s: 300 tokens take 2 pages", k);
    ok(feed(m, me, 0, MAX_ROWS + 1, toks, false) == -AQ_E_INVAL && len_of(m, 0) == 300,
       "%s: too many rows are refused", k);
    ok(op(m, AQ_OP_KEEP, 0, 0, 301) == -AQ_E_INVAL && len_of(m, 0) == 300,
       "%s: KEEP beyond the length is refused", k);
    ok(op(m, AQ_OP_FORK, 1, 2, 0) == -AQ_E_INVAL && op(m, AQ_OP_FORK, 0, 0, 10) == -AQ_E_INVAL,
       "%s: FORK of nothing or itself is refused", k);
    ok(op(m, AQ_OP_FORK, 1, 0, 301) == -AQ_E_INVAL && !aq_seqmap_has(m, 1),
       "%s: FORK beyond the length is refused", k);
    ok(op(m, AQ_OP_FORK, 1, 0, 300) == 0 && aq_seqmap_pages_used(m) == 2, "%s: FORK shares pages",
       k);
    ok(op(m, AQ_OP_FORK, 1, 0, 300) == -AQ_E_INVAL, "%s: FORK into a seq with tokens is refused",
       k);
    me->n_copy = 0;
    ok(feed(m, me, 1, 1, toks, false) == 0 && me->n_copy == 1 && aq_seqmap_pages_used(m) == 3,
       "%s: writing copies the open page only", k);
    ok(feed(m, me, 0, 1, toks, false) == 0 && me->n_copy == 1,
       "%s: the other seq then owns its page", k);
    ok(op(m, AQ_OP_FREE, 0, 0, 0) == 0 && aq_seqmap_pages_used(m) == 2 && len_of(m, 1) == 301,
       "%s: FREE keeps shared pages", k);
    ok(op(m, AQ_OP_FREE, 0, 0, 0) == 0 && op(m, AQ_OP_FREE, 1, 0, 0) == 0 &&
           aq_seqmap_pages_used(m) == 0,
       "%s: FREE gives all back", k);

    aq_op list[3] = {{.kind = AQ_OP_KEEP, .seq = 2},
                     {.kind = AQ_OP_KEEP, .seq = 3, .arg = 5},
                     {.kind = AQ_OP_KEEP, .seq = 4}};
    aq_err err = {0};
    ok(aq_seqmap_apply(m, list, 3, &err) == -AQ_E_INVAL && aq_seqmap_has(m, 2) &&
           !aq_seqmap_has(m, 4) && strstr(err.text, "operation 1"),
       "%s: a list stops at its bad operation and names it", k);

    aq_row bad[3] = {{.seq = 2, .pos = 0}, {.seq = 2, .pos = 1}, {.seq = 2, .pos = 1}};
    aq_window w = {.n_rows = 3, .row = bad};
    ok(aq_seqmap_grow(m, &w, NULL) == -AQ_E_INVAL && len_of(m, 2) == 0,
       "%s: a position twice is refused", k);
    ok(op(m, AQ_OP_KEEP, 3, 0, 0) == 0, "%s: another seq", k);
    bad[1] = (aq_row){.seq = 3, .pos = 0};
    ok(aq_seqmap_grow(m, &w, NULL) == -AQ_E_INVAL && len_of(m, 3) == 0,
       "%s: rows that are not adjacent are refused", k);

    for (uint64_t id = 10; id < 10 + N_SNAP; id++)
        if (op(m, AQ_OP_SNAP, 2, 0, id) < 0)
            ok(false, "%s: SNAP %u", k, (unsigned)id);
    ok(op(m, AQ_OP_SNAP, 2, 0, 99) == -AQ_E_LIMIT && op(m, AQ_OP_SNAP, 2, 0, 11) == 0,
       "%s: one SNAP too many; the same id again is none", k);
    ok(op(m, AQ_OP_FREE, AQ_SEQ_NONE, 0, 10) == 0 && op(m, AQ_OP_SNAP, 2, 0, 99) == 0,
       "%s: FREE drops a snapshot", k);
    ok(op(m, AQ_OP_RESTORE, 2, 0, 10) == -AQ_E_INVAL,
       "%s: RESTORE of a dropped snapshot is refused", k);

    /* pages run out: nothing changes */
    for (uint32_t s = 0; s < MAX_SEQ; s++)
        if (op(m, AQ_OP_KEEP, s, 0, 0) < 0)
            ok(false, "%s: seq %u", k, s);
    uint32_t fed = 0;
    while (feed(m, me, fed % 4, AQ_PAGE_TOK, toks, false) == 0)
        fed++;
    ok(fed == N_PAGE, "%s: %u pages hold as many windows of a page", k, fed);
    ok(feed(m, me, 5, 1, toks, false) == -AQ_E_LIMIT && len_of(m, 5) == 0 &&
           aq_seqmap_pages_used(m) == N_PAGE,
       "%s: then LIMIT", k);
    aq_row two[2] = {{.seq = 0, .pos = len_of(m, 0)}, {.seq = 5, .pos = 0}};
    ok(op(m, AQ_OP_FREE, 3, 0, 0) == 0 && op(m, AQ_OP_KEEP, 3, 0, 0) == 0 &&
           op(m, AQ_OP_KEEP, 0, 0, 256) == 0,
       "%s: some room again", k);
    while (feed(m, me, 4, AQ_PAGE_TOK, toks, false) == 0)
        ;
    uint32_t used = aq_seqmap_pages_used(m);
    ok(used == N_PAGE && op(m, AQ_OP_KEEP, 4, 0, len_of(m, 4) - AQ_PAGE_TOK) == 0,
       "%s: one page of room", k);
    two[0].pos = len_of(m, 0);
    w = (aq_window){.n_rows = 2, .row = two};
    if (!recurrent) /* seq 0 was cut there */
        ok(aq_seqmap_grow(m, &w, &err) == -AQ_E_LIMIT && len_of(m, 0) == 256 && len_of(m, 5) == 0 &&
               aq_seqmap_pages_used(m) == N_PAGE - 1,
           "%s: a window of two that fits by half changes nothing", k);
    else
        ok(aq_seqmap_grow(m, &w, &err) == -AQ_E_INVAL && strstr(err.text, "RESTORE"),
           "%s: rows on a cut recurrent state are refused", k);
    free(me);
}

/* ---- random operations ---- */

typedef struct twin {
    bool live, defined;
    uint32_t len, win0, win1, tok[N_PAGE * AQ_PAGE_TOK];
} twin;
typedef struct twin_snap {
    bool used;
    uint32_t len, tok[N_PAGE * AQ_PAGE_TOK];
} twin_snap;
static twin seqs[MAX_SEQ];
static twin_snap snaps[N_SNAP + 2];
static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 20) % n);
}

static uint32_t back_by(uint32_t len, uint32_t n)
{
    return len - AQ_MIN(len, n);
}

static bool same(const aq_seqmap *m, const mem *me, bool recurrent)
{
    for (uint32_t s = 0; s < MAX_SEQ; s++) {
        uint32_t len;
        const uint32_t *page = aq_seqmap_pages(m, s, &len);
        if (seqs[s].live != aq_seqmap_has(m, s) || (seqs[s].live && seqs[s].len != len))
            return false;
        uint64_t h = 0;
        for (uint32_t i = 0; seqs[s].live && i < len; i++) {
            if (me->page[page[i / AQ_PAGE_TOK]][i % AQ_PAGE_TOK] != seqs[s].tok[i])
                return false;
            h = mix(h, seqs[s].tok[i]);
        }
        if (recurrent && seqs[s].live && seqs[s].defined && me->slot[s] != h)
            return false;
    }
    return true;
}

static void twin_cut(twin *t, uint32_t n, bool recurrent)
{
    if (n == 0)
        *t = (twin){.live = true, .defined = true};
    else if (n < t->len) {
        bool reach = n >= t->win0 && n <= t->win1;
        t->len = n;
        t->defined = !recurrent || (t->defined && reach);
        if (!recurrent || !t->defined)
            t->win0 = t->win1 = n;
    }
}

/* One random step in both; false when they disagree on whether it works. */
static bool step(aq_seqmap *m, mem *me, bool recurrent)
{
    uint32_t s = rnd(MAX_SEQ), f = rnd(MAX_SEQ), id = rnd(N_SNAP + 2),
             n = 1 + rnd(rnd(3) ? 8 : MAX_ROWS), what = rnd(12);
    twin *t = &seqs[s];
    uint32_t cut = !t->live ? 0 : rnd(3) ? back_by(t->len, rnd(9)) : rnd(t->len + 1);
    if (what < 5 || what == 11) {
        bool undo = what == 11;
        for (uint32_t i = 0; i < n; i++)
            toks[i] = rnd(1u << 30);
        bool fits = t->live && (!recurrent || t->defined) && t->len + n <= N_PAGE * AQ_PAGE_TOK;
        int rc = feed(m, me, s, n, toks, undo);
        if (rc == -AQ_E_LIMIT && fits)
            return aq_seqmap_pages_used(m) + (n + AQ_PAGE_TOK) / AQ_PAGE_TOK + 1 > N_PAGE;
        if (fits != (rc == 0))
            return false;
        if (rc == 0 && undo)
            t->win0 = t->win1 = t->len;
        if (rc < 0 || undo)
            return true;
        memcpy(t->tok + t->len, toks, n * sizeof(*toks));
        t->win0 = n <= AQ_REWIND_ROWS ? t->len : t->len + n;
        t->win1 = t->len += n;
        return true;
    }
    if (what < 7) {
        bool can = t->live || cut == 0;
        if (can)
            twin_cut(t, cut, recurrent);
        return (op(m, AQ_OP_KEEP, s, 0, cut) == 0) == can;
    }
    if (what == 7) {
        twin *from = &seqs[f];
        uint32_t k = !from->live ? 0 : rnd(2) ? from->len : back_by(from->len, rnd(12));
        bool can = from->live && s != f && !(t->live && t->len > 0);
        if (can) {
            *t = *from;
            twin_cut(t, k, recurrent);
            t->win0 = t->win1 = t->len;
        }
        return (op(m, AQ_OP_FORK, s, f, k) == 0) == can;
    }
    if (what == 8) {
        *t = (twin){0};
        return op(m, AQ_OP_FREE, s, 0, 0) == 0;
    }
    if (what == 9) {
        uint32_t used = 0;
        for (uint32_t i = 0; i < AQ_LEN(snaps); i++)
            used += snaps[i].used;
        if (rnd(4) == 0) {
            snaps[id].used = false;
            return op(m, AQ_OP_FREE, AQ_SEQ_NONE, 0, id) == 0;
        }
        bool can = t->live && (!recurrent || t->defined) && (snaps[id].used || used < N_SNAP);
        if (can) {
            snaps[id] = (twin_snap){.used = true, .len = t->len};
            memcpy(snaps[id].tok, t->tok, t->len * sizeof(*t->tok));
        }
        return (op(m, AQ_OP_SNAP, s, 0, id) == 0) == can;
    }
    /* RESTORE, where the tokens are the snapshot's (else the caller would be wrong) */
    if (snaps[id].used && t->live && t->len >= snaps[id].len &&
        memcmp(t->tok, snaps[id].tok, snaps[id].len * sizeof(*t->tok)) != 0)
        return true;
    bool can = t->live && snaps[id].used && t->len >= snaps[id].len;
    if (can) {
        t->len = t->win0 = t->win1 = snaps[id].len;
        t->defined = true;
    }
    return (op(m, AQ_OP_RESTORE, s, 0, id) == 0) == can;
}

static void random_steps(bool recurrent)
{
    AQ_AUTO(aq_seqmap_free) aq_seqmap *m = NULL;
    mem *me = calloc(1, sizeof(*me));
    memset(seqs, 0, sizeof(seqs));
    memset(snaps, 0, sizeof(snaps));
    bool good = aq_seqmap_new(&cfg, recurrent, &vt, me, &m, NULL) == 0;
    uint32_t i = 0;
    for (; good && i < 20000; i++)
        good = step(m, me, recurrent) && (i % 4 || same(m, me, recurrent));
    ok(good, "%s: random operations keep every token and state (%u done)",
       recurrent ? "recurrent" : "plain", i);
    for (uint32_t s = 0; s < MAX_SEQ; s++)
        good = good && op(m, AQ_OP_FREE, s, 0, 0) == 0;
    ok(good && aq_seqmap_pages_used(m) == 0, "no page is lost");
    free(me);
}

static int alloc_run(void *user)
{
    AQ_AUTO(aq_seqmap_free) aq_seqmap *m = NULL;
    static mem me;
    int rc = aq_seqmap_new(&cfg, true, &vt, &me, &m, NULL);
    if (rc < 0)
        return rc;
    rc = op(m, AQ_OP_KEEP, 0, 0, 0);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = feed(m, &me, 0, 300, toks, false);
    return rc < 0 ? rc : op(m, AQ_OP_FORK, 1, 0, 900);
}

int main(int argc, char **argv)
{
    rng = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    one_by_one(false);
    one_by_one(true);
    random_steps(false);
    random_steps(true);
    torture("seqmap", alloc_run, NULL);
    return tap_done();
}
