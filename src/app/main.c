/* SPDX-License-Identifier: Apache-2.0 */
/* The window program `aquifer`. */
#include <glib/gi18n.h>
#include <locale.h>

#include "aq-application.h"
#include "aq-loop-meter.h"
#include "aq-paths.h"
#include "aq/base.h"

static void log_line(void *user, int level, const char *line)
{
    g_log(G_LOG_DOMAIN, level <= AQ_LOG_WARN ? G_LOG_LEVEL_INFO : G_LOG_LEVEL_DEBUG, "%s", line);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    aq_paths_init();
    bindtextdomain("aquifer", aq_paths_locale());
    bind_textdomain_codeset("aquifer", "UTF-8");
    textdomain("aquifer");

    aq_log_set(log_line, NULL, AQ_LOG_INFO);
    aq_err err = {0};
    if (!aq_paths_crash_note() ||
        aq_crash_note_install(aq_paths_crash_note(), AQ_VERSION, &err) < 0)
        g_warning("no crash note can be written: %s", err.text);

    aq_loop_meter_begin(aq_paths_loop_meter());
    g_autoptr(AqApplication) app = aq_application_new();
    int status = g_application_run(G_APPLICATION(app), argc, argv);
    aq_loop_meter_end();
    return status ? status : aq_application_get_status(app);
}
