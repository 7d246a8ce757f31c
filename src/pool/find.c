/* SPDX-License-Identifier: Apache-2.0 */
/* Model files of some folders by fingerprint. Folders are read anew at each search, so that a file
 * that was copied there meanwhile is found; a file is opened again only when it changed. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "split-priv.h"

#define PATH_BYTES 4096u
#define DEPTH_MAX 2u /* folders within a folder */

typedef struct known {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
    bool good; /* false: no model that this program runs */
    uint8_t fp[32];
} known;

struct aq_finder {
    char **dir, *prints;
    uint32_t n_dir;
    known *known;
    uint32_t n_known, cap_known;
};

int aq_finder_new(const char *const *dir, uint32_t n, const char *prints, aq_finder **ret,
                  aq_err *err)
{
    AQ_AUTO(aq_finder_free) aq_finder *f = calloc(1, sizeof *f);

    if (!f || !(f->dir = calloc(n + 1u, sizeof *f->dir)) ||
        (prints && !(f->prints = strdup(prints))))
        return aq_fail(err, AQ_E_NOMEM, "no memory to look for models");
    for (; f->n_dir < n; f->n_dir++)
        if (!(f->dir[f->n_dir] = strdup(dir[f->n_dir])))
            return aq_fail(err, AQ_E_NOMEM, "no memory to look for models");
    *ret = AQ_STEAL(f);
    return 0;
}

void aq_finder_free(aq_finder *f)
{
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_dir; i++)
        free(f->dir[i]);
    free(f->dir);
    free(f->prints);
    free(f->known);
    free(f);
}

typedef struct search {
    aq_finder *f;
    aq_rt *rt;
    const uint8_t *fp;
    aq_model *m; /* found */
    aq_wsrc src;
    uint32_t n_file;
} search;

static known *find_known(const aq_finder *f, const struct stat *st)
{
    for (uint32_t i = 0; i < f->n_known; i++) {
        known *k = &f->known[i];
        if (k->dev == st->st_dev && k->ino == st->st_ino && k->size == st->st_size &&
            k->mtime.tv_sec == st->st_mtim.tv_sec && k->mtime.tv_nsec == st->st_mtim.tv_nsec)
            return k;
    }
    return NULL;
}

static int remember(aq_finder *f, const struct stat *st, bool good, const uint8_t fp[32])
{
    if (f->n_known == f->cap_known) {
        uint32_t cap = AQ_MAX(16u, f->cap_known * 2);
        known *p = realloc(f->known, cap * sizeof *p);
        if (!p)
            return -AQ_E_NOMEM;
        f->known = p;
        f->cap_known = cap;
    }
    known *k = &f->known[f->n_known++];
    *k = (known){.dev = st->st_dev,
                 .ino = st->st_ino,
                 .size = st->st_size,
                 .mtime = st->st_mtim,
                 .good = good};
    memcpy(k->fp, fp, sizeof k->fp);
    return 0;
}

/* "…-00002-of-00005.gguf": the first part stands for all of them. */
static bool is_later_part(const char *path)
{
    size_t n = strlen(path);

    return n > 20 && !memcmp(path + n - 14, "-of-", 4) && memcmp(path + n - 19, "00001", 5);
}

/* 1 = this is it and it is open, 0 = it is not. */
static int look(search *s, const char *path, bool named, aq_err *err)
{
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    aq_wsrc src = {0};
    struct stat st;
    uint8_t fp[32] = {0};
    size_t n = strlen(path);

    if ((!named && (n < 5 || strcmp(path + n - 5, ".gguf"))) || is_later_part(path) ||
        stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (++s->n_file > AQ_FIND_FILES_MAX)
        return 0;
    const known *k = find_known(s->f, &st);
    if (k && (!k->good || memcmp(k->fp, s->fp, sizeof k->fp)))
        return 0;
    int rc = aq_model_open(s->rt, path, 0, &m, &src, err);
    if (rc >= 0 && !k)
        rc = aq_prints_get(s->f->prints, m, &src, fp, err);
    if (!k && (rc >= 0 || rc == -AQ_E_FORMAT || rc == -AQ_E_UNSUPPORTED)) {
        if (remember(s->f, &st, rc >= 0, fp) < 0)
            rc = aq_fail(err, AQ_E_NOMEM, "no memory to look for models");
    }
    if (rc == -AQ_E_NOMEM || (rc < 0 && k)) { /* k: it is this one, and it cannot be read now */
        aq_wsrc_close(&src);
        return rc;
    }
    if (rc >= 0 && (k || !memcmp(fp, s->fp, sizeof fp))) {
        s->m = AQ_STEAL(m);
        s->src = src;
        return 1;
    }
    aq_wsrc_close(&src); /* another one, or one that cannot be read now */
    return 0;
}

static int walk(search *s, const char *dir, uint32_t depth, aq_err *err)
{
    char path[PATH_BYTES];
    struct dirent *e;
    struct stat st;
    int rc = 0;
    DIR *d = opendir(dir);

    if (!d)
        return errno == ENOTDIR ? look(s, dir, true, err) : 0;
    while (rc == 0 && (e = readdir(d))) {
        if (e->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path)
            continue;
        if (stat(path, &st) < 0)
            continue;
        if (!S_ISDIR(st.st_mode))
            rc = look(s, path, false, err);
        else if (depth < DEPTH_MAX)
            rc = walk(s, path, depth + 1, err);
    }
    closedir(d);
    return rc;
}

int aq_finder_open(aq_finder *f, aq_rt *rt, const uint8_t fp[32], aq_model **ret, aq_wsrc *ret_src,
                   aq_err *err)
{
    search s = {.f = f, .rt = rt, .fp = fp};
    aq_err why = {0}; /* of the last file: of interest only when nothing could be done at all */

    for (uint32_t i = 0; i < f->n_dir; i++) {
        int rc = walk(&s, f->dir[i], 0, &why);
        if (rc < 0) {
            if (err)
                *err = why;
            return rc;
        }
        if (rc > 0) {
            *ret = s.m;
            *ret_src = s.src;
            return 0;
        }
    }
    return aq_fail(err, AQ_E_MISMATCH,
                   "there is no copy of this model here (%u files were looked at in %s%s): copy "
                   "the very same file there",
                   s.n_file, f->n_dir ? f->dir[0] : "no folder", f->n_dir > 1 ? " and others" : "");
}
