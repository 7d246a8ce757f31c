/* SPDX-License-Identifier: Apache-2.0 */
/* What the app's own widgets tell assistive technology: roles, names, descriptions, states. Run with GTK_A11Y=test, which keeps what a
 * widget says where it can be asked for; nothing is drawn. */
#include <adwaita.h>
#include <gtksourceview/gtksource.h>
#include <string.h>

#include "aq-busy.h"
#include "aq-chat-row.h"
#include "aq-chat-view.h"
#include "aq-code-block.h"
#include "aq-column.h"
#include "aq-composer.h"
#include "aq-context-meter.h"
#include "aq-file-chip.h"
#include "aq-file-row.h"
#include "aq-find-bar.h"
#include "aq-layer-bar.h"
#include "aq-markdown.h"
#include "aq-markdown-view.h"
#include "aq-message-row.h"
#include "aq-preset-menu.h"
#include "aq-settings-dialog.h"
#include "aq-text-flow.h"
#include "aq-welcome.h"
#include "aq-window.h"

/* ---- looking for widgets -------------------------------------------------------------------- */

static gboolean has_name(GtkWidget *w, const char *name)
{
    g_autofree char *differs =
        gtk_test_accessible_check_property(GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_PROPERTY_LABEL, name);
    return !differs;
}

static gboolean has_description(GtkWidget *w, const char *text)
{
    g_autofree char *differs = gtk_test_accessible_check_property(
        GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION, text);
    return !differs;
}

/* The first of a type, in the order of the tree; name NULL: any. */
static GtkWidget *find(GtkWidget *in, GType type, const char *name)
{
    if (G_TYPE_CHECK_INSTANCE_TYPE(in, type) && (!name || has_name(in, name)))
        return in;
    for (GtkWidget *c = gtk_widget_get_first_child(in); c; c = gtk_widget_get_next_sibling(c)) {
        GtkWidget *w = find(c, type, name);
        if (w)
            return w;
    }
    return NULL;
}

static GtkWidget *need(GtkWidget *in, GType type, const char *name)
{
    GtkWidget *w = find(in, type, name);
    if (!w)
        g_error("no %s named \"%s\" in %s", g_type_name(type), name ? name : "",
                G_OBJECT_TYPE_NAME(in));
    return w;
}

static gboolean is_named(GtkWidget *w)
{
    return gtk_test_accessible_has_property(GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_PROPERTY_LABEL) ||
           gtk_test_accessible_has_relation(GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_RELATION_LABELLED_BY);
}

/* Whatever can be pressed or written in has a name. */
static guint assert_named(GtkWidget *in)
{
    guint n = 0;
    gboolean menu = GTK_IS_MENU_BUTTON(in);
    /* GTK's own button of a search bar, which is never shown. */
    if (GTK_IS_CENTER_BOX(gtk_widget_get_parent(in)) && !gtk_widget_get_visible(in))
        return 0;
    if (menu || GTK_IS_BUTTON(in) || GTK_IS_TEXT_VIEW(in) || GTK_IS_SPIN_BUTTON(in) ||
        GTK_IS_SWITCH(in) || GTK_IS_ENTRY(in) || GTK_IS_SEARCH_ENTRY(in)) {
        n++;
        if (!is_named(in) && !(menu && gtk_menu_button_get_label(GTK_MENU_BUTTON(in))))
            g_error("%s in %s has no name", G_OBJECT_TYPE_NAME(in),
                    G_OBJECT_TYPE_NAME(gtk_widget_get_parent(in)));
        if (!GTK_IS_BUTTON(in))
            return n;
    }
    for (GtkWidget *c = gtk_widget_get_first_child(in); c; c = gtk_widget_get_next_sibling(c))
        n += assert_named(c);
    return n;
}

#define assert_role(w, role) \
    g_assert_true(gtk_test_accessible_has_role(GTK_ACCESSIBLE(w), GTK_ACCESSIBLE_ROLE_##role))

/* A widget outside a window is kept by its caller alone. */
static GtkWidget *keep(gpointer widget)
{
    return g_object_ref_sink(widget);
}

static void settle(void)
{
    while (g_main_context_iteration(NULL, FALSE)) {
    }
}

static AqChat *chat_new(AqEngineHost *host)
{
    return aq_chat_new(host, NULL);
}

/* ---- the widgets ---------------------------------------------------------------------------- */

static void test_composer(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    GtkWidget *composer = keep(g_object_new(AQ_TYPE_COMPOSER, NULL));
    aq_composer_set_chat(AQ_COMPOSER(composer), chat);
    GtkWidget *entry = need(composer, GTK_TYPE_TEXT_VIEW, "Message");
    assert_role(entry, TEXT_BOX);
    g_assert_true(has_description(entry, "Enter sends, Shift+Enter starts a new line"));
    g_assert_cmpuint(assert_named(composer), >=, 5);
    GtkWidget *send = need(composer, GTK_TYPE_BUTTON, "Send"),
              *stop = need(composer, GTK_TYPE_BUTTON, "Stop");
    g_assert_true(gtk_widget_get_visible(send) && !gtk_widget_get_visible(stop));
    aq_composer_show_busy(AQ_COMPOSER(composer), TRUE, "Send");
    g_assert_true(!gtk_widget_get_visible(send) && gtk_widget_get_visible(stop));

    GtkWidget *chips = need(composer, ADW_TYPE_WRAP_BOX, "Attached Files");
    assert_role(chips, GROUP);
    g_assert_false(gtk_widget_get_visible(chips));
    g_autoptr(AqFile) file = aq_file_check("a.txt", "one two", 7, NULL);
    g_assert_true(aq_chat_add_draft_file(chat, file));
    g_assert_true(gtk_widget_get_visible(chips));
    GtkWidget *chip = need(chips, AQ_TYPE_FILE_CHIP, "a.txt");
    assert_role(chip, GROUP);
    g_assert_true(has_description(chip, "7 bytes"));
    GtkWidget *remove = need(chip, GTK_TYPE_BUTTON, "Remove “a.txt”");
    g_signal_emit_by_name(remove, "clicked");
    g_assert_false(gtk_widget_get_visible(chips));

    /* What cannot be attached is said where it can be hidden again. */
    g_autofree char *long_text = g_strnfill(AQ_COMPOSER_PASTE_BYTES + 1, 'x');
    aq_composer_insert(AQ_COMPOSER(composer), long_text);
    need(chips, AQ_TYPE_FILE_CHIP, "Pasted Text 1.txt");
    GtkWidget *hide = need(composer, GTK_TYPE_BUTTON, "Hide This Message");
    g_assert_true(gtk_widget_get_visible(gtk_widget_get_parent(hide)));
    g_signal_emit_by_name(hide, "clicked");
    g_assert_false(gtk_widget_get_visible(gtk_widget_get_parent(hide)));
    g_object_unref(composer);
}

static gboolean count_insert(GSignalInvocationHint *hint, guint n, const GValue *values,
                             gpointer user)
{
    ++*(guint *)user;
    return TRUE;
}

/* A long text goes past every text buffer, the one that a text view makes of a clipboard too: that takes a second for 10 MB. */
static void test_paste(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    GtkWidget *composer = keep(g_object_new(AQ_TYPE_COMPOSER, NULL));
    aq_composer_set_chat(AQ_COMPOSER(composer), chat);
    GtkTextView *entry = GTK_TEXT_VIEW(need(composer, GTK_TYPE_TEXT_VIEW, "Message"));
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(entry);
    GdkClipboard *clipboard = gtk_widget_get_clipboard(GTK_WIDGET(entry));
    g_autofree char *long_text = g_strnfill(10 << 20, 'x');
    guint n = 0, signal = g_signal_lookup("insert-text", GTK_TYPE_TEXT_BUFFER);
    gulong hook = g_signal_add_emission_hook(signal, 0, count_insert, &n, NULL);
    GListModel *files = aq_chat_get_draft_files(chat);

    gdk_clipboard_set_text(clipboard, long_text);
    g_signal_emit_by_name(entry, "paste-clipboard");
    while (!g_list_model_get_n_items(files))
        g_main_context_iteration(NULL, TRUE);
    g_autoptr(AqFile) file = g_list_model_get_item(files, 0);
    gsize n_text;
    aq_file_get_text(file, &n_text);
    g_assert_cmpuint(n_text, ==, 10 << 20);
    g_assert_cmpuint(n, ==, 0);
    g_signal_remove_emission_hook(signal, hook);

    /* A short one takes the place of what is selected, in one step that can be undone. */
    GtkTextIter from, to;
    gtk_text_buffer_set_text(buffer, "one two four", -1);
    gtk_text_buffer_get_iter_at_offset(buffer, &from, 4);
    gtk_text_buffer_get_iter_at_offset(buffer, &to, 7);
    gtk_text_buffer_select_range(buffer, &from, &to);
    gdk_clipboard_set_text(clipboard, "three");
    g_signal_emit_by_name(entry, "paste-clipboard");
    while (gtk_text_buffer_get_char_count(buffer) == 12)
        g_main_context_iteration(NULL, TRUE);
    g_autofree char *pasted = aq_composer_get_text(AQ_COMPOSER(composer));
    g_assert_cmpstr(pasted, ==, "one three four");
    gtk_text_buffer_undo(buffer);
    g_autofree char *undone = aq_composer_get_text(AQ_COMPOSER(composer));
    g_assert_cmpstr(undone, ==, "one two four");
    g_object_unref(composer);
}

static void test_message_row(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    g_autoptr(AqMessage) question = aq_message_new(AQ_MESSAGE_USER, "Which?"),
                         answer = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);
    GtkWidget *row = keep(aq_message_row_new(chat, question));
    assert_role(row, LIST_ITEM);
    g_assert_true(has_name(row, "Question"));
    g_assert_cmpuint(assert_named(row), >=, 8);
    need(row, GTK_TYPE_TEXT_VIEW, "Edit the question");
    g_object_unref(row);

    row = keep(aq_message_row_new(chat, answer));
    g_assert_true(has_name(row, "Answer"));
    for (guint i = 0; i < 6; i++) {
        static const char *const names[] = {"Copy Text",       "Ask Again",     "Delete From Here",
                                            "Earlier Version", "Later Version", "Error"};
        need(row, i < 5 ? GTK_TYPE_BUTTON : GTK_TYPE_IMAGE, names[i]);
    }
    g_object_unref(row);
}

static void test_markdown(void)
{
    static const char text[] =
        "# Rivers\n\nText\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```c\nx\n```\n";
    GtkWidget *view = keep(g_object_new(AQ_TYPE_MARKDOWN_VIEW, NULL));
    while (!aq_markdown_view_update(AQ_MARKDOWN_VIEW(view), text, sizeof text - 1, FALSE)) {
    }
    GtkWidget *heading = need(view, GTK_TYPE_LABEL, NULL);
    g_assert_cmpstr(gtk_label_get_text(GTK_LABEL(heading)), ==, "Rivers");
    assert_role(heading, HEADING);
    need(view, GTK_TYPE_SCROLLED_WINDOW, "Table");
    GtkWidget *code = need(view, AQ_TYPE_CODE_BLOCK, NULL);
    assert_role(need(code, GTK_TYPE_TEXT_VIEW, "Code"), TEXT_BOX);
    g_assert_cmpuint(assert_named(code), ==, 4);
    GtkWidget *wrap = need(code, GTK_TYPE_TOGGLE_BUTTON, "Wrap Lines");
    gtk_toggle_button_set_active(GTK_TOGGLE_BUTTON(wrap), TRUE);
    gtk_test_accessible_assert_state(wrap, GTK_ACCESSIBLE_STATE_PRESSED,
                                     GTK_ACCESSIBLE_TRISTATE_TRUE);
    g_object_unref(view);
}

static void code_copied(GObject *source, GAsyncResult *result, gpointer user)
{
    *(char **)user = gdk_clipboard_read_text_finish(GDK_CLIPBOARD(source), result, NULL);
}

static guint count_shown(GtkWidget *in, const char *name)
{
    guint n = GTK_IS_BUTTON(in) && has_name(in, name);
    if (!gtk_widget_get_visible(in))
        return 0;
    for (GtkWidget *c = gtk_widget_get_first_child(in); c; c = gtk_widget_get_next_sibling(c))
        n += count_shown(c, name);
    return n;
}

/* Code of many lines is in several text views, none of them long, with one head: what that does is done with all. */
static void test_code(void)
{
    enum { LINES = 3 * AQ_MD_CODE_LINES };
    g_autoptr(GString) code = g_string_new(NULL);
    for (int i = 0; i < LINES; i++)
        g_string_append_printf(code, "%sx = %d;", i ? "\n" : "", i);
    g_autofree char *text = g_strconcat("```c\n", code->str, "\n```\n\n```c\nanother\n```\n", NULL);
    GtkWidget *view = keep(g_object_new(AQ_TYPE_MARKDOWN_VIEW, NULL));
    while (!aq_markdown_view_update(AQ_MARKDOWN_VIEW(view), text, strlen(text), FALSE)) {
    }
    GtkWidget *box = gtk_widget_get_parent(need(view, AQ_TYPE_CODE_BLOCK, NULL)), *last = NULL;
    guint n = 0;
    for (GtkWidget *c = gtk_widget_get_first_child(box); c; c = gtk_widget_get_next_sibling(c)) {
        GtkTextView *part = GTK_TEXT_VIEW(need(c, GTK_TYPE_TEXT_VIEW, "Code"));
        g_assert_cmpint(gtk_text_buffer_get_line_count(gtk_text_view_get_buffer(part)), <=,
                        AQ_MD_CODE_LINES);
        last = ++n < 4 ? GTK_WIDGET(part) : last;
    }
    g_assert_cmpuint(n, ==, 4);
    g_assert_cmpuint(count_shown(view, "Copy Code"), ==, 2);
    gtk_toggle_button_set_active(
        GTK_TOGGLE_BUTTON(need(view, GTK_TYPE_TOGGLE_BUTTON, "Wrap Lines")), TRUE);
    g_assert_cmpint(gtk_text_view_get_wrap_mode(GTK_TEXT_VIEW(last)), ==, GTK_WRAP_WORD_CHAR);
    char *copied = NULL;
    g_signal_emit_by_name(need(view, GTK_TYPE_BUTTON, "Copy Code"), "clicked");
    gdk_clipboard_read_text_async(gtk_widget_get_clipboard(view), NULL, code_copied, &copied);
    while (!copied)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(copied, ==, code->str);
    g_free(copied);
    g_object_unref(view);
}

static char *repeat(const char *what, guint n)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < n; i++)
        g_string_append(s, what);
    return g_string_free(s, FALSE);
}

static guint n_parsed;

/* Linked in the place of aq_md_parse. */
GPtrArray *__real_aq_md_parse(const char *text, gsize n, const char *fence, gboolean running);
GPtrArray *__wrap_aq_md_parse(const char *text, gsize n, const char *fence, gboolean running);
GPtrArray *__wrap_aq_md_parse(const char *text, gsize n, const char *fence, gboolean running)
{
    n_parsed++;
    return __real_aq_md_parse(text, n, fence, running);
}

/* Widgets, and characters that they have. */
static void weigh(GtkWidget *in, guint *n, gsize *chars)
{
    ++*n;
    if (GTK_IS_LABEL(in))
        *chars += (gsize)g_utf8_strlen(gtk_label_get_text(GTK_LABEL(in)), -1);
    else if (GTK_IS_TEXT_VIEW(in))
        *chars +=
            (gsize)gtk_text_buffer_get_char_count(gtk_text_view_get_buffer(GTK_TEXT_VIEW(in)));
    for (GtkWidget *c = gtk_widget_get_first_child(in); c; c = gtk_widget_get_next_sibling(c))
        weigh(c, n, chars);
}

/* Whatever a model writes: a frame makes a little of it, and reads no part of it twice. */
static void test_frames(void)
{
    static const struct {
        const char *begin, *what;
        guint n;
    } cases[] = {{"", "x", 100000},
                 {"", "word ", 20000},
                 {"", "> ", 10000},
                 {"", "[", 50000},
                 {"", "- a\n", 5000},
                 {"", "*a **", 10000},
                 {"", "a [b](https://example.org/) ", 4000},
                 {"", "One two three.\n\n", 5000},
                 {"|a|b|\n|-|-|\n", "|1|2|\n", 190},
                 {"|a|b|\n|-|-|\n", "|1|2|\n", 10000},
                 {"```python\n", "y = 1\n", 10000},
                 {"```\n", "x", 100000}};
    enum { WIDGETS = 80, CHARS = 4200 };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *many = repeat(cases[i].what, cases[i].n),
                        *text = g_strconcat(cases[i].begin, many, NULL);
        GtkWidget *view = keep(g_object_new(AQ_TYPE_MARKDOWN_VIEW, NULL));
        gsize n = strlen(text), chars = 0;
        guint widgets = 0, frames = 0, most_widgets = 0, most_chars = 0;
        weigh(view, &widgets, &chars);
        n_parsed = 0;
        for (gboolean all = FALSE; !all; frames++) {
            guint w = 0;
            gsize c = 0;
            all = aq_markdown_view_update(AQ_MARKDOWN_VIEW(view), text, n, FALSE);
            weigh(view, &w, &c);
            most_widgets = MAX(most_widgets, w - widgets);
            most_chars = MAX(most_chars, (guint)(c - chars));
            widgets = w;
            chars = c;
        }
        g_test_message("%.6s: %u frames, of up to %u widgets and %u characters; parsed %u times",
                       cases[i].what, frames, most_widgets, most_chars, n_parsed);
        g_assert_cmpuint(most_widgets, <=, WIDGETS);
        g_assert_cmpuint(most_chars, <=, CHARS);
        g_assert_cmpuint(n_parsed, <=, n / (AQ_MD_PART_BYTES / 4) + 2);
        g_object_unref(view);
    }
}

/* A widget that counts how often it is measured and drawn. */
#define DRAWN_PX 50
#define TEST_TYPE_DRAWN (test_drawn_get_type())
G_DECLARE_FINAL_TYPE(TestDrawn, test_drawn, TEST, DRAWN, GtkWidget)
struct _TestDrawn {
    GtkWidget parent;
    guint n, n_measured;
};
G_DEFINE_FINAL_TYPE(TestDrawn, test_drawn, GTK_TYPE_WIDGET)

static void test_drawn_measure(GtkWidget *widget, GtkOrientation orientation, int for_size,
                               int *min, int *nat, int *min_baseline, int *nat_baseline)
{
    *min = *nat = DRAWN_PX;
    TEST_DRAWN(widget)->n_measured++;
}

static void test_drawn_snapshot(GtkWidget *widget, GtkSnapshot *snapshot)
{
    TEST_DRAWN(widget)->n++;
}

static void test_drawn_class_init(TestDrawnClass *klass)
{
    GTK_WIDGET_CLASS(klass)->measure = test_drawn_measure;
    GTK_WIDGET_CLASS(klass)->snapshot = test_drawn_snapshot;
}

static void test_drawn_init(TestDrawn *self)
{
}

static GtkWidget *column_of(guint n)
{
    GtkWidget *column = aq_column_new(0);
    for (guint i = 0; i < n; i++)
        gtk_box_append(GTK_BOX(column), g_object_new(TEST_TYPE_DRAWN, NULL));
    return column;
}

static guint count_drawn(GtkWidget *column)
{
    guint n = 0;
    for (GtkWidget *c = gtk_widget_get_first_child(column); c; c = gtk_widget_get_next_sibling(c))
        n += TEST_DRAWN(c)->n > 0;
    return n;
}

/* Only what is in view is drawn, and whatever comes into view is. */
static void test_column(void)
{
    enum { N = 400, PAGE = 400 };
    GtkWidget *window = gtk_window_new(), *scrolled = gtk_scrolled_window_new(),
              *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0), *first = column_of(N),
              *second = column_of(N);
    gtk_box_append(GTK_BOX(box), first);
    gtk_box_append(GTK_BOX(box), second);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), box);
    gtk_window_set_child(GTK_WINDOW(window), scrolled);
    gtk_window_set_default_size(GTK_WINDOW(window), 300, PAGE);
    gtk_window_present(GTK_WINDOW(window));
    gtk_test_widget_wait_for_draw(window);
    g_assert_cmpuint(count_drawn(first), >=, PAGE / DRAWN_PX);
    g_assert_cmpuint(count_drawn(first), <=, 2 * PAGE / DRAWN_PX + 2);
    g_assert_cmpuint(count_drawn(second), ==, 0);

    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(scrolled));
    gtk_adjustment_set_value(adj, (N / 2) * DRAWN_PX);
    gtk_test_widget_wait_for_draw(window);
    GtkWidget *middle = gtk_widget_get_first_child(first);
    for (guint i = 0; i < N / 2; i++)
        middle = gtk_widget_get_next_sibling(middle);
    for (guint i = 0; i < PAGE / DRAWN_PX; i++, middle = gtk_widget_get_next_sibling(middle))
        g_assert_cmpuint(TEST_DRAWN(middle)->n, >, 0);

    /* Nobody scrolls: what was far below comes up, because what was above it goes. */
    gtk_adjustment_set_value(adj, 0);
    gtk_test_widget_wait_for_draw(window);
    g_assert_cmpuint(count_drawn(second), ==, 0);
    for (GtkWidget *c = gtk_widget_get_first_child(first); c; c = gtk_widget_get_next_sibling(c))
        gtk_widget_set_visible(c, c == gtk_widget_get_first_child(first));
    gtk_test_widget_wait_for_draw(window);
    g_assert_cmpuint(count_drawn(second), >=, PAGE / DRAWN_PX - 1);
    gtk_window_destroy(GTK_WINDOW(window));

    GtkWidget *view = keep(g_object_new(AQ_TYPE_MARKDOWN_VIEW, NULL));
    need(view, AQ_TYPE_COLUMN, NULL);
    g_object_unref(view);
}

/* Chats that are not shown cost nothing when the one that is shown is laid out. */
static void test_hidden_chats(void)
{
    GtkWidget *window = keep(g_object_new(AQ_TYPE_WINDOW, NULL));
    GtkStack *stack =
        GTK_STACK(gtk_widget_get_template_child(window, AQ_TYPE_WINDOW, "chat_stack"));
    GtkWidget *shown = g_object_new(TEST_TYPE_DRAWN, NULL),
              *hidden = g_object_new(TEST_TYPE_DRAWN, NULL);
    gtk_stack_add_named(stack, shown, "shown");
    gtk_stack_add_named(stack, hidden, "hidden");
    gtk_stack_set_visible_child(stack, shown);
    for (int i = 0; i < 2; i++) {
        int min, nat;
        gtk_widget_measure(GTK_WIDGET(stack),
                           i ? GTK_ORIENTATION_VERTICAL : GTK_ORIENTATION_HORIZONTAL, -1, &min,
                           &nat, NULL, NULL);
    }
    g_assert_cmpuint(TEST_DRAWN(shown)->n_measured, >, 0);
    g_assert_cmpuint(TEST_DRAWN(hidden)->n_measured, ==, 0);
    gtk_stack_remove(stack, shown);
    gtk_stack_remove(stack, hidden);

    /* One page is visible, whichever was chosen, and also when it is chosen again. */
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    AqChat *chats[] = {chat_new(host), chat_new(host), chat_new(host)};
    GObject *sidebar = gtk_widget_get_template_child(window, AQ_TYPE_WINDOW, "sidebar");
    static const guint order[] = {0, 1, 2, 0, 0, 2};
    for (guint i = 0; i < G_N_ELEMENTS(order); i++) {
        guint n_visible = 0;
        g_signal_emit_by_name(sidebar, "selected", chats[order[i]]);
        for (GtkWidget *c = gtk_widget_get_first_child(GTK_WIDGET(stack)); c;
             c = gtk_widget_get_next_sibling(c))
            n_visible += gtk_widget_get_visible(c);
        g_assert_cmpuint(n_visible, ==, 1);
        AqChatView *view = AQ_CHAT_VIEW(gtk_stack_get_visible_child(stack));
        g_assert_true(aq_chat_view_get_chat(view) == chats[order[i]]);
    }
    gtk_window_destroy(GTK_WINDOW(window));
    g_object_unref(window);
    for (guint i = 0; i < G_N_ELEMENTS(chats); i++)
        g_object_unref(chats[i]);
}

static int width_of(GtkWidget *label, const char *text, gsize n)
{
    g_autoptr(PangoLayout) layout = gtk_widget_create_pango_layout(label, NULL);
    int width;
    pango_layout_set_text(layout, text, (int)n);
    pango_layout_get_pixel_size(layout, &width, NULL);
    return width;
}

/* The lines that a text is broken into, each behind a bar; no markup in it. */
static char *lines_of(GtkWidget *flow)
{
    GString *s = g_string_new(NULL);
    for (GtkWidget *w = gtk_widget_get_first_child(flow); w; w = gtk_widget_get_next_sibling(w)) {
        PangoLayout *layout = gtk_label_get_layout(GTK_LABEL(w));
        for (int i = 0; i < pango_layout_get_line_count(layout); i++) {
            const PangoLayoutLine *line = pango_layout_get_line_readonly(layout, i);
            g_string_append_c(s, '|');
            g_string_append_len(s, pango_layout_get_text(layout) + line->start_index, line->length);
        }
    }
    return g_string_free(s, FALSE);
}

/* Every line is as full as it can be: the next one's first word would not have fitted. */
static void assert_full(GtkWidget *flow)
{
    g_autofree char *all = lines_of(flow);
    g_auto(GStrv) lines = g_strsplit(all + 1, "|", -1);
    GtkWidget *label = gtk_widget_get_first_child(flow);
    for (guint i = 0; lines[i] && lines[i + 1]; i++) {
        gsize word = strcspn(lines[i + 1], " ");
        if (!g_str_has_suffix(lines[i], " ") || !lines[i + 1][word])
            continue; /* a line of its own, or a word that is not complete */
        g_autofree char *more = g_strndup(lines[i + 1], word);
        g_autofree char *line = g_strconcat(lines[i], more, NULL);
        if (width_of(label, line, strlen(line)) < gtk_widget_get_width(flow) - 2)
            g_error("this line is short: %s", lines[i]);
    }
}

static guint count_children(GtkWidget *w)
{
    guint n = 0;
    for (GtkWidget *c = gtk_widget_get_first_child(w); c; c = gtk_widget_get_next_sibling(c))
        n++;
    return n;
}

static void squeeze(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != ' ')
            *to++ = *s;
    *to = 0;
}

typedef struct {
    GtkWidget *window, *cut, *whole;
} Flows;

static Flows flows_new(int width)
{
    Flows f = {.window = gtk_window_new(),
               .cut = GTK_WIDGET(aq_text_flow_new(NULL, NULL)),
               .whole = GTK_WIDGET(aq_text_flow_new(NULL, NULL))};
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 0);
    gtk_box_append(GTK_BOX(box), f.cut);
    gtk_box_append(GTK_BOX(box), f.whole);
    gtk_widget_set_valign(f.cut, GTK_ALIGN_START);
    /* So that the window stays as wide as it is. */
    GtkWidget *scrolled = gtk_scrolled_window_new();
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_NEVER,
                                   GTK_POLICY_EXTERNAL);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), box);
    gtk_window_set_child(GTK_WINDOW(f.window), scrolled);
    gtk_window_set_default_size(GTK_WINDOW(f.window), width, 400);
    gtk_window_present(GTK_WINDOW(f.window));
    return f;
}

/* Text that grows, shown in pieces and as one label: the same lines at each step. How many pieces there were at most. */
static guint flow_grows(Flows *f, const char *text)
{
    gsize n = strlen(text);
    guint most = 0, same = 0, steps = 0;
    for (gsize to = 1; to <= n; to = MIN(n, to + 90) + (to == n)) {
        while (to < n && ((guchar)text[to] & 0xc0) == 0x80)
            to++;
        g_autoptr(GPtrArray) blocks = aq_md_parse(text, to, NULL, TRUE);
        const AqMdBlock *b = blocks->pdata[0];
        aq_text_flow_set(AQ_TEXT_FLOW(f->cut), b->text, TRUE);
        aq_text_flow_set(AQ_TEXT_FLOW(f->whole), b->text, FALSE);
        gtk_test_widget_wait_for_draw(f->window);
        g_autofree char *cut = lines_of(f->cut), *whole = lines_of(f->whole);
        if (!strchr(b->text, '<'))
            assert_full(f->cut);
        /* Pango itself may break a line that just fits in either way. */
        if (strcmp(cut, whole) == 0) {
            same++;
            g_assert_cmpint(ABS(gtk_widget_get_height(f->cut) - gtk_widget_get_height(f->whole)),
                            <=, 1);
        }
        g_strdelimit(cut, "|\n", ' ');
        g_strdelimit(whole, "|\n", ' ');
        squeeze(cut);
        squeeze(whole);
        g_assert_cmpstr(cut, ==, whole);
        steps++;
        g_assert_cmpuint(count_children(f->whole), ==, 1);
        most = MAX(most, count_children(f->cut));
    }
    g_assert_cmpuint(same, >=, steps / 2);
    return most;
}

static void test_text_flow(void)
{
    static const struct {
        const char *what;
        guint n;
        gboolean cut;
    } cases[] = {
        {"one two three four & five <six> seven, ", 60, TRUE},
        {"some **bold words** and `code here` and *more of it* ", 40, TRUE},
        {"words [of a link](https://example.org/a?b=1&c=2) and others ", 30, TRUE},
        {"a line of its own\nand another one\n", 50, TRUE},
        {"水の流れは速い。石は重い。", 60, TRUE},
        {"كلمات كثيرة في سطر واحد ", 50, TRUE},
        {"كلمات many words in one line ", 40, TRUE},
        {"אבג \xe2\x81\xa7 many words in one line ", 40, FALSE}, /* isolates that stay open */
        {"aVeryLongWordWithoutAnyEndOfItThatGoesOnAndOn", 40, TRUE},
    };
    Flows f = flows_new(420);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *text = repeat(cases[i].what, cases[i].n);
        guint most = flow_grows(&f, text);
        g_test_message("%s: %u pieces", cases[i].what, most);
        g_assert_cmpuint(most > 1, ==, cases[i].cut);
        aq_text_flow_set(AQ_TEXT_FLOW(f.cut), "", FALSE);
    }

    /* A span that begins at the front and is closed at the end. */
    g_autofree char *open = repeat("one two three four five, ", 40),
                    *closed = g_strconcat("x **", open, "six** seven", NULL);
    g_assert_cmpuint(flow_grows(&f, closed), >, 2);

    /* One label again, with what was selected, when it is complete and when its width is another one. */
    g_assert_cmpuint(flow_grows(&f, open), >, 2);
    GtkLabel *second = GTK_LABEL(gtk_widget_get_next_sibling(gtk_widget_get_first_child(f.cut)));
    g_autofree char *words = g_strndup(gtk_label_get_text(second), 7);
    gtk_label_select_region(second, 0, 7);
    int from, to;
    GtkLabel *one = aq_text_flow_join(AQ_TEXT_FLOW(f.cut));
    g_assert_cmpuint(count_children(f.cut), ==, 1);
    g_assert_true(gtk_label_get_selection_bounds(one, &from, &to));
    g_assert_cmpint(to - from, ==, 7);
    g_assert_true(g_str_has_prefix(gtk_label_get_text(one) + from, words));
    g_assert_cmpuint(flow_grows(&f, open), >, 2);
    gtk_window_set_default_size(GTK_WINDOW(f.window), 520, 400);
    while (count_children(f.cut) > 1)
        g_main_context_iteration(NULL, TRUE);
    gtk_window_destroy(GTK_WINDOW(f.window));
}

static void test_chat_row(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    aq_chat_set_title(chat, "Tides");
    GtkWidget *row = keep(aq_chat_row_new(chat));
    assert_role(row, LIST_ITEM);
    g_assert_true(has_name(row, "Tides"));
    need(row, GTK_TYPE_MENU_BUTTON, "Menu of “Tides”");
    aq_chat_set_title(chat, "Ebb");
    g_assert_true(has_name(row, "Ebb"));
    need(row, GTK_TYPE_MENU_BUTTON, "Menu of “Ebb”");
    g_assert_true(has_description(row, ""));
    aq_chat_set_unread(chat, TRUE);
    g_assert_true(has_description(row, "A new answer"));
    aq_chat_set_unread(chat, FALSE);
    g_assert_true(has_description(row, ""));
    g_object_unref(row);
}

/* With animations off nothing turns, also in what was there before; nothing of it is told twice. */
static void test_busy(void)
{
    GtkSettings *settings = gtk_settings_get_default();
    GtkWidget *busy = keep(g_object_new(AQ_TYPE_BUSY, NULL));
    assert_role(busy, IMG);
    for (int still = 0; still < 2; still++) {
        g_object_set(settings, "gtk-enable-animations", !still, NULL);
        GtkWidget *inner = adw_bin_get_child(ADW_BIN(busy));
        g_assert_true(still ? GTK_IS_IMAGE(inner) : ADW_IS_SPINNER(inner));
        gtk_test_accessible_assert_state(inner, GTK_ACCESSIBLE_STATE_HIDDEN, TRUE);
        g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
        g_autoptr(AqChat) chat = chat_new(host);
        g_autoptr(AqMessage) answer = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);
        GtkWidget *rows[] = {keep(aq_chat_row_new(chat)), keep(aq_message_row_new(chat, answer))};
        for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
            need(rows[i], AQ_TYPE_BUSY, NULL);
            g_assert_true(still == !find(rows[i], ADW_TYPE_SPINNER, NULL));
            g_object_unref(rows[i]);
        }
    }
    g_object_set(settings, "gtk-enable-animations", TRUE, NULL);
    g_object_unref(busy);
}

static void test_find_bar(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    GtkWidget *bar = keep(g_object_new(AQ_TYPE_FIND_BAR, NULL));
    aq_find_bar_set_chat(AQ_FIND_BAR(bar), chat);
    GtkWidget *entry = need(bar, GTK_TYPE_SEARCH_ENTRY, "Search this chat");
    assert_role(entry, SEARCH_BOX);
    g_assert_cmpuint(assert_named(bar), >=, 4);
    aq_find_bar_open(AQ_FIND_BAR(bar), "river", 0);
    settle();
    GtkWidget *next = need(bar, GTK_TYPE_BUTTON, "Next Place");
    gtk_test_accessible_assert_state(next, GTK_ACCESSIBLE_STATE_DISABLED, TRUE);
    g_object_unref(bar);
}

static void test_layer_bar(void)
{
    GtkWidget *bar = keep(g_object_new(AQ_TYPE_LAYER_BAR, NULL));
    assert_role(bar, GROUP);
    aq_layer_bar_set_part(AQ_LAYER_BAR(bar), 0, 0.5, "12 layers", "This PC: 12 layers");
    GtkWidget *part = need(bar, GTK_TYPE_LABEL, NULL);
    assert_role(part, LABEL);
    g_assert_cmpstr(gtk_label_get_text(GTK_LABEL(part)), ==, "12 layers");
    g_assert_true(gtk_widget_get_visible(part));
    aq_layer_bar_set_part(AQ_LAYER_BAR(bar), 0, 0, "", NULL);
    g_assert_false(gtk_widget_get_visible(part));
    g_object_unref(bar);
}

static void test_context_meter(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    GtkWidget *meter = keep(g_object_new(AQ_TYPE_CONTEXT_METER, NULL));
    aq_context_meter_set_chat(AQ_CONTEXT_METER(meter), chat);
    g_assert_cmpuint(assert_named(meter), ==, 3);
    for (GtkWidget *c = gtk_widget_get_first_child(need(meter, GTK_TYPE_BOX, NULL)); c;
         c = gtk_widget_get_next_sibling(c))
        g_assert_false(gtk_widget_get_visible(c)); /* nothing is known yet */
    g_object_unref(meter);
}

static void test_preset_menu(void)
{
    g_autofree char *folder = g_dir_make_tmp("aq-widgets-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "presets.json", NULL);
    g_autoptr(AqPresets) presets = aq_presets_new(path, 0.7);
    GtkWidget *menu = keep(g_object_new(AQ_TYPE_PRESET_MENU, NULL));
    aq_preset_menu_set_presets(AQ_PRESET_MENU(menu), presets);
    while (!aq_presets_get_read(presets))
        g_main_context_iteration(NULL, TRUE);
    const char *why = NULL;
    AqChatSettings settings = {.temperature = 0.5};
    g_assert_true(aq_presets_save(presets, "Terse", &settings, &why));
    settle();
    GtkWidget *list = need(menu, GTK_TYPE_LIST_BOX, "Presets");
    assert_role(list, LIST);
    need(list, GTK_TYPE_BUTTON, "Rename “Terse”");
    need(list, GTK_TYPE_BUTTON, "Delete “Terse”");
    g_assert_null(find(list, GTK_TYPE_BUTTON, "Delete “Proofreading”")); /* it came with the app */
    g_assert_cmpuint(assert_named(menu), >=, 1);
    g_assert_cmpuint(assert_named(list), >=, 4);
    g_object_unref(menu);
}

static void test_settings(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = chat_new(host);
    GtkWidget *dialog = keep(aq_settings_dialog_new(chat)),
              *child =
                  adw_dialog_get_child(ADW_DIALOG(dialog)); /* of the dialog when it is shown */
    static const char *const numbers[] = {"Temperature",   "Top P",          "Top K",
                                          "Min P",         "Repeat Penalty", "Longest Answer",
                                          "Context Length"};
    need(child, GTK_TYPE_TEXT_VIEW, "System Prompt");
    for (guint i = 0; i < G_N_ELEMENTS(numbers); i++)
        assert_role(need(child, GTK_TYPE_SPIN_BUTTON, numbers[i]), SPIN_BUTTON);
    g_assert_cmpuint(assert_named(child), >=, 10);
    g_object_unref(dialog);
}

static void test_files(void)
{
    g_autoptr(AqFile) file = aq_file_check("a.txt", "one\ntwo\n", 8, NULL);
    GtkWidget *row = keep(aq_file_row_new(file)), *expander = need(row, GTK_TYPE_EXPANDER, NULL);
    gtk_test_accessible_assert_state(expander, GTK_ACCESSIBLE_STATE_EXPANDED, FALSE);
    gtk_expander_set_expanded(GTK_EXPANDER(expander), TRUE);
    gtk_test_accessible_assert_state(expander, GTK_ACCESSIBLE_STATE_EXPANDED, TRUE);
    assert_role(need(row, GTK_TYPE_TEXT_VIEW, "a.txt"), TEXT_BOX);
    g_assert_cmpuint(assert_named(row), >=, 2);
    g_object_unref(row);
}

static void stored_end(gpointer user)
{
    *(gboolean *)user = TRUE;
}

/* A chat of n messages, loaded, and its view. */
static GtkWidget *stored_view(AqEngineHost *host, AqChatStore *store, int n, AqChat **ret_chat)
{
    AqStoreChat stored = {.id = 1000, .changed_us = 1, .leaf = 1000 + n, .title = (char *)"Long"};
    aq_chat_store_put_chat(store, &stored);
    for (int i = 1; i <= n; i++) {
        AqStoreMessage m = {.id = 1000 + i,
                            .chat = 1000,
                            .parent = i > 1 ? 999 + i : 0,
                            .role = i % 2 ? AQ_MESSAGE_USER : AQ_MESSAGE_ASSISTANT,
                            .text = (char *)"text"};
        aq_chat_store_put_message(store, &m, NULL);
    }
    AqChat *chat = *ret_chat = aq_chat_new_stored(host, store, &stored);
    GtkWidget *view = keep(GTK_WIDGET(aq_chat_view_new(chat)));
    while (!aq_chat_get_loaded(chat))
        g_main_context_iteration(NULL, TRUE);
    settle();
    return view;
}

static void end_store(AqChatStore *store)
{
    gboolean closed = FALSE;
    aq_chat_store_close(store, stored_end, &closed);
    while (!closed)
        g_main_context_iteration(NULL, TRUE);
}

/* Of a long chat a few rows are made at once, the others frame by frame. Nothing is drawn here, so there are no frames. */
static void test_rows(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChatStore) store = aq_chat_store_new(NULL);
    g_autoptr(AqChat) chat = NULL;
    GtkWidget *view = stored_view(host, store, 500, &chat);
    g_assert_cmpuint(g_list_model_get_n_items(aq_chat_get_messages(chat)), ==, 500);
    GtkListBox *list = GTK_LIST_BOX(need(view, GTK_TYPE_LIST_BOX, "Messages"));
    guint n = 0;
    while (gtk_list_box_get_row_at_index(list, (int)n))
        n++;
    g_assert_cmpuint(n, >, 0);
    g_assert_cmpuint(n, <, 10);
    AqMessageRow *last = AQ_MESSAGE_ROW(gtk_list_box_get_row_at_index(list, (int)n - 1));
    g_assert_cmpint(aq_message_get_id(aq_message_row_get_message(last)), ==, 1500);
    g_object_unref(view);
    end_store(store);
}

static gboolean scroll_up(gpointer user)
{
    gtk_adjustment_set_value(user, 0);
    return G_SOURCE_REMOVE;
}

/* The view has just asked for a frame in which it goes to the end; before that comes, somebody scrolls up. */
static void on_grown(GtkAdjustment *adj)
{
    g_idle_add_full(G_PRIORITY_HIGH, scroll_up, adj, NULL);
}

/* What grows is followed at its end only. */
static void test_follow(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChatStore) store = aq_chat_store_new(NULL);
    g_autoptr(AqChat) chat = NULL;
    GtkWidget *view = stored_view(host, store, 20, &chat), *window = gtk_window_new();
    gtk_window_set_child(GTK_WINDOW(window), view);
    gtk_window_set_default_size(GTK_WINDOW(window), 500, 400);
    gtk_window_present(GTK_WINDOW(window));
    GtkWidget *list = need(view, GTK_TYPE_LIST_BOX, "Messages");
    while (!gtk_list_box_get_row_at_index(GTK_LIST_BOX(list), 19))
        gtk_test_widget_wait_for_draw(window);
    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(
        GTK_SCROLLED_WINDOW(gtk_widget_get_ancestor(list, GTK_TYPE_SCROLLED_WINDOW)));
    GtkWidget *last = GTK_WIDGET(gtk_list_box_get_row_at_index(GTK_LIST_BOX(list), 19));
    for (int grown = 0; grown < 3; grown++) { /* ends only if it is followed */
        gtk_widget_set_margin_bottom(last, 100 * grown);
        do
            gtk_test_widget_wait_for_draw(window);
        while (gtk_adjustment_get_upper(adj) - gtk_adjustment_get_page_size(adj) <
                   200 + 100 * grown ||
               gtk_adjustment_get_value(adj) <
                   gtk_adjustment_get_upper(adj) - gtk_adjustment_get_page_size(adj));
    }
    g_signal_connect(adj, "changed", G_CALLBACK(on_grown), NULL);
    gtk_widget_set_margin_bottom(last, 300);
    for (int frame = 0; frame < 6; frame++)
        gtk_test_widget_wait_for_draw(window);
    g_assert_cmpfloat(gtk_adjustment_get_value(adj), ==, 0);
    g_signal_handlers_disconnect_by_func(adj, on_grown, NULL);
    gtk_window_destroy(GTK_WINDOW(window));
    g_object_unref(view);
    end_store(store);
}

static void test_welcome(void)
{
    GtkWidget *welcome = keep(aq_welcome_new(TRUE));
    assert_role(welcome, DIALOG);
    g_assert_cmpuint(assert_named(adw_dialog_get_child(ADW_DIALOG(welcome))), >=, 3);
    g_object_unref(welcome);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    gtk_source_init();
    adw_init();
    g_test_add_func("/app/widgets/composer", test_composer);
    g_test_add_func("/app/widgets/paste", test_paste);
    g_test_add_func("/app/widgets/message row", test_message_row);
    g_test_add_func("/app/widgets/busy", test_busy);
    g_test_add_func("/app/widgets/markdown", test_markdown);
    g_test_add_func("/app/widgets/code", test_code);
    g_test_add_func("/app/widgets/frames", test_frames);
    g_test_add_func("/app/widgets/column", test_column);
    g_test_add_func("/app/widgets/hidden chats", test_hidden_chats);
    g_test_add_func("/app/widgets/text flow", test_text_flow);
    g_test_add_func("/app/widgets/chat row", test_chat_row);
    g_test_add_func("/app/widgets/find bar", test_find_bar);
    g_test_add_func("/app/widgets/layer bar", test_layer_bar);
    g_test_add_func("/app/widgets/context meter", test_context_meter);
    g_test_add_func("/app/widgets/preset menu", test_preset_menu);
    g_test_add_func("/app/widgets/settings", test_settings);
    g_test_add_func("/app/widgets/file", test_files);
    g_test_add_func("/app/widgets/rows", test_rows);
    g_test_add_func("/app/widgets/follow", test_follow);
    g_test_add_func("/app/widgets/welcome", test_welcome);
    return g_test_run();
}
