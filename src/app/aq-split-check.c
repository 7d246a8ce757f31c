/* SPDX-License-Identifier: Apache-2.0 */
/* Is a split right? The same question, greedy, to the split and then to an engine of all layers on this PC; their tokens are compared.
 * Where this PC has no room for all of it, that is said. One worker thread, which waits for the step threads. */
#include "aq-split-check.h"

#include <glib/gi18n.h>

#define CHECK_TOK 16u

typedef struct {
    guint n;
    gint32 tok[CHECK_TOK];
    aq_usage usage;
} Answer;

typedef struct {
    AqEngineSlot *slot;
    char *path;
    gulong end_handler;
    GMutex lock;
    GCond cond;
    gboolean awake, cancelled; /* under lock */
    aq_progress progress;
    void (*done)(gpointer, gboolean, const char *);
    GWeakRef user;
    Answer split, alone;
    aq_err err;
    gboolean short_of_memory;
} Check;

static void wake(void *user)
{
    Check *c = user;
    g_mutex_lock(&c->lock);
    c->awake = TRUE;
    g_cond_signal(&c->cond);
    g_mutex_unlock(&c->lock);
}

/* The engine goes. Main thread. */
static void cancel(Check *c)
{
    atomic_store(&c->progress.cancel, 1);
    g_mutex_lock(&c->lock);
    c->cancelled = c->awake = TRUE;
    g_cond_signal(&c->cond);
    g_mutex_unlock(&c->lock);
}

static int take(aq_req *req, Answer *a, aq_err *err, gboolean *ret_over)
{
    aq_event ev;
    while (aq_req_pop(req, &ev) == 1) {
        if (ev.kind == AQ_EV_TEXT && ev.tok >= 0 && a->n < CHECK_TOK) {
            a->tok[a->n++] = ev.tok;
        } else if (ev.kind == AQ_EV_USAGE) {
            a->usage = *ev.usage;
        } else if (ev.kind == AQ_EV_DONE) {
            *ret_over = TRUE;
            return 0;
        } else if (ev.kind == AQ_EV_ERROR) {
            *ret_over = TRUE;
            *err = *ev.err;
            return ev.rc;
        }
    }
    return 0;
}

static int ask(Check *c, aq_engine *engine, Answer *a)
{
    static const char question[] =
        "[{\"role\":\"user\",\"content\":\"Count from one to twenty in words.\"}]";
    const aq_req_in in = {.messages_json = question,
                          .sampling = {.top_p = 1, .repeat_penalty = 1, .ignore_eog = true},
                          .max_tok = CHECK_TOK};
    aq_req *req = NULL;
    gboolean over = FALSE, cancelled = FALSE;

    int rc = aq_submit(engine, &in, wake, c, &req, &c->err);
    while (rc >= 0 && !over && !cancelled) {
        rc = take(req, a, &c->err, &over);
        g_mutex_lock(&c->lock);
        while (!over && !c->awake)
            g_cond_wait(&c->cond, &c->lock);
        c->awake = FALSE;
        cancelled = c->cancelled;
        g_mutex_unlock(&c->lock);
    }
    aq_req_free(req);
    return cancelled ? aq_fail(&c->err, AQ_E_CANCELLED, "stopped") : rc;
}

static void check_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    AqEngineHost *host = source;
    Check *c = data;
    AQ_AUTO(aq_model_free) aq_model *m = NULL;
    AQ_AUTO(aq_engine_free) aq_engine *e = NULL;
    aq_engine_cfg cfg = {.n_ctx = 512, .n_parallel = 1, .progress = &c->progress};
    aq_wsrc src = {0};
    aq_rt *rt;

    int rc = ask(c, aq_engine_slot_get_engine(c->slot), &c->split);
    rc = rc < 0 ? rc : aq_engine_host_rt(host, &rt, &c->err);
    rc = rc < 0 ? rc : aq_model_open(rt, c->path, 0, &m, &src, &c->err);
    if (rc >= 0) {
        rc = aq_engine_new(rt, m, &src, &cfg, &e, &c->err);
        c->short_of_memory = rc == -AQ_E_NOMEM;
        rc = rc < 0 ? rc : ask(c, e, &c->alone);
        aq_engine_free(AQ_STEAL(e));
        aq_wsrc_close(&src);
    }
    g_task_return_boolean(task, rc >= 0);
}

static double ms_each(const aq_usage *u)
{
    return u->gen_tok > 1 ? (double)u->gen_us / 1e3 / (u->gen_tok - 1) : 0;
}

static void check_done(GObject *source, GAsyncResult *result, gpointer user)
{
    AqEngineHost *host = AQ_ENGINE_HOST(source);
    Check *c = g_task_get_task_data(G_TASK(result));
    gboolean ran = g_task_propagate_boolean(G_TASK(result), NULL), good = FALSE;
    g_autofree char *text = NULL, *why = g_utf8_make_valid(c->err.text, -1);
    g_autoptr(GObject) to = g_weak_ref_get(&c->user);
    guint same = 0;

    while (same < MIN(c->split.n, c->alone.n) && c->split.tok[same] == c->alone.tok[same])
        same++;
    if (ran && same == c->alone.n && same == c->split.n && same) {
        good = TRUE;
        /* Translators: number of tokens, then milliseconds */
        text = g_strdup_printf(
            _("The same answer as of this PC alone: %u tokens. A token took %.1f ms over the pool, "
              "%.1f ms alone."),
            same, ms_each(&c->split.usage), ms_each(&c->alone.usage));
    } else if (ran) {
        text = g_strdup_printf(
            _("DIFFERENT from the answer of this PC alone after %u tokens. Check both files with "
              "aquifer-cli pool check."),
            same);
    } else if (c->short_of_memory) {
        /* Translators: what the engine says, with numbers */
        text = g_strdup_printf(
            _("The pool answered; this PC has no room for the whole model to compare it with: %s"),
            why);
    } else {
        text = g_strdup_printf(_("It could not be checked: %s"), why);
    }
    if (to)
        c->done(to, good, text);
    g_clear_signal_handler(&c->end_handler, host);
    g_clear_pointer(&c->slot, aq_engine_slot_unref);
    aq_engine_host_release(host);
}

static void check_free(Check *c)
{
    g_free(c->path);
    g_weak_ref_clear(&c->user);
    g_mutex_clear(&c->lock);
    g_cond_clear(&c->cond);
    g_free(c);
}

void aq_split_check_start(AqEngineHost *host,
                          void (*done)(gpointer user, gboolean good, const char *text),
                          GObject *user)
{
    AqEngineSlot *slot = aq_engine_host_ref_slot(host);
    g_return_if_fail(slot != NULL);
    Check *c = g_new0(Check, 1);
    c->slot = slot;
    c->path = g_strdup(aq_engine_host_get_path(host));
    c->done = done;
    g_mutex_init(&c->lock);
    g_cond_init(&c->cond);
    c->end_handler = g_signal_connect_swapped(host, "end-answers", G_CALLBACK(cancel), c);
    g_weak_ref_init(&c->user, user);
    g_autoptr(GTask) task = g_task_new(host, NULL, check_done, NULL);
    g_task_set_task_data(task, c, (GDestroyNotify)check_free);
    aq_engine_host_hold(host);
    g_task_run_in_thread(task, check_thread);
}
