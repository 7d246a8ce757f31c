/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate that this PC shows to programs: of the key that is its identity, for the names and addresses that programs reach it
 * by. Programs are given the file and check it like any other; so it stays the same as long as it holds every name.
 *
 *   server.crt   certificate, PEM
 *
 * Any thread, one at a time. */
#include "member-priv.h"
#include "trust-priv.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <unistd.h>

#define CERT_FILE "server.crt"
#define CERT_MAX_BYTES 16384u
#define NAMES_MAX 64u

typedef struct names {
    char name[NAMES_MAX][INET6_ADDRSTRLEN > 256 ? INET6_ADDRSTRLEN : 256];
    bool address[NAMES_MAX];
    uint32_t n;
} names;

static void add(names *l, const char *name, bool address)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (!strcasecmp(l->name[i], name))
            return;
    if (l->n == NAMES_MAX || !*name || strlen(name) >= sizeof l->name[0])
        return;
    /* what a certificate's list of names is written with */
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") !=
        strlen(name))
        return;
    l->address[l->n] = address;
    snprintf(l->name[l->n++], sizeof l->name[0], "%s", name);
}

static void add_given(names *l, const char *name)
{
    uint8_t b[16];

    add(l, name, inet_pton(AF_INET, name, b) == 1 || inet_pton(AF_INET6, name, b) == 1);
}

static void add_own(names *l)
{
    char host[200] = "", text[INET6_ADDRSTRLEN];
    struct ifaddrs *all = NULL;

    add(l, "localhost", false);
    add(l, "127.0.0.1", true);
    add(l, "::1", true);
    if (gethostname(host, sizeof host - 8) == 0 && *host) {
        size_t n = strlen(host);
        add(l, host, false);
        snprintf(host + n, sizeof host - n, ".local");
        add(l, host, false);
    }
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        const void *p = NULL;
        if (!a->ifa_addr)
            continue;
        if (a->ifa_addr->sa_family == AF_INET)
            p = &((const struct sockaddr_in *)a->ifa_addr)->sin_addr;
        else if (a->ifa_addr->sa_family == AF_INET6)
            p = &((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
        if (p && inet_ntop(a->ifa_addr->sa_family, p, text, sizeof text))
            add(l, text, true);
    }
    freeifaddrs(all);
}

static bool covers(X509 *c, const names *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if ((l->address[i] ? X509_check_ip_asc(c, l->name[i], 0)
                           : X509_check_host(c, l->name[i], 0, 0, NULL)) != 1)
            return false;
    return true;
}

/* The kept one, when it is of this key and has all names; else NULL. */
static X509 *load(const char *dir, const aq_identity *me, const names *l)
{
    __attribute__((cleanup(aq_bytes_wipe_p))) aq_bytes b = {0};
    X509 *c = NULL;

    if (aq_file_read(dir, CERT_FILE, CERT_MAX_BYTES, false, &b, NULL) == 1) {
        BIO *bio = BIO_new_mem_buf(b.p, (int)b.n);
        c = bio ? PEM_read_bio_X509(bio, NULL, NULL, (void *)"") : NULL;
        BIO_free(bio);
    }
    if (c && (X509_check_private_key(c, me->key) != 1 || !covers(c, l))) {
        X509_free(c);
        c = NULL;
    }
    ERR_clear_error();
    return c;
}

static bool put_ext(X509 *c, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    bool good = e && X509_add_ext(c, e, -1) == 1;

    X509_EXTENSION_free(e);
    return good;
}

static X509 *make(const aq_identity *me, const names *l)
{
    X509 *c = X509_new();
    X509_NAME *subject = c ? X509_get_subject_name(c) : NULL;
    char list[NAMES_MAX * 264] = "";
    uint8_t serial[8];
    size_t n = 0;

    for (uint32_t i = 0; i < l->n; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s:%s", i ? "," : "",
                              l->address[i] ? "IP" : "DNS", l->name[i]);
    if (!c || aq_random(serial, sizeof serial, NULL) < 0) {
        X509_free(c);
        return NULL;
    }
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 1);
    BIGNUM *bn = BN_bin2bn(serial, sizeof serial, NULL);
    bool good = bn && BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(c)) &&
                X509_set_version(c, 2) == 1 &&
                ASN1_TIME_set_string(X509_getm_notBefore(c), "20200101000000Z") == 1 &&
                ASN1_TIME_set_string(X509_getm_notAfter(c), "99991231235959Z") == 1 &&
                X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                           (const unsigned char *)"Aquifer", -1, -1, 0) == 1 &&
                X509_set_issuer_name(c, subject) == 1 && X509_set_pubkey(c, me->key) == 1 &&
                put_ext(c, NID_basic_constraints, "critical,CA:FALSE") &&
                put_ext(c, NID_ext_key_usage, "serverAuth") &&
                put_ext(c, NID_subject_alt_name, list) && X509_sign(c, me->key, EVP_sha256()) > 0;
    BN_free(bn);
    if (!good) {
        X509_free(c);
        c = NULL;
    }
    return c;
}

static int keep(const char *dir, X509 *c, aq_err *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *p = NULL;
    int rc = -AQ_E_NOMEM;

    if (bio && PEM_write_bio_X509(bio, c) == 1) {
        long n = BIO_get_mem_data(bio, &p);
        rc = aq_file_write(dir, CERT_FILE, p, (size_t)n, err);
    }
    BIO_free(bio);
    return rc;
}

static int write_pem(X509 *c, const aq_identity *me, aq_bytes *ret)
{
    BIO *bio = BIO_new(BIO_s_secmem() ? BIO_s_secmem() : BIO_s_mem());
    char *p = NULL;
    int rc = -AQ_E_NOMEM;

    if (bio && PEM_write_bio_X509(bio, c) == 1 &&
        PEM_write_bio_PKCS8PrivateKey(bio, me->key, NULL, NULL, 0, NULL, NULL) == 1) {
        long n = BIO_get_mem_data(bio, &p);
        rc = aq_bytes_reserve(ret, (size_t)n + 1);
        rc = rc < 0 ? rc : aq_bytes_put(ret, p, (size_t)n);
        rc = rc < 0 ? rc : aq_bytes_put(ret, "", 1);
        aq_mem_wipe(p, (size_t)n);
    }
    BIO_free(bio);
    return rc;
}

int aq_trust_server_cert(const aq_trust *t, const char *const *name, uint32_t n, aq_bytes *ret_pem,
                         char *ret_path, size_t cap, aq_err *err)
{
    const aq_identity *me = aq_trust_identity(t);
    const char *dir = aq_trust_dir(t);
    names l = {0};
    int rc = 0;

    for (uint32_t i = 0; i < n; i++)
        add_given(&l, name[i]);
    add_own(&l);
    X509 *c = load(dir, me, &l);
    if (!c && (c = make(me, &l)))
        rc = keep(dir, c, err);
    if (!c)
        rc = aq_fail(err, AQ_E_NOMEM, "this PC's certificate cannot be made");
    if (rc >= 0 && (rc = write_pem(c, me, ret_pem)) < 0)
        rc = aq_fail(err, AQ_E_NOMEM, "no memory for this PC's certificate");
    X509_free(c);
    ERR_clear_error();
    if (rc >= 0)
        snprintf(ret_path, cap, "%s/" CERT_FILE, dir);
    return rc < 0 ? rc : 0;
}
