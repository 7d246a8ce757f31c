/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the process that has this PC's pool, over its socket (docs/PROTOCOL.md, 14). One thread. */
#include <stdio.h>

#include "cli-member.h"

int far_say(aq_call *call, out *o, aq_err *err)
{
    int rc = o->rc < 0 ? aq_fail(err, AQ_E_NOMEM, "out of memory")
                       : aq_call_say(call, (const char *)o->b.p, o->b.n, err);

    aq_bytes_clear(&o->b);
    o->rc = 0;
    return rc;
}

int far_ask(aq_call *call, out *o, const aq_json **ret, aq_err *err)
{
    const aq_json *j = NULL;
    int rc = far_say(call, o, err);

    while (rc >= 0 && !aq_json_get(j, "done"))
        rc = aq_call_hear(call, -1, &j, err);
    if (rc >= 0)
        *ret = aq_json_get(j, "done");
    return rc < 0 ? rc : 0;
}

bool far_id(const aq_json *j, aq_id *ret)
{
    const char *s = aq_json_str(j, "id");
    unsigned x;

    if (!s || strlen(s) != 64 || strspn(s, "0123456789abcdef") != 64)
        return false;
    for (int i = 0; i < 32; i++) {
        char two[3] = {s[2 * i], s[2 * i + 1], 0};
        x = (unsigned)strtoul(two, NULL, 16);
        ret->b[i] = (uint8_t)x;
    }
    return true;
}

static void get_text(const aq_json *j, const char *key, char *ret, size_t cap)
{
    const char *s = aq_json_str(j, key);

    snprintf(ret, cap, "%s", s ? s : "");
}

int far_state(aq_call *call, aq_presence_info *mdns, aq_found *f, uint32_t *ret_n,
              const aq_json **ret, aq_err *err)
{
    const aq_json *j = NULL;
    uint32_t n = 0;
    out o = {0};

    put(&o, "{\"do\":\"state\"}");
    int rc = far_ask(call, &o, &j, err);
    if (rc < 0)
        return rc;
    const char *name = aq_json_str(j, "mdns");
    *mdns = (aq_presence_info){.state = AQ_PRESENCE_FAILED};
    for (uint32_t i = 0; name && i < AQ_PRESENCE_N; i++)
        if (!strcmp(name, aq_presence_name((aq_presence_state)i)))
            mdns->state = (aq_presence_state)i;
    get_text(j, "mdns_detail", mdns->detail, sizeof mdns->detail);
    const aq_json *found = aq_json_get(j, "found");
    bool list = f && found && found->kind == AQ_JSON_ARR;
    for (const aq_json *i = list ? found->item : NULL; i && n < AQ_FOUND_MAX; i = i->next) {
        aq_found *p = &f[n];
        const aq_json *addrs = aq_json_get(i, "addresses");
        *p = (aq_found){0};
        if (!far_id(i, &p->id))
            continue;
        get_text(i, "name", p->name, sizeof p->name);
        get_text(i, "version", p->version, sizeof p->version);
        for (const aq_json *a = addrs && addrs->kind == AQ_JSON_ARR ? addrs->item : NULL;
             a && p->n_addr < AQ_ADDRS_MAX; a = a->next)
            if (a->kind == AQ_JSON_STR)
                snprintf(p->addr[p->n_addr++], sizeof p->addr[0], "%s", a->str);
        n++;
    }
    mdns->n_found = n;
    if (ret_n)
        *ret_n = n;
    *ret = j;
    return 0;
}

int member_look(const member_opt *mo, const aq_trust *t, bool (*is_it)(void *, const aq_found *),
                void *user, aq_presence_info *mdns, aq_found *f, uint32_t *ret_n, aq_err *err)
{
    const aq_json *state;

    return mo->call ? far_state(mo->call, mdns, f, ret_n, &state, err)
                    : aq_look(t, AQ_VERSION, is_it, user, false, mo->wait_ms, mdns, f, ret_n, err);
}

/* ---- a split of that process ------------------------------------------------------------------- */

void far_split(const aq_json *j, aq_split_state *ret)
{
    const char *is = aq_json_str(j, "state");

    *ret = (aq_split_state){.kind = AQ_SPLIT_RUNNING};
    if (is && !strcmp(is, "lost"))
        ret->kind = AQ_SPLIT_LOST;
    else if (is && !strcmp(is, "alone"))
        ret->kind = AQ_SPLIT_ALONE;
    ret->cut = (uint32_t)aq_json_int(j, "cut", 0);
    ret->n_layer = (uint32_t)aq_json_int(j, "layers", 0);
    ret->n_loss = (uint32_t)aq_json_int(j, "losses", 0);
    ret->n_window = (uint64_t)aq_json_int(j, "windows", 0);
    ret->worker_us = (uint64_t)aq_json_int(j, "worker_us", 0);
    ret->net_us = (uint64_t)aq_json_int(j, "network_us", 0);
    get_text(j, "pc", ret->pc, sizeof ret->pc);
    get_text(j, "text", ret->text, sizeof ret->text);
}

/* As the options say it, or not: 1. */
static int fits(const cli_split_opt *o, const aq_json *split, const aq_holder *who, aq_err *err)
{
    const char *pc = aq_json_str(split, "pc"), *rows = aq_json_str(split, "rows");
    int64_t cut = aq_json_int(split, "cut", 0);

    if ((o->pc && (!pc || strcmp(o->pc, pc) != 0)) || (o->cut && o->cut != cut) ||
        (o->rows && (!rows || strcmp(o->rows, rows) != 0)))
        return aq_fail(err, AQ_E_BUSY,
                       "%s, process %u, has this model split with %s, %lld layers here, rows as "
                       "%s: ask without --pc, --cut and --rows, or end that split",
                       who->name, who->pid, pc ? pc : "?", (long long)cut, rows ? rows : "?");
    return 1;
}

int cli_split_far(const cli_split_opt *o, const aq_model *m, const aq_wsrc *src, cli_far *ret,
                  aq_err *err)
{
    AQ_AUTO(aq_trust_free) aq_trust *trust = NULL;
    AQ_AUTO(aq_call_free) aq_call *call = NULL;
    aq_presence_info mdns;
    const aq_json *state;
    aq_id id;
    int rc = cli_trust_open(o->state, NULL, &trust, err);

    rc = rc < 0 ? rc : aq_call_open(trust, &call, err);
    if (rc == -AQ_E_BUSY) /* what has the pool has no splits that could be asked for */
        return 0;
    rc = rc <= 0 ? rc : far_state(call, &mdns, NULL, NULL, &state, err);
    const aq_json *splits = call && rc >= 0 ? aq_json_get(state, "splits") : NULL;
    if (rc < 0 || !splits || splits->kind != AQ_JSON_ARR || !splits->n)
        return rc < 0 ? rc : 0;
    const aq_holder *who = aq_call_holder(call);
    if ((rc = aq_trust_fingerprint(trust, m, src, ret->model, err)) < 0)
        return rc;
    char hex[65];
    aq_hex(ret->model, sizeof ret->model, hex);
    for (const aq_json *s = splits->item; s; s = s->next) {
        const char *model = aq_json_str(s, "model"), *name = aq_json_str(s, "name");
        if (model && !strcmp(model, hex)) {
            if ((rc = fits(o, s, who, err)) < 0)
                return rc;
            get_text(s, "device", ret->device, sizeof ret->device);
            far_split(s, &ret->split);
            ret->call = AQ_STEAL(call);
            return 1;
        }
        if (far_id(s, &id) && cli_split_is_with(trust, o, &id))
            return aq_fail(err, AQ_E_BUSY,
                           "%s, process %u, computes %s with %s: end that split first, or ask that "
                           "model",
                           who->name, who->pid, name && *name ? name : "a model",
                           aq_json_str(s, "pc") ? aq_json_str(s, "pc") : "the other PC");
    }
    return 0;
}
