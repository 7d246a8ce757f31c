/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and lists as text for people. No display needed; any thread. */
#pragma once

#include <glib.h>

#include "aq/engine.h"

/** "12.3 MB", decimal units as file managers use them. */
char *aq_format_bytes(guint64 n_bytes);
/** "135 million parameters", "30.5 billion parameters". */
char *aq_format_params(guint64 n_param);
/** "1,234 tokens" in the user's locale. */
char *aq_format_tokens(guint64 n_tok);
/** One line on what a model is: architecture, size, quantisation, context. */
char *aq_format_model_line(const aq_model_info *info);
/** "Q8_0, F32": the quant types of a model, most bytes first. */
char *aq_format_types(const aq_model_info *info);
/** "21.4 tok/s · first token after 0.3 s · 120 tokens"; parts that are not known are left out. */
char *aq_format_usage(const aq_usage *usage);
/** The first words of a message, on one line, for the list of chats; NULL when there are none. */
char *aq_format_title(const char *text);
/** A model's file name without folder and ending. */
char *aq_format_file(const char *path);
