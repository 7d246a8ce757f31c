/* SPDX-License-Identifier: Apache-2.0 */
/* usage: grow-bench METER FILE RATE
 * A chat whose answer is the text of FILE. RATE: bytes a second that are written, as by a model; "opened": all of it is there at the start;
 * "pasted": it comes from the clipboard into the field instead. Turns of the main loop go to METER (src/app/aq-loop-meter.h), with the marks
 * "begun" and, of a paste, "pasted". Needs a display. */
#include <adwaita.h>
#include <gtksourceview/gtksource.h>
#include <stdlib.h>

#include "aq-chat-view.h"
#include "aq-composer.h"
#include "aq-loop-meter.h"

#define STEP_MS 20    /* between two tokens of a quick model */
#define AFTER_MS 4500 /* until what is there at the end is shown */
#define PASTE_MS 1000 /* until the window is there */

typedef struct {
    GMainLoop *loop;
    GtkWidget *view;
    AqMessage *answer;
    char *text;
    gsize n, at, step;
} Run;

static gboolean end(gpointer user)
{
    Run *run = user;
    g_main_loop_quit(run->loop);
    return G_SOURCE_REMOVE;
}

static void written(Run *run)
{
    aq_message_set_state(run->answer, AQ_MESSAGE_DONE);
    g_timeout_add(AFTER_MS, end, run);
}

static GtkWidget *find(GtkWidget *in, GType type)
{
    if (G_TYPE_CHECK_INSTANCE_TYPE(in, type))
        return in;
    for (GtkWidget *c = gtk_widget_get_first_child(in); c; c = gtk_widget_get_next_sibling(c)) {
        GtkWidget *w = find(c, type);
        if (w)
            return w;
    }
    return NULL;
}

/* The text comes from the clipboard of this process. */
static gboolean paste(gpointer user)
{
    Run *run = user;
    GtkWidget *entry = find(find(run->view, AQ_TYPE_COMPOSER), GTK_TYPE_TEXT_VIEW);
    aq_loop_meter_mark("pasted");
    g_signal_emit_by_name(entry, "paste-clipboard");
    return G_SOURCE_REMOVE;
}

static gboolean step(gpointer user)
{
    Run *run = user;
    gsize to = MIN(run->n, run->at + run->step);
    while (to < run->n && ((guchar)run->text[to] & 0xc0) == 0x80)
        to++;
    aq_message_append(run->answer, FALSE, run->text + run->at, to - run->at);
    run->at = to;
    if (to < run->n)
        return G_SOURCE_CONTINUE;
    written(run);
    return G_SOURCE_REMOVE;
}

int main(int argc, char **argv)
{
    Run run = {.loop = g_main_loop_new(NULL, FALSE)};
    g_autoptr(GError) error = NULL;
    if (argc != 4 || !g_file_get_contents(argv[2], &run.text, &run.n, &error)) {
        g_printerr("usage: grow-bench METER FILE RATE%s%s\n", error ? "\n" : "",
                   error ? error->message : "");
        return 2;
    }
    gsize rate = (gsize)g_ascii_strtoull(argv[3], NULL, 10);
    gboolean pastes = g_str_equal(argv[3], "pasted");
    run.step = MAX(1, rate * STEP_MS / 1000);
    gtk_source_init();
    adw_init();
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChatStore) store = aq_chat_store_new(NULL);
    AqStoreChat stored = {.id = 1000, .changed_us = 1, .leaf = 1002, .title = (char *)"Long"};
    AqStoreMessage messages[] = {
        {.id = 1001, .chat = 1000, .role = AQ_MESSAGE_USER, .text = (char *)"Which?"},
        {.id = 1002,
         .chat = 1000,
         .parent = 1001,
         .role = AQ_MESSAGE_ASSISTANT,
         .text = rate || pastes ? (char *)"" : run.text}};
    aq_chat_store_put_chat(store, &stored);
    for (int i = 0; i < 2; i++)
        aq_chat_store_put_message(store, &messages[i], NULL);
    g_autoptr(AqChat) chat = aq_chat_new_stored(host, store, &stored);
    aq_chat_load(chat);
    while (!aq_chat_get_loaded(chat))
        g_main_context_iteration(NULL, TRUE);
    run.answer = g_list_model_get_item(aq_chat_get_messages(chat), 1);
    if (rate)
        aq_message_set_state(run.answer, AQ_MESSAGE_STREAMING);
    AqChatView *view = aq_chat_view_new(chat);
    run.view = GTK_WIDGET(view);
    GtkWidget *window = adw_window_new();
    adw_window_set_content(ADW_WINDOW(window), GTK_WIDGET(view));
    gtk_window_set_default_size(GTK_WINDOW(window), 900, 700);
    aq_loop_meter_begin(argv[1]);
    gtk_window_present(GTK_WINDOW(window));
    aq_loop_meter_mark("begun");
    if (rate)
        g_timeout_add(STEP_MS, step, &run);
    else
        written(&run);
    if (pastes) {
        gdk_clipboard_set_text(gtk_widget_get_clipboard(window), run.text);
        g_timeout_add(PASTE_MS, paste, &run);
    }
    g_main_loop_run(run.loop);
    aq_loop_meter_end();
    return 0;
}
