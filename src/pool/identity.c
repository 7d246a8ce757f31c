/* SPDX-License-Identifier: Apache-2.0 */
/* This PC's key pair and self-signed certificate, made at first use. The id is the SHA-256 of the
 * certificate's SubjectPublicKeyInfo, so a certificate made anew for the same key is the same PC.
 *
 *   identity-key (secret)   "aquifer-key 1\n" | PKCS #8, PEM
 *   identity.crt            "aquifer-identity 1\n" | certificate, PEM
 */
#include "trust-priv.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/file.h>
#include <unistd.h>

#define KEY_HEAD "aquifer-key 1\n"
#define CERT_HEAD "aquifer-identity 1\n"
#define CERT_FILE "identity.crt"
#define CERT_MAX_BYTES 8192u

/* OpenSSL's queue belongs to the thread; it must not be left for the next caller. */
static int crypto_fail(aq_err *err, const char *what)
{
    char why[120] = "";
    unsigned long e = ERR_peek_last_error();

    if (e)
        ERR_error_string_n(e, why, sizeof why);
    ERR_clear_error();
    return aq_fail(err, AQ_E_NOMEM, "%s failed (%s)", what, why);
}

int aq_id_of_cert(X509 *cert, aq_id *ret, uint8_t ret_cert_hash[32], aq_err *err)
{
    uint8_t *der = NULL;
    unsigned n = 0;
    aq_id id;
    uint8_t hash[32];
    int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);

    if (len <= 0)
        return crypto_fail(err, "reading a certificate");
    int good = EVP_Digest(der, (size_t)len, id.b, &n, EVP_sha256(), NULL) == 1 && n == 32;
    OPENSSL_free(der);
    if (!good || X509_digest(cert, EVP_sha256(), hash, &n) != 1 || n != 32)
        return crypto_fail(err, "reading a certificate");
    *ret = id;
    if (ret_cert_hash)
        memcpy(ret_cert_hash, hash, 32);
    return AQ_OK;
}

/* No expiry: trust comes from the roster, and a PC's clock may be wrong. */
static int make_cert(EVP_PKEY *key, X509 **ret, aq_err *err)
{
    X509 *c = X509_new();
    uint8_t serial[8];
    int rc = aq_random(serial, sizeof serial, err);

    if (rc < 0) {
        X509_free(c);
        return rc;
    }
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 1);
    BIGNUM *bn = BN_bin2bn(serial, sizeof serial, NULL);
    X509_NAME *name = c ? X509_get_subject_name(c) : NULL;
    bool good = c && bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(c)) &&
                X509_set_version(c, 2) == 1 &&
                ASN1_TIME_set_string(X509_getm_notBefore(c), "20200101000000Z") == 1 &&
                ASN1_TIME_set_string(X509_getm_notAfter(c), "99991231235959Z") == 1 &&
                X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                           (const unsigned char *)"Aquifer", -1, -1, 0) == 1 &&
                X509_set_issuer_name(c, name) == 1 && X509_set_pubkey(c, key) == 1 &&
                X509_sign(c, key, EVP_sha256()) > 0;
    BN_free(bn);
    if (!good) {
        X509_free(c);
        return crypto_fail(err, "making a certificate");
    }
    *ret = c;
    return AQ_OK;
}

static int save_key(EVP_PKEY *key, const aq_secret_store *store, aq_err *err)
{
    BIO *bio = BIO_new(BIO_s_secmem() ? BIO_s_secmem() : BIO_s_mem());
    char *p = NULL;
    int rc;

    if (!bio || BIO_puts(bio, KEY_HEAD) <= 0 ||
        PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1) {
        rc = crypto_fail(err, "writing the key");
    } else {
        long n = BIO_get_mem_data(bio, &p);
        rc = store->save(store->self, "identity-key", (uint8_t *)p, (size_t)n, err);
        aq_mem_wipe(p, (size_t)n);
    }
    BIO_free(bio);
    return rc;
}

static int save_cert(X509 *cert, const char *dir, aq_err *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *p = NULL;
    int rc;

    if (!bio || BIO_puts(bio, CERT_HEAD) <= 0 || PEM_write_bio_X509(bio, cert) != 1) {
        rc = crypto_fail(err, "writing the certificate");
    } else {
        long n = BIO_get_mem_data(bio, &p);
        rc = aq_file_write(dir, CERT_FILE, p, (size_t)n, err);
    }
    BIO_free(bio);
    return rc;
}

/* A BIO over what follows the head line, or NULL with the error set. */
static BIO *after_head(const aq_bytes *b, const char *head, const char *what, aq_err *err)
{
    size_t n = strlen(head);

    if (b->n < n || memcmp(b->p, head, n) != 0) {
        aq_fail(err, AQ_E_FORMAT, "%s is damaged or was written by a later version of Aquifer",
                what);
        return NULL;
    }
    BIO *bio = BIO_new_mem_buf(b->p + n, (int)(b->n - n));
    if (!bio)
        aq_fail(err, AQ_E_NOMEM, "no memory for %s", what);
    return bio;
}

/* An encrypted key must not make OpenSSL ask on the terminal. */
static int no_password(char *buf, int size, int rw, void *user)
{
    return 0;
}

static int load_key(const aq_secret_store *store, EVP_PKEY **ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0};
    int rc = aq_bytes_reserve(&b, AQ_SECRET_FILE_MAX);

    if (rc < 0)
        return aq_fail(err, -rc, "no memory for the key of this PC");
    if ((rc = store->load(store->self, "identity-key", b.p, AQ_SECRET_FILE_MAX, &b.n, err)) < 0)
        return rc;
    if (b.n == 0)
        return 0;
    BIO *bio = after_head(&b, KEY_HEAD, "the key of this PC", err);
    if (!bio)
        return err ? -err->code : -AQ_E_FORMAT;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    BIO_free(bio);
    ERR_clear_error();
    if (!key)
        return aq_fail(err, AQ_E_FORMAT,
                       "the key of this PC is damaged: remove it and pair this PC again");
    *ret = key;
    return 1;
}

static int load_cert(const char *dir, X509 **ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0};
    int rc = aq_file_read(dir, CERT_FILE, CERT_MAX_BYTES, false, &b, err);

    if (rc <= 0)
        return rc;
    BIO *bio = after_head(&b, CERT_HEAD, CERT_FILE, err);
    if (!bio)
        return err ? -err->code : -AQ_E_FORMAT;
    X509 *cert = PEM_read_bio_X509(bio, NULL, no_password, NULL);
    BIO_free(bio);
    ERR_clear_error();
    if (!cert)
        return aq_fail(err, AQ_E_FORMAT, "%s/%s is damaged: remove it, it is made again", dir,
                       CERT_FILE);
    *ret = cert;
    return 1;
}

/* What is there: 1 = key and certificate, 0 = not both. */
static int load_both(const char *dir, const aq_secret_store *store, aq_identity *me, aq_err *err)
{
    int key = load_key(store, &me->key, err), cert;

    if (key < 0)
        return key;
    if ((cert = load_cert(dir, &me->cert, err)) < 0)
        return cert;
    return key && cert;
}

/* Make what is missing. Under the folder's lock. */
static int make_rest(const char *dir, const aq_secret_store *store, aq_identity *me, aq_err *err)
{
    int rc;

    if (!me->key && me->cert)
        return aq_fail(err, AQ_E_AUTH,
                       "the key of this PC is lost: remove %s/%s and pair this PC again", dir,
                       CERT_FILE);
    if (!me->key) {
        if (!(me->key = EVP_EC_gen("P-256")))
            return crypto_fail(err, "making a key");
        if ((rc = save_key(me->key, store, err)) < 0)
            return rc;
    }
    if (me->cert)
        return AQ_OK;
    if ((rc = make_cert(me->key, &me->cert, err)) < 0)
        return rc;
    return save_cert(me->cert, dir, err);
}

/* Two programs at first use must not make two keys: the folder itself is locked meanwhile. */
static int make_once(const char *dir, const aq_secret_store *store, aq_identity *me, aq_err *err)
{
    AQ_AUTOFD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return aq_fail_errno(err, errno, "%s", dir);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return aq_fail_errno(err, errno, "the lock of %s", dir);
    aq_identity_clear(me);
    rc = load_both(dir, store, me, err);
    return rc == 0 ? make_rest(dir, store, me, err) : rc;
}

int aq_identity_open(const char *dir, const aq_secret_store *store, aq_identity *ret, aq_err *err)
{
    aq_identity me = {0};
    aq_err local = {0}; /* after_head's code must be readable */
    int rc = load_both(dir, store, &me, &local);

    if (rc == 0)
        rc = make_once(dir, store, &me, &local);
    if (rc >= 0 && X509_check_private_key(me.cert, me.key) != 1) {
        ERR_clear_error();
        rc = aq_fail(&local, AQ_E_MISMATCH,
                     "%s/%s belongs to another key: remove it, it is made again", dir, CERT_FILE);
    }
    if (rc >= 0)
        rc = aq_id_of_cert(me.cert, &me.id, NULL, &local);
    if (rc < 0) {
        aq_identity_clear(&me);
        if (err)
            *err = local;
        return rc;
    }
    *ret = me;
    return AQ_OK;
}

void aq_identity_clear(aq_identity *me)
{
    EVP_PKEY_free(me->key);
    X509_free(me->cert);
    *me = (aq_identity){0};
}
