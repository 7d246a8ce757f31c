/* SPDX-License-Identifier: Apache-2.0 */
/* How long the main loop's turns take. A turn is what lies between two polls: one dispatch or several, so no dispatch took longer.
 *
 * The file: a line for each turn and each mark, in order. Times of CLOCK_MONOTONIC and of the main thread's CPU clock, in microseconds.
 *
 *   turn BEGIN_US WALL_US CPU_US
 *   mark BEGIN_US NAME */
#include "aq-loop-meter.h"

#include <stdio.h>
#include <time.h>

typedef struct {
    gint64 begin_us;
    guint32 wall_us, cpu_us;
    const char *mark; /* or NULL: a turn */
} Entry;

/* A poll function is given nothing of its caller's: what it needs lies here, as the loop itself is one per process. */
static struct {
    const char *file;
    GPollFunc poll;
    GArray *entries;
    gint64 begin_us, begin_cpu_us;
} meter;

static gint64 cpu_us(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)
               ? 0
               : t.tv_sec * G_USEC_PER_SEC + t.tv_nsec / 1000;
}

static gint measured_poll(GPollFD *fds, guint n, gint timeout_ms)
{
    gint64 now = g_get_monotonic_time();
    if (meter.begin_us) {
        const Entry e = {.begin_us = meter.begin_us,
                         .wall_us = (guint32)(now - meter.begin_us),
                         .cpu_us = (guint32)(cpu_us() - meter.begin_cpu_us)};
        g_array_append_val(meter.entries, e);
    }
    gint r = meter.poll(fds, n, timeout_ms);
    meter.begin_us = g_get_monotonic_time();
    meter.begin_cpu_us = cpu_us();
    return r;
}

void aq_loop_meter_begin(const char *file)
{
    if (!file || meter.file)
        return;
    meter.file = file;
    meter.entries = g_array_sized_new(FALSE, FALSE, sizeof(Entry), 1 << 16);
    meter.poll = g_main_context_get_poll_func(NULL);
    g_main_context_set_poll_func(NULL, measured_poll);
}

void aq_loop_meter_mark(const char *name)
{
    if (!meter.file)
        return;
    const Entry e = {.begin_us = g_get_monotonic_time(), .mark = g_intern_string(name)};
    g_array_append_val(meter.entries, e);
}

static void on_painted(void)
{
    aq_loop_meter_mark("painted");
}

void aq_loop_meter_watch(GtkWidget *window)
{
    if (meter.file)
        g_signal_connect(gtk_widget_get_frame_clock(window), "after-paint", G_CALLBACK(on_painted),
                         NULL);
}

void aq_loop_meter_end(void)
{
    if (!meter.file)
        return;
    g_autoptr(GString) s = g_string_new(NULL);
    for (guint i = 0; i < meter.entries->len; i++) {
        const Entry *e = &g_array_index(meter.entries, Entry, i);
        if (e->mark)
            g_string_append_printf(s, "mark %" G_GINT64_FORMAT " %s\n", e->begin_us, e->mark);
        else
            g_string_append_printf(s, "turn %" G_GINT64_FORMAT " %u %u\n", e->begin_us, e->wall_us,
                                   e->cpu_us);
    }
    g_autoptr(GError) error = NULL;
    if (!g_file_set_contents(meter.file, s->str, (gssize)s->len, &error))
        g_warning("%s", error->message);
}
