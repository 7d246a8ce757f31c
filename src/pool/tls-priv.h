/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 as a machine of bytes: ciphertext in, plaintext out, and the other way. No sockets. One
 * thread at a time owns an aq_tls. */
#ifndef AQ_TLS_PRIV_H
#define AQ_TLS_PRIV_H

#include "trust-priv.h"

#define AQ_TLS_CERT_MAX_BYTES 8192u

typedef struct aq_tls_ctx aq_tls_ctx; /* shared by all connections; read only after it was made */
typedef struct aq_tls aq_tls;
/** Whether a certificate of this id may come in; the id is proved afterwards. */
typedef bool (*aq_tls_accept_fn)(void *user, const aq_id *);

int aq_tls_ctx_new(const aq_identity *, aq_tls_ctx **ret, aq_err *) AQ_MUST;
void aq_tls_ctx_free(aq_tls_ctx *);
AQ_CLEANUP_FUNC(aq_tls_ctx *, aq_tls_ctx_free)
int aq_tls_new(const aq_tls_ctx *, bool dialer, aq_tls_accept_fn, void *user, aq_tls **ret,
               aq_err *) AQ_MUST;
void aq_tls_free(aq_tls *);
AQ_CLEANUP_FUNC(aq_tls *, aq_tls_free)

/** Ciphertext that arrived. Borrowed: call aq_tls_handshake and aq_tls_read until they return 0
 * before it goes away. */
void aq_tls_input(aq_tls *, const void *, size_t n);
/** 1 = done, 0 = needs input; AUTH (the other side refuses this PC's certificate, or the other way),
 * PROTO. There may be output in every case. */
int aq_tls_handshake(aq_tls *, aq_err *) AQ_MUST;
/** 1 and *ret_n bytes, 0 = needs input; GONE (closed), AUTH, PROTO. */
int aq_tls_read(aq_tls *, void *buf, size_t n, size_t *ret_n, aq_err *) AQ_MUST;
int aq_tls_write(aq_tls *, const void *, size_t n, aq_err *) AQ_MUST;
void aq_tls_close(aq_tls *); /* writes the end of the stream */
/** Ciphertext to be sent; aq_tls_sent says how much of it was. */
const uint8_t *aq_tls_output(const aq_tls *, size_t *ret_n);
void aq_tls_sent(aq_tls *, size_t n);

/* After the handshake. */
const aq_id *aq_tls_peer_id(const aq_tls *);
const uint8_t *aq_tls_peer_cert_hash(const aq_tls *); /* [32] */
int aq_tls_exporter(aq_tls *, uint8_t ret[32], aq_err *) AQ_MUST;

#endif
