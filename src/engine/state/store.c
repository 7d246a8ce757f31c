/* SPDX-License-Identifier: Apache-2.0 */
/* KV pages and recurrent slots; see store-priv.h. Thread: the stage's. */
#include <sys/mman.h>

#include "walk-priv.h"

#define ALIGN 64u
#define HUGE_BYTES ((size_t)2 << 20)
#define STORE_BYTES_MAX ((uint64_t)1 << 46)

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Not zeroed: pages of memory that nobody writes are never taken from the system. What is long lies in
 * huge ones, which decoding reads faster; half of the last one is lost on the average. */
static void *big_alloc(aq_store *s, uint64_t n, aq_err *err)
{
    size_t to = n >= 4 * HUGE_BYTES ? HUGE_BYTES : ALIGN;
    void *p = n <= STORE_BYTES_MAX ? aligned_alloc(to, round_up(n, to)) : NULL;
    if (p && to == HUGE_BYTES)
        madvise(p, round_up(n, to), MADV_HUGEPAGE); /* advice: refused is fine */
    if (!p)
        aq_fail(err, AQ_E_NOMEM,
                "the state of the chats needs %llu MB, which are not there (use a shorter context "
                "or fewer chats)",
                (unsigned long long)(n >> 20));
    else
        s->bytes += n;
    return p;
}

static float *slot_of(const aq_store *s, uint32_t slot)
{
    size_t at =
        slot < s->cfg.max_seq ? 2 * (size_t)slot + s->odd[slot] : (size_t)s->cfg.max_seq + slot;
    return s->slot + at * s->slot_f32;
}

float *aq_store_live(const aq_store *s, uint32_t seq, uint32_t layer)
{
    return slot_of(s, seq) + s->slot_off[layer];
}

float *aq_store_before(const aq_store *s, uint32_t seq, uint32_t layer)
{
    return s->slot + (2 * (size_t)seq + !s->odd[seq]) * s->slot_f32 + s->slot_off[layer];
}

float *aq_store_hist(const aq_store *s, uint32_t seq, uint32_t layer)
{
    return s->hist + seq * s->hist_f32 + s->hist_off[layer];
}

/* Floats of a layer's delta net in a slot and in the history: what belongs to n-gram embeddings lies behind them. */
static size_t delta_slot_f32(const aq_layer *d)
{
    return d->mixer == AQ_MIX_DELTA ? (d->conv_k - 1) * (size_t)aq_delta_width(d) +
                                          (size_t)d->n_vh * d->d_state * d->d_state
                                    : 0;
}

static size_t delta_hist_f32(const aq_layer *d)
{
    return d->mixer == AQ_MIX_DELTA ? AQ_REWIND_ROWS * (aq_delta_width(d) + 2 * (size_t)d->n_vh)
                                    : 0;
}

float *aq_store_ngram(const aq_store *s, uint32_t seq, uint32_t layer, bool live)
{
    return (live ? aq_store_live(s, seq, layer) : aq_store_before(s, seq, layer)) +
           delta_slot_f32(s->layer[layer].d);
}

float *aq_store_ngram_hist(const aq_store *s, uint32_t seq, uint32_t layer)
{
    return aq_store_hist(s, seq, layer) + delta_hist_f32(s->layer[layer].d);
}

static void copy_page(void *user, uint32_t dst, uint32_t src, uint32_t n_tok)
{
    aq_store *s = user;
    for (uint32_t l = 0; l < s->n_layer; l++) {
        const aq_kv *kv = &s->kv[l];
        for (uint32_t h = 0; kv->base && !kv->borrowed && h < kv->n_kv; h++) {
            memcpy(aq_kv_k(kv, dst, h, 0), aq_kv_k(kv, src, h, 0), (size_t)n_tok * kv->k_bytes);
            memcpy(aq_kv_v(kv, dst, h, 0), aq_kv_v(kv, src, h, 0), (size_t)n_tok * kv->v_bytes);
        }
        if (kv->d_idx) { /* a block that is not whole yet gets its key when it is */
            memcpy(aq_kv_raw(kv, dst, 0), aq_kv_raw(kv, src, 0),
                   (size_t)n_tok * kv->d_idx * (kv->idx_f32 ? 4 : 2));
            memcpy(aq_kv_block(kv, dst, 0), aq_kv_block(kv, src, 0),
                   n_tok / s->layer[l].d->idx_block * (size_t)kv->d_idx * sizeof(float));
        }
    }
}

static void copy_slot(void *user, uint32_t dst, uint32_t src)
{
    aq_store *s = user;
    memcpy(slot_of(s, dst), slot_of(s, src), s->slot_f32 * sizeof(float));
}

static void zero_slot(void *user, uint32_t slot)
{
    aq_store *s = user;
    memset(slot_of(s, slot), 0, s->slot_f32 * sizeof(float));
}

static void rewind_slot(void *user, uint32_t dst, uint32_t src, uint32_t n_rows)
{
    aq_store *s = user;
    for (uint32_t l = 0; l < s->n_layer; l++) {
        const aq_layer *d = s->layer[l].d;
        if (d->ng_back) {
            const float *rows = aq_store_ngram_hist(s, src, l);
            aq_ngram_keep(s->net->model, d->ng_back, n_rows, rows,
                          rows + AQ_REWIND_ROWS * (size_t)s->net->model->info.row_f32,
                          aq_store_ngram(s, src, l, false), aq_store_ngram(s, dst, l, true));
        }
        if (d->mixer != AQ_MIX_DELTA)
            continue;
        uint32_t c = aq_delta_width(d);
        const float *in = aq_store_before(s, src, l), *qkv = aq_store_hist(s, src, l),
                    *decay = qkv + (size_t)AQ_REWIND_ROWS * c;
        float *out = aq_store_live(s, dst, l);
        size_t n_tail = (size_t)(d->conv_k - 1) * c;
        aq_delta_run(s->net->blocks, s->net->ctx, &s->layer[l], n_rows, qkv, decay,
                     decay + (size_t)AQ_REWIND_ROWS * d->n_vh, in, out, in + n_tail, out + n_tail,
                     s->net->model->eps, s->tmp, s->tmp_o);
    }
}

static const aq_seqmap_vt seqmap_vt = {copy_page, copy_slot, zero_slot, rewind_slot};

static int new_kv(aq_store *s, uint32_t l, aq_err *err)
{
    const aq_layer *d = s->layer[l].d;
    aq_kv *kv = &s->kv[l];
    if (d->kv_back) { /* never out of these layers: the loader has looked */
        *kv = s->kv[l - d->kv_back];
        kv->borrowed = true;
        return 0;
    }
    bool latent = d->mixer == AQ_MIX_LATENT;
    uint32_t kb = aq_kv_row_bytes(s->cfg.kv_type, d->d_k),
             vb = aq_kv_row_bytes(s->cfg.kv_type, d->d_v);
    size_t k = (size_t)d->n_kv * AQ_PAGE_TOK * kb,
           v = latent ? 0 : (size_t)d->n_kv * AQ_PAGE_TOK * vb;
    *kv = (aq_kv){.type = s->cfg.kv_type,
                  .n_kv = d->n_kv,
                  .d_k = d->d_k,
                  .d_v = d->d_v,
                  .k_bytes = kb,
                  .v_bytes = vb,
                  .v_off = latent ? 0 : k,
                  .page_bytes = k + v};
    if (d->n_idx) {
        kv->d_idx = d->d_idx;
        kv->idx_f32 = s->cfg.kv_type == AQ_KV_F32;
        kv->raw_off = round_up(k + v, ALIGN);
        kv->block_off =
            round_up(kv->raw_off + AQ_PAGE_TOK * (size_t)d->d_idx * (kv->idx_f32 ? 4 : 2), ALIGN);
        kv->page_bytes = round_up(
            kv->block_off + AQ_PAGE_TOK / d->idx_block * (size_t)d->d_idx * sizeof(float), ALIGN);
    }
    kv->base = big_alloc(s, (uint64_t)kv->page_bytes * s->cfg.n_page, err);
    return kv->base ? 0 : -AQ_E_NOMEM;
}

static int new_recurrent(aq_store *s, aq_err *err)
{
    size_t wide = 0, wide_o = 0;
    for (uint32_t l = 0; l < s->n_layer; l++) {
        const aq_layer *d = s->layer[l].d;
        size_t row = s->net->model->info.row_f32;
        if (d->mixer != AQ_MIX_DELTA && !d->ng_back)
            continue;
        s->slot_off[l] = s->slot_f32;
        s->slot_f32 += round_up(
            delta_slot_f32(d) + (d->ng_back ? d->ng_back * row + s->net->model->ngram.size - 1 : 0),
            ALIGN / 4);
        s->hist_off[l] = s->hist_f32;
        s->hist_f32 +=
            round_up(delta_hist_f32(d) + (d->ng_back ? AQ_REWIND_ROWS * (row + 1) : 0), ALIGN / 4);
        if (d->mixer != AQ_MIX_DELTA)
            continue;
        size_t c = aq_delta_width(d);
        wide = AQ_MAX(wide, c);
        wide_o = AQ_MAX(wide_o, (size_t)d->n_vh * d->d_state);
    }
    s->slot = big_alloc(
        s, (2 * (uint64_t)s->cfg.max_seq + s->cfg.n_snap) * s->slot_f32 * sizeof(float), err);
    s->hist =
        s->slot ? big_alloc(s, (uint64_t)s->cfg.max_seq * s->hist_f32 * sizeof(float), err) : NULL;
    if (!s->slot || !s->hist)
        return -AQ_E_NOMEM;
    s->tmp = malloc(AQ_REWIND_ROWS * wide * sizeof(float) + 1);
    s->tmp_o = malloc(AQ_REWIND_ROWS * wide_o * sizeof(float) + 1);
    if (!s->tmp || !s->tmp_o)
        return aq_fail(err, AQ_E_NOMEM, "state: out of memory");
    return 0;
}

int aq_store_new(const aq_net *net, const aq_net_layer *layer, uint32_t n_layer,
                 const aq_state_cfg *cfg, aq_store **ret, aq_err *err)
{
    if (cfg->kv_type > AQ_KV_Q8_0)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "KV type %u is not supported by this backend (f16, f32 and q8_0 are)",
                       cfg->kv_type);
    AQ_AUTO(aq_store_free) aq_store *s = calloc(1, sizeof(*s));
    if (!s)
        return aq_fail(err, AQ_E_NOMEM, "state: out of memory");
    *s = (aq_store){.net = net, .layer = layer, .n_layer = n_layer, .cfg = *cfg};
    for (uint32_t l = 0; l < n_layer; l++)
        s->recurrent |= layer[l].d->mixer == AQ_MIX_DELTA || layer[l].d->ng_back;
    int rc = aq_seqmap_new(cfg, s->recurrent, &seqmap_vt, s, &s->map, err);
    if (rc < 0)
        return rc;
    s->kv = calloc(n_layer, sizeof(*s->kv));
    s->slot_off = calloc(n_layer, sizeof(*s->slot_off));
    s->hist_off = calloc(n_layer, sizeof(*s->hist_off));
    s->odd = calloc(cfg->max_seq, 1);
    s->run = calloc(cfg->max_rows, sizeof(*s->run));
    if (!s->kv || !s->slot_off || !s->hist_off || !s->odd || !s->run)
        return aq_fail(err, AQ_E_NOMEM, "state: out of memory");
    for (uint32_t l = 0; l < n_layer; l++)
        if (layer[l].d->mixer != AQ_MIX_DELTA && (rc = new_kv(s, l, err)) < 0)
            return rc;
    if (s->recurrent && (rc = new_recurrent(s, err)) < 0)
        return rc;
    *ret = AQ_STEAL(s);
    return 0;
}

void aq_store_free(aq_store *s)
{
    if (!s)
        return;
    aq_seqmap_free(s->map);
    for (uint32_t l = 0; s->kv && l < s->n_layer; l++)
        if (!s->kv[l].borrowed)
            free(s->kv[l].base);
    free(s->kv);
    free(s->slot_off);
    free(s->hist_off);
    free(s->slot);
    free(s->hist);
    free(s->odd);
    free(s->tmp);
    free(s->tmp_o);
    free(s->run);
    free(s);
}

static void turn(aq_store *s)
{
    for (uint32_t r = 0; s->recurrent && r < s->n_run; r++)
        s->odd[s->run[r].seq] ^= 1;
}

int aq_store_begin(aq_store *s, const aq_window *w, aq_err *err)
{
    int rc = aq_seqmap_grow(s->map, w, err);
    if (rc < 0)
        return rc;
    s->n_run = 0;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        if (i > 0 && w->row[i].seq == w->row[i - 1].seq) {
            s->run[s->n_run - 1].n++;
            continue;
        }
        uint32_t len;
        const uint32_t *page = aq_seqmap_pages(s->map, w->row[i].seq, &len);
        s->run[s->n_run++] =
            (aq_run){.seq = w->row[i].seq, .row0 = i, .n = 1, .kv0 = w->row[i].pos, .page = page};
    }
    turn(s);
    return 0;
}

void aq_store_undo(aq_store *s, const aq_window *w)
{
    turn(s);
    aq_seqmap_undo(s->map, w);
}

/* ---- parked chats ---- */

static int page_io(aq_store *s, uint32_t page, uint32_t n_tok, aq_state_io_fn io, void *user,
                   aq_err *err)
{
    int rc = 0;
    for (uint32_t l = 0; rc == 0 && l < s->n_layer; l++) {
        const aq_kv *kv = &s->kv[l];
        if (!kv->base || kv->borrowed)
            continue;
        for (uint32_t h = 0; rc == 0 && h < kv->n_kv; h++) {
            rc = io(user, aq_kv_k(kv, page, h, 0), (size_t)n_tok * kv->k_bytes, err);
            if (rc == 0 && kv->v_off) /* latent: K is V */
                rc = io(user, aq_kv_v(kv, page, h, 0), (size_t)n_tok * kv->v_bytes, err);
        }
        if (rc == 0 && kv->d_idx)
            rc = io(user, aq_kv_raw(kv, page, 0), (size_t)n_tok * kv->d_idx * (kv->idx_f32 ? 4 : 2),
                    err);
        if (rc == 0 && kv->d_idx)
            rc = io(user, aq_kv_block(kv, page, 0),
                    n_tok / s->layer[l].d->idx_block * (size_t)kv->d_idx * sizeof(float), err);
    }
    return rc;
}

int aq_store_io(aq_store *s, uint32_t seq, uint32_t n_tok, const uint64_t *snap, uint32_t n_snap,
                aq_state_io_fn io, void *user, aq_err *err)
{
    uint32_t len;
    const uint32_t *page = aq_seqmap_pages(s->map, seq, &len);
    if (len < n_tok || (s->recurrent && (len != n_tok || !aq_seqmap_defined(s->map, seq))))
        return aq_fail(err, AQ_E_INVAL, "seq %u does not stand at %u tokens", seq, n_tok);
    int rc = 0;
    for (uint32_t at = 0; rc == 0 && at < n_tok; at += AQ_PAGE_TOK)
        rc = page_io(s, page[at / AQ_PAGE_TOK], AQ_MIN(AQ_PAGE_TOK, n_tok - at), io, user, err);
    if (rc == 0 && s->recurrent)
        rc = io(user, slot_of(s, seq), s->slot_f32 * sizeof(float), err);
    for (uint32_t i = 0; rc == 0 && s->recurrent && i < n_snap; i++) {
        uint32_t slot = aq_seqmap_snap_slot(s->map, snap[i]);
        rc = slot == UINT32_MAX ? aq_fail(err, AQ_E_INVAL, "there is no snapshot %llu",
                                          (unsigned long long)snap[i])
                                : io(user, slot_of(s, slot), s->slot_f32 * sizeof(float), err);
    }
    return rc;
}
