/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool tells, as text for people. */
#include "aq-pool-words.h"

#include <glib/gi18n.h>

void aq_pool_words_trouble(int code, const char *name, char **ret_title, const char **ret_hint)
{
    const char *title = _("%s Could Not Be Used"), *hint = "";

    switch (code) {
    case AQ_E_BUSY:
        title = _("%s Is Busy");
        hint = _("It starts by itself when that PC is free.");
        break;
    case AQ_E_GONE:
    case AQ_E_TIMEOUT:
        title = _("%s Does Not Answer");
        hint = _("It starts by itself when that PC is there and its Pool is on.");
        break;
    case AQ_E_AUTH:
        title = _("%s Does Not Allow It");
        hint = _("Allow layers on that PC, or pair again.");
        break;
    case AQ_E_MISMATCH:
        title = _("%s Has Another File, or None");
        hint = _("Copy the very same file into the folder of models there.");
        break;
    case AQ_E_PROTO:
        title = _("%s Has Another Version");
        hint = _("Update Aquifer on the older PC.");
        break;
    case AQ_E_NOMEM:
        title = _("Not Enough Memory with %s");
        hint = _("Move layers to the other PC, or close programs.");
        break;
    default:
        break;
    }
    GString *s = g_string_new(title);
    g_string_replace(s, "%s", name, 1);
    *ret_title = g_string_free(s, FALSE);
    *ret_hint = hint;
}

/* Of the others one is no news, and the rest is not a firewall's. */
static gboolean is_blocked(aq_reach reach)
{
    return reach == AQ_REACH_SILENT || reach == AQ_REACH_BLOCKED;
}

char *aq_pool_words_reach(const char *name, aq_reach out, aq_reach in, guint port)
{
    if (is_blocked(in))
        /* Translators: name of a PC, number of a port */
        return g_strdup_printf(
            _("%s cannot call this PC. A firewall here may be in the way: let TCP port "
              "%u in, in its settings."),
            name, port);
    if (is_blocked(out))
        /* Translators: name of a PC, the same name */
        return g_strdup_printf(
            _("This PC cannot call %s. A firewall there may be in the way: let the Pool's "
              "TCP port in, in the settings of %s."),
            name, name);
    return NULL;
}
