/* SPDX-License-Identifier: Apache-2.0 */
/* Parked chats on disk: written when their pages are needed and when the engine ends, fetched instead
 * of reading the same tokens again. Step thread (aq_park_open: before it runs).
 *
 *   FOLDER/HASH.aqpark   head | i32 tok[n_tok] | state [bytes] | SHA-256 of all before
 *
 * HASH names model, kind of state and tokens. State is what aq_backend.state_io gives: it continues
 * with the same bits only where the same kernels made it, so `maker` says whose it is. The head is
 * believed for finding a chat, the whole only with its hash. Files that are not ours, of another
 * version, cut short or damaged are passed over with a line in the log. The folder is kept within its
 * budget: the files used longest ago go first.
 *
 * Only for chats whose layers are all in one stage of this process, which has no window under way
 * whenever a chat is admitted or given up. Others are not kept; the log says so once. The state of
 * draft layers is not kept: a chat that comes back goes on without drafts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rt-priv.h"
#include "sched-priv.h"

#define MAGIC 0x4b505141u /* AQPK */
#define VERSION 1u
#define SNAPS_MAX 4u
#define FILES_MAX 1024u
#define MIN_TOK 64u /* fewer are read again as fast */
#define PART_OLD_S 3600

typedef struct head {
    uint32_t magic, version, kv_type, n_tok, n_snap, zero;
    uint64_t bytes;
    uint8_t model[32];
    char maker[48];
    uint32_t snap_tok[SNAPS_MAX];
} head;

typedef struct entry {
    char name[48];
    uint64_t bytes; /* of the file */
    int64_t used;   /* mtime, ns */
    bool ours;      /* head and tok are there */
    head h;
    int32_t *tok; /* [h.n_tok] */
} entry;

struct aq_park {
    char *dir;
    int fd;
    uint64_t max_bytes, bytes;
    uint8_t model[32];
    char maker[48];
    uint32_t kv_type, n;
    bool told; /* that chats over several stages are not kept */
    entry file[FILES_MAX];
};

/* ---- the folder ---- */

static void forget(aq_park *p, uint32_t i, bool unlink_it)
{
    if (unlink_it)
        unlinkat(p->fd, p->file[i].name, 0);
    p->bytes -= p->file[i].bytes;
    free(p->file[i].tok);
    p->file[i] = p->file[--p->n];
}

static bool read_all(int fd, void *dst, size_t n)
{
    for (uint8_t *c = dst; n > 0;) {
        ssize_t k = aq_failpoint("park-read") ? (errno = EIO, -1) : read(fd, c, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        c += k;
        n -= (size_t)k;
    }
    return true;
}

/* Why a file is passed over, or NULL. Of other models and other kernels nothing is said. */
static const char *look(const aq_park *p, int fd, entry *e)
{
    head *h = &e->h;
    if (e->bytes < sizeof *h || !read_all(fd, h, sizeof *h) || h->magic != MAGIC)
        return "no parked chat, or cut short";
    if (h->version != VERSION)
        return "of another version";
    if (memcmp(h->model, p->model, sizeof h->model) || h->kv_type != p->kv_type ||
        memcmp(h->maker, p->maker, sizeof h->maker))
        return NULL;
    if (!h->n_tok || h->n_tok >= AQ_CTX_MAX || h->n_snap > SNAPS_MAX || h->bytes > e->bytes ||
        e->bytes != sizeof *h + 4 * (uint64_t)h->n_tok + h->bytes + 32)
        return "damaged or cut short";
    if (!(e->tok = malloc(h->n_tok * sizeof *e->tok)))
        return "not looked at: out of memory";
    if (!read_all(fd, e->tok, h->n_tok * sizeof *e->tok))
        return "cut short";
    e->ours = true;
    return NULL;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static void scan_one(aq_park *p, const char *name)
{
    struct stat st;
    AQ_AUTOFD int fd = openat(p->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    if (ends_in(name, ".part")) { /* of a program that ended while it wrote */
        if (st.st_mtim.tv_sec < time(NULL) - PART_OLD_S)
            unlinkat(p->fd, name, 0);
        return;
    }
    entry *e = &p->file[p->n];
    *e = (entry){.bytes = (uint64_t)st.st_size,
                 .used = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec};
    memcpy(e->name, name, strlen(name) + 1);
    p->n++;
    p->bytes += e->bytes;
    const char *why = look(p, fd, e);
    if (why)
        aq_log(AQ_LOG_WARN, "engine", "parked chat %s passed over: %s", name, why);
}

static void scan(aq_park *p)
{
    int fd = dup(p->fd);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *de; p->n < FILES_MAX && (de = readdir(d));)
        if (strlen(de->d_name) < sizeof p->file[0].name &&
            (ends_in(de->d_name, ".aqpark") || ends_in(de->d_name, ".aqpark.part")))
            scan_one(p, de->d_name);
    closedir(d);
}

int aq_park_open(aq_engine *e, const aq_engine_cfg *cfg, const aq_wsrc *src, aq_err *err)
{
    if (!cfg->park_dir || !*cfg->park_dir || !cfg->park_bytes)
        return 0;
    if (mkdir(cfg->park_dir, 0700) < 0 && errno != EEXIST)
        return aq_fail(err, AQ_E_IO, "the folder %s for parked chats cannot be made: %s",
                       cfg->park_dir, strerror(errno));
    aq_park *p = calloc(1, sizeof *p);
    if (!p || !(p->dir = strdup(cfg->park_dir))) {
        free(p);
        return aq_fail(err, AQ_E_NOMEM, "no memory for parked chats");
    }
    p->max_bytes = cfg->park_bytes;
    p->kv_type = e->kv_type;
    snprintf(p->maker, sizeof p->maker, "%s %s", e->be->name, e->rt ? aq_rt_cpu_path(e->rt) : "");
    p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = p->fd < 0 ? aq_fail(err, AQ_E_IO, "the folder %s for parked chats cannot be read: %s",
                                 p->dir, strerror(errno))
                       : aq_model_fingerprint(e->model, src, p->model, err);
    e->park = p;
    if (rc < 0) {
        aq_park_close(e);
        return rc;
    }
    scan(p);
    return 0;
}

void aq_park_close(aq_engine *e)
{
    aq_park *p = e->park;

    if (!p)
        return;
    while (p->n)
        forget(p, p->n - 1, false);
    aq_fd_close_p(&p->fd);
    free(p->dir);
    free(p);
    e->park = NULL;
}

void aq_park_stats(const aq_engine *e, uint32_t *ret_n, uint64_t *ret_bytes)
{
    *ret_n = 0;
    *ret_bytes = e->park ? e->park->bytes : 0;
    for (uint32_t i = 0; e->park && i < e->park->n; i++)
        *ret_n += e->park->file[i].ours;
}

void aq_park_forget(aq_engine *e)
{
    while (e->park && e->park->n)
        forget(e->park, e->park->n - 1, true);
    for (uint32_t s = 0; s < e->set.max_seq; s++)
        e->seq[s].secret = true;
}

/* ---- saving and loading ---- */

/* All layers in one stage here, at rest, with its operations applied. */
static bool at_rest(aq_engine *e)
{
    aq_stage *st = e->set.n_stage == 1 ? e->set.stage[0] : NULL;

    if (!st || !aq_stage_is_local(st)) {
        if (!e->park->told)
            aq_log(AQ_LOG_INFO, "engine",
                   "parked chats are not kept on disk: not all layers are here");
        e->park->told = true;
        return false;
    }
    if (e->n_flight || aq_stage_local_apply(st, e->op, e->n_op, NULL) < 0)
        return false;
    aq_draft_ops(e, e->op, e->n_op);
    e->n_op = 0;
    return true;
}

typedef struct stream {
    int fd; /* < 0: only count */
    aq_sha256 *sha;
    uint64_t n, left;
} stream;

static int count_io(void *user, void *p, size_t n, aq_err *err)
{
    ((stream *)user)->n += n;
    return 0;
}

static int put(stream *s, const void *p, size_t n, aq_err *err)
{
    for (const uint8_t *c = p; n > 0;) {
        size_t want = AQ_MIN(n, (size_t)1 << 20);
        ssize_t k = aq_failpoint("park-write") ? (errno = ENOSPC, -1) : write(s->fd, c, want);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return aq_fail(err, AQ_E_IO, "writing: %s", strerror(errno));
        if (s->sha && aq_sha256_add(s->sha, c, (size_t)k) < 0)
            return aq_fail(err, AQ_E_NOMEM, "hashing");
        c += k;
        n -= (size_t)k;
    }
    return 0;
}

static int save_io(void *user, void *p, size_t n, aq_err *err)
{
    return put(user, p, n, err);
}

static int load_io(void *user, void *p, size_t n, aq_err *err)
{
    stream *s = user;
    if (n > s->left || !read_all(s->fd, p, n))
        return aq_fail(err, AQ_E_IO, "it is shorter than this model's state, or cannot be read");
    s->left -= n;
    return aq_sha256_add(s->sha, p, n) < 0 ? aq_fail(err, AQ_E_NOMEM, "hashing") : 0;
}

static int name_of(const aq_park *p, const aq_toks *t, char ret[48])
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    uint8_t h[32];
    if (!sha || aq_sha256_add(sha, p->model, sizeof p->model) < 0 ||
        aq_sha256_add(sha, p->maker, sizeof p->maker) < 0 ||
        aq_sha256_add(sha, &p->kv_type, sizeof p->kv_type) < 0 ||
        aq_sha256_add(sha, t->id, t->n * sizeof *t->id) < 0 || aq_sha256_end(sha, h) < 0)
        return -AQ_E_NOMEM;
    for (uint32_t i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", h[i]);
    memcpy(ret + 32, ".aqpark", 8);
    return 0;
}

/* The latest snapshots of seq, oldest first. */
static uint32_t snaps_of(const aq_engine *e, uint32_t seq, uint32_t n_tok, uint64_t id[SNAPS_MAX],
                         uint32_t tok[SNAPS_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->set.n_snap; i++) {
        const aq_snap *s = &e->set.snap[i];
        if (s->seq != seq || s->n_tok >= n_tok)
            continue;
        if (n == SNAPS_MAX && s->n_tok < tok[0])
            continue;
        if (n == SNAPS_MAX) {
            memmove(id, id + 1, (n - 1) * sizeof *id);
            memmove(tok, tok + 1, (n - 1) * sizeof *tok);
            n--;
        }
        uint32_t at = n++;
        for (; at > 0 && tok[at - 1] > s->n_tok; at--) {
            id[at] = id[at - 1];
            tok[at] = tok[at - 1];
        }
        id[at] = i;
        tok[at] = s->n_tok;
    }
    return n;
}

/* Room for n more bytes. */
static bool make_room(aq_park *p, uint64_t n)
{
    if (n > p->max_bytes)
        return false;
    while (p->n && (p->bytes > p->max_bytes - n || p->n == FILES_MAX)) {
        uint32_t old = 0;
        for (uint32_t i = 1; i < p->n; i++)
            if (p->file[i].used < p->file[old].used)
                old = i;
        forget(p, old, true);
    }
    return true;
}

static int write_file(aq_engine *e, const char *part, const head *h, const aq_sseq *s, uint32_t seq,
                      const uint64_t *snap, aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    AQ_AUTOFD int fd =
        openat(e->park->fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    stream out = {.fd = fd, .sha = sha};
    uint8_t sum[32];
    if (fd < 0 || !sha)
        return aq_fail(err, fd < 0 ? AQ_E_IO : AQ_E_NOMEM, "opening: %s",
                       fd < 0 ? strerror(errno) : "out of memory");
    int rc = put(&out, h, sizeof *h, err);
    if (rc >= 0)
        rc = put(&out, s->log.id, h->n_tok * sizeof *s->log.id, err);
    if (rc >= 0)
        rc = aq_stage_local_io(e->set.stage[0], false, seq, h->n_tok, snap, h->snap_tok, h->n_snap,
                               save_io, &out, err);
    if (rc >= 0 && aq_sha256_end(sha, sum) < 0)
        rc = aq_fail(err, AQ_E_NOMEM, "hashing");
    out.sha = NULL;
    return rc < 0 ? rc : put(&out, sum, sizeof sum, err);
}

static uint32_t find(const aq_park *p, const char *name)
{
    uint32_t i = 0;
    while (i < p->n && strcmp(p->file[i].name, name))
        i++;
    return i;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Used now: in the folder too, for the next start. False when the file has gone. */
static bool touch(aq_park *p, uint32_t i)
{
    p->file[i].used = now_ns();
    return utimensat(p->fd, p->file[i].name, NULL, 0) == 0 || errno != ENOENT;
}

/* Earlier states of the same chat are of no more use. */
static void drop_prefixes(aq_park *p, const aq_toks *t)
{
    for (uint32_t i = 0; i < p->n;) {
        const entry *f = &p->file[i];
        if (f->ours && f->h.n_tok < t->n && !memcmp(f->tok, t->id, f->h.n_tok * sizeof *t->id))
            forget(p, i, true);
        else
            i++;
    }
}

void aq_park_save(aq_engine *e, uint32_t seq)
{
    aq_park *p = e->park;
    const aq_sseq *s = &e->seq[seq];
    char name[48], part[64];
    uint64_t snap[SNAPS_MAX];
    stream count = {.fd = -1};
    aq_err err = {0};

    if (!p || s->secret || s->log.n < MIN_TOK || s->state != AQ_SEQ_PARKED || !at_rest(e) ||
        name_of(p, &s->log, name) < 0)
        return;
    uint32_t i = find(p, name);
    if (i < p->n && touch(p, i))
        return;
    if (i < p->n)
        forget(p, i, false);
    head h = {.magic = MAGIC, .version = VERSION, .kv_type = p->kv_type, .n_tok = s->log.n};
    memcpy(h.model, p->model, sizeof h.model);
    memcpy(h.maker, p->maker, sizeof h.maker);
    h.n_snap = snaps_of(e, seq, h.n_tok, snap, h.snap_tok);
    int rc = aq_stage_local_io(e->set.stage[0], false, seq, h.n_tok, snap, h.snap_tok, h.n_snap,
                               count_io, &count, &err);
    h.bytes = count.n;
    uint64_t size = sizeof h + 4 * (uint64_t)h.n_tok + h.bytes + 32;
    if (rc >= 0 && !make_room(p, size))
        return; /* larger than the whole budget */
    snprintf(part, sizeof part, "%s.part", name);
    if (rc >= 0)
        rc = write_file(e, part, &h, s, seq, snap, &err);
    if (rc >= 0 && renameat(p->fd, part, p->fd, name) < 0)
        rc = aq_fail(&err, AQ_E_IO, "naming: %s", strerror(errno));
    int32_t *tok = rc < 0 ? NULL : malloc(h.n_tok * sizeof *tok);
    if (rc < 0) {
        unlinkat(p->fd, part, 0);
        aq_log(AQ_LOG_WARN, "engine", "a chat of %u tokens is not kept on disk: %s", h.n_tok,
               err.text);
        return;
    }
    drop_prefixes(p, &s->log);
    entry *f = &p->file[p->n++];
    *f = (entry){.bytes = size, .used = now_ns(), .ours = tok != NULL, .h = h, .tok = tok};
    memcpy(f->name, name, sizeof name);
    if (tok)
        memcpy(tok, s->log.id, h.n_tok * sizeof *tok);
    p->bytes += size;
    aq_log(AQ_LOG_INFO, "engine", "parked tok=%u bytes=%llu of=%llu", h.n_tok,
           (unsigned long long)size, (unsigned long long)p->max_bytes);
}

void aq_park_save_all(aq_engine *e)
{
    /* the one used last is written last, so that it stays longest */
    for (uint64_t done = 0; e->park;) {
        uint32_t next = AQ_SEQ_NONE;
        for (uint32_t i = 0; i < e->set.max_seq; i++)
            if (e->seq[i].state == AQ_SEQ_PARKED && e->seq[i].used > done &&
                (next == AQ_SEQ_NONE || e->seq[i].used < e->seq[next].used))
                next = i;
        if (next == AQ_SEQ_NONE)
            return;
        done = e->seq[next].used;
        aq_park_save(e, next);
    }
}

/* Tokens of a file that a prompt can go on from. */
static uint32_t usable(const aq_engine *e, const entry *f, const aq_toks *t)
{
    uint32_t n = 0, most = AQ_MIN(f->h.n_tok, t->n - 1), best = 0;

    while (n < most && f->tok[n] == t->id[n])
        n++;
    if (!e->recurrent || n == f->h.n_tok)
        return n;
    for (uint32_t i = 0; i < f->h.n_snap; i++)
        if (f->h.snap_tok[i] <= n)
            best = AQ_MAX(best, f->h.snap_tok[i]);
    return best;
}

/* Ids for n snapshots: free ones, else those of parked chats, oldest first. */
static bool snap_ids(aq_engine *e, uint32_t n, uint64_t *id)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = UINT32_MAX;
        for (uint32_t i = 0; i < e->set.n_snap; i++) {
            const aq_snap *s = &e->set.snap[i];
            bool taken = false;
            for (uint32_t j = 0; j < k; j++)
                taken |= id[j] == i;
            if (taken || (s->seq != AQ_SEQ_NONE && e->seq[s->seq].state == AQ_SEQ_LIVE))
                continue;
            uint64_t used = s->seq == AQ_SEQ_NONE ? 0 : s->used;
            if (at == UINT32_MAX ||
                used < (e->set.snap[at].seq == AQ_SEQ_NONE ? 0 : e->set.snap[at].used))
                at = i;
        }
        if (at == UINT32_MAX)
            return false;
        id[k] = at;
    }
    for (uint32_t k = 0; k < n; k++)
        e->set.snap[id[k]].seq = AQ_SEQ_NONE;
    return true;
}

static int read_file(aq_engine *e, const entry *f, uint32_t seq, const uint64_t *snap, aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    AQ_AUTOFD int fd = openat(e->park->fd, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint8_t sum[32], want[32];
    head h;
    int rc = 0;
    if (fd < 0 || !sha || aq_sha256_add(sha, &f->h, sizeof f->h) < 0 ||
        aq_sha256_add(sha, f->tok, f->h.n_tok * sizeof *f->tok) < 0)
        rc = aq_fail(err, AQ_E_IO, "opening: %s", fd < 0 ? strerror(errno) : "out of memory");
    else if (!read_all(fd, &h, sizeof h) || memcmp(&h, &f->h, sizeof h) ||
             lseek(fd, (off_t)(sizeof h + 4 * (uint64_t)h.n_tok), SEEK_SET) < 0)
        rc = aq_fail(err, AQ_E_IO, "it has changed or cannot be read");
    stream in = {.fd = fd, .sha = sha, .left = f->h.bytes};
    if (rc == 0)
        rc = aq_stage_local_io(e->set.stage[0], true, seq, f->h.n_tok, snap, f->h.snap_tok,
                               f->h.n_snap, load_io, &in, err);
    if (rc >= 0 && (in.left || !read_all(fd, want, sizeof want) || aq_sha256_end(sha, sum) < 0 ||
                    memcmp(want, sum, sizeof sum)))
        rc = aq_fail(err, AQ_E_FORMAT, "it is damaged");
    return rc;
}

/* The state of a file as a parked seq. */
static bool load(aq_engine *e, uint32_t i, uint32_t seq)
{
    aq_park *p = e->park;
    const entry *f = &p->file[i];
    aq_sseq *s = &e->seq[seq];
    uint64_t snap[SNAPS_MAX];
    uint32_t n_tok = f->h.n_tok;
    aq_err err = {0};

    if (!snap_ids(e, f->h.n_snap, snap))
        return false;
    AQ_AUTOFREE int32_t *log = malloc((n_tok + 1) * sizeof *log);
    int rc = log ? read_file(e, f, seq, snap, &err) : -AQ_E_NOMEM;
    if (rc >= 0 && aq_pages_take(e, s, n_tok) < 0)
        rc = aq_fail(&err, AQ_E_NOMEM, "out of memory");
    if (rc < 0) {
        (void)!aq_engine_op(e, AQ_OP_KEEP, seq, 0, 0);
        (void)!aq_engine_op(e, AQ_OP_FREE, seq, 0, 0);
        aq_log(AQ_LOG_WARN, "engine", "parked chat %s passed over: %s", f->name, err.text);
        forget(p, i, rc == -AQ_E_FORMAT);
        return false;
    }
    memcpy(log, f->tok, n_tok * sizeof *log);
    s->log = (aq_toks){.id = AQ_STEAL(log), .n = n_tok, .cap = n_tok + 1};
    s->state = AQ_SEQ_PARKED;
    s->secret = false;
    s->n_sub = s->n_done = n_tok;
    s->used = ++e->turn;
    for (uint32_t k = 0; k < f->h.n_snap; k++)
        e->set.snap[snap[k]] = (aq_snap){seq, f->h.snap_tok[k], ++e->turn};
    touch(p, i);
    aq_log(AQ_LOG_INFO, "engine", "fetched tok=%u", n_tok);
    return true;
}

/* n pages and a seq could be had if all parked chats went. */
static bool could_fit(const aq_engine *e, uint32_t n)
{
    uint32_t live = 0;
    bool slot = false;

    for (uint32_t i = 0; i < e->set.max_seq; i++) {
        const aq_sseq *s = &e->seq[i];
        bool runs = s->state == AQ_SEQ_LIVE || s->state == AQ_SEQ_DRAIN;
        live += runs ? s->n_page : 0;
        slot |= !runs;
    }
    return slot && live < e->set.n_page && n <= e->set.n_page - live;
}

bool aq_park_fetch(aq_engine *e, const aq_toks *t, uint32_t known)
{
    aq_park *p = e->park;
    uint32_t best = UINT32_MAX, n = known + AQ_TAKE_TAIL_TOK, id;
    char name[48];

    for (uint32_t i = 0; p && i < p->n; i++) {
        uint32_t k = p->file[i].ours ? usable(e, &p->file[i], t) : 0;
        if (k > n) {
            best = i;
            n = k;
        }
    }
    if (best == UINT32_MAX || !at_rest(e))
        return false;
    memcpy(name, p->file[best].name, sizeof name);
    uint32_t need = aq_page_need(p->file[best].h.n_tok);
    if (!could_fit(e, need))
        return false;
    while ((id = aq_seq_unused(e)) == AQ_SEQ_NONE || need > e->set.n_page - e->pages_used)
        if (!aq_prefix_evict(e, AQ_SEQ_NONE)) /* may write a file, for which others go */
            return false;
    best = find(p, name);
    return best < p->n && p->file[best].ours && at_rest(e) && load(e, best, id);
}
