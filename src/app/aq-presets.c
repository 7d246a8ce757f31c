/* SPDX-License-Identifier: Apache-2.0 */
/* Presets.
 *
 *   {"version":1,"presets":[{"name":"…","settings":{"system":"…","temperature":0.2, …}}, …]}
 *
 * The file is small, written as a whole beside itself and renamed. Size and depth are limited before it is parsed; an entry that is no preset
 * is passed over, and a file that is no such list is set aside. */
#include "aq-presets.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <string.h>

#include "aq-json-read.h"

#define VERSION 1
#define FILE_MAX_BYTES (4u << 20)
#define DEPTH_MAX 4

struct _AqPreset {
    GObject parent;
    char *name;
    AqChatSettings settings;
    gboolean own;
};

struct _AqPresets {
    GObject parent;
    char *path;
    double temperature;
    GListStore *list;
    gboolean read, writing, again;
};

G_DEFINE_FINAL_TYPE(AqPreset, aq_preset, G_TYPE_OBJECT)
G_DEFINE_FINAL_TYPE(AqPresets, aq_presets, G_TYPE_OBJECT)

static guint signal_changed, signal_said;

/* ---- one ------------------------------------------------------------------------------------ */

static void aq_preset_finalize(GObject *object)
{
    AqPreset *self = AQ_PRESET(object);
    g_free(self->name);
    aq_chat_settings_clear(&self->settings);
    G_OBJECT_CLASS(aq_preset_parent_class)->finalize(object);
}

static void aq_preset_class_init(AqPresetClass *klass)
{
    G_OBJECT_CLASS(klass)->finalize = aq_preset_finalize;
}

static void aq_preset_init(AqPreset *self)
{
}

const char *aq_preset_get_name(AqPreset *self)
{
    return self->name;
}

const AqChatSettings *aq_preset_get_settings(AqPreset *self)
{
    return &self->settings;
}

gboolean aq_preset_is_own(AqPreset *self)
{
    return self->own;
}

static AqPreset *preset_new(const char *name, const AqChatSettings *settings, gboolean own)
{
    AqPreset *p = g_object_new(AQ_TYPE_PRESET, NULL);
    p->name = g_strdup(name);
    p->settings = *settings;
    p->settings.system = g_strdup(settings->system);
    p->settings.n_ctx = 0; /* of a chat, not of a way to be asked */
    p->own = own;
    return p;
}

/* ---- those that the program brings ---------------------------------------------------------- */

static void add_built_in(AqPresets *self, const char *name, const char *system, double temperature)
{
    AqChatSettings s;
    aq_chat_settings_init(&s, temperature);
    s.system = (char *)system;
    g_autoptr(AqPreset) p = preset_new(name, &s, FALSE);
    g_list_store_append(self->list, p);
}

static void add_all_built_in(AqPresets *self)
{
    add_built_in(self, _("Usual"), NULL, self->temperature);
    add_built_in(self, _("Exact"),
                 _("Answer exactly and briefly. Say so when something is not known."), 0.2);
    add_built_in(self, _("Creative"), NULL, 1.1);
    add_built_in(self, _("Programming"),
                 _("Help with programs: working code first, then at most a short explanation. Name "
                   "what was assumed."),
                 0.2);
    add_built_in(self, _("Proofreading"),
                 _("Correct spelling and grammar of the given text. Keep its meaning, tone and "
                   "layout. Answer with the corrected text alone."),
                 0.2);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* NULL when it is no name: nothing but white space, or too long. */
static char *clean_name(const char *name)
{
    g_autofree char *s = g_strdup(name ? name : "");
    for (char *p = s; *p; p++)
        if (g_ascii_iscntrl(*p))
            *p = ' ';
    g_strstrip(s);
    if (!*s || !g_utf8_validate(s, -1, NULL) || g_utf8_strlen(s, -1) > AQ_PRESET_NAME_CHARS)
        return NULL;
    return g_steal_pointer(&s);
}

static AqPreset *find(AqPresets *self, const char *name)
{
    g_autofree char *key = g_utf8_casefold(name, -1);
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqPreset) p = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        g_autofree char *other = g_utf8_casefold(p->name, -1);
        if (g_str_equal(key, other))
            return p; /* the list has it */
    }
    return NULL;
}

static int parse(AqPresets *self, const char *text, gsize n, aq_err *err)
{
    g_autoptr(JsonNode) root = NULL;
    int rc = aq_json_read(text, n, FILE_MAX_BYTES, DEPTH_MAX, &root, err);
    if (rc < 0)
        return rc;
    JsonObject *top = JSON_NODE_HOLDS_OBJECT(root) ? json_node_get_object(root) : NULL;
    JsonArray *all = top ? aq_member_array(top, "presets") : NULL;
    if (!all || aq_member_int(top, "version", 0) != VERSION)
        return aq_fail(err, AQ_E_FORMAT, "%s", _("It is no list of presets of this version"));
    guint have = 0;
    for (guint i = 0; i < json_array_get_length(all) && have < AQ_PRESETS_MAX; i++) {
        JsonObject *one = aq_element_object(all, i);
        JsonObject *settings = one ? aq_member_object(one, "settings") : NULL;
        g_autofree char *name = one ? clean_name(aq_member_string(one, "name")) : NULL;
        AqChatSettings s;
        if (!settings || !name || find(self, name))
            continue;
        aq_chat_settings_from_object(&s, settings, self->temperature);
        g_autoptr(AqPreset) p = preset_new(name, &s, TRUE);
        aq_chat_settings_clear(&s);
        g_list_store_append(self->list, p);
        have++;
    }
    return 0;
}

typedef struct {
    char *path, *text;
    gsize n;
    int error; /* errno, 0 = none */
    gboolean damaged;
} Work;

static void work_free(gpointer data)
{
    Work *w = data;
    g_free(w->path);
    g_free(w->text);
    g_free(w);
}

static GTask *work_new(AqPresets *self, GAsyncReadyCallback cb)
{
    Work *w = g_new0(Work, 1);
    GTask *task = g_task_new(self, NULL, cb, NULL);
    w->path = g_strdup(self->path);
    g_task_set_task_data(task, w, work_free);
    return task;
}

static void read_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Work *w = data;
    GStatBuf st;
    if (!w->path) /* they are kept nowhere */
        w->error = 0;
    else if (g_stat(w->path, &st) != 0)
        w->error = errno == ENOENT ? 0 : errno;
    else if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES)
        w->damaged = TRUE;
    else if (!g_file_get_contents(w->path, &w->text, &w->n, NULL))
        w->error = EIO;
    g_task_return_boolean(task, TRUE);
}

/* For people; what was there stays under another name. */
static void set_aside(AqPresets *self)
{
    g_autofree char *to = g_strdup_printf("%s.damaged-%" G_GINT64_FORMAT, self->path,
                                          g_get_real_time() / G_USEC_PER_SEC);
    gboolean moved = g_rename(self->path, to) == 0;
    g_autofree char *shown = g_filename_display_name(moved ? to : self->path);
    g_autofree char *text =
        g_strdup_printf(moved ? _("The file of presets could not be read. It was kept as %s.")
                              : _("The file of presets could not be read and is not touched: %s"),
                        shown);
    if (!moved)
        g_clear_pointer(&self->path, g_free); /* nothing is written over it */
    g_signal_emit(self, signal_said, 0, text);
}

static void was_read(GObject *source, GAsyncResult *result, gpointer user)
{
    AqPresets *self = AQ_PRESETS(source);
    Work *w = g_task_get_task_data(G_TASK(result));
    aq_err err;
    self->read = TRUE;
    if (w->damaged || w->error || (w->text && parse(self, w->text, w->n, &err) < 0))
        set_aside(self);
    g_signal_emit(self, signal_changed, 0);
}

static char *to_json(AqPresets *self)
{
    g_autoptr(JsonArray) all = json_array_new();
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->list));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqPreset) p = g_list_model_get_item(G_LIST_MODEL(self->list), i);
        if (!p->own)
            continue;
        JsonObject *one = json_object_new();
        json_object_set_string_member(one, "name", p->name);
        json_object_set_object_member(one, "settings", aq_chat_settings_to_object(&p->settings));
        json_array_add_object_element(all, one);
    }
    g_autoptr(JsonObject) top = json_object_new();
    json_object_set_int_member(top, "version", VERSION);
    json_object_set_array_member(top, "presets", g_steal_pointer(&all));
    g_autoptr(JsonNode) root = json_node_new(JSON_NODE_OBJECT);
    json_node_set_object(root, top);
    return json_to_string(root, TRUE);
}

static void write_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
    Work *w = data;
    GError *error = NULL;
    g_autofree char *dir = g_path_get_dirname(w->path);
    if (aq_failpoint("presets.write"))
        error = g_error_new(G_FILE_ERROR, G_FILE_ERROR_NOSPC, "%s", g_strerror(ENOSPC));
    else if (g_mkdir_with_parents(dir, 0700) != 0)
        error = g_error_new(G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s", g_strerror(errno));
    else
        g_file_set_contents_full(w->path, w->text, (gssize)w->n, G_FILE_SET_CONTENTS_CONSISTENT,
                                 0600, &error);
    if (error)
        g_task_return_error(task, error);
    else
        g_task_return_boolean(task, TRUE);
}

static void put(AqPresets *self);

static void was_written(GObject *source, GAsyncResult *result, gpointer user)
{
    AqPresets *self = AQ_PRESETS(source);
    g_autoptr(GError) error = NULL;
    self->writing = FALSE;
    if (!g_task_propagate_boolean(G_TASK(result), &error)) {
        /* Translators: what the system says */
        g_autofree char *text = g_strdup_printf(_("Presets were not saved: %s"), error->message);
        g_signal_emit(self, signal_said, 0, text);
    }
    if (self->again)
        put(self);
}

/* One write at a time, of the newest state. */
static void put(AqPresets *self)
{
    g_signal_emit(self, signal_changed, 0);
    self->again = self->writing;
    if (self->writing || !self->path)
        return;
    g_autoptr(GTask) task = work_new(self, was_written);
    Work *w = g_task_get_task_data(task);
    w->text = to_json(self);
    w->n = strlen(w->text);
    self->writing = TRUE;
    g_task_run_in_thread(task, write_thread);
}

/* ---- for the user --------------------------------------------------------------------------- */

gboolean aq_presets_get_read(AqPresets *self)
{
    return self->read;
}

GListModel *aq_presets_get_list(AqPresets *self)
{
    return G_LIST_MODEL(self->list);
}

/* The name as it is kept, or NULL with the reason. besides: one that may have it. */
static char *name_for(AqPresets *self, const char *name, AqPreset *besides, const char **ret_why)
{
    g_autofree char *clean = clean_name(name);
    AqPreset *there = clean ? find(self, clean) : NULL;
    *ret_why = NULL;
    if (!self->read)
        *ret_why = _("The presets are still being read");
    else if (!clean)
        *ret_why = _("A name has 1 to 60 characters");
    else if (there && !there->own)
        *ret_why = _("A preset of the program has that name");
    else if (there && besides && there != besides)
        *ret_why = _("Another preset has that name");
    return *ret_why ? NULL : g_steal_pointer(&clean);
}

static void replace(AqPresets *self, AqPreset *old, AqPreset *by)
{
    guint at;
    if (old && g_list_store_find(self->list, old, &at))
        g_list_store_splice(self->list, at, 1, (gpointer *)&by, by ? 1 : 0);
    else if (by)
        g_list_store_append(self->list, by);
    put(self);
}

gboolean aq_presets_save(AqPresets *self, const char *name, const AqChatSettings *settings,
                         const char **ret_why)
{
    g_autofree char *clean = name_for(self, name, NULL, ret_why);
    AqPreset *there = clean ? find(self, clean) : NULL;
    if (!clean)
        return FALSE;
    if (!there && g_list_model_get_n_items(G_LIST_MODEL(self->list)) >= AQ_PRESETS_MAX) {
        *ret_why = _("There are too many presets: delete one first");
        return FALSE;
    }
    g_autoptr(AqPreset) p = preset_new(clean, settings, TRUE);
    replace(self, there, p);
    return TRUE;
}

gboolean aq_presets_rename(AqPresets *self, AqPreset *preset, const char *name,
                           const char **ret_why)
{
    g_autofree char *clean = name_for(self, name, preset, ret_why);
    if (!clean || !preset->own)
        return FALSE;
    g_autoptr(AqPreset) p = preset_new(clean, &preset->settings, TRUE);
    replace(self, preset, p);
    return TRUE;
}

void aq_presets_remove(AqPresets *self, AqPreset *preset)
{
    if (preset->own)
        replace(self, preset, NULL);
}

static void aq_presets_finalize(GObject *object)
{
    AqPresets *self = AQ_PRESETS(object);
    g_free(self->path);
    g_object_unref(self->list);
    G_OBJECT_CLASS(aq_presets_parent_class)->finalize(object);
}

static void aq_presets_class_init(AqPresetsClass *klass)
{
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = aq_presets_finalize;
    signal_changed =
        g_signal_new("changed", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_said = g_signal_new("said", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 1,
                               G_TYPE_STRING);
}

static void aq_presets_init(AqPresets *self)
{
    self->list = g_list_store_new(AQ_TYPE_PRESET);
}

AqPresets *aq_presets_new(const char *path, double usual_temperature)
{
    AqPresets *self = g_object_new(AQ_TYPE_PRESETS, NULL);
    self->path = g_strdup(path);
    self->temperature = usual_temperature;
    add_all_built_in(self);
    g_autoptr(GTask) task = work_new(self, was_read);
    g_task_run_in_thread(task, read_thread);
    return self;
}
