/* SPDX-License-Identifier: Apache-2.0 */
/* What every room stands on: status codes, errors, cleanup, byte buffer and cursor, arena, ring,
 * strict JSON, SHA-256, clock, failpoints and log. libc, pthread and libcrypto only; nothing here
 * prints, exits or aborts.
 *
 * Conventions: a fallible function returns >= 0 or a negative -AQ_E_*, fills the caller's `aq_err`
 * (may be NULL) and leaves its `ret_*` outputs untouched on failure. Destructors accept NULL and
 * half-built objects. */
#ifndef AQ_BASE_H
#define AQ_BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_MUST __attribute__((warn_unused_result))
#define AQ_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define AQ_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define AQ_MIN(a, b) ((a) < (b) ? (a) : (b))
#define AQ_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- cleanup --------------------------------------------------------------------------------- */

/** AQ_CLEANUP_FUNC(type, fn): defines `fn##_p(type *)` for AQ_AUTO(fn). */
#define AQ_CLEANUP_FUNC(type, fn)                              \
    static inline __attribute__((unused)) void fn##_p(type *p) \
    {                                                          \
        fn(*p);                                                \
    }
#define AQ_AUTO(fn) __attribute__((cleanup(fn##_p)))
static inline void aq_free_p(void *p)
{
    free(*(void **)p);
}
#define AQ_AUTOFREE __attribute__((cleanup(aq_free_p)))
void aq_fd_close_p(int *fd); /* closes *fd if >= 0 and sets it to -1 */
#define AQ_AUTOFD __attribute__((cleanup(aq_fd_close_p)))
/** Take the value out of an auto variable, leaving NULL behind. */
#define AQ_STEAL(p)                 \
    ({                              \
        __typeof__(p) steal_ = (p); \
        (p) = NULL;                 \
        steal_;                     \
    })

/* ---- status and errors ----------------------------------------------------------------------- */

enum {
    AQ_OK = 0,
#define AQ_STATUS(name, num, http, text) AQ_E_##name = num,
#include "aq/status.def"
#undef AQ_STATUS
};

/** One sentence for a person: what failed, where, what to do. No newline, never a secret or a
 * prompt. */
typedef struct aq_err {
    int code; /* positive AQ_E_*, 0 = none */
    char text[500];
} aq_err;

/** Fill err (may be NULL) and return -code, so that `return aq_fail(err, AQ_E_IO, "…")` is one
 * line. Text is cut on a UTF-8 boundary. */
int aq_fail(aq_err *err, int code, const char *fmt, ...) AQ_PRINTF(3, 4);
/** As aq_fail with errno's meaning appended; ENOMEM -> NOMEM, EACCES/EPERM -> AUTH, ETIMEDOUT ->
 * TIMEOUT, else IO. */
int aq_fail_errno(aq_err *err, int errnum, const char *fmt, ...) AQ_PRINTF(3, 4);
/** Put `what: ` before the text of an existing error; returns rc unchanged. */
int aq_err_prefix(aq_err *err, int rc, const char *fmt, ...) AQ_PRINTF(3, 4);
/** "INVAL" for AQ_E_INVAL or -AQ_E_INVAL; "OK" for 0; "UNKNOWN" for what is in no table. */
const char *aq_status_name(int rc);
const char *aq_status_text(int rc); /* untranslated sentence; callers with gettext translate it */
int aq_status_http(int rc);

/* ---- growing bytes --------------------------------------------------------------------------- */

typedef struct aq_bytes {
    uint8_t *p;
    size_t n, cap;
} aq_bytes;
#define AQ_BYTES_MAX (1ull << 31) /* no buffer of the program grows past 2 GiB */
/* NOMEM or LIMIT, the buffer is unchanged then. What is put must not lie in the buffer itself. */
int aq_bytes_put(aq_bytes *, const void *, size_t n) AQ_MUST;
int aq_bytes_puts(aq_bytes *, const char *) AQ_MUST;
int aq_bytes_putf(aq_bytes *, const char *fmt, ...) AQ_PRINTF(2, 3) AQ_MUST;
int aq_bytes_reserve(aq_bytes *, size_t n_more) AQ_MUST;
const char *aq_bytes_str(aq_bytes *); /* NUL-terminated view; NULL when out of memory */
void aq_bytes_clear(aq_bytes *);      /* frees */
static inline void aq_bytes_clear_p(aq_bytes *b)
{
    aq_bytes_clear(b);
}

/* ---- cursor: the only place that walks over foreign bytes; little-endian --------------------- */

typedef struct aq_cur {
    const uint8_t *p;
    size_t n, off; /* off <= n always */
} aq_cur;
/* Each returns 0, or -AQ_E_FORMAT when too little is left (cursor and output untouched). */
int aq_cur_get_u8(aq_cur *, uint8_t *ret) AQ_MUST;
int aq_cur_get_u16(aq_cur *, uint16_t *ret) AQ_MUST;
int aq_cur_get_u32(aq_cur *, uint32_t *ret) AQ_MUST;
int aq_cur_get_u64(aq_cur *, uint64_t *ret) AQ_MUST;
int aq_cur_get_f32(aq_cur *, float *ret) AQ_MUST;
int aq_cur_get_f64(aq_cur *, double *ret) AQ_MUST;
int aq_cur_get_bytes(aq_cur *, size_t n, const uint8_t **ret) AQ_MUST; /* borrowed */
int aq_cur_skip(aq_cur *, uint64_t n) AQ_MUST;
static inline size_t aq_cur_left(const aq_cur *c)
{
    return c->n - c->off;
}

/* ---- arena: many small objects, freed at once ------------------------------------------------ */

typedef struct aq_arena aq_arena;
/** limit_bytes: total after which allocation fails, 0 = AQ_BYTES_MAX. Not thread safe. */
aq_arena *aq_arena_new(size_t limit_bytes);
void aq_arena_free(aq_arena *);
AQ_CLEANUP_FUNC(aq_arena *, aq_arena_free)
/** Zeroed, 16-byte aligned; NULL on limit or out of memory. */
void *aq_arena_alloc(aq_arena *, size_t n) AQ_MUST;
char *aq_arena_strndup(aq_arena *, const char *, size_t n) AQ_MUST;
size_t aq_arena_used(const aq_arena *);

/* ---- ring: bounded records between exactly one writer and one reader thread ------------------ */

typedef struct aq_ring aq_ring;
/** Rounded up to a power of two, 4 KiB .. 16 MiB; NULL when out of memory. */
aq_ring *aq_ring_new(uint32_t cap_bytes);
void aq_ring_free(aq_ring *);
AQ_CLEANUP_FUNC(aq_ring *, aq_ring_free)
/** Append one record of the two parts joined. 1 = taken and the ring was empty before (wake the
 * reader), 0 = taken, -AQ_E_BUSY = full (nothing written), -AQ_E_LIMIT = can never fit: a record
 * with its 8 bytes of head, rounded up to 8, takes at most half the ring. The reader pops until 0
 * before it waits for the next wake. Writer thread. */
int aq_ring_push(aq_ring *, const void *head, uint32_t n_head, const void *body,
                 uint32_t n_body) AQ_MUST;
/** 1 and the oldest record (contiguous, 8-byte aligned, valid until the next pop), or 0 when empty.
 * Reader thread. */
int aq_ring_pop(aq_ring *, const void **ret, uint32_t *ret_n);
uint32_t aq_ring_free_bytes(const aq_ring *); /* any thread; a hint for the writer */

/* ---- strict JSON (RFC 8259): parse into an arena, order kept, duplicate keys refused --------- */

enum {
    AQ_JSON_NULL,
    AQ_JSON_FALSE,
    AQ_JSON_TRUE,
    AQ_JSON_INT,
    AQ_JSON_NUM,
    AQ_JSON_STR,
    AQ_JSON_ARR,
    AQ_JSON_OBJ
};
typedef struct aq_json {
    uint8_t kind;
    uint32_t n;      /* STR: bytes; ARR, OBJ: items */
    uint32_t key_n;  /* bytes of key, when member of an object */
    const char *key; /* NUL-terminated */
    union {
        const char *str;      /* NUL-terminated, may hold NUL inside; valid UTF-8 */
        int64_t i;            /* INT: fits int64; other numbers are NUM */
        double num;           /* NUM */
        struct aq_json *item; /* first of n items, linked by next */
    };
    struct aq_json *next;
    /* Numbers: a copy of the source text (raw_n bytes, NUL-terminated), so that 1e16 or a big
     * integer can be shown as written. Else private. */
    const char *raw;
    uint32_t raw_n;
} aq_json;
#define AQ_JSON_DEPTH_MAX 128
/** Errors: FORMAT with byte offset, LIMIT (depth, arena), NOMEM. Invalid UTF-8, lone surrogates,
 * numbers too large for a double and trailing bytes are refused. The tree does not refer to
 * text. */
int aq_json_parse(aq_arena *, const char *text, size_t n, const aq_json **ret, aq_err *) AQ_MUST;
/** NULL if absent or obj is no object (obj may be NULL). */
const aq_json *aq_json_get(const aq_json *obj, const char *key);
const char *aq_json_str(const aq_json *obj, const char *key); /* NULL if absent or no string */
double aq_json_num(const aq_json *obj, const char *key, double dflt);
/** 2.0 and 1e2 are integers too; 2.5, 1e300 and strings give dflt. */
int64_t aq_json_int(const aq_json *obj, const char *key, int64_t dflt);
bool aq_json_bool(const aq_json *obj, const char *key, bool dflt);
/** Append "text" quoted and escaped (control characters, quote, backslash; everything else as is;
 * invalid UTF-8 becomes U+FFFD). */
int aq_json_quote(aq_bytes *, const char *text, size_t n) AQ_MUST;
/** Append a parsed value as text again: order kept, numbers as they were written. */
int aq_json_put(aq_bytes *, const aq_json *) AQ_MUST;

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/** Decode one code point of s[0..n): returns bytes taken (1..4, 0 when n is 0) and *ret; an invalid
 * byte gives 1 and *ret = 0xFFFD with *ret_bad = true (may be NULL). */
uint32_t aq_utf8_next(const char *s, size_t n, uint32_t *ret, bool *ret_bad);
uint32_t aq_utf8_put(uint32_t cp, char out[4]); /* returns bytes written */

/* ---- SHA-256, constant-time compare, wipe ---------------------------------------------------- */

typedef struct aq_sha256 aq_sha256;
aq_sha256 *aq_sha256_new(void);
void aq_sha256_free(aq_sha256 *);
AQ_CLEANUP_FUNC(aq_sha256 *, aq_sha256_free)
int aq_sha256_add(aq_sha256 *, const void *, size_t n) AQ_MUST;
int aq_sha256_end(aq_sha256 *, uint8_t ret[32]) AQ_MUST; /* then add and end give INVAL */
void aq_hex(const uint8_t *, size_t n, char *ret);       /* ret[2n+1] */
bool aq_mem_equal_ct(const void *, const void *, size_t n);
void aq_mem_wipe(void *, size_t n);

/* ---- clock: monotonic; tests may replace it -------------------------------------------------- */

int64_t aq_now_us(void);
/** Tests only: freeze at t_us (>= 0), or follow the real clock again (< 0). */
void aq_clock_set(int64_t t_us);
void aq_clock_advance(int64_t d_us); /* of a frozen clock; the real one is not moved */
/** Wall clock for dates in templates: seconds since 1970; AQ_FAKE_TIME-style override by tests. */
int64_t aq_wall_s(void);
void aq_wall_set(int64_t s); /* tests; < 0 = real */

/* ---- failpoints: named places where tests make things fail ----------------------------------- */

/** True when the point is armed and its countdown has run out. One relaxed atomic load when nothing
 * is armed. */
bool aq_failpoint(const char *name);
/** Arm `name` to fail at its n-th hit from now (1 = next), for `times` hits; n = 0 disarms. Thread
 * safe. */
int aq_failpoint_set(const char *name, uint32_t n, uint32_t times);

/* ---- log: `room level key=value`; the last 2,000 lines stay in memory ------------------------ */

enum { AQ_LOG_ERROR, AQ_LOG_WARN, AQ_LOG_INFO, AQ_LOG_DEBUG };
typedef void (*aq_log_fn)(void *user, int level, const char *line);
void aq_log_set(aq_log_fn, void *user, int max_level); /* the program sets it once at start */
/** Never a prompt, never a secret. Control characters become spaces; lines are cut at 239 bytes. */
void aq_log(int level, const char *room, const char *fmt, ...) AQ_PRINTF(3, 4);
/** Copy the last lines, oldest first, into buf (NUL-terminated); returns bytes. Async-signal-safe:
 * takes no lock, may tear one line. */
size_t aq_log_tail(char *buf, size_t cap);

/* ---- crash note (programs call it once; libraries never) ------------------------------------- */

/** Install handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT that write build id, addresses and
 * the last log lines to `path` (absolute; opened at the crash, 0600) and then re-raise. Also for the
 * calling thread out of stack. */
int aq_crash_note_install(const char *path, const char *build_id, aq_err *) AQ_MUST;

#ifdef __cplusplus
}
#endif
#endif
