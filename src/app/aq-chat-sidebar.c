/* SPDX-License-Identifier: Apache-2.0 */
/* All chats by date, and the search in all of them. Only the newest PAGE chats have a row until more are asked for, so that a window with
 * hundreds of them opens at once. */
#include "aq-chat-sidebar.h"

#include <glib/gi18n.h>

#include "aq-chat-row.h"
#include "aq-folder-list.h"
#include "aq-loop-meter.h"
#include "aq-menu.h"

#define PAGE 100
#define FOUND_MAX 100
#define FOUND_FIRST 12 /* rows of what was found: a screen at once, the rest a few in each frame */
#define FOUND_FRAME 4

struct _AqChatSidebar {
    AdwBin parent;
    GtkWidget *main_menu, *folders, *list, *found, *stack, *search_bar, *search, *more;
    AqChats *chats;
    GtkFilterListModel *filtered; /* the chats of the folder that is chosen */
    GtkSliceListModel *slice;
    AqChat *selected;
    char *folder;    /* that is shown, or NULL: all chats */
    GPtrArray *hits; /* of AqStoreHit: what was found, of which n_shown have a row */
    guint n_shown, found_tick;
    guint n_asked, n_answered; /* searches */
    gboolean typed;            /* something that no search was asked about yet */
    gboolean entered;          /* the first of what the search finds is to be opened */
    gboolean moving;
};

G_DEFINE_FINAL_TYPE(AqChatSidebar, aq_chat_sidebar, ADW_TYPE_BIN)

static guint signal_selected, signal_activated, signal_delete, signal_export;

static const AqMenuItem main_items[] = {
    {N_("_New Chat"), "app.new-chat"},
    {N_("_Open Model…"), "app.open"},
    {NULL, NULL},
    {N_("New _Folder…"), "sidebar.new-folder"},
    {N_("_Import Chats…"), "win.import"},
    {N_("_Export All Chats…"), "win.export-all"},
    {NULL, NULL},
    {N_("_Keyboard Shortcuts"), "app.shortcuts"},
    {N_("_About Aquifer"), "app.about"},
};

/* ---- by date -------------------------------------------------------------------------------- */

static int days_ago(gint64 us)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_local();
    g_autoptr(GDateTime) then = g_date_time_new_from_unix_local(us / G_USEC_PER_SEC);
    GDate a, b;
    if (!then)
        return 0;
    g_date_clear(&a, 1);
    g_date_clear(&b, 1);
    g_date_set_dmy(&a, (GDateDay)g_date_time_get_day_of_month(then),
                   (GDateMonth)g_date_time_get_month(then), (GDateYear)g_date_time_get_year(then));
    g_date_set_dmy(&b, (GDateDay)g_date_time_get_day_of_month(now),
                   (GDateMonth)g_date_time_get_month(now), (GDateYear)g_date_time_get_year(now));
    return g_date_days_between(&a, &b);
}

static const char *section_of(GtkListBoxRow *row)
{
    int days = days_ago(aq_chat_get_changed_us(aq_chat_row_get_chat(AQ_CHAT_ROW(row))));
    return days <= 0   ? _("Today")
           : days == 1 ? _("Yesterday")
           : days <= 7 ? _("Last Seven Days")
           : days < 31 ? _("Last Month")
                       : _("Older");
}

static void update_header(GtkListBoxRow *row, GtkListBoxRow *before, gpointer user)
{
    const char *section = section_of(row);
    if (before && g_str_equal(section, section_of(before))) {
        gtk_list_box_row_set_header(row, NULL);
        return;
    }
    GtkWidget *header = gtk_list_box_row_get_header(row);
    if (!header) {
        header = gtk_label_new(NULL);
        gtk_label_set_xalign(GTK_LABEL(header), 0);
        gtk_widget_add_css_class(header, "caption-heading");
        gtk_widget_add_css_class(header, "dimmed");
        gtk_widget_add_css_class(header, "section-header");
        gtk_list_box_row_set_header(row, header);
    }
    gtk_label_set_text(GTK_LABEL(header), section);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void on_delete(AqChatSidebar *self, AqChatRow *row)
{
    g_autoptr(AqChat) chat = g_object_ref(aq_chat_row_get_chat(row));
    g_signal_emit(self, signal_delete, 0, chat);
}

static void on_export(AqChatSidebar *self, AqChatRow *row)
{
    g_signal_emit(self, signal_export, 0, aq_chat_row_get_chat(row));
}

static void on_move(AqChatSidebar *self, AqChatRow *row)
{
    aq_folder_ask_move(GTK_WIDGET(self), self->chats, aq_chat_row_get_chat(row));
}

static GtkWidget *create_row(gpointer item, gpointer user)
{
    AqChatRow *row = aq_chat_row_new(item);
    g_signal_connect_object(row, "delete", G_CALLBACK(on_delete), user, G_CONNECT_SWAPPED);
    g_signal_connect_object(row, "export", G_CALLBACK(on_export), user, G_CONNECT_SWAPPED);
    g_signal_connect_object(row, "move", G_CALLBACK(on_move), user, G_CONNECT_SWAPPED);
    return GTK_WIDGET(row);
}

static void update_more(AqChatSidebar *self)
{
    gtk_widget_set_visible(self->more, g_list_model_get_n_items(G_LIST_MODEL(self->filtered)) >
                                           gtk_slice_list_model_get_size(self->slice));
}

static void on_more(AqChatSidebar *self)
{
    gtk_slice_list_model_set_size(self->slice, gtk_slice_list_model_get_size(self->slice) + PAGE);
    update_more(self);
}

static void on_row_selected(AqChatSidebar *self, GtkListBoxRow *row)
{
    if (!row || aq_chat_row_get_chat(AQ_CHAT_ROW(row)) == self->selected)
        return;
    g_set_object(&self->selected, aq_chat_row_get_chat(AQ_CHAT_ROW(row)));
    g_signal_emit(self, signal_selected, 0, self->selected);
}

static void on_row_activated(AqChatSidebar *self, GtkListBoxRow *row)
{
    g_signal_emit(self, signal_activated, 0, aq_chat_row_get_chat(AQ_CHAT_ROW(row)), (gint64)0);
}

AqChat *aq_chat_sidebar_get_selected(AqChatSidebar *self)
{
    return self->selected;
}

/* The row of the chat that is shown, if it has one. */
static void select_row(AqChatSidebar *self)
{
    guint n = g_list_model_get_n_items(G_LIST_MODEL(self->slice));
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(G_LIST_MODEL(self->slice), i);
        if (chat != self->selected)
            continue;
        GtkListBox *list = GTK_LIST_BOX(self->list);
        gtk_list_box_select_row(list, gtk_list_box_get_row_at_index(list, (int)i));
        return;
    }
    gtk_list_box_unselect_all(GTK_LIST_BOX(self->list));
}

void aq_chat_sidebar_select(AqChatSidebar *self, AqChat *chat)
{
    g_return_if_fail(AQ_IS_CHAT_SIDEBAR(self));
    gboolean another = g_set_object(&self->selected, chat);
    select_row(self);
    if (another)
        g_signal_emit(self, signal_selected, 0, chat);
}

static void on_moved(AqChatSidebar *self, AqChat *chat)
{
    if (chat == self->selected)
        select_row(self);
}

/* ---- folders -------------------------------------------------------------------------------- */

static gboolean in_folder(gpointer item, gpointer user)
{
    const char *folder = AQ_CHAT_SIDEBAR(user)->folder;
    return !folder || g_strcmp0(aq_chat_get_folder(AQ_CHAT(item)), folder) == 0;
}

static void refilter(AqChatSidebar *self)
{
    g_set_str(&self->folder, aq_folder_list_get_chosen(AQ_FOLDER_LIST(self->folders)));
    if (!self->filtered)
        return;
    gtk_filter_changed(gtk_filter_list_model_get_filter(self->filtered),
                       GTK_FILTER_CHANGE_DIFFERENT);
    gtk_slice_list_model_set_size(self->slice, PAGE);
    update_more(self);
    select_row(self);
}

const char *aq_chat_sidebar_get_folder(AqChatSidebar *self)
{
    return self->folder;
}

static void on_chat_folder(AqChatSidebar *self, GParamSpec *pspec, AqChat *chat)
{
    if (aq_chat_sidebar_get_folder(self))
        refilter(self);
}

static void watch_folders(AqChatSidebar *self, guint position, guint removed, guint added)
{
    for (guint i = position; i < position + added; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(aq_chats_get_list(self->chats), i);
        g_signal_handlers_disconnect_by_func(chat, on_chat_folder, self);
        g_signal_connect_object(chat, "notify::folder", G_CALLBACK(on_chat_folder), self,
                                G_CONNECT_SWAPPED);
    }
}

static void new_folder_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_folder_ask_new(widget, AQ_CHAT_SIDEBAR(widget)->chats);
}

/* ---- search --------------------------------------------------------------------------------- */

static GtkWidget *found_row(AqChatSidebar *self, const AqStoreHit *hit)
{
    AqChat *chat = aq_chats_find(self->chats, hit->chat);
    if (!chat)
        return NULL;
    GtkWidget *row = gtk_list_box_row_new(), *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 2);
    GtkWidget *title = gtk_label_new(aq_chat_get_title(chat));
    gtk_label_set_xalign(GTK_LABEL(title), 0);
    gtk_label_set_ellipsize(GTK_LABEL(title), PANGO_ELLIPSIZE_END);
    gtk_box_append(GTK_BOX(box), title);
    if (hit->message) {
        GtkWidget *text = gtk_label_new(hit->snippet);
        gtk_label_set_xalign(GTK_LABEL(text), 0);
        gtk_label_set_wrap(GTK_LABEL(text), TRUE);
        gtk_label_set_lines(GTK_LABEL(text), 3);
        gtk_label_set_ellipsize(GTK_LABEL(text), PANGO_ELLIPSIZE_END);
        gtk_widget_add_css_class(text, "caption");
        gtk_widget_add_css_class(text, "dimmed");
        gtk_box_append(GTK_BOX(box), text);
    }
    gtk_list_box_row_set_child(GTK_LIST_BOX_ROW(row), box);
    gtk_accessible_update_property(GTK_ACCESSIBLE(row), GTK_ACCESSIBLE_PROPERTY_LABEL,
                                   aq_chat_get_title(chat), -1);
    g_object_set_data_full(G_OBJECT(row), "chat", g_object_ref(chat), g_object_unref);
    g_object_set_data_full(G_OBJECT(row), "message", g_memdup2(&hit->message, sizeof hit->message),
                           g_free);
    return row;
}

static void show_found(AqChatSidebar *self, guint more)
{
    for (; more && self->n_shown < self->hits->len; more--) {
        GtkWidget *row = found_row(self, self->hits->pdata[self->n_shown++]);
        if (row) /* its chat may have been deleted meanwhile */
            gtk_list_box_append(GTK_LIST_BOX(self->found), row);
    }
}

static gboolean on_found_frame(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    AqChatSidebar *self = user;
    show_found(self, FOUND_FRAME);
    if (self->n_shown < self->hits->len)
        return G_SOURCE_CONTINUE;
    self->found_tick = 0;
    return G_SOURCE_REMOVE;
}

static void clear_found(AqChatSidebar *self)
{
    if (self->found_tick)
        gtk_widget_remove_tick_callback(self->found, self->found_tick);
    self->found_tick = self->n_shown = 0;
    g_clear_pointer(&self->hits, g_ptr_array_unref);
}

/* Of chats that are there. */
static GPtrArray *hits_of(AqChatSidebar *self, GPtrArray *all)
{
    GPtrArray *hits = g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_hit_free);
    for (guint i = 0; all && i < all->len; i++) {
        AqStoreHit *hit = all->pdata[i];
        if (!aq_chats_find(self->chats, hit->chat))
            continue;
        g_ptr_array_add(hits, hit);
        all->pdata[i] = NULL;
    }
    return hits;
}

static void on_found_activated(AqChatSidebar *self, GtkListBoxRow *row)
{
    AqChat *chat = g_object_get_data(G_OBJECT(row), "chat");
    const gint64 *message = g_object_get_data(G_OBJECT(row), "message");
    if (aq_chats_find(self->chats, aq_chat_get_id(chat)))
        g_signal_emit(self, signal_activated, 0, chat, *message);
}

/* When what is shown is what was found of the text in the field. */
static void open_first(AqChatSidebar *self)
{
    GtkListBoxRow *row = gtk_list_box_get_row_at_index(GTK_LIST_BOX(self->found), 0);
    const char *shown = gtk_stack_get_visible_child_name(GTK_STACK(self->stack));
    if (self->typed || self->n_answered < self->n_asked)
        return;
    self->entered = FALSE;
    if (row && g_str_equal(shown, "found"))
        on_found_activated(self, row);
}

static void search_read(GPtrArray *hits, GObject *user)
{
    AqChatSidebar *self = AQ_CHAT_SIDEBAR(user);
    g_autoptr(GPtrArray) list = hits;
    self->n_answered++;
    if (!self->chats || !*gtk_editable_get_text(GTK_EDITABLE(self->search)))
        return;
    clear_found(self);
    gtk_list_box_remove_all(GTK_LIST_BOX(self->found));
    self->hits = hits_of(self, list);
    guint n = self->hits->len;
    show_found(self, FOUND_FIRST);
    if (self->n_shown < n)
        self->found_tick = gtk_widget_add_tick_callback(self->found, on_found_frame, self, NULL);
    gtk_stack_set_visible_child_name(GTK_STACK(self->stack), n ? "found" : "none");
    g_autofree char *said =
        n ? g_strdup_printf(ngettext("%u place was found", "%u places were found", n), n)
          : g_strdup(_("Nothing was found"));
    gtk_accessible_announce(GTK_ACCESSIBLE(self), said,
                            GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_MEDIUM);
    aq_loop_meter_mark("found");
    if (self->entered)
        open_first(self);
}

static void on_search_text(AqChatSidebar *self)
{
    self->typed = TRUE;
    self->entered = FALSE;
}

static void on_search(AqChatSidebar *self)
{
    g_autofree char *text = g_strstrip(g_strdup(gtk_editable_get_text(GTK_EDITABLE(self->search))));
    aq_loop_meter_mark("search");
    self->typed = FALSE;
    if (*text) {
        self->n_asked++;
        aq_chat_store_search(aq_chats_get_store(self->chats), text, FOUND_MAX, search_read,
                             G_OBJECT(self));
    } else {
        gtk_stack_set_visible_child_name(GTK_STACK(self->stack), "chats");
    }
}

static void on_search_mode(AqChatSidebar *self)
{
    if (gtk_search_bar_get_search_mode(GTK_SEARCH_BAR(self->search_bar))) {
        gtk_widget_grab_focus(self->search);
    } else {
        gtk_editable_set_text(GTK_EDITABLE(self->search), "");
        /* The field that goes had the focus, which would be nowhere then. What was found hides the list until its search has ended, too. */
        gtk_stack_set_visible_child_name(GTK_STACK(self->stack), "chats");
        GtkListBoxRow *row = gtk_list_box_get_selected_row(GTK_LIST_BOX(self->list));
        if (row)
            gtk_widget_grab_focus(GTK_WIDGET(row));
    }
}

/* Enter goes to the first of what was found, or of what will be: the search begins a moment after the last letter. */
static void on_search_enter(AqChatSidebar *self)
{
    self->entered = TRUE;
    if (self->typed)
        on_search(self);
    open_first(self);
}

const char *aq_chat_sidebar_get_search(AqChatSidebar *self)
{
    return gtk_editable_get_text(GTK_EDITABLE(self->search));
}

void aq_chat_sidebar_search(AqChatSidebar *self)
{
    gtk_search_bar_set_search_mode(GTK_SEARCH_BAR(self->search_bar), TRUE);
    gtk_widget_grab_focus(self->search);
}

/* ---- life ----------------------------------------------------------------------------------- */

void aq_chat_sidebar_set_chats(AqChatSidebar *self, AqChats *chats)
{
    g_return_if_fail(AQ_IS_CHAT_SIDEBAR(self) && !self->chats);
    GListModel *list = aq_chats_get_list(chats);
    self->chats = g_object_ref(chats);
    aq_folder_list_set_chats(AQ_FOLDER_LIST(self->folders), chats);
    self->filtered = gtk_filter_list_model_new(
        g_object_ref(list), GTK_FILTER(gtk_custom_filter_new(in_folder, self, NULL)));
    self->slice = gtk_slice_list_model_new(g_object_ref(G_LIST_MODEL(self->filtered)), 0, PAGE);
    gtk_list_box_bind_model(GTK_LIST_BOX(self->list), G_LIST_MODEL(self->slice), create_row, self,
                            NULL);
    g_signal_connect_object(self->filtered, "items-changed", G_CALLBACK(update_more), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(list, "items-changed", G_CALLBACK(watch_folders), self,
                            G_CONNECT_SWAPPED);
    watch_folders(self, 0, 0, g_list_model_get_n_items(list));
    g_signal_connect_object(chats, "moved", G_CALLBACK(on_moved), self, G_CONNECT_SWAPPED);
    update_more(self);
}

static void aq_chat_sidebar_dispose(GObject *object)
{
    AqChatSidebar *self = AQ_CHAT_SIDEBAR(object);
    if (self->found)
        clear_found(self);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_CHAT_SIDEBAR);
    g_clear_object(&self->slice);
    g_clear_object(&self->filtered);
    g_clear_pointer(&self->folder, g_free);
    g_clear_object(&self->selected);
    g_clear_object(&self->chats);
    G_OBJECT_CLASS(aq_chat_sidebar_parent_class)->dispose(object);
}

static void aq_chat_sidebar_class_init(AqChatSidebarClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    GType type = G_TYPE_FROM_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_chat_sidebar_dispose;
    signal_selected = g_signal_new("selected", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                   G_TYPE_NONE, 1, AQ_TYPE_CHAT);
    signal_activated = g_signal_new("activated", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                    G_TYPE_NONE, 2, AQ_TYPE_CHAT, G_TYPE_INT64);
    signal_delete = g_signal_new("delete", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                 G_TYPE_NONE, 1, AQ_TYPE_CHAT);
    signal_export = g_signal_new("export", type, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                 G_TYPE_NONE, 1, AQ_TYPE_CHAT);
    g_type_ensure(AQ_TYPE_FOLDER_LIST);
    gtk_widget_class_set_template_from_resource(
        widget_class, "/io/github/aquiferpool/Aquifer/aq-chat-sidebar.ui");
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, main_menu);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, folders);
    gtk_widget_class_bind_template_callback(widget_class, refilter);
    gtk_widget_class_install_action(widget_class, "sidebar.new-folder", NULL, new_folder_action);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, list);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, found);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, stack);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, search_bar);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, search);
    gtk_widget_class_bind_template_child(widget_class, AqChatSidebar, more);
    gtk_widget_class_bind_template_callback(widget_class, on_row_selected);
    gtk_widget_class_bind_template_callback(widget_class, on_row_activated);
    gtk_widget_class_bind_template_callback(widget_class, on_found_activated);
    gtk_widget_class_bind_template_callback(widget_class, on_more);
    gtk_widget_class_bind_template_callback(widget_class, on_search);
    gtk_widget_class_bind_template_callback(widget_class, on_search_text);
    gtk_widget_class_bind_template_callback(widget_class, on_search_mode);
    gtk_widget_class_bind_template_callback(widget_class, on_search_enter);
}

static void aq_chat_sidebar_init(AqChatSidebar *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
    aq_menu_set(GTK_MENU_BUTTON(self->main_menu), main_items, G_N_ELEMENTS(main_items));
    gtk_search_bar_connect_entry(GTK_SEARCH_BAR(self->search_bar), GTK_EDITABLE(self->search));
    gtk_list_box_set_header_func(GTK_LIST_BOX(self->list), update_header, NULL, NULL);
}
