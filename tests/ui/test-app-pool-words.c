/* SPDX-License-Identifier: Apache-2.0 */
/* What the pool tells: each kind of trouble has words of its own, with the PC's name and something to do. */
#include "aq-pool-words.h"

#include <string.h>

static void test_trouble(void)
{
    static const struct {
        int code;
        const char *title, *hint;
    } words[] = {
        {AQ_E_BUSY, "Laptop Is Busy", "It starts by itself when that PC is free."},
        {AQ_E_GONE, "Laptop Does Not Answer",
         "It starts by itself when that PC is there and its Pool is on."},
        {AQ_E_TIMEOUT, "Laptop Does Not Answer",
         "It starts by itself when that PC is there and its Pool is on."},
        {AQ_E_AUTH, "Laptop Does Not Allow It",
         "Allow layers on that PC. If it removed this one: leave the pool here, and pair again."},
        {AQ_E_MISMATCH, "Laptop Has Another File, or None",
         "Copy the very same file into the folder of models there."},
        {AQ_E_PROTO, "Laptop Has Another Version", "Update Aquifer on the older PC."},
        {AQ_E_NOMEM, "Not Enough Memory with Laptop",
         "Move layers to the other PC, or close programs."},
        {AQ_E_DEVICE, "Laptop Could Not Be Used", ""},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
        g_autofree char *title = NULL;
        const char *hint = NULL;
        aq_pool_words_trouble(words[i].code, "Laptop", &title, &hint);
        g_assert_cmpstr(title, ==, words[i].title);
        g_assert_cmpstr(hint, ==, words[i].hint);
    }
}

static void test_name(void)
{
    g_autofree char *title = NULL;
    const char *hint;
    aq_pool_words_trouble(AQ_E_BUSY, "100 %s %n", &title, &hint);
    g_assert_cmpstr(title, ==, "100 %s %n Is Busy");
}

static void test_reach(void)
{
    g_assert_null(aq_pool_words_reach("Laptop", AQ_REACH_ANSWERS, AQ_REACH_ANSWERS, 7710));
    g_assert_null(aq_pool_words_reach("Laptop", AQ_REACH_ANSWERS, AQ_REACH_UNTRIED, 7710));
    g_assert_null(aq_pool_words_reach("Laptop", AQ_REACH_REFUSED, AQ_REACH_REFUSED, 7710));
    for (aq_reach r = AQ_REACH_SILENT; r <= AQ_REACH_BLOCKED; r++) {
        g_autofree char *in = aq_pool_words_reach("Laptop", AQ_REACH_ANSWERS, r, 7711);
        g_autofree char *out = aq_pool_words_reach("Laptop", r, AQ_REACH_UNTRIED, 7711);
        g_assert_nonnull(strstr(in, "Laptop cannot call this PC"));
        g_assert_nonnull(strstr(in, "TCP port 7711"));
        g_assert_nonnull(strstr(out, "This PC cannot call Laptop"));
    }
}

static void test_same_names(void)
{
    g_autofree aq_seat_state *st = g_new0(aq_seat_state, 1);
    g_autofree char *long_name = g_strnfill(AQ_NAME_MAX, 'x');

    st->n_pc = 6;
    st->pc[0].self = TRUE;
    for (guint i = 0; i < 3; i++)
        g_strlcpy(st->pc[i].name, "Laptop", sizeof st->pc[i].name);
    g_strlcpy(st->pc[3].name, "Studio", sizeof st->pc[3].name);
    memcpy(long_name + AQ_NAME_MAX - 10, "\303\244\303\244\303\244\303\244\303\244", 10);
    for (guint i = 4; i < 6; i++)
        g_strlcpy(st->pc[i].name, long_name, sizeof st->pc[i].name);
    st->pc[1].n_addr = st->pc[4].n_addr = st->pc[5].n_addr = 1;
    g_strlcpy(st->pc[1].addr[0], "192.168.1.7:7710", sizeof st->pc[1].addr[0]);
    g_strlcpy(st->pc[4].addr[0], "10.0.0.7:7710", sizeof st->pc[4].addr[0]);
    g_strlcpy(st->pc[5].addr[0], "[fe80::7%eth0]:7710", sizeof st->pc[5].addr[0]);
    memset(st->pc[2].id.b, 0x2a, sizeof st->pc[2].id.b);
    aq_pool_words_tell_apart(st);
    g_assert_cmpstr(st->pc[0].name, ==, "Laptop");
    g_assert_cmpstr(st->pc[1].name, ==, "Laptop (192.168.1.7)");
    g_assert_cmpstr(st->pc[2].name, ==, "Laptop (2a2a2a2a)");
    g_assert_cmpstr(st->pc[3].name, ==, "Studio");
    for (guint i = 4; i < 6; i++)
        g_assert_true(g_utf8_validate(st->pc[i].name, -1, NULL));
    g_assert_true(g_str_has_suffix(st->pc[4].name, " (10.0.0.7)"));
    g_assert_true(g_str_has_suffix(st->pc[5].name, " ([fe80::7%eth0])"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pool-words/trouble", test_trouble);
    g_test_add_func("/pool-words/name", test_name);
    g_test_add_func("/pool-words/reach", test_reach);
    g_test_add_func("/pool-words/same-names", test_same_names);
    return g_test_run();
}
