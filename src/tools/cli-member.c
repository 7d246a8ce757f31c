/* SPDX-License-Identifier: Apache-2.0 */
/* aquifer-cli pool status, list, add, remove, permit, leave: who this PC is and which PCs there are. Where a process has
 * this PC's pool (a window, a node), it is asked; else what changes the pool takes its lock first. One thread. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli-member.h"

#define CALL_US 1500000ll /* for a PC to answer */

static const struct {
    uint32_t bit;
    const char *name;
} perm_names[] = {{AQ_PERM_REQUESTS, "requests"},
                  {AQ_PERM_LAYERS, "layers"},
                  {AQ_PERM_EXPERTS, "experts"},
                  {AQ_PERM_FILES, "files"}};
/* ---- output ------------------------------------------------------------------------------------ */

static void put_perms(out *o, uint32_t perms)
{
    bool first = true;

    put(o, "\"permissions\":[");
    for (size_t i = 0; i < AQ_LEN(perm_names); i++) {
        if (!(perms & perm_names[i].bit))
            continue;
        put(o, "%s\"%s\"", first ? "" : ",", perm_names[i].name);
        first = false;
    }
    put(o, "]");
}

static void put_mdns(out *o, const aq_presence_info *in)
{
    put(o, "\"mdns\":{\"state\":\"%s\",\"text\":", aq_presence_name(in->state));
    put_json(o, aq_presence_text(in->state));
    put(o, ",\"detail\":");
    put_json(o, in->detail);
    put(o, "}");
}

/* ---- PCs of the network ------------------------------------------------------------------------ */

/* Of a PC whose address may not be known. */
static const char *state_name(aq_reach reach)
{
    return reach == AQ_REACH_UNTRIED ? "no-address" : aq_reach_name(reach);
}

static aq_reach reach_of(const char (*addr)[AQ_ADDR_MAX + 1], uint32_t n)
{
    const char *a[AQ_ADDRS_MAX] = {NULL};

    for (uint32_t i = 0; i < n; i++)
        a[i] = addr[i];
    return aq_reach_try(a, n, CALL_US);
}

/* ---- status ------------------------------------------------------------------------------------ */

/* What it computes, and which splits it has. state NULL = no process was asked. */
static void work_json(out *o, const aq_json *state)
{
    const char *who = aq_json_str(state, "works_for"), *fault = aq_json_str(state, "fault");
    const aq_json *layers = aq_json_get(state, "layers"), *splits = aq_json_get(state, "splits");

    put(o, ",\"works_for\":");
    put_json(o, who ? who : "");
    put(o, ",\"fault\":");
    put_json(o, fault ? fault : "");
    if (layers && o->rc >= 0) {
        put(o, ",\"layers\":");
        o->rc = o->rc < 0 ? o->rc : aq_json_put(&o->b, layers);
    }
    put(o, ",\"splits\":");
    if (splits && o->rc >= 0)
        o->rc = aq_json_put(&o->b, splits);
    else
        put(o, "[]");
}

static void work_text(out *o, const aq_json *state)
{
    const char *who = aq_json_str(state, "works_for"), *fault = aq_json_str(state, "fault");
    const aq_json *layers = aq_json_get(state, "layers"), *splits = aq_json_get(state, "splits");

    if (who && *who)
        put(o, "computes  for %s\n", who);
    if (layers && layers->kind == AQ_JSON_ARR && layers->n == 2)
        put(o, "loaded    layers %lld to %lld\n", (long long)layers->item->i,
            (long long)layers->item->next->i);
    if (fault && *fault)
        put(o, "fault     %s\n", fault);
    for (const aq_json *s = splits && splits->kind == AQ_JSON_ARR ? splits->item : NULL; s;
         s = s->next) {
        const char *name = aq_json_str(s, "name"), *pc = aq_json_str(s, "pc"),
                   *text = aq_json_str(s, "text"), *is = aq_json_str(s, "state");
        put(o, "split     %s with %s, %lld of %lld layers here, %s%s%s\n",
            name && *name ? name : "a model", pc ? pc : "?", (long long)aq_json_int(s, "cut", 0),
            (long long)aq_json_int(s, "layers", 0), is ? is : "?", text && *text ? ": " : "",
            text ? text : "");
    }
}

static void status_json(out *o, const aq_trust *t, const aq_roster *r, const aq_holder *h,
                        const aq_presence_info *mdns, const aq_json *state)
{
    char name[AQ_NAME_MAX + 1], hex[33];

    aq_trust_name(t, name);
    put(o, "{");
    put_id(o, aq_trust_id(t));
    put(o, ",\"name\":");
    put_json(o, name);
    if (r) {
        aq_hex(r->pool, 16, hex);
        put(o, ",\"pool\":\"%s\",\"epoch\":%u,\"version\":%llu", hex, r->epoch,
            (unsigned long long)r->version);
    } else {
        put(o, ",\"pool\":null");
    }
    put(o, ",\"members\":[");
    for (uint32_t i = 0; r && i < r->n; i++) {
        put(o, "%s{", i ? "," : "");
        put_id(o, &r->m[i].id);
        put(o, ",\"name\":");
        put_json(o, r->m[i].name);
        put(o, ",\"this\":%s,", aq_id_equal(&r->m[i].id, aq_trust_id(t)) ? "true" : "false");
        put_perms(o, r->m[i].perms);
        put(o, ",");
        put_addrs(o, r->m[i].addr, r->m[i].n_addr);
        put(o, "}");
    }
    put(o, "],\"process\":");
    if (h) {
        put(o, "{\"pid\":%u,\"name\":", h->pid);
        put_json(o, h->name);
        put(o, "},\"port\":");
    } else {
        put(o, "null,\"port\":");
    }
    put(o, h && h->port ? "%u," : "null,", h ? h->port : 0u);
    put_mdns(o, mdns);
    work_json(o, state);
    put(o, "}\n");
}

static void status_text(out *o, const aq_trust *t, const aq_roster *r, const aq_holder *h,
                        const aq_presence_info *mdns, const aq_json *state)
{
    char name[AQ_NAME_MAX + 1], hex[65];

    aq_trust_name(t, name);
    aq_hex(aq_trust_id(t)->b, 32, hex);
    put(o, "this PC   %s (%.12s…)\n", name, hex);
    if (r)
        put(o, "pool      %u PCs, epoch %u\n", r->n, r->epoch);
    else
        put(o, "pool      none: pair this PC with another one\n");
    for (uint32_t i = 0; r && i < r->n; i++) {
        const aq_member *m = &r->m[i];
        if (aq_id_equal(&m->id, aq_trust_id(t)))
            continue;
        put(o, "member    %s, may use here:", m->name);
        for (size_t k = 0; k < AQ_LEN(perm_names); k++)
            if (m->perms & perm_names[k].bit)
                put(o, " %s", perm_names[k].name);
        put(o, m->perms ? "\n" : " nothing\n");
    }
    if (h && h->port)
        put(o, "listens   port %u (%s, process %u)\n", h->port, h->name, h->pid);
    else
        put(o, "listens   no\n");
    work_text(o, state);
    /* Who shows itself is found, and that takes a program that listens. */
    put(o, "mDNS      %s\n",
        mdns->state == AQ_PRESENCE_RUNNING && !(h && h->port)
            ? "The Avahi service runs; this PC is found while it listens."
            : aq_presence_text(mdns->state));
}

static int pool_status(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = malloc(sizeof *r);
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    aq_presence_info mdns = {0};
    aq_holder h = {0};
    out o = {0};
    uint32_t n;

    (void)arg;
    if (!r || !f)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    int in = aq_trust_roster(t, r), held = aq_trust_holder(t, &h, err);
    if (held < 0)
        return held;
    const aq_json *state = NULL;
    int rc = mo->call ? far_state(mo->call, &mdns, NULL, NULL, &state, err)
                      : aq_look(t, AQ_VERSION, NULL, NULL, true, mo->wait_ms, &mdns, f, &n, err);
    if (rc < 0)
        return rc;
    (mo->json ? status_json : status_text)(&o, t, in ? r : NULL, held ? &h : NULL, &mdns, state);
    return out_end(&o, "pool status");
}

/* ---- list -------------------------------------------------------------------------------------- */

static void list_one(out *o, const member_opt *mo, const aq_pc *p, bool first)
{
    aq_reach reach = p->self ? AQ_REACH_ANSWERS : reach_of(p->addr, p->n_addr);
    const char *state = p->self ? "this-pc" : state_name(reach);
    const char *text = p->self ? "" : p->n_addr ? aq_reach_text(reach) : "Nobody knows its address";

    if (!mo->json) {
        put(o, "%-20s  %-10s  %-24s  %s\n", *p->name ? p->name : "?",
            p->self     ? "this PC"
            : p->member ? "member"
            : p->found  ? "found"
                        : "added",
            p->n_addr ? p->addr[0] : "", text);
        return;
    }
    put(o, "%s{", first ? "" : ",");
    if (p->has_id) {
        put_id(o, &p->id);
        put(o, ",\"name\":");
        put_json(o, p->name);
    } else {
        put(o, "\"id\":null,\"name\":null");
    }
    put(o, ",\"member\":%s,\"found\":%s,\"state\":\"%s\",\"text\":", p->member ? "true" : "false",
        p->found ? "true" : "false", state);
    put_json(o, text);
    put(o, ",");
    put_perms(o, p->perms);
    put(o, ",");
    put_addrs(o, p->addr, p->n_addr);
    put(o, ",\"app_version\":");
    if (p->found)
        put_json(o, p->version);
    else
        put(o, "null");
    put(o, "}");
}

static int pool_list(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_found *f = calloc(AQ_FOUND_MAX, sizeof *f);
    AQ_AUTOFREE aq_pc *pc = calloc(AQ_PCS_MAX, sizeof *pc);
    aq_presence_info mdns = {0};
    uint32_t n_f = 0;
    out o = {0};

    (void)arg;
    if (!f || !pc)
        return aq_fail(err, AQ_E_NOMEM, "out of memory");
    int n = aq_pcs_list(t, NULL, 0, pc, err); /* a damaged file is told before the wait */
    if (n < 0 || (n = member_look(mo, t, NULL, NULL, &mdns, f, &n_f, err)) < 0 ||
        (n = aq_pcs_list(t, f, n_f, pc, err)) < 0)
        return n;
    if (mo->json) {
        put(&o, "{");
        put_mdns(&o, &mdns);
        put(&o, ",\"pcs\":[");
    }
    for (int i = 0; i < n; i++)
        list_one(&o, mo, &pc[i], i == 0);
    if (mo->json)
        put(&o, "]}\n");
    else if (mdns.state != AQ_PRESENCE_RUNNING)
        put(&o, "%s\n", aq_presence_text(mdns.state));
    else if (!n)
        put(&o, "No other PCs found. Guest Wi-Fi and VPNs often block this: aquifer-cli pool add "
                "ADDRESS\n");
    return out_end(&o, "pool list");
}

/* ---- add, remove, leave ------------------------------------------------------------------------------- */

static int pool_add(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    char addr[AQ_ADDR_MAX + 1];
    const aq_json *j;
    out o = {0};
    int rc;

    if (mo->call) {
        put(&o, "{\"do\":\"add\",\"address\":");
        put_json(&o, arg);
        put(&o, "}");
        if ((rc = far_ask(mo->call, &o, &j, err)) < 0)
            return rc;
        const char *kept = aq_json_str(j, "address");
        snprintf(addr, sizeof addr, "%s", kept ? kept : arg);
    } else if ((rc = aq_trust_hold(t, err)) < 0 || (rc = aq_known_add(t, arg, addr, err)) < 0) {
        return rc;
    }
    const char *one = addr;
    aq_reach reach = aq_reach_try(&one, 1, CALL_US);
    if (mo->json) {
        put(&o, "{\"added\":");
        put_json(&o, addr);
        put(&o, ",\"state\":\"%s\",\"text\":", state_name(reach));
        put_json(&o, aq_reach_text(reach));
        put(&o, "}\n");
    } else {
        put(&o, "%s is remembered. %s\n", addr, aq_reach_text(reach));
    }
    return out_end(&o, "pool add");
}

/* By name or id; *ret stays when there is none. */
static int find_member(const aq_roster *r, const char *arg, const aq_member **ret, aq_err *err)
{
    uint32_t n = 0;
    char hex[65];

    for (uint32_t i = 0; i < r->n; i++) {
        aq_hex(r->m[i].id.b, 32, hex);
        if (strcmp(r->m[i].name, arg) && strcmp(hex, arg))
            continue;
        *ret = &r->m[i];
        n++;
    }
    return n > 1 ? aq_fail(err, AQ_E_INVAL,
                           "%u members are called '%s': give the id (pool status --json)", n, arg)
                 : 0;
}

/* A member out of the pool (hit), or an address forgotten: 1, 0 = there was none. */
static int remove_far(const member_opt *mo, const char *arg, const aq_member *hit,
                      uint32_t *ret_epoch, aq_err *err)
{
    const aq_json *j;
    out o = {0};

    put(&o, "{\"do\":\"%s\",", hit ? "remove" : "forget");
    if (hit) {
        put_id(&o, &hit->id);
    } else {
        put(&o, "\"address\":");
        put_json(&o, arg);
    }
    put(&o, "}");
    int rc = far_ask(mo->call, &o, &j, err);
    if (rc < 0)
        return rc;
    *ret_epoch = (uint32_t)aq_json_int(j, "epoch", 0);
    return hit || aq_json_bool(j, "known", false);
}

static int remove_here(aq_trust *t, const char *arg, const aq_member *hit, aq_roster *r,
                       aq_err *err)
{
    int rc = hit ? aq_trust_remove(t, &hit->id, err) : aq_known_drop(t, arg, err);

    if (rc >= 0)
        (void)!aq_trust_roster(t, r);
    return rc < 0 ? rc : hit || rc;
}

static int pool_remove(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    const aq_member *hit = NULL;
    out o = {0};
    int rc = !r ? aq_fail(err, AQ_E_NOMEM, "out of memory") : mo->call ? 0 : aq_trust_hold(t, err);

    if (rc < 0)
        return rc;
    (void)!aq_trust_roster(t, r);
    if ((rc = find_member(r, arg, &hit, err)) < 0)
        return rc;
    rc = mo->call ? remove_far(mo, arg, hit, &r->epoch, err) : remove_here(t, arg, hit, r, err);
    if (rc == 0)
        return aq_fail(err, AQ_E_INVAL, "'%s' is neither a member nor an added address", arg);
    if (rc < 0)
        return rc;
    if (mo->json) {
        put(&o, "{\"removed\":");
        put_json(&o, arg);
        put(&o, ",\"member\":%s,\"epoch\":%u}\n", hit ? "true" : "false", r->epoch);
    } else if (hit) {
        put(&o,
            "%s is removed; the pool has a new secret (epoch %u), which the other members get "
            "when they meet this PC\n",
            arg, r->epoch);
    } else {
        put(&o, "%s is forgotten\n", arg);
    }
    return out_end(&o, "pool remove");
}

static int pool_permit(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    AQ_AUTOFREE aq_roster *r = calloc(1, sizeof *r);
    const aq_member *m = NULL;
    const aq_json *j;
    uint32_t bit = 0;
    out o = {0};
    int rc = r ? 0 : aq_fail(err, AQ_E_NOMEM, "out of memory");

    for (size_t i = 0; i < AQ_LEN(perm_names); i++)
        if (!strcmp(mo->more[0], perm_names[i].name))
            bit = perm_names[i].bit;
    bool on = !strcmp(mo->more[1], "on");
    if (rc >= 0 && (!bit || (!on && strcmp(mo->more[1], "off") != 0)))
        rc = aq_fail(err, AQ_E_INVAL,
                     "'%s %s': permissions are requests, layers, experts and files, each on or off",
                     mo->more[0], mo->more[1]);
    if (rc < 0 || (!mo->call && (rc = aq_trust_hold(t, err)) < 0))
        return rc;
    (void)!aq_trust_roster(t, r);
    if ((rc = find_member(r, arg, &m, err)) < 0)
        return rc;
    if (!m || aq_id_equal(&m->id, aq_trust_id(t)))
        return aq_fail(err, AQ_E_INVAL, "'%s' is no other PC of this pool", arg);
    uint32_t perms = on ? m->perms | bit : m->perms & ~bit;
    if (mo->call) {
        put(&o, "{\"do\":\"permit\",\"permissions\":%u,", perms);
        put_id(&o, &m->id);
        put(&o, "}");
        rc = far_ask(mo->call, &o, &j, err);
    } else {
        rc = aq_trust_set_perms(t, &m->id, perms, err);
    }
    if (rc < 0)
        return rc;
    if (mo->json) {
        put(&o, "{");
        put_id(&o, &m->id);
        put(&o, ",\"name\":");
        put_json(&o, m->name);
        put(&o, ",");
        put_perms(&o, perms);
        put(&o, "}\n");
    } else {
        put(&o, "%s may %suse %s here\n", m->name, on ? "" : "not ", mo->more[0]);
    }
    return out_end(&o, "pool permit");
}

static int pool_leave(const member_opt *mo, aq_trust *t, const char *arg, aq_err *err)
{
    const aq_json *j;
    out o = {0};
    int rc = mo->call ? 0 : aq_trust_hold(t, err);

    (void)arg;
    if (rc < 0)
        return rc;
    if (!aq_trust_roster(t, NULL))
        return aq_fail(err, AQ_E_INVAL, "this PC is in no pool");
    if (mo->call) {
        put(&o, "{\"do\":\"leave\"}");
        rc = far_ask(mo->call, &o, &j, err);
    } else {
        rc = aq_trust_leave(t, err);
    }
    if (rc < 0)
        return rc;
    put(&o, mo->json ? "{\"left\":true}\n"
                     : "this PC is in no pool any more; the others still list it until one of them "
                       "removes it\n");
    return out_end(&o, "pool leave");
}

/* ---- dispatch ---------------------------------------------------------------------------------- */

static const struct {
    const char *name, *where, *needs; /* needs: NULL = no argument */
    int n_pos;
    int (*run)(const member_opt *, aq_trust *, const char *arg, aq_err *);
} commands[] = {
    {"status", "pool status", NULL, 0, pool_status},
    {"list", "pool list", NULL, 0, pool_list},
    {"pair", "pool pair", "ADDRESS or NAME of the other PC, or --wait", 1, pool_pair},
    {"add", "pool add", "ADDRESS of the other PC", 1, pool_add},
    {"remove", "pool remove", "NAME or id of a member, or an added ADDRESS", 1, pool_remove},
    {"permit", "pool permit",
     "NAME or id of a member, then requests, layers, experts or files, then on or off", 3,
     pool_permit},
    {"leave", "pool leave", NULL, 0, pool_leave},
};

int cli_pool_member(int argc, char **argv)
{
    member_opt mo = {.port = AQ_POOL_PORT, .wait_ms = CLI_MDNS_MS};
    cli_opt opts[] = {{"--json", 'b', &mo.json}, {"--state", 's', &mo.state},
                      {"--name", 's', &mo.name}, {"--timeout-ms", 'u', &mo.wait_ms},
                      {"--wait", 'b', &mo.wait}, {"--bind", 's', &mo.bind},
                      {"--port", 'u', &mo.port}, {0}};
    AQ_AUTO(aq_trust_free) aq_trust *t = NULL;
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    const char *pos[3] = {NULL};
    aq_err err = {0};
    int n_pos;
    size_t i = 0;

    while (i < AQ_LEN(commands) && (argc < 2 || strcmp(argv[1], commands[i].name)))
        i++;
    if (i == AQ_LEN(commands))
        return cli_error(
            CLI_CANNOT, "pool",
            "needs a command: status, list, pair, add, remove, permit, leave or check (aquifer-cli "
            "--help shows the use)");
    int code = cli_parse(argc - 1, argv + 1, opts, pos, 3, &n_pos);
    if (code != CLI_OK)
        return code;
    int takes = mo.wait ? 0 : commands[i].n_pos;
    if (n_pos < takes)
        return cli_error(CLI_CANNOT, commands[i].where, "needs %s", commands[i].needs);
    if (n_pos > takes)
        return cli_error(CLI_CANNOT, commands[i].where, "takes no '%s'", pos[takes]);
    mo.more[0] = pos[1];
    mo.more[1] = pos[2];
    bool pairs = commands[i].run == pool_pair;
    if (!pairs && mo.wait)
        return cli_error(CLI_CANNOT, "--wait", "belongs to pool pair");
    if (!mo.wait && (mo.bind || mo.port != AQ_POOL_PORT))
        return cli_error(CLI_CANNOT, mo.bind ? "--bind" : "--port", "belongs to pool pair --wait");
    if (mo.port > UINT16_MAX || mo.wait_ms > 60000)
        return cli_error(CLI_CANNOT, mo.port > UINT16_MAX ? "--port" : "--timeout-ms",
                         "at most %u is possible", mo.port > UINT16_MAX ? UINT16_MAX : 60000);
    int rc = cli_trust_open(mo.state, mo.name, &t, &err);
    bool reads = commands[i].run == pool_status || commands[i].run == pool_list;
    rc = rc < 0 ? rc : aq_call_open(t, &call, &err);
    mo.call = call;
    if (rc == -AQ_E_BUSY && reads)
        rc = 0; /* that process answers nothing; its files are here */
    rc = rc < 0 ? rc : commands[i].run(&mo, t, pos[0], &err);
    if (pairs && rc == -AQ_E_AUTH) /* it was run, and refused */
        return cli_error(CLI_FAILED, commands[i].where, "%s", err.text);
    return rc < 0 ? cli_fail(commands[i].where, rc, &err) : rc;
}
