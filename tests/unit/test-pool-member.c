/* SPDX-License-Identifier: Apache-2.0 */
/* One process at a time: the lock of a state folder, what the others may know of its holder, and that
 * who takes it over sees what was changed. Addresses typed in: kept, once, checked when read. */
#include "tap.h"
#include "trust-priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char top[256];

static aq_trust *open_trust(void)
{
    aq_trust *t = NULL;
    aq_err err = {0};

    return aq_trust_open(top, "PC", NULL, &t, &err) < 0 ? NULL : t;
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

/* A second open file has a lock of its own, in this process too. */
static void test_lock(void)
{
    AQ_AUTO(aq_trust_free) aq_trust *b = open_trust();
    aq_trust *a = open_trust();
    aq_holder who = {0};
    aq_err err = {0};
    char pid[32];

    if (!ok(a && b, "two see one folder"))
        return;
    ok(aq_trust_holder(a, &who, &err) == 0 && !who.pid, "nobody holds it");
    ok(aq_trust_hold_port(a, 7710, &err) == -AQ_E_INVAL, "who does not hold it has no port");
    err = (aq_err){0};
    ok(aq_trust_hold(a, &err) == 0 && aq_trust_hold(a, &err) == 0, "one takes it, twice is once");
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ok(aq_trust_hold(b, &err) == -AQ_E_BUSY && strstr(err.text, pid) &&
           strstr(err.text, "test-pool-member"),
       "the other is told who has it: %s", err.text);
    ok(aq_trust_hold_port(a, 7710, &err) == 0 && aq_trust_holder(b, &who, &err) == 1 &&
           who.pid == (uint32_t)getpid() && who.port == 7710 &&
           !strcmp(who.name, "test-pool-member"),
       "and where it listens");
    put_file("lock", "pid=99999999999\nport=1\n");
    ok(aq_trust_holder(b, &who, &err) == 1 && !who.pid && !who.port, "nonsense in it is nothing");
    put_file("lock", "");
    ok(aq_trust_holder(b, &who, &err) == 1 && !who.pid, "nor is nothing");
    ok(aq_trust_create(a, &err) == 0 && !aq_trust_roster(b, NULL), "the holder makes a pool");
    aq_trust_free(a);
    ok(aq_trust_holder(b, &who, &err) == 0, "it is free again");
    ok(aq_trust_hold(b, &err) == 0 && aq_trust_roster(b, NULL) == 1,
       "who takes it over sees the pool");
}

static void test_known(void)
{
    AQ_AUTO(aq_trust_free) aq_trust *t = open_trust();
    static aq_known k;
    char addr[AQ_ADDR_MAX + 1] = "", text[64];
    aq_err err = {0};

    if (!ok(t, "a folder"))
        return;
    ok(aq_known_load(t, &k, &err) == 0 && k.n == 0, "no address at first");
    ok(aq_known_add(t, "192.168.1.7", addr, &err) == 0 && !strcmp(addr, "192.168.1.7:7710") &&
           aq_known_add(t, "192.168.1.7:7710", addr, &err) == 0 &&
           aq_known_add(t, "[fd00::1]:99", addr, &err) == 0,
       "two addresses, one of them twice: %s", err.text);
    ok(aq_known_load(t, &k, &err) == 0 && k.n == 2 && !strcmp(k.addr[1], "[fd00::1]:99"),
       "are two, in order");
    strcpy(addr, "kept");
    ok(aq_known_add(t, "8.8.8.8", addr, &err) == -AQ_E_AUTH &&
           aq_known_add(t, "laptop", addr, &err) == -AQ_E_INVAL && !strcmp(addr, "kept"),
       "a public one, or none: %s", err.text);
    ok(aq_known_drop(t, "192.168.1.7", &err) == 1 && aq_known_drop(t, "192.168.1.7", &err) == 0 &&
           aq_known_drop(t, "laptop", &err) == 0 && aq_known_load(t, &k, &err) == 0 && k.n == 1 &&
           !strcmp(k.addr[0], "[fd00::1]:99"),
       "one is dropped, once");
    for (int i = 0; i < (int)AQ_KNOWN_MAX - 1; i++) {
        snprintf(text, sizeof text, "10.0.0.%d", i);
        if (aq_known_add(t, text, addr, &err) < 0)
            ok(false, "address %d: %s", i, err.text);
    }
    ok(aq_known_add(t, "10.0.1.0", addr, &err) == -AQ_E_LIMIT && aq_known_load(t, &k, &err) == 0 &&
           k.n == AQ_KNOWN_MAX,
       "one too many: %s", err.text);
    static const char *const bad[] = {
        "",
        "aquifer-addresses 2\n",
        "aquifer-addresses 1\n10.0.0.1:1",
        "aquifer-addresses 1\n\n",
        "aquifer-addresses 1\nlaptop\n",
        ("aquifer-addresses 1\n1234567890123456789012345678901234567890"
         "123456789012345678901234567890\n")};
    for (size_t i = 0; i < AQ_LEN(bad); i++) {
        put_file("addresses", bad[i]);
        err = (aq_err){0};
        k.n = 7;
        ok(aq_known_load(t, &k, &err) == -AQ_E_FORMAT && k.n == 7, "damaged, way %zu: %s", i,
           err.text);
    }
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(top, sizeof top, "%s/aq-member-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(top))
        return 1;
    test_lock();
    test_known();
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", top);
    return system(cmd) != 0 || tap_done();
}
