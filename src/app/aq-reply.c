/* SPDX-License-Identifier: Apache-2.0 */
/* An answer under way.
 *
 *   worker thread   aq_submit: template and tokenizer, long for a long chat
 *   step thread     wake: one write to an eventfd
 *   main thread     the eventfd's source drains the ring, at most DRAIN_US at a time
 *
 * The source has a priority below drawing, so that a fast model cannot keep the window from being drawn. */
#include "aq-reply.h"

#include <errno.h>
#include <gdk/gdk.h>
#include <glib-unix.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DRAIN_US 4000
#define PROGRESS_MS 200

struct _AqReply {
    gatomicrefcount ref; /* the owner; the worker while it submits */
    AqEngineSlot *slot;
    AqMessage *message;
    char *messages_json;
    double temperature;
    int wake_fd;
    guint wake_source, progress_timer;
    gulong end_handler; /* of the host's "end-answers" */
    aq_req *req;
    aq_err err; /* of the submit */
    gboolean stopped;
    void (*ended)(gpointer user);
    gpointer ended_user;
};

static void wake(void *user)
{
    AqReply *reply = user;
    const guint64 one = 1;
    /* It fails only when the counter is full, and then the reader is awake. */
    if (write(reply->wake_fd, &one, sizeof one) < 0)
        return;
}

static void reply_unref(AqReply *reply)
{
    if (!g_atomic_ref_count_dec(&reply->ref))
        return;
    aq_req_free(reply->req);
    g_clear_pointer(&reply->slot, aq_engine_slot_unref);
    g_clear_object(&reply->message);
    g_free(reply->messages_json);
    aq_fd_close_p(&reply->wake_fd);
    g_free(reply);
}

static void quiet(AqReply *reply)
{
    g_clear_handle_id(&reply->wake_source, g_source_remove);
    g_clear_handle_id(&reply->progress_timer, g_source_remove);
    g_clear_signal_handler(&reply->end_handler, aq_engine_slot_get_host(reply->slot));
}

static void end(AqReply *reply)
{
    quiet(reply);
    void (*ended)(gpointer) = g_steal_pointer(&reply->ended);
    if (ended)
        ended(reply->ended_user);
}

static void fail(AqReply *reply, const aq_err *err)
{
    aq_err e = *err;
    if (e.code == AQ_E_CANCELLED)
        aq_message_set_state(reply->message, AQ_MESSAGE_STOPPED);
    else
        aq_message_fail(reply->message, &e);
}

/* TRUE when it was the last event. */
static gboolean take(AqReply *reply, const aq_event *ev)
{
    switch (ev->kind) {
    case AQ_EV_TEXT:
    case AQ_EV_REASONING:
        if (ev->n_bytes)
            aq_message_append(reply->message, ev->kind == AQ_EV_REASONING, ev->bytes, ev->n_bytes);
        return FALSE;
    case AQ_EV_USAGE:
        aq_message_set_usage(reply->message, ev->usage);
        return FALSE;
    case AQ_EV_DONE:
        aq_message_set_state(reply->message, ev->rc == AQ_DONE_CANCELLED ? AQ_MESSAGE_STOPPED
                                             : ev->rc == AQ_DONE_LENGTH  ? AQ_MESSAGE_FULL
                                                                         : AQ_MESSAGE_DONE);
        return TRUE;
    case AQ_EV_ERROR:
        fail(reply, ev->err);
        return TRUE;
    default: /* calls: no tools are offered yet, so none come */
        return FALSE;
    }
}

static gboolean drain(gint fd, GIOCondition condition, gpointer user)
{
    AqReply *reply = user;
    guint64 count;
    if (read(reply->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        g_warning("eventfd: %s", g_strerror(errno));
    gint64 until = g_get_monotonic_time() + DRAIN_US;
    aq_event ev;
    while (aq_req_pop(reply->req, &ev) == 1) {
        if (take(reply, &ev)) {
            reply->wake_source = 0; /* goes with G_SOURCE_REMOVE */
            end(reply);
            return G_SOURCE_REMOVE;
        }
        if (g_get_monotonic_time() >= until) {
            wake(
                reply); /* the ring may not be empty: come back after the window has had its turn */
            break;
        }
    }
    return G_SOURCE_CONTINUE;
}

static gboolean progress_tick(gpointer user)
{
    AqReply *reply = user;
    if (aq_message_get_state(reply->message) != AQ_MESSAGE_WAITING) {
        reply->progress_timer = 0;
        return G_SOURCE_REMOVE;
    }
    aq_req_state st;
    aq_req_get_state(reply->req, &st);
    aq_message_set_progress(reply->message, &st);
    return G_SOURCE_CONTINUE;
}

static void submit_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    AqReply *reply = data;
    const aq_req_in in = {
        .messages_json = reply->messages_json,
        .sampling = {.temp = (float)reply->temperature,
                     .top_k = 40,
                     .top_p = 0.95f,
                     .min_p = 0.05f,
                     .repeat_penalty = 1},
    };
    aq_req *req = NULL;
    if (aq_submit(aq_engine_slot_get_engine(reply->slot), &in, wake, reply, &req, &reply->err) >= 0)
        reply->req = req;
    g_task_return_boolean(task, TRUE);
}

static void submitted(GObject *source, GAsyncResult *result, gpointer user)
{
    AqReply *reply = user;
    if (!reply->ended) {
        /* let go meanwhile */
    } else if (!reply->req) {
        fail(reply, &reply->err);
        end(reply);
    } else {
        if (reply->stopped)
            aq_req_cancel(reply->req);
        GSource *s = g_unix_fd_source_new(reply->wake_fd, G_IO_IN);
        g_source_set_priority(s, GDK_PRIORITY_REDRAW + 10);
        g_source_set_callback(s, G_SOURCE_FUNC(drain), reply, NULL);
        g_source_set_name(s, "aquifer reply");
        reply->wake_source = g_source_attach(s, NULL);
        g_source_unref(s);
        reply->progress_timer = g_timeout_add(PROGRESS_MS, progress_tick, reply);
    }
    reply_unref(reply);
}

AqReply *aq_reply_start(AqEngineSlot *slot, const char *messages_json, double temperature,
                        AqMessage *message, void (*ended)(gpointer user), gpointer user)
{
    AqReply *reply = g_new0(AqReply, 1);
    g_atomic_ref_count_init(&reply->ref);
    reply->slot = aq_engine_slot_ref(slot);
    reply->message = g_object_ref(message);
    reply->messages_json = g_strdup(messages_json);
    reply->temperature = temperature;
    reply->ended = ended;
    reply->ended_user = user;
    reply->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reply->wake_fd < 0)
        g_error("eventfd: %s", g_strerror(errno));
    reply->end_handler = g_signal_connect_swapped(aq_engine_slot_get_host(slot), "end-answers",
                                                  G_CALLBACK(aq_reply_stop), reply);
    g_atomic_ref_count_inc(&reply->ref);
    g_autoptr(GTask) task = g_task_new(NULL, NULL, submitted, reply);
    g_task_set_task_data(task, reply, NULL);
    g_task_run_in_thread(task, submit_thread);
    return reply;
}

void aq_reply_stop(AqReply *reply)
{
    reply->stopped = TRUE;
    /* Before the submit came back there is no source yet: submitted() does it then. */
    if (reply->wake_source)
        aq_req_cancel(reply->req);
}

void aq_reply_free(AqReply *reply)
{
    if (!reply)
        return;
    gboolean running = reply->wake_source != 0;
    quiet(reply);
    reply->ended = NULL;
    if (running) {
        aq_req_cancel(reply->req);
        aq_message_set_state(reply->message, AQ_MESSAGE_STOPPED);
    }
    reply_unref(reply);
}
