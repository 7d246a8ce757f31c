/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool tells, as text for people. */
#include "aq-pool-words.h"

#include <glib/gi18n.h>
#include <string.h>

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
        hint = _("Allow layers on that PC. If it removed this one: leave the pool here, and pair "
                 "again.");
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

static void add_place(aq_pc *pc)
{
    g_autofree char *place = NULL;

    if (pc->n_addr) {
        const char *colon = strrchr(pc->addr[0], ':');
        place =
            colon ? g_strndup(pc->addr[0], (gsize)(colon - pc->addr[0])) : g_strdup(pc->addr[0]);
    } else {
        place =
            g_strdup_printf("%02x%02x%02x%02x", pc->id.b[0], pc->id.b[1], pc->id.b[2], pc->id.b[3]);
    }
    g_autofree char *more = g_strdup_printf(" (%s)", place);
    gsize n = strlen(more), room = sizeof pc->name - 1, n_name = strlen(pc->name);
    if (n >= room)
        return;
    if (n_name > room - n) /* cut at a letter */
        n_name = (gsize)(g_utf8_find_prev_char(pc->name, pc->name + room - n + 1) - pc->name);
    memcpy(pc->name + n_name, more, n + 1);
}

void aq_pool_words_tell_apart(aq_seat_state *st)
{
    g_autofree gboolean *same = g_new0(gboolean, st->n_pc + 1);

    for (guint i = 0; i < st->n_pc; i++)
        for (guint k = 0; k < st->n_pc && !same[i]; k++)
            same[i] = k != i && *st->pc[i].name && g_str_equal(st->pc[i].name, st->pc[k].name);
    for (guint i = 0; i < st->n_pc; i++)
        if (same[i] && !st->pc[i].self)
            add_place(&st->pc[i]);
}
