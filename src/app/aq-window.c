/* SPDX-License-Identifier: Apache-2.0 */
/* The window: chats in the sidebar, four pages, above them which model and device answer. */
#include "aq-window.h"

#include <glib/gi18n.h>

#include "aq-api-page.h"
#include "aq-chat-sidebar.h"
#include "aq-chat-view.h"
#include "aq-format.h"
#include "aq-loop-meter.h"
#include "aq-model-picker.h"
#include "aq-models-page.h"
#include "aq-paths.h"
#include "aq-pool-page.h"
#include "aq-transfer-dialog.h"

#define UNDO_S \
    15 /* to bring a deleted chat back; five are short for who reaches the button by keyboard */

struct _AqWindow {
    AdwApplicationWindow parent;
    GtkWidget *split, *toasts, *sidebar, *chat_stack, *pages, *models_page, *pool_page, *api_page,
        *picker, *device_label, *load_revealer, *load_label, *load_bar, *banner, *store_banner;
    AqEngineHost *host;
    AqChats *chats;
    GSettings *settings;
    gboolean loading, split_lost;
    AdwToast *undo; /* of the chat that was deleted last, as long as it is shown */
};

G_DEFINE_FINAL_TYPE(AqWindow, aq_window, ADW_TYPE_APPLICATION_WINDOW)

/* ---- model and device ----------------------------------------------------------------------- */

static void show_status(AqWindow *self)
{
    AqEngineHost *host = self->host;
    const char *device = aq_engine_host_get_device(host);
    const char *loading = aq_engine_host_get_loading_path(host);

    gtk_label_set_text(GTK_LABEL(self->device_label), device ? device : "");
    gtk_widget_set_visible(self->device_label, device != NULL);

    gtk_revealer_set_reveal_child(GTK_REVEALER(self->load_revealer), loading != NULL);
    gtk_widget_action_set_enabled(GTK_WIDGET(self), "win.cancel-load", loading != NULL);
    if (!loading)
        return;
    guint64 done, total;
    aq_engine_host_get_progress(host, &done, &total);
    g_autofree char *file = aq_format_file(loading), *text = NULL;
    if (total) {
        g_autofree char *a = aq_format_bytes(done), *b = aq_format_bytes(total);
        /* Translators: model file, bytes read, bytes in all */
        text = g_strdup_printf(_("Loading %s: %s of %s"), file, a, b);
    } else {
        text = g_strdup_printf(_("Loading %s"), file);
    }
    gtk_label_set_text(GTK_LABEL(self->load_label), text);
    gtk_progress_bar_set_fraction(GTK_PROGRESS_BAR(self->load_bar),
                                  total ? MIN(1.0, (double)done / (double)total) : 0);
}

void aq_window_tell(AqWindow *self, const char *text)
{
    g_return_if_fail(AQ_IS_WINDOW(self));
    adw_banner_set_title(ADW_BANNER(self->banner), text);
    adw_banner_set_revealed(ADW_BANNER(self->banner), TRUE);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
}

static void hush(AqWindow *self)
{
    adw_banner_set_revealed(ADW_BANNER(self->banner), FALSE);
}

static void on_host_changed(AqWindow *self)
{
    gboolean loading = aq_engine_host_get_state(self->host) == AQ_ENGINE_LOADING;
    if (loading && !self->loading)
        hush(self);
    self->loading = loading;
    show_status(self);
}

static void on_host_failed(AqWindow *self, const char *path, const char *why)
{
    /* Translators: a sentence that names the file and says what is wrong with it */
    g_autofree char *text = g_strdup_printf(_("The model could not be loaded: %s"), why);
    aq_window_tell(self, text);
}

/* ---- chats ---------------------------------------------------------------------------------- */

static AqChatView *view_of(AqWindow *self, AqChat *chat)
{
    g_autofree char *name = g_strdup_printf("%p", (void *)chat);
    GtkWidget *view = gtk_stack_get_child_by_name(GTK_STACK(self->chat_stack), name);
    if (!view) {
        view = GTK_WIDGET(aq_chat_view_new(chat));
        gtk_stack_add_named(GTK_STACK(self->chat_stack), view, name);
    }
    return AQ_CHAT_VIEW(view);
}

AqChat *aq_window_get_chat(AqWindow *self)
{
    g_return_val_if_fail(AQ_IS_WINDOW(self), NULL);
    return aq_chat_sidebar_get_selected(AQ_CHAT_SIDEBAR(self->sidebar));
}

static void update_stop(AqWindow *self)
{
    AqChat *chat = aq_window_get_chat(self);
    gtk_widget_action_set_enabled(GTK_WIDGET(self), "win.stop", chat && aq_chat_get_busy(chat));
}

/* ---- answers that end while nobody looks ---------------------------------------------------- */

static gboolean is_looked_at(AqWindow *self, AqChat *chat)
{
    const char *page = adw_view_stack_get_visible_child_name(ADW_VIEW_STACK(self->pages));
    return gtk_window_is_active(GTK_WINDOW(self)) && chat == aq_window_get_chat(self) &&
           g_strcmp0(page, "chat") == 0;
}

static char *notification_of(AqChat *chat)
{
    return g_strdup_printf("answer-%" G_GINT64_FORMAT, aq_chat_get_id(chat));
}

/* The window says it, too: by a dot in the list. */
static void tell_answer(AqWindow *self, AqChat *chat)
{
    GListModel *messages = aq_chat_get_messages(chat);
    guint n = g_list_model_get_n_items(messages);
    g_autoptr(AqMessage) last = n ? g_list_model_get_item(messages, n - 1) : NULL;
    aq_chat_set_unread(chat, TRUE);
    if (gtk_window_is_active(GTK_WINDOW(self)) || !last ||
        aq_message_get_state(last) == AQ_MESSAGE_STOPPED)
        return;
    gboolean failed = aq_message_get_state(last) == AQ_MESSAGE_FAILED;
    g_autoptr(GNotification) note =
        g_notification_new(failed ? _("The answer failed") : _("The answer is complete"));
    g_autofree char *id = notification_of(chat);
    g_notification_set_body(note, aq_chat_get_title(chat));
    g_notification_set_default_action_and_target(note, "app.show-chat", "x", aq_chat_get_id(chat));
    g_application_send_notification(G_APPLICATION(gtk_window_get_application(GTK_WINDOW(self))), id,
                                    note);
}

static void no_news(AqWindow *self, AqChat *chat)
{
    GtkApplication *app = gtk_window_get_application(GTK_WINDOW(self));
    if (!app || !aq_chat_get_unread(chat))
        return;
    g_autofree char *id = notification_of(chat);
    aq_chat_set_unread(chat, FALSE);
    g_application_withdraw_notification(G_APPLICATION(app), id);
}

/* Whatever is shown now is no news any more. */
static void on_looked_at(AqWindow *self)
{
    AqChat *chat = aq_window_get_chat(self);
    if (chat && is_looked_at(self, chat))
        no_news(self, chat);
}

static void show_chat(AqWindow *self, AqChat *chat);

static void on_chat_busy(AqWindow *self, GParamSpec *pspec, AqChat *chat)
{
    if (aq_chat_get_busy(chat))
        hush(self);
    else if (!is_looked_at(self, chat) && aq_chats_find(self->chats, aq_chat_get_id(chat)) == chat)
        tell_answer(self, chat);
    update_stop(self);
}

void aq_window_show_chat(AqWindow *self, gint64 id)
{
    g_return_if_fail(AQ_IS_WINDOW(self));
    AqChat *chat = aq_chats_find(self->chats, id);
    if (chat)
        show_chat(self, chat);
    gtk_window_present(GTK_WINDOW(self));
}

static void on_chat_selected(AqWindow *self, AqChat *chat)
{
    GtkStack *stack = GTK_STACK(self->chat_stack);
    GtkWidget *before = gtk_stack_get_visible_child(stack), *view = GTK_WIDGET(view_of(self, chat));
    gtk_widget_set_visible(view, TRUE);
    gtk_stack_set_visible_child(stack, view);
    /* A page that a stack merely does not show has its style worked out anew with each page that comes beside it. */
    if (before && before != view)
        gtk_widget_set_visible(before, FALSE);
    update_stop(self);
    on_looked_at(self);
}

static void show_chat(AqWindow *self, AqChat *chat)
{
    aq_chat_sidebar_select(AQ_CHAT_SIDEBAR(self->sidebar), chat);
    adw_view_stack_set_visible_child_name(ADW_VIEW_STACK(self->pages), "chat");
    aq_chat_view_focus_entry(view_of(self, chat));
}

static void on_chat_activated(AqWindow *self, AqChat *chat, gint64 message)
{
    if (adw_overlay_split_view_get_collapsed(ADW_OVERLAY_SPLIT_VIEW(self->split)))
        adw_overlay_split_view_set_show_sidebar(ADW_OVERLAY_SPLIT_VIEW(self->split), FALSE);
    show_chat(self, chat);
    if (message)
        aq_chat_view_find(view_of(self, chat),
                          aq_chat_sidebar_get_search(AQ_CHAT_SIDEBAR(self->sidebar)), message);
}

void aq_window_new_chat(AqWindow *self)
{
    g_return_if_fail(AQ_IS_WINDOW(self));
    AqChat *chat = aq_chats_add(self->chats);
    aq_chat_set_folder(chat, aq_chat_sidebar_get_folder(AQ_CHAT_SIDEBAR(self->sidebar)));
    show_chat(self, chat);
}

static void undo_delete(AdwToast *toast, AqWindow *self)
{
    AqChat *chat = g_object_steal_data(G_OBJECT(toast), "chat");
    if (self->undo == toast)
        self->undo = NULL;
    aq_chats_restore(self->chats, chat);
    show_chat(self, chat);
    g_object_unref(chat);
}

/* The toast has gone without Undo: now it is final. */
static void forget_deleted(AdwToast *toast, AqWindow *self)
{
    AqChat *chat = g_object_get_data(G_OBJECT(toast), "chat");
    if (self->undo == toast)
        self->undo = NULL;
    if (chat)
        aq_chats_forget(self->chats, chat);
}

/* By keyboard, as long as the toast is there. */
static void undo_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqWindow *self = AQ_WINDOW(widget);
    if (!self->undo)
        return;
    g_autoptr(AdwToast) toast = g_object_ref(self->undo);
    undo_delete(toast, self);
    adw_toast_dismiss(toast);
}

static void delete_chat(AqWindow *self, AqChat *doomed)
{
    g_autoptr(AqChat) chat = g_object_ref(doomed);
    GListModel *list = aq_chats_get_list(self->chats);
    guint position, n = g_list_model_get_n_items(list);
    if (!g_list_store_find(G_LIST_STORE(list), chat, &position))
        return;
    if (n == 1 && aq_chat_get_empty(chat))
        return; /* there is always one to write in */
    /* Another chat is shown before this one's view goes: a stack does not like to lose its visible child. */
    if (n == 1) {
        aq_window_new_chat(self);
    } else if (chat == aq_window_get_chat(self)) {
        g_autoptr(AqChat) next =
            g_list_model_get_item(list, position + 1 < n ? position + 1 : position - 1);
        aq_chat_sidebar_select(AQ_CHAT_SIDEBAR(self->sidebar), next);
    }
    no_news(self, chat);
    aq_chats_remove(self->chats, chat);
    g_autofree char *name = g_strdup_printf("%p", (void *)chat);
    GtkWidget *view = gtk_stack_get_child_by_name(GTK_STACK(self->chat_stack), name);
    if (view)
        gtk_stack_remove(GTK_STACK(self->chat_stack), view);
    if (aq_chat_get_empty(chat))
        return;
    g_autofree char *title = g_markup_escape_text(aq_chat_get_title(chat), -1);
    AdwToast *toast = adw_toast_new_format(_("“%s” deleted"), title);
    adw_toast_set_button_label(toast, _("_Undo"));
    adw_toast_set_timeout(toast, UNDO_S);
    g_object_set_data_full(G_OBJECT(toast), "chat", g_steal_pointer(&chat), g_object_unref);
    g_signal_connect_object(toast, "button-clicked", G_CALLBACK(undo_delete), self, 0);
    g_signal_connect_object(toast, "dismissed", G_CALLBACK(forget_deleted), self, 0);
    self->undo = toast;
    adw_toast_overlay_add_toast(ADW_TOAST_OVERLAY(self->toasts), toast);
}

/* The chat below or above in the list of all. */
static void step_chat_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqWindow *self = AQ_WINDOW(widget);
    GListModel *list = aq_chats_get_list(self->chats);
    guint at, n = g_list_model_get_n_items(list);
    gboolean next = g_str_equal(action, "win.next-chat");
    if (!g_list_store_find(G_LIST_STORE(list), aq_window_get_chat(self), &at) ||
        (next ? at + 1 >= n : at == 0))
        return;
    g_autoptr(AqChat) chat = g_list_model_get_item(list, next ? at + 1 : at - 1);
    show_chat(self, chat);
}

static void on_chats_changed(AqWindow *self, guint position, guint removed, guint added)
{
    aq_loop_meter_mark("listed");
    for (guint i = position; i < position + added; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(aq_chats_get_list(self->chats), i);
        g_signal_handlers_disconnect_by_func(chat, on_chat_busy, self);
        g_signal_connect_object(chat, "notify::busy", G_CALLBACK(on_chat_busy), self,
                                G_CONNECT_SWAPPED);
    }
}

gboolean aq_window_show_newest(AqWindow *self)
{
    GListModel *list = aq_chats_get_list(self->chats);
    guint n = g_list_model_get_n_items(list);
    for (guint i = 0; i < n; i++) {
        g_autoptr(AqChat) chat = g_list_model_get_item(list, i);
        if (aq_chat_get_empty(chat))
            continue;
        if (chat != aq_window_get_chat(self))
            show_chat(self, chat);
        return aq_chat_get_loaded(chat);
    }
    return FALSE;
}

void aq_window_ask(AqWindow *self, const char *text)
{
    aq_window_new_chat(self);
    aq_chat_send(aq_window_get_chat(self), text);
}

/* ---- export and import ---------------------------------------------------------------------- */

static void on_transferred(GtkWindow *window, const char *text, gboolean good)
{
    AqWindow *self = AQ_WINDOW(window);
    if (good) {
        AdwToast *toast = adw_toast_new(text);
        adw_toast_set_use_markup(toast, FALSE);
        adw_toast_overlay_add_toast(ADW_TOAST_OVERLAY(self->toasts), toast);
        return;
    }
    AdwDialog *dialog = adw_alert_dialog_new(_("That Did Not Work"), text);
    adw_alert_dialog_add_response(ADW_ALERT_DIALOG(dialog), "close", _("_Close"));
    adw_dialog_present(dialog, GTK_WIDGET(self));
}

static void on_export(AqWindow *self, AqChat *chat)
{
    aq_transfer_export(GTK_WINDOW(self), self->chats, chat, on_transferred);
}

static void export_all_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    on_export(AQ_WINDOW(widget), NULL);
}

static void export_chat_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqChat *chat = aq_window_get_chat(AQ_WINDOW(widget));
    if (chat && !aq_chat_get_empty(chat))
        on_export(AQ_WINDOW(widget), chat);
}

static void import_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_transfer_import(GTK_WINDOW(widget), AQ_WINDOW(widget)->chats, on_transferred);
}

/* ---- where chats are kept ------------------------------------------------------------------- */

static void tell_store(AqWindow *self, const char *text, const char *button)
{
    adw_banner_set_title(ADW_BANNER(self->store_banner), text);
    adw_banner_set_button_label(ADW_BANNER(self->store_banner), button);
    adw_banner_set_revealed(ADW_BANNER(self->store_banner), TRUE);
    gtk_accessible_announce(GTK_ACCESSIBLE(self), text, GTK_ACCESSIBLE_ANNOUNCEMENT_PRIORITY_HIGH);
}

static void on_store_problem(AqWindow *self, const char *problem)
{
    if (problem)
        tell_store(self, problem, _("Try Again"));
    else
        adw_banner_set_revealed(ADW_BANNER(self->store_banner), FALSE);
}

static void on_store_said(AqWindow *self, const char *text)
{
    tell_store(self, text, _("Close Message"));
}

static void on_store_banner(AqWindow *self)
{
    AqChatStore *store = aq_chats_get_store(self->chats);
    if (aq_chat_store_get_problem(store))
        aq_chat_store_retry(store);
    else
        adw_banner_set_revealed(ADW_BANNER(self->store_banner), FALSE);
}

static void search_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqWindow *self = AQ_WINDOW(widget);
    adw_overlay_split_view_set_show_sidebar(ADW_OVERLAY_SPLIT_VIEW(self->split), TRUE);
    aq_chat_sidebar_search(AQ_CHAT_SIDEBAR(self->sidebar));
}

/* ---- pages ---------------------------------------------------------------------------------- */

gboolean aq_window_show_page(AqWindow *self, const char *name)
{
    g_return_val_if_fail(AQ_IS_WINDOW(self), FALSE);
    if (!adw_view_stack_get_child_by_name(ADW_VIEW_STACK(self->pages), name))
        return FALSE;
    adw_view_stack_set_visible_child_name(ADW_VIEW_STACK(self->pages), name);
    return TRUE;
}

static void show_page_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_window_show_page(AQ_WINDOW(widget), g_variant_get_string(parameter, NULL));
}

static void stop_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqChat *chat = aq_window_get_chat(AQ_WINDOW(widget));
    if (chat)
        aq_chat_stop(chat);
}

/* Search in the chat that is shown. */
static void find_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AqWindow *self = AQ_WINDOW(widget);
    AqChat *chat = aq_window_get_chat(self);
    if (!chat)
        return;
    adw_view_stack_set_visible_child_name(ADW_VIEW_STACK(self->pages), "chat");
    aq_chat_view_find(view_of(self, chat), NULL, 0);
}

static void sidebar_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    AdwOverlaySplitView *split = ADW_OVERLAY_SPLIT_VIEW(AQ_WINDOW(widget)->split);
    adw_overlay_split_view_set_show_sidebar(split, !adw_overlay_split_view_get_show_sidebar(split));
}

static void cancel_load_action(GtkWidget *widget, const char *action, GVariant *parameter)
{
    aq_engine_host_cancel_load(AQ_WINDOW(widget)->host);
}

/* ---- life ----------------------------------------------------------------------------------- */

static gboolean aq_window_close_request(GtkWindow *window)
{
    AqWindow *self = AQ_WINDOW(window);
    if (self->settings) {
        int width, height;
        gtk_window_get_default_size(window, &width, &height);
        g_settings_set_int(self->settings, "window-width", MAX(width, 1));
        g_settings_set_int(self->settings, "window-height", MAX(height, 1));
        g_settings_set_boolean(self->settings, "window-maximized", gtk_window_is_maximized(window));
    }
    return GTK_WINDOW_CLASS(aq_window_parent_class)->close_request(window);
}

static void aq_window_dispose(GObject *object)
{
    AqWindow *self = AQ_WINDOW(object);
    gtk_widget_dispose_template(GTK_WIDGET(self), AQ_TYPE_WINDOW);
    g_clear_object(&self->chats);
    g_clear_object(&self->settings);
    g_clear_object(&self->host);
    G_OBJECT_CLASS(aq_window_parent_class)->dispose(object);
}

static void aq_window_class_init(AqWindowClass *klass)
{
    GtkWidgetClass *widget_class = GTK_WIDGET_CLASS(klass);
    G_OBJECT_CLASS(klass)->dispose = aq_window_dispose;
    GTK_WINDOW_CLASS(klass)->close_request = aq_window_close_request;
    g_type_ensure(AQ_TYPE_API_PAGE);
    g_type_ensure(AQ_TYPE_MODELS_PAGE);
    g_type_ensure(AQ_TYPE_MODEL_PICKER);
    g_type_ensure(AQ_TYPE_CHAT_SIDEBAR);
    g_type_ensure(AQ_TYPE_POOL_PAGE);
    gtk_widget_class_set_template_from_resource(widget_class,
                                                "/io/github/aquiferpool/Aquifer/aq-window.ui");
    gtk_widget_class_bind_template_child(widget_class, AqWindow, split);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, toasts);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, sidebar);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, chat_stack);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, pages);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, models_page);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, pool_page);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, api_page);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, picker);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, device_label);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, load_revealer);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, load_label);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, load_bar);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, banner);
    gtk_widget_class_bind_template_child(widget_class, AqWindow, store_banner);
    gtk_widget_class_bind_template_callback(widget_class, on_chat_selected);
    gtk_widget_class_bind_template_callback(widget_class, on_chat_activated);
    gtk_widget_class_bind_template_callback(widget_class, delete_chat);
    gtk_widget_class_bind_template_callback(widget_class, on_export);
    gtk_widget_class_bind_template_callback(widget_class, on_store_banner);
    gtk_widget_class_install_action(widget_class, "win.show-page", "s", show_page_action);
    gtk_widget_class_install_action(widget_class, "win.stop", NULL, stop_action);
    gtk_widget_class_install_action(widget_class, "win.search-all", NULL, search_action);
    gtk_widget_class_install_action(widget_class, "win.find", NULL, find_action);
    gtk_widget_class_install_action(widget_class, "win.toggle-sidebar", NULL, sidebar_action);
    gtk_widget_class_install_action(widget_class, "win.export-chat", NULL, export_chat_action);
    gtk_widget_class_install_action(widget_class, "win.export-all", NULL, export_all_action);
    gtk_widget_class_install_action(widget_class, "win.import", NULL, import_action);
    gtk_widget_class_install_action(widget_class, "win.undo-delete", NULL, undo_action);
    gtk_widget_class_install_action(widget_class, "win.next-chat", NULL, step_chat_action);
    gtk_widget_class_install_action(widget_class, "win.previous-chat", NULL, step_chat_action);
    gtk_widget_class_install_action(widget_class, "win.cancel-load", NULL, cancel_load_action);
    /* Not an accelerator of the application: those come before a dialog's or a popover's own Escape. */
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_Escape, 0, "win.stop", NULL);
    /* Likewise: a text field undoes its own text. */
    gtk_widget_class_add_binding_action(widget_class, GDK_KEY_z, GDK_CONTROL_MASK,
                                        "win.undo-delete", NULL);
}

static void aq_window_init(AqWindow *self)
{
    gtk_widget_init_template(GTK_WIDGET(self));
}

AqWindow *aq_window_new(GtkApplication *app, AqEngineHost *host, AqModelLibrary *library,
                        AqChats *chats, GSettings *settings, const char *folder)
{
    AqWindow *self = g_object_new(AQ_TYPE_WINDOW, "application", app, NULL);
    self->host = g_object_ref(host);
    if (settings) {
        self->settings = g_object_ref(settings);
        gtk_window_set_default_size(GTK_WINDOW(self), g_settings_get_int(settings, "window-width"),
                                    g_settings_get_int(settings, "window-height"));
        if (g_settings_get_boolean(settings, "window-maximized"))
            gtk_window_maximize(GTK_WINDOW(self));
    }
    AqChatStore *store = aq_chats_get_store(chats);
    self->chats = g_object_ref(chats);
    aq_chat_sidebar_set_chats(AQ_CHAT_SIDEBAR(self->sidebar), chats);
    g_signal_connect_object(aq_chats_get_list(chats), "items-changed", G_CALLBACK(on_chats_changed),
                            self, G_CONNECT_SWAPPED);
    g_signal_connect_object(store, "problem", G_CALLBACK(on_store_problem), self,
                            G_CONNECT_SWAPPED);
    g_signal_connect_object(store, "said", G_CALLBACK(on_store_said), self, G_CONNECT_SWAPPED);
    g_signal_connect(self, "notify::is-active", G_CALLBACK(on_looked_at), NULL);
    g_signal_connect_object(self->pages, "notify::visible-child", G_CALLBACK(on_looked_at), self,
                            G_CONNECT_SWAPPED);
    g_autoptr(AqApiServer) server =
        aq_api_server_new(host, settings, aq_paths_api_keys(), aq_paths_pool());
    aq_api_page_set_server(AQ_API_PAGE(self->api_page), server, host);
    aq_models_page_set_library(AQ_MODELS_PAGE(self->models_page), library, host, folder);
    aq_model_picker_set_library(AQ_MODEL_PICKER(self->picker), library, host);
    g_signal_connect_object(host, "changed", G_CALLBACK(on_host_changed), self, G_CONNECT_SWAPPED);
    g_signal_connect_object(host, "failed", G_CALLBACK(on_host_failed), self, G_CONNECT_SWAPPED);
    show_status(self);
    aq_window_new_chat(self);
    return self;
}

/* A reply pauses when the other PC of a split is lost: whoever looks at the chat is told why. */
static void on_pool_changed(AqWindow *self, AqPoolHost *pool)
{
    aq_split_state st;
    gboolean lost = aq_pool_host_get_split(pool, &st) && st.kind == AQ_SPLIT_LOST;
    if (lost && !self->split_lost) {
        g_autofree char *why = g_utf8_make_valid(st.text, -1);
        /* Translators: what happened to the other PC */
        g_autofree char *text = g_strdup_printf(_("Paused: %s"), why);
        aq_window_tell(self, text);
    } else if (!lost && self->split_lost) {
        hush(self);
    }
    self->split_lost = lost;
}

void aq_window_set_pool(AqWindow *self, AqPoolHost *pool, AqModelLibrary *library)
{
    g_return_if_fail(AQ_IS_WINDOW(self));
    g_signal_connect_object(pool, "changed", G_CALLBACK(on_pool_changed), self, G_CONNECT_SWAPPED);
    aq_pool_page_set_pool(AQ_POOL_PAGE(self->pool_page), pool, self->host, library);
}
