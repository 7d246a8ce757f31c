/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 over two buffers. Both sides show a certificate; it proves a key, and whether that key is
 * trusted is the caller's question, so there is no chain, no name and no expiry to check. A BIO of
 * our own reads from the caller's bytes and appends to `out`, so that a frame leaves in one send. */
#include "tls-priv.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#define ALPN "aquifer/1"
#define EXPORTER_LABEL "EXPERIMENTAL aquifer link 1"

#define SENT_MAX (128u << 10) /* bytes that were sent and are still in front of others */

static const uint8_t alpn_wire[] = "\x09" ALPN; /* with its length, as TLS wants it */

struct aq_tls_ctx {
    SSL_CTX *ssl;
    BIO_METHOD *bio;
};

struct aq_tls {
    SSL *ssl;
    const uint8_t *in; /* borrowed until read */
    size_t n_in, n_sent;
    aq_bytes out;
    aq_tls_accept_fn accept;
    void *user;
    bool known; /* peer and cert_hash are set */
    aq_id peer;
    uint8_t cert_hash[32];
};

static int bio_read(BIO *bio, char *buf, size_t n, size_t *ret_n)
{
    aq_tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (t->n_in == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    n = AQ_MIN(n, t->n_in);
    memcpy(buf, t->in, n);
    t->in += n;
    t->n_in -= n;
    *ret_n = n;
    return 1;
}

static int bio_write(BIO *bio, const char *p, size_t n, size_t *ret_n)
{
    aq_tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (aq_bytes_put(&t->out, p, n) < 0)
        return 0;
    *ret_n = n;
    return 1;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *p)
{
    return cmd == BIO_CTRL_FLUSH;
}

/* OpenSSL's error queue belongs to the thread and must be left empty. */
static int fail_tls(aq_err *err, const char *what)
{
    unsigned long e = ERR_peek_error();
    int reason = ERR_GET_REASON(e);
    char why[120] = "the other side closed the connection";

    if (e)
        ERR_error_string_n(e, why, sizeof why);
    ERR_clear_error();
    if (reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE)
        return aq_fail(err, AQ_E_AUTH, "the other PC does not accept this one: pair them again");
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return aq_fail(err, AQ_E_AUTH, "the other PC is not a member of this pool: pair it first");
    if (reason == ERR_R_MALLOC_FAILURE)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a secure connection");
    return aq_fail(err, e ? AQ_E_PROTO : AQ_E_GONE, "%s: %s", what, why);
}

/* In place of a chain check: remember the id, and ask. */
static int verify_cert(X509_STORE_CTX *store, void *arg)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    aq_tls *t = ssl ? SSL_get_app_data(ssl) : NULL;
    X509 *cert = X509_STORE_CTX_get0_cert(store);

    if (t && cert && aq_id_of_cert(cert, &t->peer, t->cert_hash, NULL) == AQ_OK &&
        t->accept(t->user, &t->peer)) {
        t->known = true;
        return 1;
    }
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

static int select_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_n,
                       const unsigned char *in, unsigned n, void *arg)
{
    if (SSL_select_next_proto((unsigned char **)ret, ret_n, alpn_wire, sizeof alpn_wire - 1, in,
                              n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

int aq_tls_ctx_new(const aq_identity *me, aq_tls_ctx **ret, aq_err *err)
{
    AQ_AUTO(aq_tls_ctx_free) aq_tls_ctx *c = calloc(1, sizeof *c);

    if (!c)
        return aq_fail(err, AQ_E_NOMEM, "no memory for secure connections");
    c->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "aquifer");
    c->ssl = SSL_CTX_new(TLS_method());
    if (!c->bio || !c->ssl || BIO_meth_set_read_ex(c->bio, bio_read) != 1 ||
        BIO_meth_set_write_ex(c->bio, bio_write) != 1 || BIO_meth_set_ctrl(c->bio, bio_ctrl) != 1)
        return fail_tls(err, "preparing secure connections");
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(c->ssl, verify_cert, NULL);
    SSL_CTX_set_max_cert_list(c->ssl, AQ_TLS_CERT_MAX_BYTES);
    SSL_CTX_set_alpn_select_cb(c->ssl, select_alpn, NULL);
    if (SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(c->ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(c->ssl, 0) != 1 ||
        SSL_CTX_set_alpn_protos(c->ssl, alpn_wire, sizeof alpn_wire - 1) != 0 ||
        SSL_CTX_use_certificate(c->ssl, me->cert) != 1 ||
        SSL_CTX_use_PrivateKey(c->ssl, me->key) != 1)
        return fail_tls(err, "preparing secure connections");
    *ret = AQ_STEAL(c);
    return AQ_OK;
}

void aq_tls_ctx_free(aq_tls_ctx *c)
{
    if (!c)
        return;
    SSL_CTX_free(c->ssl);
    BIO_meth_free(c->bio);
    free(c);
}

int aq_tls_new(const aq_tls_ctx *ctx, bool dialer, aq_tls_accept_fn accept, void *user,
               aq_tls **ret, aq_err *err)
{
    AQ_AUTO(aq_tls_free) aq_tls *t = calloc(1, sizeof *t);

    if (!t)
        return aq_fail(err, AQ_E_NOMEM, "no memory for a secure connection");
    t->accept = accept;
    t->user = user;
    t->ssl = SSL_new(ctx->ssl);
    BIO *bio = t->ssl ? BIO_new(ctx->bio) : NULL;
    if (!bio)
        return fail_tls(err, "making a secure connection");
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    if (SSL_set_app_data(t->ssl, t) != 1)
        return fail_tls(err, "making a secure connection");
    if (dialer)
        SSL_set_connect_state(t->ssl);
    else
        SSL_set_accept_state(t->ssl);
    *ret = AQ_STEAL(t);
    return AQ_OK;
}

void aq_tls_free(aq_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    ERR_clear_error();
    aq_bytes_clear(&t->out);
    free(t);
}

void aq_tls_input(aq_tls *t, const void *p, size_t n)
{
    t->in = p;
    t->n_in = n;
}

int aq_tls_handshake(aq_tls *t, aq_err *err)
{
    const unsigned char *alpn;
    unsigned n;

    ERR_clear_error();
    int r = SSL_do_handshake(t->ssl);
    if (r != 1)
        return SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_READ
                   ? 0
                   : fail_tls(err, "the secure connection failed");
    SSL_get0_alpn_selected(t->ssl, &alpn, &n);
    if (n != strlen(ALPN) || memcmp(alpn, ALPN, n) != 0 || !t->known)
        return aq_fail(err, AQ_E_PROTO, "what answers there is not Aquifer");
    return 1;
}

int aq_tls_read(aq_tls *t, void *buf, size_t n, size_t *ret_n, aq_err *err)
{
    size_t got = 0;

    ERR_clear_error();
    int r = SSL_read_ex(t->ssl, buf, n, &got);
    if (r == 1) {
        *ret_n = got;
        return 1;
    }
    switch (SSL_get_error(t->ssl, r)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return aq_fail(err, AQ_E_GONE, "the other PC closed the connection");
    default:
        return fail_tls(err, "the secure connection broke");
    }
}

int aq_tls_write(aq_tls *t, const void *p, size_t n, aq_err *err)
{
    size_t put = 0;

    if (n == 0)
        return AQ_OK;
    ERR_clear_error();
    if (SSL_write_ex(t->ssl, p, n, &put) != 1 || put != n)
        return fail_tls(err, "writing to the secure connection failed");
    return AQ_OK;
}

void aq_tls_close(aq_tls *t)
{
    ERR_clear_error();
    if (SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl);
    ERR_clear_error();
}

const uint8_t *aq_tls_output(const aq_tls *t, size_t *ret_n)
{
    *ret_n = t->out.n - t->n_sent;
    return t->out.p ? t->out.p + t->n_sent : NULL;
}

void aq_tls_sent(aq_tls *t, size_t n)
{
    t->n_sent += n;
    if (t->n_sent >= t->out.n) {
        t->out.n = t->n_sent = 0;
    } else if (t->n_sent > SENT_MAX) { /* it may never be empty */
        memmove(t->out.p, t->out.p + t->n_sent, t->out.n - t->n_sent);
        t->out.n -= t->n_sent;
        t->n_sent = 0;
    }
}

const aq_id *aq_tls_peer_id(const aq_tls *t)
{
    return &t->peer;
}

const uint8_t *aq_tls_peer_cert_hash(const aq_tls *t)
{
    return t->cert_hash;
}

int aq_tls_exporter(aq_tls *t, uint8_t ret[32], aq_err *err)
{
    ERR_clear_error();
    if (SSL_export_keying_material(t->ssl, ret, 32, EXPORTER_LABEL, strlen(EXPORTER_LABEL),
                                   (const unsigned char *)"", 0, 1) != 1)
        return fail_tls(err, "binding the connection failed");
    return AQ_OK;
}
