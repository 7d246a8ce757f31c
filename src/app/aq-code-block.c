/* SPDX-License-Identifier: Apache-2.0 */
/* Code in a message: its language, copy, wrap, save, its text. While it grows only what is new is put in, without highlighting. */
#include "aq-code-block.h"

#include <glib/gi18n.h>
#include <gtksourceview/gtksource.h>

#include "aq-find-mark.h"

#define LINE_MAX_CHARS \
    1000 /* a text view lays out a line as a whole: longer ones are broken for display */
#define HIGHLIGHT_MAX_BYTES (256 << 10)
#define ONCE_LINES \
    75 /* and bytes: what is put into the buffer at once, since each line is laid out */
#define ONCE_BYTES 4096

struct _AqCodeBlock {
    AdwBin parent;
    GtkWidget *head, *lang, *wrap, *scrolled;
    AqCodeBlock *next; /* that has more of the code, or NULL */
    GtkSourceView *view;
    GtkSourceBuffer *buffer;
    char *code, *name;
    gboolean open;
    gsize shown; /* bytes of code that the buffer has; code is only ever added to, or replaced */
    glong column;
};

G_DEFINE_FINAL_TYPE(AqCodeBlock, aq_code_block, ADW_TYPE_BIN)

/* Append bytes of code, with breaks in lines that are too long. */
static void append(AqCodeBlock *self, const char *text, gsize n)
{
    GtkTextBuffer *buffer = GTK_TEXT_BUFFER(self->buffer);
    g_autoptr(GString) s = g_string_new(NULL);
    for (const char *p = text; p < text + n; p = g_utf8_next_char(p)) {
        if (*p == '\n') {
            self->column = 0;
        } else if (++self->column > LINE_MAX_CHARS) {
            g_string_append_c(s, '\n');
            self->column = 1;
        }
        g_string_append_len(s, p, g_utf8_next_char(p) - p);
    }
    GtkTextIter end;
    gtk_text_buffer_get_end_iter(buffer, &end);
    gtk_text_buffer_insert(buffer, &end, s->str, (int)s->len);
}

static void follow_style(AqCodeBlock *self)
{
    gboolean dark = adw_style_manager_get_dark(adw_style_manager_get_default());
    gtk_source_buffer_set_style_scheme(
        self->buffer,
        gtk_source_style_scheme_manager_get_scheme(gtk_source_style_scheme_manager_get_default(),
                                                   dark ? "Adwaita-dark" : "Adwaita"));
}

static GtkSourceLanguage *language_of(const char *name)
{
    static const char *const others[][2] = {
        {"bash", "sh"},        {"shell", "sh"},   {"zsh", "sh"},         {"py", "python3"},
        {"python", "python3"}, {"js", "js"},      {"javascript", "js"},  {"ts", "typescript"},
        {"c++", "cpp"},        {"rs", "rust"},    {"yml", "yaml"},       {"md", "markdown"},
        {"golang", "go"},      {"cs", "c-sharp"}, {"csharp", "c-sharp"}, {"tex", "latex"}};
    GtkSourceLanguageManager *manager = gtk_source_language_manager_get_default();
    if (!name)
        return NULL;
    g_autofree char *low = g_ascii_strdown(name, -1);
    const char *id = low;
    for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
        if (g_str_equal(low, others[i][0]))
            id = others[i][1];
    return gtk_source_language_manager_get_language(manager, id);
}

void aq_code_block_set(AqCodeBlock *self, const char *code, const char *lang, gboolean open)
{
    g_return_if_fail(AQ_IS_CODE_BLOCK(self) && code);
    gsize n = strlen(code);
    /* A parser ends code with a newline, which is none of its lines. */
    g_autofree char *trimmed = g_strndup(code, n && code[n - 1] == '\n' ? n - 1 : n);
    n = strlen(trimmed);
    if (!self->code || n < self->shown || strncmp(self->code, trimmed, self->shown) != 0) {
        gtk_text_buffer_set_text(GTK_TEXT_BUFFER(self->buffer), "", 0);
        self->shown = 0;
        self->column = 0;
    }
    g_free(self->code);
    self->code = g_steal_pointer(&trimmed);
    g_set_str(&self->name, lang);
    self->open = open;
    GtkSourceLanguage *language = open ? NULL : language_of(lang);
    gtk_label_set_text(GTK_LABEL(self->lang), language ? gtk_source_language_get_name(language)
                                              : lang   ? lang
                                                       : "");
}

gboolean aq_code_block_fill(AqCodeBlock *self, guint *ret_n)
{
    g_return_val_if_fail(AQ_IS_CODE_BLOCK(self) && self->code, TRUE);
    const char *rest = self->code + self->shown;
    gsize n = 0;
    for (guint lines = 0; rest[n] && lines < ONCE_LINES && n < ONCE_BYTES; n++)
        lines += rest[n] == '\n';
    while (((guchar)rest[n] & 0xc0) == 0x80)
        n++;
    if (n)
        append(self, rest, n);
    self->shown += n;
    *ret_n = (guint)n;
    if (rest[n])
        return FALSE;
    GtkSourceLanguage *language = self->open ? NULL : language_of(self->name);
    if (language && self->shown <= HIGHLIGHT_MAX_BYTES)
        gtk_source_buffer_set_language(self->buffer, language);
    return TRUE;
}

void aq_code_block_find(AqCodeBlock *self, const AqFind *find, int current)
{
    g_return_if_fail(AQ_IS_CODE_BLOCK(self));
    aq_find_mark_text(GTK_TEXT_VIEW(self->view), find, current);
}

GtkWidget *aq_code_block_find_rect(AqCodeBlock *self, const AqFind *find, guint nth,
                                   graphene_rect_t *ret)
{
    g_return_val_if_fail(AQ_IS_CODE_BLOCK(self), NULL);
    return aq_find_rect_text(GTK_TEXT_VIEW(self->view), find, nth, ret) ? GTK_WIDGET(self->view)
                                                                        : NULL;
}

void aq_code_block_go_on(AqCodeBlock *self, AqCodeBlock *next)
{
    g_return_if_fail(AQ_IS_CODE_BLOCK(self) && AQ_IS_CODE_BLOCK(next));
    g_set_weak_pointer(&self->next, next);
    gtk_widget_set_visible(next->head, FALSE);
    gtk_text_view_set_wrap_mode(GTK_TEXT_VIEW(next->view),
                                gtk_text_view_get_wrap_mode(GTK_TEXT_VIEW(self->view)));
}

/* Of this one and those that go on. */
static char *all_code(AqCodeBlock *self)
{
    GString *s = g_string_new(self->code);
    for (AqCodeBlock *b = self->next; b; b = b->next)
        g_string_append_printf(s, "\n%s", b->code ? b->code : "");
    return g_string_free(s, FALSE);
}

static void on_wrap(AqCodeBlock *self)
{
    gboolean wrap = gtk_toggle_button_get_active(GTK_TOGGLE_BUTTON(self->wrap));
    for (AqCodeBlock *b = self; b; b = b->next)
        gtk_text_view_set_wrap_mode(GTK_TEXT_VIEW(b->view),
                                    wrap ? GTK_WRAP_WORD_CHAR : GTK_WRAP_NONE);
}

static void on_copy(AqCodeBlock *self)
{
    g_autofree char *code = all_code(self);
    gdk_clipboard_set_text(gtk_widget_get_clipboard(GTK_WIDGET(self)), code);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), _("Copied"),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_LOW);
}

/* ---- save ----------------------------------------------------------------------------------- */

static void tell(GtkWidget *parent, const char *why)
{
    AdwDialog *dialog = adw_alert_dialog_new(_("The Code Was Not Saved"), why);
    adw_alert_dialog_add_response(ADW_ALERT_DIALOG(dialog), "close", _("_Close"));
    adw_dialog_present(dialog, parent);
}

static void written(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(AqCodeBlock) self = user;
    g_autoptr(GError) error = NULL;
    if (!g_file_replace_contents_finish(G_FILE(source), result, NULL, &error))
        tell(GTK_WIDGET(self), error->message);
}

static void save_chosen(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(AqCodeBlock) self = user;
    g_autoptr(GFile) file = gtk_file_dialog_save_finish(GTK_FILE_DIALOG(source), result, NULL);
    if (!file)
        return;
    g_autofree char *code = all_code(self), *text = g_strconcat(code, "\n", NULL);
    g_autoptr(GBytes) bytes = g_bytes_new(text, strlen(text));
    g_file_replace_contents_bytes_async(file, bytes, NULL, FALSE, G_FILE_CREATE_NONE, NULL, written,
                                        g_object_ref(self));
}

static void on_save(AqCodeBlock *self)
{
    g_autoptr(GtkFileDialog) dialog = gtk_file_dialog_new();
    GtkSourceLanguage *language = language_of(self->name);
    g_auto(GStrv) globs = language ? gtk_source_language_get_globs(language) : NULL;
    const char *glob =
        globs && globs[0] && g_str_has_prefix(globs[0], "*.") ? globs[0] + 1 : ".txt";
    g_autofree char *name = g_strconcat("code", glob, NULL);
    gtk_file_dialog_set_title(dialog, _("Save Code"));
    gtk_file_dialog_set_initial_name(dialog, name);
    gtk_file_dialog_save(dialog, GTK_WINDOW(gtk_widget_get_root(GTK_WIDGET(self))), NULL,
                         save_chosen, g_object_ref(self));
}

/* ---- life ----------------------------------------------------------------------------------- */

static void aq_code_block_dispose(GObject *object)
{
    AqCodeBlock *self = AQ_CODE_BLOCK(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_CODE_BLOCK);
    g_clear_weak_pointer(&self->next);
    g_clear_pointer(&self->code, g_free);
    g_clear_pointer(&self->name, g_free);
    G_OBJECT_CLASS(aq_code_block_parent_class)->dispose(object);
}

static void aq_code_block_class_init(AqCodeBlockClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_code_block_dispose;
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-code-block.ui");
    gtk_widget_class_bind_template_child(widget_class, AqCodeBlock, head);
    gtk_widget_class_bind_template_child(widget_class, AqCodeBlock, lang);
    gtk_widget_class_bind_template_child(widget_class, AqCodeBlock, wrap);
    gtk_widget_class_bind_template_child(widget_class, AqCodeBlock, scrolled);
    gtk_widget_class_bind_template_callback(widget_class, on_wrap);
    gtk_widget_class_bind_template_callback(widget_class, on_copy);
    gtk_widget_class_bind_template_callback(widget_class, on_save);
}

static void aq_code_block_init(AqCodeBlock *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    self->buffer = gtk_source_buffer_new(NULL);
    self->view = GTK_SOURCE_VIEW(gtk_source_view_new_with_buffer(self->buffer));
    g_object_unref(self->buffer); /* the view has it */
    GtkTextView *view = GTK_TEXT_VIEW(self->view);
    gtk_text_view_set_editable(view, FALSE);
    gtk_text_view_set_cursor_visible(view, FALSE);
    gtk_text_view_set_monospace(view, TRUE);
    gtk_text_view_set_accepts_tab(view, FALSE);
    gtk_text_view_set_left_margin(view, 12);
    gtk_text_view_set_right_margin(view, 12);
    gtk_text_view_set_top_margin(view, 6);
    gtk_text_view_set_bottom_margin(view, 10);
    gtk_source_buffer_set_highlight_matching_brackets(self->buffer, FALSE);
    gtk_accessible_update_property(GTK_ACCESSIBLE(view), GTK_ACCESSIBLE_PROPERTY_LABEL, _("Code"),
                                   -1);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(self->scrolled), GTK_WIDGET(view));
    g_signal_connect_object(adw_style_manager_get_default(), "notify::dark",
                            G_CALLBACK(follow_style), self, G_CONNECT_SWAPPED);
    follow_style(self);
}

AqCodeBlock *aq_code_block_new(void)
{
    return g_object_new(AQ_TYPE_CODE_BLOCK, NULL);
}
