/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown of a message as a flat list of blocks that a widget each can show. No display needed; any thread. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum {
    AQ_MD_TEXT, /* a paragraph, a heading, the text of a list item */
    AQ_MD_CODE,
    AQ_MD_TABLE,
    AQ_MD_RULE,
} AqMdKind;

typedef struct {
    AqMdKind kind;
    guint8 heading; /* 1 to 6; 0 = none */
    guint8 quote, list;
    char marker[16];  /* of a list item that begins here: "•", "12."; else "" */
    char *text;       /* TEXT: Pango markup. CODE: its text. TABLE: NULL */
    char *lang;       /* CODE: what the fence says, or NULL */
    gboolean open;    /* CODE: the fence may not be closed yet */
    gboolean goes_on; /* CODE: what the block before it began */
    guint n_col;      /* TABLE */
    GPtrArray *cells; /* TABLE: of Pango markup, [row][n_col]; the first row is the head */
    guint8 *align;    /* TABLE: [n_col] 0 left, 1 centre, 2 right */
} AqMdBlock;

#define AQ_MD_DEPTH_MAX 8   /* of quotes and of lists; deeper ones are shown at this depth */
#define AQ_MD_COLS_MAX 16   /* a wider table is shown as its source */
#define AQ_MD_CELLS_MAX 400 /* a larger one, too */
#define AQ_MD_CODE_LINES \
    200 /* of one block of code: a text view draws all of them, and keeps the layout of 250 */
#define AQ_MD_TEXT_BYTES 2000  /* of one block's text, about: laying out a long label takes long */
#define AQ_MD_PART_BYTES 16384 /* of one part, about */

void aq_md_block_free(AqMdBlock *block);
gboolean aq_md_block_equal(const AqMdBlock *a, const AqMdBlock *b);

/** Where the part of the text that starts at `from` ends: at a place where what follows reads the same on its own. Only the last part
 * changes as text is added; so that is parsed again, and the earlier ones are not. Returns n while the part may still grow. */
gsize aq_md_part_end(const char *text, gsize n, gsize from, const char *fence);
/** The fence that is open at the end of [from, end), as "```lang\n"; NULL = none. Free it. */
char *aq_md_part_fence(const char *text, gsize from, gsize end, const char *fence);
/** The blocks of a part; of AqMdBlock. fence: that was open before it, or NULL. running: the text still grows. */
GPtrArray *aq_md_parse(const char *text, gsize n, const char *fence, gboolean running);
/** The blocks of a text that is no Markdown: what the user wrote. */
GPtrArray *aq_md_plain(const char *text, gsize n);
/** Where a part of such a text ends: behind a few blocks. */
gsize aq_md_plain_end(const char *text, gsize n, gsize from);
/** Text as Pango markup: control characters and those that turn the direction of text around are left out. Free it. */
char *aq_md_escape(const char *text, gsize n);
/** The text of markup that this file wrote. Free it. */
char *aq_md_unmark(const char *markup);
/** Whether a link may be offered: http, https and mailto. */
gboolean aq_md_link_allowed(const char *uri);

G_END_DECLS
