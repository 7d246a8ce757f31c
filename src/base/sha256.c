/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by libcrypto, hex, constant-time compare and wipe. A digest belongs to one thread at a
 * time. */
#include "aq/base.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

struct aq_sha256 {
    EVP_MD_CTX *ctx;
    bool ended;
};

aq_sha256 *aq_sha256_new(void)
{
    aq_sha256 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        aq_sha256_free(h);
        return NULL;
    }
    return h;
}

void aq_sha256_free(aq_sha256 *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    free(h);
}

int aq_sha256_add(aq_sha256 *h, const void *p, size_t n)
{
    if (h->ended)
        return -AQ_E_INVAL;
    return EVP_DigestUpdate(h->ctx, p, n) == 1 ? AQ_OK : -AQ_E_NOMEM;
}

int aq_sha256_end(aq_sha256 *h, uint8_t ret[32])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (h->ended)
        return -AQ_E_INVAL;
    h->ended = true;
    if (EVP_DigestFinal_ex(h->ctx, sum, &n) != 1 || n != 32)
        return -AQ_E_NOMEM;
    memcpy(ret, sum, 32);
    return AQ_OK;
}

void aq_hex(const uint8_t *p, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[p[i] >> 4];
        ret[2 * i + 1] = digits[p[i] & 15];
    }
    ret[2 * n] = 0;
}

bool aq_mem_equal_ct(const void *a, const void *b, size_t n)
{
    return CRYPTO_memcmp(a, b, n) == 0;
}

void aq_mem_wipe(void *p, size_t n)
{
    if (n > 0)
        OPENSSL_cleanse(p, n);
}
