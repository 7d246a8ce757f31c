/* SPDX-License-Identifier: Apache-2.0 */
/* The log: hook, levels, cleaning, the last 2,000 lines, and writers against a reader. */
#include "aq/base.h"
#include "tap.h"

#include <pthread.h>

#define LINES 2000
static char tail[1 << 20];

struct seen {
    int n, level;
    char line[512];
};

static void on_line(void *user, int level, const char *line)
{
    struct seen *s = user;

    s->n++;
    s->level = level;
    snprintf(s->line, sizeof s->line, "%s", line);
}

static int count_lines(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += *s == '\n';
    return n;
}

static void test_hook(void)
{
    struct seen s = {0};

    ok(aq_log_tail(tail, sizeof tail) == 0 && tail[0] == 0, "no lines at first");
    aq_log_set(on_line, &s, AQ_LOG_INFO);
    aq_log(AQ_LOG_WARN, "engine", "step_us=%d", 42);
    ok(s.n == 1 && s.level == AQ_LOG_WARN && strcmp(s.line, "engine warn step_us=42") == 0,
       "room, level, text");
    aq_log(AQ_LOG_DEBUG, "engine", "x=1");
    ok(s.n == 1, "a level above the highest wanted is dropped");
    ok(aq_log_tail(tail, sizeof tail) == 23 && strcmp(tail, "engine warn step_us=42\n") == 0,
       "and not kept either");
    aq_log(AQ_LOG_ERROR, "base", "a=1\nb=\x01\xff");
    ok(strcmp(s.line, "base error a=1 b= ?") == 0, "one line whatever the text holds");
    char longer[600];
    for (int i = 0; i < 199; i++)
        memcpy(longer + 3 * i, "\xe2\x82\xac", 4);
    bool whole = true;
    for (int i = 0; i < 4; i++) {
        aq_log(AQ_LOG_INFO, "base", "%.*s%s", i, "....", longer);
        size_t n = strlen(s.line);
        whole = whole && n > 200 && n < 240 && memcmp(s.line + n - 3, "\xe2\x82\xac", 3) == 0;
    }
    ok(whole, "a long line is cut between characters");
    aq_log_set(NULL, NULL, AQ_LOG_DEBUG);
    aq_log(AQ_LOG_DEBUG, "base", "y=2");
    ok(s.n == 6 && aq_log_tail(tail, sizeof tail) > 0 && strstr(tail, "base debug y=2\n"),
       "kept without a hook");
}

static void test_tail(void)
{
    aq_log_set(NULL, NULL, AQ_LOG_INFO);
    for (int i = 0; i < 2 * LINES + 7; i++)
        aq_log(AQ_LOG_INFO, "t", "i=%d", i);
    size_t n = aq_log_tail(tail, sizeof tail);
    int first = -1, last = -1;
    sscanf(tail, "t info i=%d\n", &first);
    const char *end = tail + n - 1; /* at the last newline */
    while (end > tail && end[-1] != '\n')
        end--;
    sscanf(end, "t info i=%d\n", &last);
    ok(n == strlen(tail) && count_lines(tail) == LINES && first == LINES + 7 &&
           last == 2 * LINES + 6,
       "the last 2,000 lines, oldest first");
}

static void test_small(void)
{
    memset(tail, 'z', 64);
    size_t n = aq_log_tail(tail, 29);
    ok(n == 28 && strcmp(tail, "t info i=4005\nt info i=4006\n") == 0 && tail[29] == 'z',
       "two lines and the NUL, exactly");
    n = aq_log_tail(tail, 28);
    ok(n == 14 && strcmp(tail, "t info i=4006\n") == 0, "one byte less: the newest line only");
    ok(aq_log_tail(tail, 5) == 0 && tail[0] == 0 && aq_log_tail(tail, 0) == 0,
       "no room for any line");
}

/* ---- threads ---- */

#define WRITERS 3
#define EACH 40000
static _Atomic int n_running;

static void *write_lines(void *user)
{
    char c = *(char *)user;
    char text[150];

    for (int i = 0; i < EACH; i++) {
        int n = i % 140;

        memset(text, c, sizeof text);
        text[n] = 0;
        aq_log(AQ_LOG_INFO, "w", "%d=%s", n, text);
    }
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

/* Each line: "w info N=" and N equal letters. */
static int bad_lines(char *s)
{
    int bad = 0;

    for (char *nl; (nl = strchr(s, '\n')); s = nl + 1) {
        int n = -1, at = 0;

        *nl = 0;
        if (s[0] == 't')
            continue; /* of the cases before */
        if (sscanf(s, "w info %d=%n", &n, &at) != 1 || at == 0 || strlen(s + at) != (size_t)n ||
            strspn(s + at, (char[]){s[at], 0}) != (size_t)n)
            bad++;
    }
    return bad;
}

static void test_threads(void)
{
    char names[WRITERS] = {'A', 'B', 'C'};
    pthread_t t[WRITERS];
    int bad = 0, reads = 0;

    atomic_store(&n_running, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&t[i], NULL, write_lines, &names[i]);
    while (atomic_load(&n_running) > 0) {
        aq_log_tail(tail, sizeof tail);
        /* The oldest line is the one that writers reach while it is read: look at it often, at all
         * lines now and then. */
        char *nl = strchr(tail, '\n');
        if (nl && reads % 64 != 0)
            nl[1] = 0;
        bad += bad_lines(tail);
        reads++;
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(t[i], NULL);
    aq_log_tail(tail, sizeof tail);
    ok(count_lines(tail) == LINES, "2,000 lines after all");
    ok(bad + bad_lines(tail) == 0, "no line is torn (%d of %d readings' lines)", bad, reads);
}

int main(void)
{
    test_hook();
    test_tail();
    test_small();
    test_threads();
    return tap_done();
}
