/* SPDX-License-Identifier: Apache-2.0 */
/* The program: options, actions, and what lives as long as it does (engine host, library, settings).
 *
 * Closing the window ends the program only when the engine is gone: loading is cancelled, answers are stopped, memory is freed on a worker
 * thread, and until then the application is held. */
#include "aq-application.h"

#include <glib/gi18n.h>

#include "aq-engine-host.h"
#include "aq-loop-meter.h"
#include "aq-model-library.h"
#include "aq-paths.h"
#include "aq-shortcuts.h"
#include "aq-shot.h"
#include "aq-welcome.h"
#include "aq-window.h"

struct _AqApplication {
    AdwApplication parent;
    AqEngineHost *host;
    AqModelLibrary *library;
    AqChats *chats;
    AqPoolHost *pool;
    gboolean pool_splits; /* it starts one */
    GSettings *settings;
    gboolean
        stands_in; /* the guide model, for the last one: that one may be on a drive that comes back */
    char *ask;     /* once the model is there */
    char *chats_file; /* instead of the usual one, or NULL */
    double temperature;
    int status;
};

G_DEFINE_FINAL_TYPE(AqApplication, aq_application, ADW_TYPE_APPLICATION)

static const char *const page_names[] = {"chat", "models", "pool", "api", "welcome"};

int aq_application_get_status(AqApplication *self)
{
    return self->status;
}

static AqWindow *window_of(AqApplication *self)
{
    GList *windows = gtk_application_get_windows(GTK_APPLICATION(self));
    return windows ? AQ_WINDOW(windows->data) : NULL;
}

/* ---- models --------------------------------------------------------------------------------- */

static void open_path(AqApplication *self, const char *path)
{
    aq_model_library_add_file(self->library, path);
    aq_engine_host_load(self->host, path);
}

/* What was used last, else the guide model; unless the pool takes up a split of before. */
static void open_first(AqApplication *self)
{
    if (self->pool_splits)
        return;
    g_autofree char *last =
        self->settings ? g_settings_get_string(self->settings, "last-model") : NULL;
    const char *guide = aq_paths_guide();
    gboolean gone = last && *last && !g_file_test(last, G_FILE_TEST_IS_REGULAR);
    if (last && *last && !gone)
        open_path(self, last);
    else if (guide)
        aq_engine_host_load(self->host, guide);
    self->stands_in = gone;
    if (gone) {
        g_autofree char *shown = g_filename_display_name(last);
        g_autofree char *text =
            g_strdup_printf(_("%s was used last and is no longer there."), shown);
        aq_window_tell(window_of(self), text);
    }
}

static void on_host_changed(AqApplication *self)
{
    if (aq_engine_host_get_state(self->host) != AQ_ENGINE_READY)
        return;
    const char *path = aq_engine_host_get_path(self->host);
    if (self->settings) {
        /* The guide model is what is taken when nothing is set, wherever it is installed. A name that is not UTF-8 cannot be kept. */
        gboolean guide = g_strcmp0(path, aq_paths_guide()) == 0;
        self->stands_in = self->stands_in && guide;
        if (!self->stands_in && (guide || g_utf8_validate(path, -1, NULL)))
            g_settings_set_string(self->settings, "last-model", guide ? "" : path);
    }
    if (self->ask && window_of(self)) {
        g_autofree char *ask = g_steal_pointer(&self->ask);
        aq_window_ask(window_of(self), ask);
    }
}

static void open_done(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(AqApplication) self = user;
    g_autoptr(GError) error = NULL;
    g_autoptr(GFile) file = gtk_file_dialog_open_finish(GTK_FILE_DIALOG(source), result, &error);
    g_autofree char *path = file ? g_file_get_path(file) : NULL;
    if (path)
        open_path(self, path);
    else if (file && window_of(self))
        aq_window_tell(window_of(self), _("Only files on this PC can be opened."));
}

static void open_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    AqApplication *self = user;
    g_autoptr(GtkFileDialog) dialog = gtk_file_dialog_new();
    g_autoptr(GtkFileFilter) filter = gtk_file_filter_new(), all = gtk_file_filter_new();
    g_autoptr(GListStore) filters = g_list_store_new(GTK_TYPE_FILE_FILTER);
    g_autoptr(GFile) folder = g_file_new_for_path(aq_paths_models());

    gtk_file_filter_set_name(filter, _("GGUF models"));
    gtk_file_filter_add_suffix(filter, "gguf");
    gtk_file_filter_set_name(all, _("All files"));
    gtk_file_filter_add_pattern(all, "*");
    g_list_store_append(filters, filter);
    g_list_store_append(filters, all);
    gtk_file_dialog_set_title(dialog, _("Open a Model"));
    gtk_file_dialog_set_filters(dialog, G_LIST_MODEL(filters));
    if (g_file_test(aq_paths_models(), G_FILE_TEST_IS_DIR))
        gtk_file_dialog_set_initial_folder(dialog, folder);
    gtk_file_dialog_open(dialog, GTK_WINDOW(window_of(self)), NULL, open_done, g_object_ref(self));
}

/* ---- other actions -------------------------------------------------------------------------- */

static void new_chat_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    if (window_of(user))
        aq_window_new_chat(window_of(user));
}

/* Of a notification. */
static void show_chat_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    g_application_activate(G_APPLICATION(user));
    if (window_of(user))
        aq_window_show_chat(window_of(user), g_variant_get_int64(parameter));
}

static void shortcuts_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    if (window_of(user))
        aq_shortcuts_present(GTK_WIDGET(window_of(user)));
}

static void about_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    AdwDialog *dialog = adw_about_dialog_new();
    g_object_set(dialog, "application-name", _("Aquifer"), "application-icon",
                 "io.github.aquiferpool.Aquifer", "version", AQ_VERSION, "developer-name",
                 _("The Aquifer authors"), "license-type", GTK_LICENSE_APACHE_2_0, "comments",
                 _("Chat with language models that run on this PC"), "website",
                 "https://github.com/aquiferpool/aquifer", NULL);
    adw_dialog_present(dialog, GTK_WIDGET(window_of(user)));
}

static void quit_action(GSimpleAction *action, GVariant *parameter, gpointer user)
{
    if (window_of(user))
        gtk_window_close(GTK_WINDOW(window_of(user)));
}

/* ---- window --------------------------------------------------------------------------------- */

/* The engine is gone, or the chats are written. */
static void part_closed(gpointer user)
{
    g_application_release(user);
    g_object_unref(user);
}

static void aq_application_window_removed(GtkApplication *app, GtkWindow *window)
{
    AqApplication *self = AQ_APPLICATION(app);
    if (AQ_IS_WINDOW(window) && self->host) {
        g_application_hold(G_APPLICATION(app));
        g_signal_handlers_disconnect_by_data(self->host, self);
        g_application_hold(G_APPLICATION(app));
        aq_pool_host_close(self->pool);
        g_clear_object(&self->pool);
        aq_chats_close(self->chats, part_closed, g_object_ref(app));
        aq_engine_host_close(self->host, part_closed, g_object_ref(app));
        g_clear_object(&self->chats);
        g_clear_object(&self->library);
        g_clear_object(&self->host);
    }
    GTK_APPLICATION_CLASS(aq_application_parent_class)->window_removed(app, window);
}

static void on_welcome_guide(AqApplication *self)
{
    AqWindow *window = window_of(self);
    const char *guide = aq_paths_guide(), *loading = aq_engine_host_get_loading_path(self->host);
    if (!window)
        return;
    /* At a first start it is there or being loaded already. */
    if (g_strcmp0(loading ? loading : aq_engine_host_get_path(self->host), guide) != 0)
        aq_engine_host_load(self->host, guide);
    aq_window_new_chat(window);
}

static void welcome(AqApplication *self)
{
    AqWelcome *page = aq_welcome_new(aq_paths_guide() != NULL);
    g_signal_connect_object(page, "guide", G_CALLBACK(on_welcome_guide), self, G_CONNECT_SWAPPED);
    adw_dialog_present(ADW_DIALOG(page), GTK_WIDGET(window_of(self)));
}

/* The window, made on the first call. */
static AqWindow *present(AqApplication *self, gboolean keep_chats, gboolean *ret_made)
{
    AqWindow *window = window_of(self);
    *ret_made = window == NULL;
    if (!window) {
        self->host = aq_engine_host_new(aq_paths_cpu());
        if (keep_chats || self->chats_file)
            aq_engine_host_set_parked(self->host, aq_paths_parked());
        self->library = aq_model_library_new(self->host, aq_paths_models(), aq_paths_guide());
        g_signal_connect_swapped(self->host, "changed", G_CALLBACK(on_host_changed), self);
        const char *file = self->chats_file ? self->chats_file : aq_paths_chats();
        g_autoptr(AqChatStore) store =
            aq_chat_store_new(keep_chats || self->chats_file ? file : NULL);
        self->chats = aq_chats_new(self->host, store, self->temperature);
        window = aq_window_new(GTK_APPLICATION(self), self->host, self->library, self->chats,
                               self->settings, aq_paths_models());
        self->pool =
            aq_pool_host_new(self->host, aq_paths_pool(), aq_paths_models(), aq_paths_guide());
        aq_window_set_pool(window, self->pool, self->library);
        self->pool_splits = aq_pool_host_start(self->pool);
    }
    return window;
}

static void aq_application_activate(GApplication *app)
{
    AqApplication *self = AQ_APPLICATION(app);
    gboolean made;
    AqWindow *window = present(self, TRUE, &made);
    if (made)
        open_first(self);
    gtk_window_present(GTK_WINDOW(window));
    if (made && aq_welcome_due(self->settings))
        welcome(self);
}

static void aq_application_open(GApplication *app, GFile **files, int n_files, const char *hint)
{
    AqApplication *self = AQ_APPLICATION(app);
    gboolean made;
    AqWindow *window = present(self, TRUE, &made);
    g_autofree char *path = n_files > 0 ? g_file_get_path(files[0]) : NULL;
    if (path)
        open_path(self, path);
    gtk_window_present(GTK_WINDOW(window));
}

/* ---- options -------------------------------------------------------------------------------- */

static const GOptionEntry options[] = {
    {"model", 'm', 0, G_OPTION_ARG_FILENAME, NULL, N_("Load this GGUF file"), N_("FILE")},
    {"ask", 0, 0, G_OPTION_ARG_STRING, NULL, N_("Ask this once the model is loaded"), N_("TEXT")},
    {"temp", 0, 0, G_OPTION_ARG_STRING, NULL, N_("Temperature of this run, 0 to 2"), N_("NUMBER")},
    {"shot", 0, 0, G_OPTION_ARG_STRING, NULL,
     N_("Make a picture of a page (chat, models, pool, api or welcome) and end"), N_("PAGE")},
    {"shot-file", 0, 0, G_OPTION_ARG_FILENAME, NULL, N_("File for the picture"), N_("FILE")},
    {"shot-look", 0, 0, G_OPTION_ARG_STRING, NULL,
     N_("How the picture looks: dark, rtl, large, with commas between"), N_("LOOK")},
    {"size", 0, 0, G_OPTION_ARG_STRING, NULL, N_("Size of the window in this run"),
     N_("WIDTHxHEIGHT")},
    {"no-welcome", 0, 0, G_OPTION_ARG_NONE, NULL, N_("Start without the page of the first start"),
     NULL},
    {"chats", 0, 0, G_OPTION_ARG_FILENAME, NULL, N_("Keep the chats of this run in FILE"),
     N_("FILE")},
    {"version", 0, 0, G_OPTION_ARG_NONE, NULL, N_("Show the version and end"), NULL},
    {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, NULL, NULL, N_("[FILE]")},
    {NULL},
};

static int usage_error(const char *text)
{
    g_printerr("aquifer: %s\n", text);
    return 2;
}

/* An option of its own type would lose 0, which GApplication takes for "not given". */
static gboolean parse_temperature(const char *text, double *ret)
{
    char *end;
    double value = g_ascii_strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 2))
        return FALSE;
    *ret = value;
    return TRUE;
}

static int aq_application_handle_local_options(GApplication *app, GVariantDict *dict)
{
    const char *page = NULL, *text = NULL;
    int width, height;
    double temperature;
    if (g_variant_dict_contains(dict, "version")) {
        g_print("aquifer %s\n", AQ_VERSION);
        return 0;
    }
    if (g_variant_dict_lookup(dict, "shot", "&s", &page)) {
        gboolean known = FALSE;
        for (gsize i = 0; i < G_N_ELEMENTS(page_names); i++)
            known = known || g_str_equal(page, page_names[i]);
        if (!known)
            return usage_error(_("--shot takes chat, models, pool, api or welcome"));
        if (!g_variant_dict_contains(dict, "shot-file"))
            return usage_error(_("--shot needs --shot-file FILE"));
        /* A picture is of a window of its own, not of one that is open already. */
        g_application_set_flags(app, g_application_get_flags(app) | G_APPLICATION_NON_UNIQUE);
    }
    if (g_variant_dict_lookup(dict, "shot-look", "&s", &text) && !aq_shot_look_known(text))
        return usage_error(_("--shot-look takes dark, rtl and large, with commas between"));
    if (g_variant_dict_lookup(dict, "temp", "&s", &text) && !parse_temperature(text, &temperature))
        return usage_error(_("--temp takes a number from 0 to 2"));
    if (g_variant_dict_lookup(dict, "size", "&s", &text) &&
        (sscanf(text, "%dx%d", &width, &height) != 2 || width < 1 || height < 1 || width > 16384 ||
         height > 16384))
        return usage_error(_("--size takes WIDTHxHEIGHT, as in 360x640"));
    return G_APPLICATION_CLASS(aq_application_parent_class)->handle_local_options(app, dict);
}

/* The path of an option or argument, made absolute where the program was started. */
static char *path_of(GApplicationCommandLine *line, const char *arg)
{
    g_autoptr(GFile) file = g_application_command_line_create_file_for_arg(line, arg);
    return g_file_get_path(file);
}

static int aq_application_command_line(GApplication *app, GApplicationCommandLine *line)
{
    AqApplication *self = AQ_APPLICATION(app);
    GVariantDict *dict = g_application_command_line_get_options_dict(line);
    const char *model = NULL, *ask = NULL, *page = NULL, *shot_file = NULL, *size = NULL,
               *temp = NULL, *chats = NULL, *look = NULL;
    g_autofree const char **rest = NULL;
    gboolean made;

    g_variant_dict_lookup(dict, "model", "^&ay", &model);
    g_variant_dict_lookup(dict, "ask", "&s", &ask);
    g_variant_dict_lookup(dict, "shot", "&s", &page);
    g_variant_dict_lookup(dict, "shot-file", "^&ay", &shot_file);
    g_variant_dict_lookup(dict, "size", "&s", &size);
    g_variant_dict_lookup(dict, G_OPTION_REMAINING, "^a&ay", &rest);
    if (g_variant_dict_lookup(dict, "temp", "&s", &temp))
        parse_temperature(temp, &self->temperature);
    if (!model && rest)
        model = rest[0];

    if (g_variant_dict_lookup(dict, "chats", "^&ay", &chats)) {
        g_free(self->chats_file);
        self->chats_file = path_of(line, chats);
    }
    if (page && g_variant_dict_lookup(dict, "shot-look", "&s", &look))
        aq_shot_set_look(look);
    /* A picture neither shows the user's chats nor adds to them. */
    AqWindow *window = present(self, page == NULL, &made);
    if (size) {
        int width, height;
        if (sscanf(size, "%dx%d", &width, &height) == 2)
            gtk_window_set_default_size(GTK_WINDOW(window), width, height);
    }
    if (ask && !page) {
        g_free(self->ask);
        self->ask = g_strdup(ask);
    }
    if (model) {
        g_autofree char *path = path_of(line, model);
        if (path)
            open_path(self, path);
    } else if (made) {
        open_first(self);
    } else if (ask) {
        on_host_changed(self);
    }
    gtk_window_present(GTK_WINDOW(window));
    /* Who comes with a file, a question or an option against it has found the way. */
    gboolean no_welcome = page || ask || rest || g_variant_dict_contains(dict, "no-welcome");
    if (made &&
        (g_strcmp0(page, "welcome") == 0 || (!no_welcome && aq_welcome_due(self->settings))))
        welcome(self);
    if (made)
        aq_loop_meter_watch(GTK_WIDGET(window));
    if (page && made) {
        g_autofree char *file = path_of(line, shot_file);
        aq_shot_start(window, self->host, page, file, ask, chats != NULL, &self->status);
    }
    return 0;
}

static void aq_application_startup(GApplication *app)
{
    static const GActionEntry actions[] = {
        {"new-chat", new_chat_action}, {"open", open_action}, {"shortcuts", shortcuts_action},
        {"about", about_action},       {"quit", quit_action}, {"show-chat", show_chat_action, "x"},
    };
    AqApplication *self = AQ_APPLICATION(app);
    G_APPLICATION_CLASS(aq_application_parent_class)->startup(app);
    g_action_map_add_action_entries(G_ACTION_MAP(app), actions, G_N_ELEMENTS(actions), app);
    aq_shortcuts_install(GTK_APPLICATION(app));
    gtk_window_set_default_icon_name("io.github.aquiferpool.Aquifer");
    self->settings = aq_paths_settings();
    self->temperature = self->settings ? g_settings_get_double(self->settings, "temperature") : 0.7;
}

static void aq_application_finalize(GObject *object)
{
    AqApplication *self = AQ_APPLICATION(object);
    g_clear_object(&self->pool);
    g_clear_object(&self->library);
    g_clear_object(&self->chats);
    g_clear_object(&self->host);
    g_clear_object(&self->settings);
    g_free(self->ask);
    g_free(self->chats_file);
    G_OBJECT_CLASS(aq_application_parent_class)->finalize(object);
}

static void aq_application_class_init(AqApplicationClass *klass)
{
    GApplicationClass *app_class = G_APPLICATION_CLASS(klass);
    G_OBJECT_CLASS(klass)->finalize = aq_application_finalize;
    app_class->startup = aq_application_startup;
    app_class->activate = aq_application_activate;
    app_class->open = aq_application_open;
    app_class->command_line = aq_application_command_line;
    app_class->handle_local_options = aq_application_handle_local_options;
    GTK_APPLICATION_CLASS(klass)->window_removed = aq_application_window_removed;
}

static void aq_application_init(AqApplication *self)
{
    g_application_add_main_option_entries(G_APPLICATION(self), options);
}

AqApplication *aq_application_new(void)
{
    return g_object_new(AQ_TYPE_APPLICATION, "application-id", "io.github.aquiferpool.Aquifer",
                        "resource-base-path", "/io/github/aquiferpool/Aquifer", "flags",
                        G_APPLICATION_HANDLES_COMMAND_LINE | G_APPLICATION_HANDLES_OPEN, NULL);
}
