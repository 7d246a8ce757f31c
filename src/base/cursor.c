/* SPDX-License-Identifier: Apache-2.0 */
/* The byte cursor: little-endian reads from foreign bytes, each checked against what is left. One
 * thread at a time.
 *
 *   p             p+off                     p+n
 *   |-- consumed --|-------- left ----------|
 */
#include "aq/base.h"

#include <endian.h>

/* Copy the next n bytes to ret and step over them. */
static int take(aq_cur *c, void *ret, size_t n)
{
    if (aq_cur_left(c) < n)
        return -AQ_E_FORMAT;
    memcpy(ret, c->p + c->off, n);
    c->off += n;
    return AQ_OK;
}

int aq_cur_get_u8(aq_cur *c, uint8_t *ret)
{
    return take(c, ret, sizeof *ret);
}

int aq_cur_get_u16(aq_cur *c, uint16_t *ret)
{
    uint16_t v;
    int rc = take(c, &v, sizeof v);

    if (rc == AQ_OK)
        *ret = le16toh(v);
    return rc;
}

int aq_cur_get_u32(aq_cur *c, uint32_t *ret)
{
    uint32_t v;
    int rc = take(c, &v, sizeof v);

    if (rc == AQ_OK)
        *ret = le32toh(v);
    return rc;
}

int aq_cur_get_u64(aq_cur *c, uint64_t *ret)
{
    uint64_t v;
    int rc = take(c, &v, sizeof v);

    if (rc == AQ_OK)
        *ret = le64toh(v);
    return rc;
}

int aq_cur_get_f32(aq_cur *c, float *ret)
{
    uint32_t v;
    int rc = aq_cur_get_u32(c, &v);

    if (rc == AQ_OK)
        memcpy(ret, &v, sizeof v);
    return rc;
}

int aq_cur_get_f64(aq_cur *c, double *ret)
{
    uint64_t v;
    int rc = aq_cur_get_u64(c, &v);

    if (rc == AQ_OK)
        memcpy(ret, &v, sizeof v);
    return rc;
}

int aq_cur_get_bytes(aq_cur *c, size_t n, const uint8_t **ret)
{
    if (aq_cur_left(c) < n)
        return -AQ_E_FORMAT;
    *ret = c->p + c->off;
    c->off += n;
    return AQ_OK;
}

int aq_cur_skip(aq_cur *c, uint64_t n)
{
    if (aq_cur_left(c) < n)
        return -AQ_E_FORMAT;
    c->off += (size_t)n;
    return AQ_OK;
}
