/* SPDX-License-Identifier: Apache-2.0 */
/* The crash note. Everything the handler needs is prepared at install; the handler itself uses
 * async-signal-safe calls only (backtrace() is one once its library is loaded, which install sees
 * to). The note, plain text:
 *
 *   build ID / signal N / code N / address 0x… / pc 0x…
 *   log:        the last lines
 *   modules:    the executable lines of /proc/self/maps, to turn addresses into symbols
 *   backtrace:  0x… one frame a line; last, because unwinding is what may fail on a broken stack
 *
 * The state is process-wide, as signal handlers are. */
#include "aq/base.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES 64
#define HANG_S 10 /* a handler stuck on a broken process is ended after this many seconds */

static char note_path[PATH_MAX];
static char note_build[128];
static char log_buf[64 << 10];
static char maps_buf[16 << 10];
static char alt_stack[64 << 10];
static atomic_flag crashing = ATOMIC_FLAG_INIT;

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static void put(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        p += done;
        n -= (size_t)done;
    }
}

static void put_str(int fd, const char *s)
{
    put(fd, s, strlen(s));
}

/* name, value in base 10 or 16, newline */
static void put_num(int fd, const char *name, uint64_t v, unsigned base)
{
    char buf[24];
    size_t i = sizeof buf;

    buf[--i] = '\n';
    do {
        buf[--i] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v > 0);
    put_str(fd, name);
    put_str(fd, base == 16 ? "0x" : "");
    put(fd, buf + i, sizeof buf - i);
}

static uint64_t context_pc(const ucontext_t *uc)
{
#if defined(__x86_64__)
    return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return uc->uc_mcontext.pc;
#else
    return 0;
#endif
}

/* Copy the lines of /proc/self/maps that hold " r-xp ". */
static void put_modules(int fd)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    if (maps < 0)
        return;
    while ((got = read(maps, maps_buf + n, sizeof maps_buf - n)) > 0) {
        char *line = maps_buf, *end = maps_buf + n + got, *nl;

        while ((nl = memchr(line, '\n', (size_t)(end - line)))) {
            if (memmem(line, (size_t)(nl - line), " r-xp ", 6))
                put(fd, line, (size_t)(nl - line) + 1);
            line = nl + 1;
        }
        n = (size_t)(end - line);
        memmove(maps_buf, line, n);
    }
    close(maps);
}

static void write_note(int fd, int sig, const siginfo_t *si, const ucontext_t *uc)
{
    void *frames[FRAMES];

    put_str(fd, "build ");
    put_str(fd, note_build);
    put_num(fd, "\nsignal ", (uint64_t)sig, 10);
    if (si->si_code < 0)
        put_num(fd, "code -", (uint64_t)-(int64_t)si->si_code, 10);
    else
        put_num(fd, "code ", (uint64_t)si->si_code, 10);
    put_num(fd, "address ", (uint64_t)(uintptr_t)si->si_addr, 16);
    put_num(fd, "pc ", context_pc(uc), 16);
    put_str(fd, "log:\n");
    put(fd, log_buf, aq_log_tail(log_buf, sizeof log_buf));
    put_str(fd, "modules:\n");
    put_modules(fd);
    put_str(fd, "backtrace:\n");
    int n = backtrace(frames, FRAMES);
    for (int i = 0; i < n; i++)
        put_num(fd, "", (uint64_t)(uintptr_t)frames[i], 16);
}

static void allow(int sig)
{
    sigset_t set;

    signal(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_crash(int sig, siginfo_t *si, void *context)
{
    /* A second thread that crashes meanwhile waits for the first one to end the process. */
    while (atomic_flag_test_and_set(&crashing))
        pause();
    allow(SIGALRM);
    alarm(HANG_S);
    int fd = open(note_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        fchmod(fd, 0600); /* an older note may have had another mode */
        write_note(fd, sig, si, context);
        close(fd);
    }
    allow(sig);
    raise(sig);
}

int aq_crash_note_install(const char *path, const char *build_id, aq_err *err)
{
    struct sigaction sa = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = alt_stack, .ss_size = sizeof alt_stack};
    void *frame;

    if (path[0] != '/')
        return aq_fail(err, AQ_E_INVAL, "The crash note needs an absolute path, not \"%s\"", path);
    if (strlen(path) >= sizeof note_path || strlen(build_id) >= sizeof note_build)
        return aq_fail(err, AQ_E_LIMIT, "The crash note's path or build id is too long: \"%s\"",
                       path);
    memcpy(note_path, path, strlen(path) + 1);
    memcpy(note_build, build_id, strlen(build_id) + 1);
    backtrace(&frame, 1); /* loads the unwinder now: the first call may allocate */

    /* This thread's stack overflow can be noted too; other threads have no second stack and die
     * without a note. */
    if (sigaltstack(&stack, NULL) < 0)
        return aq_fail_errno(err, errno, "The crash handler's stack could not be set");
    sigfillset(&sa.sa_mask);
    for (size_t i = 0; i < AQ_LEN(signals); i++)
        if (sigaction(signals[i], &sa, NULL) < 0)
            return aq_fail_errno(err, errno, "The handler of signal %d could not be set",
                                 signals[i]);
    return AQ_OK;
}
