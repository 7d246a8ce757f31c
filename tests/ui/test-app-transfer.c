/* SPDX-License-Identifier: Apache-2.0 */
/* Chats as files: what is written is read, what others write is read, and files that are meant to do harm are refused. */
#include <locale.h>
#include <string.h>

#include "aq-message.h"
#include "aq-file.h"
#include "aq-transfer.h"
#include "aq-transfer-target.h"

static GPtrArray *read_all(const char *text)
{
    GPtrArray *copies = NULL;
    aq_err err = {0};
    int rc = aq_transfer_read(text, strlen(text), &copies, &err);
    g_assert_cmpstr(err.text, ==, "");
    g_assert_cmpint(rc, ==, 0);
    return copies;
}

/* Title, folder, then each message as "parent role text". */
static char *describe(GPtrArray *copies)
{
    GString *s = g_string_new(NULL);
    for (guint i = 0; i < copies->len; i++) {
        const AqChatCopy *c = copies->pdata[i];
        g_string_append_printf(s, "[%s|%s|%d]", c->chat->title ? c->chat->title : "-",
                               c->chat->folder ? c->chat->folder : "-", (int)c->chat->leaf);
        for (guint k = 0; k < c->messages->len; k++) {
            const AqStoreMessage *m = c->messages->pdata[k];
            g_assert_cmpint(m->id, ==, k + 1);
            g_assert_cmpint(m->parent, <, m->id);
            g_string_append_printf(s, " %d%c%s", (int)m->parent,
                                   m->role == AQ_MESSAGE_USER ? '?' : '!', m->text);
        }
    }
    return g_string_free(s, FALSE);
}

#define assert_reads(text, expected)                \
    G_STMT_START                                    \
    {                                               \
        g_autoptr(GPtrArray) got_ = read_all(text); \
        g_autofree char *told_ = describe(got_);    \
        g_assert_cmpstr(told_, ==, (expected));     \
    }                                               \
    G_STMT_END

static void assert_refused(const char *text, gsize n, int code, const char *word)
{
    GPtrArray *copies = NULL;
    aq_err err = {0};
    g_assert_cmpint(aq_transfer_read(text, n, &copies, &err), ==, -code);
    g_assert_null(copies);
    g_assert_nonnull(strstr(err.text, word));
}

static AqChatCopy *sample(void)
{
    const AqStoreChat chat = {.id = 700,
                              .created_us = 1700000000000000,
                              .changed_us = 1700000001000000,
                              .leaf = 703,
                              .title = (char *)"Rivers \"and\" <b>",
                              .folder = (char *)"Water",
                              .settings = (char *)"{\"top_k\":7}"};
    const AqStoreMessage in[] = {
        {.created_us = 1700000000000000,
         .id = 701,
         .parent = 0,
         .role = AQ_MESSAGE_USER,
         .text = (char *)"Which?"},
        {.created_us = 1700000000000000,
         .id = 702,
         .parent = 701,
         .role = AQ_MESSAGE_ASSISTANT,
         .state = AQ_MESSAGE_FAILED,
         .text = (char *)"",
         .error = (char *)"no"},
        {.created_us = 1700000000000000,
         .id = 703,
         .parent = 701,
         .role = AQ_MESSAGE_ASSISTANT,
         .state = AQ_MESSAGE_STOPPED,
         .text = (char *)"The \xc3\x84mazon\n",
         .thinking = (char *)"hm",
         .model = (char *)"Guide"},
        {.created_us = 1700000000000000,
         .id = 704,
         .parent = 701,
         .role = AQ_MESSAGE_ASSISTANT,
         .text = (char *)"The Nile"},
    };
    GPtrArray *messages = g_ptr_array_new_with_free_func((GDestroyNotify)aq_store_message_free);
    for (gsize i = 0; i < G_N_ELEMENTS(in); i++)
        g_ptr_array_add(messages, aq_store_message_copy(&in[i]));
    return aq_chat_copy_new(aq_store_chat_copy(&chat), messages);
}

static void test_round(void)
{
    g_autoptr(GPtrArray) copies = g_ptr_array_new_with_free_func((GDestroyNotify)aq_chat_copy_free);
    g_ptr_array_add(copies, sample());
    g_ptr_array_add(copies, sample());
    g_autofree char *json = aq_transfer_json(copies);
    g_autoptr(GPtrArray) back = read_all(json);
    g_autofree char *told = describe(back);
    const char *one = "[Rivers \"and\" <b>|Water|2] 0?Which? 1!The \xc3\x84mazon\n 1!The Nile";
    g_autofree char *two = g_strconcat(one, one, NULL);
    g_assert_cmpstr(told, ==, two);
    const AqChatCopy *c = back->pdata[0];
    const AqStoreMessage *m = c->messages->pdata[1];
    g_assert_cmpstr(c->chat->settings, ==, "{\"top_k\":7}");
    g_assert_cmpint(c->chat->changed_us, ==, 1700000001000000);
    g_assert_cmpint(m->state, ==, AQ_MESSAGE_STOPPED);
    g_assert_cmpstr(m->thinking, ==, "hm");
    g_assert_cmpstr(m->model, ==, "Guide");
    g_autofree char *again = aq_transfer_json(back);
    g_assert_cmpuint(strlen(again), ==, strlen(json));
}

static void test_markdown(void)
{
    AqChatCopy *copy = sample();
    g_autofree char *text = aq_transfer_markdown(copy);
    aq_chat_copy_free(copy);
    g_assert_cmpstr(
        text, ==,
        "# Rivers \"and\" <b>\n\n## Question\n\nWhich?\n\n## Guide\n\nThe \xc3\x84mazon\n");
}

static void test_others(void)
{
    assert_reads("[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},"
                 "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]}]",
                 "[-|-|2] 0?a 1!b");
    assert_reads("{\"title\":\"T\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
                 "[T|-|1] 0?a");
    /* LM Studio: versions, and answers in steps. */
    assert_reads(
        "{\"name\":\"N\",\"createdAt\":1700000000000,\"messages\":[{\"versions\":[{\"role\":"
        "\"user\","
        "\"content\":[{\"type\":\"text\",\"text\":\"old\"}]},{\"role\":\"user\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"new\"}]}],\"currentlySelected\":1},{\"versions\":[{"
        "\"type\":"
        "\"multiStep\",\"role\":\"assistant\",\"steps\":[{\"type\":\"contentBlock\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"b\"}]},{\"type\":\"debugInfoBlock\"}]}],"
        "\"currentlySelected\":9}]}",
        "[N|-|2] 0?new 1!b");
    /* ChatGPT: a tree by name. */
    assert_reads(
        "[{\"title\":\"G\",\"create_time\":1700000000.5,\"current_node\":\"c\",\"mapping\":{"
        "\"r\":{\"message\":null,\"parent\":null},"
        "\"a\":{\"message\":{\"author\":{\"role\":\"user\"},\"content\":{\"parts\":[\"q\"]}},"
        "\"parent\":\"r\"},"
        "\"b\":{\"message\":{\"author\":{\"role\":\"assistant\"},\"content\":{\"parts\":[\"x\"]}},"
        "\"parent\":\"a\"},"
        "\"c\":{\"message\":{\"author\":{\"role\":\"assistant\"},\"content\":{\"parts\":[\"y\","
        "\"z\"]}},\"parent\":\"a\"}}}]",
        "[G|-|2] 0?q 1!y\n\nz");
    /* A ring of parents ends. */
    assert_reads(
        "{\"current_node\":\"a\",\"mapping\":{\"a\":{\"message\":{\"author\":{\"role\":\"user\"},"
        "\"content\":{\"parts\":[\"q\"]}},\"parent\":\"a\"}}}",
        "[-|-|1] 0?q");
}

static void test_hostile(void)
{
    static const struct {
        const char *text;
        int code;
        const char *word;
    } bad[] = {
        {"", AQ_E_FORMAT, "JSON"},
        {"{", AQ_E_FORMAT, "JSON"},
        {"nonsense", AQ_E_FORMAT, "JSON"},
        {"12", AQ_E_FORMAT, "no chats"},
        {"{}", AQ_E_FORMAT, "no chats"},
        {"[]", AQ_E_FORMAT, "no messages"},
        {"[1]", AQ_E_FORMAT, "no chats"},
        {"\"\xff\"", AQ_E_FORMAT, "UTF-8"},
        {"{\"format\":\"aquifer-chats\"}", AQ_E_FORMAT, "version"},
        {"{\"format\":\"aquifer-chats\",\"version\":2,\"chats\":[]}", AQ_E_MISMATCH, "newer"},
        {"{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[3]}", AQ_E_FORMAT, "Chat 1"},
        {"{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[{\"messages\":[{}]}]}",
         AQ_E_FORMAT, "Message 1"},
        {"{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[{\"messages\":[{\"role\":\"user\","
         "\"parent\":1}]}]}",
         AQ_E_FORMAT, "follows"},
        {"{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[{\"messages\":[{\"role\":\"user\","
         "\"parent\":-1}]}]}",
         AQ_E_FORMAT, "follows"},
    };
    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
        assert_refused(bad[i].text, strlen(bad[i].text), bad[i].code, bad[i].word);
    /* Depth: told before json-glib, which recurses, sees it. */
    g_autofree char *deep = g_strnfill(1000000, '[');
    assert_refused(deep, 1000000, AQ_E_LIMIT, "deeper");
    /* Size: nothing of it is looked at. */
    assert_refused("", (gsize)AQ_TRANSFER_MAX_BYTES + 1, AQ_E_LIMIT, "at most");
    /* Brackets in a string are none. */
    g_autofree char *brackets =
        g_strdup_printf("[{\"role\":\"user\",\"content\":\"\\\"%.*s\"}]", 1000, deep);
    g_autoptr(GPtrArray) copies = read_all(brackets);
    g_assert_cmpuint(copies->len, ==, 1);
    /* Values of other kinds than they should be. */
    assert_reads("{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[{\"title\":[],\"folder\":"
                 "7,\"leaf\":99,\"created\":"
                 "\"never\",\"settings\":\"x\",\"messages\":[{\"role\":\"user\",\"text\":5,"
                 "\"thinking\":{},\"files\":[1,{}]}]}]}",
                 "[-|-|1] 0?");
    /* Files that could not have been attached. */
    g_autoptr(GPtrArray) filed =
        read_all("{\"format\":\"aquifer-chats\",\"version\":1,\"chats\":[{\"messages\":[{\"role\":"
                 "\"user\",\"text\":\"a\",\"files\":[{\"name\":\"no text\"},{\"name\":\"empty\","
                 "\"text\":\"\"},{\"name\":\"kept\",\"text\":\"b\"}]}]}]}");
    const AqStoreMessage *m = ((const AqChatCopy *)filed->pdata[0])->messages->pdata[0];
    g_assert_cmpuint(m->files->len, ==, 1);
    g_assert_cmpstr(aq_file_get_name(m->files->pdata[0]), ==, "kept");
}

/* What is chosen in the folder, offered, which filter; what it becomes. */
static void assert_target(const char *folder, const char *chosen, const char *proposed,
                          AqTransferKind filter, gboolean all, const char *name,
                          AqTransferKind kind)
{
    g_autoptr(GFile) parent = g_file_new_for_path(folder);
    g_autoptr(GFile) file = g_file_get_child(parent, chosen);
    g_autoptr(GFile) expected = g_file_get_child(parent, name);
    g_autoptr(GFile) target = aq_transfer_target(file, proposed, all, &filter);
    g_autofree char *got = g_file_get_path(target), *want = g_file_get_path(expected);
    g_assert_cmpstr(got, ==, want);
    g_assert_cmpint(filter, ==, kind);
}

static void test_target(void)
{
    const AqTransferKind md = AQ_TRANSFER_MARKDOWN, json = AQ_TRANSFER_JSON;
    /* What was offered and taken: the filter decides. */
    assert_target("/f", "Rivers.md", "Rivers.md", md, FALSE, "Rivers.md", md);
    assert_target("/f", "Rivers.json", "Rivers.json", json, FALSE, "Rivers.json", json);
    assert_target("/f", "Rivers.md", "Rivers.md", json, FALSE, "Rivers.json", json);
    /* A name without an ending, or with one that says nothing. */
    assert_target("/f", "lakes", "Rivers.md", md, FALSE, "lakes.md", md);
    assert_target("/f", "lakes", "Rivers.md", json, FALSE, "lakes.json", json);
    assert_target("/f", "v1.2", "Rivers.md", json, FALSE, "v1.2.json", json);
    assert_target("/f", ".json", "Rivers.md", md, FALSE, ".json.md", md);
    /* An ending that was written decides. */
    assert_target("/f", "lakes.json", "Rivers.md", md, FALSE, "lakes.json", json);
    assert_target("/f", "LAKES.JSON", "Rivers.md", md, FALSE, "LAKES.JSON", json);
    assert_target("/f", "lakes.md", "Rivers.json", json, FALSE, "lakes.md", md);
    /* All chats are JSON. */
    assert_target("/f", "all", "aquifer-chats.json", json, TRUE, "all.json", json);
    assert_target("/f", "all.md", "aquifer-chats.json", json, TRUE, "all.json", json);
    /* Of a portal: no other file can be written. */
    g_autofree char *doc = g_build_filename(g_get_user_runtime_dir(), "doc", "1a2b", NULL);
    assert_target(doc, "Rivers.md", "Rivers.md", json, FALSE, "Rivers.md", json);
    assert_target(doc, "lakes", "Rivers.md", json, FALSE, "lakes", json);
    assert_target(doc, "lakes.json", "Rivers.md", md, FALSE, "lakes.json", json);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C.UTF-8");
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/transfer/round", test_round);
    g_test_add_func("/transfer/markdown", test_markdown);
    g_test_add_func("/transfer/others", test_others);
    g_test_add_func("/transfer/hostile", test_hostile);
    g_test_add_func("/transfer/target", test_target);
    return g_test_run();
}
