/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the case files named on the command line: a scripted peer against a real link over a socket
 * pair, moved by hand and on a clock that stands still. One TAP case a file; README.md beside this
 * has the language. One thread. */
#include "link-priv.h"
#include "tap.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct script {
    char top[300];
    const char *file;
    unsigned line;
    aq_trust *us, *peer;
    aq_net *net;
    aq_tls_ctx *ctx;
    aq_tls *tls; /* the peer's end */
    aq_link *link;
    int fd;
    bool dialer; /* we dial */
    bool tls_done, ended, flip, relay;
    aq_err why;       /* of our end */
    aq_err peer_err;  /* of the peer's TLS */
    uint64_t seq_out; /* of the peer's control frames */
    aq_bytes in;      /* plaintext from us */
    size_t off;
    aq_proof proof;
    uint8_t secret[32], last_auth[128];
    size_t n_last_auth;
    uint32_t epoch;
    char said[2048]; /* what the failing line says */
} script;

static bool fail(script *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(script *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s->said, sizeof s->said, fmt, ap);
    va_end(ap);
    return false;
}

static bool any(void *user, const aq_id *id)
{
    return true;
}

/* ---- moving bytes ---------------------------------------------------------------------------- */

static void end(script *s, const aq_err *why)
{
    s->ended = true;
    s->why = *why;
    aq_link_refuse(s->link, why);
}

/* Move everything until both ends want input and there is none. */
static void pump(script *s)
{
    for (int idle = 0; idle < 2;) {
        aq_err err = {0};
        size_t n;
        uint8_t buf[65536];
        const uint8_t *p = aq_tls_output(s->tls, &n);

        idle++;
        if (n > 0 && s->fd >= 0) {
            uint8_t *copy = malloc(n);
            if (copy) {
                memcpy(copy, p, n);
                if (s->flip)
                    copy[n / 2] ^= 1;
                s->flip = false;
                ssize_t k = send(s->fd, copy, n, MSG_NOSIGNAL | MSG_DONTWAIT);
                aq_tls_sent(s->tls, k > 0 ? (size_t)k : n);
                idle = 0;
            }
            free(copy);
        }
        if (!s->ended) {
            int rc = aq_link_pump(s->link, &err);
            /* What the listener's thread does with callers that take too long. */
            if (rc == 0 && aq_now_us() >= aq_link_deadline_us(s->link))
                rc = aq_fail(&err, AQ_E_TIMEOUT, "the other PC did not introduce itself in time");
            if (rc < 0)
                end(s, &err);
        }
        ssize_t got = s->fd >= 0 ? recv(s->fd, buf, sizeof buf, MSG_DONTWAIT) : 0;
        if (got <= 0)
            continue;
        idle = 0;
        aq_tls_input(s->tls, buf, (size_t)got);
        if (!s->tls_done) {
            int rc = aq_tls_handshake(s->tls, &s->peer_err);
            s->tls_done = rc == 1;
        }
        while (s->tls_done && aq_bytes_reserve(&s->in, 65536) == 0 &&
               aq_tls_read(s->tls, s->in.p + s->in.n, 65536, &n, &s->peer_err) == 1)
            s->in.n += n;
    }
}

static bool put(script *s, const void *p, size_t n)
{
    aq_err err = {0};

    if (aq_tls_write(s->tls, p, n, &err) < 0)
        return fail(s, "the peer cannot write: %s", err.text);
    pump(s);
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The next word of *p; "…" holds spaces. NULL at the end. */
static char *word(char **p)
{
    char *w, *o;

    while (**p == ' ')
        (*p)++;
    if (!**p || **p == '#')
        return NULL;
    w = o = *p;
    for (bool quoted = false; **p && (quoted || **p != ' '); (*p)++) {
        if (**p == '"')
            quoted = !quoted;
        else
            *o++ = **p;
    }
    if (**p)
        (*p)++;
    *o = 0;
    return w;
}

static uint16_t type_of(const char *name)
{
    for (unsigned t = 1; t < 0x100; t++)
        if (aq_wire_type_name((uint16_t)t) && strcmp(aq_wire_type_name((uint16_t)t), name) == 0)
            return (uint16_t)t;
    return (uint16_t)strtoul(name, NULL, 0);
}

static int code_of(const char *name)
{
    for (int c = 1; c < 64; c++)
        if (strcmp(aq_status_name(c), name) == 0)
            return c;
    return -1;
}

static bool hash(const void *p, size_t n, uint8_t ret[32])
{
    aq_sha256 *h = aq_sha256_new();
    bool good = h && aq_sha256_add(h, p, n) == 0 && aq_sha256_end(h, ret) == 0;

    aq_sha256_free(h);
    return good;
}

static size_t unhex(const char *s, uint8_t *ret, size_t cap)
{
    size_t n = 0;

    for (; s[0] && s[1] && n < cap; s += 2) {
        char two[3] = {s[0], s[1], 0};
        ret[n++] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

/* A value: $id, $us, $pool, $epoch, $nonce, $proof and so on, or as it stands. */
static const char *value(script *s, const char *v, char buf[2100])
{
    aq_cred c;
    uint8_t mac[32];
    unsigned n;
    char fill;

    aq_trust_cred(s->us, &c);
    if (strcmp(v, "$id") == 0)
        aq_hex(aq_trust_id(s->peer)->b, 32, buf);
    else if (strcmp(v, "$us") == 0)
        aq_hex(aq_trust_id(s->us)->b, 32, buf);
    else if (strcmp(v, "$pool") == 0)
        aq_hex(c.pool, 16, buf);
    else if (strcmp(v, "$epoch") == 0)
        snprintf(buf, 2100, "%u", s->epoch);
    else if (strcmp(v, "$nonce") == 0)
        aq_hex(s->dialer ? s->proof.nonce_a : s->proof.nonce_d, 32, buf);
    else if (strcmp(v, "$proof") == 0 || strcmp(v, "$proof-other-role") == 0) {
        aq_role role = s->dialer == (v[6] == 0) ? AQ_ACCEPTOR : AQ_DIALER;
        aq_proof p = s->proof;
        if (s->relay) /* it has the exporter of another connection */
            p.exporter[0] ^= 1;
        aq_hex(mac, aq_proof_make(s->secret, role, &p, mac) == 0 ? 32 : 0, buf);
    } else if (sscanf(v, "$repeat:%c:%u", &fill, &n) == 2 && n < 2100) {
        memset(buf, fill, n);
        buf[n] = 0;
    } else
        return v;
    return buf;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool start(script *s)
{
    const struct sockaddr_storage from = {.ss_family = AF_INET};
    aq_err err = {0};
    aq_dial d = {.purpose = AQ_FOR_STEP, .to = aq_trust_id(s->peer)};
    int sv[2];

    if (s->link)
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return fail(s, "no socket pair");
    s->fd = sv[0];
    if (aq_tls_new(s->ctx, !s->dialer, any, NULL, &s->tls, &err) < 0 ||
        aq_link_over(s->net, &sv[1], (const struct sockaddr *)&from, s->dialer ? &d : NULL,
                     &s->link, &err) < 0)
        return fail(s, "starting: %s", err.text);
    aq_cred c;
    aq_trust_cred(s->us, &c);
    s->epoch = c.epoch;
    memcpy(s->secret, c.secret, 32);
    for (int i = 0; i < 32; i++)
        (s->dialer ? s->proof.nonce_a : s->proof.nonce_d)[i] = (uint8_t)(i + 1);
    return true;
}

/* tls */
static bool cmd_tls(script *s)
{
    aq_err err = {0};

    if (!start(s))
        return false;
    if (!s->dialer && aq_tls_handshake(s->tls, &err) < 0)
        return fail(s, "TLS: %s", err.text);
    pump(s);
    if (!s->tls_done)
        return fail(s, "TLS does not stand: %s",
                    s->peer_err.text[0] ? s->peer_err.text : s->why.text);
    return aq_tls_exporter(s->tls, s->proof.exporter, &err) == 0;
}

/* send TYPE [flags=] [seq=] [length=] key=value … (the first three are the header's) */
static bool cmd_send(script *s, char *p)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0}, frame = {0};
    char buf[2100], *name = word(&p), *w;
    aq_hdr h = {.seq = s->seq_out};
    bool has_length = false, own_seq = false;
    uint8_t raw[AQ_WIRE_HDR_BYTES];

    h.type = name ? type_of(name) : 0;
    while ((w = word(&p))) {
        char *eq = strchr(w, '=');
        if (!eq)
            return fail(s, "'%s' is not key=value", w);
        *eq = 0;
        const char *v = value(s, eq + 1, buf);
        if (strcmp(w, "flags") == 0)
            h.flags = (uint16_t)strtoul(v, NULL, 0);
        else if (strcmp(w, "seq") == 0)
            h.seq = strtoull(v, NULL, 0), own_seq = true;
        else if (strcmp(w, "length") == 0)
            h.length = strtoull(v, NULL, 0), has_length = true;
        else if (strcmp(w, "hex") == 0) {
            uint8_t bytes[1024];
            if (aq_bytes_put(&b, bytes, unhex(v, bytes, sizeof bytes)) < 0)
                return false;
        } else if (strcmp(w, "again") == 0) {
            if (aq_bytes_put(&b, s->last_auth, s->n_last_auth) < 0)
                return false;
        } else if (aq_bytes_putf(&b, "%s=%s\n", w[0] == '.' ? w + 1 : w, v) < 0)
            return false;
    }
    if (!has_length)
        h.length = b.n;
    if (!own_seq && h.type != AQ_T_WINDOW && h.type != AQ_T_ROWS)
        s->seq_out++;
    if (h.type == AQ_T_HELLO && !hash(b.p, b.n, s->dialer ? s->proof.hello_a : s->proof.hello_d))
        return false;
    if (h.type == AQ_T_AUTH && b.n > 0 && b.n <= sizeof s->last_auth)
        memcpy(s->last_auth, b.p, s->n_last_auth = b.n);
    aq_wire_put_hdr(raw, &h);
    return aq_bytes_put(&frame, raw, sizeof raw) == 0 && aq_bytes_put(&frame, b.p, b.n) == 0 &&
           put(s, frame.p, frame.n);
}

/* Learn from a HELLO of ours what proofs need. */
static bool learn(script *s, const void *p, size_t n)
{
    aq_hello h;
    aq_err err = {0};

    if (aq_hello_parse(p, n, s->dialer, &h, &err) < 0)
        return fail(s, "its HELLO: %s", err.text);
    memcpy(s->dialer ? s->proof.nonce_d : s->proof.nonce_a, h.nonce, 32);
    s->proof.id_d = s->dialer ? h.id : *aq_trust_id(s->peer);
    s->proof.id_a = s->dialer ? *aq_trust_id(s->peer) : h.id;
    s->proof.epoch = s->epoch;
    return hash(p, n, s->dialer ? s->proof.hello_d : s->proof.hello_a);
}

/* expect TYPE [key=value | key~part | key]… */
static bool expect_frame(script *s, const char *name, char *p)
{
    aq_cur c = {.p = s->in.p, .n = s->in.n, .off = s->off};
    char buf[2100], *w;
    uint32_t magic;
    aq_hdr h = {0};
    aq_kv kv;
    aq_err err = {0};

    if (aq_cur_get_u32(&c, &magic) < 0 || aq_cur_get_u16(&c, &h.type) < 0 ||
        aq_cur_get_u16(&c, &h.flags) < 0 || aq_cur_get_u64(&c, &h.length) < 0 ||
        aq_cur_get_u64(&c, &h.seq) < 0 || aq_cur_left(&c) < h.length)
        return fail(s, "nothing came; the link %s: %s", s->ended ? "ended" : "goes on",
                    s->why.text);
    const uint8_t *payload = c.p + c.off;
    if (h.type != type_of(name))
        return fail(s, "%s came: %.*s",
                    aq_wire_type_name(h.type) ? aq_wire_type_name(h.type) : "an unknown frame",
                    (int)AQ_MIN(h.length, 300u), (const char *)payload);
    s->off = c.off + h.length;
    if (h.type == AQ_T_WINDOW || h.type == AQ_T_ROWS)
        return true;
    if (h.type == AQ_T_HELLO && !learn(s, payload, h.length))
        return false;
    if (aq_kv_parse(payload, h.length, &kv, &err) < 0)
        return fail(s, "%s: %s", name, err.text);
    while ((w = word(&p))) {
        char *op = w + strcspn(w, "=~"), kind = *op;
        uint32_t n = 0;
        *op = 0;
        const char *got = aq_kv_get(&kv, w, &n), *want = kind ? value(s, op + 1, buf) : "";
        if (!got)
            return fail(s, "%s without %s", name, w);
        if (kind == '=' ? n != strlen(want) || memcmp(got, want, n) != 0
                        : kind == '~' && !memmem(got, n, want, strlen(want)))
            return fail(s, "%s has %s=%.*s", name, w, (int)n, got);
    }
    return true;
}

static bool expect(script *s, char *p)
{
    char *w = word(&p);

    if (!w)
        return fail(s, "expect what?");
    if (strcmp(w, "nothing") == 0)
        return (s->off == s->in.n && !s->ended) ||
               fail(s, "%zu bytes came, ended=%d %s", s->in.n - s->off, s->ended, s->why.text);
    if (strcmp(w, "end") == 0) {
        char *code = word(&p), *part = word(&p);
        if (!s->ended)
            return fail(s, "the link goes on in state %s",
                        aq_wire_state_name(aq_link_state(s->link)));
        if (code && s->why.code != code_of(code))
            return fail(s, "it ended with %s: %s", aq_status_name(s->why.code), s->why.text);
        if (part && !strstr(s->why.text, part))
            return fail(s, "it says: %s", s->why.text);
        return s->off == s->in.n || fail(s, "%zu bytes more came", s->in.n - s->off);
    }
    if (strcmp(w, "state") == 0) {
        const char *now = aq_wire_state_name(aq_link_state(s->link));
        w = word(&p);
        return (w && strcmp(w, now) == 0) || fail(s, "the state is %s", now);
    }
    if (strcmp(w, "refused-in-tls") == 0) /* in TLS 1.3 the dialer hears of it with its next read */
        return (s->ended && s->why.code == AQ_E_AUTH && s->in.n == 0) ||
               fail(s, "it was not: %s", s->why.text);
    return expect_frame(s, w, p);
}

/* us WORD…: the setting, before the first bytes; us send TYPE payload: what the program sends. */
static bool cmd_us(script *s, char *p)
{
    char *w = word(&p);
    aq_err err = {0};

    if (w && strcmp(w, "dialer") == 0)
        s->dialer = true;
    else if (w && strcmp(w, "pairing") == 0)
        aq_net_set_open(s->net, true, false);
    else if (w && strcmp(w, "joining") == 0)
        aq_net_set_open(s->net, false, true);
    else if (w && strcmp(w, "alone") == 0)
        return aq_trust_leave(s->us, &err) == 0;
    else if (w && strcmp(w, "removes-another") == 0) { /* the secret's epoch goes up */
        aq_member m = {.id = {{7}}, .name = "another"};
        return aq_trust_add(s->us, &m, &err) == 0 && aq_trust_remove(s->us, &m.id, &err) == 0;
    } else if (w && strcmp(w, "send") == 0) {
        __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
        char *type = word(&p), *v, buf[2100];
        while ((v = word(&p)))
            if (aq_bytes_putf(&b, "%s\n", value(s, v, buf)) < 0)
                return false;
        if (!type || aq_link_send(s->link, type_of(type), 0, b.p ? b.p : (const uint8_t *)"", b.n,
                                  NULL, &err) < 0)
            return fail(s, "we cannot send: %s", err.text);
        pump(s);
    } else
        return fail(s, "unknown setting");
    return true;
}

static bool cmd_peer(script *s, char *p)
{
    char *w = word(&p), *v = word(&p);
    aq_err err = {0};

    if (w && strcmp(w, "stranger") == 0)
        return aq_trust_remove(s->us, aq_trust_id(s->peer), &err) == 0 || fail(s, "%s", err.text);
    if (w && strcmp(w, "wrong-secret") == 0)
        s->secret[0] ^= 1;
    else if (w && strcmp(w, "relay") == 0)
        s->relay = true;
    else if (w && strcmp(w, "other-hello") == 0) /* it sent another one than arrived */
        s->proof.hello_d[0] ^= 1;
    else if (w && v && strcmp(w, "epoch") == 0)
        s->epoch = (uint32_t)strtoul(v, NULL, 10);
    else if (w && v && strcmp(w, "seq") == 0)
        s->seq_out = strtoull(v, NULL, 10);
    else
        return fail(s, "unknown setting");
    return true;
}

static bool run_line(script *s, char *line);

static bool run_lines(script *s, const char *const *lines)
{
    for (; *lines; lines++) {
        char copy[512];
        snprintf(copy, sizeof copy, "%s", *lines);
        if (!run_line(s, copy))
            return false;
    }
    return true;
}

#define HELLO                                                                              \
    "send HELLO proto=1.0 feat=0000000000000007 id=$id name=Peer nonce=$nonce pool=$pool " \
    "epoch=$epoch purpose="

/* open: a good handshake for `step` */
static bool cmd_open(script *s)
{
    static const char *const as_dialer[] = {"tls",
                                            HELLO "step",
                                            "expect HELLO purpose=step",
                                            "send AUTH proof=$proof",
                                            "expect AUTH_OK proof=$proof-other-role",
                                            "expect state OPEN",
                                            NULL};
    static const char *const as_acceptor[] = {"tls",
                                              "expect HELLO purpose=step",
                                              HELLO "step",
                                              "expect AUTH proof=$proof-other-role",
                                              "send AUTH_OK proof=$proof",
                                              "expect state OPEN",
                                              NULL};

    return run_lines(s, s->dialer ? as_acceptor : as_dialer);
}

static bool cmd_raw(script *s, char *p, bool plain)
{
    uint8_t bytes[2048];
    char *w = word(&p);
    size_t n = w ? unhex(w, bytes, sizeof bytes) : 0;

    if (!start(s))
        return false;
    if (!plain)
        return put(s, bytes, n);
    if (send(s->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        return fail(s, "the socket is closed");
    pump(s);
    return true;
}

static bool run_line(script *s, char *line)
{
    char *p = line, *w = word(&p);

    if (!w)
        return true;
    if (strcmp(w, "us") == 0)
        return cmd_us(s, p);
    if (strcmp(w, "peer") == 0)
        return cmd_peer(s, p);
    if (strcmp(w, "tls") == 0)
        return cmd_tls(s);
    if (strcmp(w, "tls-refused") == 0) {
        s->peer_err.code = 0;
        return cmd_tls(s) || s->ended || fail(s, "%s", s->said);
    }
    if (strcmp(w, "open") == 0)
        return cmd_open(s);
    if (strcmp(w, "send") == 0)
        return cmd_send(s, p);
    if (strcmp(w, "expect") == 0)
        return expect(s, p);
    if (strcmp(w, "raw") == 0 || strcmp(w, "plain") == 0)
        return cmd_raw(s, p, w[0] == 'p');
    if (strcmp(w, "flip") == 0) {
        s->flip = true;
        return true;
    }
    if (strcmp(w, "connect") == 0)
        return start(s);
    if (strcmp(w, "hang-up") == 0) {
        close(s->fd);
        s->fd = -1;
        pump(s);
        return true;
    }
    if (strcmp(w, "clock") == 0) {
        w = word(&p);
        aq_clock_advance(w ? atoll(w) * 1000 : 0);
        pump(s);
        return true;
    }
    return fail(s, "unknown command '%s'", w);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool prepare(script *s)
{
    char dir[2][400];
    const char *tmp = getenv("TMPDIR");
    aq_err err = {0};

    snprintf(s->top, sizeof s->top, "%s/aq-wire-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(s->top))
        return fail(s, "no folder");
    snprintf(dir[0], sizeof dir[0], "%s/us", s->top);
    snprintf(dir[1], sizeof dir[1], "%s/peer", s->top);
    if (aq_trust_open(dir[0], "Us", NULL, &s->us, &err) < 0 ||
        aq_trust_open(dir[1], "Peer", NULL, &s->peer, &err) < 0 ||
        aq_trust_create(s->us, &err) < 0 ||
        aq_net_new(s->us, "test 1", AQ_FEAT_SPLIT | AQ_FEAT_F16 | AQ_FEAT_BF16, &s->net, &err) <
            0 ||
        aq_tls_ctx_new(aq_trust_identity(s->peer), &s->ctx, &err) < 0)
        return fail(s, "%s", err.text);
    aq_member m = {.id = *aq_trust_id(s->peer), .perms = AQ_PERM_DEFAULT, .name = "Peer"};
    return aq_trust_add(s->us, &m, &err) == 0 || fail(s, "%s", err.text);
}

static void run_case(const char *path)
{
    script s = {.fd = -1};
    char line[4096], copy[4096] = "";
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    FILE *f = fopen(path, "r");
    unsigned n = 0;

    aq_clock_set(1000000000);
    bool good = f && prepare(&s);
    while (good && fgets(line, sizeof line, f)) {
        n++;
        line[strcspn(line, "\n")] = 0;
        memcpy(copy, line, sizeof copy);
        good = run_line(&s, line);
    }
    good = good && n > 0;
    ok(good, "%s", name);
    if (!good)
        printf("# line %u: %s\n# %s\n", n, copy, s.said);
    if (f)
        fclose(f);
    aq_link_free(s.link);
    aq_tls_free(s.tls);
    aq_tls_ctx_free(s.ctx);
    aq_net_free(s.net);
    aq_trust_free(s.us);
    aq_trust_free(s.peer);
    aq_bytes_clear(&s.in);
    if (s.fd >= 0)
        close(s.fd);
    snprintf(line, sizeof line, "rm -rf '%s'", s.top);
    if (s.top[0] && system(line) != 0)
        ok(false, "the folder of %s could not be removed", name);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_case(argv[i]);
    return tap_done();
}
