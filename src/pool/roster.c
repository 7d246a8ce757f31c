/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a pool as text, authenticated under the pool's secret. Pure functions; any thread.
 *
 *   aquifer-roster 1
 *   pool HEX32
 *   epoch N
 *   version N
 *   member HEX64 perms=HEX4 name=PERCENT-ENCODED addr=A,A [words of a later version]
 *   mac HEX64           HMAC-SHA256(secret, "aquifer-roster-1\0" | all lines before)
 *
 * In a frame the newlines are ';' and permissions are left out. */
#include "trust-priv.h"
#include "wire-priv.h"

#include <openssl/hmac.h>
#include <stdio.h>

#define HEAD "aquifer-roster 1"
#define MAC_LABEL "aquifer-roster-1" /* with its NUL */
/* From another PC; a merge adds one, and must not make a file that this cannot read. */
#define VERSION_MAX (UINT64_MAX / 2)
#define TEXT_MAX (AQ_WIRE_CTL_MAX - 1024u)

int aq_hmac(const uint8_t key[AQ_SECRET_BYTES], const void *p, size_t n, uint8_t ret[32])
{
    unsigned len = 0;

    if (!HMAC(EVP_sha256(), key, (int)AQ_SECRET_BYTES, p, n, ret, &len) || len != 32)
        return -AQ_E_NOMEM;
    return AQ_OK;
}

aq_member *aq_roster_find(aq_roster *r, const aq_id *id)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (aq_id_equal(&r->m[i].id, id))
            return &r->m[i];
    return NULL;
}

int aq_roster_put(aq_roster *r, const aq_member *m, aq_err *err)
{
    aq_member *old = aq_roster_find(r, &m->id);
    uint32_t at = 0;

    if (old) {
        *old = *m;
        return AQ_OK;
    }
    if (r->n >= AQ_MEMBERS_MAX)
        return aq_fail(err, AQ_E_LIMIT,
                       "the pool has %u members already: remove one that is gone first", r->n);
    while (at < r->n && memcmp(r->m[at].id.b, m->id.b, 32) < 0)
        at++;
    memmove(&r->m[at + 1], &r->m[at], (r->n - at) * sizeof *m);
    r->m[at] = *m;
    r->n++;
    return AQ_OK;
}

bool aq_roster_drop(aq_roster *r, const aq_id *id)
{
    aq_member *m = aq_roster_find(r, id);

    if (!m)
        return false;
    r->n--;
    memmove(m, m + 1, (size_t)(&r->m[r->n] - m) * sizeof *m);
    return true;
}

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

static int put_encoded(aq_bytes *b, const char *s)
{
    int rc = AQ_OK;

    for (; *s && rc == AQ_OK; s++)
        rc = plain(*s) ? aq_bytes_put(b, s, 1) : aq_bytes_putf(b, "%%%02x", (uint8_t)*s);
    return rc;
}

static int mac_of(const uint8_t *secret, const void *text, size_t n, uint8_t ret[32])
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = aq_bytes_put(&b, MAC_LABEL, sizeof MAC_LABEL);

    if (rc == AQ_OK)
        rc = aq_bytes_put(&b, text, n);
    return rc < 0 ? rc : aq_hmac(secret, b.p, b.n, ret);
}

static int put_member(aq_bytes *b, const aq_member *m, bool share)
{
    char hex[65];
    int rc;

    aq_hex(m->id.b, 32, hex);
    if ((rc = aq_bytes_putf(b, "member %s perms=%04x name=", hex, share ? 0 : m->perms)) < 0 ||
        (rc = put_encoded(b, m->name)) < 0 || (rc = aq_bytes_puts(b, " addr=")) < 0)
        return rc;
    for (uint32_t i = 0; i < m->n_addr; i++)
        if ((rc = aq_bytes_putf(b, "%s%s", i ? "," : "", m->addr[i])) < 0)
            return rc;
    return aq_bytes_putf(b, "%s%s\n", m->extra[0] ? " " : "", m->extra);
}

static int print(const aq_roster *r, const uint8_t *secret, bool share, aq_bytes *b)
{
    char hex[65];
    uint8_t mac[32];
    int rc;

    aq_hex(r->pool, 16, hex);
    if ((rc = aq_bytes_putf(b, HEAD "\npool %s\nepoch %u\nversion %llu\n", hex, r->epoch,
                            (unsigned long long)r->version)) < 0)
        return rc;
    for (uint32_t i = 0; i < r->n; i++)
        if ((rc = put_member(b, &r->m[i], share)) < 0)
            return rc;
    if ((rc = mac_of(secret, b->p, b->n, mac)) < 0)
        return rc;
    aq_hex(mac, 32, hex);
    if ((rc = aq_bytes_putf(b, "mac %s\n", hex)) < 0)
        return rc;
    for (size_t i = 0; share && i < b->n; i++)
        if (b->p[i] == '\n')
            b->p[i] = ';';
    if (share)
        b->n--; /* the last one */
    return AQ_OK;
}

int aq_roster_print(const aq_roster *r, const uint8_t secret[AQ_SECRET_BYTES], bool share,
                    aq_bytes *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    int rc = print(r, secret, share, &b);

    if (rc < 0)
        return aq_fail(err, -rc, "no memory for the roster");
    if (b.n > TEXT_MAX)
        return aq_fail(err, AQ_E_LIMIT, "the roster is %zu bytes long, at most %u", b.n, TEXT_MAX);
    if ((rc = aq_bytes_put(ret, b.p, b.n)) < 0)
        return aq_fail(err, -rc, "no memory for the roster");
    return AQ_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct span {
    const char *p;
    size_t n;
} span;

/* Take what stands before the next sep (or the rest). False when nothing is left. */
static bool take(span *from, char sep, span *ret)
{
    if (from->n == 0)
        return false;
    const char *end = memchr(from->p, sep, from->n);
    ret->p = from->p;
    ret->n = end ? (size_t)(end - from->p) : from->n;
    size_t used = ret->n + (end ? 1 : 0);
    from->p += used;
    from->n -= used;
    return true;
}

/* The rest after a prefix, or NULL. */
static const char *after(span s, const char *prefix, size_t *ret_n)
{
    size_t n = strlen(prefix);

    if (s.n < n || memcmp(s.p, prefix, n) != 0)
        return NULL;
    *ret_n = s.n - n;
    return s.p + n;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_hex(const char *p, size_t n, uint8_t *ret, size_t n_bytes)
{
    if (!p || n != 2 * n_bytes)
        return false;
    for (size_t i = 0; i < n_bytes; i++) {
        int a = digit(p[2 * i]), b = digit(p[2 * i + 1]);
        if (a < 0 || b < 0)
            return false;
        ret[i] = (uint8_t)(a << 4 | b);
    }
    return true;
}

static bool get_num(const char *p, size_t n, uint64_t max, uint64_t *ret)
{
    uint64_t x = 0;

    if (!p || n == 0 || n > 20)
        return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, (uint64_t)(p[i] - '0'), &x))
            return false;
    *ret = x;
    return x <= max;
}

static bool hex_after(span line, const char *prefix, uint8_t *ret, size_t n_bytes)
{
    size_t n = 0;
    const char *p = after(line, prefix, &n);

    return get_hex(p, n, ret, n_bytes);
}

static bool num_after(span line, const char *prefix, uint64_t max, uint64_t *ret)
{
    size_t n = 0;
    const char *p = after(line, prefix, &n);

    return get_num(p, n, max, ret);
}

static bool get_name(const char *p, size_t n, char ret[AQ_NAME_MAX + 1])
{
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        if (c == '%') {
            uint8_t b;
            if (i + 2 >= n || !get_hex(p + i + 1, 2, &b, 1) || b < 0x20 || b == 0x7f)
                return false;
            c = (char)b;
            i += 2;
        } else if (!plain(c)) {
            return false;
        }
        if (out >= AQ_NAME_MAX)
            return false;
        ret[out++] = c;
    }
    ret[out] = 0;
    for (size_t i = 0; i < out;) {
        uint32_t cp;
        bool bad = false;
        i += aq_utf8_next(ret + i, out - i, &cp, &bad);
        if (bad)
            return false;
    }
    return true;
}

static bool get_addrs(const char *p, size_t n, aq_member *m)
{
    span rest = {p, n}, a;

    while (take(&rest, ',', &a)) {
        if (m->n_addr >= AQ_ADDRS_MAX || a.n == 0 || a.n > AQ_ADDR_MAX)
            return false;
        for (size_t i = 0; i < a.n; i++)
            if (!plain(a.p[i]) && !memchr("[]:%", a.p[i], 4))
                return false;
        memcpy(m->addr[m->n_addr], a.p, a.n);
        m->addr[m->n_addr++][a.n] = 0;
    }
    return true;
}

static bool get_member(span line, aq_member *m)
{
    span w;
    size_t n = 0, n_extra = 0;
    const char *p;

    if (!take(&line, ' ', &w) || !get_hex(w.p, w.n, m->id.b, 32))
        return false;
    while (take(&line, ' ', &w)) {
        uint8_t perms[2];
        if ((p = after(w, "perms=", &n))) {
            if (!get_hex(p, n, perms, 2))
                return false;
            m->perms = (uint32_t)perms[0] << 8 | perms[1];
        } else if ((p = after(w, "name=", &n))) {
            if (!get_name(p, n, m->name))
                return false;
        } else if ((p = after(w, "addr=", &n))) {
            if (!get_addrs(p, n, m))
                return false;
        } else {
            if (w.n == 0 || n_extra + w.n + 2 > sizeof m->extra)
                return false;
            if (n_extra)
                m->extra[n_extra++] = ' ';
            memcpy(m->extra + n_extra, w.p, w.n);
            n_extra += w.n;
            m->extra[n_extra] = 0;
        }
    }
    for (size_t i = 0; i < n_extra; i++)
        if ((uint8_t)m->extra[i] < 0x20 || (uint8_t)m->extra[i] > 0x7e || m->extra[i] == ';')
            return false;
    return true;
}

static int bad_line(unsigned line, aq_err *err)
{
    return aq_fail(err, AQ_E_FORMAT, "line %u of the roster is damaged", line);
}

int aq_roster_peek_epoch(const char *text, size_t n, uint32_t *ret, aq_err *err)
{
    span rest = {text, n}, line;

    for (unsigned i = 0; i < 3 && take(&rest, '\n', &line); i++) {
        uint64_t x;
        if (num_after(line, "epoch ", UINT32_MAX, &x)) {
            *ret = (uint32_t)x;
            return AQ_OK;
        }
    }
    return bad_line(3, err);
}

/* text ends lines with '\n'. */
static int parse(const char *text, size_t n, const uint8_t *secret, aq_roster *r, aq_err *err)
{
    span rest = {text, n}, line;
    uint64_t x = 0;
    size_t k = 0;
    unsigned at = 1;
    uint8_t mac[32], want[32];
    const char *p;
    int rc;

    if (!take(&rest, '\n', &line) || !after(line, "aquifer-roster ", &k))
        return bad_line(at, err);
    if (line.n != strlen(HEAD) || memcmp(line.p, HEAD, line.n) != 0)
        return aq_fail(err, AQ_E_UNSUPPORTED,
                       "the roster was written by a later version of Aquifer: update this one");
    at++;
    if (!take(&rest, '\n', &line) || !hex_after(line, "pool ", r->pool, 16))
        return bad_line(at, err);
    at++;
    if (!take(&rest, '\n', &line) || !num_after(line, "epoch ", UINT32_MAX, &x))
        return bad_line(at, err);
    r->epoch = (uint32_t)x;
    at++;
    if (!take(&rest, '\n', &line) || !num_after(line, "version ", VERSION_MAX, &r->version))
        return bad_line(at, err);
    for (at++;; at++) {
        if (!take(&rest, '\n', &line))
            return bad_line(at, err);
        if ((p = after(line, "mac ", &k)))
            break;
        aq_member m = {0};
        if (!(p = after(line, "member ", &k)) || !get_member((span){p, k}, &m))
            return bad_line(at, err);
        if (aq_roster_find(r, &m.id))
            return aq_fail(err, AQ_E_FORMAT, "line %u of the roster repeats a member", at);
        if ((rc = aq_roster_put(r, &m, err)) < 0)
            return rc;
    }
    if (!get_hex(p, k, mac, 32) || rest.n != 0)
        return bad_line(at, err);
    if ((rc = mac_of(secret, text, (size_t)(line.p - text), want)) < 0)
        return aq_fail(err, -rc, "no memory for the roster");
    if (!aq_mem_equal_ct(mac, want, 32))
        return aq_fail(err, AQ_E_AUTH,
                       "the roster was not written by this pool: it was changed, or it belongs to "
                       "another secret");
    return AQ_OK;
}

int aq_roster_parse(const char *text, size_t n, bool share, const uint8_t secret[AQ_SECRET_BYTES],
                    aq_roster *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    int rc;

    if (n > AQ_WIRE_CTL_MAX)
        return aq_fail(err, AQ_E_LIMIT, "the roster is %zu bytes long, at most %u", n,
                       AQ_WIRE_CTL_MAX);
    if (!r || (rc = aq_bytes_put(&b, text, n)) < 0 ||
        (rc = aq_bytes_puts(&b, share ? ";" : "")) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the roster");
    for (size_t i = 0; share && i < b.n; i++)
        if (b.p[i] == ';')
            b.p[i] = '\n';
    if ((rc = parse((const char *)b.p, b.n, secret, r, err)) < 0)
        return rc;
    *ret = *r;
    return AQ_OK;
}
