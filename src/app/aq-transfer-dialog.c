/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import of chats.
 *
 *   main thread    the file is chosen; chats come from the store one by one
 *   worker         they become text and are written; or a file is read and parsed
 *   main thread    chats that were read are put into the store; what came of it is told */
#include "aq-transfer-dialog.h"

#include <adwaita.h>
#include <glib/gi18n.h>

#include "aq-transfer-target.h"
#include "aq-transfer.h"

#define NAME_CHARS 60

typedef struct {
    GtkWindow *window;
    AqChats *chats;
    GFile *file;
    gint64 only;       /* this chat alone, or 0 */
    GPtrArray *copies; /* of AqChatCopy */
    GPtrArray *left;   /* of AqStoreChat: still to be read from the store */
    guint n_lost;      /* chats that the store could not read */
    AqTransferKind kind;
    char *proposed; /* name that the dialog offers */
    AqTransferCb done;
} Transfer;

static void transfer_free(gpointer data)
{
    Transfer *t = data;
    g_clear_object(&t->window);
    g_clear_object(&t->chats);
    g_clear_object(&t->file);
    g_clear_pointer(&t->proposed, g_free);
    g_clear_pointer(&t->copies, g_ptr_array_unref);
    g_clear_pointer(&t->left, g_ptr_array_unref);
    g_free(t);
}

static Transfer *transfer_new(GtkWindow *window, AqChats *chats, AqTransferCb done)
{
    Transfer *t = g_new0(Transfer, 1);
    t->window = g_object_ref(window);
    t->chats = g_object_ref(chats);
    t->copies = g_ptr_array_new_with_free_func((GDestroyNotify)aq_chat_copy_free);
    t->done = done;
    return t;
}

/* The object that the store keeps alive for a callback. */
static GObject *holder(Transfer *t)
{
    GObject *object = g_object_new(G_TYPE_OBJECT, NULL);
    g_object_set_data_full(object, "transfer", t, transfer_free);
    return object;
}

static Transfer *held(GObject *object)
{
    return g_object_get_data(object, "transfer");
}

/* ---- export --------------------------------------------------------------------------------- */

static void write_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Transfer *t = held(data);
    GError *error = NULL;
    g_autofree char *text = t->kind == AQ_TRANSFER_MARKDOWN && t->copies->len
                                ? aq_transfer_markdown(t->copies->pdata[0])
                                : aq_transfer_json(t->copies);
    if (g_file_replace_contents(t->file, text, strlen(text), NULL, FALSE, G_FILE_CREATE_PRIVATE,
                                NULL, NULL, &error))
        g_task_return_boolean(task, TRUE);
    else
        g_task_return_error(task, error);
}

static void written(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(GObject) object = user;
    g_autoptr(GError) error = NULL;
    Transfer *t = held(object);
    gboolean good = g_task_propagate_boolean(G_TASK(result), &error);
    g_autofree char *name = g_file_get_parse_name(t->file);
    guint n = t->copies->len;
    g_autofree char *text =
        good ? g_strdup_printf(
                   ngettext("%u chat was written to %s", "%u chats were written to %s", n), n, name)
             : g_strdup_printf(_("%s could not be written: %s"), name, error->message);
    if (good && t->n_lost) {
        g_autofree char *lost =
            g_strdup_printf(ngettext("%u chat could not be read and is missing there",
                                     "%u chats could not be read and are missing there", t->n_lost),
                            t->n_lost);
        t->done(t->window, lost, FALSE);
        return;
    }
    t->done(t->window, text, good);
}

static void next_chat(GObject *object);

static void messages_read(GPtrArray *messages, GObject *object)
{
    Transfer *t = held(object);
    AqStoreChat *chat = g_ptr_array_steal_index(t->left, 0);
    if (messages) {
        g_ptr_array_add(t->copies, aq_chat_copy_new(chat, messages));
    } else {
        t->n_lost++;
        aq_store_chat_free(chat);
    }
    next_chat(object);
}

static void next_chat(GObject *object)
{
    Transfer *t = held(object);
    if (t->left->len) {
        const AqStoreChat *chat = t->left->pdata[0];
        aq_chat_store_messages(aq_chats_get_store(t->chats), chat->id, messages_read, object);
        return;
    }
    g_autoptr(GTask) task = g_task_new(NULL, NULL, written, g_object_ref(object));
    g_task_set_task_data(task, g_object_ref(object), g_object_unref);
    g_task_run_in_thread(task, write_thread);
}

static void chats_read(GPtrArray *list, GObject *object)
{
    Transfer *t = held(object);
    if (!list) {
        t->done(t->window, _("The chats could not be read"), FALSE);
        return;
    }
    t->left = list;
    for (guint i = list->len; i-- > 0;)
        if (t->only && ((const AqStoreChat *)list->pdata[i])->id != t->only)
            g_ptr_array_remove_index(list, i);
    next_chat(object);
}

static void begin(GObject *object)
{
    aq_chat_store_list(aq_chats_get_store(held(object)->chats), chats_read, object);
}

static void replace_answered(AdwAlertDialog *alert, const char *response, GObject *object)
{
    if (g_str_equal(response, "replace"))
        begin(object);
}

/* The dialog asked for the name that was written, not for the one with the ending behind it. */
static void target_known(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(GObject) object = user;
    Transfer *t = held(object);
    g_autoptr(GFileInfo) info = g_file_query_info_finish(G_FILE(source), result, NULL);
    if (!info) {
        begin(object);
        return;
    }
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(adw_alert_dialog_new(_("Replace File?"), NULL));
    adw_alert_dialog_format_body(alert, _("“%s” exists already. What is in it will be lost."),
                                 g_file_info_get_display_name(info));
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "replace", _("_Replace"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "replace", ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_signal_connect_data(alert, "response", G_CALLBACK(replace_answered), g_object_ref(object),
                          (GClosureNotify)(void (*)(void))g_object_unref, 0);
    adw_dialog_present(ADW_DIALOG(alert), GTK_WIDGET(t->window));
}

/* GtkFileDialog tells nobody which filter was chosen. The class that it took the place of does. */
G_GNUC_BEGIN_IGNORE_DEPRECATIONS

static AqTransferKind filter_kind(GtkFileChooser *chooser)
{
    GtkFileFilter *filter = gtk_file_chooser_get_filter(chooser);
    return filter && g_object_get_data(G_OBJECT(filter), "json") ? AQ_TRANSFER_JSON
                                                                 : AQ_TRANSFER_MARKDOWN;
}

static void export_chosen(GtkNativeDialog *dialog, int response, GObject *held_object)
{
    g_autoptr(GObject) object =
        g_object_ref(held_object); /* the dialog goes, and its own with it */
    Transfer *t = held(object);
    GtkFileChooser *chooser = GTK_FILE_CHOOSER(dialog);
    g_autoptr(GFile) chosen =
        response == GTK_RESPONSE_ACCEPT ? gtk_file_chooser_get_file(chooser) : NULL;
    t->kind = filter_kind(chooser);
    g_object_unref(dialog);
    if (!chosen)
        return;
    t->file = aq_transfer_target(chosen, t->proposed, t->only == 0, &t->kind);
    if (g_file_equal(t->file, chosen))
        begin(object);
    else
        g_file_query_info_async(t->file, G_FILE_ATTRIBUTE_STANDARD_DISPLAY_NAME,
                                G_FILE_QUERY_INFO_NONE, G_PRIORITY_DEFAULT, NULL, target_known,
                                g_object_ref(object));
}

static void add_kind(GtkFileChooser *chooser, const char *name, AqTransferKind kind)
{
    GtkFileFilter *filter = gtk_file_filter_new();
    gtk_file_filter_set_name(filter, name);
    gtk_file_filter_add_suffix(filter, kind == AQ_TRANSFER_JSON ? "json" : "md");
    if (kind == AQ_TRANSFER_JSON)
        g_object_set_data(G_OBJECT(filter), "json", filter);
    gtk_file_chooser_add_filter(chooser, filter);
    g_object_unref(filter);
}

static void choose_file(GObject *object)
{
    Transfer *t = held(object);
    GtkFileChooserNative *dialog =
        gtk_file_chooser_native_new(t->only ? _("Export Chat") : _("Export All Chats"), t->window,
                                    GTK_FILE_CHOOSER_ACTION_SAVE, NULL, NULL);
    if (t->only)
        add_kind(GTK_FILE_CHOOSER(dialog), _("Markdown (*.md)"), AQ_TRANSFER_MARKDOWN);
    add_kind(GTK_FILE_CHOOSER(dialog), _("JSON, to be imported (*.json)"), AQ_TRANSFER_JSON);
    gtk_native_dialog_set_modal(GTK_NATIVE_DIALOG(dialog), TRUE);
    gtk_file_chooser_set_current_name(GTK_FILE_CHOOSER(dialog), t->proposed);
    g_signal_connect_data(dialog, "response", G_CALLBACK(export_chosen), object,
                          (GClosureNotify)(void (*)(void))g_object_unref, 0);
    gtk_native_dialog_show(GTK_NATIVE_DIALOG(dialog));
}

G_GNUC_END_IGNORE_DEPRECATIONS

/* A title as the name of a file: no separators, no dot at its beginning, not too long. */
static char *file_name(const char *title, const char *end)
{
    GString *s = g_string_new(NULL);
    glong n = 0;
    for (const char *p = title; *p && n < NAME_CHARS; p = g_utf8_next_char(p), n++) {
        gunichar c = g_utf8_get_char(p);
        if (strchr("/\\:*?\"<>|", (int)(c < 0x80 ? c : 'x')) || (c == '.' && !s->len))
            g_string_append_c(s, '-');
        else
            g_string_append_unichar(s, c);
    }
    g_string_append(s, end);
    return g_string_free(s, FALSE);
}

static void add_filter(GListStore *filters, const char *name, const char *suffix)
{
    g_autoptr(GtkFileFilter) filter = gtk_file_filter_new();
    gtk_file_filter_set_name(filter, name);
    gtk_file_filter_add_suffix(filter, suffix);
    g_list_store_append(filters, filter);
}

void aq_transfer_export(GtkWindow *window, AqChats *chats, AqChat *chat, AqTransferCb done)
{
    g_return_if_fail(GTK_IS_WINDOW(window) && AQ_IS_CHATS(chats));
    Transfer *t = transfer_new(window, chats, done);
    t->only = chat ? aq_chat_get_id(chat) : 0;
    t->proposed = chat ? file_name(aq_chat_get_title(chat), ".md") : g_strdup("aquifer-chats.json");
    choose_file(holder(t));
}

/* ---- import --------------------------------------------------------------------------------- */

/* Sets an error whose message says what is wrong with the file. */
static GPtrArray *read_file(GFile *file, GError **error)
{
    g_autoptr(GFileInfo) info =
        g_file_query_info(file, G_FILE_ATTRIBUTE_STANDARD_TYPE "," G_FILE_ATTRIBUTE_STANDARD_SIZE,
                          G_FILE_QUERY_INFO_NONE, NULL, error);
    g_autofree char *text = NULL;
    GPtrArray *copies = NULL;
    gsize n;
    aq_err err = {0};
    if (!info)
        return NULL;
    if (g_file_info_get_file_type(info) != G_FILE_TYPE_REGULAR) { /* it might have no end */
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "%s", _("It is no file"));
        return NULL;
    }
    if (g_file_info_get_size(info) > (goffset)AQ_TRANSFER_MAX_BYTES) {
        g_autofree char *most = g_format_size(AQ_TRANSFER_MAX_BYTES);
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, _("It is larger than %s"), most);
        return NULL;
    }
    if (!g_file_load_contents(file, NULL, &text, &n, NULL, error))
        return NULL;
    if (aq_transfer_read(text, n, &copies, &err) < 0)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s", err.text);
    return copies;
}

static void read_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    GError *error = NULL;
    GPtrArray *copies = read_file(held(data)->file, &error);
    if (copies)
        g_task_return_pointer(task, copies, (GDestroyNotify)g_ptr_array_unref);
    else
        g_task_return_error(task, error);
}

static void file_read(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(GObject) object = user;
    g_autoptr(GError) error = NULL;
    Transfer *t = held(object);
    g_autoptr(GPtrArray) copies = g_task_propagate_pointer(G_TASK(result), &error);
    g_autofree char *name = g_file_get_parse_name(t->file), *text = NULL;
    if (copies) {
        guint n = aq_chats_import(t->chats, copies);
        text = g_strdup_printf(ngettext("%u chat was imported", "%u chats were imported", n), n);
    } else {
        /* Translators: file, a sentence that says what is wrong with it */
        text = g_strdup_printf(_("%s could not be imported: %s"), name, error->message);
    }
    t->done(t->window, text, copies != NULL);
}

static void import_chosen(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(GObject) object = user;
    Transfer *t = held(object);
    t->file = gtk_file_dialog_open_finish(GTK_FILE_DIALOG(source), result, NULL);
    if (!t->file)
        return;
    g_autoptr(GTask) task = g_task_new(NULL, NULL, file_read, g_object_ref(object));
    g_task_set_task_data(task, g_object_ref(object), g_object_unref);
    g_task_run_in_thread(task, read_thread);
}

void aq_transfer_import(GtkWindow *window, AqChats *chats, AqTransferCb done)
{
    g_return_if_fail(GTK_IS_WINDOW(window) && AQ_IS_CHATS(chats));
    g_autoptr(GtkFileDialog) dialog = gtk_file_dialog_new();
    g_autoptr(GListStore) filters = g_list_store_new(GTK_TYPE_FILE_FILTER);
    add_filter(filters, _("Chats (*.json)"), "json");
    gtk_file_dialog_set_title(dialog, _("Import Chats"));
    gtk_file_dialog_set_filters(dialog, G_LIST_MODEL(filters));
    gtk_file_dialog_open(dialog, window, NULL, import_chosen,
                         holder(transfer_new(window, chats, done)));
}
