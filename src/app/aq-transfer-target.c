/* SPDX-License-Identifier: Apache-2.0 */
/* Which file an export becomes: Markdown or JSON, and its ending.
 *
 *   offered      written      filter     becomes
 *   Rivers.md    -            JSON       Rivers.json, for nobody wrote that .md
 *   Rivers.md    lakes        JSON       lakes.json
 *   Rivers.md    lakes.json   Markdown   lakes.json, as JSON
 *   Rivers.md    v1.2         Markdown   v1.2.md
 *
 * A file that a portal hands to a sandbox is the only one that may be written there: its name stays. */
#include "aq-transfer-target.h"

#include <string.h>

static const char *const endings[] = {".md", ".json"};

/* Where the ending of a kind begins, or -1. */
static gssize ending_at(const char *name, AqTransferKind kind)
{
    gsize n = strlen(name), n_end = strlen(endings[kind]);
    gboolean has = n > n_end && g_ascii_strcasecmp(name + n - n_end, endings[kind]) == 0;
    return has ? (gssize)(n - n_end) : -1;
}

char *aq_transfer_name(const char *name, AqTransferKind kind)
{
    g_return_val_if_fail(name, NULL);
    AqTransferKind other = kind == AQ_TRANSFER_JSON ? AQ_TRANSFER_MARKDOWN : AQ_TRANSFER_JSON;
    gssize at = ending_at(name, other);
    if (ending_at(name, kind) >= 0)
        return g_strdup(name);
    return g_strdup_printf("%.*s%s", at < 0 ? (int)strlen(name) : (int)at, name, endings[kind]);
}

static gboolean is_of_portal(GFile *file)
{
    g_autofree char *folder = g_build_filename(g_get_user_runtime_dir(), "doc", NULL);
    g_autoptr(GFile) documents = g_file_new_for_path(folder);
    return g_file_has_prefix(file, documents);
}

GFile *aq_transfer_target(GFile *chosen, const char *proposed, gboolean all, AqTransferKind *kind)
{
    g_autofree char *name = g_file_get_basename(chosen);
    g_autoptr(GFile) folder = g_file_get_parent(chosen);
    gboolean own = !g_str_equal(name, proposed);
    if (all)
        *kind = AQ_TRANSFER_JSON;
    else if (own && ending_at(name, AQ_TRANSFER_JSON) >= 0)
        *kind = AQ_TRANSFER_JSON;
    else if (own && ending_at(name, AQ_TRANSFER_MARKDOWN) >= 0)
        *kind = AQ_TRANSFER_MARKDOWN;
    g_autofree char *better = aq_transfer_name(name, *kind);
    if (!folder || is_of_portal(chosen) || g_str_equal(name, better))
        return g_object_ref(chosen);
    return g_file_get_child(folder, better);
}
