/* SPDX-License-Identifier: Apache-2.0 */
/* Which model is loaded, which is being loaded, what went wrong.
 *
 * Everything that takes long (reading, loading, freeing) runs on worker threads of GTask; a Load carries its inputs and results there
 * and back, so that threads share only the atomics of aq_progress. All else belongs to the main thread. */
#include "aq-engine-host.h"

#include <glib/gstdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "aq-format.h"

#define PROGRESS_MS 100
/* What an engine takes besides the weights: KV pages and buffers. */
#define SPARE_BYTES (512ull << 20)
/* The other PC of a split is lost for so long: all layers here, if they fit. */
#define ALONE_AFTER_MS 10000
/* Parked chats take so much of the disk at most, and no more than a tenth of what is free. */
#define PARKED_BYTES_MAX (4ull << 30)

struct _AqEngineSlot {
    gatomicrefcount ref;
    AqEngineHost *host;
    char *path, *name;
    aq_model *model;
    aq_wsrc src;
    aq_engine *engine;
    aq_split *split; /* has the engine, when it is one */
    AqSplitPlan plan;
    aq_engine_info info;
    char *device;
};

struct _AqEngineHost {
    GObject parent;
    char *cpu_path,
        *parked;    /* parked: NULL = chats are not kept; not changed after the first load */
    GMutex rt_lock; /* rt: made by the first worker that needs it */
    aq_rt *rt;
    GPtrArray *slots; /* all that are in use, the API's too; not owned */
    guint n_freeing;
    gboolean forget_again; /* one of those that are being freed may still write a parked chat */

    AqEngineState state;
    AqEngineSlot *slot;
    GTask *load;  /* under way, or NULL */
    aq_err error; /* of the last load */
    guint progress_timer;
    guint n_busy; /* worker tasks and slots that still use rt */
    gboolean closing;
    void (*closed)(gpointer user);
    gpointer closed_user;
};

G_DEFINE_FINAL_TYPE(AqEngineHost, aq_engine_host, G_TYPE_OBJECT)

static guint signal_changed, signal_failed, signal_end_answers;

/* One load: what goes to the worker and what comes back. */
typedef struct {
    char *path;
    guint n_ctx; /* 0 = by default */
    aq_progress progress;
    AqSplitPlan plan;   /* seat NULL: all layers here */
    AqEngineSlot *slot; /* result */
    aq_err err;
} Load;

static void changed(AqEngineHost *self)
{
    g_signal_emit(self, signal_changed, 0);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void slot_destroy(AqEngineSlot *slot)
{
    if (slot->split)
        aq_split_free(slot->split);
    else
        aq_engine_free(slot->engine);
    aq_wsrc_close(&slot->src);
    aq_model_free(slot->model);
    g_free(slot->path);
    g_free(slot->name);
    g_free(slot->device);
    g_free(slot);
}

static void closing_check(AqEngineHost *self);
static void forget_files(AqEngineHost *self);

static void plan_end(AqSplitPlan *plan)
{
    if (plan->seat)
        plan->unused(plan->user);
    plan->seat = NULL;
}

typedef struct {
    AqEngineSlot *slot;
    AqSplitPlan plan;
} Freeing;

static void slot_free_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    slot_destroy(((Freeing *)data)->slot);
    g_task_return_boolean(task, TRUE);
}

static void slot_freed(GObject *source, GAsyncResult *result, gpointer user)
{
    AqEngineHost *self = AQ_ENGINE_HOST(source);
    plan_end(&((Freeing *)g_task_get_task_data(G_TASK(result)))->plan);
    gboolean again = --self->n_freeing == 0 && self->forget_again;
    self->forget_again = self->forget_again && !again;
    if (again)
        forget_files(self);
    self->n_busy--;
    closing_check(self);
}

AqEngineSlot *aq_engine_slot_ref(AqEngineSlot *slot)
{
    g_atomic_ref_count_inc(&slot->ref);
    return slot;
}

void aq_engine_slot_unref(AqEngineSlot *slot)
{
    if (!slot || !g_atomic_ref_count_dec(&slot->ref))
        return;
    g_autoptr(AqEngineHost) host = g_steal_pointer(&slot->host);
    g_ptr_array_remove_fast(host->slots, slot);
    host->n_freeing++;
    g_autoptr(GTask) task = g_task_new(host, NULL, slot_freed, NULL);
    Freeing *freeing = g_new0(Freeing, 1);
    freeing->slot = slot;
    freeing->plan = slot->plan;
    g_task_set_task_data(task, freeing, g_free);
    g_task_run_in_thread(task, slot_free_thread);
}

AqEngineHost *aq_engine_slot_get_host(AqEngineSlot *slot)
{
    return slot->host;
}

const aq_model *aq_engine_slot_get_model(AqEngineSlot *slot)
{
    return slot->model;
}

aq_engine *aq_engine_slot_get_engine(AqEngineSlot *slot)
{
    return slot->engine;
}

/* ---- loading -------------------------------------------------------------------------------- */

int aq_engine_host_rt(AqEngineHost *self, aq_rt **ret, aq_err *err)
{
    g_autoptr(GMutexLocker) lock = g_mutex_locker_new(&self->rt_lock);
    if (!self->rt) {
        aq_rt_cfg cfg = {.cpu_path = self->cpu_path, .nice = 5, .pin = true};
        int rc = aq_rt_new(&cfg, &self->rt, err);
        if (rc < 0)
            return rc;
    }
    *ret = self->rt;
    return 0;
}

int aq_engine_host_inspect(AqEngineHost *self, const char *path, aq_model **ret, aq_err *err)
{
    aq_rt *rt;
    int rc = aq_engine_host_rt(self, &rt, err);
    return rc < 0 ? rc : aq_model_open(rt, path, 0, ret, NULL, err);
}

static void load_free(Load *load)
{
    g_free(load->path);
    g_free(load);
}

/* How much of the folder's disk parked chats may take; 0 when it cannot be used. Worker thread. */
static guint64 parked_budget(const char *dir)
{
    struct statvfs fs;
    if (!dir)
        return 0;
    if (g_mkdir_with_parents(dir, 0700) != 0 || access(dir, R_OK | W_OK | X_OK) != 0 ||
        statvfs(dir, &fs) != 0) {
        aq_log(AQ_LOG_WARN, "app", "the folder for parked chats cannot be used: they are not kept");
        return 0;
    }
    return MIN(PARKED_BYTES_MAX, (guint64)fs.f_bavail * fs.f_frsize / 10);
}

static int load_run(AqEngineHost *self, Load *load, AqEngineSlot *slot)
{
    aq_rt *rt;
    int rc = aq_engine_host_rt(self, &rt, &load->err);
    if (rc < 0)
        return rc;
    rc = aq_model_open(rt, load->path, 0, &slot->model, &slot->src, &load->err);
    if (rc < 0)
        return rc;
    const aq_model_info *info = aq_model_get_info(slot->model);
    if (info->tok_refused)
        return aq_fail(&load->err, AQ_E_UNSUPPORTED, "%s", info->tok_refused);
    slot->name =
        info->name && *info->name ? g_utf8_make_valid(info->name, -1) : aq_format_file(load->path);
    aq_engine_cfg cfg = {.progress = &load->progress, .n_ctx = load->n_ctx};
    if (load->plan.seat) {
        aq_split_cfg sc = {.model = slot->model,
                           .src = &slot->src,
                           .cut = load->plan.cut,
                           .rows = load->plan.rows,
                           .engine = cfg,
                           .alone_after_ms = ALONE_AFTER_MS,
                           .change_cb = load->plan.change_cb,
                           .user = load->plan.user};
        rc = aq_seat_split(load->plan.seat, &load->plan.pc, &sc, &slot->split, &load->err);
        slot->engine = rc < 0 ? NULL : aq_split_engine(slot->split);
    } else {
        cfg.park_dir = self->parked;
        cfg.park_bytes = parked_budget(self->parked);
        rc = aq_engine_new(rt, slot->model, &slot->src, &cfg, &slot->engine, &load->err);
    }
    if (rc < 0)
        return rc;
    aq_engine_get_info(slot->engine, &slot->info);
    slot->device = g_strdup(slot->info.device);
    if (slot->split) {
        aq_split_state st;
        g_autofree char *here = g_steal_pointer(&slot->device);
        aq_split_get_state(slot->split, &st);
        slot->device = g_strdup_printf("%s + %s", here, st.pc);
    }
    return 0;
}

static void load_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    AqEngineHost *self = source;
    Load *load = data;
    AqEngineSlot *slot = g_new0(AqEngineSlot, 1);
    g_atomic_ref_count_init(&slot->ref);
    slot->path = g_strdup(load->path);
    if (load_run(self, load, slot) < 0)
        slot_destroy(slot);
    else
        load->slot = slot;
    g_task_return_boolean(task, TRUE);
}

static gboolean progress_tick(gpointer user)
{
    changed(user);
    return G_SOURCE_CONTINUE;
}

static void load_ended(AqEngineHost *self)
{
    g_clear_handle_id(&self->progress_timer, g_source_remove);
    g_clear_object(&self->load);
}

static void load_done(GObject *source, GAsyncResult *result, gpointer user)
{
    AqEngineHost *self = AQ_ENGINE_HOST(source);
    Load *load = g_task_get_task_data(G_TASK(result));
    gboolean current = self->load == G_TASK(result);
    g_autoptr(AqEngineSlot) slot = g_steal_pointer(&load->slot);

    if (slot) {
        /* From here on the slot counts as a user of rt; the task's own count is passed on to it. */
        slot->host = g_object_ref(self);
        slot->plan = load->plan;
        g_ptr_array_add(self->slots, slot);
    } else {
        if (current && load->err.code != AQ_E_CANCELLED)
            self->error = load->err;
        plan_end(&load->plan);
        self->n_busy--;
    }
    if (current) {
        load_ended(self);
        if (slot && !self->closing && !atomic_load(&load->progress.cancel)) {
            AqEngineSlot *old = self->slot;
            self->slot = g_steal_pointer(&slot);
            aq_engine_slot_unref(old);
        }
        self->state = self->slot ? AQ_ENGINE_READY : AQ_ENGINE_NONE;
        if (load->err.code && load->err.code != AQ_E_CANCELLED && !self->closing) {
            aq_log(AQ_LOG_WARN, "app", "load failed code=%s", aq_status_name(load->err.code));
            if (!self->slot)
                self->state = AQ_ENGINE_ERROR;
            g_autofree char *text = g_utf8_make_valid(load->err.text, -1);
            g_signal_emit(self, signal_failed, 0, load->path, text);
        }
        changed(self);
    }
    closing_check(self);
}

/* Two models at once when memory allows, so that a load that fails costs nothing. */
static gboolean room_beside(const char *path, guint64 ctx_bytes)
{
    GStatBuf st;
    if (g_stat(path, &st) != 0)
        return TRUE; /* the load will say what is wrong */
    guint64 need = (guint64)st.st_size + (guint64)st.st_size / 4 + SPARE_BYTES + ctx_bytes;
    return need < aq_mem_free_bytes();
}

static void load_with(AqEngineHost *self, const char *path, const AqSplitPlan *plan, guint n_ctx)
{
    guint64 ctx_bytes = n_ctx ? aq_engine_host_ctx_bytes(self, n_ctx) : 0;
    if (self->closing) {
        if (plan)
            plan->unused(plan->user);
        return;
    }
    aq_engine_host_cancel_load(self);
    if (self->slot && !room_beside(path, ctx_bytes)) {
        aq_log(AQ_LOG_INFO, "app", "memory is short for two models: the earlier one goes first");
        g_clear_pointer(&self->slot, aq_engine_slot_unref);
    }
    Load *job = g_new0(Load, 1);
    job->path = g_strdup(path);
    job->n_ctx = n_ctx;
    if (plan)
        job->plan = *plan;
    self->error = (aq_err){0};
    self->load = g_task_new(self, NULL, load_done, NULL);
    g_task_set_task_data(self->load, job, (GDestroyNotify)load_free);
    self->state = AQ_ENGINE_LOADING;
    self->n_busy++;
    self->progress_timer = g_timeout_add(PROGRESS_MS, progress_tick, self);
    g_task_run_in_thread(self->load, load_thread);
    changed(self);
}

void aq_engine_host_load(AqEngineHost *self, const char *path)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self) && path);
    load_with(self, path, NULL, 0);
}

void aq_engine_host_load_split(AqEngineHost *self, const char *path, const AqSplitPlan *plan)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self) && path);
    load_with(self, path, plan, 0);
}

void aq_engine_host_reload(AqEngineHost *self, guint n_ctx)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self));
    if (!self->slot || self->slot->split)
        return;
    g_autofree char *path = g_strdup(self->slot->path);
    load_with(self, path, NULL, n_ctx);
}

void aq_engine_host_cancel_load(AqEngineHost *self)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self));
    if (!self->load)
        return;
    Load *load = g_task_get_task_data(self->load);
    atomic_store(&load->progress.cancel, 1);
    load_ended(self);
    self->state = self->slot ? AQ_ENGINE_READY : AQ_ENGINE_NONE;
    changed(self);
}

void aq_engine_host_unload(AqEngineHost *self)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self));
    aq_engine_host_cancel_load(self);
    if (!self->slot)
        return;
    g_signal_emit(self, signal_end_answers, 0);
    g_clear_pointer(&self->slot, aq_engine_slot_unref);
    self->state = AQ_ENGINE_NONE;
    changed(self);
}

/* ---- what is there -------------------------------------------------------------------------- */

AqEngineState aq_engine_host_get_state(AqEngineHost *self)
{
    return self->state;
}

gboolean aq_engine_host_can_answer(AqEngineHost *self)
{
    return self->slot != NULL;
}

AqEngineSlot *aq_engine_host_ref_slot(AqEngineHost *self)
{
    return self->slot ? aq_engine_slot_ref(self->slot) : NULL;
}

gboolean aq_engine_host_get_split(AqEngineHost *self, aq_split_state *ret,
                                  aq_engine_stats *ret_stats)
{
    if (!self->slot || !self->slot->split)
        return FALSE;
    aq_split_get_state(self->slot->split, ret);
    aq_engine_get_stats(self->slot->engine, ret_stats);
    return TRUE;
}

const aq_err *aq_engine_host_get_error(AqEngineHost *self)
{
    return &self->error;
}

const char *aq_engine_host_get_path(AqEngineHost *self)
{
    return self->slot ? self->slot->path : NULL;
}

const char *aq_engine_host_get_model_name(AqEngineHost *self)
{
    return self->slot ? self->slot->name : NULL;
}

const char *aq_engine_host_get_device(AqEngineHost *self)
{
    return self->slot ? self->slot->device : NULL;
}

guint aq_engine_host_get_n_ctx(AqEngineHost *self)
{
    return self->slot ? self->slot->info.n_ctx : 0;
}

guint aq_engine_host_get_ctx_max(AqEngineHost *self)
{
    if (!self->slot || self->slot->split)
        return 0;
    guint trained = aq_model_get_info(self->slot->model)->n_ctx_train;
    return trained ? MIN(trained, AQ_CTX_MAX) : AQ_CTX_MAX;
}

guint64 aq_engine_host_ctx_bytes(AqEngineHost *self, guint n_ctx)
{
    if (!self->slot)
        return 0;
    const aq_model_info *info = aq_model_get_info(self->slot->model);
    guint64 pages = ((guint64)n_ctx + AQ_PAGE_TOK - 1) / AQ_PAGE_TOK;
    return pages * AQ_PAGE_TOK * aq_model_kv_bytes_tok(info, self->slot->info.kv_type) +
           info->recur_bytes_seq;
}

gboolean aq_engine_host_ctx_fits(AqEngineHost *self, guint n_ctx, guint64 *ret_need,
                                 guint64 *ret_free)
{
    guint64 need = aq_engine_host_ctx_bytes(self, n_ctx), room = aq_mem_free_bytes();
    *ret_need = need;
    *ret_free = room;
    return need <= room;
}

guint64 aq_engine_host_get_weight_bytes(AqEngineHost *self)
{
    return self->slot ? self->slot->info.weight_bytes : 0;
}

gboolean aq_engine_host_has_thinking_switch(AqEngineHost *self)
{
    const char *tmpl = self->slot ? aq_model_get_info(self->slot->model)->tmpl_src : NULL;
    return tmpl && strstr(tmpl, "enable_thinking");
}

const char *aq_engine_host_get_loading_path(AqEngineHost *self)
{
    return self->load ? ((Load *)g_task_get_task_data(self->load))->path : NULL;
}

void aq_engine_host_get_progress(AqEngineHost *self, guint64 *ret_done, guint64 *ret_total)
{
    *ret_done = *ret_total = 0;
    if (self->load) {
        Load *load = g_task_get_task_data(self->load);
        *ret_done = atomic_load_explicit(&load->progress.done, memory_order_relaxed);
        *ret_total = atomic_load_explicit(&load->progress.total, memory_order_relaxed);
    }
}

/* ---- parked chats --------------------------------------------------------------------------- */

static void forget_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    const char *parked = AQ_ENGINE_HOST(source)->parked, *name;
    g_autoptr(GDir) dir = g_dir_open(parked, 0, NULL);
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(parked, name, NULL);
        if (g_str_has_suffix(name, ".aqpark"))
            g_unlink(file);
    }
    g_task_return_boolean(task, TRUE);
}

static void forgotten(GObject *source, GAsyncResult *result, gpointer user)
{
    aq_engine_host_release(AQ_ENGINE_HOST(source));
}

/* There may be files that no loaded model has. */
static void forget_files(AqEngineHost *self)
{
    aq_engine_host_hold(self);
    g_autoptr(GTask) task = g_task_new(self, NULL, forgotten, NULL);
    g_task_run_in_thread(task, forget_thread);
}

void aq_engine_host_forget_parked(AqEngineHost *self)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self));
    if (!self->parked)
        return;
    /* An earlier model is there as long as it answers, and keeps its chats when it goes. */
    for (guint i = 0; i < self->slots->len; i++)
        aq_engine_forget(((AqEngineSlot *)self->slots->pdata[i])->engine);
    self->forget_again = self->n_freeing > 0;
    forget_files(self);
}

void aq_engine_host_set_parked(AqEngineHost *self, const char *dir)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self) && !self->parked);
    self->parked = g_strdup(dir);
}

/* ---- end ------------------------------------------------------------------------------------ */

static void closing_check(AqEngineHost *self)
{
    if (!self->closing || self->n_busy || !self->closed)
        return;
    void (*closed)(gpointer) = g_steal_pointer(&self->closed);
    g_clear_pointer(&self->rt, aq_rt_free);
    closed(self->closed_user);
}

void aq_engine_host_hold(AqEngineHost *self)
{
    self->n_busy++;
}

void aq_engine_host_release(AqEngineHost *self)
{
    self->n_busy--;
    closing_check(self);
}

static gboolean closing_idle(gpointer user)
{
    closing_check(user);
    return G_SOURCE_REMOVE;
}

void aq_engine_host_close(AqEngineHost *self, void (*done)(gpointer user), gpointer user)
{
    g_return_if_fail(AQ_IS_ENGINE_HOST(self) && !self->closing);
    self->closed = done;
    self->closed_user = user;
    aq_engine_host_cancel_load(self);
    self->closing = TRUE;
    g_signal_emit(self, signal_end_answers, 0);
    g_clear_pointer(&self->slot, aq_engine_slot_unref);
    self->state = AQ_ENGINE_NONE;
    g_idle_add_full(G_PRIORITY_DEFAULT, closing_idle, g_object_ref(self), g_object_unref);
}

static void aq_engine_host_finalize(GObject *object)
{
    AqEngineHost *self = AQ_ENGINE_HOST(object);
    g_clear_pointer(&self->rt, aq_rt_free);
    g_mutex_clear(&self->rt_lock);
    g_ptr_array_unref(self->slots);
    g_free(self->cpu_path);
    g_free(self->parked);
    G_OBJECT_CLASS(aq_engine_host_parent_class)->finalize(object);
}

static void aq_engine_host_class_init(AqEngineHostClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_engine_host_finalize;
    GType type = G_TYPE_FROM_CLASS(klass);
    signal_changed =
        g_signal_new("changed", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_end_answers =
        g_signal_new("end-answers", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_failed = g_signal_new("failed", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                 G_TYPE_NONE, 2, G_TYPE_STRING, G_TYPE_STRING);
}

static void aq_engine_host_init(AqEngineHost *self)
{
    g_mutex_init(&self->rt_lock);
    self->slots = g_ptr_array_new();
}

AqEngineHost *aq_engine_host_new(const char *cpu_path)
{
    AqEngineHost *self = g_object_new(AQ_TYPE_ENGINE_HOST, NULL);
    self->cpu_path = g_strdup(cpu_path);
    return self;
}
