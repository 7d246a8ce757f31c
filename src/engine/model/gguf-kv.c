/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in the key-values of a GGUF. Any thread. */
#include <inttypes.h>
#include <stdio.h>

#include "gguf-priv.h"

static int wrong(const aq_gguf *g, const aq_kv *kv, const char *want, aq_err *err)
{
    char show[AQ_SHOW_BYTES];
    return aq_fail(
        err, AQ_E_FORMAT,
        "%s: '%s' should be %s but is %s%s; the file is damaged or was converted wrongly",
        g->shard[0].file, aq_str_show(kv->key, show), want,
        kv->kind == AQ_KV_ARR ? "an array of " : "a value of kind ",
        aq_kv_kind_name(kv->kind == AQ_KV_ARR ? kv->elem : kv->kind));
}

static aq_cur value(const aq_gguf *g, const aq_kv *kv)
{
    return (aq_cur){g->shard[0].head, kv->off + kv->bytes, kv->off};
}

/** The next integer of this kind, when it is one that fits: 0, else -1. */
static int next_u32(aq_cur *c, uint32_t kind, uint32_t *ret)
{
    uint8_t a;
    uint16_t b;
    uint32_t d;
    uint64_t e;
    switch (kind) {
    case AQ_KV_U8:
    case AQ_KV_I8:
    case AQ_KV_BOOL:
        if (aq_cur_get_u8(c, &a) < 0 || (kind == AQ_KV_I8 && a > INT8_MAX) ||
            (kind == AQ_KV_BOOL && a > 1))
            return -1;
        *ret = a;
        return 0;
    case AQ_KV_U16:
    case AQ_KV_I16:
        if (aq_cur_get_u16(c, &b) < 0 || (kind == AQ_KV_I16 && b > INT16_MAX))
            return -1;
        *ret = b;
        return 0;
    case AQ_KV_U32:
    case AQ_KV_I32:
        if (aq_cur_get_u32(c, &d) < 0 || (kind == AQ_KV_I32 && d > INT32_MAX))
            return -1;
        *ret = d;
        return 0;
    case AQ_KV_U64:
    case AQ_KV_I64:
        if (aq_cur_get_u64(c, &e) < 0 || e > UINT32_MAX)
            return -1;
        *ret = (uint32_t)e;
        return 0;
    default:
        return -1;
    }
}

int aq_gguf_u32(const aq_gguf *g, const char *key, uint32_t *ret, aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    aq_cur c = value(g, kv);
    if (kv->kind == AQ_KV_BOOL || next_u32(&c, kv->kind, ret) < 0)
        return wrong(g, kv, "a whole number from 0 to 4294967295", err);
    return 1;
}

int aq_gguf_u32s(const aq_gguf *g, const char *key, uint32_t *ret, uint32_t n, aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    char want[96];
    snprintf(want, sizeof want, "a whole number or an array of %u of them", n);
    aq_cur c = value(g, kv);
    if (kv->kind != AQ_KV_ARR) {
        uint32_t v;
        if (next_u32(&c, kv->kind, &v) < 0)
            return wrong(g, kv, want, err);
        for (uint32_t i = 0; i < n; i++)
            ret[i] = v;
        return 1;
    }
    if (kv->n != n)
        return aq_fail(err, AQ_E_FORMAT,
                       "%s: '%s' has %" PRIu64
                       " elements, %u are needed (one a layer); the file was converted wrongly",
                       g->shard[0].file, key, kv->n, n);
    aq_cur look = c;
    uint32_t v;
    for (uint32_t i = 0; i < n; i++) /* first look, so that ret is untouched on failure */
        if (next_u32(&look, kv->elem, &v) < 0)
            return wrong(g, kv, want, err);
    for (uint32_t i = 0; i < n; i++)
        if (next_u32(&c, kv->elem, &ret[i]) < 0)
            return wrong(g, kv, want, err);
    return 1;
}

int aq_gguf_f32(const aq_gguf *g, const char *key, float *ret, aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    aq_cur c = value(g, kv);
    float f;
    double d;
    uint32_t u;
    if (kv->kind == AQ_KV_FLOAT && !aq_cur_get_f32(&c, &f))
        ;
    else if (kv->kind == AQ_KV_DOUBLE && !aq_cur_get_f64(&c, &d))
        f = (float)d;
    else if (kv->kind != AQ_KV_BOOL && !next_u32(&c, kv->kind, &u))
        f = (float)u;
    else
        return wrong(g, kv, "a number", err);
    if (!__builtin_isfinite(f))
        return aq_fail(err, AQ_E_FORMAT, "%s: '%s' is not a finite number; the file is damaged",
                       g->shard[0].file, key);
    *ret = f;
    return 1;
}

int aq_gguf_bool(const aq_gguf *g, const char *key, bool *ret, aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    aq_cur c = value(g, kv);
    uint8_t b;
    if (kv->kind != AQ_KV_BOOL || aq_cur_get_u8(&c, &b) < 0 || b > 1)
        return wrong(g, kv, "yes or no", err);
    *ret = b;
    return 1;
}

int aq_gguf_str(const aq_gguf *g, const char *key, aq_str *ret, aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->kind != AQ_KV_STR)
        return wrong(g, kv, "a text", err);
    *ret = (aq_str){(const char *)g->shard[0].head + kv->off + 8, (uint32_t)(kv->bytes - 8)};
    return 1;
}

int aq_gguf_arr(const aq_gguf *g, const char *key, uint32_t *ret_kind, uint64_t *ret_n, aq_cur *ret,
                aq_err *err)
{
    const aq_kv *kv = aq_gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->kind != AQ_KV_ARR)
        return wrong(g, kv, "an array", err);
    *ret_kind = kv->elem;
    *ret_n = kv->n;
    *ret = value(g, kv);
    return 1;
}
