/* SPDX-License-Identifier: Apache-2.0 */
/* One message: its text, below it what went wrong, what it cost, what can be done with it.
 *
 * The message may change many times between two frames; the row follows at most RATE_HZ times a second, and then makes anew only what is
 * different. A row that is not on screen follows when it comes into view. */
#include "aq-message-row.h"

#include <glib/gi18n.h>

#include "aq-busy.h"
#include "aq-column.h"
#include "aq-composer.h"
#include "aq-file-row.h"
#include "aq-format.h"
#include "aq-markdown-view.h"
#include "aq-message-menu.h"

#define RATE_HZ 30
#define FRAME_US 3000                             /* of making widgets, in one frame, by all rows */
#define FOLLOW_PRIORITY (GDK_PRIORITY_REDRAW - 5) /* after GTK's resizes, before the next frame */

struct _AqMessageRow {
    GtkListBoxRow parent;
    GtkWidget *thinking, *thinking_text, *files, *text, *edit, *edit_text, *wait, *wait_label,
        *failure, *failure_label, *retry, *fresh, *foot, *branch, *branch_label, *previous, *next,
        *copy, *change, *again, *go_on, *delete, *stats;
    AqChat *chat;
    AqMessage *message;
    gint64 updated_us;  /* frame time */
    guint tick, follow; /* follow: of an answer that grows */
    gboolean last, was_running, unsaved, editing;
};

G_DEFINE_FINAL_TYPE(AqMessageRow, aq_message_row, GTK_TYPE_LIST_BOX_ROW)

/* FALSE while there is more to show in the next frame. */
static gboolean show_text(AqMessageRow *self, gboolean running)
{
    gsize n, n_think;
    const char *text = aq_message_get_text(self->message, &n);
    const char *think = aq_message_get_thinking(self->message, &n_think);
    gtk_widget_set_visible(self->thinking, n_think > 0);
    gtk_widget_set_visible(self->text, n > 0 && !self->editing);
    gboolean all = aq_markdown_view_update(AQ_MARKDOWN_VIEW(self->text), text, n, running);
    /* What nobody looks at is not laid out. */
    if (n_think && gtk_expander_get_expanded(GTK_EXPANDER(self->thinking)))
        all = aq_markdown_view_update(AQ_MARKDOWN_VIEW(self->thinking_text), think, n_think,
                                      running) &&
              all;
    return all;
}

static char *stats_text(AqMessage *message)
{
    AqMessageState state = aq_message_get_state(message);
    const aq_usage *usage = aq_message_get_usage(message);
    g_autofree char *numbers = usage ? aq_format_usage(usage) : NULL;
    const char *why = state == AQ_MESSAGE_STOPPED ? _("Stopped")
                      : state == AQ_MESSAGE_FULL  ? _("Cut off: the context is full")
                                                  : NULL;
    if (why && numbers)
        return g_strdup_printf("%s · %s", why, numbers);
    return why ? g_strdup(why) : g_steal_pointer(&numbers);
}

static void show_branch(AqMessageRow *self)
{
    guint at, n = aq_chat_get_branches(self->chat, self->message, &at);
    gtk_widget_set_visible(self->branch, n > 1);
    if (n < 2)
        return;
    /* Translators: which of several versions of a message is shown */
    g_autofree char *text = g_strdup_printf(_("%u/%u"), at + 1, n);
    gtk_label_set_text(GTK_LABEL(self->branch_label), text);
}

static void update_actions(AqMessageRow *self)
{
    GtkWidget *w = GTK_WIDGET(self);
    AqMessageState state = aq_message_get_state(self->message);
    gboolean answer = aq_message_get_role(self->message) == AQ_MESSAGE_ASSISTANT;
    gboolean idle = !aq_chat_get_busy(self->chat);
    gboolean can = idle && aq_engine_host_can_answer(aq_chat_get_host(self->chat));
    guint at, n = aq_chat_get_branches(self->chat, self->message, &at);
    gsize n_text;
    aq_message_get_text(self->message, &n_text);
    gboolean fits = n_text <= AQ_COMPOSER_TEXT_BYTES; /* an imported one may not */
    gtk_widget_action_set_enabled(w, "message.edit", can && !answer && fits);
    gtk_widget_set_tooltip_text(self->change, fits ? _("Edit and Ask Anew")
                                                   : _("Too long to be edited here: copy it"));
    gtk_widget_action_set_enabled(w, "message.again", can && answer);
    gtk_widget_action_set_enabled(w, "message.continue",
                                  can && self->last && aq_chat_can_continue(self->chat));
    gtk_widget_action_set_enabled(w, "message.delete", idle);
    gtk_widget_action_set_enabled(w, "message.previous", idle && n > 1 && at > 0);
    gtk_widget_action_set_enabled(w, "message.next", idle && n > 1 && at + 1 < n);
    gtk_widget_set_visible(self->go_on,
                           self->last && (state == AQ_MESSAGE_STOPPED || state == AQ_MESSAGE_FULL));
}

/* FALSE while there is more to show in the next frame. */
static gboolean update(AqMessageRow *self)
{
    AqMessage *m = self->message;
    AqMessageState state = aq_message_get_state(m);
    gboolean answer = aq_message_get_role(m) == AQ_MESSAGE_ASSISTANT;
    gboolean running = aq_message_is_running(m);
    gboolean failed = state == AQ_MESSAGE_FAILED;

    gboolean all = show_text(self, running);
    gtk_widget_set_visible(self->wait, state == AQ_MESSAGE_WAITING);
    if (state == AQ_MESSAGE_WAITING) {
        g_autofree char *wait = aq_message_describe_wait(m);
        gtk_label_set_text(GTK_LABEL(self->wait_label), wait);
    }
    gtk_widget_set_visible(self->failure, failed);
    if (failed) {
        /* Asking the same again is no help when the chat is too long. */
        gboolean too_long = aq_message_get_error_code(m) == AQ_E_LIMIT;
        g_autofree char *why = g_utf8_make_valid(aq_message_get_error(m), -1);
        /* Translators: a sentence that says why and what to do */
        g_autofree char *text = g_strdup_printf(_("Not answered: %s"), why);
        gtk_label_set_text(GTK_LABEL(self->failure_label), text);
        gtk_widget_set_visible(self->retry, self->last && !too_long);
        gtk_widget_set_visible(self->fresh, too_long);
    }
    gtk_widget_set_visible(self->foot, !running && !failed && !self->editing);
    gtk_widget_set_visible(self->again, answer);
    gtk_widget_set_visible(self->change, !answer);
    show_branch(self);
    update_actions(self);
    g_autofree char *stats = stats_text(m);
    gtk_label_set_text(GTK_LABEL(self->stats), stats ? stats : "");
    gtk_widget_set_visible(self->stats, stats != NULL);

    gboolean unsaved = !answer && !aq_message_get_saved(m);
    if (unsaved != self->unsaved) {
        self->unsaved = unsaved;
        if (unsaved)
            gtk_widget_add_css_class(GTK_WIDGET(self), "unsaved");
        else
            gtk_widget_remove_css_class(GTK_WIDGET(self), "unsaved");
        gtk_widget_set_tooltip_text(GTK_WIDGET(self), unsaved ? _("Not saved yet") : NULL);
        gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_DESCRIPTION,
                                       unsaved ? _("Not saved yet") : "", -1);
    }

    if (self->was_running && !running)
        gtk_accessible_announce(GTK_ACCESSIBLE(self),
                                failed ? _("The answer failed") : _("The answer is complete"),
                                GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
    self->was_running = running;
    return all;
}

/* All rows share what a frame may take: TRUE when it has been taken. */
static gboolean frame_spent(GdkFrameClock *clock, gint64 add_us)
{
    typedef struct {
        gint64 frame, spent_us;
    } Spent;
    Spent *spent = g_object_get_data(G_OBJECT(clock), "aq-spent");
    if (!spent) {
        spent = g_new0(Spent, 1);
        g_object_set_data_full(G_OBJECT(clock), "aq-spent", spent, g_free);
    }
    gint64 frame = gdk_frame_clock_get_frame_counter(clock);
    if (spent->frame != frame)
        *spent = (Spent){.frame = frame};
    spent->spent_us += add_us;
    return spent->spent_us > FRAME_US;
}

/* FALSE while there is more to show. */
static gboolean update_in_time(AqMessageRow *self, GdkFrameClock *clock)
{
    gint64 begin = g_get_monotonic_time();
    gboolean all = update(self);
    frame_spent(clock, g_get_monotonic_time() - begin);
    return all;
}

static gboolean on_follow(gpointer user)
{
    AqMessageRow *self = user;
    GdkFrameClock *clock = gtk_widget_get_frame_clock(GTK_WIDGET(self));
    self->follow = 0;
    if (!clock || !self->tick || frame_spent(clock, 0)) {
        self->updated_us = 0; /* the next frame asks again */
    } else if (update_in_time(self, clock)) {
        gtk_widget_remove_tick_callback(GTK_WIDGET(self), self->tick);
        self->tick = 0;
    }
    return G_SOURCE_REMOVE;
}

static gboolean on_frame(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqMessageRow *self = AQ_MESSAGE_ROW(widget);
    gint64 now = gdk_frame_clock_get_frame_time(clock);
    if (frame_spent(clock, 0) || self->follow)
        return G_SOURCE_CONTINUE;
    if (now - self->updated_us < G_USEC_PER_SEC / RATE_HZ && now >= self->updated_us)
        return G_SOURCE_CONTINUE;
    self->updated_us = now;
    /* A text that grows is set after this frame, and laid out and drawn in the next one: a turn of its own leaves time for events between. */
    if (self->was_running && aq_message_is_running(self->message)) {
        self->follow = g_idle_add_full(FOLLOW_PRIORITY, on_follow, self, NULL);
        return G_SOURCE_CONTINUE;
    }
    if (!update_in_time(self, clock))
        return G_SOURCE_CONTINUE;
    self->tick = 0;
    return G_SOURCE_REMOVE;
}

static void on_changed(AqMessageRow *self)
{
    /* A row that is not on screen has no frames: it catches up when it is mapped. */
    if (!self->tick && gtk_widget_get_mapped(GTK_WIDGET(self)))
        self->tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), on_frame, NULL, NULL);
}

static void aq_message_row_map(GtkWidget *widget)
{
    GTK_WIDGET_CLASS(aq_message_row_parent_class)->map(widget);
    on_changed(AQ_MESSAGE_ROW(widget));
}

static void on_expanded(AqMessageRow *self)
{
    on_changed(self);
}

static void show_files(AqMessageRow *self)
{
    GPtrArray *files = aq_message_get_files(self->message);
    gtk_widget_set_visible(self->files, files != NULL);
    for (guint i = 0; files && i < files->len; i++)
        gtk_box_append(GTK_BOX(self->files), GTK_WIDGET(aq_file_row_new(files->pdata[i])));
}

/* ---- actions -------------------------------------------------------------------------------- */

static void copy_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    gdk_clipboard_set_text(gtk_widget_get_clipboard(widget),
                           aq_message_get_text(AQ_MESSAGE_ROW(widget)->message, NULL));
    gtk_accessible_announce(GTK_ACCESSIBLE(widget), _("Copied"),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_LOW);
}

/* What takes rows away happens when the button that asked for it is done. */
typedef struct {
    AqChat *chat;
    AqMessage *message;
    int kind; /* -1, 1: another version; 0: ask again */
} Later;

static void do_later(gpointer user)
{
    Later *later = user;
    if (later->kind)
        aq_chat_step_branch(later->chat, later->message, later->kind);
    else
        aq_chat_ask_again(later->chat, later->message);
    g_object_unref(later->chat);
    g_object_unref(later->message);
    g_free(later);
}

static void ask_later(GtkWidget *widget, int kind)
{
    AqMessageRow *self = AQ_MESSAGE_ROW(widget);
    Later *later = g_new0(Later, 1);
    later->chat = g_object_ref(self->chat);
    later->message = g_object_ref(self->message);
    later->kind = kind;
    /* The row may go: the focus is where it stays. */
    gtk_widget_activate_action(widget, "chat.focus-entry", NULL);
    g_idle_add_once(do_later, later);
}

static void again_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    ask_later(widget, 0);
}

static void continue_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_chat_continue(AQ_MESSAGE_ROW(widget)->chat);
}

static void previous_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    ask_later(widget, -1);
}

static void next_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    ask_later(widget, 1);
}

static void set_editing(AqMessageRow *self, gboolean editing)
{
    self->editing = editing;
    gtk_widget_set_visible(self->edit, editing);
    update(self);
    if (editing) {
        gtk_text_buffer_set_text(gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->edit_text)),
                                 aq_message_get_text(self->message, NULL), -1);
        gtk_widget_grab_focus(self->edit_text);
    }
}

static void edit_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    set_editing(AQ_MESSAGE_ROW(widget), TRUE);
}

static void on_edit_cancel(AqMessageRow *self)
{
    set_editing(self, FALSE);
}

static void on_edit_done(AqMessageRow *self)
{
    GtkTextBuffer *buffer = gtk_text_view_get_buffer(GTK_TEXT_VIEW(self->edit_text));
    g_autoptr(AqMessage) message = g_object_ref(self->message);
    g_autoptr(AqChat) chat = g_object_ref(self->chat);
    GtkTextIter start, end;
    gtk_text_buffer_get_bounds(buffer, &start, &end);
    g_autofree char *text = gtk_text_buffer_get_text(buffer, &start, &end, FALSE);
    set_editing(self, FALSE);
    gtk_widget_activate_action(GTK_WIDGET(self), "chat.focus-entry", NULL);
    aq_chat_edit(chat, message, text);
}

static void delete_answered(AdwAlertDialog *dialog, const char *response, AqMessageRow *self)
{
    if (!g_str_equal(response, "delete") || !self->chat)
        return;
    gtk_widget_activate_action(GTK_WIDGET(self), "chat.focus-entry", NULL);
    aq_chat_delete_message(self->chat, self->message);
}

static void delete_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AdwDialog *dialog = adw_alert_dialog_new(
        _("Delete From Here?"),
        _("This message and all that follow it will be deleted, with their other versions."));
    AdwAlertDialog *alert = ADW_ALERT_DIALOG(dialog);
    adw_alert_dialog_add_responses(alert, "cancel", _("_Cancel"), "delete", _("_Delete"), NULL);
    adw_alert_dialog_set_response_appearance(alert, "delete", ADW_RESPONSE_DESTRUCTIVE);
    adw_alert_dialog_set_close_response(alert, "cancel");
    g_signal_connect_object(alert, "response", G_CALLBACK(delete_answered), widget, 0);
    adw_dialog_present(dialog, widget);
}

AqMessage *aq_message_row_get_message(AqMessageRow *self)
{
    return self->message;
}

void aq_message_row_set_last(AqMessageRow *self, gboolean last)
{
    g_return_if_fail(AQ_IS_MESSAGE_ROW(self));
    if (self->last == last)
        return;
    self->last = last;
    on_changed(self);
}

void aq_message_row_set_find(AqMessageRow *self, AqFind *find)
{
    g_return_if_fail(AQ_IS_MESSAGE_ROW(self));
    aq_markdown_view_set_find(AQ_MARKDOWN_VIEW(self->text), find);
    aq_markdown_view_set_find(AQ_MARKDOWN_VIEW(self->thinking_text), find);
}

GtkWidget *aq_message_row_go_to(AqMessageRow *self, gboolean thinking, const AqFindPlace *place,
                                graphene_rect_t *ret)
{
    g_return_val_if_fail(AQ_IS_MESSAGE_ROW(self), NULL);
    GtkWidget *here = thinking ? self->thinking_text : self->text;
    aq_markdown_view_go_to(AQ_MARKDOWN_VIEW(thinking ? self->text : self->thinking_text), NULL,
                           ret);
    if (place && thinking)
        gtk_expander_set_expanded(GTK_EXPANDER(self->thinking), TRUE);
    return aq_markdown_view_go_to(AQ_MARKDOWN_VIEW(here), place, ret);
}

static void aq_message_row_dispose(GObject *object)
{
    AqMessageRow *self = AQ_MESSAGE_ROW(object);
    if (self->tick)
        gtk_widget_remove_tick_callback(GTK_WIDGET(self), self->tick);
    self->tick = 0;
    g_clear_handle_id(&self->follow, g_source_remove);
    g_clear_object(&self->message);
    g_clear_object(&self->chat);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_MESSAGE_ROW);
    G_OBJECT_CLASS(aq_message_row_parent_class)->dispose(object);
}

static void aq_message_row_class_init(AqMessageRowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_message_row_dispose;
    widget_class->map = aq_message_row_map;
    g_type_ensure(AQ_TYPE_BUSY);
    g_type_ensure(AQ_TYPE_COLUMN);
    g_type_ensure(AQ_TYPE_MARKDOWN_VIEW);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-message-row.ui");
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, thinking);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, thinking_text);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, files);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, text);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, edit);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, edit_text);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, wait);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, wait_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, failure);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, failure_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, retry);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, fresh);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, foot);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, branch);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, branch_label);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, previous);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, next);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, copy);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, change);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, again);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, go_on);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, delete);
    gtk_widget_class_bind_template_child(widget_class, AqMessageRow, stats);
    gtk_widget_class_bind_template_callback(widget_class, on_expanded);
    gtk_widget_class_bind_template_callback(widget_class, on_edit_cancel);
    gtk_widget_class_bind_template_callback(widget_class, on_edit_done);
    gtk_widget_class_install_action(widget_class, "message.copy", NULL, copy_action);
    gtk_widget_class_install_action(widget_class, "message.edit", NULL, edit_action);
    gtk_widget_class_install_action(widget_class, "message.again", NULL, again_action);
    gtk_widget_class_install_action(widget_class, "message.continue", NULL, continue_action);
    gtk_widget_class_install_action(widget_class, "message.delete", NULL, delete_action);
    gtk_widget_class_install_action(widget_class, "message.previous", NULL, previous_action);
    gtk_widget_class_install_action(widget_class, "message.next", NULL, next_action);
}

static void aq_message_row_init(AqMessageRow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    const AqMessageMenuItem items[] = {
        {N_("_Copy Text"), self->copy},           {N_("_Edit and Ask Anew"), self->change},
        {N_("_Ask Again"), self->again},          {N_("_Retry"), self->retry},
        {N_("_New Chat"), self->fresh},           {N_("Con_tinue"), self->go_on},
        {N_("Ea_rlier Version"), self->previous}, {N_("_Later Version"), self->next},
        {N_("_Delete From Here"), self->delete},
    };
    aq_message_menu_attach(GTK_WIDGET(self), items, G_N_ELEMENTS(items));
}

AqMessageRow *aq_message_row_new(AqChat *chat, AqMessage *message)
{
    AqMessageRow *self = g_object_new(AQ_TYPE_MESSAGE_ROW, NULL);
    gboolean user = aq_message_get_role(message) == AQ_MESSAGE_USER;
    self->chat = g_object_ref(chat);
    self->message = g_object_ref(message);
    self->was_running = aq_message_is_running(message);
    aq_markdown_view_set_plain(AQ_MARKDOWN_VIEW(self->thinking_text), TRUE);
    show_files(self);
    if (user) {
        gtk_widget_set_halign(self->files, GTK_ALIGN_END);
        aq_markdown_view_set_plain(AQ_MARKDOWN_VIEW(self->text), TRUE);
        gtk_widget_add_css_class(self->text, "message-question");
        gtk_widget_set_halign(self->text, GTK_ALIGN_END);
        gtk_widget_set_halign(self->foot, GTK_ALIGN_END);
    }
    gtk_accessible_update_property(GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   user ? _("Question") : _("Answer"), -1);
    g_signal_connect_object(self->text, "more", G_CALLBACK(on_changed), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(self->thinking_text, "more", G_CALLBACK(on_changed), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(message, "changed", G_CALLBACK(on_changed), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::busy", G_CALLBACK(on_changed), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(aq_chat_get_host(chat), "changed", G_CALLBACK(update_actions), self,
                            G_CONNECT_SWAPPED);
    return self;
}
