/* SPDX-License-Identifier: Apache-2.0 */
/* What is known already: parked seqs (chats that ended, their state kept at every stage), the
 * longest prefix of a new prompt among them and the running ones, and snapshots of recurrent state.
 *
 * An ordinary seq can be used up to any of its tokens. The state of a recurrent one cannot be cut:
 * it can be used where a snapshot was taken (when the prompt has been read, at the end of the
 * answer, every AQ_SNAP_EVERY_TOK tokens), and a parked one also as it stands. */
#include "sched-priv.h"

const aq_toks *aq_seq_log(const aq_sseq *s)
{
    return s->state == AQ_SEQ_LIVE ? &s->req->log : &s->log;
}

static uint32_t common(const aq_toks *a, const aq_toks *b, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && a->id[i] == b->id[i])
        i++;
    return i;
}

/* The latest snapshot of seq with at most n_tok tokens, or UINT32_MAX. */
static uint32_t snap_find(const aq_engine *e, uint32_t seq, uint32_t n_tok)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < e->set.n_snap; i++)
        if (e->set.snap[i].seq == seq && e->set.snap[i].n_tok <= n_tok &&
            (best == UINT32_MAX || e->set.snap[i].n_tok > e->set.snap[best].n_tok))
            best = i;
    return best;
}

aq_match aq_prefix_find(const aq_engine *e, const aq_toks *t)
{
    aq_match best = {AQ_SEQ_NONE, 0, UINT32_MAX, false};
    uint32_t draining = 0; /* tokens known to a chat whose last windows are still under way */

    for (uint32_t id = 0; id < e->set.max_seq; id++) {
        const aq_sseq *s = &e->seq[id];
        if (s->state == AQ_SEQ_FREE || s->bad || (s->lost && s->state != AQ_SEQ_DRAIN))
            continue;
        const aq_toks *log = aq_seq_log(s);
        /* one row at least must be computed, for its logits */
        uint32_t n = common(log, t, AQ_MIN(AQ_MIN(log->n, s->n_done), t->n - 1)), snap = UINT32_MAX;
        bool as_is = s->state == AQ_SEQ_PARKED && n == log->n;
        if (e->recurrent && !as_is) {
            snap = snap_find(e, id, n);
            n = snap == UINT32_MAX ? 0 : e->set.snap[snap].n_tok;
        }
        if (s->state == AQ_SEQ_DRAIN)
            draining = AQ_MAX(draining, n);
        else if (n > best.n_tok || (n && n == best.n_tok && s->state == AQ_SEQ_PARKED &&
                                    s->used > e->seq[best.seq].used))
            best = (aq_match){id, n, snap, false};
    }
    best.wait = draining > best.n_tok + AQ_TAKE_TAIL_TOK;
    return best;
}

void aq_snap_drop_from(aq_engine *e, uint32_t seq, uint32_t n_tok)
{
    for (uint32_t i = 0; i < e->set.n_snap; i++)
        if (e->set.snap[i].seq == seq && (e->set.snap[i].n_tok > n_tok || !n_tok))
            e->set.snap[i].seq =
                AQ_SEQ_NONE; /* its place at the stages is written over when the id is used again */
}

void aq_snap_take(aq_engine *e, uint32_t seq)
{
    aq_sseq *s = &e->seq[seq];
    uint32_t at = UINT32_MAX;

    if (!e->recurrent || !e->set.n_snap || !s->n_sub)
        return;
    for (uint32_t i = 0; i < e->set.n_snap; i++) {
        const aq_snap *n = &e->set.snap[i];
        if (n->seq == seq && n->n_tok == s->n_sub)
            return;
        if (n->seq == AQ_SEQ_NONE) {
            at = i;
            break;
        }
        /* else the oldest, but no other running chat's */
        if ((n->seq == seq || e->seq[n->seq].state != AQ_SEQ_LIVE) &&
            (at == UINT32_MAX || n->used < e->set.snap[at].used))
            at = i;
    }
    if (at == UINT32_MAX || aq_engine_op(e, AQ_OP_SNAP, seq, 0, at) < 0)
        return;
    e->set.snap[at] = (aq_snap){seq, s->n_sub, ++e->turn};
    s->n_snapped = s->n_sub;
}

static void seq_free(aq_engine *e, uint32_t id)
{
    aq_sseq *s = &e->seq[id];

    /* KEEP 0 makes it where it is not, so that FREE fits in any case; when there is no memory for
     * either, the seq's next user begins with KEEP 0 */
    int rc = aq_engine_op(e, AQ_OP_KEEP, id, 0, 0);
    if (rc >= 0)
        rc = aq_engine_op(e, AQ_OP_FREE, id, 0, 0);
    (void)rc;
    aq_pages_cut(e, s, 0);
    aq_snap_drop_from(e, id, 0);
    aq_toks_clear(&s->log);
    free(s->page);
    *s = (aq_sseq){0};
}

void aq_seq_drop(aq_engine *e, uint32_t id)
{
    seq_free(e, id);
}

bool aq_prefix_evict(aq_engine *e, uint32_t keep)
{
    uint32_t old = AQ_SEQ_NONE;

    for (uint32_t i = 0; i < e->set.max_seq; i++)
        if (e->seq[i].state == AQ_SEQ_PARKED && i != keep &&
            (old == AQ_SEQ_NONE || e->seq[i].used < e->seq[old].used))
            old = i;
    if (old != AQ_SEQ_NONE) {
        aq_park_save(e, old);
        seq_free(e, old);
    }
    return old != AQ_SEQ_NONE;
}

/* KEEP n_done is exact: in an ordinary model always, in a recurrent one within the last window,
 * which each stage has taken or not. */
static bool can_cut(const aq_engine *e, const aq_sseq *s)
{
    uint32_t more = s->n_sub - s->n_done;

    return !e->recurrent || more == 0 || (more == s->n_last && more <= AQ_REWIND_ROWS);
}

void aq_seq_settle(aq_engine *e, uint32_t id)
{
    aq_sseq *s = &e->seq[id];
    if (s->over && aq_engine_op(e, AQ_OP_KEEP, id, 0, s->n_done) < 0)
        s->bad = true;
    s->over = false;
    bool clean = !s->lost && s->n_sub == s->n_done, cut = can_cut(e, s);
    uint32_t n = s->bad ? 0 : s->n_done;

    aq_snap_drop_from(e, id, n);
    if (n && !clean && cut) {
        clean = aq_engine_op(e, AQ_OP_KEEP, id, 0, n) >= 0;
        n = clean ? n : 0;
    }
    if (n && clean) {
        s->n_sub = n;
        aq_snap_take(e, id);
    } else if (n) {
        uint32_t snap = snap_find(e, id, n);
        n = snap != UINT32_MAX && aq_engine_op(e, AQ_OP_RESTORE, id, 0, snap) >= 0
                ? e->set.snap[snap].n_tok
                : 0;
    }
    if (!n) {
        seq_free(e, id);
        return;
    }
    s->log.n = s->n_sub = s->n_done = n;
    s->lost = s->bad = false;
    s->state = AQ_SEQ_PARKED;
    s->used = ++e->turn;
    aq_pages_cut(e, s, n);
}

int aq_seq_recover(aq_engine *e, uint32_t id)
{
    aq_sseq *s = &e->seq[id];
    uint32_t n = s->bad ? 0 : s->n_done, snap = UINT32_MAX;

    aq_snap_drop_from(e, id, n);
    if (n && !can_cut(e, s)) {
        snap = snap_find(e, id, n);
        n = snap == UINT32_MAX ? 0 : e->set.snap[snap].n_tok;
    }
    int rc = snap != UINT32_MAX ? aq_engine_op(e, AQ_OP_RESTORE, id, 0, snap)
                                : aq_engine_op(e, AQ_OP_KEEP, id, 0, n);
    if (rc < 0)
        return rc;
    s->over = false;
    s->n_spec = 0;
    s->n_sub = s->n_done = n;
    s->n_snapped = AQ_MIN(s->n_snapped, n);
    s->lost = s->bad = false;
    return 0;
}
