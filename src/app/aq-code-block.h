/* SPDX-License-Identifier: Apache-2.0 */
/* Code in a message. Main thread. */
#pragma once

#include <adwaita.h>

#include "aq-find.h"

G_BEGIN_DECLS

#define AQ_TYPE_CODE_BLOCK (aq_code_block_get_type())
G_DECLARE_FINAL_TYPE(AqCodeBlock, aq_code_block, AQ, CODE_BLOCK, AdwBin)

AqCodeBlock *aq_code_block_new(void);
/** lang: what the fence says, or NULL. open: more may come; it is highlighted when that is over. */
void aq_code_block_set(AqCodeBlock *self, const char *code, const char *lang, gboolean open);
/** Put some of it into the view, which lays out each line; ret_n: bytes that were put. FALSE while there is more: call it in the next frame. */
gboolean aq_code_block_fill(AqCodeBlock *self, guint *ret_n);

/** Mark what is looked for; see aq-find-mark.h. find NULL: nothing. */
void aq_code_block_find(AqCodeBlock *self, const AqFind *find, int current);
/** The nth place, in the coordinates of the widget returned; NULL when it is not there. */
GtkWidget *aq_code_block_find_rect(AqCodeBlock *self, const AqFind *find, guint nth,
                                   graphene_rect_t *ret);

/** next has more of the same code: it has no head of its own, and what is done with self is done with both. */
void aq_code_block_go_on(AqCodeBlock *self, AqCodeBlock *next);

G_END_DECLS
