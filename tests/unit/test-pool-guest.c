/* SPDX-License-Identifier: Apache-2.0 */
/* The seat of a guest: another process (a child of this one, forked before there is a thread) has the PC's pool as a node has it, and
 * this one asks and steers it: PCs, pairing from both sides, permissions, names, addresses. When that process is killed, the guest takes its
 * place. Other PCs are seats of this process. Waiting is for a change, with a limit against hanging. */
#include "seat-priv.h"
#include "seat-wait.h"
#include "tap.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct side {
    aq_rt *rt;
    aq_trust *trust;
    aq_seat *seat;
    aq_seat_state *st;
    char ctl[300]; /* the seat borrows it */
} side;

static char top[200];
static uint32_t want_port;

static bool until(side *s, bool (*fn)(const aq_seat_state *))
{
    return seat_until(s->seat, s->st, fn);
}

static const aq_pc *find(const aq_seat_state *st, const char *name)
{
    for (uint32_t i = 0; i < st->n_pc; i++)
        if (!strcmp(*st->pc[i].name ? st->pc[i].name : st->pc[i].addr[0], name))
            return &st->pc[i];
    return NULL;
}

static bool is_told(const aq_seat_state *st)
{
    return st->guest && st->host.pid && st->port == want_port;
}

static bool is_open(const aq_seat_state *st)
{
    return st->open;
}

static bool is_digits(const aq_seat_state *st)
{
    return st->pair.step == AQ_PAIR_DIGITS;
}

static bool is_done(const aq_seat_state *st)
{
    return st->pair.step == AQ_PAIR_DONE;
}

static bool is_broken(const aq_seat_state *st)
{
    return st->pair.step == AQ_PAIR_BROKEN;
}

static bool has_laptop(const aq_seat_state *st)
{
    const aq_pc *pc = find(st, "Laptop");

    return pc && pc->member;
}

static bool is_kitchen_here(const aq_seat_state *st)
{
    const aq_pc *pc = find(st, "Kitchen");

    return pc && pc->member && pc->state == AQ_PC_HERE;
}

static bool is_own(const aq_seat_state *st)
{
    return !st->guest && st->port;
}

static int sit(side *s, const char *name, bool guest, bool pair, aq_err *err)
{
    static const char *const bind = "127.0.0.1", *const dir = "/nonexistent";
    char path[300];

    snprintf(path, sizeof path, "%s/%s", top, name);
    snprintf(s->ctl, sizeof s->ctl, "%s/run-%s", top, name);
    s->st = calloc(1, sizeof *s->st);
    int rc = aq_rt_new(&(aq_rt_cfg){.n_threads = 1, .cpu_path = "c"}, &s->rt, err);
    rc = rc < 0 ? rc : aq_trust_open(path, name, NULL, &s->trust, err);
    if (rc >= 0 && !guest)
        rc = aq_trust_hold(s->trust, err);
    aq_seat_cfg c = {.rt = s->rt,
                     .trust = s->trust,
                     .app = "test 1",
                     .version = "1",
                     .dir = &dir,
                     .n_dir = 1,
                     .bind = &bind,
                     .n_bind = 1,
                     .pair = pair,
                     .hide = true,
                     .guest = guest,
                     .watch = guest,
                     .ctl_dir = s->ctl,
                     .changed_cb = seat_changed};
    return rc < 0 ? rc : aq_seat_new(&c, &s->seat, err);
}

static void stand_up(side *s)
{
    aq_seat_free(s->seat);
    aq_trust_free(s->trust);
    aq_rt_free(s->rt);
    free(s->st);
    *s = (side){0};
}

/* The other process: says its port, and is there until it is killed. */
static void host_main(int out)
{
    side s = {0};
    aq_err err = {0};
    uint32_t port = 0;

    if (sit(&s, "Desktop", false, false, &err) >= 0) {
        aq_seat_get(s.seat, s.st);
        port = s.st->port;
    } else {
        printf("# %s\n", err.text);
    }
    if (write(out, &port, sizeof port) == sizeof port && port)
        for (;;)
            pause();
    _exit(1);
}

static uint32_t perms_on_disk(const aq_id *id)
{
    char path[300];
    aq_trust *t = NULL;

    snprintf(path, sizeof path, "%s/Desktop", top);
    if (aq_trust_open(path, "x", NULL, &t, NULL) < 0)
        return 99;
    int perms = aq_trust_perms(t, id);
    aq_trust_free(t);
    return perms < 0 ? 98 : (uint32_t)perms;
}

static bool same_digits(const side *a, const side *b)
{
    return a->st->pair.digits[0] && !strcmp(a->st->pair.digits, b->st->pair.digits);
}

static void pairing(side *g, side *laptop, side *kitchen)
{
    char addr[AQ_ADDR_MAX + 1];
    const char *a = addr;
    aq_err err = {0};

    /* another PC calls: the digits show on the guest's side, too. The host lets it in only while the guest waits */
    snprintf(addr, sizeof addr, "127.0.0.1:%u", want_port);
    ok(until(g, is_open) && aq_seat_pair(laptop->seat, &a, 1, &err) >= 0 &&
           until(laptop, is_digits) && until(g, is_digits) && g->st->pair.incoming &&
           same_digits(g, laptop) && !strcmp(g->st->pair.name, "Laptop"),
       "called by another PC: the same digits with the guest %s", g->st->pair.digits);
    aq_seat_pair_answer(g->seat, true);
    aq_seat_pair_answer(laptop->seat, true);
    ok(until(g, is_done) && until(laptop, is_done) &&
           aq_id_equal(&g->st->pair.id, aq_trust_id(laptop->trust)),
       "paired from the guest's side");
    aq_seat_pair_end(g->seat);
    aq_seat_pair_end(laptop->seat);
    ok(until(g, has_laptop) && g->st->in_pool, "the new member is in the guest's list");

    /* the guest calls */
    aq_seat_get(kitchen->seat, kitchen->st);
    snprintf(addr, sizeof addr, "127.0.0.1:%u", kitchen->st->port);
    ok(aq_seat_pair(g->seat, &a, 1, &err) >= 0 && until(g, is_digits) &&
           until(kitchen, is_digits) && same_digits(g, kitchen),
       "the guest calls a PC: the same digits");
    ok(aq_seat_pair(g->seat, &a, 1, &err) == -AQ_E_BUSY, "one at a time: %s", err.text);
    aq_seat_pair_answer(g->seat, false);
    ok(until(kitchen, is_broken) && until(g, is_broken) && g->st->pair.why.code == AQ_E_AUTH,
       "They Differ: nothing is shared: %s", g->st->pair.why.text);
    aq_seat_pair_end(g->seat);
    aq_seat_pair_end(kitchen->seat);
    ok(aq_seat_pair(g->seat, &a, 1, &err) >= 0 && until(g, is_digits) && until(kitchen, is_digits),
       "once more");
    aq_seat_pair_answer(kitchen->seat, true);
    aq_seat_pair_answer(g->seat, true);
    ok(until(g, is_done) && until(kitchen, is_done), "paired");
    aq_seat_pair_end(g->seat);
    aq_seat_pair_end(kitchen->seat);
    ok(until(g, is_kitchen_here), "it is asked by the guest itself, and answers");
    snprintf(addr, sizeof addr, "127.0.0.1:1");
    ok(aq_seat_pair(g->seat, &a, 1, &err) >= 0 && until(g, is_broken) && g->st->pair.why.text[0],
       "where nothing listens: %s", g->st->pair.why.text);
    aq_seat_pair_end(g->seat);
    a = "8.8.8.8";
    ok(aq_seat_pair(g->seat, &a, 1, &err) >= 0 && until(g, is_broken) &&
           g->st->pair.why.code == AQ_E_AUTH,
       "a public address: %s", g->st->pair.why.text);
    aq_seat_pair_end(g->seat);
}

static void changes(side *g, side *laptop, side *kitchen)
{
    char addr[AQ_ADDR_MAX + 1] = "", name[AQ_NAME_MAX + 1];
    aq_err err = {0};

    ok(aq_seat_set_perms(g->seat, aq_trust_id(laptop->trust), AQ_PERM_REQUESTS, &err) >= 0 &&
           perms_on_disk(aq_trust_id(laptop->trust)) == AQ_PERM_REQUESTS &&
           aq_trust_perms(g->trust, aq_trust_id(laptop->trust)) == AQ_PERM_REQUESTS,
       "a permission is taken back by the guest %s", err.text);
    ok(aq_seat_add(g->seat, "127.0.0.9", addr, &err) >= 0 && !strcmp(addr, "127.0.0.9:7710"),
       "an address is kept: %s %s", addr, err.text);
    aq_seat_get(g->seat, g->st);
    ok(find(g->st, "127.0.0.9:7710") != NULL, "and listed");
    ok(aq_seat_forget(g->seat, addr, &err) == 1 && aq_seat_forget(g->seat, addr, &err) == 0,
       "and forgotten, once");
    ok(aq_seat_add(g->seat, "8.8.8.8", addr, &err) == -AQ_E_AUTH && strstr(err.text, "8.8.8.8"),
       "a public one is refused by the host: %s", err.text);
    ok(aq_seat_set_name(g->seat, "Atelier", &err) >= 0 &&
           (aq_trust_name(g->trust, name), !strcmp(name, "Atelier")),
       "a name");
    ok(aq_seat_listen(g->seat, 0, &err) == -AQ_E_BUSY, "who listens is the host: %s", err.text);
    ok(aq_seat_remove(g->seat, aq_trust_id(kitchen->trust), &err) >= 0 &&
           perms_on_disk(aq_trust_id(kitchen->trust)) == 98,
       "a member is removed %s", err.text);
    aq_seat_get(g->seat, g->st);
    ok(!find(g->st, "Kitchen") && find(g->st, "Laptop"), "and no more listed");
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    side g = {0}, laptop = {0}, kitchen = {0};
    char cmd[300];
    aq_err err = {0};
    int to[2];

    snprintf(top, sizeof top, "%s/aq-guest-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(top) || pipe(to) < 0)
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        host_main(to[1]);
    ok(pid > 0 && read(to[0], &want_port, sizeof want_port) == sizeof want_port && want_port,
       "another process has the pool");
    if (want_port && ok(sit(&g, "Desktop", true, true, &err) >= 0 &&
                            sit(&laptop, "Laptop", false, true, &err) >= 0 &&
                            sit(&kitchen, "Kitchen", false, true, &err) >= 0,
                        "a guest, and two other PCs %s", err.text)) {
        ok(until(&g, is_told) && g.st->host.pid == (uint32_t)pid && !g.st->listen_err.code &&
               aq_trust_hold(g.trust, &err) == -AQ_E_BUSY,
           "the guest knows who has the pool and where it listens; the lock stays there");
        pairing(&g, &laptop, &kitchen);
        changes(&g, &laptop, &kitchen);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        ok(until(&g, is_own) && !g.st->host.pid && aq_trust_hold(g.trust, &err) >= 0,
           "the process is killed: the guest takes its place, and listens on port %u", g.st->port);
        ok(find(g.st, "Laptop") && find(g.st, "Laptop")->perms == AQ_PERM_REQUESTS && g.st->in_pool,
           "with its members and their permissions");
        ok(aq_seat_leave(g.seat, &err) >= 0 && !aq_trust_roster(g.trust, NULL),
           "and decides itself");
    } else if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    stand_up(&g);
    stand_up(&laptop);
    stand_up(&kitchen);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
