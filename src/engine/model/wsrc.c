/* SPDX-License-Identifier: Apache-2.0 */
/* Weights by position from the shards' files. Any thread: pread shares no file offset. The descriptors of the opening are used, so
 * a file that is removed or replaced meanwhile still gives the bytes that the header belongs to; one that is cut short or written to
 * is an error. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-priv.h"

void aq_wsrc_close(aq_wsrc *w)
{
    if (!w)
        return;
    if (w->close)
        w->close(w->self);
    *w = (aq_wsrc){0};
}

typedef struct files {
    aq_gguf *g;
    int fd[]; /* [n_shard] */
} files;

/** Bytes that were read belong to the header only if nobody wrote to the file since that was read. */
static int check_unwritten(int fd, const aq_shard *s, aq_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return aq_fail_errno(err, errno, "cannot look at %s", s->path);
    if (st.st_mtim.tv_sec == s->written.tv_sec && st.st_mtim.tv_nsec == s->written.tv_nsec &&
        (uint64_t)st.st_size >= s->file_bytes)
        return 0;
    return aq_fail(err, AQ_E_IO,
                   "%s was %s while it was being loaded: it has %" PRIu64 " bytes, it had %" PRIu64
                   "; wait until the whole file is there and load it again",
                   s->file, (uint64_t)st.st_size < s->file_bytes ? "cut short" : "written to",
                   (uint64_t)st.st_size, s->file_bytes);
}

static int file_read(void *self, uint32_t tensor, uint64_t off, void *dst, size_t n, aq_err *err)
{
    const files *f = self;
    const aq_gguf *g = f->g;
    if (tensor >= g->n_tensor)
        return aq_fail(err, AQ_E_INVAL, "%s has no tensor %u", g->shard[0].file, tensor);
    const aq_tensor *t = &g->tensor[tensor];
    const aq_shard *s = &g->shard[t->shard];
    char show[AQ_SHOW_BYTES];
    if (off > t->bytes || n > t->bytes - off)
        return aq_fail(err, AQ_E_INVAL,
                       "%s: bytes %" PRIu64 "+%zu of tensor '%s' were asked for, it has %" PRIu64,
                       s->file, off, n, aq_str_show(t->name, show), t->bytes);
    uint64_t at = t->off + off;
    uint8_t *d = dst;
    while (n) {
        ssize_t r = aq_failpoint("wsrc-read")
                        ? (errno = EIO, -1)
                        : pread(f->fd[t->shard], d, AQ_MIN(n, (size_t)1 << 30), (off_t)at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return aq_fail_errno(err, errno, "cannot read %s at byte %" PRIu64 " (tensor '%s')",
                                 s->path, at, aq_str_show(t->name, show));
        if (!r)
            return aq_fail(
                err, AQ_E_IO,
                "%s was cut short while it was being loaded: it ends before byte %" PRIu64
                " in tensor '%s', it had %" PRIu64 " bytes; get the whole file and load it again",
                s->file, at + 1, aq_str_show(t->name, show), s->file_bytes);
        d += r;
        at += (uint64_t)r;
        n -= (size_t)r;
    }
    return check_unwritten(f->fd[t->shard], s, err);
}

static void file_ahead(void *self, uint32_t tensor, uint64_t off, size_t n)
{
    const files *f = self;
    const aq_tensor *t = tensor < f->g->n_tensor ? &f->g->tensor[tensor] : NULL;
    if (t && off <= t->bytes && n <= t->bytes - off)
        posix_fadvise(f->fd[t->shard], (off_t)(t->off + off), (off_t)n, POSIX_FADV_WILLNEED);
}

static void file_close(void *self)
{
    files *f = self;
    for (uint32_t i = 0; i < f->g->n_shard; i++)
        aq_fd_close_p(&f->fd[i]);
    aq_gguf_free(f->g);
    free(f);
}

int aq_wsrc_files(aq_gguf *g, aq_wsrc *ret, aq_err *err)
{
    for (uint32_t i = 0; i < g->n_shard; i++)
        if (g->shard[i].fd < 0)
            return aq_fail(err, AQ_E_INVAL, "%s has no weights to read", g->shard[i].file);
    files *f = malloc(sizeof *f + g->n_shard * sizeof f->fd[0]);
    if (!f)
        return aq_fail(err, AQ_E_NOMEM, "no memory to read the weights of %s", g->shard[0].file);
    f->g = aq_gguf_hold(g);
    for (uint32_t i = 0; i < g->n_shard; i++) {
        f->fd[i] = g->shard[i].fd;
        g->shard[i].fd = -1;
    }
    *ret = (aq_wsrc){.self = f, .read = file_read, .close = file_close, .ahead = file_ahead};
    return 0;
}
