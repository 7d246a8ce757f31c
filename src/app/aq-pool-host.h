/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where the window meets the pool: on or off, the PCs there are, pairing, a split. Main thread. */
#pragma once

#include "aq-engine-host.h"

G_BEGIN_DECLS

typedef enum {
    AQ_POWER_OFF, /* no socket, no mDNS, no thread of the pool */
    AQ_POWER_STARTING,
    AQ_POWER_ON,
    AQ_POWER_STOPPING,
} AqPower;

/** What a model needs at each cut. */
typedef struct {
    char *path;
    guint n_layer, cut; /* cut: by the memory of both PCs, 0 = none fits */
    char *short_of;     /* why not then, with numbers */
    guint64 free_here_bytes;
    guint64 *here_bytes, *there_bytes; /* [n_layer], by cut; 0 = it cannot be cut there */
    guint8 *cut_ok;                    /* [n_layer] */
} AqSplitFacts;

/** One second of a split: what its windows took. */
typedef struct {
    guint n_window;
    guint64 here_us, worker_us, net_us;
} AqSplitSample;
#define AQ_SPLIT_SAMPLES 60

#define AQ_TYPE_POOL_HOST (aq_pool_host_get_type())
G_DECLARE_FINAL_TYPE(AqPoolHost, aq_pool_host, AQ, POOL_HOST, GObject)

/* Signals: "changed" (anything that the getters tell); "told" (char *text: something could not be done, and why). */

/** state_dir: as of aq_trust_open, made when the Pool is turned on first. models, guide (may be NULL): where models for other PCs'
 * layers are looked for. */
AqPoolHost *aq_pool_host_new(AqEngineHost *engine, const char *state_dir, const char *models,
                             const char *guide);
/** Take the place that this PC had last. TRUE: a split is started, so that no other model need be loaded. */
gboolean aq_pool_host_start(AqPoolHost *self);
/** End all; the engine host waits for it. */
void aq_pool_host_close(AqPoolHost *self);

AqPower aq_pool_host_get_power(AqPoolHost *self);
const char *aq_pool_host_get_error(AqPoolHost *self); /* why it could not be turned on, or NULL */
const aq_seat_state *aq_pool_host_get_state(AqPoolHost *self); /* NULL unless ON */
const char *aq_pool_host_get_name(AqPoolHost *self);           /* of this PC; "" unless ON */
void aq_pool_host_turn_on(AqPoolHost *self);
void aq_pool_host_turn_off(AqPoolHost *self);
void aq_pool_host_rename(AqPoolHost *self, const char *name);
void aq_pool_host_listen(AqPoolHost *self, guint16 port); /* again; 0 = any port */
void aq_pool_host_ask(AqPoolHost *self);                  /* how the PCs are, now */

void aq_pool_host_pair(AqPoolHost *self, const aq_pc *pc);
void aq_pool_host_pair_answer(AqPoolHost *self, gboolean match);
void aq_pool_host_pair_end(AqPoolHost *self);
void aq_pool_host_add(AqPoolHost *self, const char *address);
void aq_pool_host_forget(AqPoolHost *self, const char *address);
void aq_pool_host_permit(AqPoolHost *self, const aq_id *id, guint32 perms);
void aq_pool_host_remove(AqPoolHost *self, const aq_id *id);
void aq_pool_host_leave(AqPoolHost *self);

/** The facts of a model file, for a split with pc; done(user) follows with them (borrowed), or with NULL and why. */
void aq_pool_host_look_at(AqPoolHost *self, const char *path, const aq_pc *pc,
                          void (*done)(gpointer user, const AqSplitFacts *facts, const char *why),
                          GObject *user);
/** rows: as of aq_split_cfg. */
void aq_pool_host_split(AqPoolHost *self, const aq_id *pc, const char *path, guint cut,
                        const char *rows);
void aq_pool_host_stop_split(AqPoolHost *self);
/** TRUE: a split is wanted; it runs, is started, or waits for its PC (get_split is FALSE then). */
gboolean aq_pool_host_wants_split(AqPoolHost *self);
const aq_err *
aq_pool_host_get_split_error(AqPoolHost *self); /* why it ended or did not start; code 0 = none */
const aq_mode *aq_pool_host_get_mode(AqPoolHost *self); /* which split is wanted */
gboolean aq_pool_host_get_split(AqPoolHost *self, aq_split_state *ret);
/** Seconds of the last minute in which windows were computed, oldest first; their number. */
guint aq_pool_host_get_samples(AqPoolHost *self, AqSplitSample ret[AQ_SPLIT_SAMPLES]);

G_END_DECLS
