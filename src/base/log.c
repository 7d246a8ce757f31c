/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line `room level key=value` to the program's hook, and the last LINES of them in
 * memory.
 *
 * Writers are serialised by a mutex. aq_log_tail runs in a signal handler too, so it takes none:
 * every slot has a `meta` word that is zero while the slot is written and names the line
 * otherwise; a reader that sees it change drops the line.
 *
 *   slot = line number % LINES
 *   meta = (line number + 1) << 16 | length
 *   text = words, stored one by one as atomics
 */
#include "base-priv.h"

#include <pthread.h>
#include <stdio.h>

#define LINES 2000
#define LINE_BYTES 240 /* longer lines are cut */

struct slot {
    _Atomic uint64_t meta;
    _Atomic uint64_t text[LINE_BYTES / 8];
};

static struct slot slots[LINES];
static _Atomic uint64_t n_lines; /* ever written */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static aq_log_fn hook;  /* under lock */
static void *hook_user; /* under lock */
static _Atomic int max_level_now = AQ_LOG_INFO;

void aq_log_set(aq_log_fn fn, void *user, int max_level)
{
    pthread_mutex_lock(&lock);
    hook = fn;
    hook_user = user;
    atomic_store(&max_level_now, max_level);
    pthread_mutex_unlock(&lock);
}

/* Under lock. The release order keeps text from being seen before meta is zero. */
static void keep(const char *line, size_t n)
{
    uint64_t no = atomic_load_explicit(&n_lines, memory_order_relaxed);
    struct slot *s = &slots[no % LINES];

    atomic_store_explicit(&s->meta, 0, memory_order_relaxed);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = 0;

        memcpy(&w, line + i, AQ_MIN(n - i, (size_t)8));
        atomic_store_explicit(&s->text[i / 8], w, memory_order_release);
    }
    atomic_store_explicit(&s->meta, (no + 1) << 16 | n, memory_order_release);
    atomic_store_explicit(&n_lines, no + 1, memory_order_release);
}

void aq_log(int level, const char *room, const char *fmt, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char line[LINE_BYTES];
    va_list ap;

    if (level < AQ_LOG_ERROR || level > AQ_LOG_DEBUG || level > atomic_load(&max_level_now))
        return;
    int head = snprintf(line, sizeof line, "%s %s ", room, names[level]);
    if (head < 0 || (size_t)head >= sizeof line)
        return;
    va_start(ap, fmt);
    int n = vsnprintf(line + head, sizeof line - (size_t)head, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    size_t want = (size_t)head + (size_t)n, len = AQ_MIN(want, sizeof line - 1);
    len = aq_text_clean(line, len, want > len);

    pthread_mutex_lock(&lock);
    keep(line, len);
    aq_log_fn fn = hook;
    void *user = hook_user;
    pthread_mutex_unlock(&lock);
    if (fn) /* outside the lock, so that the hook may take its own */
        fn(user, level, line);
}

/* Copy line number `no` to buf if it is still there, whole, and shorter than cap. Returns its
 * length or -1. */
static int copy_line(uint64_t no, char *buf, size_t cap)
{
    struct slot *s = &slots[no % LINES];
    uint64_t meta = atomic_load_explicit(&s->meta, memory_order_acquire);
    size_t n = meta & 0xFFFF;

    if (meta >> 16 != no + 1 || n >= cap)
        return -1;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t w = atomic_load_explicit(&s->text[i / 8], memory_order_acquire);

        memcpy(buf + i, &w, AQ_MIN(n - i, (size_t)8));
    }
    return atomic_load_explicit(&s->meta, memory_order_relaxed) == meta ? (int)n : -1;
}

size_t aq_log_tail(char *buf, size_t cap)
{
    if (cap == 0)
        return 0;
    uint64_t end = atomic_load_explicit(&n_lines, memory_order_acquire), first = end;
    uint64_t least = end > LINES ? end - LINES : 0;
    size_t sum = 0, used = 0;

    /* Backwards: how many of the last lines fit. */
    while (first > least) {
        uint64_t meta =
            atomic_load_explicit(&slots[(first - 1) % LINES].meta, memory_order_acquire);

        sum += (meta & 0xFFFF) + 1;
        if (sum > cap - 1)
            break;
        first--;
    }
    for (uint64_t no = first; no < end; no++) {
        int n = copy_line(no, buf + used, cap - 1 - used);

        if (n >= 0) {
            used += (size_t)n;
            buf[used++] = '\n';
        }
    }
    buf[used] = 0;
    return used;
}
