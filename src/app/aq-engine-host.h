/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where the window meets the engine: which model is loaded, which is being loaded, what went wrong. */
#pragma once

#include <gio/gio.h>

#include "aq/pool.h"

G_BEGIN_DECLS

typedef enum {
    AQ_ENGINE_NONE,    /* no model is loaded */
    AQ_ENGINE_LOADING, /* an earlier model, if there is one, still answers */
    AQ_ENGINE_READY,
    AQ_ENGINE_ERROR, /* no model is loaded because the last load failed */
} AqEngineState;

/** A loaded model with its engine. Counted: an answer under way keeps it, and the last one to leave has it freed on a worker thread. */
typedef struct _AqEngineSlot AqEngineSlot;
AqEngineSlot *aq_engine_slot_ref(AqEngineSlot *slot);
void aq_engine_slot_unref(AqEngineSlot *slot); /* main thread */
aq_engine *aq_engine_slot_get_engine(AqEngineSlot *slot);
const aq_model *aq_engine_slot_get_model(AqEngineSlot *slot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AqEngineSlot, aq_engine_slot_unref)

#define AQ_TYPE_ENGINE_HOST (aq_engine_host_get_type())
G_DECLARE_FINAL_TYPE(AqEngineHost, aq_engine_host, AQ, ENGINE_HOST, GObject)
AqEngineHost *aq_engine_slot_get_host(AqEngineSlot *slot); /* while it is held */

/* Signals, on the main thread: "changed" (anything that the getters tell, progress too); "failed" (char *path, char *text: a load
 * failed; an earlier model is still there when aq_engine_host_can_answer()); "end-answers" (those under way stop, for the
 * engine goes). */

/** cpu_path: what the environment's AQ_CPU says, or NULL. */
AqEngineHost *aq_engine_host_new(const char *cpu_path);
/** The state of chats is kept in this folder, within a budget, so that they need not be read again after their pages were needed or after
 * a start. Before the first load. */
void aq_engine_host_set_parked(AqEngineHost *self, const char *dir);
/** A person deleted something: all that is kept there goes, and what was said so far is not written. */
void aq_engine_host_forget_parked(AqEngineHost *self);
/** Load a model beside the one that is there, which is let go when the new one answers (or before, when memory is short for both).
 * A load under way is cancelled first. */
void aq_engine_host_load(AqEngineHost *self, const char *path);
/** A model whose layers are spread over this PC and another. The seat stays until unused(user), on the main thread. */
typedef struct {
    aq_seat *seat;
    aq_id pc;
    guint cut; /* layers here, 0 = by the memory of both */
    const char *rows;
    void (*change_cb)(gpointer user); /* as in aq_split_cfg: any thread */
    void (*unused)(gpointer user);    /* once */
    gpointer user;
} AqSplitPlan;
/** As aq_engine_host_load, for a split. */
void aq_engine_host_load_split(AqEngineHost *self, const char *path, const AqSplitPlan *plan);
/** FALSE when the loaded model is on this PC alone. */
gboolean aq_engine_host_get_split(AqEngineHost *self, aq_split_state *ret,
                                  aq_engine_stats *ret_stats);
/** Let the model go; answers under way are stopped. */
void aq_engine_host_unload(AqEngineHost *self);
const aq_err *aq_engine_host_get_error(AqEngineHost *self); /* of the last load; code 0 = none */
/** The runtime, made at the first call. Any thread but the main one; the caller holds the host. */
int aq_engine_host_rt(AqEngineHost *self, aq_rt **ret, aq_err *err);
void aq_engine_host_cancel_load(AqEngineHost *self);
AqEngineState aq_engine_host_get_state(AqEngineHost *self);
gboolean aq_engine_host_can_answer(AqEngineHost *self);
AqEngineSlot *aq_engine_host_ref_slot(AqEngineHost *self);     /* NULL when no model is loaded */
const char *aq_engine_host_get_path(AqEngineHost *self);       /* of the loaded model, or NULL */
const char *aq_engine_host_get_model_name(AqEngineHost *self); /* or NULL */
const char *aq_engine_host_get_device(AqEngineHost *self); /* "CPU (avx2, 2 threads)", or NULL */
guint aq_engine_host_get_n_ctx(AqEngineHost *self);
/** The longest context that the loaded model was made for, in tokens; 0 when no model is loaded, or one whose context is not set here (a
 * split one). */
guint aq_engine_host_get_ctx_max(AqEngineHost *self);
/** Memory that one chat of so many tokens takes with the loaded model. */
guint64 aq_engine_host_ctx_bytes(AqEngineHost *self, guint n_ctx);
/** Whether memory is there to load the model again with such a context. *ret_need: what the context takes; *ret_free: what there is for it. */
gboolean aq_engine_host_ctx_fits(AqEngineHost *self, guint n_ctx, guint64 *ret_need,
                                 guint64 *ret_free);
/** Load the loaded model again, with another context. Answers under way go on. Not of a split one. */
void aq_engine_host_reload(AqEngineHost *self, guint n_ctx);
guint64 aq_engine_host_get_weight_bytes(AqEngineHost *self);
/** Whether the loaded model's template can be told not to think. */
gboolean aq_engine_host_has_thinking_switch(AqEngineHost *self);
const char *aq_engine_host_get_loading_path(AqEngineHost *self); /* NULL when nothing is loading */
void aq_engine_host_get_progress(AqEngineHost *self, guint64 *ret_done,
                                 guint64 *ret_total); /* bytes; total 0 = not known yet */
/** Read a model's header, for its facts. Any thread but the main one; blocks. The caller holds the host. */
int aq_engine_host_inspect(AqEngineHost *self, const char *path, aq_model **ret, aq_err *err);
/** While held, close() waits: for work on other threads that uses the host. Main thread. */
void aq_engine_host_hold(AqEngineHost *self);
void aq_engine_host_release(AqEngineHost *self);
/** Cancel loading, let the model go, and call done when nothing of the engine is left. */
void aq_engine_host_close(AqEngineHost *self, void (*done)(gpointer user), gpointer user);

G_END_DECLS
