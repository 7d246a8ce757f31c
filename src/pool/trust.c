/* SPDX-License-Identifier: Apache-2.0 */
/* Whom this PC trusts: its identity, the pool's secret and the roster, in memory under one lock and
 * on disk. Any thread.
 *
 * Files of the folder: identity.crt, identity-key and pool-secret (through the secret store), roster; name, once
 * the PC was given one (one line).
 *
 *   pool-secret   "aquifer-secret 1\n" | "epoch N HEX64\n" once, or twice while the epoch changes
 *
 * Two processes may have the folder open; write_begin keeps their writing apart.
 * Raising the epoch writes both secrets, then the roster under the new one, then the new secret
 * alone. Whatever is cut short, the roster on disk has its secret beside it. */
#include "member-priv.h"
#include "trust-priv.h"
#include "wire-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROSTER_FILE "roster"
#define NAME_FILE "name"
#define SECRET_NAME "pool-secret"
#define SECRET_HEAD "aquifer-secret 1\n"

struct aq_trust {
    pthread_mutex_t lock;
    char *dir;
    aq_secret_store store;
    aq_identity me;
    int hold_fd;   /* the folder's lock, -1 = not held */
    uint16_t port; /* under lock, as all below: what the lock says, as is socket */
    char socket[108];
    char name[AQ_NAME_MAX + 1];
    bool in_pool, named; /* named: name is in its file */
    bool foreign; /* during a change: the files are another process's, this memory alone changes */
    uint8_t secret[AQ_SECRET_BYTES];
    aq_roster roster;
};

static void trust_lock(const aq_trust *t)
{
    pthread_mutex_lock(&((aq_trust *)t)->lock);
}

static void trust_unlock(const aq_trust *t)
{
    pthread_mutex_unlock(&((aq_trust *)t)->lock);
}

/* ---- the default store ----------------------------------------------------------------------- */

static int file_load(void *self, const char *name, uint8_t *ret, size_t cap, size_t *ret_n,
                     aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0};
    int rc = aq_file_read(self, name, cap, true, &b, err);

    if (rc < 0)
        return rc;
    if (rc == 1 && b.n > 0)
        memcpy(ret, b.p, b.n);
    *ret_n = rc == 1 ? b.n : 0;
    return AQ_OK;
}

static int file_save(void *self, const char *name, const uint8_t *p, size_t n, aq_err *err)
{
    return n > 0 ? aq_file_write(self, name, p, n, err) : aq_file_remove(self, name, err);
}

/* ---- secret and roster on disk --------------------------------------------------------------- */

typedef struct epoch_secret {
    uint32_t epoch;
    uint8_t secret[AQ_SECRET_BYTES];
} epoch_secret;

static int save_secrets(aq_trust *t, const epoch_secret *s, unsigned n, aq_err *err)
{
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof text, SECRET_HEAD);

    for (unsigned i = 0; i < n; i++) {
        char hex[65];
        aq_hex(s[i].secret, AQ_SECRET_BYTES, hex);
        used += (size_t)snprintf(text + used, sizeof text - used, "epoch %u %s\n", s[i].epoch, hex);
        aq_mem_wipe(hex, sizeof hex);
    }
    int rc = t->store.save(t->store.self, SECRET_NAME, (uint8_t *)text, used, err);
    aq_mem_wipe(text, sizeof text);
    return rc;
}

/* Of the secrets stored, the one of this epoch: 1, or 0. */
static int load_secret(aq_trust *t, uint32_t epoch, uint8_t ret[AQ_SECRET_BYTES], aq_err *err)
{
    uint8_t raw[AQ_SECRET_FILE_MAX + 1] = {0};
    size_t n = 0, head = strlen(SECRET_HEAD);
    int rc = t->store.load(t->store.self, SECRET_NAME, raw, AQ_SECRET_FILE_MAX, &n, err);

    if (rc < 0)
        goto out;
    rc = 0;
    if (n == 0)
        goto out;
    if (n < head || memcmp(raw, SECRET_HEAD, head) != 0) {
        rc = aq_fail(err, AQ_E_FORMAT,
                     "the pool's secret is damaged or was written by a later version of Aquifer");
        goto out;
    }
    for (char *p = (char *)raw + head, *end; (end = strchr(p, '\n')); p = end + 1) {
        aq_kv kv;
        char line[128], num[12];
        /* "epoch N HEX" read as two keys, by the parser that is tested */
        int len = (int)(end - p), k = 6;
        while (k < len && p[k] != ' ')
            k++;
        if (len < 8 || memcmp(p, "epoch ", 6) != 0 || k - 6 > 10 || k >= len)
            continue;
        snprintf(num, sizeof num, "%.*s", k - 6, p + 6);
        int n_line = snprintf(line, sizeof line, "n=%s\ns=%.*s\n", num, len - k - 1, p + k + 1);
        uint64_t x;
        if (n_line > 0 && (size_t)n_line < sizeof line &&
            aq_kv_parse(line, (size_t)n_line, &kv, NULL) == 0 &&
            aq_kv_u64(&kv, "n", true, UINT32_MAX, &x, NULL) == 1 && x == epoch &&
            aq_kv_hex(&kv, "s", true, ret, AQ_SECRET_BYTES, NULL) == 1)
            rc = 1;
        aq_mem_wipe(line, sizeof line);
        if (rc == 1)
            break;
    }
out:
    aq_mem_wipe(raw, sizeof raw);
    return rc;
}

static int save_roster(aq_trust *t, const aq_roster *r, const uint8_t *secret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = aq_roster_print(r, secret, false, &b, err);

    return rc < 0 ? rc : aq_file_write(t->dir, ROSTER_FILE, b.p, b.n, err);
}

/* Files that cannot be read say where they are and what to do. */
static int with_way_out(const aq_trust *t, int rc, const char *files, aq_err *err)
{
    char why[240];

    if (!err || (rc != -AQ_E_FORMAT && rc != -AQ_E_LIMIT && rc != -AQ_E_UNSUPPORTED))
        return rc;
    snprintf(why, sizeof why, "%.239s", err->text);
    return aq_fail(err, -rc, "%s: %s (update Aquifer, or remove %s there and pair this PC again)",
                   t->dir, why, files);
}

static int read_pool(aq_trust *t, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint32_t epoch = 0;
    int rc = aq_file_read(t->dir, ROSTER_FILE, AQ_WIRE_CTL_MAX, false, &b, err);

    if (rc <= 0)
        return rc;
    if ((rc = aq_roster_peek_epoch((char *)b.p, b.n, &epoch, err)) < 0)
        return rc;
    if ((rc = load_secret(t, epoch, t->secret, err)) < 0)
        return rc;
    if (rc == 0)
        return aq_fail(err, AQ_E_AUTH,
                       "the secret of this PC's pool is lost: remove %s/%s and pair this PC again",
                       t->dir, ROSTER_FILE);
    if ((rc = aq_roster_parse((char *)b.p, b.n, false, t->secret, &t->roster, err)) < 0)
        return rc == -AQ_E_AUTH ? aq_err_prefix(err, rc, "%s/%s", t->dir, ROSTER_FILE) : rc;
    t->in_pool = true;
    return AQ_OK;
}

static int load_pool(aq_trust *t, aq_err *err)
{
    return with_way_out(t, read_pool(t, err), "roster and pool-secret", err);
}

/* Under lock: write r (of the same epoch) and make it the one in memory. */
static int commit(aq_trust *t, const aq_roster *r, aq_err *err)
{
    int rc = t->foreign ? AQ_OK : save_roster(t, r, t->secret, err);

    if (rc == AQ_OK)
        t->roster = *r;
    return rc;
}

/* Under lock: write r under another secret and make both the ones in memory. */
static int commit_secret(aq_trust *t, const aq_roster *r, const uint8_t *secret, aq_err *err)
{
    epoch_secret s[2] = {{.epoch = r->epoch}, {.epoch = t->roster.epoch}};
    unsigned n = t->in_pool && t->roster.epoch != r->epoch ? 2 : 1;
    int rc;

    memcpy(s[0].secret, secret, AQ_SECRET_BYTES);
    memcpy(s[1].secret, t->secret, AQ_SECRET_BYTES);
    rc = t->foreign ? AQ_OK : save_secrets(t, s, n, err);
    if (rc == AQ_OK && (t->foreign || (rc = save_roster(t, r, secret, err)) == AQ_OK)) {
        memcpy(t->secret, secret, AQ_SECRET_BYTES);
        t->roster = *r;
        t->in_pool = true;
        if (n == 2 && !t->foreign && save_secrets(t, s, 1, NULL) < 0)
            aq_log(AQ_LOG_WARN, "pool", "old_secret=kept epoch=%u", s[1].epoch);
    }
    aq_mem_wipe(s, sizeof s);
    return rc;
}

/* ---- one writer ------------------------------------------------------------------------------ */

static int load_name(aq_trust *t, aq_err *err);

/* Under lock: what is on disk now. On failure the memory is as it was. */
static int reload(aq_trust *t, aq_err *err)
{
    uint8_t secret[AQ_SECRET_BYTES];
    bool was = t->in_pool;

    memcpy(secret, t->secret, sizeof secret);
    t->in_pool = false;
    int rc = load_name(t, err);
    rc = rc < 0 ? rc : load_pool(t, err);
    if (rc < 0) {
        t->in_pool = was;
        memcpy(t->secret, secret, sizeof secret);
    }
    aq_mem_wipe(secret, sizeof secret);
    return rc;
}

/* Under lock: the folder is locked while its files change (ret_fd: close it), and who does not hold it (aq_trust_hold)
 * begins with what is on disk. When another process holds it, a change by_hand is BUSY, and one that came from
 * another PC stays in this memory: the holder gets it from there, too. */
static int write_begin(aq_trust *t, bool by_hand, int *ret_fd, aq_err *err)
{
    aq_holder who = {0};
    int rc = AQ_OK, fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return aq_fail_errno(err, errno, "%s", t->dir);
    *ret_fd = fd; /* closed by the caller in any case */
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return aq_fail_errno(err, errno, "the lock of %s", t->dir);
    t->foreign = false;
    if (t->hold_fd >= 0)
        return AQ_OK;
    if ((rc = aq_lock_read(t->dir, &who, err)) < 0)
        return rc;
    t->foreign = rc == 1;
    if (t->foreign)
        return by_hand ? aq_lock_busy(&who, err) : AQ_OK;
    rc = reload(t, err);
    return rc < 0 ? rc : AQ_OK;
}

/* Under lock. */
static void self_entry(const aq_trust *t, aq_member *ret)
{
    *ret = (aq_member){.id = t->me.id, .perms = AQ_PERM_ALL};
    memcpy(ret->name, t->name, sizeof ret->name);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Text for people, of at most AQ_NAME_MAX bytes, without control characters; cut at a letter. */
static void clean_name(const char *name, char ret[AQ_NAME_MAX + 1])
{
    size_t out = 0, n = strlen(name);

    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool bad = false;
        uint32_t took = aq_utf8_next(name + i, n - i, &cp, &bad);

        if (out + took > AQ_NAME_MAX)
            break;
        if (!bad && cp >= 0x20 && cp != 0x7f) {
            memcpy(ret + out, name + i, took);
            out += took;
        }
        i += took;
    }
    ret[out] = 0;
}

/* The name that this PC was given, if it was: into t->name. */
static int load_name(aq_trust *t, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    char name[AQ_NAME_MAX + 1] = {0};
    int rc = aq_file_read(t->dir, NAME_FILE, 4 * AQ_NAME_MAX, false, &b, err);

    if (rc <= 0)
        return rc;
    const char *text = aq_bytes_str(&b);
    if (!text)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the name of this PC");
    clean_name(text, name);
    t->named = name[0] != 0;
    if (t->named)
        memcpy(t->name, name, sizeof name);
    return AQ_OK;
}

int aq_trust_open(const char *dir, const char *name, const aq_secret_store *store, aq_trust **ret,
                  aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool's state");
    t->hold_fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    if (!(t->dir = strdup(dir)))
        return aq_fail(err, AQ_E_NOMEM, "no memory for the pool's state");
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return aq_fail_errno(err, errno, "%s", dir);
    t->store = store ? *store : (aq_secret_store){t->dir, file_load, file_save};
    clean_name(name, t->name);
    if (!t->name[0])
        snprintf(t->name, sizeof t->name, "PC");
    if ((rc = load_name(t, err)) < 0)
        return rc;
    if ((rc = aq_identity_open(t->dir, &t->store, &t->me, err)) < 0)
        return with_way_out(t, rc, "identity.crt and identity-key", err);
    if ((rc = load_pool(t, err)) < 0)
        return rc;
    *ret = AQ_STEAL(t);
    return AQ_OK;
}

void aq_trust_free(aq_trust *t)
{
    if (!t)
        return;
    aq_identity_clear(&t->me);
    aq_fd_close_p(&t->hold_fd);
    free(t->dir);
    pthread_mutex_destroy(&t->lock);
    aq_mem_wipe(t, sizeof *t);
    free(t);
}

int aq_trust_hold(aq_trust *t, aq_err *err)
{
    int rc = AQ_OK;

    trust_lock(t);
    if (t->hold_fd < 0 && (rc = aq_lock_take(t->dir, &t->hold_fd, err)) == AQ_OK) {
        AQ_AUTOFD int fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
            ; /* who was writing when the lock was taken ends first */
        if ((rc = reload(t, err)) < 0)
            aq_fd_close_p(&t->hold_fd);
    }
    trust_unlock(t);
    return rc < 0 ? rc : AQ_OK;
}

int aq_trust_refresh(aq_trust *t, aq_err *err)
{
    AQ_AUTOFD int fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? aq_fail_errno(err, errno, "%s", t->dir) : AQ_OK;

    trust_lock(t);
    while (rc >= 0 && flock(fd, LOCK_EX) < 0) /* no file is half of a change */
        if (errno != EINTR)
            rc = aq_fail_errno(err, errno, "the lock of %s", t->dir);
    if (rc >= 0 && t->hold_fd < 0)
        rc = reload(t, err);
    trust_unlock(t);
    return rc < 0 ? rc : AQ_OK;
}

/* Under lock: for those who find it taken. */
static int say(aq_trust *t, aq_err *err)
{
    return t->hold_fd < 0 ? aq_fail(err, AQ_E_INVAL, "the pool's state is not held")
                          : aq_lock_say(t->hold_fd, t->port, t->socket, err);
}

int aq_trust_hold_port(aq_trust *t, uint16_t port, aq_err *err)
{
    trust_lock(t);
    t->port = port;
    int rc = say(t, err);
    trust_unlock(t);
    return rc;
}

int aq_trust_hold_socket(aq_trust *t, const char *path, aq_err *err)
{
    trust_lock(t);
    snprintf(t->socket, sizeof t->socket, "%s", path);
    int rc = say(t, err);
    trust_unlock(t);
    return rc;
}

const char *aq_trust_dir(const aq_trust *t)
{
    return t->dir;
}

const aq_id *aq_trust_id(const aq_trust *t)
{
    return &t->me.id;
}

const aq_identity *aq_trust_identity(const aq_trust *t)
{
    return &t->me;
}

void aq_trust_name(const aq_trust *t, char ret[AQ_NAME_MAX + 1])
{
    trust_lock(t);
    memcpy(ret, t->name, sizeof t->name);
    trust_unlock(t);
}

void aq_trust_cred(const aq_trust *t, aq_cred *ret)
{
    trust_lock(t);
    *ret = (aq_cred){.in_pool = t->in_pool};
    memcpy(ret->name, t->name, sizeof ret->name);
    if (t->in_pool) {
        memcpy(ret->pool, t->roster.pool, sizeof ret->pool);
        memcpy(ret->secret, t->secret, sizeof ret->secret);
        ret->epoch = t->roster.epoch;
        ret->version = t->roster.version;
    }
    trust_unlock(t);
}

int aq_trust_roster(const aq_trust *t, aq_roster *ret)
{
    trust_lock(t);
    int in = t->in_pool;
    if (in && ret)
        *ret = t->roster;
    trust_unlock(t);
    return in;
}

int aq_trust_perms(const aq_trust *t, const aq_id *id)
{
    trust_lock(t);
    aq_member *m = t->in_pool ? aq_roster_find(&((aq_trust *)t)->roster, id) : NULL;
    int perms = m ? (int)m->perms : -1;
    trust_unlock(t);
    return perms;
}

int aq_trust_secret_text(const aq_trust *t, char ret[AQ_SECRET_TEXT_MAX], aq_err *err)
{
    int rc = AQ_OK;

    trust_lock(t);
    if (t->in_pool)
        aq_secret_to_text(t->secret, ret);
    else
        rc = aq_fail(err, AQ_E_AUTH, "this PC is in no pool: turn the pool on first");
    trust_unlock(t);
    return rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Runs fn on a copy of the roster under the lock, and writes it when fn returned 1. by_hand: as of write_begin. */
static int change(aq_trust *t, bool by_hand,
                  int (*fn)(aq_trust *, aq_roster *, const void *arg, aq_err *), const void *arg,
                  aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    AQ_AUTOFD int fd = -1;
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    trust_lock(t);
    if ((rc = write_begin(t, by_hand, &fd, err)) < 0) {
        /* told */
    } else if (!t->in_pool) {
        rc = aq_fail(err, AQ_E_AUTH, "this PC is in no pool");
    } else {
        *r = t->roster;
        if ((rc = fn(t, r, arg, err)) == 1) {
            int written = commit(t, r, err);
            rc = written < 0 ? written : 1;
        }
    }
    trust_unlock(t);
    return rc;
}

static int not_member(aq_err *err)
{
    return aq_fail(err, AQ_E_INVAL, "that PC is not a member of this pool");
}

int aq_trust_set_name(aq_trust *t, const char *name, aq_err *err)
{
    char clean[AQ_NAME_MAX + 1] = {0};
    int rc = AQ_OK;

    clean_name(name, clean);
    if (!clean[0])
        return aq_fail(err, AQ_E_INVAL, "a PC's name has at least one letter");
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    AQ_AUTOFD int fd = -1;
    aq_member *m = NULL;
    trust_lock(t);
    rc = write_begin(t, true, &fd, err);
    if (rc == AQ_OK && t->in_pool) {
        *r = t->roster;
        m = aq_roster_find(r, &t->me.id);
    }
    if (rc == AQ_OK && (!t->named || strcmp(t->name, clean) != 0))
        rc = aq_file_write(t->dir, NAME_FILE, clean, strlen(clean), err);
    if (rc == AQ_OK && m && strcmp(m->name, clean) != 0) {
        memcpy(m->name, clean, sizeof clean);
        r->version++;
        rc = commit(t, r, err);
    }
    if (rc == AQ_OK) {
        memcpy(t->name, clean, sizeof clean);
        t->named = true;
    }
    trust_unlock(t);
    return rc;
}

typedef struct perms_arg {
    const aq_id *id;
    uint32_t perms;
    const char *addr;
} perms_arg;

static int do_perms(aq_trust *t, aq_roster *r, const void *arg, aq_err *err)
{
    const perms_arg *a = arg;
    aq_member *m = aq_roster_find(r, a->id);

    if (!m)
        return not_member(err);
    m->perms = a->perms;
    return 1;
}

int aq_trust_set_perms(aq_trust *t, const aq_id *id, uint32_t perms, aq_err *err)
{
    if (perms & ~(uint32_t)AQ_PERM_ALL)
        return aq_fail(err, AQ_E_INVAL, "there are no permissions %x", perms);
    int rc = change(t, true, do_perms, &(perms_arg){.id = id, .perms = perms}, err);
    return rc < 0 ? rc : AQ_OK;
}

static int do_addr(aq_trust *t, aq_roster *r, const void *arg, aq_err *err)
{
    const perms_arg *a = arg;
    aq_member *m = aq_roster_find(r, a->id);
    uint32_t at = 0;

    if (!m)
        return not_member(err);
    while (at < m->n_addr && strcmp(m->addr[at], a->addr) != 0)
        at++;
    if (at == 0 && m->n_addr > 0)
        return 0;
    at = AQ_MIN(at, AQ_ADDRS_MAX - 1); /* new and full: the last is forgotten */
    if (at == m->n_addr)
        m->n_addr++;
    memmove(m->addr[1], m->addr[0], at * sizeof m->addr[0]);
    snprintf(m->addr[0], sizeof m->addr[0], "%s", a->addr);
    return 1;
}

int aq_trust_set_addr(aq_trust *t, const aq_id *id, const char *addr, aq_err *err)
{
    size_t n = strlen(addr);

    if (n == 0 || n > AQ_ADDR_MAX ||
        strspn(addr, "0123456789abcdefghijklmnopqrstuvwxyz"
                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_[]:%") != n)
        return aq_fail(err, AQ_E_INVAL, "'%s' is not an address", addr);
    int rc = change(t, false, do_addr, &(perms_arg){.id = id, .addr = addr}, err);
    return rc < 0 ? rc : AQ_OK;
}

static int do_add(aq_trust *t, aq_roster *r, const void *arg, aq_err *err)
{
    const aq_member *m = arg;
    int rc = aq_roster_put(r, m, err);

    r->version++;
    return rc < 0 ? rc : 1;
}

int aq_trust_add(aq_trust *t, const aq_member *m, aq_err *err)
{
    int rc = change(t, true, do_add, m, err);

    return rc < 0 ? rc : AQ_OK;
}

int aq_trust_create(aq_trust *t, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    uint8_t secret[AQ_SECRET_BYTES];
    aq_member me;
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    if ((rc = aq_random(secret, sizeof secret, err)) < 0 ||
        (rc = aq_random(r->pool, sizeof r->pool, err)) < 0)
        return rc;
    r->epoch = 1;
    r->version = 1;
    AQ_AUTOFD int fd = -1;
    trust_lock(t);
    if ((rc = write_begin(t, true, &fd, err)) < 0) {
        /* told */
    } else if (t->in_pool) {
        rc = aq_fail(err, AQ_E_BUSY, "this PC is in a pool already: leave it first");
    } else {
        self_entry(t, &me);
        if ((rc = aq_roster_put(r, &me, err)) == AQ_OK)
            rc = commit_secret(t, r, secret, err);
    }
    trust_unlock(t);
    aq_mem_wipe(secret, sizeof secret);
    return rc;
}

int aq_trust_remove(aq_trust *t, const aq_id *id, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    uint8_t secret[AQ_SECRET_BYTES];
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    if (aq_id_equal(id, &t->me.id))
        return aq_fail(err, AQ_E_INVAL, "this PC cannot be removed from itself: leave the pool");
    if ((rc = aq_random(secret, sizeof secret, err)) < 0)
        return rc;
    AQ_AUTOFD int fd = -1;
    trust_lock(t);
    rc = write_begin(t, true, &fd, err);
    *r = t->roster;
    if (rc < 0) {
        /* told */
    } else if (!t->in_pool || !aq_roster_drop(r, id)) {
        rc = not_member(err);
    } else if (r->epoch == UINT32_MAX) {
        rc = aq_fail(err, AQ_E_LIMIT, "this pool has changed too often: make a new one");
    } else {
        r->epoch++;
        r->version = 1;
        rc = commit_secret(t, r, secret, err);
    }
    trust_unlock(t);
    aq_mem_wipe(secret, sizeof secret);
    return rc;
}

int aq_trust_leave(aq_trust *t, aq_err *err)
{
    AQ_AUTOFD int fd = -1;
    int rc;

    trust_lock(t);
    if ((rc = write_begin(t, true, &fd, err)) == AQ_OK &&
        (rc = aq_file_remove(t->dir, ROSTER_FILE, err)) == AQ_OK) {
        /* Without its roster a secret is in no use, so a failure here leaves no half pool. */
        rc = t->store.save(t->store.self, SECRET_NAME, NULL, 0, err);
        aq_mem_wipe(t->secret, sizeof t->secret);
        t->roster = (aq_roster){0};
        t->in_pool = false;
    }
    trust_unlock(t);
    return rc;
}

/* ---- from other PCs -------------------------------------------------------------------------- */

/* Under lock: what this PC alone knows of the members of r, and this PC itself. */
static int fill_own(aq_trust *t, aq_roster *r, aq_err *err)
{
    aq_member me;

    for (uint32_t i = 0; i < r->n; i++) {
        const aq_member *old = t->in_pool ? aq_roster_find(&t->roster, &r->m[i].id) : NULL;
        r->m[i].perms = old ? old->perms : AQ_PERM_DEFAULT;
        if (old && old->n_addr > 0) {
            r->m[i].n_addr = old->n_addr;
            memcpy(r->m[i].addr, old->addr, sizeof old->addr);
        }
    }
    self_entry(t, &me);
    return aq_roster_put(r, &me, err);
}

int aq_trust_adopt(aq_trust *t, const uint8_t pool[16], uint32_t epoch,
                   const uint8_t secret[AQ_SECRET_BYTES], const char *shared, size_t n, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    if ((rc = aq_roster_parse(shared, n, true, secret, r, err)) < 0)
        return rc;
    if (memcmp(r->pool, pool, sizeof r->pool) != 0 || r->epoch != epoch)
        return aq_fail(err, AQ_E_MISMATCH, "the roster is of another pool than was said");
    AQ_AUTOFD int fd = -1;
    trust_lock(t);
    if ((rc = write_begin(t, true, &fd, err)) < 0)
        ; /* told */
    else if (t->in_pool)
        rc = aq_fail(err, AQ_E_BUSY, "this PC is in a pool already: leave it first");
    else if ((rc = fill_own(t, r, err)) == AQ_OK)
        rc = commit_secret(t, r, secret, err);
    trust_unlock(t);
    return rc;
}

int aq_trust_join(aq_trust *t, const uint8_t pool[16], uint32_t epoch,
                  const uint8_t secret[AQ_SECRET_BYTES], const aq_member *first, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    memcpy(r->pool, pool, sizeof r->pool);
    r->epoch = epoch;
    if ((rc = aq_roster_put(r, first, err)) < 0)
        return rc;
    AQ_AUTOFD int fd = -1;
    trust_lock(t);
    if ((rc = write_begin(t, true, &fd, err)) < 0)
        ; /* told */
    else if (t->in_pool)
        rc = aq_fail(err, AQ_E_BUSY, "this PC is in a pool already: leave it first");
    else if ((rc = fill_own(t, r, err)) == AQ_OK)
        rc = commit_secret(t, r, secret, err);
    trust_unlock(t);
    return rc;
}

int aq_trust_rekey(aq_trust *t, uint32_t epoch, const uint8_t secret[AQ_SECRET_BYTES],
                   const char *shared, size_t n, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    int rc;

    if (!r)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    if ((rc = aq_roster_parse(shared, n, true, secret, r, err)) < 0)
        return rc;
    AQ_AUTOFD int fd = -1;
    trust_lock(t);
    if ((rc = write_begin(t, false, &fd, err)) < 0)
        ; /* told */
    else if (!t->in_pool || memcmp(r->pool, t->roster.pool, sizeof r->pool) != 0 ||
             r->epoch != epoch)
        rc = aq_fail(err, AQ_E_MISMATCH, "the new secret is of another pool");
    else if (epoch <= t->roster.epoch)
        rc = aq_fail(err, AQ_E_MISMATCH, "the new secret is not newer than the one in use");
    else if (!aq_roster_find(r, &t->me.id))
        rc = aq_fail(err, AQ_E_AUTH, "this PC is not in the new roster");
    else if ((rc = fill_own(t, r, err)) == AQ_OK)
        rc = commit_secret(t, r, secret, err);
    trust_unlock(t);
    return rc;
}

/* Within an epoch members are only ever added, so two rosters join to their union; who is in both is
 * as the higher version has it. */
static int do_merge(aq_trust *t, aq_roster *r, const void *arg, aq_err *err)
{
    const aq_roster *got = arg;
    bool added = false, missing = false;
    int rc;

    if (memcmp(got->pool, r->pool, sizeof r->pool) != 0 || got->epoch != r->epoch)
        return aq_fail(err, AQ_E_MISMATCH, "the roster is of another pool or epoch");
    for (uint32_t i = 0; i < got->n; i++) {
        aq_member m = got->m[i];
        aq_member *old = aq_roster_find(r, &m.id);

        if (old && (got->version <= r->version || aq_id_equal(&m.id, &t->me.id)))
            continue;
        m.perms = old ? old->perms : AQ_PERM_DEFAULT;
        if (old && old->n_addr > 0) {
            m.n_addr = old->n_addr;
            memcpy(m.addr, old->addr, sizeof m.addr);
        }
        added = added || !old;
        if ((rc = aq_roster_put(r, &m, err)) < 0)
            return rc;
    }
    for (uint32_t i = 0; i < r->n; i++)
        missing = missing || !aq_roster_find((aq_roster *)got, &r->m[i].id);
    if (!added && got->version <= r->version)
        return 0;
    r->version = AQ_MAX(r->version, got->version);
    r->version += missing && r->version < UINT64_MAX / 2; /* the most that a roster says */
    return 1;
}

int aq_trust_merge(aq_trust *t, const char *shared, size_t n, aq_err *err)
{
    AQ_AUTOFREE aq_roster *got = malloc(sizeof *got);
    aq_cred c;
    int rc;

    if (!got)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    aq_trust_cred(t, &c);
    rc = aq_roster_parse(shared, n, true, c.secret, got, err);
    aq_mem_wipe(&c, sizeof c);
    return rc < 0 ? rc : change(t, false, do_merge, got, err);
}

int aq_trust_share(const aq_trust *t, aq_bytes *ret, aq_err *err)
{
    int rc;

    trust_lock(t);
    rc = t->in_pool ? aq_roster_print(&t->roster, t->secret, true, ret, err)
                    : aq_fail(err, AQ_E_AUTH, "this PC is in no pool");
    trust_unlock(t);
    return rc;
}
