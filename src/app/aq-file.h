/* SPDX-License-Identifier: Apache-2.0 */
/* A text file that goes with a question: its name and all of its text. It never changes, so any thread may read it. */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define AQ_FILE_MAX_BYTES (16u << 20)
#define AQ_FILES_MAX 20 /* of one question */

#define AQ_TYPE_FILE (aq_file_get_type())
G_DECLARE_FINAL_TYPE(AqFile, aq_file, AQ, FILE, GObject)

/** text: n bytes of UTF-8 without NUL, as from aq_file_check. Control characters in the name become spaces. */
AqFile *aq_file_new(const char *name, const char *text, gsize n);
const char *aq_file_get_name(AqFile *self);
const char *aq_file_get_text(AqFile *self, gsize *ret_n); /* ret_n may be NULL */

/** A file from bytes that come from outside. NULL and an error for people, which names the file, when they are too many or no UTF-8 text. */
AqFile *aq_file_check(const char *name, const char *bytes, gsize n, GError **error);
/** Read it on a worker thread. Errors, for people: as above, a folder, a device, what the system says. */
void aq_file_read_async(GFile *file, GCancellable *cancellable, GAsyncReadyCallback cb,
                        gpointer user);
AqFile *aq_file_read_finish(GAsyncResult *result, GError **error);

/** A question with its files (of AqFile) as a model reads it: each file by name in a fence of its own, then the text.
 * Free it. */
char *aq_files_to_prompt(GPtrArray *files, const char *text);

G_END_DECLS
