/* SPDX-License-Identifier: Apache-2.0 */
/* The table of found PCs, what foreign TXT may do to it, and presence without a daemon.
 * usage: test-pool-presence avahi|none */
#include "presence-priv.h"
#include "tap.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static uint32_t told;

static void count_cb(void *user)
{
    ++*(uint32_t *)user;
}

static aq_presence_opts opts_of(int id, const char *name)
{
    aq_presence_opts o = {.name = name, .version = "0.1.0", .port = 7710};

    memset(o.id.b, id, sizeof o.id.b);
    return o;
}

/* A row as the daemon side makes it. 0, or the error. */
static int seen(aq_seen *s, uint64_t key, int id, const char *name, const char *addr, uint16_t port,
                aq_err *err)
{
    char txt[200];
    aq_id x;
    char hex[65];
    struct sockaddr_storage at;
    int rc;

    *s = (aq_seen){.key = key};
    memset(x.b, id, sizeof x.b);
    aq_hex(x.b, sizeof x.b, hex);
    snprintf(txt, sizeof txt, "id=%s", hex);
    if ((rc = aq_seen_txt(s, (const uint8_t *)txt, strlen(txt), err)) < 0)
        return rc;
    snprintf(txt, sizeof txt, "name=%s", name);
    if ((rc = aq_seen_txt(s, (const uint8_t *)txt, strlen(txt), err)) < 0)
        return rc;
    if ((rc = aq_addr_parse(addr, port, &at, err)) < 0)
        return rc;
    return aq_seen_at(s, (const struct sockaddr *)&at, 1, port, NULL, 0, err);
}

static bool put(aq_presence *p, uint64_t key, int id, const char *name, const char *addr)
{
    aq_seen s;

    return seen(&s, key, id, name, addr, 7710, NULL) >= 0 && aq_presence_put(p, &s, NULL) >= 0;
}

static void test_join(void)
{
    static aq_found f[AQ_FOUND_MAX];
    aq_presence_opts o = opts_of(1, "Desktop");
    aq_presence_info info;
    aq_err err = {0};
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;

    told = 0;
    if (!ok(aq_presence_new(&o, count_cb, &told, &p, &err) == 0, "a table: %s", err.text))
        return;
    ok(put(p, 1, 3, "Laptop", "[fe80::7]") && put(p, 2, 3, "Laptop", "192.168.1.7") &&
           put(p, 3, 2, "Studio", "192.168.1.5") && put(p, 4, 3, "Laptop", "10.0.0.7") &&
           put(p, 5, 3, "Laptop", "192.168.1.7") && told == 5,
       "five rows, told five times");
    ok(put(p, 6, 1, "Desktop", "192.168.1.4"), "this PC's own row");
    uint32_t n = aq_presence_found(p, f, AQ_FOUND_MAX);
    ok(n == 2 && f[0].id.b[0] == 2 && f[1].id.b[0] == 3, "two PCs, by id, and not this one: %u", n);
    ok(n == 2 && f[1].n_addr == 3 && strcmp(f[1].addr[0], "192.168.1.7:7710") == 0 &&
           strcmp(f[1].addr[1], "10.0.0.7:7710") == 0 &&
           strcmp(f[1].addr[2], "[fe80::7%lo]:7710") == 0,
       "its addresses once each, nearest first: %s %s %s", f[1].addr[0], f[1].addr[1],
       f[1].addr[2]);
    aq_presence_get(p, &info);
    ok(info.n_found == 2, "the count is that of PCs");
    ok(put(p, 4, 3, "Notebook", "10.0.0.7") && aq_presence_found(p, f, AQ_FOUND_MAX) == 2 &&
           strcmp(f[1].name, "Notebook") == 0,
       "the newest name counts");
    ok(aq_presence_found(p, f, 1) == 1 && f[0].id.b[0] == 3 && aq_presence_found(p, f, 0) == 0,
       "no more than there is room for");
    aq_presence_drop(p, 2);
    aq_presence_drop(p, 5);
    aq_presence_drop(p, 1);
    ok(aq_presence_found(p, f, AQ_FOUND_MAX) == 2 && f[1].n_addr == 1,
       "an address goes with its row");
    uint32_t before = told;
    aq_presence_drop(p, 99);
    ok(told == before, "nothing changed, nothing told");
    /* A row whose id becomes this PC's own is no other PC any more. */
    ok(put(p, 4, 1, "Desktop", "10.0.0.7") && aq_presence_found(p, f, AQ_FOUND_MAX) == 1,
       "a PC goes with its last row");
    aq_presence_get(p, &info);
    ok(info.state == AQ_PRESENCE_TWIN, "another host has this PC's id: said");
    aq_presence_drop(p, 4);
    aq_presence_get(p, &info);
    ok(info.state == AQ_PRESENCE_STARTING, "until it is gone");
    aq_seen own;
    ok(seen(&own, 7, 1, "Desktop", "192.168.1.4", 7710, &err) >= 0 && (own.own_host = true) &&
           aq_presence_put(p, &own, &err) >= 0,
       "this PC's own, of this host");
    aq_presence_get(p, &info);
    ok(info.state == AQ_PRESENCE_STARTING, "which is nobody else's");
    aq_presence_drop(p, 0);
    ok(aq_presence_found(p, f, AQ_FOUND_MAX) == 0, "all forgotten");
}

static void test_full(void)
{
    static aq_found f[AQ_FOUND_MAX];
    aq_presence_opts o = opts_of(255, "Desktop");
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    aq_err err = {0};
    aq_seen s;
    uint32_t good = 0;

    if (!ok(aq_presence_new(&o, NULL, NULL, &p, &err) == 0, "a table"))
        return;
    for (uint32_t i = 0; i < AQ_SEEN_MAX; i++) {
        char addr[32];
        snprintf(addr, sizeof addr, "10.0.%u.%u", i / 100, i % 100 + 1);
        good += put(p, i + 1, (int)(i % 200), "PC", addr);
    }
    ok(good == AQ_SEEN_MAX, "a full table");
    ok(seen(&s, 1000, 201, "One more", "10.9.9.9", 7710, &err) == 0 &&
           aq_presence_put(p, &s, &err) == -AQ_E_LIMIT && err.text[0],
       "one more is refused: %s", err.text);
    ok(put(p, 7, 202, "Changed", "10.9.9.9"), "a row of the table may still change");
    ok(aq_presence_found(p, f, AQ_FOUND_MAX) == AQ_FOUND_MAX, "PCs found are at most %u",
       AQ_FOUND_MAX);
    aq_presence_drop(p, 0);
    good = 0;
    for (uint32_t i = 0; i < 20; i++) {
        char addr[32];
        snprintf(addr, sizeof addr, i < 10 ? "[fe80::%u]" : "10.0.0.%u", i + 1);
        good += put(p, i + 1, 5, "Many", addr);
    }
    ok(good == 20 && aq_presence_found(p, f, AQ_FOUND_MAX) == 1 && f[0].n_addr == AQ_ADDRS_MAX &&
           strncmp(f[0].addr[AQ_ADDRS_MAX - 1], "10.", 3) == 0,
       "of many addresses the nearest %u stay", AQ_ADDRS_MAX);
}

static void test_foreign(void)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define C16 "1234567890123456"
    static const struct {
        const char *what, *txt[4];
        const char *addr;
        uint16_t port;
        int code;
        const char *name; /* when taken */
    } cases[] = {
        {"all four",
         {"id=" ID, "name=Laptop", "version=1.2", "port=7710"},
         "10.0.0.1",
         7710,
         0,
         "Laptop"},
        {"keys in capitals", {"ID=" ID, "NAME=Laptop"}, "10.0.0.1", 7710, 0, "Laptop"},
        {"no name", {"id=" ID}, "10.0.0.1", 7710, 0, "PC"},
        {"an empty name", {"id=" ID, "name="}, "10.0.0.1", 7710, 0, "PC"},
        {"unknown keys", {"id=" ID, "colour=red", "flag", "name=A"}, "10.0.0.1", 7710, 0, "A"},
        {"an empty string", {"", "id=" ID, "=", "name=A"}, "10.0.0.1", 7710, 0, "A"},
        {"a key twice", {"id=" ID, "name=First", "name=Second"}, "10.0.0.1", 7710, 0, "First"},
        {"control characters",
         {"id=" ID, "name=A\x01\x1b[31mB\x7f\xc2\x85"},
         "10.0.0.1",
         7710,
         0,
         "A[31mB"},
        {"direction marks",
         {"id=" ID, "name=A\xe2\x80\xae"
                    "B\xe2\x81\xa6"},
         "10.0.0.1",
         7710,
         0,
         "AB"},
        {"broken UTF-8", {"id=" ID, "name=A\xff\xc3"}, "10.0.0.1", 7710, 0, "A"},
        {"a long name",
         {"id=" ID, "name=" C16 C16 C16 "123456789012345\xc3\xa4"},
         "10.0.0.1",
         7710,
         0,
         C16 C16 C16 "123456789012345"},
        {"no id", {"name=Laptop"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"a short id", {"id=0123"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"a long id", {"id=" ID "0"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"an id in capitals",
         {"id=" C16 C16 C16 "ABCDEF7890123456"},
         "10.0.0.1",
         7710,
         AQ_E_FORMAT,
         NULL},
        {"port 0", {"id=" ID, "port=0"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"port 65536", {"id=" ID, "port=65536"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"port 7710x", {"id=" ID, "port=7710x"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"another port", {"id=" ID, "port=7711"}, "10.0.0.1", 7710, AQ_E_FORMAT, NULL},
        {"a public address", {"id=" ID}, "8.8.8.8", 7710, AQ_E_AUTH, NULL},
        {"a public IPv6 address", {"id=" ID}, "[2606:4700::1111]", 7710, AQ_E_AUTH, NULL},
        {"a multicast address", {"id=" ID}, "224.0.0.251", 7710, AQ_E_AUTH, NULL},
    };

    for (size_t i = 0; i < AQ_LEN(cases); i++) {
        aq_seen s = {.key = 1};
        aq_err err = {0};
        struct sockaddr_storage at;
        int rc = aq_addr_parse(cases[i].addr, cases[i].port, &at, &err);

        for (int k = 0; k < 4 && cases[i].txt[k] && rc >= 0; k++)
            rc = aq_seen_txt(&s, (const uint8_t *)cases[i].txt[k], strlen(cases[i].txt[k]), &err);
        if (rc >= 0)
            rc = aq_seen_at(&s, (const struct sockaddr *)&at, 1, cases[i].port, NULL, 0, &err);
        ok(rc == -cases[i].code && (rc < 0 ? err.text[0] != 0 : strcmp(s.name, cases[i].name) == 0),
           "%s: %s %s", cases[i].what, aq_status_name(rc), rc < 0 ? err.text : s.name);
    }
    /* The bytes are not a string: nothing behind n is read. */
    aq_seen s = {.key = 1};
    char *exact = malloc(7);
    if (exact) {
        memcpy(exact, "name=AB", 7);
        ok(aq_seen_txt(&s, (const uint8_t *)exact, 7, NULL) == 0 && strcmp(s.name, "AB") == 0,
           "a TXT string has no NUL");
    }
    free(exact);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr);
    s.has_id = true;
    ok(aq_seen_at(&s, (struct sockaddr *)&v6, 999999, 7710, NULL, 0, NULL) == -AQ_E_FORMAT,
       "link-local on an interface that is gone");
    inet_pton(AF_INET6, "2001:db8::7", &v6.sin6_addr);
    aq_prefix6 prefix = {.a = {0x20, 0x01, 0x0d, 0xb8}, .n_bits = 64};
    ok(aq_seen_at(&s, (struct sockaddr *)&v6, 1, 7710, &prefix, 1, NULL) == 0 &&
           strcmp(s.addr, "[2001:db8::7]:7710") == 0,
       "an on-link IPv6 prefix is of this network");
}

static void test_states(void)
{
    aq_presence_opts o = opts_of(1, "Desktop");
    aq_presence_info info;
    AQ_AUTO(aq_presence_free) aq_presence *p = NULL;
    aq_err err = {0};
    static aq_found f[1];

    for (int s = 0; s < AQ_PRESENCE_N; s++) {
        size_t n = strlen(aq_presence_text((aq_presence_state)s));
        ok(n > 10 && aq_presence_text((aq_presence_state)s)[n - 1] == '.',
           "state %d has a sentence", s);
    }
    aq_presence_get(NULL, &info);
    ok(info.state == AQ_PRESENCE_OFF && aq_presence_found(NULL, f, 1) == 0, "no presence: off");
    o.name = "\x01\x02";
    ok(aq_presence_new(&o, NULL, NULL, &p, &err) == -AQ_E_INVAL && !p, "no name: %s", err.text);
    o.name = "Desktop";
    told = 0;
    if (aq_presence_new(&o, count_cb, &told, &p, &err) < 0)
        return;
    aq_presence_state_set(p, AQ_PRESENCE_RUNNING, "");
    aq_presence_state_set(p, AQ_PRESENCE_RUNNING, "");
    aq_presence_get(p, &info);
    ok(info.state == AQ_PRESENCE_RUNNING && info.port == 7710 && told == 1, "running, told once");
    o.port = 0;
    o.port_used = 7710;
    ok(aq_presence_set(p, &o, &err) == 0, "the port could not be had");
    aq_presence_get(p, &info);
    ok(info.state == AQ_PRESENCE_PORT_USED && info.port == 7710, "a port in use is a state");
    o.id.b[0] ^= 1;
    ok(aq_presence_set(p, &o, &err) == -AQ_E_INVAL, "another id: %s", err.text);
}

/* Descriptors (sockets among them) and threads of this process. */
static void load(uint32_t ret[2])
{
    static const char *const dirs[2] = {"/proc/self/fd", "/proc/self/task"};

    for (int i = 0; i < 2; i++) {
        DIR *d = opendir(dirs[i]);
        struct dirent *e;
        ret[i] = 0;
        while (d && (e = readdir(d)))
            ret[i] += e->d_name[0] != '.';
        if (d)
            closedir(d);
    }
}

static void *tell_tid(void *user)
{
    *(pid_t *)user = gettid();
    return NULL;
}

/* A sanitizer starts a thread of its own with the first one of the program: let that be before. */
static bool first_thread(void)
{
    int64_t end = aq_now_us() + 10000000; /* a limit against hanging */
    char path[64];
    pid_t tid = 0;
    pthread_t t;

    if (pthread_create(&t, NULL, tell_tid, &tid) != 0)
        return false;
    pthread_join(t, NULL);
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tid);
    while (access(path, F_OK) == 0 && aq_now_us() < end)
        sched_yield();
    return access(path, F_OK) < 0;
}

/* A joined thread may still be listed for a moment. */
static bool load_again(const uint32_t before[2])
{
    int64_t end = aq_now_us() + 10000000; /* a limit against hanging */
    uint32_t now[2];

    do {
        load(now);
        if (now[0] == before[0] && now[1] == before[1])
            return true;
        sched_yield();
    } while (aq_now_us() < end);
    return false;
}

static int woken[2];

static void wake_cb(void *user)
{
    (void)user;
    (void)!write(woken[1], "x", 1);
}

static void test_no_daemon(bool avahi)
{
    aq_presence_opts o = opts_of(1, "Desktop");
    aq_presence_info info = {0};
    aq_presence *p = NULL;
    aq_err err = {0};
    uint32_t before[2];
    aq_presence_state want = avahi ? AQ_PRESENCE_NO_DAEMON : AQ_PRESENCE_NO_BUILD;

    if (pipe(woken) < 0)
        return;
    ok(first_thread(), "a first thread has come and gone");
    load(before);
    for (int round = 0; round < 2; round++) {
        if (!ok(aq_presence_start(&o, wake_cb, NULL, &p, &err) == 0, "started without a daemon: %s",
                err.text))
            return;
        for (;;) {
            struct pollfd pf = {.fd = woken[0], .events = POLLIN};
            char c;
            aq_presence_get(p, &info);
            if (info.state == want || poll(&pf, 1, 60000) <= 0) /* a limit against hanging */
                break;
            (void)!read(woken[0], &c, 1);
        }
        ok(info.state == want, "the state says so: %s (%s)", aq_presence_text(info.state),
           info.detail);
        ok(aq_presence_set(p, &o, &err) == 0, "a change is taken all the same");
        aq_presence_free(p);
        ok(load_again(before), "off: no descriptor and no thread more than before");
    }
    close(woken[0]);
    close(woken[1]);
}

int main(int argc, char **argv)
{
    /* No bus of this machine is used. */
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
    test_join();
    test_full();
    test_foreign();
    test_states();
    test_no_daemon(argc == 2 && strcmp(argv[1], "avahi") == 0);
    return tap_done();
}
