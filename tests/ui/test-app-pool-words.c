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
        {AQ_E_AUTH, "Laptop Does Not Allow It", "Allow layers on that PC, or pair again."},
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pool-words/trouble", test_trouble);
    g_test_add_func("/pool-words/name", test_name);
    g_test_add_func("/pool-words/reach", test_reach);
    return g_test_run();
}
