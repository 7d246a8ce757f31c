/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share and nobody else sees. */
#ifndef AQ_BASE_PRIV_H
#define AQ_BASE_PRIV_H

#include "aq/base.h"

/** Make s[0..n) fit for one line of text, in place: control characters become spaces, bytes that
 * are no UTF-8 become '?'. cut: the text was truncated, so an unfinished last character is
 * dropped. Writes the NUL (s[n] must exist); returns the length. */
size_t aq_text_clean(char *s, size_t n, bool cut);

/** False when n more bytes would pass the arena's limit, so that a NULL from it can be told apart
 * from out of memory. */
bool aq_arena_fits(const aq_arena *, size_t n);

#endif
