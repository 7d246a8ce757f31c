/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool tells, as text for people. No display needed; any thread. */
#pragma once

#include <glib.h>

#include "aq/pool.h"

/** Why a PC cannot be used, by the code of the error: a title with its name, and what can be done (borrowed, may be ""). */
void aq_pool_words_trouble(int code, const char *name, char **ret_title, const char **ret_hint);
/** Whether a PC that was just paired can be called, and calls back on this port: what to open, or NULL. */
char *aq_pool_words_reach(const char *name, aq_reach out, aq_reach in, guint port);
/** Of PCs that have one name, each gets where it is (or the begin of its id) behind it; not this PC. */
void aq_pool_words_tell_apart(aq_seat_state *st);
