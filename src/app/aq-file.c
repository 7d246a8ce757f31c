/* SPDX-License-Identifier: Apache-2.0 */
/* A text file that goes with a question. What is no text is refused before it is shown anywhere. */
#include "aq-file.h"

#include <glib/gi18n.h>
#include <string.h>

#define NAME_CHARS 120
#define FENCE_MIN 3
/* Errors that say all in our words. */
#define AQ_FILE_REFUSED g_quark_from_static_string("aq-file-refused")

struct _AqFile {
    GObject parent;
    char *name, *text;
    gsize n;
};

G_DEFINE_FINAL_TYPE(AqFile, aq_file, G_TYPE_OBJECT)

static void aq_file_finalize(GObject *object)
{
    AqFile *self = AQ_FILE(object);
    g_free(self->name);
    g_free(self->text);
    G_OBJECT_CLASS(aq_file_parent_class)->finalize(object);
}

static void aq_file_class_init(AqFileClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_file_finalize;
}

static void aq_file_init(AqFile *self)
{
}

/* Marks that turn the direction of text around can make a name look like another. */
static gboolean turns(gunichar c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x2028 ||
           c == 0x2029;
}

static char *clean_name(const char *name)
{
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    GString *s = g_string_new(NULL);
    glong n = 0;
    for (const char *p = valid; *p && n < NAME_CHARS; p = g_utf8_next_char(p), n++) {
        gunichar c = g_utf8_get_char(p);
        g_string_append_unichar(s, g_unichar_iscntrl(c) || turns(c) ? ' ' : c);
    }
    return g_string_free(s, FALSE);
}

AqFile *aq_file_new(const char *name, const char *text, gsize n)
{
    AqFile *self = g_object_new(AQ_TYPE_FILE, NULL);
    self->name = clean_name(name);
    self->text = g_strndup(text, n);
    self->n = n;
    return self;
}

const char *aq_file_get_name(AqFile *self)
{
    return self->name;
}

const char *aq_file_get_text(AqFile *self, gsize *ret_n)
{
    if (ret_n)
        *ret_n = self->n;
    return self->text;
}

/* ---- from outside --------------------------------------------------------------------------- */

static void refuse_size(const char *name, guint64 n, GError **error)
{
    g_autofree char *size = g_format_size(n), *most = g_format_size(AQ_FILE_MAX_BYTES);
    if (n > AQ_FILE_MAX_BYTES + 1)
        /* Translators: file name, its size, the limit */
        g_set_error(error, AQ_FILE_REFUSED, 0,
                    _("“%s” has %s: at most %s can be attached. Attach a part of it."), name, size,
                    most);
    else
        g_set_error(error, AQ_FILE_REFUSED, 0,
                    _("“%s” has more than %s, which is the most that can be attached. Attach a "
                      "part of it."),
                    name, most);
}

AqFile *aq_file_check(const char *name, const char *bytes, gsize n, GError **error)
{
    g_autofree char *shown = clean_name(name);
    const char *bad;
    if (n > AQ_FILE_MAX_BYTES) {
        refuse_size(shown, n, error);
        return NULL;
    }
    if (n >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0)) {
        g_set_error(error, AQ_FILE_REFUSED, 0,
                    _("“%s” is text in UTF-16: save it as UTF-8 and attach that."), shown);
        return NULL;
    }
    if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3;
        n -= 3;
    }
    if (!n) {
        g_set_error(error, AQ_FILE_REFUSED, 0, _("“%s” is empty."), shown);
        return NULL;
    }
    if (memchr(bytes, 0, n)) {
        g_set_error(error, AQ_FILE_REFUSED, 0,
                    _("“%s” is not a text file: only text can be attached."), shown);
        return NULL;
    }
    if (!g_utf8_validate_len(bytes, n, &bad)) {
        g_set_error(error, AQ_FILE_REFUSED, 0,
                    /* Translators: file name, position of the first wrong byte */
                    _("“%s” is not text in UTF-8 (byte %" G_GSIZE_FORMAT
                      "): save it as UTF-8 and attach that."),
                    shown, (gsize)(bad - bytes));
        return NULL;
    }
    return aq_file_new(name, bytes, n);
}

/* Up to one byte more than is allowed: files of /proc have no size, and others grow. */
static AqFile *read_all(GFile *file, const char *name, GCancellable *cancellable, GError **error)
{
    g_autoptr(GFileInputStream) in = g_file_read(file, cancellable, error);
    g_autoptr(GByteArray) all = g_byte_array_new();
    if (!in)
        return NULL;
    while (all->len <= AQ_FILE_MAX_BYTES) {
        guint at = all->len, room = MIN(1u << 18, AQ_FILE_MAX_BYTES + 1 - at);
        g_byte_array_set_size(all, at + room);
        gssize got =
            g_input_stream_read(G_INPUT_STREAM(in), all->data + at, room, cancellable, error);
        g_byte_array_set_size(all, at + (guint)MAX(got, 0));
        if (got < 0)
            return NULL;
        if (got == 0)
            break;
    }
    return aq_file_check(name, all->len ? (const char *)all->data : "", all->len, error);
}

/* What the system says, for people. Takes the error; those of ours are good as they are. */
static GError *in_words(GError *error, const char *name)
{
    GError *said;
    if (error->domain == AQ_FILE_REFUSED ||
        g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return error;
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
        said = g_error_new(error->domain, error->code, _("“%s” is not there any more."), name);
    else if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED))
        said = g_error_new(error->domain, error->code,
                           _("“%s” may not be read: look at its permissions."), name);
    else
        /* Translators: file name, what the system says */
        said = g_error_new(error->domain, error->code, _("“%s” could not be read: %s"), name,
                           error->message);
    g_error_free(error);
    return said;
}

static void read_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    GFile *file = source;
    GError *error = NULL;
    AqFile *read = NULL;
    g_autofree char *base = g_file_get_basename(file);
    g_autofree char *raw = g_filename_display_name(base ? base : "?");
    g_autofree char *name = clean_name(raw);
    g_autoptr(GFileInfo) info =
        g_file_query_info(file, G_FILE_ATTRIBUTE_STANDARD_TYPE "," G_FILE_ATTRIBUTE_STANDARD_SIZE,
                          G_FILE_QUERY_INFO_NONE, cancellable, &error);
    GFileType type = info ? g_file_info_get_file_type(info) : G_FILE_TYPE_UNKNOWN;
    if (info && type == G_FILE_TYPE_DIRECTORY)
        error = g_error_new(AQ_FILE_REFUSED, 0,
                            _("“%s” is a folder: attach files of it one by one."), name);
    else if (info && type != G_FILE_TYPE_REGULAR)
        error = g_error_new(AQ_FILE_REFUSED, 0,
                            _("“%s” is not a text file: only text can be attached."), name);
    else if (info && g_file_info_get_size(info) > AQ_FILE_MAX_BYTES)
        refuse_size(name, (guint64)g_file_info_get_size(info), &error);
    else if (info)
        read = read_all(file, name, cancellable, &error);
    if (read) {
        g_task_return_pointer(task, read, g_object_unref);
        return;
    }
    g_task_return_error(task, in_words(error, name));
}

void aq_file_read_async(GFile *file, GCancellable *cancellable, GAsyncReadyCallback cb,
                        gpointer user)
{
    g_autoptr(GTask) task = g_task_new(file, cancellable, cb, user);
    g_task_run_in_thread(task, read_thread);
}

AqFile *aq_file_read_finish(GAsyncResult *result, GError **error)
{
    return g_task_propagate_pointer(G_TASK(result), error);
}

/* ---- for the model -------------------------------------------------------------------------- */

/* One backtick more than the longest run in the text, so that the fence ends where the file does. */
static guint fence_of(const char *text)
{
    guint longest = 0, run = 0;
    for (const char *p = text; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = MAX(longest, run);
    }
    return MAX(FENCE_MIN, longest + 1);
}

char *aq_files_to_prompt(GPtrArray *files, const char *text)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < files->len; i++) {
        const AqFile *file = files->pdata[i];
        g_autofree char *fence = g_strnfill(fence_of(file->text), '`');
        g_string_append_printf(s, "%s:\n%s\n", file->name, fence);
        g_string_append_len(s, file->text, (gssize)file->n);
        if (file->n && file->text[file->n - 1] != '\n')
            g_string_append_c(s, '\n');
        g_string_append_printf(s, "%s\n\n", fence);
    }
    g_string_append(s, text);
    if (files->len && !*text)
        g_string_truncate(s, s->len - 2);
    return g_string_free(s, FALSE);
}
