/* SPDX-License-Identifier: Apache-2.0 */
/* Identity, pool secret and roster: made once, found again, private, refused when damaged, and whole
 * after a write that failed at any point. */
#include "tap.h"
#include "torture.h"
#include "trust-priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[256];

static const char *folder(const char *name)
{
    static char path[2][512];
    static int k;

    k = !k;
    snprintf(path[k], sizeof path[k], "%s/%s", top, name);
    return path[k];
}

static aq_trust *open_trust(const char *name, aq_err *err)
{
    aq_trust *t = NULL;
    int rc = aq_trust_open(folder(name), name, NULL, &t, err);

    return rc < 0 ? NULL : t;
}

static void put_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        ok(false, "could not write %s", path);
    if (fd >= 0)
        close(fd);
}

static void test_identity(void)
{
    aq_err err = {0};
    char path[600];
    struct stat st;
    aq_id first;

    AQ_AUTO(aq_trust_free) aq_trust *t = open_trust("id", &err);
    if (!ok(t, "an identity is made: %s", err.text))
        return;
    first = *aq_trust_id(t);
    snprintf(path, sizeof path, "%s", folder("id"));
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700, "the folder is private");
    static const char *const files[] = {"identity-key", "identity.crt"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder("id"), files[i]);
        ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "%s is private", files[i]);
    }
    AQ_AUTO(aq_trust_free) aq_trust *again = open_trust("id", &err);
    ok(again && aq_id_equal(aq_trust_id(again), &first), "it is found again");
    AQ_AUTO(aq_trust_free) aq_trust *other = open_trust("id2", &err);
    ok(other && !aq_id_equal(aq_trust_id(other), &first), "another PC has another");

    snprintf(path, sizeof path, "%s/identity.crt", folder("id"));
    unlink(path);
    AQ_AUTO(aq_trust_free) aq_trust *renewed = open_trust("id", &err);
    ok(renewed && aq_id_equal(aq_trust_id(renewed), &first),
       "a new certificate for the same key is the same PC");

    snprintf(path, sizeof path, "%s/identity-key", folder("id"));
    chmod(path, 0640);
    err = (aq_err){0};
    ok(!open_trust("id", &err) && err.code == AQ_E_AUTH && strstr(err.text, "chmod 600"),
       "a key others may read: %s", err.text);
    put_file(folder("id"), "identity-key", "aquifer-key 2\n", 0600);
    ok(!open_trust("id", &err) && err.code == AQ_E_FORMAT && strstr(err.text, "later version"),
       "a later key: %s", err.text);
    put_file(folder("id"), "identity-key", "aquifer-key 1\nrubbish\n", 0600);
    ok(!open_trust("id", &err) && err.code == AQ_E_FORMAT, "a damaged key: %s", err.text);
    unlink(path);
    ok(!open_trust("id", &err) && err.code == AQ_E_AUTH && strstr(err.text, "lost"),
       "a lost key: %s", err.text);
}

static aq_member member(uint8_t fill, const char *name)
{
    aq_member m = {.perms = 3};

    memset(m.id.b, fill, 32);
    snprintf(m.name, sizeof m.name, "%s", name);
    return m;
}

static void test_roster(void)
{
    static const uint8_t secret[32] = "a secret of thirty-two bytes ..", other[32] = "another";
    static aq_roster r, got;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0}, s = {0};
    aq_err err = {0};
    aq_member m = member(9, "J\xc3\xbcrgen; the = 100% PC");

    r = (aq_roster){.epoch = 4, .version = 17};
    memset(r.pool, 0xab, 16);
    snprintf(m.addr[0], sizeof m.addr[0], "[fe80::1%%eth0]:7710");
    snprintf(m.addr[1], sizeof m.addr[1], "192.168.1.7:7710");
    m.n_addr = 2;
    snprintf(m.extra, sizeof m.extra, "gpu=yes later");
    ok(aq_roster_put(&r, &m, &err) == 0, "one member");
    m = member(3, "Laptop");
    ok(aq_roster_put(&r, &m, &err) == 0 && r.m[0].id.b[0] == 3, "another, in order of ids");
    ok(aq_roster_print(&r, secret, false, &b, &err) == 0 &&
           aq_roster_parse((char *)b.p, b.n, false, secret, &got, &err) == 0 &&
           memcmp(&r, &got, sizeof r) == 0,
       "there and back, whole: %s", err.text);
    ok(aq_roster_print(&r, secret, true, &s, &err) == 0 && !memchr(s.p, '\n', s.n) &&
           aq_roster_parse((char *)s.p, s.n, true, secret, &got, &err) == 0 && got.n == 2 &&
           got.m[0].perms == 0 && strcmp(got.m[1].name, r.m[1].name) == 0,
       "as a frame carries it: one line, no permissions");
    ok(aq_roster_parse((char *)b.p, b.n, false, other, &got, &err) == -AQ_E_AUTH,
       "another secret: %s", err.text);
    unsigned bad = 0, taken = 0;
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 1;
        int rc = aq_roster_parse((char *)b.p, b.n, false, secret, &got, &err);
        taken += rc == 0;
        bad +=
            rc != -AQ_E_AUTH && rc != -AQ_E_FORMAT && rc != -AQ_E_UNSUPPORTED && rc != -AQ_E_LIMIT;
        b.p[i] ^= 1;
    }
    ok(taken == 0 && bad == 0, "no bit of it can be changed");
    for (size_t n = 0; n < b.n; n++)
        taken += aq_roster_parse((char *)b.p, n, false, secret, &got, &err) == 0 && n + 1 < b.n;
    ok(taken == 0, "nor can it be cut");
    char later[] = "aquifer-roster 2\npool \n";
    ok(aq_roster_parse(later, strlen(later), false, secret, &got, &err) == -AQ_E_UNSUPPORTED,
       "a later format");

    r = (aq_roster){.epoch = 1, .version = 1};
    int rc = 0;
    for (unsigned i = 0; i < AQ_MEMBERS_MAX && rc == 0; i++) {
        m = member((uint8_t)(255 - i), "PC");
        rc = aq_roster_put(&r, &m, &err);
    }
    ok(rc == 0 && r.n == AQ_MEMBERS_MAX && r.m[0].id.b[0] < r.m[1].id.b[0],
       "as many members as there may be");
    m = member(1, "one more");
    ok(aq_roster_put(&r, &m, &err) == -AQ_E_LIMIT && r.n == AQ_MEMBERS_MAX, "one more: %s",
       err.text);
    m = member(255, "renamed");
    ok(aq_roster_put(&r, &m, &err) == 0 && r.n == AQ_MEMBERS_MAX, "one that is there is replaced");
    ok(aq_roster_drop(&r, &m.id) && r.n == AQ_MEMBERS_MAX - 1 && !aq_roster_drop(&r, &m.id),
       "dropped once");
}

static void test_secret_text(void)
{
    uint8_t s[32], got[32];
    char text[AQ_SECRET_TEXT_MAX], typed[200];
    unsigned bad = 0;
    aq_err err = {0};

    for (int i = 0; i < 32; i++)
        s[i] = (uint8_t)(i * 37 + 11);
    aq_secret_to_text(s, text);
    ok(strlen(text) == 69 && text[4] == '-' && aq_secret_from_text(text, got, &err) == 0 &&
           memcmp(s, got, 32) == 0,
       "56 letters in groups of four, and back");
    memset(s, 0, 32);
    aq_secret_to_text(s, text);
    /* SHA-256 of 32 zero bytes begins 66 68 7a */
    ok(strcmp(text, "0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-0000-CSM7") == 0,
       "of zeros: %s", text);
    snprintf(typed, sizeof typed, " oooo OOOO%s\n", text + 10);
    ok(aq_secret_from_text(typed, got, &err) == 0,
       "O is read as 0, spaces and dashes do not matter");
    for (size_t i = 0; i < strlen(text); i++) {
        char was = text[i];
        if (was == '-')
            continue;
        text[i] = was == 'Z' ? 'Y' : 'Z';
        bad += aq_secret_from_text(text, got, &err) != -AQ_E_FORMAT;
        text[i] = was;
    }
    ok(bad == 0, "any wrong letter is seen: %s", err.text);
    text[68] = 0;
    ok(aq_secret_from_text(text, got, &err) == -AQ_E_FORMAT &&
           aq_secret_from_text("", got, &err) == -AQ_E_FORMAT,
       "a letter too few, none");
}

static void test_pool(void)
{
    static aq_roster r, r2;
    aq_err err = {0};
    aq_cred c, c2;
    aq_member m = member(7, "Laptop");

    AQ_AUTO(aq_trust_free) aq_trust *t = open_trust("pool", &err);
    if (!ok(t && !aq_trust_roster(t, NULL) && aq_trust_perms(t, &m.id) == -1,
            "in no pool at first"))
        return;
    ok(aq_trust_add(t, &m, &err) == -AQ_E_AUTH, "nobody to add to: %s", err.text);
    ok(aq_trust_create(t, &err) == 0 && aq_trust_roster(t, &r) == 1 && r.n == 1 && r.epoch == 1 &&
           aq_id_equal(&r.m[0].id, aq_trust_id(t)),
       "a pool of its own: %s", err.text);
    ok(aq_trust_create(t, &err) == -AQ_E_BUSY, "no second one");
    ok(aq_trust_add(t, &m, &err) == 0 && aq_trust_perms(t, &m.id) == 3, "a member");
    ok(aq_trust_set_perms(t, &m.id, AQ_PERM_FILES, &err) == 0 &&
           aq_trust_perms(t, &m.id) == AQ_PERM_FILES &&
           aq_trust_set_perms(t, &m.id, 16, &err) == -AQ_E_INVAL,
       "permissions");
    bool good = true;
    for (int i = 0; i < 9; i++) {
        char a[32];
        snprintf(a, sizeof a, "10.0.0.%d:7710", i);
        good = good && aq_trust_set_addr(t, &m.id, a, &err) == 0;
    }
    good = good && aq_trust_set_addr(t, &m.id, "10.0.0.5:7710", &err) == 0;
    aq_trust_roster(t, &r);
    aq_member *e = aq_roster_find(&r, &m.id);
    ok(good && e && e->n_addr == 8 && strcmp(e->addr[0], "10.0.0.5:7710") == 0 &&
           strcmp(e->addr[1], "10.0.0.8:7710") == 0 && strcmp(e->addr[7], "10.0.0.1:7710") == 0,
       "eight addresses, the last that answered first");
    ok(aq_trust_set_addr(t, &m.id, "a;b", &err) == -AQ_E_INVAL, "no such address");
    ok(aq_trust_set_name(t, "Stu\ndio \xff PC", &err) == 0, "a name");
    aq_trust_cred(t, &c);
    ok(strcmp(c.name, "Studio  PC") == 0, "cleaned: %s", c.name);
    aq_trust *kept = open_trust("pool", &err); /* which says another one */
    aq_trust_cred(kept ? kept : t, &c2);
    ok(kept && strcmp(c2.name, "Studio  PC") == 0, "and kept: %s", c2.name);
    aq_trust_free(kept);
    aq_failpoint_set("pool-file-write", 1, 1);
    ok(aq_trust_set_name(t, "Other", &err) == -AQ_E_IO, "a full disk: %s", err.text);
    aq_failpoint_set("pool-file-write", 0, 0);
    aq_trust_cred(t, &c2);
    ok(strcmp(c2.name, "Studio  PC") == 0, "leaves the name as it was");

    AQ_AUTO(aq_trust_free) aq_trust *again = open_trust("pool", &err);
    aq_trust_roster(t, &r);
    ok(again && aq_trust_roster(again, &r2) == 1 && memcmp(&r, &r2, sizeof r) == 0,
       "all of it is found again: %s", err.text);
    aq_trust_cred(again, &c2);
    ok(memcmp(c.secret, c2.secret, 32) == 0 && c.epoch == c2.epoch, "its secret too");

    /* Removing raises the epoch; a write that fails anywhere leaves the old or the new state. */
    for (uint32_t n = 1; n <= 3; n++) {
        AQ_AUTO(aq_trust_free) aq_trust *u = open_trust("pool", &err);
        aq_failpoint_set("pool-file-write", n, 1);
        int rc = u ? aq_trust_remove(u, &m.id, &err) : -1;
        aq_failpoint_set("pool-file-write", 0, 0);
        AQ_AUTO(aq_trust_free) aq_trust *v = open_trust("pool", &err);
        bool removed = v && aq_trust_perms(v, &m.id) == -1;
        aq_trust_cred(v ? v : t, &c2);
        ok(v && u && removed == (rc == 0) && (aq_trust_perms(u, &m.id) == -1) == removed &&
               c2.epoch == (removed ? 2u : 1u) &&
               (memcmp(c.secret, c2.secret, 32) == 0) == !removed,
           "write %u failed: the member is %s, here and on disk", n,
           removed ? "removed" : "still there");
        if (n < 3)
            ok(!removed, "and the removal said so");
    }
    AQ_AUTO(aq_trust_free) aq_trust *w = open_trust("pool", &err);
    ok(w && aq_trust_remove(w, aq_trust_id(w), &err) == -AQ_E_INVAL, "nobody removes himself");
    ok(w && aq_trust_leave(w, &err) == 0 && !aq_trust_roster(w, NULL), "leaving");
    AQ_AUTO(aq_trust_free) aq_trust *x = open_trust("pool", &err);
    ok(x && !aq_trust_roster(x, NULL) && aq_id_equal(aq_trust_id(x), aq_trust_id(t)),
       "for good; the identity stays");
    ok(access(folder("pool/pool-secret"), F_OK) < 0, "no secret is left");
}

static void test_exchange(void)
{
    static aq_roster ra, rb;
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes s = {0}, s2 = {0};
    aq_err err = {0};
    aq_cred c, cb;
    AQ_AUTO(aq_trust_free) aq_trust *a = open_trust("a", &err), *b = open_trust("b", &err);

    if (!ok(a && b && aq_trust_create(a, &err) == 0, "two PCs, one pool"))
        return;
    aq_member m = {.id = *aq_trust_id(b), .perms = 3, .name = "b"};
    aq_trust_cred(a, &c);
    ok(aq_trust_add(a, &m, &err) == 0 && aq_trust_share(a, &s, &err) == 0,
       "b is written down first");
    c.secret[0] ^= 1;
    ok(aq_trust_adopt(b, c.pool, c.epoch, c.secret, (char *)s.p, s.n, &err) == -AQ_E_AUTH &&
           !aq_trust_roster(b, NULL),
       "a roster under another secret");
    c.secret[0] ^= 1;
    ok(aq_trust_adopt(b, c.pool, c.epoch + 1, c.secret, (char *)s.p, s.n, &err) == -AQ_E_MISMATCH,
       "another epoch");
    ok(aq_trust_adopt(b, c.pool, c.epoch, c.secret, (char *)s.p, s.n, &err) == 0 &&
           aq_trust_roster(b, &rb) == 1 && rb.n == 2 &&
           aq_trust_perms(b, aq_trust_id(a)) == AQ_PERM_DEFAULT,
       "b is in: %s", err.text);
    ok(aq_trust_adopt(b, c.pool, c.epoch, c.secret, (char *)s.p, s.n, &err) == -AQ_E_BUSY,
       "not twice");

    /* Both add somebody at once: the rosters join. */
    aq_member m1 = member(0x11, "one"), m2 = member(0x22, "two");
    ok(aq_trust_add(a, &m1, &err) == 0 && aq_trust_add(b, &m2, &err) == 0, "each adds another PC");
    ok(aq_trust_set_perms(b, aq_trust_id(a), AQ_PERM_FILES, &err) == 0, "b has its own view of a");
    s.n = 0;
    ok(aq_trust_share(a, &s, &err) == 0 && aq_trust_share(b, &s2, &err) == 0 &&
           aq_trust_merge(b, (char *)s.p, s.n, &err) == 1 &&
           aq_trust_merge(a, (char *)s2.p, s2.n, &err) == 1,
       "they exchange rosters");
    aq_trust_roster(a, &ra);
    aq_trust_roster(b, &rb);
    ok(ra.n == 4 && rb.n == 4 && ra.version == rb.version, "both have all four");
    ok(aq_trust_perms(b, aq_trust_id(a)) == AQ_PERM_FILES, "permissions stay one's own");
    s.n = s2.n = 0;
    ok(aq_trust_share(a, &s, &err) == 0 && aq_trust_merge(b, (char *)s.p, s.n, &err) == 0,
       "nothing is new a second time");
    s.p[s.n / 2] ^= 1;
    ok(aq_trust_merge(b, (char *)s.p, s.n, &err) < 0, "a changed one is refused");

    /* a removes `one` while b is away. */
    ok(aq_trust_remove(a, &m1.id, &err) == 0, "a removes one");
    aq_trust_cred(a, &c);
    s.n = 0;
    ok(aq_trust_share(a, &s, &err) == 0 && aq_trust_merge(b, (char *)s.p, s.n, &err) == -AQ_E_AUTH,
       "b cannot read a's roster now");
    ok(aq_trust_rekey(b, 1, c.secret, (char *)s.p, s.n, &err) == -AQ_E_MISMATCH,
       "an epoch that is not newer");
    ok(aq_trust_rekey(b, c.epoch, c.secret, (char *)s.p, s.n, &err) == 0 &&
           aq_trust_perms(b, &m1.id) == -1 && aq_trust_perms(b, &m2.id) == 3 &&
           aq_trust_perms(b, aq_trust_id(a)) == AQ_PERM_FILES,
       "with the new secret it can: %s", err.text);
    aq_trust_cred(b, &cb);
    ok(cb.epoch == 2 && memcmp(cb.secret, c.secret, 32) == 0, "and has it");
    AQ_AUTO(aq_trust_free) aq_trust *b2 = open_trust("b", &err);
    ok(b2 && aq_trust_perms(b2, &m1.id) == -1 && aq_trust_perms(b2, &m2.id) == 3, "on disk too: %s",
       err.text);
}

static int roster_trip(void *user)
{
    static const uint8_t secret[32] = "a secret";
    static aq_roster r, got;
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    aq_member m = member(9, "Laptop with a name");
    aq_err err = {0};
    int rc;

    r = (aq_roster){.epoch = 4, .version = 17};
    for (int i = 0; i < 9; i++) {
        m.id.b[0] = (uint8_t)i;
        if ((rc = aq_roster_put(&r, &m, &err)) < 0)
            return rc;
    }
    if ((rc = aq_roster_print(&r, secret, true, &b, &err)) < 0)
        return rc;
    return aq_roster_parse((char *)b.p, b.n, true, secret, &got, &err);
}

/* A store that refuses. */
static int no_load(void *self, const char *name, uint8_t *ret, size_t cap, size_t *ret_n,
                   aq_err *err)
{
    return aq_fail(err, AQ_E_AUTH, "the keyring is locked");
}

static int no_save(void *self, const char *name, const uint8_t *p, size_t n, aq_err *err)
{
    return aq_fail(err, AQ_E_AUTH, "the keyring is locked");
}

static void test_store(void)
{
    aq_trust *t = NULL;
    aq_err err = {0};
    aq_secret_store store = {NULL, no_load, no_save};

    ok(aq_trust_open(folder("locked"), "x", &store, &t, &err) == -AQ_E_AUTH && !t &&
           strstr(err.text, "locked"),
       "a store that refuses says why: %s", err.text);
    ok(access(folder("locked/identity.crt"), F_OK) < 0, "and nothing was made");
}

static uint32_t epoch_on_disk(const char *name)
{
    aq_err err = {0};
    aq_cred c = {0};
    aq_trust *t = open_trust(name, &err);

    if (t)
        aq_trust_cred(t, &c);
    else
        printf("# %s\n", err.text);
    aq_trust_free(t);
    return c.epoch;
}

/* Two programs of one PC, a chat beside a node: what one writes the other does not undo. */
static void test_two_programs(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes s = {0};
    aq_member m = {.id = {{9}}, .perms = AQ_PERM_DEFAULT, .name = "gone"}, peer = {0};
    aq_err err = {0};
    aq_cred c;
    static aq_roster r;
    AQ_AUTO(aq_trust_free) aq_trust *t = open_trust("two", &err), *u = open_trust("two-peer", &err);

    peer.id = *aq_trust_id(u);
    ok(t && u && aq_trust_create(t, &err) == 0 && aq_trust_add(t, &m, &err) == 0 &&
           aq_trust_add(t, &peer, &err) == 0 && aq_trust_share(t, &s, &err) == 0,
       "a pool of three %s", err.text);
    aq_trust_cred(t, &c);
    ok(aq_trust_adopt(u, c.pool, c.epoch, c.secret, (char *)s.p, s.n, &err) == 0,
       "one is another PC");
    AQ_AUTO(aq_trust_free) aq_trust *second = open_trust("two", &err);
    ok(aq_trust_set_addr(t, &peer.id, "10.0.0.1:7710", &err) == 0 &&
           aq_trust_set_addr(second, &peer.id, "10.0.0.2:7710", &err) == 0 &&
           aq_trust_set_addr(t, &m.id, "10.0.0.3:7710", &err) == 0 && aq_trust_roster(t, &r) == 1 &&
           aq_roster_find(&r, &peer.id)->n_addr == 2,
       "by turns: each begins with what the other wrote %s", err.text);
    ok(aq_trust_hold(t, &err) == 0 && aq_trust_remove(second, &m.id, &err) == -AQ_E_BUSY &&
           strstr(err.text, "another program"),
       "while one holds it, the other changes nothing: %s", err.text);
    ok(aq_trust_set_name(second, "x", &err) == -AQ_E_BUSY &&
           aq_trust_leave(second, &err) == -AQ_E_BUSY && aq_trust_roster(second, NULL) == 1,
       "nor its name, nor does it leave");
    ok(aq_trust_set_addr(second, &peer.id, "10.0.0.9:7710", &err) == 0 &&
           aq_trust_roster(second, &r) == 1 &&
           !strcmp(aq_roster_find(&r, &peer.id)->addr[0], "10.0.0.9:7710"),
       "where a PC answered it knows for itself");
    s.n = 0;
    ok(aq_trust_remove(u, &m.id, &err) == 0 && aq_trust_share(u, &s, &err) == 0,
       "elsewhere a member is removed");
    aq_trust_cred(u, &c);
    ok(aq_trust_rekey(second, c.epoch, c.secret, (char *)s.p, s.n, &err) == 0 &&
           aq_trust_perms(second, &m.id) == -1 && epoch_on_disk("two") == 1,
       "the new secret comes to the second: it uses it, and writes nothing %s", err.text);
    ok(aq_trust_set_addr(t, &peer.id, "10.0.0.4:7710", &err) == 0 && epoch_on_disk("two") == 1,
       "the first writes the roster of its own secret");
    ok(aq_trust_rekey(t, c.epoch, c.secret, (char *)s.p, s.n, &err) == 0 &&
           epoch_on_disk("two") == 2,
       "until it is given the new one, too %s", err.text);
    aq_mem_wipe(&c, sizeof c);
}

/* A version that leaves no room to count, from a member: refused, and the file stays readable. */
static void test_last_version(void)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes s = {0};
    AQ_AUTO(aq_trust_free) aq_trust *t = open_trust("last", &(aq_err){0});
    aq_err err = {0};
    static aq_roster r;
    aq_cred c;

    ok(t && aq_trust_create(t, &err) == 0 && aq_trust_roster(t, &r) == 1, "a pool");
    aq_trust_cred(t, &c);
    r.version = UINT64_MAX - 1;
    ok(aq_roster_print(&r, c.secret, true, &s, &err) == 0 &&
           aq_trust_merge(t, (char *)s.p, s.n, &err) == -AQ_E_FORMAT,
       "a version near the end: %s", err.text);
    aq_member m = {.id = {{9}}, .name = "more"};
    s.n = 0;
    r.version = UINT64_MAX / 2;
    ok(aq_trust_add(t, &m, &err) == 0 && aq_roster_print(&r, c.secret, true, &s, &err) == 0 &&
           aq_trust_merge(t, (char *)s.p, s.n, &err) == 1 && epoch_on_disk("last") == 1,
       "the last one: taken, and read again %s", err.text);
    aq_mem_wipe(&c, sizeof c);
}

/* Programs that are started at once make one identity. */
static void test_first_use(void)
{
    enum { N = 6 };
    int go[2], out[2], status, n_good = 0;
    aq_id id[N] = {0};
    pid_t pid[N];
    char c;

    fflush(stdout);
    bool good = pipe(go) == 0 && pipe(out) == 0;
    for (int i = 0; good && i < N; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            aq_err err = {0};
            close(go[1]);
            (void)!read(go[0], &c, 1); /* all begin when it is closed */
            aq_trust *t = open_trust("first", &err);
            ssize_t n = t ? write(out[1], aq_trust_id(t), sizeof id[0]) : 0;
            if (!t)
                fprintf(stderr, "# %s\n", err.text);
            aq_trust_free(t);
            _exit(n == sizeof id[0] ? 0 : 1);
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; good && i < N; i++)
        n_good += waitpid(pid[i], &status, 0) == pid[i] && status == 0;
    for (int i = 0; i < n_good; i++)
        good = good && read(out[0], &id[i], sizeof id[i]) == sizeof id[i] &&
               aq_id_equal(&id[i], &id[0]);
    close(out[0]);
    close(out[1]);
    aq_err err = {0};
    aq_trust *t = open_trust("first", &err);
    ok(good && n_good == N && t && aq_id_equal(aq_trust_id(t), &id[0]),
       "%d of %d programs at first use, one identity %s", n_good, N, err.text);
    aq_trust_free(t);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(top, sizeof top, "%s/aq-trust-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    test_first_use();
    test_identity();
    test_roster();
    torture("a roster", roster_trip, NULL);
    test_secret_text();
    test_pool();
    test_exchange();
    test_two_programs();
    test_last_version();
    test_store();
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
