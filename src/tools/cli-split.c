/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pool's files are, and which PC a split is with. One thread. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-pool.h"

#define KNOWN_US 300000ll /* for a PC to answer where it was last, before it is looked for */

/* $var/tail, or ~/dflt/tail. NULL without a home folder. */
static char *user_dir(const char *var, const char *dflt, const char *tail)
{
    const char *base = getenv(var), *home = getenv("HOME");
    char *s = NULL;

    if (base && base[0] == '/')
        return asprintf(&s, "%s/%s", base, tail) < 0 ? NULL : s;
    if (!home || home[0] != '/')
        return NULL;
    return asprintf(&s, "%s/%s/%s", home, dflt, tail) < 0 ? NULL : s;
}

char *cli_model_dir(void)
{
    const char *dir = getenv("AQ_MODEL_DIR");

    return dir && *dir ? strdup(dir) : user_dir("XDG_DATA_HOME", ".local/share", "aquifer/models");
}

/* A folder and those above it; one that is there is fine. */
static int make_dirs(char *path, aq_err *err)
{
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = 0;
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return aq_fail_errno(err, errno, "the folder %s cannot be made", path);
        *p = was;
        if (!was)
            return 0;
    }
}

static int keep_name(const char *dir, const char *host, const char *name, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    char old[AQ_NAME_MAX + 1];
    int rc = aq_trust_open(dir, host, NULL, &t, err);

    if (rc < 0)
        return rc;
    aq_trust_name(t, old);
    if (!strcmp(old, name))
        return 0;
    rc = aq_trust_hold(t, err);
    return rc < 0 ? rc : aq_trust_set_name(t, name, err);
}

int cli_trust_open(const char *dir, const char *name, aq_trust **ret, aq_err *err)
{
    AQ_AUTOFREE char *own =
        dir ? strdup(dir) : user_dir("XDG_STATE_HOME", ".local/state", "aquifer/pool");
    char host[AQ_NAME_MAX + 1] = "";
    int rc;

    if (!own || !*own)
        return aq_fail(err, AQ_E_IO, "there is no home folder: give --state DIR");
    if ((rc = make_dirs(own, err)) < 0)
        return rc;
    if (gethostname(host, sizeof host - 1) < 0 || !*host)
        snprintf(host, sizeof host, "a PC");
    /* a name is kept, so that it need be said once; another process may have the folder */
    if (name && (rc = keep_name(own, host, name, err)) < 0)
        return rc;
    return aq_trust_open(own, host, NULL, ret, err);
}

/* The other PC: by name, or the only one. Points into r. */
static int pick(const aq_roster *r, const aq_id *own, const char *pc, const aq_member **ret,
                aq_err *err)
{
    const aq_member *m = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        if (aq_id_equal(&r->m[i].id, own) || (pc && strcmp(pc, r->m[i].name)))
            continue;
        m = &r->m[i];
        n++;
    }
    if (!m)
        return pc ? aq_fail(err, AQ_E_INVAL, "no PC of this pool is called '%s'", pc)
                  : aq_fail(err, AQ_E_INVAL, "there is no other PC in this pool yet");
    if (n > 1)
        return aq_fail(err, AQ_E_INVAL, "%u PCs could be meant: give --pc NAME", n);
    *ret = m;
    return 0;
}

/* What mDNS says may be old by some seconds: it counts when it answers. */
static bool answers(void *user, const aq_found *f)
{
    const aq_member *m = user;
    const char *a[AQ_ADDRS_MAX] = {NULL};

    for (uint32_t i = 0; i < f->n_addr; i++)
        a[i] = f->addr[i];
    return aq_id_equal(&f->id, &m->id) && aq_reach_try(a, f->n_addr, KNOWN_US) == AQ_REACH_ANSWERS;
}

/* Where a PC is: as said; where it was last when it answers there; else also where mDNS finds it. f
 * [AQ_FOUND_MAX]; ret [AQ_ADDRS_MAX] points into o, m and f. */
static int where(const cli_split_opt *o, const aq_trust *trust, const aq_member *m, aq_found *f,
                 const char **ret, uint32_t *ret_n, aq_err *err)
{
    aq_presence_info mdns = {0};
    const aq_found *hit = NULL;
    uint32_t n = 0, n_found = 0;
    int rc;

    if (o->addr) {
        ret[n++] = o->addr;
        *ret_n = n;
        return 0;
    }
    for (uint32_t i = 0; i < m->n_addr; i++)
        ret[n++] = m->addr[i];
    *ret_n = n;
    if (n && aq_reach_try(ret, n, KNOWN_US) == AQ_REACH_ANSWERS)
        return 0;
    if ((rc = cli_look(trust, answers, (void *)m, false, CLI_MDNS_MS, &mdns, f, &n_found, err)) < 0)
        return rc;
    for (uint32_t i = 0; i < n_found; i++)
        if (aq_id_equal(&f[i].id, &m->id))
            hit = &f[i];
    if (hit) /* what is found now goes first; who is there proves who it is */
        for (n = 0; n < hit->n_addr; n++)
            ret[n] = hit->addr[n];
    for (uint32_t i = 0; hit && i < m->n_addr && n < AQ_ADDRS_MAX; i++)
        ret[n++] = m->addr[i];
    *ret_n = n;
    return n ? 0
             : aq_fail(err, AQ_E_INVAL,
                       "nobody knows where %s is: start its node, or give --addr ADDRESS:PORT. %s",
                       m->name,
                       mdns.state == AQ_PRESENCE_RUNNING ? "" : aq_presence_text(mdns.state));
}

int cli_split_open(cli_split *ret, const cli_split_opt *o, aq_rt *rt, const aq_model *m,
                   const aq_wsrc *src, const aq_engine_cfg *ec, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *trust = NULL;
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    const aq_member *peer = NULL;
    const char *addr[AQ_ADDRS_MAX];
    uint32_t n = 0;
    int rc = r && f ? cli_trust_open(o->state, NULL, &trust, err)
                    : aq_fail(err, AQ_E_NOMEM, "out of memory");

    if (rc < 0)
        return rc;
    if (!aq_trust_roster(trust, r))
        return aq_fail(err, AQ_E_AUTH, "this PC is in no pool: pair it with another one first");
    if ((rc = pick(r, aq_trust_id(trust), o->pc, &peer, err)) < 0)
        return rc;
    if ((rc = where(o, trust, peer, f, addr, &n, err)) < 0)
        return rc;
    aq_split_cfg sc = {.rt = rt,
                       .trust = trust,
                       .model = m,
                       .src = src,
                       .app = "aquifer " AQ_VERSION,
                       .to = &peer->id,
                       .addr = addr,
                       .n_addr = n,
                       .cut = o->cut,
                       .rows = o->rows,
                       .engine = *ec,
                       .alone_after_ms = 10000,
                       .change_cb = o->change_cb};
    if ((rc = aq_split_open(&sc, &ret->split, err)) < 0)
        return rc;
    aq_split_state st;
    aq_err no = {0};
    aq_split_get_state(ret->split,
                       &st); /* it answered there: next time it need not be looked for */
    bool known = peer->n_addr && !strcmp(peer->addr[0], st.addr);
    if (st.addr[0] && !known &&
        aq_trust_hold(trust, &no) >= 0) /* else a node runs here, and its files are its own */
        (void)!aq_trust_set_addr(trust, &peer->id, st.addr, &no);
    ret->trust = AQ_STEAL(trust);
    return 0;
}

void cli_split_close(cli_split *s)
{
    aq_split_free(s->split);
    aq_trust_free(s->trust);
    *s = (cli_split){0};
}
