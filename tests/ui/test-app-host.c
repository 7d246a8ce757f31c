/* SPDX-License-Identifier: Apache-2.0 */
/* The engine host, chats and the library with the real engine and the guide model. No display. Waits iterate the main context until their
 * condition holds; the hang limit is the test runner's. */
#include <glib/gstdio.h>
#include <locale.h>

#include "aq-chat.h"
#include "aq-model-library.h"

typedef struct {
    AqEngineHost *host;
    char *failed; /* what signal "failed" told last */
    gboolean closed;
} Fixture;

static const char *guide;

static void on_failed(AqEngineHost *host, const char *path, const char *text, Fixture *f)
{
    g_free(f->failed);
    f->failed = g_strdup(text);
}

static void set_up(Fixture *f, gconstpointer data)
{
    f->host = aq_engine_host_new(NULL);
    g_signal_connect(f->host, "failed", G_CALLBACK(on_failed), f);
}

static void on_closed(gpointer user)
{
    ((Fixture *)user)->closed = TRUE;
}

/* However a test ends, the host closes and nothing is left (else this hangs, and the runner's limit ends it). */
static void tear_down(Fixture *f, gconstpointer data)
{
    aq_engine_host_close(f->host, on_closed, f);
    while (!f->closed)
        g_main_context_iteration(NULL, TRUE);
    g_assert_false(aq_engine_host_can_answer(f->host));
    /* The last to leave may be a worker thread that returned from its task and still holds it. */
    GWeakRef left;
    g_weak_ref_init(&left, f->host);
    g_object_unref(f->host);
    for (GObject *host; (host = g_weak_ref_get(&left)); g_thread_yield()) {
        g_object_unref(host);
        g_main_context_iteration(NULL, FALSE);
    }
    g_weak_ref_clear(&left);
    g_free(f->failed);
}

static void wait_loaded(Fixture *f)
{
    while (aq_engine_host_get_state(f->host) == AQ_ENGINE_LOADING)
        g_main_context_iteration(NULL, TRUE);
}

static void wait_answer(AqChat *chat)
{
    while (aq_chat_get_busy(chat))
        g_main_context_iteration(NULL, TRUE);
}

static AqMessage *last(AqChat *chat)
{
    GListModel *list = aq_chat_get_messages(chat);
    g_autoptr(AqMessage) m = g_list_model_get_item(list, g_list_model_get_n_items(list) - 1);
    return m; /* the list keeps it */
}

static void load(Fixture *f)
{
    g_clear_pointer(&f->failed, g_free);
    aq_engine_host_load(f->host, guide);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_LOADING);
    g_assert_cmpstr(aq_engine_host_get_loading_path(f->host), ==, guide);
    wait_loaded(f);
    g_assert_cmpstr(f->failed, ==, NULL);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_READY);
}

static void test_load(Fixture *f, gconstpointer data)
{
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_NONE);
    g_assert_null(aq_engine_host_ref_slot(f->host));
    load(f);
    g_assert_cmpstr(aq_engine_host_get_path(f->host), ==, guide);
    g_assert_true(g_str_has_prefix(aq_engine_host_get_device(f->host), "CPU ("));
    GStatBuf st;
    g_assert_cmpint(g_stat(guide, &st), ==, 0);
    g_assert_cmpuint(aq_engine_host_get_weight_bytes(f->host), >=, (guint64)st.st_size * 9 / 10);
    g_assert_cmpuint(aq_engine_host_get_n_ctx(f->host), >=, 512);
}

static void test_cancel(Fixture *f, gconstpointer data)
{
    aq_engine_host_load(f->host, guide);
    aq_engine_host_cancel_load(f->host);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_NONE);
    load(f);
    /* A load that is cancelled, or replaced by another, leaves the earlier model. */
    aq_engine_host_load(f->host, guide);
    aq_engine_host_load(f->host, "/nowhere/at-all.gguf");
    aq_engine_host_cancel_load(f->host);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_READY);
    g_assert_true(aq_engine_host_can_answer(f->host));
    g_assert_cmpstr(f->failed, ==, NULL);
}

static void test_fail(Fixture *f, gconstpointer data)
{
    aq_engine_host_load(f->host, "/nowhere/at-all.gguf");
    wait_loaded(f);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_ERROR);
    g_assert_nonnull(strstr(f->failed, "at-all.gguf"));
    load(f);
}

static void test_keep(Fixture *f, gconstpointer data)
{
    load(f);
    aq_engine_host_load(f->host, "/nowhere/at-all.gguf");
    g_assert_true(aq_engine_host_can_answer(f->host));
    wait_loaded(f);
    g_assert_nonnull(f->failed);
    g_assert_cmpint(aq_engine_host_get_state(f->host), ==, AQ_ENGINE_READY);
    g_assert_cmpstr(aq_engine_host_get_path(f->host), ==, guide);
    g_autoptr(AqChat) chat = aq_chat_new(f->host, NULL);
    g_assert_true(aq_chat_send(chat, "What is Aquifer?"));
    wait_answer(chat);
    g_assert_cmpint(aq_message_get_state(last(chat)), ==, AQ_MESSAGE_DONE);
}

static void test_chat(Fixture *f, gconstpointer data)
{
    load(f);
    g_autoptr(AqChat) a = aq_chat_new(f->host, NULL), b = aq_chat_new(f->host, NULL);
    aq_chat_set_temperature(a, 0);
    aq_chat_set_temperature(b, 0);
    g_assert_false(aq_chat_send(a, " \n "));
    g_assert_true(aq_chat_send(a, "  What is Aquifer? "));
    g_assert_true(aq_chat_send(b, "What is Aquifer?"));
    g_assert_false(aq_chat_send(a, "now?")); /* one question at a time */
    g_assert_cmpstr(aq_chat_get_title(a), ==, "What is Aquifer?");
    wait_answer(a);
    wait_answer(b);
    gsize n;
    const char *text = aq_message_get_text(last(a), &n);
    g_assert_cmpuint(n, >, 20);
    g_assert_cmpstr(text, ==, aq_message_get_text(last(b), NULL));
    const aq_usage *u = aq_message_get_usage(last(a));
    g_assert_nonnull(u);
    g_assert_cmpuint(u->gen_tok, >, 5);
    g_assert_cmpuint(u->prompt_tok, >, 3);

    /* The second question goes on from what the engine has. */
    g_assert_true(aq_chat_send(a, "What is a pool?"));
    wait_answer(a);
    u = aq_message_get_usage(last(a));
    g_assert_cmpuint(u->cached_tok, >, 10);
    g_assert_cmpuint(g_list_model_get_n_items(aq_chat_get_messages(a)), ==, 4);

    g_autofree char *before = g_strdup(aq_message_get_text(last(b), NULL));
    AqMessage *first = last(b);
    g_assert_true(aq_chat_ask_again(b, first));
    wait_answer(b);
    g_assert_cmpuint(g_list_model_get_n_items(aq_chat_get_messages(b)), ==, 2);
    g_assert_cmpstr(aq_message_get_text(last(b), NULL), ==, before);

    /* The earlier answer is another version, and can be shown again. */
    guint at;
    g_assert_cmpuint(aq_chat_get_branches(b, last(b), &at), ==, 2);
    g_assert_cmpuint(at, ==, 1);
    aq_chat_step_branch(b, last(b), -1);
    g_assert_true(last(b) == first);
    aq_chat_step_branch(b, last(b), -1);
    g_assert_true(last(b) == first);
    /* A question in other words is a version, too, with an answer of its own. */
    g_autoptr(AqMessage) question = g_list_model_get_item(aq_chat_get_messages(b), 0);
    g_assert_true(aq_chat_edit(b, question, "What is a pool?"));
    wait_answer(b);
    g_assert_cmpstr(aq_message_get_text(last(b), NULL), !=, before);
    g_autoptr(AqMessage) edited = g_list_model_get_item(aq_chat_get_messages(b), 0);
    g_assert_cmpuint(aq_chat_get_branches(b, edited, &at), ==, 2);
    aq_chat_step_branch(b, edited, -1);
    g_assert_true(g_list_model_get_n_items(aq_chat_get_messages(b)) == 2);
    g_autoptr(AqMessage) again = g_list_model_get_item(aq_chat_get_messages(b), 0);
    g_assert_true(again == question);
    /* Deleting the question takes what is below it; the other version is left. */
    aq_chat_delete_message(b, question);
    g_autoptr(AqMessage) left = g_list_model_get_item(aq_chat_get_messages(b), 0);
    g_assert_true(left == edited);
    g_assert_cmpuint(aq_chat_get_branches(b, edited, &at), ==, 1);
    aq_chat_delete_message(b, edited);
    g_assert_true(aq_chat_get_empty(b));
}

static guint n_parked(const char *dir)
{
    guint n = 0;
    g_autoptr(GDir) d = g_dir_open(dir, 0, NULL);
    while (d && g_dir_read_name(d))
        n++;
    return n;
}

/* One run of the window: the chat so far, one question more, its answer. */
static guint one_run(const char *dir, char **text, gboolean forget)
{
    Fixture f = {0};
    set_up(&f, NULL);
    aq_engine_host_set_parked(f.host, dir);
    load(&f);
    g_autoptr(AqChat) chat = aq_chat_new(f.host, NULL);
    aq_chat_set_temperature(chat, 0);
    /* fewer tokens would be read again as fast */
    g_autoptr(GString) question = g_string_new("What is Aquifer? I ask because");
    for (guint i = 1; i <= 12; i++)
        g_string_append_printf(question, " computer %u has %u GB,", i, 4 * i);
    g_assert_true(aq_chat_send(chat, question->str));
    wait_answer(chat);
    guint cached = aq_message_get_usage(last(chat))->cached_tok;
    g_assert_cmpint(aq_message_get_state(last(chat)), ==, AQ_MESSAGE_DONE);
    g_free(*text);
    *text = g_strdup(aq_message_get_text(last(chat), NULL));
    if (forget)
        aq_chat_delete_message(chat, last(chat));
    g_clear_object(&chat);
    tear_down(&f, NULL);
    return cached;
}

/* What one run of the window read, the next need not read again; what is deleted is not kept. */
static void test_parked(void)
{
    g_autofree char *tmp = g_dir_make_tmp("aq-parked-XXXXXX", NULL), *first = NULL, *text = NULL;
    g_autofree char *dir = g_build_filename(tmp, "a", "parked", NULL);
    g_assert_cmpuint(one_run(dir, &first, TRUE), ==, 0);
    g_assert_cmpuint(n_parked(dir), ==, 0);
    g_assert_cmpuint(one_run(dir, &text, FALSE), ==, 0);
    g_assert_cmpuint(n_parked(dir), ==, 1);
    g_assert_cmpuint(one_run(dir, &text, FALSE), >, 64);
    g_assert_cmpstr(text, ==, first);
    g_assert_cmpuint(one_run(dir, &text, TRUE), >, 64);
    g_assert_cmpuint(n_parked(dir), ==, 0);
    g_assert_cmpuint(one_run(dir, &text, FALSE), ==, 0);
    /* a folder that cannot be used costs nothing else */
    g_autofree char *none = g_build_filename(guide, "parked", NULL);
    g_assert_cmpuint(one_run(none, &text, FALSE), ==, 0);
    g_assert_cmpstr(text, ==, first);
    g_autofree char *rm = g_strdup_printf("rm -r '%s'", tmp);
    g_assert_true(g_spawn_command_line_sync(rm, NULL, NULL, NULL, NULL));
}

/* A chat that an earlier model still answers is deleted: that model keeps nothing of it, whether it is there or just being freed. */
static void test_parked_earlier(void)
{
    g_autofree char *tmp = g_dir_make_tmp("aq-parked-XXXXXX", NULL);
    g_autofree char *dir = g_build_filename(tmp, "parked", NULL);
    for (int freeing = 0; freeing < 2; freeing++) {
        Fixture f = {0};
        set_up(&f, NULL);
        aq_engine_host_set_parked(f.host, dir);
        load(&f);
        g_autoptr(AqChat) chat = aq_chat_new(f.host, NULL);
        g_autoptr(GString) question = g_string_new("What is Aquifer? I ask because");
        for (guint i = 1; i <= 12; i++)
            g_string_append_printf(question, " computer %u has %u GB,", i, 4 * i);
        g_assert_true(aq_chat_send(chat, question->str));
        wait_answer(chat);
        AqEngineSlot *earlier = aq_engine_host_ref_slot(f.host); /* as its answer does */
        load(&f);
        if (freeing)
            g_clear_pointer(&earlier, aq_engine_slot_unref);
        aq_chat_delete_message(chat, last(chat));
        g_clear_pointer(&earlier, aq_engine_slot_unref);
        g_clear_object(&chat);
        tear_down(&f, NULL);
        g_assert_cmpuint(n_parked(dir), ==, 0);
    }
    g_autofree char *rm = g_strdup_printf("rm -r '%s'", tmp);
    g_assert_true(g_spawn_command_line_sync(rm, NULL, NULL, NULL, NULL));
}

static void closed_store(gpointer user)
{
    *(gboolean *)user = TRUE;
}

/* What the model thought is kept with the chat, and is not sent again. */
static void test_thinking(Fixture *f, gconstpointer data)
{
    g_autoptr(AqChatStore) store = aq_chat_store_new(NULL);
    AqStoreChat stored = {.id = 1000, .changed_us = 1, .leaf = 1002, .title = (char *)"T"};
    AqStoreMessage q = {
        .id = 1001, .chat = 1000, .role = AQ_MESSAGE_USER, .text = (char *)"the question"};
    AqStoreMessage a = {.id = 1002,
                        .chat = 1000,
                        .parent = 1001,
                        .role = AQ_MESSAGE_ASSISTANT,
                        .text = (char *)"the answer",
                        .thinking = (char *)"the thoughts"};
    gboolean closed = FALSE;
    aq_chat_store_put_chat(store, &stored);
    aq_chat_store_put_message(store, &q, NULL);
    aq_chat_store_put_message(store, &a, NULL);
    g_autoptr(AqChat) chat = aq_chat_new_stored(f->host, store, &stored);
    aq_chat_load(chat);
    while (!aq_chat_get_loaded(chat))
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(aq_message_get_thinking(last(chat), NULL), ==, "the thoughts");
    g_autofree char *json = aq_chat_to_json(chat, 2, "and more");
    g_assert_nonnull(strstr(json, "the question"));
    g_assert_nonnull(strstr(json, "the answer"));
    g_assert_nonnull(strstr(json, "and more"));
    g_assert_null(strstr(json, "thoughts"));
    aq_chat_store_close(store, closed_store, &closed);
    while (!closed)
        g_main_context_iteration(NULL, TRUE);
}

/* Stopping and letting go at every moment: right away, after the submit, after the first text. */
static void test_stop(Fixture *f, gconstpointer data)
{
    load(f);
    for (guint moment = 0; moment < 20; moment++) {
        g_autoptr(AqChat) chat = aq_chat_new(f->host, NULL);
        g_assert_true(aq_chat_send(chat, "Tell me everything about Aquifer."));
        for (guint i = 0; i < moment && aq_chat_get_busy(chat); i++)
            g_main_context_iteration(NULL, TRUE);
        if (moment % 2)
            continue; /* the chat goes while it is answered */
        aq_chat_stop(chat);
        wait_answer(chat);
        AqMessageState state = aq_message_get_state(last(chat));
        g_assert_true(state == AQ_MESSAGE_STOPPED || state == AQ_MESSAGE_DONE);
    }
}

static void test_close(Fixture *f, gconstpointer data)
{
    load(f);
    g_autoptr(AqChat) chat = aq_chat_new(f->host, NULL);
    g_assert_true(aq_chat_send(chat, "Tell me everything about Aquifer."));
    aq_engine_host_load(f->host, guide);
    /* tear_down closes the host while both are under way; the chat lets go of its answer first. */
}

static void test_library(Fixture *f, gconstpointer data)
{
    g_autofree char *dir = g_dir_make_tmp("aq-library-XXXXXX", NULL), *contents = NULL;
    g_autofree char *good = g_build_filename(dir, "b.gguf", NULL);
    g_autofree char *bad = g_build_filename(dir, "a.gguf", NULL);
    g_autofree char *other = g_build_filename(dir, "c.txt", NULL);
    g_autofree char *shard = g_build_filename(dir, "d-00002-of-00002.gguf", NULL);
    gsize n;
    g_assert_true(g_file_get_contents(guide, &contents, &n, NULL));
    g_assert_true(g_file_set_contents(good, contents, (gssize)n, NULL));
    g_assert_true(g_file_set_contents(bad, "GGUF", 4, NULL));
    g_assert_true(g_file_set_contents(other, "x", 1, NULL));
    g_assert_true(g_file_set_contents(shard, "GGUF", 4, NULL));

    g_autoptr(AqModelLibrary) library = aq_model_library_new(f->host, dir, guide);
    GListModel *items = aq_model_library_get_items(library);
    aq_model_library_refresh(library);
    while (g_list_model_get_n_items(items) < 3)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(g_list_model_get_n_items(items), ==, 3);
    g_autoptr(AqModelItem) first = g_list_model_get_item(items, 0);
    g_autoptr(AqModelItem) second = g_list_model_get_item(items, 1);
    g_assert_cmpstr(aq_model_item_get_path(first), ==, guide);
    g_assert_true(aq_model_item_get_usable(first));
    g_assert_nonnull(strstr(aq_model_item_get_line(first), "qwen3moe"));
    guint n_facts;
    g_assert_nonnull(aq_model_item_get_facts(first, &n_facts));
    g_assert_cmpuint(n_facts, >=, 7);
    g_assert_cmpstr(aq_model_item_get_path(second), ==, bad);
    g_assert_false(aq_model_item_get_usable(second));
    g_assert_cmpuint(strlen(aq_model_item_get_line(second)), >, 10);

    /* What goes from the folder goes from the list; what stays is the same object. */
    g_assert_cmpint(g_unlink(bad), ==, 0);
    aq_model_library_refresh(library);
    while (g_list_model_get_n_items(items) > 2)
        g_main_context_iteration(NULL, TRUE);
    g_autoptr(AqModelItem) still = g_list_model_get_item(items, 0);
    g_assert_true(still == first);
    g_assert_cmpint(g_unlink(good), ==, 0);
    g_assert_cmpint(g_unlink(other), ==, 0);
    g_assert_cmpint(g_unlink(shard), ==, 0);
    g_assert_cmpint(g_rmdir(dir), ==, 0);
}

#define add(name, fn) g_test_add("/host/" name, Fixture, NULL, set_up, fn, tear_down)

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    guide = g_getenv("AQ_TEST_GUIDE");
    g_assert_nonnull(guide);
    add("load", test_load);
    add("cancel", test_cancel);
    add("fail", test_fail);
    add("keep", test_keep);
    add("chat", test_chat);
    add("thinking", test_thinking);
    g_test_add_func("/host/parked", test_parked);
    g_test_add_func("/host/parked-earlier", test_parked_earlier);
    add("stop", test_stop);
    add("close", test_close);
    add("library", test_library);
    return g_test_run();
}
