/* SPDX-License-Identifier: Apache-2.0 */
/* The model files that are on this PC. Headers are read on a worker thread, one file after the other, and only those of files that are
 * new or changed; the facts are kept as text and the model is let go, since a tokenizer alone takes tens of megabytes. */
#include "aq-model-library.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>

#include "aq-format.h"

#define FILES_MAX 1000 /* more are not listed */

struct _AqModelItem {
    GObject parent;
    char *path, *name, *line;
    gboolean usable;
    GArray *facts; /* of AqModelFact */
    gint64 size, mtime;
};

G_DEFINE_FINAL_TYPE(AqModelItem, aq_model_item, G_TYPE_OBJECT)

static void fact_clear(AqModelFact *fact)
{
    g_free(fact->title);
    g_free(fact->value);
}

static void aq_model_item_finalize(GObject *object)
{
    AqModelItem *self = AQ_MODEL_ITEM(object);
    g_free(self->path);
    g_free(self->name);
    g_free(self->line);
    g_array_unref(self->facts);
    G_OBJECT_CLASS(aq_model_item_parent_class)->finalize(object);
}

static void aq_model_item_class_init(AqModelItemClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_model_item_finalize;
}

static void aq_model_item_init(AqModelItem *self)
{
    self->facts = g_array_new(FALSE, FALSE, sizeof(AqModelFact));
    g_array_set_clear_func(self->facts, (GDestroyNotify)fact_clear);
}

static void add_fact(AqModelItem *self, const char *title, char *value)
{
    AqModelFact fact = {g_strdup(title), g_utf8_make_valid(value, -1)};
    g_array_append_val(self->facts, fact);
    g_free(value);
}

AqModelItem *aq_model_item_new(const char *path, const aq_model_info *info)
{
    AqModelItem *self = g_object_new(AQ_TYPE_MODEL_ITEM, NULL);
    self->path = g_strdup(path);
    self->name =
        info->name && *info->name ? g_utf8_make_valid(info->name, -1) : aq_format_file(path);
    self->usable = info->tok_refused == NULL;
    g_autofree char *line = self->usable ? aq_format_model_line(info) : g_strdup(info->tok_refused);
    self->line = g_utf8_make_valid(line, -1);

    add_fact(self, _("File"), g_filename_display_name(path));
    add_fact(self, _("Architecture"), g_strdup(info->arch));
    add_fact(self, _("Size"), aq_format_bytes(info->file_bytes));
    if (info->n_param)
        add_fact(self, _("Parameters"), aq_format_params(info->n_param));
    add_fact(self, _("Quantisation"), aq_format_types(info));
    add_fact(self, _("Context"), aq_format_tokens(info->n_ctx_train));
    add_fact(self, _("Layers"), g_strdup_printf("%u", info->n_layer));
    if (info->n_expert)
        add_fact(
            self, _("Experts per Layer"),
            g_strdup_printf(ngettext("%u, of which %u is used per token",
                                     "%u, of which %u are used per token", info->n_expert_used),
                            info->n_expert, info->n_expert_used));
    add_fact(self, _("Memory per Token of Context"), aq_format_bytes(info->kv_f16_bytes_tok));
    if (info->n_shard > 1)
        add_fact(self, _("Files"), g_strdup_printf("%u", info->n_shard));
    if (info->tmpl_refused)
        add_fact(self, _("Chat Template"), g_strdup(info->tmpl_refused));
    else if (!info->tmpl_src)
        add_fact(self, _("Chat Template"), g_strdup(_("None in the file: a plain one is used")));
    return self;
}

AqModelItem *aq_model_item_new_refused(const char *path, const char *why)
{
    AqModelItem *self = g_object_new(AQ_TYPE_MODEL_ITEM, NULL);
    self->path = g_strdup(path);
    self->name = aq_format_file(path);
    self->line = g_utf8_make_valid(why, -1);
    add_fact(self, _("File"), g_filename_display_name(path));
    return self;
}

const char *aq_model_item_get_path(AqModelItem *self)
{
    return self->path;
}

const char *aq_model_item_get_name(AqModelItem *self)
{
    return self->name;
}

const char *aq_model_item_get_line(AqModelItem *self)
{
    return self->line;
}

gboolean aq_model_item_get_usable(AqModelItem *self)
{
    return self->usable;
}

const AqModelFact *aq_model_item_get_facts(AqModelItem *self, guint *ret_n)
{
    *ret_n = self->facts->len;
    return (const AqModelFact *)(void *)self->facts->data;
}

/* ---- library -------------------------------------------------------------------------------- */

struct _AqModelLibrary {
    GObject parent;
    AqEngineHost *host;
    char *folder;
    GPtrArray *files; /* of char *: the guide and what was opened */
    GListStore *items;
    gboolean scanning, again;
};

G_DEFINE_FINAL_TYPE(AqModelLibrary, aq_model_library, G_TYPE_OBJECT)

/* A scan's own copies: nothing is shared with the main thread. */
typedef struct {
    AqEngineHost *host;
    char *folder;
    GPtrArray *files; /* of char * */
    GPtrArray *items; /* of AqModelItem: known before, then found */
} Scan;

static void scan_free(Scan *scan)
{
    g_object_unref(scan->host);
    g_free(scan->folder);
    g_ptr_array_unref(scan->files);
    g_ptr_array_unref(scan->items);
    g_free(scan);
}

/* Of "name-00002-of-00003.gguf" only the first is a model to choose. */
static gboolean is_later_shard(const char *name)
{
    static const char pattern[] = "-[0-9]{5}-of-[0-9]{5}\\.gguf$";
    return g_regex_match_simple(pattern, name, 0, 0) &&
           !g_regex_match_simple("-00001-of-[0-9]{5}\\.gguf$", name, 0, 0);
}

static int by_name(gconstpointer a, gconstpointer b)
{
    return g_strcmp0(*(const char *const *)a, *(const char *const *)b);
}

static void scan_folder(Scan *scan)
{
    g_autoptr(GDir) dir = scan->folder ? g_dir_open(scan->folder, 0, NULL) : NULL;
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(g_free);
    const char *name;
    while (dir && (name = g_dir_read_name(dir)) && found->len < FILES_MAX)
        if (g_str_has_suffix(name, ".gguf") && !is_later_shard(name))
            g_ptr_array_add(found, g_build_filename(scan->folder, name, NULL));
    g_ptr_array_sort(found, by_name);
    for (guint i = 0; i < found->len; i++)
        if (!g_ptr_array_find_with_equal_func(scan->files, found->pdata[i], g_str_equal, NULL))
            g_ptr_array_add(scan->files, g_strdup(found->pdata[i]));
}

static AqModelItem *find_known(GPtrArray *items, const char *path, const GStatBuf *st)
{
    for (guint i = 0; i < items->len; i++) {
        AqModelItem *item = items->pdata[i];
        if (g_str_equal(item->path, path) && item->size == st->st_size &&
            item->mtime == st->st_mtime)
            return g_object_ref(item);
    }
    return NULL;
}

static AqModelItem *read_item(Scan *scan, const char *path)
{
    aq_err err = {0};
    AQ_AUTO(aq_model_free) aq_model *model = NULL;
    if (aq_engine_host_inspect(scan->host, path, &model, &err) < 0)
        return aq_model_item_new_refused(path, err.text);
    return aq_model_item_new(path, aq_model_get_info(model));
}

static void scan_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Scan *scan = data;
    GPtrArray *found = g_ptr_array_new_with_free_func(g_object_unref);
    scan_folder(scan);
    for (guint i = 0; i < scan->files->len; i++) {
        const char *path = scan->files->pdata[i];
        GStatBuf st;
        if (g_stat(path, &st) != 0)
            continue;
        AqModelItem *item = find_known(scan->items, path, &st);
        if (!item) {
            item = read_item(scan, path);
            item->size = st.st_size;
            item->mtime = st.st_mtime;
        }
        g_ptr_array_add(found, item);
    }
    g_ptr_array_unref(scan->items);
    scan->items = found;
    g_task_return_boolean(task, TRUE);
}

static gboolean same_items(GListModel *model, GPtrArray *items)
{
    if (g_list_model_get_n_items(model) != items->len)
        return FALSE;
    for (guint i = 0; i < items->len; i++) {
        g_autoptr(GObject) item = g_list_model_get_item(model, i);
        if (item != items->pdata[i])
            return FALSE;
    }
    return TRUE;
}

static void scan_done(GObject *source, GAsyncResult *result, gpointer user)
{
    AqModelLibrary *self = AQ_MODEL_LIBRARY(source);
    Scan *scan = g_task_get_task_data(G_TASK(result));
    self->scanning = FALSE;
    if (!same_items(G_LIST_MODEL(self->items), scan->items))
        g_list_store_splice(self->items, 0, g_list_model_get_n_items(G_LIST_MODEL(self->items)),
                            scan->items->pdata, scan->items->len);
    aq_engine_host_release(self->host);
    if (self->again)
        aq_model_library_refresh(self);
}

void aq_model_library_refresh(AqModelLibrary *self)
{
    g_return_if_fail(AQ_IS_MODEL_LIBRARY(self));
    self->again = self->scanning;
    if (self->scanning)
        return;
    Scan *scan = g_new0(Scan, 1);
    scan->host = g_object_ref(self->host);
    scan->folder = g_strdup(self->folder);
    scan->files = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < self->files->len; i++)
        g_ptr_array_add(scan->files, g_strdup(self->files->pdata[i]));
    scan->items = g_ptr_array_new_with_free_func(g_object_unref);
    for (guint i = 0; i < g_list_model_get_n_items(G_LIST_MODEL(self->items)); i++)
        g_ptr_array_add(scan->items, g_list_model_get_item(G_LIST_MODEL(self->items), i));
    self->scanning = TRUE;
    aq_engine_host_hold(self->host);
    g_autoptr(GTask) task = g_task_new(self, NULL, scan_done, NULL);
    g_task_set_task_data(task, scan, (GDestroyNotify)scan_free);
    g_task_run_in_thread(task, scan_thread);
}

void aq_model_library_add_file(AqModelLibrary *self, const char *path)
{
    g_return_if_fail(AQ_IS_MODEL_LIBRARY(self) && path);
    if (g_ptr_array_find_with_equal_func(self->files, path, g_str_equal, NULL))
        return;
    g_ptr_array_add(self->files, g_strdup(path));
    aq_model_library_refresh(self);
}

GListModel *aq_model_library_get_items(AqModelLibrary *self)
{
    return G_LIST_MODEL(self->items);
}

static void aq_model_library_finalize(GObject *object)
{
    AqModelLibrary *self = AQ_MODEL_LIBRARY(object);
    g_object_unref(self->host);
    g_object_unref(self->items);
    g_ptr_array_unref(self->files);
    g_free(self->folder);
    G_OBJECT_CLASS(aq_model_library_parent_class)->finalize(object);
}

static void aq_model_library_class_init(AqModelLibraryClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_model_library_finalize;
}

static void aq_model_library_init(AqModelLibrary *self)
{
    self->items = g_list_store_new(AQ_TYPE_MODEL_ITEM);
    self->files = g_ptr_array_new_with_free_func(g_free);
}

AqModelLibrary *aq_model_library_new(AqEngineHost *host, const char *folder, const char *guide)
{
    AqModelLibrary *self = g_object_new(AQ_TYPE_MODEL_LIBRARY, NULL);
    self->host = g_object_ref(host);
    self->folder = g_strdup(folder);
    if (guide)
        g_ptr_array_add(self->files, g_strdup(guide));
    return self;
}
