/* SPDX-License-Identifier: Apache-2.0 */
/* The pool in the window.
 *
 *   main thread    Op ─▶ queue ─▶ one at a time ─▶ done: state swapped, "changed"
 *   GTask worker   ─────────────▶ runs it: trust and seat are its own
 *   any thread     changed_cb ─▶ an idle source ─▶ Op REFRESH
 *
 * Trust and seat are touched by one Op at a time, so that nothing of them blocks the window. A split holds the seat through the
 * engine host; the Op that turns the Pool off waits until none does. */
#include "aq-pool-host.h"

#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "aq-format.h"
#include "aq-pool-words.h"

#define SAMPLE_MS 1000

typedef enum {
    OP_ON,
    OP_OFF,
    OP_REFRESH,
    OP_RENAME,
    OP_LISTEN,
    OP_ASK,
    OP_PAIR,
    OP_ANSWER,
    OP_PAIR_END,
    OP_ADD,
    OP_FORGET,
    OP_PERMIT,
    OP_REMOVE,
    OP_LEAVE,
    OP_MODE,
} OpKind;

typedef struct {
    OpKind kind;
    aq_id id;
    guint32 n;
    char *text;
    aq_pc pc;
    aq_mode mode;
    aq_err err;
    aq_seat_state *state; /* result of REFRESH */
    char name[AQ_NAME_MAX + 1];
} Op;

struct _AqPoolHost {
    GObject parent;
    AqEngineHost *engine;
    char *state_dir, *models, *guide, *ctl_dir;
    const char *dir[2];
    guint n_dir;

    aq_trust *trust; /* of the Op that runs, as is seat */
    aq_seat *seat;

    AqPower power;
    char *error;
    aq_seat_state *state;
    char name[AQ_NAME_MAX + 1];
    GQueue ops;
    gboolean op_runs, refresh_queued, closing, holds, off_wanted, on_wanted;
    gint pending; /* atomic: an idle source is on its way */

    aq_mode mode;
    guint n_plan; /* splits that hold the seat */
    aq_err split_err;
    gboolean split_tried;
    char *beside; /* the model that was there when a split was begun, and stays when that fails */
    guint sampler;
    aq_split_state last;
    guint64 last_here_us;
    AqSplitSample sample[AQ_SPLIT_SAMPLES];
    guint n_sample; /* ever */
};

G_DEFINE_FINAL_TYPE(AqPoolHost, aq_pool_host, G_TYPE_OBJECT)

static guint signal_changed, signal_told;

static void op_next(AqPoolHost *self);

static void changed(AqPoolHost *self)
{
    g_signal_emit(self, signal_changed, 0);
}

static void op_free(Op *op)
{
    g_free(op->text);
    g_free(op->state);
    g_free(op);
}

/* ---- on the worker -------------------------------------------------------------------------- */

static gboolean changed_idle(gpointer user);

static void any_thread_cb(void *user)
{
    AqPoolHost *self = user;
    if (g_atomic_int_compare_and_exchange(&self->pending, 0, 1))
        g_idle_add_full(G_PRIORITY_DEFAULT, changed_idle, g_object_ref(self), g_object_unref);
}

/* Does the process that has the pool take calls? */
static gboolean is_host(const aq_trust *trust)
{
    aq_call *call = NULL;
    gboolean is = aq_call_open(trust, &call, NULL) == 1;
    aq_call_free(call);
    return is;
}

static int turn_on(AqPoolHost *self, const Op *op, aq_err *err)
{
    char host[AQ_NAME_MAX + 1] = "";
    aq_rt *rt;
    if (gethostname(host, sizeof host - 1) < 0 || !*host)
        g_strlcpy(host, "a PC", sizeof host);
    if (g_mkdir_with_parents(self->state_dir, 0700) < 0)
        return aq_fail_errno(err, errno, "the folder %s cannot be made", self->state_dir);
    int rc = aq_engine_host_rt(self->engine, &rt, err);
    rc = rc < 0 ? rc : aq_trust_open(self->state_dir, host, NULL, &self->trust, err);
    rc = rc < 0 ? rc : aq_trust_hold(self->trust, err);
    /* A node of this user, say, has the pool: this window is its guest. */
    gboolean guest = rc == -AQ_E_BUSY && is_host(self->trust);
    rc = guest ? 0 : rc;
    aq_seat_cfg cfg = {.rt = rt,
                       .trust = self->trust,
                       .app = "aquifer " AQ_VERSION,
                       .version = AQ_VERSION,
                       .dir = self->dir,
                       .n_dir = self->n_dir,
                       .port = op->mode.port ? op->mode.port : AQ_POOL_PORT,
                       .pair = true,
                       .watch = true,
                       .guest = guest,
                       .ctl_dir = self->ctl_dir,
                       .changed_cb = any_thread_cb,
                       .user = self};
    rc = rc < 0 ? rc : aq_seat_new(&cfg, &self->seat, err);
    if (rc < 0) {
        aq_trust_free(self->trust);
        self->trust = NULL;
    }
    return rc;
}

static int turn_off(AqPoolHost *self)
{
    aq_seat_free(self->seat);
    aq_trust_free(self->trust);
    self->seat = NULL;
    self->trust = NULL;
    return 0;
}

static int pair(AqPoolHost *self, const aq_pc *pc, aq_err *err)
{
    const char *addr[AQ_ADDRS_MAX];
    for (guint i = 0; i < pc->n_addr; i++)
        addr[i] = pc->addr[i];
    return aq_seat_pair(self->seat, addr, pc->n_addr, err);
}

static int op_run(AqPoolHost *self, Op *op)
{
    char addr[AQ_ADDR_MAX + 1];
    aq_err *err = &op->err;
    int rc = 0;

    if (op->kind == OP_ON)
        rc = turn_on(self, op, err);
    else if (op->kind == OP_MODE)
        return aq_mode_save(self->state_dir, &op->mode, err);
    if (!self->seat || rc < 0)
        return rc;
    switch (op->kind) {
    case OP_OFF:
        return turn_off(self);
    case OP_RENAME:
        rc = aq_seat_set_name(self->seat, op->text, err);
        break;
    case OP_LISTEN:
        rc = aq_seat_listen(self->seat, (uint16_t)op->n, err);
        break;
    case OP_ASK:
        aq_seat_ask(self->seat);
        break;
    case OP_PAIR:
        rc = pair(self, &op->pc, err);
        break;
    case OP_ANSWER:
        aq_seat_pair_answer(self->seat, op->n != 0);
        break;
    case OP_PAIR_END:
        aq_seat_pair_end(self->seat);
        break;
    case OP_ADD:
        rc = aq_seat_add(self->seat, op->text, addr, err);
        break;
    case OP_FORGET:
        rc = aq_seat_forget(self->seat, op->text, err);
        break;
    case OP_PERMIT:
        rc = aq_seat_set_perms(self->seat, &op->id, op->n, err);
        break;
    case OP_REMOVE:
        rc = aq_seat_remove(self->seat, &op->id, err);
        break;
    case OP_LEAVE:
        rc = aq_seat_leave(self->seat, err);
        break;
    case OP_ON:
    case OP_REFRESH:
    case OP_MODE:
        break;
    }
    op->state = g_try_new(aq_seat_state, 1);
    if (op->state) {
        aq_seat_get(self->seat, op->state);
        aq_pool_words_tell_apart(op->state);
    }
    aq_trust_name(self->trust, op->name);
    return rc;
}

static void op_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    int rc = op_run(source, data);
    g_task_return_int(task, rc);
}

/* ---- the queue ------------------------------------------------------------------------------- */

static Op *op_new(OpKind kind)
{
    Op *op = g_new0(Op, 1);
    op->kind = kind;
    return op;
}

static void op_push(AqPoolHost *self, Op *op)
{
    g_queue_push_tail(&self->ops, op);
    op_next(self);
}

static void refresh(AqPoolHost *self)
{
    if (self->refresh_queued || self->power != AQ_POWER_ON)
        return;
    self->refresh_queued = TRUE;
    op_push(self, op_new(OP_REFRESH));
}

static gboolean changed_idle(gpointer user)
{
    AqPoolHost *self = user;
    g_atomic_int_set(&self->pending, 0);
    refresh(self);
    return G_SOURCE_REMOVE;
}

static void save_mode(AqPoolHost *self)
{
    Op *op = op_new(OP_MODE);
    op->mode = self->mode;
    op_push(self, op);
}

static void off_now(AqPoolHost *self);
static void begin_split(AqPoolHost *self);
static void retry_split(AqPoolHost *self);
static void drop_split(AqPoolHost *self);

static void op_done(GObject *source, GAsyncResult *result, gpointer user)
{
    AqPoolHost *self = AQ_POOL_HOST(source);
    Op *op = g_task_get_task_data(G_TASK(result));
    gssize rc = g_task_propagate_int(G_TASK(result), NULL);

    self->op_runs = FALSE;
    if (op->kind == OP_ON) {
        self->power = rc < 0 ? AQ_POWER_OFF : AQ_POWER_ON;
        g_set_str(&self->error, rc < 0 ? op->err.text : NULL);
        if (rc >= 0)
            aq_engine_host_hold(self->engine); /* the seat uses its runtime */
        self->holds = rc >= 0;
    } else if (op->kind == OP_OFF) {
        self->power = AQ_POWER_OFF;
        g_clear_pointer(&self->state, g_free);
        if (self->holds)
            aq_engine_host_release(self->engine);
        self->holds = FALSE;
    }
    if (op->kind == OP_REFRESH)
        self->refresh_queued = FALSE;
    if (op->state && self->power == AQ_POWER_ON) {
        g_free(self->state);
        self->state = g_steal_pointer(&op->state);
        memcpy(self->name, op->name, sizeof self->name);
    }
    drop_split(self);
    if (rc < 0 && op->kind != OP_ON) {
        g_autofree char *text = g_utf8_make_valid(op->err.text, -1);
        g_signal_emit(self, signal_told, 0, text);
    }
    if (op->kind == OP_ON && rc >= 0 && self->mode.split && !self->off_wanted)
        begin_split(self);
    if (op->kind == OP_LISTEN && rc >= 0 && self->state) {
        self->mode.port = self->state->port == AQ_POOL_PORT ? 0 : self->state->port;
        save_mode(self);
    }
    if (op->kind == OP_ON && rc < 0)
        self->mode.on = FALSE;
    retry_split(self);
    changed(self);
    if (op->kind == OP_ON && self->off_wanted)
        off_now(self);
    if (op->kind == OP_OFF && self->on_wanted) {
        self->on_wanted = FALSE;
        aq_pool_host_turn_on(self);
    }
    aq_engine_host_release(self->engine);
    op_next(self);
}

static void op_next(AqPoolHost *self)
{
    if (self->op_runs || g_queue_is_empty(&self->ops))
        return;
    Op *op = g_queue_pop_head(&self->ops);
    g_autoptr(GTask) task = g_task_new(self, NULL, op_done, NULL);
    g_task_set_task_data(task, op, (GDestroyNotify)op_free);
    self->op_runs = TRUE;
    aq_engine_host_hold(self->engine); /* its runtime is used here */
    g_task_run_in_thread(task, op_thread);
}

/* ---- on and off ------------------------------------------------------------------------------ */

void aq_pool_host_turn_on(AqPoolHost *self)
{
    g_return_if_fail(AQ_IS_POOL_HOST(self));
    if (self->closing || self->power == AQ_POWER_ON || self->power == AQ_POWER_STARTING)
        return;
    if (self->power == AQ_POWER_STOPPING) {
        self->on_wanted = TRUE;
        return;
    }
    self->power = AQ_POWER_STARTING;
    self->mode.on = TRUE;
    Op *op = op_new(OP_ON);
    op->mode = self->mode;
    op_push(self, op);
    save_mode(self);
    changed(self);
}

/* When nothing holds the seat any more. */
static void off_now(AqPoolHost *self)
{
    if (self->power == AQ_POWER_STARTING || self->n_plan)
        return;
    self->off_wanted = FALSE;
    if (self->power == AQ_POWER_ON)
        self->power = AQ_POWER_STOPPING;
    op_push(self, op_new(OP_OFF));
}

static void power_down(AqPoolHost *self)
{
    aq_split_state st;
    aq_engine_stats stats;

    g_clear_handle_id(&self->sampler, g_source_remove);
    self->off_wanted = TRUE;
    if (self->power == AQ_POWER_ON)
        self->power = AQ_POWER_STOPPING;
    if (aq_engine_host_get_split(self->engine, &st, &stats))
        aq_engine_host_unload(self->engine);
    else if (self->n_plan)
        aq_engine_host_cancel_load(self->engine);
    off_now(self);
    changed(self);
}

void aq_pool_host_turn_off(AqPoolHost *self)
{
    g_return_if_fail(AQ_IS_POOL_HOST(self));
    self->on_wanted = FALSE;
    if (self->power == AQ_POWER_OFF || self->power == AQ_POWER_STOPPING)
        return;
    self->mode.on = self->mode.split = FALSE;
    save_mode(self);
    power_down(self);
}

gboolean aq_pool_host_start(AqPoolHost *self)
{
    aq_err err = {0};
    /* A file of some hundred bytes, once, before the window is there. */
    if (aq_mode_load(self->state_dir, &self->mode, &err) < 0) {
        g_autofree char *text = g_utf8_make_valid(err.text, -1);
        g_set_str(&self->error, text);
        return FALSE;
    }
    if (self->mode.on)
        aq_pool_host_turn_on(self);
    return self->mode.on && self->mode.split;
}

void aq_pool_host_close(AqPoolHost *self)
{
    g_return_if_fail(AQ_IS_POOL_HOST(self) && !self->closing);
    self->closing = TRUE;
    self->on_wanted = FALSE;
    g_signal_handlers_disconnect_by_data(self->engine, self);
    if (self->power == AQ_POWER_ON || self->power == AQ_POWER_STARTING)
        power_down(self);
}

/* ---- the split ------------------------------------------------------------------------------- */

static void plan_unused(gpointer user)
{
    g_autoptr(AqPoolHost) self = user;
    self->n_plan--;
    self->split_err = *aq_engine_host_get_error(self->engine);
    if (self->off_wanted)
        off_now(self);
    changed(self);
}

static gboolean take_sample(gpointer user)
{
    AqPoolHost *self = user;
    aq_engine_stats stats;
    aq_split_state st;

    if (!aq_engine_host_get_split(self->engine, &st, &stats)) {
        self->sampler = 0;
        return G_SOURCE_REMOVE;
    }
    AqSplitSample *s = &self->sample[self->n_sample % AQ_SPLIT_SAMPLES];
    gboolean anew = st.n_window < self->last.n_window;
    *s = (AqSplitSample){
        .n_window = (guint)(st.n_window - (anew ? 0 : self->last.n_window)),
        .worker_us = st.worker_us - (anew ? 0 : self->last.worker_us),
        .net_us = st.net_us - (anew ? 0 : self->last.net_us),
        .here_us = stats.here_us - MIN(self->last_here_us, stats.here_us),
    };
    self->n_sample++;
    self->last = st;
    self->last_here_us = stats.here_us;
    changed(self);
    return G_SOURCE_CONTINUE;
}

static void on_engine_changed(AqPoolHost *self)
{
    aq_engine_stats stats;
    aq_split_state st;
    gboolean runs = aq_engine_host_get_split(self->engine, &st, &stats);

    if (runs)
        g_clear_pointer(&self->beside, g_free);
    if (runs && !self->sampler) {
        self->n_sample = 0;
        self->last = st;
        self->last_here_us = stats.here_us;
        self->sampler = g_timeout_add(SAMPLE_MS, take_sample, self);
    }
    /* Another model was chosen: the split is over. */
    if (self->mode.split && !runs && aq_engine_host_get_state(self->engine) == AQ_ENGINE_READY &&
        self->split_tried && !self->n_plan &&
        g_strcmp0(aq_engine_host_get_path(self->engine), self->beside) != 0) {
        self->mode.split = FALSE;
        save_mode(self);
    }
    changed(self);
}

static void begin_split(AqPoolHost *self)
{
    AqSplitPlan plan = {.seat = self->seat,
                        .pc = self->mode.pc,
                        .cut = self->mode.cut,
                        .rows = self->mode.rows[0] ? self->mode.rows : NULL,
                        .change_cb = any_thread_cb,
                        .unused = plan_unused,
                        .user = g_object_ref(self)};
    self->n_plan++;
    self->split_tried = TRUE;
    self->split_err = (aq_err){0};
    g_set_str(&self->beside, aq_engine_host_get_path(self->engine));
    aq_engine_host_load_split(self->engine, self->mode.model, &plan);
}

static const aq_pc *find(AqPoolHost *self, const aq_id *id)
{
    for (guint i = 0; self->state && i < self->state->n_pc; i++)
        if (self->state->pc[i].has_id && aq_id_equal(&self->state->pc[i].id, id))
            return &self->state->pc[i];
    return NULL;
}

/* Its PC was removed, or this one left the pool, by another program of this user or another PC. */
static void drop_split(AqPoolHost *self)
{
    const aq_pc *pc = find(self, &self->mode.pc);
    if (self->mode.split && self->split_tried && self->power == AQ_POWER_ON && self->state &&
        (!self->state->in_pool || (self->state->n_pc && !(pc && pc->member))))
        aq_pool_host_stop_split(self);
}

/* It was wanted and its PC was not there, or worked for another one: as soon as it says that it is free. */
static void retry_split(AqPoolHost *self)
{
    int code = self->split_err.code;
    const aq_pc *pc = self->mode.split ? find(self, &self->mode.pc) : NULL;

    if (!pc || self->n_plan || self->power != AQ_POWER_ON || pc->state != AQ_PC_HERE ||
        *pc->works_for || aq_engine_host_get_loading_path(self->engine) ||
        (code != AQ_E_GONE && code != AQ_E_TIMEOUT && code != AQ_E_BUSY))
        return;
    begin_split(self);
}

void aq_pool_host_split(AqPoolHost *self, const aq_id *pc, const char *path, guint cut,
                        const char *rows)
{
    g_return_if_fail(AQ_IS_POOL_HOST(self));
    if (self->power != AQ_POWER_ON)
        return;
    if (strlen(path) >= sizeof self->mode.model) {
        g_signal_emit(self, signal_told, 0, _("The path of this model is too long."));
        return;
    }
    self->mode.split = TRUE;
    self->mode.pc = *pc;
    self->mode.cut = cut;
    g_strlcpy(self->mode.model, path, sizeof self->mode.model);
    /* Its own, too, when a split is tried again. */
    g_autofree char *how = g_strdup(rows);
    g_strlcpy(self->mode.rows, how, sizeof self->mode.rows);
    save_mode(self);
    begin_split(self);
    changed(self);
}

void aq_pool_host_stop_split(AqPoolHost *self)
{
    g_return_if_fail(AQ_IS_POOL_HOST(self));
    aq_engine_stats stats;
    aq_split_state st;
    self->mode.split = FALSE;
    save_mode(self);
    g_clear_handle_id(&self->sampler, g_source_remove);
    if (aq_engine_host_get_split(self->engine, &st, &stats))
        aq_engine_host_unload(self->engine);
    else
        aq_engine_host_cancel_load(self->engine);
    changed(self);
}

gboolean aq_pool_host_wants_split(AqPoolHost *self)
{
    return self->mode.split;
}

const aq_mode *aq_pool_host_get_mode(AqPoolHost *self)
{
    return &self->mode;
}

const aq_err *aq_pool_host_get_split_error(AqPoolHost *self)
{
    return &self->split_err;
}

gboolean aq_pool_host_get_split(AqPoolHost *self, aq_split_state *ret)
{
    aq_engine_stats stats;
    return aq_engine_host_get_split(self->engine, ret, &stats);
}

guint aq_pool_host_get_samples(AqPoolHost *self, AqSplitSample ret[AQ_SPLIT_SAMPLES])
{
    guint n = 0;
    for (guint i = 0; i < AQ_SPLIT_SAMPLES; i++) {
        guint at = (self->n_sample + i) % AQ_SPLIT_SAMPLES;
        if (self->n_sample < AQ_SPLIT_SAMPLES && at >= self->n_sample)
            continue;
        if (self->sample[at].n_window)
            ret[n++] = self->sample[at];
    }
    return n;
}

/* ---- what a model needs ---------------------------------------------------------------------- */

typedef struct {
    AqSplitFacts facts;
    aq_pc pc;
    aq_err err;
    void (*done)(gpointer, const AqSplitFacts *, const char *);
    GWeakRef user;
} Look;

static void look_free(Look *look)
{
    g_free(look->facts.path);
    g_free(look->facts.here_bytes);
    g_free(look->facts.there_bytes);
    g_free(look->facts.cut_ok);
    g_free(look->facts.short_of);
    g_weak_ref_clear(&look->user);
    g_free(look);
}

static void look_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    AqPoolHost *self = source;
    Look *look = data;
    AqSplitFacts *f = &look->facts;
    aq_engine_cfg cfg = {0};
    aq_model *m = NULL;
    aq_err err = {0};

    if (aq_engine_host_inspect(self->engine, f->path, &m, &look->err) >= 0) {
        const aq_model_info *in = aq_model_get_info(m);
        f->n_layer = in->n_layer;
        f->here_bytes = g_new0(guint64, in->n_layer);
        f->there_bytes = g_new0(guint64, in->n_layer);
        f->cut_ok = g_new0(guint8, in->n_layer);
        for (guint k = 1; k < in->n_layer; k++) {
            f->cut_ok[k] = in->cut_ok[k];
            if (f->cut_ok[k])
                aq_split_need(in, &cfg, k, &f->here_bytes[k], &f->there_bytes[k]);
        }
        f->free_here_bytes = aq_mem_free_bytes();
        if (aq_split_choose(in, &cfg, f->free_here_bytes, look->pc.mem_bytes, look->pc.name,
                            &f->cut, &err) < 0)
            f->short_of = g_utf8_make_valid(err.text, -1);
        aq_model_free(m);
    }
    g_task_return_boolean(task, TRUE);
}

static void look_done(GObject *source, GAsyncResult *result, gpointer user)
{
    AqPoolHost *self = AQ_POOL_HOST(source);
    Look *look = g_task_get_task_data(G_TASK(result));
    g_autoptr(GObject) to = g_weak_ref_get(&look->user);
    g_autofree char *why = look->err.code ? g_utf8_make_valid(look->err.text, -1) : NULL;
    if (to)
        look->done(to, why ? NULL : &look->facts, why);
    aq_engine_host_release(self->engine);
}

void aq_pool_host_look_at(AqPoolHost *self, const char *path, const aq_pc *pc,
                          void (*done)(gpointer user, const AqSplitFacts *facts, const char *why),
                          GObject *user)
{
    Look *look = g_new0(Look, 1);
    look->facts.path = g_strdup(path);
    look->done = done;
    look->pc = *pc;
    g_weak_ref_init(&look->user, user);
    g_autoptr(GTask) task = g_task_new(self, NULL, look_done, NULL);
    g_task_set_task_data(task, look, (GDestroyNotify)look_free);
    aq_engine_host_hold(self->engine);
    g_task_run_in_thread(task, look_thread);
}

/* ---- the other things to do ------------------------------------------------------------------- */

static void do_text(AqPoolHost *self, OpKind kind, const char *text)
{
    Op *op = op_new(kind);
    op->text = g_strdup(text);
    op_push(self, op);
}

static void do_number(AqPoolHost *self, OpKind kind, const aq_id *id, guint32 n)
{
    Op *op = op_new(kind);
    if (id)
        op->id = *id;
    op->n = n;
    op_push(self, op);
}

void aq_pool_host_rename(AqPoolHost *self, const char *name)
{
    do_text(self, OP_RENAME, name);
}

void aq_pool_host_listen(AqPoolHost *self, guint16 port)
{
    do_number(self, OP_LISTEN, NULL, port);
}

void aq_pool_host_ask(AqPoolHost *self)
{
    do_number(self, OP_ASK, NULL, 0);
}

void aq_pool_host_pair(AqPoolHost *self, const aq_pc *pc)
{
    Op *op = op_new(OP_PAIR);
    op->pc = *pc;
    op_push(self, op);
}

void aq_pool_host_pair_answer(AqPoolHost *self, gboolean match)
{
    do_number(self, OP_ANSWER, NULL, match);
}

void aq_pool_host_pair_end(AqPoolHost *self)
{
    do_number(self, OP_PAIR_END, NULL, 0);
}

void aq_pool_host_add(AqPoolHost *self, const char *address)
{
    do_text(self, OP_ADD, address);
}

void aq_pool_host_forget(AqPoolHost *self, const char *address)
{
    do_text(self, OP_FORGET, address);
}

void aq_pool_host_permit(AqPoolHost *self, const aq_id *id, guint32 perms)
{
    do_number(self, OP_PERMIT, id, perms);
}

void aq_pool_host_remove(AqPoolHost *self, const aq_id *id)
{
    if (self->mode.split && aq_id_equal(id, &self->mode.pc))
        aq_pool_host_stop_split(self);
    do_number(self, OP_REMOVE, id, 0);
}

void aq_pool_host_leave(AqPoolHost *self)
{
    if (self->mode.split)
        aq_pool_host_stop_split(self);
    do_number(self, OP_LEAVE, NULL, 0);
}

AqPower aq_pool_host_get_power(AqPoolHost *self)
{
    return self->power;
}

const char *aq_pool_host_get_error(AqPoolHost *self)
{
    return self->error;
}

const aq_seat_state *aq_pool_host_get_state(AqPoolHost *self)
{
    return self->power == AQ_POWER_ON ? self->state : NULL;
}

const char *aq_pool_host_get_name(AqPoolHost *self)
{
    return self->name;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void aq_pool_host_finalize(GObject *object)
{
    AqPoolHost *self = AQ_POOL_HOST(object);
    g_clear_handle_id(&self->sampler, g_source_remove);
    g_queue_clear_full(&self->ops, (GDestroyNotify)op_free);
    turn_off(self); /* nothing, when it was closed */
    g_clear_object(&self->engine);
    g_free(self->state);
    g_free(self->error);
    g_free(self->beside);
    g_free(self->state_dir);
    g_free(self->models);
    g_free(self->guide);
    g_free(self->ctl_dir);
    G_OBJECT_CLASS(aq_pool_host_parent_class)->finalize(object);
}

static void aq_pool_host_class_init(AqPoolHostClass *klass)
{
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = aq_pool_host_finalize;
    signal_changed =
        g_signal_new("changed", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_told = g_signal_new("told", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 1,
                               G_TYPE_STRING);
}

static void aq_pool_host_init(AqPoolHost *self)
{
    g_queue_init(&self->ops);
}

AqPoolHost *aq_pool_host_new(AqEngineHost *engine, const char *state_dir, const char *models,
                             const char *guide)
{
    AqPoolHost *self = g_object_new(AQ_TYPE_POOL_HOST, NULL);
    self->engine = g_object_ref(engine);
    self->state_dir = g_strdup(state_dir);
    self->models = g_strdup(models);
    self->guide = g_strdup(guide);
    const char *pak =
        g_getenv("FLATPAK_ID"); /* its programs share one folder of the runtime folder */
    self->ctl_dir = pak ? g_build_filename(g_get_user_runtime_dir(), "app", pak, "aquifer", NULL)
                        : g_build_filename(g_get_user_runtime_dir(), "aquifer", NULL);
    if (models)
        self->dir[self->n_dir++] = self->models;
    if (guide)
        self->dir[self->n_dir++] = self->guide;
    g_signal_connect_object(engine, "changed", G_CALLBACK(on_engine_changed), self,
                            G_CONNECT_SWAPPED);
    return self;
}
