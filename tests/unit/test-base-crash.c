/* SPDX-License-Identifier: Apache-2.0 */
/* The crash note: child processes die in several ways, and what they left is read. */
#include "aq/base.h"
#include "tap.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUILD "0.1.0-test+abc"

static char note[1 << 20];
static char dir[] = "/tmp/aq-crash-XXXXXX";

static __attribute__((noinline)) void die_read(void)
{
    *(volatile int *)(uintptr_t)0x1230;
}

static void die_abort(void)
{
    abort();
}

static void die_ill(void)
{
    __builtin_trap();
}

static void die_kill(void)
{
    kill(getpid(), SIGFPE);
    for (;;)
        pause();
}

static void die_bus(void)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/empty", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    volatile char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    (void)p[0];
}

static volatile int depth_max = INT_MAX;

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char block[512];

    block[0] = (char)depth;
    return depth < depth_max ? recurse(depth + 1) + block[0] : 0;
}

static void die_stack(void)
{
    recurse(0);
}

/* Run die in a child with the note installed; returns the wait status, the note's text in
 * `note`. */
static int crash(void (*die)(void), mode_t *ret_mode)
{
    char path[PATH_MAX];
    struct stat st = {0};
    int status = 0;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/note", dir);
    unlink(path);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0}, stack = {1 << 20, 1 << 20};
        aq_err err;

        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_STACK, &stack);
        aq_log(AQ_LOG_WARN, "test", "last=words");
        if (aq_crash_note_install(path, BUILD, &err) < 0)
            _exit(3);
        die();
        _exit(4);
    }
    waitpid(pid, &status, 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got;

        fstat(fd, &st);
        while ((got = read(fd, note + n, sizeof note - 1 - n)) > 0)
            n += (size_t)got;
        close(fd);
        unlink(path);
    }
    note[n] = 0;
    *ret_mode = st.st_mode & 07777;
    return status;
}

static bool holds(const char *what)
{
    if (strstr(note, what))
        return true;
    printf("# the note lacks '%s'\n", what);
    return false;
}

/* The number after `name` in the note, or 0. */
static uint64_t number(const char *name)
{
    const char *s = strstr(note, name);

    return s ? strtoull(s + strlen(name), NULL, 0) : 0;
}

/* True when v lies in one of the modules the note lists. */
static bool in_modules(uint64_t v)
{
    const char *s = strstr(note, "modules:\n");

    for (s = s ? s + 9 : NULL; s && *s && strncmp(s, "backtrace", 9) != 0;
         s = strchr(s, '\n') + 1) {
        unsigned long long lo, hi;

        if (sscanf(s, "%llx-%llx r-xp", &lo, &hi) == 2 && v >= lo && v < hi)
            return true;
    }
    return false;
}

static int frames(void)
{
    const char *s = strstr(note, "backtrace:\n");
    int n = 0;

    for (s = s ? strchr(s, '\n') : NULL; s; s = strchr(s + 1, '\n'))
        n += strncmp(s + 1, "0x", 2) == 0;
    return n;
}

static void test_ways(void)
{
    static const struct {
        const char *name;
        void (*die)(void);
        int signal;
    } ways[] = {
        {"a bad read", die_read, SIGSEGV},           {"abort", die_abort, SIGABRT},
        {"an illegal instruction", die_ill, SIGILL}, {"a signal from outside", die_kill, SIGFPE},
        {"a read past a file", die_bus, SIGBUS},     {"no stack left", die_stack, SIGSEGV},
    };

    for (size_t i = 0; i < AQ_LEN(ways); i++) {
        mode_t mode;
        int status = crash(ways[i].die, &mode);

        ok(WIFSIGNALED(status) && WTERMSIG(status) == ways[i].signal,
           "%s: dies of its own signal (status %x)", ways[i].name, status);
        ok(holds("build " BUILD "\n") && holds("log:\n") && holds("test warn last=words\n"),
           "%s: build and log", ways[i].name);
        ok(number("signal ") == (uint64_t)ways[i].signal && mode == 0600, "%s: signal, mode 0600",
           ways[i].name);
        ok(in_modules(number("pc ")), "%s: the pc lies in a module", ways[i].name);
        ok(frames() >= 2, "%s: %d frames", ways[i].name, frames());
    }
}

static void test_fields(void)
{
    mode_t mode;

    crash(die_read, &mode);
    ok(holds("address 0x1230\n") && holds("code 1\n"), "the faulting address");
    uint64_t pc = number("pc "),
             fn = (uint64_t)(uintptr_t)die_read; /* the child is a fork: same addresses */
    ok(pc >= fn && pc < fn + 256, "the pc is that of the faulting function");
    crash(die_kill, &mode);
    ok(holds("code 0\n"), "sent by a process");
    crash(die_abort, &mode);
    ok(holds("code -6\n"), "sent by a thread to itself");
}

static void test_install(void)
{
    char longer[PATH_MAX + 10];
    aq_err err = {0};

    ok(aq_crash_note_install("relative", BUILD, &err) == -AQ_E_INVAL && err.code == AQ_E_INVAL,
       "a relative path is refused");
    memset(longer, '/', sizeof longer);
    longer[sizeof longer - 1] = 0;
    ok(aq_crash_note_install(longer, BUILD, &err) == -AQ_E_LIMIT &&
           aq_crash_note_install("/x", longer, &err) == -AQ_E_LIMIT,
       "too long");
}

int main(void)
{
    char path[PATH_MAX];

    if (!mkdtemp(dir)) {
        printf("Bail out! no temporary folder\n");
        return 1;
    }
    test_install();
    test_ways();
    test_fields();
    snprintf(path, sizeof path, "%s/empty", dir);
    unlink(path);
    rmdir(dir);
    return tap_done();
}
