/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, their blocks of text, chats as JSON. No engine. */
#include <locale.h>

#include "aq-chat.h"
#include "aq-message.h"

static void count(guint *n)
{
    ++*n;
}

static void test_append(void)
{
    g_autoptr(AqMessage) m = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);
    guint n = 0;
    gsize len;
    g_signal_connect_swapped(m, "changed", G_CALLBACK(count), &n);
    g_assert_cmpint(aq_message_get_state(m), ==, AQ_MESSAGE_WAITING);
    g_assert_true(aq_message_is_running(m));
    aq_message_append(m, FALSE, "Hel", 3);
    aq_message_append(m, FALSE, "lo\0!", 4);
    aq_message_append(m, TRUE, "hm", 2);
    g_assert_cmpstr(aq_message_get_text(m, &len), ==, "Hello\xef\xbf\xbd!");
    g_assert_cmpuint(len, ==, 9);
    g_assert_cmpstr(aq_message_get_thinking(m, NULL), ==, "hm");
    g_assert_cmpint(aq_message_get_state(m), ==, AQ_MESSAGE_STREAMING);
    g_assert_cmpuint(n, ==, 3);
    g_assert_null(aq_message_get_usage(m));
    aq_err err = {.code = AQ_E_IO, .text = "the disk is gone"};
    aq_message_fail(m, &err);
    g_assert_false(aq_message_is_running(m));
    g_assert_cmpstr(aq_message_get_error(m), ==, "the disk is gone");
    g_assert_cmpint(aq_message_get_error_code(m), ==, AQ_E_IO);
}

static void test_wait(void)
{
    g_autoptr(AqMessage) m = aq_message_new(AQ_MESSAGE_ASSISTANT, NULL);
    const struct {
        aq_req_state st;
        const char *text;
    } cases[] = {
        {{.queued = 1}, "Starting…"},
        {{.queued = 2}, "Waiting for 1 other answer"},
        {{.queued = 5}, "Waiting for 4 other answers"},
        {{.prompt_tok = 512, .read_tok = 128}, "Reading 128 of 512 tokens"},
        {{.prompt_tok = 512, .read_tok = 512}, "Starting…"},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        aq_message_set_progress(m, &cases[i].st);
        g_autofree char *text = aq_message_describe_wait(m);
        g_assert_cmpstr(text, ==, cases[i].text);
    }
}

/* Blocks cover the text without gap or overlap, end on characters, and are short. */
static guint check_blocks(const char *text, gsize n)
{
    guint blocks = 0;
    for (gsize from = 0; from < n; blocks++) {
        gsize end = aq_text_block_end(text, n, from);
        g_assert_cmpuint(end, >, from);
        g_assert_cmpuint(end, <=, n);
        g_assert_cmpuint(end - from, <=, 4100);
        g_assert_true(g_utf8_validate(text + from, (gssize)(end - from), NULL));
        from = end;
    }
    return blocks;
}

static void test_blocks(void)
{
    const char *two = "one\ntwo\n\n\nthree";
    g_assert_cmpuint(aq_text_block_end(two, strlen(two), 0), ==, 10);
    g_assert_cmpuint(aq_text_block_end(two, strlen(two), 10), ==, strlen(two));
    g_assert_cmpuint(check_blocks(two, strlen(two)), ==, 2);

    /* A megabyte without a line, a word or (but for its multi-byte characters) a boundary. */
    GString *s = g_string_new("x");
    while (s->len < 1000000)
        g_string_append(s, "€");
    g_assert_cmpuint(check_blocks(s->str, s->len), >, 200);
    g_string_assign(s, "");
    for (guint i = 0; i < 20000; i++)
        g_string_append(s, i % 10 ? "word " : "line\n");
    g_assert_cmpuint(check_blocks(s->str, s->len), >, 20);
    g_string_assign(s, "");
    for (guint i = 0; i < 5000; i++)
        g_string_append(s, "longword ");
    gsize end = aq_text_block_end(s->str, s->len, 0);
    g_assert_cmpint(s->str[end - 1], ==, ' ');
    g_string_free(s, TRUE);
}

/* As text streams in, what was a closed block stays one. */
static void test_blocks_grow(void)
{
    GString *s = g_string_new(NULL);
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);
    static const char *const parts[] = {"a",     " ", "\n", "\n\n",
                                        "word ", "ü", "…",  "xxxxxxxxxxxxxxxx"};
    gsize start = 0;
    for (guint i = 0; i < 20000; i++) {
        g_string_append(s, parts[g_rand_int_range(rand, 0, G_N_ELEMENTS(parts))]);
        for (gsize end; (end = aq_text_block_end(s->str, s->len, start)) < s->len;)
            start = end;
    }
    gsize from = 0;
    while (from < start)
        from = aq_text_block_end(s->str, s->len, from);
    g_assert_cmpuint(from, ==, start);
    g_string_free(s, TRUE);
}

static AqMessage *add(GListModel *list, AqMessageRole role, const char *text, AqMessageState state)
{
    g_autoptr(AqMessage) m = aq_message_new(role, text);
    aq_message_set_state(m, state);
    g_list_store_append(G_LIST_STORE(list), m);
    return m;
}

static void test_json(void)
{
    g_autoptr(AqEngineHost) host = aq_engine_host_new(NULL);
    g_autoptr(AqChat) chat = aq_chat_new(host, NULL);
    GListModel *list = aq_chat_get_messages(chat);
    g_assert_cmpstr(aq_chat_get_title(chat), ==, "New Chat");
    g_assert_true(aq_chat_get_empty(chat));
    add(list, AQ_MESSAGE_USER, "a \"quoted\"\nline", AQ_MESSAGE_DONE);
    add(list, AQ_MESSAGE_ASSISTANT, "half", AQ_MESSAGE_FAILED);
    add(list, AQ_MESSAGE_USER, "again", AQ_MESSAGE_DONE);
    add(list, AQ_MESSAGE_ASSISTANT, "", AQ_MESSAGE_STOPPED);
    add(list, AQ_MESSAGE_ASSISTANT, "cut", AQ_MESSAGE_STOPPED);
    add(list, AQ_MESSAGE_USER, "last", AQ_MESSAGE_DONE);
    g_autofree char *all = aq_chat_to_json(chat, 6, NULL);
    g_assert_cmpstr(all, ==,
                    "[{\"role\":\"user\",\"content\":\"a \\\"quoted\\\"\\nline\"},"
                    "{\"role\":\"user\",\"content\":\"again\"},"
                    "{\"role\":\"assistant\",\"content\":\"cut\"},"
                    "{\"role\":\"user\",\"content\":\"last\"}]");
    g_autofree char *none = aq_chat_to_json(chat, 0, NULL);
    g_assert_cmpstr(none, ==, "[]");
    /* Files come before the question, each in a fence that its text cannot end. */
    g_autoptr(AqFile) plain = aq_file_new("a.txt", "one\ntwo", 7);
    g_autoptr(AqFile) fenced = aq_file_new("b\n.md", "````\nx\n````\n", 12);
    g_assert_true(aq_chat_add_draft_file(chat, plain));
    g_assert_true(aq_chat_add_draft_file(chat, fenced));
    g_autofree char *with = aq_chat_to_json(chat, 0, "What?");
    g_assert_cmpstr(with, ==,
                    "[{\"role\":\"user\",\"content\":\"a.txt:\\n```\\none\\ntwo\\n```\\n\\n"
                    "b .md:\\n`````\\n````\\nx\\n````\\n`````\\n\\nWhat?\"}]");
    aq_chat_remove_draft_file(chat, plain);
    aq_chat_remove_draft_file(chat, fenced);
    /* Nobody can attach an empty one, but a damaged store may have it. */
    g_autoptr(AqFile) empty = aq_file_new("e", "", 0);
    g_assert_true(aq_chat_add_draft_file(chat, empty));
    g_autofree char *nothing = aq_chat_to_json(chat, 0, "What?");
    g_assert_cmpstr(nothing, ==, "[{\"role\":\"user\",\"content\":\"e:\\n```\\n```\\n\\nWhat?\"}]");
    aq_chat_remove_draft_file(chat, empty);
    for (guint i = 0; i < AQ_FILES_MAX; i++)
        g_assert_true(aq_chat_add_draft_file(chat, plain));
    g_assert_false(aq_chat_add_draft_file(chat, fenced));
    /* Without a model nothing is taken. */
    g_assert_false(aq_chat_send(chat, "hello"));
    g_autoptr(AqMessage) any = g_list_model_get_item(list, 1);
    g_assert_false(aq_chat_ask_again(chat, any));
    g_assert_cmpuint(g_list_model_get_n_items(list), ==, 6);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message/append", test_append);
    g_test_add_func("/message/wait", test_wait);
    g_test_add_func("/message/blocks", test_blocks);
    g_test_add_func("/message/blocks-grow", test_blocks_grow);
    g_test_add_func("/chat/json", test_json);
    return g_test_run();
}
