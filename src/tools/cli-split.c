/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pool's files are, and which PC a split is with. One thread. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli-member.h"

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

char *cli_run_dir(const char *state)
{
    const char *run = getenv("XDG_RUNTIME_DIR"), *pak = getenv("FLATPAK_ID");
    char *s = NULL;

    if (!run || run[0] != '/')
        return state ? strdup(state) : user_dir("XDG_STATE_HOME", ".local/state", "aquifer/pool");
    /* of a Flatpak, the one folder that its programs share */
    int n =
        pak && *pak ? asprintf(&s, "%s/app/%s/aquifer", run, pak) : asprintf(&s, "%s/aquifer", run);
    return n < 0 ? NULL : s;
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
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    char old[AQ_NAME_MAX + 1];
    int rc = aq_trust_open(dir, host, NULL, &t, err);

    if (rc < 0)
        return rc;
    aq_trust_name(t, old);
    if (!strcmp(old, name))
        return 0;
    if ((rc = aq_call_open(t, &call, err)) == 1) {
        const aq_json *j;
        out o = {0};
        put(&o, "{\"do\":\"name\",\"name\":");
        put_json(&o, name);
        put(&o, "}");
        return far_ask(call, &o, &j, err);
    }
    rc = rc < 0 ? rc : aq_trust_hold(t, err);
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

bool cli_split_is_with(const aq_trust *trust, const cli_split_opt *o, const aq_id *id)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    const aq_member *m = NULL;

    return r && aq_trust_roster(trust, r) && pick(r, aq_trust_id(trust), o->pc, &m, NULL) >= 0 &&
           aq_id_equal(&m->id, id);
}

/* It answered there: next time it need not be said. */
static void keep_addr(aq_trust *trust, const aq_member *peer, aq_split *split)
{
    aq_split_state st;
    aq_err no = {0};

    aq_split_get_state(split, &st);
    bool known = peer->n_addr && !strcmp(peer->addr[0], st.addr);
    if (st.addr[0] && !known &&
        aq_trust_hold(trust, &no) >= 0) /* else a node runs here, and its files are its own */
        (void)!aq_trust_set_addr(trust, &peer->id, st.addr, &no);
}

int cli_split_open(cli_split *ret, const cli_split_opt *o, aq_rt *rt, const aq_model *m,
                   const aq_wsrc *src, const aq_engine_cfg *ec, aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *trust = NULL;
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    const aq_member *peer = NULL;
    int rc =
        r ? cli_trust_open(o->state, NULL, &trust, err) : aq_fail(err, AQ_E_NOMEM, "out of memory");

    if (rc < 0)
        return rc;
    if (!aq_trust_roster(trust, r))
        return aq_fail(err, AQ_E_AUTH, "this PC is in no pool: pair it with another one first");
    if ((rc = pick(r, aq_trust_id(trust), o->pc, &peer, err)) < 0)
        return rc;
    aq_split_cfg sc = {.rt = rt,
                       .trust = trust,
                       .model = m,
                       .src = src,
                       .app = "aquifer " AQ_VERSION,
                       .to = &peer->id,
                       .addr = &o->addr,
                       .n_addr = 1,
                       .cut = o->cut,
                       .rows = o->rows,
                       .engine = *ec,
                       .alone_after_ms = 10000,
                       .change_cb = o->change_cb};
    rc = o->addr ? aq_split_open(&sc, &ret->split, err)
                 : aq_split_open_member(&sc, peer, NULL, AQ_VERSION, &ret->split, err);
    if (rc < 0)
        return rc;
    if (o->addr)
        keep_addr(trust, peer, ret->split);
    ret->trust = AQ_STEAL(trust);
    return 0;
}

void cli_split_close(cli_split *s)
{
    aq_split_free(s->split);
    aq_trust_free(s->trust);
    *s = (cli_split){0};
}
