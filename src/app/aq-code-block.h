/* SPDX-License-Identifier: Apache-2.0 */
/* Code in a message. Main thread. */
#pragma once

#include <adwaita.h>

G_BEGIN_DECLS

#define AQ_TYPE_CODE_BLOCK (aq_code_block_get_type())
G_DECLARE_FINAL_TYPE(AqCodeBlock, aq_code_block, AQ, CODE_BLOCK, AdwBin)

AqCodeBlock *aq_code_block_new(void);
/** lang: what the fence says, or NULL. open: more may come; it is highlighted when that is over. */
void aq_code_block_set(AqCodeBlock *self, const char *code, const char *lang, gboolean open);

G_END_DECLS
