/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of the window, made from inside. It looks at its conditions once per frame; a few frames after they hold, the window is
 * rendered. */
#include "aq-shot.h"

#define SETTLE_FRAMES 12
#define SAVE_FRAMES 600 /* for a window that is laid out anew just then */

typedef struct {
    AqEngineHost *host;
    char *page, *file, *ask;
    gboolean asked, kept; /* kept: the newest chat that is there is shown, and nothing asked */
    int settle;
    int *ret_status;
} Shot;

static void shot_free(Shot *shot)
{
    g_object_unref(shot->host);
    g_free(shot->page);
    g_free(shot->file);
    g_free(shot->ask);
    g_free(shot);
}

/* 1: written, 0: there is nothing to see in this frame, -1: it could not be written. */
static int save(GtkWidget *window, const char *file)
{
    int width = gtk_widget_get_width(window), height = gtk_widget_get_height(window);
    g_autoptr(GdkPaintable) paintable = gtk_widget_paintable_new(window);
    g_autoptr(GtkSnapshot) snapshot = gtk_snapshot_new();
    gdk_paintable_snapshot(paintable, snapshot, width, height);
    g_autoptr(GskRenderNode) node = gtk_snapshot_to_node(snapshot);
    if (!node)
        return 0;
    GskRenderer *renderer = gtk_native_get_renderer(GTK_NATIVE(window));
    g_autoptr(GdkTexture) texture = gsk_renderer_render_texture(
        renderer, node, &GRAPHENE_RECT_INIT(0, 0, (float)width, (float)height));
    return gdk_texture_save_to_png(texture, file) ? 1 : -1;
}

/* 1: what the page shows is there, 0: not yet, -1: it never will be. */
static int ready(AqWindow *window, Shot *shot)
{
    if (aq_engine_host_get_state(shot->host) == AQ_ENGINE_LOADING)
        return 0;
    if (!g_str_equal(shot->page, "chat"))
        return 1;
    if (shot->kept)
        return aq_window_show_newest(window);
    if (!aq_engine_host_can_answer(shot->host)) {
        g_printerr("aquifer: no model is loaded, so no question can be answered\n");
        return -1;
    }
    if (!shot->asked) {
        shot->asked = TRUE;
        aq_window_ask(window, shot->ask);
        return 0;
    }
    AqChat *chat = aq_window_get_chat(window);
    if (aq_chat_get_busy(chat))
        return 0;
    GListModel *messages = aq_chat_get_messages(chat);
    guint n = g_list_model_get_n_items(messages);
    g_autoptr(AqMessage) last = n ? g_list_model_get_item(messages, n - 1) : NULL;
    if (last && aq_message_get_state(last) == AQ_MESSAGE_FAILED) {
        g_printerr("aquifer: the question was not answered: %s\n", aq_message_get_error(last));
        return -1;
    }
    return 1;
}

static gboolean on_frame(GtkWidget *widget, GdkFrameClock *clock, gpointer user)
{
    Shot *shot = user;
    AqWindow *window = AQ_WINDOW(widget);
    if (shot->settle == 0) {
        int r = ready(window, shot);
        if (r == 0)
            return G_SOURCE_CONTINUE;
        if (r < 0) {
            *shot->ret_status = 1;
            gtk_window_close(GTK_WINDOW(window));
            return G_SOURCE_REMOVE;
        }
        aq_window_show_page(window, shot->page);
        gtk_window_set_focus(GTK_WINDOW(window), NULL);
    }
    if (++shot->settle < SETTLE_FRAMES)
        return G_SOURCE_CONTINUE;
    int saved = save(widget, shot->file);
    if (saved == 0 && shot->settle < SAVE_FRAMES)
        return G_SOURCE_CONTINUE;
    if (saved <= 0) {
        g_printerr("aquifer: the picture could not be written to %s\n", shot->file);
        *shot->ret_status = 1;
    }
    AdwDialog *dialog = adw_application_window_get_visible_dialog(ADW_APPLICATION_WINDOW(window));
    if (dialog) /* it would be closed instead of the window */
        adw_dialog_force_close(dialog);
    gtk_window_close(GTK_WINDOW(window));
    return G_SOURCE_REMOVE;
}

/* Words of --shot-look. */
static const char *const looks[] = {"dark", "rtl", "large", NULL};

gboolean aq_shot_look_known(const char *look)
{
    g_auto(GStrv) words = g_strsplit(look, ",", -1);
    for (guint i = 0; words[i]; i++)
        if (!g_strv_contains(looks, words[i]))
            return FALSE;
    return TRUE;
}

void aq_shot_set_look(const char *look)
{
    g_auto(GStrv) words = g_strsplit(look ? look : "", ",", -1);
    const char *const *all = (const char *const *)words;
    if (g_strv_contains(all, "dark"))
        adw_style_manager_set_color_scheme(adw_style_manager_get_default(),
                                           ADW_COLOR_SCHEME_FORCE_DARK);
    if (g_strv_contains(all, "rtl"))
        gtk_widget_set_default_direction(GTK_TEXT_DIR_RTL);
    if (g_strv_contains(all, "large"))
        g_object_set(gtk_settings_get_default(), "gtk-xft-dpi", 96 * 1024 * 3 / 2, NULL);
}

void aq_shot_start(AqWindow *window, AqEngineHost *host, const char *page, const char *file,
                   const char *ask, gboolean kept, int *ret_status)
{
    Shot *shot = g_new0(Shot, 1);
    shot->host = g_object_ref(host);
    shot->page = g_strdup(page);
    shot->file = g_strdup(file);
    shot->ask = g_strdup(ask ? ask : "What is Aquifer?");
    shot->kept = kept;
    shot->ret_status = ret_status;
    /* Nothing half-way in the picture, and the same letters on every machine. */
    g_object_set(gtk_widget_get_settings(GTK_WIDGET(window)), "gtk-enable-animations", FALSE,
                 "gtk-cursor-blink", FALSE, "gtk-font-name", "Cantarell 11", NULL);
    gtk_widget_add_tick_callback(GTK_WIDGET(window), on_frame, shot, (GDestroyNotify)shot_free);
}
