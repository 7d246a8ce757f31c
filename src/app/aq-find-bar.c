/* SPDX-License-Identifier: Apache-2.0 */
/* Search in one chat: in all messages of the branch in view, whether they have rows or not, their thinking included.
 *
 * The messages are gone through a few milliseconds at a time while nothing else is to be done; the first place found is shown at once. */
#include "aq-find-bar.h"

#include <glib/gi18n.h>

#define SLICE_US 4000

typedef struct {
    AqMessage *message; /* owned by the chat, whose list is watched */
    gboolean thinking;
    AqFindPlace place;
} Hit;

struct _AqFindBar {
    AdwBin parent;
    GtkWidget *bar, *entry, *count, *previous, *next;
    AqChat *chat;
    AqFind *find;
    GArray *hits;     /* of Hit */
    guint done, idle; /* messages that were gone through; the source that goes on */
    gboolean in_text; /* of the next one the text is gone through, no more its thinking */
    AqFindAt part;    /* and how far */
    int at;           /* the hit that is gone to, or -1 */
    gint64 prefer;    /* message to begin at, or 0: the newest place */
    gboolean quiet;   /* the list has changed: nothing is gone to */
    char *text;       /* that find was made of, or NULL */
};

G_DEFINE_FINAL_TYPE(AqFindBar, aq_find_bar, ADW_TYPE_BIN)

static guint signal_find, signal_go_to, signal_ended;

static void show_count(AqFindBar *self)
{
    g_autofree char *text = NULL;
    guint n = self->hits->len;
    if (n && self->at >= 0)
        /* Translators: which of how many places */
        text = g_strdup_printf(n < AQ_FIND_MAX ? _("%d of %u") : _("%d of more than %u"),
                               self->at + 1, n);
    else if (self->find && !self->idle)
        text = g_strdup(_("Not found"));
    gtk_label_set_text(GTK_LABEL(self->count), text ? text : "");
    gtk_widget_set_sensitive(self->previous, n > 0);
    gtk_widget_set_sensitive(self->next, n > 0);
}

static void say(AqFindBar *self)
{
    gtk_accessible_announce(GTK_ACCESSIBLE(self), gtk_label_get_text(GTK_LABEL(self->count)),
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
}

static void go_to(AqFindBar *self, int at)
{
    const Hit *hit = &g_array_index(self->hits, Hit, at);
    self->at = at;
    show_count(self);
    g_signal_emit(self, signal_go_to, 0, hit->message, hit->thinking, hit->place.block,
                  hit->place.nth);
}

/* ---- going through the messages ------------------------------------------------------------- */

/* The next part of the message that is gone through, its thinking first; FALSE: there is no more of it. */
static gboolean add_places(AqFindBar *self, AqMessage *message)
{
    g_autoptr(GArray) places = g_array_new(FALSE, FALSE, sizeof(AqFindPlace));
    gboolean thinking = !self->in_text;
    gsize n;
    const char *text =
        thinking ? aq_message_get_thinking(message, &n) : aq_message_get_text(message, &n);
    gboolean plain = thinking || aq_message_get_role(message) == AQ_MESSAGE_USER;
    gboolean more = aq_find_part(self->find, text, n, plain, AQ_FIND_MAX - self->hits->len,
                                 &self->part, places);
    for (guint i = 0; i < places->len; i++) {
        const Hit hit = {message, thinking, g_array_index(places, AqFindPlace, i)};
        g_array_append_val(self->hits, hit);
    }
    if (more)
        return TRUE;
    aq_find_at_clear(&self->part);
    self->in_text = thinking;
    return thinking;
}

/* Where to begin: at a message that was found or gone to before, else at the newest, where the reader is. */
static int first_hit(AqFindBar *self)
{
    for (guint i = 0; self->prefer && i < self->hits->len; i++)
        if (aq_message_get_id(g_array_index(self->hits, Hit, i).message) == self->prefer)
            return (int)i;
    return (int)self->hits->len - 1;
}

static gboolean go_on(gpointer user)
{
    AqFindBar *self = user;
    GListModel *messages = aq_chat_get_messages(self->chat);
    guint n = g_list_model_get_n_items(messages);
    gint64 until = g_get_monotonic_time() + SLICE_US;
    while (self->done < n && self->hits->len < AQ_FIND_MAX) {
        if (g_get_monotonic_time() >= until)
            return G_SOURCE_CONTINUE;
        g_autoptr(AqMessage) message = g_list_model_get_item(messages, self->done);
        if (!add_places(self, message))
            self->done++;
    }
    self->idle = 0;
    self->at = self->hits->len ? first_hit(self) : -1;
    if (self->at >= 0 && !self->quiet)
        go_to(self, self->at);
    show_count(self);
    if (!self->quiet)
        say(self);
    return G_SOURCE_REMOVE;
}

static void begin(AqFindBar *self)
{
    g_clear_handle_id(&self->idle, g_source_remove);
    g_array_set_size(self->hits, 0);
    aq_find_at_clear(&self->part);
    self->in_text = FALSE;
    self->at = -1;
    self->done = 0;
    if (self->find)
        self->idle = g_idle_add(go_on, self);
    show_count(self);
}

/* Messages came or went, or an answer ended. */
static void on_messages(AqFindBar *self)
{
    if (!self->find)
        return;
    self->prefer =
        self->at >= 0 ? aq_message_get_id(g_array_index(self->hits, Hit, self->at).message) : 0;
    self->quiet = TRUE;
    begin(self);
}

static void look_for(AqFindBar *self, const char *text, gint64 prefer)
{
    if (!g_set_str(&self->text, text))
        return;
    g_clear_pointer(&self->find, aq_find_unref);
    self->find = text ? aq_find_new(text) : NULL;
    self->prefer = prefer;
    self->quiet = FALSE;
    g_signal_emit(self, signal_find, 0);
    begin(self);
}

/* ---- the bar -------------------------------------------------------------------------------- */

static void on_search(AqFindBar *self)
{
    if (gtk_search_bar_get_search_mode(GTK_SEARCH_BAR(self->bar)))
        look_for(self, gtk_editable_get_text(GTK_EDITABLE(self->entry)), 0);
}

void aq_find_bar_step(AqFindBar *self, int by)
{
    g_return_if_fail(AQ_IS_FIND_BAR(self));
    int n = (int)self->hits->len;
    if (!n)
        return;
    go_to(self, (self->at + by + n) % n);
    say(self);
}

static void on_next(AqFindBar *self)
{
    aq_find_bar_step(self, 1);
}

static void on_previous(AqFindBar *self)
{
    aq_find_bar_step(self, -1);
}

static void on_end(AqFindBar *self)
{
    gtk_search_bar_set_search_mode(GTK_SEARCH_BAR(self->bar), FALSE);
}

static void on_mode(AqFindBar *self)
{
    if (gtk_search_bar_get_search_mode(GTK_SEARCH_BAR(self->bar)) || !self->chat)
        return;
    look_for(self, NULL, 0);
    g_signal_emit(self, signal_ended, 0);
}

/* Shift+Enter goes back. */
static gboolean on_key(AqFindBar *self, guint keyval, guint keycode, GdkModifierType state)
{
    if ((keyval != GDK_KEY_Return && keyval != GDK_KEY_KP_Enter) || !(state & GDK_SHIFT_MASK))
        return GDK_EVENT_PROPAGATE;
    on_previous(self);
    return GDK_EVENT_STOP;
}

void aq_find_bar_open(AqFindBar *self, const char *text, gint64 message)
{
    g_return_if_fail(AQ_IS_FIND_BAR(self));
    gtk_search_bar_set_search_mode(GTK_SEARCH_BAR(self->bar), TRUE);
    if (text)
        gtk_editable_set_text(GTK_EDITABLE(self->entry), text);
    gtk_widget_grab_focus(self->entry);
    gtk_editable_select_region(GTK_EDITABLE(self->entry), 0, -1);
    look_for(self, gtk_editable_get_text(GTK_EDITABLE(self->entry)), message);
}

gboolean aq_find_bar_is_open(AqFindBar *self)
{
    return gtk_search_bar_get_search_mode(GTK_SEARCH_BAR(self->bar));
}

AqFind *aq_find_bar_get_find(AqFindBar *self)
{
    return self->find;
}

void aq_find_bar_set_chat(AqFindBar *self, AqChat *chat)
{
    g_return_if_fail(AQ_IS_FIND_BAR(self) && !self->chat);
    self->chat = g_object_ref(chat);
    g_signal_connect_object(aq_chat_get_messages(chat), "items-changed", G_CALLBACK(on_messages),
                            self, G_CONNECT_SWAPPED);
    g_signal_connect_object(chat, "notify::busy", G_CALLBACK(on_messages), self, G_CONNECT_SWAPPED);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void aq_find_bar_dispose(GObject *object)
{
    AqFindBar *self = AQ_FIND_BAR(object);
    g_clear_handle_id(&self->idle, g_source_remove);
    aq_find_at_clear(&self->part);
    g_clear_object(&self->chat);
    /* The template would take the child from under the bin, as it has a name. */
    adw_bin_set_child(ADW_BIN(self), NULL);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_FIND_BAR);
    g_clear_pointer(&self->find, aq_find_unref);
    g_clear_pointer(&self->hits, g_array_unref);
    g_clear_pointer(&self->text, g_free);
    G_OBJECT_CLASS(aq_find_bar_parent_class)->dispose(object);
}

static void aq_find_bar_class_init(AqFindBarClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_find_bar_dispose;
    signal_find =
        g_signal_new("find", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    signal_go_to = g_signal_new("go-to", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE,
                                4, AQ_TYPE_MESSAGE, G_TYPE_BOOLEAN, G_TYPE_UINT, G_TYPE_UINT);
    signal_ended =
        g_signal_new("ended", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-find-bar.ui");
    gtk_widget_class_bind_template_child(widget_class, AqFindBar, bar);
    gtk_widget_class_bind_template_child(widget_class, AqFindBar, entry);
    gtk_widget_class_bind_template_child(widget_class, AqFindBar, count);
    gtk_widget_class_bind_template_child(widget_class, AqFindBar, previous);
    gtk_widget_class_bind_template_child(widget_class, AqFindBar, next);
    gtk_widget_class_bind_template_callback(widget_class, on_mode);
    gtk_widget_class_bind_template_callback(widget_class, on_search);
    gtk_widget_class_bind_template_callback(widget_class, on_next);
    gtk_widget_class_bind_template_callback(widget_class, on_previous);
    gtk_widget_class_bind_template_callback(widget_class, on_end);
}

static void aq_find_bar_init(AqFindBar *self)
{
    self->hits = g_array_new(FALSE, FALSE, sizeof(Hit));
    self->at = -1;
    gtk_widget_init_template(GTK_WIDGET(self));
    gtk_search_bar_connect_entry(GTK_SEARCH_BAR(self->bar), GTK_EDITABLE(self->entry));
    GtkEventController *key = gtk_event_controller_key_new();
    gtk_event_controller_set_propagation_phase(key, GTK_PHASE_CAPTURE);
    g_signal_connect_swapped(key, "key-pressed", G_CALLBACK(on_key), self);
    gtk_widget_add_controller(self->entry, key);
}
