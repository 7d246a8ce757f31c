/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed headers of a GGUF file or of all its shards. Shared by the parser, the weight source and the model card.
 * Immutable once opened; the count of holders is atomic, so a weight source may outlive the model. */
#ifndef AQ_GGUF_PRIV_H
#define AQ_GGUF_PRIV_H

#include "model-priv.h"

/* What a file may claim. Real files stay far below; a claim above is refused before anything is multiplied or allocated. */
#define AQ_GGUF_HEADER_MAX (256ull << 20) /* bytes before the weights, per shard */
#define AQ_GGUF_KEYS_MAX 65536u
#define AQ_GGUF_TENSORS_MAX 65536u /* per shard and over all */
#define AQ_GGUF_SHARDS_MAX 1024u
#define AQ_GGUF_KEY_BYTES_MAX 1024u
#define AQ_GGUF_NAME_BYTES_MAX 256u
#define AQ_GGUF_STRING_BYTES_MAX (64u << 20)
#define AQ_GGUF_ARRAY_MAX (1u << 24) /* elements */
#define AQ_GGUF_DIMS_MAX 4u
#define AQ_GGUF_DIM_MAX (1ull << 40)
#define AQ_GGUF_FILE_BYTES_MAX \
    (1ull << 46)                     /* of a shard: sums over tensors and shards stay below 2^63 */
#define AQ_GGUF_ALIGN_MAX (1u << 20) /* bytes */

#define AQ_GGUF_AGAIN "download or copy the file again" /* what to do about a damaged one */

typedef struct aq_kv {
    aq_str key;
    uint32_t kind, elem; /* AQ_KV_*; elem: kind of an array's elements */
    uint64_t n;          /* elements of an array, else 1 */
    size_t off, bytes;   /* the value (an array: its first element) within the header */
} aq_kv;

typedef struct aq_shard {
    char *path;       /* owned */
    const char *file; /* path without folders, for messages */
    int fd;           /* -1: made from a card */
    uint64_t file_bytes;
    uint64_t dev, ino;
    struct timespec written; /* when the file was last written to, as it was opened */
    uint8_t *head; /* [head_bytes] from the start of the file to the end of the tensor table */
    size_t head_bytes;
    uint64_t data_off; /* where tensor offsets count from */
    aq_kv *kv;         /* [n_kv] sorted by key */
    uint32_t n_kv, n_tensor;
    aq_tensor *tensor; /* [n_tensor] in file order; moved into aq_gguf when all shards are there */
} aq_shard;

struct aq_gguf {
    _Atomic uint32_t holders;
    uint32_t n_shard, n_tensor;
    aq_shard *shard;   /* [n_shard]; the key-values of the first one are the model's */
    aq_tensor *tensor; /* [n_tensor] */
    uint32_t *by_name; /* [n_tensor] indices sorted by name */
    uint64_t file_bytes;
};

static inline int aq_str_cmp(aq_str a, aq_str b)
{
    int c = memcmp(a.p, b.p, AQ_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}
int aq_kv_cmp(const void *, const void *); /* two aq_kv by key, for qsort and bsearch */

int aq_gguf_open(const char *path, aq_gguf **ret, aq_err *) AQ_MUST;
/** One shard's header as it came in a card; head is copied. */
typedef struct aq_head_view {
    const uint8_t *head;
    size_t n;
    uint64_t file_bytes;
} aq_head_view;
/** Read and check one header, of a file or of a card. *s is zero but for fd = -1; half-built on failure. */
int aq_shard_open(aq_shard *s, const char *path, aq_err *) AQ_MUST;
int aq_shard_from_head(aq_shard *s, const aq_head_view *, aq_err *) AQ_MUST;

int aq_gguf_from_heads(const aq_head_view *, uint32_t n, aq_gguf **ret, aq_err *) AQ_MUST;
aq_gguf *aq_gguf_hold(aq_gguf *);
void aq_gguf_free(aq_gguf *); /* lets go; the last holder frees and closes */
AQ_CLEANUP_FUNC(aq_gguf *, aq_gguf_free)
const aq_kv *aq_gguf_find(const aq_gguf *, const char *key);
int32_t aq_gguf_tensor(const aq_gguf *, const char *name, size_t n); /* index or -1 */
const char *aq_kv_kind_name(uint32_t kind);

/** A foreign string made fit for a message: printable ASCII, cut. */
#define AQ_SHOW_BYTES 80
const char *aq_str_show(aq_str, char buf[AQ_SHOW_BYTES]);

/** Weight source over the shards' files; takes over their descriptors and holds the gguf. */
int aq_wsrc_files(aq_gguf *, aq_wsrc *ret, aq_err *) AQ_MUST;

#endif
