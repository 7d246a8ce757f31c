/* SPDX-License-Identifier: Apache-2.0 */
/* Where a model is parted when nobody says it. */
#include "split-priv.h"
#include "tap.h"

#define MB 1000000ull

static const uint8_t everywhere[7] = {1, 1, 1, 1, 1, 1, 1};
static const uint8_t pairs[7] = {1, 0, 1, 0, 1, 0, 1};
static const uint64_t layer[6] = {100 * MB, 100 * MB, 100 * MB, 100 * MB, 100 * MB, 100 * MB};

/* Six layers of 100 MB with 60 MB of KV cache each, and 50 MB of ends: 1,010 MB. */
static const aq_state_cfg state = {.n_page = 10};

static uint32_t choose(const uint8_t *cut_ok, uint64_t here, uint64_t there, aq_err *err)
{
    aq_model_info in = {.n_layer = 6,
                        .cut_ok = cut_ok,
                        .layer_bytes = layer,
                        .ends_bytes = 50 * MB,
                        .kv_f16_bytes_tok = 6 * 60 * MB / (10 * AQ_PAGE_TOK)};
    uint32_t cut = 99;

    return aq_cut_choose(&in, &state, here * MB, there * MB, "Laptop", &cut, err) < 0 ? 0 : cut;
}

/* What is checked before a PC loads its part. */
static void test_check(void)
{
    aq_model_info in = {
        .n_layer = 6, .cut_ok = everywhere, .layer_bytes = layer, .ends_bytes = 1ull << 50};
    const aq_state_cfg none = {0};
    aq_err err = {0};

    ok(aq_layers_check_memory(&in, 0, 1, false, &none, &err) == AQ_OK, "a layer fits here");
    ok(aq_layers_check_memory(&in, 0, 1, true, &none, &err) == -AQ_E_NOMEM &&
           strstr(err.text, "embedding and head") && strstr(err.text, "1125900.01 GB"),
       "with embedding and head, where they are, it does not: %s", err.text);
}

int main(void)
{
    aq_err err = {0};

    test_check();

    ok(choose(everywhere, 9000, 9000, &err) == 3, "room on both: half");
    ok(choose(everywhere, 20000, 9000, &err) == 3, "more memory here changes nothing");
    ok(choose(everywhere, 9000, 480, &err) == 3, "half just fits there");
    ok(choose(everywhere, 9000, 479, &err) == 4,
       "a little less than half there: one layer more here");
    ok(choose(everywhere, 529, 9000, &err) == 2,
       "less here, where the ends are: one layer fewer here");
    ok(choose(pairs, 9000, 9000, &err) == 2, "only where the model can be parted");
    ok(choose(pairs, 400, 9000, &err) == 2 && choose(pairs, 369, 9000, &err) == 0,
       "two layers and the ends are the least here");
    ok(choose(everywhere, 400, 500, &err) == 0 && err.code == AQ_E_NOMEM &&
           strstr(err.text, "1.01 GB") && strstr(err.text, "0.40 GB") &&
           strstr(err.text, "Laptop has 0.50 GB"),
       "it fits nowhere: the three numbers (%s)", err.text);
    ok(choose((const uint8_t[7]){1, 0, 0, 0, 0, 0, 1}, 9000, 9000, &err) == 0 &&
           err.code == AQ_E_UNSUPPORTED,
       "a model that cannot be parted (%s)", err.text);
    return tap_done();
}
