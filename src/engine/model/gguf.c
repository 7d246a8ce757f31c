/* SPDX-License-Identifier: Apache-2.0 */
/* The header of one GGUF file, version 3, little-endian.
 *
 *   "GGUF" u32 version  i64 n_tensor  i64 n_kv
 *   n_kv     × { string key   u32 kind   value }                       string: u64 bytes, then the bytes
 *   n_tensor × { string name  u32 n_dims  i64 ne[n_dims]  u32 type  u64 offset }   array: u32 kind, u64 count, elements
 *   padding to general.alignment, then the weights; offsets count from there
 *
 * The header is read with pread into memory that grows as far as the header reaches: a file cut short meanwhile is an error, never
 * a fault. Arrays stay bytes and are walked by cursor. Every length is held against a named limit and against what the file has left
 * before it is used. Threads: opening is one thread's work; afterwards everything is read-only. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-priv.h"

#define HEAD_FIRST_BYTES ((size_t)1 << 20)
#define NEED_MORE 1 /* the header goes on behind the bytes read so far */

static const uint8_t kind_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* 0: string, array */
static const char *const kind_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};

const char *aq_kv_kind_name(uint32_t kind)
{
    return kind < AQ_LEN(kind_names) ? kind_names[kind] : "unknown";
}

const char *aq_str_show(aq_str s, char buf[AQ_SHOW_BYTES])
{
    size_t n = AQ_MIN(s.n, (uint32_t)AQ_SHOW_BYTES - 4);
    for (size_t i = 0; i < n; i++)
        buf[i] = s.p[i] >= ' ' && s.p[i] < 127 ? s.p[i] : '?';
    memcpy(buf + n, "...", 4);
    if (n == s.n)
        buf[n] = 0;
    return buf;
}

/* ---- one header ------------------------------------------------------------------------------------------------------ */

typedef struct parser {
    aq_shard *s;
    aq_cur c;
    aq_err *err;
    char show[AQ_SHOW_BYTES];
} parser;

/** The cursor could not be served: more of the file is to be read, or there is no more. */
static int ended(parser *p, const char *in)
{
    if (p->c.n < p->s->file_bytes)
        return NEED_MORE;
    return aq_fail(p->err, AQ_E_FORMAT,
                   "%s is truncated: it ends at byte %" PRIu64 " inside %s; " AQ_GGUF_AGAIN,
                   p->s->file, p->s->file_bytes, in);
}

static uint64_t left_in_file(const parser *p)
{
    return p->s->file_bytes - p->c.off;
}

static int get_str(parser *p, uint32_t max, const char *in, aq_str *ret)
{
    size_t at = p->c.off;
    uint64_t n;
    const uint8_t *b;
    if (aq_cur_get_u64(&p->c, &n) < 0)
        return ended(p, in);
    if (n > max)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "%s, byte %zu: %s has a string of %" PRIu64
                       " bytes, the limit is %u; the file is damaged, " AQ_GGUF_AGAIN,
                       p->s->file, at, in, n, max);
    if (n > left_in_file(p))
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s is truncated or damaged: at byte %zu %s has a string of %" PRIu64
                       " bytes, the file has only %" PRIu64 " left; " AQ_GGUF_AGAIN,
                       p->s->file, at, in, n, left_in_file(p));
    if (aq_cur_get_bytes(&p->c, (size_t)n, &b) < 0)
        return ended(p, in);
    *ret = (aq_str){(const char *)b, (uint32_t)n};
    return 0;
}

/** Walk over an array; kv gets its element kind, count and bytes. */
static int get_array(parser *p, aq_kv *kv, const char *in)
{
    size_t at = p->c.off;
    if (aq_cur_get_u32(&p->c, &kv->elem) < 0 || aq_cur_get_u64(&p->c, &kv->n) < 0)
        return ended(p, in);
    if (kv->elem >= AQ_LEN(kind_bytes))
        return aq_fail(
            p->err, AQ_E_FORMAT,
            "%s, byte %zu: %s is an array of unknown kind %u; the file is damaged, " AQ_GGUF_AGAIN,
            p->s->file, at, in, kv->elem);
    if (kv->elem == AQ_KV_ARR)
        return aq_fail(p->err, AQ_E_UNSUPPORTED,
                       "%s, byte %zu: %s is an array of arrays, which this version does not read",
                       p->s->file, at, in);
    if (kv->n > AQ_GGUF_ARRAY_MAX)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "%s, byte %zu: %s has %" PRIu64
                       " elements, the limit is %u; the file is damaged, " AQ_GGUF_AGAIN,
                       p->s->file, at, in, kv->n, AQ_GGUF_ARRAY_MAX);
    kv->off = p->c.off;
    uint64_t elem_min = kv->elem == AQ_KV_STR ? 8 : kind_bytes[kv->elem];
    if (kv->n * elem_min > left_in_file(p))
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s is truncated or damaged: at byte %zu %s has %" PRIu64
                       " elements, the file has only %" PRIu64 " bytes left; " AQ_GGUF_AGAIN,
                       p->s->file, at, in, kv->n, left_in_file(p));
    if (kv->elem != AQ_KV_STR) {
        if (aq_cur_skip(&p->c, kv->n * elem_min) < 0)
            return ended(p, in);
    } else {
        for (uint64_t i = 0; i < kv->n; i++) {
            aq_str s;
            int rc = get_str(p, AQ_GGUF_STRING_BYTES_MAX, in, &s);
            if (rc)
                return rc;
        }
    }
    kv->bytes = p->c.off - kv->off;
    return 0;
}

static int get_kv(parser *p, uint32_t i, aq_kv *kv)
{
    char in[AQ_SHOW_BYTES + 32];
    snprintf(in, sizeof in, "key %u", i);
    int rc = get_str(p, AQ_GGUF_KEY_BYTES_MAX, in, &kv->key);
    if (rc)
        return rc;
    if (!kv->key.n)
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s, byte %zu: key %u has no name; the file is damaged, " AQ_GGUF_AGAIN,
                       p->s->file, p->c.off, i);
    snprintf(in, sizeof in, "the value of '%s'", aq_str_show(kv->key, p->show));
    if (aq_cur_get_u32(&p->c, &kv->kind) < 0)
        return ended(p, in);
    if (kv->kind >= AQ_LEN(kind_bytes))
        return aq_fail(
            p->err, AQ_E_FORMAT,
            "%s, byte %zu: %s is of unknown kind %u; the file is damaged, " AQ_GGUF_AGAIN,
            p->s->file, p->c.off - 4, in, kv->kind);
    if (kv->kind == AQ_KV_ARR)
        return get_array(p, kv, in);
    kv->n = 1;
    kv->off = p->c.off;
    if (kv->kind == AQ_KV_STR) {
        aq_str s;
        if ((rc = get_str(p, AQ_GGUF_STRING_BYTES_MAX, in, &s)))
            return rc;
    } else if (aq_cur_skip(&p->c, kind_bytes[kv->kind]) < 0) {
        return ended(p, in);
    }
    kv->bytes = p->c.off - kv->off;
    return 0;
}

static int get_tensor(parser *p, uint32_t i, aq_tensor *t)
{
    char in[AQ_SHOW_BYTES + 32];
    snprintf(in, sizeof in, "tensor %u", i);
    int rc = get_str(p, AQ_GGUF_NAME_BYTES_MAX, in, &t->name);
    if (rc)
        return rc;
    const char *file = p->s->file;
    snprintf(in, sizeof in, "tensor '%s'", aq_str_show(t->name, p->show));
    if (!t->name.n)
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s, byte %zu: tensor %u has no name; the file is damaged, " AQ_GGUF_AGAIN,
                       file, p->c.off, i);
    if (aq_cur_get_u32(&p->c, &t->n_dims) < 0)
        return ended(p, in);
    if (t->n_dims < 1 || t->n_dims > AQ_GGUF_DIMS_MAX)
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s, byte %zu: %s has %u dimensions, 1 to %u are possible; the file is "
                       "damaged, " AQ_GGUF_AGAIN,
                       file, p->c.off - 4, in, t->n_dims, AQ_GGUF_DIMS_MAX);
    uint64_t n_vals = 1;
    for (uint32_t d = 0; d < AQ_GGUF_DIMS_MAX; d++) {
        t->ne[d] = 1;
        if (d >= t->n_dims)
            continue;
        if (aq_cur_get_u64(&p->c, &t->ne[d]) < 0)
            return ended(p, in);
        if (t->ne[d] < 1 || t->ne[d] > AQ_GGUF_DIM_MAX ||
            __builtin_mul_overflow(n_vals, t->ne[d], &n_vals))
            return aq_fail(p->err, AQ_E_FORMAT,
                           "%s, byte %zu: dimension %u of %s is %" PRIu64
                           ", which cannot be; the file is damaged, " AQ_GGUF_AGAIN,
                           file, p->c.off - 8, d, in, t->ne[d]);
    }
    uint32_t type;
    if (aq_cur_get_u32(&p->c, &type) < 0 || aq_cur_get_u64(&p->c, &t->off) < 0)
        return ended(p, in);
    t->type = aq_type_get(type);
    if (!t->type)
        return aq_fail(
            p->err, AQ_E_UNSUPPORTED,
            "%s, byte %zu: %s is stored in type %u, which this version has never heard of", file,
            p->c.off - 12, in, type);
    if (t->ne[0] % t->type->block_vals)
        return aq_fail(
            p->err, AQ_E_FORMAT,
            "%s: %s has rows of %" PRIu64
            " values, type %s needs a multiple of %u; the file is damaged or was converted wrongly",
            file, in, t->ne[0], t->type->name, t->type->block_vals);
    if (__builtin_mul_overflow(n_vals / t->type->block_vals, (uint64_t)t->type->block_bytes,
                               &t->bytes))
        return aq_fail(
            p->err, AQ_E_FORMAT,
            "%s: %s would take more bytes than can be counted; the file is damaged, " AQ_GGUF_AGAIN,
            file, in);
    return 0;
}

/** Magic, version, counts. */
static int get_start(parser *p, uint64_t *ret_n_tensor, uint64_t *ret_n_kv)
{
    const char *file = p->s->file;
    const uint8_t *magic;
    uint32_t v;
    if (!p->s->file_bytes)
        return aq_fail(p->err, AQ_E_FORMAT, "%s is empty; " AQ_GGUF_AGAIN, file);
    if (p->s->file_bytes > AQ_GGUF_FILE_BYTES_MAX)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "%s is said to have %" PRIu64 " bytes, the limit is %llu; " AQ_GGUF_AGAIN,
                       file, p->s->file_bytes, AQ_GGUF_FILE_BYTES_MAX);
    if (p->s->file_bytes < 4 || aq_cur_get_bytes(&p->c, 4, &magic) < 0)
        return p->s->file_bytes < 4 ? aq_fail(p->err, AQ_E_FORMAT,
                                              "%s is no GGUF file: it has only %" PRIu64 " bytes",
                                              file, p->s->file_bytes)
                                    : ended(p, "the magic");
    if (!memcmp(magic, "FUGG", 4))
        return aq_fail(
            p->err, AQ_E_UNSUPPORTED,
            "%s is a GGUF file in big-endian byte order; only little-endian files are read", file);
    if (memcmp(magic, "GGUF", 4))
        return aq_fail(p->err, AQ_E_FORMAT,
                       "%s is no GGUF file: it begins with %02x %02x %02x %02x instead of "
                       "\"GGUF\"; choose a model in GGUF format",
                       file, magic[0], magic[1], magic[2], magic[3]);
    if (aq_cur_get_u32(&p->c, &v) < 0)
        return ended(p, "the version");
    if (v && !(v & 0xffff))
        return aq_fail(p->err, AQ_E_UNSUPPORTED,
                       "%s is a GGUF file in big-endian byte order (version %u); only "
                       "little-endian files are read",
                       file, __builtin_bswap32(v));
    if (v != 3)
        return aq_fail(p->err, AQ_E_UNSUPPORTED,
                       "%s is a GGUF file of version %u; only version 3 is read: convert it again "
                       "with a current converter",
                       file, v);
    if (aq_cur_get_u64(&p->c, ret_n_tensor) < 0 || aq_cur_get_u64(&p->c, ret_n_kv) < 0)
        return ended(p, "the counts");
    if (*ret_n_tensor > AQ_GGUF_TENSORS_MAX)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "%s claims to hold %" PRIu64
                       " tensors, the limit is %u; the file is damaged, " AQ_GGUF_AGAIN,
                       file, *ret_n_tensor, AQ_GGUF_TENSORS_MAX);
    if (*ret_n_kv > AQ_GGUF_KEYS_MAX)
        return aq_fail(p->err, AQ_E_LIMIT,
                       "%s claims to hold %" PRIu64
                       " keys, the limit is %u; the file is damaged, " AQ_GGUF_AGAIN,
                       file, *ret_n_kv, AQ_GGUF_KEYS_MAX);
    return 0;
}

int aq_kv_cmp(const void *a, const void *b)
{
    return aq_str_cmp(((const aq_kv *)a)->key, ((const aq_kv *)b)->key);
}

/** The alignment of this shard's weights; 32 when not said. */
static int alignment(parser *p, uint32_t *ret)
{
    static const char key[] = "general.alignment";
    aq_kv want = {.key = {key, sizeof key - 1}};
    const aq_kv *kv =
        p->s->n_kv ? bsearch(&want, p->s->kv, p->s->n_kv, sizeof *kv, aq_kv_cmp) : NULL;
    uint32_t a = 32;
    if (kv) {
        aq_cur c = {p->s->head, p->s->head_bytes, kv->off};
        if (kv->kind != AQ_KV_U32 || aq_cur_get_u32(&c, &a) < 0 || !a || a & (a - 1) ||
            a > AQ_GGUF_ALIGN_MAX)
            return aq_fail(
                p->err, AQ_E_FORMAT,
                "%s: %s is no power of two up to %u; the file is damaged, " AQ_GGUF_AGAIN,
                p->s->file, key, AQ_GGUF_ALIGN_MAX);
    }
    *ret = a;
    return 0;
}

static int by_place(const void *a, const void *b, void *tensor)
{
    const aq_tensor *t = tensor, *x = &t[*(const uint32_t *)a], *y = &t[*(const uint32_t *)b];
    return (x->off > y->off) - (x->off < y->off);
}

/** Each tensor ends where the next begins, or before. */
static int no_overlap(parser *p)
{
    aq_shard *s = p->s;
    AQ_AUTOFREE uint32_t *at = calloc(s->n_tensor + 1, sizeof *at);
    if (!at)
        return aq_fail(p->err, AQ_E_NOMEM, "%s: no memory for its %u tensors", s->file,
                       s->n_tensor);
    for (uint32_t i = 0; i < s->n_tensor; i++)
        at[i] = i;
    qsort_r(at, s->n_tensor, sizeof *at, by_place, s->tensor);
    for (uint32_t i = 1; i < s->n_tensor; i++) {
        const aq_tensor *a = &s->tensor[at[i - 1]], *b = &s->tensor[at[i]];
        char other[AQ_SHOW_BYTES];
        if (b->off - a->off < a->bytes)
            return aq_fail(p->err, AQ_E_FORMAT,
                           "%s: its tensors '%s' and '%s' overlap (%" PRIu64
                           " bytes from offset %" PRIu64 " and what begins at %" PRIu64
                           "); the file is damaged, " AQ_GGUF_AGAIN,
                           s->file, aq_str_show(a->name, p->show), aq_str_show(b->name, other),
                           a->bytes, a->off - s->data_off, b->off - s->data_off);
    }
    return 0;
}

/** Where each tensor lies, and that it lies inside the file. */
static int place_tensors(parser *p)
{
    aq_shard *s = p->s;
    uint32_t align = 0;
    int rc = alignment(p, &align);
    if (rc)
        return rc;
    s->data_off = (s->head_bytes + align - 1) & ~((uint64_t)align - 1);
    uint64_t room = s->file_bytes > s->data_off ? s->file_bytes - s->data_off : 0;
    for (uint32_t i = 0; i < s->n_tensor; i++) {
        aq_tensor *t = &s->tensor[i];
        const char *name = aq_str_show(t->name, p->show);
        if (t->off % align)
            return aq_fail(
                p->err, AQ_E_FORMAT,
                "%s: tensor '%s' lies at offset %" PRIu64
                ", which is no multiple of the alignment %u; the file is damaged, " AQ_GGUF_AGAIN,
                s->file, name, t->off, align);
        if (t->off > room || t->bytes > room - t->off)
            return aq_fail(p->err, AQ_E_FORMAT,
                           "%s is truncated or damaged: tensor '%s' takes %" PRIu64
                           " bytes from offset %" PRIu64 ", the file has %" PRIu64
                           " bytes of weights; " AQ_GGUF_AGAIN,
                           s->file, name, t->bytes, t->off, room);
        t->off += s->data_off;
    }
    return no_overlap(p);
}

/** Parse the n bytes read so far. fill = false: only find the header's end. NEED_MORE: come again with more bytes. */
static int parse(aq_shard *s, const uint8_t *head, size_t n, bool fill, aq_err *err)
{
    parser p = {.s = s, .c = {head, n, 0}, .err = err};
    uint64_t n_tensor, n_kv;
    int rc = get_start(&p, &n_tensor, &n_kv);
    if (rc)
        return rc;
    if (fill) {
        s->kv = calloc(n_kv + 1, sizeof *s->kv);
        s->tensor = calloc(n_tensor + 1, sizeof *s->tensor);
        if (!s->kv || !s->tensor)
            return aq_fail(err, AQ_E_NOMEM,
                           "%s: no memory for its %" PRIu64 " keys and %" PRIu64 " tensors",
                           s->file, n_kv, n_tensor);
        s->n_kv = (uint32_t)n_kv;
        s->n_tensor = (uint32_t)n_tensor;
    }
    for (uint32_t i = 0; i < n_kv; i++) {
        aq_kv kv = {0};
        if ((rc = get_kv(&p, i, &kv)))
            return rc;
        if (fill)
            s->kv[i] = kv;
    }
    for (uint32_t i = 0; i < n_tensor; i++) {
        aq_tensor t = {0};
        if ((rc = get_tensor(&p, i, &t)))
            return rc;
        if (fill)
            s->tensor[i] = t;
    }
    s->head_bytes = p.c.off;
    if (!fill)
        return 0;
    qsort(s->kv, s->n_kv, sizeof *s->kv, aq_kv_cmp);
    for (uint32_t i = 1; i < s->n_kv; i++)
        if (!aq_str_cmp(s->kv[i - 1].key, s->kv[i].key))
            return aq_fail(err, AQ_E_FORMAT,
                           "%s holds the key '%s' twice; the file is damaged, " AQ_GGUF_AGAIN,
                           s->file, aq_str_show(s->kv[i].key, p.show));
    return place_tensors(&p);
}

/** Read [*ret_n, want) of the file behind what is there. */
static int read_more(aq_shard *s, size_t *n, size_t want, aq_err *err)
{
    uint8_t *b = realloc(s->head, want);
    if (!b)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for a header of %zu bytes", s->file, want);
    s->head = b;
    while (*n < want) {
        ssize_t r = aq_failpoint("gguf-read") ? (errno = EIO, -1)
                                              : pread(s->fd, s->head + *n, want - *n, (off_t)*n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return aq_fail_errno(err, errno, "cannot read %s at byte %zu", s->path, *n);
        if (!r)
            return aq_fail(err, AQ_E_IO,
                           "%s was cut short while it was being opened: it ends at byte %zu now, "
                           "it had %" PRIu64 "; " AQ_GGUF_AGAIN,
                           s->file, *n, s->file_bytes);
        *n += (size_t)r;
    }
    return 0;
}

int aq_shard_open(aq_shard *s, const char *path, aq_err *err)
{
    s->path = strdup(path);
    if (!s->path)
        return aq_fail(err, AQ_E_NOMEM, "no memory to open a file");
    const char *slash = strrchr(s->path, '/');
    s->file = slash && slash[1] ? slash + 1 : s->path;
    s->fd = open(path,
                 O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* NONBLOCK: a FIFO must not hang */
    struct stat st;
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return aq_fail_errno(err, errno,
                             "cannot open %s (check its name, and that you may read it)", path);
    if (!S_ISREG(st.st_mode))
        return aq_fail(err, AQ_E_IO, "%s is %s, not a file; choose a GGUF file", path,
                       S_ISDIR(st.st_mode) ? "a folder" : "something special");
    s->file_bytes = (uint64_t)st.st_size;
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    s->written = st.st_mtim;
    size_t n = 0, want = AQ_MIN(s->file_bytes, HEAD_FIRST_BYTES);
    int rc;
    do {
        if (want && (rc = read_more(s, &n, want, err)) < 0)
            return rc;
        rc = parse(s, s->head, n, false, err);
        if (rc == NEED_MORE && n >= AQ_GGUF_HEADER_MAX)
            return aq_fail(
                err, AQ_E_LIMIT,
                "%s has a header of more than %llu bytes; the file is damaged, " AQ_GGUF_AGAIN,
                s->file, AQ_GGUF_HEADER_MAX);
        want = (size_t)AQ_MIN(AQ_MIN(s->file_bytes, AQ_GGUF_HEADER_MAX), (uint64_t)n * 2);
    } while (rc == NEED_MORE);
    if (rc < 0)
        return rc;
    uint8_t *fit = realloc(s->head, s->head_bytes); /* what was read of the weights goes */
    if (!fit)
        return aq_fail(err, AQ_E_NOMEM, "%s: no memory for a header of %zu bytes", s->file,
                       s->head_bytes);
    s->head = fit;
    return parse(s, s->head, s->head_bytes, true, err);
}

int aq_shard_from_head(aq_shard *s, const aq_head_view *v, aq_err *err)
{
    s->path = strdup("the model card");
    s->head = malloc(v->n + 1);
    if (!s->path || !s->head)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read a model card");
    memcpy(s->head, v->head, v->n);
    s->file = s->path;
    s->file_bytes = v->file_bytes;
    int rc = parse(s, s->head, v->n, true, err);
    if (rc == NEED_MORE || (rc == 0 && s->head_bytes != v->n))
        return aq_fail(err, AQ_E_FORMAT,
                       "the model card is damaged: a part's header does not end where it should");
    return rc;
}
