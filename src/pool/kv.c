/* SPDX-License-Identifier: Apache-2.0 */
/* Control payloads: lines `key=value\n` with unknown keys ignored. Reading borrows the payload and
 * allocates nothing. Any thread. */
#include "wire-priv.h"

#include <stdio.h>

static bool key_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (!first && ((c >= '0' && c <= '9') || c == '_'));
}

/* Only `roster` may be longer than AQ_WIRE_VALUE_MAX. */
static bool long_key(const char *key, uint32_t n)
{
    return n == 6 && memcmp(key, "roster", 6) == 0;
}

static int check_value(const char *v, uint32_t n, uint32_t line, aq_err *err)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t cp;
        bool bad = false;

        i += aq_utf8_next(v + i, n - i, &cp, &bad);
        if (bad || cp < 0x20 || cp == 0x7f)
            return aq_fail(err, AQ_E_FORMAT, "line %u holds a byte that is no text", line);
    }
    return AQ_OK;
}

int aq_kv_parse(const void *payload, size_t n, aq_kv *ret, aq_err *err)
{
    const char *p = payload;
    size_t off = 0;
    uint32_t line = 0;
    int rc;

    if (n > AQ_WIRE_CTL_MAX)
        return aq_fail(err, AQ_E_LIMIT, "%zu bytes of keys, at most %u", n, AQ_WIRE_CTL_MAX);
    ret->n_line = 0;
    ret->p = p;
    while (off < n) {
        const char *end = memchr(p + off, '\n', n - off);
        uint32_t at = (uint32_t)off, n_key = 0;

        line++;
        if (!end)
            return aq_fail(err, AQ_E_FORMAT, "line %u has no end", line);
        if (line > AQ_WIRE_LINES_MAX)
            return aq_fail(err, AQ_E_LIMIT, "more than %u lines", AQ_WIRE_LINES_MAX);
        uint32_t n_line = (uint32_t)(end - p - (ptrdiff_t)off);
        while (n_key < n_line && key_char(p[at + n_key], n_key == 0))
            n_key++;
        if (n_key == 0 || n_key >= n_line || p[at + n_key] != '=')
            return aq_fail(err, AQ_E_FORMAT, "line %u is not key=value", line);
        uint32_t n_val = n_line - n_key - 1;
        if (n_key > AQ_WIRE_KEY_MAX || (n_val > AQ_WIRE_VALUE_MAX && !long_key(p + at, n_key)))
            return aq_fail(err, AQ_E_LIMIT, "line %u is too long", line);
        if ((rc = check_value(p + at + n_key + 1, n_val, line, err)) < 0)
            return rc;
        for (uint32_t i = 0; i < ret->n_line; i++)
            if (ret->line[i].n_key == n_key && memcmp(p + ret->line[i].key, p + at, n_key) == 0)
                return aq_fail(err, AQ_E_FORMAT, "line %u repeats the key %.*s", line, (int)n_key,
                               p + at);
        ret->line[ret->n_line].key = at;
        ret->line[ret->n_line].n_key = n_key;
        ret->line[ret->n_line].val = at + n_key + 1;
        ret->line[ret->n_line].n_val = n_val;
        ret->n_line++;
        off = (size_t)(end - p) + 1;
    }
    return AQ_OK;
}

const char *aq_kv_get(const aq_kv *kv, const char *key, uint32_t *ret_n)
{
    size_t n = strlen(key);

    for (uint32_t i = 0; i < kv->n_line; i++)
        if (kv->line[i].n_key == n && memcmp(kv->p + kv->line[i].key, key, n) == 0) {
            *ret_n = kv->line[i].n_val;
            return kv->p + kv->line[i].val;
        }
    return NULL;
}

/* 1 with *ret, 0 = absent, FORMAT = absent and needed. */
static int find(const aq_kv *kv, const char *key, bool need, const char **ret, uint32_t *ret_n,
                aq_err *err)
{
    const char *v = aq_kv_get(kv, key, ret_n);

    if (!v)
        return need ? aq_fail(err, AQ_E_FORMAT, "the key %s is missing", key) : 0;
    *ret = v;
    return 1;
}

int aq_kv_u64(const aq_kv *kv, const char *key, bool need, uint64_t max, uint64_t *ret, aq_err *err)
{
    const char *v = NULL;
    uint32_t n = 0;
    uint64_t x = 0;
    int rc = find(kv, key, need, &v, &n, err);

    if (rc <= 0)
        return rc;
    bool good = n > 0 && n <= 20 && (n == 1 || v[0] != '0');
    for (uint32_t i = 0; good && i < n; i++)
        good = v[i] >= '0' && v[i] <= '9' && !__builtin_mul_overflow(x, 10, &x) &&
               !__builtin_add_overflow(x, (uint64_t)(v[i] - '0'), &x);
    if (!good)
        return aq_fail(err, AQ_E_FORMAT, "the key %s is not a number", key);
    if (x > max)
        return aq_fail(err, AQ_E_LIMIT, "the key %s is %llu, at most %llu", key,
                       (unsigned long long)x, (unsigned long long)max);
    *ret = x;
    return 1;
}

int aq_kv_u32(const aq_kv *kv, const char *key, bool need, uint32_t max, uint32_t *ret, aq_err *err)
{
    uint64_t x;
    int rc = aq_kv_u64(kv, key, need, max, &x, err);

    if (rc == 1)
        *ret = (uint32_t)x;
    return rc;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int aq_kv_hex(const aq_kv *kv, const char *key, bool need, uint8_t *ret, size_t n_bytes,
              aq_err *err)
{
    const char *v = NULL;
    uint32_t n = 0;
    int rc = find(kv, key, need, &v, &n, err);

    if (rc <= 0)
        return rc;
    bool good = n == 2 * n_bytes;
    for (uint32_t i = 0; good && i < n; i++)
        good = hex_digit(v[i]) >= 0;
    if (!good)
        return aq_fail(err, AQ_E_FORMAT, "the key %s is not %zu hexadecimal digits", key,
                       2 * n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        ret[i] = (uint8_t)(hex_digit(v[2 * i]) << 4 | hex_digit(v[2 * i + 1]));
    return 1;
}

int aq_kv_bits(const aq_kv *kv, const char *key, bool need, uint64_t *ret, aq_err *err)
{
    uint8_t b[8];
    int rc = aq_kv_hex(kv, key, need, b, sizeof b, err);

    if (rc == 1) {
        uint64_t x = 0;
        for (int i = 0; i < 8; i++)
            x = x << 8 | b[i];
        *ret = x;
    }
    return rc;
}

int aq_kv_text(const aq_kv *kv, const char *key, bool need, char *ret, size_t cap, aq_err *err)
{
    const char *v = NULL;
    uint32_t n = 0;
    int rc = find(kv, key, need, &v, &n, err);

    if (rc <= 0)
        return rc;
    if (n >= cap)
        return aq_fail(err, AQ_E_LIMIT, "the key %s is %u bytes long, at most %zu", key, n,
                       cap - 1);
    memcpy(ret, v, n);
    ret[n] = 0;
    return 1;
}

int aq_kv_put_text(aq_bytes *b, const char *key, const char *text)
{
    size_t n = strlen(text), n_key = strlen(key), from = b->n;
    size_t cap = long_key(key, (uint32_t)n_key) ? AQ_WIRE_CTL_MAX : AQ_WIRE_VALUE_MAX;
    int rc = aq_bytes_reserve(b, n_key + AQ_MIN(n, cap) + 2);

    if (rc < 0)
        return rc;
    if ((rc = aq_bytes_put(b, key, n_key)) < 0 || (rc = aq_bytes_puts(b, "=")) < 0)
        goto fail;
    for (size_t i = 0, out = 0; i < n;) {
        uint32_t cp;
        bool bad = false;
        uint32_t took = aq_utf8_next(text + i, n - i, &cp, &bad);
        const char *s = bad ? "?" : cp < 0x20 || cp == 0x7f ? " " : text + i;
        uint32_t n_s = s == text + i ? took : 1;

        if (out + n_s > cap)
            break;
        if ((rc = aq_bytes_put(b, s, n_s)) < 0)
            goto fail;
        out += n_s;
        i += took;
    }
    if ((rc = aq_bytes_puts(b, "\n")) < 0)
        goto fail;
    return AQ_OK;
fail:
    b->n = from;
    return rc;
}

int aq_kv_put_u64(aq_bytes *b, const char *key, uint64_t x)
{
    return aq_bytes_putf(b, "%s=%llu\n", key, (unsigned long long)x);
}

int aq_kv_put_hex(aq_bytes *b, const char *key, const uint8_t *p, size_t n)
{
    char hex[2 * 64 + 1];

    if (n > 64)
        return -AQ_E_LIMIT;
    aq_hex(p, n, hex);
    int rc = aq_bytes_putf(b, "%s=%s\n", key, hex);
    aq_mem_wipe(hex, sizeof hex);
    return rc;
}

int aq_kv_put_bits(aq_bytes *b, const char *key, uint64_t x)
{
    return aq_bytes_putf(b, "%s=%016llx\n", key, (unsigned long long)x);
}
