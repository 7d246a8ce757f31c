/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli logits: what a model predicts after each token of a list, as an OLG1 file, little-endian:
 *
 *   u32 "OLG1" | u32 n_tokens | u32 n_vocab | i32 tokens[n_tokens] | f32 logits[n_tokens][n_vocab]
 *
 * With --draft: the draft head's rows for tokens 1 .. n-1, each fed with the hidden row of the position before. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-eval.h"

#define OLG1 0x31474C4Fu

typedef struct job {
    cli_eval ev;
    aq_toks tok;
    uint32_t chunk;
    const char *out;
    char
        *part; /* written first, then takes the place of out; NULL when out is a device or a pipe */
    bool nameless; /* until it is whole */
    FILE *f;
    float *logits, *hidden; /* [chunk][n_vocab], [n][n_embd] with --draft */
} job;

static int put(const job *j, const void *p, size_t n)
{
    return fwrite(p, 1, n, j->f) == n
               ? CLI_OK
               : cli_error(CLI_FAILED, j->out, "cannot write: %s", strerror(errno));
}

static int put_head(const job *j, const int32_t *tok, uint32_t n)
{
    uint32_t head[3] = {OLG1, n, j->ev.info->n_vocab};
    int rc = put(j, head, sizeof(head));
    return rc != CLI_OK ? rc : put(j, tok, n * sizeof(*tok));
}

static int main_rows(job *j, bool draft)
{
    const aq_model_info *in = j->ev.info;
    aq_err err = {0};
    for (uint32_t i = 0, n; i < j->tok.n; i += n) {
        n = AQ_MIN(j->chunk, j->tok.n - i);
        int rc = aq_eval_rows(j->ev.eval, j->tok.id + i, n, false, draft ? NULL : j->logits,
                              draft ? j->hidden + (size_t)i * in->n_embd : NULL, &err);
        if (rc < 0)
            return cli_fail("logits", rc, &err);
        if (!draft && (rc = put(j, j->logits, (size_t)n * in->n_vocab * sizeof(float))) != CLI_OK)
            return rc;
    }
    return CLI_OK;
}

static int draft_rows(job *j)
{
    const aq_model_info *in = j->ev.info;
    aq_err err = {0};
    for (uint32_t p = 1, n; p < j->tok.n; p += n) {
        n = AQ_MIN(j->chunk, j->tok.n - p);
        int rc = aq_eval_draft(j->ev.eval, j->tok.id + p, j->hidden + (size_t)(p - 1) * in->n_embd,
                               n, p, j->logits, NULL, &err);
        if (rc < 0)
            return cli_fail("logits --draft", rc, &err);
        if ((rc = put(j, j->logits, (size_t)n * in->n_vocab * sizeof(float))) != CLI_OK)
            return rc;
    }
    return CLI_OK;
}

/** A file without a name in the folder of `out`, which goes with this program whatever ends it; -1 where there are none. */
static int open_nameless(const char *out)
{
    AQ_AUTOFREE char *dir = strdup(out);
    if (!dir)
        return -1;
    char *slash = strrchr(dir, '/');
    if (slash == dir)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    return open(slash ? dir : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

/** Its name beside `out`, from where it takes out's place. */
static int give_name(const job *j)
{
    char fd[64];
    snprintf(fd, sizeof fd, "/proc/self/fd/%d", fileno(j->f));
    unlink(j->part);
    return linkat(AT_FDCWD, fd, AT_FDCWD, j->part, AT_SYMLINK_FOLLOW);
}

/** Nothing is lost: a file that exists stays until the new one is whole, and what is read is not written to. */
static int open_out(job *j, const char *model, const char *tokens)
{
    struct stat out, in;
    bool exists = stat(j->out, &out) == 0;
    const char *const read[] = {model, tokens};
    for (size_t i = 0; exists && i < AQ_LEN(read); i++)
        if (stat(read[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino &&
            S_ISREG(in.st_mode))
            return cli_error(CLI_CANNOT, j->out,
                             "is what is read, too (choose another --out FILE)");
    int fd;
    if (exists && !S_ISREG(out.st_mode)) {
        fd = open(j->out, O_WRONLY | O_CLOEXEC);
    } else {
        if (asprintf(&j->part, "%s.%ld.part", j->out, (long)getpid()) < 0) {
            j->part = NULL;
            return cli_error(CLI_FAILED, j->out, "out of memory");
        }
        fd = open_nameless(j->out);
        j->nameless = fd >= 0;
        if (fd < 0)
            fd = open(j->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    j->f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (j->f)
        return CLI_OK;
    int rc = cli_error(CLI_CANNOT, j->out,
                       "cannot write: %s (check the folder, and that you may write there)",
                       strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int run(job *j, const char *model, const char *tokens, bool draft)
{
    int rc = cli_eval_tokens(&j->ev, tokens, &j->tok);
    if (rc != CLI_OK)
        return rc;
    if (draft && j->ev.info->n_draft == 0)
        return cli_error(CLI_FAILED, model, "this model has no draft head");
    if (draft && j->tok.n < 2)
        return cli_error(CLI_FAILED, tokens, "the draft head needs at least two tokens");
    j->logits = malloc((size_t)j->chunk * j->ev.info->n_vocab * sizeof(float));
    j->hidden = draft ? malloc((size_t)j->tok.n * j->ev.info->n_embd * sizeof(float)) : NULL;
    if (!j->logits || (draft && !j->hidden))
        return cli_error(CLI_FAILED, model,
                         "out of memory for chunks of %u tokens (a smaller --chunk needs less)",
                         j->chunk);
    if ((rc = open_out(j, model, tokens)) != CLI_OK)
        return rc;
    rc = draft ? put_head(j, j->tok.id + 1, j->tok.n - 1) : put_head(j, j->tok.id, j->tok.n);
    if (rc == CLI_OK)
        rc = main_rows(j, draft);
    if (rc == CLI_OK && draft)
        rc = draft_rows(j);
    if (rc == CLI_OK && (fflush(j->f) != 0 || (j->nameless && give_name(j) != 0)))
        rc = cli_error(CLI_FAILED, j->out, "cannot write: %s", strerror(errno));
    if (fclose(j->f) != 0 && rc == CLI_OK)
        rc = cli_error(CLI_FAILED, j->out, "cannot write: %s", strerror(errno));
    if (rc == CLI_OK && j->part && rename(j->part, j->out) != 0)
        rc = cli_error(CLI_FAILED, j->out, "cannot write: %s", strerror(errno));
    if (rc != CLI_OK && j->part)
        unlink(j->part); /* what was there before is still there */
    return rc;
}

int cli_logits(int argc, char **argv)
{
    const char *pos[1], *tokens = NULL, *backend = NULL, *kv = NULL;
    uint32_t threads = 0;
    bool draft = false;
    int n_pos;
    job j = {.chunk = CLI_CHUNK};
    cli_opt opts[] = {{"--tokens", 's', &tokens},   {"--out", 's', &j.out},
                      {"--backend", 's', &backend}, {"--kv", 's', &kv},
                      {"--chunk", 'u', &j.chunk},   {"--threads", 'u', &threads},
                      {"--draft", 'b', &draft},     {0}};
    int rc = cli_parse(argc, argv, opts, pos, 1, &n_pos);
    if (rc != CLI_OK)
        return rc;
    if (n_pos != 1 || !tokens || !j.out || j.chunk == 0)
        return cli_error(CLI_CANNOT, "logits",
                         "needs MODEL, --tokens FILE and --out FILE, and --chunk of at least 1");
    aq_err err = {0};
    int e = cli_read_tokens(tokens, &j.tok, &err);
    if (e < 0)
        return cli_fail(tokens, e, &err);
    j.chunk = AQ_MIN(AQ_MIN(j.chunk, AQ_MAX(j.tok.n, 1)), AQ_ROWS_MAX);
    rc = cli_eval_open(&j.ev, pos[0], backend, kv, threads, AQ_MAX(j.tok.n, 1), j.chunk);
    if (rc == CLI_OK)
        rc = run(&j, pos[0], tokens, draft);
    cli_eval_close(&j.ev);
    aq_toks_clear(&j.tok);
    free(j.logits);
    free(j.hidden);
    free(j.part);
    return rc;
}
