/* SPDX-License-Identifier: Apache-2.0 */
/* Two PCs of one process over loopback, each with its seat: paired by digits, watched, permitted, removed; a port in
 * use and its way out; what a PC does at its next start. Waiting is for a change, with a limit against hanging. */
#include "seat-priv.h"
#include "seat-wait.h"
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

typedef struct side {
    aq_trust *trust;
    aq_seat *seat;
    aq_seat_state *st;
} side;

static char top[256];
static aq_rt *rt;

static bool until(side *s, bool (*fn)(const aq_seat_state *))
{
    return seat_until(s->seat, s->st, fn);
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

static const aq_pc *other(const aq_seat_state *st)
{
    for (uint32_t i = 0; i < st->n_pc; i++)
        if (st->pc[i].member && !st->pc[i].self)
            return &st->pc[i];
    return NULL;
}

static bool is_here(const aq_seat_state *st)
{
    return other(st) && other(st)->state == AQ_PC_HERE;
}

static bool is_refused(const aq_seat_state *st)
{
    return other(st) && other(st)->state == AQ_PC_TROUBLE;
}

static int sit(side *s, const char *name, uint16_t port, aq_err *err)
{
    static const char *const bind = "127.0.0.1", *const dir = "/nonexistent";
    char path[512];

    snprintf(path, sizeof path, "%s/%s", top, name);
    if (!s->st)
        s->st = calloc(1, sizeof *s->st);
    int rc = s->trust ? AQ_OK : aq_trust_open(path, name, NULL, &s->trust, err);
    rc = rc < 0 ? rc : aq_trust_hold(s->trust, err);
    aq_seat_cfg c = {.rt = rt,
                     .trust = s->trust,
                     .app = "test 1",
                     .version = "1",
                     .dir = &dir,
                     .n_dir = 1,
                     .bind = &bind,
                     .n_bind = 1,
                     .port = port,
                     .pair = true,
                     .hide = true,
                     .watch = true,
                     .changed_cb = seat_changed};
    return rc < 0 ? rc : aq_seat_new(&c, &s->seat, err);
}

static void stand_up(side *s)
{
    aq_seat_free(s->seat);
    aq_trust_free(s->trust);
    free(s->st);
    *s = (side){0};
}

static int call(side *from, side *to, aq_err *err)
{
    char addr[AQ_ADDR_MAX + 1];
    const char *a = addr;

    aq_seat_get(to->seat, to->st);
    snprintf(addr, sizeof addr, "127.0.0.1:%u", to->st->port);
    return aq_seat_pair(from->seat, &a, 1, err);
}

/* Either side goes, before and after its own They Match, and after the other's: the other one is told, and nothing is shared. */
static void test_cancel(side *a, side *b)
{
    static const char *const steps[] = {"nobody has answered", "who goes has said yes",
                                        "the other has said yes"};
    aq_err err = {0};

    for (unsigned i = 0; i < 2 * AQ_LEN(steps); i++) {
        side *goes = i % 2 ? b : a, *stays = i % 2 ? a : b;
        bool good = call(a, b, &err) == AQ_OK && until(a, is_digits) && until(b, is_digits);
        if (i / 2)
            aq_seat_pair_answer(i / 2 == 1 ? goes->seat : stays->seat, true);
        aq_seat_pair_end(goes->seat);
        good = good && until(stays, is_broken);
        aq_seat_get(goes->seat, goes->st);
        ok(good && goes->st->pair.step == AQ_PAIR_NONE && !a->st->in_pool && !b->st->in_pool &&
               strstr(stays->st->pair.why.text, goes == a ? "Desktop" : "Laptop"),
           "%s goes when %s: %s", goes == a ? "the caller" : "who was called", steps[i / 2],
           stays->st->pair.why.text);
        aq_seat_pair_end(stays->seat);
    }
}

static void test_pair(side *a, side *b)
{
    aq_err err = {0};

    aq_seat_get(a->seat, a->st);
    ok(a->st->port && !a->st->in_pool && a->st->pair.step == AQ_PAIR_NONE && !a->st->n_pc,
       "alone: it listens, and knows nobody");
    ok(a->st->mdns.state == AQ_PRESENCE_OFF, "and shows itself to nobody");
    ok(call(a, b, &err) == AQ_OK && until(a, is_digits) && until(b, is_digits) &&
           !strcmp(a->st->pair.digits, b->st->pair.digits) && strlen(a->st->pair.digits) == 6 &&
           !a->st->pair.incoming && b->st->pair.incoming && !strcmp(a->st->pair.name, "Laptop") &&
           !strcmp(b->st->pair.name, "Desktop"),
       "both show the same digits, and whose");
    ok(call(a, b, &err) == -AQ_E_BUSY, "one at a time: %s", err.text);
    aq_seat_pair_answer(a->seat, true);
    aq_seat_get(a->seat, a->st);
    ok(a->st->pair.step == AQ_PAIR_WAITS, "one person has answered");
    aq_seat_pair_answer(b->seat, false);
    ok(until(a, is_broken) && until(b, is_broken) && a->st->pair.why.code == AQ_E_AUTH &&
           !a->st->in_pool && !b->st->in_pool,
       "the other said no: %s", a->st->pair.why.text);
    err = (aq_err){0};
    ok(call(a, b, &err) == AQ_OK && until(a, is_broken) && a->st->pair.why.code == AQ_E_BUSY,
       "not while the other's end is on its screen: %s", a->st->pair.why.text);
    aq_seat_pair_end(a->seat);
    aq_seat_pair_end(b->seat);
    ok(call(a, b, &err) == AQ_OK && until(a, is_digits) && until(b, is_digits), "once more");
    aq_seat_pair_end(a->seat);
    ok(until(b, is_broken) && !b->st->in_pool, "the caller went: %s", b->st->pair.why.text);
    aq_seat_pair_end(b->seat);
    test_cancel(a, b);
    ok(call(a, b, &err) == AQ_OK && until(a, is_digits) && until(b, is_digits), "and once more");
    aq_seat_pair_answer(a->seat, true);
    aq_seat_pair_answer(b->seat, true);
    ok(until(a, is_done) && until(b, is_done) && a->st->in_pool && b->st->in_pool &&
           aq_id_equal(&a->st->pair.id, aq_trust_id(b->trust)) && a->st->n_pc == 2 &&
           a->st->pc[0].self && other(a->st)->n_addr == 1,
       "paired, and the address is kept");
    aq_seat_pair_end(a->seat);
    aq_seat_pair_end(b->seat);
}

typedef struct caller {
    side *from, *to;
    pthread_barrier_t *go;
    int rc;
    aq_err err;
} caller;

static void *caller_main(void *arg)
{
    caller *c = arg;

    (void)!pthread_barrier_wait(c->go);
    c->rc = call(c->from, c->to, &c->err);
    return NULL;
}

/* Whoever is faster, one of the two calls goes on. */
static void test_both_call(side *a, side *b)
{
    pthread_barrier_t go;
    pthread_t thread;
    bool same = true;
    uint32_t i;

    if (pthread_barrier_init(&go, NULL, 2))
        abort();
    for (i = 0; i < 4 && same; i++) {
        caller there = {.from = b, .to = a, .go = &go}, here = {.from = a, .to = b, .go = &go};
        aq_seat_get(a->seat, a->st);
        aq_seat_get(b->seat, b->st);
        if (pthread_create(&thread, NULL, caller_main, &there))
            abort();
        caller_main(&here);
        pthread_join(thread, NULL);
        same = here.rc == AQ_OK && there.rc == AQ_OK && until(a, is_digits) &&
               until(b, is_digits) && !strcmp(a->st->pair.digits, b->st->pair.digits) &&
               a->st->pair.incoming != b->st->pair.incoming;
        aq_seat_pair_end(a->seat);
        if (same)
            same = until(b, is_broken);
        aq_seat_pair_end(b->seat);
    }
    pthread_barrier_destroy(&go);
    ok(same, "both press Pair at once: one pairing, time %u: %d %d %s %s", i, a->st->pair.step,
       b->st->pair.step, a->st->pair.why.text, b->st->pair.why.text);
}

static void test_members(side *a, side *b)
{
    const aq_id *own = aq_trust_id(a->trust);
    aq_err err = {0};

    ok(until(a, is_here) && other(a->st)->mem_bytes && other(a->st)->rtt_us > 0 &&
           !*other(a->st)->works_for && other(a->st)->perms == AQ_PERM_DEFAULT,
       "it says how it is");
    uint16_t port = b->st->port;
    ok(aq_seat_set_perms(b->seat, own, AQ_PERM_REQUESTS, &err) == AQ_OK &&
           aq_trust_perms(b->trust, own) == AQ_PERM_REQUESTS,
       "a permission is taken back");
    aq_seat_get(b->seat, b->st);
    ok(port && b->st->port == port, "and it listens again, where it did");
    ok(aq_seat_remove(b->seat, own, &err) == AQ_OK && aq_trust_perms(b->trust, own) < 0,
       "a member is removed");
    aq_seat_get(b->seat, b->st);
    ok(b->st->in_pool && b->st->n_pc == 1 && !other(b->st), "and gone");
    aq_seat_ask(a->seat);
    ok(until(a, is_refused) && strstr(other(a->st)->why.text, "Laptop"), "who was is told");
    ok(aq_seat_leave(a->seat, &err) == AQ_OK, "it leaves");
    aq_seat_get(a->seat, a->st);
    ok(!a->st->in_pool && !a->st->n_pc, "and is in no pool");
}

static void test_port(side *a, side *b)
{
    aq_err err = {0};

    aq_seat_get(b->seat, b->st);
    uint16_t port = b->st->port;
    ok(aq_seat_listen(a->seat, port, &err) == -AQ_E_IO && strstr(err.text, "in use"), "taken: %s",
       err.text);
    aq_seat_get(a->seat, a->st);
    ok(!a->st->port && a->st->listen_err.code == AQ_E_IO &&
           strstr(a->st->listen_err.text, "in use"),
       "which its state says");
    ok(aq_seat_listen(a->seat, 0, &err) == AQ_OK, "another one will do");
    aq_seat_get(a->seat, a->st);
    ok(a->st->port && a->st->port != port && !a->st->listen_err.code, "and does: %u", a->st->port);
}

static void put_file(const char *name, const char *text)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", top, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        ok(false, "could not write %s", path);
    if (fd >= 0)
        close(fd);
}

static void test_mode(void)
{
    static const char *const bad[] = {"aquifer-mode 2\non=1\nport=0\nsplit=0\ncut=0\n",
                                      "aquifer-mode 1\non=2\nport=0\nsplit=0\ncut=0\n",
                                      "aquifer-mode 1\non=1\nport=0\nsplit=1\ncut=0\n",
                                      "aquifer-mode 1\n", ""};
    aq_mode m = {.on = true, .port = 7777, .split = true, .cut = 12, .rows = "f16"}, r;
    aq_err err = {0};

    ok(aq_mode_load(top, &r, &err) == AQ_OK && !r.on && !r.split, "no file: all is off");
    r.on = true;
    ok(aq_mode_load("/nonexistent", &r, &err) == AQ_OK && !r.on, "nor a folder");
    memset(m.pc.b, 7, sizeof m.pc.b);
    snprintf(m.model, sizeof m.model, "/home/me/Modelle/größer=besser.gguf");
    ok(aq_mode_save(top, &m, &err) == AQ_OK && aq_mode_load(top, &r, &err) == AQ_OK && r.on &&
           r.port == 7777 && r.split && r.cut == 12 && !strcmp(r.rows, "f16") &&
           aq_id_equal(&r.pc, &m.pc) && !strcmp(r.model, m.model),
       "kept as it was: %s", err.text);
    snprintf(m.model, sizeof m.model, "/home/me/\xff.gguf");
    ok(aq_mode_save(top, &m, &err) == -AQ_E_INVAL, "a path that is not UTF-8: %s", err.text);
    snprintf(m.model, sizeof m.model, "/home/me/a\nb.gguf");
    ok(aq_mode_save(top, &m, &err) == -AQ_E_INVAL && aq_mode_load(top, &r, &err) == AQ_OK &&
           r.cut == 12,
       "one with a line break; the old file stays");
    for (size_t i = 0; i < AQ_LEN(bad); i++) {
        put_file("mode", bad[i]);
        err = (aq_err){0};
        r.cut = 5;
        ok(aq_mode_load(top, &r, &err) == -AQ_E_FORMAT && r.cut == 5, "damaged, way %zu: %s", i,
           err.text);
    }
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    side a = {0}, b = {0};
    aq_err err = {0};
    aq_rt_cfg cfg = {.n_threads = 1, .cpu_path = "c"};

    snprintf(top, sizeof top, "%s/aq-seat-XXXXXX", tmp ? tmp : "/tmp");
    if (!ok(mkdtemp(top) && aq_rt_new(&cfg, &rt, &err) == 0, "a folder and a runtime"))
        return tap_done();
    test_mode();
    if (ok(sit(&a, "Desktop", 0, &err) == 0 && sit(&b, "Laptop", 0, &err) == 0, "two seats: %s",
           err.text)) {
        test_both_call(&a, &b);
        test_pair(&a, &b);
        test_members(&a, &b);
        test_port(&a, &b);
    }
    stand_up(&a);
    stand_up(&b);
    aq_rt_free(rt);
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
