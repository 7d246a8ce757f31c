/* SPDX-License-Identifier: Apache-2.0 */
/* One chat: its messages and the field to write in.
 *
 * The list stays at its end while text arrives, but only if it was there: whoever scrolls up to read is left alone. Files can be dropped
 * anywhere on the chat. */
#include "aq-chat-view.h"

#include <glib/gi18n.h>

#include "aq-composer.h"
#include "aq-context-meter.h"
#include "aq-find-bar.h"
#include "aq-message-row.h"
#include "aq-settings-dialog.h"

#define NEAR_END_PX 60
/* Rows that a chat opens with, that Load Earlier adds, that are made in one frame, and that there are at most. */
#define ROWS_FIRST 40
#define ROWS_MORE 50
#define ROWS_FRAME 4
#define ROWS_MAX 200
#define OFFSET_NONE (G_MAXUINT / 2) /* of the slice: no message has a row */
/* A message that is gone to is followed while rows above it still grow: until it lies still for so many frames, or so many are over. */
#define STILL_FRAMES 10
#define SHOW_FRAMES 300

struct _AqChatView {
    AdwBin parent;
    GtkWidget *find_bar, *stack, *empty_page, *scrolled, *earlier, *list, *composer, *meter;
    AqChat *chat;
    gboolean at_end;
    GtkSliceListModel *slice; /* the messages that have rows: from its offset to the end */
    guint rows_wanted, rows_tick;
    double keep_from_end; /* pixels: rows are being put in above; 0 = not */
    guint scroll_tick, show_tick;
    gint64 show_id;                     /* message to scroll to, or 0 */
    gboolean show_place, show_thinking; /* a place in it */
    AqFindPlace place;
    guint show_frames, still_frames;
    gboolean scrolling; /* by the program */
};

G_DEFINE_FINAL_TYPE(AqChatView, aq_chat_view, ADW_TYPE_BIN)

/* What can be done now. */
static void update(AqChatView *self)
{
    AqEngineHost *host = aq_chat_get_host(self->chat);
    gboolean busy = aq_chat_get_busy(self->chat), can = aq_engine_host_can_answer(host);
    const char *why = NULL;
    gboolean ready = aq_composer_can_send(AQ_COMPOSER(self->composer), &why);

    gtk_widget_action_set_enabled(GTK_WIDGET(self), "chat.send",
                                  can && !busy && ready && aq_chat_get_loaded(self->chat));
    gtk_widget_action_set_enabled(GTK_WIDGET(self), "chat.stop", busy);
    aq_composer_show_busy(AQ_COMPOSER(self->composer), busy,
                          !can  ? _("No model is loaded")
                          : why ? why
                                : _("Send"));
    gtk_stack_set_visible_child_name(GTK_STACK(self->stack),
                                     aq_chat_get_empty(self->chat) ? "empty" : "messages");
    const char *name = aq_engine_host_get_model_name(host);
    g_autofree char *who =
        name ? g_strdup_printf(_("%s answers on this PC. Nothing leaves it."), name)
             : g_strdup(_("Open a model first."));
    g_autofree char *markup = g_markup_escape_text(who, -1);
    adw_status_page_set_description(ADW_STATUS_PAGE(self->empty_page), markup);
}

static void on_drafted(AqChatView *self)
{
    if (!self->chat)
        return; /* the view goes, and what was being written is kept */
    aq_context_meter_set_draft(AQ_CONTEXT_METER(self->meter), aq_chat_get_draft(self->chat));
}

static void send(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqChatView *self = AQ_CHAT_VIEW(widget);
    AqComposer *composer = AQ_COMPOSER(self->composer);
    g_autofree char *text = aq_composer_get_text(composer);
    if (!aq_composer_can_send(composer, NULL) || !aq_chat_send(self->chat, text))
        return;
    self->at_end = TRUE;
    aq_composer_clear(composer);
}

static void settings(GtkWidget *widget, const char *action, GVariant *parameter)
{
    adw_dialog_present(ADW_DIALOG(aq_settings_dialog_new(AQ_CHAT_VIEW(widget)->chat)), widget);
}

static void stop(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_chat_stop(AQ_CHAT_VIEW(widget)->chat);
}

static void focus_entry(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_composer_focus(AQ_COMPOSER(AQ_CHAT_VIEW(widget)->composer));
}

/* ---- dropped on the chat -------------------------------------------------------------------- */

static gboolean on_drop_files(GtkDropTarget *target, const GValue *value, double x, double y,
                              AqChatView *self)
{
    g_autoptr(GSList) files = gdk_file_list_get_files(g_value_get_boxed(value));
    aq_composer_attach(AQ_COMPOSER(self->composer), files);
    aq_composer_focus(AQ_COMPOSER(self->composer));
    return TRUE;
}

static gboolean on_drop_text(GtkDropTarget *target, const GValue *value, double x, double y,
                             AqChatView *self)
{
    aq_composer_insert(AQ_COMPOSER(self->composer), g_value_get_string(value));
    return TRUE;
}

static void take_drops(AqChatView *self)
{
    GtkDropTarget *files = gtk_drop_target_new(GDK_TYPE_FILE_LIST, GDK_ACTION_COPY);
    GtkDropTarget *text = gtk_drop_target_new(G_TYPE_STRING, GDK_ACTION_COPY);
    /* Before the text field, which would take the name of a file for text. */
    gtk_event_controller_set_propagation_phase(GTK_EVENT_CONTROLLER(files), GTK_PHASE_CAPTURE);
    g_signal_connect_object(files, "drop", G_CALLBACK(on_drop_files), self, 0);
    g_signal_connect_object(text, "drop", G_CALLBACK(on_drop_text), self, 0);
    gtk_widget_add_controller(GTK_WIDGET(self), GTK_EVENT_CONTROLLER(files));
    gtk_widget_add_controller(GTK_WIDGET(self), GTK_EVENT_CONTROLLER(text));
}

/* ---- scrolling ------------------------------------------------------------------------------ */

static void on_scrolled(AqChatView *self)
{
    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(self->scrolled));
    /* Rows above are still being put in, and nobody has scrolled away from where they were. */
    if (self->keep_from_end > 0 && (self->scroll_tick || self->rows_tick))
        return;
    self->keep_from_end = 0;
    /* Somebody scrolls away from what is gone to. */
    if (self->show_tick && self->still_frames && !self->scrolling)
        self->show_frames = SHOW_FRAMES;
    self->at_end = gtk_adjustment_get_value(adj) + gtk_adjustment_get_page_size(adj) >=
                   gtk_adjustment_get_upper(adj) - NEAR_END_PX;
}

static gboolean scroll_to_end(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqChatView *self = AQ_CHAT_VIEW(widget);
    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(self->scrolled));
    double from_end = self->at_end ? gtk_adjustment_get_page_size(adj) : self->keep_from_end;
    self->scroll_tick = 0;
    if (from_end > 0) /* or somebody scrolled away since the frame was asked for */
        gtk_adjustment_set_value(adj, gtk_adjustment_get_upper(adj) - from_end);
    return G_SOURCE_REMOVE;
}

/* Called while the viewport is laid out, which takes no other position then: scroll in the next frame. */
static void on_resized(AqChatView *self)
{
    if ((self->at_end || self->keep_from_end > 0) && !self->scroll_tick)
        self->scroll_tick =
            gtk_widget_add_tick_callback(GTK_WIDGET(self), scroll_to_end, NULL, NULL);
}

/* ---- which messages have rows --------------------------------------------------------------- */

static void update_earlier(AqChatView *self)
{
    gtk_widget_set_visible(self->earlier,
                           gtk_slice_list_model_get_offset(self->slice) > 0 && !self->rows_tick);
}

/* A few more above in each frame, until there are as many as wanted. */
static gboolean add_rows(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqChatView *self = AQ_CHAT_VIEW(widget);
    guint offset = gtk_slice_list_model_get_offset(self->slice);
    guint live = g_list_model_get_n_items(G_LIST_MODEL(self->slice));
    if (offset && live < self->rows_wanted) {
        guint more = MIN(MIN(ROWS_FRAME, offset), self->rows_wanted - live);
        gtk_slice_list_model_set_offset(self->slice, offset - more);
        return G_SOURCE_CONTINUE;
    }
    self->rows_tick = 0;
    update_earlier(self);
    return G_SOURCE_REMOVE;
}

static void want_rows(AqChatView *self, guint n)
{
    self->rows_wanted = n;
    if (!self->rows_tick)
        self->rows_tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), add_rows, NULL, NULL);
    update_earlier(self);
}

static void on_earlier(AqChatView *self)
{
    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(self->scrolled));
    self->at_end = FALSE;
    self->keep_from_end = gtk_adjustment_get_upper(adj) - gtk_adjustment_get_value(adj);
    want_rows(self, g_list_model_get_n_items(G_LIST_MODEL(self->slice)) + ROWS_MORE);
}

/* The branch in view is another, or longer. Until the messages are read the slice is beyond them all: it hears of them before this does,
 * and would have a row made for each. */
static void fit_rows(AqChatView *self)
{
    guint n = g_list_model_get_n_items(aq_chat_get_messages(self->chat));
    if (!aq_chat_get_loaded(self->chat))
        return;
    guint offset = gtk_slice_list_model_get_offset(self->slice), live = n - MIN(n, offset);
    if (offset >= n)
        gtk_slice_list_model_set_offset(self->slice, n - MIN(n, ROWS_FRAME));
    else if (live > MAX(ROWS_MAX, self->rows_wanted))
        gtk_slice_list_model_set_offset(self->slice, n - (ROWS_MAX - ROWS_MORE));
    if (live < self->rows_wanted)
        want_rows(self, self->rows_wanted);
    update_earlier(self);
}

/* ---- a message that was searched for -------------------------------------------------------- */

static int position_of(AqChatView *self, gint64 id)
{
    GListModel *messages = aq_chat_get_messages(self->chat);
    guint n = g_list_model_get_n_items(messages);
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqMessage) m = g_list_model_get_item(messages, i);
        if (aq_message_get_id(m) == id)
            return (int)i;
    }
    return -1;
}

/* The part of the list that is to be seen; FALSE while it is not made yet. */
static gboolean shown_part(AqChatView *self, AqMessageRow *row, graphene_rect_t *ret)
{
    graphene_rect_t rect = GRAPHENE_RECT_INIT(0, 0, 1, 1);
    GtkWidget *widget = GTK_WIDGET(row);
    if (self->show_place)
        widget = aq_message_row_go_to(row, self->show_thinking, &self->place, &rect);
    graphene_point_t p;
    if (!widget || !gtk_widget_compute_point(widget, self->list, &rect.origin, &p))
        return FALSE;
    *ret = GRAPHENE_RECT_INIT(p.x, p.y, rect.size.width, rect.size.height);
    return TRUE;
}

/* A place in a message comes to the upper third, unless it is in view; a message to the top. */
static void bring_to_view(AqChatView *self, const graphene_rect_t *rect)
{
    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(self->scrolled));
    double page = gtk_adjustment_get_page_size(adj), at = gtk_adjustment_get_value(adj);
    double y = rect->origin.y, to = self->show_place ? y - page / 3 : y;
    if (self->show_place && y >= at + 24 && y + rect->size.height <= at + page - 24)
        to = at;
    to = CLAMP(to, 0, MAX(0, gtk_adjustment_get_upper(adj) - page));
    self->still_frames = ABS(to - at) < 1 ? self->still_frames + 1 : 0;
    self->at_end = FALSE;
    self->scrolling = TRUE;
    gtk_adjustment_set_value(adj, to);
    self->scrolling = FALSE;
}

/* Each frame, until it is there and stays there. */
static gboolean show_message(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqChatView *self = AQ_CHAT_VIEW(widget);
    int at = position_of(self, self->show_id);
    guint offset = gtk_slice_list_model_get_offset(self->slice);
    if (at >= 0 && (guint)at < offset) {
        guint n = g_list_model_get_n_items(aq_chat_get_messages(self->chat));
        want_rows(self, n - (guint)at + 5);
        return G_SOURCE_CONTINUE;
    }
    at -= (int)offset;
    GtkListBoxRow *row =
        at >= 0 ? gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->list), at) : NULL;
    graphene_rect_t rect;
    if (row && shown_part(self, AQ_MESSAGE_ROW(row), &rect))
        bring_to_view(self, &rect);
    if (row && self->still_frames < STILL_FRAMES && ++self->show_frames < SHOW_FRAMES)
        return G_SOURCE_CONTINUE;
    self->show_tick = 0;
    self->show_id = 0;
    return G_SOURCE_REMOVE;
}

static void show(AqChatView *self, gint64 message)
{
    self->show_id = message;
    self->show_frames = self->still_frames = 0;
    self->at_end = FALSE;
    self->keep_from_end = 0;
    if (aq_chat_get_loaded(self->chat) && !self->show_tick)
        self->show_tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), show_message, NULL, NULL);
}

void aq_chat_view_show_message(AqChatView *self, gint64 message)
{
    g_return_if_fail(AQ_IS_CHAT_VIEW(self));
    self->show_place = FALSE;
    show(self, message);
}

/* ---- search --------------------------------------------------------------------------------- */

static void on_find(AqChatView *self)
{
    AqFind *find = aq_find_bar_get_find(AQ_FIND_BAR(self->find_bar));
    GtkListBoxRow *row;
    for (int i = 0; (row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->list), i)); i++)
        aq_message_row_set_find(AQ_MESSAGE_ROW(row), find);
}

static void on_go_to(AqChatView *self, AqMessage *message, gboolean thinking, guint block,
                     guint nth)
{
    GtkListBoxRow *row;
    graphene_rect_t none;
    for (int i = 0; (row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->list), i)); i++)
        aq_message_row_go_to(AQ_MESSAGE_ROW(row), FALSE, NULL, &none);
    self->show_place = TRUE;
    self->show_thinking = thinking;
    self->place = (AqFindPlace){.block = block, .nth = nth};
    show(self, aq_message_get_id(message));
}

static void on_find_ended(AqChatView *self)
{
    gtk_widget_activate_action(GTK_WIDGET(self), "chat.focus-entry", NULL);
}

void aq_chat_view_find(AqChatView *self, const char *text, gint64 message)
{
    g_return_if_fail(AQ_IS_CHAT_VIEW(self));
    aq_find_bar_open(AQ_FIND_BAR(self->find_bar), text, message);
}

/* ---- by keyboard ---------------------------------------------------------------------------- */

/* The last row that the message's own action, under the same name, can be done on. */
static void last_row_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqChatView *self = AQ_CHAT_VIEW(widget);
    gboolean question = g_str_equal(action, "chat.edit-last");
    const char *own = question                                 ? "message.edit"
                      : g_str_equal(action, "chat.again-last") ? "message.again"
                                                               : "message.copy";
    AqMessageRole role = question ? AQ_MESSAGE_USER : AQ_MESSAGE_ASSISTANT;
    for (guint i = g_list_model_get_n_items(G_LIST_MODEL(self->slice)); i-- > 0;) {
        GtkListBoxRow *row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->list), (int)i);
        if (row && aq_message_get_role(aq_message_row_get_message(AQ_MESSAGE_ROW(row))) == role) {
            gtk_widget_activate_action(GTK_WIDGET(row), own, NULL);
            return;
        }
    }
}

static void find_step_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqFindBar *bar = AQ_FIND_BAR(AQ_CHAT_VIEW(widget)->find_bar);
    if (aq_find_bar_is_open(bar))
        aq_find_bar_step(bar, g_str_equal(action, "chat.find-next") ? 1 : -1);
    else
        aq_find_bar_open(bar, NULL, 0);
}

static void on_loaded(AqChatView *self)
{
    if (self->show_id)
        aq_chat_view_show_message(self, self->show_id);
}

static GtkWidget *create_row(gpointer item, gpointer user)
{
    AqChatView *self = user;
    AqMessageRow *row = aq_message_row_new(self->chat, item);
    aq_message_row_set_find(row, aq_find_bar_get_find(AQ_FIND_BAR(self->find_bar)));
    return GTK_WIDGET(row);
}

static void on_items_changed(AqChatView *self)
{
    GtkListBoxRow *row;
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->slice));
    for (guint i = n > 3 ? n - 3 : 0; i < n; i++)
        if ((row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->list), (int)i)))
            aq_message_row_set_last(AQ_MESSAGE_ROW(row), i == n - 1);
}

AqChat *aq_chat_view_get_chat(AqChatView *self)
{
    return self->chat;
}

void aq_chat_view_focus_entry(AqChatView *self)
{
    aq_composer_focus(AQ_COMPOSER(self->composer));
}

static void aq_chat_view_dispose(GObject *object)
{
    AqChatView *self = AQ_CHAT_VIEW(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_CHAT_VIEW);
    g_clear_object(&self->slice);
    g_clear_object(&self->chat);
    G_OBJECT_CLASS(aq_chat_view_parent_class)->dispose(object);
}

static void aq_chat_view_class_init(AqChatViewClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_chat_view_dispose;
    g_type_ensure(AQ_TYPE_COMPOSER);
    g_type_ensure(AQ_TYPE_CONTEXT_METER);
    g_type_ensure(AQ_TYPE_FIND_BAR);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-chat-view.ui");
    gtk_widget_class_bind_template_child(widget_class, AqChatView, find_bar);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, stack);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, empty_page);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, scrolled);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, earlier);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, list);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, composer);
    gtk_widget_class_bind_template_child(widget_class, AqChatView, meter);
    gtk_widget_class_bind_template_callback(widget_class, on_earlier);
    gtk_widget_class_bind_template_callback(widget_class, on_find);
    gtk_widget_class_bind_template_callback(widget_class, on_go_to);
    gtk_widget_class_bind_template_callback(widget_class, on_find_ended);
    gtk_widget_class_install_action(widget_class, "chat.find-next", NULL, find_step_action);
    gtk_widget_class_install_action(widget_class, "chat.find-previous", NULL, find_step_action);
    gtk_widget_class_install_action(widget_class, "chat.edit-last", NULL, last_row_action);
    gtk_widget_class_install_action(widget_class, "chat.again-last", NULL, last_row_action);
    gtk_widget_class_install_action(widget_class, "chat.copy-last", NULL, last_row_action);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_e, GDK_CONTROL_MASK, "chat.edit-last",
                                        NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_r, GDK_CONTROL_MASK,
                                        "chat.again-last", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_c, GDK_CONTROL_MASK | GDK_SHIFT_MASK,
                                        "chat.copy-last", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_comma, GDK_CONTROL_MASK,
                                        "chat.settings", NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_g, GDK_CONTROL_MASK, "chat.find-next",
                                        NULL);
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_g, GDK_CONTROL_MASK | GDK_SHIFT_MASK,
                                        "chat.find-previous", NULL);
    gtk_widget_class_install_action(widget_class, "chat.send", NULL, send);
    gtk_widget_class_install_action(widget_class, "chat.stop", NULL, stop);
    gtk_widget_class_install_action(widget_class, "chat.settings", NULL, settings);
    gtk_widget_class_install_action(widget_class, "chat.focus-entry", NULL, focus_entry);
}

static void aq_chat_view_init(AqChatView *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    self->at_end = TRUE;

    take_drops(self);
    g_signal_connect_object(self->composer, "changed", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(self->composer, "drafted", G_CALLBACK(on_drafted), self,
                            G_CONNECT_SWAPPED);

    GtkAdjustment *adj = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(self->scrolled));
    g_signal_connect_object(adj, "value-changed", G_CALLBACK(on_scrolled), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(adj, "changed", G_CALLBACK(on_resized), self, G_CONNECT_SWAPPED);
}

AqChatView *aq_chat_view_new(AqChat *chat)
{
    AqChatView *self = g_object_new(AQ_TYPE_CHAT_VIEW, NULL);
    self->chat = g_object_ref(chat);
    GListModel *messages = aq_chat_get_messages(chat);
    self->rows_wanted = ROWS_FIRST;
    self->slice = gtk_slice_list_model_new(g_object_ref(messages), OFFSET_NONE, G_MAXUINT / 2);
    gtk_list_box_bind_model(GTK_LIST_BOX(self->list), G_LIST_MODEL(self->slice), create_row, self,
                            NULL);
    g_signal_connect_object(self->slice, "items-changed", G_CALLBACK(on_items_changed), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(messages, "items-changed", G_CALLBACK(fit_rows), self,
                            G_CONNECT_SWAPPED);
    fit_rows(self);
    g_signal_connect_object(chat, "notify", G_CALLBACK(update), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(aq_chat_get_host(chat), "changed", G_CALLBACK(update), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::loaded", G_CALLBACK(on_loaded), self, G_CONNECT_SWAPPED);
    aq_find_bar_set_chat(AQ_FIND_BAR(self->find_bar), chat);
    aq_context_meter_set_chat(AQ_CONTEXT_METER(self->meter), chat);
    aq_composer_set_chat(AQ_COMPOSER(self->composer), chat);
    on_drafted(self);
    aq_chat_load(chat);
    on_items_changed(self);
    update(self);
    return self;
}
