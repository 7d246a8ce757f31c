/* SPDX-License-Identifier: Apache-2.0 */
/* Where the app finds and keeps its files. Main thread. */
#include "aq-paths.h"

#include <unistd.h>

#define SCHEMA "io.github.aquiferpool.Aquifer"

/* Read once at start and constant from then on. */
static struct {
    char *cpu, *models, *guide, *crash_note, *api_keys, *locale, *chats, *presets, *parked, *pool,
        *loop_meter;
    gboolean in_build;
} paths;

/* TRUE when the running program lies in the build folder. */
static gboolean runs_from_build(void)
{
    g_autofree char *exe = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *dir = exe ? g_path_get_dirname(exe) : NULL;
    return dir && g_str_equal(dir, AQ_BUILD_DIR);
}

void aq_paths_init(void)
{
    const char *cpu = g_getenv("AQ_CPU"), *models = g_getenv("AQ_MODEL_DIR"),
               *locale = g_getenv("AQ_LOCALE_DIR"), *meter = g_getenv("AQ_LOOP_METER");
    paths.in_build = runs_from_build();
    paths.cpu = g_strdup(cpu && *cpu ? cpu : NULL);
    paths.models = models && *models
                       ? g_strdup(models)
                       : g_build_filename(g_get_user_data_dir(), "aquifer", "models", NULL);
    g_autofree char *guide =
        paths.in_build ? g_build_filename(AQ_SOURCE_DIR, "data", "guide", "guide.gguf", NULL)
                       : g_build_filename(AQ_DATA_DIR, "guide", "guide.gguf", NULL);
    if (g_file_test(guide, G_FILE_TEST_IS_REGULAR))
        paths.guide = g_steal_pointer(&guide);
    g_autofree char *state = g_build_filename(g_get_user_state_dir(), "aquifer", NULL);
    if (g_mkdir_with_parents(state, 0700) == 0)
        paths.crash_note = g_build_filename(state, "crash.txt", NULL);
    paths.chats = g_build_filename(g_get_user_data_dir(), "aquifer", "chats.sqlite", NULL);
    paths.presets = g_build_filename(g_get_user_data_dir(), "aquifer", "presets.json", NULL);
    paths.parked = g_build_filename(g_get_user_cache_dir(), "aquifer", "parked", NULL);
    paths.pool = g_build_filename(state, "pool", NULL);
    g_autofree char *data = g_build_filename(g_get_user_data_dir(), "aquifer", NULL);
    if (g_mkdir_with_parents(data, 0700) == 0)
        paths.api_keys = g_build_filename(data, "api-keys", NULL);
    paths.loop_meter = g_strdup(meter && *meter ? meter : NULL);
    paths.locale = g_strdup(locale && *locale ? locale : AQ_LOCALE_DIR);
}

const char *aq_paths_cpu(void)
{
    return paths.cpu;
}

const char *aq_paths_models(void)
{
    return paths.models;
}

const char *aq_paths_guide(void)
{
    return paths.guide;
}

const char *aq_paths_pool(void)
{
    return paths.pool;
}

const char *aq_paths_crash_note(void)
{
    return paths.crash_note;
}

const char *aq_paths_chats(void)
{
    return paths.chats;
}

const char *aq_paths_presets(void)
{
    return paths.presets;
}

const char *aq_paths_parked(void)
{
    return paths.parked;
}

const char *aq_paths_api_keys(void)
{
    return paths.api_keys;
}

const char *aq_paths_locale(void)
{
    return paths.locale;
}

const char *aq_paths_loop_meter(void)
{
    return paths.loop_meter;
}

GSettings *aq_paths_settings(void)
{
    GSettingsSchemaSource *source = g_settings_schema_source_get_default();
    g_autoptr(GSettingsSchemaSource) built = NULL;
    if (paths.in_build) {
        g_autofree char *dir = g_build_filename(AQ_BUILD_DIR, "..", "..", "data", NULL);
        built = g_settings_schema_source_new_from_directory(dir, source, FALSE, NULL);
        if (built)
            source = built;
    }
    g_autoptr(GSettingsSchema) schema =
        source ? g_settings_schema_source_lookup(source, SCHEMA, TRUE) : NULL;
    if (!schema) {
        g_warning("the settings schema %s is not installed: settings are not kept", SCHEMA);
        return NULL;
    }
    return g_settings_new_full(schema, NULL, NULL);
}
