/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the room: files, identity, roster text, and what links need of the trust. */
#ifndef AQ_TRUST_PRIV_H
#define AQ_TRUST_PRIV_H

#include "aq/pool.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

/* ---- file.c ---------------------------------------------------------------------------------- */

/** The whole file; 1, or 0 when there is none. LIMIT over max bytes; AUTH when `secret` and others
 * than the owner may read it. */
int aq_file_read(const char *dir, const char *name, size_t max, bool secret, aq_bytes *ret,
                 aq_err *) AQ_MUST;
/** Replace it at once (temporary file, fsync, rename, fsync of the folder), mode 0600. On failure
 * the old file is as it was. */
int aq_file_write(const char *dir, const char *name, const void *, size_t n, aq_err *) AQ_MUST;
int aq_file_remove(const char *dir, const char *name, aq_err *) AQ_MUST; /* absent is fine */
void aq_bytes_wipe(aq_bytes *);                                          /* wipes, then frees */
static inline void aq_bytes_wipe_p(aq_bytes *b)
{
    aq_bytes_wipe(b);
}
int aq_random(void *ret, size_t n, aq_err *) AQ_MUST;

/* ---- identity.c ------------------------------------------------------------------------------ */

typedef struct aq_identity {
    EVP_PKEY *key;
    X509 *cert;
    aq_id id;
} aq_identity;
/** Load, or make at first use. */
int aq_identity_open(const char *dir, const aq_secret_store *, aq_identity *ret, aq_err *) AQ_MUST;
void aq_identity_clear(aq_identity *);
int aq_id_of_cert(X509 *, aq_id *ret, uint8_t ret_cert_hash[32],
                  aq_err *) AQ_MUST; /* hash may be NULL */

/* ---- roster.c -------------------------------------------------------------------------------- */

/** As text with its mac. share: without permissions, lines joined by ';' (as a frame carries it). */
int aq_roster_print(const aq_roster *, const uint8_t secret[AQ_SECRET_BYTES], bool share,
                    aq_bytes *ret, aq_err *) AQ_MUST;
/** FORMAT, LIMIT; AUTH when the mac is wrong; UNSUPPORTED for a later version of the format. */
int aq_roster_parse(const char *text, size_t n, bool share, const uint8_t secret[AQ_SECRET_BYTES],
                    aq_roster *ret, aq_err *) AQ_MUST;
/** The epoch a roster says it has, without checking it; for finding its secret. */
int aq_roster_peek_epoch(const char *text, size_t n, uint32_t *ret, aq_err *) AQ_MUST;
aq_member *aq_roster_find(aq_roster *, const aq_id *);
/** Insert or replace by id; LIMIT when full. */
int aq_roster_put(aq_roster *, const aq_member *, aq_err *) AQ_MUST;
bool aq_roster_drop(aq_roster *, const aq_id *);
int aq_hmac(const uint8_t key[AQ_SECRET_BYTES], const void *, size_t n, uint8_t ret[32]) AQ_MUST;

/* ---- trust.c: for links ---------------------------------------------------------------------- */

/** What one handshake needs, copied; wipe it. */
typedef struct aq_cred {
    bool in_pool;
    uint8_t pool[16];
    uint32_t epoch;
    uint64_t version; /* of the roster */
    uint8_t secret[AQ_SECRET_BYTES];
    char name[AQ_NAME_MAX + 1];
} aq_cred;
void aq_trust_cred(const aq_trust *, aq_cred *ret);
const aq_identity *aq_trust_identity(const aq_trust *);
/** The holder takes calls at this socket ("" = at none); as aq_trust_hold_port. */
int aq_trust_hold_socket(aq_trust *, const char *path, aq_err *) AQ_MUST;
/** Take a pool over as the other side granted it (this PC must be in no pool). shared: as a frame
 * carries it; the granting PC is entered with what is known of it. */
int aq_trust_adopt(aq_trust *, const uint8_t pool[16], uint32_t epoch,
                   const uint8_t secret[AQ_SECRET_BYTES], const char *shared, size_t n,
                   aq_err *) AQ_MUST;
/** The secret was typed in and proved: a pool of which only first, the PC that proved it too, is
 * known. */
int aq_trust_join(aq_trust *, const uint8_t pool[16], uint32_t epoch,
                  const uint8_t secret[AQ_SECRET_BYTES], const aq_member *first, aq_err *) AQ_MUST;
/** A newer secret and its roster from a member, over a link proved by its certificate. */
int aq_trust_rekey(aq_trust *, uint32_t epoch, const uint8_t secret[AQ_SECRET_BYTES],
                   const char *shared, size_t n, aq_err *) AQ_MUST;
/** A roster that came over a link: 1 = taken, 0 = older or the same. */
int aq_trust_merge(aq_trust *, const char *shared, size_t n, aq_err *) AQ_MUST;
/** This PC's roster as a frame carries it. */
int aq_trust_share(const aq_trust *, aq_bytes *ret, aq_err *) AQ_MUST;

#endif
