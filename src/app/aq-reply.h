/* SPDX-License-Identifier: Apache-2.0 */
/* An answer under way: the one reader of a request's ring. */
#pragma once

#include "aq-engine-host.h"
#include "aq-message.h"

G_BEGIN_DECLS

typedef struct _AqReply AqReply;

typedef struct {
    const char *messages_json; /* as the engine takes them */
    const char *vars_json;     /* variables of the template, or NULL */
    const char *continued;     /* what the answer already says, to go on from; "" = nothing */
    aq_sampling sampling;
    guint max_tok; /* 0 = to the end of the context */
} AqReplyIn;

/** Ask the engine of `slot` and write what it says into `message`, until its state is no longer running; then
 * ended(user) is called once, on the main thread. Never blocks: the prompt is made into tokens on a worker thread. */
AqReply *aq_reply_start(AqEngineSlot *slot, const AqReplyIn *in, AqMessage *message,
                        void (*ended)(gpointer user), gpointer user);
/** The answer ends soon, with what it has. */
void aq_reply_stop(AqReply *reply);
/** Let go: stops it if it runs; ended() does not come any more. */
void aq_reply_free(AqReply *reply);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AqReply, aq_reply_free)

G_END_DECLS
