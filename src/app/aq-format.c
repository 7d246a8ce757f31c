/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and lists as text for people. No display needed; any thread. */
#include "aq-format.h"

#include <glib/gi18n.h>

#define TITLE_CHARS 48

char *aq_format_bytes(guint64 n_bytes)
{
    return g_format_size(n_bytes);
}

char *aq_format_tokens(guint64 n_tok)
{
    gulong n = (gulong)MIN(n_tok, G_MAXUINT32);
    return g_strdup_printf(ngettext("%'lu token", "%'lu tokens", n), n);
}

char *aq_format_params(guint64 n_param)
{
    if (n_param >= 1000000000)
        return g_strdup_printf(_("%.1f billion parameters"), (double)n_param / 1e9);
    if (n_param >= 10000000)
        return g_strdup_printf(_("%.0f million parameters"), (double)n_param / 1e6);
    return g_strdup_printf(_("%.1f million parameters"), (double)n_param / 1e6);
}

char *aq_format_types(const aq_model_info *info)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < info->n_type; i++)
        g_string_append_printf(s, "%s%s", i ? ", " : "", info->type[i].name);
    return g_string_free(s, FALSE);
}

char *aq_format_model_line(const aq_model_info *info)
{
    g_autofree char *size = aq_format_bytes(info->file_bytes);
    g_autofree char *ctx = aq_format_tokens(info->n_ctx_train);
    /* Translators: architecture, file size, main quantisation, length of the context */
    return g_strdup_printf(_("%s · %s · %s · context %s"), info->arch, size,
                           info->n_type ? info->type[0].name : "–", ctx);
}

char *aq_format_usage(const aq_usage *usage)
{
    GString *s = g_string_new(NULL);
    /* The time runs from the first token to the last: one token less than were made. */
    if (usage->gen_tok > 1 && usage->gen_us > 0)
        g_string_append_printf(s, _("%.1f tok/s"),
                               (usage->gen_tok - 1) * 1e6 / (double)usage->gen_us);
    if (usage->gen_tok > 0) {
        if (s->len)
            g_string_append(s, " · ");
        if (usage->first_us < 1000000)
            g_string_append_printf(s, _("first token after %d ms"),
                                   MAX(1, (int)((usage->first_us + 500) / 1000)));
        else
            g_string_append_printf(s, _("first token after %.1f s"), (double)usage->first_us / 1e6);
    }
    guint read_tok = usage->prompt_tok - MIN(usage->prompt_tok, usage->cached_tok);
    if (read_tok > 1 && usage->prompt_us > 0) {
        if (s->len)
            g_string_append(s, " · ");
        /* Translators: how fast the question and what came before it were read */
        g_string_append_printf(s, _("read at %.0f tok/s"),
                               (double)read_tok * 1e6 / (double)usage->prompt_us);
    }
    if (s->len)
        g_string_append(s, " · ");
    g_autofree char *n = aq_format_tokens(usage->gen_tok);
    g_string_append(s, n);
    return g_string_free(s, FALSE);
}

char *aq_format_title(const char *text)
{
    g_autofree char *clean = g_utf8_make_valid(text, -1);
    GString *s = g_string_new(NULL);
    gboolean gap = FALSE;
    glong n = 0;
    for (const char *p = clean; *p; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        if (g_unichar_isspace(c) || g_unichar_iscntrl(c)) {
            gap = s->len > 0;
            continue;
        }
        if (n >= TITLE_CHARS) {
            g_string_append(s, "…");
            break;
        }
        if (gap) {
            g_string_append_c(s, ' ');
            n++;
        }
        gap = FALSE;
        g_string_append_unichar(s, c);
        n++;
    }
    if (!s->len) {
        g_string_free(s, TRUE);
        return NULL;
    }
    return g_string_free(s, FALSE);
}

char *aq_format_file(const char *path)
{
    g_autofree char *base = g_path_get_basename(path);
    if (g_str_has_suffix(base, ".gguf"))
        base[strlen(base) - 5] = 0;
    return g_filename_display_name(base);
}
