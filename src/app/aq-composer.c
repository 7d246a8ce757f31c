/* SPDX-License-Identifier: Apache-2.0 */
/* Where a question is written.
 *
 *   typed, dropped ──insert-text──▶ short: the buffer
 *   pasted ──read as text─────────▶ long: an AqFile ──▶ the draft's files ──▶ chips
 *   files (button, dropped) ──worker: read, checked──▶ the draft's files, or a notice that says what is wrong
 */
#include "aq-composer.h"

#include <glib/gi18n.h>
#include <gtksourceview/gtksource.h>
#include <string.h>

#include "aq-file-chip.h"
#include "aq-paths.h"
#include "aq-spelling.h"

#define DRAFT_MS 400
#define NOTICES_MAX 4 /* lines: a folder of pictures was dropped */

struct _AqComposer {
    AdwBin parent;
    GtkWidget *notice, *notice_label, *chips, *entry, *placeholder, *send, *stop;
    AqChat *chat;
    guint draft_timer, n_notice, n_pasted;
    gboolean preedit;
};

G_DEFINE_FINAL_TYPE(AqComposer, aq_composer, ADW_TYPE_BIN)

static guint signal_changed, signal_drafted;

static GtkTextBuffer *buffer_of(AqComposer *self)
{
    return gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->entry));
}

char *aq_composer_get_text(AqComposer *self)
{
    GtkTextIter start, end;
    gtk_text_buffer_get_bounds(buffer_of(self), &start, &end);
    return gtk_text_buffer_get_text(buffer_of(self), &start, &end, FALSE);
}

static void changed(AqComposer *self)
{
    g_signal_emit(self, signal_changed, 0);
}

/* ---- notices -------------------------------------------------------------------------------- */

static void hush(AqComposer *self)
{
    self->n_notice = 0;
    gtk_widget_set_visible(self->notice, FALSE);
}

static void on_notice_close(AqComposer *self)
{
    hush(self);
    aq_composer_focus(self);
}

static void tell(AqComposer *self, const char *text)
{
    if (self->n_notice >= NOTICES_MAX)
        return;
    const char *before = self->n_notice ? gtk_label_get_text(GTK_LABEL(self->notice_label)) : "";
    g_autofree char *all = g_strconcat(before, self->n_notice ? "\n" : "", text, NULL);
    self->n_notice++;
    gtk_label_set_text(GTK_LABEL(self->notice_label), all);
    gtk_widget_set_visible(self->notice, TRUE);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
}

/* ---- draft ---------------------------------------------------------------------------------- */

static gboolean keep_draft(gpointer user)
{
    AqComposer *self = user;
    g_autofree char *text = aq_composer_get_text(self);
    self->draft_timer = 0;
    aq_chat_set_draft(self->chat, text);
    g_signal_emit(self, signal_drafted, 0);
    return G_SOURCE_REMOVE;
}

/* What was written a moment ago waits for the timer yet; the window's widgets outlive the store. */
static void keep_now(AqComposer *self)
{
    if (!self->draft_timer)
        return;
    g_source_remove(self->draft_timer);
    keep_draft(self);
}

static void keep_later(AqComposer *self)
{
    if (!self->draft_timer)
        self->draft_timer = g_timeout_add(DRAFT_MS, keep_draft, self);
}

static void show_placeholder(AqComposer *self)
{
    gtk_widget_set_visible(self->placeholder,
                           !self->preedit && gtk_text_buffer_get_char_count(buffer_of(self)) == 0);
}

static void on_text(AqComposer *self)
{
    if (!self->chat)
        return;
    keep_later(self);
    show_placeholder(self);
    changed(self);
}

/* What an input method is composing is not in the buffer yet, and would lie over the placeholder. */
static void on_preedit(AqComposer *self, const char *preedit)
{
    self->preedit = preedit && *preedit;
    show_placeholder(self);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void tell_most(AqComposer *self)
{
    g_autofree char *text =
        g_strdup_printf(ngettext("At most %d file can be attached.",
                                 "At most %d files can be attached.", AQ_FILES_MAX),
                        AQ_FILES_MAX);
    tell(self, text);
}

static gboolean add_file(AqComposer *self, AqFile *file)
{
    if (aq_chat_add_draft_file(self->chat, file))
        return TRUE;
    tell_most(self);
    return FALSE;
}

static void file_read(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(AqComposer) self = user;
    g_autoptr(GError) error = NULL;
    g_autoptr(AqFile) file = aq_file_read_finish(result, &error);
    if (!self->chat)
        return;
    if (file)
        add_file(self, file);
    else
        tell(self, error->message);
}

void aq_composer_attach(AqComposer *self, GSList *files)
{
    guint n = 0;
    hush(self);
    for (GSList *f = files; f; f = f->next) {
        if (++n > AQ_FILES_MAX) {
            tell_most(self);
            return;
        }
        aq_file_read_async(f->data, NULL, file_read, g_object_ref(self));
    }
}

static void files_chosen(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autoptr(AqComposer) self = user;
    g_autoptr(GListModel) chosen =
        gtk_file_dialog_open_multiple_finish(GTK_FILE_DIALOG(source), result, NULL);
    guint n = chosen ? g_list_model_get_n_items(chosen) : 0;
    GSList *files = NULL;
    for (guint i = 0; i < n; i++)
        files = g_slist_prepend(files, g_list_model_get_item(chosen, i));
    files = g_slist_reverse(files);
    if (self->chat && files)
        aq_composer_attach(self, files);
    g_slist_free_full(files, g_object_unref);
    if (self->chat)
        aq_composer_focus(self);
}

static void on_attach(AqComposer *self)
{
    g_autoptr(GtkFileDialog) dialog = gtk_file_dialog_new();
    gtk_file_dialog_set_title(dialog, _("Attach Text Files"));
    gtk_file_dialog_set_accept_label(dialog, _("_Attach"));
    gtk_file_dialog_open_multiple(dialog, GTK_WINDOW(gtk_widget_get_root(GTK_WIDGET(self))), NULL,
                                  files_chosen, g_object_ref(self));
}

/* However it comes in: a long text does not reach the buffer, but is attached. FALSE: it is short enough. */
static gboolean attach_long(AqComposer *self, const char *text, gsize n)
{
    gsize there = (gsize)gtk_text_buffer_get_char_count(buffer_of(self));
    if (n <= AQ_COMPOSER_PASTE_BYTES && there + n <= AQ_COMPOSER_TEXT_BYTES)
        return FALSE;
    /* Translators: name of a file that a pasted text becomes; a number */
    g_autofree char *name = g_strdup_printf(_("Pasted Text %u.txt"), ++self->n_pasted);
    g_autoptr(GError) error = NULL;
    g_autoptr(AqFile) file = aq_file_check(name, text, n, &error);
    hush(self);
    if (!file)
        tell(self, error->message);
    else if (add_file(self, file))
        tell(self, _("The text is long, so it was attached as a file."));
    return TRUE;
}

static void on_insert(GtkTextBuffer *buffer, GtkTextIter *at, const char *text, int n,
                      AqComposer *self)
{
    if (self->chat && attach_long(self, text, n < 0 ? strlen(text) : (gsize)n))
        g_signal_stop_emission_by_name(buffer, "insert-text");
}

/* ---- paste ---------------------------------------------------------------------------------- */

/* A text view would make a buffer of what is in the clipboard before it inserts that: with 10 MB the window stood still for a second. So it
 * is read as text here. */
typedef struct {
    AqComposer *self;
    GtkTextMark *at; /* NULL: at the cursor, in the place of what is selected */
} Paste;

static void paste_read(GObject *source, GAsyncResult *result, gpointer user)
{
    g_autofree Paste *paste = user;
    g_autoptr(AqComposer) self = paste->self;
    g_autoptr(GtkTextMark) mark = paste->at;
    g_autofree char *text = gdk_clipboard_read_text_finish(GDK_CLIPBOARD(source), result, NULL);
    gsize n = text ? strlen(text) : 0;
    if (!self->chat)
        return;
    GtkTextBuffer *buffer = buffer_of(self);
    gboolean here = !mark || !gtk_text_mark_get_deleted(mark);
    if (n && here && !attach_long(self, text, n)) {
        GtkTextMark *to = mark ? mark : gtk_text_buffer_get_insert(buffer);
        GtkTextIter at;
        gtk_text_buffer_begin_user_action(buffer);
        if (!mark)
            gtk_text_buffer_delete_selection(buffer, TRUE, TRUE);
        gtk_text_buffer_get_iter_at_mark(buffer, &at, to);
        gtk_text_buffer_insert_interactive(buffer, &at, text, (int)n, TRUE);
        gtk_text_buffer_end_user_action(buffer);
        gtk_text_view_scroll_mark_onscreen(GTK_TEXT_VIEW(self->entry), to);
    }
    if (mark && here)
        gtk_text_buffer_delete_mark(buffer, mark);
}

static void paste(AqComposer *self, GdkClipboard *clipboard, const GtkTextIter *at)
{
    Paste *p = g_new0(Paste, 1);
    p->self = g_object_ref(self);
    p->at = at ? g_object_ref(gtk_text_buffer_create_mark(buffer_of(self), NULL, at, FALSE)) : NULL;
    gdk_clipboard_read_text_async(clipboard, NULL, paste_read, p);
}

static void on_paste(AqComposer *self)
{
    g_signal_stop_emission_by_name(self->entry, "paste-clipboard");
    paste(self, gtk_widget_get_clipboard(self->entry), NULL);
}

/* What is selected somewhere, by the middle button. */
static void on_middle(GtkGestureClick *click, int n_press, double x, double y, AqComposer *self)
{
    GtkTextView *view = GTK_TEXT_VIEW(self->entry);
    gboolean enabled;
    int bx, by;
    GtkTextIter at;
    g_object_get(gtk_widget_get_settings(self->entry), "gtk-enable-primary-paste", &enabled, NULL);
    if (!enabled)
        return;
    gtk_gesture_set_state(GTK_GESTURE(click), GTK_EVENT_SEQUENCE_CLAIMED);
    gtk_widget_grab_focus(self->entry);
    gtk_text_view_window_to_buffer_coords(view, GTK_TEXT_WINDOW_WIDGET, (int)x, (int)y, &bx, &by);
    gtk_text_view_get_iter_at_location(view, &at, bx, by);
    paste(self, gtk_widget_get_primary_clipboard(self->entry), &at);
}

void aq_composer_insert(AqComposer *self, const char *text)
{
    gtk_text_buffer_insert_at_cursor(buffer_of(self), text, -1);
    aq_composer_focus(self);
}

static void on_chip_remove(AqComposer *self, AqFileChip *chip)
{
    g_autoptr(AqFile) file = g_object_ref(aq_file_chip_get_file(chip));
    /* The button that was pressed goes: the focus is where it stays. */
    aq_composer_focus(self);
    hush(self);
    aq_chat_remove_draft_file(self->chat, file);
}

static void on_files(AqComposer *self, guint position, guint removed, guint added)
{
    GListModel *files = aq_chat_get_draft_files(self->chat);
    GtkWidget *chip = gtk_widget_get_first_child(self->chips);
    for (guint i = 0; chip && i < position; i++)
        chip = gtk_widget_get_next_sibling(chip);
    for (guint i = 0; chip && i < removed; i++) {
        GtkWidget *next = gtk_widget_get_next_sibling(chip);
        adw_wrap_box_remove(ADW_WRAP_BOX(self->chips), chip);
        chip = next;
    }
    /* Files are only ever added at the end. */
    for (guint i = position; i < position + added; i++) {
        g_autoptr(AqFile) file = g_list_model_get_item(files, i);
        GtkWidget *fresh = GTK_WIDGET(aq_file_chip_new(file, aq_chat_get_host(self->chat)));
        g_signal_connect_object(fresh, "remove", G_CALLBACK(on_chip_remove), self,
                                G_CONNECT_SWAPPED);
        g_signal_connect_object(fresh, "counted", G_CALLBACK(changed), self, G_CONNECT_SWAPPED);
        adw_wrap_box_append(ADW_WRAP_BOX(self->chips), fresh);
    }
    gtk_widget_set_visible(self->chips, g_list_model_get_n_items(files) > 0);
    keep_later(self);
    changed(self);
}

/* ---- send ----------------------------------------------------------------------------------- */

gboolean aq_composer_can_send(AqComposer *self, const char **ret_why)
{
    g_autofree char *text = aq_composer_get_text(self);
    gboolean files = FALSE;
    if (ret_why)
        *ret_why = NULL;
    for (GtkWidget *c = gtk_widget_get_first_child(self->chips); c;
         c = gtk_widget_get_next_sibling(c)) {
        files = TRUE;
        if (!aq_file_chip_is_too_large(AQ_FILE_CHIP(c)))
            continue;
        if (ret_why)
            *ret_why = _("A file is larger than the context: remove it");
        return FALSE;
    }
    return files || *g_strstrip(text);
}

void aq_composer_show_busy(AqComposer *self, gboolean busy, const char *send_tooltip)
{
    gtk_widget_set_visible(self->send, !busy);
    gtk_widget_set_visible(self->stop, busy);
    gtk_widget_set_tooltip_text(self->send, send_tooltip);
}

void aq_composer_clear(AqComposer *self)
{
    hush(self);
    self->n_pasted = 0;
    gtk_text_view_reset_im_context(GTK_TEXT_VIEW(self->entry));
    gtk_text_buffer_set_text(buffer_of(self), "", 0);
    aq_composer_focus(self);
}

void aq_composer_focus(AqComposer *self)
{
    gtk_widget_grab_focus(self->entry);
}

static gboolean on_key(GtkEventControllerKey *controller, guint keyval, guint keycode,
                       GdkModifierType state, AqComposer *self)
{
    if (keyval != GDK_KEY_Return && keyval != GDK_KEY_KP_Enter && keyval != GDK_KEY_ISO_Enter)
        return GDK_EVENT_PROPAGATE;
    if (state & (GDK_SHIFT_MASK | GDK_CONTROL_MASK | GDK_ALT_MASK))
        return GDK_EVENT_PROPAGATE;
    /* An input method that is composing takes Enter for itself. */
    GdkEvent *event = gtk_event_controller_get_current_event(GTK_EVENT_CONTROLLER(controller));
    if (event && gtk_text_view_im_context_filter_keypress(GTK_TEXT_VIEW(self->entry), event))
        return GDK_EVENT_STOP;
    gtk_widget_activate_action(GTK_WIDGET(self), "chat.send", NULL);
    return GDK_EVENT_STOP;
}

/* ---- life ----------------------------------------------------------------------------------- */

void aq_composer_set_chat(AqComposer *self, AqChat *chat)
{
    g_return_if_fail(AQ_IS_COMPOSER(self) && !self->chat);
    GListModel *files = aq_chat_get_draft_files(chat);
    /* What was kept is not a paste. */
    gtk_text_buffer_set_text(buffer_of(self), aq_chat_get_draft(chat), -1);
    self->chat = g_object_ref(chat);
    show_placeholder(self);
    g_signal_connect_object(chat, "ending", G_CALLBACK(keep_now), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(files, "items-changed", G_CALLBACK(on_files), self, G_CONNECT_SWAPPED);
    if (g_list_model_get_n_items(files))
        on_files(self, 0, 0, g_list_model_get_n_items(files));
}

static void aq_composer_dispose(GObject *object)
{
    AqComposer *self = AQ_COMPOSER(object);
    keep_now(self);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_COMPOSER);
    g_clear_object(&self->chat);
    G_OBJECT_CLASS(aq_composer_parent_class)->dispose(object);
}

static void aq_composer_class_init(AqComposerClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_composer_dispose;
    signal_changed =
        g_signal_new("changed", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_drafted =
        g_signal_new("drafted", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-composer.ui");
    gtk_widget_class_bind_template_child(widget_class, AqComposer, notice);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, notice_label);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, chips);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, entry);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, placeholder);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, send);
    gtk_widget_class_bind_template_child(widget_class, AqComposer, stop);
    gtk_widget_class_bind_template_callback(widget_class, on_notice_close);
    gtk_widget_class_bind_template_callback(widget_class, on_attach);
}

static void aq_composer_init(AqComposer *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    /* A plain buffer would do, but the checking of words takes this one. */
    g_autoptr(GtkSourceBuffer) buffer = gtk_source_buffer_new(NULL);
    gtk_source_buffer_set_highlight_syntax(buffer, FALSE);
    gtk_source_buffer_set_highlight_matching_brackets(buffer, FALSE);
    gtk_source_buffer_set_style_scheme(buffer, NULL);
    gtk_text_view_set_buffer(GTK_TEXT_VIEW(self->entry), GTK_TEXT_BUFFER(buffer));
    g_autoptr(GSettings) settings = aq_paths_settings();
    aq_spelling_attach(GTK_TEXT_VIEW(self->entry), settings);

    GtkEventController *key = gtk_event_controller_key_new();
    gtk_event_controller_set_propagation_phase(key, GTK_PHASE_CAPTURE);
    g_signal_connect(key, "key-pressed", G_CALLBACK(on_key), self);
    gtk_widget_add_controller(self->entry, key);
    GtkGesture *middle = gtk_gesture_click_new();
    gtk_gesture_single_set_button(GTK_GESTURE_SINGLE(middle), GDK_BUTTON_MIDDLE);
    gtk_event_controller_set_propagation_phase(GTK_EVENT_CONTROLLER(middle), GTK_PHASE_CAPTURE);
    g_signal_connect(middle, "pressed", G_CALLBACK(on_middle), self);
    gtk_widget_add_controller(self->entry, GTK_EVENT_CONTROLLER(middle));
    g_signal_connect_object(self->entry, "paste-clipboard", G_CALLBACK(on_paste), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(buffer, "insert-text", G_CALLBACK(on_insert), self, 0);
    g_signal_connect_object(buffer, "changed", G_CALLBACK(on_text), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(self->entry, "preedit-changed", G_CALLBACK(on_preedit), self,
                            G_CONNECT_SWAPPED);
}
