/* SPDX-License-Identifier: Apache-2.0 */
/* The model files that are on this PC, with their facts. Main thread. */
#pragma once

#include "aq-engine-host.h"

G_BEGIN_DECLS

typedef struct {
    char *title, *value;
} AqModelFact;

#define AQ_TYPE_MODEL_ITEM (aq_model_item_get_type())
G_DECLARE_FINAL_TYPE(AqModelItem, aq_model_item, AQ, MODEL_ITEM, GObject)
/* Never changes once made, so that other threads may read it. */
const char *aq_model_item_get_path(AqModelItem *self);
const char *aq_model_item_get_name(AqModelItem *self);
const char *
aq_model_item_get_line(AqModelItem *self); /* one line of facts, or why it cannot be used */
gboolean aq_model_item_get_usable(AqModelItem *self);
const AqModelFact *aq_model_item_get_facts(AqModelItem *self, guint *ret_n);
/** What info tells of the file at path. */
AqModelItem *aq_model_item_new(const char *path, const aq_model_info *info);
/** A file that cannot be used, and why. */
AqModelItem *aq_model_item_new_refused(const char *path, const char *why);

#define AQ_TYPE_MODEL_LIBRARY (aq_model_library_get_type())
G_DECLARE_FINAL_TYPE(AqModelLibrary, aq_model_library, AQ, MODEL_LIBRARY, GObject)
/** folder and guide may be NULL. */
AqModelLibrary *aq_model_library_new(AqEngineHost *host, const char *folder, const char *guide);
GListModel *aq_model_library_get_items(AqModelLibrary *self); /* of AqModelItem; borrowed */
/** A file elsewhere that was opened: it stays in the list. */
void aq_model_library_add_file(AqModelLibrary *self, const char *path);
/** Look again, on a worker thread; the list changes when that is done. */
void aq_model_library_refresh(AqModelLibrary *self);

G_END_DECLS
