/* SPDX-License-Identifier: Apache-2.0 */
/* A text to look for in what messages show: without regard to case and accents; white space is white space. No display needed; any thread. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define AQ_FIND_MAX 10000 /* places that are counted in one chat */

typedef struct AqFind AqFind;

typedef struct {
    guint block, nth; /* the nth place in a block of the message's text, from 0 */
} AqFindPlace;

/** NULL when there is nothing to look for. */
AqFind *aq_find_new(const char *text);
AqFind *aq_find_ref(AqFind *self);
void aq_find_unref(AqFind *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AqFind, aq_find_unref)

/** The next place at or behind *at, a byte of the text: its start in *at, its bytes in *ret_n. FALSE: there is none. */
gboolean aq_find_next(const AqFind *self, const char *text, gsize *at, gsize *ret_n);

/** How far a text was gone through; all zero at its beginning. */
typedef struct {
    gsize at;    /* bytes */
    guint block; /* that begins there */
    char *fence; /* that is open there, or NULL */
} AqFindAt;
void aq_find_at_clear(AqFindAt *at);

/** Add the places in the next part of a message's text, by the blocks that aq_md_parse or (plain) aq_md_plain makes of it, as long as there are
 * less than max. TRUE: there is more to go through. */
gboolean aq_find_part(const AqFind *self, const char *text, gsize n, gboolean plain, guint max,
                      AqFindAt *at, GArray *ret);
/** All parts of it. */
void aq_find_places(const AqFind *self, const char *text, gsize n, gboolean plain, guint max,
                    GArray *ret);

G_END_DECLS
