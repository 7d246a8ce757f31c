/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints kept across runs: made once, and never believed of a file that changed. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-write.h"
#include "split-priv.h"
#include "tap.h"

static char dir[256], path[300], list[300];

/* Written to so many seconds ago. */
static bool age(int s)
{
    struct timespec t[2] = {{.tv_sec = time(NULL) - s, .tv_nsec = 5}};

    t[1] = t[0];
    return utimensat(AT_FDCWD, path, t, 0) == 0;
}

static int get(const char *at, uint8_t ret[32], aq_err *err)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_wsrc src = {0};
    int rc = aq_model_open(NULL, path, 0, &m, &src, err);

    rc = rc < 0 ? rc : aq_prints_get(at, m, &src, ret, err);
    aq_wsrc_close(&src);
    return rc;
}

/* Whether it is known without reading a weight. */
static bool known(uint8_t ret[32])
{
    aq_err err = {0};

    memset(ret, 0, 32);
    (void)!aq_failpoint_set("wsrc-read", 1, UINT32_MAX);
    int rc = get(dir, ret, &err);
    (void)!aq_failpoint_set("wsrc-read", 0, 0);
    return rc >= 0;
}

static size_t slurp(char *buf, size_t cap)
{
    FILE *f = fopen(list, "rb");
    size_t n = f ? fread(buf, 1, cap, f) : 0;

    if (f)
        fclose(f);
    return n;
}

static bool spit(const char *p, size_t n)
{
    FILE *f = fopen(list, "wb");
    bool good = f && fwrite(p, 1, n, f) == n;

    return (!f || fclose(f) == 0) && good;
}

/* A list of n made-up models, sound. */
static bool fill(uint32_t n, const char *head)
{
    AQ_AUTO(aq_sha256_free) aq_sha256 *sha = aq_sha256_new();
    __attribute__((cleanup(aq_bytes_clear_p))) aq_bytes b = {0};
    uint8_t d[32];
    char hex[65];
    int rc = aq_bytes_puts(&b, head);

    for (uint32_t i = 0; rc >= 0 && i < n; i++)
        rc = aq_bytes_putf(&b, "%064x %064x\n", i, i);
    if (rc < 0 || !sha || aq_sha256_add(sha, b.p, b.n) < 0 || aq_sha256_end(sha, d) < 0)
        return false;
    aq_hex(d, 32, hex);
    return aq_bytes_putf(&b, "sum %s\n", hex) >= 0 && spit((char *)b.p, b.n);
}

int main(void)
{
    static char buf[1 << 18];
    const char *tmp = getenv("TMPDIR");
    uint8_t one[32], fp[32];
    aq_err err = {0};
    struct stat st;

    snprintf(dir, sizeof dir, "%s/aq-prints-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    snprintf(list, sizeof list, "%s/fingerprints", dir);
    ok(!gw_model("llama", "F16", 1, path) && get(NULL, one, &err) >= 0, "without a folder: made %s",
       err.text);
    ok(get(dir, fp, &err) >= 0 && !memcmp(fp, one, 32) && !known(fp),
       "of a file that was written to just now it is not kept");
    ok(age(60) && !known(fp) && get(dir, fp, &err) >= 0 && !memcmp(fp, one, 32), "made %s",
       err.text);
    ok(known(fp) && !memcmp(fp, one, 32), "and then known: no weight is read");
    ok(stat(list, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 23 + 130 + 69,
       "in a file of one line");
    ok(age(90) && !known(fp), "another time of writing: not known");
    ok(get(dir, fp, &err) >= 0 && known(fp) && slurp(buf, sizeof buf) == 23 + 2 * 130 + 69,
       "and kept beside the first");
    ok(!gw_model("llama", "F16", 2, path) && age(70) && !known(fp) && get(dir, fp, &err) >= 0 &&
           memcmp(fp, one, 32) && known(fp),
       "other weights in the same file: another fingerprint, known too");

    size_t n = slurp(buf, sizeof buf);
    bool all = true, whole = true;
    for (size_t at = 0; at < n; at += 7) { /* one letter anywhere */
        buf[at] ^= 1;
        all = all && spit(buf, n) && !known(fp);
        buf[at] ^= 1;
    }
    for (size_t k = 0; k < n; k += 11)
        whole = whole && spit(buf, k) && !known(fp);
    ok(n > 400 && all && whole, "a damaged list, or one cut short, counts as none");
    ok(get(dir, fp, &err) >= 0 && known(fp) && slurp(buf, sizeof buf) == 23 + 130 + 69,
       "and is written anew %s", err.text);
    ok(fill(3, "aquifer-fingerprints 2\n") && !known(fp) && get(dir, fp, &err) >= 0 && known(fp),
       "so is one of another version");
    ok(fill(AQ_PRINTS_MAX, "aquifer-fingerprints 1\n") && get(dir, fp, &err) >= 0 && known(fp) &&
           slurp(buf, sizeof buf) == 23 + AQ_PRINTS_MAX * 130 + 69 &&
           !memcmp(buf + 23, "0000000000000000000000000000000000000000000000000000000000000001",
                   64),
       "a full list: the oldest goes");
    ok(fill(AQ_PRINTS_MAX + 1, "aquifer-fingerprints 1\n") && !known(fp),
       "a longer one is not taken");
    (void)!aq_failpoint_set("pool-file-write", 1, 1);
    ok(get(dir, fp, &err) >= 0 && !known(fp), "a full disk: made all the same, and not kept");
    (void)!aq_failpoint_set("pool-file-write", 0, 0);
    unlink(path);
    unlink(list);
    rmdir(dir);
    return tap_done();
}
