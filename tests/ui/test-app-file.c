/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are attached: what is text is taken, all else is refused in words. */
#include <glib/gstdio.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aq-file.h"

static void refused(const char *name, const char *bytes, gsize n, const char *words)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(aq_file_check(name, bytes, n, &error));
    g_assert_nonnull(strstr(error->message, words));
}

static void test_check(void)
{
    static const char bom[] = "\xef\xbb\xbfh\xc3\xa9llo";
    g_autoptr(GError) error = NULL;
    gsize n;
    g_autoptr(AqFile) file = aq_file_check("a\tb\u202e.txt", bom, strlen(bom), &error);
    g_assert_no_error(error);
    g_assert_cmpstr(aq_file_get_name(file), ==, "a b .txt");
    g_assert_cmpstr(aq_file_get_text(file, &n), ==, "h\xc3\xa9llo");
    g_assert_cmpuint(n, ==, 6);
    refused("z.bin", "a\0b", 3, "“z.bin” is not a text file");
    refused("l1.txt", "caf\xe9", 4, "not text in UTF-8 (byte 3)");
    refused("u.txt", "\xff\xfeh\0", 4, "UTF-16");
    refused("e.txt", "", 0, "is empty");
    refused("e.txt", "\xef\xbb\xbf", 3, "is empty");
    g_autofree char *big = g_strnfill(AQ_FILE_MAX_BYTES + 1, 'x');
    refused("big.txt", big, AQ_FILE_MAX_BYTES + 1, "16.8");
    g_autoptr(AqFile) most = aq_file_check("most.txt", big, AQ_FILE_MAX_BYTES, &error);
    g_assert_no_error(error);
    g_assert_nonnull(most);
    g_autofree char *long_name = g_strnfill(5000, 'n');
    g_autoptr(AqFile) named = aq_file_check(long_name, "x", 1, NULL);
    g_assert_cmpuint(strlen(aq_file_get_name(named)), ==, 120);
    g_autoptr(AqFile) odd = aq_file_check("\xff.txt", "x", 1, NULL);
    g_assert_true(g_utf8_validate(aq_file_get_name(odd), -1, NULL));
}

typedef struct {
    AqFile *file;
    GError *error;
    gboolean done;
} Read;

static void on_read(GObject *source, GAsyncResult *result, gpointer user)
{
    Read *read = user;
    read->file = aq_file_read_finish(result, &read->error);
    read->done = TRUE;
}

/* NULL, and the words of the refusal in *ret_why (may be NULL), or the file. */
static AqFile *read_path(const char *path, char **ret_why)
{
    g_autoptr(GFile) file = g_file_new_for_path(path);
    Read read = {0};
    aq_file_read_async(file, NULL, on_read, &read);
    while (!read.done)
        g_main_context_iteration(NULL, TRUE);
    g_assert_true(!read.file == (read.error != NULL));
    if (ret_why)
        *ret_why = read.error ? g_strdup(read.error->message) : NULL;
    g_clear_error(&read.error);
    return read.file;
}

static void read_refused(const char *path, const char *words)
{
    g_autofree char *why = NULL;
    g_assert_null(read_path(path, &why));
    g_test_message("%s", why);
    g_assert_nonnull(strstr(why, words));
}

static void test_read(void)
{
    g_autofree char *dir = g_dir_make_tmp("aq-file-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(dir, "notes.txt", NULL),
                    *none = g_build_filename(dir, "none.txt", NULL),
                    *pipe = g_build_filename(dir, "pipe", NULL),
                    *huge = g_build_filename(dir, "huge.txt", NULL);
    g_autofree char *text = g_strnfill(700000, 't');
    gsize n;
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(AqFile) file = read_path(path, NULL);
    g_assert_cmpstr(aq_file_get_name(file), ==, "notes.txt");
    g_assert_cmpstr(aq_file_get_text(file, &n), ==, text);
    g_assert_cmpuint(n, ==, 700000);
    read_refused(dir, "is a folder");
    read_refused(none, "“none.txt” is not there any more");
    /* Opening a pipe would wait for whoever writes into it. */
    g_assert_cmpint(mkfifo(pipe, 0600), ==, 0);
    read_refused(pipe, "is not a text file");
    read_refused("/dev/zero", "is not a text file");
    g_assert_true(g_file_set_contents(huge, "x", -1, NULL));
    g_assert_cmpint(truncate(huge, 40000000), ==, 0);
    read_refused(huge, "“huge.txt” has 40.0");
    /* A file without a size is read as far as it goes. */
    g_autoptr(AqFile) status = read_path("/proc/self/status", NULL);
    g_assert_nonnull(strstr(aq_file_get_text(status, NULL), "VmRSS"));
    for (const char *const *p = (const char *const[]){path, pipe, huge, NULL}; *p; p++)
        g_assert_cmpint(g_remove(*p), ==, 0);
    g_assert_cmpint(g_rmdir(dir), ==, 0);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/file/check", test_check);
    g_test_add_func("/file/read", test_read);
    return g_test_run();
}
