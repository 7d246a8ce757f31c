/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints: the same for the same model whatever the file is called or says about itself, another
 * one for each thing that makes another model. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-write.h"
#include "model-priv.h"
#include "tap.h"

static char path[] = "/tmp/aq-fingerprint-XXXXXX";

static int of_file(uint8_t ret[32], aq_err *err)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_wsrc src = {0};
    int rc = aq_model_open(NULL, path, 0, &m, &src, err);

    if (rc >= 0)
        rc = aq_model_fingerprint(m, &src, ret, err);
    aq_wsrc_close(&src);
    return rc;
}

/* With card: of a model made from the file's header alone. */
static int stamp(bool card, uint8_t ret[32], int64_t *ret_s, aq_err *err)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL, *c = NULL;
    AQ_AUTO(aq_bytes_clear) aq_bytes b = {0};
    int rc = aq_model_open(NULL, path, 0, &m, NULL, err);

    if (card) {
        rc = rc < 0 ? rc : aq_model_card(m, &b, err);
        rc = rc < 0 ? rc : aq_model_from_card(NULL, b.p, b.n, &c, err);
    }
    return rc < 0 ? rc : aq_model_stamp(card ? c : m, ret, ret_s, err);
}

static bool age(int64_t s)
{
    struct timespec t[2] = {{.tv_sec = s, .tv_nsec = 7}, {.tv_sec = s, .tv_nsec = 7}};

    return utimensat(AT_FDCWD, path, t, 0) == 0;
}

/* Change one byte `at` from the end, or the first of text found in the file. */
static bool patch(const char *text, const char *by, long from_end)
{
    FILE *f = fopen(path, "r+b");
    bool good = false;

    if (!f)
        return false;
    if (text) {
        static char buf[1 << 20];
        size_t n = fread(buf, 1, sizeof buf, f);
        char *p = memmem(buf, n, text, strlen(text));
        good = p && !fseek(f, p - buf, SEEK_SET) && fwrite(by, strlen(by), 1, f) == 1;
    } else {
        int ch;
        good = !fseek(f, -from_end, SEEK_END) && (ch = fgetc(f)) != EOF &&
               !fseek(f, -from_end, SEEK_END) && fputc(ch ^ 1, f) != EOF;
    }
    return fclose(f) == 0 && good;
}

int main(void)
{
    uint8_t one[32], two[32];
    aq_err err = {0};
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    ok(!gw_model("qwen3moe", "F16", 1, path) && of_file(one, &err) >= 0 &&
           !gw_model("qwen3moe", "F16", 1, path) && of_file(two, &err) >= 0 &&
           !memcmp(one, two, 32),
       "the same model twice %s", err.text);
    ok(!gw_model("qwen3moe", "F16", 2, path) && of_file(two, &err) >= 0 && memcmp(one, two, 32),
       "other weights");
    ok(!gw_model("qwen3moe", "Q8_0", 1, path) && of_file(two, &err) >= 0 && memcmp(one, two, 32),
       "another type");
    ok(!gw_model("llama", "F16", 1, path) && of_file(two, &err) >= 0 && memcmp(one, two, 32),
       "another architecture");
    ok(!gw_model("qwen3moe", "F16", 1, path) && patch(NULL, NULL, 40) && of_file(two, &err) >= 0 &&
           memcmp(one, two, 32),
       "one bit of a weight");
    ok(!gw_model("qwen3moe", "F16", 1, path) &&
           patch("tokenizer.ggml.model", "tokenizer.ggml.modeL", 0) && of_file(two, &err) >= 0 &&
           !memcmp(one, two, 32),
       "what the file says beside its hyperparameters does not matter %s", err.text);
    ok(!gw_model("qwen3moe", "F16", 1, path) && !aq_failpoint_set("wsrc-read", 3, 1) &&
           (memset(two, 7, 32), of_file(two, &err) == -AQ_E_IO) && two[0] == 7 && two[31] == 7,
       "a disk that fails: %s", err.text);
    int64_t s1 = 0, s2 = 0;
    ok(age(1000) && stamp(false, one, &s1, &err) >= 0 && stamp(false, two, &s2, &err) >= 0 &&
           s1 == 1000 && s2 == 1000 && !memcmp(one, two, 32),
       "a file's stamp, twice %s", err.text);
    ok(age(1001) && stamp(false, two, &s2, &err) >= 0 && s2 == 1001 && memcmp(one, two, 32),
       "written to again: another one");
    ok(!gw_model("qwen3moe", "Q8_0", 1, path) && age(1000) && stamp(false, two, &s2, &err) >= 0 &&
           memcmp(one, two, 32),
       "of another length: another one");
    ok(stamp(true, two, &s2, &err) == -AQ_E_INVAL, "a card has none: %s", err.text);
    unlink(path);
    return tap_done();
}
