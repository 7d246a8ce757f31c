/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of model files, kept in the state folder: making one reads the edges of every tensor,
 * also of layers that are not this PC's.
 *
 *   fingerprints   "aquifer-fingerprints 1\n"  n × "STAMP FINGERPRINT\n"  "sum SHA-256\n"    hex, oldest first
 *
 * A stamp is device, inode, size and time of writing of the model's files (aq_model_stamp). The sum is
 * over all lines before it: a damaged file, or one of another version, counts as none and is written
 * anew. Programs of one user may write it at the same time; the last one wins, and what is lost is made
 * again. Any thread. */
#include "split-priv.h"
#include "trust-priv.h"

#include <stdio.h>

#define FILE_NAME "fingerprints"
#define HEAD "aquifer-fingerprints 1\n"
#define HEAD_BYTES (sizeof HEAD - 1)
#define LINE_BYTES 130u           /* 64, a space, 64, a newline */
#define SUM_BYTES (4u + 64u + 1u) /* "sum " … "\n" */
#define FRESH_S 2                 /* written to so lately: it may change within one tick */

static int sum_of(const void *p, size_t n, char ret[SUM_BYTES + 1], aq_err *err)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    uint8_t d[32];
    char hex[65];

    if (!sha || aq_sha256_add(sha, p, n) < 0 || aq_sha256_end(sha, d) < 0)
        return aq_fail(err, AQ_E_NOMEM, "no memory for the list of fingerprints");
    aq_hex(d, sizeof d, hex);
    snprintf(ret, SUM_BYTES + 1, "sum %s\n", hex);
    return 0;
}

static bool hex_line(const uint8_t *p)
{
    for (uint32_t i = 0; i < LINE_BYTES; i++) {
        bool hex = (p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f');
        if (!(i == 64 ? p[i] == ' ' : i == LINE_BYTES - 1 ? p[i] == '\n' : hex))
            return false;
    }
    return true;
}

/* The lines, without head and sum; none when there is no sound file. */
static int load(const char *dir, aq_bytes *ret, aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    char sum[SUM_BYTES + 1];
    aq_err no = {0};
    int rc = aq_file_read(dir, FILE_NAME, HEAD_BYTES + AQ_PRINTS_MAX * LINE_BYTES + SUM_BYTES,
                          false, &b, &no);

    if (rc == 0)
        return 0;
    bool good = rc > 0 && b.n >= HEAD_BYTES + SUM_BYTES && !memcmp(b.p, HEAD, HEAD_BYTES) &&
                (b.n - HEAD_BYTES - SUM_BYTES) % LINE_BYTES == 0;
    if (good && (rc = sum_of(b.p, b.n - SUM_BYTES, sum, err)) < 0)
        return rc;
    good = good && !memcmp(b.p + b.n - SUM_BYTES, sum, SUM_BYTES);
    for (size_t at = HEAD_BYTES; good && at < b.n - SUM_BYTES; at += LINE_BYTES)
        good = hex_line(b.p + at);
    if (!good) {
        aq_log(AQ_LOG_WARN, "pool", "fingerprints=dropped %s", no.text);
        return 0;
    }
    rc = aq_bytes_put(ret, b.p + HEAD_BYTES, b.n - HEAD_BYTES - SUM_BYTES);
    return rc < 0 ? aq_fail(err, -rc, "no memory for the list of fingerprints") : 0;
}

/* Put a line last; the oldest goes when there are too many. */
static int save(const char *dir, const aq_bytes *lines, const char line[LINE_BYTES], aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    size_t from = lines->n / LINE_BYTES < AQ_PRINTS_MAX ? 0 : LINE_BYTES;
    char sum[SUM_BYTES + 1];
    int rc = aq_bytes_puts(&b, HEAD);

    rc = rc < 0 || lines->n == from ? rc : aq_bytes_put(&b, lines->p + from, lines->n - from);
    rc = rc < 0 ? rc : aq_bytes_put(&b, line, LINE_BYTES);
    if (rc < 0)
        return aq_fail(err, -rc, "no memory for the list of fingerprints");
    if ((rc = sum_of(b.p, b.n, sum, err)) < 0)
        return rc;
    rc = aq_bytes_puts(&b, sum);
    return rc < 0 ? aq_fail(err, -rc, "no memory for the list of fingerprints")
                  : aq_file_write(dir, FILE_NAME, b.p, b.n, err);
}

static uint8_t nibble(uint8_t c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

int aq_prints_get(const char *dir, const aq_model *m, const aq_wsrc *src, uint8_t ret[32],
                  aq_err *err)
{
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes lines = {0};
    uint8_t stamp[32], fp[32];
    char line[LINE_BYTES + 1], hex[65];
    int64_t written_s = 0;
    aq_err no = {0};
    bool keep = dir && aq_model_stamp(m, stamp, &written_s, &no) >= 0;

    if (keep) {
        int rc = load(dir, &lines, err);
        if (rc < 0)
            return rc;
        aq_hex(stamp, sizeof stamp, line);
        for (size_t at = 0; at < lines.n; at += LINE_BYTES) {
            const uint8_t *p = lines.p + at;
            if (memcmp(p, line, 64) != 0)
                continue;
            for (uint32_t i = 0; i < 32; i++)
                ret[i] = (uint8_t)(nibble(p[65 + 2 * i]) << 4 | nibble(p[66 + 2 * i]));
            return 0;
        }
    }
    int rc = aq_model_fingerprint(m, src, fp, err);
    if (rc < 0)
        return rc;
    if (keep && aq_wall_s() - written_s >= FRESH_S) {
        aq_hex(fp, sizeof fp, hex);
        snprintf(line + 64, sizeof line - 64, " %s\n", hex);
        if (save(dir, &lines, line, &no) < 0) /* it is made again next time */
            aq_log(AQ_LOG_WARN, "pool", "fingerprints=not_kept %s", no.text);
    }
    memcpy(ret, fp, sizeof fp);
    return 0;
}
